//! Randomly edited traces with a server that takes names for paths and any filehandle for one of its own: nothing
//! outside the replay's directory is accessed.

use std::collections::BTreeMap;
use std::io::{Cursor as Bytes, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_dissectors::nfs::mount;
use nfsrdma_dissectors::nfs::mount::DirpathArgs;
use nfsrdma_dissectors::nfs::v3::{self, Createhow3, Diropargs3, Sattr3, SetAtime, SetMtime, StableHow, Symlinkdata3};
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, Attributes, Bitmap4, CbClient4, ClientOwner4, Close4Args, CompoundCallHead, Copy4Args,
    CopyNotify4Args, Create4Args, Createhow4, Createtype4, DestroyClientid4Args, DestroySession4Args, ExchangeId4Args,
    ExchangeIdFlags, Fattr4, FreeStateid4Args, Getattr4Args, Getattr4Resok, Link4Args, Lookup4Args, Mode4, Netaddr4,
    Netloc4, NfsClientId4, NfsFtype4, ObjectFh4, Open4Args, OpenClaim4, OpenOwner4, Openflag4, Read4Args, Readdir4Args,
    Remove4Args, Rename4Args, Renew4Args, Secinfo4Args, Sequence4Args, Setattr4Args, Setclientid4Args, ShareAccess,
    ShareDeny, StableHow4, StateProtect4A, Stateid4, UniversalAddress, Write4Args, mask_and_values, words_for_bits,
};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{Cursor, Ddp, DdpText, Encoder, Opaque, Text, Void, XdrArray};
use nfsrdma_mock_server::server::{MockReply, MockServer};
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport};
use nfsrdma_replay::auxiliary_programs::ConfiguredAuxiliaryPorts;
use nfsrdma_replay::containment::{Containment, ContainmentCheckedRpcClient, ContainmentViolation};
use nfsrdma_replay::run::{ReplayOptions, ReplayReport, run};
use nfsrdma_replay::seed::SeededTree;
use nfsrdma_replay::seed::file_server_client::{NewObjectKind, VersionIndependentNfsClient};
use nfsrdma_replay::seed::v3::Nfs3Client;
use nfsrdma_replay::seed::v4::{ClientidAndSessionState, Nfs4Client};
use nfsrdma_replay::trace::file_format::{
    ReplayTraceBlockKind, TraceFileDataRetention, TraceProvenance, TraceVariableWithoutDefiningStep,
};
use nfsrdma_replay::trace::value_substitution::{MessageSlotValueSource, ReplayedRpcHeader, emit};
use nfsrdma_replay::trace::{
    CallAndReplyWireForms, ChunkSegmentLengths, GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState,
    ReplayTraceReader, ReplayTraceWriter, SubstitutableMessageSlot, TraceCallChunks, TraceCallConnectionAndSession,
    TraceMessage, TraceMessageWireForm, TracePayload, TraceProcedure, TraceReplySizeLimits, TraceSlotValueKind,
    TraceStep, TraceStepOrigin, VariableUseKind,
};
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient};
use nfsrdma_rpc::{ConnectOptions, ConnectTarget, RpcClientTransport};

mod maker;

use maker::Maker;

/// Default number of edited traces (`NFSRDMA_EDITED_TRACES`).
const TRACES: u64 = 2_000;
/// Objects of the replay with a handle in the capture: the root of its tree, a directory in it, a file in that, and a
/// file whose name the capture does not show.
const OBJECTS: usize = 4;
/// Variables: those of the objects, those of a hostile Reply, a session and a clientid.
const SESSION: u32 = 10;
const CLIENTID: u32 = 11;
const SESSION_ID: [u8; 16] = *b"captured session";
const CLIENT: u64 = u64::from_be_bytes(*b"clientid");

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Returns `true` once in `times` times on average.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// State of the server before the replays.
struct Base {
    server: MockServer,
    seeded: [SeededTree; 2],
    /// State of others: filehandles, a stateid, a clientid, a session.
    handles: Vec<Vec<u8>>,
    stateid: Stateid4,
    clientid: u64,
    session: [u8; 16],
}

const VICTIM: &[u8] = b"victim client";
const CONTENT: &[u8] = b"of somebody";

fn target() -> ConnectTarget {
    let wish = ConnectOptions { timeout: Duration::from_secs(1), ..ConnectOptions::default() };
    ConnectTarget { address: ([127, 0, 0, 1], 20049).into(), name: "loopback".into(), options: wish }
}

/// Returns the captured filehandle of a variable.
fn captured(variable: usize) -> Vec<u8> {
    format!("captured handle {variable:04}").into_bytes()
}

fn base() -> Base {
    let server = Arc::new(Mutex::new(MockServer::default()));
    let root = server.lock().unwrap().root().to_vec();
    server.lock().unwrap().tree.put_file(b"victim", CONTENT).unwrap();
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    let mut all = Containment::for_run(&SeededTree { root: root.clone(), ..SeededTree::default() }, "");
    let connection = transport.connect(&target()).unwrap();
    let line = RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1), Duration::from_secs(1));
    let mut files = Nfs3Client::new(ContainmentCheckedRpcClient::new(line, &mut all), root.clone());
    let victim = files.lookup(&root, b"victim").unwrap().unwrap();
    let other = files.make(&root, b"other", NewObjectKind::Directory, 0o755).unwrap();
    files.make(&other, b"victim", NewObjectKind::File, 0o644).unwrap();
    let home = files.make(&root, b"run", NewObjectKind::Directory, 0o755).unwrap();
    let tree = files.make(&home, b"tree", NewObjectKind::Directory, 0o755).unwrap();
    let nameless = files.make(&home, b"nameless", NewObjectKind::Directory, 0o755).unwrap();
    let directory = files.make(&tree, b"dir", NewObjectKind::Directory, 0o755).unwrap();
    let file = files.make(&directory, b"file", NewObjectKind::File, 0o644).unwrap();
    let unnamed = files.make(&nameless, b"7", NewObjectKind::Directory, 0o755).unwrap();
    drop(files);
    let line =
        RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1000), Duration::from_secs(1));
    let mut client =
        Nfs4Client::new(ContainmentCheckedRpcClient::new(line, &mut all), str::from_utf8(VICTIM).unwrap(), &[2])
            .unwrap();
    let stateid = client.open(&victim, 1, 3).unwrap();
    let Some(ClientidAndSessionState::Session { clientid, id: session, .. }) = client.hand_over() else {
        panic!("no session")
    };
    let handles: Vec<Vec<u8>> = vec![root, victim, other, home, nameless];
    let mut server = server.lock().unwrap().clone();
    let values = handles[..3].iter().cloned().chain([
        stateid.other.to_vec(),
        clientid.to_be_bytes().to_vec(),
        session.to_vec(),
        VICTIM.to_vec(),
    ]);
    server.disable_confinement(b"run", values).unwrap();
    let seeded = [None, Some(vec![u32::MAX; 2])].map(|supported| SeededTree {
        path: "/run/tree".into(),
        root: tree.clone(),
        handles: [(0, tree.clone()), (1, directory.clone()), (2, file.clone()), (3, unnamed.clone())]
            .into_iter()
            .collect(),
        handles_below_root: [1, 2].into_iter().collect(),
        directories: [0, 1, 3].into_iter().collect(),
        mounts: if supported.is_none() { vec![Vec::new()] } else { Vec::new() },
        supported,
        ..SeededTree::default()
    });
    Base { server, seeded, handles, stateid, clientid, session }
}

const NAMES: [&[u8]; 26] = [
    b"dir",
    b"file",
    b"new",
    b"other-name",
    b"",
    b".",
    b"..",
    b"/",
    b"../victim",
    b"../../victim",
    b"../../../victim",
    b"/victim",
    b"/other/victim",
    b"/run/../victim",
    b"dir/../../../victim",
    b"./../../victim",
    b"../../other",
    b"..\0",
    b"../../victim\0x",
    b"//victim",
    b"../",
    b"a/b",
    b"\0",
    b"..\\..\\victim",
    b"/",
    b"../..",
];

/// Values of the replay, substituted without any check.
struct Unchecked<'s>(&'s SeededTree);

impl MessageSlotValueSource for Unchecked<'_> {
    fn value(&mut self, slot: &SubstitutableMessageSlot, _: &[u8]) -> Option<&[u8]> {
        self.0
            .handles
            .get(&slot.variable)
            .map(Vec::as_slice)
            .filter(|_| slot.value_kind == TraceSlotValueKind::FILEHANDLE)
    }
}

/// Starts a MOUNT server that returns a handle for every path and records all except the replay's.
fn mount_server(touched: Arc<Mutex<Vec<String>>>, root: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut record = [0; 4];
            while stream.read_exact(&mut record).is_ok() {
                let length = u32::from_be_bytes(record) & 0x7fff_ffff;
                let mut call = vec![0; length as usize];
                if stream.read_exact(&mut call).is_err() {
                    break;
                }
                let path = b"\0\0\0\x09/run/tree\0\0\0";
                if !call.ends_with(path) {
                    touched.lock().unwrap().push(format!("MOUNT {}", String::from_utf8_lossy(&call)));
                }
                let mut encoder = Encoder::new();
                encoder.raw(&call[..4]);
                [1, 0, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
                encoder.append_opaque(&root);
                encoder.word(0);
                let reply = encoder.finish().0;
                let mark = (reply.len() as u32 | 0x8000_0000).to_be_bytes();
                if stream.write_all(&[&mark[..], &reply].concat()).is_err() {
                    break;
                }
            }
        }
    });
    port
}

fn replay(trace: &[u8], base: &Base, is_v4: bool, mount_port: u16, walk: bool) -> (ReplayReport, MockServer) {
    let server = Arc::new(Mutex::new(base.server.clone()));
    let mut transport = MockTransport::for_server(Arc::clone(&server), MockConnectionSettings::default());
    let options = ReplayOptions {
        timeout: Duration::from_millis(4),
        auxiliary_ports: ConfiguredAuxiliaryPorts {
            mount: Some(mount_port),
            ..super::auxiliary_programs::none().auxiliary_ports
        },
        tag: "tag".into(),
        checks_tree: walk,
        max_delay_retries: 1,
        ..super::auxiliary_programs::none()
    };
    let open = || ReplayTraceReader::open(Bytes::new(trace)).unwrap();
    let seeded = &base.seeded[usize::from(is_v4)];
    let report = run(&mut open(), &mut open(), &mut transport, &target(), seeded, &options, &mut ()).unwrap();
    drop(transport);
    (report, Arc::into_inner(server).unwrap().into_inner().unwrap())
}

#[test]
fn no_edited_trace_touches_anything_outside_the_directory_of_the_run() {
    let traces = std::env::var("NFSRDMA_EDITED_TRACES").ok().and_then(|count| count.parse().ok());
    let traces = traces.unwrap_or(TRACES);
    let mounted = Arc::new(Mutex::new(Vec::new()));
    let mount_port = mount_server(Arc::clone(&mounted), base().seeded[0].root.clone());
    let (next, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let reasons = Mutex::new(BTreeMap::<String, u64>::new());
    let (unchecked, unchecked_touched) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let base = base();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= traces {
                        break;
                    }
                    let mut maker = Maker { base: &base, random: Random(number) };
                    let mut calls = Vec::new();
                    let (trace, is_v4) = maker.trace(|call| {
                        // The same Calls, sent without checks, show that the server would execute them.
                        if number % 100 == 0 {
                            let (mut out, mut placed) = (Vec::new(), Vec::new());
                            let seeded = &base.seeded[0];
                            if emit(call, ReplayedRpcHeader::Captured, &mut Unchecked(seeded), &mut out, &mut placed)
                                .is_ok()
                            {
                                calls.push(out);
                            }
                        }
                    });
                    for call in calls {
                        let mut server = base.server.clone();
                        server.call(Cursor::new(&call), &mut MockReply::default());
                        unchecked.fetch_add(1, Ordering::Relaxed);
                        unchecked_touched
                            .fetch_add(u64::from(!server.outside_accesses().is_empty()), Ordering::Relaxed);
                    }
                    let (report, server) = replay(&trace, &base, is_v4, mount_port, number % 64 == 0);
                    let touched = server.outside_accesses();
                    assert!(touched.is_empty(), "trace {number}: {touched:?} {:#?}", report.steps.reasons);
                    assert_eq!(server.tree.file(b"victim"), Ok(CONTENT), "trace {number}");
                    sent.fetch_add(report.calls, Ordering::Relaxed);
                    let mut reasons = reasons.lock().unwrap();
                    for ((_, reason), because) in &report.steps.reasons {
                        *reasons.entry(reason.clone()).or_default() += because.steps;
                    }
                }
            });
        }
    });
    assert_eq!(*mounted.lock().unwrap(), Vec::<String>::new());
    let (sent, reasons) = (sent.into_inner(), reasons.into_inner().unwrap());
    let (all, out) = (unchecked.into_inner(), unchecked_touched.into_inner());
    println!("{sent} calls sent; unchecked, {out} of {all} touch what is outside; {reasons:#?}");
    // The test is not vacuous: Calls are sent, each reason occurs, and without the check the server executes many.
    assert!(sent > traces / 4, "{sent}");
    assert!(out * 5 > all, "{out} of {all}");
    // One procedure that affects others in a few thousand.
    let rare = [ContainmentViolation::Layout, ContainmentViolation::Program];
    for escape in ContainmentViolation::ALL.iter().filter(|escape| !rare.contains(escape)) {
        assert!(reasons.keys().any(|reason| reason.starts_with(escape.code())), "{escape}: {reasons:#?}");
    }
}
