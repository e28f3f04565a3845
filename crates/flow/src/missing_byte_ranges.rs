//! Missing bytes of a message, as a list of ranges in ascending order.

use std::ops::Range;

/// Maximum number of ranges per message. Only a crafted message has more.
const MAX_RANGES: usize = 4096;

/// Adds missing bytes, which follow all ranges before. Beyond [`MAX_RANGES`] ranges, the last range is extended: bytes
/// captured in between cannot be decoded anyway, because bytes are kept up to the first gap only.
pub(super) fn add_gap(gaps: &mut Vec<Range<u64>>, bytes: Range<u64>) {
    if bytes.is_empty() {
        return;
    }
    let is_full = gaps.len() >= MAX_RANGES;
    match gaps.last_mut() {
        Some(last) if last.end == bytes.start || is_full => last.end = bytes.end,
        _ => gaps.push(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut gaps = Vec::new();
        for range in [0..0, 3..5, 5..6, 9..9, 8..10] {
            add_gap(&mut gaps, range);
        }
        assert_eq!(gaps, [3..6, 8..10]);
    }

    #[test]
    fn beyond_a_number_of_ranges_the_last_one_goes_on() {
        let mut gaps = Vec::new();
        for at in 0..MAX_RANGES as u64 + 10 {
            add_gap(&mut gaps, at * 2..at * 2 + 1);
        }
        assert_eq!(gaps.len(), MAX_RANGES);
        let last = (MAX_RANGES as u64 - 1) * 2;
        assert_eq!(gaps.last(), Some(&(last..last + 21)));
    }
}
