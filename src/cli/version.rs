//! `--version`: the version, the enabled features, and the capture library.

use super::standard_streams::NAME;

/// Features of the build in alphabetical order, with `true` if enabled.
const FEATURES: &[(&str, bool)] = &[
    ("gss", cfg!(feature = "gss")),
    ("live", cfg!(feature = "live")),
    ("parquet", cfg!(feature = "parquet")),
    ("tui", cfg!(feature = "tui")),
    ("verbs", cfg!(feature = "verbs")),
];

/// Returns the output of `--version`.
pub(super) fn text() -> String {
    let mut text = format!("{NAME} {}\n", env!("CARGO_PKG_VERSION"));
    let signed = FEATURES.iter().map(|(name, is_there)| format!("{}{name}", if *is_there { '+' } else { '-' }));
    text += &format!("features: {}\n", signed.collect::<Vec<_>>().join(" "));
    #[cfg(feature = "live")]
    {
        text += &nfsrdma_capture_file::live::library_version();
        text.push('\n');
    }
    text
}
