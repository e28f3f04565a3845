//! The tests of `it` that `make test` runs: those that need a Rust toolchain and a C compiler alone. A binary of their
//! own, as all of `it` takes three times as long to compile. `main.rs` has them too, so that nothing runs this one unless
//! it is asked for by name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking, in its helper functions too"
)]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]
#![allow(dead_code, reason = "the other parts of `it` need more of the helper functions")]

mod captures;
mod checks;
mod command_line;
mod display_filter;
mod generated;
mod golden;
mod lint;
mod manual;
mod mutations;
mod outputs;
mod program;
mod schema;
mod skipped;
mod traces;
mod tunnels;
mod words;
