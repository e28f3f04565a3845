//! Comparison of two decodings of one capture: details that no field shows, and conformance findings.

use std::rc::Rc;

use super::difference::DifferenceKind;
use super::record::{ComparedMessage, MessageCompleteness};
use super::record_comparison::PairComparison;

/// Checks for two decodings of one message: title, status, and the extent of the decoding.
pub(super) fn compare_exactly(found: &mut PairComparison<'_>) {
    let (a, b) = (found.a, found.b);
    if a.title != b.title && !found.has_difference() {
        found.add_length_difference(DifferenceKind::Header, true, String::new(), &a.title, &b.title);
    }
    if a.status != b.status && !found.has_difference() {
        found.add_length_difference(DifferenceKind::Status, false, String::new(), &a.status, &b.status);
    }
    for (is_call, messages) in [(true, [&a.call, &b.call]), (false, [&a.reply, &b.reply])] {
        let [Some(one), Some(other)] = messages else { continue };
        if one.completeness != other.completeness && !found.has_difference() {
            let word = |message: &ComparedMessage| match message.completeness {
                MessageCompleteness::Complete => "whole",
                MessageCompleteness::Truncated => "cut",
                MessageCompleteness::Undecoded => "not decoded",
            };
            found.add_length_difference(
                DifferenceKind::Incomplete,
                is_call,
                String::new(),
                word(one),
                word(other),
            );
        }
    }
}

/// Compares the conformance findings. Each new finding, and each that vanished, is a difference.
pub(super) fn compare_findings(found: &mut PairComparison<'_>) {
    let (a, b) = (found.a, found.b);
    for rule in without(&a.findings, &b.findings) {
        found.add_length_difference(DifferenceKind::Finding, false, String::new(), rule, "none");
    }
    for rule in without(&b.findings, &a.findings) {
        found.add_length_difference(DifferenceKind::Finding, false, String::new(), "none", rule);
    }
}

/// Returns the rules that `others` lack. A rule that occurs more often than there is returned for each further occurrence.
fn without<'r>(rules: &'r [Rc<str>], others: &[Rc<str>]) -> Vec<&'r str> {
    let mut others: Vec<&str> = others.iter().map(|rule| &**rule).collect();
    let mut lacking = Vec::new();
    for rule in rules {
        match others.iter().position(|other| *other == &**rule) {
            Some(at) => _ = others.swap_remove(at),
            None => lacking.push(&**rule),
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_as_often_as_it_occurs() {
        let rules = |names: &[&str]| names.iter().map(|name| Rc::from(*name)).collect::<Vec<Rc<str>>>();
        let (once, twice) = (rules(&["a/b"]), rules(&["a/a", "a/b", "a/b"]));
        assert_eq!(without(&twice, &once), ["a/a", "a/b"]);
        assert_eq!(without(&once, &twice), [""; 0]);
    }
}
