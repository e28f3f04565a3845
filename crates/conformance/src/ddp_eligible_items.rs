//! DDP-eligible data items of a message. RFC 8166 section 6.1, RFC 8267 sections 4 and 6.1.

use std::ops::Range;

use nfsrdma_dissectors::field::{DdpEligibleItem, FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::xdr::{Cursor, XdrError};
use nfsrdma_flow::transaction::RpcMessageKind;

#[derive(Clone, Debug, Default)]
pub(crate) struct DdpEligibleItems {
    /// Items up to the end of the message, or up to the error.
    pub(crate) items: Vec<DdpEligibleItem>,
    /// Error that ended decoding, including bytes after the end.
    pub(crate) error: Option<XdrError>,
    /// `true` if the message has a value that its type does not define.
    pub(crate) has_undefined: bool,
}

impl DdpEligibleItems {
    pub(crate) fn decode((procedure, mut cursor): (Procedure, Cursor<'_>), kind: RpcMessageKind) -> Self {
        let mut collector = DdpEligibleItemCollector::default();
        let decoded = match kind {
            RpcMessageKind::Call => procedure.arguments(&mut cursor, &mut collector),
            RpcMessageKind::Reply => procedure.results(&mut cursor, &mut collector),
        };
        let error = decoded.and_then(|()| cursor.expect_end()).err();
        Self { items: collector.items, error, has_undefined: collector.has_undefined }
    }

    pub(crate) fn at_position(&self, position: u32) -> Option<&DdpEligibleItem> {
        self.items.iter().find(|item| item.position == position as usize)
    }

    /// Returns `true` if the capture ends within the message.
    pub(crate) fn is_cut(&self) -> bool {
        self.error.is_some_and(|error| error.is_cut())
    }
}

#[derive(Default)]
struct DdpEligibleItemCollector {
    items: Vec<DdpEligibleItem>,
    has_undefined: bool,
}

impl<'a> FieldObserver<'a> for DdpEligibleItemCollector {
    fn is_enabled() -> bool {
        false
    }

    fn checks_values() -> bool {
        true
    }

    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn eligible_item(&mut self, item: DdpEligibleItem) {
        self.items.push(item);
    }

    fn undefined(&mut self, _: &'static FieldDefinition, _: &'static str, _: u32) {
        self.has_undefined = true;
    }

    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}
