//! Byte-range locks of NLM clients.

use nfsrdma_dissectors::nfs::nlm::v4::Nlm4Lock;

/// An NLM lock: an inclusive byte range of a file, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MockNlmLock {
    file: Vec<u8>,
    pub(super) owner: (Vec<u8>, i32),
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) is_exclusive: bool,
}

impl MockNlmLock {
    pub(super) fn from_request(request: &Nlm4Lock<'_>, is_exclusive: bool) -> Self {
        // A length of 0 means up to the end of the file.
        let last = request.l_len.checked_sub(1).map_or(u64::MAX, |distance| request.l_offset.saturating_add(distance));
        let owner = (request.oh.0.to_vec(), request.svid);
        Self { file: request.fh.0.to_vec(), owner, first: request.l_offset, last, is_exclusive }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && self.first <= other.last && other.first <= self.last
    }

    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        self.overlaps(other) && self.owner != other.owner && (self.is_exclusive || other.is_exclusive)
    }
}
