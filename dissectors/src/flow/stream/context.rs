//! Context of a stream parser: the RPC conversation of its connection, and the tables of the flow.

use crate::flow::conversation::{RpcContext, RpcConversation};
use crate::flow::iwarp::{IwarpEvent, IwarpEventSink};
use crate::flow::statistics::{FlowStats, UndecodedReason};
use crate::flow::transaction_table::TransactionTable;
use crate::flow::{FlowLimits, FrameKind, PacketMeta};
use crate::rdma::{ConnectionSide, Handle};

/// State of the flow that a stream parser uses besides its own.
pub(in crate::flow) struct StreamContext<'a> {
    pub(in crate::flow) connection: usize,
    /// Side that sends the bytes.
    pub(in crate::flow) sender: ConnectionSide,
    pub(in crate::flow) exchange: &'a mut RpcConversation,
    pub(in crate::flow) ledger: &'a mut TransactionTable,
    pub(in crate::flow) account: &'a mut FlowStats,
    pub(in crate::flow) limits: &'a FlowLimits,
    /// Meanings of the decoded bytes.
    pub(in crate::flow) meanings: &'a mut Vec<FrameKind>,
}

impl StreamContext<'_> {
    /// Returns the RPC conversation of the connection and its context for bytes of these frames.
    pub(in crate::flow) fn desk<'a>(
        &'a mut self,
        sight: &'a PacketMeta<'a>,
    ) -> (&'a mut RpcConversation, RpcContext<'a>) {
        let desk = RpcContext {
            connection: self.connection,
            ledger: self.ledger,
            account: self.account,
            limits: self.limits,
            sight,
        };
        (self.exchange, desk)
    }

    /// Counts bytes of a record whose mark was not captured. `is_all`: the frame has nothing else and counts as
    /// undecoded.
    pub(in crate::flow) fn skipped(&mut self, bytes: u32, sight: PacketMeta<'_>, is_all: bool) {
        if sight.frames.is_empty() {
            return;
        }
        self.account.skipped_bytes += u64::from(bytes);
        if is_all {
            self.account.undecoded_later(UndecodedReason::NoRecordMark, 1);
        }
        self.meanings.push(FrameKind::Skipped { bytes });
    }

    /// Counts a frame whose bytes cannot be decoded.
    pub(in crate::flow) fn undecoded(&mut self, reason: UndecodedReason, sight: PacketMeta<'_>) {
        if !sight.frames.is_empty() {
            let meaning = self.account.undecoded(reason);
            self.meanings.push(meaning);
        }
    }
}

impl IwarpEventSink for StreamContext<'_> {
    #[inline]
    fn event(&mut self, sight: PacketMeta<'_>, event: IwarpEvent<'_>) {
        let meaning = match event {
            IwarpEvent::Operation(operation) => {
                let sender = self.sender;
                let (exchange, mut desk) = self.desk(&sight);
                exchange.operation(&mut desk, sender, operation)
            }
            IwarpEvent::Undecoded(reason) => {
                self.exchange.has_cut_lists |=
                    matches!(reason, UndecodedReason::CutFrame | UndecodedReason::CutStream);
                self.undecoded(reason, sight);
                return self.once();
            }
            IwarpEvent::Startup => FrameKind::Management,
            IwarpEvent::Part => FrameKind::Part,
            IwarpEvent::Control => FrameKind::Control,
            IwarpEvent::Terminate(terminate) => FrameKind::Terminate(terminate),
        };
        self.meanings.push(meaning);
        if let FrameKind::Undecoded(_) = meaning {
            self.once();
        }
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.exchange.knows_handle(self.sender.peer(), stag)
    }
}

impl StreamContext<'_> {
    /// Counts a frame once per reason, however many of its parts cannot be decoded.
    fn once(&mut self) {
        if let Some((FrameKind::Undecoded(reason), before)) = self.meanings.split_last()
            && before.contains(&FrameKind::Undecoded(*reason))
        {
            self.account.undecoded_after_all(*reason);
            self.meanings.pop();
        }
    }
}
