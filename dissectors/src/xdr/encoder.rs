//! XDR encoder.

use super::padding::{RdmaMsgpPadding, roundup};

/// A data item that is omitted from the message because it is sent in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducedDataItem {
    /// Byte offset of the content in the unreduced message: the Position of a Read chunk.
    pub position: usize,
    /// Length of the content in bytes.
    pub length: u32,
    /// Number of preceding operations that can have a DDP-eligible item. For a result: the index of the matching Write
    /// chunk (RFC 8267 section 6.4.1).
    pub ordinal: usize,
}

/// A message that is being encoded.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    splices: Vec<ReducedDataItem>,
    spliced_bytes: usize,
    /// Number of appended operations that can have a DDP-eligible item.
    eligible_operations: usize,
    padding: RdmaMsgpPadding,
    /// Length in bytes of the Send before the message, for alignment.
    preceding_bytes: usize,
    /// Number of padding bytes so far.
    padding_bytes: usize,
}

impl Encoder {
    /// Returns an encoder of an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an encoder of an empty message that reuses an allocation. Its content is dropped.
    pub fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, ..Self::default() }
    }

    /// Aligns opaque data, for an RDMA_MSGP with `before` bytes of header (RFC 5666 section 3.9).
    #[must_use]
    pub fn with_padding(self, padding: RdmaMsgpPadding, before: usize) -> Self {
        Self { padding, preceding_bytes: before, ..self }
    }

    /// Returns the message so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the items omitted so far.
    pub fn splices(&self) -> &[ReducedDataItem] {
        &self.splices
    }

    /// Returns the message and the omitted items.
    pub fn finish(self) -> (Vec<u8>, Vec<ReducedDataItem>) {
        (self.bytes, self.splices)
    }

    /// Appends a four-byte number.
    pub fn word(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends an eight-byte number.
    pub fn hyper(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends bytes verbatim.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends bytes and the fill bytes after them (RFC 4506 section 4.10).
    pub fn append_padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(&[0; 3][..roundup(bytes.len())]);
    }

    /// Appends a length and bytes of that length. Data beyond `u32::MAX` bytes is truncated, because XDR cannot
    /// represent it.
    pub fn append_opaque(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.word(length);
        let padding = self.padding.bytes_before(self.preceding_bytes + self.bytes.len(), length);
        self.bytes.resize(self.bytes.len() + padding, 0);
        self.padding_bytes += padding;
        self.append_padded(bytes.get(..length as usize).unwrap_or(bytes));
    }

    /// Appends the length of an item whose content is sent in a chunk.
    pub fn append_chunk_length(&mut self, length: u32) {
        self.word(length);
        let position = self.bytes.len() + self.spliced_bytes - self.padding_bytes;
        self.splices.push(ReducedDataItem { position, length, ordinal: self.eligible_operations });
        self.spliced_bytes += length as usize + roundup(length as usize);
    }

    /// Ends an operation that can have a DDP-eligible item, even if it has none.
    pub fn end_eligible(&mut self) {
        self.eligible_operations += 1;
    }

    /// Appends the message of another encoder, with its omitted items.
    pub fn append(&mut self, other: &Self) {
        let before = self.bytes.len() + self.spliced_bytes;
        let eligible = self.eligible_operations;
        let moved = other.splices.iter().map(|splice| ReducedDataItem {
            position: splice.position + before,
            ordinal: splice.ordinal + eligible,
            ..*splice
        });
        self.splices.extend(moved);
        self.bytes.extend_from_slice(&other.bytes);
        self.spliced_bytes += other.spliced_bytes;
        self.eligible_operations += other.eligible_operations;
    }

    /// Appends an opaque item that contains the XDR appended by `write`. Its length includes items sent in chunks.
    pub fn append_nested(&mut self, write: impl FnOnce(&mut Self)) {
        let (start, spliced) = (self.bytes.len(), self.spliced_bytes);
        self.word(0);
        write(self);
        let length = self.bytes.len() - start - 4 + self.spliced_bytes - spliced;
        if let Some(word) = self.bytes.get_mut(start..start + 4) {
            word.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        }
        self.bytes.extend_from_slice(&[0; 3][..roundup(length)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_positions_of_appended_items_are_shifted() {
        let mut inner = Encoder::new();
        inner.append_chunk_length(5);
        inner.word(7);
        let mut outer = Encoder::new();
        outer.append_chunk_length(3);
        outer.append(&inner);
        outer.append_chunk_length(1);
        let positions: Vec<_> = outer.splices().iter().map(|splice| splice.position).collect();
        // 4 and "abc" with fill byte; 4 and "hello" with fill bytes, 4; 4.
        assert_eq!(positions, [4, 8 + 4, 8 + 12 + 4 + 4]);
        assert_eq!(outer.bytes(), b"\0\0\0\x03\0\0\0\x05\0\0\0\x07\0\0\0\x01");
    }

    #[test]
    fn the_memory_of_an_earlier_message_is_reused() {
        let encoder = Encoder::reusing(Vec::with_capacity(100));
        let (bytes, _) = encoder.finish();
        assert_eq!((bytes.len(), bytes.capacity()), (0, 100));
    }
}
