//! Input made to take time and memory, each kind at ×1, ×2, ×4 and ×8: the work must double with the input, and the
//! memory must stay below a limit.
//!
//! Both are of the whole program: input, decoders, names, tables and output.
//!
//! `make adversarial` runs all in full size against a release build: `ADVERSARIAL=full` takes a million Calls,
//! connections and queue pairs, a chain of 200,000 directories, 400,000 clients and windows of 128 MiB at ×8, with the
//! default limits; otherwise everything is a 32nd of that, including the limits. `ADVERSARIAL=count` counts the work of
//! a 32nd with valgrind. `PROGRAM` names another build of the program than the test's.

mod measurement;
mod wire;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::Command;

use measurement::{Cost, Measure, Run, Scratch, hold, is_full, program};
use wire::{CLIENT, Pcap, Route, SERVER};

/// Returns the size at ×1 for a full size at ×8.
fn base(full: u64) -> u64 {
    if is_full() { full / 8 } else { full / 8 / 32 }
}

/// Limits for a 32nd of the sizes.
const SMALL: [&str; 10] = [
    "--max-memory",
    "16M",
    "--max-open-transactions",
    "512",
    "--max-connections",
    "512",
    "--max-streams",
    "1024",
    "--max-lingering-transactions",
    "128",
];

fn limits(options: usize) -> &'static [&'static str] {
    if is_full() { &[] } else { &SMALL[..options] }
}

type Frames<'a> = &'a dyn Fn(&mut Pcap<&mut dyn Write>, u64) -> io::Result<()>;

/// Runs the program with frames on its standard input, which it must read to the end.
fn run(measure: Measure, arguments: &[&str], frames: Frames<'_>, size: u64) -> Cost {
    let mut run = Run::start(measure, arguments, "/dev/null");
    let mut input = run.input();
    frames(&mut Pcap::new(&mut input as &mut dyn Write).unwrap(), size).unwrap();
    input.flush().unwrap();
    drop(input);
    run.cost()
}

fn hold_frames(name: &str, arguments: &[&str], full: u64, frames: Frames<'_>) {
    let arguments = [arguments, limits(SMALL.len()), &["-"]].concat();
    hold(name, |measure, factor| run(measure, &arguments, frames, base(full) * u64::from(factor)));
}

fn to_server(psn: u64) -> Route {
    Route { from: CLIENT, to: SERVER, qpn: 0x11, psn: psn as u32 }
}

fn to_client(psn: u64) -> Route {
    Route { from: SERVER, to: CLIENT, qpn: 0x22, psn: psn as u32 }
}

#[test]
fn calls_without_replies() {
    hold_frames("calls", &[], 1_000_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &wire::call(xid, 0, &[]))))
        })
    });
}

#[test]
fn queue_pairs_with_one_call_each() {
    hold_frames("queue pairs", &[], 1_000_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let (xid, qpn) = (number as u32, 2 + number as u32);
            let route = Route { qpn, ..to_server(number) };
            to.frame(&wire::send(route, &wire::rdma_msg(xid, &[], &wire::call(xid, 0, &[]))))
        })
    });
}

#[test]
fn connections_of_tcp_with_one_call_each() {
    hold_frames("connections", &[], 1_000_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let [_, high, low, port] = (number as u32).to_be_bytes();
            let from = [10, 1, high, low];
            let port = 1000 + u16::from(port);
            to.frame(&wire::tcp(from, port, 100, 0x02, &[]))?;
            to.frame(&wire::tcp(from, port, 101, 0x10, &wire::record(&wire::call(number as u32, 0, &[]))))
        })
    });
}

#[test]
fn chunk_lists_of_a_thousand_segments() {
    hold_frames("chunk lists", &[], 16_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            let segments: Vec<_> = (0..1000).map(|at| (xid << 10 | at, 4096, u64::from(at) << 12)).collect();
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &segments, &wire::call(xid, 0, &[]))))
        })
    });
}

#[test]
fn chunk_lists_of_one_handle() {
    hold_frames("chunk lists of one handle", &[], 16_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            let segments: Vec<_> = (0..1000).map(|at| (7, 4096, u64::from(xid << 10 | at) << 12)).collect();
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &segments, &wire::call(xid, 0, &[]))))
        })
    });
}

#[test]
fn scattered_writes() {
    hold_frames("scattered writes", &[], 4_000_000, &|to, count| {
        let call = wire::rdma_msg(1, &[(7, u32::MAX, 0)], &wire::call(1, 0, &[]));
        to.frame(&wire::send(to_server(0), &call))?;
        (0..count).try_for_each(|number| {
            // Visits every index once, in no order: the multiplier is odd.
            let place = number.wrapping_mul(0x9e37_79b1) & 0x3f_ffff;
            to.frame(&wire::write(to_client(number), 7, place << 6, &[1, 2, 3, 4]))
        })
    });
}

#[test]
fn a_chain_of_directories() {
    hold_frames("directories", &[], 200_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            let call = wire::call(xid, 3, &wire::lookup(xid));
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &call)))?;
            let reply = wire::reply(xid, &wire::found(xid + 1));
            to.frame(&wire::send(to_client(number), &wire::rdma_msg(xid, &[], &reply)))
        })
    });
}

/// A folder that is removed with the value.
struct ScratchFolder(PathBuf);

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn rows_of_exported_tables() {
    let folder = ScratchFolder(std::env::temp_dir().join(format!("adversarial-{}-tables", std::process::id())));
    let to = folder.0.to_str().unwrap();
    let calls: Frames<'_> = &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &wire::call(xid, 0, &[]))))
        })
    };
    let arguments = [&["export", "--name", "x", "--to", to], limits(2), &["-"]].concat();
    // Half as many fit into memory until the end, and cost less each: no row group is written early.
    hold("rows", |measure, factor| run(measure, &arguments, calls, base(2_000_000) * u64::from(factor)));
}

#[test]
fn clients_in_comparisons() {
    hold_comparison("clients", 400_000, &|to, count| {
        (0..count).try_for_each(|number| one_lookup_of_a_client(to, number))
    });
}

/// Writes the LOOKUP of a separate client, and its Reply.
fn one_lookup_of_a_client(to: &mut Pcap<&mut dyn Write>, number: u64) -> io::Result<()> {
    let [_, high, middle, low] = (number as u32).to_be_bytes();
    let (client, xid) = ([10, 1 + high, middle, low], 7);
    let there = Route { from: client, to: SERVER, qpn: 2 + number as u32, psn: 1 };
    let back = Route { from: SERVER, to: client, qpn: 2, psn: 1 };
    let call = wire::call(xid, 3, &wire::lookup(1));
    to.frame(&wire::send(there, &wire::rdma_msg(xid, &[], &call)))?;
    let reply = wire::reply(xid, &wire::found(2));
    to.frame(&wire::send(back, &wire::rdma_msg(xid, &[], &reply)))
}

/// Compares a capture with itself.
fn hold_comparison(name: &str, full: u64, frames: Frames<'_>) {
    let file = Scratch::new("a.pcap");
    let arguments = [&["compare"], limits(2), &[file.path(), "-"]].concat();
    hold(name, |measure, factor| {
        let size = base(full) * u64::from(factor);
        write_capture(&file, frames, size);
        run(measure, &arguments, frames, size)
    });
}

fn write_capture(file: &Scratch, frames: Frames<'_>, size: u64) {
    let mut input = BufWriter::new(File::create(&file.0).unwrap());
    frames(&mut Pcap::new(&mut input as &mut dyn Write).unwrap(), size).unwrap();
    input.flush().unwrap();
}

/// Writes a LOOKUP, and its Reply with another filehandle.
fn lookup(to: &mut Pcap<&mut dyn Write>, number: u64, filehandle: u32, name: &str) -> io::Result<()> {
    let xid = number as u32;
    let call = wire::call(xid, 3, &wire::lookup_of(filehandle, name));
    to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &call)))?;
    let reply = wire::reply(xid, &wire::found(filehandle + 1));
    to.frame(&wire::send(to_client(number), &wire::rdma_msg(xid, &[], &reply)))
}

#[test]
fn filehandles_in_comparisons() {
    hold_comparison("filehandles", 400_000, &|to, count| {
        (0..count).try_for_each(|number| lookup(to, number, number as u32, "d"))
    });
}

/// Compiles frames to a trace.
fn hold_compilation(name: &str, full: u64, frames: Frames<'_>) {
    let trace = Scratch::new("compiled.trace");
    let arguments = [&["replay", "compile", "-q", "-o", trace.path()], limits(2), &["-"]].concat();
    hold(name, |measure, factor| run(measure, &arguments, frames, base(full) * u64::from(factor)));
}

#[test]
fn filehandles_and_names_in_traces() {
    hold_compilation("filehandles in traces", 1_000_000, &|to, count| {
        (0..count).try_for_each(|number| lookup(to, number, 2 * number as u32, &format!("name {number}")))
    });
}

#[test]
fn a_trace_that_lacks_facts_for_want_of_memory_is_reported() {
    let capture = Scratch::new("facts.pcap");
    let names: Frames<'_> =
        &|to, count| (0..count).try_for_each(|number| lookup(to, number, 2 * number as u32, &format!("name {number}")));
    write_capture(&capture, names, 40_000);
    let trace = Scratch::new("facts.trace");
    for (memory, is_lacking) in [("16M", true), ("1G", false)] {
        let output = Command::new(program())
            .args(["replay", "compile", "--max-memory", memory, "-o", trace.path(), capture.path()])
            .output()
            .unwrap();
        let summary = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && summary.contains("40,000 steps"), "{summary}");
        for text in ["identities forgotten", "facts about files and messages omitted"] {
            assert_eq!(summary.contains(text), is_lacking, "{memory}: {summary}");
        }
        assert_eq!(summary.contains("use a larger --max-memory"), is_lacking, "{summary}");
    }
}

#[test]
fn connections_in_traces() {
    hold_compilation("connections in traces", 400_000, &|to, count| {
        (0..count).try_for_each(|number| one_lookup_of_a_client(to, number))
    });
}

#[test]
fn calls_without_replies_in_comparisons() {
    hold_comparison("calls without replies", 1_000_000, &|to, count| {
        (0..count).try_for_each(|number| {
            if number.is_multiple_of(2) {
                return lookup(to, number, 1, "d");
            }
            let xid = number as u32;
            let call = wire::call(xid, 3, &wire::lookup_of(1, &format!("{number}")));
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &call)))
        })
    });
}

/// Holds `check` of a capture with these names against a baseline with other names, which it ignores; or `check
/// --bless`.
fn hold_check(name: &str, is_blessed: bool, names: impl Fn(u64, bool) -> String) {
    let capture = Scratch::new("names.pcap");
    let baseline = Scratch(capture.0.with_extension("pcap.baseline"));
    let output = Scratch::new("checked");
    let frames = |is_baseline: bool| {
        let names = &names;
        move |to: &mut Pcap<&mut dyn Write>, count: u64| {
            (0..count).try_for_each(|number| lookup(to, number, 1, &names(number, is_baseline)))
        }
    };
    let bless = [&["check", "--bless"], limits(2), &[capture.path()]].concat();
    let check = [&["check"], limits(2), &[capture.path()]].concat();
    hold(name, |measure, factor| {
        let size = base(400_000) * u64::from(factor);
        let _ = std::fs::remove_file(&baseline.0);
        write_capture(&capture, &frames(true), size);
        if !is_blessed {
            assert!(Command::new(program()).args(&bless).output().unwrap().status.success());
            let text = std::fs::read_to_string(&baseline.0).unwrap();
            std::fs::write(&baseline.0, text.replace("[settings]\n", "[settings]\nignore name\n")).unwrap();
            write_capture(&capture, &frames(false), size);
        }
        let cost = Run::start(measure, if is_blessed { &bless } else { &check }, output.path()).cost();
        let text = std::fs::read_to_string(&output.0).unwrap();
        assert_eq!(text.contains("left out by its settings"), !is_blessed, "{text}");
        cost
    });
}

#[test]
fn transactions_in_baselines() {
    hold_check("blessed", true, |number, _| format!("{number}"));
}

#[test]
fn differences_from_baselines() {
    hold_check("checked", false, |number, is_baseline| format!("{number} {}", if is_baseline { 'a' } else { 'b' }));
}

/// Returns the logarithm of the window of the files: 128 MiB, or half of the small limit.
fn window_log() -> u8 {
    if is_full() { 27 } else { 23 }
}

/// Returns the number of 128 KiB frames in each file: enough to fill the window, and to take longer to decode than the
/// program takes to start.
fn zstd_frames() -> u64 {
    (1 << (window_log() - 17)) + if is_full() { 64 } else { 1024 }
}

/// Creates files that each fill a window, and begin `apart_us` microseconds apart.
fn zstd_files(count: u32, apart_us: u64) -> Vec<Scratch> {
    (0..count)
        .map(|number| {
            let file = Scratch::new(&format!("{number}.pcap.zst"));
            let packed = wire::zstd_pcap(window_log(), u64::from(number) * apart_us, zstd_frames());
            std::fs::write(&file.0, packed).unwrap();
            file
        })
        .collect()
}

#[test]
fn zstd_files_with_long_windows_that_follow_one_another() {
    // The first two already share the memory; one alone needs no second reading.
    hold("zstd files", |measure, factor| {
        let files = zstd_files(2 * factor, 1_000_000);
        let paths: Vec<_> = files.iter().map(Scratch::path).collect();
        let summary = Scratch::new("summary");
        let arguments = [&["-q", "--summary", "json"], limits(2), &paths].concat();
        let cost = Run::start(measure, &arguments, summary.path()).cost();
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(&summary.0).unwrap()).unwrap();
        assert_eq!(summary["frames"], u64::from(2 * factor) * zstd_frames());
        cost
    });
}

#[test]
fn zstd_files_beyond_the_memory_are_refused_with_a_remedy() {
    let files = zstd_files(2, 10);
    let paths: Vec<_> = files.iter().map(Scratch::path).collect();
    let output =
        Command::new(program()).args(["-q", "--summary", "json"]).args(limits(2)).args(&paths).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("needs a window of") && errors.contains("--max-memory"), "{errors}");
    let more = errors.split("--max-memory ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let output = Command::new(program()).args(["-q", "--max-memory", more]).args(&paths).output().unwrap();
    assert!(output.status.success(), "--max-memory {more}: {}", String::from_utf8_lossy(&output.stderr));
}
