//! Arguments and results of each procedure, encoded by hand from the XDR of the program.

use super::*;
use crate::nfs::example_messages::lay_out;
use crate::nfs::{Procedure, ProcedureStatus, StatusUnion};
use crate::xdr::{Cursor, Text, Void};

const PATH: Pathp<'static> = Text(b"/export");
const RQUOTA: Rquota = Rquota {
    rq_bsize: 1024,
    rq_active: true,
    rq_bhardlimit: 1,
    rq_bsoftlimit: 2,
    rq_curblocks: 3,
    rq_fhardlimit: 4,
    rq_fsoftlimit: 5,
    rq_curfiles: 6,
    rq_btimeleft: 7,
    rq_ftimeleft: 8,
};
const DQBLK: SqDqblk = SqDqblk {
    rq_bhardlimit: 1,
    rq_bsoftlimit: 2,
    rq_curblocks: 3,
    rq_fhardlimit: 4,
    rq_fsoftlimit: 5,
    rq_curfiles: 6,
    rq_btimeleft: 7,
    rq_ftimeleft: 8,
};

fn limits() -> Vec<u8> {
    lay_out![1, 2, 3, 4, 5, 6, 7, 8]
}

/// The replies, which are identical in both versions.
macro_rules! replies {
    () => {{
        let quota = lay_out![1, 1024, 1, limits()];
        vec![
            (lay_out![], Results::NULL(Void)),
            (quota.clone(), Results::GETQUOTA(StatusUnion::Ok(GetquotaOk { gqr_rquota: RQUOTA }))),
            (lay_out![2], Results::GETQUOTA(StatusUnion::Fail(GqrStatus::Q_NOQUOTA, Void))),
            (quota.clone(), Results::GETACTIVEQUOTA(StatusUnion::Ok(GetquotaOk { gqr_rquota: RQUOTA }))),
            (quota, Results::SETQUOTA(StatusUnion::Ok(SetquotaOk { sqr_rquota: RQUOTA }))),
            (lay_out![3], Results::SETACTIVEQUOTA(StatusUnion::Fail(GqrStatus::Q_EPERM, Void))),
        ]
    }};
}

pub(in crate::nfs) mod version_1 {
    use super::*;
    use crate::nfs::rquota::v1::{GetquotaArgs, SetquotaArgs};

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let get = || GetquotaArgs { gqa_pathp: PATH, gqa_uid: 1000 };
        let set = || SetquotaArgs { sqa_qcmd: 9, sqa_pathp: PATH, sqa_id: 1000, sqa_dqblk: DQBLK };
        let set_bytes = lay_out![9, "/export", 1000, limits()];
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out!["/export", 1000], Args::GETQUOTA(get())),
            (lay_out!["/export", 1000], Args::GETACTIVEQUOTA(get())),
            (set_bytes.clone(), Args::SETQUOTA(set())),
            (set_bytes, Args::SETACTIVEQUOTA(set())),
        ]
    }

    crate::nfs::example_messages::examples! { crate::nfs::rquota::v1: calls(), replies!() }
}

pub(in crate::nfs) mod version_2 {
    use super::*;
    use crate::nfs::rquota::v2::{ExtGetquotaArgs, ExtSetquotaArgs, QuotaType};

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let group = QuotaType::RQUOTA_GRPQUOTA;
        let get = || ExtGetquotaArgs { gqa_pathp: PATH, gqa_type: group, gqa_id: 100 };
        let set = || ExtSetquotaArgs { sqa_qcmd: 9, sqa_pathp: PATH, sqa_id: 100, sqa_type: group, sqa_dqblk: DQBLK };
        let set_bytes = lay_out![9, "/export", 100, 1, limits()];
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out!["/export", 1, 100], Args::GETQUOTA(get())),
            (lay_out!["/export", 1, 100], Args::GETACTIVEQUOTA(get())),
            (set_bytes.clone(), Args::SETQUOTA(set())),
            (set_bytes, Args::SETACTIVEQUOTA(set())),
        ]
    }

    crate::nfs::example_messages::examples! { crate::nfs::rquota::v2: calls(), replies!() }
}

#[test]
fn status_1_is_success_of_getquota() {
    let getquota = Procedure::Rquota1(v1::Procedure::GETQUOTA);
    let status = |word: u8| getquota.status(Cursor::new(&[0, 0, 0, word])).unwrap();
    assert_eq!(status(1), Some(ProcedureStatus { number: 1, name: Some("Q_OK"), is_ok: true }));
    assert_eq!(status(2), Some(ProcedureStatus { number: 2, name: Some("Q_NOQUOTA"), is_ok: false }));
    assert_eq!(status(0), Some(ProcedureStatus { number: 0, name: None, is_ok: false }));
    assert_eq!(Procedure::Rquota2(v2::Procedure::NULL).status(Cursor::new(&[])), Ok(None));
}
