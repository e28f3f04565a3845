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
            MockServerFaultKind::WrongFiles(deed) => f.write_str(match deed {
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
    pub fn new(lie: MockServerFault) -> Self {
        Self { fault: lie, skip: 0, injections: 0, is_repeated: false, is_stopped: false }
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
    fn is_occasion(&mut self, asked: &MockCallOperations) -> bool {
        let MockServerFault { version, operation, .. } = self.fault;
        let is_meant = asked.version == version && asked.operations.contains(&operation);
        if self.injections > 0 && !self.is_repeated || self.is_stopped || !is_meant {
            return false;
        }
        let is_now = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_now
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
        let is_meant = (has_write_chunk || !fault.affects_write_chunks())
            && MockCallOperations::from_call(message, chunks).is_some_and(|asked| self.is_occasion(&asked));
        self.injections += u64::from(is_meant);
        is_meant.then_some(fault)
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
        answer: &mut MockReply,
    ) {
        let is_travel = matches!(self.fault.what, MockServerFaultKind::WrongTransport(_));
        let asked = MockCallOperations::from_call(message, chunks)
            .filter(|asked| !is_travel && self.is_occasion(asked));
        let honest = |server: &mut MockServer, answer: &mut MockReply| {
            server.call(Cursor::new(message).with_chunks(chunks), answer);
        };
        let Some(asked) = asked else { return honest(server, answer) };
        let operation = self.fault.operation;
        let is_told = match self.fault.what {
            MockServerFaultKind::WrongTransport(_) => {
                honest(server, answer);
                false
            }
            MockServerFaultKind::WrongArgument(field, change) => {
                let mut contents: Vec<Vec<u8>> =
                    chunks.iter().map(|chunk| chunk.bytes.unwrap_or_default().to_vec()).collect();
                let mut other = message.to_vec();
                let place = fields::argument(&asked, message, chunks, operation, field);
                let is_other = place.is_some_and(|place| change.apply(&place, &mut other, &mut contents));
                let items: Vec<_> = chunks
                    .iter()
                    .zip(&contents)
                    .map(|(chunk, content)| ChunkedDataItem { bytes: Some(content), ..*chunk })
                    .collect();
                let (before, state) = (server.tree.clone(), server.state.clone());
                honest(server, answer);
                let (truth, after) = (answer.complete_message(), std::mem::replace(&mut server.tree, before));
                server.state = state;
                server.call(Cursor::new(&other).with_chunks(&items), answer);
                is_other && (answer.complete_message() != truth || server.tree.is_changed_since(&after))
            }
            MockServerFaultKind::WrongResult(field, change) => {
                honest(server, answer);
                let place = fields::result(&asked, answer, operation, field);
                let is_other =
                    place.is_some_and(|place| change.apply(&place, &mut answer.message, &mut answer.data));
                for (splice, data) in answer.splices.iter_mut().zip(&answer.data) {
                    splice.length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                }
                is_other
            }
            MockServerFaultKind::WrongStatus(status) => {
                honest(server, answer);
                fields::fail(&asked, answer, operation, status)
            }
            MockServerFaultKind::Delayed => {
                let before = server.tree.clone();
                honest(server, answer);
                let is_delayed = fields::fail(&asked, answer, operation, Nfsstat4::NFS4ERR_DELAY.0);
                if is_delayed {
                    server.tree = before;
                }
                is_delayed
            }
            MockServerFaultKind::Refuses(stat) => {
                honest(server, answer);
                answer.refuse(stat);
                true
            }
            MockServerFaultKind::WrongFiles(deed) => serve_with_file_fault(deed, server, answer, honest),
        };
        self.injections += u64::from(is_told);
    }
}

/// Executes a Call, and changes the resulting files. Returns `false` if that made no difference.
fn serve_with_file_fault(
    deed: MockFileStateFault,
    server: &mut MockServer,
    answer: &mut MockReply,
    done: impl Fn(&mut MockServer, &mut MockReply),
) -> bool {
    let (before, state) = (server.tree.clone(), server.state.clone());
    done(server, answer);
    match deed {
        MockFileStateFault::Nothing => {
            let is_change = server.tree.is_changed_since(&before);
            server.tree = before;
            is_change
        }
        MockFileStateFault::Twice => {
            let (is_change, after) = (server.tree.is_changed_since(&before), server.tree.clone());
            if is_change {
                let once = fields::status(answer);
                server.state = state;
                done(server, answer);
                // A repeated idempotent Call differs only in times.
                return server.tree.is_changed_since(&after) || fields::status(answer) != once;
            }
            is_change
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
        answer: &mut MockReply,
    ) {
        match self.fault_injector.take() {
            Some(mut liar) => {
                liar.serve(self, message, chunks, answer);
                self.fault_injector = Some(liar);
            }
            None => self.call(Cursor::new(message).with_chunks(chunks), answer),
        }
    }
}
