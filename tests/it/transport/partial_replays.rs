//! Partial replays: the selection of a filter and its dependencies, and the treatment of RPCSEC_GSS Calls.

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::program::{Passing, compiled, program};
use crate::captures;

fn plan(trace: &str, more: &[&str]) -> Json {
    let output = program(&[&["replay", "plan", "-T", "json", trace], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the number of steps of one operation in a state of a plan.
fn of(plan: &Json, operation: &str, state: &str) -> u64 {
    let rows = plan["operations"].as_array().unwrap();
    rows.iter().find(|row| row["operation"] == operation).map_or(0, |row| row[state].as_u64().unwrap())
}

#[test]
fn a_filter_selects_steps_together_with_those_they_need() {
    let trace = compiled("rxe-v42", "filtered");
    let all = plan(trace.name(), &[]);
    let part = plan(trace.name(), &["--filter", "nfs.opcode == \"READ\""]);
    let read = "NFS 4.2 READ";
    assert!(of(&all, read, "run") + of(&all, read, "synthesized") > 5, "{all:#}");
    for state in ["run", "synthesized", "unreplayable"] {
        assert_eq!(of(&part, read, state), of(&all, read, state), "{part:#}");
    }
    // The OPENs of the files are needed, and MKDIRs of other directories are not.
    assert!(of(&part, "NFS 4.2 OPEN", "run") > 0, "{part:#}");
    assert!(of(&part, "NFS 4.2 SETATTR", "run") < of(&all, "NFS 4.2 SETATTR", "run"));
    let reasons = part["reasons"].as_array().unwrap();
    let filtered = reasons.iter().find(|reason| reason["reason"] == "filtered").unwrap();
    assert_eq!(filtered["state"], "skipped");
    // No step that runs needs one that does not.
    assert!(!reasons.iter().any(|reason| reason["reason"] == "needs-other"), "{part:#}");
}

#[test]
fn a_filter_that_is_invalid_or_selects_nothing_is_refused() {
    let trace = compiled("rxe-v42-conc-head", "refused-filter");
    for (filter, what) in [("nfs.opcode ==", "--filter"), ("nfs.name == \"nowhere\"", "selects no step")] {
        let output = program(&["replay", "plan", trace.name(), "--filter", filter]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_part_of_a_trace_runs_and_matches() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    for (capture, filter) in [
        ("rxe-v42", "nfs.opcode == \"READ\""),
        ("rxe-v40", "nfs.opcode == \"READ\""),
        ("rxe-v41", "nfs.opcode == \"RENAME\" || nfs.opcode == \"REMOVE\""),
    ] {
        let path = captures::path(capture);
        let file = path.to_str().unwrap();
        let arguments = ["check", "-T", "json", "-c", "50", "--server", &url, "--filter", filter, file];
        let output = program(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
        let states = &report["states"];
        let count = |state: &str| states[state].as_u64().unwrap();
        assert_eq!(count("mismatched"), 0, "{capture}: {report:#}");
        assert!(count("matched") + count("tolerated") > 5, "{capture}: {states}");
        assert!(count("skipped") > 20, "{capture}: {states}");
    }
}

#[test]
fn a_report_is_one_page_that_fetches_nothing_and_runs_nothing() {
    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let (trace, page) = (Passing::new("a<b>&c\"d'.trace"), Passing::new("page.html"));
    let compiled = compiled("rxe-v42", "page");
    std::fs::copy(&compiled.0, &trace.0).unwrap();
    let run = ["replay", "run", "-q", trace.name(), "--server", &url, "--html", page.name()];
    let output = program(&run);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = std::fs::read_to_string(&page.0).unwrap();
    for forbidden in ["<script", "src=", "http://", "https://", "@import", "url(", "a<b>", "onload"] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    for wanted in ["a&lt;b&gt;&amp;c&quot;d&apos;", "prefers-color-scheme: dark", "<svg", "99th percentile", "viewport"]
    {
        assert!(text.contains(wanted), "{wanted}");
    }
    // Every opened element is closed.
    for element in
        ["main", "section", "table", "thead", "tbody", "tr", "td", "th", "ul", "li", "dl", "div", "svg", "bdi"]
    {
        let opened = text.matches(&format!("<{element}>")).count() + text.matches(&format!("<{element} ")).count();
        assert_eq!(opened, text.matches(&format!("</{element}>")).count(), "{element}");
    }
}
