//! Dissectors: decode the bytes of a frame up to the NFS operations in it.
//!
//! No I/O, no clock, no threads, no unsafe code.
#![forbid(unsafe_code)]

pub mod address;
pub mod captured_frame;
pub mod catalog;
pub mod enumerator_names;
pub mod field;
pub mod field_names;
pub mod fixed_header;
pub mod infiniband;
pub mod iwarp;
pub mod memory_handle;
pub mod net;
pub mod nfs;
pub mod rpc;
pub mod rpcrdma;
pub mod xdr;
