//! What an OPEN asked for beside access, and what it got in the capture.
//!
//! Whether a server gives a delegation depends on more than the Call: on other clients, on a grace period, on its memory. Where the
//! client got none in the capture, what it did afterwards is what a client does without one; with one, the live server would
//! recall it, or wait for its return. So such an OPEN says that it wants none (RFC 8881 section 18.16.3). In the same way, an OPEN
//! that got a stateid of its own does not offer to go without it (RFC 9754 section 5).

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::nfs::Outcome;
use nfsrdma_dissectors::nfs::v4::{self, OpenDelegation4, OpenRflags, Results, ShareAccess};
use nfsrdma_dissectors::xdr::Cursor;

use crate::replay::trace::Step;

/// The bits of share_access that say which delegation is wanted, and when. RFC 8881 section 18.16.1.
const WANTED: u32 = 0xff00
    | ShareAccess::OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL.0
    | ShareAccess::OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED.0;

/// What an OPEN that succeeded got in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// A stateid of the open, and no delegation.
    Open,
    /// Both.
    OpenAndDelegation,
    /// A delegation in the place of the open.
    Delegation,
}

/// What each OPEN of a step that succeeded got, by its place in the COMPOUND.
#[derive(Clone, Debug, Default)]
pub(super) struct Opens(Vec<(usize, Got)>);

impl Opens {
    /// Reads the recorded Reply of a step. In NFSv4.0 nothing can be wanted.
    pub(super) fn of(step: &Step<'_>) -> Self {
        let reply = &step.reply;
        if step.asked.minor_version == 0 {
            return Self::default();
        }
        let results = reply.head.0.get(reply.body as usize..reply.end as usize).unwrap_or_default();
        let items = reply.items();
        let mut cursor = Cursor::new(results).with_chunks(&items);
        let Ok(reply) = v4::Reply::decode(&mut cursor, &mut Unobserved) else { return Self::default() };
        let results = reply.operations().map_while(Result::ok).enumerate();
        let got = results.filter_map(|(at, results)| match results {
            Results::OPEN(Outcome::Ok(open)) => Some((at, Got::of(open.rflags, &open.delegation))),
            _ => None,
        });
        Self(got.collect())
    }

    /// The share_access that asks for what the OPEN at a place of the COMPOUND got.
    pub(super) fn wants(&self, at: usize, access: ShareAccess) -> ShareAccess {
        let instead = ShareAccess::OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION.0;
        let times = ShareAccess::OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS.0;
        let none = ShareAccess::OPEN4_SHARE_ACCESS_WANT_NO_DELEG.0;
        match self.0.iter().find(|(place, _)| *place == at) {
            Some((_, Got::Open)) => ShareAccess(access.0 & !(WANTED | instead | times) | none),
            Some((_, Got::OpenAndDelegation)) => ShareAccess(access.0 & !instead),
            Some((_, Got::Delegation)) | None => access,
        }
    }
}

impl Got {
    fn of(flags: OpenRflags, delegation: &OpenDelegation4<'_>) -> Self {
        match delegation {
            OpenDelegation4::None | OpenDelegation4::NoneExt(_) => Self::Open,
            _ if flags.0 & OpenRflags::OPEN4_RESULT_NO_OPEN_STATEID.0 != 0 => Self::Delegation,
            _ => Self::OpenAndDelegation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 1;
    const ANY: u32 = 0x300;
    const OFFERS: u32 = 0x30_0000;

    fn asks(got: Got, access: u32) -> u32 {
        Opens(vec![(2, got)]).wants(2, ShareAccess(access)).0
    }

    #[test]
    fn an_open_that_got_no_delegation_wants_none() {
        assert_eq!(asks(Got::Open, READ | ANY | OFFERS), READ | 0x400);
        assert_eq!(asks(Got::Open, READ), READ | 0x400);
    }

    #[test]
    fn an_open_that_got_a_stateid_does_not_offer_to_go_without() {
        assert_eq!(asks(Got::OpenAndDelegation, READ | ANY | OFFERS), READ | ANY | 0x10_0000);
    }

    #[test]
    fn an_open_that_got_a_delegation_instead_asks_as_it_did() {
        assert_eq!(asks(Got::Delegation, READ | OFFERS), READ | OFFERS);
    }

    #[test]
    fn other_operations_of_the_compound_stay() {
        assert_eq!(Opens(vec![(2, Got::Open)]).wants(3, ShareAccess(READ)).0, READ);
    }
}
