//! Which frames, or which Transactions, a filter selects.
//!
//! In the view of frames each frame is judged by itself, as in Wireshark: its headers, and the messages that it completes.
//! Elsewhere a Transaction is judged as a whole, by all its frames, both its messages, and what is known of it; what its
//! frames gave is kept until it is done.

use std::collections::VecDeque;

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::flow::chunk::ChunkKind;
use nfsrdma_dissectors::flow::decode::TransactionMessages;
use nfsrdma_dissectors::flow::transaction::{MessageRecord, RpcMessageKind, Transaction};
use nfsrdma_dissectors::flow::{Flow, FrameKind, TransactionKey, observe_segment};
use nfsrdma_dissectors::frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::infiniband::{PacketPosition, cm};
use nfsrdma_dissectors::net::{Datagram, DatagramPayload};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use rustc_hash::{FxHashMap, FxHashSet};

use super::extractor::FieldExtractor;
use super::generated_fields::GeneratedField;
use super::program::FilterNode;
use super::value::{FilterValue, FilterValues};
use super::{Filter, FilterColumn, ShownValue, transaction_fields};
use crate::analysis::names::{FileNames, Filehandles, OperationPaths};
use crate::memory::Memory;

/// Frames with parts of messages that are remembered until the message is whole.
const PARTS: usize = 4_096;
/// Transactions that are done whose memory is used again, where it is not more bytes than this.
const SPARE: usize = 1_024;
const SMALL: usize = 4_096;
/// When there are more Transactions than this, those that are gone are looked for.
const OPEN: usize = 1 << 16;

/// What the frames of a Transaction gave.
#[derive(Debug)]
struct TransactionFrames {
    tally: FrameTally,
    values: FilterValues,
}

/// Frames that were selected together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTally {
    /// How many.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// The earliest and the latest time of one.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl FrameTally {
    fn add(&mut self, length: u32, time: Timestamp) {
        self.frames += 1;
        self.bytes += u64::from(length);
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
    }
}

/// A frame with a part of a message.
#[derive(Debug)]
struct PartFrame {
    number: FrameNumber,
    length: u32,
    time: Timestamp,
    values: FilterValues,
}

/// Runs a filter.
#[derive(Debug)]
pub struct FilterRunner {
    program: FilterNode,
    to: FieldExtractor,
    open: FxHashMap<TransactionKey, TransactionFrames>,
    /// Memory for the values of other Transactions.
    spare: Vec<FilterValues>,
    parts: VecDeque<PartFrame>,
    /// Transactions of which a frame was selected.
    chosen: FxHashSet<TransactionKey>,
    last_chosen: Option<TransactionKey>,
    kept: usize,
    /// Bytes of values that are kept at most for Transactions that are not done yet.
    most_kept: usize,
    not_kept: u64,
    first: Option<Timestamp>,
    before: Option<Timestamp>,
    /// When the frame was captured that was selected last.
    selected: Option<Timestamp>,
    /// The names of files, where a path is named.
    names: Option<FileNames>,
}

impl FilterRunner {
    /// A filter that has seen nothing; it tells files by path.
    pub fn new(filter: Filter, memory: &Memory) -> Self {
        Self::telling(filter, Filehandles::Names, memory)
    }

    /// The same, which tells files so; by path where nothing shall be told of them, because the filter asks for it.
    pub fn telling(filter: Filter, files: Filehandles, memory: &Memory) -> Self {
        let files = if files == Filehandles::Off { Filehandles::Names } else { files };
        let to = FieldExtractor::new(filter.fields);
        let is_named =
            [GeneratedField::Path, GeneratedField::NewPath].iter().any(|fact| to.slot_of(*fact).is_some());
        Self {
            program: filter.program,
            names: is_named.then(|| FileNames::new(files, memory.names_bytes())),
            selected: None,
            to,
            open: FxHashMap::default(),
            spare: Vec::new(),
            parts: VecDeque::new(),
            chosen: FxHashSet::default(),
            last_chosen: None,
            kept: 0,
            most_kept: memory.filter_bytes(),
            not_kept: 0,
            first: None,
            before: None,
        }
    }

    /// How many frames gave values that were not kept, because there was no room.
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// Gives the flow the next frame, and tells whether the filter holds for it.
    pub fn frame<'a>(&mut self, frame: &Frame<'a>, flow: &mut Flow) -> (Datagram<'a>, FrameKind, bool) {
        let (datagram, meaning) = self.headers(frame, flow);
        if let Some(names) = &mut self.names {
            names.learn_frame(flow);
        }
        let wants = self.to.wants;
        if wants.of_message() || wants.transaction {
            for meaning in flow.meanings() {
                self.meaning(frame, &datagram, *meaning, flow);
            }
        }
        self.to.finish_protocols();
        let is_selected = self.program.holds(&self.to.values);
        if is_selected {
            self.selected = Some(frame.time);
            for key in flow.meanings().iter().filter_map(|meaning| key_of(*meaning)) {
                // The packets of a Transaction come one after the other.
                if self.last_chosen != Some(key) {
                    self.last_chosen = Some(key);
                    self.chosen.insert(key);
                }
            }
            if self.chosen.len() > OPEN {
                self.chosen.retain(|key| flow.transaction(*key).is_some());
                self.last_chosen = None;
            }
        }
        (datagram, meaning, is_selected)
    }

    /// The values of a field in what was judged last.
    pub fn shown(&self, column: &FilterColumn) -> impl Iterator<Item = ShownValue<'_>> {
        self.to.values.of(column.slot).map(ShownValue).filter(|value| value.fits(column.kind))
    }

    /// Whether a frame of a Transaction that is done was selected.
    pub fn is_chosen(&mut self, key: TransactionKey) -> bool {
        self.last_chosen = None;
        self.chosen.remove(&key)
    }

    /// Gives the flow the next frame, and keeps what the frame gives to its Transaction.
    pub fn note(&mut self, frame: &Frame<'_>, flow: &mut Flow) {
        let (datagram, _) = self.headers(frame, flow);
        let names_protocols = self.to.names_protocols();
        let mut is_part = matches!(datagram.carried, DatagramPayload::Tcp(_));
        for meaning in flow.meanings() {
            is_part |= matches!(meaning, FrameKind::Part);
            if names_protocols {
                self.name_protocols(frame, &datagram, *meaning, flow);
            }
        }
        self.to.finish_protocols();
        for meaning in flow.meanings() {
            let Some(key) = key_of(*meaning) else { continue };
            let Self { open, spare, to, .. } = self;
            let mut empty = || spare.pop().unwrap_or_else(|| FilterValues::like(&to.values));
            let kept = open
                .entry(key)
                .or_insert_with(|| TransactionFrames { tally: FrameTally::default(), values: empty() });
            kept.tally.add(frame.length, frame.time);
            let mut grown = 0;
            if self.to.wants.of_frame() && self.kept < self.most_kept {
                grown += kept.values.merge(&self.to.values);
            } else if self.to.wants.of_frame() {
                self.not_kept += 1;
            }
            if let FrameKind::Message { key, which } = meaning
                && let Some(message) =
                    flow.transaction(*key).and_then(|transaction| transaction.message(*which))
            {
                for number in message.frames.iter().filter(|number| **number != frame.number) {
                    let found = self.parts.binary_search_by_key(number, |part| part.number);
                    if let Some(part) = found.ok().and_then(|at| self.parts.get(at)) {
                        kept.tally.add(part.length, part.time);
                        grown += kept.values.merge(&part.values);
                    }
                }
            }
            self.kept += grown;
        }
        if is_part {
            self.remember(frame);
        }
        if self.open.len() > OPEN {
            let mut freed = 0;
            self.open.retain(|key, kept| {
                let is_there = flow.transaction(*key).is_some();
                freed += if is_there { 0 } else { kept.values.size() };
                is_there
            });
            self.kept = self.kept.saturating_sub(freed);
        }
    }

    /// The frames of a Transaction that is done, if the filter holds for it.
    pub fn transaction(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
    ) -> Option<FrameTally> {
        self.done(Some(key), transaction, reading, None)
    }

    /// Whether the filter holds for a Transaction that no frames are known of, as one of a trace.
    pub fn alone(&mut self, transaction: &Transaction, reading: &TransactionMessages<'_>) -> bool {
        self.done(None, transaction, reading, None).is_some()
    }

    /// The same for who knows what the Transaction is about: names are not learnt twice.
    pub fn named_transaction(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        about: OperationPaths<'_>,
    ) -> Option<FrameTally> {
        self.done(Some(key), transaction, reading, Some(about))
    }

    /// Whether the filter holds for a Transaction that is not done, as far as it was seen. What its frames gave is kept for
    /// the time when it is done.
    pub fn pending(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        about: OperationPaths<'_>,
    ) -> bool {
        self.to.clear();
        if let Some(kept) = self.open.get(&key) {
            self.to.values.copy(&kept.values);
        }
        self.judge(transaction, reading, Some(about))
    }

    fn done(
        &mut self,
        key: Option<TransactionKey>,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        about: Option<OperationPaths<'_>>,
    ) -> Option<FrameTally> {
        self.to.clear();
        let mut kept = FrameTally::default();
        if let Some(TransactionFrames { tally, mut values }) = key.and_then(|key| self.open.remove(&key)) {
            kept = tally;
            self.kept = self.kept.saturating_sub(values.size());
            std::mem::swap(&mut self.to.values, &mut values);
            if self.spare.len() < SPARE && values.room() <= SMALL {
                self.spare.push(values);
            }
        }
        self.judge(transaction, reading, about).then_some(kept)
    }

    /// Whether the filter holds for a Transaction whose frames have given their values already.
    fn judge(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        about: Option<OperationPaths<'_>>,
    ) -> bool {
        let wants = self.to.wants;
        if wants.of_message() {
            transaction_fields::message(&mut self.to, transaction, reading, RpcMessageKind::Call);
            transaction_fields::message(&mut self.to, transaction, reading, RpcMessageKind::Reply);
        }
        if wants.transaction {
            transaction_fields::transaction(&mut self.to, transaction);
        }
        if wants.outcome {
            let facts = reading.facts();
            transaction_fields::outcome(&mut self.to, &facts);
            if let Some(names) = &mut self.names {
                let about = about.unwrap_or_else(|| {
                    names.learn(transaction, reading, &facts);
                    names.about()
                });
                transaction_fields::files(&mut self.to, about);
            }
        }
        self.program.holds(&self.to.values)
    }

    fn remember(&mut self, frame: &Frame<'_>) {
        let mut values = FilterValues::default();
        if self.parts.len() >= PARTS
            && let Some(oldest) = self.parts.pop_front()
        {
            values = oldest.values;
        }
        values.copy(&self.to.values);
        self.parts.push_back(PartFrame {
            number: frame.number,
            length: frame.length,
            time: frame.time,
            values,
        });
    }

    /// Gives the flow a frame, and gathers what the frame itself has.
    fn headers<'a>(&mut self, frame: &Frame<'a>, flow: &mut Flow) -> (Datagram<'a>, FrameKind) {
        self.to.clear();
        let wants = self.to.wants;
        let (datagram, meaning) = if wants.headers {
            let mut listener = self.to.listen(frame.bytes, 0);
            let taken = flow.observed_frame(frame, &mut listener);
            listener.finish_at(taken.0.carried.end().unwrap_or(frame.bytes.len()));
            taken
        } else {
            flow.observed_frame(frame, &mut NullObserver)
        };
        if wants.management
            && let DatagramPayload::Infiniband(packet) = &datagram.carried
        {
            let mut listener = self.to.listen(frame.bytes, 0);
            if let Some(mad) = Mad::of(packet, &mut listener)
                && let Some(message) = cm::CmMessage::decode(&mad, &mut listener)
                && let Some(private) = message.private()
            {
                PrivateData::find(private.bytes, private.at, &mut listener);
            }
            listener.finish();
        }
        if let DatagramPayload::Tcp(segment) = &datagram.carried
            && wants.iwarp
            && flow.is_iwarp()
        {
            let mut listener = self.to.listen(frame.bytes, 0);
            observe_segment(segment.payload, &mut listener);
            listener.finish();
        }
        if wants.frame {
            self.frame_facts(frame, &datagram, flow);
        }
        self.before = Some(frame.time);
        self.first = self.first.or(self.before);
        (datagram, meaning)
    }

    fn frame_facts(&mut self, frame: &Frame<'_>, datagram: &Datagram<'_>, flow: &Flow) {
        let (first, before) = (self.first.unwrap_or(frame.time), self.before.unwrap_or(frame.time));
        let since = |time: Timestamp| i128::from(frame.time.0) - i128::from(time.0);
        let to = &mut self.to;
        to.fact(GeneratedField::Frame, || Some(FilterValue::Bytes(frame.bytes)));
        to.fact(GeneratedField::Number, || Some(FilterValue::Number(frame.number.0.into())));
        to.fact(GeneratedField::Time, || Some(FilterValue::Time(frame.time.0.into())));
        to.fact(GeneratedField::TimeEpoch, || Some(FilterValue::Duration(frame.time.0.into())));
        to.fact(GeneratedField::TimeRelative, || Some(FilterValue::Duration(since(first))));
        to.fact(GeneratedField::TimeDelta, || Some(FilterValue::Duration(since(before))));
        to.fact(GeneratedField::TimeDeltaDisplayed, || {
            Some(FilterValue::Duration(since(self.selected.unwrap_or(frame.time))))
        });
        to.fact(GeneratedField::Length, || Some(FilterValue::Number(frame.length.into())));
        to.fact(GeneratedField::CapturedLength, || Some(FilterValue::Number(frame.bytes.len() as i128)));
        if let DatagramPayload::Tcp(segment) = &datagram.carried {
            let places = [
                GeneratedField::TcpStream,
                GeneratedField::TcpSequence,
                GeneratedField::TcpNextSequence,
                GeneratedField::TcpAcknowledgment,
            ];
            if places.into_iter().any(|fact| to.slot_of(fact).is_some())
                && let Some(place) = flow.place_of(datagram, segment)
            {
                to.fact(GeneratedField::TcpStream, || Some(FilterValue::Number(place.stream.into())));
                to.fact(GeneratedField::TcpSequence, || Some(FilterValue::Number(place.sequence.into())));
                to.fact(GeneratedField::TcpNextSequence, || {
                    let (signs, length) = (segment.flags.syn(), segment.payload.length);
                    let behind = length + usize::from(signs) + usize::from(segment.flags.fin());
                    Some(FilterValue::Number(place.sequence.wrapping_add(behind as u32).into()))
                });
                to.fact(GeneratedField::TcpAcknowledgment, || {
                    Some(FilterValue::Number(place.acknowledgment.into()))
                });
            }
            to.fact(GeneratedField::TcpLength, || Some(FilterValue::Number(segment.payload.length as i128)));
            if segment.payload.length > 0 {
                to.fact(GeneratedField::TcpPayload, || Some(FilterValue::Bytes(segment.payload.bytes)));
            }
        }
        if to.slot_of(GeneratedField::MpaCrc).is_some() {
            for (verdict, _) in flow.mpa_of_frame().verdicts() {
                to.fact(GeneratedField::MpaCrc, || Some(FilterValue::Text(verdict.as_bytes())));
            }
        }
    }

    /// Gathers what a frame completes, and what is known of the Transaction that it belongs to.
    fn meaning(&mut self, frame: &Frame<'_>, datagram: &Datagram<'_>, meaning: FrameKind, flow: &Flow) {
        let Some(transaction) = key_of(meaning).and_then(|key| flow.transaction(key)) else { return };
        let wants = self.to.wants;
        let completed = completed(frame, datagram, meaning, transaction);
        if wants.transaction {
            transaction_fields::transaction(&mut self.to, transaction);
        }
        if !(wants.outcome || wants.of_message() && completed.is_some()) {
            return;
        }
        transaction.read(|reading| {
            match completed.filter(|_| wants.of_message()) {
                // The Send of a Long Call told its RPC-over-RDMA header.
                Some(which) if matches!(meaning, FrameKind::Data { .. }) => {
                    transaction_fields::rpc_message(&mut self.to, transaction, reading, which);
                }
                Some(which) => transaction_fields::message(&mut self.to, transaction, reading, which),
                None => {}
            }
            if wants.outcome {
                let facts = reading.facts();
                transaction_fields::outcome(&mut self.to, &facts);
                if let Some(names) = &mut self.names {
                    names.look(transaction, reading, &facts);
                    transaction_fields::files(&mut self.to, names.about());
                }
            }
        });
    }

    /// Notes the protocols of what a frame completes, and nothing else of it.
    fn name_protocols(
        &mut self,
        frame: &Frame<'_>,
        datagram: &Datagram<'_>,
        meaning: FrameKind,
        flow: &Flow,
    ) {
        let Some(transaction) = key_of(meaning).and_then(|key| flow.transaction(key)) else { return };
        let Some(which) = completed(frame, datagram, meaning, transaction) else { return };
        transaction.read(|reading| {
            if let Some(mut listener) = self.to.listen_for(&["frame.protocols"]) {
                // Protocols that were told before an error stand.
                let _ = reading.observe(which, &mut listener);
            }
        });
    }
}

/// The Transaction that a frame belongs to.
fn key_of(meaning: FrameKind) -> Option<TransactionKey> {
    match meaning {
        FrameKind::Message { key, .. }
        | FrameKind::MessageAgain { key, .. }
        | FrameKind::Done { key }
        | FrameKind::Data { key, .. }
        | FrameKind::ReadRequest { key, .. } => Some(key),
        _ => None,
    }
}

/// Which message a frame completes, for the first time or again.
fn completed(
    frame: &Frame<'_>,
    datagram: &Datagram<'_>,
    meaning: FrameKind,
    transaction: &Transaction,
) -> Option<RpcMessageKind> {
    let which = match meaning {
        FrameKind::Message { which, .. } => which,
        FrameKind::MessageAgain { which, .. } => match &datagram.carried {
            // Of a message of several packets the last completes it.
            DatagramPayload::Infiniband(packet)
                if !matches!(packet.form.place, PacketPosition::Only | PacketPosition::Last) =>
            {
                return None;
            }
            _ => which,
        },
        FrameKind::Data { kind: ChunkKind::Read, .. } if completes_long_call(frame, transaction) => {
            return Some(RpcMessageKind::Call);
        }
        _ => return None,
    };
    let record = transaction.message(which)?;
    record.frames.contains(&frame.number).then_some(which)
}

/// Whether a frame brought the last bytes of a Call that travels in a Position-Zero Read chunk (RFC 8166 section 3.5.3).
fn completes_long_call(frame: &Frame<'_>, transaction: &Transaction) -> bool {
    let is_long = transaction.call.as_ref().is_some_and(MessageRecord::is_nomsg);
    let Some(chunk) = transaction.read_chunks.first().filter(|_| is_long) else { return false };
    let is_whole = chunk.segments.iter().all(|segment| segment.moved.seen() == u64::from(segment.length));
    let last = chunk.segments.iter().filter_map(|segment| segment.frames).map(|(_, last)| last).max();
    is_whole && last == Some(frame.number)
}
