//! Pairs of the rules in `rules/rpc.rs`.

use crate::exchange::{Compound, Operation};
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[Pair {
    rule: "rpc/resent-here",
    kinds: BOTH,
    conversation: |scene, broken| {
        let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
        scene.call(&exchange);
        if broken {
            scene.call(&exchange);
        }
        scene.reply(&exchange);
    },
}];
