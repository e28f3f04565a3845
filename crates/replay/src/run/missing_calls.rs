//! Calls that are missing from the capture: neither they nor their arguments are there, but the numbers that count calls
//! have gaps.
//!
//! A client that counts its XIDs up leaves a gap in those of the connection. The sequence IDs of a slot count up by one
//! in any client (RFC 8881 section 2.10.6.1). What a missing call changed is unknown: later replies of the capture show
//! a state that the run does not have. Differences that a change of state explains are then not compared, except those
//! of content and attributes of objects that were created after the last gap: no call from before can name them.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceKind};
use nfsrdma_dissectors::nfs::v4::Operation;
use rustc_hash::FxHashMap;

use super::call_operations_and_files::CallOperationsAndFiles;
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{MessageCaptureCompleteness, NONE, TraceSlotValueKind, TraceStep};

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

    /// Returns the latest time at which a call with a missing number may have been sent; `None` without a gap.
    fn last_gap_ns(&self) -> Option<u64> {
        let ends = self.ranges.values().map(|range| range.times[1]);
        let starts = self.ranges.values().skip(1).map(|range| range.times[0]);
        ends.zip(starts).map(|(end, start)| end.max(start)).max()
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
    /// The latest time at which one may have been sent; the end of time if that is unknown, because a client does not
    /// count up.
    last_ns: FxHashMap<u32, u64>,
    /// The last step that was sent by then.
    last_steps: FxHashMap<u32, u64>,
    /// How many are missing at least: those of a connection may also be those of a slot.
    count: u64,
    /// The first step that may depend on one.
    first_step: u64,
    /// Frame of the last call that shows that the earlier ones of its slot, or of its connection without a session, are
    /// not in flight any more.
    last_answered: FxHashMap<Line, u64>,
    /// Time of the last step, in nanoseconds since the first.
    end_ns: u64,
}

/// Time before the end of a capture in which a call without a reply counts as in flight.
const MAX_IN_FLIGHT_NS: u64 = 60_000_000_000;

/// Server, and session and slot, or connection: each has one reply, or replies in about the order of the calls.
type Line = (u32, Option<(u32, u32)>, u64);

fn line(step: &TraceStep<'_>) -> Line {
    let caller = &step.caller;
    match caller.session {
        NONE => (caller.server, None, caller.connection),
        session => (caller.server, Some((session, caller.slot)), 0),
    }
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
            missing.end_ns = step.origin.time_ns.max(missing.end_ns);
            if caller.is_reverse {
                return;
            }
            let connection = (caller.server, caller.connection);
            let line = line(step);
            // A slot is used again only after its reply.
            if !step.reply.is_empty() || line.1.is_some() {
                let frame = step.origin.call_frame.saturating_sub(u64::from(step.reply.is_empty()));
                if missing.last_answered.len() < MAX_COUNTERS || missing.last_answered.contains_key(&line) {
                    let last = missing.last_answered.entry(line).or_default();
                    *last = frame.max(*last);
                }
            }
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
                    let end_ns = step.origin.time_ns.saturating_add(step.origin.latency_ns);
                    missing.add(caller.server, [step.origin.time_ns, end_ns]);
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
            if let Some(first_ns) = counter.first_gap_ns() {
                missing.add(server, [first_ns, counter.last_gap_ns().unwrap_or(u64::MAX)]);
                counts.entry(server).or_default()[kind] += counter.missing_count();
            }
        }
        for ((server, _), both) in &xids {
            if !both.iter().any(Counter::is_consecutive) {
                missing.last_ns.insert(*server, u64::MAX);
            }
        }
        missing.count = counts.values().filter_map(|counts| counts.iter().max()).sum();
        if !missing.is_empty() {
            trace.for_each_step(|step| {
                if missing.is_before_end(step) {
                    missing.first_step = missing.first_step.min(step.origin.id);
                }
                let server = step.caller.server;
                if missing.last_ns.get(&server).is_some_and(|last_ns| step.origin.time_ns <= *last_ns) {
                    let last = missing.last_steps.entry(server).or_default();
                    *last = step.origin.id.max(*last);
                }
            })?;
            trace.rewind();
        }
        Ok(missing)
    }

    fn add(&mut self, server: u32, [first_ns, last_ns]: [u64; 2]) {
        let first = self.first_ns.entry(server).or_insert(first_ns);
        *first = first_ns.min(*first);
        let last = self.last_ns.entry(server).or_default();
        *last = last_ns.max(*last);
    }

    /// Returns `true` if a call was in flight when the capture ended: it was sent in the last minute, its reply was not
    /// captured, and its client neither used its slot again nor, without a session, got a reply to a later call on its
    /// connection. A reply that was missed earlier may only look like that.
    pub(super) fn is_in_flight_at_end(&self, step: &TraceStep<'_>) -> bool {
        let last = || self.last_answered.get(&line(step)).copied().unwrap_or(u64::MAX);
        step.reply.is_empty()
            && step.call.is_complete()
            && step.origin.time_ns.saturating_add(MAX_IN_FLIGHT_NS) >= self.end_ns
            && step.origin.call_frame > last()
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

    /// Returns `true` if missing calls may explain these differences of a step. `creation_of` is the step that created
    /// the object of a filehandle, if one of the trace did.
    pub(super) fn explain(
        &self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        differences: &[Difference],
        creation_of: &dyn Fn(u32) -> Option<u64>,
    ) -> bool {
        let is_spared = |difference: &Difference| {
            let creation = read_file(step, parts, difference).and_then(creation_of);
            creation.is_some_and(|creation| self.is_before(step.caller.server, creation))
        };
        self.is_before_end(step)
            && differences.iter().all(|difference| depends_on_state(difference) && !is_spared(difference))
    }

    /// Returns `true` if all missing calls were sent before a step of the trace.
    pub(super) fn is_before(&self, server: u32, step: u64) -> bool {
        self.last_ns.get(&server) != Some(&u64::MAX) && self.last_steps.get(&server).is_none_or(|last| *last < step)
    }

    /// Returns `true` if missing calls may explain a difference that was only detected after its step.
    pub(super) fn explain_late(&self, difference: &Difference) -> bool {
        let step = difference.a.location.map_or(u64::MAX, |location| location.index);
        !self.is_empty() && step >= self.first_step && depends_on_state(difference)
    }
}

/// Returns the variable of the file whose content or attributes an operation has read that differ.
fn read_file(step: &TraceStep<'_>, parts: &CallOperationsAndFiles, difference: &Difference) -> Option<u32> {
    if !matches!(difference.kind, DifferenceKind::Data | DifferenceKind::Result) {
        return None;
    }
    if parts.operations.is_empty() {
        let is_data = difference.kind == DifferenceKind::Data;
        return step.call.variable(TraceSlotValueKind::FILEHANDLE).filter(|_| is_data);
    }
    let at = difference.section.checked_sub(1)?;
    let reads = matches!(*parts.operations.get(at)?, Operation::READ | Operation::READ_PLUS | Operation::GETATTR);
    parts.files.get(at).copied().filter(|_| reads)
}

/// Returns the XID of a step.
fn xid(step: &TraceStep<'_>) -> Option<u32> {
    let head = if step.call.head.0.is_empty() { step.reply.head.0 } else { step.call.head.0 };
    Some(u32::from_be_bytes(head.get(..4)?.try_into().ok()?))
}

/// Returns `true` if files, opens, locks or clients in another state explain a difference. What the live server answers
/// must follow from its state: a recorded status that another state explains does not explain every other one.
fn depends_on_state(difference: &Difference) -> bool {
    let [recorded, live] = [&difference.a, &difference.b].map(|side| side.value.as_deref());
    match (difference.kind, live) {
        (DifferenceKind::Status, Some(live)) => {
            is_of_state(live) || is_success(live) && recorded.is_none_or(is_of_state)
        }
        (DifferenceKind::Status, None) => recorded.is_none_or(is_of_state),
        _ => true,
    }
}

fn is_success(status: &str) -> bool {
    status.ends_with("_OK") || status.ends_with("_GRANTED")
}

/// Returns `true` if a status may follow from what earlier calls have done to files, opens, locks, delegations, layouts
/// or clients. RFC 8881 section 15.1, RFC 7530 section 13.1, RFC 7862 section 11.1, RFC 8276 section 8.5.1, RFC 1813
/// sections 2.6, 5.1.5 and 6.1.4.
///
/// Others follow from the call itself, from the slots and seqids, which the run counts itself, from the configuration or
/// from a fault of the server.
fn is_of_state(status: &str) -> bool {
    const STATUSES: &[&str] = &[
        "ACCES",
        "ACCESS",
        "BADLAYOUT",
        "BADSESSION",
        "BAD_COOKIE",
        "BAD_STATEID",
        "CLIENTID_BUSY",
        "CLID_INUSE",
        "COMPLETE_ALREADY",
        "DEADLOCK",
        "DELEG_ALREADY_WANTED",
        "DELEG_REVOKED",
        "DENIED",
        "DQUOT",
        "EXIST",
        "EXPIRED",
        // COPY to the end of its source.
        "FBIG",
        // Of an object that was renamed: RFC 8881 section 4.2.3.
        "FHEXPIRED",
        "FILE_OPEN",
        // Until the client sends RECLAIM_COMPLETE: RFC 8881 section 18.51.3.
        "GRACE",
        "INVAL",
        "ISDIR",
        "LOCKED",
        "LOCKS_HELD",
        // An upgrade of a lock that the owner has.
        "LOCK_NOTSUPP",
        "LOCK_RANGE",
        "MLINK",
        "NOENT",
        "NOSPC",
        "NOTDIR",
        "NOTEMPTY",
        "NOT_SAME",
        // A guard of SETATTR.
        "NOT_SYNC",
        "NOXATTR",
        "NO_GRACE",
        "NXIO",
        "OLD_STATEID",
        "OPENMODE",
        "PERM",
        "PNFS_NO_LAYOUT",
        "RECALLCONFLICT",
        "RECLAIM_BAD",
        "RECLAIM_CONFLICT",
        "RETURNCONFLICT",
        "SAME",
        "SHARE_DENIED",
        "STALE",
        "STALE_CLIENTID",
        "STALE_STATEID",
        "SYMLINK",
        // A directory entry that is longer than the reply may be.
        "TOOSMALL",
        "WRONG_TYPE",
    ];
    const LOCK_STATUSES: &[&str] = &["BLOCKED", "DEADLCK", "DENIED", "STALE_FH"];
    match status.split_once("ERR_") {
        Some((_, name)) => STATUSES.contains(&name),
        None => {
            let name = status.strip_prefix("NLM4_").or(status.strip_prefix("LCK_"));
            name.is_some_and(|name| LOCK_STATUSES.contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nfsrdma_analysis::comparison::difference::DifferenceSideValue;
    use nfsrdma_dissectors::nfs::v4::Nfsstat4;

    use super::*;

    fn explains(recorded: &str, live: &str) -> bool {
        let [a, b] = [recorded, live]
            .map(|value| DifferenceSideValue { value: Some(value.to_owned()), ..DifferenceSideValue::default() });
        let (operation, path) = ("NFS 4.2 OPEN".to_owned(), "OPEN.status".to_owned());
        depends_on_state(&Difference {
            kind: DifferenceKind::Status,
            operation,
            path,
            section: 1,
            field: "",
            count: 1,
            a,
            b,
        })
    }

    /// RFC 8881 section 15.1.1: the server has failed, or says that the call is malformed, whatever the state is.
    #[test]
    fn state_explains_no_server_fault() {
        for recorded in ["NFS4_OK", "NFS4ERR_NOENT", "NFS4ERR_EXIST", "NFS4ERR_SHARE_DENIED"] {
            for live in ["NFS4ERR_SERVERFAULT", "NFS4ERR_BADXDR", "NFS4ERR_IO", "NFS4ERR_NOTSUPP", "NFS4ERR_ROFS"] {
                assert!(!explains(recorded, live), "{recorded}, {live}");
            }
        }
        assert!(!explains("NFS4ERR_SERVERFAULT", "NFS4_OK"));
        assert!(explains("NFS4ERR_SERVERFAULT", "NFS4ERR_NOENT"), "the fault came after the name was found");
        for [recorded, live] in [
            ["NFS4_OK", "NFS4ERR_NOENT"],
            ["NFS4ERR_EXIST", "NFS4_OK"],
            ["NFS3_OK", "NFS3ERR_ACCES"],
            ["NFS3ERR_NOT_SYNC", "NFS3_OK"],
            ["NLM4_GRANTED", "NLM4_DENIED"],
            ["NLM4_DENIED", "NLM4_GRANTED"],
            ["MNT3_OK", "MNT3ERR_NOENT"],
        ] {
            assert!(explains(recorded, live), "{recorded}, {live}");
        }
    }

    /// Each status of RFC 8881 section 15.1, of RFC 7862 section 11.1 and of RFC 8276 section 8.5.1.
    #[test]
    fn every_status_is_of_state_or_not() {
        let of_state = [
            "ACCESS",
            "BADLAYOUT",
            "BADSESSION",
            "BAD_COOKIE",
            "BAD_STATEID",
            "CLIENTID_BUSY",
            "CLID_INUSE",
            "COMPLETE_ALREADY",
            "DEADLOCK",
            "DELEG_ALREADY_WANTED",
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
            "LOCK_NOTSUPP",
            "LOCK_RANGE",
            "MLINK",
            "NOENT",
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
            "PNFS_NO_LAYOUT",
            "RECALLCONFLICT",
            "RECLAIM_BAD",
            "RECLAIM_CONFLICT",
            "RETURNCONFLICT",
            "SAME",
            "SHARE_DENIED",
            "STALE",
            "STALE_CLIENTID",
            "STALE_STATEID",
            "SYMLINK",
            "TOOSMALL",
            "WRONG_TYPE",
        ];
        let statuses: Vec<String> =
            (1..12_000).filter_map(|status| Nfsstat4(status).name()).map(str::to_owned).collect();
        assert!(statuses.len() > 110, "{}", statuses.len());
        let found: Vec<_> =
            statuses.iter().filter(|status| is_of_state(status)).map(|status| &status["NFS4ERR_".len()..]).collect();
        let [found, expected] = [found, of_state.to_vec()].map(|names| names.into_iter().collect::<BTreeSet<_>>());
        assert_eq!(found, expected);
    }

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
