//! Fields of a whole FPDU: the MPA header, the DDP segment, its RDMAP message, and the trailer.

use super::crc::RunningFpduCrc;
use super::mpa::{self, FpduHeader};
use super::rdmap::RdmapTerminate;
use super::rdmap_headers::{
    RdmapAtomicRequestHeader, RdmapAtomicResponseHeader, RdmapImmediateData, RdmapOpcode, RdmapReadRequestHeader,
};
use super::segment::DdpSegment;
use crate::captured_frame::CapturedSlice;
use crate::field::FieldObserver;

impl DdpSegment {
    /// Reports everything in the FPDU at the start of `fpdu`, as far as it was captured contiguously and without
    /// markers. Returns `None` if its headers are incomplete.
    pub fn observe_fpdu<'a, O: FieldObserver<'a>>(
        fpdu: CapturedSlice<'a>,
        observer: &mut O,
    ) -> Option<(FpduHeader, Self)> {
        let (header, rest) = FpduHeader::decode_slice(fpdu, observer)?;
        let ulpdu_length = usize::from(header.ulpdu_length);
        let (segment, payload) = Self::decode(rest.with_length(ulpdu_length), observer)?;
        match segment.opcode {
            RdmapOpcode::READ_REQUEST => RdmapReadRequestHeader::decode_slice(payload, observer).map(drop),
            RdmapOpcode::TERMINATE => RdmapTerminate::decode(payload, observer).map(drop),
            RdmapOpcode::IMMEDIATE | RdmapOpcode::IMMEDIATE_EVENT => {
                RdmapImmediateData::decode_slice(payload, observer).map(drop)
            }
            RdmapOpcode::ATOMIC_REQUEST => RdmapAtomicRequestHeader::decode_slice(payload, observer).map(drop),
            RdmapOpcode::ATOMIC_RESPONSE => RdmapAtomicResponseHeader::decode_slice(payload, observer).map(drop),
            _ => None,
        };
        let trailer = rest.skip_bytes(ulpdu_length).with_length(header.pad() + RunningFpduCrc::LENGTH);
        mpa::observe_trailer(header, trailer, observer);
        Some((header, segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldDefinition, FieldValue};
    use std::ops::Range;

    /// Collects the names of reported fields.
    #[derive(Default)]
    struct Names(Vec<&'static str>);

    impl<'a> FieldObserver<'a> for Names {
        fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
        fn leave(&mut self, _: usize) {}
        fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {
            self.0.push(field.name);
        }
    }

    #[test]
    fn an_observer_gets_every_field_of_a_read_request() {
        let mut fpdu = vec![0, 46, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
        fpdu.extend([7; 28]);
        fpdu.extend([0; 4]);
        let mut names = Names::default();
        let part = CapturedSlice::new(&fpdu, fpdu.len(), 0);
        assert_eq!(DdpSegment::observe_fpdu(part, &mut names).unwrap().1.opcode, RdmapOpcode::READ_REQUEST);
        let expected = [
            "iwarp_mpa.ulpdulength",
            "iwarp_ddp.tagged_flag",
            "iwarp_ddp.last_flag",
            "iwarp_ddp.rsvd",
            "iwarp_ddp.dv",
            "iwarp_rdma.version",
            "iwarp_rdma.rsv",
            "iwarp_rdma.opcode",
            "iwarp_rdma.reserved",
            "iwarp_ddp.qn",
            "iwarp_ddp.msn",
            "iwarp_ddp.mo",
            "iwarp_rdma.sinkstag",
            "iwarp_rdma.sinkto",
            "iwarp_rdma.rdmardsz",
            "iwarp_rdma.srcstag",
            "iwarp_rdma.srcto",
            "iwarp_mpa.crc",
        ];
        assert_eq!(names.0, expected);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = DdpSegment::observe_fpdu(CapturedSlice::new(&bytes, bytes.len(), 0), &mut Names::default());
        }
    }
}
