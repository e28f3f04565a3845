//! Assigns the host and connection numbers of a trace.

use nfsrdma_dissectors::address::Address;
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, ConnectionTransport};
use rustc_hash::FxHashMap;

use crate::trace::file_format::{TraceConnection, TraceTransport};
use crate::trace::step::{NONE, TraceCallConnectionAndSession, TraceProcedure};

/// Memory of a connection and of its two hosts in bytes, with hash tables that are rehashed, and the sorted lists at
/// the end.
const ENDPOINT_BYTES: usize = 4 * (size_of::<(u64, TraceConnection)>() + 2 * size_of::<(TraceHostIdentity, u32)>());

#[derive(Debug, Default)]
pub(super) struct TraceEndpointNumbers {
    clients: TraceHostNumbers,
    servers: TraceHostNumbers,
    connections: FxHashMap<u64, TraceConnection>,
    /// Maximum number of clients, of servers and of connections. Further hosts get number [`NONE`].
    capacity: usize,
}

/// An address, and the client that the host represents in a recording.
type TraceHostIdentity = (Address, (u32, u32));

/// Numbers of the hosts of one side, by address; in a recording also by the client that the host represents.
type TraceHostNumbers = FxHashMap<TraceHostIdentity, u32>;

fn number_of(numbers: &mut TraceHostNumbers, capacity: usize, host: TraceHostIdentity) -> u32 {
    let next = numbers.len();
    if next >= capacity {
        return numbers.get(&host).copied().unwrap_or(NONE);
    }
    *numbers.entry(host).or_insert(next as u32)
}

/// Returns `true` for Calls that the server sends: NFSv4 callbacks and NLM_GRANTED.
fn is_server_call(procedure: &TraceProcedure) -> bool {
    let program = Program(procedure.program);
    match (program, procedure.number) {
        // NLM_GRANTED and NLM_GRANTED_MSG.
        (Program::NLM, 5 | 10) => true,
        _ => program.is_transient(),
    }
}

impl TraceEndpointNumbers {
    /// Creates numbers that use at most `memory_bytes` bytes.
    pub(super) fn new(memory_bytes: usize) -> Self {
        Self { capacity: (memory_bytes / ENDPOINT_BYTES).max(1), ..Self::default() }
    }

    /// Returns the addresses of the clients or the servers, sorted by number.
    pub(super) fn hosts(&self, is_server: bool) -> Vec<(u32, Address)> {
        let numbers = if is_server { &self.servers } else { &self.clients };
        let mut hosts: Vec<_> = numbers.iter().map(|((address, _), number)| (*number, *address)).collect();
        hosts.sort_unstable_by_key(|(number, _)| *number);
        hosts
    }

    pub(super) fn caller(
        &mut self,
        transaction: &Transaction,
        procedure: &TraceProcedure,
        represented: (u32, u32),
    ) -> TraceCallConnectionAndSession {
        let name = &transaction.connection;
        let is_forward = transaction.direction == CallDirection::Forward;
        // A server may open a connection for its callbacks.
        let is_reverse = if procedure.program == NONE { !is_forward } else { is_server_call(procedure) };
        let is_swapped = is_forward == is_reverse;
        let (client, server) = match is_swapped {
            true => (name.server.address, name.client.address),
            false => (name.client.address, name.server.address),
        };
        TraceCallConnectionAndSession {
            client: number_of(&mut self.clients, self.capacity, (client, represented)),
            server: number_of(&mut self.servers, self.capacity, (server, (0, 0))),
            connection: name.number,
            is_reverse,
            clientid: NONE,
            session: NONE,
            slot: NONE,
            sequence: NONE,
            owner: NONE,
        }
    }

    pub(super) fn record_step(&mut self, transaction: &Transaction, caller: &TraceCallConnectionAndSession) {
        let name = &transaction.connection;
        if self.connections.len() >= self.capacity && !self.connections.contains_key(&name.number) {
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
        let [requested, granted] = &mut connection.credits;
        let [call_bytes, reply_bytes] = &mut connection.longest;
        for (side, (credits, longest)) in sides.into_iter().zip([(requested, call_bytes), (granted, reply_bytes)]) {
            if let Some(message) = side
                && let Some(header_words) = message.rpcrdma
            {
                *credits = (*credits).max(header_words.calls_in_flight_credits().unwrap_or(0));
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
