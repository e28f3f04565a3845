//! JSON Lines: one object per Transaction, on one line. The schema is `docs/transaction.schema.json`.
//!
//! The keys come in the order of the schema and directly from the Transaction; only arguments and results are buffered
//! in a [`field_buffer`] until both messages are read.

mod arguments_and_results;
mod field_buffer;
pub(crate) mod line;
pub(crate) mod object;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use nfsrdma_analysis::names::FileNames;
use nfsrdma_conformance::Finding;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::{RpcSummary, TransactionMessages};

use super::pending_call_progress::PendingCallProgress;
use crate::escape;
use field_buffer::MessageFieldBuffer;
use line::{DecodedValuesJson, line_object};

/// Writer of Transactions as lines. Reuses the buffers of a line for the next.
#[derive(Debug, Default)]
pub struct TransactionJsonLineWriter {
    line: Vec<u8>,
    buffer: MessageFieldBuffer<'static>,
    has_iso: bool,
}

impl TransactionJsonLineWriter {
    /// Creates a writer; with `has_iso`, each time is also written in ISO 8601 under its own key.
    pub fn new(has_iso: bool) -> Self {
        Self { has_iso, ..Self::default() }
    }

    /// Writes the line of a Transaction with its findings, or of a pending Call, in one write, so that no partial lines
    /// appear.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn transaction(
        &mut self,
        to: &mut impl Write,
        transaction: &Transaction,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        names: &FileNames,
        state: (&[Finding], Option<PendingCallProgress>),
    ) -> io::Result<()> {
        let (mut line, has_iso) = (std::mem::take(&mut self.line), self.has_iso);
        line.clear();
        self.with_decoded_values(messages, summary, |values| {
            escape::json_to(&mut line, &line_object(transaction, summary, names, values, has_iso, state))
        })?;
        line.push(b'\n');
        to.write_all(&line)?;
        self.line = line;
        Ok(())
    }

    /// Passes the decoded messages of a Transaction to `action`, in the form of a line.
    pub(crate) fn with_decoded_values<R>(
        &mut self,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        action: impl FnOnce(&DecodedValuesJson<'_, '_>) -> R,
    ) -> R {
        let mut buffer = std::mem::take(&mut self.buffer).cleared();
        let is_compound = [Procedure::Compound, Procedure::CbCompound]
            .iter()
            .any(|compound| summary.procedure_name == Some(compound.name()));
        buffer.begin_message(if is_compound { None } else { summary.procedure_name.or(Some("")) });
        // Fields decoded before an error are used; `missing` lists the parts that were not captured.
        let _ = messages.observe_rpc(RpcMessageKind::Call, &mut buffer);
        let (results, call_parts) = (buffer.end_message(), buffer.parts.len());
        let _ = messages.observe_rpc(RpcMessageKind::Reply, &mut buffer);
        buffer.end_message();
        let output = action(&DecodedValuesJson { buffer: &buffer, results, call_parts });
        self.buffer = buffer.cleared();
        output
    }
}
