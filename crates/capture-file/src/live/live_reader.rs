//! The reading of the frames of a capture.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::captured_frame::{Frame, FrameNumber, LinkType, Timestamp};
use pcap::BreakLoop;

use super::capture_error::capture_ended_error;
use super::packet_queue::{CapturedPacketBatch, CapturedPacketQueue, PacketQueuePollResult};
use crate::error::{SourceError, input_error};
use crate::live_capture_counters::CapturePacketCounters;
use crate::pcapng::CaptureFileInterface;

/// Time that a packet waits for earlier ones of another interface: the kernel hands packets over within half of it.
const MERGE_WAIT: Duration = Duration::from_millis(20);
/// Interval at which several interfaces without packets are queried.
const IDLE_POLL: Duration = Duration::from_millis(2);

/// The end of a capture of one interface that fills the queue.
#[derive(Clone)]
pub(super) struct InterfaceControl {
    pub(super) queue: Arc<CapturedPacketQueue>,
    pub(super) breaker: Arc<BreakLoop>,
}

/// Handle to a running capture: its counters and its end. All clones refer to the same capture.
#[derive(Clone)]
pub struct LiveCaptureControl {
    interfaces: Arc<[InterfaceControl]>,
}

impl LiveCaptureControl {
    /// Returns the current counters of all interfaces.
    pub fn counters(&self) -> CapturePacketCounters {
        self.counters_by_interface().fold(CapturePacketCounters::default(), |sum, counters| sum.plus(&counters))
    }

    /// Returns the current counters of each interface, in the order in which they were named.
    pub fn counters_by_interface(&self) -> impl Iterator<Item = CapturePacketCounters> + '_ {
        self.interfaces.iter().map(|interface| interface.queue.counters())
    }

    /// Stops the capture. Packets received so far are still delivered.
    pub fn stop(&self) {
        for interface in self.interfaces.iter() {
            interface.queue.stop();
            interface.breaker.breakloop();
        }
    }
}

/// The packets of one interface.
pub(super) struct InterfaceReader {
    control: InterfaceControl,
    interface: CaptureFileInterface,
    block: CapturedPacketBatch,
    /// Index of the next packet in the block.
    next_packet: usize,
    /// Last time at which the queue was empty.
    empty_at: Option<Instant>,
    has_ended: bool,
    has_reported_link: bool,
}

impl InterfaceReader {
    pub(super) fn new(control: InterfaceControl, interface: CaptureFileInterface) -> Self {
        Self {
            control,
            interface,
            block: CapturedPacketBatch::default(),
            next_packet: 0,
            empty_at: None,
            has_ended: false,
            has_reported_link: false,
        }
    }

    /// Returns the time of the next packet in the block.
    fn next_time(&self) -> Option<Timestamp> {
        self.block.get(self.next_packet).map(|(packet, _)| packet.time)
    }

    /// Takes the next block from the queue if the last one was read, waiting up to `timeout` for it.
    fn fill(&mut self, timeout: Duration) -> Result<(), SourceError> {
        if self.has_ended || self.next_time().is_some() {
            return Ok(());
        }
        self.next_packet = 0;
        match self.control.queue.next(std::mem::take(&mut self.block), timeout) {
            PacketQueuePollResult::Block(block) => self.block = block,
            PacketQueuePollResult::TimedOut => self.empty_at = Some(Instant::now()),
            PacketQueuePollResult::End(ending) => {
                self.has_ended = true;
                if let Some(reason) = ending {
                    return Err(input_error(self.interface.name.clone(), capture_ended_error(&reason)));
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if every packet that was captured by `time` was read.
    fn is_read_up_to(&self, time: Instant) -> bool {
        self.has_ended || self.empty_at.is_some_and(|empty_at| empty_at >= time)
    }
}

/// A capture as a frame source: the packets of its interfaces, merged by time.
pub(crate) struct LiveReader {
    pub(crate) live: LiveCaptureControl,
    interfaces: Vec<InterfaceReader>,
    /// Interface of the last read packet.
    current: Option<usize>,
    /// Bytes of the frames read.
    pub(crate) bytes_read: u64,
}

/// Result of [`LiveReader::advance`].
pub(crate) enum LiveReadOutcome {
    Frame,
    Nothing,
    End,
}

impl LiveReader {
    pub(super) fn new(interfaces: Vec<InterfaceReader>) -> Self {
        let controls = interfaces.iter().map(|interface| interface.control.clone()).collect();
        Self { live: LiveCaptureControl { interfaces: controls }, interfaces, current: None, bytes_read: 0 }
    }

    /// Reads the next frame, waiting up to `timeout` for it. After an error, which ended the capture on one interface,
    /// the others continue.
    pub(crate) fn advance(&mut self, timeout: Duration) -> Result<LiveReadOutcome, SourceError> {
        self.current = None;
        let mut deadline = None;
        loop {
            for interface in &mut self.interfaces {
                interface.fill(Duration::ZERO)?;
            }
            let times = self.interfaces.iter().enumerate().filter_map(|(at, one)| Some((one.next_time()?, at)));
            let first = times.min().map(|(_, at)| at);
            let deliverable = first.filter(|at| self.awaited_interface(*at).is_none());
            if let Some(at) = deliverable {
                return Ok(self.deliver(at));
            }
            if self.interfaces.iter().all(|interface| interface.has_ended) {
                return Ok(LiveReadOutcome::End);
            }
            let now = Instant::now();
            let remaining = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if remaining.is_zero() {
                return Ok(LiveReadOutcome::Nothing);
            }
            let is_alone = self.interfaces.iter().filter(|interface| !interface.has_ended).nth(1).is_none();
            let wait = if first.is_none() && is_alone { remaining } else { remaining.min(IDLE_POLL) };
            let awaited = first.and_then(|at| self.awaited_interface(at));
            let awaited = awaited.or_else(|| self.interfaces.iter().position(|interface| !interface.has_ended));
            if let Some(interface) = awaited.and_then(|at| self.interfaces.get_mut(at)) {
                interface.fill(wait)?;
            }
        }
    }

    /// Returns another interface that may still have a packet before the next one of the interface `at`.
    fn awaited_interface(&self, at: usize) -> Option<usize> {
        let filled_at = self.interfaces.get(at)?.block.filled_at()?;
        let is_awaited =
            |one: &InterfaceReader| one.next_time().is_none() && !one.is_read_up_to(filled_at + MERGE_WAIT);
        (0..self.interfaces.len()).find(|other| *other != at && self.interfaces.get(*other).is_some_and(is_awaited))
    }

    fn deliver(&mut self, at: usize) -> LiveReadOutcome {
        let Some(interface) = self.interfaces.get_mut(at) else { return LiveReadOutcome::End };
        self.bytes_read += interface.block.get(interface.next_packet).map_or(0, |(_, bytes)| bytes.len() as u64);
        interface.next_packet += 1;
        interface.control.queue.count_decoded();
        self.current = Some(at);
        LiveReadOutcome::Frame
    }

    /// Returns the interface of the last read frame, with its index.
    #[inline]
    pub(crate) fn interface(&self) -> Option<(usize, &CaptureFileInterface)> {
        let at = self.current?;
        Some((at, &self.interfaces.get(at)?.interface))
    }

    /// Returns the interfaces in the order in which they were named.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = &CaptureFileInterface> {
        self.interfaces.iter().map(|interface| &interface.interface)
    }

    /// Returns the last read frame, with `number` as its frame number.
    #[inline]
    pub(crate) fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let reader = self.interfaces.get(self.current?)?;
        let (packet, bytes) = reader.block.get(reader.next_packet.checked_sub(1)?)?;
        Some(Frame { number, time: packet.time, link: reader.interface.link, bytes, length: packet.length })
    }

    /// Returns the link type of the last frame if it is unknown, once per interface, with its name.
    pub(crate) fn unknown_link(&mut self) -> Option<(LinkType, String)> {
        let reader = self.interfaces.get_mut(self.current?)?;
        let is_first_report = !reader.interface.link.is_known() && !reader.has_reported_link;
        reader.has_reported_link |= is_first_report;
        is_first_report.then(|| (reader.interface.link, reader.interface.name.clone()))
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        for interface in self.live.interfaces.iter() {
            interface.queue.abandon();
            interface.breaker.breakloop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet_queue::CapturedPacketQueueWriter;
    use super::*;

    /// Returns a reader of packets at these times, in lists of blocks, one list for each interface.
    fn order(interfaces: &[&[&[i64]]]) -> Vec<(i64, usize)> {
        let name = |at: usize| {
            let mut interface = CaptureFileInterface::unnamed(LinkType::ETHERNET, 65_535);
            interface.name = format!("eth{at}");
            interface
        };
        let queues: Vec<_> = interfaces.iter().map(|_| Arc::new(CapturedPacketQueue::new(0))).collect();
        for (queue, blocks) in queues.iter().zip(interfaces) {
            let mut writer = CapturedPacketQueueWriter::new(queue);
            for times in *blocks {
                times.iter().for_each(|time| writer.push_packet(Timestamp(*time), 60, &[0; 60]));
                writer.flush();
            }
            queue.finish(None);
        }
        let breaker = || Arc::new(pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap().breakloop_handle());
        let readers = queues.iter().enumerate().map(|(at, queue)| {
            InterfaceReader::new(InterfaceControl { queue: Arc::clone(queue), breaker: breaker() }, name(at))
        });
        let mut reader = LiveReader::new(readers.collect());
        let mut order = Vec::new();
        while let LiveReadOutcome::Frame = reader.advance(Duration::from_secs(5)).unwrap() {
            let frame = reader.frame(FrameNumber(1)).unwrap();
            order.push((frame.time.0, reader.interface().unwrap().0));
        }
        let total: Vec<_> = reader.live.counters_by_interface().map(|counters| counters.decoded).collect();
        assert_eq!(total.iter().sum::<u64>(), reader.live.counters().decoded);
        order
    }

    #[test]
    fn packets_of_interfaces_merge_by_time() {
        let merged = order(&[&[&[1, 4], &[5]], &[&[2, 3, 6]], &[]]);
        assert_eq!(merged, [(1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 1)]);
        assert_eq!(order(&[&[&[7]]]), [(7, 0)]);
    }
}
