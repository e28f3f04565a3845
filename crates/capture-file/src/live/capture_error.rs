//! Errors of libpcap.

use crate::error::SourceErrorKind;

/// Returns libpcap's error message.
pub(super) fn error_text(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn capture_error(description: impl Into<String>, remedy: impl Into<String>) -> SourceErrorKind {
    SourceErrorKind::Capture { what: description.into(), remedy: remedy.into() }
}

pub(super) fn capture_ended_error(reason: &str) -> SourceErrorKind {
    capture_error(
        format!("the capture ended: {reason}"),
        "earlier frames are valid; capture again when the interface is up",
    )
}
