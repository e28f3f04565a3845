//! Wrapping of text.

use crate::output::style::columns as width_of;

/// Wraps text to lines of at most `width` columns: at line breaks, between words, and within words longer than a line.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split_inclusive(' ') {
            let wide = width_of(word.trim_end());
            if used > 0 && used + wide > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            for letter in word.chars() {
                let wide = width_of(letter.encode_utf8(&mut [0; 4]));
                if used + wide > width && letter != ' ' {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(letter);
                used += wide;
            }
        }
        lines.push(line);
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

/// Wraps an enumeration to lines of at most `width` columns, behind commas: a number and its unit stay together. A part
/// longer than a line is wrapped between words.
pub(super) fn wrapped_parts(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line) if width_of(line) + width_of(part.trim_end()) <= width => line.push_str(part),
            _ => lines.extend(wrapped(part, width).into_iter().map(|line| line + " ")),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two", 7), ["one two"]);
        assert_eq!(wrapped("one\ntwo", 20), ["one", "two"]);
        assert!(wrapped("", 20).is_empty());
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        let text = "237 of 1,978, mean 180/s, 1.51 MiB/s";
        assert_eq!(wrapped_parts(text, 36), [text]);
        assert_eq!(wrapped_parts(text, 30), ["237 of 1,978, mean 180/s,", "1.51 MiB/s"]);
        assert_eq!(wrapped_parts(text, 12), ["237 of", "1,978,", "mean 180/s,", "1.51 MiB/s"]);
        assert!(wrapped_parts("", 12).is_empty());
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_broken() {
        assert_eq!(wrapped("a longest b", 4), ["a", "long", "est", "b"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }
}
