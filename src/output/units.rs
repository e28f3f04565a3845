//! Numbers, times and names in human-readable form.

use std::fmt::{self, Write as _};

use nfsrdma_analysis::names::UNKNOWN_PREFIX;
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::settings::TimeFormat;
use super::style::Glyphs;
use crate::escape::is_unsafe;

/// Duration in nanoseconds with three significant digits: `9.45 ms`, `152 µs`, `1.20 s`.
#[derive(Clone, Copy, Debug)]
pub struct HumanDuration(pub u64, pub Glyphs);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ns, glyphs) = *self;
        // The unit is chosen after rounding, so that 999.9 µs is 1.00 ms and not 1000 µs.
        let (scale, unit) = match ns {
            0..1_000 => return write!(f, "{ns} ns"),
            1_000..999_500 => (1_000.0, glyphs.micro),
            999_500..999_500_000 => (1_000_000.0, "ms"),
            _ => (1_000_000_000.0, "s"),
        };
        three_digits(f, ns as f64 / scale, unit)
    }
}

/// Writes a value below 999.5 with three significant digits.
fn three_digits(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    match value {
        ..9.995 => write!(f, "{value:.2} {unit}"),
        ..99.95 => write!(f, "{value:.1} {unit}"),
        _ => write!(f, "{value:.0} {unit}"),
    }
}

/// Number with commas: `1,234,567`.
#[derive(Clone, Copy, Debug)]
pub struct HumanCount(pub u64);

impl fmt::Display for HumanCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Count with its noun in singular or plural: `1 client`, `1,234 clients`.
#[derive(Clone, Copy, Debug)]
pub struct PluralCount<'w>(pub u64, pub &'w str);

impl fmt::Display for PluralCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = *self;
        write!(f, "{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
    }
}

/// Units of bytes, each 1024 of the one before (IEC 80000-13).
const SIZE_UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Number of bytes with three significant digits, in at most eight columns: `104 B`, `2.05 KiB`, `64.0 KiB`.
#[derive(Clone, Copy, Debug)]
pub struct HumanSize(pub u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1_000 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut units = SIZE_UNITS.into_iter();
        let mut unit = units.next().unwrap_or("KiB");
        while value >= 999.5 {
            let Some(next) = units.next() else { break };
            (value, unit) = (value / 1024.0, next);
        }
        three_digits(f, value, unit)
    }
}

/// Bytes per second with three significant digits: `97.0 KiB/s`.
#[derive(Clone, Copy, Debug)]
pub struct ByteRate(pub f64);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", HumanSize(self.0 as u64))
    }
}

/// Events per second with up to three decimals, without a unit: `0`, `0.012`, `8.99`, `18.0`, `1204`.
#[derive(Clone, Copy, Debug)]
pub struct EventRateText(pub f64);

impl fmt::Display for EventRateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0.0 => f.write_str("0"),
            rate @ ..0.095 => write!(f, "{rate:.3}"),
            rate @ ..9.95 => write!(f, "{rate:.2}"),
            rate @ ..99.5 => write!(f, "{rate:.1}"),
            rate => write!(f, "{rate:.0}"),
        }
    }
}

/// Number for a chart axis in at most six columns, with `k` or `M` if it is large: `4.0`, `281`, `120k`, `1.2M`.
#[derive(Clone, Copy, Debug)]
pub struct ShortNumber(pub f64);

impl fmt::Display for ShortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value @ ..9.95 => write!(f, "{value:.1}"),
            value @ ..9_999.5 => write!(f, "{value:.0}"),
            value @ ..999_500.0 => write!(f, "{:.0}k", value / 1e3),
            value => write!(f, "{:.1}M", value / 1e6),
        }
    }
}

/// Elapsed or remaining time in whole seconds, rounded up: `0:19`, `1:02:05`. The maximum is `99:59:59`.
#[derive(Clone, Copy, Debug)]
pub struct HoursMinutesSecondsText(pub f64);

impl fmt::Display for HoursMinutesSecondsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.ceil().min(359_999.0) as u64;
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        match hours {
            0 => write!(f, "{minutes}:{seconds:02}"),
            _ => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
        }
    }
}

/// Exact number of bytes: in whole MiB, in whole KiB from 10 KiB on, else as a plain number: `8192`, `64 KiB`, `1 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct ExactByteSizeText(pub u64);

impl fmt::Display for ExactByteSizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 10 << 10 && bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => bytes.fmt(f),
        }
    }
}

/// Bytes moved, of those offered, in one unit and a limited number of columns: `2000/4096`, `2.1/64 KiB`, `<1/64 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct TransferredOfOfferedBytes {
    /// Number of bytes moved.
    pub bytes: u64,
    /// Number of bytes offered.
    pub offered_bytes: u64,
    /// Number of columns available. Ten are always enough.
    pub columns: usize,
}

impl fmt::Display for TransferredOfOfferedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, offered_bytes, columns } = *self;
        let plain = format!("{bytes}/{offered_bytes}");
        if plain.len() <= columns {
            return f.write_str(&plain);
        }
        let units = (1_i32..).zip(SIZE_UNITS).map(|(power, unit)| (unit, 1024_f64.powi(power)));
        let units: Vec<_> = units.filter(|(_, size)| offered_bytes as f64 >= 0.9995 * size).collect();
        // Largest unit in which the part is not 0, with one decimal or without.
        for has_decimals in [true, false] {
            let min_value = if has_decimals { 0.05 } else { 0.5 };
            for (unit, size) in units.iter().rev() {
                let scaled = bytes as f64 / size;
                let digits = |value: f64| match value {
                    value if has_decimals && value < 9.95 && value.fract() != 0.0 => format!("{value:.1}"),
                    value => format!("{value:.0}"),
                };
                let text = format!("{}/{} {unit}", digits(scaled), digits(offered_bytes as f64 / size));
                if (bytes == 0 || scaled >= min_value) && text.len() <= columns {
                    return f.write_str(&text);
                }
            }
        }
        match units.last() {
            Some((unit, size)) => write!(f, "<1/{:.0} {unit}", offered_bytes as f64 / size),
            None => f.write_str(&plain),
        }
    }
}

impl TimeFormat {
    /// Returns the width of a time in columns; relative times of captures longer than 2 hours take more.
    pub fn width(self) -> usize {
        match self {
            Self::Relative | Self::Delta => 11,
            Self::Absolute => 15,
            Self::AbsoluteDate => 26,
            Self::Epoch => 20,
            Self::Iso => 30,
        }
    }
}

/// Writer of the times of a view. Relative times count from the first frame or from the line before.
#[derive(Clone, Copy, Debug)]
pub struct ViewTimeFormatter {
    format: TimeFormat,
    start: Option<Timestamp>,
    previous: Option<Timestamp>,
}

impl ViewTimeFormatter {
    /// Creates a clock that starts at the first time written, unless [`Self::start`] is called before.
    pub fn new(format: TimeFormat) -> Self {
        Self { format, start: None, previous: None }
    }

    /// Sets the time that relative times count from, if it is not set.
    pub fn start(&mut self, time: Timestamp) {
        self.start.get_or_insert(time);
    }

    /// Returns the format of the times.
    pub fn format(&self) -> TimeFormat {
        self.format
    }

    /// Appends a time.
    pub fn write(&mut self, time: Timestamp, text: &mut String) {
        let start = *self.start.get_or_insert(time);
        let previous = self.previous.replace(time).unwrap_or(time);
        // Writing to a String never fails.
        let _ = match self.format {
            TimeFormat::Relative => write!(text, "{}", SecondsText(time.0.saturating_sub(start.0))),
            TimeFormat::Delta => write!(text, "{}", SecondsText(time.0.saturating_sub(previous.0))),
            TimeFormat::Absolute => {
                let date = CalendarTime::from_timestamp(time);
                write!(text, "{}", TimeOfDay(date, 6))
            }
            TimeFormat::AbsoluteDate => {
                let date = CalendarTime::from_timestamp(time);
                write!(text, "{date} {}", TimeOfDay(date, 6))
            }
            TimeFormat::Epoch => write!(text, "{time}"),
            TimeFormat::Iso => write!(text, "{}", IsoTimestamp(time)),
        };
    }
}

/// Nanoseconds as seconds with six digits; the digits beyond are truncated.
struct SecondsText(i64);

impl fmt::Display for SecondsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let us = self.0.unsigned_abs() / 1_000;
        write!(f, "{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
    }
}

/// Date and time of day, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    year: i64,
    month: u32,
    day: u32,
    /// Second of the day.
    second: u32,
    nanosecond: u32,
}

impl CalendarTime {
    /// Converts a timestamp.
    pub fn from_timestamp(time: Timestamp) -> Self {
        const SECOND: i64 = 1_000_000_000;
        Self::from_unix_seconds(time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND) as u32)
    }

    /// Converts seconds and nanoseconds since 1970-01-01 UTC, as XDR encodes them.
    pub fn from_unix_seconds(seconds: i64, nanosecond: u32) -> Self {
        const DAY: i64 = 86_400;
        // Days count from 1 March of the year 0, so that the leap day is the last of its year.
        let days = seconds.div_euclid(DAY) + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u32,
            day: day as u32,
            second: seconds.rem_euclid(DAY) as u32,
            nanosecond,
        }
    }
}

/// Example: `2026-11-21`.
impl fmt::Display for CalendarTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Time of day, `03:07:19.055820`, with the given number of decimals.
struct TimeOfDay(CalendarTime, u32);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(CalendarTime { second, nanosecond, .. }, digits) = *self;
        let fraction = u64::from(nanosecond) / 10u64.pow(9 - digits.min(9));
        let digits = digits as usize;
        let (hours, minutes) = (second / 3_600, second / 60 % 60);
        write!(f, "{hours:02}:{minutes:02}:{:02}.{fraction:0digits$}", second % 60)
    }
}

/// Date and time in Wireshark's format: `Nov 21, 2026 03:07:16.914696410 UTC`.
#[derive(Clone, Copy, Debug)]
pub struct LongDate(pub CalendarTime);

impl fmt::Display for LongDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let CalendarTime { year, month, day, .. } = self.0;
        let month = MONTHS.get((month as usize).saturating_sub(1)).copied().unwrap_or_default();
        write!(f, "{month} {day:2}, {year} {} UTC", TimeOfDay(self.0, 9))
    }
}

/// Date and time with nanoseconds: `2026-11-21 03:07:19.055820921 UTC`.
#[derive(Clone, Copy, Debug)]
pub struct DateTimeUtc(pub CalendarTime);

impl fmt::Display for DateTimeUtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} UTC", self.0, TimeOfDay(self.0, 9))
    }
}

/// Date and time in UTC as in ISO 8601 and RFC 3339, with nanoseconds: `2026-11-21T03:07:19.055820921Z`.
#[derive(Clone, Copy, Debug)]
pub struct IsoTimestamp(pub Timestamp);

impl fmt::Display for IsoTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = CalendarTime::from_timestamp(self.0);
        write!(f, "{date}T{}Z", TimeOfDay(date, 9))
    }
}

/// Date and time in UTC as 14 digits, for file names: `20261121030719`.
#[derive(Clone, Copy, Debug)]
pub struct FileNameTimestamp(pub Timestamp);

impl fmt::Display for FileNameTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CalendarTime { year, month, day, second, .. } = CalendarTime::from_timestamp(self.0);
        let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}{month:02}{day:02}{hours:02}{minutes:02}{seconds:02}")
    }
}

/// Appends text of the wire in quotes. Escapes control characters and bytes that are not UTF-8, so that a file name
/// cannot affect a terminal; with ASCII glyphs, also all characters beyond ASCII.
pub fn quote(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    text.push('"');
    escape(bytes, glyphs, text);
    text.push('"');
}

/// Appends text of the wire as [`quote`] does, without the quotes.
pub fn escape(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                ' '..='~' => text.push(character),
                _ if glyphs.is_unicode && is_visible(character) => text.push(character),
                _ => text.extend(character.escape_default()),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
}

/// Appends the path of a file, with a sign for its unknown or omitted beginning. Adds quotes if the path has a space.
pub fn path(bytes: &[u8], glyphs: &Glyphs, text: &mut String) {
    let quotes = if bytes.contains(&b' ') { "\"" } else { "" };
    text.push_str(quotes);
    match bytes.strip_prefix(UNKNOWN_PREFIX.as_bytes()) {
        Some(rest) => {
            text.push_str(glyphs.cut);
            escape(rest, glyphs, text);
        }
        None => escape(bytes, glyphs, text),
    }
    text.push_str(quotes);
}

/// Returns `true` if a character beyond ASCII may be shown unescaped: it has a width and neither controls a terminal
/// nor changes the direction of writing.
fn is_visible(character: char) -> bool {
    !is_unsafe(character) && unicode_width::UnicodeWidthChar::width(character).is_some_and(|width| width > 0)
}

/// Bytes in hexadecimal.
pub struct HexBytes<'a>(pub &'a [u8]);

impl fmt::Display for HexBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_suits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (152_400, "152 µs"),
            (999_400, "999 µs"),
            (999_500, "1.00 ms"),
            (9_449_528, "9.45 ms"),
            (15_340_078, "15.3 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.00 s"),
            (12_345_678_901, "12.3 s"),
            (3_600_000_000_000, "3600 s"),
        ];
        for (ns, expected) in cases {
            assert_eq!(HumanDuration(ns, Glyphs::UNICODE).to_string(), expected);
        }
        assert_eq!(HumanDuration(152_400, Glyphs::ASCII).to_string(), "152 us");
    }

    #[test]
    fn one_thing_is_in_the_singular() {
        let things = [0, 1, 2, 1_234].map(|count| PluralCount(count, "client").to_string());
        assert_eq!(things, ["0 clients", "1 client", "2 clients", "1,234 clients"]);
    }

    #[test]
    fn sizes_have_three_digits_and_the_unit_that_suits() {
        let sizes = [0, 999, 1_000, 65_536, 1_048_576, u64::MAX].map(|bytes| HumanSize(bytes).to_string());
        assert_eq!(sizes, ["0 B", "999 B", "0.98 KiB", "64.0 KiB", "1.00 MiB", "16.0 EiB"]);
    }

    #[test]
    fn rates_have_the_digits_that_matter() {
        let rates = [0.0, 0.0123, 0.5, 9.96, 18.04, 1_204.4].map(|rate| EventRateText(rate).to_string());
        assert_eq!(rates, ["0", "0.012", "0.50", "10.0", "18.0", "1204"]);
        assert_eq!(ByteRate(99_328.9).to_string(), "97.0 KiB/s");
        let short = [0.0, 281.2, 119_600.0, 1_234_567.0].map(|value| ShortNumber(value).to_string());
        assert_eq!(short, ["0.0", "281", "120k", "1.2M"]);
    }

    #[test]
    fn durations_have_hours_only_from_one_hour_on() {
        let texts = [0.0, 18.2, 3_725.0, 1e12].map(|seconds| HoursMinutesSecondsText(seconds).to_string());
        assert_eq!(texts, ["0:00", "0:19", "1:02:05", "99:59:59"]);
    }

    #[test]
    fn a_part_and_the_whole_have_one_unit() {
        let cases = [
            (2_000, 4_096, "2000/4096"),
            (1_176, 65_644, "1176/65644"),
            (917_504, 1_048_576, "0.9/1 MiB"),
            (0, 1_048_576, "0/1048576"),
            (65_536, 1_048_576, "0.1/1 MiB"),
            (4_096, 1_048_576, "4/1024 KiB"),
            (2_000, 1_048_576, "2/1024 KiB"),
            (2_202_010, 104_857_600, "2.1/100 MiB"),
            (1_000, 1 << 30, "<1/1 GiB"),
            (1_000, 999 << 30, "<1/999 GiB"),
            (u64::MAX - 1, u64::MAX, "16/16 EiB"),
            (1, u64::MAX, "<1/16 EiB"),
        ];
        for (bytes, offered_bytes, expected) in cases {
            assert_eq!(TransferredOfOfferedBytes { bytes, offered_bytes, columns: 11 }.to_string(), expected);
        }
    }

    #[test]
    fn a_part_of_a_whole_fits_ten_columns() {
        for offered in (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, 999 << bits.min(54)]) {
            for bytes in (0..64).map(|bits| 1_u64 << bits).filter(|bytes| *bytes < offered) {
                let text = TransferredOfOfferedBytes { bytes, offered_bytes: offered, columns: 10 }.to_string();
                assert!(text.len() <= 10, "{bytes} of {offered}: {text}");
            }
        }
    }

    #[test]
    fn exact_sizes_lose_nothing() {
        let cases = [
            (4_096, "4096"),
            (8_192, "8192"),
            (10_240, "10 KiB"),
            (65_536, "64 KiB"),
            (65_537, "65537"),
            (1 << 20, "1 MiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(ExactByteSizeText(bytes).to_string(), expected);
        }
    }

    fn written(format: TimeFormat, times: &[i64]) -> Vec<String> {
        let mut clock = ViewTimeFormatter::new(format);
        let write = |time: &i64| {
            let mut text = String::new();
            clock.write(Timestamp(*time), &mut text);
            text
        };
        times.iter().map(write).collect()
    }

    #[test]
    fn each_format_of_a_time() {
        let times = [1_795_230_439_055_820_921, 1_795_230_439_065_270_449, 1_795_230_439_065_000_000];
        assert_eq!(written(TimeFormat::Relative, &times), ["0.000000", "0.009449", "0.009179"]);
        assert_eq!(written(TimeFormat::Delta, &times), ["0.000000", "0.009449", "-0.000270"]);
        assert_eq!(written(TimeFormat::Absolute, &times[..1]), ["03:07:19.055820"]);
        assert_eq!(written(TimeFormat::AbsoluteDate, &times[..1]), ["2026-11-21 03:07:19.055820"]);
        assert_eq!(written(TimeFormat::Epoch, &times[..1]), ["1795230439.055820921"]);
        assert_eq!(written(TimeFormat::Iso, &times[..1]), ["2026-11-21T03:07:19.055820921Z"]);
    }

    #[test]
    fn every_format_keeps_to_its_width() {
        let formats = [
            TimeFormat::Relative,
            TimeFormat::Delta,
            TimeFormat::Absolute,
            TimeFormat::AbsoluteDate,
            TimeFormat::Epoch,
            TimeFormat::Iso,
        ];
        for format in formats {
            let times = [1_795_230_439_055_820_921, 1_795_230_439_055_820_921 + 9_999 * 1_000_000_000];
            let width = format.width();
            assert!(written(format, &times).iter().all(|text| text.len() <= width), "{format:?}");
        }
    }

    #[test]
    fn dates_of_leap_days_and_before_1970() {
        let date = |seconds| DateTimeUtc(CalendarTime::from_unix_seconds(seconds, 5)).to_string();
        assert_eq!(date(0), "1970-01-01 00:00:00.000000005 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00.000000005 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59:59.000000005 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00:00.000000005 UTC");
        assert_eq!(date(-1), "1969-12-31 23:59:59.000000005 UTC");
        assert_eq!(
            DateTimeUtc(CalendarTime::from_timestamp(Timestamp(-1))).to_string(),
            "1969-12-31 23:59:59.999999999 UTC"
        );
        date(i64::MAX / 2);
        date(i64::MIN / 2);
    }

    fn quoted(bytes: &[u8], glyphs: Glyphs) -> String {
        let mut text = String::new();
        quote(bytes, &glyphs, &mut text);
        text
    }

    #[test]
    fn control_characters_of_names_are_escaped() {
        assert_eq!(quoted(b"a \"b\" \\", Glyphs::UNICODE), r#""a \"b\" \\""#);
        assert_eq!(quoted(b"\x1b[2J\n\0\x7f", Glyphs::UNICODE), r#""\u{1b}[2J\n\u{0}\u{7f}""#);
        assert_eq!(quoted("größe".as_bytes(), Glyphs::UNICODE), "\"größe\"");
        assert_eq!(quoted("größe".as_bytes(), Glyphs::ASCII), r#""gr\u{f6}\u{df}e""#);
        assert_eq!(quoted("a\u{202e}b\u{200b}\u{9b}".as_bytes(), Glyphs::UNICODE), r#""a\u{202e}b\u{200b}\u{9b}""#);
        assert_eq!(quoted(b"a\xff\xc3", Glyphs::UNICODE), r#""a\xff\xc3""#);
    }
}
