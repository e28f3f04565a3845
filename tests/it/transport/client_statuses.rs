//! Each status at each operation that the program itself sends: in set-up, prologue, final check and probe, for NFSv3,
//! 4.0, 4.1 and 4.2, on the mock server over TCP. The same for connections that are closed at a call.
//!
//! A sample is tried; with `NFSRDMA_CLIENT_STATUSES=full` everything, with `NFSRDMA_CLIENT_STATUSES=7` every seventh
//! case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{CompoundCall, Nfsstat4};
use nfsrdma_dissectors::nfs::{mount, v3};
use nfsrdma_dissectors::rpc::{Program, RpcMsg};
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_mock_server::server::{MockRefusal, MockReply, MockServer};

use super::program::{Passing, program};
use super::proxy::injected_faults::FaultInjector;
use super::proxy::{Proxy, record, send};
use crate::captures;

/// Time limit of a run: none waits for anything but a server that asks for it once.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Version, capture, and the frames of it that are replayed: files with content exist before, and others are made.
const VERSIONS: [(&str, &str, [u32; 2]); 4] = [
    ("3", "rxe-v3", [480, 1090]),
    ("4.0", "rxe-v40", [545, 1160]),
    ("4.1", "rxe-v41", [528, 1142]),
    ("4.2", "rxe-v42", [500, 1140]),
];

/// A call of NFS or MOUNT, as the server received it.
#[derive(Clone, Debug)]
struct SeenCall {
    connection: u32,
    program: Program,
    version: u32,
    minor: Option<u32>,
    operations: Vec<&'static str>,
}

/// A call before or after whose execution the connection is closed.
#[derive(Clone, Copy, Debug)]
struct Closing {
    call: usize,
    is_executed: bool,
}

/// A wrong reply to a call. RFC 5531 section 9, RFC 8881 section 16.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongReply {
    OtherXid,
    /// It ends before the results.
    Cut,
    /// The last result has the number of another operation.
    OtherOperation,
    /// accept_stat, with versions for PROG_MISMATCH.
    Accepted(u32),
    /// reject_stat, with versions for RPC_MISMATCH and an auth_stat for AUTH_ERROR.
    Denied(u32),
}

impl WrongReply {
    const ALL: [Self; 10] = [
        Self::OtherXid,
        Self::Cut,
        Self::OtherOperation,
        Self::Accepted(1),
        Self::Accepted(2),
        Self::Accepted(3),
        Self::Accepted(4),
        Self::Accepted(5),
        Self::Denied(0),
        Self::Denied(1),
    ];

    /// Changes a reply. Returns `false` if it has nothing to change.
    fn apply(self, reply: &mut Vec<u8>, seen: &SeenCall) -> bool {
        const HEADER: usize = 24;
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        let xid = reply[..4].to_vec();
        match self {
            Self::OtherXid => reply[0] ^= 0x40,
            Self::Cut => reply.truncate(HEADER),
            // Status, an empty tag, the number of results, and the first one.
            Self::OtherOperation if seen.minor.is_some() => {
                reply[HEADER + 12..HEADER + 16].copy_from_slice(&[0, 0, 0, 38])
            }
            Self::OtherOperation => return false,
            Self::Accepted(stat) => {
                let versions: &[u32] = if stat == 2 { &[7, 9] } else { &[] };
                *reply = [xid, words(&[1, 0, 0, 0, stat]), words(versions)].concat();
            }
            Self::Denied(stat) => {
                let rest: &[u32] = if stat == 0 { &[3, 4] } else { &[5] };
                *reply = [xid, words(&[1, 1, stat]), words(rest)].concat();
            }
        }
        true
    }

    /// Returns the exit code in a phase.
    fn exit_code(self, phase: &str) -> i32 {
        const GARBAGE_ARGS: WrongReply = WrongReply::Accepted(4);
        const PROC_UNAVAIL: WrongReply = WrongReply::Accepted(3);
        match self {
            GARBAGE_ARGS => 6,
            PROC_UNAVAIL | Self::OtherXid | Self::Cut | Self::OtherOperation | Self::Denied(0) => 1,
            _ if phase == "final check" => 3,
            _ => 4,
        }
    }
}

#[derive(Default)]
struct Watched {
    server: MockServer,
    connections: u32,
    calls: Vec<SeenCall>,
    closing: Option<Closing>,
    /// The call that gets a wrong reply.
    wrong: Option<(usize, WrongReply)>,
}

fn seen(connection: u32, message: &[u8]) -> Option<SeenCall> {
    let mut cursor = Cursor::new(message);
    let header = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = header.call()?;
    let mut seen = SeenCall { connection, program: call.prog, version: call.vers, minor: None, operations: Vec::new() };
    match (call.prog, call.vers, call.proc) {
        (_, _, 0) => {}
        (Program::NFS, 4, _) => {
            let compound = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            seen.minor = Some(compound.head.minorversion);
            seen.operations = compound.operations().map_while(Result::ok).map(|args| args.operation().name()).collect();
        }
        (Program::NFS, 3, number) => seen.operations.extend(v3::ProcedureNumber(number).name()),
        (Program::MOUNT, 3, number) => seen.operations.extend(mount::v3::ProcedureNumber(number).name()),
        _ => {}
    }
    Some(seen)
}

/// Serves a watched server, with NFS and its auxiliary programs on one port.
fn serve(watched: &Arc<Mutex<Watched>>) -> Proxy {
    let behind = Arc::clone(watched);
    let proxy = Proxy::of(FaultInjector::honest(), move |mut client, _| {
        let connection = {
            let mut watched = behind.lock().unwrap();
            watched.connections += 1;
            watched.connections
        };
        while let Ok(Some(call)) = record(&mut client) {
            let reply = {
                let mut reply = MockReply::default();
                let mut watched = behind.lock().unwrap();
                let number = watched.calls.len();
                watched.calls.extend(seen(connection, &call));
                let closing = watched.closing.filter(|closing| closing.call == number);
                if closing.is_some() {
                    watched.closing = None;
                }
                if closing.is_none_or(|closing| closing.is_executed) {
                    watched.server.connection = connection.into();
                    watched.server.call(Cursor::new(&call), &mut reply);
                }
                // The number of results follows the status of the COMPOUND and its tag, which is empty.
                let mut reply = reply.complete_message();
                let count = reply.get(32..36).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
                if let Some(seen) = watched.calls.get_mut(number).filter(|seen| seen.minor.is_some()) {
                    seen.operations.truncate(count.map_or(0, |count| count as usize));
                }
                if closing.is_some() {
                    return;
                }
                if let Some((_, wrong)) = watched.wrong.filter(|(call, _)| *call == number)
                    && wrong.apply(&mut reply, &watched.calls[number])
                {
                    watched.wrong = None;
                }
                reply
            };
            if send(&mut client, &reply).is_err() {
                return;
            }
        }
    });
    watched.lock().unwrap().server.port = proxy.port;
    proxy
}

/// Command under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Replay,
    Probe,
}

struct Outcome {
    code: i32,
    output: String,
    errors: String,
    calls: Vec<SeenCall>,
    refused: u64,
    /// `true` if the connection was closed, or a reply was wrong.
    is_closed: bool,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Closed(Closing),
    Wrong(usize, WrongReply),
}

/// Runs the program against a new server.
fn run(
    task: Task,
    version: &str,
    trace: &str,
    refusal: Option<MockRefusal>,
    disturbance: Option<Disturbance>,
    what: &dyn fmt::Display,
) -> Outcome {
    let mut server = MockServer::default();
    (server.refusal, server.confirms_owners) = (refusal, true);
    let mut watched = Watched { server, ..Watched::default() };
    match disturbance {
        Some(Disturbance::Closed(closing)) => watched.closing = Some(closing),
        Some(Disturbance::Wrong(call, wrong)) => watched.wrong = Some((call, wrong)),
        None => {}
    }
    let watched = Arc::new(Mutex::new(watched));
    let proxy = serve(&watched);
    let url = format!("tcp://127.0.0.1:{0}/?vers={version}&rpcbindport={0}", proxy.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    match task {
        Task::Replay => command.args(["replay", "run", trace, "--order", "serial", "--timeout", "5"]),
        Task::Probe => command.args(["probe"]),
    };
    command.args(["--server", &url]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            panic!("{version} {what}: no end within {} s", TIME_LIMIT.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let watched = watched.lock().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
        calls: watched.calls.clone(),
        refused: watched.server.refusal.as_ref().map_or(0, |refusal| refusal.refused),
        is_closed: disturbance.is_some() && watched.closing.is_none() && watched.wrong.is_none(),
    }
}

/// Returns a trace of some frames of a capture.
fn trace_of(capture: &str, [from, to]: [u32; 2], test: &str) -> Passing {
    let part = Passing::new(&format!("{test}-{capture}-{from}.pcapng"));
    let trace = Passing::new(&format!("{test}-{capture}-{from}.trace"));
    let path = captures::path(capture);
    let frames = format!("frame.number > {from} && frame.number < {to}");
    let arguments = ["-q", "--summary", "none", "-r", path.to_str().unwrap(), "-Y", &frames, "-w", part.name()];
    let written = program(&arguments);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let compiled = program(&["replay", "compile", "-q", part.name(), "-o", trace.name()]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert!(fs::metadata(trace.name()).unwrap().len() > 0);
    trace
}

/// Returns the phase of each call that the program itself sends.
fn phases(task: Task, version: &str, calls: &[SeenCall]) -> Vec<Option<&'static str>> {
    let is_file_access = |call: &&SeenCall| call.program == Program::NFS && !call.operations.is_empty();
    let first = calls.iter().find(is_file_access).map_or(0, |call| call.connection);
    let last = calls.iter().rev().find(is_file_access).map_or(0, |call| call.connection);
    let second = calls.iter().filter(is_file_access).map(|call| call.connection).find(|number| *number > first);
    let mut phases = BTreeMap::from([(first, "set-up"), (last, "final check")]);
    // The captured clients exist before the first frame.
    if let Some(second) = second.filter(|_| version != "3" && version != "4.0" && task == Task::Replay) {
        phases.entry(second).or_insert("prologue");
    }
    let phase = |call: &SeenCall| match (task, call.program) {
        (Task::Probe, _) => Some("probe"),
        (_, Program::MOUNT) => Some("set-up"),
        _ => phases.get(&call.connection).copied(),
    };
    calls.iter().map(phase).collect()
}

/// Returns the operations that the program itself sends in each phase, with the number of earlier executions.
fn occasions(task: Task, version: &str, calls: &[SeenCall]) -> Vec<(&'static str, &'static str, u64)> {
    let (mut counts, mut found) = (BTreeMap::<&str, u64>::new(), Vec::new());
    let mut have = BTreeSet::new();
    for (call, phase) in calls.iter().zip(phases(task, version, calls)) {
        // The server knows no EXPORT, and the result of UMNT does not matter.
        let operations = call.operations.iter().filter(|name| call.program == Program::NFS || **name == "MNT");
        for operation in operations {
            let count = counts.entry(operation).or_default();
            if let Some(phase) = phase
                && have.insert((phase, *operation))
            {
                found.push((phase, *operation, *count));
            }
            *count += 1;
        }
    }
    found
}

/// Returns the statuses of a version: RFC 1813 section 2.6, RFC 7530 section 13, RFC 8881 section 15.1, RFC 7862
/// section 11, RFC 8276 section 8.5.
fn statuses(version: &str, operation: &str) -> Vec<u32> {
    match version {
        // RFC 1813 section 5.1.5.
        _ if operation == "MNT" => vec![1, 2, 5, 13, 20, 22, 63, 10_004, 10_006],
        "3" => [1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71]
            .into_iter()
            .chain(10_001..=10_008)
            .collect(),
        _ => (1..12_000).filter(|status| Nfsstat4(*status).name().is_some()).collect(),
    }
}

/// Returns `true` if a client must recover from the status: it is asked to wait, or its operation can say that the server
/// has lost a session or a client, or counts a slot otherwise. RFC 7530 section 13.2, RFC 8881 sections 15.1.1.3,
/// 15.1.9.2 and 15.2.
fn is_recoverable(version: &str, operation: &str, status: u32) -> bool {
    const DELAY: u32 = 10_008;
    const GRACE: u32 = 10_013;
    let is_v40 = version == "4.0";
    let uses_stateid = matches!(operation, "OPEN" | "OPEN_CONFIRM" | "CLOSE" | "READ" | "WRITE" | "SETATTR");
    match status {
        DELAY => true,
        _ if version == "3" || operation == "MNT" => false,
        GRACE => true,
        10_011 => uses_stateid,
        10_022 if is_v40 => matches!(operation, "OPEN" | "SETCLIENTID_CONFIRM"),
        10_022 => operation == "CREATE_SESSION",
        10_023 => is_v40 && uses_stateid && operation != "OPEN",
        10_026 => is_v40 && matches!(operation, "OPEN" | "OPEN_CONFIRM" | "CLOSE"),
        10_054 => operation == "RECLAIM_COMPLETE",
        10_068 | 10_078 => !is_v40 && operation != "GETFH",
        10_063 => matches!(operation, "SEQUENCE" | "CREATE_SESSION"),
        10_052 | 10_053 | 10_055 | 10_076 | 10_077 => operation == "SEQUENCE",
        _ => false,
    }
}

/// Returns the number of cases of which one is tried.
fn sampling(default: usize) -> usize {
    match env::var("NFSRDMA_CLIENT_STATUSES").as_deref() {
        Ok("full") => 1,
        Ok(step) => step.parse().expect("NFSRDMA_CLIENT_STATUSES: full, or N for one of N cases"),
        Err(_) => default,
    }
}

/// Calls `action` for each item in as many threads as this machine has processors.
fn in_parallel<T: Sync>(items: &[T], action: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    action(item);
                }
            });
        }
    });
}

/// Asserts that every call on the wire has the requested version.
fn assert_version(version: &str, outcome: &Outcome, what: &str) {
    for call in outcome.calls.iter().filter(|call| call.program == Program::NFS && !call.operations.is_empty()) {
        let text = call.minor.map_or_else(|| call.version.to_string(), |minor| format!("{}.{minor}", call.version));
        assert_eq!(text, version, "{what}: {call:?}");
    }
}

fn status_name(version: &str, operation: &str, status: u32) -> String {
    match version {
        _ if operation == "MNT" => mount::Mountstat3(status).to_string(),
        "3" => v3::Nfsstat3(status).to_string(),
        _ => Nfsstat4(status).to_string(),
    }
}

/// Returns `true` if a failure of an operation of the set-up may concern the name, size, type or owner of one object.
fn concerns_object(operation: &str) -> bool {
    matches!(operation, "LOOKUP" | "OPEN" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" | "LINK" | "SETATTR")
}

/// Returns `true` if a status says that this program broke the protocol, and its operation can have it. RFC 7530 section
/// 13.4, RFC 8881 section 15.4.
fn blames_program(version: &str, operation: &str, status: u32) -> bool {
    const BADXDR: u32 = 10_036;
    const WITHOUT_ARGUMENTS: [&str; 4] = ["GETFH", "PUTROOTFH", "READLINK", "SAVEFH"];
    version != "3" && operation != "MNT" && status == BADXDR && !WITHOUT_ARGUMENTS.contains(&operation)
}

/// Returns `true` if the server failed. RFC 1813 section 2.6, RFC 8881 sections 15.1.1.6 and 15.1.4.6.
fn is_failure(status: u32) -> bool {
    matches!(status, 5 | 10_006)
}

/// Returns `true` if a status may have no effect. The state of a client that is not destroyed ends with its lease, and
/// nobody uses it: RFC 8881 sections 18.37 and 18.50. An owner whose open is in doubt is replaced by another one.
fn may_be_silent(operation: &str, status: u32) -> bool {
    const NOENT: u32 = 2;
    const STATEIDS: std::ops::RangeInclusive<u32> = 10_024..=10_025;
    match operation {
        // The answer that there is no such name: set-up creates it.
        "LOOKUP" => status == NOENT,
        "DESTROY_SESSION" | "DESTROY_CLIENTID" => true,
        "OPEN" | "OPEN_CONFIRM" | "CLOSE" => STATEIDS.contains(&status),
        _ => false,
    }
}

/// Judges the outcome of one status at one operation.
fn judge(version: &str, (phase, operation, status): (&str, &str, u32), outcome: &Outcome) -> Result<(), String> {
    let name = status_name(version, operation, status);
    let Outcome { code, output, errors, .. } = outcome;
    let said = errors.lines().find(|line| line.contains(&name));
    let names_all = said.is_some_and(|line| {
        line.contains(operation) && (line.contains("; ") || line.contains(": ") && line.contains('('))
    });
    match (*code, phase) {
        // State that is not released ends with its lease.
        (0, _) if matches!(operation, "DESTROY_SESSION" | "DESTROY_CLIENTID") => Ok(()),
        (0, _) if blames_program(version, operation, status) => Err("exit 0, not 6".into()),
        // The server has not refused, but failed.
        (0, "set-up" | "prologue" | "final check") if is_failure(status) => Err("exit 0 after a failure".into()),
        (0, _) if is_recoverable(version, operation, status) || may_be_silent(operation, status) => Ok(()),
        // What the server lacks is an answer for a probe; set-up can do without an owner, a size or a mode.
        (0, "probe") if output.contains(&name) || errors.contains(&name) => Ok(()),
        (0, "set-up") if output.contains(&name) && (concerns_object(operation) || operation == "READDIR") => Ok(()),
        // An open from before the capture that no step needs.
        (0, "prologue") if output.contains(&name) && matches!(operation, "PUTFH" | "OPEN") => Ok(()),
        (0, _) => Err("exit 0, and nothing says why".into()),
        (6, _) if blames_program(version, operation, status) && errors.contains(&name) => Ok(()),
        _ if blames_program(version, operation, status) => Err(format!("exit {code}, not 6: {errors}")),
        // A status that the operation cannot have.
        (1, "set-up" | "probe" | "final check") if names_all && errors.contains("the server broke the protocol") => {
            Ok(())
        }
        _ if errors.contains("the server broke the protocol") && phase != "prologue" => {
            Err(format!("exit {code}, not 1: {errors}"))
        }
        _ if is_recoverable(version, operation, status) => Err(format!("exit {code}, not recovered: {errors}")),
        // In words: the file is missing.
        (1, "final check") if operation == "LOOKUP" && output.contains("LOOKUP: no such name") => Ok(()),
        (1, "final check") if output.contains(&name) => Ok(()),
        (3, "final check") if names_all || output.contains(&name) => Ok(()),
        // An object that the server rejects is left out, and the report has the reason.
        (1 | 3, "set-up") if output.contains(&name) && concerns_object(operation) => Ok(()),
        // Steps that need what the server refuses are not replayed, and the report has the reason.
        (1 | 3, "prologue") if output.contains(&name) => Ok(()),
        (2, "set-up") | (4, "set-up" | "probe") if names_all && errors.lines().count() == 1 => Ok(()),
        _ => Err(format!("exit {code}: {errors}")),
    }
}

#[test]
fn every_status_keeps_version_and_exit_codes() {
    let counts = Mutex::new(BTreeMap::<String, u64>::new());
    let failures = Mutex::new(Vec::new());
    for (version, capture, frames) in VERSIONS {
        let trace = trace_of(capture, frames, "statuses");
        for task in [Task::Replay, Task::Probe] {
            let honest = run(task, version, trace.name(), None, None, &"without a refusal");
            assert_eq!(honest.code, 0, "{version} {task:?}: {}{}", honest.output, honest.errors);
            assert_version(version, &honest, "without a refusal");
            let occasions = occasions(task, version, &honest.calls);
            assert!(occasions.len() >= 2, "{version} {task:?}: {occasions:?}");
            let cases = occasions
                .iter()
                .flat_map(|occasion| statuses(version, occasion.1).into_iter().map(move |status| (*occasion, status)));
            let step = sampling(19);
            let always = |status| matches!(status, 10_008 | 10_021 | 10_022 | 10_052);
            let cases: Vec<_> = cases
                .enumerate()
                .filter(|(at, (_, status))| at % step == 0 || always(*status) && at % 5 == 0)
                .map(|(_, case)| case)
                .collect();
            in_parallel(&cases, |((phase, operation, skip), status)| {
                let name = status_name(version, operation, *status);
                let what = format!("{phase} {operation} {name}");
                let refusal = MockRefusal::once(operation, *status, *skip);
                let outcome = run(task, version, trace.name(), Some(refusal), None, &what);
                if outcome.refused != 1 {
                    failures.lock().unwrap().push(format!("NFSv{version} {what}: not reached"));
                    return;
                }
                assert_version(version, &outcome, &what);
                *counts.lock().unwrap().entry(format!("NFSv{version} {phase} exit {}", outcome.code)).or_default() += 1;
                if let Err(why) = judge(version, (phase, operation, *status), &outcome) {
                    failures.lock().unwrap().push(format!("NFSv{version} {what}: {why}"));
                }
            });
        }
    }
    let counts = counts.into_inner().unwrap();
    eprintln!("{counts:#?}\n{} runs", counts.values().sum::<u64>());
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Answers each operation that the program itself sends with a status, if `is_impossible` for its version and operation,
/// and expects that the server is said to have broken the protocol.
fn assert_breaks_protocol(status: u32, sample: usize, is_impossible: impl Fn(&str, &str) -> bool) {
    let failures = Mutex::new(Vec::new());
    let runs = AtomicUsize::new(0);
    for (version, capture, frames) in VERSIONS {
        let trace = trace_of(capture, frames, &format!("impossible-{status}"));
        for task in [Task::Replay, Task::Probe] {
            let honest = run(task, version, trace.name(), None, None, &"without a refusal");
            let mut occasions = occasions(task, version, &honest.calls);
            // A failed release of state has no consequence.
            occasions.retain(|(_, operation, _)| !matches!(*operation, "DESTROY_SESSION" | "DESTROY_CLIENTID"));
            occasions.retain(|(_, operation, _)| is_impossible(version, operation));
            let occasions: Vec<_> = occasions.into_iter().step_by(sample).collect();
            in_parallel(&occasions, |(phase, operation, skip)| {
                let what = format!("NFSv{version} {phase} {operation}");
                let refusal = MockRefusal::once(operation, status, *skip);
                let Outcome { code, errors, refused, .. } =
                    run(task, version, trace.name(), Some(refusal), None, &what);
                runs.fetch_add(1, Ordering::Relaxed);
                let is_said =
                    *phase != "set-up" && *phase != "probe" || errors.contains("the server broke the protocol");
                if (code, refused, is_said) != (1, 1, true) {
                    failures.lock().unwrap().push(format!("{what}: exit {code}, {refused} refused: {errors}"));
                }
            });
        }
    }
    let (runs, failures) = (runs.into_inner(), failures.into_inner().unwrap());
    eprintln!("{runs} runs");
    assert!(runs > 50 / sample && failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// A status that no version defines (RFC 1813 sections 2.6 and 5.1.5, RFC 8881 section 15.1) breaks the protocol, at each
/// operation that the program itself sends.
#[test]
fn undefined_status_breaks_the_protocol() {
    assert_breaks_protocol(4711, 1, |_, _| true);
}

/// RFC 7530 section 13.2, RFC 8881 section 15.2: NFS4ERR_REJECT_DELEG is a status of callbacks, NFS4ERR_BAD_COOKIE one of
/// READDIR, and NFS4ERR_NOSPC one of operations that store something.
#[test]
fn impossible_status_breaks_the_protocol() {
    const NOSPC: u32 = 28;
    const BAD_COOKIE: u32 = 10_003;
    const REJECT_DELEG: u32 = 10_085;
    let is_v4 = |version: &str, operation: &str| version != "3" && operation != "MNT";
    assert_breaks_protocol(REJECT_DELEG, 1, is_v4);
    assert_breaks_protocol(BAD_COOKIE, 2, |version, operation| is_v4(version, operation) && operation != "READDIR");
    let reads = |operation: &str| {
        matches!(operation, "EXCHANGE_ID" | "SETCLIENTID" | "PUTFH" | "PUTROOTFH" | "LOOKUP" | "GETATTR" | "READDIR")
    };
    assert_breaks_protocol(NOSPC, 2, |version, operation| is_v4(version, operation) && reads(operation));
}

/// Before its execution, and in a session, whose slots keep replies, also after it; in set-up in all versions.
#[test]
fn connection_closed_at_any_call_is_replaced() {
    let failures = Mutex::new(Vec::new());
    let runs = AtomicUsize::new(0);
    for (version, capture, frames) in VERSIONS {
        let trace = trace_of(capture, frames, "closings");
        for task in [Task::Replay, Task::Probe] {
            let honest = run(task, version, trace.name(), None, None, &"without a loss");
            let step = sampling(13);
            let all_calls = 0..honest.calls.len();
            let calls: Vec<_> = all_calls.step_by(if task == Task::Probe { step.min(3) } else { step }).collect();
            in_parallel(&calls, |call| {
                for is_executed in [false, true] {
                    // Without a session, set-up recognises its own objects; a step may find its own result.
                    let first = honest.calls.first().map(|call| call.connection);
                    let is_setup = honest.calls.get(*call).map(|call| call.connection) == first;
                    if is_executed && !matches!(version, "4.1" | "4.2") && !is_setup {
                        continue;
                    }
                    let operations = honest.calls.get(*call).map(|call| call.operations.join(" "));
                    let what = format!("closed at call {call} ({operations:?}), executed: {is_executed}");
                    let closing = Closing { call: *call, is_executed };
                    let outcome = run(task, version, trace.name(), None, Some(Disturbance::Closed(closing)), &what);
                    runs.fetch_add(1, Ordering::Relaxed);
                    assert!(outcome.is_closed, "{version} {task:?} {what}: not reached");
                    assert_version(version, &outcome, &what);
                    if outcome.code != 0 {
                        let text = format!("NFSv{version} {task:?} {what}: exit {}: {}", outcome.code, outcome.errors);
                        failures.lock().unwrap().push(text);
                    }
                }
            });
        }
    }
    eprintln!("{} runs", runs.into_inner());
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Replies that break the protocol, and calls that RPC does not execute, in set-up, final check and probe. RFC 5531
/// section 9.
#[test]
fn wrong_replies_have_documented_exit_codes() {
    let counts = Mutex::new(BTreeMap::<String, u64>::new());
    let failures = Mutex::new(Vec::new());
    for (version, capture, frames) in VERSIONS {
        let trace = trace_of(capture, frames, "wrong");
        for task in [Task::Replay, Task::Probe] {
            let honest = run(task, version, trace.name(), None, None, &"without a wrong reply");
            // State that is not released ends with its lease, and an export list is not needed.
            const HARMLESS: [&str; 4] = ["DESTROY_SESSION", "DESTROY_CLIENTID", "UMNT", "EXPORT"];
            let is_judged = |call: &SeenCall| {
                let is_null = call.operations.is_empty();
                !is_null && !HARMLESS.iter().any(|harmless| call.operations.contains(harmless))
            };
            let phases = phases(task, version, &honest.calls);
            let calls = honest.calls.iter().zip(&phases).enumerate();
            let calls = calls
                .filter(|(_, (call, phase))| is_judged(call) && matches!(phase, Some(phase) if *phase != "prologue"));
            let all: Vec<_> = calls
                .flat_map(|(at, (call, phase))| {
                    let phase = phase.unwrap_or_default();
                    WrongReply::ALL.into_iter().map(move |wrong| (at, call, phase, wrong))
                })
                .filter(|(_, call, _, wrong)| *wrong != WrongReply::OtherOperation || call.minor.is_some())
                .collect();
            let cases: Vec<_> = all.into_iter().step_by(sampling(17)).collect();
            in_parallel(&cases, |(at, call, phase, wrong)| {
                let what = format!("NFSv{version} {phase} {:?} {wrong:?}", call.operations);
                let outcome = run(task, version, trace.name(), None, Some(Disturbance::Wrong(*at, *wrong)), &what);
                *counts.lock().unwrap().entry(format!("{phase} {wrong:?} exit {}", outcome.code)).or_default() += 1;
                let text = match () {
                    () if !outcome.is_closed => format!("{what}: not reached"),
                    () if outcome.code != wrong.exit_code(phase) => {
                        format!("{what}: exit {}: {}{}", outcome.code, outcome.errors, outcome.output)
                    }
                    () => return,
                };
                failures.lock().unwrap().push(text);
            });
        }
    }
    eprintln!("{:#?}", counts.into_inner().unwrap());
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// A server with other minor versions, or that refuses: only NFS4ERR_MINOR_VERS_MISMATCH leads to a lower one, and only
/// if the URL names none.
#[test]
fn lower_minor_version_only_after_mismatch() {
    let (_, capture, frames) = VERSIONS[3];
    let trace = trace_of(capture, frames, "mismatch");
    let minors = |url_version: &str, status: u32| {
        let watched = Arc::new(Mutex::new(Watched::default()));
        watched.lock().unwrap().server.refusal = Some(MockRefusal::once("EXCHANGE_ID", status, 0));
        let proxy = serve(&watched);
        let url = format!("tcp://127.0.0.1:{}/{url_version}", proxy.port);
        let seeded = program(&["replay", "seed", trace.name(), "--directory", "one", "--server", &url]);
        let calls = watched.lock().unwrap().calls.clone();
        let minors: BTreeSet<_> = calls.iter().filter_map(|call| call.minor).collect();
        (seeded.status.code(), minors.into_iter().collect::<Vec<_>>())
    };
    const MISMATCH: u32 = 10_021;
    assert_eq!(minors("", MISMATCH), (Some(0), vec![1, 2]));
    assert_eq!(minors("?vers=4.2", MISMATCH), (Some(2), vec![2]));
    // The last is none of EXCHANGE_ID: RFC 8881 section 15.2.
    for (other, code) in [(10_006, 2), (10_008, 0), (10_017, 2), (10_004, 1)] {
        let code = Some(code);
        assert_eq!(minors("", other), (code, vec![2]), "{other}");
    }
}
