//! The path of the file, directory or name that a difference is about.

use std::borrow::Cow;
use std::io::{Read, Seek};

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Args};
use nfsrdma_dissectors::nfs::{Procedure, field_labels, mount, v3};
use nfsrdma_nfs_model::v4::filehandles::{Filehandles, Object, Origin, Step};
use rustc_hash::FxHashMap;

use super::call_operations_and_files::CallOperationsAndFiles;
use super::expected_final_tree::MAX_PATH_NAMES;
use crate::trace::error::TraceError;
use crate::trace::file_format::TraceObjectOrigin;
use crate::trace::reader::ReplayTraceReader;
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};

/// Maximum number of objects of a trace whose names are remembered.
const MAX_OBJECTS: usize = 1 << 20;

/// The first name of each object of a trace, as the whole capture shows it.
#[derive(Debug, Default)]
pub(super) struct TracePaths {
    /// Directory and name, by number; no directory for a root.
    names: FxHashMap<u32, (Option<u32>, Box<[u8]>)>,
    by_handle: FxHashMap<u32, u32>,
}

impl TracePaths {
    pub(super) fn read<R: Read + Seek>(trace: &mut ReplayTraceReader<R>) -> Result<Self, TraceError> {
        let mut paths = Self::default();
        trace.for_each_object(|object| {
            if paths.names.len() >= MAX_OBJECTS {
                return;
            }
            let first = object.names.iter().next();
            let name = match object.existence {
                TraceObjectOrigin::ROOT => Some((None, Box::default())),
                _ => first.filter(|first| first.parent != NONE).map(|first| (Some(first.parent), first.name.0.into())),
            };
            if let Some(name) = name {
                paths.names.insert(object.number, name);
                paths.by_handle.extend(object.handles.iter().map(|handle| (handle, object.number)));
            }
        })?;
        Ok(paths)
    }

    /// Returns the path of a filehandle's object below the captured root, for display.
    pub(super) fn path(&self, file: u32) -> Option<String> {
        let mut at = *self.by_handle.get(&file)?;
        let mut path = String::new();
        for _ in 0..MAX_PATH_NAMES {
            let (parent, name) = self.names.get(&at)?;
            let Some(parent) = parent else { break };
            path = format!("/{}{path}", String::from_utf8_lossy(name));
            at = *parent;
        }
        Some(if path.is_empty() { "/".to_owned() } else { path })
    }
}

/// Returns the path that a difference of a step is about: in this section of the message (0 if unknown) and field.
/// `path_of` is the path of a filehandle's object.
pub(super) fn path_of_difference(
    step: &TraceStep<'_>,
    parts: &CallOperationsAndFiles,
    (section, field): (usize, &str),
    path_of: &dyn Fn(u32) -> Option<String>,
) -> Option<String> {
    let items = step.call.items();
    let mut cursor = step.call.body_cursor().with_chunks(&items);
    let named = match step.procedure.find_description() {
        Some(Procedure::Compound) => {
            let call = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok();
            call.and_then(|call| {
                let operations = call.operations().map_while(Result::ok).take(parts.operations.len());
                let path_of = |object| {
                    let variable = parts.variable(object);
                    Some(variable).filter(|variable| *variable != NONE).and_then(path_of)
                };
                CompoundPaths::new(call.head.minorversion, operations, &path_of).of_field(section, field)
            })
        }
        Some(Procedure::V3(procedure)) => {
            let arguments = v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver).ok();
            arguments.and_then(|arguments| path_of_v3(step, &arguments, field, path_of))
        }
        Some(Procedure::Mount3(procedure)) => {
            match mount::v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver) {
                Ok(mount::v3::Args::MNT(args) | mount::v3::Args::UMNT(args)) => Some(text(args.dirpath.0).into_owned()),
                _ => None,
            }
        }
        _ => None,
    };
    named.or_else(|| step.filehandles().find_map(path_of))
}

fn path_of_v3(
    step: &TraceStep<'_>,
    arguments: &v3::Args<'_>,
    field: &str,
    path_of: &dyn Fn(u32) -> Option<String>,
) -> Option<String> {
    let mut handles = step.call.variables(TraceSlotValueKind::FILEHANDLE);
    let object = handles.next().and_then(path_of);
    let has_label = |labels| has_any_label(field, labels);
    if has_label(&[field_labels::TODIR_WCC, field_labels::LINKDIR_WCC]) {
        return handles.next().and_then(path_of);
    } else if has_label(&[field_labels::DIR_ATTRIBUTES, field_labels::DIR_WCC, field_labels::FROMDIR_WCC]) {
        return object;
    }
    let name = match arguments {
        v3::Args::LOOKUP(args) => args.what.name.0,
        v3::Args::CREATE(args) => args.r#where.name.0,
        v3::Args::MKDIR(args) => args.r#where.name.0,
        v3::Args::SYMLINK(args) => args.r#where.name.0,
        v3::Args::MKNOD(args) => args.r#where.name.0,
        v3::Args::REMOVE(args) | v3::Args::RMDIR(args) => args.object.name.0,
        v3::Args::RENAME(args) => args.from.name.0,
        v3::Args::LINK(args) if object.is_none() => {
            return Some(joined(handles.next().and_then(path_of), args.link.name.0));
        }
        _ => return object,
    };
    Some(joined(object, name))
}

fn has_any_label(field: &str, labels: &[&str]) -> bool {
    field.split('.').any(|label| labels.contains(&label))
}

/// The operations of a COMPOUND with their objects.
struct CompoundPaths<'a> {
    operations: Vec<(Args<'a>, Step<'a>)>,
    /// Path of the filehandle of an object.
    path_of: &'a dyn Fn(Option<Object>) -> Option<String>,
}

impl<'a> CompoundPaths<'a> {
    fn new(
        minor_version: u32,
        operations: impl Iterator<Item = Args<'a>>,
        path_of: &'a dyn Fn(Option<Object>) -> Option<String>,
    ) -> Self {
        let mut filehandles = Filehandles::new(minor_version);
        let mut with_objects = Vec::new();
        for args in operations {
            let step = filehandles.apply(args.operation(), Some(&args));
            with_objects.push((args, step));
        }
        Self { operations: with_objects, path_of }
    }

    /// Returns the path that a field of the operation of a section is about. If the section is unknown, that is the last
    /// operation of the field's name; without one, the last operation that has a path.
    fn of_field(&self, section: usize, field: &str) -> Option<String> {
        let label = field.split('.').next();
        let is_named = |(operation, _): &(Args<'_>, Step<'_>)| Some(operation.operation().name()) == label;
        let at = section.checked_sub(1).filter(|at| self.operations.get(*at).is_some_and(is_named));
        match at.or_else(|| self.operations.iter().rposition(is_named)) {
            Some(at) => self.of_operation(at, field),
            None => (0..self.operations.len()).rev().find_map(|at| self.of_operation(at, "")),
        }
    }

    fn of_operation(&self, at: usize, field: &str) -> Option<String> {
        let has_label = |label| has_any_label(field, &[label]);
        let (operation, step) = self.operations.get(at)?;
        match operation {
            // The change of a directory.
            Args::REMOVE(_) | Args::LINK(_) | Args::CREATE(_) | Args::OPEN(_) if has_label(field_labels::CINFO) => {
                self.path(step.current)
            }
            Args::RENAME(_) if has_label(field_labels::TARGET_CINFO) => self.path(step.current),
            Args::RENAME(_) if has_label(field_labels::SOURCE_CINFO) => self.path(step.saved),
            Args::REMOVE(args) => Some(joined(self.path(step.current), args.target.0)),
            Args::LINK(args) => Some(joined(self.path(step.current), args.newname.0)),
            Args::RENAME(args) => Some(joined(self.path(step.saved), args.oldname.0)),
            Args::SECINFO(args) => Some(joined(self.path(step.current), args.name.0)),
            _ => self.path(step.next),
        }
    }

    /// Returns the path of an object: of its name in a directory, or else of its filehandle.
    fn path(&self, object: Option<Object>) -> Option<String> {
        let of_handle = || (self.path_of)(object);
        let (_, maker) = self.operations.get(object?.operation())?;
        let Some(Origin::Name(directory, name)) = maker.made else { return of_handle() };
        match self.path(directory) {
            Some(directory) => Some(joined(Some(directory), name)),
            None => of_handle().or_else(|| Some(joined(None, name))),
        }
    }
}

/// Returns the path of a name; the name alone if its directory is unknown.
fn joined(directory: Option<String>, name: &[u8]) -> String {
    match directory {
        Some(directory) => format!("{}/{}", directory.trim_end_matches('/'), text(name)),
        None => text(name).into_owned(),
    }
}

fn text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{Bitmap4, Getattr4Args, Lookup4Args, ObjectFh4, Remove4Args, Rename4Args};
    use nfsrdma_dissectors::xdr::{Opaque, Text, Void};

    use super::*;

    /// Returns the path of a difference in a COMPOUND whose operations have these files: 1 is `/d`, 2 is `/e`.
    fn path(operations: &[(Args<'static>, u32)], section: usize, field: &str) -> Option<String> {
        let path_of = |object: Option<Object>| {
            let (_, file) = operations.get(object?.operation())?;
            ["/d", "/e"].get((*file as usize).checked_sub(1)?).map(|path| (*path).to_owned())
        };
        let args = operations.iter().map(|(args, _)| args.clone());
        CompoundPaths::new(1, args, &path_of).of_field(section, field)
    }

    fn getattr() -> Args<'static> {
        Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&[][..]) })
    }

    fn putfh() -> Args<'static> {
        Args::PUTFH(ObjectFh4 { object: Opaque(b"fh") })
    }

    /// Two operations of the same name are about different files.
    #[test]
    fn difference_names_file_of_its_operation() {
        let lookup = |name: &'static [u8]| Args::LOOKUP(Lookup4Args { objname: Text(name) });
        let operations = [(putfh(), 1), (getattr(), 1), (lookup(b"a"), NONE), (lookup(b"b"), NONE), (getattr(), NONE)];
        for (section, field, expected) in [
            (2, "GETATTR.obj_attributes.size", "/d"),
            (5, "GETATTR.obj_attributes.size", "/d/a/b"),
            (3, "LOOKUP.status", "/d/a"),
            (4, "LOOKUP.status", "/d/a/b"),
            // Of an unknown or another section.
            (0, "LOOKUP.status", "/d/a/b"),
            (1, "LOOKUP.status", "/d/a/b"),
            (9, "status", "/d/a/b"),
        ] {
            assert_eq!(path(&operations, section, field).as_deref(), Some(expected), "{section} {field}");
        }
    }

    /// RFC 8881 section 18.26.2: source_cinfo is of the saved directory, target_cinfo of the current one.
    #[test]
    fn change_information_names_its_directory() {
        let rename = Args::RENAME(Rename4Args { oldname: Text(b"a"), newname: Text(b"b") });
        let operations = [(putfh(), 1), (Args::SAVEFH(Void), 1), (putfh(), 2), (rename, 2)];
        for (field, expected) in
            [("RENAME.status", "/d/a"), ("RENAME.source_cinfo.atomic", "/d"), ("RENAME.target_cinfo.atomic", "/e")]
        {
            assert_eq!(path(&operations, 4, field).as_deref(), Some(expected), "{field}");
        }
        let operations = [(putfh(), 1), (Args::REMOVE(Remove4Args { target: Text(b"a") }), 1)];
        assert_eq!(path(&operations, 2, "REMOVE.cinfo.atomic").as_deref(), Some("/d"));
        assert_eq!(path(&operations, 2, "REMOVE.status").as_deref(), Some("/d/a"));
    }
}
