//! What is not in any Transaction, counted: nothing is left out silently.

use super::FrameKind;

macro_rules! counted {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $key:literal,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $variant_doc])+ $variant,)* }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in output.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)* }
            }
        }
    };
}
counted! {
    /// Why a frame on an RDMA or RPC flow gave no meaning.
    UndecodedReason {
        /// Its headers contradict each other, or were too short on the wire.
        Malformed = "malformed",
        /// A packet of RDMA of which a snap length left less than its headers.
        CutFrame = "cut_frame",
        /// A message on a connection that does not carry RPC-over-RDMA.
        NotRpcRdma = "not_rpc_over_rdma",
        /// A message on a connection that carries RPC-over-RDMA, but with a header that is none.
        MalformedHeader = "malformed_rpc_over_rdma",
        /// A message of which a snap length left too little to tell whether it is RPC-over-RDMA, or on a connection that carries
        /// that, a Call from a Reply.
        CutHeader = "cut_header",
        /// An RDMA Read or Write of memory that no known Call advertised, on a connection of which a snap length cut chunk
        /// lists.
        CutAdvertisement = "cut_advertisement",
        /// A part of an RDMA Write of whose first packet, which has the address, a snap length left too little.
        CutWrite = "cut_write",
        /// An RDMA Read response of whose request a snap length left too little.
        CutRead = "cut_read",
        /// A part of a message whose other parts were not seen.
        MessagePart = "message_part",
        /// A part of an RDMA Write whose first packet, which has the address, was not seen.
        WriteWithoutFirst = "write_without_first",
        /// An RDMA Write to memory that no known Call advertised.
        WriteToUnknownMemory = "write_to_unknown_memory",
        /// An RDMA Read of memory that no known Call advertised.
        ReadOfUnknownMemory = "read_of_unknown_memory",
        /// An RDMA Read response whose request was not seen.
        ReadWithoutRequest = "read_response_without_request",
        /// A copy of a message whose Transaction was given out already.
        LateCopy = "late_copy",
        /// On a stream of records: a part of a record whose mark was not captured, so that nothing tells what it is.
        NoRecordMark = "no_record_mark",
        /// On a stream of records: something that is no RPC message.
        NotRpc = "not_rpc",
        /// Bytes that were sent again, but not the same; the first copy counts.
        Contradiction = "contradicting_copy",
        /// A segment whose number is far from all others of its stream.
        Stray = "stray_segment",
        /// On a port of NFS: a segment of a stream that was not found to be RPC, MPA or TLS.
        UnknownStream = "unknown_stream",
        /// The same, where a snap length left less of the segment than tells.
        CutStream = "cut_stream",
        /// RPC-over-TLS, which hides its content.
        Tls = "tls",
        /// A datagram to queue pair 1 that is no message of the connection manager that this program reads.
        Management = "management",
        /// Bytes of an iWARP stream in which no FPDU of MPA was found.
        Framing = "mpa_framing",
        /// An FPDU of MPA whose CRC is wrong.
        BadCrc = "mpa_crc",
        /// A service or an operation of the transport that NFS does not use.
        OtherService = "other_rdma_service",
    }
}
impl UndecodedReason {
    /// True if a snap length is the reason: more bytes of the frame, or of one before it, would have a meaning.
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
    /// What was dropped because a bound was reached.
    EvictedState {
        /// A connection, the one that was silent longest.
        Connection = "connections",
        /// A Transaction that waited for its Reply, the oldest.
        OpenTransaction = "transactions",
        /// A Call that waited longer for its Reply than was asked for.
        OldCall = "old_calls",
        /// The packets of unfinished messages in one direction of a connection.
        MessageParts = "message_parts",
        /// The number of one more frame that repeats a message.
        Copy = "copies",
        /// Bytes of a chunk that were seen far from the others, where there was no memory to remember one more range of them.
        MovedRange = "moved_ranges",
        /// The bytes of a chunk that a view would have looked into.
        KeptChunk = "kept_chunks",
        /// A set-up of a connection that was never answered.
        SetUp = "connection_requests",
        /// A stream of TCP, the one that was silent longest.
        Stream = "tcp_streams",
        /// The segments that waited behind a hole in a stream: the hole was given up.
        Hole = "tcp_holes",
        /// A packet that came before what tells its place, and found no room to wait for that.
        Early = "early_packets",
        /// An IP datagram in fragments.
        Fragments = "ip_fragments",
    }
}
counted! {
    /// What a frame carried that concerns neither RDMA nor RPC.
    IgnoredTraffic {
        /// A segment of a TCP stream that carries something else.
        Tcp = "TCP segments",
        /// A datagram of UDP that holds something else.
        Udp = "UDP datagrams",
        /// A fragment of an IP datagram; it may be one of RoCEv2.
        Fragment = "IP fragments",
        /// Anything else, such as ARP.
        Other = "other frames",
    }
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    undecoded: [u64; UndecodedReason::ALL.len()],
    given_up: [u64; EvictedState::ALL.len()],
    passed: [u64; IgnoredTraffic::ALL.len()],
    /// Bytes of chunks that are kept at this moment.
    pub(super) kept_bytes: u64,
    /// Bytes of packets that wait for what tells their place.
    pub(super) early_bytes: u64,
    /// Bytes of messages in several Sends of which the last has not come.
    pub(super) continued_bytes: u64,
    /// What the CRCs of MPA were.
    pub(super) mpa: super::iwarp::MpaCounts,
    /// Frames that the capture holds a second time.
    pub(super) captured_twice: u64,
    /// Bytes of records whose marks were not captured.
    pub(super) skipped_bytes: u64,
}

impl FlowStats {
    /// Counts a frame.
    pub(super) fn undecoded(&mut self, reason: UndecodedReason) -> FrameKind {
        self.undecoded[reason as usize] += 1;
        FrameKind::Undecoded(reason)
    }

    /// Takes the count of a frame back: it may yet mean something.
    pub(super) fn undecoded_after_all(&mut self, reason: UndecodedReason) {
        self.undecoded[reason as usize] -= 1;
    }

    /// Counts frames that turn out to mean nothing.
    pub(super) fn undecoded_later(&mut self, reason: UndecodedReason, frames: u64) {
        self.undecoded[reason as usize] += frames;
    }

    /// Counts a frame that concerns neither RDMA nor RPC.
    pub(super) fn passed(&mut self, what: IgnoredTraffic) -> FrameKind {
        self.passed[what as usize] += 1;
        FrameKind::Nothing
    }

    /// Counts what was given up.
    pub(super) fn gave_up(&mut self, what: EvictedState) {
        self.given_up[what as usize] += 1;
    }

    /// The frames that gave no meaning, by reason.
    pub fn undecoded_counts(&self) -> impl Iterator<Item = (UndecodedReason, u64)> + '_ {
        UndecodedReason::ALL.iter().copied().zip(self.undecoded).filter(|(_, count)| *count > 0)
    }

    /// The frames that concern neither RDMA nor RPC, by kind; those that are malformed are among the undecoded.
    pub fn passed_counts(&self) -> impl Iterator<Item = (IgnoredTraffic, u64)> + '_ {
        IgnoredTraffic::ALL.iter().copied().zip(self.passed).filter(|(_, count)| *count > 0)
    }

    /// Frames that the capture holds a second time, byte for byte, as mirror ports make them; they are no messages sent again.
    pub fn captured_twice(&self) -> u64 {
        self.captured_twice
    }

    /// Bytes of TCP streams that were skipped, because the record mark that would tell what they are was not captured.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// What was dropped, by kind.
    pub fn given_up_counts(&self) -> impl Iterator<Item = (EvictedState, u64)> + '_ {
        EvictedState::ALL.iter().copied().zip(self.given_up).filter(|(_, count)| *count > 0)
    }
}
