//! The lies that there are.

use nfsrdma_dissectors::rpc::AcceptStat;

use super::Change::{Again, Another, Flipped, LastFlipped, Less, More, Shorter, Without};
use super::{Change, Deed, Fault, Lie, What};

/// Operations of one version, and their fields with the ways in which each can be otherwise.
type Rows = &'static [(u32, &'static [&'static str], &'static [(&'static str, &'static [Change])])];

/// NFS3ERR_IO, NFS3ERR_ACCES and the same of NFSv4.
const STATUSES: [u32; 2] = [5, 13];

/// What a Reply may say otherwise. Not here are operations that the captures do not have which lies are told in, and what a
/// server may say as it likes: times, change values, capabilities. That READDIR of NFSv4 has no eof where there are no more
/// names is not here either: the client asks once more, and gets none.
const SAYS: Rows = &[
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
            ("entries", &[Without, Again, Another]),
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
            ("entries", &[Without, Again, Another]),
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

/// What may be done as if it had been asked for otherwise.
const DOES: Rows = &[
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

/// What may fail though it was done.
const FAILS: &[(u32, &[&str])] = &[
    (
        3,
        &[
            "GETATTR",
            "SETATTR",
            "LOOKUP",
            "ACCESS",
            "READLINK",
            "READ",
            "WRITE",
            "CREATE",
            "MKDIR",
            "SYMLINK",
            "MKNOD",
            "REMOVE",
            "RMDIR",
            "RENAME",
            "LINK",
            "READDIRPLUS",
            "FSSTAT",
            "FSINFO",
            "PATHCONF",
            "COMMIT",
        ],
    ),
    (
        4,
        &[
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
        ],
    ),
];

/// What an operation changes of files, which says in what ways it can leave them otherwise.
#[derive(Clone, Copy)]
enum Effect {
    /// What a file is and holds.
    Alters,
    /// A name comes, if it is not there yet.
    Opens,
    /// A name comes that must not be there yet.
    Makes,
    /// A name goes.
    Removes,
    /// A name becomes another.
    Renames,
}

impl Effect {
    /// What may become of the files instead. What may be done again with no other outcome is not done twice.
    const fn deeds(self) -> &'static [Deed] {
        match self {
            Self::Alters => &[Deed::Nothing],
            Self::Opens => &[Deed::Nothing, Deed::LosesNames],
            Self::Makes => &[Deed::Nothing, Deed::Twice, Deed::LosesNames],
            Self::Removes => &[Deed::Nothing, Deed::Twice, Deed::KeepsNames],
            Self::Renames => &[Deed::Nothing, Deed::Twice, Deed::KeepsNames, Deed::LosesNames],
        }
    }
}

/// What changes files.
const CHANGES: &[(u32, Effect, &[&str])] = &[
    (3, Effect::Alters, &["SETATTR", "WRITE"]),
    (3, Effect::Opens, &["CREATE"]),
    (3, Effect::Makes, &["MKDIR", "SYMLINK", "MKNOD", "LINK"]),
    (3, Effect::Removes, &["REMOVE", "RMDIR"]),
    (3, Effect::Renames, &["RENAME"]),
    (4, Effect::Alters, &["SETATTR", "WRITE"]),
    (4, Effect::Opens, &["OPEN"]),
    (4, Effect::Makes, &["CREATE", "LINK"]),
    (4, Effect::Removes, &["REMOVE"]),
    (4, Effect::Renames, &["RENAME"]),
];

/// What is looked at on its way: an operation with a Write chunk, one with a Read chunk, and two with neither.
const WAYS: &[(u32, &[&str])] =
    &[(3, &["READ", "WRITE", "LOOKUP", "REMOVE"]), (4, &["READ", "WRITE", "REMOVE", "CLOSE"])];

/// What may go wrong on the way. A Reply that is late, and other credits, are no lies.
const FAULTS: &[Fault] = &[
    Fault::NoReply,
    Fault::BreakBefore,
    Fault::BreakAfter,
    Fault::ErrVers,
    Fault::ErrChunk,
    Fault::Twice,
    Fault::OtherXid,
    Fault::CutHeader,
    Fault::CutMessage,
];

/// The same of chunks.
const CHUNK_FAULTS: &[Fault] = &[
    Fault::MoreThanOffered,
    Fault::OtherHandle,
    Fault::OtherByte,
    Fault::LessThanWritten,
    Fault::MoreThanWritten,
    Fault::Unwritten,
    Fault::NotReturned,
];

/// How RPC may refuse. RFC 5531 section 9.
const REFUSALS: [AcceptStat; 3] =
    [AcceptStat::PROC_UNAVAIL, AcceptStat::GARBAGE_ARGS, AcceptStat::SYSTEM_ERR];

/// All lies, in the order of the tables.
pub fn all() -> Vec<Lie> {
    let mut all = Vec::new();
    let mut add = |version, operation, what| all.push(Lie { version, operation, what });
    let rows = [(SAYS, What::Says as fn(_, _) -> _), (DOES, What::Does)];
    for (rows, what) in rows {
        for (version, operations, fields) in rows {
            for (operation, (field, changes)) in
                operations.iter().flat_map(|of| fields.iter().map(move |f| (of, f)))
            {
                changes.iter().for_each(|change| add(*version, operation, what(field, *change)));
            }
        }
    }
    let each = |rows: &'static [(u32, &'static [&'static str])]| {
        rows.iter()
            .flat_map(|(version, operations)| operations.iter().map(|operation| (*version, *operation)))
    };
    for (version, operation) in each(FAILS) {
        STATUSES.into_iter().for_each(|status| add(version, operation, What::Fails(status)));
    }
    for (version, effect, operations) in CHANGES {
        for (operation, deed) in
            operations.iter().flat_map(|of| effect.deeds().iter().map(move |deed| (of, deed)))
        {
            add(*version, operation, What::Leaves(*deed));
        }
    }
    for (version, operation) in each(WAYS) {
        FAULTS.iter().for_each(|fault| add(version, operation, What::Travels(*fault)));
        REFUSALS.iter().for_each(|stat| add(version, operation, What::Refuses(*stat)));
        if operation == "READ" {
            CHUNK_FAULTS.iter().for_each(|fault| add(version, operation, What::Travels(*fault)));
        }
    }
    all
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
