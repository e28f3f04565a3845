//! Operations of a COMPOUND or CB_COMPOUND with their results.

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU32;

use nfsrdma_dissectors::nfs::v4::{
    Args, CbArgs, CbOperationNumber, CbResults, CompoundReplyHead, DecodedOperations, Nfsstat4, Operation,
    OperationBody, OperationNumber, Results,
};
use nfsrdma_dissectors::rpc::{AcceptStat, RpcReplyStatus};
use nfsrdma_dissectors::rpcrdma::{RpcRdma1ErrCode, RpcRdmaErrorCode};
use nfsrdma_dissectors::xdr::{Text, Xdr};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction_message_decoding::{DecodedCompound, RpcStatus};
use nfsrdma_nfs_model::v4::sequence::{Sequence, SequenceResult};
use rustc_hash::FxHasher;

/// Channel of a session. RFC 8881 section 2.10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Calls of the client: COMPOUND.
    #[default]
    Fore,
    /// Calls of the server: CB_COMPOUND.
    Back,
}

impl Channel {
    /// Returns the prefixes of the names of the arguments and of the results of SEQUENCE or CB_SEQUENCE.
    pub(crate) fn prefixes(self) -> [&'static str; 2] {
        match self {
            Self::Fore => ["sa", "sr"],
            Self::Back => ["csa", "csr"],
        }
    }
}

/// Number of an operation of COMPOUND or CB_COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompoundOrCallbackOpcode {
    /// nfs_opnum4.
    Fore(OperationNumber),
    /// nfs_cb_opnum4.
    Back(CbOperationNumber),
}

impl CompoundOrCallbackOpcode {
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Fore(number) => number.name(),
            Self::Back(number) => number.name(),
        }
    }

    /// Returns `true` for the result of an operation that does not exist.
    pub(crate) fn is_illegal(self) -> bool {
        matches!(self, Self::Fore(OperationNumber::ILLEGAL) | Self::Back(CbOperationNumber::CB_ILLEGAL))
    }
}

impl fmt::Display for CompoundOrCallbackOpcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fore(number) => number.fmt(f),
            Self::Back(number) => number.fmt(f),
        }
    }
}

/// Operations of COMPOUND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperationSet(u128);

impl OperationSet {
    pub(crate) const fn of(operations: &[Operation]) -> Self {
        let mut set = Self(0);
        let mut rest = operations;
        while let [operation, tail @ ..] = rest {
            set = set.with(*operation);
            rest = tail;
        }
        set
    }

    /// Adds an operation. ILLEGAL, whose number is too large, is in no set.
    #[must_use]
    const fn with(self, operation: Operation) -> Self {
        match 1_u128.checked_shl(operation.number().0) {
            Some(bit) => Self(self.0 | bit),
            None => self,
        }
    }
}

/// Operations of a COMPOUND or CB_COMPOUND. RFC 8881 sections 16.2 and 19.2.
#[derive(Debug, Default)]
pub(crate) struct CompoundOperationIterator<'t> {
    /// Channel: `Back` for CB_COMPOUND, also in minor version 0.
    pub(crate) channel: Channel,
    pub(crate) minor_version: u32,
    /// Tag of the Call; `None` if it cannot be decoded.
    pub(crate) tag: Option<Text<'t>>,
    /// Number of operations that the Call announces.
    pub(crate) operation_count: u32,
    /// Arguments of COMPOUND, as far as they can be decoded.
    pub(crate) arguments: &'t [Args<'t>],
    /// Arguments of CB_COMPOUND, as far as they can be decoded.
    pub(crate) callback_arguments: &'t [CbArgs<'t>],
    /// Arguments of SEQUENCE or CB_SEQUENCE, if it is the first operation.
    pub(crate) sequence: Option<Sequence>,
    /// `true` if all operations of the Call were decoded.
    pub(crate) has_all_arguments: bool,
    /// Digest of the operations after the first, if the Call was captured to its end.
    pub(crate) arguments_digest: Option<CompoundRetryDigest>,
    pub(crate) status: Option<Nfsstat4>,
    pub(crate) reply_tag: Option<Text<'t>>,
    /// Number of results that the Reply announces.
    pub(crate) result_count: u32,
    /// Results of COMPOUND, as far as they can be decoded: the k-th belongs to the k-th operation.
    pub(crate) results: &'t [Results<'t>],
    /// Results of CB_COMPOUND, as far as they can be decoded.
    pub(crate) callback_results: &'t [CbResults<'t>],
    /// Results of SEQUENCE or CB_SEQUENCE, if it is the first operation and succeeded.
    pub(crate) sequence_result: Option<SequenceResult>,
    /// Operation of the result that cannot be decoded.
    pub(crate) undecoded_result: Option<CompoundOrCallbackOpcode>,
    /// `true` if all results of the Reply were decoded.
    pub(crate) has_all_results: bool,
    /// Digest of the results after the first, if the Reply was captured to its end.
    pub(crate) results_digest: Option<CompoundRetryDigest>,
    /// Failure of the RPC, if the Reply has no results.
    pub(crate) failure: Option<ResultlessRpcFailure>,
    /// `true` if an operation of COMPOUND is not of its minor version.
    pub(crate) has_reserved: bool,
    /// `true` for a COMPOUND that keeps the rules about all COMPOUNDs: all operations and results were decoded, they
    /// match in number, order and tag, a failed operation is the last, and SEQUENCE is the only operation with a
    /// prescribed position.
    pub(crate) is_usual: bool,
    /// `true` if the arguments, or the results, have a value that their types do not define; `None` if they are not those
    /// of a COMPOUND.
    pub(crate) has_undefined: [Option<bool>; 2],
    /// Operations of COMPOUND among the arguments and results that were decoded.
    set: OperationSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultlessRpcFailure {
    /// The Responder did not execute the Call: it could not read it, or refused its program, procedure or credential.
    NotExecuted,
    /// The Responder may have executed the Call. RFC 8267 section 4: a transport error does not tell.
    MaybeExecuted,
}

impl ResultlessRpcFailure {
    /// Returns the failure of a Reply with this status, unless it is a success.
    pub(crate) fn of(status: RpcStatus) -> Option<Self> {
        match status {
            RpcStatus::Rpc(status) if status.is_success() => None,
            RpcStatus::Rpc(RpcReplyStatus::Denied(_))
            | RpcStatus::Rpc(RpcReplyStatus::Accepted(
                AcceptStat::PROG_UNAVAIL
                | AcceptStat::PROG_MISMATCH
                | AcceptStat::PROC_UNAVAIL
                | AcceptStat::GARBAGE_ARGS,
            ))
            | RpcStatus::RdmaError(RpcRdmaErrorCode::Version1(RpcRdma1ErrCode::ERR_VERS)) => Some(Self::NotExecuted),
            RpcStatus::Rpc(_) | RpcStatus::RdmaError(_) => Some(Self::MaybeExecuted),
        }
    }
}

/// Digest of operations without the first, which is SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompoundRetryDigest {
    /// Hash of the inline bytes.
    pub(crate) hash: u64,
    /// `true` if a data item is in a chunk. Digests of the same operations are comparable only if both or
    /// none have such items.
    pub(crate) is_reduced: bool,
    /// Hash of the numbers of the operations, if all of them are known.
    numbers: Option<NonZeroU32>,
}

impl CompoundRetryDigest {
    /// Returns `true` if the operations are the same; `None` if the digests are not comparable.
    pub(crate) fn is_same(self, other: Self) -> Option<bool> {
        if self.numbers.zip(other.numbers).is_some_and(|(numbers, others)| numbers != others) {
            return Some(false);
        }
        (self.is_reduced == other.is_reduced).then_some(self.hash == other.hash)
    }
}

fn digest(bytes: &[u8]) -> CompoundRetryDigest {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    CompoundRetryDigest { hash: hasher.finish(), is_reduced: false, numbers: None }
}

impl<'t> CompoundOperationIterator<'t> {
    pub(crate) fn new(
        transaction: &Transaction,
        compound: &'t DecodedCompound<'t>,
        failure: Option<ResultlessRpcFailure>,
    ) -> Self {
        let mut operations = Self { failure, ..Self::default() };
        if let Some(callback) = &compound.callback {
            operations.channel = Channel::Back;
            if let Some(call) = &callback.call {
                let (first, head) = (call.operations.first(), &call.head);
                operations.sequence = first.and_then(Sequence::of_callback);
                operations.callback_arguments = operations.add_call(head.minorversion, head.tag, call);
            }
            if let Some(reply) = &callback.reply {
                let sequence = reply.operations.first().and_then(SequenceResult::of_callback);
                operations.callback_results = operations.add_reply(reply, sequence, CompoundOrCallbackOpcode::Back);
            }
        }
        if let Some(call) = &compound.call {
            let (first, head) = (call.operations.first(), &call.head);
            operations.sequence = first.and_then(Sequence::of);
            operations.arguments = operations.add_call(head.minorversion, head.tag, call);
        }
        if let Some(reply) = &compound.reply {
            let sequence = reply.operations.first().and_then(SequenceResult::of);
            operations.results = operations.add_reply(reply, sequence, CompoundOrCallbackOpcode::Fore);
        }
        operations.mark_reduced(transaction);
        operations.examine();
        operations
    }

    /// Examines the operations of a COMPOUND and their results, once for all rules.
    fn examine(&mut self) {
        let begins_in_session = matches!(self.arguments.first(), Some(Args::SEQUENCE(_)));
        let mut is_usual = begins_in_session == (self.minor_version > 0);
        let mut last = None;
        for (at, operation) in self.arguments.iter().enumerate() {
            self.set = self.set.with(operation.operation());
            self.has_reserved |= !is_in_minor_version(operation.operation(), self.minor_version);
            is_usual &= at == 0 || !has_position(operation);
            if let Some(result) = self.results.get(at) {
                is_usual &= last.is_none_or(|status| status == Nfsstat4::NFS4_OK);
                is_usual &= result.operation() == operation.operation();
                last = Some(result.status());
            }
        }
        let results = self.results.iter().map(Results::operation);
        self.set = results.fold(self.set, OperationSet::with);
        self.is_usual = is_usual
            && last.is_some()
            && last == self.status
            && last != Some(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH)
            && self.results.len() <= self.arguments.len()
            && self.has_all_arguments
            && self.has_all_results
            && self.tag == self.reply_tag;
    }

    /// Adds a Call whose sequence was added, and returns its operations.
    fn add_call<H: Xdr<'t>, B: OperationBody<'t>>(
        &mut self,
        minor_version: u32,
        tag: Text<'t>,
        call: &'t DecodedOperations<'t, H, B, B::OperationNumber>,
    ) -> &'t [B] {
        self.minor_version = minor_version;
        self.tag = Some(tag);
        self.operation_count = call.count;
        self.has_undefined[0] = Some(call.has_undefined);
        self.has_all_arguments = call.operations.len() == call.count as usize;
        self.arguments_digest = self.sequence.and_then(|_| call.bytes_after_first()).map(digest);
        &call.operations
    }

    /// Adds a Reply, whose first result is of `sequence`, and returns its results.
    fn add_reply<B: OperationBody<'t>>(
        &mut self,
        reply: &'t DecodedOperations<'t, CompoundReplyHead<'t>, B, B::OperationNumber>,
        sequence: Option<Option<SequenceResult>>,
        opcode: fn(B::OperationNumber) -> CompoundOrCallbackOpcode,
    ) -> &'t [B] {
        self.status = Some(reply.head.status);
        self.reply_tag = Some(reply.head.tag);
        self.result_count = reply.count;
        self.has_undefined[1] = Some(reply.has_undefined);
        let undecoded = reply.stop.filter(|stop| !stop.error.is_cut());
        self.undecoded_result = undecoded.and_then(|stop| stop.operation).map(opcode);
        self.has_all_results = reply.operations.len() == reply.count as usize;
        self.results_digest = sequence.and_then(|_| reply.bytes_after_first()).map(digest);
        self.sequence_result = sequence.flatten();
        &reply.operations
    }

    /// Marks the digests of operations with data items in chunks. The operations of two Calls may differ, whatever is
    /// in their chunks.
    fn mark_reduced(&mut self, transaction: &Transaction) {
        let numbers = self.has_all_arguments.then(|| {
            let mut hasher = FxHasher::default();
            self.numbers().for_each(|number| match number {
                CompoundOrCallbackOpcode::Fore(OperationNumber(number)) => hasher.write_u32(number),
                CompoundOrCallbackOpcode::Back(CbOperationNumber(number)) => hasher.write_u32(number),
            });
            NonZeroU32::MIN.saturating_add((hasher.finish() >> 32) as u32)
        });
        if let Some(digest) = &mut self.arguments_digest {
            digest.numbers = numbers;
            digest.is_reduced = transaction.read_chunks.iter().any(|chunk| chunk.position != Some(0));
        }
        if let Some(digest) = &mut self.results_digest {
            let mut writes = transaction.write_chunks.iter();
            digest.is_reduced = writes.any(|chunk| chunk.returned_bytes().is_some_and(|bytes| bytes > 0));
        }
    }

    /// Iterates over the numbers of the operations that were decoded.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = CompoundOrCallbackOpcode> + use<'t> {
        let fore = self.arguments.iter().map(|operation| CompoundOrCallbackOpcode::Fore(operation.number()));
        let back = self.callback_arguments.iter();
        fore.chain(back.map(|operation| CompoundOrCallbackOpcode::Back(operation.number())))
    }

    /// Iterates over the numbers and statuses of the results that were decoded.
    pub(crate) fn outcomes(&self) -> impl DoubleEndedIterator<Item = (CompoundOrCallbackOpcode, Nfsstat4)> + use<'t> {
        let fore = self.results.iter();
        let back = self.callback_results.iter();
        fore.map(|result| (CompoundOrCallbackOpcode::Fore(result.number()), result.status()))
            .chain(back.map(|result| (CompoundOrCallbackOpcode::Back(result.number()), result.status())))
    }

    pub(crate) fn decoded_results(&self) -> usize {
        self.results.len() + self.callback_results.len()
    }

    /// Returns `true` if one of these operations is among the arguments or results that were decoded.
    pub(crate) fn has_any(&self, operations: OperationSet) -> bool {
        self.set.0 & operations.0 != 0
    }

    /// Iterates over the operations of COMPOUND with their results.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'t Args<'t>, Option<&'t Results<'t>>)> + use<'t> {
        let results = self.results;
        self.arguments.iter().enumerate().map(|(at, arguments)| (arguments, results.get(at)))
    }

    /// Returns `true` if the Reply says that no operation, or not the first, was executed.
    pub(crate) fn is_refused(&self) -> bool {
        let is_failed = |status: Nfsstat4| status != Nfsstat4::NFS4_OK;
        match self.outcomes().next() {
            // Results after a failed SEQUENCE contradict it.
            Some((_, status)) => is_failed(status) && self.result_count == 1,
            None => {
                self.failure == Some(ResultlessRpcFailure::NotExecuted)
                    || (self.result_count == 0 && self.status.is_some_and(is_failed))
            }
        }
    }
}

/// Returns `true` if the position of an operation in a COMPOUND, or that of another operation, is prescribed.
fn has_position(operation: &Args<'_>) -> bool {
    matches!(operation, Args::SEQUENCE(_) | Args::BIND_CONN_TO_SESSION(_) | Args::DESTROY_SESSION(_))
}

/// Returns `true` if a minor version has an operation. RFC 7530 section 16, RFC 8881 section 17, RFC 7862 sections 13
/// and 14.2, RFC 8276 section 8.
pub(crate) fn is_in_minor_version(operation: Operation, minor_version: u32) -> bool {
    match operation {
        Operation::OPEN_CONFIRM
        | Operation::RENEW
        | Operation::SETCLIENTID
        | Operation::SETCLIENTID_CONFIRM
        | Operation::RELEASE_LOCKOWNER => minor_version == 0,
        Operation::GETDEVICELIST => minor_version == 1,
        _ => operation.first_minor_version() <= minor_version,
    }
}
