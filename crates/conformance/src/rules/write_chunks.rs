//! Write chunks and Reply chunks: RFC 8166 sections 3.4.6, 4.3.2 and 4.3.3, RFC 8267 section 6.4.

use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};

pub(crate) const RULES: &[Rule] = &[Rule {
    id: "rpcrdma/returned-too-much",
    severity: Severity::Error,
    section: "RFC 8166 section 3.4.6",
    requirement: "A Responder returns no more bytes in a segment than the Requester offered.",
    explanation: "The Requester reads beyond its buffer, or refuses the Reply.",
    needs: &[Evidence::BothMessages, Evidence::ChunkLists],
    scope: RuleScope::Each,
    check: RuleCheck::Transaction(|transaction| {
        let of = transaction.transaction;
        let mut segments = { of.write_chunks.iter().chain(&of.reply_chunk) }
            .flat_map(|chunk| &chunk.segments)
            .filter_map(|segment| Some((segment.returned_length?, segment.length)))
            .peekable();
        segments.peek()?;
        let excess = segments.find(|(returned, offered)| returned > offered);
        Some(match excess {
            None => Verdict::Kept,
            Some((returned, offered)) => {
                Verdict::from_condition(false, || format!("returned {returned} of {offered} bytes offered"))
            }
        })
    }),
}];
