//! `nfsrdma-inspect`: passes the arguments to the library and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    nfsrdma_inspect::cli::run(std::env::args_os()).into()
}
