//! What a pass has found and nobody has taken yet. Whoever takes it never waits for more than a copy of some pointers; the
//! pass waits where too much lies there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::source::{self, Counters, Place};

use super::model::Page;
use super::model::tables::Tables;

/// Pages that lie in a mailbox at most.
const PAGES: usize = 16;

/// What a pass has found since somebody looked.
#[derive(Debug, Default)]
pub(super) struct Mail {
    /// New rows, in order.
    pub(super) pages: Vec<Page>,
    /// The newest tables.
    pub(super) tables: Option<Box<Tables>>,
    /// Places from which frames can be read again.
    pub(super) places: Vec<Place>,
    /// What was wrong with the input.
    pub(super) errors: Vec<String>,
    /// How far the reading has come.
    pub(super) progress: Progress,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes of the input.
    pub(super) bytes: source::Progress,
    /// Frames that were read.
    pub(super) frames: u64,
    /// Transactions that were seen, selected or not.
    pub(super) transactions: u64,
    /// Packets that the capturing program lost, where it says so.
    pub(super) dropped: Option<u64>,
    /// What an interface has counted.
    pub(super) counters: Option<Counters>,
    /// Whether there is no more.
    pub(super) is_over: bool,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    is_stopped: bool,
}

/// A mailbox; both sides have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox(Arc<(Mutex<State>, Condvar)>);

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what lies there.
    pub(super) fn take(&self) -> Mail {
        let mail = std::mem::take(&mut self.lock().mail);
        self.0.1.notify_all();
        mail
    }

    /// How many rows lie there.
    pub(super) fn rows(&self) -> usize {
        self.lock().mail.pages.iter().map(Page::len).sum()
    }

    /// Puts something in, after waiting for room if `waits`; `false` if nobody wants more.
    pub(super) fn put(&self, waits: bool, put: impl FnOnce(&mut Mail)) -> bool {
        let mut state = self.lock();
        while waits && state.mail.pages.len() >= PAGES && !state.is_stopped {
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
