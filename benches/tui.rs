//! Response times of the terminal interface: until the first screen of a large capture, and until the screen after each
//! key while it is being read. `cargo bench -p benches --bench tui [-- FILE]`; without a file, a capture of 1 GiB is
//! generated.
//!
//! Exits with 1 if a limit is exceeded.
#![allow(clippy::expect_used, reason = "a benchmark says what is wrong by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark makes its own files")]

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nfsrdma_capture_file::ZstdWindowBudget;
use nfsrdma_inspect::tui::rereadable_capture::SharedCapture;
use nfsrdma_inspect::tui::{App, TuiOptions};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

#[path = "../tests/it/captures.rs"]
#[allow(dead_code, clippy::panic, reason = "written for the tests, which need more of it")]
mod captures;
#[allow(dead_code, reason = "the tests need more of it")]
mod repeat;

const SIZE: u64 = 1 << 30;
const FIRST_SCREEN: Duration = Duration::from_millis(300);
const KEY: Duration = Duration::from_millis(50);

/// Keys sent while a capture is read: through the list, through the views, to the next item of a kind.
const KEYS: &[KeyCode] = &[
    KeyCode::Down,
    KeyCode::PageDown,
    KeyCode::Char('e'),
    KeyCode::End,
    KeyCode::Char('w'),
    KeyCode::Up,
    KeyCode::Home,
    KeyCode::Char('2'),
    KeyCode::Char('3'),
    KeyCode::Char('4'),
    KeyCode::Char('6'),
    KeyCode::Char('1'),
    KeyCode::Char('n'),
    KeyCode::Char('s'),
    KeyCode::Char('>'),
    KeyCode::Char('<'),
];

fn main() -> ExitCode {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).map(PathBuf::from);
    let made = given.is_none().then(|| {
        let path = std::env::temp_dir().join(format!("nfsrdma-inspect-bench-{}.pcap", std::process::id()));
        let mut capture = repeat::Repeated::of_size(captures::bytes("rxe-v42"), SIZE);
        let mut file = File::create(&path).expect("room for a large capture");
        io::copy(&mut capture, &mut file).expect("room for a large capture");
        path
    });
    let path = given.or(made.clone()).expect("a capture");
    let is_kept = measure(path);
    if let Some(made) = made {
        let _ = std::fs::remove_file(made);
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(path: PathBuf) -> bool {
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal");
    let start = Instant::now();
    let mut app = App::new(SharedCapture::files(vec![path], ZstdWindowBudget::default()), TuiOptions::default())
        .expect("remove the filter");
    let mut draw = |app: &mut App| _ = terminal.draw(|frame| app.draw(frame)).expect("a terminal");
    while app.transactions() == 0 {
        app.tick();
    }
    draw(&mut app);
    let first = start.elapsed();
    let mut waits = Vec::new();
    // A key every 5 ms is faster than typing, like a key held down.
    for code in KEYS.iter().cycle() {
        std::thread::sleep(Duration::from_millis(5));
        let pressed = Instant::now();
        app.event(&Event::Key(KeyEvent::new(*code, KeyModifiers::NONE)));
        app.tick();
        draw(&mut app);
        waits.push(pressed.elapsed());
        if app.is_read() {
            break;
        }
    }
    let read = start.elapsed();
    waits.sort_unstable();
    let part = |part: f64| {
        let at = (waits.len() as f64 * part) as usize;
        waits.get(at.min(waits.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let (p50, p99, longest) = (part(0.5), part(0.99), part(1.0));
    println!("first screen           {first:>10.1?}  (promised: {FIRST_SCREEN:?})");
    println!("key to screen, p50     {p50:>10.1?}  of {} keys while loading", waits.len());
    println!("key to screen, p99     {p99:>10.1?}  (promised: {KEY:?})");
    println!("key to screen, longest {longest:>10.1?}");
    println!("everything read        {read:>10.1?}  {} transactions", app.transactions());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!("most memory            {:>10}", peak.unwrap_or_default().trim());
    }
    first <= FIRST_SCREEN && p99 <= KEY
}
