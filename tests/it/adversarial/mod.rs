//! Input made to take time and memory, each kind at ×1, ×2, ×4 and ×8: the work must double with the input, and the
//! memory must stay below a limit.
//!
//! Work is the CPU time that the kernel counts for the program: exactly in sum, and split into user and kernel mode by
//! sampling, so both are taken. Counters of instructions would be better, but virtual machines and containers seldom
//! have them. Other processes change the time through caches, for a while; so the four sizes are measured one after the
//! other, repeatedly, and a doubling is judged by the median of its ratios and by the ratio of the minimum times.
//! Without noise both are right, and noise seldom spoils both; a quadratic step gives 4 for twice the input in every
//! run. Memory is the program's peak RSS, as counted by the kernel. Both are of the whole program: input, decoders,
//! names, tables and output.
//!
//! `make adversarial` runs all in full size against a release build: `ADVERSARIAL=full` takes a million Calls, connections and queue pairs, a chain of 200,000 directories, 400,000
//! clients and windows of 128 MiB at ×8, with the default limits; otherwise everything is a 32nd of that, including the
//! limits. `PROGRAM` names another build of the program than the test's.

mod wire;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

use wire::{CLIENT, Pcap, Route, SERVER};

const MIB: u64 = 1 << 20;

/// Memory limit of the program with its default limits, in bytes.
const MOST_BYTES: u64 = 256 * MIB;

/// Memory limit at a 32nd of the sizes, with limits of 16 MiB: the program itself takes up to 30 MiB in a debug build.
const MOST_SMALL_BYTES: u64 = 64 * MIB;

/// Maximum ratio of the work for twice the input.
const MOST_WORK: f64 = 2.2;

/// Maximum number of measurements until the work is linear.
const ATTEMPTS: usize = 10;

fn is_full() -> bool {
    std::env::var("ADVERSARIAL").is_ok_and(|size| size == "full")
}

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

/// Time and memory of a run of the program.
#[derive(Clone, Copy, Debug)]
struct Cost {
    cpu: Duration,
    peak_bytes: u64,
}

fn children() -> (Duration, u64) {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let times = [usage.user_time(), usage.system_time()];
    let cpu =
        times.iter().map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)).sum();
    (cpu, usage.max_rss() as u64 * 1024)
}

fn program() -> Command {
    let built = env!("CARGO_BIN_EXE_nfsrdma-inspect").into();
    Command::new(std::env::var_os("PROGRAM").unwrap_or(built))
}

type Frames<'a> = &'a dyn Fn(&mut Pcap<&mut dyn Write>, u64) -> io::Result<()>;

/// Runs the program with frames on its standard input, which it must read to the end.
fn run(arguments: &[&str], frames: Frames<'_>, size: u64) -> Cost {
    let (before, _) = children();
    let mut process = program().args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = BufWriter::with_capacity(1 << 16, process.stdin.take().unwrap());
    frames(&mut Pcap::new(&mut input as &mut dyn Write).unwrap(), size).unwrap();
    input.flush().unwrap();
    drop(input);
    let status = process.wait().unwrap();
    assert!(status.success(), "{arguments:?}: {status}");
    let (after, peak_bytes) = children();
    Cost { cpu: after - before, peak_bytes }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Compares the work and the memory of four runs, of doubling sizes, with the limits.
fn hold(name: &str, mut cost: impl FnMut(u32) -> Cost) {
    let most_bytes = if is_full() { MOST_BYTES } else { MOST_SMALL_BYTES };
    let mut least = [Duration::MAX; 4];
    let mut measured: [Vec<f64>; 3] = Default::default();
    for attempt in 1..=ATTEMPTS {
        let mut times = [Duration::ZERO; 4];
        for ((step, time), least) in (0..).zip(&mut times).zip(&mut least) {
            let Cost { cpu, peak_bytes } = cost(1 << step);
            println!("{name} ×{}: {cpu:?}, {} MiB", 1 << step, peak_bytes / MIB);
            assert!(peak_bytes < most_bytes, "{name} ×{}: {} MiB", 1 << step, peak_bytes / MIB);
            *time = cpu;
            *least = cpu.min(*least);
        }
        let ratio = |pair: &[Duration]| pair[1].as_secs_f64() / pair[0].as_secs_f64();
        for (of_step, pair) in measured.iter_mut().zip(times.windows(2)) {
            of_step.push(ratio(pair));
        }
        let medians = measured.iter_mut().map(|of_step| median(of_step));
        let ratios: Vec<_> = medians.zip(least.windows(2).map(ratio)).map(|(a, b)| a.min(b)).collect();
        println!("{name}: {ratios:.2?} after {attempt} runs");
        if ratios.iter().all(|ratio| *ratio <= MOST_WORK) {
            return;
        }
    }
    panic!("{name}: the work is not linear: {least:?}, {measured:.2?}");
}

fn hold_frames(name: &str, arguments: &[&str], full: u64, frames: Frames<'_>) {
    let arguments = [arguments, limits(SMALL.len()), &["-"]].concat();
    hold(name, |factor| run(&arguments, frames, base(full) * u64::from(factor)));
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
            to.frame(&wire::send(
                to_server(number),
                &wire::rdma_msg(xid, &segments, &wire::call(xid, 0, &[])),
            ))
        })
    });
}

#[test]
fn chunk_lists_of_one_handle() {
    hold_frames("chunk lists of one handle", &[], 16_000, &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            let segments: Vec<_> = (0..1000).map(|at| (7, 4096, u64::from(xid << 10 | at) << 12)).collect();
            to.frame(&wire::send(
                to_server(number),
                &wire::rdma_msg(xid, &segments, &wire::call(xid, 0, &[])),
            ))
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

/// A file that is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("adversarial-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
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
    let folder =
        ScratchFolder(std::env::temp_dir().join(format!("adversarial-{}-tables", std::process::id())));
    let to = folder.0.to_str().unwrap();
    let calls: Frames<'_> = &|to, count| {
        (0..count).try_for_each(|number| {
            let xid = number as u32;
            to.frame(&wire::send(to_server(number), &wire::rdma_msg(xid, &[], &wire::call(xid, 0, &[]))))
        })
    };
    let arguments = [&["export", "--name", "x", "--to", to], limits(2), &["-"]].concat();
    // Half as many fit into memory until the end, and cost less each: no row group is written early.
    hold("rows", |factor| run(&arguments, calls, base(2_000_000) * u64::from(factor)));
}

#[test]
fn clients_in_comparisons() {
    let clients: Frames<'_> = &|to, count| {
        (0..count).try_for_each(|number| {
            let [_, high, middle, low] = (number as u32).to_be_bytes();
            let (client, xid) = ([10, 1 + high, middle, low], 7);
            let there = Route { from: client, to: SERVER, qpn: 2 + number as u32, psn: 1 };
            let back = Route { from: SERVER, to: client, qpn: 2, psn: 1 };
            let call = wire::call(xid, 3, &wire::lookup(1));
            to.frame(&wire::send(there, &wire::rdma_msg(xid, &[], &call)))?;
            let reply = wire::reply(xid, &wire::found(2));
            to.frame(&wire::send(back, &wire::rdma_msg(xid, &[], &reply)))
        })
    };
    let file = Scratch::new("clients.pcap");
    let arguments = [&["compare"], limits(2), &[file.path(), "-"]].concat();
    hold("clients", |factor| {
        let size = base(400_000) * u64::from(factor);
        let mut input = BufWriter::new(File::create(&file.0).unwrap());
        clients(&mut Pcap::new(&mut input as &mut dyn Write).unwrap(), size).unwrap();
        input.flush().unwrap();
        run(&arguments, clients, size)
    });
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
    hold("zstd files", |factor| {
        let files = zstd_files(2 * factor, 1_000_000);
        let (before, _) = children();
        let paths: Vec<_> = files.iter().map(Scratch::path).collect();
        let output =
            program().args(["-q", "--summary", "json"]).args(limits(2)).args(&paths).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["frames"], u64::from(2 * factor) * zstd_frames());
        let (after, peak_bytes) = children();
        Cost { cpu: after - before, peak_bytes }
    });
}

#[test]
fn zstd_files_that_need_more_memory_together_than_there_is_say_what_to_do() {
    let files = zstd_files(2, 10);
    let paths: Vec<_> = files.iter().map(Scratch::path).collect();
    let output = program().args(["-q", "--summary", "json"]).args(limits(2)).args(&paths).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("needs a window of") && errors.contains("--max-memory"), "{errors}");
    let more = errors.split("--max-memory ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let output = program().args(["-q", "--max-memory", more]).args(&paths).output().unwrap();
    assert!(output.status.success(), "--max-memory {more}: {}", String::from_utf8_lossy(&output.stderr));
}
