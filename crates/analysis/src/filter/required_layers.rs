//! Layers to decode for the fields that a filter uses.

use nfsrdma_dissectors::field::registry::FieldDecodeLayer;

use super::catalog::{FilterFieldCatalog, FilterFieldSource};
use super::derived_fields::GeneratedField;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredLayers {
    /// Generated fields of the frame.
    pub(super) frame: bool,
    pub(super) headers: bool,
    pub(super) management: bool,
    /// iWARP headers in a TCP stream.
    pub(super) iwarp: bool,
    pub(super) rpcrdma: bool,
    pub(super) rpc: bool,
    /// Arguments or results.
    pub(super) procedure: bool,
    /// A protocol without a header.
    pub(super) bare_protocols: bool,
    /// Generated fields of a message.
    pub(super) message: bool,
    /// Generated fields of a Transaction.
    pub(super) transaction: bool,
    /// Those generated fields of a Transaction that need its messages to be decoded.
    pub(super) outcome: bool,
}

impl RequiredLayers {
    /// Returns `true` if frames have their own values.
    pub(super) fn needs_frame(self) -> bool {
        self.frame || self.headers || self.management
    }

    /// Returns `true` if messages have their own values.
    pub(super) fn needs_message(self) -> bool {
        self.rpcrdma || self.rpc || self.procedure || self.message
    }

    fn add_all(&mut self, names: &[&str]) {
        for entry in names.iter().filter_map(|name| FilterFieldCatalog::shared().get(name)) {
            self.add(&entry.origin);
        }
    }

    /// Adds the layers for a field of this origin.
    pub(super) fn add(&mut self, origin: &FilterFieldSource) {
        match origin {
            FilterFieldSource::Structure(layers) | FilterFieldSource::Protocol(layers) => {
                self.bare_protocols |= matches!(origin, FilterFieldSource::Protocol(_));
                for layer in layers {
                    match layer {
                        FieldDecodeLayer::Frame => self.headers = true,
                        FieldDecodeLayer::Management => (self.headers, self.management) = (true, true),
                        FieldDecodeLayer::Iwarp => (self.headers, self.iwarp) = (true, true),
                        FieldDecodeLayer::PrivateData => {
                            (self.headers, self.management, self.iwarp) = (true, true, true);
                        }
                        FieldDecodeLayer::RpcRdma => self.rpcrdma = true,
                        FieldDecodeLayer::Rpc => self.rpc = true,
                        FieldDecodeLayer::Procedure => self.procedure = true,
                    }
                }
            }
            FilterFieldSource::Generated(GeneratedField::Protocols) => {
                self.frame = true;
                (self.headers, self.iwarp, self.bare_protocols) = (true, true, true);
                (self.rpcrdma, self.rpc, self.procedure) = (true, true, true);
            }
            FilterFieldSource::Generated(GeneratedField::UdpPayload | GeneratedField::Arp) => self.headers = true,
            FilterFieldSource::Generated(field) if GeneratedField::CHUNK_LISTS.contains(field) => self.rpcrdma = true,
            FilterFieldSource::Generated(field)
                if GeneratedField::FRAME.contains(field) || GeneratedField::PAYLOAD.contains(field) =>
            {
                self.frame = true
            }
            FilterFieldSource::Generated(field) if GeneratedField::MESSAGE.contains(field) => self.message = true,
            FilterFieldSource::Generated(field) => {
                self.transaction = true;
                self.outcome |= GeneratedField::OUTCOME.contains(field);
            }
            FilterFieldSource::Procedure(_) => self.message = true,
            FilterFieldSource::Alias(alias) => self.add_all(alias.of),
            FilterFieldSource::Bit(bit) => self.add_all(&bit.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    #[test]
    fn only_layers_that_hold_a_named_field_are_required() {
        let wants = |filter: &str| {
            let mut wants = RequiredLayers::default();
            Filter::parse(filter).unwrap().fields.iter().for_each(|field| wants.add(&field.origin));
            wants
        };
        assert_eq!(wants("infiniband.bth.opcode == 4"), RequiredLayers { headers: true, ..RequiredLayers::default() });
        assert_eq!(wants("rpcordma.xid"), RequiredLayers { rpcrdma: true, ..RequiredLayers::default() });
        assert_eq!(wants("rpc.xid"), RequiredLayers { rpc: true, ..RequiredLayers::default() });
        assert_eq!(wants("nfs.status == 0"), RequiredLayers { procedure: true, ..RequiredLayers::default() });
        assert_eq!(wants("frame.len > 5"), RequiredLayers { frame: true, ..RequiredLayers::default() });
        assert_eq!(wants("nfsrdma.latency > 5"), RequiredLayers { transaction: true, ..RequiredLayers::default() });
        assert_eq!(wants("rpc.time > 5"), RequiredLayers { message: true, ..RequiredLayers::default() });
        let management = wants("infiniband.cm.req");
        assert_eq!(management, RequiredLayers { headers: true, management: true, ..RequiredLayers::default() });
    }
}
