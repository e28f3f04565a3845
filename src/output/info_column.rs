//! Info column: the arguments of an operation in a few words, such as file, range and mode: `READ /data/log 0+4096`.
//!
//! Collectors receive the fields from the decoders, as far as the message was captured; this module formats the few
//! that a line shows. The submodules choose the fields of each operation.

mod auxiliary_programs;
mod detail_writer;
mod field_collector;
mod nfs_operations;

use std::fmt::Write as _;
use std::ops::Range;

use nfsrdma_analysis::names::OperationPaths;
use nfsrdma_dissectors::nfs::v4::OperationNumber;
use nfsrdma_dissectors::nfs::{Procedure, mount, nlm, rquota};
use nfsrdma_dissectors::rpc::gss::{GssControlMessageKind, GssPayload};
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::{
    MainOperation, ProcedureOrMainOperation, RpcSummary, TransactionMessages,
};

use super::style::{Glyphs, columns};
use super::units::path;
use detail_writer::{InfoColumnDetailWriter, OperationDetailFunction};
use field_collector::InfoFieldCollector;

/// Formatter of operations, reused for all lines, so that a line allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct InfoColumnFormatter {
    call: InfoFieldCollector,
    reply: InfoFieldCollector,
    /// Byte range of the path in the text written last.
    path: Range<usize>,
}

/// Minimum number of columns left of the last name of a path.
const MIN_NAME_WIDTH: usize = 16;

impl InfoColumnFormatter {
    /// Appends the name of the operation and its details.
    pub(crate) fn write(
        &mut self,
        messages: &TransactionMessages<'_>,
        summary: &RpcSummary,
        paths: OperationPaths<'_>,
        glyphs: &Glyphs,
        text: &mut String,
    ) {
        self.path = 0..0;
        let name = match (summary.label_operation(), summary.procedure_name, summary.procedure) {
            (Some(ProcedureOrMainOperation::Named(name)), ..) | (None, Some(name), _) => name,
            (Some(ProcedureOrMainOperation::Number(number)), ..) => {
                let _ = write!(text, "operation {number}");
                return;
            }
            // The procedures of this program are not described.
            (None, None, Some(number)) => {
                let _ = write!(text, "procedure {number}");
                return;
            }
            (None, None, None) => {
                text.push('?');
                return;
            }
        };
        text.push_str(name);
        let is_cut = summary.decoded_operation.is_some() || paths.path.is_none() && paths.start.is_some();
        let mut is_marked = false;
        match summary.payload {
            Some(GssPayload::Privacy) => text.push_str(" (encrypted)"),
            Some(GssPayload::Control(GssControlMessageKind::Init)) => text.push_str(" RPCSEC_GSS context"),
            Some(GssPayload::Control(_)) => text.push_str(" RPCSEC_GSS control"),
            _ => {
                if let Some(file) = paths.path.or(paths.start) {
                    text.push(' ');
                    let start = text.len();
                    path(file, glyphs, text);
                    self.path = start..text.len();
                }
                if let Some(write_details) = details(summary) {
                    // A path is several LOOKUPs; of any other operation, only the first is shown.
                    let is_repeated = summary.main_operation == Some(MainOperation::Operation(OperationNumber::LOOKUP));
                    self.call.begin(name, is_repeated);
                    self.reply.begin(name, is_repeated);
                    // Fields decoded before an error are shown.
                    let _ = messages.observe_rpc(RpcMessageKind::Call, &mut self.call);
                    let _ = messages.observe_rpc(RpcMessageKind::Reply, &mut self.reply);
                    let (call, reply) = (&self.call, &self.reply);
                    let mut writer =
                        InfoColumnDetailWriter { call, reply, about: paths, glyphs, text, is_marked: false };
                    write_details(&mut writer);
                    is_marked = writer.is_marked;
                }
            }
        }
        // The snap length cut arguments, and maybe another operation.
        if is_cut && !is_marked {
            text.push_str(" ?");
        }
    }

    /// Returns the byte range of the path in the text written last.
    #[cfg(feature = "tui")]
    pub(crate) fn path(&self) -> Range<usize> {
        self.path.clone()
    }

    /// Truncates the path of the text written last at its beginning, until the text fits in `max_columns` columns.
    pub(super) fn shorten(&self, max_columns: usize, glyphs: &Glyphs, text: &mut String) {
        shorten(self.path.clone(), max_columns, glyphs, text);
    }
}

/// Truncates the path at `range` in a text at its beginning, until the text fits in `max_columns` columns.
pub(crate) fn shorten(range: Range<usize>, max_columns: usize, glyphs: &Glyphs, text: &mut String) {
    let Some(path) = text.get(range.clone()) else { return };
    let excess = columns(text).saturating_sub(max_columns);
    let name = path.rsplit('/').next().unwrap_or(path);
    let max_cut = columns(path).saturating_sub(columns(name).min(MIN_NAME_WIDTH) + 1);
    if excess == 0 || max_cut == 0 {
        return;
    }
    let cut = (excess + columns(glyphs.cut)).min(max_cut);
    let mut passed = 0;
    let end = path.char_indices().find_map(|(at, character)| {
        let is_enough = passed >= cut;
        passed += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        is_enough.then_some(at)
    });
    let Some(end) = end else { return };
    // A path is cut between two names, unless the last name alone is too long.
    let rest = path.get(end..).unwrap_or_default();
    let end = end + rest.find('/').unwrap_or(0);
    text.replace_range(range.start..range.start + end, glyphs.cut);
}

/// Returns the function for the details of the operation. `None` if it has no details: its messages need not be decoded
/// again.
fn details(summary: &RpcSummary) -> Option<OperationDetailFunction> {
    use auxiliary_programs as auxiliary;
    use nfs_operations as nfs;
    match (summary.main_operation, summary.described_procedure()?) {
        (Some(MainOperation::Operation(operation)), _) => nfs::v4(operation.known()?),
        (Some(MainOperation::Callback(operation)), _) => nfs::callback(operation.known()?),
        (None, Procedure::V2(procedure)) => nfs::v2(procedure),
        (None, Procedure::V3(procedure)) => nfs::v3(procedure),
        // The other tables have some of these procedures, with the same numbers.
        (None, Procedure::Mount1(procedure)) => {
            auxiliary::mount(mount::v2::ProcedureNumber(procedure.number().0).known()?)
        }
        (None, Procedure::Mount2(procedure)) => auxiliary::mount(procedure),
        (None, Procedure::Mount3(procedure)) => {
            auxiliary::mount(mount::v2::ProcedureNumber(procedure.number().0).known()?)
        }
        (None, Procedure::Nlm1(procedure)) => auxiliary::nlm(nlm::v4::ProcedureNumber(procedure.number().0).known()?),
        (None, Procedure::Nlm3(procedure)) => auxiliary::nlm(nlm::v4::ProcedureNumber(procedure.number().0).known()?),
        (None, Procedure::Nlm4(procedure)) => auxiliary::nlm(procedure),
        (None, Procedure::Nsm(procedure)) => auxiliary::nsm(procedure),
        (None, Procedure::Nfsacl2(procedure)) => auxiliary::nfsacl2(procedure),
        (None, Procedure::Nfsacl3(procedure)) => auxiliary::nfsacl3(procedure),
        (None, Procedure::Rquota1(procedure)) => {
            auxiliary::rquota(rquota::v2::ProcedureNumber(procedure.number().0).known()?)
        }
        (None, Procedure::Rquota2(procedure)) => auxiliary::rquota(procedure),
        (None, Procedure::Portmap2(procedure)) => auxiliary::portmap2(procedure),
        (None, Procedure::Rpcbind3(procedure)) => auxiliary::rpcbind3(procedure),
        (None, Procedure::Rpcbind4(procedure)) => auxiliary::rpcbind4(procedure),
        (None, Procedure::Compound | Procedure::CbCompound | Procedure::Null) => None,
    }
}
