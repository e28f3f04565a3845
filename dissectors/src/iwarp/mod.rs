//! iWARP, RDMA over TCP: MPA frames messages in the stream, DDP places their bytes, RDMAP defines the operations.
//!
//! An FPDU of MPA holds one segment of a DDP message. One or more segments form an RDMAP message.

pub mod crc;
pub mod ddp;
mod fpdu;
pub mod mpa;
pub mod rdmap;
mod rdmap_headers;
mod segment;

use crate::field::registry::{FieldRegistry, describe_headers};

pub use segment::{DdpSegment, DdpSegmentDestination};

/// Adds the iWARP fields to a registry.
pub(crate) fn describe(registry: &mut FieldRegistry) {
    use ddp::*;
    use rdmap::*;
    mpa::describe(registry);
    describe_headers!(registry; DdpControl, Tagged, Untagged, RdmapControl, RdmapReadRequestHeader);
    describe_headers!(registry; RdmapInvalidateStag, RdmapUntaggedReservedField);
    describe_headers!(registry; RdmapImmediateData, RdmapAtomicRequestHeader, RdmapAtomicResponseHeader);
    rdmap::describe_terminate(registry);
}
