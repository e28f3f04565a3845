//! What a trace consists of: a [`TraceStep`] for each RPC of the capture. These structures are the file format, too: each is
//! written in XDR (RFC 4506). `docs/trace.md` shows them byte by byte.

use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{ChunkItem, List, Opaque, roundup};

/// Segments of one chunk, slots and payloads of one message, chunks of one Call: more are refused.
pub const MOST: u32 = 1 << 17;

/// A number that stands for none: of a variable, a slot, a minor version.
pub const NONE: u32 = u32::MAX;

xdr! { "trace";
    /// What a slot holds. Identities are names that a server or a client gives, and have a variable of their own; counts
    /// live with the run, and their variable says whose they are.
    enum MessageSlotKind {
        /// A filehandle.
        FILEHANDLE = 0,
        /// The `other` of a stateid. RFC 8881 section 3.3.12.
        STATEID = 1,
        /// A clientid.
        CLIENTID = 2,
        /// A session id.
        SESSION = 3,
        /// A place in a directory: what stands after the entry that it came with.
        COOKIE = 4,
        /// What says that cookies of a directory still count.
        COOKIE_VERIFIER = 5,
        /// An open owner or a lock owner.
        OWNER = 6,
        /// A client, as it calls itself.
        CLIENT_OWNER = 7,
        /// A server, as it calls itself.
        SERVER_OWNER = 8,
        /// A host, by name or address.
        HOST = 9,
        /// The number of a program that a client picks for its callbacks.
        PROGRAM = 10,
        /// A security context.
        CONTEXT = 11,
        /// A device of pNFS.
        DEVICE = 12,
        /// What changes when the server loses data that was not committed. RFC 8881 section 18.3.3.
        WRITE_VERIFIER = 13,
        /// What makes an exclusive creation unlike any other. RFC 8881 section 18.16.3.
        CREATE_VERIFIER = 14,
        /// What SETCLIENTID gives and SETCLIENTID_CONFIRM repeats. RFC 7530 section 16.33.
        CONFIRM_VERIFIER = 15,
        /// What a client changes when it starts again. RFC 8881 section 18.35.3.
        CLIENT_VERIFIER = 16,
        /// The value of the change attribute; the ctime that guards SETATTR of NFSv3 (RFC 1813 section 3.3.2).
        CHANGE = 17,
        /// sa_sequenceid: the count of Calls on a slot. Its variable is the session. RFC 8881 section 18.46.
        SEQUENCE_ID = 32,
        /// sa_slotid. Its variable is the session.
        SLOT_ID = 33,
        /// sa_highest_slotid. Its variable is the session.
        HIGHEST_SLOT_ID = 34,
        /// The count of an open owner's Calls. Its variable is the owner. RFC 7530 section 9.1.7.
        OPEN_SEQID = 35,
        /// The count of a lock owner's Calls. Its variable is the owner.
        LOCK_SEQID = 36,
        /// csa_sequence of CREATE_SESSION, and eir_sequenceid. Its variable is the clientid. RFC 8881 section 18.36.
        CREATE_SEQUENCE = 37,
        /// The seqid of a stateid. Its variable is that stateid; 0 means the most recent one (RFC 8881 section 8.2.2).
        STATEID_SEQID = 38
    }

    /// What a message does to the variable of a slot.
    enum VariableUse {
        /// It needs its value: the server must have given it before, or the client have picked it.
        USED = 0,
        /// It gives the value for the first time.
        DEFINED = 1,
        /// It repeats a value that was known, or gives another one.
        AGAIN = 2,
        /// It needs its value, as USED, and the value stands for a root: a recording of a run has it where the Call that was
        /// run had PUTROOTFH or PUTPUBFH.
        FOR_ROOT = 3
    }

    /// A place in a message whose value is another one in each run.
    struct MessageSlot {
        /// Where it begins in the head.
        at: u32,
        /// Its length in bytes there: of data with a length, that length and the fill too.
        length: u32,
        /// What it holds.
        holds: MessageSlotKind,
        /// What the message does to the variable.
        part: VariableUse,
        /// Whether a length stands before the value (RFC 4506 section 4.10).
        is_counted: bool,
        /// The operation of the COMPOUND, from 0; 0 where there is none.
        operation: u32,
        /// The [`Variable`](super::Variable).
        variable: u32,
        /// The `id` of the step that defined the variable; of what the caller picks, that of this step. 0 where none did
        /// before: it is from before the capture, or its definition was lost.
        definition: u64,
        /// Names the field: the hash of its path, with the name of the directory entry that it is in. A live message of the
        /// same kind has the same there, so that what it gives can be bound.
        place: u64,
    }

    /// What is known of the content of a payload.
    enum PayloadContentState {
        /// Nothing: it was not captured.
        UNKNOWN = 0,
        /// Its hash.
        HASHED = 1,
        /// All of it, at byte `data` of the file.
        KEPT = 2,
        /// Its hash; and a run puts in its place what a key makes for this file and offset.
        KEYED = 3,
        /// All bytes are zero.
        ZEROS = 4
    }

    /// File data, or the text of a link, that may travel beside a message.
    struct TracePayload {
        /// Where in the head its content belongs, or stands.
        at: u32,
        /// Its length in bytes, without fill.
        length: u32,
        /// Whether it stands in the head, because it is not DDP-eligible (the data of READ_PLUS). Where the content is not
        /// kept there are zeros.
        is_inside: bool,
        /// What is known of it.
        content: PayloadContentState,
        /// XXH3 with 128 bits of the content; zero where that is not known.
        hash: [u8; 16],
        /// Where the content begins, in bytes from the beginning of the file.
        data: u64,
        /// The operation of the COMPOUND, from 0.
        operation: u32,
        /// The variable of the filehandle of the file; [`NONE`] where it is not known.
        file: u32,
        /// Where in the file the content belongs; of the text of a link 0.
        offset: u64,
    }

    /// How much of a message was captured.
    enum CaptureCompleteness {
        /// None of it.
        NOTHING = 0,
        /// Some of it; `head` has what came before the first gap.
        PART = 1,
        /// All of it; file data may be missing.
        WHOLE = 2
    }

    /// A Call or a Reply.
    struct TraceMessage<'a> {
        /// How much of it was captured.
        seen: CaptureCompleteness,
        /// The RPC message without the content and the fill of what stands in `payloads`, but with its lengths.
        head: Opaque<'a>,
        /// Where in the head the arguments or results begin.
        body: u32,
        /// Where in the head they end: what follows is the checksum of RPCSEC_GSS (RFC 2203 section 5.3.2.2).
        end: u32,
        /// In ascending order, without overlap.
        slots: List<'a, MessageSlot, MOST>,
        /// In ascending order.
        payloads: List<'a, TracePayload, MOST>,
    }

    /// How a message travelled.
    enum TraceMessageForm {
        /// In a record of TCP or a datagram of UDP.
        RECORD = 0,
        /// RDMA_MSG. RFC 8166 section 3.5.1.
        MESSAGE = 1,
        /// RDMA_NOMSG: a Long Call or a Long Reply. RFC 8166 section 3.5.3.
        NOMSG = 2,
        /// RDMA_ERROR. RFC 8166 section 4.5.
        ERROR = 3
    }

    /// Lengths of the segments of a chunk in bytes.
    struct ChunkSegmentLengths<'a> { lengths: List<'a, u32, MOST> }

    /// The chunks that a Call had, as a Requester offers them.
    struct TraceCallChunks<'a> {
        /// The Position-Zero Read chunk of a Long Call; empty where the message was inline.
        call: ChunkSegmentLengths<'a>,
        /// The Read chunks of its payloads.
        reads: List<'a, ChunkSegmentLengths<'a>, MOST>,
        /// The Write chunks.
        writes: List<'a, ChunkSegmentLengths<'a>, MOST>,
        /// The Reply chunk; empty where there was none.
        reply: ChunkSegmentLengths<'a>,
    }

    /// How the messages travelled, and what came back.
    struct TraceTransfer<'a> {
        /// The Call.
        call: TraceMessageForm,
        /// The Reply; RECORD where there was none.
        reply: TraceMessageForm,
        /// The credits that the Call asked for, and that the Reply granted; 0 without RDMA.
        credits: [u32; 2],
        /// rdma_err of an RDMA_ERROR; 0 without one.
        rdma_error: u32,
        /// Bytes that the Reply returned in each Write chunk.
        returned: List<'a, u32, MOST>,
        /// Bytes of a Long Reply.
        returned_reply: u32,
    }

    /// What the Reply may need: what a transport has to offer for it.
    struct TraceReplyNeeds<'a> {
        /// Bytes of the RPC message of the Reply, without the DDP-eligible results.
        message: u32,
        /// For each DDP-eligible result the most bytes of content.
        payloads: List<'a, u32, MOST>,
    }

    /// How arguments and results are protected. RFC 2203 section 5.3.2.
    enum GssProtection {
        /// Not, or by the header alone (krb5).
        PLAIN = 0,
        /// By a checksum (krb5i).
        INTEGRITY = 1,
        /// By encryption (krb5p): they cannot be read.
        PRIVACY = 2,
        /// The message is one of RPCSEC_GSS itself.
        CONTROL = 3
    }

    /// What is called. [`NONE`] stands for what is not known, as of a Reply without its Call.
    struct TraceProcedure {
        /// The program; that of a callback is the number that the client picked.
        program: u32,
        /// Its version.
        version: u32,
        /// The minor version of a COMPOUND; [`NONE`] of another procedure.
        minor_version: u32,
        /// The procedure.
        procedure: u32,
        /// The flavour of the credential. RFC 5531 section 8.2.
        flavor: u32,
        /// How arguments and results are protected.
        protection: GssProtection,
    }

    /// Who calls. Variables are [`NONE`] where there is none.
    struct TraceCaller {
        /// The client, by its number in the trace: one for each address that Calls come from.
        client: u32,
        /// The server, by its number in the trace.
        server: u32,
        /// The connection, as the capture's Transactions number it.
        connection: u64,
        /// Whether the Call came from the server (RFC 8167).
        is_reverse: bool,
        /// The variable of the clientid.
        clientid: u32,
        /// The variable of the session.
        session: u32,
        /// sa_slotid.
        slot: u32,
        /// sa_sequenceid.
        sequence: u32,
        /// The variable of the open or lock owner whose Calls come one after the other (RFC 7530 section 9.1.7).
        owner: u32,
    }

    /// Where a step comes from.
    struct TraceStepOrigin {
        /// Names the step, from 1: the `index` of the Transaction.
        id: u64,
        /// The step that this one repeats on another connection, or on the same slot; 0 if it repeats none.
        repeats: u64,
        /// The first frame of the Call; 0 where it was not captured.
        call_frame: u64,
        /// The first frame of the Reply; 0 where it was not captured.
        reply_frame: u64,
        /// When the Call was seen, in nanoseconds since 1970; of a Reply alone, when that was seen.
        time: u64,
        /// From there to the last frame of the Reply, in nanoseconds; 0 where that was not seen.
        latency: u64,
        /// Of a recording of a run, the `id` of the step that was run; 0 of what was none.
        run_of: u64,
    }

    /// A Call, and the Reply that it had.
    struct TraceStep<'a> {
        /// Where it comes from.
        origin: TraceStepOrigin,
        /// Who calls.
        caller: TraceCaller,
        /// What is called.
        asked: TraceProcedure,
        /// The Call.
        call: TraceMessage<'a>,
        /// The Reply.
        reply: TraceMessage<'a>,
        /// The chunks of the Call.
        shape: TraceCallChunks<'a>,
        /// How both travelled.
        carried: TraceTransfer<'a>,
        /// What the Reply may need.
        needs: TraceReplyNeeds<'a>,
    }
}

impl TraceMessage<'_> {
    /// DDP-eligible items that stand beside the head, with Positions that count from its arguments or results on.
    pub fn items(&self) -> Vec<ChunkItem<'static>> {
        let mut beside: u32 = 0;
        let payloads = self.payloads.iter().filter(|payload| !payload.is_inside);
        payloads
            .map(|payload| {
                let position = payload.at.saturating_sub(self.body).saturating_add(beside);
                let padded = payload.length.saturating_add(roundup(payload.length as usize) as u32);
                beside = beside.saturating_add(padded);
                ChunkItem { position: Some(position), length: payload.length, bytes: None }
            })
            .collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.head.0.is_empty()
    }

    /// Whether all bytes of the RPC message were captured.
    pub fn is_whole(&self) -> bool {
        self.seen == CaptureCompleteness::WHOLE
    }
}

impl VariableUse {
    /// Whether the message needs the value.
    pub fn is_used(self) -> bool {
        matches!(self, Self::USED | Self::FOR_ROOT)
    }
}

impl MessageSlotKind {
    /// Whether a server picks the value. A client picks the others.
    pub fn is_of_server(self) -> bool {
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

    /// Whether it is a count, and no name.
    pub fn is_count(self) -> bool {
        self.0 >= Self::SEQUENCE_ID.0
    }

    /// Its name for people: `filehandle`, `open seqid`.
    pub fn words(self) -> String {
        self.name().map_or_else(|| self.0.to_string(), |name| name.to_ascii_lowercase().replace('_', " "))
    }
}
