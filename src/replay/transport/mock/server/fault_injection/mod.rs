//! A server that lies: in one Reply something is otherwise than it must be, and everything else is honest.
//!
//! It is for tests of what holds a server to its word. A [`MockServerFault`] is a row of a [`table`](all): in which operation, and what is
//! otherwise. It is told once, at the first occasion, and whether it was told is counted: a lie that nobody has heard
//! says nothing about who listens.
//!
//! - [`fields`]: where in a message something stands, as the decoders tell it.

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

/// One thing that is otherwise than it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockServerFault {
    /// The version of NFS.
    pub version: u32,
    /// The procedure, or the operation of a COMPOUND.
    pub operation: &'static str,
    /// What is otherwise.
    pub what: MockServerFaultKind,
}

/// What is otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockServerFaultKind {
    /// The Reply has this field otherwise: its name in the RFC, and names above it as far as that is needed.
    Says(&'static str, MockFieldMutation),
    /// It is done as if this argument had been another one.
    Does(&'static str, MockFieldMutation),
    /// It is done, and the Reply says that it failed with this status.
    Fails(u32),
    /// RPC refuses the Call. RFC 5531 section 9.
    Refuses(AcceptStat),
    /// The files are otherwise afterwards.
    Leaves(MockFileFault),
    /// The Reply travels otherwise.
    Travels(MockTransportFault),
}

/// How a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFieldMutation {
    /// The lowest bit of a number, or of the first byte of text or data.
    Flipped,
    /// The lowest bit of the last byte of text or data.
    LastFlipped,
    /// One more.
    More,
    /// One less; zero stays.
    Less,
    /// Data without its last byte.
    Shorter,
    /// An entry of a list is not there.
    Without,
    /// An entry is there twice.
    Again,
    /// An entry more, of another name.
    Another,
}

/// What becomes of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFileFault {
    /// Nothing was done, and the Reply says that it was.
    Nothing,
    /// It was done a second time, which is what the Reply tells of.
    Twice,
    /// Names that went are there again.
    KeepsNames,
    /// Names that came are gone.
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

/// Tells a lie.
#[derive(Clone, Debug)]
pub struct MockFaultInjector {
    lie: MockServerFault,
    /// Occasions that are let go by first.
    skip: u64,
    told: u64,
    is_constant: bool,
    is_honest: bool,
}

impl MockFaultInjector {
    /// One that has told nothing yet.
    pub fn new(lie: MockServerFault) -> Self {
        Self { lie, skip: 0, told: 0, is_constant: false, is_honest: false }
    }

    /// The same, which lets so many occasions go by first.
    #[must_use]
    pub fn after(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// The same, which lies at each occasion.
    #[must_use]
    pub fn always(self) -> Self {
        Self { is_constant: true, ..self }
    }

    /// What it lies about.
    pub fn lie(&self) -> MockServerFault {
        self.lie
    }

    /// From here on it is honest.
    pub fn repent(&mut self) {
        self.is_honest = true;
    }

    /// Whether this Call is the occasion.
    fn is_meant(&mut self, asked: &MockCallOperations) -> bool {
        if self.told > 0 && !self.is_constant || self.is_honest || !asked.has(&self.lie) {
            return false;
        }
        let is_now = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_now
    }

    /// How often the lie was told.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// What goes wrong with the answer to this message, which came with chunks for the Reply or without.
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

    /// What was to go wrong could not.
    pub(in super::super) fn take_back(&mut self) {
        self.told = self.told.saturating_sub(1);
    }

    /// Has a Call done, and lies about it if this is the occasion.
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

/// Has a Call done, and the files left otherwise. Whether there was anything to be left.
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
                // What may be done twice without harm tells of other times alone.
                return server.tree.is_changed_since(&after) || fields::status(answer) != once;
            }
            is_change
        }
        MockFileFault::KeepsNames => MockFileTree::name_again(&before, &mut server.tree),
        MockFileFault::LosesNames => MockFileTree::lose_names(&before, &mut server.tree),
    }
}

impl MockServer {
    /// Does what a Call asks for, as [`call`](Self::call), or as the liar that the server is would have it.
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
