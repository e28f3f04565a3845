//! The NFSv4 client of this program, for everything but the steps of a trace: set-up, prologue, final check, removal
//! and probe.
//!
//! [`client`] is a state machine without socket and clock, [`caller`] executes it over RPC. [`remedy`] is the table of
//! what a status asks of a client, which the recovery of a run uses, too; [`backoff`] limits the waiting.

pub(crate) mod backoff;
pub(crate) mod caller;
pub(crate) mod client;
pub(crate) mod operations;
pub(crate) mod remedy;
