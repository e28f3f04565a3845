//! The frames of Transactions as a capture file, each with comments that say what it is to which Transaction.
//!
//! What a frame belongs to is known when its Transaction is done, and then the frame is long past. So frames wait here by
//! number, and leave in order once there are too many. Their bytes are read a second time; what comes through a pipe can
//! be read only once, and waits with its bytes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;

use nfsrdma_capture_file::{CaptureSource, Interface, InterfaceId, PcapngWriter};
use nfsrdma_dissectors::flow::chunk::ChunkKind;
use nfsrdma_dissectors::flow::decode::{CallOperation, RpcStatus, RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::{RpcMessageKind, Transaction};
use nfsrdma_dissectors::flow::{Flow, FrameAction, FrameEvent, FrameKind, TransactionKey};
use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::names::OperationPaths;

use super::info_column::OperationLabels;
use super::settings::LineView;
use super::style::Glyphs;

/// Frames that wait at most where their bytes are read again: more than pass while a Transaction waits for late copies.
const MOST_WAITING: usize = 4 << 20;
/// Comments on one frame: a segment of TCP may complete any number of messages.
const MOST_COMMENTS: usize = 64;

/// What all frames of a Transaction have in common.
#[derive(Debug)]
struct TransactionLabel {
    index: u64,
    connection: u64,
    /// The operation, what it is about, and the XID.
    about: String,
    /// How the Reply says that it went.
    status: String,
}

/// What a frame is to a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionFrameRole {
    Message(RpcMessageKind),
    Deed(FrameAction),
}

/// A frame belongs to a Transaction.
#[derive(Debug)]
struct FrameMembership {
    of: Rc<TransactionLabel>,
    role: TransactionFrameRole,
}

impl FrameMembership {
    fn comment(&self) -> String {
        let TransactionLabel { index, connection, about, status } = &*self.of;
        let what = match self.role {
            TransactionFrameRole::Message(RpcMessageKind::Call) => "Call of".into(),
            TransactionFrameRole::Message(RpcMessageKind::Reply) => "Reply to".into(),
            TransactionFrameRole::Deed(FrameAction::MovedChunkData { kind: ChunkKind::Read, chunk }) => {
                format!("Read chunk {chunk} of")
            }
            TransactionFrameRole::Deed(FrameAction::MovedChunkData { kind: ChunkKind::Write, chunk }) => {
                format!("Write chunk {chunk} of")
            }
            TransactionFrameRole::Deed(FrameAction::MovedChunkData { kind: ChunkKind::Reply, .. }) => {
                "Reply chunk of".into()
            }
            TransactionFrameRole::Deed(FrameAction::RequestedRead { chunk }) => {
                format!("request for Read chunk {chunk} of")
            }
            TransactionFrameRole::Deed(FrameAction::Done) => "RDMA_DONE of".into(),
        };
        let status =
            if self.role == TransactionFrameRole::Message(RpcMessageKind::Reply) { status } else { "" };
        format!("Transaction {index}, connection {connection}: {what} {about}{status}")
    }
}

/// What is known of a frame that waits.
#[derive(Debug, Default)]
struct WaitingFrame {
    /// Whether it was chosen for itself.
    is_chosen: bool,
    /// Whether it sets a connection up or takes it down.
    is_set_up: bool,
    /// The connection whose control information it carries, where such frames are chosen.
    control_of: Option<u64>,
    marks: Vec<FrameMembership>,
}

/// A frame that cannot be read again.
#[derive(Debug)]
struct BufferedFrame {
    time: Timestamp,
    link: LinkType,
    length: u32,
    bytes: Box<[u8]>,
    on: InterfaceId,
    comments: Vec<String>,
}

impl BufferedFrame {
    fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + self.comments.iter().map(String::len).sum::<usize>()
    }
}

/// Where the bytes of frames come from.
enum FrameByteSource {
    /// The same files.
    Again(Box<CaptureSource>),
    /// They wait, too.
    Kept(VecDeque<BufferedFrame>),
}

/// Writes the frames that are chosen.
pub struct FrameFile<W> {
    to: PcapngWriter<W>,
    bytes: FrameByteSource,
    view: LineView,
    /// The number of the first frame that waits.
    first: u64,
    waiting: VecDeque<Option<Box<WaitingFrame>>>,
    /// What frames did for Transactions that are not done.
    steps: FxHashMap<TransactionKey, Vec<(FrameNumber, FrameAction)>>,
    labels: OperationLabels,
    /// With [`FrameFile::with_control_frames`]: the connections of chosen Transactions.
    connections: Option<FxHashSet<u64>>,
    /// Bytes of memory that all this takes, and those that it may take.
    held: usize,
    room: usize,
    written: u64,
    too_late: u64,
}

/// What a file of frames came to.
#[derive(Debug)]
pub struct FrameTotals {
    /// Frames that the file has.
    pub written: u64,
    /// Frames of chosen Transactions that had left before their Transaction was known.
    pub too_late: u64,
}

impl<W: Write> FrameFile<W> {
    /// A file of the frames of files that can be read twice; `again` has them from the first frame on.
    ///
    /// Frames are chosen for themselves in the view of frames, and else with their Transactions. What waits takes at most
    /// `room` bytes.
    ///
    /// # Errors
    /// What writing gives, as of all functions here.
    pub fn reading_again(to: W, view: LineView, room: usize, again: CaptureSource) -> io::Result<Self> {
        Self::new(to, view, room, FrameByteSource::Again(Box::new(again)))
    }

    /// The same for frames that come only once.
    ///
    /// # Errors
    /// What writing gives.
    pub fn keeping(to: W, view: LineView, room: usize) -> io::Result<Self> {
        Self::new(to, view, room, FrameByteSource::Kept(VecDeque::new()))
    }

    fn new(to: W, view: LineView, room: usize, bytes: FrameByteSource) -> io::Result<Self> {
        Ok(Self {
            to: PcapngWriter::new(to, super::APPLICATION)?,
            bytes,
            view,
            first: 1,
            waiting: VecDeque::new(),
            steps: FxHashMap::default(),
            labels: OperationLabels::default(),
            connections: None,
            held: 0,
            room,
            written: 0,
            too_late: 0,
        })
    }

    /// Chooses the control frames of each connection that a chosen Transaction went over, too: ACKs and NAKs, CNPs, and segments
    /// of TCP without data. They tell which copy of a message was delivered, and where recovery took time.
    #[must_use]
    pub fn with_control_frames(self) -> Self {
        Self { connections: Some(FxHashSet::default()), ..self }
    }

    /// Takes the last frame of `source` after the flow took it, which tells what it did. In every view but that of frames
    /// those that set connections up or take them down are chosen, too: without them Wireshark does not know what the
    /// others carry.
    ///
    /// # Errors
    /// What writing gives.
    pub fn frame(&mut self, source: &CaptureSource, flow: &Flow, is_chosen: bool) -> io::Result<()> {
        let (Some(frame), Some(on)) = (source.frame(), source.interface()) else { return Ok(()) };
        self.kept_frame(&frame, on, || source.comments().map(Cow::into_owned).collect(), flow, is_chosen)
    }

    /// The same of a frame that somebody kept, and the interface that it was captured on.
    ///
    /// # Errors
    /// What writing gives.
    pub fn kept_frame(
        &mut self,
        frame: &Frame<'_>,
        (file, interface): (usize, &Interface),
        comments: impl FnOnce() -> Vec<String>,
        flow: &Flow,
        is_chosen: bool,
    ) -> io::Result<()> {
        if self.waiting.is_empty() {
            self.first = frame.number.0;
        }
        let is_set_up = self.view != LineView::Frames && flow.frame_kinds().contains(&FrameKind::Management);
        let is_chosen = is_chosen || is_set_up;
        let control_of = self.connections.as_ref().and_then(|_| flow.control_connection());
        let is_known = is_chosen || control_of.is_some();
        let known =
            is_known.then(|| Box::new(WaitingFrame { is_chosen, is_set_up, control_of, marks: Vec::new() }));
        self.held += cost(known.as_deref());
        self.waiting.push_back(known);
        if let FrameByteSource::Kept(kept) = &mut self.bytes {
            let on = self.to.interface(file, interface)?;
            let Frame { time, link, length, bytes, .. } = *frame;
            let frame = BufferedFrame { time, link, length, bytes: bytes.into(), on, comments: comments() };
            self.held += frame.cost();
            kept.push_back(frame);
        }
        for FrameEvent { frame, key, action: deed } in flow.frame_events() {
            let of = self.steps.entry(*key).or_default();
            // A frame may hold several pieces of one chunk.
            if of.last() != Some(&(*frame, *deed)) {
                of.push((*frame, *deed));
                self.held += STEP;
            }
        }
        self.make_room()
    }

    /// Takes a Transaction that is done, and what it is about if it is chosen. Its frames are chosen with it, unless they
    /// are chosen for themselves.
    pub fn transaction(
        &mut self,
        key: TransactionKey,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        about: Option<OperationPaths<'_>>,
    ) {
        let steps = self.steps.remove(&key).unwrap_or_default();
        self.held -= STEP * steps.len();
        let Some(about) = about else { return };
        if let Some(connections) = &mut self.connections {
            connections.insert(transaction.connection.number);
        }
        let label = Rc::new(self.label(transaction, reading, facts, about));
        for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
            for frame in transaction.message(which).iter().flat_map(|message| &message.frames) {
                self.mark(*frame, &label, TransactionFrameRole::Message(which));
            }
        }
        for (frame, deed) in steps {
            self.mark(frame, &label, TransactionFrameRole::Deed(deed));
        }
    }

    fn label(
        &mut self,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        files: OperationPaths<'_>,
    ) -> TransactionLabel {
        let mut about = String::new();
        match facts.operation {
            Some(_) => self.labels.write(reading, facts, files, &Glyphs::UNICODE, &mut about),
            None => about.push_str("a Call that is not known"),
        }
        about.truncate(about.trim_end().len());
        about += &format!(", XID {}", transaction.xid);
        let status = match (facts.rpc_status, facts.status) {
            (Some(RpcStatus::Rpc(status)), _) if status.name() != Some("SUCCESS") => format!(", {status}"),
            (Some(RpcStatus::RdmaError(code)), _) => format!(", {code}"),
            (_, Some(status)) => {
                let number = || CallOperation::Number(status.number);
                match status.name.map_or_else(number, CallOperation::Named) {
                    CallOperation::Named(name) => format!(", {name}"),
                    CallOperation::Number(number) => format!(", status {number}"),
                }
            }
            _ => String::new(),
        };
        TransactionLabel {
            index: transaction.index,
            connection: transaction.connection.number,
            about,
            status,
        }
    }

    fn mark(&mut self, frame: FrameNumber, of: &Rc<TransactionLabel>, role: TransactionFrameRole) {
        let place = frame.0.checked_sub(self.first).and_then(|at| self.waiting.get_mut(at as usize));
        let Some(place) = place else {
            self.too_late += 1;
            return;
        };
        if place.is_none() && self.view == LineView::Frames {
            return;
        }
        let before = cost(place.as_deref());
        let known = place.get_or_insert_default();
        let is_known = known.marks.iter().any(|mark| Rc::ptr_eq(&mark.of, of) && mark.role == role);
        if !is_known && known.marks.len() < MOST_COMMENTS {
            known.marks.push(FrameMembership { of: Rc::clone(of), role });
            let after = cost(Some(known));
            self.held = (self.held + after).saturating_sub(before);
        }
    }

    fn make_room(&mut self) -> io::Result<()> {
        let most = if matches!(self.bytes, FrameByteSource::Again(_)) { MOST_WAITING } else { usize::MAX };
        while self.held > self.room || self.waiting.len() > most {
            if !self.leave()? {
                // Nothing waits but steps of Transactions that are open.
                self.too_late += self.steps.values().map(|steps| steps.len() as u64).sum::<u64>();
                self.steps.clear();
                self.held = 0;
                break;
            }
        }
        Ok(())
    }

    /// The first frame leaves: into the file, if it is chosen.
    fn leave(&mut self) -> io::Result<bool> {
        let Some(known) = self.waiting.pop_front() else { return Ok(false) };
        let number = FrameNumber(self.first);
        self.first += 1;
        self.held = self.held.saturating_sub(cost(known.as_deref()));
        let known = known.filter(|known| self.is_chosen(known));
        let control_of = known.as_ref().and_then(|known| known.control_of);
        let control = control_of.map(|connection| format!("connection {connection}: {CONTROL}"));
        let set_up = known.iter().filter(|known| known.is_set_up).map(|_| SET_UP.to_owned()).chain(control);
        let marks = || {
            known.iter().flat_map(|known| &known.marks).map(FrameMembership::comment).chain(set_up.clone())
        };
        match &mut self.bytes {
            FrameByteSource::Kept(kept) => {
                let Some(kept) = kept.pop_front() else { return Ok(true) };
                self.held = self.held.saturating_sub(kept.cost());
                if known.is_some() {
                    let BufferedFrame { time, link, length, bytes, on, comments } = kept;
                    let frame = Frame { number, time, link, length, bytes: &bytes };
                    let comments: Vec<String> = comments.into_iter().chain(marks()).collect();
                    self.to.frame(on, &frame, comments.iter().map(String::as_str))?;
                    self.written += 1;
                }
            }
            FrameByteSource::Again(source) => {
                if known.is_some() {
                    let (file, interface) = advance(source, number)?;
                    let on = self.to.interface(file, interface)?;
                    let comments: Vec<_> = source.comments().chain(marks().map(Cow::Owned)).collect();
                    if let Some(frame) = source.frame() {
                        self.to.frame(on, &frame, comments.iter().map(AsRef::as_ref))?;
                        self.written += 1;
                    }
                }
            }
        }
        Ok(true)
    }

    fn is_chosen(&self, known: &WaitingFrame) -> bool {
        let is_control_of = |connection| self.connections.as_ref().is_some_and(|of| of.contains(&connection));
        match self.view {
            LineView::Frames => known.is_chosen,
            _ => known.is_chosen || !known.marks.is_empty() || known.control_of.is_some_and(is_control_of),
        }
    }

    /// What the file is written to. What was written up to now is a whole file, as it always is between two calls.
    pub fn output(&mut self) -> &mut W {
        self.to.output()
    }

    /// Nothing more comes: writes what waits. Gives what the file was written to, and what it came to.
    ///
    /// # Errors
    /// What writing gives.
    pub fn finish(mut self) -> io::Result<(W, FrameTotals)> {
        while self.leave()? {}
        let Self { to, written, too_late, .. } = self;
        Ok((to.into_output(), FrameTotals { written, too_late }))
    }
}

/// What is said of a frame that is there for the connection.
const SET_UP: &str = "sets a connection up or takes it down";

/// The comment of a control frame, after its connection.
const CONTROL: &str = "control frame";

const STEP: usize = size_of::<(FrameNumber, FrameAction)>();

/// Bytes of memory for what is known of a frame; a label is shared by several.
fn cost(known: Option<&WaitingFrame>) -> usize {
    let marks = known.map_or(0, |known| {
        size_of::<WaitingFrame>() + known.marks.capacity() * (size_of::<FrameMembership>() + 32)
    });
    size_of::<Option<Box<WaitingFrame>>>() + marks
}

/// Reads on to a frame. What is wrong with a file was told when it was read first.
fn advance(source: &mut CaptureSource, to: FrameNumber) -> io::Result<(usize, &Interface)> {
    loop {
        match source.next() {
            Ok(Some(frame)) if frame.number == to => break,
            Ok(None) => return Err(changed()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
    source.interface().ok_or_else(changed)
}

fn changed() -> io::Error {
    io::Error::other("the capture changed while it was read")
}
