//! Generated conversations are valid: no rule blames a side for the order of a Read list, for several chunks of one
//! Position, for RDMA Writes that are repeated after the reply, or for one memory region that all calls share.

#![allow(dead_code, reason = "the generator is shared with the dissectors")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "a test says what is wrong by panicking, and writes small numbers"
)]

#[path = "../../flow/tests/conversations/calls.rs"]
mod calls;
mod common;
#[path = "../../flow/tests/conversations/fabric.rs"]
mod fabric;
#[path = "../../flow/tests/conversations/headers.rs"]
mod headers;
#[path = "../../flow/tests/conversations/speech.rs"]
mod speech;
#[path = "../../flow/tests/conversations/writer.rs"]
mod writer;

use std::collections::BTreeMap;

use nfsrdma_conformance::ReportedFindingSeverity;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};

use calls::{Conversation, Dice, Region};
use fabric::{Fabric, Kind};
use headers::Dialect;

/// Rules that the generator breaks on purpose: Sends and Write chunks have any length, some chunks are returned without
/// segments, calls do not wait for a grant, and packets are lost.
const EXPECTED: &[&str] = &[
    "rpcrdma/chunk-too-small",
    "rpcrdma/first-call",
    "rpcrdma/long-reply-not-used",
    "rpcrdma/not-copied",
    "rpcrdma/send-too-long",
    "transport/nak-sequence",
];

fn faults(seed: u64, kind: Kind, region: &mut Region, count: u32) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let conversations: Vec<_> =
        (0..count).map(|at| Conversation::roll(&mut dice, Dialect::Rfc8166, 0x4000_0000 + at, region)).collect();
    let mut fabric = Fabric::new(kind, [256, 512, 1024][dice.below(3)]);
    speech::speak(&mut dice, &conversations, &mut fabric);
    let frames = fabric.frames.iter().enumerate().map(|(at, bytes)| Frame {
        number: FrameNumber(at as u64 + 1),
        time: Timestamp(1_700_000_000_000_000_000 + at as i64 * 1_000_000),
        link: LinkType::ETHERNET,
        bytes,
        length: bytes.len() as u32,
    });
    let (findings, _) = common::judge(frames, drop);
    let faults = findings.iter().filter(|finding| finding.severity > ReportedFindingSeverity::Known);
    let faults = faults.filter(|finding| !EXPECTED.contains(&finding.rule.id));
    faults.map(|finding| format!("{} {}: {}", finding.rule.id, finding.side, finding.text)).collect()
}

#[test]
fn generated_conversations_break_no_rule() {
    let count = std::env::var("CONVERSATIONS").map_or(2000, |text| text.parse().unwrap());
    let mut all: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for seed in 0..count / 400 {
        for kind in [Kind::Roce, Kind::Iwarp] {
            let shared = Region::One { handle: 0x1efe_b624, free: 0, length: 64 << 20, distance: 1 };
            let regions = [Region::Each(0x1000), shared];
            for mut region in regions {
                for fault in faults(seed, kind, &mut region, 100) {
                    let rule = fault.split(':').next().unwrap().to_owned();
                    all.entry(rule).or_insert((0, format!("seed {seed} {kind:?} {region:?}: {fault}"))).0 += 1;
                }
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}
