//! Writes a large capture for measurements, made by repeating a real one, to standard output:
//! `cargo run --release --example repeat -- rxe-v42 1024 > large.pcap`.
//!
//! The arguments are the name of a capture in `captures/` and the size in MiB.

#![allow(clippy::disallowed_methods, reason = "an example makes its own files")]

use std::io;

#[path = "../tests/it/captures.rs"]
#[allow(dead_code, clippy::panic, reason = "written for the tests, which need more of it")]
mod captures;
#[path = "../benches/repeat.rs"]
#[allow(dead_code, clippy::expect_used, reason = "written for the benchmark, which needs more of it")]
mod repeat;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, size] = arguments.as_slice() else { anyhow::bail!("usage: repeat NAME MIB") };
    let mut capture = repeat::Repeated::of_size(captures::bytes(name), size.parse::<u64>()? << 20);
    io::copy(&mut capture, &mut io::stdout().lock())?;
    Ok(())
}
