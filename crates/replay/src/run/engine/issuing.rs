//! Admits steps to the window and issues those that are ready.

use std::io::{Read, Seek};
use std::time::Instant;

use super::super::options::ReplayPace;
use super::super::run_error::ReplayRunError;
use super::super::step_outcome::StepOutcome;
use super::replay_engine::ReplayEngine;
use super::send_result::StepSendObstacle;
use crate::containment::ContainmentCheckedTransport;
use crate::run_plan::reason::{PlanReason, PlannedStepDisposition};

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Reads steps ahead into the window; those that are not sent get their state.
    pub(super) fn admit(&mut self) -> Result<(), ReplayRunError> {
        self.scheduler.pacer.start_captured_times(Instant::now);
        let Self { context, scheduler, call_builder, verification, report, .. } = self;
        let directories = &context.seeded.directories;
        let is_directory = |variable| directories.contains(&variable);
        Ok(scheduler.admit(context.options.window.max(1), is_directory, |step, entry| {
            if step.caller.is_reverse {
                call_builder.cb_getattr_answers.record_answers(step);
            }
            if entry.reason == Some(PlanReason::Filtered) {
                verification.record_filtered(step, entry);
            }
            if let Some(outcome) = unsent_outcome(entry.reason) {
                // Later replies of the capture show its effects.
                if matches!(outcome, StepOutcome::Unreplayable(_)) || entry.reason == Some(PlanReason::SecuredSkipped) {
                    verification.record_undone_effects(step, &entry.description);
                }
                report.steps.count(entry.id, entry.description.title(), outcome);
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
        while let Some(window_index) = self.scheduler.queue.pop(Instant::now) {
            let mut entry = self.scheduler.window.take(window_index);
            match self.scheduler.pacer.pace {
                ReplayPace::Rate(rate) if entry.delay_retries == 0 => {
                    entry.due = self.scheduler.pacer.due_time_at_rate(rate);
                    let due = entry.due;
                    if due.is_some_and(|due| due > Instant::now()) {
                        self.scheduler.put_back(window_index, entry, None);
                        return Ok(due);
                    }
                }
                ReplayPace::CapturedDepth if self.scheduler.in_flight >= entry.captured.depth as usize => {
                    self.scheduler.put_back(window_index, entry, None);
                    return Ok(None);
                }
                _ => {}
            }
            match self.send(window_index, &mut entry, transport) {
                Ok(()) => self.scheduler.window.put(window_index, entry),
                Err(StepSendObstacle::Failed(error)) => return Err(error),
                Err(StepSendObstacle::Finished(outcome)) => {
                    self.record_undone(&entry, &outcome);
                    self.finish_step(window_index, entry, outcome);
                    // The capacity that it leaves unused, including what it was woken for, is available to others.
                    self.scheduler.unpark_each(1);
                    self.admit()?;
                }
                Err(StepSendObstacle::RetryLater) => self.scheduler.delay(window_index, entry, Instant::now()),
                Err(StepSendObstacle::UnreachableUntil(retry_at)) => {
                    self.scheduler.put_back(window_index, entry, Some(retry_at));
                }
                Err(StepSendObstacle::Parked(number)) => self.scheduler.park(number, window_index, entry),
                Err(StepSendObstacle::SlotBusy(slot)) => self.scheduler.wait_for_slot(slot, window_index, entry),
            }
        }
        Ok(self.scheduler.queue.next_due())
    }
}

fn unsent_outcome(reason: Option<PlanReason>) -> Option<StepOutcome> {
    let reason = reason?;
    let description = || format!("{}: {}", reason.code(), reason.text());
    match reason.state() {
        PlannedStepDisposition::Skipped => Some(StepOutcome::Skipped(description())),
        PlannedStepDisposition::Unreplayable => Some(StepOutcome::Unreplayable(description())),
        PlannedStepDisposition::Run | PlannedStepDisposition::Synthesized => None,
    }
}
