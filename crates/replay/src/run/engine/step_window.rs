//! The window of steps that are pending or in flight.

use std::ops::Range;
use std::time::Instant;

use nfsrdma_analysis::comparison::difference::{
    Difference, DifferenceKind, DifferenceSideValue, TransactionCaptureLocation,
};
use nfsrdma_dissectors::xdr::{Cursor, Opaque, XdrArray};
use nfsrdma_rpc::{CallTag, RpcClientConnectionId};
use rustc_hash::FxHashSet;

use super::super::call_operations_and_files::CallOperationsAndFiles;
use super::super::live_values::CallSlotAndSeqids;
use super::super::report::steps::StepIdWithFrames;
use super::super::step_outcome::StepOutcome;
use super::listing_continuation::ListingContinuation;
use super::overlapping_changes::ObjectsOfStep;
use super::renewable_gss_context::GssReplyVerificationData;
use crate::containment::ReplyIdentifierKinds;
use crate::run_plan::reason::PlanReason;
use crate::trace::step::{
    CallAndReplyWireForms, ChunkSegmentLengths, SubstitutableMessageSlot, TraceCallChunks, TraceMessage,
    TraceReplySizeLimits, TraceStep,
};
use crate::trace::value_substitution::TracePayloadInMessage;

/// A step that is pending or in flight. Its buffers are reused.
#[derive(Debug, Default)]
pub(super) struct StepWindowEntry {
    pub(super) step: OwnedTraceStep,
    pub(super) id: StepIdWithFrames,
    pub(super) description: CallOperationsAndFiles,
    /// Reason for not running the step as captured.
    pub(super) reason: Option<PlanReason>,
    pub(super) captured: CapturedStepFacts,
    /// Objects whose attributes it may read or change.
    pub(super) objects: ObjectsOfStep,
    /// Sequence number among all steps of the run.
    pub(super) turn: u64,
    pub(super) due: Option<Instant>,
    /// Number of times the server asked to retry it later.
    pub(super) delay_retries: u32,
    pub(super) rewrites: CallDifferencesFromCapture,
    /// Data that the pieces of a READ have read.
    pub(super) read_data: Vec<u8>,
    pub(super) call: LastSentStepCall,
    pub(super) resend: StepResends,
}

impl StepWindowEntry {
    /// Returns `true` if the step may change the size or the number of links of a file.
    pub(super) fn may_change_size_or_links(&self) -> bool {
        self.description.effects.iter().any(|effect| effect.may_change_size_or_links())
    }

    /// Returns the difference of a step whose recorded Reply has `reason` in its place.
    pub(super) fn missing_reply_difference(&self, reason: &str) -> Difference {
        let frame = |number: u64| (number > 0).then_some(nfsrdma_dissectors::captured_frame::FrameNumber(number));
        let [call, reply] = self.id.frames.map(frame);
        let location = Some(TransactionCaptureLocation { index: self.id.step, call, reply });
        let mut difference = self.difference(DifferenceKind::Reply, "", ["present", reason].map(str::to_owned));
        for side in [&mut difference.a, &mut difference.b] {
            (side.location, side.frame) = (location, reply.or(call));
        }
        difference
    }

    /// Returns a difference between the captured value and the live one that is not in a decoded field.
    pub(super) fn difference(&self, kind: DifferenceKind, path: &str, values: [String; 2]) -> Difference {
        let [a, b] = values.map(|value| DifferenceSideValue { value: Some(value), ..Default::default() });
        let operation = self.description.title().to_owned();
        Difference { kind, operation, path: path.to_owned(), section: 0, field: "", count: 1, a, b }
    }
}

/// Circumstances of a step in the capture.
#[derive(Debug, Default)]
pub(super) struct CapturedStepFacts {
    pub(super) call_time_ns: u64,
    pub(super) reply_time_ns: u64,
    pub(super) client: u32,
    /// Session variable and captured slot.
    pub(super) slot: Option<(u32, u32)>,
    /// Number of Calls in flight when it was sent, including itself.
    pub(super) depth: u32,
    /// `true` if it overlapped with a step that changes files.
    pub(super) overlaps_change: bool,
}

/// Differences of the Call of this run from the captured one.
#[derive(Debug, Default)]
pub(super) struct CallDifferencesFromCapture {
    /// `true` if attributes that the live server does not support were left out.
    pub(super) has_dropped_attributes: bool,
    /// `true` if an OPEN asks for what was granted in the capture.
    pub(super) has_changed_wants: bool,
    /// `true` if its DELEGRETURN was sent as the CLOSE of a substitute open.
    pub(super) is_substituted: bool,
    /// Piece of a READ or WRITE that its current Call transfers, if it is split.
    pub(super) piece: Option<SplitIoPiece>,
    /// Listing that its current Call continues.
    pub(super) listing: Option<Box<ListingContinuation>>,
}

/// The piece of a READ or WRITE that a Call transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SplitIoPiece {
    /// Bytes of the previous pieces.
    pub(super) done_bytes: u32,
    pub(super) length_bytes: u32,
    /// Bytes of all pieces.
    pub(super) total_bytes: u32,
    pub(super) calls: u32,
    /// Least stable `committed` value of the Replies so far. RFC 8881 section 18.32.
    pub(super) committed: u32,
    pub(super) first_sent: Option<Instant>,
}

/// The last Call of a step.
#[derive(Debug, Default)]
pub(super) struct LastSentStepCall {
    /// The Call as sent, without payloads, and the payloads with their positions.
    pub(super) message: Vec<u8>,
    pub(super) placed: Vec<TracePayloadInMessage>,
    pub(super) counts: CallSlotAndSeqids,
    pub(super) reply_identifiers: ReplyIdentifierKinds,
    /// Signature, needed to verify the Reply.
    pub(super) signature: Option<GssReplyVerificationData>,
    /// Number of recoveries in the run when it was sent.
    pub(super) recoveries_at_send: u32,
    /// Connection and send time while it is in flight.
    pub(super) in_flight: Option<(RpcClientConnectionId, Instant)>,
    /// `true` if it overlapped in this run with a step that changes files.
    pub(super) overlaps_change: bool,
}

/// Repetitions of a step whose Call got no usable Reply.
#[derive(Debug, Default)]
pub(super) struct StepResends {
    /// `true` if it is to be sent again unchanged, because its connection was lost or it was denied.
    pub(super) is_pending: bool,
    /// `true` if it is to be sent again because the server did not know its security context, or did not regard its
    /// connection as bound to the session.
    pub(super) is_denied: bool,
    /// `true` if it was sent again because its connection was not bound to the session.
    pub(super) was_unbound: bool,
    /// Number of times it was sent again after a denial.
    pub(super) denials: u32,
    /// `true` if it was sent again because of a reply timeout.
    pub(super) was_timeout: bool,
    /// Number of times it was sent again because of a lost connection, a timeout, or forgotten state.
    pub(super) count: u32,
    /// Number of times it was rebuilt after the server had forgotten a client or its session.
    pub(super) renewals: u32,
    /// `true` if it was sent again after the run had completed the registration of its client.
    pub(super) completed_client: bool,
    /// Status that reported the forgotten state.
    pub(super) forgotten_status: Option<u32>,
}

/// A stored step. It is read several times, so borrowed parts are found by offset and not decoded again.
#[derive(Debug, Default)]
pub(super) struct OwnedTraceStep {
    /// The step in XDR.
    bytes: Vec<u8>,
    /// The step without its borrowed parts.
    unborrowed: Option<TraceStep<'static>>,
    /// Ranges of the heads of Call and Reply.
    heads: [Range<usize>; 2],
    /// Offset and number of items of each other list.
    lists: [(usize, u32); LISTS],
    /// Slots of Call and Reply, which are read most often.
    slots: [Vec<SubstitutableMessageSlot>; 2],
}

/// Number of lists of a step other than slots: payloads of Call and Reply, the four chunk lists of the Call, returned
/// chunks, and reply payload sizes.
const LISTS: usize = 8;

impl OwnedTraceStep {
    /// Stores a step that was decoded from these bytes, reusing the buffers. Returns the step with the stored slots.
    pub(super) fn store<'s>(&'s mut self, mut step: TraceStep<'s>, bytes: &[u8]) -> TraceStep<'s> {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        for (slots, message) in self.slots.iter_mut().zip([&mut step.call, &mut step.reply]) {
            slots.clear();
            slots.extend(message.slots.iter());
            message.slots = XdrArray::from(&**slots);
        }
        self.heads = [&step.call, &step.reply].map(|message| {
            let head = message.head.0;
            let at = head.as_ptr().addr().saturating_sub(bytes.as_ptr().addr());
            at..at + head.len()
        });
        let TraceStep { call, reply, shape, carried, needs, .. } = &step;
        self.lists = [
            list_position(&call.payloads),
            list_position(&reply.payloads),
            list_position(&shape.call.lengths),
            list_position(&shape.reads),
            list_position(&shape.writes),
            list_position(&shape.reply.lengths),
            list_position(&carried.returned),
            list_position(&needs.payloads),
        ];
        self.unborrowed = Some(bare(&step));
        step
    }

    /// Returns the length of the encoded step in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the step, if one is stored.
    pub(super) fn trace_step(&self) -> Option<TraceStep<'_>> {
        let mut step: TraceStep<'_> = self.unborrowed.clone()?;
        let messages = [&mut step.call, &mut step.reply];
        for ((message, head), slots) in messages.into_iter().zip(&self.heads).zip(&self.slots) {
            message.head = Opaque(self.bytes.get(head.clone())?);
            message.slots = XdrArray::from(&**slots);
        }
        let [of_call, of_reply, call_chunk, reads, writes, reply_chunk, returned, needed] = self.lists;
        step.call.payloads = self.list(of_call)?;
        step.reply.payloads = self.list(of_reply)?;
        step.shape.call.lengths = self.list(call_chunk)?;
        step.shape.reads = self.list(reads)?;
        step.shape.writes = self.list(writes)?;
        step.shape.reply.lengths = self.list(reply_chunk)?;
        step.carried.returned = self.list(returned)?;
        step.needs.payloads = self.list(needed)?;
        Some(step)
    }

    fn list<T, const BOUND: u32>(&self, (at, count): (usize, u32)) -> Option<XdrArray<'_, T, BOUND>> {
        let mut cursor = Cursor::new(&self.bytes).assume_valid();
        cursor.take(at).ok()?;
        Some(XdrArray::from_decoded(cursor, count))
    }
}

fn list_position<T, const BOUND: u32>(list: &XdrArray<'_, T, BOUND>) -> (usize, u32) {
    list.begins().map_or((0, 0), |at| (at, list.len()))
}

fn bare(step: &TraceStep<'_>) -> TraceStep<'static> {
    let message = |source: &TraceMessage<'_>| TraceMessage {
        completeness: source.completeness,
        head: Opaque(&[]),
        body: source.body,
        end: source.end,
        slots: XdrArray::default(),
        payloads: XdrArray::default(),
    };
    let no_segments = || ChunkSegmentLengths { lengths: XdrArray::default() };
    TraceStep {
        origin: step.origin.clone(),
        caller: step.caller.clone(),
        procedure: step.procedure.clone(),
        call: message(&step.call),
        reply: message(&step.reply),
        shape: TraceCallChunks {
            call: no_segments(),
            reads: XdrArray::default(),
            writes: XdrArray::default(),
            reply: no_segments(),
        },
        carried: CallAndReplyWireForms { returned: XdrArray::default(), ..step.carried.clone() },
        needs: TraceReplySizeLimits { payloads: XdrArray::default(), ..step.needs.clone() },
    }
}

/// Returns the state of a step that cannot be decoded.
pub(super) fn unreadable_state() -> StepOutcome {
    StepOutcome::Unreplayable("unreadable: the step cannot be read".into())
}

/// Entries of the window.
#[derive(Debug, Default)]
pub(super) struct StepWindowSlots {
    /// Boxed, as steps are taken out and put back several times.
    held: Vec<Option<Box<StepWindowEntry>>>,
    free: Vec<u32>,
}

impl StepWindowSlots {
    /// Returns the index of a free entry, with the buffers of the step that released it.
    pub(super) fn take_free(&mut self) -> (u32, Box<StepWindowEntry>) {
        if let Some(window_index) = self.free.pop() {
            return (window_index, self.take(window_index));
        }
        self.held.push(None);
        ((self.held.len() - 1) as u32, Box::default())
    }

    /// Takes a step out of its entry, to be put back.
    pub(super) fn take(&mut self, window_index: u32) -> Box<StepWindowEntry> {
        self.held.get_mut(window_index as usize).and_then(Option::take).unwrap_or_default()
    }

    pub(super) fn put(&mut self, window_index: u32, entry: Box<StepWindowEntry>) {
        if let Some(slot) = self.held.get_mut(window_index as usize) {
            *slot = Some(entry);
        }
    }

    /// Releases the entry of a step and keeps its buffers.
    pub(super) fn release(&mut self, window_index: u32, entry: Box<StepWindowEntry>) {
        self.put(window_index, entry);
        self.free.push(window_index);
    }

    pub(super) fn get(&self, window_index: u32) -> Option<&StepWindowEntry> {
        self.held.get(window_index as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, window_index: u32) -> Option<&mut StepWindowEntry> {
        self.held.get_mut(window_index as usize)?.as_deref_mut()
    }

    /// Returns the steps that are to be sent again unchanged.
    pub(super) fn resend_steps_mut(&mut self) -> impl Iterator<Item = &mut StepWindowEntry> {
        self.held.iter_mut().filter_map(Option::as_deref_mut).filter(|entry| entry.resend.is_pending)
    }

    pub(super) fn count(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// Returns the steps in the window, in trace order.
    pub(super) fn steps_in_order(&self) -> Vec<&StepWindowEntry> {
        let is_free: FxHashSet<u32> = self.free.iter().copied().collect();
        let entries = (0..).zip(&self.held).filter(|(window_index, _)| !is_free.contains(window_index));
        let mut steps: Vec<_> = entries.filter_map(|(_, entry)| entry.as_deref()).collect();
        steps.sort_by_key(|entry| entry.turn);
        steps
    }

    pub(super) fn signatures(&self) -> impl Iterator<Item = GssReplyVerificationData> + '_ {
        self.held.iter().filter_map(Option::as_deref).filter_map(|entry| entry.call.in_flight.and(entry.call.signature))
    }

    pub(super) fn in_flight_indices(&self) -> Vec<u32> {
        let entries = (0..).zip(&self.held);
        let is_flying = |entry: &StepWindowEntry| entry.call.in_flight.is_some();
        let in_flight = entries.filter(|(_, entry)| entry.as_deref().is_some_and(is_flying));
        in_flight.map(|(window_index, _)| window_index).collect()
    }

    /// Returns the index of the step in flight with this tag.
    pub(super) fn find(&self, tag: CallTag) -> Option<u32> {
        let window_index = window_index(tag);
        let entry = self.get(window_index)?;
        (entry.call.in_flight.is_some() && turn(tag) == entry.turn & TURN_MASK).then_some(window_index)
    }
}

/// Masks of a call tag: 20 bits for the window index, more than the window may have, and 32 bits for the turn; the
/// upper 12 bits hold the client copy.
const INDEX_MASK: u64 = 0xf_ffff;
const TURN_MASK: u64 = 0xffff_ffff;

/// Window indices of Calls that are not steps, the last five: BIND_CONN_TO_SESSION, recovery, substitute opens,
/// security contexts, and renewals of leases.
pub(super) const BIND_INDEX: u32 = 0xf_ffff;
pub(super) const RECOVERY_INDEX: u32 = 0xf_fffe;
pub(super) const SUBSTITUTE_INDEX: u32 = 0xf_fffd;
pub(super) const CONTEXT_INDEX: u32 = 0xf_fffc;
pub(super) const RENEWAL_INDEX: u32 = 0xf_fffb;

/// Returns the tag of a Call: client copy, window index and turn. The turn prevents a late event of a finished step
/// from matching another.
pub(super) fn call_tag(party: u32, window_index: u32, turn: u64) -> CallTag {
    CallTag(u64::from(party) << 52 | (turn & TURN_MASK) << 20 | u64::from(window_index) & INDEX_MASK)
}

/// Returns the window index in a tag: of a step, or of a kind of Calls that are not steps.
pub(super) fn window_index(tag: CallTag) -> u32 {
    (tag.0 & INDEX_MASK) as u32
}

pub(super) fn turn(tag: CallTag) -> u64 {
    tag.0 >> 20 & TURN_MASK
}

/// Returns the number of the client copy that a tag belongs to.
pub(super) fn client_copy(tag: CallTag) -> usize {
    (tag.0 >> 52) as usize
}
