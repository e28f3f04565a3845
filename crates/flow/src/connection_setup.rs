//! Connection set-ups: REQ and REP of the connection manager, matched. InfiniBand Architecture
//! Specification volume 1, section 12.9; RFC 8797.

use std::collections::VecDeque;

use nfsrdma_dissectors::address::{Address, Port, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::fixed_header::PartlyCapturedHeader;
use nfsrdma_dissectors::infiniband::cm::{
    self, CmMessage, CmMessageType, CmRequestIpEndpoints, CommunicationId, PathMtu, PortSpace, ServiceId,
};
use nfsrdma_dissectors::infiniband::{Psn, Qpn};
use nfsrdma_dissectors::rpcrdma::{PrivateDataVersionFlags, SidePrivateData};
use rustc_hash::FxHashMap;

use super::packet_meta::PacketMeta;

/// Port of NFS over RDMA (RFC 8267 section 6.3).
pub const NFS_RDMA_PORT: Port = Port(20049);

/// Service that a client connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceIdOrPort {
    /// A service of InfiniBand, and its IP addresses and ports (annex A11).
    Id(ServiceId, Option<CmRequestIpEndpoints>),
    /// A TCP port.
    Port(Port),
}

impl ServiceIdOrPort {
    /// Returns the TCP port, or the port in the TCP port space of InfiniBand.
    pub fn port(&self) -> Option<Port> {
        match self {
            Self::Id(id, ip) => {
                let port = ip.map(|ip| (ip.space, ip.destination_port)).or(id.ip_port());
                port.filter(|(space, _)| *space == PortSpace::TCP).map(|(_, port)| port)
            }
            Self::Port(port) => Some(*port),
        }
    }
}

/// Parameters that the two sides exchanged at connection set-up: in messages of the connection manager, or
/// in the start-up frames of MPA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedParameters {
    /// Service that the client connected to.
    pub service: ServiceIdOrPort,
    /// RPC-over-RDMA private data of the client.
    pub client: SidePrivateData,
    /// RPC-over-RDMA private data of the server.
    pub server: SidePrivateData,
    /// Version and flags of the client's private data, of any version.
    pub client_format: Option<PrivateDataVersionFlags>,
    /// Version and flags of the server's private data, of any version.
    pub server_format: Option<PrivateDataVersionFlags>,
    /// RDMA Reads that the client can have in flight; `None` if it did not declare a number.
    pub client_reads: Option<RdmaReadResources>,
    /// RDMA Reads that the server can have in flight; `None` if it did not declare a number.
    pub server_reads: Option<RdmaReadResources>,
    /// Minimum time in nanoseconds that a side waits for an acknowledgement before it retransmits a packet:
    /// 4.096 µs × 2^n of the Primary Local ACK Timeout of REQ (InfiniBand Architecture Specification volume 1,
    /// sections 9.7.6.1.3 and 12.7.34). `None` if no timeout is set, and over iWARP.
    pub ack_timeout_ns: Option<u64>,
    /// `true` if the capture has only the beginning of REQ or REP, without all fields in front of the private data.
    pub is_cut: bool,
    /// REQ, or the MPA Request; `None` if it was not captured.
    pub client_frame: Option<SetUpFrame>,
    /// REP, or the MPA Reply.
    pub server_frame: Option<SetUpFrame>,
}

/// Frame of a message of a connection set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUpFrame {
    /// Last frame of the message.
    pub number: FrameNumber,
    /// Its time.
    pub time: Timestamp,
}

impl From<&PacketMeta<'_>> for SetUpFrame {
    fn from(packet_meta: &PacketMeta<'_>) -> Self {
        Self { number: packet_meta.last_frame(), time: packet_meta.time }
    }
}

/// RDMA Reads that one side can have in flight at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaReadResources {
    /// Reads of its memory that it answers: Responder Resources of REQ and REP (InfiniBand Architecture
    /// Specification volume 1, section 12.6), or the Inbound RDMA Read Queue Depth (RFC 6581 section 9.1).
    pub inbound: u16,
    /// Reads that it requests: Initiator Depth, or the Outbound RDMA Read Queue Depth.
    pub outbound: u16,
}

impl NegotiatedParameters {
    /// Returns the inline thresholds in bytes, client to server and server to client: the smaller of the
    /// sender's and the receiver's value. `None` if the private data of a side is unknown.
    /// RFC 8797 section 5.2.
    pub fn inline_thresholds(&self) -> Option<(u32, u32)> {
        let (client, server) = (self.client.effective()?, self.server.effective()?);
        Some((
            client.send_threshold_bytes().min(server.receive_threshold_bytes()),
            server.send_threshold_bytes().min(client.receive_threshold_bytes()),
        ))
    }

    /// Returns `true` if the set-up shows that the connection carries RPC-over-RDMA.
    pub fn shows_rpc_over_rdma(&self) -> bool {
        self.client.present().is_some() || self.service.port() == Some(NFS_RDMA_PORT)
    }
}

/// One end of a connection, from its set-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionSetUpEndpoint {
    pub(super) tenant: VirtualNetwork,
    pub(super) address: Address,
    pub(super) qpn: Qpn,
    /// Its first PSN, if captured. Its peer chooses it (section 12.7.31).
    pub(super) starting_psn: Option<Psn>,
}

/// A completed connection set-up.
#[derive(Debug)]
pub(super) struct CompletedCmConnectionSetUp {
    /// Client and server.
    pub(super) ends: [ConnectionSetUpEndpoint; 2],
    pub(super) communication: (CommunicationId, CommunicationId),
    pub(super) parameters: NegotiatedParameters,
    /// Path MTU that the client chose, if captured.
    pub(super) path_mtu: Option<PathMtu>,
    /// `true` if the REQ was captured after the previous REP, if any.
    pub(super) is_new_request: bool,
}

/// Virtual network, sender and receiver of a message of the connection manager.
type CmMessageRoute = (VirtualNetwork, Address, Address);

/// A REQ that waits for its answer.
#[derive(Debug)]
struct PendingConnectRequest {
    tenant: VirtualNetwork,
    qpn: Qpn,
    /// First PSN of the server, if captured.
    starting_psn: Option<Psn>,
    path_mtu: Option<PathMtu>,
    parameters: NegotiatedParameters,
    /// `true` once answered; the answer may be repeated.
    is_answered: bool,
}

/// Address of the client, address of the server, communication ID of the client, and virtual network.
type ConnectRequestKey = (Address, Address, CommunicationId, VirtualNetwork);

/// Connection set-ups that wait for their answer.
#[derive(Debug)]
pub(super) struct PendingConnectionSetUps {
    pending: FxHashMap<ConnectRequestKey, PendingConnectRequest>,
    /// Number of pending requests per queue pair of a client; normally one.
    requests_per_client: FxHashMap<(VirtualNetwork, Address, Address, Qpn), usize>,
    order: VecDeque<ConnectRequestKey>,
    max_pending: usize,
}

impl PendingConnectionSetUps {
    pub(super) fn new(max_pending: usize) -> Self {
        Self {
            pending: FxHashMap::default(),
            requests_per_client: FxHashMap::default(),
            order: VecDeque::new(),
            max_pending: max_pending.max(1),
        }
    }

    /// Adds a request. Returns `true` if it is new.
    fn add_request(&mut self, key: ConnectRequestKey, pending: PendingConnectRequest) -> bool {
        let is_new = self.remove_request(&key).is_none();
        *self.requests_per_client.entry((key.3, key.0, key.1, pending.qpn)).or_default() += 1;
        self.pending.insert(key, pending);
        is_new
    }

    fn remove_request(&mut self, key: &ConnectRequestKey) -> Option<PendingConnectRequest> {
        let pending = self.pending.remove(key)?;
        let client = (key.3, key.0, key.1, pending.qpn);
        if let Some(count) = self.requests_per_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.requests_per_client.remove(&client);
            }
        }
        Some(pending)
    }

    /// Processes a message and returns the connection that it completes. Calls `on_eviction` for each set-up
    /// evicted unanswered.
    pub(super) fn process_message(
        &mut self,
        route: CmMessageRoute,
        message: &CmMessage<'_>,
        frame: SetUpFrame,
        on_eviction: &mut impl FnMut(),
    ) -> Option<CompletedCmConnectionSetUp> {
        match message {
            CmMessage::Request(request, ip, private) => {
                let request = PartlyCapturedHeader::new(*request, *request);
                self.process_request(route, &request, *ip, *private, frame, on_eviction);
            }
            CmMessage::Cut(CmMessageType::REQ, slice) => {
                let request = cm::CmConnectionRequest::decode_part(slice.bytes)?;
                let private = slice.skip_bytes(cm::CmConnectionRequest::LENGTH);
                self.process_request(route, &request, None, private, frame, on_eviction);
            }
            CmMessage::Reply(reply, private) => {
                let reply = PartlyCapturedHeader::new(*reply, *reply);
                return self.process_reply(route, &reply, *private, frame);
            }
            CmMessage::Cut(CmMessageType::REP, slice) => {
                let private = slice.skip_bytes(cm::CmConnectionReply::LENGTH);
                let reply = cm::CmConnectionReply::decode_part(slice.bytes)?;
                return self.process_reply(route, &reply, private, frame);
            }
            // A REJ names the request of the client, which is no longer pending.
            CmMessage::Reject(reject, ..) => {
                let (tenant, source, destination) = route;
                self.remove_request(&(destination, source, reject.remote_comm_id, tenant));
            }
            _ => {}
        }
        None
    }

    /// Processes a REQ, or its beginning. One without a queue pair is dropped.
    fn process_request(
        &mut self,
        (tenant, source, destination): CmMessageRoute,
        request: &PartlyCapturedHeader<cm::CmConnectionRequest>,
        ip: Option<CmRequestIpEndpoints>,
        private: CapturedSlice<'_>,
        frame: SetUpFrame,
        on_eviction: &mut impl FnMut(),
    ) {
        let (Some(communication), Some(service), Some(qpn)) = (
            request.field(|request| request.local_comm_id),
            request.field(|request| request.service_id),
            request.field(|request| request.local_qpn),
        ) else {
            return;
        };
        let reads = request.field(|request| RdmaReadResources {
            inbound: request.responder_resources.into(),
            outbound: request.initiator_depth.into(),
        });
        let parameters = NegotiatedParameters {
            service: ServiceIdOrPort::Id(service, ip),
            client: SidePrivateData::find(private, &mut NullFieldObserver),
            server: SidePrivateData::Cut,
            client_format: PrivateDataVersionFlags::find(private.bytes),
            server_format: None,
            client_reads: reads,
            server_reads: None,
            ack_timeout_ns: request.field(|request| request.primary_ack_timeout).and_then(ack_timeout_ns),
            is_cut: request.field(|request| *request).is_none(),
            client_frame: Some(frame),
            server_frame: None,
        };
        let key = (source, destination, communication, tenant);
        let pending = PendingConnectRequest {
            tenant,
            qpn,
            starting_psn: request.field(|request| request.starting_psn),
            path_mtu: request.field(|request| request.path_mtu),
            parameters,
            is_answered: false,
        };
        if self.add_request(key, pending) {
            self.order.push_back(key);
        }
        while self.order.len() > self.max_pending {
            let oldest = self.order.pop_front();
            let dropped = oldest.and_then(|oldest| self.remove_request(&oldest));
            if dropped.is_some_and(|dropped| !dropped.is_answered) {
                on_eviction();
            }
        }
    }

    /// Processes a REP, or its beginning, and returns the connection that it completes. One without a queue pair is
    /// dropped.
    fn process_reply(
        &mut self,
        (tenant, source, destination): CmMessageRoute,
        reply: &PartlyCapturedHeader<cm::CmConnectionReply>,
        private: CapturedSlice<'_>,
        frame: SetUpFrame,
    ) -> Option<CompletedCmConnectionSetUp> {
        let client_id = reply.field(|reply| reply.remote_comm_id)?;
        let server_id = reply.field(|reply| reply.local_comm_id)?;
        let qpn = reply.field(|reply| reply.local_qpn)?;
        let key_for = |tenant| (destination, source, client_id, tenant);
        // A mirror may show the VLAN tags of one direction only.
        let keys = [tenant, VirtualNetwork::NONE].map(key_for);
        let key = keys.iter().find(|key| self.pending.contains_key(key))?;
        let pending = self.pending.get_mut(key)?;
        let is_new_request = !std::mem::replace(&mut pending.is_answered, true);
        let client = ConnectionSetUpEndpoint {
            tenant: pending.tenant,
            address: destination,
            qpn: pending.qpn,
            starting_psn: reply.field(|reply| reply.starting_psn),
        };
        let server = ConnectionSetUpEndpoint { tenant, address: source, qpn, starting_psn: pending.starting_psn };
        Some(CompletedCmConnectionSetUp {
            ends: [client, server],
            communication: (client_id, server_id),
            parameters: NegotiatedParameters {
                server: SidePrivateData::find(private, &mut NullFieldObserver),
                server_format: PrivateDataVersionFlags::find(private.bytes),
                server_reads: reply.field(|reply| RdmaReadResources {
                    inbound: reply.responder_resources.into(),
                    outbound: reply.initiator_depth.into(),
                }),
                server_frame: Some(frame),
                is_cut: pending.parameters.is_cut || reply.field(|reply| *reply).is_none(),
                ..pending.parameters
            },
            path_mtu: pending.path_mtu,
            is_new_request,
        })
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.pending.len().max(self.order.len())
    }

    /// Returns `true` if the queue pair is that of a client whose set-up was requested.
    pub(super) fn has_request_from(&self, tenant: VirtualNetwork, client: Address, server: Address, qpn: Qpn) -> bool {
        self.requests_per_client.contains_key(&(tenant, client, server, qpn))
    }
}

/// Converts a 5-bit exponent; 0 means no timeout.
fn ack_timeout_ns(exponent: u8) -> Option<u64> {
    (exponent > 0).then(|| 4_096 << (exponent & 0x1f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfsrdma_dissectors::rpcrdma::PrivateData;

    #[test]
    fn port_20049_of_the_tcp_port_space_is_nfs() {
        let (client, server) = (SidePrivateData::Absent, SidePrivateData::Absent);
        let terms = |service| NegotiatedParameters {
            service: ServiceIdOrPort::Id(ServiceId(service), None),
            client,
            server,
            client_format: None,
            server_format: None,
            client_reads: None,
            server_reads: None,
            ack_timeout_ns: None,
            is_cut: false,
            client_frame: None,
            server_frame: None,
        };
        assert!(terms(0x0000_0000_0106_4e51).shows_rpc_over_rdma());
        assert!(!terms(0x0000_0000_0106_0cbc).shows_rpc_over_rdma());
    }

    #[test]
    fn rfc8797_section_5_2_the_smaller_size_of_both_sides_holds_in_each_direction() {
        let side = |send_size, receive_size| {
            SidePrivateData::Present(PrivateData { send_size, receive_size, ..PrivateData::DEFAULT })
        };
        let thresholds = |client, server| {
            let service = ServiceIdOrPort::Port(NFS_RDMA_PORT);
            let terms = NegotiatedParameters {
                service,
                client,
                server,
                client_format: None,
                server_format: None,
                client_reads: None,
                server_reads: None,
                ack_timeout_ns: None,
                is_cut: false,
                client_frame: None,
                server_frame: None,
            };
            terms.inline_thresholds()
        };
        assert_eq!(thresholds(side(3, 1), side(0, 7)), Some((4096, 1024)));
        assert_eq!(thresholds(side(3, 3), side(3, 1)), Some((2048, 4096)));
        // A side without private data uses 1024 in both directions (section 5.1).
        assert_eq!(thresholds(side(3, 3), SidePrivateData::Absent), Some((1024, 1024)));
        assert_eq!(thresholds(side(3, 3), SidePrivateData::Cut), None);
    }
}
