//! Pairs of the rules in `rules/credits.rs`.

use crate::exchange::Exchange;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[Pair {
    rule: "rpcrdma/credit-zero",
    kinds: BOTH,
    conversation: |scene, broken| {
        let mut exchange = Exchange::getattr3(scene.xid());
        exchange.reply.credits = if broken { 0 } else { 1 };
        scene.exchange(&exchange);
    },
}];
