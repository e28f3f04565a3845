//! Arguments and results of each procedure, encoded by hand from XNFS version 3W chapter 11.

use super::*;
use crate::nfs;
use crate::nfs::example_messages::lay_out;
use crate::xdr::Cursor;

const PRIV: [u8; 16] = *b"sixteen of these";

fn my_id() -> MyId<'static> {
    MyId { my_name: Text(b"client"), my_prog: Program::NLM, my_vers: 4, my_proc: 16 }
}

fn mon_id() -> MonId<'static> {
    MonId { mon_name: Text(b"server"), my_id: my_id() }
}

fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
    let who = lay_out!["client", 100_021, 4, 16];
    vec![
        (lay_out![], Args::NULL(Void)),
        (lay_out!["server"], Args::STAT(SmName { mon_name: Text(b"server") })),
        (lay_out!["server", who.clone(), PRIV], Args::MON(Mon { mon_id: mon_id(), r#priv: PRIV })),
        (lay_out!["server", who.clone()], Args::UNMON(mon_id())),
        (who, Args::UNMON_ALL(my_id())),
        (lay_out![], Args::SIMU_CRASH(Void)),
        (lay_out!["server", 9], Args::NOTIFY(StatChge { mon_name: Text(b"server"), state: 9 })),
    ]
}

fn replies() -> Vec<(Vec<u8>, Results)> {
    vec![
        (lay_out![], Results::NULL(Void)),
        (lay_out![0, 7], Results::STAT(SmStatRes { res_stat: SmRes::STAT_SUCC, state: 7 })),
        (lay_out![1, -1], Results::MON(SmStatRes { res_stat: SmRes::STAT_FAIL, state: -1 })),
        (lay_out![7], Results::UNMON(SmStat { state: 7 })),
        (lay_out![7], Results::UNMON_ALL(SmStat { state: 7 })),
        (lay_out![], Results::SIMU_CRASH(Void)),
        (lay_out![], Results::NOTIFY(Void)),
    ]
}

pub(in crate::nfs) mod table {
    use super::{calls, replies};

    crate::nfs::example_messages::examples! { crate::nfs::nsm: calls(), replies() }
}

#[test]
fn xnfs_section_11_a_state_is_no_status() {
    let bytes = lay_out![1, 7];
    let status = |procedure| nfs::Procedure::Nsm(procedure).status(Cursor::new(&bytes)).unwrap();
    let name = |procedure| status(procedure).and_then(|status| status.name);
    assert_eq!([Procedure::STAT, Procedure::MON].map(name), [Some("STAT_FAIL"); 2]);
    assert_eq!([Procedure::UNMON, Procedure::UNMON_ALL, Procedure::NOTIFY].map(name), [None; 3]);
}
