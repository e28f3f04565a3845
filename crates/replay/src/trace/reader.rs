//! Reads a trace: first its tables, then step by step. No block is used before its checksum is verified, and no memory
//! is allocated for a length before its bytes arrive.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{Cursor, Xdr, roundup};
use rustc_hash::FxHashSet;
use twox_hash::XxHash3_128;

use super::error::TraceError;
use super::file_format::{
    FILE, HEADER, InitialFileExtent, LONGEST, MAGIC, PREAMBLE, ReplayTraceBlockKind, TraceBlockHeader, TraceConnection,
    TraceFileDataRetention, TraceFileSystemObject, TraceFileTotals, TraceHost, TracePreamble, TraceProvenance,
    TraceVariableWithoutDefiningStep, VERSION,
};
use super::generated_file_data;
use super::step::{PayloadContentState, TracePayload, TraceStep};

/// Maximum number of hosts and of connections that are kept; further ones are ignored.
const MAX_TABLE_ENTRIES: usize = 1 << 16;

/// A host of the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedHost {
    /// Number of the host among the clients or among the servers.
    pub number: u32,
    /// `true` if the host is a server.
    pub is_server: bool,
    /// Address of the host.
    pub address: String,
}

/// The contents of the tables that describe the trace as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceMetadata {
    /// File names of the captures.
    pub captures: Vec<String>,
    /// The form in which file data was retained.
    pub keeping: TraceFileDataRetention,
    /// The key from which file data is generated.
    pub key: u64,
    /// The clients and the servers.
    pub hosts: Vec<CapturedHost>,
    /// The connections.
    pub connections: Vec<TraceConnection>,
    /// The totals of the trace.
    pub end: TraceFileTotals,
}

/// A reader of trace files. Its functions return an error if the trace is truncated or damaged, or if content does not
/// match its hash; steps returned before remain valid.
#[derive(Debug)]
pub struct ReplayTraceReader<R> {
    from: R,
    summary: TraceMetadata,
    tables_offset: u64,
    /// Offsets of the next block to read, and of the block that was read last.
    next_block_offset: u64,
    block_offset: u64,
    block: Vec<u8>,
    /// Number of bytes of the block that were consumed as steps.
    consumed_bytes: usize,
    /// Number of steps that were returned.
    steps_read: u64,
    /// Numbers of objects that are left out.
    excluded_objects: Arc<FxHashSet<u32>>,
}

struct TraceBlockHeaderAndEnd {
    header: TraceBlockHeader,
    next: u64,
}

impl<R: Read + Seek> ReplayTraceReader<R> {
    /// Opens a trace and reads the tables that describe it as a whole.
    ///
    /// # Errors
    /// Returns an error if the file is not a trace, has another version, is unfinished, or is damaged.
    pub fn open(mut from: R) -> Result<Self, TraceError> {
        from.seek(SeekFrom::Start(0)).map_err(TraceError::Io)?;
        let mut bytes = [0; PREAMBLE];
        read_exact_at(&mut from, &mut bytes, 0).map_err(|error| match error {
            TraceError::Cut(..) => TraceError::NoTrace,
            error => error,
        })?;
        let preamble = TracePreamble::decode(&mut Cursor::new(&bytes), &FILE, &mut NullFieldObserver);
        let Ok(TracePreamble { magic: MAGIC, version, tables, checksum, .. }) = preamble else {
            return Err(TraceError::NoTrace);
        };
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let [head @ .., _, _, _, _] = &bytes;
        if crc32fast::hash(head) != checksum {
            return Err(TraceError::Damaged(0));
        }
        if tables == 0 {
            return Err(TraceError::Unfinished);
        }
        let summary = TraceMetadata {
            captures: Vec::new(),
            keeping: TraceFileDataRetention::KEPT,
            key: 0,
            hosts: Vec::new(),
            connections: Vec::new(),
            end: TraceFileTotals::ZERO,
        };
        let mut trace = Self {
            from,
            summary,
            tables_offset: tables,
            next_block_offset: PREAMBLE as u64,
            block_offset: 0,
            block: Vec::new(),
            consumed_bytes: 0,
            steps_read: 0,
            excluded_objects: Arc::default(),
        };
        trace.read_summary()?;
        trace.rewind();
        Ok(trace)
    }

    fn read_summary(&mut self) -> Result<(), TraceError> {
        self.next_block_offset = self.tables_offset;
        loop {
            let block_header = self.read_block_header()?;
            let kind = block_header.header.kind;
            match kind {
                ReplayTraceBlockKind::ABOUT
                | ReplayTraceBlockKind::HOSTS
                | ReplayTraceBlockKind::CONNECTIONS
                | ReplayTraceBlockKind::END => self.load(&block_header)?,
                ReplayTraceBlockKind::UNDEFINED | ReplayTraceBlockKind::OBJECTS => {
                    self.next_block_offset = block_header.next
                }
                _ => return Err(TraceError::Damaged(self.next_block_offset)),
            }
            let Self { block, summary, block_offset: at, .. } = self;
            let at = *at;
            match kind {
                ReplayTraceBlockKind::ABOUT => for_each_entry(block, at, |provenance: TraceProvenance<'_>| {
                    let names = provenance.captures.iter().map(|name| lossy(name.0));
                    summary.captures = names.collect();
                    (summary.keeping, summary.key) = (provenance.keeping, provenance.key);
                })?,
                ReplayTraceBlockKind::HOSTS => for_each_entry(block, at, |host: TraceHost<'_>| {
                    if summary.hosts.len() < MAX_TABLE_ENTRIES {
                        let TraceHost { number, is_server, address } = host;
                        summary.hosts.push(CapturedHost { number, is_server, address: lossy(address.0) });
                    }
                })?,
                ReplayTraceBlockKind::CONNECTIONS => for_each_entry(block, at, |connection: TraceConnection| {
                    if summary.connections.len() < MAX_TABLE_ENTRIES {
                        summary.connections.push(connection);
                    }
                })?,
                ReplayTraceBlockKind::END => {
                    return for_each_entry(block, at, |end: TraceFileTotals| summary.end = end);
                }
                _ => {}
            }
        }
    }

    /// Returns the contents of the tables that describe the trace as a whole.
    pub fn summary(&self) -> &TraceMetadata {
        &self.summary
    }

    /// Rewinds to the first step.
    pub fn rewind(&mut self) {
        self.next_block_offset = PREAMBLE as u64;
        self.block.clear();
        self.consumed_bytes = 0;
        self.steps_read = 0;
    }

    /// Returns the next step, or `None` after the last one.
    pub fn next_step(&mut self) -> Result<Option<TraceStep<'_>>, TraceError> {
        Ok(self.next_step_with_bytes()?.map(|(step, _)| step))
    }

    /// Returns the next step with its encoded bytes, which can be decoded again.
    pub fn next_step_with_bytes(&mut self) -> Result<Option<(TraceStep<'_>, &[u8])>, TraceError> {
        while self.consumed_bytes >= self.block.len() {
            if self.next_block_offset >= self.tables_offset {
                let is_whole =
                    self.steps_read == self.summary.end.steps && self.next_block_offset == self.tables_offset;
                return if is_whole { Ok(None) } else { Err(TraceError::Damaged(self.next_block_offset)) };
            }
            let block_header = self.read_block_header()?;
            match block_header.header.kind {
                ReplayTraceBlockKind::STEPS => self.load(&block_header)?,
                ReplayTraceBlockKind::DATA | ReplayTraceBlockKind::EXTENTS => {
                    self.next_block_offset = block_header.next
                }
                _ => return Err(TraceError::Damaged(self.next_block_offset)),
            }
        }
        let start = self.consumed_bytes;
        let (step, length) = step_at(&self.block, self.block_offset, start)?;
        self.consumed_bytes += length;
        self.steps_read += 1;
        Ok(Some((step, self.block.get(start..self.consumed_bytes).unwrap_or_default())))
    }

    /// Calls `visit` for every step, from the first to the last.
    pub fn for_each_step(&mut self, mut visit: impl FnMut(&TraceStep<'_>)) -> Result<(), TraceError> {
        self.rewind();
        while let Some(step) = self.next_step()? {
            visit(&step);
        }
        Ok(())
    }

    /// Calls `visit` for every step, from the last to the first.
    pub fn for_each_step_backward(&mut self, mut visit: impl FnMut(&TraceStep<'_>)) -> Result<(), TraceError> {
        self.rewind();
        let mut blocks = Vec::new();
        while self.next_block_offset < self.tables_offset {
            let block_header = self.read_block_header()?;
            if block_header.header.kind == ReplayTraceBlockKind::STEPS {
                blocks.push(self.next_block_offset);
            }
            self.next_block_offset = block_header.next;
        }
        let mut step_offsets = Vec::new();
        for block in blocks.into_iter().rev() {
            self.next_block_offset = block;
            let block_header = self.read_block_header()?;
            self.load(&block_header)?;
            step_offsets.clear();
            let mut start = 0;
            while start < self.block.len() {
                step_offsets.push(start);
                start += step_at(&self.block, self.block_offset, start)?.1;
            }
            for start in step_offsets.iter().rev() {
                visit(&step_at(&self.block, self.block_offset, *start)?.0);
            }
        }
        self.rewind();
        Ok(())
    }

    /// Calls `visit` for every object.
    pub fn for_each_object(&mut self, mut visit: impl FnMut(&TraceFileSystemObject<'_>)) -> Result<(), TraceError> {
        let excluded = Arc::clone(&self.excluded_objects);
        self.table(ReplayTraceBlockKind::OBJECTS, |block, at| {
            for_each_entry(block, at, |object: TraceFileSystemObject<'_>| {
                if !excluded.contains(&object.number) {
                    visit(&object);
                }
            })
        })
    }

    /// Leaves the objects with these numbers and their initial contents out from now on.
    pub fn exclude_objects(&mut self, objects: Arc<FxHashSet<u32>>) {
        self.excluded_objects = objects;
    }

    /// Calls `visit` for every variable that is used but not defined.
    pub fn for_each_undefined(
        &mut self,
        mut visit: impl FnMut(&TraceVariableWithoutDefiningStep<'_>),
    ) -> Result<(), TraceError> {
        self.table(ReplayTraceBlockKind::UNDEFINED, |block, at| {
            for_each_entry(block, at, |variable: TraceVariableWithoutDefiningStep<'_>| visit(&variable))
        })
    }

    /// Calls `visit` for every extent of the initial file contents. Extents of one file do not overlap.
    pub fn for_each_extent(&mut self, mut visit: impl FnMut(&InitialFileExtent)) -> Result<(), TraceError> {
        self.rewind();
        while self.next_block_offset < self.tables_offset {
            let block_header = self.read_block_header()?;
            match block_header.header.kind {
                ReplayTraceBlockKind::EXTENTS => {
                    self.load(&block_header)?;
                    for_each_entry(&self.block, self.block_offset, |extent: InitialFileExtent| {
                        if !self.excluded_objects.contains(&extent.object) {
                            visit(&extent);
                        }
                    })?;
                }
                ReplayTraceBlockKind::DATA | ReplayTraceBlockKind::STEPS => self.next_block_offset = block_header.next,
                _ => return Err(TraceError::Damaged(self.next_block_offset)),
            }
        }
        self.rewind();
        Ok(())
    }

    fn table(
        &mut self,
        kind: ReplayTraceBlockKind,
        mut visit: impl FnMut(&[u8], u64) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.next_block_offset = self.tables_offset;
        loop {
            let block_header = self.read_block_header()?;
            match block_header.header.kind {
                ReplayTraceBlockKind::END => break,
                found_kind if found_kind == kind => {
                    self.load(&block_header)?;
                    visit(&self.block, self.block_offset)?;
                }
                _ => self.next_block_offset = block_header.next,
            }
        }
        self.rewind();
        Ok(())
    }

    /// Reads the content of a payload to `out`. Returns `false` if the content was not kept. The position of the next
    /// step does not change.
    pub fn content(&mut self, payload: &TracePayload, out: &mut Vec<u8>) -> Result<bool, TraceError> {
        read_content(&mut self.from, payload.content, payload.data, payload.length, &payload.hash, out)
    }

    /// Reads the content of a payload to `out`. If it was not kept, it is generated from the key, or it is zeros.
    /// Returns `true` if it is known.
    pub(crate) fn content_or_generated(
        &mut self,
        payload: &TracePayload,
        out: &mut Vec<u8>,
    ) -> Result<bool, TraceError> {
        let is_keyed = payload.content == PayloadContentState::KEYED;
        let is_known = self.content(payload, out)?;
        if !is_known {
            out.clear();
            out.resize(payload.length as usize, 0);
            if is_keyed {
                generated_file_data::fill(self.summary.key, payload.file, payload.offset, out);
            }
        }
        Ok(is_known || is_keyed)
    }

    /// Reads the content of an extent to `out`. Returns `false` if the content was not kept.
    pub fn extent(&mut self, extent: &InitialFileExtent, out: &mut Vec<u8>) -> Result<bool, TraceError> {
        read_content(&mut self.from, extent.content, extent.data, extent.length, &extent.hash, out)
    }

    fn read_block_header(&mut self) -> Result<TraceBlockHeaderAndEnd, TraceError> {
        let at = self.next_block_offset;
        self.from.seek(SeekFrom::Start(at)).map_err(TraceError::Io)?;
        let mut bytes = [0; HEADER];
        read_exact_at(&mut self.from, &mut bytes, at)?;
        let header = TraceBlockHeader::decode(&mut Cursor::new(&bytes), &FILE, &mut NullFieldObserver);
        let header = header.ok().filter(|header| header.length <= LONGEST);
        let header = header.ok_or(TraceError::Damaged(at))?;
        let length = u64::from(header.length) + roundup(header.length as usize) as u64;
        Ok(TraceBlockHeaderAndEnd { header, next: at + HEADER as u64 + length })
    }

    /// Reads the block of a header.
    fn load(&mut self, block_header: &TraceBlockHeaderAndEnd) -> Result<(), TraceError> {
        let length = u64::from(block_header.header.length);
        (self.block_offset, self.next_block_offset) = (self.next_block_offset, block_header.next);
        (self.consumed_bytes, self.block) = (0, std::mem::take(&mut self.block));
        self.block.clear();
        // Does not allocate `length` bytes in advance, as the length may be wrong.
        let read = (&mut self.from).take(length).read_to_end(&mut self.block).map_err(TraceError::Io)?;
        if read as u64 != length {
            return Err(TraceError::Cut(self.block_offset + (HEADER + read) as u64));
        }
        if crc32fast::hash(&self.block) != block_header.header.checksum {
            return Err(TraceError::Damaged(self.block_offset));
        }
        Ok(())
    }
}

/// Decodes the step `start` bytes after the beginning of a block at file offset `at`. Returns its length as well.
fn step_at(block: &[u8], at: u64, start: usize) -> Result<(TraceStep<'_>, usize), TraceError> {
    let mut cursor = Cursor::new(block.get(start..).unwrap_or_default());
    let step = TraceStep::decode(&mut cursor, &FILE, &mut NullFieldObserver);
    Ok((step.map_err(|error| TraceError::invalid_entry(at, start, error))?, cursor.at()))
}

/// Decodes an encoded step; `None` if it is invalid.
pub(crate) fn decode_step(bytes: &[u8]) -> Option<TraceStep<'_>> {
    TraceStep::decode(&mut Cursor::new(bytes), &FILE, &mut NullFieldObserver).ok()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls `visit` for every entry of a block at file offset `at`.
fn for_each_entry<'b, T: Xdr<'b>>(block: &'b [u8], at: u64, mut visit: impl FnMut(T)) -> Result<(), TraceError> {
    let mut cursor = Cursor::new(block);
    while cursor.remaining() > 0 {
        let entry = T::decode(&mut cursor, &FILE, &mut NullFieldObserver);
        visit(entry.map_err(|error| TraceError::invalid_entry(at, 0, error))?);
    }
    Ok(())
}

fn read_content(
    from: &mut (impl Read + Seek),
    content: PayloadContentState,
    data: u64,
    length: u32,
    hash: &[u8; 16],
    out: &mut Vec<u8>,
) -> Result<bool, TraceError> {
    out.clear();
    if length > LONGEST {
        return Err(TraceError::Damaged(data));
    }
    match content {
        PayloadContentState::ZEROS => {
            out.resize(length as usize, 0);
            Ok(true)
        }
        PayloadContentState::KEPT => {
            from.seek(SeekFrom::Start(data)).map_err(TraceError::Io)?;
            let read = from.take(length.into()).read_to_end(out).map_err(TraceError::Io)?;
            if read != length as usize {
                return Err(TraceError::Cut(data + read as u64));
            }
            let is_right = XxHash3_128::oneshot(out).to_be_bytes() == *hash;
            if is_right { Ok(true) } else { Err(TraceError::Damaged(data)) }
        }
        _ => Ok(false),
    }
}

/// Fills `bytes` from the input; `at` is the file offset for errors.
fn read_exact_at(from: &mut impl Read, bytes: &mut [u8], at: u64) -> Result<(), TraceError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => TraceError::Cut(at),
        _ => TraceError::Io(error),
    })
}

impl TraceError {
    /// Creates the error for an invalid entry `start` bytes after the header of the block at file offset `at`.
    fn invalid_entry(at: u64, start: usize, error: xdr::XdrError) -> Self {
        Self::Line { at: at + (HEADER + start + error.at()) as u64, error }
    }
}
