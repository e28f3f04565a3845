//! Schedule of a run: the steps that are read ahead, their order, and the time when each is to be sent.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_rpc::CallTag;
use rustc_hash::FxHashMap;

use super::super::call_operations_and_files::StepTitleCache;
use super::super::dependencies::DependencyGraph;
use super::super::dependencies::collector::DependencyCollector;
use super::super::options::ReplayPace;
use super::super::report::steps::StepIdWithFrames;
use super::overlapping_changes::{CapturedStepOverlaps, LiveFileChangeOverlaps, ObjectsOfStep};
use super::pacer::StepPacer;
use super::ready_queue::ReadyStepQueue;
use super::step_window::{CapturedStepFacts, StepWindowEntry, StepWindowSlots};
use crate::run_plan::reason::PlannedStepDisposition;
use crate::run_plan::step_replayability::StepReplayabilityAnalyzer;
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{NONE, TraceStep};

/// Delay before the first retry after NFS4ERR_DELAY; later retries wait up to ten times as long.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of captured steps in flight that are counted.
const MAX_CAPTURED_DEPTH: usize = 1 << 16;

/// The steps of a run that are not finished, in the order and at the pace in which they are to be sent. It neither
/// sends Calls nor reads Replies.
pub(super) struct StepScheduler<'r, R> {
    pub(super) steps: &'r mut ReplayTraceReader<R>,
    pub(super) is_exhausted: bool,
    plan: StepReplayabilityAnalyzer,
    pub(super) titles: StepTitleCache,
    pub(super) window: StepWindowSlots,
    graph: DependencyGraph,
    dependencies: DependencyCollector,
    pub(super) queue: ReadyStepQueue,
    /// Window indices of steps whose dependencies are satisfied.
    ready: Vec<u32>,
    /// Number of steps admitted to the window.
    turns: u64,
    captured_concurrency: CapturedStepOverlaps,
    /// Steps that overlap in this run.
    live_concurrency: LiveFileChangeOverlaps,
    /// Captured reply times of the steps that were in flight when the last step was sent in the capture.
    captured_reply_times: BinaryHeap<Reverse<u64>>,
    pub(super) in_flight: usize,
    /// Steps that wait for a slot of a live session, by session variable and slot.
    slots: FxHashMap<(u32, u32), VecDeque<u32>>,
    /// Steps that wait for a credit or for memory, by the index of their connection.
    parked: Vec<VecDeque<u32>>,
    pub(super) pacer: StepPacer,
    /// Time when the next step is due, if known.
    pub(super) next_due: Option<Instant>,
}

impl<'r, R: Read + Seek> StepScheduler<'r, R> {
    /// Creates the schedule of the steps of a trace, which is at its first step.
    pub(super) fn new(
        steps: &'r mut ReplayTraceReader<R>,
        plan: StepReplayabilityAnalyzer,
        dependencies: DependencyCollector,
        pace: ReplayPace,
    ) -> Self {
        let first_call_time_ns = steps.summary().end.first_call_ns;
        Self {
            steps,
            is_exhausted: false,
            plan,
            titles: StepTitleCache::default(),
            window: StepWindowSlots::default(),
            graph: DependencyGraph::default(),
            dependencies,
            queue: ReadyStepQueue::default(),
            ready: Vec::new(),
            turns: 0,
            captured_concurrency: CapturedStepOverlaps::default(),
            live_concurrency: LiveFileChangeOverlaps::default(),
            captured_reply_times: BinaryHeap::new(),
            in_flight: 0,
            slots: FxHashMap::default(),
            parked: Vec::new(),
            pacer: StepPacer::new(pace, first_call_time_ns),
            next_due: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_exhausted && self.window.count() == 0
    }

    /// Reads steps ahead until `max_count` are in the window. Calls `notice` for each, with the reason of the plan in
    /// it; those that the plan does not send are not admitted.
    pub(super) fn admit(
        &mut self,
        max_count: usize,
        is_directory: impl Fn(u32) -> bool,
        mut notice: impl FnMut(&TraceStep<'_>, &StepWindowEntry),
    ) -> Result<(), TraceError> {
        while !self.is_exhausted && self.window.count() < max_count {
            let Some((step, bytes)) = self.steps.next_step_with_bytes()? else {
                self.is_exhausted = true;
                break;
            };
            let (window_index, mut entry) = self.window.take_free();
            let mut stored_step = std::mem::take(&mut entry.step);
            let step = stored_step.store(step, bytes);
            entry.reason = self.plan.plan_step(&step).reason;
            entry.description.read(&step, &mut self.titles);
            entry.id = step_id(&step);
            notice(&step, &entry);
            if matches!(
                entry.reason.map(|reason| reason.state()),
                Some(PlannedStepDisposition::Skipped | PlannedStepDisposition::Unreplayable)
            ) {
                entry.step = stored_step;
                self.window.release(window_index, entry);
                continue;
            }
            let has_session =
                step.caller.session != NONE && entry.description.operations.first() == Some(&Operation::SEQUENCE);
            entry.captured = CapturedStepFacts {
                call_time_ns: step.origin.time_ns,
                reply_time_ns: step.origin.time_ns.saturating_add(step.origin.latency_ns),
                client: step.caller.client,
                slot: has_session.then_some((step.caller.session, step.caller.slot)),
                ..CapturedStepFacts::default()
            };
            (entry.turn, entry.due) = (self.turns, None);
            (entry.delay_retries, entry.rewrites, entry.resend) = Default::default();
            (entry.call.in_flight, entry.call.overlaps_change) = (None, false);
            self.dependencies.collect(&step, &entry.description, entry.captured.slot, &is_directory);
            let objects = step.filehandles().map(|variable| self.dependencies.object(variable));
            entry.objects = ObjectsOfStep::new(objects, entry.description.may_use_unseen_objects());
            entry.step = stored_step;
            self.record_captured_overlap(window_index, &mut entry);
            let span = (entry.captured.call_time_ns, entry.captured.reply_time_ns);
            self.turns += 1;
            self.window.put(window_index, entry);
            if self.graph.admit(window_index, span, &mut self.dependencies.dependencies) {
                self.enqueue(window_index);
            }
        }
        Ok(())
    }

    /// Records the steps that a new step overlapped in the capture. A Reply that overlapped a change may show the state
    /// before or after it.
    fn record_captured_overlap(&mut self, window_index: u32, entry: &mut StepWindowEntry) {
        let span @ (start, end) = (entry.captured.call_time_ns, entry.captured.reply_time_ns);
        let (is_change, window) = (entry.may_change_size_or_links(), &mut self.window);
        entry.captured.overlaps_change =
            self.captured_concurrency.admit(span, is_change, (window_index, entry.turn), |window_index, turn| {
                if let Some(earlier) = window.get_mut(window_index).filter(|earlier| earlier.turn == turn) {
                    earlier.captured.overlaps_change = true;
                }
            });
        while self.captured_reply_times.peek().is_some_and(|Reverse(end)| *end <= start) {
            self.captured_reply_times.pop();
        }
        if self.captured_reply_times.len() < MAX_CAPTURED_DEPTH {
            self.captured_reply_times.push(Reverse(end));
        }
        entry.captured.depth = self.captured_reply_times.len() as u32;
    }

    /// Queues a step whose dependencies are satisfied, for the time when it is due.
    fn enqueue(&mut self, window_index: u32) {
        let Some(entry) = self.window.get_mut(window_index) else { return };
        entry.due = self.pacer.due_time(entry);
        self.queue.push(entry.turn, window_index, entry.due);
    }

    /// Puts back a step that cannot be sent now, to be sent as soon as possible or at this time.
    pub(super) fn put_back(&mut self, window_index: u32, entry: Box<StepWindowEntry>, due: Option<Instant>) {
        self.queue.push(entry.turn, window_index, due);
        self.window.put(window_index, entry);
    }

    /// Queues a step to be retried as the server asked; the delay increases with each try.
    pub(super) fn delay(&mut self, window_index: u32, mut entry: Box<StepWindowEntry>, now: Instant) {
        entry.delay_retries += 1;
        entry.due = Some(now + RETRY_DELAY * entry.delay_retries.min(10));
        self.queue.push(entry.turn, window_index, entry.due);
        self.window.put(window_index, entry);
    }

    /// Records that a step is in flight: its Call has this tag and was sent at this time.
    pub(super) fn begin_flight(&mut self, tag: CallTag, now: Instant, entry: &mut StepWindowEntry) {
        self.pacer.started.get_or_insert(now);
        let (window, mut overlapped) = (&self.window, Vec::new());
        let is_flying = |tag| window.find(tag).is_some();
        let is_change = entry.may_change_size_or_links();
        entry.call.overlaps_change |=
            self.live_concurrency.admit((tag, is_change), entry.objects, is_flying, |tag| overlapped.push(tag));
        for tag in overlapped {
            let overlapping = self.window.find(tag).and_then(|window_index| self.window.get_mut(window_index));
            if let Some(overlapping) = overlapping {
                overlapping.call.overlaps_change = true;
            }
        }
        self.in_flight += 1;
    }

    pub(super) fn end_flight(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Releases the window entry of a step, keeps its buffers for reuse, and queues the steps that waited for it.
    pub(super) fn release(&mut self, window_index: u32, entry: Box<StepWindowEntry>) {
        self.window.release(window_index, entry);
        self.graph.finish(window_index, &mut self.ready);
        while let Some(window_index) = self.ready.pop() {
            self.enqueue(window_index);
        }
    }

    /// Puts back a step that waits for capacity on a connection.
    pub(super) fn park(&mut self, connection: usize, window_index: u32, entry: Box<StepWindowEntry>) {
        self.window.put(window_index, entry);
        if self.parked.len() <= connection {
            self.parked.resize_with(connection + 1, VecDeque::new);
        }
        if let Some(parked) = self.parked.get_mut(connection) {
            parked.push_back(window_index);
        }
    }

    pub(super) fn has_parked(&self) -> bool {
        self.parked.iter().any(|parked| !parked.is_empty())
    }

    /// Queues at most `max_count` of the steps that wait for capacity on a connection.
    pub(super) fn unpark(&mut self, connection: usize, max_count: usize) {
        let Some(parked) = self.parked.get_mut(connection) else { return };
        let count = max_count.min(parked.len());
        parked.drain(..count).for_each(|window_index| requeue(&self.window, &mut self.queue, window_index));
    }

    pub(super) fn unpark_each(&mut self, max_count: usize) {
        (0..self.parked.len()).for_each(|connection| self.unpark(connection, max_count));
    }

    /// Puts back a step that waits for a slot of a live session.
    pub(super) fn wait_for_slot(&mut self, slot: (u32, u32), window_index: u32, entry: Box<StepWindowEntry>) {
        self.window.put(window_index, entry);
        self.slots.entry(slot).or_default().push_back(window_index);
    }

    /// Queues the steps that wait for a slot: all of them, as the first may not be sent.
    pub(super) fn wake_slot(&mut self, slot: (u32, u32)) {
        if !self.slots.is_empty() {
            let waiting = self.slots.remove(&slot).unwrap_or_default();
            waiting.into_iter().for_each(|window_index| requeue(&self.window, &mut self.queue, window_index));
        }
    }

    pub(super) fn wake_all_slots(&mut self) {
        let waiting = self.slots.drain().flat_map(|(_, waiting)| waiting);
        waiting.for_each(|window_index| requeue(&self.window, &mut self.queue, window_index));
    }

    /// Queues the steps of a client again; Calls that were to be sent unchanged are rebuilt.
    pub(super) fn requeue_client(&mut self, captured: u32) {
        for entry in self.window.resend_steps_mut().filter(|entry| entry.captured.client == captured) {
            entry.resend.is_pending = false;
            entry.resend.renewals += 1;
            entry.call.counts.slot = None;
        }
        self.wake_all_slots();
    }
}

fn requeue(window: &StepWindowSlots, queue: &mut ReadyStepQueue, window_index: u32) {
    if let Some(entry) = window.get(window_index) {
        queue.push(entry.turn, window_index, None);
    }
}

pub(super) fn step_id(step: &TraceStep<'_>) -> StepIdWithFrames {
    StepIdWithFrames { step: step.origin.id, frames: [step.origin.call_frame, step.origin.reply_frame] }
}
