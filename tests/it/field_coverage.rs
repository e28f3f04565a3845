//! Fields that decoders report for real captures: they cover every byte of a complete message, and every reported field
//! is in the registry, under its name and with its type.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::ops::Range;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::catalog;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use nfsrdma_dissectors::infiniband::cm;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::net::NetworkLayerPayload;
use nfsrdma_dissectors::nfs::v4::{Attribute, BitmapKeyedValue};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::TransactionMessages;
use nfsrdma_flow::{Flow, FlowLimits, Transaction, observe_segment};

use crate::captures;

/// Observer that records the reported fields, each with the kinds of its values.
#[derive(Default)]
pub(crate) struct ReportedFields {
    by_place: BTreeMap<usize, (&'static FieldDefinition, BTreeSet<&'static str>)>,
}

impl ReportedFields {
    fn record(&mut self, field: &'static FieldDefinition, what: &'static str) {
        let reported = self.by_place.entry(std::ptr::from_ref(field).addr());
        reported.or_insert_with(|| (field, BTreeSet::new())).1.insert(what);
    }

    /// Returns the names of the fields.
    pub(crate) fn names(&self) -> BTreeSet<&'static str> {
        self.by_place.values().map(|(field, _)| field.name).collect()
    }
}

fn kind_of(value: &FieldValue<'_>) -> &'static str {
    match value {
        FieldValue::Unsigned(_) => "unsigned",
        FieldValue::Signed(_) => "signed",
        FieldValue::Bool(_) => "bool",
        FieldValue::Enum(..) => "enum",
        FieldValue::Flags(..) => "flags",
        FieldValue::Bytes(_) => "bytes",
        FieldValue::Text(_) => "text",
        FieldValue::Ipv4(_) => "ipv4",
        FieldValue::Ipv6(_) => "ipv6",
        FieldValue::Ethernet(_) => "ethernet",
        FieldValue::Chunk(..) => "chunk",
    }
}

impl<'a> FieldObserver<'a> for ReportedFields {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        self.record(field, "group");
    }

    fn leave(&mut self, _: usize) {}

    fn time(&mut self, field: &'static FieldDefinition, _: i128) {
        self.record(field, "time");
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        self.record(field, kind_of(&value));
    }
}

/// Returns the kinds of values that a field of this kind may have.
fn reported_kinds(kind: FieldKind) -> &'static [&'static str] {
    match kind {
        // A structure that fills an item is reported as bytes if the item contains something else.
        FieldKind::Group => &["group", "bytes"],
        FieldKind::Time | FieldKind::Duration => &["group", "time"],
        FieldKind::Unsigned | FieldKind::Hex(_) => &["unsigned"],
        FieldKind::Signed => &["signed"],
        FieldKind::Bool => &["bool"],
        FieldKind::Enum => &["enum"],
        FieldKind::Flags => &["flags"],
        FieldKind::Bytes => &["bytes", "chunk"],
        FieldKind::Text => &["text", "chunk"],
        FieldKind::Ipv4 => &["ipv4"],
        FieldKind::Ipv6 => &["ipv6"],
        FieldKind::Ethernet => &["ethernet"],
    }
}

/// Runs a capture with observed frames, and passes each Transaction to `read`.
fn run(
    capture: &str,
    reported: &mut ReportedFields,
    mut read: impl FnMut(&Transaction, &TransactionMessages<'_>, &mut ReportedFields),
) {
    let mut source = CaptureFrameSource::from_reader(capture, Cursor::new(captures::bytes(capture)));
    let mut flow = Flow::new(FlowLimits::default());
    let mut give = |flow: &mut Flow, reported: &mut ReportedFields| {
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|reading| read(&transaction, reading, reported));
        }
    };
    while let Some(frame) = source.next().unwrap() {
        let (datagram, _) = flow.process_frame_observed(&frame, reported);
        match &datagram.payload {
            NetworkLayerPayload::Infiniband(packet) => {
                let message = Mad::from_packet(packet, reported).and_then(|mad| cm::CmMessage::decode(&mad, reported));
                if let Some(private) = message.as_ref().and_then(cm::CmMessage::private_data) {
                    PrivateData::find(private.bytes, private.at, reported);
                }
            }
            NetworkLayerPayload::Tcp(segment) if flow.is_iwarp() => observe_segment(segment.payload, reported),
            _ => {}
        }
        give(&mut flow, reported);
    }
    flow.finish();
    give(&mut flow, reported);
}

/// Returns the fields reported for a capture.
pub(crate) fn reported(capture: &str) -> ReportedFields {
    let mut reported = ReportedFields::default();
    run(capture, &mut reported, |_, reading, reported| {
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            // Values decoded before an error remain: some captures are truncated.
            let _ = reading.observe_rpcrdma(which, reported);
            let _ = reading.observe_rpc(which, reported);
        }
    });
    reported
}

/// Observer that records the covered bytes.
struct Covered {
    base: usize,
    is_covered: Vec<bool>,
    unread: BTreeSet<&'static str>,
}

impl Covered {
    fn new(base: usize, length: usize) -> Self {
        Self { base, is_covered: vec![false; length], unread: BTreeSet::new() }
    }

    fn cover(&mut self, bytes: Range<usize>) {
        let range = bytes.start.saturating_sub(self.base)..bytes.end.saturating_sub(self.base);
        self.is_covered.get_mut(range).expect("what is reported lies in the message").fill(true);
    }

    /// Returns the ranges of bytes that no field covers.
    fn uncovered(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in (0..self.is_covered.len()).filter(|at| !self.is_covered[*at]).map(|at| at + self.base) {
            match ranges.last_mut() {
                Some(range) if range.end == at => range.end += 1,
                _ => ranges.push(at..at + 1),
            }
        }
        ranges
    }
}

impl<'a> FieldObserver<'a> for Covered {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn structural_bytes(&mut self, bytes: Range<usize>) {
        self.cover(bytes);
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, _: FieldValue<'a>) {
        // Fields that represent undecoded data.
        let unread = ["nfs.undecoded", <Attribute<'_> as BitmapKeyedValue<'_>>::VALUES.name];
        if unread.contains(&field.name) {
            self.unread.insert(field.name);
        } else {
            self.cover(bytes);
        }
    }
}

/// Checks a capture, and returns its number of messages.
fn every_byte_is_covered(capture: &str) -> u64 {
    let mut messages = 0;
    run(capture, &mut ReportedFields::default(), |transaction, reading, _| {
        if !transaction.missing_parts().is_empty() {
            return;
        }
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            // RDMA_ERROR has no RPC message.
            let record = transaction.message(which).filter(|record| !record.is_rdma_error());
            let Some(record) = record else { continue };
            let at = format!("{capture}: the {which:?} in {:?} of {transaction:?}", record.frames);
            let header = record.rpc_offset.filter(|_| record.rpcrdma.is_some()).unwrap_or(0);
            let mut covered = Covered::new(0, header);
            reading.observe_rpcrdma(which, &mut covered).unwrap();
            assert!(covered.uncovered().is_empty(), "RPC-over-RDMA header: {at}");

            let (bytes, base) = reading.rpc_bytes(which).unwrap();
            let mut covered = Covered::new(base, bytes.len());
            reading.observe_rpc(which, &mut covered).unwrap_or_else(|error| panic!("{error}: {at}"));
            assert_eq!((covered.uncovered(), &covered.unread), (vec![], &BTreeSet::new()), "{at}");
            messages += 1;
        }
    });
    messages
}

#[test]
fn no_byte_of_a_complete_message_is_left_out() {
    let mut messages = 0;
    for capture in captures::ALL {
        let of_capture = every_byte_is_covered(capture);
        assert!(of_capture > 0, "{capture} has no complete message");
        messages += of_capture;
    }
    // The messages of `encode`, except those of incomplete Transactions.
    assert!(messages > 7_000, "{messages} messages");
}

#[test]
fn every_reported_field_is_in_the_registry_with_its_type() {
    let registry = catalog::all_fields();
    let known: BTreeMap<&str, Vec<FieldKind>> =
        registry.fields().map(|(name, places)| (name, places.iter().map(|place| place.field.kind).collect())).collect();
    for capture in captures::ALL {
        for (field, reports) in reported(capture).by_place.values() {
            // A group without a name exists only in the notation.
            if field.name.is_empty() {
                continue;
            }
            let kinds = known.get(field.name).unwrap_or_else(|| panic!("{capture}: {} is unknown", field.name));
            assert!(kinds.contains(&field.kind), "{capture}: {} is reported as {:?}", field.name, field.kind);
            let may_be = reported_kinds(field.kind);
            assert!(
                reports.iter().all(|what| may_be.contains(what)),
                "{capture}: {field:?} is reported as {reports:?}"
            );
        }
    }
}
