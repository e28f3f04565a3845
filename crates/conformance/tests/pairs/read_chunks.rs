//! Pairs of the rules in `rules/read_chunks.rs`.

use crate::exchange::{Exchange, memory};
use crate::writer::Memory;
use crate::{BOTH, Pair};

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rpcrdma/reply-read-list",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                exchange.reply.reads = vec![(24, memory(exchange.call.xid, 0, 4))];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/position-unaligned",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096).garbage_args();
            exchange.call.reads[0].0 += if broken { 2 } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/position-zero",
        kinds: BOTH,
        conversation: |scene, broken| {
            // A Long Call whose chunk has two segments.
            let mut exchange = Exchange::getattr3(scene.xid()).long_call();
            let (whole, content) = exchange.fetched.remove(0);
            let first = Memory { length: 48, ..whole };
            let second = Memory { length: whole.length - 48, ..memory(exchange.call.xid, 1, 0) };
            exchange.call.reads = vec![(0, first), (if broken { 48 } else { 0 }, second)];
            exchange.fetched = vec![(first, content[..48].to_vec()), (second, content[48..].to_vec())];
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/position-zero",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096).long_call();
            if broken {
                let (_, content) = &exchange.fetched[0];
                (exchange.call.proc, exchange.call.rpc) = (crate::exchange::RDMA_MSG, content.clone());
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/position-no-item",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096).garbage_args();
            exchange.call.reads[0].0 -= if broken { 4 } else { 0 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/position-order",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096).long_call();
            if broken {
                exchange.call.reads.reverse();
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/item-length",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            if broken {
                exchange.call.reads[0].1.length -= 4;
                exchange.fetched[0].1.truncate(4092);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/roundup-in-chunk",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4095);
            if broken {
                exchange.call.reads[0].1.length += 1;
                exchange.fetched[0].1.push(0);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/roundup-left",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4095);
            if broken {
                exchange.call.rpc.push(0);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/roundup-left",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3(scene.xid(), 4095, 4095);
            if broken {
                exchange.reply.rpc.push(0);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/long-roundup",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            // The length of a file handle of 14 bytes, and two bytes of roundup.
            exchange.call.rpc.truncate(40);
            exchange.call.rpc.extend([&[0, 0, 0, 14][..], &[7; 14], if broken { &[] } else { &[0, 0] }].concat());
            scene.exchange(&exchange.long_call());
        },
    },
    Pair {
        rule: "rpcrdma/long-roundup",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::read3_inline(scene.xid(), 4094);
            if broken {
                let length = exchange.reply.rpc.len() - 2;
                exchange.reply.rpc.truncate(length);
            }
            scene.exchange(&exchange.long_reply(8192));
        },
    },
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            if broken {
                exchange.fetched.clear();
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            if broken {
                exchange.fetched[0].1.truncate(2048);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            // A chunk of two segments.
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            let (position, whole) = exchange.call.reads[0];
            let (first, second) = exchange.fetched[0].1.split_at(2000);
            let segments =
                [Memory { length: 2000, ..whole }, Memory { length: 2096, ..memory(exchange.call.xid, 1, 0) }];
            let fetched = vec![(segments[0], first.to_vec()), (segments[1], second.to_vec())];
            exchange.call.reads = segments.map(|segment| (position, segment)).to_vec();
            exchange.fetched = fetched;
            if broken {
                exchange.fetched.pop();
            }
            scene.exchange(&exchange);
        },
    },
    // Of 4,096 bytes, 1,000 were written. RFC 1813 section 3.3.7.
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            exchange.reply.rpc[36..40].copy_from_slice(&u32::to_be_bytes(1000));
            exchange.fetched[0].1.truncate(if broken { 996 } else { 1000 });
            scene.exchange(&exchange);
        },
    },
    // A Long Call: without it, the procedure is unknown. RFC 8166 section 3.5.3.
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid()).long_call();
            if broken {
                exchange.fetched.clear();
            }
            scene.exchange(&exchange);
        },
    },
    // NFS3ERR_BADHANDLE of a filehandle that was not read.
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid()).long_call();
            if broken {
                exchange.fetched[0].1.truncate(40);
            }
            scene.exchange(&exchange);
        },
    },
    // A second chunk, for which there is no data item: the server need not read it.
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.accepted.push("rpcrdma/position-no-item");
            let mut exchange = Exchange::write3(scene.xid(), 1000);
            exchange.call.reads.push((1080, memory(exchange.call.xid, 1, 64)));
            if broken {
                exchange.fetched.clear();
            }
            scene.exchange(&exchange);
        },
    },
    // The roundup of the first item is apart from it in the list: RFC 8166 section 3.4.5.
    Pair {
        rule: "rpcrdma/read-missing",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.accepted.extend(["rpcrdma/position-no-item", "rpcrdma/roundup-in-chunk"]);
            let mut exchange = Exchange::write3(scene.xid(), 4093);
            let (position, _) = exchange.call.reads[0];
            exchange.call.reads.push((position + 4096, memory(exchange.call.xid, 1, 64)));
            exchange.call.reads.push((position, memory(exchange.call.xid, 2, 3)));
            if broken {
                exchange.fetched[0].1.truncate(4090);
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "nfs/not-eligible",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::getattr3(scene.xid());
            if broken {
                let offered = memory(exchange.call.xid, 0, 16);
                let handle = exchange.call.rpc.split_off(44);
                exchange.call.reads = vec![(44, offered)];
                exchange.fetched = vec![(offered, handle)];
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "nfs/not-eligible",
        kinds: BOTH,
        conversation: |scene, broken| {
            // Results of READ in a chunk that was offered for GETATTR.
            let mut exchange = Exchange::read3(scene.xid(), 64, 64);
            if broken {
                exchange.call.rpc = Exchange::getattr3(exchange.call.xid).call.rpc;
            }
            scene.exchange(&exchange);
        },
    },
];
