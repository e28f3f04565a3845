//! Texts of findings: counts with their nouns, and the values of all violations of a rule on a connection.

use std::fmt::{self, Display};

/// Count with its noun in singular or plural, without separators: `1 byte`, `4096 bytes`.
pub(crate) struct CountWithNoun<N>(pub(crate) N, pub(crate) &'static str);

impl<N: Display + PartialEq + From<u8>> Display for CountWithNoun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == N::from(1) { "" } else { "s" })
    }
}

/// Values of one or several violations. The text is made once, when all of them are known.
#[derive(Clone, Copy, Debug)]
pub struct AggregatedViolationValues {
    pub(crate) count: u64,
    /// Number of judgements on the connection; 0 if it is not known.
    pub(crate) judged: u64,
    /// Values of the violation whose first value is the largest.
    pub(crate) worst: [u64; 4],
    /// Values of the last violation.
    pub(crate) last: [u64; 4],
    /// Sums of the values of all violations.
    pub(crate) totals: [u64; 4],
    describe: fn(&Self) -> String,
}

impl AggregatedViolationValues {
    pub(crate) fn new(values: [u64; 4], describe: fn(&Self) -> String) -> Self {
        Self { count: 1, judged: 0, worst: values, last: values, totals: values, describe }
    }

    /// Adds later violations of the same rule.
    pub(crate) fn add(&mut self, later: &Self) {
        self.count += later.count;
        if later.worst[0] > self.worst[0] {
            self.worst = later.worst;
        }
        self.last = later.last;
        for (total, value) in self.totals.iter_mut().zip(later.totals) {
            *total = total.saturating_add(value);
        }
    }

    pub(crate) fn text(&self) -> String {
        (self.describe)(self)
    }

    /// Returns the number of violations of all judgements, such as `62 of 220 replies`, or `1 reply`.
    pub(crate) fn tally(&self, unit: &str, plural: &str) -> String {
        let Self { count, judged, .. } = self;
        match () {
            () if judged > count => format!("{count} of {judged} {plural}"),
            () if *count == 1 => format!("{count} {unit}"),
            () => format!("{count} {plural}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_item_is_in_the_singular() {
        let texts = [0_u8, 1, 2].map(|count| CountWithNoun(count, "Read chunk").to_string());
        assert_eq!(texts, ["0 Read chunks", "1 Read chunk", "2 Read chunks"]);
        assert_eq!(CountWithNoun(4096_usize, "byte").to_string(), "4096 bytes");
    }

    #[test]
    fn the_text_is_of_all_violations() {
        let describe = |all: &AggregatedViolationValues| {
            let (tally, [worst, ..], [last, ..]) = (all.tally("reply", "replies"), all.worst, all.last);
            format!("{tally}, {worst} at most, {last} last, {} in all", all.totals[0])
        };
        let mut all = AggregatedViolationValues::new([2, 0, 0, 0], describe);
        assert_eq!(all.text(), "1 reply, 2 at most, 2 last, 2 in all");
        for value in [7, 4] {
            all.add(&AggregatedViolationValues::new([value, 0, 0, 0], describe));
        }
        assert_eq!(all.text(), "3 replies, 7 at most, 4 last, 13 in all");
        all.judged = 5;
        assert_eq!(all.text(), "3 of 5 replies, 7 at most, 4 last, 13 in all");
    }
}
