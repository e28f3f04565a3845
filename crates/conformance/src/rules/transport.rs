//! The transport below RPC-over-RDMA: losses and congestion.

use nfsrdma_dissectors::flow::transport_event::TransportEventKind;

use crate::rule::{Rule, RuleCheck, RuleScope, Severity, Verdict};

pub(crate) const RULES: &[Rule] = &[Rule {
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
}];
