//! Converts a step back to the transaction that it was compiled from, so that traces can be compared and filtered like
//! captures.

use std::io::{Read, Seek};

use nfsrdma_analysis::comparison::trace_side_information::{TracePayloadAvailability, TraceTransactionSideInformation};
use nfsrdma_dissectors::address::{Address, Lid, VirtualNetwork};
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4;
use nfsrdma_dissectors::xdr::{ResultWriteChunkAssignment, roundup};
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::{CallDirection, ConnectionTransport, Endpoint, TransactionConnection};
use rustc_hash::{FxHashMap, FxHashSet};

use super::error::TraceError;
use super::file_format::{LONGEST, TraceTransport};
use super::reader::{ReplayTraceReader, TraceMetadata};
use super::step::{
    ChunkSegmentLengths, MessageCaptureCompleteness, NONE, PayloadContentState, TraceMessage, TraceMessageWireForm,
    TracePayload, TraceStep, VariableUseKind,
};
use super::wire_to_transaction_conversion::{
    ChunkedFilePayload, ReconstructedWireMessage, ReconstructedWireTransaction, padded,
};

/// Converts steps of a trace to transactions.
#[derive(Debug)]
pub struct StepToTransactionConverter {
    hosts: FxHashMap<(bool, u32), (Address, Box<str>)>,
    connections: FxHashMap<u64, ConnectionTransport>,
    /// Connections with forward calls, from the client of the files.
    forward: FxHashSet<u64>,
}

const MAX_REMEMBERED_CONNECTIONS: usize = 1 << 16;

impl StepToTransactionConverter {
    /// Creates a builder from the tables of a trace.
    pub fn for_trace(summary: &TraceMetadata) -> Self {
        let mut hosts = FxHashMap::default();
        let mut twins: FxHashMap<(bool, &str), u32> = FxHashMap::default();
        for host in &summary.hosts {
            *twins.entry((host.is_server, &host.address)).or_default() += 1;
        }
        for host in &summary.hosts {
            // The clients of a recorded run share one address, but are several.
            let name = match twins.get(&(host.is_server, host.address.as_str())) {
                Some(2..) => format!("{}#{}", host.address, host.number),
                _ => host.address.clone(),
            };
            hosts.insert((host.is_server, host.number), (parse_address(&host.address), name.into()));
        }
        let connections = summary.connections.iter().map(|connection| {
            let transport = match connection.transport {
                TraceTransport::ROCEV2 => ConnectionTransport::RoceV2,
                TraceTransport::ROCEV1 => ConnectionTransport::RoceV1,
                TraceTransport::INFINIBAND => ConnectionTransport::InfiniBand,
                TraceTransport::IWARP => ConnectionTransport::Iwarp,
                TraceTransport::UDP => ConnectionTransport::Udp,
                _ => ConnectionTransport::Tcp,
            };
            (connection.number, transport)
        });
        Self { hosts, connections: connections.collect(), forward: FxHashSet::default() }
    }

    /// Returns the unique name of the client of the connection of a step.
    pub fn client(&self, step: &TraceStep<'_>) -> &str {
        let host =
            if self.is_opened_by_server(step) { (true, step.caller.server) } else { (false, step.caller.client) };
        self.hosts.get(&host).map_or("-", |(_, name)| name)
    }

    /// Returns `true` if the server opened the connection to call the client, as in NFSv4.0 and NLM. Later minor
    /// versions send callbacks on a connection of the client.
    fn is_opened_by_server(&self, step: &TraceStep<'_>) -> bool {
        let is_later = !matches!(step.procedure.minor_version, 0 | NONE);
        step.caller.is_reverse && !is_later && !self.forward.contains(&step.caller.connection)
    }

    /// Returns the transaction of a step, and the facts about it that are not in its bytes. `contents` is the same
    /// trace, opened a second time.
    ///
    /// # Errors
    /// Returns an error if the trace is truncated or damaged.
    pub fn transaction(
        &mut self,
        step: &TraceStep<'_>,
        contents: &mut ReplayTraceReader<impl Read + Seek>,
    ) -> Result<(Transaction, TraceTransactionSideInformation), TraceError> {
        let caller = &step.caller;
        if !caller.is_reverse && self.forward.len() < MAX_REMEMBERED_CONNECTIONS {
            self.forward.insert(caller.connection);
        }
        let is_of_server = self.is_opened_by_server(step);
        let host = |is_server, number| {
            let address = self.hosts.get(&(is_server, number)).map_or(Address::Unknown, |(address, _)| *address);
            Endpoint { address, port: None }
        };
        let is_rdma =
            step.carried.call != TraceMessageWireForm::RECORD || step.carried.reply != TraceMessageWireForm::RECORD;
        let default_transport = if is_rdma { ConnectionTransport::RoceV2 } else { ConnectionTransport::Tcp };
        let connection = TransactionConnection {
            number: caller.connection,
            transport: self.connections.get(&caller.connection).copied().unwrap_or(default_transport),
            client: if is_of_server { host(true, caller.server) } else { host(false, caller.client) },
            server: if is_of_server { host(false, caller.client) } else { host(true, caller.server) },
            tenant: VirtualNetwork::NONE,
        };
        let is_reverse = caller.is_reverse && !is_of_server;
        let call = LoadedTraceMessage::load(&step.call, contents)?;
        let reply = LoadedTraceMessage::load(&step.reply, contents)?;
        let mut side_information = TraceTransactionSideInformation {
            data: [call.known_data(), reply.known_data()],
            ..TraceTransactionSideInformation::default()
        };
        let root_slots = step.call.slots.iter().filter(|slot| slot.part == VariableUseKind::FOR_ROOT);
        side_information.roots = root_slots.map(|slot| slot.operation).collect();
        let lengths = |segments: &ChunkSegmentLengths<'_>| segments.lengths.iter().collect::<Vec<u32>>();
        let (call_message, reads) = call.split_read_chunks(step.shape.reads.iter().map(|chunk| lengths(&chunk)));
        let returned: Vec<u32> = step.carried.returned.iter().collect();
        let writes = step.shape.writes.iter().enumerate();
        let writes = writes.map(|(at, chunk)| (lengths(&chunk), returned.get(at).copied().unwrap_or(0)));
        let (reply_message, writes) = reply.split_write_chunks(writes);
        let origin = &step.origin;
        let end = origin.time_ns.saturating_add(origin.latency_ns);
        let wire_message =
            |completeness: MessageCaptureCompleteness, at: usize, frame: u64, times: [u64; 2], message: Vec<u8>| {
                let form = if at == 0 { step.carried.call } else { step.carried.reply };
                let is_there =
                    completeness != MessageCaptureCompleteness::NOTHING || form == TraceMessageWireForm::ERROR;
                let credits = step.carried.credits.get(at).copied().unwrap_or(0);
                let is_whole = completeness != MessageCaptureCompleteness::PART;
                is_there.then_some(ReconstructedWireMessage {
                    form,
                    credits,
                    frame,
                    times_ns: times,
                    message,
                    is_complete: is_whole,
                })
            };
        let wire_transaction = ReconstructedWireTransaction {
            index: origin.id,
            repeats: origin.repeats,
            connection,
            direction: if is_reverse { CallDirection::Reverse } else { CallDirection::Forward },
            call: wire_message(step.call.completeness, 0, origin.call_frame, [origin.time_ns; 2], call_message),
            reply: wire_message(step.reply.completeness, 1, origin.reply_frame, [end; 2], reply_message),
            call_chunk: lengths(&step.shape.call),
            reads,
            writes,
            reply_chunk: lengths(&step.shape.reply),
            returned_bytes: step.carried.returned_reply,
            rdma_error: step.carried.rdma_error,
        };
        Ok((wire_transaction.into_transaction(), side_information))
    }
}

/// Parses an address as [`Address`] displays it.
fn parse_address(text: &str) -> Address {
    let lid = || text.strip_prefix("lid:")?.parse().ok().map(|lid| Address::Lid(Lid(lid)));
    text.parse().ok().map(Address::Ip).or_else(lid).unwrap_or_default()
}

/// Returns the positions of the operations of a COMPOUND that can have a DDP-eligible result. They match the Write
/// chunks (RFC 8267 section 6.4.1). Empty for any other procedure.
fn ddp_eligible_operations(reply: &TraceMessage<'_>) -> Vec<u32> {
    let items = reply.items();
    let mut cursor = reply.body_cursor().with_chunks(&items);
    let Ok(compound) = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver) else {
        return Vec::new();
    };
    let operations = compound.operations().map_while(Result::ok).zip(0..);
    let eligible = operations.filter(|(results, _)| v4::Results::is_ddp_eligible(results.operation()));
    eligible.map(|(_, at)| at).collect()
}

struct LoadedTraceMessage<'m> {
    message: &'m TraceMessage<'m>,
    /// Payloads outside the head, each with its content if that was kept.
    detached_payloads: Vec<(TracePayload, Option<Vec<u8>>)>,
}

impl<'m> LoadedTraceMessage<'m> {
    fn load(
        message: &'m TraceMessage<'m>,
        contents: &mut ReplayTraceReader<impl Read + Seek>,
    ) -> Result<Self, TraceError> {
        let mut detached_payloads = Vec::new();
        let max_bytes = u64::from(LONGEST);
        let total_bytes: u64 = message.payloads.iter().map(|payload| u64::from(payload.length)).sum();
        if total_bytes > max_bytes {
            return Err(TraceError::Damaged(message.payloads.iter().next().map_or(0, |first| first.data)));
        }
        for payload in message.payloads.iter().filter(|payload| !payload.is_inside) {
            let mut content = Vec::new();
            let is_kept = contents.content(&payload, &mut content)?;
            detached_payloads.push((payload, is_kept.then_some(content)));
        }
        Ok(Self { message, detached_payloads })
    }

    /// Returns the length and the known data of each payload, in message order.
    fn known_data(&self) -> Vec<(u64, TracePayloadAvailability)> {
        let length_and_availability = |payload: TracePayload| {
            let availability = match payload.content {
                PayloadContentState::KEPT | PayloadContentState::ZEROS => TracePayloadAvailability::Bytes,
                PayloadContentState::UNKNOWN => TracePayloadAvailability::Unknown,
                // Only the hash of the whole READ_PLUS data is compared, not those of its parts.
                _ if payload.is_inside => TracePayloadAvailability::Unknown,
                _ => TracePayloadAvailability::Hash(u128::from_be_bytes(payload.hash)),
            };
            (u64::from(payload.length), availability)
        };
        self.message.payloads.iter().map(length_and_availability).collect()
    }

    /// Splits the call into the message and the payloads that were sent in Read chunks.
    fn split_read_chunks(self, chunks: impl Iterator<Item = Vec<u32>>) -> (Vec<u8>, Vec<ChunkedFilePayload>) {
        let mut chunks = chunks.peekable();
        let mut items = Vec::new();
        let mut position = 0;
        let message = self.inline_payloads(|payload, content, at| {
            let offered_bytes = |chunk: &Vec<u32>| chunk.iter().map(|length| u64::from(*length)).sum::<u64>();
            // A chunk may include the XDR padding (RFC 8166 section 3.4.5.2).
            let is_of_this = |chunk: &Vec<u32>| {
                [u64::from(payload.length), padded(payload.length) as u64].contains(&offered_bytes(chunk))
            };
            let chunk_position = u32::try_from(at + position).unwrap_or(u32::MAX);
            let chunk = chunks.next_if(is_of_this)?;
            position += padded(payload.length);
            let length = u32::try_from(offered_bytes(&chunk)).unwrap_or(u32::MAX);
            let content = content.map(|mut content| {
                content.resize(length as usize, 0);
                content
            });
            items.push(ChunkedFilePayload { segments: chunk, position: chunk_position, length: Some(length), content });
            Some(())
        });
        // Chunks without a known payload, e.g. of a truncated call.
        let unmatched = chunks.map(|segments| ChunkedFilePayload { segments, ..ChunkedFilePayload::default() });
        items.extend(unmatched);
        (message, items)
    }

    /// Splits the reply into the message and the payloads that were returned in Write chunks.
    fn split_write_chunks(self, chunks: impl Iterator<Item = (Vec<u32>, u32)>) -> (Vec<u8>, Vec<ChunkedFilePayload>) {
        let mut items: Vec<_> = chunks
            .map(|(segments, returned)| ChunkedFilePayload {
                segments,
                length: Some(returned),
                ..ChunkedFilePayload::default()
            })
            .collect();
        let mut pairing = ResultWriteChunkAssignment::default();
        let operations = ddp_eligible_operations(self.message);
        let message = self.inline_payloads(|payload, content, _| {
            let operation_index = operations.iter().take_while(|operation| **operation < payload.operation).count();
            pairing = pairing.at_operation(operation_index);
            let returned = |at: usize| items.get(at).and_then(|item| item.length);
            let at = pairing.take(returned, payload.length, true)?;
            let item = items.get_mut(at)?;
            item.content = content;
            Some(())
        });
        (message, items)
    }

    /// Returns the message with each payload inserted that `elsewhere` does not take. `elsewhere` gets the payload, its
    /// content, and its position in the message.
    fn inline_payloads(
        self,
        mut elsewhere: impl FnMut(&TracePayload, Option<Vec<u8>>, usize) -> Option<()>,
    ) -> Vec<u8> {
        let head = self.message.head.0;
        let (mut message, mut from) = (Vec::with_capacity(head.len()), 0);
        for (payload, content) in self.detached_payloads {
            let at = (payload.at as usize).clamp(from, head.len());
            message.extend_from_slice(head.get(from..at).unwrap_or_default());
            from = at;
            let bytes = content.clone();
            if elsewhere(&payload, content, message.len()).is_some() {
                continue;
            }
            let end = message.len() + payload.length as usize + roundup(payload.length as usize);
            message.extend_from_slice(&bytes.unwrap_or_default());
            message.resize(end, 0);
        }
        message.extend_from_slice(head.get(from..).unwrap_or_default());
        message
    }
}
