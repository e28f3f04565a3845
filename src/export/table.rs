//! How a table is described: its columns, each with a name, a type and what it is, and how a row gives their values.
//!
//! What [`table!`] describes is a structure with a field for each column. The schema of the Parquet file, the values of a
//! row and `docs/tables.md` all come from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use nfsrdma_dissectors::frame::Timestamp;

use super::parts::Buffer;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// INT64; what is larger is null.
    Integer,
    /// BOOLEAN.
    Boolean,
    /// UTF-8.
    Text,
    /// TIMESTAMP WITH TIME ZONE in microseconds, UTC.
    Time,
}

impl Type {
    /// What SQL calls it.
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Integer => "BIGINT",
            Self::Boolean => "BOOLEAN",
            Self::Text => "VARCHAR",
            Self::Time => "TIMESTAMP WITH TIME ZONE",
        }
    }

    /// The words of a schema, before and after the name of the column.
    const fn parquet(self) -> (&'static str, &'static str) {
        match self {
            Self::Integer => ("int64", ""),
            Self::Boolean => ("boolean", ""),
            Self::Text => ("binary", " (STRING)"),
            Self::Time => ("int64", " (TIMESTAMP(MICROS,true))"),
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Type,
    /// Whether it may be null.
    pub is_optional: bool,
    /// What it is.
    pub about: &'static str,
}

/// A row of a table.
pub trait Row {
    /// The name of the table.
    const TABLE: &'static str;
    /// What a row is.
    const ABOUT: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [Column];

    /// Adds the values to the columns, in their order.
    fn put(&self, to: &mut [Buffer]);

    /// The schema as Parquet writes it.
    fn schema() -> String {
        let mut schema = format!("message {} {{\n", Self::TABLE);
        for Column { name, kind, is_optional, .. } in Self::COLUMNS {
            let repetition = if *is_optional { "optional" } else { "required" };
            let (before, after) = kind.parquet();
            // A text takes all that is written.
            let _ = writeln!(schema, "  {repetition} {before} {name}{after};");
        }
        schema + "}\n"
    }
}

/// A value of a column.
pub(super) trait Cell {
    const KIND: Type;
    const IS_OPTIONAL: bool = false;

    fn put(&self, to: &mut Buffer);
}

impl Cell for u64 {
    const KIND: Type = Type::Integer;

    fn put(&self, to: &mut Buffer) {
        to.integer(Some(i64::try_from(*self).unwrap_or(i64::MAX)));
    }
}

impl Cell for Option<u64> {
    const KIND: Type = Type::Integer;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut Buffer) {
        to.integer(self.and_then(|number| i64::try_from(number).ok()));
    }
}

/// Nanoseconds since 1970-01-01 00:00:00 UTC.
impl Cell for Option<Timestamp> {
    const KIND: Type = Type::Integer;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut Buffer) {
        to.integer(self.map(|time| time.0));
    }
}

/// A time, rounded down to microseconds: what all engines know as a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Micros(pub(super) Timestamp);

impl Cell for Option<Micros> {
    const KIND: Type = Type::Time;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut Buffer) {
        to.integer(self.map(|time| time.0.0.div_euclid(1000)));
    }
}

impl Cell for bool {
    const KIND: Type = Type::Boolean;

    fn put(&self, to: &mut Buffer) {
        to.boolean(Some(*self));
    }
}

impl Cell for Option<bool> {
    const KIND: Type = Type::Boolean;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut Buffer) {
        to.boolean(*self);
    }
}

impl Cell for Cow<'_, str> {
    const KIND: Type = Type::Text;

    fn put(&self, to: &mut Buffer) {
        to.text(Some(self));
    }
}

impl Cell for Option<Cow<'_, str>> {
    const KIND: Type = Type::Text;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut Buffer) {
        to.text(self.as_deref());
    }
}

/// Describes a table.
macro_rules! table {
    ($(#[doc = $about:literal])+ $Row:ident<$r:lifetime> $name:literal { $($(#[doc = $column_about:literal])+ $column:ident: $type:ty,)* }) => {
        $(#[doc = $about])+
        pub(super) struct $Row<$r> {
            $($(#[doc = $column_about])+ pub(super) $column: $type,)*
            /// Rows borrow from what they are made of.
            pub(super) of: std::marker::PhantomData<&$r ()>,
        }

        impl<$r> $crate::export::table::Row for $Row<$r> {
            const TABLE: &'static str = $name;
            const ABOUT: &'static str = concat!($($about),+);
            const COLUMNS: &'static [$crate::export::table::Column] = &[$($crate::export::table::Column {
                name: stringify!($column),
                kind: <$type as $crate::export::table::Cell>::KIND,
                is_optional: <$type as $crate::export::table::Cell>::IS_OPTIONAL,
                about: concat!($($column_about),+),
            }),*];

            fn put(&self, to: &mut [$crate::export::parts::Buffer]) {
                let mut columns = to.iter_mut();
                $(if let Some(column) = columns.next() {
                    $crate::export::table::Cell::put(&self.$column, column);
                })*
            }
        }
    };
}
pub(super) use table;
