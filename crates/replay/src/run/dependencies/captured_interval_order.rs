//! Ordering of steps by their captured intervals: a step waits for those that were complete when it began.
//!
//! Steps that overlapped there may overlap here. Of the earlier steps, it waits only for those that none of the others
//! has waited for: at most as many as were in flight at one moment of the capture.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CapturedStepInterval {
    end_ns: u64,
    start_ns: u64,
    window_index: u32,
}

/// Unfinished steps, sorted by their end.
#[derive(Debug, Default)]
pub(super) struct UnfinishedStepIntervals {
    /// Steps that change the resource: others wait for them.
    changes: Vec<CapturedStepInterval>,
    /// Steps that read it: they do not wait for each other.
    reads: Vec<CapturedStepInterval>,
}

fn intervals_ended_by(
    intervals: &[CapturedStepInterval],
    start_ns: u64,
) -> impl Iterator<Item = &CapturedStepInterval> {
    let count = intervals.partition_point(|interval| interval.end_ns <= start_ns);
    intervals.get(..count).unwrap_or_default().iter().rev()
}

impl UnfinishedStepIntervals {
    /// Adds a step. Calls `wait` for each step that it waits for.
    pub(super) fn add(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        window_index: u32,
        changes: bool,
        mut wait: impl FnMut(u32),
    ) {
        // The latest one has waited for those that ended before it began.
        let mut latest = 0;
        for interval in intervals_ended_by(&self.changes, start_ns) {
            if interval.end_ns <= latest {
                break;
            }
            latest = latest.max(interval.start_ns);
            wait(interval.window_index);
        }
        if changes {
            intervals_ended_by(&self.reads, start_ns)
                .take_while(|interval| interval.end_ns > latest)
                .for_each(|interval| wait(interval.window_index));
        }
        let intervals = if changes { &mut self.changes } else { &mut self.reads };
        let at = intervals.partition_point(|interval| interval.end_ns <= end_ns);
        intervals.insert(at, CapturedStepInterval { end_ns, start_ns, window_index });
    }

    pub(super) fn remove(&mut self, end_ns: u64, window_index: u32) {
        for intervals in [&mut self.changes, &mut self.reads] {
            let from = intervals.partition_point(|interval| interval.end_ns < end_ns);
            let mut rest = intervals.iter().skip(from).take_while(|interval| interval.end_ns == end_ns);
            if let Some(at) = rest.position(|interval| interval.window_index == window_index) {
                intervals.remove(from + at);
                return;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.reads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u32; 0] = [];

    fn waits(spans: &mut UnfinishedStepIntervals, span: (u64, u64), window_index: u32, changes: bool) -> Vec<u32> {
        let mut waits = Vec::new();
        spans.add(span, window_index, changes, |window_index| waits.push(window_index));
        waits
    }

    #[test]
    fn a_step_waits_for_earlier_steps_without_redundant_dependencies() {
        let mut spans = UnfinishedStepIntervals::default();
        assert_eq!(waits(&mut spans, (10, 20), 0, true), NONE);
        assert_eq!(waits(&mut spans, (12, 24), 1, true), NONE);
        assert_eq!(waits(&mut spans, (20, 30), 2, true), [0]);
        assert_eq!(waits(&mut spans, (31, 40), 3, true), [2, 1], "not for the first, as the third did");
        spans.remove(30, 2);
        assert_eq!(waits(&mut spans, (32, 40), 4, true), [1, 0], "the third is done and says nothing any more");
        [(20, 0), (24, 1), (40, 3), (40, 4)]
            .into_iter()
            .for_each(|(end_ns, window_index)| spans.remove(end_ns, window_index));
        assert!(spans.is_empty());
    }

    #[test]
    fn steps_without_changes_do_not_wait_for_each_other() {
        let mut spans = UnfinishedStepIntervals::default();
        assert_eq!(waits(&mut spans, (0, 1), 0, false), NONE);
        assert_eq!(waits(&mut spans, (2, 3), 1, false), NONE);
        assert_eq!(waits(&mut spans, (4, 5), 2, true), [1, 0]);
        assert_eq!(waits(&mut spans, (6, 7), 3, false), [2]);
    }
}
