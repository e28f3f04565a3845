//! Captures read as records, for the commands that compare them.

use std::path::Path;

use nfsrdma_dissectors::flow::{Flow, Limits};

use super::progress::Progress;
use crate::analysis::comparison::Client;
use crate::analysis::comparison::record::Record;
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::trace::Trace;
use crate::source::{Source, SourceError};

/// Transactions that are done, and wait for late copies of their messages. They keep their file data until it is hashed,
/// so they are fewer than where nothing looks into it.
const LINGERING: usize = 256;
/// Bytes of chunks that are kept until they are hashed: what so many Transactions of 1 MiB have.
const KEPT: u64 = 256 << 20;

/// A capture that is being read.
pub(super) struct Reader {
    source: Source,
    flow: Flow,
    is_over: bool,
    /// What is known of it as a whole.
    pub(super) trace: Trace,
    /// What was wrong with the file.
    pub(super) errors: Vec<SourceError>,
}

impl Reader {
    /// Opens a capture.
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        let limits = Limits {
            keep_data: true,
            lingering_transactions: LINGERING,
            kept_bytes: KEPT,
            ..Limits::default()
        };
        Ok(Self {
            source: Source::open([path])?,
            flow: Flow::new(limits),
            is_over: false,
            trace: Trace { name: path.to_string_lossy().into_owned(), ..Trace::default() },
            errors: Vec::new(),
        })
    }

    /// Whether it turned out to be no capture at all.
    pub(super) fn is_no_capture(&self) -> bool {
        !self.errors.is_empty() && self.trace.frames == 0
    }

    /// The next record, and whose it is; `None` at the end.
    pub(super) fn next(
        &mut self,
        recorder: &mut Recorder,
        progress: &mut Progress,
    ) -> Option<(Client, Record)> {
        loop {
            if let Some(transaction) = self.flow.next_transaction() {
                let record = recorder.record(&transaction);
                self.trace.transaction(&transaction, &record);
                let client = Client {
                    address: recorder.word(&transaction.connection.client.address.to_string()),
                    direction: transaction.direction,
                };
                return Some((client, record));
            }
            if self.is_over {
                return None;
            }
            match self.source.next() {
                Ok(Some(frame)) => {
                    self.trace.frames += 1;
                    let is_known = frame.link.is_known();
                    self.flow.frame(&frame);
                    if !is_known {
                        self.errors.extend(self.source.unknown_link());
                    }
                }
                Ok(None) => {
                    self.flow.finish();
                    self.trace.end(&self.flow);
                    self.is_over = true;
                }
                Err(error) => self.errors.push(error),
            }
            if progress.is_due(false) {
                progress.draw(self.source.progress(), self.trace.transactions);
            }
        }
    }
}
