//! Names of protocol layers as in Wireshark, and the fields in their headings.

use nfsrdma_dissectors::field::FieldDefinition;

/// Filter name of the group, title, and labels of the most important fields.
const LAYERS: &[(&str, &str, &[&str])] = &[
    ("eth", "Ethernet II", &["src", "dst"]),
    ("vlan", "802.1Q Virtual LAN", &["id"]),
    ("sll", "Linux cooked capture", &[]),
    ("null", "Null/Loopback", &[]),
    ("erf", "Extensible Record Format", &[]),
    ("ip", "Internet Protocol Version 4", &["src", "dst"]),
    ("ipv6", "Internet Protocol Version 6", &["src", "dst"]),
    ("ipv6.fraghdr", "Fragment Header for IPv6", &[]),
    ("udp", "User Datagram Protocol", &["srcport", "dstport"]),
    ("tcp", "Transmission Control Protocol", &["srcport", "dstport", "seq"]),
    ("tcp.flags", "Control Bits", &[]),
    ("gre", "Generic Routing Encapsulation", &[]),
    ("gre.flags_and_version", "Flags and Protocol Type", &["proto"]),
    ("erspan", "Encapsulated Remote Switch Packet Analysis", &["version", "spanid", "vlan"]),
    ("erspan.platform", "Platform Specific SubHeader", &["platid"]),
    ("vxlan", "Virtual eXtensible Local Area Network", &["vni"]),
    ("mpls", "MultiProtocol Label Switching Header", &["label", "bottom"]),
    ("pweth", "PW Ethernet Control Word", &["sequence_number"]),
    ("pwach", "PW Associated Channel Header", &["channel_type"]),
    ("infiniband", "InfiniBand", &[]),
    ("infiniband.lrh", "Local Route Header", &["slid", "dlid"]),
    ("infiniband.grh", "Global Route Header", &["sgid", "dgid"]),
    ("infiniband.bth", "Base Transport Header", &["opcode", "destqp", "psn"]),
    ("infiniband.rdeth", "Reliable Datagram Extended Transport Header", &[]),
    ("infiniband.deth", "Datagram Extended Transport Header", &["srcqp"]),
    ("infiniband.reth", "RDMA Extended Transport Header", &["r_key", "dmalen"]),
    ("infiniband.atomiceth", "Atomic Extended Transport Header", &[]),
    ("infiniband.aeth", "ACK Extended Transport Header", &[]),
    ("infiniband.atomicacketh", "Atomic ACK Extended Transport Header", &[]),
    ("infiniband.immdt", "Immediate Data Extended Transport Header", &["immediate"]),
    ("infiniband.ieth", "Invalidate Extended Transport Header", &["r_key"]),
    ("infiniband.xrceth", "XRC Extended Transport Header", &[]),
    ("infiniband.feth", "Flush Extended Transport Header", &[]),
    ("infiniband.mad", "Management Datagram", &["mgmtclass", "method"]),
    ("infiniband.cm.req", "CM ConnectRequest", &["local_comm_id", "local_qpn", "starting_psn"]),
    ("infiniband.cm.rep", "CM ConnectReply", &["remote_comm_id", "local_qpn", "starting_psn"]),
    ("infiniband.cm.mra", "CM MsgRcptAck", &["remote_comm_id"]),
    ("infiniband.cm.rej", "CM ConnectReject", &["remote_comm_id", "reason"]),
    ("infiniband.cm.rtu", "CM ReadyToUse", &["remote_comm_id"]),
    ("infiniband.cm.dreq", "CM DisconnectRequest", &["remote_comm_id"]),
    ("infiniband.cm.drsp", "CM DisconnectReply", &["remote_comm_id"]),
    ("infiniband.cm.lap", "CM LoadAlternatePath", &["remote_comm_id"]),
    ("infiniband.cm.apr", "CM AlternatePathResponse", &["remote_comm_id"]),
    ("infiniband.cm.sidrreq", "CM ServiceIDResReq", &["request_id"]),
    ("infiniband.cm.sidrrep", "CM ServiceIDResReqResp", &["request_id"]),
    ("iwarp_mpa.req", "MPA Request Frame", &["markers", "crc", "rev"]),
    ("iwarp_mpa.rep", "MPA Reply Frame", &["markers", "crc", "rejected", "rev"]),
    ("iwarp_mpa.enhanced", "Enhanced RDMA connection establishment data", &["ird", "ord"]),
    ("iwarp_mpa.markers", "MPA Marker", &["fpduptr"]),
    ("iwarp_mpa.fpdu", "MPA FPDU", &["ulpdu_length"]),
    ("iwarp_ddp.control_field", "DDP Control", &["tagged", "last"]),
    ("iwarp_ddp.tagged", "DDP Tagged", &["stag", "offset"]),
    ("iwarp_ddp.untagged", "DDP Untagged", &["queue", "number", "offset"]),
    ("iwarp_rdma.control_field", "RDMAP Control", &["opcode"]),
    ("iwarp_rdma.invalidate", "Invalidate STag", &["stag"]),
    ("iwarp_rdma.not_invalidate", "No Invalidate STag", &[]),
    ("iwarp_rdma.rr", "RDMA Read Request Header", &["source_stag", "length"]),
    ("iwarp_rdma.immediate", "Immediate Data", &[]),
    ("iwarp_rdma.atomic", "Atomic Header", &["request_identifier"]),
    ("iwarp_rdma.term_ctrl", "Terminate Control", &["layer", "error_type", "code"]),
    ("iwarp_rdma.terminate", "Terminated DDP segment", &["length"]),
    ("rpcordma", "RPC over RDMA", &["rdma_xid", "rc_xid", "proc", "htype", "rdma_credit"]),
    ("rpcordma.private_data", "RPC-over-RDMA private data", &[]),
    ("rpc", "Remote Procedure Call", &["mtype", "prog", "vers", "proc", "stat"]),
];

/// Returns the title of a layer, or `None` if the group is no layer.
pub(super) fn title(field: &FieldDefinition) -> Option<&'static str> {
    LAYERS.iter().find(|(name, ..)| *name == field.name).map(|(_, title, _)| *title)
}

/// Returns the labels of the fields that the heading shows.
pub(super) fn summary(field: &FieldDefinition) -> &'static [&'static str] {
    LAYERS.iter().find(|(name, ..)| *name == field.name).map_or(&[], |(.., fields)| fields)
}

/// Returns `true` for a group that exists only in the notation of the RFC.
pub(super) fn is_wrapper(field: &FieldDefinition) -> bool {
    matches!(field.name, "rpc.body" | "rpcordma.body" | "rpcordma.prototype_body" | "rpcordma.v2_body")
}
