//! Pairs of the rules in `rules/credits.rs`.

use crate::callbacks::{cb_null, open_backchannel, reverse};
use crate::exchange::{Exchange, data, rpc_call, rpc_reply};
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::{BOTH, Pair, broken_rules, findings};

/// Sends two exchanges that grant this many credits: the larger of the last two grants counts.
pub(crate) fn grant(scene: &mut Scene, credits: u32) {
    for _ in 0..2 {
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.reply.credits = credits;
        scene.exchange(&exchange);
    }
}

/// Returns two READs whose Replies grant this many credits.
pub(crate) fn two_reads(scene: &mut Scene, credits: u32) -> [Exchange; 2] {
    [(); 2].map(|()| {
        let mut exchange = Exchange::read3(scene.xid(), 1024, 1024);
        exchange.reply.credits = credits;
        exchange
    })
}

/// Sends two Calls, and then the rest of their exchanges.
pub(crate) fn overlap(scene: &mut Scene, exchanges: &[Exchange; 2]) {
    exchanges.iter().for_each(|exchange| scene.call(exchange));
    for exchange in exchanges {
        scene.place(exchange);
        scene.reply(exchange);
    }
}

/// NFSPROC3_WRITE of `length` bytes inline, answered with NFS3ERR_IO. RFC 1813 section 3.3.7.
pub(crate) fn inline_write(xid: u32, length: u32) -> Exchange {
    let mut call = rpc_call(xid, 100_003, 3, 7);
    call.opaque(b"file handle 1234").hyper(0).words(&[length, 2]).opaque(&data(length as usize));
    let mut reply = rpc_reply(xid);
    reply.words(&[5, 0, 0]);
    Exchange::new(xid, call, reply)
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/credit-zero",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.credits = if broken { 0 } else { 1 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/credit-zero",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.credits = if broken { 0 } else { 1 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/credit-exceeded",
        kinds: BOTH,
        conversation: |scene, broken| {
            let credits = if broken { 1 } else { 2 };
            grant(scene, credits);
            let reads = two_reads(scene, credits);
            overlap(scene, &reads);
        },
    },
    // Calls without a Reply until the connection ends.
    Pair {
        rule: "rpcrdma/credit-exceeded",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut other = scene.second_connection();
            scene.on(&mut other, |other| {
                grant(other, 1);
                for _ in 0..if broken { 4 } else { 1 } {
                    let unanswered = Exchange::getattr3(other.xid());
                    other.call(&unanswered);
                }
                other.disconnect();
            });
        },
    },
    Pair {
        rule: "rpcrdma/credits-reverse",
        kinds: BOTH,
        conversation: |scene, broken| {
            open_backchannel(scene);
            let callbacks = [(); 4].map(|()| {
                let mut callback = cb_null(scene.xid());
                callback.reply.credits = if broken { 1 } else { 2 };
                callback
            });
            let [first, second, third, fourth] = &callbacks;
            reverse(scene, first);
            reverse(scene, second);
            scene.fabric.send(Side::Server, &third.call.encode());
            scene.fabric.send(Side::Server, &fourth.call.encode());
            // A frame between the last Call and the first Reply: they cannot be in the wrong order.
            let between = Exchange::getattr3(scene.xid());
            scene.call(&between);
            scene.fabric.send(Side::Client, &third.reply.encode());
            scene.fabric.send(Side::Client, &fourth.reply.encode());
            scene.reply(&between);
        },
    },
    Pair {
        rule: "rpcrdma/first-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            *scene = Scene::with_private_data(scene.fabric.kind, [Some(Private::USUAL); 2]);
            let reads = two_reads(scene, 32);
            if broken {
                overlap(scene, &reads);
            } else {
                reads.iter().for_each(|read| scene.exchange(read));
            }
        },
    },
    Pair {
        rule: "rpcrdma/credits-all-used",
        kinds: BOTH,
        conversation: |scene, broken| {
            let credits = if broken { 2 } else { 3 };
            grant(scene, credits);
            for _ in 0..10 {
                let reads = two_reads(scene, credits);
                overlap(scene, &reads);
            }
        },
    },
    Pair {
        rule: "rpcrdma/grant-shrunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            grant(scene, if broken { 64 } else { 32 });
        },
    },
    Pair {
        rule: "rpcrdma/send-too-long",
        kinds: BOTH,
        conversation: |scene, broken| {
            // Behind 28 bytes of RPC-over-RDMA, 40 of RPC, 20 of the file handle, 20 of arguments and the data.
            let most = 4096 - 28 - 40 - 20 - 20;
            let exchange = inline_write(scene.xid(), if broken { most + 1 } else { most });
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/send-too-long",
        kinds: BOTH,
        conversation: |scene, broken| {
            // A side without private data has 1,024 bytes. RFC 8797 section 5.1.
            let server = if broken { None } else { Some(Private::USUAL) };
            *scene = Scene::with_private_data(scene.fabric.kind, [Some(Private::USUAL), server]);
            let exchange = inline_write(scene.xid(), 1024);
            scene.exchange(&exchange);
        },
    },
];

/// RFC 8166 section 3.3.1: without the set-up, the calls alone prove the violation if the client had received a grant
/// before them and no reply is missing. Without a grant, the connection may be older than the capture (section 3.3.3).
/// Near the server, calls are captured that were sent before the client received the reply.
#[test]
fn credits_without_set_up_need_grant() {
    for (has_grant, is_received, is_reply_lost) in
        [(true, true, false), (true, false, false), (false, false, false), (true, true, true)]
    {
        let mut scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
        scene.fabric.frames.clear();
        if has_grant {
            let mut first = Exchange::getattr3(scene.xid());
            first.reply.credits = 1;
            scene.exchange(&first);
            if is_received {
                scene.acknowledge_reply();
            }
        }
        let calls = [(); 4].map(|()| Exchange::getattr3(scene.xid()));
        calls.iter().for_each(|exchange| scene.call(exchange));
        if is_reply_lost {
            scene.reply(&calls[0]);
            scene.fabric.frames.pop();
            scene.reply(&calls[3]);
        }
        scene.disconnect();
        let broken = broken_rules(&findings(&scene.fabric.frames), "");
        let is_judged = is_received && !is_reply_lost;
        assert_eq!(broken.contains("rpcrdma/credit-exceeded"), is_judged, "{has_grant} {is_received}: {broken:?}");
        assert!(!broken.contains("rpcrdma/first-call"), "{broken:?}");
    }
}
