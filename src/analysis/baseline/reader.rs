//! The reader of the baseline text.
//!
//! A baseline is redundant for readability: counts follow from Transactions, and header names from their texts. So a
//! baseline that was read is written again and must give the same text: every line is checked, none is repeated, and
//! none contradicts another.

use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::str::Lines;

use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::frame::FrameNumber;

use super::canonical_records::set_match_keys;
use super::fields::program;
use super::settings::{BaselineSettings, SETTINGS_HEAD, is_conflict};
use super::value_parser::value;
use super::writer::{FORMAT_NAME, write};
use super::{Baseline, BaselineCounts, VERSION};
use crate::analysis::comparison::difference::DifferenceLocation;
use crate::analysis::comparison::record::{
    ComparedChunk, ComparedChunkKind, ComparedField, ComparedMessage, ComparedSection, ComparedSegment,
    ComparisonRecord, MessageCompleteness,
};
use crate::analysis::comparison::recorder::signature;
use crate::analysis::comparison::{ComparisonClient, class};

/// The one operation name that contains a space, as written.
const UNKNOWN: &str = "unknown_operation";
/// The parts, in their order.
const PARTS: [&str; 6] =
    [SETTINGS_HEAD, "[capture]", "[operations]", "[fields]", "[headers]", "[transactions]"];
/// The beginning of the last line.
const LAST_LINE_PREFIX: &str = "[end of ";
/// Advice for a baseline that was modified.
const REWRITE_ADVICE: &str = "restore it, or write it again with check --bless";

/// The error for a baseline that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineReadError {
    /// The line number, from 1.
    pub line: u64,
    /// The error and its remedy.
    pub reason: String,
}

impl std::fmt::Display for BaselineReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for BaselineReadError {}

/// Returns the beginning of a line, for a message.
fn begin(line: &str) -> String {
    let mut text: String = line.chars().take(80).collect();
    if text.len() < line.len() {
        text += " ...";
    }
    text
}

/// Reads a baseline.
///
/// # Errors
/// Returns an error for the first line that is malformed, contradicts other lines, or is of another version.
pub fn read(text: &str) -> Result<Baseline, BaselineReadError> {
    let mut line = 0;
    let wrong = |line: u64, what: String| BaselineReadError { line, reason: what };
    for text in text.lines() {
        line += 1;
        if is_conflict(text) {
            let what = "unresolved merge conflict; rewrite with check --bless, which keeps the settings";
            return Err(wrong(line, what.to_owned()));
        }
        if text.contains(char::is_control) {
            return Err(wrong(line, format!("a control character; {REWRITE_ADVICE}")));
        }
    }
    let head = text.lines().next().ok_or_else(|| wrong(1, format!("the file is empty; {REWRITE_ADVICE}")))?;
    let version = head.strip_prefix(FORMAT_NAME).map(|rest| rest.trim().parse::<u32>());
    match version {
        Some(Ok(VERSION)) => {}
        Some(Ok(other)) => {
            let what = format!("baseline version {other}, expected {VERSION}; rewrite with check --bless");
            return Err(wrong(1, what));
        }
        _ => return Err(wrong(1, "not a baseline; write one with check --bless".to_owned())),
    }
    let mut reading = BaselineReader {
        baseline: Baseline { settings: BaselineSettings::empty(), ..Baseline::default() },
        parts: 0,
        has_end: false,
        headers: HashMap::new(),
        read_headers: BaselineHeaderEntries::new(),
        transaction: None,
        program: String::new(),
        previous_frame: 0,
    };
    let mut number = 0;
    for line in text.lines() {
        number += 1;
        if number > 1 {
            reading.line(line.trim_end()).map_err(|what| wrong(number, what))?;
        }
    }
    if !reading.has_end {
        return Err(wrong(
            number,
            format!("truncated: the last line, {LAST_LINE_PREFIX}...], is missing; {REWRITE_ADVICE}"),
        ));
    }
    let baseline = reading.finish();
    if baseline.records.is_empty() {
        return Err(wrong(number, format!("it has no Transactions, and holds nothing; {REWRITE_ADVICE}")));
    }
    if let Some(unused) = baseline.fields.unused() {
        let line = (1..).zip(text.lines()).find(|(_, line)| line.trim_end() == unused);
        let line = line.map_or(number, |(line, _)| line);
        return Err(wrong(
            line,
            format!("{:?} is a field that no Transaction has; {REWRITE_ADVICE}", begin(&unused)),
        ));
    }
    let mut same = BaselineRewriteCheck { lines: text.lines(), number: 0, line: Vec::new(), wrong: None };
    let written = write(&mut same, &baseline).is_ok();
    if let Some(wrong) = same.wrong.take().filter(|_| !written) {
        return Err(wrong);
    }
    match same.lines.next() {
        Some(line) => Err(wrong(
            same.number + 1,
            format!("nothing follows the end, and here is {:?}; {REWRITE_ADVICE}", begin(line)),
        )),
        None => Ok(baseline),
    }
}

/// Compares written text with the text that was read, and keeps the first line that differs.
struct BaselineRewriteCheck<'t> {
    lines: Lines<'t>,
    number: u64,
    line: Vec<u8>,
    wrong: Option<BaselineReadError>,
}

impl BaselineRewriteCheck<'_> {
    fn end_of_line(&mut self) -> io::Result<()> {
        let expected = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        self.number += 1;
        let found = self.lines.next().map(str::trim_end);
        if found == Some(&expected) {
            return Ok(());
        }
        let what = match found {
            Some(found) => format!(
                "{:?} contradicts {:?}, which follows from the other lines; {REWRITE_ADVICE}",
                begin(found),
                begin(&expected)
            ),
            None => format!("truncated where {:?} follows; {REWRITE_ADVICE}", begin(&expected)),
        };
        self.wrong = Some(BaselineReadError { line: self.number, reason: what });
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl Write for BaselineRewriteCheck<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_of_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decoded headers by program, message and name; many messages have the same headers.
type BaselineHeaderEntries = HashMap<(String, bool, String), Vec<ComparedField>>;

/// State of reading a baseline.
struct BaselineReader {
    baseline: Baseline,
    /// Number of parts that have begun.
    parts: usize,
    has_end: bool,
    /// Header texts by name.
    headers: HashMap<String, String>,
    read_headers: BaselineHeaderEntries,
    transaction: Option<(ComparisonClient, ComparisonRecord)>,
    /// The program of the current Transaction.
    program: String,
    /// The first frame of the previous Transaction.
    previous_frame: u64,
}

impl BaselineReader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if self.has_end {
            return if line.is_empty() {
                Ok(())
            } else {
                Err(format!("nothing follows the end; {REWRITE_ADVICE}"))
            };
        }
        if line.starts_with('[') {
            return self.part(line);
        }
        let part = self.parts.checked_sub(1).and_then(|part| PARTS.get(part)).copied().unwrap_or_default();
        if part == SETTINGS_HEAD {
            return self.baseline.settings.add_line(line);
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let understood = match part {
            "[capture]" => count(line, &mut self.baseline.counts),
            // These follow from the Transactions.
            "[operations]" => Some(()),
            "[fields]" => self.baseline.fields.read(line),
            "[headers]" => {
                let (name, text) = line.split_once(' ').unwrap_or((line, ""));
                self.headers.insert(name.to_owned(), text.to_owned());
                Some(())
            }
            "[transactions]" => match line.strip_prefix("  ") {
                Some(line) => self.read_detail(line)?,
                None => self.begin(line),
            },
            _ => None,
        };
        understood.ok_or_else(|| format!("what is {:?}? {REWRITE_ADVICE}", begin(line)))
    }

    fn part(&mut self, line: &str) -> Result<(), String> {
        if PARTS.get(self.parts) == Some(&line) {
            self.parts += 1;
            return Ok(());
        }
        self.has_end = line.starts_with(LAST_LINE_PREFIX) && self.parts == PARTS.len();
        match (self.has_end, PARTS.get(self.parts)) {
            (true, _) => Ok(()),
            (false, Some(part)) => {
                Err(format!("{:?} instead of the beginning of {part}; {REWRITE_ADVICE}", begin(line)))
            }
            (false, None) => {
                Err(format!("unexpected {:?} among the Transactions; {REWRITE_ADVICE}", begin(line)))
            }
        }
    }

    /// Reads the first line of a Transaction.
    fn begin(&mut self, line: &str) -> Option<()> {
        self.end_of_transaction();
        let (line, frames) = line.split_once("  # ")?;
        let mut words = line.splitn(4, ' ');
        let address = words.next()?;
        let direction = match words.next()? {
            "forward" => CallDirection::Forward,
            "reverse" => CallDirection::Reverse,
            _ => return None,
        };
        let (status, title) = (words.next()?, words.next()?);
        let place = self.place(frames)?;
        let class = class(title);
        let record = ComparisonRecord {
            location: place,
            end_frame: place.reply.or(place.call).map_or(0, |frame| frame.0),
            title: title.into(),
            minor_version: title.split(' ').find_map(|word| word.split_once('.')?.1.parse().ok()),
            signature: signature(&class),
            class: class.into(),
            status: status.into(),
            ..ComparisonRecord::default()
        };
        self.program = program(title);
        self.transaction = Some((ComparisonClient { address: address.into(), direction }, record));
        Some(())
    }

    /// Reads relative frame numbers: `call +4, reply +5`.
    fn place(&mut self, text: &str) -> Option<DifferenceLocation> {
        let step = |from: u64, text: &str| from.checked_add_signed(text.parse().ok()?);
        let (mut place, mut last) = (DifferenceLocation::default(), self.previous_frame);
        for part in text.split(", ").filter(|part| *part != "nowhere") {
            let (word, steps) = part.split_once(' ')?;
            last = step(last, steps)?;
            match word {
                "call" => place.call = Some(FrameNumber(last)),
                "reply" => place.reply = Some(FrameNumber(last)),
                _ => return None,
            }
        }
        self.previous_frame = place.frame().map_or(self.previous_frame, |frame| frame.0);
        Some(place)
    }

    /// Reads a detail line of the current Transaction.
    fn read_detail(&mut self, line: &str) -> Result<Option<()>, String> {
        let Some((client, mut record)) = self.transaction.take() else { return Ok(None) };
        let understood = self.apply_detail(line, &mut record)?;
        self.transaction = Some((client, record));
        Ok(understood)
    }

    fn apply_detail(&mut self, line: &str, record: &mut ComparisonRecord) -> Result<Option<()>, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "call" => record.call = self.message(rest, true)?,
            "reply" => record.reply = self.message(rest, false)?,
            "chunk" => {
                let Some(chunk) = chunk(rest) else { return Ok(None) };
                record.chunks.push(chunk);
            }
            "missing" => record.missing = rest.split(' ').map(str::to_owned).collect(),
            "findings" => record.findings = rest.split(' ').map(Rc::from).collect(),
            "->" => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                return self.operation(record.reply.as_mut(), false, name, rest);
            }
            name => {
                let arguments = match outside_quotes(rest, "->") {
                    Some(at) => rest.get(..at).unwrap_or_default().trim_end(),
                    None => rest,
                };
                let results = outside_quotes(rest, "->").and_then(|at| rest.get(at + 2..));
                let understood = self.operation(record.call.as_mut(), true, name, arguments)?;
                return match results {
                    Some(results) if understood.is_some() => {
                        self.operation(record.reply.as_mut(), false, name, results)
                    }
                    _ => Ok(understood),
                };
            }
        }
        Ok(Some(()))
    }

    /// Adds an operation to a message.
    fn operation(
        &self,
        message: Option<&mut ComparedMessage>,
        is_call: bool,
        name: &str,
        text: &str,
    ) -> Result<Option<()>, String> {
        let Some(message) = message else { return Ok(None) };
        let entries = self.entries(is_call, name, text)?;
        let name = if name == UNKNOWN { UNKNOWN.replace('_', " ").into() } else { name.into() };
        message.sections.push(ComparedSection { name, entries });
        Ok(Some(()))
    }

    fn message(&mut self, text: &str, is_call: bool) -> Result<Option<ComparedMessage>, String> {
        let mut words = text.split(' ');
        let (Some(proc), Some(length), Some(header)) = (words.next(), words.next(), words.next()) else {
            return Ok(None);
        };
        let end = match words.next() {
            None => MessageCompleteness::Complete,
            Some("cut") => MessageCompleteness::Truncated,
            Some("undecoded") => MessageCompleteness::Undecoded,
            Some(_) => return Ok(None),
        };
        let Ok(length) = length.parse() else { return Ok(None) };
        let key = (self.program.clone(), is_call, header.to_owned());
        let entries = match self.read_headers.get(&key) {
            Some(entries) => entries.clone(),
            None => {
                let Some(text) = self.headers.get(header) else {
                    return Err(format!("{header} is not under [headers]; {REWRITE_ADVICE}"));
                };
                let entries = self.entries(is_call, "", text)?;
                self.read_headers.insert(key, entries.clone());
                entries
            }
        };
        Ok(Some(ComparedMessage {
            sections: vec![ComparedSection { name: Rc::default(), entries }],
            completeness: end,
            proc: Some(proc).filter(|proc| *proc != "-").map(Rc::from),
            length,
            varying: 0,
        }))
    }

    /// Reads the fields of a line: `offset=0 name="a b"`.
    fn entries(&self, is_call: bool, operation: &str, text: &str) -> Result<Vec<ComparedField>, String> {
        let mut entries = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = outside_quotes(rest, " ").unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after.trim_start();
            let (path, text) = word.split_once('=').unwrap_or((word, ""));
            let Some(known) = self.baseline.fields.find(&self.program, is_call, operation, path) else {
                return Err(format!("{operation} {path} is not under [fields]; {REWRITE_ADVICE}"));
            };
            let Some(datum) = value(text, known.entry) else {
                return Err(format!("invalid value {}; {REWRITE_ADVICE}", begin(word)));
            };
            entries.push(ComparedField { path: Rc::clone(&known.path), datum });
        }
        Ok(entries)
    }

    fn end_of_transaction(&mut self) {
        if let Some((client, mut record)) = self.transaction.take() {
            set_match_keys(&mut record, !self.baseline.settings.ignores_identities());
            self.baseline.counts.record(&record);
            self.baseline.records.push((client, record));
        }
    }

    fn finish(mut self) -> Baseline {
        self.end_of_transaction();
        self.baseline.update_transaction_counts();
        self.baseline
    }
}

fn count(line: &str, counts: &mut BaselineCounts) -> Option<()> {
    let (key, count) = line.split_once(' ')?;
    counts.capture_counts.insert(key.to_owned(), count.parse().ok()?);
    Some(())
}

/// Returns the position of a text outside quotes.
fn outside_quotes(line: &str, text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    line.char_indices().find_map(|(at, letter)| {
        if !is_quoted && line.get(at..).is_some_and(|rest| rest.starts_with(text)) {
            return Some(at);
        }
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        None
    })
}

fn chunk(text: &str) -> Option<ComparedChunk> {
    let mut words = text.split(' ');
    let head = words.next()?;
    let (letter, position) = head.split_once('@').unwrap_or((head, "0"));
    let position = position.parse().ok()?;
    let kind = match letter {
        "R" => ComparedChunkKind::Read(position, 0),
        "W" => ComparedChunkKind::Write,
        "r" => ComparedChunkKind::Reply,
        "D" => ComparedChunkKind::ReplyRead(position),
        _ => return None,
    };
    let segment = |word: &str| {
        let (length, returned) = word.split_once('/').map_or((word, None), |(one, two)| (one, Some(two)));
        let returned = match returned {
            Some(returned) => Some(returned.parse().ok()?),
            None => None,
        };
        Some(ComparedSegment { length: length.parse().ok()?, returned })
    };
    Some(ComparedChunk { kind, segments: words.map(segment).collect::<Option<_>>()?, varying: 0 })
}
