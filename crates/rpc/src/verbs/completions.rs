//! The completion queue that the queue pairs of a device share: one queue to poll, and one descriptor to wait on.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nfsrdma_dissectors::memory_handle::Handle;
use rdma_mummy_sys as ffi;
use rdma_mummy_sys::ibv_wc_status as wc;

use super::context::VerbsContext;
use super::{errno_conversion, wait};
use crate::client_transport_events::DisconnectReason;
use crate::params::RdmaFabric;
use crate::transport_error::RpcClientTransportErrorKind;

/// Maximum number of completions per poll.
const BATCH: usize = 32;

/// A completion without content.
// SAFETY: all-zero bytes are a valid value of this structure of numbers and a union of numbers.
const EMPTY_COMPLETION: ffi::ibv_wc = unsafe { std::mem::zeroed() };

/// Buffer for the completions of one poll. Entries are zeroed in between, as devices do not write fields without
/// meaning: mlx5 omits the length of a Send, and the handle if nothing was invalidated.
pub(crate) struct VerbsCompletionBatch([ffi::ibv_wc; BATCH]);

impl Default for VerbsCompletionBatch {
    fn default() -> Self {
        Self([EMPTY_COMPLETION; BATCH])
    }
}

/// Identifies a Work Request in its completion: the queue pair, the queue side, and the sequence number in that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerbsWorkRequestId {
    pub(super) queue: u32,
    pub(super) side: VerbsQueueSide,
    /// Sequence number modulo 2^31.
    pub(super) number: u32,
}

/// The two queues of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbsQueueSide {
    Send,
    Receive,
}

impl VerbsWorkRequestId {
    /// Mask of the 31 bits of `number`.
    pub(super) const NUMBER: u32 = u32::MAX >> 1;

    /// Returns the `wr_id` of the Work Request: queue pair in bits 63 to 32, side in bit 31, number in the rest.
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

/// The completion of a Work Request. Only a completion queue creates it, and only once per Work Request.
pub(crate) struct VerbsCompletion {
    pub(super) id: VerbsWorkRequestId,
    pub(super) outcome: Result<VerbsCompletedWork, VerbsWorkError>,
}

pub(super) struct VerbsCompletedWork {
    pub(super) length: usize,
    pub(super) invalidated: Option<Handle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbsWorkError {
    /// The Work Request was not executed: an earlier one failed, or the connection is gone.
    Flushed,
    /// The Work Request failed, and broke the connection for this reason.
    Broken(DisconnectReason),
}

impl VerbsWorkError {
    fn from_status(status: wc::Type, fabric: RdmaFabric) -> Self {
        Self::Broken(match status {
            wc::IBV_WC_WR_FLUSH_ERR => return Self::Flushed,
            wc::IBV_WC_RETRY_EXC_ERR | wc::IBV_WC_RESP_TIMEOUT_ERR => DisconnectReason::Unreachable,
            wc::IBV_WC_RNR_RETRY_EXC_ERR => DisconnectReason::NoReceiver,
            wc::IBV_WC_LOC_LEN_ERR => DisconnectReason::Length,
            // Soft-iWARP reports this for a Send whose TCP connection broke under it.
            wc::IBV_WC_LOC_QP_OP_ERR if fabric == RdmaFabric::Iwarp => DisconnectReason::Reset,
            // A Work Request of this side that its own device rejects: memory that is not registered, a window that
            // cannot be bound, a queue pair in the wrong state. InfiniBand Architecture Specification, section 11.6.2.
            wc::IBV_WC_LOC_ACCESS_ERR | wc::IBV_WC_LOC_PROT_ERR | wc::IBV_WC_LOC_QP_OP_ERR | wc::IBV_WC_MW_BIND_ERR => {
                DisconnectReason::LocalFault
            }
            wc::IBV_WC_REM_ACCESS_ERR => DisconnectReason::RemoteAccess,
            wc::IBV_WC_REM_INV_REQ_ERR | wc::IBV_WC_REM_INV_RD_REQ_ERR => DisconnectReason::RemoteAccess,
            wc::IBV_WC_REM_OP_ERR | wc::IBV_WC_REM_ABORT_ERR => DisconnectReason::Reset,
            wc::IBV_WC_FATAL_ERR => DisconnectReason::Device,
            _ => DisconnectReason::Protocol,
        })
    }
}

/// A completion queue, and the channel that signals new completions.
pub(crate) struct CompletionQueue {
    queue: NonNull<ffi::ibv_cq>,
    channel: NonNull<ffi::ibv_comp_channel>,
    capacity: u32,
    reserved: AtomicU32,
    /// `true` if the channel signals the next completion, or has signalled it already.
    is_armed: AtomicBool,
    pub(super) context: Arc<VerbsContext>,
}

// SAFETY: libibverbs allows calls from any thread on one completion queue and on one channel.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// Creates a queue for `capacity` completions, or for as many as the device supports. Returns an error if the
    /// device cannot create the channel or the queue.
    pub(crate) fn new(context: &Arc<VerbsContext>, capacity: u32) -> Result<Arc<Self>, RpcClientTransportErrorKind> {
        // SAFETY: the device is open.
        let channel = NonNull::new(unsafe { ffi::ibv_create_comp_channel(context.pointer()) })
            .ok_or_else(|| errno_conversion::from_last_errno("ibv_create_comp_channel"))?;
        let capacity = capacity.min(context.limits.completions).max(1);
        let entries = i32::try_from(capacity).unwrap_or(i32::MAX);
        // SAFETY: device and channel are open, and completion vector 0 always exists.
        let queue =
            unsafe { ffi::ibv_create_cq(context.pointer(), entries, std::ptr::null_mut(), channel.as_ptr(), 0) };
        let Some(queue) = NonNull::new(queue) else {
            let kind = errno_conversion::from_last_errno("ibv_create_cq");
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
        wait::set_nonblocking(this.fd())
            .map_err(|error| errno_conversion::from_io_error("a completion channel", error))?;
        Ok(Arc::new(this))
    }

    /// Returns the queue for calls of libibverbs; valid as long as `self`.
    pub(super) fn pointer(&self) -> *mut ffi::ibv_cq {
        self.queue.as_ptr()
    }

    /// Reserves entries for the Work Requests of a queue pair, as an overflow makes the queue unusable. Returns `false`
    /// if too few are free.
    pub(super) fn reserve(&self, entries: u32) -> bool {
        let add_entries = |reserved: u32| reserved.checked_add(entries).filter(|sum| *sum <= self.capacity);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_entries).is_ok()
    }

    pub(super) fn release(&self, entries: u32) {
        self.reserved.fetch_sub(entries, Ordering::Relaxed);
    }

    /// Moves at most one batch of completions into `completions`, and returns their number. Returns an error if the
    /// device is gone.
    pub(crate) fn poll(
        &self,
        VerbsCompletionBatch(batch): &mut VerbsCompletionBatch,
        completions: &mut VecDeque<VerbsCompletion>,
    ) -> Result<usize, RpcClientTransportErrorKind> {
        // SAFETY: the queue is valid, and the array has as many entries as are requested.
        let count = unsafe { ffi::ibv_poll_cq(self.pointer(), BATCH as i32, batch.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| errno_conversion::from_last_errno("ibv_poll_cq"))?;
        for entry in batch.iter_mut().take(count) {
            completions.push_back(completion(entry, self.context.fabric));
            *entry = EMPTY_COMPLETION;
        }
        Ok(count)
    }

    /// Requests a signal for the next completion, unless a request is pending: a signal not yet
    /// [consumed](Self::consume_signal). Poll after this, as completions that came before are not signalled. Returns an
    /// error if the device is gone.
    pub(crate) fn arm(&self) -> Result<(), RpcClientTransportErrorKind> {
        if self.is_armed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: the queue is valid.
        let result = unsafe { ffi::ibv_req_notify_cq(self.pointer(), 0) };
        errno_conversion::check_returned("ibv_req_notify_cq", result)
    }

    /// Returns the descriptor that becomes readable when a completion arrives after [`arm`](Self::arm).
    pub(crate) fn fd(&self) -> i32 {
        // SAFETY: the channel is valid until `drop`, and its descriptor does not change.
        unsafe { self.channel.as_ref().fd }
    }

    /// Consumes a signal of the channel: there is one for each [`arm`](Self::arm).
    pub(crate) fn consume_signal(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is valid and does not block, and both arguments point to pointers, which are not
        // followed.
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
        return VerbsCompletion { id, outcome: Err(VerbsWorkError::from_status(entry.status, fabric)) };
    }
    // Soft-RoCE's kernel driver passes its own flags through, and its flag for an invalidation has the value of
    // IBV_WC_IP_CSUM_OK here, which reliable connections do not use. The queue pair compares the handle with those of
    // its windows.
    let flags = ffi::ibv_wc_flags::IBV_WC_WITH_INV.0 | ffi::ibv_wc_flags::IBV_WC_IP_CSUM_OK.0;
    let invalidated = if entry.wc_flags & flags == 0 {
        None
    } else {
        // SAFETY: both members of the union are four bytes of which every value is valid, and the flag means that this
        // one was written; if it was not, the bytes are zero, as the batch was.
        Some(Handle(unsafe { entry.imm_data_invalidated_rkey_union.invalidated_rkey }))
    };
    VerbsCompletion { id, outcome: Ok(VerbsCompletedWork { length: entry.byte_len as usize, invalidated }) }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: both were created by `new` and are destroyed once, the queue before its channel; all events of the
        // queue were acknowledged as they were consumed; and no queue pair uses it, as each owns a reference until its
        // end.
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
    fn a_handle_is_invalidated_only_if_the_flag_is_set() {
        let invalidated = |wc_flags| {
            let mut entry = ffi::ibv_wc { status: wc::IBV_WC_SUCCESS, byte_len: 28, wc_flags, ..EMPTY_COMPLETION };
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
    fn a_completion_status_determines_the_cause() {
        let of = |status| VerbsWorkError::from_status(status, RdmaFabric::Roce);
        assert_eq!(of(wc::IBV_WC_WR_FLUSH_ERR), VerbsWorkError::Flushed);
        assert_eq!(of(wc::IBV_WC_RETRY_EXC_ERR), VerbsWorkError::Broken(DisconnectReason::Unreachable));
        assert_eq!(of(wc::IBV_WC_RNR_RETRY_EXC_ERR), VerbsWorkError::Broken(DisconnectReason::NoReceiver));
        assert_eq!(of(wc::IBV_WC_LOC_LEN_ERR), VerbsWorkError::Broken(DisconnectReason::Length));
        assert_eq!(of(wc::IBV_WC_REM_ACCESS_ERR), VerbsWorkError::Broken(DisconnectReason::RemoteAccess));
        let own =
            [wc::IBV_WC_MW_BIND_ERR, wc::IBV_WC_LOC_PROT_ERR, wc::IBV_WC_LOC_ACCESS_ERR, wc::IBV_WC_LOC_QP_OP_ERR];
        for own in own {
            assert_eq!(of(own), VerbsWorkError::Broken(DisconnectReason::LocalFault), "not the server's");
        }
    }

    #[test]
    fn a_send_that_iwarp_could_not_give_to_tcp_is_a_connection_that_broke() {
        let failure = VerbsWorkError::from_status(wc::IBV_WC_LOC_QP_OP_ERR, RdmaFabric::Iwarp);
        assert_eq!(failure, VerbsWorkError::Broken(DisconnectReason::Reset));
    }
}
