//! Assigns the host and connection numbers of a trace.

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::{CallDirection, ConnectionTransport};
use nfsrdma_dissectors::rpc::Program;
use rustc_hash::FxHashMap;

use crate::trace::file_format::{TraceConnection, TraceTransport};
use crate::trace::{NONE, TraceCallConnectionAndSession, TraceProcedure};

/// Memory of a connection and of its two hosts in bytes, with hash tables that are rehashed, and the sorted lists at
/// the end.
const ENDPOINT_BYTES: usize =
    4 * (size_of::<(u64, TraceConnection)>() + 2 * size_of::<(TraceHostIdentity, u32)>());

/// Numbers of the hosts, and the connections.
#[derive(Debug)]
pub(super) struct TraceEndpointNumbers {
    pub(super) clients: TraceHostNumbers,
    pub(super) servers: TraceHostNumbers,
    connections: FxHashMap<u64, TraceConnection>,
    max_connections: usize,
}

/// An address, and the client that the host represents in a recording.
type TraceHostIdentity = (Address, (u32, u32));

/// Numbers of the hosts of one side, by address; in a recording also by the client that the host represents.
#[derive(Debug)]
pub(super) struct TraceHostNumbers {
    numbers: FxHashMap<TraceHostIdentity, u32>,
    /// Maximum number of hosts. Further ones get number [`NONE`].
    capacity: usize,
}

impl TraceHostNumbers {
    fn new(capacity: usize) -> Self {
        Self { numbers: FxHashMap::default(), capacity }
    }

    fn number_of(&mut self, address: Address, stands_for: (u32, u32)) -> u32 {
        let next = self.numbers.len();
        match self.numbers.get(&(address, stands_for)) {
            Some(number) => *number,
            None if next >= self.capacity => NONE,
            None => {
                self.numbers.insert((address, stands_for), next as u32);
                next as u32
            }
        }
    }

    /// Returns the addresses sorted by number.
    pub(super) fn sorted_by_number(&self) -> Vec<(u32, Address)> {
        let mut hosts: Vec<_> =
            self.numbers.iter().map(|((address, _), number)| (*number, *address)).collect();
        hosts.sort_unstable_by_key(|(number, _)| *number);
        hosts
    }
}

/// Returns `true` for Calls that the server sends: NFSv4 callbacks and NLM_GRANTED.
fn is_server_call(asked: &TraceProcedure) -> bool {
    let program = Program(asked.program);
    match (program, asked.procedure) {
        // NLM_GRANTED and NLM_GRANTED_MSG.
        (Program::NLM, 5 | 10) => true,
        _ => program.is_transient(),
    }
}

impl TraceEndpointNumbers {
    /// Creates numbers that use at most `memory_bytes` bytes.
    pub(super) fn new(memory_bytes: usize) -> Self {
        let capacity = (memory_bytes / ENDPOINT_BYTES).max(1);
        let hosts = || TraceHostNumbers::new(capacity);
        Self {
            clients: hosts(),
            servers: hosts(),
            connections: FxHashMap::default(),
            max_connections: capacity,
        }
    }

    /// Returns the caller of a Call.
    pub(super) fn caller(
        &mut self,
        transaction: &Transaction,
        asked: &TraceProcedure,
        stands_for: (u32, u32),
    ) -> TraceCallConnectionAndSession {
        let name = &transaction.connection;
        let is_forward = transaction.direction == CallDirection::Forward;
        // A server may open a connection for its callbacks.
        let is_reverse = if asked.program == NONE { !is_forward } else { is_server_call(asked) };
        let is_swapped = is_forward == is_reverse;
        let (client, server) = match is_swapped {
            true => (name.server.address, name.client.address),
            false => (name.client.address, name.server.address),
        };
        TraceCallConnectionAndSession {
            client: self.clients.number_of(client, stands_for),
            server: self.servers.number_of(server, (0, 0)),
            connection: name.number,
            is_reverse,
            clientid: NONE,
            session: NONE,
            slot: NONE,
            sequence: NONE,
            owner: NONE,
        }
    }

    /// Counts a step on its connection.
    pub(super) fn record_step(&mut self, transaction: &Transaction, caller: &TraceCallConnectionAndSession) {
        let name = &transaction.connection;
        if self.connections.len() >= self.max_connections && !self.connections.contains_key(&name.number) {
            return;
        }
        let connection = self.connections.entry(name.number).or_insert_with(|| TraceConnection {
            number: name.number,
            transport: match name.transport {
                ConnectionTransport::RoceV2 => TraceTransport::ROCEV2,
                ConnectionTransport::RoceV1 => TraceTransport::ROCEV1,
                ConnectionTransport::InfiniBand => TraceTransport::INFINIBAND,
                ConnectionTransport::Iwarp => TraceTransport::IWARP,
                ConnectionTransport::Tcp => TraceTransport::TCP,
                ConnectionTransport::Udp => TraceTransport::UDP,
            },
            client: caller.client,
            server: caller.server,
            steps: 0,
            longest: [0; 2],
            credits: [0; 2],
        });
        connection.steps += 1;
        let sides = [&transaction.call, &transaction.reply];
        let [asked, granted] = &mut connection.credits;
        let [up, down] = &mut connection.longest;
        for (side, (credits, longest)) in sides.into_iter().zip([(asked, up), (granted, down)]) {
            if let Some(message) = side
                && let Some(words) = message.rpcrdma
            {
                *credits = (*credits).max(words.calls_in_flight_credits().unwrap_or(0));
                *longest = (*longest).max(u32::try_from(message.length).unwrap_or(u32::MAX));
            }
        }
    }

    /// Returns the connections sorted by number.
    pub(super) fn connections(&self) -> Vec<TraceConnection> {
        let mut connections: Vec<_> = self.connections.values().cloned().collect();
        connections.sort_unstable_by_key(|connection| connection.number);
        connections
    }
}
