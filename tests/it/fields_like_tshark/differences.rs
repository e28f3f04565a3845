//! Rules that explain the differences from tshark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nfsrdma_analysis::filter::catalog::FilterType;

use super::shown::{FIELDS, Pair, Row, Shown, Theirs, is_of_message};

/// Properties of a capture that explain differences.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// `true` if tshark found iWARP.
    has_iwarp: bool,
    /// XIDs of Calls with Read chunks.
    with_read_chunks: BTreeSet<String>,
    /// XIDs of more than two messages: one of them was retransmitted.
    again: BTreeSet<String>,
    /// Messages that tshark shows in any frame, by XID and direction.
    shown: BTreeSet<(String, String)>,
}

fn first<'r>(row: &'r Row, field: &str) -> Option<&'r String> {
    row.get(field).and_then(|values| values.first())
}

/// Returns XID and direction of the message of a frame.
fn message(row: &Row) -> Option<(String, String)> {
    Some((first(row, "rpc.xid")?.clone(), first(row, "rpc.msgtyp")?.clone()))
}

impl Known {
    pub(super) fn of(shown: &Shown) -> Self {
        let rows = || shown.theirs.values().map(|theirs| &theirs.values);
        let with_position = shown.ours.values().filter(|row| row.contains_key("rpcordma.position"));
        // tshark shows no copies of segments.
        let (mut headers, mut messages) = (BTreeMap::<&String, u64>::new(), BTreeMap::<&String, u64>::new());
        for xid in rows().filter_map(|row| first(row, "rpcordma.xid")) {
            *headers.entry(xid).or_default() += 1;
        }
        for xid in shown.ours.values().filter_map(|row| first(row, "rpc.xid")) {
            *messages.entry(xid).or_default() += 1;
        }
        let copied = headers.into_iter().chain(messages).filter(|(_, count)| *count > 2);
        Self {
            again: copied.map(|(xid, _)| xid.clone()).collect(),
            has_iwarp: rows().any(|row| row.contains_key("iwarp_mpa")),
            with_read_chunks: with_position.filter_map(|row| first(row, "rpcordma.xid")).cloned().collect(),
            shown: rows().filter_map(message).collect(),
        }
    }
}

/// Field whose values differ.
pub(super) struct Difference<'s> {
    pub(super) shown: &'s Shown,
    pair: Pair,
    pub(super) field: &'static str,
    pub(super) ours: Option<&'s Vec<String>>,
    pub(super) theirs: Option<&'s Vec<String>>,
    our_row: &'s Row,
    about: &'s Theirs,
}

impl fmt::Debug for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, ours, theirs, .. } = self;
        write!(f, "{} {} {field}: ours {ours:?}, tshark's {theirs:?}", self.shown.capture, self.frames())
    }
}

impl<'s> Difference<'s> {
    /// Returns the differences between two frames; calls `agreed` for each equal field.
    pub(super) fn all(shown: &'s Shown, pair: Pair, mut agreed: impl FnMut(&'static str)) -> Vec<Self> {
        static EMPTY: Row = Row::new();
        let Some(about) = shown.theirs.get(&pair.theirs) else { return Vec::new() };
        let our_row = shown.ours.get(&pair.ours).unwrap_or(&EMPTY);
        let names: BTreeSet<_> = our_row.keys().chain(about.values.keys()).copied().collect();
        let mut differences = Vec::new();
        for field in names.into_iter().filter(|field| is_of_message(field) == pair.is_message) {
            let (ours, theirs) = (our_row.get(field), about.values.get(field));
            let is_there_in_both = matches!(FIELDS.get(field), Some(FilterType::Protocol | FilterType::Structure))
                && ours.is_some()
                && theirs.is_some();
            if ours == theirs || is_there_in_both {
                agreed(field);
            } else {
                differences.push(Self { shown, pair, field, ours, theirs, our_row, about });
            }
        }
        differences
    }

    /// Formats the frame in tshark, and the one in this program.
    pub(super) fn frames(&self) -> String {
        let Pair { theirs, ours, .. } = self.pair;
        if theirs == ours { theirs.to_string() } else { format!("{theirs} → {ours}") }
    }

    fn is_one_of(&self, fields: &[&str]) -> bool {
        fields.contains(&self.field)
    }

    fn is_only_ours(&self) -> bool {
        self.theirs.is_none()
    }

    fn is_only_theirs(&self) -> bool {
        self.ours.is_none()
    }

    fn ours(&self) -> &[String] {
        self.ours.map_or(&[], Vec::as_slice)
    }

    fn theirs(&self) -> &[String] {
        self.theirs.map_or(&[], Vec::as_slice)
    }

    fn number(value: &str) -> u64 {
        value.parse().unwrap_or(u64::MAX)
    }

    /// Returns `true` if tshark's values are those of this program for which `is_shown` holds.
    fn are_those(&self, is_shown: impl Fn(usize, &str) -> bool) -> bool {
        let ours = self.ours().iter().enumerate();
        let shown = ours.filter(|(at, value)| is_shown(*at, value)).map(|(_, value)| value);
        shown.eq(self.theirs())
    }

    /// Returns `true` if tshark's values are a subsequence of those of this program.
    fn are_some(&self) -> bool {
        let mut ours = self.ours().iter();
        self.theirs().iter().all(|theirs| ours.any(|ours| ours == theirs))
    }

    /// Returns `true` if tshark shows each value of this program twice.
    fn are_those_twice(&self) -> bool {
        self.ours().iter().flat_map(|value| [value, value]).eq(self.theirs())
    }

    /// Returns `true` if tshark does not show this program's message in any frame.
    fn is_unseen(&self, known: &Known) -> bool {
        self.pair.is_message && message(self.our_row).is_some_and(|message| !known.shown.contains(&message))
    }

    /// Returns the operation of a COMPOUND at which tshark stops: the last one it shows, which it does not decode
    /// completely.
    fn stopped_at(&self) -> Option<u64> {
        const CLAIM_DELEG_CUR_FH: &str = "5";
        let (ours, theirs) = (self.our_row.get("nfs.opcode")?, self.about.values.get("nfs.opcode")?);
        let same = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
        let is_claim = first(self.our_row, "nfs.open.claim_type").is_some_and(|c| c == CLAIM_DELEG_CUR_FH);
        // The data after the claim is shown as an operation.
        let is_stopped = theirs.len() == same || is_claim && theirs.len() == same + 1;
        let stopped = same < ours.len() && is_stopped;
        stopped.then(|| Self::number(ours.get(same.wrapping_sub(1)).map_or("", String::as_str)))
    }
}

/// Differences with one reason.
pub(super) struct Rule {
    pub(super) title: &'static str,
    pub(super) reason: &'static str,
    /// Program that is right.
    pub(super) right: &'static str,
    pub(super) section: &'static str,
    /// Capture outside of this repository in which it occurred.
    pub(super) elsewhere: Option<&'static str>,
    pub(super) explains: fn(&Difference<'_>, &Known) -> bool,
}

const US: &str = "this program";
const BOTH: &str = "both";

const NFSTRACE: &str = "the captures of the project nfstrace";
const OTHER_ROCE: &str = "a capture of RoCEv2 that carries no RPC";
const OTHER_IB: &str = "a capture of native InfiniBand with IP over it";

fn is_of_rpcbind(d: &Difference<'_>) -> bool {
    first(d.our_row, "rpc.program").is_some_and(|program| program == "100000")
}

pub(super) const RULES: [Rule; 49] = [
    Rule {
        title: "Frames that a snap length cut",
        reason: "tshark does not decode a management datagram or a message in a truncated frame.",
        right: US,
        section: "RFC 5531 section 9, InfiniBand volume 1 section 13.4: the captured part is the start of the message",
        elsewhere: None,
        explains: |d, _| {
            let is_cut = |frame| d.shown.theirs.get(&frame).is_some_and(|theirs| theirs.is_cut);
            d.is_only_ours() && (is_cut(d.pair.theirs) || is_cut(d.pair.ours))
        },
    },
    Rule {
        title: "Start-up frames on ports that are used again",
        reason: "tshark decodes them as FPDUs of the preceding connection: 19792 is \"MP\".",
        right: US,
        section: "RFC 5044 section 7.1.1",
        elsewhere: None,
        explains: |d, _| {
            d.is_only_theirs()
                && (d.field == "iwarp_mpa.fpdu" || (d.field == "iwarp_mpa.ulpdulength" && d.theirs() == ["19792"]))
        },
    },
    Rule {
        title: "iWARP whose start was not captured",
        reason: "tshark recognizes an MPA stream only by its start-up frames.",
        right: US,
        section: "RFC 5044 section 4, RFC 5041 section 4: FPDUs that follow each other by their lengths",
        elsewhere: None,
        explains: |d, known| !known.has_iwarp && d.is_only_ours() && d.our_row.contains_key("iwarp_mpa"),
    },
    Rule {
        title: "A Read response that ends after a loss",
        reason: "tshark reassembles the packets of a Read response as an RPC message if it has lost track of them.",
        right: US,
        section: "InfiniBand volume 1 section 9.7.5: a Read response continues with the PSN of its request",
        elsewhere: None,
        explains: |d, _| {
            let opcode = first(d.our_row, "infiniband.bth.opcode").map(String::as_str);
            let is_response = matches!(opcode, Some("13" | "14" | "15" | "16"));
            is_response && d.is_only_theirs() && d.field.split('.').next() == Some("rpc")
        },
    },
    Rule {
        title: "A retransmitted TCP segment",
        reason: "tshark does not decode it; this program shows the content that it repeats.",
        right: BOTH,
        section: "RFC 9293 section 3.8.1",
        elsewhere: None,
        explains: |d, known| {
            known.has_iwarp
                && d.is_only_ours()
                && d.our_row.contains_key("iwarp_mpa")
                && d.about.protocols.ends_with(":tcp")
        },
    },
    Rule {
        title: "A record that ends behind a lost segment",
        reason: "tshark shows its segments as a continuation: by default, it does not reassemble segments that are out of order.",
        right: US,
        section: "RFC 9293 section 3.10.7.4: the bytes of a stream are in the order of their sequence numbers",
        elsewhere: None,
        explains: |d, known| {
            let is_continuation = d.about.protocols.ends_with(":tcp:rpc");
            is_continuation && (d.is_only_ours() && d.is_unseen(known) || d.field == "rpc" && d.is_only_theirs())
        },
    },
    Rule {
        title: "A message of iWARP behind a lost segment",
        reason: "tshark shows it in the segment that carries it. This program shows it in the segment that fills the gap before it, \
              because the receiver cannot deliver it earlier.",
        right: BOTH,
        section: "RFC 9293 section 3.10.7.4: the bytes of a stream are delivered in the order of their sequence numbers",
        elsewhere: None,
        explains: |d, known| {
            let is_header = d.field.split('.').next() == Some("rpcordma");
            let xid = first(&d.about.values, "rpcordma.xid");
            let mut later = d.shown.ours.range(d.pair.theirs + 1..);
            known.has_iwarp
                && is_header
                && d.is_only_theirs()
                && !d.our_row.contains_key("rpcordma")
                && later.any(|(_, row)| xid.is_some() && first(row, "rpcordma.xid") == xid)
        },
    },
    Rule {
        title: "The CRC of an FPDU in the segment behind it",
        reason: "The fields of a frame are here those whose bytes are in it, and tshark shows the whole FPDU in the frame that ends \
              it. Soft-iWARP sends CRC and pad in a segment of their own.",
        right: BOTH,
        section: "RFC 5044 section 4.4",
        elsewhere: None,
        explains: |d, _| {
            d.is_one_of(&["iwarp_mpa.crc", "iwarp_mpa.pad"]) && d.is_only_theirs() && d.pair.theirs > d.pair.ours
        },
    },
    Rule {
        title: "A CRC that is in use",
        reason: "tshark shows it as `iwarp_mpa.crc_check`.",
        right: BOTH,
        section: "RFC 5044 section 4.4",
        elsewhere: None,
        explains: |d, _| d.field == "iwarp_mpa.crc" && d.is_only_ours() && d.about.is_crc_checked,
    },
    Rule {
        title: "Flags of enhanced MPA",
        reason: "tshark counts the flag S among the reserved bits.",
        right: US,
        section: "RFC 6581 section 6",
        elsewhere: None,
        explains: |d, _| d.field == "iwarp_mpa.res" && d.ours() == ["0"] && d.theirs() == ["16"],
    },
    Rule {
        title: "The flow label of a ConnectRequest",
        reason: "tshark reads the flow label and the packet rate at an offset that is wrong by two bytes.",
        right: US,
        section: "InfiniBand volume 1 section 12.6.5",
        elsewhere: None,
        explains: |d, _| {
            d.is_one_of(&["infiniband.cm.req.prim_flowlabel", "infiniband.cm.req.prim_pktrate"])
                && d.ours.is_some()
                && d.theirs.is_some()
        },
    },
    Rule {
        title: "A GID that is an IPv4 address",
        reason: "tshark shows it as `infiniband.cm.req.prim_localgid_ipv4` and `prim_remotegid_ipv4`.",
        right: BOTH,
        section: "RFC 4291 section 2.5.5.2; InfiniBand annex A17",
        elsewhere: None,
        explains: |d, _| {
            d.is_one_of(&["infiniband.cm.req.prim_localgid", "infiniband.cm.req.prim_remotegid"])
                && d.is_only_ours()
                && d.ours().iter().all(|gid| gid.starts_with("::ffff:"))
        },
    },
    Rule {
        title: "The R_Key to be invalidated",
        reason: "tshark uses one name for the header and for its only field.",
        right: BOTH,
        section: "InfiniBand volume 1 section 9.3",
        elsewhere: None,
        explains: |d, _| d.field == "infiniband.ieth" && [d.ours(), d.ours()].concat() == d.theirs(),
    },
    Rule {
        title: "Messages that tshark calls malformed",
        reason: "It decodes a reply that was sent again without the chunk data of its first copy, and reads the first Read chunks of \
              an iWARP connection as inline data.",
        right: US,
        section: "RFC 8166 section 3.4.5; InfiniBand volume 1 section 9.7.5",
        elsewhere: None,
        explains: |d, known| {
            let is_malformed = d.about.is_malformed;
            is_malformed && d.is_only_ours() && (!d.pair.is_message || d.is_unseen(known))
        },
    },
    Rule {
        title: "RPC on the port of another protocol",
        reason: "tshark takes the port of a client (873, rsync) for that of another protocol.",
        right: US,
        section: "RFC 5531 section 11",
        elsewhere: None,
        explains: |d, known| d.is_only_ours() && d.is_unseen(known) && !d.about.protocols.contains("rpc"),
    },
    Rule {
        title: "Messages in chunks of which something is missing",
        reason: "Without the exchange of the connection manager, after losses, and where the capture ends before the last Read \
              response, tshark does not put chunks together and shows none of the message. Here what is there is shown.",
        right: US,
        section: "RFC 8166 sections 3.4.4 and 3.5.3",
        elsewhere: None,
        explains: |d, known| {
            let has_header = d.our_row.contains_key("rpc.xid");
            d.is_only_ours() && (d.is_unseen(known) || !has_header) && d.about.protocols.contains("rpcordma")
        },
    },
    Rule {
        title: "Replies without their calls",
        reason: "Without the exchange of the connection manager tshark does not find the call to a reply.",
        right: US,
        section: "RFC 5531 section 9: the XID; InfiniBand volume 1 section 9.2: no source queue pair in BTH",
        elsewhere: None,
        explains: |d, _| {
            let is_unknown = first(&d.about.values, "rpc.program").is_some_and(|program| program == "0");
            let is_reply = first(d.our_row, "rpc.msgtyp").is_some_and(|direction| direction == "1");
            is_unknown
                && is_reply
                && (d.is_only_ours() || d.is_one_of(&["rpc.program", "rpc.procedure", "rpc.programversion"]))
        },
    },
    Rule {
        title: "Times and frames of calls with Read chunks",
        reason: "tshark counts them from the last RDMA Read response, where it shows the call; here the Send begins it.",
        right: US,
        section: "RFC 8166 section 4.4: the header with the chunk lists begins the RPC",
        elsewhere: None,
        explains: |d, known| {
            d.is_one_of(&["rpc.time", "rpc.repframe"])
                && first(d.our_row, "rpc.xid").is_some_and(|xid| known.with_read_chunks.contains(xid))
        },
    },
    Rule {
        title: "The frame of the reply",
        reason: "This program shows frames in one pass, and does not know it yet when it shows the call.",
        right: "tshark (in its second pass)",
        section: "RFC 5531 section 9",
        elsewhere: None,
        explains: |d, _| d.field == "rpc.reqframe" && d.is_only_theirs(),
    },
    Rule {
        title: "Times of messages that were sent again",
        reason: "tshark measures from the first copy of the call up to each copy of the reply, including a copy that the client refused \
              because an earlier packet was lost. This program measures from the copy of the call that the server accepted up to \
              the copy of the reply that the client accepted, according to PSN, ACK and NAK, or to the acknowledgements of TCP. In \
              views of frames it uses only the packets up to the frame. `nfsrdma.latency` begins with the first copy of the call.",
        right: US,
        section: "InfiniBand volume 1, section 9.7.5: ACK and NAK; the Linux client's mountstats measure the same latency",
        elsewhere: None,
        explains: |d, known| {
            d.field == "rpc.time" && first(d.our_row, "rpc.xid").is_some_and(|xid| known.again.contains(xid))
        },
    },
    Rule {
        title: "File data in chunks",
        reason: "This program counts file data but does not keep it, so it is not shown.",
        right: "tshark",
        section: "RFC 8166 section 3.4.4",
        elsewhere: None,
        explains: |d, _| d.field == "nfs.data" && d.is_only_theirs() && d.about.protocols.contains("rpcordma"),
    },
    Rule {
        title: "The version of a program",
        reason: "tshark shows it twice, in the header and beside it.",
        right: BOTH,
        section: "RFC 5531 section 9",
        elsewhere: None,
        explains: |d, _| d.field == "rpc.programversion" && [d.ours(), d.ours()].concat() == d.theirs(),
    },
    Rule {
        title: "Tokens and checksums of RPCSEC_GSS",
        reason: "tshark includes the preceding length and the padding.",
        right: US,
        section: "RFC 2203 sections 5.3.1 and 5.3.2.2: opaque data, RFC 4506 section 4.10",
        elsewhere: None,
        explains: |d, _| {
            d.is_one_of(&["rpc.authgss.token", "rpc.authgss.checksum"])
                && d.ours().iter().zip(d.theirs()).all(|(ours, theirs)| {
                    let token = theirs.get(8..).and_then(|token| token.get(..ours.len()));
                    theirs.starts_with(&format!("{:08x}", ours.len() / 2)) && token == Some(ours)
                })
        },
    },
    Rule {
        title: "Callbacks",
        reason: "tshark shows them as a protocol of their own, without the number of operations.",
        right: US,
        section: "RFC 8881 section 20: NFS_CB is a program of NFS",
        elsewhere: None,
        explains: |d, _| {
            let is_callback = first(d.our_row, "rpc.program").is_some_and(|p| Difference::number(p) >= 0x4000_0000);
            is_callback && d.is_only_ours() && d.is_one_of(&["nfs", "nfs.ops.count"])
        },
    },
    Rule {
        title: "COMPOUNDs that tshark decodes only in part",
        reason: "It stops at an OPEN result with OPEN_DELEGATE_NONE_EXT, whose boolean it does not read, at an OPEN with \
              CLAIM_DELEG_CUR_FH, whose stateid it shows as an operation, and at GET_DIR_DELEGATION.",
        right: US,
        section: "RFC 8881 sections 18.16.1, 18.16.2 and 18.39",
        elsewhere: None,
        explains: |d, _| {
            const OPEN: u64 = 18;
            const GET_DIR_DELEGATION: u64 = 46;
            d.field.starts_with("nfs.")
                && d.stopped_at().is_some_and(|at| at == OPEN || at == GET_DIR_DELEGATION)
                && (d.are_some() || d.field == "nfs.opcode")
        },
    },
    Rule {
        title: "Operations that an EXCHANGE_ID wants protected",
        reason: "tshark shows them as operations of the COMPOUND.",
        right: US,
        section: "RFC 8881 section 18.35.1: spo_must_enforce and spo_must_allow are bitmaps",
        elsewhere: None,
        explains: |d, _| {
            const EXCHANGE_ID: &str = "42";
            d.field == "nfs.opcode"
                && d.ours().first().is_some_and(|operation| operation == EXCHANGE_ID)
                && d.theirs().starts_with(d.ours())
        },
    },
    Rule {
        title: "The owner in an EXCHANGE_ID",
        reason: "tshark shows it as `nfs.data`, which is file data.",
        right: US,
        section: "RFC 8881 section 18.35.1",
        elsewhere: None,
        explains: |d, _| {
            const EXCHANGE_ID: &str = "42";
            d.field == "nfs.data"
                && d.is_only_theirs()
                && first(d.our_row, "nfs.opcode").is_some_and(|operation| operation == EXCHANGE_ID)
        },
    },
    Rule {
        title: "Rights on extended attributes",
        reason: "tshark shows eight bits; ACCESS4_XALIST is the ninth.",
        right: US,
        section: "RFC 8276 section 8.5",
        elsewhere: None,
        explains: |d, _| {
            let low = |value: &String| (Difference::number(value) & 0xff).to_string();
            d.is_one_of(&["nfs.access_check", "nfs.access_rights", "nfs.access_supported"])
                && d.ours().iter().map(low).eq(d.theirs().iter().cloned())
        },
    },
    Rule {
        title: "Words of bitmaps",
        reason: "tshark leaves out those in which no bit is set, and shows behind each word the attributes that it names, among \
              them those that are bitmaps.",
        right: US,
        section: "RFC 8881 section 3.3.7: a bitmap4 is a list of words",
        elsewhere: None,
        explains: |d, _| {
            let mut ours: Vec<_> = d.ours().iter().filter(|value| *value != "0").collect();
            let mut theirs: Vec<_> = d.theirs().iter().collect();
            ours.sort();
            theirs.sort();
            d.is_one_of(&["nfs.attr_mask", "nfs.op_mask", "nfs.notify_mask"]) && ours == theirs
        },
    },
    Rule {
        title: "Special stateids",
        reason: "tshark shows such a stateid without its parts.",
        right: BOTH,
        section: "RFC 8881 section 8.2.3",
        elsewhere: None,
        explains: |d, _| {
            let Some(others) = d.our_row.get("nfs.stateid.other") else { return false };
            let is_special = |at: usize| {
                let other = others.get(at).map_or("", String::as_str);
                other.bytes().all(|digit| digit == b'0') || other.bytes().all(|digit| digit == b'f')
            };
            let parts = ["nfs.stateid.other", "nfs.stateid.seqid", "nfs.stateid.hash", "nfs.stateid.other_hash"];
            d.is_one_of(&parts) && d.are_those(|at, _| !is_special(at))
        },
    },
    Rule {
        title: "What OPEN wants of a delegation",
        reason: "tshark leaves it out where no bit of 0xff00 is set, and other bits with it.",
        right: US,
        section: "RFC 8881 section 18.16.3, RFC 9754",
        elsewhere: None,
        explains: |d, _| d.field == "nfs.want" && d.are_those(|_, value| Difference::number(value) & 0xff00 != 0),
    },
    Rule {
        title: "Bits of what OPEN wants of a delegation",
        reason: "tshark leaves them out where no bit of 0xff00 is set, and that of timestamps always.",
        right: US,
        section: "RFC 8881 section 18.16.3, RFC 9754",
        elsewhere: None,
        explains: |d, _| d.field.starts_with("nfs.want_") && d.is_only_ours(),
    },
    Rule {
        title: "How filehandles expire",
        reason: "tshark shows the bits only where one of them is set.",
        right: BOTH,
        section: "RFC 8881 section 5.8.1.3",
        elsewhere: None,
        explains: |d, _| {
            d.field.starts_with("nfs.fattr4_fh_expire_type.")
                && d.is_only_ours()
                && d.ours().iter().all(|value| value == "0")
        },
    },
    Rule {
        title: "The recall flag of a write delegation",
        reason: "tshark shows it without a field name.",
        right: US,
        section: "RFC 8881 section 18.16.2",
        elsewhere: None,
        explains: |d, _| {
            const WRITE: [&str; 2] = ["2", "5"];
            let delegation = first(d.our_row, "nfs.open.delegation_type");
            d.field == "nfs.recall4"
                && d.is_only_ours()
                && delegation.is_some_and(|delegation| WRITE.contains(&delegation.as_str()))
        },
    },
    Rule {
        title: "Names in directories",
        reason: "tshark shows the name of an entry of READDIR twice, as `nfs.entry_name` and as `nfs.name`.",
        right: BOTH,
        section: "RFC 8881 section 18.23.2",
        elsewhere: None,
        explains: |d, _| d.field == "nfs.name" && d.is_only_theirs() && d.our_row.get("nfs.entry_name") == d.theirs,
    },
    Rule {
        title: "Whether attributes are set",
        reason: "tshark shows `set_it` of mode, uid, gid and size, too; here they are there or not, and only the times have it.",
        right: BOTH,
        section: "RFC 1813 section 2.6: sattr3",
        elsewhere: None,
        explains: |d, _| d.field == "nfs.set_it" && d.theirs().len() == 6 && d.theirs().ends_with(d.ours()),
    },
    Rule {
        title: "Times that a client sets",
        reason: "tshark calls both `nfs.atime`, the second of which is the time of modification.",
        right: US,
        section: "RFC 1813 section 2.6: sattr3",
        elsewhere: None,
        explains: |d, _| {
            let sets = d.our_row.contains_key("nfs.set_it");
            let both = || [d.our_row.get("nfs.atime"), d.our_row.get("nfs.mtime")].into_iter().flatten().flatten();
            let is_atime = || d.field == "nfs.atime" && both().eq(d.theirs());
            sets && (is_atime() || d.field == "nfs.mtime" && d.is_only_ours())
        },
    },
    Rule {
        title: "Bits of rights that are not set",
        reason: "tshark shows only the requested bits; this program shows all bits of each mask.",
        right: BOTH,
        section: "RFC 1813 section 3.3.4, RFC 8881 section 18.1",
        elsewhere: None,
        explains: |d, _| {
            let masks = ["nfs.access_check", "nfs.access_rights", "nfs.access_supported"];
            d.field.starts_with("nfs.access_")
                && !masks.contains(&d.field)
                && d.is_only_ours()
                && d.ours().iter().all(|value| value == "0")
        },
    },
    Rule {
        title: "The status of NFSACL",
        reason: "tshark has it as `nfs.status` alone; it is an nfsstat3 as well.",
        right: BOTH,
        section: "the Solaris and Linux nfs_acl.x",
        elsewhere: None,
        explains: |d, _| {
            const NFSACL: &str = "100227";
            d.field == "nfs.status3"
                && d.is_only_ours()
                && first(d.our_row, "rpc.program").is_some_and(|program| program == NFSACL)
        },
    },
    Rule {
        title: "READ_PLUS without contents",
        reason: "tshark shows a heading for an empty list.",
        right: BOTH,
        section: "RFC 7862 section 15.10.2",
        elsewhere: None,
        explains: |d, _| d.field == "nfs.contents" && d.is_only_theirs(),
    },
    Rule {
        title: "Ports that are those of other protocols",
        reason: "tshark takes packets of RoCEv2 from UDP port 69 for TFTP.",
        right: US,
        section: "InfiniBand volume 1 annex A17: the destination port 4791 is that of RoCEv2, and the source port is chosen freely",
        elsewhere: Some(OTHER_ROCE),
        explains: |d, _| {
            let protocols = &d.about.protocols;
            d.is_only_ours() && protocols.contains(":udp:") && !protocols.contains("infiniband")
        },
    },
    Rule {
        title: "Immediate data",
        reason: "The header and its value have one name; tshark shows both, and here the value is shown.",
        right: BOTH,
        section: "InfiniBand volume 1 section 9.2",
        elsewhere: Some(OTHER_ROCE),
        explains: |d, _| d.field == "infiniband.immdt" && d.theirs().len() == 2 && d.are_those_twice(),
    },
    Rule {
        title: "IPoIB",
        reason: "tshark shows the encapsulation header of IP over InfiniBand as a raw header; here it is the payload of a Send.",
        right: "tshark",
        section: "RFC 4391 section 6",
        elsewhere: Some(OTHER_IB),
        explains: |d, _| d.field == "infiniband.rwh.etype" && d.is_only_theirs(),
    },
    Rule {
        title: "Replies without results",
        reason: "A reply that says that RPC refused the call belongs to NFS here, and to RPC alone there.",
        right: BOTH,
        section: "RFC 5531 section 9: MSG_DENIED",
        elsewhere: Some(NFSTRACE),
        explains: |d, _| {
            const MSG_DENIED: &str = "1";
            (d.field == "nfs" || d.field.starts_with("nfs.procedure_v"))
                && d.is_only_ours()
                && first(d.our_row, "rpc.replystat").is_some_and(|stat| stat == MSG_DENIED)
        },
    },
    Rule {
        title: "A part of a message that TCP sent again",
        reason: "tshark does not look into the segment; here it shows the message that it is a copy of.",
        right: BOTH,
        section: "RFC 9293 section 3.8.1",
        elsewhere: None,
        explains: |d, known| {
            d.pair.is_message
                && d.is_only_ours()
                && d.about.protocols.ends_with(":tcp")
                && message(d.our_row).is_some_and(|message| known.shown.contains(&message))
        },
    },
    Rule {
        title: "The frame of a call of which TCP sent a part again",
        reason: "It is the frame with the copy here, and the one that made the call whole there.",
        right: "tshark",
        section: "RFC 5531 section 11",
        elsewhere: None,
        explains: |d, _| d.field == "rpc.repframe" && d.ours.is_some() && d.theirs.is_some(),
    },
    Rule {
        title: "The stateid that CLOSE returns",
        reason: "tshark shows it in NFSv4.0 without its parts, and notes that it is of no use.",
        right: US,
        section: "RFC 7530 section 16.2.5: stateid4 open_stateid",
        elsewhere: Some(NFSTRACE),
        explains: |d, _| {
            const CLOSE: &str = "4";
            d.is_one_of(&["nfs.stateid.other", "nfs.stateid.seqid"])
                && d.are_some()
                && d.our_row.get("nfs.opcode").is_some_and(|codes| codes.iter().any(|code| code == CLOSE))
        },
    },
    Rule {
        title: "Universal addresses of RPCBIND",
        reason: "Address and port are fields of their own here; tshark has them in NFS alone.",
        right: BOTH,
        section: "RFC 5665 section 5.2.3",
        elsewhere: Some(NFSTRACE),
        explains: |d, _| d.field.starts_with("nfs.universal_address.") && d.is_only_ours() && is_of_rpcbind(d),
    },
    Rule {
        title: "The arguments of RPCBIND",
        reason: "tshark has a heading above them.",
        right: BOTH,
        section: "RFC 1833 section 2.1: struct rpcb",
        elsewhere: Some(NFSTRACE),
        explains: |d, _| d.field == "portmap.rpcb" && d.is_only_theirs(),
    },
];
