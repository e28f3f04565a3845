//! Which steps of a trace run: what a filter selects, and the security of signed calls.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};

use super::server::open_trace;
use crate::filter::Filter;
use crate::replay::plan::planner::GssPolicy;
use crate::replay::plan::selected_steps::SelectedSteps;

/// Security of calls that were captured with RPCSEC_GSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SecurityModeArg {
    /// Send with AUTH_SYS, as root
    #[default]
    Sys,
    /// Do not send
    Skip,
    /// Sign with a new Kerberos context of the user who runs the replay
    Krb5,
}

/// Which steps run.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct StepSelectionArgs {
    /// Replay only the steps that match a display filter, and the steps they depend on
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Security of calls captured with krb5 or krb5i; krb5p calls cannot be replayed
    #[arg(long, value_name = "MODE", default_value = "sys")]
    sec: SecurityModeArg,
}

/// What a run does of its trace.
#[derive(Clone, Debug, Default)]
pub(super) struct StepSelection {
    pub(super) chosen: Option<Rc<SelectedSteps>>,
    pub(super) gss: GssPolicy,
}

impl StepSelectionArgs {
    /// Whether anything was asked for.
    pub(in crate::cli) fn is_asked(&self) -> bool {
        self.filter.is_some() || self.sec != SecurityModeArg::Sys
    }

    /// Holds what was asked for to what can be done.
    fn checked(&self) -> Result<(Option<Filter>, GssPolicy)> {
        let gss = match self.sec {
            SecurityModeArg::Sys => GssPolicy::Sys,
            SecurityModeArg::Skip => GssPolicy::Skip,
            SecurityModeArg::Krb5 => GssPolicy::Krb5,
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
    pub(super) fn of(&self, path: &Path) -> Result<StepSelection> {
        let (filter, gss) = self.checked()?;
        let Some(filter) = filter else { return Ok(StepSelection { chosen: None, gss }) };
        let (mut steps, mut contents) = (open_trace(path)?, open_trace(path)?);
        let chosen = SelectedSteps::select(&mut steps, &mut contents, filter);
        let chosen = chosen.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if chosen.selected == 0 {
            bail!("{}: --filter selects no step; 'replay plan' lists the operations", path.display());
        }
        Ok(StepSelection { chosen: Some(Rc::new(chosen)), gss })
    }
}
