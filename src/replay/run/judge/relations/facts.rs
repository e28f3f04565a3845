//! Where a Reply tells what relations are about: change attributes, times, file systems, owners and numbers of files.

use std::ops::Range;
use std::rc::Rc;

use nfsrdma_dissectors::field::Value;

use crate::analysis::comparison::record::Path;
use crate::analysis::comparison::recorder::Placed;

/// What a value says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Aspect {
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
pub(in super::super) enum Subject {
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
pub(in super::super) struct Fact {
    /// The section that it is in: 1 is the first operation.
    pub(in super::super) section: usize,
    pub(super) operation: Rc<str>,
    pub(super) subject: Subject,
    pub(super) aspect: Aspect,
    /// It was so before the operation.
    pub(super) is_before: bool,
    /// Its first field.
    pub(super) path: Rc<Path>,
    /// Its bytes in the message.
    pub(super) bytes: Range<usize>,
}

impl Fact {
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
pub(in super::super) struct Both {
    pub(super) fact: Fact,
    pub(super) live: Range<usize>,
}

/// What both Replies tell, in the order of the recorded one. Entries of directories are not among it.
pub(in super::super) fn both(recorded: &[Placed<'_>], live: &[Placed<'_>]) -> Vec<Both> {
    let mut rest: Vec<Option<Fact>> = facts(live).into_iter().map(Some).collect();
    let pair = |fact: Fact| {
        let other = rest.iter_mut().find(|other| other.as_ref().is_some_and(|other| other.is_like(&fact)))?;
        other.take().map(|other| Both { fact, live: other.bytes })
    };
    facts(recorded).into_iter().filter_map(pair).collect()
}

fn facts(places: &[Placed<'_>]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for place in places {
        if !place.path.text.contains("entries.") {
            hear(place, &mut facts);
        }
    }
    facts
}

/// Adds what a field tells, or puts it to the field before of the same value.
fn hear(place: &Placed<'_>, facts: &mut Vec<Fact>) {
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
    facts.push(Fact {
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
fn aspect(path: &Path) -> Option<(Aspect, bool)> {
    let is_first = match path.leaf() {
        "seconds" | "major" => true,
        "nseconds" | "minor" => false,
        leaf => {
            return Some((
                match (leaf, path.field) {
                    ("change" | "before" | "after", field) if field.starts_with("nfs.changeid4") => {
                        Aspect::Change
                    }
                    ("owner", "nfs.fattr4_owner") => Aspect::Owner,
                    ("owner_group", "nfs.fattr4_owner_group") => Aspect::Group,
                    ("fileid", _) => Aspect::Fileid,
                    ("mounted_on_fileid", _) => Aspect::MountedOn,
                    ("fsid", _) => Aspect::FileSystem,
                    ("change_attr_type", _) => Aspect::ChangeType,
                    _ => return None,
                },
                true,
            ));
        }
    };
    let above = path.above().strip_suffix('.')?;
    Some((
        match above.rsplit('.').next()? {
            "mtime" | "time_modify" => Aspect::Modified,
            "ctime" | "time_metadata" => Aspect::Metadata,
            "fsid" => Aspect::FileSystem,
            _ => return None,
        },
        is_first,
    ))
}

/// Which object a field of an operation is about. RFC 1813 section 3.3, RFC 8881 section 18.
fn subject(operation: &str, path: &str) -> Subject {
    let gives = matches!(operation, "LOOKUP" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD");
    match path.split('.').next().unwrap_or_default() {
        "cinfo" if matches!(operation, "OPEN" | "CREATE") => Subject::Parent,
        "source_cinfo" => Subject::Saved,
        "obj_attributes" if operation == "GETATTR" => Subject::Current,
        "obj_attributes" if gives => Subject::Given,
        "todir_wcc" | "linkdir_wcc" => Subject::Called(1),
        group if group.ends_with("_wcc") || group.ends_with("_attributes") => Subject::Called(0),
        _ => Subject::Current,
    }
}

/// An entry of a directory.
#[derive(Debug, Default)]
pub(super) struct Listed<'a> {
    pub(super) name: &'a [u8],
    pub(super) facts: Vec<Fact>,
    /// Where its filehandle stands.
    pub(super) handle: Option<Range<usize>>,
}

/// The entries that a Reply lists.
pub(super) fn listed<'a>(places: &[Placed<'a>]) -> Vec<Listed<'a>> {
    let mut entries: Vec<Listed<'a>> = Vec::new();
    let mut first: Option<&Rc<Path>> = None;
    for place in places.iter().filter(|place| place.path.text.contains("entries.")) {
        if first.is_none_or(|first| Rc::ptr_eq(first, &place.path)) {
            first = Some(&place.path);
            entries.push(Listed::default());
        }
        let Some(entry) = entries.last_mut() else { break };
        match (place.path.leaf(), place.value) {
            ("name", Value::Text(name) | Value::Bytes(name)) => entry.name = name,
            _ if place.path.field == "nfs.fhandle" => entry.handle = Some(place.bytes.clone()),
            _ => hear(place, &mut entry.facts),
        }
    }
    entries
}
