//! Reasons for variables without a value.

/// Reason code of a step that exceeds a limit of the live server.
pub(super) const SERVER_LIMIT_CODE: &str = "server-limit";

/// Reason code of a step that uses an object that the live server does not accept.
pub(super) const NOT_SEEDED_CODE: &str = "not-seeded";

/// Reason for a variable without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnboundVariableReason {
    /// A step exceeds a limit of the server.
    Limit,
    /// The server does not accept an object.
    Object,
}

impl UnboundVariableReason {
    /// Returns the state text of a step that needs the value.
    pub(super) fn text(self) -> String {
        match self {
            Self::Limit => {
                format!("{SERVER_LIMIT_CODE}: depends on a step that exceeds a limit of this server")
            }
            Self::Object => {
                format!("{NOT_SEEDED_CODE}: needs an object whose name or size this server does not accept")
            }
        }
    }
}
