//! Results of a COMPOUND or CB_COMPOUND, compared with the operations of its Call. RFC 8881 sections 16.2.3 and 19.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, CbOperationNumber, Nfsstat4, OperationNumber, OperationSummary};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use super::decoded_compound::DecodedCompound;
use super::result_limits::{LimitedResults, ResultLimits};

/// Operations of a Call, what SEQUENCE or CB_SEQUENCE sent, and the limits of their results.
pub(super) enum CallOperations<'a> {
    /// No COMPOUND, or one that cannot be located.
    Unknown,
    /// COMPOUND.
    Fore(OperationSummary<OperationNumber>, SentSequence<'a>, ResultLimits),
    /// CB_COMPOUND.
    Back(OperationSummary<CbOperationNumber>, SentSequence<'a>, ResultLimits),
}

/// Session, slot and sequence ID that SEQUENCE or CB_SEQUENCE sent, if it is the first operation.
#[derive(Clone, Copy)]
pub(super) struct SentSequence<'a>(Option<&'a [u8]>);

/// Bytes of SEQUENCE and CB_SEQUENCE that their results repeat: session ID, sequence ID, slot. RFC 8881 sections 18.46
/// and 20.9.
const ECHOED_BYTES: usize = 24;

/// Faults of the results of a COMPOUND or CB_COMPOUND.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResultFaults {
    /// `true` if they are not those of the operations, or contradict their status.
    pub(super) has_contradiction: bool,
    /// `true` if a result is not valid for its operation.
    pub(super) has_invalid: bool,
}

/// Decodes the results at the cursor to their end, unless they are in `decoded`, and sets their faults.
///
/// # Errors
/// Returns an error if they cannot be decoded to their end, or if successful ones are fewer than the operations.
pub(super) fn read<'a>(
    operations: &CallOperations<'a>,
    mut results: Cursor<'a>,
    decoded: Option<&DecodedCompound<'a>>,
    faults: &mut ResultFaults,
) -> Result<(), XdrError> {
    match operations {
        CallOperations::Unknown => Ok(()),
        CallOperations::Fore(operations, sequence, limits) => {
            let reply = v4::CompoundReply::decode(&mut results, &mut NullFieldObserver)?;
            let mut comparison = Comparison::new(operations, OperationNumber::ILLEGAL);
            let mut limited = LimitedResults::new(limits);
            let see = |index, number, status, result: Option<&v4::Results<'_>>| {
                comparison.add(number, status, result.is_some() || number.known().is_some());
                result.into_iter().for_each(|result| limited.see(index, result));
            };
            let end = match decoded.and_then(|compound| compound.reply.as_ref()) {
                Some(decoded) => {
                    decoded.visit_results(see);
                    decoded.end()
                }
                None => reply.visit_results(see).map(|end| end.unwrap_or(results)),
            };
            faults.has_invalid = limited.has_invalid;
            faults.has_contradiction =
                comparison.has_contradiction(reply.head.status, end.is_ok()) || sequence.is_unlike(&results);
            comparison.check_count(reply.head.status, end?)
        }
        CallOperations::Back(operations, sequence, limits) => {
            let reply = v4::CbCompoundReply::decode(&mut results, &mut NullFieldObserver)?;
            let mut comparison = Comparison::new(operations, CbOperationNumber::CB_ILLEGAL);
            let mut limited = LimitedResults::new(limits);
            let end = reply.visit_results(|index, number, status, result| {
                comparison.add(number, status, result.is_some() || number.known().is_some());
                result.into_iter().for_each(|result| limited.see_callback(index, result));
            });
            let end = end.map(|end| end.unwrap_or(results));
            faults.has_invalid = limited.has_invalid;
            faults.has_contradiction =
                comparison.has_contradiction(reply.head.status, end.is_ok()) || sequence.is_unlike(&results);
            comparison.check_count(reply.head.status, end?)
        }
    }
}

/// Results seen one after the other, compared with the operations of their Call.
struct Comparison<'o, N> {
    operations: &'o OperationSummary<N>,
    /// Number of the result of an operation that does not exist.
    illegal: N,
    count: u32,
    last_status: Option<Nfsstat4>,
    has_early_failure: bool,
    /// `true` if a result is that of another operation, as far as the operations are in the summary.
    has_other: bool,
}

impl<'o, N: Copy + Default + PartialEq> Comparison<'o, N> {
    fn new(operations: &'o OperationSummary<N>, illegal: N) -> Self {
        Self { operations, illegal, count: 0, last_status: None, has_early_failure: false, has_other: false }
    }

    /// Adds the next result. One whose number is not known may be an operation that is not described here.
    #[inline]
    fn add(&mut self, result: N, status: Option<Nfsstat4>, is_known: bool) {
        let operation = self.operations.number(self.count as usize);
        let is_other = operation.is_some_and(|operation| operation != result);
        self.has_other |= is_other && is_known && result != self.illegal;
        self.has_early_failure |= self.last_status.is_some_and(|last| last != Nfsstat4::NFS4_OK);
        self.last_status = status;
        self.count += 1;
    }

    /// Returns `true` if the results are not those of the operations, or contradict the status of the COMPOUND.
    /// `is_whole`: all results were decoded.
    fn has_contradiction(&self, status: Nfsstat4, is_whole: bool) -> bool {
        let highest = if status == Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH { 0 } else { self.operations.count };
        let has_other_status = is_whole && self.last_status.is_some_and(|last| last != status);
        self.count > highest || self.has_early_failure || has_other_status || self.has_other
    }

    /// Checks that a successful COMPOUND has a result for each operation, and that nothing follows the results.
    fn check_count(&self, status: Nfsstat4, end: Cursor<'_>) -> Result<(), XdrError> {
        let (results, operations) = (self.count, self.operations.count);
        if status == Nfsstat4::NFS4_OK && results < operations {
            return Err(XdrError::ResultsMissing { at: end.at(), results, operations });
        }
        end.expect_end()
    }
}

impl<'a> SentSequence<'a> {
    /// Returns what the operation at the cursor sent, if it has the number of SEQUENCE or CB_SEQUENCE.
    pub(super) fn at(operations: &Cursor<'a>, sequence: u32) -> Self {
        let (number, arguments) = operations.rest().split_first_chunk().unwrap_or((&[0; 4], &[]));
        let is_sequence = u32::from_be_bytes(*number) == sequence;
        Self(arguments.get(..ECHOED_BYTES).filter(|_| is_sequence))
    }

    /// Returns `true` if the first result, at the cursor, succeeded and is of another session, slot or sequence ID.
    fn is_unlike(self, results: &Cursor<'_>) -> bool {
        let mut returned = *results;
        let mut echoed = || {
            returned.word().ok()?;
            (Nfsstat4(returned.word().ok()?) == Nfsstat4::NFS4_OK).then_some(())?;
            returned.take(ECHOED_BYTES).ok()
        };
        self.0.is_some_and(|sent| echoed().is_some_and(|returned| returned != sent))
    }
}

impl CallOperations<'_> {
    /// Returns `true` if there are more operations than the summary has.
    pub(super) fn is_truncated(&self) -> bool {
        matches!(self, Self::Fore(operations, ..) if operations.is_truncated())
    }

    /// Returns `true` if results must be compared with the decoded arguments.
    pub(super) fn needs_arguments(&self) -> bool {
        matches!(self, Self::Fore(.., limits) | Self::Back(.., limits) if limits.needs_arguments())
    }
}

/// Returns `true` if an operation of a long COMPOUND has the result of another one.
#[cold]
pub(super) fn has_other_result(compound: &DecodedCompound<'_>) -> bool {
    let (Some(call), Some(reply)) = (&compound.call, &compound.reply) else { return false };
    let results = reply.operations.iter().map(v4::Results::operation);
    { call.operations.iter().map(v4::Args::operation).zip(results) }
        .any(|(operation, result)| operation != result && result != v4::Operation::ILLEGAL)
}
