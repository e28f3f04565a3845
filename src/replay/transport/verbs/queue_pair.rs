//! A queue pair: made before the connection, filled with receive buffers, connected, used, destroyed. What is posted
//! belongs to the queue pair until its completion gives it back.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use nfsrdma_dissectors::rdma::Handle;
use rdma_mummy_sys as ffi;

use super::super::TransportErrorKind;
use super::super::framing;
use super::completions::{Completion, CompletionQueue, Failure, Side, WorkId};
use super::context::ProtectionDomain;
use super::events::{CmEvent, CmEventKind};
use super::failure;
use super::identifier::{CmId, Identifier, Routed, Unexpected, expect};
use super::memory::{Buffer, Exposed, Part, Seen, StillOpen, Stored};
use super::window::{Bound, Windows};

/// Numbers of queue pairs. One is not used again before four thousand million others.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// Work Requests that are posted with one ring of the doorbell.
const MANY: usize = 16;
/// The same where there are no more, as there mostly are: the lists are cleared each time, and take some kilobytes.
const FEW: usize = 2;
/// How often a Send is tried again before the connection counts as broken: the most that three bits can say.
const RETRIES: u8 = 7;
/// How often a Send is tried again where the server has no buffer posted; 7 is for ever, which would hide a server that
/// breaks its own credits.
const RECEIVER_NOT_READY_RETRIES: u8 = 6;
/// The CM's reason for a service that is not there. InfiniBand Architecture Specification, volume 1, section 12.6.7.2.
const INVALID_SERVICE_ID: i32 = 8;
/// The CM's reason for a server that refuses itself.
const CONSUMER_REJECT: i32 = 28;

/// Made, and able to receive; not connected yet.
#[derive(Debug)]
pub(crate) struct Initialized;
/// The connection stands, or stood.
#[derive(Debug)]
pub(crate) struct Connected;

/// How many Work Requests each queue has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Of the send queue.
    pub(crate) sends: u32,
    /// Of the receive queue.
    pub(crate) receives: u32,
}

/// A queue pair of a reliable connection.
#[derive(Debug)]
pub(crate) struct QueuePair<S> {
    queues: Queues,
    state: S,
}

/// What tells that all that the server did until then is done.
#[derive(Debug)]
pub(crate) struct Fence {
    queue: u32,
    /// Receives that had completed.
    at: u64,
}

/// What tells that a queue pair is gone, and that neither its device nor its server can do anything more by it.
#[derive(Debug)]
pub(crate) struct End {
    queue: u32,
}

impl End {
    pub(super) fn is_of(&self, queue: u32) -> bool {
        self.queue == queue
    }
}

impl Fence {
    pub(super) fn covers(&self, queue: u32, since: u64) -> bool {
        self.queue == queue && self.at > since
    }
}

/// A message that came.
#[derive(Debug)]
pub(crate) struct Received {
    buffer: Buffer,
    length: usize,
    /// The handle that the device says the Send invalidated.
    pub(crate) invalidated: Option<Handle>,
    fence: Fence,
}

impl Received {
    /// The bytes of the Send.
    pub(crate) fn message(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or(&self.buffer)
    }

    /// All that the server did before this Send is done.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The buffer, to be posted again.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// What a completion was.
#[derive(Debug)]
pub(crate) enum Finished {
    /// Sends are done: their buffers were given back.
    Sent,
    /// A message came.
    Received(Received),
    /// Something failed, and with it the connection.
    Failed(Failure),
}

/// A Work Request for the send queue.
#[derive(Debug)]
enum Work {
    /// A message, of this many bytes.
    Send(Buffer, usize),
    /// Opens bytes to the server, by the window of this number under this handle.
    Bind(usize, Handle, Part),
    /// Ends a handle, by which the server can reach this buffer until it is done.
    Invalidate(Handle, Option<Buffer>),
}

#[derive(Debug)]
struct Queues {
    identifier: Arc<Identifier>,
    completions: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
    /// What completions name it by.
    number: u32,
    depth: Depth,
    /// What was posted to the send queue, in order: the buffer that comes back when it is done, nothing for what has none; and
    /// what waits for the doorbell.
    sends: VecDeque<Option<Buffer>>,
    staged: VecDeque<Work>,
    first_send: u32,
    /// Where chunks have windows.
    windows: Option<Windows>,
    receives: VecDeque<Buffer>,
    first_receive: u32,
    /// Receives that completed.
    clock: u64,
    made: bool,
}

impl QueuePair<Initialized> {
    /// Makes a queue pair on a route.
    ///
    /// # Errors
    /// Where device or completion queue have no room for it.
    pub(crate) fn new(
        id: CmId<Routed>,
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        depth: Depth,
    ) -> Result<Self, TransportErrorKind> {
        let identifier = id.into_identifier();
        let same = domain.context().is_that_of(&identifier) && completions.context().is_that_of(&identifier);
        if !same {
            return Err(TransportErrorKind::NoDevice);
        }
        let most = domain.context().limits.queue_depth;
        let depth = Depth { sends: depth.sends.min(most), receives: depth.receives.min(most) };
        if !completions.reserve(depth.sends + depth.receives) {
            let full = std::io::Error::other("too many connections for one completion queue");
            return Err(TransportErrorKind::System("making a queue pair", full));
        }
        let mut queues = Queues {
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
            clock: 0,
            made: false,
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
        // SAFETY: identifier, domain and completion queue are valid and of one device, as checked above; they live as
        // long as the queue pair, which holds them; the attributes are read and written by this call only.
        let result = unsafe {
            ffi::rdma_create_qp(queues.identifier.pointer(), domain.pointer(), &raw mut attributes)
        };
        if result != 0 {
            return Err(failure::last("rdma_create_qp"));
        }
        queues.made = true;
        Ok(Self { queues, state: Initialized })
    }

    /// Connects, and tells what private data came back. Where there is no connection, all that was posted goes to `free`.
    ///
    /// # Errors
    /// Where the server is not reached, or does not want the connection.
    pub(crate) fn connect(
        self,
        private_data: &[u8],
        deadline: Instant,
        free: &mut Vec<Buffer>,
    ) -> Result<(QueuePair<Connected>, Vec<u8>), TransportErrorKind> {
        match self.established(private_data, deadline) {
            Ok(answer) => {
                let Self { queues, state: Initialized } = self;
                Ok((QueuePair { queues, state: Connected }, answer))
            }
            Err(kind) => {
                self.destroy(free);
                Err(kind)
            }
        }
    }

    /// The private data of a connection that stands.
    fn established(&self, private_data: &[u8], deadline: Instant) -> Result<Vec<u8>, TransportErrorKind> {
        let limits = self.queues.domain.context().limits;
        let mut parameters = ffi::rdma_conn_param {
            private_data: private_data.as_ptr().cast(),
            private_data_len: u8::try_from(private_data.len()).unwrap_or(0),
            // What lets the server's RDMA Reads in.
            responder_resources: limits.responder_resources,
            // Nothing is read from the server, ever: RFC 8166 section 3.4.
            initiator_depth: 0,
            flow_control: 1,
            retry_count: RETRIES,
            rnr_retry_count: RECEIVER_NOT_READY_RETRIES,
            srq: 0,
            qp_num: 0,
        };
        // SAFETY: the identifier has a queue pair, as the state says; the private data is as long as told, and read in
        // this call only.
        if unsafe { ffi::rdma_connect(self.queues.identifier.pointer(), &raw mut parameters) } != 0 {
            return Err(failure::last("rdma_connect"));
        }
        match expect(&self.queues.identifier, CmEventKind::Established, deadline) {
            Ok(event) => Ok(event.private_data),
            Err(Unexpected::Event(event)) => Err(unconnected(&event)),
            Err(Unexpected::Failed(kind)) => Err(kind),
        }
    }
}

impl QueuePair<Connected> {
    /// How many Sends there is room for.
    pub(crate) fn send_room(&self) -> usize {
        (self.queues.depth.sends as usize).saturating_sub(self.queues.sends.len() + self.queues.staged.len())
    }

    /// Takes a message that goes out with the next [`flush`](Self::flush); gives it back where there is no room.
    ///
    /// # Errors
    /// The buffer.
    pub(crate) fn send(&mut self, buffer: Buffer, length: usize) -> Result<(), Buffer> {
        if self.send_room() == 0 {
            return Err(buffer);
        }
        self.queues.staged.push_back(Work::Send(buffer, length));
        Ok(())
    }

    /// Posts what was taken, as far as there is room, and tells whether that was anything. Only the last of a batch is signalled: it
    /// stands for those before it.
    ///
    /// # Errors
    /// Where the device refuses, after which the queue pair is of no more use.
    pub(crate) fn flush(&mut self) -> Result<bool, TransportErrorKind> {
        let mut is_posted = false;
        while !self.queues.staged.is_empty() && self.queues.sends.len() < self.queues.depth.sends as usize {
            match self.queues.staged.len() {
                ..=FEW => self.queues.post_sends::<FEW>()?,
                _ => self.queues.post_sends::<MANY>()?,
            }
            is_posted = true;
        }
        Ok(is_posted)
    }

    /// From now on each chunk has a window of its own: the server may invalidate what it is told.
    pub(crate) fn use_windows(&mut self) {
        self.queues.windows = Some(Windows::new(&self.queues.domain));
    }

    /// Whether each chunk has a window of its own.
    pub(crate) fn has_windows(&self) -> bool {
        self.queues.windows.is_some()
    }

    /// Takes windows for the chunks of a Call; none where chunks have no windows.
    ///
    /// # Errors
    /// Where the device gives none; then none are taken.
    pub(crate) fn take_windows(
        &mut self,
        count: usize,
        into: &mut Vec<Bound>,
    ) -> Result<(), TransportErrorKind> {
        self.queues.windows.as_mut().map_or(Ok(()), |windows| windows.take(count, into))
    }

    /// Shows the first `length` bytes of a buffer to the server, by the window if there is one.
    pub(crate) fn expose(&mut self, buffer: Buffer, length: usize, window: Option<Bound>) -> Exposed {
        let window = match window {
            // A window of nothing is none.
            Some(bound) if length == 0 => {
                self.give_back(bound);
                None
            }
            Some(bound) => {
                let part = buffer.part(length);
                self.queues.bind(&bound, part);
                Some(bound)
            }
            None => None,
        };
        Exposed::new(buffer, length, window, self.queues.number, self.queues.clock)
    }

    /// What the server wrote, after a Reply: see [`Exposed`]. The first `length` bytes, unless `keep` leaves them to the server. `room`
    /// is for a copy, where one is needed. A buffer whose window is still open stays here until it is not.
    ///
    /// # Errors
    /// What was exposed and the room, where they are kept, or the fence does not cover it.
    pub(crate) fn see(
        &mut self,
        exposed: Exposed,
        fence: &Fence,
        length: usize,
        room: Vec<u8>,
        keep: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Seen, (Exposed, Vec<u8>)> {
        if !exposed.is_of(self.queues.number) {
            return Err((exposed, room));
        }
        let (seen, open) = exposed.see(fence, self.queues.windows.as_mut(), length, room, keep)?;
        open.into_iter().for_each(|open| self.queues.end(open));
        Ok(seen)
    }

    /// A buffer that was exposed, after a Reply: see [`Exposed`]. One whose window is still open stays here until it is not.
    ///
    /// # Errors
    /// What was exposed, where the fence does not cover it.
    pub(crate) fn take_back(&mut self, exposed: Exposed, fence: &Fence) -> Result<Option<Buffer>, Exposed> {
        if !exposed.is_of(self.queues.number) {
            return Err(exposed);
        }
        match exposed.take_back(fence, self.queues.windows.as_mut())? {
            Ok(buffer) => Ok(Some(buffer)),
            Err(open) => {
                self.queues.end(open);
                Ok(None)
            }
        }
    }

    /// Whether buffers may come back by completions of what this side does: of Sends, and of what ends windows.
    pub(crate) fn is_sending(&self) -> bool {
        !self.queues.sends.is_empty() || !self.queues.staged.is_empty()
    }

    /// Shows shared memory to the server, by the window if there is one.
    pub(crate) fn expose_stored(
        &mut self,
        stored: &Stored,
        at: usize,
        length: u32,
        window: Option<&Bound>,
    ) -> Option<framing::Region> {
        let Some(bound) = window else { return stored.region(at, length) };
        let part = stored.part(at, length)?;
        let region = part.region(bound.handle);
        self.queues.bind(bound, part);
        Some(region)
    }

    /// A Send came that had invalidated this handle. Tells whether it was that of a window in use.
    pub(crate) fn invalidated(&mut self, handle: Handle) -> bool {
        self.queues.windows.as_mut().is_some_and(|windows| windows.invalidated(handle))
    }

    /// Takes the window of shared memory back, or one that was not used. If the server did not invalidate its handle, that is done
    /// before what is sent next.
    pub(crate) fn give_back(&mut self, bound: Bound) {
        let Some(windows) = &mut self.queues.windows else { return };
        if let Some(handle) = windows.give_back(bound) {
            self.queues.staged.push_back(Work::Invalidate(handle, None));
        }
    }

    /// Takes a completion of this queue pair; buffers of Sends that are done go to `free`.
    ///
    /// # Errors
    /// The completion, where it is of another.
    pub(crate) fn finish(
        &mut self,
        completion: Completion,
        free: &mut Vec<Buffer>,
    ) -> Result<Finished, Completion> {
        self.queues.finish(completion, free)
    }

    /// What the connection manager tells, if anything.
    ///
    /// # Errors
    /// Where the channel is broken.
    pub(crate) fn event(&self) -> Result<Option<CmEvent>, TransportErrorKind> {
        self.queues.identifier.channel().next()
    }

    /// The descriptor that can be read when there is an event.
    pub(crate) fn fd(&self) -> i32 {
        self.queues.identifier.channel().fd()
    }

    /// This side's address and port.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.queues.identifier.local_address()
    }

    /// Ends the connection. What is posted is flushed.
    pub(crate) fn disconnect(&self) {
        self.queues.disconnect();
    }
}

impl<S> QueuePair<S> {
    /// Destroys the queue pair, and gives back all that was posted, and what lets go of all that it exposed. Nothing of it comes
    /// back where the device keeps the queue pair: that memory is better lost than used for something else.
    pub(crate) fn destroy(mut self, free: &mut Vec<Buffer>) -> Option<End> {
        self.queues.disconnect();
        if !self.queues.destroy() {
            return None;
        }
        free.extend(self.queues.sends.drain(..).flatten());
        free.extend(self.queues.staged.drain(..).filter_map(|work| match work {
            Work::Send(buffer, _) => Some(buffer),
            Work::Invalidate(_, buffer) => buffer,
            Work::Bind(..) => None,
        }));
        free.extend(self.queues.receives.drain(..));
        Some(End { queue: self.queues.number })
    }

    /// What completions name it by.
    pub(crate) fn number(&self) -> u32 {
        self.queues.number
    }

    /// Posts receive buffers, as far as there is room; the others stay where they are.
    ///
    /// # Errors
    /// Where the device refuses, after which the queue pair is of no more use.
    pub(crate) fn receive(&mut self, buffers: &mut Vec<Buffer>) -> Result<(), TransportErrorKind> {
        while !buffers.is_empty() && self.queues.receives.len() < self.queues.depth.receives as usize {
            match buffers.len() {
                ..=FEW => self.queues.post_receives::<FEW>(buffers)?,
                _ => self.queues.post_receives::<MANY>(buffers)?,
            }
        }
        Ok(())
    }
}

impl Queues {
    fn bind(&mut self, bound: &Bound, part: Part) {
        if let Some(windows) = &mut self.windows {
            windows.bind(bound);
            self.staged.push_back(Work::Bind(bound.at(), bound.handle, part));
        }
    }

    fn end(&mut self, open: StillOpen) {
        self.staged.push_back(Work::Invalidate(open.handle, Some(open.buffer)));
    }

    fn post_sends<const MOST: usize>(&mut self) -> Result<(), TransportErrorKind> {
        // SAFETY: all bytes zero are a value of these structures: numbers, null pointers, and unions of them.
        let (mut requests, mut gathers): ([ffi::ibv_send_wr; MOST], [ffi::ibv_sge; MOST]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let room = (self.depth.sends as usize).saturating_sub(self.sends.len());
        let count = self.staged.len().min(room).min(MOST);
        let mut bound = [const { None }; MOST];
        for (((request, gather), bound), work) in
            requests.iter_mut().zip(&mut gathers).zip(&mut bound).zip(self.staged.drain(..count))
        {
            let number = self.first_send.wrapping_add(self.sends.len() as u32);
            request.wr_id = WorkId { queue: self.number, side: Side::Send, number }.pack();
            match work {
                Work::Send(buffer, length) => {
                    *gather = buffer.gather(length);
                    request.sg_list = gather;
                    request.num_sge = 1;
                    request.opcode = ffi::ibv_wr_opcode::IBV_WR_SEND;
                    self.sends.push_back(Some(buffer));
                }
                Work::Bind(at, handle, part) => {
                    let mw = self.windows.as_ref().map_or(std::ptr::null_mut(), |all| all.pointer(at));
                    let bind_info = part.bind_info();
                    request.opcode = ffi::ibv_wr_opcode::IBV_WR_BIND_MW;
                    request.bind_mw_tso_union.bind_mw = ffi::bind_mw_t { mw, rkey: handle.0, bind_info };
                    *bound = Some((at, handle, part));
                    self.sends.push_back(None);
                }
                Work::Invalidate(handle, buffer) => {
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
            // SAFETY: both are elements of the array, as `count` is no more than its length.
            unsafe { (*list.add(index - 1)).next = list.add(index) };
        }
        let mut refused = std::ptr::null_mut();
        // SAFETY: the queue pair is valid, as `made` says; the requests are a list of `count` with a null at its end; their
        // buffers are registered in its domain, and held in `sends` until the completion or until the queue pair is
        // destroyed. If some are refused, they stay there as well. Windows are valid as long as the queue pair, and the
        // parts that they are bound to are held in `bound` over this call, and then by what is exposed.
        let result = unsafe { ffi::ibv_post_send(self.pointer(), list, &raw mut refused) };
        if let Some(windows) = &mut self.windows {
            bound.iter().flatten().for_each(|(at, handle, _)| windows.posted(*at, *handle));
        }
        if result == 0 { Ok(()) } else { Err(failure::returned("ibv_post_send", result)) }
    }

    fn post_receives<const MOST: usize>(
        &mut self,
        buffers: &mut Vec<Buffer>,
    ) -> Result<(), TransportErrorKind> {
        // SAFETY: as in `post_sends`.
        let (mut requests, mut gathers): ([ffi::ibv_recv_wr; MOST], [ffi::ibv_sge; MOST]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let room = (self.depth.receives as usize).saturating_sub(self.receives.len());
        let count = buffers.len().min(room).min(MOST);
        for ((request, gather), buffer) in
            requests.iter_mut().zip(&mut gathers).zip(buffers.drain(buffers.len() - count..))
        {
            *gather = buffer.gather(buffer.len());
            let number = self.first_receive.wrapping_add(self.receives.len() as u32);
            request.wr_id = WorkId { queue: self.number, side: Side::Receive, number }.pack();
            request.sg_list = gather;
            request.num_sge = 1;
            self.receives.push_back(buffer);
        }
        let list = requests.as_mut_ptr();
        for index in 1..count {
            // SAFETY: both are elements of the array, as `count` is no more than its length.
            unsafe { (*list.add(index - 1)).next = list.add(index) };
        }
        let mut refused = std::ptr::null_mut();
        // SAFETY: as in `post_sends`; the buffers are held in `receives`.
        let result = unsafe { ffi::ibv_post_recv(self.pointer(), list, &raw mut refused) };
        if result == 0 { Ok(()) } else { Err(failure::returned("ibv_post_recv", result)) }
    }

    fn finish(&mut self, completion: Completion, free: &mut Vec<Buffer>) -> Result<Finished, Completion> {
        let Completion { id, outcome } = completion;
        if id.queue != self.number {
            return Err(Completion { id, outcome });
        }
        let done = match outcome {
            Ok(done) => done,
            // The buffers stay until the queue pair is destroyed: nothing else is done with one that failed.
            Err(failure) => return Ok(Finished::Failed(failure)),
        };
        match id.side {
            Side::Send => {
                let until = id.number.wrapping_sub(self.first_send) & WorkId::NUMBER;
                if until as usize >= self.sends.len() {
                    return Err(Completion { id, outcome: Ok(done) });
                }
                self.first_send = self.first_send.wrapping_add(until + 1) & WorkId::NUMBER;
                free.extend(self.sends.drain(..=until as usize).flatten());
                Ok(Finished::Sent)
            }
            Side::Receive => {
                // Receives of a reliable connection complete in the order in which they were posted.
                let buffer = if id.number == self.first_receive & WorkId::NUMBER {
                    self.receives.pop_front()
                } else {
                    None
                };
                let Some(buffer) = buffer else { return Err(Completion { id, outcome: Ok(done) }) };
                self.first_receive = self.first_receive.wrapping_add(1) & WorkId::NUMBER;
                self.clock += 1;
                let fence = Fence { queue: self.number, at: self.clock };
                let length = done.length.min(buffer.len());
                Ok(Finished::Received(Received { buffer, length, invalidated: done.invalidated, fence }))
            }
        }
    }

    fn disconnect(&self) {
        // SAFETY: the identifier is valid; that it is not connected any more is an error without consequence.
        unsafe { ffi::rdma_disconnect(self.identifier.pointer()) };
    }

    /// Tells whether the queue pair is gone. Then the device does nothing more with what was posted.
    fn destroy(&mut self) -> bool {
        // A window holds its queue pair.
        self.windows = None;
        if self.made {
            let id = self.identifier.pointer();
            // SAFETY: the identifier is valid, and has a queue pair, as `made` says; it is destroyed once, as the place is empty after
            // that. So does rdma_destroy_qp with one whose completion queues were given to it, but it does not tell the result.
            unsafe {
                if ffi::ibv_destroy_qp((*id).qp) == 0 {
                    (*id).qp = std::ptr::null_mut();
                    self.made = false;
                }
            }
        }
        !self.made
    }

    fn pointer(&self) -> *mut ffi::ibv_qp {
        // SAFETY: the identifier is valid, and has had this queue pair since `new`.
        unsafe { (*self.identifier.pointer()).qp }
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // Before the buffers, which are dropped after this. Those of a queue pair that is still there are in no pool any more, and a
        // region frees its bytes only when the device has given up the registration.
        if self.destroy() {
            self.completions.give_back(self.depth.sends + self.depth.receives);
        } else {
            // What it needs stays as long as it does.
            let needed = (&self.identifier, &self.completions, &self.domain);
            std::mem::forget((Arc::clone(needed.0), Arc::clone(needed.1), Arc::clone(needed.2)));
        }
    }
}

/// Why there is no connection.
fn unconnected(event: &CmEvent) -> TransportErrorKind {
    match (event.kind, event.status) {
        (CmEventKind::Rejected, INVALID_SERVICE_ID) => TransportErrorKind::Refused,
        (CmEventKind::Rejected, CONSUMER_REJECT) => {
            TransportErrorKind::Rejected("its NFS server does not take it".to_owned())
        }
        (CmEventKind::Rejected, status @ 1..) => {
            TransportErrorKind::Rejected(format!("reason {status} of the CM"))
        }
        (CmEventKind::Disconnected, _) => TransportErrorKind::Reset,
        (CmEventKind::DeviceRemoval, _) => TransportErrorKind::NoDevice,
        (CmEventKind::Unreachable, _) => TransportErrorKind::NoRoute,
        (_, status) => failure::returned("connecting", status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: CmEventKind, status: i32) -> String {
        unconnected(&CmEvent { kind, status, private_data: Vec::new() }).to_string()
    }

    #[test]
    fn a_wrong_port_is_told_alike_over_roce_and_iwarp() {
        let roce = event(CmEventKind::Rejected, 8);
        let iwarp = event(CmEventKind::ConnectError, -libc::ECONNREFUSED);
        assert_eq!(roce, iwarp);
        assert!(roce.starts_with("nothing listens there"), "{roce}");
    }

    #[test]
    fn a_rejection_has_its_reason() {
        assert!(event(CmEventKind::Rejected, 28).contains("its NFS server does not take it"));
        assert!(event(CmEventKind::Rejected, 3).contains("reason 3"));
        assert!(event(CmEventKind::Unreachable, -110).starts_with("no route"));
    }

    #[test]
    fn a_fence_covers_what_was_exposed_before_it_on_its_own_queue() {
        let fence = Fence { queue: 7, at: 3 };
        assert!(fence.covers(7, 2));
        assert!(!fence.covers(7, 3), "exposed after the Receive");
        assert!(!fence.covers(8, 0), "of another connection");
    }
}
