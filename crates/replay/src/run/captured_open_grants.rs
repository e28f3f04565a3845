//! Options that an OPEN requested, and the state that it was granted in the capture.
//!
//! A server's decision to grant a delegation depends on more than the Call: on other clients, a grace period, its
//! memory. If the captured client was granted none, its later Calls are those of a client without one; with one, the
//! live server would recall it or wait for its return. Therefore such an OPEN asks for none (RFC 8881 section 18.16.3).
//! Likewise, an OPEN that was granted an open stateid does not offer to go without it (RFC 9754 section 5).

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{self, OpenDelegation4, OpenRflags, Results, ShareAccess};

use crate::trace::live_reply_binding::CONFIRMED_PLACE;
use crate::trace::step::TraceStep;

/// Bits of share_access that request a delegation. RFC 8881 section 18.16.1.
const DELEGATION_WANT_BITS: u32 = 0xff00
    | ShareAccess::OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL.0
    | ShareAccess::OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED.0;

/// State that a successful OPEN was granted in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapturedOpenGrant {
    Open,
    OpenAndDelegation,
    /// A delegation instead of an open stateid.
    Delegation,
}

/// An OPEN of a step that succeeded in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CapturedOpen {
    /// Index in the COMPOUND, from 0.
    operation: usize,
    grant: CapturedOpenGrant,
    /// Bits of share_access that its delegation covers.
    access: u32,
    must_confirm: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct CapturedStepOpenGrants(Vec<CapturedOpen>);

impl CapturedStepOpenGrants {
    /// Reads the recorded Reply of a step. Empty for NFSv4.0, which has no such options.
    pub(super) fn wants_of_step(step: &TraceStep<'_>) -> Self {
        if step.procedure.minor_version == 0 { Self::default() } else { Self::recorded(step) }
    }

    /// Reads the recorded reply of a step of any minor version. Of a reply that was not captured, a later step may show
    /// that the open was to be confirmed.
    pub(super) fn recorded(step: &TraceStep<'_>) -> Self {
        if step.reply.is_empty() {
            let confirmed = step.reply.slots.iter().filter(|slot| slot.place == CONFIRMED_PLACE);
            let opens = confirmed.map(|slot| CapturedOpen {
                operation: slot.operation as usize,
                grant: CapturedOpenGrant::Open,
                access: 0,
                must_confirm: true,
            });
            return Self(opens.collect());
        }
        let items = step.reply.items();
        let mut cursor = step.reply.body_cursor().with_chunks(&items);
        let Ok(reply) = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver) else {
            return Self::default();
        };
        let results = reply.operations().map_while(Result::ok).enumerate();
        let opens = results.filter_map(|(at, results)| match results {
            Results::OPEN(StatusUnion::Ok(open)) => Some(CapturedOpen {
                operation: at,
                grant: CapturedOpenGrant::of(open.rflags, &open.delegation),
                access: open.delegation.access().0,
                must_confirm: open.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM),
            }),
            _ => None,
        });
        Self(opens.collect())
    }

    /// Returns the share_access that requests the state that the OPEN at index `at` was granted.
    pub(super) fn adjusted_access(&self, at: usize, access: ShareAccess) -> ShareAccess {
        let xor_delegation = ShareAccess::OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION.0;
        let timestamps = ShareAccess::OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS.0;
        let no_delegation = ShareAccess::OPEN4_SHARE_ACCESS_WANT_NO_DELEG.0;
        match self.at(at).map(|open| open.grant) {
            Some(CapturedOpenGrant::Open) => {
                ShareAccess(access.0 & !(DELEGATION_WANT_BITS | xor_delegation | timestamps) | no_delegation)
            }
            Some(CapturedOpenGrant::OpenAndDelegation) => ShareAccess(access.0 & !xor_delegation),
            Some(CapturedOpenGrant::Delegation) | None => access,
        }
    }

    fn at(&self, operation: usize) -> Option<&CapturedOpen> {
        self.0.iter().find(|open| open.operation == operation)
    }

    pub(super) fn granted_only_delegation(&self, at: usize) -> bool {
        self.at(at).is_some_and(|open| open.grant == CapturedOpenGrant::Delegation)
    }

    pub(super) fn must_confirm(&self, at: usize) -> bool {
        self.at(at).is_some_and(|open| open.must_confirm)
    }

    /// Returns the bits of share_access that the delegation of the OPEN at index `at` covers.
    pub(super) fn delegated_access(&self, at: usize) -> u32 {
        self.at(at).map_or(0, |open| open.access)
    }
}

impl CapturedOpenGrant {
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

    fn of(got: CapturedOpenGrant) -> CapturedStepOpenGrants {
        CapturedStepOpenGrants(vec![CapturedOpen { operation: 2, grant: got, access: 0, must_confirm: false }])
    }

    fn asks(got: CapturedOpenGrant, access: u32) -> u32 {
        of(got).adjusted_access(2, ShareAccess(access)).0
    }

    #[test]
    fn an_open_that_got_no_delegation_wants_none() {
        assert_eq!(asks(CapturedOpenGrant::Open, READ | ANY | OFFERS), READ | 0x400);
        assert_eq!(asks(CapturedOpenGrant::Open, READ), READ | 0x400);
    }

    #[test]
    fn an_open_that_got_a_stateid_does_not_offer_to_go_without() {
        assert_eq!(asks(CapturedOpenGrant::OpenAndDelegation, READ | ANY | OFFERS), READ | ANY | 0x10_0000);
    }

    #[test]
    fn an_open_that_got_a_delegation_instead_asks_as_it_did() {
        assert_eq!(asks(CapturedOpenGrant::Delegation, READ | OFFERS), READ | OFFERS);
    }

    #[test]
    fn other_operations_of_the_compound_stay() {
        assert_eq!(of(CapturedOpenGrant::Open).adjusted_access(3, ShareAccess(READ)).0, READ);
    }
}
