//! Selection of the steps of a trace: by a filter, and by the treatment of RPCSEC_GSS Calls.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use nfsrdma_analysis::filter::Filter;
use nfsrdma_replay::run_plan::selected_steps::SelectedSteps;
use nfsrdma_replay::run_plan::step_replayability::GssCallReplayPolicy;

use super::target_server_options::open_trace;

/// Treatment of Calls with RPCSEC_GSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum GssReplayPolicyArg {
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
    sec: GssReplayPolicyArg,
}

/// Selected steps of a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct StepSelection {
    pub(super) chosen: Option<Rc<SelectedSteps>>,
    pub(super) gss: GssCallReplayPolicy,
}

impl StepSelectionArgs {
    /// Returns `true` if any option differs from its default.
    pub(in crate::cli) fn has_selection(&self) -> bool {
        self.filter.is_some() || self.sec != GssReplayPolicyArg::Sys
    }

    /// Parses the filter and converts the options.
    fn parse_options(&self) -> Result<(Option<Filter>, GssCallReplayPolicy)> {
        let gss = match self.sec {
            GssReplayPolicyArg::Sys => GssCallReplayPolicy::Sys,
            GssReplayPolicyArg::Skip => GssCallReplayPolicy::Skip,
            GssReplayPolicyArg::Krb5 => GssCallReplayPolicy::Krb5,
        };
        match self.filter.as_deref().map(Filter::parse).transpose() {
            Ok(filter) => Ok((filter, gss)),
            Err(error) => bail!("--filter: {error}"),
        }
    }

    /// Returns an error if the options are invalid.
    pub(in crate::cli) fn check(&self) -> Result<()> {
        self.parse_options().map(|_| ())
    }

    /// Reads a trace and returns its selected steps.
    pub(super) fn select_steps(&self, path: &Path) -> Result<StepSelection> {
        let (filter, gss) = self.parse_options()?;
        let Some(filter) = filter else { return Ok(StepSelection { chosen: None, gss }) };
        let (mut steps, mut contents) = (open_trace(path)?, open_trace(path)?);
        let selection = SelectedSteps::select(&mut steps, &mut contents, filter);
        let selection = selection.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if selection.selected == 0 {
            bail!("{}: --filter selects no step; 'replay plan' lists the operations", path.display());
        }
        Ok(StepSelection { chosen: Some(Rc::new(selection)), gss })
    }
}
