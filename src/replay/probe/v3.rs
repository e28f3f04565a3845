//! The limits of a file system under NFSv3: FSINFO. RFC 1813 section 3.3.19.

use nfsrdma_dissectors::field::NullObserver;
use nfsrdma_dissectors::nfs::v3::{Args, Fsroot3Args, Procedure as Nfs, Results};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Opaque;

use crate::replay::rpc_client::{ProcedureCall, RpcClient};

/// The longest results of FSINFO: status, attributes, limits.
const FSINFO: u32 = 4 + 4 + 84 + 48;

/// What a server says about a file system: the fields of FSINFO3resok, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nfs3ProbeReport {
    /// The longest READ.
    pub rtmax: u32,
    /// The READ that it likes best.
    pub rtpref: u32,
    /// What a READ should be a multiple of.
    pub rtmult: u32,
    /// The longest WRITE.
    pub wtmax: u32,
    /// The WRITE that it likes best.
    pub wtpref: u32,
    /// What a WRITE should be a multiple of.
    pub wtmult: u32,
    /// The READDIR that it likes best.
    pub dtpref: u32,
    /// The longest file.
    pub maxfilesize: u64,
}

pub(super) fn ask(line: &mut RpcClient<'_>, root: &[u8]) -> Result<Nfs3ProbeReport, String> {
    let arguments = Args::FSINFO(Fsroot3Args { fsroot: Opaque(root) });
    let found = line.call(
        &ProcedureCall::new(Program::NFS, 3, Nfs::FSINFO.0, FSINFO),
        |encoder| arguments.encode(encoder),
        |cursor| {
            Ok(match Results::decode(Nfs::FSINFO, cursor, &mut NullObserver)? {
                Results::FSINFO(outcome) => outcome.ok().map_or_else(
                    || Err(format!("FSINFO: {}", outcome.status())),
                    |info| {
                        Ok(Nfs3ProbeReport {
                            rtmax: info.rtmax,
                            rtpref: info.rtpref,
                            rtmult: info.rtmult,
                            wtmax: info.wtmax,
                            wtpref: info.wtpref,
                            wtmult: info.wtmult,
                            dtpref: info.dtpref,
                            maxfilesize: info.maxfilesize,
                        })
                    },
                ),
                _ => Err("FSINFO: another result".into()),
            })
        },
    );
    found.unwrap_or_else(|error| Err(format!("FSINFO: {error}")))
}
