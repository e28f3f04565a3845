//! Compiles a capture to a trace.
//!
//! Each Transaction becomes a [`TraceStep`] as soon as the flow emits it, so that memory does not grow with the
//! capture. A [visitor](super::trace::run_dependent_field_visitor) finds identities and file data in its messages.
//! Equal identities on the same server become one variable ([`variable_table`], [`variable_resolution`]).

mod chunk_lengths;
mod endpoint_numbering;
mod lost_replies;
mod payload_and_substitution_slot_extraction;
mod variable_resolution;
mod variable_table;

use std::io::{self, Seek, Write};

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpc::gss::{self, GssProc};
use nfsrdma_dissectors::rpc::{self, Credential};
use nfsrdma_dissectors::xdr::{Cursor, Opaque, Text, XdrArray};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CapturedMessage, RpcMessageKind};
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};

use super::trace::file_format::{
    self, InitialFileExtent, ReplayTraceBlockKind, TraceFileDataRetention, TraceFileSystemObject, TraceFileTotals,
    TraceHost, TraceProvenance, TraceVariableWithoutDefiningStep,
};
use super::trace::run_dependent_field_visitor::SubstitutableFieldVisitor;
use super::trace::step::{
    GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState, SubstitutableMessageSlot,
    TraceCallConnectionAndSession, TraceProcedure, TraceReplySizeLimits, TraceSlotValueKind, TraceStep,
    TraceStepOrigin, VariableUseKind,
};
use super::trace::step_writer::ReplayTraceWriter;
use super::tree::inference::InitialFileContent;
use super::tree::inferred_object::{InferredObjectId, hash};
use super::tree::inferred_tree::InferredTree;
use chunk_lengths::CompiledChunkLengths;
use endpoint_numbering::TraceEndpointNumbers;
use lost_replies::LostReplies;
use payload_and_substitution_slot_extraction::CompiledMessage;
use variable_resolution::{
    IdentityVariableAssigner, MessageWithSubstitutableFieldVisitor, OperationFileAndOwnerVariables,
};

/// Counts of a compiled trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCompileCounts {
    /// Number of steps whose Call was not captured, or only in part.
    pub without_call: u64,
    /// Number of steps whose Reply was not captured, or only in part.
    pub without_reply: u64,
    /// The totals in the last block.
    pub end: TraceFileTotals,
}

/// Information about a Call that only the run has that sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayRunCallMetadata<'a> {
    /// Number of the copy of the clients, and of the captured client that it represents: all clients of a run share one
    /// address.
    pub client: (u32, u32),
    /// Indexes of the operations that use the filehandle of the directory that represents the root.
    pub root_operations: &'a [u32],
    /// The `id` of the replayed step; 0 if there is none.
    pub step: u64,
}

/// Compiles Transactions to a trace. Its functions return an error if the trace cannot be written.
#[derive(Debug)]
pub struct TraceCompiler<W> {
    writer: ReplayTraceWriter<W>,
    keeping: TraceFileDataRetention,
    key: u64,
    variable_resolver: IdentityVariableAssigner,
    endpoints: TraceEndpointNumbers,
    files: OperationFileAndOwnerVariables,
    tree: InferredTree,
    initial_contents: Vec<InitialFileContent>,
    lost_replies: LostReplies,
    call: CompiledMessage,
    reply: CompiledMessage,
    without_call: u64,
    without_reply: u64,
    /// Number of identities and counts of messages that were dropped at the limit per message.
    dropped_fields: u64,
}

impl<W: Write + Seek> TraceCompiler<W> {
    /// Begins a trace. The compiler uses at most about `memory_bytes` bytes besides the current Transaction.
    pub fn new(output: W, retention: TraceFileDataRetention, memory_bytes: usize) -> io::Result<Self> {
        // docs/trace.md: variables 5, tree 5, pending steps 2, contents 1, owners and endpoints 1, undefined variables
        // 1, steps without a reply 1.
        let unit_bytes = memory_bytes / 16;
        Ok(Self {
            writer: ReplayTraceWriter::new(output, 2 * unit_bytes, unit_bytes)?,
            keeping: retention,
            key: 0,
            variable_resolver: IdentityVariableAssigner::new(5 * unit_bytes, unit_bytes, unit_bytes / 2),
            endpoints: TraceEndpointNumbers::new(unit_bytes / 2),
            files: OperationFileAndOwnerVariables::default(),
            tree: InferredTree::new(5 * unit_bytes),
            initial_contents: Vec::new(),
            lost_replies: LostReplies::new(unit_bytes),
            call: CompiledMessage::default(),
            reply: CompiledMessage::default(),
            without_call: 0,
            without_reply: 0,
            dropped_fields: 0,
        })
    }

    /// Sets the key from which data is generated.
    #[must_use]
    pub fn with_key(mut self, key: u64) -> Self {
        self.key = key;
        self
    }

    /// Adds a Transaction of a run, with the information that only the run has.
    pub fn add_recorded(
        &mut self,
        transaction: &Transaction,
        run_context: ReplayRunCallMetadata<'_>,
    ) -> io::Result<()> {
        transaction.with_messages(|messages| self.compile_transaction(transaction, messages, true, run_context))
    }

    /// Adds a decoded Transaction. One that is not selected only updates variables and tree, as if it was done before
    /// the capture began.
    pub fn add(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        is_selected: bool,
    ) -> io::Result<()> {
        self.compile_transaction(transaction, messages, is_selected, ReplayRunCallMetadata::default())
    }

    fn compile_transaction(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        is_selected: bool,
        run_context: ReplayRunCallMetadata<'_>,
    ) -> io::Result<()> {
        let Self { keeping, variable_resolver, endpoints, files, call, reply, .. } = self;
        let summary = messages.summary();
        let trace_procedure = build_procedure(&summary, messages);
        let mut caller = endpoints.caller(transaction, &trace_procedure, run_context.client);
        let id = if is_selected { transaction.index } else { 0 };
        variable_resolver.now_ns = origin(transaction).time_ns;
        let procedure = trace_procedure.find_description();

        let mut call_visitor = SubstitutableFieldVisitor::new(false);
        let mut reply_visitor = SubstitutableFieldVisitor::new(true);
        // Fields before a decoding error remain valid; the rest of the message is opaque bytes.
        let _ = messages.observe_rpc(RpcMessageKind::Call, &mut call_visitor);
        let _ = messages.observe_rpc(RpcMessageKind::Reply, &mut reply_visitor);
        call.clear();
        reply.clear();
        if let Some((bytes, base_position)) = messages.rpc_bytes(RpcMessageKind::Call) {
            let visited = MessageWithSubstitutableFieldVisitor { visitor: &call_visitor, bytes, base_position };
            variable_resolver.resolve_call(&visited, procedure, id, &mut caller, files, &mut call.decoder_slots);
            let is_for_root = |slot: &SubstitutableMessageSlot| {
                slot.part == VariableUseKind::USED && run_context.root_operations.contains(&slot.operation)
            };
            for (_, slot) in call.decoder_slots.iter_mut().filter(|(_, slot)| is_for_root(slot)) {
                slot.part = VariableUseKind::FOR_ROOT;
            }
        }
        if let Some((bytes, base_position)) = messages.rpc_bytes(RpcMessageKind::Reply) {
            let visited = MessageWithSubstitutableFieldVisitor { visitor: &reply_visitor, bytes, base_position };
            variable_resolver.resolve_reply(&visited, id, &caller, files, &mut reply.decoder_slots);
        }
        if trace_procedure.minor_version != 0 {
            caller.owner = NONE;
        }
        call.compile(transaction, messages, RpcMessageKind::Call, &call_visitor);
        reply.compile(transaction, messages, RpcMessageKind::Reply, &reply_visitor);
        let TraceStepOrigin { time_ns, latency_ns, .. } = origin(transaction);
        self.tree.set_step_times([time_ns, time_ns.saturating_add(latency_ns)]);
        if !is_selected {
            return self.update_tree(id, &trace_procedure, &caller);
        }
        self.dropped_fields += call_visitor.dropped_fields + reply_visitor.dropped_fields;
        let offsets: Vec<_> = call_visitor.operations.iter().map(|operation| operation.offset).collect();
        for message in [&mut *call, &mut *reply] {
            message.store_payloads(*keeping, files, &offsets, &mut self.writer)?;
            self.writer.end.payload_bytes += message.payload_bytes();
            self.writer.end.unknown_bytes += message.unknown_bytes();
        }
        self.without_call += u64::from(call.completeness != MessageCaptureCompleteness::WHOLE);
        self.without_reply += u64::from(reply.completeness != MessageCaptureCompleteness::WHOLE);
        endpoints.record_step(transaction, &caller);
        let lengths = CompiledChunkLengths::from_transaction(transaction);
        let lists = lengths.segment_length_lists();
        let reply_head_bytes =
            (reply.completeness == MessageCaptureCompleteness::WHOLE).then_some(reply.head.len() as u32);
        let (message, payloads) = lengths.reply_needs(procedure, &call_visitor.operations, reply_head_bytes);
        let repeated_step = variable_resolver.find_repeated_step(id, &caller);
        let step = TraceStep {
            origin: TraceStepOrigin {
                repeats: transaction.retry_of.unwrap_or(repeated_step),
                run_of: run_context.step,
                ..origin(transaction)
            },
            caller,
            procedure: trace_procedure,
            call: call.message(),
            reply: reply.message(),
            shape: lengths.to_call_chunks(&lists),
            carried: lengths.to_transfer(transaction, &summary),
            needs: TraceReplySizeLimits { message_bytes: message, payloads: XdrArray::from(&payloads[..]) },
        };
        if !self.lost_replies.keep(&step) {
            self.writer.step(&step)?;
        }
        let TraceStep { caller, procedure: trace_procedure, .. } = step;
        self.update_tree(id, &trace_procedure, &caller)
    }

    /// Updates the tree from a Transaction, and stores the initial contents of files that it shows. `id` is 0 if it
    /// becomes no step.
    fn update_tree(
        &mut self,
        id: u64,
        procedure: &TraceProcedure,
        caller: &TraceCallConnectionAndSession,
    ) -> io::Result<()> {
        let Self { tree, initial_contents: contents, call, reply, writer, .. } = self;
        let input = super::tree::TreeInferenceStepInput {
            id,
            server: caller.server,
            is_reverse: caller.is_reverse,
            procedure,
            call: &call.message(),
            reply: &reply.message(),
            contents: [&|at| call.content(at), &|at| reply.content(at)],
        };
        tree.infer_from_step(&input, contents);
        let contents = contents.iter().filter(|_| id != 0);
        contents.filter_map(|content| extent(id, content, reply)).try_for_each(|extent| writer.extent(&extent))
    }

    /// Finishes the trace. Returns the output and the counts.
    pub fn finish(mut self, captures: &[String]) -> io::Result<(W, TraceCompileCounts)> {
        let IdentityVariableAssigner { undefined, unknown_owners, .. } = &mut self.variable_resolver;
        let inferred = self.lost_replies.finish(undefined, unknown_owners, &mut self.tree, &mut self.writer)?;
        self.tree.add_unnamed();
        let names: Vec<_> = captures.iter().take(1024).map(|name| Text(name.as_bytes())).collect();
        let program = concat!("nfsrdma-inspect ", env!("CARGO_PKG_VERSION"));
        let mut tables = self.writer.begin_tables(&TraceProvenance {
            program: Text(program.as_bytes()),
            captures: XdrArray::from(&names[..]),
            keeping: self.keeping,
            key: self.key,
        })?;
        for is_server in [false, true] {
            for (number, address) in self.endpoints.hosts(is_server) {
                let address = address.to_string();
                tables.add(
                    ReplayTraceBlockKind::HOSTS,
                    &TraceHost { number, is_server, address: Text(address.as_bytes()) },
                )?;
            }
        }
        for connection in self.endpoints.connections() {
            tables.add(ReplayTraceBlockKind::CONNECTIONS, &connection)?;
        }
        let is_undefined = |(variable, _): &(&u32, _)| !inferred.defined.contains(variable);
        let mut undefined: Vec<_> = self.variable_resolver.undefined.iter().filter(is_undefined).collect();
        undefined.sort_unstable_by_key(|(variable, _)| **variable);
        for (variable, usage) in undefined {
            let object = match usage.value_kind {
                TraceSlotValueKind::FILEHANDLE => self.tree.find_by_handle(*variable),
                _ => self.tree.find_by_handle(usage.file),
            };
            tables.add(
                ReplayTraceBlockKind::UNDEFINED,
                &TraceVariableWithoutDefiningStep {
                    variable: *variable,
                    value_kind: usage.value_kind,
                    value: Opaque(&usage.value),
                    step: usage.step,
                    uses: usage.uses,
                    object: object.filter(|_| !inferred.ambiguous.contains(variable)).map_or(NONE, |object| object.0),
                    access: usage.access,
                },
            )?;
        }
        for (number, node) in self.tree.nodes().iter().enumerate() {
            object(&mut tables, number as u32, node)?;
        }
        let end = &mut tables.writer.end;
        end.variables = self.variable_resolver.variables.len();
        end.forgotten = self.variable_resolver.variables.evicted();
        end.left_out = self.variable_resolver.unrecorded_variables + self.dropped_fields + self.tree.left_out();
        let (output, end) = tables.finish()?;
        let Self { without_call, without_reply, .. } = self;
        Ok((output, TraceCompileCounts { without_call, without_reply, end }))
    }
}

/// Returns an extent of the initial file contents that a READ found.
fn extent(step: u64, content: &InitialFileContent, reply: &CompiledMessage) -> Option<InitialFileExtent> {
    let payload = reply.payload(content.payload)?;
    let from = content.payload_offset as usize;
    let bytes = reply.content(content.payload).and_then(|bytes| bytes.get(from..from + content.length as usize));
    let is_zero = bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    Some(InitialFileExtent {
        object: content.object.0,
        offset: content.offset,
        length: content.length,
        content: if is_zero { PayloadContentState::ZEROS } else { payload.content },
        hash: bytes.map_or([0; 16], hash),
        data: payload.data
            + if payload.content == PayloadContentState::KEPT { u64::from(content.payload_offset) } else { 0 },
        step,
    })
}

fn object<W: Write + Seek>(
    tables: &mut super::trace::step_writer::ReplayTraceTableWriter<W>,
    number: u32,
    node: &super::tree::InferredObject,
) -> io::Result<()> {
    let parent = |parent: Option<InferredObjectId>| parent.map_or(NONE, |parent| parent.0);
    let names: Vec<_> = node
        .names
        .iter()
        .map(|name| file_format::TraceFileSystemObjectName {
            parent: parent(name.parent),
            name: Opaque(&name.name),
            step: name.step,
        })
        .collect();
    let changer = node.changer.map(|user| user.map(|number| number.to_string().into_bytes().into_boxed_slice()));
    let owners = node.owners.as_deref().or(changer.as_ref());
    let [owner, group] = owners.map_or([&[][..], &[]], |[owner, group]| [owner, group]);
    tables.add(
        ReplayTraceBlockKind::OBJECTS,
        &TraceFileSystemObject {
            number,
            existence: node.existence,
            step: node.step,
            file_type: node.initial_type(),
            names: XdrArray::from(&names[..]),
            handles: XdrArray::from(&node.handles[..]),
            server: node.server,
            size: node.size,
            is_size_known: node.is_size_known,
            mode: node.mode.unwrap_or(NONE),
            owner: Opaque(owner),
            group: Opaque(group),
            target: Opaque(&node.target),
            first: node.first,
            uses: node.uses,
        },
    )
}

fn build_procedure(summary: &RpcSummary, messages: &TransactionMessages<'_>) -> TraceProcedure {
    let header = messages
        .rpc_bytes(RpcMessageKind::Call)
        .and_then(|(bytes, _)| rpc::RpcMsg::decode(&mut Cursor::new(bytes), &mut NullFieldObserver).ok());
    let credential = header.as_ref().and_then(|message| message.call()).map(|call| &call.cred);
    let flavor = credential.map(Credential::tag);
    let is_data = credential.and_then(Credential::gss).is_none_or(|gss| gss.gss_proc == GssProc::RPCSEC_GSS_DATA);
    TraceProcedure {
        program: summary.program.map_or(NONE, |program| program.0),
        version: summary.version.unwrap_or(NONE),
        minor_version: summary.minor_version.unwrap_or(NONE),
        number: summary.procedure.unwrap_or(NONE),
        flavor: flavor.map_or(NONE, |flavor| flavor.0),
        protection: match summary.payload {
            // For example the destruction of a context.
            None | Some(gss::GssPayload::Plain) if !is_data => GssProtection::CONTROL,
            None | Some(gss::GssPayload::Plain) => GssProtection::PLAIN,
            Some(gss::GssPayload::Integrity) => GssProtection::INTEGRITY,
            Some(gss::GssPayload::Privacy) => GssProtection::PRIVACY,
            Some(gss::GssPayload::Control(_)) => GssProtection::CONTROL,
        },
    }
}

fn origin(transaction: &Transaction) -> TraceStepOrigin {
    let first = |message: Option<&CapturedMessage>| {
        message.and_then(|message| message.frames.first()).map_or(0, |FrameNumber(number)| *number)
    };
    let nanoseconds = |time: Timestamp| u64::try_from(time.0).unwrap_or(0);
    let (call, reply) = (transaction.call.as_ref(), transaction.reply.as_ref());
    let time = call.or(reply).map_or(0, |message| nanoseconds(message.time));
    TraceStepOrigin {
        id: transaction.index,
        repeats: 0,
        call_frame: first(call),
        reply_frame: first(reply),
        time_ns: time,
        latency_ns: reply.map_or(0, |reply| nanoseconds(reply.end_time).saturating_sub(time)),
        run_of: 0,
    }
}
