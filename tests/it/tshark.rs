//! Version of the installed tshark: Debian 12 has 4.0, and Debian 13 has 4.4.

use std::process::Command;

/// Returns the version, such as `(4, 0)`; `None` if tshark is not installed.
pub(crate) fn version() -> Option<(u32, u32)> {
    let output = Command::new("tshark").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(parse(text.split_whitespace().nth(2)?).expect("a version"))
}

/// Parses a version: `4.4` or `4.4.18.`
pub(crate) fn parse(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
