//! Pairs of the rules in `rules/transport.rs`.

use crate::exchange::{Exchange, data, memory};
use crate::writer::Memory;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[Pair {
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
}];
