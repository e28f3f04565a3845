//! Pairs of the rules in `rules/rdmap.rs`.

use crate::Pair;
use crate::exchange::Exchange;
use crate::fabric::Kind;

const IWARP: &[Kind] = &[Kind::Iwarp];

pub(crate) const PAIRS: &[Pair] = &[Pair {
    rule: "rdmap/crc",
    kinds: IWARP,
    conversation: |scene, broken| {
        let exchange = Exchange::read3(scene.xid(), 1000, 1000);
        scene.call(&exchange);
        scene.place(&exchange);
        if broken {
            scene.fabric.damage_last();
        }
        scene.place(&exchange);
        scene.reply(&exchange);
    },
}];
