//! Frames as they are captured, by libpcap.
//!
//! Opening and reading are apart, so that the rights which the first needs can be given up before the second begins:
//!
//! ```no_run
//! use std::time::Duration;
//! use nfsrdma_inspect::source::live::{CaptureOptions, capabilities, open};
//! use nfsrdma_inspect::source::NextFrame;
//!
//! let opened = open(&CaptureOptions::new("eth0"))?;
//! capabilities::give_up(&capabilities::target(None, true))?;
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
//! Capturing (`pump`) has a thread of its own, which only moves packets into bounded memory (`ring`); whoever is slow loses
//! packets and never makes the kernel lose them. [`LiveCapture`] tells how many came and how many were lost, at any time and from
//! any thread.

mod block_queue;
pub mod capabilities;
mod capture_thread;
pub mod devices;
pub mod filter;
#[allow(unsafe_code, reason = "a function of libpcap is called that the pcap crate does not bind")]
mod library;
mod link_watch;
pub mod open;

use std::sync::Arc;
use std::time::Duration;

use nfsrdma_dissectors::frame::{Frame, FrameNumber, LinkType};
use pcap::BreakLoop;

use super::Counters;
use super::error::SourceErrorKind;
use super::pcapng::Interface;
use block_queue::{BlockQueue, BlockQueueOutput, PacketBlock};
pub use library::library_version;
pub use link_watch::LinkWatch;
pub use open::{CaptureOptions, OpenedCapture, open};

/// What concerns a capture besides its frames; all copies are of the same capture.
#[derive(Clone)]
pub struct LiveCapture {
    ring: Arc<BlockQueue>,
    breaker: Arc<BreakLoop>,
}

impl LiveCapture {
    /// How many packets came and were lost up to now.
    pub fn counters(&self) -> Counters {
        self.ring.counters()
    }

    /// Ends the capture. What was received up to now still comes.
    pub fn stop(&self) {
        self.ring.stop();
        self.breaker.breakloop();
    }
}

/// A capture that is read from.
pub(super) struct LiveReader {
    live: LiveCapture,
    interface: Interface,
    block: PacketBlock,
    /// The packet in the block that was read last, counted from 1; 0 before the first.
    at: usize,
    holds: bool,
    bytes: u64,
    has_ended: bool,
    has_told_link: bool,
}

/// What became of reading on.
pub(super) enum LiveReadOutcome {
    Frame,
    Nothing,
    End,
}

impl LiveReader {
    pub(super) fn new(live: LiveCapture, interface: Interface) -> Self {
        Self {
            live,
            interface,
            block: PacketBlock::default(),
            at: 0,
            holds: false,
            bytes: 0,
            has_ended: false,
            has_told_link: false,
        }
    }

    pub(super) fn live(&self) -> &LiveCapture {
        &self.live
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Bytes of the frames that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next frame, for which it waits as long as `patience` lasts.
    ///
    /// # Errors
    /// What ended the capture; after it, it has ended.
    pub(super) fn advance(&mut self, patience: Duration) -> Result<LiveReadOutcome, SourceErrorKind> {
        self.holds = false;
        if self.has_ended {
            return Ok(LiveReadOutcome::End);
        }
        loop {
            if let Some((_, bytes)) = self.block.get(self.at) {
                self.bytes += bytes.len() as u64;
                self.at += 1;
                self.holds = true;
                self.live.ring.count_decoded();
                return Ok(LiveReadOutcome::Frame);
            }
            self.at = 0;
            match self.live.ring.next(std::mem::take(&mut self.block), patience) {
                BlockQueueOutput::Block(block) => self.block = block,
                BlockQueueOutput::Nothing => return Ok(LiveReadOutcome::Nothing),
                BlockQueueOutput::End(ending) => {
                    self.has_ended = true;
                    return match ending {
                        None => Ok(LiveReadOutcome::End),
                        Some(why) => Err(open::broken(&why)),
                    };
                }
            }
        }
    }

    /// The frame that was read last, under a number.
    #[inline]
    pub(super) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let (packet, bytes) = self.block.get(self.at.checked_sub(1).filter(|_| self.holds)?)?;
        Some(Frame { number, time: packet.time, link: self.interface.link, bytes, length: packet.length })
    }

    /// That the link type is not known, the first time.
    pub(super) fn unknown_link(&mut self) -> Option<LinkType> {
        let is_news = self.holds && !self.interface.link.is_known() && !self.has_told_link;
        self.has_told_link |= is_news;
        is_news.then_some(self.interface.link)
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        self.live.ring.abandon();
        self.live.breaker.breakloop();
    }
}
