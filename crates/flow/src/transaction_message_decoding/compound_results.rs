//! Results of a COMPOUND or CB_COMPOUND, compared with the operations of its Call. RFC 8881 sections 16.2.3 and 19.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, CbOperation, Nfsstat4, Operation, OperationBody, OperationSummary};
use nfsrdma_dissectors::rpc::RpcMessageKind;
use nfsrdma_dissectors::xdr::{Cursor, XdrError};

use super::call_header::CallBodyDecodeParameters;
use super::{RpcSummary, TransactionMessages, open_payload, rpc_message_trailer};

/// Operations of a Call, with a cursor at the first.
pub(super) enum CallOperations<'a> {
    /// No COMPOUND, or one that cannot be located.
    Unknown,
    /// COMPOUND.
    Fore(OperationSummary<Operation>, Cursor<'a>),
    /// CB_COMPOUND.
    Back(OperationSummary<CbOperation>, Cursor<'a>),
}

/// Bytes of SEQUENCE and CB_SEQUENCE that their results repeat: session ID, sequence ID, slot. RFC 8881 sections 18.46
/// and 20.9.
const ECHOED_BYTES: usize = 24;

impl<'a> TransactionMessages<'a> {
    /// Decodes the results of a successful RPC, and compares those of a COMPOUND with its Call. The cursor is behind the
    /// RPC header.
    pub(super) fn read_results(
        &self,
        call: CallBodyDecodeParameters,
        cursor: Cursor<'a>,
        operations: &CallOperations<'a>,
        summary: &mut RpcSummary,
    ) -> Result<(), XdrError> {
        // What was decoded of a malformed Call is uncertain.
        let is_certain = summary.call_error.is_none_or(|error| error.is_cut());
        let mut has_contradiction = false;
        let decoded = match operations {
            CallOperations::Fore(operations, arguments) => {
                let decoded = self.compound.get().and_then(|compound| compound.reply.as_ref());
                let decoded =
                    decoded.map(|reply| (reply.summary(|result| Some(result.status())), reply.end().map(Some)));
                self.read_compound_results::<v4::Results<'a>>(
                    (call, cursor),
                    (operations, *arguments, v4::Operation::SEQUENCE, v4::Operation::ILLEGAL),
                    |number| number.name().is_some(),
                    decoded,
                    &mut has_contradiction,
                )
            }
            CallOperations::Back(operations, arguments) => self.read_compound_results::<v4::CbResults<'a>>(
                (call, cursor),
                (operations, *arguments, CbOperation::CB_SEQUENCE, CbOperation::CB_ILLEGAL),
                |number| number.name().is_some(),
                None,
                &mut has_contradiction,
            ),
            CallOperations::Unknown => self.observe_body(RpcMessageKind::Reply, call, cursor, &mut NullFieldObserver),
        };
        summary.has_contradiction = has_contradiction && is_certain;
        decoded
    }

    /// Decodes the results of a COMPOUND, unless they are `decoded`, and compares them with its Call: its operations, its
    /// arguments, and the numbers of SEQUENCE and of the result of an operation that does not exist.
    fn read_compound_results<B: OperationBody<'a> + 'a>(
        &self,
        (call, mut cursor): (CallBodyDecodeParameters, Cursor<'a>),
        (operations, arguments, sequence, illegal): (
            &OperationSummary<B::OperationNumber>,
            Cursor<'a>,
            B::OperationNumber,
            B::OperationNumber,
        ),
        is_known: fn(B::OperationNumber) -> bool,
        decoded: Option<(OperationSummary<B::OperationNumber>, Result<Option<Cursor<'a>>, XdrError>)>,
        has_contradiction: &mut bool,
    ) -> Result<(), XdrError> {
        let Some(mut body) = open_payload(call.payload, &mut cursor, &mut NullFieldObserver)? else {
            return rpc_message_trailer::read_control_message(
                call.payload,
                RpcMessageKind::Reply,
                &mut cursor,
                &mut NullFieldObserver,
            );
        };
        let reply = v4::Compound::<'a, v4::CompoundReplyHead<'a>, B>::decode(&mut body, &mut NullFieldObserver)?;
        let status = reply.head.status;
        let (results, end) = decoded.unwrap_or_else(|| reply.result_summary());
        let highest = if status == Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH { 0 } else { operations.count };
        let is_other =
            |(operation, result): (B::OperationNumber, _)| operation != result && result != illegal && is_known(result);
        let has_other_status = end.is_ok() && results.last_status.is_some_and(|last| last != status);
        *has_contradiction = results.count > highest
            || results.has_early_failure
            || has_other_status
            || { operations.numbers().zip(results.numbers()) }.any(is_other)
            || (operations.numbers().next() == Some(sequence) && has_other_sequence(arguments, body))
            || (operations.is_truncated() && self.has_later_contradiction());
        let end = end?.unwrap_or(body);
        if status == Nfsstat4::NFS4_OK && results.count < operations.count {
            let (results, operations) = (results.count, operations.count);
            return Err(XdrError::ResultsMissing { at: end.at(), results, operations });
        }
        end.expect_end()?;
        rpc_message_trailer::read_protection(call.payload, &mut cursor, &mut NullFieldObserver)
    }

    /// Returns `true` if an operation of a long COMPOUND has the result of another one.
    #[cold]
    fn has_later_contradiction(&self) -> bool {
        let compound = self.compound();
        let (Some(call), Some(reply)) = (&compound.call, &compound.reply) else { return false };
        let results = reply.operations.iter().map(v4::Results::number);
        { call.operations.iter().map(v4::Args::number).zip(results) }
            .any(|(operation, result)| operation != result && result != Operation::ILLEGAL)
    }
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
