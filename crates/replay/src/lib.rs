//! Replay of captured traffic against a live server, and server capability probes.
//!
//! [`compile`] converts a capture to a [`trace`], from which the [`tree`] of files is inferred. [`run_plan`] lists what
//! a run will do. [`reply_size`] bounds the size of a Reply, [`auxiliary_programs`] calls MOUNT, NLM and the port
//! mapper, and [`probe`] queries the capabilities of a server. The RPC client with its transports is [`nfsrdma_rpc`].

#[macro_use]
mod coded_reasons;

pub mod auxiliary_programs;
pub mod compile;
pub mod containment;
mod nfs4;
pub mod probe;
pub mod reply_size;
pub mod run;
pub mod run_plan;
pub mod seed;
pub mod trace;
pub mod tree;

use nfsrdma_rpc::synchronous_client::AuthSysCredential;

/// Name of the program in the names of clients and machines.
const PROGRAM: &str = "nfsrdma-inspect";

/// Returns an AUTH_SYS credential of root, which most servers map to nobody, with the name of this program as the
/// machine name.
pub fn root_credential() -> AuthSysCredential {
    AuthSysCredential { machine: PROGRAM.into(), ..AuthSysCredential::default() }
}
