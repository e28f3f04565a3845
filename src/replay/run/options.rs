//! How a run is to be done.

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use super::rules::file::ToleranceFileRule;
use crate::analysis::comparison::options::ComparisonOptions;
use crate::replay::auxiliary_programs::Ports;
use crate::replay::plan::planner::GssPolicy;
use crate::replay::plan::selected_steps::SelectedSteps;

/// In which order steps go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayOrder {
    /// A step waits for those that it depends on.
    #[default]
    Dependence,
    /// That of the capture: a step waits for those whose Reply was there when its Call was sent, so that as much is in
    /// flight at once as was then.
    Trace,
    /// By dependence, and one at a time of each client.
    Conservative,
}

impl FromStr for ReplayOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dependence" => Ok(Self::Dependence),
            "trace" => Ok(Self::Trace),
            "conservative" => Ok(Self::Conservative),
            _ => Err("is none of dependence, trace and conservative".into()),
        }
    }
}

/// When steps are sent that may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReplayPace {
    /// At once.
    #[default]
    Asap,
    /// At the times of the capture, this many times as fast.
    Original(f64),
    /// So many in a second.
    Rate(f64),
    /// As long after the step before it was answered as in the capture.
    Think,
    /// At once, as long as no more are in flight than there were in the capture when the step was sent.
    Depth,
}

impl FromStr for ReplayPace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse::<f64>() {
            Ok(number) if (1e-6..=1e9).contains(&number) => Ok(number),
            _ => Err(format!("{text:?} is no number from 0.000001 to 1000000000")),
        };
        match text {
            "asap" => Ok(Self::Asap),
            "depth" => Ok(Self::Depth),
            "original" => Ok(Self::Original(1.0)),
            "think" => Ok(Self::Think),
            _ => match (text.strip_prefix('x'), text.strip_prefix("rate=")) {
                (Some(times), _) => number(times).map(Self::Original),
                (_, Some(rate)) => number(rate).map(Self::Rate),
                _ => Err("is none of asap, original, think, depth, x2.5 and rate=1000".into()),
            },
        }
    }
}

impl fmt::Display for ReplayPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asap => f.write_str("asap"),
            Self::Original(1.0) => f.write_str("original"),
            Self::Original(times) => write!(f, "x{times}"),
            Self::Rate(rate) => write!(f, "rate={rate}"),
            Self::Think => f.write_str("think"),
            Self::Depth => f.write_str("depth"),
        }
    }
}

/// How a run is to be done.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// In which order.
    pub order: ReplayOrder,
    /// When.
    pub pace: ReplayPace,
    /// Connections of one client at most; `None` for as many as in the capture.
    pub connections: Option<u32>,
    /// Steps that are looked at ahead, and that are in flight at most.
    pub window: usize,
    /// How long a Reply may take.
    pub timeout: Duration,
    /// How often a step is sent again that the server asks to be sent later. Each step that was in vain halves it for the others.
    pub delays: u32,
    /// How long a server may answer nothing but that it is to be asked later, before the run ends. Longer than a grace period, which
    /// is as long as a lease (RFC 8881 section 8.4.2.1): 90 s on Linux.
    pub patience: Duration,
    /// How long the run may take; `None` for [`DEFAULT_LIMIT`], or ten times as long as the capture at this pace if that is more.
    pub max_time: Option<Duration>,
    /// Nothing is tolerated.
    pub strict: bool,
    /// Rules that are turned off.
    pub off: Vec<&'static str>,
    /// Rules of a file.
    pub rules: Vec<ToleranceFileRule>,
    /// Differences that do not count.
    pub selection: ComparisonOptions,
    /// Mismatches that are kept to be shown.
    pub shown: usize,
    /// The steps that run; `None` for all.
    pub chosen: Option<Rc<SelectedSteps>>,
    /// What becomes of Calls that were signed.
    pub gss: GssPolicy,
    /// Chunks on RDMA as in the capture, as far as that can be.
    pub captured_chunks: bool,
    /// Ports of programs beside NFS.
    pub beside: Ports,
    /// OPENs want the delegations that they asked for in the capture, not what they got.
    pub wants_as_asked: bool,
    /// What makes the clients of this run strangers to those of others.
    pub tag: String,
    /// Whether files are looked at in the end.
    pub walk: bool,
}

/// How long a run of a short capture may take if nothing is said.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(3600);

impl ReplayOptions {
    /// How long a run may take whose capture took so many nanoseconds.
    pub fn limit(&self, recorded_ns: u64) -> Duration {
        let slower = match self.pace {
            ReplayPace::Original(times) => 1.0 / times.clamp(1e-6, 1.0),
            _ => 1.0,
        };
        self.max_time.unwrap_or_else(|| {
            let seconds = recorded_ns as f64 / 1e9 * slower * 10.0;
            DEFAULT_LIMIT.max(Duration::from_secs_f64(seconds.min(1e9)))
        })
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            order: ReplayOrder::Dependence,
            pace: ReplayPace::Asap,
            connections: None,
            window: 256,
            timeout: Duration::from_secs(30),
            delays: 250,
            patience: Duration::from_secs(150),
            max_time: None,
            strict: false,
            off: Vec::new(),
            rules: Vec::new(),
            selection: ComparisonOptions::default(),
            shown: 20,
            chosen: None,
            gss: GssPolicy::AsSys,
            captured_chunks: false,
            beside: Ports::default(),
            wants_as_asked: false,
            tag: String::new(),
            walk: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_read_as_it_is_written() {
        for text in ["asap", "original", "think", "depth", "x2.5", "rate=1000"] {
            assert_eq!(text.parse::<ReplayPace>().unwrap().to_string(), text);
        }
        assert!("fast".parse::<ReplayPace>().is_err());
        assert!("x0".parse::<ReplayPace>().is_err());
        assert!("rate=-1".parse::<ReplayPace>().is_err());
    }
}
