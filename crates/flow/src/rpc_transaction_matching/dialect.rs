//! Detection of the RPC-over-RDMA dialect of a connection.

use nfsrdma_dissectors::rpcrdma::{self, Dialect, RdmaProc, RpcRdmaEvidence, RpcRdmaMessageType};
use nfsrdma_dissectors::xdr::Cursor;

use super::connection_rpc_state::ConnectionRpcState;
use crate::count_categories::UndecodedReason;
use crate::rdma_operation::RdmaSendMessage;
use crate::rpcrdma_header_summary::RpcRdmaHeaderSummary;
use crate::transaction::Transaction;

impl ConnectionRpcState {
    /// Returns the dialect in which to decode a message. The first message that identifies RPC-over-RDMA sets the
    /// dialect of the connection.
    ///
    /// # Errors
    /// Returns an error if nothing has identified the connection as RPC-over-RDMA.
    pub(super) fn detect_dialect(
        &mut self,
        message: &RdmaSendMessage<'_>,
        configured: Option<Dialect>,
    ) -> Result<Dialect, UndecodedReason> {
        let RdmaSendMessage { bytes, length, .. } = *message;
        if self.dialect.is_none() {
            let (evidence, dialect) = rpcrdma::recognize_dialect(bytes, length, configured);
            // A dialect that the user names implies RPC-over-RDMA.
            let is_enough =
                evidence == RpcRdmaEvidence::Strong || (evidence == RpcRdmaEvidence::Weak && configured.is_some());
            if is_enough {
                self.is_rpc = true;
                self.dialect = Some(dialect);
            } else if !self.is_rpc {
                return Err(match () {
                    () if rpcrdma::may_be_truncated_rpcrdma(bytes, length) => UndecodedReason::CutHeader,
                    () if rpcrdma::is_whole_done(bytes, length) => UndecodedReason::DoneWithoutCall,
                    () => UndecodedReason::NotRpcRdma,
                });
            }
        }
        if let Some(configured) = configured {
            return Ok(configured);
        }
        let mut cursor = Cursor::new(bytes).with_length(length);
        let _xid = cursor.word();
        Ok(Dialect::from_version(cursor.word().unwrap_or(rpcrdma::VERSION), self.dialect))
    }

    /// Updates the dialect from a header: peers may agree on another version than the first one tried, and only RFC
    /// 5666 has RDMA_MSGP and RDMA_DONE.
    pub(super) fn update_dialect(&mut self, summary: &RpcRdmaHeaderSummary) {
        match summary.words.message_type {
            _ if summary.is_unknown() => {}
            RpcRdmaMessageType::Version1(RdmaProc::RDMA_MSGP | RdmaProc::RDMA_DONE) => {
                self.dialect = Some(Dialect::Rfc5666)
            }
            RpcRdmaMessageType::Version1(_) if self.dialect == Some(Dialect::Version2) => {
                self.dialect = Some(Dialect::Rfc8166);
            }
            RpcRdmaMessageType::Version2(_) => self.dialect = Some(Dialect::Version2),
            RpcRdmaMessageType::Prototype(_) | RpcRdmaMessageType::Version1(_) => {}
        }
    }

    /// Records a Read list in a Reply: RFC 8166 section 3.4.5 leaves it empty, RFC 5666 section 3.5 does not.
    pub(super) fn record_read_list(&mut self, reply: &RpcRdmaHeaderSummary) {
        let is_version1 = matches!(reply.words.message_type, RpcRdmaMessageType::Version1(_));
        if is_version1 && !reply.read_chunks.is_empty() {
            self.dialect = Some(Dialect::Rfc5666);
        }
    }

    /// Sets the dialect of version 1 messages in a Transaction that is being emitted: one message may show that all
    /// messages of its connection are of RFC 5666.
    pub(crate) fn apply_dialect(&self, transaction: &mut Transaction) {
        let Some(dialect) = self.dialect.filter(|dialect| dialect.is_version1()) else { return };
        for message in transaction.call.iter_mut().chain(&mut transaction.reply) {
            if let Some(words) = &mut message.rpcrdma
                && words.dialect.is_version1()
            {
                words.dialect = dialect;
            }
        }
    }
}
