//! Pairs of the rules in `rules/write_chunks.rs`.

use crate::exchange::Exchange;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[Pair {
    rule: "rpcrdma/returned-too-much",
    kinds: BOTH,
    conversation: |scene, broken| {
        let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
        if broken {
            exchange.call.writes[0][0].length = 4000;
        }
        scene.exchange(&exchange);
    },
}];
