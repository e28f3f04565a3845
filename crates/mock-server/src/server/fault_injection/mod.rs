//! A faulty server: one Reply is wrong in one respect, all others are correct.
//!
//! It is for tests of reply verification. A [`MockServerFault`] is a row of a [`fault_catalog`](all): an operation and
//! the fault in it. The fault is injected once, on the first occasion, and injections are counted: a fault that was
//! never injected proves nothing about the verification.
//!
//! - [`fields`]: locations of fields in messages, from the decoders.

mod fault_catalog;
mod fields;

use std::fmt;

use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

use super::super::transport_faults::MockTransportFault;
use super::file_tree::MockFileTree;
use super::{MockReply, MockServer};
use fields::MockCallOperations;

pub use fault_catalog::all;

/// A fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockServerFault {
    /// The version of NFS.
    pub version: u32,
    /// The procedure, or the operation of a COMPOUND.
    pub operation: &'static str,
    /// The kind of the fault.
    pub what: MockServerFaultKind,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockServerFaultKind {
    /// The Reply has another value in this field: its name in the RFC, qualified by enclosing names if necessary.
    WrongResult(&'static str, MockFieldMutation),
    /// The Call is executed with another value of this argument.
    WrongArgument(&'static str, MockFieldMutation),
    /// The Call is executed, but the Reply reports this error status.
    WrongStatus(u32),
    /// The Call is not executed; its operation asks to send it again later (NFS4ERR_DELAY, NFS3ERR_JUKEBOX).
    Delayed,
    /// The Call is executed, but RPC refuses it. RFC 5531 section 9.
    Refuses(AcceptStat),
    /// The files are wrong afterwards.
    WrongFiles(MockFileStateFault),
    /// The transport of the Reply has a fault.
    WrongTransport(MockTransportFault),
}

/// A change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFieldMutation {
    /// Flips the lowest bit of a number, or of the first byte of text or data.
    Flipped,
    /// Flips the lowest bit of a number, or of the last byte of text or data.
    LastFlipped,
    /// Adds one.
    More,
    /// Subtracts one; zero stays.
    Less,
    /// Removes the last byte of data.
    Shorter,
    /// Removes an entry of a list.
    RemoveEntry,
    /// Duplicates an entry.
    DuplicateEntry,
    /// Adds an entry with another name.
    AddEntry,
}

/// A wrong state of the files after a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFileStateFault {
    /// Nothing was done, but the Reply reports success.
    Nothing,
    /// The Call was executed twice, and the Reply is the second one.
    Twice,
    /// Removed names are back.
    KeepsNames,
    /// New names are missing.
    LosesNames,
}

impl fmt::Display for MockServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFSv{} {}: ", self.version, self.operation)?;
        match self.what {
            MockServerFaultKind::WrongResult(field, change) => write!(f, "says {field} {change}"),
            MockServerFaultKind::WrongArgument(field, change) => write!(f, "takes {field} {change}"),
            MockServerFaultKind::WrongStatus(status) => write!(f, "is done, and says status {status}"),
            MockServerFaultKind::Delayed => f.write_str("is not done, and is to be sent again later"),
            MockServerFaultKind::Refuses(stat) => write!(f, "is refused with {stat}"),
            MockServerFaultKind::WrongFiles(fault) => f.write_str(match fault {
                MockFileStateFault::Nothing => "does nothing, and says it is done",
                MockFileStateFault::Twice => "is done twice",
                MockFileStateFault::KeepsNames => "leaves the old name",
                MockFileStateFault::LosesNames => "does not keep the new name",
            }),
            MockServerFaultKind::WrongTransport(fault) => write!(f, "travels with {fault:?}"),
        }
    }
}

impl fmt::Display for MockFieldMutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flipped => "with another bit",
            Self::LastFlipped => "with another last byte",
            Self::More => "one higher",
            Self::Less => "one lower",
            Self::Shorter => "one byte shorter",
            Self::RemoveEntry => "without the first",
            Self::DuplicateEntry => "with the first twice",
            Self::AddEntry => "with one that is not there",
        })
    }
}

/// Injects a fault.
#[derive(Clone, Debug)]
pub struct MockFaultInjector {
    fault: MockServerFault,
    /// Number of occasions to skip first.
    skip: u64,
    injections: u64,
    is_repeated: bool,
    is_stopped: bool,
}

impl MockFaultInjector {
    /// Creates an injector for a fault.
    pub fn new(fault: MockServerFault) -> Self {
        Self { fault, skip: 0, injections: 0, is_repeated: false, is_stopped: false }
    }

    /// Skips this many occasions first.
    #[must_use]
    pub fn with_skips(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// Injects the fault on every occasion, not only once.
    #[must_use]
    pub fn with_repetition(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Returns the fault.
    pub fn injected_fault(&self) -> MockServerFault {
        self.fault
    }

    /// Stops injecting.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns `true` if the fault is to be injected into this Call.
    fn is_occasion(&mut self, call: &MockCallOperations) -> bool {
        let MockServerFault { version, operation, .. } = self.fault;
        let is_target = call.version == version && call.operations.contains(&operation);
        if self.injections > 0 && !self.is_repeated || self.is_stopped || !is_target {
            return false;
        }
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    /// Returns the number of injections.
    pub fn injections(&self) -> u64 {
        self.injections
    }

    /// Returns the transport fault of the reply to this message, if any. Faults of chunks require a Write chunk.
    pub(in super::super) fn fault(
        &mut self,
        message: &[u8],
        chunks: &[ChunkedDataItem<'_>],
        has_write_chunk: bool,
    ) -> Option<MockTransportFault> {
        let MockServerFaultKind::WrongTransport(fault) = self.fault.what else { return None };
        let is_target = (has_write_chunk || !fault.affects_write_chunks())
            && MockCallOperations::from_call(message, chunks).is_some_and(|call| self.is_occasion(&call));
        self.injections += u64::from(is_target);
        is_target.then_some(fault)
    }

    /// Reverts the count of an injection that had no effect.
    pub(in super::super) fn revert_injection(&mut self) {
        self.injections = self.injections.saturating_sub(1);
    }

    /// Executes a Call, and injects the fault if this is the occasion.
    fn serve(
        &mut self,
        server: &mut MockServer,
        message: &[u8],
        chunks: &[ChunkedDataItem<'_>],
        reply: &mut MockReply,
    ) {
        let is_transport_fault = matches!(self.fault.what, MockServerFaultKind::WrongTransport(_));
        let call = MockCallOperations::from_call(message, chunks)
            .filter(|call| !is_transport_fault && self.is_occasion(call));
        let serve_correctly = |server: &mut MockServer, reply: &mut MockReply| {
            server.call(Cursor::new(message).with_chunks(chunks), reply);
        };
        let Some(call) = call else { return serve_correctly(server, reply) };
        let operation = self.fault.operation;
        let is_injected = match self.fault.what {
            MockServerFaultKind::WrongTransport(_) => {
                serve_correctly(server, reply);
                false
            }
            MockServerFaultKind::WrongArgument(field, change) => {
                let mut contents: Vec<Vec<u8>> =
                    chunks.iter().map(|chunk| chunk.bytes.unwrap_or_default().to_vec()).collect();
                let mut altered = message.to_vec();
                let position = fields::argument(&call, message, chunks, operation, field);
                let is_changed =
                    position.is_some_and(|position| change.apply(&position, &mut altered, &mut contents));
                let items: Vec<_> = chunks
                    .iter()
                    .zip(&contents)
                    .map(|(chunk, content)| ChunkedDataItem { bytes: Some(content), ..*chunk })
                    .collect();
                let (before, state) = (server.tree.clone(), server.state.clone());
                serve_correctly(server, reply);
                let (correct_reply, after) =
                    (reply.complete_message(), std::mem::replace(&mut server.tree, before));
                server.state = state;
                server.call(Cursor::new(&altered).with_chunks(&items), reply);
                is_changed
                    && (reply.complete_message() != correct_reply || server.tree.is_changed_since(&after))
            }
            MockServerFaultKind::WrongResult(field, change) => {
                serve_correctly(server, reply);
                let position = fields::result(&call, reply, operation, field);
                let is_changed = position
                    .is_some_and(|position| change.apply(&position, &mut reply.message, &mut reply.data));
                for (splice, data) in reply.splices.iter_mut().zip(&reply.data) {
                    splice.length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                }
                is_changed
            }
            MockServerFaultKind::WrongStatus(status) => {
                serve_correctly(server, reply);
                fields::fail(&call, reply, operation, status)
            }
            MockServerFaultKind::Delayed => {
                let before = server.tree.clone();
                serve_correctly(server, reply);
                let is_delayed = fields::fail(&call, reply, operation, Nfsstat4::NFS4ERR_DELAY.0);
                if is_delayed {
                    server.tree = before;
                }
                is_delayed
            }
            MockServerFaultKind::Refuses(stat) => {
                serve_correctly(server, reply);
                reply.refuse(stat);
                true
            }
            MockServerFaultKind::WrongFiles(fault) => {
                serve_with_file_fault(fault, server, reply, serve_correctly)
            }
        };
        self.injections += u64::from(is_injected);
    }
}

/// Executes a Call, and changes the resulting files. Returns `false` if that made no difference.
fn serve_with_file_fault(
    fault: MockFileStateFault,
    server: &mut MockServer,
    reply: &mut MockReply,
    serve: impl Fn(&mut MockServer, &mut MockReply),
) -> bool {
    let (before, state) = (server.tree.clone(), server.state.clone());
    serve(server, reply);
    match fault {
        MockFileStateFault::Nothing => {
            let is_changed = server.tree.is_changed_since(&before);
            server.tree = before;
            is_changed
        }
        MockFileStateFault::Twice => {
            let (is_changed, after) = (server.tree.is_changed_since(&before), server.tree.clone());
            if is_changed {
                let first_status = fields::status(reply);
                server.state = state;
                serve(server, reply);
                // A repeated idempotent Call differs only in times.
                return server.tree.is_changed_since(&after) || fields::status(reply) != first_status;
            }
            is_changed
        }
        MockFileStateFault::KeepsNames => MockFileTree::restore_names(&before, &mut server.tree),
        MockFileStateFault::LosesNames => MockFileTree::remove_new_names(&before, &mut server.tree),
    }
}

impl MockServer {
    /// Executes a Call like [`call`](Self::call), with the fault of the injector if there is one.
    pub(in super::super) fn serve(
        &mut self,
        message: &[u8],
        chunks: &[ChunkedDataItem<'_>],
        reply: &mut MockReply,
    ) {
        match self.fault_injector.take() {
            Some(mut injector) => {
                injector.serve(self, message, chunks, reply);
                self.fault_injector = Some(injector);
            }
            None => self.call(Cursor::new(message).with_chunks(chunks), reply),
        }
    }
}
