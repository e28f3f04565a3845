//! Plans: every step runs or has its reason, and the tree is the one that the capture expects.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output};

use nfsrdma_flow::{Flow, FlowLimits};
use nfsrdma_inspect::output::Report;
use nfsrdma_inspect::output::plan::PlanReportView;
use nfsrdma_inspect::output::style::TerminalProfile;
use nfsrdma_replay::compile::TraceCompiler;
use nfsrdma_replay::run_plan::ReplayPlanSummary;
use nfsrdma_replay::run_plan::reason::PlanReason;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;
use nfsrdma_replay::trace::{ReplayTraceReader, TraceSlotValueKind};

use crate::captures;
use crate::traces::{compiled, open};

#[test]
fn every_step_ends_in_one_state_and_each_that_does_not_run_has_its_reason() {
    let validator = crate::schema::validator("plan.schema.json");
    for name in captures::ALL {
        let (trace, counts, _) = compiled(name, TraceFileDataRetention::KEPT);
        let plan = ReplayPlanSummary::new(&mut open(&trace)).unwrap();
        assert_eq!(plan.total(), counts.end.steps, "{name}");
        let [run, others @ ..] = plan.steps;
        let because: u64 = plan.reasons.values().map(|because| because.steps).sum();
        assert_eq!(others.iter().sum::<u64>(), because, "{name}");
        assert_eq!(plan.operations.values().flatten().sum::<u64>(), plan.total());
        // A server did not read the data of a Call in `errors`.
        let is_whole = !["snap128", "mid", "krb5", "head", "errors"].iter().any(|part| name.ends_with(part));
        if is_whole {
            let [skipped, unreplayable] = [plan.steps[2], plan.steps[3]];
            assert_eq!((plan.steps[1], unreplayable), (0, 0), "{name}: {:?}", plan.reasons);
            assert_eq!(run + skipped, plan.total(), "{name}");
        }
        // The validator takes most of the time; the other captures cover these.
        if ["rxe-v3", "rxe-v42-mid", "rxe-v42-snap128"].contains(&name) {
            let mut json = Vec::new();
            let screen = TerminalProfile::pipe();
            PlanReportView { name, plan: &plan, count: 5, screen }.json(&mut json).unwrap();
            crate::schema::assert_keeps(&validator, &serde_json::from_slice(&json).unwrap(), name);
        }
    }
}

#[test]
fn a_capture_from_the_middle_has_no_unreplayable_step() {
    for name in ["rxe-v42-mid", "siw-v42-mid"] {
        let (trace, ..) = compiled(name, TraceFileDataRetention::KEPT);
        let plan = ReplayPlanSummary::new(&mut open(&trace)).unwrap();
        assert_eq!(plan.steps[3], 0, "{name}: {:?}", plan.reasons);
        let kinds: Vec<_> = plan.undefined.keys().copied().collect();
        assert_eq!(
            kinds,
            [TraceSlotValueKind::FILEHANDLE, TraceSlotValueKind::CLIENTID, TraceSlotValueKind::SESSION],
            "{name}"
        );
    }
}

#[test]
fn data_read_before_it_is_written_is_in_the_tree() {
    for name in ["rxe-v40-deleg", "rxe-v42-deleg"] {
        let (trace, ..) = compiled(name, TraceFileDataRetention::KEPT);
        let mut extents = Vec::new();
        open(&trace).for_each_extent(|extent| extents.push(extent.clone())).unwrap();
        let mut content = Vec::new();
        let mut known = 0;
        for extent in &extents {
            assert!(open(&trace).extent(extent, &mut content).unwrap(), "{name}");
            known += content.len();
        }
        let plan = ReplayPlanSummary::new(&mut open(&trace)).unwrap();
        assert_eq!(known as u64, plan.tree.known_bytes, "{name}");
        assert!(known > 0, "{name}");
        let mut sizes = HashMap::new();
        open(&trace)
            .for_each_object(|object| {
                sizes.insert(object.number, object.size);
            })
            .unwrap();
        for extent in &extents {
            assert!(extent.offset + u64::from(extent.length) <= sizes[&extent.object], "{name}: {extent:?}");
        }
    }
}

#[test]
fn of_a_lossy_capture_each_step_has_its_reason_too() {
    let frames = crate::mutations::frames("rxe-v42");
    for every in [3, 7, 20, 50] {
        let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
        let mut compiler = TraceCompiler::new(Cursor::new(Vec::new()), TraceFileDataRetention::KEPT, 64 << 20).unwrap();
        let mut transactions = 0;
        for (number, kept) in (1..).zip(&frames) {
            if number % every != 0 {
                flow.process_frame(&kept.frame(number));
            }
        }
        flow.finish();
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|reading| compiler.add(&transaction, reading, true)).unwrap();
            transactions += 1;
        }
        let (trace, _) = compiler.finish(&[]).unwrap();
        let plan = ReplayPlanSummary::new(&mut ReplayTraceReader::open(trace).unwrap()).unwrap();
        assert_eq!(plan.total(), transactions);
        let lost: u64 = plan.reasons.values().map(|because| because.steps).sum();
        assert_eq!(plan.steps[0] + lost, transactions);
        assert!(lost > 0, "every {every}th frame");
        assert!(every < 50 || plan.steps[3] < transactions / 2, "{:?}", plan.reasons);
    }
}

#[test]
fn the_schema_has_all_reasons() {
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string("docs/plan.schema.json").unwrap()).unwrap();
    let mut lists = Vec::new();
    let mut pending = vec![&schema];
    while let Some(value) = pending.pop() {
        pending.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        pending.extend(value.as_array().into_iter().flatten());
        lists.extend(value.get("enum").filter(|list| list[0] == PlanReason::ALL[0].code()));
    }
    let codes: Vec<_> = PlanReason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(lists, [&serde_json::Value::from(codes)]);
}

/// Captures with a READDIR whose Reply chunk was too small for the server: it answered ERR_CHUNK (RFC 8166 section
/// 4.5.3).
#[test]
fn a_call_with_an_error_of_the_transport_is_not_replayed() {
    for name in ["rxe-v40-errors", "siw-v40-errors"] {
        let (trace, ..) = compiled(name, TraceFileDataRetention::KEPT);
        let plan = ReplayPlanSummary::new(&mut open(&trace)).unwrap();
        assert_eq!(plan.reasons[&PlanReason::TransportError].steps, 1, "{name}");
        assert!(!plan.reasons.contains_key(&PlanReason::NeedsOther), "{name}");
    }
}

fn shown(name: &str) -> String {
    let (trace, ..) = compiled(name, TraceFileDataRetention::KEPT);
    let plan = ReplayPlanSummary::new(&mut open(&trace)).unwrap();
    let mut text = Vec::new();
    PlanReportView { name, plan: &plan, count: 12, screen: TerminalProfile::pipe() }.text(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_plan_of_a_whole_capture_is_shown() {
    insta::assert_snapshot!(shown("rxe-v3"));
}

/// The plan of each operation of NFSv4, answered, refused and without a reply.
#[test]
fn plan_of_every_operation() {
    insta::assert_snapshot!(shown("cases/every-operation"));
}

#[test]
fn a_plan_of_a_capture_from_the_middle_is_shown() {
    insta::assert_snapshot!(shown("siw-v42-mid"));
}

#[test]
fn a_plan_of_delegations_is_shown() {
    insta::assert_snapshot!(shown("rxe-v42-deleg"));
}

#[test]
fn a_plan_of_a_capture_that_was_cut_is_shown() {
    insta::assert_snapshot!(shown("rxe-v42-snap128"));
}

fn replay(arguments: &[&str], files: &[&Path]) -> Output {
    let program = env!("CARGO_BIN_EXE_nfsrdma-inspect");
    Command::new(program).arg("replay").args(arguments).args(files).output().unwrap()
}

/// Temporary file, removed when it is dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("nfsrdma-inspect-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_program_compiles_and_plans() {
    let to = Scratch::new("whole.trace");
    let capture = captures::path("rxe-v42");
    let trace = to.0.to_string_lossy().into_owned();
    let output = replay(&["compile", "-o", &trace], &[&capture]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("237 steps"), "{output:?}");
    let output = replay(&["plan", "-T", "json", &trace], &[]);
    assert_eq!(output.status.code(), Some(0));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["steps"]["run"], 237);
    let output = replay(&["plan", &trace], &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("/data/many300"), "{output:?}");
}

#[test]
fn steps_that_a_filter_excludes_count_as_done_before() {
    let to = Scratch::new("reads.trace");
    let trace = to.0.to_string_lossy().into_owned();
    let capture = captures::path("rxe-v42");
    let output = replay(&["compile", "-q", "-Y", "nfs.opcode == READ", "-o", &trace], &[&capture]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
    let plan =
        ReplayPlanSummary::new(&mut ReplayTraceReader::open(std::fs::File::open(&to.0).unwrap()).unwrap()).unwrap();
    assert_eq!(plan.total(), 9);
    assert_eq!((plan.steps[1], plan.steps[3]), (9, 0), "{:?}", plan.reasons);
    // The files that they read have names, and the content that is read.
    assert!(plan.tree.known_bytes > 100_000, "{:?}", plan.tree);
    assert_eq!(plan.tree.nameless, 0, "{:?}", plan.tree);
}

#[test]
fn failures_to_compile_or_plan_are_reported_in_one_line() {
    let to = Scratch::new("none.trace");
    let trace = to.0.to_string_lossy().into_owned();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let whole = captures::path("rxe-v42");
    let cases: [(&[&str], &[&Path], &str); 7] = [
        (&["compile", "-o", "-"], &[&whole], "standard output"),
        (&["compile", "-o", &trace], &[&manifest], "not a capture file"),
        (&["compile", "-o", &trace], &[Path::new("no/such.pcap")], "no/such.pcap: cannot open"),
        (&["compile", "-o", &trace, "-Y", "nonsense =="], &[&whole], "-Y:"),
        (&["compile", "-o", &trace, "--key", "7"], &[&whole], "--key"),
        (&["plan"], &[&manifest], "not a trace"),
        (&["plan"], &[Path::new("no/such.trace")], "no/such.trace:"),
    ];
    for (arguments, files, says) in cases {
        let output = replay(arguments, files);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {output:?}");
        assert!(said.contains(says) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(!to.0.exists(), "{arguments:?} left a trace");
    }
}
