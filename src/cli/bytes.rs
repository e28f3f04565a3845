//! Argument type for a number of bytes with an optional unit: `65536`, `64K`, `64KiB`.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytesArg(pub(super) u64);

impl FromStr for BytesArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
        let unit = text.get(digits.len()..).unwrap_or_default();
        let shift = if unit.is_empty() {
            Some(0)
        } else {
            let prefix = unit.strip_suffix("iB").unwrap_or(unit);
            UNITS.iter().find(|(name, _)| prefix.eq_ignore_ascii_case(name)).map(|(_, shift)| *shift)
        };
        let count = digits.parse::<u64>().ok().zip(shift);
        let bytes = count.and_then(|(count, shift)| count.checked_mul(1 << shift));
        bytes.map(Self).ok_or("give a number, such as 65536, 64K or 1G")
    }
}

impl fmt::Display for BytesArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 > 0 && self.0.trailing_zeros() >= *shift);
        match unit {
            Some((name, shift)) => write!(f, "{}{name}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("1500", 1500), ("64K", 65536), ("3m", 3 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse(), Ok(BytesArg(bytes)), "{text}");
        }
        for text in ["", "K", "-1", "1.5G", "64KB", "64 K", "1iB", "16777216T", "18446744073709551616", "٣"] {
            assert!(text.parse::<BytesArg>().is_err(), "{text}");
        }
    }

    #[test]
    fn formatted_sizes_are_parsed_back() {
        for (bytes, text) in [(0, "0"), (1500, "1500"), (64 << 20, "64M"), (1 << 50, "1024T")] {
            assert_eq!(BytesArg(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(BytesArg(bytes)));
        }
    }
}
