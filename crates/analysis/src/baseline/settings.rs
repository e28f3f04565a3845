//! The part `[settings]`: user settings of a baseline. Its lines are kept as typed, comments included.

use nfsrdma_flow::{EvictedState, UndecodedReason};

use crate::comparison::difference::DifferenceKind;
use crate::comparison::options::{ComparisonOptions, IgnoreKey, NumericTolerance};

pub(super) const SETTINGS_HEAD: &str = "[settings]";

const MAX_LINES: usize = 4_096;

/// User settings of a baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineSettings {
    /// The lines as typed.
    pub(super) lines: Vec<String>,
    options: ComparisonOptions,
}

/// No settings, and an empty line before the next part.
impl Default for BaselineSettings {
    fn default() -> Self {
        Self { lines: vec![String::new()], options: ComparisonOptions::default() }
    }
}

/// Returns the names of the capture counts that a tolerance can apply to.
fn counts() -> Vec<String> {
    let mut names: Vec<String> = ["frames", "transactions", "incomplete"].map(str::to_owned).into();
    names.extend(UndecodedReason::ALL.iter().map(|reason| format!("undecoded.{}", reason.key())));
    names.extend(EvictedState::ALL.iter().map(|state| format!("given_up.{}", state.key())));
    names
}

/// Returns `true` if a line is a git conflict marker.
pub(super) fn is_conflict(line: &str) -> bool {
    ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|marker| line.starts_with(marker))
}

impl BaselineSettings {
    /// Returns the comparison options: the differences that count.
    pub fn options(&self) -> &ComparisonOptions {
        &self.options
    }

    pub(super) fn ignores_identities(&self) -> bool {
        self.options.ignore.contains(&IgnoreKey::Kind(DifferenceKind::Identity))
    }

    pub(super) fn empty() -> Self {
        Self { lines: Vec::new(), options: ComparisonOptions::default() }
    }

    /// Adds a line of a baseline whose other parts may be unreadable. A line that both sides of a git conflict have is
    /// added once.
    pub(super) fn keep_line(&mut self, line: &str) -> Result<(), String> {
        let is_repeated = !line.is_empty() && self.lines.iter().any(|existing| existing == line);
        if is_conflict(line) || is_repeated { Ok(()) } else { self.add_line(line) }
    }

    /// Ends the lines that were kept with an empty one.
    pub(super) fn end_of_kept(&mut self) {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        self.lines.push(String::new());
    }

    /// Adds a line.
    pub(super) fn add_line(&mut self, line: &str) -> Result<(), String> {
        if self.lines.len() >= MAX_LINES {
            return Err(format!("more than {MAX_LINES} lines of settings; remove some"));
        }
        if line.contains(char::is_control) {
            return Err("a control character; remove it".to_owned());
        }
        let setting = line.split('#').next().unwrap_or_default();
        let mut words = setting.split_whitespace();
        match (words.next(), words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some("ignore"), Some(list), None, None) => {
                for word in list.split(',') {
                    let key: IgnoreKey = word.parse()?;
                    if self.options.ignore.contains(&key) {
                        return Err(format!("{key} is ignored twice; remove one of them"));
                    }
                    self.options.ignore.push(key);
                }
            }
            (Some("tolerate"), Some(fields), Some(max), None) => {
                let counts = counts();
                let counts: Vec<&str> = counts.iter().map(String::as_str).collect();
                if self.options.tolerances.iter().any(|existing| existing.fields == fields) {
                    return Err(format!("{fields} is tolerated twice; remove one of them"));
                }
                self.options.tolerances.push(NumericTolerance::new(fields, max.parse()?, &counts)?);
            }
            _ => {
                return Err(format!(
                    "invalid setting {:?}; write ignore WORD, or tolerate NAME MAX",
                    setting.trim().chars().take(60).collect::<String>()
                ));
            }
        }
        self.lines.push(line.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::baseline_read_error::BaselineReadError;
    use super::super::reader::OpenBaselineFile;
    use super::*;

    fn kept(text: &str) -> Result<BaselineSettings, BaselineReadError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        OpenBaselineFile::new(file).kept_settings(1 << 20)
    }

    fn error(text: &str) -> String {
        kept(&format!("[settings]\n{text}\n\n[capture]\n")).unwrap_err().to_string()
    }

    #[test]
    fn settings_are_preserved_as_typed() {
        let typed = [
            "# the server sizes buffers by its memory",
            "ignore inline,nfs.fattr4.*  # see there",
            "",
            "tolerate frames 5%",
        ];
        let text = format!("anything\n[settings]\n{}\n\n\n[capture]\nignore what\n", typed.join("\n"));
        let settings = kept(&text).unwrap();
        assert_eq!(settings.lines, [&typed[..], &[""]].concat());
        assert_eq!((settings.options.ignore.len(), settings.options.tolerances.len()), (2, 1));
    }

    #[test]
    fn settings_of_both_sides_of_a_conflict_are_retained() {
        let text = "[settings]\n<<<<<<< HEAD\nignore inline\nignore READ\n=======\nignore inline\nignore WRITE\n>>>>>>> other\n";
        assert_eq!(kept(text).unwrap().lines, ["ignore inline", "ignore READ", "ignore WRITE", ""]);
    }

    #[test]
    fn an_invalid_setting_is_an_error_with_a_proposal() {
        assert_eq!(error("ignore NOSUCHOP"), "line 2: unknown operation NOSUCHOP");
        assert_eq!(error("\nignore REDA"), "line 3: unknown operation REDA; did you mean READ?");
        assert_eq!(error("tolerate nosuch 5"), "line 2: unknown field, length or count nosuch");
        assert!(
            error("tolerate frames")
                .ends_with("invalid setting \"tolerate frames\"; write ignore WORD, or tolerate NAME MAX")
        );
        assert_eq!(error("ignore \u{1b}[31m"), "line 2: a control character; remove it");
        assert_eq!(error("ignore data,data"), "line 2: data is ignored twice; remove one of them");
        assert!(error("tolerate frames 1\ntolerate frames 2").starts_with("line 3: frames is tolerated twice"));
    }
}
