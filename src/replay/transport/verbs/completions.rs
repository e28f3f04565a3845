//! The completion queue that the queue pairs of a device share: one place to look at, and one descriptor to wait on.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;
use rdma_mummy_sys::ibv_wc_status as wc;

use super::super::{DisconnectReason, RdmaFabric, RpcTransportErrorKind};
use super::context::VerbsContext;
use super::{failure, wait};

/// Completions that are taken at once.
const BATCH: usize = 32;

/// A completion of which nothing is said.
// SAFETY: all bytes zero are a value of this structure: numbers, and a union of them.
const NOTHING: ffi::ibv_wc = unsafe { std::mem::zeroed() };

/// Room for the completions that are taken at once, all of them zero in between: devices leave fields out that mean nothing, as
/// mlx5 does with the length of a Send and with the handle where nothing was invalidated.
pub(crate) struct VerbsCompletionBatch([ffi::ibv_wc; BATCH]);

impl Default for VerbsCompletionBatch {
    fn default() -> Self {
        Self([NOTHING; BATCH])
    }
}

impl fmt::Debug for VerbsCompletionBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

/// Names a Work Request in its completion: the queue pair, which of its queues, and the number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerbsWorkRequestId {
    pub(super) queue: u32,
    pub(super) side: VerbsQueueSide,
    /// Counts on, and wraps at 31 bits.
    pub(super) number: u32,
}

/// The two queues of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbsQueueSide {
    Send,
    Receive,
}

impl VerbsWorkRequestId {
    /// The bits of a number.
    pub(super) const NUMBER: u32 = u32::MAX >> 1;

    /// As a Work Request has it.
    pub(super) fn pack(self) -> u64 {
        let side = if self.side == VerbsQueueSide::Receive { Self::NUMBER + 1 } else { 0 };
        (u64::from(self.queue) << 32) | u64::from(side | (self.number & Self::NUMBER))
    }

    fn unpack(id: u64) -> Self {
        let low = (id & u64::from(u32::MAX)) as u32;
        let side = if low > Self::NUMBER { VerbsQueueSide::Receive } else { VerbsQueueSide::Send };
        Self { queue: (id >> 32) as u32, side, number: low & Self::NUMBER }
    }
}

/// The end of a Work Request. Only a completion queue makes one, and only once.
#[derive(Debug)]
pub(crate) struct VerbsCompletion {
    pub(super) id: VerbsWorkRequestId,
    pub(super) outcome: Result<VerbsCompletedWork, VerbsWorkError>,
}

impl VerbsCompletion {
    /// The queue pair that it is for.
    pub(crate) fn queue(&self) -> u32 {
        self.id.queue
    }
}

/// What a Work Request did.
#[derive(Debug)]
pub(super) struct VerbsCompletedWork {
    pub(super) length: usize,
    pub(super) invalidated: Option<Handle>,
}

/// Why a Work Request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbsWorkError {
    /// Another failed before, or the connection is gone: this one was never tried.
    Flushed,
    /// What it says about the connection.
    Broken(DisconnectReason),
}

impl VerbsWorkError {
    fn of(status: wc::Type, fabric: RdmaFabric) -> Self {
        Self::Broken(match status {
            wc::IBV_WC_WR_FLUSH_ERR => return Self::Flushed,
            wc::IBV_WC_RETRY_EXC_ERR | wc::IBV_WC_RESP_TIMEOUT_ERR => DisconnectReason::Unreachable,
            wc::IBV_WC_RNR_RETRY_EXC_ERR => DisconnectReason::NoReceiver,
            wc::IBV_WC_LOC_LEN_ERR => DisconnectReason::Length,
            // Soft-iWARP says so of a Send whose TCP connection broke under it.
            wc::IBV_WC_LOC_QP_OP_ERR if fabric == RdmaFabric::Iwarp => DisconnectReason::Reset,
            // A Work Request of this side that its own device does not take: memory that is not registered, a window that
            // cannot be bound, a queue pair in the wrong state. InfiniBand Architecture Specification, section 11.6.2.
            wc::IBV_WC_LOC_ACCESS_ERR
            | wc::IBV_WC_LOC_PROT_ERR
            | wc::IBV_WC_LOC_QP_OP_ERR
            | wc::IBV_WC_MW_BIND_ERR => DisconnectReason::Own,
            wc::IBV_WC_REM_ACCESS_ERR => DisconnectReason::RemoteAccess,
            wc::IBV_WC_REM_INV_REQ_ERR | wc::IBV_WC_REM_INV_RD_REQ_ERR => DisconnectReason::RemoteAccess,
            wc::IBV_WC_REM_OP_ERR | wc::IBV_WC_REM_ABORT_ERR => DisconnectReason::Reset,
            wc::IBV_WC_FATAL_ERR => DisconnectReason::Device,
            _ => DisconnectReason::Protocol,
        })
    }
}

/// A completion queue, and the channel that tells when there is something in it.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    queue: NonNull<ffi::ibv_cq>,
    channel: NonNull<ffi::ibv_comp_channel>,
    capacity: u32,
    reserved: AtomicU32,
    /// The channel tells, or has told, of the next completion.
    is_armed: AtomicBool,
    context: Arc<VerbsContext>,
}

// SAFETY: libibverbs is safe to call from any thread on one completion queue and on one channel.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A new one with room for this many completions, or for as many as the device can have.
    ///
    /// # Errors
    /// Where the device gives none.
    pub(crate) fn new(
        context: &Arc<VerbsContext>,
        capacity: u32,
    ) -> Result<Arc<Self>, RpcTransportErrorKind> {
        // SAFETY: the device is open.
        let channel = NonNull::new(unsafe { ffi::ibv_create_comp_channel(context.pointer()) })
            .ok_or_else(|| failure::last("ibv_create_comp_channel"))?;
        let capacity = capacity.min(context.limits.completions).max(1);
        let entries = i32::try_from(capacity).unwrap_or(i32::MAX);
        // SAFETY: device and channel are open, and the vector 0 is always there.
        let queue = unsafe {
            ffi::ibv_create_cq(context.pointer(), entries, std::ptr::null_mut(), channel.as_ptr(), 0)
        };
        let Some(queue) = NonNull::new(queue) else {
            let kind = failure::last("ibv_create_cq");
            // SAFETY: created above, and not used by anything.
            unsafe { ffi::ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(kind);
        };
        let this = Self {
            queue,
            channel,
            capacity,
            reserved: AtomicU32::new(0),
            is_armed: AtomicBool::new(false),
            context: Arc::clone(context),
        };
        wait::never_block(this.fd()).map_err(|error| failure::kind("a completion channel", error))?;
        Ok(Arc::new(this))
    }

    /// The queue for calls of libibverbs; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::ibv_cq {
        self.queue.as_ptr()
    }

    /// The device.
    pub(super) fn context(&self) -> &Arc<VerbsContext> {
        &self.context
    }

    /// Sets room aside for the Work Requests of a queue pair: a queue that overflows is of no more use.
    pub(super) fn reserve(&self, entries: u32) -> bool {
        let more = |reserved: u32| reserved.checked_add(entries).filter(|sum| *sum <= self.capacity);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives room back.
    pub(super) fn give_back(&self, entries: u32) {
        self.reserved.fetch_sub(entries, Ordering::Relaxed);
    }

    /// Takes what is there, a batch at most, and tells how much that was.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn poll(
        &self,
        VerbsCompletionBatch(batch): &mut VerbsCompletionBatch,
        into: &mut VecDeque<VerbsCompletion>,
    ) -> Result<usize, RpcTransportErrorKind> {
        // SAFETY: the queue is valid, and the array has room for as many entries as are asked for.
        let count = unsafe { ffi::ibv_poll_cq(self.pointer(), BATCH as i32, batch.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| failure::last("ibv_poll_cq"))?;
        for entry in batch.iter_mut().take(count) {
            into.push_back(completion(entry, self.context.fabric));
            *entry = NOTHING;
        }
        Ok(count)
    }

    /// Asks to be told of the next completion, unless that was asked before and is not [heard](Self::hear) yet. What came before
    /// is to be taken after this, as it is not told of.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn arm(&self) -> Result<(), RpcTransportErrorKind> {
        if self.is_armed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: the queue is valid.
        match unsafe { ffi::ibv_req_notify_cq(self.pointer(), 0) } {
            0 => Ok(()),
            errno => Err(failure::returned("ibv_req_notify_cq", errno)),
        }
    }

    /// The descriptor that can be read when a completion came after [`arm`](Self::arm).
    pub(crate) fn fd(&self) -> i32 {
        // SAFETY: the channel is valid until `drop`, and its descriptor does not change.
        unsafe { self.channel.as_ref().fd }
    }

    /// Takes what the channel told: it tells once for each [`arm`](Self::arm).
    pub(crate) fn hear(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is valid and does not block, and both are places for pointers, which are not followed.
        if unsafe { ffi::ibv_get_cq_event(self.channel.as_ptr(), &raw mut queue, &raw mut context) } == 0 {
            // SAFETY: each event is acknowledged once, on the only queue of the channel.
            unsafe { ffi::ibv_ack_cq_events(self.pointer(), 1) };
            self.is_armed.store(false, Ordering::Relaxed);
        }
    }
}

fn completion(entry: &ffi::ibv_wc, fabric: RdmaFabric) -> VerbsCompletion {
    let id = VerbsWorkRequestId::unpack(entry.wr_id);
    if entry.status != wc::IBV_WC_SUCCESS {
        return VerbsCompletion { id, outcome: Err(VerbsWorkError::of(entry.status, fabric)) };
    }
    // Soft-RoCE's kernel part hands its own flags through, and its flag of an invalidation has the value that is IBV_WC_IP_CSUM_OK
    // here, which a reliable connection does not know. The queue pair holds the handle to those of its windows.
    let flags = ffi::ibv_wc_flags::IBV_WC_WITH_INV.0 | ffi::ibv_wc_flags::IBV_WC_IP_CSUM_OK.0;
    let invalidated = if entry.wc_flags & flags == 0 {
        None
    } else {
        // SAFETY: both members of the union are four bytes of which every value is valid, and the flag says that this one was
        // written; if it was not, the bytes are zero, as the batch was.
        Some(Handle(unsafe { entry.imm_data_invalidated_rkey_union.invalidated_rkey }))
    };
    VerbsCompletion { id, outcome: Ok(VerbsCompletedWork { length: entry.byte_len as usize, invalidated }) }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: both were created by `new` and are destroyed once, the queue before its channel; all events of the queue
        // were acknowledged as they were taken; and no queue pair uses it, as each holds it until its end.
        unsafe {
            ffi::ibv_destroy_cq(self.queue.as_ptr());
            ffi::ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_finds_its_work_request() {
        for side in [VerbsQueueSide::Send, VerbsQueueSide::Receive] {
            for (queue, number) in [(0, 0), (7, 1), (u32::MAX, VerbsWorkRequestId::NUMBER)] {
                let id = VerbsWorkRequestId { queue, side, number };
                assert_eq!(VerbsWorkRequestId::unpack(id.pack()), id);
            }
        }
    }

    #[test]
    fn a_handle_was_invalidated_only_where_the_flag_says_so() {
        let invalidated = |wc_flags| {
            let mut entry = ffi::ibv_wc { status: wc::IBV_WC_SUCCESS, byte_len: 28, wc_flags, ..NOTHING };
            entry.imm_data_invalidated_rkey_union.invalidated_rkey = 0x1234;
            let done = completion(&entry, RdmaFabric::Infiniband).outcome.unwrap();
            assert_eq!(done.length, 28);
            done.invalidated
        };
        assert_eq!(invalidated(ffi::ibv_wc_flags::IBV_WC_WITH_INV.0), Some(Handle(0x1234)));
        assert_eq!(invalidated(ffi::ibv_wc_flags::IBV_WC_WITH_IMM.0), None);
        assert_eq!(invalidated(0), None);
    }

    #[test]
    fn a_status_says_who_is_to_blame() {
        let of = |status| VerbsWorkError::of(status, RdmaFabric::Roce);
        assert_eq!(of(wc::IBV_WC_WR_FLUSH_ERR), VerbsWorkError::Flushed);
        assert_eq!(of(wc::IBV_WC_RETRY_EXC_ERR), VerbsWorkError::Broken(DisconnectReason::Unreachable));
        assert_eq!(of(wc::IBV_WC_RNR_RETRY_EXC_ERR), VerbsWorkError::Broken(DisconnectReason::NoReceiver));
        assert_eq!(of(wc::IBV_WC_LOC_LEN_ERR), VerbsWorkError::Broken(DisconnectReason::Length));
        assert_eq!(of(wc::IBV_WC_REM_ACCESS_ERR), VerbsWorkError::Broken(DisconnectReason::RemoteAccess));
        let own = [
            wc::IBV_WC_MW_BIND_ERR,
            wc::IBV_WC_LOC_PROT_ERR,
            wc::IBV_WC_LOC_ACCESS_ERR,
            wc::IBV_WC_LOC_QP_OP_ERR,
        ];
        for own in own {
            assert_eq!(of(own), VerbsWorkError::Broken(DisconnectReason::Own), "not the server's");
        }
    }

    #[test]
    fn a_send_that_iwarp_could_not_give_to_tcp_is_a_connection_that_broke() {
        let failure = VerbsWorkError::of(wc::IBV_WC_LOC_QP_OP_ERR, RdmaFabric::Iwarp);
        assert_eq!(failure, VerbsWorkError::Broken(DisconnectReason::Reset));
    }
}
