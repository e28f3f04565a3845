//! Positions of the markers of a direction. RFC 5044 section 4.3.

use nfsrdma_dissectors::iwarp::mpa::{MARKER_INTERVAL, Marker};

use crate::stream::stream_bytes::StreamPosition;

/// Length of a marker in bytes.
const MARKER_BYTES: u64 = Marker::LENGTH as u64;

/// Number of FPDU bytes between two markers.
const BYTES_BETWEEN_MARKERS: u64 = MARKER_INTERVAL - MARKER_BYTES;

/// Markers of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MpaMarkerPositions {
    /// No markers.
    #[default]
    Off,
    /// A marker is at this position and at each multiple of 512 bytes before and after it.
    At(StreamPosition),
}

impl MpaMarkerPositions {
    /// Returns the distance in bytes, 0 to 511, of a position from the last marker at or before it. Markers
    /// also precede the first one, so positions may be before it.
    fn distance_from_marker(marker: StreamPosition, position: StreamPosition) -> u64 {
        position.wrapping_sub(marker) % MARKER_INTERVAL
    }

    /// Returns the first marker at or after a position.
    pub(super) fn next_marker(self, position: StreamPosition) -> Option<StreamPosition> {
        let Self::At(marker) = self else { return None };
        Some(position + (MARKER_INTERVAL - Self::distance_from_marker(marker, position)) % MARKER_INTERVAL)
    }

    /// Returns the number of remaining bytes of the marker that contains a position; 0 if none does.
    pub(super) fn remaining_marker_bytes(self, position: StreamPosition) -> u64 {
        let Self::At(marker) = self else { return 0 };
        MARKER_BYTES.saturating_sub(Self::distance_from_marker(marker, position))
    }

    /// Returns the end of `count` FPDU bytes that begin at a position.
    pub(super) fn end_of(self, position: StreamPosition, count: u64) -> StreamPosition {
        let Self::At(marker) = self else { return position + count };
        let Some(last) = count.checked_sub(1) else { return position };
        // Counted from the marker before the position, which may be before the stream.
        let distance = Self::distance_from_marker(marker, position);
        let last = distance.saturating_sub(MARKER_BYTES) + last;
        let end = last / BYTES_BETWEEN_MARKERS * MARKER_INTERVAL + MARKER_BYTES + last % BYTES_BETWEEN_MARKERS + 1;
        position + (end - distance)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc5044_section_4_3_markers_stand_at_every_512th_byte_from_the_first() {
        let markers = MpaMarkerPositions::At(11);
        let mut at = 11;
        for expected in [11, 523, 1035] {
            assert_eq!(markers.next_marker(at), Some(expected));
            at = expected + 1;
        }
        assert_eq!([10, 11, 12, 14, 15].map(|at| markers.remaining_marker_bytes(at)), [0, 4, 3, 1, 0]);
        assert_eq!(MpaMarkerPositions::Off.next_marker(5), None);
    }

    #[test]
    fn rfc5044_section_4_3_an_fpdu_is_longer_by_the_markers_in_it() {
        let markers = MpaMarkerPositions::At(1000);
        assert_eq!(markers.end_of(1000, 508), 1512);
        assert_eq!(markers.end_of(1000, 509), 1517);
        assert_eq!(markers.end_of(1004, 508), 1512);
        assert_eq!(markers.end_of(1508, 8), 1520);
        assert_eq!(markers.end_of(1508, 0), 1508);
    }

    proptest! {
        #[test]
        fn counted_markers_agree_with_a_walk_over_them(marker in 0u64..2000, from in 0u64..4000, count in 0u64..3000) {
            let markers = MpaMarkerPositions::At(marker);
            let mut at = from;
            for left in (0..count).rev() {
                at += markers.remaining_marker_bytes(at) + 1;
                prop_assert!(left > 0 || markers.end_of(from, count) == at);
            }
            prop_assert!(count > 0 || markers.end_of(from, count) == from);
        }
    }
}
