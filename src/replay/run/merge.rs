//! Merges the reports of several copies of the captured clients.

use super::report::{ReplayReport, StepMismatch};
use super::tree_check::TreeCheckReport;

/// Maximum number of protocol errors and of refusals that are listed.
const MAX_LISTED_MESSAGES: usize = 100;
/// Maximum number of example steps per reason.
const MAX_EXAMPLES: usize = 5;

impl ReplayReport {
    /// Adds the report of another copy with this number. The duration is that of the longest.
    pub(super) fn join(&mut self, other: Self, copy: u32, shown: usize) {
        // A copy number is only needed now that there are several.
        self.mismatches.iter_mut().filter(|known| known.copy == 0).for_each(|known| known.copy = 1);
        let named = other.mismatches.into_iter().map(|mismatch| StepMismatch { copy, ..mismatch });
        self.mismatches.extend(named.take(shown.saturating_sub(self.mismatches.len())));
        self.steps += other.steps;
        self.states += other.states;
        for (reason, because) in other.reasons {
            let known = self.reasons.entry(reason).or_default();
            known.steps += because.steps;
            for (operation, steps) in because.operations {
                *known.operations.entry(operation).or_default() += steps;
            }
            known
                .first
                .extend(because.first.into_iter().take(MAX_EXAMPLES.saturating_sub(known.first.len())));
        }
        for (name, of) in other.operations {
            let known = self.operation_report(&name);
            known.states += of.states;
            known.latencies.iter_mut().zip(&of.latencies).for_each(|(sum, more)| sum.join(more));
        }
        for (sum, more) in [
            (&mut self.calls, other.calls),
            (&mut self.delayed, other.delayed),
            (&mut self.connections, other.connections),
            (&mut self.disconnects, other.disconnects),
            (&mut self.reconnects, other.reconnects),
            (&mut self.resent, other.resent),
            (&mut self.rebound, other.rebound),
            (&mut self.recovered, other.recovered),
            (&mut self.reclaimed, other.reclaimed),
            (&mut self.not_reclaimed, other.not_reclaimed),
            (&mut self.contexts_renewed, other.contexts_renewed),
            (&mut self.contexts_destroyed, other.contexts_destroyed),
            (&mut self.unanswered, other.unanswered),
            (&mut self.returned_delegations, other.returned_delegations),
            (&mut self.discarded, other.discarded),
            (&mut self.synthesized, other.synthesized),
            (&mut self.dropped_values, other.dropped_values),
        ] {
            *sum += more;
        }
        for (name, count) in other.callbacks {
            *self.callbacks.entry(name).or_default() += count;
        }
        for (how, count) in other.violations {
            *self.violations.entry(how).or_default() += count;
        }
        let told = |what: String| format!("client {copy}: {what}");
        self.own_faults.extend(other.own_faults.into_iter().map(told));
        self.own_faults.truncate(MAX_LISTED_MESSAGES);
        self.refused.extend(other.refused.into_iter().map(told));
        self.refused.truncate(MAX_LISTED_MESSAGES);
        self.compared.iter_mut().zip(other.compared).for_each(|(sum, more)| *sum += more);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.issue_delay.merge(&other.issue_delay);
        self.is_interrupted |= other.is_interrupted;
        self.limit = self.limit.or(other.limit);
        self.squashed = self.squashed.or(other.squashed);
        self.unreachable = self.unreachable.take().or(other.unreachable);
        self.silent_program = self.silent_program.take().or(other.silent_program);
        match (&mut self.tree_check, other.tree_check) {
            (Some(walked), Some(more)) => walked.join(more, copy, shown),
            (walked, more) => *walked = walked.take().or(more),
        }
    }
}

impl TreeCheckReport {
    /// Adds the tree check of another copy with this number.
    fn join(&mut self, other: Self, copy: u32, shown: usize) {
        self.mismatches.iter_mut().filter(|known| known.copy == 0).for_each(|known| known.copy = 1);
        let named = other.mismatches.into_iter().map(|mismatch| StepMismatch { copy, ..mismatch });
        self.mismatches.extend(named.take(shown.saturating_sub(self.mismatches.len())));
        for (sum, more) in [
            (&mut self.names, other.names),
            (&mut self.objects, other.objects),
            (&mut self.bytes, other.bytes),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.left_out, other.left_out),
            (&mut self.differing, other.differing),
        ] {
            *sum += more;
        }
        self.failed = self.failed.take().or_else(|| other.failed.map(|why| format!("client {copy}: {why}")));
    }
}
