//! The limits of a file system in NFSv3: FSINFO. RFC 1813 section 3.3.19.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::{Args, Fsinfo3Resok, Fsroot3Args, Procedure as Nfs, Results};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::Opaque;
use nfsrdma_rpc::synchronous_client::{RpcClient, SynchronousProcedureCall};

/// Maximum length of FSINFO results in bytes: status, attributes, limits.
const FSINFO: u32 = 4 + 4 + 84 + 48;

pub(super) fn probe_v3(line: &mut RpcClient<'_>, root: &[u8]) -> Result<Fsinfo3Resok, String> {
    let arguments = Args::FSINFO(Fsroot3Args { fsroot: Opaque(root) });
    let found = line.call(
        &SynchronousProcedureCall::new(Program::NFS, 3, Nfs::FSINFO.0, FSINFO),
        |encoder| arguments.encode(encoder),
        |cursor| {
            Ok(match Results::decode(Nfs::FSINFO, cursor, &mut NullFieldObserver)? {
                Results::FSINFO(StatusUnion::Ok(limits)) => Ok(limits),
                Results::FSINFO(failed) => Err(format!("FSINFO: {}", failed.status())),
                _ => Err("FSINFO: another result".into()),
            })
        },
    );
    found.unwrap_or_else(|error| Err(format!("FSINFO: {error}")))
}
