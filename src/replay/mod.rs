//! Driving the work of a capture again, against a live server; and asking a server what it offers.
//!
//! [`transport`] carries RPC messages, over RDMA, over TCP, or to a server inside the program.

pub mod compile;
pub mod trace;
pub mod transport;
