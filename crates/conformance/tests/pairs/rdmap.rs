//! Pairs of the rules in `rules/rdmap.rs`. Messages that a rule breaks are sent once more than necessary, so that
//! nothing is missing without them.

use crate::Pair;
use crate::exchange::{Exchange, data};
use crate::fabric::{Fabric, Kind, Side};
use crate::scene::{Private, STARTUP_FLAGS, Scene, startup};
use crate::writer::Memory;

const IWARP: &[Kind] = &[Kind::Iwarp];

/// Opcodes. RFC 5040 section 4.1.
const READ_REQUEST: u8 = 1;
const READ_RESPONSE: u8 = 2;
const SEND: u8 = 3;
const IMMEDIATE_EVENT: u8 = 9;

/// A read of `length` bytes whose data is placed twice. `change` is applied to frame `at` of the first time.
fn placed_twice(scene: &mut Scene, length: u32, at: usize, broken: bool, change: fn(&mut [u8])) {
    let exchange = Exchange::read3(scene.xid(), length, length);
    scene.call(&exchange);
    let first = scene.fabric.frames.len();
    scene.place(&exchange);
    if broken {
        scene.fabric.alter(first + at, change);
    }
    scene.place(&exchange);
    scene.reply(&exchange);
}

/// A READ whose data is placed twice; the ULPDU_Length of the first time is wrong by `difference`. The CRC covers it if
/// `is_covered`.
fn wrong_length(scene: &mut Scene, broken: bool, difference: i8, is_covered: bool) {
    let exchange = Exchange::read3(scene.xid(), 1000, 1000);
    scene.call(&exchange);
    let first = scene.fabric.frames.len();
    scene.place(&exchange);
    let change = |fpdu: &mut [u8]| fpdu[1] = fpdu[1].wrapping_add_signed(difference);
    match (broken, is_covered) {
        (true, true) => scene.fabric.alter(first, change),
        // The payload of a TCP segment begins at byte 54.
        (true, false) => change(&mut scene.fabric.frames[first][54..]),
        (false, _) => {}
    }
    scene.place(&exchange);
    scene.reply(&exchange);
}

/// A Send without bytes, which a change breaks.
fn empty_send(scene: &mut Scene, broken: bool, change: fn(&mut [u8])) {
    scene.fabric.untagged(Side::Client, SEND, 0, (0, &[]));
    if broken {
        scene.fabric.alter(scene.fabric.frames.len() - 1, change);
    }
}

/// A connection with private data of eight bytes, and a change of the start-up frame of the client or of the server.
fn startup_frame(scene: &mut Scene, broken: bool, side: usize, change: fn(&mut [u8])) {
    /// Offset of the payload of a TCP segment.
    const PAYLOAD: usize = 54;
    *scene = Scene::with_private_data(Kind::Iwarp, [Some(Private::USUAL); 2]);
    if broken {
        // Behind SYN and SYN with ACK.
        change(&mut scene.fabric.frames[2 + side][PAYLOAD..]);
    }
    let first = Exchange::getattr3(scene.xid());
    scene.exchange(&first);
}

/// Sends an RDMA Read Request. RFC 5040 section 4.4.
fn request_read(scene: &mut Scene, sink: (u32, u64), memory: Memory) {
    let mut request = sink.0.to_be_bytes().to_vec();
    request.extend(sink.1.to_be_bytes());
    request.extend(memory.length.to_be_bytes());
    request.extend(memory.handle.to_be_bytes());
    request.extend(memory.offset.to_be_bytes());
    scene.fabric.untagged(Side::Server, READ_REQUEST, 1, (0, &request));
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rdmap/crc",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.call(&exchange);
            scene.place(&exchange);
            if broken {
                scene.fabric.damage_last();
            }
            scene.place(&exchange);
            scene.reply(&exchange);
        },
    },
    // ULPDU_Length of an RDMA Read Request, changed behind its sender.
    Pair {
        rule: "rdmap/framing",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 1000);
            scene.call(&exchange);
            let first = scene.fabric.frames.len();
            scene.fetch(&exchange);
            if broken {
                scene.fabric.frames[first][55] += 4;
            }
            scene.fetch(&exchange);
            scene.reply(&exchange);
        },
    },
    // ULPDU_Length of an RDMA Write with CRCs: of the sender, whose CRC covers it, and changed behind the sender.
    Pair { rule: "rdmap/framing", kinds: IWARP, conversation: |scene, broken| wrong_length(scene, broken, -4, true) },
    Pair { rule: "rdmap/framing", kinds: IWARP, conversation: |scene, broken| wrong_length(scene, broken, 4, true) },
    Pair { rule: "rdmap/framing", kinds: IWARP, conversation: |scene, broken| wrong_length(scene, broken, -4, false) },
    Pair { rule: "rdmap/framing", kinds: IWARP, conversation: |scene, broken| wrong_length(scene, broken, 8, false) },
    // ULPDU_Length of an RDMA Write, without CRCs.
    Pair {
        rule: "rdmap/framing",
        kinds: IWARP,
        conversation: |scene, broken| {
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [0; 2]);
            scene.exchange(&Exchange::getattr3(0x100));
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.call(&exchange);
            let first = scene.fabric.frames.len();
            scene.place(&exchange);
            if broken {
                scene.fabric.alter(first, |fpdu| fpdu[1] -= 4);
            }
            scene.place(&exchange);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rdmap/marker",
        kinds: IWARP,
        conversation: |scene, broken| {
            // The M bit of the client, and no markers of the server.
            let flags = if broken { 0xc0 } else { 0x40 };
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [flags, STARTUP_FLAGS]);
        },
    },
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            // A reserved bit.
            let flags = if broken { 0x41 } else { 0x40 };
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [flags, STARTUP_FLAGS]);
        },
    },
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            // The S bit of RFC 6581 section 6, which needs revision 2.
            let flags = if broken { 0x50 } else { 0x40 };
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [flags, STARTUP_FLAGS]);
        },
    },
    // The revision of the MPA Reply.
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| startup_frame(scene, broken, 1, |frame| frame[17] = 2),
    },
    // The S bit in an MPA Reply, and the revision that it needs.
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            startup_frame(scene, broken, 1, |frame| (frame[16], frame[17]) = (frame[16] | 0x10, 0));
        },
    },
    // The R bit of the MPA Request.
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            let flags = if broken { 0x60 } else { 0x40 };
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [flags, STARTUP_FLAGS]);
        },
    },
    // The R bit of the MPA Reply, on a connection that both sides use.
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            let flags = if broken { 0x60 } else { 0x40 };
            *scene = Scene::with_startup_flags(Kind::Iwarp, [Some(Private::USUAL); 2], [STARTUP_FLAGS, flags]);
        },
    },
    // 512 bytes of private data, or more, on a connection that both sides use.
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| {
            scene.fabric = Fabric::without_set_up(Kind::Iwarp, 1024);
            scene.fabric.tcp(Side::Client, 0x02, &[]);
            scene.fabric.tcp(Side::Server, 0x12, &[]);
            let private = vec![0; if broken { 600 } else { 512 }];
            startup(&mut scene.fabric, Side::Client, b"MPA ID Req Frame", STARTUP_FLAGS, &private);
            startup(&mut scene.fabric, Side::Server, b"MPA ID Rep Frame", STARTUP_FLAGS, &[]);
        },
    },
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| startup_frame(scene, broken, 0, |frame| frame[19] += 4),
    },
    Pair {
        rule: "rdmap/startup",
        kinds: IWARP,
        conversation: |scene, broken| startup_frame(scene, broken, 1, |frame| frame[19] += 4),
    },
    Pair {
        rule: "rdmap/responder-first",
        kinds: IWARP,
        conversation: |scene, broken| {
            *scene = Scene::with_private_data(Kind::Iwarp, [Some(Private::USUAL); 2]);
            let first = if broken { Side::Server } else { Side::Client };
            scene.fabric.untagged(first, SEND, 0, (0, &[]));
        },
    },
    Pair {
        rule: "rdmap/version",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[2] ^= 0x03),
    },
    Pair {
        rule: "rdmap/version",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[3] |= 0x80),
    },
    Pair {
        rule: "rdmap/reserved-bits",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[3] |= 0x10),
    },
    // PAD of an FPDU whose ULPDU has 1015 bytes.
    Pair {
        rule: "rdmap/reserved-bits",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1001, 0, broken, |fpdu| fpdu[2 + 1015] = 0x55),
    },
    Pair {
        rule: "rdmap/reserved-bits",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1001, 1001);
            scene.call(&exchange);
            scene.place(&exchange);
            if broken {
                scene.fabric.alter(scene.fabric.frames.len() - 1, |fpdu| fpdu[2 + 1015 + 2] = 0x55);
            }
            // The padding is in two segments of TCP.
            let frame = scene.fabric.frames.pop().unwrap();
            let (first, second) = frame[54..].split_at(2 + 1015 + 1);
            scene.fabric.next[Side::Server as usize] -= frame[54..].len() as u32;
            scene.fabric.tcp(Side::Server, 0x10, first);
            scene.fabric.tcp(Side::Server, 0x18, second);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rdmap/reserved-bits",
        kinds: IWARP,
        conversation: |scene, broken| {
            // A receiver ignores the bits: the Call, its data and its Reply are there.
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            for send in [Scene::call, Scene::place, Scene::reply] {
                let first = scene.fabric.frames.len();
                send(scene, &exchange);
                if broken {
                    scene.fabric.alter(first, |fpdu| fpdu[2] |= 0x04);
                }
            }
        },
    },
    Pair {
        rule: "rdmap/opcode",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[3] |= 0x0c),
    },
    Pair {
        rule: "rdmap/tagged",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[2] &= !0x80),
    },
    Pair {
        rule: "rdmap/queue",
        kinds: IWARP,
        conversation: |scene, broken| empty_send(scene, broken, |fpdu| fpdu[11] = 1),
    },
    Pair {
        rule: "rdmap/header-length",
        kinds: IWARP,
        conversation: |scene, broken| {
            // A request for no bytes.
            let length = if broken { 32 } else { 28 };
            scene.fabric.untagged(Side::Server, READ_REQUEST, 1, (0, &vec![0; length]));
            scene.fabric.tagged(Side::Client, READ_RESPONSE, 0, 0, &[]);
        },
    },
    // Immediate Data with SE (RFC 7306 section 6) instead of a Send.
    Pair {
        rule: "rdmap/header-length",
        kinds: IWARP,
        conversation: |scene, broken| {
            scene.fabric.untagged(Side::Client, SEND, 0, (0, &[]));
            let length = if broken { 12 } else { 8 };
            scene.fabric.untagged(Side::Client, IMMEDIATE_EVENT, 0, (0, &vec![0; length]));
        },
    },
    // A ULPDU_Length that leaves no room for the headers that follow it.
    Pair {
        rule: "rdmap/framing",
        kinds: IWARP,
        conversation: |scene, broken| {
            placed_twice(scene, 1000, 0, broken, |fpdu| fpdu[..2].copy_from_slice(&[0, 3]));
        },
    },
    Pair {
        rule: "rdmap/message-number",
        kinds: IWARP,
        conversation: |scene, broken| {
            scene.fabric.messages[Side::Client as usize][0] += u32::from(broken);
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "rdmap/message-number",
        kinds: IWARP,
        conversation: |scene, broken| {
            // The first number of a connection.
            *scene = Scene::with_private_data(Kind::Iwarp, [Some(Private::USUAL); 2]);
            scene.fabric.messages[Side::Client as usize][0] = u32::from(!broken);
        },
    },
    Pair {
        rule: "rdmap/message-offset",
        kinds: IWARP,
        conversation: |scene, broken| empty_send(scene, broken, |fpdu| fpdu[19] = 4),
    },
    Pair {
        rule: "rdmap/tagged-offset",
        kinds: IWARP,
        conversation: |scene, broken| placed_twice(scene, 3000, 1, broken, |fpdu| fpdu[15] += 4),
    },
    Pair {
        rule: "rdmap/last-segment",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.call(&exchange);
            scene.place(&exchange);
            if broken {
                scene.fabric.alter(scene.fabric.frames.len() - 1, |fpdu| fpdu[2] &= !0x40);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rdmap/response-sink",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 1000);
            scene.call(&exchange);
            scene.fetch(&exchange);
            if broken {
                scene.fabric.tagged(Side::Client, READ_RESPONSE, 0x66, 0x1000, &data(100));
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rdmap/response-order",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 1000);
            scene.call(&exchange);
            let (memory, bytes) = &exchange.fetched[0];
            let half = |at: u64| Memory { offset: memory.offset + at, length: 500, ..*memory };
            request_read(scene, (0x77, 0x1000), half(0));
            request_read(scene, (0x88, 0x2000), half(500));
            let mut responses = [(0x77, 0x1000, &bytes[..500]), (0x88, 0x2000, &bytes[500..])];
            if broken {
                responses.reverse();
            }
            for (stag, offset, bytes) in responses {
                scene.fabric.tagged(Side::Client, READ_RESPONSE, stag, offset, bytes);
            }
            if broken {
                scene.fetch(&exchange);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "rdmap/response-length",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::write3(scene.xid(), 1000);
            scene.call(&exchange);
            let (memory, bytes) = &exchange.fetched[0];
            request_read(scene, (0x77, 0x1000), *memory);
            let length = if broken { 996 } else { 1000 };
            scene.fabric.tagged(Side::Client, READ_RESPONSE, 0x77, 0x1000, &bytes[..length]);
            scene.fetch(&exchange);
            scene.reply(&exchange);
        },
    },
];
