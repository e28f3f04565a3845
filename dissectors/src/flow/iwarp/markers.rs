//! Where the markers of a direction stand. RFC 5044 section 4.3.

use crate::flow::stream::Position;
use crate::iwarp::mpa::{MARKER_INTERVAL, Marker};

/// Length of a marker in bytes.
const LENGTH: u64 = Marker::LENGTH as u64;

/// How many bytes of FPDUs stand between two markers.
const BETWEEN: u64 = MARKER_INTERVAL - LENGTH;

/// The markers of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Markers {
    /// There are none.
    #[default]
    Off,
    /// One stands here, and one at every 512th byte before and behind it.
    At(Position),
}

impl Markers {
    /// How many bytes behind the last marker that does not begin behind it a position is, 0 to 511. Markers stand before the
    /// first one too, so that positions may lie before it.
    fn behind(marker: Position, position: Position) -> u64 {
        position.wrapping_sub(marker) % MARKER_INTERVAL
    }

    /// The first marker that begins at a position or behind it.
    pub(super) fn next(self, position: Position) -> Option<Position> {
        let Self::At(marker) = self else { return None };
        Some(position + (MARKER_INTERVAL - Self::behind(marker, position)) % MARKER_INTERVAL)
    }

    /// How many bytes of the marker in which a position lies are still to come; 0 where it lies in none.
    pub(super) fn rest(self, position: Position) -> u64 {
        let Self::At(marker) = self else { return 0 };
        LENGTH.saturating_sub(Self::behind(marker, position))
    }

    /// Where `count` bytes of FPDUs that begin at a position end.
    pub(super) fn end_of(self, position: Position, count: u64) -> Position {
        let Self::At(marker) = self else { return position + count };
        let Some(last) = count.checked_sub(1) else { return position };
        // Counted from the marker before the position, which may stand before the stream.
        let behind = Self::behind(marker, position);
        let last = behind.saturating_sub(LENGTH) + last;
        let end = last / BETWEEN * MARKER_INTERVAL + LENGTH + last % BETWEEN + 1;
        position + (end - behind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc5044_section_4_3_markers_stand_at_every_512th_byte_from_the_first() {
        let markers = Markers::At(11);
        let mut at = 11;
        for expected in [11, 523, 1035] {
            assert_eq!(markers.next(at), Some(expected));
            at = expected + 1;
        }
        assert_eq!([10, 11, 12, 14, 15].map(|at| markers.rest(at)), [0, 4, 3, 1, 0]);
        assert_eq!(Markers::Off.next(5), None);
    }

    #[test]
    fn rfc5044_section_4_3_an_fpdu_is_longer_by_the_markers_in_it() {
        let markers = Markers::At(1000);
        assert_eq!(markers.end_of(1000, 508), 1512);
        assert_eq!(markers.end_of(1000, 509), 1517);
        assert_eq!(markers.end_of(1004, 508), 1512);
        assert_eq!(markers.end_of(1508, 8), 1520);
        assert_eq!(markers.end_of(1508, 0), 1508);
    }

    proptest! {
        #[test]
        fn what_is_counted_is_what_is_walked(marker in 0u64..2000, from in 0u64..4000, count in 0u64..3000) {
            let markers = Markers::At(marker);
            let mut at = from;
            for left in (0..count).rev() {
                at += markers.rest(at) + 1;
                prop_assert!(left > 0 || markers.end_of(from, count) == at);
            }
            prop_assert!(count > 0 || markers.end_of(from, count) == from);
        }
    }
}
