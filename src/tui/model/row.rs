//! A Transaction as the list knows it: what is shown, sorted by and looked for, in about 150 bytes.

use std::fmt::Write as _;

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::decode::{CallOperation, RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::rpc::Xid;

use crate::analysis::names::OperationPaths;
use crate::analysis::rates::EndedTransaction;
use crate::analysis::statistics::OperationKey;
use crate::output::info_column::OperationLabels;
use crate::output::style::Glyphs;
use crate::output::transaction_list;

/// Rows of a page.
pub const PAGE: usize = 1024;
/// Bytes of the text of one column that are kept.
const TEXT: usize = 255;
/// Columns that a status may take: too few for the ranges of missing bytes, which are in the tree.
const STATUS_WIDTH: usize = 23;

/// What a Transaction is beside its text.
#[derive(Clone, Copy, Debug)]
pub struct TransactionListRow {
    /// Number of the Transaction.
    pub index: u64,
    /// When the Call was first seen; without a Call the Reply.
    pub time: Timestamp,
    /// The first of its frames.
    pub first: FrameNumber,
    /// The last of its frames.
    pub last: FrameNumber,
    /// Nanoseconds from Call to Reply.
    pub latency: Option<u64>,
    /// Bytes of its messages and of what moved through its chunks.
    pub bytes: u64,
    /// Bytes that moved through its chunks.
    pub chunk_bytes: u64,
    /// Number of its connection.
    pub connection: u64,
    /// Its transaction id.
    pub xid: Xid,
    /// Whether the server called.
    pub is_reverse: bool,
    /// Whether its status needs attention.
    pub has_failed: bool,
    /// Whether something of it is not in the capture.
    pub is_incomplete: bool,
    /// Whether a message of it was sent more than once.
    pub has_copies: bool,
    client: u16,
    operation: u16,
    text: u32,
    lengths: RowTextLengths,
}

/// How long the pieces of text of a row are, in their order.
#[derive(Clone, Copy, Debug, Default)]
struct RowTextLengths {
    version: u8,
    /// The operation alone, with which the label begins.
    name: u8,
    label: u8,
    /// The path within the label.
    path: (u8, u8),
    chunks: u8,
    short_chunks: u8,
    status: u8,
    /// The status alone, without marks.
    split: u8,
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
pub struct RowEntry<'p> {
    /// The row.
    pub row: &'p TransactionListRow,
    page: &'p RowPage,
}

impl RowPage {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of memory that it takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<TransactionListRow>()
            + self.text.capacity()
            + self.clients.capacity() * size_of::<Address>()
            + self.operations.capacity() * size_of::<OperationKey>()
    }

    /// A row, counted from 0.
    pub fn get(&self, at: usize) -> Option<RowEntry<'_>> {
        Some(RowEntry { row: self.rows.get(at)?, page: self })
    }

    /// The rows.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RowEntry<'_>> {
        self.rows.iter().map(|row| RowEntry { row, page: self })
    }

    /// Moves rows from the start of another page to the end of this one, as many as there is room for; gives what is left.
    pub fn append(&mut self, other: Self) -> Option<Self> {
        let room = PAGE.saturating_sub(self.rows.len());
        if self.rows.is_empty() && other.rows.len() <= PAGE {
            *self = other;
            return None;
        }
        let mut left = Self::default();
        for (at, entry) in other.iter().enumerate() {
            let page = if at < room { &mut *self } else { &mut left };
            page.copy(entry);
        }
        (!left.is_empty()).then_some(left)
    }

    fn copy(&mut self, entry: RowEntry<'_>) {
        let text = self.text.len() as u32;
        self.text.push_str(entry.all_text());
        let client = self.client(entry.client());
        let operation = self.operation(entry.operation());
        self.rows.push(TransactionListRow { text, client, operation, ..*entry.row });
    }

    /// The place of an operation among those of the page.
    fn operation(&mut self, key: OperationKey) -> u16 {
        let at = self.operations.iter().rposition(|known| *known == key);
        let at = at.unwrap_or_else(|| {
            self.operations.push(key);
            self.operations.len() - 1
        });
        // A page has no more operations than rows.
        at as u16
    }

    /// The place of an address among the clients of the page.
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

impl<'p> RowEntry<'p> {
    fn all_text(&self) -> &'p str {
        let RowTextLengths { version, label, chunks, short_chunks, status, .. } = self.row.lengths;
        let length: usize = [version, label, chunks, short_chunks, status].into_iter().map(usize::from).sum();
        let start = self.row.text as usize;
        self.page.text.get(start..start + length).unwrap_or_default()
    }

    fn piece(&self, before: &[u8], length: u8) -> &'p str {
        let start: usize = before.iter().copied().map(usize::from).sum();
        self.all_text().get(start..start + usize::from(length)).unwrap_or_default()
    }

    /// Address of the client.
    pub fn client(&self) -> Address {
        self.page.clients.get(usize::from(self.row.client)).copied().unwrap_or(Address::Unknown)
    }

    /// What its operation is counted under.
    pub fn operation(&self) -> OperationKey {
        self.page.operations.get(usize::from(self.row.operation)).copied().unwrap_or_default()
    }

    /// The Transaction as rates count it, by the end of its Reply, or by its Call where it has none.
    pub fn ended(&self) -> EndedTransaction<'p> {
        let latency_ns = i64::try_from(self.row.latency.unwrap_or(0)).unwrap_or(i64::MAX);
        EndedTransaction {
            time: Timestamp(self.row.time.0.saturating_add(latency_ns)),
            bytes: self.row.bytes,
            operation: self.operation(),
            connection: self.row.connection,
            path: self.label().get(self.path()).filter(|path| !path.is_empty()).map(str::as_bytes),
        }
    }

    /// `4.2`.
    pub fn version(&self) -> &'p str {
        self.piece(&[], self.row.lengths.version)
    }

    /// The operation and what it is about.
    pub fn label(&self) -> &'p str {
        self.piece(&[self.row.lengths.version], self.row.lengths.label)
    }

    /// The operation alone.
    pub fn name(&self) -> &'p str {
        self.label().get(..usize::from(self.row.lengths.name)).unwrap_or_default()
    }

    /// Where the path of the file stands in the label.
    pub fn path(&self) -> std::ops::Range<usize> {
        let (start, end) = self.row.lengths.path;
        usize::from(start)..usize::from(end)
    }

    /// What moved through chunks.
    pub fn chunks(&self) -> &'p str {
        let RowTextLengths { version, label, chunks, .. } = self.row.lengths;
        self.piece(&[version, label], chunks)
    }

    /// The same in fewer columns.
    pub fn short_chunks(&self) -> &'p str {
        let RowTextLengths { version, label, chunks, short_chunks, .. } = self.row.lengths;
        self.piece(&[version, label, chunks], short_chunks)
    }

    /// The status, and what is wrong with the Transaction; the second begins at the place that comes with it.
    pub fn status(&self) -> (&'p str, usize) {
        let RowTextLengths { version, label, chunks, short_chunks, status, split, .. } = self.row.lengths;
        (self.piece(&[version, label, chunks, short_chunks], status), usize::from(split))
    }
}

/// Makes rows of Transactions.
#[derive(Debug)]
pub struct RowWriter {
    glyphs: Glyphs,
    labels: OperationLabels,
    cell: String,
}

impl RowWriter {
    /// A writer for terminals that have these characters.
    pub fn new(glyphs: Glyphs) -> Self {
        Self { glyphs, labels: OperationLabels::default(), cell: String::new() }
    }

    /// Adds the row of a Transaction to a page that has not as many as a page has.
    pub fn add(
        &mut self,
        page: &mut RowPage,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        about: OperationPaths<'_>,
    ) {
        let mut lengths = RowTextLengths::default();
        let text = page.text.len() as u32;
        transaction_list::version(facts, &mut self.cell);
        lengths.version = self.put(page);
        self.labels.write(reading, facts, about, &self.glyphs, &mut self.cell);
        let path = self.labels.path();
        lengths.path = match (u8::try_from(path.start), u8::try_from(path.end)) {
            (Ok(start), Ok(end)) => (start, end),
            _ => (0, 0),
        };
        lengths.label = self.put(page);
        lengths.name = match facts.operation {
            Some(CallOperation::Named(name)) => u8::try_from(name.len()).unwrap_or(0),
            _ => 0,
        };
        transaction_list::chunks(transaction, false, &mut self.cell);
        lengths.chunks = self.put(page);
        transaction_list::chunks(transaction, true, &mut self.cell);
        lengths.short_chunks = self.put(page);
        let (is_ok, split) = transaction_list::status_and_marks(
            transaction,
            facts,
            STATUS_WIDTH,
            &self.glyphs,
            &mut self.cell,
        );
        lengths.split = u8::try_from(split).unwrap_or(u8::MAX);
        lengths.status = self.put(page);
        let (first, last) = frames(transaction);
        let message = transaction.call.as_ref().or(transaction.reply.as_ref());
        let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks);
        let chunks = chunks.chain(&transaction.reply_read_chunks);
        let row = TransactionListRow {
            index: transaction.index,
            time: message.map_or(Timestamp(0), |message| message.time),
            first,
            last,
            latency: transaction.latency_ns(),
            bytes: transaction_list::wire_bytes(transaction),
            chunk_bytes: chunks.chain(&transaction.reply_chunk).map(|chunk| chunk.moved_bytes()).sum(),
            connection: transaction.connection.number,
            xid: transaction.xid,
            is_reverse: transaction.direction == CallDirection::Reverse,
            has_failed: !is_ok,
            is_incomplete: !facts.missing(transaction).is_empty(),
            has_copies: [&transaction.call, &transaction.reply]
                .into_iter()
                .flatten()
                .any(|message| message.copies > 1),
            client: page.client(transaction.connection.client.address),
            operation: page.operation(OperationKey::from_summary(facts)),
            text,
            lengths,
        };
        page.rows.push(row);
    }

    /// The label of a Call that is in flight, where the path stands in it, and the length of the operation's name.
    pub fn label(
        &mut self,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        about: OperationPaths<'_>,
    ) -> (String, std::ops::Range<usize>, usize) {
        let mut text = String::new();
        self.labels.write(reading, facts, about, &self.glyphs, &mut text);
        let name_length = match facts.operation {
            Some(CallOperation::Named(name)) => name.len(),
            _ => 0,
        };
        (text, self.labels.path(), name_length)
    }

    /// Moves what stands in the cell to the text of the page, cut to what is kept; tells its length.
    fn put(&mut self, page: &mut RowPage) -> u8 {
        if self.cell.len() > TEXT {
            let room = TEXT - self.glyphs.cut.len();
            let end = (0..=room).rev().find(|at| self.cell.is_char_boundary(*at)).unwrap_or(0);
            self.cell.truncate(end);
            let _ = write!(self.cell, "{}", self.glyphs.cut);
        }
        page.text.push_str(&self.cell);
        let length = self.cell.len() as u8;
        self.cell.clear();
        length
    }
}

/// The first and the last frame of a Transaction, those that moved bytes of its chunks included.
pub fn frames(transaction: &Transaction) -> (FrameNumber, FrameNumber) {
    let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
    let messages = messages.flat_map(|message| message.frames.iter().copied());
    let chunks = transaction.read_chunks.iter().chain(&transaction.write_chunks);
    let chunks = chunks.chain(&transaction.reply_chunk).chain(&transaction.reply_read_chunks);
    let moved = chunks.flat_map(|chunk| &chunk.segments).filter_map(|segment| segment.frames);
    let all = messages.map(|frame| (frame, frame)).chain(moved);
    all.reduce(|(first, last), (start, end)| (first.min(start), last.max(end))).unwrap_or_default()
}
