//! Pairs of the rules in `rules/callbacks.rs`.

use crate::exchange::{Exchange, NFS_CB, RDMA_NOMSG, memory, rpc_call, rpc_reply};
use crate::fabric::Side;
use crate::scene::Scene;
use crate::writer::Writer;
use crate::{BOTH, Pair, broken_rules, describe, findings};

const NFS: u32 = 100_003;
/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN. RFC 8881 section 18.36.1.
const CONN_BACK_CHAN: u32 = 2;

/// ca_maxrequestsize of a client that takes only Short Calls, and of one that takes Long Calls.
const SHORT_CALLS: u32 = 4096;
const LONG_CALLS: u32 = 65_536;

/// CREATE_SESSION with these flags in its results. RFC 8881 section 18.36.
pub(crate) fn create_session(xid: u32, flags: u32, back_request_bytes: u32) -> Exchange {
    // Header padding, sizes of requests and responses, operations, requests, no IRD.
    let channel = |to: &mut Writer, request_bytes: u32| {
        to.words(&[0, request_bytes, 1 << 20, 4096, 16, 64, 0]);
    };
    let mut call = rpc_call(xid, NFS, 4, 1);
    call.opaque(b"").words(&[1, 1, 43]).hyper(7).words(&[1, CONN_BACK_CHAN]);
    channel(&mut call, 1 << 20);
    channel(&mut call, back_request_bytes);
    // Callback program, one security flavor: AUTH_NONE.
    call.words(&[NFS_CB, 1, 0]);
    let mut reply = rpc_reply(xid);
    reply.words(&[0]).opaque(b"").words(&[1, 43, 0]).fixed(b"session 12345678").words(&[1, flags]);
    channel(&mut reply, 1 << 20);
    channel(&mut reply, back_request_bytes);
    Exchange::new(xid, call, reply)
}

/// Creates a session that binds the connection to its backchannel.
pub(crate) fn open_backchannel(scene: &mut Scene) {
    let create = create_session(scene.xid(), CONN_BACK_CHAN, LONG_CALLS);
    scene.exchange(&create);
}

/// CB_NULL. RFC 8881 section 20.1.
pub(crate) fn cb_null(xid: u32) -> Exchange {
    Exchange::new(xid, rpc_call(xid, NFS_CB, 1, 0), rpc_reply(xid))
}

/// CB_NULL as a Long Call.
fn long_cb_null(xid: u32) -> Exchange {
    let mut exchange = cb_null(xid);
    let rpc = std::mem::take(&mut exchange.call.rpc);
    let offered = memory(xid, 0, rpc.len() as u32);
    (exchange.call.proc, exchange.call.reads) = (RDMA_NOMSG, vec![(0, offered)]);
    exchange.fetched = vec![(offered, rpc)];
    exchange
}

/// Sends an exchange whose Call comes from the server.
pub(crate) fn reverse(scene: &mut Scene, exchange: &Exchange) {
    scene.fabric.send(Side::Server, &exchange.call.encode());
    for (memory, bytes) in &exchange.fetched {
        scene.fabric.read(Side::Client, *memory, bytes);
    }
    scene.fabric.send(Side::Client, &exchange.reply.encode());
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "nfs/cb-before-session",
        kinds: BOTH,
        conversation: |scene, broken| {
            let flags = if broken { 0 } else { CONN_BACK_CHAN };
            let create = create_session(scene.xid(), flags, SHORT_CALLS);
            scene.exchange(&create);
            let callback = cb_null(scene.xid());
            reverse(scene, &callback);
        },
    },
    Pair {
        rule: "nfs/cb-long",
        kinds: BOTH,
        conversation: |scene, broken| {
            let most = if broken { SHORT_CALLS } else { LONG_CALLS };
            let create = create_session(scene.xid(), CONN_BACK_CHAN, most);
            scene.exchange(&create);
            let callback = long_cb_null(scene.xid());
            reverse(scene, &callback);
        },
    },
    Pair {
        rule: "nfs/cb-chunks-refused",
        kinds: BOTH,
        conversation: |scene, broken| {
            open_backchannel(scene);
            let mut callback = long_cb_null(scene.xid());
            callback.fetched.clear();
            if broken {
                reverse(scene, &callback);
            } else {
                scene.fabric.send(Side::Server, &callback.call.encode());
                scene.error(Side::Client, callback.call.xid, &[2]);
            }
        },
    },
    // A client that supports chunks may refuse a Call before it reads them.
    Pair {
        rule: "nfs/cb-chunks-refused",
        kinds: BOTH,
        conversation: |scene, broken| {
            open_backchannel(scene);
            let mut callback = long_cb_null(scene.xid());
            callback.fetched.clear();
            if !broken {
                // Accepted, GARBAGE_ARGS: RFC 5531 section 9.
                let at = callback.reply.rpc.len() - 1;
                callback.reply.rpc[at] = 4;
            }
            reverse(scene, &callback);
        },
    },
    // A client that supports chunks returns the Reply chunk, if unused.
    Pair {
        rule: "nfs/cb-chunks-refused",
        kinds: BOTH,
        conversation: |scene, broken| {
            open_backchannel(scene);
            let mut callback = cb_null(scene.xid()).with_reply_chunk(256);
            if broken {
                callback.reply.reply = None;
                scene.accepted.push("rpcrdma/not-copied");
            }
            reverse(scene, &callback);
        },
    },
];

/// RFC 8881 section 2.10.6.3: a callback may overtake the Reply to CREATE_SESSION. The client may answer it at once.
#[test]
fn a_callback_before_the_reply_to_create_session_is_not_judged() {
    for kind in BOTH {
        for flags in [0, CONN_BACK_CHAN] {
            let mut scene = Scene::new(*kind);
            let create = create_session(scene.xid(), flags, SHORT_CALLS);
            scene.call(&create);
            let callback = cb_null(scene.xid());
            reverse(&mut scene, &callback);
            scene.reply(&create);
            let found = findings(&scene.frames());
            assert!(broken_rules(&found, "").is_empty(), "{kind:?} {flags}: {:#?}", describe(&found));
        }
    }
}
