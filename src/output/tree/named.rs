//! Names of files beside their filehandles.

use std::ops::Range;

use nfsrdma_dissectors::field::{Field, Observer, Value};
use nfsrdma_dissectors::flow::reading::Facts;
use nfsrdma_dissectors::flow::transaction::Transaction;

use super::Tree;
use crate::analysis::names::{FILEHANDLE, Names};
use crate::output::units::path;

/// Whose filehandles they are, and who knows their names.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) names: &'k Names,
    pub(super) transaction: &'k Transaction,
    pub(super) facts: &'k Facts,
}

/// A tree that has names in it.
pub(super) struct Named<'t, 'k> {
    pub(super) tree: &'t mut Tree,
    pub(super) known: Known<'k>,
}

impl<'a> Observer<'a> for Named<'_, '_> {
    fn enter(&mut self, field: &'static Field, at: usize) {
        self.tree.enter(field, at);
    }

    fn leave(&mut self, at: usize) {
        self.tree.leave(at);
    }

    fn list(&mut self, field: &'static Field, at: usize) {
        self.tree.list(field, at);
    }

    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: Value<'a>) {
        self.tree.value(field, bytes, value);
        let Known { names, transaction, facts } = self.known;
        let mut name = Vec::new();
        if field.name == FILEHANDLE
            && let Value::Bytes(handle) = value
            && names.beside(transaction, facts, handle, &mut name)
            && let Some(node) = self.tree.nodes.last_mut()
        {
            node.text.push_str(" (");
            path(&name, &self.tree.glyphs, &mut node.text);
            node.text.push(')');
        }
    }
}
