//! Turns steps into Calls of this run and sends them; sends Calls again whose connection was lost.

use std::io::{Read, Seek};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::v4::Operation;
use nfsrdma_dissectors::rpc::auth::{AuthNoneVerifier, AuthNoneVerifierBody, AuthSys, Flavor};
use nfsrdma_dissectors::rpc::{self, Credential, Program, Verifier, Xid, universal_address};
use nfsrdma_dissectors::xdr::{Encoder, Text, Xdr, XdrArray};
use nfsrdma_rpc::{
    CallTag, CapturedCallChunkLayout, DdpEligibleArgument, OutgoingRpcCall, PayloadContentLocation,
    PermanentSubmitRefusal, ReplySizeLimits, RequestedCallForm, SubmitError,
};

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::captured_open_grants::CapturedStepOpenGrants;
use super::super::dependencies::effects::OperationEffect;
use super::super::file_divergence::{FileDivergence, record_divergence};
use super::super::recovery;
use super::super::root_and_attribute_rewriting::{self, NO_DELEGATION_REASON, rewrite_compound};
use super::super::step_outcome::StepOutcome;
use super::super::trace_recording::{ReplayRecorderSentCall, with_recorder};
use super::live_call_builder::LiveCallBuilder;
use super::replay_engine::{REPLY_HEADROOM_BYTES, ReplayEngine};
use super::send_result::StepSendObstacle;
use super::step_window::{SplitIoPiece, StepWindowEntry, call_tag, unreadable_state};
use super::unbound_variable_reason::UnboundVariableReason;
use crate::containment::{ContainmentCheckedTransport, ReplyIdentifierKinds};
use crate::trace::error::TraceError;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{
    ChunkSegmentLengths, GssProtection, NONE, TracePayload, TraceProcedure, TraceSlotValueKind, TraceStep,
};
use crate::trace::value_substitution::captured_value;

/// Filler for the unused entries of a Call's payload array.
const NO_PAYLOAD: DdpEligibleArgument<'static> =
    DdpEligibleArgument { position: 0, source: PayloadContentLocation::Copied(&[]) };

impl LiveCallBuilder {
    /// Returns the state text of a step that would find an object that the server did not accept, which is not there,
    /// or create it again, as another object.
    fn needs_refused_object(&self, step: &TraceStep<'_>, parts: &CallOperationsAndFiles) -> Option<String> {
        let is_by_name = |effect: &OperationEffect| {
            matches!(effect, OperationEffect::Create(_) | OperationEffect::Open(..) | OperationEffect::Lookup(_))
        };
        if self.missing_values.is_empty() || !parts.effects.iter().any(is_by_name) {
            return None;
        }
        let mut files = step.reply.variables(TraceSlotValueKind::FILEHANDLE);
        let reason = files.find_map(|file| self.missing_values.get(&file).copied());
        reason.filter(|reason| *reason == UnboundVariableReason::Object).map(UnboundVariableReason::text)
    }

    /// Returns the reason for not sending a Call: a value is missing and the captured one would refer to something
    /// else.
    pub(super) fn missing_value_reason(&self, is_emitted: bool) -> Option<String> {
        let Some(slot) = self.values.unbound() else {
            return (!is_emitted).then(|| "wrong-slot: a field of the call cannot hold its value".into());
        };
        Some(if let Some(reason) = self.missing_values.get(&slot.variable) {
            reason.text()
        } else if let Some(reason) = self.refused_opens.get(&slot.variable) {
            format!("no-value: a file that was opened before the capture: {reason}")
        } else {
            format!("no-value: no reply of this run returned the {}", slot.value_kind.display_name())
        })
    }

    /// Reads the file data of the Call. Calls `notice` for each file and range whose data the trace does not have.
    fn read_payloads<R: Read + Seek>(
        &mut self,
        step: &TraceStep<'_>,
        piece: Option<SplitIoPiece>,
        contents: &mut ReplayTraceReader<R>,
        mut notice: impl FnMut(u32, FileDivergence),
    ) -> Result<(), TraceError> {
        self.buffers.resize_with(self.buffers.len().max(self.placed.len()), Vec::new);
        for (placed, buffer) in self.placed.iter().zip(&mut self.buffers) {
            let is_known = match piece {
                None => contents.content_or_generated(&placed.payload, buffer)?,
                Some(piece) => {
                    let payload = step.call.payloads.iter().find(|payload| !payload.is_inside);
                    let payload = payload.unwrap_or_else(|| placed.payload.clone());
                    let is_known = contents.content_or_generated(&payload, buffer)?;
                    buffer.drain(..buffer.len().min(piece.done_bytes as usize));
                    buffer.truncate(piece.length_bytes as usize);
                    is_known
                }
            };
            // Later reads of this range differ from the capture.
            if !is_known && placed.payload.file != NONE {
                let TracePayload { offset, length, .. } = placed.payload;
                let end = offset.saturating_add(length.into());
                notice(placed.payload.file, FileDivergence::from_data_range(offset, end));
            }
        }
        Ok(())
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    pub(super) fn send(
        &mut self,
        window_index: u32,
        entry: &mut StepWindowEntry,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), StepSendObstacle> {
        let StepWindowEntry { step: stored_step, description: parts, .. } = &*entry;
        let Some(step) = stored_step.trace_step() else {
            return Err(unreadable_state().into());
        };
        if !matches!(Program(step.procedure.program), Program::NFS | Program::NFSACL) {
            return Err(self.call_auxiliary(entry));
        }
        if let Some(reason) = self.call_builder.needs_refused_object(&step, parts) {
            return Err(StepSendObstacle::unreplayable(reason));
        }
        self.bind_deferred_for(&step);
        if entry.resend.is_pending {
            return match self.resend(window_index, entry, transport) {
                Err(StepSendObstacle::Finished(StepOutcome::Unreplayable(reason))) => {
                    let cause = match (entry.resend.is_denied, entry.resend.was_unbound) {
                        (true, true) => enumerator_names::NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
                        (true, false) => enumerator_names::MSG_DENIED,
                        (false, _) => "the connection went away",
                    };
                    Err(self.unanswered_state(entry, &format!("{cause}; {reason}"))?.into())
                }
                result => result,
            };
        }
        if let Some(state) = self.call_builder.not_reclaimed_state(entry, &step) {
            return Err(state.into());
        }
        let root = &self.context.seeded.root;
        let substituted = self.call_builder.substituted_stateids(&step);
        let returns_delegation = parts.operations.contains(&Operation::DELEGRETURN);
        if returns_delegation {
            let mut stateids = step.call.variables(TraceSlotValueKind::STATEID);
            let is_lost = |variable| {
                self.call_builder.values.get(variable).is_none()
                    && !self.call_builder.refused_opens.contains_key(&variable)
            };
            if stateids.any(is_lost) || substituted.iter().any(|substitute| !substitute.has_own_owner) {
                return Err(StepSendObstacle::Finished(StepOutcome::Skipped(NO_DELEGATION_REASON.into())));
            }
        }
        let slot = entry.captured.slot.and_then(|(session, slot)| {
            let live_session = self.call_builder.values.session(session)?;
            let slot = live_session.slot(slot);
            live_session.is_busy(slot).then_some((session, slot))
        });
        if let Some(slot) = slot {
            return Err(StepSendObstacle::SlotBusy(slot));
        }
        let number = self.live_connection(&step, transport)?;
        let Some(line) = self.connections.lines.get_mut(number) else {
            return Err(StepSendObstacle::Parked(number));
        };
        let xid = line.next_xid();
        let header = replacement_header(&step, xid);
        let is_unsigned = header.is_some() && self.call_builder.signing.is_none();
        let is_emitted = self.call_builder.emit_call(&step, header, xid, entry.captured.slot);
        let has_operation = |operation| parts.operations.contains(&operation);
        let opens = match !self.context.options.keeps_requested_wants && has_operation(Operation::OPEN) {
            true => CapturedStepOpenGrants::wants_of_step(&step),
            false => CapturedStepOpenGrants::default(),
        };
        let callback = match has_operation(Operation::SETCLIENTID) {
            true => self.callback_address(&step, number, transport),
            false => None,
        };
        let live_server = root_and_attribute_rewriting::CompoundRewriteContext {
            root,
            supported: self.context.seeded.supported.as_deref().filter(|_| !self.context.options.strict),
            opens: &opens,
            is_unsigned,
            callback,
            substituted_stateids: &substituted,
            times: [
                Duration::from_nanos(step.origin.time_ns),
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            ],
        };
        let is_adaptable = !substituted.is_empty() || parts.is_adaptable(live_server.supported);
        let adapted = match is_adaptable && is_emitted {
            true => rewrite_compound(&mut self.call_builder.call_buffer, &mut self.call_builder.placed, live_server),
            false => None,
        };
        let adapted = adapted.unwrap_or_default();
        let is_rerooted = !parts.has_root() || adapted.has_replaced_root;
        let refusal = match self.call_builder.missing_value_reason(is_emitted) {
            None if !is_rerooted => Some("root: PUTFH of the run's root cannot replace PUTROOTFH".into()),
            None if self.call_builder.placed.len() > OutgoingRpcCall::MAX_PAYLOADS => {
                Some("payloads: more than a call can carry".into())
            }
            reason => reason,
        };
        if let Some(reason) = refusal {
            return Err(StepSendObstacle::unreplayable(reason));
        }
        if let Some(listing) = &entry.rewrites.listing
            && self.call_builder.set_listing_position(&step, listing).is_none()
        {
            return Err(StepSendObstacle::unreplayable("listing: its READDIR cannot be sent with another cookie"));
        }
        let piece = self.call_builder.limit_io(
            &step,
            parts,
            (entry.captured.slot, entry.rewrites.piece),
            self.context.seeded.io,
        )?;
        let tag = call_tag(self.context.number, window_index, entry.turn);
        // The CLOSE of an open of this program is not a step of the capture.
        let is_recorded = !returns_delegation || substituted.is_empty();
        let (sent, reply_identifiers) =
            self.submit(&step, (parts, piece), (number, xid, tag), transport, is_recorded)?;
        if let Some(mut piece) = piece {
            piece.first_sent.get_or_insert(sent);
            if entry.rewrites.piece.is_none() {
                entry.read_data.clear();
            }
            entry.rewrites.piece = Some(piece);
        }
        if returns_delegation {
            entry.rewrites.is_substituted = !substituted.is_empty();
            for substitute in &substituted {
                self.call_builder.values.add_seqid(substitute.variable, substitute.operation as u32, substitute.seqid);
            }
        }
        self.call_builder.values.swap_counts(&mut entry.call.counts);
        if let Some(slot) = entry.call.counts.slot {
            self.call_builder.values.set_slot_state(slot, true, false);
        }
        entry.call.recoveries_at_send = self.connections.recoveries;
        entry.rewrites.has_dropped_attributes = adapted.has_changed_attributes;
        entry.rewrites.has_changed_wants = adapted.has_changed_wants;
        self.scheduler.pacer.sent += u64::from(entry.delay_retries == 0);
        self.mark_in_flight((number, tag, sent), reply_identifiers, entry);
        Ok(())
    }

    /// Sends a Call again unchanged, on the slot that it still has. RFC 8881 section 2.10.6.2.
    fn resend(
        &mut self,
        window_index: u32,
        entry: &mut StepWindowEntry,
        transport: &mut ContainmentCheckedTransport<'_>,
    ) -> Result<(), StepSendObstacle> {
        let is_recorded = !entry.rewrites.is_substituted;
        let StepWindowEntry { step: stored_step, description: parts, call, turn, rewrites, .. } = &mut *entry;
        let (sent, placed) = (&mut call.message, &mut call.placed);
        let (Some(step), Some(xid)) = (stored_step.trace_step(), recovery::xid(sent)) else {
            return Err(unreadable_state().into());
        };
        let number = self.live_connection(&step, transport)?;
        let tag = call_tag(self.context.number, window_index, *turn);
        std::mem::swap(&mut self.call_builder.call_buffer, sent);
        std::mem::swap(&mut self.call_builder.placed, placed);
        let submitted = self.submit(&step, (parts, rewrites.piece), (number, xid, tag), transport, is_recorded);
        if submitted.is_err() {
            std::mem::swap(&mut self.call_builder.call_buffer, sent);
            std::mem::swap(&mut self.call_builder.placed, placed);
        }
        let (sent_at, reply_identifiers) = submitted?;
        self.report.recovery.resent += u64::from(!entry.resend.is_denied);
        (entry.resend.is_pending, entry.resend.is_denied) = (false, false);
        self.mark_in_flight((number, tag, sent_at), reply_identifiers, entry);
        Ok(())
    }

    /// Returns the callback address for the client of a SETCLIENTID. RFC 7530 section 16.33.
    fn callback_address(
        &mut self,
        step: &TraceStep<'_>,
        number: usize,
        transport: &ContainmentCheckedTransport<'_>,
    ) -> Option<SocketAddr> {
        let message = &step.call;
        // A captured client without a callback address was granted no delegation.
        let is_listening = message.slots.iter().any(|slot| {
            let is_host = slot.value_kind == TraceSlotValueKind::HOST && slot.at >= message.body;
            let text = captured_value(message.head.0, &slot).filter(|_| is_host);
            let address = text.and_then(universal_address::parse);
            address.is_some_and(|address| address.port() != 0 && !address.ip().is_unspecified())
        });
        let terms = self.connections.lines.get(number).and_then(|line| transport.terms(line.connection));
        let address = self
            .context
            .callbacks
            .address((self.context.number, step.caller.client), terms.filter(|_| is_listening)?)?;
        self.call_builder
            .containment
            .add_callback_address(SocketAddr::new(address.ip().to_canonical(), address.port()));
        Some(address)
    }

    /// Submits the emitted Call. Returns its send time and the identifiers that its Reply may give, or the outcome if
    /// it could not be sent.
    fn submit(
        &mut self,
        step: &TraceStep<'_>,
        (parts, piece): (&CallOperationsAndFiles, Option<SplitIoPiece>),
        (number, xid, tag): (usize, Xid, CallTag),
        transport: &mut ContainmentCheckedTransport<'_>,
        is_recorded: bool,
    ) -> Result<(Instant, ReplyIdentifierKinds), StepSendObstacle> {
        let Some(connection) = self.connections.lines.get(number).map(|line| line.connection) else {
            return Err(StepSendObstacle::Parked(number));
        };
        self.call_builder.check_signing(step, number)?;
        if self.call_builder.is_window_full(step, self.scheduler.window.signatures()) {
            return Err(StepSendObstacle::Parked(number));
        }
        let files = &mut self.verification.divergent_files;
        self.call_builder.read_payloads(step, piece, self.contents, |file, touched| {
            record_divergence(files, file, &touched);
        })?;
        let signed = self.call_builder.sign(step, xid);
        let is_signed = signed.map_err(|error| StepSendObstacle::unreplayable(format_args!("security: {error}")))?;
        let (message, placed) = match self.call_builder.signing.as_ref().filter(|_| is_signed) {
            Some(signing) => (&signing.message, &signing.placed),
            None => (&self.call_builder.call_buffer, &self.call_builder.placed),
        };
        let mut payloads = [NO_PAYLOAD; OutgoingRpcCall::MAX_PAYLOADS];
        for ((payload, placed), content) in payloads.iter_mut().zip(placed).zip(&self.call_builder.buffers) {
            *payload =
                DdpEligibleArgument { position: placed.position, source: PayloadContentLocation::Copied(content) };
        }
        let is_whole = is_signed && step.procedure.protection == GssProtection::INTEGRITY;
        let max_payloads = if is_whole { 0 } else { OutgoingRpcCall::MAX_PAYLOADS };
        self.call_builder.needs.clear();
        let piece_bytes = piece.map_or(u32::MAX, |piece| piece.length_bytes);
        self.call_builder
            .needs
            .extend(step.needs.payloads.iter().take(max_payloads).map(|bytes| bytes.min(piece_bytes)));
        let chunks =
            (self.context.options.captured_chunks && piece.is_none()).then(|| CapturedCallChunkLengths::of(step));
        let lists = chunks.as_ref().map(CapturedCallChunkLengths::lists);
        // A captured Reply chunk keeps its captured size.
        let lengths = chunks.iter().flat_map(|chunks| &chunks.reply);
        let reply_chunk_bytes = lengths.fold(0, |sum: u32, length| sum.saturating_add(*length));
        // Protected data is part of the message.
        let inline_bytes =
            step.needs.payloads.iter().filter(|_| is_whole).fold(REPLY_HEADROOM_BYTES, u32::saturating_add);
        let expected = if reply_chunk_bytes > 0 {
            reply_chunk_bytes
        } else {
            step.needs.message_bytes.saturating_add(inline_bytes)
        };
        let call = OutgoingRpcCall {
            xid,
            tag,
            message,
            payloads: payloads.get(..placed.len()).unwrap_or_default(),
            reply: ReplySizeLimits { message_bytes: expected, payloads: &self.call_builder.needs },
            requested_form: match chunks.as_ref().zip(lists.as_ref()) {
                Some((chunks, lists)) => RequestedCallForm::Captured(chunks.shape(lists)),
                None => RequestedCallForm::Fitting,
            },
        };
        let call = self.call_builder.containment.check_call(call).map_err(StepSendObstacle::unreplayable)?;
        match transport.submit(connection, &call) {
            Ok(_) => {}
            Err(SubmitError::Busy(_)) => return Err(StepSendObstacle::Parked(number)),
            // The transport reports the end of the connection later.
            Err(SubmitError::Refused(PermanentSubmitRefusal::Closed)) => {
                self.mark_connection_lost(connection);
                return Err(StepSendObstacle::UnreachableUntil(Instant::now()));
            }
            Err(error) => {
                return Err(StepSendObstacle::unreplayable(format!("transport: {error}")));
            }
        }
        // The time is taken before the Call is recorded, which takes time of its own.
        let now = Instant::now();
        if let Some(terms) = transport.terms(connection).filter(|_| is_recorded) {
            with_recorder(self.context.recorder, |recorder| {
                recorder.record_call(&ReplayRecorderSentCall {
                    call: call.call(),
                    connection,
                    terms,
                    credits: transport.credits(connection).map_or(0, |credits| credits.requested),
                    client_copy: self.context.number,
                    client: step.caller.client,
                    roots: &parts.roots(),
                    step: step.origin.id,
                });
            });
        }
        Ok((now, call.reply_identifiers()))
    }

    /// Marks a step as in flight and stores its Call in the step's buffers.
    fn mark_in_flight(
        &mut self,
        (number, tag, now): (usize, CallTag, Instant),
        reply_identifiers: ReplyIdentifierKinds,
        entry: &mut StepWindowEntry,
    ) {
        let Some(connection) = self.connections.lines.get(number).map(|line| line.connection) else { return };
        std::mem::swap(&mut self.call_builder.call_buffer, &mut entry.call.message);
        std::mem::swap(&mut self.call_builder.placed, &mut entry.call.placed);
        entry.call.reply_identifiers = reply_identifiers;
        self.scheduler.begin_flight(tag, now, entry);
        entry.call.in_flight = Some((connection, now));
        entry.call.signature = self.call_builder.signing.as_mut().and_then(|signing| signing.last_signature.take());
        if let Some(due) = entry.due.filter(|_| entry.delay_retries == 0 && entry.resend.count == 0) {
            self.report.timing.issue_delay.add(now.saturating_duration_since(due));
        }
        if self.connections.expiries.len() > 2 * self.context.options.window + 64 {
            // A late Call has kept the entries of later ones that are complete.
            let window_steps = &self.scheduler.window;
            self.connections.expiries.retain(|(_, tag)| window_steps.find(*tag).is_some());
        }
        self.connections.expiries.push_back((now, tag));
        // The CLOSE of an open of this program does not count as a Call of the trace.
        self.report.calls += u64::from(!entry.rewrites.is_substituted);
    }
}

/// Returns an AUTH_SYS header for a Call that had RPCSEC_GSS with a context of the capture. The Call is sent with it or
/// signed again.
pub(super) fn replacement_header(step: &TraceStep<'_>, xid: Xid) -> Option<Vec<u8>> {
    let is_secured = step.procedure.flavor == Flavor::RPCSEC_GSS.0 || step.procedure.protection != GssProtection::PLAIN;
    is_secured.then(|| {
        let mut encoder = Encoder::new();
        let TraceProcedure { program, version, number, .. } = step.procedure;
        unsigned_header((Program(program), version, number), xid, &mut encoder);
        encoder.finish().0
    })
}

/// Encodes the AUTH_SYS header of a Call to a program, version and procedure.
pub(super) fn unsigned_header((prog, vers, proc): (Program, u32, u32), xid: Xid, encoder: &mut Encoder) {
    let machinename = Text(crate::PROGRAM.as_bytes());
    let sys = AuthSys { stamp: 0, machinename, uid: 0, gid: 0, gids: XdrArray::default() };
    let body = rpc::RpcMsgBody::Call(rpc::CallBody {
        rpcvers: rpc::VERSION,
        prog,
        vers,
        proc,
        cred: Credential::Sys(rpc::auth::FlavorSpecificAuthBody::Known(sys)),
        verf: Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() }),
    });
    rpc::RpcMsg { xid, body }.encode(encoder);
}

/// Chunk lengths of the captured Call, in the form that the transport expects.
struct CapturedCallChunkLengths {
    call: Vec<u32>,
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
    reply: Vec<u32>,
}

impl CapturedCallChunkLengths {
    fn of(step: &TraceStep<'_>) -> Self {
        let lengths = |segments: &ChunkSegmentLengths<'_>| segments.lengths.iter().collect::<Vec<u32>>();
        let max_chunks = OutgoingRpcCall::MAX_PAYLOADS;
        Self {
            call: lengths(&step.shape.call),
            reads: step.shape.reads.iter().take(max_chunks).map(|chunk| lengths(&chunk)).collect(),
            writes: step.shape.writes.iter().take(max_chunks).map(|chunk| lengths(&chunk)).collect(),
            reply: lengths(&step.shape.reply),
        }
    }

    fn lists(&self) -> [Vec<&[u32]>; 2] {
        [&self.reads, &self.writes].map(|chunks| chunks.iter().map(Vec::as_slice).collect())
    }

    fn shape<'c>(&'c self, [reads, writes]: &'c [Vec<&'c [u32]>; 2]) -> CapturedCallChunkLayout<'c> {
        CapturedCallChunkLayout { call: &self.call, reads, writes, reply: &self.reply }
    }
}
