//! Adds file names to filehandles in the tree.

use std::ops::Range;

use nfsrdma_analysis::names::{FILEHANDLE, FileNames};
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_flow::transaction::Transaction;
use nfsrdma_flow::transaction_message_decoding::RpcSummary;

use super::field_tree::FieldTree;
use crate::output::units::path;

/// Transaction of the filehandles, and the known file names.
#[derive(Clone, Copy)]
pub(super) struct FilehandleNamingContext<'k> {
    pub(super) names: &'k FileNames,
    pub(super) transaction: &'k Transaction,
    pub(super) facts: &'k RpcSummary,
}

/// Tree that adds names to filehandles.
pub(super) struct FilehandleNameAnnotator<'t, 'k> {
    pub(super) tree: &'t mut FieldTree,
    pub(super) context: FilehandleNamingContext<'k>,
}

impl<'a> FieldObserver<'a> for FilehandleNameAnnotator<'_, '_> {
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.tree.enter(field, at);
    }

    fn leave(&mut self, at: usize) {
        self.tree.leave(at);
    }

    fn list(&mut self, field: &'static FieldDefinition, at: usize) {
        self.tree.list(field, at);
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.tree.value(field, bytes, value);
        let FilehandleNamingContext { names, transaction, facts } = self.context;
        let mut name = Vec::new();
        if field.name == FILEHANDLE
            && let FieldValue::Bytes(handle) = value
            && names.write_annotation(transaction, facts, handle, &mut name)
            && let Some(node) = self.tree.nodes.last_mut()
        {
            node.text.push_str(" (");
            path(&name, &self.tree.glyphs, &mut node.text);
            node.text.push(')');
        }
    }
}
