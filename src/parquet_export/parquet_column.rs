//! A column of a table: its description, and its values until they are written.

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParquetColumnType {
    /// INT64; larger numbers are null, or the maximum in a column that is not null.
    Integer,
    /// BOOLEAN.
    Boolean,
    /// UTF-8.
    Text,
    /// TIMESTAMP WITH TIME ZONE in microseconds, UTC.
    Time,
}

impl ParquetColumnType {
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
    pub(super) const fn parquet(self) -> (&'static str, &'static str) {
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
pub struct ParquetColumn {
    /// Name of the column.
    pub name: &'static str,
    /// Type of its values.
    pub kind: ParquetColumnType,
    /// `true` if values may be null.
    pub is_optional: bool,
    /// Description of the column.
    pub about: &'static str,
}

/// Buffered values of a column. In a nullable column, `levels` has 1 for each value and 0 for each null.
#[derive(Debug)]
pub struct ParquetColumnBuffer {
    values: ColumnValues,
    levels: Option<Vec<i16>>,
}

#[derive(Debug)]
enum ColumnValues {
    Integer(Vec<i64>),
    Boolean(Vec<bool>),
    Text(ConcatenatedTexts),
}

/// Concatenated texts, with the end offset of each.
#[derive(Debug, Default)]
struct ConcatenatedTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ConcatenatedTexts {
    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// Takes the texts, which keep sharing their bytes.
    fn take(&mut self) -> Vec<ByteArray> {
        let bytes = ByteArray::from(std::mem::take(&mut self.bytes));
        let mut start = 0;
        let text = |end| {
            let text = bytes.slice(start, end - start);
            start = end;
            text
        };
        self.ends.drain(..).map(text).collect()
    }
}

impl ParquetColumnBuffer {
    pub(super) fn of(column: &ParquetColumn) -> Self {
        let values = match column.kind {
            ParquetColumnType::Integer | ParquetColumnType::Time => ColumnValues::Integer(Vec::new()),
            ParquetColumnType::Boolean => ColumnValues::Boolean(Vec::new()),
            ParquetColumnType::Text => ColumnValues::Text(ConcatenatedTexts::default()),
        };
        Self { values, levels: column.is_optional.then(Vec::new) }
    }

    /// Returns `true` if values may be null.
    pub(super) fn is_optional(&self) -> bool {
        self.levels.is_some()
    }

    fn level(&mut self, is_there: bool) {
        if let Some(levels) = &mut self.levels {
            levels.push(is_there.into());
        }
    }

    pub(super) fn integer(&mut self, value: Option<i64>) {
        self.level(value.is_some());
        if let ColumnValues::Integer(values) = &mut self.values {
            values.extend(value);
        }
    }

    pub(super) fn boolean(&mut self, value: Option<bool>) {
        self.level(value.is_some());
        if let ColumnValues::Boolean(values) = &mut self.values {
            values.extend(value);
        }
    }

    pub(super) fn text(&mut self, value: Option<&str>) {
        self.level(value.is_some());
        if let (ColumnValues::Text(values), Some(text)) = (&mut self.values, value) {
            values.push(text);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let levels = self.levels.as_ref().map_or(0, Vec::len) * size_of::<i16>();
        levels
            + match &self.values {
                ColumnValues::Integer(values) => values.len() * size_of::<i64>(),
                ColumnValues::Boolean(values) => values.len(),
                ColumnValues::Text(ConcatenatedTexts { bytes, ends }) => bytes.len() + ends.len() * size_of::<usize>(),
            }
    }

    pub(super) fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            ColumnValues::Integer(values) => {
                to.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Boolean(values) => {
                to.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Text(values) => {
                to.typed::<ByteArrayType>().write_batch(&values.take(), levels, None)?;
            }
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}
