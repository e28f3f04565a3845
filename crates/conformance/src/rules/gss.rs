//! RPCSEC_GSS with RPC-over-RDMA: RFC 8166 section 8.2.2.

use nfsrdma_dissectors::rpc::gss::GssPayload;

use crate::message_view::MessageView;
use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};

/// Returns the chunk that holds a part of the message: a Read chunk of a Call, or a Write chunk with data of a Reply.
fn reducing_chunk(message: &MessageView<'_>) -> Option<String> {
    if message.is_call() {
        let positions = message.read_chunks().iter().filter_map(|chunk| chunk.position);
        let position = positions.into_iter().find(|position| *position != 0)?;
        return Some(format!("Read chunk at Position {position}"));
    }
    let mut returned =
        message.transaction.transaction.write_chunks.iter().filter_map(|chunk| chunk.returned_bytes());
    let bytes = returned.find(|bytes| *bytes > 0)?;
    Some(format!("{bytes} bytes in a Write chunk"))
}

pub(crate) const RULES: &[Rule] = &[Rule {
    id: "gss/reduced",
    severity: Severity::Error,
    section: "RFC 8166 sections 8.2.2 and 8.2.2.3",
    requirement: "With RPCSEC_GSS integrity or privacy, and in control messages of RPCSEC_GSS, no data item is in a chunk of \
        its own.",
    explanation: "The checksum or the encryption covers the whole message: without the item and its padding it cannot be \
        verified. Long messages use a Position Zero Read chunk and a Reply chunk.",
    needs: &[Evidence::ChunkLists],
    scope: RuleScope::Each,
    check: RuleCheck::Message(|message| {
        message.version1()?;
        let kind = match message.transaction.summary.payload? {
            GssPayload::Plain => return None,
            GssPayload::Integrity => "integrity",
            GssPayload::Privacy => "privacy",
            GssPayload::Control(_) => "a control message",
        };
        if message.record.is_rdma_error() {
            return None;
        }
        let chunk = reducing_chunk(message);
        Some(Verdict::from_condition(chunk.is_none(), || {
            format!("{} with {kind}", chunk.unwrap_or_default())
        }))
    }),
}];
