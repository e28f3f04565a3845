//! Communication management: connection establishment and release between queue pairs. InfiniBand Architecture
//! Specification volume 1, section 12.6; with IP addresses: annex A11.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::headers::InfinibandQKey;
use super::mad::{Mad, MadAttributeId, MadManagementClass};
use super::queue_pair_and_packet_numbers::{PartitionKey, Psn, Qpn};
use crate::address::{Lid, Port};
use crate::captured_frame::CapturedSlice;
use crate::field::registry::{FieldRegistry, describe_headers};
use crate::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver, TypeErasedFieldObserver};

crate::number! {
    /// Local identifier of a connection at one of its ends, 32 bits. Section 12.6.3.
    pub struct CommunicationId(u32) as Hex(8);

    /// Identifier of the service to connect to, 64 bits. Section 12.6.5; for IP: annex A11.
    pub struct ServiceId(u64) as Hex(16);

    /// Globally unique identifier of an adapter, 64 bits.
    pub struct Guid(u64) as Hex(16);
}

crate::named! {
    /// Message type of communication management in a management datagram. Section 12.6.
    pub struct CmMessageType(u16) {
        CLASS_PORT_INFO = 0x0001 "ClassPortInfo",
        REQ = 0x0010 "ConnectRequest",
        MRA = 0x0011 "MsgRcptAck",
        REJ = 0x0012 "ConnectReject",
        REP = 0x0013 "ConnectReply",
        RTU = 0x0014 "ReadyToUse",
        DREQ = 0x0015 "DisconnectRequest",
        DREP = 0x0016 "DisconnectReply",
        SIDR_REQ = 0x0017 "ServiceIDResReq",
        SIDR_REP = 0x0018 "ServiceIDResReqResp",
        LAP = 0x0019 "LoadAlternatePath",
        APR = 0x001a "AlternatePathResponse",
    }

    /// Reason of a connection reject. Section 12.6.7.2.
    pub struct CmRejectReason(u16) {
        NO_QP = 1 "No QP available",
        NO_EEC = 2 "No EEC available",
        NO_RESOURCES = 3 "No resources available",
        TIMEOUT = 4 "Timeout",
        UNSUPPORTED_REQUEST = 5 "Unsupported request",
        INVALID_COMM_ID = 6 "Invalid communication ID",
        INVALID_COMM_INSTANCE = 7 "Invalid communication instance",
        INVALID_SERVICE_ID = 8 "Invalid service ID",
        INVALID_TRANSPORT = 9 "Invalid transport service type",
        STALE_CONNECTION = 10 "Stale connection",
        RDC_NOT_EXIST = 11 "RDC does not exist",
        PRIMARY_GID = 12 "Primary remote port GID rejected",
        PRIMARY_LID = 13 "Primary remote port LID rejected",
        PRIMARY_SL = 14 "Invalid primary SL",
        PRIMARY_TRAFFIC_CLASS = 15 "Invalid primary traffic class",
        PRIMARY_HOP_LIMIT = 16 "Invalid primary hop limit",
        PRIMARY_PACKET_RATE = 17 "Invalid primary packet rate",
        ALTERNATE_GID = 18 "Alternate remote port GID rejected",
        ALTERNATE_LID = 19 "Alternate remote port LID rejected",
        ALTERNATE_SL = 20 "Invalid alternate SL",
        ALTERNATE_TRAFFIC_CLASS = 21 "Invalid alternate traffic class",
        ALTERNATE_HOP_LIMIT = 22 "Invalid alternate hop limit",
        ALTERNATE_PACKET_RATE = 23 "Invalid alternate packet rate",
        PORT_AND_CM_REDIRECT = 24 "Port and CM redirection",
        PORT_REDIRECT = 25 "Port redirection",
        INVALID_MTU = 26 "Invalid path MTU",
        INSUFFICIENT_RESOURCES = 27 "Insufficient responder resources",
        CONSUMER = 28 "Consumer reject",
        RNR_RETRY_COUNT = 29 "RNR retry count reject",
        DUPLICATE_COMM_ID = 30 "Duplicate local communication ID",
        INVALID_CLASS_VERSION = 31 "Invalid class version",
        PRIMARY_FLOW_LABEL = 32 "Invalid primary flow label",
        ALTERNATE_FLOW_LABEL = 33 "Invalid alternate flow label",
        VENDOR_OPTION = 35 "Vendor option not supported",
    }

    /// Message that a REJ or MRA refers to. Sections 12.6.6 and 12.6.7.
    pub struct ReferencedCmMessageType(u8) {
        REQ = 0 "REQ",
        REP = 1 "REP",
        OTHER = 2 "other",
    }

    /// Status of an alternate path request. Section 12.8.2.
    pub struct AlternatePathStatus(u8) {
        LOADED = 0 "Alternate path information loaded",
        INVALID_COMM_INSTANCE = 1 "Invalid communication instance",
        NOT_SUPPORTED = 2 "Alternate paths not supported",
        REJECTED = 3 "Alternate path rejected",
        REDIRECT = 4 "Redirection",
        DUPLICATE = 5 "Proposed path matches current path",
        QPN_MISMATCH = 6 "QPN or EECN mismatch",
        INVALID_PATH = 7 "Invalid alternate path",
    }

    /// Status of a service ID resolution request. Section 12.11.2.
    pub struct SidrReplyStatus(u8) {
        VALID = 0 "QPN and QKey valid",
        NOT_SUPPORTED = 1 "Service ID not supported",
        REJECTED = 2 "Rejected by service provider",
        NO_QP = 3 "No QP available",
        REDIRECT = 4 "Redirection",
        VERSION = 5 "Version not supported",
    }

    /// Path MTU. Section 12.6.5.
    pub struct PathMtu(u8) {
        B256 = 1 "256",
        B512 = 2 "512",
        B1024 = 3 "1024",
        B2048 = 4 "2048",
        B4096 = 5 "4096",
    }

    /// Transport service of the connection. Section 12.6.5.
    pub struct CmTransportServiceType(u8) {
        RC = 0 "RC",
        UC = 1 "UC",
        RD = 2 "RD",
        EXTENDED = 3 "extended",
    }

    /// Port space of a service ID that identifies an IP port: the IP protocol number. Annex A11.
    pub struct PortSpace(u8) {
        TCP = 0x06 "TCP",
        UDP = 0x11 "UDP",
        SCTP = 0x84 "SCTP",
    }
}

crate::header! {
    /// REQ: request for communication, up to its private data. Section 12.6.5.
    pub struct CmConnectionRequest [140] "infiniband.cm.req" {
        /// The client's identifier of the connection.
        0..32 local_comm_id: CommunicationId => "infiniband.cm.req",
        64..128 service_id: ServiceId => "infiniband.cm.req.serviceid",
        128..192 local_ca_guid: Guid => "infiniband.cm.req.localcaguid",
        224..256 local_q_key: InfinibandQKey => "infiniband.cm.req.localqkey",
        /// The client's queue pair, the destination of the server's packets.
        256..280 local_qpn: Qpn => "infiniband.cm.req.localqpn",
        /// Maximum number of concurrent RDMA Reads that the client accepts.
        280..288 responder_resources: u8 => "infiniband.cm.req.responderres",
        288..312 local_eecn: u32 => "infiniband.cm.req.localeecn",
        /// Maximum number of concurrent RDMA Reads that the client issues.
        312..320 initiator_depth: u8 => "infiniband.cm.req.initdepth",
        320..344 remote_eecn: u32 => "infiniband.cm.req.remoteeecn",
        /// Exponent of the timeout: 4.096 microseconds times two to this power, as in all CM timeouts.
        344..349 remote_response_timeout: u8 => "infiniband.cm.req.remoteresptout",
        349..351 transport_service: CmTransportServiceType => "infiniband.cm.req.transpsvctype",
        351..352 end_to_end_flow_control: bool => "infiniband.cm.req.e2eflowctrl",
        /// First packet sequence number that the client sends.
        352..376 starting_psn: Psn => "infiniband.cm.req.startpsn",
        376..381 local_response_timeout: u8 => "infiniband.cm.req.localresptout",
        381..384 retry_count: u8 => "infiniband.cm.req.retrcount",
        384..400 pkey: PartitionKey => "infiniband.cm.req.pkey",
        400..404 path_mtu: PathMtu => "infiniband.cm.req.pppmtu",
        404..405 rdc_exists: bool => "infiniband.cm.req.rdcexist",
        405..408 rnr_retry_count: u8 => "infiniband.cm.req.rnrretrcount",
        408..412 max_cm_retries: u8 => "infiniband.cm.req.maxcmretr",
        412..413 srq: bool => "infiniband.cm.req.srq",
        413..416 extended_transport: u8 => "infiniband.cm.req.ext_transport",
        416..432 primary_local_lid: Lid => "infiniband.cm.req.prim_locallid",
        432..448 primary_remote_lid: Lid => "infiniband.cm.req.prim_remotelid",
        448..576 primary_local_gid: Ipv6Addr => "infiniband.cm.req.prim_localgid",
        576..704 primary_remote_gid: Ipv6Addr => "infiniband.cm.req.prim_remotegid",
        704..724 primary_flow_label: u32 => "infiniband.cm.req.prim_flowlabel",
        730..736 primary_packet_rate: u8 => "infiniband.cm.req.prim_pktrate",
        736..744 primary_traffic_class: u8 => "infiniband.cm.req.prim_tfcclass",
        744..752 primary_hop_limit: u8 => "infiniband.cm.req.prim_hoplim",
        752..756 primary_sl: u8 => "infiniband.cm.req.prim_sl",
        756..757 primary_subnet_local: bool => "infiniband.cm.req.prim_subnetlocal",
        760..765 primary_ack_timeout: u8 => "infiniband.cm.req.prim_localacktout",
        768..784 alternate_local_lid: Lid => "infiniband.cm.req.alt_locallid",
        784..800 alternate_remote_lid: Lid => "infiniband.cm.req.alt_remotelid",
        800..928 alternate_local_gid: Ipv6Addr => "infiniband.cm.req.alt_localgid",
        928..1056 alternate_remote_gid: Ipv6Addr => "infiniband.cm.req.alt_remotegid",
        1056..1076 alternate_flow_label: u32 => "infiniband.cm.req.alt_flowlabel",
        1082..1088 alternate_packet_rate: u8 => "infiniband.cm.req.alt_pktrate",
        1088..1096 alternate_traffic_class: u8 => "infiniband.cm.req.alt_tfcclass",
        1096..1104 alternate_hop_limit: u8 => "infiniband.cm.req.alt_hoplim",
        1104..1108 alternate_sl: u8 => "infiniband.cm.req.alt_sl",
        1108..1109 alternate_subnet_local: bool => "infiniband.cm.req.alt_subnetlocal",
        1112..1117 alternate_ack_timeout: u8 => "infiniband.cm.req.alt_localacktout",
    }

    /// Service ID that identifies an IP port. Annex A11.
    pub struct IpServiceId [8] "infiniband.cm.req.serviceid" {
        /// The constant 1.
        0..40 prefix: u64 => "infiniband.cm.req.serviceid.prefix",
        40..48 protocol: PortSpace => "infiniband.cm.req.serviceid.protocol",
        48..64 dport: Port => "infiniband.cm.req.serviceid.dport",
    }

    /// IP addresses in front of the private data of a REQ: versions. Annex A11.
    pub struct IpCmVersionAndPort [4] "infiniband.cm.req.ip_cm" {
        0..4 major: u8 => "infiniband.cm.req.ip_cm.majv",
        4..8 minor: u8 => "infiniband.cm.req.ip_cm.minv",
        /// IP version, 4 or 6.
        8..12 ip: u8 => "infiniband.cm.req.ip_cm.ipv",
        16..32 sport: Port => "infiniband.cm.req.ip_cm.sport",
    }

    /// IPv4 addresses after the versions, in the last four bytes of each 16-byte address. Annex A11.
    pub struct CmPrivateDataIpv4Addresses [32] "infiniband.cm.req.ip_cm" {
        96..128 source: Ipv4Addr => "infiniband.cm.req.ip_cm.sip4",
        224..256 destination: Ipv4Addr => "infiniband.cm.req.ip_cm.dip4",
    }

    /// IPv6 addresses after the versions. Annex A11.
    pub struct CmPrivateDataIpv6Addresses [32] "infiniband.cm.req.ip_cm" {
        0..128 source: Ipv6Addr => "infiniband.cm.req.ip_cm.sip6",
        128..256 destination: Ipv6Addr => "infiniband.cm.req.ip_cm.dip6",
    }

    /// MRA: message receipt acknowledgement, which extends the sender's timeout. Section 12.6.6.
    pub struct CmMessageReceiptAck [10] "infiniband.cm.mra" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.mra.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.mra.remotecommid",
        64..66 message: ReferencedCmMessageType => "infiniband.cm.mra.msgmraed",
        72..77 service_timeout: u8 => "infiniband.cm.mra.svctimeout",
    }

    /// REJ: connection reject, up to its additional information. Section 12.6.7.
    pub struct CmReject [12] "infiniband.cm.rej" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.rej.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.rej.remotecommid",
        64..66 message: ReferencedCmMessageType => "infiniband.cm.rej.msgrej",
        /// Number of valid bytes of the additional information.
        72..79 info_length: u8 => "infiniband.cm.rej.rejinfolen",
        80..96 reason: CmRejectReason => "infiniband.cm.rej.reason",
    }

    /// REP: connection reply, up to its private data. Section 12.6.8.
    pub struct CmConnectionReply [36] "infiniband.cm.rep" {
        /// The server's identifier of the connection.
        0..32 local_comm_id: CommunicationId => "infiniband.cm.rep",
        /// The client's identifier of the connection.
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.rep.remotecommid",
        64..96 local_q_key: InfinibandQKey => "infiniband.cm.rep.localqkey",
        /// The server's queue pair, the destination of the client's packets.
        96..120 local_qpn: Qpn => "infiniband.cm.rep.localqpn",
        128..152 local_eecn: u32 => "infiniband.cm.rep.localeecn",
        /// First packet sequence number that the server sends.
        160..184 starting_psn: Psn => "infiniband.cm.rep.startpsn",
        192..200 responder_resources: u8 => "infiniband.cm.rep.respres",
        200..208 initiator_depth: u8 => "infiniband.cm.rep.initdepth",
        208..213 target_ack_delay: u8 => "infiniband.cm.rep.tgtackdelay",
        213..215 failover_accepted: u8 => "infiniband.cm.rep.failoveracc",
        215..216 end_to_end_flow_control: bool => "infiniband.cm.rep.e2eflowctrl",
        216..219 rnr_retry_count: u8 => "infiniband.cm.rep.rnrretrcount",
        219..220 srq: bool => "infiniband.cm.rep.srq",
        224..288 local_ca_guid: Guid => "infiniband.cm.rep.localcaguid",
    }

    /// RTU: the connection is ready to use. Section 12.6.9.
    pub struct CmReadyToUse [8] "infiniband.cm.rtu" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.rtu.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.rtu.remotecommid",
    }

    /// DREQ: disconnect request. Section 12.6.10.
    pub struct CmDisconnectRequest [12] "infiniband.cm.dreq" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.dreq.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.dreq.remotecommid",
        /// Queue pair of the receiver of this message.
        64..88 remote_qpn: Qpn => "infiniband.cm.req.remoteqpneecn",
    }

    /// DREP: disconnect reply. Section 12.6.11.
    pub struct CmDisconnectReply [8] "infiniband.cm.drsp" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.drsp.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.drsp.remotecommid",
    }

    /// LAP: request to load an alternate path. Section 12.8.1.
    pub struct CmLoadAlternatePath [64] "infiniband.cm.lap" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.lap.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.lap.remotecommid",
        96..120 remote_qpn: Qpn => "infiniband.cm.lap.remoteqpneecn",
        120..125 remote_response_timeout: u8 => "infiniband.cm.lap.remoteresptout",
        160..176 local_lid: Lid => "infiniband.cm.lap.alt_locallid",
        176..192 remote_lid: Lid => "infiniband.cm.lap.alt_remotelid",
        192..320 local_gid: Ipv6Addr => "infiniband.cm.lap.alt_localgid",
        320..448 remote_gid: Ipv6Addr => "infiniband.cm.lap.alt_remotegid",
        448..468 flow_label: u32 => "infiniband.cm.lap.alt_flowlabel",
        472..480 traffic_class: u8 => "infiniband.cm.lap.alt_tfcclass",
        480..488 hop_limit: u8 => "infiniband.cm.lap.alt_hoplim",
        490..496 packet_rate: u8 => "infiniband.cm.lap.alt_pktrate",
        496..500 sl: u8 => "infiniband.cm.lap.alt_sl",
        500..501 subnet_local: bool => "infiniband.cm.lap.alt_subnetlocal",
        504..509 ack_timeout: u8 => "infiniband.cm.lap.alt_localacktout",
    }

    /// APR: response to a LAP, up to its additional information. Section 12.8.2.
    pub struct CmAlternatePathResponse [12] "infiniband.cm.apr" {
        0..32 local_comm_id: CommunicationId => "infiniband.cm.apr.localcommid",
        32..64 remote_comm_id: CommunicationId => "infiniband.cm.apr.remotecommid",
        /// Number of valid bytes of the additional information.
        64..72 info_length: u8 => "infiniband.cm.apr.infolen",
        72..80 status: AlternatePathStatus => "infiniband.cm.apr.status",
    }

    /// SIDR_REQ: service ID resolution request. Section 12.11.1.
    pub struct CmServiceIdResolutionRequest [16] "infiniband.cm.sidrreq" {
        0..32 request_id: CommunicationId => "infiniband.cm.sidrreq.requestid",
        32..48 pkey: PartitionKey => "infiniband.cm.sidrreq.pkey",
        64..128 service_id: ServiceId => "infiniband.cm.sidrreq.serviceid",
    }

    /// SIDR_REP: service ID resolution response, up to its additional information. Section 12.11.2.
    pub struct CmServiceIdResolutionReply [24] "infiniband.cm.sidrrep" {
        0..32 request_id: CommunicationId => "infiniband.cm.sidrrep.requestid",
        32..40 status: SidrReplyStatus => "infiniband.cm.sidrrep.status",
        /// Number of valid bytes of the additional information.
        40..48 info_length: u8 => "infiniband.cm.sidrrep.infolen",
        64..88 qpn: Qpn => "infiniband.cm.sidrrep.qpn",
        96..160 service_id: ServiceId => "infiniband.cm.sidrrep.serviceid",
        160..192 q_key: InfinibandQKey => "infiniband.cm.sidrrep.qkey",
    }
}

/// IP addresses and ports of a connection request. Annex A11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmRequestIpEndpoints {
    /// Port space of both ports.
    pub space: PortSpace,
    /// Client address.
    pub source: IpAddr,
    /// Client port.
    pub source_port: Port,
    /// Server address.
    pub destination: IpAddr,
    /// Server port; 20049 for NFS.
    pub destination_port: Port,
}

/// A communication management message.
///
/// The slices are the additional information, if the message has any, and the private data of the consumers. Private
/// data has its full fixed length; the sender chooses the fill bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmMessage<'a> {
    /// REQ. The private data begins after the IP addresses, if there are any.
    Request(CmConnectionRequest, Option<CmRequestIpEndpoints>, CapturedSlice<'a>),
    /// MRA.
    ReceiptAck(CmMessageReceiptAck, CapturedSlice<'a>),
    /// REJ.
    Reject(CmReject, CapturedSlice<'a>, CapturedSlice<'a>),
    /// REP.
    Reply(CmConnectionReply, CapturedSlice<'a>),
    /// RTU.
    ReadyToUse(CmReadyToUse, CapturedSlice<'a>),
    /// DREQ.
    DisconnectRequest(CmDisconnectRequest, CapturedSlice<'a>),
    /// DREP.
    DisconnectReply(CmDisconnectReply, CapturedSlice<'a>),
    /// LAP.
    LoadPath(CmLoadAlternatePath, CapturedSlice<'a>),
    /// APR.
    PathReply(CmAlternatePathResponse, CapturedSlice<'a>, CapturedSlice<'a>),
    /// SIDR_REQ.
    ServiceRequest(CmServiceIdResolutionRequest, CapturedSlice<'a>),
    /// SIDR_REP.
    ServiceReply(CmServiceIdResolutionReply, CapturedSlice<'a>, CapturedSlice<'a>),
    /// The capture ends within the fixed part of the message: its data so far, which
    /// [`CmConnectionRequest::decode_part`] and
    /// [`CmConnectionReply::decode_part`] decode.
    Cut(CmMessageType, CapturedSlice<'a>),
    /// A message type that is not decoded.
    Unknown(CmMessageType),
}

/// Length of the additional information of REJ, APR and SIDR_REP in bytes.
const ADDITIONAL_INFO_BYTES: usize = 72;

/// Length of the IP addresses in front of the private data in bytes. Annex A11.
const IP_ADDRESSES_BYTES: usize = IpCmVersionAndPort::LENGTH + CmPrivateDataIpv4Addresses::LENGTH;

/// Offset of the service ID in a REQ.
const SERVICE_ID_OFFSET: usize = 8;

macro_rules! opaque_fields {
    ($($name:ident = $filter:literal $label:literal, $doc:literal;)*) => {
        crate::field::fields! { $($name = $filter $label Bytes, $doc;)* }
        const OPAQUE_FIELDS: &[&FieldDefinition] = &[$(&$name),*];
    };
}
opaque_fields! {
    REJ_INFORMATION = "infiniband.cm.rej.ari" "ARI", "Additional reject information. Section 12.6.7.2.";
    APR_INFORMATION = "infiniband.cm.apr.info" "AdditionalInfo", "Additional information. Section 12.8.2.";
    SIDR_REP_INFORMATION = "infiniband.cm.sidrrep.info" "AdditionalInfo", "Additional information. Section 12.11.2.";
    REQ_PRIVATE = "infiniband.cm.req.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    IP_PRIVATE = "infiniband.cm.req.ip_cm.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    MRA_PRIVATE = "infiniband.cm.mra.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    REJ_PRIVATE = "infiniband.cm.rej.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    REP_PRIVATE = "infiniband.cm.rep.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    RTU_PRIVATE = "infiniband.cm.rtu.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    DREQ_PRIVATE = "infiniband.cm.dreq.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    DREP_PRIVATE = "infiniband.cm.drsp.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    LAP_PRIVATE = "infiniband.cm.lap.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    APR_PRIVATE = "infiniband.cm.apr.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    SIDR_REQ_PRIVATE = "infiniband.cm.sidrreq.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
    SIDR_REP_PRIVATE = "infiniband.cm.sidrrep.private" "PrivateData", "Private data of the consumer. Section 12.6.3.";
}

/// Adds the fields of communication management to a registry.
pub(super) fn describe(registry: &mut FieldRegistry) {
    describe_headers!(registry; CmConnectionRequest, IpServiceId, IpCmVersionAndPort, CmPrivateDataIpv4Addresses, CmPrivateDataIpv6Addresses, CmMessageReceiptAck);
    describe_headers!(registry; CmReject, CmConnectionReply, CmReadyToUse, CmDisconnectRequest, CmDisconnectReply, CmLoadAlternatePath);
    describe_headers!(registry; CmAlternatePathResponse, CmServiceIdResolutionRequest, CmServiceIdResolutionReply);
    OPAQUE_FIELDS.iter().for_each(|field| registry.field(field));
}

/// Reports opaque bytes and returns them.
fn report_bytes<'a, O: FieldObserver<'a>>(
    field: &'static FieldDefinition,
    data: CapturedSlice<'a>,
    observer: &mut O,
) -> CapturedSlice<'a> {
    if O::is_enabled() && !data.bytes.is_empty() {
        observer.value(field, data.range(), FieldValue::Bytes(data.bytes));
    }
    data
}

impl<'a> CmMessage<'a> {
    /// Decodes the message of a management datagram. Returns `None` if the datagram is of another class.
    pub fn decode<O: FieldObserver<'a>>(mad: &Mad<'a>, observer: &mut O) -> Option<Self> {
        match O::ignores_all() {
            true => Self::decode_with(mad, &mut NullFieldObserver),
            false => Self::report(mad, &mut TypeErasedFieldObserver::new(observer)),
        }
    }

    fn report(mad: &Mad<'a>, observer: &mut TypeErasedFieldObserver<'_, 'a>) -> Option<Self> {
        Self::decode_with(mad, observer)
    }

    fn decode_with<O: FieldObserver<'a>>(mad: &Mad<'a>, observer: &mut O) -> Option<Self> {
        if mad.header.mgmtclass != MadManagementClass::COMMUNICATION {
            return None;
        }
        let MadAttributeId(number) = mad.header.attributeid;
        let attribute = CmMessageType(number);
        Some(Self::decode_attribute(attribute, mad.data, observer).unwrap_or(Self::Cut(attribute, mad.data)))
    }

    fn decode_attribute<O: FieldObserver<'a>>(
        attribute: CmMessageType,
        data: CapturedSlice<'a>,
        observer: &mut O,
    ) -> Option<Self> {
        /// Decodes a message of a fixed part and private data.
        macro_rules! plain {
            ($variant:ident, $message:ident, $private:ident) => {{
                let (header, rest) = $message::decode_slice(data, observer)?;
                Self::$variant(header, report_bytes(&$private, rest, observer))
            }};
        }
        /// Decodes a message with additional information between the fixed part and the private data.
        macro_rules! informed {
            ($variant:ident, $message:ident, $information:ident, $private:ident) => {{
                let (header, rest) = $message::decode_slice(data, observer)?;
                let information = report_bytes(&$information, rest.with_length(ADDITIONAL_INFO_BYTES), observer);
                let private = report_bytes(&$private, rest.skip_bytes(ADDITIONAL_INFO_BYTES), observer);
                Self::$variant(header, information, private)
            }};
        }
        Some(match attribute {
            CmMessageType::REQ => return decode_request(data, observer),
            CmMessageType::MRA => plain!(ReceiptAck, CmMessageReceiptAck, MRA_PRIVATE),
            CmMessageType::REJ => informed!(Reject, CmReject, REJ_INFORMATION, REJ_PRIVATE),
            CmMessageType::REP => plain!(Reply, CmConnectionReply, REP_PRIVATE),
            CmMessageType::RTU => plain!(ReadyToUse, CmReadyToUse, RTU_PRIVATE),
            CmMessageType::DREQ => plain!(DisconnectRequest, CmDisconnectRequest, DREQ_PRIVATE),
            CmMessageType::DREP => plain!(DisconnectReply, CmDisconnectReply, DREP_PRIVATE),
            CmMessageType::LAP => plain!(LoadPath, CmLoadAlternatePath, LAP_PRIVATE),
            CmMessageType::APR => informed!(PathReply, CmAlternatePathResponse, APR_INFORMATION, APR_PRIVATE),
            CmMessageType::SIDR_REQ => plain!(ServiceRequest, CmServiceIdResolutionRequest, SIDR_REQ_PRIVATE),
            CmMessageType::SIDR_REP => {
                informed!(ServiceReply, CmServiceIdResolutionReply, SIDR_REP_INFORMATION, SIDR_REP_PRIVATE)
            }
            other => Self::Unknown(other),
        })
    }

    /// Returns the private data, or `None` if the message is truncated or unknown.
    pub fn private_data(&self) -> Option<CapturedSlice<'a>> {
        match *self {
            Self::Request(_, _, private)
            | Self::ReceiptAck(_, private)
            | Self::Reject(_, _, private)
            | Self::Reply(_, private)
            | Self::ReadyToUse(_, private)
            | Self::DisconnectRequest(_, private)
            | Self::DisconnectReply(_, private)
            | Self::LoadPath(_, private)
            | Self::PathReply(_, _, private)
            | Self::ServiceRequest(_, private)
            | Self::ServiceReply(_, _, private) => Some(private),
            Self::Cut(..) | Self::Unknown(_) => None,
        }
    }
}

fn decode_request<'a, O: FieldObserver<'a>>(data: CapturedSlice<'a>, observer: &mut O) -> Option<CmMessage<'a>> {
    let (request, private) = CmConnectionRequest::decode_slice(data, observer)?;
    let ends = request
        .service_id
        .ip_port()
        .and_then(|(space, port)| decode_ip_ends(space, port, data.skip_bytes(SERVICE_ID_OFFSET), private, observer));
    let (field, private) = match ends {
        Some(_) => (&IP_PRIVATE, private.skip_bytes(IP_ADDRESSES_BYTES)),
        None => (&REQ_PRIVATE, private),
    };
    Some(CmMessage::Request(request, ends, report_bytes(field, private, observer)))
}

impl ServiceId {
    /// Returns the IP port of the service ID, or `None` if it is not an IP service ID. Annex A11.
    pub fn ip_port(self) -> Option<(PortSpace, Port)> {
        let bytes = self.0.to_be_bytes();
        let (header, _) = IpServiceId::decode(&bytes, 0, &mut NullFieldObserver)?;
        (header.prefix == 1).then_some((header.protocol, header.dport))
    }
}

/// Decodes the IP addresses in front of the private data. Returns `None` if there are none, according to the versions.
fn decode_ip_ends<'a, O: FieldObserver<'a>>(
    space: PortSpace,
    destination_port: Port,
    service_id: CapturedSlice<'a>,
    private: CapturedSlice<'a>,
    observer: &mut O,
) -> Option<CmRequestIpEndpoints> {
    let (versions, addresses) = IpCmVersionAndPort::decode_slice(private, &mut NullFieldObserver)?;
    if versions.major != 0 || !matches!(versions.ip, 4 | 6) || private.bytes.len() < IP_ADDRESSES_BYTES {
        return None;
    }
    if O::is_enabled() {
        IpServiceId::decode_slice(service_id, observer);
        IpCmVersionAndPort::decode_slice(private, observer);
    }
    let (source, destination) = if versions.ip == 4 {
        let (ends, _) = CmPrivateDataIpv4Addresses::decode_slice(addresses, observer)?;
        (IpAddr::V4(ends.source), IpAddr::V4(ends.destination))
    } else {
        let (ends, _) = CmPrivateDataIpv6Addresses::decode_slice(addresses, observer)?;
        (IpAddr::V6(ends.source), IpAddr::V6(ends.destination))
    };
    Some(CmRequestIpEndpoints { space, source, source_port: versions.sport, destination, destination_port })
}

#[cfg(test)]
mod tests;
