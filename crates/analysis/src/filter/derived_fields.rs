//! Generated fields: properties of frames and Transactions that no structure on the wire has, and aliases of other
//! fields.
//!
//! A field that Wireshark has too has Wireshark's name. All others begin with `nfsrdma.`.

use std::fmt::{self, Display, Formatter};

use nfsrdma_dissectors::field_names;

use super::filter_type::FilterType;

/// Sources of definitions.
const CAPTURE: &str = "the capture file";
const LINES: &str = "docs/transaction.schema.json";

/// Name, type, description and source of a generated field.
pub type DerivedFieldDescriptor = (&'static str, FilterType, &'static str, &'static str);

macro_rules! facts {
    ($fields:ident; $($(#[doc = $group_doc:literal])+ $group:ident: $($fact:ident $name:literal $kind:ident, $about:literal, $source:expr;)*)*) => {
        /// A generated field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $fields {
            $($(#[doc = $about] $fact,)*)*
        }

        impl $fields {
            /// All generated fields.
            pub const ALL: &'static [Self] = &[$($(Self::$fact,)*)*];
            $($(#[doc = $group_doc])+ pub const $group: &'static [Self] = &[$(Self::$fact),*];)*

            /// Returns the description.
            pub const fn description(self) -> DerivedFieldDescriptor {
                match self {
                    $($(Self::$fact => ($name, FilterType::$kind, $about, $source),)*)*
                }
            }
        }
    };
}

facts! { GeneratedField;
    /// Properties of every frame.
    FRAME:
    Frame "frame" Protocol, "The whole frame as it was captured", CAPTURE;
    Number "frame.number" Unsigned, "Number of the frame, from 1, over all input", CAPTURE;
    Time "frame.time" Time, "Time of capture of the frame", CAPTURE;
    TimeEpoch "frame.time_epoch" Duration, "Time of capture since 1970-01-01 00:00:00 UTC", CAPTURE;
    TimeRelative "frame.time_relative" Duration, "Time of capture since the first frame", CAPTURE;
    TimeDelta "frame.time_delta" Duration, "Time since the previous frame", CAPTURE;
    TimeDeltaDisplayed "frame.time_delta_displayed" Duration, "Time since the previous selected frame", CAPTURE;
    Length "frame.len" Unsigned, "Length of the frame on the wire in bytes", CAPTURE;
    CapturedLength "frame.cap_len" Unsigned, "Captured length of the frame in bytes", CAPTURE;
    Protocols "frame.protocols" Text, "The protocols of the frame from outside to inside, with colons between them", CAPTURE;

    /// Payload of a datagram.
    PAYLOAD:
    TcpStream "tcp.stream" Unsigned, "Number of the TCP stream in the capture, from 0", CAPTURE;
    TcpSequence "tcp.seq" Unsigned, "Sequence number relative to that of the SYN; from 1 if the SYN was not captured", "RFC 9293 section 3.4";
    TcpNextSequence "tcp.nxtseq" Unsigned, "Sequence number after the segment, relative like tcp.seq", "RFC 9293 section 3.4";
    TcpAcknowledgment "tcp.ack" Unsigned, "Acknowledgement number relative to the SYN of the other side", "RFC 9293 section 3.4";
    TcpLength "tcp.len" Unsigned, "Length of the payload of a TCP segment in bytes", "RFC 9293 section 3.4";
    TcpPayload "tcp.payload" Bytes, "The payload of a TCP segment", "RFC 9293 section 3.1";
    UdpPayload "udp.payload" Bytes, "The payload of a UDP datagram", "RFC 768";
    MpaCrc "nfsrdma.mpa.crc" Text, "CRC of the FPDU that the frame completes: good, bad, absent (not in use) or unknown (not captured whole)", "RFC 5044 section 4.4";
    Arp "arp" Protocol, "Address Resolution Protocol; its fields are not decoded", "RFC 826";

    /// The RPC-over-RDMA header and its chunk lists.
    CHUNK_LISTS:
    Dialect "rpcordma.dialect" Text, "Dialect of the RPC-over-RDMA header: prototype, rfc5666, rfc8166, v2", LINES;
    ReadsCount "rpcordma.reads_count" Unsigned, "Number of segments in the Read list", "RFC 8166 section 4.3.1";
    WritesCount "rpcordma.writes_count" Unsigned, "Number of chunks in the Write list", "RFC 8166 section 4.3.2";
    ReplyCount "rpcordma.reply_count" Unsigned, "1 if there is a Reply chunk, otherwise 0", "RFC 8166 section 4.3.3";
    SegmentCount "rpcordma.segment_count" Unsigned, "Number of segments in a Write chunk or the Reply chunk", "RFC 8166 section 3.4.6";

    /// A message in its Transaction.
    MESSAGE:
    RpcTime "rpc.time" Duration, "Time from the call to the reply, on the reply", "RFC 5531 section 9";
    CallFrameOfReply "rpc.repframe" Unsigned, "On a reply the frame that completed its call", "RFC 5531 section 9";
    ReplyFrameOfCall "rpc.reqframe" Unsigned, "On a call the frame that completed its reply, if known", "RFC 5531 section 9";

    /// A Transaction.
    TRANSACTION:
    Index "nfsrdma.index" Unsigned, "Number of the transaction, in the order in which they close", LINES;
    Connection "nfsrdma.connection" Unsigned, "Number of the connection", LINES;
    Transport "nfsrdma.transport" Text, "Transport of the connection: rocev2, rocev1, infiniband, iwarp, tcp, udp", LINES;
    Client "nfsrdma.client" Address, "Address of the side that opened the connection", LINES;
    ClientPort "nfsrdma.client_port" Unsigned, "Port or queue pair of the client", LINES;
    Server "nfsrdma.server" Address, "Address of the other side", LINES;
    ServerPort "nfsrdma.server_port" Unsigned, "Port or queue pair of the server", LINES;
    VlanId "nfsrdma.vlan_id" Unsigned, "Identifier of a VLAN that the connection is in, the outermost first", "IEEE 802.1Q section 9.6";
    Vni "nfsrdma.vni" Unsigned, "VNI of VXLAN, or VSID of NVGRE, of the virtual network that the connection is in", "RFC 7348 section 5, RFC 7637 section 3.2";
    Direction "nfsrdma.direction" Text, "forward if the call comes from the client, otherwise reverse", "RFC 8167 section 1";
    Xid "nfsrdma.xid" Unsigned, "Transaction id of the RPC", "RFC 5531 section 9";
    Program "nfsrdma.program" Text, "Name of the program", LINES;
    Version "nfsrdma.version" Unsigned, "Version of the program", LINES;
    MinorVersion "nfsrdma.minor_version" Unsigned, "Minor version of NFSv4", "RFC 8178 section 4";
    Procedure "nfsrdma.procedure" Text, "Name of the procedure", LINES;
    Operation "nfsrdma.operation" Text, "The procedure, or the main operation of a COMPOUND", LINES;
    Status "nfsrdma.status" Text, "Status of the procedure or COMPOUND", LINES;
    RpcStatus "nfsrdma.rpc_status" Text, "Status of RPC, or of the transport", "RFC 5531 section 9";
    Path "nfsrdma.path" Text, "Path of the file, or its known part; the hash of its filehandle if no name is known", LINES;
    NewPath "nfsrdma.new_path" Text, "The other path of RENAME, LINK, COPY and CLONE", LINES;
    Latency "nfsrdma.latency" Duration, "Time from the first frame of the call to the last frame of the reply", LINES;
    PhaseCall "nfsrdma.phase.call" Duration, "First to last frame of the call", LINES;
    PhaseDataIn "nfsrdma.phase.data_in" Duration, "First RDMA Read request to last Read response", LINES;
    PhaseServer "nfsrdma.phase.server" Duration, "Time in no other phase: the server at work, and the network", LINES;
    PossibleRecovery "nfsrdma.possible_recovery" Text, "Evidence that nfsrdma.phase.server may include loss recovery: nak, ack_timeout or unknown_ack_timeout", LINES;
    PhaseDataOut "nfsrdma.phase.data_out" Duration, "First to last RDMA Write", LINES;
    PhaseReply "nfsrdma.phase.reply" Duration, "First to last frame of the reply", LINES;
    PhaseRecovery "nfsrdma.phase.recovery" Duration, "Time waiting for retransmission of lost or refused packets", LINES;
    Complete "nfsrdma.complete" Boolean, "Call, reply and all bytes of chunks that were moved are in the capture and decoded; the reply was not refused, and has the results of its call", LINES;
    Missing "nfsrdma.missing" Text, "Parts without which the transaction is not complete, such as call, reply:176-227, read:0:1024-2047, undecoded:call:256-, reply:refused, reply:wrong-result", LINES;
    RetryOf "nfsrdma.retry_of" Unsigned, "Index of the transaction that this one repeats", LINES;
    Finding "nfsrdma.finding" Text, "Conformance rule that the transaction breaks, such as rpcrdma/credit-zero", LINES;
    FindingSeverity "nfsrdma.finding.severity" Text, "Severity of a conformance finding: error, warning, known or info", LINES;
    FindingSide "nfsrdma.finding.side" Text, "Side that broke a conformance rule: client or server", LINES;
    CallTime "nfsrdma.call.time_epoch" Duration, "First frame of the call, since 1970-01-01 00:00:00 UTC", LINES;
    CallLength "nfsrdma.call.length" Unsigned, "Bytes of the call that were sent inline", "RFC 8166 section 3.3.2";
    CallCopies "nfsrdma.call.copies" Unsigned, "Number of times that the call was sent", LINES;
    CallResent "nfsrdma.call.resent" Unsigned, "Number of retransmissions of the call by RPC, not by the transport", LINES;
    CallDelivered "nfsrdma.call.delivered" Text, "Evidence of the copy of the call that the server accepted: acknowledged or assumed", LINES;
    CallLostCopy "nfsrdma.call.lost_copy" Text, "Evidence of an earlier copy of the call that was lost before the capture point: certain or possible", LINES;
    CallFrame "nfsrdma.call.frame" Unsigned, "A frame of the call", LINES;
    ReplyLength "nfsrdma.reply.length" Unsigned, "Bytes of the reply that were sent inline", "RFC 8166 section 3.3.2";
    ReplyCopies "nfsrdma.reply.copies" Unsigned, "Number of times that the reply was sent", LINES;
    ReplyResent "nfsrdma.reply.resent" Unsigned, "Number of retransmissions of the reply by RPC, not by the transport", LINES;
    ReplyDelivered "nfsrdma.reply.delivered" Text, "Evidence of the copy of the reply that the client accepted: acknowledged or assumed", LINES;
    ReplyFrame "nfsrdma.reply.frame" Unsigned, "A frame of the reply", LINES;
    ChunkKind "nfsrdma.chunk.kind" Text, "Kind of a chunk of the transaction: read, write or reply", "RFC 8166 section 3.4";
    ChunkPosition "nfsrdma.chunk.position" Unsigned, "Position of a Read chunk", "RFC 8166 section 3.4.5";
    ChunkSegments "nfsrdma.chunk.segments" Unsigned, "Number of segments in a chunk", "RFC 8166 section 3.4.3";
    ChunkOffered "nfsrdma.chunk.offered" Unsigned, "Bytes of a chunk as the call offers it", "RFC 8166 section 3.4.3";
    ChunkReturned "nfsrdma.chunk.returned" Unsigned, "Bytes of a Write or Reply chunk that were written, according to the reply", "RFC 8166 section 3.4.6";
    ChunkMoved "nfsrdma.chunk.moved" Unsigned, "Distinct bytes of a chunk that RDMA moved in the capture", LINES;
}

impl GeneratedField {
    /// Returns the filter name.
    pub const fn name(self) -> &'static str {
        self.description().0
    }

    /// Fields of a Transaction that need its messages to be decoded.
    pub(super) const OUTCOME: &'static [Self] = &[
        Self::Program,
        Self::Version,
        Self::MinorVersion,
        Self::Procedure,
        Self::Operation,
        Self::Status,
        Self::RpcStatus,
        Self::Path,
        Self::NewPath,
    ];
}

impl Display for GeneratedField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Part of the value of another field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldAliasValuePart {
    /// The whole value.
    Whole,
    /// Some of its bits: number of bits to shift to the right, and mask to apply then.
    Bits(u32, u64),
    /// Its length in bytes.
    Length,
    /// Its CRC-32 as in Ethernet.
    Crc32,
    /// CRC-16 of HDLC (ITU-T X.25) over it and this many bytes before it.
    Crc16From(usize),
}

/// A field whose values are those of other fields, or parts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAlias {
    /// Filter name.
    pub name: &'static str,
    /// The other fields.
    pub of: &'static [&'static str],
    /// Part of their values.
    pub part: FieldAliasValuePart,
    /// Description.
    pub about: &'static str,
    /// Source of the definition.
    pub source: &'static str,
}

macro_rules! alias {
    ($name:literal = $($of:ident)|+ $([$($part:tt)+])?, $about:literal, $source:literal) => {
        FieldAlias {
            name: $name,
            of: &[$(field_names::$of),+],
            part: alias!(@part $($($part)+)?),
            about: $about,
            source: $source,
        }
    };
    (@part) => { FieldAliasValuePart::Whole };
    (@part $shift:literal, $mask:literal) => { FieldAliasValuePart::Bits($shift, $mask) };
    (@part $part:ident $(($($number:tt)*))?) => { FieldAliasValuePart::$part $(($($number)*))? };
}

/// The aliases.
pub const ALIASES: &[FieldAlias] = &[
    alias!("eth.addr" = ETH_SRC | ETH_DST, "Source or destination", "IEEE 802.3 section 3"),
    alias!("ip.addr" = IP_SRC | IP_DST, "Source or destination", "RFC 791 section 3.1"),
    alias!("ip.dsfield.dscp" = IP_DSFIELD [2, 0x3f], "Differentiated services codepoint", "RFC 2474 section 3"),
    alias!("ip.dsfield.ecn" = IP_DSFIELD [0, 0x03], "Explicit congestion notification", "RFC 3168 section 5"),
    alias!("ipv6.addr" = IPV6_SRC | IPV6_DST, "Source or destination", "RFC 8200 section 3"),
    alias!("ipv6.tclass.dscp" = IPV6_TCLASS [2, 0x3f], "Differentiated services codepoint", "RFC 2474 section 3"),
    alias!("ipv6.tclass.ecn" = IPV6_TCLASS [0, 0x03], "Explicit congestion notification", "RFC 3168 section 5"),
    alias!("tcp.port" = TCP_SRCPORT | TCP_DSTPORT, "Source or destination", "RFC 9293 section 3.1"),
    alias!("udp.port" = UDP_SRCPORT | UDP_DSTPORT, "Source or destination", "RFC 768"),
    alias!(
        "nfs.open4.share_access" = NFS_SHARE_ACCESS [0, 0xff],
        "The access that OPEN asks for",
        "RFC 8881 section 18.16.1"
    ),
    alias!(
        "nfs.want" = NFS_SHARE_ACCESS [0, 0xffff_ff00],
        "Delegation that OPEN or WANT_DELEGATION requests",
        "RFC 8881 section 18.16.1, RFC 9754"
    ),
    alias!(
        "nfs.fh.hash" = NFS_FHANDLE[Crc32],
        "CRC-32 of a filehandle, which --filehandles hash shows",
        "docs/display-filters.md"
    ),
    alias!("nfs.fh.length" = NFS_FHANDLE[Length], "Length of a filehandle in bytes", "RFC 8881 section 3.2"),
    alias!(
        "nfs.stateid.hash" = NFS_STATEID_OTHER[Crc16From(4)],
        "CRC-16 (ITU-T X.25) of a stateid with its seqid",
        "docs/display-filters.md"
    ),
    alias!(
        "nfs.stateid.other_hash" = NFS_STATEID_OTHER[Crc32],
        "CRC-32 of a stateid without its seqid",
        "docs/display-filters.md"
    ),
    alias!(
        "nfs.status" = NFS_STATUS2 | NFS_STATUS3 | NFS_NFSSTAT4,
        "Status of a procedure, a COMPOUND or an operation",
        "RFC 1094 section 2.3.1, RFC 1813 section 2.6, RFC 8881 section 15"
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_fields_of_transactions_begin_with_the_program_name() {
        for field in GeneratedField::TRANSACTION {
            assert!(field.name().starts_with("nfsrdma."), "{field}");
        }
    }
}
