//! Detection of the protocol of a stream: by its first bytes or, if those were not captured, by structure.

use nfsrdma_dissectors::address::Port;
use nfsrdma_dissectors::iwarp::mpa::{REPLY_KEY, REQUEST_KEY};
use nfsrdma_dissectors::rpc::{self, tls};

use super::by_side::ConnectionSidePair;
use super::connection_setup::NFS_RDMA_PORT;
use super::count_categories::UndecodedReason;
use super::iwarp::IwarpConnection;
use super::iwarp::mpa_recognition::{begins_fpdu, begins_mpa};
use super::record_header_search::{PossibleRecordStart, begins_usual_call};
use super::rpc_records::CapturedRpcRecordParser;
use crate::rdma_operation::{CapturedPacketPayload, ConnectionSideAOrB};

/// Protocol of a stream.
#[derive(Debug)]
pub(super) enum StreamProtocol {
    /// Unknown: its start was captured, but too little of it.
    Opening,
    /// Unknown: its start was not captured, and each segment may reveal it.
    MidStream {
        /// Bytes searched completely; of later segments only the first bytes are examined.
        looked_at: u32,
        /// Bytes in which a record may begin. Allocated for the first.
        possible_starts: Option<Box<ConnectionSidePair<PossibleRecordStart>>>,
    },
    /// RPC messages in records.
    Records(Box<ConnectionSidePair<CapturedRpcRecordParser>>),
    /// MPA with RDMA, in both directions.
    Mpa(Box<IwarpConnection>),
    /// TLS, which may carry RPC.
    Tls,
    /// A protocol that this program does not decode.
    Other,
}

impl StreamProtocol {
    /// Returns the protocol of a stream of which `looked_at` bytes were searched in vain.
    pub(super) fn mid_stream(looked_at: u32) -> Self {
        Self::MidStream { looked_at, possible_starts: None }
    }

    /// Returns the memory in bytes, without incomplete messages.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.0.iter().map(CapturedRpcRecordParser::memory_bytes).sum(),
            Self::Mpa(iwarp) => iwarp.memory_bytes(),
            Self::Opening | Self::MidStream { .. } | Self::Tls | Self::Other => 0,
        }
    }

    /// Returns `true` if its messages are decoded.
    #[inline]
    pub(super) fn has_messages(&self) -> bool {
        matches!(self, Self::Records(_) | Self::Mpa(_))
    }

    /// Returns `true` if the next bytes of a side are certainly the content of a message whose header was decoded.
    #[inline]
    pub(super) fn is_within_message(&self, sender: ConnectionSideAOrB, data: CapturedPacketPayload<'_>) -> bool {
        match self {
            Self::Records(records) => records[sender].is_within_fragment(data.length),
            Self::Mpa(iwarp) => iwarp.is_within_payload(sender, data),
            Self::Opening => false,
            // Few of its other segments begin a message.
            Self::MidStream { looked_at, .. } => *looked_at >= MAX_SEARCHED_BYTES,
            Self::Tls | Self::Other => true,
        }
    }

    /// Returns the number of bytes of incomplete messages.
    #[inline]
    pub(super) fn buffered_bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.0.iter().map(CapturedRpcRecordParser::buffered_bytes).sum(),
            Self::Mpa(iwarp) => iwarp.buffered_bytes(),
            Self::Opening | Self::MidStream { .. } | Self::Tls | Self::Other => 0,
        }
    }
}

/// Result of examining bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProtocolDetection {
    /// RPC records.
    Records,
    /// MPA begins here.
    Mpa,
    /// TLS on a port where only RPC is expected.
    Tls,
    /// Too few bytes.
    Undecided,
    /// Another protocol.
    Other,
}

/// Maximum number of bytes of one direction buffered until the protocol of the stream is known.
pub(super) const MAX_BUFFERED_BYTES: usize = 16 << 10;

/// Number of bytes of a stream searched for the start of a record if its own start was not captured.
pub(super) const MAX_SEARCHED_BYTES: u32 = 4 << 20;

/// Number of bytes that identify a record: the mark, and a Call up to its procedure.
const MIN_DETECTION_BYTES: usize = 28;

/// Number of bytes that identify a record even if its header is spread over small fragments.
pub(super) const MAX_DETECTION_BYTES: usize = rpc::MAX_SPREAD_HEADER_BYTES;

/// The NFS port. RFC 7530 section 3.1.
const NFS_PORT: Port = Port(2049);

/// Returns `true` if one of the ports is an NFS port, so that the stream is relevant whatever it carries.
pub(super) fn includes_nfs_port(ports: [Port; 2]) -> bool {
    ports.iter().any(|port| [NFS_PORT, NFS_RDMA_PORT].contains(port))
}

/// Returns the reason for a segment of an unknown stream, whose segments are truncated or not.
pub(super) fn unknown_stream_reason(is_cut: bool) -> UndecodedReason {
    if is_cut { UndecodedReason::CutStream } else { UndecodedReason::UnknownStream }
}

/// Detects the protocol by the first bytes of a direction.
pub(super) fn detect_by_first_bytes(bytes: &[u8], ports: [Port; 2]) -> StreamProtocolDetection {
    let is_prefix_of = |key: &[u8]| bytes.iter().zip(key).all(|(byte, expected)| byte == expected);
    if begins_mpa(bytes) {
        return StreamProtocolDetection::Mpa;
    }
    if bytes.len() < REQUEST_KEY.len() && (is_prefix_of(&REQUEST_KEY) || is_prefix_of(&REPLY_KEY)) {
        return StreamProtocolDetection::Undecided;
    }
    if rpc::recognize_record(bytes).is_some() {
        return StreamProtocolDetection::Records;
    }
    if ports.contains(&NFS_PORT) && tls::begins_record(bytes) {
        return StreamProtocolDetection::Tls;
    }
    // A record mark uses only the highest bit of its first byte.
    let needed_bytes = match rpc::begins_with_small_fragment(bytes) {
        true => MAX_DETECTION_BYTES,
        false => MIN_DETECTION_BYTES,
    };
    if bytes.len() < needed_bytes && bytes.first().is_none_or(|byte| byte & 0x7e == 0) {
        return StreamProtocolDetection::Undecided;
    }
    StreamProtocolDetection::Other
}

/// Returns `true` if a record with a call begins here, in a stream between these ports.
pub(super) fn begins_call(bytes: &[u8], ports: [Port; 2]) -> bool {
    // A marker of MPA resembles the mark of a small fragment.
    begins_usual_call(bytes) && (!ports.contains(&NFS_RDMA_PORT) || bytes.first().is_some_and(|byte| byte & 0x80 != 0))
}

/// Detects the protocol of a stream by a segment, if its start was not captured. `search_all`: search the
/// whole segment, not only its first bytes.
pub(super) fn detect_by_segment(
    data: CapturedPacketPayload<'_>,
    ports: [Port; 2],
    search_all: bool,
) -> StreamProtocolDetection {
    let bytes = data.bytes;
    if begins_mpa(bytes) || begins_fpdu(data, ports.contains(&NFS_RDMA_PORT)) {
        return StreamProtocolDetection::Mpa;
    }
    let may_begin_record = |bytes: &[u8]| {
        // A marker of MPA resembles the mark of a small fragment.
        let may_be_small = !ports.contains(&NFS_RDMA_PORT) && rpc::begins_with_small_fragment(bytes);
        bytes.first().is_some_and(|byte| byte & 0x80 != 0) || may_be_small
    };
    // The length of an FPDU of MPA and the bytes after it resemble the mark of a fragment that is not the last.
    let has_usual_message = |bytes: &[u8]| rpc::recognize_record(bytes).is_some_and(|message| message.is_usual);
    let begins_record = |at: &usize| match at {
        0 => may_begin_record(bytes) && has_usual_message(bytes) || begins_call(bytes, ports),
        at => {
            bytes.get(*at..).is_some_and(|bytes| may_begin_record(bytes) && rpc::recognize_call_record(bytes).is_some())
        }
    };
    let end = if search_all || ports.contains(&NFS_PORT) { bytes.len() } else { bytes.len().min(1) };
    match (0..end).find(begins_record) {
        Some(_) => StreamProtocolDetection::Records,
        None if ports.contains(&NFS_PORT) && tls::begins_record(bytes) => StreamProtocolDetection::Tls,
        None => StreamProtocolDetection::Undecided,
    }
}
