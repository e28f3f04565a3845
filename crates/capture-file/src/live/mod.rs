//! Live capture with libpcap.
//!
//! Opening and starting are separate, so that the privileges needed to open can be dropped before packets are read:
//!
//! ```no_run
//! use std::time::Duration;
//! use nfsrdma_capture_file::live::{CaptureOptions, capabilities, open};
//! use nfsrdma_capture_file::NextFrame;
//!
//! let opened = open(&CaptureOptions::new("eth0"))?;
//! capabilities::drop_privileges(&capabilities::target(None, true))?;
//! let mut source = opened.start()?;
//! let live = source.live().ok_or("not live")?;
//! loop {
//!     match source.next_within(Duration::from_millis(20))? {
//!         NextFrame::Frame(frame) => println!("{} {}", frame.number, frame.time),
//!         // Time to draw, or to stop.
//!         NextFrame::Nothing if live.counters().received > 1000 => live.stop(),
//!         NextFrame::Nothing => {}
//!         NextFrame::End => break,
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The capture thread (`capture_thread`) only moves packets into bounded memory (`block_queue`). A slow decoder loses
//! packets there and never causes drops in the kernel. [`LiveCaptureControl`] returns the numbers of received and
//! dropped packets, at any time and from any thread.

pub mod capabilities;
mod capture_thread;
pub mod devices;
pub mod filter;
#[allow(unsafe_code, reason = "a function of libpcap is called that the pcap crate does not bind")]
mod libpcap_version;
mod link_watch;
pub mod open;
mod packet_queue;

use std::sync::Arc;
use std::time::Duration;

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType};
use pcap::BreakLoop;

use super::CapturePacketCounters;
use super::error::SourceErrorKind;
use super::pcapng::CaptureInterface;
pub use libpcap_version::library_version;
pub use link_watch::CaptureInterfaceMonitor;
pub use open::{CaptureOptions, OpenedLiveCapture, open};
use packet_queue::{CapturedPacketBatch, CapturedPacketQueue, PacketQueuePollResult};

/// Handle to a running capture: its counters and its end. All clones refer to the same capture.
#[derive(Clone)]
pub struct LiveCaptureControl {
    queue: Arc<CapturedPacketQueue>,
    breaker: Arc<BreakLoop>,
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
pub(super) struct LiveReader {
    pub(super) live: LiveCaptureControl,
    pub(super) interface: CaptureInterface,
    block: CapturedPacketBatch,
    /// Index of the last read packet in the block, counted from 1; 0 before the first.
    next_packet: usize,
    has_frame: bool,
    /// Bytes of the frames read.
    pub(super) bytes_read: u64,
    has_ended: bool,
    has_reported_link: bool,
}

/// Result of [`LiveReader::advance`].
pub(super) enum LiveReadOutcome {
    Frame,
    Nothing,
    End,
}

impl LiveReader {
    pub(super) fn new(live: LiveCaptureControl, interface: CaptureInterface) -> Self {
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
    pub(super) fn advance(&mut self, timeout: Duration) -> Result<LiveReadOutcome, SourceErrorKind> {
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
                        Some(reason) => Err(open::capture_ended_error(&reason)),
                    };
                }
            }
        }
    }

    /// Returns the last read frame, with `number` as its frame number.
    #[inline]
    pub(super) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let (packet, bytes) = self.block.get(self.next_packet.checked_sub(1).filter(|_| self.has_frame)?)?;
        Some(Frame { number, time: packet.time, link: self.interface.link, bytes, length: packet.length })
    }

    /// Returns the link type of the last frame if it is unknown, once per capture.
    pub(super) fn unknown_link(&mut self) -> Option<LinkType> {
        let is_news = self.has_frame && !self.interface.link.is_known() && !self.has_reported_link;
        self.has_reported_link |= is_news;
        is_news.then_some(self.interface.link)
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        self.live.queue.abandon();
        self.live.breaker.breakloop();
    }
}
