//! Registry of every field of every protocol.

use crate::field::registry::{FieldDecodeLayer, FieldRegistry};
use crate::{infiniband, iwarp, net, nfs, rpc, rpcrdma};

/// Returns every field of every structure with the layer that reports it.
pub fn all_fields() -> FieldRegistry {
    let mut registry = FieldRegistry::default();
    let frame = registry.set_layer(FieldDecodeLayer::Frame);
    net::describe(frame);
    infiniband::describe(frame);
    infiniband::describe_management(registry.set_layer(FieldDecodeLayer::Management));
    iwarp::describe(registry.set_layer(FieldDecodeLayer::Iwarp));
    rpcrdma::private_data::describe(registry.set_layer(FieldDecodeLayer::PrivateData));
    rpcrdma::describe(registry.set_layer(FieldDecodeLayer::RpcRdma));
    rpc::describe(registry.set_layer(FieldDecodeLayer::Rpc));
    nfs::describe(registry.set_layer(FieldDecodeLayer::Procedure));
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldKind;
    use crate::field::registry::{RegisteredField, XDR_FILE_PREFIXES};
    use crate::nfs::field_labels;

    #[test]
    fn every_field_has_a_source_and_one_kind() {
        let registry = all_fields();
        let unsaid = registry.fields().filter(|(_, places)| places.iter().any(|place| place.doc().source.is_empty()));
        assert_eq!(unsaid.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
        for (name, places) in registry.fields() {
            // A structure may have the same name as one of its values; all other fields of a name have one kind.
            let values = || places.iter().filter(|place| !place.is_group()).map(|place| place.field.kind);
            let class = |kind| match kind {
                FieldKind::Unsigned | FieldKind::Hex(_) | FieldKind::Signed | FieldKind::Enum | FieldKind::Flags => {
                    FieldKind::Unsigned
                }
                other => other,
            };
            assert!(values().all(|kind| Some(class(kind)) == values().next().map(class)), "{name}");
        }
    }

    #[test]
    fn rfc1813_section_2_6_labels_of_weak_cache_consistency_data_are_complete() {
        // Arguments, attributes of a procedure's own object, and NFSv4.
        const OTHERS: [&str; 5] =
            ["obj_attributes", "new_attributes", "dev_attributes", "pipe_attributes", "attributes"];
        let registry = all_fields();
        for label in registry.fields().flat_map(|(_, fields)| fields).map(|entry| entry.field.label) {
            let is_known = field_labels::WCC_DATA.contains(&label) || field_labels::POST_OP_ATTRIBUTES.contains(&label);
            let is_other = OTHERS.contains(&label) || label.starts_with("gdd");
            if label.ends_with("_wcc") || label.ends_with("_attributes") && !is_other {
                assert!(is_known, "{label}");
            }
        }
        for label in field_labels::DIRECTORY_WCC_DATA {
            assert!(field_labels::WCC_DATA.contains(label) && label.contains("dir_wcc"), "{label}");
        }
    }

    #[test]
    fn fields_of_xdr_files_are_in_the_catalog() {
        let registry = all_fields();
        for (prefix, _) in XDR_FILE_PREFIXES {
            assert!(registry.fields().any(|(name, _)| name.starts_with(prefix)), "{prefix}");
        }
    }

    #[test]
    fn a_field_of_a_structure_of_structures_is_found_under_its_name() {
        let registry = all_fields();
        let find = |wanted: &str| registry.fields().find(|(name, _)| *name == wanted).map(|(_, places)| places);
        let opcode = find("nfs.opcode").unwrap();
        assert!(opcode[0].names.contains(&(25, "READ")));
        assert_eq!(find("rpc.msgtyp").unwrap()[0].names, [(0, "CALL"), (1, "REPLY")]);
        let eof = find("nfs.eof").unwrap();
        let read = eof.iter().map(RegisteredField::doc).find(|said| said.text == "eof of READ4resok").unwrap();
        assert_eq!(read.source, "RFC 8881 section 18.22.2");
        assert!(find("infiniband.bth.destqp").is_some() && find("ip.src").is_some());
        assert!(find("nfs.fattr4.size").is_some());
    }
}
