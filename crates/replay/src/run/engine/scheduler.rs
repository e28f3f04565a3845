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
use super::overlapping_changes::{CapturedStepOverlaps, LiveFileChangeOverlaps, ObjectsOfStep};
use super::pacer::StepPacer;
use super::ready_queue::ReadyStepQueue;
use super::step_id;
use super::step_window::{CapturedStepFacts, StepWindowEntry, StepWindowSlots};
use crate::run_plan::reason::PlannedStepDisposition;
use crate::run_plan::step_replayability::StepPlanner;
use crate::trace::{NONE, ReplayTraceReader, TraceError, TraceStep};

/// Delay before the first retry after NFS4ERR_DELAY; later retries wait up to ten times as long.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of captured steps in flight that are counted.
const MAX_CAPTURED_DEPTH: usize = 1 << 16;

/// The steps of a run that are not finished, in the order and at the pace in which they are to be sent. It neither
/// sends Calls nor reads Replies.
pub(super) struct StepScheduler<'r, R> {
    pub(super) steps: &'r mut ReplayTraceReader<R>,
    pub(super) is_exhausted: bool,
    plan: StepPlanner,
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
        plan: StepPlanner,
        dependencies: DependencyCollector,
        pace: ReplayPace,
    ) -> Self {
        let first_call_time_ns = steps.summary().end.first;
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

    /// Reads steps ahead until `most` are in the window. Calls `notice` for each, with the reason of the plan in it;
    /// those that the plan does not send are not admitted.
    pub(super) fn admit(
        &mut self,
        most: usize,
        is_directory: impl Fn(u32) -> bool,
        mut notice: impl FnMut(&TraceStep<'_>, &StepWindowEntry),
    ) -> Result<(), TraceError> {
        while !self.is_exhausted && self.window.count() < most {
            let Some((step, bytes)) = self.steps.next_step_with_bytes()? else {
                self.is_exhausted = true;
                break;
            };
            let (window_index, mut held) = self.window.take_free();
            let mut kept = std::mem::take(&mut held.step);
            let step = kept.store(step, bytes);
            held.reason = self.plan.plan_step(&step).reason;
            held.description.read(&step, &mut self.titles);
            held.id = step_id(&step);
            notice(&step, &held);
            if matches!(
                held.reason.map(|reason| reason.state()),
                Some(PlannedStepDisposition::Skipped | PlannedStepDisposition::Unreplayable)
            ) {
                held.step = kept;
                self.window.release(window_index, held);
                continue;
            }
            let has_session = step.caller.session != NONE
                && held.description.operations.first() == Some(&Operation::SEQUENCE);
            held.captured = CapturedStepFacts {
                call_time_ns: step.origin.time,
                reply_time_ns: step.origin.time.saturating_add(step.origin.latency),
                client: step.caller.client,
                slot: has_session.then_some((step.caller.session, step.caller.slot)),
                ..CapturedStepFacts::default()
            };
            (held.turn, held.due) = (self.turns, None);
            (held.delay_retries, held.rewrites, held.resend) = Default::default();
            (held.call.in_flight, held.call.overlaps_change) = (None, false);
            self.dependencies.collect(&step, &held.description, held.captured.slot, &is_directory);
            let objects = step.filehandles().map(|variable| self.dependencies.object(variable));
            held.objects = ObjectsOfStep::new(objects, held.description.may_use_unseen_objects());
            held.step = kept;
            self.record_captured_overlap(window_index, &mut held);
            let span = (held.captured.call_time_ns, held.captured.reply_time_ns);
            self.turns += 1;
            self.window.put(window_index, held);
            if self.graph.admit(window_index, span, &mut self.dependencies.dependencies) {
                self.enqueue(window_index);
            }
        }
        Ok(())
    }

    /// Records the steps that a new step overlapped in the capture. A Reply that overlapped a change may show the state
    /// before or after it.
    fn record_captured_overlap(&mut self, window_index: u32, held: &mut StepWindowEntry) {
        let span @ (start, end) = (held.captured.call_time_ns, held.captured.reply_time_ns);
        let (is_change, window) = (held.may_change_size_or_links(), &mut self.window);
        held.captured.overlaps_change = self.captured_concurrency.admit(
            span,
            is_change,
            (window_index, held.turn),
            |window_index, turn| {
                if let Some(before) = window.get_mut(window_index).filter(|before| before.turn == turn) {
                    before.captured.overlaps_change = true;
                }
            },
        );
        while self.captured_reply_times.peek().is_some_and(|Reverse(end)| *end <= start) {
            self.captured_reply_times.pop();
        }
        if self.captured_reply_times.len() < MAX_CAPTURED_DEPTH {
            self.captured_reply_times.push(Reverse(end));
        }
        held.captured.depth = self.captured_reply_times.len() as u32;
    }

    /// Queues a step whose dependencies are satisfied, for the time when it is due.
    fn enqueue(&mut self, window_index: u32) {
        let Some(held) = self.window.get_mut(window_index) else { return };
        held.due = self.pacer.due_time(held);
        self.queue.push(held.turn, window_index, held.due);
    }

    /// Puts back a step that cannot be sent now, to be sent as soon as possible or at this time.
    pub(super) fn put_back(&mut self, window_index: u32, held: Box<StepWindowEntry>, due: Option<Instant>) {
        self.queue.push(held.turn, window_index, due);
        self.window.put(window_index, held);
    }

    /// Queues a step to be retried as the server asked; the delay increases with each try.
    pub(super) fn delay(&mut self, window_index: u32, mut held: Box<StepWindowEntry>, now: Instant) {
        held.delay_retries += 1;
        held.due = Some(now + RETRY_DELAY * held.delay_retries.min(10));
        self.queue.push(held.turn, window_index, held.due);
        self.window.put(window_index, held);
    }

    /// Records that a step is in flight: its Call has this tag and was sent at this time.
    pub(super) fn begin_flight(&mut self, tag: CallTag, now: Instant, held: &mut StepWindowEntry) {
        self.pacer.started.get_or_insert(now);
        let (window, mut crowded) = (&self.window, Vec::new());
        let is_flying = |tag| window.find(tag).is_some();
        let is_change = held.may_change_size_or_links();
        held.call.overlaps_change |=
            self.live_concurrency.admit((tag, is_change), held.objects, is_flying, |tag| crowded.push(tag));
        for tag in crowded {
            let other = self.window.find(tag).and_then(|window_index| self.window.get_mut(window_index));
            if let Some(other) = other {
                other.call.overlaps_change = true;
            }
        }
        self.in_flight += 1;
    }

    pub(super) fn end_flight(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Releases the window entry of a step, keeps its buffers for reuse, and queues the steps that waited for it.
    pub(super) fn release(&mut self, window_index: u32, held: Box<StepWindowEntry>) {
        self.window.release(window_index, held);
        self.graph.finish(window_index, &mut self.ready);
        while let Some(window_index) = self.ready.pop() {
            self.enqueue(window_index);
        }
    }

    /// Puts back a step that waits for capacity on a connection.
    pub(super) fn park(&mut self, connection: usize, window_index: u32, held: Box<StepWindowEntry>) {
        self.window.put(window_index, held);
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

    /// Queues at most `most` of the steps that wait for capacity on a connection.
    pub(super) fn unpark(&mut self, connection: usize, most: usize) {
        let Some(parked) = self.parked.get_mut(connection) else { return };
        let most = most.min(parked.len());
        parked.drain(..most).for_each(|woken| requeue(&self.window, &mut self.queue, woken));
    }

    pub(super) fn unpark_each(&mut self, most: usize) {
        (0..self.parked.len()).for_each(|connection| self.unpark(connection, most));
    }

    /// Puts back a step that waits for a slot of a live session.
    pub(super) fn wait_for_slot(&mut self, slot: (u32, u32), window_index: u32, held: Box<StepWindowEntry>) {
        self.window.put(window_index, held);
        self.slots.entry(slot).or_default().push_back(window_index);
    }

    /// Queues the steps that wait for a slot: all of them, as the first may not be sent.
    pub(super) fn wake_slot(&mut self, slot: (u32, u32)) {
        if !self.slots.is_empty() {
            let woken = self.slots.remove(&slot).unwrap_or_default();
            woken.into_iter().for_each(|woken| requeue(&self.window, &mut self.queue, woken));
        }
    }

    pub(super) fn wake_all_slots(&mut self) {
        let woken = self.slots.drain().flat_map(|(_, waiting)| waiting);
        woken.for_each(|woken| requeue(&self.window, &mut self.queue, woken));
    }

    /// Queues the steps of a client again; Calls that were to be sent unchanged are rebuilt.
    pub(super) fn requeue_client(&mut self, captured: u32) {
        for held in self.window.resend_steps_mut().filter(|held| held.captured.client == captured) {
            held.resend.is_pending = false;
            held.resend.renewals += 1;
            held.call.counts.slot = None;
        }
        self.wake_all_slots();
    }
}

fn requeue(window: &StepWindowSlots, queue: &mut ReadyStepQueue, window_index: u32) {
    if let Some(held) = window.get(window_index) {
        queue.push(held.turn, window_index, None);
    }
}
