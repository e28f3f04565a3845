//! Faults injected by a proxy that shares no code with the program, between a replay and a correct server: values and
//! relations.
//!
//! By default a part of them is injected. With `NFSRDMA_INSPECT_PROXY=full` in the environment all are: each of the 285
//! kinds at three occasions, with the steps in serial and in dependency order, and 200 replays without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_replay::run::final_tree_check::FinalTreeCheckReport;
use nfsrdma_replay::run::{ReplayMonitor, ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_rpc::tcp::TcpTransport;
use serde_json::Value as Json;

use super::auxiliary_programs;
use super::client::target;
use super::ganesha::Ganesha;
use super::mock_server_faults::Work;
use super::program::{Passing, compiled, program};
use super::proxy::Proxy;
use super::proxy::injected_faults::{FaultInjector, Kind, kinds};

/// Capture of each version.
const CAPTURES: [(u32, &str, u32); 4] = [(3, "rxe-v3", 3), (40, "rxe-v40", 4), (41, "rxe-v41", 4), (42, "rxe-v42", 4)];

fn is_full() -> bool {
    std::env::var_os("NFSRDMA_INSPECT_PROXY").is_some_and(|value| value == "full")
}

/// Replays a trace over TCP on the mock server, through a proxy with this fault.
fn replayed(work: &Work, injector: FaultInjector, order: ReplayOrder) -> (ReplayReport, Arc<Mutex<FaultInjector>>) {
    let server = Arc::new(Mutex::new(work.server.lock().unwrap().clone()));
    let proxy = auxiliary_programs::serve(&server, injector);
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut transport = TcpTransport::new();
    let timeout = Duration::from_secs(5);
    let (tag, beside) = ("proxied".into(), auxiliary_programs::of(&proxy));
    let options = ReplayOptions {
        order,
        timeout,
        tag,
        max_shown_mismatches: 1000,
        auxiliary_ports: beside,
        ..ReplayOptions::default()
    };
    let (target, mut watch) = (target(proxy.port), StopAfterLastStep(Arc::clone(&proxy.injector)));
    let report = run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut watch).unwrap();
    (report, Arc::clone(&proxy.injector))
}

/// Monitor that ends the faults after the last step: the final check is not affected.
struct StopAfterLastStep(Arc<Mutex<FaultInjector>>);

impl ReplayMonitor for StopAfterLastStep {
    fn report_progress(&mut self, report: &ReplayReport, total: u64, _: Duration) {
        if report.steps.total >= total {
            self.0.lock().unwrap().stop();
        }
    }
}

/// Returns `true` if a run is without fault: it ends with exit code 0, and has checked the files.
fn is_clean(report: &ReplayReport) -> bool {
    let is_checked =
        |check: &FinalTreeCheckReport| check.failed.is_none() && check.bytes > 0 && check.bytes == check.written_bytes;
    !is_detected(report)
        && !is_recovered(report)
        && !report.is_different()
        && report.shortfall(MIN_COVERAGE).is_none()
        && report.tree_check.as_ref().is_some_and(is_checked)
}

/// Minimum coverage in percent, the default of the program.
const MIN_COVERAGE: f64 = 50.0;

/// Returns `true` if a run ends with an exit code other than 0.
fn is_detected(report: &ReplayReport) -> bool {
    report.is_different()
        || report.shortfall(MIN_COVERAGE).is_some()
        || report.end.unreachable.is_some()
        || report.end.silent_program.is_some()
        || !report.protocol.own.is_empty()
}

/// Returns `true` if a run has recovered from a disturbance: a discarded reply, a lost connection or lost state. Its
/// exit code is 0.
fn is_recovered(report: &ReplayReport) -> bool {
    report.protocol.discarded_messages() + report.recovery.disconnects + report.recovery.recovered > 0
        || !report.refused.is_empty()
}

/// Result of a run with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultResult {
    /// The exit code is not 0.
    Detected,
    /// The exit code is 0, as the fault was a disturbance that the run has recovered from.
    Recovered,
    Missed,
}

impl FaultResult {
    fn of(report: &ReplayReport) -> Self {
        match (is_detected(report), is_recovered(report)) {
            (true, _) => Self::Detected,
            (false, true) => Self::Recovered,
            (false, false) => Self::Missed,
        }
    }
}

fn works(test: &str) -> BTreeMap<u32, Work> {
    CAPTURES.into_iter().map(|(label, capture, version)| (label, Work::of(capture, version, test))).collect()
}

/// Calls `act` for each item, two at a time.
fn each<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(one);
                }
            });
        }
    });
}

#[test]
fn a_correct_server_behind_the_proxy_causes_no_mismatch() {
    let works = works("proxied-honest");
    let turns = if is_full() { 50 } else { 3 };
    let runs: Vec<_> = (0..turns).flat_map(|turn| CAPTURES.map(|(label, ..)| (label, turn))).collect();
    each(&runs, |(label, turn)| {
        let order = if turn % 2 == 0 { ReplayOrder::Serial } else { ReplayOrder::Dependencies };
        let (report, _) = replayed(&works[label], FaultInjector::honest(), order);
        assert!(is_clean(&report), "{label}: {:#?} {:#?}", report.steps.mismatches, report.tree_check);
        assert!(report.is_consistent(), "{label}");
    });
    println!("{} honest runs", runs.len());
}

/// Injects a kind of fault at its first, a middle and a late occasion. Returns the result of each.
fn outcomes(kind: Kind, order: ReplayOrder, works: &BTreeMap<u32, Work>) -> Vec<(String, FaultResult)> {
    let work = &works[&kind.version];
    let (_, injector) = replayed(work, FaultInjector::of(Some(kind), usize::MAX), order);
    let occasions = injector.lock().unwrap().occasions();
    assert!(occasions > 0, "{kind}: there is no occasion for it");
    let mut skips = vec![0, occasions / 3, occasions * 2 / 3];
    skips.truncate(if is_full() { 3 } else { 1 });
    skips
        .into_iter()
        .map(|skip| {
            let (report, injector) = replayed(work, FaultInjector::of(Some(kind), skip), order);
            let injector = injector.lock().unwrap();
            assert!(injector.injected > 0, "{kind} after {skip} was not injected");
            (format!("{kind} after {skip} of {occasions}: {}", injector.last), FaultResult::of(&report))
        })
        .collect()
}

/// Injects every `step`-th kind of fault, from `first` on, or all. At most `allowed` of 1,000 faults may be missed;
/// disturbances that the run recovers from are not faults of the files.
fn faults_are_detected(order: ReplayOrder, (first, step): (usize, usize), allowed: usize) {
    let works = works(&format!("proxied-lies-{order:?}"));
    let kinds = kinds();
    assert!(kinds.len() >= 100);
    let is_chosen = |at: usize| is_full() || at % step == first;
    let chosen: Vec<Kind> = kinds.iter().enumerate().filter(|(at, _)| is_chosen(*at)).map(|(_, kind)| *kind).collect();
    let found = Mutex::new(Vec::new());
    each(&chosen, |kind| found.lock().unwrap().extend(outcomes(*kind, order, &works)));
    let found = found.into_inner().unwrap();
    let of = |wanted: FaultResult| {
        found.iter().filter(|(_, result)| *result == wanted).map(|(lie, _)| lie).collect::<Vec<_>>()
    };
    let [detected, recovered, missed] = [FaultResult::Detected, FaultResult::Recovered, FaultResult::Missed].map(of);
    println!(
        "{order:?}: {} faults of {} kinds: {} detected, {} recovered: {recovered:#?}, {} not detected: {missed:#?}",
        found.len(),
        chosen.len(),
        detected.len(),
        recovered.len(),
        missed.len()
    );
    assert!(missed.len() * 1000 <= (detected.len() + missed.len()) * allowed, "{missed:#?}");
}

#[test]
fn of_all_kinds_of_faults_99_of_100_are_detected() {
    faults_are_detected(ReplayOrder::Serial, (0, 4), 10);
}

#[test]
fn of_all_kinds_of_faults_most_are_detected_where_steps_overlap() {
    faults_are_detected(ReplayOrder::Dependencies, (2, 8), if is_full() { 50 } else { 100 });
}

/// Values that only a relation to a distant one can verify: attributes of a directory after an unsupported operation
/// (GETACL), of a file after a refused step, and of a new file.
#[test]
fn faults_in_attributes_of_refused_or_new_files_are_detected() {
    let works = works("proxied-corners");
    // The occasion: the first, or a late one, by its distance from two thirds of all. Nothing contradicts the first value
    // of an object.
    let chosen = [
        (3, "* before.ctime Zero once", None),
        (3, "* before.mtime Zero once", None),
        (3, "* before.mtime Zero once", Some(0)),
        (3, "* before.ctime Zero once", Some(0)),
        (3, "* after.mtime Zero once", Some(0)),
        (3, "* after.ctime Zero once", Some(0)),
        (40, "GETATTR change Zero once", Some(1)),
        (41, "GETATTR time_modify Zero once", Some(0)),
        (42, "GETATTR time_metadata Zero once", Some(0)),
    ];
    each(&chosen, |(version, name, late)| {
        let name = format!("{version} {name}");
        let kind = kinds().into_iter().find(|kind| kind.to_string() == name).unwrap();
        let work = &works[version];
        let (_, injector) = replayed(work, FaultInjector::of(Some(kind), usize::MAX), ReplayOrder::Serial);
        let occasions = injector.lock().unwrap().occasions();
        let skip = late.map_or(0, |distance| occasions * 2 / 3 + distance);
        let (report, injector) = replayed(work, FaultInjector::of(Some(kind), skip), ReplayOrder::Serial);
        let injector = injector.lock().unwrap();
        assert!(injector.injected == 1 && is_detected(&report), "{kind} of {occasions}: {}", injector.last);
    });
}

/// Returns each differing field of a report, with its operation.
fn differing_fields(report: &Json) -> BTreeSet<String> {
    let walked = report["walk"]["mismatches"].as_array().into_iter().flatten();
    let mismatches = report["mismatches"].as_array().into_iter().flatten().chain(walked);
    let mut printed = BTreeSet::new();
    for mismatch in mismatches {
        for difference in mismatch["differences"].as_array().into_iter().flatten() {
            let word = |key: &str| difference[key].as_str().unwrap_or_default().to_owned();
            let live = if difference["kind"] == "relation" { String::new() } else { word("live") };
            printed.insert(format!("{} {} {live}", mismatch["operation"].as_str().unwrap_or_default(), word("path")));
        }
    }
    printed
}

/// Returns `true` if a report shows a disturbance that the run has recovered from.
fn has_recovered(report: &Json) -> bool {
    ["disconnects", "discarded", "recovered"].iter().any(|key| report[key].as_u64().is_some_and(|count| count > 0))
}

/// Outcome of a replay through a proxy.
struct RealReplay {
    differing: BTreeSet<String>,
    has_recovered: bool,
    /// Number of occasions for the fault.
    occasions: usize,
    /// Last fault.
    last: String,
}

/// Server of nfs-ganesha, and a trace that is seeded on it for each replay.
struct Real {
    server: SocketAddr,
    /// Prefix of the URL up to the port, and its suffix.
    direct: String,
    behind: String,
    trace: Passing,
}

impl Real {
    fn of(ganesha: &Ganesha, capture: &str, version: u32) -> Self {
        let (export, mount) = (ganesha.export(), ganesha.mount_port);
        let behind = match version {
            3 => format!("{}?vers=3&mountport={mount}", export.display()),
            _ => "/export".to_owned(),
        };
        let direct = format!("tcp://127.0.0.1:{}{behind}", ganesha.port);
        let trace = compiled(capture, "proxied-real");
        Self { server: ([127, 0, 0, 1], ganesha.port).into(), direct, behind, trace }
    }

    /// Seeds the trace, and replays it through a proxy.
    fn replayed(&self, injector: FaultInjector, number: usize) -> RealReplay {
        let directory = format!("proxied-{number}");
        let seed = ["replay", "seed", self.trace.name(), "--server", &self.direct, "--directory", &directory];
        let output = program(&seed);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let proxy = Proxy::to(self.server, injector);
        let url = format!("tcp://127.0.0.1:{}{}", proxy.port, self.behind);
        let run = [
            "replay",
            "run",
            self.trace.name(),
            "--server",
            &url,
            "--directory",
            &directory,
            "--seeded",
            "--order",
            "serial",
        ];
        // The final check is not affected by faults.
        let output = program(&[&run[..], &["-T", "json", "-c", "1000", "--no-final-check"]].concat());
        let injector = proxy.injector.lock().unwrap();
        let (differing, has_recovered) = match serde_json::from_slice(&output.stdout) {
            Ok(report) => (differing_fields(&report), has_recovered(&report)),
            // The run did not begin: a fault while the tree was located.
            Err(_) => {
                let error = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(injector.injected > 0, "{error}");
                (BTreeSet::from([error]), false)
            }
        };
        let (occasions, last) = (injector.occasions(), injector.last.clone());
        RealReplay { differing, has_recovered, occasions, last }
    }
}

#[test]
fn faults_before_nfs_ganesha_are_detected_and_clean_runs_agree() {
    let Some(ganesha) = Ganesha::start(true) else { return };
    let captures = [(3, "rxe-v3", 3), (40, "rxe-v40", 4), (41, "rxe-v41", 4), (42, "rxe-v42", 4)];
    let (mut number, mut lies, mut recovered, mut missed) = (0, 0, 0, Vec::new());
    for (label, capture, version) in captures {
        let real = Real::of(&ganesha, capture, version);
        let mut honest = BTreeSet::new();
        let turns = if is_full() { 10 } else { 2 };
        for turn in 0..turns {
            number += 1;
            let RealReplay { differing: printed, has_recovered, .. } = real.replayed(FaultInjector::honest(), number);
            assert!(!has_recovered, "{label}: disturbed");
            let relations: Vec<_> = printed.iter().filter(|printed| printed.contains('(')).collect();
            assert!(relations.is_empty(), "{label}: {relations:#?}");
            assert!(turn == 0 || printed == honest, "{label}: {printed:#?} and before {honest:#?}");
            honest = printed;
        }
        let kinds: Vec<_> = kinds().into_iter().filter(|kind| kind.version == label).collect();
        for kind in kinds.iter().enumerate().filter(|(at, _)| is_full() || at % 8 == 4).map(|(_, kind)| *kind) {
            // The first Replies are those of locating the tree: filehandles, and in NFSv3 attributes with each LOOKUP.
            let RealReplay { occasions, .. } = real.replayed(FaultInjector::of(Some(kind), usize::MAX), number + 1);
            let is_of_finding = label == 3 || kind.field == "object";
            let skip = if is_of_finding { occasions * 9 / 10 } else { occasions * 2 / 3 };
            let replay = real.replayed(FaultInjector::of(Some(kind), skip), number + 2);
            number += 2;
            if occasions == 0 {
                continue;
            }
            let is_missed = replay.differing.is_subset(&honest);
            if is_missed && replay.has_recovered {
                recovered += 1;
                continue;
            }
            lies += 1;
            if is_missed {
                missed.push(format!("{kind} after {skip} of {occasions}: {}", replay.last));
            }
        }
    }
    println!("nfs-ganesha: {recovered} disturbances recovered, {lies} lies, {} not found: {missed:#?}", missed.len());
    // Without the final check, nothing verifies the last values of an object: nine of ten must be detected.
    assert!(lies > 0 && missed.len() * 10 <= lies, "{missed:#?}");
}
