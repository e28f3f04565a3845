//! A bar of the waterfall: a message, the RDMA operations of a chunk, a NAK, or a time in recovery.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::Syndrome;
use nfsrdma_flow::transaction::RpcMessageKind;

/// The kind of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaterfallBarKind {
    /// A message.
    Message(RpcMessageKind),
    /// An RDMA Read for this Read chunk: from the request to the last response.
    Read(usize),
    /// An RDMA Write for this Write chunk.
    Write(usize),
    /// An RDMA Write for the Reply chunk.
    ReplyWrite,
    /// RDMA_DONE.
    Done,
    /// A NAK for packets of the Transaction.
    Nak(Syndrome),
    /// Time lost to recovery: waiting for an ACK timeout, for a receiver that was not ready, or for go-back-N.
    Recovery,
}

/// A bar of the waterfall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterfallBar {
    /// Kind.
    pub kind: WaterfallBarKind,
    /// Start time.
    pub from: Timestamp,
    /// End time.
    pub to: Timestamp,
    /// First and last frame.
    pub frames: (FrameNumber, FrameNumber),
    /// Number of bytes in the message or transferred; 0 if unknown.
    pub bytes: u64,
    /// `true` if it is a request without a response.
    pub is_open: bool,
    /// The ACK, if captured.
    pub ack: Option<WaterfallAck>,
}

/// An ACK that covers the packets of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterfallAck {
    /// Capture time.
    pub time: Timestamp,
    /// Frame number.
    pub frame: FrameNumber,
}
