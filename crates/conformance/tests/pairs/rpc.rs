//! Pairs of the rules in `rules/rpc.rs`.

use crate::exchange::{Compound, Exchange, Operation, rpc_call, rpc_reply};
use crate::{BOTH, Pair};

const NFSACL: u32 = 100_227;
const RQUOTA: u32 = 100_011;

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
    // RFC 7530 and RFC 8881 do not bind RQUOTA.
    Pair {
        rule: "rpc/resent-here",
        kinds: BOTH,
        conversation: |scene, broken| {
            let xid = scene.xid();
            let program = if broken { NFSACL } else { RQUOTA };
            let exchange = Exchange::new(xid, rpc_call(xid, program, 3, 9), rpc_reply(xid));
            scene.call(&exchange);
            scene.call(&exchange);
            scene.reply(&exchange.garbage_args());
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
