//! Comparison of the tables and their examples with the specifications, and messages of real peers.

use std::ops::Range;

use super::example_messages::ProcedureTestMessages;
use super::{Procedure, mount, nfsacl, nlm, nsm, procedure_name, rpcbind, rquota, v2};
use crate::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use crate::rpc::{self, Program, RpcMessageKind};
use crate::xdr::{Cursor, Encoder, Xdr};

/// Procedures of NLM up to 15, common to all versions, and the callback of NSM.
const NLM: &str = "NULL TEST LOCK CANCEL UNLOCK GRANTED TEST_MSG LOCK_MSG CANCEL_MSG UNLOCK_MSG GRANTED_MSG \
                   TEST_RES LOCK_RES CANCEL_RES UNLOCK_RES GRANTED_RES NSM_NOTIFY";
/// Procedures of NLM versions 3 and 4, which do not define 17 to 19.
const NLM_OF_DOS: &str = "- - - SHARE UNSHARE NM_LOCK FREE_ALL";

/// A program, its version, the names of its procedures from 0, and the examples.
type Listed = (Program, u32, String, ProcedureTestMessages);

/// Returns the procedures listed in RFC 1094, RFC 1813, RFC 1833, XNFS and the XDR files of the other programs.
fn listed() -> Vec<Listed> {
    let mount = "NULL MNT DUMP UMNT UMNTALL EXPORT";
    let nlm = format!("{NLM} {NLM_OF_DOS}");
    let rpcbind = "GETTIME UADDR2TADDR TADDR2UADDR";
    let rquota = "NULL GETQUOTA GETACTIVEQUOTA SETQUOTA SETACTIVEQUOTA";
    let nfs = "NULL GETATTR SETATTR ROOT LOOKUP READLINK READ WRITECACHE WRITE CREATE REMOVE RENAME LINK SYMLINK MKDIR \
               RMDIR READDIR STATFS";
    vec![
        (Program::NFS, 2, nfs.into(), v2::tests::table::examples()),
        (Program::MOUNT, 1, format!("{mount} EXPORTALL"), mount::tests::version_1::examples()),
        (Program::MOUNT, 2, format!("{mount} EXPORTALL PATHCONF"), mount::tests::version_2::examples()),
        (Program::MOUNT, 3, mount.into(), mount::tests::version_3::examples()),
        (Program::NLM, 1, NLM.into(), nlm::tests::version_1::examples()),
        (Program::NLM, 3, nlm.clone(), nlm::tests::version_3::examples()),
        (Program::NLM, 4, nlm, nlm::tests::version_4::examples()),
        (Program::NSM, 1, "NULL STAT MON UNMON UNMON_ALL SIMU_CRASH NOTIFY".into(), nsm::tests::table::examples()),
        (
            Program::NFSACL,
            2,
            "NULL GETACL SETACL GETATTR ACCESS GETXATTRDIR".into(),
            nfsacl::tests::version_2::examples(),
        ),
        (Program::NFSACL, 3, "NULL GETACL SETACL GETXATTRDIR".into(), nfsacl::tests::version_3::examples()),
        (Program::RQUOTA, 1, rquota.into(), rquota::tests::version_1::examples()),
        (Program::RQUOTA, 2, rquota.into(), rquota::tests::version_2::examples()),
        (Program::PORTMAP, 2, "NULL SET UNSET GETPORT DUMP CALLIT".into(), rpcbind::tests::version_2::examples()),
        (
            Program::PORTMAP,
            3,
            format!("NULL SET UNSET GETADDR DUMP CALLIT {rpcbind}"),
            rpcbind::tests::version_3::examples(),
        ),
        (
            Program::PORTMAP,
            4,
            format!("NULL SET UNSET GETADDR DUMP BCAST {rpcbind} GETVERSADDR INDIRECT GETADDRLIST GETSTAT"),
            rpcbind::tests::version_4::examples(),
        ),
    ]
}

/// Observer that records values.
#[derive(Default)]
struct Told(Vec<String>);

impl<'a> FieldObserver<'a> for Told {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        let value = match value {
            FieldValue::Enum(_, Some(name)) => name.to_owned(),
            FieldValue::Enum(number, None) | FieldValue::Unsigned(number) => number.to_string(),
            FieldValue::Signed(number) => number.to_string(),
            FieldValue::Bool(value) => value.to_string(),
            FieldValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
            FieldValue::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            other => panic!("{other:?}"),
        };
        self.0.push(format!("{}={value}", field.name));
    }
}

#[test]
fn every_procedure_that_the_specifications_list_has_a_name_a_call_and_a_reply() {
    let programs: Vec<_> = listed().into_iter().map(|(program, version, ..)| (program, version)).collect();
    let tables = Procedure::PROGRAMS.iter().filter(|program| **program != (Program::NFS, 3));
    assert!(tables.eq(&programs), "NFSv3 has a test for each section; every other table is listed here");

    for (program, version, names, examples) in listed() {
        let names: Vec<_> = names.split_whitespace().collect();
        for number in 0..100 {
            let name = names.get(number as usize).copied().filter(|name| *name != "-");
            let procedure = Procedure::from_numbers(program, version, number);
            assert_eq!(procedure.map(Procedure::name), name, "{program} {version} {number}");
            assert_eq!(procedure_name(program, version, number), name);
            for list in [&examples.calls, &examples.replies] {
                let has = list.iter().any(|(of, _)| *of == number);
                assert_eq!(has, name.is_some(), "an example of {program} {version} {name:?}");
            }
        }
    }
}

#[test]
fn every_example_is_read_to_its_end_and_encodes_to_itself_by_the_numbers_of_its_program() {
    for (program, version, _, examples) in listed() {
        for (number, bytes) in &examples.calls {
            let procedure = Procedure::from_numbers(program, version, *number).unwrap();
            let (mut cursor, mut again, mut encoder) = (Cursor::new(bytes), Cursor::new(bytes), Encoder::new());
            procedure.arguments(&mut cursor, &mut NullFieldObserver).unwrap();
            procedure.reencode(RpcMessageKind::Call, &mut again, &mut encoder).unwrap();
            assert_eq!((cursor.remaining(), again.remaining(), encoder.bytes()), (0, 0, &bytes[..]));
        }
        for (number, bytes) in &examples.replies {
            let procedure = Procedure::from_numbers(program, version, *number).unwrap();
            let (mut cursor, mut again, mut encoder) = (Cursor::new(bytes), Cursor::new(bytes), Encoder::new());
            procedure.results(&mut cursor, &mut NullFieldObserver).unwrap();
            procedure.reencode(RpcMessageKind::Reply, &mut again, &mut encoder).unwrap();
            assert_eq!((cursor.remaining(), again.remaining(), encoder.bytes()), (0, 0, &bytes[..]));
            // The status of a result has a name.
            let status = procedure.status(Cursor::new(bytes)).unwrap();
            assert!(status.is_none_or(|status| status.name.is_some()), "{program} {version} {number}");
        }
    }
}

proptest::proptest! {
    #[test]
    fn reading_a_status_never_panics(bytes: Vec<u8>, length: u16) {
        for (program, version, _, examples) in listed() {
            for (number, _) in examples.calls {
                let procedure = Procedure::from_numbers(program, version, number).unwrap();
                let _ = procedure.status(Cursor::new(&bytes).with_length(length.into()));
            }
        }
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Decodes a Call and its Reply of real peers, sent over TCP, without record mark. Returns their procedure, arguments,
/// results and status. Asserts that each encodes to the same bytes.
#[track_caller]
fn exchange(call: &str, reply: &str) -> (String, String, String, Option<&'static str>) {
    let (call, reply) = (bytes_of(call), bytes_of(reply));
    let mut cursor = Cursor::new(&call);
    let message = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    let header = message.call().unwrap();
    let procedure = Procedure::from_numbers(header.prog, header.vers, header.proc).unwrap();
    let about = format!("{} {} {}", header.prog, header.vers, procedure.name());
    let (mut arguments, mut encoder) = (Told::default(), Encoder::new());
    message.encode(&mut encoder);
    procedure.reencode(RpcMessageKind::Call, &mut { cursor }, &mut encoder).unwrap();
    procedure.arguments(&mut cursor, &mut arguments).unwrap();
    assert_eq!((cursor.remaining(), encoder.bytes()), (0, &call[..]));

    let mut cursor = Cursor::new(&reply);
    let answer = rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
    assert_eq!(answer.xid, message.xid);
    let (mut results, mut encoder) = (Told::default(), Encoder::new());
    answer.encode(&mut encoder);
    procedure.reencode(RpcMessageKind::Reply, &mut { cursor }, &mut encoder).unwrap();
    let status = procedure.status(cursor).unwrap();
    procedure.results(&mut cursor, &mut results).unwrap();
    assert_eq!((cursor.remaining(), encoder.bytes()), (0, &reply[..]));
    (about, arguments.0.join(" "), results.0.join(" "), status.and_then(|status| status.name))
}

/// A Call header of the Linux client, with AUTH_SYS: `client`, root.
macro_rules! call {
    ($xid:literal, $program:literal, $arguments:literal) => {
        concat!(
            $xid,
            "0000000000000002",
            $program,
            "000000010000001c0000000000000006636c69656e7400000000000000000000000000000000000000000000",
            $arguments
        )
    };
}

macro_rules! reply {
    ($xid:literal, $results:literal) => {
        concat!($xid, "0000000100000000000000000000000000000000", $results)
    };
}

#[test]
fn the_linux_client_asks_for_the_port_of_mount() {
    // Frames 6 and 8 of rxe-v3.pcap.
    let (about, arguments, results, status) = exchange(
        call!("d9460dbe", "000186a00000000200000003", "000186a5000000030000000600000000"),
        reply!("d9460dbe", "00009bcb"),
    );
    assert_eq!(about, "PORTMAP 2 GETPORT");
    assert_eq!(arguments, "portmap.prog=MOUNT portmap.version=3 portmap.proto=IPPROTO_TCP portmap.port=0");
    assert_eq!((results.as_str(), status), ("portmap.port=39883", None));
}

#[test]
fn the_linux_client_mounts() {
    // Frames 20 and 21 of rxe-v3.pcap.
    let (about, arguments, results, status) = exchange(
        call!("dc5a0b87", "000186a50000000300000001", "000000072f6578706f727400"),
        reply!("dc5a0b87", "000000000000000801000100000000000000000100000001"),
    );
    assert_eq!((about.as_str(), arguments.as_str()), ("MOUNT 3 MNT", "mount.path=/export"));
    assert_eq!(results, "mount.status=MNT3_OK nfs.fhandle=0100010000000000 mount.flavor=AUTH_SYS");
    assert_eq!(status, Some("MNT3_OK"));
}

#[test]
fn the_linux_client_locks_and_unlocks() {
    // Frames 1109 and 1111 of tcp-v3.pcap, the NFSv3 workload over TCP, in the grace period of the server.
    let (about, arguments, results, status) = exchange(
        call!(
            "2f9a1ff3",
            "000186b50000000400000002",
            "0000000435120000000000010000000100000006636c69656e74000000000014010001810000000085000000000000007b176e1a\
             000000083040636c69656e74000000000000000000000000000000000000000a0000000000000003"
        ),
        reply!("2f9a1ff3", "000000043512000000000004"),
    );
    assert_eq!(about, "NLM 4 LOCK");
    assert_eq!(
        arguments,
        "nlm.cookie=35120000 nlm.block=true nlm.exclusive=true nlm.lock.caller_name=client \
         nfs.fhandle=010001810000000085000000000000007b176e1a nlm.lock.owner=3040636c69656e74 nlm.lock.svid=0 \
         nlm.lock.l_offset64=0 nlm.lock.l_len64=10 nlm.reclaim=false nlm.state=3"
    );
    assert_eq!(results, "nlm.cookie=35120000 nlm.stat=NLM4_DENIED_GRACE_PERIOD");
    assert_eq!(status, Some("NLM4_DENIED_GRACE_PERIOD"));

    // Frames 1126 and 1127.
    let (about, _, results, status) = exchange(
        call!(
            "329a1ff3",
            "000186b50000000400000004",
            "000000043b12000000000006636c69656e74000000000014010001810000000085000000000000007b176e1a\
             000000083040636c69656e74000000000000000000000000000000000000000a"
        ),
        reply!("329a1ff3", "000000043b12000000000000"),
    );
    assert_eq!(about, "NLM 4 UNLOCK");
    assert_eq!((results.as_str(), status), ("nlm.cookie=3b120000 nlm.stat=NLM4_GRANTED", Some("NLM4_GRANTED")));
}
