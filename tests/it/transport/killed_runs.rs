//! A killed replay leaves everything outside of its directory unchanged, and the next one reports the state of the
//! directory and completes it.
//!
//! It is killed at 20 moments, or at as many as `NFSRDMA_KILLED_RUNS` says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::ganesha::Ganesha;
use super::program::{compiled, program};

/// Default number of kills (`NFSRDMA_KILLED_RUNS`).
const MOMENTS: u64 = 20;

/// Type, attributes and content of an object.
#[derive(Debug, PartialEq)]
struct Object {
    mode: u32,
    owner: u32,
    size: u64,
    /// Modification and change time: seconds and nanoseconds of both.
    times: [i64; 4],
    content: Vec<u8>,
}

/// Returns everything in a folder by its path.
fn everything(folder: &Path) -> BTreeMap<String, Object> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if about.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            () if about.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            () => fs::read(&path).unwrap(),
        };
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        let (mode, owner, size) = (about.mode(), about.uid(), about.len());
        found.insert(name, Object { mode, owner, size, times, content });
    }
    found
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn a_run_that_is_killed_touches_nothing_outside_of_its_directory() {
    let Some(server) = Ganesha::start(true) else { return };
    let moments = std::env::var("NFSRDMA_KILLED_RUNS").ok().and_then(|count| count.parse().ok());
    let moments: u64 = moments.unwrap_or(MOMENTS);
    let traces = [("rxe-v42", ""), ("rxe-v3", "?vers=3"), ("rxe-v41", ""), ("rxe-v40", "")]
        .map(|(capture, version)| (compiled(capture, &format!("killed-{capture}")), version));
    // A tree with the names of the trace.
    let beside = server.export().join("beside");
    for name in ["tree", "nameless", "deep/er"] {
        fs::create_dir_all(beside.join(name)).unwrap();
    }
    for (number, name) in ["a", "tree/file", "nameless/1", "deep/er/b"].iter().enumerate() {
        fs::write(beside.join(name), vec![number as u8; 5_000 * number]).unwrap();
    }
    std::os::unix::fs::symlink("deep/er", beside.join("link")).unwrap();
    let before = everything(&beside);

    let wholes: Vec<_> = traces
        .iter()
        .enumerate()
        .map(|(number, (trace, version))| {
            let file = trace.0.to_str().unwrap();
            let url = match *version {
                "" => format!("tcp://127.0.0.1:{}/export", server.port),
                version => {
                    let (export, mount) = (server.export(), server.mount_port);
                    format!("tcp://127.0.0.1:{}{}{version}&mountport={mount}", server.port, export.display())
                }
            };
            let directory = format!("whole-{number}");
            let start = Instant::now();
            let whole = program(&["replay", "run", "-q", file, "--server", &url, "--directory", &directory]);
            assert!(matches!(whole.status.code(), Some(0 | 1)), "{whole:?}");
            (file, url, whole.status.code(), start.elapsed())
        })
        .collect();

    let mut state = 42;
    let (mut unfinished, mut killed, mut completed) = (0, 0_u32, 0);
    for moment in 0..moments {
        let directory = format!("run-{moment}");
        // Each version is killed at moments from the first to the last.
        let (file, url, code, length) = &wholes[moment as usize % wholes.len()];
        let step = if moment % 5 == 3 { "seed" } else { "run" };
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
            .args(["replay", step, "-q", file, "--server", url, "--directory", &directory])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From an early moment to a late one, each at a random point of its interval.
        let part = (moment as f64 + (random(&mut state) >> 11) as f64 / (1u64 << 53) as f64) / moments as f64;
        thread::sleep(Duration::from_secs_f64(length.as_secs_f64() * part));
        let is_over = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        killed += u32::from(!is_over);
        assert_eq!(everything(&beside), before, "{step} killed at {part:.3} of the way");

        let run = server.export().join(&directory);
        let is_used = run.is_dir() && fs::read_dir(&run).unwrap().next().is_some();
        if !is_used {
            continue;
        }
        // The export contains only the replay's directory.
        let again = program(&["replay", "run", "-q", file, "--server", url, "--directory", &directory]);
        let error = String::from_utf8_lossy(&again.stderr);
        assert_eq!(again.status.code(), Some(2), "{error}");
        assert!(error.contains("directory not empty"), "{error}");
        let has_marker = |prefix: &str| {
            let mut markers = fs::read_dir(run.join("seeded")).into_iter().flatten();
            markers.any(|marker| marker.unwrap().file_name().to_str().unwrap().starts_with(prefix))
        };
        let is_whole = has_marker("trace-");
        let what = match is_whole {
            true => "it was seeded for this trace",
            false if run.join("tree").is_dir() || has_marker("seeding-") => "a run ended before its tree was complete",
            false => "its content is not that of a run",
        };
        assert!(error.contains(what) && error.contains("name another directory"), "{error}");
        unfinished += u32::from(!is_whole);
        // If the killed replay had begun to change files, the next one uses another directory; the dead client's opens
        // do not matter.
        let other = format!("{directory}-again");
        let place: &[&str] = match is_whole {
            true => &["--directory", &other],
            false => &["--directory", &directory, "--allow-non-empty"],
        };
        let again = program(&[&["replay", "run", "-q", file, "--server", url][..], place].concat());
        assert_eq!(again.status.code(), *code, "{}", String::from_utf8_lossy(&again.stderr));
        assert_eq!(everything(&beside), before, "{step} killed at {part:.3} of the way, and completed");
        completed += 1;
    }
    assert!(killed * 2 >= moments as u32, "{killed} of {moments} were killed before their end");
    println!(
        "{killed} of {moments} killed before their end, {unfinished} while the tree was made, {completed} completed"
    );
    let names = fs::read_dir(server.export()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut others: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with("run-")).collect();
    others.sort();
    assert_eq!(others, ["beside", "whole-0", "whole-1", "whole-2", "whole-3"]);
}
