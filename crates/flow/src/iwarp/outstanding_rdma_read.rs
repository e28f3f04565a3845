//! An RDMA Read over iWARP whose response is not complete.

use nfsrdma_dissectors::memory_handle::Handle;

use crate::rdma_operation::RdmaAttribution;

/// An RDMA Read without its complete response.
#[derive(Debug)]
pub(super) struct OutstandingRdmaRead {
    pub(super) sink_stag: Handle,
    pub(super) sink_offset: u64,
    pub(super) length: u32,
    pub(super) source_offset: u64,
    pub(super) attribution: RdmaAttribution,
}

impl OutstandingRdmaRead {
    /// Returns the source offset of response bytes placed at `offset` of memory `stag`.
    pub(super) fn map_to_source(&self, stag: Handle, offset: u64, length: u32) -> Option<u64> {
        let relative_offset = offset.checked_sub(self.sink_offset)?;
        let end = relative_offset.checked_add(u64::from(length))?;
        let fits = stag == self.sink_stag && end <= u64::from(self.length);
        fits.then(|| self.source_offset.wrapping_add(relative_offset))
    }
}
