//! Work, time and memory of a run of the program.
//!
//! The four sizes are measured one after the other. A measurement of CPU time is quick, and linear time is linear work:
//! the first measurements that show it are enough. But other processes change the time, through caches and the second
//! thread of a core. So if [`ATTEMPTS`] measurements do not show it, the work is counted: valgrind counts the basic
//! blocks that the program executes in user mode. Other processes cannot change that number. It takes ten times as
//! long. Instructions cannot be counted everywhere: that needs hardware counters, which virtual machines and containers
//! seldom have.
//!
//! The kernel counts CPU time exactly in sum, but splits it into user and kernel mode by sampling, so both are taken. A
//! doubling is judged by the median of its ratios and by the ratio of the minimum times. Without noise both are right,
//! and noise seldom spoils both; a quadratic step gives 4 for twice the input in every run.
//!
//! Memory is the program's peak RSS, as counted by the kernel.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

const MIB: u64 = 1 << 20;

/// Memory limit of the program with its default limits, in bytes.
const MOST_BYTES: u64 = 256 * MIB;

/// Memory limit at a 32nd of the sizes, with limits of 16 MiB: the program itself takes up to 30 MiB in a debug build.
const MOST_SMALL_BYTES: u64 = 64 * MIB;

/// Maximum ratio of the work for twice the input.
const MOST_WORK: f64 = 2.2;

/// Maximum number of measurements of CPU time, then the work is counted; without valgrind nothing else can decide.
const ATTEMPTS: usize = 3;
const ATTEMPTS_WITHOUT_COUNTS: usize = 10;

pub(super) fn is_full() -> bool {
    std::env::var("ADVERSARIAL").is_ok_and(|size| size == "full")
}

/// Environment variables of a process that runs the program: the program with its arguments, one per line, the file for
/// its cost, and the file for its output.
const RUN: &str = "ADVERSARIAL_RUN";
const COST: &str = "ADVERSARIAL_COST";
const OUTPUT: &str = "ADVERSARIAL_OUTPUT";

/// Measure of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    CpuTime,
    /// Basic blocks that valgrind counts.
    Blocks,
}

/// Cost of a run of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    cpu: Duration,
    /// Of valgrind, if it counts.
    peak_bytes: u64,
    /// Executed basic blocks, if they are counted.
    blocks: Option<u64>,
}

/// A file that is removed with the value.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    /// Returns a path in the folder for temporary files, for the running test only.
    pub(super) fn new(name: &str) -> Self {
        let test = std::thread::current().name().unwrap_or_default().replace("::", "-");
        Self(std::env::temp_dir().join(format!("{}-{test}-{name}", std::process::id())))
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) fn program() -> String {
    std::env::var("PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nfsrdma-inspect").to_owned())
}

/// A run of the program, in its own process: the kernel sums the CPU time of all children of a process, and other
/// tests may run in this one.
pub(super) struct Run {
    process: Child,
    cost: Scratch,
    counts: Option<Scratch>,
}

impl Run {
    /// Starts the program with its output in a file.
    pub(super) fn start(measure: Measure, arguments: &[&str], output: &str) -> Self {
        let cost = Scratch::new("cost");
        let counts = (measure == Measure::Blocks).then(|| Scratch::new("counts"));
        let program = program();
        let mut words: Vec<String> = Vec::new();
        if let Some(counts) = &counts {
            let log = format!("--log-file={}", counts.path());
            words.extend(["valgrind", "--tool=none", "--stats=yes"].map(str::to_owned));
            words.push(log);
        }
        words.push(program);
        words.extend(arguments.iter().map(|&word| word.to_owned()));
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "adversarial::measurement::a_run"])
            .env(RUN, words.join("\n"))
            .env(COST, &cost.0)
            .env(OUTPUT, output)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, cost, counts }
    }

    /// Returns the writer of the program's standard input.
    pub(super) fn input(&mut self) -> impl Write + use<> {
        BufWriter::with_capacity(1 << 16, self.process.stdin.take().unwrap())
    }

    /// Waits for the end of the program, which must succeed.
    pub(super) fn cost(mut self) -> Cost {
        drop(self.process.stdin.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
        let written = std::fs::read_to_string(&self.cost.0).unwrap();
        let numbers: Vec<u64> = written.split(' ').map(|number| number.parse().unwrap()).collect();
        let blocks = self.counts.map(|counts| executed_blocks(&std::fs::read_to_string(&counts.0).unwrap()));
        Cost { cpu: Duration::from_micros(numbers[0]), peak_bytes: numbers[1], blocks }
    }
}

/// Returns the number of executed basic blocks in valgrind's statistics: each begins with a check for events.
fn executed_blocks(log: &str) -> u64 {
    let line = log.lines().find(|line| line.ends_with(" event checks."));
    let number = line.and_then(|line| line.split_whitespace().rev().nth(2)).unwrap_or_else(|| panic!("{log}"));
    number.replace(',', "").parse().unwrap()
}

#[test]
#[ignore = "the other tests run it"]
fn a_run() {
    let words = std::env::var(RUN).unwrap();
    let mut words = words.lines();
    let output = std::fs::File::create(std::env::var_os(OUTPUT).unwrap()).unwrap();
    let status = Command::new(words.next().unwrap()).args(words).stdout(output).status().unwrap();
    assert!(status.success(), "{status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let times_us = [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    let peak_bytes = usage.max_rss() * 1024;
    std::fs::write(std::env::var_os(COST).unwrap(), format!("{} {peak_bytes}", times_us[0] + times_us[1])).unwrap();
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the ratios of the CPU time of doubling sizes: of each, the lesser of the median of its ratios and the ratio
/// of the minimum times.
fn time_ratios(rounds: &[[Duration; 4]]) -> [f64; 3] {
    let ratio = |times: &[Duration; 4], step: usize| times[step + 1].as_secs_f64() / times[step].as_secs_f64();
    let least = std::array::from_fn(|step| rounds.iter().map(|times| times[step]).min().unwrap());
    std::array::from_fn(|step| {
        let mut ratios: Vec<_> = rounds.iter().map(|times| ratio(times, step)).collect();
        median(&mut ratios).min(ratio(&least, step))
    })
}

/// Holds the memory of four runs, of doubling sizes, to the limit, and returns their CPU times.
fn measure(name: &str, cost: &mut impl FnMut(Measure, u32) -> Cost) -> [Duration; 4] {
    let most_bytes = if is_full() { MOST_BYTES } else { MOST_SMALL_BYTES };
    [1, 2, 4, 8].map(|factor| {
        let Cost { cpu, peak_bytes, .. } = cost(Measure::CpuTime, factor);
        println!("{name} ×{factor}: {cpu:?}, {} MiB", peak_bytes / MIB);
        assert!(peak_bytes < most_bytes, "{name} ×{factor}: {} MiB", peak_bytes / MIB);
        cpu
    })
}

/// Compares the work and the memory of four runs, of doubling sizes, with the limits.
///
/// `ADVERSARIAL=count` counts the work in any case.
pub(super) fn hold(name: &str, mut cost: impl FnMut(Measure, u32) -> Cost) {
    let is_linear = |ratios: &[f64]| ratios.iter().all(|ratio| *ratio <= MOST_WORK);
    let valgrind = Command::new("valgrind").arg("--version").output();
    let can_count = valgrind.is_ok_and(|output| output.status.success());
    let must_count = std::env::var("ADVERSARIAL").is_ok_and(|value| value == "count");
    assert!(can_count || !must_count, "valgrind counts the work, and is not installed");
    let mut rounds = Vec::new();
    for _ in 0..if can_count { ATTEMPTS } else { ATTEMPTS_WITHOUT_COUNTS } {
        rounds.push(measure(name, &mut cost));
        let ratios = time_ratios(&rounds);
        println!("{name}: {ratios:.2?} in {} rounds", rounds.len());
        if must_count {
            break;
        }
        if is_linear(&ratios) {
            return;
        }
    }
    assert!(can_count, "{name}: the CPU time is not linear: {rounds:.2?}");
    let blocks = [1, 2, 4, 8].map(|factor| cost(Measure::Blocks, factor).blocks.unwrap());
    let ratios: Vec<_> = blocks.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64).collect();
    println!("{name}: {ratios:.2?}, {blocks:?} basic blocks");
    assert!(is_linear(&ratios), "{name}: the work is not linear: {ratios:.2?}, {blocks:?} basic blocks");
}

#[test]
fn a_doubling_is_judged_by_the_median_or_by_the_minimum_times() {
    let round = |times: [u64; 4]| times.map(Duration::from_millis);
    let (linear, quadratic) = (round([100, 200, 400, 800]), round([100, 400, 1600, 6400]));
    assert_eq!(time_ratios(&[linear]), [2.0; 3]);
    assert_eq!(time_ratios(&[quadratic; 3]), [4.0; 3]);
    // One disturbed measurement of three.
    assert_eq!(time_ratios(&[round([100, 500, 400, 800]), linear, linear]), [2.0; 3]);
    // Every round was disturbed, no size in all of them.
    let disturbed = [round([100, 200, 900, 800]), round([100, 500, 400, 800]), round([100, 600, 900, 2000])];
    assert!(time_ratios(&disturbed).iter().all(|ratio| *ratio <= 2.0), "{:?}", time_ratios(&disturbed));
}

#[test]
fn executed_blocks_are_read_from_the_statistics() {
    let log = "--7-- scheduler: 8,705,030 event checks.\n--7-- scheduler: 9 indir transfers, 1 misses";
    assert_eq!(executed_blocks(log), 8_705_030);
}
