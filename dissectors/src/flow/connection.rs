//! Connections: between two queue pairs, or between two ports.
//!
//! A segment of TCP and a datagram of UDP name both ports, so there is nothing to find out: streams know their connection
//! themselves, and those of UDP are found by addresses and ports.
//!
//! A BTH names only the queue pair that receives. The two directions of a connection are paired from the exchange of
//! the connection manager where that is in the capture, and otherwise by evidence in the traffic: an acknowledgement or
//! a Read response repeats a sequence number of the other direction, an RDMA Read or Write uses a handle that the
//! other direction advertised, a Reply has the XID of a Call.

use rustc_hash::FxHashMap;

use crate::address::{Address, Port, Tenant};
use crate::frame::FrameNumber;
use crate::infiniband::Qpn;
use crate::infiniband::cm::CommunicationId;
use crate::net::Datagram;
use crate::rdma::ConnectionSide;
use crate::rpcrdma::version2::PeerProperties;

use super::conversation::{MessageCredits, RpcConversation};
use super::recent_frames::IpIdVariation;
use super::reliable_connection::{ObservedPathMtu, Requests};
use super::reorder_buffer::ReorderBuffer;
use super::setup::{ConnectionSetUp, NegotiatedParameters, Peer};
use super::slab_limit;
use super::transaction::{CallDirection, ConnectionName, ConnectionTransport, Endpoint};

/// The packets of one direction: from an address to a queue pair at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuePairPath {
    /// Differs most often, so it is compared first.
    pub(super) qpn: Qpn,
    pub(super) tenant: Tenant,
    pub(super) source: Address,
    pub(super) destination: Address,
}

/// What a connection ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    /// A queue pair; unknown until something was sent to it.
    Queue(Option<Qpn>),
    /// A port of TCP or UDP.
    Port(Port),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct ConnectionEnd {
    pub(super) address: Address,
    /// The virtual network of what it sends.
    tenant: Tenant,
    mouth: EndpointKind,
    /// What a queue pair sends in its own sequence.
    pub(super) requests: Requests,
    /// What tells its packets apart.
    pub(super) identities: IpIdVariation,
}

impl ConnectionEnd {
    fn new(address: Address, tenant: Tenant, mouth: EndpointKind) -> Self {
        Self { address, tenant, mouth, requests: Requests::default(), identities: IpIdVariation::default() }
    }

    fn queue(address: Address, tenant: Tenant, qpn: Option<Qpn>) -> Self {
        Self::new(address, tenant, EndpointKind::Queue(qpn))
    }

    /// Its queue pair, if it has one and that is known.
    fn qpn(&self) -> Option<Qpn> {
        match self.mouth {
            EndpointKind::Queue(qpn) => qpn,
            EndpointKind::Port(_) => None,
        }
    }

    fn is_known(&self) -> bool {
        self.mouth != EndpointKind::Queue(None)
    }

    fn endpoint(&self) -> Endpoint {
        let port = match self.mouth {
            EndpointKind::Queue(qpn) => qpn.map(|qpn| qpn.0),
            EndpointKind::Port(port) => Some(port.0.into()),
        };
        Endpoint { address: self.address, port }
    }
}

/// The two ends of what goes between ports, from who sent the packet that was seen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PortPair {
    pub(super) tenant: Tenant,
    pub(super) a: (Address, Port),
    pub(super) b: (Address, Port),
}

impl PortPair {
    /// The same for either direction, and whether `a` and `b` changed places for it.
    pub(super) fn in_order(self) -> (Self, bool) {
        let is_swapped = self.a > self.b;
        (if is_swapped { Self { a: self.b, b: self.a, ..self } } else { self }, is_swapped)
    }
}

/// Names a connection, and never another one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    pub(super) at: usize,
    serial: u64,
}

/// What the set-up of a connection said, and whether it is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    /// Its number, as Transactions name it.
    pub number: u64,
    /// What its two sides told each other; `None` where their set-up was not seen, and without RDMA.
    pub terms: Option<NegotiatedParameters>,
    /// The properties that its client and its server told in version 2; `None` for a side that told none.
    pub properties: [Option<PeerProperties>; 2],
    /// The credits that its client and its server have for their messages in version 2; as if nothing was sent in other versions.
    pub message_credits: [MessageCredits; 2],
    /// Whether its end was seen: a FIN or a RST in its stream, or a DREQ of the connection manager.
    pub is_ending: bool,
}

/// A connection between two queue pairs, of which one may still be unknown, or between two ports.
#[derive(Debug)]
pub(super) struct FlowConnection {
    pub(super) transport: ConnectionTransport,
    serial: u64,
    pub(super) a: ConnectionEnd,
    pub(super) b: ConnectionEnd,
    pub(super) path_mtu: ObservedPathMtu,
    /// The side that opened it, where that was seen.
    pub(super) opened_by: Option<ConnectionSide>,
    /// Given with the first RPC message.
    pub(super) number: Option<u64>,
    pub(super) exchange: RpcConversation,
    /// Packets that wait for what tells their place.
    pub(super) early: ReorderBuffer,
    pub(super) last_frame: FrameNumber,
    /// Whether a FIN or a RST was seen in its stream, or a DREQ.
    pub(super) is_ending: bool,
    /// The two communication ids of the connection manager, which tell a repeated set-up from a new one.
    pub(super) communication: Option<(CommunicationId, CommunicationId)>,
    /// What its two sides told each other, where that was seen.
    pub(super) terms: Option<NegotiatedParameters>,
    /// Whether its stream goes on as MPA, under the same number.
    pub(super) has_next_phase: bool,
    /// The memory that it was found to take, in bytes.
    weight: u32,
}

impl FlowConnection {
    /// The side that opened the connection or, where that is unknown, the side that behaves as the client does.
    pub(super) fn client(&self) -> Option<ConnectionSide> {
        self.opened_by.or(self.exchange.calls_nfs)
    }

    /// How Transactions name the connection; `requester` counts as the client where nothing better is known.
    pub(super) fn name(&self, requester: ConnectionSide) -> ConnectionName {
        let (client, server) = match self.client().unwrap_or(requester) {
            ConnectionSide::A => (&self.a, &self.b),
            ConnectionSide::B => (&self.b, &self.a),
        };
        ConnectionName {
            number: self.number.unwrap_or(0),
            transport: self.transport,
            client: client.endpoint(),
            server: server.endpoint(),
            // A mirror may show the tags of one direction only.
            tenant: if client.tenant == Tenant::NONE { server.tenant } else { client.tenant },
        }
    }

    /// Its name, and the direction of a Transaction of `requester`.
    pub(super) fn place_of(&self, requester: ConnectionSide) -> (ConnectionName, CallDirection) {
        let client = self.client().unwrap_or(requester);
        let direction = if client == requester { CallDirection::Forward } else { CallDirection::Reverse };
        (self.name(client), direction)
    }

    /// What is known of it, once it has a number.
    pub(super) fn state(&self) -> Option<ConnectionState> {
        let Self { number, terms, is_ending, .. } = *self;
        let [a, b] = self.exchange.properties;
        let is_swapped = self.client() == Some(ConnectionSide::B);
        let properties = if is_swapped { [b, a] } else { [a, b] };
        let mut message_credits = self.exchange.message_credits;
        if is_swapped {
            message_credits.reverse();
        }
        if terms.is_none() {
            message_credits.iter_mut().for_each(|of| of.least_left = None);
        }
        Some(ConnectionState { number: number?, terms, properties, message_credits, is_ending })
    }

    /// Between which addresses the Calls of a side go.
    pub(super) fn route(&self, caller: ConnectionSide) -> (Tenant, Address, Address) {
        let own = self.end(caller);
        (own.tenant, own.address, self.end(caller.peer()).address)
    }

    /// The memory that it takes without packets that wait, in bytes.
    #[inline]
    fn memory_bytes(&self) -> usize {
        let ends = self.a.requests.memory_bytes() + self.b.requests.memory_bytes();
        CONNECTION_BYTES + ends + self.exchange.memory_bytes()
    }

    /// Whether packets of it were seen.
    fn has_carried(&self) -> bool {
        self.a.requests.has_begun() || self.b.requests.has_begun()
    }

    pub(super) fn is_paired(&self) -> bool {
        self.a.is_known() && self.b.is_known()
    }

    fn end(&self, side: ConnectionSide) -> &ConnectionEnd {
        match side {
            ConnectionSide::A => &self.a,
            ConnectionSide::B => &self.b,
        }
    }

    fn end_mut(&mut self, side: ConnectionSide) -> &mut ConnectionEnd {
        match side {
            ConnectionSide::A => &mut self.a,
            ConnectionSide::B => &mut self.b,
        }
    }

    /// The paths of its two directions, as far as they are known.
    fn paths(&self) -> impl Iterator<Item = (QueuePairPath, ConnectionSide)> {
        let path = |from: &ConnectionEnd, to: &ConnectionEnd| {
            let (source, destination) = (from.address, to.address);
            to.qpn().map(|qpn| QueuePairPath { tenant: from.tenant, source, destination, qpn })
        };
        let from_a = path(&self.a, &self.b).map(|path| (path, ConnectionSide::A));
        let from_b = path(&self.b, &self.a).map(|path| (path, ConnectionSide::B));
        from_a.into_iter().chain(from_b)
    }
}

/// Memory of a connection itself and of its places among the others, in bytes.
const CONNECTION_BYTES: usize =
    size_of::<FlowConnection>() + 4 * size_of::<(QueuePairPath, (usize, ConnectionSide))>();

/// How many of the connections between two addresses whose other direction is unknown are asked whether a packet is of
/// theirs, the latest first: where one direction is not captured at all, every packet asks.
const CANDIDATES: usize = 256;

/// All connections, found by the paths of their packets.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    slots: slab::Slab<FlowConnection>,
    paths: FxHashMap<QueuePairPath, (usize, ConnectionSide)>,
    /// Connections of UDP.
    datagrams: FxHashMap<PortPair, usize>,
    /// Counts connections.
    serial: u64,
    /// Connections of which one queue pair is unknown, by their addresses.
    unpaired: FxHashMap<(Address, Address), Vec<usize>>,
    last: Option<(QueuePairPath, usize, ConnectionSide)>,
    bound: usize,
    /// Memory of all connections, in bytes.
    weight: usize,
}

/// What looking for a path's connection did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathLookup {
    /// It was known.
    Known,
    /// It was found to be the other direction of a connection that was known.
    Paired,
    /// It was found to be the other direction, and so a connection that had been counted by itself is gone: this one.
    Joined(usize),
    /// It begins a connection.
    New,
}

impl ConnectionTable {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            slots: slab::Slab::new(),
            paths: FxHashMap::default(),
            datagrams: FxHashMap::default(),
            serial: 0,
            unpaired: FxHashMap::default(),
            last: None,
            bound: bound.max(1),
            weight: 0,
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&FlowConnection> {
        self.slots.get(at)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut FlowConnection> {
        self.slots.get_mut(at)
    }

    /// What is known of those that have a number.
    pub(super) fn states(&self) -> impl Iterator<Item = ConnectionState> + '_ {
        self.slots.iter().filter_map(|(_, connection)| connection.state())
    }

    /// Every connection.
    pub(super) fn all(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    /// How many connections there are, and marks of them; and how many bytes of unfinished messages they hold.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let unpaired: usize = self.unpaired.values().map(Vec::len).sum();
        let ends = self.slots.iter().flat_map(|(_, connection)| [&connection.a, &connection.b]);
        (
            self.slots.len().max(self.paths.len().div_ceil(2)).max(unpaired),
            ends.map(|end| end.requests.held_bytes()).sum(),
        )
    }

    /// Finds again how much memory a connection takes.
    #[inline]
    pub(super) fn weigh(&mut self, at: usize) {
        let Some(connection) = self.slots.get_mut(at) else { return };
        let now = u32::try_from(connection.memory_bytes()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut connection.weight, now);
        self.weight = (self.weight + now as usize).saturating_sub(before as usize);
    }

    /// Memory of all connections, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.weight
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_over_bound(&self) -> bool {
        self.slots.len() > self.bound
    }

    /// The connection that was found last, and the side that sends on it, if it is that of a packet to a queue pair.
    #[inline]
    pub(super) fn last_on(&self, datagram: &Datagram<'_>, qpn: Qpn) -> Option<(usize, ConnectionSide)> {
        let (path, at, side) = self.last.as_ref()?;
        let is_on = path.qpn == qpn
            && path.tenant == datagram.tenant
            && path.source == datagram.source
            && path.destination == datagram.destination;
        is_on.then_some((*at, *side))
    }

    /// The connection of a path and the side that sends on it. `evidence` tells whether the packet answers, or is
    /// answered by, what the given side of a connection sent.
    #[inline]
    pub(super) fn find(
        &mut self,
        path: QueuePairPath,
        transport: ConnectionTransport,
        evidence: impl Fn(&FlowConnection, ConnectionSide) -> bool,
    ) -> (usize, ConnectionSide, PathLookup) {
        if let Some((at, side)) = self.paths.get(&path).copied()
            && self.slots.get(at).is_some_and(FlowConnection::is_paired)
        {
            self.last = Some((path, at, side));
            return (at, side, PathLookup::Known);
        }
        self.find_unpaired(path, transport, evidence)
    }

    fn find_unpaired(
        &mut self,
        path: QueuePairPath,
        transport: ConnectionTransport,
        evidence: impl Fn(&FlowConnection, ConnectionSide) -> bool,
    ) -> (usize, ConnectionSide, PathLookup) {
        let own = self.paths.get(&path).copied();
        let find = |is_alike: fn(Tenant, Tenant) -> bool| {
            let mut candidates = self
                .unpaired
                .get(&between(path.source, path.destination))
                .into_iter()
                .flat_map(|unpaired| unpaired.iter().rev().take(CANDIDATES))
                .copied()
                .filter(|at| own.is_none_or(|(own, _)| own != *at))
                .filter_map(|at| {
                    // The sender of this packet is the end that is known there: the packet tells the other end's queue pair.
                    let connection = self.slots.get(at)?;
                    let sender = if connection.a.is_known() { ConnectionSide::A } else { ConnectionSide::B };
                    let fits = connection.end(sender).address == path.source
                        && is_alike(connection.end(sender.peer()).tenant, path.tenant)
                        && connection.end(sender.peer()).address == path.destination
                        && connection.transport == transport
                        && evidence(connection, sender.peer());
                    fits.then_some((at, sender))
                });
            let found = candidates.next();
            found.map(|found| (found, candidates.next().is_none()))
        };
        // One direction may have been mirrored with its tags, and the other without.
        let found = find(|one, other| one == other).or_else(|| find(Tenant::may_be));
        match (found.filter(|(_, is_certain)| *is_certain).map(|(found, _)| found), own) {
            (Some((at, sender)), own) => {
                let joined = own.map(|(joined, _)| joined);
                self.pair(at, sender, path, joined);
                (at, sender, joined.map_or(PathLookup::Paired, PathLookup::Joined))
            }
            (None, Some((at, side))) => (at, side, PathLookup::Known),
            (None, None) => {
                let (a, b) = (
                    ConnectionEnd::queue(path.source, path.tenant, None),
                    ConnectionEnd::queue(path.destination, Tenant::NONE, Some(path.qpn)),
                );
                let at = self.add(a, b, transport);
                (at, ConnectionSide::A, PathLookup::New)
            }
        }
    }

    fn add(&mut self, a: ConnectionEnd, b: ConnectionEnd, transport: ConnectionTransport) -> usize {
        let addresses = between(a.address, b.address);
        self.serial += 1;
        let connection = FlowConnection {
            transport,
            serial: self.serial,
            a,
            b,
            path_mtu: ObservedPathMtu::default(),
            opened_by: None,
            number: None,
            exchange: RpcConversation::default(),
            early: ReorderBuffer::default(),
            last_frame: FrameNumber::default(),
            is_ending: false,
            communication: None,
            terms: None,
            has_next_phase: false,
            weight: 0,
        };
        let is_paired = connection.is_paired();
        let paths: Vec<_> = connection.paths().collect();
        let at = slab_limit::insert(&mut self.slots, self.bound, connection);
        self.paths.extend(paths.into_iter().map(|(path, side)| (path, (at, side))));
        if !is_paired {
            self.unpaired.entry(addresses).or_default().push(at);
        }
        self.weigh(at);
        at
    }

    /// A connection between ports; side A is who sent what was seen first.
    pub(super) fn connect(&mut self, ports: PortPair, transport: ConnectionTransport) -> ConnectionKey {
        let [a, b] = [ports.a, ports.b]
            .map(|(address, port)| ConnectionEnd::new(address, ports.tenant, EndpointKind::Port(port)));
        let at = self.add(a, b, transport);
        if transport == ConnectionTransport::Udp {
            self.datagrams.insert(ports.in_order().0, at);
        }
        ConnectionKey { at, serial: self.serial }
    }

    /// The connection, if it is still there.
    pub(super) fn of(&self, key: ConnectionKey) -> Option<&FlowConnection> {
        self.slots.get(key.at).filter(|connection| connection.serial == key.serial)
    }

    /// The same, to be changed.
    pub(super) fn of_mut(&mut self, key: ConnectionKey) -> Option<&mut FlowConnection> {
        self.slots.get_mut(key.at).filter(|connection| connection.serial == key.serial)
    }

    /// The connection on which packets take this path.
    pub(super) fn on(&self, path: QueuePairPath) -> Option<ConnectionKey> {
        let (at, _) = *self.paths.get(&path)?;
        self.key(at)
    }

    /// The lasting name of the connection in a slot.
    pub(super) fn key(&self, at: usize) -> Option<ConnectionKey> {
        self.slots.get(at).map(|connection| ConnectionKey { at, serial: connection.serial })
    }

    /// The number of a connection, once it has carried RPC.
    pub(super) fn number(&self, key: ConnectionKey) -> Option<u64> {
        self.of(key)?.number
    }

    /// Whether the connection is still there.
    pub(super) fn has(&self, key: ConnectionKey) -> bool {
        self.of(key).is_some()
    }

    /// The connection of UDP between these ports, and the side of the end that stands first.
    pub(super) fn of_datagrams(&self, ports: PortPair) -> Option<(usize, ConnectionSide)> {
        let at = *self.datagrams.get(&ports.in_order().0)?;
        let a = &self.slots.get(at)?.a;
        let is_a = (a.address, a.mouth) == (ports.a.0, EndpointKind::Port(ports.a.1));
        Some((at, if is_a { ConnectionSide::A } else { ConnectionSide::B }))
    }

    /// Makes `path`, on which `sender` sends, the missing direction of a connection. What a connection of its own, if
    /// it had one, learnt from it moves along.
    fn pair(&mut self, at: usize, sender: ConnectionSide, path: QueuePairPath, joined: Option<usize>) {
        self.last = None;
        let taken = joined.and_then(|joined| self.take(joined));
        self.no_longer_unpaired(between(path.source, path.destination), at);
        self.paths.insert(path, (at, sender));
        let Some(connection) = self.slots.get_mut(at) else { return };
        connection.end_mut(sender.peer()).mouth = EndpointKind::Queue(Some(path.qpn));
        connection.end_mut(sender).tenant = path.tenant;
        if let Some(taken) = taken {
            let number = connection.number.into_iter().chain(taken.number).min();
            connection.number = number;
            // In a connection with one direction only, the sender is the end whose queue pair is unknown.
            let taken_sender = if !taken.a.is_known() { ConnectionSide::A } else { ConnectionSide::B };
            connection.exchange.join(taken.exchange, taken_sender != sender);
            connection.early.join(taken.early, taken_sender != sender);
            let taken = if taken_sender == ConnectionSide::A { taken.a } else { taken.b };
            connection.end_mut(sender).requests = taken.requests;
        }
    }

    /// A connection that the connection manager set up; gives those whose queue pairs it takes over. A set-up that was
    /// seen before changes nothing.
    pub(super) fn establish(
        &mut self,
        set_up: &ConnectionSetUp,
        transport: ConnectionTransport,
        frame: FrameNumber,
    ) -> Vec<usize> {
        let ConnectionSetUp { client, server, communication, terms, is_anew } = set_up;
        let paths = [(client, server), (server, client)].map(|(from, to)| QueuePairPath {
            tenant: from.tenant,
            source: from.address,
            destination: to.address,
            qpn: to.qpn,
        });
        let mut replaced: Vec<usize> =
            paths.iter().filter_map(|path| self.paths.get(path)).map(|(at, _)| *at).collect();
        replaced.dedup();
        let mut known = replaced.iter().filter_map(|at| self.slots.get(*at));
        // One that was asked for again after it had carried something is another, whatever its numbers.
        let is_same = |known: &FlowConnection| {
            known.communication == Some(*communication) && !(*is_anew && known.has_carried())
        };
        if known.any(is_same) {
            return Vec::new();
        }
        let end = |peer: &Peer| ConnectionEnd::queue(peer.address, peer.tenant, Some(peer.qpn));
        let at = self.add(end(client), end(server), transport);
        self.last = None;
        if let Some(connection) = self.slots.get_mut(at) {
            connection.last_frame = frame;
            connection.opened_by = Some(ConnectionSide::A);
            connection.communication = Some(*communication);
            connection.exchange.is_rpc = terms.say_rpc();
            connection.terms = Some(*terms);
        }
        replaced
    }

    /// Takes a connection out.
    pub(super) fn take(&mut self, at: usize) -> Option<FlowConnection> {
        self.last = None;
        let connection = self.slots.try_remove(at)?;
        self.weight -= connection.weight as usize;
        for (path, _) in connection.paths() {
            if self.paths.get(&path).is_some_and(|(other, _)| *other == at) {
                self.paths.remove(&path);
            }
        }
        self.no_longer_unpaired(between(connection.a.address, connection.b.address), at);
        if let (ConnectionTransport::Udp, EndpointKind::Port(a), EndpointKind::Port(b)) =
            (connection.transport, connection.a.mouth, connection.b.mouth)
        {
            let ports = PortPair {
                tenant: connection.a.tenant,
                a: (connection.a.address, a),
                b: (connection.b.address, b),
            };
            self.datagrams.remove(&ports.in_order().0);
        }
        Some(connection)
    }

    fn no_longer_unpaired(&mut self, addresses: (Address, Address), at: usize) {
        if let Some(unpaired) = self.unpaired.get_mut(&addresses) {
            if let Some(place) = unpaired.iter().position(|other| *other == at) {
                unpaired.remove(place);
            }
            if unpaired.is_empty() {
                self.unpaired.remove(&addresses);
            }
        }
    }

    /// The eighth of the connections that have been silent longest; first those that have ended.
    pub(super) fn most_silent(&self) -> Vec<usize> {
        let mut silent: Vec<_> =
            self.slots.iter().map(|(at, other)| (!other.is_ending, other.last_frame, at)).collect();
        let count = (silent.len() / 8).max(1).min(silent.len());
        if count < silent.len() {
            silent.select_nth_unstable(count - 1);
            silent.truncate(count);
        }
        silent.sort_unstable();
        silent.into_iter().map(|(_, _, at)| at).collect()
    }
}

/// A pair of addresses in either order.
fn between(one: Address, other: Address) -> (Address, Address) {
    if one <= other { (one, other) } else { (other, one) }
}
