//! How a trace lies in a file: a [`TracePreamble`], and then blocks, each of one [`TraceBlockKind`].
//!
//! Steps and data stand in the order in which they were written, so that both sides stream. The tables come last,
//! because they tell what was learnt from all steps; the preamble says where they begin, which is written when all else
//! is: a file without it was not finished.

use nfsrdma_dissectors::field::Field;
use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{List, Opaque, Text};

use super::step::{MOST, MessageSlotKind, PayloadContentState};

/// What a trace begins with.
pub const MAGIC: [u8; 8] = *b"nfstrace";
/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 2;
/// Bytes of a block at most: a step with a message of the largest size that a session allows, and its slots.
pub const LONGEST: u32 = 64 << 20;

xdr! { "trace";
    /// The first 28 bytes of a trace.
    struct TracePreamble {
        /// [`MAGIC`].
        magic: [u8; 8],
        /// [`VERSION`].
        version: u32,
        /// 0.
        reserved: u32,
        /// Where the tables begin, in bytes from the beginning of the file; 0 while the trace is written.
        tables: u64,
        /// CRC-32, as in Ethernet, of the 24 bytes before.
        checksum: u32,
    }

    /// What a block holds.
    enum TraceBlockKind {
        /// Steps, one after the other: [`Step`](super::Step).
        STEPS = 1,
        /// File data.
        DATA = 2,
        /// What files hold before the run: [`Extent`].
        EXTENTS = 3,
        /// The captures, and how the trace was made: [`About`]. The first of the tables.
        ABOUT = 16,
        /// [`Host`].
        HOSTS = 17,
        /// [`Connection`].
        CONNECTIONS = 18,
        /// [`Undefined`].
        UNDEFINED = 19,
        /// [`Object`].
        OBJECTS = 20,
        /// The [`End`].
        END = 32
    }

    /// What stands before a block.
    struct TraceBlockHeader {
        /// What it holds.
        kind: TraceBlockKind,
        /// Its length in bytes, without this header and the fill to a multiple of four.
        length: u32,
        /// CRC-32 of it, as in Ethernet.
        checksum: u32,
    }

    /// What became of file data.
    enum ContentRetention {
        /// It is kept, equal data once.
        KEPT = 0,
        /// Its hash is.
        HASHED = 1,
        /// Its hash is, and a run makes data from a key.
        KEYED = 2
    }

    /// How the trace was made.
    struct TraceProvenance<'a> {
        /// The program that wrote it, with its version.
        program: Text<'a>,
        /// The captures, by the names of their files.
        captures: List<'a, Text<'a>, 1024>,
        /// What became of file data.
        keeping: ContentRetention,
        /// The key that data is made from; 0 where none is.
        key: u64,
    }

    /// A host.
    struct TraceHost<'a> {
        /// Its number among the clients, or among the servers.
        number: u32,
        /// Whether it is a server.
        is_server: bool,
        /// Its address, as JSON Lines write it.
        address: Text<'a>,
    }

    /// What carries a connection.
    enum TraceTransport { ROCEV2 = 0, ROCEV1 = 1, INFINIBAND = 2, IWARP = 3, TCP = 4, UDP = 5 }

    /// A connection of the capture.
    struct TraceConnection {
        /// Its number, as the capture's Transactions have it.
        number: u64,
        /// What carries it.
        transport: TraceTransport,
        /// The client, by its number.
        client: u32,
        /// The server, by its number.
        server: u32,
        /// Steps on it.
        steps: u64,
        /// The longest Send of each direction, in bytes with its RPC-over-RDMA header: what the inline thresholds allowed at
        /// least. 0 without RDMA.
        longest: [u32; 2],
        /// The most credits that a Call asked for, and that a Reply granted.
        credits: [u32; 2],
    }

    /// A variable that is used, though no step before its first use defines it.
    struct TraceUndefinedVariable<'a> {
        /// Its number.
        variable: u32,
        /// What it holds.
        holds: MessageSlotKind,
        /// Its value in the capture.
        value: Opaque<'a>,
        /// The first step that uses it.
        step: u64,
        /// Calls that use it.
        uses: u64,
        /// Of a filehandle, the object that it names, by its number in [`Object`]; of a stateid, the file that it was used
        /// with; else [`NONE`](super::step::NONE).
        object: u32,
        /// Of a stateid: what it was used for, as OPEN4_SHARE_ACCESS bits; 4 for a lock, 8 for a delegation.
        access: u32,
    }

    /// The type of a file system object.
    enum FileType { UNKNOWN = 0, FILE = 1, DIRECTORY = 2, BLOCK = 3, CHARACTER = 4, LINK = 5, SOCKET = 6, FIFO = 7 }

    /// How an object comes to be there.
    enum ObjectExistence {
        /// It is there before the first step: seeding makes it.
        BEFORE = 0,
        /// A step creates it.
        CREATED = 1,
        /// It is where paths begin: the root of NFSv4, or an exported directory of MOUNT. The server has it.
        ROOT = 2
    }

    /// A name of an object.
    struct TraceObjectName<'a> {
        /// The directory, by its number; [`NONE`](super::step::NONE) where it is not known.
        parent: u32,
        /// The name in it; of a root its path on the server.
        name: Opaque<'a>,
        /// The step that gave it this name; 0 for a name from before the first step.
        step: u64,
    }

    /// A file system object that steps use.
    struct TraceFileObject<'a> {
        /// Its number.
        number: u32,
        /// How it comes to be there.
        existence: ObjectExistence,
        /// The step that creates it; 0 where none does.
        step: u64,
        /// Its type.
        file_type: FileType,
        /// Its names before the first step, or the name that it was created with; none where none was seen.
        names: List<'a, TraceObjectName<'a>, MOST>,
        /// Variables of filehandles that name it.
        handles: List<'a, u32, MOST>,
        /// The server, by its number.
        server: u32,
        /// Its size before the first step, as far as steps tell: its attribute, or what was read of it.
        size: u64,
        /// Whether an attribute told the size.
        is_size_known: bool,
        /// Its mode before the first step; [`NONE`](super::step::NONE) where no attribute told it.
        mode: u32,
        /// Its owner and group before the first step, as the server writes them; empty where no attribute told them.
        owner: Opaque<'a>,
        /// See `owner`.
        group: Opaque<'a>,
        /// Of a link, what it says.
        target: Opaque<'a>,
        /// The first step that uses it.
        first: u64,
        /// Steps that use it.
        uses: u64,
    }

    /// What a file holds before the first step, because a step reads it before any writes it.
    struct TraceExtent {
        /// The file, by its number in [`Object`].
        object: u32,
        /// Where in the file it begins.
        offset: u64,
        /// Its length in bytes.
        length: u32,
        /// What is known of the content.
        content: PayloadContentState,
        /// XXH3 with 128 bits of the content.
        hash: [u8; 16],
        /// Where the content begins, in bytes from the beginning of the trace.
        data: u64,
        /// The step that reads it.
        step: u64,
    }

    /// The last block.
    struct End {
        /// Steps.
        steps: u64,
        /// Steps that stand later than their times say, because the memory for putting them in order is bounded.
        late: u64,
        /// Bytes of data.
        data: u64,
        /// Bytes of file data in all messages.
        payload: u64,
        /// Bytes of file data that were not captured.
        unknown: u64,
        /// Variables.
        variables: u64,
        /// Names that were forgotten, because the memory for them is bounded: a later use counts as undefined.
        forgotten: u64,
        /// Objects, names and extents that were left out, because the memory for them is bounded.
        left_out: u64,
        /// When the first Call was seen, in nanoseconds since 1970.
        first: u64,
        /// When the last Call was seen.
        last: u64,
    }
}

/// The field that structures of a file are read under.
pub(super) static FILE: Field = Field::group("trace", "trace", "");

/// Bytes of a preamble.
pub(super) const PREAMBLE: usize = 28;
/// Bytes of a block header.
pub(super) const HEADER: usize = 12;

impl TracePreamble {
    /// The preamble of a trace whose tables begin there.
    pub(super) fn bytes(tables: u64) -> Vec<u8> {
        use nfsrdma_dissectors::xdr::{Encoder, Xdr};
        let mut encoder = Encoder::new();
        Self { magic: MAGIC, version: VERSION, reserved: 0, tables, checksum: 0 }.encode(&mut encoder);
        let (mut bytes, _) = encoder.finish();
        bytes.truncate(PREAMBLE - 4);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }
}
