//! Pairs of the rules in `rules/private_data.rs`.

use crate::callbacks::create_session;
use crate::exchange::{Exchange, data, memory};
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::writer::Writer;
use crate::{BOTH, Pair};

/// Replaces the connection by one whose client has this private data.
pub(crate) fn connect(scene: &mut Scene, client: Option<Private>) {
    *scene = Scene::with_private_data(scene.fabric.kind, [client, Some(Private::USUAL)]);
}

/// Replaces the connection by one over RoCE to this port of the server.
pub(crate) fn connect_to_port(scene: &mut Scene, port: u16) {
    connect(scene, Some(Private::USUAL));
    // The service ID of the REQ: a port in the port space of TCP. Annex A11.
    let request = &mut scene.fabric.frames[0];
    let at = request.windows(8).position(|window| window == 0x1234_u64.to_be_bytes()).unwrap_or_default();
    request[at..at + 8].copy_from_slice(&(0x0106_0000 + u64::from(port)).to_be_bytes());
}

/// A READ whose Reply invalidates the memory of its Write chunk.
pub(crate) fn invalidating_read(xid: u32) -> Exchange {
    let mut exchange = Exchange::read3(xid, 1024, 1024);
    exchange.invalidate = Some(memory(xid, 0, 0).handle);
    exchange
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/inval-not-announced",
        kinds: BOTH,
        conversation: |scene, broken| {
            connect(scene, Some(Private { flags: u8::from(!broken), ..Private::USUAL }));
            let exchange = invalidating_read(scene.xid());
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/inval-foreign",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = invalidating_read(scene.xid());
            if broken {
                exchange.invalidate = exchange.invalidate.map(|handle| handle + 1);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/inval-foreign",
        kinds: BOTH,
        conversation: |scene, broken| {
            let [before, mut exchange] = [(); 2].map(|()| Exchange::write3(scene.xid(), 1024));
            scene.exchange(&before);
            let owner = if broken { &before } else { &exchange };
            exchange.invalidate = Some(memory(owner.call.xid, 0, 0).handle);
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/inval-on-call",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            let handle = broken.then_some(0x7777_0000);
            scene.fabric.send_and_invalidate(Side::Client, &exchange.call.encode(), handle);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/private-reserved",
        kinds: BOTH,
        conversation: |scene, broken| {
            connect(scene, Some(Private { flags: if broken { 0x81 } else { 0x01 }, ..Private::USUAL }));
        },
    },
    Pair {
        rule: "rpcrdma/private-version",
        kinds: BOTH,
        conversation: |scene, broken| {
            connect(scene, Some(Private { version: if broken { 2 } else { 1 }, ..Private::USUAL }));
        },
    },
    Pair {
        rule: "rpcrdma/private-none",
        kinds: BOTH,
        conversation: |scene, broken| {
            connect(scene, if broken { None } else { Some(Private::USUAL) });
        },
    },
    Pair {
        rule: "rpcrdma/thresholds-shrank",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.call(&exchange);
            let before = std::mem::take(&mut scene.fabric.frames);
            let receive = if broken { 2048 } else { 4096 };
            let private = [Some(Private { receive, ..Private::USUAL }), Some(Private::USUAL)];
            *scene = Scene::with_number(scene.fabric.kind, private, 1);
            scene.fabric.frames.splice(0..0, before);
            // Those of the connection before.
            let _ = (scene.xid(), scene.xid());
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/port",
        kinds: &[Kind::Roce],
        conversation: |scene, broken| {
            connect_to_port(scene, if broken { 2049 } else { 20049 });
            let exchange = create_session(scene.xid(), 0, 4096);
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "dialect/rfc5666",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 1024, 1024);
            if !broken {
                return scene.exchange(&exchange);
            }
            // The Reply offers its data in a Read chunk, and the client fetches it. RFC 5666 section 3.5.
            exchange.call.writes.clear();
            exchange.reply.writes.clear();
            let xid = exchange.call.xid;
            let offered = memory(xid, 0, 1024);
            exchange.reply.reads = vec![(exchange.reply.rpc.len() as u32, offered)];
            scene.call(&exchange);
            scene.reply(&exchange);
            scene.fabric.read(Side::Client, offered, &data(1024));
            let mut done = Writer::default();
            done.words(&[xid, 1, 32, 3]);
            scene.fabric.send(Side::Client, &done.bytes);
        },
    },
];
