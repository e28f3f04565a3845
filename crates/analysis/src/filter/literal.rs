//! Literals of filters: numbers, addresses, bytes, times.

use std::net::{Ipv4Addr, Ipv6Addr};

use nfsrdma_text::escape::is_unsafe;

const SECOND: i128 = 1_000_000_000;

/// Parses a number: decimal, `0x`, `0b`, or octal with a leading 0.
pub(super) fn number(text: &str) -> Option<i128> {
    let (sign, digits) = sign(text);
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let magnitude = if let Some(hex) = prefixed(["0x", "0X"]) {
        u64::from_str_radix(hex, 16)
    } else if let Some(binary) = prefixed(["0b", "0B"]) {
        u64::from_str_radix(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    let plain = digits.starts_with(|first: char| first.is_ascii_digit());
    Some(sign * i128::from(magnitude.ok().filter(|_| plain)?))
}

/// Splits a minus from the text: -1 or 1, and the rest.
fn sign(text: &str) -> (i128, &str) {
    text.strip_prefix('-').map_or((1, text), |digits| (-1, digits))
}

/// Parses `True`, `False`, or a number.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "True" | "TRUE" | "true" => Some(true),
        "False" | "FALSE" | "false" => Some(false),
        _ => number(text).map(|number| number != 0),
    }
}

/// Parses hexadecimal bytes, `aa:bb:cc`, `aa-bb-cc`, `a.b.c`, `aabbcc`; or a number of one byte, `0xff`.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    if text.starts_with("0x") || text.starts_with("0X") {
        return number(text).and_then(|number| u8::try_from(number).ok()).map(|byte| vec![byte]);
    }
    let text = text.strip_prefix(':').unwrap_or(text);
    let hex = |digits: &str| {
        let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_hex { u8::from_str_radix(digits, 16).ok() } else { None }
    };
    for separator in [':', '-', '.'] {
        if text.contains(separator) {
            return text.split(separator).map(hex).collect();
        }
    }
    if text.len() <= 2 {
        return hex(text).map(|byte| vec![byte]);
    }
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(|pair| hex(std::str::from_utf8(pair).ok()?)).collect()
}

/// Parses an IPv4 address with its prefix length.
pub(super) fn ipv4(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, bits) = prefixed(text, 32)?;
    Some((address.parse().ok()?, bits))
}

/// Parses an IPv6 address with its prefix length.
pub(super) fn ipv6(text: &str) -> Option<(Ipv6Addr, u8)> {
    let (address, bits) = prefixed(text, 128)?;
    Some((address.parse().ok()?, bits))
}

fn prefixed(text: &str, max_bits: u8) -> Option<(&str, u8)> {
    match text.split_once('/') {
        Some((address, bits)) => Some((address, bits.parse().ok().filter(|bits| *bits <= max_bits)?)),
        None => Some((text, max_bits)),
    }
}

/// Units of time, in nanoseconds.
const UNITS: [(&str, i128); 6] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", SECOND), ("m", 60 * SECOND), ("h", 3_600 * SECOND)];

/// Parses a duration to nanoseconds: a number of seconds, or with a unit: `0.001`, `1ms`, `1.5h`.
pub(super) fn duration(text: &str) -> Option<i128> {
    let unit = text.find(char::is_alphabetic).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    match unit {
        "" => multiple(number, SECOND),
        _ => multiple(number, UNITS.iter().find(|(name, _)| *name == unit)?.1),
    }
}

/// Parses a decimal fraction, in units of this many nanoseconds.
fn multiple(text: &str, unit: i128) -> Option<i128> {
    let (sign, digits) = sign(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { plain(whole)? };
    Some(sign * (i128::from(whole) * unit + self::fraction(fraction)? * unit / SECOND))
}

/// Parses digits only, without the sign that `parse` accepts.
fn plain(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

/// Parses the digits after the decimal point as billionths, truncated.
fn fraction(digits: &str) -> Option<i128> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let nine = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some(nine.fold(0, |value, digit| value * 10 + i128::from(digit - b'0')))
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a point in time to nanoseconds since 1970: `2025-01-01 12:00:00.5`, with `T`, and followed by `Z`, `UTC` or
/// `+01:00`; `Sep 26, 2004 23:18:04`; or the number of seconds since 1970. Without a zone it is UTC, as in all output.
pub(super) fn time(text: &str) -> Option<i128> {
    let text = text.trim();
    if let Some(seconds) = multiple(text, SECOND) {
        return Some(seconds);
    }
    let (date, rest) = match MONTHS.iter().position(|month| text.get(..3).is_some_and(|start| start == *month)) {
        Some(month) => {
            let (day, rest) = text.get(3..)?.trim_start().split_once(',')?;
            let rest = rest.trim_start();
            let (year, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            ((plain(year)?, month as u64 + 1, plain(day.trim())?), rest)
        }
        None => {
            let end = text.find(['T', ' ']).unwrap_or(text.len());
            let (date, rest) = text.split_at(end);
            let mut parts = date.split('-');
            let date = (plain(parts.next()?)?, plain(parts.next()?)?, plain(parts.next()?)?);
            if parts.next().is_some() {
                return None;
            }
            (date, rest.get(1..).unwrap_or_default())
        }
    };
    let (clock, zone) = zone(rest.trim())?;
    let mut parts = clock.split(':');
    let mut next_part = |max: u64| match parts.next() {
        None | Some("") => Some(0),
        Some(digits) => plain(digits).filter(|number| *number <= max),
    };
    let (hour, minute) = (next_part(23)?, next_part(59)?);
    let (second, fraction) = match parts.next() {
        Some(second) => second.split_once('.').unwrap_or((second, "")),
        None => ("0", ""),
    };
    let second = plain(second).filter(|second| *second <= 60)?;
    if parts.next().is_some() {
        return None;
    }
    let days = days_since_1970(date)?;
    let seconds = i128::from(days) * 86_400 + i128::from(hour * 3_600 + minute * 60 + second) - i128::from(zone);
    Some(seconds * SECOND + self::fraction(fraction)?)
}

/// Splits the zone from a time of day, in seconds east of UTC.
fn zone(clock: &str) -> Option<(&str, i64)> {
    for utc in ["UTC", "Z"] {
        if let Some(clock) = clock.strip_suffix(utc) {
            return Some((clock.trim_end(), 0));
        }
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (clock, zone) = clock.split_at(at);
    let (sign, digits) = zone.split_at(1);
    let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (plain(&digits)?, 0),
        4 => (plain(digits.get(..2)?)?, plain(digits.get(2..)?)?),
        _ => return None,
    };
    let seconds = i64::try_from(hours * 3_600 + minutes * 60).ok()?;
    Some((clock.trim_end(), if sign == "-" { -seconds } else { seconds }))
}

/// Returns the days from 1970-01-01 to a Gregorian date; `None` if the date does not exist.
fn days_since_1970((year, month, day): (u64, u64, u64)) -> Option<i64> {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let length = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day < 1 || day > length || !(1..=9_999).contains(&year) {
        return None;
    }
    // Years start in March, so that the leap day is the last.
    let (year, month) = if month <= 2 { (year as i64 - 1, month as i64 + 9) } else { (year as i64, month as i64 - 3) };
    let day_of_year = (153 * month + 2) / 5 + day as i64 - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + day_of_year - 719_468)
}

/// Quotes bytes for a filter; [`Filter::parse`](super::Filter::parse) reads them back.
pub fn quoted(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => quoted.extend(['\\', character]),
                _ if is_unsafe(character) => push_bytes(&mut quoted, character.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => quoted.push(character),
            }
        }
        push_bytes(&mut quoted, chunk.invalid());
    }
    quoted + "\""
}

/// Appends bytes as `\xe9`.
fn push_bytes(quoted: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| *quoted += &format!("\\x{byte:02x}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manuals_numbers() {
        assert_eq!(["10", "012", "0xa", "0b1010"].map(number), [Some(10); 4]);
        assert_eq!(number("-5"), Some(-5));
        assert_eq!(number("0xffffffffffffffff"), Some(u64::MAX.into()));
        assert_eq!(["", "0x", "08", "1a", "+1", "--1", "18446744073709551616"].map(number), [None; 7]);
    }

    #[test]
    fn the_manuals_bytes() {
        assert_eq!(bytes("ff:ff:ff:ff:ff:ff"), Some(vec![0xff; 6]));
        assert_eq!(bytes("0.1.0.d"), Some(vec![0, 1, 0, 13]));
        assert_eq!(bytes("aa-aa-aa-aa-aa-aa"), Some(vec![0xaa; 6]));
        assert_eq!(bytes("7a"), Some(vec![0x7a]));
        assert_eq!(bytes("0xff"), Some(vec![0xff]));
        assert_eq!(bytes("1234ab"), Some(vec![0x12, 0x34, 0xab]));
        assert_eq!(["0x100", "abc", "xy", "aa:", "aa:bbb", ""].map(bytes), [const { None }; 6]);
    }

    #[test]
    fn addresses_may_have_a_prefix_length() {
        assert_eq!(ipv4("129.111.0.0/16"), Some((Ipv4Addr::new(129, 111, 0, 0), 16)));
        assert_eq!(ipv4("10.9.0.2").map(|(_, bits)| bits), Some(32));
        assert_eq!(["10.9.0", "10.9.0.2/33", "www.mit.edu"].map(ipv4), [None; 3]);
        assert_eq!(ipv6("fd09::/16").map(|(_, bits)| bits), Some(16));
        assert_eq!(ipv6("::1/129"), None);
    }

    #[test]
    fn durations_are_seconds() {
        assert_eq!(duration("0.001"), Some(1_000_000));
        assert_eq!(duration("10"), Some(10 * SECOND));
        assert_eq!(duration("-.5"), Some(-SECOND / 2));
        assert_eq!(["", ".", "1.2.3", "+1", "1.-2"].map(duration), [None; 5]);
    }

    #[test]
    fn durations_may_have_units() {
        let second = SECOND;
        assert_eq!(["5ns", "5us", "5ms"].map(duration), [5, 5_000, 5_000_000].map(Some));
        assert_eq!(["5s", "5m", "5h"].map(duration), [5, 300, 18_000].map(|n| Some(n * second)));
        assert_eq!(["1.5ms", "-.25s", "0.1ns"].map(duration), [1_500_000, -second / 4, 0].map(Some));
        assert_eq!(["ms", "1 ms", "1sec", "1ms5", "1e3", "1MS", "1.2.3s"].map(duration), [None; 7]);
        assert_eq!(time("5s"), None);
    }

    #[test]
    fn the_manuals_times() {
        let at = |text| time(text).map(|time| time / SECOND);
        assert_eq!(at("2020-07-04T12:34:56"), Some(1_593_866_096));
        assert_eq!(at("2020-07-04 12:34:56Z"), Some(1_593_866_096));
        assert_eq!(at("2020-07-04 12:34:56+02:00"), Some(1_593_866_096 - 7_200));
        assert_eq!(time("Sep 26, 2004 23:18:04.954975"), Some(1_096_240_684_954_975_000));
        assert_eq!(at("Sep 26, 2004 23:18:04 UTC"), Some(1_096_240_684));
        assert_eq!(at("2024-02-29"), Some(1_709_164_800));
        assert_eq!(at("1970-01-01 00:00"), Some(0));
        assert_eq!(at("1593866096"), Some(1_593_866_096));
        for wrong in ["", "yesterday", "2023-02-29", "2020-13-01", "2020-01-01 25:00", "2020-01-01 1:2:3:4", "Sep", "é"]
        {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quoted_bytes_are_valid_in_a_filter() {
        assert_eq!(quoted(b"/data/w"), "\"/data/w\"");
        assert_eq!(quoted("/a \"b\" \\ \u{e9}".as_bytes()), r#""/a \"b\" \\ é""#);
        assert_eq!(quoted(b"\xe2\x80\xa6/file\xff\xe2\x80\xae\n"), "\"…/file\\xff\\xe2\\x80\\xae\\x0a\"");
        for text in [&b"/data/w"[..], b"a \"b\" \\", "\u{e9}\n".as_bytes(), &[0, 0xff], "\u{2026}/x\u{202e}".as_bytes()]
        {
            let filter = format!("nfsrdma.path == {}", quoted(text));
            assert!(crate::filter::Filter::parse(&filter).is_ok(), "{filter}");
        }
    }
}
