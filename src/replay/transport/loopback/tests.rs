//! The rules of a transport, held by the one that is inside the program; and how it takes what goes wrong.

use std::time::Duration;

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::nfs::Outcome as Outcome3;
use nfsrdma_dissectors::nfs::v3::{
    Args, CreateArgs, Createhow3, Diropargs3, MkdirArgs, ReadArgs, ReaddirArgs, Results, Sattr3, SetAtime,
    SetMtime, StableHow, SymlinkArgs, Symlinkdata3, WriteArgs,
};
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::rpcrdma::{ErrCode, RdmaError};
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Error, Opaque, Text, Void};

use super::*;
use crate::replay::caller::{CallError, Caller, Line, Procedure};
use crate::replay::transport::{Captured, Expected, Shape, Wish};

/// Lengths at which something changes: fill, thresholds, segments, registered memory.
const LENGTHS: [usize; 17] =
    [1, 2, 3, 4, 5, 511, 1023, 1024, 1025, 4095, 4096, 4097, 65_535, 65_537, 262_143, 1_048_573, 1_048_576];

fn target(credits: u32) -> Target {
    let wish = Wish { credits, ..Wish::default() };
    Target { address: "127.0.0.1:20049".parse().unwrap(), name: "loopback".into(), wish }
}

fn line(transport: &mut Loopback) -> Line<'_> {
    let connection = transport.connect(&target(32)).unwrap();
    Line::new(transport, connection, Caller::default(), Xid(1), Duration::from_secs(1))
}

/// Bytes that repeat nowhere soon.
fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn sattr() -> Sattr3 {
    let (atime, mtime) = (SetAtime::DontChange, SetMtime::DontChange);
    Sattr3 { mode: None, uid: None, gid: None, size: None, atime, mtime }
}

/// A procedure of NFSv3 whose results are looked at by `read`.
fn call<T>(
    line: &mut Line<'_>,
    args: &Args<'_>,
    more: &Procedure<'_>,
    read: impl FnOnce(&Results<'_>) -> T,
) -> Result<T, CallError> {
    let number = args.number();
    line.call(
        &Procedure { program: Program::NFS, version: 3, number: number.0, ..*more },
        |encoder| args.encode(encoder),
        |cursor| Ok::<_, Error>(read(&Results::decode(number, cursor, &mut Unobserved)?)),
    )
}

fn plain(reply: u32) -> Procedure<'static> {
    Procedure::new(Program::NFS, 3, 0, reply)
}

fn create(line: &mut Line<'_>, root: &[u8], name: &[u8]) -> Vec<u8> {
    let r#where = Diropargs3 { dir: Opaque(root), name: Text(name) };
    let args = Args::CREATE(CreateArgs { r#where, how: Createhow3::Guarded(sattr()) });
    let found = call(line, &args, &plain(400), |results| match results {
        Results::CREATE(Outcome3::Ok(made)) => made.obj.map(|object| object.0.to_vec()),
        other => panic!("{other:?}"),
    });
    found.unwrap().unwrap()
}

fn write(line: &mut Line<'_>, file: &[u8], data: &[u8], shape: Shape<'_>) -> u32 {
    let length = data.len() as u32;
    let args = Args::WRITE(WriteArgs {
        file: Opaque(file),
        offset: 0,
        count: length,
        stable: StableHow::FILE_SYNC,
        data: Ddp::Chunk { length, bytes: None },
    });
    let more = Procedure { data: &[Source::Copied(data)], shape, ..plain(400) };
    call(line, &args, &more, |results| match results {
        Results::WRITE(Outcome3::Ok(ok)) => ok.count,
        other => panic!("{other:?}"),
    })
    .unwrap()
}

fn read(line: &mut Line<'_>, file: &[u8], count: u32, shape: Shape<'_>) -> Result<Vec<u8>, CallError> {
    let args = Args::READ(ReadArgs { file: Opaque(file), offset: 0, count });
    let more = Procedure { results: &[count], shape, ..plain(200) };
    call(line, &args, &more, |results| match results {
        Results::READ(Outcome3::Ok(ok)) => ok.data.bytes().map(<[u8]>::to_vec).unwrap(),
        other => panic!("{other:?}"),
    })
}

fn root(transport: &Loopback) -> [u8; 16] {
    transport.server().lock().unwrap().root()
}

/// A NULL Call that is on its way.
fn submit_null(
    transport: &mut Loopback,
    connection: ConnectionId,
    xid: u32,
) -> Result<Submitted, SubmitError> {
    let message = null(xid);
    transport.submit(connection, &Call::small(Xid(xid), Tag(xid.into()), &message, 100))
}

/// NFSv3 NULL, laid out by hand: RFC 5531 section 9.
fn null(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn next(transport: &mut Loopback) -> Option<Event<'_>> {
    transport.poll(None).unwrap()
}

/// Passes over changes of credits.
macro_rules! expect {
    ($transport:expr, $pattern:pat) => { expect!($transport, $pattern => {}) };
    ($transport:expr, $pattern:pat => $value:expr) => {{
        loop {
            match next(&mut $transport) {
                Some(Event::Credits { .. }) => {}
                Some($pattern) => break $value,
                other => panic!("{other:?}"),
            }
        }
    }};
}

#[test]
fn rfc8166_section_3_3_3_one_call_until_the_first_reply_then_as_many_as_granted() {
    let mut transport = Loopback::new(Settings { credits: 4, ..Settings::default() });
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    assert_eq!(submit_null(&mut transport, connection, 2), Err(SubmitError::Busy(Busy::Credits)));
    assert!(matches!(next(&mut transport), Some(Event::Credits { granted: 4, .. })));
    expect!(transport, Event::Reply(reply) => assert_eq!(reply.tag, Tag(1)));
    for xid in 2..6 {
        submit_null(&mut transport, connection, xid).unwrap();
    }
    assert_eq!(submit_null(&mut transport, connection, 6), Err(SubmitError::Busy(Busy::Credits)));
    assert_eq!(transport.credits(connection).unwrap().in_flight, 4);
    expect!(transport, Event::Reply(_));
    assert!(submit_null(&mut transport, connection, 6).is_ok());
    assert_eq!(transport.counts(connection).unwrap().credit_waits, 2);
}

#[test]
fn rfc8166_section_3_3_1_a_lower_grant_holds_from_the_reply_that_says_it_and_zero_counts_as_one() {
    let mut transport = Loopback::new(Settings { credits: 8, ..Settings::default() });
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, Event::Reply(_));
    transport.inject(0, Fault::Credits(0));
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    assert!(matches!(next(&mut transport), Some(Event::Credits { granted: 0, .. })));
    expect!(transport, Event::Reply(_));
    assert_eq!(submit_null(&mut transport, connection, 4), Err(SubmitError::Busy(Busy::Credits)));
    expect!(transport, Event::Reply(_));
    assert!(submit_null(&mut transport, connection, 4).is_ok());
    assert_eq!(transport.counts(connection).unwrap().zero_grants, 1);
}

#[test]
fn rfc8166_section_3_3_1_never_more_than_was_asked_for() {
    let mut transport = Loopback::new(Settings::default());
    let connection = transport.connect(&target(2)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, Event::Reply(_));
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    assert_eq!(submit_null(&mut transport, connection, 4), Err(SubmitError::Busy(Busy::Credits)));
}

#[test]
fn rfc8166_section_3_5_2_data_of_every_length_goes_and_comes_whole() {
    for inline in [1024, 4096, 65_536] {
        let size = (inline / 1024 - 1) as u8;
        let private_data = PrivateData { send_size: size, receive_size: size, ..PrivateData::DEFAULT };
        let mut transport =
            Loopback::new(Settings { private_data: Some(private_data), credits: 8, ..Settings::default() });
        let root = root(&transport);
        let mut line = line(&mut transport);
        for (index, length) in LENGTHS.into_iter().enumerate() {
            let file = create(&mut line, &root, format!("f{index}").as_bytes());
            let data = content(length);
            assert_eq!(write(&mut line, &file, &data, Shape::Fitting), length as u32);
            assert_eq!(read(&mut line, &file, length as u32, Shape::Fitting).unwrap(), data, "{length}");
            // A chunk that is longer than what there is comes back partly used.
            let more = (length as u32 + 7).min(1 << 20);
            assert_eq!(read(&mut line, &file, more, Shape::Fitting).unwrap(), data, "{length}");
        }
    }
}

#[test]
fn rfc8166_section_4_4_1_memory_is_given_back_and_used_again() {
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    let data = content(300_000);
    for _ in 0..50 {
        write(&mut line, &file, &data, Shape::Fitting);
        read(&mut line, &file, 300_000, Shape::Fitting).unwrap();
    }
    drop(line);
    assert!(transport.device.registered() < 2 << 20, "{}", transport.device.registered());
}

#[test]
fn rfc8166_section_3_4_6_a_chunk_of_several_segments_is_filled_in_their_order() {
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let connection = transport.connect(&target(32)).unwrap();
    let mut line = Line::new(&mut transport, connection, Caller::default(), Xid(1), Duration::from_secs(1));
    let file = create(&mut line, &root, b"f");
    let data = content(10_001);
    let reads = Captured { reads: &[&[4096, 1, 4096, 1000, 808]], ..Captured::default() };
    assert_eq!(write(&mut line, &file, &data, Shape::Captured(reads)), 10_001);
    let writes = Captured { writes: &[&[1, 4095, 100, 10_000]], ..Captured::default() };
    assert_eq!(read(&mut line, &file, 12_000, Shape::Captured(writes)).unwrap(), data);

    // What is not used has the length 0 in the Reply.
    let args = Args::READ(ReadArgs { file: Opaque(&file), offset: 9_000, count: 5000 });
    let mut encoder = Encoder::new();
    encoder.raw(&null(77));
    args.encode(&mut encoder);
    let mut message = encoder.finish().0;
    message[23] = 6; // the procedure
    let call = Call {
        reply: Expected { message: 300, payloads: &[5000] },
        shape: Shape::Captured(writes),
        ..Call::small(Xid(77), Tag(1), &message, 0)
    };
    let submitted = transport.submit(connection, &call).unwrap();
    assert_eq!((submitted.write_segments, submitted.changed), (4, false));
    expect!(transport, Event::Reply(reply) => {
        let header = reply.header.as_ref().unwrap();
        let chunk = header.chunk_lists().unwrap().rdma_writes.iter().next().unwrap();
        let lengths: Vec<_> = chunk.target.iter().map(|segment| segment.length).collect();
        assert_eq!(lengths, [1, 1000, 0, 0]);
        assert_eq!(reply.payloads.items()[0].bytes, Some(&data[9_000..]));
    });
}

#[test]
fn rfc8166_section_3_5_3_a_long_call_and_a_long_reply() {
    let mut transport = Loopback::new(Settings { private_data: None, credits: 8, ..Settings::default() });
    let root = root(&transport);
    let mut line = line(&mut transport);
    // A name and a machine that leave no room in 1,024 bytes.
    for index in 0..40 {
        create(&mut line, &root, format!("{index:0>200}").as_bytes());
    }
    let args =
        Args::READDIR(ReaddirArgs { dir: Opaque(&root), cookie: 0, cookieverf: [0; 8], count: 32_768 });
    let names = call(&mut line, &args, &plain(32_768), |results| match results {
        Results::READDIR(Outcome3::Ok(ok)) => (ok.reply.entries.len(), ok.reply.eof),
        other => panic!("{other:?}"),
    });
    assert_eq!(names.unwrap(), (42, true));

    // RFC 8267 section 4: the text of a symbolic link may travel in a Read chunk, or in a Long Call.
    let text = content(1000).iter().map(|byte| byte % 26 + b'a').collect::<Vec<_>>();
    let link = |data| {
        Args::SYMLINK(SymlinkArgs {
            r#where: Diropargs3 { dir: Opaque(&root), name: Text(b"link") },
            symlink: Symlinkdata3 { symlink_attributes: sattr(), symlink_data: data },
        })
    };
    let made = call(&mut line, &link(DdpText::Inline(&text)), &plain(400), |results| match results {
        Results::SYMLINK(Outcome3::Ok(_)) => (),
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

/// The text of the link in the root, as READLINK gives it by a Write chunk.
fn link_text(transport: &Loopback) -> Content {
    let mut other = Loopback::to(Arc::clone(transport.server()), Settings::default());
    let root = root(&other);
    let mut line = line(&mut other);
    let lookup = Args::LOOKUP(nfsrdma_dissectors::nfs::v3::LookupArgs {
        what: Diropargs3 { dir: Opaque(&root), name: Text(b"link") },
    });
    let handle = call(&mut line, &lookup, &plain(400), |results| match results {
        Results::LOOKUP(Outcome3::Ok(ok)) => ok.object.0.to_vec(),
        other => panic!("{other:?}"),
    });
    let handle = handle.unwrap();
    let args = Args::READLINK(nfsrdma_dissectors::nfs::v3::ReadlinkArgs { symlink: Opaque(&handle) });
    let more = Procedure { results: &[4096], ..plain(200) };
    let text = call(&mut line, &args, &more, |results| match results {
        Results::READLINK(Outcome3::Ok(ok)) => ok.data.bytes().map(<[u8]>::to_vec),
        _ => None,
    });
    text.unwrap().map_or(Content::Other, Content::Link)
}

#[test]
fn rfc8166_section_4_5_3_a_reply_chunk_that_is_too_short_ends_the_call_with_err_chunk() {
    let mut transport = Loopback::new(Settings { private_data: None, credits: 8, ..Settings::default() });
    let root = root(&transport);
    let mut line = line(&mut transport);
    for index in 0..20 {
        create(&mut line, &root, format!("{index:0>200}").as_bytes());
    }
    let args =
        Args::READDIR(ReaddirArgs { dir: Opaque(&root), cookie: 0, cookieverf: [0; 8], count: 32_768 });
    let outcome = call(&mut line, &args, &plain(1500), |_| ());
    assert!(matches!(outcome, Err(CallError::RdmaError(RdmaError::Chunk))), "{outcome:?}");
    // The connection lives on.
    assert!(call(&mut line, &Args::NULL(Void), &plain(0), |_| ()).is_ok());
}

#[test]
fn rfc8166_section_4_5_an_rdma_error_ends_its_call_and_gives_its_credit_back() {
    for (fault, code) in [(Fault::ErrVers, ErrCode::ERR_VERS), (Fault::ErrChunk, ErrCode::ERR_CHUNK)] {
        let mut transport = Loopback::new(Settings::default());
        let connection = transport.connect(&target(32)).unwrap();
        transport.inject(0, fault);
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, Event::RdmaError { xid, tag, error, .. } => {
            assert_eq!((xid, tag, error.tag()), (Xid(1), Tag(1), code));
        });
        assert_eq!(transport.credits(connection).unwrap().in_flight, 0);
        assert!(submit_null(&mut transport, connection, 1).is_ok());
    }
}

#[test]
fn a_connection_that_breaks_in_the_middle_of_calls_names_them_in_their_order() {
    for fault in [Fault::BreakBefore, Fault::BreakAfter] {
        let mut transport = Loopback::new(Settings::default());
        let connection = transport.connect(&target(32)).unwrap();
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, Event::Reply(_));
        transport.inject(1, fault);
        for xid in [5, 3, 4] {
            submit_null(&mut transport, connection, xid).unwrap();
        }
        expect!(transport, Event::Reply(reply) => assert_eq!(reply.tag, Tag(5)));
        expect!(transport, Event::Disconnected { reason, lost, .. } => {
            assert_eq!((reason, lost), (Disconnect::Reset, &[Tag(3), Tag(4)][..]));
        });
        assert!(next(&mut transport).is_none());
        assert_eq!(submit_null(&mut transport, connection, 9), Err(SubmitError::Refused(Refusal::Closed)));
        // Another connection is as good as the first was.
        let again = transport.connect(&target(32)).unwrap();
        assert_ne!(again, connection);
        submit_null(&mut transport, again, 3).unwrap();
        expect!(transport, Event::Reply(reply) => assert_eq!(reply.connection, again));
    }
}

#[test]
fn rfc8166_section_4_5_a_reply_that_makes_no_sense_is_discarded_and_its_call_stays_in_flight() {
    for (fault, why, xid) in
        [(Fault::OtherXid, Discard::Xid, Some(Xid(!1))), (Fault::CutHeader, Discard::Short, None)]
    {
        let mut transport = Loopback::new(Settings::default());
        let connection = transport.connect(&target(32)).unwrap();
        transport.inject(0, fault);
        submit_null(&mut transport, connection, 1).unwrap();
        expect!(transport, Event::Discarded { why: told, xid: told_xid, .. } => {
            assert_eq!((told, told_xid), (why, xid));
        });
        assert_eq!(transport.credits(connection).unwrap().in_flight, 1);
        assert_eq!(transport.counts(connection).unwrap().discarded, 1);
    }
}

#[test]
fn what_a_reply_says_of_chunks_is_not_believed_beyond_what_was_offered() {
    for fault in [Fault::MoreThanOffered, Fault::OtherHandle] {
        let mut transport = Loopback::new(Settings::default());
        let root = root(&transport);
        let mut line = line(&mut transport);
        let file = create(&mut line, &root, b"f");
        write(&mut line, &file, &content(10_000), Shape::Fitting);
        let connection = line.connection;
        drop(line);
        transport.inject(0, fault);
        let mut line =
            Line::new(&mut transport, connection, Caller::default(), Xid(99), Duration::from_secs(1));
        let outcome = read(&mut line, &file, 10_000, Shape::Fitting);
        assert!(matches!(outcome, Err(CallError::Timeout(_))), "{outcome:?}");
        drop(line);
        assert_eq!(transport.counts(connection).unwrap().discarded, 1);
    }
}

#[test]
fn a_reply_that_comes_twice_is_one_and_one_that_comes_late_finds_its_call() {
    let mut transport = Loopback::new(Settings::default());
    let connection = transport.connect(&target(32)).unwrap();
    transport.inject(0, Fault::Twice);
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, Event::Reply(reply) => assert_eq!(reply.tag, Tag(1)));
    expect!(transport, Event::Discarded { why, .. } => assert_eq!(why, Discard::UnknownXid));
    transport.inject(0, Fault::Late);
    submit_null(&mut transport, connection, 2).unwrap();
    submit_null(&mut transport, connection, 3).unwrap();
    for expected in [3, 2] {
        expect!(transport, Event::Reply(reply) => assert_eq!(reply.tag, Tag(expected)));
    }
}

#[test]
fn a_byte_that_is_another_is_seen_by_who_looks() {
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    let data = content(10_000);
    write(&mut line, &file, &data, Shape::Fitting);
    let connection = line.connection;
    drop(line);
    transport.inject(0, Fault::OtherByte);
    let mut line = Line::new(&mut transport, connection, Caller::default(), Xid(99), Duration::from_secs(1));
    assert_ne!(read(&mut line, &file, 10_000, Shape::Fitting).unwrap(), data);
    assert_eq!(read(&mut line, &file, 10_000, Shape::Fitting).unwrap(), data);
}

#[test]
fn rfc8167_section_5_the_server_calls_and_is_answered_with_the_same_xid_as_a_call_of_ours() {
    let mut transport = Loopback::new(Settings::default());
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 7).unwrap();
    transport.call_back(connection, &null(7));
    expect!(transport, Event::Call(call) => assert_eq!((call.xid, call.message), (Xid(7), &null(7)[..])));
    let answer: Vec<u8> = [7u32, 1, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
    let none = transport.answer(connection, Xid(8), &[&[0, 0, 0, 8], &answer[4..]].concat());
    assert_eq!(none, Err(SubmitError::Refused(Refusal::NoCall)));
    transport.answer(connection, Xid(7), &answer).unwrap();
    let answers = transport.answers(connection);
    let mut cursor = Cursor::new(&answers[0]);
    let header = Header::decode(&mut cursor, &mut Unobserved).unwrap();
    // Credits that the client grants for the reverse direction: section 5.2.
    assert_eq!((header.rdma_xid, header.rdma_credit, cursor.rest()), (Xid(7), 16, &answer[..]));
    expect!(transport, Event::Reply(reply) => assert_eq!(reply.tag, Tag(7)));
    let long = [&answer[..], &[0; 5000]].concat();
    transport.call_back(connection, &null(7));
    expect!(transport, Event::Call(_));
    assert_eq!(transport.answer(connection, Xid(7), &long), Err(SubmitError::Refused(Refusal::TooLong)));
}

#[test]
fn rfc8167_section_4_1_calls_beyond_the_credits_that_were_granted_are_not_taken() {
    let mut transport = Loopback::new(Settings::default());
    let mut target = target(32);
    target.wish.reverse_credits = 1;
    let connection = transport.connect(&target).unwrap();
    transport.call_back(connection, &null(1));
    transport.call_back(connection, &null(2));
    expect!(transport, Event::Call(call) => assert_eq!(call.xid, Xid(1)));
    expect!(transport, Event::Discarded { why, .. } => assert_eq!(why, Discard::ReverseCall));
}

#[test]
fn rfc8167_section_5_3_a_call_with_chunks_is_refused_with_err_chunk() {
    let mut transport = Loopback::new(Settings::default());
    let connection = transport.connect(&target(32)).unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let with_read_chunk = [7, 1, 4, 0, 1, 40, 5, 100, 0, 0, 0, 0, 0, 7, 0, 2];
    let with_write_chunk = [8, 1, 4, 0, 0, 1, 1, 5, 100, 0, 0, 0, 0, 8, 0, 2];
    let long = [9, 1, 4, 1, 1, 0, 5, 100, 0, 0, 0, 0, 0];
    for (xid, call) in [(7, &with_read_chunk[..]), (8, &with_write_chunk), (9, &long)] {
        transport.send_from_server(connection, words(call));
        expect!(transport, Event::Discarded { xid: found, why, .. } => {
            assert_eq!((found, why), (Some(Xid(xid)), Discard::ReverseCall));
        });
        // RDMA_ERROR is 4, ERR_CHUNK 2: RFC 8166 section 4.1 and 4.2.2; 16 credits stand for the reverse direction.
        assert_eq!(transport.answers(connection), [words(&[xid, 1, 16, 4, 2])]);
    }
    // What was refused takes no credit, and the next Call of that XID is taken.
    transport.call_back(connection, &null(7));
    expect!(transport, Event::Call(call) => assert_eq!(call.xid, Xid(7)));
}

#[test]
fn no_connection_starves_another() {
    let mut transport = Loopback::new(Settings::default());
    let connections: Vec<_> = (0..4).map(|_| transport.connect(&target(32)).unwrap()).collect();
    for connection in &connections {
        submit_null(&mut transport, *connection, 1).unwrap();
        expect!(transport, Event::Reply(_));
    }
    for connection in &connections {
        for xid in 2..10 {
            submit_null(&mut transport, *connection, xid).unwrap();
        }
    }
    let mut order = Vec::new();
    while let Some(Event::Reply(reply)) = next(&mut transport) {
        order.push(reply.connection.0);
    }
    assert_eq!(order.len(), 32);
    let mut first: Vec<_> = order[..4].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 3]);
}

#[test]
fn an_xid_is_in_flight_once() {
    let mut transport = Loopback::new(Settings::default());
    let connection = transport.connect(&target(32)).unwrap();
    submit_null(&mut transport, connection, 1).unwrap();
    expect!(transport, Event::Reply(_));
    submit_null(&mut transport, connection, 2).unwrap();
    assert_eq!(submit_null(&mut transport, connection, 2), Err(SubmitError::Refused(Refusal::XidInFlight)));
}

#[test]
fn payloads_in_shared_memory_are_fetched_where_they_lie() {
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let data = content(100_000);
    let memory: Arc<[u8]> = data.clone().into();
    let store = transport.share(&memory).unwrap();
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    for (at, length) in [(0, 100_000), (7, 5), (50_000, 4001)] {
        let args = Args::WRITE(WriteArgs {
            file: Opaque(&file),
            offset: at as u64,
            count: length,
            stable: StableHow::UNSTABLE,
            data: Ddp::Chunk { length, bytes: None },
        });
        let more = Procedure { data: &[Source::Stored { store, at, length }], ..plain(400) };
        call(&mut line, &args, &more, |results| assert!(matches!(results, Results::WRITE(Outcome3::Ok(_)))))
            .unwrap();
    }
    assert_eq!(read(&mut line, &file, 100_000, Shape::Fitting).unwrap(), data);
    let beyond = Procedure { data: &[Source::Stored { store, at: 99_999, length: 2 }], ..plain(400) };
    let args = Args::WRITE(WriteArgs {
        file: Opaque(&file),
        offset: 0,
        count: 2,
        stable: StableHow::UNSTABLE,
        data: Ddp::Chunk { length: 2, bytes: None },
    });
    let outcome = call(&mut line, &args, &beyond, |_| ());
    assert!(matches!(outcome, Err(CallError::Submit(SubmitError::Refused(Refusal::Store)))));
}

/// COMPOUND of NFSv4.0, laid out by hand: PUTFH, and READ of 100 bytes at each of three offsets without a lock.
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
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let file = create(&mut line, &root, b"f");
    write(&mut line, &file, &content(300), Shape::Fitting);
    let connection = transport.connect(&target(32)).unwrap();
    type Case<'c> = ([u32; 3], [&'c [u32]; 3], [u32; 3]);
    // The second READ is beyond the end; then its chunk is empty, so that it is wanted inline.
    let cases: [Case<'_>; 2] = [
        ([0, 4000, 200], [&[100], &[100], &[60, 40]], [100, 0, 100]),
        ([0, 100, 200], [&[100], &[], &[60, 40]], [100, 0, 100]),
    ];
    for (xid, (offsets, writes, returned)) in (1..).zip(cases) {
        let message = three_reads(xid, &file, offsets);
        let call = Call {
            reply: Expected { message: 400, payloads: &[100; 3] },
            shape: Shape::Captured(Captured { writes: &writes, ..Captured::default() }),
            ..Call::small(Xid(xid), Tag(xid.into()), &message, 400)
        };
        transport.submit(connection, &call).unwrap();
        expect!(transport, Event::Reply(reply) => {
            let lengths: Vec<_> = reply.payloads.items().iter().map(|item| item.length).collect();
            assert_eq!(lengths, returned);
            let mut cursor = reply.cursor();
            rpc::Message::decode(&mut cursor, &mut Unobserved).unwrap();
            let results = v4::Reply::decode(&mut cursor, &mut Unobserved).unwrap();
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
    use nfsrdma_dissectors::nfs::v3::{LookupArgs, Nfsstat3, RemoveArgs, RenameArgs};
    let mut transport = Loopback::new(Settings::default());
    let root = root(&transport);
    let mut line = line(&mut transport);
    let at = |name: &'static [u8]| Diropargs3 { dir: Opaque(&root), name: Text(name) };
    let status = |line: &mut Line<'_>, args: Args<'_>| {
        call(line, &args, &plain(800), |results| results.status().unwrap()).unwrap()
    };
    create(&mut line, &root, b"a");
    assert_eq!(
        status(&mut line, Args::MKDIR(MkdirArgs { r#where: at(b"d"), attributes: sattr() })),
        Nfsstat3::NFS3_OK
    );
    assert_eq!(
        status(&mut line, Args::RENAME(RenameArgs { from: at(b"a"), to: at(b"b") })),
        Nfsstat3::NFS3_OK
    );
    assert_eq!(status(&mut line, Args::LOOKUP(LookupArgs { what: at(b"a") })), Nfsstat3::NFS3ERR_NOENT);
    assert_eq!(status(&mut line, Args::RMDIR(RemoveArgs { object: at(b"b") })), Nfsstat3::NFS3ERR_NOTDIR);
    assert_eq!(status(&mut line, Args::REMOVE(RemoveArgs { object: at(b"d") })), Nfsstat3::NFS3ERR_ISDIR);
    assert_eq!(status(&mut line, Args::REMOVE(RemoveArgs { object: at(b"b") })), Nfsstat3::NFS3_OK);
    assert_eq!(status(&mut line, Args::RMDIR(RemoveArgs { object: at(b"d") })), Nfsstat3::NFS3_OK);
    let stale = Args::READ(ReadArgs { file: Opaque(b"nothing of ours!"), offset: 0, count: 1 });
    assert_eq!(status(&mut line, stale), Nfsstat3::NFS3ERR_BADHANDLE);
}

#[test]
fn rfc5531_section_9_other_programs_versions_and_procedures_are_told() {
    let mut transport = Loopback::new(Settings::default());
    let mut line = line(&mut transport);
    let outcome = |line: &mut Line<'_>, program, version, number| {
        let procedure = Procedure::new(program, version, number, 100);
        line.call(&procedure, |_| {}, |_| Ok(())).map_err(|error| error.to_string())
    };
    assert_eq!(outcome(&mut line, Program::NFS, 4, 0), Ok(()));
    assert_eq!(outcome(&mut line, Program::NFS, 2, 0), Err("the server has versions 3 to 4".into()));
    assert_eq!(outcome(&mut line, Program::NSM, 1, 0), Err("PROG_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::MOUNT, 3, 9), Err("PROC_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::NFS, 3, 22), Err("PROC_UNAVAIL".into()));
    assert_eq!(outcome(&mut line, Program::NFS, 3, 1), Err("GARBAGE_ARGS".into()));
}

proptest::proptest! {
    #[test]
    fn a_server_answers_or_discards_whatever_it_is_sent(bytes: Vec<u8>) {
        let mut server = Server::default();
        let mut device = Device::default();
        let mut responder = Responder::new(4096, &Settings { credits: 8, ..Settings::default() });
        let _ = responder.respond(&bytes, &mut server, &mut device, None, &mut Vec::new());
    }

    #[test]
    fn a_server_answers_any_arguments(
        version in 3u32..5, number in 0u32..23, words in proptest::collection::vec(0u32..70, 0..60),
    ) {
        let mut server = Server::default();
        let mut message = null(1);
        message[19] = version as u8;
        message[23] = number as u8;
        message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let mut answer = server::Answer::default();
        server.call(Cursor::new(&message), &mut answer);
        proptest::prop_assert_eq!(&answer.whole()[..8], &[0, 0, 0, 1, 0, 0, 0, 1]);
    }
}
