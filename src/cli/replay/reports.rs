//! Files that a run writes beside what it shows: a page of HTML, and what it sent and received as a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum, ValueHint};

use crate::output::replay::View;
use crate::replay::run::recording::Recording;
use crate::replay::trace::layout::Keeping;
use crate::source::reason;

/// What becomes of file data in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Data {
    /// It is kept, equal data once
    #[default]
    Keep,
    /// Its hash is kept, which `compare` needs
    Hash,
}

/// What a run writes.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ReportArgs {
    /// Write a report as a page of HTML, with recorded and replayed latency side by side
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) html: Option<PathBuf>,

    /// Write what the run sends and receives as a trace, for `compare`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,

    /// What becomes of file data in the recording
    #[arg(long, value_name = "HOW", default_value = "keep", requires = "record")]
    record_data: Data,
}

impl ReportArgs {
    /// Whether anything was asked for.
    pub(in crate::cli) fn is_asked(&self) -> bool {
        self.html.is_some() || self.record.is_some()
    }

    /// Says what cannot be done with so many traces.
    pub(in crate::cli) fn check(&self, traces: usize) -> Result<()> {
        if self.record.is_some() && traces > 1 {
            bail!("--record writes one trace, and {traces} captures are replayed; replay each by itself");
        }
        Ok(())
    }

    /// Begins a recording of a run of `trace`.
    pub(super) fn tape(&self, trace: &Path) -> Result<Option<Recording<BufWriter<File>>>> {
        let Some(path) = &self.record else { return Ok(None) };
        let is_same = path.canonicalize().ok().zip(trace.canonicalize().ok()).is_some_and(|(a, b)| a == b);
        if is_same {
            bail!("{}: is the trace that runs; record to another file", path.display());
        }
        let keeping = match self.record_data {
            Data::Keep => Keeping::KEPT,
            Data::Hash => Keeping::HASHED,
        };
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
        let recording =
            File::create(path).and_then(|file| Recording::new(BufWriter::new(file), keeping, &name));
        let failed = |error: io::Error| {
            anyhow!("{}: cannot write: {}; make room or record elsewhere", path.display(), reason(&error))
        };
        recording.map(Some).map_err(failed)
    }

    /// Writes the page.
    pub(super) fn write_html(&self, views: &[View<'_>]) -> Result<()> {
        let Some(path) = &self.html else { return Ok(()) };
        let write = || -> io::Result<()> {
            let mut to = BufWriter::new(File::create(path)?);
            View::html(views, &mut to)?;
            to.flush()
        };
        write().with_context(|| format!("{}: cannot write the report; check the path", path.display()))
    }
}
