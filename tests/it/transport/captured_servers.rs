//! Traces with several captured servers: a replay has one server and one tree.

use serde_json::Value as Json;

use super::ganesha::Ganesha;
use super::program::{Passing, program};
use crate::captures;

/// Compiles one trace of two captures of the same client: its server was mounted by IPv4 and by IPv6.
fn compiled_of_two(test: &str) -> Passing {
    let trace = Passing::new(&format!("{test}.trace"));
    let [first, second] = ["rxe-v42", "rxe-v42-ip6"].map(captures::path);
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    let output = program(&["replay", "compile", "-q", first, second, "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

/// Returns the addresses of the servers in the message.
fn named(said: &str) -> Vec<String> {
    let (_, rest) = said.split_once("the trace has 2 servers (").unwrap_or_else(|| panic!("{said}"));
    let (names, _) = rest.split_once(')').unwrap();
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn a_trace_of_two_servers_is_refused_unless_the_filter_selects_one() {
    let trace = compiled_of_two("two-servers");
    // Nothing listens there: the trace is refused before anything is sent.
    let nowhere = "tcp://127.0.0.1:1/export";
    let output = program(&["replay", "seed", trace.name(), "--server", nowhere]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("replay compile -Y 'nfsrdma.server == ") && said.lines().count() == 1, "{said}");
    let output = program(&["replay", "run", trace.name(), "--server", nowhere]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--filter 'nfsrdma.server == ") && said.lines().count() == 1, "{said}");
    let servers = named(&said);
    assert_eq!(servers.len(), 2, "{said}");

    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    for address in &servers {
        let filter = format!("nfsrdma.server == {address}");
        let run = ["replay", "run", "-T", "json", trace.name(), "--server", &url, "--filter", &filter];
        let output = program(&run);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{filter}: {said}");
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["states"]["mismatched"], 0, "{filter}: {report:#}");
        let count = |state: &str| report["states"][state].as_u64().unwrap();
        // The other half is of the other server.
        assert_eq!((count("matched") + count("tolerated"), count("skipped")), (225, 240), "{filter}: {report:#}");
        assert_eq!(report["own_faults"], Json::Array(Vec::new()), "{filter}");
    }
}

/// The servers have different files; those of the other one are not seeded.
#[test]
fn only_the_files_of_the_chosen_server_are_seeded() {
    let trace = Passing::new("files-of-two-servers.trace");
    let [first, second] = ["rxe-v42-maildir", "rxe-v42-ip6"].map(captures::path);
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    let output = program(&["replay", "compile", "-q", first, second, "-o", trace.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let alone = super::program::compiled("rxe-v42-ip6", "files-of-one-server");

    let Some(server) = Ganesha::start(false) else { return };
    let url = format!("tcp://127.0.0.1:{}/export", server.port);
    let seeded = |trace: &str, directory: &str, filter: &[&str]| {
        let run = ["replay", "run", "-T", "json", trace, "--server", &url, "--directory", directory];
        let output = program(&[&run[..], filter].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        (report["seeded_objects"].as_u64().unwrap(), report["walk"]["bytes"].as_u64().unwrap())
    };
    let of_one = seeded(alone.name(), "one", &[]);
    assert!(of_one.0 > 0 && of_one.1 > 0, "{of_one:?}");
    assert_eq!(seeded(trace.name(), "two", &["--filter", "nfsrdma.server == fd09::1"]), of_one);
}

#[test]
fn a_url_with_another_minor_version_than_the_trace_is_refused() {
    let trace = super::program::compiled("rxe-v42", "other-minor-version");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    for (version, code) in [("3", 2), ("4.0", 2), ("4.1", 2)] {
        let url = format!("tcp://127.0.0.1:{port}/export?vers={version}");
        let output = program(&["replay", "run", trace.name(), "--server", &url, "--timeout", "1"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        let expected = format!("the trace uses NFSv4.2, but {url} requests NFSv{version}; omit ?vers=");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn the_path_of_a_missing_capture_is_not_proposed_as_an_output() {
    for (path, is_proposed) in
        [("/nonexistent/work.pcap", false), ("/nonexistent/work.pcapng.gz", false), ("/nonexistent/work.trace", true)]
    {
        let output = program(&["replay", "run", path, "--server", "tcp://127.0.0.1:1/export"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.contains("replay compile CAPTURE -o"), is_proposed, "{said}");
        assert!(said.contains("check the path"), "{said}");
    }
}
