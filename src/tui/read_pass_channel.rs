//! Channel of the results of a pass. The receiver waits at most while some pointers are copied; the pass waits if too
//! many results are pending.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nfsrdma_capture_file::{CaptureInterfaceLinkState, CapturePacketCounters, CaptureResumePoint, ReadProgress};
use nfsrdma_dissectors::captured_frame::Timestamp;

use super::model::pending_calls_and_rates::LiveActivitySnapshot;
use super::model::statistics_snapshot::DisplayedStatistics;
use super::model::transaction_list_row::RowPage;

/// Maximum number of pending pages, if the input can wait.
pub(super) const MAX_PENDING_PAGES: usize = 16;

/// The results of a pass since the last call of [`ReadPassChannel::take`].
#[derive(Debug, Default)]
pub(super) struct ReadPassUpdates {
    /// New rows, in order.
    pub(super) pages: Vec<RowPage>,
    /// The newest tables.
    pub(super) tables: Option<Box<DisplayedStatistics>>,
    /// The newest activity, if frames are received once.
    pub(super) activity: Option<Box<LiveActivitySnapshot>>,
    /// Positions from which frames can be read again.
    pub(super) resume_points: Vec<CaptureResumePoint>,
    /// Errors of the input.
    pub(super) errors: Vec<String>,
    /// Progress of the pass; `None` if nothing was reported.
    pub(super) progress: Option<ReadPassProgress>,
}

/// Progress of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReadPassProgress {
    /// Bytes of the input.
    pub(super) bytes: ReadProgress,
    /// Number of frames read.
    pub(super) frames: u64,
    /// Number of Transactions seen, selected or not.
    pub(super) transactions: u64,
    /// Number of packets that the capturing program dropped, if it reports that.
    pub(super) dropped: Option<u64>,
    /// Counters of an interface.
    pub(super) counters: Option<CapturePacketCounters>,
    /// State of a captured interface.
    pub(super) link: Option<CaptureInterfaceLinkState>,
    /// Time by which decoding lags behind an interface, in nanoseconds.
    pub(super) behind_ns: u64,
    /// `true` if the pass is over.
    pub(super) is_over: bool,
    /// Number of frames received once that were evicted before this pass read them.
    pub(super) evicted_frames: u64,
    /// Time of the first frame after the evicted ones.
    pub(super) first_available_time: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct PendingReadPassUpdates {
    updates: ReadPassUpdates,
    is_stopped: bool,
}

/// The channel, shared by both sides.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadPassChannel(Arc<(Mutex<PendingReadPassUpdates>, Condvar)>);

impl ReadPassChannel {
    fn lock(&self) -> MutexGuard<'_, PendingReadPassUpdates> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pending updates.
    pub(super) fn take(&self) -> ReadPassUpdates {
        let updates = std::mem::take(&mut self.lock().updates);
        self.0.1.notify_all();
        updates
    }

    /// Returns the number of pending rows.
    pub(super) fn pending_rows(&self) -> usize {
        self.lock().updates.pages.iter().map(RowPage::len).sum()
    }

    /// Returns `true` if the end of the pass is pending.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.lock().updates.progress.is_some_and(|progress| progress.is_over)
    }

    /// Updates the channel once at most `max_pages` pages are pending. Returns `false` if the receiver has stopped it.
    pub(super) fn update(&self, max_pages: usize, update: impl FnOnce(&mut ReadPassUpdates)) -> bool {
        let mut state = self.lock();
        while state.updates.pages.len() > max_pages && !state.is_stopped {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        update(&mut state.updates);
        !state.is_stopped
    }

    /// Stops the pass.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.0.1.notify_all();
    }

    /// Returns `true` if the receiver has stopped the pass.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }
}
