//! How a table is described: its columns, each with a name, a type and what it is, and how a row gives their values.
//!
//! What [`table!`] describes is a structure with a field for each column. The schema of the Parquet file, the values of a
//! row and `docs/tables.md` all come from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use nfsrdma_dissectors::frame::Timestamp;

use super::parquet_files::ColumnBuffer;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// INT64; what is larger is null.
    Integer,
    /// BOOLEAN.
    Boolean,
    /// UTF-8.
    Text,
    /// TIMESTAMP WITH TIME ZONE in microseconds, UTC.
    Time,
}

impl ColumnType {
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
pub struct ExportColumn {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ColumnType,
    /// Whether it may be null.
    pub is_optional: bool,
    /// What it is.
    pub about: &'static str,
}

/// A row of a table.
pub trait ExportRow {
    /// The name of the table.
    const TABLE: &'static str;
    /// What a row is.
    const ABOUT: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [ExportColumn];

    /// Adds the values to the columns, in their order.
    fn put(&self, to: &mut [ColumnBuffer]);

    /// The schema as Parquet writes it.
    fn schema() -> String {
        let mut schema = format!("message {} {{\n", Self::TABLE);
        for ExportColumn { name, kind, is_optional, .. } in Self::COLUMNS {
            let repetition = if *is_optional { "optional" } else { "required" };
            let (before, after) = kind.parquet();
            // A text takes all that is written.
            let _ = writeln!(schema, "  {repetition} {before} {name}{after};");
        }
        schema + "}\n"
    }
}

/// A value of a column.
pub(super) trait ExportCell {
    const KIND: ColumnType;
    const IS_OPTIONAL: bool = false;

    fn put(&self, to: &mut ColumnBuffer);
}

impl ExportCell for u64 {
    const KIND: ColumnType = ColumnType::Integer;

    fn put(&self, to: &mut ColumnBuffer) {
        to.integer(Some(i64::try_from(*self).unwrap_or(i64::MAX)));
    }
}

impl ExportCell for Option<u64> {
    const KIND: ColumnType = ColumnType::Integer;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut ColumnBuffer) {
        to.integer(self.and_then(|number| i64::try_from(number).ok()));
    }
}

/// Nanoseconds since 1970-01-01 00:00:00 UTC.
impl ExportCell for Option<Timestamp> {
    const KIND: ColumnType = ColumnType::Integer;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut ColumnBuffer) {
        to.integer(self.map(|time| time.0));
    }
}

/// A time, rounded down to microseconds: what all engines know as a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Micros(pub(super) Timestamp);

impl ExportCell for Option<Micros> {
    const KIND: ColumnType = ColumnType::Time;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut ColumnBuffer) {
        to.integer(self.map(|time| time.0.0.div_euclid(1000)));
    }
}

impl ExportCell for bool {
    const KIND: ColumnType = ColumnType::Boolean;

    fn put(&self, to: &mut ColumnBuffer) {
        to.boolean(Some(*self));
    }
}

impl ExportCell for Option<bool> {
    const KIND: ColumnType = ColumnType::Boolean;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut ColumnBuffer) {
        to.boolean(*self);
    }
}

impl ExportCell for Cow<'_, str> {
    const KIND: ColumnType = ColumnType::Text;

    fn put(&self, to: &mut ColumnBuffer) {
        to.text(Some(self));
    }
}

impl ExportCell for Option<Cow<'_, str>> {
    const KIND: ColumnType = ColumnType::Text;
    const IS_OPTIONAL: bool = true;

    fn put(&self, to: &mut ColumnBuffer) {
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

        impl<$r> $crate::export::table::ExportRow for $Row<$r> {
            const TABLE: &'static str = $name;
            const ABOUT: &'static str = concat!($($about),+);
            const COLUMNS: &'static [$crate::export::table::ExportColumn] = &[$($crate::export::table::ExportColumn {
                name: stringify!($column),
                kind: <$type as $crate::export::table::ExportCell>::KIND,
                is_optional: <$type as $crate::export::table::ExportCell>::IS_OPTIONAL,
                about: concat!($($column_about),+),
            }),*];

            fn put(&self, to: &mut [$crate::export::parquet_files::ColumnBuffer]) {
                let mut columns = to.iter_mut();
                $(if let Some(column) = columns.next() {
                    $crate::export::table::ExportCell::put(&self.$column, column);
                })*
            }
        }
    };
}
pub(super) use table;
