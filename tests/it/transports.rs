//! One workload over several transports: the same procedures with the same outcome, and the same file data.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::mutations::frames;

/// File data that a message moves.
#[derive(Default)]
struct FileData(Vec<u8>);

impl<'a> FieldObserver<'a> for FileData {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
    fn leave(&mut self, _: usize) {}
    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        if let FieldValue::Bytes(bytes) | FieldValue::Chunk(_, Some(bytes)) = value
            && field.name == "nfs.data"
        {
            self.0.extend_from_slice(bytes);
        }
    }
}

/// Procedure, result and data of an NFS Call.
type Step = (String, String, Vec<u8>);

/// Returns the NFS Calls of a capture in order, except NULL.
fn workload(name: &str) -> Vec<Step> {
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    let mut steps = Vec::new();
    let mut take = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            steps.extend(step(&transaction));
        }
    };
    for (number, kept) in (1..).zip(frames(name)) {
        flow.process_frame(&kept.frame(number));
        take(&mut flow);
    }
    flow.finish();
    take(&mut flow);
    steps.sort_by_key(|(frame, _)| *frame);
    steps.into_iter().map(|(_, step)| step).collect()
}

fn step(transaction: &Transaction) -> Option<(u64, Step)> {
    transaction.with_messages(|reading| {
        let facts = reading.summary();
        if facts.program != Some(Program::NFS) || facts.procedure == Some(0) {
            return None;
        }
        let mut data = FileData::default();
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            reading.observe(which, &mut data).unwrap_or_else(|e| panic!("{transaction:?}: {e}"));
        }
        let frame = transaction.call.as_ref()?.frames.first()?.0;
        Some((frame, (format!("{:?}", facts.operation), format!("{:?}", facts.status), data.0)))
    })
}

/// Compares procedures, statuses and file data of two captures of one workload.
#[track_caller]
fn same_work(one: &[Step], other: &[Step]) {
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        assert_eq!((&one.0, &one.1), (&other.0, &other.1), "step {at}");
        assert!(one.2 == other.2, "step {at}: the data of {}", one.0);
    }
    assert_eq!(one.len(), other.len());
}

#[test]
fn nfsv3_over_roce_and_tcp_is_the_same_work() {
    let (roce, tcp) = (workload("rxe-v3"), workload("tcp-v3"));
    same_work(&roce, &tcp);
    let moved: usize = tcp.iter().map(|step| step.2.len()).sum();
    assert!(moved > 800_000, "{moved} bytes of file data");
}

#[test]
fn nfsv3_over_roce_and_iwarp_is_the_same_work() {
    same_work(&workload("rxe-v3"), &workload("siw-v3"));
}

/// Returns a workload in which READ_PLUS is READ: over TCP the Linux client reads with READ_PLUS.
fn workload_of_reads(name: &str) -> Vec<Step> {
    let mut steps = workload(name);
    for step in &mut steps {
        step.0 = step.0.replace("READ_PLUS", "READ");
    }
    steps
}

#[test]
fn nfsv42_over_roce_and_tcp_is_the_same_work() {
    same_work(&workload_of_reads("rxe-v42"), &workload_of_reads("tcp-v42"));
}

#[test]
fn nfsv42_over_roce_and_iwarp_with_crcs_is_the_same_work() {
    same_work(&workload_of_reads("rxe-v42"), &workload_of_reads("siw-v42-crc"));
}
