//! A Transaction as rules see it.

use std::cell::OnceCell;

use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::rpc::gss::GssPayload;
use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, RdmaProc, RpcRdmaMessageType, VERSION};
use nfsrdma_dissectors::xdr::{Cursor, RdmaMsgpPadding};
use nfsrdma_flow::NegotiatedParameters;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::transaction::{CallDirection, CapturedMessage, ChunkListCompleteness, EndpointRole, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};

use crate::compound_operations_view::{CompoundOperationIterator, OperationSet};
use crate::connection_history::ConformanceConnectionHistory;
use crate::ddp_eligible_items::DdpEligibleItems;
use crate::misrouted_replies::OrphanReply;
use crate::offered_memory_overlap::OfferedMemoryOverlap;
use crate::read_write_view::SuccessfulReadWrite;
use crate::required_evidence::{RequiredCaptureEvidence, RequiredCaptureEvidenceSet};
use crate::rule_applicability::{RequiredMessageProperty, RequiredMessagePropertySet};
use crate::session_table::{EndedSessionAsyncCopies, LastSessionSlotUse, SessionTable, SlotStateBeforeCompound};
use crate::unanswered_call_segments::AdvertisedResultSegments;
use crate::undefined_value::UndefinedValue;

const CREATE_SESSION: OperationSet = OperationSet::of(&[Operation::CREATE_SESSION]);
const READ_PLUS: OperationSet = OperationSet::of(&[Operation::READ_PLUS]);
const FILE_ACCESSES: OperationSet = OperationSet::of(&[Operation::READ, Operation::WRITE]);
/// Operations with a copy offload stateid. RFC 7862 section 4.8.
const OFFLOAD_OPERATIONS: OperationSet =
    OperationSet::of(&[Operation::COPY, Operation::OFFLOAD_CANCEL, Operation::OFFLOAD_STATUS]);

/// RPC-over-RDMA headers of a Transaction, unless neither message has chunks. They are large: views borrow them.
pub(crate) struct TransactionRpcRdmaHeaders<'t> {
    call: Option<AnyDialectHeader<'t>>,
    reply: Option<AnyDialectHeader<'t>>,
}

impl<'t> TransactionRpcRdmaHeaders<'t> {
    #[inline]
    pub(crate) fn decode(transaction: &'t Transaction) -> Self {
        let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
        let has_chunks = [call, reply].into_iter().flatten().any(|record| !record.has_no_chunks());
        let header_of = |record: Option<&'t CapturedMessage>| record.filter(|_| has_chunks)?.header();
        Self { call: header_of(call), reply: header_of(reply) }
    }
}

/// A Transaction with its decoded messages and the history of its connection and session.
pub(crate) struct ConformanceTransaction<'t> {
    pub(crate) transaction: &'t Transaction,
    pub(crate) call_message: Option<Cursor<'t>>,
    pub(crate) reply_message: Option<Cursor<'t>>,
    /// Procedure and arguments, inside their protection; see [`TransactionMessages::body`].
    pub(crate) arguments: Option<(Procedure, Cursor<'t>)>,
    /// Procedure and results, inside their protection.
    pub(crate) results: Option<(Procedure, Cursor<'t>)>,
    /// Program, procedure and result.
    pub(crate) summary: &'t RpcSummary,
    /// Facts from earlier messages of the connection.
    pub(crate) connection: &'t ConformanceConnectionHistory,
    /// Reply to the Call on another connection.
    pub(crate) reply_elsewhere: Option<OrphanReply>,
    /// State of the slot before the COMPOUND or CB_COMPOUND, if the session is known.
    pub(crate) slot: Option<SlotStateBeforeCompound>,
    /// Last use of the slot of the COMPOUND or CB_COMPOUND, whether or not the creation of its session was captured.
    pub(crate) last_use: Option<LastSessionSlotUse>,
    /// Asynchronous copies of the session that the COMPOUND destroys.
    pub(crate) ended_copies: Option<EndedSessionAsyncCopies>,
    /// Operations of a COMPOUND or CB_COMPOUND with their arguments and results; none for other procedures.
    pub(crate) operations: &'t CompoundOperationIterator<'t>,
    headers: &'t TransactionRpcRdmaHeaders<'t>,
    file_accesses: OnceCell<Vec<SuccessfulReadWrite>>,
    /// Memory that another Call in flight offered, too.
    pub(crate) overlap: Option<OfferedMemoryOverlap>,
    /// Memory for results of the Call that this one repeats on another connection, if it is known.
    pub(crate) earlier_memory: Option<AdvertisedResultSegments>,
    /// `true` if an RDMA Read or Write that was not permitted is attributed to the Transaction.
    pub(crate) has_invalid_access: bool,
    /// DDP-eligible items of the Call, and of the Reply, and if they have undefined values; decoded when a rule asks.
    eligible_items: [OnceCell<Option<DdpEligibleItems>>; 2],
}

impl<'t> ConformanceTransaction<'t> {
    /// Returns `true` if arguments and results are neither encrypted nor signed: RFC 8166 section 8.2.2.3 forbids
    /// chunks for others.
    pub(crate) fn is_plain(&self) -> bool {
        self.summary.payload == Some(GssPayload::Plain)
    }

    pub(crate) fn new<'a: 't>(
        transaction: &'t Transaction,
        messages: &'t TransactionMessages<'a>,
        summary: &'t RpcSummary,
        (headers, operations): (&'t TransactionRpcRdmaHeaders<'t>, &'t CompoundOperationIterator<'t>),
        connection: &'t ConformanceConnectionHistory,
        sessions: &SessionTable,
    ) -> Self {
        let (arguments, results) = (messages.body(RpcMessageKind::Call), messages.body(RpcMessageKind::Reply));
        Self {
            transaction,
            call_message: messages.cursor(RpcMessageKind::Call),
            reply_message: messages.cursor(RpcMessageKind::Reply),
            arguments,
            results,
            summary,
            connection,
            reply_elsewhere: None,
            ended_copies: sessions.ended_copies(transaction, operations),
            slot: sessions.slot(transaction, operations),
            last_use: sessions.last_use(transaction, operations),
            operations,
            headers,
            file_accesses: OnceCell::new(),
            overlap: None,
            earlier_memory: None,
            has_invalid_access: false,
            eligible_items: Default::default(),
        }
    }

    /// Returns the READs and WRITEs that succeeded.
    pub(crate) fn file_accesses(&self) -> &[SuccessfulReadWrite] {
        self.file_accesses
            .get_or_init(|| SuccessfulReadWrite::of_transaction(self.arguments, self.results, self.operations))
    }

    /// Returns the DDP-eligible items of a message; `None` if its arguments or results cannot be located.
    pub(crate) fn eligible_items(&self, kind: RpcMessageKind) -> Option<&DdpEligibleItems> {
        let [call, reply] = &self.eligible_items;
        let (cell, body) = match kind {
            RpcMessageKind::Call => (call, self.arguments),
            RpcMessageKind::Reply => (reply, self.results),
        };
        cell.get_or_init(|| body.map(|body| DdpEligibleItems::decode(body, kind))).as_ref()
    }

    /// Returns the first value of the arguments or results that its type does not define.
    pub(crate) fn undefined_value(&self, kind: RpcMessageKind) -> Option<UndefinedValue> {
        let [of_call, of_reply] = self.operations.has_undefined;
        let (of_operations, body) = match kind {
            RpcMessageKind::Call => (of_call, self.arguments),
            RpcMessageKind::Reply => (of_reply, self.results),
        };
        let has_undefined =
            of_operations.unwrap_or_else(|| self.eligible_items(kind).is_some_and(|items| items.has_undefined));
        if has_undefined { UndefinedValue::find(body?, kind) } else { None }
    }

    pub(crate) fn requester(&self) -> EndpointRole {
        match self.transaction.direction {
            CallDirection::Forward => EndpointRole::Client,
            CallDirection::Reverse => EndpointRole::Server,
        }
    }

    pub(crate) fn responder(&self) -> EndpointRole {
        self.requester().peer()
    }

    pub(crate) fn call(&self) -> Option<&'t CapturedMessage> {
        self.transaction.call.as_ref()
    }

    pub(crate) fn reply(&self) -> Option<&'t CapturedMessage> {
        self.transaction.reply.as_ref()
    }

    /// Returns the chunks of the Call: Read chunks, Write chunks and the Reply chunk.
    pub(crate) fn offered_chunks(&self) -> impl Iterator<Item = &'t Chunk> + use<'t> {
        let transaction: &'t Transaction = self.transaction;
        transaction.read_chunks.iter().chain(&transaction.write_chunks).chain(&transaction.reply_chunk)
    }

    /// Returns `true` if the connection follows RFC 5666 instead of RFC 8166: a Requester has fetched the Read chunks
    /// of a Reply.
    pub(crate) fn is_rfc5666(&self) -> bool {
        let reads = &self.transaction.reply_read_chunks;
        let is_fetched = self.transaction.is_done || reads.iter().any(|chunk| chunk.moved_bytes() > 0);
        self.connection.is_rfc5666 || (!reads.is_empty() && is_fetched)
    }

    pub(crate) fn is_nfs4(&self) -> bool {
        (self.summary.program, self.summary.version) == (Some(Program::NFS), Some(4))
    }

    pub(crate) fn set_up(&self) -> Option<&'t NegotiatedParameters> {
        self.transaction.set_up.as_deref()
    }

    /// Returns the inline threshold in bytes for a message of this side.
    pub(crate) fn inline_threshold_bytes(&self, sender: EndpointRole) -> Option<u32> {
        let (to_server, to_client) = self.set_up()?.inline_thresholds()?;
        Some(match sender {
            EndpointRole::Client => to_server,
            EndpointRole::Server => to_client,
        })
    }

    /// Returns `true` if the Call may be a COMPOUND or CB_COMPOUND of which not even the first operation is known.
    pub(crate) fn is_unknown_compound(&self) -> bool {
        let summary = self.summary;
        let (Some(program), Some(version), Some(procedure)) = (summary.program, summary.version, summary.procedure)
        else {
            return true;
        };
        let procedure = Procedure::from_numbers(program, version, procedure);
        let is_compound = matches!(procedure, Some(Procedure::Compound | Procedure::CbCompound));
        let operations = self.operations;
        is_compound
            && (operations.tag.is_none() || (operations.numbers().next().is_none() && operations.operation_count > 0))
    }

    /// Returns the header of a message; `None` if neither message has chunks, or if it is truncated or malformed.
    pub(crate) fn header(&self, kind: RpcMessageKind) -> Option<&AnyDialectHeader<'t>> {
        match kind {
            RpcMessageKind::Call => self.headers.call.as_ref(),
            RpcMessageKind::Reply => self.headers.reply.as_ref(),
        }
    }

    /// Returns `true` if arguments or results are signed, encrypted, or of a control message of RPCSEC_GSS.
    pub(crate) fn is_protected(&self) -> bool {
        self.summary.payload.is_some_and(|payload| payload != GssPayload::Plain)
    }

    fn has_complete_call_lists(&self) -> bool {
        self.call().and_then(CapturedMessage::chunk_lists) == Some(ChunkListCompleteness::Complete)
    }

    /// Returns `true` if the Call has Write chunks, or if the capture lacks its chunk lists.
    pub(crate) fn may_have_write_chunks(&self) -> bool {
        !self.transaction.write_chunks.is_empty() || !self.has_complete_call_lists()
    }

    /// Returns `true` unless the header of a message is that of an RDMA_MSG of version 1 with credits, on a connection
    /// of this version, an RPC message with the same XID follows it, and all of it was captured.
    pub(crate) fn has_unusual_header(&self, record: &CapturedMessage) -> bool {
        const USUAL: RpcRdmaMessageType = RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSG);
        let is_usual = record
            .rpcrdma
            .is_some_and(|words| words.message_type == USUAL && words.version == VERSION && words.credits > 0);
        let call_version = self.call().and_then(|call| call.rpcrdma).map(|words| words.version);
        let mut versions = [self.connection.version, call_version].into_iter().flatten();
        let has_version = versions.all(|version| version == VERSION);
        let has_message = record.inline_length().is_some_and(|length| length > 0);
        let xid = self.transaction.xid.0.to_be_bytes();
        let has_xid = record.inline_bytes().get(..4).is_none_or(|first| first == xid);
        !(is_usual && has_version && has_message && has_xid && record.gaps.is_empty())
    }

    /// Returns `true` if the COMPOUND has the sequence ID of the last use of its slot.
    fn is_repeated_sequence(&self) -> bool {
        { self.operations.sequence }
            .zip(self.last_use)
            .is_some_and(|(sequence, last_use)| sequence.sequence_id == last_use.sequence_id)
    }

    /// Returns `true` if the Transaction has a READ or a WRITE that succeeded.
    fn has_file_access(&self) -> bool {
        let may_access = self.operations.has_any(FILE_ACCESSES) || self.operations.status.is_none();
        may_access && !self.file_accesses().is_empty()
    }

    /// Returns `true` if the COMPOUND or CB_COMPOUND is the next use of its slot after a use with a Reply, its slots
    /// were granted, and its results repeat the session, slot and sequence ID.
    pub(crate) fn has_usual_sequence(&self) -> bool {
        let (Some(slot), Some(call)) = (&self.slot, self.call()) else { return false };
        let (Some(sent), Some(returned)) = (&self.operations.sequence, &self.operations.sequence_result) else {
            return false;
        };
        let follows = |last_use: &LastSessionSlotUse| {
            sent.sequence_id == last_use.sequence_id.wrapping_add(1)
                && last_use.is_before(self.transaction, call.time)
                && last_use.reply_time.is_some_and(|reply_time| reply_time <= call.time)
        };
        slot.last_use.as_ref().is_some_and(follows)
            && sent.is_echoed_by(returned)
            && sent.slot <= sent.highest_slot
            && sent.highest_slot <= slot.highest_granted_slot.min(returned.highest_slot)
            && slot.minor_version == self.operations.minor_version
    }

    /// Returns `true` if both messages go inline and are within the limits of the session's channel.
    fn is_within_limits(&self) -> bool {
        let (Some(slot), Some(call), Some(reply)) = (&self.slot, self.call(), self.reply()) else {
            return false;
        };
        let limits = &slot.limits;
        let response_limit = limits.max_response_bytes.min(limits.max_cached_response_bytes);
        let is_within = |message: &CapturedMessage, limit: u32| {
            message.has_no_chunks()
                && message.padding() == RdmaMsgpPadding::default()
                && message.inline_length().is_some_and(|length| length <= limit as usize)
        };
        self.offered_chunks().next().is_none()
            && is_within(call, limits.max_request_bytes)
            && is_within(reply, response_limit)
            && self.operations.operation_count <= limits.max_operations
    }

    pub(crate) fn subjects(&self) -> RequiredMessagePropertySet {
        let transaction = self.transaction;
        let (call, reply) = (self.call(), self.reply());
        let may_have_chunks = !self.has_complete_call_lists();
        let has_chunks = |record: Option<&CapturedMessage>| record.is_none_or(|record| !record.has_no_chunks());
        let (summary, operations) = (self.summary, self.operations);
        let has_usual_sequence = self.has_usual_sequence();
        RequiredMessagePropertySet::default()
            .with(RequiredMessageProperty::Call, call.is_some())
            .with(RequiredMessageProperty::Reply, reply.is_some())
            .with(RequiredMessageProperty::RdmaError, reply.is_some_and(CapturedMessage::is_rdma_error))
            .with(RequiredMessageProperty::Reverse, transaction.direction == CallDirection::Reverse)
            .with(RequiredMessageProperty::ReadChunks, may_have_chunks || !transaction.read_chunks.is_empty())
            .with(RequiredMessageProperty::WriteChunks, self.may_have_write_chunks())
            .with(RequiredMessageProperty::Chunks, has_chunks(call) || has_chunks(reply))
            .with(RequiredMessageProperty::Protected, self.is_protected())
            .with(RequiredMessageProperty::Invalidation, reply.is_some_and(|reply| reply.invalidated_handle.is_some()))
            .with(RequiredMessageProperty::Sequence, operations.sequence.is_some())
            .with(RequiredMessageProperty::Compound, operations.tag.is_some() || operations.status.is_some())
            .with(RequiredMessageProperty::FirstOfConnection, self.connection.first_frame.is_none())
            .with(RequiredMessageProperty::UnusualHeader, call.is_some_and(|call| self.has_unusual_header(call)))
            .with(RequiredMessageProperty::Undecodable, self.may_be_malformed())
            .with(RequiredMessageProperty::Failure, operations.failure.is_some())
            .with(
                RequiredMessageProperty::Refusal,
                !self.connection.refused_xids.is_empty() || reply.is_some_and(CapturedMessage::is_rdma_error),
            )
            .with(RequiredMessageProperty::NullProcedure, summary.procedure == Some(0))
            .with(RequiredMessageProperty::RepeatedCall, transaction.retry_of.is_some())
            .with(RequiredMessageProperty::FirstOfNfs4, self.is_nfs4() && !self.connection.has_nfs4)
            .with(RequiredMessageProperty::SuccessfulReadWrite, self.has_file_access())
            .with(RequiredMessageProperty::RepeatedSequence, self.is_repeated_sequence())
            .with(RequiredMessageProperty::MinorVersion0, operations.tag.is_some() && operations.minor_version == 0)
            .with(RequiredMessageProperty::CreateSession, operations.has_any(CREATE_SESSION))
            .with(RequiredMessageProperty::ReadPlus, operations.has_any(READ_PLUS))
            .with(RequiredMessageProperty::Offload, operations.has_any(OFFLOAD_OPERATIONS))
            .with(
                RequiredMessageProperty::SessionVersion,
                operations.tag.is_some() && matches!(operations.minor_version, 1 | 2),
            )
            .with(RequiredMessageProperty::ReservedOperation, operations.has_reserved)
            .with(RequiredMessageProperty::UnusualCompound, !operations.is_usual || summary.call_error.is_some())
            .with(RequiredMessageProperty::FirstSlotUse, self.slot.as_ref().is_none_or(|slot| slot.last_use.is_none()))
            .with(RequiredMessageProperty::UnusualSequence, !has_usual_sequence)
            .with(RequiredMessageProperty::LargeMessage, !(has_usual_sequence && self.is_within_limits()))
    }

    /// Returns `true` if a message is not decoded to its end, or has a value that its type does not define.
    fn may_be_malformed(&self) -> bool {
        self.summary.call_error.is_some()
            || self.summary.reply_error.is_some()
            || [RpcMessageKind::Call, RpcMessageKind::Reply].iter().any(|kind| self.undefined_value(*kind).is_some())
    }

    /// Returns `true` if the kind of each message is known: a Call and its Reply show each other's.
    fn are_kinds_known(&self) -> bool {
        match (self.call(), self.reply()) {
            (Some(_), Some(_)) => true,
            (call, reply) => call.or(reply).is_none_or(|record| record.is_kind_known),
        }
    }

    pub(crate) fn evidence(&self) -> RequiredCaptureEvidenceSet {
        let records = || [self.call(), self.reply()].into_iter().flatten();
        let are_kinds_known = self.are_kinds_known();
        let has_lists = are_kinds_known && { records().filter_map(CapturedMessage::chunk_lists) }
            .all(|lists| lists == ChunkListCompleteness::Complete);
        let is_whole = records().all(|record| record.gaps.is_empty() && record.bytes.len() >= record.length);
        // Only SEQUENCE and CB_SEQUENCE name a session.
        let has_session = self.slot.is_some() || self.operations.sequence.is_none();
        let has_set_up = self.transaction.set_up.as_ref().is_some_and(|set_up| !set_up.is_cut);
        let has_grant = has_set_up || self.transaction.credit_use.has_grant_when_idle;
        RequiredCaptureEvidenceSet::default()
            .with(RequiredCaptureEvidence::SetUp, has_set_up)
            .with(RequiredCaptureEvidence::Grant, has_grant)
            .with(RequiredCaptureEvidence::BothMessages, self.call().is_some() && self.reply().is_some())
            .with(RequiredCaptureEvidence::ChunkLists, has_lists)
            .with(RequiredCaptureEvidence::NoLoss, self.transaction.credit_use.is_exact)
            .with(RequiredCaptureEvidence::NoGap, self.transaction.credit_use.is_gapless)
            .with(RequiredCaptureEvidence::MessageKind, are_kinds_known)
            .with(RequiredCaptureEvidence::WholeMessage, is_whole)
            .with(RequiredCaptureEvidence::Session, has_session)
    }
}
