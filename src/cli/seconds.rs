//! Argument type for a duration in seconds: `5`, `0.25`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Duration of an option in nanoseconds, parsed from seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecondsArg(pub(super) u64);

impl FromStr for SecondsArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = text.parse::<f64>().ok();
        let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let ns = length.and_then(|length| u64::try_from(length.as_nanos()).ok());
        ns.map(Self).ok_or("give a number of seconds, such as 5 or 0.25")
    }
}

impl SecondsArg {
    /// Parses a duration that is not zero.
    pub(super) fn parse_positive(text: &str) -> Result<Self, &'static str> {
        text.parse().and_then(|seconds| match seconds {
            Self(0) => Err("give a number of seconds above 0, such as 5 or 0.25"),
            seconds => Ok(seconds),
        })
    }
}

impl fmt::Display for SecondsArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_parts_and_no_sign() {
        assert_eq!("5".parse(), Ok(SecondsArg(5_000_000_000)));
        assert_eq!("0.25".parse(), Ok(SecondsArg(250_000_000)));
        assert_eq!(SecondsArg(250_000_000).to_string(), "0.25");
        for text in ["", "-1", "5s", "NaN", "inf", "1e300"] {
            assert!(text.parse::<SecondsArg>().is_err(), "{text}");
        }
        assert_eq!("0".parse(), Ok(SecondsArg(0)));
        for text in ["0", "0.0", "1e-10", "-1"] {
            assert!(SecondsArg::parse_positive(text).is_err(), "{text}");
        }
        assert_eq!(SecondsArg::parse_positive("5"), Ok(SecondsArg(5_000_000_000)));
    }
}
