//! Submission of Calls and answers: their memory, their header, and the Send.
#![deny(unsafe_code)]

use std::sync::Arc;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_dissectors::xdr::{Encoder, roundup};

use super::connection::VerbsConnection;
use super::exposed_buffer::VerbsExposedBuffer;
use super::memory::{VerbsBuffer, VerbsMemoryAccess};
use super::per_server_resources::{PerServerVerbsResources, VerbsBufferPoolError};
use super::queue_pair::QueuePair;
use super::transport::{CLOSED, VerbsTransport};
use crate::outgoing_call::{DdpEligibleArgument, OutgoingRpcCall, PayloadContentLocation, SubmittedCallForm};
use crate::params::RpcClientConnectionId;
use crate::rpcrdma_framing::chunk_plan::CallChunkPlan;
use crate::rpcrdma_framing::offered_chunks::{ChunkRegions, ContiguousChunkMemory};
use crate::transport_error::{PermanentSubmitRefusal, SubmitBusyReason, SubmitError};

impl VerbsTransport {
    pub(super) fn submit_call(
        &mut self,
        connection: RpcClientConnectionId,
        call: &OutgoingRpcCall<'_>,
    ) -> Result<SubmittedCallForm, SubmitError> {
        let id = connection;
        let connection = self.connections.get_mut(connection.0 as usize).ok_or(CLOSED)?;
        let shared = self.devices.get_mut(connection.device).ok_or(CLOSED)?;
        if connection.open_queue().is_none() {
            return Err(CLOSED);
        }
        let params = connection.terms.rdma.as_ref().ok_or(CLOSED)?;
        let plan = CallChunkPlan::for_call(call, params).map_err(SubmitError::Refused)?;
        if !call.payloads.iter().all(|payload| payload_bytes(&self.stores, payload).is_some()) {
            return Err(SubmitError::Refused(PermanentSubmitRefusal::UnknownSharedMemory));
        }
        if connection.in_flight_calls.has(call.xid) {
            return Err(SubmitError::Refused(PermanentSubmitRefusal::XidInFlight));
        }
        if connection.credits.available() == 0 {
            connection.counts.credit_waits += 1;
            return Err(SubmitError::Busy(SubmitBusyReason::Credits));
        }
        let queue = connection.queue.as_mut().ok_or(CLOSED)?;
        if queue.free_send_entries() == 0 {
            return Err(SubmitError::Busy(SubmitBusyReason::Queue));
        }
        if let Err(error) = take_memory(shared, call, &plan, params.call_inline, &mut self.call_buffers) {
            shared.release_all(&mut self.call_buffers);
            return Err(match error {
                VerbsBufferPoolError::TooLong => SubmitError::Refused(PermanentSubmitRefusal::TooLong),
                VerbsBufferPoolError::Exhausted | VerbsBufferPoolError::Failed(_) => self.memory_error(id),
            });
        }

        // One window per chunk: for each buffer except the Send's, and for each payload in shared memory.
        let mut in_flight_call = self.free_calls.pop().unwrap_or_default();
        let shared_payloads = call.payloads.iter().enumerate().filter(|(index, payload)| {
            plan.is_read(*index) && matches!(payload.source, PayloadContentLocation::Shared { length: 1.., .. })
        });
        let chunks = if queue.has_windows() { self.call_buffers.len() - 1 + shared_payloads.count() } else { 0 };
        let has_room = queue.free_send_entries() > chunks;
        if !has_room || queue.take_windows(chunks, &mut self.windows).is_err() {
            shared.release_all(&mut self.call_buffers);
            self.free_calls.push(in_flight_call);
            return Err(match has_room {
                false => SubmitError::Busy(SubmitBusyReason::Queue),
                true => self.memory_error(id),
            });
        }

        let (mut buffers, mut windows) = (self.call_buffers.drain(..), self.windows.drain(..));
        let mut send = buffers.next().ok_or(SubmitError::Busy(SubmitBusyReason::Memory))?;
        let mut call_region = None;
        let (mut reads, mut writes) = (VerbsRegionList::default(), VerbsRegionList::default());
        if plan.is_long_call
            && let Some(mut buffer) = buffers.next()
        {
            let length = write_message(&mut buffer, 0, call, &plan, &self.stores);
            let exposed = queue.expose(buffer, length, windows.next());
            call_region = Some(exposed.region());
            in_flight_call.read_buffers.push(exposed);
        }
        for (_, payload) in call.payloads.iter().enumerate().filter(|(index, _)| plan.is_read(*index)) {
            let region = match payload.source {
                PayloadContentLocation::Shared { length: 0, .. } => ContiguousChunkMemory::default(),
                PayloadContentLocation::Shared { store, offset: at, length } => {
                    let shared_region = shared.shared_region(store);
                    let window = windows.next();
                    let region = shared_region
                        .and_then(|shared_region| queue.expose_shared(shared_region, at, length, window.as_ref()));
                    in_flight_call.windows.extend(window);
                    region.unwrap_or_default()
                }
                PayloadContentLocation::Copied(bytes) => {
                    let Some(mut buffer) = buffers.next() else { continue };
                    copy(&mut buffer, 0, bytes);
                    let exposed = queue.expose(buffer, bytes.len(), windows.next());
                    let region = exposed.region();
                    in_flight_call.read_buffers.push(exposed);
                    region
                }
            };
            reads.push(region);
        }
        for length in write_lengths(call, &plan) {
            let buffer = if length == 0 { None } else { buffers.next() };
            let exposed = buffer.map(|buffer| queue.expose(buffer, length as usize, windows.next()));
            let region = exposed.as_ref().map(VerbsExposedBuffer::region);
            writes.push(region.unwrap_or_default());
            in_flight_call.write_buffers.push(exposed);
        }
        let reply_buffer = plan.reply.and_then(|length| Some((buffers.next()?, length)));
        in_flight_call.reply =
            reply_buffer.map(|(buffer, length)| queue.expose(buffer, length as usize, windows.next()));
        drop((buffers, windows));

        let mut encoder = Encoder::reusing(std::mem::take(&mut self.scratch));
        let requested = connection.credits.requested;
        let regions = ChunkRegions {
            call: call_region,
            reads: reads.as_slice(),
            writes: writes.as_slice(),
            reply: in_flight_call.reply.as_ref().map(VerbsExposedBuffer::region),
        };
        in_flight_call.chunks.write_header(call, &plan, requested, &regions, &mut encoder);
        let mut length = copy(&mut send, 0, encoder.bytes());
        self.scratch = encoder.finish().0;
        if !plan.is_long_call {
            length = write_message(&mut send, length, call, &plan, &self.stores);
        }
        connection.counts.calls += 1;
        connection.counts.bytes_sent += length as u64;
        connection.credits.in_flight += 1;
        connection.in_flight_calls.add(call.xid, call.tag, in_flight_call).map_err(SubmitError::Refused)?;
        // The queue has a free entry, as checked above.
        if let Err(buffer) = queue.send(send, length) {
            shared.release(buffer);
        }
        Ok(plan.submitted)
    }

    /// Returns the error if no memory is left: busy if a Call in flight or a pending Send on any connection of the same
    /// resources will return some; otherwise a refusal, as nothing ever will.
    fn memory_error(&self, connection: RpcClientConnectionId) -> SubmitError {
        let device = self.connection(connection).map(|connection| connection.device);
        let mut sharing = self.connections.iter().filter(|other| Some(other.device) == device);
        let is_sending = |other: &VerbsConnection| other.queue.as_ref().is_some_and(QueuePair::is_sending);
        match sharing.any(|other| !other.in_flight_calls.is_empty() || is_sending(other)) {
            true => SubmitError::Busy(SubmitBusyReason::Memory),
            false => SubmitError::Refused(PermanentSubmitRefusal::Memory),
        }
    }

    pub(super) fn submit_answer(
        &mut self,
        connection: RpcClientConnectionId,
        xid: Xid,
        message: &[u8],
    ) -> Result<(), SubmitError> {
        let connection = self.connections.get_mut(connection.0 as usize).ok_or(CLOSED)?;
        let shared = self.devices.get_mut(connection.device).ok_or(CLOSED)?;
        let inline = connection.call_inline();
        if connection.open_queue().is_none() {
            return Err(CLOSED);
        }
        connection.responder.check_answer(xid, message, inline).map_err(SubmitError::Refused)?;
        let queue = connection.queue.as_mut().ok_or(CLOSED)?;
        if queue.free_send_entries() == 0 {
            return Err(SubmitError::Busy(SubmitBusyReason::Queue));
        }
        let buffer = shared.take(VerbsMemoryAccess::Message, inline as usize);
        let mut buffer = buffer.map_err(|_| SubmitError::Busy(SubmitBusyReason::Memory))?;
        let mut encoder = Encoder::reusing(std::mem::take(&mut self.scratch));
        connection.responder.encode(xid, &mut encoder);
        encoder.raw(message);
        let length = copy(&mut buffer, 0, encoder.bytes());
        self.scratch = encoder.finish().0;
        connection.responder.remove_call(xid);
        connection.counts.bytes_sent += length as u64;
        if let Err(buffer) = queue.send(buffer, length) {
            shared.release(buffer);
        }
        Ok(())
    }

    /// Sends the error that refuses a reverse-direction Call with chunks. If there is no buffer or queue entry, the
    /// server gets no answer, as after any Call that is discarded.
    pub(super) fn refuse_chunks(&mut self, connection: usize, xid: Xid) {
        let Some(connection) = self.connections.get_mut(connection) else { return };
        let Some(shared) = self.devices.get_mut(connection.device) else { return };
        let mut encoder = Encoder::reusing(std::mem::take(&mut self.scratch));
        if connection.responder.refuse(xid, &mut encoder)
            && let Some(queue) = connection.open_queue()
            && let Ok(mut buffer) = shared.take(VerbsMemoryAccess::Message, encoder.bytes().len())
        {
            let length = copy(&mut buffer, 0, encoder.bytes());
            match queue.send(buffer, length) {
                Ok(()) => connection.counts.bytes_sent += length as u64,
                Err(buffer) => shared.release(buffer),
            }
        }
        self.scratch = encoder.finish().0;
    }
}

/// The regions of a Call's chunks of one kind, up to the maximum of a Call, without heap allocation.
#[derive(Default)]
struct VerbsRegionList {
    regions: [ContiguousChunkMemory; OutgoingRpcCall::MAX_PAYLOADS],
    count: usize,
}

impl VerbsRegionList {
    fn push(&mut self, region: ContiguousChunkMemory) {
        if let Some(slot) = self.regions.get_mut(self.count) {
            *slot = region;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[ContiguousChunkMemory] {
        self.regions.get(..self.count).unwrap_or(&self.regions)
    }
}

/// Returns the lengths of the Write chunks in bytes; 0 for a result that is requested inline.
fn write_lengths(call: &OutgoingRpcCall<'_>, plan: &CallChunkPlan) -> impl Iterator<Item = u32> {
    let (call, plan) = (*call, *plan);
    (0..OutgoingRpcCall::MAX_PAYLOADS)
        .filter(move |index| plan.is_written(*index))
        .map(move |index| CallChunkPlan::write_length(&call, index))
}

/// Takes all buffers of a Call, in the order of their use.
fn take_memory(
    shared: &mut PerServerVerbsResources,
    call: &OutgoingRpcCall<'_>,
    plan: &CallChunkPlan,
    inline: u32,
    buffers: &mut Vec<VerbsBuffer>,
) -> Result<(), VerbsBufferPoolError> {
    buffers.push(shared.take(VerbsMemoryAccess::Message, inline as usize)?);
    if plan.is_long_call {
        buffers.push(shared.take(VerbsMemoryAccess::RemoteRead, call.length())?);
    }
    for (_, payload) in call.payloads.iter().enumerate().filter(|(index, _)| plan.is_read(*index)) {
        if matches!(payload.source, PayloadContentLocation::Copied(_)) {
            buffers.push(shared.take(VerbsMemoryAccess::RemoteRead, payload.length())?);
        }
    }
    for length in write_lengths(call, plan).filter(|length| *length > 0) {
        buffers.push(shared.take(VerbsMemoryAccess::RemoteWrite, length as usize)?);
    }
    if let Some(length) = plan.reply {
        buffers.push(shared.take(VerbsMemoryAccess::RemoteWrite, length as usize)?);
    }
    Ok(())
}

/// Writes the message at offset `at`, including the payloads that are sent inline, and returns its end offset.
fn write_message(
    to: &mut [u8],
    at: usize,
    call: &OutgoingRpcCall<'_>,
    plan: &CallChunkPlan,
    stores: &[Arc<[u8]>],
) -> usize {
    // `from` is an offset in the reduced message, `before` the bytes that the payloads so far would add to it.
    let (mut end, mut from, mut before) = (at, 0, 0);
    for (index, payload) in call.payloads.iter().enumerate() {
        let head_end = (payload.position as usize).saturating_sub(before);
        end = copy(to, end, call.message.get(from..head_end).unwrap_or_default());
        if !plan.is_read(index) {
            let bytes = payload_bytes(stores, payload).unwrap_or_default();
            end = copy(to, end, bytes);
            end = copy(to, end, [0; 3].get(..roundup(bytes.len())).unwrap_or_default());
        }
        (from, before) = (head_end, before + payload.padded());
    }
    copy(to, end, call.message.get(from..).unwrap_or_default())
}

/// Returns the bytes of a payload, from the Call or from shared memory.
fn payload_bytes<'c>(stores: &'c [Arc<[u8]>], payload: &DdpEligibleArgument<'c>) -> Option<&'c [u8]> {
    match payload.source {
        PayloadContentLocation::Copied(bytes) => Some(bytes),
        PayloadContentLocation::Shared { store, offset: at, length } => {
            stores.get(store.0 as usize)?.get(at..at.checked_add(length as usize)?)
        }
    }
}

fn copy(to: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    if let Some(target) = to.get_mut(at..end) {
        target.copy_from_slice(bytes);
    }
    end
}
