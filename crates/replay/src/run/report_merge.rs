//! Merges the reports of several copies of the captured clients.

use std::collections::BTreeMap;

use super::final_tree_check::{FinalTreeCheckReport, MAX_LEFT_OUT_PATHS, is_relation};
use super::report::steps::{MAX_EXAMPLES, StepMismatch, StepResultsOfRun, number_first_copy};
use super::report::{MAX_LISTED_MESSAGES, ReplayReport};

pub(super) fn add_counts<K: Clone + Ord>(sums: &mut BTreeMap<K, u64>, counts: &BTreeMap<K, u64>) {
    counts.iter().for_each(|(key, count)| *sums.entry(key.clone()).or_default() += count);
}

fn add_each<const COUNT: usize>(sums: [(&mut u64, u64); COUNT]) {
    sums.into_iter().for_each(|(sum, count)| *sum += count);
}

impl StepResultsOfRun {
    fn join(&mut self, other: Self, copy: u32) {
        self.join_mismatches(other.mismatches, copy);
        self.unlisted_mismatches += other.unlisted_mismatches;
        self.total += other.total;
        self.states += other.states;
        self.rules.extend(other.rules);
        for (reason, count) in other.reasons {
            let existing = self.reasons.entry(reason).or_default();
            existing.steps += count.steps;
            add_counts(&mut existing.operations, &count.operations);
            existing.first.extend(count.first);
            existing.first.truncate(MAX_EXAMPLES);
        }
        for (name, results) in other.operations {
            let existing = self.operation(&name);
            existing.states += results.states;
            existing.latencies.iter_mut().zip(&results.latencies).for_each(|(sum, added)| sum.join(added));
        }
    }
}

impl ReplayReport {
    /// Adds the report of another copy with this number. The duration is that of the longest.
    pub(super) fn join(&mut self, other: Self, copy: u32) {
        self.steps.join(other.steps, copy);
        add_each([
            (&mut self.calls, other.calls),
            (&mut self.recovery.disconnects, other.recovery.disconnects),
            (&mut self.recovery.reconnects, other.recovery.reconnects),
            (&mut self.recovery.resent, other.recovery.resent),
            (&mut self.recovery.rebound, other.recovery.rebound),
            (&mut self.recovery.recovered, other.recovery.recovered),
            (&mut self.recovery.reclaimed, other.recovery.reclaimed),
            (&mut self.recovery.not_reclaimed, other.recovery.not_reclaimed),
            (&mut self.recovery.contexts_renewed, other.recovery.contexts_renewed),
            (&mut self.recovery.contexts_destroyed, other.recovery.contexts_destroyed),
            (&mut self.delayed, other.delayed),
            (&mut self.connections, other.connections),
            (&mut self.callbacks.unanswered, other.callbacks.unanswered),
            (&mut self.returned_delegations, other.returned_delegations),
            (&mut self.synthesized.clients, other.synthesized.clients),
            (&mut self.synthesized.opens, other.synthesized.opens),
            (&mut self.dropped_values, other.dropped_values),
            (&mut self.calls_in_flight, other.calls_in_flight),
        ]);
        add_counts(&mut self.callbacks.by_operation, &other.callbacks.by_operation);
        add_counts(&mut self.protocol.violations, &other.protocol.violations);
        add_counts(&mut self.protocol.discarded, &other.protocol.discarded);
        let with_client = |message: String| format!("client {copy}: {message}");
        other.protocol.own.into_iter().for_each(|error| self.protocol.add_own(with_client(error)));
        self.refused.extend(other.refused.into_iter().map(with_client));
        self.refused.truncate(MAX_LISTED_MESSAGES);
        self.compared += other.compared;
        self.timing.elapsed = self.timing.elapsed.max(other.timing.elapsed);
        self.timing.issue_delay.merge(&other.timing.issue_delay);
        self.end.is_interrupted |= other.end.is_interrupted;
        self.end.limit = self.end.limit.or(other.end.limit);
        self.end.unreachable = self.end.unreachable.take().or(other.end.unreachable);
        self.end.silent_program = self.end.silent_program.take().or(other.end.silent_program);
        // Each copy has the calls of the same capture.
        self.missing_calls = self.missing_calls.max(other.missing_calls);
        self.squashed = self.squashed.take().or(other.squashed);
        match (&mut self.tree_check, other.tree_check) {
            (Some(check), Some(other_check)) => check.join(other_check, copy, self.steps.max_mismatches),
            (check, other_check) => *check = check.take().or(other_check),
        }
    }
}

impl FinalTreeCheckReport {
    fn join(&mut self, other: Self, copy: u32, max_mismatches: usize) {
        number_first_copy(&mut self.mismatches);
        let mismatches = other.mismatches.into_iter().map(|mismatch| StepMismatch { copy, ..mismatch });
        self.mismatches.extend(mismatches);
        self.left_out_paths.extend(other.left_out_paths);
        self.left_out_paths.truncate(MAX_LEFT_OUT_PATHS);
        self.mismatches.sort_by_key(is_relation);
        self.mismatches.truncate(max_mismatches);
        add_each([
            (&mut self.names, other.names),
            (&mut self.objects, other.objects),
            (&mut self.bytes, other.bytes),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.left_out, other.left_out),
            (&mut self.in_flight, other.in_flight),
            (&mut self.tolerated, other.tolerated),
            (&mut self.differing, other.differing),
        ]);
        self.failed = self.failed.take().or_else(|| other.failed.map(|error| format!("client {copy}: {error}")));
    }
}
