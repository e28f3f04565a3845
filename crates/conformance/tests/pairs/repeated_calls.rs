//! Calls that follow the answer to an equal Call.

use crate::exchange::Exchange;
use crate::fabric::{Kind, Side};
use crate::scene::Scene;
use crate::{BOTH, broken_rules, describe, findings};

/// The segment of the second Call acknowledges the first Reply: the client has received it.
#[test]
fn an_answered_call_that_is_sent_again_is_another_one() {
    for has_error in [false, true] {
        let mut scene = Scene::new(Kind::Iwarp);
        let exchange = Exchange::read3(scene.xid(), 4096, 4096);
        scene.call(&exchange);
        match has_error {
            true => scene.error(Side::Server, exchange.call.xid, &[2]),
            false => {
                scene.place(&exchange);
                scene.reply(&exchange);
            }
        }
        scene.exchange(&exchange);
        let found = findings(&scene.frames());
        let rules = broken_rules(&found, "");
        assert!(rules.is_empty(), "{has_error}: {:#?}", describe(&found));
    }
}

/// RDMA_NOMSG of a client whose server has sent no Call cannot be a Reply.
#[test]
fn a_long_call_with_a_reply_chunk_alone_has_no_payload() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let exchange = Exchange::getattr3(scene.xid()).long_reply(1024);
        let mut call = exchange.call.clone();
        call.proc = 1;
        call.rpc.clear();
        scene.fabric.send(Side::Client, &call.encode());
        scene.error(Side::Server, call.xid, &[2]);
        let found = findings(&scene.frames());
        let rules: Vec<_> = broken_rules(&found, "").into_iter().collect();
        assert_eq!(rules, ["rpcrdma/nomsg-without-chunk"], "{kind:?}: {:#?}", describe(&found));
    }
}
