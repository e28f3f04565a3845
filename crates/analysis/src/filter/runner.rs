//! Runs a filter over frames or Transactions.
//!
//! In the view of frames each frame is tested separately, as in Wireshark: its headers, and the messages that it
//! completes. Otherwise a Transaction is tested as a whole: all its frames, both its messages and its generated fields.
//! The values of its frames are kept until it is complete.

use std::collections::VecDeque;

use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::infiniband::mad::Mad;
use nfsrdma_dissectors::infiniband::{PacketPositionInMessage, cm};
use nfsrdma_dissectors::net::{InnermostNetworkPacket, NetworkLayerPayload};
use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_flow::chunk::{ChunkKind, ChunkSegment};
use nfsrdma_flow::read_list::ReadList;
use nfsrdma_flow::transaction::{CapturedMessage, RpcMessageKind, Transaction};
use nfsrdma_flow::transaction_message_decoding::TransactionMessages;
use nfsrdma_flow::{Flow, FrameContentKind, TransactionSlabKey, observe_segment};
use rustc_hash::{FxHashMap, FxHashSet};

use super::compiled_filter::Filter;
use super::compiled_program::CompiledFilterNode;
use super::derived_fields::GeneratedField;
use super::extractor::FieldExtractor;
use super::output_field_extraction::{OutputColumnField, OutputFieldValue};
use super::transaction_fields;
use super::value::{FilterValue, FilterValues};
use crate::memory_budget_shares::CommandMemoryBudget;
use crate::names::FileNames;
use crate::names::transaction_paths::{FilehandleDisplay, OperationPaths};

/// Maximum number of frames kept for incomplete messages.
const MAX_PART_FRAMES: usize = 4_096;
/// Maximum number of value stores kept for reuse, and maximum size of each in bytes.
const MAX_SPARE_STORES: usize = 1_024;
const MAX_SPARE_BYTES: usize = 4_096;
/// Number of open Transactions above which stale entries are removed.
const MAX_OPEN_TRANSACTIONS: usize = 1 << 16;

#[derive(Debug)]
struct OpenTransactionFilterValues {
    tally: SelectedFrameTally,
    values: FilterValues,
    /// Whether all frames of the call and of the reply are counted.
    counted: [bool; 2],
}

/// Counts of frames selected together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectedFrameTally {
    /// Number of frames.
    pub frames: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Earliest and latest time.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl SelectedFrameTally {
    /// Counts a frame, by its length on the wire.
    #[inline]
    pub(crate) fn add(&mut self, length: u32, time: Timestamp) {
        self.frames += 1;
        self.bytes += u64::from(length);
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
    }

    /// Adds the counts of other frames.
    #[inline]
    pub(crate) fn merge(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        let times = [self.times, other.times].into_iter().flatten();
        self.times = times.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)));
    }
}

#[derive(Debug)]
struct PartialMessageFrame {
    number: FrameNumber,
    length: u32,
    time: Timestamp,
    values: FilterValues,
}

/// Runs a filter.
#[derive(Debug)]
pub struct FilterRunner {
    program: CompiledFilterNode,
    extractor: FieldExtractor,
    open: FxHashMap<TransactionSlabKey, OpenTransactionFilterValues>,
    spare: Vec<FilterValues>,
    parts: VecDeque<PartialMessageFrame>,
    /// Transactions with a selected frame.
    selected_transactions: FxHashSet<TransactionSlabKey>,
    last_selected_transaction: Option<TransactionSlabKey>,
    kept_bytes: usize,
    /// Maximum bytes of values of incomplete Transactions.
    max_kept_bytes: usize,
    dropped_frames: u64,
    first: Option<Timestamp>,
    previous_time: Option<Timestamp>,
    /// Time of the frame selected last.
    selected: Option<Timestamp>,
    /// File names, if the filter uses a path.
    names: Option<FileNames>,
    /// Findings of the next Transaction: rule, severity and side.
    findings: Vec<[&'static str; 3]>,
}

impl FilterRunner {
    /// Creates a runner that shows files by path.
    pub fn new(filter: Filter, memory: &CommandMemoryBudget) -> Self {
        Self::with_filehandles(filter, FilehandleDisplay::Names, memory)
    }

    /// Returns `true` if the filter accepts everything, as one that only extracts values.
    pub fn accepts_all(&self) -> bool {
        matches!(&self.program, CompiledFilterNode::And(all) if all.is_empty())
    }

    /// Creates a runner that shows files in this way, or by path if they are off, because the filter uses them.
    pub fn with_filehandles(filter: Filter, files: FilehandleDisplay, memory: &CommandMemoryBudget) -> Self {
        let files = if files == FilehandleDisplay::Off { FilehandleDisplay::Names } else { files };
        let extractor = FieldExtractor::new(filter.fields);
        let is_named =
            [GeneratedField::Path, GeneratedField::NewPath].iter().any(|field| extractor.slot_of(*field).is_some());
        Self {
            program: filter.program,
            names: is_named.then(|| FileNames::new(files, memory.names_bytes())),
            selected: None,
            extractor,
            open: FxHashMap::default(),
            spare: Vec::new(),
            parts: VecDeque::new(),
            selected_transactions: FxHashSet::default(),
            last_selected_transaction: None,
            kept_bytes: 0,
            max_kept_bytes: memory.filter_bytes(),
            dropped_frames: 0,
            first: None,
            previous_time: None,
            findings: Vec::new(),
        }
    }

    /// Sets the conformance findings of the next Transaction.
    pub fn set_findings(&mut self, findings: &[Finding]) {
        self.findings.clear();
        self.findings
            .extend(findings.iter().map(|finding| [finding.rule.id, finding.severity.name(), finding.side.name()]));
    }

    /// Returns the number of frames whose values were dropped at the memory limit.
    pub fn dropped_frames(&self) -> u64 {
        self.dropped_frames
    }

    /// Passes the next frame to the flow; the last value is `true` if the filter selects it.
    pub fn frame<'a>(
        &mut self,
        frame: &Frame<'a>,
        flow: &mut Flow,
    ) -> (InnermostNetworkPacket<'a>, FrameContentKind, bool) {
        let (datagram, kind) = self.headers(frame, flow);
        if let Some(names) = &mut self.names {
            names.infer_from_frame(flow);
        }
        let layers = self.extractor.layers;
        if layers.needs_message() || layers.transaction {
            for kind in flow.frame_kinds() {
                self.extract_message(frame, &datagram, *kind, flow);
            }
        }
        self.extractor.finish_protocols();
        let is_selected = self.program.is_true(&self.extractor.values);
        if is_selected {
            self.selected = Some(frame.time);
            for key in flow.frame_kinds().iter().filter_map(|kind| key_of(*kind)) {
                // The packets of a Transaction are often consecutive.
                if self.last_selected_transaction != Some(key) {
                    self.last_selected_transaction = Some(key);
                    self.selected_transactions.insert(key);
                }
            }
            if self.selected_transactions.len() > MAX_OPEN_TRANSACTIONS {
                self.selected_transactions.retain(|key| flow.transaction(*key).is_some());
                self.last_selected_transaction = None;
            }
        }
        (datagram, kind, is_selected)
    }

    /// Returns the values of a column for the last test.
    pub fn shown(&self, column: &OutputColumnField) -> impl Iterator<Item = OutputFieldValue<'_>> {
        self.extractor.values.values_of(column.slot).filter(|value| column.has_type_of(*value))
    }

    /// Returns `true` if a frame of a completed Transaction was selected, and forgets it.
    pub fn take_selected(&mut self, key: TransactionSlabKey) -> bool {
        self.last_selected_transaction = None;
        self.selected_transactions.remove(&key)
    }

    /// Passes the next frame to the flow, and keeps the values of the frame for its Transaction.
    pub fn add_frame(&mut self, frame: &Frame<'_>, flow: &mut Flow) {
        let (datagram, _) = self.headers(frame, flow);
        let names_protocols = self.extractor.names.is_some();
        let mut is_part = matches!(datagram.payload, NetworkLayerPayload::Tcp(_));
        for kind in flow.frame_kinds() {
            is_part |= matches!(kind, FrameContentKind::PartialMessage);
            if names_protocols {
                self.name_protocols(frame, &datagram, *kind, flow);
            }
        }
        self.extractor.finish_protocols();
        for kind in flow.frame_kinds() {
            let Some(key) = key_of(*kind) else { continue };
            let Self { open, spare, extractor: to, .. } = self;
            let mut empty_values = || spare.pop().unwrap_or_else(|| FilterValues::like(&to.values));
            let entry = open.entry(key).or_insert_with(|| OpenTransactionFilterValues {
                tally: SelectedFrameTally::default(),
                values: empty_values(),
                counted: [false; 2],
            });
            entry.tally.add(frame.length, frame.time);
            let mut grown = 0;
            if self.extractor.layers.needs_frame() && self.kept_bytes < self.max_kept_bytes {
                grown += entry.values.merge(&self.extractor.values);
            } else if self.extractor.layers.needs_frame() {
                self.dropped_frames += 1;
            }
            if let FrameContentKind::Message { key, which } = kind
                && let Some(message) = flow.transaction(*key).and_then(|transaction| transaction.message(*which))
            {
                entry.counted[usize::from(*which == RpcMessageKind::Reply)] = true;
                for part in parts_of(&self.parts, message, Some(frame.number)) {
                    entry.tally.add(part.length, part.time);
                    grown += entry.values.merge(&part.values);
                }
            }
            self.kept_bytes += grown;
        }
        if is_part {
            self.keep_part(frame);
        }
        if self.open.len() > MAX_OPEN_TRANSACTIONS {
            let mut freed = 0;
            self.open.retain(|key, entry| {
                let is_there = flow.transaction(*key).is_some();
                freed += if is_there { 0 } else { entry.values.size() };
                is_there
            });
            self.kept_bytes = self.kept_bytes.saturating_sub(freed);
        }
    }

    /// Returns the frames of a completed Transaction if the filter selects it. One of a trace has no frames, and no
    /// key. Paths that are known are not inferred again.
    pub fn transaction(
        &mut self,
        key: Option<TransactionSlabKey>,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        paths: Option<OperationPaths<'_>>,
    ) -> Option<SelectedFrameTally> {
        self.extractor.clear();
        let mut selected_tally = SelectedFrameTally::default();
        let mut counted = [false; 2];
        let entry = key.and_then(|key| self.open.remove(&key));
        if let Some(OpenTransactionFilterValues { tally, mut values, counted: messages }) = entry {
            (selected_tally, counted) = (tally, messages);
            self.kept_bytes = self.kept_bytes.saturating_sub(values.size());
            std::mem::swap(&mut self.extractor.values, &mut values);
            if self.spare.len() < MAX_SPARE_STORES && values.allocated_bytes() <= MAX_SPARE_BYTES {
                self.spare.push(values);
            }
        }
        if key.is_some() {
            self.add_parts(transaction, counted, &mut selected_tally);
        }
        self.test_messages(transaction, messages, paths, false).then_some(selected_tally)
    }

    /// Returns `true` if the filter selects an incomplete Transaction as seen so far. The values of its frames are
    /// kept.
    pub fn pending(
        &mut self,
        key: TransactionSlabKey,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        paths: OperationPaths<'_>,
    ) -> bool {
        self.extractor.clear();
        let mut counted = [false; 2];
        if let Some(entry) = self.open.get(&key) {
            self.extractor.values.copy(&entry.values);
            counted = entry.counted;
        }
        self.add_parts(transaction, counted, &mut SelectedFrameTally::default());
        self.findings.clear();
        self.test_messages(transaction, messages, Some(paths), true)
    }

    /// Adds the frames of messages that no frame completed: the capture ends within them, or lacks a part of them.
    fn add_parts(&mut self, transaction: &Transaction, counted: [bool; 2], tally: &mut SelectedFrameTally) {
        for (kind, is_counted) in [RpcMessageKind::Call, RpcMessageKind::Reply].into_iter().zip(counted) {
            let Some(message) = transaction.message(kind).filter(|_| !is_counted) else { continue };
            for part in parts_of(&self.parts, message, None) {
                tally.add(part.length, part.time);
                self.extractor.values.merge(&part.values);
            }
        }
    }

    /// Returns `true` if the filter selects a Transaction that already has the values of its frames.
    fn test_messages(
        &mut self,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        paths: Option<OperationPaths<'_>>,
        is_pending: bool,
    ) -> bool {
        let layers = self.extractor.layers;
        if layers.needs_message() {
            transaction_fields::message(&mut self.extractor, transaction, messages, RpcMessageKind::Call);
            transaction_fields::message(&mut self.extractor, transaction, messages, RpcMessageKind::Reply);
        }
        if layers.transaction {
            transaction_fields::transaction(&mut self.extractor, transaction, is_pending);
            transaction_fields::findings(&mut self.extractor, &self.findings);
        }
        if layers.outcome {
            let summary = messages.summary();
            transaction_fields::outcome(&mut self.extractor, &summary);
            if let Some(names) = &mut self.names {
                let paths = paths.unwrap_or_else(|| {
                    names.infer(transaction, messages, &summary);
                    names.paths()
                });
                transaction_fields::files(&mut self.extractor, paths);
            }
        }
        self.program.is_true(&self.extractor.values)
    }

    fn keep_part(&mut self, frame: &Frame<'_>) {
        let mut values = FilterValues::default();
        if self.parts.len() >= MAX_PART_FRAMES
            && let Some(oldest) = self.parts.pop_front()
        {
            values = oldest.values;
        }
        values.copy(&self.extractor.values);
        self.parts.push_back(PartialMessageFrame {
            number: frame.number,
            length: frame.length,
            time: frame.time,
            values,
        });
    }

    /// Passes a frame to the flow, and extracts the values of the frame itself.
    fn headers<'a>(&mut self, frame: &Frame<'a>, flow: &mut Flow) -> (InnermostNetworkPacket<'a>, FrameContentKind) {
        self.extractor.clear();
        let layers = self.extractor.layers;
        let (datagram, kind) = if layers.headers {
            let mut listener = self.extractor.listen(frame.bytes, 0);
            let decoded = flow.process_frame_observed(frame, &mut listener);
            listener.finish_at(decoded.0.payload.end_offset().unwrap_or(frame.bytes.len()));
            decoded
        } else {
            flow.process_frame_observed(frame, &mut NullFieldObserver)
        };
        if layers.management
            && let NetworkLayerPayload::Infiniband(packet) = &datagram.payload
        {
            let mut listener = self.extractor.listen(frame.bytes, 0);
            if let Some(mad) = Mad::from_packet(packet, &mut listener)
                && let Some(message) = cm::CmMessage::decode(&mad, &mut listener)
                && let Some(private) = message.private_data()
            {
                PrivateData::find(private.bytes, private.at, &mut listener);
            }
            listener.finish();
        }
        if let NetworkLayerPayload::Tcp(segment) = &datagram.payload
            && layers.iwarp
            && flow.is_iwarp()
        {
            let mut listener = self.extractor.listen(frame.bytes, 0);
            observe_segment(segment.payload, &mut listener);
            listener.finish();
        }
        if layers.frame {
            self.frame_facts(frame, &datagram, flow);
        }
        self.previous_time = Some(frame.time);
        self.first = self.first.or(self.previous_time);
        (datagram, kind)
    }

    fn frame_facts(&mut self, frame: &Frame<'_>, datagram: &InnermostNetworkPacket<'_>, flow: &Flow) {
        let (first, previous) = (self.first.unwrap_or(frame.time), self.previous_time.unwrap_or(frame.time));
        let elapsed_since = |time: Timestamp| i128::from(frame.time.0) - i128::from(time.0);
        let to = &mut self.extractor;
        let selected = self.selected.unwrap_or(frame.time);
        for (field, value) in [
            (GeneratedField::Frame, FilterValue::Bytes(frame.bytes)),
            (GeneratedField::Number, FilterValue::Number(frame.number.0.into())),
            (GeneratedField::Time, FilterValue::Time(frame.time.0.into())),
            (GeneratedField::TimeEpoch, FilterValue::Duration(frame.time.0.into())),
            (GeneratedField::TimeRelative, FilterValue::Duration(elapsed_since(first))),
            (GeneratedField::TimeDelta, FilterValue::Duration(elapsed_since(previous))),
            (GeneratedField::TimeDeltaDisplayed, FilterValue::Duration(elapsed_since(selected))),
            (GeneratedField::Length, FilterValue::Number(frame.length.into())),
            (GeneratedField::CapturedLength, FilterValue::Number(frame.bytes.len() as i128)),
        ] {
            to.add_generated(field, || Some(value));
        }
        if let NetworkLayerPayload::Tcp(segment) = &datagram.payload {
            let fields = [
                GeneratedField::TcpStream,
                GeneratedField::TcpSequence,
                GeneratedField::TcpNextSequence,
                GeneratedField::TcpAcknowledgment,
            ];
            let payload = &segment.payload;
            if fields.into_iter().any(|field| to.slot_of(field).is_some())
                && let Some(tcp_numbers) = flow.segment_numbers(datagram, segment)
            {
                let signs = usize::from(segment.flags.syn()) + usize::from(segment.flags.fin());
                let next = tcp_numbers.sequence.wrapping_add((payload.length + signs) as u32);
                let numbers = [
                    tcp_numbers.stream.into(),
                    tcp_numbers.sequence.into(),
                    next.into(),
                    tcp_numbers.acknowledgment.into(),
                ];
                for (field, number) in fields.into_iter().zip(numbers) {
                    to.add_generated(field, || Some(FilterValue::Number(number)));
                }
            }
            let length = payload.length as i128;
            to.add_generated(GeneratedField::TcpLength, || Some(FilterValue::Number(length)));
            if payload.length > 0 {
                to.add_generated(GeneratedField::TcpPayload, || Some(FilterValue::Bytes(payload.bytes)));
            }
        }
        if to.slot_of(GeneratedField::MpaCrc).is_some() {
            for (verdict, _) in flow.frame_mpa_counts().named_counts() {
                to.add_generated(GeneratedField::MpaCrc, || Some(FilterValue::Text(verdict.as_bytes())));
            }
        }
    }

    /// Extracts the message that a frame completes, and the fields of its Transaction.
    fn extract_message(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        kind: FrameContentKind,
        flow: &Flow,
    ) {
        let Some(transaction) = key_of(kind).and_then(|key| flow.transaction(key)) else { return };
        let layers = self.extractor.layers;
        let completed = completed(frame, datagram, kind, transaction);
        if layers.transaction {
            transaction_fields::transaction(&mut self.extractor, transaction, false);
        }
        if !(layers.outcome || layers.needs_message() && completed.is_some()) {
            return;
        }
        transaction.with_messages(|messages| {
            match completed.filter(|_| layers.needs_message()) {
                // The Send of a Long Call had its RPC-over-RDMA header.
                Some(message_kind) if matches!(kind, FrameContentKind::ChunkData { .. }) => {
                    transaction_fields::rpc_message(&mut self.extractor, transaction, messages, message_kind);
                }
                Some(message_kind) => {
                    transaction_fields::message(&mut self.extractor, transaction, messages, message_kind)
                }
                None => {}
            }
            if layers.outcome {
                let summary = messages.summary();
                transaction_fields::outcome(&mut self.extractor, &summary);
                if let Some(names) = &mut self.names {
                    names.resolve(transaction, messages, &summary);
                    transaction_fields::files(&mut self.extractor, names.paths());
                }
            }
        });
    }

    /// Adds the protocol names of the message that a frame completes.
    fn name_protocols(
        &mut self,
        frame: &Frame<'_>,
        datagram: &InnermostNetworkPacket<'_>,
        kind: FrameContentKind,
        flow: &Flow,
    ) {
        let Some(transaction) = key_of(kind).and_then(|key| flow.transaction(key)) else { return };
        let Some(message_kind) = completed(frame, datagram, kind, transaction) else { return };
        transaction.with_messages(|messages| {
            if let Some(mut listener) = self.extractor.listen_for(const { &[GeneratedField::Protocols.name()] }) {
                // Protocols before an error are valid.
                let _ = messages.observe(message_kind, &mut listener);
            }
        });
    }
}

/// Returns the kept frames of a message but `completing`.
fn parts_of<'a>(
    parts: &'a VecDeque<PartialMessageFrame>,
    message: &'a CapturedMessage,
    completing: Option<FrameNumber>,
) -> impl Iterator<Item = &'a PartialMessageFrame> {
    message.frames.iter().filter(move |number| Some(**number) != completing).filter_map(|number| {
        let position = parts.binary_search_by_key(number, |part| part.number);
        position.ok().and_then(|at| parts.get(at))
    })
}

fn key_of(kind: FrameContentKind) -> Option<TransactionSlabKey> {
    match kind {
        FrameContentKind::Message { key, .. }
        | FrameContentKind::Retransmission { key, .. }
        | FrameContentKind::Done { key }
        | FrameContentKind::ChunkData { key, .. }
        | FrameContentKind::ReadRequest { key, .. } => Some(key),
        _ => None,
    }
}

/// Returns the message that a frame completes, possibly as a retransmission.
fn completed(
    frame: &Frame<'_>,
    datagram: &InnermostNetworkPacket<'_>,
    kind: FrameContentKind,
    transaction: &Transaction,
) -> Option<RpcMessageKind> {
    let message_kind = match kind {
        // This frame may fill the gap before a message without carrying any of its bytes.
        FrameContentKind::Message { which, .. } => return transaction.message(which).map(|_| which),
        FrameContentKind::Retransmission { which, .. } => match &datagram.payload {
            // The last packet of a message completes it.
            NetworkLayerPayload::Infiniband(packet)
                if !matches!(
                    packet.properties.position,
                    PacketPositionInMessage::Only | PacketPositionInMessage::Last
                ) =>
            {
                return None;
            }
            _ => which,
        },
        FrameContentKind::ChunkData { kind: ChunkKind::Read, .. } if completes_long_call(frame, transaction) => {
            return Some(RpcMessageKind::Call);
        }
        _ => return None,
    };
    let record = transaction.message(message_kind)?;
    record.frames.contains(&frame.number).then_some(message_kind)
}

/// Returns `true` if a frame has the last bytes of a Call in a Position-Zero Read chunk (RFC 8166 section 3.5.3).
fn completes_long_call(frame: &Frame<'_>, transaction: &Transaction) -> bool {
    let is_long = transaction.call.as_ref().is_some_and(CapturedMessage::is_nomsg);
    if !is_long {
        return false;
    }
    let reads = ReadList::new(&transaction.read_chunks);
    let Some(chunks) = reads.position_zero() else { return false };
    let is_whole = |segment: &ChunkSegment| segment.moved_coverage.total_bytes() == u64::from(segment.length);
    let last = chunks.segments().filter_map(|segment| segment.frames).map(|(_, last)| last).max();
    chunks.segments().all(is_whole) && last == Some(frame.number)
}
