//! Driving the work of a capture again, against a live server; and asking a server what it offers.
//!
//! [`compile`] makes a [`trace`] of a capture, from which a [`tree`] of files follows, and [`plan`] tells what a run will do.
//! [`transport`] carries RPC messages, over RDMA, over TCP, or to a server inside the program. [`url`] is how a server is
//! named, [`rpc_client`] makes one Call at a time, [`reply_size`] tells how long its Reply can be, [`gss`] signs Calls, [`auxiliary_programs`] asks MOUNT, NLM and the port mapper, and [`probe`] asks a server what it
//! offers.

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
