//! The pass: one reading of all frames, on its own thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_analysis::call_session_slots;
use nfsrdma_analysis::conformance::run::ConformanceRun;
use nfsrdma_analysis::filter::{Filter, FilterRunner};
use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay, OperationPaths};
use nfsrdma_analysis::rates::{RateMeteredTransaction, RecentRates};
use nfsrdma_analysis::statistics::OperationKey;
use nfsrdma_capture_file::{CaptureInterfaceLinkState, NextFrame, SourceError};
use nfsrdma_dissectors::captured_frame::Timestamp;
use nfsrdma_flow::pending_call_queries::PendingCall;
use nfsrdma_flow::{Flow, FlowLimits, Transaction, TransactionSlabKey};
use rustc_hash::FxHashSet;

use super::frame_clock::FrameClock;
use super::model::pending_calls_and_rates::{LiveActivitySnapshot, MAX_LISTED_CALLS, OLD_NS, PendingCallRow};
use super::model::statistics_snapshot::{PendingCallTally, ViewTablesBuilder};
use super::model::transaction_list_row::{PAGE_ROWS, RowPage, TuiTransactionRowBuilder};
use super::read_pass_channel::{self, ReadPassChannel, ReadPassProgress, ReadPassUpdates};
use super::rereadable_capture::{OneTimeFrameSource, SharedCapture};
use super::transaction_finding_store::TransactionFindingStore;
use crate::output::pending_call_progress::PendingCallProgress;
use crate::output::style::Glyphs;
use crate::output::transaction_list;

/// Number of frames between two checks of the clock.
const CLOCK_CHECK_FRAMES: u64 = 512;
/// Maximum time for which rows are collected before they are delivered.
const MAX_DELIVERY_DELAY: Duration = Duration::from_millis(20);
/// Interval between updates of the tables.
const TABLES_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between updates of pending calls and rates. With the time to draw, a shown age is at most 200 ms old.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of pending Calls that a filter evaluates, oldest first.
const MAX_FILTERED_CALLS: usize = 4_096;
/// Number of frames between two resume points.
const RESUME_POINT_FRAMES: u64 = 4096;
/// Maximum number of Transactions that wait for their numbers.
const MAX_UNNUMBERED: usize = 1024;

/// The file names inferred by a pass, shared with readers. A waiting reader is served before the pass continues.
#[derive(Clone, Debug)]
pub(super) struct SharedInferredFileNames(Arc<(Mutex<FileNames>, AtomicUsize)>);

impl SharedInferredFileNames {
    /// Returns an empty table of names.
    pub(super) fn new(display: FilehandleDisplay, room_bytes: usize) -> Self {
        Self(Arc::new((Mutex::new(FileNames::new(display, room_bytes)), AtomicUsize::new(0))))
    }

    fn lock(&self) -> MutexGuard<'_, FileNames> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up names.
    pub(super) fn look_up<R>(&self, query: impl FnOnce(&mut FileNames) -> R) -> R {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let mut names = self.lock();
        self.0.1.fetch_sub(1, Ordering::SeqCst);
        query(&mut names)
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
pub(super) struct ReadPassSettings {
    /// Limits of the decoder.
    pub(super) limits: FlowLimits,
    /// Memory of the whole user interface.
    pub(super) memory: CommandMemoryBudget,
    /// Display of filehandles.
    pub(super) filehandles: FilehandleDisplay,
    /// Character set of the terminal.
    pub(super) glyphs: Glyphs,
    /// Maximum number of pending pages, if the input does not wait.
    pub(super) max_pending_pages: usize,
    /// Maximum size of the Transactions that wait for their numbers, in bytes.
    pub(super) max_unnumbered_bytes: usize,
    /// Findings of Transactions, if the conformance rules are applied.
    pub(super) findings: Option<TransactionFindingStore>,
}

impl ReadPassSettings {
    /// Returns a flow with these limits, and the conformance rules if they are applied or the filter uses findings.
    pub(super) fn flow(&self, filter: Option<&Filter>, limits: FlowLimits) -> (Flow, Option<Box<ConformanceRun>>) {
        let applies_rules = self.findings.is_some() || filter.is_some_and(Filter::uses_findings);
        let limits = FlowLimits { record_transport_events: applies_rules, ..limits };
        (Flow::new(limits), applies_rules.then(Box::default))
    }
}

/// A running or completed pass.
#[derive(Debug)]
pub(super) struct ReadPass {
    channel: ReadPassChannel,
    /// File names, inferred by this pass or by the first one.
    pub(super) names: SharedInferredFileNames,
}

impl ReadPass {
    /// Starts a pass. If frames are received once, a pass other than the first one gets the first pass's `names`.
    pub(super) fn start(
        capture: SharedCapture,
        filter: Option<Filter>,
        settings: ReadPassSettings,
        names: Option<SharedInferredFileNames>,
    ) -> Self {
        let channel = ReadPassChannel::default();
        let infers_names = names.is_none();
        // A source that is received once is read by the first pass.
        let first = if infers_names { capture.source() } else { None };
        let names =
            names.unwrap_or_else(|| SharedInferredFileNames::new(settings.filehandles, settings.memory.names_bytes()));
        let pass = Self { channel: channel.clone(), names: names.clone() };
        // A second pass may run over the Transactions that a filter selects.
        let tables_bytes = settings.memory.tables_bytes() / 2;
        let (flow, conformance) = settings.flow(filter.as_ref(), settings.limits.clone());
        let work = ReadPassState {
            delivers_at_once: capture.is_received_once(),
            max_pages: if capture.is_received_once() {
                settings.max_pending_pages.max(read_pass_channel::MAX_PENDING_PAGES)
            } else {
                read_pass_channel::MAX_PENDING_PAGES
            },
            capture: capture.clone(),
            flow,
            conformance,
            findings: settings.findings.clone().filter(|_| infers_names),
            selection: filter
                .map(|filter| FilterRunner::with_filehandles(filter, settings.filehandles, &settings.memory)),
            names,
            infers_names,
            writer: TuiTransactionRowBuilder::new(settings.glyphs),
            channel,
            page: RowPage::default(),
            tables_builder: ViewTablesBuilder::new(tables_bytes / 4 * 3),
            progress: ReadPassProgress::default(),
            unnumbered: VecDeque::new(),
            unnumbered_bytes: 0,
            max_unnumbered_bytes: settings.max_unnumbered_bytes,
            are_tables_stale: false,
            last_tables: Instant::now(),
            is_interface: capture.is_live(),
            clock: FrameClock::default(),
            counted_pending: FxHashSet::default(),
            pending_tally: PendingCallTally::default(),
            rates: RecentRates::new(tables_bytes / 4),
            activity_at: Instant::now(),
            is_idle: true,
        };
        thread::spawn(move || ReadPassWorker { capture, state: Arc::new(Mutex::new(work)) }.run(first));
        pass
    }

    /// Returns the number of pending rows.
    pub(super) fn pending_rows(&self) -> usize {
        self.channel.pending_rows()
    }

    /// Returns `true` if the end of the pass is pending.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.channel.is_over()
    }

    /// Takes the results since the last call.
    pub(super) fn take(&self) -> ReadPassUpdates {
        self.channel.take()
    }
}

impl Drop for ReadPass {
    fn drop(&mut self) {
        self.channel.stop();
    }
}

/// The reading thread. Its state is shared, so that results can also be delivered while it waits for frames.
struct ReadPassWorker {
    capture: SharedCapture,
    state: Arc<Mutex<ReadPassState>>,
}

fn lock(work: &Mutex<ReadPassState>) -> MutexGuard<'_, ReadPassState> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReadPassWorker {
    fn run(self, first: Option<Result<OneTimeFrameSource, SourceError>>) {
        match first {
            Some(Ok(first)) => self.read_source(first),
            Some(Err(error)) => {
                lock(&self.state).channel.update(usize::MAX, |updates| updates.errors.push(error.to_string()));
            }
            // Another pass has the source: read the kept frames and those that follow.
            None => self.read_kept_frames(),
        }
        lock(&self.state).finish();
    }

    fn read_source(&self, (mut source, mut pace): OneTimeFrameSource) {
        if self.capture.is_received_once() {
            self.spawn_delivery();
        }
        let mut last = Instant::now();
        let mut frames = 0;
        let mut is_over = false;
        // After a pause, the next frame has just arrived.
        let mut has_paused = true;
        while !is_over {
            let mut is_idle = false;
            let next = source.next_within(MAX_DELIVERY_DELAY);
            let mut work = lock(&self.state);
            let mut number = None;
            match next {
                Ok(NextFrame::Frame(frame)) => {
                    frames += 1;
                    is_over = pace.as_mut().is_some_and(|pace| pace.frame(frame.time));
                    // Received frames imply that the interface is up.
                    work.progress.link = pace.as_ref().map(|_| CaptureInterfaceLinkState::Up);
                    number = Some(frame.number);
                    work.update_clock(frame.time, std::mem::take(&mut has_paused));
                    work.frame(&frame);
                    work.progress.frames = frames;
                }
                Ok(NextFrame::Nothing) => {
                    (is_idle, has_paused) = (true, true);
                    work.progress.behind_ns = 0;
                    if let Some(pace) = &mut pace {
                        let now = pace.idle();
                        work.progress.link = Some(pace.link());
                        work.flow.advance_time(now);
                        work.record_events();
                        self.capture.update_progress(|progress| progress.idle = Some(now));
                    }
                }
                Ok(NextFrame::End) => is_over = true,
                Err(error) => _ = work.channel.update(usize::MAX, |updates| updates.errors.push(error.to_string())),
            }
            if number.is_some() {
                self.capture.keep(&source);
            }
            let is_new = work.transactions();
            if let Some(number) = number {
                let clock = work.clock;
                self.capture.update_progress(|progress| {
                    (progress.frame, progress.idle, progress.clock) = (number, None, clock);
                });
            }
            if frames % RESUME_POINT_FRAMES == 1
                && let Some(point) = source.resume_point()
            {
                work.channel.update(usize::MAX, |updates| updates.resume_points.push(point));
            }
            if work.delivers_at_once {
                work.progress.bytes = source.progress();
            }
            let is_due = frames % CLOCK_CHECK_FRAMES == 0 || is_over || is_idle || work.delivers_at_once && is_new;
            if !is_due {
                continue;
            }
            work.names.yield_to_others();
            if work.delivers_at_once || is_over || last.elapsed() > MAX_DELIVERY_DELAY || frames == CLOCK_CHECK_FRAMES {
                last = Instant::now();
                let counters = source.counters();
                work.progress.bytes = source.progress();
                work.progress.dropped = counters.map(|counters| counters.dropped()).or_else(|| source.dropped());
                work.progress.counters = counters;
                if !work.deliver(false) {
                    return;
                }
            }
        }
    }

    /// Delivers results also while the reader waits for a pipe.
    fn spawn_delivery(&self) {
        let work = Arc::downgrade(&self.state);
        thread::spawn(move || {
            loop {
                thread::sleep(ACTIVITY_INTERVAL);
                let Some(work) = work.upgrade() else { return };
                let mut work = lock(&work);
                if (work.are_tables_stale || !work.is_idle) && !work.deliver(false) {
                    return;
                }
            }
        });
    }

    /// Reads the kept frames and those that follow, up to the progress of the first pass.
    fn read_kept_frames(&self) {
        let mut reader = self.capture.follow();
        let mut frames = 0;
        loop {
            let first_pass = self.capture.first_pass_progress();
            reader.until = first_pass.frame;
            let mut work = lock(&self.state);
            if work.channel.is_stopped() {
                return;
            }
            // Calls age by the clock of the frames, whenever this pass reads them.
            work.clock = first_pass.clock;
            let evicted_before = reader.evicted_count;
            let frame_time = match reader.next() {
                Some(frame) => {
                    frames += 1;
                    work.progress.frames = frame.number.0;
                    work.frame(&frame);
                    Some(frame.time)
                }
                None => {
                    if let Some(now) = first_pass.idle {
                        work.flow.advance_time(now);
                        work.record_events();
                    }
                    work.retry_unnumbered();
                    None
                }
            };
            if reader.evicted_count > evicted_before {
                (work.progress.evicted_frames, work.progress.first_available_time) = (reader.evicted_count, frame_time);
            }
            work.transactions();
            if frames % CLOCK_CHECK_FRAMES == 0 {
                work.retry_unnumbered();
            }
            if (frame_time.is_none() || frames % CLOCK_CHECK_FRAMES == 0) && !work.deliver(false) {
                return;
            }
            drop(work);
            if frame_time.is_none() {
                if first_pass.is_over {
                    return;
                }
                thread::sleep(MAX_DELIVERY_DELAY);
            }
        }
    }
}

/// Source of a file name.
enum OperationPathsSource<'n> {
    /// Names are inferred from the Transaction.
    Inferred(&'n mut FileNames),
    /// The name was inferred by the first pass.
    FirstPass(OperationPaths<'n>),
}

/// The state of a pass.
struct ReadPassState {
    capture: SharedCapture,
    flow: Flow,
    conformance: Option<Box<ConformanceRun>>,
    /// Store of the findings, in the first pass.
    findings: Option<TransactionFindingStore>,
    selection: Option<FilterRunner>,
    names: SharedInferredFileNames,
    /// `true` if names are inferred and not only looked up.
    infers_names: bool,
    writer: TuiTransactionRowBuilder,
    channel: ReadPassChannel,
    max_pages: usize,
    /// `true` if results must be delivered at once, because the input may pause.
    delivers_at_once: bool,
    page: RowPage,
    tables_builder: ViewTablesBuilder,
    progress: ReadPassProgress,
    /// Transactions completed before the first pass numbered them, or with frames that are gone.
    unnumbered: VecDeque<(TransactionSlabKey, Box<Transaction>)>,
    /// Current and maximum size of these Transactions, in bytes.
    unnumbered_bytes: usize,
    max_unnumbered_bytes: usize,
    /// `true` if the tables are out of date.
    are_tables_stale: bool,
    last_tables: Instant,
    /// `true` if frames come from an interface, which stamps them when they arrive.
    is_interface: bool,
    /// The clock that stamps frames, if frames are received once.
    clock: FrameClock,
    /// Pending calls whose credits and sessions are counted.
    counted_pending: FxHashSet<TransactionSlabKey>,
    /// Old pending calls, as far as the filter selects them.
    pending_tally: PendingCallTally,
    /// Rates of recent Transactions, if frames are received once.
    rates: RecentRates,
    activity_at: Instant,
    /// `true` if the last delivered activity is that of an idle capture.
    is_idle: bool,
}

impl ReadPassState {
    fn frame(&mut self, frame: &nfsrdma_dissectors::captured_frame::Frame<'_>) {
        self.are_tables_stale = true;
        self.is_idle &= !self.delivers_at_once;
        match &mut self.selection {
            Some(selection) => selection.add_frame(frame, &mut self.flow),
            None => {
                self.flow.process_frame(frame);
                self.tables_builder.frame(frame);
                self.tables_builder.slots(&self.flow);
            }
        }
        self.record_events();
    }

    /// Sets the clock by a frame that is about to be decoded.
    fn update_clock(&mut self, time: Timestamp, has_paused: bool) {
        let now = Instant::now();
        match (self.delivers_at_once, self.is_interface) {
            (false, _) => {}
            (true, false) => self.clock.set(time, now),
            (true, true) => self.progress.behind_ns = self.clock.frame(time, now, has_paused),
        }
    }

    /// Judges the transport events of the flow's last step, if rules are applied.
    fn record_events(&mut self) {
        if let Some(conformance) = &mut self.conformance {
            conformance.record_events(&self.flow);
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
        let mut full_pages = Vec::new();
        while let Some((key, mut transaction)) = next {
            if self.infers_names {
                self.transaction(key, &transaction, OperationPathsSource::Inferred(&mut names), &mut full_pages);
            } else if let Some(first_pass) = self.capture.first_pass_result(&mut transaction) {
                self.transaction(
                    key,
                    &transaction,
                    OperationPathsSource::FirstPass(first_pass.paths()),
                    &mut full_pages,
                );
            } else {
                self.unnumbered_bytes += transaction.heap_bytes();
                self.unnumbered.push_back((key, transaction));
                while (self.unnumbered.len() > MAX_UNNUMBERED || self.unnumbered_bytes > self.max_unnumbered_bytes)
                    && let Some((_, dropped)) = self.unnumbered.pop_front()
                {
                    self.unnumbered_bytes -= dropped.heap_bytes();
                }
            }
            next = self.flow.next_with_key();
        }
        drop(names);
        self.deliver_pages(full_pages);
        true
    }

    /// Processes the Transactions that the first pass has numbered meanwhile.
    fn retry_unnumbered(&mut self) {
        if self.unnumbered.is_empty() {
            return;
        }
        let mut full_pages = Vec::new();
        self.unnumbered_bytes = 0;
        for (key, mut transaction) in std::mem::take(&mut self.unnumbered) {
            match self.capture.first_pass_result(&mut transaction) {
                Some(first_pass) => {
                    self.transaction(
                        key,
                        &transaction,
                        OperationPathsSource::FirstPass(first_pass.paths()),
                        &mut full_pages,
                    );
                }
                None => {
                    self.unnumbered_bytes += transaction.heap_bytes();
                    self.unnumbered.push_back((key, transaction));
                }
            }
        }
        self.deliver_pages(full_pages);
    }

    fn deliver_pages(&mut self, mut full_pages: Vec<RowPage>) {
        self.are_tables_stale = true;
        if !full_pages.is_empty() {
            self.channel.update(self.max_pages, |updates| updates.pages.append(&mut full_pages));
        }
    }

    fn transaction(
        &mut self,
        key: TransactionSlabKey,
        transaction: &Transaction,
        naming: OperationPathsSource<'_>,
        full_pages: &mut Vec<RowPage>,
    ) {
        let Self {
            capture,
            conformance,
            findings: stored,
            selection,
            writer,
            page,
            tables_builder: tally,
            progress,
            rates,
            delivers_at_once: is_urgent,
            ..
        } = self;
        progress.transactions += 1;
        transaction.with_messages(|messages| {
            let summary = messages.summary();
            let paths = match naming {
                OperationPathsSource::Inferred(names) => {
                    names.infer(transaction, messages, &summary);
                    capture.record_first_pass(transaction, names.paths());
                    names.paths()
                }
                OperationPathsSource::FirstPass(paths) => paths,
            };
            let findings = match conformance {
                Some(conformance) => conformance.check(Some(key), transaction, messages, &summary),
                None => Vec::new(),
            };
            if let Some(store) = stored {
                store.record(transaction.index, &findings);
            }
            if let Some(selection) = selection {
                selection.set_findings(&findings);
                let selected = selection.transaction(Some(key), transaction, messages, Some(paths));
                let Some(selected) = selected else { return };
                tally.chosen_frames(selected);
            }
            tally.transaction(transaction, messages, &summary, paths);
            if *is_urgent && let Some(last) = transaction.reply.as_ref().or(transaction.call.as_ref()) {
                rates.add(RateMeteredTransaction {
                    time: last.end_time,
                    bytes: transaction_list::wire_bytes(transaction),
                    operation: OperationKey::from_summary(&summary),
                    connection: transaction.connection.number,
                    path: paths.path,
                });
            }
            writer.add(page, transaction, messages, &summary, paths, &findings);
        });
        if page.len() == PAGE_ROWS {
            full_pages.push(std::mem::take(page));
        }
    }

    /// Returns the current time of the clock that stamps frames.
    fn now(&self) -> Option<Timestamp> {
        self.clock.at(Instant::now())
    }

    /// Returns the time of the tables, until which calls without a reply use credits and slots: that of the clock,
    /// unless frames wait to be decoded, or none will come.
    fn table_time(&self, is_last: bool) -> Timestamp {
        let clock = self.now().filter(|_| !is_last && self.progress.behind_ns == 0);
        clock.map_or(self.flow.now(), |now| now.max(self.flow.now()))
    }

    /// Returns the current activity, if an update is due.
    fn activity(&mut self) -> Option<Box<LiveActivitySnapshot>> {
        if !self.delivers_at_once || self.is_idle || self.activity_at.elapsed() < ACTIVITY_INTERVAL {
            return None;
        }
        self.activity_at = Instant::now();
        let now = self.now()?;
        let Self { capture, flow, selection, names, infers_names, writer, rates, tables_builder, .. } = self;
        let mut calls: Vec<PendingCall<'_>> = flow.pending_calls().collect();
        calls.sort_by_key(|call| (call.since, call.first_frame));
        let is_old = |call: &PendingCall<'_>| now.nanoseconds_since(call.since).unwrap_or(0) >= OLD_NS;
        let (mut pending_count, mut old_count) = (calls.len(), calls.iter().filter(|call| is_old(call)).count());
        let mut pending = Vec::new();
        let mut rows = RowPage::default();
        let mut tally = PendingCallTally::default();
        let names = names.clone();
        let mut names = names.lock();
        let counted = std::mem::take(&mut self.counted_pending);
        let mut transactions = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            let is_counted = counted.contains(&call.key);
            self.counted_pending.insert(call.key);
            if at >= MAX_FILTERED_CALLS && (is_counted || selection.is_some()) {
                continue;
            }
            let mut transaction = call.to_transaction();
            // Only the first pass knows which calls are still in flight: another one may have to catch up.
            if !*infers_names && !capture.adopt_pending(&mut transaction) {
                continue;
            }
            transaction.with_messages(|messages| {
                let summary = messages.summary();
                if !is_counted && selection.is_none() {
                    tables_builder.pending(&transaction, messages, &summary);
                }
                if at >= MAX_FILTERED_CALLS || selection.is_none() && !is_old(call) && pending.len() >= MAX_LISTED_CALLS
                {
                    return;
                }
                names.resolve(&transaction, messages, &summary);
                let paths = names.paths();
                if let Some(selection) = selection
                    && !selection.pending(call.key, &transaction, messages, paths)
                {
                    return;
                }
                let operation = OperationKey::from_summary(&summary);
                if is_old(call) {
                    tally.add(transaction.connection, operation, paths.path);
                }
                let is_listed = pending.len() < MAX_LISTED_CALLS;
                if !is_listed && selection.is_none() {
                    return;
                }
                let (slot, phase) = (call_session_slots::slot(messages), call.phase());
                let age_ns = now.nanoseconds_since(call.since).unwrap_or(0);
                if is_listed && is_old(call) {
                    let progress = PendingCallProgress { age_ns, phase, slot, direction: call.direction };
                    writer.add_pending(&mut rows, &transaction, messages, &summary, paths, progress);
                }
                let (label, path, name_length) = writer.label(messages, &summary, paths);
                pending.push(PendingCallRow {
                    since: call.since,
                    first: call.first_frame,
                    label,
                    path,
                    name_length,
                    connection: transaction.connection.number,
                    client: transaction.connection.client.address,
                    xid: transaction.xid,
                    slot,
                    phase,
                    copies: call.copies,
                    direction: call.direction,
                });
            });
            if *infers_names && at < MAX_FILTERED_CALLS {
                transactions.push(transaction);
            }
        }
        drop(names);
        if *infers_names {
            capture.record_pending(transactions.iter());
        }
        if selection.is_some() {
            pending_count = pending.len();
            old_count = pending.iter().filter(|row| now.nanoseconds_since(row.since).unwrap_or(0) >= OLD_NS).count();
            pending.truncate(MAX_LISTED_CALLS);
        }
        let activity = LiveActivitySnapshot {
            now,
            taken_at: Some(Instant::now()),
            pending_count,
            old_count,
            pending,
            rows,
            rates: rates.table(now),
        };
        self.pending_tally = tally;
        // The tables count these calls, and the time that credits are used up.
        self.are_tables_stale |= pending_count > 0;
        self.is_idle = activity.is_idle();
        Some(Box::new(activity))
    }

    /// Delivers the results. Returns `false` if the receiver has stopped the pass.
    fn deliver(&mut self, is_last: bool) -> bool {
        // After the end, rates are those around the cursor, and no call is pending.
        let is_over = is_last && self.delivers_at_once;
        let activity = if is_over { Some(Box::default()) } else { self.activity() };
        if is_last {
            self.pending_tally = PendingCallTally::default();
        }
        let is_due = self.are_tables_stale && self.last_tables.elapsed() >= TABLES_INTERVAL;
        let tables = (is_last || is_due || self.tables_builder.is_unused()).then(|| {
            self.last_tables = Instant::now();
            self.are_tables_stale = false;
            let now = self.table_time(is_last);
            if !is_last {
                self.tables_builder.partial_calls(&self.flow);
            }
            Box::new(self.tables_builder.tables(&self.flow, &self.pending_tally, now))
        });
        let page = std::mem::take(&mut self.page);
        let progress = self.progress;
        self.channel.update(self.max_pages, |updates| {
            // Fill the last page first, so that rows that arrive one by one form full pages.
            let rest = match updates.pages.last_mut() {
                Some(last) if last.len() < PAGE_ROWS => last.append(page),
                _ => Some(page),
            };
            updates.pages.extend(rest.filter(|page| !page.is_empty()));
            if tables.is_some() {
                updates.tables = tables;
            }
            if activity.is_some() {
                updates.activity = activity;
            }
            updates.progress = Some(progress);
        })
    }

    /// Ends the pass and delivers the last results.
    fn finish(&mut self) {
        self.tables_builder.partial_calls(&self.flow);
        self.flow.finish();
        self.record_events();
        self.transactions();
        self.retry_unnumbered();
        self.progress.is_over = true;
        self.deliver(true);
        if self.infers_names {
            self.capture.update_progress(|progress| progress.is_over = true);
        }
    }
}
