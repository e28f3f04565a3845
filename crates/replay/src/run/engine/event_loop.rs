//! Event loop: one thread sends the steps that are ready, handles the events of the transport and sleeps in between.

use std::cell::RefCell;
use std::io::{Read, Seek};
use std::time::{Duration, Instant, SystemTime};

use nfsrdma_dissectors::nfs::v4::Bitmap4;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::{DisconnectReason, ReceivedMessageDiscardReason, RpcClientConnectionId, RpcClientTransportEvent};

use super::super::callback_responder;
use super::super::nfs40_callback_server::CallbackServer;
use super::super::options::DEFAULT_LIMIT;
use super::super::report::ReplayReport;
use super::super::run_error::ReplayRunError;
use super::super::run_monitor::ReplayMonitor;
use super::super::trace_recording::{OptionalReplayRecorder, with_recorder};
use super::replay_engine::ReplayEngine;
use super::reply_check_queue::ReplyCheckQueue;
use super::step_window::client_copy;
use crate::containment::ContainmentCheckedTransport;

const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time to wait for Calls in flight when a run is ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of events between two reads of the clock.
const MAX_EVENTS_PER_TICK: u32 = 64;
/// Maximum number of events handled before new steps are issued.
const MAX_EVENT_BATCH: u32 = 32;
/// Sleeping ends this long before a step is due and polling begins, as a sleep may last that much longer.
const SPIN_BEFORE_DUE: Duration = Duration::from_micros(200);

/// Engines that may have something to do since steps were last issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplayEnginesWithWork {
    NoEngine,
    One(usize),
    All,
}

impl ReplayEnginesWithWork {
    fn contains(self, number: usize) -> bool {
        self == Self::All || self == Self::One(number)
    }

    fn with(self, number: usize) -> Self {
        match self {
            Self::NoEngine => Self::One(number),
            _ if self.contains(number) => self,
            _ => Self::All,
        }
    }
}

/// Runs the engines until all steps are finished or the run is ended.
pub(super) fn drive<R: Read + Seek>(
    engines: &mut [ReplayEngine<'_, R>],
    transport: &mut ContainmentCheckedTransport<'_>,
    monitor: &mut dyn ReplayMonitor,
    recorder: &RefCell<OptionalReplayRecorder>,
    callbacks: &CallbackServer,
) -> Result<(), ReplayRunError> {
    let total = engines.iter().map(|engine| engine.scheduler.steps.summary().end.steps).sum();
    let is_alone = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    let recorded_ns = engines.iter().map(|engine| engine.report.timing.recorded_ns).max().unwrap_or(0);
    let limit = engines.first().map_or(DEFAULT_LIMIT, |engine| engine.context.options.max_duration(recorded_ns));
    let start = Instant::now();
    let (mut now, mut events) = (start, 0);
    let mut drain_deadline: Option<Instant> = None;
    let mut callback_reply: Option<(RpcClientConnectionId, Xid, Vec<u8>)> = None;
    let mut pending_work = ReplayEnginesWithWork::All;
    // Events since steps were last issued.
    let mut batch_events = 0;
    loop {
        // While other Calls keep the server busy, the events that arrived together are handled before new steps are
        // issued, with a single doorbell.
        let takes_more =
            (1..MAX_EVENT_BATCH).contains(&batch_events) && engines.iter().any(|engine| engine.scheduler.in_flight > 0);
        let (mut due, mut in_flight, mut is_done) = (None, 0, true);
        for (number, engine) in engines.iter_mut().enumerate() {
            if drain_deadline.is_none() && !takes_more && pending_work.contains(number) {
                // Steps that became ready are sent before others are read ahead.
                engine.issue(transport)?;
                transport.flush();
                engine.admit()?;
                engine.scheduler.next_due = engine.issue(transport)?;
            }
            due = [due, engine.scheduler.next_due].into_iter().flatten().min();
            in_flight += engine.scheduler.in_flight;
            is_done &= engine.scheduler.is_done()
                && engine.connections.reclaim.is_none()
                && !engine.connections.leases.is_renewing();
        }
        if !takes_more {
            (pending_work, batch_events) = (ReplayEnginesWithWork::NoEngine, 0);
        }
        if is_done && in_flight == 0 && drain_deadline.is_none() {
            // Of all copies, before the final check of the first.
            let is_returning = engines.iter_mut().map(ReplayEngine::start_delegation_return);
            if is_returning.fold(false, |any, is_returning| any | is_returning) {
                (is_done, pending_work) = (false, ReplayEnginesWithWork::All);
            }
        }
        if in_flight == 0 && (is_done || drain_deadline.is_some()) {
            for engine in &mut *engines {
                engine.check_all()?;
            }
            with_recorder(recorder, |recorder| callbacks.record_answered(recorder));
            report_progress(engines, total, monitor, start.elapsed());
            return Ok(());
        }
        let deadline = due.map_or(now + STOP_CHECK_INTERVAL, |due| due.min(now + STOP_CHECK_INTERVAL));
        let poll_deadline = match due {
            Some(_) => deadline.checked_sub(SPIN_BEFORE_DUE).filter(|time| *time > now),
            None => Some(deadline),
        };
        // Replies are checked while there is nothing else to do. On a single core with one Call in flight, the core is
        // also needed by the device, so checking is put off; with more in flight, waiting would cost more than it
        // gains.
        let may_wait = is_alone && in_flight == 1;
        let is_behind = engines.iter().map(|engine| &engine.verification.unchecked_replies).any(if may_wait {
            ReplyCheckQueue::is_far_behind
        } else {
            ReplyCheckQueue::is_behind
        }) && due.is_none_or(|due| due.saturating_duration_since(Instant::now()) > SPIN_BEFORE_DUE);
        let event = transport.poll(poll_deadline.filter(|_| !is_behind && !takes_more))?;
        if event.is_none() && takes_more {
            batch_events = 0;
            continue;
        }
        let is_idle = event.is_none() && !is_behind;
        batch_events += u32::from(event.is_some());
        pending_work = match &event {
            _ if due.is_some() => ReplayEnginesWithWork::All,
            Some(RpcClientTransportEvent::Reply(reply)) => pending_work.with(client_copy(reply.tag)),
            Some(_) => ReplayEnginesWithWork::All,
            // Checking a Reply makes no step ready.
            None if is_behind => ReplayEnginesWithWork::NoEngine,
            None => ReplayEnginesWithWork::All,
        };
        match event {
            Some(RpcClientTransportEvent::Reply(reply)) => {
                if let Some(engine) = engines.get_mut(client_copy(reply.tag)) {
                    engine.handle_reply(&reply)?;
                }
            }
            Some(RpcClientTransportEvent::RdmaError { tag, error, .. }) => {
                with_recorder(recorder, |recorder| recorder.record_lost(tag, Some(&error)));
                if let Some(engine) = engines.get_mut(client_copy(tag)) {
                    engine.handle_failed_call(tag, &format!("RDMA_ERROR: {error:?}"))?;
                }
            }
            Some(RpcClientTransportEvent::Call(call)) => {
                let mut names = Vec::new();
                let mut find_attributes = |handle: &[u8], requested: &Bitmap4<'_>| {
                    engine_of_connection(engines, call.connection)?.call_builder.next_cb_getattr_attributes(
                        handle,
                        requested,
                        since_1970(),
                    )
                };
                let message = callback_responder::answer_callback(call.message, &mut names, &mut find_attributes);
                with_recorder(recorder, |recorder| {
                    recorder.record_callback(call.connection, call.message, message.as_deref());
                });
                callback_reply = message.map(|message| (call.connection, call.xid, message));
                if let Some(engine) = engine_of_connection(engines, call.connection) {
                    for name in names {
                        *engine.report.callbacks.by_operation.entry(name).or_default() += 1;
                    }
                    engine.report.callbacks.unanswered += u64::from(callback_reply.is_none());
                }
            }
            Some(RpcClientTransportEvent::Disconnected { connection, reason, lost_calls }) => {
                if let Some(engine) = engine_of_connection(engines, connection) {
                    engine.report.recovery.disconnects += u64::from(reason != DisconnectReason::LocalClose);
                    if reason.is_violation() {
                        engine.report.protocol.count_violation(reason.to_string());
                    }
                    engine.connections.count_failure();
                    if reason != DisconnectReason::LocalClose
                        && let Some(auxiliary) = &mut engine.call_builder.auxiliary
                    {
                        auxiliary.record_server_disconnect();
                    }
                }
                let description = format!("the connection went away: {reason}");
                for tag in lost_calls {
                    if let Some(engine) = engines.get_mut(client_copy(*tag)) {
                        engine.handle_lost_call(*tag, &description)?;
                    }
                }
                engines.iter_mut().for_each(|engine| engine.mark_connection_lost(connection));
            }
            Some(RpcClientTransportEvent::Discarded { reason, connection, .. }) => {
                if let Some(engine) = engine_of_connection(engines, connection) {
                    *engine.report.protocol.discarded.entry(reason).or_default() += 1;
                    if reason.is_violation() {
                        engine.report.protocol.count_violation(format!("invalid message: {reason}"));
                    }
                    let is_reverse_call = matches!(reason, ReceivedMessageDiscardReason::ReverseCall);
                    engine.report.callbacks.unanswered += u64::from(is_reverse_call);
                }
            }
            Some(RpcClientTransportEvent::Credits { connection, .. }) => {
                engines.iter_mut().for_each(|engine| engine.unpark_connection(connection, usize::MAX));
            }
            None => {
                let mut lagging = engines.iter_mut().filter(|_| is_behind);
                if let Some(engine) = lagging.find(|engine| engine.verification.unchecked_replies.is_behind()) {
                    engine.check_next()?;
                }
            }
        }
        if let Some((connection, xid, message)) = callback_reply.take()
            && transport.answer(connection, xid, &message).is_err()
            && let Some(engine) = engine_of_connection(engines, connection)
        {
            engine.report.callbacks.unanswered += 1;
        }
        events += 1;
        if !is_idle && events < MAX_EVENTS_PER_TICK {
            continue;
        }
        (now, events, pending_work) = (Instant::now(), 0, ReplayEnginesWithWork::All);
        engines.iter_mut().try_for_each(|engine| engine.expire(now))?;
        callbacks.answer_getattr_queries(|(number, _), handle, requested| {
            engines.get_mut(number as usize)?.call_builder.next_cb_getattr_attributes(handle, requested, since_1970())
        });
        with_recorder(recorder, |recorder| callbacks.record_answered(recorder));
        report_progress(engines, total, monitor, now - start);
        let is_late = now.saturating_duration_since(start) > limit;
        if drain_deadline.is_none() && (is_late || monitor.should_stop()) {
            for engine in &mut *engines {
                (engine.report.end.limit, engine.report.end.is_interrupted) = (is_late.then_some(limit), true);
            }
            drain_deadline = Some(now + DRAIN_TIMEOUT);
        }
        if drain_deadline.is_none() {
            engines.iter_mut().try_for_each(|engine| engine.renew_leases(now, transport))?;
        }
        if drain_deadline.is_some_and(|end| now > end) {
            for engine in &mut *engines {
                engine.abandon_in_flight("no reply before the run was ended")?;
            }
        }
        // If the transport does not block, the loop sleeps itself.
        if let Some(poll_deadline) = poll_deadline
            && is_idle
            && in_flight == 0
            && poll_deadline > now
        {
            std::thread::sleep(poll_deadline - now);
            now = Instant::now();
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the engine that a connection belongs to, or the first if none uses it any more.
fn engine_of_connection<'e, 'r, R>(
    engines: &'e mut [ReplayEngine<'r, R>],
    connection: RpcClientConnectionId,
) -> Option<&'e mut ReplayEngine<'r, R>> {
    let at = engines.iter().position(|engine| engine.connections.connection_index.contains_key(&connection));
    engines.get_mut(at.unwrap_or(0))
}

fn report_progress<R>(engines: &[ReplayEngine<'_, R>], total: u64, monitor: &mut dyn ReplayMonitor, elapsed: Duration) {
    if let [engine] = engines {
        return monitor.report_progress(&engine.report, total, elapsed);
    }
    // Only the counters that the progress display shows.
    let mut sum = ReplayReport::default();
    for ReplayEngine { report, .. } in engines {
        sum.steps.total += report.steps.total;
        sum.steps.states += report.steps.states;
    }
    monitor.report_progress(&sum, total, elapsed);
}
