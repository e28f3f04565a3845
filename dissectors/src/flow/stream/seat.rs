//! Where the reader of a stream sits: the exchange of its connection, and what that works with.

use crate::flow::account::{Account, Undecoded};
use crate::flow::exchange::{Desk, Exchange};
use crate::flow::iwarp::{Event, Taker};
use crate::flow::ledger::Ledger;
use crate::flow::{Limits, Meaning, Sight};
use crate::rdma::{Handle, Side};

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
    pub(in crate::flow) fn desk<'a>(&'a mut self, sight: &'a Sight<'a>) -> (&'a mut Exchange, Desk<'a>) {
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
        if is_all {
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

impl Taker for Seat<'_> {
    #[inline]
    fn event(&mut self, sight: Sight<'_>, event: Event<'_>) {
        let meaning = match event {
            Event::Operation(operation) => {
                let sender = self.sender;
                let (exchange, mut desk) = self.desk(&sight);
                exchange.operation(&mut desk, sender, operation)
            }
            Event::Undecoded(reason) => {
                self.exchange.has_cut_lists |= matches!(reason, Undecoded::CutFrame | Undecoded::CutStream);
                self.undecoded(reason, sight);
                return self.once();
            }
            Event::Startup => Meaning::Management,
            Event::Part => Meaning::Part,
            Event::Control => Meaning::Control,
            Event::Terminate(terminate) => Meaning::Terminate(terminate),
        };
        self.meanings.push(meaning);
        if let Meaning::Undecoded(_) = meaning {
            self.once();
        }
    }

    fn knows_memory(&self, stag: Handle) -> bool {
        self.exchange.knows_handle(self.sender.peer(), stag)
    }
}

impl Seat<'_> {
    /// A frame counts once for each reason, however many of its bytes have no meaning.
    fn once(&mut self) {
        if let Some((Meaning::Undecoded(reason), before)) = self.meanings.split_last()
            && before.contains(&Meaning::Undecoded(*reason))
        {
            self.account.undecoded_after_all(*reason);
            self.meanings.pop();
        }
    }
}
