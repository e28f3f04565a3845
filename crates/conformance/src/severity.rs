//! Severities of rules and of findings.

/// Severity of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; no requirement is broken.
    Info,
    /// A recommendation (SHOULD) is not followed, or a problem is likely.
    Warning,
    /// A requirement (MUST) is broken.
    Error,
}

impl Severity {
    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        ReportedFindingSeverity::from(self).name()
    }
}

/// Severity of a finding: that of its rule, or `Known` for the deviation of a known implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportedFindingSeverity {
    /// Worth knowing.
    Info,
    /// The known deviation of an implementation.
    Known,
    /// A recommendation is not followed, or a problem is likely.
    Warning,
    /// A requirement is broken.
    Error,
}

impl ReportedFindingSeverity {
    /// All levels, the most severe first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Known, Self::Info];

    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Known => "known",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl From<Severity> for ReportedFindingSeverity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Info,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}
