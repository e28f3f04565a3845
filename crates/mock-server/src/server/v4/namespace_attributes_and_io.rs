//! Filehandles, names, attributes and contents. RFC 7530 section 16, RFC 8881 section 18.

use nfsrdma_dissectors::nfs::v4::{
    Access4, Access4Resok, Args, Attribute, Attributes, Bitmap4, ChangeInfo4, ChangeInfoResok4, Commit4Resok,
    Create4Args, Create4Resok, Createtype4, Dirlist4, Entry4, Fattr4, Flavor, Getattr4Resok, NfsFtype4, Nfsstat4,
    ObjectFh4, Read4Args, Read4Resok, Readdir4Args, Readdir4Resok, Readlink4Resok, Rename4Resok, Results, Secinfo4,
    Secinfo4Resok, Setattr4Res, Stateid4, Write4Args, Write4Resok, mask_and_values,
};
use nfsrdma_dissectors::xdr::{Ddp, DdpText, Opaque, Text, Void, XdrArray, XdrLinkedList};

use super::super::file_object::{MockDirectory, MockObjectContent};
use super::super::file_tree::MockFileTree;
use super::super::filehandle::{MockFileId, handle};
use super::super::mock_server::{MockListingPolicy, MockServer};
use super::attributes;
use super::compound::MockCompoundExecution;

/// The cookie verifier: all cookies are always valid.
const VERIFIER: [u8; 8] = *b"loopback";
/// Length in bytes of READDIR results without entries: status, verifier, end.
const LISTING_OVERHEAD_BYTES: usize = 24;

pub(super) fn step(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Args<'_>,
) -> Result<(), Nfsstat4> {
    let writeverf = server.write_verifier();
    let MockServer { tree, caller, delayed_entries, listing, .. } = server;
    match args {
        Args::PUTROOTFH(_) | Args::PUTPUBFH(_) => {
            tree.record_access(MockFileTree::ROOT);
            compound.current = Some(MockFileTree::ROOT);
            compound.stateid = None;
            match args {
                Args::PUTROOTFH(_) => compound.succeed(Results::PUTROOTFH, Void),
                _ => compound.succeed(Results::PUTPUBFH, Void),
            }
        }
        Args::PUTFH(args) => {
            let id = tree.object(args.object.0)?;
            tree.node(id)?;
            compound.current = Some(id);
            compound.stateid = None;
            compound.succeed(Results::PUTFH, Void)
        }
        Args::GETFH(_) => {
            let handle = handle(compound.current()?);
            compound.succeed(Results::GETFH, ObjectFh4 { object: Opaque(&handle) })
        }
        Args::SAVEFH(_) => {
            compound.saved = Some(compound.current()?);
            compound.succeed(Results::SAVEFH, Void)
        }
        Args::RESTOREFH(_) => {
            compound.current = Some(compound.saved()?);
            compound.succeed(Results::RESTOREFH, Void)
        }
        Args::LOOKUP(args) => {
            let current = compound.current()?;
            if matches!(tree.node(current)?.content, MockObjectContent::Link(_)) {
                return Err(Nfsstat4::NFS4ERR_SYMLINK);
            }
            if matches!(args.objname.0, b"." | b"..") && tree.outside.is_none() {
                return Err(Nfsstat4::NFS4ERR_BADNAME);
            }
            compound.current = Some(tree.lookup(current, args.objname.0)?);
            compound.succeed(Results::LOOKUP, Void)
        }
        Args::LOOKUPP(_) => {
            let current = compound.current()?;
            if current == MockFileTree::ROOT {
                return Err(Nfsstat4::NFS4ERR_NOENT);
            }
            compound.current = Some(tree.lookup(current, b"..")?);
            compound.succeed(Results::LOOKUPP, Void)
        }
        Args::GETATTR(args) => {
            let (words, values) = attributes::get(tree, compound.current()?, &args.attr_request)?;
            let obj_attributes = Fattr4::new(Bitmap4::from(&words[..]), Opaque(&values));
            compound.succeed(Results::GETATTR, Getattr4Resok { obj_attributes })
        }
        Args::VERIFY(args) => match is_same(tree, compound.current()?, &args.obj_attributes)? {
            true => compound.succeed(Results::VERIFY, Void),
            false => Err(Nfsstat4::NFS4ERR_NOT_SAME),
        },
        Args::NVERIFY(args) => match is_same(tree, compound.current()?, &args.obj_attributes)? {
            true => Err(Nfsstat4::NFS4ERR_SAME),
            false => compound.succeed(Results::NVERIFY, Void),
        },
        Args::ACCESS(args) => {
            // Access bits that do not apply to the object type are not supported.
            let node = tree.node(compound.current()?)?;
            let mask = if node.kind() == 2 { 0x1f } else { 0x2d };
            let supported = Access4(args.access.0 & mask);
            let access = Access4(supported.0 & node.rights(caller));
            compound.succeed(Results::ACCESS, Access4Resok { supported, access })
        }
        Args::SETATTR(args) => {
            let id = compound.current()?;
            let is_owner_only = args
                .obj_attributes
                .mask
                .iter()
                .any(|bit| matches!(bit, Attributes::MODE | Attributes::OWNER | Attributes::OWNER_GROUP));
            if is_owner_only && !tree.node(id)?.is_owned_by(caller) {
                return Err(Nfsstat4::NFS4ERR_PERM);
            }
            let words = attributes::set(tree, id, &args.obj_attributes)?;
            let attrsset = Bitmap4::from(&words[..]);
            compound.encode_results(&Results::SETATTR(Setattr4Res { status: Nfsstat4::NFS4_OK, attrsset }))
        }
        Args::CREATE(args) => create(tree, compound, args),
        Args::REMOVE(args) => {
            let directory = compound.current()?;
            let before = tree.change(directory)?;
            tree.remove(directory, args.target.0, None)?;
            let cinfo = changed(tree, directory, before)?;
            compound.succeed(Results::REMOVE, ChangeInfoResok4 { cinfo })
        }
        Args::RENAME(args) => {
            let (from, to) = (compound.saved()?, compound.current()?);
            let (source, target) = (tree.change(from)?, tree.change(to)?);
            tree.rename((from, args.oldname.0), (to, args.newname.0))?;
            let source_cinfo = changed(tree, from, source)?;
            let target_cinfo = changed(tree, to, target)?;
            compound.succeed(Results::RENAME, Rename4Resok { source_cinfo, target_cinfo })
        }
        Args::LINK(args) => {
            let (file, directory) = (compound.saved()?, compound.current()?);
            let before = tree.change(directory)?;
            tree.link(file, directory, args.newname.0)?;
            let cinfo = changed(tree, directory, before)?;
            compound.succeed(Results::LINK, ChangeInfoResok4 { cinfo })
        }
        Args::READLINK(_) => {
            tree.record_read(compound.current()?);
            let MockObjectContent::Link(text) = &tree.node(compound.current()?)?.content else {
                return Err(Nfsstat4::NFS4ERR_INVAL);
            };
            compound.data.push(text.clone());
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let link = DdpText::Chunk { length, bytes: None };
            compound.succeed(Results::READLINK, Readlink4Resok { link })
        }
        Args::READDIR(args) => {
            tree.record_read(compound.current()?);
            readdir(tree, compound, args, (*listing, delayed_entries))
        }
        Args::READ(args) => read(server, compound, args),
        Args::WRITE(args) => write(server, compound, args),
        Args::COMMIT(_) => {
            tree.read(compound.current()?, 0, 0)?;
            compound.succeed(Results::COMMIT, Commit4Resok { writeverf })
        }
        Args::SECINFO(args) => {
            tree.lookup(compound.current()?, args.name.0)?;
            let flavors = [Secinfo4::Other(Flavor::AUTH_SYS)];
            let ok = Secinfo4Resok { resok4: XdrArray::from(&flavors[..]) };
            // RFC 8881 section 2.6.3.1.1.8: the current filehandle is consumed.
            if compound.minor > 0 {
                compound.current = None;
            }
            compound.succeed(Results::SECINFO, ok)
        }
        Args::SECINFO_NO_NAME(_) => {
            compound.current()?;
            let flavors = [Secinfo4::Other(Flavor::AUTH_SYS)];
            let ok = Secinfo4Resok { resok4: XdrArray::from(&flavors[..]) };
            compound.current = None;
            compound.succeed(Results::SECINFO_NO_NAME, ok)
        }
        _ => Err(Nfsstat4::NFS4ERR_NOTSUPP),
    }
}

fn changed(tree: &MockFileTree, id: MockFileId, before: u64) -> Result<ChangeInfo4, Nfsstat4> {
    Ok(ChangeInfo4 { atomic: true, before, after: tree.change(id)? })
}

/// Returns `true` if an object has these attribute values.
fn is_same(tree: &MockFileTree, id: MockFileId, expected: &Fattr4<'_>) -> Result<bool, Nfsstat4> {
    let (words, values) = attributes::get(tree, id, &expected.mask)?;
    if Bitmap4::from(&words[..]) != expected.mask {
        return Err(Nfsstat4::NFS4ERR_ATTRNOTSUPP);
    }
    Ok(values == expected.values.0)
}

fn create(
    tree: &mut MockFileTree,
    compound: &mut MockCompoundExecution<'_>,
    args: &Create4Args<'_>,
) -> Result<(), Nfsstat4> {
    let directory = compound.current()?;
    let before = tree.change(directory)?;
    let (content, mode) = match &args.objtype {
        Createtype4::Link(text) => (MockObjectContent::Link(text.bytes().unwrap_or_default().to_vec()), 0o777),
        Createtype4::Block(device) | Createtype4::Character(device) => {
            (MockObjectContent::Special(args.objtype.tag().0, [device.specdata1, device.specdata2]), 0o644)
        }
        Createtype4::Other(NfsFtype4::NF4DIR) => (MockObjectContent::Directory(MockDirectory::default()), 0o755),
        Createtype4::Other(kind @ (NfsFtype4::NF4SOCK | NfsFtype4::NF4FIFO)) => {
            (MockObjectContent::Special(kind.0, [0; 2]), 0o644)
        }
        Createtype4::Other(_) => return Err(Nfsstat4::NFS4ERR_BADTYPE),
    };
    let id = tree.create(directory, args.objname.0, content, mode)?;
    let words = attributes::set(tree, id, &args.createattrs)?;
    compound.current = Some(id);
    let cinfo = changed(tree, directory, before)?;
    compound.succeed(Results::CREATE, Create4Resok { cinfo, attrset: Bitmap4::from(&words[..]) })
}

fn readdir(
    tree: &MockFileTree,
    compound: &mut MockCompoundExecution<'_>,
    args: &Readdir4Args<'_>,
    (listing, delayed_entries): (MockListingPolicy, &mut u32),
) -> Result<(), Nfsstat4> {
    let names = tree.directory(compound.current()?)?;
    // RFC 8881 section 18.23.3: these cookies are reserved.
    if matches!(args.cookie, 1 | 2) {
        return Err(Nfsstat4::NFS4ERR_BAD_COOKIE);
    }
    let mut remaining_bytes = (args.maxcount as usize).saturating_sub(LISTING_OVERHEAD_BYTES);
    let mut rest: Vec<_> = names.after(args.cookie).collect();
    let mut eof = listing.limit(&mut rest);
    let mut items = Vec::new();
    for (cookie, name, id) in rest {
        let (words, values) = match items.is_empty() && *delayed_entries > 0 {
            true => {
                *delayed_entries -= 1;
                mask_and_values(&[Attribute::RDATTR_ERROR(Nfsstat4::NFS4ERR_DELAY)])
            }
            false => attributes::get(tree, id, &args.attr_request)?,
        };
        let length = 4 + 8 + 4 + name.len().next_multiple_of(4) + 8 + 4 * words.len() + values.len();
        if length > remaining_bytes {
            eof = false;
            break;
        }
        remaining_bytes -= length;
        items.push((cookie, name, words, values));
    }
    if items.is_empty() && !eof {
        return Err(Nfsstat4::NFS4ERR_TOOSMALL);
    }
    let entries: Vec<_> = items
        .iter()
        .map(|(cookie, name, words, values)| Entry4 {
            cookie: *cookie,
            name: Text(name),
            attrs: Fattr4::new(Bitmap4::from(&words[..]), Opaque(values)),
        })
        .collect();
    let reply = Dirlist4 { entries: XdrLinkedList::from(&entries[..]), eof };
    compound.succeed(Results::READDIR, Readdir4Resok { cookieverf: VERIFIER, reply })
}

/// Checks that a stateid permits access to the current file: `access` is 1 for reading, 2 for writing.
fn check_stateid(
    server: &MockServer,
    compound: &MockCompoundExecution<'_>,
    stateid: &Stateid4,
    access: u32,
) -> Result<MockFileId, Nfsstat4> {
    let file = compound.current()?;
    let stateid = compound.resolve_stateid(stateid)?;
    match server.state.open_of(&stateid, compound.minor)? {
        Some(open) if open.file != file => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        Some(open) if compound.minor == 0 && server.confirms_owners && !server.state.is_confirmed(open) => {
            Err(Nfsstat4::NFS4ERR_BAD_STATEID)
        }
        // RFC 8881 section 9.1.2: a server may allow READ to an open for writing only.
        Some(open) if access == 2 && open.access & 2 == 0 => Err(Nfsstat4::NFS4ERR_OPENMODE),
        _ => Ok(file),
    }
}

fn read(server: &mut MockServer, compound: &mut MockCompoundExecution<'_>, args: &Read4Args) -> Result<(), Nfsstat4> {
    let file = check_stateid(server, compound, &args.stateid, 1)?;
    let limits = compound.limits;
    if args.count > limits.response_bytes {
        server.exceeded += 1;
        return Err(Nfsstat4::NFS4ERR_REP_TOO_BIG);
    }
    server.exceeded += u64::from(args.count > server.tree.io_bytes);
    server.tree.record_read(file);
    let (bytes, eof) = server.tree.read(file, args.offset, args.count.min(server.tree.io_bytes))?;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    compound.data.push(bytes.to_vec());
    compound.succeed(Results::READ, Read4Resok { eof, data: Ddp::Chunk { length, bytes: None } })
}

fn write(
    server: &mut MockServer,
    compound: &mut MockCompoundExecution<'_>,
    args: &Write4Args<'_>,
) -> Result<(), Nfsstat4> {
    let file = check_stateid(server, compound, &args.stateid, 2)?;
    let data = args.data.bytes().unwrap_or_default();
    if data.len() > compound.limits.request_bytes as usize {
        server.exceeded += 1;
        return Err(Nfsstat4::NFS4ERR_REQ_TOO_BIG);
    }
    server.exceeded += u64::from(data.len() > server.tree.io_bytes as usize);
    let data = data.get(..data.len().min(server.tree.io_bytes as usize)).unwrap_or_default();
    server.tree.write(file, args.offset, data)?;
    let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let ok = Write4Resok { count, committed: args.stable, writeverf: server.write_verifier() };
    compound.succeed(Results::WRITE, ok)
}
