//! Infers facts about files from the operations of a COMPOUND, with its current and saved filehandles. RFC 8881 section
//! 16.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, ChangeInfo4, CopyRes, Createhow4, Createtype4, Fattr4, Nfsstat4, OpenClaim4,
    Openflag4, ReadPlusContent, Results,
};
use nfsrdma_dissectors::xdr::Cursor;

use super::inference::{
    CapturedObjectAttributes, CapturedUserOrGroup, ChangedAttributeFlags, TreeInferenceStepContext,
};
use super::nfs3_tree_inference::record_entry;
use super::{InferredNameBinding, InferredObjectId};
use crate::trace::NONE;
use crate::trace::file_format::TraceFileType;

/// The current or saved filehandle, as an object; `None` if that is unknown.
#[derive(Clone, Copy, Debug, Default)]
struct InferredCurrentFilehandle {
    object: Option<InferredObjectId>,
}

pub(super) fn infer_from_compound<'s>(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    mut call: Cursor<'s>,
    mut reply: Cursor<'s>,
) {
    let Ok(call) = v4::CompoundCall::decode(&mut call, &mut NullFieldObserver) else { return };
    let Ok(reply) = v4::CompoundReply::decode(&mut reply, &mut NullFieldObserver) else { return };
    let (mut current, mut saved) =
        (InferredCurrentFilehandle::default(), InferredCurrentFilehandle::default());
    let results = reply.operations().map_while(Result::ok);
    let operations: Vec<_> = call.operations().map_while(Result::ok).zip(results).collect();
    let handles = following_getfh_handles(walk, &operations);
    for (at, ((asked, got), handle)) in operations.iter().zip(handles).enumerate() {
        match (asked, got.status()) {
            (Args::SAVEFH(_), Nfsstat4::NFS4_OK) => saved = current,
            (Args::RESTOREFH(_), Nfsstat4::NFS4_OK) => current = saved,
            _ => operation(walk, (at as u32, handle), asked, got, &mut current, saved),
        }
    }
}

/// Returns for each operation the filehandle that a later GETFH returns for the object that it made current; `NONE` if
/// another operation changes the current filehandle before.
fn following_getfh_handles<'s>(
    walk: &TreeInferenceStepContext<'_, '_>,
    operations: &[(Args<'s>, Results<'s>)],
) -> Vec<u32> {
    let mut next = NONE;
    let mut handles: Vec<_> = operations
        .iter()
        .rev()
        .map(|(asked, got)| {
            let after = next;
            match (asked, got) {
                (Args::GETFH(_), Results::GETFH(StatusUnion::Ok(got))) => next = walk.variable(got.object.0),
                (
                    Args::PUTFH(_)
                    | Args::PUTROOTFH(_)
                    | Args::PUTPUBFH(_)
                    | Args::LOOKUP(_)
                    | Args::LOOKUPP(_)
                    | Args::OPEN(_)
                    | Args::OPENATTR(_)
                    | Args::CREATE(_)
                    | Args::RESTOREFH(_),
                    _,
                ) => next = NONE,
                _ => {}
            }
            after
        })
        .collect();
    handles.reverse();
    handles
}

/// Maximum clone block size of a file system, in bytes.
const MAX_CLONE_BLOCK_BYTES: u64 = 1 << 20;

/// Decodes the attributes of an object, and the filehandle among them.
fn decode_attributes<'a>(attributes: &Fattr4<'a>) -> (CapturedObjectAttributes<'a>, Option<&'a [u8]>) {
    let mut all = CapturedObjectAttributes::default();
    let mut handle = None;
    for item in attributes.items().map_while(Result::ok) {
        match item {
            Attribute::TYPE(of) => all.file_type = Some(of.into()),
            Attribute::SIZE(size) => all.size = Some(size),
            Attribute::MODE(mode) => all.mode = Some(mode.0),
            Attribute::OWNER(name) => all.owner = Some(CapturedUserOrGroup::Text(name.0)),
            Attribute::OWNER_GROUP(name) => all.group = Some(CapturedUserOrGroup::Text(name.0)),
            Attribute::FILEHANDLE(of) => handle = Some(of.0),
            _ => {}
        }
    }
    (all, handle)
}

/// Makes an object current that was found or created by name. `handle` is its filehandle from GETFH, if any.
fn set_current_by_name(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    current: &mut InferredCurrentFilehandle,
    name: &[u8],
    handle: u32,
    how: impl FnOnce(
        &mut TreeInferenceStepContext<'_, '_>,
        InferredObjectId,
        &[u8],
        u32,
    ) -> Option<InferredObjectId>,
) {
    let Some(parent) = current.object else {
        // The directory is unknown, but the filehandle may identify the file.
        current.object = walk.tree.find_or_add_by_handle(handle, walk.facts.server, walk.facts.id);
        return;
    };
    walk.tree.set_type(parent, TraceFileType::DIRECTORY);
    current.object = how(walk, parent, name, handle);
}

fn is_unchanged(cinfo: &ChangeInfo4) -> bool {
    cinfo.before == cinfo.after
}

fn operation<'s>(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    (at, handle): (u32, u32),
    asked: &Args<'s>,
    got: &Results<'s>,
    current: &mut InferredCurrentFilehandle,
    saved: InferredCurrentFilehandle,
) {
    let now = walk.facts.id;
    let is_done = got.status() == Nfsstat4::NFS4_OK;
    let is_gone = got.status() == Nfsstat4::NFS4ERR_NOENT;
    match (asked, got) {
        (Args::PUTFH(asked), _) => current.object = walk.object_of_handle(asked.object.0),
        (Args::PUTROOTFH(_), _) if is_done => {
            current.object = walk.tree.find_or_add_root(walk.facts.server, b"/", now);
        }
        (Args::PUTPUBFH(_) | Args::LOOKUPP(_) | Args::OPENATTR(_), _) => current.object = None,
        (Args::GETFH(_), Results::GETFH(StatusUnion::Ok(got))) => {
            let variable = walk.variable(got.object.0);
            match current.object {
                Some(id) => walk.tree.attach_handle_if_new(id, variable),
                None => current.object = walk.tree.find_or_add_by_handle(variable, walk.facts.server, now),
            }
        }
        (Args::LOOKUP(asked), _) if is_done => {
            set_current_by_name(walk, current, asked.objname.0, handle, |walk, parent, name, handle| {
                walk.tree.resolve_name(parent, name, handle, now)
            });
        }
        (Args::LOOKUP(asked), _) if is_gone => infer_absent_name(walk, current, asked.objname.0),
        (Args::OPEN(asked), Results::OPEN(StatusUnion::Ok(got))) => {
            infer_from_open(walk, current, asked, got, handle)
        }
        (Args::OPEN(asked), _) if is_gone => {
            if let OpenClaim4::Null(name) = asked.claim {
                infer_absent_name(walk, current, name.0);
            }
        }
        (Args::OPEN(asked), _) if got.status() == Nfsstat4::NFS4ERR_EXIST => {
            if let (OpenClaim4::Null(name), Some(parent)) = (&asked.claim, current.object) {
                walk.child(parent, *name, NONE);
            }
        }
        (Args::CREATE(asked), _) if is_done => {
            let file_type = match &asked.objtype {
                Createtype4::Link(_) => TraceFileType::LINK,
                Createtype4::Block(_) => TraceFileType::BLOCK,
                Createtype4::Character(_) => TraceFileType::CHARACTER,
                Createtype4::Other(of) => (*of).into(),
            };
            set_current_by_name(walk, current, asked.objname.0, handle, |walk, parent, name, handle| {
                walk.record_changer(parent);
                walk.tree.create_name(parent, name, handle, file_type, false, now)
            });
            if let (Some(id), Createtype4::Link(text)) = (current.object, &asked.objtype) {
                walk.link(id, text.bytes());
            }
        }
        (Args::CREATE(asked), _) if got.status() == Nfsstat4::NFS4ERR_EXIST => {
            if let Some(parent) = current.object {
                walk.child(parent, asked.objname, NONE);
            }
        }
        (Args::GETATTR(_), Results::GETATTR(StatusUnion::Ok(got))) => {
            if let Some(id) = current.object {
                walk.attributes(id, &decode_attributes(&got.obj_attributes).0);
            }
        }
        (Args::SETATTR(asked), _) if is_done => {
            if let Some(id) = current.object {
                let (new, _) = decode_attributes(&asked.obj_attributes);
                let changed = ChangedAttributeFlags {
                    mode: new.mode.is_some(),
                    owner: new.owner.is_some(),
                    group: new.group.is_some(),
                };
                walk.record_setattr(id, new.size, new.mode, changed);
            }
        }
        (Args::READLINK(_), Results::READLINK(StatusUnion::Ok(got))) => {
            if let Some(id) = current.object {
                walk.link(id, got.link.bytes());
            }
        }
        (Args::READ(asked), Results::READ(StatusUnion::Ok(got))) => {
            if let Some(id) = current.object {
                walk.read(id, at, asked.offset, got.eof && got.data.length() > 0);
            }
        }
        (Args::READ_PLUS(asked), Results::READ_PLUS(StatusUnion::Ok(got))) => {
            if let Some(id) = current.object {
                // Gaps between the parts are holes, and need no seeding.
                let parts = got.rpr_contents.iter();
                let only = parts.filter_map(|part| match part {
                    ReadPlusContent::Data(data) => Some(data.d_offset),
                    _ => None,
                });
                if let Some(offset) = only.min() {
                    walk.read(id, at, offset.max(asked.rpa_offset), false);
                }
            }
        }
        (Args::WRITE(asked), Results::WRITE(StatusUnion::Ok(got))) => {
            if let Some(id) = current.object {
                walk.record_write(id, at, asked.offset, got.count);
            }
        }
        (Args::ALLOCATE(asked), _) if is_done => {
            if let Some(id) = current.object.filter(|_| now != 0) {
                let end = asked.aa_offset.saturating_add(asked.aa_length);
                // It leaves the data alone (RFC 7862 section 15.1.3): only what it adds was not there before.
                let from = walk.tree.known_initial_size(id).unwrap_or(0).max(asked.aa_offset);
                if from < end {
                    walk.tree.exclude_from_initial_content(id, from, end);
                }
                walk.tree.grow_current_file(id, end);
            }
        }
        (Args::DEALLOCATE(asked), _) if is_done => {
            if let Some(id) = current.object.filter(|_| now != 0) {
                let end = asked.da_offset.saturating_add(asked.da_length);
                walk.tree.record_write(id, asked.da_offset, end, now);
                walk.tree.deallocate_current_range(id, asked.da_offset, end);
            }
        }
        (Args::COPY(asked), Results::COPY(CopyRes::Ok(got))) => {
            let (response, requirements) = (&got.cr_response, &got.cr_requirements);
            let is_done = response.wr_callback_id.iter().next().is_none();
            let is_local = asked.ca_source_server.iter().next().is_none();
            // The bytes of a short copy are the first ones only if it is consecutive (RFC 7862 section 15.2.3).
            let is_known = requirements.cr_consecutive || response.wr_count == asked.ca_count;
            let most = if asked.ca_count == 0 { u64::MAX } else { asked.ca_count };
            let count = response.wr_count.min(most);
            let source = saved.object.filter(|_| is_done && is_local && is_known && count > 0);
            let source = source.map(|id| (id, asked.ca_src_offset, count));
            record_copy(walk, current.object, asked.ca_dst_offset, asked.ca_count, source);
            // The file changes while its size is read.
            if let Some(id) = current.object.filter(|_| !is_done && asked.ca_count == 0) {
                walk.tree.mark_object_uncertain(id);
            }
        }
        (Args::CLONE(asked), _) if is_done => {
            let source = saved.object.map(|id| (id, asked.cl_src_offset, asked.cl_count));
            record_copy(walk, current.object, asked.cl_dst_offset, asked.cl_count, source);
            // The rest of the last block may be zeros now (RFC 7862 section 15.13.3).
            let end = asked.cl_dst_offset.saturating_add(asked.cl_count);
            if let Some(id) = current.object.filter(|_| asked.cl_count > 0 && now != 0) {
                let rest = end.checked_next_multiple_of(MAX_CLONE_BLOCK_BYTES).unwrap_or(u64::MAX);
                walk.tree.remove_current_range(id, end, rest);
            }
        }
        // The range that they wrote is unknown, and so is the content. The initial content remains.
        (Args::WRITE_SAME(_) | Args::LAYOUTCOMMIT(_), _) if is_done => {
            if let Some(id) = current.object.filter(|_| now != 0) {
                walk.tree.remove_current_range(id, 0, u64::MAX);
                walk.tree.set_current_size(id, None);
            }
        }
        (Args::REMOVE(asked), _) if is_done => {
            if let Some(parent) = current.object {
                walk.record_changer(parent);
                walk.tree.remove_name(parent, asked.target.0, TraceFileType::UNKNOWN, now);
            }
        }
        (Args::RENAME(asked), _) if is_done => {
            if let (Some(from), Some(to)) = (saved.object, current.object) {
                walk.record_changer(from);
                walk.record_changer(to);
                walk.tree.rename((from, asked.oldname.0), (to, asked.newname.0), now);
            }
        }
        (Args::LINK(asked), _) if is_done => {
            if let (Some(file), Some(parent)) = (saved.object, current.object) {
                walk.record_changer(parent);
                walk.tree.bind(parent, asked.newname.0, InferredNameBinding::Bound(file));
            }
        }
        (Args::READDIR(_), Results::READDIR(StatusUnion::Ok(got))) => {
            let Some(parent) = current.object else { return };
            walk.tree.set_type(parent, TraceFileType::DIRECTORY);
            for entry in got.reply.entries.iter() {
                let (attributes, handle) = decode_attributes(&entry.attrs);
                let variable = handle.map_or(NONE, |handle| walk.variable(handle));
                if let Some(id) = record_entry(walk, parent, entry.name, variable) {
                    walk.attributes(id, &attributes);
                }
            }
        }
        _ => {}
    }
}

fn infer_absent_name(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    current: &InferredCurrentFilehandle,
    name: &[u8],
) {
    if let Some(parent) = current.object {
        walk.tree.unbind_name(parent, name);
    }
}

/// Records a COPY or CLONE to a range of `destination`. A count of 0 extends to the end of the source. `source` has the
/// file, the offset and the number of bytes that were copied, if they are known.
fn record_copy(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    destination: Option<InferredObjectId>,
    from: u64,
    count: u64,
    source: Option<(InferredObjectId, u64, u64)>,
) {
    let Some(id) = destination.filter(|_| walk.facts.id != 0) else { return };
    let end = if count == 0 { u64::MAX } else { from.saturating_add(count) };
    // A file may be copied to itself: the content is taken before the range is overwritten.
    let content = source.map_or_else(Vec::new, |(source, start, bytes)| {
        let bytes = if bytes == 0 { u64::MAX } else { bytes };
        walk.tree.moved_current_extents(source, (start, start.saturating_add(bytes)), from)
    });
    walk.tree.record_write(id, from, end, walk.facts.id);
    walk.tree.push_current_extents(id, content);
    walk.tree.set_current_size(id, None);
}

/// Records an OPEN. An OPEN by name makes the file the current one; other claims do not change it.
fn infer_from_open<'s>(
    walk: &mut TreeInferenceStepContext<'_, '_>,
    current: &mut InferredCurrentFilehandle,
    asked: &v4::Open4Args<'s>,
    got: &v4::Open4Resok<'s>,
    handle: u32,
) {
    let now = walk.facts.id;
    let name = match &asked.claim {
        OpenClaim4::Null(name) | OpenClaim4::DelegatePrev(name) => *name,
        OpenClaim4::DelegateCur(claim) => claim.file,
        _ => return,
    };
    let (is_create, size) = match &asked.openhow {
        Openflag4::Create(Createhow4::Unchecked(with)) => (true, decode_attributes(with).0.size),
        Openflag4::Create(_) => (true, None),
        Openflag4::NoCreate(..) => (false, None),
    };
    let was_there = !is_create || is_unchanged(&got.cinfo);
    set_current_by_name(walk, current, name.0, handle, |walk, parent, name, handle| {
        if !was_there {
            walk.record_changer(parent);
        }
        walk.tree.create_name(parent, name, handle, TraceFileType::FILE, was_there, now)
    });
    if let Some(id) = current.object {
        walk.tree.set_type(id, TraceFileType::FILE);
        // Of the attributes, only a size of 0 applies to a file that was there (RFC 8881 section 18.16.3).
        if was_there && size == Some(0) {
            walk.record_setattr(id, size, None, ChangedAttributeFlags::default());
        }
    }
}
