//! Pairs of the rules in `rules/write_chunks.rs`.

use crate::exchange::{Exchange, Operation, data, divide, memory, rpc_call, rpc_reply};
use crate::sessions::access;
use crate::writer::Memory;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/not-copied",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
            exchange.reply.writes[0][0].offset += if broken { 8 } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/not-copied",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid()).with_reply_chunk(4096);
            if broken {
                exchange.reply.reply = None;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpc/stale-handles",
        kinds: BOTH,
        conversation: |scene, broken| {
            let first = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&first);
            let mut other = scene.second_connection();
            // The same Call in other memory, and a READ that fails: the chunk comes back unused.
            let mut again = Exchange::read3(first.call.xid, 4096, 0);
            again.call.writes[0][0].handle += 0x80;
            again.placed.clear();
            let mut failure = rpc_reply(first.call.xid);
            // NFS3ERR_IO, no attributes.
            failure.words(&[5, 0]);
            again.reply.rpc = failure.bytes;
            let returned = if broken { &first } else { &again }.call.writes[0][0];
            again.reply.writes = vec![vec![Memory { length: 0, ..returned }]];
            scene.on(&mut other, |other| other.exchange(&again));
        },
    },
    Pair {
        rule: "rpcrdma/returned-too-much",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
            let segments = divide(exchange.call.writes[0][0], 2048);
            let lengths = if broken { [2052, 2044] } else { [2048, 2048] };
            let used: Vec<Memory> =
                segments.iter().zip(lengths).map(|(memory, length)| Memory { length, ..*memory }).collect();
            exchange.placed = used.iter().map(|memory| (*memory, data(memory.length.min(2048) as usize))).collect();
            exchange.call.writes = vec![segments];
            exchange.reply.writes = vec![used];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/returned-not-in-order",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 2000);
            let segments = divide(exchange.call.writes[0][0], 2048);
            let lengths = if broken { [1000, 1000] } else { [2000, 0] };
            let used: Vec<Memory> =
                segments.iter().zip(lengths).map(|(memory, length)| Memory { length, ..*memory }).collect();
            exchange.call.writes = vec![segments];
            exchange.placed = used.iter().map(|memory| (*memory, data(memory.length as usize))).collect();
            exchange.reply.writes = vec![used];
            exchange.placed.retain(|(memory, _)| memory.length > 0);
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/returned-not-written",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4096);
            exchange.placed[0].1.truncate(if broken { 4000 } else { 4096 });
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/result-length",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 100, 97);
            if broken {
                exchange.placed[0].1.resize(100, 0);
                exchange.reply.writes[0][0].length = 100;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/item-inline",
        kinds: BOTH,
        conversation: |scene, broken| {
            let xid = scene.xid();
            let mut exchange = Exchange::read3(xid, 1000, 1000);
            if broken {
                exchange.reply.rpc = Exchange::read3_inline(xid, 1000).reply.rpc;
                exchange.reply.writes[0][0].length = 0;
                exchange.placed.clear();
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/item-in-wrong-chunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            // The first READ is at the end of its file. Only several Write chunks can be mistaken for each other.
            let mut exchange = Exchange::reads4(scene.xid(), 100, &[0, 100]);
            if broken {
                exchange.reply.writes[0][0].length = 100;
                exchange.reply.writes[1][0].length = 0;
                exchange.placed[0].0 = exchange.call.writes[0][0];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/empty-not-kept",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3_inline(scene.xid(), 1000);
            exchange.call.writes = vec![Vec::new()];
            exchange.reply.writes = vec![if broken { vec![memory(exchange.call.xid, 0, 0)] } else { Vec::new() }];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/empty-for-one",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3_inline(scene.xid(), 1000);
            if broken {
                exchange.call.writes = vec![Vec::new()];
                exchange.reply.writes = vec![Vec::new()];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/write-list-unneeded",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                let offered = memory(exchange.call.xid, 0, 100);
                exchange.call.writes = vec![vec![offered]];
                exchange.reply.writes = vec![vec![Memory { length: 0, ..offered }]];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/chunk-too-small",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4096, 4000);
            exchange.call.writes[0][0].length = if broken { 4000 } else { 4096 };
            scene.exchange(&exchange);
        },
    },
    // A segment without bytes requests the data inline. RFC 5667 section 5.
    Pair {
        rule: "rpcrdma/chunk-too-small",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3_inline(scene.xid(), 100);
            exchange.call.writes = vec![vec![memory(exchange.call.xid, 0, if broken { 4 } else { 0 })]];
            exchange.reply.writes = vec![vec![Memory { length: 0, ..exchange.call.writes[0][0] }]];
            if broken {
                // The end of the file.
                exchange.reply.rpc = Exchange::read3(exchange.call.xid, 100, 0).reply.rpc;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/chunk-roundup",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4095, 4095);
            exchange.call.writes[0][0].length = if broken { 4096 } else { 4095 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/long-reply-not-used",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3_inline(scene.xid(), 5000);
            scene.exchange(&if broken { exchange.with_reply_chunk(8192) } else { exchange.long_reply(8192) });
        },
    },
    Pair {
        rule: "rpcrdma/reply-chunk-in-msg",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            let payload = exchange.reply.rpc.clone();
            let mut exchange = exchange.long_reply(4096);
            if broken {
                (exchange.reply.proc, exchange.reply.rpc) = (crate::exchange::RDMA_MSG, payload);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/reply-chunk-short",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3_inline(scene.xid(), 8192);
            scene.exchange(&exchange.with_reply_chunk(if broken { 8000 } else { 9000 }).refused());
        },
    },
    // NFSPROC3_READDIR with a count of 8,192 bytes. RFC 1813 section 3.3.16.
    Pair {
        rule: "rpcrdma/reply-chunk-short",
        kinds: BOTH,
        conversation: |scene, broken| {
            let xid = scene.xid();
            let mut call = rpc_call(xid, 100_003, 3, 16);
            call.opaque(b"file handle 1234").hyper(0).hyper(0).words(&[8192]);
            let list = Exchange::new(xid, call, rpc_reply(xid));
            scene.exchange(&list.with_reply_chunk(if broken { 8000 } else { 9000 }).refused());
        },
    },
    Pair {
        rule: "rpcrdma/reply-chunk-unneeded",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3_inline(scene.xid(), if broken { 3000 } else { 5000 });
            scene.exchange(&exchange.long_reply(8192));
        },
    },
    // A Reply of ca_maxresponsesize, 8,192 bytes, fits into the Reply chunk of 12 segments; or it does not.
    Pair {
        rule: "rpcrdma/simple-refused",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            let request = access(Operation::sequence(0, 2), 1);
            let length = if broken { 8192 } else { 8184 };
            let mut exchange = request.exchange(scene.xid()).with_reply_chunk(length);
            let offered = exchange.call.reply.iter().flatten().flat_map(|memory| divide(*memory, 683));
            exchange.call.reply = Some(offered.collect());
            scene.exchange(&exchange.refused());
        },
    },
    Pair {
        rule: "rpcrdma/ranges-overlap",
        kinds: BOTH,
        conversation: |scene, broken| {
            let first = Exchange::read3(scene.xid(), 4096, 4096);
            let mut second = Exchange::read3(scene.xid(), 4096, 4096);
            let before = first.call.writes[0][0];
            let shared = Memory { offset: before.offset + if broken { 2048 } else { 4096 }, ..before };
            second.call.writes = vec![vec![shared]];
            second.reply.writes = vec![vec![shared]];
            second.placed[0].0 = shared;
            scene.call(&first);
            scene.call(&second);
            for exchange in [first, second] {
                scene.place(&exchange);
                scene.reply(&exchange);
            }
        },
    },
    Pair {
        rule: "rpcrdma/too-complex",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::reads4(scene.xid(), 1700, &[1700]);
            let segments = divide(exchange.call.writes[0][0], if broken { 100 } else { 110 });
            exchange.placed = segments.iter().map(|memory| (*memory, data(memory.length as usize))).collect();
            exchange.call.writes = vec![segments.clone()];
            exchange.reply.writes = vec![segments];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/retry-same-xid",
        kinds: BOTH,
        conversation: |scene, broken| {
            let xid = scene.xid();
            scene.exchange(&Exchange::getattr3(xid).with_reply_chunk(16).refused());
            let again = if broken { xid } else { scene.xid() };
            scene.exchange(&Exchange::getattr3(again).with_reply_chunk(4096));
        },
    },
];
