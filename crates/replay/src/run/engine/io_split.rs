//! Limits of the live server that the captured one did not have.
//!
//! A READ or WRITE that exceeds the server's maximum is sent in several Calls, one after the other, each the whole
//! COMPOUND with another range. Their Replies are joined into one, which is checked as any other: the data is
//! concatenated, the counts are summed, and everything else is that of the last Reply. A step that cannot be split is
//! not sent, and its state gives the reason.
//!
//! Limits are those of the file system (`maxread` and `maxwrite`, RFC 8881 sections 5.8.2.20 and 5.8.2.21; rtmax and
//! wtmax, RFC 1813 section 3.3.19) and those of the session (ca_maxrequestsize, ca_maxresponsesize, ca_maxoperations,
//! RFC 8881 section 18.36.3).

use std::io::{Read, Seek};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Operation, Read4Args, Read4Resok, Results, StableHow4, Write4Args, Write4Resok,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, v3};
use nfsrdma_dissectors::xdr::{Cursor, Ddp, Encoder};
use nfsrdma_rpc::TransportReply;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::file_divergence::MAX_DIVERGENT_FILES;
use super::super::recovery::is_repeatable;
use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::rpc_header_splitting::{split_header, successful_results};
use super::super::step_outcome::StepOutcome;
use super::live_call_builder::LiveCallBuilder;
use super::replay_engine::ReplayEngine;
use super::step_window::{SplitIoPiece, StepWindowEntry};
use super::unbound_variable_reason::{NOT_SEEDED_CODE, SERVER_LIMIT_CODE, UnboundVariableReason};
use crate::seed::file_server_client::IoLimits;
use crate::trace::step::{GssProtection, TraceStep, VariableUseKind};
use crate::trace::value_substitution::TracePayloadInMessage;

/// Extra bytes of a live Reply compared with the recorded one besides the file data, for longer filehandles and owners.
const PIECE_HEADROOM_BYTES: u32 = 512;
/// Pieces of at least this many bytes are a multiple of it.
const PIECE_ALIGNMENT_BYTES: u32 = 4096;
const MAX_CALLS_PER_STEP: u32 = 4096;

/// File data of a READ or WRITE as its Reply reports it.
struct ReadOrWriteResult<'a> {
    data: &'a [u8],
    bytes: u32,
    /// End of file.
    is_end: bool,
    /// `committed` value of a WRITE; the highest number for a READ.
    committed: u32,
}

/// Returns the largest number of file data bytes that a READ or WRITE of a step transfers, and `true` if it is a READ.
fn transfer_size(step: &TraceStep<'_>) -> Option<(u32, bool)> {
    let written = step.call.payloads.iter().filter(|payload| !payload.is_inside).map(|payload| payload.length).max();
    let read = step.needs.payloads.iter().max();
    written.map(|bytes| (bytes, false)).or(read.map(|bytes| (bytes, true)))
}

/// Returns the state of a step that has more than `limit` of a unit.
fn limit_exceeded_state(limit: u32, unit: &str) -> StepOutcome {
    StepOutcome::Unreplayable(format!("{SERVER_LIMIT_CODE}: this server accepts at most {limit} {unit}"))
}

impl LiveCallBuilder {
    /// Reduces the emitted Call to what the server accepts. Returns `None` if all of it is accepted. A later piece
    /// begins where the last one ended.
    pub(super) fn limit_io(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        (slot, last): (Option<(u32, u32)>, Option<SplitIoPiece>),
        io: IoLimits,
    ) -> Result<Option<SplitIoPiece>, StepOutcome> {
        let session = slot.and_then(|(session, _)| self.values.session(session)).map(|live| live.limits);
        let max_operations = session.map_or(u32::MAX, |limits| limits.operations);
        if parts.operations.len() > max_operations as usize {
            return Err(limit_exceeded_state(max_operations, "operations in a COMPOUND"));
        }
        // Its data is not DDP-eligible, and its segments are not split.
        if parts.operations.contains(&Operation::READ_PLUS)
            && step.reply.payloads.iter().map(|payload| u64::from(payload.length)).sum::<u64>() > io.read_bytes.into()
        {
            return Err(limit_exceeded_state(io.read_bytes, "bytes in a READ_PLUS"));
        }
        let Some((total, is_read)) = transfer_size(step) else { return Ok(None) };
        let in_session = session.map_or(u32::MAX, |limits| match is_read {
            true => limits.response_bytes.saturating_sub(step.reply.head.0.len() as u32 + PIECE_HEADROOM_BYTES),
            false => limits.request_bytes.saturating_sub(self.call_buffer.len() as u32 + 4),
        });
        let max_bytes = if is_read { io.read_bytes } else { io.write_bytes }.min(in_session);
        if total <= max_bytes && last.is_none() {
            return Ok(None);
        }
        let last = last.unwrap_or(SplitIoPiece { committed: u32::MAX, ..SplitIoPiece::default() });
        let max_bytes =
            if max_bytes >= PIECE_ALIGNMENT_BYTES { max_bytes - max_bytes % PIECE_ALIGNMENT_BYTES } else { max_bytes };
        let length = total.saturating_sub(last.done_bytes).min(max_bytes);
        let is_whole = step.procedure.protection == GssProtection::PLAIN;
        if length == 0 || !is_whole || self.set_io_range(step, parts, last.done_bytes, length).is_none() {
            let unit = if is_read { "bytes in a READ" } else { "bytes in a WRITE" };
            return Err(limit_exceeded_state(max_bytes, unit));
        }
        Ok(Some(SplitIoPiece { length_bytes: length, total_bytes: total, ..last }))
    }

    /// Sets the range of the only READ or WRITE of the Call. Returns `None` if there is not exactly one, or if another
    /// operation of the Call is not idempotent.
    fn set_io_range(
        &mut self,
        step: &TraceStep<'_>,
        parts: &CallOperationsAndFiles,
        done_bytes: u32,
        length: u32,
    ) -> Option<()> {
        let data = || Ddp::Chunk { length, bytes: None };
        let shift = |offset: u64| offset.checked_add(done_bytes.into());
        let items = TracePayloadInMessage::items(&self.placed);
        let (header, mut cursor) = split_header(&self.call_buffer, &items)?;
        let mut encoder = Encoder::new();
        encoder.raw(header);
        match step.procedure.find_description()? {
            Procedure::Compound if is_repeatable(&parts.operations) => {
                let call = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
                let mut transfer_count = 0;
                let mut operations = Vec::new();
                for operation in call.operations() {
                    operations.push(match operation.ok()? {
                        Args::READ(args) => {
                            transfer_count += 1;
                            Args::READ(Read4Args { offset: shift(args.offset)?, count: length, ..args })
                        }
                        Args::WRITE(args) => {
                            transfer_count += 1;
                            Args::WRITE(Write4Args { offset: shift(args.offset)?, data: data(), ..args })
                        }
                        Args::READ_PLUS(_) => return None,
                        operation => operation,
                    });
                }
                if transfer_count != 1 {
                    return None;
                }
                v4::CompoundCall::new(call.head.clone(), &operations).encode(&mut encoder);
            }
            Procedure::V3(procedure) => {
                match v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
                    v3::Args::READ(args) => {
                        v3::Args::READ(v3::Read3Args { offset: shift(args.offset)?, count: length, ..args })
                    }
                    v3::Args::WRITE(args) => {
                        let offset = shift(args.offset)?;
                        v3::Args::WRITE(v3::Write3Args { offset, count: length, data: data(), ..args })
                    }
                    _ => return None,
                }
                .encode(&mut encoder);
            }
            _ => return None,
        }
        let (bytes, splices) = encoder.finish();
        if splices.len() != self.placed.len() {
            return None;
        }
        for (placed, splice) in self.placed.iter_mut().zip(splices) {
            placed.position = u32::try_from(splice.position).ok()?;
            placed.payload.length = length;
            placed.payload.offset = placed.payload.offset.saturating_add(done_bytes.into());
        }
        self.call_buffer.clear();
        self.call_buffer.extend_from_slice(&bytes);
        Some(())
    }

    /// Returns the state of a step that exceeds a limit of the live session which the captured session did not have.
    /// RFC 8881 sections 15.1.1.7, 15.1.3.4, 15.1.3.5 and 15.1.3.6.
    pub(super) fn session_limit_state(
        &self,
        entry: &StepWindowEntry,
        outcome: &ReplyStatusesAndSessionGrants,
        recorded_status: impl FnOnce() -> Option<u32>,
    ) -> Option<StepOutcome> {
        let status = outcome.last_status().filter(|status| matches!(status, 10_065..=10_067 | 10_070))?;
        let session = entry.captured.slot.and_then(|(session, _)| self.values.session(session))?;
        (session.has_lower_limit && recorded_status() != Some(status)).then(|| {
            StepOutcome::Unreplayable(format!(
                "{SERVER_LIMIT_CODE}: the session takes less than that of the capture ({})",
                v4::Nfsstat4(status)
            ))
        })
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    pub(super) fn handle_piece_reply(
        &mut self,
        entry: &mut StepWindowEntry,
        mut piece: SplitIoPiece,
        reply: &TransportReply<'_>,
    ) -> SplitIoProgress {
        let procedure = entry.step.trace_step().and_then(|step| step.procedure.find_description());
        let Some(ReadOrWriteResult { data, bytes, is_end, committed }) = io_result(procedure, reply.cursor()) else {
            return SplitIoProgress::Failed;
        };
        entry.read_data.extend_from_slice(data);
        piece.committed = piece.committed.min(committed);
        if bytes > piece.length_bytes {
            // RFC 8881 sections 18.22.3 and 18.32.3, RFC 1813 sections 3.3.6 and 3.3.7.
            self.report.protocol.count_violation("a READ or WRITE of more bytes than requested".to_owned());
        }
        piece.done_bytes = piece.done_bytes.saturating_add(bytes.min(piece.length_bytes));
        piece.calls += 1;
        entry.rewrites.piece = Some(piece);
        let has_more = piece.done_bytes < piece.total_bytes && !is_end && bytes > 0 && piece.calls < MAX_CALLS_PER_STEP;
        if has_more {
            let outcome = ReplyStatusesAndSessionGrants::of(procedure, reply.cursor());
            self.count_sequences(&entry.call.counts, &outcome);
            entry.call.counts.slot = None;
            return SplitIoProgress::NextPiece;
        }
        join_replies(procedure, reply, piece, entry.read_data.len() as u32)
            .map_or(SplitIoProgress::Failed, SplitIoProgress::Joined)
    }

    /// Records the effects and values that are missing because a step was not sent or was refused.
    pub(super) fn record_undone(&mut self, entry: &StepWindowEntry, state: &StepOutcome) {
        let StepOutcome::Unreplayable(reason) = state else { return };
        let Some(step) = entry.step.trace_step() else { return };
        self.verification.record_undone_effects(&step, &entry.description);
        let unbound_reason = match reason.split(':').next() {
            Some(SERVER_LIMIT_CODE) => {
                // The file that it would have closed stays open.
                self.verification.leaves_open = true;
                UnboundVariableReason::Limit
            }
            Some(NOT_SEEDED_CODE) => {
                if let Some(tree) = &mut self.verification.expected_tree {
                    tree.record_unseeded(&step);
                }
                UnboundVariableReason::Object
            }
            _ => return,
        };
        for slot in step.reply.slots.iter().filter(|slot| slot.part == VariableUseKind::DEFINED) {
            if self.call_builder.missing_values.len() < MAX_DIVERGENT_FILES {
                self.call_builder.missing_values.entry(slot.variable).or_insert(unbound_reason);
            }
        }
    }
}

pub(super) enum SplitIoProgress {
    NextPiece,
    /// A piece failed; its Reply is that to the whole step.
    Failed,
    /// Joined Reply to all pieces, without the file data that was read.
    Joined(Vec<u8>),
}

/// Returns the file data that a Reply reports, or `None` if anything in the Reply failed.
fn io_result<'a>(procedure: Option<Procedure>, cursor: Cursor<'a>) -> Option<ReadOrWriteResult<'a>> {
    let mut cursor = successful_results(cursor)?;
    let read = |data: &'a [u8], is_end| {
        let bytes = data.len() as u32;
        ReadOrWriteResult { data, bytes, is_end, committed: u32::MAX }
    };
    let written = |bytes, committed| ReadOrWriteResult { data: &[], bytes, is_end: false, committed };
    match procedure? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            if reply.head.status != v4::Nfsstat4::NFS4_OK {
                return None;
            }
            let mut result = None;
            for results in reply.operations() {
                match results.ok()? {
                    Results::READ(StatusUnion::Ok(ok)) => result = Some(read(ok.data.bytes()?, ok.eof)),
                    Results::WRITE(StatusUnion::Ok(ok)) => result = Some(written(ok.count, ok.committed.0)),
                    _ => {}
                }
            }
            result
        }
        Procedure::V3(procedure) => match v3::Results::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
            v3::Results::READ(StatusUnion::Ok(ok)) => Some(read(ok.data.bytes()?, ok.eof)),
            v3::Results::WRITE(StatusUnion::Ok(ok)) => Some(written(ok.count, ok.committed.0)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the last Reply with the counts of all pieces and `length` bytes of read data.
fn join_replies(
    procedure: Option<Procedure>,
    reply: &TransportReply<'_>,
    piece: SplitIoPiece,
    length: u32,
) -> Option<Vec<u8>> {
    let (header, mut cursor) = split_header(reply.message, reply.payloads.items())?;
    let mut encoder = Encoder::new();
    encoder.raw(header);
    let data = || Ddp::Chunk { length, bytes: None };
    match procedure? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            let mut joined = Vec::new();
            for results in reply.operations() {
                joined.push(match results.ok()? {
                    Results::READ(StatusUnion::Ok(ok)) => {
                        Results::READ(StatusUnion::Ok(Read4Resok { data: data(), ..ok }))
                    }
                    Results::WRITE(StatusUnion::Ok(ok)) => Results::WRITE(StatusUnion::Ok(Write4Resok {
                        count: piece.done_bytes,
                        committed: StableHow4(piece.committed.min(ok.committed.0)),
                        ..ok
                    })),
                    results => results,
                });
            }
            v4::CompoundReply::new(reply.head.clone(), &joined).encode(&mut encoder);
        }
        Procedure::V3(procedure) => match v3::Results::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
            v3::Results::READ(StatusUnion::Ok(ok)) => {
                let ok = v3::Read3Resok { count: length, data: data(), ..ok };
                v3::Results::READ(StatusUnion::Ok(ok)).encode(&mut encoder);
            }
            v3::Results::WRITE(StatusUnion::Ok(ok)) => {
                let committed = v3::StableHow(piece.committed.min(ok.committed.0));
                let ok = v3::Write3Resok { count: piece.done_bytes, committed, ..ok };
                v3::Results::WRITE(StatusUnion::Ok(ok)).encode(&mut encoder);
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(encoder.finish().0)
}
