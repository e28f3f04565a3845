//! The rules of transports, checked on the mock transport, and its behaviour with faults.

use std::time::Duration;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{
    Args, Create3Args, Createhow3, Diropargs3, Mkdir3Args, Read3Args, Readdir3Args, Results, Sattr3, SetAtime,
    SetMtime, StableHow, Symlink3Args, Symlinkdata3, Write3Args,
};
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion};
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::rpcrdma::{RpcRdma1ErrCode, RpcRdmaError};
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text, Void, XdrError};
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcCallError, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::{CapturedCallChunkLayout, ConnectOptions, ReplySizeLimits, RequestedCallForm};

use super::*;

/// Lengths around thresholds: padding, inline thresholds, segments, registered memory.
const LENGTHS: [usize; 17] =
    [1, 2, 3, 4, 5, 511, 1023, 1024, 1025, 4095, 4096, 4097, 65_535, 65_537, 262_143, 1_048_573, 1_048_576];

fn target(credits: u32) -> ConnectTarget {
    let wish = ConnectOptions { credits, ..ConnectOptions::default() };
    ConnectTarget { address: "127.0.0.1:20049".parse().unwrap(), name: "loopback".into(), options: wish }
}

fn line(transport: &mut MockTransport) -> RpcClient<'_> {
    let connection = transport.connect(&target(32)).unwrap();
    RpcClient::new(transport, connection, AuthSysCredential::default(), Xid(1), Duration::from_secs(1))
}

/// Returns bytes without short repetitions.
fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn sattr() -> Sattr3 {
    let (atime, mtime) = (SetAtime::DontChange, SetMtime::DontChange);
    Sattr3 { mode: None, uid: None, gid: None, size: None, atime, mtime }
}

/// Calls a procedure of NFSv3 whose results `read` examines.
fn call<T>(
    line: &mut RpcClient<'_>,
    args: &Args<'_>,
    more: &SynchronousProcedureCall<'_>,
    read: impl FnOnce(&Results<'_>) -> T,
) -> Result<T, RpcCallError> {
    let procedure = args.operation();
    line.call(
        &SynchronousProcedureCall { program: Program::NFS, version: 3, number: procedure.number().0, ..*more },
        |encoder| args.encode(encoder),
        |cursor| Ok::<_, XdrError>(read(&Results::decode(procedure, cursor, &mut NullFieldObserver)?)),
    )
}

fn plain(reply: u32) -> SynchronousProcedureCall<'static> {
    SynchronousProcedureCall::new(Program::NFS, 3, 0, reply)
}

fn create(line: &mut RpcClient<'_>, root: &[u8], name: &[u8]) -> Vec<u8> {
    let r#where = Diropargs3 { dir: Opaque(root), name: Text(name) };
    let args = Args::CREATE(Create3Args { r#where, how: Createhow3::Guarded(sattr()) });
    let found = call(line, &args, &plain(400), |results| match results {
        Results::CREATE(StatusUnion::Ok(made)) => made.obj.map(|object| object.0.to_vec()),
        other => panic!("{other:?}"),
    });
    found.unwrap().unwrap()
}

fn write(line: &mut RpcClient<'_>, file: &[u8], data: &[u8], shape: RequestedCallForm<'_>) -> u32 {
    let length = data.len() as u32;
    let args = Args::WRITE(Write3Args {
        file: Opaque(file),
        offset: 0,
        count: length,
        stable: StableHow::FILE_SYNC,
        data: Ddp::Chunk { length, bytes: None },
    });
    let more = SynchronousProcedureCall { data: &[PayloadContentLocation::Copied(data)], shape, ..plain(400) };
    call(line, &args, &more, |results| match results {
        Results::WRITE(StatusUnion::Ok(ok)) => ok.count,
        other => panic!("{other:?}"),
    })
    .unwrap()
}

fn read(
    line: &mut RpcClient<'_>,
    file: &[u8],
    count: u32,
    shape: RequestedCallForm<'_>,
) -> Result<Vec<u8>, RpcCallError> {
    let args = Args::READ(Read3Args { file: Opaque(file), offset: 0, count });
    let more = SynchronousProcedureCall { max_payload_bytes: &[count], shape, ..plain(200) };
    call(line, &args, &more, |results| match results {
        Results::READ(StatusUnion::Ok(ok)) => ok.data.bytes().map(<[u8]>::to_vec).unwrap(),
        other => panic!("{other:?}"),
    })
}

fn root(transport: &MockTransport) -> [u8; 16] {
    transport.server().lock().unwrap().root()
}

/// Submits a NULL Call.
fn submit_null(
    transport: &mut MockTransport,
    connection: RpcClientConnectionId,
    xid: u32,
) -> Result<SubmittedCallForm, SubmitError> {
    let message = null(xid);
    transport.submit(connection, &OutgoingRpcCall::without_payloads(Xid(xid), CallTag(xid.into()), &message, 100))
}

/// Returns an NFSv3 NULL Call, encoded by hand: RFC 5531 section 9.
fn null(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn next(transport: &mut MockTransport) -> Option<RpcClientTransportEvent<'_>> {
    transport.poll(None).unwrap()
}

/// Skips changes of credits.
macro_rules! expect {
    ($transport:expr, $pattern:pat) => { expect!($transport, $pattern => {}) };
    ($transport:expr, $pattern:pat => $value:expr) => {{
        loop {
            match next(&mut $transport) {
                Some(RpcClientTransportEvent::Credits { .. }) => {}
                Some($pattern) => break $value,
                other => panic!("{other:?}"),
            }
        }
    }};
}

#[test]
fn rfc8166_section_3_3_3_one_call_until_the_first_reply_then_as_many_as_granted() {
    let mut transport = MockTransport::new(MockConnectionSettings { credits: 4, ..MockConnectionSettings::default() });
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    assert_eq!(submit_null(&mut transport, connection, 2), Err(SubmitError::Busy(SubmitBusyReason::Credits)));
    assert!(matches!(next(&mut transport), Some(RpcClientTransportEvent::Credits { granted: 4, .. })));
    expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.tag, CallTag(1)));
    for xid in 2..6 {
        submit_null(&mut transport, connection, xid).unwrap();
    }
    assert_eq!(submit_null(&mut transport, connection, 6), Err(SubmitError::Busy(SubmitBusyReason::Credits)));
    assert_eq!(transport.credits(connection).unwrap().in_flight, 4);
    expect!(transport, RpcClientTransportEvent::Reply(_));
    assert!(submit_null(&mut transport, connection, 6).is_ok());
    assert_eq!(transport.counts(connection).unwrap().credit_waits, 2);
}

#[test]
fn rfc8166_section_3_3_1_a_lower_grant_limits_later_calls_and_zero_counts_as_one() {
    let mut transport = MockTransport::new(MockConnectionSettings { credits: 8, ..MockConnectionSettings::default() });
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, RpcClientTransportEvent::Reply(_));
    transport.inject(0, MockTransportFault::Credits(0));
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    assert!(matches!(next(&mut transport), Some(RpcClientTransportEvent::Credits { granted: 0, .. })));
    expect!(transport, RpcClientTransportEvent::Reply(_));
    assert_eq!(submit_null(&mut transport, connection, 4), Err(SubmitError::Busy(SubmitBusyReason::Credits)));
    expect!(transport, RpcClientTransportEvent::Reply(_));
    assert!(submit_null(&mut transport, connection, 4).is_ok());
    assert_eq!(transport.counts(connection).unwrap().zero_grants, 1);
}

#[test]
fn rfc8166_section_3_3_1_never_more_than_was_asked_for() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connection = transport.connect(&target(2)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, RpcClientTransportEvent::Reply(_));
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    assert_eq!(submit_null(&mut transport, connection, 4), Err(SubmitError::Busy(SubmitBusyReason::Credits)));
}

#[test]
fn rfc8166_section_3_5_2_data_of_every_length_goes_and_comes_whole() {
    for inline in [1024, 4096, 65_536] {
        let size = (inline / 1024 - 1) as u8;
        let private_data = PrivateData { send_size: size, receive_size: size, ..PrivateData::DEFAULT };
        let mut transport = MockTransport::new(MockConnectionSettings {
            private_data: Some(private_data),
            credits: 8,
            ..MockConnectionSettings::default()
        });
        let root = root(&transport);
        let mut line = line(&mut transport);
        for (index, length) in LENGTHS.into_iter().enumerate() {
            let file = create(&mut line, &root, format!("f{index}").as_bytes());
            let data = content(length);
            assert_eq!(write(&mut line, &file, &data, RequestedCallForm::Fitting), length as u32);
            assert_eq!(read(&mut line, &file, length as u32, RequestedCallForm::Fitting).unwrap(), data, "{length}");
            // A chunk that is longer than the data is returned partly used.
            let more = (length as u32 + 7).min(1 << 20);
            assert_eq!(read(&mut line, &file, more, RequestedCallForm::Fitting).unwrap(), data, "{length}");
        }
    }
}

#[test]
fn rfc8166_section_4_4_1_memory_is_given_back_and_used_again() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    let data = content(300_000);
    for _ in 0..50 {
        write(&mut line, &file, &data, RequestedCallForm::Fitting);
        read(&mut line, &file, 300_000, RequestedCallForm::Fitting).unwrap();
    }
    drop(line);
    assert!(transport.device.registered() < 2 << 20, "{}", transport.device.registered());
}

#[test]
fn rfc8166_section_3_4_6_a_chunk_of_several_segments_is_filled_in_their_order() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let connection = transport.connect(&target(32)).unwrap();
    let mut line =
        RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(1), Duration::from_secs(1));
    let file = create(&mut line, &root, b"f");
    let data = content(10_001);
    let reads = CapturedCallChunkLayout { reads: &[&[4096, 1, 4096, 1000, 808]], ..CapturedCallChunkLayout::default() };
    assert_eq!(write(&mut line, &file, &data, RequestedCallForm::Captured(reads)), 10_001);
    let writes = CapturedCallChunkLayout { writes: &[&[1, 4095, 100, 10_000]], ..CapturedCallChunkLayout::default() };
    assert_eq!(read(&mut line, &file, 12_000, RequestedCallForm::Captured(writes)).unwrap(), data);

    // An unused chunk has length 0 in the Reply.
    let args = Args::READ(Read3Args { file: Opaque(&file), offset: 9_000, count: 5000 });
    let mut encoder = Encoder::new();
    encoder.raw(&null(77));
    args.encode(&mut encoder);
    let mut message = encoder.finish().0;
    message[23] = 6; // the procedure
    let call = OutgoingRpcCall {
        reply: ReplySizeLimits { message_bytes: 300, payloads: &[5000] },
        requested_form: RequestedCallForm::Captured(writes),
        ..OutgoingRpcCall::without_payloads(Xid(77), CallTag(1), &message, 0)
    };
    let submitted = transport.submit(connection, &call).unwrap();
    assert_eq!((submitted.write_segments, submitted.changed), (4, false));
    expect!(transport, RpcClientTransportEvent::Reply(reply) => {
        let header = reply.header.as_ref().unwrap();
        let chunk = header.chunk_lists().unwrap().rdma_writes.iter().next().unwrap();
        let lengths: Vec<_> = chunk.target.iter().map(|segment| segment.length).collect();
        assert_eq!(lengths, [1, 1000, 0, 0]);
        assert_eq!(reply.payloads.items()[0].bytes, Some(&data[9_000..]));
    });
}

#[test]
fn rfc8166_section_3_5_3_a_long_call_and_a_long_reply() {
    let mut transport = MockTransport::new(MockConnectionSettings {
        private_data: None,
        credits: 8,
        ..MockConnectionSettings::default()
    });
    let root = root(&transport);
    let mut line = line(&mut transport);
    // Long names, whose listing exceeds 1,024 bytes.
    for index in 0..40 {
        create(&mut line, &root, format!("{index:0>200}").as_bytes());
    }
    let args = Args::READDIR(Readdir3Args { dir: Opaque(&root), cookie: 0, cookieverf: [0; 8], count: 32_768 });
    let names = call(&mut line, &args, &plain(32_768), |results| match results {
        Results::READDIR(StatusUnion::Ok(ok)) => (ok.reply.entries.len(), ok.reply.eof),
        other => panic!("{other:?}"),
    });
    assert_eq!(names.unwrap(), (42, true));

    // RFC 8267 section 4: the text of a symbolic link may travel in a Read chunk, or in a Long Call.
    let text = content(1000).iter().map(|byte| byte % 26 + b'a').collect::<Vec<_>>();
    let link = |data| {
        Args::SYMLINK(Symlink3Args {
            r#where: Diropargs3 { dir: Opaque(&root), name: Text(b"link") },
            symlink: Symlinkdata3 { symlink_attributes: sattr(), symlink_data: data },
        })
    };
    let made = call(&mut line, &link(DdpText::Inline(&text)), &plain(400), |results| match results {
        Results::SYMLINK(StatusUnion::Ok(_)) => (),
        other => panic!("{other:?}"),
    });
    made.unwrap();
    let Content::Link(kept) = link_text(&transport) else { panic!() };
    assert_eq!(kept, text);
}

enum Content {
    Link(Vec<u8>),
    Other,
}

/// Returns the text of the link in the root, from READLINK with a Write chunk.
fn link_text(transport: &MockTransport) -> Content {
    let mut other = MockTransport::for_server(Arc::clone(transport.server()), MockConnectionSettings::default());
    let root = root(&other);
    let mut line = line(&mut other);
    let lookup = Args::LOOKUP(nfsrdma_dissectors::nfs::v3::Lookup3Args {
        what: Diropargs3 { dir: Opaque(&root), name: Text(b"link") },
    });
    let handle = call(&mut line, &lookup, &plain(400), |results| match results {
        Results::LOOKUP(StatusUnion::Ok(ok)) => ok.object.0.to_vec(),
        other => panic!("{other:?}"),
    });
    let handle = handle.unwrap();
    let args = Args::READLINK(nfsrdma_dissectors::nfs::v3::Readlink3Args { symlink: Opaque(&handle) });
    let more = SynchronousProcedureCall { max_payload_bytes: &[4096], ..plain(200) };
    let text = call(&mut line, &args, &more, |results| match results {
        Results::READLINK(StatusUnion::Ok(ok)) => ok.data.bytes().map(<[u8]>::to_vec),
        _ => None,
    });
    text.unwrap().map_or(Content::Other, Content::Link)
}

#[test]
fn rfc8166_section_4_5_3_a_reply_chunk_that_is_too_short_ends_the_call_with_err_chunk() {
    let mut transport = MockTransport::new(MockConnectionSettings {
        private_data: None,
        credits: 8,
        ..MockConnectionSettings::default()
    });
    let root = root(&transport);
    let mut line = line(&mut transport);
    for index in 0..20 {
        create(&mut line, &root, format!("{index:0>200}").as_bytes());
    }
    let args = Args::READDIR(Readdir3Args { dir: Opaque(&root), cookie: 0, cookieverf: [0; 8], count: 32_768 });
    let outcome = call(&mut line, &args, &plain(1500), |_| ());
    assert!(matches!(outcome, Err(RpcCallError::RdmaError(RpcRdmaError::Chunk))), "{outcome:?}");
    // The connection stays open.
    assert!(call(&mut line, &Args::NULL(Void), &plain(0), |_| ()).is_ok());
}

#[test]
fn rfc8166_section_4_5_an_rdma_error_ends_its_call_and_gives_its_credit_back() {
    for (fault, code) in [
        (MockTransportFault::ErrVers, RpcRdma1ErrCode::ERR_VERS),
        (MockTransportFault::ErrChunk, RpcRdma1ErrCode::ERR_CHUNK),
    ] {
        let mut transport = MockTransport::new(MockConnectionSettings::default());
        let connection = transport.connect(&target(32)).unwrap();
        transport.inject(0, fault);
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, RpcClientTransportEvent::RdmaError { xid, tag, error, .. } => {
            assert_eq!((xid, tag, error.tag()), (Xid(1), CallTag(1), code));
        });
        assert_eq!(transport.credits(connection).unwrap().in_flight, 0);
        assert!(submit_null(&mut transport, connection, 1).is_ok());
    }
}

#[test]
fn a_connection_that_breaks_in_the_middle_of_calls_names_them_in_their_order() {
    for fault in [MockTransportFault::BreakBefore, MockTransportFault::BreakAfter] {
        let mut transport = MockTransport::new(MockConnectionSettings::default());
        let connection = transport.connect(&target(32)).unwrap();
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, RpcClientTransportEvent::Reply(_));
        transport.inject(1, fault);
        for xid in [5, 3, 4] {
            submit_null(&mut transport, connection, xid).unwrap();
        }
        expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.tag, CallTag(5)));
        expect!(transport, RpcClientTransportEvent::Disconnected { reason, lost_calls, .. } => {
            assert_eq!((reason, lost_calls), (DisconnectReason::Reset, &[CallTag(3), CallTag(4)][..]));
        });
        assert!(next(&mut transport).is_none());
        assert_eq!(
            submit_null(&mut transport, connection, 9),
            Err(SubmitError::Refused(PermanentSubmitRefusal::Closed))
        );
        // A new connection works like the first one.
        let again = transport.connect(&target(32)).unwrap();
        assert_ne!(again, connection);
        submit_null(&mut transport, again, 3).unwrap();
        expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.connection, again));
    }
}

#[test]
fn rfc8166_section_4_5_an_invalid_reply_is_discarded_and_its_call_stays_in_flight() {
    for (fault, why, xid) in [
        (MockTransportFault::OtherXid, ReceivedMessageDiscardReason::Xid, Some(Xid(!1))),
        (MockTransportFault::CutHeader, ReceivedMessageDiscardReason::Short, None),
    ] {
        let mut transport = MockTransport::new(MockConnectionSettings::default());
        let connection = transport.connect(&target(32)).unwrap();
        transport.inject(0, fault);
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, RpcClientTransportEvent::Discarded { reason: printed, xid: told_xid, .. } => {
            assert_eq!((printed, told_xid), (why, xid));
        });
        assert_eq!(transport.credits(connection).unwrap().in_flight, 1);
        assert_eq!(transport.counts(connection).unwrap().discarded, 1);
    }
}

#[test]
fn a_reply_that_returns_chunks_not_offered_is_discarded() {
    for fault in [MockTransportFault::MoreThanOffered, MockTransportFault::OtherHandle] {
        let mut transport = MockTransport::new(MockConnectionSettings::default());
        let root = root(&transport);
        let mut line = line(&mut transport);
        let file = create(&mut line, &root, b"f");
        write(&mut line, &file, &content(10_000), RequestedCallForm::Fitting);
        let connection = line.connection;
        drop(line);
        transport.inject(0, fault);
        let mut line =
            RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(99), Duration::from_secs(1));
        let outcome = read(&mut line, &file, 10_000, RequestedCallForm::Fitting);
        assert!(matches!(outcome, Err(RpcCallError::Discarded(..))), "{outcome:?}");
        drop(line);
        assert_eq!(transport.counts(connection).unwrap().discarded, 1);
    }
}

#[test]
fn a_reply_that_comes_twice_is_one_and_one_that_comes_late_finds_its_call() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connection = transport.connect(&target(32)).unwrap();
    transport.inject(0, MockTransportFault::Twice);
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.tag, CallTag(1)));
    expect!(transport, RpcClientTransportEvent::Discarded { reason, .. } => assert_eq!(reason, ReceivedMessageDiscardReason::UnknownXid));
    transport.inject(0, MockTransportFault::Late);
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    for expected in [3, 2] {
        expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.tag, CallTag(expected)));
    }
}

#[test]
fn an_injected_wrong_byte_is_in_the_read_data() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    let data = content(10_000);
    write(&mut line, &file, &data, RequestedCallForm::Fitting);
    let connection = line.connection;
    drop(line);
    transport.inject(0, MockTransportFault::OtherByte);
    let mut line =
        RpcClient::new(&mut transport, connection, AuthSysCredential::default(), Xid(99), Duration::from_secs(1));
    assert_ne!(read(&mut line, &file, 10_000, RequestedCallForm::Fitting).unwrap(), data);
    assert_eq!(read(&mut line, &file, 10_000, RequestedCallForm::Fitting).unwrap(), data);
}

#[test]
fn rfc8167_section_5_the_server_calls_and_is_answered_with_the_same_xid_as_a_call_of_ours() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 7).unwrap();
    transport.call_back(connection, &null(7));
    expect!(transport, RpcClientTransportEvent::Call(call) => assert_eq!((call.xid, call.message), (Xid(7), &null(7)[..])));
    let answer: Vec<u8> = [7u32, 1, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
    let none = transport.answer(connection, Xid(8), &[&[0, 0, 0, 8], &answer[4..]].concat());
    assert_eq!(none, Err(SubmitError::Refused(PermanentSubmitRefusal::NoCall)));
    transport.answer(connection, Xid(7), &answer).unwrap();
    let answers = transport.answers(connection);
    let mut cursor = Cursor::new(&answers[0]);
    let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    // Credits that the client grants for the reverse direction: section 5.2.
    assert_eq!((header.rdma_xid, header.rdma_credit, cursor.rest()), (Xid(7), 16, &answer[..]));
    expect!(transport, RpcClientTransportEvent::Reply(reply) => assert_eq!(reply.tag, CallTag(7)));
    let long = [&answer[..], &[0; 5000]].concat();
    transport.call_back(connection, &null(7));
    expect!(transport, RpcClientTransportEvent::Call(_));
    assert_eq!(transport.answer(connection, Xid(7), &long), Err(SubmitError::Refused(PermanentSubmitRefusal::TooLong)));
}

#[test]
fn rfc8167_section_4_1_calls_beyond_the_credits_that_were_granted_are_not_taken() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let mut target = target(32);
    target.options.reverse_credits = 1;
    let connection = transport.connect(&target).unwrap();
    transport.call_back(connection, &null(1));
    transport.call_back(connection, &null(2));
    expect!(transport, RpcClientTransportEvent::Call(call) => assert_eq!(call.xid, Xid(1)));
    expect!(transport, RpcClientTransportEvent::Discarded { reason, .. } => assert_eq!(reason, ReceivedMessageDiscardReason::ReverseCall));
}

#[test]
fn rfc8167_section_5_3_a_call_with_chunks_is_refused_with_err_chunk() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connection = transport.connect(&target(32)).unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let with_read_chunk = [7, 1, 4, 0, 1, 40, 5, 100, 0, 0, 0, 0, 0, 7, 0, 2];
    let with_write_chunk = [8, 1, 4, 0, 0, 1, 1, 5, 100, 0, 0, 0, 0, 8, 0, 2];
    let long = [9, 1, 4, 1, 1, 0, 5, 100, 0, 0, 0, 0, 0];
    for (xid, call) in [(7, &with_read_chunk[..]), (8, &with_write_chunk), (9, &long)] {
        transport.send_from_server(connection, words(call));
        expect!(transport, RpcClientTransportEvent::Discarded { xid: found, reason, .. } => {
            assert_eq!((found, reason), (Some(Xid(xid)), ReceivedMessageDiscardReason::ReverseCall));
        });
        // RDMA_ERROR is 4, ERR_CHUNK 2: RFC 8166 sections 4.1 and 4.2.2; 16 are the credits of the reverse direction.
        assert_eq!(transport.answers(connection), [words(&[xid, 1, 16, 4, 2])]);
    }
    // A refused Call takes no credit, and the next Call with that XID is accepted.
    transport.call_back(connection, &null(7));
    expect!(transport, RpcClientTransportEvent::Call(call) => assert_eq!(call.xid, Xid(7)));
}

#[test]
fn no_connection_starves_another() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connections: Vec<_> = (0..4).map(|_| transport.connect(&target(32)).unwrap()).collect();
    for connection in &connections {
        submit_null(&mut transport, *connection, 1).unwrap();
        expect!(transport, RpcClientTransportEvent::Reply(_));
    }
    for connection in &connections {
        for xid in 2..10 {
            submit_null(&mut transport, *connection, xid).unwrap();
        }
    }
    let mut order = Vec::new();
    while let Some(RpcClientTransportEvent::Reply(reply)) = next(&mut transport) {
        order.push(reply.connection.0);
    }
    assert_eq!(order.len(), 32);
    let mut first: Vec<_> = order[..4].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 3]);
}

#[test]
fn an_xid_is_in_flight_once() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, RpcClientTransportEvent::Reply(_));
    submit_null(&mut transport, connection, 2).unwrap();
    assert_eq!(
        submit_null(&mut transport, connection, 2),
        Err(SubmitError::Refused(PermanentSubmitRefusal::XidInFlight))
    );
}

#[test]
fn payloads_in_shared_memory_are_fetched_in_place() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let data = content(100_000);
    let memory: Arc<[u8]> = data.clone().into();
    let store = transport.share(&memory).unwrap();
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    for (at, length) in [(0, 100_000), (7, 5), (50_000, 4001)] {
        let args = Args::WRITE(Write3Args {
            file: Opaque(&file),
            offset: at as u64,
            count: length,
            stable: StableHow::UNSTABLE,
            data: Ddp::Chunk { length, bytes: None },
        });
        let more = SynchronousProcedureCall {
            data: &[PayloadContentLocation::Shared { store, offset: at, length }],
            ..plain(400)
        };
        call(&mut line, &args, &more, |results| assert!(matches!(results, Results::WRITE(StatusUnion::Ok(_)))))
            .unwrap();
    }
    assert_eq!(read(&mut line, &file, 100_000, RequestedCallForm::Fitting).unwrap(), data);
    let beyond = SynchronousProcedureCall {
        data: &[PayloadContentLocation::Shared { store, offset: 99_999, length: 2 }],
        ..plain(400)
    };
    let args = Args::WRITE(Write3Args {
        file: Opaque(&file),
        offset: 0,
        count: 2,
        stable: StableHow::UNSTABLE,
        data: Ddp::Chunk { length: 2, bytes: None },
    });
    let outcome = call(&mut line, &args, &beyond, |_| ());
    assert!(matches!(
        outcome,
        Err(RpcCallError::Submit(SubmitError::Refused(PermanentSubmitRefusal::UnknownSharedMemory)))
    ));
}

/// Returns a COMPOUND of NFSv4.0, encoded by hand: PUTFH, and READ of 100 bytes at each of three offsets without a
/// lock.
fn three_reads(xid: u32, file: &[u8], offsets: [u32; 3]) -> Vec<u8> {
    let mut words = vec![xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 0, 4, 22, file.len() as u32];
    words.extend(file.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())));
    for offset in offsets {
        words.extend([25, 0, 0, 0, 0, 0, offset, 100]);
    }
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn rfc8267_section_6_4_1_each_result_of_a_compound_has_its_own_write_chunk() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    write(&mut line, &file, &content(300), RequestedCallForm::Fitting);
    let connection = transport.connect(&target(32)).unwrap();
    type Case<'c> = ([u32; 3], [&'c [u32]; 3], [u32; 3]);
    // The second READ is beyond the end; in the second case its chunk is empty, so that it is requested inline.
    let cases: [Case<'_>; 2] = [
        ([0, 4000, 200], [&[100], &[100], &[60, 40]], [100, 0, 100]),
        ([0, 100, 200], [&[100], &[], &[60, 40]], [100, 0, 100]),
    ];
    for (xid, (offsets, writes, returned)) in (1..).zip(cases) {
        let message = three_reads(xid, &file, offsets);
        let call = OutgoingRpcCall {
            reply: ReplySizeLimits { message_bytes: 400, payloads: &[100; 3] },
            requested_form: RequestedCallForm::Captured(CapturedCallChunkLayout {
                writes: &writes,
                ..CapturedCallChunkLayout::default()
            }),
            ..OutgoingRpcCall::without_payloads(Xid(xid), CallTag(xid.into()), &message, 400)
        };
        transport.submit(connection, &call).unwrap();
        expect!(transport, RpcClientTransportEvent::Reply(reply) => {
            let lengths: Vec<_> = reply.payloads.items().iter().map(|item| item.length).collect();
            assert_eq!(lengths, returned);
            let mut cursor = reply.cursor();
            rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            let results = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            let data: Vec<_> = results
                .operations()
                .filter_map(|results| match results.unwrap() {
                    v4::Results::READ(read) => Some(read.ok().unwrap().data.bytes().unwrap().to_vec()),
                    _ => None,
                })
                .collect();
            let all = content(300);
            let expected = offsets.map(|at| all.get(at as usize..at as usize + 100).unwrap_or_default().to_vec());
            assert_eq!(data, expected);
        });
    }
}

#[test]
fn rfc1813_section_3_3_an_object_is_found_renamed_and_removed() {
    use nfsrdma_dissectors::nfs::v3::{Lookup3Args, Nfsstat3, Remove3Args, Rename3Args};
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let at = |name: &'static [u8]| Diropargs3 { dir: Opaque(&root), name: Text(name) };
    let status = |line: &mut RpcClient<'_>, args: Args<'_>| {
        let procedure = Procedure::V3(args.operation());
        let call = SynchronousProcedureCall { number: args.operation().number().0, ..plain(800) };
        let status = line.call(&call, |encoder| args.encode(encoder), |cursor| procedure.status(*cursor));
        Nfsstat3(status.unwrap().unwrap().number)
    };
    create(&mut line, &root, b"a");
    assert_eq!(
        status(&mut line, Args::MKDIR(Mkdir3Args { r#where: at(b"d"), attributes: sattr() })),
        Nfsstat3::NFS3_OK
    );
    assert_eq!(status(&mut line, Args::RENAME(Rename3Args { from: at(b"a"), to: at(b"b") })), Nfsstat3::NFS3_OK);
    assert_eq!(status(&mut line, Args::LOOKUP(Lookup3Args { what: at(b"a") })), Nfsstat3::NFS3ERR_NOENT);
    assert_eq!(status(&mut line, Args::RMDIR(Remove3Args { object: at(b"b") })), Nfsstat3::NFS3ERR_NOTDIR);
    assert_eq!(status(&mut line, Args::REMOVE(Remove3Args { object: at(b"d") })), Nfsstat3::NFS3ERR_ISDIR);
    assert_eq!(status(&mut line, Args::REMOVE(Remove3Args { object: at(b"b") })), Nfsstat3::NFS3_OK);
    assert_eq!(status(&mut line, Args::RMDIR(Remove3Args { object: at(b"d") })), Nfsstat3::NFS3_OK);
    let stale = Args::READ(Read3Args { file: Opaque(b"nothing of ours!"), offset: 0, count: 1 });
    assert_eq!(status(&mut line, stale), Nfsstat3::NFS3ERR_BADHANDLE);
}

#[test]
fn rfc5531_section_9_unsupported_programs_versions_and_procedures_are_refused() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let mut line = line(&mut transport);
    let outcome = |line: &mut RpcClient<'_>, program, version, number| {
        let procedure = SynchronousProcedureCall::new(program, version, number, 100);
        let outcome = line.call(&procedure, |_| {}, |_| Ok(()));
        // The rest is advice.
        outcome.map_err(|error| error.to_string().split(';').next().unwrap().to_owned())
    };
    assert_eq!(outcome(&mut line, Program::NFS, 4, 0), Ok(()));
    assert_eq!(
        outcome(&mut line, Program::NFS, 2, 0),
        Err("PROG_MISMATCH: the server has versions 3 to 4 of the program".into())
    );
    assert_eq!(outcome(&mut line, Program::NSM, 1, 0), Err("PROG_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::MOUNT, 3, 9), Err("PROC_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::NFS, 3, 22), Err("PROC_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::NFS, 3, 1), Err("GARBAGE_ARGS".into()));
}

proptest::proptest! {
    #[test]
    fn a_server_answers_or_discards_any_message(bytes: Vec<u8>) {
        let mut server = MockServer::default();
        let mut device = MockRegisteredMemoryTable::default();
        let mut responder = MockRpcRdmaResponder::new(4096, &MockConnectionSettings { credits: 8, ..MockConnectionSettings::default() });
        let _ = responder.respond(&bytes, &mut server, &mut device, None, &mut Vec::new());
    }

    #[test]
    fn a_server_answers_any_arguments(
        version in 3u32..5, number in 0u32..23, words in proptest::collection::vec(0u32..70, 0..60),
    ) {
        let mut server = MockServer::default();
        let mut message = null(1);
        message[19] = version as u8;
        message[23] = number as u8;
        message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let mut answer = server::MockReply::default();
        server.call(Cursor::new(&message), &mut answer);
        proptest::prop_assert_eq!(&answer.complete_message()[..8], &[0, 0, 0, 1, 0, 0, 0, 1]);
    }
}
