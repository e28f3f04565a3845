//! Whole captures, side by side.

use super::recorder::Recorder;
use super::selection::Selection;
use super::*;
use crate::testing::transactions;

fn compared(a: &str, b: &str) -> Comparison {
    let mut recorder = Recorder::default();
    let mut comparison = Comparison::new(Selection::default(), 1_000);
    for (side, name) in [(Side::A, a), (Side::B, b)] {
        for transaction in transactions(name) {
            let client =
                Client { address: transaction.connection.client.address, direction: transaction.direction };
            comparison.push(side, client, recorder.record(&transaction));
        }
    }
    comparison.finish();
    comparison
}

#[test]
fn a_capture_does_not_differ_from_itself() {
    for name in ["rxe-v3.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap", "rxe-v42-loss.pcap"] {
        let comparison = compared(name, name);
        assert_eq!(comparison.differences(), [], "{name}");
        assert!(comparison.pairs() > 30 && comparison.compared().fields > 500, "{name}");
    }
}
