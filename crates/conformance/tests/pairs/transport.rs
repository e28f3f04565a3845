//! Pairs of the rules in `rules/transport.rs`.

use crate::exchange::Exchange;
use crate::fabric::{Kind, Side};
use crate::scene::{Private, Scene};
use crate::{BOTH, Pair};

const ROCE: &[Kind] = &[Kind::Roce];
const IWARP: &[Kind] = &[Kind::Iwarp];

/// Syndromes of the AETH. InfiniBand Architecture Specification volume 1, section 9.7.5.1.2.
const ACK: u8 = 0x1f;
pub(crate) const RNR_NAK: u8 = 0x20 | 14;
const NAK: u8 = 0x60;

/// A Reply that the client answers with this syndrome.
pub(crate) fn answered(scene: &mut Scene, is_refused: bool, refusal: u8) {
    let exchange = Exchange::getattr3(scene.xid());
    scene.exchange(&exchange);
    let next = scene.fabric.next[Side::Server as usize];
    match is_refused {
        true => scene.fabric.acknowledge(Side::Client, next, refusal),
        false => scene.fabric.acknowledge(Side::Client, next - 1, ACK),
    }
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair { rule: "transport/nak-sequence", kinds: ROCE, conversation: |scene, broken| answered(scene, broken, NAK) },
    Pair {
        rule: "transport/nak-invalid-request",
        kinds: ROCE,
        conversation: |scene, broken| answered(scene, broken, NAK | 1),
    },
    Pair { rule: "transport/nak-access", kinds: ROCE, conversation: |scene, broken| answered(scene, broken, NAK | 2) },
    Pair {
        rule: "transport/nak-operational",
        kinds: ROCE,
        conversation: |scene, broken| answered(scene, broken, NAK | 3),
    },
    Pair {
        rule: "transport/nak-reserved",
        kinds: ROCE,
        conversation: |scene, broken| answered(scene, broken, NAK | 17),
    },
    Pair {
        rule: "transport/receiver-not-ready",
        kinds: ROCE,
        conversation: |scene, broken| answered(scene, broken, RNR_NAK),
    },
    Pair {
        rule: "transport/starting-psn",
        kinds: ROCE,
        conversation: |scene, broken| {
            *scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
            scene.fabric.next[Side::Client as usize] -= if broken { 0x1000 } else { 0 };
            let first = Exchange::getattr3(scene.xid());
            scene.exchange(&first);
        },
    },
    Pair {
        rule: "transport/retransmission",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.exchange(&exchange);
            if broken {
                scene.fabric.repeat(scene.fabric.frames.len() - 1);
            }
        },
    },
    Pair {
        rule: "transport/repeated-read",
        kinds: ROCE,
        conversation: |scene, broken| {
            // Responses of several packets show the path MTU.
            let first = Exchange::write3(scene.xid(), 3000);
            scene.exchange(&first);
            let exchange = Exchange::write3(scene.xid(), 1000);
            scene.call(&exchange);
            let request = scene.fabric.frames.len();
            scene.fetch(&exchange);
            if broken {
                scene.fabric.repeat(request);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/sequence-gap",
        kinds: ROCE,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.call(&exchange);
            // The first of two equal RDMA Writes is lost.
            scene.place(&exchange);
            if broken {
                scene.fabric.frames.pop();
            }
            scene.place(&exchange);
            let last = scene.fabric.next[Side::Server as usize] - 1;
            scene.fabric.acknowledge(Side::Client, last, ACK);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/packet-order",
        kinds: ROCE,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 3000, 3000);
            scene.call(&exchange);
            let first = scene.fabric.frames.len();
            scene.place(&exchange);
            if broken {
                // RDMA Write First becomes RDMA Write Only: the headers are the same, except for the DMA Length.
                scene.fabric.alter(first, |packet| {
                    packet[0] = 10;
                    packet[24..28].copy_from_slice(&1024_u32.to_be_bytes());
                });
            }
            scene.place(&exchange);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/packet-order",
        kinds: ROCE,
        conversation: |scene, broken| {
            // The middle packet of a response with two packets missing: 0x0f after 0x0d.
            let exchange = Exchange::write3(scene.xid(), 3000);
            scene.call(&exchange);
            scene.fetch(&exchange);
            let last = scene.fabric.frames.len() - 1;
            if broken {
                // RDMA Read Response Last becomes Middle, which has no AETH: four bytes more of payload.
                scene.fabric.alter(last, |packet| packet[0] = 14);
            }
            scene.fetch(&exchange);
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/write-length",
        kinds: ROCE,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 3000, 3000);
            scene.call(&exchange);
            let first = scene.fabric.frames.len();
            scene.place(&exchange);
            if broken {
                // DMA Length, the last word of the RETH behind the Base Transport Header.
                scene.fabric.alter(first, |packet| packet[27] += 4);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/write-length",
        kinds: ROCE,
        conversation: |scene, broken| {
            // Fewer bytes announced than sent, in one packet.
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.call(&exchange);
            let first = scene.fabric.frames.len();
            scene.place(&exchange);
            if broken {
                scene.fabric.alter(first, |packet| packet[27] -= 4);
                scene.place(&exchange);
            }
            scene.reply(&exchange);
        },
    },
    Pair {
        rule: "transport/congestion-notification",
        kinds: ROCE,
        conversation: |scene, broken| {
            let exchange = Exchange::read3(scene.xid(), 1000, 1000);
            scene.exchange(&exchange);
            if broken {
                scene.fabric.notify_congestion(Side::Client);
            }
        },
    },
    Pair {
        rule: "transport/congestion-experienced",
        kinds: BOTH,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                scene.fabric.mark_last();
            }
        },
    },
    Pair {
        rule: "transport/icrc",
        kinds: ROCE,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                scene.fabric.damage_last();
            }
        },
    },
    Pair {
        rule: "transport/zero-window",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            scene.fabric.tcp(Side::Client, 0x10, &[]);
            if broken {
                scene.fabric.close_window();
            }
        },
    },
    Pair {
        rule: "transport/terminate",
        kinds: IWARP,
        conversation: |scene, broken| {
            let exchange = Exchange::getattr3(scene.xid());
            scene.exchange(&exchange);
            if broken {
                // Detected by RDMAP: a remote protection error, an invalid STag. RFC 5040 section 4.8.
                scene.fabric.untagged(Side::Server, 7, 2, (0, &[0x01, 0x00, 0, 0]));
            }
        },
    },
];
