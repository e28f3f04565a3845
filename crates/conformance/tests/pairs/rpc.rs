//! Pairs of the rules in `rules/rpc.rs`.

use crate::exchange::{Compound, Exchange, Operation, rpc_call, rpc_reply};
use crate::fabric::Kind;
use crate::scene::Scene;
use crate::{BOTH, Pair, TCP};

const NFSACL: u32 = 100_227;
const RQUOTA: u32 = 100_011;

/// NFS3ERR_NOENT. RFC 1813 section 2.6.
const NOENT: u32 = 2;
/// NFS4ERR_BADXDR and NFS4ERR_INVAL. RFC 8881 section 15.1.
const BADXDR: u32 = 10_036;
const INVAL: u32 = 22;

/// Accepts the rule that blames the client.
fn accept_arguments(scene: &mut Scene) {
    scene.accepted.push(if scene.fabric.kind == Kind::Tcp { "rpc/wrong-argument" } else { "rpcrdma/undecodable" });
}

/// Sends NFSPROC3_LOOKUP with a name of which the message has four bytes. RFC 1813 section 3.3.3.
fn cut_name(scene: &mut Scene, broken: bool) {
    accept_arguments(scene);
    let xid = scene.xid();
    let mut call = rpc_call(xid, 100_003, 3, 3);
    call.opaque(b"file handle 1234").words(&[40, 0x6e61_6d65]);
    let mut reply = rpc_reply(xid);
    // No attributes of the directory.
    reply.words(&[NOENT, 0]);
    let exchange = Exchange::new(xid, call, reply);
    scene.exchange(&if broken { exchange } else { exchange.garbage_args() });
}

/// Sends ACCESS without arguments behind PUTROOTFH.
fn cut_access(scene: &mut Scene, broken: bool) {
    accept_arguments(scene);
    let status = if broken { INVAL } else { BADXDR };
    let mut access = Operation::access(1).failed(status);
    access.arguments.clear();
    scene.compound(&Compound::new(0, &[Operation::putrootfh(), access]));
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair { rule: "rpcrdma/garbage-args", kinds: BOTH, conversation: cut_name },
    Pair { rule: "rpc/garbage-args", kinds: TCP, conversation: cut_name },
    Pair { rule: "rpcrdma/garbage-args", kinds: BOTH, conversation: cut_access },
    Pair { rule: "rpc/garbage-args", kinds: TCP, conversation: cut_access },
    Pair {
        rule: "rpc/wrong-argument",
        kinds: TCP,
        conversation: |scene, broken| {
            let xid = scene.xid();
            let mut call = rpc_call(xid, 100_003, 3, 3);
            call.opaque(b"file handle 1234");
            if broken {
                call.words(&[40, 0x6e61_6d65]);
            } else {
                call.opaque(b"name");
            }
            let exchange = Exchange::new(xid, call, rpc_reply(xid));
            scene.exchange(&exchange.garbage_args());
        },
    },
    // The level of stability of a WRITE. RFC 1813 section 3.3.7.
    Pair {
        rule: "rpc/undefined-argument",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096).garbage_args();
            // The word before the length of the data.
            let at = exchange.call.rpc.len() - 5;
            exchange.call.rpc[at] = if broken { 9 } else { 2 };
            scene.exchange(&exchange);
        },
    },
    // LOCK with a type of lock. RFC 8881 section 18.10.1.
    Pair {
        rule: "rpc/undefined-argument",
        kinds: BOTH,
        conversation: |scene, broken| {
            let lock_type = if broken { 9 } else { 1 };
            // Offset, length, the lock owner is known: seqid, stateid.
            let arguments = [lock_type, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            let lock = Operation::new(12, &arguments, &[]).failed(BADXDR);
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), lock]));
        },
    },
    Pair {
        rule: "rpc/undefined-result",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            // The word before the verifier.
            let at = exchange.reply.rpc.len() - 9;
            exchange.reply.rpc[at] = if broken { 7 } else { 2 };
            scene.exchange(&exchange);
        },
    },
    // The type of a file among the attributes. RFC 8881 section 5.8.1.2.
    Pair {
        rule: "rpc/undefined-result",
        kinds: BOTH,
        conversation: |scene, broken| {
            let file_type = if broken { 12 } else { 1 };
            let getattr = Operation::new(9, &[1, 2], &[1, 2, 4, file_type]);
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), getattr]));
        },
    },
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
        rule: "rpc/wrong-result",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                exchange.reply.rpc.truncate(exchange.reply.rpc.len() - 4);
            }
            scene.exchange(&exchange);
        },
    },
    // NFS4_OK with the first of two results. RFC 7530 section 15.2.4.
    Pair {
        rule: "rpc/wrong-result",
        kinds: BOTH,
        conversation: |scene, broken| {
            let operations = [Operation::putrootfh(), Operation::access(1)];
            let mut exchange = Compound::new(0, &operations).exchange(scene.xid());
            if broken {
                exchange.reply = Compound::new(0, &operations[..1]).exchange(exchange.call.xid).reply;
            }
            scene.exchange(&exchange);
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
