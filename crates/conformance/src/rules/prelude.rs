//! Imports that several groups of rules share.

pub(super) use nfsrdma_dissectors::field_names;
pub(super) use nfsrdma_dissectors::memory_handle::Handle;
pub(super) use nfsrdma_dissectors::nfs::v4::{Args, Nfsstat4, Results};
pub(super) use nfsrdma_dissectors::rpc::{AcceptStat, Program, RpcReplyStatus};
pub(super) use nfsrdma_dissectors::rpcrdma::{AnyDialectHeader, RdmaProc, RpcRdma1ErrCode, RpcRdmaErrorCode};
pub(super) use nfsrdma_dissectors::xdr::XdrError;
pub(super) use nfsrdma_flow::Transaction;
pub(super) use nfsrdma_flow::chunk::Chunk;
pub(super) use nfsrdma_flow::exceptional_transport_events::{CapturedTransportEvent, TransportAnomalyKind};
pub(super) use nfsrdma_flow::transaction::{CallDirection, EndpointRole, RpcMessageKind};
pub(super) use nfsrdma_flow::transaction_message_decoding::RpcStatus;

pub(super) use crate::compound_operations_view::Channel;
pub(super) use crate::finding_text::CountWithNoun;
pub(super) use crate::message_view::ConformanceMessage;
pub(super) use crate::read_write_view::SuccessfulReadWrite;
pub(super) use crate::required_evidence::RequiredCaptureEvidence;
pub(super) use crate::rule::{Rule, RuleCheck, RuleVerdict};
pub(super) use crate::rule_applicability::RequiredMessageProperty;
pub(super) use crate::severity::Severity;
pub(super) use crate::transaction_view::ConformanceTransaction;
