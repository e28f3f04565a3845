//! Connection numbers and options, and the negotiated parameters.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use nfsrdma_dissectors::rpcrdma::PrivateData;

/// The number of a connection of a transport. Numbers are not reused, so that late data for a closed connection never
/// matches another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RpcClientConnectionId(pub u32);

/// The server to connect to, with the options.
#[derive(Clone, Debug)]
pub struct ConnectTarget {
    /// The server's address, already resolved.
    pub address: SocketAddr,
    /// The server's name for messages: the host of the URL.
    pub name: String,
    /// The options.
    pub options: ConnectOptions,
}

/// The options that a Requester requests on connecting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Maximum length of a Send from this side in bytes: a multiple of 1,024 from 1,024 to 262,144 (RFC 8797 section
    /// 4.2). Linux: 4,096.
    pub send_size: u32,
    /// Maximum length of a Send to this side in bytes, with the same range.
    pub receive_size: u32,
    /// Number of credits to request, 1 to 16,384: the maximum number of Calls in flight. Linux: 128.
    pub credits: u32,
    /// Number of credits to grant to the server for Calls of the reverse direction (RFC 8167 section 4.1). Zero: none
    /// are answered.
    pub reverse_credits: u32,
    /// `true` to announce that the server may invalidate handles remotely (RFC 8797 section 4.1). A transport without
    /// support does not announce it.
    pub remote_invalidation: bool,
    /// `true` to send private data at all. Without it, the defaults of RFC 8166 apply.
    pub private_data: bool,
    /// `true` to connect from a port below 1,024, which many servers require and which needs a privilege. Without the
    /// privilege any port is used; see [`NegotiatedTransportParams::local`].
    pub reserved_port: bool,
    /// Maximum duration of `connect`.
    pub timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            send_size: 4096,
            receive_size: 4096,
            credits: 128,
            reverse_credits: 16,
            remote_invalidation: false,
            private_data: true,
            reserved_port: true,
            timeout: Duration::from_secs(10),
        }
    }
}

impl ConnectOptions {
    /// Returns the private data with these options (RFC 8797 section 4). Sizes are rounded down to multiples of 1,024
    /// bytes.
    pub fn private_data(&self) -> PrivateData {
        let size = |bytes: u32| u8::try_from((bytes / 1024).clamp(1, 256) - 1).unwrap_or(u8::MAX);
        PrivateData {
            remote_invalidation: self.remote_invalidation,
            send_size: size(self.send_size),
            receive_size: size(self.receive_size),
            ..PrivateData::DEFAULT
        }
    }
}

/// The negotiated parameters of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedTransportParams {
    /// The transport.
    pub kind: TransportKind,
    /// The local address and port, if there is one.
    pub local: Option<SocketAddr>,
    /// The server's address and port.
    pub peer: SocketAddr,
    /// The parameters of RDMA; `None` on TCP.
    pub rdma: Option<NegotiatedRpcRdmaParameters>,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// TCP, with RPC records (RFC 5531 section 11).
    Tcp,
    /// RDMA.
    Rdma(RdmaFabric),
    /// Simulated RDMA inside a process, as tests have it.
    Loopback,
}

/// The fabric of RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaFabric {
    /// InfiniBand.
    Infiniband,
    /// RDMA over Converged Ethernet.
    Roce,
    /// iWARP.
    Iwarp,
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Rdma(RdmaFabric::Infiniband) => "RDMA (InfiniBand)",
            Self::Rdma(RdmaFabric::Roce) => "RDMA (RoCE)",
            Self::Rdma(RdmaFabric::Iwarp) => "RDMA (iWARP)",
            Self::Loopback => "loopback",
        })
    }
}

/// The negotiated parameters of RPC-over-RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedRpcRdmaParameters {
    /// Name of the local device, such as `mlx5_0`.
    pub device: String,
    /// The private data that this side sent, if any.
    pub sent: Option<PrivateData>,
    /// The private data of RFC 8797 that the server sent, if any.
    pub received: Option<PrivateData>,
    /// Length in bytes of the private data in the server's answer. Linux sends 8 bytes, padded to 196 on InfiniBand and
    /// RoCE.
    pub received_length: usize,
    /// The call inline threshold in bytes, including the transport header (RFC 8166 section 3.3.2).
    pub call_inline: u32,
    /// The reply inline threshold in bytes, including the transport header.
    pub reply_inline: u32,
    /// `true` if the server may invalidate handles remotely: both sides announced it.
    pub remote_invalidation: bool,
    /// Maximum number of RDMA Reads that the server may have outstanding to this side.
    pub responder_resources: u8,
}

impl NegotiatedRpcRdmaParameters {
    /// Derives the parameters from the private data of both sides (RFC 8797 sections 4.1, 4.2 and 5.1).
    pub fn negotiate(sent: Option<PrivateData>, received: Option<PrivateData>) -> Self {
        let ours = sent.as_ref().unwrap_or(&PrivateData::DEFAULT);
        let theirs = received.as_ref().unwrap_or(&PrivateData::DEFAULT);
        let call_inline = ours.send_threshold_bytes().min(theirs.receive_threshold_bytes());
        let reply_inline = theirs.send_threshold_bytes().min(ours.receive_threshold_bytes());
        let remote_invalidation = ours.remote_invalidation && theirs.remote_invalidation;
        Self {
            device: String::new(),
            call_inline,
            reply_inline,
            remote_invalidation,
            sent,
            received,
            received_length: 0,
            responder_resources: 0,
        }
    }
}

/// The credits of the forward direction (RFC 8166 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportCredits {
    /// Number of credits that this side requests.
    pub requested: u32,
    /// Number of credits that the server granted last, as in its Reply; `None` before the first Reply.
    pub granted: Option<u32>,
    /// Number of Calls in flight.
    pub in_flight: u32,
}

impl TransportCredits {
    /// Returns the credits before the first Reply: one Call may be in flight (RFC 8166 section 3.3.3).
    pub fn new(requested: u32) -> Self {
        Self { requested: requested.max(1), granted: None, in_flight: 0 }
    }

    /// Returns the maximum number of Calls in flight: the lower of requested and granted credits. A grant of zero,
    /// which RFC 8166 section 3.3.1 forbids, counts as one, as otherwise no Call could ever be sent.
    pub fn limit(&self) -> u32 {
        self.granted.unwrap_or(1).clamp(1, self.requested)
    }

    /// Returns the number of Calls that may be sent now; 0 if the server lowered its grant below the number in flight.
    pub fn available(&self) -> u32 {
        self.limit().saturating_sub(self.in_flight)
    }
}

/// The counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcClientConnectionCounters {
    /// Number of Calls submitted.
    pub calls: u64,
    /// Number of Replies reported.
    pub replies: u64,
    /// Number of RDMA_ERROR messages reported.
    pub rdma_errors: u64,
    /// Number of Calls of the reverse direction reported.
    pub reverse_calls: u64,
    /// Number of messages discarded, each reported as
    /// [`RpcClientTransportEvent::Discarded`](super::RpcClientTransportEvent::Discarded).
    pub discarded: u64,
    /// Number of submissions rejected because no credit was left.
    pub credit_waits: u64,
    /// Number of grants of zero credits, which RFC 8166 section 3.3.1 forbids.
    pub zero_grants: u64,
    /// Number of Replies that invalidated a handle remotely (Send With Invalidate).
    pub invalidations: u64,
    /// Number of bytes sent, in Sends or in records.
    pub bytes_sent: u64,
    /// Number of bytes received, in Sends or in records.
    pub bytes_received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_dissectors::field::NullFieldObserver;

    fn private(send_size: u8, receive_size: u8, remote_invalidation: bool) -> PrivateData {
        PrivateData { send_size, receive_size, remote_invalidation, ..PrivateData::DEFAULT }
    }

    #[test]
    fn rfc8797_section_4_2_a_threshold_is_the_smaller_of_send_and_receive_size() {
        let terms = NegotiatedRpcRdmaParameters::negotiate(Some(private(3, 7, false)), Some(private(15, 1, true)));
        assert_eq!((terms.call_inline, terms.reply_inline), (2048, 8192));
        assert!(!terms.remote_invalidation);
    }

    /// The answer of a Linux server: 8 bytes over iWARP; over InfiniBand and RoCE they are padded to the full private
    /// data field of the CM.
    #[test]
    fn rfc8797_section_5_2_private_data_is_found_in_8_bytes_and_in_196() {
        let announced = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        let mut filled = announced.to_vec();
        filled.resize(196, 0);
        for bytes in [&announced[..], &filled] {
            let found = PrivateData::find(bytes, 0, &mut NullFieldObserver);
            assert_eq!(found, Some(private(3, 3, true)), "{} bytes", bytes.len());
        }
        assert_eq!(PrivateData::find(&[0; 196], 0, &mut NullFieldObserver), None);
    }

    #[test]
    fn rfc8797_section_5_1_without_private_data_each_direction_has_1024_bytes() {
        let terms = NegotiatedRpcRdmaParameters::negotiate(Some(private(3, 3, true)), None);
        assert_eq!((terms.call_inline, terms.reply_inline, terms.remote_invalidation), (1024, 1024, false));
    }

    #[test]
    fn rfc8797_section_4_2_requested_sizes_are_limited_to_the_encodable_range() {
        let wish = ConnectOptions { send_size: 4096, receive_size: 262_144, ..ConnectOptions::default() };
        let announced = wish.private_data();
        assert_eq!((announced.send_threshold_bytes(), announced.receive_threshold_bytes()), (4096, 262_144));
        let announced = ConnectOptions { send_size: 0, receive_size: u32::MAX, ..wish }.private_data();
        assert_eq!((announced.send_threshold_bytes(), announced.receive_threshold_bytes()), (1024, 262_144));
    }

    #[test]
    fn rfc8166_section_3_3_3_one_call_before_the_first_reply() {
        let mut credits = TransportCredits::new(128);
        assert_eq!(credits.available(), 1);
        credits.in_flight = 1;
        assert_eq!(credits.available(), 0);
    }

    #[test]
    fn rfc8166_section_3_3_1_available_credits_exclude_calls_in_flight() {
        let mut credits = TransportCredits { requested: 32, granted: Some(64), in_flight: 2 };
        assert_eq!((credits.limit(), credits.available()), (32, 30));
        credits.granted = Some(1);
        assert_eq!((credits.limit(), credits.available()), (1, 0));
        credits.granted = Some(0);
        credits.in_flight = 0;
        assert_eq!(credits.available(), 1);
    }
}
