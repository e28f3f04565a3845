//! Frames of the queue, and their comments.

use std::fmt::Write as _;
use std::rc::Rc;

use nfsrdma_capture_file::InterfaceId;
use nfsrdma_dissectors::captured_frame::{FrameNumber, LinkType, Timestamp};
use nfsrdma_flow::FrameRole;
use nfsrdma_flow::chunk::ChunkKind;
use nfsrdma_flow::transaction::RpcMessageKind;

use super::super::units::PluralCount;

/// Maximum number of findings that the comments on a Transaction name; the others are counted.
const MAX_NAMED_FINDINGS: usize = 8;

/// Text common to the comments on all frames of a Transaction.
#[derive(Debug)]
pub(super) struct TransactionCommentText {
    pub(super) index: u64,
    pub(super) connection: u64,
    /// Operation with its arguments, and the XID.
    pub(super) about: String,
    /// Status of the Reply, with a leading comma.
    pub(super) status: String,
    /// Conformance findings with their frames.
    pub(super) findings: Vec<FindingCommentText>,
}

/// Finding in the comments on its frames.
#[derive(Debug)]
pub(super) struct FindingCommentText {
    pub(super) frames: Vec<FrameNumber>,
    /// `error rpcrdma/credit-zero by the server: credit 0`.
    pub(super) text: String,
}

/// Role of a frame in a Transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionFrameRole {
    Message(RpcMessageKind),
    Event(FrameRole),
}

/// Transaction that a frame belongs to, and its role.
#[derive(Debug)]
pub(super) struct FrameMembership {
    pub(super) of: Rc<TransactionCommentText>,
    pub(super) role: TransactionFrameRole,
}

impl FrameMembership {
    pub(super) fn comment(&self, frame: FrameNumber) -> String {
        let TransactionCommentText { index, connection, about: description, status, findings } = &*self.of;
        let role = match self.role {
            TransactionFrameRole::Message(RpcMessageKind::Call) => "call of".into(),
            TransactionFrameRole::Message(RpcMessageKind::Reply) => "reply to".into(),
            TransactionFrameRole::Event(FrameRole::MovedChunkData { kind: ChunkKind::Read, chunk }) => {
                format!("Read chunk {chunk} of")
            }
            TransactionFrameRole::Event(FrameRole::MovedChunkData { kind: ChunkKind::Write, chunk }) => {
                format!("Write chunk {chunk} of")
            }
            TransactionFrameRole::Event(FrameRole::MovedChunkData { kind: ChunkKind::Reply, .. }) => {
                "Reply chunk of".into()
            }
            TransactionFrameRole::Event(FrameRole::RequestedRead { chunk }) => {
                format!("request for Read chunk {chunk} of")
            }
            TransactionFrameRole::Event(FrameRole::Done) => "RDMA_DONE of".into(),
        };
        let status = if self.role == TransactionFrameRole::Message(RpcMessageKind::Reply) { status } else { "" };
        let findings = findings_text(findings, frame);
        let name = match index {
            0 => "Call without a reply".into(),
            index => format!("Transaction {index}"),
        };
        format!("{name}, connection {connection}: {role} {description}{status}{findings}")
    }
}

/// Frame that cannot be read again.
#[derive(Debug)]
pub(super) struct BufferedExportFrame {
    pub(super) time: Timestamp,
    pub(super) link: LinkType,
    pub(super) length: u32,
    pub(super) bytes: Box<[u8]>,
    pub(super) on: InterfaceId,
    pub(super) comments: Vec<String>,
    /// `true` if it has a part of a message that was incomplete when it was queued.
    pub(super) is_partial: bool,
}

impl BufferedExportFrame {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + self.comments.iter().map(String::len).sum::<usize>()
    }
}

/// Returns the findings of a frame as the end of its comment: `; error rpcrdma/credit-zero by the server: credit 0`.
fn findings_text(findings: &[FindingCommentText], frame: FrameNumber) -> String {
    let mut text = String::new();
    let of_frame = || findings.iter().filter(|finding| finding.frames.contains(&frame));
    for finding in of_frame().take(MAX_NAMED_FINDINGS) {
        let _ = write!(text, "; {}", finding.text);
    }
    match of_frame().count().saturating_sub(MAX_NAMED_FINDINGS) {
        0 => {}
        count => _ = write!(text, "; {}", PluralCount(count as u64, "more finding")),
    }
    text
}
