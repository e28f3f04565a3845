//! The transport below RPC-over-RDMA: accesses to memory that was not offered, losses and congestion.

use nfsrdma_dissectors::flow::transport_event::{
    AccessFault, MemoryAccess, TransportEvent, TransportEventKind,
};

use crate::rule::{Rule, RuleCheck, RuleScope, Severity, Verdict};

/// Returns a violation if the event is an access with this fault.
fn access_verdict(event: &TransportEvent, wanted: AccessFault, is_read: Option<bool>) -> Option<Verdict> {
    let TransportEventKind::InvalidAccess(access, fault) = event.kind else { return None };
    if fault != wanted || is_read.is_some_and(|is_read| is_read != access.is_read) {
        return None;
    }
    let MemoryAccess { is_read, handle, offset, length } = access;
    let operation = if is_read { "RDMA Read" } else { "RDMA Write" };
    Some(Verdict::from_condition(false, || {
        format!("{operation} of {length} bytes, handle {handle}, offset 0x{offset:x}")
    }))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rpcrdma/handle-unknown",
        severity: Severity::Error,
        section: "RFC 8166 section 3.4.3",
        requirement: "A Responder accesses only memory that a Call in flight offers.",
        explanation: "The access fails with a Remote Access Error and ends the connection, or damages memory of another use.",
        needs: &[],
        scope: RuleScope::Each,
        check: RuleCheck::Event(|event| access_verdict(event, AccessFault::NotOffered, None)),
    },
    Rule {
        id: "transport/nak",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A receiver accepts each request.",
        explanation: "A sequence error is packet loss; look at switch counters and flow control. Other codes end the connection.",
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Event(|event| {
            let TransportEventKind::Nak(code) = event.kind else { return None };
            Some(Verdict::from_condition(false, || format!("NAK: {code}")))
        }),
    },
];
