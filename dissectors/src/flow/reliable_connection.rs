//! The Reliable Connection service of InfiniBand: packets with sequence numbers become RDMA operations.
//! InfiniBand Architecture Specification volume 1, section 9.7.
//!
//! A packet is placed by its PSN alone: the packet that began an RDMA Write or Read told where its bytes go and the
//! distance in PSNs times the path MTU tells the rest. So retransmission, duplicates, loss and reordering need no states
//! of their own, but for packets that come before the one that began (`early`).

use std::collections::VecDeque;

use crate::frame::Timestamp;
use crate::infiniband::{self, Aeth, InfinibandPacket, NakCode, PacketPosition, Psn, Syndrome};
use crate::rdma::{Handle, PacketPayload, RdmaAttribution, RdmaMessage, RdmaOperation};

use super::PacketMeta;
use super::delivery::{Delivery, PacketOutcome};
use super::message_reassembly::{MessageReassembly, PacketRun};
use super::reorder_buffer::OrphanWritePacket;

/// Why a packet of a reliable connection gave no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoOperationReason {
    /// It carries none: an acknowledgement.
    Control,
    /// A part of a message whose other parts are still to come.
    Part,
    /// A Middle or Last packet of an RDMA Write whose First was not seen, so that nothing tells its address.
    WriteWithoutFirst,
    /// A Read response whose request was not seen.
    ResponseWithoutRequest,
    /// The capture ends before the extension header that its opcode demands.
    Cut,
    /// A Middle or Last packet of an RDMA Write whose First may be one that was cut.
    WriteOfCutFirst,
    /// A Read response whose request may be one that was cut.
    ResponseToCutRequest,
}

/// RDMA Writes and Reads that are remembered for the packets that follow them or are sent again: more than any queue pair has
/// outstanding. What is sent again from its first packet on needs nothing remembered.
const SPANS: usize = 128;
/// Messages that are remembered for their copies; a copy of an older one is recognised by its XID.
const SENT: usize = 128;
/// A sequence number counted on beyond 24 bits, so that it never wraps.
pub(super) type ExtendedPsn = u64;

/// An RDMA Write or Read: it takes the sequence numbers from `first` on.
#[derive(Debug)]
struct RdmaRequestSpan {
    first: ExtendedPsn,
    is_read: bool,
    handle: Handle,
    offset: u64,
    length: u32,
    owner: RdmaAttribution,
}

/// A range of memory that a Reply says was written, and into which nothing was seen to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnseenWriteRange {
    /// Names the memory.
    pub(super) handle: Handle,
    /// Where it begins.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) length: u32,
}

/// The packets of an RDMA Write behind those that were lost: where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundWrite {
    first: ExtendedPsn,
    handle: Handle,
    offset: u64,
    length: u32,
}

impl FoundWrite {
    /// The sequence number of its first packet.
    pub(super) fn psn(&self) -> Psn {
        Psn((self.first & 0xff_ffff) as u32)
    }
}

/// A message that was seen whole.
#[derive(Debug)]
struct SentRdmaMessage {
    first: ExtendedPsn,
    last: ExtendedPsn,
    owner: RdmaAttribution,
    /// Whether the last of its packets was refused when it was seen last.
    is_refused: bool,
}

/// What one side of a connection requests of the other: the packets that count in its own sequence.
#[derive(Debug, Default)]
pub(super) struct Requests {
    newest: Option<ExtendedPsn>,
    /// Sorted by `first`.
    spans: VecDeque<RdmaRequestSpan>,
    /// Where the span was that was asked for last.
    recent: usize,
    /// Sorted by `first`.
    sent: VecDeque<SentRdmaMessage>,
    /// Packets of messages that are not whole. Allocated by the first message of several packets: most messages are one
    /// packet, and there may be very many connections.
    assembly: Option<Box<MessageReassembly>>,
    /// Messages before this were received whole, by what the peer acknowledged: what was not captured of them will not come,
    /// but for packets that were captured late.
    over: ExtendedPsn,
    /// What the peer has accepted.
    delivery: Delivery,
    /// Messages before this were acknowledged, and were told to have been.
    settled: ExtendedPsn,
    /// The newest number that the peer answered.
    answered: Option<ExtendedPsn>,
    /// A snap length cut the header that tells the memory of an RDMA Read or Write.
    has_cut_request: bool,
    /// Nothing more will come.
    is_ended: bool,
}

/// The path MTU of a connection in bytes, learnt from its packets: every First and Middle packet is as long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedPathMtu(Option<u32>);

impl ObservedPathMtu {
    /// Those that there are. InfiniBand Architecture Specification volume 1, section 9.2.
    const ALL: [u32; 5] = [256, 512, 1024, 2048, 4096];

    /// Whether `packets` lost packets at most can have held `bytes` before a Last packet of `last` bytes; where the path MTU
    /// is not known, exactly as many as some path MTU gives them.
    fn can_hold(self, packets: u64, bytes: u32, last: u32) -> bool {
        match self.0 {
            Some(mtu) => u64::from(bytes) <= packets.saturating_mul(mtu.into()),
            None => Self::ALL
                .into_iter()
                .any(|mtu| last <= mtu && bytes.is_multiple_of(mtu) && u64::from(bytes / mtu) <= packets),
        }
    }

    fn learn(&mut self, place: PacketPosition, length: u32) {
        if matches!(place, PacketPosition::First | PacketPosition::Middle) && length > 0 {
            self.0 = Some(length);
        }
    }

    /// How many packets carry so many bytes, where that is known.
    fn packets(self, bytes: u32) -> Option<u64> {
        Some(match self.0 {
            Some(mtu) => u64::from(bytes.div_ceil(mtu).max(1)),
            // No path MTU is smaller.
            None if bytes <= 256 => 1,
            None => return None,
        })
    }

    /// Byte offset in its message of a packet that is `packets` after the first.
    fn offset(
        self,
        packets: u64,
        place: PacketPosition,
        data: &PacketPayload<'_>,
        message: u32,
    ) -> Option<u64> {
        let offset = match (packets, place, self.0) {
            (0, ..) => 0,
            (_, _, Some(mtu)) => packets.checked_mul(u64::from(mtu))?,
            // The end of a message is known even where the length of its packets is not, if that is one that there is.
            (_, PacketPosition::Last, None) => {
                let before = u64::from(message).checked_sub(u64::from(data.length))?;
                let is_end = Self::ALL.into_iter().any(|mtu| packets.checked_mul(mtu.into()) == Some(before));
                is_end.then_some(before)?
            }
            _ => return None,
        };
        (offset + u64::from(data.length) <= u64::from(message)).then_some(offset)
    }
}

impl Requests {
    /// Counts a PSN on from the newest that was seen.
    #[inline]
    pub(super) fn extend(&self, psn: Psn) -> ExtendedPsn {
        match self.newest {
            // Room below for packets older than the first one seen.
            None => (1 << 24) + ExtendedPsn::from(psn.0),
            Some(newest) => {
                let distance = Psn((newest & 0xff_ffff) as u32).distance(psn);
                newest.saturating_add_signed(i64::from(distance))
            }
        }
    }

    /// Whether a request with this PSN was sent lately: evidence that a response belongs here.
    pub(super) fn sent_lately(&self, psn: Psn) -> bool {
        self.newest.is_some_and(|newest| {
            let sequence = self.extend(psn);
            sequence <= newest && newest - sequence < 1024
        })
    }

    /// The memory that is taken besides the value itself and the parts of messages, in bytes.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<RdmaRequestSpan>()
            + self.sent.capacity() * size_of::<SentRdmaMessage>()
            + self.assembly.as_ref().map_or(0, |assembly| assembly.memory_bytes())
    }

    /// Whether a request was seen.
    pub(super) fn has_begun(&self) -> bool {
        self.newest.is_some()
    }

    /// True if a request with this number, or a later one, was seen before.
    #[inline]
    pub(super) fn is_known(&self, sequence: ExtendedPsn) -> bool {
        self.newest.is_some_and(|newest| sequence <= newest)
    }

    /// Notes that the peer answers the request with this number: whether it answered that, or a later one, before.
    #[inline]
    pub(super) fn is_answered(&mut self, sequence: ExtendedPsn) -> bool {
        let sequence = Some(sequence);
        let is_known = sequence <= self.answered;
        self.answered = self.answered.max(sequence);
        is_known
    }

    /// When the receiver of requests asked for some again, and when some were sent again last.
    pub(super) fn again(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        (self.delivery.refused(), self.delivery.repeated())
    }

    /// What becomes of a request that this side sends.
    #[inline]
    pub(super) fn fate(
        &mut self,
        sequence: ExtendedPsn,
        packet: &InfinibandPacket<'_>,
        now: Timestamp,
        path_mtu: ObservedPathMtu,
    ) -> PacketOutcome {
        let count = match (packet.form.operation, packet.reth) {
            (infiniband::PacketOperation::ReadRequest, Some(reth)) => path_mtu.packets(reth.dmalen),
            (infiniband::PacketOperation::ReadRequest, None) => None,
            _ => Some(1),
        };
        self.delivery.arrive(sequence, count, now)
    }

    /// The span that holds a sequence number, if it is known: the last that begins at or before it.
    fn span_at(&mut self, sequence: ExtendedPsn) -> Option<&mut RdmaRequestSpan> {
        // The packets of one operation follow each other: the span of the packet before is tried first.
        let begins = |at: usize| self.spans.get(at).is_some_and(|span| span.first <= sequence);
        if !begins(self.recent) || begins(self.recent + 1) {
            let after = self.spans.partition_point(|span| span.first <= sequence);
            self.recent = after.checked_sub(1)?;
        }
        self.spans.get_mut(self.recent)
    }

    /// Remembers an RDMA Write or Read, or finds it again if this is a copy.
    fn span(&mut self, span: RdmaRequestSpan) -> &mut RdmaRequestSpan {
        let sequence = span.first;
        let after = self.spans.partition_point(|other| other.first <= sequence);
        let known = after.checked_sub(1).filter(|before| {
            self.spans.get(*before).is_some_and(|other| {
                other.first == sequence && other.handle == span.handle && other.offset == span.offset
            })
        });
        let mut at = known.unwrap_or(after);
        if known.is_none() {
            at = make_room(&mut self.spans, SPANS, at, sequence, |span| span.first);
            self.spans.insert(at, span);
        }
        &mut self.spans[at]
    }

    /// An RDMA Write whose First packet was not seen: this is what is known of its place.
    pub(super) fn found(&mut self, found: FoundWrite) {
        let FoundWrite { first, handle, offset, length } = found;
        self.span(RdmaRequestSpan {
            first,
            is_read: false,
            handle,
            offset,
            length,
            owner: RdmaAttribution::default(),
        });
    }

    /// Where the last message, RDMA Write or RDMA Read before a sequence number ends, if any is known.
    fn ends_before(&self, sequence: ExtendedPsn, mtu: u32) -> Option<ExtendedPsn> {
        let span = self.spans.iter().rev().find(|span| span.first < sequence);
        let span = span.map(|span| span.first + u64::from(span.length.div_ceil(mtu).max(1)));
        let sent = self.sent.iter().rev().find(|sent| sent.first < sequence).map(|sent| sent.last + 1);
        span.max(sent).map(|end| end.min(sequence))
    }

    /// Whether a message, an RDMA Write or an RDMA Read is known to begin there.
    fn begins_at(&self, sequence: ExtendedPsn) -> bool {
        self.spans.iter().rev().any(|span| span.first == sequence)
            || self.sent.iter().rev().any(|sent| sent.first == sequence)
    }

    /// Finds the places of RDMA Writes whose First packet was lost, by what is missing of the memory that a Reply says was
    /// written: an RDMA Write ends where a hole ends, and its packets go back from there. `holes` are in the order in which a
    /// Responder fills chunks (RFC 8166 section 3.4.6), which is that of its RDMA Writes.
    pub(super) fn find_lost(
        &self,
        orphans: impl Iterator<Item = OrphanWritePacket>,
        holes: Vec<UnseenWriteRange>,
        path_mtu: ObservedPathMtu,
    ) -> Vec<FoundWrite> {
        // Where it is not known, what was seen whole came in single packets.
        let mtu = path_mtu.0.unwrap_or(ObservedPathMtu::ALL[4]);
        let mut holes = self.without_spans(holes).into_iter();
        let mut orphans: Vec<_> =
            orphans.map(|orphan| (self.extend(orphan.psn), orphan.ends, orphan.length)).collect();
        orphans.sort_unstable();
        orphans.dedup_by_key(|(sequence, ..)| *sequence);
        let mut found = Vec::new();
        let mut begins: Option<ExtendedPsn> = None;
        for (sequence, ends, length) in orphans {
            // What begins in between ends the packets before it.
            let is_other = begins.is_some_and(|first| self.ends_before(sequence, mtu) > Some(first));
            let first = begins.filter(|_| !is_other).unwrap_or(sequence);
            begins = Some(first);
            if !ends {
                continue;
            }
            begins = None;
            let before = self.ends_before(first, mtu).map(|end| first - end);
            // What was lost behind it would be in the same hole.
            if before == Some(0) || !self.begins_at(sequence + 1) {
                continue;
            }
            // Every Middle packet tells the path MTU: without one, the Last packet is alone.
            if path_mtu.0.is_none() && sequence != first {
                continue;
            }
            let Some(seen) = (sequence - first)
                .checked_mul(mtu.into())
                .and_then(|bytes| u32::try_from(bytes + u64::from(length)).ok())
            else {
                continue;
            };
            let lost = before.unwrap_or(u64::MAX);
            let fits = |hole: &UnseenWriteRange| {
                hole.length > seen && path_mtu.can_hold(lost, hole.length - seen, length)
            };
            let mut behind = holes.clone();
            if let Some(UnseenWriteRange { handle, offset, length }) = behind.find(fits) {
                let offset = offset.wrapping_add(u64::from(length - seen));
                found.push(FoundWrite { first, handle, offset, length: seen });
                holes = behind;
            }
        }
        found
    }

    /// Holes without what RDMA Writes are known to have written there: packets of theirs were lost.
    fn without_spans(&self, mut holes: Vec<UnseenWriteRange>) -> Vec<UnseenWriteRange> {
        for span in self.spans.iter().filter(|span| !span.is_read) {
            let touches = |hole: &UnseenWriteRange| {
                hole.handle == span.handle
                    && hole.offset < span.offset.saturating_add(span.length.into())
                    && span.offset < hole.offset.saturating_add(hole.length.into())
            };
            let Some(at) = holes.iter().position(touches) else { continue };
            let UnseenWriteRange { handle, offset, length } = holes.remove(at);
            let (end, span_end) =
                (offset.saturating_add(length.into()), span.offset.saturating_add(span.length.into()));
            let parts = [(offset, span.offset.min(end)), (span_end.max(offset), end)];
            let parts = parts.into_iter().filter(|(from, to)| from < to);
            let parts =
                parts.map(|(from, to)| UnseenWriteRange { handle, offset: from, length: (to - from) as u32 });
            holes.splice(at..at, parts);
        }
        holes
    }

    /// A snap length cut the header that tells the memory of an RDMA Read or Write.
    #[cold]
    fn cut_request(&mut self) -> NoOperationReason {
        self.has_cut_request = true;
        NoOperationReason::Cut
    }

    /// Takes a packet that this side sent as a request.
    pub(super) fn request<'a>(
        &'a mut self,
        packet: &InfinibandPacket<'a>,
        sight: PacketMeta<'a>,
        path_mtu: &mut ObservedPathMtu,
    ) -> Result<RdmaOperation<'a>, NoOperationReason> {
        let data = PacketPayload { bytes: packet.payload.bytes, length: packet.payload.length as u32 };
        let place = packet.form.place;
        let sequence = self.extend(packet.bth.psn);
        let without_first = match self.has_cut_request {
            true => NoOperationReason::WriteOfCutFirst,
            false => NoOperationReason::WriteWithoutFirst,
        };
        self.newest = self.newest.max(Some(sequence));
        match packet.form.operation {
            infiniband::PacketOperation::Write => {
                path_mtu.learn(place, data.length);
                let span = match place {
                    PacketPosition::First | PacketPosition::Only => {
                        let reth = packet.reth.ok_or_else(|| self.cut_request())?;
                        self.span(RdmaRequestSpan {
                            first: sequence,
                            is_read: false,
                            handle: reth.r_key,
                            offset: reth.va,
                            length: reth.dmalen,
                            owner: RdmaAttribution::default(),
                        })
                    }
                    _ => self.span_at(sequence).filter(|span| !span.is_read).ok_or(without_first)?,
                };
                let at =
                    path_mtu.offset(sequence - span.first, place, &data, span.length).ok_or(without_first)?;
                let offset = span.offset.wrapping_add(at);
                Ok(RdmaOperation::Write { handle: span.handle, offset, data, owner: &mut span.owner })
            }
            infiniband::PacketOperation::ReadRequest => {
                let reth = packet.reth.ok_or_else(|| self.cut_request())?;
                let span = self.span(RdmaRequestSpan {
                    first: sequence,
                    is_read: true,
                    handle: reth.r_key,
                    offset: reth.va,
                    length: reth.dmalen,
                    owner: RdmaAttribution::default(),
                });
                Ok(RdmaOperation::ReadRequest {
                    handle: span.handle,
                    offset: span.offset,
                    length: span.length,
                    owner: &mut span.owner,
                })
            }
            infiniband::PacketOperation::Send => {
                path_mtu.learn(place, data.length);
                self.send(sequence, place, data, sight)
            }
            _ => Err(NoOperationReason::Control),
        }
    }

    /// Takes a Read response that the peer sent to a request of this side.
    pub(super) fn response<'a>(
        &mut self,
        packet: &InfinibandPacket<'a>,
        path_mtu: &mut ObservedPathMtu,
    ) -> Result<RdmaOperation<'a>, NoOperationReason> {
        if packet.form.operation != infiniband::PacketOperation::ReadResponse {
            if self.has_parts()
                && let Some(Aeth { syndrome: Syndrome::Ack { .. }, .. }) = packet.aeth
            {
                self.acknowledged(self.extend(packet.bth.psn));
            }
            return Err(NoOperationReason::Control);
        }
        let data = PacketPayload { bytes: packet.payload.bytes, length: packet.payload.length as u32 };
        let place = packet.form.place;
        path_mtu.learn(place, data.length);
        let sequence = self.extend(packet.bth.psn);
        let without_request = match self.has_cut_request {
            true => NoOperationReason::ResponseToCutRequest,
            false => NoOperationReason::ResponseWithoutRequest,
        };
        let span = self.span_at(sequence).filter(|span| span.is_read).ok_or(without_request)?;
        let at = path_mtu.offset(sequence - span.first, place, &data, span.length).ok_or(without_request)?;
        Ok(RdmaOperation::ReadResponse { offset: span.offset.wrapping_add(at), data, owner: span.owner })
    }

    fn send<'a>(
        &'a mut self,
        sequence: ExtendedPsn,
        place: PacketPosition,
        data: PacketPayload<'a>,
        sight: PacketMeta<'a>,
    ) -> Result<RdmaOperation<'a>, NoOperationReason> {
        let ends = place.ends();
        let after = match self.sent.back() {
            Some(sent) if sent.first <= sequence => self.sent.len(),
            _ => self.sent.partition_point(|sent| sent.first <= sequence),
        };
        if let Some(sent) = after.checked_sub(1).and_then(|before| self.sent.get_mut(before))
            && sequence <= sent.last
        {
            if ends && !sight.is_idle() {
                sent.is_refused = sight.is_refused();
            }
            return Ok(RdmaOperation::SendAgain { owner: sent.owner, ends });
        }
        if place == PacketPosition::Only {
            let owner = remember(&mut self.sent, sequence, sequence, sight.is_refused());
            let message = RdmaMessage {
                bytes: data.bytes,
                length: data.length as usize,
                gaps: &[],
                frames: sight.frames,
                time: sight.time,
                end_time: sight.time,
                stall: sight.stall(),
            };
            return Ok(RdmaOperation::Send { message, owner });
        }
        let assembly = self.assembly.get_or_insert_default();
        assembly.hold(sequence, place, data, sight);
        match assembly.run_around(sequence) {
            Some(run) if run.ends => self.deliver(run).ok_or(NoOperationReason::Part),
            _ if assembly.is_full() => self.take_unfinished(|_| true).ok_or(NoOperationReason::Part),
            _ => Err(NoOperationReason::Part),
        }
    }

    /// Lays the packets of a run end to end and gives them as a message.
    fn deliver(&mut self, run: PacketRun) -> Option<RdmaOperation<'_>> {
        let delivered = self.assembly.as_mut()?.deliver(run);
        let owner = remember(&mut self.sent, delivered.first, delivered.last, delivered.is_refused);
        Some(RdmaOperation::Send { message: delivered.message, owner })
    }

    /// Whether there are packets of unfinished messages.
    pub(super) fn has_parts(&self) -> bool {
        self.assembly.as_ref().is_some_and(|assembly| !assembly.is_empty())
    }

    /// How many bytes of unfinished messages are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.assembly.as_ref().map_or(0, |assembly| assembly.held_bytes())
    }

    /// Gives up waiting for the rest of a message whose beginning `wanted` recognises.
    pub(super) fn take_unfinished(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Option<RdmaOperation<'_>> {
        let run = self.assembly.as_mut()?.unfinished(wanted)?;
        self.deliver(run)
    }

    /// The peer acknowledges a packet and, with it, every message that was complete before it.
    fn acknowledged(&mut self, sequence: ExtendedPsn) {
        if self.newest.is_none_or(|newest| sequence > newest) {
            return;
        }
        let sent = self.sent.partition_point(|sent| sent.first <= sequence);
        let sent = sent.checked_sub(1).and_then(|at| self.sent.get(at)).map(|sent| sent.first);
        let span = self.spans.partition_point(|span| span.first <= sequence);
        let span = span.checked_sub(1).and_then(|at| self.spans.get(at)).map(|span| span.first);
        let parts = self.assembly.iter().flat_map(|assembly| assembly.boundaries_until(sequence));
        self.over = parts.chain(sent).chain(span).chain([self.over]).max().unwrap_or_default();
    }

    /// The peer acknowledges a packet, or refuses one and acknowledges what was before it: the messages that it had not
    /// acknowledged before, by their owners.
    #[inline]
    pub(super) fn settle(
        &mut self,
        psn: Psn,
        syndrome: Syndrome,
        now: Timestamp,
    ) -> impl Iterator<Item = RdmaAttribution> + '_ {
        let sequence = self.extend(psn);
        // An RDMA Read has the numbers of its responses.
        let end = self.newest.map_or(0, |newest| newest + 1).max(self.delivery.expected());
        let is_known = sequence < end;
        let until = match syndrome {
            Syndrome::Ack { .. } if is_known => sequence + 1,
            Syndrome::Nak(NakCode::PSN_SEQUENCE_ERROR) | Syndrome::RnrNak { .. } => {
                let until = sequence.min(end);
                if until > 0 {
                    self.delivery.refuse(until, now);
                }
                until
            }
            _ => 0,
        };
        let is_gap_proven = self.delivery.has_proven_gap();
        self.delivery.acknowledge(until);
        let from = self.settled;
        self.settled = from.max(until);
        let first = match until > from {
            true => self.sent.partition_point(|sent| sent.last < from),
            false => self.sent.len(),
        };
        let news = self.sent.range(first..).take_while(move |sent| sent.last < until);
        // Of one that was refused, the copy that was accepted was not captured.
        news.filter(move |sent| !(sent.is_refused && is_gap_proven)).map(|sent| sent.owner)
    }

    /// Whether the peer has acknowledged a packet with this PSN.
    pub(super) fn is_settled(&self, psn: Psn) -> bool {
        self.extend(psn) < self.settled
    }

    /// Nothing more will come: all messages are over.
    pub(super) fn end(&mut self) {
        self.over = ExtendedPsn::MAX;
        self.is_ended = true;
    }

    /// A message that is over and was not seen whole, when the rest of it had its time to come: the clock of the host that
    /// captured the acknowledgement may be ahead.
    pub(super) fn take_over(&mut self, now: Timestamp) -> Option<RdmaOperation<'_>> {
        let run = self.assembly.as_mut()?.over(self.over, self.is_ended, now)?;
        self.deliver(run)
    }

    /// Drops all packets of unfinished messages.
    pub(super) fn drop_parts(&mut self) {
        if let Some(assembly) = &mut self.assembly {
            assembly.clear();
        }
    }

    /// How many frames had parts that were dropped since this was asked last.
    pub(super) fn take_dropped(&mut self) -> u64 {
        self.assembly.as_mut().map_or(0, |assembly| assembly.take_dropped())
    }
}

/// Remembers a message for its copies, and gives the place of its owner.
fn remember(
    sent: &mut VecDeque<SentRdmaMessage>,
    first: ExtendedPsn,
    last: ExtendedPsn,
    is_refused: bool,
) -> &mut RdmaAttribution {
    let at = sent.partition_point(|sent| sent.first <= first);
    let at = make_room(sent, SENT, at, first, |sent| sent.first);
    sent.insert(at, SentRdmaMessage { first, last, owner: RdmaAttribution::default(), is_refused });
    &mut sent[at].owner
}

/// Drops one entry where there are `bound` already, before there would be room for twice as many: of both ends that which
/// is farther from the entry that is to come at `at`, because a queue pair that began anew, unseen, may count from below
/// what is remembered. Returns where the entry belongs then.
fn make_room<T>(
    list: &mut VecDeque<T>,
    bound: usize,
    at: usize,
    sequence: ExtendedPsn,
    first: impl Fn(&T) -> ExtendedPsn,
) -> usize {
    if list.len() < bound {
        return at;
    }
    let [front, back] = [list.front(), list.back()].map(|entry| entry.map_or(0, &first));
    if at == 0 || sequence.saturating_sub(front) < back.saturating_sub(sequence) {
        list.pop_back();
        at.min(list.len())
    } else {
        list.pop_front();
        at - 1
    }
}
