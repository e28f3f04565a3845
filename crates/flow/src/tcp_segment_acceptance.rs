//! Acceptance of TCP segments: which SYN, RST, FIN and sequence number takes effect. RFC 9293 section 3.10.7.4,
//! RFC 5961.
//!
//! A capture has segments that their receiver discards or answers by a challenge ACK: damaged ones, old ones, and those
//! of others. The flow does not see what the receiver does, but what follows:
//!
//! - A SYN in a stream that has carried data begins another one only if the other side answers it, or data continue at
//!   its number.
//! - So does a segment far from all others only if the next ones continue it, or the other side acknowledges it. One
//!   below the first byte is far, and one that takes an acknowledgement back although it is not older. Without a SYN,
//!   the first data may have a wrong number: as long as none of them is acknowledged or has a message, data far from them
//!   begin the direction again, at once if their number is the one that the other side expects.
//! - The data of a SYN count only if the next ones continue them, or the other side acknowledges exactly them.
//! - A RST or a FIN outside the window is ignored, and one that its sender outlives is taken back.
//! - A wrong checksum means damage if most others of the direction are right; if it is the first of the direction, if
//!   streams have right ones in both directions, until its acknowledgement or the next one of the direction tells more.
//!   The bytes of a damaged segment are missing if no right copy was captured, whether its receiver acknowledged them
//!   or not: it had another copy. Only data longer than all with right checksums count if they are acknowledged: a
//!   network card joined them. If the checksum of the SYN or of the first data was wrong, and the next one is right,
//!   those do not tell where the direction begins.
//! - The checksum of file data and long lists, within a message, is checked like that of others: the sum takes 2
//!   instructions for 8 bytes.

use nfsrdma_dissectors::captured_frame::{Frame, Timestamp};
use nfsrdma_dissectors::net::{self, InnermostNetworkPacket, TcpChecksum, TcpSegment, TcpSequence};

use super::count_categories::UndecodedReason;
use super::endpoint_pair::EndpointPair;
use super::flow_state::Flow;
use super::frame_kind::FrameContentKind;
use super::packet_meta::PacketMeta;
use super::stream::direction::{MAX_BYTES_AHEAD, SegmentPlace};
use super::tcp_conversations::{CapturedSyn, StraySegment, TcpConversation};
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};

/// Number of segments, each the continuation of the one before and all far from the stream, that begin another stream
/// although their acknowledgement numbers fit the old one.
const MIN_CONTINUING_SEGMENTS: u32 = 3;

impl TcpConversation {
    /// Returns `true` if a segment is the next one in its direction, and only its checksum may have to be checked. Most
    /// are.
    #[inline]
    fn is_expected(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        segment.flags.is_plain_ack()
            && self.directions[sender].is_next(segment.sequence)
            && !self.directions[sender].has_wrong_start()
            && self.stray.is_none()
            && !self.has_unconfirmed_syn()
            && !self.is_opening()
            && !self.directions[sender.peer()].exceeds_captured(segment.acknowledgment)
    }

    /// Returns `true` if a segment of the side that has not answered the SYN yet acknowledges another number than what
    /// follows the SYN: it is none of this stream, or the SYN is none. RFC 9293 section 3.10.7.3.
    fn precedes_answer(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        let (own, peer) = (&self.directions[sender], &self.directions[sender.peer()]);
        self.is_opening()
            && own.is_unknown()
            && segment.flags.ack()
            && !segment.flags.syn()
            && !segment.flags.rst()
            && peer.captured_syn().is_some()
            && !peer.is_continued_at(segment.acknowledgment)
    }

    /// Returns `true` if a segment contradicts the SYN that opened the stream, before the other side has answered it or
    /// data have followed it: one of both is stray.
    fn contradicts_opening(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        let (own, peer) = (&self.directions[sender], &self.directions[sender.peer()]);
        self.is_opening()
            && !self.has_both_syns()
            && !own.is_unknown()
            && segment.flags.ack()
            && !segment.flags.syn()
            && !segment.flags.rst()
            && (own.contradicts_start(segment.sequence)
                || segment.payload.length > 1 && !own.has_bytes() && own.precedes_next(segment.sequence)
                || peer.contradicts_start(segment.acknowledgment))
    }

    /// Returns `true` if a segment, the next one in its direction, has nothing that its checksum must confirm: no data,
    /// or those of another protocol. The first checksum of a direction tells what later ones mean.
    #[inline]
    fn needs_no_sum(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        let data = CapturedPacketPayload { bytes: segment.payload.bytes, length: segment.payload.length as u32 };
        match data.length {
            0 => !self.directions[sender].has_no_checksum(),
            _ => !self.protocol.has_messages() && self.protocol.is_within_message(sender, data),
        }
    }

    /// Returns `true` if a segment that looks like a copy of one without effect was sent again because that one was
    /// damaged.
    pub(super) fn replaces_damaged(
        &self,
        sender: ConnectionSideAOrB,
        datagram: &InnermostNetworkPacket<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        self.place(sender, segment) == SegmentPlace::Near
            && segment.checksum(&datagram.source, &datagram.destination) == TcpChecksum::Good
    }

    /// Returns the place of a segment in the direction of its sender.
    fn place(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> SegmentPlace {
        let (own, peer) = (&self.directions[sender], &self.directions[sender.peer()]);
        match own.place(segment.sequence) {
            SegmentPlace::Near if self.precedes_answer(sender, segment) => SegmentPlace::Far,
            // Neither side takes anything back.
            SegmentPlace::Near
                if segment.payload.length > 0
                    && own.precedes_next(segment.sequence)
                    && peer.is_taken_back_by(segment) =>
            {
                SegmentPlace::Far
            }
            place => place,
        }
    }

    /// Returns `true` if the checksum of a segment must be checked: it has data, or would change the stream.
    fn needs_checksum(&self, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) -> bool {
        let (own, peer) = (&self.directions[sender], &self.directions[sender.peer()]);
        !segment.flags.is_plain_ack()
            || peer.exceeds_captured(segment.acknowledgment)
            || !self.needs_no_sum(sender, segment)
            || (segment.payload.length > 0 && (own.has_wrong_start() || !own.is_next(segment.sequence)))
    }
}

impl Flow {
    /// Returns `true` if a segment is the next one in its direction, and takes effect as it is.
    #[inline]
    pub(super) fn expects_segment(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        (datagram, segment): (&InnermostNetworkPacket<'_>, &TcpSegment<'_>),
    ) -> bool {
        let Some(stream) = self.streams.get_mut(at) else { return true };
        stream.last_frame = packet_meta.last_frame();
        if !stream.is_expected(sender, segment)
            || !stream.needs_no_sum(sender, segment) && self.record_checksum(at, sender, datagram, segment)
        {
            return false;
        }
        if let Some(stream) = self.streams.get_mut(at) {
            let length = segment.payload.length as u32;
            stream.directions[sender].record_segment(segment.sequence, length, packet_meta.time);
        }
        true
    }

    /// Returns `true` if the IP length of a segment, beyond the captured bytes, is damaged instead of them cut by a snap
    /// length: they are all that was on the wire, and have the checksum of a whole segment, or the checksum of the IPv4
    /// header (RFC 791 section 3.1) is wrong in a stream with right checksums.
    #[cold]
    pub(super) fn has_damaged_length(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let payload = segment.payload.with_length(segment.payload.bytes.len());
        let is_whole = || {
            let on_wire = TcpSegment { payload, ..*segment };
            frame.bytes.len() >= frame.length as usize
                && on_wire.checksum(&datagram.source, &datagram.destination) == TcpChecksum::Good
        };
        let is_header_wrong = || {
            let header = frame.bytes.get(datagram.network_offset..).unwrap_or_default();
            net::has_wrong_ipv4_checksum(header) && self.streams.have_right_checksums()
        };
        is_whole() || is_header_wrong()
    }

    /// Records the checksum of a segment. Returns `true` if it shows damage.
    #[inline(never)]
    fn record_checksum(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        datagram: &InnermostNetworkPacket<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let checksum = segment.checksum(&datagram.source, &datagram.destination);
        self.streams.record_checksum(at, sender, (segment.payload.length as u32, checksum))
    }

    /// Returns the side of the sender of a segment, and the segment as far as it takes effect; `Err` with the meaning
    /// of the frame if the stream does not accept it.
    #[inline(never)]
    pub(super) fn check_segment<'a>(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        packet_meta: PacketMeta<'_>,
        (datagram, segment): (&InnermostNetworkPacket<'_>, &TcpSegment<'a>),
    ) -> Result<(ConnectionSideAOrB, TcpSegment<'a>), FrameContentKind> {
        let Some(stream) = self.streams.get_mut(at) else { return Ok((sender, *segment)) };
        let is_suspect = stream.needs_checksum(sender, segment);
        let is_unusual = is_suspect
            || stream.stray.is_some()
            || stream.has_unconfirmed_syn()
            || stream.contradicts_opening(sender, segment)
            || stream.place(sender, segment) != SegmentPlace::Near;
        let accepted = match is_unusual {
            true => self.accept_unusual_segment(at, sender, ports, packet_meta, (datagram, segment), is_suspect)?,
            false => (sender, *segment),
        };
        let (sender, segment) = &accepted;
        if let Some(stream) = self.streams.get_mut(at)
            && stream.place(*sender, segment) != SegmentPlace::Far
        {
            let own = &mut stream.directions[*sender];
            let flags = segment.flags;
            let length = segment.payload.length as u32 + u32::from(flags.syn()) + u32::from(flags.fin());
            own.record_segment(segment.sequence, length, packet_meta.time);
        }
        Ok(accepted)
    }

    #[inline(never)]
    fn accept_unusual_segment<'a>(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        packet_meta: PacketMeta<'_>,
        (datagram, segment): (&InnermostNetworkPacket<'_>, &TcpSegment<'a>),
        is_suspect: bool,
    ) -> Result<(ConnectionSideAOrB, TcpSegment<'a>), FrameContentKind> {
        let mut segment = *segment;
        let Some(stream) = self.streams.get_mut(at) else { return Ok((sender, segment)) };
        let is_living = stream.is_living();
        let was_placed = stream.is_parsed() || stream.is_established();
        stream.drop_old_syns(packet_meta.time);
        if is_suspect
            && self.record_checksum(at, sender, datagram, &segment)
            && !self.keep_damaged_segment(at, sender, packet_meta, &segment)
        {
            return Err(self.stats.count_undecoded_packet(UndecodedReason::BadChecksum, &packet_meta));
        }
        let Some(stream) = self.streams.get_mut(at) else { return Ok((sender, segment)) };
        let flags = segment.flags;
        if segment.payload.length > 0
            && !flags.syn()
            && !flags.rst()
            && let own = &mut stream.directions[sender]
            && let is_damaged = own.resolve_wrong_start(segment.sequence)
            && (is_damaged || own.is_start_expected_at(segment.sequence))
        {
            self.restart_direction(at, sender, segment.sequence, is_damaged);
        }
        let Some(stream) = self.streams.get_mut(at) else { return Ok((sender, segment)) };
        let (own, peer) = stream.directions.own_and_peer(sender);
        if flags.rst() {
            // Its data are a message to people (RFC 9293 section 3.5.3).
            segment.payload = segment.payload.with_length(0);
            let is_accepted = !is_living || (!flags.syn() && own.may_be_reset_at(segment.sequence));
            return if is_accepted { Ok((sender, segment)) } else { Err(FrameContentKind::Control) };
        }
        if flags.syn() {
            let syn = CapturedSyn {
                sequence: segment.sequence,
                acknowledgment: flags.ack().then_some(segment.acknowledgment),
                time: packet_meta.time,
            };
            let Some(sender) = self.accept_syn(at, sender, ports, syn) else {
                return Err(self.ignored_segment(&packet_meta, &segment));
            };
            if segment.payload.length > 0 && self.keep_syn_data(at, sender, packet_meta, &segment) {
                self.stats.count_undecoded_frames(UndecodedReason::Stray, 1);
                segment.payload = segment.payload.with_length(0);
            }
            return Ok((sender, segment));
        }
        if !flags.ack() && peer.has_acknowledgments() {
            return Err(self.ignored_segment(&packet_meta, &segment));
        }
        if flags.fin() && is_living && !own.may_end_at(segment.sequence.add(segment.payload.length as u32)) {
            segment.flags = flags.without_fin();
        }
        let sender = self.doubt_opening(at, sender, ports, packet_meta.time, &segment);
        let sender = self.confirm_syn(at, sender, ports, packet_meta.time, &segment);
        self.decide_doubtful_start(at, sender, &segment);
        self.confirm_stray_segment(at, sender, packet_meta.time, &segment);
        let Some(stream) = self.streams.get_mut(at) else { return Ok((sender, segment)) };
        let place = stream.place(sender, &segment);
        let is_placed = was_placed && (stream.is_parsed() || stream.is_established());
        if !(is_placed || stream.precedes_answer(sender, &segment)) || place == SegmentPlace::Near {
            return Ok((sender, segment));
        }
        match segment.payload.length {
            0 if place == SegmentPlace::Far => Err(FrameContentKind::Control),
            0 => Ok((sender, segment)),
            _ => self.accept_stray_segment(at, sender, place, packet_meta, &segment).map(|()| (sender, segment)),
        }
    }

    /// Returns the meaning of a segment without effect.
    pub(super) fn ignored_segment(
        &mut self,
        packet_meta: &PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> FrameContentKind {
        match segment.payload.length {
            0 => FrameContentKind::Control,
            _ => self.stats.count_undecoded_packet(UndecodedReason::Stray, packet_meta),
        }
    }

    /// Keeps the data of a segment with a wrong checksum, in case that such checksums mean nothing. Returns `true` if the
    /// segment shows that: it takes effect.
    fn keep_damaged_segment(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let flags = segment.flags;
        let data = CapturedPacketPayload { bytes: segment.payload.bytes, length: segment.payload.length as u32 };
        let Some(stream) = self.streams.get_mut(at) else { return false };
        stream.directions[sender].record_damage();
        if stream.directions[sender].is_unknown() && data.length > 0 && flags.ack() && !flags.syn() && !flags.rst() {
            let received = stream.directions[sender.peer()].received(segment.acknowledgment);
            let start = StraySegment::doubtful_start(sender, packet_meta, segment);
            stream.stray = Some(Box::new(StraySegment { received, ..start }));
            return false;
        }
        if !stream.is_parsed() && !stream.is_opening() {
            return false;
        }
        let is_placed = stream.directions[sender].place(segment.sequence) == SegmentPlace::Near;
        if data.length == 0 || !is_placed || !flags.ack() || flags.syn() || flags.rst() {
            return false;
        }
        let received = stream.directions[sender.peer()].received(segment.acknowledgment);
        let takes_effect = stream.directions[sender].keep_doubtful(segment.sequence, data, packet_meta, received);
        if takes_effect {
            // The one before it is buffered.
            self.stats.uncount_undecoded(UndecodedReason::BadChecksum);
        }
        takes_effect
    }

    /// Delivers the kept segment with a wrong checksum whose bytes the receiver acknowledged if such checksums mean
    /// nothing; with `is_last`, also if nothing tells.
    #[cold]
    pub(super) fn deliver_doubtful_segment(&mut self, at: usize, sender: ConnectionSideAOrB, is_last: bool) {
        let stream = self.streams.get_mut(at);
        if stream.is_some_and(|stream| stream.directions[sender].accept_doubtful(is_last)) {
            self.stats.uncount_undecoded(UndecodedReason::BadChecksum);
            self.end_detection(at);
            self.dispatch_stream(at, sender, |own, dispatcher| own.deliver_buffered(dispatcher));
        }
    }

    /// Handles a SYN: it begins the stream, or a new one between the same ports. Returns the side of its sender; `None`
    /// if it is to be confirmed.
    fn accept_syn(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        syn: CapturedSyn,
    ) -> Option<ConnectionSideAOrB> {
        let stream = self.streams.get_mut(at)?;
        let own = &stream.directions[sender];
        let is_copy = own.has_syn(syn.sequence) && own.may_have_syn_copy(syn.time);
        let is_other = own.starts_other_stream(syn.sequence);
        let is_paired = stream.unconfirmed_syn(sender.peer()).is_some_and(|peer_syn| peer_syn.is_pair(syn));
        let is_own = match stream.is_living() {
            _ if stream.is_over() && !is_copy && (is_other || own.has_begun()) => false,
            true if !is_paired && !stream.is_searched() && !own.has_bytes() && own.fits_syn(syn.sequence) => true,
            true => {
                // An acknowledgement of the next byte of the stream answers no SYN.
                let continues = |side: ConnectionSideAOrB, syn: CapturedSyn| {
                    syn.acknowledgment.is_none() && stream.directions[side].is_continued_at(syn.first_byte())
                };
                let unconfirmed_syn = stream
                    .unconfirmed_syn(sender.peer())
                    .filter(|peer_syn| !continues(sender, syn) && !continues(sender.peer(), *peer_syn));
                // The SYN of the other side may have been taken as one captured late.
                let opening_syn = stream.opening_syn(sender.peer()).filter(|_| syn.is_answer() && !own.has_begun());
                let peer_syn = unconfirmed_syn.or(opening_syn).filter(|peer_syn| peer_syn.is_pair(syn));
                // The client of the stream remains the one that connects.
                let opener = if syn.is_answer() { sender.peer() } else { sender };
                let client = stream.connection.and_then(|key| self.connections.get_mut_by_key(key)?.client());
                let peer_syn = peer_syn.filter(|_| client.is_none_or(|client| client == opener));
                if peer_syn.is_none() {
                    stream.keep_unconfirmed_syn(sender, syn);
                    return None;
                }
                return Some(self.begin_stream(at, sender, ports, syn.time, [Some(syn), peer_syn]));
            }
            // The answer to the SYN of the other side has its number. Two sides that open at once are not known.
            false if !own.has_begun() && stream.opening_syn(sender.peer()).is_some_and(|peer| !peer.is_pair(syn)) => {
                stream.keep_unconfirmed_syn(sender, syn);
                return None;
            }
            // One side sends a SYN or an answer to one, not both.
            false
                if is_other
                    && !(own.has_wrong_start() && own.checksums().show_damage())
                    && stream.opening_syn(sender).is_some_and(|own| own.is_answer() != syn.is_answer()) =>
            {
                stream.keep_unconfirmed_syn(sender, syn);
                return None;
            }
            false => !is_other,
        };
        if !is_own {
            return Some(self.begin_stream(at, sender, ports, syn.time, [Some(syn), None]));
        }
        stream.record_syn(sender, syn);
        if syn.is_answer() {
            // What was captured before it is none of this stream.
            stream.stray.take_if(|stray| stray.sender == sender && !stray.is_syn_data);
        }
        if stream.is_parsed() {
            // Bytes of the other direction waited for it.
            self.dispatch_stream(at, sender.peer(), |own, dispatcher| own.deliver_buffered(dispatcher));
        }
        Some(sender)
    }

    /// Keeps the data of a SYN, which few receivers accept (RFC 7413). Returns `false` if the parser of the stream has
    /// begun: they are a copy.
    fn keep_syn_data(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(at).filter(|stream| !stream.is_parsed()) else { return false };
        stream.stray = Some(Box::new(StraySegment::doubtful_start(sender, packet_meta, segment)));
        true
    }

    /// Begins a new stream with the SYNs of `sender` and its peer. Returns the side of `sender` in it.
    fn begin_stream(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        now: Timestamp,
        syns: [Option<CapturedSyn>; 2],
    ) -> ConnectionSideAOrB {
        let sides = [sender, sender.peer()];
        let Some(stream) = self.streams.get_mut(at) else { return sender };
        let last_frame = stream.last_frame;
        let mut given = sides.into_iter().zip(&syns);
        let is_repeated = given.any(|(side, syn)| {
            let own = &stream.directions[side];
            syn.is_some_and(|syn| own.has_syn(syn.sequence) || own.is_ahead_of(syn.first_byte()))
        });
        self.end_stream(at, now);
        if let [Some(_), Some(_)] = syns {
            self.recount_frames_before_handshake(at);
        }
        self.streams.begin_incarnation(at, ports);
        let Some(stream) = self.streams.get_mut(at) else { return sender };
        stream.last_frame = last_frame;
        if is_repeated {
            stream.forget_previous();
        }
        let mut syns: Vec<_> = { ConnectionSideAOrB::BOTH }.into_iter().zip(syns).collect();
        syns.sort_by_key(|(_, syn)| syn.map(|syn| syn.time));
        for (side, syn) in syns {
            if let Some(syn) = syn {
                stream.record_syn(side, syn);
            }
        }
        ConnectionSideAOrB::A
    }

    /// Takes back that a SYN opened the stream if a segment contradicts it: it is to be confirmed, like one within a
    /// stream. Returns the side of the sender of the segment.
    fn doubt_opening(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        now: Timestamp,
        segment: &TcpSegment<'_>,
    ) -> ConnectionSideAOrB {
        let Some(stream) = self.streams.get_mut(at).filter(|stream| stream.contradicts_opening(sender, segment)) else {
            return sender;
        };
        let syns = [sender, sender.peer()].map(|side| stream.opening_syn(side).or(stream.unconfirmed_syn(side)));
        // It acknowledged another number than that of the SYN, rightly.
        let first = stream.stray.take_if(|stray| stray.is_far && stray.sender != sender && !stray.is_doubtful_start);
        let sender = self.begin_stream(at, sender, ports, now, [None, None]);
        if let Some(stream) = self.streams.get_mut(at) {
            stream.forget_previous();
            for (side, syn) in [sender, sender.peer()].into_iter().zip(syns) {
                if let Some(syn) = syn {
                    stream.keep_unconfirmed_syn(side, syn);
                }
            }
        }
        if let Some(first) = first {
            self.process_first_segment(at, &StraySegment { sender: sender.peer(), ..*first });
        }
        sender
    }

    /// Begins a new stream if a segment confirms a SYN: it has the first byte, or acknowledges the SYN, and has no
    /// place in the old stream. Returns the side of its sender.
    fn confirm_syn(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        ports: EndpointPair,
        now: Timestamp,
        segment: &TcpSegment<'_>,
    ) -> ConnectionSideAOrB {
        let Some(stream) = self.streams.get_mut(at) else { return sender };
        let (own, peer) = (&stream.directions[sender], &stream.directions[sender.peer()]);
        let own_syn = stream.unconfirmed_syn(sender).filter(|syn| syn.first_byte() == segment.sequence);
        let peer_syn = stream.unconfirmed_syn(sender.peer()).filter(|syn| syn.first_byte() == segment.acknowledgment);
        let has_first_byte = own_syn.is_some() && segment.payload.length > 0 && !own.is_continued_at(segment.sequence);
        // The last segment of a handshake has both numbers of the one before.
        let ends_handshake = peer_syn.is_some_and(|syn| syn.acknowledgment == Some(segment.sequence))
            && !peer.is_continued_at(segment.acknowledgment)
            && !own.is_continued_at(segment.sequence);
        let is_acknowledged = peer_syn.is_some() && !peer.may_be_acknowledged(segment.acknowledgment) || ends_handshake;
        // The SYN that opened the stream may be the first of the handshake.
        let opening_syn = stream.opening_syn(sender).filter(|syn| syn.first_byte() == segment.sequence);
        match has_first_byte || is_acknowledged {
            true => self.begin_stream(at, sender, ports, now, [own_syn.or(opening_syn), peer_syn]),
            false => sender,
        }
    }

    /// Handles a segment that decides about the first one of a direction: one with a wrong checksum takes effect unless the
    /// next one of its sender has a right checksum, and the data of a SYN if the next ones continue them, or their
    /// receiver acknowledges them (RFC 7413 section 4.2).
    fn decide_doubtful_start(&mut self, at: usize, sender: ConnectionSideAOrB, segment: &TcpSegment<'_>) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let is_decided = |stray: &StraySegment| stray.is_doubtful_start && stray.is_decided_by(sender, segment);
        let Some(stray) = stream.stray.take_if(|stray| is_decided(stray)) else { return };
        if stray.is_syn_data {
            if sender == stray.sender && segment.sequence != stray.end() {
                return;
            }
            self.stats.uncount_undecoded(UndecodedReason::Stray);
        } else {
            let follows = (0..MAX_BYTES_AHEAD as i32).contains(&stray.first.distance(segment.sequence));
            if stream.directions[stray.sender].checksums().show_damage() || sender == stray.sender && !follows {
                return;
            }
            self.stats.uncount_undecoded(UndecodedReason::BadChecksum);
        }
        if stream.is_parsed() {
            self.deliver_stray_segment(at, &stray);
        } else {
            self.process_stream_bytes(at, stray.sender, stray.packet_meta(), (stray.first, None), stray.data());
        }
        // They are the meanings of an earlier frame.
        self.frame_kinds.clear();
    }

    /// Handles an acknowledgement of the last stray segment, which confirms it.
    fn confirm_stray_segment(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        now: Timestamp,
        segment: &TcpSegment<'_>,
    ) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let peer = &stream.directions[sender.peer()];
        // An acknowledgement of the bytes of the stream confirms none that are far from them.
        let is_acknowledged = |stray: &StraySegment| {
            stray.sender != sender
                && !stray.is_doubtful_start
                && stray.is_followed_at(segment.acknowledgment)
                && (!stray.is_far
                    || peer.is_unknown()
                    || peer.place(segment.acknowledgment) == SegmentPlace::Far
                    || peer.is_taken_back_by(segment)
                    || peer.exceeds_captured(segment.acknowledgment) && stray.end() == segment.acknowledgment)
        };
        let Some(stray) = stream.stray.take_if(|stray| is_acknowledged(stray)) else { return };
        if stray.is_far {
            self.begin_at_far_segment(at, now, &stray);
        } else {
            self.deliver_stray_segment(at, &stray);
        }
    }

    /// Begins a direction again at this number: that of its first captured bytes was wrong. Its buffered bytes are
    /// delivered before, unless those of a damaged start.
    fn restart_direction(&mut self, at: usize, sender: ConnectionSideAOrB, sequence: TcpSequence, is_damaged: bool) {
        let now = self.now;
        let is_parsed = self.streams.get_mut(at).is_some_and(|stream| stream.is_parsed());
        self.dispatch_stream(at, sender, |own, dispatcher| {
            if is_parsed && !is_damaged {
                own.deliver_all_buffered(now, dispatcher);
            }
            dispatcher.finish_side(sender);
            own.restart_at(sequence);
        });
        // They are the meanings of earlier frames.
        self.frame_kinds.clear();
    }

    /// Begins a new stream with a segment that is far from all others, or its direction if only the first captured bytes
    /// told where that begins, and had no message.
    fn begin_at_far_segment(&mut self, at: usize, now: Timestamp, stray: &StraySegment) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let own = &stream.directions[stray.sender];
        if !own.may_restart_at(stray.first) || own.has_unacknowledged_messages() {
            return self.begin_stream_at(at, now, stray);
        }
        self.restart_direction(at, stray.sender, stray.first, false);
        self.deliver_stray_segment(at, stray);
        self.frame_kinds.clear();
        self.stats.uncount_undecoded(UndecodedReason::Stray);
    }

    /// Begins a new stream with a segment that is far from all others.
    fn begin_stream_at(&mut self, at: usize, now: Timestamp, stray: &StraySegment) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let ports = stream.ports;
        let last_frame = stream.last_frame;
        let is_lower = stream.directions[stray.sender].is_near(stray.first);
        self.end_stream(at, now);
        self.streams.begin_incarnation(at, ports);
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.last_frame = last_frame;
        if is_lower {
            // Its numbers will reach those of the stream before.
            stream.forget_previous();
        }
        self.process_first_segment(at, stray);
    }

    /// Handles a kept segment as the first one of a stream.
    fn process_first_segment(&mut self, at: usize, stray: &StraySegment) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.directions[stray.sender].record_segment(stray.first, stray.length, stray.time);
        self.process_stream_bytes(at, stray.sender, stray.packet_meta(), (stray.first, None), stray.data());
        // They are the meanings of an earlier frame.
        self.frame_kinds.clear();
        if self.streams.get_mut(at).is_some_and(|stream| stream.is_parsed()) {
            self.stats.uncount_undecoded(UndecodedReason::Stray);
        }
    }

    fn deliver_stray_segment(&mut self, at: usize, stray: &StraySegment) {
        self.dispatch_stream(at, stray.sender, |own, dispatcher| {
            own.process_segment(stray.first, stray.data(), stray.packet_meta(), stray.received, dispatcher);
        });
    }

    /// Handles data ahead of all others or far from them: the next segment decides if they belong to the stream, or if
    /// a new one began.
    fn accept_stray_segment(
        &mut self,
        at: usize,
        sender: ConnectionSideAOrB,
        place: SegmentPlace,
        packet_meta: PacketMeta<'_>,
        segment: &TcpSegment<'_>,
    ) -> Result<(), FrameContentKind> {
        let Some(stream) = self.streams.get_mut(at) else { return Ok(()) };
        let is_far = place == SegmentPlace::Far;
        let peer = &stream.directions[sender.peer()];
        let fits_peer = segment.flags.ack()
            && peer.may_be_acknowledged(segment.acknowledgment)
            && !stream.precedes_answer(sender, segment);
        let received = peer.received(segment.acknowledgment);
        let own = &stream.directions[sender];
        let expected = own.expected_position();
        // Without its SYN, the stream may have had these bytes.
        let may_be_other = own.has_begun() || !own.is_near(segment.sequence) || own.may_restart_at(segment.sequence);
        let previous = stream.stray.take();
        let continued = previous
            .as_ref()
            .filter(|stray| stray.sender == sender && stray.is_far == is_far && stray.is_followed_at(segment.sequence));
        let preceding = continued.map_or(0, |stray| stray.preceding + 1);
        match continued {
            Some(stray) if !is_far => {
                self.deliver_stray_segment(at, stray);
                return Ok(());
            }
            Some(stray) if !fits_peer || may_be_other && preceding >= MIN_CONTINUING_SEGMENTS => {
                self.begin_at_far_segment(at, packet_meta.time, stray);
                return Ok(());
            }
            _ => {}
        }
        stream.stray = Some(Box::new(StraySegment {
            sender,
            first: segment.sequence,
            length: segment.payload.length as u32,
            bytes: segment.payload.bytes.to_vec(),
            frames: packet_meta.frames.to_vec(),
            time: packet_meta.time,
            received,
            expected,
            preceding,
            is_far,
            is_doubtful_start: false,
            is_syn_data: false,
        }));
        if previous.is_some_and(|stray| !stray.is_far) {
            self.stats.count_undecoded_frames(UndecodedReason::Stray, 1);
        }
        Err(match is_far {
            true => self.stats.count_undecoded_packet(UndecodedReason::Stray, &packet_meta),
            false => FrameContentKind::PartialMessage,
        })
    }

    /// Handles the last segment ahead of all others at the end of a stream: if nothing was captured since, the bytes
    /// before it are missing.
    pub(super) fn finish_stray_segment(&mut self, at: usize) {
        let Some(stray) = self.streams.get_mut(at).and_then(|stream| stream.stray.take()) else { return };
        if stray.is_far {
            return;
        }
        let stream = self.streams.get_mut(at);
        if stream.is_some_and(|stream| stream.directions[stray.sender].expected_position() > stray.expected) {
            self.stats.count_undecoded_frames(UndecodedReason::Stray, 1);
        } else {
            self.deliver_stray_segment(at, &stray);
        }
    }
}
