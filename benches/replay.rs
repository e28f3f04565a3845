//! Cost of a replayed operation: read from the trace, ordered, sent with the values of the run, answered by the mock
//! server, and compared with the recorded Reply; and the accuracy of captured issue times.
//! `cargo bench -p benches --bench replay`
#![allow(missing_docs, reason = "criterion's macros make functions that have none")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark says what is wrong by panicking")]

#[path = "../tests/it/transport/generated_traces.rs"]
mod made;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayPace};

use made::{Kind, Planned, made};

/// Number of steps of a run.
const STEPS: u64 = 20_000;
/// Number of steps in flight at once in the capture.
const DEPTH: u64 = 32;

fn operations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replayed operation over the mock transport");
    group.throughput(Throughput::Elements(STEPS)).sample_size(10);
    for (name, kind) in [("GETATTR", Kind::Getattr), ("READ of 4 KiB", Kind::Read(4096))] {
        let latency = DEPTH * 1000 - 1;
        let made = made((0..STEPS).map(|at| Planned { kind, time: at * 1000, latency, client: 0 }));
        for (order, named) in [(ReplayOrder::Captured, "trace"), (ReplayOrder::default(), "default")] {
            let options = ReplayOptions { order, ..ReplayOptions::default() };
            group.bench_function(format!("{name}, order {named}"), |bencher| {
                bencher.iter(|| {
                    let report = made.run(&options);
                    assert_eq!(report.steps.states.matched, STEPS);
                });
            });
        }
    }
    group.finish();
}

/// Prints the lateness of Calls at captured times, 10,000 per second, in a single run outside of criterion.
fn issue_times(_: &mut Criterion) {
    let steps = (0..STEPS).map(|at| Planned { kind: Kind::Getattr, time: at * 100_000, latency: 50_000, client: 0 });
    let options = ReplayOptions { pace: ReplayPace::CapturedTimes(1.0), ..ReplayOptions::default() };
    let lateness = made(steps).run(&options).timing.issue_delay;
    let [half, most, all] = [0.5, 0.99, 1.0].map(|part| lateness.quantile_ns(part) as f64 / 1000.0);
    println!("issue times at 10,000 calls/s: p50 {half:.1} µs late, p99 {most:.1} µs, latest {all:.1} µs");
}

criterion_group!(benches, operations, issue_times);
criterion_main!(benches);
