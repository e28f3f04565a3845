//! Traces of real captures run against the server inside the program: against the honest one, and against one that lies.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfsrdma_dissectors::rpc::Xid;
use nfsrdma_inspect::replay::caller::{Caller, Line};
use nfsrdma_inspect::replay::run::rules::file::{self, FileRule};
use nfsrdma_inspect::replay::run::rules::learn::learn;
use nfsrdma_inspect::replay::run::{Options, Order, Report, Watch, run};
use nfsrdma_inspect::replay::seed::files::Files;
use nfsrdma_inspect::replay::seed::v3::V3;
use nfsrdma_inspect::replay::seed::v4::V4;
use nfsrdma_inspect::replay::seed::{How, Place, Seeded, seed};
use nfsrdma_inspect::replay::trace::Trace;
use nfsrdma_inspect::replay::transport::Transport;
use nfsrdma_inspect::replay::transport::loopback::server::Server;
use nfsrdma_inspect::replay::transport::loopback::server::lies::{self, Change, Deed, Liar, Lie, What};
use nfsrdma_inspect::replay::transport::loopback::{Loopback, Settings};

use super::client::target;
use super::program::compiled;

/// A trace of a capture, and a server that it is seeded on.
pub(super) struct Work {
    capture: &'static str,
    version: u32,
    pub(super) file: Arc<[u8]>,
    pub(super) server: Mutex<Server>,
    pub(super) seeded: Seeded,
}

impl Work {
    pub(super) fn of(capture: &'static str, version: u32, test: &str) -> Self {
        let file: Arc<[u8]> = fs::read(&compiled(capture, test).0).unwrap().into();
        let server = Arc::new(Mutex::new(Server::default()));
        let mut transport = Loopback::to(Arc::clone(&server), Settings::default());
        let target = target(20049);
        let connection = transport.connect(&target).unwrap();
        let root = server.lock().unwrap().root().to_vec();
        let line = Line::new(&mut transport, connection, Caller::default(), Xid(1), target.wish.timeout);
        let mut files: Box<dyn Files> = match version {
            3 => Box::new(V3::new(line, root)),
            _ => Box::new(V4::new(line, "seed", &[2, 1, 0]).unwrap()),
        };
        let place = Place { export: "/", directory: "run" };
        let mut contents = Trace::open(Cursor::new(Arc::clone(&file))).unwrap();
        let seeded = seed(&mut contents, &mut *files, &place, How::Make).unwrap();
        files.leave();
        drop(files);
        let server = Mutex::new(server.lock().unwrap().clone());
        Self { capture, version, file, server, seeded }
    }
}

fn works(test: &str) -> Vec<Work> {
    [("rxe-v3", 3), ("rxe-v40", 4), ("rxe-v42", 4), ("rxe-v41", 4)]
        .map(|(capture, version)| Work::of(capture, version, test))
        .into()
}

/// Ends a run as soon as something is told of the server, if that is all that matters. When the last step is done the server
/// lies no more: the walk is not what it lies to.
struct Witness<'s> {
    server: &'s Mutex<Server>,
    is_impatient: bool,
    is_over: bool,
}

impl Watch for Witness<'_> {
    fn look(&mut self, report: &Report, total: u64, _: Duration) {
        self.is_over |= self.is_impatient && is_told(report);
        if report.steps >= total
            && let Some(liar) = &mut self.server.lock().unwrap().liar
        {
            liar.repent();
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Whether a report says that something is wrong with the server.
fn is_told(report: &Report) -> bool {
    report.is_different()
        || report.discarded + report.disconnects + report.recovered > 0
        || !report.refused.is_empty()
        || !report.own_faults.is_empty()
}

/// Runs a trace against a server with this liar. How often the lie was told.
fn replayed(work: &Work, liar: Option<Liar>, rules: &[FileRule], is_impatient: bool) -> (Report, u64) {
    let open = || Trace::open(Cursor::new(Arc::clone(&work.file))).unwrap();
    let (mut steps, mut contents) = (open(), open());
    let mut server = work.server.lock().unwrap().clone();
    server.liar = liar;
    let server = Arc::new(Mutex::new(server));
    let mut transport = Loopback::to(Arc::clone(&server), Settings::default());
    let mut watch = Witness { server: &server, is_impatient, is_over: false };
    let (target, seeded) = (target(20049), &work.seeded);
    let options = Options {
        order: Order::Conservative,
        // On a busy machine an honest Reply may take long, too.
        timeout: Duration::from_secs(5),
        tag: "t".into(),
        shown: 1000,
        rules: rules.to_vec(),
        ..Options::default()
    };
    let report =
        run(&mut steps, &mut contents, &mut transport, &target, seeded, &options, &mut watch).unwrap();
    let told = server.lock().unwrap().liar.as_ref().map_or(0, Liar::told);
    (report, told)
}

#[test]
fn an_honest_server_raises_no_alarm_in_twenty_runs() {
    for work in works("honest") {
        let mut report = Report::default();
        for _ in 0..5 {
            report = replayed(&work, None, &[], false).0;
            assert!(!is_told(&report), "{}: {:#?} {:#?}", work.capture, report.mismatches, report.walked);
            assert!(report.is_sound());
        }
        let walked = report.walked.as_ref().unwrap();
        let seen = (walked.names, walked.objects, walked.bytes, walked.left_out, walked.failed.clone());
        println!("{}: {} steps {:?}, walk {seen:?}", work.capture, report.steps, report.states);
        assert_eq!(walked.failed, None, "{}", work.capture);
        // Of the rest most are of other programs, or operations that this server has not.
        let done: u64 = report.states.iter().take(4).sum();
        assert!(done * 100 >= report.steps * 87, "{}: {:?}", work.capture, report.states);
        assert!(walked.names > 300 && walked.objects > 300 && walked.bytes > 20_000, "{seen:?}");
    }
}

/// The lies that were told, with the capture and whether they were found.
fn outcomes(lies: &[Lie], works: &[Work]) -> BTreeMap<String, (&'static str, bool)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, lie)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    lies.get(at).map(|lie| (at, lie))
                } {
                    let mut of_version: Vec<_> =
                        works.iter().filter(|work| work.version == lie.version).collect();
                    let turn = at % of_version.len();
                    of_version.rotate_left(turn);
                    for work in of_version {
                        let (report, told) = replayed(work, Some(Liar::new(*lie)), &[], true);
                        if told > 0 {
                            let outcome = (work.capture, is_told(&report));
                            outcomes.lock().unwrap().insert(lie.to_string(), outcome);
                            break;
                        }
                    }
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// Lies that are not found yet.
const NOT_FOUND: &[&str] = &[
    // A Write chunk whose length is not that of the data: what did not come whole is not compared.
    "NFSv3 READ: travels with LessThanWritten",
    "NFSv3 READ: travels with MoreThanWritten",
    "NFSv4 READ: travels with LessThanWritten",
    "NFSv4 READ: travels with MoreThanWritten",
    // A size may differ where Calls overlapped in the capture.
    "NFSv3 READDIRPLUS: says name_attributes.size one higher",
    "NFSv4 READDIR: says attrs.size one higher",
    "NFSv4 GETATTR: says obj_attributes.size one higher",
    "NFSv4 GETATTR: says obj_attributes.size one lower",
    // No later step tells the fileid of that file again.
    "NFSv4 GETATTR: says obj_attributes.fileid one higher",
    // The recorded listing has other parts, so that its end is elsewhere.
    "NFSv4 READDIR: says eof with another bit",
    // The recorded server was in its grace period, so that the recorded Reply has nothing to compare with.
    "NFSv4 LOCK: is done, and says status 13",
    "NFSv4 LOCK: says lock_stateid.other with another bit",
    "NFSv4 LOCK: says lock_stateid.seqid one higher",
    // What follows has no value then, and is not sent.
    "NFSv4 EXCHANGE_ID: says eir_clientid with another bit",
    "NFSv4 EXCHANGE_ID: says eir_sequenceid one higher",
];

#[test]
fn lies_are_found_but_for_those_that_are_listed() {
    let (works, lies) = (works("lies"), lies::all());
    let outcomes = outcomes(&lies, &works);
    let unfound: Vec<_> = outcomes.iter().filter(|(_, (_, is_found))| !is_found).collect();
    println!("{} of {} lies were told, {} not found", outcomes.len(), lies.len(), unfound.len());
    // The others find nothing to lie about in these captures; how many those are differs a little with the order of the run.
    assert!(outcomes.len() >= 380, "{} lies were told", outcomes.len());
    let unlisted: Vec<_> = unfound.iter().filter(|(lie, _)| !NOT_FOUND.contains(&lie.as_str())).collect();
    assert!(unlisted.is_empty(), "not found: {unlisted:#?}");
    assert!((outcomes.len() - unfound.len()) * 100 >= outcomes.len() * 96, "{unfound:#?}");
}

/// What a run leaves otherwise shows in the walk alone, where no step looks at it again.
#[test]
fn the_walk_finds_what_no_reply_tells() {
    let works = works("walk");
    for (version, operation, what) in [
        (3, "REMOVE", What::Leaves(Deed::Nothing)),
        (3, "RENAME", What::Leaves(Deed::KeepsNames)),
        (3, "WRITE", What::Does("data", Change::LastFlipped)),
        (4, "WRITE", What::Does("data", Change::LastFlipped)),
    ] {
        let lie = Lie { version, operation, what };
        let work = works.iter().find(|work| work.version == version).unwrap();
        // Files that are read again are found by that.
        let alone = (0..24).find(|skip| {
            let (report, told) = replayed(work, Some(Liar::new(lie).after(*skip)), &[], false);
            let walked = report.walked.as_ref().map_or(0, |walked| walked.differing);
            told == 1 && report.mismatched() == 0 && walked > 0
        });
        assert!(alone.is_some(), "{lie}");
    }
}

#[test]
fn what_two_runs_teach_is_let_be_in_the_third_and_the_rule_is_named() {
    let work = Work::of("rxe-v42", 4, "teach");
    let lie =
        Lie { version: 4, operation: "GETATTR", what: What::Says("obj_attributes.mode", Change::Flipped) };
    let [one, other] = [(); 2].map(|()| replayed(&work, Some(Liar::new(lie)), &[], false).0);
    assert_eq!((one.mismatched(), other.mismatched()), (1, 1));
    let text = learn("rxe-v42.trace", "the loopback transport", &[&one, &other]);
    let rules = file::read(&text).unwrap();
    let third = replayed(&work, Some(Liar::new(lie)), &rules, false).0;
    assert_eq!(third.mismatched(), 0, "{:#?}", third.mismatches);
    assert!(third.rules.contains_key("learnt-1"), "{text}");
}
