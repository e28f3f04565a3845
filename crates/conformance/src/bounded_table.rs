//! Tables of earlier facts with a limited number of entries.

use rustc_hash::FxHashMap;

/// Empties a table of earlier facts that is full: what it forgets is not judged.
pub(crate) fn empty_if_full<K, V>(table: &mut FxHashMap<K, V>, max_entries: usize) {
    if table.len() >= max_entries {
        table.clear();
    }
}
