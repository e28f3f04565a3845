//! The program as users run it, and traces that it compiles for a test.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::captures;

/// Runs the program.
pub(crate) fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

/// Temporary file of a test.
pub(crate) struct Passing(pub(crate) PathBuf);

impl Passing {
    /// Returns a path that does not exist yet; `name` is unique among the tests.
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("nfsrdma-inspect-{name}-{}", std::process::id())))
    }

    /// Returns its path.
    pub(crate) fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Compiles the trace of a capture.
pub(crate) fn compiled(capture: &str, test: &str) -> Passing {
    compiled_with(capture, test, "keep")
}

/// Compiles the trace of a capture, with its file data kept, hashed, or generated from a key.
pub(crate) fn compiled_with(capture: &str, test: &str, data: &str) -> Passing {
    let trace = Passing::new(&format!("{test}-{}-{data}.trace", capture.replace('/', "-")));
    let capture = captures::path(capture);
    let arguments = ["replay", "compile", "-q", "--data", data, capture.to_str().unwrap(), "-o", trace.name()];
    let output = program(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}
