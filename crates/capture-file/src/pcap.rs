//! The pcap format (draft-ietf-opsawg-pcap).

use nfsrdma_dissectors::captured_frame::{LinkType, Timestamp};

use super::buffer::{CaptureFileReadBuffer, CaptureRecord, MAX_RECORD_BYTES};
use super::byte_order::ByteOrder;
use super::error::SourceErrorKind;
use super::pcapng::CaptureFileInterface;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// A pcap file after its header.
pub(super) struct Pcap {
    order: ByteOrder,
    /// Nanoseconds per unit of a record's fraction of a second.
    unit_ns: i64,
    link: LinkType,
    snap_length: u32,
    /// `true` for versions before 2.4, in which some systems swapped the two lengths of a record.
    lengths_in_any_order: bool,
}

/// Returns the byte order and the nanoseconds per time unit of a pcap magic number; `None` for another format. Section
/// 4 of the draft.
pub(super) fn parse_magic(first: [u8; 4]) -> Option<(ByteOrder, i64)> {
    match first {
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((ByteOrder::Big, 1000)),
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((ByteOrder::Little, 1000)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((ByteOrder::Big, 1)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((ByteOrder::Little, 1)),
        _ => None,
    }
}

impl Pcap {
    /// Reads the file header. Section 4 of the draft.
    pub(super) fn open(
        buffer: &mut CaptureFileReadBuffer,
        order: ByteOrder,
        unit: i64,
    ) -> Result<Self, SourceErrorKind> {
        let complete = buffer.fill(FILE_HEADER)?;
        let (true, Some([_, version, _, _, snap_length, link])) = (complete, order.decode_words(buffer.buffered()))
        else {
            return Err(SourceErrorKind::TruncatedHeader {
                available_bytes: buffer.buffered().len() as u64,
                required_bytes: FILE_HEADER as u64,
            });
        };
        let (major, minor) = order.split_halves(version);
        if major != 2 {
            return Err(SourceErrorKind::Version("pcap", major, minor));
        }
        buffer.take(FILE_HEADER);
        // The bits above the link type are the length of the frame check sequence and bits that a reader must ignore.
        let link = LinkType(link & 0xffff);
        Ok(Self { order, unit_ns: unit, link, snap_length, lengths_in_any_order: minor < 4 })
    }

    pub(super) fn interface(&self) -> CaptureFileInterface {
        CaptureFileInterface::unnamed(self.link, self.snap_length).with_tick(self.unit_ns.unsigned_abs())
    }

    /// Reads a record. Returns `false` at the end. Section 5 of the draft.
    #[inline]
    pub(super) fn next(
        &mut self,
        buffer: &mut CaptureFileReadBuffer,
        record: &mut CaptureRecord,
    ) -> Result<bool, SourceErrorKind> {
        if !buffer.fill(RECORD_HEADER)? {
            return buffer.end_within(RECORD_HEADER);
        }
        let Some([seconds, fraction, mut captured, mut length]) = self.order.decode_words(buffer.buffered()) else {
            return Ok(false);
        };
        if self.lengths_in_any_order {
            (captured, length) = (captured.min(length), captured.max(length));
        }
        let record_length = RECORD_HEADER.saturating_add(captured as usize);
        if record_length > MAX_RECORD_BYTES {
            return Err(SourceErrorKind::ImplausibleLength(u64::from(captured)));
        }
        buffer.require(record_length)?;
        let range = buffer.take(record_length);
        // Cannot overflow: both are 32-bit numbers.
        record.time = Timestamp(i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.unit_ns);
        record.link = self.link;
        record.length = length.max(captured);
        record.bytes = range.start + RECORD_HEADER..range.end;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Kept, failure, frames, kept};
    use super::*;

    /// Header of version 2.4, snap length 65535, Ethernet. One record with 3 of 60 bytes at 1.000005 or 1.000000005 s.
    const BIG: &[u8] = &[
        0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1, //
        0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 60, 0xaa, 0xbb, 0xcc,
    ];
    const LITTLE: &[u8] = &[
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0, //
        1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb, 0xcc,
    ];

    fn with(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    }

    #[test]
    fn both_byte_orders_and_both_resolutions_are_read() {
        let micro = vec![kept(1, 1_000_005_000, LinkType::ETHERNET, 60, &[0xaa, 0xbb, 0xcc])];
        let nano = vec![Kept { time: Timestamp(1_000_000_005), ..micro[0].clone() }];
        assert_eq!(frames(BIG), micro);
        assert_eq!(frames(LITTLE), micro);
        assert_eq!(frames(&with(BIG, 0, &[0xa1, 0xb2, 0x3c, 0x4d])), nano);
        assert_eq!(frames(&with(LITTLE, 0, &[0x4d, 0x3c, 0xb2, 0xa1])), nano);
    }

    #[test]
    fn bits_above_the_link_type_are_not_part_of_it() {
        let fcs = with(BIG, 20, &[0x44, 0, 0x00, 0xf7]);
        assert_eq!(frames(&fcs)[0].link, LinkType::INFINIBAND);
    }

    #[test]
    fn times_are_unsigned_32_bit_seconds() {
        let late = with(BIG, 24, &[0xff; 4]);
        assert_eq!(frames(&late)[0].time, Timestamp(4_294_967_295_000_005_000));
    }

    #[test]
    fn a_file_without_records_has_no_frames() {
        assert_eq!(frames(&BIG[..24]), vec![]);
    }

    #[test]
    fn the_original_length_is_at_least_the_captured_length() {
        assert_eq!(frames(&with(BIG, 36, &[0, 0, 0, 1]))[0].length, 3);
    }

    #[test]
    fn before_version_2_4_the_smaller_length_is_the_captured_one() {
        let old = with(&with(BIG, 7, &[3]), 32, &[0, 0, 0, 60, 0, 0, 0, 3]);
        assert_eq!(frames(&old), frames(BIG));
    }

    #[test]
    fn a_truncated_last_record_is_an_error_after_the_others() {
        let two = [BIG, &BIG[24..]].concat();
        for cut in 1..19 {
            let (frames, error) = failure(&two[..two.len() - cut]);
            assert_eq!(frames.len(), 1);
            let need = if cut < 4 { 19 } else { 16 };
            assert!(
                matches!(error.kind(), SourceErrorKind::Truncated { available_bytes, required_bytes: n } if *available_bytes == 19 - cut as u64 && *n == need)
            );
            assert_eq!((error.frame().map(|n| n.0), error.offset()), (Some(2), Some(43)));
            assert!(error.kind().is_truncated());
        }
    }

    #[test]
    fn a_truncated_header_is_an_error() {
        for cut in 4..24 {
            let (frames, error) = failure(&BIG[..cut]);
            assert!(frames.is_empty());
            assert!(matches!(error.kind(), SourceErrorKind::TruncatedHeader { required_bytes: 24, .. }), "{error}");
        }
    }

    #[test]
    fn an_absurd_length_and_an_unknown_version_are_errors() {
        let (_, error) = failure(&with(BIG, 32, &[0x7f, 0xff, 0xff, 0xff]));
        assert!(matches!(error.kind(), SourceErrorKind::ImplausibleLength(0x7fff_ffff)));
        assert_eq!((error.frame().map(|n| n.0), error.offset()), (Some(1), Some(24)));
        let (_, error) = failure(&with(BIG, 5, &[3]));
        assert!(matches!(error.kind(), SourceErrorKind::Version("pcap", 3, 4)));
    }
}
