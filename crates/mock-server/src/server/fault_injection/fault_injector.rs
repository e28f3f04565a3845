//! The injector of a fault.

use nfsrdma_dissectors::xdr::ChunkedDataItem;

use super::message_field_locations::MockCallOperations;
use super::server_fault::{MockServerFault, MockServerFaultKind};
use crate::transport_faults::MockTransportFault;

/// Injects a fault.
#[derive(Clone, Debug)]
pub struct MockFaultInjector {
    pub(super) fault: MockServerFault,
    /// Number of occasions to skip first.
    skip: u64,
    pub(super) injections: u64,
    is_repeated: bool,
    is_stopped: bool,
}

impl MockFaultInjector {
    /// Creates an injector for a fault.
    pub fn new(fault: MockServerFault) -> Self {
        Self { fault, skip: 0, injections: 0, is_repeated: false, is_stopped: false }
    }

    /// Skips this many occasions first.
    #[must_use]
    pub fn with_skips(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// Injects the fault on every occasion, not only once.
    #[must_use]
    pub fn with_repetition(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Returns the fault.
    pub fn injected_fault(&self) -> MockServerFault {
        self.fault
    }

    /// Stops injecting.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns `true` if the fault is to be injected into this Call.
    pub(super) fn is_occasion(&mut self, call: &MockCallOperations) -> bool {
        let MockServerFault { version, operation, .. } = self.fault;
        let is_target = call.version == version && call.operations.contains(&operation);
        if self.injections > 0 && !self.is_repeated || self.is_stopped || !is_target {
            return false;
        }
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    /// Returns the number of injections.
    pub fn injections(&self) -> u64 {
        self.injections
    }

    /// Returns the transport fault of the reply to this message, if any. Faults of chunks require a Write chunk.
    pub(crate) fn fault(
        &mut self,
        message: &[u8],
        chunks: &[ChunkedDataItem<'_>],
        has_write_chunk: bool,
    ) -> Option<MockTransportFault> {
        let MockServerFaultKind::WrongTransport(fault) = self.fault.kind else { return None };
        let is_target = (has_write_chunk || !fault.affects_write_chunks())
            && MockCallOperations::from_call(message, chunks).is_some_and(|call| self.is_occasion(&call));
        self.injections += u64::from(is_target);
        is_target.then_some(fault)
    }

    /// Reverts the count of an injection that had no effect.
    pub(crate) fn revert_injection(&mut self) {
        self.injections = self.injections.saturating_sub(1);
    }
}
