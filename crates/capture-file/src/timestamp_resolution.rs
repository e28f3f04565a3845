//! Timestamps of a pcapng interface (draft-ietf-opsawg-pcapng, section 4.2, if_tsresol and if_tsoffset).

use nfsrdma_dissectors::captured_frame::Timestamp;

const NANOSECONDS: u64 = 1_000_000_000;

/// The tick length and epoch of an interface's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceClock {
    tick: TimestampTickLength,
    /// Offset added to every timestamp, in seconds.
    offset_seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimestampTickLength {
    /// Nanoseconds per tick.
    Nanoseconds(u64),
    /// Ticks per nanosecond.
    PerNanosecond(u128),
    /// Ticks per second, as the exponent of a power of two.
    Binary(u32),
}

impl Default for InterfaceClock {
    /// Microseconds since 1970, the default of the format.
    fn default() -> Self {
        Self { tick: TimestampTickLength::Nanoseconds(1000), offset_seconds: 0 }
    }
}

impl InterfaceClock {
    /// Sets the resolution from if_tsresol: a negative power of 10, or of 2 if the highest bit is set.
    pub(super) fn set_resolution(&mut self, resolution: u8) {
        let power = u32::from(resolution & 0x7f);
        self.tick = if resolution & 0x80 != 0 {
            TimestampTickLength::Binary(power)
        } else if let Some(exponent) = 9_u32.checked_sub(power) {
            TimestampTickLength::Nanoseconds(10_u64.saturating_pow(exponent))
        } else {
            TimestampTickLength::PerNanosecond(10_u128.saturating_pow(power.saturating_sub(9)))
        };
    }

    /// Returns a clock with ticks of `tick` nanoseconds since 1970.
    pub(super) fn from_nanoseconds(tick: u64) -> Self {
        Self { tick: TimestampTickLength::Nanoseconds(tick), offset_seconds: 0 }
    }

    /// Returns the number of decimal digits of its timestamps, at most 9. Binary ticks count as 9 digits.
    pub(super) fn digits(&self) -> u8 {
        match self.tick {
            TimestampTickLength::Nanoseconds(tick) => 9_u32.saturating_sub(tick.checked_ilog10().unwrap_or(0)) as u8,
            TimestampTickLength::PerNanosecond(_) | TimestampTickLength::Binary(_) => 9,
        }
    }

    /// Returns the offset added to every timestamp, in seconds.
    pub(super) fn offset(&self) -> i64 {
        self.offset_seconds
    }

    pub(super) fn set_offset(&mut self, seconds: i64) {
        self.offset_seconds = seconds;
    }

    /// Converts ticks to a timestamp, rounded down to nanoseconds and clamped to the range of [`Timestamp`].
    #[inline]
    pub(super) fn time(&self, ticks: u64) -> Timestamp {
        let nanoseconds = match self.tick {
            TimestampTickLength::Nanoseconds(tick_ns) => u128::from(ticks) * u128::from(tick_ns),
            TimestampTickLength::PerNanosecond(ticks_of_one) => u128::from(ticks) / ticks_of_one,
            TimestampTickLength::Binary(power) => (u128::from(ticks) * u128::from(NANOSECONDS)) >> power,
        };
        // Both are below 2^94, so neither the conversion nor the sum can overflow.
        let sum = nanoseconds as i128 + i128::from(self.offset_seconds) * i128::from(NANOSECONDS);
        Timestamp(i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(resolution: u8, offset: i64, ticks: u64) -> i64 {
        let mut clock = InterfaceClock::default();
        clock.set_resolution(resolution);
        clock.set_offset(offset);
        clock.time(ticks).0
    }

    #[test]
    fn microseconds_are_the_default() {
        assert_eq!(InterfaceClock::default().time(1_500_000), Timestamp(1_500_000_000));
    }

    #[test]
    fn powers_of_ten_to_nanoseconds_are_exact() {
        assert_eq!(time(0, 0, 3), 3_000_000_000);
        assert_eq!(time(3, 0, 1_234), 1_234_000_000);
        assert_eq!(time(9, 0, 1_234), 1_234);
    }

    #[test]
    fn finer_than_nanoseconds_is_rounded_down() {
        assert_eq!(time(12, 0, 1_234_999), 1_234);
        assert_eq!(time(28, 0, 10_000_000_000_000_000_000), 1);
        assert_eq!(time(127, 0, u64::MAX), 0);
    }

    #[test]
    fn powers_of_two_divide_the_second() {
        assert_eq!(time(0x80 | 1, 0, 3), 1_500_000_000);
        assert_eq!(time(0x80 | 10, 0, 1025), 1_000_976_562);
        assert_eq!(time(0x80 | 32, 0, (7 << 32) | 1 << 31), 7_500_000_000);
        assert_eq!(time(0xff, 0, u64::MAX), 0);
    }

    #[test]
    fn the_offset_is_in_seconds_and_may_be_negative() {
        assert_eq!(time(9, -2, 500_000_000), -1_500_000_000);
        assert_eq!(time(6, 1_700_000_000, 1), 1_700_000_000_000_001_000);
    }

    #[test]
    fn times_beyond_the_range_of_a_timestamp_are_clamped() {
        assert_eq!(time(0, 0, u64::MAX), i64::MAX);
        assert_eq!(time(0, i64::MAX, u64::MAX), i64::MAX);
        assert_eq!(time(9, i64::MIN, 0), i64::MIN);
    }
}
