//! Calls that are missing from the capture: neither they nor their arguments are there, but the numbers that count calls
//! have gaps.
//!
//! A client that counts its XIDs up leaves a gap in those of the connection. The sequence IDs of a slot count up by one
//! in any client (RFC 8881 section 2.10.6.1). What a missing call changed is unknown: later replies of the capture show
//! a state that the run does not have. Differences that a change of state explains are then not compared.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use rustc_hash::FxHashMap;

use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{MessageCaptureCompleteness, NONE, TraceStep};

/// Maximum number of separate ranges of numbers; with more, a client does not count up.
const MAX_RANGES: usize = 4096;
/// Maximum number of connections and slots whose numbers are kept.
const MAX_COUNTERS: usize = 1 << 14;
/// Gaps may be this many times as large as the numbers that were seen; a client with larger ones does not count up.
const MAX_MISSING_SHARE: u64 = 4;

/// Consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct NumberRange {
    /// The last number.
    last: i64,
    /// Call times of the first and the last number, in nanoseconds since 1970.
    times: [u64; 2],
}

/// Numbers that a client counts up by one.
#[derive(Debug, Default)]
struct Counter {
    /// The number that the others are relative to, because they wrap around.
    origin: Option<u32>,
    /// By the first number of each.
    ranges: BTreeMap<i64, NumberRange>,
    has_overflown: bool,
}

impl Counter {
    fn add(&mut self, number: u32, time_ns: u64) {
        let origin = *self.origin.get_or_insert(number);
        let number = i64::from(number.wrapping_sub(origin).cast_signed());
        let before = self.ranges.range(..=number).next_back().map(|(first, range)| (*first, *range));
        if before.is_some_and(|(_, range)| range.last >= number) || self.has_overflown {
            return;
        }
        let mut range = NumberRange { last: number, times: [time_ns; 2] };
        if let Some(after) = self.ranges.remove(&(number + 1)) {
            range = NumberRange { last: after.last, times: [time_ns, after.times[1]] };
        }
        let first = match before.filter(|(_, before)| before.last + 1 == number) {
            Some((first, before)) => {
                range.times[0] = before.times[0];
                first
            }
            None => number,
        };
        self.ranges.insert(first, range);
        if self.ranges.len() > MAX_RANGES {
            self.has_overflown = true;
            self.ranges.clear();
        }
    }

    /// Returns `true` if the client counts up.
    fn is_consecutive(&self) -> bool {
        let (Some((first, _)), Some((_, last))) = (self.ranges.first_key_value(), self.ranges.last_key_value()) else {
            return false;
        };
        let seen: i64 = self.ranges.iter().map(|(first, range)| range.last - first + 1).sum();
        (last.last - first + 1 - seen).unsigned_abs() <= seen.unsigned_abs().saturating_mul(MAX_MISSING_SHARE)
    }

    /// Returns how many numbers are missing.
    fn missing_count(&self) -> u64 {
        if !self.is_consecutive() {
            return 0;
        }
        let ends = self.ranges.values().map(|range| range.last);
        let missing = ends.zip(self.ranges.keys().skip(1)).map(|(end, start)| start.saturating_sub(end + 1));
        missing.map(i64::unsigned_abs).sum()
    }

    /// Returns the earliest time at which a call with a missing number may have been sent.
    fn first_gap_ns(&self) -> Option<u64> {
        if !self.is_consecutive() {
            return None;
        }
        let ends = self.ranges.values().map(|range| range.times[1]);
        let starts = self.ranges.values().skip(1).map(|range| range.times[0]);
        ends.zip(starts).map(|(end, start)| end.min(start)).min()
    }
}

/// The calls that are missing from a capture, by the server to which they were sent.
#[derive(Debug, Default)]
pub struct MissingCalls {
    /// The earliest time at which one may have been executed.
    first_ns: FxHashMap<u32, u64>,
    /// How many are missing at least: those of a connection may also be those of a slot.
    count: u64,
    /// The first step that may depend on one.
    first_step: u64,
}

impl MissingCalls {
    /// Finds the missing calls of a trace.
    ///
    /// # Errors
    /// Returns an error if the trace cannot be read.
    pub fn read<R: Read + Seek>(trace: &mut ReplayTraceReader<R>) -> Result<Self, TraceError> {
        // Linux counts in the byte order of the host, and does not convert it.
        let mut xids: FxHashMap<(u32, u64), [Counter; 2]> = FxHashMap::default();
        let mut slots: FxHashMap<(u32, u32, u32), Counter> = FxHashMap::default();
        let mut missing = Self { first_step: u64::MAX, ..Self::default() };
        // Those of replies without calls, and of gaps in XIDs and in sequence IDs, by server.
        let mut counts: FxHashMap<u32, [u64; 3]> = FxHashMap::default();
        trace.for_each_step(|step| {
            let caller = &step.caller;
            if caller.is_reverse {
                return;
            }
            let connection = (caller.server, caller.connection);
            if step.call.completeness != MessageCaptureCompleteness::WHOLE {
                // Calls in flight when the capture began are part of what was before it.
                let xid = xid(step);
                let is_before = |counter: &Counter, xid: u32| {
                    let is_earlier = |origin: u32| xid.wrapping_sub(origin).cast_signed() < 0;
                    counter.is_consecutive() && counter.origin.is_some_and(is_earlier)
                };
                let is_in_run = |[network, host]: &[Counter; 2]| {
                    xid.is_none_or(|xid| !is_before(network, xid) && !is_before(host, xid.swap_bytes()))
                };
                if xids.get(&connection).is_some_and(is_in_run) {
                    missing.add(caller.server, step.origin.time_ns);
                    counts.entry(caller.server).or_default()[0] += 1;
                }
                return;
            }
            let time_ns = step.origin.time_ns;
            if let Some(xid) = xid(step)
                && (xids.len() < MAX_COUNTERS || xids.contains_key(&connection))
            {
                let [network, host] = xids.entry(connection).or_default();
                if step.procedure.number == 0 {
                    // In captures of Linux without loss, the XID before the NULL of a further mount is missing.
                    network.add(xid.wrapping_sub(1), time_ns);
                    host.add(xid.swap_bytes().wrapping_sub(1), time_ns);
                }
                network.add(xid, time_ns);
                host.add(xid.swap_bytes(), time_ns);
            }
            let slot = (caller.server, caller.session, caller.slot);
            if caller.session != NONE
                && caller.sequence != NONE
                && (slots.len() < MAX_COUNTERS || slots.contains_key(&slot))
            {
                slots.entry(slot).or_default().add(caller.sequence, time_ns);
            }
        })?;
        trace.rewind();
        let of_xids = xids.iter().flat_map(|((server, _), both)| both.iter().map(|counter| (*server, counter, 1)));
        let of_slots = slots.iter().map(|((server, ..), counter)| (*server, counter, 2));
        for (server, counter, kind) in of_xids.chain(of_slots) {
            if let Some(time_ns) = counter.first_gap_ns() {
                missing.add(server, time_ns);
                counts.entry(server).or_default()[kind] += counter.missing_count();
            }
        }
        missing.count = counts.values().filter_map(|counts| counts.iter().max()).sum();
        if !missing.is_empty() {
            trace.for_each_step(|step| {
                if missing.is_before_end(step) {
                    missing.first_step = missing.first_step.min(step.origin.id);
                }
            })?;
            trace.rewind();
        }
        Ok(missing)
    }

    fn add(&mut self, server: u32, time_ns: u64) {
        let first = self.first_ns.entry(server).or_insert(time_ns);
        *first = time_ns.min(*first);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first_ns.is_empty()
    }

    /// Returns how many calls are missing at least.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns `true` if one may have been executed before a step.
    fn is_before_end(&self, step: &TraceStep<'_>) -> bool {
        let end_ns = step.origin.time_ns.saturating_add(step.origin.latency_ns);
        self.first_ns.get(&step.caller.server).is_some_and(|first_ns| *first_ns <= end_ns)
    }

    /// Returns `true` if missing calls may explain these differences of a step.
    pub(super) fn explain(&self, step: &TraceStep<'_>, differences: &[Difference]) -> bool {
        self.is_before_end(step) && differences.iter().all(depends_on_state)
    }

    /// Returns `true` if missing calls may explain a difference that was only detected after its step.
    pub(super) fn explain_late(&self, difference: &Difference) -> bool {
        let step = difference.a.location.map_or(u64::MAX, |location| location.index);
        !self.is_empty() && step >= self.first_step && depends_on_state(difference)
    }
}

/// Returns the XID of a step.
fn xid(step: &TraceStep<'_>) -> Option<u32> {
    let head = if step.call.head.0.is_empty() { step.reply.head.0 } else { step.call.head.0 };
    Some(u32::from_be_bytes(head.get(..4)?.try_into().ok()?))
}

/// Returns `true` if files, opens, locks or clients in another state explain a difference. RFC 8881 section 15.1.
fn depends_on_state(difference: &Difference) -> bool {
    const STATUSES: &[&str] = &[
        "ACCESS",
        "ADMIN_REVOKED",
        "BADSESSION",
        "BAD_COOKIE",
        "BAD_SEQID",
        "BAD_STATEID",
        "CLID_INUSE",
        "CLIENTID_BUSY",
        "COMPLETE_ALREADY",
        "DELEG_REVOKED",
        "DENIED",
        "DQUOT",
        "EXIST",
        "EXPIRED",
        "FBIG",
        "FHEXPIRED",
        "FILE_OPEN",
        "GRACE",
        "INVAL",
        "ISDIR",
        "LOCKED",
        "LOCKS_HELD",
        "LOCK_RANGE",
        "MLINK",
        "NOENT",
        "NOFILEHANDLE",
        "NOSPC",
        "NOTDIR",
        "NOTEMPTY",
        "NOT_SAME",
        "NOXATTR",
        "NO_GRACE",
        "NXIO",
        "OLD_STATEID",
        "OPENMODE",
        "PERM",
        "RECLAIM_BAD",
        "RECLAIM_CONFLICT",
        "RESTOREFH",
        "SAME",
        "SEQ_MISORDERED",
        "SHARE_DENIED",
        "STALE",
        "STALE_CLIENTID",
        "STALE_STATEID",
        "SYMLINK",
        "WRONG_TYPE",
    ];
    let is_of_state = |value: &str| {
        let name = value.split_once("ERR_").map_or(value, |(_, name)| name);
        STATUSES.contains(&name)
    };
    let values = [&difference.a, &difference.b].map(|side| side.value.as_deref());
    match difference.kind {
        DifferenceKind::Status => values.into_iter().flatten().any(is_of_state),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_gap(numbers: &[(u32, u64)]) -> Option<u64> {
        let mut counter = Counter::default();
        numbers.iter().for_each(|(number, time)| counter.add(*number, *time));
        counter.first_gap_ns()
    }

    /// RFC 8881 section 2.10.6.1.
    #[test]
    fn gap_begins_at_number_before() {
        assert_eq!(first_gap(&[(7, 10), (8, 20), (10, 30), (11, 40)]), Some(20));
        assert_eq!(first_gap(&[(7, 10), (9, 20), (8, 30), (8, 35), (10, 40)]), None, "out of order, and again");
        assert_eq!(first_gap(&[(10, 5), (7, 10), (8, 20)]), Some(5), "sent in another order");
    }

    /// RFC 8881 section 2.10.6.1.
    #[test]
    fn missing_numbers_are_counted() {
        let count = |numbers: &[u32]| {
            let mut counter = Counter::default();
            numbers.iter().for_each(|number| counter.add(*number, 1));
            counter.missing_count()
        };
        assert_eq!(count(&[7, 8, 10, 11, 14]), 3);
        assert_eq!(count(&[7, 9, 8]), 0, "out of order");
        assert_eq!(count(&[u32::MAX, 1]), 1, "0 follows the greatest number");
        assert_eq!(count(&[7, 1 << 20]), 0, "this client does not count up");
    }

    /// RFC 8881 section 2.10.6.1: 0 follows the greatest number.
    #[test]
    fn numbers_wrap_around() {
        assert_eq!(first_gap(&[(u32::MAX - 1, 1), (u32::MAX, 2), (0, 3), (1, 4)]), None);
        assert_eq!(first_gap(&[(u32::MAX - 1, 1), (u32::MAX, 2), (1, 4)]), Some(2));
    }

    /// RFC 5531 section 9: nothing says how a client chooses XIDs.
    #[test]
    fn random_numbers_have_no_gaps() {
        assert_eq!(first_gap(&[(0x1234_5678, 1), (0x9abc_def0, 2), (0x0bad_cafe, 3)]), None);
    }
}
