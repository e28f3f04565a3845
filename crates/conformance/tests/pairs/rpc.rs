//! Pairs of the rules in `rules/rpc.rs`.

use crate::exchange::{Compound, Operation};
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
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
    },
    Pair {
        rule: "rpc/reply-elsewhere",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut other = scene.second_connection();
            let exchange = Compound::new(0, &[Operation::putrootfh()]).exchange(scene.xid());
            scene.call(&exchange);
            if broken {
                scene.on(&mut other, |other| other.reply(&exchange));
            }
            // Shows that the Call is not merely missing from the capture.
            let next = Compound::new(0, &[Operation::putrootfh()]);
            scene.on(&mut other, |other| other.compound(&next));
        },
    },
];
