//! Server that calls its clients of NFSv4.0 back, on connections that it opens. RFC 7530 sections 10.2 and 16.33.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Aceflag4, Acemask4, Acetype4, Args, Attribute, Attributes, Bitmap4, CbArgs, CbCompoundCall, CbCompoundCallHead,
    CbCompoundReply, CbGetattr4Args, CbRecall4Args, CbResults, CompoundCall, CompoundReply, Nfsace4, Nfstime4,
    OpenDelegation4, OpenReadDelegation4, Results, Stateid4,
};
use nfsrdma_dissectors::rpc::{self, universal_address};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text};
use nfsrdma_mock_server::server::{MockReply, MockServer};
use serde_json::Value as Json;

use super::program::{Passing, compiled, program};
use crate::schema::{assert_keeps, validator};
use crate::skipped::skip;

/// Stateid of each unrequested delegation.
const DELEGATION: Stateid4 = Stateid4 { seqid: 1, other: [0xde; 12] };

/// Records of the server.
#[derive(Debug, Default)]
struct Seen {
    /// r_netid and r_addr of each SETCLIENTID of a replayed client.
    printed: Vec<(String, String)>,
    /// Number of Replies to callbacks.
    answered: usize,
    /// Number of OPENs with a delegation, and of returned delegations.
    given: usize,
    returned: usize,
}

/// Server on its own port that sends callbacks and may grant delegations with all OPENs.
struct Calling {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

fn record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

fn send(stream: &mut TcpStream, message: &[u8]) -> Option<()> {
    let mark = 0x8000_0000 | message.len() as u32;
    stream.write_all(&[&mark.to_be_bytes()[..], message].concat()).ok()
}

/// Sends CB_NULL and then CB_RECALL to a client. Returns the number of Replies.
fn call_back(address: SocketAddr) -> usize {
    let Ok(mut stream) = TcpStream::connect(address) else { return 0 };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answered = 0;
    for procedure in [0, 1] {
        let mut encoder = Encoder::new();
        [9, 0, 2, 0x4000_0000, 1, procedure, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        if procedure == 1 {
            let head = CbCompoundCallHead { tag: Text(b""), minorversion: 0, callback_ident: 1 };
            let recall = CbRecall4Args { stateid: DELEGATION, truncate: false, fh: Opaque(b"file") };
            CbCompoundCall::new(head, &[CbArgs::CB_RECALL(recall)]).encode(&mut encoder);
        }
        if send(&mut stream, &encoder.finish().0).is_none() {
            break;
        }
        answered += usize::from(record(&mut stream).is_some_and(|reply| reply.starts_with(&[0, 0, 0, 9])));
    }
    answered
}

impl Calling {
    fn start(local: IpAddr, gives: bool) -> Self {
        let listener = TcpListener::bind((local, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (server, seen) = (Arc::new(Mutex::new(MockServer::default())), Arc::<Mutex<Seen>>::default());
        let this = Self { address, seen: Arc::clone(&seen) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, seen) = (Arc::clone(&server), Arc::clone(&seen));
                thread::spawn(move || serve(stream.unwrap(), &server, &seen, gives));
            }
        });
        this
    }

    /// Replays a capture, and returns the report.
    fn replayed(&self, capture: &str, more: &[&str]) -> Json {
        let trace = compiled(capture, &format!("callbacks-{}", self.address.port()));
        let url = format!("tcp://{}/?vers=4.0", self.address);
        let run = ["replay", "run", trace.name(), "--server", &url, "-T", "json", "--no-final-check"];
        let output = program(&[&run[..], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
        assert_keeps(&validator("replay.schema.json"), &report, capture);
        assert_eq!(report["own_faults"].as_array().map(Vec::len), Some(0), "{report:#}");
        report
    }
}

fn serve(mut stream: TcpStream, server: &Mutex<MockServer>, seen: &Mutex<Seen>, gives: bool) -> Option<()> {
    loop {
        let call = record(&mut stream)?;
        let mut answer = MockReply::default();
        server.lock().unwrap().call(Cursor::new(&call), &mut answer);
        let whole = answer.complete_message();
        let mut cursor = Cursor::new(&call);
        rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let asked = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok();
        let mut reply = None;
        for operation in asked.iter().flat_map(CompoundCall::operations).map_while(Result::ok) {
            match operation {
                Args::SETCLIENTID(args) => {
                    let at = args.callback.cb_location;
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let address = universal_address::parse(at.na_r_addr.0.0).filter(|at| at.port() > 0);
                    let Some(address) = address else { continue };
                    let answered = call_back(address);
                    let mut seen = seen.lock().unwrap();
                    seen.printed.push((text(at.na_r_netid.0), text(at.na_r_addr.0.0)));
                    seen.answered += answered;
                }
                Args::OPEN(_) if gives => reply = delegated(&whole),
                Args::DELEGRETURN(args) if args.deleg_stateid == DELEGATION => {
                    seen.lock().unwrap().returned += 1;
                }
                _ => {}
            }
        }
        // The client that creates the tree does not listen.
        let mut seen = seen.lock().unwrap();
        let reply = reply.filter(|_| !seen.printed.is_empty());
        seen.given += usize::from(reply.is_some());
        drop(seen);
        send(&mut stream, &reply.unwrap_or(whole))?;
    }
}

/// Returns a Reply whose OPEN grants a delegation, if it succeeded.
fn delegated(whole: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(whole);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let mut encoder = Encoder::new();
    encoder.raw(&whole[..cursor.at()]);
    let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let mut results: Vec<_> = reply.operations().map(Result::unwrap).collect();
    let open = results.iter_mut().find_map(|results| match results {
        Results::OPEN(StatusUnion::Ok(open)) => Some(open),
        _ => None,
    })?;
    let permissions =
        Nfsace4 { r#type: Acetype4(0), flag: Aceflag4(0), access_mask: Acemask4(1), who: Text(b"EVERYONE@") };
    open.delegation = OpenDelegation4::Read(OpenReadDelegation4 { stateid: DELEGATION, recall: false, permissions });
    CompoundReply::new(reply.head, &results).encode(&mut encoder);
    Some(encoder.finish().0)
}

#[test]
fn rfc7530_section_16_33_the_server_gets_a_port_of_this_side_and_its_calls_are_answered() {
    for (local, netid, host) in [("127.0.0.1", "tcp", "127.0.0.1."), ("::1", "tcp6", "::1.")] {
        let local: IpAddr = local.parse().unwrap();
        if local.is_ipv6() && TcpListener::bind((local, 0)).is_err() {
            skip("ipv6", "this machine has no IPv6");
            continue;
        }
        let server = Calling::start(local, false);
        let report = server.replayed("rxe-v40", &[]);
        let seen = server.seen.lock().unwrap();
        assert!(!seen.printed.is_empty());
        assert!(seen.printed.iter().all(|(of, at)| of == netid && at.starts_with(host)), "{seen:?}");
        assert_eq!(seen.answered, 2 * seen.printed.len(), "{seen:?}");
        assert_eq!(report["callbacks"]["CB_NULL"], seen.printed.len());
        assert_eq!(report["callbacks"]["CB_RECALL"], seen.printed.len());
        assert_eq!((&report["unanswered"], &report["no_callbacks"]), (&0.into(), &Json::Null));
        // The replay is over, and no client listens any more.
        for (_, at) in &seen.printed {
            let address = universal_address::parse(at.as_bytes()).unwrap();
            assert!(TcpStream::connect(address).is_err(), "{address}");
        }
    }
}

#[test]
fn calls_from_another_address_than_the_servers_are_ignored() {
    // The kernel assigns another source address to the callbacks of this server.
    let server = Calling::start([127, 0, 0, 3].into(), false);
    let report = server.replayed("rxe-v40", &[]);
    let seen = server.seen.lock().unwrap();
    assert!(!seen.printed.is_empty() && seen.answered == 0, "{seen:?}");
    assert_eq!(report["callbacks"], serde_json::json!({}));
}

#[test]
fn rfc7530_section_10_4_a_delegation_that_the_capture_does_not_have_is_returned() {
    let server = Calling::start([127, 0, 0, 1].into(), true);
    let report = server.replayed("rxe-v40", &[]);
    let seen = server.seen.lock().unwrap();
    assert!(seen.given > 3, "{seen:?}");
    assert_eq!(seen.returned, seen.given);
    assert_eq!(report["returned"], seen.given);
    assert_eq!(report["states"]["mismatched"], 0, "{report:#}");
}

#[test]
fn each_copy_of_a_client_listens_at_its_own_port() {
    let server = Calling::start([127, 0, 0, 1].into(), false);
    let report = server.replayed("rxe-v40", &["--clients", "3"]);
    let seen = server.seen.lock().unwrap();
    let mut ports: Vec<_> = seen.printed.iter().map(|(_, at)| at).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3, "{seen:?}");
    assert_eq!(report["callbacks"]["CB_NULL"], seen.printed.len());
}

#[test]
fn without_setclientid_no_port_is_opened() {
    let server = Calling::start([127, 0, 0, 1].into(), false);
    let trace = compiled("rxe-v41", "no-setclientid");
    let url = format!("tcp://{}/", server.address);
    let output = program(&["replay", "run", trace.name(), "--server", &url, "-T", "json"]);
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["states"]["matched"].as_u64() > Some(50), "{report:#}");
    assert_eq!((&report["callbacks"], &report["no_callbacks"]), (&serde_json::json!({}), &Json::Null));
    assert!(server.seen.lock().unwrap().printed.is_empty());
}

#[test]
fn callbacks_are_recorded_on_connections_that_the_server_opened() {
    let server = Calling::start([127, 0, 0, 1].into(), false);
    let record = Passing::new("called-back");
    server.replayed("rxe-v40", &["--record", record.name()]);
    let output = program(&["replay", "plan", "-T", "json", record.name()]);
    let plan: Json = serde_json::from_slice(&output.stdout).unwrap();
    let reasons = plan["reasons"].as_array().unwrap();
    let callbacks = reasons.iter().find(|reason| reason["reason"] == "callback").unwrap();
    let seen = server.seen.lock().unwrap();
    assert_eq!(callbacks["steps"], 2 * seen.printed.len(), "{plan:#}");
}

/// File that an OPEN has opened: its filehandle, and its change attribute in the same COMPOUND.
fn opened_file(reply: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut cursor = Cursor::new(reply);
    rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let (mut is_open, mut handle, mut change) = (false, None, None);
    for results in reply.operations().map_while(Result::ok) {
        match results {
            Results::OPEN(StatusUnion::Ok(_)) => is_open = true,
            Results::GETFH(StatusUnion::Ok(ok)) => handle = Some(ok.object.0.to_vec()),
            Results::GETATTR(StatusUnion::Ok(ok)) => {
                change = ok.obj_attributes.items().map_while(Result::ok).find_map(|attribute| match attribute {
                    Attribute::CHANGE(change) => Some(change),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    handle.zip(change).filter(|_| is_open)
}

/// Serves a connection, and asks for the attributes of each opened file on the same connection (RFC 8881 section
/// 2.10.3.1). `answers` gets the change attribute that was given, and the attributes of each answer.
fn serve_and_get_attributes(
    mut stream: TcpStream,
    server: &Mutex<MockServer>,
    answers: &Mutex<Vec<(u64, Vec<Attribute<'static>>)>>,
) -> Option<()> {
    const XID: u32 = 0xcb;
    let mut given = 0;
    loop {
        let message = record(&mut stream)?;
        if message.get(4..8) == Some(&[0, 0, 0, 1]) {
            let mut cursor = Cursor::new(&message);
            rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            let reply = CbCompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            let attributes = reply.operations().map_while(Result::ok).find_map(|results| match results {
                CbResults::CB_GETATTR(StatusUnion::Ok(ok)) => Some(ok.obj_attributes),
                _ => None,
            });
            let numbers = attributes.unwrap().items().map_while(Result::ok).filter_map(|item| match item {
                Attribute::CHANGE(change) => Some(Attribute::CHANGE(change)),
                Attribute::SIZE(size) => Some(Attribute::SIZE(size)),
                Attribute::TIME_DELEG_ACCESS(time) => Some(Attribute::TIME_DELEG_ACCESS(time)),
                Attribute::TIME_DELEG_MODIFY(time) => Some(Attribute::TIME_DELEG_MODIFY(time)),
                _ => None,
            });
            answers.lock().unwrap().push((given, numbers.collect()));
            continue;
        }
        let mut answer = MockReply::default();
        server.lock().unwrap().call(Cursor::new(&message), &mut answer);
        let whole = answer.complete_message();
        let opened = opened_file(&whole);
        send(&mut stream, &whole)?;
        if let Some((handle, change)) = opened {
            given = change;
            let mut encoder = Encoder::new();
            [XID, 0, 2, 0x4000_0000, 1, 1, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
            let words = [
                1 << Attributes::CHANGE | 1 << Attributes::SIZE,
                0,
                1 << (Attributes::TIME_DELEG_ACCESS - 64) | 1 << (Attributes::TIME_DELEG_MODIFY - 64),
            ];
            let head = CbCompoundCallHead { tag: Text(b""), minorversion: 2, callback_ident: 0 };
            let query = CbGetattr4Args { fh: Opaque(&handle), attr_request: Bitmap4::from(&words[..]) };
            CbCompoundCall::new(head, &[CbArgs::CB_GETATTR(query)]).encode(&mut encoder);
            send(&mut stream, &encoder.finish().0)?;
        }
    }
}

/// The capture is of a Linux server that asks the holder of a delegation. The holder has not changed the file as far as
/// the server knows: its answers have the change attribute of the OPEN.
#[test]
fn rfc8881_section_20_1_a_server_that_asks_for_attributes_gets_those_of_the_captured_client() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::<Mutex<Vec<_>>>::default();
    let (server, seen) = (Arc::new(Mutex::new(MockServer::default())), Arc::clone(&answers));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (server, seen) = (Arc::clone(&server), Arc::clone(&seen));
            thread::spawn(move || serve_and_get_attributes(stream.unwrap(), &server, &seen));
        }
    });
    let trace = compiled("rxe-v42-cb-getattr", "cb-getattr");
    let url = format!("tcp://{address}/?vers=4.2");
    let run = ["replay", "run", trace.name(), "--server", &url, "-T", "json", "--no-final-check"];
    let output = program(&run);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    assert_eq!(report["states"]["mismatched"], 0, "{report:#}");
    assert!(report["callbacks"]["CB_GETATTR"].as_u64() >= Some(1), "{report:#}");
    let answers = answers.lock().unwrap();
    // The file had 5,000 bytes when the captured server asked first.
    let (given, attributes) = answers.last().unwrap();
    assert_eq!(attributes.get(..2), Some(&[Attribute::CHANGE(*given), Attribute::SIZE(5000)][..]), "{answers:?}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let is_recent = |time: &Nfstime4| time.seconds.cast_unsigned().abs_diff(now) < 60;
    match attributes.get(2..) {
        Some([Attribute::TIME_DELEG_ACCESS(access), Attribute::TIME_DELEG_MODIFY(modify)]) => {
            assert!(is_recent(access) && is_recent(modify), "{answers:?}");
        }
        other => panic!("{other:?}"),
    }
}
