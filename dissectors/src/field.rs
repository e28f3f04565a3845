//! Named fields that decoders report to a [`FieldObserver`].
//!
//! Every protocol structure is described once: with [`header!`](crate::header!) for fixed layouts, with
//! [`xdr!`](crate::xdr!) for XDR. Decoders are generic over the observer. With [`NullFieldObserver`] observation
//! compiles to nothing, so only users of the field tree, filters and `-e` pay for it.

pub(crate) mod definition;
pub mod registry;

use std::ops::Range;

pub(crate) use definition::fields;
pub use definition::{
    DataItemPlacement, DdpEligibleItem, FieldDefinition, FieldKind, FieldValue, FlagName, doc, label,
};

use registry::FieldRegistry;

/// Visitor for decoded fields. Positions are byte offsets in the frame or reassembled message that is decoded.
pub trait FieldObserver<'a> {
    /// Returns `true` if fields are reported. Otherwise decoders skip work needed only for reporting.
    #[inline(always)]
    fn is_enabled() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Returns `true` if undefined values are reported.
    #[inline(always)]
    fn checks_values() -> bool
    where
        Self: Sized,
    {
        Self::is_enabled()
    }

    /// Returns `true` if nothing is reported, data items included.
    #[inline(always)]
    fn ignores_all() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Returns `true` if the structure reported under this field is wanted. `describe` adds the fields inside it to a
    /// registry. An unwanted structure is decoded without being reported.
    #[inline(always)]
    fn is_interested_in(&mut self, _field: &'static FieldDefinition, _describe: fn(&mut FieldRegistry)) -> bool {
        true
    }

    /// Same as [`FieldObserver::is_interested_in`] for a header of fixed layout, which `describe` registers under this
    /// field, too.
    #[inline(always)]
    fn is_interested_in_header(&mut self, group: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.is_interested_in(group, describe)
    }

    /// Returns `true` if the items announced by a bitmap are wanted: `_values` is the field of their bytes, `_has`
    /// tests a bit.
    #[inline(always)]
    fn is_interested_in_items(&mut self, _values: &'static FieldDefinition, _has: &dyn Fn(u32) -> bool) -> bool {
        true
    }

    /// Begins a structure at byte `at`.
    #[inline(always)]
    fn enter(&mut self, _field: &'static FieldDefinition, _at: usize) {}

    /// Ends the structure entered last, before byte `at`.
    #[inline(always)]
    fn leave(&mut self, _at: usize) {}

    /// Begins a list at byte `at`. Its items follow, each under this field; there may be none.
    #[inline(always)]
    fn list(&mut self, _field: &'static FieldDefinition, _at: usize) {}

    /// Reports the structure left last as a time in nanoseconds; points in time are relative to 1970-01-01 00:00:00
    /// UTC.
    #[inline(always)]
    fn time(&mut self, _field: &'static FieldDefinition, _nanoseconds: i128) {}

    /// Reports bytes of the encoding that belong to no field: a count, the discriminant of an optional item, padding.
    #[inline(always)]
    fn structural_bytes(&mut self, _bytes: Range<usize>) {}

    /// Reports the length and place of a DDP-eligible item, before its content is decoded.
    #[inline(always)]
    fn eligible_item(&mut self, _item: DdpEligibleItem) {}

    /// Reports a value of the field that its type, an enumeration or `bool`, does not define.
    #[inline(always)]
    fn undefined(&mut self, _field: &'static FieldDefinition, _type_name: &'static str, _value: u32) {}

    /// Reports a value decoded from these bytes.
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>);
}

/// Observer that forwards to another one by dynamic dispatch. The decoders of all protocols are compiled for it once
/// instead of once for each observer: otherwise, they are half of the program.
pub struct TypeErasedFieldObserver<'o, 'a>(&'o mut (dyn FieldObserver<'a> + 'o));

impl<'o, 'a> TypeErasedFieldObserver<'o, 'a> {
    /// Creates an observer that forwards to `observer`.
    pub fn new(observer: &'o mut impl FieldObserver<'a>) -> Self {
        Self(observer)
    }
}

impl<'a> FieldObserver<'a> for TypeErasedFieldObserver<'_, 'a> {
    #[inline(always)]
    fn is_interested_in(&mut self, field: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.0.is_interested_in(field, describe)
    }

    #[inline(always)]
    fn is_interested_in_header(&mut self, group: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.0.is_interested_in_header(group, describe)
    }

    #[inline(always)]
    fn is_interested_in_items(&mut self, values: &'static FieldDefinition, has_item: &dyn Fn(u32) -> bool) -> bool {
        self.0.is_interested_in_items(values, has_item)
    }

    #[inline(always)]
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.0.enter(field, at);
    }

    #[inline(always)]
    fn leave(&mut self, at: usize) {
        self.0.leave(at);
    }

    #[inline(always)]
    fn list(&mut self, field: &'static FieldDefinition, at: usize) {
        self.0.list(field, at);
    }

    #[inline(always)]
    fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
        self.0.time(field, nanoseconds);
    }

    #[inline(always)]
    fn structural_bytes(&mut self, bytes: Range<usize>) {
        self.0.structural_bytes(bytes);
    }

    #[inline(always)]
    fn eligible_item(&mut self, item: DdpEligibleItem) {
        self.0.eligible_item(item);
    }

    #[inline(always)]
    fn undefined(&mut self, field: &'static FieldDefinition, type_name: &'static str, value: u32) {
        self.0.undefined(field, type_name, value);
    }

    #[inline(always)]
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.0.value(field, bytes, value);
    }
}

/// Observer that looks for values that their types do not define.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndefinedValueObserver {
    /// `true` if there was one.
    pub has_undefined: bool,
}

impl<'a> FieldObserver<'a> for UndefinedValueObserver {
    #[inline(always)]
    fn is_enabled() -> bool {
        false
    }

    #[inline(always)]
    fn checks_values() -> bool {
        true
    }

    #[inline(always)]
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    #[inline(always)]
    fn leave(&mut self, _: usize) {}

    #[inline(always)]
    fn undefined(&mut self, _: &'static FieldDefinition, _: &'static str, _: u32) {
        self.has_undefined = true;
    }

    #[inline(always)]
    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}

/// Observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullFieldObserver;

impl<'a> FieldObserver<'a> for NullFieldObserver {
    #[inline(always)]
    fn is_enabled() -> bool {
        false
    }

    #[inline(always)]
    fn ignores_all() -> bool {
        true
    }

    #[inline(always)]
    fn value(&mut self, _: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {}
}
