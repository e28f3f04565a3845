//! RPCSEC_GSS with RPC-over-RDMA: RFC 8166 section 8.2.2.

use nfsrdma_dissectors::rpc::gss::GssPayload;

use super::prelude::*;
use crate::ddp_eligible_operations::requests_inline;

/// Returns the chunk that holds, or is to hold, a part of a message.
fn item_chunk(message: &ConformanceMessage<'_>) -> Option<String> {
    let mut writes = message.transaction.transaction.write_chunks.iter();
    if message.is_call() {
        let read_chunks = message.read_chunks().iter().filter(|chunk| chunk.offered_bytes() > 0);
        let mut positions = read_chunks.filter_map(|chunk| chunk.position);
        return match positions.find(|position| *position != 0) {
            Some(position) => Some(format!("Read chunk at Position {position}")),
            None => writes.find(|chunk| !requests_inline(chunk)).map(|_| "Write chunk offered".to_owned()),
        };
    }
    let bytes = writes.filter_map(|chunk| chunk.returned_bytes()).find(|bytes| *bytes > 0)?;
    Some(format!("{bytes} in a Write chunk", bytes = CountWithNoun(bytes, "byte")))
}

fn judge(message: &ConformanceMessage<'_>, payload: &str) -> Option<RuleVerdict> {
    message.version1().filter(|_| !message.record.is_rdma_error())?;
    let fault = item_chunk(message).map(|chunk| format!("{chunk} with {payload}"));
    Some(RuleVerdict::from_fault(fault))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "gss/reduced",
        section: "RFC 8166 sections 8.2.2.3 and 4.3.2",
        requirement: "With RPCSEC_GSS integrity or privacy, no data item is in a chunk of its own, and no Write list is \
            offered.",
        explanation: "The checksum or the encryption covers the whole message: without the item and its padding it cannot be \
            verified. Long messages use a Position Zero Read chunk and a Reply chunk. Example: the data of a WRITE with \
            krb5p are in a Read chunk: \"Read chunk at Position 108 with privacy\".",
        subjects: &[RequiredMessageProperty::Protected],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| match message.transaction.summary.payload? {
            GssPayload::Integrity => judge(message, "integrity"),
            GssPayload::Privacy => judge(message, "privacy"),
            GssPayload::Plain | GssPayload::Control(_) => None,
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "gss/control-chunk",
        section: "RFC 8166 section 8.2.2",
        requirement: "No part of a control message of RPCSEC_GSS is in a chunk of its own.",
        explanation: "The tokens that establish a context are not DDP-eligible: the Responder cannot decode the message, and \
            the mount fails. Example: the token of RPCSEC_GSS_INIT is in a Read chunk: \"Read chunk at Position 96 with a \
            control message\".",
        subjects: &[RequiredMessageProperty::Protected],
        needs: &[RequiredCaptureEvidence::ChunkLists],
        check: RuleCheck::Message(|message| match message.transaction.summary.payload? {
            GssPayload::Control(_) => judge(message, "a control message"),
            GssPayload::Plain | GssPayload::Integrity | GssPayload::Privacy => None,
        }),
        ..Rule::DEFAULT
    },
];
