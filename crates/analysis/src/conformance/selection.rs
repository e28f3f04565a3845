//! Selection of findings by rule, group and severity, and the file of `--config`.

use std::net::IpAddr;
use std::str::FromStr;

use nfsrdma_conformance::{Finding, KNOWN_DEVIATIONS, RULES, ReportedFindingSeverity, Rule};
use nfsrdma_dissectors::address::Address;
use nfsrdma_flow::transaction::EndpointRole;
use serde::Deserialize;

/// Pattern of findings: a severity, the id of a rule, or an id with `*` for any characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum FindingSelectionPattern {
    /// All findings of a severity.
    Severity(ReportedFindingSeverity),
    /// All findings of the rules whose ids match.
    Rules(String),
}

impl FromStr for FindingSelectionPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(severity) = ReportedFindingSeverity::ALL.into_iter().find(|level| level.name() == text) {
            return Ok(Self::Severity(severity));
        }
        if RULES.iter().any(|rule| matches_glob(text, rule.id)) {
            return Ok(Self::Rules(text.to_owned()));
        }
        Err(format!("'{text}' is neither a severity nor the id or pattern of a rule; --list shows all rules"))
    }
}

impl TryFrom<String> for FindingSelectionPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FindingSelectionPattern {
    /// Returns `true` if the pattern selects the finding.
    pub fn selects(&self, finding: &Finding) -> bool {
        match self {
            Self::Severity(severity) => finding.severity == *severity,
            Self::Rules(pattern) => matches_glob(pattern, finding.rule.id),
        }
    }

    /// Returns `true` if the pattern denies the finding. A pattern with `*` denies errors and warnings, and the id of a
    /// rule its infos, too; the deviation of a known implementation is denied by its severity only.
    pub fn denies(&self, finding: &Finding) -> bool {
        let is_deniable = match self {
            Self::Severity(_) => true,
            Self::Rules(pattern) => match finding.severity {
                ReportedFindingSeverity::Error | ReportedFindingSeverity::Warning => true,
                ReportedFindingSeverity::Info => !pattern.contains('*'),
                ReportedFindingSeverity::Known => false,
            },
        };
        is_deniable && self.selects(finding)
    }

    /// Returns `true` if the pattern names the rule, whatever the severity of its findings.
    pub fn names(&self, rule: &Rule) -> bool {
        matches!(self, Self::Rules(pattern) if matches_glob(pattern, rule.id))
    }
}

/// Returns `true` if the pattern matches the text; `*` matches any part.
fn matches_glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((prefix, tail)) => text.strip_prefix(prefix).is_some_and(|rest| {
            let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            starts.any(|at| matches_glob(tail, rest.get(at..).unwrap_or_default()))
        }),
    }
}

/// A deviation of an implementation that a site knows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredKnownDeviation {
    /// Rules.
    pub rule: FindingSelectionPattern,
    /// Side that deviates; any, if absent.
    #[serde(default)]
    pub side: Option<KnownDeviationSide>,
    /// Address of the side that deviates; any, if absent.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Name of the implementation.
    pub implementation: String,
}

/// Side of a connection in the file of `--config`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KnownDeviationSide {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// The file of `--config`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LintConfig {
    /// Findings that fail.
    pub deny: Vec<FindingSelectionPattern>,
    /// Findings that are not reported.
    pub allow: Vec<FindingSelectionPattern>,
    /// Known deviations.
    pub known: Vec<ConfiguredKnownDeviation>,
    /// Rules of which no deviation is known, unless `known` has one: the deviations that this program knows do not
    /// count.
    pub not_known: Vec<FindingSelectionPattern>,
}

impl LintConfig {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the reason, and the line if the text is not TOML or a key or pattern is unknown.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", error.message())
        })?;
        for deviation in &config.known {
            if let FindingSelectionPattern::Severity(severity) = deviation.rule {
                return Err(format!("known: {} is a severity; name a rule or a pattern", severity.name()));
            }
            if deviation.implementation.trim().is_empty() {
                return Err("known: the name of the implementation is empty".to_owned());
            }
        }
        let is_known = |pattern: &&FindingSelectionPattern| {
            let mut rules = RULES.iter().filter(|rule| pattern.names(rule));
            rules.any(|rule| KNOWN_DEVIATIONS.iter().any(|deviation| deviation.rule == rule.id))
        };
        match config.not_known.iter().find(|pattern| !is_known(pattern)) {
            Some(FindingSelectionPattern::Rules(pattern)) => {
                Err(format!("not_known: this program knows no deviation from '{pattern}'"))
            }
            Some(FindingSelectionPattern::Severity(severity)) => {
                Err(format!("not_known: {} is a severity; name a rule or a pattern", severity.name()))
            }
            None => Ok(config),
        }
    }

    /// Applies the known deviations to a finding.
    pub fn apply_known(&self, finding: &mut Finding) {
        if self.not_known.iter().any(|pattern| pattern.names(finding.rule)) {
            finding.forget_known();
        }
        for deviation in &self.known {
            let side = match finding.side {
                EndpointRole::Client => (KnownDeviationSide::Client, finding.connection.client),
                EndpointRole::Server => (KnownDeviationSide::Server, finding.connection.server),
            };
            let is_side = deviation.side.is_none_or(|expected| expected == side.0);
            let is_address = deviation.address.is_none_or(|expected| match side.1.address {
                Address::Ip(address) => address == expected,
                _ => false,
            });
            if is_side && is_address && deviation.rule.selects(finding) {
                finding.severity = ReportedFindingSeverity::Known;
                finding.known = Some(deviation.implementation.clone().into());
            }
        }
    }

    /// Returns `true` if the finding is reported.
    pub fn reports(&self, finding: &Finding) -> bool {
        !self.allow.iter().any(|pattern| pattern.selects(finding))
    }

    /// Returns `true` if the finding fails.
    pub fn denies(&self, finding: &Finding) -> bool {
        self.deny.iter().any(|pattern| pattern.denies(finding))
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_capture_file::CaptureFrameSource;
    use nfsrdma_conformance::ConformanceChecker;
    use nfsrdma_flow::{Flow, FlowLimits};

    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, text, is_match) in [
            ("rpcrdma/*", "rpcrdma/credit-zero", true),
            ("*/credit-*", "rpcrdma/credit-zero", true),
            ("rpcrdma/credit", "rpcrdma/credit-zero", false),
            ("*", "nfs/slot-gap", true),
            ("nfs/*gap", "nfs/slot-gap", true),
            ("nfs/*gap", "nfs/slot-gaps", false),
        ] {
            assert_eq!(matches_glob(pattern, text), is_match, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_without_a_rule_is_an_error() {
        assert!("error".parse::<FindingSelectionPattern>().is_ok());
        assert!("rpcrdma/*".parse::<FindingSelectionPattern>().is_ok());
        let error = "rpcrdma/credit".parse::<FindingSelectionPattern>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'rpcrdma/credit' is neither a severity nor the id or pattern of a rule; --list shows all rules"
        );
    }

    #[test]
    fn entries_without_effect_or_without_a_rule_are_errors() {
        let entry = |rule: &str, name: &str| {
            LintConfig::from_toml(&format!("[[known]]\nrule = \"{rule}\"\nimplementation = \"{name}\"\n"))
        };
        assert!(entry("rpcrdma/credit-*", "a server").is_ok());
        assert!(entry("error", "a server").unwrap_err().contains("is a severity"));
        assert!(entry("rpcrdma/credit-zero", " ").unwrap_err().contains("is empty"));
        let not_known = |rule: &str| LintConfig::from_toml(&format!("not_known = [\"{rule}\"]\n"));
        assert!(not_known("rpcrdma/inval-*").is_ok());
        assert!(not_known("rpcrdma/credit-zero").unwrap_err().contains("knows no deviation"));
        assert!(not_known("known").unwrap_err().contains("is a severity"));
    }

    #[test]
    fn the_documentation_has_the_known_deviations() {
        let text = include_str!("../../../../docs/conformance.md");
        for known in KNOWN_DEVIATIONS {
            let row = format!(
                "| `{}` | {} | {} | {} | {} |",
                known.rule, known.side, known.text, known.implementation, known.seen_in
            );
            assert!(text.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_known_deviation_can_be_switched_off() {
        let mut frames = CaptureFrameSource::open([crate::testing::path("rxe-v42.pcap")]).unwrap();
        let mut flow = Flow::new(FlowLimits { record_transport_events: true, ..FlowLimits::default() });
        while let Some(frame) = frames.next().unwrap() {
            flow.process_frame(&frame);
        }
        flow.finish();
        let mut checker = ConformanceChecker::new();
        while let Some((key, transaction)) = flow.next_with_key() {
            transaction.with_messages(|messages| {
                checker.check_transaction(Some(key), &transaction, messages, &messages.summary());
            });
        }
        let found = checker.finish();
        let finding = found.iter().find(|finding| finding.severity == ReportedFindingSeverity::Known).unwrap();
        for (text, severity) in [
            ("", ReportedFindingSeverity::Known),
            ("not_known = ['rpcrdma/inval-not-announced']", ReportedFindingSeverity::Error),
        ] {
            let mut finding = finding.clone();
            LintConfig::from_toml(text).unwrap().apply_known(&mut finding);
            assert_eq!(finding.severity, severity, "{text}");
        }
    }

    #[test]
    fn a_file_names_its_unknown_keys() {
        let config = LintConfig::from_toml(
            "deny = ['error']\nallow = ['rpcrdma/credit-*']\n[[known]]\nrule = 'rpcrdma/version'\nside = 'server'\n\
             address = '10.9.0.1'\nimplementation = 'ExampleOS'\n",
        )
        .unwrap();
        assert_eq!((config.deny.len(), config.allow.len(), config.known.len()), (1, 1, 1));
        assert!(LintConfig::from_toml("denny = ['error']").unwrap_err().contains("denny"));
        assert!(LintConfig::from_toml("deny = ['nothing']").unwrap_err().contains("neither a severity nor"));
    }
}
