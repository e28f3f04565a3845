//! Option `--dialect` of RPC-over-RDMA.

use clap::{Args, ValueEnum};
use nfsrdma_dissectors::rpcrdma::Dialect;

/// The dialect in which messages of RPC-over-RDMA are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RpcRdmaDialectArg {
    /// Detect the dialect of each connection
    #[default]
    Auto,
    /// Prototype of 2003 ("NFS over RDMA", Callaghan et al.), with a single chunk list
    Prototype,
    /// Version 1 with RDMA_MSGP, RDMA_DONE and Read lists in replies
    Rfc5666,
    /// Version 1
    Rfc8166,
    /// Version 2: draft-ietf-nfsv4-rpcrdma-version-two
    V2,
}

/// The option.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct CaptureDialectArgs {
    /// RPC-over-RDMA dialect
    #[arg(long, value_name = "DIALECT", default_value = "auto", hide_short_help = true)]
    dialect: RpcRdmaDialectArg,
}

impl CaptureDialectArgs {
    /// Returns the selected dialect; `None` to detect it per connection.
    pub(super) fn selected(self) -> Option<Dialect> {
        match self.dialect {
            RpcRdmaDialectArg::Auto => None,
            RpcRdmaDialectArg::Prototype => Some(Dialect::Prototype),
            RpcRdmaDialectArg::Rfc5666 => Some(Dialect::Rfc5666),
            RpcRdmaDialectArg::Rfc8166 => Some(Dialect::Rfc8166),
            RpcRdmaDialectArg::V2 => Some(Dialect::Version2),
        }
    }
}
