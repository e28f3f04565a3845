//! Clocks that jump: the Transactions do not change, only valid latencies are reported, and nothing waits for a time
//! that never comes.

use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::{Flow, FlowLimits};

use crate::independent_decoder;
use crate::loss_comparison::{ALL, Exhibit, named, run, same};
use crate::mutations::Kept;

const SECOND: i64 = 1_000_000_000;

/// Returns the frames of a capture whose clock jumps before one of them.
fn jumped(exhibit: &Exhibit, at: usize, by: i64) -> Vec<Kept> {
    let mut frames = exhibit.frames.clone();
    frames[at..].iter_mut().for_each(|kept| kept.time = Timestamp(kept.time.0 + by));
    frames
}

const JUMPS: [i64; 5] = [-3600 * SECOND, -SECOND, -SECOND / 1000, SECOND, 3600 * SECOND];

#[test]
fn a_clock_that_jumps_changes_no_transaction_but_its_times() {
    for exhibit in &ALL {
        for by in JUMPS {
            for at in (1..exhibit.frames.len()).step_by(exhibit.frames.len() / 9) {
                let said = format!("{}: {by} ns before frame {}", exhibit.name, at + 1);
                let outcome = run((1..).zip(&jumped(exhibit, at, by)));
                assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
                let found = named(&outcome.transactions, &said);
                assert_eq!(found.len(), exhibit.transactions.len(), "{said}");
                for before in &exhibit.transactions {
                    let now = found[&independent_decoder::name(before)];
                    same(now, before, false, &said);
                    let (call, reply) = (now.call.as_ref().unwrap(), now.reply.as_ref().unwrap());
                    let passed = reply.end_time.0 - call.time.0;
                    assert_eq!(now.latency_ns(), u64::try_from(passed).ok(), "{said}: {}", now.xid);
                    assert_eq!(now.phases().is_some(), passed >= 0, "{said}: {}", now.xid);
                }
            }
        }
    }
}

/// A minute after the last frame, by the clock valid then, only pending Transactions are left: holes are skipped, and
/// complete Transactions are emitted.
#[test]
fn no_transaction_waits_for_a_clock_that_went_back() {
    for exhibit in &ALL {
        for by in JUMPS {
            // With a frame lost, so that there may be a hole; the clock jumps soon after.
            for lost in (0..exhibit.frames.len()).step_by(exhibit.frames.len() / 12 + 1) {
                let at = (lost + 3).min(exhibit.frames.len() - 1);
                let said = format!("{}: without frame {}, {by} ns before {}", exhibit.name, lost + 1, at + 1);
                let frames = jumped(exhibit, at, by);
                let mut flow = Flow::new(FlowLimits::default());
                let numbered = (1..).zip(&frames).filter(|(number, _)| *number != lost as u64 + 1);
                for (number, kept) in numbered {
                    flow.process_frame(&kept.frame(number));
                }
                let last = frames.last().unwrap().time;
                let arp = [[0xff; 12].as_slice(), &[8, 6], &[0; 46]].concat();
                for minutes in 1..=2 {
                    let time = Timestamp(last.0 + 60 * minutes * SECOND);
                    let kept = Kept { time, link: frames[0].link, length: arp.len() as u32, bytes: arp.clone() };
                    flow.process_frame(&kept.frame(1_000_000 + minutes as u64));
                }
                while flow.next_transaction().is_some() {}
                flow.finish();
                while let Some(late) = flow.next_transaction() {
                    assert!(late.reply.is_none(), "{said}: {} waited: {:?}", late.xid, late.missing_parts());
                }
            }
        }
    }
}
