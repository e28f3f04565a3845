//! Properties of the opcodes of the Base Transport Header: service, operation, position in the message, and extension
//! headers.

use super::headers::{Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, Rdeth, Reth, XrcEth};

/// Transport service, the upper three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpcodeService {
    /// Reliable Connection.
    Rc,
    /// Unreliable Connection.
    Uc,
    /// Reliable Datagram.
    Rd,
    /// Unreliable Datagram.
    Ud,
    /// Congestion notification of RoCEv2, which has no service.
    Cnp,
    /// Extended Reliable Connection.
    Xrc,
}

/// Operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketOperation {
    /// Message for a receive buffer of the peer.
    Send,
    /// Data to place in the peer's memory.
    Write,
    /// Request for data of the peer's memory.
    ReadRequest,
    /// Response with the requested data.
    ReadResponse,
    /// Acknowledgement or negative acknowledgement of requests.
    Acknowledge,
    /// Value before an atomic operation.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Resynchronization of a Reliable Datagram channel.
    Resync,
    /// Flush: makes earlier writes persistent or globally visible.
    Flush,
    /// Atomic write of eight bytes.
    AtomicWrite,
    /// Congestion notification.
    Cnp,
}

/// Position of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketPositionInMessage {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl PacketPositionInMessage {
    /// Returns `true` if the packet begins a message.
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Returns `true` if the packet ends a message.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// An extension transport header; the value is its bit in [`ExtensionHeaderSet`]. Packets carry them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ExtensionTransportHeader {
    /// Reliable datagram.
    Rdeth = 1,
    /// Datagram.
    Deth = 1 << 1,
    /// Extended reliable connection.
    XrcEth = 1 << 2,
    /// Flush.
    Feth = 1 << 3,
    /// RDMA.
    Reth = 1 << 4,
    /// Atomic.
    AtomicEth = 1 << 5,
    /// Acknowledgement.
    Aeth = 1 << 6,
    /// Atomic acknowledgement.
    AtomicAckEth = 1 << 7,
    /// Immediate data.
    ImmDt = 1 << 8,
    /// Invalidate.
    Ieth = 1 << 9,
}

impl ExtensionTransportHeader {
    /// All headers with their lengths in bytes.
    const LENGTHS: [(Self, usize); 10] = [
        (Self::Rdeth, Rdeth::LENGTH),
        (Self::Deth, Deth::LENGTH),
        (Self::XrcEth, XrcEth::LENGTH),
        (Self::Feth, Feth::LENGTH),
        (Self::Reth, Reth::LENGTH),
        (Self::AtomicEth, AtomicEth::LENGTH),
        (Self::Aeth, Aeth::LENGTH),
        (Self::AtomicAckEth, AtomicAckEth::LENGTH),
        (Self::ImmDt, ImmDt::LENGTH),
        (Self::Ieth, Ieth::LENGTH),
    ];
}

/// Set of extension headers after the Base Transport Header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionHeaderSet(u16);

impl ExtensionHeaderSet {
    const fn new(headers: &[ExtensionTransportHeader]) -> Self {
        let mut bits = 0;
        let mut next = 0;
        while next < headers.len() {
            bits |= headers[next] as u16;
            next += 1;
        }
        Self(bits)
    }

    /// Returns `true` if no header is in the set.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if the header is in the set.
    #[inline(always)]
    pub const fn contains(self, header: ExtensionTransportHeader) -> bool {
        self.0 & header as u16 != 0
    }

    /// Returns the length of all headers in bytes.
    pub const fn length(self) -> usize {
        let mut length = 0;
        let mut next = 0;
        while next < ExtensionTransportHeader::LENGTHS.len() {
            let (header, header_length) = ExtensionTransportHeader::LENGTHS[next];
            length += header_length * self.contains(header) as usize;
            next += 1;
        }
        length
    }
}

/// Properties of the packets of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeProperties {
    /// Transport service.
    pub service: OpcodeService,
    /// Operation.
    pub operation: PacketOperation,
    /// Position in the message.
    pub position: PacketPositionInMessage,
    /// Extension headers after the Base Transport Header.
    pub headers: ExtensionHeaderSet,
    /// Length of the extension headers in bytes.
    pub headers_length: u8,
}

macro_rules! opcodes {
    ($($(#[$meta:meta])* $name:ident = $code:literal $text:literal:
        $service:ident $operation:ident $place:ident [$($header:ident)*],)*) => {
        crate::named! {
            /// Opcode of the Base Transport Header: transport service in the upper three bits, operation in the lower
            /// five; the names are tshark's. InfiniBand Architecture Specification volume 1, section 9.2.1; XRC: annex
            /// A14; RoCEv2 CNP: annex A17.
            pub struct BthOpcode(u8) { $($(#[$meta])* $name = $code $text,)* }
        }

        static FORMS: [Option<OpcodeProperties>; 256] = {
            let mut forms = [None; 256];
            $({
                let headers = ExtensionHeaderSet::new(&[$(ExtensionTransportHeader::$header),*]);
                forms[$code] = Some(OpcodeProperties {
                    service: OpcodeService::$service,
                    operation: PacketOperation::$operation,
                    position: PacketPositionInMessage::$place,
                    headers,
                    headers_length: headers.length() as u8,
                });
            })*
            forms
        };
    };
}

opcodes! {
    RC_SEND_FIRST = 0x00 "RC Send First": Rc Send First [],
    RC_SEND_MIDDLE = 0x01 "RC Send Middle": Rc Send Middle [],
    RC_SEND_LAST = 0x02 "RC Send Last": Rc Send Last [],
    RC_SEND_LAST_WITH_IMMEDIATE = 0x03 "RC Send Last Immediate": Rc Send Last [ImmDt],
    RC_SEND_ONLY = 0x04 "RC Send Only": Rc Send Only [],
    RC_SEND_ONLY_WITH_IMMEDIATE = 0x05 "RC Send Only Immediate": Rc Send Only [ImmDt],
    RC_RDMA_WRITE_FIRST = 0x06 "RC RDMA Write First": Rc Write First [Reth],
    RC_RDMA_WRITE_MIDDLE = 0x07 "RC RDMA Write Middle": Rc Write Middle [],
    RC_RDMA_WRITE_LAST = 0x08 "RC RDMA Write Last": Rc Write Last [],
    RC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09 "RC RDMA Write Last Immediate": Rc Write Last [ImmDt],
    RC_RDMA_WRITE_ONLY = 0x0a "RC RDMA Write Only": Rc Write Only [Reth],
    RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0b "RC RDMA Write Only Immediate": Rc Write Only [Reth ImmDt],
    RC_RDMA_READ_REQUEST = 0x0c "RC RDMA Read Request": Rc ReadRequest Only [Reth],
    RC_RDMA_READ_RESPONSE_FIRST = 0x0d "RC RDMA Read Response First": Rc ReadResponse First [Aeth],
    RC_RDMA_READ_RESPONSE_MIDDLE = 0x0e "RC RDMA Read Response Middle": Rc ReadResponse Middle [],
    RC_RDMA_READ_RESPONSE_LAST = 0x0f "RC RDMA Read Response Last": Rc ReadResponse Last [Aeth],
    RC_RDMA_READ_RESPONSE_ONLY = 0x10 "RC RDMA Read Response Only": Rc ReadResponse Only [Aeth],
    RC_ACKNOWLEDGE = 0x11 "RC Acknowledge": Rc Acknowledge Only [Aeth],
    RC_ATOMIC_ACKNOWLEDGE = 0x12 "RC Atomic Acknowledge": Rc AtomicAcknowledge Only [Aeth AtomicAckEth],
    RC_COMPARE_SWAP = 0x13 "RC Compare Swap": Rc CompareSwap Only [AtomicEth],
    RC_FETCH_ADD = 0x14 "RC Fetch Add": Rc FetchAdd Only [AtomicEth],
    RC_SEND_LAST_WITH_INVALIDATE = 0x16 "RC Send Last Invalidate": Rc Send Last [Ieth],
    RC_SEND_ONLY_WITH_INVALIDATE = 0x17 "RC Send Only Invalidate": Rc Send Only [Ieth],
    RC_FLUSH = 0x1c "RC Flush": Rc Flush Only [Feth Reth],
    RC_ATOMIC_WRITE = 0x1d "RC Atomic Write": Rc AtomicWrite Only [Reth],
    UC_SEND_FIRST = 0x20 "UC Send First": Uc Send First [],
    UC_SEND_MIDDLE = 0x21 "UC Send Middle": Uc Send Middle [],
    UC_SEND_LAST = 0x22 "UC Send Last": Uc Send Last [],
    UC_SEND_LAST_WITH_IMMEDIATE = 0x23 "UC Send Last Immediate": Uc Send Last [ImmDt],
    UC_SEND_ONLY = 0x24 "UC Send Only": Uc Send Only [],
    UC_SEND_ONLY_WITH_IMMEDIATE = 0x25 "UC Send Only Immediate": Uc Send Only [ImmDt],
    UC_RDMA_WRITE_FIRST = 0x26 "UC RDMA Write First": Uc Write First [Reth],
    UC_RDMA_WRITE_MIDDLE = 0x27 "UC RDMA Write Middle": Uc Write Middle [],
    UC_RDMA_WRITE_LAST = 0x28 "UC RDMA Write Last": Uc Write Last [],
    UC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x29 "UC RDMA Write Last Immediate": Uc Write Last [ImmDt],
    UC_RDMA_WRITE_ONLY = 0x2a "UC RDMA Write Only": Uc Write Only [Reth],
    UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x2b "UC RDMA Write Only Immediate": Uc Write Only [Reth ImmDt],
    RD_SEND_FIRST = 0x40 "RD Send First": Rd Send First [Rdeth Deth],
    RD_SEND_MIDDLE = 0x41 "RD Send Middle": Rd Send Middle [Rdeth Deth],
    RD_SEND_LAST = 0x42 "RD Send Last": Rd Send Last [Rdeth Deth],
    RD_SEND_LAST_WITH_IMMEDIATE = 0x43 "RD Send Last Immediate": Rd Send Last [Rdeth Deth ImmDt],
    RD_SEND_ONLY = 0x44 "RD Send Only": Rd Send Only [Rdeth Deth],
    RD_SEND_ONLY_WITH_IMMEDIATE = 0x45 "RD Send Only Immediate": Rd Send Only [Rdeth Deth ImmDt],
    RD_RDMA_WRITE_FIRST = 0x46 "RD RDMA Write First": Rd Write First [Rdeth Deth Reth],
    RD_RDMA_WRITE_MIDDLE = 0x47 "RD RDMA Write Middle": Rd Write Middle [Rdeth Deth],
    RD_RDMA_WRITE_LAST = 0x48 "RD RDMA Write Last": Rd Write Last [Rdeth Deth],
    RD_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x49 "RD RDMA Write Last Immediate": Rd Write Last [Rdeth Deth ImmDt],
    RD_RDMA_WRITE_ONLY = 0x4a "RD RDMA Write Only": Rd Write Only [Rdeth Deth Reth],
    RD_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x4b "RD RDMA Write Only Immediate": Rd Write Only [Rdeth Deth Reth ImmDt],
    RD_RDMA_READ_REQUEST = 0x4c "RD RDMA Read Request": Rd ReadRequest Only [Rdeth Deth Reth],
    RD_RDMA_READ_RESPONSE_FIRST = 0x4d "RD RDMA Read Response First": Rd ReadResponse First [Rdeth Aeth],
    RD_RDMA_READ_RESPONSE_MIDDLE = 0x4e "RD RDMA Read Response Middle": Rd ReadResponse Middle [Rdeth],
    RD_RDMA_READ_RESPONSE_LAST = 0x4f "RD RDMA Read Response Last": Rd ReadResponse Last [Rdeth Aeth],
    RD_RDMA_READ_RESPONSE_ONLY = 0x50 "RD RDMA Read Response Only": Rd ReadResponse Only [Rdeth Aeth],
    RD_ACKNOWLEDGE = 0x51 "RD Acknowledge": Rd Acknowledge Only [Rdeth Aeth],
    RD_ATOMIC_ACKNOWLEDGE = 0x52 "RD Atomic Acknowledge": Rd AtomicAcknowledge Only [Rdeth Aeth AtomicAckEth],
    RD_COMPARE_SWAP = 0x53 "RD Compare Swap": Rd CompareSwap Only [Rdeth Deth AtomicEth],
    RD_FETCH_ADD = 0x54 "RD Fetch Add": Rd FetchAdd Only [Rdeth Deth AtomicEth],
    RD_RESYNC = 0x55 "RD Resync": Rd Resync Only [Rdeth Deth],
    RD_FLUSH = 0x5c "RD Flush": Rd Flush Only [Rdeth Deth Feth Reth],
    RD_ATOMIC_WRITE = 0x5d "RD Atomic Write": Rd AtomicWrite Only [Rdeth Deth Reth],
    UD_SEND_ONLY = 0x64 "UD Send Only": Ud Send Only [Deth],
    UD_SEND_ONLY_WITH_IMMEDIATE = 0x65 "UD Send Only Immediate": Ud Send Only [Deth ImmDt],
    /// Congestion notification packet of RoCEv2: 16 reserved bytes follow. Annex A17.9.3.
    CNP = 0x81 "CNP": Cnp Cnp Only [],
    XRC_SEND_FIRST = 0xa0 "XRC Send First": Xrc Send First [XrcEth],
    XRC_SEND_MIDDLE = 0xa1 "XRC Send Middle": Xrc Send Middle [XrcEth],
    XRC_SEND_LAST = 0xa2 "XRC Send Last": Xrc Send Last [XrcEth],
    XRC_SEND_LAST_WITH_IMMEDIATE = 0xa3 "XRC Send Last Immediate": Xrc Send Last [XrcEth ImmDt],
    XRC_SEND_ONLY = 0xa4 "XRC Send Only": Xrc Send Only [XrcEth],
    XRC_SEND_ONLY_WITH_IMMEDIATE = 0xa5 "XRC Send Only Immediate": Xrc Send Only [XrcEth ImmDt],
    XRC_RDMA_WRITE_FIRST = 0xa6 "XRC RDMA Write First": Xrc Write First [XrcEth Reth],
    XRC_RDMA_WRITE_MIDDLE = 0xa7 "XRC RDMA Write Middle": Xrc Write Middle [XrcEth],
    XRC_RDMA_WRITE_LAST = 0xa8 "XRC RDMA Write Last": Xrc Write Last [XrcEth],
    XRC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0xa9 "XRC RDMA Write Last Immediate": Xrc Write Last [XrcEth ImmDt],
    XRC_RDMA_WRITE_ONLY = 0xaa "XRC RDMA Write Only": Xrc Write Only [XrcEth Reth],
    XRC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0xab "XRC RDMA Write Only Immediate": Xrc Write Only [XrcEth Reth ImmDt],
    XRC_RDMA_READ_REQUEST = 0xac "XRC RDMA Read Request": Xrc ReadRequest Only [XrcEth Reth],
    XRC_RDMA_READ_RESPONSE_FIRST = 0xad "XRC RDMA Read Response First": Xrc ReadResponse First [Aeth],
    XRC_RDMA_READ_RESPONSE_MIDDLE = 0xae "XRC RDMA Read Response Middle": Xrc ReadResponse Middle [],
    XRC_RDMA_READ_RESPONSE_LAST = 0xaf "XRC RDMA Read Response Last": Xrc ReadResponse Last [Aeth],
    XRC_RDMA_READ_RESPONSE_ONLY = 0xb0 "XRC RDMA Read Response Only": Xrc ReadResponse Only [Aeth],
    XRC_ACKNOWLEDGE = 0xb1 "XRC Acknowledge": Xrc Acknowledge Only [Aeth],
    XRC_ATOMIC_ACKNOWLEDGE = 0xb2 "XRC Atomic Acknowledge": Xrc AtomicAcknowledge Only [Aeth AtomicAckEth],
    XRC_COMPARE_SWAP = 0xb3 "XRC Compare Swap": Xrc CompareSwap Only [XrcEth AtomicEth],
    XRC_FETCH_ADD = 0xb4 "XRC Fetch Add": Xrc FetchAdd Only [XrcEth AtomicEth],
    XRC_SEND_LAST_WITH_INVALIDATE = 0xb6 "XRC Send Last Invalidate": Xrc Send Last [XrcEth Ieth],
    XRC_SEND_ONLY_WITH_INVALIDATE = 0xb7 "XRC Send Only Invalidate": Xrc Send Only [XrcEth Ieth],
}

impl BthOpcode {
    /// Returns the properties of the opcode, or `None` if it is reserved or manufacturer-specific.
    #[inline(always)]
    pub fn properties(self) -> Option<&'static OpcodeProperties> {
        FORMS[usize::from(self.0)].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::ExtensionTransportHeader::*;
    use super::*;
    use crate::infiniband::{PacketError, PacketErrorKind};

    fn defined() -> impl Iterator<Item = BthOpcode> {
        (0..=u8::MAX).map(BthOpcode).filter(|opcode| opcode.properties().is_some())
    }

    fn headers(opcode: BthOpcode) -> Vec<ExtensionTransportHeader> {
        let headers = opcode.properties().unwrap().headers;
        let all = ExtensionTransportHeader::LENGTHS.map(|(header, _)| header);
        all.into_iter().filter(|header| headers.contains(*header)).collect()
    }

    #[test]
    fn the_upper_three_bits_are_the_service() {
        for opcode in defined() {
            let service = match opcode.0 >> 5 {
                0 => OpcodeService::Rc,
                1 => OpcodeService::Uc,
                2 => OpcodeService::Rd,
                3 => OpcodeService::Ud,
                4 => OpcodeService::Cnp,
                _ => OpcodeService::Xrc,
            };
            assert_eq!(opcode.properties().unwrap().service, service, "{opcode}");
        }
    }

    #[test]
    fn connected_services_share_the_lower_five_bits() {
        for opcode in defined().filter(|opcode| opcode.0 < 0x60 || opcode.0 >= 0xa0) {
            let (Some(form), Some(rc)) = (opcode.properties(), BthOpcode(opcode.0 & 0x1f).properties()) else {
                assert_eq!(opcode, BthOpcode::RD_RESYNC);
                continue;
            };
            assert_eq!((form.operation, form.position), (rc.operation, rc.position), "{opcode}");
            let request = !matches!(
                form.operation,
                PacketOperation::ReadResponse | PacketOperation::Acknowledge | PacketOperation::AtomicAcknowledge
            );
            let mut expected = rc.headers.0;
            match form.service {
                OpcodeService::Rd if request => expected |= Rdeth as u16 | Deth as u16,
                OpcodeService::Rd => expected |= Rdeth as u16,
                OpcodeService::Xrc if request => expected |= XrcEth as u16,
                _ => {}
            }
            assert_eq!(form.headers.0, expected, "{opcode}");
        }
    }

    #[test]
    fn headers_that_follow_each_operation_of_a_reliable_connection() {
        for (opcode, expected, length) in [
            (BthOpcode::RC_SEND_FIRST, &[][..], 0),
            (BthOpcode::RC_SEND_MIDDLE, &[], 0),
            (BthOpcode::RC_SEND_LAST, &[], 0),
            (BthOpcode::RC_SEND_LAST_WITH_IMMEDIATE, &[ImmDt], 4),
            (BthOpcode::RC_SEND_ONLY, &[], 0),
            (BthOpcode::RC_SEND_ONLY_WITH_IMMEDIATE, &[ImmDt], 4),
            (BthOpcode::RC_RDMA_WRITE_FIRST, &[Reth], 16),
            (BthOpcode::RC_RDMA_WRITE_MIDDLE, &[], 0),
            (BthOpcode::RC_RDMA_WRITE_LAST, &[], 0),
            (BthOpcode::RC_RDMA_WRITE_LAST_WITH_IMMEDIATE, &[ImmDt], 4),
            (BthOpcode::RC_RDMA_WRITE_ONLY, &[Reth], 16),
            (BthOpcode::RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE, &[Reth, ImmDt], 20),
            (BthOpcode::RC_RDMA_READ_REQUEST, &[Reth], 16),
            (BthOpcode::RC_RDMA_READ_RESPONSE_FIRST, &[Aeth], 4),
            (BthOpcode::RC_RDMA_READ_RESPONSE_MIDDLE, &[], 0),
            (BthOpcode::RC_RDMA_READ_RESPONSE_LAST, &[Aeth], 4),
            (BthOpcode::RC_RDMA_READ_RESPONSE_ONLY, &[Aeth], 4),
            (BthOpcode::RC_ACKNOWLEDGE, &[Aeth], 4),
            (BthOpcode::RC_ATOMIC_ACKNOWLEDGE, &[Aeth, AtomicAckEth], 12),
            (BthOpcode::RC_COMPARE_SWAP, &[AtomicEth], 28),
            (BthOpcode::RC_FETCH_ADD, &[AtomicEth], 28),
            (BthOpcode::RC_SEND_LAST_WITH_INVALIDATE, &[Ieth], 4),
            (BthOpcode::RC_SEND_ONLY_WITH_INVALIDATE, &[Ieth], 4),
            (BthOpcode::RC_FLUSH, &[Feth, Reth], 20),
            (BthOpcode::RC_ATOMIC_WRITE, &[Reth], 16),
        ] {
            assert_eq!(headers(opcode), expected, "{opcode}");
            assert_eq!(opcode.properties().unwrap().headers_length, length, "{opcode}");
        }
    }

    #[test]
    fn headers_of_the_other_services() {
        assert_eq!(headers(BthOpcode::UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE), [Reth, ImmDt]);
        assert_eq!(headers(BthOpcode::RD_SEND_FIRST), [Rdeth, Deth]);
        assert_eq!(headers(BthOpcode::RD_ATOMIC_ACKNOWLEDGE), [Rdeth, Aeth, AtomicAckEth]);
        assert_eq!(headers(BthOpcode::RD_RESYNC), [Rdeth, Deth]);
        assert_eq!(headers(BthOpcode::UD_SEND_ONLY), [Deth]);
        assert_eq!(headers(BthOpcode::UD_SEND_ONLY_WITH_IMMEDIATE), [Deth, ImmDt]);
        assert_eq!(headers(BthOpcode::XRC_RDMA_WRITE_FIRST), [XrcEth, Reth]);
        assert_eq!(headers(BthOpcode::XRC_ACKNOWLEDGE), [Aeth]);
        assert_eq!(headers(BthOpcode::CNP), []);
    }

    #[test]
    fn reserved_opcodes_have_no_form() {
        for code in [0x15, 0x18, 0x1f, 0x2c, 0x66, 0x80, 0x9f, 0xb8, 0xc0, 0xff] {
            assert_eq!(BthOpcode(code).properties(), None, "{code:#x}");
            let error = PacketError { kind: PacketErrorKind::Opcode(BthOpcode(code)), at: 7 };
            assert_eq!(error.to_string(), format!("unknown opcode {code:#04x} at byte 7"));
        }
    }

    #[test]
    fn names_are_tsharks() {
        assert_eq!(BthOpcode::RC_SEND_FIRST.name(), Some("RC Send First"));
        assert_eq!(BthOpcode::RC_SEND_FIRST.to_string(), "RC Send First");
        assert_eq!(BthOpcode::RC_RDMA_READ_RESPONSE_MIDDLE.to_string(), "RC RDMA Read Response Middle");
    }
}
