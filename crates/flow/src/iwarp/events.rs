//! Events that the decoder of a connection reports, and the use of CRCs on it.

use std::ops::Range;

use nfsrdma_dissectors::iwarp::rdmap::RdmapTerminate;
use nfsrdma_dissectors::memory_handle::Handle;

use crate::count_categories::UndecodedReason;
use crate::exceptional_transport_events::{FpduProperties, TransportAnomalyKind};
use crate::packet_meta::PacketMeta;
use crate::rdma_operation::{RdmaAttribution, RdmaOperation};

/// Event decoded from the bytes of a stream.
#[derive(Debug)]
pub(crate) enum IwarpEvent<'a> {
    /// A start-up frame of MPA.
    Startup,
    /// An RDMA operation.
    Operation(RdmaOperation<'a>),
    /// A part of an incomplete message.
    Part,
    /// A message that moves no bytes: it shows that the sender is ready (RFC 6581 section 9.2), or alive. With its
    /// kind, if that is of interest.
    Control(Option<TransportAnomalyKind>),
    /// The stream ends, for this reason.
    Terminate(RdmapTerminate),
    /// A message that its receiver refused with a Terminate, by its attribution.
    RefusedMessage(RdmaAttribution),
    /// Bytes of a Transaction, by their attribution, that are not what their sender meant: the length of their FPDU is
    /// wrong.
    Misframed(RdmaAttribution),
    /// An FPDU whose headers are known. Only if [`IwarpEventSink::records_events`].
    Fpdu(FpduProperties),
    /// An FPDU whose ULPDU_Length cannot be judged. Only if [`IwarpEventSink::records_events`].
    UnprovenFpdu,
    /// A deviation from the specifications, or damage.
    Transport(TransportAnomalyKind),
    /// An FPDU that its receiver refuses for its CRC.
    Refused {
        /// `true` if an FPDU is certain to be there.
        is_proven: bool,
    },
    /// Bytes that cannot be decoded.
    Undecoded(UndecodedReason),
}

/// Use of CRCs on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrcUse {
    /// Unknown; no FPDU had a correct CRC so far.
    Unknown {
        /// Number of FPDUs so far.
        misses: u8,
    },
    /// CRCs are used.
    Yes,
    /// CRCs are not used, and the field has no meaning.
    No,
}

/// Receiver of the events of a connection.
pub(crate) trait IwarpEventSink {
    /// Handles an event of one side.
    fn event(&mut self, packet_meta: PacketMeta<'_>, event: IwarpEvent<'_>);

    fn records_events(&self) -> bool;

    /// Returns `true` if the receiver of these bytes has advertised memory with this STag: evidence that a
    /// header is valid.
    fn knows_memory(&self, stag: Handle) -> bool;

    /// Returns `true` if the Sends are known to be messages of RPC-over-RDMA that consist of words: those of version 2
    /// may be continued at any byte.
    fn sends_words(&self) -> bool {
        false
    }

    /// Returns the reason for which the current frame was counted as undecoded if that is data, or an RDMA Read Request,
    /// whose place is unknown.
    fn unplaced_reason(&self) -> Option<UndecodedReason> {
        None
    }

    /// Takes back the count of a frame that was undecoded for this reason.
    fn uncount(&mut self, _reason: UndecodedReason) {}

    /// Returns the advertised memory at this offset, and its bytes with data according to the Reply, if there is one.
    /// Other Calls may advertise the same memory: that of the latest counts, or of the one to which data are
    /// attributed.
    fn memory(&self, _stag: Handle, _offset: u64, _attribution: RdmaAttribution) -> Option<(Range<u64>, Option<u32>)> {
        None
    }
}
