//! Attempts to reach a server again.

use std::time::{Duration, Instant};

use crate::params::{ConnectOptions, ConnectTarget, RpcClientConnectionId};
use crate::transport_error::{RpcClientTransportError, RpcClientTransportErrorKind, TransportErrorResponsibility};

/// Timeout of the first attempt. Each attempt that times out doubles it.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay after an attempt that failed.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Attempts to reach a server again after a connection was lost, up to a timeout. A server that restarts is unreachable
/// for a while.
///
/// A network that fails may lose the request for a connection. InfiniBand's connection manager repeats it only after
/// several seconds, and TCP after intervals that double (RFC 6298 section 5.5). So the first attempts are short, and a
/// new request follows soon after the network works again.
#[derive(Clone, Copy, Debug)]
pub struct ReconnectionAttempts {
    /// Time limit of all attempts together.
    timeout: Duration,
    attempt_timeout: Duration,
    /// Start of the first attempt.
    since: Option<Instant>,
    next_attempt: Instant,
}

impl ReconnectionAttempts {
    /// Plans attempts from `first_attempt` on, for as long as `timeout` after the first.
    pub fn new(first_attempt: Instant, timeout: Duration) -> Self {
        Self { timeout, attempt_timeout: FIRST_TIMEOUT, since: None, next_attempt: first_attempt }
    }

    /// Returns the earliest time of the next attempt.
    pub fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// Makes attempts until a connection is open, and sleeps between them.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_blocking(
        &mut self,
        target: &ConnectTarget,
        mut connect: impl FnMut(&ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError>,
    ) -> Result<RpcClientConnectionId, RpcClientTransportError> {
        loop {
            if let Some(connection) = self.connect(target, &mut connect)? {
                return Ok(connection);
            }
            std::thread::sleep(self.next_attempt.saturating_duration_since(Instant::now()));
        }
    }

    /// Makes an attempt: calls `connect` with the target and the timeout of the attempt. Returns `None` if another
    /// attempt is due at [`next_attempt`](Self::next_attempt).
    ///
    /// # Errors
    /// Returns an error if the server was unreachable for the whole timeout, or for another reason at once.
    pub fn connect(
        &mut self,
        target: &ConnectTarget,
        connect: impl FnOnce(&ConnectTarget) -> Result<RpcClientConnectionId, RpcClientTransportError>,
    ) -> Result<Option<RpcClientConnectionId>, RpcClientTransportError> {
        let start = *self.since.get_or_insert_with(Instant::now);
        let remaining = self.timeout.saturating_sub(start.elapsed());
        let options = ConnectOptions { timeout: self.attempt_timeout.min(remaining), ..target.options.clone() };
        match connect(&ConnectTarget { options, ..target.clone() }) {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if error.blame() != TransportErrorResponsibility::Unreachable => Err(error),
            Err(error) => {
                let is_timeout = matches!(error.kind, RpcClientTransportErrorKind::Timeout(_));
                if start.elapsed() < self.timeout {
                    if is_timeout {
                        self.attempt_timeout *= 2;
                    }
                    self.next_attempt = Instant::now() + RETRY_DELAY;
                    return Ok(None);
                }
                // The timeout of all attempts is reported, not that of the last one.
                let kind = RpcClientTransportErrorKind::Timeout(self.timeout);
                Err(if is_timeout {
                    RpcClientTransportError::at(&target.name, Some(target.address), kind)
                } else {
                    error
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport_error::{PermanentSubmitRefusal, SubmitError};

    fn target() -> ConnectTarget {
        ConnectTarget {
            address: ([192, 0, 2, 1], 20_049).into(),
            name: "nas".into(),
            options: ConnectOptions { timeout: Duration::from_secs(30), ..ConnectOptions::default() },
        }
    }

    fn error(kind: RpcClientTransportErrorKind) -> RpcClientTransportError {
        RpcClientTransportError::at("nas", None, kind)
    }

    #[test]
    fn a_request_that_got_lost_is_followed_by_others_soon() {
        let mut attempts = ReconnectionAttempts::new(Instant::now(), Duration::from_secs(30));
        let mut timeouts = Vec::new();
        for _ in 0..5 {
            let got = attempts.connect(&target(), |target| {
                timeouts.push(target.options.timeout.as_secs_f64().round());
                Err(error(RpcClientTransportErrorKind::Timeout(target.options.timeout)))
            });
            assert!(matches!(got, Ok(None)), "{got:?}");
        }
        assert_eq!(timeouts, [3.0, 6.0, 12.0, 24.0, 30.0]);
    }

    #[test]
    fn a_refusal_does_not_lengthen_the_next_attempt() {
        let mut attempts = ReconnectionAttempts::new(Instant::now(), Duration::from_secs(30));
        for _ in 0..3 {
            let got = attempts.connect(&target(), |target| {
                assert_eq!(target.options.timeout, FIRST_TIMEOUT);
                Err(error(RpcClientTransportErrorKind::Refused))
            });
            assert!(matches!(got, Ok(None)), "{got:?}");
        }
    }

    #[test]
    fn after_the_timeout_of_all_attempts_it_is_reported() {
        let timeout = Duration::from_millis(20);
        let mut attempts = ReconnectionAttempts::new(Instant::now(), timeout);
        let got = attempts.connect(&target(), |target| {
            std::thread::sleep(target.options.timeout);
            Err(error(RpcClientTransportErrorKind::Timeout(target.options.timeout)))
        });
        assert!(matches!(got.unwrap_err().kind, RpcClientTransportErrorKind::Timeout(all) if all == timeout));
    }

    #[test]
    fn a_fault_of_this_program_ends_the_attempts() {
        let mut attempts = ReconnectionAttempts::new(Instant::now(), Duration::from_secs(30));
        let fault = || RpcClientTransportErrorKind::Submit(SubmitError::Refused(PermanentSubmitRefusal::Xid));
        assert!(attempts.connect(&target(), |_| Err(error(fault()))).is_err());
    }
}
