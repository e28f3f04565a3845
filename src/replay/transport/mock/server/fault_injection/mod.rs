//! A faulty server: one Reply is wrong in one respect, all others are correct.
//!
//! It is for tests of reply verification. A [`MockServerFault`] is a row of a [`table`](all): an operation and the
//! fault in it. The fault is injected once, on the first occasion, and injections are counted: a fault that was never
//! injected proves nothing about the verification.
//!
//! - [`fields`]: locations of fields in messages, from the decoders.

mod fields;
mod table;

use std::fmt;

use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{ChunkItem, Cursor};

use super::super::faults::MockTransportFault;
use super::file_tree::MockFileTree;
use super::{MockReply, MockServer};
use fields::MockCallOperations;

pub use table::all;

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
    Says(&'static str, MockFieldMutation),
    /// The Call is executed with another value of this argument.
    Does(&'static str, MockFieldMutation),
    /// The Call is executed, but the Reply reports this error status.
    Fails(u32),
    /// The Call is executed, but RPC refuses it. RFC 5531 section 9.
    Refuses(AcceptStat),
    /// The files are wrong afterwards.
    Leaves(MockFileFault),
    /// The transport of the Reply has a fault.
    Travels(MockTransportFault),
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
    Without,
    /// Duplicates an entry.
    Again,
    /// Adds an entry with another name.
    Another,
}

/// A wrong state of the files after a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFileFault {
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
            MockServerFaultKind::Says(field, change) => write!(f, "says {field} {change}"),
            MockServerFaultKind::Does(field, change) => write!(f, "takes {field} {change}"),
            MockServerFaultKind::Fails(status) => write!(f, "is done, and says status {status}"),
            MockServerFaultKind::Refuses(stat) => write!(f, "is refused with {stat}"),
            MockServerFaultKind::Leaves(deed) => f.write_str(match deed {
                MockFileFault::Nothing => "does nothing, and says it is done",
                MockFileFault::Twice => "is done twice",
                MockFileFault::KeepsNames => "leaves the old name",
                MockFileFault::LosesNames => "does not keep the new name",
            }),
            MockServerFaultKind::Travels(fault) => write!(f, "travels with {fault:?}"),
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
            Self::Without => "without the first",
            Self::Again => "with the first twice",
            Self::Another => "with one that is not there",
        })
    }
}

/// Injects a fault.
#[derive(Clone, Debug)]
pub struct MockFaultInjector {
    lie: MockServerFault,
    /// Number of occasions to skip first.
    skip: u64,
    told: u64,
    is_constant: bool,
    is_honest: bool,
}

impl MockFaultInjector {
    /// Creates an injector for a fault.
    pub fn new(lie: MockServerFault) -> Self {
        Self { lie, skip: 0, told: 0, is_constant: false, is_honest: false }
    }

    /// Skips this many occasions first.
    #[must_use]
    pub fn after(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// Injects the fault on every occasion, not only once.
    #[must_use]
    pub fn always(self) -> Self {
        Self { is_constant: true, ..self }
    }

    /// Returns the fault.
    pub fn lie(&self) -> MockServerFault {
        self.lie
    }

    /// Stops injecting.
    pub fn repent(&mut self) {
        self.is_honest = true;
    }

    /// Returns `true` if the fault is to be injected into this Call.
    fn is_meant(&mut self, asked: &MockCallOperations) -> bool {
        if self.told > 0 && !self.is_constant || self.is_honest || !asked.has(&self.lie) {
            return false;
        }
        let is_now = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_now
    }

    /// Returns the number of injections.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Returns the transport fault of the reply to this message, if any. Faults of chunks require a Write chunk.
    pub(in super::super) fn fault(
        &mut self,
        message: &[u8],
        chunks: &[ChunkItem<'_>],
        has_write_chunk: bool,
    ) -> Option<MockTransportFault> {
        let MockServerFaultKind::Travels(fault) = self.lie.what else { return None };
        let is_meant = (has_write_chunk || !fault.is_of_chunk())
            && MockCallOperations::of(message, chunks).is_some_and(|asked| self.is_meant(&asked));
        self.told += u64::from(is_meant);
        is_meant.then_some(fault)
    }

    /// Reverts the count of an injection that had no effect.
    pub(in super::super) fn take_back(&mut self) {
        self.told = self.told.saturating_sub(1);
    }

    /// Executes a Call, and injects the fault if this is the occasion.
    fn serve(
        &mut self,
        server: &mut MockServer,
        message: &[u8],
        chunks: &[ChunkItem<'_>],
        answer: &mut MockReply,
    ) {
        let is_travel = matches!(self.lie.what, MockServerFaultKind::Travels(_));
        let asked =
            MockCallOperations::of(message, chunks).filter(|asked| !is_travel && self.is_meant(asked));
        let honest = |server: &mut MockServer, answer: &mut MockReply| {
            server.call(Cursor::new(message).with_chunks(chunks), answer);
        };
        let Some(asked) = asked else { return honest(server, answer) };
        let operation = self.lie.operation;
        let is_told = match self.lie.what {
            MockServerFaultKind::Travels(_) => {
                honest(server, answer);
                false
            }
            MockServerFaultKind::Does(field, change) => {
                let mut contents: Vec<Vec<u8>> =
                    chunks.iter().map(|chunk| chunk.bytes.unwrap_or_default().to_vec()).collect();
                let mut other = message.to_vec();
                let place = fields::argument(&asked, message, chunks, operation, field);
                let is_other = place.is_some_and(|place| change.apply(&place, &mut other, &mut contents));
                let items: Vec<_> = chunks
                    .iter()
                    .zip(&contents)
                    .map(|(chunk, content)| ChunkItem { bytes: Some(content), ..*chunk })
                    .collect();
                let (before, state) = (server.tree.clone(), server.state.clone());
                honest(server, answer);
                let (truth, after) = (answer.whole(), std::mem::replace(&mut server.tree, before));
                server.state = state;
                server.call(Cursor::new(&other).with_chunks(&items), answer);
                is_other && (answer.whole() != truth || server.tree.is_changed_since(&after))
            }
            MockServerFaultKind::Says(field, change) => {
                honest(server, answer);
                let place = fields::result(&asked, answer, operation, field);
                let is_other =
                    place.is_some_and(|place| change.apply(&place, &mut answer.message, &mut answer.data));
                for (splice, data) in answer.splices.iter_mut().zip(&answer.data) {
                    splice.length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                }
                is_other
            }
            MockServerFaultKind::Fails(status) => {
                honest(server, answer);
                fields::fail(&asked, answer, operation, status)
            }
            MockServerFaultKind::Refuses(stat) => {
                honest(server, answer);
                answer.refuse(stat);
                true
            }
            MockServerFaultKind::Leaves(deed) => leave(deed, server, answer, honest),
        };
        self.told += u64::from(is_told);
    }
}

/// Executes a Call, and changes the resulting files. Returns `false` if that made no difference.
fn leave(
    deed: MockFileFault,
    server: &mut MockServer,
    answer: &mut MockReply,
    done: impl Fn(&mut MockServer, &mut MockReply),
) -> bool {
    let (before, state) = (server.tree.clone(), server.state.clone());
    done(server, answer);
    match deed {
        MockFileFault::Nothing => {
            let is_change = server.tree.is_changed_since(&before);
            server.tree = before;
            is_change
        }
        MockFileFault::Twice => {
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
        MockFileFault::KeepsNames => MockFileTree::name_again(&before, &mut server.tree),
        MockFileFault::LosesNames => MockFileTree::lose_names(&before, &mut server.tree),
    }
}

impl MockServer {
    /// Executes a Call like [`call`](Self::call), with the fault of the injector if there is one.
    pub(in super::super) fn serve(
        &mut self,
        message: &[u8],
        chunks: &[ChunkItem<'_>],
        answer: &mut MockReply,
    ) {
        match self.liar.take() {
            Some(mut liar) => {
                liar.serve(self, message, chunks, answer);
                self.liar = Some(liar);
            }
            None => self.call(Cursor::new(message).with_chunks(chunks), answer),
        }
    }
}
