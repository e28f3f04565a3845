//! Limits of the state of a flow, and its optional output.

use nfsrdma_dissectors::rpcrdma::Dialect;

use super::ip_reassembly::IpReassemblyLimits;

/// Limits of the state of a flow, and optional output.
#[derive(Clone, Debug)]
pub struct FlowLimits {
    /// Connections in the table. Beyond it, the connections idle longest are evicted.
    pub connections: usize,
    /// Transactions that wait for their Reply.
    pub open_transactions: usize,
    /// Nanoseconds of frame time after which a Call without a Reply is emitted unanswered. `None` waits for the
    /// end of the input. A Reply that arrives later becomes a separate Transaction, without a Call.
    pub call_age_ns: Option<u64>,
    /// Closed Transactions that wait for late copies of their messages.
    pub lingering_transactions: usize,
    /// Bytes that messages, chunk lists, ranges of moved data and the kinds below may use together; see
    /// [`super::memory_budget`].
    pub pool_bytes: usize,
    /// Bytes that the tables of connections and streams may use.
    pub table_bytes: usize,
    /// Bytes of Transactions, open or closed, with their messages and chunk lists. Beyond it, those that wait
    /// for late copies are emitted, then the oldest open ones.
    pub message_bytes: usize,
    /// TCP streams in the table. Beyond it, the streams idle longest are evicted.
    pub streams: usize,
    /// Bytes of one stream buffered after a gap.
    pub gap_bytes: usize,
    /// Bytes buffered for all streams: behind gaps and in incomplete messages.
    pub stream_bytes: usize,
    /// Connection set-ups that wait for their answer.
    pub set_ups: usize,
    /// Bytes of incomplete messages.
    pub partial_message_bytes: usize,
    /// Limits of IP reassembly.
    pub fragments: IpReassemblyLimits,
    /// Bytes of packets in the reorder buffers.
    pub reorder_bytes: u64,
    /// Bytes of chunk content kept at a time.
    pub chunk_content_bytes: u64,
    /// `true` to keep file data in chunks too.
    pub keep_file_data: bool,
    /// Dialect of RPC-over-RDMA in which messages are decoded; `None` detects it per connection.
    pub dialect: Option<Dialect>,
    /// `true` to check the ICRC of every packet.
    pub check_icrc: bool,
    /// `true` to record frames of chunks for [`Flow::transaction_frames`](super::Flow::transaction_frames).
    pub record_transaction_frames: bool,
    /// `true` to record transport events for [`Flow::transport_events`](super::Flow::transport_events).
    pub record_transport_events: bool,
    /// `true` to name the connection of a Transaction whenever a message of it completes, not only when the Transaction
    /// is emitted: for views of frames, and for names of files in Calls in flight.
    pub name_open_transactions: bool,
    /// `true` to report ended connections through [`Flow::next_closed`](super::Flow::next_closed).
    pub report_closed_connections: bool,
    /// `true` to emit a Transaction as soon as its Reply is acknowledged (see [`super::finality`]), not only once no
    /// late copy can arrive.
    pub emit_on_acknowledgment: bool,
}
