//! Display filters select the same frames as in tshark, from the manual page wireshark-filter(4) and the display filter
//! reference of NFS, RPC, TCP and InfiniBand. `DIFFERENCES` explains the errors of tshark, and each frame that only one
//! of them selects must be explained by one of them. The test is skipped, with a message, if tshark is not installed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::thread;

use crate::captures;
use crate::program::{self, Transaction, frames};
use crate::skipped::skip_without;
use crate::tshark;

/// Filter, and captures of which it must match at least one.
type Row = (&'static str, &'static [&'static str]);

const NFS4: &[&str] = &["rxe-v42"];
const NFS3: &[&str] = &["rxe-v3"];
const CALLBACKS: &[&str] = &["rxe-v42-deleg"];
const SIW: &[&str] = &["siw-v42"];
const TCP4: &[&str] = &["tcp-v42"];
const V40: &[&str] = &["rxe-v40"];
const KRB5: &[&str] = &["rxe-v42-krb5"];
const TCP3: &[&str] = &["tcp-v3"];
const IPV6: &[&str] = &["rxe-v42-ip6"];
const SIW_MID: &[&str] = &["siw-v42-mid"];

const FILTERS: &[Row] = &[
    // TCP streams, and relative sequence numbers.
    ("tcp.stream == 1 or tcp.stream in {3..5}", NFS3),
    ("tcp.seq == 1 and tcp.len > 0", NFS3),
    ("tcp.seq > 10000 and tcp.ack < 100000", TCP3),
    ("tcp.stream == 0 and tcp.ack == 1", SIW),
    ("tcp.seq == 0 or tcp.ack == 0", TCP4),
    // Other transports and versions.
    ("nfs.opcode == 25", SIW),
    ("rpcordma.msg_type == 0 and rpc.msgtyp == 1", SIW),
    ("tcp.port == 20049 and tcp.len > 1000", SIW),
    ("iwarp_mpa.req or iwarp_mpa.rep", SIW),
    ("nfs.opcode in {4, 18}", TCP4),
    ("rpc.xid and tcp.flags.push == 1", TCP4),
    ("nfs.nfsstat4 !== 0", V40),
    ("nfs.opcode == 35 or nfs.opcode == 36", V40),
    ("rpc.auth.flavor == 6 and nfs.opcode == 9", KRB5),
    ("rpc.authgss.seqnum > 100 and rpc.authgss.seqnum < 120", KRB5),
    // Presence of protocols and fields.
    ("tcp", NFS3),
    ("infiniband", NFS3),
    ("rpcordma", NFS4),
    ("rpc", NFS4),
    ("nfs", NFS4),
    ("rpc and not nfs", NFS3),
    ("not ip", NFS4),
    ("infiniband.reth", NFS4),
    ("infiniband.aeth", NFS4),
    ("infiniband.ieth", NFS4),
    ("infiniband.mad", NFS4),
    ("infiniband.cm.req", NFS4),
    // Comparison in both forms, of several values.
    ("ip.addr == 10.9.0.1", NFS4),
    ("ip.addr eq 10.9.0.0/16", NFS4),
    ("ip.src == 10.9.0.2", NFS4),
    ("ip.dst ne 224.1.2.3", NFS4),
    ("not ip.dst eq 10.9.0.1", NFS4),
    ("ip.addr !== 10.9.0.1", NFS4),
    ("any ip.addr != 10.9.0.1", NFS4),
    ("ip.addr === 10.9.0.1 or not ip.addr", NFS4),
    ("ipv6.addr == fd09::2", IPV6),
    ("ipv6.addr == fd09::/16 and udp", IPV6),
    ("eth.dst eq ff:ff:ff:ff:ff:ff", NFS4),
    ("frame.len > 012", NFS4),
    ("frame.len > 0xff", NFS4),
    ("frame.len in {60..70, 1000..1200}", NFS4),
    ("frame.number in {5..8}", NFS4),
    ("frame.cap_len == frame.len", NFS4),
    ("udp.srcport > udp.dstport + 1", NFS4),
    ("ip.proto == 17 and udp.port == 4791", NFS4),
    ("(udp.port == 4791 or tcp.port == 111) and frame.len > 100", NFS3),
    ("tcp.port == 80 or tcp.port == 111", NFS3),
    ("tcp.port in {443, 100..200}", NFS3),
    ("all tcp.port > 500", NFS3),
    ("tcp.dstport == 111 and tcp.flags.syn == 1", NFS3),
    ("tcp.flags & 0x02", NFS3),
    ("tcp.flags.push == True", NFS3),
    ("tcp.window_size_value > 1000", NFS3),
    ("tcp.len > 0", NFS3),
    ("udp.length > 100", NFS4),
    // Slices, searches, functions, times.
    ("eth.src[0:3] == 52:54:00", NFS4),
    ("eth.src[1-2] == 54:00", NFS4),
    ("eth.src[:4] == 52:54:00:09", NFS4),
    ("eth.src[4:] == 00:02", NFS4),
    ("eth.src[-1] == 02", NFS4),
    ("eth.addr[0] & 0x0f == 2", NFS4),
    ("frame[100-199] contains \"s\"", NFS4),
    ("frame contains 0a:09:00", NFS4),
    ("frame matches \"BIG\"", NFS4),
    ("udp[4:2] > 00:40", NFS4),
    ("string(frame.number) matches \"[13579]$\"", NFS4),
    ("len(frame) > 200", NFS4),
    ("count(ip.addr) == 2", NFS4),
    ("max(udp.length) > 1000", NFS4),
    ("frame.time >= \"2020-07-04T12:34:56Z\" and frame.number < 9", NFS4),
    ("frame.time_relative > 1", NFS4),
    ("frame.time_delta in {0.001 .. 0.0015}", NFS4),
    ("frame.protocols contains \"rpcordma:rpc:nfs\"", NFS4),
    // InfiniBand and RPC-over-RDMA.
    ("infiniband.bth.opcode == 4", NFS4),
    ("infiniband.bth.opcode in {6..8}", NFS4),
    ("infiniband.bth.destqp == 0x000011", NFS4),
    ("infiniband.bth.destqp != 1", NFS4),
    ("infiniband.bth.psn > 4083400", NFS4),
    ("infiniband.bth.a == 1", NFS4),
    ("infiniband.reth.dmalen > 4096", NFS4),
    ("infiniband.aeth.syndrome == 0x1f", NFS4),
    ("infiniband.mad.attributeid == 0x0010", NFS4),
    ("rpcordma.msg_type == 1", NFS4),
    ("rpcordma.flow_control > 64", NFS4),
    ("rpcordma.rdma_length > 4096", NFS4),
    ("rpcordma.position > 0", NFS4),
    // RPC and NFS.
    ("rpc.xid == 0x868df27d", NFS4),
    ("rpc.msgtyp == 0", NFS4),
    ("rpc.msgtyp == 1", NFS4),
    ("rpc.programversion == 3", NFS3),
    ("rpc.auth.uid == 0", NFS4),
    ("rpc.time > 0.01", NFS4),
    ("rpc.time > 0.01 && rpc.time < 0.02 && rpc.program == 100003", NFS3),
    ("rpc.repframe < 100", NFS4),
    ("nfs.opcode == 25", NFS4),
    ("nfs.opcode in {25, 38}", NFS4),
    ("nfs.opcode == 53 and nfs.minorversion == 2", NFS4),
    ("nfs.name matches \"^S\"", NFS3),
    ("lower(nfs.name) == \"sub\"", NFS3),
    ("nfs.nfsstat4 !== 0", NFS4),
    ("nfs.status == 2", NFS4),
    ("nfs.procedure_v3 == 6 or nfs.procedure_v3 == 7", NFS3),
    ("nfs.fattr4.size > 1000", NFS4),
    ("nfs.atime < \"2020-01-01 00:00:00Z\"", NFS3),
    ("nfs.dtime == 1", NFS3),
    ("nfs.open4.share_access == 2", NFS4),
    ("nfs.want == 0x400", NFS4),
    ("nfs.offset4 > 0", NFS4),
    ("nfs.cb.operation == 4", CALLBACKS),
    ("nfs", CALLBACKS),
    // A search in a protocol covers its payload; its length and its slices are those of its header.
    ("tcp contains \"s100\"", TCP3),
    ("not ip[20:1] and not udp[8:1] and not eth[14:1]", NFS4),
    ("len(udp) == 8", NFS4),
    ("eth contains \"s2k\"", NFS4),
    ("ip contains \"s2k\"", NFS4),
    ("udp contains \"s2k\"", NFS4),
    ("udp.payload contains \"s2k\"", NFS4),
    ("infiniband contains \"s2k\"", NFS4),
    ("rpcordma contains \"s2k\"", NFS4),
    ("rpc contains \"s2k\"", NFS4),
    ("rpc contains 00:00:00:02", NFS3),
    ("nfs contains \"data\"", NFS3),
    ("tcp contains 00:01:86:a3", TCP3),
    ("tcp matches \"s[0-9]00\"", TCP3),
    ("tcp[20:2] == 01:01", TCP3),
    ("len(tcp) > 32", TCP3),
    ("udp.payload", NFS3),
    ("arp", NFS3),
    ("arp contains 0a:09", NFS4),
    // Procedures by name.
    ("mount.procedure_v3 == \"MNT\" or portmap.procedure_v2 == \"GETPORT\"", NFS3),
    ("nfsacl.procedure_v3 == 1", NFS3),
    ("nfs.procedure_v3 == \"READ\"", NFS3),
    ("nfs.procedure_v4 == \"COMPOUND\"", NFS4),
    ("mount.procedure_v3 == \"MNT\"", NFS3),
    ("portmap.procedure_v2 == \"GETPORT\"", NFS3),
    ("nlm.procedure_v4 == 2", NFS3),
    ("rpc.auth.flavor == \"AUTH_UNIX\"", NFS4),
    // Hashes and lengths of filehandles and stateids.
    ("nfs.fh.hash == 0x592bf8d9", NFS4),
    ("nfs.fh.hash == 0x62d40c52", NFS3),
    ("nfs.fh.length > 8", NFS4),
    ("nfs.fh.length == 20", NFS4),
    ("nfs.stateid.hash == 0xad5a", NFS4),
    ("nfs.stateid.other_hash == 0xdce319c4", NFS4),
    // Bits of masks.
    ("nfs.access_read == 1", NFS3),
    ("nfs.access_read == 1 and nfs.access_execute == 1", NFS4),
    ("nfs.mode3.suid == 1 or nfs.mode3.wgrp == 1", NFS3),
    ("nfs.access_supp_execute == 1", NFS4),
    ("nfs.mode3.sticky == 1", NFS3),
    ("nfs.mode.write_other == 1", NFS4),
    ("nfs.fsinfo.properties.symlinks", NFS3),
    ("nfs.open_rflags.may_notify_lock == 1", NFS4),
    ("nfs.sequence.flags.lease_moved == 0", NFS4),
    ("nfs.exchange_id.flags.pnfs_mds == 1", NFS4),
    ("nfs.create_session.flags.persist == 1", NFS4),
    ("nfs.fattr4.aclsupport.deny_acl == 1", NFS4),
    ("nfs.aceflag4.id_group == 0", NFS4),
    ("nfs.want_push_deleg_when_uncontended == 0", NFS4),
    // Streams of TCP, and lists of chunks.
    ("tcp.stream == 5", TCP3),
    ("tcp.seq == 1 and tcp.len > 0", TCP3),
    ("tcp.ack > 1000", TCP3),
    ("tcp.nxtseq > 30", TCP3),
    ("tcp.seq > 100000", SIW_MID),
    ("rpcordma.reads_count > 1 or rpcordma.writes_count == 1 and rpcordma.reply_count == 0", NFS4),
    ("rpcordma.reads_count > 0", NFS4),
    ("rpcordma.writes_count", NFS4),
    ("rpcordma.reply_count == 1", NFS4),
    ("rpcordma.segment_count > 1", NFS4),
    // iWARP.
    ("iwarp_mpa", SIW),
    ("iwarp_mpa.ulpdulength > 1000", SIW),
    ("iwarp_mpa contains \"s2k\"", SIW),
    ("iwarp_ddp_rdmap", SIW),
    ("iwarp_ddp_rdmap contains \"s2k\"", SIW),
    ("iwarp_ddp.stag", SIW),
    ("iwarp_rdma.opcode == 3", SIW),
    ("tcp contains \"s2k\"", SIW),
    ("rpcordma.rdma_length > 4096", SIW),
];

/// Properties of the frames of a capture that explain differences.
struct Known {
    /// Frames of Calls with Read chunks: their Sends, and the last Read responses, in which tshark shows them.
    read_calls: BTreeSet<u64>,
    /// The Replies to these Calls.
    their_replies: BTreeSet<u64>,
    /// COMPOUNDs with OPEN or GET_DIR_DELEGATION, which tshark may not decode completely.
    opens: BTreeSet<u64>,
    /// Frames in which tshark dissects another protocol than RPC.
    no_rpc: BTreeSet<u64>,
    /// Callbacks, and their Calls of NULL.
    callbacks: BTreeSet<u64>,
    /// Messages with a part moved by RDMA.
    in_chunks: BTreeSet<u64>,
    /// TCP segments that tshark reassembles.
    together: BTreeSet<u64>,
    /// TCP segments with a payload.
    with_payload: BTreeSet<u64>,
}

/// Difference: the reason, and a predicate that explains a frame selected by this program alone, or by tshark alone.
type Difference = (&'static str, fn(&str, u64, bool, &Known) -> bool);

/// In 4.0 the length of a protocol is that of its header, as in this program.
const LENGTH: &str = "since 4.4 the length of a protocol is that of its header and of all that it carries";

/// Differences that exist from this version on.
const LATER: [(&str, (u32, u32)); 1] = [(LENGTH, (4, 4))];

const PORT: &str = "until 4.4 RPC on a port that another protocol has is shown as that protocol";

/// Differences that exist before this version.
const EARLIER: [(&str, (u32, u32)); 1] = [(PORT, (4, 4))];

const DIFFERENCES: [Difference; 8] = [
    ("a Call with Read chunks is shown at the last RDMA Read response, not at its SEND", |filter, frame, _, known| {
        is_of_message(filter) && known.read_calls.contains(&frame)
    }),
    ("rpc.time of such a Call counts from there", |filter, frame, _, known| {
        filter.contains("rpc.time") && known.their_replies.contains(&frame)
    }),
    (
        "a COMPOUND ends at GET_DIR_DELEGATION, and at an OPEN with OPEN_DELEGATE_NONE_EXT or CLAIM_DELEG_CUR_FH",
        |filter, frame, is_ours, known| is_ours && filter.contains("nfs.") && known.opens.contains(&frame),
    ),
    (PORT, |filter, frame, is_ours, known| is_ours && is_of_message(filter) && known.no_rpc.contains(&frame)),
    (
        "a search in a message looks into the chunks, too, as if their bytes had been in it",
        |filter, frame, is_ours, known| {
            !is_ours && is_of_message(filter) && filter.contains("contains") && known.in_chunks.contains(&frame)
        },
    ),
    ("an FPDU that does not lie in one segment is shown at its last", |filter, frame, _, known| {
        filter.contains("iwarp") && known.together.contains(&frame)
    }),
    (LENGTH, |filter, frame, is_ours, known| {
        !is_ours && filter.contains("len(tcp)") && known.with_payload.contains(&frame)
    }),
    ("callbacks are of a protocol of their own, and not of nfs", |filter, frame, is_ours, known| {
        filter.contains("nfs") && known.callbacks.contains(&frame) && is_ours != filter.contains("not nfs")
    }),
];

/// Returns `true` if a filter names fields of RPC messages.
fn is_of_message(filter: &str) -> bool {
    ["rpc", "nfs", "mount", "nlm", "portmap"].iter().any(|protocol| filter.contains(protocol))
}

fn tshark(capture: &str, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-2").arg("-r").arg(captures::path(capture)).args(["-Y", filter, "-T", "fields"]);
    // The client of `tcp-v42` uses the port of DNS over TLS, and its records would be dissected as that.
    command.args(["--disable-protocol", "tls"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.env("TZ", "UTC").output().ok()?;
    assert!(output.status.success(), "tshark: {filter}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn numbers(lines: Vec<Vec<String>>) -> BTreeSet<u64> {
    lines.iter().filter_map(|columns| columns.first()?.parse().ok()).collect()
}

fn ours(capture: &str, filter: &str) -> BTreeSet<u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["--view", "frames", "--summary", "none", "-Y", filter])
        .arg(captures::path(capture))
        .output()
        .unwrap();
    assert!(output.status.success(), "{filter}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

fn known(capture: &str) -> Option<Known> {
    let shown =
        tshark(capture, "frame", &["frame.number", "_ws.malformed", "frame.protocols", "tcp.segment", "tcp.len"])?;
    let column = |line: &[String], at: usize| line.get(at).cloned().unwrap_or_default();
    let having = |is: &dyn Fn(&[String]) -> bool| numbers(shown.iter().filter(|line| is(line)).cloned().collect());
    let transactions = program::json(&captures::path(capture)).transactions;
    let all = |is: &dyn Fn(&Transaction) -> bool, sides: &[&str]| -> BTreeSet<u64> {
        let of = transactions.iter().filter(|transaction| is(transaction));
        of.flat_map(|transaction| sides.iter().filter_map(|side| transaction.message(side)).flat_map(frames)).collect()
    };
    let reads = |transaction: &Transaction| !transaction.segments("read_chunks").is_empty();
    let moved = transactions.iter().flat_map(|transaction| transaction.segments("read_chunks")).flat_map(frames);
    let is_open =
        |transaction: &Transaction| ["OPEN", "GET_DIR_DELEGATION"].iter().any(|of| transaction.entry(of).is_some());
    let has_chunks = |transaction: &Transaction| {
        let lists = ["read_chunks", "write_chunks"];
        lists.iter().any(|list| !transaction.segments(list).is_empty())
    };
    let together = shown.iter().filter_map(|line| line.get(3)).flat_map(|segments| segments.split(','));
    let is_callback = |transaction: &Transaction| transaction.text("program_name") == Some("NFS_CB");
    Some(Known {
        read_calls: all(&reads, &["call"]).into_iter().chain(moved).collect(),
        their_replies: all(&reads, &["reply"]),
        opens: all(&is_open, &["call", "reply"]),
        no_rpc: having(&|line| column(line, 2).contains(":tcp:") && !column(line, 2).contains("rpc")),
        callbacks: all(&is_callback, &["call", "reply"]),
        in_chunks: all(&has_chunks, &["call", "reply"]),
        with_payload: having(&|line| column(line, 4).parse().is_ok_and(|length: u64| length > 0)),
        together: together.filter_map(|number| number.parse().ok()).collect(),
    })
}

/// Compares the rows, and counts the frames that each difference explains.
fn compare(rows: &[Row], known: &BTreeMap<&str, Known>) -> BTreeMap<&'static str, u64> {
    let mut explained = BTreeMap::new();
    for (filter, on) in rows {
        let mut is_empty = true;
        for capture in *on {
            let known = &known[capture];
            let theirs = numbers(tshark(capture, filter, &["frame.number"]).unwrap_or_default());
            let ours = ours(capture, filter);
            is_empty &= ours.is_empty();
            for frame in ours.symmetric_difference(&theirs) {
                let is_ours = ours.contains(frame);
                let why = DIFFERENCES.iter().find(|(_, explains)| explains(filter, *frame, is_ours, known));
                let (reason, _) = why.unwrap_or_else(|| {
                    let who = if is_ours { "this program" } else { "tshark" };
                    panic!("{capture}: {filter}: only {who} selects frame {frame}")
                });
                *explained.entry(*reason).or_default() += 1;
            }
        }
        assert!(!is_empty, "{filter} selects nothing, so it shows nothing");
    }
    explained
}

#[test]
fn the_same_filters_select_the_same_frames() {
    let mut captures_known = BTreeMap::new();
    for capture in FILTERS.iter().flat_map(|(_, on)| on.iter()) {
        if captures_known.contains_key(capture) {
            continue;
        }
        let Some(known) = known(capture) else {
            skip_without("tshark");
            return;
        };
        captures_known.insert(*capture, known);
    }
    let halves = FILTERS.split_at(FILTERS.len() / 2);
    let known = &captures_known;
    let (first, second) = thread::scope(|scope| {
        let other = scope.spawn(move || compare(halves.1, known));
        (compare(halves.0, known), other.join())
    });
    let mut explained = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    first.into_iter().for_each(|(reason, count)| *explained.entry(reason).or_default() += count);
    let version = tshark::version().expect("tshark has a version");
    let is_later = |reason: &str| LATER.iter().any(|(of, since)| *of == reason && version < *since);
    let is_earlier = |reason: &str| EARLIER.iter().any(|(of, until)| *of == reason && version >= *until);
    for (reason, _) in DIFFERENCES.into_iter().filter(|(of, _)| !is_later(of) && !is_earlier(of)) {
        assert!(explained.contains_key(reason), "tshark has learnt better, or no filter asks: {reason}");
    }
    eprintln!("{} filters select what tshark selects, but for {explained:#?}", FILTERS.len());
}
