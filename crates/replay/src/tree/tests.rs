//! Steps that open, create and allocate a file that was there.

use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::{
    Args as Args3, Create3Args, Create3Resok, Createhow3, DirAttributes3Resfail, Diropargs3, Fattr3, Ftype3,
    Getattr3Args, Getattr3Resok, Lookup3Args, Mode3, Nfsstat3, Nfstime3, ObjWcc, Read3Args, Read3Resfail,
    Results as Results3, Sattr3, SetAtime, SetMtime, Setattr3Args, Specdata3, WccAttr, WccData,
};
use nfsrdma_dissectors::nfs::v4::{
    Allocate4Args, Args, Bitmap4, ChangeInfo4, ChangeInfoResok4, CompoundCall, CompoundCallHead, CompoundReply,
    CompoundReplyHead, Createhow4, Fattr4, Link4Args, Lookup4Args, Nfsstat4, ObjectFh4, Open4Args, Open4Resok,
    OpenClaim4, OpenDelegation4, OpenOwner4, OpenRflags, Openflag4, Opentype4, Read4Args, Remove4Args, Rename4Args,
    Results, ShareAccess, ShareDeny, Stateid4,
};
use nfsrdma_dissectors::xdr::{Encoder, Opaque, Text, Void, XdrArray};
use nfsrdma_nfs_model::types::Types;

use super::inference::TreeInferenceStepInput;
use super::inferred_object::{InferredObjectId, InferredObjectName, Occupancy, name_hash};
use super::inferred_tree::InferredTree;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::step::{
    GssProtection, MessageCaptureCompleteness, NONE, SubstitutableMessageSlot, TraceMessage, TraceProcedure,
    TraceSlotValueKind, VariableUseKind,
};

const DIRECTORY: &[u8] = b"the directory";
const FILE: &[u8] = b"the file";
const STATEID: Stateid4 = Stateid4 { seqid: 0, other: [7; 12] };

/// A tree with the directory (variable 1) and its file `f` (variable 2) of 100 bytes, all of them known data.
fn tree_with_file(mut tree: InferredTree) -> (InferredTree, InferredObjectId) {
    let directory = tree.find_or_add_by_handle(1, 0, 1).unwrap();
    let file = tree.resolve_name(directory, b"f", 2, 1).unwrap();
    let node = tree.node(file).unwrap();
    (node.size, node.is_size_known) = (100, true);
    tree.set_current_size(file, Some(100));
    (tree, file)
}

/// Returns the filehandles in a message as slots.
fn slots(head: &[u8]) -> Vec<SubstitutableMessageSlot> {
    let found = [(DIRECTORY, 1), (FILE, 2)].into_iter().filter_map(|(handle, variable)| {
        let at = head.windows(handle.len()).position(|bytes| bytes == handle)?;
        Some(SubstitutableMessageSlot {
            at: at as u32,
            length: handle.len() as u32,
            value_kind: TraceSlotValueKind::FILEHANDLE,
            part: VariableUseKind::USED,
            is_counted: false,
            operation: 0,
            variable,
            definition: 0,
            place: 0,
        })
    });
    found.collect()
}

/// Updates the tree from a step with these bodies.
fn infer(tree: &mut InferredTree, (version, procedure): (u32, u32), bodies: [Encoder; 2]) {
    let bodies = bodies.map(|body| body.finish().0);
    let slots = [0, 1].map(|at| slots(&bodies[at]));
    let [call, reply] = [0, 1].map(|at| TraceMessage {
        completeness: MessageCaptureCompleteness::WHOLE,
        head: Opaque(&bodies[at]),
        body: 0,
        end: bodies[at].len() as u32,
        slots: XdrArray::from(&slots[at][..]),
        payloads: XdrArray::default(),
    });
    let procedure = TraceProcedure {
        program: 100_003,
        version,
        minor_version: if version == 4 { 2 } else { NONE },
        number: procedure,
        flavor: 1,
        protection: GssProtection::PLAIN,
    };
    let none = |_: usize| None;
    let facts = TreeInferenceStepInput {
        id: 2,
        server: 0,
        is_reverse: false,
        procedure: &procedure,
        call: &call,
        reply: &reply,
        contents: [&none, &none],
    };
    tree.infer_from_step(&facts, &mut Vec::new());
}

/// Updates the tree from a COMPOUND of PUTFH and another operation.
fn infer_compound(tree: &mut InferredTree, handle: &[u8], operation: Args<'_>, result: Results<'_>) {
    let call = [Args::PUTFH(ObjectFh4 { object: Opaque(handle) }), operation];
    infer_operations(tree, &call, &[Results::PUTFH(StatusUnion::Ok(Void)), result]);
}

/// Updates the tree from a COMPOUND.
fn infer_operations(tree: &mut InferredTree, call: &[Args<'_>], reply: &[Results<'_>]) {
    let mut bodies = [Encoder::new(), Encoder::new()];
    CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 2 }, call).encode(&mut bodies[0]);
    let head = CompoundReplyHead { status: Nfsstat4::NFS4_OK, tag: Text(b"") };
    CompoundReply::new(head, reply).encode(&mut bodies[1]);
    infer(tree, (4, 1), bodies);
}

/// Returns the size that the tree expects after an OPEN of the file with UNCHECKED4 and this size.
fn size_after_open(size: u64) -> Option<u64> {
    let (mut tree, file) = tree_with_file(InferredTree::with_current_state());
    let (mask, values) = ([1 << 4], size.to_be_bytes());
    let with = Fattr4::new(Bitmap4::from(&mask[..]), Opaque(&values));
    let open = Args::OPEN(Open4Args {
        seqid: 0,
        share_access: ShareAccess::OPEN4_SHARE_ACCESS_WRITE,
        share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
        owner: OpenOwner4 { clientid: 1, owner: Opaque(b"owner") },
        openhow: Openflag4::Create(Createhow4::Unchecked(with)),
        claim: OpenClaim4::Null(Text(b"f")),
    });
    let opened = Results::OPEN(StatusUnion::Ok(Open4Resok {
        stateid: STATEID,
        cinfo: ChangeInfo4 { atomic: true, before: 5, after: 5 },
        rflags: OpenRflags(0),
        attrset: Bitmap4::from(&[][..]),
        delegation: OpenDelegation4::None,
    }));
    infer_compound(&mut tree, DIRECTORY, open, opened);
    tree.current_state(file).and_then(|state| state.size)
}

#[test]
fn an_open_that_creates_changes_an_existing_file_only_with_size_zero() {
    assert_eq!(size_after_open(0), Some(0));
    assert_eq!(size_after_open(5), Some(100));
}

#[test]
fn a_create_of_nfsv3_with_size_zero_cuts_an_existing_file() {
    let (mut tree, file) = tree_with_file(InferredTree::with_current_state());
    let with = Sattr3 {
        mode: None,
        uid: None,
        gid: None,
        size: Some(0),
        atime: SetAtime::DontChange,
        mtime: SetMtime::DontChange,
    };
    let mut bodies = [Encoder::new(), Encoder::new()];
    let place = Diropargs3 { dir: Opaque(DIRECTORY), name: Text(b"f") };
    Args3::CREATE(Create3Args { r#where: place, how: Createhow3::Unchecked(with) }).encode(&mut bodies[0]);
    let made =
        Create3Resok { obj: Some(Opaque(FILE)), obj_attributes: None, dir_wcc: WccData { before: None, after: None } };
    Results3::CREATE(StatusUnion::Ok(made)).encode(&mut bodies[1]);
    infer(&mut tree, (3, 8), bodies);
    assert_eq!(tree.current_state(file).and_then(|state| state.size), Some(0));
}

#[test]
fn bytes_that_allocate_leaves_alone_are_initial_content() {
    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    let allocate = Args::ALLOCATE(Allocate4Args { aa_stateid: STATEID, aa_offset: 50, aa_length: 150 });
    infer_compound(&mut tree, FILE, allocate, Results::ALLOCATE(StatusUnion::Ok(Void)));
    let mut initial = Vec::new();
    tree.record_read(file, 0, 200, |from, to| initial.push((from, to)));
    assert_eq!(initial, [(0, 100)]);
}

fn getattr_of_nfsv3(tree: &mut InferredTree, [uid, gid]: [u32; 2]) {
    let mut bodies = [Encoder::new(), Encoder::new()];
    Args3::GETATTR(Getattr3Args { object: Opaque(FILE) }).encode(&mut bodies[0]);
    let time = || Nfstime3 { seconds: 0, nseconds: 0 };
    let obj_attributes = Fattr3 {
        r#type: Ftype3::NF3REG,
        mode: Mode3(0o644),
        nlink: 1,
        uid,
        gid,
        size: 100,
        used: 0,
        rdev: Specdata3 { specdata1: 0, specdata2: 0 },
        fsid: 1,
        fileid: 2,
        atime: time(),
        mtime: time(),
        ctime: time(),
    };
    Results3::GETATTR(StatusUnion::Ok(Getattr3Resok { obj_attributes })).encode(&mut bodies[1]);
    infer(tree, (3, 1), bodies);
}

fn setattr_of_nfsv3(tree: &mut InferredTree, mode: Option<Mode3>, uid: Option<u32>) {
    let mut bodies = [Encoder::new(), Encoder::new()];
    let (atime, mtime) = (SetAtime::DontChange, SetMtime::DontChange);
    let new_attributes = Sattr3 { mode, uid, gid: None, size: None, atime, mtime };
    let arguments = Setattr3Args { object: Opaque(FILE), new_attributes, guard: None };
    Args3::SETATTR(arguments).encode(&mut bodies[0]);
    let obj_wcc = WccData { before: None, after: None };
    Results3::SETATTR(StatusUnion::Ok(ObjWcc { obj_wcc })).encode(&mut bodies[1]);
    infer(tree, (3, 2), bodies);
}

/// RFC 1813 section 2.6: uid and gid.
#[test]
fn attributes_of_nfsv3_show_the_owners_that_no_step_has_set() {
    let owners = |tree: &InferredTree, file: InferredObjectId| {
        let known = tree.nodes()[file.0 as usize].owners.clone().map(|known| *known);
        known.map(|known| known.map(|name| String::from_utf8(name.into()).unwrap()))
    };
    let of = |user: &str, group: &str| Some([user.to_owned(), group.to_owned()]);
    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    getattr_of_nfsv3(&mut tree, [500, 100]);
    getattr_of_nfsv3(&mut tree, [501, 101]);
    assert_eq!(owners(&tree, file), of("500", "100"));

    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    setattr_of_nfsv3(&mut tree, Some(Mode3(0o600)), None);
    getattr_of_nfsv3(&mut tree, [500, 100]);
    assert_eq!(owners(&tree, file), of("500", "100"), "a new mode leaves the owners alone");

    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    setattr_of_nfsv3(&mut tree, None, Some(7));
    getattr_of_nfsv3(&mut tree, [7, 100]);
    assert_eq!(owners(&tree, file), of("", "100"), "the group is the one from before");
}

/// A file of 100 bytes was written before its size was returned: later bytes are of steps, or zeros of its growth.
#[test]
fn content_beyond_size_is_not_initial() {
    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    tree.exclude_from_initial_content(file, 0, 10);
    getattr_of_nfsv3(&mut tree, [500, 100]);
    let mut initial = Vec::new();
    tree.record_read(file, 0, 200, |from, to| initial.push((from, to)));
    assert_eq!(initial, [(10, 100)]);
}

#[test]
fn merged_ranges_no_longer_count_as_memory() {
    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    // More ranges than one node of their B-tree has.
    for distant in 0..16_u64 {
        tree.exclude_from_initial_content(file, (1 << 40) + distant * 100, (1 << 40) + distant * 100 + 10);
    }
    let mut memory_bytes_after_rounds = Vec::new();
    for round in 0..1_000_u64 {
        // A range apart from the others, and the one that fills the gap.
        tree.exclude_from_initial_content(file, round * 20 + 10, round * 20 + 20);
        tree.exclude_from_initial_content(file, round * 20, round * 20 + 10);
        memory_bytes_after_rounds.push(tree.memory_bytes);
    }
    assert_eq!(memory_bytes_after_rounds.first(), memory_bytes_after_rounds.last());
}

/// RFC 1813 section 3.2: the directory itself and the one above it, and no entries.
#[test]
fn dots_are_names_of_no_entry() {
    let mut tree = InferredTree::with_current_state();
    let root = tree.find_or_add_root(0, b"/", 1).unwrap();
    let directory = tree.resolve_name(root, b"d", 1, 1).unwrap();
    // The filehandle of the root is new, then known, and not returned.
    for handle in [7, 7, NONE] {
        assert_eq!(tree.resolve_name(directory, b"..", handle, 2), Some(root));
    }
    for handle in [1, NONE] {
        assert_eq!(tree.resolve_name(directory, b".", handle, 2), Some(directory));
    }
    // What is above a directory without a known name.
    let nameless = tree.find_or_add_by_handle(3, 0, 3).unwrap();
    let above = tree.resolve_name(nameless, b"..", 4, 3).unwrap();
    assert_eq!((tree.find_by_handle(4), tree.nodes()[above.0 as usize].names.len()), (Some(above), 0));
    assert_eq!(tree.resolve_name(nameless, b"..", NONE, 3), None);
    tree.unbind_name(nameless, b"..");
    tree.remove_name(nameless, b".", Types::DIRECTORY, 4);
    tree.rename((directory, b".."), (root, b"."), 4);
    let names: Vec<_> = tree.current_names().map(|binding| (binding.parent, binding.name.to_vec())).collect();
    assert_eq!(names, [(root, b"d".to_vec())]);
    assert_eq!(tree.nodes()[directory.0 as usize].names.len(), 1);
}

/// A tree with two objects of unknown type, those of [`DIRECTORY`] and [`FILE`].
fn tree_of_unknown_types() -> InferredTree {
    let mut tree = InferredTree::new(1 << 20);
    for variable in [1, 2] {
        tree.find_or_add_by_handle(variable, 0, 1).unwrap();
    }
    tree
}

fn initial_type(tree: &InferredTree, variable: u32) -> TraceFileType {
    tree.nodes()[tree.find_by_handle(variable).unwrap().0 as usize].initial_type()
}

fn fail<T>(status: Nfsstat4) -> StatusUnion<Nfsstat4, T> {
    StatusUnion::Fail(status, Void)
}

fn lookup(name: &'static [u8]) -> Args<'static> {
    Args::LOOKUP(Lookup4Args { objname: Text(name) })
}

fn read() -> Args<'static> {
    Args::READ(Read4Args { stateid: STATEID, offset: 0, count: 10 })
}

/// RFC 8881 sections 18.13.4, 18.14.4, 18.22.4, 18.24.4 and 18.25.4: without attributes, the statuses tell the type.
#[test]
fn statuses_prove_type_of_current_object() {
    use TraceFileType as T;
    let remove = || Args::REMOVE(Remove4Args { target: Text(b"n") });
    let cases: Vec<(Args<'_>, Results<'_>, T)> = vec![
        (lookup(b"n"), Results::LOOKUP(fail(Nfsstat4::NFS4ERR_NOENT)), T::DIRECTORY),
        (lookup(b"n"), Results::LOOKUP(fail(Nfsstat4::NFS4ERR_NOTDIR)), T::FILE),
        (lookup(b"n"), Results::LOOKUP(fail(Nfsstat4::NFS4ERR_SYMLINK)), T::LINK),
        (lookup(b"n"), Results::LOOKUP(fail(Nfsstat4::NFS4ERR_ACCESS)), T::UNKNOWN),
        (Args::LOOKUPP(Void), Results::LOOKUPP(StatusUnion::Ok(Void)), T::DIRECTORY),
        (Args::LOOKUPP(Void), Results::LOOKUPP(fail(Nfsstat4::NFS4ERR_NOENT)), T::DIRECTORY),
        (remove(), Results::REMOVE(fail(Nfsstat4::NFS4ERR_NOENT)), T::DIRECTORY),
        (read(), Results::READ(fail(Nfsstat4::NFS4ERR_ISDIR)), T::DIRECTORY),
        (read(), Results::READ(fail(Nfsstat4::NFS4ERR_WRONG_TYPE)), T::FIFO),
        (Args::READLINK(Void), Results::READLINK(fail(Nfsstat4::NFS4ERR_WRONG_TYPE)), T::FILE),
    ];
    for (operation, result, expected) in cases {
        let mut tree = tree_of_unknown_types();
        infer_compound(&mut tree, DIRECTORY, operation.clone(), result.clone());
        assert_eq!(initial_type(&tree, 1), expected, "{operation:?} {result:?}");
    }
}

/// A failure may have another reason; a success or an attribute has none.
#[test]
fn stronger_type_evidence_wins() {
    let not_there = || Results::LOOKUP(fail(Nfsstat4::NFS4ERR_NOENT));
    let done = || Results::LOOKUPP(StatusUnion::Ok(Void));
    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, FILE, lookup(b"n"), not_there());
    assert_eq!(initial_type(&tree, 2), TraceFileType::DIRECTORY);
    getattr_of_nfsv3(&mut tree, [500, 100]);
    assert_eq!(initial_type(&tree, 2), TraceFileType::FILE);
    infer_compound(&mut tree, FILE, Args::LOOKUPP(Void), done());
    assert_eq!(initial_type(&tree, 2), TraceFileType::FILE);

    let is_link = || Results::READ(fail(Nfsstat4::NFS4ERR_SYMLINK));
    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, FILE, read(), is_link());
    infer_compound(&mut tree, FILE, Args::LOOKUPP(Void), done());
    infer_compound(&mut tree, FILE, read(), is_link());
    assert_eq!(initial_type(&tree, 2), TraceFileType::DIRECTORY);
}

/// RFC 8881 section 18.16.4: the object of the name is a directory or a symbolic link.
#[test]
fn failed_open_proves_type_of_name() {
    for (status, expected) in
        [(Nfsstat4::NFS4ERR_ISDIR, TraceFileType::DIRECTORY), (Nfsstat4::NFS4ERR_SYMLINK, TraceFileType::LINK)]
    {
        let mut tree = tree_of_unknown_types();
        let open = Args::OPEN(Open4Args {
            seqid: 0,
            share_access: ShareAccess::OPEN4_SHARE_ACCESS_READ,
            share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: OpenOwner4 { clientid: 1, owner: Opaque(b"owner") },
            openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
            claim: OpenClaim4::Null(Text(b"n")),
        });
        infer_compound(&mut tree, DIRECTORY, open, Results::OPEN(fail(status)));
        let directory = tree.find_by_handle(1).unwrap();
        let named = tree.bound_object(directory, b"n").unwrap();
        assert_eq!(tree.nodes()[named.0 as usize].initial_type(), expected);
        assert_eq!(initial_type(&tree, 1), TraceFileType::DIRECTORY);
    }
}

/// RFC 1813 sections 3.3.3 and 3.3.6, and post_op_attr of a failure.
#[test]
fn nfsv3_failures_prove_types() {
    let infer_failure = |args: Args3<'_>, result: Results3<'_>, number| {
        let mut tree = tree_of_unknown_types();
        let mut bodies = [Encoder::new(), Encoder::new()];
        args.encode(&mut bodies[0]);
        result.encode(&mut bodies[1]);
        infer(&mut tree, (3, number), bodies);
        initial_type(&tree, 1)
    };
    let lookup = || Args3::LOOKUP(Lookup3Args { what: Diropargs3 { dir: Opaque(DIRECTORY), name: Text(b"n") } });
    let lookup_failure =
        |status| Results3::LOOKUP(StatusUnion::Fail(status, DirAttributes3Resfail { dir_attributes: None }));
    assert_eq!(infer_failure(lookup(), lookup_failure(Nfsstat3::NFS3ERR_NOENT), 3), TraceFileType::DIRECTORY);
    assert_eq!(infer_failure(lookup(), lookup_failure(Nfsstat3::NFS3ERR_NOTDIR), 3), TraceFileType::FILE);
    let read = || Args3::READ(Read3Args { file: Opaque(DIRECTORY), offset: 0, count: 10 });
    let read_failure = |status| Results3::READ(StatusUnion::Fail(status, Read3Resfail { file_attributes: None }));
    assert_eq!(infer_failure(read(), read_failure(Nfsstat3::NFS3ERR_ISDIR), 6), TraceFileType::DIRECTORY);
    assert_eq!(infer_failure(read(), read_failure(Nfsstat3::NFS3ERR_INVAL), 6), TraceFileType::FIFO);
}

/// Names that only calls in flight made uncertain are counted apart from the others.
#[test]
fn effects_in_flight_are_told_apart() {
    let (mut tree, file) = tree_with_file(InferredTree::with_current_state());
    let directory = tree.find_by_handle(1).unwrap();
    let mark = |tree: &mut InferredTree, is_in_flight| {
        tree.set_in_flight(is_in_flight);
        tree.mark_name_uncertain(1, (0, 2), name_hash(b"f"), true);
        tree.set_in_flight(false);
        (tree.is_name_uncertain(directory, b"f"), tree.is_name_in_flight(directory, b"f"), tree.is_in_flight(file))
    };
    assert_eq!(mark(&mut tree, true), (true, true, true));
    assert_eq!(mark(&mut tree, false), (true, false, false));
    assert_eq!(mark(&mut tree, true), (true, false, false));
}

fn removal() -> Args<'static> {
    Args::REMOVE(Remove4Args { target: Text(b"d") })
}

fn not_empty() -> Results<'static> {
    Results::REMOVE(fail(Nfsstat4::NFS4ERR_NOTEMPTY))
}

/// Returns the names that objects have in the object of `d` before the first step.
fn initial_entries(tree: &mut InferredTree) -> Vec<Vec<u8>> {
    tree.add_unnamed();
    let directory = tree.find_by_handle(1).unwrap();
    let objects = || (0..).map(InferredObjectId).zip(tree.nodes());
    let has_name = |names: &[InferredObjectName]| names.iter().any(|name| *name.name == *b"d");
    let found = objects().find(|(_, node)| has_name(&node.names)).unwrap().0;
    assert_ne!(found, directory);
    let entries = objects().filter(|(_, node)| node.existence == TraceObjectOrigin::BEFORE);
    let names = entries.flat_map(|(_, node)| node.names.iter());
    names.filter(|name| name.parent == Some(found) && name.step == 0).map(|name| name.name.to_vec()).collect()
}

/// RFC 8881 section 15.1.4.10: "An attempt was made to remove a directory that was not empty."
#[test]
fn directory_with_unknown_names_gets_entry() {
    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, DIRECTORY, removal(), not_empty());
    assert_eq!(initial_entries(&mut tree), [b"unnamed-entry-0"]);

    // A name that a later step finds was there.
    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, DIRECTORY, removal(), not_empty());
    let directory = tree.find_by_handle(1).unwrap();
    let named = tree.bound_object(directory, b"d").unwrap();
    tree.resolve_name(named, b"f", NONE, 3);
    assert_eq!(initial_entries(&mut tree), [b"f"]);
}

/// No entry can have been there all the time: another client made or removed it.
#[test]
fn emptied_directory_gets_no_entry() {
    let done = || {
        let cinfo = ChangeInfo4 { atomic: true, before: 5, after: 6 };
        Results::REMOVE(StatusUnion::Ok(ChangeInfoResok4 { cinfo }))
    };
    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, DIRECTORY, removal(), not_empty());
    infer_compound(&mut tree, DIRECTORY, removal(), done());
    assert!(initial_entries(&mut tree).is_empty());

    let mut tree = tree_of_unknown_types();
    infer_compound(&mut tree, DIRECTORY, removal(), not_empty());
    let directory = tree.find_by_handle(1).unwrap();
    let named = tree.bound_object(directory, b"d").unwrap();
    tree.record_listed(named);
    assert!(initial_entries(&mut tree).is_empty());
}

/// RFC 8881 sections 18.9.3 and 18.26.3: the names exist, and the objects have types with which RENAME fails so.
#[test]
fn names_of_failed_link_and_rename_exist() {
    use TraceFileType as T;
    let link = || Args::LINK(Link4Args { newname: Text(b"n") });
    let rename = || Args::RENAME(Rename4Args { oldname: Text(b"o"), newname: Text(b"n") });
    let failed_rename = |status| Results::RENAME(fail(status));
    let exist = Nfsstat4::NFS4ERR_EXIST;
    for (operation, result, old, new) in [
        (link(), Results::LINK(fail(exist)), None, Some(T::UNKNOWN)),
        (rename(), failed_rename(exist), Some(T::DIRECTORY), Some(T::DIRECTORY)),
        (rename(), failed_rename(Nfsstat4::NFS4ERR_NOTEMPTY), Some(T::DIRECTORY), Some(T::DIRECTORY)),
        (rename(), failed_rename(Nfsstat4::NFS4ERR_ISDIR), Some(T::FILE), Some(T::DIRECTORY)),
        (rename(), failed_rename(Nfsstat4::NFS4ERR_NOTDIR), Some(T::DIRECTORY), Some(T::FILE)),
        (rename(), failed_rename(Nfsstat4::NFS4ERR_NOENT), None, None),
        (rename(), failed_rename(Nfsstat4::NFS4ERR_ACCESS), None, None),
    ] {
        let mut tree = tree_of_unknown_types();
        let directory = tree.find_by_handle(1).unwrap();
        tree.set_type(directory, T::DIRECTORY);
        let saved = [Args::PUTFH(ObjectFh4 { object: Opaque(DIRECTORY) }), Args::SAVEFH(Void)];
        infer_operations(
            &mut tree,
            &[&saved[..], std::slice::from_ref(&operation)].concat(),
            &[Results::PUTFH(StatusUnion::Ok(Void)), Results::SAVEFH(StatusUnion::Ok(Void)), result.clone()],
        );
        let types = [&b"o"[..], b"n"].map(|name| {
            let id = tree.bound_object(directory, name)?;
            Some(tree.nodes()[id.0 as usize].initial_type())
        });
        assert_eq!(types, [old, new], "{operation:?} {result:?}");
    }
}

/// A link count shows links whose names no message has.
#[test]
fn links_from_before_capture_are_made() {
    let links = |observe: &dyn Fn(&mut InferredTree, InferredObjectId)| {
        let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
        tree.set_type(file, TraceFileType::FILE);
        observe(&mut tree, file);
        tree.add_unnamed();
        let names = &tree.nodes()[file.0 as usize].names;
        (
            names.iter().filter(|name| name.parent.is_some()).count(),
            names.iter().filter(|name| name.parent.is_none()).count(),
        )
    };
    assert_eq!(links(&|tree, file| tree.record_links(file, 1)), (1, 0));
    assert_eq!(links(&|tree, file| tree.record_links(file, 3)), (1, 2));
    // After a LINK.
    assert_eq!(
        links(&|tree, file| {
            tree.change_links(file, 1);
            tree.record_links(file, 2);
        }),
        (1, 0)
    );
    // A call without a reply may have made it.
    assert_eq!(
        links(&|tree, file| {
            tree.has_lost_links = true;
            tree.record_links(file, 2);
        }),
        (1, 0)
    );
    // The link that was removed in between.
    assert_eq!(
        links(&|tree, file| {
            let directory = tree.find_by_handle(1).unwrap();
            tree.set_step_times([1, 2]);
            tree.record_links(file, 2);
            tree.set_step_times([3, 4]);
            tree.remove_name(directory, b"hard", Types::ANY, 3);
            tree.set_step_times([5, 6]);
            tree.record_links(file, 1);
        }),
        (2, 0)
    );
    // A removal that overlapped with the reply may have been another.
    assert_eq!(
        links(&|tree, file| {
            let directory = tree.find_by_handle(1).unwrap();
            tree.set_step_times([1, 3]);
            tree.record_links(file, 2);
            tree.set_step_times([2, 4]);
            tree.remove_name(directory, b"hard", Types::ANY, 3);
            tree.set_step_times([5, 6]);
            tree.record_links(file, 1);
        }),
        (1, 0)
    );
    // With an empty name for those that are left out.
    assert_eq!(links(&|tree, file| tree.record_links(file, u32::MAX)), (1, 255 + 1));
}

/// Each link is a call to the live server: a tree has a limit, and so has an object.
#[test]
fn links_of_tree_are_limited() {
    let mut tree = InferredTree::new(64 << 20);
    for variable in 1..=1000 {
        let file = tree.find_or_add_by_handle(variable, 0, 1).unwrap();
        tree.set_type(file, TraceFileType::FILE);
        tree.record_links(file, 11);
    }
    tree.add_unnamed();
    let names = || tree.nodes().iter().flat_map(|node| &node.names);
    let [made, unmade] = [false, true].map(|is_empty| names().filter(|name| name.name.is_empty() == is_empty).count());
    // The last of 372 whole ones and a part is cut off.
    assert_eq!((made, unmade, tree.left_out()), (4096, 1000 - 372, 11_000 - 4096));

    let mut tree = InferredTree::new(64 << 20);
    let file = tree.find_or_add_by_handle(1, 0, 1).unwrap();
    tree.set_type(file, TraceFileType::FILE);
    tree.record_links(file, 300);
    tree.add_unnamed();
    assert_eq!((tree.nodes()[file.0 as usize].names.len(), tree.left_out()), (256 + 1, 300 - 256));
}

/// A directory that is removed leaves fewer links to the one above, and is no name of it. RFC 1813 section 2.6: nlink.
#[test]
fn removed_directory_is_no_link_of_parent() {
    for is_type_known in [true, false] {
        for types in [Types::ANY, Types::DIRECTORY] {
            let (mut tree, _) = tree_with_file(InferredTree::new(1 << 20));
            let directory = tree.find_by_handle(1).unwrap();
            if is_type_known {
                tree.set_type(directory, TraceFileType::DIRECTORY);
            }
            tree.set_step_times([1, 2]);
            tree.record_links(directory, 3);
            tree.set_step_times([3, 4]);
            let removed = tree.remove_name(directory, b"sub", types, 3).unwrap();
            tree.set_step_times([5, 6]);
            tree.record_links(directory, 2);
            let node = |id: InferredObjectId| &tree.nodes()[id.0 as usize];
            assert!(node(directory).names.is_empty(), "{:?}", node(directory).names);
            let places: Vec<_> = node(removed).names.iter().map(|name| (name.parent, &*name.name)).collect();
            assert_eq!(places, [(Some(directory), &b"sub"[..])]);
        }
    }
}

/// A name in an object is none of its links, whatever its type is.
#[test]
fn object_is_not_below_itself() {
    let (mut tree, file) = tree_with_file(InferredTree::new(1 << 20));
    tree.prove_types(file, Types::DIRECTORY.others(), true);
    tree.set_step_times([1, 2]);
    tree.record_links(file, 3);
    tree.set_step_times([3, 4]);
    tree.remove_name(file, b"sub", Types::ANY, 3);
    tree.set_step_times([5, 6]);
    tree.record_links(file, 2);
    assert!(tree.nodes()[file.0 as usize].names.iter().all(|name| name.parent != Some(file)));
}

/// RFC 1813 section 3.3.16, RFC 8881 section 18.23.3: eof ends a listing, and cookie 0 begins it.
#[test]
fn only_whole_listing_shows_all_names() {
    use nfsrdma_dissectors::nfs::v3::{Dirlist3, Entry3, Readdir3Args, Readdir3Resok};
    use nfsrdma_dissectors::nfs::v4::{Dirlist4, Entry4, Readdir4Args, Readdir4Resok};
    use nfsrdma_dissectors::xdr::XdrLinkedList;
    type Part = (u64, &'static [u64], bool);
    let list = |tree: &mut InferredTree, version: u32, (cookie, cookies, eof): Part| {
        let names: Vec<Vec<u8>> = cookies.iter().map(|cookie| format!("n{cookie}").into_bytes()).collect();
        let mut bodies = [Encoder::new(), Encoder::new()];
        match version {
            3 => {
                let entry = |(cookie, name): (&u64, &'static [u8])| Entry3 {
                    fileid: *cookie,
                    name: Text(name),
                    cookie: *cookie,
                };
                let names = names.into_iter().map(|name| &*name.leak());
                let entries: Vec<_> = cookies.iter().zip(names).map(entry).collect();
                let args = Readdir3Args { dir: Opaque(DIRECTORY), cookie, cookieverf: [0; 8], count: 4096 };
                Args3::READDIR(args).encode(&mut bodies[0]);
                let reply = Dirlist3 { entries: XdrLinkedList::from(&entries[..]), eof };
                let ok = Readdir3Resok { dir_attributes: None, cookieverf: [0; 8], reply };
                Results3::READDIR(StatusUnion::Ok(ok)).encode(&mut bodies[1]);
                infer(tree, (3, 16), bodies);
            }
            _ => {
                let attrs = || Fattr4::new(Bitmap4::from(&[][..]), Opaque(b""));
                let entry = |(cookie, name): (&u64, &'static [u8])| Entry4 {
                    cookie: *cookie,
                    name: Text(name),
                    attrs: attrs(),
                };
                let names = names.into_iter().map(|name| &*name.leak());
                let entries: Vec<_> = cookies.iter().zip(names).map(entry).collect();
                let attr_request = Bitmap4::from(&[][..]);
                let args = Readdir4Args { cookie, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attr_request };
                let reply = Dirlist4 { entries: XdrLinkedList::from(&entries[..]), eof };
                let ok = Readdir4Resok { cookieverf: [0; 8], reply };
                infer_compound(tree, DIRECTORY, Args::READDIR(args), Results::READDIR(StatusUnion::Ok(ok)));
            }
        }
    };
    let cases: [(&[Part], bool); 7] = [
        (&[(0, &[], true)], true),
        (&[(0, &[3], false), (3, &[5], true)], true),
        (&[(0, &[3], false), (3, &[4], false), (4, &[], true)], true),
        (&[(9, &[], true)], false),
        (&[(9, &[12], false), (12, &[], true)], false),
        (&[(0, &[3], false), (4, &[], true)], false),
        (&[(0, &[3], false)], false),
    ];
    for version in [3, 4] {
        for (parts, is_whole) in cases {
            let mut tree = tree_of_unknown_types();
            parts.iter().for_each(|part| list(&mut tree, version, *part));
            let directory = tree.find_by_handle(1).unwrap();
            let is_listed = tree.nodes()[directory.0 as usize].occupancy == Occupancy::Excluded;
            assert_eq!(is_listed, is_whole, "NFSv{version}: {parts:?}");
            // The server has refused to remove it.
            tree.record_occupied(directory);
            tree.add_unnamed();
            let has_entry = tree.nodes().iter().flat_map(|node| &node.names).any(|name| name.parent == Some(directory));
            let has_names = parts.iter().any(|(_, cookies, _)| !cookies.is_empty());
            assert_eq!(has_entry, has_names || !is_whole, "NFSv{version}: {parts:?}");
        }
    }
}

/// RFC 1813 section 3.2: "..", the directory above.
#[test]
fn directory_is_below_its_parent() {
    let place = |is_listed: bool| {
        let mut tree = tree_of_unknown_types();
        let [below, above] = [1, 2].map(|variable| tree.find_by_handle(variable).unwrap());
        tree.resolve_name(below, b"..", 2, 3);
        if is_listed {
            tree.record_listed(above);
        }
        tree.set_type(below, TraceFileType::DIRECTORY);
        tree.add_unnamed();
        tree.nodes()[below.0 as usize].names.iter().map(|name| (name.parent, name.name.to_vec())).collect::<Vec<_>>()
    };
    let above = tree_of_unknown_types().find_by_handle(2);
    assert_eq!(place(false), [(above, b"unnamed-entry-0".to_vec())]);
    assert!(place(true).is_empty(), "it is an entry of the listing");
}

/// RFC 1813 section 2.6: wcc_attr has the size before the operation.
#[test]
fn size_before_setattr_is_initial() {
    let mut tree = tree_of_unknown_types();
    let file = tree.find_by_handle(2).unwrap();
    let (atime, mtime) = (SetAtime::DontChange, SetMtime::DontChange);
    let new_attributes = Sattr3 { mode: None, uid: None, gid: None, size: Some(0), atime, mtime };
    let mut bodies = [Encoder::new(), Encoder::new()];
    Args3::SETATTR(Setattr3Args { object: Opaque(FILE), new_attributes, guard: None }).encode(&mut bodies[0]);
    let time = || Nfstime3 { seconds: 1, nseconds: 0 };
    let before = Some(WccAttr { size: 65_536, mtime: time(), ctime: time() });
    let obj_wcc = WccData { before, after: None };
    Results3::SETATTR(StatusUnion::Ok(ObjWcc { obj_wcc })).encode(&mut bodies[1]);
    infer(&mut tree, (3, 2), bodies);
    assert_eq!(tree.known_initial_size(file), Some(65_536));
}

/// A run tells the changes of other clients from faults of the server by the names that it knows.
#[test]
fn absent_names_and_empty_directories_are_known() {
    let mut tree = InferredTree::with_current_state();
    let directory = tree.find_or_add_by_handle(1, 0, 1).unwrap();
    assert!(!tree.lacks_name(1, b"f") && tree.has_no_entry(directory));
    tree.unbind_name(directory, b"f");
    assert!(tree.lacks_name(1, b"f") && tree.has_no_entry(directory));
    tree.resolve_name(directory, b"f", NONE, 2);
    assert!(!tree.lacks_name(1, b"f") && !tree.has_no_entry(directory));
    tree.remove_name(directory, b"f", Types::ANY, 3);
    assert!(tree.lacks_name(1, b"f") && tree.has_no_entry(directory));
    tree.mark_name_uncertain(1, (0, 4), name_hash(b"f"), false);
    assert!(!tree.lacks_name(1, b"f") && !tree.has_no_entry(directory));
}
