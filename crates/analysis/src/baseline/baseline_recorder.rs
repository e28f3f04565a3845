//! The baseline of a capture, recorded while the capture is read.
//!
//! The Transactions become text as they come. Memory holds their places, the headers and the fields; the text is in a
//! temporary file if it is long. At the end, the Transactions are put in the order of their Calls.

use std::io::{self, Write};
use std::rc::Rc;

use nfsrdma_output_file::OutputError;

use super::baseline_read_error::BaselineReadError;
use super::canonical_records::canonicalize;
use super::capture_counts::BaselineCounts;
use super::field_path_filter_names::BaselineFieldNamesByPath;
use super::memory_cost::{fields_bytes, header_bytes, operation_bytes, settings_bytes, transaction_bytes};
use super::message_header_texts::{BaselineHeaderTextDictionary, MessageHeaderTextInterner, header_text};
use super::record_parser::{BaselineRecordParser, ComparableTransactionWithClient};
use super::settings::BaselineSettings;
use super::spooled_text::SpooledText;
use super::writer::{BaselineHead, frames_text, transaction_text, write_end};
use crate::comparison::capture_summary::ComparedCaptureSummary;
use crate::comparison::difference::TransactionCaptureLocation;
use crate::comparison::pairing_queue::ClientAddressAndCallDirection;
use crate::comparison::record::{ComparableMessage, ComparableTransaction};
use crate::memory_budget_shares::BaselineCheckMemoryShares;

/// Byte in a stored text for values that are known only at the end: the relative frames, and the names of headers.
const PLACEHOLDER: &str = "\0";
#[derive(Clone, Copy, Debug)]
struct BaselineTransactionTextIndexEntry {
    location: TransactionCaptureLocation,
    /// Offset and length of its text.
    offset: u64,
    length: usize,
    /// Numbers of the headers of its Call and Reply.
    headers: [Option<u32>; 2],
    /// Findings whose rule the Call breaks, by the bit with their index. The text does not have the sides.
    call_findings: u32,
}

/// Recorder of the baseline of a capture.
#[derive(Debug)]
pub struct BaselineRecorder {
    settings: BaselineSettings,
    counts: BaselineCounts,
    fields: BaselineFieldNamesByPath,
    headers: MessageHeaderTextInterner,
    transactions: Vec<BaselineTransactionTextIndexEntry>,
    text: SpooledText,
    /// Buffer for the text of a Transaction or a header.
    buffer: String,
    max_bytes: usize,
    /// Memory of everything so far. If it is more than the maximum, nothing is stored any more, but it is counted.
    needed_bytes: usize,
    /// Memory of the largest Transaction, while its text is read again.
    largest_bytes: usize,
}

/// The error for a baseline that cannot be recorded.
#[derive(Debug)]
pub enum BaselineRecordingError {
    /// It does not fit into its share of the memory.
    TooLarge {
        /// The share in bytes into which it fits.
        needed_bytes: u64,
    },
    /// The temporary file cannot be written.
    Scratch(OutputError),
}

impl BaselineRecorder {
    /// Creates a recorder for a baseline with these settings.
    pub fn new(settings: BaselineSettings, memory: &BaselineCheckMemoryShares) -> Self {
        let needed_bytes = settings_bytes(&settings.lines);
        Self {
            settings,
            counts: BaselineCounts::default(),
            fields: BaselineFieldNamesByPath::default(),
            headers: MessageHeaderTextInterner::default(),
            transactions: Vec::new(),
            text: SpooledText::new(memory.text_bytes),
            buffer: String::new(),
            max_bytes: memory.baseline_bytes,
            needed_bytes,
            largest_bytes: 0,
        }
    }

    /// Adds a Transaction.
    ///
    /// # Errors
    /// Returns an error if the temporary file cannot be written.
    pub fn add(
        &mut self,
        client: &ClientAddressAndCallDirection,
        mut record: ComparableTransaction,
    ) -> Result<(), OutputError> {
        canonicalize(&mut record);
        let headers = [self.header(record.call.as_ref()), self.header(record.reply.as_ref())];
        self.needed_bytes += size_of::<BaselineTransactionTextIndexEntry>();
        if !self.counts.operations.contains_key(&*record.title) {
            self.needed_bytes += operation_bytes(record.title.len());
        }
        // The descriptions of messages limit the number of fields.
        self.needed_bytes += fields_bytes(self.fields.record(&record));
        self.buffer.clear();
        transaction_text(&mut self.buffer, client, &record, PLACEHOLDER, [PLACEHOLDER; 2]);
        self.largest_bytes = self.largest_bytes.max(transaction_bytes(&self.buffer));
        if self.is_full() {
            self.text.clear();
            self.transactions = Vec::new();
            return Ok(());
        }
        self.counts.record(&record);
        let length = self.buffer.len();
        let offset = self.text.append(&self.buffer)?;
        let call_findings =
            (0..u32::BITS).zip(&record.findings).fold(0, |bits, (at, finding)| bits | u32::from(finding.is_call) << at);
        let location = record.location;
        let entry = BaselineTransactionTextIndexEntry { location, offset, length, headers, call_findings };
        self.transactions.push(entry);
        Ok(())
    }

    /// Returns `true` if the baseline does not fit into its memory.
    fn is_full(&self) -> bool {
        self.needed_bytes.max(self.largest_bytes) > self.max_bytes
    }

    /// Returns the number of the header of a message. A new one is added if there is memory.
    fn header(&mut self, message: Option<&ComparableMessage>) -> Option<u32> {
        header_text(message?, &mut self.buffer);
        if let Some(number) = self.headers.number(&self.buffer) {
            return Some(number);
        }
        self.needed_bytes += header_bytes(self.buffer.len());
        (!self.is_full()).then(|| self.headers.add(&self.buffer))
    }

    /// Returns the baseline at the end of the capture, which had these totals.
    ///
    /// # Errors
    /// Returns [`BaselineRecordingError::TooLarge`] if the baseline did not fit into its memory, or an error if the
    /// temporary file cannot be written.
    pub fn finish(mut self, totals: &ComparedCaptureSummary) -> Result<CurrentCaptureBaseline, BaselineRecordingError> {
        if self.is_full() {
            let needed_bytes = self.needed_bytes.max(self.largest_bytes) as u64;
            return Err(BaselineRecordingError::TooLarge { needed_bytes });
        }
        self.text.finish().map_err(BaselineRecordingError::Scratch)?;
        self.counts.add_capture_totals(totals);
        self.transactions.sort_unstable_by_key(|entry| (entry.location.frame(), entry.location.index));
        let headers = self.headers.texts;
        let mut names = BaselineHeaderTextDictionary::default();
        let mut name_by_number: Vec<Option<Rc<str>>> = vec![None; headers.len()];
        for number in self.transactions.iter().flat_map(|entry| entry.headers).flatten() {
            let number = number as usize;
            if let (Some(name @ None), Some(text)) = (name_by_number.get_mut(number), headers.get(number)) {
                *name = Some(names.add(text));
            }
        }
        Ok(CurrentCaptureBaseline {
            settings: self.settings,
            counts: self.counts,
            fields: self.fields,
            names,
            name_by_number,
            transactions: self.transactions,
            text: self.text,
        })
    }
}

/// The baseline of a capture.
#[derive(Debug)]
pub struct CurrentCaptureBaseline {
    settings: BaselineSettings,
    counts: BaselineCounts,
    fields: BaselineFieldNamesByPath,
    names: BaselineHeaderTextDictionary,
    /// Names of the headers by number.
    name_by_number: Vec<Option<Rc<str>>>,
    /// In the order of their Calls.
    transactions: Vec<BaselineTransactionTextIndexEntry>,
    text: SpooledText,
}

impl CurrentCaptureBaseline {
    /// Returns the counts of the capture.
    pub fn counts(&self) -> &BaselineCounts {
        &self.counts
    }

    /// Returns the number of Transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions.len() as u64
    }

    fn name(&self, header: u32) -> &str {
        self.name_by_number.get(header as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Replaces `text` by the text of a Transaction; `last_frame` is the first frame of the previous one.
    fn transaction_text(
        &self,
        transaction: &BaselineTransactionTextIndexEntry,
        last_frame: &mut u64,
        text: &mut String,
    ) -> io::Result<()> {
        let template = self.text.read(transaction.offset, transaction.length)?;
        let frames = format!("  # {}", frames_text(&transaction.location, last_frame));
        let headers = transaction.headers.iter().flatten().map(|number| self.name(*number));
        let mut values = std::iter::once(&*frames).chain(headers);
        text.clear();
        for (at, part) in template.split(PLACEHOLDER).enumerate() {
            if at > 0 {
                text.push_str(values.next().unwrap_or_default());
            }
            text.push_str(part);
        }
        Ok(())
    }

    /// Writes the baseline.
    ///
    /// # Errors
    /// Returns the first error of writing, or of reading the temporary file.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let Self { settings, counts, fields, names: headers, .. } = self;
        BaselineHead { settings, counts, fields, headers }.write(to)?;
        let (mut text, mut last_frame) = (String::new(), 0);
        for transaction in &self.transactions {
            self.transaction_text(transaction, &mut last_frame, &mut text)?;
            to.write_all(text.as_bytes())?;
        }
        write_end(to, self.transactions())
    }

    /// Returns a function that returns the next record, with the place of its Transaction in the capture; `None` at the
    /// end, or an error if the temporary file cannot be read.
    pub(super) fn records(&self) -> impl FnMut() -> Result<Option<ComparableTransactionWithClient>, BaselineReadError> {
        let mut parser = BaselineRecordParser::new(&self.fields, &self.names, &self.settings);
        let (mut text, mut last_frame) = (String::new(), 0);
        let mut transactions = (1..).zip(&self.transactions);
        move || {
            let Some((number, transaction)) = transactions.next() else { return Ok(None) };
            let read_error = |reason: String| BaselineReadError::new(number, format!("Transaction {number}: {reason}"));
            self.transaction_text(transaction, &mut last_frame, &mut text)
                .map_err(|error| read_error(error.to_string()))?;
            text.lines().try_for_each(|line| parser.line(line)).map_err(read_error)?;
            Ok(parser.finish_transaction().map(|parsed| {
                let mut record = ComparableTransaction { location: transaction.location, ..parsed.record };
                for (at, finding) in (0..u32::BITS).zip(&mut record.findings) {
                    finding.is_call = transaction.call_findings >> at & 1 != 0;
                }
                (parsed.client, record)
            }))
        }
    }
}
