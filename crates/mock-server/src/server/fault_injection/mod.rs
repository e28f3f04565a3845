//! A faulty server: one Reply is wrong in one respect, all others are correct.
//!
//! It is for tests of reply verification. A [`MockServerFault`] is a row of a [`fault_catalog`](all): an operation and
//! the fault in it. The fault is injected once, on the first occasion, and injections are counted: a fault that was
//! never injected proves nothing about the verification.

mod fault_catalog;
pub(super) mod fault_injector;
mod faulty_execution;
mod message_field_locations;
mod server_fault;

pub(super) use message_field_locations::words_after;

pub use fault_catalog::all;
pub use fault_injector::MockFaultInjector;
pub use server_fault::{MockFieldMutation, MockFieldPath, MockFileTreeFault, MockServerFault, MockServerFaultKind};
