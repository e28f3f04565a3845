//! The limits of a file system in NFSv3: FSINFO. RFC 1813 section 3.3.19.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v3::{Args, Fsroot3Args, Procedure as Nfs, Results};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Opaque;
use nfsrdma_rpc::synchronous_client::{RpcClient, SynchronousProcedureCall};

/// Maximum length of FSINFO results in bytes: status, attributes, limits.
const FSINFO: u32 = 4 + 4 + 84 + 48;

/// The limits of a file system: the fields of FSINFO3resok, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedNfs3FsinfoLimits {
    /// Maximum length of a READ.
    pub rtmax: u32,
    /// Preferred length of a READ.
    pub rtpref: u32,
    /// Recommended multiple for READ lengths.
    pub rtmult: u32,
    /// Maximum length of a WRITE.
    pub wtmax: u32,
    /// Preferred length of a WRITE.
    pub wtpref: u32,
    /// Recommended multiple for WRITE lengths.
    pub wtmult: u32,
    /// Preferred length of a READDIR.
    pub dtpref: u32,
    /// Maximum size of a file.
    pub maxfilesize: u64,
}

pub(super) fn probe_v3(line: &mut RpcClient<'_>, root: &[u8]) -> Result<ProbedNfs3FsinfoLimits, String> {
    let arguments = Args::FSINFO(Fsroot3Args { fsroot: Opaque(root) });
    let found = line.call(
        &SynchronousProcedureCall::new(Program::NFS, 3, Nfs::FSINFO.0, FSINFO),
        |encoder| arguments.encode(encoder),
        |cursor| {
            Ok(match Results::decode(Nfs::FSINFO, cursor, &mut NullFieldObserver)? {
                Results::FSINFO(outcome) => outcome.ok().map_or_else(
                    || Err(format!("FSINFO: {}", outcome.status())),
                    |info| {
                        Ok(ProbedNfs3FsinfoLimits {
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
