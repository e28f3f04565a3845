//! Text of a field value, as tshark writes it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use nfsrdma_analysis::filter::OutputFieldValue;
use nfsrdma_analysis::filter::catalog::FilterType;
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::units::{CalendarTime, LongDate};
use crate::escape;

/// Fields that Wireshark shows in hexadecimal, with their number of digits.
static HEXADECIMAL: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let lines = include_str!("fields/hexadecimal.txt").lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, digits)| Some((name, digits.parse().ok()?)))
        .collect()
});

/// Formats a value as tshark 4.0 does; times are in UTC.
pub(super) fn format_value((name, kind): (&str, FilterType), value: OutputFieldValue<'_>) -> String {
    let mut text = String::new();
    // Writing to a String never fails.
    let _ = match value {
        OutputFieldValue::Number(number) => match HEXADECIMAL.get(name) {
            Some(digits) if number >= 0 => write!(text, "0x{number:0digits$x}"),
            _ => write!(text, "{number}"),
        },
        OutputFieldValue::Bool(value) => write!(text, "{}", u8::from(value)),
        OutputFieldValue::Bytes(bytes) => {
            if HEXADECIMAL.contains_key(name) {
                text.push_str("0x");
            }
            let colon = if kind == FilterType::Ethernet { ":" } else { "" };
            bytes
                .iter()
                .enumerate()
                .try_for_each(|(at, byte)| write!(text, "{}{byte:02x}", if at > 0 { colon } else { "" }))
        }
        OutputFieldValue::Text(bytes) => {
            String::from_utf8_lossy(bytes).chars().try_for_each(|character| escape::write_escaped(character, &mut text))
        }
        OutputFieldValue::Ipv4(address, _) => write!(text, "{address}"),
        OutputFieldValue::Ipv6(address, _) => write!(text, "{address}"),
        OutputFieldValue::Time(time) => {
            write!(
                text,
                "{}",
                LongDate(CalendarTime::from_timestamp(Timestamp(i64::try_from(time).unwrap_or(i64::MAX))))
            )
        }
        OutputFieldValue::Duration(duration) => {
            let sign = if duration < 0 { "-" } else { "" };
            let duration = duration.unsigned_abs();
            write!(text, "{sign}{}.{:09}", duration / 1_000_000_000, duration % 1_000_000_000)
        }
        // A protocol or a structure is shown by its name; data that was not captured has no value.
        OutputFieldValue::Unknown if matches!(kind, FilterType::Protocol | FilterType::Structure) => {
            write!(text, "{name}")
        }
        OutputFieldValue::Unknown => Ok(()),
    };
    text
}

#[cfg(test)]
mod tests {
    use nfsrdma_analysis::filter::catalog::FilterFieldCatalog;

    use super::*;

    #[test]
    fn hexadecimal_fields_are_in_the_catalog() {
        let catalog = FilterFieldCatalog::shared();
        for name in HEXADECIMAL.keys() {
            assert!(catalog.get(name).is_some(), "{name}");
        }
        assert_eq!(HEXADECIMAL.len(), include_str!("fields/hexadecimal.txt").lines().count());
    }
}
