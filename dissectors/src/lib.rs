//! From the bytes of a frame to the meaning of an NFS operation.
//!
//! No I/O, no clock, no threads, no unsafe: bytes in, meaning out.
#![forbid(unsafe_code)]

pub mod address;
pub mod catalog;
pub mod field;
pub mod flow;
pub mod frame;
pub mod header;
pub mod infiniband;
pub mod iwarp;
pub mod net;
pub mod nfs;
pub mod rdma;
pub mod rpc;
pub mod rpcrdma;
pub mod xdr;
