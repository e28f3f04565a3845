//! The reader of the baseline text.
//!
//! A baseline is redundant for readability: counts follow from Transactions, and header names from their texts. So each
//! Transaction that was read is written again and must give the same lines, and so must the parts before the
//! Transactions, when all of these are known: every line is checked, none is repeated, and none contradicts another.
//!
//! The file is read twice: to check it, and for its records. Memory holds the parts before the Transactions, and one
//! Transaction.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use super::baseline_read_error::{BaselineReadError, REWRITE_ADVICE, begin, contradiction};
use super::baseline_recorder::CurrentCaptureBaseline;
use super::capture_counts::BaselineCounts;
use super::field_path_filter_names::BaselineFieldNamesByPath;
use super::line_reader::{BaselineLineReader, BaselineReadPosition, PositionalFileReader, for_each_line_length};
use super::memory_cost::line_bytes;
use super::message_header_texts::BaselineHeaderTextDictionary;
use super::record_parser::{BaselineRecordParser, BaselineTransaction, ComparableTransactionWithClient};
use super::settings::{BaselineSettings, SETTINGS_HEAD, is_conflict};
use super::writer::{BaselineHead, FORMAT_NAME, VERSION, frames_text, transaction_text, write_end};

const PARTS: [&str; 6] = [SETTINGS_HEAD, "[capture]", "[operations]", "[fields]", "[headers]", TRANSACTIONS];
const TRANSACTIONS: &str = "[transactions]";
const LAST_LINE_PREFIX: &str = "[end of ";

/// Returns the part that was the last of `begun_parts` parts.
fn part(begun_parts: usize) -> &'static str {
    begun_parts.checked_sub(1).and_then(|index| PARTS.get(index)).copied().unwrap_or_default()
}

/// File with a baseline.
#[derive(Debug)]
pub struct OpenBaselineFile {
    file: File,
}

impl OpenBaselineFile {
    /// Creates a reader of a regular file.
    pub fn new(file: File) -> Self {
        Self { file }
    }

    /// Returns `true` if the file is empty or begins as a baseline of any version, if need be in a git conflict.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn is_baseline(&self) -> Result<bool, BaselineReadError> {
        const MAX_LINE_BYTES: usize = 4_096;
        let mut lines = BaselineLineReader::new(&self.file, BaselineReadPosition::default(), MAX_LINE_BYTES);
        loop {
            match lines.next_bytes() {
                Ok(None) => return Ok(true),
                Ok(Some(line)) if str::from_utf8(line).is_ok_and(is_conflict) => {}
                Ok(Some(line)) => return Ok(line.starts_with(FORMAT_NAME.as_bytes())),
                Err(error) if error.needed_bytes.is_some() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the settings of a baseline whose other parts may be unreadable. In a git conflict both sides are kept.
    ///
    /// # Errors
    /// Returns an error for a line that is not a setting, so that rewriting the baseline does not lose it.
    pub fn kept_settings(&self, max_bytes: usize) -> Result<BaselineSettings, BaselineReadError> {
        let mut lines = BaselineLineReader::new(&self.file, BaselineReadPosition::default(), max_bytes);
        let mut settings = BaselineSettings::empty();
        let (mut is_inside, mut bytes) = (false, 0);
        while let Some(line) = lines.next_bytes()? {
            let line = String::from_utf8_lossy(line).replace(char::REPLACEMENT_CHARACTER, "\0");
            let number = lines.place.number;
            if is_inside {
                if line.starts_with('[') {
                    break;
                }
                bytes += line_bytes(SETTINGS_HEAD, line.len());
                if bytes > max_bytes {
                    return Err(self.too_large(number));
                }
                settings.keep_line(&line).map_err(|reason| BaselineReadError::new(number, reason))?;
            }
            is_inside |= line == SETTINGS_HEAD;
        }
        settings.end_of_kept();
        Ok(settings)
    }

    /// Returns the settings of a baseline.
    ///
    /// # Errors
    /// Returns an error for the first line up to the end of the settings that is malformed, or for another version.
    pub fn settings(&self, max_bytes: usize) -> Result<BaselineSettings, BaselineReadError> {
        let mut lines = BaselineLineReader::new(&self.file, BaselineReadPosition::default(), max_bytes);
        Ok(self.read_head(&mut lines, max_bytes, 2)?.settings)
    }

    /// Returns `true` if the file has the text of a baseline.
    ///
    /// # Errors
    /// Returns an error if the text of the recorded baseline cannot be read.
    pub fn has_text(&self, baseline: &CurrentCaptureBaseline) -> io::Result<bool> {
        let mut check =
            BaselineFileByteComparer { input: PositionalFileReader::buffered(&self.file, 0), differs: false };
        match baseline.write(&mut check) {
            Ok(()) => Ok(check.input.fill_buf()?.is_empty()),
            Err(_) if check.differs => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads and checks a baseline, in `max_bytes` bytes.
    ///
    /// # Errors
    /// Returns an error for a line that is malformed, contradicts other lines, or is of another version, or if a part
    /// does not fit into the memory.
    pub fn read(self, max_bytes: usize) -> Result<Baseline, BaselineReadError> {
        let mut lines = BaselineLineReader::new(&self.file, BaselineReadPosition::default(), max_bytes);
        let mut head = self.read_head(&mut lines, max_bytes, PARTS.len())?;
        let first = lines.place;
        let mut transactions = BaselineRoundTripVerifier::new(&head, max_bytes);
        while !transactions.has_end {
            let number = lines.place.number;
            let line = lines.next_line().map_err(|error| self.with_needed_bytes(error))?;
            let line = line.ok_or_else(|| truncated(number))?;
            transactions.line(number + 1, line).map_err(|error| self.with_needed_bytes(error))?;
        }
        let BaselineRoundTripVerifier { names, counts, count, incomplete, .. } = transactions;
        let number = lines.place.number;
        if let Some(line) = lines.next_line()? {
            let line = begin(line);
            return Err(BaselineReadError::new(
                number + 1,
                format!("unexpected {line:?} after the end; {REWRITE_ADVICE}"),
            ));
        }
        if count == 0 {
            let reason = format!("it has no transactions and checks nothing; {REWRITE_ADVICE}");
            return Err(BaselineReadError::new(number, reason));
        }
        head.counts.operations = counts.operations;
        head.counts.set_transactions(count, incomplete);
        self.check_head(&head, &names, max_bytes)?;
        let ParsedBaselineHead { settings, counts, fields, headers, .. } = head;
        Ok(Baseline { file: self.file, settings, counts, fields, headers, first, max_bytes })
    }

    /// Reads the lines up to the beginning of a part, 1 being the first.
    fn read_head(
        &self,
        lines: &mut BaselineLineReader<'_>,
        max_bytes: usize,
        last_part: usize,
    ) -> Result<ParsedBaselineHead, BaselineReadError> {
        let mut head = ParsedBaselineHead {
            settings: BaselineSettings::empty(),
            counts: BaselineCounts::default(),
            titles: BTreeSet::new(),
            fields: BaselineFieldNamesByPath::default(),
            headers: BaselineHeaderTextDictionary::default(),
            parts: 0,
        };
        let first = lines.next_line().map_err(|error| match error.needed_bytes {
            Some(_) => not_a_baseline(),
            None => error,
        })?;
        check_version(first)?;
        let mut bytes = 0;
        while head.parts < last_part {
            let number = lines.place.number + 1;
            let line = lines.next_line().map_err(|error| self.with_needed_bytes(error))?;
            let Some(line) = line else { return Err(truncated(number - 1)) };
            bytes += line_bytes(part(head.parts), line.len());
            if bytes > max_bytes {
                return Err(self.too_large(number));
            }
            head.line(line).map_err(|reason| BaselineReadError::new(number, reason))?;
        }
        Ok(head)
    }

    /// Checks the parts before the Transactions when these are known.
    fn check_head(
        &self,
        head: &ParsedBaselineHead,
        names: &BaselineHeaderTextDictionary,
        max_bytes: usize,
    ) -> Result<(), BaselineReadError> {
        let lines = || BaselineLineReader::new(&self.file, BaselineReadPosition::default(), max_bytes);
        if let Some(unused) = head.fields.unused() {
            let mut lines = lines();
            while lines.next_line()?.is_some_and(|line| line != unused) {}
            let reason = format!("{:?} is a field that no transaction has; {REWRITE_ADVICE}", begin(&unused));
            return Err(BaselineReadError::new(lines.place.number, reason));
        }
        let ParsedBaselineHead { settings, counts, fields, .. } = head;
        let mut comparer = RewrittenBaselineLineComparer { lines: lines(), line: Vec::new(), wrong: None };
        let written = BaselineHead { settings, counts, fields, headers: names }.write(&mut comparer);
        match (written, comparer.wrong) {
            (Err(_), Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn too_large(&self, line: u64) -> BaselineReadError {
        self.with_needed_bytes(BaselineReadError::too_large(line))
    }

    /// Adds the needed memory to an error, if it is that for a part that is too large.
    fn with_needed_bytes(&self, mut error: BaselineReadError) -> BaselineReadError {
        if error.needed_bytes.is_some() {
            let (mut parts, mut head, mut transaction, mut max_transaction) = (0, 0, 0, 0);
            let result = for_each_line_length(&self.file, |length, first| {
                let length = usize::try_from(length).unwrap_or(usize::MAX / 64);
                let bytes = line_bytes(part(parts), length);
                if parts < PARTS.len() {
                    head += bytes;
                    parts += usize::from(first.starts_with(b"["));
                } else {
                    transaction = if first.starts_with(b"  ") { transaction + bytes } else { bytes };
                    max_transaction = max_transaction.max(transaction);
                }
            });
            match result {
                Ok(()) => error.needed_bytes = Some(head.max(max_transaction) as u64),
                Err(cause) => {
                    let reason = format!("cannot read: {cause}; check the file");
                    error = BaselineReadError::new(error.line, reason);
                }
            }
        }
        error
    }
}

fn not_a_baseline() -> BaselineReadError {
    BaselineReadError::new(1, "not a baseline; move or remove it, and write one with check --bless".to_owned())
}

fn truncated(line: u64) -> BaselineReadError {
    let reason = format!("truncated: the last line, {LAST_LINE_PREFIX}...], is missing; {REWRITE_ADVICE}");
    BaselineReadError::new(line, reason)
}

fn check_version(line: Option<&str>) -> Result<(), BaselineReadError> {
    let Some(line) = line else {
        return Err(BaselineReadError::new(1, format!("the file is empty; {REWRITE_ADVICE}")));
    };
    match line.strip_prefix(FORMAT_NAME).map(|rest| rest.trim().parse::<u32>()) {
        Some(Ok(VERSION)) => Ok(()),
        Some(Ok(version)) => {
            let reason = format!("baseline version {version}, expected {VERSION}; rewrite with check --bless");
            Err(BaselineReadError::new(1, reason))
        }
        _ => Err(not_a_baseline()),
    }
}

/// The parts before the Transactions.
#[derive(Debug)]
struct ParsedBaselineHead {
    settings: BaselineSettings,
    counts: BaselineCounts,
    titles: BTreeSet<Box<str>>,
    fields: BaselineFieldNamesByPath,
    headers: BaselineHeaderTextDictionary,
    /// Number of parts that have begun.
    parts: usize,
}

impl ParsedBaselineHead {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with('[') {
            return self.part(line);
        }
        let part = part(self.parts);
        if part == SETTINGS_HEAD {
            return self.settings.add_line(line);
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let understood = match part {
            "[capture]" => count(line, &mut self.counts),
            // The counts follow from the Transactions.
            "[operations]" => line.rsplit_once(": ").map(|(title, _)| _ = self.titles.insert(title.into())),
            "[fields]" => self.fields.read(line),
            "[headers]" => {
                let (name, text) = line.split_at(line.find(' ').unwrap_or(line.len()));
                self.headers.insert(name, text);
                Some(())
            }
            _ => None,
        };
        understood.ok_or_else(|| format!("unexpected {:?}; {REWRITE_ADVICE}", begin(line)))
    }

    fn part(&mut self, line: &str) -> Result<(), String> {
        match PARTS.get(self.parts) {
            Some(part) if *part == line => {
                self.parts += 1;
                Ok(())
            }
            part => {
                let part = part.copied().unwrap_or_default();
                Err(format!("{:?} instead of the beginning of {part}; {REWRITE_ADVICE}", begin(line)))
            }
        }
    }
}

fn count(line: &str, counts: &mut BaselineCounts) -> Option<()> {
    let (key, count) = line.split_once(' ')?;
    counts.capture_counts.insert(key.to_owned(), count.parse().ok()?);
    Some(())
}

/// Check of the Transactions: each is written again and must give the same lines.
struct BaselineRoundTripVerifier<'h> {
    parser: BaselineRecordParser<'h>,
    titles: &'h BTreeSet<Box<str>>,
    /// Names of the headers so far, and the name of each text.
    names: BaselineHeaderTextDictionary,
    name_by_text: HashMap<Rc<str>, Rc<str>>,
    counts: BaselineCounts,
    count: u64,
    incomplete: u64,
    has_end: bool,
    /// Lines of the current Transaction, the number of the first, and their memory.
    lines: String,
    first_line: u64,
    bytes: usize,
    max_bytes: usize,
    last_frame: u64,
    written: String,
}

impl<'h> BaselineRoundTripVerifier<'h> {
    fn new(head: &'h ParsedBaselineHead, max_bytes: usize) -> Self {
        Self {
            parser: BaselineRecordParser::new(&head.fields, &head.headers, &head.settings),
            titles: &head.titles,
            names: BaselineHeaderTextDictionary::default(),
            name_by_text: HashMap::new(),
            counts: BaselineCounts::default(),
            count: 0,
            incomplete: 0,
            has_end: false,
            lines: String::new(),
            first_line: 0,
            bytes: 0,
            max_bytes,
            last_frame: 0,
            written: String::new(),
        }
    }

    fn line(&mut self, number: u64, line: &str) -> Result<(), BaselineReadError> {
        let read_error = |reason: String| BaselineReadError::new(number, reason);
        let is_detail = line.starts_with("  ");
        if line.starts_with('[') {
            if !line.starts_with(LAST_LINE_PREFIX) {
                let line = begin(line);
                return Err(read_error(format!("unexpected {line:?} among the transactions; {REWRITE_ADVICE}")));
            }
            self.has_end = true;
            self.lines += line;
            self.lines.push('\n');
            return self.end_of_transaction();
        }
        // The line before the end is empty.
        if !is_detail && !line.is_empty() {
            self.end_of_transaction()?;
            self.lines.clear();
            (self.first_line, self.bytes) = (number, 0);
        }
        self.bytes += line_bytes(TRANSACTIONS, line.len());
        if self.bytes > self.max_bytes {
            return Err(BaselineReadError::too_large(number));
        }
        self.lines += line;
        self.lines.push('\n');
        if line.is_empty() { Ok(()) } else { self.parser.line(line).map_err(read_error) }
    }

    /// Writes the Transaction again, and the end if it follows.
    fn end_of_transaction(&mut self) -> Result<(), BaselineReadError> {
        self.written.clear();
        if let Some(parsed) = self.parser.take_transaction() {
            let BaselineTransaction { client, record, headers } = &parsed;
            if !self.titles.contains(&*record.title) {
                let reason = format!("{:?} is not under [operations]; {REWRITE_ADVICE}", begin(&record.title));
                return Err(BaselineReadError::new(self.first_line, reason));
            }
            let headers = headers.each_ref().map(|text| text.as_ref().map(|text| self.name(text)));
            let headers = headers.each_ref().map(|name| name.as_deref().unwrap_or_default());
            let frames = format!("  # {}", frames_text(&record.location, &mut self.last_frame));
            transaction_text(&mut self.written, client, record, &frames, headers);
            self.counts.record(record);
            self.count += 1;
            self.incomplete += u64::from(!record.missing.is_empty());
        }
        if self.has_end {
            let mut end = Vec::new();
            let _ = write_end(&mut end, self.count);
            self.written += &String::from_utf8_lossy(&end);
        }
        if self.lines == self.written {
            return Ok(());
        }
        let (mut actual, mut written) = (self.lines.lines(), self.written.lines());
        let mut number = self.first_line;
        loop {
            match (actual.next(), written.next()) {
                (actual, written) if actual == written => number += 1,
                (actual, written) => {
                    let reason = contradiction(actual.unwrap_or_default(), written.unwrap_or_default());
                    return Err(BaselineReadError::new(number, reason));
                }
            }
        }
    }

    fn name(&mut self, text: &Rc<str>) -> Rc<str> {
        if let Some(name) = self.name_by_text.get(text) {
            return Rc::clone(name);
        }
        let name = self.names.add(text);
        self.name_by_text.insert(Rc::clone(text), Rc::clone(&name));
        name
    }
}

/// Compares written lines with those of a file, and keeps the first that differs.
struct RewrittenBaselineLineComparer<'f> {
    lines: BaselineLineReader<'f>,
    line: Vec<u8>,
    wrong: Option<BaselineReadError>,
}

impl RewrittenBaselineLineComparer<'_> {
    fn end_of_line(&mut self) -> Result<(), BaselineReadError> {
        let expected = String::from_utf8_lossy(&self.line).trim_ascii_end().to_owned();
        self.line.clear();
        let actual = self.lines.next_line()?.unwrap_or_default();
        // The comments of another version say the same in other words.
        let are_comments = actual.starts_with('#') && expected.starts_with('#');
        if actual == expected || are_comments {
            return Ok(());
        }
        let reason = contradiction(actual, &expected);
        Err(BaselineReadError::new(self.lines.place.number, reason))
    }
}

impl Write for RewrittenBaselineLineComparer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n")
                && let Err(error) = self.end_of_line()
            {
                self.wrong = Some(error);
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compares written bytes with those of a file.
struct BaselineFileByteComparer<R> {
    input: R,
    differs: bool,
}

impl<R: BufRead> Write for BaselineFileByteComparer<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let actual = self.input.fill_buf()?;
        let length = bytes.len().min(actual.len());
        self.differs = length == 0 && !bytes.is_empty() || actual.get(..length) != bytes.get(..length);
        if self.differs {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.input.consume(length);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A baseline that was checked. Its Transactions are in the file.
#[derive(Debug)]
pub struct Baseline {
    file: File,
    settings: BaselineSettings,
    counts: BaselineCounts,
    fields: BaselineFieldNamesByPath,
    headers: BaselineHeaderTextDictionary,
    /// Place of the first Transaction.
    first: BaselineReadPosition,
    max_bytes: usize,
}

impl Baseline {
    /// Returns the settings: the differences that count.
    pub fn settings(&self) -> &BaselineSettings {
        &self.settings
    }

    /// Returns the counts of the capture.
    pub fn counts(&self) -> &BaselineCounts {
        &self.counts
    }

    /// Returns a function that returns the next record; `None` at the end, or an error if the file cannot be read or
    /// was changed since it was checked.
    pub(super) fn records(&self) -> impl FnMut() -> Result<Option<ComparableTransactionWithClient>, BaselineReadError> {
        let mut lines = BaselineLineReader::new(&self.file, self.first, self.max_bytes);
        let mut parser = BaselineRecordParser::new(&self.fields, &self.headers, &self.settings);
        move || {
            loop {
                let number = lines.place.number + 1;
                let line = lines.next_line()?.filter(|line| !line.starts_with('['));
                let is_detail = line.is_some_and(|line| line.starts_with("  ") || line.is_empty());
                let finished = if is_detail { None } else { parser.finish_transaction() };
                if let Some(line) = line.filter(|line| !line.is_empty()) {
                    parser.line(line).map_err(|reason| BaselineReadError::new(number, reason))?;
                }
                if finished.is_some() || line.is_none() {
                    return Ok(finished.map(|parsed| (parsed.client, parsed.record)));
                }
            }
        }
    }
}
