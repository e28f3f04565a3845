//! The input line at the bottom: a filter, a text to search for, a location, or a file to save to.

use nfsrdma_analysis::filter::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry};
use nfsrdma_analysis::filter::{Filter, FilterError};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 200;
/// Maximum number of lines in the history.
const MAX_HISTORY_LINES: usize = 100;

/// Purpose of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptPurpose {
    Filter,
    Search,
    GoTo,
    Save,
}

impl PromptPurpose {
    /// Returns the text before the input.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Filter => "filter: ",
            Self::Search => "search: ",
            Self::GoTo => "go to: ",
            Self::Save => "save to: ",
        }
    }

    /// Returns an explanation of the possible input, shown after the input as long as it fits.
    pub(super) const fn explanation(self) -> &'static str {
        match self {
            Self::Save => "FILE, FILE all (all shown), FILE control (ACKs and NAKs too)",
            Self::Filter | Self::Search | Self::GoTo => "",
        }
    }

    /// Returns the explanation for a narrow screen.
    pub(super) const fn short_explanation(self) -> &'static str {
        match self {
            Self::Save => "FILE [all] [control]",
            Self::Filter | Self::Search | Self::GoTo => "",
        }
    }
}

/// Effect of a key on the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKeyOutcome {
    /// The prompt stays open.
    Continue,
    /// The input was accepted.
    Accepted,
    /// The input was cancelled.
    Cancelled,
}

/// A completion of the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptCompletionCandidate {
    /// The name to insert.
    pub(super) name: &'static str,
    /// Description.
    pub(super) description: String,
}

/// The input line.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) purpose: PromptPurpose,
    text: Vec<char>,
    cursor: usize,
    /// Error of the filter.
    pub(super) error: Option<FilterError>,
    /// Completions of the word at the cursor.
    pub(super) candidates: Vec<PromptCompletionCandidate>,
    /// Index of the inserted candidate, and start of its word.
    chosen: Option<(usize, usize)>,
    history: Vec<String>,
    /// Index of the displayed history line.
    history_index: usize,
}

impl Prompt {
    /// Returns a prompt that contains `text`. `history` holds earlier lines.
    pub(super) fn new(purpose: PromptPurpose, text: &str, history: &[String]) -> Self {
        let text: Vec<char> = text.chars().collect();
        let mut prompt = Self {
            purpose,
            cursor: text.len(),
            text,
            error: None,
            candidates: Vec::new(),
            chosen: None,
            history: history.to_vec(),
            history_index: history.len(),
        };
        prompt.update_candidates();
        prompt
    }

    /// Returns the input.
    pub(super) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Returns the cursor position in characters, counted from 0.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns the index of the inserted candidate.
    pub(super) fn chosen(&self) -> Option<usize> {
        self.chosen.map(|(at, _)| at)
    }

    /// Handles a key.
    pub(super) fn key(&mut self, event: KeyEvent) -> PromptKeyOutcome {
        let is_ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match (event.code, is_ctrl) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), true) => return PromptKeyOutcome::Cancelled,
            (KeyCode::Enter, _) => return PromptKeyOutcome::Accepted,
            (KeyCode::Backspace, _) if self.text.is_empty() => return PromptKeyOutcome::Cancelled,
            (KeyCode::Tab, _) => return self.complete(1),
            (KeyCode::BackTab, _) => return self.complete(-1),
            (KeyCode::Backspace, _) | (KeyCode::Char('h'), true) => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.text.remove(self.cursor);
                }
            }
            (KeyCode::Delete, _) | (KeyCode::Char('d'), true) => {
                if self.cursor < self.text.len() {
                    self.text.remove(self.cursor);
                }
            }
            (KeyCode::Left, _) | (KeyCode::Char('b'), true) => self.cursor = self.cursor.saturating_sub(1),
            (KeyCode::Right, _) | (KeyCode::Char('f'), true) => {
                self.cursor = (self.cursor + 1).min(self.text.len());
            }
            (KeyCode::Home, _) | (KeyCode::Char('a'), true) => self.cursor = 0,
            (KeyCode::End, _) | (KeyCode::Char('e'), true) => self.cursor = self.text.len(),
            (KeyCode::Char('u'), true) => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            (KeyCode::Char('k'), true) => self.text.truncate(self.cursor),
            (KeyCode::Char('w'), true) => {
                let before = self.text.get(..self.cursor).unwrap_or_default();
                let end = before.iter().rposition(|c| *c != ' ').map_or(0, |at| at + 1);
                let start = before.get(..end).and_then(|word| word.iter().rposition(|c| *c == ' '));
                let start = start.map_or(0, |at| at + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            (KeyCode::Up, _) => self.show_history(self.history_index.saturating_sub(1)),
            (KeyCode::Down, _) => self.show_history(self.history_index + 1),
            (KeyCode::Char(letter), false) => {
                self.text.insert(self.cursor, letter);
                self.cursor += 1;
            }
            _ => return PromptKeyOutcome::Continue,
        }
        self.update_candidates();
        PromptKeyOutcome::Continue
    }

    /// Inserts text at the cursor, as from a clipboard. Control characters, such as line breaks, become spaces.
    pub(super) fn paste(&mut self, text: &str) {
        for letter in text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
            self.text.insert(self.cursor, letter);
            self.cursor += 1;
        }
        self.update_candidates();
    }

    fn show_history(&mut self, at: usize) {
        if let Some(line) = self.history.get(at) {
            self.text = line.chars().collect();
            self.history_index = at;
        } else if at >= self.history.len() {
            self.text.clear();
            self.history_index = self.history.len();
        }
        self.cursor = self.text.len();
    }

    /// Updates the error and the candidates.
    fn update_candidates(&mut self) {
        self.chosen = None;
        if self.purpose != PromptPurpose::Filter {
            return;
        }
        let text = self.text();
        self.error = if text.trim().is_empty() { None } else { Filter::parse(&text).err() };
        self.candidates = self.find_candidates();
    }

    /// Returns the start of the word before the cursor.
    fn word_start(&self) -> usize {
        let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let before = self.text.get(..self.cursor).unwrap_or_default();
        before.iter().rposition(|c| !is_part(c)).map_or(0, |at| at + 1)
    }

    fn find_candidates(&self) -> Vec<PromptCompletionCandidate> {
        let start = self.word_start();
        let word: String = self.text.get(start..self.cursor).unwrap_or_default().iter().collect();
        let before: String = self.text.get(..start).unwrap_or_default().iter().collect();
        if let Some(field) = compared_field(&before)
            && !field.names.is_empty()
        {
            let fits = |name: &str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(&word));
            let names = field.names.iter().filter(|(_, name)| fits(name) && *name != word);
            let names = names.take(MAX_CANDIDATES);
            return names
                .map(|(number, name)| PromptCompletionCandidate { name, description: number.to_string() })
                .collect();
        }
        if word.is_empty() || before.trim_end().ends_with(['=', '<', '>', '~']) {
            return Vec::new();
        }
        let fits = |entry: &&FilterFieldCatalogEntry| entry.name.starts_with(&word) && entry.name != word;
        let entries = FilterFieldCatalog::shared().iter().filter(fits).take(MAX_CANDIDATES);
        entries
            .map(|entry| PromptCompletionCandidate {
                name: entry.name,
                description: format!("{}: {}", entry.kind, entry.text),
            })
            .collect()
    }

    /// Inserts the next candidate in place of the word; the first time, the common prefix of all candidates.
    fn complete(&mut self, step: isize) -> PromptKeyOutcome {
        let count = self.candidates.len();
        if count == 0 {
            return PromptKeyOutcome::Continue;
        }
        let (at, start) = match self.chosen {
            Some((at, start)) => ((at as isize + step).rem_euclid(count as isize) as usize, start),
            None => {
                let start = self.word_start();
                let common = self.common_prefix();
                if common.len() > self.cursor - start {
                    self.replace_word(start, &common);
                    // A single remaining candidate completes the word.
                    self.update_candidates();
                    return PromptKeyOutcome::Continue;
                }
                (if step > 0 { 0 } else { count - 1 }, start)
            }
        };
        if let Some(name) = self.candidates.get(at).map(|candidate| candidate.name) {
            self.replace_word(start, name);
            self.chosen = Some((at, start));
            let text = self.text();
            self.error = Filter::parse(&text).err();
        }
        PromptKeyOutcome::Continue
    }

    fn replace_word(&mut self, start: usize, name: &str) {
        self.text.splice(start..self.cursor, name.chars());
        self.cursor = start + name.chars().count();
    }

    fn common_prefix(&self) -> String {
        let Some(first) = self.candidates.first() else { return String::new() };
        let mut length = first.name.len();
        for candidate in &self.candidates {
            let same = first.name.bytes().zip(candidate.name.bytes());
            length = length.min(same.take_while(|(a, b)| a == b).count());
        }
        first.name.get(..length).unwrap_or_default().to_owned()
    }
}

/// Returns the field whose value comes next: `nfs.opcode == `, `nfs.opcode in {READ, `.
fn compared_field(before: &str) -> Option<&'static FilterFieldCatalogEntry> {
    let before = before.trim_end();
    let operators = ["==", "!=", "===", "!==", " eq", " ne"];
    let operand = operators.iter().find_map(|operator| before.strip_suffix(operator));
    let in_set = || {
        let (before, set) = before.rsplit_once('{')?;
        (!set.contains('}') && (set.is_empty() || set.trim_end().ends_with(','))).then_some(())?;
        before.trim_end().strip_suffix("in")
    };
    let name = operand.or_else(in_set)?.trim_end();
    let start = name.rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))).map_or(0, |at| at + 1);
    FilterFieldCatalog::shared().get(name.get(start..)?)
}

/// Adds a line to a history, unless it repeats the last one.
pub(super) fn add_to_history(history: &mut Vec<String>, line: &str) {
    if !line.is_empty() && history.last().is_none_or(|last| last != line) {
        history.push(line.to_owned());
        if history.len() > MAX_HISTORY_LINES {
            history.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Prompt {
        let mut prompt = Prompt::new(PromptPurpose::Filter, "", &[]);
        for letter in text.chars() {
            prompt.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
        }
        prompt
    }

    fn press(prompt: &mut Prompt, code: KeyCode) -> PromptKeyOutcome {
        prompt.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn names_of_fields_are_completed_as_far_as_they_are_the_same() {
        let mut prompt = typed("nfs.opc");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!(prompt.text(), "nfs.opcode");
        let mut prompt = typed("rpcordma.rdma_h");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!(prompt.text(), "rpcordma.rdma_handle");
    }

    #[test]
    fn more_tabs_go_through_the_candidates_and_around() {
        let mut prompt = typed("infiniband.ret");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!(prompt.text(), "infiniband.reth");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!(prompt.text(), "infiniband.reth.");
        press(&mut prompt, KeyCode::Tab);
        let first = prompt.text();
        assert!(first.len() > "infiniband.reth.".len(), "{first}");
        for _ in 0..prompt.candidates.len() {
            press(&mut prompt, KeyCode::Tab);
        }
        assert_eq!(prompt.text(), first);
    }

    #[test]
    fn names_of_values_are_completed_after_a_comparison() {
        let mut prompt = typed("nfs.opcode == SEQ");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!((prompt.text().as_str(), &prompt.error), ("nfs.opcode == SEQUENCE", &None));
        let mut prompt = typed("nfs.opcode in {READ, WRI");
        press(&mut prompt, KeyCode::Tab);
        assert_eq!(prompt.text(), "nfs.opcode in {READ, WRITE");
    }

    #[test]
    fn errors_are_shown_with_their_column_while_typing() {
        assert_eq!(typed("").error, None);
        assert_eq!(typed("nfs.opcode == READ").error, None);
        assert_eq!(typed("rpc.xid == nonsense").error.map(|error| error.column), Some(12));
    }

    #[test]
    fn the_line_is_edited_as_in_a_shell() {
        let mut prompt = typed("a bc def");
        let ctrl = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        prompt.key(ctrl('w'));
        assert_eq!(prompt.text(), "a bc ");
        prompt.key(ctrl('a'));
        press(&mut prompt, KeyCode::Delete);
        assert_eq!((prompt.text().as_str(), prompt.cursor()), (" bc ", 0));
        prompt.paste("x\ny");
        assert_eq!(prompt.text(), "x y bc ");
        prompt.key(ctrl('k'));
        assert_eq!(prompt.text(), "x y");
        prompt.key(ctrl('u'));
        assert_eq!((prompt.text().as_str(), press(&mut prompt, KeyCode::Backspace)), ("", PromptKeyOutcome::Cancelled));
    }

    #[test]
    fn earlier_lines_are_recalled() {
        let history = ["one".to_owned(), "two".to_owned()];
        let mut prompt = Prompt::new(PromptPurpose::Search, "", &history);
        press(&mut prompt, KeyCode::Up);
        press(&mut prompt, KeyCode::Up);
        press(&mut prompt, KeyCode::Up);
        assert_eq!(prompt.text(), "one");
        press(&mut prompt, KeyCode::Down);
        assert_eq!(prompt.text(), "two");
        press(&mut prompt, KeyCode::Down);
        assert_eq!(prompt.text(), "");
    }
}
