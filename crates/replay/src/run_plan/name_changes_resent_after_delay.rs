//! Calls that change names and that the captured server asked to send again later.
//!
//! The captured client sent such a call again. A live server that executes the first one would refuse the second, as no
//! name can be created or removed twice, or would create a file too early. Only the one that the captured server
//! executed is replayed. An OPEN without CREATE may be sent twice: the second one of the same open-owner changes the same open,
//! which one CLOSE ends. RFC 8881 section 9.9.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Args, Nfsstat4, Openflag4, Results};
use nfsrdma_dissectors::nfs::{Procedure, v3};
use nfsrdma_nfs_model::{self as model, Naming};

use crate::trace::step::{TraceStep, VariableUseKind};

/// Returns `true` if a status asks to send the Call again later: NFS4ERR_DELAY (the number of NFS3ERR_JUKEBOX, RFC 1813
/// section 2.6) or NFS4ERR_GRACE.
fn is_delay(status: u32) -> bool {
    matches!(Nfsstat4(status), Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE)
}

/// Returns `true` if the operation changes names: it may fail after it was executed once.
fn must_be_sent_once(operation: &Args<'_>) -> bool {
    match operation {
        Args::OPEN(open) => matches!(open.openhow, Openflag4::Create(_)),
        operation => model::v4::meaning(operation.operation()).naming != Naming::Kept,
    }
}

/// Returns `true` if the operation changes nothing that a later step depends on.
fn only_reads(operation: &Args<'_>) -> bool {
    model::v4::meaning(operation.operation()).again.is_read()
}

fn is_delayed_compound(step: &TraceStep<'_>) -> bool {
    let (items, reply_items) = (step.call.items(), step.reply.items());
    let mut call = step.call.body_cursor().with_chunks(&items);
    let mut reply = step.reply.body_cursor().with_chunks(&reply_items);
    let Ok(call) = v4::CompoundCall::decode(&mut call, &mut NullFieldObserver) else { return false };
    let Ok(reply) = v4::CompoundReply::decode(&mut reply, &mut NullFieldObserver) else { return false };
    let results = reply.operations().map_while(Result::ok);
    let statuses: Vec<_> = results.map(|results: Results<'_>| results.status().0).collect();
    let Some((last, earlier)) = statuses.split_last() else { return false };
    let mut operations = call.operations().map_while(Result::ok);
    is_delay(*last)
        && operations.by_ref().take(earlier.len()).all(|operation| only_reads(&operation))
        && operations.next().is_some_and(|operation| must_be_sent_once(&operation))
}

/// Returns `true` if the step changes names, was not executed in the capture because the server asked to send it again
/// later, and gives no value that other steps use.
pub(super) fn is_delayed_change(step: &TraceStep<'_>) -> bool {
    // Most Replies do not contain such a status anywhere and need not be decoded.
    let mut words = step.reply.head.0.chunks_exact(4);
    if !words.any(|word| word.try_into().map(u32::from_be_bytes).is_ok_and(is_delay)) {
        return false;
    }
    let is_needed =
        step.reply.slots.iter().any(|slot| slot.part == VariableUseKind::DEFINED && !slot.value_kind.is_count());
    if is_needed {
        return false;
    }
    match step.procedure.find_description() {
        Some(Procedure::Compound) => is_delayed_compound(step),
        Some(procedure @ Procedure::V3(of)) => {
            let changes_names = matches!(
                of,
                v3::Procedure::CREATE
                    | v3::Procedure::MKDIR
                    | v3::Procedure::SYMLINK
                    | v3::Procedure::MKNOD
                    | v3::Procedure::LINK
                    | v3::Procedure::REMOVE
                    | v3::Procedure::RMDIR
                    | v3::Procedure::RENAME
            );
            let status = || procedure.status(step.reply.body_cursor()).ok().flatten();
            changes_names && status().is_some_and(|status| is_delay(status.number))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{
        Bitmap4, Createhow4, Creatverfattr, Fattr4, Open4Args, OpenClaim4, OpenOwner4, Opentype4, ShareAccess,
        ShareDeny,
    };
    use nfsrdma_dissectors::xdr::{Opaque, Text};

    use super::*;

    fn open(openhow: Openflag4<'_>) -> Args<'_> {
        Args::OPEN(Open4Args {
            seqid: 0,
            share_access: ShareAccess(1),
            share_deny: ShareDeny(0),
            owner: OpenOwner4 { clientid: 0, owner: Opaque(b"o") },
            openhow,
            claim: OpenClaim4::Null(Text(b"f")),
        })
    }

    /// The captured server delayed it: the client's next OPEN creates the file. RFC 8881 section 15.1.1.3.
    #[test]
    fn delayed_open_with_create_runs_once() {
        let none = || Fattr4::new(Bitmap4::default(), Opaque(b""));
        for how in [
            Createhow4::Unchecked(none()),
            Createhow4::Guarded(none()),
            Createhow4::Exclusive([7; 8]),
            Createhow4::Exclusive41(Creatverfattr { cva_verf: [7; 8], cva_attrs: none() }),
        ] {
            assert!(must_be_sent_once(&open(Openflag4::Create(how))));
        }
        assert!(!must_be_sent_once(&open(Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE))));
    }
}
