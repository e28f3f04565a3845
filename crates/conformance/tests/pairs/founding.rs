//! Requirements of the founding documents, by their sections, and the rules that check them. 000 is
//! nfs-direct-data-placement, 001 draft-ietf-nfsv4-rpcrdma-cm-pvt-data-02, 002 draft-ietf-nfsv4-rfc5667bis-02, 003 "NFS
//! over RDMA" (SIGCOMM 2003), 004 draft-talpey-nfsv4-rdma-sess-01.

use std::collections::BTreeSet;

use nfsrdma_conformance::ReportedFindingSeverity;
use nfsrdma_flow::transaction::EndpointRole;

use crate::credits::{grant, inline_write, overlap, two_reads};
use crate::exchange::{Compound, Exchange, Operation, RDMA_MSG, RDMA_NOMSG, STATEID, data, divide, memory};
use crate::fabric::{Kind, Side};
use crate::gss::{private_write, with_read_chunk};
use crate::private_data::{connect, connect_to_port, invalidating_read};
use crate::scene::{Private, Scene};
use crate::sessions::{access, retry, sequence, set_result};
use crate::transport::{RNR_NAK, answered};
use crate::writer::Memory;
use crate::{BOTH, findings};

const CLIENT: EndpointRole = EndpointRole::Client;
const SERVER: EndpointRole = EndpointRole::Server;

/// Returns the rules and the sides that broke them, of these severities.
fn found(
    kind: Kind,
    conversation: impl FnOnce(&mut Scene),
    is_counted: fn(ReportedFindingSeverity) -> bool,
) -> BTreeSet<(&'static str, &'static str)> {
    let mut scene = Scene::new(kind);
    conversation(&mut scene);
    let found = findings(&scene.frames());
    let counted = found.iter().filter(|finding| is_counted(finding.severity));
    counted.map(|finding| (finding.rule.id, role(finding.side))).collect()
}

fn role(side: EndpointRole) -> &'static str {
    match side {
        EndpointRole::Client => "client",
        EndpointRole::Server => "server",
    }
}

/// Asserts the errors and warnings of a conversation over these transports: rules and the sides that broke them.
#[track_caller]
fn expect_over(kinds: &[Kind], rules: &[(&'static str, EndpointRole)], conversation: impl Fn(&mut Scene)) {
    for kind in kinds {
        let found = found(*kind, &conversation, |severity| severity > ReportedFindingSeverity::Known);
        let expected = rules.iter().map(|(rule, side)| (*rule, role(*side))).collect();
        assert_eq!(found, expected, "{kind:?}");
    }
}

#[track_caller]
fn expect(rules: &[(&'static str, EndpointRole)], conversation: impl Fn(&mut Scene)) {
    expect_over(BOTH, rules, conversation);
}

/// Asserts whether a conversation has a finding of severity info.
#[track_caller]
fn expect_information(rule: &'static str, is_expected: bool, conversation: impl Fn(&mut Scene)) {
    for kind in BOTH {
        let found = found(*kind, &conversation, |severity| severity == ReportedFindingSeverity::Info);
        assert_eq!(found.iter().any(|(id, _)| *id == rule), is_expected, "{kind:?}: {found:?}");
    }
}

/// 003 section 5: "there is no hope of direct data placement for large data chunks in a wrapped message". Figure 14:
/// the wrapped message may be an opaque chunk as a whole.
#[test]
fn seed_003_5_no_part_of_a_wrapped_message_is_placed() {
    expect(&[("gss/reduced", CLIENT)], |scene| {
        let exchange = private_write(scene.xid());
        with_read_chunk(scene, exchange, true);
    });
    expect(&[], |scene| {
        let exchange = private_write(scene.xid());
        with_read_chunk(scene, exchange, false);
    });
}

/// 003 section 9.4: "If no buffer is available, or if it is too small, then a fatal error on the connection is a likely
/// result."
#[test]
fn seed_003_9_4_a_send_without_a_buffer_that_holds_it_is_named() {
    // Buffers of 1 KB, as those of the paper.
    let buffers = Private { send: 4096, receive: 1024, ..Private::USUAL };
    for (length, rules) in [(900, &[][..]), (1000, &[("rpcrdma/send-too-long", CLIENT)])] {
        expect(rules, |scene| {
            *scene = Scene::with_private_data(scene.fabric.kind, [Some(Private::USUAL), Some(buffers)]);
            let exchange = inline_write(scene.xid(), length);
            scene.exchange(&exchange);
        });
    }
    // Three buffers, four Calls.
    for (calls, rules) in [(3, &[][..]), (4, &[("rpcrdma/credit-exceeded", CLIENT)])] {
        expect(rules, |scene| {
            grant(scene, 3);
            let mut exchanges: Vec<_> = (0..calls).map(|_| Exchange::read3(scene.xid(), 100, 100)).collect();
            exchanges.iter_mut().for_each(|exchange| exchange.reply.credits = 3);
            exchanges.iter().for_each(|exchange| scene.call(exchange));
            for exchange in &exchanges {
                scene.place(exchange);
                scene.reply(exchange);
            }
        });
    }
    // The client has no buffer for a Reply, and RoCE says so.
    for (is_refused, rules) in [(false, &[][..]), (true, &[("transport/receiver-not-ready", CLIENT)])] {
        expect_over(&[Kind::Roce], rules, |scene| answered(scene, is_refused, RNR_NAK));
    }
}

/// 003 section 9.4: the finding about the Send says that the connection ended with it, and no other does.
#[test]
fn seed_003_9_4_the_end_of_a_connection_is_tied_to_its_cause() {
    const END: &str = "; the connection ended without a reply";
    let buffers = Private { send: 4096, receive: 1024, ..Private::USUAL };
    for kind in BOTH {
        for (length, is_answered) in [(1000, false), (1000, true), (900, false)] {
            let mut scene = Scene::with_private_data(*kind, [Some(Private::USUAL), Some(buffers)]);
            let before = Exchange::getattr3(scene.xid());
            scene.exchange(&before);
            let exchange = inline_write(scene.xid(), length);
            scene.call(&exchange);
            if is_answered {
                scene.reply(&exchange);
            }
            scene.disconnect();
            let found = findings(&scene.fabric.frames);
            let tied: Vec<_> = found.iter().filter(|finding| finding.text.ends_with(END)).collect();
            let rules: Vec<_> = tied.iter().map(|finding| finding.rule.id).collect();
            let expected: &[&str] = if length == 1000 && !is_answered { &["rpcrdma/send-too-long"] } else { &[] };
            assert_eq!(rules, expected, "{kind:?}: {length} bytes: {found:?}");
            // 28 bytes of RPC-over-RDMA, 40 of RPC, 20 of the file handle, 16 of arguments, and the length.
            let text = format!("{} bytes sent, inline threshold 1024{END}", 28 + 40 + 20 + 16 + 4 + length);
            assert!(tied.iter().all(|finding| finding.text == text), "{tied:?}");
        }
    }
}

/// 003 section 9.4, as the transports report it: RNR NAK and NAK Invalid Request of RoCE, and Terminate of iWARP with
/// "no buffer available" and "DDP message too long for available buffer" (RFC 5041 section 7.2).
#[test]
fn seed_003_9_4_transport_errors_are_tied_to_the_end_of_the_connection() {
    const NAK_INVALID_REQUEST: u8 = 0x61;
    const END: &str = "; the connection ended with 2 calls without a reply";
    type Refusal = fn(&mut Scene, psn: u32);
    let refusals: [(&str, Kind, Refusal); 4] = [
        ("transport/receiver-not-ready", Kind::Roce, |scene, psn| {
            scene.fabric.acknowledge(Side::Server, psn, RNR_NAK);
        }),
        ("transport/nak-invalid-request", Kind::Roce, |scene, psn| {
            scene.fabric.acknowledge(Side::Server, psn, NAK_INVALID_REQUEST);
        }),
        ("transport/terminate", Kind::Iwarp, |scene, _| {
            scene.fabric.untagged(Side::Server, 7, 2, (0, &[0x12, 0x02, 0, 0]));
        }),
        ("transport/terminate", Kind::Iwarp, |scene, _| {
            scene.fabric.untagged(Side::Server, 7, 2, (0, &[0x12, 0x05, 0, 0]));
        }),
    ];
    for (rule, kind, refuse) in refusals {
        for has_ended in [true, false] {
            let mut scene = Scene::new(kind);
            let exchanges = [(); 2].map(|()| Exchange::getattr3(scene.xid()));
            let psn = scene.fabric.next[Side::Client as usize];
            exchanges.iter().for_each(|exchange| scene.call(exchange));
            refuse(&mut scene, psn);
            if has_ended {
                scene.disconnect();
            }
            let found = findings(&scene.fabric.frames);
            let of_rule: Vec<_> = found.iter().filter(|finding| finding.rule.id == rule).collect();
            assert!(!of_rule.is_empty(), "{rule}: {found:?}");
            assert!(of_rule.iter().all(|finding| finding.text.ends_with(END) == has_ended), "{of_rule:?}");
        }
    }
}

/// 000 section 3: "Results returned by direct placement MUST NOT be returned by other methods, e.g., by Read chunk list
/// or inline", and the sum of the segments "MUST be large enough to accept the result".
#[test]
fn seed_000_3_a_result_with_a_buffer_is_returned_in_it_alone() {
    expect(&[], |scene| {
        let exchange = Exchange::read3(scene.xid(), 1000, 1000);
        scene.exchange(&exchange);
    });
    expect(&[("rpcrdma/item-inline", SERVER)], |scene| {
        let xid = scene.xid();
        let mut exchange = Exchange::read3(xid, 1000, 1000);
        exchange.reply.rpc = Exchange::read3_inline(xid, 1000).reply.rpc;
        exchange.reply.writes[0][0].length = 0;
        exchange.placed.clear();
        scene.exchange(&exchange);
    });
    // 1,000 bytes are read into 600, in one segment or in two.
    for segment in [600, 300] {
        expect(&[("rpcrdma/chunk-too-small", CLIENT)], |scene| {
            let mut exchange = Exchange::read3(scene.xid(), 1000, 600);
            let segments = divide(Memory { length: 600, ..exchange.call.writes[0][0] }, segment);
            exchange.placed = divide_data(&segments);
            exchange.call.writes = vec![segments.clone()];
            exchange.reply.writes = vec![segments];
            scene.exchange(&exchange);
        });
    }
}

/// Returns segments with data for each.
fn divide_data(segments: &[Memory]) -> Vec<(Memory, Vec<u8>)> {
    segments.iter().map(|memory| (*memory, data(memory.length as usize))).collect()
}

/// 000 section 4: "The server MUST ignore a Write list for any other NFS procedure".
#[test]
fn seed_000_4_a_write_list_without_a_result_for_it_is_named() {
    let getattr = |scene: &mut Scene, has_list: bool| {
        let mut exchange = Exchange::getattr3(scene.xid());
        if has_list {
            let offered = memory(exchange.call.xid, 0, 4096);
            exchange.call.writes = vec![vec![offered]];
            exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
        }
        scene.exchange(&exchange);
    };
    expect(&[], |scene| getattr(scene, false));
    expect(&[("rpcrdma/write-list-unneeded", CLIENT)], |scene| getattr(scene, true));
}

/// 002 section 5: "An NFS version 4 server supporting RPC-over-RDMA on such a network MUST use the alternative
/// well-known port number"; servers of versions 2 and 3 may choose any.
#[test]
fn seed_002_5_a_server_of_version_4_has_the_well_known_port() {
    for (port, rules) in [(20049, &[][..]), (2049, &[("rpcrdma/port", SERVER)]), (711, &[("rpcrdma/port", SERVER)])] {
        expect_over(&[Kind::Roce], rules, |scene| {
            connect_to_port(scene, port);
            let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
            scene.exchange(&exchange);
        });
        expect_over(&[Kind::Roce], &[], |scene| connect_to_port(scene, port));
    }
}

/// READ_PLUS of 1,000 bytes in a Write chunk. RFC 7862 section 15.10.
fn read_plus(xid: u32) -> Exchange {
    const READ_PLUS: u32 = 68;
    let arguments = [&STATEID[..], &[0, 0, 1000]].concat();
    // End of file, one content: data at offset 0.
    let operation = Operation::new(READ_PLUS, &arguments, &[1, 1, 0, 0, 0, 1000]);
    let compound = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh(), operation]);
    let mut exchange = compound.exchange(xid);
    let offered = memory(xid, 0, 1000);
    exchange.call.writes = vec![vec![offered]];
    exchange.reply.writes = vec![vec![offered]];
    exchange.placed = vec![(offered, data(1000))];
    exchange
}

/// 002 section 4.1 has NFS4_CONTENT_DATA of READ_PLUS among the results for Write chunks, RFC 8267 section 6.1 has not.
#[test]
fn seed_002_4_1_the_data_of_read_plus_is_no_longer_eligible() {
    for kind in BOTH {
        let conversation = |scene: &mut Scene| {
            scene.session();
            let exchange = read_plus(scene.xid());
            scene.exchange(&exchange);
        };
        let found = found(*kind, conversation, |severity| severity == ReportedFindingSeverity::Error);
        assert!(found.contains(&("nfs/not-eligible", "server")), "{kind:?}: {found:?}");
    }
}

/// Rule that names a Call with too little memory, and its exchange with this XID.
type TooLittle = (&'static str, fn(u32) -> Exchange);

/// 002 sections 3 and 4.1: a client that provides too little, and the two answers that a server may give.
#[test]
fn seed_002_3_too_little_memory_is_named_with_either_answer() {
    let read_list = |xid| {
        let mut exchange = Exchange::write3(xid, 1000);
        exchange.call.reads[0].1.length = 600;
        exchange
    };
    let write_list = |xid| {
        let mut exchange = Exchange::read3(xid, 1000, 0);
        exchange.call.writes[0][0].length = 600;
        exchange.reply.writes[0][0].length = 0;
        exchange.placed.clear();
        exchange
    };
    let reply_chunk = |xid| Exchange::read3_inline(xid, 8192).with_reply_chunk(8000);
    let cases: [TooLittle; 3] = [
        ("rpcrdma/item-length", read_list),
        ("rpcrdma/chunk-too-small", write_list),
        ("rpcrdma/reply-chunk-short", reply_chunk),
    ];
    for (rule, exchange) in cases {
        expect(&[(rule, CLIENT)], |scene| {
            let exchange = exchange(scene.xid()).refused();
            scene.exchange(&exchange);
        });
        expect(&[(rule, CLIENT)], |scene| {
            let mut exchange = exchange(scene.xid()).garbage_args();
            exchange.fetched.clear();
            scene.exchange(&exchange);
        });
    }
}

/// 002 section 4.2: "An NFS client provides a Reply chunk when the maximum possible reply size is larger than the
/// client's responder inline threshold".
#[test]
fn seed_002_4_2_a_long_reply_that_was_not_needed_is_reported() {
    for (length, is_unneeded) in [(3000, true), (5000, false)] {
        expect_information("rpcrdma/reply-chunk-unneeded", is_unneeded, |scene| {
            let exchange = Exchange::read3_inline(scene.xid(), length);
            scene.exchange(&exchange.long_reply(8192));
        });
    }
    // Without a Reply chunk, a Reply above the threshold of 4,096 bytes.
    expect(&[("rpcrdma/send-too-long", SERVER)], |scene| {
        let exchange = Exchange::read3_inline(scene.xid(), 5000);
        scene.exchange(&exchange);
    });
}

/// RFC 8166 section 4.5: errors that a Responder reports, and those that it does not.
#[test]
fn seed_8166_4_5_errors_of_the_header_are_named_with_their_side() {
    const ERR_VERS: u32 = 1;
    const ERR_CHUNK: u32 = 2;
    // A procedure that is not known, answered with ERR_CHUNK and with a Reply.
    let unknown = |scene: &mut Scene, is_refused: bool| {
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.call.proc = 7;
        scene.call(&exchange);
        match is_refused {
            true => scene.error(Side::Server, exchange.call.xid, &[ERR_CHUNK]),
            false => scene.reply(&exchange),
        }
    };
    expect(&[("rpcrdma/proc-unknown", CLIENT)], |scene| unknown(scene, true));
    let both = [("rpcrdma/proc-unknown", CLIENT), ("rpcrdma/error-not-sent", SERVER)];
    expect(&both, |scene| unknown(scene, false));
    // ERR_VERS with a range that has the version of the Call.
    expect(&[("rpcrdma/error-range", SERVER)], |scene| {
        let exchange = Exchange::getattr3(scene.xid());
        scene.call(&exchange);
        scene.error(Side::Server, exchange.call.xid, &[ERR_VERS, 1, 2]);
    });
    // Another XID in the RPC message.
    expect(&[("rpcrdma/xid-mismatch", CLIENT), ("rpcrdma/error-not-sent", SERVER)], |scene| {
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.call.rpc[0] ^= 1;
        scene.exchange(&exchange);
    });
}

/// RFC 8166 section 4.5.2: the example of a Call that a Responder answers with ERR_CHUNK.
#[test]
fn seed_8166_4_5_2_rdma_nomsg_without_a_chunk_is_named() {
    expect(&[("rpcrdma/nomsg-without-chunk", CLIENT)], |scene| {
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.call.rpc.clear();
        exchange.call.proc = RDMA_NOMSG;
        let exchange = exchange.refused();
        scene.exchange(&exchange);
    });
    expect(&[], |scene| {
        let exchange = Exchange::getattr3(scene.xid());
        assert_eq!(exchange.call.proc, RDMA_MSG);
        scene.exchange(&exchange);
    });
}

/// 001 sections 3.2 and 5.1: both sides set the flag, and the handle is of the XID that the Reply carries.
#[test]
fn seed_001_5_1_send_with_invalidate_needs_both_flags_and_a_handle_of_its_call() {
    // Without the flag of the server alone, the severity is that of a known deviation of Linux.
    for (client, server, severity) in [
        (1, 1, None),
        (0, 1, Some(ReportedFindingSeverity::Error)),
        (1, 0, Some(ReportedFindingSeverity::Known)),
        (0, 0, Some(ReportedFindingSeverity::Error)),
    ] {
        for kind in BOTH {
            let sides = [client, server].map(|flags| Some(Private { flags, ..Private::USUAL }));
            let mut scene = Scene::with_private_data(*kind, sides);
            let exchange = invalidating_read(scene.xid());
            scene.exchange(&exchange);
            let found = findings(&scene.frames());
            let found = found.iter().filter(|finding| finding.severity > ReportedFindingSeverity::Info);
            let found: Vec<_> = found.map(|finding| (finding.rule.id, finding.severity)).collect();
            let expected: Vec<_> =
                severity.map(|severity| ("rpcrdma/inval-not-announced", severity)).into_iter().collect();
            assert_eq!(found, expected, "{kind:?}: client {client}, server {server}");
        }
    }
    expect(&[("rpcrdma/inval-foreign", SERVER)], |scene| {
        let [before, mut exchange] = [(); 2].map(|()| Exchange::read3(scene.xid(), 1024, 1024));
        scene.exchange(&before);
        exchange.invalidate = Some(before.call.writes[0][0].handle);
        scene.exchange(&exchange);
    });
    // Bits 14 to 8 are reserved and always zero.
    expect(&[("rpcrdma/private-reserved", CLIENT)], |scene| {
        connect(scene, Some(Private { flags: 0x41, ..Private::USUAL }));
    });
}

/// 004 sections 2.1.4 and 3.2: a stream id in the range of the limit that the server granted, and exactly one execution
/// of each request.
#[test]
fn seed_004_2_1_4_slots_stay_in_range_and_requests_execute_once() {
    expect(&[], |scene| {
        scene.session();
        sequence(scene, 0, 2);
        sequence(scene, 3, 1);
        retry(scene, &Compound::new(2, &[Operation::sequence(3, 1)]));
    });
    // Slots 0 to 3 were granted.
    expect(&[("nfs/slot-range", CLIENT)], |scene| {
        scene.session();
        let mut sequence = Operation::sequence(4, 1);
        sequence.arguments[6] = 4;
        // NFS4ERR_BADSLOT.
        scene.compound(&Compound::new(2, &[sequence.failed(10053)]));
    });
    expect(&[("nfs/slot-gap", CLIENT)], |scene| {
        scene.session();
        // NFS4ERR_SEQ_MISORDERED.
        scene.compound(&Compound::new(2, &[Operation::sequence(0, 3).failed(10063)]));
    });
    expect(&[("nfs/false-retry", CLIENT)], |scene| {
        scene.session();
        scene.compound(&access(Operation::sequence(0, 2), 1));
        let mut other = access(Operation::sequence(0, 2), 1);
        other.operations[2].arguments = vec![1];
        retry(scene, &other);
    });
    // Executed again, with another result.
    expect(&[("nfs/replay-wrong", SERVER)], |scene| {
        scene.session();
        scene.compound(&access(Operation::sequence(0, 2), 1));
        retry(scene, &access(Operation::sequence(0, 2), 3));
    });
}

/// 004 section 2.2.4: "Responses must be sent to the client on the same channel that the request was sent".
#[test]
fn seed_004_2_2_4_a_reply_comes_on_the_connection_of_its_call() {
    let conversation = |scene: &mut Scene, is_elsewhere: bool| {
        let mut other = scene.second_connection();
        let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
        scene.call(&exchange);
        match is_elsewhere {
            true => scene.on(&mut other, |other| other.reply(&exchange)),
            false => scene.reply(&exchange),
        }
        let next = Compound::new(0, &[Operation::putrootfh()]);
        scene.on(&mut other, |other| other.compound(&next));
    };
    expect(&[], |scene| conversation(scene, false));
    expect(&[("rpc/reply-elsewhere", SERVER)], |scene| conversation(scene, true));
}

/// 004 section 2.4: "The client must not send more requests than the number which the server has previously advertised,
/// or in the case of the first request, only one", and "a server may wish to reduce the number of credits".
#[test]
fn seed_004_2_4_requests_stay_within_the_credits_and_their_reduction_is_reported() {
    for (credits, rules) in [(2, &[][..]), (1, &[("rpcrdma/credit-exceeded", CLIENT)])] {
        expect(rules, |scene| {
            grant(scene, credits);
            let reads = two_reads(scene, credits);
            overlap(scene, &reads);
        });
    }
    expect(&[("rpcrdma/first-call", CLIENT)], |scene| {
        *scene = Scene::with_private_data(scene.fabric.kind, [Some(Private::USUAL); 2]);
        let reads = two_reads(scene, 32);
        overlap(scene, &reads);
    });
    // Each Reply before has granted 32.
    for (credits, is_reduced) in [(31, true), (32, false)] {
        expect_information("rpcrdma/grant-shrunk", is_reduced, |scene| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.credits = credits;
            scene.exchange(&exchange);
        });
    }
}

/// 004 section 2.5: no retransmission on a living connection; after its loss, operations that are replayed use the
/// handles of the most recent request.
#[test]
fn seed_004_2_5_requests_are_repeated_on_another_connection_with_new_handles() {
    expect(&[("rpc/resent-here", CLIENT)], |scene| {
        let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
        scene.call(&exchange);
        scene.call(&exchange);
        scene.reply(&exchange);
    });
    expect(&[("nfs/retry-here", CLIENT)], |scene| {
        scene.session();
        let request = access(Operation::sequence(0, 2), 1);
        scene.compound(&request);
        scene.compound(&request);
    });
    expect(&[], |scene| {
        scene.session();
        let request = access(Operation::sequence(0, 2), 1);
        scene.compound(&request);
        retry(scene, &request);
    });
    // The READ is replayed into memory of the first connection, and into that of the second.
    for is_stale in [true, false] {
        let rules: &[_] = match is_stale {
            true => &[("rpcrdma/handle-unknown", SERVER), ("rpcrdma/returned-not-written", SERVER)],
            false => &[],
        };
        expect(rules, |scene| {
            let first = Exchange::read3(scene.xid(), 1000, 1000);
            scene.exchange(&first);
            let mut other = scene.second_connection();
            let mut second = Exchange::read3(other.xid(), 1000, 1000);
            if is_stale {
                second.placed[0].0 = first.placed[0].0;
            }
            // A later message of the client shows that no Call is missing from the capture.
            let last = Exchange::getattr3(other.xid());
            scene.on(&mut other, |other| [&second, &last].iter().for_each(|exchange| other.exchange(exchange)));
        });
    }
}

/// 004 section 2.6: a client is subject to revocation of its delegations "if the back channel is lost". RFC 8881
/// section 18.46.3: CB_PATH_DOWN, CB_PATH_DOWN_SESSION and BACKCHANNEL_FAULT; the others are not about it.
#[test]
fn seed_004_2_6_sequence_flags_of_a_lost_backchannel_are_reported() {
    for flags in (0..13).map(|bit| 1 << bit) {
        let is_lost = [0x1, 0x200, 0x400].contains(&flags);
        let rules: &[_] = if is_lost { &[("nfs/backchannel-down", CLIENT)] } else { &[] };
        expect(rules, |scene| {
            scene.session();
            let mut sequence = Operation::sequence(0, 2);
            set_result(&mut sequence, 8, flags);
            scene.compound(&Compound::new(2, &[sequence]));
        });
    }
}

/// RFC 8267 section 6.7.2: keep-alives, and the credit that is kept for them.
#[test]
fn seed_8267_6_7_2_keep_alives_and_the_use_of_the_last_credit_are_reported() {
    for is_sent in [false, true] {
        expect_information("rpcrdma/keepalive", is_sent, |scene| {
            if is_sent {
                scene.fabric.send(Side::Client, &[]);
            }
        });
    }
    for (credits, is_reported) in [(2, true), (3, false)] {
        expect_information("rpcrdma/credits-all-used", is_reported, |scene| {
            grant(scene, credits);
            for _ in 0..10 {
                let reads = two_reads(scene, credits);
                overlap(scene, &reads);
            }
        });
    }
    // An RDMA Write without payload needs no receive buffer.
    expect_information("rpcrdma/keepalive", true, |scene| {
        scene.fabric.write_from(Side::Client, Memory { handle: 0, offset: 0, length: 0 }, &[]);
    });
}
