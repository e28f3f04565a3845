//! Reassembly of RPC records from a stream.

use std::io::{self, Read};
use std::ops::Range;

use nfsrdma_dissectors::rpc::record_marking::{MAX_RECORD_BYTES, RecordMark};

/// Initial buffer size in bytes; doubled when a record needs it.
const INITIAL_BUFFER_BYTES: usize = 256 << 10;

/// A buffer of received bytes, in which the fragments of the next record are joined in place.
#[derive(Debug)]
pub(super) struct TcpRecordReader {
    /// Maximum length of a record in bytes.
    longest: usize,
    bytes: Vec<u8>,
    /// End offset of the received bytes.
    end: usize,
    /// Offset of the next record mark.
    mark: usize,
    /// The joined fragments of the current record.
    record: Range<usize>,
    is_record_returned: bool,
}

/// The state of the stream after a search for a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TcpRecordStatus {
    /// A complete record is available: [`TcpRecordReader::record`].
    Record,
    /// More bytes are required.
    More,
    /// A record exceeds the maximum length: the rest of the stream cannot be decoded.
    TooLong,
}

impl Default for TcpRecordReader {
    fn default() -> Self {
        Self::with_max_record(MAX_RECORD_BYTES)
    }
}

impl TcpRecordReader {
    pub(super) fn with_max_record(max_bytes: u32) -> Self {
        let longest = max_bytes as usize;
        Self { longest, bytes: Vec::new(), end: 0, mark: 0, record: 0..0, is_record_returned: false }
    }

    /// Returns the last record; valid until the next search.
    pub(super) fn record(&self) -> &[u8] {
        self.bytes.get(self.record.clone()).unwrap_or_default()
    }

    /// Searches for the next complete record, and joins its fragments.
    pub(super) fn next(&mut self) -> TcpRecordStatus {
        if self.is_record_returned {
            self.is_record_returned = false;
            self.record = self.mark..self.mark;
        }
        loop {
            let read = self.bytes.get(self.mark..self.end).unwrap_or_default();
            let Some(mark) = RecordMark::from_bytes(read) else { return TcpRecordStatus::More };
            let (length, start) = (mark.length as usize, self.mark + 4);
            if self.record.len() + length > self.longest {
                return TcpRecordStatus::TooLong;
            }
            if self.end < start + length {
                return TcpRecordStatus::More;
            }
            if self.record.is_empty() {
                self.record = start..start + length;
            } else {
                self.bytes.copy_within(start..start + length, self.record.end);
                self.record.end += length;
            }
            self.mark = start + length;
            if mark.is_last {
                self.is_record_returned = true;
                return TcpRecordStatus::Record;
            }
        }
    }

    /// Returns the bytes from the next record mark on.
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.mark..self.end).unwrap_or_default()
    }

    /// Reads once, up to the free buffer space.
    pub(super) fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        let count = stream.read(self.bytes.get_mut(self.end..).unwrap_or_default())?;
        self.end += count;
        Ok(count)
    }

    /// Moves unreturned data to the front if the buffer is full or its data is consumed, and grows a full buffer.
    fn make_room(&mut self) {
        if self.is_record_returned || self.record.is_empty() {
            self.record = self.mark..self.mark;
            self.is_record_returned = false;
        }
        let start = self.record.start;
        if start > 0 && (start == self.end || self.end == self.bytes.len()) {
            self.bytes.copy_within(start..self.end, 0);
            self.record = 0..self.record.end - start;
            self.mark -= start;
            self.end -= start;
        }
        if self.end == self.bytes.len() && self.mark > self.record.end {
            // Drops the marks of fragments, as a record may have any number of empty ones.
            self.bytes.copy_within(self.mark..self.end, self.record.end);
            self.end -= self.mark - self.record.end;
            self.mark = self.record.end;
        }
        if self.end == self.bytes.len() {
            self.bytes.resize((self.bytes.len() * 2).max(INITIAL_BUFFER_BYTES.min(self.longest + 4)), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns its bytes in steps.
    struct Steps<'a>(&'a [u8], usize);

    impl Read for Steps<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(self.1).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn records(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, TcpRecordStatus) {
        let (mut inbox, mut stream, mut records) = (TcpRecordReader::default(), Steps(bytes, step), Vec::new());
        loop {
            match inbox.next() {
                TcpRecordStatus::Record => records.push(inbox.record().to_vec()),
                TcpRecordStatus::More if inbox.fill(&mut stream).unwrap() > 0 => {}
                end => return (records, end),
            }
        }
    }

    #[test]
    fn rfc5531_section_11_fragments_make_a_record_however_they_come() {
        let bytes = b"\x80\0\0\x03abc\0\0\0\x02de\0\0\0\0\x80\0\0\x03fgh\x80\0\0\0\x80\0\0\x01i";
        for step in 1..bytes.len() + 1 {
            let (records, end) = records(bytes, step);
            assert_eq!(records, [&b"abc"[..], b"defgh", b"", b"i"]);
            assert_eq!(end, TcpRecordStatus::More);
        }
    }

    #[test]
    fn a_record_longer_than_the_buffer_extends_it() {
        let long = vec![7; 3 * INITIAL_BUFFER_BYTES];
        let bytes = [&(0x8000_0000 | long.len() as u32).to_be_bytes()[..], &long, b"\x80\0\0\x01x"].concat();
        assert_eq!(records(&bytes, usize::MAX).0, [&long[..], b"x"]);
    }

    #[test]
    fn a_record_of_absurd_length_is_refused_before_its_bytes_come() {
        assert_eq!(records(b"\x7f\xff\xff\xff", 4).1, TcpRecordStatus::TooLong);
        assert_eq!(records(b"\0\0\0\x01a\x81\0\0\0", 9).1, TcpRecordStatus::TooLong);
    }

    #[test]
    fn endless_empty_fragments_take_no_memory() {
        let mut inbox = TcpRecordReader::with_max_record(1 << 16);
        let mut first = Some(&b"\0\0\0\x01a"[..]);
        for _ in 0..100 {
            let bytes = first.take().unwrap_or(&[0; 4 << 10]);
            let mut stream = Steps(bytes, usize::MAX);
            while inbox.fill(&mut stream).unwrap() > 0 {
                assert_eq!(inbox.next(), TcpRecordStatus::More);
            }
        }
        assert!(inbox.bytes.len() <= 1 << 17, "{}", inbox.bytes.len());
        let mut stream = Steps(b"\x80\0\0\x02bc", usize::MAX);
        while inbox.fill(&mut stream).unwrap() > 0 {}
        assert_eq!((inbox.next(), inbox.record()), (TcpRecordStatus::Record, &b"abc"[..]));
    }

    proptest::proptest! {
        #[test]
        fn records_are_the_same_in_any_steps(bytes: Vec<u8>, step in 1usize..100) {
            proptest::prop_assert_eq!(records(&bytes, step), records(&bytes, usize::MAX));
        }
    }
}
