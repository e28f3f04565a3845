//! Comparison of two decodings of one capture: details that no field shows, and conformance findings.

use super::difference::DifferenceKind;
use super::record::{ComparableFinding, ComparableMessage, MessageDecodeCompleteness};
use super::record_comparison::PairComparison;

/// Checks for two decodings of one message: title, status, and the extent of the decoding.
pub(super) fn compare_exactly(found: &mut PairComparison<'_>) {
    let (a, b) = (found.a, found.b);
    if a.title != b.title && !found.has_difference() {
        found.add_length_difference(DifferenceKind::Header, true, "", &a.title, &b.title);
    }
    if a.status != b.status && !found.has_difference() {
        found.add_length_difference(DifferenceKind::Status, false, "", &a.status, &b.status);
    }
    for (is_call, messages) in [(true, [&a.call, &b.call]), (false, [&a.reply, &b.reply])] {
        let [Some(one), Some(other)] = messages else { continue };
        if one.completeness != other.completeness && !found.has_difference() {
            let word = |message: &ComparableMessage| match message.completeness {
                MessageDecodeCompleteness::Complete => "whole",
                MessageDecodeCompleteness::Truncated => "cut",
                MessageDecodeCompleteness::Undecoded => "not decoded",
            };
            found.add_length_difference(DifferenceKind::Incomplete, is_call, "", word(one), word(other));
        }
    }
}

/// Compares the conformance findings. Each new finding, and each that vanished, is a difference.
pub(super) fn compare_findings(found: &mut PairComparison<'_>) {
    let (a, b) = (found.a, found.b);
    for ComparableFinding { rule, is_call } in without(&a.findings, &b.findings) {
        found.add_length_difference(DifferenceKind::Finding, *is_call, "", rule, "none");
    }
    for ComparableFinding { rule, is_call } in without(&b.findings, &a.findings) {
        found.add_length_difference(DifferenceKind::Finding, *is_call, "", "none", rule);
    }
}

/// Returns the findings of rules that `others` lack. If a rule occurs more often than there, each further occurrence is
/// returned.
fn without<'r>(
    findings: &'r [ComparableFinding],
    others: &[ComparableFinding],
) -> Vec<&'r ComparableFinding> {
    let mut others: Vec<&str> = others.iter().map(|finding| &*finding.rule).collect();
    let mut lacking = Vec::new();
    for finding in findings {
        match others.iter().position(|other| *other == &*finding.rule) {
            Some(at) => _ = others.swap_remove(at),
            None => lacking.push(finding),
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_as_often_as_it_occurs() {
        let findings = |rules: &[&str]| -> Vec<ComparableFinding> {
            rules.iter().map(|rule| ComparableFinding { rule: (*rule).into(), is_call: false }).collect()
        };
        let (once, twice) = (findings(&["a/b"]), findings(&["a/a", "a/b", "a/b"]));
        let rules = |lacking: Vec<&ComparableFinding>| -> Vec<String> {
            lacking.iter().map(|finding| finding.rule.to_string()).collect()
        };
        assert_eq!(rules(without(&twice, &once)), ["a/a", "a/b"]);
        assert_eq!(rules(without(&once, &twice)), [""; 0]);
    }
}
