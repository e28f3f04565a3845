//! Which steps of a trace run: what a filter selects, and what becomes of Calls that were signed.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};

use super::server::open_trace;
use crate::filter::Filter;
use crate::replay::plan::chosen::Chosen;
use crate::replay::plan::judge::Gss;

/// What becomes of Calls that RPCSEC_GSS signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum How {
    /// They are sent with AUTH_SYS, as root
    #[default]
    AsSys,
    /// They are not sent
    Skip,
    /// They are signed with a context of this run, by Kerberos, as whoever runs it
    Reestablish,
}

/// Which steps run.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct PartArgs {
    /// Run what a display filter selects, and the steps that give it filehandles, stateids and sessions, alone
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Calls that RPCSEC_GSS signed; what it encrypted cannot be replayed in any way
    #[arg(long, value_name = "HOW", default_value = "as-sys")]
    gss: How,
}

/// What a run does of its trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) chosen: Option<Rc<Chosen>>,
    pub(super) gss: Gss,
}

impl PartArgs {
    /// Whether anything was asked for.
    pub(in crate::cli) fn is_asked(&self) -> bool {
        self.filter.is_some() || self.gss != How::AsSys
    }

    /// Holds what was asked for to what can be done.
    fn checked(&self) -> Result<(Option<Filter>, Gss)> {
        let gss = match self.gss {
            How::AsSys => Gss::AsSys,
            How::Skip => Gss::Skip,
            How::Reestablish => Gss::Reestablish,
        };
        match self.filter.as_deref().map(Filter::parse).transpose() {
            Ok(filter) => Ok((filter, gss)),
            Err(error) => bail!("--filter: {error}"),
        }
    }

    /// Says what is wrong with it before anything is done.
    pub(in crate::cli) fn check(&self) -> Result<()> {
        self.checked().map(|_| ())
    }

    /// Goes through a trace for the steps that run.
    pub(super) fn of(&self, path: &Path) -> Result<Part> {
        let (filter, gss) = self.checked()?;
        let Some(filter) = filter else { return Ok(Part { chosen: None, gss }) };
        let (mut steps, mut contents) = (open_trace(path)?, open_trace(path)?);
        let chosen = Chosen::of(&mut steps, &mut contents, filter);
        let chosen = chosen.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if chosen.selected == 0 {
            bail!(
                "{}: --filter selects no step; replay plan shows which operations there are",
                path.display()
            );
        }
        Ok(Part { chosen: Some(Rc::new(chosen)), gss })
    }
}
