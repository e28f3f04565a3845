//! The files of a table: `part-0.parquet`, `part-1.parquet` and so on, each of which is complete or absent.
//!
//! Rows are buffered by column until they fill a row group or the memory of the table. A part is written under a
//! temporary name, which engines ignore, and renamed when it is closed. The number of its row groups is limited,
//! because their metadata stays in memory until then.

use std::fs::{self, DirBuilder};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nfsrdma_output_file::{OutputFile, ProtectedInputFiles, UnpublishedOutputFile, remove_abandoned, remove_old};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::parquet_column::ParquetColumnBuffer;
use super::table_schema::ParquetRow;

/// Maximum number of rows in a row group.
const MAX_GROUP_ROWS: usize = 64 << 10;
/// Maximum number of row groups in a part.
const ROW_GROUPS: usize = 256;
/// Approximate memory of the metadata of a column of a row group, in bytes.
const CHUNK_BYTES: usize = 1 << 10;

/// Converts an error, to the system's own error if there is one.
fn into_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

/// A table of one capture.
pub(super) struct ParquetTableWriter<R> {
    folder: PathBuf,
    columns: Vec<ParquetColumnBuffer>,
    rows: usize,
    /// Memory limit of buffered rows, in bytes.
    room_bytes: usize,
    /// Maximum number of row groups in a part.
    most_row_groups: usize,
    /// The part that is being written.
    open: Option<SerializedFileWriter<OutputFile>>,
    row_groups: usize,
    /// Complete parts without their final names.
    closed_parts: Vec<UnpublishedOutputFile>,
    inputs: ProtectedInputFiles,
    row: PhantomData<R>,
    /// Dropped last: the files in them are removed before.
    _new_folders: CreatedOutputFolders,
}

/// Folders that were created, the deepest first. Those that are empty are removed when it is dropped.
pub(super) struct CreatedOutputFolders(Vec<PathBuf>);

impl CreatedOutputFolders {
    /// Creates a folder, and those above it, for their owner only, like the files in them.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let new_folders = folder.ancestors().take_while(|at| !at.exists()).map(Path::to_owned).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self(new_folders))
    }
}

impl Drop for CreatedOutputFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            // One with files stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

impl<R: ParquetRow> ParquetTableWriter<R> {
    /// Creates the folder of a table of a capture; `partition` is `capture=NAME`. The table uses up to `memory_bytes`.
    pub(super) fn create(
        directory: &Path,
        partition: &str,
        inputs: &ProtectedInputFiles,
        memory_bytes: usize,
    ) -> io::Result<Self> {
        let folder = directory.join(R::TABLE).join(partition);
        let new_folders = CreatedOutputFolders::create(&folder)?;
        remove_abandoned(&folder);
        let columns = R::COLUMNS.iter().map(ParquetColumnBuffer::of).collect();
        // A quarter is for buffered rows: vectors double when they grow, and a column is encoded in addition. An eighth
        // is for metadata.
        let row_groups = memory_bytes / 8 / (R::COLUMNS.len() * CHUNK_BYTES);
        Ok(Self {
            folder,
            columns,
            rows: 0,
            room_bytes: memory_bytes / 4,
            most_row_groups: row_groups.clamp(1, ROW_GROUPS),
            open: None,
            row_groups: 0,
            closed_parts: Vec::new(),
            inputs: inputs.clone(),
            row: PhantomData,
            _new_folders: new_folders,
        })
    }

    /// Returns the name of the part that each export has.
    pub(super) fn first_part(&self) -> PathBuf {
        self.name(0)
    }

    fn name(&self, number: usize) -> PathBuf {
        self.folder.join(format!("part-{number}.parquet"))
    }

    pub(super) fn add(&mut self, row: &impl ParquetRow) -> io::Result<()> {
        row.put(&mut self.columns);
        self.rows += 1;
        if self.rows >= MAX_GROUP_ROWS || self.memory_bytes() > self.room_bytes {
            self.write_row_group()
        } else {
            Ok(())
        }
    }

    fn memory_bytes(&self) -> usize {
        self.columns.iter().map(ParquetColumnBuffer::memory_bytes).sum()
    }

    fn write_row_group(&mut self) -> io::Result<()> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        if self.rows > 0 {
            let mut group = file.next_row_group().map_err(into_io_error)?;
            for column in &mut self.columns {
                let Some(mut to) = group.next_column().map_err(into_io_error)? else { break };
                column.write(&mut to).map_err(into_io_error)?;
                to.close().map_err(into_io_error)?;
            }
            group.close().map_err(into_io_error)?;
            self.rows = 0;
            self.row_groups += 1;
        }
        self.open = Some(file);
        if self.row_groups >= self.most_row_groups { self.end_part() } else { Ok(()) }
    }

    fn begin(&self) -> io::Result<SerializedFileWriter<OutputFile>> {
        let schema = parse_message_type(&R::schema()).map_err(into_io_error)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        // Engines ignore the temporary name: it begins with a dot and does not end in `.parquet`.
        let file = OutputFile::create(&self.name(self.closed_parts.len()), &self.inputs)?;
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(into_io_error)
    }

    fn end_part(&mut self) -> io::Result<()> {
        if let Some(file) = self.open.take() {
            self.closed_parts.push(file.into_inner().map_err(into_io_error)?.close()?);
            self.row_groups = 0;
        }
        Ok(())
    }

    /// Writes the buffered rows. A table without rows has a part, too, with its schema.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.rows > 0 || self.open.is_some() || self.closed_parts.is_empty() {
            self.write_row_group()?;
            self.end_part()?;
        }
        Ok(())
    }

    /// Renames the parts, in place of those of an earlier export.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        let mut stale_part = self.closed_parts.len();
        for part in self.closed_parts.drain(..) {
            part.publish()?;
        }
        while fs::exists(self.name(stale_part))? {
            remove_old(&self.name(stale_part), &self.inputs)?;
            stale_part += 1;
        }
        Ok(())
    }
}
