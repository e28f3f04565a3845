//! The procedures of NFSv3. RFC 1813 section 3.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::*;
use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{Cursor, Ddp, DdpText, Opaque, Text, Void, Xdr, XdrLinkedList};

use super::fault_injection::words_after;
use super::file_object::{MockDirectory, MockObject, MockObjectContent};
use super::file_tree::MockFileTree;
use super::filehandle::{MockFileId, handle};
use super::mock_server::{MockListingPolicy, MockServer};
use super::nfs_error::MockNfsError;
use super::reply::{MockReplyBuffers, unreadable};

/// The cookie verifier: all cookies are always valid.
const VERIFIER: Verifier3 = *b"loopback";

fn status(error: MockNfsError) -> Nfsstat3 {
    Nfsstat3(error.0)
}

fn time([seconds, nseconds]: [u32; 2]) -> Nfstime3 {
    Nfstime3 { seconds, nseconds }
}

fn attributes(tree: &MockFileTree, id: MockFileId) -> PostOpAttr {
    let node = tree.node(id).ok()?;
    let [specdata1, specdata2] = node.device_numbers();
    Some(Fattr3 {
        r#type: Ftype3(node.kind()),
        mode: Mode3(node.mode),
        nlink: node.links(),
        uid: node.uid,
        gid: node.gid,
        size: node.size(),
        used: node.size(),
        rdev: Specdata3 { specdata1, specdata2 },
        fsid: 1,
        fileid: id,
        atime: time(MockObject::time(node.atime)),
        mtime: time(node.modified()),
        ctime: time(MockObject::time(node.ctime)),
    })
}

/// Returns the attributes of a filehandle's object, if it exists.
fn handle_attributes(tree: &MockFileTree, handle: &NfsFh3<'_>) -> PostOpAttr {
    attributes(tree, tree.object(handle.0).ok()?)
}

fn pre_op_attributes(tree: &MockFileTree, handle: &NfsFh3<'_>) -> PreOpAttr {
    let node = tree.node(tree.object(handle.0).ok()?).ok()?;
    Some(WccAttr { size: node.size(), mtime: time(node.modified()), ctime: time(MockObject::time(node.ctime)) })
}

fn wcc(tree: &MockFileTree, handle: &NfsFh3<'_>, before: PreOpAttr) -> WccData {
    WccData { before, after: handle_attributes(tree, handle) }
}

fn set(tree: &mut MockFileTree, id: MockFileId, to: &Sattr3) -> Result<(), MockNfsError> {
    if let Some(size) = to.size {
        tree.truncate(id, size)?;
    }
    let time = tree.tick();
    let node = tree.node_mut(id)?;
    node.mode = to.mode.map_or(node.mode, |mode| mode.0 & 0o7777);
    node.uid = to.uid.unwrap_or(node.uid);
    node.gid = to.gid.unwrap_or(node.gid);
    // Access times set by a client are not stored: the clock of this server counts changes.
    if !matches!(to.atime, SetAtime::DontChange) {
        node.atime = time;
    }
    if !matches!(to.mtime, SetMtime::DontChange) {
        node.mtime = time;
        node.set_mtime = match &to.mtime {
            SetMtime::Client(time) => Some([time.seconds, time.nseconds]),
            _ => None,
        };
    }
    node.ctime = time;
    Ok(())
}

type MockNfs3CreateResult<'a> = StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>;

/// Creates an object, and encodes the result of CREATE, MKDIR, SYMLINK or MKNOD.
fn make(
    server: &mut MockServer,
    r#where: &Diropargs3<'_>,
    buffers: &mut MockReplyBuffers<'_>,
    create: impl FnOnce(&mut MockFileTree, MockFileId) -> Result<MockFileId, MockNfsError>,
) {
    let tree = &mut server.tree;
    let before = pre_op_attributes(tree, &r#where.dir);
    let result = tree.object(r#where.dir.0).and_then(|directory| create(tree, directory));
    let dir_wcc = wcc(tree, &r#where.dir, before);
    match result {
        Ok(id) => {
            let handle = handle(id);
            let obj = Some(Opaque(&handle[..]));
            let created = Create3Resok { obj, obj_attributes: attributes(tree, id), dir_wcc };
            MockNfs3CreateResult::Ok(created).encode(buffers.encoder);
        }
        Err(error) => MockNfs3CreateResult::Fail(status(error), DirWcc { dir_wcc }).encode(buffers.encoder),
    }
}

pub(super) fn call(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    buffers: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    let procedure = ProcedureNumber(number).known().ok_or(AcceptStat::PROC_UNAVAIL)?;
    let args = Args::decode(procedure, cursor, &mut NullFieldObserver).map_err(unreadable)?;
    let name = procedure.name();
    if let Some(status) = server.refused_status(Some(name)) {
        buffers.encoder.word(status);
        (0..words_after(name)).for_each(|_| buffers.encoder.word(0));
        return Ok(());
    }
    match &args {
        Args::NULL(_) => Results::NULL(Void).encode(buffers.encoder),
        Args::CREATE(args) => make(server, &args.r#where, buffers, |tree, directory| {
            let name = args.r#where.name.0;
            let existing = tree.lookup(directory, name);
            let (to, is_guarded) = match &args.how {
                Createhow3::Unchecked(to) => (Some(to), false),
                Createhow3::Guarded(to) => (Some(to), true),
                Createhow3::Exclusive(_) => (None, true),
            };
            let id = match existing {
                Ok(_) if is_guarded => return Err(MockNfsError::EXIST),
                Ok(id) => id,
                Err(_) => tree.create(directory, name, MockObjectContent::File(Vec::new()), 0o644)?,
            };
            to.map_or(Ok(()), |to| set(tree, id, to)).map(|()| id)
        }),
        Args::MKDIR(args) => make(server, &args.r#where, buffers, |tree, directory| {
            let content = MockObjectContent::Directory(MockDirectory::default());
            let id = tree.create(directory, args.r#where.name.0, content, 0o755)?;
            set(tree, id, &args.attributes).map(|()| id)
        }),
        Args::SYMLINK(args) => make(server, &args.r#where, buffers, |tree, directory| {
            let text = args.symlink.symlink_data.bytes().unwrap_or_default().to_vec();
            tree.create(directory, args.r#where.name.0, MockObjectContent::Link(text), 0o777)
        }),
        Args::MKNOD(args) => make(server, &args.r#where, buffers, |tree, directory| {
            let numbers = match &args.what {
                Mknoddata3::Chr(device) | Mknoddata3::Blk(device) => [device.spec.specdata1, device.spec.specdata2],
                Mknoddata3::Sock(_) | Mknoddata3::Fifo(_) => [0; 2],
                Mknoddata3::Other(_) => return Err(MockNfsError(Nfsstat3::NFS3ERR_BADTYPE.0)),
            };
            let content = MockObjectContent::Special(args.what.tag().0, numbers);
            tree.create(directory, args.r#where.name.0, content, 0o644)
        }),
        Args::READ(args) => read(server, args, buffers),
        Args::READLINK(args) => readlink(server, args, buffers),
        Args::LOOKUP(args) => lookup(server, args, buffers),
        Args::READDIR(args) => readdir(server, args, buffers),
        Args::READDIRPLUS(args) => readdirplus(server, args, buffers),
        _ => call_without_data(server, &args).encode(buffers.encoder),
    }
    Ok(())
}

fn read(server: &MockServer, args: &Read3Args<'_>, buffers: &mut MockReplyBuffers<'_>) {
    let file_attributes = handle_attributes(&server.tree, &args.file);
    let result = server
        .tree
        .object(args.file.0)
        .and_then(|id| server.tree.read(id, args.offset, args.count.min(server.tree.io_bytes)));
    let results = match result {
        Ok((bytes, eof)) => {
            let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            buffers.data.push(bytes.to_vec());
            let data = Ddp::Chunk { length: count, bytes: None };
            StatusUnion::Ok(Read3Resok { file_attributes, count, eof, data })
        }
        Err(error) => StatusUnion::Fail(status(error), Read3Resfail { file_attributes }),
    };
    Results::READ(results).encode(buffers.encoder);
}

fn readlink(server: &MockServer, args: &Readlink3Args<'_>, buffers: &mut MockReplyBuffers<'_>) {
    let symlink_attributes = handle_attributes(&server.tree, &args.symlink);
    let result = server.tree.object(args.symlink.0).and_then(|id| server.tree.node(id));
    let results = match result.map(|node| &node.content) {
        Ok(MockObjectContent::Link(text)) => {
            buffers.data.push(text.clone());
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let data = DdpText::Chunk { length, bytes: None };
            StatusUnion::Ok(Readlink3Resok { symlink_attributes, data })
        }
        other => {
            let error = other.err().unwrap_or(MockNfsError::INVAL);
            StatusUnion::Fail(status(error), Readlink3Resfail { symlink_attributes })
        }
    };
    Results::READLINK(results).encode(buffers.encoder);
}

fn lookup(server: &MockServer, args: &Lookup3Args<'_>, buffers: &mut MockReplyBuffers<'_>) {
    let tree = &server.tree;
    let dir_attributes = handle_attributes(tree, &args.what.dir);
    let result = tree.object(args.what.dir.0).and_then(|directory| tree.lookup(directory, args.what.name.0));
    match result {
        Ok(id) => {
            let handle = handle(id);
            let obj_attributes = attributes(tree, id);
            let ok = Lookup3Resok { object: Opaque(&handle), obj_attributes, dir_attributes };
            Results::LOOKUP(StatusUnion::Ok(ok)).encode(buffers.encoder);
        }
        Err(error) => {
            let results = StatusUnion::Fail(status(error), DirAttributes3Resfail { dir_attributes });
            Results::LOOKUP(results).encode(buffers.encoder);
        }
    }
}

/// Length in bytes of a READDIR entry without its name: presence word, fileid, name length, cookie.
const ENTRY: usize = 4 + 8 + 4 + 8;
/// Length in bytes of a READDIRPLUS entry without its name: also attributes and filehandle.
const ENTRY_PLUS: usize = ENTRY + 4 + 84 + 4 + 4 + 16;
/// Length in bytes of the rest of the reply: status, attributes, verifier, end.
const LISTING_OVERHEAD_BYTES: usize = 4 + 88 + 8 + 8;

/// A directory entry: cookie, name and object.
type MockDirectoryEntry<'a> = (u64, &'a [u8], MockFileId);

/// Returns the entries after a cookie that fit in `limit_bytes` bytes, each of `entry_bytes` bytes without its name,
/// and `true` if no more follow. "." and ".." are the first two.
fn entries<'t>(
    (tree, listing): (&'t MockFileTree, MockListingPolicy),
    directory: &NfsFh3<'_>,
    cookie: u64,
    entry_bytes: usize,
    limit_bytes: u32,
) -> Result<(Vec<MockDirectoryEntry<'t>>, bool), Nfsstat3> {
    let directory = tree.object(directory.0).map_err(status)?;
    let names = tree.directory(directory).map_err(status)?;
    let parent = tree.node(directory).map_err(status)?.parent;
    let dots = [(1, &b"."[..], directory), (2, b"..", parent)];
    let dots = dots.into_iter().filter(|dot| dot.0 > cookie);
    let mut entries: Vec<_> = dots.chain(names.after(cookie)).collect();
    let is_last = listing.limit(&mut entries);
    let mut remaining_bytes = (limit_bytes as usize).saturating_sub(LISTING_OVERHEAD_BYTES);
    let fits = |(_, name, _): &&MockDirectoryEntry<'_>| {
        let length = entry_bytes + name.len().next_multiple_of(4);
        let fits = length <= remaining_bytes;
        remaining_bytes = remaining_bytes.saturating_sub(length);
        fits
    };
    let count = entries.iter().take_while(fits).count();
    let eof = count == entries.len() && is_last;
    entries.truncate(count);
    if entries.is_empty() && !eof { Err(Nfsstat3::NFS3ERR_TOOSMALL) } else { Ok((entries, eof)) }
}

fn readdir(server: &MockServer, args: &Readdir3Args<'_>, buffers: &mut MockReplyBuffers<'_>) {
    let dir_attributes = handle_attributes(&server.tree, &args.dir);
    match entries((&server.tree, server.listing), &args.dir, args.cookie, ENTRY, args.count) {
        Ok((entries, eof)) => {
            let entry = |(cookie, name, fileid)| Entry3 { fileid, name: Text(name), cookie };
            let list: Vec<_> = entries.into_iter().map(entry).collect();
            let reply = Dirlist3 { entries: XdrLinkedList::from(&list[..]), eof };
            let ok = Readdir3Resok { dir_attributes, cookieverf: VERIFIER, reply };
            Results::READDIR(StatusUnion::Ok(ok)).encode(buffers.encoder);
        }
        Err(error) => {
            let results = StatusUnion::Fail(error, DirAttributes3Resfail { dir_attributes });
            Results::READDIR(results).encode(buffers.encoder);
        }
    }
}

fn readdirplus(server: &MockServer, args: &Readdirplus3Args<'_>, buffers: &mut MockReplyBuffers<'_>) {
    let tree = &server.tree;
    let dir_attributes = handle_attributes(tree, &args.dir);
    match entries((tree, server.listing), &args.dir, args.cookie, ENTRY_PLUS, args.maxcount) {
        Ok((entries, eof)) => {
            let handles: Vec<_> = entries.iter().map(|(_, _, id)| handle(*id)).collect();
            let list: Vec<_> = entries
                .iter()
                .zip(&handles)
                .map(|((cookie, name, id), handle)| Entryplus3 {
                    fileid: *id,
                    name: Text(name),
                    cookie: *cookie,
                    name_attributes: attributes(tree, *id),
                    name_handle: Some(Opaque(&handle[..])),
                })
                .collect();
            let reply = Dirlistplus3 { entries: XdrLinkedList::from(&list[..]), eof };
            let ok = Readdirplus3Resok { dir_attributes, cookieverf: VERIFIER, reply };
            Results::READDIRPLUS(StatusUnion::Ok(ok)).encode(buffers.encoder);
        }
        Err(error) => {
            let results = StatusUnion::Fail(error, DirAttributes3Resfail { dir_attributes });
            Results::READDIRPLUS(results).encode(buffers.encoder);
        }
    }
}

/// Returns results about an object that begin with its attributes.
fn about_object<T>(
    tree: &MockFileTree,
    handle: &NfsFh3<'_>,
    result: impl FnOnce(&MockObject, PostOpAttr) -> T,
) -> StatusUnion<Nfsstat3, T, ObjAttributes3Resfail> {
    let obj_attributes = handle_attributes(tree, handle);
    match tree.object(handle.0).and_then(|id| tree.node(id)) {
        Ok(node) => StatusUnion::Ok(result(node, obj_attributes)),
        Err(error) => StatusUnion::Fail(status(error), ObjAttributes3Resfail { obj_attributes }),
    }
}

/// Executes the procedures whose results borrow nothing from the tree.
fn call_without_data(server: &mut MockServer, args: &Args<'_>) -> Results<'static> {
    let verf = server.write_verifier();
    let MockServer { tree, caller, .. } = server;
    match args {
        Args::GETATTR(args) => Results::GETATTR(match tree.object(args.object.0).map(|id| attributes(tree, id)) {
            Ok(Some(obj_attributes)) => StatusUnion::Ok(Getattr3Resok { obj_attributes }),
            Ok(None) => StatusUnion::Fail(Nfsstat3::NFS3ERR_STALE, Void),
            Err(error) => StatusUnion::Fail(status(error), Void),
        }),
        Args::SETATTR(args) => {
            let before = pre_op_attributes(tree, &args.object);
            let guard = |id| match (&args.guard, tree.node(id)) {
                (Some(guard), Ok(node)) if *guard != time(MockObject::time(node.ctime)) => {
                    Err(MockNfsError(Nfsstat3::NFS3ERR_NOT_SYNC.0))
                }
                _ => Ok(id),
            };
            let new_attributes = &args.new_attributes;
            let is_owner_only =
                new_attributes.mode.is_some() || new_attributes.uid.is_some() || new_attributes.gid.is_some();
            let permitted = |id| match tree.node(id) {
                Ok(node) if is_owner_only && !node.is_owned_by(caller) => Err(MockNfsError::PERM),
                _ => Ok(id),
            };
            let result = tree.object(args.object.0).and_then(guard).and_then(permitted);
            let result = result.and_then(|id| set(tree, id, new_attributes));
            let obj_wcc = ObjWcc { obj_wcc: wcc(tree, &args.object, before) };
            Results::SETATTR(outcome(result, obj_wcc))
        }
        Args::ACCESS(args) => Results::ACCESS(about_object(tree, &args.object, |node, obj_attributes| Access3Resok {
            obj_attributes,
            access: Access3(args.access.0 & node.rights(caller)),
        })),
        Args::WRITE(args) => {
            let before = pre_op_attributes(tree, &args.file);
            let data = args.data.bytes().unwrap_or_default();
            let count = args.count.min(tree.io_bytes).min(u32::try_from(data.len()).unwrap_or(u32::MAX));
            let data = data.get(..count as usize).unwrap_or_default();
            let result = tree.object(args.file.0).and_then(|id| tree.write(id, args.offset, data));
            let file_wcc = wcc(tree, &args.file, before);
            Results::WRITE(match result {
                Ok(()) => StatusUnion::Ok(Write3Resok { file_wcc, count, committed: args.stable, verf }),
                Err(error) => StatusUnion::Fail(status(error), FileWcc { file_wcc }),
            })
        }
        Args::REMOVE(args) => Results::REMOVE(remove(tree, &args.object, false)),
        Args::RMDIR(args) => Results::RMDIR(remove(tree, &args.object, true)),
        Args::RENAME(args) => {
            let (from, to) = (pre_op_attributes(tree, &args.from.dir), pre_op_attributes(tree, &args.to.dir));
            let directories = tree.object(args.from.dir.0).and_then(|from| Ok((from, tree.object(args.to.dir.0)?)));
            let result = directories.and_then(|(from, to)| tree.rename((from, args.from.name.0), (to, args.to.name.0)));
            let (fromdir_wcc, todir_wcc) = (wcc(tree, &args.from.dir, from), wcc(tree, &args.to.dir, to));
            Results::RENAME(outcome(result, RenameWcc { fromdir_wcc, todir_wcc }))
        }
        Args::LINK(args) => {
            let before = pre_op_attributes(tree, &args.link.dir);
            let objects = tree.object(args.file.0).and_then(|file| Ok((file, tree.object(args.link.dir.0)?)));
            let result = objects.and_then(|(file, directory)| tree.link(file, directory, args.link.name.0));
            let linkdir_wcc = wcc(tree, &args.link.dir, before);
            Results::LINK(outcome(
                result,
                Link3Res { file_attributes: handle_attributes(tree, &args.file), linkdir_wcc },
            ))
        }
        Args::FSSTAT(args) => Results::FSSTAT(about_object(tree, &args.fsroot, |_, obj_attributes| Fsstat3Resok {
            obj_attributes,
            tbytes: 1 << 30,
            fbytes: 1 << 29,
            abytes: 1 << 29,
            tfiles: 1 << 20,
            ffiles: 1 << 19,
            afiles: 1 << 19,
            invarsec: 0,
        })),
        Args::FSINFO(args) => Results::FSINFO(about_object(tree, &args.fsroot, |_, obj_attributes| Fsinfo3Resok {
            obj_attributes,
            rtmax: tree.io_bytes,
            rtpref: tree.io_bytes,
            rtmult: 4096,
            wtmax: tree.io_bytes,
            wtpref: tree.io_bytes,
            wtmult: 4096,
            dtpref: 4096,
            maxfilesize: 256 << 20,
            time_delta: Duration3 { seconds: 0, nseconds: 1_000_000 },
            properties: Fsf3(0x0b),
        })),
        Args::PATHCONF(args) => {
            Results::PATHCONF(about_object(tree, &args.object, |_, obj_attributes| Pathconf3Resok {
                obj_attributes,
                linkmax: 32000,
                name_max: 255,
                no_trunc: true,
                chown_restricted: true,
                case_insensitive: false,
                case_preserving: true,
            }))
        }
        Args::COMMIT(args) => {
            let file_wcc =
                WccData { before: pre_op_attributes(tree, &args.file), after: handle_attributes(tree, &args.file) };
            Results::COMMIT(match tree.object(args.file.0).and_then(|id| tree.node(id)) {
                Ok(_) => StatusUnion::Ok(Commit3Resok { file_wcc, verf }),
                Err(error) => StatusUnion::Fail(status(error), FileWcc { file_wcc }),
            })
        }
        // All other procedures of the table have their own functions.
        _ => Results::NULL(Void),
    }
}

fn remove(tree: &mut MockFileTree, at: &Diropargs3<'_>, is_directory: bool) -> StatusUnion<Nfsstat3, DirWcc, DirWcc> {
    let before = pre_op_attributes(tree, &at.dir);
    let result = tree.object(at.dir.0).and_then(|directory| tree.remove(directory, at.name.0, Some(is_directory)));
    outcome(result, DirWcc { dir_wcc: wcc(tree, &at.dir, before) })
}

/// Returns results that have the same content on success and on failure.
fn outcome<T>(result: Result<(), MockNfsError>, content: T) -> StatusUnion<Nfsstat3, T, T> {
    match result {
        Ok(()) => StatusUnion::Ok(content),
        Err(error) => StatusUnion::Fail(status(error), content),
    }
}
