//! `--version`: the version, the features that were built in, and the library that captures.

use super::NAME;

/// Features of the build, in alphabetical order, and whether each is there.
const FEATURES: &[(&str, bool)] = &[
    ("gss", cfg!(feature = "gss")),
    ("live", cfg!(feature = "live")),
    ("parquet", cfg!(feature = "parquet")),
    ("tui", cfg!(feature = "tui")),
    ("verbs", cfg!(feature = "verbs")),
];

/// What `--version` prints.
pub(super) fn text() -> String {
    let mut text = format!("{NAME} {}\n", env!("CARGO_PKG_VERSION"));
    let signed =
        FEATURES.iter().map(|(name, is_there)| format!("{}{name}", if *is_there { '+' } else { '-' }));
    text += &format!("features: {}\n", signed.collect::<Vec<_>>().join(" "));
    #[cfg(feature = "live")]
    {
        text += &nfsrdma_capture_file::live::library_version();
        text.push('\n');
    }
    text
}
