//! Packet counters of a capture.

use serde::Serialize;

/// Numbers of packets received, captured, decoded and dropped.
///
/// At any time `received` is `dropped_by_kernel` plus `captured` plus the packets pending in the kernel, and `captured`
/// is `decoded` plus `dropped_by_program` plus the packets pending in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CapturePacketCounters {
    /// Number of packets that passed the capture filter, including those that the kernel then dropped. This is the
    /// meaning on Linux; other systems may count packets before the filter.
    pub received: u64,
    /// Number of packets dropped by the kernel because its buffer was full.
    pub dropped_by_kernel: u64,
    /// Number of packets dropped by the network interface, if it reports that.
    pub dropped_by_interface: u64,
    /// Number of packets fetched from the kernel.
    pub captured: u64,
    /// Number of `captured` packets dropped because decoding was slower and the queue was full.
    pub dropped_by_program: u64,
    /// Number of `captured` packets passed to the decoder.
    pub decoded: u64,
}

impl CapturePacketCounters {
    /// Returns the number of packets dropped at any stage.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_kernel.saturating_add(self.dropped_by_interface).saturating_add(self.dropped_by_program)
    }

    /// Returns the number of captured packets that wait to be decoded.
    pub fn pending(&self) -> u64 {
        self.captured.saturating_sub(self.dropped_by_program).saturating_sub(self.decoded)
    }

    /// Returns the counters without the packets that are still pending.
    pub fn without_pending(&self) -> CapturePacketCounters {
        let captured = self.decoded.saturating_add(self.dropped_by_program);
        CapturePacketCounters { received: captured.saturating_add(self.dropped_by_kernel), captured, ..*self }
    }

    /// Returns the sums of these counters and those of another interface.
    pub fn plus(&self, other: &CapturePacketCounters) -> CapturePacketCounters {
        CapturePacketCounters {
            received: self.received.saturating_add(other.received),
            dropped_by_kernel: self.dropped_by_kernel.saturating_add(other.dropped_by_kernel),
            dropped_by_interface: self.dropped_by_interface.saturating_add(other.dropped_by_interface),
            captured: self.captured.saturating_add(other.captured),
            dropped_by_program: self.dropped_by_program.saturating_add(other.dropped_by_program),
            decoded: self.decoded.saturating_add(other.decoded),
        }
    }

    /// Returns the difference to the earlier counters `before`.
    pub fn since(&self, before: &CapturePacketCounters) -> CapturePacketCounters {
        CapturePacketCounters {
            received: self.received.saturating_sub(before.received),
            dropped_by_kernel: self.dropped_by_kernel.saturating_sub(before.dropped_by_kernel),
            dropped_by_interface: self.dropped_by_interface.saturating_sub(before.dropped_by_interface),
            captured: self.captured.saturating_sub(before.captured),
            dropped_by_program: self.dropped_by_program.saturating_sub(before.dropped_by_program),
            decoded: self.decoded.saturating_sub(before.decoded),
        }
    }
}
