//! Replay of captured traffic against a live server, and server capability probes.
//!
//! [`compile`] converts a capture to a [`trace`], from which the [`tree`] of files is inferred. [`plan`] lists what a
//! run will do. [`transport`] carries RPC messages over RDMA or TCP. [`url`] parses
//! server URLs. [`rpc_client`] makes one Call at a time, [`reply_size`] bounds the size of its Reply, [`gss`] signs
//! Calls, [`auxiliary_programs`] calls MOUNT, NLM and the port mapper, and [`probe`] queries the capabilities of a
//! server.

pub mod auxiliary_programs;
pub mod compile;
pub mod containment;
pub mod gss;
pub mod plan;
pub mod probe;
pub mod reply_size;
pub mod rpc_client;
pub mod run;
pub mod seed;
pub mod trace;
pub mod transport;
pub mod tree;
pub mod url;
