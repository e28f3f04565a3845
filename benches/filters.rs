//! Cost of display filters: `nfsrdma-inspect -q` with filters on one field, compared with the same run without a
//! filter, on the large capture. `cargo bench -p benches --bench filters`

#![allow(clippy::disallowed_methods, reason = "a benchmark makes its own files")]
#![allow(missing_docs, reason = "criterion's macros make functions that have none")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark says what is wrong by panicking")]

use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nfsrdma_analysis::filter::Filter;
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::FilehandleDisplay;
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_inspect::output::style::TerminalProfile;
use nfsrdma_inspect::output::{
    OutputLineFormat, OutputLineUnit, OutputSettings, SummaryFormat, TimeFormat, ViewAndSummaryWriter,
};

#[path = "../tests/it/captures.rs"]
#[allow(dead_code, reason = "written for the tests, which need more of it")]
mod captures;
#[allow(dead_code, reason = "the tests need more of it")]
mod repeat;

use repeat::Repeated;

const LARGE_DATA: &str = "rxe-v42-conc-head";
const SMALL_OPERATIONS: &str = "rxe-v42";

const SIZE: u64 = 64 << 20;

/// A filter on a field of each layer, and none.
const FILTERS: [Option<&str>; 6] = [
    None,
    Some("frame.len > 1000"),
    Some("infiniband.bth.opcode == 4"),
    Some("rpc.xid == 0xb38df27d"),
    Some("nfs.opcode == READ"),
    Some("nfsrdma.latency > 0.01"),
];

fn inspect(mut source: CaptureFrameSource, filter: Option<&str>, view: OutputLineUnit) {
    let settings = OutputSettings {
        format: OutputLineFormat::Text,
        view,
        bytes: false,
        filehandles: FilehandleDisplay::Off,
        tree: false,
        quiet: true,
        time: TimeFormat::Relative,
        summary: SummaryFormat::Text,
        max_lines: u64::MAX,
        needs_file_names: false,
        findings: false,
        icrc: false,
        screen: TerminalProfile::pipe(),
        memory: CommandMemoryBudget::default(),
    };
    let filter = filter.map(|filter| Filter::parse(filter).expect("a right filter"));
    let mut flow = Flow::new(FlowLimits::default());
    let mut output = ViewAndSummaryWriter::new(settings, std::io::sink()).with_filter(filter);
    while let Some(frame) = source.next().expect("a right capture") {
        output.frame(&frame, &mut flow).expect("a sink takes all");
        while let Some((key, transaction)) = flow.next_with_key() {
            output.transaction(key, &transaction).expect("a sink takes all");
        }
    }
    flow.finish();
    while let Some((key, transaction)) = flow.next_with_key() {
        output.transaction(key, &transaction).expect("a sink takes all");
    }
    output.finish(&flow, None, None).expect("a sink takes all");
}

fn filters(criterion: &mut Criterion) {
    for name in [LARGE_DATA, SMALL_OPERATIONS] {
        let file = captures::bytes(name);
        let large = || Repeated::of_size(file.clone(), SIZE);
        for (view, title) in [(OutputLineUnit::Transactions, "transactions"), (OutputLineUnit::Frames, "frames")] {
            let mut group = criterion.benchmark_group(format!("{name} {title}"));
            group.sample_size(15).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
            group.throughput(Throughput::Elements(large().packets()));
            for filter in FILTERS {
                group.bench_function(filter.unwrap_or("remove the filter"), |bencher| {
                    let source = || CaptureFrameSource::from_reader(name, large());
                    bencher.iter_batched(source, |source| inspect(source, filter, view), BatchSize::PerIteration);
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, filters);
criterion_main!(benches);
