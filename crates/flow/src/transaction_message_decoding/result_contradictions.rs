//! Results of NFSv4 that contradict the arguments of their operation.

use nfsrdma_dissectors::nfs::v4::{
    Args, LockDenied, LockRes, LocktRes, Operation, ReadPlusContent, ReadPlusRes4, Results,
};

/// Operations of which [`result_contradiction`] compares the results with the arguments.
pub const COMPARED_OPERATIONS: [Operation; 7] = [
    Operation::BIND_CONN_TO_SESSION,
    Operation::COPY,
    Operation::LOCK,
    Operation::LOCKT,
    Operation::READ_PLUS,
    Operation::SEEK,
    Operation::TEST_STATEID,
];

/// Returns the contradiction of a result to the arguments of its operation, as text.
pub fn result_contradiction(arguments: &Args<'_>, results: &Results<'_>) -> Option<String> {
    let contradiction = contradiction(arguments, results);
    debug_assert!(contradiction.is_none() || COMPARED_OPERATIONS.contains(&arguments.operation()));
    contradiction
}

fn contradiction(arguments: &Args<'_>, results: &Results<'_>) -> Option<String> {
    match (arguments, results) {
        // RFC 7862 section 15.2.3; a count of 0 means up to the end of the file.
        (Args::COPY(args), Results::COPY(result)) => {
            let copied = result.ok()?.cr_response.wr_count;
            (args.ca_count > 0 && copied > args.ca_count)
                .then(|| format!("COPY of {} bytes copied {copied}", args.ca_count))
        }
        // RFC 7862 section 15.11.3.
        (Args::SEEK(args), Results::SEEK(result)) => {
            let found = result.ok().filter(|found| !found.sr_eof)?.sr_offset;
            (found < args.sa_offset).then(|| format!("SEEK from {} found offset {found}", args.sa_offset))
        }
        (Args::READ_PLUS(args), Results::READ_PLUS(result)) => {
            let end = args.rpa_offset.saturating_add(args.rpa_count.into());
            let data_end = data_end(result.ok()?).filter(|data_end| *data_end > end)?;
            Some(format!("READ_PLUS up to {end} returned data up to {data_end}"))
        }
        // RFC 8881 section 18.48.3.
        (Args::TEST_STATEID(args), Results::TEST_STATEID(result)) => {
            let (tested, returned) = (args.ts_stateids.len(), result.ok()?.tsr_status_codes.len());
            (tested != returned).then(|| format!("TEST_STATEID of {tested} stateids returned {returned} statuses"))
        }
        // RFC 8881 section 18.34.3.
        (Args::BIND_CONN_TO_SESSION(args), Results::BIND_CONN_TO_SESSION(result)) => (result.ok()?.bctsr_sessid
            != args.bctsa_sessid)
            .then(|| "BIND_CONN_TO_SESSION returned another session".to_owned()),
        (Args::LOCK(args), Results::LOCK(LockRes::Denied(denied))) => {
            lock_contradiction("LOCK", LockRange { offset: args.offset, length: args.length }, denied)
        }
        (Args::LOCKT(args), Results::LOCKT(LocktRes::Denied(denied))) => {
            lock_contradiction("LOCKT", LockRange { offset: args.offset, length: args.length }, denied)
        }
        _ => None,
    }
}

/// Returns the end of the data of READ_PLUS: only holes may be returned beyond what was asked for. RFC 7862 section
/// 15.10.3.
pub(super) fn data_end(results: &ReadPlusRes4<'_>) -> Option<u64> {
    let contents = results.rpr_contents.iter().filter_map(|content| match content {
        ReadPlusContent::Data(data) => Some(data.d_offset.saturating_add(data.d_data.0.length().into())),
        _ => None,
    });
    contents.max()
}

/// Bytes that LOCK or LOCKT asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockRange {
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl LockRange {
    /// Returns the last byte; `None` of an empty range. A length of all ones means up to the end of the file. RFC 8881
    /// section 18.10.3.
    fn last(self) -> Option<u64> {
        match self.length {
            u64::MAX => Some(u64::MAX),
            length => Some(self.offset.saturating_add(length.checked_sub(1)?)),
        }
    }

    /// Returns `true` if a lock conflicts with this range. A server may return a length of 0, which no lock has, instead
    /// of all ones.
    pub(super) fn overlaps(self, denied: &LockDenied<'_>) -> bool {
        let last_denied = Self { offset: denied.offset, length: denied.length }.last().unwrap_or(u64::MAX);
        self.last().is_some_and(|last| self.offset <= last_denied && denied.offset <= last)
    }
}

/// Returns the fault of a lock that conflicts with none: it begins after the other one, or ends before it. RFC 8881
/// sections 18.10.3 and 18.11.3.
fn lock_contradiction(name: &str, asked: LockRange, denied: &LockDenied<'_>) -> Option<String> {
    (!asked.overlaps(denied)).then(|| {
        let end = asked.offset.saturating_add(asked.length);
        let denied_end = denied.offset.saturating_add(denied.length);
        format!("{name} of {} to {end} denied by a lock of {} to {denied_end}", asked.offset, denied.offset)
    })
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::field::NullFieldObserver;
    use nfsrdma_dissectors::nfs::v4::{CompoundCall, CompoundReply};
    use nfsrdma_dissectors::xdr::Cursor;

    use super::super::result_limits::{self, ResultLimit, ResultLimits};
    use super::*;

    const MAX: u32 = u32::MAX;
    const STATEID: [u32; 4] = [1, 2, 3, 4];

    /// Calls `read` with the arguments and results of an operation, behind their number and status.
    fn with_pair<R>(
        (number, status): (u32, u32),
        [arguments, results]: [&[u32]; 2],
        read: impl FnOnce(&Args<'_>, &Results<'_>) -> R,
    ) -> R {
        let bytes = |parts: &[&[u32]]| -> Vec<u8> { parts.concat().into_iter().flat_map(u32::to_be_bytes).collect() };
        let call = bytes(&[&[0, 2, 1, number], arguments]);
        let reply = bytes(&[&[status, 0, 1, number, status], results]);
        let (mut call, mut reply) = (Cursor::new(&call), Cursor::new(&reply));
        let call = CompoundCall::decode(&mut call, &mut NullFieldObserver).unwrap();
        let reply = CompoundReply::decode(&mut reply, &mut NullFieldObserver).unwrap();
        let mut operations = call.operations();
        let mut all_results = reply.operations();
        let mut found = None;
        let mut read = Some(read);
        operations.visit_next(&mut NullFieldObserver, |_, _, arguments| {
            all_results.visit_next(&mut NullFieldObserver, |_, _, results| {
                found = read.take().map(|read| read(arguments, results));
            });
        });
        found.expect("both are decoded")
    }

    /// Every compared operation has an example here, and each of them is found without the text, too.
    #[test]
    fn compared_operations_have_contradictions() {
        let copy = [&STATEID[..], &STATEID, &[0, 0, 0, 0, 0, 100, 1, 1, 0]].concat();
        let lock = [&[2, 0, 0, 0, 0, 10, 0][..], &STATEID, &[1]].concat();
        let denied = [0, 10, 0, 10, 2, 0, 7, 4, 8];
        let lockt = [2, 0, 0, 0, 10, 0, 7, 4, 9];
        let session = [1, 2, 3, 4, 2, 0];
        let other_session = [9, 2, 3, 4, 2, 0];
        let read_plus = [&STATEID[..], &[0, 4096, 3]].concat();
        let seek = [&STATEID[..], &[0, 1000, 0]].concat();
        let test_stateid = [&[1][..], &STATEID].concat();
        // Number and status of an operation, and the words of its arguments and results.
        type Example<'a> = ((u32, u32), [&'a [u32]; 2]);
        let examples: [Example<'_>; 7] = [
            ((41, 0), [&session, &other_session]),
            ((60, 0), [&copy, &[0, 0, 5000, 2, 7, 7, 1, 1]]),
            ((12, 10_010), [&lock, &denied]),
            ((13, 10_010), [&lockt, &denied]),
            ((68, 0), [&read_plus, &[0, 1, 0, 0, 4096, 4, 7]]),
            ((69, 0), [&seek, &[0, 0, 999]]),
            ((55, 0), [&test_stateid, &[2, 0, 0]]),
        ];
        let numbers = examples.map(|((number, _), _)| number);
        assert_eq!(numbers, COMPARED_OPERATIONS.map(|operation| operation.number().0));
        for (numbers, pair) in examples {
            with_pair(numbers, pair, |arguments, results| {
                assert!(result_contradiction(arguments, results).is_some(), "{numbers:?}");
                let mut limits = ResultLimits::default();
                limits.add(0, ResultLimit::of(arguments));
                let mut limited = result_limits::LimitedResults::new(&limits);
                limited.see(0, results);
                assert!(limited.has_invalid || limits.needs_arguments(), "{numbers:?}");
            });
        }
    }

    /// RFC 8881 section 18.10.3: a length of all ones is the rest of the file, and the last bytes of two locks may be the
    /// last one of all. A range behind or before the other one does not overlap it.
    #[test]
    fn locks_overlap_up_to_last_byte() {
        let all = [MAX, MAX];
        let cases = [
            ([all, [0, 1]], [all, [0, 1]], true),
            ([all, all], [all, all], true),
            ([all, [0, 5]], [[0, 0], all], true),
            ([[0, 0], all], [all, [0, 1]], true),
            ([[MAX, MAX - 1], [0, 1]], [all, [0, 1]], false),
            ([all, [0, 1]], [[MAX, MAX - 1], [0, 1]], false),
            ([[0, 0], [0, 10]], [[0, 9], [0, 1]], true),
            ([[0, 0], [0, 10]], [[0, 10], [0, 10]], false),
            ([[0, 10], [0, 10]], [[0, 0], [0, 10]], false),
            ([[0, 50], [0, 10]], [[0, 0], [0, 0]], true),
            ([[0, 0], [0, 10]], [[0, 50], [0, 0]], false),
        ];
        for ([offset, length], denied, is_overlap) in cases {
            let range = [&offset[..], &length].concat();
            let denied = [&denied.concat()[..], &[2, 0, 7, 4, 8]].concat();
            let lock = [&[2, 0], &range[..], &[0], &STATEID, &[1]].concat();
            let lockt = [&[2], &range[..], &[0, 7, 4, 9]].concat();
            for (number, arguments) in [(12, lock), (13, lockt)] {
                with_pair((number, 10_010), [&arguments, &denied], |arguments, results| {
                    let is_denied =
                        matches!(results, Results::LOCK(LockRes::Denied(_)) | Results::LOCKT(LocktRes::Denied(_)));
                    assert!(is_denied);
                    let contradiction = result_contradiction(arguments, results);
                    assert_eq!(contradiction.is_none(), is_overlap, "{range:?} {denied:?}: {contradiction:?}");
                });
            }
        }
    }
}
