//! One workload over several transports: the same procedures with the same outcome, and the same file data.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, Observer, Value};
use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::flow::{Flow, Limits, Transaction};
use nfsrdma_dissectors::rpc::Program;

use crate::mutations::frames;

/// The file data that a message moves.
#[derive(Default)]
struct FileData(Vec<u8>);

impl<'a> Observer<'a> for FileData {
    fn enter(&mut self, _: &'static Field, _: usize) {}
    fn leave(&mut self, _: usize) {}
    fn value(&mut self, field: &'static Field, _: Range<usize>, value: Value<'a>) {
        if let Value::Bytes(bytes) | Value::Chunk(_, Some(bytes)) = value
            && field.name == "nfs.data"
        {
            self.0.extend_from_slice(bytes);
        }
    }
}

/// What an NFS Call asked for and got, and the data that it moved.
type Step = (String, String, Vec<u8>);

/// The NFS Calls of a capture in the order of their Calls, NULL apart.
fn workload(name: &str) -> Vec<Step> {
    let mut flow = Flow::new(Limits { keep_data: true, ..Limits::default() });
    let mut steps = Vec::new();
    let mut take = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            steps.extend(step(&transaction));
        }
    };
    for (number, kept) in (1..).zip(frames(name)) {
        flow.frame(&kept.frame(number));
        take(&mut flow);
    }
    flow.finish();
    take(&mut flow);
    steps.sort_by_key(|(frame, _)| *frame);
    steps.into_iter().map(|(_, step)| step).collect()
}

fn step(transaction: &Transaction) -> Option<(u64, Step)> {
    transaction.read(|reading| {
        let facts = reading.facts();
        if facts.program != Some(Program::NFS) || facts.procedure == Some(0) {
            return None;
        }
        let mut data = FileData::default();
        for which in [Which::Call, Which::Reply] {
            reading.observe(which, &mut data).unwrap_or_else(|e| panic!("{transaction:?}: {e}"));
        }
        let frame = transaction.call.as_ref()?.frames.first()?.0;
        Some((frame, (format!("{:?}", facts.operation), format!("{:?}", facts.status), data.0)))
    })
}

#[test]
fn nfsv3_over_roce_and_tcp_is_the_same_work() {
    let (roce, tcp) = (workload("rxe-v3"), workload("tcp-v3"));
    for (at, (roce, tcp)) in roce.iter().zip(&tcp).enumerate() {
        assert_eq!((&roce.0, &roce.1), (&tcp.0, &tcp.1), "step {at}");
        assert!(roce.2 == tcp.2, "step {at}: the data of {}", roce.0);
    }
    assert_eq!(roce.len(), tcp.len());
    let moved: usize = tcp.iter().map(|step| step.2.len()).sum();
    assert!(moved > 800_000, "{moved} bytes of file data");
}

#[test]
fn nfsv42_over_roce_and_tcp_is_the_same_work() {
    // Over TCP the Linux client reads with READ_PLUS.
    let of = |name| {
        let mut steps = workload(name);
        for step in &mut steps {
            step.0 = step.0.replace("READ_PLUS", "READ");
        }
        steps
    };
    let (roce, tcp) = (of("rxe-v42"), of("tcp-v42"));
    for (at, (roce, tcp)) in roce.iter().zip(&tcp).enumerate() {
        assert_eq!((&roce.0, &roce.1), (&tcp.0, &tcp.1), "step {at}");
        assert!(roce.2 == tcp.2, "step {at}: the data of {}", roce.0);
    }
    assert_eq!(roce.len(), tcp.len());
}
