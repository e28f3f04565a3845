//! Conversations in which one side alone departs from the RFCs, or none: the other has no finding.

use nfsrdma_conformance::{Finding, ReportedFindingSeverity};
use nfsrdma_flow::transaction::EndpointRole;

use crate::credits::{grant, inline_write};
use crate::exchange::{Compound, Exchange, Operation, STATEID, data, divide, memory, rpc_reply};
use crate::fabric::{Kind, Side};
use crate::gss::{private_write, signed_read};
use crate::scene::{Private, Scene};
use crate::sessions::{access, retry};
use crate::transport::RNR_NAK;
use crate::writer::Memory;
use crate::{ALL, BOTH, broken_rules, describe, findings, frame_time, judge};

/// Returns the rules that a side breaks, at least as warnings.
fn rules_of(found: &[Finding], side: EndpointRole) -> Vec<&'static str> {
    let of_side = found.iter().filter(|finding| finding.side == side);
    let mut rules: Vec<_> = { of_side.filter(|finding| finding.severity >= ReportedFindingSeverity::Warning) }
        .map(|finding| finding.rule.id)
        .collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn expect(scene: Scene, client: &[&str], server: &[&str]) {
    let found = findings(&scene.frames());
    let by_side = [EndpointRole::Client, EndpointRole::Server].map(|side| rules_of(&found, side));
    assert_eq!(by_side, [client, server], "{:#?}", describe(&found));
}

/// RFC 5667 section 5, 000 section 3: a chunk whose segments have no bytes, to have the result inline.
#[test]
fn chunks_without_bytes_are_legal() {
    for kind in BOTH {
        for segments in [1, 3] {
            // A READ, and a READ whose chunk has bytes beside empty segments.
            let mut scene = Scene::new(*kind);
            let mut inline = Exchange::read3_inline(scene.xid(), 100);
            let empty = |xid: u32| (0..segments).map(|at| memory(xid, at, 0)).collect::<Vec<_>>();
            inline.call.writes = vec![empty(inline.call.xid)];
            inline.reply.writes = inline.call.writes.clone();
            scene.exchange(&inline);
            let mut beside = Exchange::read3(scene.xid(), 4096, 3000);
            let mut halves = divide(beside.call.writes[0][0], 2048);
            let gap = memory(beside.call.xid, 9, 0);
            halves.insert(1, gap);
            halves.push(gap);
            beside.call.writes = vec![halves.clone()];
            for (segment, length) in halves.iter_mut().zip([2048, 0, 952, 0]) {
                segment.length = length;
            }
            beside.placed = vec![(halves[0], data(2048)), (halves[2], data(952))];
            beside.reply.writes = vec![halves];
            scene.exchange(&beside);
            // GETATTR, with a Write chunk and a Reply chunk of no bytes.
            let mut getattr = Exchange::getattr3(scene.xid());
            getattr.call.writes = vec![empty(getattr.call.xid)];
            getattr.reply.writes = getattr.call.writes.clone();
            getattr.call.reply = Some(empty(getattr.call.xid));
            getattr.reply.reply = getattr.call.reply.clone();
            scene.exchange(&getattr);
            // WRITE with its data inline, and a Read chunk of no bytes in their place.
            let mut write = Exchange::write3(scene.xid(), 100);
            let (position, _) = write.call.reads[0];
            write.call.reads = empty(write.call.xid).into_iter().map(|memory| (position, memory)).collect();
            write.call.rpc.extend(data(100));
            write.fetched.clear();
            scene.exchange(&write);
            expect(scene, &[], &[]);
        }
    }
}

/// In a COMPOUND, the first of two chunks requests its result inline.
#[test]
fn chunk_without_bytes_beside_another() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let mut exchange = Exchange::reads4(scene.xid(), 100, &[100, 100]);
        exchange.call.writes[0][0].length = 0;
        exchange.reply.writes[0][0].length = 0;
        exchange.placed.remove(0);
        // The data of the first READ follow its length: before the 16 bytes of the second result.
        let at = exchange.reply.rpc.len() - 16;
        let rest = exchange.reply.rpc.split_off(at);
        exchange.reply.rpc.extend(data(100));
        exchange.reply.rpc.extend(rest);
        scene.exchange(&exchange);
        expect(scene, &[], &[]);
    }
}

/// RFC 8166 section 3.4.5: a chunk for which there is no data item cannot be used.
#[test]
fn server_that_ignores_a_stray_read_chunk() {
    for kind in BOTH {
        for position in [2000, 1080] {
            let mut scene = Scene::new(*kind);
            let mut exchange = Exchange::write3(scene.xid(), 1000);
            exchange.call.reads.push((position, memory(exchange.call.xid, 1, 64)));
            scene.exchange(&exchange);
            expect(scene, &["rpcrdma/position-no-item"], &[]);
        }
    }
}

/// RFC 8166 section 8.2.2.3: with integrity or privacy, a client offers no chunks for data items.
#[test]
fn server_that_ignores_chunks_for_signed_items() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let mut exchange = signed_read(scene.xid(), 100);
        let offered = memory(exchange.call.xid, 0, 4096);
        exchange.call.writes = vec![vec![offered]];
        exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
        scene.exchange(&exchange);
        expect(scene, &["gss/reduced"], &[]);

        let mut scene = Scene::new(*kind);
        let mut exchange = private_write(scene.xid());
        exchange.call.writes = vec![vec![offered]];
        exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
        scene.exchange(&exchange);
        expect(scene, &["gss/reduced"], &[]);

        // Long messages are right.
        let mut scene = Scene::new(*kind);
        let exchange = signed_read(scene.xid(), 100).long_call().long_reply(4096);
        scene.exchange(&exchange);
        expect(scene, &[], &[]);
    }
}

/// RFC 8166 section 4.4.1: the client offers the same memory twice. The server writes it twice.
#[test]
fn server_that_writes_overlapping_memory() {
    for kind in BOTH {
        for is_reversed in [false, true] {
            for shift in [0, 2048] {
                let mut scene = Scene::new(*kind);
                let [first, mut second] = [(); 2].map(|()| Exchange::read3(scene.xid(), 4096, 4096));
                let mut shared = first.call.writes[0][0];
                shared.offset += shift;
                second.call.writes = vec![vec![shared]];
                second.reply.writes = vec![vec![shared]];
                second.placed[0].0 = shared;
                scene.call(&first);
                scene.call(&second);
                let mut order = [&first, &second];
                if is_reversed {
                    order.reverse();
                }
                for exchange in order {
                    scene.place(exchange);
                    scene.reply(exchange);
                }
                expect(scene, &["rpcrdma/ranges-overlap"], &[]);
            }
        }
        // Two segments of one chunk.
        let mut scene = Scene::new(*kind);
        let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
        let first = Memory { length: 2048, ..exchange.call.writes[0][0] };
        let second = Memory { offset: first.offset + 1024, ..first };
        exchange.call.writes = vec![vec![first, second]];
        exchange.reply.writes = vec![vec![first, second]];
        exchange.placed = vec![(first, data(2048)), (second, data(2048))];
        scene.exchange(&exchange);
        let found = findings(&scene.frames());
        assert_eq!(rules_of(&found, EndpointRole::Server), [""; 0], "{:#?}", describe(&found));
    }
}

/// RFC 8166 section 3.3.1: the Calls alone show it, whatever ends the connection.
#[test]
fn calls_beyond_the_grant_until_the_connection_ends() {
    for kind in BOTH {
        for (calls, credits) in [(4, 1), (3, 2), (2, 2), (1, 1)] {
            let mut scene = Scene::new(*kind);
            grant(&mut scene, credits);
            let psn = scene.fabric.next[Side::Client as usize];
            let exchanges: Vec<_> = (0..calls).map(|_| Exchange::getattr3(scene.xid())).collect();
            exchanges.iter().for_each(|exchange| scene.call(exchange));
            if *kind == Kind::Roce && calls > 1 {
                let last = scene.fabric.frames.len() - 1;
                for _ in 0..3 {
                    scene.fabric.acknowledge(Side::Server, psn + calls - 1, RNR_NAK);
                    scene.fabric.repeat(last);
                }
            }
            scene.disconnect();
            let found = findings(&scene.fabric.frames);
            let exceeded: Vec<_> =
                found.iter().filter(|finding| finding.rule.id == "rpcrdma/credit-exceeded").collect();
            assert_eq!(exceeded.len() as u32, calls.saturating_sub(credits), "{kind:?}: {:#?}", describe(&found));
            for (at, finding) in exceeded.iter().enumerate() {
                let in_flight = credits + 1 + at as u32;
                let end = format!("the connection ended with {calls} calls without a reply");
                assert_eq!(finding.text, format!("{in_flight} calls in flight, {credits} granted; {end}"));
                assert_eq!(finding.severity, ReportedFindingSeverity::Error);
                assert_eq!(finding.side, EndpointRole::Client);
            }
        }
    }
}

/// What follows calls beyond the grant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Nothing,
    NotReady,
    FatalNak,
    Replies,
    RepliesAfterNotReady,
}

/// RFC 8166 section 3.3.1: only a reply raises a grant, so the calls alone show it, whatever follows.
#[test]
fn calls_beyond_the_grant_with_other_endings() {
    /// Syndrome of a NAK: Invalid Request. InfiniBand Architecture Specification volume 1, section 9.7.5.2.8.
    const INVALID_REQUEST: u8 = 0x61;
    use Ending::{FatalNak, NotReady, Nothing, Replies, RepliesAfterNotReady};
    for kind in BOTH {
        for ending in [Nothing, NotReady, FatalNak, Replies, RepliesAfterNotReady] {
            if *kind == Kind::Iwarp && !matches!(ending, Nothing | Replies) {
                continue;
            }
            for (calls, credits) in [(4, 1), (3, 2), (6, 4), (4, 4), (1, 1)] {
                let mut scene = Scene::new(*kind);
                grant(&mut scene, credits);
                let psn = scene.fabric.next[Side::Client as usize];
                let exchanges: Vec<_> = (0..calls).map(|_| Exchange::getattr3(scene.xid())).collect();
                exchanges.iter().for_each(|exchange| scene.call(exchange));
                let last = scene.fabric.frames.len() - 1;
                match ending {
                    NotReady | RepliesAfterNotReady => {
                        scene.fabric.acknowledge(Side::Server, psn + calls - 1, RNR_NAK);
                    }
                    FatalNak => scene.fabric.acknowledge(Side::Server, psn + calls - 1, INVALID_REQUEST),
                    // A reply at once may precede the last call.
                    Replies if *kind == Kind::Iwarp => scene.fabric.tcp(Side::Server, 0x10, &[]),
                    Replies => scene.fabric.acknowledge(Side::Server, psn + calls - 1, 0x1f),
                    Nothing => {}
                }
                if ending == RepliesAfterNotReady {
                    scene.fabric.repeat(last);
                }
                if matches!(ending, Replies | RepliesAfterNotReady) {
                    exchanges.iter().for_each(|exchange| scene.reply(exchange));
                }
                let found = findings(&scene.fabric.frames);
                let exceeded: Vec<_> =
                    found.iter().filter(|finding| finding.rule.id == "rpcrdma/credit-exceeded").collect();
                let context = || format!("{kind:?} {ending:?} {calls} of {credits}: {:#?}", describe(&found));
                assert_eq!(exceeded.len() as u32, calls.saturating_sub(credits), "{}", context());
                for (at, finding) in exceeded.iter().enumerate() {
                    let in_flight = credits + 1 + at as u32;
                    assert_eq!(
                        finding.text,
                        format!("{in_flight} calls in flight, {credits} granted"),
                        "{}",
                        context()
                    );
                    assert_eq!(finding.side, EndpointRole::Client, "{}", context());
                }
            }
        }
    }
}

/// RFC 5044 section 4.1: without CRCs, what a wrong length swallows or shifts proves nothing, nor do the answers to it.
#[test]
fn wrong_ulpdu_length_blames_its_sender() {
    /// Offsets of the source port and of the payload of a TCP segment.
    const SOURCE_PORT: usize = 34;
    const PAYLOAD: usize = 54;
    for difference in [-12, -4, -3, -2, -1, 1, 2, 3, 4, 60, 200, 1000] {
        let mut count = 1;
        let mut at = 0;
        while at < count {
            let mut scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
            let opening = Exchange::getattr3(scene.xid());
            scene.exchange(&opening);
            let first = scene.fabric.frames.len();
            for _ in 0..2 {
                let (write, read) = (Exchange::write3(scene.xid(), 1000), Exchange::read3(scene.xid(), 3000, 3000));
                scene.exchange(&write);
                scene.exchange(&read);
            }
            count = scene.fabric.frames.len() - first;
            let frame = &mut scene.fabric.frames[first + at];
            let (side, is_server) = match frame[SOURCE_PORT..SOURCE_PORT + 2] == 20049_u16.to_be_bytes() {
                true => (EndpointRole::Server, true),
                false => (EndpointRole::Client, false),
            };
            let length = u16::from_be_bytes([frame[PAYLOAD], frame[PAYLOAD + 1]]);
            let wrong = length.wrapping_add_signed(difference);
            frame[PAYLOAD..PAYLOAD + 2].copy_from_slice(&wrong.to_be_bytes());
            let found = findings(&scene.frames());
            let context = || format!("{length} -> {wrong}, {side}, frame {}: {:#?}", first + at + 1, describe(&found));
            let (own, other) = match is_server {
                true => (rules_of(&found, EndpointRole::Server), rules_of(&found, EndpointRole::Client)),
                false => (rules_of(&found, EndpointRole::Client), rules_of(&found, EndpointRole::Server)),
            };
            assert_eq!((own, other), (vec!["rdmap/framing"], Vec::new()), "{}", context());
            let framing = found.iter().find(|finding| finding.rule.id == "rdmap/framing").unwrap();
            assert_eq!(framing.frames[0].0, (first + at + 1) as u64, "{}", context());
            at += 1;
        }
    }
}

/// RFC 5044 section 4.1: the same where the FPDU has padding, and where other segments, the RDMA Read Request or the
/// Reply show how much data there is. A message with the roundup of its data may have the right length.
#[test]
fn padded_fpdu_of_wrong_length_is_framing() {
    const SOURCE_PORT: usize = 34;
    const PAYLOAD: usize = 54;
    for (data_bytes, difference) in [1001, 1002, 3003, 4098]
        .into_iter()
        .flat_map(|bytes| [-3, -2, -1, 1, 2, 3].map(|difference| (bytes, difference)))
    {
        let mut count = 1;
        let mut at = 0;
        while at < count {
            let mut scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
            let opening = Exchange::getattr3(scene.xid());
            scene.exchange(&opening);
            let first = scene.fabric.frames.len();
            let write = Exchange::write3(scene.xid(), data_bytes);
            // A Reply with the data, and Write chunks that end behind them.
            let (inline, read) =
                (Exchange::read3_inline(scene.xid(), 3000), Exchange::read3(scene.xid(), 8192, data_bytes));
            for exchange in [write, inline, read] {
                scene.exchange(&exchange);
            }
            count = scene.fabric.frames.len() - first;
            let frame = &mut scene.fabric.frames[first + at];
            at += 1;
            let is_server = frame[SOURCE_PORT..SOURCE_PORT + 2] == 20049_u16.to_be_bytes();
            let length = u16::from_be_bytes([frame[PAYLOAD], frame[PAYLOAD + 1]]);
            let wrong = length.wrapping_add_signed(difference);
            // Tagged: headers of 14 bytes.
            let has_roundup = frame[PAYLOAD + 2] & 0x80 != 0 && (wrong + 2).is_multiple_of(4) && difference > 0;
            frame[PAYLOAD..PAYLOAD + 2].copy_from_slice(&wrong.to_be_bytes());
            let found = findings(&scene.frames());
            let context = || format!("{length} -> {wrong}, frame {}: {:#?}", first + at, describe(&found));
            let [own, other] = match is_server {
                true => [EndpointRole::Server, EndpointRole::Client],
                false => [EndpointRole::Client, EndpointRole::Server],
            }
            .map(|side| rules_of(&found, side));
            assert_eq!(other, [""; 0], "{}", context());
            if !has_roundup {
                assert_eq!(own, ["rdmap/framing"], "{}", context());
            }
        }
    }
}

/// RFC 5044 section 4.1: also without the start-up frames, after FPDUs in a row. Where an FPDU ends shows the length of
/// a Send, although its message would have whole words with another one.
#[test]
fn wrong_length_behind_late_start_is_framing() {
    const PAYLOAD: usize = 54;
    for difference in [-12, -4, -3, -2, -1, 1, 2, 3, 4, 60] {
        let mut count = 1;
        let mut at = 0;
        while at < count {
            let mut scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
            let start = scene.fabric.frames.len();
            for _ in 0..16 {
                let exchange = Exchange::getattr3(scene.xid());
                scene.exchange(&exchange);
            }
            let first = scene.fabric.frames.len();
            for _ in 0..2 {
                let (write, read) = (Exchange::write3(scene.xid(), 1000), Exchange::read3(scene.xid(), 3000, 3000));
                scene.exchange(&write);
                scene.exchange(&read);
            }
            count = scene.fabric.frames.len() - first - 1;
            for frame in &mut scene.fabric.frames[start..] {
                // Without CRCs.
                if frame.len() > PAYLOAD
                    && let Some(crc) = frame.last_chunk_mut::<4>()
                {
                    *crc = [0; 4];
                }
            }
            let frame = &mut scene.fabric.frames[first + at];
            let length = u16::from_be_bytes([frame[PAYLOAD], frame[PAYLOAD + 1]]);
            let wrong = length.wrapping_add_signed(difference);
            let is_send = frame[PAYLOAD + 2] & 0x80 == 0;
            at += 1;
            // Only all RDMA Reads since the start-up frames tell a short response from padding that is not zero.
            if !is_send && (-3..0).contains(&difference) {
                continue;
            }
            frame[PAYLOAD..PAYLOAD + 2].copy_from_slice(&wrong.to_be_bytes());
            let found = findings(&scene.frames()[start..]);
            let context = || format!("{length} -> {wrong}, frame {}: {:#?}", first + at, describe(&found));
            let framing: Vec<_> = found.iter().filter(|finding| finding.rule.id == "rdmap/framing").collect();
            assert_eq!(framing.len(), 1, "{}", context());
            assert_eq!(framing[0].frames[0].0, (first - start + at) as u64, "{}", context());
            if is_send && difference > 0 {
                let text = format!("ULPDU_Length {wrong}, the ULPDU has {length} bytes");
                assert_eq!(framing[0].text, text, "{}", context());
            }
        }
    }
}

/// RFC 5044 section 4.1: the reply to another call that uses the same memory does not tell how much was written for a
/// call without a reply.
#[test]
fn ended_write_of_unanswered_call_is_not_judged() {
    for (unanswered, answered) in [(997, 998), (998, 997), (1001, 1003), (1003, 1001)] {
        let mut scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
        scene.exchange(&Exchange::getattr3(0x100));
        let first = Exchange::read3(scene.xid(), 2000, unanswered);
        let mut second = Exchange::read3(scene.xid(), 2000, answered);
        let shared = first.call.writes[0][0];
        second.call.writes = vec![vec![shared]];
        second.reply.writes = vec![vec![Memory { length: answered, ..shared }]];
        second.placed[0].0 = shared;
        scene.call(&first);
        scene.place(&first);
        scene.exchange(&second);
        let found = findings(&scene.frames());
        assert!(!rules_of(&found, EndpointRole::Server).contains(&"rdmap/framing"), "{:#?}", describe(&found));
    }
}

/// RFC 5041 section 5.2: a tagged offset that skips bytes is not a wrong length if the padding would not be zero.
#[test]
fn skipped_bytes_are_no_wrong_length() {
    let mut scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
    scene.exchange(&Exchange::getattr3(0x100));
    let exchange = Exchange::read3(scene.xid(), 8192, 4096);
    scene.call(&exchange);
    let first = scene.fabric.frames.len();
    scene.place(&exchange);
    assert!(scene.fabric.frames.len() > first + 2, "several segments");
    // The tagged offset of the second segment.
    scene.fabric.alter(first + 1, |fpdu| {
        let offset = u64::from_be_bytes(fpdu[8..16].try_into().unwrap()) - 1;
        fpdu[8..16].copy_from_slice(&offset.to_be_bytes());
    });
    scene.reply(&exchange);
    let found = findings(&scene.frames());
    assert!(rules_of(&found, EndpointRole::Server).contains(&"rdmap/tagged-offset"), "{:#?}", describe(&found));
    assert!(!rules_of(&found, EndpointRole::Server).contains(&"rdmap/framing"), "{:#?}", describe(&found));
}

/// RFC 8166 section 4.3.2: data that a Reply has inline, but not to their end, are not missing in the Write chunk.
#[test]
fn truncated_inline_data_are_wrong_results() {
    for kind in BOTH {
        for has_chunk in [false, true] {
            let mut scene = Scene::new(*kind);
            let mut inline = Exchange::read3_inline(scene.xid(), 100);
            if has_chunk {
                inline.call.writes = vec![vec![memory(inline.call.xid, 0, 0)]];
                inline.reply.writes = inline.call.writes.clone();
            }
            let end = inline.reply.rpc.len() - 20;
            inline.reply.rpc.truncate(end);
            scene.exchange(&inline);
            expect(scene, &[], &["rpc/wrong-result"]);
        }
    }
}

/// A Reply that the capture lacks may have permitted the Call.
#[test]
fn calls_with_a_lost_reply_are_not_judged() {
    let mut scene = Scene::new(Kind::Roce);
    grant(&mut scene, 1);
    let lost = Exchange::getattr3(scene.xid());
    scene.exchange(&lost);
    scene.fabric.frames.pop();
    let next = Exchange::getattr3(scene.xid());
    scene.call(&next);
    scene.reply(&next);
    scene.disconnect();
    let found = findings(&scene.fabric.frames);
    assert!(broken_rules(&found, "").iter().all(|rule| rule.starts_with("transport/")), "{:#?}", describe(&found));
}

/// Returns a COMPOUND whose arguments differ from those of another by a word.
fn other(mut compound: Compound) -> Compound {
    compound.operations[2].arguments = vec![1];
    compound
}

/// RFC 8881 section 2.10.6.1.3.1: the session is older than the capture.
#[test]
fn false_retry_in_an_older_session() {
    for kind in BOTH {
        for is_elsewhere in [false, true] {
            for is_same in [false, true] {
                let mut scene = Scene::new(*kind);
                let request = access(Operation::sequence(2, 2470), 1);
                scene.compound(&request);
                let next = if is_same { request.clone() } else { other(request) };
                if is_elsewhere {
                    retry(&mut scene, &next);
                } else {
                    scene.compound(&next);
                }
                let expected: &[&str] = if is_same { &[] } else { &["nfs/false-retry"] };
                expect(scene, expected, &[]);
            }
        }
    }
}

/// The first Call has no Reply: its connection ended. The retry is another request.
#[test]
fn false_retry_of_an_unanswered_call() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let request = access(Operation::sequence(2, 2470), 1);
        let lost = request.exchange(scene.xid());
        scene.call(&lost);
        scene.disconnect();
        let mut next = Scene::with_number(*kind, [Some(Private::USUAL); 2], 1);
        let set_up = std::mem::take(&mut next.fabric.frames);
        next.fabric.frames = [std::mem::take(&mut scene.fabric.frames), set_up].concat();
        next.compound(&other(request));
        expect(next, &["nfs/false-retry"], &[]);
    }
}

/// RFC 8881 section 2.10.6.1.3.1: the operations differ, whatever is in the Read chunk of one of the two calls.
#[test]
fn false_retry_with_read_chunk() {
    for kind in BOTH {
        for is_chunk_first in [false, true] {
            let mut scene = Scene::new(*kind);
            scene.session();
            let inline = access(Operation::sequence(0, 2), 1).exchange(scene.xid());
            let mut write = write_compound(scene.xid());
            let position = write.call.rpc.len() as u32;
            write.call.reads = vec![(position, memory(write.call.xid, 0, 1000))];
            write.fetched = vec![(write.call.reads[0].1, data(1000))];
            let both = if is_chunk_first { [write, inline] } else { [inline, write] };
            both.iter().for_each(|exchange| scene.exchange(exchange));
            expect(scene, &["nfs/false-retry"], &[]);
        }
    }
}

/// A COMPOUND with a WRITE of 1000 bytes, up to its data, in the place of another one.
fn write_compound(xid: u32) -> Exchange {
    let write = Operation::new(38, &[&STATEID[..], &[0, 0, 2, 1000]].concat(), &[1000, 2, 1, 2]);
    Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh(), write]).exchange(xid)
}

/// A server that takes the Call for a retry answers with the results of the other one.
#[test]
fn false_retry_with_cached_results() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        scene.session();
        let request = access(Operation::sequence(0, 2), 1);
        scene.compound(&request);
        let mut again = request.clone();
        again.operations[2] = Operation::new(9, &[1, 0], &[]);
        let mut exchange = again.exchange(scene.xid());
        exchange.reply = request.exchange(exchange.call.xid).reply;
        scene.exchange(&exchange);
        expect(scene, &["nfs/false-retry"], &[]);
    }
}

/// Arguments that a snap length cut off are not different ones.
#[test]
fn cut_retries_are_not_false() {
    let mut scene = Scene::new(Kind::Roce);
    let request = access(Operation::sequence(2, 2470), 1);
    scene.compound(&request);
    retry(&mut scene, &request);
    let frames = scene.frames();
    let longest = frames.iter().map(Vec::len).max().unwrap();
    for snap in (60..longest).step_by(4) {
        let cut: Vec<Vec<u8>> = frames.iter().map(|frame| frame[..frame.len().min(snap)].to_vec()).collect();
        let (found, _) = judge(&cut, frame_time);
        assert!(!broken_rules(&found, "").contains("nfs/false-retry"), "{snap}: {:#?}", describe(&found));
    }
}

/// InfiniBand Architecture Specification volume 1, section 12.7.31. What needs all packets is not judged.
#[test]
fn starting_psn_that_does_not_fit() {
    for (difference, is_named) in [(0, false), (3, false), (500, true), (-400, true)] {
        let mut scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
        for next in &mut scene.fabric.next {
            *next = next.wrapping_add_signed(difference);
        }
        let reads = [(); 2].map(|()| Exchange::read3(scene.xid(), 1024, 1024));
        reads.iter().for_each(|read| scene.call(read));
        for read in &reads {
            scene.place(read);
            scene.reply(read);
        }
        let (found, tallies) = judge(&scene.fabric.frames, frame_time);
        let named = found.iter().filter(|finding| finding.rule.id == "transport/starting-psn");
        assert_eq!(named.count(), if is_named { 2 } else { 0 }, "{difference}: {:#?}", describe(&found));
        let first_call = tallies["rpcrdma/first-call"];
        let expected = if difference == 0 { (1, 0) } else { (0, 2) };
        assert_eq!((first_call.findings, first_call.not_judged), expected, "{difference}: {first_call:?}");
    }
}

/// A message or an access that no Call permits, on a connection with such a set-up.
#[test]
fn starting_psn_leaves_messages_unjudged() {
    type Fault = fn(&mut Scene);
    let faults: [(&str, Fault); 2] = [
        ("rpcrdma/reply-no-call", |scene| scene.reply(&Exchange::getattr3(0x7777))),
        ("rpcrdma/handle-unknown", |scene| scene.fabric.write(memory(9, 0, 100), &data(100))),
    ];
    for (rule, send) in faults {
        let [fitting, other] = [0, 500].map(|difference| {
            let mut scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
            for next in &mut scene.fabric.next {
                *next += difference;
            }
            let first = Exchange::getattr3(scene.xid());
            scene.exchange(&first);
            send(&mut scene);
            judge(&scene.frames(), frame_time).1[rule]
        });
        assert_eq!((fitting.findings, other.findings), (1, 0), "{rule}");
        assert_eq!(other.not_judged, fitting.not_judged + 1, "{rule}: {other:?}");
    }
}

/// RFC 5531 section 9, RFC 1813 section 2.6, RFC 8881 sections 15.1.1.1 and 15.1.1.4: who sent an undefined value, and
/// who answered it with another status than that of arguments that cannot be decoded.
#[test]
fn undefined_argument_blames_each_side_once() {
    /// Statuses of NFSv3 and of NFSv4.
    const INVAL: u32 = 22;
    const BADHANDLE: u32 = 10_001;
    const BADXDR: u32 = 10_036;
    let check = |scene: Scene, is_status_right: bool| {
        let found = findings(&scene.fabric.frames);
        assert_eq!(found.iter().filter(|finding| finding.rule.id == "rpc/undefined-argument").count(), 1);
        let status: &[&str] = if is_status_right { &[] } else { &["rpcrdma/garbage-args"] };
        expect(scene, &["rpc/undefined-argument"], status);
    };
    for kind in BOTH {
        for (status, is_right) in [(None, true), (Some(0), false), (Some(INVAL), true), (Some(BADHANDLE), false)] {
            let mut scene = Scene::new(*kind);
            let mut exchange = Exchange::write3(scene.xid(), 1000);
            // The word before the length of the data.
            let at = exchange.call.rpc.len() - 5;
            exchange.call.rpc[at] = 9;
            match status {
                None => exchange = exchange.garbage_args(),
                Some(0) => {}
                Some(status) => {
                    let mut reply = rpc_reply(exchange.call.xid);
                    // No attributes of the file.
                    reply.words(&[status, 0, 0]);
                    exchange.reply.rpc = reply.bytes;
                }
            }
            scene.exchange(&exchange);
            check(scene, is_right);
        }
        for (first, second, is_right) in
            [(0, BADXDR, true), (0, INVAL, false), (0, BADHANDLE, false), (BADHANDLE, 0, true)]
        {
            let mut scene = Scene::new(*kind);
            // Type of lock, reclaim, offset, length, no new owner: stateid, seqid.
            let lock = Operation::new(12, &[9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], &[]);
            let operations = match first {
                0 => [Operation::putrootfh(), lock.failed(second)],
                _ => [Operation::putrootfh().failed(first), lock.not_reached()],
            };
            scene.compound(&Compound::new(0, &operations));
            check(scene, is_right);
        }
    }
}

/// RFC 8881 sections 18.4.1, 15.1.10.1 and 15.1.1.5, RFC 7862 section 11.1.1.1: statuses for values and operations that
/// a server does not know.
#[test]
fn statuses_of_unknown_values_are_right() {
    const NOTSUPP: u32 = 10_004;
    const BADTYPE: u32 = 10_007;
    const BADIOMODE: u32 = 10_049;
    const UNION_NOTSUPP: u32 = 10_090;
    const BADHANDLE: u32 = 10_001;
    // CREATE: type, name, attributes. LAYOUTGET: signal, type, iomode, offset, length, least, stateid, count. SEEK:
    // stateid, offset, what.
    let create = [99, 1, 0x6100_0000, 0, 0];
    let layoutget = [0, 1, 9, 0, 0, 0, 4096, 0, 4096, 0, 0, 0, 0, 4096];
    let seek = [0, 0, 0, 0, 0, 0, 9];
    let operations: [(u32, &[u32], u32); 3] =
        [(6, &create, BADTYPE), (50, &layoutget, BADIOMODE), (69, &seek, UNION_NOTSUPP)];
    for (number, arguments, own) in operations {
        for (status, is_right) in [(own, true), (NOTSUPP, true), (BADHANDLE, false)] {
            let mut scene = Scene::new(Kind::Roce);
            scene.session();
            let operation = Operation::new(number, arguments, &[]).failed(status);
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh(), operation]));
            let server: &[&str] = if is_right { &[] } else { &["rpcrdma/garbage-args"] };
            expect(scene, &["rpc/undefined-argument"], server);
        }
    }
}

/// RFC 5531 section 9: a client has two calls of one XID in flight. Whichever reply comes first, the server is right.
#[test]
fn shared_xid_blames_client_alone() {
    for kind in ALL {
        for is_swapped in [false, true] {
            let mut scene = Scene::new(*kind);
            let first = Exchange::getattr3(scene.xid());
            let second = inline_write(first.call.xid, 8);
            let replies = if is_swapped { [&second, &first] } else { [&first, &second] };
            scene.call(&first);
            scene.call(&second);
            replies.iter().for_each(|exchange| scene.reply(exchange));
            expect(scene, &["rpcrdma/xid-reused"], &[]);
        }
    }
}

/// InfiniBand Architecture Specification volume 1, section 9.7.5.2.8: with a Call that the capture lacks, the client may
/// have exceeded its credits, so an RNR NAK shows nothing about the server.
#[test]
fn missing_call_blames_no_receiver() {
    for is_captured in [true, false] {
        let mut scene = Scene::new(Kind::Roce);
        grant(&mut scene, 1);
        let psn = scene.fabric.next[Side::Client as usize];
        for at in 0..4 {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            if at == 1 && !is_captured {
                scene.fabric.frames.pop();
            }
        }
        scene.fabric.acknowledge(Side::Server, psn + 3, RNR_NAK);
        scene.disconnect();
        let found = findings(&scene.fabric.frames);
        let expected: &[&str] = if is_captured { &["rpcrdma/credit-exceeded"] } else { &[] };
        assert_eq!(rules_of(&found, EndpointRole::Client), expected, "{:#?}", describe(&found));
        assert_eq!(rules_of(&found, EndpointRole::Server), [""; 0], "{:#?}", describe(&found));
    }
}
