//! What needs memory: queue pairs, reassembly, chunks, and the Transactions that come of them.
//!
//! [`Flow`] takes frames and gives [`Transaction`]s, in the order in which they close. The way down:
//!
//! - [`connection`]: which two queue pairs belong together, from the connection manager ([`setup`]) or from traffic;
//! - [`packets`]: each packet finds its connection, and what it does there;
//! - [`reliable_connection`]: packets with sequence numbers become RDMA operations;
//! - [`message_reassembly`]: messages of several packets;
//! - [`delivery`]: which copy of a packet its receiver accepted;
//! - [`reorder_buffer`]: packets that were captured before what tells their place;
//! - [`recent_frames`]: frames that the capture holds twice;
//! - [`segments`] and [`stream`]: segments of TCP become bytes in order, and [`records`] finds the messages in them;
//! - [`datagrams`]: messages in datagrams of UDP;
//! - [`conversation`]: messages become Calls and Replies, RDMA Reads and Writes find the chunks they move;
//! - [`handles`]: which segments a handle names;
//! - [`memory`]: what all this may take;
//! - [`transaction_table`]: the Transactions that are open, and those that wait for late copies;
//! - [`finality`]: which of them expect nothing more, for those who do not like to wait;
//! - [`connection_end`]: which connections are over;
//! - [`pending_calls`]: Calls without a Reply, for live views;
//! - [`transaction`] and [`chunk`]: the product; [`decode`]: a Transaction read, RPC and NFS.
//!
//! Every kind of state has a bound in [`FlowLimits`], and what a bound made the flow give up is counted in [`FlowStats`].

pub mod chunk;
mod connection;
mod connection_end;
mod conversation;
mod coverage;
mod datagrams;
pub mod decode;
mod delivery;
mod finality;
mod frame_event;
mod frame_kind;
mod gaps;
mod handles;
pub mod ip_reassembly;
mod iwarp;
mod lone_header;
mod memory;
mod message_continuation;
mod message_reassembly;
mod packets;
pub mod pending_calls;
mod recent_frames;
mod records;
mod reliable_connection;
mod reorder_buffer;
mod retries;
mod segments;
mod setup;
mod slab_limit;
mod statistics;
mod stream;
#[cfg(test)]
mod tests;
pub mod transaction;
mod transaction_table;
mod transport_header;

use std::collections::VecDeque;

pub use connection::ConnectionState;
pub use conversation::MessageCredits;
pub use coverage::Coverage;
pub use frame_event::{FrameAction, FrameEvent};
pub use frame_kind::FrameKind;
pub use iwarp::{MpaCounts, observe_segment};
pub use lone_header::LoneHeader;
pub use setup::{ConnectedService, NegotiatedParameters, ReadResources};
pub use statistics::{EvictedState, FlowStats, IgnoredTraffic, UndecodedReason};
pub use transaction::Transaction;
pub use transaction_table::TransactionKey;

use crate::field::{NullObserver, Observer};
use crate::frame::{Frame, FrameNumber, Timestamp};
use crate::infiniband::PacketErrorKind;
use crate::infiniband::icrc::Icrc;
use crate::net::{self, Datagram, DatagramPayload, IpFragment, TcpSegment, UnreadFrameReason};
use crate::rdma::ConnectionSide;
use crate::rpcrdma::Dialect;

use connection::{ConnectionKey, ConnectionTable, FlowConnection, QueuePairPath};
use connection_end::ClosingConnections;
use conversation::RpcContext;
pub use delivery::Stall;
use ip_reassembly::IpReassembler;
use recent_frames::RecentFrames;
use retries::{PreviousCall, Retries};
use setup::SetUps;
use stream::protocol::Protocol;
use stream::table::TcpConversationTable;
pub use stream::table::TcpSegmentNumbers;
use transaction::RpcMessageKind;
use transaction_table::{TransactionEntry, TransactionTable};

/// Bounds of the state that a flow keeps, and what it keeps beyond need.
#[derive(Clone, Debug)]
pub struct FlowLimits {
    /// Connections that are remembered; then those that were silent longest are forgotten.
    pub connections: usize,
    /// Transactions that wait for their Reply.
    pub open_transactions: usize,
    /// Nanoseconds, by the time of frames, after which a Call without a Reply is given out as it is; `None` if it waits for the
    /// end of the input. A Reply that comes later is a Transaction of its own, without a Call.
    pub call_age_ns: Option<u64>,
    /// Closed Transactions that wait for late copies of their messages.
    pub lingering_transactions: usize,
    /// Bytes that messages, chunk lists and the ranges of data that was seen may take together, with those of the kinds below;
    /// see [`memory`].
    pub pool_bytes: usize,
    /// Bytes that connections and streams take with what is remembered of each.
    pub table_bytes: usize,
    /// Bytes of Transactions, open or closed, with their messages and chunk lists; then those that wait for late copies are
    /// given out, and then the oldest that are open.
    pub message_bytes: usize,
    /// Streams of TCP that are remembered; then those that were silent longest are forgotten.
    pub streams: usize,
    /// Bytes of one stream that wait behind a hole.
    pub hole_bytes: usize,
    /// Bytes that all streams hold: behind holes, and in messages that are not whole yet.
    pub stream_bytes: usize,
    /// Set-ups of connections that wait for their answer.
    pub set_ups: usize,
    /// Bytes of messages that are not whole yet.
    pub part_bytes: usize,
    /// IP datagrams in fragments.
    pub fragments: ip_reassembly::FragmentLimits,
    /// Bytes of packets that wait for what tells their place.
    pub early_bytes: u64,
    /// Bytes of chunks that are kept at a time.
    pub kept_bytes: u64,
    /// Whether file data that travels in chunks is kept too.
    pub keep_data: bool,
    /// The dialect of RPC-over-RDMA in which messages are read; `None` where each connection tells its own.
    pub dialect: Option<Dialect>,
    /// Whether the ICRC of every packet is checked.
    pub check_icrc: bool,
    /// Whether [`Flow::steps`] tells what each frame did.
    pub note_steps: bool,
    /// Whether [`Flow::next_closed`] tells which connections are over.
    pub note_closed: bool,
    /// Whether a Transaction is given out as soon as its Reply was acknowledged, as [`finality`] says, and not only when no
    /// late copy can come any more.
    pub prompt: bool,
}

/// So many frames may pass before memory is compared with its bounds, where no Transaction changes: with frames of 64 KiB
/// 4 MiB.
const UNSETTLED_FRAMES: u32 = 64;

/// The frames that a packet was seen in, more than one if they were fragments, and when it was whole.
#[derive(Clone, Copy, Debug)]
struct PacketMeta<'a> {
    frames: &'a [FrameNumber],
    time: Timestamp,
    /// The identification of its IPv4 datagram; 0 where it has none.
    identification: u16,
    /// What else is known of it; nothing of a packet that came once and in its turn.
    remark: Option<&'a DeliveryAnomaly>,
}

/// What is known of a packet that did not come once and in its turn.
#[derive(Clone, Copy, Debug, Default)]
struct DeliveryAnomaly {
    /// The capture holds the frame a second time.
    is_captured_twice: bool,
    /// The receiver had accepted a copy of it before.
    is_surplus: bool,
    /// The receiver refused it.
    is_refused: bool,
    /// It closes a hole in a stream, so that what it belongs to is whole with it, wherever in it the hole was.
    closes_hole: bool,
    /// It comes after a loss.
    stall: Option<Stall>,
}

impl DeliveryAnomaly {
    const CAPTURED_TWICE: Self = Self {
        is_captured_twice: true,
        is_surplus: false,
        is_refused: false,
        closes_hole: false,
        stall: None,
    };
}

impl<'a> PacketMeta<'a> {
    /// Of these frames, at this time.
    fn new(frames: &'a [FrameNumber], time: Timestamp) -> Self {
        Self { frames, time, identification: 0, remark: None }
    }

    /// Whether the capture holds the frame a second time.
    fn is_captured_twice(&self) -> bool {
        self.remark.is_some_and(|remark| remark.is_captured_twice)
    }

    /// Whether its receiver makes nothing of it: it is no packet of its own, or was accepted before.
    fn is_idle(&self) -> bool {
        self.remark.is_some_and(|remark| remark.is_captured_twice || remark.is_surplus)
    }

    /// Whether its receiver refused it.
    fn is_refused(&self) -> bool {
        self.remark.is_some_and(|remark| remark.is_refused)
    }

    /// The time that was lost before it came.
    fn stall(&self) -> Option<Stall> {
        self.remark.and_then(|remark| remark.stall)
    }

    /// When its receiver had it.
    fn accepted(&self) -> Timestamp {
        self.stall().map_or(self.time, |stall| stall.until.max(self.time))
    }
    /// The frame that made it whole.
    fn last(&self) -> FrameNumber {
        self.frames.last().copied().unwrap_or_default()
    }
}

/// Results of checking ICRCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcrcCounts {
    /// Packets whose ICRC is right.
    pub good: u64,
    /// Packets whose ICRC is wrong.
    pub bad: u64,
    /// Packets that the capture cut.
    pub unknown: u64,
}

/// Frames in, Transactions out.
#[derive(Debug)]
pub struct Flow {
    limits: FlowLimits,
    connections: ConnectionTable,
    ledger: TransactionTable,
    set_ups: SetUps,
    fragments: IpReassembler,
    retries: Retries,
    account: FlowStats,
    icrc: IcrcCounts,
    recent: RecentFrames,
    /// Bytes of messages that are not whole yet.
    held: usize,
    streams: TcpConversationTable,
    /// Bytes that all streams hold.
    stream_bytes: usize,
    /// What the last frame meant.
    meanings: Vec<FrameKind>,
    /// What the CRCs of MPA were before the last frame.
    mpa_before: MpaCounts,
    /// The connection of the last frame, if that carries nothing but control information.
    control_of: Option<ConnectionKey>,
    /// When the last frame was seen.
    now: Timestamp,
    /// Frames since memory and the Transactions that are due were looked at last.
    unsettled_frames: u32,
    ready: VecDeque<(TransactionKey, Transaction)>,
    closing: ClosingConnections,
    transactions: u64,
    numbered: u64,
}

impl Flow {
    /// A flow that has seen nothing.
    pub fn new(limits: FlowLimits) -> Self {
        Self {
            connections: ConnectionTable::new(limits.connections),
            ledger: TransactionTable::new(&limits),
            set_ups: SetUps::new(limits.set_ups),
            fragments: IpReassembler::new(limits.fragments),
            retries: Retries::new(limits.open_transactions),
            account: FlowStats::default(),
            icrc: IcrcCounts::default(),
            recent: RecentFrames::default(),
            held: 0,
            streams: TcpConversationTable::new(limits.streams),
            stream_bytes: 0,
            meanings: Vec::new(),
            mpa_before: MpaCounts::default(),
            control_of: None,
            now: Timestamp::default(),
            unsettled_frames: 0,
            ready: VecDeque::new(),
            closing: ClosingConnections::default(),
            transactions: 0,
            numbered: 0,
            limits,
        }
    }

    /// Takes the next frame, and tells what it means; [`Flow::meanings`] tells what else it means.
    pub fn frame(&mut self, frame: &Frame<'_>) -> FrameKind {
        let datagram = net::decode(frame, &mut NullObserver);
        self.take(frame, &datagram)
    }

    /// Takes the next frame, and tells the observer the fields of its headers.
    pub fn observed_frame<'a, O: Observer<'a>>(
        &mut self,
        frame: &Frame<'a>,
        observer: &mut O,
    ) -> (Datagram<'a>, FrameKind) {
        let datagram = net::decode(frame, observer);
        let meaning = self.take(frame, &datagram);
        (datagram, meaning)
    }

    fn take(&mut self, frame: &Frame<'_>, datagram: &Datagram<'_>) -> FrameKind {
        let sight = PacketMeta {
            identification: datagram.identification,
            ..PacketMeta::new(std::slice::from_ref(&frame.number), frame.time)
        };
        let goes_back = frame.time.0 < self.now.0.saturating_sub(recent_frames::BACK);
        if goes_back {
            self.begin_anew();
        }
        self.now = frame.time;
        self.ledger.steps.clear();
        self.give_up_old_holes(frame.time);
        self.meanings.clear();
        self.control_of = None;
        self.mpa_before = self.account.mpa;
        let meaning = match &datagram.carried {
            DatagramPayload::Infiniband(packet) => {
                if self.limits.check_icrc {
                    self.check_icrc(frame, datagram);
                }
                self.packet(sight, datagram, packet)
            }
            DatagramPayload::Fragment(fragment) => {
                self.account.passed(IgnoredTraffic::Fragment);
                self.fragment(frame, datagram, fragment)
            }
            DatagramPayload::Other(UnreadFrameReason::Infiniband(error))
                if error.kind == PacketErrorKind::Cut =>
            {
                self.account.undecoded(UndecodedReason::CutFrame)
            }
            DatagramPayload::Other(
                UnreadFrameReason::Infiniband(_) | UnreadFrameReason::Malformed { .. },
            ) => self.account.undecoded(UndecodedReason::Malformed),
            DatagramPayload::Tcp(segment) => self.segment(sight, datagram, segment),
            DatagramPayload::Udp(udp) => self.datagram(sight, datagram, udp),
            DatagramPayload::Other(_) => self.account.passed(IgnoredTraffic::Other),
        };
        self.unsettled_frames += 1;
        if self.ledger.must_be_settled(frame.time) || self.unsettled_frames >= UNSETTLED_FRAMES || goes_back {
            self.release_due(frame.time);
        }
        if self.meanings.is_empty() {
            self.meanings.push(meaning);
        }
        self.name_connections();
        meaning
    }

    /// The clock went back so far that another capture begins: of this one no late copies come.
    #[cold]
    fn begin_anew(&mut self) {
        self.recent.forget();
        while let Some(key) = self.ledger.first_closed() {
            self.release(key);
        }
    }

    /// No frame came, and now it is `now` by the clock that stamps the frames: what waited for a time is given out.
    pub fn idle(&mut self, now: Timestamp) {
        self.now = now;
        self.ledger.steps.clear();
        self.meanings.clear();
        self.give_up_old_holes(now);
        self.release_due(now);
    }

    /// Gives out the Transactions that wait for nothing more, and keeps all memory within its bounds.
    fn release_due(&mut self, now: Timestamp) {
        self.unsettled_frames = 0;
        if self.are_tables_full() {
            self.forget_heavier_table(now);
        }
        self.ledger.note_pooled(self.pooled_bytes());
        while let Some(key) = self.ledger.is_due(now) {
            self.release(key);
        }
        if self.ledger.is_full() {
            self.give_up_heavy_calls(now);
        }
        self.give_up_old_calls(now);
        self.ledger.settle_until(now);
    }

    /// The time of the last frame, or the later one that [`Flow::idle`] was given.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The number of the connection of the last frame, if that frame is [`FrameKind::Control`]: an ACK or NAK of a queue pair,
    /// a CNP, or a segment of TCP without data. `None` before the connection has carried RPC.
    pub fn control_connection(&self) -> Option<u64> {
        self.connections.number(self.control_of?)
    }

    /// Everything that the last frame meant, in the order of its bytes: a segment of TCP may complete several messages, its
    /// own and those that waited for it.
    pub fn meanings(&self) -> &[FrameKind] {
        &self.meanings
    }

    /// Whether the last frame was a segment of iWARP.
    pub fn is_iwarp(&self) -> bool {
        self.streams.last().is_some_and(|stream| matches!(stream.protocol, Protocol::Mpa(_)))
    }

    /// Where a segment of TCP stands in its stream, if it is the one that was taken last.
    pub fn place_of(&self, datagram: &Datagram<'_>, segment: &TcpSegment<'_>) -> Option<TcpSegmentNumbers> {
        let stream = self.streams.last()?;
        let source = (datagram.source, segment.source_port);
        let is_a = source == stream.ports.a;
        (is_a || source == stream.ports.b)
            .then(|| stream.place(if is_a { ConnectionSide::A } else { ConnectionSide::B }, segment))
    }

    /// What the last frame, and those that found their places with it, did for Transactions; nothing unless
    /// [`FlowLimits::note_steps`] asks for it.
    pub fn steps(&self) -> &[FrameEvent] {
        &self.ledger.steps
    }

    /// The next Transaction that is done with.
    pub fn next_transaction(&mut self) -> Option<Transaction> {
        self.next_named().map(|(_, transaction)| transaction)
    }

    /// The next Transaction that is done with, and what its frames named it by.
    pub fn next_named(&mut self) -> Option<(TransactionKey, Transaction)> {
        self.ready.pop_front()
    }

    /// The input ends: everything that waits is given out, what is still open last and in the order of its Calls.
    pub fn finish(&mut self) {
        self.finish_streams(self.now);
        while let Some(key) = self.ledger.first_closed() {
            self.release(key);
        }
        // What did not come will not come: it makes Calls that are partly known, and ends others with a part of their Reply.
        let sight = PacketMeta::new(&[], Timestamp::default());
        for at in self.connections.all() {
            self.give_up_parts(at, sight);
        }
        for key in self.ledger.in_order_of_calls() {
            self.release(key);
        }
        while let Some(key) = self.ledger.first_closed() {
            self.release(key);
        }
    }

    /// The messages of RPC-over-RDMA that are a header alone in the frame that was taken last, whose number this is: RDMA_DONE, and those
    /// that belong to no Transaction.
    pub fn lone_headers(&self, frame: FrameNumber) -> &[LoneHeader] {
        self.ledger.lone_headers.of(frame)
    }

    /// A Transaction that has not been given out yet. It has no index, and its connection is named as far as it is known.
    pub fn transaction(&self, key: TransactionKey) -> Option<&Transaction> {
        self.ledger.get(key).map(|entry| &entry.transaction)
    }

    /// The connections that are remembered and have carried RPC.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionState> + '_ {
        self.connections.states()
    }

    /// What is not in any Transaction.
    pub fn account(&self) -> &FlowStats {
        &self.account
    }

    /// What was dropped because a bound was reached, by kind.
    pub fn given_up(&self) -> impl Iterator<Item = (EvictedState, u64)> + '_ {
        let fragments =
            Some((EvictedState::Fragments, self.fragments.given_up())).filter(|(_, count)| *count > 0);
        self.account.given_up_counts().chain(fragments)
    }

    /// What checking ICRCs found.
    pub fn icrc(&self) -> IcrcCounts {
        self.icrc
    }

    /// What checking the CRCs of MPA found, and bytes that were left out.
    pub fn mpa(&self) -> MpaCounts {
        self.account.mpa
    }

    /// The same of the FPDUs that the last frame completed, its own and those that waited for it.
    pub fn mpa_of_frame(&self) -> MpaCounts {
        let (now, before) = (self.account.mpa, self.mpa_before);
        MpaCounts {
            good: now.good - before.good,
            bad: now.bad - before.bad,
            absent: now.absent - before.absent,
            unknown: now.unknown - before.unknown,
            refused_bytes: now.refused_bytes - before.refused_bytes,
            skipped_bytes: now.skipped_bytes - before.skipped_bytes,
        }
    }

    /// A fragment of an IP datagram may be the one that makes it whole.
    fn fragment(
        &mut self,
        frame: &Frame<'_>,
        datagram: &Datagram<'_>,
        fragment: &IpFragment<'_>,
    ) -> FrameKind {
        let Some(whole) = self.fragments.add(frame, datagram, fragment) else {
            return FrameKind::Part;
        };
        let datagram = whole.decode(&mut NullObserver);
        let sight = PacketMeta {
            identification: fragment.identification.0 as u16,
            ..PacketMeta::new(&whole.frames, frame.time)
        };
        match &datagram.carried {
            DatagramPayload::Infiniband(packet) => self.packet(sight, &datagram, packet),
            DatagramPayload::Tcp(segment) => self.segment(sight, &datagram, segment),
            DatagramPayload::Udp(udp) => self.datagram(sight, &datagram, udp),
            _ => FrameKind::Nothing,
        }
    }

    fn check_icrc(&mut self, frame: &Frame<'_>, datagram: &Datagram<'_>) {
        match datagram.icrc(frame) {
            Some(Icrc::Good) => self.icrc.good += 1,
            Some(Icrc::Bad { .. }) => self.icrc.bad += 1,
            Some(Icrc::Unknown) | None => self.icrc.unknown += 1,
        }
    }

    /// What a message means beyond its own connection.
    fn follow_message(&mut self, at: usize, meaning: FrameKind, sight: PacketMeta<'_>) {
        let FrameKind::Message { key, which } = meaning else { return };
        self.first_message(at);
        self.connections.weigh(at);
        if which == RpcMessageKind::Call {
            self.note_retry(key, sight);
        }
    }

    /// No packet will come any more: messages that were not seen whole are given out as what they are.
    fn give_up_parts(&mut self, at: usize, sight: PacketMeta<'_>) {
        let Some(FlowConnection { a, b, exchange, .. }) = self.connections.get_mut(at) else { return };
        let mut desk = RpcContext {
            connection: at,
            ledger: &mut self.ledger,
            account: &mut self.account,
            limits: &self.limits,
            sight: &sight,
        };
        let mut meanings = Vec::new();
        for (side, requests) in [(ConnectionSide::A, &mut a.requests), (ConnectionSide::B, &mut b.requests)] {
            self.held = self.held.saturating_sub(requests.held_bytes());
            requests.end();
            while let Some(message) = requests.take_over(sight.time) {
                meanings.push(exchange.operation(&mut desk, side, message));
            }
            desk.account.undecoded_later(UndecodedReason::MessagePart, requests.take_dropped());
        }
        for meaning in meanings {
            self.follow_message(at, meaning, sight);
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.early.give_up(&mut self.account);
            connection.exchange.continuations.give_up(&mut self.account);
        }
    }

    /// A connection gets its number with its first message.
    fn first_message(&mut self, at: usize) {
        if let Some(connection) = self.connections.get_mut(at)
            && connection.number.is_none()
        {
            self.numbered += 1;
            connection.number = Some(self.numbered);
        }
    }

    /// A Call may repeat one that was not answered on another connection; that one is given up.
    fn note_retry(&mut self, key: TransactionKey, sight: PacketMeta<'_>) {
        let Some(entry) = self.ledger.get(key) else { return };
        let Some(call) = &entry.transaction.call else { return };
        let Some(connection) = self.connections.get(entry.connection) else { return };
        let route = connection.route(entry.requester);
        match self.retries.note(route, entry.transaction.xid, call.inline(), key) {
            Some(PreviousCall::Here(before)) => {
                let same_connection = |other: &TransactionEntry| other.connection == entry.connection;
                if self
                    .ledger
                    .get(before)
                    .is_some_and(|other| !same_connection(other) && other.is_unanswered())
                {
                    if self.ledger.get(before).is_some_and(TransactionEntry::is_open) {
                        self.ledger.close(before, sight);
                    }
                    if let Some(before) = self.ledger.get_mut(before) {
                        before.repeated_by = Some(key);
                    }
                }
            }
            Some(PreviousCall::Gone(index)) => {
                if let Some(entry) = self.ledger.get_mut(key) {
                    entry.transaction.retry_of = Some(index);
                }
            }
            None => {}
        }
    }

    /// Connection `joined` turned out to be the direction of `at` on which `sender` sends: its Transactions move.
    fn follow_join(&mut self, at: usize, joined: usize, sender: ConnectionSide) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let twins = std::mem::take(&mut connection.exchange.twins);
        let keys = connection.exchange.keys().chain(twins.iter().map(|(_, other)| *other));
        // A connection of one direction calls the side that sends A.
        self.ledger.follow(keys, joined, at, sender == ConnectionSide::B);
        for (one, other) in twins {
            connection.exchange.unite(&mut self.ledger, one, other);
        }
    }

    /// A connection is seen first: its set-up may have been seen in part, and it may be one too many.
    fn meet(&mut self, newest: usize, path: QueuePairPath, sight: PacketMeta<'_>) {
        if self.set_ups.asked_for(path.tenant, path.destination, path.source, path.qpn)
            && let Some(connection) = self.connections.get_mut(newest)
        {
            connection.opened_by = Some(ConnectionSide::B);
        }
        if self.connections.is_over_bound() {
            self.forget_connections(Some(newest), sight);
        }
    }

    /// There are too many connections: those that were silent longest are forgotten.
    fn forget_connections(&mut self, newest: Option<usize>, sight: PacketMeta<'_>) {
        for at in self.connections.most_silent() {
            if Some(at) != newest {
                if !self.is_over(at) {
                    self.account.gave_up(EvictedState::Connection);
                }
                self.close_connection(at, sight);
            }
        }
    }

    /// Whether a connection has ended with nothing open, so that nothing is given up with it.
    fn is_over(&self, at: usize) -> bool {
        self.connections.get(at).is_some_and(|connection| {
            let mut keys = connection.exchange.keys();
            connection.is_ending
                && !keys.any(|key| self.ledger.get(key).is_some_and(TransactionEntry::is_open))
        })
    }

    /// A connection is gone: what is open on it will not be answered.
    fn close_connection(&mut self, at: usize, sight: PacketMeta<'_>) {
        self.give_up_parts(at, sight);
        let Some(connection) = self.connections.get(at) else { return };
        let mut open: Vec<TransactionKey> = connection.exchange.keys().collect();
        open.sort_unstable_by_key(|key| self.ledger.get(*key).and_then(TransactionEntry::first_frame));
        for key in open {
            if self.ledger.get(key).is_some_and(TransactionEntry::is_open) {
                self.ledger.close(key, sight);
            }
        }
        // Given out now, because only the connection knows their names.
        while self.ledger.has_closed_on(at) {
            let Some(key) = self.ledger.first_closed() else { break };
            self.release(key);
        }
        self.note_closed(at);
        self.connections.take(at);
    }

    /// Gives a Transaction out.
    fn release(&mut self, key: TransactionKey) {
        let Some(mut entry) = self.ledger.remove(key) else { return };
        self.transactions += 1;
        entry.transaction.index = self.transactions;
        if let Some(repeated_by) = entry.repeated_by
            && let Some(repeat) = self.ledger.get_mut(repeated_by)
        {
            repeat.transaction.retry_of = Some(self.transactions);
        }
        if let Some(connection) = self.connections.get_mut(entry.connection) {
            connection.exchange.forget(key, &entry);
            connection.exchange.name_dialect(&mut entry.transaction);
            let transaction = &entry.transaction;
            let route = connection.route(entry.requester);
            self.retries.released(
                route,
                transaction.xid,
                key,
                transaction.reply.is_none(),
                transaction.index,
            );
            let place = connection.place_of(entry.requester);
            (entry.transaction.connection, entry.transaction.direction) = place;
            entry.transaction.ack_timeout_ns =
                connection.terms.as_ref().and_then(|terms| terms.ack_timeout_ns);
        }
        self.account.kept_bytes = self.account.kept_bytes.saturating_sub(entry.transaction.kept_bytes());
        self.ready.push_back((key, entry.transaction));
    }
}
