//! Captures that end while a call is in flight, or lack one reply, on the mock server: no difference is reported that
//! is none, and no file gets bytes that the whole capture never wrote to its path.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking, in its helper functions too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Cursor, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v4::{CompoundCall, Operation};
use nfsrdma_dissectors::nfs::{Procedure, v3};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr;
use nfsrdma_flow::transaction::CallDirection;
use nfsrdma_flow::{Flow, FlowLimits, Transaction};
use nfsrdma_mock_server::server::fault_injection::{
    MockFaultInjector, MockFieldMutation, MockFieldPath, MockFileTreeFault, MockServerFault, MockServerFaultKind, all,
};
use nfsrdma_mock_server::server::{MockListingPolicy, MockReply, MockServer};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::auxiliary_programs::ConfiguredAuxiliaryPorts;
use nfsrdma_replay::compile::TraceCompiler;
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient};
use nfsrdma_replay::run::missing_calls::MissingCalls;
use nfsrdma_replay::run::report::StepMismatch;
use nfsrdma_replay::run::{ReplayOptions, ReplayOrder, ReplayReport, run};
use nfsrdma_replay::seed::file_server_client::VersionIndependentNfsClient;
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::Nfs4Client;
use nfsrdma_replay::seed::{SeedMode, SeededTree, ServerRunDirectory, seed};
use nfsrdma_replay::trace::ReplayTraceReader;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};
use nfsrdma_rpc::{ConnectOptions, ConnectTarget, RpcClientTransport};

/// Copy of a frame of a capture.
struct Kept {
    time: Timestamp,
    link: LinkType,
    bytes: Vec<u8>,
    length: u32,
}

/// Returns the frames of a capture, with their numbers.
fn frames(name: &str) -> Vec<Kept> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let path = ["pcap", "pcap.gz"].map(|extension| folder.join(format!("{name}.{extension}")));
    let path = path.into_iter().find(|path| path.exists()).unwrap();
    let mut source = CaptureFrameSource::open([path]).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        let (time, link, length) = (frame.time, frame.link, frame.length);
        frames.push(Kept { time, link, length, bytes: frame.bytes.to_vec() });
    }
    frames
}

/// Serves the programs beside NFS over TCP. Returns the port.
fn serve(server: &Arc<Mutex<MockServer>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    server.lock().unwrap().port = port;
    let server = Arc::downgrade(server);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let server = server.clone();
            thread::spawn(move || {
                while let Some(call) = record(&mut stream) {
                    let Some(server) = server.upgrade() else { return };
                    let mut reply = MockReply::default();
                    server.lock().unwrap().call(xdr::Cursor::new(&call), &mut reply);
                    let message = reply.complete_message();
                    let mark = 0x8000_0000 | message.len() as u32;
                    if stream.write_all(&[&mark.to_be_bytes()[..], &message].concat()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Reads a record of one fragment.
fn record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut message = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

fn target() -> ConnectTarget {
    let options = ConnectOptions { timeout: Duration::from_secs(10), ..ConnectOptions::default() };
    ConnectTarget { address: ([127, 0, 0, 1], 20049).into(), name: "localhost".into(), options }
}

/// Trace, and a server with its tree.
struct Work {
    file: Arc<[u8]>,
    server: MockServer,
    seeded: SeededTree,
}

impl Work {
    fn new(version: u32, file: Vec<u8>) -> Self {
        let file: Arc<[u8]> = file.into();
        let mut server = MockServer::default();
        server.confirms_owners = true;
        let server = Arc::new(Mutex::new(server));
        let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
        let target = target();
        let connection = transport.connect(&target).unwrap();
        let root = server.lock().unwrap().root().to_vec();
        let line =
            RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1), target.options.timeout);
        let mut containment = Containment::for_seeding("/", "run");
        containment.set_export_handle(&root);
        let line = ContainmentCheckedRpcClient::new(line, &mut containment);
        let mut files: Box<dyn VersionIndependentNfsClient> = match version {
            3 => Box::new(Nfs3Client::new(line, root)),
            _ => Box::new(Nfs4Client::new(line, "seed", &[2, 1, 0]).unwrap()),
        };
        let place = ServerRunDirectory { export: "/", directory: "run" };
        let mut contents = ReplayTraceReader::open(Cursor::new(Arc::clone(&file))).unwrap();
        let mut seeded = seed(&mut contents, &mut *files, &place, SeedMode::Make, |_, _| Ok(())).unwrap();
        seeded.record_initial_names(&mut *files).unwrap();
        files.close();
        drop(files);
        let server = server.lock().unwrap().clone();
        Self { file, server, seeded }
    }
}

/// Files of a server by their path below the directory of the run.
type Files = BTreeMap<Vec<u8>, Vec<u8>>;

/// Every content that each path had during a run.
#[derive(Default)]
struct History {
    contents: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl History {
    /// Returns a file with a byte that the path never had at its offset; a hole is zeros.
    fn foreign(&self, files: &Files) -> Option<String> {
        let is_foreign = |(path, content): &(&Vec<u8>, &Vec<u8>)| {
            let versions = self.contents.get(*path).map_or(&[][..], Vec::as_slice);
            // A separate object replaces a handle whose name was lost with a reply: it has no path in the whole run.
            if versions.contains(content) || versions.is_empty() && path.starts_with(b"/nameless/") {
                return false;
            }
            let is_known =
                |(at, byte): (usize, &u8)| *byte == 0 || versions.iter().any(|version| version.get(at) == Some(byte));
            !content.iter().enumerate().all(is_known)
        };
        let found = files.iter().find(is_foreign)?;
        Some(String::from_utf8_lossy(found.0).into_owned())
    }
}

/// Compiles the trace of frames.
fn compiled<'f>(frames: impl Iterator<Item = (u64, &'f Kept)>, mut visit: impl FnMut(&Transaction)) -> Vec<u8> {
    let mut flow = Flow::new(FlowLimits { keep_file_data: true, ..FlowLimits::default() });
    let mut compiler = TraceCompiler::new(Cursor::new(Vec::new()), TraceFileDataRetention::KEPT, 64 << 20).unwrap();
    let mut drain = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|reading| compiler.add(&transaction, reading, true)).unwrap();
            visit(&transaction);
        }
    };
    for (number, kept) in frames {
        let Kept { time, link, bytes, length } = kept;
        let number = FrameNumber(number);
        flow.process_frame(&Frame { number, time: *time, link: *link, bytes, length: *length });
        drain(&mut flow);
    }
    flow.finish();
    drain(&mut flow);
    compiler.finish(&[]).unwrap().0.into_inner()
}

/// Replays a trace in serial order. Returns the report, the files afterwards, and those that each path had.
fn replayed(work: &Work, records: bool) -> (ReplayReport, Files, History) {
    let (report, server) = replayed_on(work, records);
    let mut server = server.lock().unwrap();
    let history = History { contents: server.file_history.take().map_or_else(BTreeMap::new, |(_, contents)| contents) };
    (report, server.tree.files(b"run"), history)
}

/// Replays a trace in serial order. Returns the report and the server.
fn replayed_on(work: &Work, records: bool) -> (ReplayReport, Arc<Mutex<MockServer>>) {
    let open = || ReplayTraceReader::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let server = Arc::new(Mutex::new(work.server.clone()));
    let port = serve(&server);
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    let options = ReplayOptions {
        order: ReplayOrder::Serial,
        max_shown_mismatches: 10,
        auxiliary_ports: ConfiguredAuxiliaryPorts { port_mapper: Some(port), mount: None },
        ..ReplayOptions::default()
    };
    server.lock().unwrap().file_history = records.then(|| (b"run".to_vec(), BTreeMap::new()));
    let report = run(&mut steps, &mut contents, &mut transport, &target(), &work.seeded, &options, &mut ()).unwrap();
    (report, server)
}

/// Replays a trace on a server with a fault. Returns the report and the number of injections.
fn replayed_with(work: &mut Work, fault: MockServerFault, skip: u64) -> (ReplayReport, u64) {
    work.server.fault_injector = Some(MockFaultInjector::new(fault).with_skips(skip));
    let (report, server) = replayed_on(work, false);
    let injections = server.lock().unwrap().fault_injector.as_ref().map_or(0, MockFaultInjector::injections);
    (report, injections)
}

/// Returns the first difference in a report; `None` if there is none.
fn difference(report: &ReplayReport) -> Option<String> {
    let mut text = String::new();
    for mismatch in &report.steps.mismatches {
        for found in mismatch.differences.iter().take(3) {
            let values = [&found.a, &found.b].map(|side| side.value.clone().unwrap_or_default());
            let _ = write!(text, "{} {:?}: {} {values:?}; ", mismatch.operation, mismatch.step.frames, found.path);
        }
    }
    let walked = report.tree_check.as_ref();
    for mismatch in walked.map_or(&[][..], |walked| &walked.mismatches[..]) {
        let found = &mismatch.differences[0];
        let values = [&found.a, &found.b].map(|side| side.value.clone().unwrap_or_default());
        let _ = write!(text, "final {} {} {values:?}; ", found.operation, found.path);
    }
    if let Some(failed) = walked.and_then(|walked| walked.failed.as_ref()) {
        let _ = write!(text, "final check: {failed}; ");
    }
    if !report.protocol.own.is_empty() || !report.protocol.violations.is_empty() {
        let _ = write!(text, "{:?} {:?}; ", report.protocol.own, report.protocol.violations);
    }
    if report.mismatched() > 0 && text.is_empty() {
        text.push_str("mismatched");
    }
    (!text.is_empty()).then_some(text)
}

/// Numbers of a set of runs.
#[derive(Debug, Default)]
struct Totals {
    runs: usize,
    steps: u64,
    compared: u64,
    /// The share of the compared steps of the whole run that has replies.
    comparable: u64,
    unreplayable: u64,
    bytes: u64,
    written: u64,
    faults: Vec<String>,
}

/// The run of a whole capture.
struct Whole {
    difference: Option<String>,
    compared: u64,
    bytes: u64,
    history: History,
}

impl Totals {
    fn run(
        &mut self,
        (name, version): (&'static str, u32),
        file: Vec<u8>,
        whole: &Whole,
        (replies, all): (usize, usize),
        what: &str,
    ) {
        let work = Work::new(version, file);
        let (report, files, _) = replayed(&work, false);
        self.runs += 1;
        self.steps += report.steps.total;
        self.compared += report.replayed();
        self.comparable += whole.compared * replies as u64 / all as u64;
        let unreplayable = report.steps.operations.values().map(|of| of.states.unreplayable).sum::<u64>();
        self.unreplayable += unreplayable;
        match &report.tree_check {
            Some(walked) => {
                self.bytes += walked.bytes;
                self.written += walked.written_bytes;
            }
            None => self.faults.push(format!("{name} {what}: no final check")),
        }
        // A difference of the whole capture remains one.
        if let Some(found) = difference(&report).filter(|found| Some(found) != whole.difference.as_ref()) {
            self.faults.push(format!("{name} {what}: {found}"));
        }
        if let Some(path) = whole.history.foreign(&files) {
            self.faults.push(format!("{name} {what}: foreign bytes in {path}"));
        }
    }

    /// Returns the percentage of the steps with replies that were compared, and of the bytes that were checked.
    fn percentages(&self, all_bytes: u64) -> [u64; 2] {
        let of = |part: u64, all: u64| (100 * part).checked_div(all).unwrap_or(100);
        [of(self.compared, self.comparable), of(self.bytes, all_bytes)]
    }
}

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    /// Returns `true` once in `share` times.
    fn is_chosen(&mut self, share: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(share)
    }
}

/// Cuts a capture before each reply, removes each reply, and each two consecutive ones, or does so with a sample of
/// them; and removes several.
fn holes(name: &'static str, version: u32) {
    let frames = frames(name);
    let mut replies: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let whole = compiled((1..).zip(&frames), |transaction| {
        let reply = transaction.reply.as_ref().filter(|_| transaction.direction == CallDirection::Forward);
        let numbers: BTreeSet<u64> =
            reply.into_iter().flat_map(|reply| reply.frames.iter()).map(|FrameNumber(number)| *number).collect();
        if let Some(first) = numbers.first() {
            replies.insert(*first, numbers);
        }
    });
    let work = Work::new(version, whole);
    let (report, _, history) = replayed(&work, true);
    let walked = report.tree_check.as_ref().unwrap();
    let whole = &Whole { difference: difference(&report), compared: report.replayed(), bytes: walked.bytes, history };
    let step = match std::env::var("NFSRDMA_HOLES").ok().as_deref() {
        Some("full") => 1,
        Some(step) => step.parse().unwrap(),
        None => 23,
    };
    let all = replies.len();
    let (mut cuts, mut removed, mut pairs) = (Totals::default(), Totals::default(), Totals::default());
    for (index, (first, numbers)) in replies.iter().enumerate().step_by(step) {
        let before = (1..).zip(&frames).take_while(|(number, _)| number < first);
        cuts.run((name, version), compiled(before, |_| {}), whole, (index, all), &format!("cut before frame {first}"));
        let others = (1..).zip(&frames).filter(|(number, _)| !numbers.contains(number));
        removed.run(
            (name, version),
            compiled(others, |_| {}),
            whole,
            (all - 1, all),
            &format!("without frame {first}"),
        );
    }
    let sets: Vec<_> = replies.values().collect();
    for pair in sets.windows(2).step_by(step) {
        let missing: BTreeSet<u64> = pair.iter().copied().flatten().copied().collect();
        let others = (1..).zip(&frames).filter(|(number, _)| !missing.contains(number));
        pairs.run((name, version), compiled(others, |_| {}), whole, (all - 2, all), &format!("without {missing:?}"));
    }
    let mut several = Totals::default();
    for seed in 0..(replies.len() / step).div_ceil(3) as u64 {
        let mut random = Random(seed);
        // From a tenth to a hundredth of the replies.
        let share = [10, 30, 100][seed as usize % 3];
        let chosen: Vec<_> = replies.values().filter(|_| random.is_chosen(share)).collect();
        let missing: BTreeSet<u64> = chosen.iter().copied().flatten().copied().collect();
        let others = (1..).zip(&frames).filter(|(number, _)| !missing.contains(number));
        several.run(
            (name, version),
            compiled(others, |_| {}),
            whole,
            (all - chosen.len(), all),
            &format!("without {missing:?}"),
        );
    }
    // At least these percentages of the steps with replies are compared, and of the bytes of the whole run (of a cut
    // one, of its own bytes) checked.
    let sets = [
        ("cut", &cuts, [90, 75]),
        ("without a reply", &removed, [95, 75]),
        ("without two replies", &pairs, [93, 75]),
        ("without several replies", &several, [85, 50]),
    ];
    let mut faults: Vec<String> = Vec::new();
    for (what, totals, least) in sets {
        let all_bytes = if what == "cut" { totals.written } else { whole.bytes * totals.runs as u64 };
        let reached = totals.percentages(all_bytes);
        eprintln!(
            "{name} {what}: {} runs, {} steps, {} of {} compared, {} unreplayable, {} of {} bytes, {reached:?} %, \
             {} false",
            totals.runs,
            totals.steps,
            totals.compared,
            totals.comparable,
            totals.unreplayable,
            totals.bytes,
            totals.written,
            totals.faults.len(),
        );
        faults.extend(totals.faults.iter().cloned());
        if reached[0] < least[0] || reached[1] < least[1] {
            faults.push(format!("{name} {what}: {reached:?} % of steps and bytes, and not {least:?}"));
        }
    }
    assert!(faults.is_empty(), "{}: {faults:#?}", faults.len());
}

/// Compiles and replays one of the small captures.
fn case(name: &str) -> (ReplayReport, Files) {
    let frames = frames(&format!("cases/{name}"));
    let (report, files, _) = replayed(&Work::new(4, compiled((1..).zip(&frames), |_| {})), false);
    assert_eq!(difference(&report), None, "{name}");
    (report, files)
}

/// The directory in which a CREATE without a captured reply may have made a name has other times now.
#[test]
fn call_in_flight_changes_its_directory() {
    let (report, _) = case("ends-in-flight");
    let walked = report.tree_check.as_ref().unwrap();
    assert_eq!((report.steps.total, walked.names, walked.left_out), (20, 2, 0));
    assert_eq!(report.replayed(), 19, "all but the CREATE");
    let create = "NFS 4.2 CREATE";
    assert_eq!((report.steps.operations[create].states.total(), report.agreeing(create)), (2, 1));
}

/// Frames 104 to 115: OPEN of s2k without a captured reply, and the WRITE of 2,000 bytes to its filehandle.
#[test]
fn handle_of_lost_open_is_bound() {
    let (report, files) = case("reply-of-open-lost");
    let sizes: Vec<_> = files.iter().map(|(path, content)| (&path[..], content.len())).collect();
    let expected: [(&[u8], usize); 6] = [
        (b"/tree/data/w/d12345", 12_345),
        (b"/tree/data/w/s100", 100),
        (b"/tree/data/w/s256k", 262_144),
        (b"/tree/data/w/s2k", 2_000),
        (b"/tree/data/w/s64k", 65_536),
        (b"/tree/data/w/s8k", 8_192),
    ];
    let found: Vec<_> = sizes.into_iter().filter(|(path, _)| *path != b"/tree/data/w/y3000").collect();
    assert_eq!(found, expected);
    let walked = report.tree_check.unwrap();
    assert_eq!((walked.bytes, walked.written_bytes), (353_317, 353_317), "s2k, too");
    assert_eq!(report.synthesized.opens, 0);
}

/// Replays a capture without some frames. Returns what differs, and the files; those of the whole capture are last.
fn with_hole(name: &str, version: u32, is_missing: impl Fn(u64) -> bool) -> (Option<String>, [Files; 2]) {
    let (report, files) = part(name, version, is_missing);
    (difference(&report), [files, part(name, version, |_| false).1])
}

/// Replays a capture without some frames.
fn part(name: &str, version: u32, is_missing: impl Fn(u64) -> bool) -> (ReplayReport, Files) {
    let frames = frames(name);
    let part = (1..).zip(&frames).filter(|(number, _)| !is_missing(*number));
    let (report, files, _) = replayed(&Work::new(version, compiled(part, |_| {})), false);
    (report, files)
}

/// NULL changes nothing, so that nothing is left out without its reply.
#[test]
fn lost_null_leaves_nothing_out() {
    let captures = [("rxe-v42", 8), ("rxe-v40-deleg", 9), ("rxe-v42-deleg", 8), ("rxe-v42-cb-getattr", 8)];
    for (name, reply) in captures {
        let checked = |report: &ReplayReport| {
            let check = report.tree_check.as_ref().unwrap();
            (check.names, check.objects, check.bytes, check.left_out)
        };
        let [(whole, _), (part, _)] = [0, reply].map(|missing| part(name, 4, |number| number == missing));
        assert_eq!((difference(&part), part.uncompared()), (None, 1), "{name}");
        assert_eq!(checked(&part), checked(&whole), "{name}");
    }
}

/// Two consecutive replies: LOCKs of one owner, OPENs of the source and of the target of a CLONE, CREATE of a directory
/// and OPEN of its file, OPEN of a file of 5,000 bytes with its READ, and OPEN of a new file with its WRITE.
#[test]
fn values_of_two_lost_replies_are_bound() {
    let cases: [(&str, [u64; 2]); 6] = [
        ("rxe-v42", [1706, 1710]),
        ("rxe-v40", [1670, 1674]),
        ("tcp-v42", [1078, 1081]),
        ("rxe-v41", [74, 1393]),
        ("rxe-v40-deleg", [130, 139]),
        ("tcp-v42-ganesha", [55, 57]),
    ];
    for (name, missing) in cases {
        let [(whole, of_whole), (report, files)] =
            [&[][..], &missing].map(|missing| part(name, 4, |number| missing.contains(&number)));
        assert_eq!(difference(&report), difference(&whole), "{name} without {missing:?}");
        assert_eq!(files, of_whole, "{name} without {missing:?}");
    }
}

/// A directory that has files cannot be removed: NFS4ERR_NOTEMPTY, NFS3ERR_NOTEMPTY.
#[test]
fn directory_of_refused_removal_is_checked() {
    for (name, version, reply) in [("rxe-v42", 4, 1752), ("rxe-v40", 4, 1732)] {
        let (report, _) = part(name, version, |number| number == reply);
        assert_eq!(difference(&report), None, "{name}");
        let check = report.tree_check.unwrap();
        assert!(check.bytes > 0, "{name}");
        assert_eq!((check.bytes, check.left_out), (check.written_bytes, 0), "{name}: {:?}", check.left_out_paths);
    }
}

/// Replies to SETCLIENTID, OPEN, OPEN_CONFIRM, LOCK and LOCKU: the live ones give client ID and seqid, and later calls
/// count the seqids of one owner, whether they name it or a stateid. RFC 8881 section 8.2.2, RFC 7530 section 9.1.7.
/// An open is confirmed once: RFC 7530 section 16.18.
#[test]
fn values_of_lost_replies_are_bound() {
    let cases = [
        ("rxe-v40-deleg", 28),
        ("rxe-v40-deleg", 89),
        ("rxe-v40-deleg", 94),
        ("rxe-v40", 32),
        ("rxe-v40", 102),
        ("rxe-v40", 1799),
        ("rxe-v40", 1639),
        ("rxe-v41", 1662),
        ("rxe-v42", 1724),
        ("tcp-v42", 1119),
    ];
    for (name, frame) in cases {
        let (difference, [files, whole]) = with_hole(name, 4, |number| number == frame);
        assert_eq!(difference, None, "{name} without frame {frame}");
        assert_eq!(files, whole, "{name} without frame {frame}");
    }
}

/// Frame 130: the OPEN with CREATE found a file of 5,000 bytes, of which 4,096 are read and then written.
#[test]
fn file_of_lost_open_keeps_name() {
    let (difference, [files, _]) = with_hole("rxe-v40-deleg", 4, |number| number == 130);
    assert_eq!(difference, None);
    let sizes: Vec<_> = files.iter().map(|(path, content)| (&path[..], content.len())).collect();
    let expected: [(&[u8], usize); 3] =
        [(b"/tree/data/del1", 5000), (b"/tree/data/del2", 5000), (b"/tree/data/del3", 5000)];
    assert_eq!(sizes, expected);
}

/// The next reply of the listing is missing.
#[test]
fn listing_at_end_of_capture_may_continue() {
    for (name, frame) in [("rxe-v41", 1224), ("rxe-v42", 1222), ("siw-v42", 1293), ("tcp-v42", 868), ("rxe-v40", 1240)]
    {
        let (difference, _) = with_hole(name, 4, |number| number >= frame);
        assert_eq!(difference, None, "{name} before frame {frame}");
    }
}

/// A captured listing without an end, and a live one in smaller parts: RFC 8881 section 18.23.3, RFC 1813 section
/// 3.3.17. A server that leaves out the last name of each directory is found.
#[test]
fn names_of_partial_listing_are_found() {
    const LAST_WORD: usize = 4;
    for (name, version, end) in
        [("rxe-v40", 4, 1235), ("rxe-v41", 4, 1219), ("rxe-v42", 4, 1217), ("tcp-v42", 4, 867), ("tcp-v3", 3, 894)]
    {
        let mut frames = frames(name);
        frames.truncate(end - 1);
        if version == 3 {
            let last = frames.last_mut().unwrap();
            let at = last.bytes.len() - LAST_WORD;
            assert_eq!(last.bytes[at..], [0, 0, 0, 1], "eof");
            replace(&mut last.bytes, at, &[0; LAST_WORD]);
        }
        let mut work = Work::new(version, compiled((1..).zip(&frames), |_| {}));
        for (max_entries, drops_last) in [(4096, false), (100, false), (7, false), (4096, true), (100, true), (7, true)]
        {
            work.server.listing = MockListingPolicy { max_entries, drops_last };
            let (report, _, _) = replayed(&work, false);
            let is_listing = |mismatch: &&StepMismatch| mismatch.operation.contains("READDIR");
            let found = report.steps.mismatches.iter().find(is_listing).map(|mismatch| &mismatch.differences[..]);
            let values = found.map(|found| {
                found.iter().map(|found| [&found.a, &found.b].map(|side| side.value.as_deref())).collect::<Vec<_>>()
            });
            let last = format!("\"file-with-a-longer-name-{}\"", if version == 3 { 300 } else { 286 });
            let expected = drops_last.then(|| vec![[Some(&*last), None]]);
            assert_eq!((values, report.uncompared()), (expected, 0), "{name}, parts of {max_entries}");
        }
    }
}

/// Operations whose first mismatch is about a path.
type MismatchPaths = &'static [(&'static [&'static str], &'static str)];

/// The server executes an operation, and says that it failed.
#[test]
fn mismatch_names_file_or_directory() {
    const IO: u32 = 5;
    const V3: MismatchPaths = &[
        (&["GETATTR", "ACCESS"], "/"),
        (&["LOOKUP"], "/data"),
        (&["READDIRPLUS"], "/data/many300"),
        (&["MKDIR"], "/data/w"),
        (&["RENAME"], "/data/w/hard"),
        (&["READ", "WRITE", "CREATE", "LINK", "REMOVE"], "/data/w/s100"),
        (&["SETATTR"], "/data/w/s8k"),
        (&["SYMLINK", "READLINK"], "/data/w/sl"),
        (&["COMMIT"], "/data/w/sparse"),
    ];
    const V42: MismatchPaths = &[
        (&["GETATTR", "ACCESS"], "/"),
        (&["LOOKUP"], "/data"),
        (&["READDIR"], "/data/many300"),
        (&["CREATE"], "/data/w"),
        (&["LINK", "RENAME"], "/data/w/hard"),
        (&["READ", "WRITE", "OPEN", "CLOSE", "LOCK", "REMOVE"], "/data/w/s100"),
        (&["SETATTR"], "/data/w/s8k"),
        (&["READLINK"], "/data/w/sl"),
    ];
    for (name, version, paths) in [("tcp-v3", 3, V3), ("rxe-v42", 4, V42)] {
        let mut work = Work::new(version, compiled((1..).zip(&frames(name)), |_| {}));
        for (operation, path) in paths.iter().flat_map(|(all, path)| all.iter().map(move |one| (*one, *path))) {
            let fault = MockServerFault { version, operation, kind: MockServerFaultKind::WrongStatus(IO) };
            work.server.fault_injector = Some(MockFaultInjector::new(fault));
            let (report, _, _) = replayed(&work, false);
            let found = report.steps.mismatches.iter().find(|one| one.operation.ends_with(&format!(" {operation}")));
            assert_eq!(found.and_then(|one| one.file.as_deref()), Some(path), "{name} {operation}");
        }
    }
}

/// A server that claims not to support READLINK, which it executes later: RFC 8881 section 17.
#[test]
fn late_difference_names_file() {
    const NOTSUPP: u32 = 10_004;
    let mut work = Work::new(4, compiled((1..).zip(&frames("rxe-v42")), |_| {}));
    let kind = MockServerFaultKind::WrongStatus(NOTSUPP);
    let fault = MockServerFault { version: 4, operation: "READLINK", kind };
    work.server.fault_injector = Some(MockFaultInjector::new(fault));
    let (report, _, _) = replayed(&work, false);
    let found = &report.steps.mismatches[0];
    assert_eq!((&*found.operation, found.file.as_deref()), ("NFS 4.2 READLINK", Some("/data/w/sl")));
}

/// RFC 1813 section 3.3.3: LOOKUP also returns the attributes of the directory.
#[test]
fn difference_of_directory_names_it() {
    const MODE: MockFieldPath = &[field_labels::DIR_ATTRIBUTES, field_labels::MODE];
    let mut work = Work::new(3, compiled((1..).zip(&frames("tcp-v3")), |_| {}));
    let kind = MockServerFaultKind::WrongResult(MODE, MockFieldMutation::Flipped);
    let fault = MockServerFault { version: 3, operation: "LOOKUP", kind };
    work.server.fault_injector = Some(MockFaultInjector::new(fault));
    let (report, _, _) = replayed(&work, false);
    let found = &report.steps.mismatches[0];
    assert_eq!((&*found.operation, found.file.as_deref()), ("NFS 3 LOOKUP", Some("/")), "of /data");
    assert_eq!(found.differences[0].path, "LOOKUP.dir_attributes.mode");
}

/// Replaces bytes of a TCP segment, and corrects its checksum. RFC 1624 section 3.
fn replace(frame: &mut [u8], at: usize, with: &[u8]) {
    const CHECKSUM: usize = 14 + 20 + 16;
    let word = |word: &[u8]| u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    let sum = |frame: &[u8]| frame[14 + 20..].chunks(2).map(word).sum::<u64>();
    let before = sum(frame) % 0xffff;
    frame[at..at + with.len()].copy_from_slice(with);
    let mut checksum = u64::from(u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]));
    checksum = (checksum + before + 0xffff - sum(frame) % 0xffff) % 0xffff;
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(checksum as u16).to_be_bytes());
}

/// The RENAME of frame 825, changed to rename `/data/w` to `/data/hard2`, is in flight. The live server says that it has
/// executed it, so that both names and the files below are checked.
#[test]
fn files_of_renamed_directory_are_checked() {
    const LENGTH: usize = 20;
    let mut frames = frames("tcp-v3");
    let position = |frame: &[u8], bytes: &[u8]| frame.windows(bytes.len()).position(|window| window == bytes);
    let name = b"\0\0\0\x01w\0\0\0";
    let data = frames.iter().find_map(|kept| {
        let at = position(&kept.bytes, name)?;
        Some(kept.bytes[at - LENGTH..at].to_vec())
    });
    let data = data.unwrap();
    let rename = &mut frames[824].bytes;
    let at = position(rename, b"\0\0\0\x04hard\0").unwrap();
    replace(rename, at - LENGTH, &data);
    replace(rename, at, name);
    replace(rename, at + name.len() + 4, &data);
    let cut = (1..).zip(&frames).take(825);
    let trace = compiled(cut, |_| {});
    let mut renames = 0;
    let mut reader = ReplayTraceReader::open(Cursor::new(&trace[..])).unwrap();
    let is_rename = |procedure| procedure == Some(Procedure::V3(v3::Procedure::RENAME));
    reader.for_each_step(|step| renames += u64::from(is_rename(step.procedure.find_description()))).unwrap();
    let mut work = Work::new(3, trace);
    let (report, files, _) = replayed(&work, false);
    assert_eq!(difference(&report), None);
    assert!(files.contains_key(&b"/tree/export/data/hard2/s8k"[..]), "{:?}", files.keys());
    let check = report.tree_check.unwrap();
    assert_eq!((check.bytes, check.left_out), (check.written_bytes, 0), "{:?}", check.left_out_paths);
    assert!(check.bytes > 300_000, "{}", check.bytes);
    // A server that does not rename it, or leaves or loses a name, and says NFS3_OK.
    for fault in [MockFileTreeFault::Nothing, MockFileTreeFault::KeepsNames, MockFileTreeFault::LosesNames] {
        let kind = MockServerFaultKind::WrongFiles(fault);
        let fault = MockServerFault { version: 3, operation: "RENAME", kind };
        let (report, injections) = replayed_with(&mut work, fault, renames - 1);
        let found = difference(&report).unwrap_or_default();
        assert!(injections == 1 && found.starts_with("final "), "{fault}: {injections} {found}");
    }
}

/// Statuses that no other client explains, where the server has executed the operation: NFS3ERR_NOENT where it makes the
/// name, NFS3ERR_EXIST where it opens or replaces an existing one. RFC 1813 sections 3.3.8 and 3.3.14, RFC 8881 sections
/// 18.16.3 and 18.26.3.
#[test]
fn wrong_statuses_of_names_are_found() {
    const NOENT: u32 = 2;
    const EXIST: u32 = 17;
    type Faults = &'static [(&'static str, &'static [u32])];
    const V3: Faults = &[
        ("CREATE", &[NOENT]),
        ("MKDIR", &[NOENT]),
        ("SYMLINK", &[NOENT]),
        ("LINK", &[NOENT]),
        ("RENAME", &[NOENT, EXIST]),
    ];
    const V4: Faults =
        &[("CREATE", &[NOENT]), ("LINK", &[NOENT]), ("RENAME", &[NOENT, EXIST]), ("OPEN", &[NOENT, EXIST])];
    let (mut injected, mut missed) = (0, Vec::new());
    for (name, version, faults) in [("tcp-v3", 3, V3), ("rxe-v42", 4, V4), ("rxe-v42-database", 4, V4)] {
        let mut work = Work::new(version, compiled((1..).zip(&frames(name)), |_| {}));
        for (operation, statuses) in faults {
            for status in *statuses {
                for skip in 0..4 {
                    let kind = MockServerFaultKind::WrongStatus(*status);
                    let (report, injections) =
                        replayed_with(&mut work, MockServerFault { version, operation, kind }, skip);
                    injected += injections;
                    if injections > 0 && !report.is_different() {
                        missed.push((name, *operation, *status, skip));
                    }
                }
            }
        }
    }
    eprintln!("{injected} injected, {} missed", missed.len());
    assert!(injected > 30, "{injected}");
    assert!(missed.is_empty(), "{missed:?}");
}

/// Frames of a transaction that are messages: those of the call, and those of the reply.
type MessageFrames = [BTreeSet<u64>; 2];

/// Removes calls, calls with their replies, and 2 to 20 consecutive frames, or does so with a sample of them. Nothing
/// in such a capture names what the missing calls changed.
fn missing_calls(name: &'static str, version: u32) {
    let frames = frames(name);
    let mut messages: BTreeMap<u64, MessageFrames> = BTreeMap::new();
    let whole = compiled((1..).zip(&frames), |transaction| {
        let is_forward = transaction.direction == CallDirection::Forward;
        let both: MessageFrames = [transaction.call.as_ref(), transaction.reply.as_ref()].map(|message| {
            let message = message.filter(|_| is_forward);
            message.into_iter().flat_map(|message| message.frames.iter()).map(|FrameNumber(number)| *number).collect()
        });
        if let Some(first) = both[0].first().copied() {
            messages.insert(first, both);
        }
    });
    let work = Work::new(version, whole);
    let (report, _, history) = replayed(&work, true);
    let checked = report.tree_check.as_ref().map_or(0, |check| check.bytes);
    let whole = &Whole { difference: difference(&report), compared: report.replayed(), bytes: checked, history };
    let step = match std::env::var("NFSRDMA_HOLES").ok().as_deref() {
        Some("full") => 1,
        Some(step) => step.parse().unwrap(),
        None => 23,
    };
    let all = messages.len();
    let [mut calls, mut both, mut runs] = [(); 3].map(|()| Totals::default());
    let run = |totals: &mut Totals, missing: &BTreeSet<u64>, what: String| {
        let others = (1..).zip(&frames).filter(|(number, _)| !missing.contains(number));
        totals.run((name, version), compiled(others, |_| {}), whole, (all - 1, all), &what);
    };
    for (first, [call, reply]) in messages.iter().step_by(step) {
        run(&mut calls, call, format!("without call {first}"));
        run(&mut both, &(call | reply), format!("without call and reply {first}"));
        let count = 2 + first % 19;
        run(&mut runs, &(*first..first + count).collect(), format!("without frames {first} to {}", first + count - 1));
    }
    let mut faults: Vec<String> = Vec::new();
    for (what, totals) in [("call", &calls), ("call and reply", &both), ("frames", &runs)] {
        eprintln!(
            "{name} without {what}: {} runs, {} of {} compared, {} of {} bytes, {} false",
            totals.runs,
            totals.compared,
            totals.comparable,
            totals.bytes,
            whole.bytes * totals.runs as u64,
            totals.faults.len(),
        );
        faults.extend(totals.faults.iter().cloned());
    }
    assert!(faults.is_empty(), "{}: {faults:#?}", faults.len());
}

/// RFC 8881 section 2.10.6.1: captures without loss have no gaps in sequence IDs, and those of a client that counts its
/// XIDs up have none there.
#[test]
fn calls_missing_from_captures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".pcap").or_else(|| name.strip_suffix(".pcap.gz"))?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    let mut lacking = Vec::new();
    for name in &names {
        let frames = frames(name);
        let trace = compiled((1..).zip(&frames), |_| {});
        let missing = MissingCalls::read(&mut ReplayTraceReader::open(Cursor::new(trace)).unwrap()).unwrap();
        if missing.count() > 0 {
            lacking.push((name.as_str(), missing.count()));
        }
    }
    // The snap length cuts calls off.
    assert_eq!(lacking, [("rxe-v42-snap128", 127)]);
}

/// A missing call may have removed a name, but no state explains NFS4ERR_IO: RFC 8881 section 15.1.2.2.
#[test]
fn missing_call_excuses_no_other_fault() {
    const IO: u32 = 5;
    const NOENT: u32 = 2;
    let frames = frames("rxe-v42");
    let trace = |missing: &[u64]| compiled((1..).zip(&frames).filter(|(number, _)| !missing.contains(number)), |_| {});
    let first = {
        let mut calls = Vec::new();
        compiled((1..).zip(&frames), |transaction| {
            calls.extend(transaction.call.iter().flat_map(|call| call.frames.first()).map(|frame| frame.0));
        });
        calls[calls.len() / 4]
    };
    for (missing, status, is_found) in
        [(&[][..], NOENT, true), (&[first], NOENT, false), (&[first], IO, true), (&[][..], IO, true)]
    {
        let mut work = Work::new(4, trace(missing));
        let fault = MockServerFault { version: 4, operation: "REMOVE", kind: MockServerFaultKind::WrongStatus(status) };
        work.server.fault_injector = Some(MockFaultInjector::new(fault));
        let (report, _, _) = replayed(&work, false);
        assert_eq!(report.mismatched() > 0, is_found, "{missing:?}, status {status}: {:?}", difference(&report));
        let code = "call-missing";
        let counted = report.steps.reasons.keys().any(|(_, reason)| reason == code);
        assert_eq!(counted, !is_found, "{missing:?}, status {status}");
    }
}

/// Starts a capture at the calls of a sample of its transactions.
fn late_starts(name: &'static str, version: u32) {
    let frames = frames(name);
    let mut calls = BTreeSet::new();
    let whole = compiled((1..).zip(&frames), |transaction| {
        let call = transaction.call.as_ref().filter(|_| transaction.direction == CallDirection::Forward);
        calls.extend(call.and_then(|call| call.frames.first()).map(|frame| frame.0));
    });
    let work = Work::new(version, whole);
    let (report, _, history) = replayed(&work, true);
    let whole = &Whole { difference: difference(&report), compared: report.replayed(), bytes: 0, history };
    let step = match std::env::var("NFSRDMA_HOLES").ok().as_deref() {
        Some("full") => 1,
        Some(step) => step.parse().unwrap(),
        None => calls.len().div_ceil(11),
    };
    let mut totals = Totals::default();
    for first in calls.iter().skip(1).step_by(step) {
        let later = (1..).zip(&frames).filter(|(number, _)| number >= first);
        totals.run((name, version), compiled(later, |_| {}), whole, (1, 1), &format!("from frame {first}"));
    }
    eprintln!(
        "{name} begun late: {} runs, {} of {} steps compared, {} unreplayable, {} false",
        totals.runs,
        totals.compared,
        totals.steps,
        totals.unreplayable,
        totals.faults.len(),
    );
    assert!(totals.faults.is_empty(), "{}: {:#?}", totals.faults.len(), totals.faults);
}

/// Returns the frames of the calls and replies of the COMPOUNDs with an operation.
fn frames_of(trace: &[u8], operation: Operation) -> BTreeSet<u64> {
    let mut frames = BTreeSet::new();
    let mut reader = ReplayTraceReader::open(Cursor::new(trace)).unwrap();
    let read = reader.for_each_step(|step| {
        let Ok(call) = CompoundCall::decode(&mut step.call.body_cursor(), &mut NullFieldObserver) else { return };
        if call.operations().map_while(Result::ok).any(|args| args.operation() == operation) {
            frames.extend([step.origin.call_frame, step.origin.reply_frame]);
        }
    });
    read.unwrap();
    frames
}

/// Returns the frames from the one with this number on.
fn from(frames: &[Kept], first: u64) -> impl Iterator<Item = (u64, &Kept)> {
    (1..).zip(frames).filter(move |(number, _)| *number >= first)
}

/// The file of the last REMOVE is not there afterwards: the live server has removed it.
#[test]
fn removal_without_reply_is_checked() {
    let frames = frames("rxe-v42-database");
    let removals = frames_of(&compiled((1..).zip(&frames), |_| {}), Operation::REMOVE);
    let last = removals.last().unwrap();
    let mut work = Work::new(4, compiled((1..).zip(&frames).filter(|(number, _)| number != last), |_| {}));
    let (report, ..) = replayed(&work, false);
    assert_eq!((difference(&report), report.shortfall(90.0)), (None, None));
    let walked = report.tree_check.as_ref().unwrap();
    assert_eq!((walked.left_out, &walked.left_out_paths), (0, &Vec::new()));
    // A server that does not remove it, and says NFS4_OK.
    let kind = MockServerFaultKind::WrongFiles(MockFileTreeFault::Nothing);
    let fault = MockServerFault { version: 4, operation: "REMOVE", kind };
    let (report, injections) = replayed_with(&mut work, fault, removals.len() as u64 / 2 - 1);
    let found = difference(&report).unwrap_or_default();
    assert!(injections == 1 && found.starts_with("final "), "{injections} {found}");
}

/// A late start hides what was there before, not the faults of the server: those that are found in the whole capture are
/// found in the rest of it, too.
#[test]
fn faults_after_late_start_are_found() {
    for (name, version) in [("rxe-v3", 3), ("rxe-v42", 4)] {
        let frames = frames(name);
        let mut calls = BTreeSet::new();
        let whole = compiled((1..).zip(&frames), |transaction| {
            let call = transaction.call.as_ref().filter(|_| transaction.direction == CallDirection::Forward);
            calls.extend(call.and_then(|call| call.frames.first()).map(|frame| frame.0));
        });
        let first = *calls.iter().nth(calls.len() / 8).unwrap();
        let mut whole = Work::new(version, whole);
        let mut late = Work::new(version, compiled(from(&frames, first), |_| {}));
        let is_of_files = |fault: &MockServerFault| {
            fault.version == version && !matches!(fault.kind, MockServerFaultKind::WrongTransport(_))
        };
        let (mut expected, mut found, mut missed) = (0, 0, Vec::new());
        for fault in all().into_iter().filter(is_of_files).step_by(4) {
            // The first occasion may be a call of the run itself, such as one that opens its session.
            let is_found = |work: &mut Work| {
                let runs = [0, 8].map(|skip| replayed_with(work, fault, skip));
                let injections: u64 = runs.iter().map(|(_, injections)| injections).sum();
                (injections > 0).then_some(runs.iter().any(|(report, _)| report.is_different()))
            };
            match is_found(&mut late) {
                Some(true) => found += 1,
                Some(false) if is_found(&mut whole) == Some(true) => missed.push(fault.to_string()),
                _ => continue,
            }
            expected += 1;
        }
        eprintln!("{name} from frame {first}: {found} of {expected} faults found; not {missed:#?}");
        assert!(expected > 25, "{name}: {expected}");
        assert!(missed.is_empty(), "{name}: {missed:#?}");
    }
}

/// RFC 1813 section 3.2: ".." in READDIRPLUS (frame 1092) is the directory above, whose name is not known.
#[test]
fn entry_above_nameless_directory_is_not_compared() {
    let frames = frames("rxe-v3");
    let (report, ..) = replayed(&Work::new(3, compiled(from(&frames, 1088), |_| {})), false);
    assert_eq!(difference(&report), None);
}

/// RFC 7530 section 16.33.5, RFC 8881 section 18.51.3: without the captured call, no OPEN would succeed.
#[test]
fn run_completes_registration_of_clients() {
    for (name, operation) in [
        ("rxe-v40", Operation::SETCLIENTID_CONFIRM),
        ("rxe-v40-deleg", Operation::SETCLIENTID_CONFIRM),
        ("rxe-v41", Operation::RECLAIM_COMPLETE),
        ("siw-v42", Operation::RECLAIM_COMPLETE),
    ] {
        let frames = frames(name);
        let missing = frames_of(&compiled((1..).zip(&frames), |_| {}), operation);
        assert!(missing.len() >= 2, "{name}: {missing:?}");
        let trace = compiled((1..).zip(&frames).filter(|(number, _)| !missing.contains(number)), |_| {});
        let mut work = Work::new(4, trace);
        work.server.needs_reclaim_complete = true;
        let (report, ..) = replayed(&work, false);
        assert_eq!(difference(&report), None, "{name} without {operation}");
        let completed: u64 = report
            .steps
            .reasons
            .iter()
            .filter(|((_, reason), _)| reason == "client-completed")
            .map(|(_, reason)| reason.steps)
            .sum();
        assert_eq!((completed, &report.refused), (1, &Vec::new()), "{name} without {operation}");
        assert_eq!(report.shortfall(85.0), None, "{name} without {operation}");
    }
}

/// RFC 8881 section 18.51.3: a client that completes its registration in the capture has not done so before.
#[test]
fn captures_begun_in_mount_complete_client() {
    for name in ["rxe-v41", "rxe-v42-deleg", "siw-v42"] {
        let frames = frames(name);
        let whole = compiled((1..).zip(&frames), |_| {});
        for operation in [Operation::CREATE_SESSION, Operation::RECLAIM_COMPLETE] {
            // The last client is the one that mounts.
            let of_operation: Vec<_> = frames_of(&whole, operation).into_iter().collect();
            let first = of_operation[of_operation.len() - 2];
            let mut work = Work::new(4, compiled(from(&frames, first), |_| {}));
            work.server.needs_reclaim_complete = true;
            let (report, ..) = replayed(&work, false);
            assert_eq!(difference(&report), None, "{name} from {operation}");
            assert_eq!(report.shortfall(90.0), None, "{name} from {operation}");
        }
    }
}

/// Changes by a call in flight at the end of a capture need no proof: the rest of a small tree is covered.
#[test]
fn captures_cut_in_flight_are_covered() {
    let frames = frames("rxe-v42-database");
    let mut replies = Vec::new();
    compiled((1..).zip(&frames), |transaction| {
        let reply = transaction.reply.as_ref().filter(|_| transaction.direction == CallDirection::Forward);
        replies.extend(reply.and_then(|reply| reply.frames.first()).map(|frame| frame.0));
    });
    let mut in_flight = 0;
    for first in replies.iter().skip(replies.len() / 4).step_by(9) {
        let cut = (1..).zip(&frames).take_while(|(number, _)| number < first);
        let (report, ..) = replayed(&Work::new(4, compiled(cut, |_| {})), false);
        let check = report.tree_check.as_ref().unwrap();
        assert_eq!(report.shortfall(90.0), None, "cut before frame {first}: {:?}", check.left_out_paths);
        in_flight += check.in_flight;
    }
    assert!(in_flight > 0);
}

/// No missing call can have written to a file that was made later: a WRITE that stores another byte is found, also if a
/// call from before the file was made is missing.
#[test]
fn files_made_after_missing_call_are_checked() {
    for (name, version) in [("rxe-v3", 3), ("rxe-v42", 4)] {
        let frames = frames(name);
        let mut calls: Vec<BTreeSet<u64>> = Vec::new();
        compiled((1..).zip(&frames), |transaction| {
            let both = [transaction.call.as_ref(), transaction.reply.as_ref()];
            let numbers: BTreeSet<u64> =
                both.into_iter().flatten().flat_map(|message| message.frames.iter()).map(|number| number.0).collect();
            calls.extend(Some(numbers).filter(|_| transaction.direction == CallDirection::Forward));
        });
        calls.sort();
        let run = |missing: &BTreeSet<u64>, skip: u64| {
            let trace = compiled((1..).zip(&frames).filter(|(number, _)| !missing.contains(number)), |_| {});
            let mut work = Work::new(version, trace);
            let kind = MockServerFaultKind::WrongArgument(&["data"], MockFieldMutation::LastFlipped);
            let fault = MockServerFault { version, operation: "WRITE", kind };
            work.server.fault_injector = Some(MockFaultInjector::new(fault).with_skips(skip));
            replayed(&work, false).0.is_different()
        };
        let none = BTreeSet::new();
        let found: Vec<u64> = (0..40).filter(|skip| run(&none, *skip)).collect();
        assert!(found.len() > 5, "{name}: {found:?}");
        let still_found = found.iter().filter(|skip| run(&calls[calls.len() / 8], **skip)).count();
        eprintln!("{name}: {} found, {still_found} without an early call", found.len());
        assert!(still_found > found.len() / 2, "{name}: {still_found} of {}", found.len());
    }
}

macro_rules! holes {
    ($($test:ident: $name:literal, $version:literal;)*) => {
        $(#[test] fn $test() { holes($name, $version); })*
    };
}

macro_rules! late_starts {
    ($($test:ident: $name:literal, $version:literal;)*) => {
        $(#[test] fn $test() { late_starts($name, $version); })*
    };
}

late_starts! {
    rxe_v3_begun_late_differs_nowhere: "rxe-v3", 3;
    siw_v3_begun_late_differs_nowhere: "siw-v3", 3;
    rxe_v40_begun_late_differs_nowhere: "rxe-v40", 4;
    rxe_v41_begun_late_differs_nowhere: "rxe-v41", 4;
    rxe_v42_begun_late_differs_nowhere: "rxe-v42", 4;
    tcp_v42_begun_late_differs_nowhere: "tcp-v42", 4;
    maildir_begun_late_differs_nowhere: "rxe-v42-maildir", 4;
    database_begun_late_differs_nowhere: "rxe-v42-database", 4;
    delegations_begun_late_differ_nowhere: "rxe-v42-deleg", 4;
    ganesha_begun_late_differs_nowhere: "tcp-v42-ganesha", 4;
}

macro_rules! missing_calls {
    ($($test:ident: $name:literal, $version:literal;)*) => {
        $(#[test] fn $test() { missing_calls($name, $version); })*
    };
}

missing_calls! {
    rxe_v3_without_calls_differs_nowhere: "rxe-v3", 3;
    tcp_v3_without_calls_differs_nowhere: "tcp-v3", 3;
    rxe_v40_without_calls_differs_nowhere: "rxe-v40", 4;
    rxe_v41_without_calls_differs_nowhere: "rxe-v41", 4;
    rxe_v42_without_calls_differs_nowhere: "rxe-v42", 4;
    tcp_v42_without_calls_differs_nowhere: "tcp-v42", 4;
    maildir_without_calls_differs_nowhere: "rxe-v42-maildir", 4;
    database_without_calls_differs_nowhere: "rxe-v42-database", 4;
    delegations_without_calls_differ_nowhere: "rxe-v42-deleg", 4;
}

holes! {
    rxe_v3_with_holes_differs_nowhere: "rxe-v3", 3;
    tcp_v3_with_holes_differs_nowhere: "tcp-v3", 3;
    siw_v3_with_holes_differs_nowhere: "siw-v3", 3;
    rxe_v40_with_holes_differs_nowhere: "rxe-v40", 4;
    rxe_v41_with_holes_differs_nowhere: "rxe-v41", 4;
    siw_v41_with_holes_differs_nowhere: "siw-v41", 4;
    rxe_v42_with_holes_differs_nowhere: "rxe-v42", 4;
    tcp_v42_with_holes_differs_nowhere: "tcp-v42", 4;
    siw_v42_with_holes_differs_nowhere: "siw-v42", 4;
    maildir_with_holes_differs_nowhere: "rxe-v42-maildir", 4;
    database_with_holes_differs_nowhere: "rxe-v42-database", 4;
    delegations_with_holes_differ_nowhere: "rxe-v42-deleg", 4;
    v40_delegations_with_holes_differ_nowhere: "rxe-v40-deleg", 4;
    ganesha_with_holes_differs_nowhere: "tcp-v42-ganesha", 4;
}
