//! The InfiniBand transport, which RoCE carries unchanged: packets, their check, and communication management.

mod bth;
pub mod cm;
mod headers;
pub mod icrc;
pub mod mad;
mod opcode;
mod packet;

pub use bth::{Bth, PartitionKey, Psn, Qpn};
pub use headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Grh, Ieth, ImmDt, ImmediateData, LinkNextHeader, Lrh, Msn,
    NakCode, QueueKey, Rdeth, Reth, Syndrome, XrcEth,
};
pub use opcode::{ExtensionHeader, ExtensionHeaders, Form, Opcode, Operation, Place, Service};
pub use packet::{Error, ErrorKind, Packet, Wire};
