//! Leases of the clients of a run at the live server. RFC 7530 section 9.5, RFC 8881 section 8.3.

use std::time::{Duration, Instant};

use nfsrdma_dissectors::nfs::v4::Clientid4;
use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_rpc::CallTag;

/// Lease time that is assumed if the server gives none: that of Linux.
const USUAL_LEASE_SECONDS: u32 = 90;

/// Call that renews a lease; sent again unchanged after a lost connection.
#[derive(Debug)]
pub(super) struct LeaseRenewal {
    /// Captured client, and index of the live connection that carries the Call.
    pub(super) client: u32,
    pub(super) line: usize,
    pub(super) message: Vec<u8>,
    pub(super) xid: Xid,
    pub(super) tag: CallTag,
    /// Live client ID in NFSv4.0.
    pub(super) clientid: Option<Clientid4>,
    /// Variable of the session, and slot, from NFSv4.1 on.
    pub(super) slot: Option<(u32, u32)>,
    /// Number of recoveries in the run before it.
    pub(super) recoveries: u32,
    pub(super) sent: Option<Instant>,
}

/// The leases of all clients of a run.
#[derive(Debug, Default)]
pub(super) struct ClientLeases {
    /// Interval of renewals: a third of the lease time of the server. A client that sent something just after the last
    /// one is renewed when two thirds have passed.
    interval: Duration,
    last_renewal: Option<Instant>,
    /// Captured clients of NFSv4.0 that existed before the capture, with the client IDs that the prologue made.
    pub(super) prologue_clientids: Vec<(u32, Clientid4)>,
    /// Calls without a Reply.
    pub(super) renewals: Vec<LeaseRenewal>,
    /// Number of all these Calls in the run.
    pub(super) calls: u64,
}

impl ClientLeases {
    pub(super) fn new(lease_seconds: Option<u32>, prologue_clientids: Vec<(u32, Clientid4)>) -> Self {
        let seconds = lease_seconds.unwrap_or(USUAL_LEASE_SECONDS).max(1);
        Self { interval: Duration::from_secs(seconds.into()) / 3, prologue_clientids, ..Self::default() }
    }

    /// Returns `true` if the leases are to be renewed at this time.
    pub(super) fn start_renewal(&mut self, now: Instant) -> bool {
        let last = *self.last_renewal.get_or_insert(now);
        let is_due = now.saturating_duration_since(last) >= self.interval;
        if is_due {
            self.last_renewal = Some(now);
        }
        is_due
    }

    /// Returns `true` if a Call that renews a lease has no Reply.
    pub(super) fn is_renewing(&self) -> bool {
        !self.renewals.is_empty()
    }

    /// Returns `true` if the Call that renews the lease of this live client ID, or of this session, has no Reply yet.
    pub(super) fn is_unanswered(&self, clientid: Option<Clientid4>, session: Option<u32>) -> bool {
        let of_session = |renewal: &LeaseRenewal| renewal.slot.map(|(session, _)| session);
        self.renewals.iter().any(|renewal| renewal.clientid == clientid && of_session(renewal) == session)
    }

    /// Records that the connection of a Call was lost: it is sent again.
    pub(super) fn lose(&mut self, tag: CallTag) {
        let lost = self.renewals.iter_mut().filter(|renewal| renewal.tag == tag);
        lost.for_each(|renewal| renewal.sent = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7530 section 9.5: before the lease ends, also without the attribute.
    #[test]
    fn renewal_is_due_after_third_of_lease() {
        let begin = Instant::now();
        let due_after = |lease: Option<u32>| {
            let mut leases = ClientLeases::new(lease, Vec::new());
            let mut times = (0..100).map(|tick| begin + Duration::from_millis(500) * tick);
            times.find(|time| leases.start_renewal(*time)).map(|time| (time - begin).as_millis())
        };
        assert_eq!(
            [Some(6), Some(90), None, Some(0)].map(due_after),
            [Some(2000), Some(30_000), Some(30_000), Some(500)]
        );
    }

    #[test]
    fn unanswered_renewal_delays_no_other() {
        let begin = Instant::now();
        let mut leases = ClientLeases::new(Some(90), Vec::new());
        leases.start_renewal(begin);
        leases.renewals.push(LeaseRenewal {
            client: 0,
            line: 0,
            message: Vec::new(),
            xid: Xid(1),
            tag: CallTag::default(),
            clientid: None,
            slot: Some((7, 2)),
            recoveries: 0,
            sent: Some(begin),
        });
        assert!(leases.start_renewal(begin + Duration::from_secs(30)));
        assert!(leases.is_unanswered(None, Some(7)));
        assert!(!leases.is_unanswered(None, Some(8)) && !leases.is_unanswered(Some(7), None));
    }
}
