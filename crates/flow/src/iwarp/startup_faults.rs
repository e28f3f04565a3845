//! Deviations of start-up frames from RFC 5044 section 7.1 and RFC 6581.

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::mpa::{
    MAX_PRIVATE_DATA_BYTES, MpaEnhancedConnectionData, MpaReplyFrame, MpaStartupFrame, MpaStartupFrameKind,
};

use crate::exceptional_transport_events::MpaStartupFault;

/// Depth of an RDMA Read queue that is left to the layer above. RFC 6581 section 9.1.
const UNNEGOTIATED_DEPTH: u16 = 0x3fff;

/// Revision of MPA that has enhanced connection data. RFC 6581 section 6.
const ENHANCED_REVISION: u8 = 2;

/// Returns the deviation of a start-up frame that announces more private data than permitted. `bytes` are those of the
/// frame.
#[cold]
pub(super) fn length_fault(bytes: &[u8]) -> Option<MpaStartupFault> {
    // Both kinds of frame have the field at the same place.
    let (frame, _) = MpaReplyFrame::decode(bytes, 0, &mut NullFieldObserver)?;
    (usize::from(frame.pd_length) > MAX_PRIVATE_DATA_BYTES)
        .then_some(MpaStartupFault::PrivateDataLength(frame.pd_length))
}

/// Returns the first deviation of a start-up frame. `request` is the frame that it answers, if it is a captured Reply.
#[cold]
pub(super) fn startup_fault(frame: &MpaStartupFrame, request: Option<&MpaStartupFrame>) -> Option<MpaStartupFault> {
    let MpaStartupFrame { reserved, revision, announces_enhanced, .. } = *frame;
    if reserved != 0 {
        return Some(MpaStartupFault::ReservedBits(reserved));
    }
    if frame.is_request_rejected {
        return Some(MpaStartupFault::RejectedRequest);
    }
    let request = request
        .filter(|request| frame.kind == MpaStartupFrameKind::Reply && request.kind == MpaStartupFrameKind::Request);
    if announces_enhanced && revision < ENHANCED_REVISION {
        let requested = request.map(|request| request.revision);
        return Some(MpaStartupFault::EnhancedRevision { revision, requested });
    }
    if announces_enhanced && frame.length < MpaStartupFrame::FIXED_LENGTH + MpaEnhancedConnectionData::LENGTH {
        return Some(MpaStartupFault::NoEnhancedData);
    }
    let request = request?;
    // RFC 5044 appendix C: revision 0 is that of the RDMA Consortium, which peers of revision 1 may answer.
    if revision != request.revision && !matches!((request.revision, revision), (0, 1) | (1, 0)) {
        return Some(MpaStartupFault::Revision { requested: request.revision, replied: revision });
    }
    if announces_enhanced != request.announces_enhanced {
        return Some(MpaStartupFault::EnhancedReply { is_enhanced: announces_enhanced });
    }
    let (offered, chosen) = (request.enhanced?, frame.enhanced?);
    if offered.peer_to_peer != chosen.peer_to_peer {
        return Some(MpaStartupFault::PeerToPeer { is_requested: offered.peer_to_peer });
    }
    let is_negotiated = ![offered.ird.0, chosen.ord.0].contains(&UNNEGOTIATED_DEPTH);
    (!frame.rejected && is_negotiated && chosen.ord.0 > offered.ird.0)
        .then_some(MpaStartupFault::RdmaReadQueueDepth { outbound: chosen.ord.0, inbound: offered.ird.0 })
}

/// Returns the start-up frame in `bytes`, whose private data ends before the announced length, and this deviation.
#[cold]
pub(super) fn shorter_frame(bytes: &[u8]) -> Option<(MpaStartupFrame, MpaStartupFault)> {
    let length = u16::try_from(bytes.len().checked_sub(MpaStartupFrame::FIXED_LENGTH)?).ok()?;
    let mut bytes = bytes.to_vec();
    // PD_Length is the last field before the private data.
    let field = bytes.get_mut(MpaStartupFrame::FIXED_LENGTH - 2..MpaStartupFrame::FIXED_LENGTH)?;
    let announced = u16::from_be_bytes([*field.first()?, *field.last()?]);
    field.copy_from_slice(&length.to_be_bytes());
    let startup = MpaStartupFrame::decode(CapturedSlice::new(&bytes, bytes.len(), 0), &mut NullFieldObserver)?;
    Some((startup, MpaStartupFault::PrivateDataMismatch { announced, length }))
}
