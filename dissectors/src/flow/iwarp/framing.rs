//! FPDUs in one direction of a stream. RFC 5044 sections 4 to 6.

use crate::field::NullObserver;
use crate::flow::PacketMeta;
use crate::flow::statistics::UndecodedReason;
use crate::flow::stream::{Position, StreamBytes};
use crate::frame::CapturedSlice;
use crate::iwarp::DdpSegment;
use crate::iwarp::crc::Crc;
use crate::iwarp::mpa::{
    FpduHeader, LONGEST_PRIVATE_DATA, MARKER_INTERVAL, REPLY_KEY, REQUEST_KEY, Startup, StartupFrameKind,
};
use crate::rdma::PacketPayload;

use super::fpdu::{FpduCrcCheck, HEADERS, PartialFpdu};
use super::fpdu_search::{self, FpduConfidence, SearchBudget};
use super::markers::Markers;
use super::payload::{FpduPayload, FpduPayloadBuffer, FpduSink, FrameTimes, HeaderFrames};
use super::unparsed_bytes::UnparsedBytes;
use super::{CrcUse, IwarpSharedState, MISSES};

#[derive(Debug, Default)]
enum MpaFramingState {
    /// Before the first byte: a start-up frame may follow.
    #[default]
    Open,
    /// In a start-up frame; these are its bytes so far.
    Startup(Vec<u8>),
    /// An FPDU begins at the next byte.
    Between(FpduConfidence),
    /// In an FPDU.
    Fpdu(PartialFpdu),
    /// The start of the next FPDU is unknown.
    Lost,
    /// The connection was refused: the following bytes are not MPA.
    Refused,
}

/// Framing state of one direction.
#[derive(Debug, Default)]
pub(super) struct Framing {
    state: MpaFramingState,
    /// `None` if their use or their positions are unknown.
    markers: Option<Markers>,
    /// Use of markers requested by the other side, if known.
    told: Option<bool>,
    /// Start of an earlier FPDU: others begin at a multiple of four bytes from it.
    began: Option<Position>,
    /// End of the start-up frame; the first marker is here if markers are used.
    start: Option<Position>,
    /// Position before which the use of markers is not proven: an FPDU is accepted if it fits without any.
    unsure_until: Position,
    /// `true` if markers inferred from structure were confirmed.
    has_shown_markers: bool,
    hold: FpduPayloadBuffer,
    /// Budget of the FPDU search in the current bytes.
    work: SearchBudget,
}

/// Returns the reason for bytes in which no FPDU was found.
fn framing_reason(is_cut: bool) -> UndecodedReason {
    if is_cut { UndecodedReason::CutStream } else { UndecodedReason::Framing }
}

impl Framing {
    /// Handles the other side's request for markers, or for none.
    pub(super) fn told_markers(&mut self, are_needed: bool) {
        self.told = Some(are_needed);
        if !are_needed && self.markers.is_none() {
            self.markers = Some(Markers::Off);
        }
    }

    /// Handles a refused connection.
    pub(super) fn refuse(&mut self) {
        self.state = MpaFramingState::Refused;
        self.hold.clear();
    }

    /// Returns the memory of the buffered payload in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.hold.cost()
    }

    /// Drops the buffered payload and skips the rest of its FPDU.
    pub(super) fn drop_held(&mut self) {
        self.hold.clear();
        if let MpaFramingState::Fpdu(fpdu) = &mut self.state {
            (fpdu.segment, fpdu.waits) = (None, false);
        }
    }

    /// Processes the next bytes.
    #[inline]
    pub(super) fn piece(
        &mut self,
        piece: StreamBytes<'_>,
        shared: &mut IwarpSharedState,
        out: &mut impl FpduSink,
    ) {
        let mut run = UnparsedBytes::of(piece);
        self.work = SearchBudget::of(run.bytes.len());
        self.doubt(&run, shared, out);
        while run.length > 0 {
            match self.state {
                MpaFramingState::Between(trust) => {
                    let trust = if run.at < self.unsure_until { self.weigh(&run, out) } else { trust };
                    if trust == FpduConfidence::Tentative || !self.whole(&mut run, shared, out) {
                        self.begin(run.at, trust, shared);
                        run.had_payload = false;
                    }
                }
                MpaFramingState::Fpdu(_) => self.fpdu(&mut run, shared, out),
                // MPA may start on a stream that carried another protocol before.
                MpaFramingState::Lost
                    if StartupFrameKind::of(run.bytes.get(..REQUEST_KEY.len()).unwrap_or_default())
                        .is_some() =>
                {
                    self.state = MpaFramingState::Startup(Vec::new());
                }
                MpaFramingState::Lost => self.find(&mut run, shared, out),
                MpaFramingState::Open if begins_startup(run.bytes) => {
                    self.state = MpaFramingState::Startup(Vec::new())
                }
                MpaFramingState::Open => self.state = MpaFramingState::Lost,
                MpaFramingState::Startup(_) => self.start(&mut run, out),
                // The connection may be requested again.
                MpaFramingState::Refused if begins_startup(run.bytes) => {
                    self.state = MpaFramingState::Startup(Vec::new())
                }
                MpaFramingState::Refused => return,
            }
        }
    }

    /// Discards a tentative FPDU if a certain one begins with a segment in the middle of it.
    #[inline]
    fn doubt(&mut self, run: &UnparsedBytes<'_>, shared: &mut IwarpSharedState, out: &mut impl FpduSink) {
        let MpaFramingState::Fpdu(PartialFpdu { trust: FpduConfidence::Tentative, captured, .. }) =
            &self.state
        else {
            return;
        };
        if let Some(Markers::At(_)) = self.markers {
            return;
        }
        let found = fpdu_search::at_start(&run.searched(&self.work), |stag| out.knows_memory(stag));
        if let Some(found) = found
            && (found.trust, found.markers) == (FpduConfidence::Certain, Markers::Off)
        {
            shared.counts.skipped_bytes += captured;
            self.hold.refuse(UndecodedReason::Framing, out);
            self.markers = Some(Markers::Off);
            self.state = MpaFramingState::Between(FpduConfidence::Certain);
        }
    }

    /// Processes a contiguous FPDU without markers; nothing is copied. Returns `true` if it did.
    #[inline]
    fn whole(
        &mut self,
        run: &mut UnparsedBytes<'_>,
        shared: &mut IwarpSharedState,
        out: &mut impl FpduSink,
    ) -> bool {
        if self.markers != Some(Markers::Off) {
            return false;
        }
        let Some((header, _)) = FpduHeader::decode(run.bytes, 0, &mut NullObserver) else { return false };
        let (length, ulpdu_length) = (header.fpdu_length(), usize::from(header.ulpdu_length));
        if length > run.length as usize {
            return false;
        }
        let ulpdu = CapturedSlice::new(run.bytes, run.length as usize, 0)
            .after(FpduHeader::LENGTH)
            .sized(ulpdu_length);
        let Some((segment, payload)) = DdpSegment::decode(ulpdu, &mut NullObserver) else { return false };
        if !segment.is_plausible(ulpdu_length) {
            return false;
        }
        let covered = length - Crc::LENGTH;
        let good = match (shared.crc, run.bytes.get(..covered), run.bytes.get(covered..length)) {
            (CrcUse::No, ..) => {
                shared.counts.absent += 1;
                true
            }
            (_, Some(covered), Some(field)) => shared.verdict(Crc::of(covered).field() == field),
            _ => {
                shared.counts.unknown += 1;
                true
            }
        };
        self.began = Some(run.at);
        self.confirm(true, out);
        let fpdu = run.take(length as u32);
        if !good {
            shared.counts.refused_bytes += fpdu.bytes.len() as u64;
            out.undecoded(UndecodedReason::BadCrc, fpdu.sight);
            return true;
        }
        let payload_at = fpdu.at + (FpduHeader::LENGTH + segment.header_length()) as u64;
        let length = payload.length as u32;
        out.payload(FpduPayload {
            segment: &segment,
            length,
            offset: 0,
            data: PacketPayload { bytes: payload.bytes, length },
            range: payload_at..payload_at + u64::from(length),
            sight: fpdu.sight,
            times: FrameTimes::at(fpdu.sight.time),
        });
        true
    }

    /// Begins an FPDU that is not contiguous, or has markers in it.
    fn begin(&mut self, at: Position, trust: FpduConfidence, shared: &IwarpSharedState) {
        let check = match shared.crc {
            CrcUse::No => FpduCrcCheck::Done,
            _ => FpduCrcCheck::Running(Crc::default()),
        };
        self.began = Some(at);
        self.state = MpaFramingState::Fpdu(PartialFpdu {
            headers: [0; HEADERS],
            taken: 0,
            header: None,
            segment: None,
            check,
            waits: trust == FpduConfidence::Tentative || shared.crc == CrcUse::Yes,
            trust,
            crc_field: [0; Crc::LENGTH],
            captured: 0,
            ahead: HeaderFrames::default(),
        });
    }

    /// Processes bytes of an FPDU.
    fn fpdu(&mut self, run: &mut UnparsedBytes<'_>, shared: &mut IwarpSharedState, out: &mut impl FpduSink) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        let markers = self.markers.unwrap_or_default();
        let rest = markers.rest(run.at);
        if rest > 0 {
            let marker = run.take(rest.min(u64::from(run.length)) as u32);
            fpdu.cover(&marker);
            self.without_payload(&marker, run);
            return;
        }
        let until_marker = markers.next(run.at).map_or(u64::MAX, |next| next - run.at);
        let room = until_marker.min(u64::from(run.length)) as u32;
        let Some(header) = fpdu.header else { return self.headers(run, room, shared, out) };
        let payload_at = FpduHeader::LENGTH + fpdu.segment.map_or(HEADERS, |segment| segment.header_length());
        let ulpdu_end = FpduHeader::LENGTH + usize::from(header.ulpdu_length);
        let crc_at = ulpdu_end + header.pad();
        let end = header.fpdu_length();
        let Some(segment) = fpdu.segment.filter(|_| fpdu.taken < crc_at) else {
            if fpdu.taken >= crc_at {
                let field = run.take(room.min((end - fpdu.taken) as u32));
                let into = fpdu.taken - crc_at;
                match fpdu.crc_field.get_mut(into..into + field.bytes.len()) {
                    Some(place) if !field.is_cut() => place.copy_from_slice(field.bytes),
                    _ => fpdu.miss(),
                }
                fpdu.captured += field.bytes.len() as u64;
                fpdu.taken += field.length as usize;
                let is_over = fpdu.taken == end;
                self.without_payload(&field, run);
                if is_over {
                    self.end(field.sight, shared, out);
                }
                return;
            }
            // Its headers were not captured: it is skipped.
            let skipped = run.take(room.min((crc_at - fpdu.taken) as u32));
            fpdu.cover(&skipped);
            fpdu.taken += skipped.length as usize;
            if !skipped.bytes.is_empty() {
                shared.counts.skipped_bytes += skipped.bytes.len() as u64;
                // A snap length removed its headers.
                out.undecoded(UndecodedReason::CutFrame, skipped.sight);
            }
            return;
        };
        if fpdu.taken >= ulpdu_end {
            let pad = run.take(room.min((crc_at - fpdu.taken) as u32));
            fpdu.cover(&pad);
            fpdu.taken += pad.length as usize;
            self.without_payload(&pad, run);
            return;
        }
        let part = run.take(room.min((ulpdu_end - fpdu.taken) as u32));
        run.had_payload = true;
        let length = (ulpdu_end - payload_at) as u32;
        let offset = (fpdu.taken - payload_at) as u32;
        fpdu.cover(&part);
        fpdu.taken += part.length as usize;
        let payload = FpduPayload {
            segment: &segment,
            length,
            offset,
            data: PacketPayload { bytes: part.bytes, length: part.length },
            range: part.at..part.at + u64::from(part.length),
            sight: part.sight,
            times: FrameTimes::at(part.sight.time),
        };
        if fpdu.waits && fpdu.check == FpduCrcCheck::Missing && fpdu.trust == FpduConfidence::Certain {
            // The CRC cannot be checked.
            fpdu.waits = false;
            self.hold.release(&segment, length, out);
        }
        let trailer_end = markers.end_of(run.at, (end - fpdu.taken) as u64);
        self.payload(payload, trailer_end - run.at <= u64::from(run.length), out);
    }

    /// Delivers payload, or buffers it if its trailer is not in the current bytes, to wait for the frames of
    /// the trailer.
    fn payload(&mut self, payload: FpduPayload<'_>, has_trailer: bool, out: &mut impl FpduSink) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        fpdu.waits |= payload.is_end() && !has_trailer;
        let (waits, hold) = (fpdu.waits, &mut self.hold);
        fpdu.ahead.before(payload, |payload| if waits { hold.push(&payload) } else { out.payload(payload) });
    }

    /// Attributes the frame of bytes without payload to the payload of their FPDU.
    fn without_payload(&mut self, taken: &UnparsedBytes<'_>, rest: &UnparsedBytes<'_>) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        if fpdu.is_in_trailer() {
            self.hold.follow(taken.sight);
        } else if rest.length == 0 && !rest.had_payload {
            fpdu.ahead.add(taken.sight);
        }
    }

    /// Processes header bytes of an FPDU.
    fn headers(
        &mut self,
        run: &mut UnparsedBytes<'_>,
        room: u32,
        shared: &mut IwarpSharedState,
        out: &mut impl FpduSink,
    ) {
        let MpaFramingState::Fpdu(fpdu) = &mut self.state else { return };
        let needed = if self.markers.is_none() { FpduHeader::LENGTH } else { fpdu.needed() };
        let part = run.take(room.min((needed - fpdu.taken) as u32));
        fpdu.cover(&part);
        if let Some(place) = fpdu.headers.get_mut(fpdu.taken..fpdu.taken + part.bytes.len()) {
            place.copy_from_slice(part.bytes);
        }
        let known = fpdu.taken + part.bytes.len();
        fpdu.taken += part.length as usize;
        if run.length == 0 {
            fpdu.ahead.add(part.sight);
        }
        if part.is_cut() {
            // It can be skipped if its length is known.
            let header =
                fpdu.headers.get(..known).and_then(|known| FpduHeader::decode(known, 0, &mut NullObserver));
            match header {
                Some((header, _)) if usize::from(header.ulpdu_length) >= DdpSegment::TAGGED => {
                    fpdu.header = Some(header);
                    if !part.sight.frames.is_empty() {
                        out.undecoded(UndecodedReason::CutFrame, part.sight);
                    }
                    self.confirm(false, out);
                }
                _ => self.lose(shared),
            }
            return;
        }
        // If the use of markers is unknown, the first word decides it: no ULPDU has length zero.
        if self.markers.is_none() && fpdu.taken == FpduHeader::LENGTH {
            self.markers = Some(Markers::Off);
            if let [0, 0, ..] = fpdu.headers
                && let Some(began) = self.began
            {
                self.markers = Some(Markers::At(began));
                self.has_shown_markers = true;
                fpdu.taken = 0;
                return;
            }
        }
        if fpdu.taken < fpdu.needed() {
            return;
        }
        let bytes = fpdu.headers.get(..fpdu.taken).unwrap_or_default();
        let decoded = FpduHeader::decode(bytes, 0, &mut NullObserver).and_then(|(header, rest)| {
            let length = usize::from(header.ulpdu_length);
            let (segment, _) = DdpSegment::decode(CapturedSlice::new(rest, length, 0), &mut NullObserver)?;
            segment.is_plausible(length).then_some((header, segment))
        });
        let Some((header, segment)) = decoded else {
            let captured = fpdu.captured;
            self.confirm(false, out);
            shared.counts.skipped_bytes += captured;
            out.undecoded(UndecodedReason::Framing, part.sight);
            self.lose(shared);
            return;
        };
        (fpdu.header, fpdu.segment) = (Some(header), Some(segment));
        let payload_length = usize::from(header.ulpdu_length) - segment.header_length();
        let at = part.at + u64::from(part.length);
        self.confirm(true, out);
        if payload_length == 0 {
            let payload = FpduPayload {
                segment: &segment,
                length: 0,
                offset: 0,
                data: PacketPayload::default(),
                range: at..at,
                sight: part.sight,
                times: FrameTimes::at(part.sight.time),
            };
            let markers = self.markers.unwrap_or_default();
            let trailer_end = markers.end_of(run.at, (header.pad() + Crc::LENGTH) as u64);
            self.payload(payload, trailer_end - run.at <= u64::from(run.length), out);
        }
    }

    /// Confirms or rejects the previous FPDU, which waited for its successor.
    fn confirm(&mut self, is_one: bool, out: &mut impl FpduSink) {
        if let Some((segment, length, _)) = self.hold.over.take() {
            self.has_shown_markers |= is_one && self.markers != Some(Markers::Off);
            if is_one {
                self.hold.release(&segment, length, out)
            } else {
                self.hold.refuse(UndecodedReason::Framing, out)
            }
        }
    }

    /// Ends an FPDU.
    fn end(&mut self, sight: PacketMeta<'_>, shared: &mut IwarpSharedState, out: &mut impl FpduSink) {
        let MpaFramingState::Fpdu(fpdu) =
            std::mem::replace(&mut self.state, MpaFramingState::Between(FpduConfidence::Certain))
        else {
            return;
        };
        let verdict = match fpdu.check {
            FpduCrcCheck::Done => {
                shared.counts.absent += 1;
                None
            }
            FpduCrcCheck::Missing => {
                shared.counts.unknown += 1;
                None
            }
            FpduCrcCheck::Running(crc) => {
                let is_right = crc.field() == fpdu.crc_field;
                let is_believed = shared.verdict(is_right);
                Some((is_right, is_believed))
            }
        };
        let (Some(header), Some(segment)) = (fpdu.header, fpdu.segment) else { return };
        let length = (usize::from(header.ulpdu_length) - segment.header_length()) as u32;
        match verdict {
            Some((_, false)) => {
                shared.counts.refused_bytes += fpdu.captured;
                if fpdu.waits {
                    self.hold.refuse(UndecodedReason::BadCrc, out);
                } else {
                    out.undecoded(UndecodedReason::BadCrc, sight);
                }
            }
            // If no correct CRC confirms that it is an FPDU, its successor will.
            Some((false, true)) | None if fpdu.trust == FpduConfidence::Tentative => {
                self.hold.over = Some((segment, length, fpdu.captured));
            }
            _ if fpdu.waits => self.hold.release(&segment, length, out),
            _ => {}
        }
    }

    /// Enters the search state: the start of the next FPDU is unknown.
    fn lose(&mut self, shared: &mut IwarpSharedState) {
        if let Some((.., captured)) = self.hold.over {
            shared.counts.skipped_bytes += captured;
        }
        self.hold.clear();
        self.state = MpaFramingState::Lost;
        // Inferred from structure, possibly wrong.
        match (self.told, self.start) {
            (Some(true), Some(start)) => self.markers = Some(Markers::At(start)),
            (None, _) if !self.has_shown_markers => self.markers = None,
            _ => {}
        }
    }

    /// Searches for the start of an FPDU.
    fn find(&mut self, run: &mut UnparsedBytes<'_>, shared: &mut IwarpSharedState, out: &mut impl FpduSink) {
        let found = fpdu_search::find(&run.searched(&self.work), self.markers, self.began, |stag| {
            out.knows_memory(stag)
        });
        let skipped = run.take(found.as_ref().map_or(run.length, |found| found.offset as u32));
        if !skipped.bytes.is_empty() {
            shared.counts.skipped_bytes += skipped.bytes.len() as u64;
            out.undecoded(framing_reason(skipped.is_cut()), skipped.sight);
        }
        if let Some(found) = found {
            if self.markers.is_none() && found.markers == Markers::Off {
                self.unsure_until = run.at + MARKER_INTERVAL;
            }
            self.has_shown_markers |= found.markers != Markers::Off && found.trust == FpduConfidence::Certain;
            self.markers = Some(found.markers);
            self.state = MpaFramingState::Between(found.trust);
        }
    }

    /// Returns the confidence in an FPDU that begins here while the use of markers is not proven.
    fn weigh(&mut self, run: &UnparsedBytes<'_>, out: &impl FpduSink) -> FpduConfidence {
        let found = fpdu_search::at_start(&run.searched(&self.work), |stag| out.knows_memory(stag));
        let markers = found.map_or(Markers::Off, |found| found.markers);
        self.markers = Some(markers);
        if markers != Markers::Off {
            self.unsure_until = 0;
        }
        self.has_shown_markers =
            markers != Markers::Off && found.is_some_and(|found| found.trust == FpduConfidence::Certain);
        found.map_or(FpduConfidence::Tentative, |found| found.trust)
    }

    /// Processes bytes of a start-up frame.
    fn start(&mut self, run: &mut UnparsedBytes<'_>, out: &mut impl FpduSink) {
        let MpaFramingState::Startup(bytes) = &mut self.state else { return };
        let before = bytes.len();
        let room = Startup::FIXED + LONGEST_PRIVATE_DATA - before;
        bytes.extend_from_slice(run.bytes.get(..room).unwrap_or(run.bytes));
        let Some(startup) = Startup::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullObserver)
        else {
            let is_short = bytes.len() < Startup::FIXED && !run.is_cut();
            run.take(run.length);
            if !is_short {
                self.state = MpaFramingState::Lost;
            }
            return;
        };
        let is_whole = bytes.len() >= startup.length;
        if !is_whole && !run.is_cut() {
            run.take(run.length);
            return;
        }
        // Truncated bytes of it are skipped by its length.
        let rest = (startup.length - before).min(run.length as usize);
        let part = run.take(rest as u32);
        let end = part.at + rest as u64;
        out.startup(startup, part.sight);
        (self.began, self.start) = (Some(end), Some(end));
        self.state = MpaFramingState::Between(FpduConfidence::Certain);
    }

    /// Ends the direction: nothing more will come.
    pub(super) fn finish(&mut self, shared: &mut IwarpSharedState, out: &mut impl FpduSink) {
        let MpaFramingState::Fpdu(fpdu) = &self.state else { return };
        let (Some(header), Some(segment)) = (fpdu.header, fpdu.segment) else { return };
        let length = (usize::from(header.ulpdu_length) - segment.header_length()) as u32;
        shared.counts.unknown += 1;
        if fpdu.waits && fpdu.trust == FpduConfidence::Certain {
            // Its CRC was not captured.
            self.hold.release(&segment, length, out);
        }
        self.lose(shared);
    }
}

/// Returns `true` if these bytes may begin a start-up frame.
fn begins_startup(bytes: &[u8]) -> bool {
    let count = bytes.len().min(REQUEST_KEY.len());
    count > 0 && [REQUEST_KEY, REPLY_KEY].iter().any(|key| key.get(..count) == bytes.get(..count))
}

impl IwarpSharedState {
    /// Counts the result of a CRC check. Returns `true` if the FPDU is accepted.
    fn verdict(&mut self, is_right: bool) -> bool {
        match (&mut self.crc, is_right) {
            (CrcUse::No, _) => self.counts.absent += 1,
            (CrcUse::Yes, true) => self.counts.good += 1,
            (CrcUse::Yes, false) => {
                self.counts.bad += 1;
                return false;
            }
            (CrcUse::Unknown { .. }, true) => {
                self.crc = CrcUse::Yes;
                self.counts.good += 1;
            }
            (CrcUse::Unknown { misses }, false) => {
                self.counts.absent += 1;
                *misses += 1;
                if *misses >= MISSES {
                    self.crc = CrcUse::No;
                }
            }
        }
        true
    }
}
