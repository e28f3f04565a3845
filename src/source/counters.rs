//! What a capture counts besides its frames.

use serde::Serialize;

/// How many packets came, and where others were lost.
///
/// At any time `received` is `dropped_by_kernel`, `captured` and what waits in the kernel, and `captured` is `decoded`,
/// `dropped_by_program` and what waits in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets that passed the capture filter, those included that the kernel dropped then (Linux; elsewhere it may count what
    /// came before the filter).
    pub received: u64,
    /// Packets that the kernel had no room for, because they were not fetched in time.
    pub dropped_by_kernel: u64,
    /// Packets that the network interface lost, where it says so.
    pub dropped_by_interface: u64,
    /// Packets that were fetched from the kernel.
    pub captured: u64,
    /// Of these, the packets for which there was no room, because decoding was slower.
    pub dropped_by_program: u64,
    /// Of these, the packets that were given to who decodes.
    pub decoded: u64,
}

impl Counters {
    /// Packets that were lost, wherever.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_kernel
            .saturating_add(self.dropped_by_interface)
            .saturating_add(self.dropped_by_program)
    }

    /// Packets that were captured and wait to be decoded.
    pub fn waiting(&self) -> u64 {
        self.captured.saturating_sub(self.dropped_by_program).saturating_sub(self.decoded)
    }

    /// The same as if what waits had not come yet.
    pub fn settled(&self) -> Counters {
        let captured = self.decoded.saturating_add(self.dropped_by_program);
        Counters { received: captured.saturating_add(self.dropped_by_kernel), captured, ..*self }
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            received: self.received.saturating_sub(before.received),
            dropped_by_kernel: self.dropped_by_kernel.saturating_sub(before.dropped_by_kernel),
            dropped_by_interface: self.dropped_by_interface.saturating_sub(before.dropped_by_interface),
            captured: self.captured.saturating_sub(before.captured),
            dropped_by_program: self.dropped_by_program.saturating_sub(before.dropped_by_program),
            decoded: self.decoded.saturating_sub(before.decoded),
        }
    }
}
