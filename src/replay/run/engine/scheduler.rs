//! Schedule of a run: the steps that are read ahead, their order, and the time when each is to be sent.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::super::call_description::CallTitleCache;
use super::super::dependencies::DependencyGraph;
use super::super::dependencies::collector::DependencyCollector;
use super::concurrency::{CapturedConcurrency, LiveConcurrency};
use super::queue::StepQueue;
use super::think_time::ThinkTimeHistory;
use super::window::StepWindow;
use crate::replay::plan::planner::StepPlanner;
use crate::replay::trace::TraceReader;

/// The steps of a run that are not finished, in the order and at the pace in which they are to be sent. It neither sends
/// Calls nor reads Replies.
pub(super) struct StepScheduler<'r, R> {
    pub(super) steps: &'r mut TraceReader<R>,
    /// `true` once all steps were read.
    pub(super) is_exhausted: bool,
    pub(super) plan: StepPlanner,
    pub(super) titles: CallTitleCache,
    pub(super) window: StepWindow,
    pub(super) graph: DependencyGraph,
    pub(super) dependencies: DependencyCollector,
    pub(super) queue: StepQueue,
    /// Window indices of steps whose dependencies are satisfied.
    pub(super) ready: Vec<u32>,
    /// Number of steps admitted to the window.
    pub(super) turns: u64,
    pub(super) captured_concurrency: CapturedConcurrency,
    /// Steps that overlap in this run.
    pub(super) live_concurrency: LiveConcurrency,
    /// Captured reply times of the steps that were in flight when the last step was sent in the capture.
    pub(super) captured_reply_times: BinaryHeap<Reverse<u64>>,
    /// Number of Calls in flight.
    pub(super) in_flight: usize,
    /// Steps that wait for a slot of a live session, by session variable and slot.
    pub(super) slots: FxHashMap<(u32, u32), VecDeque<u32>>,
    /// Completion times of the latest steps of each client, if clients have think time.
    pub(super) clients: FxHashMap<u32, ThinkTimeHistory>,
    /// Send time of the first Call.
    pub(super) started: Option<Instant>,
    /// Capture time of the first Call.
    pub(super) first_call_time: u64,
    /// Number of steps sent, without retries.
    pub(super) sent: u64,
    /// Time when the next step is due, if known.
    pub(super) next_due: Option<Instant>,
}

impl<'r, R> StepScheduler<'r, R> {
    /// Creates the schedule of the steps of a trace, which is at its first step. `first_call_time` is the capture time of the
    /// first Call.
    pub(super) fn new(
        steps: &'r mut TraceReader<R>,
        plan: StepPlanner,
        dependencies: DependencyCollector,
        first_call_time: u64,
    ) -> Self {
        Self {
            steps,
            is_exhausted: false,
            plan,
            titles: CallTitleCache::default(),
            window: StepWindow::default(),
            graph: DependencyGraph::default(),
            dependencies,
            queue: StepQueue::default(),
            ready: Vec::new(),
            turns: 0,
            captured_concurrency: CapturedConcurrency::default(),
            live_concurrency: LiveConcurrency::default(),
            captured_reply_times: BinaryHeap::new(),
            in_flight: 0,
            slots: FxHashMap::default(),
            clients: FxHashMap::default(),
            started: None,
            first_call_time,
            sent: 0,
            next_due: None,
        }
    }
}
