//! Several mirrors that give each packet twice: at once, or some packets later. Bytes count once, and messages have copies.

use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::frame::Timestamp;

use crate::exhibit::{ALL, named, run, same};
use crate::mutations::Kept;
use crate::witness;

/// Each frame, and again as many nanoseconds later.
fn twice(frames: &[Kept], behind: i64) -> Vec<Kept> {
    let again = { frames.iter() }.map(|kept| Kept { time: Timestamp(kept.time.0 + behind), ..kept.clone() });
    let mut order: Vec<_> = frames.iter().cloned().chain(again).collect();
    order.sort_by_key(|kept| kept.time);
    order
}

#[test]
fn packets_that_were_captured_twice_add_copies_and_nothing_else() {
    for exhibit in &ALL {
        for behind in [0, 20_000, 200_000, 2_000_000] {
            let said = format!("{}, again {behind} ns later", exhibit.name);
            let outcome = run((1..).zip(&twice(&exhibit.frames, behind)));
            assert!(outcome.undecoded.is_empty(), "{said}: {:?}", outcome.undecoded);
            let found = named(&outcome.transactions, &said);
            assert_eq!(found.len(), exhibit.transactions.len(), "{said}");
            for before in &exhibit.transactions {
                let now = found[&witness::name(before)];
                same(now, before, false, &said);
                for which in [Which::Call, Which::Reply] {
                    let copies = now.message(which).map(|message| message.copies);
                    assert_eq!(copies, Some(2), "{said}: {which:?} of {}", now.xid);
                    let frames =
                        |t: &nfsrdma_dissectors::flow::Transaction| t.message(which).unwrap().frames.len();
                    assert_eq!(frames(now), 2 * frames(before), "{said}: {which:?} of {}", now.xid);
                }
            }
        }
    }
}

/// Longer than connections and Transactions last: messages are copies where their Transactions have not been given out yet, and
/// bytes without meaning where they have.
#[test]
fn packets_that_were_captured_again_much_later_invent_nothing() {
    for exhibit in &ALL {
        for behind in [5_000_000, 10_000_000, 100_000_000] {
            let said = format!("{}, again {behind} ns later", exhibit.name);
            let outcome = run((1..).zip(&twice(&exhibit.frames, behind)));
            let found = named(&outcome.transactions, &said);
            assert_eq!(found.len(), exhibit.transactions.len(), "{said}: {:?}", outcome.undecoded);
            for before in &exhibit.transactions {
                same(found[&witness::name(before)], before, false, &said);
            }
        }
    }
}
