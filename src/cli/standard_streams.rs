//! Messages on standard error, reports on standard output, and their errors.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use crate::escape;
use crate::output::report::Report;
use crate::output::settings::ReportFormat;

pub(super) const NAME: &str = env!("CARGO_PKG_NAME");

/// Maximum wait for a live source before other work, such as output of delayed lines or the end of the capture.
pub(super) const SOURCE_WAIT: Duration = Duration::from_millis(20);

/// Writes one line to standard error.
pub(super) fn report_error(error: impl fmt::Display) {
    // If standard error is closed, nothing can be reported.
    let _ = writeln!(io::stderr(), "{NAME}: {}", escape::display_line(error));
}

/// Returns an error message that begins with the name of its capture.
pub(super) fn with_capture(capture: &str, error: &str) -> String {
    let has_name = error.strip_prefix(capture).is_some_and(|rest| rest.starts_with(':'));
    if has_name { error.to_owned() } else { format!("{capture}: {error}") }
}

/// Returns `true` if the reader of the output closed it, as `head` does.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed))
}

/// Returns the error for standard output that cannot be written, as when the disk is full.
pub(super) fn write_error(error: io::Error) -> anyhow::Error {
    let advice = nfsrdma_output_file::write_advice(&error);
    let reason = nfsrdma_text::os_error_text(&error);
    let message = format!("standard output: cannot write: {reason}; {advice}");
    anyhow::Error::new(error).context(message)
}

/// Writes a report to standard output.
pub(super) fn print_report(format: ReportFormat, report: &impl Report) -> anyhow::Result<()> {
    let mut to = BufWriter::new(io::stdout().lock());
    let result = match format {
        ReportFormat::Text => report.text(&mut to),
        ReportFormat::Json => report.json(&mut to),
    };
    result.and_then(|()| to.flush()).map_err(write_error)
}
