//! Reply timeouts: a Call is sent once more, then given up; after several consecutive timeouts the server is given up.

use std::io::{Read, Seek};
use std::time::Instant;

use super::super::run_error::ReplayRunError;
use super::replay_engine::ReplayEngine;
use super::step_window::call_tag;

/// Number of consecutive reply timeouts that ends the run.
const MAX_REPLY_TIMEOUTS: u32 = 3;

impl<R: Read + Seek> ReplayEngine<'_, R> {
    pub(super) fn expire(&mut self, now: Instant) -> Result<(), ReplayRunError> {
        self.detect_stall(now);
        self.expire_substitutes(now);
        self.expire_contexts(now);
        self.expire_bindings(now);
        while let Some((sent, tag)) = self.connections.expiries.front().copied() {
            let Some(window_index) = self.scheduler.window.find(tag) else {
                self.connections.expiries.pop_front();
                continue;
            };
            if !self.context.is_overdue(sent, now) {
                break;
            }
            self.connections.expiries.pop_front();
            let flight = self.scheduler.window.get(window_index).and_then(|entry| entry.call.in_flight);
            // The Call was sent again since.
            let Some((connection, _)) = flight.filter(|(_, last_sent)| *last_sent == sent) else { continue };
            let reason = self.context.timeout_text();
            // The Call may have been lost in transit; it is sent once more on another connection, unless the run is to
            // end.
            let entry = self.scheduler.window.get_mut(window_index);
            let is_first = entry.is_some_and(|entry| !std::mem::replace(&mut entry.resend.was_timeout, true));
            match is_first && !self.report.end.is_interrupted {
                true => self.handle_lost_call(tag, &reason)?,
                false => self.handle_failed_call(tag, &reason)?,
            }
            // Calls that were in flight at the same time count as one timeout.
            if self.connections.silent_since.is_none_or(|last_timeout| sent > last_timeout) {
                self.count_reply_timeout(now);
                if self.connections.reply_timeouts >= MAX_REPLY_TIMEOUTS {
                    self.abandon_in_flight(&reason)?;
                }
            }
            // A late Reply there is ignored; the next Call opens a new connection.
            self.mark_connection_lost(connection);
        }
        Ok(())
    }

    /// Counts a reply timeout and gives up the server after several in a row.
    fn count_reply_timeout(&mut self, now: Instant) {
        (self.connections.reply_timeouts, self.connections.silent_since) =
            (self.connections.reply_timeouts + 1, Some(now));
        if self.connections.reply_timeouts >= MAX_REPLY_TIMEOUTS {
            let (name, overdue) = (&self.context.target.name, self.context.timeout_text());
            let reason = format!("{name}: {overdue}, {MAX_REPLY_TIMEOUTS} times in a row; check that the server runs");
            self.mark_unreachable(&reason);
        }
    }

    /// Detects a stall: no step is in flight, and steps wait for the Reply to another Call, for example the one that
    /// grants a new connection more than one credit.
    fn detect_stall(&mut self, now: Instant) {
        let is_waiting = self.connections.reclaim.is_some() || self.scheduler.has_parked();
        if self.scheduler.in_flight > 0 || !is_waiting || self.report.end.unreachable.is_some() {
            self.connections.stalled_since = None;
            return;
        }
        let stalled_since = *self.connections.stalled_since.get_or_insert(now);
        if self.context.is_overdue(stalled_since, now) {
            self.connections.stalled_since = None;
            self.count_reply_timeout(now);
            let connections: Vec<_> = self.connections.lines.iter().map(|line| line.connection).collect();
            connections.into_iter().for_each(|connection| self.mark_connection_lost(connection));
        }
    }

    pub(super) fn abandon_in_flight(&mut self, reason: &str) -> Result<(), ReplayRunError> {
        self.abandon_substitutes();
        for window_index in self.scheduler.window.in_flight_indices() {
            if let Some(entry) = self.scheduler.window.get(window_index) {
                self.handle_failed_call(call_tag(self.context.number, window_index, entry.turn), reason)?;
            }
        }
        Ok(())
    }
}
