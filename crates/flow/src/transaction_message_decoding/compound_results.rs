//! Results of a COMPOUND or CB_COMPOUND, compared with the operations of its Call. RFC 8881 sections 16.2.3 and 19.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, CbOperation, Compound, CompoundReplyHead, Nfsstat4, Operation, OperationBody, OperationSummary,
};
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use super::decoded_compound::DecodedCompound;

/// Operations of a Call, with a cursor at the first.
pub(super) enum CallOperations<'a> {
    /// No COMPOUND, or one that cannot be located.
    Unknown,
    /// COMPOUND.
    Fore(OperationSummary<Operation>, Cursor<'a>),
    /// CB_COMPOUND.
    Back(OperationSummary<CbOperation>, Cursor<'a>),
}

/// Results of a COMPOUND that were decoded: the first of them, and the position behind the last or the cause of an early
/// end.
type DecodedResults<'a, N> = (OperationSummary<N>, Result<Option<Cursor<'a>>, XdrError>);

/// Bytes of SEQUENCE and CB_SEQUENCE that their results repeat: session ID, sequence ID, slot. RFC 8881 sections 18.46
/// and 20.9.
const ECHOED_BYTES: usize = 24;

/// Decodes the results at the cursor to their end, unless they are in `decoded`. Returns `true` beside the outcome if they
/// are not those of the operations, or contradict their status.
pub(super) fn read<'a>(
    operations: &CallOperations<'a>,
    results: Cursor<'a>,
    decoded: Option<&DecodedCompound<'a>>,
) -> (Result<(), XdrError>, bool) {
    let mut has_contradiction = false;
    let end = match operations {
        CallOperations::Unknown => Ok(()),
        CallOperations::Fore(operations, arguments) => {
            let decoded = decoded.and_then(|compound| compound.reply.as_ref());
            let decoded = decoded.map(|reply| (reply.summary(|result| Some(result.status())), reply.end().map(Some)));
            compare::<v4::Results<'a>>(
                (operations, *arguments, results),
                (Operation::SEQUENCE, Operation::ILLEGAL),
                decoded,
                &mut has_contradiction,
            )
        }
        CallOperations::Back(operations, arguments) => compare::<v4::CbResults<'a>>(
            (operations, *arguments, results),
            (CbOperation::CB_SEQUENCE, CbOperation::CB_ILLEGAL),
            None,
            &mut has_contradiction,
        ),
    };
    (end, has_contradiction)
}

/// Compares results with the operations of their Call. `sequence` and `illegal` are the numbers of SEQUENCE and of the result
/// of an operation that does not exist.
fn compare<'a, B: OperationBody<'a> + 'a>(
    (operations, arguments, mut results): (&OperationSummary<B::OperationNumber>, Cursor<'a>, Cursor<'a>),
    (sequence, illegal): (B::OperationNumber, B::OperationNumber),
    decoded: Option<DecodedResults<'a, B::OperationNumber>>,
    has_contradiction: &mut bool,
) -> Result<(), XdrError> {
    let reply = Compound::<'a, CompoundReplyHead<'a>, B>::decode(&mut results, &mut NullFieldObserver)?;
    let status = reply.head.status;
    let (summary, end) = decoded.unwrap_or_else(|| reply.result_summary());
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
        matches!(self, Self::Fore(operations, _) if operations.is_truncated())
    }
}

/// Returns `true` if an operation of a long COMPOUND has the result of another one.
#[cold]
pub(super) fn has_other_result(compound: &DecodedCompound<'_>) -> bool {
    let (Some(call), Some(reply)) = (&compound.call, &compound.reply) else { return false };
    let results = reply.operations.iter().map(v4::Results::number);
    { call.operations.iter().map(v4::Args::number).zip(results) }
        .any(|(operation, result)| operation != result && result != Operation::ILLEGAL)
}
