//! The table of all faults.

use nfsrdma_dissectors::nfs::field_labels as labels;
use nfsrdma_dissectors::nfs::v3::{Nfsstat3, Procedure as P};
use nfsrdma_dissectors::nfs::v4::Operation as Op;
use nfsrdma_dissectors::rpc::AcceptStat;

use super::server_fault::MockFieldMutation::{
    AddEntry, DuplicateEntry, Flipped, LastFlipped, Less, More, RemoveEntry, Shorter,
};
use super::server_fault::MockFileTreeFault::{KeepsNames, LosesNames, Nothing, Twice};
use super::server_fault::{MockFieldMutation, MockFieldPath, MockFileTreeFault, MockServerFault, MockServerFaultKind};
use crate::transport_faults::MockTransportFault;
use MockFaultOperations::{Nfs3, Nfs4};

/// Operations of one version.
#[derive(Clone, Copy)]
enum MockFaultOperations {
    Nfs3(&'static [P]),
    Nfs4(&'static [Op]),
}

impl MockFaultOperations {
    /// Returns the version and the name of each operation.
    fn names(self) -> impl Iterator<Item = (u32, &'static str)> {
        let (nfs3, nfs4): (&[P], &[Op]) = match self {
            Nfs3(procedures) => (procedures, &[]),
            Nfs4(operations) => (&[], operations),
        };
        let nfs3 = nfs3.iter().map(|procedure| (3, procedure.name()));
        nfs3.chain(nfs4.iter().map(|operation| (4, operation.name())))
    }
}

/// Operations, and their fields with the changes of each.
type MockFaultTable = &'static [(MockFaultOperations, &'static [(MockFieldPath, &'static [MockFieldMutation])])];

/// NFS3ERR_IO and NFS3ERR_ACCES, and the same numbers of NFSv4.
const STATUSES: [u32; 2] = [Nfsstat3::NFS3ERR_IO.0, Nfsstat3::NFS3ERR_ACCES.0];

/// Fields of Replies and their changes. Excluded are operations that the captures of the tests do not contain, values
/// that a server may choose (times, change values, capabilities), and eof of a listing without more names: the client
/// asks once more, and gets none.
const RESULT_FAULTS: MockFaultTable = &[
    (
        Nfs3(&[P::READ]),
        &[
            (&[labels::DATA], &[Flipped, LastFlipped, Shorter]),
            (&[labels::EOF], &[Flipped]),
            (&[labels::COUNT], &[More, Less]),
            (&[labels::FILE_ATTRIBUTES, labels::SIZE], &[More, Less]),
            (&[labels::FILE_ATTRIBUTES, labels::MODE], &[Flipped]),
        ],
    ),
    (
        Nfs3(&[P::WRITE]),
        &[
            (&[labels::COUNT], &[More, Less]),
            (&[labels::COMMITTED], &[Less]),
            (&[labels::VERF], &[Flipped]),
            (&[labels::AFTER, labels::SIZE], &[More, Less]),
        ],
    ),
    (Nfs3(&[P::COMMIT]), &[(&[labels::VERF], &[Flipped]), (&[labels::AFTER, labels::SIZE], &[More])]),
    (
        Nfs3(&[P::LOOKUP, P::GETATTR]),
        &[
            (&[labels::OBJ_ATTRIBUTES, labels::TYPE], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::MODE], &[Flipped]),
            (&[labels::OBJ_ATTRIBUTES, labels::NLINK], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::UID], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::GID], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::SIZE], &[More, Less]),
        ],
    ),
    (Nfs3(&[P::LOOKUP]), &[(&[labels::OBJECT], &[LastFlipped])]),
    (
        Nfs3(&[P::CREATE, P::MKDIR, P::SYMLINK, P::MKNOD]),
        &[
            (&[labels::OBJ], &[LastFlipped]),
            (&[labels::OBJ_ATTRIBUTES, labels::TYPE], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::MODE], &[Flipped]),
        ],
    ),
    (
        Nfs3(&[P::SETATTR]),
        &[
            (&[labels::AFTER, labels::SIZE], &[More]),
            (&[labels::AFTER, labels::MODE], &[Flipped]),
            (&[labels::AFTER, labels::UID], &[More]),
        ],
    ),
    (Nfs3(&[P::LINK]), &[(&[labels::FILE_ATTRIBUTES, labels::NLINK], &[Less])]),
    (Nfs3(&[P::ACCESS]), &[(&[labels::ACCESS], &[Flipped])]),
    (Nfs3(&[P::READLINK]), &[(&[labels::DATA], &[Flipped, LastFlipped, Shorter])]),
    (
        Nfs3(&[P::READDIRPLUS]),
        &[
            (&[labels::ENTRIES], &[RemoveEntry, DuplicateEntry, AddEntry]),
            (&[labels::ENTRIES, labels::NAME], &[Flipped]),
            (&[labels::NAME_HANDLE], &[LastFlipped]),
            (&[labels::NAME_ATTRIBUTES, labels::SIZE], &[More]),
        ],
    ),
    (Nfs4(&[Op::READ]), &[(&[labels::DATA], &[Flipped, LastFlipped, Shorter]), (&[labels::EOF], &[Flipped])]),
    (
        Nfs4(&[Op::WRITE]),
        &[(&[labels::COUNT], &[More, Less]), (&[labels::COMMITTED], &[Less]), (&[labels::WRITEVERF], &[Flipped])],
    ),
    (Nfs4(&[Op::COMMIT]), &[(&[labels::WRITEVERF], &[Flipped])]),
    (
        Nfs4(&[Op::GETATTR]),
        &[
            (&[labels::OBJ_ATTRIBUTES, labels::TYPE], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::MODE], &[Flipped]),
            (&[labels::OBJ_ATTRIBUTES, labels::NUMLINKS], &[More]),
            (&[labels::OBJ_ATTRIBUTES, labels::SIZE], &[More, Less]),
            (&[labels::OBJ_ATTRIBUTES, labels::FILEID], &[More]),
        ],
    ),
    (Nfs4(&[Op::GETFH]), &[(&[labels::OBJECT], &[LastFlipped])]),
    (Nfs4(&[Op::ACCESS]), &[(&[labels::ACCESS], &[Flipped])]),
    (Nfs4(&[Op::READLINK]), &[(&[labels::LINK], &[Flipped, LastFlipped, Shorter])]),
    (
        Nfs4(&[Op::READDIR]),
        &[
            (&[labels::ENTRIES], &[RemoveEntry, DuplicateEntry, AddEntry]),
            (&[labels::ENTRIES, labels::NAME], &[Flipped]),
            (&[labels::ATTRS, labels::SIZE], &[More]),
            (&[labels::ATTRS, labels::MODE], &[Flipped]),
            (&[labels::ATTRS, labels::TYPE], &[More]),
        ],
    ),
    (
        Nfs4(&[Op::OPEN]),
        &[(&[labels::STATEID, labels::OTHER], &[Flipped]), (&[labels::STATEID, labels::SEQID], &[More])],
    ),
    (
        Nfs4(&[Op::OPEN_CONFIRM]),
        &[(&[labels::OPEN_STATEID, labels::OTHER], &[Flipped]), (&[labels::OPEN_STATEID, labels::SEQID], &[More])],
    ),
    (
        Nfs4(&[Op::LOCK, Op::LOCKU]),
        &[(&[labels::LOCK_STATEID, labels::OTHER], &[Flipped]), (&[labels::LOCK_STATEID, labels::SEQID], &[More])],
    ),
    (
        Nfs4(&[Op::SEQUENCE]),
        &[(&[labels::SR_SESSIONID], &[Flipped]), (&[labels::SR_SEQUENCEID], &[More]), (&[labels::SR_SLOTID], &[More])],
    ),
    (Nfs4(&[Op::EXCHANGE_ID]), &[(&[labels::EIR_CLIENTID], &[Flipped]), (&[labels::EIR_SEQUENCEID], &[More])]),
    (Nfs4(&[Op::CREATE_SESSION]), &[(&[labels::CSR_SESSIONID], &[Flipped])]),
    (Nfs4(&[Op::SETCLIENTID]), &[(&[labels::CLIENTID], &[Flipped]), (&[labels::SETCLIENTID_CONFIRM], &[Flipped])]),
];

/// Arguments and their changes before execution.
const ARGUMENT_FAULTS: MockFaultTable = &[
    (Nfs3(&[P::READ]), &[(&[labels::OFFSET], &[More]), (&[labels::COUNT], &[Less]), (&[labels::FILE], &[LastFlipped])]),
    (
        Nfs3(&[P::WRITE]),
        &[(&[labels::DATA], &[Flipped, LastFlipped]), (&[labels::OFFSET], &[More]), (&[labels::FILE], &[LastFlipped])],
    ),
    (Nfs3(&[P::LOOKUP]), &[(&[labels::NAME], &[Flipped]), (&[labels::DIR], &[LastFlipped])]),
    (Nfs3(&[P::CREATE, P::MKDIR, P::SYMLINK, P::MKNOD, P::REMOVE, P::RMDIR]), &[(&[labels::NAME], &[Flipped])]),
    (Nfs3(&[P::CREATE]), &[(&[labels::OBJ_ATTRIBUTES, labels::MODE], &[Flipped])]),
    (Nfs3(&[P::MKDIR]), &[(&[labels::ATTRIBUTES, labels::MODE], &[Flipped])]),
    (Nfs3(&[P::SYMLINK]), &[(&[labels::SYMLINK_DATA], &[Flipped])]),
    (Nfs3(&[P::RENAME]), &[(&[labels::FROM, labels::NAME], &[Flipped]), (&[labels::TO, labels::NAME], &[Flipped])]),
    (Nfs3(&[P::LINK]), &[(&[labels::LINK, labels::NAME], &[Flipped])]),
    (
        Nfs3(&[P::SETATTR]),
        &[
            (&[labels::MODE], &[Flipped]),
            (&[labels::SIZE], &[More]),
            (&[labels::UID], &[More]),
            (&[labels::GID], &[More]),
        ],
    ),
    (Nfs3(&[P::ACCESS]), &[(&[labels::ACCESS], &[Flipped])]),
    (
        Nfs4(&[Op::READ]),
        &[(&[labels::OFFSET], &[More]), (&[labels::COUNT], &[Less]), (&[labels::STATEID, labels::OTHER], &[Flipped])],
    ),
    (
        Nfs4(&[Op::WRITE]),
        &[
            (&[labels::DATA], &[Flipped, LastFlipped]),
            (&[labels::OFFSET], &[More]),
            (&[labels::STATEID, labels::OTHER], &[Flipped]),
        ],
    ),
    (Nfs4(&[Op::LOOKUP]), &[(&[labels::OBJNAME], &[Flipped])]),
    (Nfs4(&[Op::PUTFH]), &[(&[labels::OBJECT], &[LastFlipped])]),
    (
        Nfs4(&[Op::CREATE]),
        &[
            (&[labels::OBJNAME], &[Flipped]),
            (&[labels::CREATEATTRS, labels::MODE], &[Flipped]),
            (&[labels::LINKDATA], &[Flipped]),
        ],
    ),
    (Nfs4(&[Op::OPEN]), &[(&[labels::FILE], &[Flipped]), (&[labels::SHARE_ACCESS], &[More])]),
    (Nfs4(&[Op::CLOSE]), &[(&[labels::OPEN_STATEID, labels::OTHER], &[Flipped])]),
    (Nfs4(&[Op::REMOVE]), &[(&[labels::TARGET], &[Flipped])]),
    (Nfs4(&[Op::RENAME]), &[(&[labels::OLDNAME], &[Flipped]), (&[labels::NEWNAME], &[Flipped])]),
    (Nfs4(&[Op::LINK]), &[(&[labels::NEWNAME], &[Flipped])]),
    (
        Nfs4(&[Op::SETATTR]),
        &[(&[labels::OBJ_ATTRIBUTES, labels::MODE], &[Flipped]), (&[labels::OBJ_ATTRIBUTES, labels::SIZE], &[More])],
    ),
    (Nfs4(&[Op::SEQUENCE]), &[(&[labels::SA_SEQUENCEID], &[More]), (&[labels::SA_SLOTID], &[More])]),
];

/// Operations of NFSv4 that can fail after execution.
const FAILING_NFS4_OPERATIONS: &[Op] = &[
    Op::ACCESS,
    Op::CLOSE,
    Op::COMMIT,
    Op::CREATE,
    Op::GETATTR,
    Op::GETFH,
    Op::LINK,
    Op::LOCK,
    Op::LOCKU,
    Op::LOOKUP,
    Op::OPEN,
    Op::OPEN_CONFIRM,
    Op::PUTFH,
    Op::READ,
    Op::READDIR,
    Op::READLINK,
    Op::REMOVE,
    Op::RENAME,
    Op::SAVEFH,
    Op::RESTOREFH,
    Op::SECINFO_NO_NAME,
    Op::SETATTR,
    Op::SETCLIENTID,
    Op::SETCLIENTID_CONFIRM,
    Op::WRITE,
    Op::RELEASE_LOCKOWNER,
    Op::EXCHANGE_ID,
    Op::CREATE_SESSION,
    Op::DESTROY_SESSION,
    Op::DESTROY_CLIENTID,
    Op::SEQUENCE,
    Op::RECLAIM_COMPLETE,
    Op::FREE_STATEID,
];

/// The file faults of an operation that changes attributes or content of a file.
const ALTERATION_FAULTS: &[MockFileTreeFault] = &[Nothing];
/// Those of an operation that creates a name, if it does not exist. `Twice` is excluded where repetition has the same
/// result.
const OPEN_FAULTS: &[MockFileTreeFault] = &[Nothing, LosesNames];
/// Those of an operation that creates a name that must not exist.
const CREATION_FAULTS: &[MockFileTreeFault] = &[Nothing, Twice, LosesNames];
/// Those of an operation that removes a name.
const REMOVAL_FAULTS: &[MockFileTreeFault] = &[Nothing, Twice, KeepsNames];
/// Those of an operation that renames a name.
const RENAME_FAULTS: &[MockFileTreeFault] = &[Nothing, Twice, KeepsNames, LosesNames];

/// Operations that change files.
const CHANGES: &[(MockFaultOperations, &[MockFileTreeFault])] = &[
    (Nfs3(&[P::SETATTR, P::WRITE]), ALTERATION_FAULTS),
    (Nfs3(&[P::CREATE]), OPEN_FAULTS),
    (Nfs3(&[P::MKDIR, P::SYMLINK, P::MKNOD, P::LINK]), CREATION_FAULTS),
    (Nfs3(&[P::REMOVE, P::RMDIR]), REMOVAL_FAULTS),
    (Nfs3(&[P::RENAME]), RENAME_FAULTS),
    (Nfs4(&[Op::SETATTR, Op::WRITE]), ALTERATION_FAULTS),
    (Nfs4(&[Op::OPEN]), OPEN_FAULTS),
    (Nfs4(&[Op::CREATE, Op::LINK]), CREATION_FAULTS),
    (Nfs4(&[Op::REMOVE]), REMOVAL_FAULTS),
    (Nfs4(&[Op::RENAME]), RENAME_FAULTS),
];

/// Operations for transport faults: one with a Write chunk, one with a Read chunk, and two without chunks.
const TRANSPORT_OPERATIONS: &[MockFaultOperations] =
    &[Nfs3(&[P::READ, P::WRITE, P::LOOKUP, P::REMOVE]), Nfs4(&[Op::READ, Op::WRITE, Op::REMOVE, Op::CLOSE])];

/// Transport faults. A late Reply and other credits are not faults of the server.
const FAULTS: &[MockTransportFault] = &[
    MockTransportFault::NoReply,
    MockTransportFault::BreakBefore,
    MockTransportFault::BreakAfter,
    MockTransportFault::ErrVers,
    MockTransportFault::ErrChunk,
    MockTransportFault::Twice,
    MockTransportFault::OtherXid,
    MockTransportFault::CutHeader,
    MockTransportFault::CutMessage,
];

/// Transport faults of chunks.
const CHUNK_FAULTS: &[MockTransportFault] = &[
    MockTransportFault::MoreThanOffered,
    MockTransportFault::OtherHandle,
    MockTransportFault::OtherByte,
    MockTransportFault::LessThanWritten,
    MockTransportFault::MoreThanWritten,
    MockTransportFault::Unwritten,
    MockTransportFault::NotReturned,
];

/// Refusals of RPC. RFC 5531 section 9.
const REFUSALS: [AcceptStat; 3] = [AcceptStat::PROC_UNAVAIL, AcceptStat::GARBAGE_ARGS, AcceptStat::SYSTEM_ERR];

/// Returns all faults, in the order of the tables.
pub fn all() -> Vec<MockServerFault> {
    let mut catalog = Vec::new();
    let mut add = |version, operation, kind| catalog.push(MockServerFault { version, operation, kind });
    let rows = [
        (RESULT_FAULTS, MockServerFaultKind::WrongResult as fn(_, _) -> _),
        (ARGUMENT_FAULTS, MockServerFaultKind::WrongArgument),
    ];
    for (rows, constructor) in rows {
        for (operations, fields) in rows {
            for (version, operation) in operations.names() {
                for (field, changes) in *fields {
                    changes.iter().for_each(|change| add(version, operation, constructor(field, *change)));
                }
            }
        }
    }
    // All procedures except NULL, and READDIR, which the captures of the tests do not contain.
    let failing_nfs3: Vec<P> =
        P::ALL.iter().copied().filter(|procedure| ![P::NULL, P::READDIR].contains(procedure)).collect();
    let failing_nfs3 = failing_nfs3.iter().map(|procedure| (3, procedure.name()));
    for (version, operation) in failing_nfs3.chain(Nfs4(FAILING_NFS4_OPERATIONS).names()) {
        STATUSES.into_iter().for_each(|status| add(version, operation, MockServerFaultKind::WrongStatus(status)));
    }
    for (operations, faults) in CHANGES {
        for (version, operation) in operations.names() {
            faults.iter().for_each(|fault| add(version, operation, MockServerFaultKind::WrongFiles(*fault)));
        }
    }
    for (version, operation) in TRANSPORT_OPERATIONS.iter().flat_map(|operations| operations.names()) {
        FAULTS.iter().for_each(|fault| add(version, operation, MockServerFaultKind::WrongTransport(*fault)));
        REFUSALS.iter().for_each(|stat| add(version, operation, MockServerFaultKind::Refuses(*stat)));
        if Op::READ.name() == operation {
            CHUNK_FAULTS.iter().for_each(|fault| add(version, operation, MockServerFaultKind::WrongTransport(*fault)));
        }
    }
    catalog
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn more_than_200_faults_have_distinct_names() {
        let names: BTreeSet<String> = all().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() > 200, "{}", names.len());
    }
}
