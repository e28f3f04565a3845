//! What a pass has found and nobody has taken yet. Whoever takes it never waits for more than a copy of some pointers; the
//! pass waits where too much lies there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nfsrdma_dissectors::frame::Timestamp;

use crate::source::{self, Counters, LinkState, ResumePoint};

use super::model::RowPage;
use super::model::activity::LiveActivity;
use super::model::tables::ViewTables;

/// Pages that lie in a mailbox at most, where who reads can wait.
pub(super) const PAGES: usize = 16;

/// What a pass has found since somebody looked.
#[derive(Debug, Default)]
pub(super) struct PassUpdates {
    /// New rows, in order.
    pub(super) pages: Vec<RowPage>,
    /// The newest tables.
    pub(super) tables: Option<Box<ViewTables>>,
    /// What goes on at this moment, of what comes once.
    pub(super) activity: Option<Box<LiveActivity>>,
    /// Places from which frames can be read again.
    pub(super) places: Vec<ResumePoint>,
    /// What was wrong with the input.
    pub(super) errors: Vec<String>,
    /// Progress of the reading; `None` where nothing was reported since.
    pub(super) progress: Option<PassProgress>,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PassProgress {
    /// Bytes of the input.
    pub(super) bytes: source::ReadProgress,
    /// Frames that were read.
    pub(super) frames: u64,
    /// Transactions that were seen, selected or not.
    pub(super) transactions: u64,
    /// Packets that the capturing program lost, where it says so.
    pub(super) dropped: Option<u64>,
    /// What an interface has counted.
    pub(super) counters: Option<Counters>,
    /// The state of an interface that is captured on.
    pub(super) link: Option<LinkState>,
    /// Whether there is no more.
    pub(super) is_over: bool,
    /// Of what comes once: frames that were gone before they could be looked at.
    pub(super) gone: u64,
    /// When the first frame came after those.
    pub(super) since: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct PassChannelState {
    mail: PassUpdates,
    is_stopped: bool,
}

/// A mailbox; both sides have it.
#[derive(Clone, Debug, Default)]
pub(super) struct PassChannel(Arc<(Mutex<PassChannelState>, Condvar)>);

impl PassChannel {
    fn lock(&self) -> MutexGuard<'_, PassChannelState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what lies there.
    pub(super) fn take(&self) -> PassUpdates {
        let mail = std::mem::take(&mut self.lock().mail);
        self.0.1.notify_all();
        mail
    }

    /// How many rows lie there.
    pub(super) fn rows(&self) -> usize {
        self.lock().mail.pages.iter().map(RowPage::len).sum()
    }

    /// Whether the news that there is no more lies there.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.lock().mail.progress.is_some_and(|progress| progress.is_over)
    }

    /// Puts something in, after waiting until no more than `most` pages lie there; `false` if nobody wants more.
    pub(super) fn put(&self, most: usize, put: impl FnOnce(&mut PassUpdates)) -> bool {
        let mut state = self.lock();
        while state.mail.pages.len() > most && !state.is_stopped {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        put(&mut state.mail);
        !state.is_stopped
    }

    /// Nobody wants more.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.0.1.notify_all();
    }

    /// Whether nobody wants more.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }
}
