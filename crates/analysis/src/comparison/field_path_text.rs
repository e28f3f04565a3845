//! Questions about the text of a [field path](super::field_path::FieldPath): labels with dots between them.

/// Returns `true` if a field of this label contains the last one of the path. The path of a parent, with its final dot,
/// is within the parent.
pub fn is_within(path: &str, label: &str) -> bool {
    path.rsplit('.').skip(1).any(|part| part == label)
}

/// Returns `true` if a field of the path has this label.
pub fn has_label(path: &str, label: &str) -> bool {
    path.split('.').any(|part| part == label)
}

/// Returns the part of the path before these labels: empty, or with a final dot. `None` if the path does not end with
/// them.
pub fn strip_labels<'p>(path: &'p str, labels: &[&str]) -> Option<&'p str> {
    let mut parent = path;
    for (index, label) in labels.iter().rev().enumerate() {
        let end = if index == 0 { parent } else { parent.strip_suffix('.')? };
        parent = end.strip_suffix(label)?;
        if !(parent.is_empty() || parent.ends_with('.')) {
            return None;
        }
    }
    Some(parent)
}

/// Returns `true` if the path ends with these labels.
pub fn ends_with_labels(path: &str, labels: &[&str]) -> bool {
    strip_labels(path, labels).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_with_whole_labels_only() {
        assert_eq!(strip_labels("reply.entries.name", &["entries", "name"]), Some("reply."));
        assert_eq!(strip_labels("entries.name", &["entries", "name"]), Some(""));
        for path in ["reply.entries.filename", "reply.my_entries.name", "name", "entries_name", ""] {
            assert_eq!(strip_labels(path, &["entries", "name"]), None, "{path}");
        }
    }

    #[test]
    fn a_label_of_a_path_is_whole() {
        for path in ["mode", "attrs.mode", "mode.bits"] {
            assert!(has_label(path, "mode"), "{path}");
        }
        assert!(!has_label("attrs.mode3", "mode") && !has_label("mu_mode", "mode") && !has_label("", "mode"));
    }

    #[test]
    fn a_field_is_within_its_parents_and_not_within_itself() {
        assert!(is_within("reply.entries.name", "entries"));
        assert!(is_within("reply.entries.name", "reply"));
        assert!(!is_within("reply.entries.name", "name"));
        assert!(is_within("dir_wcc.after.", "after"));
        assert!(!is_within("reply.old_entries.name", "entries"));
    }
}
