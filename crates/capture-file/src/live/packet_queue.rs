//! Queue of large, reused blocks between the capture thread and the decoder.
//!
//! The capture thread never waits. It fills the last block of the queue or an empty one; if all are full, the packet is
//! dropped and counted. The decoder takes blocks from the front. A block is handed over as soon as no more packets are
//! available, so that a few packets do not wait for a full block.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nfsrdma_dissectors::captured_frame::Timestamp;

use crate::live_capture_counters::CapturePacketCounters;

/// Capacity of a block in bytes of packet data: more than the longest packet.
const BLOCK_DATA_BYTES: usize = 1 << 20;
const BLOCK_PACKETS: usize = 8192;
pub(super) const BLOCK_BYTES: usize = BLOCK_DATA_BYTES + BLOCK_PACKETS * size_of::<LiveCapturedPacket>();

/// A packet in a block: its metadata and the range of its bytes.
#[derive(Clone, Debug)]
pub(super) struct LiveCapturedPacket {
    pub(super) time: Timestamp,
    /// Length on the wire, in bytes.
    pub(super) length: u32,
    bytes: Range<usize>,
}

/// Packets in capture order.
#[derive(Debug, Default)]
pub(super) struct CapturedPacketBatch {
    bytes: Vec<u8>,
    packets: Vec<LiveCapturedPacket>,
    /// Time of the addition of the last packet, or later.
    filled_at: Option<Instant>,
}

impl CapturedPacketBatch {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(BLOCK_DATA_BYTES),
            packets: Vec::with_capacity(BLOCK_PACKETS),
            filled_at: None,
        }
    }

    /// Returns when the block was handed over.
    pub(super) fn filled_at(&self) -> Option<Instant> {
        self.filled_at
    }

    fn has_room(&self, length: usize) -> bool {
        self.packets.len() < BLOCK_PACKETS && self.bytes.len() + length <= BLOCK_DATA_BYTES
    }

    /// Appends a packet and returns `true`, if there is space for it.
    fn try_push(&mut self, time: Timestamp, length: u32, bytes: &[u8]) -> bool {
        let has_room = self.has_room(bytes.len());
        if has_room {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            self.packets.push(LiveCapturedPacket { time, length, bytes: from..self.bytes.len() });
        }
        has_room
    }

    /// Returns the packet at index `at` and its bytes.
    pub(super) fn get(&self, at: usize) -> Option<(&LiveCapturedPacket, &[u8])> {
        let packet = self.packets.get(at)?;
        Some((packet, self.bytes.get(packet.bytes.clone())?))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}

/// Error that ended the capture; `None` if it was stopped on request.
pub(super) type LiveCaptureEndReason = Option<String>;

#[derive(Debug, Default)]
struct CapturedPacketQueueState {
    /// Blocks with packets. The last may have space for more.
    filled: VecDeque<CapturedPacketBatch>,
    empty: Vec<CapturedPacketBatch>,
    /// Number of blocks allocated, including those being filled or decoded.
    block_count: usize,
    counters: CapturePacketCounters,
    ending: Option<LiveCaptureEndReason>,
}

#[derive(Debug)]
pub(super) struct CapturedPacketQueue {
    state: Mutex<CapturedPacketQueueState>,
    block_ready: Condvar,
    max_blocks: usize,
    decoded: AtomicU64,
    is_stopped: AtomicBool,
    is_abandoned: AtomicBool,
}

pub(super) enum PacketQueuePollResult {
    Block(CapturedPacketBatch),
    TimedOut,
    End(LiveCaptureEndReason),
}

impl CapturedPacketQueue {
    /// Returns a queue of at most `bytes`, but of at least three blocks: one being filled, one pending and one being
    /// decoded.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            block_ready: Condvar::new(),
            max_blocks: (bytes / BLOCK_BYTES).max(3),
            decoded: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, CapturedPacketQueueState> {
        // The state is consistent at any time: no lock holder panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> CapturePacketCounters {
        let mut counters = self.state().counters;
        counters.decoded = self.decoded.load(Ordering::Relaxed);
        counters
    }

    #[inline]
    pub(super) fn count_decoded(&self) {
        // Only one thread counts.
        self.decoded.store(self.decoded.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests the end of the capture. Packets held by the kernel are still fetched.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Requests the end of the capture. Pending packets are discarded.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        self.stop();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Returns the block to fill next, with space for `length` bytes; `None` if all memory is in use.
    fn acquire_block(&self, length: usize) -> Option<CapturedPacketBatch> {
        let mut state = self.state();
        if state.filled.back().is_some_and(|last| last.has_room(length)) {
            return state.filled.pop_back();
        }
        if let Some(batch) = state.empty.pop() {
            return Some(batch);
        }
        if state.block_count >= self.max_blocks {
            return None;
        }
        state.block_count += 1;
        drop(state);
        Some(CapturedPacketBatch::new())
    }

    fn push_block(&self, mut block: Option<CapturedPacketBatch>, counters: CapturePacketCounters) {
        if let Some(block) = &mut block {
            block.filled_at = Some(Instant::now());
        }
        let mut state = self.state();
        state.filled.extend(block);
        state.counters = counters;
        drop(state);
        self.block_ready.notify_one();
    }

    pub(super) fn finish(&self, reason: LiveCaptureEndReason) {
        self.state().ending = Some(reason);
        self.block_ready.notify_one();
    }

    /// Takes back a decoded block and returns the next one, waiting up to `timeout` for it.
    pub(super) fn next(&self, mut batch: CapturedPacketBatch, timeout: Duration) -> PacketQueuePollResult {
        batch.clear();
        let mut state = self.state();
        if batch.bytes.capacity() > 0 {
            state.empty.push(batch);
        }
        let mut deadline = None;
        loop {
            if let Some(block) = state.filled.pop_front() {
                return PacketQueuePollResult::Block(block);
            }
            if let Some(reason) = &state.ending {
                return PacketQueuePollResult::End(reason.clone());
            }
            let now = Instant::now();
            let remaining = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if remaining.is_zero() {
                return PacketQueuePollResult::TimedOut;
            }
            let result = self.block_ready.wait_timeout(state, remaining);
            state = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The capturing end of the queue.
pub(super) struct CapturedPacketQueueWriter<'a> {
    queue: &'a CapturedPacketQueue,
    block: Option<CapturedPacketBatch>,
    pub(super) counters: CapturePacketCounters,
}

impl<'a> CapturedPacketQueueWriter<'a> {
    pub(super) fn new(queue: &'a CapturedPacketQueue) -> Self {
        Self { queue, block: None, counters: CapturePacketCounters::default() }
    }

    /// Adds a packet, or counts it as dropped if no block is free.
    #[inline]
    pub(super) fn push_packet(&mut self, time: Timestamp, length: u32, bytes: &[u8]) {
        self.counters.captured += 1;
        if self.block.as_mut().is_some_and(|block| block.try_push(time, length, bytes)) {
            return;
        }
        self.change_block(bytes.len());
        if !self.block.as_mut().is_some_and(|block| block.try_push(time, length, bytes)) {
            self.counters.dropped_by_program += 1;
        }
    }

    #[cold]
    fn change_block(&mut self, length: usize) {
        if self.block.is_some() {
            // The current packet is in no block yet.
            let counters = CapturePacketCounters { captured: self.counters.captured - 1, ..self.counters };
            self.queue.push_block(self.block.take(), counters);
        }
        self.block = self.queue.acquire_block(length);
    }

    /// Hands over the current block because no more packets are available.
    pub(super) fn flush(&mut self) {
        self.queue.push_block(self.block.take(), self.counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(filler: &mut CapturedPacketQueueWriter<'_>, times: std::ops::Range<i64>, length: usize) {
        let bytes = vec![7; length];
        times.for_each(|time| filler.push_packet(Timestamp(time), length as u32, &bytes));
        filler.flush();
    }

    /// Returns the times of all queued packets, and the output that follows.
    fn drain(ring: &CapturedPacketQueue, most: usize) -> (Vec<i64>, PacketQueuePollResult) {
        let mut times = Vec::new();
        let mut block = CapturedPacketBatch::default();
        loop {
            match ring.next(block, Duration::ZERO) {
                PacketQueuePollResult::Block(next) if times.len() < most => {
                    for at in 0.. {
                        let Some((packet, bytes)) = next.get(at) else { break };
                        assert_eq!(bytes.len(), packet.length as usize);
                        times.push(packet.time.0);
                        ring.count_decoded();
                    }
                    block = next;
                }
                other => return (times, other),
            }
        }
    }

    #[test]
    fn packets_come_in_order_and_at_once() {
        let ring = CapturedPacketQueue::new(0);
        let mut filler = CapturedPacketQueueWriter::new(&ring);
        fill(&mut filler, 0..3, 100);
        fill(&mut filler, 3..5, 100);
        let (times, then) = drain(&ring, 99);
        assert_eq!(times, [0, 1, 2, 3, 4]);
        assert!(matches!(then, PacketQueuePollResult::TimedOut));
        fill(&mut filler, 5..6, 100);
        ring.finish(None);
        let (times, then) = drain(&ring, 99);
        assert_eq!(times, [5]);
        assert!(matches!(then, PacketQueuePollResult::End(None)));
    }

    #[test]
    fn small_batches_share_a_block() {
        let ring = CapturedPacketQueue::new(0);
        let mut filler = CapturedPacketQueueWriter::new(&ring);
        (0..1000).for_each(|time| fill(&mut filler, time..time + 1, 100));
        assert_eq!(ring.state().block_count, 1);
        assert_eq!(drain(&ring, 9999).0.len(), 1000);
    }

    #[test]
    fn packets_beyond_the_capacity_are_dropped_and_counted() {
        let ring = CapturedPacketQueue::new(0);
        let mut filler = CapturedPacketQueueWriter::new(&ring);
        fill(&mut filler, 0..5000, 1024);
        let counters = ring.counters();
        assert_eq!((counters.captured, counters.dropped_by_program), (5000, 5000 - 3 * 1024));
        assert_eq!(counters.pending(), 3 * 1024);
        // Decoding a block frees space.
        let (times, _) = drain(&ring, 1);
        assert_eq!(times.len(), 1024);
        fill(&mut filler, 5000..5001, 1024);
        let counters = ring.counters();
        assert_eq!((counters.captured, counters.dropped_by_program), (5001, 5000 - 3 * 1024));
        assert_eq!(counters.captured, counters.decoded + counters.dropped_by_program + counters.pending());
        assert!(ring.state().block_count <= 3);
    }

    #[test]
    fn an_error_comes_after_the_packets_before_it() {
        let ring = CapturedPacketQueue::new(0);
        let mut filler = CapturedPacketQueueWriter::new(&ring);
        fill(&mut filler, 0..1, 60);
        ring.finish(Some("the interface went down".to_owned()));
        let (times, then) = drain(&ring, 99);
        assert_eq!(times, [0]);
        assert!(matches!(then, PacketQueuePollResult::End(Some(why)) if why.contains("down")));
    }

    #[test]
    fn a_waiting_decoder_is_woken() {
        let ring = CapturedPacketQueue::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                fill(&mut CapturedPacketQueueWriter::new(&ring), 0..1, 60);
            });
            let given = ring.next(CapturedPacketBatch::default(), Duration::from_secs(60));
            assert!(matches!(given, PacketQueuePollResult::Block(_)));
        });
    }
}
