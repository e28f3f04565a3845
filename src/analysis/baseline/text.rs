//! The text of a baseline. `docs/ci.md` describes it to people.
//!
//! ```text
//! nfsrdma-inspect baseline 1
//!
//! [settings]
//! ignore inline
//! tolerate nfs.fattr4.size 5%
//!
//! [capture]
//! frames 1978
//!
//! [operations]
//! NFS 4.2 READ: calls 9, replies 9, errors 0, read 0, write 353381/365756, reply 0/0
//!
//! [headers]
//! 5c1d2a90 body.mtype=CALL body.Call.prog=NFS ...
//!
//! [transactions]
//! 590 595 595 10.9.0.2 forward NFS4_OK NFS 4.2 READ
//!   call RDMA_MSG 176-56 5c1d2a90
//!   reply RDMA_MSG 104-16 0f3b2c11
//!   chunk W 4096/2000
//!   SEQUENCE sa_sessionid=session:1 ... -> status=NFS4_OK ...
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use nfsrdma_dissectors::flow::transaction::Direction;
use nfsrdma_dissectors::frame::FrameNumber;

use super::canon::arguments;
use super::{Baseline, Counts, OperationCounts, VERSION};
use crate::analysis::comparison::difference::{Kind, Place};
use crate::analysis::comparison::record::{
    Chunk, ChunkKind, Datum, End, Entry, Message, Path, Record, Section, Segment, hash,
};
use crate::analysis::comparison::recorder::signature;
use crate::analysis::comparison::role::{Identity, Role};
use crate::analysis::comparison::selection::{Selection, Tolerance};
use crate::analysis::comparison::{Client, class};

const HEAD: &str = "nfsrdma-inspect baseline";
/// The one name of an operation with a blank in it, as it is written.
const UNKNOWN: &str = "unknown_operation";
/// Bytes of one line, at most: no Transaction that this program writes has more.
const LINE: u64 = 1 << 20;

/// Why a baseline could not be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Unreadable {}

/// The headers of a message in one word, and in full.
fn header(message: &Message) -> (String, String) {
    let mut text = String::new();
    for entry in message.sections.first().into_iter().flat_map(|section| &section.entries) {
        let _ = write!(text, " {}={}", entry.path.text, entry.datum);
    }
    (format!("{:08x}", hash(text.as_bytes()) as u32), text)
}

fn entries(section: &Section, text: &mut String) {
    for entry in &section.entries {
        let _ = write!(text, " {}={}", entry.path.text, entry.datum);
    }
}

/// Writes a baseline.
///
/// # Errors
/// What writing gives.
pub fn write(to: &mut impl Write, baseline: &Baseline) -> io::Result<()> {
    writeln!(to, "{HEAD} {VERSION}")?;
    writeln!(to, "# Written by check --bless. What stands under [settings] is yours, and stays.")?;
    writeln!(to, "\n[settings]")?;
    for word in &baseline.selection.ignore {
        writeln!(to, "ignore {word}")?;
    }
    for tolerance in &baseline.selection.tolerances {
        writeln!(to, "tolerate {} {}", tolerance.fields, tolerance.most)?;
    }
    writeln!(to, "\n[capture]")?;
    for (key, count) in &baseline.counts.whole {
        writeln!(to, "{key} {count}")?;
    }
    writeln!(to, "\n[operations]")?;
    for (title, counts) in &baseline.counts.operations {
        let OperationCounts { calls, replies, errors, read, write, reply } = counts;
        writeln!(
            to,
            "{title}: calls {calls}, replies {replies}, errors {errors}, read {read}, write {}/{}, reply {}/{}",
            write.0, write.1, reply.0, reply.1
        )?;
    }
    writeln!(to, "\n[headers]")?;
    let messages = || baseline.records.iter().flat_map(|(_, record)| record.call.iter().chain(&record.reply));
    let headers: BTreeMap<_, _> = messages().map(header).collect();
    for (name, text) in &headers {
        writeln!(to, "{name}{text}")?;
    }
    writeln!(to, "\n[transactions]")?;
    baseline.records.iter().try_for_each(|(client, record)| transaction(to, client, record))
}

fn transaction(to: &mut impl Write, client: &Client, record: &Record) -> io::Result<()> {
    let frame = |frame: Option<FrameNumber>| frame.map_or_else(|| "-".to_owned(), |frame| frame.to_string());
    let direction = match client.direction {
        Direction::Forward => "forward",
        Direction::Reverse => "reverse",
    };
    writeln!(
        to,
        "{} {} {} {} {direction} {} {}",
        frame(record.place.call),
        frame(record.place.reply),
        record.until,
        client.address,
        record.status,
        record.title
    )?;
    for (word, message) in [("call", &record.call), ("reply", &record.reply)] {
        let Some(message) = message else { continue };
        let proc = message.proc.as_deref().unwrap_or("-");
        let end = match message.end {
            End::Whole => "",
            End::Cut => " cut",
            End::Undecoded => " undecoded",
        };
        writeln!(to, "  {word} {proc} {}-{} {}{end}", message.length, message.varying, header(message).0)?;
    }
    for chunk in &record.chunks {
        let mut text = chunk.kind.letter().to_string();
        match chunk.kind {
            ChunkKind::Read(position, varying) => {
                let _ = write!(text, "@{position}-{varying}");
            }
            ChunkKind::ReplyRead(position) => {
                let _ = write!(text, "@{position}-0");
            }
            ChunkKind::Write | ChunkKind::Reply => {}
        }
        if chunk.varying > 0 {
            let _ = write!(text, "~{}", chunk.varying);
        }
        for segment in &chunk.segments {
            let _ = write!(text, " {}", segment.length);
            if let Some(returned) = segment.returned {
                let _ = write!(text, "/{returned}");
            }
        }
        writeln!(to, "  chunk {text}")?;
    }
    if !record.missing.is_empty() {
        writeln!(to, "  missing {}", record.missing.join(" "))?;
    }
    let sections = |message: &'_ Option<Message>| message.as_ref().map(|message| message.sections.clone());
    let calls = sections(&record.call).unwrap_or_default();
    let replies = sections(&record.reply).unwrap_or_default();
    // The first are the headers.
    for at in 1..calls.len().max(replies.len()) {
        operation(to, calls.get(at), replies.get(at))?;
    }
    Ok(())
}

/// The line of an operation: its arguments, and behind an arrow its results.
fn operation(to: &mut impl Write, call: Option<&Section>, reply: Option<&Section>) -> io::Result<()> {
    let name = |section: &Section| section.name.replace(' ', "_");
    let is_one = call.zip(reply).is_some_and(|(call, reply)| call.name == reply.name);
    let mut line = String::new();
    if let Some(call) = call {
        line += &format!("  {}", name(call));
        entries(call, &mut line);
        if !is_one {
            line.push('\n');
        }
    }
    if let Some(reply) = reply {
        line += if is_one { " ->" } else { "  ->" };
        if !is_one {
            line += &format!(" {}", name(reply));
        }
        entries(reply, &mut line);
        line.push('\n');
    }
    to.write_all(line.as_bytes())
}

/// Reads a baseline.
///
/// # Errors
/// The first line that is none of a baseline, or of one of another version.
pub fn read(from: &mut impl BufRead) -> Result<Baseline, Unreadable> {
    let mut reader = Reader { from, line: String::new(), number: 0 };
    let mut baseline = Baseline::default();
    let Some(head) = reader.next()? else { return Err(reader.wrong("the file is empty")) };
    match head.strip_prefix(HEAD).map(|rest| rest.trim().parse::<u32>()) {
        Some(Ok(VERSION)) => {}
        Some(Ok(other)) => {
            return Err(reader.wrong(&format!(
                "a baseline of version {other}; this program reads {VERSION}: write it again with check --bless"
            )));
        }
        _ => return Err(reader.wrong("not a baseline; write one with check --bless")),
    }
    let mut part = String::new();
    let mut headers = BTreeMap::new();
    let mut transaction: Option<(Client, Record)> = None;
    while let Some(line) = reader.next()? {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            part = name.to_owned();
            continue;
        }
        let understood = match part.as_str() {
            "settings" => setting(&line, &mut baseline.selection),
            "capture" => count(&line, &mut baseline.counts),
            "operations" => operation_counts(&line, &mut baseline.counts),
            "headers" => {
                let (name, text) = line.split_once(' ').unwrap_or((&line, ""));
                headers.insert(name.to_owned(), fields(text));
                Some(())
            }
            "transactions" if line.starts_with(' ') => {
                transaction.as_mut().and_then(|(_, record)| detail(line.trim_start(), record, &headers))
            }
            "transactions" => begin(&line).map(|begun| {
                finished(&mut baseline, transaction.replace(begun));
            }),
            _ => None,
        };
        if understood.is_none() {
            return Err(
                reader.wrong(&format!("what is this? {:?}", line.chars().take(60).collect::<String>()))
            );
        }
    }
    finished(&mut baseline, transaction);
    Ok(baseline)
}

struct Reader<'a, R> {
    from: &'a mut R,
    line: String,
    number: u64,
}

impl<R: BufRead> Reader<'_, R> {
    fn next(&mut self) -> Result<Option<String>, Unreadable> {
        self.number += 1;
        let mut bytes = Vec::new();
        let taken = io::Read::take(&mut *self.from, LINE).read_until(b'\n', &mut bytes);
        match taken {
            Ok(0) => Ok(None),
            Ok(_) if bytes.last() != Some(&b'\n') && bytes.len() as u64 >= LINE => {
                Err(self.wrong("a line without end"))
            }
            Ok(_) => match String::from_utf8(bytes) {
                Ok(text) => {
                    self.line = text.trim_end().to_owned();
                    Ok(Some(self.line.clone()))
                }
                Err(_) => Err(self.wrong("not UTF-8")),
            },
            Err(error) => Err(self.wrong(&error.to_string())),
        }
    }

    fn wrong(&self, what: &str) -> Unreadable {
        Unreadable { line: self.number, what: what.to_owned() }
    }
}

fn setting(line: &str, selection: &mut Selection) -> Option<()> {
    let mut words = line.split_whitespace();
    match (words.next()?, words.next()?, words.next()) {
        ("ignore", word, None) => selection.ignore.push(word.parse().ok()?),
        ("tolerate", fields, Some(most)) => {
            selection.tolerances.push(Tolerance { fields: fields.to_owned(), most: most.parse().ok()? });
        }
        _ => return None,
    }
    Some(())
}

fn count(line: &str, counts: &mut Counts) -> Option<()> {
    let (key, count) = line.split_once(' ')?;
    counts.whole.insert(key.to_owned(), count.parse().ok()?);
    Some(())
}

fn operation_counts(line: &str, counts: &mut Counts) -> Option<()> {
    let (title, rest) = line.rsplit_once(": ")?;
    let mut of = OperationCounts::default();
    for part in rest.split(", ") {
        let (key, value) = part.split_once(' ')?;
        let pair = || {
            let (offered, returned) = value.split_once('/')?;
            Some((offered.parse().ok()?, returned.parse().ok()?))
        };
        match key {
            "calls" => of.calls = value.parse().ok()?,
            "replies" => of.replies = value.parse().ok()?,
            "errors" => of.errors = value.parse().ok()?,
            "read" => of.read = value.parse().ok()?,
            "write" => of.write = pair()?,
            "reply" => of.reply = pair()?,
            _ => return None,
        }
    }
    counts.operations.insert(title.to_owned(), of);
    Some(())
}

fn begin(line: &str) -> Option<(Client, Record)> {
    let mut words = line.splitn(7, ' ');
    let mut frame = || -> Option<Option<FrameNumber>> {
        match words.next()? {
            "-" => Some(None),
            number => Some(Some(FrameNumber(number.parse().ok()?))),
        }
    };
    let (call, reply, until) = (frame()?, frame()?, frame()?);
    let address = words.next()?;
    let direction = match words.next()? {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        _ => return None,
    };
    let (status, title) = (words.next()?, words.next()?);
    let class = class(title);
    let minor = title.split(' ').find_map(|word| word.split_once('.')?.1.parse().ok());
    let record = Record {
        place: Place { index: 0, call, reply },
        until: until?.0,
        title: title.into(),
        minor_version: minor,
        is_racing: false,
        signature: signature(&class),
        class: class.into(),
        arguments: 0,
        about: 0,
        is_null: title.ends_with(" NULL"),
        is_set_up: title.ends_with(" NULL") || title.starts_with("PORTMAP "),
        call: None,
        reply: None,
        chunks: Vec::new(),
        missing: Vec::new(),
        status: status.into(),
    };
    Some((Client { address: address.into(), direction }, record))
}

fn detail(line: &str, record: &mut Record, headers: &BTreeMap<String, Vec<Entry>>) -> Option<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "call" => record.call = Some(message(rest, headers)?),
        "reply" => record.reply = Some(message(rest, headers)?),
        "chunk" => record.chunks.push(chunk(rest)?),
        "missing" => record.missing = rest.split(' ').map(str::to_owned).collect(),
        "->" => {
            let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            add(record.reply.as_mut()?, name, rest);
        }
        name => {
            let (arguments, results) = match outside_quotes(rest, " -> ") {
                Some(at) => (rest.get(..at)?, rest.get(at + 4..)),
                None if rest == "->" => ("", Some("")),
                None => match rest.strip_suffix(" ->") {
                    Some(arguments) => (arguments, Some("")),
                    None => match rest.strip_prefix("-> ") {
                        Some(results) => ("", Some(results)),
                        None => (rest, None),
                    },
                },
            };
            add(record.call.as_mut()?, name, arguments);
            if let Some(results) = results {
                add(record.reply.as_mut()?, name, results);
            }
        }
    }
    Some(())
}

/// Where a text begins that is in no quotes.
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

/// Adds an operation.
fn add(message: &mut Message, name: &str, text: &str) {
    let name = if name == UNKNOWN { UNKNOWN.replace('_', " ").into() } else { name.into() };
    message.sections.push(Section { name, entries: fields(text) });
}

fn message(text: &str, headers: &BTreeMap<String, Vec<Entry>>) -> Option<Message> {
    let mut words = text.split(' ');
    let proc = Some(words.next()?).filter(|proc| *proc != "-").map(Rc::from);
    let (length, varying) = words.next()?.split_once('-')?;
    let entries = headers.get(words.next()?)?.clone();
    let end = match words.next() {
        None => End::Whole,
        Some("cut") => End::Cut,
        Some("undecoded") => End::Undecoded,
        Some(_) => return None,
    };
    Some(Message {
        sections: vec![Section { name: Rc::default(), entries }],
        end,
        proc,
        length: length.parse().ok()?,
        varying: varying.parse().ok()?,
    })
}

fn chunk(text: &str) -> Option<Chunk> {
    let mut words = text.split(' ');
    let head = words.next()?;
    let (head, varying) = head.split_once('~').unwrap_or((head, "0"));
    let (letter, position) = head.split_once('@').unwrap_or((head, "0-0"));
    let (position, before) = position.split_once('-')?;
    let position = position.parse().ok()?;
    let kind = match letter {
        "R" => ChunkKind::Read(position, before.parse().ok()?),
        "W" => ChunkKind::Write,
        "r" => ChunkKind::Reply,
        "D" => ChunkKind::ReplyRead(position),
        _ => return None,
    };
    let segment = |word: &str| {
        let (length, returned) = word.split_once('/').map_or((word, None), |(one, two)| (one, Some(two)));
        let returned = match returned {
            Some(returned) => Some(returned.parse().ok()?),
            None => None,
        };
        Some(Segment { length: length.parse().ok()?, returned })
    };
    Some(Chunk { kind, segments: words.map(segment).collect::<Option<_>>()?, varying: varying.parse().ok()? })
}

/// Fields of a line: `offset=0 name="a b"`.
fn fields(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = outside_quotes(rest, " ").unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        let (path, value) = word.split_once('=').unwrap_or((word, ""));
        let identity = value.split_once(':').and_then(|(kind, number)| {
            let identity = Identity::ALL.iter().copied().find(|identity| identity.name() == kind)?;
            Some((identity, number.parse().ok()?))
        });
        let (role, datum) = match identity {
            Some((identity, number)) => (Role::Identity(identity), Datum::Name(identity, number)),
            None => (Role::Equal(Kind::Argument), Datum::Written(value.into())),
        };
        entries.push(Entry { path: Rc::new(Path { text: path.into(), field: "", role }), datum });
    }
    entries
}

fn finished(baseline: &mut Baseline, transaction: Option<(Client, Record)>) {
    if let Some((client, mut record)) = transaction {
        record.arguments = record.call.as_ref().map_or(0, arguments);
        baseline.records.push((client, record));
    }
}
