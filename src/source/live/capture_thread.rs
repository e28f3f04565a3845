//! The thread that captures: it moves packets from the kernel into the ring, and does nothing else.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::frame::Timestamp;
use pcap::{Active, Capture, Packet, Stat};

use super::block_queue::{BlockFiller, BlockQueue, CaptureEnding};

/// Packets after which what was fetched is handed over, even if there are more.
const BATCH: usize = 4096;

/// How long what the kernel holds may take to come when the capture ends.
const LAST: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// Where the capture begins: what came before does not count.
#[derive(Clone, Copy, Default)]
pub(super) struct CaptureStart {
    /// What the kernel had counted.
    pub(super) counted: Option<Stat>,
    /// When that was; packets that are stamped before are not of the capture.
    pub(super) since: Timestamp,
}

/// Counters of the kernel, which have 32 bits, counted on.
struct KernelCounters {
    before: Option<Stat>,
}

impl KernelCounters {
    fn note(&mut self, now: Stat, filler: &mut BlockFiller<'_>) {
        let before = self.before.replace(now).unwrap_or(Stat { received: 0, dropped: 0, if_dropped: 0 });
        let news = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        filler.counters.received += news(now.received, before.received);
        filler.counters.dropped_by_kernel += news(now.dropped, before.dropped);
        filler.counters.dropped_by_interface += news(now.if_dropped, before.if_dropped);
    }
}

/// Nanoseconds in what libpcap calls microseconds: those of the precision that was asked for.
pub(super) const UNIT: i64 = if NANOSECONDS { 1 } else { 1000 };
/// Whether times in nanoseconds are asked for: where libpcap always gives them.
pub(super) const NANOSECONDS: bool = cfg!(target_os = "linux");

#[inline]
fn take(filler: &mut BlockFiller<'_>, since: Timestamp, packet: &Packet<'_>) {
    #[allow(clippy::useless_conversion, reason = "their types are others on other systems")]
    let (seconds, fraction) = (i64::from(packet.header.ts.tv_sec), i64::from(packet.header.ts.tv_usec));
    let time = seconds.saturating_mul(1_000_000_000).saturating_add(fraction.saturating_mul(UNIT));
    if time >= since.0 {
        filler.take(Timestamp(time), packet.header.len, packet.data);
    }
}

/// Begins to capture into the ring.
pub(super) fn start(
    capture: Capture<Active>,
    begin: CaptureStart,
    ring: Arc<BlockQueue>,
) -> std::io::Result<()> {
    thread::Builder::new().name("capture".to_owned()).spawn(move || {
        let ending = run(capture, begin, &ring);
        ring.end(ending);
    })?;
    Ok(())
}

fn run(mut capture: Capture<Active>, begin: CaptureStart, ring: &BlockQueue) -> CaptureEnding {
    let mut filler = BlockFiller::new(ring);
    let mut kernel = KernelCounters { before: begin.counted };
    while !ring.is_stopped() {
        let outcome = capture.dispatch(Some(BATCH), |packet| take(&mut filler, begin.since, &packet));
        if let Ok(stat) = capture.stats() {
            kernel.note(stat, &mut filler);
        }
        filler.hand_over();
        match outcome {
            Ok(_) | Err(pcap::Error::TimeoutExpired) => {}
            // Asking for an end breaks the loop of libpcap, which is an error to it.
            Err(_) if ring.is_stopped() => {}
            Err(error) => return Some(super::open::text(&error)),
        }
    }
    if !ring.is_abandoned() {
        last(capture, begin, &mut filler, &mut kernel);
    }
    None
}

/// Fetches what the kernel has received up to now and not what comes then, so that the counters are those of one moment.
fn last(
    mut capture: Capture<Active>,
    begin: CaptureStart,
    filler: &mut BlockFiller<'_>,
    kernel: &mut KernelCounters,
) {
    if let Ok(stat) = capture.stats() {
        kernel.note(stat, filler);
    }
    let until = Instant::now() + LAST;
    let wanted = filler.counters.received.saturating_sub(filler.counters.dropped_by_kernel);
    if let Ok(mut capture) = capture.setnonblock() {
        while Instant::now() < until {
            let left = usize::try_from(wanted.saturating_sub(filler.counters.captured)).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            match capture.dispatch(Some(left.min(BATCH)), |packet| take(filler, begin.since, &packet)) {
                // A block of the kernel is not there before it is full, or its time is over.
                Ok(0) | Err(_) => thread::sleep(PAUSE),
                Ok(_) => filler.hand_over(),
            }
        }
    }
    filler.hand_over();
}
