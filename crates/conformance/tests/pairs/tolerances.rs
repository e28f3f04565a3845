//! Violations within the time by which a capture of several queues may reorder packets: they are not judged.

use nfsrdma_conformance::RuleTally;
use nfsrdma_dissectors::captured_frame::Timestamp;

use crate::access::parallel_reads;
use crate::credits::{grant, overlap, two_reads};
use crate::exchange::{Exchange, data, memory};
use crate::fabric::Kind;
use crate::scene::{Private, Scene};
use crate::writer::Memory;
use crate::{BOTH, broken_rules, describe, frame_time, judge};

/// Time of a frame in a conversation whose frames from `first` on are `gap_ns` apart.
fn dense_time(number: u64, first: u64, gap_ns: i64) -> Timestamp {
    let Timestamp(start) = frame_time(first.min(number));
    Timestamp(start + number.saturating_sub(first) as i64 * gap_ns)
}

/// Asserts that no rule is broken. Returns the judgements of `rule`.
fn judgements(frames: &[Vec<u8>], time: impl Fn(u64) -> Timestamp, rule: &str) -> RuleTally {
    let (found, tallies) = judge(frames, time);
    assert!(broken_rules(&found, rule).is_empty(), "{rule}: {:#?}", describe(&found));
    tallies[rule]
}

/// Asserts that a conversation breaks a rule if its frames are 2 ms apart, and that it is not judged once if the frames
/// from `first` on are `gap_ns` apart.
fn assert_not_judged_once(rule: &str, frames: &[Vec<u8>], first: usize, gap_ns: i64) {
    let (found, certain) = judge(frames, frame_time);
    assert!(broken_rules(&found, rule).contains(rule), "{rule}: {:#?}", describe(&found));
    let dense = judgements(frames, |number| dense_time(number, first as u64, gap_ns), rule);
    let expected = RuleTally {
        findings: 0,
        judged: certain[rule].judged - certain[rule].findings,
        not_judged: certain[rule].not_judged + certain[rule].findings,
    };
    assert_eq!(dense, expected, "{rule}");
}

/// Over iWARP, acknowledgements of TCP show the order: nothing is tolerated.
#[test]
fn calls_just_before_a_reply() {
    let mut scene = Scene::new(Kind::Roce);
    grant(&mut scene, 1);
    let first = scene.fabric.frames.len();
    let exchanges = two_reads(&mut scene, 1);
    overlap(&mut scene, &exchanges);
    assert_not_judged_once("rpcrdma/credit-exceeded", &scene.frames(), first, 5_000);
}

#[test]
fn calls_just_before_the_first_reply() {
    let mut scene = Scene::with_private_data(Kind::Roce, [Some(Private::USUAL); 2]);
    let exchanges = two_reads(&mut scene, 32);
    let first = scene.fabric.frames.len();
    overlap(&mut scene, &exchanges);
    assert_not_judged_once("rpcrdma/first-call", &scene.frames(), first, 5_000);
}

#[test]
fn memory_offered_just_before_a_reply() {
    for kind in BOTH {
        let mut scene = Scene::new(*kind);
        let [first, mut second] = [(); 2].map(|()| Exchange::read3(scene.xid(), 1024, 1024));
        let shared = first.call.writes[0][0];
        second.call.writes = vec![vec![shared]];
        second.reply.writes = vec![vec![shared]];
        second.placed[0].0 = shared;
        scene.call(&first);
        scene.place(&first);
        let dense = scene.fabric.frames.len();
        scene.call(&second);
        scene.reply(&first);
        scene.place(&second);
        scene.reply(&second);
        assert_not_judged_once("rpcrdma/ranges-overlap", &scene.frames(), dense, 500_000);
    }
}

#[test]
fn reads_just_before_a_response() {
    let mut scene = Scene::new(Kind::Roce);
    let first = scene.fabric.frames.len() + 17;
    parallel_reads(&mut scene, 17, 17);
    assert_not_judged_once("rpcrdma/reads-in-flight", &scene.frames(), first, 5_000);
}

/// After the access, its receiver sends nothing, or only at once.
#[test]
fn accesses_at_the_end_of_a_capture() {
    for kind in BOTH {
        for has_answer in [false, true] {
            let mut scene = Scene::new(*kind);
            let exchange = Exchange::read3(scene.xid(), 4096, 4096);
            scene.call(&exchange);
            scene.place(&exchange);
            let first = scene.fabric.frames.len();
            scene.fabric.write(Memory { handle: 0x7777_0000, ..memory(1, 0, 100) }, &data(100));
            scene.reply(&exchange);
            if has_answer {
                let next = Exchange::getattr3(scene.xid());
                scene.call(&next);
            }
            let rule = "rpcrdma/handle-unknown";
            let frames = std::mem::take(&mut scene.fabric.frames);
            let tally = judgements(&frames, |number| dense_time(number, first as u64, 100_000), rule);
            assert_eq!((tally.findings, tally.not_judged), (0, 1), "{kind:?} {has_answer}");
        }
    }
}
