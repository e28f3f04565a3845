//! Admits steps to the window and issues those that are ready.

use std::io::{Read, Seek};
use std::time::Instant;

use super::super::options::ReplayPace;
use super::super::step_outcome::StepOutcome;
use super::{ReplayEngine, ReplayRunError, StepSendObstacle};
use crate::containment::ContainmentCheckedTransport;
use crate::run_plan::reason::{PlanReason, PlannedStepDisposition};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Reads steps ahead into the window; those that are not sent get their state.
    pub(super) fn admit(&mut self) -> Result<(), ReplayRunError> {
        let Self { context, scheduler, call_builder, verification, report, .. } = self;
        let directories = &context.seeded.directories;
        let is_directory = |variable| directories.contains(&variable);
        Ok(scheduler.admit(context.options.window.max(1), is_directory, |step, held| {
            if step.caller.is_reverse {
                call_builder.cb_getattr_answers.record_answers(step);
            }
            if held.reason == Some(PlanReason::Filtered) {
                verification.record_filtered(step, held);
            }
            if let Some(outcome) = unsent_outcome(held.reason) {
                report.steps.count(held.id, held.description.title(), outcome);
            }
        })?)
    }

    /// Sends the steps that may be sent. Returns the time when the next one is due, if there is one.
    pub(super) fn issue(
        &mut self,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<Option<Instant>, ReplayRunError> {
        if self.scheduler.in_flight == 0 {
            // No Reply will arrive to wake parked steps.
            self.scheduler.unpark_each(usize::MAX);
            self.scheduler.wake_all_slots();
        }
        self.renew_contexts(transport)?;
        if self.connections.reclaim.is_some() {
            let due = self.recover(transport)?;
            if self.connections.reclaim.is_some() {
                return Ok(due);
            }
        }
        self.make_substitutes(transport)?;
        while let Some(window_index) = self.scheduler.queue.pop() {
            let mut held = self.scheduler.window.take(window_index);
            match self.scheduler.pacer.pace {
                ReplayPace::Rate(rate) if held.delay_retries == 0 => {
                    held.due = self.scheduler.pacer.due_time_at_rate(rate);
                    let due = held.due;
                    if due.is_some_and(|due| due > Instant::now()) {
                        self.scheduler.put_back(window_index, held, None);
                        return Ok(due);
                    }
                }
                ReplayPace::CapturedDepth if self.scheduler.in_flight >= held.captured.depth as usize => {
                    self.scheduler.put_back(window_index, held, None);
                    return Ok(None);
                }
                _ => {}
            }
            match self.send(window_index, &mut held, transport) {
                Ok(()) => self.scheduler.window.put(window_index, held),
                Err(StepSendObstacle::Failed(error)) => return Err(error),
                Err(StepSendObstacle::Finished(outcome)) => {
                    self.record_undone(&held, &outcome);
                    self.finish_step(window_index, held, outcome);
                    // The capacity that it leaves unused, including what it was woken for, is available to others.
                    self.scheduler.unpark_each(1);
                    self.admit()?;
                }
                Err(StepSendObstacle::RetryLater) => self.scheduler.delay(window_index, held, Instant::now()),
                Err(StepSendObstacle::UnreachableUntil(until)) => {
                    self.scheduler.put_back(window_index, held, Some(until));
                }
                Err(StepSendObstacle::Parked(number)) => self.scheduler.park(number, window_index, held),
                Err(StepSendObstacle::SlotBusy(slot)) => {
                    self.scheduler.wait_for_slot(slot, window_index, held)
                }
            }
        }
        Ok(self.scheduler.queue.next_due())
    }
}

fn unsent_outcome(reason: Option<PlanReason>) -> Option<StepOutcome> {
    let reason = reason?;
    let why = || format!("{}: {}", reason.code(), reason.text());
    match reason.state() {
        PlannedStepDisposition::Skipped => Some(StepOutcome::Skipped(why())),
        PlannedStepDisposition::Unreplayable => Some(StepOutcome::Unreplayable(why())),
        PlannedStepDisposition::Run | PlannedStepDisposition::Synthesized => None,
    }
}
