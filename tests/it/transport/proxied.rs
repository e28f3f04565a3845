//! Lies by a proxy that shares no code with the program, between a replay and an honest server: values and relations.
//!
//! By default a part of them is told. With `NFSRDMA_INSPECT_PROXY=full` in the environment all are: each of the 100 kinds at three
//! occasions, and 200 honest runs.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_inspect::replay::run::{Options, Order, Report, run};
use nfsrdma_inspect::replay::trace::Trace;
use nfsrdma_inspect::replay::transport::loopback::server::Answer;
use nfsrdma_inspect::replay::transport::tcp::Tcp;

use super::client::target;
use super::liars::Work;
use super::proxy::Proxy;
use super::proxy::lies::{Kind, Liar, kinds};

/// The capture of each version.
const CAPTURES: [(u32, &str, u32); 4] =
    [(3, "rxe-v3", 3), (40, "rxe-v40", 4), (41, "rxe-v41", 4), (42, "rxe-v42", 4)];

fn is_full() -> bool {
    std::env::var_os("NFSRDMA_INSPECT_PROXY").is_some_and(|value| value == "full")
}

/// Runs a trace over TCP against the server inside the program, through a proxy with this liar.
fn replayed(work: &Work, liar: Liar, order: Order) -> (Report, Arc<Mutex<Liar>>) {
    let server = Mutex::new(work.server.lock().unwrap().clone());
    let proxy = Proxy::answering(liar, move |call| {
        let mut answer = Answer::default();
        server.lock().unwrap().call(nfsrdma_dissectors::xdr::Cursor::new(call), &mut answer);
        answer.whole()
    });
    let open = || Trace::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut transport = Tcp::new();
    let timeout = Duration::from_secs(5);
    let options = Options { order, timeout, tag: "proxied".into(), shown: 1000, ..Options::default() };
    let target = target(proxy.port);
    let report =
        run(&mut steps, &mut contents, &mut transport, &target, &work.seeded, &options, &mut ()).unwrap();
    (report, Arc::clone(&proxy.liar))
}

/// Whether a report says that something is wrong with the server.
fn is_told(report: &Report) -> bool {
    report.is_different()
        || report.discarded + report.disconnects + report.recovered > 0
        || !report.refused.is_empty()
        || !report.own_faults.is_empty()
}

fn works(test: &str) -> BTreeMap<u32, Work> {
    CAPTURES.into_iter().map(|(label, capture, version)| (label, Work::of(capture, version, test))).collect()
}

/// Does each of some things, two at a time.
fn each<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(one);
                }
            });
        }
    });
}

#[test]
fn an_honest_server_behind_the_proxy_raises_no_alarm() {
    let works = works("proxied-honest");
    let turns = if is_full() { 50 } else { 3 };
    let runs: Vec<_> = (0..turns).flat_map(|turn| CAPTURES.map(|(label, ..)| (label, turn))).collect();
    each(&runs, |(label, turn)| {
        let order = if turn % 2 == 0 { Order::Conservative } else { Order::Dependence };
        let (report, _) = replayed(&works[label], Liar::honest(), order);
        assert!(!is_told(&report), "{label}: {:#?} {:#?}", report.mismatches, report.walked);
        assert!(report.is_sound(), "{label}");
    });
    println!("{} honest runs", runs.len());
}

/// Tells a kind of lie at its first, a middle and a late occasion. Whether each was found.
fn outcomes(kind: Kind, works: &BTreeMap<u32, Work>) -> Vec<(String, bool)> {
    let work = &works[&kind.version];
    let (_, liar) = replayed(work, Liar::of(Some(kind), usize::MAX), Order::Conservative);
    let occasions = liar.lock().unwrap().occasions();
    assert!(occasions > 0, "{kind}: there is no occasion for it");
    let mut skips = vec![0, occasions / 3, occasions * 2 / 3];
    skips.truncate(if is_full() { 3 } else { 1 });
    skips
        .into_iter()
        .map(|skip| {
            let (report, liar) = replayed(work, Liar::of(Some(kind), skip), Order::Conservative);
            let liar = liar.lock().unwrap();
            assert!(liar.lies > 0, "{kind} after {skip} was not told");
            (format!("{kind} after {skip} of {occasions}: {}", liar.last), is_told(&report))
        })
        .collect()
}

#[test]
fn of_100_kinds_of_lies_99_of_100_are_found() {
    let works = works("proxied-lies");
    let kinds = kinds();
    let chosen: Vec<Kind> =
        kinds.iter().enumerate().filter(|(at, _)| is_full() || at % 4 == 0).map(|(_, kind)| *kind).collect();
    let found = Mutex::new(Vec::new());
    each(&chosen, |kind| found.lock().unwrap().extend(outcomes(*kind, &works)));
    let found = found.into_inner().unwrap();
    let missed: Vec<_> = found.iter().filter(|(_, is_found)| !is_found).map(|(lie, _)| lie).collect();
    println!("{} lies of {} kinds, {} not found: {missed:#?}", found.len(), chosen.len(), missed.len());
    assert!(kinds.len() >= 100);
    assert!(missed.len() * 100 <= found.len(), "{missed:#?}");
}
