//! The reading of the frames of a capture.

use std::sync::Arc;
use std::time::Duration;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType};
use pcap::BreakLoop;

use super::capture_error::capture_ended_error;
use super::packet_queue::{CapturedPacketBatch, CapturedPacketQueue, PacketQueuePollResult};
use crate::error::SourceErrorKind;
use crate::live_capture_counters::CapturePacketCounters;
use crate::pcapng::CaptureFileInterface;

/// Handle to a running capture: its counters and its end. All clones refer to the same capture.
#[derive(Clone)]
pub struct LiveCaptureControl {
    pub(super) queue: Arc<CapturedPacketQueue>,
    pub(super) breaker: Arc<BreakLoop>,
}

impl LiveCaptureControl {
    /// Returns the current counters.
    pub fn counters(&self) -> CapturePacketCounters {
        self.queue.counters()
    }

    /// Stops the capture. Packets received so far are still delivered.
    pub fn stop(&self) {
        self.queue.stop();
        self.breaker.breakloop();
    }
}

/// A capture as a frame source.
pub(crate) struct LiveReader {
    pub(crate) live: LiveCaptureControl,
    pub(crate) interface: CaptureFileInterface,
    block: CapturedPacketBatch,
    /// Index of the last read packet in the block, counted from 1; 0 before the first.
    next_packet: usize,
    has_frame: bool,
    /// Bytes of the frames read.
    pub(crate) bytes_read: u64,
    has_ended: bool,
    has_reported_link: bool,
}

/// Result of [`LiveReader::advance`].
pub(crate) enum LiveReadOutcome {
    Frame,
    Nothing,
    End,
}

impl LiveReader {
    pub(crate) fn new(live: LiveCaptureControl, interface: CaptureFileInterface) -> Self {
        Self {
            live,
            interface,
            block: CapturedPacketBatch::default(),
            next_packet: 0,
            has_frame: false,
            bytes_read: 0,
            has_ended: false,
            has_reported_link: false,
        }
    }

    /// Reads the next frame, waiting up to `timeout` for it. After an error, which ended the capture, later calls
    /// return [`LiveReadOutcome::End`].
    pub(crate) fn advance(&mut self, timeout: Duration) -> Result<LiveReadOutcome, SourceErrorKind> {
        self.has_frame = false;
        if self.has_ended {
            return Ok(LiveReadOutcome::End);
        }
        loop {
            if let Some((_, bytes)) = self.block.get(self.next_packet) {
                self.bytes_read += bytes.len() as u64;
                self.next_packet += 1;
                self.has_frame = true;
                self.live.queue.count_decoded();
                return Ok(LiveReadOutcome::Frame);
            }
            self.next_packet = 0;
            match self.live.queue.next(std::mem::take(&mut self.block), timeout) {
                PacketQueuePollResult::Block(block) => self.block = block,
                PacketQueuePollResult::TimedOut => return Ok(LiveReadOutcome::Nothing),
                PacketQueuePollResult::End(ending) => {
                    self.has_ended = true;
                    return match ending {
                        None => Ok(LiveReadOutcome::End),
                        Some(reason) => Err(capture_ended_error(&reason)),
                    };
                }
            }
        }
    }

    /// Returns the last read frame, with `number` as its frame number.
    #[inline]
    pub(crate) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let (packet, bytes) = self.block.get(self.next_packet.checked_sub(1).filter(|_| self.has_frame)?)?;
        Some(Frame { number, time: packet.time, link: self.interface.link, bytes, length: packet.length })
    }

    /// Returns the link type of the last frame if it is unknown, once per capture.
    pub(crate) fn unknown_link(&mut self) -> Option<LinkType> {
        let is_first_report = self.has_frame && !self.interface.link.is_known() && !self.has_reported_link;
        self.has_reported_link |= is_first_report;
        is_first_report.then_some(self.interface.link)
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        self.live.queue.abandon();
        self.live.breaker.breakloop();
    }
}
