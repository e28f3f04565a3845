//! Read chunks: RFC 8166 sections 3.4.3 to 3.4.5 and 3.5.3.

use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};

pub(crate) const RULES: &[Rule] = &[Rule {
    id: "rpcrdma/position-unaligned",
    severity: Severity::Error,
    section: "RFC 8166 section 3.4.5",
    requirement: "The Position of a Read chunk is a multiple of four.",
    explanation: "XDR items begin at multiples of four bytes.",
    needs: &[Evidence::ChunkLists],
    scope: RuleScope::Each,
    check: RuleCheck::Message(|message| {
        let mut positions = message.read_chunks().iter().filter_map(|chunk| chunk.position).peekable();
        positions.peek()?;
        let odd = positions.find(|position| position % 4 != 0);
        Some(
            Verdict::from_condition(odd.is_none(), || format!("position {}", odd.unwrap_or_default()))
                .at_field("rpcordma.position"),
        )
    }),
}];
