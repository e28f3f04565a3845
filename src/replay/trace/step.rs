//! What a trace consists of. These structures are the file format, too: each is written in XDR (RFC 4506).

use nfsrdma_dissectors::xdr;
use nfsrdma_dissectors::xdr::{List, Opaque};

/// Segments of one chunk, slots of one message, chunks of one Call: more are refused.
pub const MOST: u32 = 1 << 16;

xdr! { "trace";
    /// What a slot holds. Identities have a variable; counts live with the run, and their variable says whose they are.
    enum Holds {
        /// A filehandle.
        FILEHANDLE = 0,
        /// The `other` of a stateid. RFC 8881 section 3.3.12.
        STATEID = 1,
        /// A clientid.
        CLIENTID = 2,
        /// A session id.
        SESSION = 3,
        /// A place in a directory.
        COOKIE = 4,
        /// A verifier.
        VERIFIER = 5,
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
        /// sa_sequenceid: the count of Calls on a slot. RFC 8881 section 18.46.
        SEQUENCE_ID = 32,
        /// sa_slotid.
        SLOT_ID = 33,
        /// sa_highest_slotid.
        HIGHEST_SLOT_ID = 34,
        /// The count of an open owner's Calls. RFC 7530 section 9.1.7.
        OPEN_SEQID = 35,
        /// The count of a lock owner's Calls.
        LOCK_SEQID = 36,
        /// csa_sequence of CREATE_SESSION. RFC 8881 section 18.36.
        CREATE_SEQUENCE = 37,
        /// The seqid of a stateid.
        STATEID_SEQID = 38
    }

    /// A place in a message whose value is another one in each run.
    struct Slot {
        /// Where it begins in the head.
        at: u32,
        /// Its length in bytes there: of data with a length, that length and the fill too.
        length: u32,
        /// What it holds.
        holds: Holds,
        /// Whether a length stands before the value (RFC 4506 section 4.10).
        is_counted: bool,
        /// The operation of the COMPOUND, from 0; 0 where there is none.
        operation: u32,
        /// The [`Variable`](super::Variable).
        variable: u32,
    }

    /// File data, or the text of a link, that may travel beside a message.
    struct Payload {
        /// Where in the head its content belongs.
        at: u32,
        /// Its length in bytes, without fill.
        length: u32,
        /// XXH3 with 128 bits of the content; zero where the content is not known.
        hash: [u8; 16],
        /// Where the content begins in the data of the trace; [`Payload::NOWHERE`] where it was not kept.
        data: u64,
    }

    /// A Call or a Reply.
    struct Message<'a> {
        /// The RPC message without the content and the fill of what stands in `payloads`, but with its lengths.
        head: Opaque<'a>,
        /// Where in the head the arguments or results begin.
        body: u32,
        /// In ascending order, without overlap.
        slots: List<'a, Slot, MOST>,
        /// In ascending order.
        payloads: List<'a, Payload, MOST>,
    }

    /// Lengths of the segments of a chunk in bytes.
    struct Segments<'a> { lengths: List<'a, u32, MOST> }

    /// The chunks that a Call had, as a Requester offers them.
    struct Shape<'a> {
        /// The Position-Zero Read chunk of a Long Call; empty where the message was inline.
        call: Segments<'a>,
        /// The Read chunks of its payloads.
        reads: List<'a, Segments<'a>, MOST>,
        /// The Write chunks.
        writes: List<'a, Segments<'a>, MOST>,
        /// The Reply chunk; empty where there was none.
        reply: Segments<'a>,
    }

    /// Where a step comes from.
    struct Origin {
        /// The connection, as the capture's Transactions number it.
        connection: u64,
        /// Whether the Call came from the server (RFC 8167).
        is_reverse: bool,
        /// The `index` of the Transaction.
        transaction: u64,
        /// The first frame of the Call; 0 where it was not captured.
        call_frame: u64,
        /// The first frame of the Reply; 0 where it was not captured.
        reply_frame: u64,
        /// When the Call was seen, in nanoseconds since 1970; of a Reply alone, when that was seen.
        time: u64,
        /// From there to the last frame of the Reply, in nanoseconds; 0 where that was not seen.
        latency: u64,
        /// Whether all bytes of the Call were captured.
        is_whole: bool,
    }

    /// A Call, and the Reply that it had.
    struct Step<'a> {
        /// Where it comes from.
        origin: Origin,
        /// The Call; empty where it was not captured.
        call: Message<'a>,
        /// The Reply; empty where it was not captured.
        reply: Message<'a>,
        /// The chunks of the Call.
        shape: Shape<'a>,
    }
}

impl Payload {
    /// Stands for data that was not kept.
    pub const NOWHERE: u64 = u64::MAX;
}

impl Message<'_> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.head.0.is_empty()
    }
}

impl Holds {
    /// Whether a server picks the value. A client picks the others.
    pub fn is_of_server(self) -> bool {
        matches!(
            self,
            Self::FILEHANDLE
                | Self::STATEID
                | Self::CLIENTID
                | Self::SESSION
                | Self::COOKIE
                | Self::SERVER_OWNER
                | Self::CONTEXT
                | Self::DEVICE
        )
    }

    /// Whether it is a count, and no name.
    pub fn is_count(self) -> bool {
        self.0 >= Self::SEQUENCE_ID.0
    }
}
