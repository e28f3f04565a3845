//! Names of protocol layers as in Wireshark, and the fields in their headings.

use nfsrdma_dissectors::field::FieldDefinition;
use nfsrdma_dissectors::infiniband::cm::{
    CmAlternatePathResponse, CmConnectionReply, CmConnectionRequest, CmDisconnectReply, CmDisconnectRequest,
    CmLoadAlternatePath, CmMessageReceiptAck, CmReadyToUse, CmReject, CmServiceIdResolutionReply,
    CmServiceIdResolutionRequest,
};
use nfsrdma_dissectors::infiniband::mad::MadHeader;
use nfsrdma_dissectors::infiniband::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Grh, INFINIBAND, Ieth, ImmDt, Lrh, Rdeth, Reth, XrcEth,
};
use nfsrdma_dissectors::iwarp::ddp::{DdpControl, Tagged, Untagged};
use nfsrdma_dissectors::iwarp::mpa::{FpduHeader, Marker, MpaEnhancedConnectionData, MpaReplyFrame, MpaRequestFrame};
use nfsrdma_dissectors::iwarp::rdmap::{
    OtherTerminate, RdmapAtomicRequestHeader, RdmapControl, RdmapImmediateData, RdmapInvalidateStag,
    RdmapReadRequestHeader, RdmapUntaggedReservedField, TerminateDdpSegmentLength,
};
use nfsrdma_dissectors::net::gre::{GRE, GreFlags};
use nfsrdma_dissectors::net::{
    Erf, Erspan2, ErspanPlatform, Ethernet, Ipv4, Ipv6, Ipv6Fragment, Loopback, Mpls, PseudowireChannel,
    PseudowireControl, Sll, Tcp, TcpFlagBits, Udp, Vlan, Vxlan,
};
use nfsrdma_dissectors::rpc::{CallBody, ReplyBody, RpcMsg, RpcMsgBody};
use nfsrdma_dissectors::rpcrdma::sigcomm2003_prototype::NfsRdmaPrototypeHeader;
use nfsrdma_dissectors::rpcrdma::version2::RpcRdma2Body;
use nfsrdma_dissectors::rpcrdma::{PrivateData, RdmaBody, RpcRdmaFixedFields, RpcRdmaVersionBody};

/// Heading of a layer.
struct LayerHeading {
    /// Filter name of the group.
    name: &'static str,
    title: &'static str,
    /// Labels of the most important fields, which the heading shows.
    summary: &'static [&'static str],
}

macro_rules! headings {
    ($($header:ident $title:literal [$($field:ident)*];)*) => {
        &[$(LayerHeading {
            name: $header::GROUP.name,
            title: $title,
            summary: &[$($header::FIELDS.$field.label),*],
        }),*]
    };
}

/// Layers that are one header.
const HEADERS: &[LayerHeading] = headings! {
    Ethernet "Ethernet II" [src dst];
    Vlan "802.1Q Virtual LAN" [id];
    Sll "Linux cooked capture" [];
    Loopback "Null/Loopback" [];
    Erf "Extensible Record Format" [];
    Ipv4 "Internet Protocol Version 4" [src dst];
    Ipv6 "Internet Protocol Version 6" [src dst];
    Ipv6Fragment "Fragment Header for IPv6" [];
    Udp "User Datagram Protocol" [srcport dstport];
    Tcp "Transmission Control Protocol" [srcport dstport seq];
    TcpFlagBits "Control Bits" [];
    GreFlags "Flags and Protocol Type" [proto];
    Erspan2 "Encapsulated Remote Switch Packet Analysis" [version spanid vlan];
    ErspanPlatform "Platform Specific SubHeader" [platid];
    Vxlan "Virtual eXtensible Local Area Network" [vni];
    Mpls "MultiProtocol Label Switching Header" [label bottom];
    PseudowireControl "PW Ethernet Control Word" [sequence_number];
    PseudowireChannel "PW Associated Channel Header" [channel_type];
    Lrh "Local Route Header" [slid dlid];
    Grh "Global Route Header" [sgid dgid];
    Bth "Base Transport Header" [opcode destqp psn];
    Rdeth "Reliable Datagram Extended Transport Header" [];
    Deth "Datagram Extended Transport Header" [srcqp];
    Reth "RDMA Extended Transport Header" [r_key dmalen];
    AtomicEth "Atomic Extended Transport Header" [];
    Aeth "ACK Extended Transport Header" [];
    AtomicAckEth "Atomic ACK Extended Transport Header" [];
    ImmDt "Immediate Data Extended Transport Header" [immediate];
    Ieth "Invalidate Extended Transport Header" [r_key];
    XrcEth "XRC Extended Transport Header" [];
    Feth "Flush Extended Transport Header" [];
    MadHeader "Management Datagram" [mgmtclass method];
    CmConnectionRequest "CM ConnectRequest" [local_comm_id local_qpn starting_psn];
    CmConnectionReply "CM ConnectReply" [remote_comm_id local_qpn starting_psn];
    CmMessageReceiptAck "CM MsgRcptAck" [remote_comm_id];
    CmReject "CM ConnectReject" [remote_comm_id reason];
    CmReadyToUse "CM ReadyToUse" [remote_comm_id];
    CmDisconnectRequest "CM DisconnectRequest" [remote_comm_id];
    CmDisconnectReply "CM DisconnectReply" [remote_comm_id];
    CmLoadAlternatePath "CM LoadAlternatePath" [remote_comm_id];
    CmAlternatePathResponse "CM AlternatePathResponse" [remote_comm_id];
    CmServiceIdResolutionRequest "CM ServiceIDResReq" [request_id];
    CmServiceIdResolutionReply "CM ServiceIDResReqResp" [request_id];
    MpaRequestFrame "MPA Request Frame" [markers crc rev];
    MpaReplyFrame "MPA Reply Frame" [markers crc rejected rev];
    MpaEnhancedConnectionData "Enhanced RDMA connection establishment data" [ird ord];
    Marker "MPA Marker" [fpduptr];
    FpduHeader "MPA FPDU" [ulpdu_length];
    DdpControl "DDP Control" [tagged last];
    Tagged "DDP Tagged" [stag offset];
    Untagged "DDP Untagged" [queue number offset];
    RdmapControl "RDMAP Control" [opcode];
    RdmapInvalidateStag "Invalidate STag" [stag];
    RdmapUntaggedReservedField "No Invalidate STag" [];
    RdmapReadRequestHeader "RDMA Read Request Header" [source_stag length];
    RdmapImmediateData "Immediate Data" [];
    RdmapAtomicRequestHeader "Atomic Header" [request_identifier];
    TerminateDdpSegmentLength "Terminated DDP segment" [length];
    PrivateData "RPC-over-RDMA private data" [];
    OtherTerminate "Terminate Control" [layer error_type code];
};

/// Layers of more than a header.
const MESSAGES: &[LayerHeading] = &[
    LayerHeading { name: GRE.name, title: "Generic Routing Encapsulation", summary: &[] },
    LayerHeading { name: INFINIBAND.name, title: "InfiniBand", summary: &[] },
    LayerHeading {
        name: RdmaBody::HEADER.name,
        title: "RPC over RDMA",
        summary: &[
            RpcRdmaFixedFields::FIELDS.rdma_xid.label,
            NfsRdmaPrototypeHeader::FIELDS.rc_xid.label,
            RdmaBody::TAG.label,
            RpcRdma2Body::TAG.label,
            RpcRdmaFixedFields::FIELDS.rdma_credit.label,
        ],
    },
    LayerHeading {
        name: RpcMsg::FIELD.name,
        title: "Remote Procedure Call",
        summary: &[
            RpcMsgBody::TAG.label,
            CallBody::FIELDS.prog.label,
            CallBody::FIELDS.vers.label,
            CallBody::FIELDS.proc.label,
            ReplyBody::TAG.label,
        ],
    },
];

/// Groups that exist only in the notation of the RFCs.
const WRAPPERS: [&str; 4] = [
    RpcMsg::FIELDS.body.name,
    RdmaBody::FIELD.name,
    NfsRdmaPrototypeHeader::FIELDS.rc_body.name,
    RpcRdma2Body::FIELD.name,
];

fn heading(field: &FieldDefinition) -> Option<&'static LayerHeading> {
    HEADERS.iter().chain(MESSAGES).find(|heading| heading.name == field.name)
}

/// Returns the title of a layer, or `None` if the group is not a layer.
pub(super) fn title(field: &FieldDefinition) -> Option<&'static str> {
    heading(field).map(|heading| heading.title)
}

/// Returns the labels of the fields that the heading shows.
pub(super) fn summary(field: &FieldDefinition) -> &'static [&'static str] {
    heading(field).map_or(&[], |heading| heading.summary)
}

/// Returns `true` for a group that exists only in the notation of an RFC.
pub(super) fn is_wrapper(field: &FieldDefinition) -> bool {
    WRAPPERS.contains(&field.name)
}
