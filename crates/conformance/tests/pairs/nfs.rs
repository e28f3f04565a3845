//! Pairs of the rules in `rules/nfs.rs`.

use crate::callbacks::{open_backchannel, reverse};
use crate::exchange::{Compound, Exchange, Operation, STATEID, rpc_call, rpc_reply};
use crate::scene::Scene;
use crate::{BOTH, Pair};

/// NFS4ERR_NOENT.
const NOENT: u32 = 2;
/// NFS4ERR_NOTSUPP.
const NOTSUPP: u32 = 10004;

/// LOOKUP of "file". RFC 7530 section 16.13.
fn lookup() -> Operation {
    Operation::new(15, &[4, 0x6669_6c65], &[])
}

/// READ of 8 bytes in all. RFC 7530 section 16.23.
fn read(count: u32) -> Operation {
    let arguments = [&STATEID[..], &[0, 0, count]].concat();
    Operation::new(25, &arguments, &[0, 8, 1, 2])
}

/// WRITE of 8 bytes with FILE_SYNC4. RFC 7530 section 16.36.
fn write(count: u32, committed: u32) -> Operation {
    let arguments = [&STATEID[..], &[0, 0, 2, 8, 1, 2]].concat();
    Operation::new(38, &arguments, &[count, committed, 7, 7])
}

/// Sends a COMPOUND of minor version 2 with this operation.
fn in_session(scene: &mut Scene, operation: Operation) {
    scene.compound(&Compound::new(2, &[Operation::sequence(0, 1), Operation::putrootfh(), operation]));
}

pub(crate) const PAIRS: &[Pair] = &[
    Pair {
        rule: "nfs/compound-status",
        kinds: BOTH,
        conversation: |scene, broken| {
            let operations = [Operation::putrootfh(), lookup().failed(NOENT)];
            let mut compound = Compound::new(0, &operations);
            compound.status = broken.then_some(5);
            scene.compound(&compound);
        },
    },
    Pair {
        rule: "nfs/result-after-failure",
        kinds: BOTH,
        conversation: |scene, broken| {
            let next = Operation::access(1);
            let next = if broken { next } else { next.not_reached() };
            let operations = [Operation::putrootfh(), lookup().failed(NOENT), next];
            scene.compound(&Compound::new(0, &operations));
        },
    },
    Pair {
        rule: "nfs/result-count",
        kinds: BOTH,
        conversation: |scene, broken| {
            let two = [Operation::putrootfh(), Operation::access(1)];
            let xid = scene.xid();
            let mut exchange = Compound::new(0, &two).exchange(xid);
            if broken {
                exchange.call = Compound::new(0, &two[..1]).exchange(xid).call;
            }
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "nfs/result-operation",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut operations = [Operation::putrootfh(), lookup()];
            if broken {
                // PUTPUBFH, with the same result.
                operations[0].result_number = 23;
            }
            scene.compound(&Compound::new(0, &operations));
        },
    },
    Pair {
        rule: "nfs/tag",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut compound = Compound::new(0, &[Operation::putrootfh()]);
            if broken {
                compound.reply_tag = b"other".to_vec();
            }
            scene.compound(&compound);
        },
    },
    Pair {
        rule: "nfs/unrequested-attrs",
        kinds: BOTH,
        conversation: |scene, broken| {
            // GETATTR of the type, answered with the type, and the size of 8 bytes. RFC 8881 section 18.7.
            let result: &[u32] = if broken { &[1, 0x12, 12, 1, 0, 8] } else { &[1, 2, 4, 1] };
            let getattr = Operation::new(9, &[1, 2], result);
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), getattr]));
        },
    },
    Pair {
        rule: "nfs/unrequested-attrs",
        kinds: BOTH,
        conversation: |scene, broken| {
            // READDIR without attributes: the second of two entries has a type. RFC 8881 section 18.23.
            let arguments = [0, 0, 0, 0, 512, 4096, u32::from(!broken), 2];
            let arguments = if broken { &arguments[..7] } else { &arguments };
            let entry = |cookie, attributes: &[u32]| [&[1, 0, cookie, 1, 0x6100_0000], attributes].concat();
            let result = [&[7, 7][..], &entry(3, &[0, 0]), &entry(4, &[1, 2, 4, 1]), &[0, 1]].concat();
            let readdir = Operation::new(26, arguments, &result);
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), readdir]));
        },
    },
    Pair {
        rule: "nfs/unrequested-attrs",
        kinds: BOTH,
        conversation: |scene, broken| {
            // CB_GETATTR of the change attribute, answered with the size. RFC 8881 section 20.1.
            open_backchannel(scene);
            let mask = if broken { 0x10 } else { 8 };
            let getattr = Operation::new(3, &[4, 7, 1, 8], &[1, mask, 8, 0, 9]);
            let compound = Compound::new(1, &[Operation::cb_sequence(0, 1), getattr]);
            let xid = scene.xid();
            reverse(scene, &compound.callback(xid));
        },
    },
    Pair {
        rule: "nfs/reserved-op",
        kinds: BOTH,
        conversation: |scene, broken| {
            // RENEW, which minor version 1 does not have.
            let renew = Operation::new(30, &[0, 0xc1], &[]);
            let renew = if broken { renew } else { renew.failed(NOTSUPP) };
            scene.compound(&Compound::new(1, &[Operation::sequence(0, 1), renew]));
        },
    },
    Pair {
        rule: "nfs/read-count",
        kinds: BOTH,
        conversation: |scene, broken| {
            let count = if broken { 7 } else { 8 };
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), read(count)]));
        },
    },
    Pair {
        rule: "nfs/read-count",
        kinds: BOTH,
        conversation: |scene, broken| {
            // NFSv2: 8 bytes of data behind 17 words of attributes. RFC 1094 section 2.2.7.
            let xid = scene.xid();
            let (mut call, mut reply) = (rpc_call(xid, 100_003, 2, 6), rpc_reply(xid));
            call.words(&[7; 8]).words(&[0, if broken { 7 } else { 8 }, 0]);
            reply.words(&[0]).words(&[1; 17]).words(&[8, 1, 2]);
            scene.exchange(&Exchange::new(xid, call, reply));
        },
    },
    Pair {
        rule: "nfs/write-count",
        kinds: BOTH,
        conversation: |scene, broken| {
            let count = if broken { 9 } else { 8 };
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), write(count, 2)]));
        },
    },
    Pair {
        rule: "nfs/write-committed",
        kinds: BOTH,
        conversation: |scene, broken| {
            let committed = if broken { 1 } else { 2 };
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), write(8, committed)]));
        },
    },
    Pair {
        rule: "nfs/write-committed",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut exchange = Exchange::write3(scene.xid(), 4096);
            // The word before the verifier.
            let at = exchange.reply.rpc.len() - 9;
            exchange.reply.rpc[at] = if broken { 0 } else { 2 };
            scene.exchange(&exchange);
        },
    },
    Pair {
        rule: "nfs/read-plus",
        kinds: BOTH,
        conversation: |scene, broken| {
            let arguments = [&STATEID[..], &[0, 4096, 2048]].concat();
            // No end of file, two contents: a hole from before the offset on, and 4 bytes of data.
            let data_offset = if broken { 5000 } else { 4608 };
            let result = [0, 2, 1, 0, 0, 0, 4608, 0, 0, data_offset, 4, 7];
            let read_plus = Operation::new(68, &arguments, &result);
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 1), Operation::putrootfh(), read_plus]));
        },
    },
    Pair {
        rule: "nfs/read-plus",
        kinds: BOTH,
        conversation: |scene, broken| {
            // The second READ_PLUS of a COMPOUND.
            let arguments = [&STATEID[..], &[0, 4096, 2048]].concat();
            let read_plus = |data_offset| {
                let result = [0, 2, 1, 0, 0, 0, 4608, 0, 0, data_offset, 4, 7];
                Operation::new(68, &arguments, &result)
            };
            let second = if broken { 5000 } else { 4608 };
            let operations = [Operation::sequence(0, 1), Operation::putrootfh(), read_plus(4608), read_plus(second)];
            scene.compound(&Compound::new(2, &operations));
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // COPY of 100 bytes, synchronous. RFC 7862 section 15.2.
            let arguments = [&STATEID[..], &STATEID, &[0, 0, 0, 0, 0, 100, 1, 1, 0]].concat();
            let operation = Operation::new(60, &arguments, &[0, 0, if broken { 5000 } else { 100 }, 2, 7, 7, 1, 1]);
            in_session(scene, operation);
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // SEEK for data from 1000. RFC 7862 section 15.11.
            let arguments = [&STATEID[..], &[0, 1000, 0]].concat();
            let operation = Operation::new(69, &arguments, &[0, 0, if broken { 999 } else { 1000 }]);
            in_session(scene, operation);
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // READ_PLUS of 4 bytes. RFC 7862 section 15.10.
            let arguments = [&STATEID[..], &[0, 4096, if broken { 3 } else { 4 }]].concat();
            let operation = Operation::new(68, &arguments, &[0, 1, 0, 0, 4096, 4, 7]);
            in_session(scene, operation);
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // TEST_STATEID of two stateids. RFC 8881 section 18.48.
            let arguments = [&[2][..], &STATEID, &STATEID].concat();
            let statuses: &[u32] = if broken { &[3, 0, 0, 0] } else { &[2, 0, 0] };
            let operation = Operation::new(55, &arguments, statuses);
            in_session(scene, operation);
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // LOCK of 10 bytes, denied by the lock of another owner. RFC 8881 section 18.10.
            let arguments = [&[2, 0, 0, 0, 0, 10, 0][..], &STATEID, &[1]].concat();
            let mut operation = Operation::new(12, &arguments, &[]);
            operation.result = Some((10010, vec![0, if broken { 10 } else { 9 }, 0, 10, 2, 0, 7, 4, 8]));
            in_session(scene, operation);
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            // LOCKT of the last byte of all, in NFSv4.0, denied by the lock of the same byte. RFC 7530 section 16.11.
            let last = if broken { u32::MAX - 1 } else { u32::MAX };
            let arguments = [2, u32::MAX, u32::MAX, 0, 1, 0, 7, 4, 9];
            let mut operation = Operation::new(13, &arguments, &[]);
            operation.result = Some((10010, vec![u32::MAX, last, 0, 1, 2, 0, 7, 4, 8]));
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), operation]));
        },
    },
    Pair {
        rule: "nfs/result-arguments",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut bind = Operation::bind_conn_to_session();
            if broken && let Some((_, result)) = &mut bind.result {
                result[0] ^= 1;
            }
            scene.compound(&Compound::new(2, &[bind]));
        },
    },
    Pair {
        rule: "nfs/copy-stateid",
        kinds: BOTH,
        conversation: |scene, broken| {
            let mut stateid = STATEID;
            stateid[0] = u32::from(!broken);
            let status = Operation::new(67, &stateid, &[0, 0, 0]);
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 1), Operation::putrootfh(), status]));
        },
    },
    Pair {
        rule: "nfs/copy-stateid",
        kinds: BOTH,
        conversation: |scene, broken| {
            // The stateid that COPY returns. RFC 7862 section 15.2.
            let mut returned = STATEID;
            returned[0] = u32::from(!broken);
            let arguments = [&STATEID[..], &STATEID, &[0, 0, 0, 0, 0, 8, 1, 0, 0]].concat();
            let copy = Operation::new(60, &arguments, &[&[1][..], &returned, &[0, 0, 0, 7, 7, 1, 0]].concat());
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 1), Operation::putrootfh(), copy]));
        },
    },
    Pair {
        rule: "nfs/offload",
        kinds: BOTH,
        conversation: |scene, broken| {
            scene.session();
            // COPY of 8 bytes between two files, asynchronous. RFC 7862 section 15.2.
            let arguments = [&STATEID[..], &STATEID, &[0, 0, 0, 0, 0, 8, 1, 0, 0]].concat();
            let result = [&[1][..], &STATEID, &[0, 0, 0, 7, 7, 1, 0]].concat();
            let copy = Operation::new(60, &arguments, &result);
            let root = Operation::putrootfh();
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 2), root.clone(), copy]));
            // OFFLOAD_STATUS: under way, or complete.
            let complete: &[u32] = if broken { &[0, 0, 0] } else { &[0, 8, 1, 0] };
            let status = Operation::new(67, &STATEID, complete);
            scene.compound(&Compound::new(2, &[Operation::sequence(0, 3), root, status]));
            scene.compound(&Compound::new(2, &[Operation::destroy_session()]));
        },
    },
    Pair {
        rule: "nfs/acl-with-nonidempotent",
        kinds: BOTH,
        conversation: |scene, broken| {
            // REMOVE of "file", then GETATTR of acl or type. RFC 7530 sections 16.26 and 16.7.
            let remove = Operation::new(28, &[4, 0x6669_6c65], &[1, 0, 1, 0, 2]);
            let (mask, values) = if broken { (1 << 12, [4, 0]) } else { (1 << 1, [4, 2]) };
            let attributes = [&[1, mask][..], &values].concat();
            let getattr = Operation::new(9, &[1, mask], &attributes);
            scene.compound(&Compound::new(0, &[Operation::putrootfh(), remove, getattr]));
        },
    },
    Pair {
        rule: "nfs/aux-over-rdma",
        kinds: BOTH,
        conversation: |scene, broken| {
            // The NULL procedure of MOUNT version 3, or of NFS.
            let (xid, program) = (scene.xid(), if broken { 100_005 } else { 100_003 });
            scene.exchange(&Exchange::new(xid, rpc_call(xid, program, 3, 0), rpc_reply(xid)));
        },
    },
];
