//! Where a Reply tells what relations are about: change attributes, times, file systems, owners and numbers of files.

use std::ops::Range;
use std::rc::Rc;

use nfsrdma_dissectors::field::FieldValue;

use crate::analysis::comparison::record::FieldPath;
use crate::analysis::comparison::recorder::LocatedField;

/// What a value says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum ObjectAttributeKind {
    /// The change attribute: `change`, or `before` and `after` of change_info4.
    Change,
    /// When its content was modified: `time_modify`, `mtime`.
    Modified,
    /// When its attributes were modified: `time_metadata`, `ctime`.
    Metadata,
    /// Its owner, as text.
    Owner,
    /// Its group, as text.
    Group,
    /// Its number.
    Fileid,
    /// The number of what it is mounted on.
    MountedOn,
    /// Its file system.
    FileSystem,
    /// How the change attribute counts: RFC 7862 section 12.2.3.
    ChangeType,
}

/// Which object of its operation a value is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum AttributeSubject {
    /// The current filehandle of NFSv4.
    Current,
    /// The directory that OPEN and CREATE of NFSv4 began in.
    Parent,
    /// The saved filehandle of NFSv4.
    Saved,
    /// This filehandle of a Call of NFSv3, from 0.
    Called(u8),
    /// The filehandle that a Reply of NFSv3 gives.
    Given,
}

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(in super::super) struct AttributeOccurrence {
    /// The section that it is in: 1 is the first operation.
    pub(in super::super) section: usize,
    pub(super) operation: Rc<str>,
    pub(super) subject: AttributeSubject,
    pub(super) aspect: ObjectAttributeKind,
    /// It was so before the operation.
    pub(super) is_before: bool,
    /// Its first field.
    pub(super) path: Rc<FieldPath>,
    /// Its bytes in the message.
    pub(super) bytes: Range<usize>,
}

impl AttributeOccurrence {
    /// Whether both say the same of the same object.
    fn is_like(&self, other: &Self) -> bool {
        self.section == other.section
            && self.subject == other.subject
            && self.aspect == other.aspect
            && self.is_before == other.is_before
            && Rc::ptr_eq(&self.path, &other.path)
    }
}

/// A value that both Replies tell: where in the recorded one, and where in the live one.
#[derive(Clone, Debug)]
pub(in super::super) struct AttributePair {
    pub(super) fact: AttributeOccurrence,
    pub(super) live: Range<usize>,
}

/// What both Replies tell, in the order of the recorded one. Entries of directories are not among it.
pub(in super::super) fn both(recorded: &[LocatedField<'_>], live: &[LocatedField<'_>]) -> Vec<AttributePair> {
    let mut rest: Vec<Option<AttributeOccurrence>> = facts(live).into_iter().map(Some).collect();
    let pair = |fact: AttributeOccurrence| {
        let other = rest.iter_mut().find(|other| other.as_ref().is_some_and(|other| other.is_like(&fact)))?;
        other.take().map(|other| AttributePair { fact, live: other.bytes })
    };
    facts(recorded).into_iter().filter_map(pair).collect()
}

fn facts(places: &[LocatedField<'_>]) -> Vec<AttributeOccurrence> {
    let mut facts = Vec::new();
    for place in places {
        if !place.path.text.contains("entries.") {
            hear(place, &mut facts);
        }
    }
    facts
}

/// Adds what a field tells, or puts it to the field before of the same value.
fn hear(place: &LocatedField<'_>, facts: &mut Vec<AttributeOccurrence>) {
    let path = &place.path;
    let aspect = match aspect(path) {
        None => return,
        // The second half of a time or of a file system.
        Some((_, false)) => {
            let last = facts.last_mut().filter(|fact| fact.bytes.end == place.bytes.start);
            if let Some(last) = last {
                last.bytes.end = place.bytes.end;
            }
            return;
        }
        Some((aspect, true)) => aspect,
    };
    let (section, operation) = (place.section.0, Rc::clone(&place.section.1));
    let text = &*path.text;
    facts.push(AttributeOccurrence {
        section,
        subject: subject(&operation, text),
        operation,
        aspect,
        is_before: text.contains(".before.") || text.ends_with(".before"),
        path: Rc::clone(path),
        bytes: place.bytes.clone(),
    });
}

/// What a field is about, and whether its value begins there.
fn aspect(path: &FieldPath) -> Option<(ObjectAttributeKind, bool)> {
    let is_first = match path.leaf() {
        "seconds" | "major" => true,
        "nseconds" | "minor" => false,
        leaf => {
            return Some((
                match (leaf, path.field) {
                    ("change" | "before" | "after", field) if field.starts_with("nfs.changeid4") => {
                        ObjectAttributeKind::Change
                    }
                    ("owner", "nfs.fattr4_owner") => ObjectAttributeKind::Owner,
                    ("owner_group", "nfs.fattr4_owner_group") => ObjectAttributeKind::Group,
                    ("fileid", _) => ObjectAttributeKind::Fileid,
                    ("mounted_on_fileid", _) => ObjectAttributeKind::MountedOn,
                    ("fsid", _) => ObjectAttributeKind::FileSystem,
                    ("change_attr_type", _) => ObjectAttributeKind::ChangeType,
                    _ => return None,
                },
                true,
            ));
        }
    };
    let above = path.above().strip_suffix('.')?;
    Some((
        match above.rsplit('.').next()? {
            "mtime" | "time_modify" => ObjectAttributeKind::Modified,
            "ctime" | "time_metadata" => ObjectAttributeKind::Metadata,
            "fsid" => ObjectAttributeKind::FileSystem,
            _ => return None,
        },
        is_first,
    ))
}

/// Which object a field of an operation is about. RFC 1813 section 3.3, RFC 8881 section 18.
fn subject(operation: &str, path: &str) -> AttributeSubject {
    let gives = matches!(operation, "LOOKUP" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD");
    match path.split('.').next().unwrap_or_default() {
        "cinfo" if matches!(operation, "OPEN" | "CREATE") => AttributeSubject::Parent,
        "source_cinfo" => AttributeSubject::Saved,
        "obj_attributes" if operation == "GETATTR" => AttributeSubject::Current,
        "obj_attributes" if gives => AttributeSubject::Given,
        "todir_wcc" | "linkdir_wcc" => AttributeSubject::Called(1),
        group if group.ends_with("_wcc") || group.ends_with("_attributes") => AttributeSubject::Called(0),
        _ => AttributeSubject::Current,
    }
}

/// An entry of a directory.
#[derive(Debug, Default)]
pub(super) struct ListedDirectoryEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) facts: Vec<AttributeOccurrence>,
    /// Where its filehandle stands.
    pub(super) handle: Option<Range<usize>>,
}

/// The entries that a Reply lists.
pub(super) fn listed<'a>(places: &[LocatedField<'a>]) -> Vec<ListedDirectoryEntry<'a>> {
    let mut entries: Vec<ListedDirectoryEntry<'a>> = Vec::new();
    let mut first: Option<&Rc<FieldPath>> = None;
    for place in places.iter().filter(|place| place.path.text.contains("entries.")) {
        if first.is_none_or(|first| Rc::ptr_eq(first, &place.path)) {
            first = Some(&place.path);
            entries.push(ListedDirectoryEntry::default());
        }
        let Some(entry) = entries.last_mut() else { break };
        match (place.path.leaf(), place.value) {
            ("name", FieldValue::Text(name) | FieldValue::Bytes(name)) => entry.name = name,
            _ if place.path.field == "nfs.fhandle" => entry.handle = Some(place.bytes.clone()),
            _ => hear(place, &mut entry.facts),
        }
    }
    entries
}
