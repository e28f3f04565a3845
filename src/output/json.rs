//! JSON Lines: an object a Transaction, on one line. `docs/transaction.schema.json` is its contract.
//!
//! The keys come in the order of the contract and straight from the Transaction; only arguments and results wait in a
//! [`tape`] until both messages were read.

mod line;
mod members;
mod tape;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::decode::{RpcSummary, TransactionMessages};
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;

use super::PendingCallState;
use crate::analysis::names::FileNames;
use crate::escape;
use line::TransactionJsonLine;
#[cfg(feature = "parquet")]
pub(crate) use line::{DecodedValuesJson, inline_length, procedure, rpc_status, status};
pub(crate) use line::{JsonText, NameOrNumber, address};
use tape::FieldTape;

/// The version of the contract that lines keep.
pub const SCHEMA: u32 = 1;

/// Writes Transactions as lines, and keeps the memory that one line took for the next.
#[derive(Debug, Default)]
pub struct JsonLines {
    line: Vec<u8>,
    tape: FieldTape<'static>,
    has_iso: bool,
}

impl JsonLines {
    /// Lines that have each time as ISO 8601 too, in a key of its own, if `has_iso`.
    pub fn new(has_iso: bool) -> Self {
        Self { has_iso, ..Self::default() }
    }

    /// Writes the line of a Transaction: all of it at once, so that there are no halves of lines.
    ///
    /// # Errors
    /// What writing gives.
    pub fn transaction(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
    ) -> io::Result<()> {
        self.line(to, transaction, reading, facts, names, None)
    }

    /// Writes the line of a Call in flight.
    ///
    /// # Errors
    /// What writing gives.
    pub fn pending(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
        pending: PendingCallState,
    ) -> io::Result<()> {
        self.line(to, transaction, reading, facts, names, Some(pending))
    }

    fn line(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
        pending: Option<PendingCallState>,
    ) -> io::Result<()> {
        let mut tape = std::mem::take(&mut self.tape).wiped();
        let (results, call_parts) = listen(&mut tape, reading, facts);
        self.line.clear();
        let mut line =
            TransactionJsonLine::new(transaction, facts, names, &tape, (results, call_parts), self.has_iso);
        if let Some(pending) = pending {
            line = line.pending(pending);
        }
        let written = escape::json_to(&mut self.line, &line);
        self.tape = tape.wiped();
        written?;
        self.line.push(b'\n');
        to.write_all(&self.line)
    }

    /// Gives `take` what the messages of a Transaction say, as a line would have it.
    #[cfg(feature = "parquet")]
    pub(crate) fn said<R>(
        &mut self,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        take: impl FnOnce(&DecodedValuesJson<'_, '_>) -> R,
    ) -> R {
        let mut tape = std::mem::take(&mut self.tape).wiped();
        let (results, call_parts) = listen(&mut tape, reading, facts);
        let taken = take(&DecodedValuesJson { tape: &tape, results, call_parts });
        self.tape = tape.wiped();
        taken
    }
}

/// Has a tape listen to both messages; gives where the items and the parts of the Reply begin.
fn listen<'a>(
    tape: &mut FieldTape<'a>,
    reading: &TransactionMessages<'a>,
    facts: &RpcSummary,
) -> (usize, usize) {
    let is_compound = matches!(facts.procedure_name, Some("COMPOUND" | "CB_COMPOUND"));
    tape.listen_to(if is_compound { None } else { facts.procedure_name.or(Some("")) });
    // What could be read before an error stands, and `missing` says what the capture lacks.
    let _ = reading.observe_rpc(RpcMessageKind::Call, tape);
    let (results, call_parts) = (tape.end(), tape.parts.len());
    let _ = reading.observe_rpc(RpcMessageKind::Reply, tape);
    tape.end();
    (results, call_parts)
}
