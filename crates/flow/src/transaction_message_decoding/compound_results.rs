//! Results of a COMPOUND or CB_COMPOUND, compared with the operations of its Call. RFC 8881 sections 16.2.3 and 19.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, CbOperationNumber, Compound, CompoundReplyHead, Nfsstat4, OperationBody, OperationNumber, OperationSummary,
};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use super::decoded_compound::DecodedCompound;
use super::result_limits::{LimitedResults, ResultLimits};

/// Operations of a Call, with a cursor at the first.
pub(super) enum CallOperations<'a> {
    /// No COMPOUND, or one that cannot be located.
    Unknown,
    /// COMPOUND.
    Fore(OperationSummary<OperationNumber>, Cursor<'a>, ResultLimits),
    /// CB_COMPOUND.
    Back(OperationSummary<CbOperationNumber>, Cursor<'a>, ResultLimits),
}

/// Results of a COMPOUND that were decoded: the first of them, and the position behind the last or the cause of an early
/// end.
type DecodedResults<'a, N> = (OperationSummary<N>, Result<Option<Cursor<'a>>, XdrError>);

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

/// Decodes the results at the cursor to their end, unless they are in `decoded`. Returns their faults beside the outcome.
pub(super) fn read<'a>(
    operations: &CallOperations<'a>,
    results: Cursor<'a>,
    decoded: Option<&DecodedCompound<'a>>,
) -> (Result<(), XdrError>, ResultFaults) {
    let mut faults = ResultFaults::default();
    let has_contradiction = &mut faults.has_contradiction;
    let end = match operations {
        CallOperations::Unknown => Ok(()),
        CallOperations::Fore(operations, arguments, limits) => {
            let mut limited = LimitedResults::new(limits);
            let decoded = decoded.and_then(|compound| compound.reply.as_ref());
            let decoded = decoded.map(|reply| {
                (0..).zip(&reply.operations).for_each(|(index, result)| limited.see(index, result));
                (reply.summary(|result| Some(result.status())), reply.end().map(Some))
            });
            let end = compare::<v4::Results<'a>>(
                (operations, *arguments, results),
                (OperationNumber::SEQUENCE, OperationNumber::ILLEGAL),
                decoded,
                |index, result| limited.see(index, result),
                has_contradiction,
            );
            faults.has_invalid = limited.has_invalid;
            end
        }
        CallOperations::Back(operations, arguments, limits) => {
            let mut limited = LimitedResults::new(limits);
            let end = compare::<v4::CbResults<'a>>(
                (operations, *arguments, results),
                (CbOperationNumber::CB_SEQUENCE, CbOperationNumber::CB_ILLEGAL),
                None,
                |index, result| limited.see_callback(index, result),
                has_contradiction,
            );
            faults.has_invalid = limited.has_invalid;
            end
        }
    };
    (end, faults)
}

/// Compares results with the operations of their Call. `sequence` and `illegal` are the numbers of SEQUENCE and of the result
/// of an operation that does not exist. `see` receives each result that is not in `decoded`, with its index.
fn compare<'a, B: OperationBody<'a> + 'a>(
    (operations, arguments, mut results): (&OperationSummary<B::OperationNumber>, Cursor<'a>, Cursor<'a>),
    (sequence, illegal): (B::OperationNumber, B::OperationNumber),
    decoded: Option<DecodedResults<'a, B::OperationNumber>>,
    see: impl FnMut(u32, &B),
    has_contradiction: &mut bool,
) -> Result<(), XdrError> {
    let reply = Compound::<'a, CompoundReplyHead<'a>, B>::decode(&mut results, &mut NullFieldObserver)?;
    let status = reply.head.status;
    let (summary, end) = decoded.unwrap_or_else(|| reply.result_summary(see));
    let highest = if status == Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH { 0 } else { operations.count };
    let is_other = |(operation, result): (B::OperationNumber, _)| {
        operation != result && result != illegal && B::field(result).is_some()
    };
    let has_other_status = end.is_ok() && summary.last_status.is_some_and(|last| last != status);
    *has_contradiction = summary.count > highest
        || summary.has_early_failure
        || has_other_status
        || { operations.numbers().zip(summary.numbers()) }.any(is_other)
        || (operations.numbers().next() == Some(sequence) && has_other_sequence(arguments, results));
    let end = end?.unwrap_or(results);
    if status == Nfsstat4::NFS4_OK && summary.count < operations.count {
        let (results, operations) = (summary.count, operations.count);
        return Err(XdrError::ResultsMissing { at: end.at(), results, operations });
    }
    end.expect_end()
}

/// Returns `true` if the results of SEQUENCE or CB_SEQUENCE, the first operation, are of another session, slot or
/// sequence ID than its arguments. The cursors are at the first operation.
fn has_other_sequence(mut arguments: Cursor<'_>, mut results: Cursor<'_>) -> bool {
    let mut echoed = || {
        arguments.word().ok()?;
        let sent = arguments.take(ECHOED_BYTES).ok()?;
        results.word().ok()?;
        let status = Nfsstat4(results.word().ok()?);
        let returned = results.take(ECHOED_BYTES).ok()?;
        (status == Nfsstat4::NFS4_OK).then_some((sent, returned))
    };
    echoed().is_some_and(|(sent, returned)| sent != returned)
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
