//! `nfsrdma-inspect`: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    nfsrdma_inspect::cli::run(std::env::args_os()).into()
}
