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

use std::fmt::Write as _;
use std::io::{self, Write};

use nfsrdma_flow::transaction::CallDirection;

use super::capture_counts::{BaselineCounts, OperationCounts};
use super::field_path_filter_names::BaselineFieldNamesByPath;
use super::message_header_texts::{BaselineHeaderTextDictionary, entries_text};
use super::settings::{BaselineSettings, SETTINGS_HEAD};
use crate::comparison::difference::TransactionCaptureLocation;
use crate::comparison::pairing_queue::ClientAddressAndCallDirection;
use crate::comparison::record::{
    ComparableTransaction, ComparedChunk, ComparedChunkKind, ComparedOperationOrHeaders, MessageDecodeCompleteness,
};

pub(super) const FORMAT_NAME: &str = "nfsrdma-inspect baseline";
/// The version of the baseline format.
pub const VERSION: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct BaselineHead<'b> {
    pub(super) settings: &'b BaselineSettings,
    pub(super) counts: &'b BaselineCounts,
    pub(super) fields: &'b BaselineFieldNamesByPath,
    pub(super) headers: &'b BaselineHeaderTextDictionary,
}

impl BaselineHead<'_> {
    /// Writes everything up to the first Transaction.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "{FORMAT_NAME} {VERSION}")?;
        writeln!(to, "# Written by check --bless, which keeps the lines under [settings]. Edit only those.")?;
        writeln!(to, "# Text after # is a comment; check compares everything else.")?;
        writeln!(to, "\n{SETTINGS_HEAD}")?;
        self.settings.lines.iter().try_for_each(|line| writeln!(to, "{line}"))?;
        writeln!(to, "[capture]")?;
        for (key, count) in &self.counts.capture_counts {
            writeln!(to, "{key} {count}")?;
        }
        writeln!(to, "\n[operations]")?;
        for (title, counts) in &self.counts.operations {
            let OperationCounts { calls, replies, errors, read, write, reply } = counts;
            writeln!(
                to,
                "{title}: calls {calls}, replies {replies}, errors {errors}, read {read}, write {}/{}, reply {}/{}",
                write.0, write.1, reply.0, reply.1
            )?;
        }
        writeln!(to, "\n[fields]")?;
        self.fields.write(to)?;
        writeln!(to, "\n[headers]")?;
        self.headers.iter().try_for_each(|(name, text)| writeln!(to, "{name}{text}"))?;
        writeln!(to, "\n[transactions]")
    }
}

pub(super) fn write_end(to: &mut impl Write, transactions: u64) -> io::Result<()> {
    let plural = if transactions == 1 { "" } else { "s" };
    writeln!(to, "\n[end of {transactions} transaction{plural}]")
}

/// Returns the relative frames behind the first line of a Transaction: the first from that of the previous Transaction,
/// which is updated, and the Reply from its Call.
pub(super) fn frames_text(location: &TransactionCaptureLocation, last: &mut u64) -> String {
    let from = |frame: u64, last: u64| frame as i64 - last as i64;
    let first = location.frame().map_or(*last, |frame| frame.0);
    let step = from(first, std::mem::replace(last, first));
    match (location.call, location.reply) {
        (Some(call), Some(reply)) => format!("call {step:+}, reply {:+}", from(reply.0, call.0)),
        (Some(_), None) => format!("call {step:+}"),
        (None, Some(_)) => format!("reply {step:+}"),
        (None, None) => "nowhere".to_owned(),
    }
}

/// Writes a Transaction. `frames` stand behind its first line; `headers` are the names of the headers of its messages.
pub(super) fn transaction_text(
    text: &mut String,
    client: &ClientAddressAndCallDirection,
    record: &ComparableTransaction,
    frames: &str,
    headers: [&str; 2],
) {
    let direction = match client.direction {
        CallDirection::Forward => "forward",
        CallDirection::Reverse => "reverse",
    };
    let ComparableTransaction { status, title, .. } = record;
    let _ = writeln!(text, "{} {direction} {status} {title}{frames}", client.address);
    for ((word, message), header) in [("call", &record.call), ("reply", &record.reply)].into_iter().zip(headers) {
        let Some(message) = message else { continue };
        let proc = message.proc.as_deref().unwrap_or("-");
        let end = match message.completeness {
            MessageDecodeCompleteness::Complete => "",
            MessageDecodeCompleteness::Truncated => " cut",
            MessageDecodeCompleteness::Undecoded => " undecoded",
        };
        let _ = writeln!(text, "  {word} {proc} {} {header}{end}", message.length);
    }
    record.chunks.iter().for_each(|chunk| chunk_text(text, chunk));
    if !record.missing.is_empty() {
        let _ = writeln!(text, "  missing {}", record.missing.join(" "));
    }
    if !record.findings.is_empty() {
        let rules: Vec<&str> = record.findings.iter().map(|finding| &*finding.rule).collect();
        let _ = writeln!(text, "  findings {}", rules.join(" "));
    }
    let [calls, replies] = [&record.call, &record.reply]
        .map(|message| message.as_ref().map_or(&[][..], |message| message.sections.as_slice()));
    // The first section holds the headers.
    for at in 1..calls.len().max(replies.len()) {
        operation_text(text, calls.get(at), replies.get(at));
    }
}

fn chunk_text(text: &mut String, chunk: &ComparedChunk) {
    let _ = write!(text, "  chunk {}", chunk.kind.letter());
    if let ComparedChunkKind::Read(position, _) | ComparedChunkKind::ReplyRead(position) = chunk.kind {
        let _ = write!(text, "@{position}");
    }
    for segment in &chunk.segments {
        let _ = write!(text, " {}", segment.length);
        if let Some(returned) = segment.returned {
            let _ = write!(text, "/{returned}");
        }
    }
    text.push('\n');
}

/// Writes the line of an operation: its arguments, an arrow and its results.
fn operation_text(
    text: &mut String,
    call: Option<&ComparedOperationOrHeaders>,
    reply: Option<&ComparedOperationOrHeaders>,
) {
    let name = |text: &mut String, section: &ComparedOperationOrHeaders| {
        text.extend(section.name.chars().map(|character| if character == ' ' { '_' } else { character }));
    };
    let is_one = call.zip(reply).is_some_and(|(call, reply)| call.name == reply.name);
    if let Some(call) = call {
        text.push_str("  ");
        name(text, call);
        entries_text(&call.entries, text);
        if !is_one {
            text.push('\n');
        }
    }
    if let Some(reply) = reply {
        text.push_str(if is_one { " ->" } else { "  ->" });
        if !is_one {
            text.push(' ');
            name(text, reply);
        }
        entries_text(&reply.entries, text);
        text.push('\n');
    }
}
