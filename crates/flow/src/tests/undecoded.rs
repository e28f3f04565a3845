//! A captured message that is not decoded to its end makes its Transaction incomplete, with the position
//! and the reason.

use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{self, Args, Nfsstat4, Results};
use nfsrdma_dissectors::rpcrdma::{RdmaBody, RdmaProc, UnknownRdmaBody};
use nfsrdma_dissectors::xdr::{Opaque, UndecodedMessageRest, Void};

use super::*;

/// Reasons for undecoded messages of a Transaction, Call first.
fn reasons(transaction: &Transaction) -> [Option<(usize, String)>; 2] {
    let facts = transaction.with_messages(|reading| reading.summary());
    [RpcMessageKind::Call, RpcMessageKind::Reply].map(|which| {
        let error = facts.decode_error(transaction, which)?;
        Some((error.at(), error.reason().to_string()))
    })
}

fn reason(at: usize, text: &str) -> Option<(usize, String)> {
    Some((at, text.to_owned()))
}

/// A Call of NFSv3 GETATTR has 10 words of RPC header without credentials and 2 of the filehandle; the
/// Reply 6 and the status.
#[test]
fn bytes_that_follow_arguments_or_results_are_reported() {
    let mut link = Link::new(17);
    let (mut call, mut reply) = (getattr_call(7), getattr_reply(8));
    call.body.extend([0; 12]);
    reply.body.extend([0; 4]);
    let frames = [
        link.send(Client, &call),
        link.send(Server, &getattr_reply(7)),
        link.send(Client, &getattr_call(8)),
        link.send(Server, &reply),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 7 GETATTR NFS3ERR_STALE call 1 reply 2 missing undecoded:call:48-",
            "#2 c1 > 8 GETATTR NFS3ERR_STALE call 3 reply 4 missing undecoded:reply:28-,reply:wrong-result",
        ],
    );
    assert_eq!(reasons(&outcome.transactions[0]), [reason(48, "12 bytes follow the last item"), None]);
    assert_eq!(reasons(&outcome.transactions[1]), [None, reason(28, "4 bytes follow the last item")]);
    // An observer gets the same error.
    let first = &outcome.transactions[0];
    let heard = first.with_messages(|reading| reading.observe(RpcMessageKind::Call, &mut Depth(0)));
    assert_eq!(heard.map_err(|error| error.at()), Err(48));
}

#[test]
fn a_refusal_ends_with_its_status() {
    let mut link = Link::new(17);
    let mut reply = refusal(7, nfsrdma_dissectors::rpc::AcceptStat::GARBAGE_ARGS);
    reply.body.extend([0; 8]);
    let frames = [link.send(Client, &getattr_call(7)), link.send(Server, &reply)].concat();
    expect_all(&frames, &["#1 c1 > 7 GETATTR GARBAGE_ARGS call 1 reply 2 missing undecoded:reply:24-"]);
}

/// RFC 8881 section 16.2.3: a COMPOUND is NFS4_OK if every operation succeeded, and has a result for each.
#[test]
fn rfc8881_section_16_2_3_absent_results_are_reported() {
    let root = || Results::PUTROOTFH(StatusUnion::Ok(Void));
    let handle = || Results::GETFH(StatusUnion::Ok(v4::ObjectFh4 { object: Opaque(b"root") }));
    let stale = || Results::GETFH(StatusUnion::Fail(Nfsstat4::NFS4ERR_STALE, Void));
    let operations = [Args::PUTROOTFH(Void), Args::GETFH(Void), Args::PUTROOTFH(Void)];
    let mut link = Link::new(17);
    let mut frames = Vec::new();
    let replies = [
        (Nfsstat4::NFS4_OK, vec![root(), handle(), root()]),
        (Nfsstat4::NFS4_OK, vec![root(), handle()]),
        (Nfsstat4::NFS4_OK, vec![]),
        (Nfsstat4::NFS4ERR_STALE, vec![root(), stale()]),
        (Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH, vec![]),
    ];
    for (xid, (status, results)) in (7..).zip(&replies) {
        frames.extend(link.send(Client, &compound_call(xid, &operations)));
        frames.extend(link.send(Server, &compound_reply(xid, *status, results)));
    }
    let outcome = run(&frames);
    let heard: Vec<_> = outcome.transactions.iter().map(reasons).collect();
    let reply = |reason| [None, reason];
    assert_eq!(
        heard,
        [
            reply(None),
            // RPC header 24, status, tag and count 12, results 8 and 16.
            reply(reason(60, "results of 2 of 3 operations only")),
            reply(reason(36, "results of 0 of 3 operations only")),
            reply(None),
            reply(None),
        ]
    );
}

#[test]
fn an_operation_that_is_not_known_is_reported() {
    let mut link = Link::new(17);
    let mut call = compound_call(7, &[Args::PUTROOTFH(Void), Args::GETFH(Void)]);
    // The number of the last operation.
    let at = call.body.len() - 4;
    call.body[at..].copy_from_slice(&99u32.to_be_bytes());
    let outcome = run(&link.send(Client, &call));
    assert_eq!(outcome.lines(), ["#1 c1 > 7 99 - call 1 missing reply,undecoded:call:60-"]);
    assert_eq!(reasons(&outcome.transactions[0])[0], reason(60, "Operation 99 is not known"));
}

/// RFC 8166 sections 4.2.2 and 4.2.4.
#[test]
fn rfc8166_section_4_2_versions_and_procedures_that_are_not_known_are_named() {
    let unread = |proc| RdmaBody::Unread(RdmaProc(proc), UnknownRdmaBody { data: UndecodedMessageRest(&[1; 60]) });
    let mut link = Link::new(17);
    let frames = [
        getattr(&mut link, 6),
        link.send_bytes(Client, &header(7, 7, 32, unread(0))),
        link.send_bytes(Client, &header(8, 1, 32, unread(9))),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 - - call 3 missing reply,undecoded:call:0-",
            "#3 c1 > 8 - - call 4 missing reply,undecoded:call:0-",
        ],
    );
    let [_, version, procedure] = &outcome.transactions[..] else { unreachable!() };
    assert_eq!(reasons(version)[0], reason(0, "RPC-over-RDMA version 7 is not known"));
    assert_eq!(reasons(procedure)[0], reason(0, "RPC-over-RDMA procedure 9 is not known"));
}

/// draft-ietf-nfsv4-rpcrdma-version-two section 6.1: XID, version, credits, and the header type.
#[test]
fn a_header_type_of_version_2_that_is_not_known_is_named() {
    let mut link = Link::new(17);
    let words = [7_u32, 2, 32, 55, 1, 2, 3, 4].map(u32::to_be_bytes).concat();
    let frames = [getattr(&mut link, 6), link.send_bytes(Client, &words)].concat();
    let outcome = expect_all(
        &frames,
        &["#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2", "#2 c1 > 7 - - call 3 missing reply,undecoded:call:0-"],
    );
    assert_eq!(reasons(&outcome.transactions[1])[0], reason(0, "RPC-over-RDMA header type 55 is not known"));
}

/// RFC 8166 section 4.5.2: an RDMA_NOMSG without a Position-Zero Read chunk, and one without a Reply chunk.
#[test]
fn rfc8166_section_4_5_2_a_message_in_no_chunk_is_named() {
    let mut link = Link::new(17);
    let frames = [
        getattr(&mut link, 6),
        link.send(Client, &getattr_call(7).nomsg()),
        link.send(Client, &getattr_call(8)),
        link.send(Server, &getattr_reply(8).nomsg()),
    ]
    .concat();
    let outcome = expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 8 GETATTR - call 4 reply 5 missing undecoded:reply:0-",
            "#3 c1 > 7 - - call 3 missing reply,undecoded:call:0-",
        ],
    );
    let nowhere = || reason(0, "no chunk holds the message");
    let [_, reply, call] = &outcome.transactions[..] else { unreachable!() };
    assert_eq!((reasons(call), reasons(reply)), ([nowhere(), None], [None, nowhere()]));
}

/// RFC 8166 section 4.5.2: the reply names memory that its call did not offer, so its results are nowhere.
#[test]
fn reply_in_unoffered_chunk_is_incomplete() {
    let mut link = Link::new(17);
    let chunk = memory(9, 0x1000, 1028);
    let frames = [
        getattr(&mut link, 6),
        link.send(Client, &getattr_call(7)),
        link.send(Server, &getattr_reply(7).nomsg().reply(&[chunk])),
    ]
    .concat();
    expect_all(
        &frames,
        &[
            "#1 c1 > 6 GETATTR NFS3ERR_STALE call 1 reply 2",
            "#2 c1 > 7 GETATTR - call 3 reply 4 missing undecoded:reply:0-,reply:wrong-result",
        ],
    );
}

/// A procedure that its program does not have is not decoded; a program or version that is not described
/// cannot be.
#[test]
fn of_a_program_that_is_not_described_nothing_is_expected() {
    let mut link = Link::new(17);
    let mut frames = getattr(&mut link, 6);
    for (xid, (program, version, procedure)) in (7..).zip([(100_003, 3, 99), (100_003, 9, 1), (300_003, 3, 1)]) {
        frames.extend(link.send(Client, &call_of(xid, program, version, procedure)));
        frames.extend(link.send(Server, &reply_of(xid)));
    }
    let outcome = run(&frames);
    let unknown = |at| reason(at, "procedure 99 is not known");
    let heard: Vec<_> = outcome.transactions[1..].iter().map(reasons).collect();
    assert_eq!(heard, [[unknown(40), unknown(24)], [None, None], [None, None]]);
}

/// Bytes lost or removed by a snap length are reported as missing bytes, and by nothing else.
#[test]
fn bytes_missing_from_the_capture_are_not_undecoded() {
    let mut link = Link::new(17);
    let mut frames = getattr(&mut link, 6);
    frames.extend(link.send(Client, &write_call_inline(7, &data(5000))));
    frames.extend(link.send(Server, &write_reply(7, 5000)));
    let whole = frames.len() as u64;
    for lost in 3..whole {
        let outcome = run(&without(&frames, &[lost as usize]));
        for transaction in &outcome.transactions {
            assert_eq!(reasons(transaction), [None, None], "{lost}: {}", line(transaction));
        }
    }
    for snap in 54..200 {
        let outcome = run_cut(&frames, 2, snap);
        for transaction in &outcome.transactions {
            assert_eq!(reasons(transaction), [None, None], "{snap}: {}", line(transaction));
        }
    }
}

/// A Long Reply whose Call was lost: its Reply chunk is unknown.
#[test]
fn a_long_reply_without_its_call_is_not_undecoded() {
    let mut link = Link::new(17);
    let sink = memory(0xc1, 0, 4096);
    let mut frames = getattr(&mut link, 6);
    frames.extend(link.send(Server, &read_reply_inline(9, &data(600)).nomsg().reply(&[sink.of(628)])));
    let outcome = run(&frames);
    assert_eq!(outcome.lines()[1], "#2 c1 > 9 - - reply 3 missing call");
}
