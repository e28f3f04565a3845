//! Values of a message that their types do not define. RFC 4506 sections 4.3 and 4.4.

use std::fmt;
use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_flow::transaction::RpcMessageKind;

/// A value of an enumeration, or of a boolean, that the type does not define.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndefinedValue {
    pub(crate) field: &'static FieldDefinition,
    type_name: &'static str,
    pub(crate) value: u32,
    /// Index of the operation of a COMPOUND that has it.
    pub(crate) operation: usize,
}

impl UndefinedValue {
    /// Returns the first one of the arguments or results at a cursor, as far as they can be decoded.
    pub(crate) fn find((procedure, mut cursor): (Procedure, Cursor<'_>), kind: RpcMessageKind) -> Option<Self> {
        let mut search = UndefinedValueSearch::default();
        // Other errors are judged by other rules.
        let _ = match kind {
            RpcMessageKind::Call => procedure.arguments(&mut cursor, &mut search),
            RpcMessageKind::Reply => procedure.results(&mut cursor, &mut search),
        };
        search.found
    }
}

impl fmt::Display for UndefinedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, type_name, value, .. } = self;
        write!(f, "{} {value}, which {type_name} does not define", field.label)
    }
}

#[derive(Default)]
struct UndefinedValueSearch {
    /// Operations of a COMPOUND so far.
    operations: usize,
    found: Option<UndefinedValue>,
}

impl<'a> FieldObserver<'a> for UndefinedValueSearch {
    fn undefined(&mut self, field: &'static FieldDefinition, type_name: &'static str, value: u32) {
        let operation = self.operations.saturating_sub(1);
        self.found.get_or_insert(UndefinedValue { field, type_name, value, operation });
    }

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        let is_operation = matches!(value, FieldValue::Enum(..))
            && matches!(field.name, field_names::NFS_OPCODE | field_names::NFS_CB_OPERATION);
        self.operations += usize::from(is_operation);
    }
}
