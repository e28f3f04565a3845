//! The captures in `captures/`, plain or gzip compressed, and the files next to them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

/// Every capture that the tests read. `captures/README.md` describes them.
pub(crate) const ALL: [&str; 27] = [
    "rxe-v3",
    "rxe-v40",
    "rxe-v40-deleg",
    "rxe-v40-errors",
    "rxe-v41",
    "rxe-v42",
    "rxe-v42-bulk-loss1",
    "rxe-v42-bulk-loss5",
    "rxe-v42-conc-head",
    "rxe-v42-credits",
    "rxe-v42-deleg",
    "rxe-v42-ip6",
    "rxe-v42-krb5",
    "rxe-v42-loss",
    "rxe-v42-mid",
    "rxe-v42-snap128",
    "siw-v3",
    "siw-v40-errors",
    "siw-v41",
    "siw-v42",
    "siw-v42-bulk-loss",
    "siw-v42-crc",
    "siw-v42-mid",
    "tcp-v3",
    "tcp-v42",
    "tcp-v42-bulk-loss",
    "tcp-v42-ganesha",
];

/// Returns the folder of the captures.
pub(crate) fn folder() -> PathBuf {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    ancestors.map(|folder| folder.join("captures")).find(|folder| folder.is_dir()).unwrap_or_else(|| "captures".into())
}

/// Returns the captures in the folder of `NFSRDMA_MORE_CAPTURES` by their paths, which are too large for this
/// repository or may not be in it; none if it is not set.
pub(crate) fn more() -> Vec<&'static str> {
    let Some(folder) = std::env::var_os("NFSRDMA_MORE_CAPTURES") else { return Vec::new() };
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", Path::new(&folder).display()));
    let paths = entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok());
    let names = paths.map(|path| path.to_string_lossy().into_owned());
    let is_capture = |name: &String| [".pcap", ".pcap.gz", ".pcapng"].iter().any(|end| name.ends_with(end));
    let mut names: Vec<&'static str> = names.filter(is_capture).map(|name| &*name.leak()).collect();
    names.sort_unstable();
    names
}

/// Returns the path of a capture.
pub(crate) fn path(name: &str) -> PathBuf {
    // A capture in another folder.
    if Path::new(name).is_absolute() {
        return name.into();
    }
    ["pcap", "pcap.gz"]
        .iter()
        .map(|extension| folder().join(format!("{name}.{extension}")))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("captures/{name}.pcap is not there, nor {name}.pcap.gz"))
}

/// Returns the bytes of a capture, decompressed.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = path(name);
    let raw = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut plain = Vec::new();
        GzDecoder::new(&raw[..]).read_to_end(&mut plain).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return plain;
    }
    raw
}

/// Returns the text next to a capture: `mountstats`, `ops` or `nfsd-stats`.
pub(crate) fn companion(name: &str, extension: &str) -> String {
    let path = folder().join(format!("{name}.{extension}"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Temporary file, removed when it is dropped.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("nfsrdma-inspect-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
