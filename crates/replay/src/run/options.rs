//! Options of a run.

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use nfsrdma_analysis::comparison::options::ComparisonOptions;

use super::tolerance_rules::file::ToleranceFileRule;
use crate::auxiliary_programs::ConfiguredAuxiliaryPorts;
use crate::run_plan::selected_steps::SelectedSteps;
use crate::run_plan::step_replayability::GssCallReplayPolicy;

/// Order in which steps are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayOrder {
    /// A step waits for those that it depends on.
    #[default]
    Dependencies,
    /// Captured order and concurrency: a step waits for those whose Reply preceded its Call.
    Captured,
    /// By dependencies, and one step at a time per client.
    Serial,
}

impl FromStr for ReplayOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dependencies" => Ok(Self::Dependencies),
            "captured" => Ok(Self::Captured),
            "serial" => Ok(Self::Serial),
            _ => Err("give dependencies, captured or serial".into()),
        }
    }
}

/// Time at which steps that are ready are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReplayPace {
    /// At once.
    #[default]
    Immediate,
    /// At the captured times, this many times as fast.
    CapturedTimes(f64),
    /// At this rate in Calls per second.
    Rate(f64),
    /// After the captured think time, counted from the Reply to the previous step.
    ThinkTime,
    /// At once, but with at most as many in flight as in the capture when the step was sent.
    CapturedDepth,
}

impl FromStr for ReplayPace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse::<f64>() {
            Ok(number) if (1e-6..=1e9).contains(&number) => Ok(number),
            _ => Err(format!("invalid number {text:?}; give a number from 0.000001 to 1000000000")),
        };
        match text {
            "max" => Ok(Self::Immediate),
            "queue-depth" => Ok(Self::CapturedDepth),
            "captured" => Ok(Self::CapturedTimes(1.0)),
            "think-time" => Ok(Self::ThinkTime),
            _ => match (text.strip_prefix('x'), text.strip_prefix("rate=")) {
                (Some(times), _) => number(times).map(Self::CapturedTimes),
                (_, Some(rate)) => number(rate).map(Self::Rate),
                _ => Err("give max, captured, xN, rate=N, think-time or queue-depth".into()),
            },
        }
    }
}

impl fmt::Display for ReplayPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Immediate => f.write_str("max"),
            Self::CapturedTimes(1.0) => f.write_str("captured"),
            Self::CapturedTimes(times) => write!(f, "x{times}"),
            Self::Rate(rate) => write!(f, "rate={rate}"),
            Self::ThinkTime => f.write_str("think-time"),
            Self::CapturedDepth => f.write_str("queue-depth"),
        }
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Order of the steps.
    pub order: ReplayOrder,
    /// Send times of the steps.
    pub pace: ReplayPace,
    /// Maximum number of connections per client; `None` for the captured number.
    pub connections: Option<u32>,
    /// Maximum number of steps that are read ahead or in flight.
    pub window: usize,
    /// Reply timeout.
    pub timeout: Duration,
    /// Maximum number of retries of a delayed step. Each step that exhausts it halves it for the others.
    pub max_delay_retries: u32,
    /// Maximum time for which the server may only ask to retry later, before the run ends. Longer than a grace period,
    /// which is as long as a lease (RFC 8881 section 8.4.2.1): 90 s on Linux.
    pub delay_timeout: Duration,
    /// Maximum duration of the run; `None` for [`DEFAULT_LIMIT`] or ten times the duration of the capture at this pace,
    /// whichever is longer.
    pub max_time: Option<Duration>,
    /// `true` to tolerate no differences.
    pub strict: bool,
    /// Rules that are turned off.
    pub disabled_rules: Vec<&'static str>,
    /// Rules from a file.
    pub rules: Vec<ToleranceFileRule>,
    /// Differences to ignore.
    pub selection: ComparisonOptions,
    /// Maximum number of mismatches kept for display.
    pub max_shown_mismatches: usize,
    /// Steps to run; `None` for all.
    pub selected_steps: Option<Rc<SelectedSteps>>,
    /// Handling of Calls that used RPCSEC_GSS.
    pub gss: GssCallReplayPolicy,
    /// `true` to use the captured RDMA chunks as far as possible.
    pub captured_chunks: bool,
    /// Ports of the programs other than NFS.
    pub auxiliary_ports: ConfiguredAuxiliaryPorts,
    /// `true` if OPENs request the delegations of the captured Calls, instead of those that were granted.
    pub keeps_requested_wants: bool,
    /// Tag that makes the client owners of this run distinct from those of others.
    pub tag: String,
    /// `true` to check the file tree at the end.
    pub checks_tree: bool,
}

/// Default maximum duration of a run.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(3600);

impl ReplayOptions {
    /// Returns the maximum duration of a run whose capture lasted `recorded_ns`.
    pub fn max_duration(&self, recorded_ns: u64) -> Duration {
        let slowdown = match self.pace {
            ReplayPace::CapturedTimes(times) => 1.0 / times.clamp(1e-6, 1.0),
            _ => 1.0,
        };
        self.max_time.unwrap_or_else(|| {
            let seconds = recorded_ns as f64 / 1e9 * slowdown * 10.0;
            DEFAULT_LIMIT.max(Duration::from_secs_f64(seconds.min(1e9)))
        })
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            order: ReplayOrder::Dependencies,
            pace: ReplayPace::Immediate,
            connections: None,
            window: 256,
            timeout: Duration::from_secs(30),
            max_delay_retries: 250,
            delay_timeout: Duration::from_secs(150),
            max_time: None,
            strict: false,
            disabled_rules: Vec::new(),
            rules: Vec::new(),
            selection: ComparisonOptions::default(),
            max_shown_mismatches: 20,
            selected_steps: None,
            gss: GssCallReplayPolicy::Sys,
            captured_chunks: false,
            auxiliary_ports: ConfiguredAuxiliaryPorts::default(),
            keeps_requested_wants: false,
            tag: String::new(),
            checks_tree: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_paces_are_parsed_back() {
        for text in ["max", "captured", "think-time", "queue-depth", "x2.5", "rate=1000"] {
            assert_eq!(text.parse::<ReplayPace>().unwrap().to_string(), text);
        }
        assert!("fast".parse::<ReplayPace>().is_err());
        assert!("x0".parse::<ReplayPace>().is_err());
        assert!("rate=-1".parse::<ReplayPace>().is_err());
    }
}
