//! Throughput of reading, decoding and analysing captures, in packets and bytes per second. Each benchmark adds one
//! step to the one before. `cargo bench -p benches --bench analysis`

#![allow(clippy::disallowed_methods, reason = "a benchmark makes its own files")]
#![allow(missing_docs, reason = "criterion's macros make functions that have none")]
#![allow(clippy::expect_used, reason = "a benchmark says what is wrong by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::captured_frame::Frame;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::net;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

#[path = "../tests/it/captures.rs"]
#[allow(dead_code, clippy::panic, reason = "written for the tests, which need more of it")]
mod captures;
#[allow(dead_code, reason = "the tests need more of it")]
mod repeat;

use repeat::Repeated;

/// Nine packets of ten are data: WRITEs of large files, four at a time.
const LARGE_DATA: &str = "rxe-v42-conc-head";
/// A Transaction for every eight packets: small operations of every kind.
const SMALL_OPERATIONS: &str = "rxe-v42";

const SIZE: u64 = 64 << 20;

fn walk(mut source: CaptureFrameSource, mut look: impl FnMut(&Frame<'_>)) {
    while let Some(frame) = source.next().expect("a right capture") {
        look(&frame);
    }
}

/// Passes each Transaction to `look` as soon as it is emitted.
fn analyse(source: CaptureFrameSource, mut look: impl FnMut(Transaction)) {
    let mut flow = Flow::new(FlowLimits::default());
    let mut give = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            look(transaction);
        }
    };
    walk(source, |frame| {
        flow.process_frame(frame);
        give(&mut flow);
    });
    flow.finish();
    give(&mut flow);
}

fn steps(criterion: &mut Criterion) {
    for name in [LARGE_DATA, SMALL_OPERATIONS] {
        let file = captures::bytes(name);
        let large = || Repeated::of_size(file.clone(), SIZE);
        let (elements, bytes) = (large().packets(), large().bytes());
        let mut group = criterion.benchmark_group(name);
        group.sample_size(15).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
        group.throughput(Throughput::ElementsAndBytes { elements, bytes });
        let mut step = |step: &str, run: fn(CaptureFrameSource)| {
            group.bench_function(step, |bencher| {
                let source = || CaptureFrameSource::from_reader(name, large());
                bencher.iter_batched(source, run, BatchSize::PerIteration);
            });
        };
        step("walk", |source| walk(source, |frame| _ = black_box(frame)));
        step("decode", |source| walk(source, |frame| _ = black_box(net::decode(frame, &mut NullFieldObserver))));
        step("flow", |source| analyse(source, |transaction| _ = black_box(transaction)));
        step("facts", |source| {
            analyse(source, |transaction| _ = black_box(transaction.with_messages(|reading| reading.summary())));
        });
        group.finish();
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
