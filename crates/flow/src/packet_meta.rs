//! Frames and time of a packet, and the anomaly of its delivery.

use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};

use crate::rdma_operation::RetransmissionStall;

/// Metadata of a packet: its frames (more than one if it was fragmented) and the time at which it was
/// complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketMeta<'a> {
    pub(super) frames: &'a [FrameNumber],
    pub(super) time: Timestamp,
    /// Identification field of its IPv4 datagram; 0 if it has none.
    pub(super) identification: u16,
    /// Anomaly of its delivery; `None` for a packet that arrived once and in order.
    pub(super) anomaly: Option<&'a DeliveryAnomaly>,
}

/// Anomaly of a packet that did not arrive once and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryAnomaly {
    /// The frame is a duplicate made by the capture.
    CapturedTwice,
    /// The packet was captured before the packet that determines its place.
    Reordered,
    /// The receiver accepts the packet after an earlier copy was lost or refused.
    Recovered(RetransmissionStall),
    /// The receiver accepts the packet after an earlier copy was lost. It closes a gap in a stream, and so delays all
    /// messages that end behind the gap.
    ClosesGap(RetransmissionStall),
    /// The receiver refuses the packet because of a gap before it.
    Refused,
    /// The receiver had already accepted a copy of the packet, as far as is known.
    Surplus,
    /// The sender retransmits the packet after an ACK timeout: there was no acknowledgement of the copy before, and it
    /// is unknown which copy the receiver accepts.
    Repeated(RetransmissionStall),
}

impl<'a> PacketMeta<'a> {
    /// Creates the metadata of a packet without anomalies.
    pub(super) fn new(frames: &'a [FrameNumber], time: Timestamp) -> Self {
        Self { frames, time, identification: 0, anomaly: None }
    }

    /// Returns `true` if the frame is a duplicate made by the capture.
    pub(super) fn is_captured_twice(&self) -> bool {
        self.anomaly == Some(&DeliveryAnomaly::CapturedTwice)
    }

    /// Returns `true` if the receiver ignores the packet: a duplicate of the capture, or a packet accepted
    /// before.
    pub(super) fn is_duplicate(&self) -> bool {
        self.is_captured_twice() || self.was_already_accepted()
    }

    /// Returns `true` if the receiver had already accepted a copy of the packet, as far as is known.
    pub(super) fn was_already_accepted(&self) -> bool {
        matches!(self.anomaly, Some(DeliveryAnomaly::Surplus | DeliveryAnomaly::Repeated(_)))
    }

    /// Returns `true` if the receiver may have accepted this copy of a packet instead of an earlier one.
    pub(super) fn may_be_accepted(&self) -> bool {
        matches!(self.anomaly, Some(DeliveryAnomaly::Repeated(_)))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.anomaly == Some(&DeliveryAnomaly::Refused)
    }

    /// Returns the time lost to packet loss before the packet arrived.
    pub(super) fn stall(&self) -> Option<RetransmissionStall> {
        match *self.anomaly? {
            DeliveryAnomaly::Recovered(stall)
            | DeliveryAnomaly::ClosesGap(stall)
            | DeliveryAnomaly::Repeated(stall) => Some(stall),
            _ => None,
        }
    }

    pub(super) fn accepted_time(&self) -> Timestamp {
        self.stall().map_or(self.time, |stall| stall.until.max(self.time))
    }

    /// Returns the last frame of the packet, which completed it.
    pub(super) fn last_frame(&self) -> FrameNumber {
        self.frames.last().copied().unwrap_or_default()
    }
}
