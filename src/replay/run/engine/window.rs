//! A step that waits, or is in flight, and the seats of the window that such steps have.

use std::ops::Range;
use std::time::Instant;

use nfsrdma_dissectors::xdr::{Cursor, List, Opaque};

use super::super::call_description::CallDescription;
use super::super::report::{ReplayStepState, StepId};
use super::super::values::CallSequenceCounts;
use super::io_split::SplitIoPiece;
use super::rpcsec_gss::GssCallSignature;
use crate::replay::containment::ReplyIdentifiers;
use crate::replay::plan::reason::PlanReason;
use crate::replay::trace::emission::PlacedPayload;
use crate::replay::trace::{
    ChunkSegmentLengths, MessageSlot, TraceCallChunks, TraceMessage, TraceReplyNeeds, TraceStep,
    TraceTransfer,
};
use crate::replay::transport::{CallTag, ConnectionId};

/// A step that waits, or is in flight. Its room is used again.
#[derive(Debug, Default)]
pub(super) struct WindowStep {
    /// The step.
    pub(super) step: StoredStep,
    pub(super) id: StepId,
    pub(super) parts: CallDescription,
    /// Why it does not run as it was captured.
    pub(super) reason: Option<PlanReason>,
    /// When its Call and its Reply were seen in the capture.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) client: u32,
    /// The session, and the slot in the capture.
    pub(super) slot: Option<(u32, u32)>,
    /// Calls that were in flight in the capture when it was sent, itself too.
    pub(super) depth: u32,
    /// Its place among all steps of the run.
    pub(super) turn: u64,
    pub(super) tries: u32,
    /// When it is to be sent.
    pub(super) due: Option<Instant>,
    pub(super) is_racing: bool,
    /// A step that changes files was in flight here at the same time, or it does so and others were.
    pub(super) is_crowded: bool,
    /// Attributes that the live server does not have were left out.
    pub(super) has_fewer: bool,
    /// An OPEN asks for what it got in the capture.
    pub(super) has_other_wants: bool,
    /// Its DELEGRETURN was sent as CLOSE of the open that stands for the delegation.
    pub(super) is_substituted: bool,
    /// The piece of a READ or WRITE that its Call is about, where it goes in several.
    pub(super) piece: Option<SplitIoPiece>,
    /// What the pieces have read.
    pub(super) joined: Vec<u8>,
    /// The counts that its Call carries.
    pub(super) used: CallSequenceCounts,
    /// Its Call as it was sent, without its payloads, and where those stand in it.
    pub(super) sent: Vec<u8>,
    pub(super) placed: Vec<PlacedPayload>,
    /// What its Reply may give.
    pub(super) gives: ReplyIdentifiers,
    /// What its Reply is to be opened with, if it was signed.
    pub(super) signature: Option<GssCallSignature>,
    /// Its connection went away: the same is to be sent again.
    pub(super) is_lost: bool,
    /// That is so because the server did not know its security context.
    pub(super) is_denied: bool,
    /// How often it was sent again for that.
    pub(super) denials: u32,
    /// No Reply came within the timeout, once: it was sent again for that.
    pub(super) was_silent: bool,
    /// How often it was sent again, for that or because the server had forgotten what it is about.
    pub(super) resends: u32,
    /// How often it was made anew after the server had forgotten a client or its session.
    pub(super) renewals: u32,
    /// The status that told so.
    pub(super) forgotten: Option<u32>,
    /// How many recoveries there had been in the run when it was sent.
    pub(super) since: u32,
    /// Where it is in flight, and since when.
    pub(super) flight: Option<(ConnectionId, Instant)>,
}

/// A step that is held. It is looked at several times, so what it borrows is found by where it lies, and not decoded again.
#[derive(Debug, Default)]
pub(super) struct StoredStep {
    /// The step in XDR.
    bytes: Vec<u8>,
    /// The step without what it borrows.
    bare: Option<TraceStep<'static>>,
    /// Where the heads of Call and Reply lie.
    heads: [Range<usize>; 2],
    /// Where its other lists begin, and how many items they have.
    lists: [(usize, u32); LISTS],
    /// The slots of Call and Reply, which are looked at most.
    slots: [Vec<MessageSlot>; 2],
}

/// Lists of a step but for slots: payloads of Call and Reply, the chunks of the Call, what was returned, what the Reply may need.
const LISTS: usize = 8;

impl StoredStep {
    /// Keeps a step that was read from these bytes, in the room of another. Gives it with the slots that are kept.
    pub(super) fn keep<'s>(&'s mut self, mut step: TraceStep<'s>, bytes: &[u8]) -> TraceStep<'s> {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        for (slots, message) in self.slots.iter_mut().zip([&mut step.call, &mut step.reply]) {
            slots.clear();
            slots.extend(message.slots.iter());
            message.slots = List::from(&**slots);
        }
        self.heads = [&step.call, &step.reply].map(|message| {
            let head = message.head.0;
            let at = head.as_ptr().addr().saturating_sub(bytes.as_ptr().addr());
            at..at + head.len()
        });
        let TraceStep { call, reply, shape, carried, needs, .. } = &step;
        self.lists = [
            place(&call.payloads),
            place(&reply.payloads),
            place(&shape.call.lengths),
            place(&shape.reads),
            place(&shape.writes),
            place(&shape.reply.lengths),
            place(&carried.returned),
            place(&needs.payloads),
        ];
        self.bare = Some(bare(&step));
        step
    }

    /// Bytes of the step.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The step, if one is kept.
    pub(super) fn read(&self) -> Option<TraceStep<'_>> {
        let mut step: TraceStep<'_> = self.bare.clone()?;
        let messages = [&mut step.call, &mut step.reply];
        for ((message, head), slots) in messages.into_iter().zip(&self.heads).zip(&self.slots) {
            message.head = Opaque(self.bytes.get(head.clone())?);
            message.slots = List::from(&**slots);
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

    fn list<T, const BOUND: u32>(&self, (at, count): (usize, u32)) -> Option<List<'_, T, BOUND>> {
        let mut cursor = Cursor::new(&self.bytes).known();
        cursor.take(at).ok()?;
        Some(List::again(cursor, count))
    }
}

fn place<T, const BOUND: u32>(list: &List<'_, T, BOUND>) -> (usize, u32) {
    list.begins().map_or((0, 0), |at| (at, list.len()))
}

/// A step without what it borrows.
fn bare(step: &TraceStep<'_>) -> TraceStep<'static> {
    let message = |of: &TraceMessage<'_>| TraceMessage {
        seen: of.seen,
        head: Opaque(&[]),
        body: of.body,
        end: of.end,
        slots: List::default(),
        payloads: List::default(),
    };
    let none = || ChunkSegmentLengths { lengths: List::default() };
    TraceStep {
        origin: step.origin.clone(),
        caller: step.caller.clone(),
        asked: step.asked.clone(),
        call: message(&step.call),
        reply: message(&step.reply),
        shape: TraceCallChunks {
            call: none(),
            reads: List::default(),
            writes: List::default(),
            reply: none(),
        },
        carried: TraceTransfer { returned: List::default(), ..step.carried.clone() },
        needs: TraceReplyNeeds { payloads: List::default(), ..step.needs.clone() },
    }
}

/// The state of a step that cannot be read.
pub(super) fn unreadable() -> ReplayStepState {
    ReplayStepState::Unreplayable("unreadable: the step cannot be read".into())
}

/// The seats of the window.
#[derive(Debug, Default)]
pub(super) struct StepWindow {
    /// In boxes, which stay: steps are taken out and put back several times.
    held: Vec<Option<Box<WindowStep>>>,
    free: Vec<u32>,
}

impl StepWindow {
    /// A free seat, with the room of the step that left it.
    pub(super) fn take_free(&mut self) -> (u32, Box<WindowStep>) {
        if let Some(seat) = self.free.pop() {
            return (seat, self.take(seat));
        }
        self.held.push(None);
        ((self.held.len() - 1) as u32, Box::default())
    }

    /// Takes a step out of its seat, to be put back.
    pub(super) fn take(&mut self, seat: u32) -> Box<WindowStep> {
        self.held.get_mut(seat as usize).and_then(Option::take).unwrap_or_default()
    }

    /// Puts a step into its seat.
    pub(super) fn put(&mut self, seat: u32, held: Box<WindowStep>) {
        if let Some(place) = self.held.get_mut(seat as usize) {
            *place = Some(held);
        }
    }

    /// A step has left its seat; what it was is in the room that stays.
    pub(super) fn leave(&mut self, seat: u32, held: Box<WindowStep>) {
        self.put(seat, held);
        self.free.push(seat);
    }

    pub(super) fn get(&self, seat: u32) -> Option<&WindowStep> {
        self.held.get(seat as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, seat: u32) -> Option<&mut WindowStep> {
        self.held.get_mut(seat as usize)?.as_deref_mut()
    }

    /// Steps that are to be sent again as they were.
    pub(super) fn lost_mut(&mut self) -> impl Iterator<Item = &mut WindowStep> {
        self.held.iter_mut().filter_map(Option::as_deref_mut).filter(|held| held.is_lost)
    }

    /// Steps in the window.
    pub(super) fn count(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// The steps that wait, in the order of the trace.
    pub(super) fn waiting(&self) -> Vec<&WindowStep> {
        let is_free: rustc_hash::FxHashSet<u32> = self.free.iter().copied().collect();
        let seats = self.held.iter().enumerate().filter(|(seat, _)| !is_free.contains(&(*seat as u32)));
        let mut waiting: Vec<&WindowStep> = seats.filter_map(|(_, held)| held.as_deref()).collect();
        waiting.sort_by_key(|held| held.turn);
        waiting
    }

    /// What Replies of signed Calls in flight are opened with.
    pub(super) fn signatures(&self) -> impl Iterator<Item = GssCallSignature> + '_ {
        self.held.iter().filter_map(Option::as_deref).filter_map(|held| held.flight.and(held.signature))
    }

    /// The seats of steps in flight.
    pub(super) fn flying(&self) -> Vec<u32> {
        let is_flying =
            |held: &Option<Box<WindowStep>>| held.as_ref().is_some_and(|held| held.flight.is_some());
        let flying = self.held.iter().enumerate().filter(|(_, held)| is_flying(held));
        flying.map(|(seat, _)| seat as u32).collect()
    }

    /// The step in flight that a tag names, if it is in flight.
    pub(super) fn find(&self, tag: CallTag) -> Option<u32> {
        let seat = (tag.0 & SEAT) as u32;
        let held = self.get(seat)?;
        (held.flight.is_some() && (tag.0 >> 20) & TURN == held.turn & TURN).then_some(seat)
    }
}

/// Bits of a tag that tell the seat: of more than the window may have; those that tell the turn; and the others the party.
const SEAT: u64 = 0xf_ffff;
const TURN: u64 = 0xffff_ffff;

/// The seats of BIND_CONN_TO_SESSION, of the Calls of a recovery, of DELEGRETURN of what was not asked for, of what makes opens in
/// the place of delegations, and of what sets up security contexts: of Calls that are no step's, which are the last five.
pub(super) const BINDING: u32 = 0xf_ffff;
pub(super) const RECOVERY: u32 = 0xf_fffe;
pub(super) const RETURNING: u32 = 0xf_fffd;
pub(super) const SUBSTITUTING: u32 = 0xf_fffc;
pub(super) const SECURING: u32 = 0xf_fffb;

/// What a transport knows a step by: whose it is, its seat, and its turn, so that what comes late for a step that is gone
/// meets no other.
pub(super) fn tagged(party: u32, seat: u32, turn: u64) -> CallTag {
    CallTag(u64::from(party) << 52 | (turn & TURN) << 20 | u64::from(seat) & SEAT)
}

/// Whose step a tag names.
pub(super) fn party(tag: CallTag) -> usize {
    (tag.0 >> 52) as usize
}
