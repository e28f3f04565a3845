//! Writes a trace, in memory that does not grow with it.
//!
//! transactions arrive in the order of their ends, but a run needs them in the order of their beginnings. A buffer of
//! limited size reorders encoded steps. Steps that arrive too late are stored out of order and counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Seek, SeekFrom, Write};

use nfsrdma_analysis::second_chance_map::SecondChanceMap;
use nfsrdma_dissectors::xdr::{Encoder, Xdr, roundup};

use super::file_format::{
    HEADER, InitialFileExtent, LONGEST, ReplayTraceBlockKind, TraceBlockHeader, TraceFileTotals, TracePreamble,
    TraceProvenance,
};
use super::step::TraceStep;

/// Number of bytes after which a block is written.
const BLOCK_BYTES: usize = 256 << 10;
/// Memory of a step in the reorder buffer without its bytes, with an allocation and a heap that has room for twice as
/// many.
const PENDING_STEP_BYTES: usize = 2 * size_of::<TraceStepReorderEntry>() + 16;

/// A step in the reorder buffer: time, ID and encoded bytes.
type TraceStepReorderEntry = Reverse<(u64, u64, Box<[u8]>)>;

/// Writes a trace. Its functions return an error if the output cannot be written.
#[derive(Debug)]
pub struct ReplayTraceWriter<W> {
    output: W,
    offset: u64,
    steps: Vec<u8>,
    data: Vec<u8>,
    extents: Vec<u8>,
    pending_steps: BinaryHeap<TraceStepReorderEntry>,
    pending_bytes: usize,
    max_pending_bytes: usize,
    /// Time of the last step that was written, in nanoseconds since 1970.
    last_written_time_ns: u64,
    /// The totals of the last block. The compiler completes them.
    pub(crate) end: TraceFileTotals,
    /// Offset of data by its hash, to store equal data once.
    contents: SecondChanceMap<u128, u64>,
}

impl<W: Write + Seek> ReplayTraceWriter<W> {
    /// Begins a trace. `to` must be at its beginning. Steps that wait to be sorted use at most `max_pending_bytes`
    /// bytes, and the offsets of data `content_bytes`.
    pub fn new(mut to: W, max_pending_bytes: usize, content_bytes: usize) -> io::Result<Self> {
        let preamble = TracePreamble::bytes(0);
        to.write_all(&preamble)?;
        Ok(Self {
            output: to,
            offset: preamble.len() as u64,
            steps: Vec::new(),
            data: Vec::new(),
            extents: Vec::new(),
            pending_steps: BinaryHeap::new(),
            pending_bytes: 0,
            max_pending_bytes,
            last_written_time_ns: 0,
            end: TraceFileTotals { first_call_ns: u64::MAX, ..TraceFileTotals::ZERO },
            contents: SecondChanceMap::for_memory(content_bytes),
        })
    }

    /// Adds data and returns its offset. Data with a known hash is not stored again.
    pub fn add_data(&mut self, hash: u128, bytes: &[u8]) -> io::Result<u64> {
        if let Some(offset) = self.contents.get(hash) {
            return Ok(*offset);
        }
        // The offset is final, because no other block is written before this one.
        let at = self.offset + (HEADER + self.data.len()) as u64;
        self.end.data_bytes += bytes.len() as u64;
        self.data.extend_from_slice(bytes);
        self.contents.insert(hash, at);
        if self.data.len() >= BLOCK_BYTES {
            self.flush(ReplayTraceBlockKind::DATA)?;
        }
        Ok(at)
    }

    /// Adds a step.
    pub fn step(&mut self, step: &TraceStep<'_>) -> io::Result<()> {
        let mut encoder = Encoder::new();
        step.encode(&mut encoder);
        let (bytes, _) = encoder.finish();
        self.end.steps += 1;
        self.end.first_call_ns = self.end.first_call_ns.min(step.origin.time_ns);
        self.end.last_call_ns = self.end.last_call_ns.max(step.origin.time_ns);
        self.end.late += u64::from(step.origin.time_ns < self.last_written_time_ns);
        self.pending_bytes += bytes.len() + PENDING_STEP_BYTES;
        self.pending_steps.push(Reverse((step.origin.time_ns, step.origin.id, bytes.into_boxed_slice())));
        while self.pending_bytes > self.max_pending_bytes {
            self.write_next_step()?;
        }
        Ok(())
    }

    fn write_next_step(&mut self) -> io::Result<bool> {
        let Some(Reverse((time, _, bytes))) = self.pending_steps.pop() else { return Ok(false) };
        self.pending_bytes -= bytes.len() + PENDING_STEP_BYTES;
        self.last_written_time_ns = self.last_written_time_ns.max(time);
        self.steps.extend_from_slice(&bytes);
        if self.steps.len() >= BLOCK_BYTES {
            self.flush(ReplayTraceBlockKind::STEPS)?;
        }
        Ok(true)
    }

    /// Adds an extent of the initial contents of a file.
    pub fn extent(&mut self, extent: &InitialFileExtent) -> io::Result<()> {
        let mut encoder = Encoder::new();
        extent.encode(&mut encoder);
        self.extents.extend_from_slice(encoder.bytes());
        if self.extents.len() >= BLOCK_BYTES { self.flush(ReplayTraceBlockKind::EXTENTS) } else { Ok(()) }
    }

    /// Returns the entries that wait to be written in a block.
    fn pending_entries(&mut self, kind: ReplayTraceBlockKind) -> &mut Vec<u8> {
        match kind {
            ReplayTraceBlockKind::STEPS => &mut self.steps,
            ReplayTraceBlockKind::EXTENTS => &mut self.extents,
            _ => &mut self.data,
        }
    }

    /// Writes a block of the pending entries, after the pending data.
    fn flush(&mut self, kind: ReplayTraceBlockKind) -> io::Result<()> {
        let mut entries = std::mem::take(self.pending_entries(kind));
        if !entries.is_empty() {
            if kind != ReplayTraceBlockKind::DATA {
                self.flush(ReplayTraceBlockKind::DATA)?;
            }
            self.write_block(kind, &entries)?;
        }
        entries.clear();
        *self.pending_entries(kind) = entries;
        Ok(())
    }

    fn write_block(&mut self, kind: ReplayTraceBlockKind, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("a message is too long for a trace"))?;
        let mut header = Encoder::new();
        TraceBlockHeader { kind, length, checksum: crc32fast::hash(bytes) }.encode(&mut header);
        let fill = roundup(bytes.len());
        self.output.write_all(header.bytes())?;
        self.output.write_all(bytes)?;
        self.output.write_all([0; 3].get(..fill).unwrap_or_default())?;
        self.offset += (HEADER + bytes.len() + fill) as u64;
        Ok(())
    }

    /// Finishes the steps and begins the tables.
    pub fn begin_tables(mut self, provenance: &TraceProvenance<'_>) -> io::Result<ReplayTraceTableWriter<W>> {
        while self.write_next_step()? {}
        for kind in [ReplayTraceBlockKind::STEPS, ReplayTraceBlockKind::EXTENTS, ReplayTraceBlockKind::DATA] {
            self.flush(kind)?;
        }
        let tables = self.offset;
        let mut encoder = Encoder::new();
        provenance.encode(&mut encoder);
        self.write_block(ReplayTraceBlockKind::ABOUT, encoder.bytes())?;
        Ok(ReplayTraceTableWriter {
            writer: self,
            tables_offset: tables,
            kind: ReplayTraceBlockKind::ABOUT,
            encoder: Encoder::new(),
        })
    }
}

/// Writes the tables of a trace, one kind after the other. Its functions return an error if the output cannot be
/// written.
#[derive(Debug)]
pub struct ReplayTraceTableWriter<W> {
    pub(crate) writer: ReplayTraceWriter<W>,
    tables_offset: u64,
    kind: ReplayTraceBlockKind,
    encoder: Encoder,
}

impl<W: Write + Seek> ReplayTraceTableWriter<W> {
    /// Adds an entry to the table of its kind.
    pub fn add<'a>(&mut self, kind: ReplayTraceBlockKind, entry: &impl Xdr<'a>) -> io::Result<()> {
        if kind != self.kind {
            self.flush()?;
            self.kind = kind;
        }
        entry.encode(&mut self.encoder);
        if self.encoder.bytes().len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let (bytes, _) = std::mem::take(&mut self.encoder).finish();
        if bytes.is_empty() { Ok(()) } else { self.writer.write_block(self.kind, &bytes) }
    }

    /// Finishes the trace. Returns the output and the totals.
    pub fn finish(mut self) -> io::Result<(W, TraceFileTotals)> {
        self.flush()?;
        let mut writer = self.writer;
        if writer.end.steps == 0 {
            writer.end.first_call_ns = 0;
        }
        let mut end = Encoder::new();
        writer.end.encode(&mut end);
        writer.write_block(ReplayTraceBlockKind::END, end.bytes())?;
        writer.output.seek(SeekFrom::Start(0))?;
        writer.output.write_all(&TracePreamble::bytes(self.tables_offset))?;
        writer.output.flush()?;
        Ok((writer.output, writer.end))
    }
}
