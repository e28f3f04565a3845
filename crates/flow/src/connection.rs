//! Connections between two queue pairs or between two ports.
//!
//! A TCP segment or a UDP datagram names both ports, so no pairing is needed: TCP streams store the key of their
//! connection, and UDP connections are looked up by addresses and ports.
//!
//! A BTH names only the receiving queue pair. The two directions of a connection are paired by the messages of the
//! connection manager if they were captured, and otherwise by evidence in the traffic: an acknowledgement or a Read
//! response repeats a sequence number of the other direction, an RDMA Read or Write uses a handle that the other
//! direction advertised, or a Reply has the XID of a Call.

use std::sync::Arc;

use nfsrdma_dissectors::address::{Address, Port, VirtualNetwork};
use nfsrdma_dissectors::captured_frame::{FrameNumber, Timestamp};
use nfsrdma_dissectors::infiniband::cm::CommunicationId;
use nfsrdma_dissectors::infiniband::{Psn, Qpn};
use nfsrdma_dissectors::net::InnermostNetworkPacket;
use nfsrdma_dissectors::rpcrdma::version2::PeerProperties;
use rustc_hash::FxHashMap;

use super::bounded_slab_growth;
use super::by_side::ConnectionSidePair;
use super::connection_key::ConnectionSlabKey;
use super::connection_setup::{CompletedCmConnectionSetUp, NegotiatedParameters};
use super::cross_connection_call_retries::CallHostPair;
use super::duplicate_frames::VaryingIpIdDetector;
use super::early_packet_buffer::PacketsAwaitingMemoryOwner;
use super::endpoint_pair::{EndpointPair, ordered_addresses};
use super::exceptional_transport_events::ExaminedPacketCounts;
use super::packet_opcode_sequence::BthOpcodeSequenceChecker;
use super::reliable_connection::{ObservedPathMtu, RequesterPacketState};
use super::rpc_transaction_matching::connection_rpc_state::ConnectionRpcState;
use super::rpc_transaction_matching::credits::{CreditsInUse, Version2SendCredits};
use super::transaction::{
    CallDirection, ConnectionTransport, Endpoint, SiblingConnectionStatus, TransactionConnection,
};
use crate::rdma_operation::ConnectionSideAOrB;

/// One direction of a connection: from an address to a queue pair at another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuePairFlowKey {
    /// Destination queue pair. Compared first because it differs most often.
    pub(super) qpn: Qpn,
    pub(super) tenant: VirtualNetwork,
    pub(super) source: Address,
    pub(super) destination: Address,
}

/// Kind of a connection's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    /// Queue pair; `None` until a packet to it was seen.
    Queue(Option<Qpn>),
    /// TCP or UDP port.
    Port(Port),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct ConnectionEndpointState {
    pub(super) address: Address,
    /// Virtual network of the packets that it sends.
    tenant: VirtualNetwork,
    kind: EndpointKind,
    /// Requests that a queue pair sends in its own PSN sequence.
    pub(super) requests: RequesterPacketState,
    /// PSN of its first request, from the set-up; `None` once a request was captured.
    pub(super) starting_psn: Option<Psn>,
    /// Number of its Calls without a Reply when the connection ended, once counted.
    pub(super) unanswered_at_end: Option<u32>,
    /// IPv4 identifications, which distinguish its packets.
    pub(super) ip_id_variation: VaryingIpIdDetector,
    /// Order of its packets; `None` unless transport events are recorded.
    pub(super) packet_order: Option<Box<BthOpcodeSequenceChecker>>,
}

impl ConnectionEndpointState {
    fn new(address: Address, tenant: VirtualNetwork, kind: EndpointKind) -> Self {
        Self {
            address,
            tenant,
            kind,
            requests: RequesterPacketState::default(),
            starting_psn: None,
            unanswered_at_end: None,
            ip_id_variation: VaryingIpIdDetector::default(),
            packet_order: None,
        }
    }

    fn for_queue_pair(address: Address, tenant: VirtualNetwork, qpn: Option<Qpn>) -> Self {
        Self::new(address, tenant, EndpointKind::Queue(qpn))
    }

    /// Returns the queue pair, if the endpoint is one and its number is known.
    fn qpn(&self) -> Option<Qpn> {
        match self.kind {
            EndpointKind::Queue(qpn) => qpn,
            EndpointKind::Port(_) => None,
        }
    }

    fn has_known_port(&self) -> bool {
        self.kind != EndpointKind::Queue(None)
    }

    fn endpoint(&self) -> Endpoint {
        let port = match self.kind {
            EndpointKind::Queue(qpn) => qpn.map(|qpn| qpn.0),
            EndpointKind::Port(port) => Some(port.0.into()),
        };
        Endpoint { address: self.address, port }
    }
}

/// Negotiated parameters of a connection, and whether it is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionParametersSnapshot {
    /// Connection number, as in [`TransactionConnection::number`].
    pub number: u64,
    /// Parameters that both sides announced; `None` if the set-up was not seen, and without RDMA.
    pub parameters: Option<NegotiatedParameters>,
    /// Properties announced by the client and by the server in version 2; `None` for a side that announced none.
    pub properties: [Option<PeerProperties>; 2],
    /// Message credits of the client and of the server in version 2; zero messages sent in other versions.
    pub message_credits: [Version2SendCredits; 2],
    /// `true` if the end was seen: a FIN or RST in the TCP stream, a DREQ of the connection manager, or a REQ or REP
    /// for another connection on its queue pairs.
    pub is_ending: bool,
    /// Time of the end, if it was seen.
    pub ended_at: Option<Timestamp>,
    /// Credits that the calls of the client and of the server without a reply use.
    pub credits_in_use: [CreditsInUse; 2],
}

/// A connection between two queue pairs, one of which may still be unknown, or between two ports.
#[derive(Debug)]
pub(super) struct FlowConnection {
    pub(super) transport: ConnectionTransport,
    serial: u64,
    pub(super) ends: ConnectionSidePair<ConnectionEndpointState>,
    pub(super) path_mtu: ObservedPathMtu,
    /// Side that opened the connection, if that was seen.
    pub(super) opened_by: Option<ConnectionSideAOrB>,
    /// Connection number, assigned with the first RPC message.
    pub(super) number: Option<u64>,
    pub(super) conversation: ConnectionRpcState,
    /// Packets that wait for the context that they need.
    pub(super) reorder_buffer: PacketsAwaitingMemoryOwner,
    pub(super) last_frame: FrameNumber,
    /// `true` if a FIN or RST was seen in the TCP stream, or a DREQ, or `is_replaced` is set.
    pub(super) is_ending: bool,
    pub(super) ended_at: Option<Timestamp>,
    /// `true` if half of the set-up of another connection on its queue pairs was seen.
    pub(super) is_replaced: bool,
    /// Communication IDs of both sides, which distinguish a repeated set-up from a new one.
    pub(super) communication_ids: Option<(CommunicationId, CommunicationId)>,
    /// Parameters that both sides announced, if the set-up was seen.
    pub(super) parameters: Option<Arc<NegotiatedParameters>>,
    /// `true` if the TCP stream continues as MPA under the same connection number.
    pub(super) continues_as_mpa: bool,
    /// Memory accounted for this connection, in bytes.
    accounted_bytes: u32,
}

impl FlowConnection {
    /// Returns the side that sends NFS, MOUNT or NFSACL Calls or, if that is unknown, the side that opened the connection:
    /// a stray SYN may contradict the Calls.
    pub(super) fn client(&self) -> Option<ConnectionSideAOrB> {
        self.conversation.nfs_client_side.or(self.opened_by)
    }

    /// Returns the side that is the client, or probably is.
    fn probable_client(&self) -> Option<ConnectionSideAOrB> {
        self.client().or(self.conversation.probable_client_side())
    }

    /// Returns the addresses of both ends, in the same order for all connections between them.
    pub(super) fn addresses(&self) -> (Address, Address) {
        let [a, b] = &self.ends.0;
        ordered_addresses(a.address, b.address)
    }

    /// Returns `true` if the set-up shows that the connection carries RPC-over-RDMA, and who opened it.
    pub(super) fn is_identified(&self) -> bool {
        self.opened_by.is_some() && self.parameters.as_deref().is_some_and(NegotiatedParameters::shows_rpc_over_rdma)
    }

    /// Returns the connection as Transactions name it; `requester` is the client if nothing else identifies it.
    pub(super) fn name(&self, requester: ConnectionSideAOrB) -> TransactionConnection {
        let side = self.probable_client().unwrap_or(requester);
        let (client, server) = (&self.ends[side], &self.ends[side.peer()]);
        TransactionConnection {
            number: self.number.unwrap_or(0),
            transport: self.transport,
            client: client.endpoint(),
            server: server.endpoint(),
            // A mirror port may keep the VLAN tags of one direction only.
            tenant: if client.tenant == VirtualNetwork::NONE { server.tenant } else { client.tenant },
        }
    }

    /// Returns the connection's name, and the direction of a Transaction of `requester`.
    pub(super) fn name_and_direction(&self, requester: ConnectionSideAOrB) -> (TransactionConnection, CallDirection) {
        let client = self.probable_client().unwrap_or(requester);
        let direction = if client == requester { CallDirection::Forward } else { CallDirection::Reverse };
        (self.name(client), direction)
    }

    /// Returns the connection's state; `None` before it has a number.
    pub(super) fn state(&self) -> Option<ConnectionParametersSnapshot> {
        let Self { number, is_ending, .. } = *self;
        let parameters = self.parameters.as_deref().copied();
        let is_swapped = self.probable_client() == Some(ConnectionSideAOrB::B);
        let ConnectionSidePair(properties) = self.conversation.properties.swapped_if(is_swapped);
        let ConnectionSidePair(mut message_credits) = self.conversation.message_credits.swapped_if(is_swapped);
        if parameters.is_none() {
            message_credits.iter_mut().for_each(|credits| credits.min_remaining = None);
        }
        let ConnectionSidePair(credits_in_use) = self.conversation.credits_in_use().swapped_if(is_swapped);
        Some(ConnectionParametersSnapshot {
            number: number?,
            parameters,
            properties,
            message_credits,
            is_ending,
            ended_at: self.ended_at,
            credits_in_use,
        })
    }

    /// Returns the hosts of the Calls of a side.
    pub(super) fn route(&self, caller: ConnectionSideAOrB) -> CallHostPair {
        let ConnectionEndpointState { tenant, address, .. } = self.ends[caller];
        CallHostPair { tenant, caller: address, callee: self.ends[caller.peer()].address }
    }

    /// Returns the memory of the connection in bytes, without waiting packets.
    #[inline]
    fn memory_bytes(&self) -> usize {
        let [a, b] = &self.ends.0;
        let ends = a.requests.memory_bytes() + b.requests.memory_bytes();
        CONNECTION_BYTES + ends + self.conversation.memory_bytes()
    }

    /// Returns `true` if requests of either queue pair were seen.
    fn has_seen_requests(&self) -> bool {
        self.ends.0.iter().any(|end| end.requests.has_begun())
    }

    pub(super) fn is_paired(&self) -> bool {
        self.ends.0.iter().all(ConnectionEndpointState::has_known_port)
    }

    /// Returns the known paths of both directions, with the side that sends on each.
    fn paths(&self) -> impl Iterator<Item = (QueuePairFlowKey, ConnectionSideAOrB)> {
        ConnectionSideAOrB::BOTH.into_iter().filter_map(|side| {
            let (from, to) = (&self.ends[side], &self.ends[side.peer()]);
            let (source, destination) = (from.address, to.address);
            let qpn = to.qpn()?;
            Some((QueuePairFlowKey { tenant: from.tenant, source, destination, qpn }, side))
        })
    }
}

/// Memory of a connection and of its table entries, in bytes.
const CONNECTION_BYTES: usize =
    size_of::<FlowConnection>() + 4 * size_of::<(QueuePairFlowKey, (usize, ConnectionSideAOrB))>();

/// Maximum number of unpaired connections between two addresses that are checked for a packet, newest first. If one
/// direction was not captured at all, every packet is checked.
const MAX_PAIRING_CANDIDATES: usize = 256;

/// Number of paths in [`ConnectionLookupCache`]: both directions of several connections.
const RECENT_LOOKUPS: usize = 16;

/// Paths that were found recently, with their connections and the sides that send on them: one at each place.
#[derive(Debug, Default)]
struct ConnectionLookupCache([Option<(QueuePairFlowKey, (usize, ConnectionSideAOrB))>; RECENT_LOOKUPS]);

impl ConnectionLookupCache {
    /// Returns the place of paths to a queue pair. Queue pairs are mostly numbered in sequence, and those of a
    /// connection often have the same number, so that only the address distinguishes its directions.
    #[inline]
    fn place(qpn: Qpn, destination: &Address) -> usize {
        (qpn.0 as usize ^ usize::from(destination.last_byte())) % RECENT_LOOKUPS
    }

    /// Returns what was found for the path of a packet to `qpn`.
    #[inline]
    fn get(&self, datagram: &InnermostNetworkPacket<'_>, qpn: Qpn) -> Option<(usize, ConnectionSideAOrB)> {
        let (path, location) = self.0[Self::place(qpn, &datagram.destination)].as_ref()?;
        let is_on = path.qpn == qpn
            && path.tenant == datagram.tenant
            && path.source == datagram.source
            && path.destination == datagram.destination;
        is_on.then_some(*location)
    }

    fn add(&mut self, path: QueuePairFlowKey, location: (usize, ConnectionSideAOrB)) {
        self.0[Self::place(path.qpn, &path.destination)] = Some((path, location));
    }

    /// Forgets all paths: a connection was added, removed or paired.
    fn clear(&mut self) {
        self.0.fill(None);
    }
}

/// Connections between two hosts.
#[derive(Clone, Copy, Debug, Default)]
struct HostPairConnectionCount {
    /// Number of those that did not end.
    count: usize,
    /// Last frame of those that ended while another one was open.
    last_end: Option<FrameNumber>,
}

/// All connections, indexed by the paths of their packets.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    slots: slab::Slab<FlowConnection>,
    paths: FxHashMap<QueuePairFlowKey, (usize, ConnectionSideAOrB)>,
    udp_connections: FxHashMap<EndpointPair, usize>,
    /// Serial number of the last connection added.
    serial: u64,
    /// Connections with one unknown queue pair, by their addresses.
    unpaired: FxHashMap<(Address, Address), Vec<usize>>,
    /// Connections that did not end, by their addresses.
    open: FxHashMap<(Address, Address), HostPairConnectionCount>,
    lookups: ConnectionLookupCache,
    max_connections: usize,
    /// Memory of all connections, in bytes.
    accounted_bytes: usize,
}

/// Result of the lookup of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionLookupResult {
    /// The path was known.
    Known,
    /// The path is the other direction of a known connection.
    Paired,
    /// The path is the other direction of a known connection; this connection, which had been counted separately, was
    /// merged.
    Merged(usize),
    /// The path starts a connection.
    New,
}

impl ConnectionTable {
    pub(super) fn new(max_connections: usize) -> Self {
        Self {
            slots: slab::Slab::new(),
            paths: FxHashMap::default(),
            udp_connections: FxHashMap::default(),
            serial: 0,
            unpaired: FxHashMap::default(),
            open: FxHashMap::default(),
            lookups: ConnectionLookupCache::default(),
            max_connections: max_connections.max(1),
            accounted_bytes: 0,
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&FlowConnection> {
        self.slots.get(at)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut FlowConnection> {
        self.slots.get_mut(at)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = ConnectionParametersSnapshot> + '_ {
        self.slots.iter().filter_map(|(_, connection)| connection.state())
    }

    /// Returns the numbers of packets examined on the connections that have a number.
    pub(super) fn checks(&self) -> impl Iterator<Item = ExaminedPacketCounts> {
        { self.slots.iter() }
            .filter(|(_, connection)| connection.number.is_some())
            .map(|(_, connection)| connection.conversation.checks())
    }

    pub(super) fn all_slots(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    /// Returns the number of connections or of their table entries, and the bytes of incomplete messages.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let unpaired: usize = self.unpaired.values().map(Vec::len).sum();
        let ends = self.slots.iter().flat_map(|(_, connection)| &connection.ends.0);
        (
            self.slots.len().max(self.paths.len().div_ceil(2)).max(unpaired),
            ends.map(|end| end.requests.partial_message_bytes()).sum(),
        )
    }

    #[inline]
    pub(super) fn update_memory_bytes(&mut self, at: usize) {
        let Some(connection) = self.slots.get_mut(at) else { return };
        let now = u32::try_from(connection.memory_bytes()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut connection.accounted_bytes, now);
        self.accounted_bytes = (self.accounted_bytes + now as usize).saturating_sub(before as usize);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.accounted_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn exceeds_limit(&self) -> bool {
        self.slots.len() > self.max_connections
    }

    /// Returns the connection of a packet, and the side that sends on it, if a packet on its path was found recently.
    #[inline]
    pub(super) fn cached_lookup(
        &self,
        datagram: &InnermostNetworkPacket<'_>,
        qpn: Qpn,
    ) -> Option<(usize, ConnectionSideAOrB)> {
        self.lookups.get(datagram, qpn)
    }

    /// Returns the connection of a path, and the side that sends on it. `evidence` returns `true` if the packet
    /// answers, or is answered by, packets of the given side of a connection. An ended connection is not cached,
    /// because another one may use its queue pairs.
    #[inline]
    pub(super) fn find(
        &mut self,
        path: QueuePairFlowKey,
        transport: ConnectionTransport,
        evidence: impl Fn(&FlowConnection, ConnectionSideAOrB) -> bool,
    ) -> (usize, ConnectionSideAOrB, ConnectionLookupResult) {
        if let Some((at, side)) = self.paths.get(&path).copied()
            && let Some(connection) = self.slots.get(at)
            && connection.is_paired()
        {
            if !connection.is_ending {
                self.lookups.add(path, (at, side));
            }
            return (at, side, ConnectionLookupResult::Known);
        }
        self.find_unpaired(path, transport, evidence)
    }

    fn find_unpaired(
        &mut self,
        path: QueuePairFlowKey,
        transport: ConnectionTransport,
        evidence: impl Fn(&FlowConnection, ConnectionSideAOrB) -> bool,
    ) -> (usize, ConnectionSideAOrB, ConnectionLookupResult) {
        let existing = self.paths.get(&path).copied();
        let find = |is_alike: fn(VirtualNetwork, VirtualNetwork) -> bool| {
            let mut candidates = self
                .unpaired
                .get(&ordered_addresses(path.source, path.destination))
                .into_iter()
                .flat_map(|unpaired| unpaired.iter().rev().take(MAX_PAIRING_CANDIDATES))
                .copied()
                .filter(|at| existing.is_none_or(|(index, _)| index != *at))
                .filter_map(|at| {
                    // The sender of this packet is the end whose port or queue pair is known; the packet names the
                    // other end's queue pair.
                    let connection = self.slots.get(at)?;
                    let sender = ConnectionSideAOrB::a_if(connection.ends[ConnectionSideAOrB::A].has_known_port());
                    let peer = &connection.ends[sender.peer()];
                    let fits = connection.ends[sender].address == path.source
                        && is_alike(peer.tenant, path.tenant)
                        && peer.address == path.destination
                        && connection.transport == transport
                        && evidence(connection, sender.peer());
                    fits.then_some((at, sender))
                });
            let first = candidates.next();
            first.map(|first| (first, candidates.next().is_none()))
        };
        // A mirror port may keep the VLAN tags of one direction and remove those of the other.
        let candidate = find(|one, other| one == other).or_else(|| find(VirtualNetwork::may_match));
        match (candidate.filter(|(_, is_certain)| *is_certain).map(|(location, _)| location), existing) {
            (Some((at, sender)), existing) => {
                let merged = existing.map(|(index, _)| index);
                self.pair_direction(at, sender, path, merged);
                (at, sender, merged.map_or(ConnectionLookupResult::Paired, ConnectionLookupResult::Merged))
            }
            (None, Some((at, side))) => (at, side, ConnectionLookupResult::Known),
            (None, None) => {
                let QueuePairFlowKey { tenant, source, destination, qpn } = path;
                let a = ConnectionEndpointState::for_queue_pair(source, tenant, None);
                let b = ConnectionEndpointState::for_queue_pair(destination, VirtualNetwork::NONE, Some(qpn));
                (self.add([a, b], transport), ConnectionSideAOrB::A, ConnectionLookupResult::New)
            }
        }
    }

    fn add(&mut self, ends: [ConnectionEndpointState; 2], transport: ConnectionTransport) -> usize {
        self.serial += 1;
        let connection = FlowConnection {
            transport,
            serial: self.serial,
            ends: ConnectionSidePair(ends),
            path_mtu: ObservedPathMtu::default(),
            opened_by: None,
            number: None,
            conversation: ConnectionRpcState::default(),
            reorder_buffer: PacketsAwaitingMemoryOwner::default(),
            last_frame: FrameNumber::default(),
            is_ending: false,
            ended_at: None,
            is_replaced: false,
            communication_ids: None,
            parameters: None,
            continues_as_mpa: false,
            accounted_bytes: 0,
        };
        let (is_paired, addresses) = (connection.is_paired(), connection.addresses());
        let paths: Vec<_> = connection.paths().collect();
        let at = bounded_slab_growth::insert(&mut self.slots, self.max_connections, connection);
        self.paths.extend(paths.into_iter().map(|(path, side)| (path, (at, side))));
        self.open.entry(addresses).or_default().count += 1;
        if !is_paired {
            self.unpaired.entry(addresses).or_default().push(at);
        }
        self.update_memory_bytes(at);
        at
    }

    /// Adds a connection between ports; side A is the sender of the first packet seen.
    pub(super) fn add_port_connection(
        &mut self,
        ports: EndpointPair,
        transport: ConnectionTransport,
    ) -> ConnectionSlabKey {
        let ends = [ports.a, ports.b]
            .map(|(address, port)| ConnectionEndpointState::new(address, ports.tenant, EndpointKind::Port(port)));
        let at = self.add(ends, transport);
        if transport == ConnectionTransport::Udp {
            self.udp_connections.insert(ports.in_canonical_order().0, at);
            if let Some(connection) = self.slots.get_mut(at) {
                connection.conversation.is_datagram = true;
            }
        }
        ConnectionSlabKey { slot: at, serial: self.serial }
    }

    /// Returns the connection, if it still exists.
    pub(super) fn get_by_key(&self, key: ConnectionSlabKey) -> Option<&FlowConnection> {
        self.slots.get(key.slot).filter(|connection| connection.serial == key.serial)
    }

    /// Returns the connection as mutable, if it still exists.
    pub(super) fn get_mut_by_key(&mut self, key: ConnectionSlabKey) -> Option<&mut FlowConnection> {
        self.slots.get_mut(key.slot).filter(|connection| connection.serial == key.serial)
    }

    /// Returns the connection whose packets use this path.
    pub(super) fn key_by_path(&self, path: QueuePairFlowKey) -> Option<ConnectionSlabKey> {
        let (at, _) = *self.paths.get(&path)?;
        self.key(at)
    }

    /// Returns the connection of a path, and the side that sends on it.
    pub(super) fn sender_on_path(&self, path: QueuePairFlowKey) -> Option<(usize, ConnectionSideAOrB)> {
        self.paths.get(&path).copied()
    }

    /// Returns the connection of a path if its end was seen, and the side that sends on it.
    pub(super) fn ended_on_path(&self, path: QueuePairFlowKey) -> Option<(usize, ConnectionSideAOrB)> {
        self.sender_on_path(path).filter(|(at, _)| self.get(*at).is_some_and(|connection| connection.is_ending))
    }

    /// Records that the end of a connection was seen. Returns `true` if it had not been seen before.
    pub(super) fn record_end(&mut self, key: ConnectionSlabKey, time: Timestamp) -> bool {
        let Some(connection) = self.get_mut_by_key(key) else { return false };
        connection.ended_at.get_or_insert(time);
        let is_first = !std::mem::replace(&mut connection.is_ending, true);
        let (addresses, last_frame) = (connection.addresses(), connection.last_frame);
        if is_first {
            self.record_closed(addresses, last_frame);
            self.lookups.clear();
        }
        is_first
    }

    /// Records that a connection whose end was seen goes on.
    pub(super) fn record_continuation(&mut self, key: ConnectionSlabKey) {
        let Some(connection) = self.get_mut_by_key(key) else { return };
        connection.ended_at = None;
        if std::mem::replace(&mut connection.is_ending, false) {
            let addresses = connection.addresses();
            self.open.entry(addresses).or_default().count += 1;
            self.lookups.clear();
        }
    }

    /// Records the end of an open connection.
    fn record_closed(&mut self, addresses: (Address, Address), last_frame: FrameNumber) {
        if let Some(open) = self.open.get_mut(&addresses) {
            open.count = open.count.saturating_sub(1);
            open.last_end = open.last_end.max(Some(last_frame));
            if open.count == 0 {
                self.open.remove(&addresses);
            }
        }
    }

    /// Returns the other connections between the hosts of a connection.
    pub(super) fn siblings(&self, at: usize) -> SiblingConnectionStatus {
        let Some(connection) = self.slots.get(at) else { return SiblingConnectionStatus::None };
        match self.open.get(&connection.addresses()) {
            Some(open) if open.count > usize::from(!connection.is_ending) => SiblingConnectionStatus::Open,
            Some(HostPairConnectionCount { last_end: Some(frame), .. }) => SiblingConnectionStatus::Ended(*frame),
            _ => SiblingConnectionStatus::None,
        }
    }

    pub(super) fn key(&self, at: usize) -> Option<ConnectionSlabKey> {
        self.slots.get(at).map(|connection| ConnectionSlabKey { slot: at, serial: connection.serial })
    }

    /// Returns the number of a connection; `None` before it has carried RPC.
    pub(super) fn number(&self, key: ConnectionSlabKey) -> Option<u64> {
        self.get_by_key(key)?.number
    }

    /// Returns `true` if the connection still exists.
    pub(super) fn contains_key(&self, key: ConnectionSlabKey) -> bool {
        self.get_by_key(key).is_some()
    }

    /// Returns the UDP connection between these ports, and the side of `ports.a`.
    pub(super) fn find_udp_connection(&self, ports: EndpointPair) -> Option<(usize, ConnectionSideAOrB)> {
        let at = *self.udp_connections.get(&ports.in_canonical_order().0)?;
        let a = &self.slots.get(at)?.ends[ConnectionSideAOrB::A];
        let is_a = (a.address, a.kind) == (ports.a.0, EndpointKind::Port(ports.a.1));
        Some((at, ConnectionSideAOrB::a_if(is_a)))
    }

    /// Pairs `path`, on which `sender` sends, with a connection as its missing direction. State of the `merged`
    /// connection, which held the path before, moves to it.
    fn pair_direction(&mut self, at: usize, sender: ConnectionSideAOrB, path: QueuePairFlowKey, merged: Option<usize>) {
        self.lookups.clear();
        let removed = merged.and_then(|index| self.remove(index));
        self.remove_unpaired(ordered_addresses(path.source, path.destination), at);
        self.paths.insert(path, (at, sender));
        let Some(connection) = self.slots.get_mut(at) else { return };
        connection.ends[sender.peer()].kind = EndpointKind::Queue(Some(path.qpn));
        connection.ends[sender].tenant = path.tenant;
        if let Some(mut removed) = removed {
            connection.number = connection.number.into_iter().chain(removed.number).min();
            // In a connection with one direction, the sender is the end whose queue pair is unknown.
            let removed_sender = ConnectionSideAOrB::a_if(!removed.ends[ConnectionSideAOrB::A].has_known_port());
            connection.conversation.merge(removed.conversation, removed_sender != sender);
            connection.reorder_buffer.adopt(removed.reorder_buffer, removed_sender != sender);
            connection.ends[sender].requests = std::mem::take(&mut removed.ends[removed_sender].requests);
        }
    }

    /// Adds a connection that the connection manager set up. Returns the connections whose paths it replaces; a
    /// repeated set-up changes nothing.
    pub(super) fn establish(
        &mut self,
        set_up: &CompletedCmConnectionSetUp,
        transport: ConnectionTransport,
        frame: FrameNumber,
    ) -> Vec<usize> {
        let CompletedCmConnectionSetUp { ends, communication, parameters, is_new_request, .. } = set_up;
        let [client, server] = ends;
        let paths = [(client, server), (server, client)].map(|(from, to)| QueuePairFlowKey {
            tenant: from.tenant,
            source: from.address,
            destination: to.address,
            qpn: to.qpn,
        });
        let mut replaced: Vec<usize> =
            paths.iter().filter_map(|path| self.paths.get(path)).map(|(at, _)| *at).collect();
        replaced.dedup();
        let mut existing = replaced.iter().filter_map(|at| self.slots.get(*at));
        // A connection that is requested again after it carried packets, or answered again after its end, is a new one,
        // even with the same IDs.
        let is_same = |connection: &FlowConnection| {
            connection.communication_ids == Some(*communication)
                && !((*is_new_request || connection.is_ending) && connection.has_seen_requests())
        };
        if existing.any(is_same) {
            return Vec::new();
        }
        let ends = ends.map(|end| ConnectionEndpointState {
            starting_psn: end.starting_psn,
            ..ConnectionEndpointState::for_queue_pair(end.address, end.tenant, Some(end.qpn))
        });
        let at = self.add(ends, transport);
        self.lookups.clear();
        if let Some(connection) = self.slots.get_mut(at) {
            connection.last_frame = frame;
            connection.opened_by = Some(ConnectionSideAOrB::A);
            connection.communication_ids = Some(*communication);
            connection.path_mtu = set_up.path_mtu.map(ObservedPathMtu::from_set_up).unwrap_or_default();
            connection.conversation.is_rpc = parameters.shows_rpc_over_rdma();
            connection.conversation.record_set_up(ConnectionSideAOrB::A, parameters);
            connection.parameters = Some(Arc::new(*parameters));
        }
        replaced
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<FlowConnection> {
        self.lookups.clear();
        let connection = self.slots.try_remove(at)?;
        self.accounted_bytes -= connection.accounted_bytes as usize;
        for (path, _) in connection.paths() {
            if self.paths.get(&path).is_some_and(|(other, _)| *other == at) {
                self.paths.remove(&path);
            }
        }
        self.remove_unpaired(connection.addresses(), at);
        if !connection.is_ending {
            self.record_closed(connection.addresses(), connection.last_frame);
        }
        let [a, b] = &connection.ends.0;
        if let (ConnectionTransport::Udp, EndpointKind::Port(port_a), EndpointKind::Port(port_b)) =
            (connection.transport, a.kind, b.kind)
        {
            let ports = EndpointPair { tenant: a.tenant, a: (a.address, port_a), b: (b.address, port_b) };
            self.udp_connections.remove(&ports.in_canonical_order().0);
        }
        Some(connection)
    }

    fn remove_unpaired(&mut self, addresses: (Address, Address), at: usize) {
        if let Some(unpaired) = self.unpaired.get_mut(&addresses) {
            if let Some(index) = unpaired.iter().position(|other| *other == at) {
                unpaired.remove(index);
            }
            if unpaired.is_empty() {
                self.unpaired.remove(&addresses);
            }
        }
    }

    /// Returns the eighth of the connections that were idle longest, those that are ending first.
    pub(super) fn longest_idle(&self) -> Vec<usize> {
        let connections = self.slots.iter();
        bounded_slab_growth::eighth_to_evict(
            connections.map(|(at, connection)| (!connection.is_ending, connection.last_frame, at)),
        )
    }
}
