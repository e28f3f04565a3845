//! Where the reader of a stream sits: the exchange of its connection, and what that works with.

use crate::flow::account::{Account, Undecoded};
use crate::flow::exchange::{Desk, Exchange};
use crate::flow::ledger::Ledger;
use crate::flow::{Limits, Meaning, Sight};
use crate::rdma::Side;

/// What a reader of a stream works with besides its own state.
pub(in crate::flow) struct Seat<'a> {
    pub(in crate::flow) connection: usize,
    /// Who sends the bytes.
    pub(in crate::flow) sender: Side,
    pub(in crate::flow) exchange: &'a mut Exchange,
    pub(in crate::flow) ledger: &'a mut Ledger,
    pub(in crate::flow) account: &'a mut Account,
    pub(in crate::flow) limits: &'a Limits,
    /// What the bytes turned out to mean.
    pub(in crate::flow) meanings: &'a mut Vec<Meaning>,
}

impl Seat<'_> {
    /// The exchange of the connection, and what it works with for bytes of these frames.
    pub(in crate::flow) fn desk<'a>(&'a mut self, sight: Sight<'a>) -> (&'a mut Exchange, Desk<'a>) {
        let desk = Desk {
            connection: self.connection,
            ledger: self.ledger,
            account: self.account,
            limits: self.limits,
            sight,
        };
        (self.exchange, desk)
    }

    /// Bytes belong to a record whose mark was not captured. The frame counts if it holds nothing else.
    pub(in crate::flow) fn skipped(&mut self, bytes: u32, sight: Sight<'_>, is_all: bool) {
        if sight.frames.is_empty() {
            return;
        }
        self.account.skipped_bytes += u64::from(bytes);
        if is_all && self.meanings.is_empty() {
            self.account.undecoded_later(Undecoded::NoRecordMark, 1);
        }
        self.meanings.push(Meaning::Skipped { bytes });
    }

    /// Counts bytes that give no meaning.
    pub(in crate::flow) fn undecoded(&mut self, reason: Undecoded, sight: Sight<'_>) {
        if !sight.frames.is_empty() {
            let meaning = self.account.undecoded(reason);
            self.meanings.push(meaning);
        }
    }
}
