//! Pairs of the rules in `rules/perf.rs`.

use crate::access::parallel_reads;
use crate::exchange::{Exchange, data, divide};
use crate::fabric::Kind;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "perf/read-chunk-for-small",
        kinds: BOTH,
        conversation: |scene, broken| {
            let length = if broken { 1000 } else { 5000 };
            let exchange = Exchange::read3(scene.xid(), length, length);
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "perf/read-chunk-for-small",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), if broken { 1000 } else { 5000 });
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "perf/threshold-would-save",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3_inline(scene.xid(), if broken { 5000 } else { 66_000 });
            scene.exchange(&exchange.long_reply(70_000));
        },
    },
    Pair {
        rule: "perf/no-invalidation",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
            exchange.invalidate = (!broken).then_some(exchange.call.writes[0][0].handle);
            scene.exchange(&exchange);
        },
    },
    // RDMA_ERROR has no results.
    Pair {
        rule: "perf/no-invalidation",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.exchange(&if broken { exchange } else { exchange.refused() });
        },
    },
    Pair {
        rule: "perf/many-segments",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
            let segments = divide(exchange.call.writes[0][0], if broken { 1024 } else { 4096 });
            exchange.placed = segments.iter().map(|memory| (*memory, data(memory.length as usize))).collect();
            exchange.call.writes = vec![segments.clone()];
            exchange.reply.writes = vec![segments];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "perf/serial-credits",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.credits = if broken { 1 } else { 2 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "perf/grant-is-echo",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.credits = 64;
            exchange.reply.credits = if broken { 64 } else { 48 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "perf/ird-limited",
        kinds: &[Kind::Roce],
        conversation: |scene, broken| parallel_reads(scene, if broken { 16 } else { 15 }, 20),
    },
];
