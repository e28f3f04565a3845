//! Infers facts about files from the operations of a COMPOUND, with its current and saved filehandles. RFC 8881 section
//! 16.2.3.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, CopyRes, Createhow4, Createtype4, Fattr4, Nfsstat4, Openflag4, ReadPlusContent, Results,
};
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_nfs_model::names::{Name, claimed_name};
use nfsrdma_nfs_model::types::{Objects, Types};
use nfsrdma_nfs_model::v4::{Current, meaning};

use super::inference::{CapturedObjectAttributes, CapturedUserOrGroup, TreeInferenceStepContext};
use super::inferred_object::{ChangedAttributeFlags, InferredNameBinding, InferredObjectId};
use crate::trace::file_format::TraceFileType;
use crate::trace::step::NONE;

/// Maximum number of operations of a COMPOUND without a captured reply that are examined: none of the captured clients
/// sends more than some tens.
pub(crate) const MAX_LOST_OPERATIONS: usize = 256;

/// Maximum clone block size of a file system, in bytes.
pub(crate) const MAX_CLONE_BLOCK_BYTES: u64 = 1 << 20;

/// Decodes the attributes of an object, and the filehandle among them.
fn decode_attributes<'a>(attributes: &Fattr4<'a>) -> (CapturedObjectAttributes<'a>, Option<&'a [u8]>) {
    let mut decoded = CapturedObjectAttributes::default();
    let mut handle = None;
    for item in attributes.items().map_while(Result::ok) {
        match item {
            Attribute::TYPE(file_type) => decoded.file_type = Some(file_type.into()),
            Attribute::SIZE(size) => decoded.size = Some(size),
            Attribute::MODE(mode) => decoded.mode = Some(mode.0),
            Attribute::OWNER(name) => decoded.owner = Some(CapturedUserOrGroup::Text(name.0)),
            Attribute::OWNER_GROUP(name) => decoded.group = Some(CapturedUserOrGroup::Text(name.0)),
            Attribute::NUMLINKS(links) => decoded.links = Some(links),
            Attribute::FILEHANDLE(value) => handle = Some(value.0),
            _ => {}
        }
    }
    (decoded, handle)
}

/// Returns `true` if an operation may change the current filehandle.
fn changes_current_file(args: &Args<'_>) -> bool {
    meaning(args.operation()).current != Current::Kept
}

impl TreeInferenceStepContext<'_, '_> {
    pub(super) fn infer_from_compound(&mut self, mut call: Cursor<'_>, mut reply: Cursor<'_>) {
        let Ok(call) = v4::CompoundCall::decode(&mut call, &mut NullFieldObserver) else { return };
        let may_change_links = |args: &Args<'_>| matches!(args, Args::LINK(_) | Args::REMOVE(_) | Args::RENAME(_));
        if !self.facts.reply.is_complete()
            && call.operations().map_while(Result::ok).any(|args| may_change_links(&args))
        {
            self.tree.has_lost_links = true;
        }
        let Ok(reply) = v4::CompoundReply::decode(&mut reply, &mut NullFieldObserver) else { return };
        // The objects of the current and the saved filehandle, if they are known.
        let (mut current, mut saved) = (None, None);
        let results = reply.operations().map_while(Result::ok);
        let operations: Vec<_> = call.operations().map_while(Result::ok).zip(results).collect();
        let handles = self.following_getfh_handles(&operations);
        let minor = call.head.minorversion;
        for (at, ((args, result), handle)) in operations.iter().zip(handles).enumerate() {
            self.infer_from_nfs4_status(minor, args, result.status(), [current, saved]);
            match (args, result.status()) {
                (Args::SAVEFH(_), Nfsstat4::NFS4_OK) => saved = current,
                (Args::RESTOREFH(_), Nfsstat4::NFS4_OK) => current = saved,
                _ => self.operation((at as u32, handle), args, result, &mut current, saved),
            }
        }
    }

    /// Records what the status of an operation proves.
    fn infer_from_nfs4_status(
        &mut self,
        minor: u32,
        args: &Args<'_>,
        status: Nfsstat4,
        [current, saved]: [Option<InferredObjectId>; 2],
    ) {
        let names = Name::of_v4(args);
        let objects = Objects::of_v4(minor, args.operation(), names[0].is_some());
        self.infer_from_status(objects, status, [current, saved], names);
    }

    /// Infers names from a COMPOUND that was executed, but whose reply was not captured.
    pub(super) fn infer_from_lost_compound(&mut self, mut call: Cursor<'_>) {
        let Ok(call) = v4::CompoundCall::decode(&mut call, &mut NullFieldObserver) else { return };
        let operations: Vec<_> = call.operations().map_while(Result::ok).take(MAX_LOST_OPERATIONS).collect();
        let (mut current, mut saved) = (None, None);
        let now = self.facts.id;
        for (at, args) in operations.iter().enumerate() {
            let later = operations.iter().enumerate().skip(at + 1);
            let getfh = later
                .take_while(|(_, args)| !changes_current_file(args))
                .find(|(_, args)| matches!(args, Args::GETFH(_)));
            let handle = getfh.map_or(NONE, |(at, _)| self.lost_variable(at));
            match args {
                Args::PUTFH(args) => current = self.object_of_handle(args.object.0),
                Args::PUTROOTFH(_) => current = self.tree.find_or_add_root(self.facts.server, b"/", now),
                Args::SAVEFH(_) => saved = current,
                Args::RESTOREFH(_) => current = saved,
                Args::LOOKUP(args) => {
                    current = self.object_by_name(current, handle, |step, parent| {
                        step.tree.resolve_name(parent, args.objname.0, handle, now)
                    });
                }
                Args::OPEN(args) => {
                    let Some(name) = claimed_name(&args.claim) else { continue };
                    current = self.object_by_name(current, handle, |step, parent| {
                        step.tree.create_name(parent, name, handle, TraceFileType::FILE, false, now)
                    });
                    if let (Some(id), Openflag4::Create(Createhow4::Unchecked(attributes))) = (current, &args.openhow)
                        && decode_attributes(attributes).0.size == Some(0)
                    {
                        self.record_setattr(id, Some(0), None, ChangedAttributeFlags::default());
                    }
                }
                Args::CREATE(args) => {
                    let file_type = match &args.objtype {
                        Createtype4::Link(_) => TraceFileType::LINK,
                        Createtype4::Other(file_type) => (*file_type).into(),
                        _ => TraceFileType::UNKNOWN,
                    };
                    current = self.object_by_name(current, handle, |step, parent| {
                        step.tree.create_name(parent, args.objname.0, handle, file_type, false, now)
                    });
                }
                Args::REMOVE(args) => {
                    if let Some(parent) = current {
                        self.tree.remove_name(parent, args.target.0, Types::ANY, now);
                    }
                }
                Args::RENAME(args) => {
                    if let (Some(from), Some(to)) = (saved, current) {
                        self.tree.rename((from, args.oldname.0), (to, args.newname.0), now);
                    }
                }
                Args::LINK(args) => {
                    if let (Some(file), Some(parent)) = (saved, current) {
                        self.tree.bind(parent, args.newname.0, InferredNameBinding::Bound(file));
                    }
                }
                args if changes_current_file(args) => current = None,
                _ => {}
            }
        }
    }

    /// Returns for each operation the filehandle that a later GETFH returns for the object that it made current; `NONE`
    /// if another operation changes the current filehandle before.
    fn following_getfh_handles(&self, operations: &[(Args<'_>, Results<'_>)]) -> Vec<u32> {
        let mut next = NONE;
        let mut handles: Vec<_> = operations
            .iter()
            .rev()
            .map(|(args, result)| {
                let handle = next;
                match (args, result) {
                    (Args::GETFH(_), Results::GETFH(StatusUnion::Ok(ok))) => {
                        next = self.variable(ok.object.0);
                    }
                    (args, _) if changes_current_file(args) => next = NONE,
                    _ => {}
                }
                handle
            })
            .collect();
        handles.reverse();
        handles
    }

    /// Returns the object that an operation found or created by name in `directory`. `handle` is its filehandle from
    /// GETFH, if any.
    fn object_by_name(
        &mut self,
        directory: Option<InferredObjectId>,
        handle: u32,
        find: impl FnOnce(&mut Self, InferredObjectId) -> Option<InferredObjectId>,
    ) -> Option<InferredObjectId> {
        match directory {
            Some(parent) => {
                self.tree.prove_types(parent, Types::DIRECTORY, true);
                find(self, parent)
            }
            // The directory is unknown, but the filehandle may identify the file.
            None => self.tree.find_or_add_by_handle(handle, self.facts.server, self.facts.id),
        }
    }

    fn operation(
        &mut self,
        (at, handle): (u32, u32),
        args: &Args<'_>,
        result: &Results<'_>,
        current: &mut Option<InferredObjectId>,
        saved: Option<InferredObjectId>,
    ) {
        let now = self.facts.id;
        let is_done = result.status() == Nfsstat4::NFS4_OK;
        match (args, result, *current) {
            (Args::PUTFH(args), ..) => *current = self.object_of_handle(args.object.0),
            (Args::PUTROOTFH(_), ..) if is_done => {
                *current = self.tree.find_or_add_root(self.facts.server, b"/", now);
            }
            // Without its filehandle it is unknown: the directory may have been renamed.
            (Args::LOOKUPP(_), _, directory) if is_done && handle != NONE => {
                *current = self.object_by_name(directory, handle, |step, directory| {
                    step.tree.resolve_name(directory, b"..", handle, now)
                });
            }
            (Args::PUTPUBFH(_) | Args::LOOKUPP(_) | Args::OPENATTR(_), ..) => *current = None,
            (Args::GETFH(_), Results::GETFH(StatusUnion::Ok(ok)), object) => {
                let variable = self.variable(ok.object.0);
                match object {
                    Some(id) => self.tree.attach_handle_if_new(id, variable),
                    None => *current = self.tree.find_or_add_by_handle(variable, self.facts.server, now),
                }
            }
            (Args::LOOKUP(args), _, directory) if is_done => {
                *current = self.object_by_name(directory, handle, |step, parent| {
                    step.tree.resolve_name(parent, args.objname.0, handle, now)
                });
            }
            (Args::OPEN(args), Results::OPEN(StatusUnion::Ok(ok)), _) => {
                self.infer_from_open(current, args, ok, handle)
            }
            (Args::CREATE(args), _, directory) if is_done => {
                let file_type = match &args.objtype {
                    Createtype4::Link(_) => TraceFileType::LINK,
                    Createtype4::Block(_) => TraceFileType::BLOCK,
                    Createtype4::Character(_) => TraceFileType::CHARACTER,
                    Createtype4::Other(file_type) => (*file_type).into(),
                };
                *current = self.object_by_name(directory, handle, |step, parent| {
                    step.record_changer(parent);
                    step.tree.create_name(parent, args.objname.0, handle, file_type, false, now)
                });
                if let (Some(id), Createtype4::Link(text)) = (*current, &args.objtype) {
                    self.link(id, text.bytes());
                }
            }
            (Args::GETATTR(_), Results::GETATTR(StatusUnion::Ok(ok)), Some(id)) => {
                self.attributes(id, &decode_attributes(&ok.obj_attributes).0);
            }
            (Args::ACCESS(args), Results::ACCESS(StatusUnion::Ok(ok)), Some(id)) => {
                self.tree.prove_types(id, Types::of_access(args.access.0, ok.supported.0), false);
            }
            (Args::VERIFY(args), _, Some(id)) if is_done => {
                self.attributes(id, &decode_attributes(&args.obj_attributes).0);
            }
            (Args::NVERIFY(args), _, Some(id)) if result.status() == Nfsstat4::NFS4ERR_SAME => {
                self.attributes(id, &decode_attributes(&args.obj_attributes).0);
            }
            (Args::SETATTR(args), _, Some(id)) if is_done => {
                let (attributes, _) = decode_attributes(&args.obj_attributes);
                let changed = ChangedAttributeFlags {
                    mode: attributes.mode.is_some(),
                    owner: attributes.owner.is_some(),
                    group: attributes.group.is_some(),
                };
                self.record_setattr(id, attributes.size, attributes.mode, changed);
            }
            (Args::READLINK(_), Results::READLINK(StatusUnion::Ok(ok)), Some(id)) => {
                self.link(id, ok.link.bytes());
            }
            (Args::READ(args), Results::READ(StatusUnion::Ok(ok)), Some(id)) => {
                self.read(id, at, args.offset, (ok.data.length() > 0).then_some(ok.eof));
            }
            (Args::READ_PLUS(args), Results::READ_PLUS(StatusUnion::Ok(ok)), Some(id)) => {
                // Gaps between the parts are holes, and need no seeding.
                let data_offsets = ok.rpr_contents.iter().filter_map(|content| match content {
                    ReadPlusContent::Data(data) => Some(data.d_offset),
                    _ => None,
                });
                if let Some(offset) = data_offsets.min() {
                    self.read(id, at, offset.max(args.rpa_offset), None);
                }
            }
            (Args::WRITE(args), Results::WRITE(StatusUnion::Ok(ok)), Some(id)) => {
                self.record_write(id, at, args.offset, ok.count);
            }
            (Args::ALLOCATE(args), _, Some(id)) if is_done && now != 0 => {
                let end = args.aa_offset.saturating_add(args.aa_length);
                // It leaves the data alone (RFC 7862 section 15.1.3): only what it adds was not there before.
                let from = self.tree.known_initial_size(id).unwrap_or(0).max(args.aa_offset);
                if from < end {
                    self.tree.exclude_from_initial_content(id, from, end);
                }
                self.tree.grow_current_file(id, end);
            }
            (Args::DEALLOCATE(args), _, Some(id)) if is_done && now != 0 => {
                let end = args.da_offset.saturating_add(args.da_length);
                self.tree.record_write(id, args.da_offset, end, now);
                self.tree.deallocate_current_range(id, args.da_offset, end);
            }
            (Args::COPY(args), Results::COPY(CopyRes::Ok(ok)), Some(id)) => {
                let (response, requirements) = (&ok.cr_response, &ok.cr_requirements);
                let is_done = response.wr_callback_id.iter().next().is_none();
                let is_local = args.ca_source_server.iter().next().is_none();
                // The bytes of a short copy are the first ones only if it is consecutive (RFC 7862 section 15.2.3).
                let is_known = requirements.cr_consecutive || response.wr_count == args.ca_count;
                let max_count = if args.ca_count == 0 { u64::MAX } else { args.ca_count };
                let count = response.wr_count.min(max_count);
                let source = saved.filter(|_| is_done && is_local && is_known && count > 0);
                let source = source.map(|id| (id, args.ca_src_offset, count));
                if now != 0 {
                    self.record_copy(id, args.ca_dst_offset, args.ca_count, source);
                }
                // The file changes while its size is read.
                if !is_done && args.ca_count == 0 {
                    self.tree.mark_object_uncertain(id);
                }
            }
            (Args::CLONE(args), _, Some(id)) if is_done && now != 0 => {
                let source = saved.map(|id| (id, args.cl_src_offset, args.cl_count));
                self.record_copy(id, args.cl_dst_offset, args.cl_count, source);
                // The rest of the last block may be zeros now (RFC 7862 section 15.13.3).
                if args.cl_count > 0 {
                    let end = args.cl_dst_offset.saturating_add(args.cl_count);
                    let block_end = end.checked_next_multiple_of(MAX_CLONE_BLOCK_BYTES).unwrap_or(u64::MAX);
                    self.tree.remove_current_range(id, end, block_end);
                }
            }
            // The range that they wrote is unknown, and so is the content. The initial content remains.
            (Args::WRITE_SAME(_) | Args::LAYOUTCOMMIT(_), _, Some(id)) if is_done && now != 0 => {
                self.tree.remove_current_range(id, 0, u64::MAX);
                self.tree.set_current_size(id, None);
            }
            (Args::REMOVE(args), _, Some(parent)) if is_done => {
                self.record_changer(parent);
                self.tree.remove_name(parent, args.target.0, Types::ANY, now);
            }
            (Args::RENAME(args), _, Some(to)) if is_done => {
                if let Some(from) = saved {
                    self.record_changer(from);
                    self.record_changer(to);
                    self.tree.rename((from, args.oldname.0), (to, args.newname.0), now);
                }
            }
            (Args::LINK(args), _, Some(parent)) if is_done => {
                if let Some(file) = saved {
                    self.record_changer(parent);
                    self.tree.bind(parent, args.newname.0, InferredNameBinding::Bound(file));
                    self.tree.change_links(file, 1);
                }
            }
            (Args::READDIR(args), Results::READDIR(StatusUnion::Ok(ok)), Some(parent)) => {
                for entry in ok.reply.entries.iter() {
                    let (attributes, handle) = decode_attributes(&entry.attrs);
                    let variable = handle.map_or(NONE, |handle| self.variable(handle));
                    if let Some(id) = self.record_entry(parent, entry.name, variable) {
                        self.attributes(id, &attributes);
                    }
                }
                let last = ok.reply.entries.iter().last().map_or(args.cookie, |entry| entry.cookie);
                self.tree.record_listing(parent, args.cookie, (!ok.reply.eof).then_some(last));
            }
            _ => {}
        }
    }

    /// Records a COPY or CLONE to a range of a file. A count of 0 extends to the end of the source. `source` has the
    /// file, the offset and the number of bytes that were copied, if they are known.
    fn record_copy(
        &mut self,
        id: InferredObjectId,
        from: u64,
        count: u64,
        source: Option<(InferredObjectId, u64, u64)>,
    ) {
        let end = if count == 0 { u64::MAX } else { from.saturating_add(count) };
        // A file may be copied to itself: the content is taken before the range is overwritten.
        let content = source.map_or_else(Vec::new, |(source, start, bytes)| {
            let bytes = if bytes == 0 { u64::MAX } else { bytes };
            self.tree.moved_current_extents(source, (start, start.saturating_add(bytes)), from)
        });
        self.tree.record_write(id, from, end, self.facts.id);
        self.tree.push_current_extents(id, content);
        self.tree.set_current_size(id, None);
    }

    /// Records an OPEN. An OPEN by name makes the file the current one; other claims do not change it.
    fn infer_from_open(
        &mut self,
        current: &mut Option<InferredObjectId>,
        args: &v4::Open4Args<'_>,
        ok: &v4::Open4Resok<'_>,
        handle: u32,
    ) {
        let now = self.facts.id;
        let Some(name) = claimed_name(&args.claim) else { return };
        let (is_create, size) = match &args.openhow {
            Openflag4::Create(Createhow4::Unchecked(attributes)) => (true, decode_attributes(attributes).0.size),
            Openflag4::Create(_) => (true, None),
            Openflag4::NoCreate(..) => (false, None),
        };
        let was_there = !is_create || ok.cinfo.before == ok.cinfo.after;
        *current = self.object_by_name(*current, handle, |step, parent| {
            if !was_there {
                step.record_changer(parent);
            }
            step.tree.create_name(parent, name, handle, TraceFileType::FILE, was_there, now)
        });
        if let Some(id) = *current {
            self.tree.set_type(id, TraceFileType::FILE);
            // Of the attributes, only a size of 0 applies to a file that was there (RFC 8881 section 18.16.3).
            if was_there && size == Some(0) {
                self.record_setattr(id, size, None, ChangedAttributeFlags::default());
            }
        }
    }
}
