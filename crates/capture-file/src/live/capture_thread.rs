//! The capture thread: moves packets from the kernel into the block queue.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::captured_frame::Timestamp;
use pcap::{Active, Capture, Packet, Stat};

use super::capture_error::error_text;
use super::packet_queue::{CapturedPacketQueue, CapturedPacketQueueWriter, LiveCaptureEndReason};

/// Maximum number of packets fetched before a block is handed over.
const MAX_BATCH_PACKETS: usize = 4096;

/// Time limit for fetching the packets held by the kernel when the capture ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The start of the capture; earlier packets do not count.
#[derive(Clone, Copy, Default)]
pub(super) struct CaptureStartTimeAndInitialCounters {
    pub(super) kernel_counters: Option<Stat>,
    /// Time of the start. Packets with an earlier timestamp are not part of the capture.
    pub(super) start_time: Timestamp,
}

/// Extends the 32-bit kernel counters to 64 bits.
struct KernelCounterExtender {
    previous: Option<Stat>,
}

impl KernelCounterExtender {
    fn update(&mut self, now: Stat, writer: &mut CapturedPacketQueueWriter<'_>) {
        let before = self.previous.replace(now).unwrap_or(Stat { received: 0, dropped: 0, if_dropped: 0 });
        let increase = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        writer.counters.received += increase(now.received, before.received);
        writer.counters.dropped_by_kernel += increase(now.dropped, before.dropped);
        writer.counters.dropped_by_interface += increase(now.if_dropped, before.if_dropped);
    }
}

/// Nanoseconds per unit of libpcap's microseconds field, depending on the requested precision.
pub(super) const NS_PER_UNIT: i64 = if HAS_NANOSECONDS { 1 } else { 1000 };
/// `true` if timestamps in nanoseconds are requested: on Linux, where libpcap always supports them.
pub(super) const HAS_NANOSECONDS: bool = cfg!(target_os = "linux");

#[inline]
fn enqueue(writer: &mut CapturedPacketQueueWriter<'_>, start_time: Timestamp, packet: &Packet<'_>) {
    #[allow(clippy::useless_conversion, reason = "their types are others on other systems")]
    let (seconds, fraction) = (i64::from(packet.header.ts.tv_sec), i64::from(packet.header.ts.tv_usec));
    let time = seconds.saturating_mul(1_000_000_000).saturating_add(fraction.saturating_mul(NS_PER_UNIT));
    if time >= start_time.0 {
        writer.push_packet(Timestamp(time), packet.header.len, packet.data);
    }
}

pub(super) fn start(
    capture: Capture<Active>,
    start: CaptureStartTimeAndInitialCounters,
    queue: Arc<CapturedPacketQueue>,
) -> std::io::Result<()> {
    thread::Builder::new().name("capture".to_owned()).spawn(move || {
        let reason = run(capture, start, &queue);
        queue.finish(reason);
    })?;
    Ok(())
}

fn run(
    mut capture: Capture<Active>,
    start: CaptureStartTimeAndInitialCounters,
    queue: &CapturedPacketQueue,
) -> LiveCaptureEndReason {
    let mut writer = CapturedPacketQueueWriter::new(queue);
    let mut kernel = KernelCounterExtender { previous: start.kernel_counters };
    while !queue.is_stopped() {
        let outcome =
            capture.dispatch(Some(MAX_BATCH_PACKETS), |packet| enqueue(&mut writer, start.start_time, &packet));
        if let Ok(stat) = capture.stats() {
            kernel.update(stat, &mut writer);
        }
        writer.flush();
        match outcome {
            Ok(_) | Err(pcap::Error::TimeoutExpired) => {}
            // Stopping breaks the loop of libpcap, which libpcap reports as an error.
            Err(_) if queue.is_stopped() => {}
            Err(error) => return Some(error_text(&error)),
        }
    }
    if !queue.is_abandoned() {
        drain_kernel(capture, start, &mut writer, &mut kernel);
    }
    None
}

/// Fetches the packets that the kernel has received so far, but no later ones, so that the counters are consistent.
fn drain_kernel(
    mut capture: Capture<Active>,
    start: CaptureStartTimeAndInitialCounters,
    writer: &mut CapturedPacketQueueWriter<'_>,
    kernel: &mut KernelCounterExtender,
) {
    if let Ok(stat) = capture.stats() {
        kernel.update(stat, writer);
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let expected = writer.counters.received.saturating_sub(writer.counters.dropped_by_kernel);
    if let Ok(mut capture) = capture.setnonblock() {
        while Instant::now() < deadline {
            let remaining = usize::try_from(expected.saturating_sub(writer.counters.captured)).unwrap_or(usize::MAX);
            if remaining == 0 {
                break;
            }
            match capture
                .dispatch(Some(remaining.min(MAX_BATCH_PACKETS)), |packet| enqueue(writer, start.start_time, &packet))
            {
                // The kernel delivers a block only when it is full or its timeout has expired.
                Ok(0) | Err(_) => thread::sleep(DRAIN_POLL_INTERVAL),
                Ok(_) => writer.flush(),
            }
        }
    }
    writer.flush();
}
