//! Structures of a trace: a [`TraceStep`] for each RPC of the capture. They are also the file format, encoded in XDR
//! (RFC 4506). `docs/trace.md` shows them byte by byte.

use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor, Opaque, XdrArray, roundup};

/// Maximum number of segments of a chunk, of slots and payloads of a message, and of chunks of a call.
pub const MAX_LIST_LENGTH: u32 = 1 << 17;

/// The number of an absent variable, slot or minor version.
pub const NONE: u32 = u32::MAX;

/// Uses of a stateid from before the capture, as bits: OPEN4_SHARE_ACCESS_READ and _WRITE, and those of locks and of
/// delegations.
pub mod stateid_use {
    /// It reads.
    pub const READ: u32 = 1;
    /// It writes.
    pub const WRITE: u32 = 2;
    /// It is a stateid of locks.
    pub const LOCK: u32 = 4;
    /// It is a stateid of a delegation.
    pub const DELEGATION: u32 = 8;
}

xdr! { "trace";
    /// The kind of value in a slot. Identities are assigned by a server or a client, and have a variable of their own.
    /// Counts change with the run; their variable names the owner of the count.
    enum TraceSlotValueKind {
        /// A filehandle.
        FILEHANDLE = 0,
        /// The `other` of a stateid. RFC 8881 section 3.3.12.
        STATEID = 1,
        /// A clientid.
        CLIENTID = 2,
        /// A session id.
        SESSION = 3,
        /// A READDIR cookie: the position after its entry.
        COOKIE = 4,
        /// A READDIR cookie verifier, which validates the cookies of a directory.
        COOKIE_VERIFIER = 5,
        /// An open owner or a lock owner.
        OWNER = 6,
        /// The name that a client gives itself.
        CLIENT_OWNER = 7,
        /// The name that a server gives itself.
        SERVER_OWNER = 8,
        /// A host, by name or address.
        HOST = 9,
        /// The program number that a client chooses for its callbacks.
        PROGRAM = 10,
        /// A security context.
        CONTEXT = 11,
        /// A pNFS device ID.
        DEVICE = 12,
        /// A write verifier: changes if the server loses uncommitted data. RFC 8881 section 18.3.3.
        WRITE_VERIFIER = 13,
        /// The verifier of an exclusive create. RFC 8881 section 18.16.3.
        CREATE_VERIFIER = 14,
        /// The verifier that SETCLIENTID returns and SETCLIENTID_CONFIRM repeats. RFC 7530 section 16.33.
        CONFIRM_VERIFIER = 15,
        /// The boot verifier of a client, which changes when the client restarts. RFC 8881 section 18.35.3.
        CLIENT_VERIFIER = 16,
        /// The change attribute; in NFSv3 the ctime that guards SETATTR (RFC 1813 section 3.3.2).
        CHANGE = 17,
        /// sa_sequenceid: the sequence ID of a slot. Its variable is the session. RFC 8881 section 18.46.
        SEQUENCE_ID = 32,
        /// sa_slotid. Its variable is the session.
        SLOT_ID = 33,
        /// sa_highest_slotid. Its variable is the session.
        HIGHEST_SLOT_ID = 34,
        /// The seqid of an open owner. Its variable is the owner. RFC 7530 section 9.1.7.
        OPEN_SEQID = 35,
        /// The seqid of a lock owner. Its variable is the owner.
        LOCK_SEQID = 36,
        /// csa_sequence of CREATE_SESSION, and eir_sequenceid. Its variable is the clientid. RFC 8881 section 18.36.
        CREATE_SEQUENCE = 37,
        /// The seqid of a stateid. Its variable is that stateid; 0 means the most recent one (RFC 8881 section 8.2.2).
        STATEID_SEQID = 38
    }

    /// The way in which a message uses the variable of a slot.
    enum VariableUseKind {
        /// The message needs the value: the server must have assigned it before, or the client have chosen it.
        USED = 0,
        /// The message assigns the value for the first time.
        DEFINED = 1,
        /// The message repeats a known value, or assigns another one.
        AGAIN = 2,
        /// The message needs the value, as USED, and the value represents a root: in the recording of a run, the call
        /// that was replayed had PUTROOTFH or PUTPUBFH here.
        FOR_ROOT = 3
    }

    /// A byte range of a message whose value differs between runs.
    struct SubstitutableMessageSlot {
        /// Offset in the head, in bytes.
        at: u32,
        /// Length in the head, in bytes. Data with a length prefix includes that prefix and the XDR padding.
        length: u32,
        /// The kind of value.
        value_kind: TraceSlotValueKind,
        /// The use of the variable.
        part: VariableUseKind,
        /// `true` if a length precedes the value (RFC 4506 section 4.10).
        is_counted: bool,
        /// Index of the operation in the COMPOUND, from 0; 0 for any other procedure.
        operation: u32,
        /// The variable: the number in the trace of an identifier that a server or a client assigns, from 0.
        variable: u32,
        /// The `id` of the step that defined the variable; for values that the caller chooses, that of this step. 0 if
        /// no step before defined it: it is from before the capture, or its definition was lost.
        definition: u64,
        /// Hash that identifies the field: of its path, and of the name of its directory entry. A live message of the
        /// same kind has the same hash at this field, so that values can be bound.
        place: u64,
    }

    /// The state of the content of a payload.
    enum PayloadContentState {
        /// Not captured.
        UNKNOWN = 0,
        /// Only the hash is known.
        HASHED = 1,
        /// The content is at byte `data` of the file.
        KEPT = 2,
        /// The hash is known; a run replaces the content by data generated from a key for this file and offset.
        KEYED = 3,
        /// All bytes are zero.
        ZEROS = 4
    }

    /// File data, or the text of a symbolic link, that may be transferred outside a message.
    struct TracePayload {
        /// Position of the content in the head, in bytes.
        at: u32,
        /// Length in bytes, without padding.
        length: u32,
        /// `true` if the content is in the head, because it is not DDP-eligible (the data of READ_PLUS). It is zeros if
        /// the content is not kept.
        is_inside: bool,
        /// The state of the content.
        content: PayloadContentState,
        /// 128-bit XXH3 hash of the content; zero if the content is unknown.
        hash: [u8; 16],
        /// File offset of the content, in bytes.
        data: u64,
        /// Index of the operation in the COMPOUND, from 0.
        operation: u32,
        /// The variable of the filehandle of the file; [`NONE`] if it is unknown.
        file: u32,
        /// Offset of the content in the file; 0 for the text of a symbolic link.
        offset: u64,
    }

    /// The captured part of a message.
    enum MessageCaptureCompleteness {
        /// Nothing.
        NOTHING = 0,
        /// A part; `head` has the bytes before the first gap.
        PART = 1,
        /// The whole message; file data may be missing.
        WHOLE = 2
    }

    /// A call or a reply.
    struct TraceMessage<'a> {
        /// The captured part.
        completeness: MessageCaptureCompleteness,
        /// The RPC message without the content and padding of its detached `payloads`, but with their lengths.
        head: Opaque<'a>,
        /// Offset of the arguments or results in the head.
        body: u32,
        /// End of the arguments or results in the head. The RPCSEC_GSS checksum follows (RFC 2203 section 5.3.2.2).
        end: u32,
        /// Slots in ascending order, without overlap.
        slots: XdrArray<'a, SubstitutableMessageSlot, MAX_LIST_LENGTH>,
        /// Payloads in ascending order.
        payloads: XdrArray<'a, TracePayload, MAX_LIST_LENGTH>,
    }

    /// The wire form of a message.
    enum TraceMessageWireForm {
        /// A TCP record or a UDP datagram.
        RECORD = 0,
        /// RDMA_MSG. RFC 8166 section 3.5.1.
        MESSAGE = 1,
        /// RDMA_NOMSG: a Long Call or a Long Reply. RFC 8166 section 3.5.3.
        NOMSG = 2,
        /// RDMA_ERROR. RFC 8166 section 4.5.
        ERROR = 3
    }

    /// Lengths of the segments of a chunk, in bytes.
    struct ChunkSegmentLengths<'a> { lengths: XdrArray<'a, u32, MAX_LIST_LENGTH> }

    /// The chunks of a call, as the Requester offers them.
    struct TraceCallChunks<'a> {
        /// The Position-Zero Read chunk of a Long Call; empty for an inline message.
        call: ChunkSegmentLengths<'a>,
        /// The Read chunks of the payloads.
        reads: XdrArray<'a, ChunkSegmentLengths<'a>, MAX_LIST_LENGTH>,
        /// The Write chunks.
        writes: XdrArray<'a, ChunkSegmentLengths<'a>, MAX_LIST_LENGTH>,
        /// The Reply chunk; empty if there was none.
        reply: ChunkSegmentLengths<'a>,
    }

    /// The wire forms of the messages, and the lengths returned.
    struct CallAndReplyWireForms<'a> {
        /// Wire form of the call.
        call: TraceMessageWireForm,
        /// Wire form of the reply; RECORD if there was none.
        reply: TraceMessageWireForm,
        /// Credits that the call requested and that the reply granted; 0 without RDMA.
        credits: [u32; 2],
        /// rdma_err of an RDMA_ERROR; 0 without one.
        rdma_error: u32,
        /// Number of bytes that the reply returned in each Write chunk.
        returned: XdrArray<'a, u32, MAX_LIST_LENGTH>,
        /// Number of bytes of a Long Reply.
        returned_reply: u32,
    }

    /// Maximum sizes of the parts of the reply, which a transport must provide for.
    struct TraceReplySizeLimits<'a> {
        /// Number of bytes of the RPC message of the reply, without the DDP-eligible results.
        message_bytes: u32,
        /// Maximum number of bytes of content of each DDP-eligible result.
        payloads: XdrArray<'a, u32, MAX_LIST_LENGTH>,
    }

    /// The protection of arguments and results. RFC 2203 section 5.3.2.
    enum GssProtection {
        /// No protection, or of the header alone (krb5).
        PLAIN = 0,
        /// A checksum (krb5i).
        INTEGRITY = 1,
        /// Encryption (krb5p): arguments and results cannot be decoded.
        PRIVACY = 2,
        /// The message is an RPCSEC_GSS control message.
        CONTROL = 3
    }

    /// The procedure of a call. Unknown numbers are [`NONE`], as for a reply without its call.
    struct TraceProcedure {
        /// The program number; for a callback the number that the client chose.
        program: u32,
        /// The version of the program.
        version: u32,
        /// The minor version of a COMPOUND; [`NONE`] for any other procedure.
        minor_version: u32,
        /// The procedure number.
        number: u32,
        /// The flavor of the credential. RFC 5531 section 8.2.
        flavor: u32,
        /// The protection of arguments and results.
        protection: GssProtection,
    }

    /// The caller. Absent variables are [`NONE`].
    struct TraceCallConnectionAndSession {
        /// Number of the client in the trace: one for each address that sends calls.
        client: u32,
        /// Number of the server in the trace.
        server: u32,
        /// Number of the connection, as in the transactions of the capture.
        connection: u64,
        /// `true` if the server sent the call (RFC 8167).
        is_reverse: bool,
        /// The variable of the clientid.
        clientid: u32,
        /// The variable of the session.
        session: u32,
        /// sa_slotid.
        slot: u32,
        /// sa_sequenceid.
        sequence: u32,
        /// The variable of the open or lock owner that serializes its calls (RFC 7530 section 9.1.7).
        owner: u32,
    }

    /// The origin of a step in the capture.
    struct TraceStepOrigin {
        /// ID of the step, from 1: the `index` of the transaction.
        id: u64,
        /// ID of the step that this one repeats on another connection or on the same slot; 0 if none.
        repeats: u64,
        /// First frame of the call; 0 if it was not captured.
        call_frame: u64,
        /// First frame of the reply; 0 if it was not captured.
        reply_frame: u64,
        /// Time of the call, in nanoseconds since 1970; without a call, the time of the reply.
        time_ns: u64,
        /// Nanoseconds from then to the last frame of the reply; 0 if that was not captured.
        latency_ns: u64,
        /// In the recording of a run, the `id` of the replayed step; 0 if there is none.
        run_of: u64,
    }

    /// A call and its captured reply.
    struct TraceStep<'a> {
        /// The origin in the capture.
        origin: TraceStepOrigin,
        /// The caller.
        caller: TraceCallConnectionAndSession,
        /// The procedure.
        procedure: TraceProcedure,
        /// The call.
        call: TraceMessage<'a>,
        /// The reply.
        reply: TraceMessage<'a>,
        /// The chunks of the call.
        shape: TraceCallChunks<'a>,
        /// The wire forms of both messages.
        carried: CallAndReplyWireForms<'a>,
        /// The maximum sizes of the parts of the reply.
        needs: TraceReplySizeLimits<'a>,
    }
}

impl TraceStep<'_> {
    /// Returns the variables of all filehandles in call and reply.
    pub fn filehandles(&self) -> impl Iterator<Item = u32> + '_ {
        let messages = [&self.call, &self.reply].into_iter();
        messages.flat_map(|message| message.variables(TraceSlotValueKind::FILEHANDLE))
    }
}

impl<'a> TraceMessage<'a> {
    /// Returns a cursor at the arguments or results, without the contents of chunks.
    pub fn body_cursor(&self) -> Cursor<'a> {
        Cursor::new(self.head.0.get(self.body as usize..self.end as usize).unwrap_or_default())
    }

    /// Returns the variables of the slots of a kind.
    pub fn variables(&self, kind: TraceSlotValueKind) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().filter(move |slot| slot.value_kind == kind).map(|slot| slot.variable)
    }

    /// Returns the variable of the first slot of a kind.
    pub fn variable(&self, kind: TraceSlotValueKind) -> Option<u32> {
        self.variables(kind).next()
    }

    /// Returns the DDP-eligible items outside the head, with Positions relative to the arguments or results.
    pub fn items(&self) -> Vec<ChunkedDataItem<'static>> {
        self.items_with(|_| None)
    }

    /// As [`Self::items`], with the content of the payload with each index.
    pub fn items_with<'c>(&self, content: impl Fn(usize) -> Option<&'c [u8]>) -> Vec<ChunkedDataItem<'c>> {
        let mut payload_bytes: u32 = 0;
        let payloads = self.payloads.iter().enumerate().filter(|(_, payload)| !payload.is_inside);
        payloads
            .map(|(index, payload)| {
                let position = payload.at.saturating_sub(self.body).saturating_add(payload_bytes);
                let padded = payload.length.saturating_add(roundup(payload.length as usize) as u32);
                payload_bytes = payload_bytes.saturating_add(padded);
                ChunkedDataItem { position: Some(position), length: payload.length, bytes: content(index) }
            })
            .collect()
    }

    /// Returns `true` if the message gives a filehandle for the first time. A reply that was not captured may do so, as
    /// later steps show.
    pub fn defines_filehandle(&self) -> bool {
        let is_defined = |slot: SubstitutableMessageSlot| {
            slot.value_kind == TraceSlotValueKind::FILEHANDLE && slot.part == VariableUseKind::DEFINED
        };
        self.slots.iter().any(is_defined)
    }

    /// Returns `true` if there is no message.
    pub fn is_empty(&self) -> bool {
        self.head.0.is_empty()
    }

    /// Returns `true` if all bytes of the RPC message were captured.
    pub fn is_complete(&self) -> bool {
        self.completeness == MessageCaptureCompleteness::WHOLE
    }
}

impl VariableUseKind {
    /// Returns `true` if the message needs the value.
    pub fn uses_value(self) -> bool {
        matches!(self, Self::USED | Self::FOR_ROOT)
    }
}

impl TraceSlotValueKind {
    /// Returns `true` if a server assigns the value. A client chooses the others.
    pub fn is_assigned_by_server(self) -> bool {
        matches!(
            self,
            Self::FILEHANDLE
                | Self::STATEID
                | Self::CLIENTID
                | Self::SESSION
                | Self::COOKIE
                | Self::COOKIE_VERIFIER
                | Self::CONFIRM_VERIFIER
                | Self::WRITE_VERIFIER
                | Self::SERVER_OWNER
                | Self::CONTEXT
                | Self::DEVICE
                | Self::CHANGE
        )
    }

    /// Returns `true` if the value is a count, not a name.
    pub fn is_count(self) -> bool {
        self.0 >= Self::SEQUENCE_ID.0
    }

    /// Returns the display name, e.g. `filehandle` or `open seqid`.
    pub fn display_name(self) -> String {
        self.name().map_or_else(|| self.0.to_string(), |name| name.to_ascii_lowercase().replace('_', " "))
    }
}
