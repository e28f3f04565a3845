//! Fields of the MPA frames in one segment, decoded for views without the rest of the stream.

use nfsrdma_dissectors::captured_frame::CapturedSlice;
use nfsrdma_dissectors::field::{FieldObserver, NullFieldObserver, TypeErasedFieldObserver};
use nfsrdma_dissectors::iwarp::DdpSegment;
use nfsrdma_dissectors::iwarp::mpa::{Marker, MpaStartupFrame};

use super::fpdu_search::{self, FoundFpdu, FpduConfidence, FpduSearchBudget, FpduSearchBytes};
use crate::stream::stream_bytes::StreamPosition;

/// Stream position assumed for the segment.
const ASSUMED_POSITION: StreamPosition = 1 << 32;

/// Reports the headers of the start-up frame and of the FPDUs that begin in a segment of an iWARP stream.
/// An FPDU with a marker in it is reported up to the marker.
pub fn observe_segment<'a, O: FieldObserver<'a>>(payload: CapturedSlice<'a>, observer: &mut O) {
    report_segment(payload, &mut TypeErasedFieldObserver::new(observer));
}

fn report_segment<'a>(payload: CapturedSlice<'a>, observer: &mut TypeErasedFieldObserver<'_, 'a>) {
    let startup = MpaStartupFrame::decode(payload, observer);
    let mut rest = payload.skip_bytes(startup.map_or(0, |startup| startup.length));
    let budget = FpduSearchBudget::for_segment(rest.bytes.len());
    let Some(fpdu) = first_fpdu(rest, &budget) else { return };
    let markers = fpdu.markers;
    let mut at = ASSUMED_POSITION + fpdu.offset as u64;
    rest = rest.skip_bytes(fpdu.offset);
    while !rest.bytes.is_empty() {
        if markers.remaining_marker_bytes(at) > 0 {
            Marker::decode(rest.bytes, rest.at, observer);
            (rest, at) = (rest.skip_bytes(Marker::LENGTH), at + Marker::LENGTH as u64);
        }
        let until_marker = markers.next_marker(at).map_or(usize::MAX, |next| (next - at) as usize);
        let visible = CapturedSlice { bytes: rest.bytes.get(..until_marker).unwrap_or(rest.bytes), ..rest };
        let Some((header, segment)) = DdpSegment::observe_fpdu(visible, &mut NullFieldObserver) else {
            return;
        };
        if !segment.is_plausible(usize::from(header.ulpdu_length)) {
            return;
        }
        DdpSegment::observe_fpdu(visible, observer);
        let length = (markers.end_of(at, header.fpdu_length() as u64) - at) as usize;
        (rest, at) = (rest.skip_bytes(length), at + length as u64);
    }
}

/// Returns the first FPDU of a segment: at the first byte, where senders align FPDUs, or a certain one
/// after it. A tentative one in the middle may as well be file data, and the stream that could confirm it
/// is not available.
fn first_fpdu(rest: CapturedSlice<'_>, budget: &FpduSearchBudget) -> Option<FoundFpdu> {
    let mut start = 0;
    loop {
        let CapturedSlice { bytes, length, .. } = rest.skip_bytes(start);
        let fpdu = fpdu_search::find(
            &FpduSearchBytes { bytes, length, at: ASSUMED_POSITION + start as u64, budget },
            None,
            None,
            |_| false,
        )?;
        let offset = start + fpdu.offset;
        if offset == 0 || fpdu.confidence == FpduConfidence::Certain {
            return Some(FoundFpdu { offset, ..fpdu });
        }
        start = offset + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::tests::wire::{Sender, payload};
    use super::*;
    use nfsrdma_dissectors::field::{FieldDefinition, FieldValue};
    use nfsrdma_dissectors::iwarp::rdmap::RdmapOpcode;

    #[derive(Default)]
    struct Opcodes(Vec<&'static str>);

    impl<'a> FieldObserver<'a> for Opcodes {
        fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
        fn leave(&mut self, _: usize) {}
        fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
            match (field.name, value) {
                ("iwarp_rdma.opcode", FieldValue::Enum(_, Some(name))) => self.0.push(name),
                ("iwarp_mpa.rev" | "iwarp_mpa.marker_fpduptr", _) => self.0.push(field.label),
                _ => {}
            }
        }
    }

    fn visible(bytes: &[u8]) -> Vec<&'static str> {
        let mut opcodes = Opcodes::default();
        observe_segment(CapturedSlice::new(bytes, bytes.len(), 0), &mut opcodes);
        opcodes.0
    }

    #[test]
    fn every_fpdu_of_a_segment_is_reported() {
        let mut server = Sender::starting(false, (false, true), (false, true));
        server.write(1, 2, &payload(700, 0));
        server.send(RdmapOpcode::SEND, &payload(70, 0));
        server.read((1, 2), 3, (4, 5));
        let all = ["rev", "RDMA Write", "RDMA Write", "Send", "RDMA Read Request"];
        assert_eq!(visible(&server.bytes), all);
        // The first FPDU begins before the segment.
        assert_eq!(visible(&server.bytes[100..]), all[2..]);
        assert_eq!(visible(&[0; 100]), [""; 0]);
    }

    #[test]
    fn file_data_that_looks_like_headers_is_no_fpdu() {
        // The end of an entry of READDIR, its fileid, and the cookie and the length of the name in the next.
        let mut data = vec![0x6b; 60];
        data.extend([0x00, 0x60, 0x01, 0x44, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x03, 0xed, 0, 0, 0, 0x1b]);
        data.extend(payload(84, 1));
        // At the start of the next FPDU is what may be a marker.
        data.extend([0, 0, 0, 0x14, 0x01, 0, 0x01, 0x81]);
        data.extend(payload(200, 2));
        assert_eq!(visible(&data), [""; 0]);
    }
}
