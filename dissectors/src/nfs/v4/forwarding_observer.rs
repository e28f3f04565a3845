//! An observer between a decoder and another observer.

use std::ops::Range;

use crate::field::registry::FieldRegistry;
use crate::field::{DdpEligibleItem, FieldDefinition, FieldObserver, FieldValue};

/// Forwards everything except the outermost groups of one field, which the other observer has entered already. Counts
/// the groups that an error leaves open.
pub(super) struct OuterGroupOmittingObserver<'o, O> {
    observer: &'o mut O,
    group: Option<&'static FieldDefinition>,
    depth: usize,
}

impl<'o, O> OuterGroupOmittingObserver<'o, O> {
    pub(super) fn new(observer: &'o mut O, group: Option<&'static FieldDefinition>) -> Self {
        Self { observer, group, depth: 0 }
    }

    /// Leaves all open groups.
    pub(super) fn leave_all<'a>(&mut self, at: usize)
    where
        O: FieldObserver<'a>,
    {
        for _ in 0..std::mem::take(&mut self.depth) {
            self.observer.leave(at);
        }
    }
}

impl<'a, O: FieldObserver<'a>> FieldObserver<'a> for OuterGroupOmittingObserver<'_, O> {
    #[inline(always)]
    fn is_enabled() -> bool {
        O::is_enabled()
    }

    #[inline(always)]
    fn checks_values() -> bool {
        O::checks_values()
    }

    #[inline]
    fn is_interested_in(&mut self, field: &'static FieldDefinition, describe: fn(&mut FieldRegistry)) -> bool {
        self.observer.is_interested_in(field, describe)
    }

    #[inline]
    fn is_interested_in_items(&mut self, values: &'static FieldDefinition, has_item: &dyn Fn(u32) -> bool) -> bool {
        self.observer.is_interested_in_items(values, has_item)
    }

    #[inline]
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        if O::is_enabled() && (self.depth > 0 || self.group.is_none_or(|group| group.name != field.name)) {
            self.depth += 1;
            self.observer.enter(field, at);
        }
    }

    #[inline]
    fn leave(&mut self, at: usize) {
        if let Some(depth) = self.depth.checked_sub(1) {
            self.depth = depth;
            self.observer.leave(at);
        }
    }

    #[inline]
    fn list(&mut self, field: &'static FieldDefinition, at: usize) {
        self.observer.list(field, at);
    }

    #[inline]
    fn time(&mut self, field: &'static FieldDefinition, nanoseconds: i128) {
        self.observer.time(field, nanoseconds);
    }

    #[inline]
    fn structural_bytes(&mut self, bytes: Range<usize>) {
        self.observer.structural_bytes(bytes);
    }

    #[inline]
    fn eligible_item(&mut self, item: DdpEligibleItem) {
        self.observer.eligible_item(item);
    }

    #[inline]
    fn undefined(&mut self, field: &'static FieldDefinition, type_name: &'static str, value: u32) {
        self.observer.undefined(field, type_name, value);
    }

    #[inline]
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.observer.value(field, bytes, value);
    }
}
