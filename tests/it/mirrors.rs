//! Several mirrors that give each packet twice: at once, or some packets later. Bytes count once, and messages have copies.

use nfsrdma_dissectors::flow::transaction::Which;
use nfsrdma_dissectors::frame::Timestamp;

use crate::exhibit::{ALL, named, run, same};
use crate::mutations::Kept;
use crate::witness;

#[test]
fn packets_that_were_captured_twice_add_copies_and_nothing_else() {
    for exhibit in &ALL {
        for behind in [0, 20_000, 200_000, 2_000_000] {
            let said = format!("{}, again {behind} ns later", exhibit.name);
            let again = exhibit
                .frames
                .iter()
                .map(|kept| Kept { time: Timestamp(kept.time.0 + behind), ..kept.clone() });
            let mut order: Vec<_> = exhibit.frames.iter().cloned().chain(again).collect();
            order.sort_by_key(|kept| kept.time);
            let outcome = run((1..).zip(&order));
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
