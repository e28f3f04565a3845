//! Every field of every protocol: what their rooms describe, put together.

use crate::field::registry::{Layer, Registry};
use crate::{infiniband, iwarp, net, nfs, rpc, rpcrdma};

/// Every field of every structure, at the layer where it is told.
pub fn all() -> Registry {
    let mut registry = Registry::default();
    let frame = registry.at(Layer::Frame);
    net::describe(frame);
    infiniband::describe(frame);
    infiniband::describe_management(registry.at(Layer::Management));
    iwarp::describe(registry.at(Layer::Iwarp));
    rpcrdma::private_data::describe(registry.at(Layer::PrivateData));
    rpcrdma::describe(registry.at(Layer::RpcRdma));
    rpc::describe(registry.at(Layer::Rpc));
    nfs::describe(registry.at(Layer::Procedure));
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Kind;
    use crate::field::registry::Place;

    #[test]
    fn every_field_says_where_it_is_defined_and_means_one_thing() {
        let registry = all();
        let unsaid =
            registry.fields().filter(|(_, places)| places.iter().any(|place| place.said().source.is_empty()));
        assert_eq!(unsaid.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
        for (name, places) in registry.fields() {
            // A structure may be called as one of its values; everything else of a name is of one kind.
            let values = || places.iter().filter(|place| !place.is_group()).map(|place| place.field.kind);
            let class = |kind| match kind {
                Kind::Unsigned | Kind::Hex(_) | Kind::Signed | Kind::Enum | Kind::Flags => Kind::Unsigned,
                other => other,
            };
            assert!(values().all(|kind| Some(class(kind)) == values().next().map(class)), "{name}");
        }
    }

    #[test]
    fn a_field_of_a_structure_of_structures_is_found_under_its_name() {
        let registry = all();
        let find =
            |wanted: &str| registry.fields().find(|(name, _)| *name == wanted).map(|(_, places)| places);
        let opcode = find("nfs.opcode").unwrap();
        assert!(opcode[0].names.contains(&(25, "READ")));
        assert_eq!(find("rpc.msgtyp").unwrap()[0].names, [(0, "CALL"), (1, "REPLY")]);
        let eof = find("nfs.eof").unwrap();
        let read = eof.iter().map(Place::said).find(|said| said.text == "eof of READ4resok").unwrap();
        assert_eq!(read.source, "RFC 8881 section 18.22.2");
        assert!(find("infiniband.bth.destqp").is_some() && find("ip.src").is_some());
        assert!(find("nfs.fattr4.size").is_some());
    }
}
