//! Descriptions of tables: their columns, and the values of rows.
//!
//! [`table!`] defines a structure with a field for each column. The schema of the Parquet file, the values of a row and
//! `docs/tables.md` all come from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use nfsrdma_dissectors::captured_frame::Timestamp;

use super::parquet_column::{ParquetColumn, ParquetColumnBuffer, ParquetColumnType};

/// A row of a table.
pub trait ParquetRow {
    /// Name of the table.
    const TABLE: &'static str;
    /// Description of a row.
    const ABOUT: &'static str;
    /// The columns, in order.
    const COLUMNS: &'static [ParquetColumn];

    /// Adds the values to the columns, in their order.
    fn put(&self, to: &mut [ParquetColumnBuffer]);

    /// Returns the schema in Parquet syntax.
    fn schema() -> String {
        let mut schema = format!("message {} {{\n", Self::TABLE);
        for ParquetColumn { name, kind, is_optional, .. } in Self::COLUMNS {
            let repetition = if *is_optional { "optional" } else { "required" };
            let (physical_type, annotation) = kind.parquet();
            // Writing to a string cannot fail.
            let _ = writeln!(schema, "  {repetition} {physical_type} {name}{annotation};");
        }
        schema + "}\n"
    }
}

/// A value of a column.
pub(super) trait ParquetCell {
    const KIND: ParquetColumnType;
    const IS_OPTIONAL: bool = false;

    /// Adds a value, or null.
    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer);
}

impl<T: ParquetCell> ParquetCell for Option<T> {
    const KIND: ParquetColumnType = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        T::put(value.and_then(Self::as_ref), to);
    }
}

impl ParquetCell for u64 {
    const KIND: ParquetColumnType = ParquetColumnType::Integer;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        let number = value.and_then(|number| i64::try_from(*number).ok());
        to.integer(if to.is_optional() { number } else { number.or(Some(i64::MAX)) });
    }
}

/// Nanoseconds since 1970-01-01 00:00:00 UTC.
impl ParquetCell for Timestamp {
    const KIND: ParquetColumnType = ParquetColumnType::Integer;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        to.integer(value.map(|time| time.0));
    }
}

/// A time rounded down to microseconds, the resolution that all engines support.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampMicros(pub(super) Timestamp);

impl ParquetCell for TimestampMicros {
    const KIND: ParquetColumnType = ParquetColumnType::Time;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        to.integer(value.map(|time| time.0.0.div_euclid(1000)));
    }
}

impl ParquetCell for bool {
    const KIND: ParquetColumnType = ParquetColumnType::Boolean;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        to.boolean(value.copied());
    }
}

impl ParquetCell for Cow<'_, str> {
    const KIND: ParquetColumnType = ParquetColumnType::Text;

    fn put(value: Option<&Self>, to: &mut ParquetColumnBuffer) {
        to.text(value.map(|text| &**text));
    }
}

/// Defines a table.
macro_rules! table {
    ($(#[doc = $about:literal])+ $Row:ident<$r:lifetime> $name:literal { $($(#[doc = $column_about:literal])+ $column:ident: $type:ty,)* }) => {
        $(#[doc = $about])+
        pub(super) struct $Row<$r> {
            $($(#[doc = $column_about])+ pub(super) $column: $type,)*
            /// Rows borrow from their transaction.
            pub(super) of: std::marker::PhantomData<&$r ()>,
        }

        impl<$r> $crate::parquet_export::table_schema::ParquetRow for $Row<$r> {
            const TABLE: &'static str = $name;
            const ABOUT: &'static str = concat!($($about),+);
            const COLUMNS: &'static [$crate::parquet_export::parquet_column::ParquetColumn] =
                &[$($crate::parquet_export::parquet_column::ParquetColumn {
                    name: stringify!($column),
                    kind: <$type as $crate::parquet_export::table_schema::ParquetCell>::KIND,
                    is_optional: <$type as $crate::parquet_export::table_schema::ParquetCell>::IS_OPTIONAL,
                    about: concat!($($column_about),+),
                }),*];

            fn put(&self, to: &mut [$crate::parquet_export::parquet_column::ParquetColumnBuffer]) {
                let mut columns = to.iter_mut();
                $(if let Some(column) = columns.next() {
                    $crate::parquet_export::table_schema::ParquetCell::put(Some(&self.$column), column);
                })*
            }
        }
    };
}
pub(super) use table;
