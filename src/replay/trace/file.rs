//! How a trace lies in a file: a [`Preamble`], and then blocks, each of one [`Kind`].
//!
//! Steps and data come as the capture gave them, so that both sides stream. The last block counts what came before, so
//! that a file that was cut is known as one.

use std::io::{self, Read, Write};

use nfsrdma_dissectors::field::{Field, Unobserved};
use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};
use rustc_hash::FxHashMap;

use super::Step;

/// What a trace begins with.
pub const MAGIC: [u8; 8] = *b"nfstrace";
/// The version that this program writes.
pub const VERSION: u32 = 1;
/// Bytes of a block at most: a step with a message of the largest size that a session allows, and its slots.
pub const LONGEST: u32 = 64 << 20;
/// Bytes of steps that are gathered in one block.
const GATHERED: usize = 256 << 10;
/// Contents whose place is remembered, so that equal data is kept once.
const CONTENTS: usize = 1 << 20;

xdr! { "trace";
    /// The first bytes of a trace.
    struct Preamble {
        /// [`MAGIC`].
        magic: [u8; 8],
        /// [`VERSION`].
        version: u32,
    }

    /// What a block holds.
    enum Kind {
        /// Steps, one after the other: [`Step`].
        STEPS = 1,
        /// Bytes of the data.
        DATA = 2,
        /// The [`End`].
        END = 3
    }

    /// What stands before a block.
    struct BlockHeader {
        /// What it holds.
        kind: Kind,
        /// Its length in bytes, without this header and the fill to a multiple of four.
        length: u32,
        /// CRC-32 of it, as in Ethernet.
        checksum: u32,
    }

    /// The last block.
    struct End {
        /// Steps.
        steps: u64,
        /// Bytes of data.
        data: u64,
    }
}

/// The field that structures of a file are read under.
static FILE: Field = Field::group("trace", "trace", "");

/// Writes a trace.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    encoder: Encoder,
    data: Vec<u8>,
    end: End,
    contents: FxHashMap<u128, u64>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut to: W) -> io::Result<Self> {
        let mut encoder = Encoder::new();
        Preamble { magic: MAGIC, version: VERSION }.encode(&mut encoder);
        to.write_all(encoder.bytes())?;
        Ok(Self {
            to,
            encoder: Encoder::new(),
            data: Vec::new(),
            end: End { steps: 0, data: 0 },
            contents: FxHashMap::default(),
        })
    }

    /// Adds data; equal data, by its hash, has the place of the first. Tells the place.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn data(&mut self, hash: u128, bytes: &[u8]) -> io::Result<u64> {
        if let Some(known) = self.contents.get(&hash) {
            return Ok(*known);
        }
        let at = self.end.data;
        self.end.data += bytes.len() as u64;
        self.data.extend_from_slice(bytes);
        if self.contents.len() < CONTENTS {
            self.contents.insert(hash, at);
        }
        if self.data.len() >= GATHERED {
            let data = std::mem::take(&mut self.data);
            self.block(Kind::DATA, &data)?;
            self.data = data;
            self.data.clear();
        }
        Ok(at)
    }

    /// Adds a step.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn step(&mut self, step: &Step<'_>) -> io::Result<()> {
        step.encode(&mut self.encoder);
        self.end.steps += 1;
        if self.encoder.bytes().len() >= GATHERED { self.steps() } else { Ok(()) }
    }

    fn steps(&mut self) -> io::Result<()> {
        let (bytes, _) = std::mem::take(&mut self.encoder).finish();
        if bytes.is_empty() { Ok(()) } else { self.block(Kind::STEPS, &bytes) }
    }

    fn block(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("a message is too long for a trace"))?;
        let mut header = Encoder::new();
        BlockHeader { kind, length, checksum: crc32fast::hash(bytes) }.encode(&mut header);
        self.to.write_all(header.bytes())?;
        self.to.write_all(bytes)?;
        self.to.write_all([0; 3].get(..xdr::roundup(bytes.len())).unwrap_or_default())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.steps()?;
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            self.block(Kind::DATA, &data)?;
        }
        let mut end = Encoder::new();
        self.end.encode(&mut end);
        self.block(Kind::END, end.bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Why a trace could not be read, and at which byte of the file.
#[derive(Debug)]
pub enum TraceError {
    /// It is none.
    NoTrace,
    /// It is of a version that this program does not read.
    Version {
        /// Which one.
        version: u32,
    },
    /// It ends before its last block.
    Cut {
        /// Where.
        at: u64,
    },
    /// A block is longer than any is, or its checksum is wrong, or nothing is known of its kind.
    Damaged {
        /// Where it begins.
        at: u64,
    },
    /// A step could not be read.
    Step {
        /// Where its block begins.
        at: u64,
        /// Why.
        error: xdr::Error,
    },
    /// The file could not be read.
    Io(io::Error),
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTrace => f.write_str("this is no trace; make one with `replay compile`"),
            Self::Version { version } => {
                write!(f, "a trace of version {version}, and this program reads {VERSION}; compile it again")
            }
            Self::Cut { at } => write!(f, "byte {at}: the trace is cut here; compile it again"),
            Self::Damaged { at } => write!(f, "byte {at}: the trace is damaged; compile it again"),
            Self::Step { at, error } => write!(f, "byte {at}: the trace is damaged: {error}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Step { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A block as it is read.
#[derive(Clone, Copy, Debug)]
pub enum Block<'b> {
    /// A step.
    Step(&'b Step<'b>),
    /// Data, and where it begins in the data of the trace.
    Data(u64, &'b [u8]),
}

/// Reads a trace from its beginning to its end, block by block.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    at: u64,
    block: Vec<u8>,
    end: End,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Where it is no trace, or of another version.
    pub fn new(mut from: R) -> Result<Self, TraceError> {
        let mut bytes = [0; 12];
        fill(&mut from, &mut bytes, 0).map_err(|error| match error {
            TraceError::Cut { .. } => TraceError::NoTrace,
            error => error,
        })?;
        let preamble = Preamble::decode(&mut Cursor::new(&bytes), &FILE, &mut Unobserved);
        match preamble {
            Ok(Preamble { magic: MAGIC, version: VERSION }) => {}
            Ok(Preamble { magic: MAGIC, version }) => return Err(TraceError::Version { version }),
            _ => return Err(TraceError::NoTrace),
        }
        Ok(Self { from, at: 12, block: Vec::new(), end: End { steps: 0, data: 0 } })
    }

    /// Tells `take` everything in the trace, in its order.
    ///
    /// # Errors
    /// Where the trace is cut or damaged; what was told before stands.
    pub fn read(&mut self, mut take: impl FnMut(Block<'_>)) -> Result<(), TraceError> {
        while self.next(&mut take)? {}
        Ok(())
    }

    fn next(&mut self, take: &mut impl FnMut(Block<'_>)) -> Result<bool, TraceError> {
        let start = self.at;
        let damaged = TraceError::Damaged { at: start };
        let mut header = [0; 12];
        fill(&mut self.from, &mut header, start)?;
        let header = BlockHeader::decode(&mut Cursor::new(&header), &FILE, &mut Unobserved);
        let Ok(header) = header else { return Err(damaged) };
        if header.length > LONGEST {
            return Err(damaged);
        }
        let length = header.length as usize;
        self.block.clear();
        let padded = (length + xdr::roundup(length)) as u64;
        // A length is believed as far as bytes come.
        let read = (&mut self.from).take(padded).read_to_end(&mut self.block).map_err(TraceError::Io)?;
        self.at += 12 + read as u64;
        let Some(bytes) = self.block.get(..length).filter(|_| read as u64 == padded) else {
            return Err(TraceError::Cut { at: self.at });
        };
        if crc32fast::hash(bytes) != header.checksum {
            return Err(damaged);
        }
        match header.kind {
            Kind::STEPS => {
                let mut cursor = Cursor::new(bytes);
                while cursor.remaining() > 0 {
                    let step = Step::decode(&mut cursor, &FILE, &mut Unobserved)
                        .map_err(|error| TraceError::Step { at: start, error })?;
                    self.end.steps += 1;
                    take(Block::Step(&step));
                }
            }
            Kind::DATA => {
                take(Block::Data(self.end.data, bytes));
                self.end.data += bytes.len() as u64;
            }
            Kind::END => {
                let end = End::decode(&mut Cursor::new(bytes), &FILE, &mut Unobserved);
                return if end.as_ref() == Ok(&self.end) { Ok(false) } else { Err(damaged) };
            }
            _ => return Err(damaged),
        }
        Ok(true)
    }
}

/// Reads all of `bytes`, which stand at byte `at` of the file.
fn fill(from: &mut impl Read, bytes: &mut [u8], at: u64) -> Result<(), TraceError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => TraceError::Cut { at },
        _ => TraceError::Io(error),
    })
}
