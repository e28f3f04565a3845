//! Descriptions of tables: columns with name, type and description, and the values of rows.
//!
//! [`table!`] defines a structure with a field for each column. The schema of the Parquet file, the values of a row and
//! `docs/tables.md` all come from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use nfsrdma_dissectors::frame::Timestamp;

use super::parquet_files::ColumnBuffer;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// INT64; larger numbers are null, or the maximum in a column that is not null.
    Integer,
    /// BOOLEAN.
    Boolean,
    /// UTF-8.
    Text,
    /// TIMESTAMP WITH TIME ZONE in microseconds, UTC.
    Time,
}

impl ColumnType {
    /// Returns the SQL type.
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Integer => "BIGINT",
            Self::Boolean => "BOOLEAN",
            Self::Text => "VARCHAR",
            Self::Time => "TIMESTAMP WITH TIME ZONE",
        }
    }

    /// Returns the words of a Parquet schema before and after the name of the column.
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
    /// Name of the column.
    pub name: &'static str,
    /// Type of its values.
    pub kind: ColumnType,
    /// `true` if values may be null.
    pub is_optional: bool,
    /// Description of the column.
    pub about: &'static str,
}

/// A row of a table.
pub trait ExportRow {
    /// Name of the table.
    const TABLE: &'static str;
    /// Description of a row.
    const ABOUT: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [ExportColumn];

    /// Adds the values to the columns, in their order.
    fn put(&self, to: &mut [ColumnBuffer]);

    /// Returns the schema in Parquet syntax.
    fn schema() -> String {
        let mut schema = format!("message {} {{\n", Self::TABLE);
        for ExportColumn { name, kind, is_optional, .. } in Self::COLUMNS {
            let repetition = if *is_optional { "optional" } else { "required" };
            let (before, after) = kind.parquet();
            // Writing to a string cannot fail.
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

/// A time rounded down to microseconds, the resolution that all engines support.
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

/// Defines a table.
macro_rules! table {
    ($(#[doc = $about:literal])+ $Row:ident<$r:lifetime> $name:literal { $($(#[doc = $column_about:literal])+ $column:ident: $type:ty,)* }) => {
        $(#[doc = $about])+
        pub(super) struct $Row<$r> {
            $($(#[doc = $column_about])+ pub(super) $column: $type,)*
            /// Rows borrow from their Transaction.
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
