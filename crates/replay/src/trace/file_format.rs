//! File layout of a trace: a [`TracePreamble`], followed by blocks, each of one [`ReplayTraceBlockKind`].
//!
//! Steps and data are in the order in which they were written, so that both sides can stream. The tables come last
//! because they depend on all steps. The preamble holds their offset, which is written at the very end: a file without
//! it was not finished.

use nfsrdma_dissectors::field::FieldDefinition;
use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{Opaque, Text, XdrArray};

use super::step::{MAX_LIST_LENGTH, NONE, PayloadContentState, TraceSlotValueKind};

/// The magic number at the start of a trace.
pub const MAGIC: [u8; 8] = *b"nfstrace";
/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 2;
/// Maximum number of bytes of a block. Fits a step with the largest message that a session allows, and its slots.
pub const LONGEST: u32 = 64 << 20;

xdr! { "trace";
    /// The first 28 bytes of a trace.
    struct TracePreamble {
        /// [`MAGIC`].
        magic: [u8; 8],
        /// [`VERSION`].
        version: u32,
        /// Zero.
        reserved: u32,
        /// File offset of the tables in bytes; 0 while the trace is being written.
        tables: u64,
        /// CRC-32, as in Ethernet, of the preceding 24 bytes.
        checksum: u32,
    }

    /// The contents of a block.
    enum ReplayTraceBlockKind {
        /// Consecutive [`TraceStep`](super::TraceStep)s.
        STEPS = 1,
        /// File data.
        DATA = 2,
        /// Initial file contents: [`InitialFileExtent`].
        EXTENTS = 3,
        /// The captures, and how the trace was made: [`TraceProvenance`]. The first of the tables.
        ABOUT = 16,
        /// [`TraceHost`].
        HOSTS = 17,
        /// [`TraceConnection`].
        CONNECTIONS = 18,
        /// [`TraceVariableWithoutDefiningStep`].
        UNDEFINED = 19,
        /// [`TraceFileSystemObject`].
        OBJECTS = 20,
        /// The [`TraceFileTotals`].
        END = 32
    }

    /// The header of a block.
    struct TraceBlockHeader {
        /// The contents of the block.
        kind: ReplayTraceBlockKind,
        /// Length of the block in bytes, without this header and the padding to a multiple of four.
        length: u32,
        /// CRC-32 of the block, as in Ethernet.
        checksum: u32,
    }

    /// The form in which file data is retained.
    enum TraceFileDataRetention {
        /// The data is kept; equal data only once.
        KEPT = 0,
        /// The hash is kept.
        HASHED = 1,
        /// The hash is kept, and a run generates data from a key.
        KEYED = 2
    }

    /// The origin of the trace.
    struct TraceProvenance<'a> {
        /// Name and version of the program that wrote the trace.
        program: Text<'a>,
        /// File names of the captures.
        captures: XdrArray<'a, Text<'a>, 1024>,
        /// The form in which file data is retained.
        keeping: TraceFileDataRetention,
        /// The key from which data is generated; 0 if none is.
        key: u64,
    }

    /// A host.
    struct TraceHost<'a> {
        /// Number of the host among the clients or among the servers.
        number: u32,
        /// `true` if the host is a server.
        is_server: bool,
        /// Address of the host, in the form used in JSON Lines.
        address: Text<'a>,
    }

    /// The transport of a connection.
    enum TraceTransport { ROCEV2 = 0, ROCEV1 = 1, INFINIBAND = 2, IWARP = 3, TCP = 4, UDP = 5 }

    /// A connection of the capture.
    struct TraceConnection {
        /// Number of the connection, as in the transactions of the capture.
        number: u64,
        /// The transport.
        transport: TraceTransport,
        /// Number of the client.
        client: u32,
        /// Number of the server.
        server: u32,
        /// Number of steps on the connection.
        steps: u64,
        /// Length of the longest Send in each direction, in bytes with its RPC-over-RDMA header: a lower bound of the
        /// inline thresholds. 0 without RDMA.
        longest: [u32; 2],
        /// Maximum number of credits requested by a call, and granted by a reply.
        credits: [u32; 2],
    }

    /// A variable that no step defines before its first use.
    struct TraceVariableWithoutDefiningStep<'a> {
        /// Number of the variable.
        variable: u32,
        /// The kind of value.
        value_kind: TraceSlotValueKind,
        /// Value in the capture.
        value: Opaque<'a>,
        /// Step of the first use.
        step: u64,
        /// Number of calls that use the variable.
        uses: u64,
        /// For a filehandle, the number of its object ([`TraceFileSystemObject`]); for a stateid, that of the file that
        /// it was used with; otherwise [`NONE`](super::step::NONE).
        object: u32,
        /// For a stateid, its [uses](super::step::stateid_use): OPEN4_SHARE_ACCESS bits; 4 for a lock, 8 for a
        /// delegation.
        access: u32,
    }

    /// The type of a file system object.
    enum TraceFileType { UNKNOWN = 0, FILE = 1, DIRECTORY = 2, BLOCK = 3, CHARACTER = 4, LINK = 5, SOCKET = 6, FIFO = 7 }

    /// The way in which an object comes into existence.
    enum TraceObjectOrigin {
        /// The object exists before the first step: seeding creates it.
        BEFORE = 0,
        /// A step creates the object.
        CREATED = 1,
        /// The object is a root of paths: the root of NFSv4, or a directory exported by MOUNT. It exists on the server.
        ROOT = 2
    }

    /// A name of an object.
    struct TraceFileSystemObjectName<'a> {
        /// Number of the directory; [`NONE`](super::step::NONE) if it is unknown, as is then the name on the captured
        /// server.
        parent: u32,
        /// Name in the directory; for a root its path on the server. If the directory is unknown, an empty name stands
        /// for those beyond a limit, which are not made.
        name: Opaque<'a>,
        /// Step that gave the object this name; 0 for a name from before the first step.
        step: u64,
    }

    /// A file system object that steps use.
    struct TraceFileSystemObject<'a> {
        /// Number of the object.
        number: u32,
        /// The way in which the object comes into existence.
        existence: TraceObjectOrigin,
        /// Step that creates the object; 0 if none does.
        step: u64,
        /// Type of the object.
        file_type: TraceFileType,
        /// Names before the first step, or the name that the object was created with; empty if no name was seen.
        names: XdrArray<'a, TraceFileSystemObjectName<'a>, MAX_LIST_LENGTH>,
        /// Variables of the filehandles of the object.
        handles: XdrArray<'a, u32, MAX_LIST_LENGTH>,
        /// Number of the server.
        server: u32,
        /// Size before the first step in bytes; unless `is_size_known`, the end of the last range read.
        size: u64,
        /// `true` if the size is from an attribute or an end of file.
        is_size_known: bool,
        /// Mode before the first step; [`NONE`](super::step::NONE) if no attribute has it.
        mode: u32,
        /// Owner before the first step, as the server writes it; a number of NFSv3 in decimal. If no attribute has it,
        /// the uid of AUTH_SYS that first changed the object; empty if that is 0 or unknown.
        owner: Opaque<'a>,
        /// Group, likewise.
        group: Opaque<'a>,
        /// Text of a symbolic link.
        target: Opaque<'a>,
        /// Step of the first use.
        first: u64,
        /// Number of steps that use the object.
        uses: u64,
    }

    /// Initial contents of a part of a file, which a step reads before any step writes it.
    struct InitialFileExtent {
        /// Number of the file ([`TraceFileSystemObject`]).
        object: u32,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// The state of the content.
        content: PayloadContentState,
        /// 128-bit XXH3 hash of the content.
        hash: [u8; 16],
        /// Offset of the content from the beginning of the trace, in bytes.
        data: u64,
        /// Step that reads the extent.
        step: u64,
    }

    /// The last block: the totals.
    struct TraceFileTotals {
        /// Number of steps.
        steps: u64,
        /// Number of steps that are stored after steps with a later time, because the reorder memory is limited.
        late: u64,
        /// Number of bytes of stored data.
        data_bytes: u64,
        /// Number of bytes of file data in all messages.
        payload_bytes: u64,
        /// Number of bytes of file data that were not captured.
        unknown_bytes: u64,
        /// Number of variables.
        variables: u64,
        /// Number of names that were evicted because of the memory limit: their later uses count as undefined.
        forgotten: u64,
        /// Number of objects, names, extents, undefined variables and fields with a variable that were left out at
        /// memory limits.
        left_out: u64,
        /// Time of the first call, in nanoseconds since 1970.
        first_call_ns: u64,
        /// Time of the last call, in nanoseconds since 1970.
        last_call_ns: u64,
    }
}

/// The parent field for decoding the structures of a file.
pub(super) static FILE: FieldDefinition = FieldDefinition::group("trace", "trace", "");

/// Length of the preamble in bytes.
pub(super) const PREAMBLE: usize = 28;
/// Length of a block header in bytes.
pub(super) const HEADER: usize = 12;

impl TraceFileSystemObject<'_> {
    /// Returns `true` if the captured name of the object is known.
    pub fn is_named(&self) -> bool {
        self.existence == TraceObjectOrigin::ROOT || self.names.iter().any(|name| name.parent != NONE)
    }
}

impl TraceFileTotals {
    pub(super) const ZERO: Self = Self {
        steps: 0,
        late: 0,
        data_bytes: 0,
        payload_bytes: 0,
        unknown_bytes: 0,
        variables: 0,
        forgotten: 0,
        left_out: 0,
        first_call_ns: 0,
        last_call_ns: 0,
    };
}

impl TracePreamble {
    /// Encodes the preamble of a trace whose tables begin at offset `tables`.
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
