//! Files of rules: further differences to tolerate, in the syntax of `compare --ignore`, with a justification.
//!
//! ```text
//! # The export maps all users to one.
//! [squash] users are mapped to nobody
//! ignore nfs.fattr3.uid,nfs.fattr3.gid
//! ignore status in SETATTR
//! ```
//!
//! A rule is a name in brackets with a reason, followed by its lines. `ignore` tolerates differences that one of its
//! words matches: a kind (`status`), a field (`nfs.fattr4.*`) or an operation (`READDIR`); `in` restricts it to
//! operations. `#` begins a comment.

use std::fmt;

use nfsrdma_analysis::comparison::difference::Difference;
use nfsrdma_analysis::comparison::options::{ComparisonOptions, IgnoreKey};

use super::{ALL, BuiltInToleranceRule};

/// Maximum number of rules in a file.
const MAX_RULES: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
struct ToleratedDifferencePattern {
    ignore: ComparisonOptions,
    /// Operations that it is restricted to, if any.
    within: Option<ComparisonOptions>,
}

/// A rule of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ToleranceFileRule {
    /// Name and reason.
    pub rule: BuiltInToleranceRule,
    lines: Vec<ToleratedDifferencePattern>,
}

/// Reason why a file of rules cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToleranceRuleFileError {
    /// Line number, from 1.
    pub line: usize,
    /// Error message, with a remedy.
    pub message: String,
}

impl fmt::Display for ToleranceRuleFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ToleranceRuleFileError {}

impl ToleranceFileRule {
    /// Returns `true` if the rule tolerates a difference.
    pub fn allows(&self, difference: &Difference) -> bool {
        let is_about = |options: &ComparisonOptions| !options.includes(difference);
        self.lines.iter().any(|line| is_about(&line.ignore) && line.within.as_ref().is_none_or(is_about))
    }
}

/// Reads a file of rules.
///
/// # Errors
/// Returns an error for the first invalid line.
pub fn parse_rules(text: &str) -> Result<Vec<ToleranceFileRule>, ToleranceRuleFileError> {
    let mut rules: Vec<ToleranceFileRule> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        parse_line(line, &mut rules).map_err(|message| ToleranceRuleFileError { line: number, message })?;
    }
    if let Some(rule) = rules.iter().find(|rule| rule.lines.is_empty()) {
        let name = rule.rule.name;
        let is_header = |line: &str| line.trim_start().starts_with(&format!("[{name}]"));
        let line = text.lines().position(is_header).map_or(1, |at| at + 1);
        let message = format!("[{name}] tolerates nothing; write ignore WORD below it");
        return Err(ToleranceRuleFileError { line, message });
    }
    Ok(rules)
}

fn parse_line(line: &str, rules: &mut Vec<ToleranceFileRule>) -> Result<(), String> {
    if line.chars().any(|character| character.is_control() && character != '\t') {
        return Err("a control character; remove it".to_owned());
    }
    let content = line.split('#').next().unwrap_or_default().trim();
    if content.is_empty() {
        return Ok(());
    }
    if let Some(rest) = content.strip_prefix('[') {
        let Some((name, reason)) = rest.split_once(']') else {
            return Err("missing ']' after the name; write [NAME] REASON".to_owned());
        };
        let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
        let reason = reason.trim();
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(format!("invalid name {name:?}; use letters, digits, - and _"));
        }
        if reason.is_empty() {
            return Err(format!("[{name}] has no reason; write [{name}] REASON"));
        }
        let mut existing_rules = ALL.iter().chain(rules.iter().map(|rule| &rule.rule));
        if existing_rules.any(|rule| rule.name == name) {
            return Err(format!("duplicate rule {name}; use another name"));
        }
        if rules.len() >= MAX_RULES {
            return Err(format!("more than {MAX_RULES} rules; merge some of them"));
        }
        // Rule names are `'static`, as reports also name built-in rules.
        let [name, reason] = [name, reason].map(|text| -> &'static str { Box::leak(text.to_owned().into()) });
        rules.push(ToleranceFileRule { rule: BuiltInToleranceRule { name, reason }, lines: Vec::new() });
        return Ok(());
    }
    let words: Vec<&str> = content.split_whitespace().collect();
    let (ignore, within) = match &words[..] {
        ["ignore", list] => (parse_words(list)?, None),
        ["ignore", list, "in", operations] => {
            let within = parse_words(operations)?;
            if let Some(key) = within.ignore.iter().find(|word| !matches!(word, IgnoreKey::Operation(_))) {
                return Err(format!("{key} is not an operation; write it before `in`"));
            }
            (parse_words(list)?, Some(within))
        }
        _ => {
            let excerpt: String = content.chars().take(60).collect();
            return Err(format!("invalid rule {excerpt:?}; write ignore WORD, or ignore WORD in OPERATION"));
        }
    };
    let rule = rules.last_mut().ok_or("no rule has a name yet; write [NAME] REASON before")?;
    rule.lines.push(ToleratedDifferencePattern { ignore, within });
    Ok(())
}

fn parse_words(list: &str) -> Result<ComparisonOptions, String> {
    let ignore = list.split(',').map(str::parse).collect::<Result<Vec<IgnoreKey>, String>>()?;
    Ok(ComparisonOptions { ignore, ..ComparisonOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_analysis::comparison::difference::{DifferenceKind, DifferenceSideValue};

    fn difference(kind: DifferenceKind, path: &str, field: &'static str) -> Difference {
        let (operation, path) = ("NFS 4.2 OPEN".to_owned(), path.to_owned());
        Difference {
            kind,
            operation,
            path,
            section: 0,
            field,
            count: 1,
            a: DifferenceSideValue::default(),
            b: DifferenceSideValue::default(),
        }
    }

    #[test]
    fn a_rule_allows_the_differences_of_each_of_its_lines() {
        let rules = parse_rules(
            "# a file system without modes\n[modes] it has none # really\nignore nfs.mode in GETATTR,READDIR\n\
             ignore count\n\n[opens] it has its own\nignore status in OPEN\n",
        )
        .unwrap();
        let allowed = |difference: &Difference| {
            rules.iter().find(|rule| rule.allows(difference)).map(|rule| (rule.rule.name, rule.rule.reason))
        };
        let mode = difference(DifferenceKind::Result, "GETATTR.obj_attributes.mode", "nfs.mode");
        assert_eq!(allowed(&mode), Some(("modes", "it has none")));
        let elsewhere = difference(DifferenceKind::Result, "SETATTR.mode", "nfs.mode");
        assert_eq!(allowed(&elsewhere), None);
        assert_eq!(
            allowed(&difference(DifferenceKind::Count, "WRITE.count", "nfs.count4")).map(|of| of.0),
            Some("modes")
        );
        assert_eq!(allowed(&difference(DifferenceKind::Status, "OPEN.status", "")).map(|of| of.0), Some("opens"));
    }

    #[test]
    fn an_invalid_line_is_an_error_with_number_and_remedy() {
        let error = |text: &str| parse_rules(text).unwrap_err().to_string();
        assert_eq!(error("\nignore count\n"), "line 2: no rule has a name yet; write [NAME] REASON before");
        assert_eq!(error("[a] why\nignore REDA"), "line 2: unknown operation REDA; did you mean READ?");
        assert_eq!(error("[a]\nignore count"), "line 1: [a] has no reason; write [a] REASON");
        assert_eq!(error("[acl] mine\nignore count"), "line 1: duplicate rule acl; use another name");
        assert_eq!(error("[a] why\n"), "line 1: [a] tolerates nothing; write ignore WORD below it");
        assert_eq!(
            error("[a] why\nignore count in nfs.mode"),
            "line 2: nfs.mode is not an operation; write it before `in`"
        );
        assert!(error("[a] why\nallow count").starts_with("line 2: invalid rule \"allow count\""));
    }

    #[test]
    fn the_document_shows_rules_that_can_be_read() {
        let document = include_str!("../../../../../docs/replay.md");
        let example = document.split("```").find(|part| part.contains("[squash]")).unwrap();
        assert_eq!(parse_rules(example).unwrap().len(), 1);
    }
}
