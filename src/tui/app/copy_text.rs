//! Copying to the clipboard: a value, the filter for it, or the command that shows it.

use nfsrdma_analysis::filter::derived_fields::GeneratedField;
use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_text::escape::is_unsafe;

use super::application_state::{App, FocusPane, NOTHING_CHOSEN};
use crate::tui::clipboard;
use crate::tui::frame_reload::detail_subject::{DetailSubject, TransactionReloadKey};

impl App {
    fn copy(&mut self, text: &str) {
        self.control_sequences.push(clipboard::sequence(text));
        self.show_message(format!("copied: {text}"));
    }

    /// Copies the value under the cursor: of a field, or of the row.
    pub(super) fn copy_value(&mut self) {
        let text = match self.focus {
            FocusPane::Tree | FocusPane::Bytes if self.view.has_tree() => self.tree.chosen().map(|line| {
                let text = line.text();
                line.literal.clone().or(text.split_once(": ").map(|(_, value)| value.to_owned())).unwrap_or(text)
            }),
            _ => self.row_value(),
        };
        match text {
            Some(text) => self.copy(text.trim_end()),
            None => self.show_error(NOTHING_CHOSEN),
        }
    }

    pub(super) fn copy_filter(&mut self) {
        match self.filter_for_value() {
            Ok(filter) => self.copy(&filter),
            Err(error) => self.show_error(error),
        }
    }

    /// Filters for the value under the cursor, in addition to the current filter.
    pub(super) fn filter_value(&mut self) {
        match self.filter_for_value() {
            Ok(filter) => {
                let filter = match &self.displayed_pass().filter {
                    Some((_, before)) if *before != filter => format!("({before}) && {filter}"),
                    _ => filter,
                };
                self.set_filter(&filter);
            }
            Err(error) => self.show_error(error),
        }
    }

    /// Copies the commands that show the row of the cursor: a Transaction, a frame, or the Transactions of a table row.
    pub(super) fn copy_command(&mut self) {
        let Some(paths) = self.capture.paths() else {
            return self.show_error("data from an interface or a pipe cannot be read again");
        };
        let files: Vec<String> = paths.iter().map(|path| shell_quoted(&path.to_string_lossy())).collect();
        let files = files.join(" ");
        if let Some(filter) = self.table_row_filter() {
            // tshark does not know the fields of these filters.
            return match filter {
                Ok(filter) => self.copy(&format!("nfsrdma-inspect -Y {} {files}", shell_quoted(&filter))),
                Err(error) => self.show_error(error),
            };
        }
        let (ours, frames) = match self.subject() {
            None => return self.show_error(NOTHING_CHOSEN),
            Some(DetailSubject::Frame(frame)) => {
                let ours =
                    format!("nfsrdma-inspect --view frames -V -Y '{} == {}' {files}", GeneratedField::Number, frame.0);
                (ours, vec![frame])
            }
            Some(subject @ DetailSubject::Transaction(TransactionReloadKey { index, first, last, .. })) => {
                let detail = self.tree.detail.as_ref().filter(|detail| detail.subject == subject);
                let frames = detail.map_or(vec![first, last], |detail| detail.frames.clone());
                (format!("nfsrdma-inspect -V -Y '{} == {index}' {files}", GeneratedField::Index), frames)
            }
        };
        // tshark reads a single file.
        let text = match paths {
            [_] => format!("{ours}\ntshark -V -r {files} -Y '{} in {{{}}}'", GeneratedField::Number, ranges(&frames)),
            _ => ours,
        };
        self.control_sequences.push(clipboard::sequence(&text));
        self.show_message(format!("copied:\n{text}"));
    }
}

/// Quotes text as one word of a shell. Unsafe characters are escaped in dollar quotes (POSIX.1-2024 section 2.2.4): a
/// terminal would obey them.
fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.chars().any(is_unsafe) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = "$'".to_owned();
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            letter if is_unsafe(letter) => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    quoted.push_str(&format!("\\{byte:03o}"));
                }
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "'"
}

/// Formats frame numbers as ranges: `590, 592..595`.
fn ranges(frames: &[FrameNumber]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for frame in frames {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 >= frame.0 => *end = frame.0,
            _ => ranges.push((frame.0, frame.0)),
        }
    }
    let text = ranges.iter().map(|(start, end)| match start == end {
        true => start.to_string(),
        false => format!("{start}..{end}"),
    });
    text.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_put_together() {
        let frames = [590, 592, 593, 593, 594, 600].map(FrameNumber);
        assert_eq!(ranges(&frames), "590, 592..594, 600");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_shell_takes_each_name_for_one_word() {
        assert_eq!(shell_quoted("captures/rxe-v42.pcap"), "captures/rxe-v42.pcap");
        assert_eq!(shell_quoted("my file's.pcap"), r"'my file'\''s.pcap'");
        assert_eq!(shell_quoted(""), "''");
        assert_eq!(shell_quoted("\u{1b}[31mit's\\\u{202e}.pcap"), r"$'\033[31mit\'s\\\342\200\256.pcap'");
    }
}
