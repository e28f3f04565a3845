//! Attributes in a Reply that have relations: change attributes, times, file systems, owners and file numbers.

use std::ops::Range;
use std::rc::Rc;

use nfsrdma_analysis::comparison::comparable_transaction_recorder::LocatedField;
use nfsrdma_analysis::comparison::field_path::FieldPath;
use nfsrdma_analysis::comparison::field_path_text::{has_label, is_within};
use nfsrdma_dissectors::field::FieldValue;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::nfs::v3::Procedure;
use nfsrdma_dissectors::nfs::v4::Operation;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum ComparedAttributeKind {
    /// Change attribute: `change`, or `before` and `after` of change_info4.
    Change,
    /// Modification time of the content: `time_modify`, `mtime`.
    Modified,
    /// Modification time of the attributes: `time_metadata`, `ctime`.
    Metadata,
    Owner,
    Group,
    Fileid,
    /// File number of the directory that it is mounted on.
    MountedOn,
    FileSystem,
    /// Type of the change attribute: RFC 7862 section 12.2.3.
    ChangeType,
    Size,
    /// Type of the object: 1 is a regular file.
    FileType,
}

/// Object of an operation that a value describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum AttributeSubject {
    /// Current filehandle of NFSv4.
    Current,
    /// Directory that OPEN and CREATE of NFSv4 start from.
    Parent,
    /// Saved filehandle of NFSv4.
    Saved,
    /// Filehandle number of an NFSv3 Call, from 0.
    CallHandle(u8),
    /// Filehandle returned by an NFSv3 Reply.
    ReplyHandle,
}

#[derive(Clone, Debug)]
pub(in super::super) struct AttributeOccurrence {
    /// Section of the message; 1 is the first operation.
    pub(in super::super) section: usize,
    pub(super) operation: Rc<str>,
    pub(super) subject: AttributeSubject,
    pub(super) aspect: ComparedAttributeKind,
    pub(super) is_before: bool,
    /// Path of its first field.
    pub(super) path: Rc<FieldPath>,
    pub(super) bytes: Range<usize>,
}

impl AttributeOccurrence {
    /// Returns `true` if both are the same attribute of the same object.
    fn is_same_attribute(&self, other: &Self) -> bool {
        self.section == other.section
            && self.subject == other.subject
            && self.aspect == other.aspect
            && self.is_before == other.is_before
            && Rc::ptr_eq(&self.path, &other.path)
    }
}

/// An attribute that both Replies have, with its position in each.
#[derive(Clone, Debug)]
pub(in super::super) struct MatchedReplyAttribute {
    pub(super) recorded: AttributeOccurrence,
    pub(super) live: Range<usize>,
}

/// Returns the attributes that both Replies have, in the order of the recorded one, except those of directory entries.
pub(in super::super) fn paired_attributes(
    recorded: &[LocatedField<'_>],
    live: &[LocatedField<'_>],
) -> Vec<MatchedReplyAttribute> {
    let mut unmatched: Vec<Option<AttributeOccurrence>> = reply_attributes(live).into_iter().map(Some).collect();
    let pair = |recorded: AttributeOccurrence| {
        let is_same = |other: &&mut Option<_>| other.as_ref().is_some_and(|live| recorded.is_same_attribute(live));
        let live = unmatched.iter_mut().find(is_same)?.take()?.bytes;
        Some(MatchedReplyAttribute { recorded, live })
    };
    reply_attributes(recorded).into_iter().filter_map(pair).collect()
}

fn reply_attributes(fields: &[LocatedField<'_>]) -> Vec<AttributeOccurrence> {
    let mut occurrences = Vec::new();
    let fields = fields.iter().filter(|field| !is_within(&field.path.text, field_labels::ENTRIES));
    fields.for_each(|field| collect_field(field, &mut occurrences));
    occurrences
}

/// Adds the attribute of a field, or extends the previous one if the field continues its value.
fn collect_field(field: &LocatedField<'_>, occurrences: &mut Vec<AttributeOccurrence>) {
    let Some((aspect, is_first)) = attribute_kind(&field.path) else { return };
    // Second half of a time or of a file system ID.
    if !is_first {
        if let Some(last) = occurrences.last_mut().filter(|occurrence| occurrence.bytes.end == field.bytes.start) {
            last.bytes.end = field.bytes.end;
        }
        return;
    }
    let (section, operation) = (field.section.0, Rc::clone(&field.section.1));
    let text = &*field.path.text;
    occurrences.push(AttributeOccurrence {
        section,
        subject: attribute_subject(&operation, text),
        operation,
        aspect,
        is_before: has_label(text, field_labels::BEFORE),
        path: Rc::clone(&field.path),
        bytes: field.bytes.clone(),
    });
}

/// Returns the kind of a field, and `true` if its value begins there.
fn attribute_kind(path: &FieldPath) -> Option<(ComparedAttributeKind, bool)> {
    let kind = match (path.leaf(), path.field) {
        (field_labels::SECONDS | field_labels::NSECONDS | field_labels::MAJOR | field_labels::MINOR, _) => {
            match path.parent_path().strip_suffix('.')?.rsplit('.').next()? {
                field_labels::MTIME | field_labels::TIME_MODIFY => ComparedAttributeKind::Modified,
                field_labels::CTIME | field_labels::TIME_METADATA => ComparedAttributeKind::Metadata,
                field_labels::FSID => ComparedAttributeKind::FileSystem,
                _ => return None,
            }
        }
        (field_labels::CHANGE | field_labels::BEFORE | field_labels::AFTER, field)
            if field.starts_with(field_names::NFS_CHANGEID4) =>
        {
            ComparedAttributeKind::Change
        }
        (field_labels::OWNER, field_names::NFS_FATTR4_OWNER) => ComparedAttributeKind::Owner,
        (field_labels::OWNER_GROUP, field_names::NFS_FATTR4_OWNER_GROUP) => ComparedAttributeKind::Group,
        (field_labels::FILEID, _) => ComparedAttributeKind::Fileid,
        (field_labels::MOUNTED_ON_FILEID, _) => ComparedAttributeKind::MountedOn,
        (field_labels::FSID, _) => ComparedAttributeKind::FileSystem,
        (field_labels::CHANGE_ATTR_TYPE, _) => ComparedAttributeKind::ChangeType,
        (field_labels::SIZE, _) => ComparedAttributeKind::Size,
        (field_labels::TYPE, _) => ComparedAttributeKind::FileType,
        _ => return None,
    };
    Some((kind, !matches!(path.leaf(), field_labels::NSECONDS | field_labels::MINOR)))
}

/// Returns the object that a field of an operation describes. RFC 1813 section 3.3, RFC 8881 section 18.
fn attribute_subject(operation: &str, path: &str) -> AttributeSubject {
    let of_v4 = || Operation::from_name(operation);
    // NFSv4 returns attributes of objects in GETATTR alone.
    let returns_handle = || {
        use Procedure as Nfs;
        let procedure = Nfs::from_name(operation);
        matches!(procedure, Some(Nfs::LOOKUP | Nfs::CREATE | Nfs::MKDIR | Nfs::SYMLINK | Nfs::MKNOD))
    };
    match path.split('.').next().unwrap_or_default() {
        field_labels::CINFO if matches!(of_v4(), Some(Operation::OPEN | Operation::CREATE)) => AttributeSubject::Parent,
        field_labels::SOURCE_CINFO => AttributeSubject::Saved,
        field_labels::OBJ_ATTRIBUTES if of_v4() == Some(Operation::GETATTR) => AttributeSubject::Current,
        field_labels::OBJ_ATTRIBUTES if returns_handle() => AttributeSubject::ReplyHandle,
        field_labels::TODIR_WCC | field_labels::LINKDIR_WCC => AttributeSubject::CallHandle(1),
        group
            if group == field_labels::OBJ_ATTRIBUTES
                || field_labels::WCC_DATA.contains(&group)
                || field_labels::POST_OP_ATTRIBUTES.contains(&group) =>
        {
            AttributeSubject::CallHandle(0)
        }
        _ => AttributeSubject::Current,
    }
}

#[derive(Debug, Default)]
pub(super) struct ListedDirectoryEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) facts: Vec<AttributeOccurrence>,
    pub(super) handle: Option<Range<usize>>,
}

pub(super) fn listed_entries<'a>(fields: &[LocatedField<'a>]) -> Vec<ListedDirectoryEntry<'a>> {
    let mut entries: Vec<ListedDirectoryEntry<'a>> = Vec::new();
    let mut first: Option<&Rc<FieldPath>> = None;
    for field in fields.iter().filter(|field| is_within(&field.path.text, field_labels::ENTRIES)) {
        if first.is_none_or(|first| Rc::ptr_eq(first, &field.path)) {
            first = Some(&field.path);
            entries.push(ListedDirectoryEntry::default());
        }
        let Some(entry) = entries.last_mut() else { break };
        match (field.path.leaf(), field.value) {
            (field_labels::NAME, FieldValue::Text(name) | FieldValue::Bytes(name)) => entry.name = name,
            _ if field.path.field == field_names::NFS_FHANDLE => entry.handle = Some(field.bytes.clone()),
            _ => collect_field(field, &mut entry.facts),
        }
    }
    entries
}
