//! Exit status of the program.

use std::process::ExitCode;

use nfsrdma_rpc::TransportErrorResponsibility;

/// Exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Success, whatever statuses the capture contains.
    Done,
    /// A check failed: two captures differ, a capture differs from its baseline, or the server broke the protocol.
    Differs,
    /// The arguments are invalid, an input could not be read to its end, or the output could not be written.
    Failed,
    /// Too little of a trace could be replayed, or the directory of a replay could not be removed.
    Uncovered,
    /// The server or the transport cannot be reached.
    Unreachable,
    /// This program itself broke a rule of the protocol.
    OwnFault,
}

impl From<TransportErrorResponsibility> for ExitStatus {
    fn from(responsibility: TransportErrorResponsibility) -> Self {
        match responsibility {
            TransportErrorResponsibility::Unreachable => Self::Unreachable,
            TransportErrorResponsibility::Server => Self::Differs,
            TransportErrorResponsibility::Program => Self::OwnFault,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(match exit {
            ExitStatus::Done => 0,
            ExitStatus::Differs => 1,
            ExitStatus::Failed => 2,
            ExitStatus::Uncovered => 3,
            ExitStatus::Unreachable => 4,
            ExitStatus::OwnFault => 6,
        })
    }
}
