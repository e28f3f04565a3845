//! The writer of the baseline text, which `docs/ci.md` describes.
//!
//! ```text
//! nfsrdma-inspect baseline 2
//!
//! [settings]
//! ignore inline
//!
//! [capture]
//! frames 1978
//!
//! [operations]
//! NFS 4.2 READ: calls 9, replies 9, errors 0, read 0, write 353381/365756, reply 0/0
//!
//! [fields]
//! NFS 4 reply READ data nfs.data
//!
//! [headers]
//! 5c1d2a90 body.mtype=CALL body.Call.prog=NFS ...
//!
//! [transactions]
//! 10.9.0.2 forward NFS4_OK NFS 4.2 READ  # call +4, reply +5
//!   call RDMA_MSG 176 5c1d2a90
//!   reply RDMA_MSG 104 0f3b2c11
//!   chunk W 4096/2000
//!   findings rpcrdma/credit-zero
//!   SEQUENCE sa_sessionid=session:9c1b44d0 ... -> status=NFS4_OK ...
//!
//! [end of 1 Transaction]
//! ```
//!
//! A line follows from its Transaction alone, so that lines do not change when other Transactions are added or removed.
//! The frame numbers behind `#` are relative to the previous Transaction, for people.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};

use nfsrdma_dissectors::flow::transaction::CallDirection;

use super::settings::SETTINGS_HEAD;
use super::{Baseline, OperationCounts, VERSION};
use crate::analysis::comparison::ComparisonClient;
use crate::analysis::comparison::difference::DifferenceLocation;
use crate::analysis::comparison::record::{
    ComparedChunk, ComparedChunkKind, ComparedMessage, ComparedSection, ComparisonRecord,
    MessageCompleteness, hash,
};

/// The beginning of the first line.
pub(super) const FORMAT_NAME: &str = "nfsrdma-inspect baseline";
/// Minimum number of hash digits in a header name; more are used on a collision.
const MIN_HASH_DIGITS: usize = 8;

/// The names of headers, by their texts.
#[derive(Default)]
struct BaselineHeaderNames {
    names: HashMap<String, String>,
    texts: BTreeMap<String, String>,
}

impl BaselineHeaderNames {
    fn add(&mut self, message: &ComparedMessage) {
        let text = header(message);
        if self.names.contains_key(&text) {
            return;
        }
        let whole = format!("{:032x}", hash(text.as_bytes()));
        let free = (MIN_HASH_DIGITS..=whole.len())
            .filter_map(|digits| whole.get(..digits))
            .find(|name| !self.texts.contains_key(*name));
        let name = free.unwrap_or(&whole).to_owned();
        self.texts.insert(name.clone(), text.clone());
        self.names.insert(text, name);
    }

    fn name(&self, message: &ComparedMessage) -> &str {
        self.names.get(&header(message)).map_or("-", String::as_str)
    }
}

/// Returns the headers of a message as text.
fn header(message: &ComparedMessage) -> String {
    let mut text = String::new();
    message.sections.first().iter().for_each(|section| entries(section, &mut text));
    text
}

fn entries(section: &ComparedSection, text: &mut String) {
    for entry in &section.entries {
        let _ = write!(text, " {}={}", entry.path.text, entry.datum);
    }
}

/// Writes a baseline.
///
/// # Errors
/// Returns the first write error.
pub fn write(to: &mut impl Write, baseline: &Baseline) -> io::Result<()> {
    writeln!(to, "{FORMAT_NAME} {VERSION}")?;
    writeln!(to, "# Written by check --bless. What stands under [settings] is yours, and stays.")?;
    writeln!(to, "# What stands behind # is for people; check holds the capture to everything else.")?;
    writeln!(to, "\n{SETTINGS_HEAD}")?;
    baseline.settings.lines().iter().try_for_each(|line| writeln!(to, "{line}"))?;
    writeln!(to, "[capture]")?;
    for (key, count) in &baseline.counts.capture_counts {
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
    writeln!(to, "\n[fields]")?;
    baseline.fields.write(to)?;
    writeln!(to, "\n[headers]")?;
    let mut headers = BaselineHeaderNames::default();
    let messages = baseline.records.iter().flat_map(|(_, record)| record.call.iter().chain(&record.reply));
    messages.for_each(|message| headers.add(message));
    for (name, text) in &headers.texts {
        writeln!(to, "{name}{text}")?;
    }
    writeln!(to, "\n[transactions]")?;
    let mut last = 0;
    for (client, record) in &baseline.records {
        transaction(to, &headers, client, record, &mut last)?;
    }
    let count = baseline.records.len();
    writeln!(to, "\n[end of {count} Transaction{}]", if count == 1 { "" } else { "s" })
}

/// Returns the relative frames: the first from that of the previous Transaction, the Reply from its Call.
fn frames(place: &DifferenceLocation, last: &mut u64) -> String {
    let from = |frame: u64, last: u64| frame as i64 - last as i64;
    let first = place.frame().map_or(*last, |frame| frame.0);
    let step = from(first, std::mem::replace(last, first));
    match (place.call, place.reply) {
        (Some(call), Some(reply)) => format!("call {step:+}, reply {:+}", from(reply.0, call.0)),
        (Some(_), None) => format!("call {step:+}"),
        (None, Some(_)) => format!("reply {step:+}"),
        (None, None) => "nowhere".to_owned(),
    }
}

fn transaction(
    to: &mut impl Write,
    headers: &BaselineHeaderNames,
    client: &ComparisonClient,
    record: &ComparisonRecord,
    last: &mut u64,
) -> io::Result<()> {
    let direction = match client.direction {
        CallDirection::Forward => "forward",
        CallDirection::Reverse => "reverse",
    };
    let ComparisonRecord { status, title, .. } = record;
    writeln!(to, "{} {direction} {status} {title}  # {}", client.address, frames(&record.location, last))?;
    for (word, message) in [("call", &record.call), ("reply", &record.reply)] {
        let Some(message) = message else { continue };
        let proc = message.proc.as_deref().unwrap_or("-");
        let end = match message.completeness {
            MessageCompleteness::Complete => "",
            MessageCompleteness::Truncated => " cut",
            MessageCompleteness::Undecoded => " undecoded",
        };
        writeln!(to, "  {word} {proc} {} {}{end}", message.length, headers.name(message))?;
    }
    record.chunks.iter().try_for_each(|of_record| chunk(to, of_record))?;
    if !record.missing.is_empty() {
        writeln!(to, "  missing {}", record.missing.join(" "))?;
    }
    if !record.findings.is_empty() {
        writeln!(to, "  findings {}", record.findings.join(" "))?;
    }
    let sections =
        |message: &'_ Option<ComparedMessage>| message.as_ref().map(|message| message.sections.clone());
    let calls = sections(&record.call).unwrap_or_default();
    let replies = sections(&record.reply).unwrap_or_default();
    // The first section holds the headers.
    for at in 1..calls.len().max(replies.len()) {
        operation(to, calls.get(at), replies.get(at))?;
    }
    Ok(())
}

fn chunk(to: &mut impl Write, chunk: &ComparedChunk) -> io::Result<()> {
    let mut text = chunk.kind.letter().to_string();
    if let ComparedChunkKind::Read(position, _) | ComparedChunkKind::ReplyRead(position) = chunk.kind {
        let _ = write!(text, "@{position}");
    }
    for segment in &chunk.segments {
        let _ = write!(text, " {}", segment.length);
        if let Some(returned) = segment.returned {
            let _ = write!(text, "/{returned}");
        }
    }
    writeln!(to, "  chunk {text}")
}

/// Writes the line of an operation: its arguments, an arrow and its results.
fn operation(
    to: &mut impl Write,
    call: Option<&ComparedSection>,
    reply: Option<&ComparedSection>,
) -> io::Result<()> {
    let name = |section: &ComparedSection| section.name.replace(' ', "_");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_headers_with_the_same_beginning_of_their_hashes_have_longer_names() {
        let message =
            ComparedMessage { sections: vec![ComparedSection::default()], ..ComparedMessage::default() };
        let whole = format!("{:032x}", hash(b""));
        let mut headers = BaselineHeaderNames::default();
        for digits in [MIN_HASH_DIGITS, MIN_HASH_DIGITS + 1] {
            headers.texts.insert(whole[..digits].to_owned(), format!(" other={digits}"));
        }
        headers.add(&message);
        headers.add(&message);
        assert_eq!(headers.name(&message), &whole[..MIN_HASH_DIGITS + 2]);
        assert_eq!(headers.texts.len(), 3);
    }
}
