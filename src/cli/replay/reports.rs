//! Files that a run writes beside what it shows: a page of HTML, and what it sent and received as a trace.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum, ValueHint};

use crate::cli::outputs;
use crate::output::replay::ReplayReportView;
use crate::output_file::{InputFiles, OutputError, OutputFile};
use crate::replay::run::recording::TraceRecorder;
use crate::replay::trace::layout::ContentRetention;

/// Treatment of file data in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RecordDataMode {
    /// Keep the data, deduplicated
    #[default]
    Keep,
    /// Keep only hashes, which are sufficient for 'compare'
    Hash,
}

/// What a run writes.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ReportArgs {
    /// Write an HTML report that compares captured and replayed latency
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) html: Option<PathBuf>,

    /// Record the calls and replies of the run as a trace, for 'compare'
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,

    /// Storage of file data in the recording
    #[arg(long, value_name = "MODE", default_value = "keep", requires = "record")]
    record_data: RecordDataMode,
}

impl ReportArgs {
    /// Whether anything was asked for.
    pub(in crate::cli) fn is_asked(&self) -> bool {
        self.html.is_some() || self.record.is_some()
    }

    /// Says what cannot be done with so many traces.
    pub(in crate::cli) fn check(&self, traces: usize) -> Result<()> {
        if self.record.is_some() && traces > 1 {
            bail!("--record needs exactly one capture, not {traces}; replay each separately");
        }
        Ok(())
    }

    /// Begins a recording of a run of `trace`.
    pub(super) fn tape(
        &self,
        trace: &Path,
        inputs: &InputFiles,
    ) -> Result<Option<TraceRecorder<OutputFile>>> {
        let Some(path) = &self.record else { return Ok(None) };
        let keeping = match self.record_data {
            RecordDataMode::Keep => ContentRetention::KEPT,
            RecordDataMode::Hash => ContentRetention::HASHED,
        };
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
        let recording = TraceRecorder::new(outputs::seekable(path, inputs)?, keeping, &name)
            .map_err(|error| OutputError::unwritten(path, error))?;
        Ok(Some(recording.with_finish(|to| Ok(to.commit()?))))
    }

    /// Begins the reports, before anything is sent. `junit` is the other one that was asked for.
    pub(super) fn open(&self, junit: Option<&PathBuf>, inputs: &InputFiles) -> Result<ReportFiles> {
        outputs::are_different(&[
            ("--junit", junit),
            ("--html", self.html.as_ref()),
            ("--record", self.record.as_ref()),
        ])?;
        Ok(ReportFiles {
            junit: outputs::report("--junit", junit, inputs)?,
            html: outputs::report("--html", self.html.as_ref(), inputs)?,
        })
    }
}

/// Reports that are written when all is done.
pub(super) struct ReportFiles {
    junit: Option<OutputFile>,
    html: Option<OutputFile>,
}

impl ReportFiles {
    /// Writes them.
    pub(super) fn write(self, views: &[ReplayReportView<'_>], started: SystemTime) -> Result<()> {
        if let Some(to) = self.junit {
            outputs::write(to, |to| ReplayReportView::junit(views, to, started))?;
        }
        if let Some(to) = self.html {
            outputs::write(to, |to| ReplayReportView::html(views, to))?;
        }
        Ok(())
    }
}
