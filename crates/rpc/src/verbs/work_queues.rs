//! The work queues of a queue pair. They own posted requests until a completion returns them: messages, receive
//! buffers, and binds and invalidations of windows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nfsrdma_dissectors::memory_handle::Handle;
use rdma_mummy_sys as ffi;

use super::cm_id::SharedRdmaCmId;
use super::completions::{CompletionQueue, VerbsCompletion, VerbsQueueSide, VerbsWorkError, VerbsWorkRequestId};
use super::context::ProtectionDomain;
use super::errno_conversion;
use super::memory::{MemoryWindowBindTarget, VerbsBuffer};
use super::window::{QueuePairMemoryWindows, VerbsBoundWindow};
use crate::transport_error::RpcClientTransportErrorKind;

/// The next queue pair number. A number is reused only after 2^32 others.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// Maximum number of Work Requests that are posted with one doorbell.
const LARGE_BATCH: usize = 16;
/// The batch size for few Work Requests, the usual case: the request arrays are zeroed each time, and a large batch
/// takes some kilobytes.
const SMALL_BATCH: usize = 2;

/// The capacity of each queue in Work Requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerbsQueueDepths {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
}

/// Proof that all operations of the server up to a Receive are done.
pub(crate) struct VerbsServerCompletionProof {
    queue: u32,
    /// Number of Receives completed, including that one.
    completed_receives: u64,
}

/// Proof that a queue pair is destroyed, so that neither its device nor its server can access memory through it.
pub(crate) struct QueuePairDestructionProof {
    pub(super) queue: u32,
}

impl VerbsServerCompletionProof {
    pub(super) fn covers(&self, queue: u32, exposed_at: u64) -> bool {
        self.queue == queue && self.completed_receives > exposed_at
    }
}

pub(crate) struct VerbsReceivedMessage {
    pub(crate) buffer: VerbsBuffer,
    length: usize,
    /// The handle that the Send invalidated, as the device reports it.
    pub(crate) invalidated: Option<Handle>,
    /// Proof that all operations of the server before this Send are done.
    pub(crate) fence: VerbsServerCompletionProof,
}

impl VerbsReceivedMessage {
    /// Returns the bytes of the Send.
    pub(crate) fn message(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or(&self.buffer)
    }
}

/// The result of processing a completion.
pub(crate) enum VerbsCompletionOutcome {
    /// Send-queue requests are done; their buffers were returned.
    Sent,
    Received(VerbsReceivedMessage),
    /// A Work Request failed, and with it the connection.
    Failed(VerbsWorkError),
}

pub(super) enum VerbsSendRequest {
    /// Sends a message of this length in bytes.
    Send(VerbsBuffer, usize),
    /// Binds the window with this index to bytes, under this handle.
    Bind(usize, Handle, MemoryWindowBindTarget),
    /// Invalidates a handle. Until that completes the server can access the buffer.
    Invalidate(Handle, Option<VerbsBuffer>),
}

/// The two queues of a queue pair, and the requests that they own.
pub(super) struct VerbsWorkQueues {
    pub(super) identifier: Arc<SharedRdmaCmId>,
    completions: Arc<CompletionQueue>,
    pub(super) domain: Arc<ProtectionDomain>,
    /// The number that identifies it in completions.
    pub(super) number: u32,
    depth: VerbsQueueDepths,
    /// Requests posted to the send queue, in order: the buffer to return on completion, if any.
    sends: VecDeque<Option<VerbsBuffer>>,
    staged: VecDeque<VerbsSendRequest>,
    first_send: u32,
    /// The windows, if chunks have any.
    pub(super) windows: Option<QueuePairMemoryWindows>,
    receives: VecDeque<VerbsBuffer>,
    first_receive: u32,
    pub(super) completed_receives: u64,
    is_created: bool,
}

impl VerbsWorkQueues {
    /// Creates a queue pair. Returns an error if identifier, domain and completion queue are of different devices, or a
    /// capacity is exceeded.
    pub(super) fn new(
        identifier: Arc<SharedRdmaCmId>,
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        depth: VerbsQueueDepths,
    ) -> Result<Self, RpcClientTransportErrorKind> {
        let is_same_device = domain.context.is_device_of(&identifier) && completions.context.is_device_of(&identifier);
        if !is_same_device {
            return Err(RpcClientTransportErrorKind::NoDevice);
        }
        let max_depth = domain.context.limits.queue_depth;
        let depth = VerbsQueueDepths { sends: depth.sends.min(max_depth), receives: depth.receives.min(max_depth) };
        if !completions.reserve(depth.sends + depth.receives) {
            let error = std::io::Error::other("too many connections for one completion queue");
            return Err(RpcClientTransportErrorKind::System("making a queue pair", error));
        }
        let mut queues = Self {
            identifier,
            completions: Arc::clone(completions),
            domain: Arc::clone(domain),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            depth,
            sends: VecDeque::with_capacity(depth.sends as usize),
            staged: VecDeque::with_capacity(depth.sends as usize),
            first_send: 0,
            windows: None,
            receives: VecDeque::with_capacity(depth.receives as usize),
            first_receive: 0,
            completed_receives: 0,
            is_created: false,
        };
        let mut attributes = ffi::ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: completions.pointer(),
            recv_cq: completions.pointer(),
            srq: std::ptr::null_mut(),
            cap: ffi::ibv_qp_cap {
                max_send_wr: depth.sends,
                max_recv_wr: depth.receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: identifier, domain and completion queue are valid and of one device, as checked above; the queue pair
        // owns references to them; the attributes are read and written by this call only.
        let result = unsafe { ffi::rdma_create_qp(queues.identifier.pointer(), domain.pointer(), &raw mut attributes) };
        errno_conversion::check_last("rdma_create_qp", result)?;
        queues.is_created = true;
        Ok(queues)
    }

    pub(super) fn use_windows(&mut self) {
        self.windows.get_or_insert_with(|| QueuePairMemoryWindows::new(&self.domain));
    }

    pub(super) fn free_send_entries(&self) -> usize {
        (self.depth.sends as usize).saturating_sub(self.sends.len() + self.staged.len())
    }

    /// Returns `true` if a request is staged, or posted to the send queue without a known completion.
    pub(super) fn is_sending(&self) -> bool {
        !self.sends.is_empty() || !self.staged.is_empty()
    }

    /// Stages a request for the next [`flush`](Self::flush).
    pub(super) fn stage(&mut self, work: VerbsSendRequest) {
        self.staged.push_back(work);
    }

    /// Stages the bind of a chunk's window, before the next Send.
    pub(super) fn bind(&mut self, bound: &VerbsBoundWindow, target: MemoryWindowBindTarget) {
        if let Some(windows) = &mut self.windows {
            windows.bind(bound);
            self.staged.push_back(VerbsSendRequest::Bind(bound.index, bound.handle, target));
        }
    }

    pub(super) fn flush(&mut self) -> Result<bool, RpcClientTransportErrorKind> {
        let mut is_posted = false;
        while !self.staged.is_empty() && self.sends.len() < self.depth.sends as usize {
            match self.staged.len() {
                ..=SMALL_BATCH => self.post_sends::<SMALL_BATCH>()?,
                _ => self.post_sends::<LARGE_BATCH>()?,
            }
            is_posted = true;
        }
        Ok(is_posted)
    }

    pub(super) fn receive(&mut self, buffers: &mut Vec<VerbsBuffer>) -> Result<(), RpcClientTransportErrorKind> {
        while !buffers.is_empty() && self.receives.len() < self.depth.receives as usize {
            match buffers.len() {
                ..=SMALL_BATCH => self.post_receives::<SMALL_BATCH>(buffers)?,
                _ => self.post_receives::<LARGE_BATCH>(buffers)?,
            }
        }
        Ok(())
    }

    fn post_sends<const MOST: usize>(&mut self) -> Result<(), RpcClientTransportErrorKind> {
        // SAFETY: all-zero bytes are a valid value of these structures: numbers, null pointers, and unions of them.
        let (mut requests, mut gathers): ([ffi::ibv_send_wr; MOST], [ffi::ibv_sge; MOST]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let free_entries = (self.depth.sends as usize).saturating_sub(self.sends.len());
        let count = self.staged.len().min(free_entries).min(MOST);
        let mut bound = [const { None }; MOST];
        for (((request, gather), bound), work) in
            requests.iter_mut().zip(&mut gathers).zip(&mut bound).zip(self.staged.drain(..count))
        {
            let number = self.first_send.wrapping_add(self.sends.len() as u32);
            request.wr_id = VerbsWorkRequestId { queue: self.number, side: VerbsQueueSide::Send, number }.pack();
            match work {
                VerbsSendRequest::Send(buffer, length) => {
                    *gather = buffer.gather(length);
                    request.sg_list = gather;
                    request.num_sge = 1;
                    request.opcode = ffi::ibv_wr_opcode::IBV_WR_SEND;
                    self.sends.push_back(Some(buffer));
                }
                VerbsSendRequest::Bind(at, handle, target) => {
                    let mw = self.windows.as_ref().map_or(std::ptr::null_mut(), |windows| windows.pointer(at));
                    let bind_info = target.bind_info();
                    request.opcode = ffi::ibv_wr_opcode::IBV_WR_BIND_MW;
                    request.bind_mw_tso_union.bind_mw = ffi::bind_mw_t { mw, rkey: handle.0, bind_info };
                    *bound = Some((at, handle, target));
                    self.sends.push_back(None);
                }
                VerbsSendRequest::Invalidate(handle, buffer) => {
                    request.opcode = ffi::ibv_wr_opcode::IBV_WR_LOCAL_INV;
                    request.imm_data_invalidated_rkey_union.invalidated_rkey = handle.0;
                    self.sends.push_back(buffer);
                }
            }
        }
        if let Some(last) = requests.get_mut(count.saturating_sub(1)) {
            last.send_flags = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        let list = requests.as_mut_ptr();
        for index in 1..count {
            // SAFETY: both are elements of the array, as `count` is at most its length.
            unsafe { (*list.add(index - 1)).next = list.add(index) };
        }
        let mut rejected_request = std::ptr::null_mut();
        // SAFETY: the queue pair is valid, as `is_created` shows; the requests are a list of `count` with a null at its
        // end; their buffers are registered in its domain, and stay in `sends` until the completion or until the queue
        // pair is destroyed. Rejected requests stay there as well. Windows are valid as long as the queue pair, and
        // `bound` owns the slices that they are bound to during this call; afterwards the exposed buffers do.
        let result = unsafe { ffi::ibv_post_send(self.pointer(), list, &raw mut rejected_request) };
        if let Some(windows) = &mut self.windows {
            bound.iter().flatten().for_each(|(at, handle, _)| windows.record_posted(*at, *handle));
        }
        errno_conversion::check_returned("ibv_post_send", result)
    }

    fn post_receives<const MOST: usize>(
        &mut self,
        buffers: &mut Vec<VerbsBuffer>,
    ) -> Result<(), RpcClientTransportErrorKind> {
        // SAFETY: as in `post_sends`.
        let (mut requests, mut gathers): ([ffi::ibv_recv_wr; MOST], [ffi::ibv_sge; MOST]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let free_entries = (self.depth.receives as usize).saturating_sub(self.receives.len());
        let count = buffers.len().min(free_entries).min(MOST);
        for ((request, gather), buffer) in
            requests.iter_mut().zip(&mut gathers).zip(buffers.drain(buffers.len() - count..))
        {
            *gather = buffer.gather(buffer.len());
            let number = self.first_receive.wrapping_add(self.receives.len() as u32);
            request.wr_id = VerbsWorkRequestId { queue: self.number, side: VerbsQueueSide::Receive, number }.pack();
            request.sg_list = gather;
            request.num_sge = 1;
            self.receives.push_back(buffer);
        }
        let list = requests.as_mut_ptr();
        for index in 1..count {
            // SAFETY: both are elements of the array, as `count` is at most its length.
            unsafe { (*list.add(index - 1)).next = list.add(index) };
        }
        let mut rejected_request = std::ptr::null_mut();
        // SAFETY: as in `post_sends`; the buffers are in `receives`.
        let result = unsafe { ffi::ibv_post_recv(self.pointer(), list, &raw mut rejected_request) };
        errno_conversion::check_returned("ibv_post_recv", result)
    }

    pub(super) fn finish(
        &mut self,
        completion: VerbsCompletion,
        free: &mut Vec<VerbsBuffer>,
    ) -> Result<VerbsCompletionOutcome, VerbsCompletion> {
        let VerbsCompletion { id, outcome } = completion;
        if id.queue != self.number {
            return Err(VerbsCompletion { id, outcome });
        }
        let completed = match outcome {
            Ok(completed) => completed,
            // The buffers stay until the queue pair is destroyed, as it is not used after a failure.
            Err(failure) => return Ok(VerbsCompletionOutcome::Failed(failure)),
        };
        match id.side {
            VerbsQueueSide::Send => {
                let distance = id.number.wrapping_sub(self.first_send) & VerbsWorkRequestId::NUMBER;
                if distance as usize >= self.sends.len() {
                    return Err(VerbsCompletion { id, outcome: Ok(completed) });
                }
                self.first_send = self.first_send.wrapping_add(distance + 1) & VerbsWorkRequestId::NUMBER;
                free.extend(self.sends.drain(..=distance as usize).flatten());
                Ok(VerbsCompletionOutcome::Sent)
            }
            VerbsQueueSide::Receive => {
                // Receives of a reliable connection complete in the order of posting.
                let buffer = if id.number == self.first_receive & VerbsWorkRequestId::NUMBER {
                    self.receives.pop_front()
                } else {
                    None
                };
                let Some(buffer) = buffer else { return Err(VerbsCompletion { id, outcome: Ok(completed) }) };
                self.first_receive = self.first_receive.wrapping_add(1) & VerbsWorkRequestId::NUMBER;
                self.completed_receives += 1;
                let fence =
                    VerbsServerCompletionProof { queue: self.number, completed_receives: self.completed_receives };
                let length = completed.length.min(buffer.len());
                Ok(VerbsCompletionOutcome::Received(VerbsReceivedMessage {
                    buffer,
                    length,
                    invalidated: completed.invalidated,
                    fence,
                }))
            }
        }
    }

    pub(super) fn disconnect(&self) {
        // SAFETY: the identifier is valid; the error of one that is not connected any more has no effect.
        unsafe { ffi::rdma_disconnect(self.identifier.pointer()) };
    }

    /// Destroys the queue pair, and moves all its buffers to `free`; `None` if the device does not destroy it.
    pub(super) fn destroy_and_drain(&mut self, free: &mut Vec<VerbsBuffer>) -> Option<QueuePairDestructionProof> {
        if !self.destroy() {
            return None;
        }
        free.extend(self.sends.drain(..).flatten());
        free.extend(self.staged.drain(..).filter_map(|work| match work {
            VerbsSendRequest::Send(buffer, _) => Some(buffer),
            VerbsSendRequest::Invalidate(_, buffer) => buffer,
            VerbsSendRequest::Bind(..) => None,
        }));
        free.extend(self.receives.drain(..));
        Some(QueuePairDestructionProof { queue: self.number })
    }

    /// Destroys the queue pair. Returns `true` if it is gone, so that the device does not access posted memory any
    /// more.
    fn destroy(&mut self) -> bool {
        // Windows are freed before their queue pair.
        self.windows = None;
        if self.is_created {
            let id = self.identifier.pointer();
            // SAFETY: the identifier is valid, and has a queue pair, as `is_created` shows; it is destroyed once, as
            // the pointer is null after that. rdma_destroy_qp does the same for a queue pair with external completion
            // queues, but does not return the result.
            unsafe {
                if ffi::ibv_destroy_qp((*id).qp) == 0 {
                    (*id).qp = std::ptr::null_mut();
                    self.is_created = false;
                }
            }
        }
        !self.is_created
    }

    fn pointer(&self) -> *mut ffi::ibv_qp {
        // SAFETY: the identifier is valid, and has had this queue pair since `new`.
        unsafe { (*self.identifier.pointer()).qp }
    }
}

impl Drop for VerbsWorkQueues {
    fn drop(&mut self) {
        // Runs before the buffers are dropped. Buffers of a queue pair that could not be destroyed are in no pool any
        // more, and a region frees its bytes only after a successful deregistration.
        if self.destroy() {
            self.completions.release(self.depth.sends + self.depth.receives);
        } else {
            // The objects that the queue pair depends on are leaked with it.
            let needed = (&self.identifier, &self.completions, &self.domain);
            std::mem::forget((Arc::clone(needed.0), Arc::clone(needed.1), Arc::clone(needed.2)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_covers_earlier_exposures_of_its_queue_only() {
        let fence = VerbsServerCompletionProof { queue: 7, completed_receives: 3 };
        assert!(fence.covers(7, 2));
        assert!(!fence.covers(7, 3), "exposed after the Receive");
        assert!(!fence.covers(8, 0), "of another connection");
    }
}
