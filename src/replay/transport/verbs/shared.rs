//! What the connections to one server over one device share: a completion queue, and memory that no other server reaches.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::{StoreId, TransportErrorKind};
use super::completions::{Batch, Completion, CompletionQueue};
use super::context::{Context, ProtectionDomain};
use super::memory::{Buffer, Right, Stored};
use super::pool::{NoBuffer, Pool};

/// Completions that are asked for room: the queue pairs of all connections together post no more than that.
const COMPLETIONS: u32 = 1 << 16;
/// Memory for messages, for what servers fetch, and for what they write, each: so much is registered at most.
const MOST_MEMORY: usize = 1 << 30;

/// A device and what is made on it for one server. Handles are good for all queue pairs of a protection domain, and some servers
/// guess: so each has its own.
#[derive(Debug)]
pub(super) struct Shared {
    /// The server's address.
    pub(super) server: IpAddr,
    pub(super) context: Arc<Context>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Completions that were taken and not looked at.
    pub(super) ready: VecDeque<Completion>,
    /// Room for those that are taken next.
    pub(super) batch: Box<Batch>,
    messages: Pool,
    fetched: Pool,
    written: Pool,
    /// Shared memory by its number; `None` where it is empty, and nothing to be registered.
    stores: Vec<Option<Stored>>,
}

impl Shared {
    /// Opens a device for use. `windows`: the server reaches memory by windows alone.
    pub(super) fn new(context: Context, server: IpAddr, windows: bool) -> Result<Self, TransportErrorKind> {
        let context = Arc::new(context);
        let domain = ProtectionDomain::new(&context, windows)?;
        let completions = CompletionQueue::new(&context, COMPLETIONS)?;
        let pool = |right| Pool::new(&domain, right, MOST_MEMORY);
        Ok(Self {
            server,
            messages: pool(Right::Message),
            fetched: pool(Right::Fetched),
            written: pool(Right::Written),
            ready: VecDeque::new(),
            batch: Box::default(),
            stores: Vec::new(),
            context,
            domain,
            completions,
        })
    }

    /// A buffer of at least this many bytes, for this use.
    pub(super) fn take(&mut self, right: Right, length: usize) -> Result<Buffer, NoBuffer> {
        self.pool(right).take(length)
    }

    /// So many buffers of at least this many bytes, all or none.
    pub(super) fn take_all(
        &mut self,
        right: Right,
        length: usize,
        count: u32,
        into: &mut Vec<Buffer>,
    ) -> Result<(), NoBuffer> {
        for _ in 0..count {
            match self.take(right, length) {
                Ok(buffer) => into.push(buffer),
                Err(why) => {
                    self.give_back_all(into);
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Takes buffers back.
    pub(super) fn give_back_all(&mut self, buffers: &mut Vec<Buffer>) {
        buffers.drain(..).for_each(|buffer| self.give_back(buffer));
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&mut self, buffer: Buffer) {
        self.pool(buffer.right()).give_back(buffer);
    }

    fn pool(&mut self, right: Right) -> &mut Pool {
        match right {
            Right::Message => &mut self.messages,
            Right::Fetched => &mut self.fetched,
            Right::Written => &mut self.written,
        }
    }

    /// Registers the next shared memory.
    pub(super) fn share(&mut self, bytes: &Arc<[u8]>) -> Result<(), TransportErrorKind> {
        let stored = if bytes.is_empty() { None } else { Some(Stored::new(&self.domain, bytes)?) };
        self.stores.push(stored);
        Ok(())
    }

    /// Takes back the last shared memory.
    pub(super) fn unshare(&mut self) {
        self.stores.pop();
    }

    /// Shared memory, if it is not empty.
    pub(super) fn stored(&self, store: StoreId) -> Option<&Stored> {
        self.stores.get(store.0 as usize)?.as_ref()
    }
}
