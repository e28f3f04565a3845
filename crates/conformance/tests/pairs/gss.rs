//! Pairs of the rules in `rules/gss.rs`.

use crate::exchange::{Exchange, RDMA_NOMSG, data, memory};
use crate::scene::Scene;
use crate::writer::{Memory, Writer};
use crate::{BOTH, Pair};

/// A Call of NFSPROC3_WRITE with RPCSEC_GSS privacy, and its Reply. RFC 2203 section 5.
pub(crate) fn private_write(xid: u32) -> Exchange {
    let mut call = Writer::default();
    call.words(&[xid, 0, 2, 100_003, 3, 7]);
    // A credential of version 1: RPCSEC_GSS_DATA, sequence number 5, privacy, and a handle of 4 bytes.
    call.words(&[6, 24, 1, 0, 5, 3, 4, 0x6e]);
    // A verifier of 8 bytes, and the encrypted arguments.
    call.words(&[6, 8, 1, 2]).opaque(&data(64));
    let mut reply = Writer::default();
    // A verifier of 8 bytes, SUCCESS, and the encrypted results.
    reply.words(&[xid, 1, 0, 6, 8, 3, 4, 0]).opaque(&data(48));
    Exchange::new(xid, call, reply)
}

/// A Call of NFSPROC3_READ with RPCSEC_GSS integrity, which returns `length` bytes inline. RFC 2203 section 5.3.2.
pub(crate) fn signed_read(xid: u32, length: u32) -> Exchange {
    let plain = Exchange::read3_inline(xid, length);
    // The sequence number precedes arguments and results; a checksum of eight bytes follows.
    let signed = |to: &mut Writer, body: &[u8]| {
        to.opaque(&[&5_u32.to_be_bytes(), body].concat()).opaque(&data(8));
    };
    let mut call = Writer::default();
    call.words(&[xid, 0, 2, 100_003, 3, 6]);
    call.words(&[6, 24, 1, 0, 5, 2, 4, 0x6e]).words(&[6, 8, 1, 2]);
    signed(&mut call, &plain.call.rpc[40..]);
    let mut reply = Writer::default();
    reply.words(&[xid, 1, 0, 6, 8, 3, 4, 0]);
    signed(&mut reply, &plain.reply.rpc[24..]);
    Exchange::new(xid, call, reply)
}

/// RPCSEC_GSS_INIT, and its Reply. RFC 2203 section 5.2.
fn context_creation(xid: u32) -> Exchange {
    let mut call = Writer::default();
    call.words(&[xid, 0, 2, 100_003, 3, 0]);
    // A credential of version 1: RPCSEC_GSS_INIT, no sequence number, privacy, and no handle. A verifier of AUTH_NONE.
    call.words(&[6, 20, 1, 1, 0, 3, 0, 0, 0]).opaque(&data(64));
    let mut reply = Writer::default();
    reply.words(&[xid, 1, 0, 6, 8, 3, 4, 0]);
    // A handle of 4 bytes, GSS_S_COMPLETE, minor status, sequence window, and a token.
    reply.words(&[4, 0x6e, 0, 0, 128]).opaque(&data(48));
    Exchange::new(xid, call, reply)
}

/// Sends an exchange whose Call is in a Position Zero Read chunk, or has its last bytes in a Read chunk.
pub(crate) fn with_read_chunk(scene: &mut Scene, mut exchange: Exchange, is_part: bool) {
    let message = exchange.call.rpc.clone();
    let position = if is_part { message.len() - 32 } else { 0 };
    let offered = memory(exchange.call.xid, 0, (message.len() - position) as u32);
    exchange.call.reads = vec![(position as u32, offered)];
    exchange.fetched = vec![(offered, message[position..].to_vec())];
    if !is_part {
        exchange.call.proc = RDMA_NOMSG;
        exchange.call.rpc.clear();
    }
    scene.exchange(&exchange);
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "gss/reduced",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = private_write(scene.xid());
            with_read_chunk(scene, exchange, broken);
        },
    },
    Pair {
        rule: "gss/reduced",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = private_write(scene.xid());
            if broken {
                let offered = memory(exchange.call.xid, 0, 512);
                exchange.call.writes = vec![vec![offered]];
                exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "gss/reduced",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = signed_read(scene.xid(), 100);
            let offered = memory(exchange.call.xid, 0, if broken { 4096 } else { 0 });
            exchange.call.writes = vec![vec![offered]];
            exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "gss/control-chunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = context_creation(scene.xid());
            with_read_chunk(scene, exchange, broken);
        },
    },
];
