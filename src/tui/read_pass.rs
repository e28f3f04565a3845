//! The pass: one reading of all frames, on a thread of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::flow::pending_calls::PendingCall;
use nfsrdma_dissectors::flow::transaction::CallDirection;
use nfsrdma_dissectors::flow::{Flow, FlowLimits, Transaction, TransactionKey};
use nfsrdma_dissectors::frame::Timestamp;

use crate::analysis::names::{FileNames, Filehandles, OperationPaths};
use crate::analysis::rates::{EndedTransaction, RecentRates};
use crate::analysis::sequence;
use crate::analysis::statistics::OperationKey;
use crate::filter::{Filter, FilterRunner};
use crate::memory::Memory;
use crate::output::style::Glyphs;
use crate::output::transaction_list;
use crate::source::{LinkState, NextFrame, SourceError};

use super::capture::{CaptureHandle, FirstReadSource};
use super::model::activity::{LISTED, LiveActivity, OLD_NS, PendingCallRow};
use super::model::row::{PAGE, RowPage, RowWriter};
use super::model::tables::ViewTablesBuilder;
use super::pass_channel::{self, PassChannel, PassProgress, PassUpdates};

/// Number of frames between two checks of the clock.
const FRAMES: u64 = 512;
/// Maximum time for which rows are collected before they are delivered.
const PATIENCE: Duration = Duration::from_millis(20);
/// Interval between updates of the tables.
const TABLES: Duration = Duration::from_millis(250);
/// Interval between updates of pending Calls and rates.
const ACTIVITY: Duration = Duration::from_millis(250);
/// Maximum number of pending Calls that a filter evaluates, oldest first.
const JUDGED: usize = 1_000;
/// Number of frames between two resume points.
const APART: u64 = 4096;
/// Maximum number of Transactions that wait for their numbers.
const EARLY: usize = 1024;

/// The file names inferred by a pass, shared with readers. A waiting reader is served before the pass continues.
#[derive(Clone, Debug)]
pub(super) struct SharedNames(Arc<(Mutex<FileNames>, AtomicUsize)>);

impl SharedNames {
    /// Returns an empty table of names.
    pub(super) fn new(how: Filehandles, room_bytes: usize) -> Self {
        Self(Arc::new((Mutex::new(FileNames::new(how, room_bytes)), AtomicUsize::new(0))))
    }

    fn lock(&self) -> MutexGuard<'_, FileNames> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up names.
    pub(super) fn ask<R>(&self, ask: impl FnOnce(&mut FileNames) -> R) -> R {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let mut names = self.lock();
        self.0.1.fetch_sub(1, Ordering::SeqCst);
        ask(&mut names)
    }

    /// Waits until no reader is waiting for the names.
    fn yield_to_others(&self) {
        while self.0.1.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Settings of a pass.
#[derive(Clone, Debug)]
pub(super) struct PassSettings {
    /// Limits of the decoder.
    pub(super) limits: FlowLimits,
    /// Memory of the whole user interface.
    pub(super) memory: Memory,
    /// Display of filehandles.
    pub(super) filehandles: Filehandles,
    /// Character set of the terminal.
    pub(super) glyphs: Glyphs,
    /// Maximum number of pending pages, if the input does not wait.
    pub(super) pages: usize,
    /// Maximum size of the Transactions that wait for their numbers, in bytes.
    pub(super) early_bytes: usize,
}

/// A running or completed pass.
#[derive(Debug)]
pub(super) struct ReadPass {
    mailbox: PassChannel,
    /// File names, inferred by this pass or by the first one.
    pub(super) names: SharedNames,
}

impl ReadPass {
    /// Starts a pass. If frames are received once, a pass other than the first one gets the first pass's `names`.
    pub(super) fn start(
        capture: CaptureHandle,
        filter: Option<Filter>,
        manner: PassSettings,
        names: Option<SharedNames>,
    ) -> Self {
        let mailbox = PassChannel::default();
        let learns = names.is_none();
        // A source that is received once is read by the first pass.
        let first = if learns { capture.source() } else { None };
        let names =
            names.unwrap_or_else(|| SharedNames::new(manner.filehandles, manner.memory.names_bytes()));
        let pass = Self { mailbox: mailbox.clone(), names: names.clone() };
        // A second pass may run over the Transactions that a filter selects.
        let tables_bytes = manner.memory.tables_bytes() / 2;
        let work = PassState {
            is_urgent: capture.is_once(),
            most_pages: if capture.is_once() {
                manner.pages.max(pass_channel::PAGES)
            } else {
                pass_channel::PAGES
            },
            capture: capture.clone(),
            flow: Flow::new(manner.limits.clone()),
            selection: filter
                .map(|filter| FilterRunner::with_filehandles(filter, manner.filehandles, &manner.memory)),
            names,
            learns,
            writer: RowWriter::new(manner.glyphs),
            mailbox,
            page: RowPage::default(),
            tally: ViewTablesBuilder::new(tables_bytes / 4 * 3),
            progress: PassProgress::default(),
            early: VecDeque::new(),
            early_bytes: 0,
            most_early_bytes: manner.early_bytes,
            has_news: false,
            last_tables: Instant::now(),
            clock: None,
            rates: RecentRates::new(tables_bytes / 4),
            activity_at: Instant::now(),
            is_at_rest: true,
        };
        thread::spawn(move || PassThread { capture, work: Arc::new(Mutex::new(work)) }.run(first));
        pass
    }

    /// Returns the number of pending rows.
    pub(super) fn waiting(&self) -> usize {
        self.mailbox.rows()
    }

    /// Returns `true` if the end of the pass is pending.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.mailbox.is_over()
    }

    /// Takes the results since the last call.
    pub(super) fn take(&self) -> PassUpdates {
        self.mailbox.take()
    }
}

impl Drop for ReadPass {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// The reading thread. Its state is shared, so that results can also be delivered while it waits for frames.
struct PassThread {
    capture: CaptureHandle,
    work: Arc<Mutex<PassState>>,
}

fn lock(work: &Mutex<PassState>) -> MutexGuard<'_, PassState> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PassThread {
    fn run(self, first: Option<Result<FirstReadSource, SourceError>>) {
        match first {
            Some(Ok(first)) => self.first_time(first),
            Some(Err(error)) => {
                lock(&self.work).mailbox.put(usize::MAX, |mail| mail.errors.push(error.to_string()));
            }
            // Another pass has the source: read the kept frames and those that follow.
            None => self.kept(),
        }
        lock(&self.work).finish();
    }

    fn first_time(&self, (mut source, mut pace): FirstReadSource) {
        if self.capture.is_once() {
            self.give_meanwhile();
        }
        let mut last = Instant::now();
        let mut frames = 0;
        let mut is_over = false;
        while !is_over {
            let mut is_idle = false;
            let next = source.next_within(PATIENCE);
            let mut work = lock(&self.work);
            let mut number = None;
            match next {
                Ok(NextFrame::Frame(frame)) => {
                    frames += 1;
                    is_over = pace.as_mut().is_some_and(|pace| pace.frame(frame.time));
                    // Received frames imply that the interface is up.
                    work.progress.link = pace.as_ref().map(|_| LinkState::Up);
                    number = Some(frame.number);
                    work.frame(&frame);
                    work.progress.frames = frames;
                }
                Ok(NextFrame::Nothing) => {
                    is_idle = true;
                    if let Some(pace) = &mut pace {
                        let now = pace.idle();
                        work.progress.link = Some(pace.link());
                        work.flow.advance_time(now);
                        self.capture.tell(|told| told.idle = Some(now));
                    }
                }
                Ok(NextFrame::End) => is_over = true,
                Err(error) => _ = work.mailbox.put(usize::MAX, |mail| mail.errors.push(error.to_string())),
            }
            if number.is_some() {
                self.capture.keep(&source);
            }
            let is_new = work.transactions();
            if let Some(number) = number {
                self.capture.tell(|told| (told.frame, told.idle) = (number, None));
            }
            if frames % APART == 1
                && let Some(place) = source.place()
            {
                work.mailbox.put(usize::MAX, |mail| mail.places.push(place));
            }
            if work.is_urgent {
                work.progress.bytes = source.progress();
            }
            let is_due = frames % FRAMES == 0 || is_over || is_idle || work.is_urgent && is_new;
            if !is_due {
                continue;
            }
            work.names.yield_to_others();
            if work.is_urgent || is_over || last.elapsed() > PATIENCE || frames == FRAMES {
                last = Instant::now();
                let counters = source.counters();
                work.progress.bytes = source.progress();
                work.progress.dropped =
                    counters.map(|counters| counters.dropped()).or_else(|| source.dropped());
                work.progress.counters = counters;
                if !work.give(false) {
                    return;
                }
            }
        }
    }

    /// Delivers results also while the reader waits for a pipe.
    fn give_meanwhile(&self) {
        let work = Arc::downgrade(&self.work);
        thread::spawn(move || {
            loop {
                thread::sleep(TABLES);
                let Some(work) = work.upgrade() else { return };
                let mut work = lock(&work);
                if (work.has_news || !work.is_at_rest) && !work.give(false) {
                    return;
                }
            }
        });
    }

    /// Reads the kept frames and those that follow, up to the progress of the first pass.
    fn kept(&self) {
        let mut again = self.capture.followed();
        let mut frames = 0;
        loop {
            let told = self.capture.told();
            again.until = told.frame;
            let mut work = lock(&self.work);
            if work.mailbox.is_stopped() {
                return;
            }
            let gone = again.gone;
            let taken = match again.next() {
                Some(frame) => {
                    frames += 1;
                    work.progress.frames = frame.number.0;
                    work.frame(&frame);
                    Some(frame.time)
                }
                None => {
                    if let Some(now) = told.idle {
                        work.flow.advance_time(now);
                    }
                    work.late();
                    None
                }
            };
            if again.gone > gone {
                (work.progress.gone, work.progress.since) = (again.gone, taken);
            }
            work.transactions();
            if frames % FRAMES == 0 {
                work.late();
            }
            if (taken.is_none() || frames % FRAMES == 0) && !work.give(false) {
                return;
            }
            drop(work);
            if taken.is_none() {
                if told.is_over {
                    return;
                }
                thread::sleep(PATIENCE);
            }
        }
    }
}

/// Source of a file name.
enum FileNameSource<'n> {
    /// Names are inferred from the Transaction.
    Learnt(&'n mut FileNames),
    /// The name was inferred by the first pass.
    Told(OperationPaths<'n>),
}

/// The state of a pass.
struct PassState {
    capture: CaptureHandle,
    flow: Flow,
    selection: Option<FilterRunner>,
    names: SharedNames,
    /// `true` if names are inferred and not only looked up.
    learns: bool,
    writer: RowWriter,
    mailbox: PassChannel,
    most_pages: usize,
    /// `true` if results must be delivered at once, because the input may pause.
    is_urgent: bool,
    page: RowPage,
    tally: ViewTablesBuilder,
    progress: PassProgress,
    /// Transactions completed before the first pass numbered them, or with frames that are gone.
    early: VecDeque<(TransactionKey, Transaction)>,
    /// Current and maximum size of these Transactions, in bytes.
    early_bytes: usize,
    most_early_bytes: usize,
    /// `true` if the tables are out of date.
    has_news: bool,
    last_tables: Instant,
    /// Time of the last frame, and when it was received, if frames are received once.
    clock: Option<(Timestamp, Instant)>,
    /// Rates of recent Transactions, if frames are received once.
    rates: RecentRates,
    activity_at: Instant,
    /// `true` if the last delivered activity is that of an idle capture.
    is_at_rest: bool,
}

impl PassState {
    fn frame(&mut self, frame: &nfsrdma_dissectors::frame::Frame<'_>) {
        self.has_news = true;
        if self.is_urgent {
            (self.clock, self.is_at_rest) = (Some((frame.time, Instant::now())), false);
        }
        match &mut self.selection {
            Some(selection) => selection.add_frame(frame, &mut self.flow),
            None => {
                self.flow.process_frame(frame);
                self.tally.frame(frame);
            }
        }
    }

    /// Processes the completed Transactions. Returns `true` if there were any.
    fn transactions(&mut self) -> bool {
        let mut next = self.flow.next_with_key();
        if next.is_none() {
            return false;
        }
        let names = self.names.clone();
        let mut names = names.lock();
        // Delivered after the names are unlocked: waiting for space must not block other users of the names.
        let mut full = Vec::new();
        while let Some((key, mut transaction)) = next {
            if self.learns {
                self.transaction(key, &transaction, FileNameSource::Learnt(&mut names), &mut full);
            } else if let Some(earlier) = self.capture.earlier(&mut transaction) {
                self.transaction(key, &transaction, FileNameSource::Told(earlier.about()), &mut full);
            } else {
                self.early_bytes += transaction.heap_bytes();
                self.early.push_back((key, transaction));
                while (self.early.len() > EARLY || self.early_bytes > self.most_early_bytes)
                    && let Some((_, gone)) = self.early.pop_front()
                {
                    self.early_bytes -= gone.heap_bytes();
                }
            }
            next = self.flow.next_with_key();
        }
        drop(names);
        self.put(full);
        true
    }

    /// Processes the Transactions that the first pass has numbered meanwhile.
    fn late(&mut self) {
        if self.early.is_empty() {
            return;
        }
        let mut full = Vec::new();
        self.early_bytes = 0;
        for (key, mut transaction) in std::mem::take(&mut self.early) {
            match self.capture.earlier(&mut transaction) {
                Some(earlier) => {
                    self.transaction(key, &transaction, FileNameSource::Told(earlier.about()), &mut full);
                }
                None => {
                    self.early_bytes += transaction.heap_bytes();
                    self.early.push_back((key, transaction));
                }
            }
        }
        self.put(full);
    }

    fn put(&mut self, mut full: Vec<RowPage>) {
        self.has_news = true;
        if !full.is_empty() {
            self.mailbox.put(self.most_pages, |mail| mail.pages.append(&mut full));
        }
    }

    fn transaction(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        naming: FileNameSource<'_>,
        full: &mut Vec<RowPage>,
    ) {
        let Self { capture, selection, writer, page, tally, progress, rates, is_urgent, .. } = self;
        progress.transactions += 1;
        transaction.with_messages(|reading| {
            let facts = reading.summary();
            let about = match naming {
                FileNameSource::Learnt(names) => {
                    names.infer(transaction, reading, &facts);
                    capture.note(transaction, names.paths());
                    names.paths()
                }
                FileNameSource::Told(about) => about,
            };
            if let Some(selection) = selection {
                let chosen = selection.named_transaction(key, transaction, reading, about);
                let Some(chosen) = chosen else { return };
                tally.chosen_frames(chosen);
            }
            tally.transaction(transaction, reading, &facts, about);
            if *is_urgent && let Some(last) = transaction.reply.as_ref().or(transaction.call.as_ref()) {
                rates.add(EndedTransaction {
                    time: last.end_time,
                    bytes: transaction_list::wire_bytes(transaction),
                    operation: OperationKey::from_summary(&facts),
                    connection: transaction.connection.number,
                    path: about.path,
                });
            }
            writer.add(page, transaction, reading, &facts, about);
        });
        if page.len() == PAGE {
            full.push(std::mem::take(page));
        }
    }

    /// Returns the current time of the clock that stamps frames.
    fn now(&self) -> Option<Timestamp> {
        let (time, came) = self.clock?;
        let passed_ns = i64::try_from(came.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Some(Timestamp(time.0.saturating_add(passed_ns)))
    }

    /// Returns the current activity, if an update is due.
    fn activity(&mut self) -> Option<Box<LiveActivity>> {
        if !self.is_urgent || self.is_at_rest || self.activity_at.elapsed() < ACTIVITY {
            return None;
        }
        self.activity_at = Instant::now();
        let now = self.now()?;
        let Self { flow, selection, names, writer, rates, .. } = self;
        let mut calls: Vec<PendingCall<'_>> = flow.pending_calls().collect();
        let mut in_flight = calls.len();
        let old =
            calls.iter().filter(|call| now.nanoseconds_since(call.since).unwrap_or(0) >= OLD_NS).count();
        calls.sort_by_key(|call| (call.since, call.first_frame));
        let mut pending = Vec::new();
        let names = names.clone();
        let mut names = names.lock();
        for call in calls.iter().take(JUDGED) {
            if selection.is_none() && pending.len() == LISTED {
                break;
            }
            let transaction = call.to_transaction();
            transaction.with_messages(|reading| {
                let facts = reading.summary();
                names.resolve(&transaction, reading, &facts);
                let about = names.paths();
                if let Some(selection) = selection
                    && !selection.pending(call.key, &transaction, reading, about)
                {
                    return;
                }
                let (label, path, name_length) = writer.label(reading, &facts, about);
                pending.push(PendingCallRow {
                    since: call.since,
                    first: call.first_frame,
                    label,
                    path,
                    name_length,
                    connection: call.connection.number,
                    client: call.connection.client.address,
                    xid: transaction.xid,
                    slot: sequence::slot(reading, &facts),
                    phase: call.phase(),
                    copies: call.copies,
                    is_reverse: call.direction == CallDirection::Reverse,
                });
            });
        }
        drop(names);
        let mut activity = LiveActivity { now, in_flight, old, pending, rates: rates.table(now) };
        if selection.is_some() {
            in_flight = activity.pending.len();
            (activity.in_flight, activity.old) = (in_flight, activity.old_calls().count());
            activity.pending.truncate(LISTED);
        }
        self.is_at_rest = activity.is_at_rest();
        Some(Box::new(activity))
    }

    /// Delivers the results. Returns `false` if the receiver has stopped the pass.
    fn give(&mut self, is_last: bool) -> bool {
        let is_due = self.has_news && self.last_tables.elapsed() >= TABLES;
        let tables = (is_last || is_due || self.tally.is_new()).then(|| {
            self.last_tables = Instant::now();
            self.has_news = false;
            Box::new(self.tally.tables(&self.flow))
        });
        // After the end, rates are those around the cursor.
        let is_over = is_last && self.is_urgent;
        let activity = if is_over { Some(Box::default()) } else { self.activity() };
        let page = std::mem::take(&mut self.page);
        let progress = self.progress;
        self.mailbox.put(self.most_pages, |mail| {
            // Fill the last page first, so that rows that arrive one by one form full pages.
            let left = match mail.pages.last_mut() {
                Some(last) if last.len() < PAGE => last.append(page),
                _ => Some(page),
            };
            mail.pages.extend(left.filter(|page| !page.is_empty()));
            if tables.is_some() {
                mail.tables = tables;
            }
            if activity.is_some() {
                mail.activity = activity;
            }
            mail.progress = Some(progress);
        })
    }

    /// Ends the pass and delivers the last results.
    fn finish(&mut self) {
        self.flow.finish();
        self.transactions();
        self.late();
        self.progress.is_over = true;
        self.give(true);
        if self.learns {
            self.capture.tell(|told| told.is_over = true);
        }
    }
}
