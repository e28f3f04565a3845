//! Small captures of RPC-over-RDMA conversations that were decoded wrongly: Read lists in any order, refused chunks, and
//! packets that are sent again (`captures/cases/README.md`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod common;

use std::ops::Range;

use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_flow::transaction::{DeliveryEvidence, EndpointRole, RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::{OriginalAndReencodedMessage, RpcSummary};
use nfsrdma_flow::{Flow, FlowLimits};

/// A case: its Transactions, findings, and the number of frames without meaning.
struct Case {
    transactions: Vec<Transaction>,
    findings: Vec<Finding>,
    undecoded: u64,
}

impl Case {
    fn read(name: &str) -> Self {
        let frames = common::frames_of(&format!("cases/{name}.pcap"));
        let mut transactions = Vec::new();
        let (findings, _) = common::judge(frames.iter().map(common::StoredFrame::whole), |one| transactions.push(one));
        let mut flow = Flow::new(FlowLimits::default());
        for frame in &frames {
            flow.process_frame(&frame.whole());
        }
        flow.finish();
        let undecoded = flow.stats().undecoded_counts().map(|(_, count)| count).sum();
        Self { transactions, findings, undecoded }
    }

    fn transaction(&self, xid: u32) -> &Transaction {
        self.transactions.iter().find(|one| one.xid.0 == xid).unwrap()
    }

    /// Returns the rules with findings above severity info, and the sides.
    fn faults(&self) -> Vec<(&'static str, EndpointRole)> {
        let faults = self.findings.iter().filter(|finding| finding.severity > ReportedFindingSeverity::Known);
        faults.map(|finding| (finding.rule.id, finding.side)).collect()
    }
}

fn summary(transaction: &Transaction) -> RpcSummary {
    transaction.with_messages(|messages| messages.summary())
}

fn missing(transaction: &Transaction) -> Vec<String> {
    summary(transaction).missing(transaction).iter().map(ToString::to_string).collect()
}

/// Values of fields of the Call: data items in chunks, names, numbers of operations.
#[derive(Default)]
struct Fields {
    data_lengths: Vec<u32>,
    operations: Vec<u64>,
    texts: Vec<Vec<u8>>,
}

impl<'a> FieldObserver<'a> for Fields {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        match (field.name, value) {
            ("nfs.data", FieldValue::Chunk(length, _)) => self.data_lengths.push(length),
            ("nfs.opcode", FieldValue::Enum(number, _)) => self.operations.push(number),
            (_, FieldValue::Chunk(_, Some(text))) => self.texts.push(text.to_vec()),
            _ => {}
        }
    }
}

fn call_fields(transaction: &Transaction) -> Fields {
    let mut fields = Fields::default();
    transaction.with_messages(|messages| messages.observe_rpc(RpcMessageKind::Call, &mut fields)).unwrap();
    fields
}

fn is_reencoded(transaction: &Transaction) -> bool {
    let is_same = |again: &OriginalAndReencodedMessage<'_>| again.header.is_same() && again.message.is_same();
    transaction.with_messages(|messages| is_same(&messages.reencode(RpcMessageKind::Call).unwrap().unwrap()))
}

/// RFC 8166 sections 3.4.5 and 4.3.1: two WRITEs whose Read chunks come in descending order.
#[test]
fn descending_read_list_is_decoded() {
    let case = Case::read("read-list-descending");
    let [transaction] = &case.transactions[..] else { panic!("{}", case.transactions.len()) };
    assert_eq!(missing(transaction), Vec::<String>::new());
    let positions: Vec<_> = transaction.read_chunks.iter().map(|chunk| chunk.position.unwrap()).collect();
    assert_eq!(positions, [1208, 148]);
    let fields = call_fields(transaction);
    // SEQUENCE, PUTFH, WRITE, PUTFH, WRITE.
    assert_eq!((fields.operations, fields.data_lengths), (vec![53, 22, 38, 22, 38], vec![1000, 2000]));
    assert!(is_reencoded(transaction));
    // Two Read chunks are more than each server must support (RFC 8267 section 6.4.2), but this one does.
    assert_eq!(case.faults(), []);
    assert!(case.findings.iter().any(|finding| finding.rule.id == "rpcrdma/position-order"));
}

/// Older Linux clients append the arguments behind the data to the Read chunk, and Linux servers accept that.
#[test]
fn tail_in_read_chunk_is_decoded() {
    let case = Case::read("tail-in-read-list");
    let [transaction] = &case.transactions[..] else { panic!("{}", case.transactions.len()) };
    assert_eq!(missing(transaction), Vec::<String>::new());
    let fields = call_fields(transaction);
    // SEQUENCE, PUTFH, WRITE, GETATTR.
    assert_eq!((fields.operations, fields.data_lengths), (vec![53, 22, 38, 9], vec![4096]));
    assert!(is_reencoded(transaction));
    let call = transaction.call.as_ref().unwrap().inline_length().unwrap() as u64;
    assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(call + 4108));
    assert_eq!(case.faults(), []);
}

/// RFC 8166 section 3.4.5.1: the content of a chunk is inserted at its Position, data item or not. Only the client, which
/// may reduce data items alone, is at fault.
#[test]
fn tail_at_own_position_is_decoded() {
    let case = Case::read("tail-at-own-position");
    let [transaction] = &case.transactions[..] else { panic!("{}", case.transactions.len()) };
    assert_eq!(missing(transaction), Vec::<String>::new());
    let fields = call_fields(transaction);
    assert_eq!((fields.operations, fields.data_lengths), (vec![53, 22, 38, 9], vec![1000]));
    assert!(is_reencoded(transaction));
    assert_eq!(case.faults(), [("rpcrdma/position-no-item", EndpointRole::Client)]);
}

/// An RDMA Write that was lost before the capture point is repeated after the Reply and eight further segments.
#[test]
fn repeated_write_finds_its_segment() {
    let case = Case::read("write-repeated-after-reply");
    assert_eq!(case.undecoded, 0);
    for transaction in &case.transactions {
        assert_eq!(missing(transaction), Vec::<String>::new(), "{:?}", transaction.xid);
    }
    let moved: u64 = case.transaction(1).write_chunks.iter().map(|chunk| chunk.moved_bytes()).sum();
    assert_eq!(moved, 300);
}

/// The NAK of frame 89 was captured 1.7 µs after the accepted copy of the packet that it names, and the round trip takes
/// 20 µs: it refuses the copy before. Frame 91 has the Reply that was accepted.
#[test]
fn nak_refuses_the_earlier_copy() {
    let case = Case::read("nak-after-accepted-copy");
    let transaction = case.transaction(0xd225_f28f);
    assert_eq!(transaction.latency_ns(), Some(222_039));
    assert_ne!(transaction.reply.as_ref().unwrap().delivery_evidence, DeliveryEvidence::Acknowledged);
}

/// CREATE of a symbolic link, followed by WRITEs: the text is in the first Read chunk.
#[test]
fn link_text_of_create_is_kept() {
    let case = Case::read("nak-after-accepted-copy");
    let fields = call_fields(case.transaction(0xd225_f28f));
    assert_eq!(fields.texts.first().map(Vec::len), Some(1000));
}

/// A Responder that denies a Call does not read its chunks.
#[test]
fn refused_read_chunk_is_not_missing() {
    let case = Case::read("read-chunk-refused");
    assert_eq!(missing(case.transaction(1)), Vec::<String>::new());
    assert_eq!(case.faults(), []);
}

/// RFC 5667 section 4: the server ignores Read list entries beyond the first.
#[test]
fn ignored_read_chunk_is_not_missing() {
    let case = Case::read("second-read-chunk-ignored");
    let transaction = case.transaction(1);
    assert_eq!(missing(transaction), Vec::<String>::new());
    assert_eq!(call_fields(transaction).data_lengths, [1000]);
}
