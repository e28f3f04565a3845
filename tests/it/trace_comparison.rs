//! A trace is compared like the capture that it was compiled from, without differences.

use serde_json::Value as Json;

use crate::captures;
use crate::transport::program::{compiled, compiled_with, program};

/// Captures whose traces report missing bytes of a message differently: a trace has no bytes beyond the first gap, and
/// does not say that a Read chunk of a refused Call was not read.
const CUT: [&str; 4] = ["rxe-v40-errors", "rxe-v42-snap128", "rxe-v42-conc-head", "siw-v40-errors"];

#[test]
fn a_trace_has_no_difference_to_its_capture() {
    for name in captures::ALL.into_iter().filter(|name| !CUT.contains(name)) {
        let capture = captures::path(name);
        let trace = compiled_with(name, "retold", "keep");
        let output = program(&["compare", capture.to_str().unwrap(), trace.name()]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{name}: {text}");
    }
}

#[test]
fn a_cut_capture_differs_from_its_trace_only_in_completeness() {
    let capture = captures::path("rxe-v42-conc-head");
    let trace = compiled_with("rxe-v42-conc-head", "retold", "keep");
    let (a, b) = (capture.to_str().unwrap(), trace.name());
    assert_eq!(program(&["compare", "--ignore", "incomplete", a, b]).status.code(), Some(0));
}

#[test]
fn hashed_file_data_is_compared_by_hash() {
    let capture = captures::path("rxe-v3");
    let trace = compiled_with("rxe-v3", "retold", "hash");
    let (a, b) = (capture.to_str().unwrap(), trace.name());
    let output = program(&["compare", a, b]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("bytes of file data."), "{text}");
    assert!(!text.contains("not compared"), "{text}");
    // Another run of the same workload has the same data.
    let other = captures::path("siw-v3");
    let other = program(&["compare", "-q", "--only", "data", other.to_str().unwrap(), b]);
    assert_eq!(other.status.code(), Some(0));
}

#[test]
fn a_damaged_trace_is_an_error_and_no_difference() {
    let capture = captures::path("rxe-v3");
    let trace = compiled_with("rxe-v3", "damaged", "keep");
    let mut bytes = std::fs::read(&trace.0).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    std::fs::write(&trace.0, bytes).unwrap();
    let output = program(&["compare", capture.to_str().unwrap(), trace.name()]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the trace is damaged"), "{error}");
}

/// A trace is listed and inspected like the capture that it was compiled from.
#[test]
fn a_trace_is_listed_like_its_capture() {
    for name in ["rxe-v42", "rxe-v3"] {
        let (capture, trace) = (captures::path(name), compiled(name, "listed"));
        let capture = capture.to_str().unwrap();
        let lines = |arguments: &[&str]| -> Vec<Json> {
            let output = program(arguments);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let json = ["-T", "json", "--summary", "none"];
        let (one, other) = (lines(&[&json[..], &[capture]].concat()), lines(&[&json[..], &[trace.name()]].concat()));
        assert_eq!(one.len(), other.len());
        // Two Transactions may complete in another order than they are written in.
        let by_index = |lines: Vec<Json>| -> std::collections::BTreeMap<u64, Json> {
            lines.into_iter().map(|line| (line["index"].as_u64().unwrap(), line)).collect()
        };
        let (one, other) = (by_index(one), by_index(other));
        for (index, line) in &one {
            for key in ["operation", "xid", "status", "program", "version"] {
                assert_eq!(line[key], other[index][key], "{name} {index} {key}");
            }
        }
        let chosen = |file: &str| lines(&[&json[..], &["-Y", "nfs.opcode == \"WRITE\"", file]].concat()).len();
        assert_eq!(chosen(capture), chosen(trace.name()));
        let tree = program(&["-V", "-c", "3", trace.name()]);
        assert!(tree.status.success() && !tree.stdout.is_empty());
        // A trace has no frames.
        for arguments in [["-w", "/dev/null"], ["--view", "frames"]] {
            assert_eq!(program(&[&arguments[..], &[trace.name()]].concat()).status.code(), Some(2));
        }
    }
}
