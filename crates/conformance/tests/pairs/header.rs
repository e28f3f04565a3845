//! Pairs of the rules in `rules/header.rs`.

use crate::exchange::{Exchange, RDMA_ERROR, RDMA_MSGP, RDMA_NOMSG, memory, rpc_reply};
use crate::fabric::Side;
use crate::writer::{Memory, Writer};
use crate::{ALL, BOTH, Pair};

/// Error codes of RPC-over-RDMA. RFC 8166 section 4.5.
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

/// An exchange with a Long Reply: its RPC message is in the Reply chunk.
fn long_reply(xid: u32) -> Exchange {
    let mut exchange = Exchange::getattr3(xid);
    let rpc = std::mem::take(&mut exchange.reply.rpc);
    let offered = memory(exchange.call.xid, 0, 64);
    exchange.call.reply = Some(vec![offered]);
    exchange.reply.reply = Some(vec![Memory { length: rpc.len() as u32, ..offered }]);
    exchange.reply.proc = RDMA_NOMSG;
    exchange.placed = vec![(offered, rpc)];
    exchange
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/xid-mismatch",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.rpc[0] ^= u8::from(broken);
            scene.call(&exchange);
            if broken {
                scene.error(Side::Server, exchange.call.xid, &[ERR_CHUNK]);
            } else {
                scene.reply(&exchange);
            }
        },
    },
    Pair {
        rule: "rpcrdma/xid-mismatch",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = long_reply(scene.xid());
            exchange.reply.xid ^= if broken { 0x0100_0000 } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/xid-mismatch",
        kinds: BOTH,
        conversation: |scene, broken| {
            let first = Exchange::getattr3(scene.xid());
            scene.exchange(&first);
            let mut second = Exchange::getattr3(scene.xid());
            if broken {
                second.reply.xid = first.call.xid;
            }
            scene.exchange(&second);
        },
    },
    Pair {
        rule: "rpcrdma/xid-mismatch",
        kinds: BOTH,
        conversation: |scene, broken| {
            let first = long_reply(scene.xid());
            scene.exchange(&first);
            let mut second = long_reply(scene.xid());
            if broken {
                second.reply.xid = first.call.xid;
            }
            scene.exchange(&second);
        },
    },
    Pair {
        rule: "rpcrdma/reply-no-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                scene.reply(&exchange);
            }
        },
    },
    Pair {
        rule: "rpcrdma/reply-no-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                exchange.reply.xid ^= 0x0100_0000;
                exchange.reply.rpc[0] ^= 1;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/xid-reused",
        kinds: ALL,
        conversation: |scene, broken| {
            let first = Exchange::getattr3(scene.xid());
            let mut second = Exchange::getattr3(if broken { first.call.xid } else { scene.xid() });
            // Another file handle.
            second.call.rpc[44] ^= 1;
            scene.call(&first);
            scene.call(&second);
            scene.reply(&first);
            scene.reply(&second);
        },
    },
    Pair {
        rule: "rpcrdma/version",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.version = if broken { 3 } else { 1 };
            scene.exchange(&exchange);
        },
    },
    // RFC 8166 section 4.2.2: a Responder answers ERR_VERS, and the Requester goes on with another version.
    Pair {
        rule: "rpcrdma/version",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.version = 3;
            scene.call(&exchange);
            if !broken {
                let mut to = Writer::default();
                to.words(&[exchange.call.xid, 3, 32, RDMA_ERROR, 1, 1, 1]);
                scene.fabric.send(Side::Server, &to.bytes);
            }
        },
    },
    Pair {
        rule: "rpcrdma/proc-unknown",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.proc = if broken { 7 } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/msgp",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.proc = if broken { RDMA_MSGP } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/done",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                let mut done = Writer::default();
                done.words(&[exchange.call.xid, 1, 32, 3]);
                scene.fabric.send(Side::Client, &done.bytes);
            }
        },
    },
    Pair {
        rule: "rpcrdma/short-message",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            let mut reply = exchange.reply.encode();
            if broken {
                reply.truncate(24);
            }
            scene.fabric.send(Side::Server, &reply);
        },
    },
    Pair {
        rule: "rpcrdma/list-broken",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            let mut reply = exchange.reply.encode();
            // The discriminator of the Read list.
            reply[19] = if broken { 2 } else { 0 };
            scene.fabric.send(Side::Server, &reply);
        },
    },
    Pair {
        rule: "rpcrdma/nomsg-without-chunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.reply.proc = if broken { RDMA_NOMSG } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/nomsg-without-chunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                exchange.reply.rpc.clear();
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/error-from-requester",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            if broken {
                scene.error(Side::Client, exchange.call.xid, &[ERR_CHUNK]);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/error-no-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            let other = if broken { 0x0100_0000 } else { 0 };
            scene.error(Side::Server, exchange.call.xid + other, &[ERR_CHUNK]);
        },
    },
    Pair {
        rule: "rpcrdma/error-no-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                scene.error(Side::Server, exchange.call.xid, &[ERR_CHUNK]);
            }
        },
    },
    // XID 0 has no other meaning than others.
    Pair {
        rule: "rpcrdma/error-no-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let xid = if broken { scene.xid() } else { 0 };
            scene.call(&Exchange::getattr3(xid));
            scene.error(Side::Server, 0, &[ERR_CHUNK]);
        },
    },
    Pair {
        rule: "rpcrdma/error-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            let lowest = if broken { 1 } else { 2 };
            scene.error(Side::Server, exchange.call.xid, &[ERR_VERS, lowest, 2]);
        },
    },
    Pair {
        rule: "rpcrdma/error-range",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            scene.error(Side::Server, exchange.call.xid, &[if broken { 3 } else { ERR_CHUNK }]);
        },
    },
    Pair {
        rule: "rpcrdma/error-not-sent",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.accepted = vec!["rpcrdma/proc-unknown"];
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.proc = 7;
            scene.call(&exchange);
            if broken {
                scene.reply(&exchange);
            } else {
                scene.error(Side::Server, exchange.call.xid, &[ERR_CHUNK]);
            }
        },
    },
    Pair {
        rule: "rpcrdma/error-not-sent",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.accepted = vec!["rpcrdma/xid-mismatch"];
            let mut exchange = Exchange::getattr3(scene.xid());
            exchange.call.rpc[0] ^= 1;
            scene.call(&exchange);
            if broken {
                scene.reply(&exchange);
            } else {
                scene.error(Side::Server, exchange.call.xid, &[ERR_CHUNK]);
            }
        },
    },
    Pair {
        rule: "rpcrdma/garbage-args",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.accepted = vec!["rpcrdma/undecodable"];
            let mut exchange = Exchange::getattr3(scene.xid());
            // The file handle is longer than the Call.
            exchange.call.rpc[43] = 32;
            let mut reply = rpc_reply(exchange.call.xid);
            // Success, and 21 words of attributes. RFC 1813 section 3.3.1.
            let mut words = [0; 22];
            words[1] = 1;
            reply.words(&words);
            exchange.reply.rpc = reply.bytes;
            if !broken {
                // Accepted, GARBAGE_ARGS: RFC 5531 section 9.
                exchange.reply.rpc.truncate(24);
                exchange.reply.rpc[23] = 4;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/undecodable",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                exchange.call.rpc.extend([0; 4]);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/keepalive",
        kinds: BOTH,
        conversation: |scene, broken| {
            if broken {
                scene.fabric.send(Side::Client, &[]);
            }
        },
    },
];
