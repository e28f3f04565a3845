//! Infers facts about files from the procedures of NFSv3 and MOUNT. RFC 1813 sections 3.3 and 5.2.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::mount::v3 as mount3;
use nfsrdma_dissectors::nfs::v3::{self, Args, Createhow3, Diropargs3, Fattr3, Procedure, Results};
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::xdr::{Cursor, Text};
use nfsrdma_nfs_model::names::Name;
use nfsrdma_nfs_model::types::{Objects, Types};

use super::inference::{CapturedObjectAttributes, CapturedUserOrGroup, TreeInferenceStepContext};
use super::inferred_object::{ChangedAttributeFlags, InferredNameBinding, InferredObjectId};
use super::inferred_tree::is_dots;
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::step::NONE;

fn decode_attributes(attributes: &Fattr3) -> CapturedObjectAttributes<'static> {
    CapturedObjectAttributes {
        file_type: Some(attributes.r#type.into()),
        size: Some(attributes.size),
        mode: Some(attributes.mode.0),
        owner: Some(CapturedUserOrGroup::Number(attributes.uid)),
        group: Some(CapturedUserOrGroup::Number(attributes.gid)),
        links: Some(attributes.nlink),
    }
}

/// Returns `true` if a CREATE did not change its directory: then the file existed before.
fn is_directory_unchanged<S>(result: &StatusUnion<S, v3::Create3Resok<'_>, v3::DirWcc>) -> bool {
    let StatusUnion::Ok(ok) = result else { return false };
    let (Some(before), Some(after)) = (&ok.dir_wcc.before, &ok.dir_wcc.after) else { return false };
    before.mtime == after.mtime && before.ctime == after.ctime
}

/// Returns the filehandles of the current and of the saved object of a call; see [`Objects`].
fn objects_of_call<'a>(args: &Args<'a>) -> [Option<&'a [u8]>; 2] {
    let object = match args {
        Args::NULL(_) => return [None; 2],
        Args::RENAME(args) => return [Some(args.to.dir.0), Some(args.from.dir.0)],
        Args::LINK(args) => return [Some(args.link.dir.0), Some(args.file.0)],
        Args::GETATTR(args) => args.object,
        Args::SETATTR(args) => args.object,
        Args::LOOKUP(args) => args.what.dir,
        Args::ACCESS(args) => args.object,
        Args::READLINK(args) => args.symlink,
        Args::READ(args) => args.file,
        Args::WRITE(args) => args.file,
        Args::CREATE(args) => args.r#where.dir,
        Args::MKDIR(args) => args.r#where.dir,
        Args::SYMLINK(args) => args.r#where.dir,
        Args::MKNOD(args) => args.r#where.dir,
        Args::REMOVE(args) | Args::RMDIR(args) => args.object.dir,
        Args::READDIR(args) => args.dir,
        Args::READDIRPLUS(args) => args.dir,
        Args::FSSTAT(args) | Args::FSINFO(args) => args.fsroot,
        Args::PATHCONF(args) => args.object,
        Args::COMMIT(args) => args.file,
    };
    [Some(object.0), None]
}

/// Returns the status of a reply, and the attributes of the current and the saved object in a failure.
fn failure<'r>(result: &'r Results<'_>) -> Option<(v3::Nfsstat3, [Option<&'r Fattr3>; 2])> {
    /// Returns the status, and the attributes that `of` finds in a failure.
    fn of<'r, T, E>(
        result: &'r StatusUnion<v3::Nfsstat3, T, E>,
        of: impl FnOnce(&'r E) -> [Option<&'r Fattr3>; 2],
    ) -> Option<(v3::Nfsstat3, [Option<&'r Fattr3>; 2])> {
        match result {
            StatusUnion::Ok(_) => Some((v3::Nfsstat3::NFS3_OK, [None; 2])),
            StatusUnion::Fail(status, failure) => Some((*status, of(failure))),
        }
    }
    match result {
        Results::NULL(_) => None,
        Results::GETATTR(result) => of(result, |_| [None; 2]),
        Results::SETATTR(result) => of(result, |failure| [failure.obj_wcc.after.as_ref(), None]),
        Results::LOOKUP(result) => of(result, |failure| [failure.dir_attributes.as_ref(), None]),
        Results::ACCESS(result) => of(result, |failure| [failure.obj_attributes.as_ref(), None]),
        Results::READLINK(result) => of(result, |failure| [failure.symlink_attributes.as_ref(), None]),
        Results::READ(result) => of(result, |failure| [failure.file_attributes.as_ref(), None]),
        Results::WRITE(result) => of(result, |failure| [failure.file_wcc.after.as_ref(), None]),
        Results::CREATE(result) | Results::MKDIR(result) | Results::SYMLINK(result) | Results::MKNOD(result) => {
            of(result, |failure| [failure.dir_wcc.after.as_ref(), None])
        }
        Results::REMOVE(result) | Results::RMDIR(result) => {
            of(result, |failure| [failure.dir_wcc.after.as_ref(), None])
        }
        Results::RENAME(result) => {
            of(result, |failure| [failure.todir_wcc.after.as_ref(), failure.fromdir_wcc.after.as_ref()])
        }
        Results::LINK(result) => {
            of(result, |failure| [failure.linkdir_wcc.after.as_ref(), failure.file_attributes.as_ref()])
        }
        Results::READDIR(result) => of(result, |failure| [failure.dir_attributes.as_ref(), None]),
        Results::READDIRPLUS(result) => of(result, |failure| [failure.dir_attributes.as_ref(), None]),
        Results::FSSTAT(result) => of(result, |failure| [failure.obj_attributes.as_ref(), None]),
        Results::FSINFO(result) => of(result, |failure| [failure.obj_attributes.as_ref(), None]),
        Results::PATHCONF(result) => of(result, |failure| [failure.obj_attributes.as_ref(), None]),
        Results::COMMIT(result) => of(result, |failure| [failure.file_wcc.after.as_ref(), None]),
    }
}

impl TreeInferenceStepContext<'_, '_> {
    /// Records what the status of a reply proves, and the attributes of a failure.
    fn infer_from_nfs3_status(&mut self, procedure: Procedure, args: &Args<'_>, result: &Results<'_>) {
        let Some((status, attributes)) = failure(result) else { return };
        let objects = Objects::of_v3(procedure);
        let ids = objects_of_call(args).map(|handle| self.object_of_handle(handle?));
        for (id, attributes) in ids.into_iter().zip(attributes) {
            self.record_attributes(id, attributes);
        }
        self.infer_from_status(objects, Nfsstat4(status.0), ids, Name::of_v3(args));
    }

    fn record_attributes(&mut self, id: Option<InferredObjectId>, attributes: Option<&Fattr3>) {
        if let (Some(id), Some(attributes)) = (id, attributes) {
            self.attributes(id, &decode_attributes(attributes));
        }
    }

    /// Records the size before an operation.
    fn record_size_before(&mut self, id: InferredObjectId, changed: &v3::WccData) {
        if let Some(before) = &changed.before {
            self.attributes(id, &CapturedObjectAttributes { size: Some(before.size), ..Default::default() });
        }
    }

    /// Records the attributes after an operation that may have changed the size.
    fn record_attributes_after_change(&mut self, id: InferredObjectId, changed: &v3::WccData) {
        if let Some(attributes) = &changed.after {
            self.tree.exclude_beyond_size(id, attributes.size);
            self.attributes(id, &CapturedObjectAttributes { size: None, ..decode_attributes(attributes) });
        }
    }

    pub(super) fn infer_from_nfs3(&mut self, procedure: Procedure, mut call: Cursor<'_>, mut reply: Cursor<'_>) {
        let Ok(args) = Args::decode(procedure, &mut call, &mut NullFieldObserver) else { return };
        let may_change_links = matches!(args, Args::LINK(_) | Args::REMOVE(_) | Args::RMDIR(_) | Args::RENAME(_));
        self.tree.has_lost_links |= may_change_links && !self.facts.reply.is_complete();
        let Ok(result) = Results::decode(procedure, &mut reply, &mut NullFieldObserver) else { return };
        let now = self.facts.id;
        self.infer_from_nfs3_status(procedure, &args, &result);
        match (args, result) {
            (Args::GETATTR(args), Results::GETATTR(StatusUnion::Ok(ok))) => {
                let id = self.object_of_handle(args.object.0);
                self.record_attributes(id, Some(&ok.obj_attributes));
            }
            (Args::SETATTR(args), Results::SETATTR(StatusUnion::Ok(ok))) => {
                if let Some(id) = self.object_of_handle(args.object.0) {
                    self.record_size_before(id, &ok.obj_wcc);
                    let attributes = &args.new_attributes;
                    let changed = ChangedAttributeFlags {
                        mode: attributes.mode.is_some(),
                        owner: attributes.uid.is_some(),
                        group: attributes.gid.is_some(),
                    };
                    self.record_setattr(id, attributes.size, attributes.mode.as_ref().map(|mode| mode.0), changed);
                    self.record_attributes_after_change(id, &ok.obj_wcc);
                }
            }
            (Args::LOOKUP(args), Results::LOOKUP(StatusUnion::Ok(ok))) => {
                let Some(parent) = self.object_of_handle(args.what.dir.0) else { return };
                self.record_attributes(Some(parent), ok.dir_attributes.as_ref());
                let variable = self.variable(ok.object.0);
                let id = self.child(parent, args.what.name, variable);
                self.record_attributes(id, ok.obj_attributes.as_ref());
            }
            (Args::ACCESS(args), Results::ACCESS(StatusUnion::Ok(ok))) => {
                let id = self.object_of_handle(args.object.0);
                self.record_attributes(id, ok.obj_attributes.as_ref());
                if let Some(id) = id {
                    self.tree.prove_types(id, Types::of_access(args.access.0, ok.access.0), false);
                }
            }
            (Args::READLINK(args), Results::READLINK(StatusUnion::Ok(ok))) => {
                if let Some(id) = self.object_of_handle(args.symlink.0) {
                    self.record_attributes(Some(id), ok.symlink_attributes.as_ref());
                    self.link(id, ok.data.bytes());
                }
            }
            (Args::FSINFO(args), Results::FSINFO(StatusUnion::Ok(ok))) => {
                let id = self.object_of_handle(args.fsroot.0);
                self.record_attributes(id, ok.obj_attributes.as_ref());
            }
            (Args::FSSTAT(args), Results::FSSTAT(StatusUnion::Ok(ok))) => {
                let id = self.object_of_handle(args.fsroot.0);
                self.record_attributes(id, ok.obj_attributes.as_ref());
            }
            (Args::PATHCONF(args), Results::PATHCONF(StatusUnion::Ok(ok))) => {
                let id = self.object_of_handle(args.object.0);
                self.record_attributes(id, ok.obj_attributes.as_ref());
            }
            (Args::READ(args), Results::READ(StatusUnion::Ok(ok))) => {
                if let Some(id) = self.object_of_handle(args.file.0) {
                    self.record_attributes(Some(id), ok.file_attributes.as_ref());
                    self.read(id, 0, args.offset, (ok.count > 0).then_some(ok.eof));
                }
            }
            (Args::WRITE(args), Results::WRITE(StatusUnion::Ok(ok))) => {
                if let Some(id) = self.object_of_handle(args.file.0) {
                    self.record_size_before(id, &ok.file_wcc);
                    self.record_write(id, 0, args.offset, ok.count);
                    self.record_attributes_after_change(id, &ok.file_wcc);
                }
            }
            // It changes nothing that attributes show.
            (Args::COMMIT(args), Results::COMMIT(StatusUnion::Ok(ok))) => {
                if let Some(id) = self.object_of_handle(args.file.0) {
                    self.record_size_before(id, &ok.file_wcc);
                    self.record_attributes(Some(id), ok.file_wcc.after.as_ref());
                }
            }
            (Args::CREATE(args), Results::CREATE(result)) => {
                let is_unchecked = matches!(args.how, Createhow3::Unchecked(_));
                let was_there = is_unchecked && is_directory_unchanged(&result);
                let created = self.infer_creation(&args.r#where, &result, TraceFileType::FILE, was_there);
                // A file that was there is cut.
                if let (Some(id), Createhow3::Unchecked(attributes)) = (created, &args.how)
                    && attributes.size == Some(0)
                {
                    self.record_setattr(id, Some(0), None, ChangedAttributeFlags::default());
                }
            }
            (Args::MKDIR(args), Results::MKDIR(result)) => {
                let _ = self.infer_creation(&args.r#where, &result, TraceFileType::DIRECTORY, false);
            }
            (Args::SYMLINK(args), Results::SYMLINK(result)) => {
                if let Some(id) = self.infer_creation(&args.r#where, &result, TraceFileType::LINK, false) {
                    self.link(id, args.symlink.symlink_data.bytes());
                }
            }
            (Args::MKNOD(args), Results::MKNOD(result)) => {
                let _ = self.infer_creation(&args.r#where, &result, TraceFileType::UNKNOWN, false);
            }
            (Args::REMOVE(args), Results::REMOVE(StatusUnion::Ok(ok))) => {
                self.infer_removal(&args.object, &ok.dir_wcc, Types::ANY);
            }
            (Args::RMDIR(args), Results::RMDIR(StatusUnion::Ok(ok))) => {
                self.infer_removal(&args.object, &ok.dir_wcc, Types::DIRECTORY);
            }
            (Args::RENAME(args), Results::RENAME(StatusUnion::Ok(ok))) => {
                if let (Some(from), Some(to)) =
                    (self.object_of_handle(args.from.dir.0), self.object_of_handle(args.to.dir.0))
                {
                    self.record_changer(from);
                    self.record_changer(to);
                    self.record_attributes_after_change(from, &ok.fromdir_wcc);
                    self.record_attributes_after_change(to, &ok.todir_wcc);
                    self.tree.rename((from, args.from.name.0), (to, args.to.name.0), now);
                }
            }
            (Args::LINK(args), Results::LINK(StatusUnion::Ok(ok))) => {
                if let (Some(_), Some(parent)) =
                    (self.object_of_handle(args.file.0), self.object_of_handle(args.link.dir.0))
                {
                    let variable = self.variable(args.file.0);
                    self.record_changer(parent);
                    let name = args.link.name.0;
                    let id = self.tree.create_name(parent, name, variable, TraceFileType::UNKNOWN, false, now);
                    id.into_iter().for_each(|id| self.tree.change_links(id, 1));
                    self.record_attributes(id, ok.file_attributes.as_ref());
                    self.record_attributes_after_change(parent, &ok.linkdir_wcc);
                }
            }
            (Args::READDIR(args), Results::READDIR(StatusUnion::Ok(ok))) => {
                let Some(parent) = self.object_of_handle(args.dir.0) else { return };
                self.record_attributes(Some(parent), ok.dir_attributes.as_ref());
                for entry in ok.reply.entries.iter() {
                    self.record_entry(parent, entry.name, NONE);
                }
                let last = ok.reply.entries.iter().last().map_or(args.cookie, |entry| entry.cookie);
                self.tree.record_listing(parent, args.cookie, (!ok.reply.eof).then_some(last));
            }
            (Args::READDIRPLUS(args), Results::READDIRPLUS(StatusUnion::Ok(ok))) => {
                let Some(parent) = self.object_of_handle(args.dir.0) else { return };
                self.record_attributes(Some(parent), ok.dir_attributes.as_ref());
                for entry in ok.reply.entries.iter() {
                    let variable = entry.name_handle.map_or(NONE, |handle| self.variable(handle.0));
                    let id = self.record_entry(parent, entry.name, variable);
                    self.record_attributes(id, entry.name_attributes.as_ref());
                }
                let last = ok.reply.entries.iter().last().map_or(args.cookie, |entry| entry.cookie);
                self.tree.record_listing(parent, args.cookie, (!ok.reply.eof).then_some(last));
            }
            _ => {}
        }
    }

    /// Infers names from a call that was executed, but whose reply was not captured.
    pub(super) fn infer_from_lost_nfs3(&mut self, procedure: Procedure, mut call: Cursor<'_>) {
        let Ok(args) = Args::decode(procedure, &mut call, &mut NullFieldObserver) else { return };
        let handle = self.lost_variable(0);
        let (place, file_type) = match &args {
            Args::LOOKUP(args) => {
                if let Some(parent) = self.object_of_handle(args.what.dir.0) {
                    self.tree.prove_types(parent, Types::DIRECTORY, true);
                    self.child(parent, args.what.name, handle);
                }
                return;
            }
            Args::REMOVE(args) | Args::RMDIR(args) => {
                if let Some(parent) = self.object_of_handle(args.object.dir.0) {
                    self.tree.remove_name(parent, args.object.name.0, Types::ANY, self.facts.id);
                }
                return;
            }
            Args::RENAME(args) => {
                let [from, to] = [args.from.dir.0, args.to.dir.0].map(|directory| self.object_of_handle(directory));
                if let (Some(from), Some(to)) = (from, to) {
                    self.tree.rename((from, args.from.name.0), (to, args.to.name.0), self.facts.id);
                }
                return;
            }
            Args::LINK(args) => {
                let [file, parent] = [args.file.0, args.link.dir.0].map(|object| self.object_of_handle(object));
                if let (Some(file), Some(parent)) = (file, parent) {
                    self.tree.bind(parent, args.link.name.0, InferredNameBinding::Bound(file));
                }
                return;
            }
            Args::CREATE(args) => (&args.r#where, TraceFileType::FILE),
            Args::MKDIR(args) => (&args.r#where, TraceFileType::DIRECTORY),
            Args::SYMLINK(args) => (&args.r#where, TraceFileType::LINK),
            Args::MKNOD(args) => (&args.r#where, TraceFileType::UNKNOWN),
            _ => return,
        };
        let now = self.facts.id;
        if let Some(parent) = self.object_of_handle(place.dir.0) {
            self.tree.prove_types(parent, Types::DIRECTORY, true);
            let id = self.tree.create_name(parent, place.name.0, handle, file_type, false, now);
            if let (Some(id), Args::CREATE(args)) = (id, &args)
                && let Createhow3::Unchecked(attributes) = &args.how
                && attributes.size == Some(0)
            {
                self.record_setattr(id, Some(0), None, ChangedAttributeFlags::default());
            }
        }
    }

    /// Records an entry of a directory. "." and ".." are the directory itself and the one above it.
    pub(super) fn record_entry(
        &mut self,
        parent: InferredObjectId,
        name: Text<'_>,
        variable: u32,
    ) -> Option<InferredObjectId> {
        // What is above a root is not in the tree.
        let is_root = self.tree.node(parent).is_some_and(|node| node.existence == TraceObjectOrigin::ROOT);
        if is_root && is_dots(name.0) { None } else { self.child(parent, name, variable) }
    }

    fn infer_creation(
        &mut self,
        entry: &Diropargs3<'_>,
        result: &StatusUnion<v3::Nfsstat3, v3::Create3Resok<'_>, v3::DirWcc>,
        file_type: TraceFileType,
        was_there: bool,
    ) -> Option<InferredObjectId> {
        let parent = self.object_of_handle(entry.dir.0)?;
        let StatusUnion::Ok(ok) = result else { return None };
        let variable = ok.obj.as_ref().map_or(NONE, |handle| self.variable(handle.0));
        let now = self.facts.id;
        self.record_attributes_after_change(parent, &ok.dir_wcc);
        if !was_there {
            self.record_changer(parent);
        }
        self.tree.create_name(parent, entry.name.0, variable, file_type, was_there, now)
    }

    fn infer_removal(&mut self, entry: &Diropargs3<'_>, changed: &v3::WccData, types: Types) {
        if let Some(parent) = self.object_of_handle(entry.dir.0) {
            let now = self.facts.id;
            self.record_changer(parent);
            self.record_attributes_after_change(parent, changed);
            self.tree.remove_name(parent, entry.name.0, types, now);
        }
    }

    pub(super) fn infer_from_mount(
        &mut self,
        procedure: mount3::Procedure,
        mut call: Cursor<'_>,
        mut reply: Cursor<'_>,
    ) {
        let Ok(args) = mount3::Args::decode(procedure, &mut call, &mut NullFieldObserver) else { return };
        let Ok(result) = mount3::Results::decode(procedure, &mut reply, &mut NullFieldObserver) else {
            return;
        };
        if let (mount3::Args::MNT(args), mount3::Results::MNT(StatusUnion::Ok(ok))) = (args, result) {
            let variable = self.variable(ok.fhandle.0);
            let root = self.tree.find_or_add_root(self.facts.server, args.dirpath.0, self.facts.id);
            if let Some(root) = root {
                self.tree.attach_handle_if_new(root, variable);
            }
        }
    }
}
