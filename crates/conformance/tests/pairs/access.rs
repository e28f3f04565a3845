//! Pairs of the rules in `rules/access.rs`.

use std::collections::BTreeSet;

use crate::callbacks::{cb_null, reverse};
use crate::exchange::{Exchange, data, divide, memory};
use crate::fabric::{Kind, Side};
use crate::scene::Scene;
use crate::writer::Memory;
use crate::{BOTH, Pair, broken_rules, describe, findings};

/// The last 96 bytes of memory of 4,096 bytes, and `more` behind it.
fn tail(memory: Memory, more: u32) -> (Memory, Vec<u8>) {
    let length = 96 + more;
    (Memory { offset: memory.offset + 4000, length, ..memory }, data(length as usize))
}

/// Divides memory of 3,000 bytes into two segments, the second of which begins 4 bytes later if `has_gap` is set.
fn divided(whole: Memory, has_gap: bool) -> Vec<Memory> {
    let mut segments = divide(whole, 1500);
    segments[1].offset += if has_gap { 4 } else { 0 };
    segments
}

/// RDMA Reads of the server over RoCE, whose first response comes after `before` requests. `limit` Reads of 256 bytes
/// each.
pub(crate) fn parallel_reads(scene: &mut Scene, count: usize, before: usize) {
    let mut exchange = Exchange::write3(scene.xid(), 256 * count as u32);
    let (position, whole) = exchange.call.reads[0];
    let segments = divide(whole, 256);
    exchange.call.reads = segments.iter().map(|segment| (position, *segment)).collect();
    scene.call(&exchange);
    let mut psns = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        if at == before {
            respond(scene, psns.remove(0));
        }
        let psn = scene.fabric.next[Side::Server as usize];
        let mut reth = segment.offset.to_be_bytes().to_vec();
        reth.extend(segment.handle.to_be_bytes());
        reth.extend(segment.length.to_be_bytes());
        scene.fabric.packet(Side::Server, 12, psn, &reth, &[]);
        scene.fabric.take_psns(Side::Server, 1);
        psns.push(psn);
    }
    psns.into_iter().for_each(|psn| respond(scene, psn));
    scene.reply(&exchange);
}

/// Sends an RDMA Read response of one packet.
fn respond(scene: &mut Scene, psn: u32) {
    scene.fabric.packet(Side::Client, 16, psn, &[0x1f, 0, 0, 1], &data(256));
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/handle-unknown",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            if broken {
                let stray = Memory { handle: 0x7777_0000, ..memory(1, 0, 100) };
                scene.fabric.write(stray, &data(100));
            }
            scene.place(&exchange);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/read-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 4096);
            scene.call(&exchange);
            scene.fetch(&exchange);
            let (memory, bytes) = tail(exchange.call.reads[0].1, if broken { 4 } else { 0 });
            scene.fabric.read(Side::Server, memory, &bytes);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/write-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            scene.place(&exchange);
            let (memory, bytes) = tail(exchange.call.writes[0][0], if broken { 4 } else { 0 });
            scene.fabric.write(memory, &bytes);
            scene.reply(&exchange);
        },
    },
    // A Write of several packets begins in the segment and ends behind it.
    Pair {
        rule: "rpcrdma/write-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            let memory = exchange.call.writes[0][0];
            scene.fabric.write(memory, &data(if broken { 4100 } else { 4096 }));
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/write-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 3000, 3000);
            scene.call(&exchange);
            let memory = exchange.call.writes[0][0];
            scene.fabric.write(memory, &data(if broken { 5120 } else { 3000 }));
            scene.reply(&exchange);
        },
    },
    // The same into a Reply chunk.
    Pair {
        rule: "rpcrdma/write-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3_inline(scene.xid(), 2000).long_reply(2044);
            if broken {
                exchange.placed[0].1.resize(3000, 0);
            }
            scene.exchange(&exchange);
        },
    },
    // Two segments of one chunk with one handle, accessed at once: adjacent, or with a gap between them.
    Pair {
        rule: "rpcrdma/write-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 3000, 3000);
            let whole = exchange.call.writes[0][0];
            exchange.call.writes = vec![divided(whole, broken)];
            exchange.reply.writes = exchange.call.writes.clone();
            scene.call(&exchange);
            if broken {
                let [_, second] = exchange.call.writes[0][..] else { return };
                scene.fabric.write(second, &data(1500));
            }
            scene.fabric.write(whole, &data(3000));
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/read-bounds",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 3000);
            let (position, whole) = exchange.call.reads[0];
            let segments = divided(whole, broken);
            exchange.call.reads = segments.iter().map(|segment| (position, *segment)).collect();
            scene.call(&exchange);
            if broken {
                segments.iter().for_each(|segment| scene.fabric.read(Side::Server, *segment, &data(1500)));
            }
            scene.fabric.read(Side::Server, whole, &data(3000));
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/read-late",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 4096);
            scene.call(&exchange);
            scene.fetch(&exchange);
            if broken {
                scene.reply(&exchange);
                scene.fetch(&exchange);
            } else {
                scene.fetch(&exchange);
                scene.reply(&exchange);
            }
        },
    },
    Pair {
        rule: "rpcrdma/write-late",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            scene.place(&exchange);
            if broken {
                scene.reply(&exchange);
                scene.place(&exchange);
            } else {
                scene.place(&exchange);
                scene.reply(&exchange);
            }
        },
    },
    Pair {
        rule: "rpcrdma/wrong-op",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 4096);
            scene.call(&exchange);
            scene.fetch(&exchange);
            let (memory, bytes) = tail(exchange.call.reads[0].1, 0);
            if broken {
                scene.fabric.write(memory, &bytes);
            } else {
                scene.fabric.read(Side::Server, memory, &bytes);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/wrong-side",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            let side = if broken { Side::Client } else { Side::Server };
            let (memory, bytes) = tail(exchange.call.writes[0][0], 0);
            scene.fabric.write_from(side, memory, &bytes);
            scene.place(&exchange);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/reads-in-flight",
        kinds: &[Kind::Roce],
        conversation: |scene, broken| parallel_reads(scene, 17, if broken { 17 } else { 16 }),
    },
];

/// A Call of the server offers no memory of the client: its access before that Call is certain.
#[test]
fn an_access_before_a_call_of_the_server_is_judged() {
    for kind in BOTH {
        for has_callback in [false, true] {
            let mut scene = Scene::new(*kind);
            scene.session();
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            let stray = Memory { handle: 0x7777_0000, ..memory(1, 0, 100) };
            scene.fabric.write(stray, &data(100));
            scene.place(&exchange);
            scene.reply(&exchange);
            if has_callback {
                let callback = cb_null(scene.xid());
                reverse(&mut scene, &callback);
            }
            let found = findings(&scene.frames());
            let rules = broken_rules(&found, "");
            let expected = BTreeSet::from(["rpcrdma/handle-unknown"]);
            assert_eq!(rules, expected, "{kind:?} {has_callback}: {:#?}", describe(&found));
        }
    }
}
