//! Marker PDU Aligned framing: connection startup, and framing of messages in the stream. RFC 5044; RFC 6581.

use super::crc::RunningFpduCrc;
use crate::captured_frame::CapturedSlice;
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldObserver, FieldValue, NullFieldObserver};
use crate::rpcrdma::private_data::{PrivateDataVersionFlags, SidePrivateData};

/// Key of the MPA Request Frame, the first bytes from the initiator. RFC 5044 section 7.1.1.
pub const REQUEST_KEY: [u8; 16] = *b"MPA ID Req Frame";
/// Key of the MPA Reply Frame. RFC 5044 section 7.1.1.
pub const REPLY_KEY: [u8; 16] = *b"MPA ID Rep Frame";

/// Maximum length of the private data in bytes. RFC 5044 section 7.1.1.
pub const MAX_PRIVATE_DATA_BYTES: usize = 512;

/// Distance of markers in the stream in bytes. RFC 5044 section 4.3.
pub const MARKER_INTERVAL: u64 = 512;

crate::number! {
    /// Depth of an RDMA Read queue, 14 bits; 0x3fff leaves it to the layer above. RFC 6581 section 9.1.
    pub struct MpaReadQueueDepthField(u16) as Unsigned;
}

/// Kind of startup frame, identified by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MpaStartupFrameKind {
    /// The initiator's MPA Request Frame.
    Request,
    /// The responder's MPA Reply Frame.
    Reply,
}

impl MpaStartupFrameKind {
    /// Returns the kind of frame with this key.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        match key {
            key if key == REQUEST_KEY => Some(Self::Request),
            key if key == REPLY_KEY => Some(Self::Reply),
            _ => None,
        }
    }
}

crate::header! {
    /// MPA Request Frame, up to its private data. RFC 5044 section 7.1.1; RFC 6581 section 6.
    pub struct MpaRequestFrame<'a> [20] "iwarp_mpa.req" {
        /// "MPA ID Req Frame".
        0..128 key: &'a [u8] => "iwarp_mpa.key.req",
        /// M: the sender requires markers in what it receives.
        128..129 markers: bool => "iwarp_mpa.marker_flag",
        /// C: the sender requests CRCs; both sides use them if one requests them.
        129..130 crc: bool => "iwarp_mpa.crc_flag",
        /// R: meaningless in a Request.
        130..131 rejected: bool => "iwarp_mpa.rej_flag",
        /// S: the private data begins with the enhanced connection data.
        131..132 enhanced: bool => "iwarp_mpa.enhanced_flag",
        /// Reserved.
        132..136 res: u8 => "iwarp_mpa.res",
        /// Revision of MPA: 1, or 2 with RFC 6581.
        136..144 rev: u8 => "iwarp_mpa.rev",
        /// Length of the private data in bytes.
        144..160 pd_length: u16 => "iwarp_mpa.pdlength",
    }

    /// MPA Reply Frame, up to its private data. RFC 5044 section 7.1.1; RFC 6581 section 6.
    pub struct MpaReplyFrame<'a> [20] "iwarp_mpa.rep" {
        /// "MPA ID Rep Frame".
        0..128 key: &'a [u8] => "iwarp_mpa.key.rep",
        /// M: the sender requires markers in what it receives.
        128..129 markers: bool => "iwarp_mpa.marker_flag",
        /// C: the sender requests CRCs; both sides use them if one requests them.
        129..130 crc: bool => "iwarp_mpa.crc_flag",
        /// R: the connection is rejected.
        130..131 rejected: bool => "iwarp_mpa.rej_flag",
        /// S: the private data begins with the enhanced connection data.
        131..132 enhanced: bool => "iwarp_mpa.enhanced_flag",
        /// Reserved.
        132..136 res: u8 => "iwarp_mpa.res",
        /// Revision of MPA: 1, or 2 with RFC 6581.
        136..144 rev: u8 => "iwarp_mpa.rev",
        /// Length of the private data in bytes.
        144..160 pd_length: u16 => "iwarp_mpa.pdlength",
    }

    /// Enhanced RDMA connection establishment data. RFC 6581 section 9.
    pub struct MpaEnhancedConnectionData [4] "iwarp_mpa.enhanced" {
        /// A: peer-to-peer connection; the initiator sends an RTR indication first.
        0..1 peer_to_peer: bool => "iwarp_mpa.enhanced.a",
        /// B: the RTR indication may be a zero-length Send.
        1..2 send_rtr: bool => "iwarp_mpa.enhanced.b",
        /// Inbound RDMA Read Queue Depth.
        2..16 ird: MpaReadQueueDepthField => "iwarp_mpa.enhanced.ird",
        /// C: the RTR indication may be a zero-length RDMA Write.
        16..17 write_rtr: bool => "iwarp_mpa.enhanced.c",
        /// D: the RTR indication may be a zero-length RDMA Read.
        17..18 read_rtr: bool => "iwarp_mpa.enhanced.D",
        /// Outbound RDMA Read Queue Depth.
        18..32 ord: MpaReadQueueDepthField => "iwarp_mpa.enhanced.ord",
    }

    /// Marker. RFC 5044 section 4.2.
    pub struct Marker [4] "iwarp_mpa.markers" {
        /// Reserved.
        0..16 reserved: u16 => "iwarp_mpa.marker_res",
        /// Number of bytes from the start of the FPDU to the marker; 0 if the FPDU begins after the marker.
        16..32 fpduptr: u16 => "iwarp_mpa.marker_fpduptr",
    }

    /// FPDU header: the length of the ULPDU. RFC 5044 section 4.1.
    pub struct FpduHeader [2] "iwarp_mpa.fpdu" {
        /// Length of the ULPDU in bytes, without this field, markers, padding and CRC.
        0..16 ulpdu_length: u16 => "iwarp_mpa.ulpdulength",
    }
}

/// Adds the fields of MPA to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; MpaRequestFrame, MpaReplyFrame, MpaEnhancedConnectionData, Marker, FpduHeader);
    for field in [&PAD, &CRC, &PRIVATE_DATA] {
        registry.field(field);
    }
}

crate::field::fields! {
    PAD = "iwarp_mpa.pad" "pad" Bytes, "Makes the FPDU a multiple of four bytes. RFC 5044 section 4.1.";
    CRC = "iwarp_mpa.crc" "crc" Hex(8), "CRC32C, where CRCs are in use. RFC 5044 section 4.4.";
    PRIVATE_DATA = "iwarp_mpa.privatedata" "private_data" Bytes,
        "Private data of the upper layer, in the start-up frame. RFC 5044 section 7.1.1.";
}

impl FpduHeader {
    /// Returns the length of the padding in bytes, 0 to 3.
    #[inline]
    pub const fn pad(self) -> usize {
        (4 - (Self::LENGTH + self.ulpdu_length as usize) % 4) % 4
    }

    /// Returns the length of the FPDU in bytes: this header, ULPDU, padding and CRC, without markers.
    #[inline]
    pub const fn fpdu_length(self) -> usize {
        Self::LENGTH + self.ulpdu_length as usize + self.pad() + RunningFpduCrc::LENGTH
    }
}

/// Reports the padding and CRC after the ULPDU of an FPDU.
pub fn observe_trailer<'a, O: FieldObserver<'a>>(header: FpduHeader, trailer: CapturedSlice<'a>, observer: &mut O) {
    let pad = header.pad();
    if let Some(bytes) = trailer.bytes.get(..pad)
        && pad > 0
    {
        observer.value(&PAD, trailer.at..trailer.at + pad, FieldValue::Bytes(bytes));
    }
    let crc = trailer.skip_bytes(pad);
    if let Some((field, _)) = crc.bytes.split_first_chunk::<{ RunningFpduCrc::LENGTH }>() {
        observer.value(
            &CRC,
            crc.at..crc.at + RunningFpduCrc::LENGTH,
            FieldValue::Unsigned(u64::from(u32::from_be_bytes(*field))),
        );
    }
}

/// A decoded startup frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpaStartupFrame {
    /// Request or Reply.
    pub kind: MpaStartupFrameKind,
    /// M: the sender requires markers in what it receives.
    pub markers: bool,
    /// C: the sender requests CRCs.
    pub crc: bool,
    /// R, in a Reply: the connection is rejected.
    pub rejected: bool,
    /// R, in a Request, where it is zero.
    pub is_request_rejected: bool,
    /// Revision of MPA.
    pub revision: u8,
    /// Reserved bits.
    pub reserved: u8,
    /// S: the private data begins with the enhanced connection data.
    pub announces_enhanced: bool,
    /// Enhanced connection data, if the frame announces it.
    pub enhanced: Option<MpaEnhancedConnectionData>,
    /// Private data of RPC-over-RDMA. RFC 8797.
    pub rpcrdma: SidePrivateData,
    /// Version and flags of that private data, of any version.
    pub private_data_format: Option<PrivateDataVersionFlags>,
    /// Length of the frame in bytes.
    pub length: usize,
}

impl MpaStartupFrame {
    /// Length of the frame without its private data in bytes.
    pub const FIXED_LENGTH: usize = MpaRequestFrame::LENGTH;

    /// Decodes the startup frame at the start of `slice`, as far as it was captured. Returns `None` if the fixed part
    /// is truncated, has another key, or announces more than [`MAX_PRIVATE_DATA_BYTES`] bytes.
    pub fn decode<'a, O: FieldObserver<'a>>(slice: CapturedSlice<'a>, observer: &mut O) -> Option<Self> {
        // Both frames have the same layout.
        let (frame, _) = MpaRequestFrame::decode(slice.bytes, slice.at, &mut NullFieldObserver)?;
        let kind = MpaStartupFrameKind::from_key(frame.key)?;
        match kind {
            MpaStartupFrameKind::Request => MpaRequestFrame::decode_slice(slice, observer).map(drop),
            MpaStartupFrameKind::Reply => MpaReplyFrame::decode_slice(slice, observer).map(drop),
        };
        let MpaRequestFrame { markers, crc, rejected, enhanced: announces_enhanced, rev, res, .. } = frame;
        let length = usize::from(frame.pd_length);
        if length > MAX_PRIVATE_DATA_BYTES {
            return None;
        }
        let private = slice.with_length(Self::FIXED_LENGTH + length).skip_bytes(Self::FIXED_LENGTH);
        if O::is_enabled() && length > 0 {
            observer.value(&PRIVATE_DATA, private.range(), FieldValue::Bytes(private.bytes));
        }
        let mut application_data = private;
        let mut enhanced = None;
        if announces_enhanced && length >= MpaEnhancedConnectionData::LENGTH {
            enhanced = MpaEnhancedConnectionData::decode_slice(private, observer).map(|(data, _)| data);
            application_data = private.skip_bytes(MpaEnhancedConnectionData::LENGTH);
        }
        let rpcrdma = SidePrivateData::find(application_data, observer);
        Some(Self {
            kind,
            markers,
            crc,
            rejected: rejected && kind == MpaStartupFrameKind::Reply,
            is_request_rejected: rejected && kind == MpaStartupFrameKind::Request,
            revision: rev,
            reserved: res,
            announces_enhanced,
            enhanced,
            rpcrdma,
            private_data_format: PrivateDataVersionFlags::find(application_data.bytes),
            length: Self::FIXED_LENGTH + length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The MPA Request of siw-v42-crc.pcap.
    const REQUEST: &[u8] = b"MPA ID Req Frame\x50\x02\x00\x0c\x00\x80\x00\x00\xf6\xab\x0e\x18\x01\x01\x03\x03";

    fn decode(bytes: &[u8]) -> Option<MpaStartupFrame> {
        MpaStartupFrame::decode(CapturedSlice::new(bytes, bytes.len(), 0), &mut NullFieldObserver)
    }

    #[test]
    fn rfc6581_section_6_a_request_with_enhanced_data_and_the_private_data_of_rfc8797() {
        let startup = decode(REQUEST).unwrap();
        assert_eq!((startup.kind, startup.revision, startup.length), (MpaStartupFrameKind::Request, 2, REQUEST.len()));
        assert_eq!((startup.markers, startup.crc, startup.rejected), (false, true, false));
        let enhanced = startup.enhanced.unwrap();
        assert_eq!(
            (enhanced.ird, enhanced.ord, enhanced.peer_to_peer),
            (MpaReadQueueDepthField(128), MpaReadQueueDepthField(0), false)
        );
        assert_eq!(enhanced.encode(), REQUEST[20..24]);
        assert_eq!(startup.rpcrdma.present().unwrap().receive_threshold_bytes(), 4096);
    }

    #[test]
    fn rfc6581_section_9_control_flags_stand_beside_the_depths() {
        let (enhanced, _) =
            MpaEnhancedConnectionData::decode(&[0xc0, 0x01, 0x7f, 0xff], 0, &mut NullFieldObserver).unwrap();
        assert!(enhanced.peer_to_peer && enhanced.send_rtr && !enhanced.write_rtr && enhanced.read_rtr);
        assert_eq!((enhanced.ird, enhanced.ord), (MpaReadQueueDepthField(1), MpaReadQueueDepthField(0x3fff)));
    }

    #[test]
    fn rfc5044_section_7_1_1_a_reply_may_reject() {
        let startup = decode(b"MPA ID Rep Frame\xa0\x01\x00\x00").unwrap();
        assert_eq!((startup.kind, startup.rejected, startup.markers), (MpaStartupFrameKind::Reply, true, true));
        assert_eq!((startup.enhanced, startup.rpcrdma, startup.length), (None, SidePrivateData::Absent, 20));
    }

    #[test]
    fn rfc5044_section_7_1_1_private_data_is_no_longer_than_512_bytes() {
        assert_eq!(decode(b"MPA ID Rep Frame\x00\x01\x02\x00").unwrap().length, 532);
        assert_eq!(decode(b"MPA ID Rep Frame\x00\x01\x02\x01"), None);
        assert_eq!(decode(b"MPA ID Rep frame\x00\x01\x02\x00"), None);
    }

    #[test]
    fn rfc5044_section_4_1_an_fpdu_is_a_multiple_of_four_bytes() {
        for (length, pad, fpdu) in [(16, 2, 24), (18, 0, 24), (19, 3, 28), (1442, 0, 1448), (1443, 3, 1452)] {
            let header = FpduHeader { ulpdu_length: length };
            assert_eq!((header.pad(), header.fpdu_length()), (pad, fpdu), "{length}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(is_request: bool, bytes: Vec<u8>) {
            let key = if is_request { REQUEST_KEY } else { REPLY_KEY };
            let _ = decode(&[&key[..], &bytes].concat());
        }
    }
}
