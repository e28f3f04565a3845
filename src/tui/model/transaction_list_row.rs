//! A row of the list: the displayed, sorted and searched data of a Transaction, in about 150 bytes.

use std::fmt::Write as _;

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_analysis::rates::RateMeteredTransaction;
use nfsrdma_analysis::statistics::OperationKey;
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::pending_call_queries::PendingTransactionPhase;
use nfsrdma_flow::transaction::CallDirection;
use nfsrdma_flow::transaction_message_decoding::{ProcedureOrMainOperation, RpcSummary, TransactionMessages};

use crate::output::info_column::InfoColumnFormatter;
use crate::output::pending_call_progress::PendingCallProgress;
use crate::output::style::Glyphs;
use crate::output::transaction_list;

/// Number of rows per page.
pub const PAGE_ROWS: usize = 1024;
/// Maximum length of a column's text, in bytes.
const MAX_TEXT_BYTES: usize = 255;
/// Columns that a status may take: too few for the ranges of missing bytes, which are in the tree.
const STATUS_WIDTH: usize = 23;

/// Bit of the indices of pending calls, which have no number yet.
const PENDING_BIT: u64 = 1 << 63;

/// The data of a Transaction apart from its text.
#[derive(Clone, Copy, Debug)]
pub struct TransactionListRow {
    /// Transaction number.
    pub index: u64,
    /// Time of the Call's first frame; without a Call, of the Reply's.
    pub time: Timestamp,
    /// First frame.
    pub first: FrameNumber,
    /// Last frame.
    pub last: FrameNumber,
    /// Time from Call to Reply, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// Number of bytes in its messages and chunks.
    pub bytes: u64,
    /// Number of bytes transferred through its chunks.
    pub chunk_bytes: u64,
    /// Connection number.
    pub connection: u64,
    /// Transaction ID.
    pub xid: Xid,
    /// `true` if the server sent the Call.
    pub is_reverse: bool,
    /// `true` if its status needs attention.
    pub has_failed: bool,
    /// `true` if a part of it was not captured.
    pub is_incomplete: bool,
    /// `true` if one of its messages was sent more than once.
    pub has_copies: bool,
    client: u16,
    operation: u16,
    text: u32,
    lengths: RowTextPieceLengths,
}

impl TransactionListRow {
    /// Returns `true` for a call without a reply while frames are received.
    pub fn is_pending(&self) -> bool {
        is_pending_index(self.index)
    }

    /// Returns the index of the row as long as its call is pending.
    pub fn pending_index(&self) -> u64 {
        PENDING_BIT | (self.first.0 & 0x7fff_ffff) << 32 | u64::from(self.xid.0)
    }
}

/// Returns `true` for the index of the row of a pending call.
pub fn is_pending_index(index: u64) -> bool {
    index & PENDING_BIT != 0
}

/// Lengths of the pieces of a row's text, in order.
#[derive(Clone, Copy, Debug, Default)]
struct RowTextPieceLengths {
    version: u8,
    /// Length of the operation name at the start of the label.
    name: u8,
    label: u8,
    /// Start and end of the path within the label.
    path: (u8, u8),
    chunks: u8,
    short_chunks: u8,
    status: u8,
    /// Length of the status without marks.
    status_length: u8,
}

/// Rows with their text.
#[derive(Clone, Debug, Default)]
pub struct RowPage {
    rows: Vec<TransactionListRow>,
    text: String,
    clients: Vec<Address>,
    operations: Vec<OperationKey>,
}

/// A row with its text.
#[derive(Clone, Copy, Debug)]
pub struct TransactionRowWithText<'p> {
    /// The row.
    pub row: &'p TransactionListRow,
    page: &'p RowPage,
}

impl RowPage {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<TransactionListRow>()
            + self.text.capacity()
            + self.clients.capacity() * size_of::<Address>()
            + self.operations.capacity() * size_of::<OperationKey>()
    }

    /// Returns the row at an index.
    pub fn get(&self, at: usize) -> Option<TransactionRowWithText<'_>> {
        Some(TransactionRowWithText { row: self.rows.get(at)?, page: self })
    }

    /// Returns all rows.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = TransactionRowWithText<'_>> {
        self.rows.iter().map(|row| TransactionRowWithText { row, page: self })
    }

    /// Moves rows from the start of `other` to the end of this page until it is full, and returns the rest.
    pub fn append(&mut self, other: Self) -> Option<Self> {
        let free_rows = PAGE_ROWS.saturating_sub(self.rows.len());
        if self.rows.is_empty() && other.rows.len() <= PAGE_ROWS {
            *self = other;
            return None;
        }
        let mut rest = Self::default();
        for (at, entry) in other.iter().enumerate() {
            let page = if at < free_rows { &mut *self } else { &mut rest };
            page.copy(entry);
        }
        (!rest.is_empty()).then_some(rest)
    }

    fn copy(&mut self, entry: TransactionRowWithText<'_>) {
        let text = self.text.len() as u32;
        self.text.push_str(entry.all_text());
        let client = self.client(entry.client());
        let operation = self.operation(entry.operation());
        self.rows.push(TransactionListRow { text, client, operation, ..*entry.row });
    }

    /// Returns the index of an operation in the page's table of operations, adding it if necessary.
    fn operation(&mut self, key: OperationKey) -> u16 {
        let at = self.operations.iter().rposition(|known| *known == key);
        let at = at.unwrap_or_else(|| {
            self.operations.push(key);
            self.operations.len() - 1
        });
        // A page has no more operations than rows.
        at as u16
    }

    /// Returns the index of an address in the page's table of clients, adding it if necessary.
    fn client(&mut self, address: Address) -> u16 {
        let at = self.clients.iter().rposition(|client| *client == address);
        let at = at.unwrap_or_else(|| {
            self.clients.push(address);
            self.clients.len() - 1
        });
        // A page has no more clients than rows.
        at as u16
    }
}

impl<'p> TransactionRowWithText<'p> {
    fn all_text(&self) -> &'p str {
        let RowTextPieceLengths { version, label, chunks, short_chunks, status, .. } = self.row.lengths;
        let length: usize = [version, label, chunks, short_chunks, status].into_iter().map(usize::from).sum();
        let start = self.row.text as usize;
        self.page.text.get(start..start + length).unwrap_or_default()
    }

    fn piece(&self, before: &[u8], length: u8) -> &'p str {
        let start: usize = before.iter().copied().map(usize::from).sum();
        self.all_text().get(start..start + usize::from(length)).unwrap_or_default()
    }

    /// Returns the address of the client.
    pub fn client(&self) -> Address {
        self.page.clients.get(usize::from(self.row.client)).copied().unwrap_or(Address::Unknown)
    }

    /// Returns the key under which its operation is counted.
    pub fn operation(&self) -> OperationKey {
        self.page.operations.get(usize::from(self.row.operation)).copied().unwrap_or_default()
    }

    /// Returns the Transaction as counted for rates, at the end of its Reply, or at its Call if there is no Reply.
    pub fn to_ended_transaction(&self) -> RateMeteredTransaction<'p> {
        let latency_ns = i64::try_from(self.row.latency_ns.unwrap_or(0)).unwrap_or(i64::MAX);
        RateMeteredTransaction {
            time: Timestamp(self.row.time.0.saturating_add(latency_ns)),
            bytes: self.row.bytes,
            operation: self.operation(),
            connection: self.row.connection,
            path: self.label().get(self.path()).filter(|path| !path.is_empty()).map(str::as_bytes),
        }
    }

    /// Returns the NFS version: `4.2`.
    pub fn version(&self) -> &'p str {
        self.piece(&[], self.row.lengths.version)
    }

    /// Returns the operation and its arguments, as displayed.
    pub fn label(&self) -> &'p str {
        self.piece(&[self.row.lengths.version], self.row.lengths.label)
    }

    /// Returns the operation name.
    pub fn name(&self) -> &'p str {
        self.label().get(..usize::from(self.row.lengths.name)).unwrap_or_default()
    }

    /// Returns the range of the file path in the label.
    pub fn path(&self) -> std::ops::Range<usize> {
        let (start, end) = self.row.lengths.path;
        usize::from(start)..usize::from(end)
    }

    /// Returns the summary of transfers through chunks.
    pub fn chunks(&self) -> &'p str {
        let RowTextPieceLengths { version, label, chunks, .. } = self.row.lengths;
        self.piece(&[version, label], chunks)
    }

    /// Returns the summary of transfers through chunks for a narrow column.
    pub fn short_chunks(&self) -> &'p str {
        let RowTextPieceLengths { version, label, chunks, short_chunks, .. } = self.row.lengths;
        self.piece(&[version, label, chunks], short_chunks)
    }

    /// Returns the status followed by the problems of the Transaction, and the length of the status.
    pub fn status(&self) -> (&'p str, usize) {
        let RowTextPieceLengths { version, label, chunks, short_chunks, status, status_length: split, .. } =
            self.row.lengths;
        (self.piece(&[version, label, chunks, short_chunks], status), usize::from(split))
    }
}

/// Creates rows from Transactions.
#[derive(Debug)]
pub struct TuiTransactionRowBuilder {
    glyphs: Glyphs,
    labels: InfoColumnFormatter,
    cell: String,
    /// State of the pending call whose row is being added.
    pending: Option<PendingCallProgress>,
}

impl TuiTransactionRowBuilder {
    /// Returns a writer for a terminal's character set.
    pub fn new(glyphs: Glyphs) -> Self {
        Self { glyphs, labels: InfoColumnFormatter::default(), cell: String::new(), pending: None }
    }

    /// Adds the row of a Transaction with its conformance findings to a page, which must have space for it.
    pub fn add(
        &mut self,
        page: &mut RowPage,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
        findings: &[Finding],
    ) {
        let mut lengths = RowTextPieceLengths::default();
        let text = page.text.len() as u32;
        transaction_list::version(summary, &mut self.cell);
        lengths.version = self.take_cell(page);
        self.labels.write(messages, summary, paths, &self.glyphs, &mut self.cell);
        let path = self.labels.path();
        lengths.path = match (u8::try_from(path.start), u8::try_from(path.end)) {
            (Ok(start), Ok(end)) => (start, end),
            _ => (0, 0),
        };
        lengths.label = self.take_cell(page);
        lengths.name = match summary.label_operation() {
            Some(ProcedureOrMainOperation::Named(name)) => u8::try_from(name.len()).unwrap_or(0),
            _ => 0,
        };
        transaction_list::chunks(transaction, false, &mut self.cell);
        lengths.chunks = self.take_cell(page);
        transaction_list::chunks(transaction, true, &mut self.cell);
        lengths.short_chunks = self.take_cell(page);
        let (is_ok, split) = match self.pending {
            Some(progress) => {
                self.cell.push_str("pending");
                // The column is narrow.
                if progress.phase != PendingTransactionPhase::Server {
                    let _ = write!(self.cell, ": {}", PendingCallProgress { slot: None, ..progress });
                }
                (true, "pending".len())
            }
            None => {
                transaction_list::status_and_marks(transaction, summary, STATUS_WIDTH, &self.glyphs, &mut self.cell)
            }
        };
        if let Some(severity) = transaction_list::marked_severity(findings) {
            let _ = write!(self.cell, " !{}", severity.name());
        }
        lengths.status_length = u8::try_from(split).unwrap_or(u8::MAX);
        lengths.status = self.take_cell(page);
        let (first, last) = frames(transaction);
        let message = transaction.call.as_ref().or(transaction.reply.as_ref());
        let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks);
        let chunks = chunks.chain(&transaction.reply_read_chunks);
        let row = TransactionListRow {
            index: transaction.index,
            time: message.map_or(Timestamp(0), |message| message.time),
            first,
            last,
            latency_ns: transaction.latency_ns(),
            bytes: transaction_list::wire_bytes(transaction),
            chunk_bytes: chunks.chain(&transaction.reply_chunk).map(|chunk| chunk.moved_bytes()).sum(),
            connection: transaction.connection.number,
            xid: transaction.xid,
            is_reverse: transaction.direction == CallDirection::Reverse,
            has_failed: !is_ok,
            is_incomplete: !summary.missing(transaction).is_empty(),
            has_copies: [&transaction.call, &transaction.reply].into_iter().flatten().any(|message| message.copies > 1),
            client: page.client(transaction.connection.client.address),
            operation: page.operation(OperationKey::from_summary(summary)),
            text,
            lengths,
        };
        page.rows.push(row);
    }

    /// Adds the row of a pending call, with its age as latency and its phase as status. The page must have space for it.
    pub fn add_pending(
        &mut self,
        page: &mut RowPage,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
        progress: PendingCallProgress,
    ) {
        self.pending = Some(progress);
        self.add(page, transaction, messages, summary, paths, &[]);
        self.pending = None;
        if let Some(row) = page.rows.last_mut() {
            row.index = row.pending_index();
            row.latency_ns = Some(progress.age_ns);
            row.is_incomplete = true;
        }
    }

    /// Returns the label of a pending Call, the range of the path in it, and the length of the operation name.
    pub fn label(
        &mut self,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
    ) -> (String, std::ops::Range<usize>, usize) {
        let mut text = String::new();
        self.labels.write(messages, summary, paths, &self.glyphs, &mut text);
        let name_length = match summary.label_operation() {
            Some(ProcedureOrMainOperation::Named(name)) => name.len(),
            _ => 0,
        };
        (text, self.labels.path(), name_length)
    }

    /// Moves the cell to the text of the page, truncated to the maximum length, and returns its length.
    fn take_cell(&mut self, page: &mut RowPage) -> u8 {
        if self.cell.len() > MAX_TEXT_BYTES {
            let max_length = MAX_TEXT_BYTES - self.glyphs.cut.len();
            let end = (0..=max_length).rev().find(|at| self.cell.is_char_boundary(*at)).unwrap_or(0);
            self.cell.truncate(end);
            let _ = write!(self.cell, "{}", self.glyphs.cut);
        }
        page.text.push_str(&self.cell);
        let length = self.cell.len() as u8;
        self.cell.clear();
        length
    }
}

/// Returns the first and the last frame of a Transaction, including those that transferred its chunks.
pub fn frames(transaction: &Transaction) -> (FrameNumber, FrameNumber) {
    let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
    let messages = messages.flat_map(|message| message.frames.iter().copied());
    let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks);
    let chunks = chunks.chain(&transaction.reply_chunk).chain(&transaction.reply_read_chunks);
    let moved = chunks.flat_map(|chunk| &chunk.segments).filter_map(|segment| segment.frames);
    let all = messages.map(|frame| (frame, frame)).chain(moved);
    all.reduce(|(first, last), (start, end)| (first.min(start), last.max(end))).unwrap_or_default()
}
