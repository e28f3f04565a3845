//! Recognition of MPA in a stream: by a start-up frame, or by FPDUs.

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::iwarp::DdpSegment;
use nfsrdma_dissectors::iwarp::mpa::{FpduHeader, MpaStartupFrameKind, REQUEST_KEY};
use nfsrdma_dissectors::rpcrdma;

use super::fpdu_search::{self, FpduConfidence, FpduSearchBudget, FpduSearchBytes};
use crate::rdma_operation::CapturedPacketPayload;
use crate::stream::stream_bytes::StreamPosition;

/// Returns `true` if a Request or a Reply frame of MPA begins here. RFC 5044 section 7.1.1.
pub(crate) fn begins_mpa(bytes: &[u8]) -> bool {
    bytes.get(..REQUEST_KEY.len()).is_some_and(|key| MpaStartupFrameKind::from_key(key).is_some())
}

/// Returns `true` if a segment in mid-stream begins with FPDUs. On ports other than that of NFS over RDMA
/// (`is_expected` is `false`), the first FPDU must contain an RPC-over-RDMA message.
pub(crate) fn begins_fpdu(data: CapturedPacketPayload<'_>, is_expected: bool) -> bool {
    let length = data.length as usize;
    let budget = FpduSearchBudget::for_segment(data.bytes.len());
    let bytes = FpduSearchBytes { bytes: data.bytes, length, at: StreamPosition::default(), budget: &budget };
    let fpdu = fpdu_search::find_at_start(&bytes, |_| false);
    if !fpdu.is_some_and(|fpdu| fpdu.confidence == FpduConfidence::Certain) {
        return false;
    }
    let slice = CapturedSlice::new(data.bytes, length, 0);
    let payload = FpduHeader::decode(data.bytes, 0, &mut NullFieldObserver).and_then(|(header, _)| {
        let ulpdu = slice.skip_bytes(FpduHeader::LENGTH).with_length(usize::from(header.ulpdu_length));
        DdpSegment::decode(ulpdu, &mut NullFieldObserver)
    });
    is_expected
        || payload.is_some_and(|(segment, payload)| {
            segment.opcode.is_send()
                && rpcrdma::recognize_dialect(payload.bytes, payload.length, None).0 == rpcrdma::RpcRdmaEvidence::Strong
        })
}
