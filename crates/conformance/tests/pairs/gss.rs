//! Pairs of the rules in `rules/gss.rs`.

use crate::exchange::{Exchange, RDMA_NOMSG, data, memory};
use crate::writer::Writer;
use crate::{BOTH, Pair};

/// A Call of NFSPROC3_WRITE with RPCSEC_GSS privacy. RFC 2203 section 5.
fn private_write(xid: u32) -> Writer {
    let mut to = Writer::default();
    to.words(&[xid, 0, 2, 100_003, 3, 7]);
    // A credential of version 1: RPCSEC_GSS_DATA, sequence number 5, privacy, and a handle of 4 bytes.
    to.words(&[6, 24, 1, 0, 5, 3, 4, 0x6e]);
    // A verifier of 8 bytes, and the encrypted arguments.
    to.words(&[6, 8, 1, 2]).opaque(&data(64));
    to
}

/// The Reply, with a verifier and encrypted results.
fn private_reply(xid: u32) -> Writer {
    let mut to = Writer::default();
    to.words(&[xid, 1, 0, 6, 8, 3, 4, 0]).opaque(&data(48));
    to
}

pub(crate) const PAIRS: &[Pair] = &[Pair {
    rule: "gss/reduced",
    kinds: BOTH,
    conversation: |scene, broken| {
        let xid = scene.xid();
        let mut exchange = Exchange::new(xid, private_write(xid), private_reply(xid));
        let message = exchange.call.rpc.clone();
        // The whole message is in a chunk, or only some bytes of the encrypted arguments are.
        let position = if broken { message.len() - 32 } else { 0 };
        let offered = memory(xid, 0, (message.len() - position) as u32);
        exchange.call.reads = vec![(position as u32, offered)];
        exchange.fetched = vec![(offered, message[position..].to_vec())];
        if !broken {
            exchange.call.proc = RDMA_NOMSG;
            exchange.call.rpc.clear();
        }
        scene.exchange(&exchange);
    },
}];
