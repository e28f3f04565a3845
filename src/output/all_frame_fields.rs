//! All fields of a frame by name: its headers, and the messages that it completes.

use std::ops::Range;

use nfsrdma_analysis::filter::OutputFieldValue;
use nfsrdma_analysis::filter::catalog::FilterType;
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use nfsrdma_dissectors::infiniband::cm;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::net::{self, NetworkLayerPayload};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_flow::{Flow, FrameContentKind, observe_segment};
use rustc_hash::FxHashMap;

use super::tshark_field_value::format_value;

/// Values of every field of a frame, in the order of first occurrence.
#[derive(Debug, Default)]
pub(super) struct FrameFieldValues {
    members: Vec<(&'static str, Vec<String>)>,
    indexes: FxHashMap<&'static str, usize>,
}

impl FrameFieldValues {
    /// Replaces the values with those of `frame`.
    pub(super) fn replace_with(&mut self, frame: &Frame<'_>, flow: &Flow) {
        self.members.clear();
        self.indexes.clear();
        let datagram = net::decode(frame, self);
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => {
                if let Some(mad) = Mad::from_packet(packet, self)
                    && let Some(message) = cm::CmMessage::decode(&mad, self)
                    && let Some(private) = message.private_data()
                {
                    PrivateData::find(private.bytes, private.at, self);
                }
            }
            NetworkLayerPayload::Tcp(segment) if flow.is_iwarp() => observe_segment(segment.payload, self),
            _ => {}
        }
        for frame_kind in flow.frame_kinds() {
            if let FrameContentKind::Message { key, which } | FrameContentKind::Retransmission { key, which } =
                *frame_kind
                && let Some(transaction) = flow.transaction(key)
            {
                transaction.with_messages(|messages| {
                    // Values decoded before an error remain.
                    let _ = messages.observe(which, self);
                });
            }
        }
    }

    /// Returns each field with its values.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        self.members.iter().map(|(name, values)| (*name, values.as_slice()))
    }

    fn add(&mut self, field: &'static FieldDefinition, value: OutputFieldValue<'_>) {
        if field.name.is_empty() {
            return;
        }
        let index = *self.indexes.entry(field.name).or_insert_with(|| {
            self.members.push((field.name, Vec::new()));
            self.members.len() - 1
        });
        if let Some((_, values)) = self.members.get_mut(index) {
            values.push(format_value((field.name, FilterType::from_field(field.name, field.kind)), value));
        }
    }
}

impl<'a> FieldObserver<'a> for FrameFieldValues {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
        let is_moment = field.kind == FieldKind::Time;
        self.add(
            field,
            if is_moment { OutputFieldValue::Time(nanoseconds) } else { OutputFieldValue::Duration(nanoseconds) },
        );
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        self.add(field, OutputFieldValue::from_field(field.kind, &value));
    }
}
