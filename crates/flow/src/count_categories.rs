//! Categories of traffic and state that are counted instead of decoded or stored.

macro_rules! counted {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $key:literal,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $variant_doc])+ $variant,)* }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name of the variant in output.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)* }
            }
        }
    };
}
counted! {
    /// Reason why a frame on an RDMA or RPC flow was not decoded.
    UndecodedReason {
        /// Headers that contradict each other, or were too short on the wire.
        Malformed = "malformed",
        /// An RDMA packet truncated by a snap length within its headers.
        CutFrame = "cut_frame",
        /// A message on a connection that does not carry RPC-over-RDMA.
        NotRpcRdma = "not_rpc_over_rdma",
        /// A message with an invalid header on a connection that carries RPC-over-RDMA.
        MalformedHeader = "malformed_rpc_over_rdma",
        /// An RDMA_DONE (RFC 5666 section 3.5) of an XID that no known Call has.
        DoneWithoutCall = "rdma_done_without_call",
        /// A message truncated by a snap length before it can be identified as RPC-over-RDMA or, on a connection that
        /// carries RPC-over-RDMA, as a Call or a Reply.
        CutHeader = "cut_header",
        /// An RDMA Read or Write of memory that no known Call advertised, on a connection whose chunk lists a snap
        /// length truncated.
        CutAdvertisement = "cut_advertisement",
        /// A part of an RDMA Write whose first packet, which has the address, a snap length truncated.
        CutWrite = "cut_write",
        /// An RDMA Read response whose request a snap length truncated.
        CutRead = "cut_read",
        /// A part of a message whose other parts were not captured.
        MessagePart = "message_part",
        /// A part of an RDMA Write whose first packet, which has the address, was not captured.
        WriteWithoutFirst = "write_without_first",
        /// An RDMA Write to memory that no known Call advertised.
        WriteToUnknownMemory = "write_to_unknown_memory",
        /// An RDMA Read of memory that no known Call advertised.
        ReadOfUnknownMemory = "read_of_unknown_memory",
        /// An RDMA Read response whose request was not captured.
        ReadWithoutRequest = "read_response_without_request",
        /// A copy of a message whose Transaction was already emitted.
        LateCopy = "late_copy",
        /// On a stream of records: a part of a record whose mark was not captured.
        NoRecordMark = "no_record_mark",
        /// On a stream of records: a record that is not an RPC message.
        NotRpc = "not_rpc",
        /// A retransmission with other bytes than the first copy; the first copy counts.
        Contradiction = "contradicting_copy",
        /// A segment that its stream does not accept: its sequence number is far from all others, or it is a SYN
        /// between other data.
        Stray = "stray_segment",
        /// A TCP segment with a wrong checksum, in a stream whose other checksums are right.
        BadChecksum = "tcp_checksum",
        /// On an NFS port: a segment of a stream that was not recognized as RPC, MPA or TLS.
        UnknownStream = "unknown_stream",
        /// On an NFS port: a segment of an unrecognized stream, truncated by a snap length.
        CutStream = "cut_stream",
        /// RPC-over-TLS, which encrypts its content.
        Tls = "tls",
        /// A datagram to queue pair 1 that is not a supported message of the connection manager.
        Management = "management",
        /// Bytes of an iWARP stream in which no MPA FPDU was found.
        Framing = "mpa_framing",
        /// An MPA FPDU with a wrong CRC.
        BadCrc = "mpa_crc",
        /// A transport service or operation that NFS does not use.
        OtherService = "other_rdma_service",
    }
}
impl UndecodedReason {
    /// Returns `true` for data, or an RDMA Read Request, whose place is unknown: a message or packet that determines it may
    /// be captured later.
    pub(crate) const fn is_unplaced(self) -> bool {
        matches!(
            self,
            Self::WriteWithoutFirst
                | Self::ReadWithoutRequest
                | Self::WriteToUnknownMemory
                | Self::ReadOfUnknownMemory
                | Self::CutAdvertisement
                | Self::CutWrite
                | Self::CutRead
        )
    }

    /// Returns `true` if a snap length is the reason: more bytes of this frame or an earlier one would decode.
    pub const fn is_cut(self) -> bool {
        matches!(
            self,
            Self::CutFrame
                | Self::CutHeader
                | Self::CutStream
                | Self::CutAdvertisement
                | Self::CutWrite
                | Self::CutRead
        )
    }
}
counted! {
    /// State that was evicted at a limit.
    EvictedState {
        /// The connection idle longest.
        Connection = "connections",
        /// The oldest Transaction that waited for its Reply.
        OpenTransaction = "transactions",
        /// A Call that waited for its Reply longer than the configured maximum.
        OldCall = "old_calls",
        /// Packets of incomplete messages in one direction of a connection.
        MessageParts = "message_parts",
        /// The number of a further frame that repeats a message.
        Copy = "copies",
        /// A non-contiguous range of moved bytes of a chunk, which was not recorded because memory was used up.
        MovedRange = "moved_ranges",
        /// The content of a chunk, stored for views.
        KeptChunk = "kept_chunks",
        /// A connection set-up that was never answered.
        SetUp = "connection_requests",
        /// The TCP stream idle longest.
        Stream = "tcp_streams",
        /// Segments buffered after a gap in a stream: the gap was skipped.
        Hole = "tcp_holes",
        /// A packet captured before the packet that determines its place, which found no space in the reorder buffer.
        Early = "early_packets",
        /// A partial IP datagram.
        Fragments = "ip_fragments",
    }
}
counted! {
    /// Content of a frame that is neither RDMA nor RPC.
    IgnoredTraffic {
        /// A segment of a TCP stream of another protocol.
        Tcp = "TCP segments",
        /// A UDP datagram of another protocol.
        Udp = "UDP datagrams",
        /// A fragment of an IP datagram, which may be RoCEv2.
        Fragment = "IP fragments",
        /// Another protocol, such as ARP.
        Other = "other frames",
    }
}
