//! Management datagrams: the common header and the management classes.

use super::opcode::OpcodeService;
use super::packet::InfinibandPacket;
use super::queue_pair_and_packet_numbers::Qpn;
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

crate::named! {
    /// Management class. InfiniBand Architecture Specification volume 1, section 13.4.
    pub struct MadManagementClass(u8) {
        SUBNET_LID_ROUTED = 0x01 "Subnet management",
        SUBNET_ADMINISTRATION = 0x03 "Subnet administration",
        PERFORMANCE = 0x04 "Performance management",
        BASEBOARD = 0x05 "Baseboard management",
        DEVICE = 0x06 "Device management",
        COMMUNICATION = 0x07 "Communication management",
        SNMP = 0x08 "SNMP tunneling",
        SUBNET_DIRECTED_ROUTE = 0x81 "Subnet management, directed route",
    }

    /// Method applied to the attribute; the highest bit marks a response. Section 13.4.
    pub struct MadMethod(u8) {
        GET = 0x01 "Get",
        SET = 0x02 "Set",
        SEND = 0x03 "Send",
        TRAP = 0x05 "Trap",
        REPORT = 0x06 "Report",
        TRAP_REPRESS = 0x07 "TrapRepress",
        GET_RESPONSE = 0x81 "GetResp",
        REPORT_RESPONSE = 0x86 "ReportResp",
    }
}

crate::number! {
    /// Transaction identifier, equal in request and response, 64 bits. Section 13.4.
    pub struct MadTransactionId(u64) as Hex(16);

    /// Attribute identifier; its meaning depends on the class.
    pub struct MadAttributeId(u16) as Hex(4);
}

crate::header! {
    /// Header of a management datagram. InfiniBand Architecture Specification volume 1, section 13.4.
    pub struct MadHeader [24] "infiniband.mad" {
        0..8 baseversion: u8 => "infiniband.mad.baseversion",
        8..16 mgmtclass: MadManagementClass => "infiniband.mad.mgmtclass",
        16..24 classversion: u8 => "infiniband.mad.classversion",
        24..32 method: MadMethod => "infiniband.mad.method",
        32..48 status: u16 => "infiniband.mad.status",
        48..64 classspecific: u16 => "infiniband.mad.classspecific",
        64..128 transactionid: MadTransactionId => "infiniband.mad.transactionid",
        128..144 attributeid: MadAttributeId => "infiniband.mad.attributeid",
        160..192 attributemodifier: u32 => "infiniband.mad.attributemodifier",
    }
}

/// A management datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mad<'a> {
    /// Header common to all classes.
    pub header: MadHeader,
    /// The 232 bytes of class data.
    pub data: CapturedSlice<'a>,
}

/// Length of a management datagram in bytes. Section 13.4.
const MAD_BYTES: usize = 256;

impl<'a> Mad<'a> {
    /// Decodes the management datagram in a packet: an Unreliable Datagram to queue pair 0 or 1. Returns `None` for any
    /// other packet, and if the capture ends within the header.
    pub fn from_packet<O: FieldObserver<'a>>(packet: &InfinibandPacket<'a>, observer: &mut O) -> Option<Self> {
        let to_management = matches!(packet.bth.destqp, Qpn::SUBNET_MANAGEMENT | Qpn::GENERAL_SERVICES);
        if packet.properties.service != OpcodeService::Ud || !to_management || packet.payload.length != MAD_BYTES {
            return None;
        }
        let (header, data) = MadHeader::decode_slice(packet.payload, observer)?;
        Some(Self { header, data })
    }
}
