//! Admits steps to the window and issues those that are ready.

use std::cmp::Reverse;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_rpc::ConnectionId;

use super::super::file_divergence::FileDivergence;
use super::super::options::ReplayPace;
use super::super::step_outcome::StepOutcome;
use super::connections::LiveConnection;
use super::window::{CapturedCircumstances, WindowStep};
use super::{
    MAX_CAPTURED_DEPTH, OptionalReplayRecorder, RETRY_DELAY, ReplayEngine, ReplayRunError, StepSendOutcome,
    record_divergence, step_id,
};
use crate::replay::containment::ContainedTransport;
use crate::replay::plan::reason::{PlanReason, PlannedStepState};
use crate::replay::trace::{MessageSlotKind, NONE};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Reads steps ahead into the window; those that are not sent get their state.
    pub(super) fn admit(&mut self) -> Result<(), ReplayRunError> {
        while !self.scheduler.is_exhausted
            && self.scheduler.window.count() < self.context.options.window.max(1)
        {
            let Some((step, bytes)) = self.scheduler.steps.next_step_with_bytes()? else {
                self.scheduler.is_exhausted = true;
                break;
            };
            let (window_index, mut held) = self.scheduler.window.take_free();
            let mut kept = std::mem::take(&mut held.step);
            let step = kept.store(step, bytes);
            let reason = self.scheduler.plan.plan_step(&step).reason;
            held.description.read(&step, &mut self.scheduler.titles);
            held.id = step_id(&step);
            if step.caller.is_reverse {
                self.issuer.cb_getattr_answers.record_answers(&step);
            }
            let changes = held.description.effects.is_empty()
                || held.description.effects.iter().any(|act| act.may_change_size_or_links());
            if reason == Some(PlanReason::Filtered) && changes {
                // The effects on these files do not take place.
                let slots = step.call.slots.iter().chain(step.reply.slots.iter());
                for slot in slots.filter(|slot| slot.holds == MessageSlotKind::FILEHANDLE) {
                    record_divergence(
                        &mut self.verifier.divergent_files,
                        slot.variable,
                        &FileDivergence::everything(),
                    );
                }
            }
            if let Some(state) = unsent_state(reason) {
                self.report.steps.count(held.id, held.description.title(), state);
                held.step = kept;
                self.scheduler.window.release(window_index, held);
                continue;
            }
            let has_session = step.caller.session != NONE
                && held.description.operations.first() == Some(&Operation::SEQUENCE);
            held.captured = CapturedCircumstances {
                call_time_ns: step.origin.time,
                reply_time_ns: step.origin.time.saturating_add(step.origin.latency),
                client: step.caller.client,
                slot: has_session.then_some((step.caller.session, step.caller.slot)),
                ..CapturedCircumstances::default()
            };
            (held.reason, held.turn, held.due) = (reason, self.scheduler.turns, None);
            (held.delay_retries, held.rewrites, held.resend) = Default::default();
            (held.call.in_flight, held.call.overlaps_change) = (None, false);
            let directories = &self.context.seeded.directories;
            self.scheduler.dependencies.collect(&step, &held.description, held.captured.slot, |variable| {
                directories.contains(&variable)
            });
            held.step = kept;
            // A Reply that overlapped a change in the capture may show the state before or after it.
            let span = (held.captured.call_time_ns, held.captured.reply_time_ns);
            let is_change = held.description.effects.iter().any(|act| act.may_change_size_or_links());
            let window_steps = &mut self.scheduler.window;
            held.captured.overlaps_change = self.scheduler.captured_concurrency.admit(
                span,
                is_change,
                (window_index, self.scheduler.turns),
                |window_index, turn| {
                    if let Some(before) =
                        window_steps.get_mut(window_index).filter(|before| before.turn == turn)
                    {
                        before.captured.overlaps_change = true;
                    }
                },
            );
            while self
                .scheduler
                .captured_reply_times
                .peek()
                .is_some_and(|Reverse(end)| *end <= held.captured.call_time_ns)
            {
                self.scheduler.captured_reply_times.pop();
            }
            if self.scheduler.captured_reply_times.len() < MAX_CAPTURED_DEPTH {
                self.scheduler.captured_reply_times.push(Reverse(held.captured.reply_time_ns));
            }
            held.captured.depth = self.scheduler.captured_reply_times.len() as u32;
            self.scheduler.turns += 1;
            self.scheduler.window.put(window_index, held);
            if self.scheduler.graph.admit(window_index, span, &mut self.scheduler.dependencies.dependencies) {
                self.enqueue(window_index);
            }
        }
        Ok(())
    }

    /// Queues a step whose dependencies are satisfied, for the time when it is due.
    pub(super) fn enqueue(&mut self, window_index: u32) {
        let Some(held) = self.scheduler.window.get_mut(window_index) else { return };
        let since = |started: &mut Option<Instant>| *started.get_or_insert_with(Instant::now);
        held.due = match self.context.options.pace {
            ReplayPace::Immediate | ReplayPace::CapturedDepth | ReplayPace::Rate(_) => None,
            ReplayPace::CapturedTimes(times) => {
                let after = held.captured.call_time_ns.saturating_sub(self.scheduler.first_call_time) as f64;
                Some(since(&mut self.scheduler.started) + nanoseconds(after / times))
            }
            ReplayPace::ThinkTime => self
                .scheduler
                .clients
                .get(&held.captured.client)
                .and_then(|client| client.due_time(held.captured.call_time_ns)),
        };
        self.scheduler.queue.push(held.turn, window_index, held.due);
    }

    /// Sends the steps that may be sent. Returns the time when the next one is due, if there is one.
    pub(super) fn issue(
        &mut self,
        transport: &mut ContainedTransport<'_>,
        tape: &mut OptionalReplayRecorder,
    ) -> Result<Option<Instant>, ReplayRunError> {
        if self.scheduler.in_flight == 0 {
            // No Reply will arrive to wake parked steps.
            self.unpark_all();
            let waiting: Vec<u32> =
                self.scheduler.slots.drain().flat_map(|(_, window_indexes)| window_indexes).collect();
            waiting.into_iter().for_each(|window_index| self.requeue(window_index));
        }
        self.renew_contexts(transport)?;
        if self.connections.reclaim.is_some() {
            let due = self.recover(transport)?;
            if self.connections.reclaim.is_some() {
                return Ok(due);
            }
        }
        self.return_unwanted_delegations(transport);
        self.make_substitutes(transport)?;
        while let Some(window_index) = self.scheduler.queue.pop() {
            let mut held = self.scheduler.window.take(window_index);
            if let ReplayPace::Rate(rate) = self.context.options.pace
                && held.delay_retries == 0
            {
                let due = self
                    .scheduler
                    .started
                    .map(|started| started + nanoseconds(self.scheduler.sent as f64 * 1e9 / rate));
                held.due = due;
                if due.is_some_and(|due| due > Instant::now()) {
                    self.scheduler.queue.push(held.turn, window_index, None);
                    self.scheduler.window.put(window_index, held);
                    return Ok(due);
                }
            }
            if self.context.options.pace == ReplayPace::CapturedDepth
                && self.scheduler.in_flight >= held.captured.depth as usize
            {
                self.scheduler.queue.push(held.turn, window_index, None);
                self.scheduler.window.put(window_index, held);
                return Ok(None);
            }
            match self.send(window_index, &mut held, transport, tape)? {
                StepSendOutcome::Sent => self.scheduler.window.put(window_index, held),
                StepSendOutcome::Finished(state) => {
                    self.record_undone(&held, &state);
                    self.finish_step(window_index, held, state);
                    // The capacity that it leaves unused, including what it was woken for, is available to others.
                    self.unpark_one_each();
                    self.admit()?;
                }
                StepSendOutcome::RetryLater => self.delay_step(window_index, held, Instant::now()),
                StepSendOutcome::UnreachableUntil(until) => {
                    self.scheduler.queue.push(held.turn, window_index, Some(until));
                    self.scheduler.window.put(window_index, held);
                }
                StepSendOutcome::Parked(line) => {
                    self.scheduler.window.put(window_index, held);
                    if let Some(line) = self.connections.lines.get_mut(line) {
                        line.parked.push_back(window_index);
                    }
                }
                StepSendOutcome::SlotBusy(slot) => {
                    self.scheduler.window.put(window_index, held);
                    self.scheduler.slots.entry(slot).or_default().push_back(window_index);
                }
            }
        }
        Ok(self.scheduler.queue.next_due())
    }

    /// Queues a step to be retried as the server asked; the delay increases with each try.
    pub(super) fn delay_step(&mut self, window_index: u32, mut held: Box<WindowStep>, now: Instant) {
        held.delay_retries += 1;
        held.due = Some(now + RETRY_DELAY * held.delay_retries.min(10));
        self.scheduler.queue.push(held.turn, window_index, held.due);
        self.scheduler.window.put(window_index, held);
    }

    /// Queues at most `most` of the steps that wait for capacity on a connection.
    pub(super) fn unpark_connection(&mut self, connection: ConnectionId, most: usize) {
        let line = self
            .connections
            .connection_index
            .get(&connection)
            .and_then(|line| self.connections.lines.get_mut(*line));
        let Some(line) = line else { return };
        for window_index in line.parked.drain(..most.min(line.parked.len())) {
            if let Some(held) = self.scheduler.window.get(window_index) {
                self.scheduler.queue.push(held.turn, window_index, None);
            }
        }
    }

    /// Queues one waiting step of each connection.
    pub(super) fn unpark_one_each(&mut self) {
        let of_line = |line: &mut LiveConnection| line.parked.pop_front();
        let window_indexes: Vec<u32> = self.connections.lines.iter_mut().filter_map(of_line).collect();
        window_indexes.into_iter().for_each(|window_index| self.requeue(window_index));
    }

    pub(super) fn requeue(&mut self, window_index: u32) {
        if let Some(held) = self.scheduler.window.get(window_index) {
            self.scheduler.queue.push(held.turn, window_index, None);
        }
    }

    pub(super) fn unpark_all(&mut self) {
        for line in self.connections.lines.iter_mut().filter(|line| !line.parked.is_empty()) {
            for window_index in line.parked.drain(..) {
                if let Some(held) = self.scheduler.window.get(window_index) {
                    self.scheduler.queue.push(held.turn, window_index, None);
                }
            }
        }
    }
}

fn nanoseconds(time: f64) -> Duration {
    Duration::from_nanos(time.clamp(0.0, 1e18) as u64)
}

/// Returns the state of a step that is not sent.
fn unsent_state(reason: Option<PlanReason>) -> Option<StepOutcome> {
    if let Some(reason) = reason {
        let why = || format!("{}: {}", reason.code(), reason.text());
        match reason.state() {
            PlannedStepState::Skipped => return Some(StepOutcome::Skipped(why())),
            PlannedStepState::Unreplayable => return Some(StepOutcome::Unreplayable(why())),
            PlannedStepState::Run | PlannedStepState::Synthesized => {}
        }
    }
    None
}
