use nfsrdma_analysis::load_over_time::CreditSeries;

use super::transactions;
use crate::output::connections::{describe_use, grants_text};
use crate::output::style::Glyphs;

/// As elsewhere, the unit of microseconds is that of the screen.
#[test]
fn time_at_limit_has_the_screen_unit() {
    let mut series = CreditSeries::default();
    let mut transaction =
        transactions("rxe-v42.pcap").into_iter().find(|transaction| transaction.reply.is_some()).unwrap();
    let used = &mut transaction.credit_use;
    (used.in_flight, used.granted, used.at_limit_ns) = (16, Some(16), 15_000);
    series.transaction(&transaction);
    for (glyphs, time) in [(Glyphs::UNICODE, "15.0 µs"), (Glyphs::ASCII, "15.0 us")] {
        let text = describe_use("credits", &series, glyphs);
        assert_eq!(text, format!("credits: at most 16 in use of 16 granted, at the limit for {time}"));
    }
}

/// RFC 8166 section 3.3.1: the limit that was reached, if it is not that of the most calls in flight.
#[test]
fn reached_limit_is_named() {
    let mut series = CreditSeries::default();
    let replied = transactions("rxe-v42.pcap").into_iter().filter(|transaction| transaction.reply.is_some());
    for (mut transaction, (in_flight, granted, ns)) in replied.zip([(20, 64, 0), (16, 16, 15_000)]) {
        let used = &mut transaction.credit_use;
        (used.in_flight, used.granted, used.at_limit_ns) = (in_flight, Some(granted), ns);
        series.transaction(&transaction);
    }
    let text = describe_use("credits", &series, Glyphs::ASCII);
    assert_eq!(text, "credits: at most 20 in use of 64 granted, at the limit of 16 for 15.0 us");
}

#[test]
fn grants_that_limited_calls_are_a_range() {
    for (grants, text) in [((0, 0), ""), ((64, 64), "64"), ((16, 64), "16-64")] {
        assert_eq!(grants_text(grants), text);
    }
}
