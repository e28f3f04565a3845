//! Words and help texts of the option values whose types other parts of the program define.

use anyhow::{Result, bail};
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::output::settings::{OutputLineFormat, OutputLineUnit, ReportFormat, SummaryFormat, TimeFormat};
#[cfg(feature = "tui")]
use crate::tui::theme::ThemeName;

macro_rules! option_values {
    ($type:ident: $($value:ident $word:literal $(| $alias:literal)?, $help:literal;)*) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$value),*]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(match self {
                    $(Self::$value => PossibleValue::new($word)$(.alias($alias))?.help($help),)*
                })
            }
        }
    };
}

option_values! { OutputLineFormat:
    Text "text", "Human-readable text";
    Json "json", "JSON Lines: one object per line";
    Fields "fields", "Values of the fields selected with -e, as in tshark";
    Csv "csv", "Comma-separated values (RFC 4180)";
}

option_values! { ReportFormat:
    Text "text", "Human-readable text";
    Json "json", "JSON Lines: one object per line";
}

option_values! { OutputLineUnit:
    Transactions "transactions", "One line per RPC transaction: call, reply and chunks";
    Frames "frames", "One line per frame";
    Operations "operations", "One line per operation type: count, rate, latency and errors";
    Connections "connections",
        "One line per connection, printed when it closes: traffic, credits and state; -V adds its setup";
}

option_values! { TimeFormat:
    Relative "r", "Seconds since the first frame";
    Delta "d" | "dd", "Seconds since the previous line";
    Absolute "a" | "u", "Time of day, UTC";
    AbsoluteDate "ad" | "ud", "Date and time of day, UTC";
    Epoch "e", "Seconds since 1970-01-01, UTC";
    Iso "iso", "ISO 8601, UTC: 2026-11-21T03:07:19.055820921Z; in JSON as additional keys, such as time_iso";
}

option_values! { SummaryFormat:
    Text "text", "Human-readable text";
    Json "json", "A JSON object on one line";
    None "none", "No summary";
}

#[cfg(feature = "tui")]
option_values! { ThemeName:
    Auto "auto", "Choose by COLORFGBG; dark by default";
    Dark "dark", "Colors for a dark background";
    Light "light", "Colors for a light background";
    None "none", "Bold, dim and reversed text only";
}

/// Refuses a condition of a repeatable option that is given twice.
///
/// # Errors
/// Returns an error that names the condition.
pub(super) fn reject_repeated(option: &str, names: impl Iterator<Item = &'static str>) -> Result<()> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            bail!("{option} {name}: is given twice; give it once");
        }
        seen.push(name);
    }
    Ok(())
}
