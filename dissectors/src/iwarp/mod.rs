//! iWARP, RDMA over TCP: MPA frames messages in the stream, DDP says where their bytes go, RDMAP what they are.
//!
//! An FPDU of MPA holds one segment of a DDP message; one or several of these make an RDMAP message.

pub mod crc;
pub mod ddp;
pub mod mpa;
pub mod rdmap;
mod segment;

pub use segment::{Segment, Target};
