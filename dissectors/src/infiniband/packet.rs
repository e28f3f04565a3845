//! Packets of the InfiniBand transport, from the Base Transport Header through the ICRC.

use std::fmt;

use super::bth::Bth;
use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, ImmediateData, NakCode, Rdeth, Reth, Syndrome, XrcEth,
};
use super::opcode::{BthOpcode, ExtensionTransportHeader, OpcodeProperties};
use crate::captured_frame::CapturedSlice;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue};
use crate::fixed_header::HeaderBitFieldValue;
use crate::memory_handle::Handle;

/// Encapsulation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RdmaEncapsulation {
    /// UDP port 4791. Annex A17.
    RoceV2,
    /// EtherType 0x8915 and a Global Route Header. Annex A16.
    RoceV1,
    /// A Local Route Header.
    InfiniBand,
}

/// A packet. An extension header is `None` if the opcode has none, or if the capture ends before it. Headers of
/// services and operations that NFS does not use are only reported to the observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfinibandPacket<'a> {
    /// Encapsulation.
    pub encapsulation: RdmaEncapsulation,
    /// Offset of the Base Transport Header in the frame.
    pub at: usize,
    /// Length on the wire in bytes, from the Base Transport Header through the ICRC.
    pub length: usize,
    /// Base Transport Header.
    pub bth: Bth,
    /// Properties of the opcode.
    pub properties: &'static OpcodeProperties,
    /// Datagram header, with the source queue pair.
    pub deth: Option<Deth>,
    /// Memory of an RDMA Write or Read.
    pub reth: Option<Reth>,
    /// Acknowledgement.
    pub aeth: Option<Aeth>,
    /// Immediate data.
    pub immediate: Option<ImmediateData>,
    /// Handle that the Send invalidates.
    pub invalidate: Option<Handle>,
    /// Payload for the consumer, without padding and ICRC.
    pub payload: CapturedSlice<'a>,
    /// Invariant CRC; `None` if the capture ends before it.
    pub icrc: Option<u32>,
}

/// A decoding error with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketError {
    /// Kind of the error.
    pub kind: PacketErrorKind,
    /// Offset in the frame.
    pub at: usize,
}

/// Kind of a packet error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketErrorKind {
    /// The capture ends within the Base Transport Header.
    Cut,
    /// The length on the wire is too short for the headers of the opcode and the ICRC.
    Short,
    /// The pad count exceeds the payload.
    Pad,
    /// The transport header version is not 0.
    Version(u8),
    /// The opcode is reserved or manufacturer-specific.
    Opcode(BthOpcode),
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PacketErrorKind::Cut => write!(f, "the capture ends within the BTH")?,
            PacketErrorKind::Short => write!(f, "too short for the headers of its opcode")?,
            PacketErrorKind::Pad => write!(f, "pad count beyond the payload")?,
            PacketErrorKind::Version(version) => write!(f, "transport header version {version}")?,
            PacketErrorKind::Opcode(opcode) => write!(f, "unknown opcode {:#04x}", opcode.0)?,
        }
        write!(f, " at byte {}", self.at)
    }
}

impl std::error::Error for PacketError {}

crate::field::fields! {
    pub INFINIBAND = "infiniband" "InfiniBand" Group, "A packet of the InfiniBand transport. Chapter 9.";
    ICRC = "infiniband.invariant.crc" "ICRC" Hex(8), "Invariant CRC, as the four bytes stand. Section 7.8.1.";
    CREDIT_COUNT = "infiniband.aeth.syndrome.credit_count" "credit_count" Unsigned,
        "Low five bits of the syndrome. Section 9.7.5.2.1.";
    TIMER = "infiniband.aeth.syndrome.timer" "timer" Unsigned, "Low five bits of the syndrome. Section 9.7.5.2.1.";
    ERROR_CODE = "infiniband.aeth.syndrome.error_code" "error_code" Enum,
        "Low five bits of the syndrome. Section 9.7.5.2.1.";
}

/// Adds the packet fields that are in no header to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    for field in [&INFINIBAND, &ICRC, &CREDIT_COUNT, &TIMER] {
        registry.field(field);
    }
    registry.add(&ERROR_CODE, NakCode::NAMES, "");
}

/// Length of the ICRC at the end of every packet, in bytes.
pub(super) const ICRC_LENGTH: usize = 4;

impl<'a> InfinibandPacket<'a> {
    /// Returns the same packet with the captured payload in another buffer.
    pub fn with_payload<'b>(&self, bytes: &'b [u8]) -> InfinibandPacket<'b> {
        let Self {
            encapsulation: wire,
            at,
            length,
            bth,
            properties: form,
            deth,
            reth,
            aeth,
            immediate,
            invalidate,
            payload,
            icrc,
        } = *self;
        let payload = CapturedSlice { bytes, length: payload.length, at: payload.at };
        InfinibandPacket {
            encapsulation: wire,
            at,
            length,
            bth,
            properties: form,
            deth,
            reth,
            aeth,
            immediate,
            invalidate,
            payload,
            icrc,
        }
    }

    /// Decodes the packet in `slice`, whose length on the wire includes the ICRC.
    ///
    /// # Errors
    /// Returns an error if the Base Transport Header is truncated, or a length, the version or the opcode is invalid.
    #[inline(always)]
    pub fn decode<O: FieldObserver<'a>>(
        slice: CapturedSlice<'a>,
        wire: RdmaEncapsulation,
        observer: &mut O,
    ) -> Result<Self, PacketError> {
        observer.enter(&INFINIBAND, slice.at);
        let packet = Self::decode_headers(slice, wire, observer);
        observer.leave(slice.at + slice.bytes.len());
        packet
    }

    #[inline(always)]
    fn decode_headers<O: FieldObserver<'a>>(
        slice: CapturedSlice<'a>,
        wire: RdmaEncapsulation,
        observer: &mut O,
    ) -> Result<Self, PacketError> {
        let error = |kind, byte| PacketError { kind, at: slice.at + byte };
        if slice.length < Bth::LENGTH + ICRC_LENGTH {
            return Err(error(PacketErrorKind::Short, 0));
        }
        let Some((bth, _)) = Bth::decode(slice.bytes, slice.at, observer) else {
            return Err(error(PacketErrorKind::Cut, 0));
        };
        if bth.tver != 0 {
            return Err(error(PacketErrorKind::Version(bth.tver), 1));
        }
        let Some(properties) = bth.opcode.properties() else {
            return Err(error(PacketErrorKind::Opcode(bth.opcode), 0));
        };
        let headers_end = Bth::LENGTH + usize::from(properties.headers_length);
        let Some(padded) = slice.length.checked_sub(headers_end + ICRC_LENGTH) else {
            return Err(error(PacketErrorKind::Short, Bth::LENGTH));
        };
        let Some(payload_length) = padded.checked_sub(usize::from(bth.padcnt)) else {
            return Err(error(PacketErrorKind::Pad, 1));
        };

        let icrc = slice.bytes.get(slice.length - ICRC_LENGTH..).and_then(<[u8]>::first_chunk);

        let mut rest = slice.skip_bytes(Bth::LENGTH);
        macro_rules! follows {
            ($header:ident) => {
                if properties.headers.contains(ExtensionTransportHeader::$header) {
                    let header = $header::decode(rest.bytes, rest.at, observer).map(|(header, _)| header);
                    rest = rest.skip_bytes($header::LENGTH);
                    header
                } else {
                    None
                }
            };
        }
        let mut packet = Self {
            encapsulation: wire,
            at: slice.at,
            length: slice.length,
            bth,
            properties,
            deth: None,
            reth: None,
            aeth: None,
            immediate: None,
            invalidate: None,
            payload: CapturedSlice::default(),
            icrc: icrc.map(|bytes| u32::from_be_bytes(*bytes)),
        };
        if !properties.headers.is_empty() {
            follows!(Rdeth);
            packet.deth = follows!(Deth);
            follows!(XrcEth);
            follows!(Feth);
            packet.reth = follows!(Reth);
            follows!(AtomicEth);
            packet.aeth = follows!(Aeth);
            if O::is_enabled()
                && let Some(aeth) = packet.aeth
            {
                report_syndrome(aeth.syndrome, rest.at - Aeth::LENGTH, observer);
            }
            follows!(AtomicAckEth);
            packet.immediate = follows!(ImmDt).map(|header| header.immediate);
            packet.invalidate = follows!(Ieth).map(|header| header.r_key);
        }
        packet.payload = rest.with_length(payload_length);
        if O::is_enabled()
            && let Some(number) = packet.icrc
        {
            let at = slice.at + slice.length - ICRC_LENGTH;
            observer.value(&ICRC, at..at + ICRC_LENGTH, FieldValue::Unsigned(u64::from(number)));
        }
        Ok(packet)
    }
}

fn report_syndrome<'a, O: FieldObserver<'a>>(syndrome: Syndrome, at: usize, observer: &mut O) {
    let (field, value) = match syndrome {
        Syndrome::Ack { credits } => (&CREDIT_COUNT, FieldValue::Unsigned(u64::from(credits))),
        Syndrome::RnrNak { timer } => (&TIMER, FieldValue::Unsigned(u64::from(timer))),
        Syndrome::Nak(code) => (&ERROR_CODE, code.value()),
        Syndrome::Reserved(_) => return,
    };
    observer.value(field, at..at + 1, value);
}

#[cfg(test)]
mod tests {
    use super::super::{OpcodeService, PacketOperation, PartitionKey, Psn, Qpn};
    use super::*;
    use crate::field::NullFieldObserver;

    /// Returns a packet of these bytes, laid out as `opcode`, with an ICRC of zeros.
    fn packet(opcode: BthOpcode, padcnt: u8, body: &[u8]) -> Vec<u8> {
        let bth = Bth {
            opcode,
            se: false,
            m: false,
            padcnt,
            tver: 0,
            pkey: PartitionKey(0xffff),
            fecn: false,
            becn: false,
            destqp: Qpn(17),
            ackreq: true,
            psn: Psn(5),
        };
        [&bth.encode()[..], body, &[0; ICRC_LENGTH]].concat()
    }

    fn decode(bytes: &[u8], length: usize) -> Result<InfinibandPacket<'_>, PacketError> {
        InfinibandPacket::decode(
            CapturedSlice::new(bytes, length, 42),
            RdmaEncapsulation::RoceV2,
            &mut NullFieldObserver,
        )
    }

    #[test]
    fn the_payload_is_between_headers_and_pad() {
        let bytes = packet(BthOpcode::RC_SEND_ONLY_WITH_INVALIDATE, 3, b"\x00\x00\x0a\xf3hello\0\0\0");
        let packet = decode(&bytes, bytes.len()).unwrap();
        assert_eq!(packet.invalidate, Some(Handle(0xaf3)));
        assert_eq!(packet.payload, CapturedSlice { bytes: b"hello", length: 5, at: 42 + 16 });
        assert_eq!((packet.at, packet.length), (42, bytes.len()));
        assert_eq!(
            (packet.properties.service, packet.properties.operation),
            (OpcodeService::Rc, PacketOperation::Send)
        );
    }

    #[test]
    fn reth_of_an_rdma_write() {
        let mut body = vec![0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 9, 0x71, 0, 0, 0x20, 0];
        body.extend([7; 1024]);
        let bytes = packet(BthOpcode::RC_RDMA_WRITE_FIRST, 0, &body);
        let packet = decode(&bytes, bytes.len()).unwrap();
        assert_eq!(packet.reth, Some(Reth { va: 0x1_0203_0405, r_key: Handle(0x971), dmalen: 8192 }));
        assert_eq!((packet.payload.length, packet.payload.at), (1024, 42 + 28));
    }

    #[test]
    fn each_opcode_takes_exactly_its_headers() {
        for opcode in (0..=u8::MAX).map(BthOpcode) {
            let Some(form) = opcode.properties() else { continue };
            let headers = usize::from(form.headers_length);
            let bytes = packet(opcode, 0, &vec![0; headers + 8]);
            let packet = decode(&bytes, bytes.len()).unwrap();
            assert_eq!(packet.payload.at, 42 + 12 + headers, "{opcode}");
            assert_eq!(packet.payload.length, 8, "{opcode}");
            assert_eq!(decode(&bytes, 12 + headers + 3).unwrap_err().kind, PacketErrorKind::Short, "{opcode}");
        }
    }

    #[test]
    fn a_snap_length_takes_bytes_and_headers_but_no_lengths() {
        let mut body = vec![0; 16];
        body.extend([7; 1024]);
        let bytes = packet(BthOpcode::RC_RDMA_WRITE_ONLY, 0, &body);
        let cut = decode(&bytes[..30], bytes.len()).unwrap();
        assert!(cut.reth.is_some());
        assert_eq!((cut.payload.bytes, cut.payload.length), (&[7, 7][..], 1024));
        let cut = decode(&bytes[..20], bytes.len()).unwrap();
        assert_eq!((cut.reth, cut.payload.bytes, cut.payload.length), (None, &[][..], 1024));
        assert_eq!(decode(&bytes[..11], bytes.len()).unwrap_err(), PacketError { kind: PacketErrorKind::Cut, at: 42 });
    }

    #[test]
    fn invalid_packets_are_errors_with_their_offset() {
        let mut bytes = packet(BthOpcode::RC_ACKNOWLEDGE, 1, &[0; 4]);
        assert_eq!(decode(&bytes, bytes.len()).unwrap_err(), PacketError { kind: PacketErrorKind::Pad, at: 43 });
        bytes[1] = 0x02;
        assert_eq!(decode(&bytes, bytes.len()).unwrap_err(), PacketError { kind: PacketErrorKind::Version(2), at: 43 });
        bytes[0..2].copy_from_slice(&[0xc0, 0]);
        assert_eq!(decode(&bytes, bytes.len()).unwrap_err().kind, PacketErrorKind::Opcode(BthOpcode(0xc0)));
        assert_eq!(decode(&bytes, 15).unwrap_err().kind, PacketErrorKind::Short);
        assert_eq!(decode(&[], 0).unwrap_err().to_string(), "too short for the headers of its opcode at byte 42");
    }
}
