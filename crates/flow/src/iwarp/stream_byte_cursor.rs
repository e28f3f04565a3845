//! Cursor over contiguous stream bytes.

use super::fpdu_search::{self, FpduSearchBudget};
use crate::packet_meta::PacketMeta;
use crate::stream::stream_bytes::{StreamBytes, StreamPosition};

/// Stream bytes that were not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamByteCursor<'a> {
    pub(super) at: StreamPosition,
    pub(super) bytes: &'a [u8],
    pub(super) length: u32,
    pub(super) meta: PacketMeta<'a>,
    /// `true` if they included payload of the current FPDU.
    pub(super) had_payload: bool,
}

impl<'a> StreamByteCursor<'a> {
    pub(super) fn new(stream_bytes: StreamBytes<'a>) -> Self {
        Self {
            at: stream_bytes.at,
            bytes: stream_bytes.data.bytes,
            length: stream_bytes.data.length,
            meta: stream_bytes.meta,
            had_payload: false,
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.bytes.len() < self.length as usize
    }

    pub(super) fn to_search_bytes<'b>(self, budget: &'b FpduSearchBudget) -> fpdu_search::FpduSearchBytes<'b>
    where
        'a: 'b,
    {
        fpdu_search::FpduSearchBytes { bytes: self.bytes, length: self.length as usize, at: self.at, budget }
    }

    /// Removes and returns the first `count` bytes.
    pub(super) fn take(&mut self, count: u32) -> Self {
        let count = count.min(self.length);
        let captured = self.bytes.len().min(count as usize);
        let (bytes, rest) = self.bytes.split_at_checked(captured).unwrap_or((self.bytes, &[]));
        let prefix = Self { at: self.at, bytes, length: count, ..*self };
        (self.bytes, self.at, self.length) = (rest, self.at + u64::from(count), self.length - count);
        prefix
    }
}
