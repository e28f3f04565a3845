//! The parser of the Transactions of a baseline.

use std::collections::HashMap;
use std::rc::Rc;

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_flow::transaction::CallDirection;

use super::baseline_read_error::{REWRITE_ADVICE, begin, contradiction};
use super::canonical_records::set_match_keys;
use super::field_path_filter_names::{BaselineFieldNamesByPath, program};
use super::message_header_texts::{BaselineHeaderTextDictionary, entries_text};
use super::settings::BaselineSettings;
use super::value_parser::value;
use crate::comparison::comparable_transaction_recorder::signature;
use crate::comparison::difference::TransactionCaptureLocation;
use crate::comparison::pairing_queue::ClientAddressAndCallDirection;
use crate::comparison::record::{
    ComparableFinding, ComparableMessage, ComparableMessageField, ComparableTransaction, ComparedChunk,
    ComparedChunkKind, ComparedChunkSegment, ComparedOperationOrHeaders, MessageDecodeCompleteness,
    RecordStringInterner, class,
};

const MAX_DECODED_HEADERS: usize = 1_024;

pub(super) type ComparableTransactionWithClient = (ClientAddressAndCallDirection, ComparableTransaction);

#[derive(Debug)]
pub(super) struct BaselineTransaction {
    pub(super) client: ClientAddressAndCallDirection,
    pub(super) record: ComparableTransaction,
    /// Texts of the headers of its Call and Reply.
    pub(super) headers: [Option<Rc<str>>; 2],
}

/// The error is the problem and its remedy; `None` for a line that cannot be in a baseline.
type BaselineRecordParseResult<T> = Result<T, Option<String>>;

/// Decoded headers by program, message and name; many messages have the same headers.
type ParsedBaselineHeaderCache = HashMap<(String, bool, String), (Rc<str>, Vec<ComparableMessageField>)>;

#[derive(Debug)]
pub(super) struct BaselineRecordParser<'b> {
    fields: &'b BaselineFieldNamesByPath,
    headers: &'b BaselineHeaderTextDictionary,
    has_identities: bool,
    decoded_headers: ParsedBaselineHeaderCache,
    words: RecordStringInterner,
    transaction: Option<BaselineTransaction>,
    /// The program of the current Transaction.
    program: String,
    /// The first frame of the previous Transaction.
    previous_frame: u64,
}

impl<'b> BaselineRecordParser<'b> {
    pub(super) fn new(
        fields: &'b BaselineFieldNamesByPath,
        headers: &'b BaselineHeaderTextDictionary,
        settings: &BaselineSettings,
    ) -> Self {
        Self {
            fields,
            headers,
            has_identities: !settings.ignores_identities(),
            decoded_headers: ParsedBaselineHeaderCache::new(),
            words: RecordStringInterner::default(),
            transaction: None,
            program: String::new(),
            previous_frame: 0,
        }
    }

    /// Reads a line of the current Transaction, which the first line begins.
    pub(super) fn line(&mut self, line: &str) -> Result<(), String> {
        let result = match line.strip_prefix("  ") {
            Some(line) => self.read_detail(line),
            None => self.begin(line).ok_or(None),
        };
        result.map_err(|reason| reason.unwrap_or_else(|| format!("unexpected {:?}; {REWRITE_ADVICE}", begin(line))))
    }

    /// Ends the current Transaction, and returns it without the keys that pair its record.
    pub(super) fn take_transaction(&mut self) -> Option<BaselineTransaction> {
        self.transaction.take()
    }

    /// Ends the current Transaction, and returns it.
    pub(super) fn finish_transaction(&mut self) -> Option<BaselineTransaction> {
        let mut parsed = self.transaction.take()?;
        set_match_keys(&mut parsed.record, self.has_identities);
        Some(parsed)
    }

    /// Reads the first line of a Transaction.
    fn begin(&mut self, line: &str) -> Option<()> {
        let (line, frames) = line.split_once("  # ")?;
        let mut words = line.splitn(4, ' ');
        let address = words.next()?;
        let direction = match words.next()? {
            "forward" => CallDirection::Forward,
            "reverse" => CallDirection::Reverse,
            _ => return None,
        };
        let (status, title) = (words.next()?, words.next()?);
        let location = self.place(frames)?;
        let class = class(title);
        let record = ComparableTransaction {
            location,
            end_frame: location.reply.or(location.call).map_or(0, |frame| frame.0),
            title: self.words.share(title),
            minor_version: title.split(' ').find_map(|word| word.split_once('.')?.1.parse().ok()),
            signature: signature(&class),
            class: self.words.share(&class),
            status: self.words.share(status),
            ..ComparableTransaction::default()
        };
        self.program = program(title);
        let client = ClientAddressAndCallDirection { address: self.words.share(address), direction };
        self.transaction = Some(BaselineTransaction { client, record, headers: Default::default() });
        Some(())
    }

    /// Reads relative frame numbers: `call +4, reply +5`.
    fn place(&mut self, text: &str) -> Option<TransactionCaptureLocation> {
        let step = |from: u64, text: &str| from.checked_add_signed(text.parse().ok()?);
        let (mut location, mut last) = (TransactionCaptureLocation::default(), self.previous_frame);
        for part in text.split(", ").filter(|part| *part != "nowhere") {
            let (word, steps) = part.split_once(' ')?;
            last = step(last, steps)?;
            match word {
                "call" => location.call = Some(FrameNumber(last)),
                "reply" => location.reply = Some(FrameNumber(last)),
                _ => return None,
            }
        }
        self.previous_frame = location.frame().map_or(self.previous_frame, |frame| frame.0);
        Some(location)
    }

    fn read_detail(&mut self, line: &str) -> BaselineRecordParseResult<()> {
        let mut transaction = self.transaction.take().ok_or(None)?;
        let record = &mut transaction.record;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "call" | "reply" => {
                let (message, header) = self.message(rest, word == "call")?;
                let [of_call, of_reply] = &mut transaction.headers;
                if word == "call" {
                    (record.call, *of_call) = (Some(message), Some(header));
                } else {
                    (record.reply, *of_reply) = (Some(message), Some(header));
                }
            }
            "chunk" => record.chunks.push(chunk(rest).ok_or(None)?),
            "missing" => record.missing = rest.split(' ').map(str::to_owned).collect(),
            "findings" => {
                let finding = |rule: &str| ComparableFinding { rule: self.words.share(rule), is_call: false };
                record.findings = rest.split(' ').map(finding).collect();
            }
            "->" => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                self.operation(record.reply.as_mut(), false, name, rest)?;
            }
            name => {
                let (arguments, results) = match outside_quotes(rest, "->") {
                    Some(at) => (rest.get(..at).unwrap_or_default().trim_end(), rest.get(at + 2..)),
                    None => (rest, None),
                };
                self.operation(record.call.as_mut(), true, name, arguments)?;
                if let Some(results) = results {
                    self.operation(record.reply.as_mut(), false, name, results)?;
                }
            }
        }
        self.transaction = Some(transaction);
        Ok(())
    }

    fn operation(
        &mut self,
        message: Option<&mut ComparableMessage>,
        is_call: bool,
        name: &str,
        text: &str,
    ) -> BaselineRecordParseResult<()> {
        let message = message.ok_or(None)?;
        let entries = self.entries(is_call, name, text)?;
        // The one name that contains a space, for which a baseline has an underscore.
        let unknown = field_labels::UNKNOWN_OPERATION;
        let name = if name.split('_').eq(unknown.split(' ')) { unknown } else { name };
        message.sections.push(ComparedOperationOrHeaders { name: self.words.share(name), entries });
        Ok(())
    }

    /// Reads a message, and returns it with the text of its header.
    fn message(&mut self, text: &str, is_call: bool) -> BaselineRecordParseResult<(ComparableMessage, Rc<str>)> {
        let mut words = text.split(' ');
        let mut next_word = || words.next().ok_or(None);
        let (proc, length, header) = (next_word()?, next_word()?, next_word()?);
        let completeness = match words.next() {
            None => MessageDecodeCompleteness::Complete,
            Some("cut") => MessageDecodeCompleteness::Truncated,
            Some("undecoded") => MessageDecodeCompleteness::Undecoded,
            Some(_) => return Err(None),
        };
        let length = length.parse().map_err(|_| None)?;
        let (header, entries) = self.header(header, is_call)?;
        let message = ComparableMessage {
            sections: vec![ComparedOperationOrHeaders { name: Rc::default(), entries }],
            completeness,
            proc: Some(proc).filter(|proc| *proc != "-").map(|proc| self.words.share(proc)),
            length,
            varying: 0,
        };
        Ok((message, header))
    }

    fn header(&mut self, name: &str, is_call: bool) -> Result<(Rc<str>, Vec<ComparableMessageField>), String> {
        let key = (self.program.clone(), is_call, name.to_owned());
        if let Some(decoded) = self.decoded_headers.get(&key) {
            return Ok(decoded.clone());
        }
        let Some(text) = self.headers.text(name) else {
            return Err(format!("{name} is not under [headers]; {REWRITE_ADVICE}"));
        };
        let entries = self.entries(is_call, "", text)?;
        let mut canonical = String::new();
        entries_text(&entries, &mut canonical);
        if canonical != **text {
            return Err(contradiction(text, &canonical));
        }
        let header = (Rc::clone(text), entries);
        if self.decoded_headers.len() >= MAX_DECODED_HEADERS {
            self.decoded_headers.clear();
        }
        self.decoded_headers.insert(key, header.clone());
        Ok(header)
    }

    /// Reads the fields of a line: `offset=0 name="a b"`.
    fn entries(&self, is_call: bool, operation: &str, text: &str) -> Result<Vec<ComparableMessageField>, String> {
        let mut entries = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = outside_quotes(rest, " ").unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after.trim_start();
            let (path, text) = word.split_once('=').unwrap_or((word, ""));
            let Some(descriptor) = self.fields.find(&self.program, is_call, operation, path) else {
                return Err(format!("{operation} {path} is not under [fields]; {REWRITE_ADVICE}"));
            };
            let Some(value) = value(text, descriptor.entry) else {
                return Err(format!("invalid value {}; {REWRITE_ADVICE}", begin(word)));
            };
            entries.push(ComparableMessageField { path: Rc::clone(&descriptor.path), datum: value });
        }
        Ok(entries)
    }
}

fn outside_quotes(line: &str, text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    line.char_indices().find_map(|(at, character)| {
        if !is_quoted && line.get(at..).is_some_and(|rest| rest.starts_with(text)) {
            return Some(at);
        }
        match character {
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
    let kind_and_position = words.next()?;
    let (letter, position) = kind_and_position.split_once('@').unwrap_or((kind_and_position, "0"));
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
        let returned = returned.map(str::parse).transpose().ok()?;
        Some(ComparedChunkSegment { length: length.parse().ok()?, returned })
    };
    Some(ComparedChunk { kind, segments: words.map(segment).collect::<Option<_>>()?, varying: 0 })
}
