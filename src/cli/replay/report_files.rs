//! Reports of a replay: HTML, JUnit XML, and a trace of the Calls and Replies.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum, ValueHint};
use nfsrdma_output_file::{OutputError, OutputFile, ProtectedInputFiles};
use nfsrdma_replay::run::trace_recording::ReplayRunTraceRecorder;
use nfsrdma_replay::trace::file_format::TraceFileDataRetention;

use crate::cli::output_file_creation;
use crate::output::replay::printable_report::ReplayReportOrRefusal;

/// Treatment of file data in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RecordedFileDataMode {
    /// Keep the data, deduplicated
    #[default]
    Keep,
    /// Keep only hashes, which are sufficient for 'compare'
    Hash,
}

/// What a run writes.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ReplayOutputArgs {
    /// Write an HTML report that compares captured and replayed latency
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) html: Option<PathBuf>,

    /// Record the calls and replies of the run as a trace, for 'compare'
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,

    /// Storage of file data in the recording
    #[arg(long, value_name = "MODE", default_value = "keep", requires = "record")]
    record_data: RecordedFileDataMode,
}

impl ReplayOutputArgs {
    /// Returns `true` if any report is selected.
    pub(in crate::cli) fn has_reports(&self) -> bool {
        self.html.is_some() || self.record.is_some()
    }

    /// Returns an error if the reports do not support this number of traces.
    pub(in crate::cli) fn check(&self, traces: usize) -> Result<()> {
        if self.record.is_some() && traces > 1 {
            bail!("--record needs exactly one capture, not {traces}; replay each separately");
        }
        Ok(())
    }

    /// Begins a recording of a replay of `trace`.
    pub(super) fn begin_recording(
        &self,
        trace: &Path,
        inputs: &ProtectedInputFiles,
    ) -> Result<Option<ReplayRunTraceRecorder<OutputFile>>> {
        let Some(path) = &self.record else { return Ok(None) };
        let retention = match self.record_data {
            RecordedFileDataMode::Keep => TraceFileDataRetention::KEPT,
            RecordedFileDataMode::Hash => TraceFileDataRetention::HASHED,
        };
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
        let recorder =
            ReplayRunTraceRecorder::new(output_file_creation::create_seekable(path, inputs)?, retention, &name)
                .map_err(|error| OutputError::write_error(path, error))?;
        Ok(Some(recorder.with_finish(|to| Ok(to.commit()?))))
    }

    /// Creates the reports, before anything is sent. `junit` is the path of the other report.
    pub(super) fn open(&self, junit: Option<&PathBuf>, inputs: &ProtectedInputFiles) -> Result<ReportFiles> {
        output_file_creation::check_distinct(&[
            ("--junit", junit),
            ("--html", self.html.as_ref()),
            ("--record", self.record.as_ref()),
        ])?;
        Ok(ReportFiles {
            junit: output_file_creation::create_report("--junit", junit, inputs)?,
            html: output_file_creation::create_report("--html", self.html.as_ref(), inputs)?,
        })
    }
}

/// Reports that are written at the end.
pub(super) struct ReportFiles {
    junit: Option<OutputFile>,
    html: Option<OutputFile>,
}

impl ReportFiles {
    pub(super) fn write(self, outcomes: &[ReplayReportOrRefusal<'_>], started: SystemTime) -> Result<()> {
        if let Some(to) = self.junit {
            output_file_creation::write_and_commit(to, |to| ReplayReportOrRefusal::junit(outcomes, to, started))?;
        }
        if let Some(to) = self.html {
            output_file_creation::write_and_commit(to, |to| ReplayReportOrRefusal::html(outcomes, to))?;
        }
        Ok(())
    }
}
