//! Arguments and results of each procedure, encoded by hand from RFC 1094 appendix A and RFC 1813 section 5.

use super::*;
use crate::nfs::example_messages::{items, lay_out};
use crate::nfs::{Procedure, ProcedureStatus, StatusUnion};
use crate::xdr::{Cursor, Opaque, Text, Void};

const FH: crate::nfs::v2::Fhandle = *b"a filehandle is 32 bytes always.";

fn path() -> DirpathArgs<'static> {
    DirpathArgs { dirpath: Text(b"/export") }
}

/// Returns a mountlist of two entries, encoded and decoded.
fn mountlist() -> (Vec<u8>, Mountlist<'static>) {
    let body = |host, path| Mountbody { ml_hostname: Text(host), ml_directory: Text(path) };
    let mountlist = items([body(b"client", b"/export"), body(b"10.9.0.3", b"/tiny")]);
    (lay_out![1, "client", "/export", 1, "10.9.0.3", "/tiny", 0], Mountlist { mountlist })
}

/// Returns exports of two file systems, the first to two groups and the second to everybody, encoded and decoded.
fn exports() -> (Vec<u8>, MountExports<'static>) {
    let groups = items([Groupnode { gr_name: Text(b"@staff") }, Groupnode { gr_name: Text(b"10.9.0.0/16") }]);
    let nodes = items([
        Exportnode { ex_dir: Text(b"/export"), ex_groups: groups },
        Exportnode { ex_dir: Text(b"/"), ex_groups: items([]) },
    ]);
    (lay_out![1, "/export", 1, "@staff", 1, "10.9.0.0/16", 0, 1, "/", 0, 0], MountExports { exports: nodes })
}

/// Calls and replies common to all versions.
macro_rules! of_every_version {
    (calls) => {
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out!["/export"], Args::MNT(path())),
            (lay_out![], Args::DUMP(Void)),
            (lay_out!["/export"], Args::UMNT(path())),
            (lay_out![], Args::UMNTALL(Void)),
            (lay_out![], Args::EXPORT(Void)),
        ]
    };
    (replies) => {
        vec![
            (lay_out![], Results::NULL(Void)),
            (mountlist().0, Results::DUMP(mountlist().1)),
            (lay_out![0], Results::DUMP(Mountlist { mountlist: items([]) })),
            (lay_out![], Results::UMNT(Void)),
            (lay_out![], Results::UMNTALL(Void)),
            (exports().0, Results::EXPORT(exports().1)),
        ]
    };
}

/// Additional calls and replies of versions 1 and 2.
macro_rules! of_nfsv2 {
    (calls) => {
        [of_every_version!(calls), vec![(lay_out![], Args::EXPORTALL(Void))]].concat()
    };
    (replies) => {
        [
            of_every_version!(replies),
            vec![
                (lay_out![0, FH], Results::MNT(StatusUnion::Ok(FhstatusDirectory { directory: FH }))),
                (lay_out![13], Results::MNT(StatusUnion::Fail(FhstatusCode::EACCES, Void))),
                (exports().0, Results::EXPORTALL(exports().1)),
            ],
        ]
        .concat()
    };
}

pub(in crate::nfs) mod version_1 {
    use super::*;

    crate::nfs::example_messages::examples! { crate::nfs::mount::v1: of_nfsv2!(calls), of_nfsv2!(replies) }
}

pub(in crate::nfs) mod version_2 {
    use super::*;

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        [of_nfsv2!(calls), vec![(lay_out!["/export"], Args::PATHCONF(path()))]].concat()
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let pathconf = Ppathcnf {
            pc_link_max: 32_000,
            pc_max_canon: 255,
            pc_max_input: 254,
            pc_name_max: 253,
            pc_path_max: 1023,
            pc_pipe_buf: 4096,
            pc_vdisable: 0,
            pc_xxx: 0,
            pc_mask: [PcMask(PcMask::PC_CHOWN_RESTRICTED.0 | PcMask::PC_NO_TRUNC.0), PcMask(0)],
        };
        let bytes = lay_out![32_000, 255, 254, 253, 1023, 4096, 0, 0, 0x180, 0];
        [of_nfsv2!(replies), vec![(bytes, Results::PATHCONF(pathconf))]].concat()
    }

    crate::nfs::example_messages::examples! { crate::nfs::mount::v2: calls(), replies() }
}

pub(in crate::nfs) mod version_3 {
    use super::*;

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let auth_flavors = items([MountAuthFlavor::AUTH_SYS, MountAuthFlavor::RPCSEC_GSS_KRB5P]);
        let ok = Mountres3Ok { fhandle: Opaque(b"handle7"), auth_flavors };
        let mnt = vec![
            (lay_out![0, "handle7", 2, 1, 390_005], Results::MNT(StatusUnion::Ok(ok))),
            (lay_out![10_006], Results::MNT(StatusUnion::Fail(Mountstat3::MNT3ERR_SERVERFAULT, Void))),
        ];
        [of_every_version!(replies), mnt].concat()
    }

    crate::nfs::example_messages::examples! { crate::nfs::mount::v3: of_every_version!(calls), replies() }
}

#[test]
fn rfc1813_section_5_2_1_only_mnt_has_a_status() {
    let bytes = [0, 0, 0, 13];
    for procedure in v3::Procedure::ALL {
        let expected = ProcedureStatus { number: 13, name: Some("MNT3ERR_ACCES"), is_ok: false };
        let has_status = *procedure == v3::Procedure::MNT;
        let status = Procedure::Mount3(*procedure).status(Cursor::new(&bytes));
        assert_eq!(status, Ok(has_status.then_some(expected)), "{procedure}");
    }
    let mnt = Procedure::Mount1(v1::Procedure::MNT);
    let status = mnt.status(Cursor::new(&[0; 4])).unwrap().unwrap();
    assert_eq!((status.name, status.is_ok), (Some("MNT_OK"), true));
    assert!(mnt.status(Cursor::new(&[0; 3])).is_err());
}
