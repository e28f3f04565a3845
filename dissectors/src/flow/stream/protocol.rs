//! What a stream carries: told by its first bytes or, where those were not captured, by structure.

use crate::address::Port;
use crate::rpc::{self, tls};

use crate::flow::iwarp::{self, Iwarp};
use crate::flow::records::RecordReader;
use crate::flow::setup::NFS_RDMA_PORT;
use crate::flow::statistics::UndecodedReason;
use crate::iwarp::mpa::{REPLY_KEY, REQUEST_KEY, StartupFrameKind};
use crate::rdma::PacketPayload;

/// What a stream carries.
#[derive(Debug)]
pub(in crate::flow) enum Protocol {
    /// Its beginning was captured, but not enough of it to tell.
    Opening,
    /// Its beginning was not captured: every segment may show what it is.
    Middle {
        /// Bytes that were looked at from end to end; of others only the first are.
        looked_at: u32,
    },
    /// RPC messages in records: those of side A, and those of side B.
    Records(Box<[RecordReader; 2]>),
    /// MPA, and RDMA over it, in both directions.
    Mpa(Box<Iwarp>),
    /// TLS, below which RPC may be.
    Tls,
    /// Nothing that this program reads.
    Other,
}

impl Protocol {
    /// The memory that it takes without that of messages that are not whole yet, in bytes.
    #[inline]
    pub(in crate::flow) fn memory_bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.iter().map(RecordReader::memory_bytes).sum(),
            Self::Mpa(iwarp) => iwarp.memory_bytes(),
            Self::Opening | Self::Middle { .. } | Self::Tls | Self::Other => 0,
        }
    }

    /// What is held of messages that are not whole yet, in bytes.
    pub(in crate::flow) fn held_bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.iter().map(RecordReader::held_bytes).sum(),
            Self::Mpa(iwarp) => iwarp.held_bytes(),
            Self::Opening | Self::Middle { .. } | Self::Tls | Self::Other => 0,
        }
    }
}

/// What bytes say about the stream that they are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) enum ProtocolDetection {
    /// Records of RPC.
    Records,
    /// MPA begins here.
    Mpa,
    /// TLS on a port where only RPC is expected.
    Tls,
    /// Too few bytes are there.
    Undecided,
    /// Something else.
    Other,
}

/// Bytes of one direction that are kept until it is known what the stream carries.
pub(in crate::flow) const KEPT: usize = 16 << 10;

/// Bytes of a stream that are searched for the beginning of a record where its own beginning was not captured.
pub(in crate::flow) const SEARCHED: u32 = 4 << 20;

/// As many bytes of a record tell what it is: the mark, and a Call up to its procedure.
pub(in crate::flow) const ENOUGH: usize = 28;

/// The port of NFS. RFC 7530 section 3.1.
const NFS: Port = Port(2049);

/// Whether one of the ports is one of NFS, so that what goes over it concerns this program, whatever it is.
pub(in crate::flow) fn is_of_nfs(ports: [Port; 2]) -> bool {
    ports.iter().any(|port| [NFS, NFS_RDMA_PORT].contains(port))
}

/// The reason for a segment in which nothing was found, of a stream of which segments are cut or not.
pub(in crate::flow) fn unknown(is_cut: bool) -> UndecodedReason {
    if is_cut { UndecodedReason::CutStream } else { UndecodedReason::UnknownStream }
}

/// Whether a Request or a Reply frame of MPA begins here. RFC 5044 section 7.1.1.
pub(in crate::flow) fn begins_mpa(bytes: &[u8]) -> bool {
    bytes.get(..REQUEST_KEY.len()).is_some_and(|key| StartupFrameKind::of(key).is_some())
}

/// What the first bytes of a direction say.
pub(in crate::flow) fn first_bytes(bytes: &[u8], ports: [Port; 2]) -> ProtocolDetection {
    let begins = |what: &[u8]| bytes.iter().zip(what).all(|(byte, expected)| byte == expected);
    if begins_mpa(bytes) {
        return ProtocolDetection::Mpa;
    }
    if bytes.len() < REQUEST_KEY.len() && (begins(&REQUEST_KEY) || begins(&REPLY_KEY)) {
        return ProtocolDetection::Undecided;
    }
    if rpc::recognize_record(bytes).is_some() {
        return ProtocolDetection::Records;
    }
    if ports.contains(&NFS) && tls::begins_record(bytes) {
        return ProtocolDetection::Tls;
    }
    // The mark of a record: its highest bit is the only one of its first byte.
    if bytes.len() < ENOUGH && bytes.first().is_none_or(|byte| byte & 0x7e == 0) {
        return ProtocolDetection::Undecided;
    }
    ProtocolDetection::Other
}

/// What a segment says of a stream whose beginning was not captured; `everywhere` is whether more than its first bytes
/// are looked at.
pub(in crate::flow) fn segment(
    data: PacketPayload<'_>,
    ports: [Port; 2],
    everywhere: bool,
) -> ProtocolDetection {
    let bytes = data.bytes;
    if begins_mpa(bytes) || iwarp::begins_fpdu(data, ports.contains(&NFS_RDMA_PORT)) {
        return ProtocolDetection::Mpa;
    }
    let begins = |at: &usize| match at {
        // The length of an FPDU of MPA, and what follows it, is like the mark of a fragment that is not the last.
        0 => bytes.first().is_some_and(|byte| byte & 0x80 != 0) && rpc::recognize_record(bytes).is_some(),
        at => bytes.get(*at..).is_some_and(|bytes| rpc::recognize_call_record(bytes).is_some()),
    };
    let end = if everywhere || ports.contains(&NFS) { bytes.len() } else { bytes.len().min(1) };
    match (0..end).find(begins) {
        Some(_) => ProtocolDetection::Records,
        None if ports.contains(&NFS) && tls::begins_record(bytes) => ProtocolDetection::Tls,
        None => ProtocolDetection::Undecided,
    }
}
