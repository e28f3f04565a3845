//! Numbers of files: a file keeps its fileid (RFC 8881 section 5.8.2.6).

use rustc_hash::FxHashMap;

use crate::analysis::comparison::record::{Datum, Path, Section};
use crate::replay::run::shape::ROOT;

/// Files whose fileid is remembered.
const FILES: usize = 1 << 16;

/// Recorded and live fileid of each file, by the variable of its filehandle.
#[derive(Debug, Default)]
pub(super) struct Fileids {
    by_file: FxHashMap<u32, [Datum; 2]>,
}

impl Fileids {
    /// Those that an operation gives on both sides.
    pub(super) fn of(a: &Section, b: &Section) -> Option<[Datum; 2]> {
        let find = |section: &Section| {
            let mut entries = section.entries.iter();
            entries.find(|entry| is_fileid(&section.name, &entry.path)).map(|entry| entry.datum.clone())
        };
        Some([find(a)?, find(b)?])
    }

    /// The live fileid that a file had and the one that it has now, where these are two and the recording has one.
    pub(super) fn differing(&mut self, file: Option<u32>, now: [Datum; 2]) -> Option<[Datum; 2]> {
        let file = file.filter(|file| *file < ROOT)?;
        if self.by_file.len() >= FILES && !self.by_file.contains_key(&file) {
            return None;
        }
        let [recorded, live] = self.by_file.entry(file).or_insert_with(|| now.clone());
        let is_other = recorded.is_same(&now[0]) && !live.is_same(&now[1]);
        let [_, other] = now;
        is_other.then(|| [live.clone(), other])
    }
}

/// Whether a field of an operation is the fileid of the file that it is about.
pub(super) fn is_fileid(operation: &str, path: &Path) -> bool {
    operation == "GETATTR" && &*path.text == "obj_attributes.fileid"
}
