//! JSON Lines: one object per Transaction, on one line. The schema is `docs/transaction.schema.json`.
//!
//! The keys come in the order of the schema and directly from the Transaction; only arguments and results are buffered
//! in a [`field_buffer`] until both messages are read.

mod arguments_and_results;
mod field_buffer;
mod line;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::flow::Transaction;
use nfsrdma_dissectors::flow::transaction::RpcMessageKind;
use nfsrdma_dissectors::flow::transaction_message_decoding::{RpcSummary, TransactionMessages};

use super::PendingCallProgress;
use crate::escape;
use field_buffer::MessageFieldBuffer;
pub(super) use line::FindingJson;
use line::TransactionJsonLine;
#[cfg(feature = "parquet")]
pub(crate) use line::{DecodedValuesJson, inline_length, procedure, rpc_status, status};
pub(crate) use line::{DisplayAsJsonString, NameOrNumberJson, address};
use nfsrdma_analysis::names::FileNames;

/// Version of the schema of the lines.
pub const SCHEMA: u32 = 1;

/// Writer of Transactions as lines. Reuses the buffers of a line for the next.
#[derive(Debug, Default)]
pub struct TransactionJsonLineWriter {
    line: Vec<u8>,
    tape: MessageFieldBuffer<'static>,
    has_iso: bool,
}

impl TransactionJsonLineWriter {
    /// Creates a writer; with `has_iso`, each time is also written in ISO 8601 under a key of its own.
    pub fn new(has_iso: bool) -> Self {
        Self { has_iso, ..Self::default() }
    }

    /// Writes the line of a Transaction in one write, so that no partial lines appear.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn transaction(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
        findings: &[Finding],
    ) -> io::Result<()> {
        self.line(to, transaction, reading, facts, names, (findings, None))
    }

    /// Writes the line of a pending Call.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn pending(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
        pending: PendingCallProgress,
    ) -> io::Result<()> {
        self.line(to, transaction, reading, facts, names, (&[], Some(pending)))
    }

    fn line(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        names: &FileNames,
        (findings, pending): (&[Finding], Option<PendingCallProgress>),
    ) -> io::Result<()> {
        let mut tape = std::mem::take(&mut self.tape).cleared();
        let (results, call_parts) = record_messages(&mut tape, reading, facts);
        self.line.clear();
        let mut line =
            TransactionJsonLine::new(transaction, facts, names, &tape, (results, call_parts), self.has_iso)
                .with_findings(findings);
        if let Some(pending) = pending {
            line = line.into_pending(pending);
        }
        let written = escape::json_to(&mut self.line, &line);
        self.tape = tape.cleared();
        written?;
        self.line.push(b'\n');
        to.write_all(&self.line)
    }

    /// Passes the decoded messages of a Transaction to `take`, in the form of a line.
    #[cfg(feature = "parquet")]
    pub(crate) fn with_decoded_values<R>(
        &mut self,
        reading: &TransactionMessages<'_>,
        facts: &RpcSummary,
        take: impl FnOnce(&DecodedValuesJson<'_, '_>) -> R,
    ) -> R {
        let mut tape = std::mem::take(&mut self.tape).cleared();
        let (results, call_parts) = record_messages(&mut tape, reading, facts);
        let taken = take(&DecodedValuesJson { tape: &tape, results, call_parts });
        self.tape = tape.cleared();
        taken
    }
}

/// Records both messages on a tape; returns the indexes of the first item and of the first part of the Reply.
fn record_messages<'a>(
    tape: &mut MessageFieldBuffer<'a>,
    reading: &TransactionMessages<'a>,
    facts: &RpcSummary,
) -> (usize, usize) {
    let is_compound = matches!(facts.procedure_name, Some("COMPOUND" | "CB_COMPOUND"));
    tape.begin_message(if is_compound { None } else { facts.procedure_name.or(Some("")) });
    // Fields decoded before an error are used; `missing` has what was not captured.
    let _ = reading.observe_rpc(RpcMessageKind::Call, tape);
    let (results, call_parts) = (tape.end_message(), tape.parts.len());
    let _ = reading.observe_rpc(RpcMessageKind::Reply, tape);
    tape.end_message();
    (results, call_parts)
}
