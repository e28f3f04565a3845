//! iWARP below RPC-over-RDMA: RFC 5040, RFC 5041, RFC 5044, RFC 6581.

use nfsrdma_dissectors::flow::transport_event::TransportEventKind;

use crate::rule::{Rule, RuleCheck, RuleScope, Severity, Verdict};

pub(crate) const RULES: &[Rule] = &[Rule {
    id: "rdmap/crc",
    severity: Severity::Error,
    section: "RFC 5044 section 4.4",
    requirement: "The CRC32C of an FPDU is correct where a side requested CRCs.",
    explanation: "The receiver drops the FPDU and ends the connection. The sender computes the CRC wrongly, or bytes changed on \
        the way although the checksum of TCP is right. Judged once a start-up frame or a correct CRC shows that CRCs are in \
        use.",
    needs: &[],
    scope: RuleScope::Connection,
    check: RuleCheck::Counted(
        |event| match event.kind {
            TransportEventKind::BadMpaCrc => Some(Verdict::from_condition(false, || "wrong CRC".to_owned())),
            _ => None,
        },
        |checks| checks.fpdu_crcs,
    ),
}];
