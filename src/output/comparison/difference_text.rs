//! Difference between two captures as text.

use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};

/// Shortens a path to the operation and the field: `GETATTR size` for `GETATTR.obj_attributes.size`.
pub fn short_path(path: &str) -> String {
    match (path.split('.').next(), path.rsplit('.').next()) {
        (Some(first), Some(last)) if first != last => format!("{first} {last}"),
        _ => path.to_owned(),
    }
}

/// Formats a difference: `READ count: 4096 → 4095`. A value that one side lacks is `-`.
pub fn difference_text(difference: &Difference, to: &str) -> String {
    let value = |side: &DifferenceSideValue| side.value.clone().unwrap_or_else(|| "-".to_owned());
    let (a, b) = (value(&difference.a), value(&difference.b));
    let mut text = String::new();
    if !difference.path.is_empty() {
        text.push_str(&short_path(&difference.path));
        text.push_str(": ");
    }
    text += &format!("{a} {to} {b}");
    if difference.count > 1 {
        text += &format!(", and {} more", difference.count - 1);
    }
    text
}

/// Returns the frame of one side.
pub fn frame_of(side: &DifferenceSideValue) -> Option<u64> {
    side.frame.map(|frame| frame.0)
}
