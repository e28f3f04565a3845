//! The procedures of NFSv3. RFC 1813 section 3.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v3::*;
use nfsrdma_dissectors::rpc::AcceptStat;
use nfsrdma_dissectors::xdr::{Chain, Cursor, Ddp, DdpText, Opaque, Text, Void, Xdr};

use super::file_tree::{MockDirectory, MockFileId, MockObject, MockObjectContent};
use super::{MockFileTree, MockNfsError, MockReplyBuffers, MockServer, unreadable};

/// The cookie verifier: all cookies are always valid.
const VERIFIER: Verifier3 = *b"loopback";

/// Returns the filehandle of an object: an identifier of this server, and the number of the object.
pub(super) fn handle(id: MockFileId) -> [u8; 16] {
    let mut handle = *b"loopback\0\0\0\0\0\0\0\0";
    if let Some(place) = handle.last_chunk_mut() {
        *place = id.to_be_bytes();
    }
    handle
}

fn status(fail: MockNfsError) -> Nfsstat3 {
    Nfsstat3(fail.0)
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
        nlink: MockFileTree::links(node),
        uid: node.uid,
        gid: node.gid,
        size: node.size(),
        used: node.size(),
        rdev: Specdata3 { specdata1, specdata2 },
        fsid: 1,
        fileid: id,
        atime: time(MockFileTree::time(node.atime)),
        mtime: time(node.modified()),
        ctime: time(MockFileTree::time(node.ctime)),
    })
}

/// Returns the attributes of a filehandle's object, if it exists.
fn handle_attributes(tree: &MockFileTree, handle: &NfsFh3<'_>) -> PostOpAttr {
    attributes(tree, tree.object(handle.0).ok()?)
}

fn pre_op_attributes(tree: &MockFileTree, handle: &NfsFh3<'_>) -> PreOpAttr {
    let node = tree.node(tree.object(handle.0).ok()?).ok()?;
    Some(WccAttr {
        size: node.size(),
        mtime: time(node.modified()),
        ctime: time(MockFileTree::time(node.ctime)),
    })
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

type MockCreateResult<'a> = StatusUnion<Nfsstat3, Create3Resok<'a>, DirWcc>;

/// Creates an object, and encodes the result of CREATE, MKDIR, SYMLINK or MKNOD.
fn make(
    server: &mut MockServer,
    r#where: &Diropargs3<'_>,
    room: &mut MockReplyBuffers<'_>,
    create: impl FnOnce(&mut MockFileTree, MockFileId) -> Result<MockFileId, MockNfsError>,
) {
    let tree = &mut server.tree;
    let before = pre_op_attributes(tree, &r#where.dir);
    let made = tree.object(r#where.dir.0).and_then(|directory| create(tree, directory));
    let dir_wcc = wcc(tree, &r#where.dir, before);
    match made {
        Ok(id) => {
            let handle = handle(id);
            let obj = Some(Opaque(&handle[..]));
            let created = Create3Resok { obj, obj_attributes: attributes(tree, id), dir_wcc };
            MockCreateResult::Ok(created).encode(room.encoder);
        }
        Err(fail) => MockCreateResult::Fail(status(fail), DirWcc { dir_wcc }).encode(room.encoder),
    }
}

pub(super) fn call(
    server: &mut MockServer,
    number: u32,
    cursor: &mut Cursor<'_>,
    room: &mut MockReplyBuffers<'_>,
) -> Result<(), AcceptStat> {
    let args = Args::decode(Procedure(number), cursor, &mut NullFieldObserver).map_err(unreadable)?;
    match &args {
        Args::NULL(_) => Results::NULL(Void).encode(room.encoder),
        Args::CREATE(args) => make(server, &args.r#where, room, |tree, directory| {
            let name = args.r#where.name.0;
            let there = tree.lookup(directory, name);
            let (to, is_guarded) = match &args.how {
                Createhow3::Unchecked(to) => (Some(to), false),
                Createhow3::Guarded(to) => (Some(to), true),
                Createhow3::Exclusive(_) => (None, true),
            };
            let id = match there {
                Ok(_) if is_guarded => return Err(MockNfsError::EXIST),
                Ok(id) => id,
                Err(_) => tree.create(directory, name, MockObjectContent::File(Vec::new()), 0o644)?,
            };
            to.map_or(Ok(()), |to| set(tree, id, to)).map(|()| id)
        }),
        Args::MKDIR(args) => make(server, &args.r#where, room, |tree, directory| {
            let content = MockObjectContent::Directory(MockDirectory::default());
            let id = tree.create(directory, args.r#where.name.0, content, 0o755)?;
            set(tree, id, &args.attributes).map(|()| id)
        }),
        Args::SYMLINK(args) => make(server, &args.r#where, room, |tree, directory| {
            let text = args.symlink.symlink_data.bytes().unwrap_or_default().to_vec();
            tree.create(directory, args.r#where.name.0, MockObjectContent::Link(text), 0o777)
        }),
        Args::MKNOD(args) => make(server, &args.r#where, room, |tree, directory| {
            let numbers = match &args.what {
                Mknoddata3::Chr(device) | Mknoddata3::Blk(device) => {
                    [device.spec.specdata1, device.spec.specdata2]
                }
                Mknoddata3::Sock(_) | Mknoddata3::Fifo(_) => [0; 2],
                Mknoddata3::Other(_) => return Err(MockNfsError(Nfsstat3::NFS3ERR_BADTYPE.0)),
            };
            let content = MockObjectContent::Special(args.what.tag().0, numbers);
            tree.create(directory, args.r#where.name.0, content, 0o644)
        }),
        Args::READ(args) => read(server, args, room),
        Args::READLINK(args) => readlink(server, args, room),
        Args::LOOKUP(args) => lookup(server, args, room),
        Args::READDIR(args) => readdir(server, args, room),
        Args::READDIRPLUS(args) => readdirplus(server, args, room),
        _ => call_without_data(server, &args).encode(room.encoder),
    }
    Ok(())
}

fn read(server: &MockServer, args: &Read3Args<'_>, room: &mut MockReplyBuffers<'_>) {
    let file_attributes = handle_attributes(&server.tree, &args.file);
    let found = server
        .tree
        .object(args.file.0)
        .and_then(|id| server.tree.read(id, args.offset, args.count.min(server.tree.io_bytes)));
    let results = match found {
        Ok((bytes, eof)) => {
            let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            room.data.push(bytes.to_vec());
            let data = Ddp::Chunk { length: count, bytes: None };
            StatusUnion::Ok(Read3Resok { file_attributes, count, eof, data })
        }
        Err(fail) => StatusUnion::Fail(status(fail), Read3Resfail { file_attributes }),
    };
    Results::READ(results).encode(room.encoder);
}

fn readlink(server: &MockServer, args: &Readlink3Args<'_>, room: &mut MockReplyBuffers<'_>) {
    let symlink_attributes = handle_attributes(&server.tree, &args.symlink);
    let found = server.tree.object(args.symlink.0).and_then(|id| server.tree.node(id));
    let results = match found.map(|node| &node.content) {
        Ok(MockObjectContent::Link(text)) => {
            room.data.push(text.clone());
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let data = DdpText::Chunk { length, bytes: None };
            StatusUnion::Ok(Readlink3Resok { symlink_attributes, data })
        }
        found => {
            let fail = found.err().unwrap_or(MockNfsError::INVAL);
            StatusUnion::Fail(status(fail), Readlink3Resfail { symlink_attributes })
        }
    };
    Results::READLINK(results).encode(room.encoder);
}

fn lookup(server: &MockServer, args: &Lookup3Args<'_>, room: &mut MockReplyBuffers<'_>) {
    let tree = &server.tree;
    let dir_attributes = handle_attributes(tree, &args.what.dir);
    let found = tree.object(args.what.dir.0).and_then(|directory| tree.lookup(directory, args.what.name.0));
    match found {
        Ok(id) => {
            let handle = handle(id);
            let obj_attributes = attributes(tree, id);
            let ok = Lookup3Resok { object: Opaque(&handle), obj_attributes, dir_attributes };
            Results::LOOKUP(StatusUnion::Ok(ok)).encode(room.encoder);
        }
        Err(fail) => {
            let failed = StatusUnion::Fail(status(fail), DirAttributes3Resfail { dir_attributes });
            Results::LOOKUP(failed).encode(room.encoder);
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

/// Maximum number of entries per Reply.
const ENTRIES: usize = 4096;

/// Returns the entries after a cookie that fit in `room` bytes, each of `each` bytes without its name, and `true` if no
/// more follow. "." and ".." are the first two.
fn entries<'t>(
    tree: &'t MockFileTree,
    directory: &NfsFh3<'_>,
    cookie: u64,
    each: usize,
    room: u32,
) -> Result<(Vec<MockDirectoryEntry<'t>>, bool), Nfsstat3> {
    let directory = tree.object(directory.0).map_err(status)?;
    let names = tree.directory(directory).map_err(status)?;
    let parent = tree.node(directory).map_err(status)?.parent;
    let dots = [(1, &b"."[..], directory), (2, b"..", parent)];
    let dots = dots.into_iter().filter(|dot| dot.0 > cookie);
    let mut found: Vec<_> = dots.chain(names.after(cookie)).take(ENTRIES).collect();
    let mut left = (room as usize).saturating_sub(LISTING_OVERHEAD_BYTES);
    let fits = |(_, name, _): &&MockDirectoryEntry<'_>| {
        let length = each + name.len().next_multiple_of(4);
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    let count = found.iter().take_while(fits).count();
    let eof = count == found.len() && count < ENTRIES;
    found.truncate(count);
    if found.is_empty() && !eof { Err(Nfsstat3::NFS3ERR_TOOSMALL) } else { Ok((found, eof)) }
}

fn readdir(server: &MockServer, args: &Readdir3Args<'_>, room: &mut MockReplyBuffers<'_>) {
    let dir_attributes = handle_attributes(&server.tree, &args.dir);
    match entries(&server.tree, &args.dir, args.cookie, ENTRY, args.count) {
        Ok((found, eof)) => {
            let entry = |(cookie, name, fileid)| Entry3 { fileid, name: Text(name), cookie };
            let list: Vec<_> = found.into_iter().map(entry).collect();
            let reply = Dirlist3 { entries: Chain::from(&list[..]), eof };
            let ok = Readdir3Resok { dir_attributes, cookieverf: VERIFIER, reply };
            Results::READDIR(StatusUnion::Ok(ok)).encode(room.encoder);
        }
        Err(fail) => {
            let failed = StatusUnion::Fail(fail, DirAttributes3Resfail { dir_attributes });
            Results::READDIR(failed).encode(room.encoder);
        }
    }
}

fn readdirplus(server: &MockServer, args: &Readdirplus3Args<'_>, room: &mut MockReplyBuffers<'_>) {
    let tree = &server.tree;
    let dir_attributes = handle_attributes(tree, &args.dir);
    match entries(tree, &args.dir, args.cookie, ENTRY_PLUS, args.maxcount) {
        Ok((found, eof)) => {
            let handles: Vec<_> = found.iter().map(|(_, _, id)| handle(*id)).collect();
            let list: Vec<_> = found
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
            let reply = Dirlistplus3 { entries: Chain::from(&list[..]), eof };
            let ok = Readdirplus3Resok { dir_attributes, cookieverf: VERIFIER, reply };
            Results::READDIRPLUS(StatusUnion::Ok(ok)).encode(room.encoder);
        }
        Err(fail) => {
            let failed = StatusUnion::Fail(fail, DirAttributes3Resfail { dir_attributes });
            Results::READDIRPLUS(failed).encode(room.encoder);
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
        Err(fail) => StatusUnion::Fail(status(fail), ObjAttributes3Resfail { obj_attributes }),
    }
}

/// Executes the procedures whose results borrow nothing from the tree.
fn call_without_data(server: &mut MockServer, args: &Args<'_>) -> Results<'static> {
    let verf = server.write_verifier();
    let MockServer { tree, caller, .. } = server;
    match args {
        Args::GETATTR(args) => {
            Results::GETATTR(match tree.object(args.object.0).map(|id| attributes(tree, id)) {
                Ok(Some(obj_attributes)) => StatusUnion::Ok(Getattr3Resok { obj_attributes }),
                Ok(None) => StatusUnion::Fail(Nfsstat3::NFS3ERR_STALE, Void),
                Err(fail) => StatusUnion::Fail(status(fail), Void),
            })
        }
        Args::SETATTR(args) => {
            let before = pre_op_attributes(tree, &args.object);
            let guard = |id| match (&args.guard, tree.node(id)) {
                (Some(guard), Ok(node)) if *guard != time(MockFileTree::time(node.ctime)) => {
                    Err(MockNfsError(Nfsstat3::NFS3ERR_NOT_SYNC.0))
                }
                _ => Ok(id),
            };
            let new = &args.new_attributes;
            let is_owners = new.mode.is_some() || new.uid.is_some() || new.gid.is_some();
            let permitted = |id| match tree.node(id) {
                Ok(node) if is_owners && !node.is_owned_by(caller) => Err(MockNfsError::PERM),
                _ => Ok(id),
            };
            let done = tree.object(args.object.0).and_then(guard).and_then(permitted);
            let done = done.and_then(|id| set(tree, id, new));
            let obj_wcc = ObjWcc { obj_wcc: wcc(tree, &args.object, before) };
            Results::SETATTR(outcome(done, obj_wcc))
        }
        Args::ACCESS(args) => Results::ACCESS(about_object(tree, &args.object, |node, obj_attributes| {
            Access3Resok { obj_attributes, access: Access3(args.access.0 & node.rights(caller)) }
        })),
        Args::WRITE(args) => {
            let before = pre_op_attributes(tree, &args.file);
            let data = args.data.bytes().unwrap_or_default();
            let count = args.count.min(tree.io_bytes).min(u32::try_from(data.len()).unwrap_or(u32::MAX));
            let data = data.get(..count as usize).unwrap_or_default();
            let done = tree.object(args.file.0).and_then(|id| tree.write(id, args.offset, data));
            let file_wcc = wcc(tree, &args.file, before);
            Results::WRITE(match done {
                Ok(()) => StatusUnion::Ok(Write3Resok { file_wcc, count, committed: args.stable, verf }),
                Err(fail) => StatusUnion::Fail(status(fail), FileWcc { file_wcc }),
            })
        }
        Args::REMOVE(args) => Results::REMOVE(remove(tree, &args.object, false)),
        Args::RMDIR(args) => Results::RMDIR(remove(tree, &args.object, true)),
        Args::RENAME(args) => {
            let (from, to) = (pre_op_attributes(tree, &args.from.dir), pre_op_attributes(tree, &args.to.dir));
            let both = tree.object(args.from.dir.0).and_then(|from| Ok((from, tree.object(args.to.dir.0)?)));
            let done =
                both.and_then(|(from, to)| tree.rename((from, args.from.name.0), (to, args.to.name.0)));
            let (fromdir_wcc, todir_wcc) = (wcc(tree, &args.from.dir, from), wcc(tree, &args.to.dir, to));
            Results::RENAME(outcome(done, RenameWcc { fromdir_wcc, todir_wcc }))
        }
        Args::LINK(args) => {
            let before = pre_op_attributes(tree, &args.link.dir);
            let both = tree.object(args.file.0).and_then(|file| Ok((file, tree.object(args.link.dir.0)?)));
            let done = both.and_then(|(file, directory)| tree.link(file, directory, args.link.name.0));
            let linkdir_wcc = wcc(tree, &args.link.dir, before);
            Results::LINK(outcome(
                done,
                Link3Res { file_attributes: handle_attributes(tree, &args.file), linkdir_wcc },
            ))
        }
        Args::FSSTAT(args) => {
            Results::FSSTAT(about_object(tree, &args.fsroot, |_, obj_attributes| Fsstat3Resok {
                obj_attributes,
                tbytes: 1 << 30,
                fbytes: 1 << 29,
                abytes: 1 << 29,
                tfiles: 1 << 20,
                ffiles: 1 << 19,
                afiles: 1 << 19,
                invarsec: 0,
            }))
        }
        Args::FSINFO(args) => {
            Results::FSINFO(about_object(tree, &args.fsroot, |_, obj_attributes| Fsinfo3Resok {
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
            }))
        }
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
            let file_wcc = WccData {
                before: pre_op_attributes(tree, &args.file),
                after: handle_attributes(tree, &args.file),
            };
            Results::COMMIT(match tree.object(args.file.0).and_then(|id| tree.node(id)) {
                Ok(_) => StatusUnion::Ok(Commit3Resok { file_wcc, verf }),
                Err(fail) => StatusUnion::Fail(status(fail), FileWcc { file_wcc }),
            })
        }
        // All other procedures of the table have their own functions.
        _ => Results::NULL(Void),
    }
}

fn remove(
    tree: &mut MockFileTree,
    at: &Diropargs3<'_>,
    is_directory: bool,
) -> StatusUnion<Nfsstat3, DirWcc, DirWcc> {
    let before = pre_op_attributes(tree, &at.dir);
    let done =
        tree.object(at.dir.0).and_then(|directory| tree.remove(directory, at.name.0, Some(is_directory)));
    outcome(done, DirWcc { dir_wcc: wcc(tree, &at.dir, before) })
}

/// Returns results that have the same content on success and on failure.
fn outcome<T>(done: Result<(), MockNfsError>, content: T) -> StatusUnion<Nfsstat3, T, T> {
    match done {
        Ok(()) => StatusUnion::Ok(content),
        Err(fail) => StatusUnion::Fail(status(fail), content),
    }
}
