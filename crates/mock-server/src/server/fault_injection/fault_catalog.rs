//! The table of all faults.

use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::rpc::AcceptStat;

use super::server_fault::MockFieldMutation::{
    AddEntry, DuplicateEntry, Flipped, LastFlipped, Less, More, RemoveEntry, Shorter,
};
use super::server_fault::MockFileTreeFault::{KeepsNames, LosesNames, Nothing, Twice};
use super::server_fault::{MockFieldMutation, MockFileTreeFault, MockServerFault, MockServerFaultKind};
use crate::transport_faults::MockTransportFault;

/// Operations of one version, and their fields with the changes of each.
type MockFaultTable =
    &'static [(u32, &'static [&'static str], &'static [(&'static str, &'static [MockFieldMutation])])];

/// NFS3ERR_IO and NFS3ERR_ACCES, and the same numbers of NFSv4.
const STATUSES: [u32; 2] = [5, 13];

/// Fields of Replies and their changes. Excluded are operations that the captures of the tests do not contain, values
/// that a server may choose (times, change values, capabilities), and eof of an NFSv4 READDIR without more names: the
/// client asks once more, and gets none.
const RESULT_FAULTS: MockFaultTable = &[
    (
        3,
        &["READ"],
        &[
            ("data", &[Flipped, LastFlipped, Shorter]),
            ("eof", &[Flipped]),
            ("count", &[More, Less]),
            ("file_attributes.size", &[More, Less]),
            ("file_attributes.mode", &[Flipped]),
        ],
    ),
    (
        3,
        &["WRITE"],
        &[
            ("count", &[More, Less]),
            ("committed", &[Less]),
            ("verf", &[Flipped]),
            ("after.size", &[More, Less]),
        ],
    ),
    (3, &["COMMIT"], &[("verf", &[Flipped]), ("after.size", &[More])]),
    (
        3,
        &["LOOKUP", "GETATTR"],
        &[
            ("obj_attributes.type", &[More]),
            ("obj_attributes.mode", &[Flipped]),
            ("obj_attributes.nlink", &[More]),
            ("obj_attributes.uid", &[More]),
            ("obj_attributes.gid", &[More]),
            ("obj_attributes.size", &[More, Less]),
        ],
    ),
    (3, &["LOOKUP"], &[("object", &[LastFlipped])]),
    (
        3,
        &["CREATE", "MKDIR", "SYMLINK", "MKNOD"],
        &[("obj", &[LastFlipped]), ("obj_attributes.type", &[More]), ("obj_attributes.mode", &[Flipped])],
    ),
    (3, &["SETATTR"], &[("after.size", &[More]), ("after.mode", &[Flipped]), ("after.uid", &[More])]),
    (3, &["LINK"], &[("file_attributes.nlink", &[Less])]),
    (3, &["ACCESS"], &[("access", &[Flipped])]),
    (3, &["READLINK"], &[("data", &[Flipped, LastFlipped, Shorter])]),
    (
        3,
        &["READDIRPLUS"],
        &[
            ("entries", &[RemoveEntry, DuplicateEntry, AddEntry]),
            ("entries.name", &[Flipped]),
            ("eof", &[Flipped]),
            ("name_handle", &[LastFlipped]),
            ("name_attributes.size", &[More]),
        ],
    ),
    (4, &["READ"], &[("data", &[Flipped, LastFlipped, Shorter]), ("eof", &[Flipped])]),
    (4, &["WRITE"], &[("count", &[More, Less]), ("committed", &[Less]), ("writeverf", &[Flipped])]),
    (4, &["COMMIT"], &[("writeverf", &[Flipped])]),
    (
        4,
        &["GETATTR"],
        &[
            ("obj_attributes.type", &[More]),
            ("obj_attributes.mode", &[Flipped]),
            ("obj_attributes.numlinks", &[More]),
            ("obj_attributes.size", &[More, Less]),
            ("obj_attributes.fileid", &[More]),
        ],
    ),
    (4, &["GETFH"], &[("object", &[LastFlipped])]),
    (4, &["ACCESS"], &[("access", &[Flipped])]),
    (4, &["READLINK"], &[("link", &[Flipped, LastFlipped, Shorter])]),
    (
        4,
        &["READDIR"],
        &[
            ("entries", &[RemoveEntry, DuplicateEntry, AddEntry]),
            ("entries.name", &[Flipped]),
            ("attrs.size", &[More]),
            ("attrs.mode", &[Flipped]),
            ("attrs.type", &[More]),
        ],
    ),
    (4, &["OPEN"], &[("stateid.other", &[Flipped]), ("stateid.seqid", &[More])]),
    (4, &["OPEN_CONFIRM"], &[("open_stateid.other", &[Flipped]), ("open_stateid.seqid", &[More])]),
    (4, &["LOCK", "LOCKU"], &[("lock_stateid.other", &[Flipped]), ("lock_stateid.seqid", &[More])]),
    (4, &["SEQUENCE"], &[("sr_sessionid", &[Flipped]), ("sr_sequenceid", &[More]), ("sr_slotid", &[More])]),
    (4, &["EXCHANGE_ID"], &[("eir_clientid", &[Flipped]), ("eir_sequenceid", &[More])]),
    (4, &["CREATE_SESSION"], &[("csr_sessionid", &[Flipped])]),
    (4, &["SETCLIENTID"], &[("clientid", &[Flipped]), ("setclientid_confirm", &[Flipped])]),
];

/// Arguments and their changes before execution.
const ARGUMENT_FAULTS: MockFaultTable = &[
    (3, &["READ"], &[("offset", &[More]), ("count", &[Less]), ("file", &[LastFlipped])]),
    (3, &["WRITE"], &[("data", &[Flipped, LastFlipped]), ("offset", &[More]), ("file", &[LastFlipped])]),
    (3, &["LOOKUP"], &[("name", &[Flipped]), ("dir", &[LastFlipped])]),
    (3, &["CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR"], &[("name", &[Flipped])]),
    (3, &["CREATE"], &[("obj_attributes.mode", &[Flipped])]),
    (3, &["MKDIR"], &[("attributes.mode", &[Flipped])]),
    (3, &["SYMLINK"], &[("symlink_data", &[Flipped])]),
    (3, &["RENAME"], &[("from.name", &[Flipped]), ("to.name", &[Flipped])]),
    (3, &["LINK"], &[("link.name", &[Flipped])]),
    (3, &["SETATTR"], &[("mode", &[Flipped]), ("size", &[More]), ("uid", &[More]), ("gid", &[More])]),
    (3, &["ACCESS"], &[("access", &[Flipped])]),
    (4, &["READ"], &[("offset", &[More]), ("count", &[Less]), ("stateid.other", &[Flipped])]),
    (4, &["WRITE"], &[("data", &[Flipped, LastFlipped]), ("offset", &[More]), ("stateid.other", &[Flipped])]),
    (4, &["LOOKUP"], &[("objname", &[Flipped])]),
    (4, &["PUTFH"], &[("object", &[LastFlipped])]),
    (4, &["CREATE"], &[("objname", &[Flipped]), ("createattrs.mode", &[Flipped]), ("linkdata", &[Flipped])]),
    (4, &["OPEN"], &[("file", &[Flipped]), ("share_access", &[More])]),
    (4, &["CLOSE"], &[("open_stateid.other", &[Flipped])]),
    (4, &["REMOVE"], &[("target", &[Flipped])]),
    (4, &["RENAME"], &[("oldname", &[Flipped]), ("newname", &[Flipped])]),
    (4, &["LINK"], &[("newname", &[Flipped])]),
    (4, &["SETATTR"], &[("obj_attributes.mode", &[Flipped]), ("obj_attributes.size", &[More])]),
    (4, &["SEQUENCE"], &[("sa_sequenceid", &[More]), ("sa_slotid", &[More])]),
];

/// Operations of NFSv4 that can fail after execution.
const FAILING_NFS4_OPERATIONS: &[&str] = &[
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKU",
    "LOOKUP",
    "OPEN",
    "OPEN_CONFIRM",
    "PUTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "SAVEFH",
    "RESTOREFH",
    "SECINFO_NO_NAME",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "DESTROY_CLIENTID",
    "SEQUENCE",
    "RECLAIM_COMPLETE",
    "FREE_STATEID",
];

/// The file faults of an operation that changes attributes or content of a file.
const ALTERS: &[MockFileTreeFault] = &[Nothing];
/// Those of an operation that creates a name, if it does not exist. `Twice` is excluded where repetition has the same
/// result.
const OPENS: &[MockFileTreeFault] = &[Nothing, LosesNames];
/// Those of an operation that creates a name that must not exist.
const MAKES: &[MockFileTreeFault] = &[Nothing, Twice, LosesNames];
/// Those of an operation that removes a name.
const REMOVES: &[MockFileTreeFault] = &[Nothing, Twice, KeepsNames];
/// Those of an operation that renames a name.
const RENAMES: &[MockFileTreeFault] = &[Nothing, Twice, KeepsNames, LosesNames];

/// Operations that change files.
const CHANGES: &[(u32, &[MockFileTreeFault], &[&str])] = &[
    (3, ALTERS, &["SETATTR", "WRITE"]),
    (3, OPENS, &["CREATE"]),
    (3, MAKES, &["MKDIR", "SYMLINK", "MKNOD", "LINK"]),
    (3, REMOVES, &["REMOVE", "RMDIR"]),
    (3, RENAMES, &["RENAME"]),
    (4, ALTERS, &["SETATTR", "WRITE"]),
    (4, OPENS, &["OPEN"]),
    (4, MAKES, &["CREATE", "LINK"]),
    (4, REMOVES, &["REMOVE"]),
    (4, RENAMES, &["RENAME"]),
];

/// Operations for transport faults: one with a Write chunk, one with a Read chunk, and two without chunks.
const TRANSPORT_OPERATIONS: &[(u32, &[&str])] =
    &[(3, &["READ", "WRITE", "LOOKUP", "REMOVE"]), (4, &["READ", "WRITE", "REMOVE", "CLOSE"])];

/// Transport faults. A late Reply and other credits are no faults of the server.
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
const REFUSALS: [AcceptStat; 3] =
    [AcceptStat::PROC_UNAVAIL, AcceptStat::GARBAGE_ARGS, AcceptStat::SYSTEM_ERR];

/// Returns all faults, in the order of the tables.
pub fn all() -> Vec<MockServerFault> {
    let mut catalog = Vec::new();
    let mut add = |version, operation, kind| catalog.push(MockServerFault { version, operation, what: kind });
    let rows = [
        (RESULT_FAULTS, MockServerFaultKind::WrongResult as fn(_, _) -> _),
        (ARGUMENT_FAULTS, MockServerFaultKind::WrongArgument),
    ];
    for (rows, constructor) in rows {
        for (version, operations, fields) in rows {
            for operation in *operations {
                for (field, changes) in *fields {
                    changes.iter().for_each(|change| add(*version, operation, constructor(field, *change)));
                }
            }
        }
    }
    let pairs = |rows: &'static [(u32, &'static [&'static str])]| {
        rows.iter()
            .flat_map(|(version, operations)| operations.iter().map(|operation| (*version, *operation)))
    };
    // All procedures except NULL, and READDIR, which the captures of the tests do not contain.
    let nfs3_procedures = (1..).map(v3::Procedure).map_while(v3::Procedure::name);
    let failing_nfs3 = nfs3_procedures.filter(|name| *name != "READDIR").map(|name| (3, name));
    for (version, operation) in failing_nfs3.chain(FAILING_NFS4_OPERATIONS.iter().map(|name| (4, *name))) {
        STATUSES
            .into_iter()
            .for_each(|status| add(version, operation, MockServerFaultKind::WrongStatus(status)));
    }
    for (version, faults, operations) in CHANGES {
        for operation in *operations {
            faults.iter().for_each(|fault| add(*version, operation, MockServerFaultKind::WrongFiles(*fault)));
        }
    }
    for (version, operation) in pairs(TRANSPORT_OPERATIONS) {
        FAULTS.iter().for_each(|fault| add(version, operation, MockServerFaultKind::WrongTransport(*fault)));
        REFUSALS.iter().for_each(|stat| add(version, operation, MockServerFaultKind::Refuses(*stat)));
        if operation == "READ" {
            CHUNK_FAULTS
                .iter()
                .for_each(|fault| add(version, operation, MockServerFaultKind::WrongTransport(*fault)));
        }
    }
    catalog
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_lie_has_a_name_of_its_own_and_there_are_more_than_200() {
        let names: BTreeSet<String> = all().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() > 200, "{}", names.len());
    }
}
