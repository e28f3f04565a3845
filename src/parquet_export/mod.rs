//! Export of Transactions as Parquet tables, for distributed query engines.
//!
//! A capture has five tables: [`transactions`](rows), their [`operations`], the `segments` of their chunks,
//! `connections`, and the [`findings`] of conformance rules. The macro of [`table_schema`] describes each;
//! [`parquet_files`] writes it. `docs/tables.md` is generated from the descriptions. Tables are partitioned by capture,
//! so that captures can be exported in parallel:
//!
//! ```text
//! DIR/transactions/capture=rxe-v42.pcap/part-0.parquet
//! ```

mod connection_tally;
mod findings;
mod operations;
mod parquet_column;
mod parquet_files;
mod rows;
mod table_schema;

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay};
use nfsrdma_conformance::{ConformanceChecker, Finding};
use nfsrdma_flow::{Flow, Transaction, TransactionSlabKey};
use nfsrdma_output_file::{ProtectedInputFiles, check_part};

use crate::output::json::TransactionJsonLineWriter;
use connection_tally::ExportConnectionTallies;
use findings::FindingRow;
use operations::OperationRow;
pub use parquet_column::{ParquetColumn, ParquetColumnType};
use parquet_files::{CreatedOutputFolders, ParquetTableWriter};
use rows::{ConnectionRow, SegmentRow, TransactionRow};
pub use table_schema::ParquetRow;

/// The tables of one capture.
pub struct ParquetExport {
    transactions: ParquetTableWriter<TransactionRow<'static>>,
    operations: ParquetTableWriter<OperationRow<'static>>,
    segments: ParquetTableWriter<SegmentRow<'static>>,
    connections: ParquetTableWriter<ConnectionRow<'static>>,
    findings: ParquetTableWriter<FindingRow<'static>>,
    tallies: ExportConnectionTallies,
    conformance: ConformanceChecker,
    lines: TransactionJsonLineWriter,
    names: FileNames,
    /// Dropped last: the tables have folders in it.
    _directory: CreatedOutputFolders,
}

impl ParquetExport {
    /// Creates the tables of a capture of this name below `directory`, none of which may overwrite one of `inputs`.
    /// `memory` includes buffered rows.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be created. All other functions here return write errors.
    pub fn create(
        directory: &Path,
        capture: &str,
        inputs: &ProtectedInputFiles,
        memory: &CommandMemoryBudget,
    ) -> io::Result<Self> {
        let eighth = memory.view_bytes() / 8;
        let partition = format!("capture={}", escaped(capture));
        let new_directory = CreatedOutputFolders::create(directory)?;
        Ok(Self {
            transactions: ParquetTableWriter::create(directory, &partition, inputs, 3 * eighth)?,
            operations: ParquetTableWriter::create(directory, &partition, inputs, 3 * eighth)?,
            segments: ParquetTableWriter::create(directory, &partition, inputs, eighth)?,
            connections: ParquetTableWriter::create(directory, &partition, inputs, eighth / 2)?,
            findings: ParquetTableWriter::create(directory, &partition, inputs, eighth / 2)?,
            tallies: ExportConnectionTallies::new(memory.tables_bytes()),
            conformance: ConformanceChecker::new(),
            lines: TransactionJsonLineWriter::default(),
            names: FileNames::new(FilehandleDisplay::Names, memory.names_bytes()).with_operations(),
            _directory: new_directory,
        })
    }

    /// Judges the transport events of the last frame.
    ///
    /// # Errors
    /// Returns the first write error.
    pub fn record_events(&mut self, flow: &Flow) -> io::Result<()> {
        self.conformance.record_events(flow);
        let ready = self.conformance.take_ready();
        self.add_findings(&ready)
    }

    fn add_findings(&mut self, findings: &[Finding]) -> io::Result<()> {
        findings.iter().try_for_each(|finding| self.findings.add(&FindingRow::of(finding)))
    }

    /// Adds a transaction; `key` identifies it in transport events.
    ///
    /// # Errors
    /// Returns the first write error.
    pub fn transaction(&mut self, key: TransactionSlabKey, transaction: &Transaction) -> io::Result<()> {
        let Self {
            transactions,
            operations,
            segments,
            connections,
            findings: _,
            tallies,
            conformance,
            lines,
            names,
            _directory,
        } = self;
        let mut findings = Vec::new();
        let is_complete = transaction.with_messages(|messages| {
            let summary = messages.summary();
            findings = conformance.check_transaction(Some(key), transaction, messages, &summary);
            findings.sort_by_key(|finding| Reverse(finding.severity));
            names.infer(transaction, messages, &summary);
            transactions.add(&TransactionRow::of(transaction, &summary, names.paths()))?;
            lines.with_decoded_values(messages, &summary, |values| {
                operations::for_each_row(transaction.index, (messages, &summary), values, names, |row| {
                    operations.add(row)
                })
            })?;
            io::Result::Ok(summary.missing(transaction).is_empty())
        })?;
        for segment in SegmentRow::of(transaction) {
            segments.add(&segment)?;
        }
        for tally in tallies.add(transaction, is_complete) {
            connections.add(&ConnectionRow::of(&tally))?;
        }
        self.add_findings(&findings)
    }

    /// Writes the remaining rows. The files get their names when all of them are complete.
    ///
    /// Unless `is_whole`, the tables replace no others.
    ///
    /// # Errors
    /// Returns the first write error.
    pub fn finish(mut self, is_whole: bool) -> io::Result<()> {
        for tally in self.tallies.take() {
            self.connections.add(&ConnectionRow::of(&tally))?;
        }
        let findings = self.conformance.finish();
        self.add_findings(&findings)?;
        self.transactions.finish()?;
        self.operations.finish()?;
        self.segments.finish()?;
        self.connections.finish()?;
        self.findings.finish()?;
        if !is_whole {
            let names = [
                self.transactions.first_part(),
                self.operations.first_part(),
                self.segments.first_part(),
                self.connections.first_part(),
                self.findings.first_part(),
            ];
            names.iter().try_for_each(|name| check_part(name))?;
        }
        self.transactions.publish()?;
        self.operations.publish()?;
        self.segments.publish()?;
        self.connections.publish()?;
        self.findings.publish()
    }
}

/// Returns a name as a partition value: characters special in paths or to engines become `%` and two digits.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

/// Returns the generated part of `docs/tables.md`.
pub fn documentation() -> String {
    fn table<R: ParquetRow>(text: &mut String) {
        let title = R::TABLE;
        let _ = write!(text, "\n## {title}\n{}\n\n| column | type | what it is |\n|---|---|---|\n", R::ABOUT.trim());
        for ParquetColumn { name, kind, is_optional, about } in R::COLUMNS {
            let not_null = if *is_optional { "" } else { ", not null" };
            let _ = writeln!(text, "| `{name}` | {}{not_null} | {} |", kind.sql(), about.trim());
        }
    }
    let mut text = String::new();
    table::<TransactionRow<'_>>(&mut text);
    table::<OperationRow<'_>>(&mut text);
    table::<SegmentRow<'_>>(&mut text);
    table::<ConnectionRow<'_>>(&mut text);
    table::<FindingRow<'_>>(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder() {
        assert_eq!(escaped("rxe-v42.pcap"), "rxe-v42.pcap");
        assert_eq!(escaped("../a=b é"), "..%2Fa%3Db%20%C3%A9");
    }

    #[test]
    fn every_column_of_every_table_is_described_once() {
        fn names<R: ParquetRow>() -> Vec<&'static str> {
            assert!(R::COLUMNS.iter().all(|column| column.about.trim().ends_with('.')), "{}", R::TABLE);
            R::COLUMNS.iter().map(|column| column.name).collect()
        }
        for names in [
            names::<TransactionRow<'_>>(),
            names::<OperationRow<'_>>(),
            names::<SegmentRow<'_>>(),
            names::<ConnectionRow<'_>>(),
            names::<FindingRow<'_>>(),
        ] {
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len());
        }
    }
}
