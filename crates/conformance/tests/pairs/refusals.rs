//! Messages that their receivers refused, and Replies with results that are not those of their Calls: the Transactions
//! are not complete, in agreement with the findings.

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType};
use nfsrdma_flow::{Flow, FlowLimits};

use crate::callbacks::{cb_null, open_backchannel, reverse};
use crate::exchange::{Compound, Exchange, Operation, rpc_reply};
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::transport::RNR_NAK;
use crate::{BOTH, broken_rules, describe, findings, frame_time};

const NAK_SEQUENCE: u8 = 0x60;
const NAK_INVALID_REQUEST: u8 = 0x61;
const NAK_REMOTE_ACCESS: u8 = 0x62;
const NAK_REMOTE_OPERATIONAL: u8 = 0x63;

/// Returns what keeps each incomplete Transaction from being complete, by its XID.
pub(crate) fn missing(frames: &[Vec<u8>]) -> Vec<(u32, String)> {
    let mut flow = Flow::new(FlowLimits::default());
    for (at, bytes) in frames.iter().enumerate() {
        let number = at as u64 + 1;
        let length = bytes.len() as u32;
        let (number, time) = (FrameNumber(number), frame_time(number));
        flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes, length });
    }
    flow.finish();
    let mut missing = Vec::new();
    while let Some((_, transaction)) = flow.next_with_key() {
        let parts = transaction.with_messages(|messages| messages.summary().missing(&transaction));
        missing.extend(parts.iter().map(|part| (transaction.xid.0, part.to_string())));
    }
    missing
}

fn codes(xid: u32, codes: &[&str]) -> Vec<(u32, String)> {
    codes.iter().map(|code| (xid, (*code).to_owned())).collect()
}

/// InfiniBand Architecture Specification volume 1, section 9.7.5.2.8: a NAK other than a sequence error ends the
/// connection, and what it refuses is not sent again.
#[test]
fn reply_refused_by_fatal_nak() {
    for syndrome in [NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATIONAL] {
        for has_ended in [false, true] {
            let mut scene = Scene::new(Kind::Roce);
            let exchange = Exchange::read3_inline(scene.xid(), 2000);
            scene.exchange(&exchange);
            // The last of three packets.
            let psn = scene.fabric.next[Side::Server as usize] - 1;
            scene.fabric.acknowledge(Side::Client, psn, syndrome);
            if has_ended {
                scene.disconnect();
            }
            assert_eq!(missing(&scene.fabric.frames), codes(exchange.call.xid, &["reply:refused"]), "{syndrome:#x}");
        }
    }
}

#[test]
fn reply_sent_again_after_sequence_error_is_accepted() {
    let mut scene = Scene::new(Kind::Roce);
    let exchange = Exchange::getattr3(scene.xid());
    scene.exchange(&exchange);
    let psn = scene.fabric.next[Side::Server as usize] - 1;
    scene.fabric.acknowledge(Side::Client, psn, NAK_SEQUENCE);
    scene.fabric.repeat(scene.fabric.frames.len() - 2);
    scene.fabric.acknowledge(Side::Client, psn, 0);
    scene.disconnect();
    assert_eq!(missing(&scene.fabric.frames), []);
}

/// The RDMA Write of the data is refused: the Reply behind it is not received either, before or after the NAK.
#[test]
fn reply_behind_refused_data_is_refused() {
    for is_late in [false, true] {
        let mut scene = Scene::new(Kind::Roce);
        let exchange = Exchange::read3(scene.xid(), 1000, 1000);
        scene.call(&exchange);
        let psn = scene.fabric.next[Side::Server as usize];
        scene.place(&exchange);
        if is_late {
            scene.fabric.acknowledge(Side::Client, psn, NAK_REMOTE_ACCESS);
        }
        scene.reply(&exchange);
        if !is_late {
            scene.fabric.acknowledge(Side::Client, psn, NAK_REMOTE_ACCESS);
        }
        assert_eq!(missing(&scene.fabric.frames), codes(exchange.call.xid, &["reply:refused"]), "{is_late}");
    }
}

/// RNR NAKs until the last retry; a receiver that is ready in time accepts the Reply.
#[test]
fn receiver_that_is_never_ready_refuses() {
    for (is_acknowledged, has_ended) in [(false, true), (false, false), (true, true)] {
        let mut scene = Scene::new(Kind::Roce);
        let exchange = Exchange::getattr3(scene.xid());
        scene.exchange(&exchange);
        let (reply, psn) = (scene.fabric.frames.len() - 1, scene.fabric.next[Side::Server as usize] - 1);
        for _ in 0..3 {
            scene.fabric.acknowledge(Side::Client, psn, RNR_NAK);
            scene.fabric.repeat(reply);
        }
        if is_acknowledged {
            scene.fabric.acknowledge(Side::Client, psn, 0);
        }
        if has_ended {
            scene.disconnect();
        }
        let expected: &[&str] = if has_ended && !is_acknowledged { &["reply:refused"] } else { &[] };
        assert_eq!(missing(&scene.fabric.frames), codes(exchange.call.xid, expected));
    }
}

#[test]
fn call_refused_by_nak() {
    let mut scene = Scene::new(Kind::Roce);
    let exchange = Exchange::getattr3(scene.xid());
    let psn = scene.fabric.next[Side::Client as usize];
    scene.call(&exchange);
    scene.fabric.acknowledge(Side::Server, psn, NAK_INVALID_REQUEST);
    scene.disconnect();
    assert_eq!(missing(&scene.fabric.frames), codes(exchange.call.xid, &["reply", "call:refused"]));
}

/// Callbacks: the server refuses the Reply of the client.
#[test]
fn callback_reply_refused_by_server() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        open_backchannel(&mut scene);
        let callback = cb_null(scene.xid());
        reverse(&mut scene, &callback);
        match kind {
            Kind::Roce => {
                let psn = scene.fabric.next[Side::Client as usize] - 1;
                scene.fabric.acknowledge(Side::Server, psn, NAK_INVALID_REQUEST);
            }
            Kind::Iwarp => terminate(&mut scene, Side::Server, &[]),
            Kind::Tcp => unreachable!(),
        }
        assert_eq!(missing(&scene.fabric.frames), codes(callback.call.xid, &["reply:refused"]), "{kind:?}");
    }
}

/// Sends a Terminate: DDP, Untagged Buffer Model, no buffer available; or, with the DDP header of a tagged segment,
/// Tagged Buffer Model, invalid STag. RFC 5040 section 4.8, RFC 5041 section 7.2.
fn terminate(scene: &mut Scene, from: Side, header: &[u8]) {
    let control: &[u8] = match header.first() {
        None => &[0x12, 0x02, 0, 0],
        Some(control) if control & 0x80 != 0 => &[0x11, 0x00, 0xc0, 0],
        Some(_) => &[0x12, 0x02, 0xc0, 0],
    };
    let length = [0, 0];
    let end: &[u8] = if header.is_empty() { &[] } else { &length };
    scene.fabric.untagged(from, 7, 2, (0, &[control, end, header].concat()));
}

/// Returns the DDP and RDMAP headers of a Send with this number.
fn send_header(number: u32) -> Vec<u8> {
    let words: [u32; 4] = [0, 0, number, 0];
    [&[0x41, 0x43][..], &words.map(u32::to_be_bytes).concat()].concat()
}

/// Of two Replies, the Terminate refuses the one that it names and those after it; the last one, if it names none.
#[test]
fn replies_refused_by_terminate() {
    for (first_refused, is_named) in [(0, true), (1, true), (1, false)] {
        let mut scene = Scene::new(Kind::Iwarp);
        let exchanges = [(); 2].map(|()| Exchange::getattr3(scene.xid()));
        let number = scene.fabric.messages[Side::Server as usize][0];
        exchanges.iter().for_each(|exchange| scene.call(exchange));
        exchanges.iter().for_each(|exchange| scene.reply(exchange));
        let header = if is_named { send_header(number + first_refused) } else { Vec::new() };
        terminate(&mut scene, Side::Client, &header);
        scene.disconnect();
        let refused = exchanges.iter().skip(first_refused as usize);
        let expected: Vec<_> = refused.flat_map(|exchange| codes(exchange.call.xid, &["reply:refused"])).collect();
        assert_eq!(missing(&scene.fabric.frames), expected, "{first_refused} {is_named}");
    }
}

#[test]
fn reply_behind_terminated_data_is_refused() {
    for is_late in [false, true] {
        let mut scene = Scene::new(Kind::Iwarp);
        let exchange = Exchange::read3(scene.xid(), 1000, 1000);
        scene.call(&exchange);
        scene.place(&exchange);
        let memory = exchange.call.writes[0][0];
        let header = [&[0xc1, 0x40][..], &memory.handle.to_be_bytes(), &memory.offset.to_be_bytes()].concat();
        if is_late {
            terminate(&mut scene, Side::Client, &header);
        }
        scene.reply(&exchange);
        if !is_late {
            terminate(&mut scene, Side::Client, &header);
        }
        assert_eq!(missing(&scene.fabric.frames), codes(exchange.call.xid, &["reply:refused"]), "{is_late}");
    }
}

/// RFC 8166 section 4.5: a Requester that cannot decode a Reply drops it. RDMA_ERROR shows that it did.
#[test]
fn reply_refused_with_rdma_error() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let exchange = Exchange::getattr3(scene.xid());
        scene.exchange(&exchange);
        scene.error(Side::Client, exchange.call.xid, &[2]);
        let found = missing(&scene.fabric.frames);
        let of_call: Vec<_> = found.iter().filter(|(_, code)| *code != "call").cloned().collect();
        assert_eq!(of_call, codes(exchange.call.xid, &["reply:refused"]), "{kind:?}");
    }
}

/// A change of results.
type Change = fn(&mut Compound);

/// Changes of the results of a COMPOUND of SEQUENCE, PUTROOTFH and ACCESS.
fn wrong_results() -> [(&'static str, Change); 5] {
    [
        ("operation", |compound| compound.operations[2].result_number = 9),
        ("more", |compound| {
            let more = Operation { arguments: Vec::new(), ..Operation::putrootfh() };
            compound.operations.push(more);
        }),
        ("after failure", |compound| {
            compound.operations[1] = Operation::putrootfh().failed(10_022);
        }),
        ("status", |compound| compound.status = Some(5)),
        ("slot", |compound| {
            if let Some((_, result)) = &mut compound.operations[0].result {
                result[5] = 1;
            }
        }),
    ]
}

/// RFC 8881 sections 16.2.3 and 18.46.3. Lint names the Responder for each.
#[test]
fn compound_with_results_of_another_call() {
    for kind in BOTH {
        for (name, change) in wrong_results() {
            let mut scene = Scene::new(*kind);
            scene.session();
            let request = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh(), Operation::access(1)]);
            let mut exchange = request.exchange(scene.xid());
            let mut changed = request.clone();
            change(&mut changed);
            exchange.reply = changed.exchange(exchange.call.xid).reply;
            if name == "operation" {
                // GETATTR without attributes.
                changed.operations[2].result = Some((0, vec![0, 0]));
                exchange.reply = changed.exchange(exchange.call.xid).reply;
            }
            scene.exchange(&exchange);
            let frames = scene.frames();
            assert_eq!(missing(&frames), codes(exchange.call.xid, &["reply:wrong-result"]), "{kind:?} {name}");
            let found = findings(&frames);
            assert!(!broken_rules(&found, "").is_empty(), "{kind:?} {name}: {:#?}", describe(&found));
        }
    }
}

/// NFS4_OK with fewer results than operations; results of NFSv3 that are not those of the procedure.
#[test]
fn reply_that_ends_too_early_or_late() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let request = Compound::new(0, &[Operation::putrootfh(), Operation::access(1)]);
        let mut fewer = request.exchange(scene.xid());
        fewer.reply = Compound::new(0, &[Operation::putrootfh()]).exchange(fewer.call.xid).reply;
        scene.exchange(&fewer);
        let mut other = Exchange::getattr3(scene.xid());
        other.reply.rpc = Exchange::read3_inline(other.call.xid, 100).reply.rpc;
        scene.exchange(&other);
        let found = missing(&scene.frames());
        for exchange in [&fewer, &other] {
            let codes: Vec<_> = { found.iter().filter(|(xid, _)| *xid == exchange.call.xid) }
                .map(|(_, code)| code.split_inclusive(':').take(2).collect::<String>())
                .collect();
            assert_eq!(codes, ["undecoded:reply:", "reply:wrong-result"], "{kind:?}: {found:?}");
        }
    }
}

/// RFC 8166 section 4.2.1.
#[test]
fn reply_with_another_inner_xid() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.reply.rpc[3] ^= 1;
        scene.exchange(&exchange);
        let frames = scene.frames();
        assert_eq!(missing(&frames), codes(exchange.call.xid, &["reply:wrong-result"]), "{kind:?}");
        assert!(broken_rules(&findings(&frames), "").contains("rpcrdma/xid-mismatch"), "{kind:?}");
    }
}

#[test]
fn callback_with_results_of_another_call() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        open_backchannel(&mut scene);
        let request = Compound::new(1, &[Operation::cb_sequence(0, 1), Operation::cb_recall_any()]);
        let mut exchange = request.callback(scene.xid());
        let mut changed = request.clone();
        // CB_RECALL_SLOT.
        changed.operations[1].result_number = 10;
        exchange.reply = changed.callback(exchange.call.xid).reply;
        reverse(&mut scene, &exchange);
        assert_eq!(missing(&scene.frames()), codes(exchange.call.xid, &["reply:wrong-result"]), "{kind:?}");
    }
}

/// RFC 8881 section 18.52: the result of an operation that does not exist is ILLEGAL. More than 20 operations.
#[test]
fn long_or_illegal_compounds_have_their_results() {
    for (count, wrong) in [(30, None), (30, Some(25))] {
        let mut scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
        let mut operations = vec![Operation::putrootfh(); count];
        let request = Compound::new(0, &operations).exchange(scene.xid());
        if let Some(at) = wrong {
            operations[at].result_number = 23;
        }
        let reply = Compound::new(0, &operations).exchange(request.call.xid).reply;
        scene.exchange(&Exchange { reply, ..request.clone() });
        let expected: &[&str] = if wrong.is_some() { &["reply:wrong-result"] } else { &[] };
        assert_eq!(missing(&scene.fabric.frames), codes(request.call.xid, expected));
    }
    let mut scene = Scene::new(Kind::Roce);
    let unknown = Operation { result_number: 10_044, ..Operation::new(9999, &[], &[]) };
    let request = Compound::new(0, &[Operation::putrootfh(), unknown.failed(10_044)]);
    scene.compound(&request);
    let found = missing(&scene.fabric.frames);
    assert!(!found.iter().any(|(_, code)| code.contains("wrong-result")), "{found:?}");
}

/// A Reply to a Call that was cut by the snap length is not wrong for what is unknown.
#[test]
fn cut_calls_have_no_wrong_results() {
    let mut scene = Scene::new(Kind::Roce);
    scene.session();
    let request = Compound::new(2, &[Operation::sequence(0, 2), Operation::putrootfh(), Operation::access(1)]);
    scene.compound(&request);
    let frames = scene.frames();
    let longest = frames.iter().map(Vec::len).max().unwrap();
    for snap in 60..longest {
        let mut flow = Flow::new(FlowLimits::default());
        for (at, bytes) in frames.iter().enumerate() {
            let number = at as u64 + 1;
            let (number, time) = (FrameNumber(number), frame_time(number));
            let cut = &bytes[..bytes.len().min(snap)];
            let length = bytes.len() as u32;
            flow.process_frame(&Frame { number, time, link: LinkType::ETHERNET, bytes: cut, length });
        }
        flow.finish();
        while let Some((_, transaction)) = flow.next_with_key() {
            let fault = transaction.with_messages(|messages| messages.summary().fault(&transaction));
            assert_eq!(fault, None, "{snap}: {}", transaction.xid);
        }
    }
}

/// An empty Reply of NFSPROC3_NULL is the right one.
#[test]
fn null_reply_is_right() {
    let mut scene = Scene::new(Kind::Iwarp);
    let xid = scene.xid();
    scene.exchange(&Exchange::new(xid, crate::exchange::rpc_call(xid, 100_003, 3, 0), rpc_reply(xid)));
    assert_eq!(missing(&scene.fabric.frames), []);
}
