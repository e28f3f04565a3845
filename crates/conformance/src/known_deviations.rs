//! Known deviations of implementations.

use nfsrdma_dissectors::rpcrdma::SidePrivateData;
use nfsrdma_flow::NegotiatedParameters;
use nfsrdma_flow::transaction::EndpointRole;

use crate::rule::Rule;

/// A violation that many captures have, because a widespread implementation makes it.
///
/// A finding that matches has the severity `known` instead of that of its rule. The capture does not identify the
/// implementation: the text says that the behavior is that of this one.
pub struct KnownDeviation {
    /// Rule that the implementation breaks.
    pub rule: &'static str,
    /// Side that the implementation is.
    pub side: EndpointRole,
    /// Name of the implementation.
    pub implementation: &'static str,
    /// Versions in captures of this behavior.
    pub seen_in: &'static str,
    /// Behavior of the implementation.
    pub text: &'static str,
    /// Returns `true` if the set-up of the connection agrees with the behavior.
    pub condition: fn(&NegotiatedParameters) -> bool,
}

/// All known deviations.
pub static KNOWN_DEVIATIONS: &[KnownDeviation] = &[KnownDeviation {
    rule: "rpcrdma/inval-not-announced",
    side: EndpointRole::Server,
    implementation: "Linux NFS server",
    seen_in: "Linux 7.2",
    text: "clears the R bit in its private data, and invalidates memory of clients that set it",
    condition: |set_up| {
        let announced = |side: SidePrivateData| side.effective().map(|data| data.remote_invalidation);
        announced(set_up.client) == Some(true) && announced(set_up.server) == Some(false)
    },
}];

/// Returns the known deviation that a violation of the rule by this side matches.
#[cold]
pub(crate) fn find_known(
    rule: &Rule,
    side: EndpointRole,
    set_up: Option<&NegotiatedParameters>,
) -> Option<&'static KnownDeviation> {
    KNOWN_DEVIATIONS.iter().find(|deviation| {
        deviation.rule == rule.id
            && deviation.side == side
            && set_up.is_some_and(|set_up| (deviation.condition)(set_up))
    })
}
