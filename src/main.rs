//! `nfsrdma-inspect`: arguments in, exit code out.

fn main() {}
