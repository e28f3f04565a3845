//! The program and its rooms from outside, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says so by failing, in its helper functions too"
)]

mod command_line;
mod generated;
mod readers;
