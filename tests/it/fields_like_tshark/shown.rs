//! Fields that tshark and this program show of a capture, and the pairs of frames that show the same.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::Command;
use std::sync::LazyLock;

use nfsrdma_analysis::filter::catalog::{FilterFieldCatalog, FilterFieldSource, FilterType};

use crate::{captures, field_coverage};

/// Separator of several values of a field; no value contains it.
const BETWEEN: char = '^';
/// Fields of a frame requested from tshark in addition to those compared.
const ABOUT: [&str; 6] =
    ["frame.number", "frame.len", "frame.cap_len", "frame.protocols", "_ws.malformed", "iwarp_mpa.crc_check"];
/// Protocols whose fields are compared, by the prefix of their names before the first dot.
const PROTOCOLS: [&str; 14] = [
    "infiniband",
    "iwarp_ddp",
    "iwarp_mpa",
    "iwarp_rdma",
    "mount",
    "nfs",
    "nfsacl",
    "nlm",
    "portmap",
    "rpc",
    "rpcordma",
    "rquota",
    "stat",
    "statnotify",
];

/// Values of the fields of a frame, in their order in the frame.
pub(super) type Row = BTreeMap<&'static str, Vec<String>>;

/// Frame as tshark shows it.
#[derive(Debug, Default)]
pub(super) struct Theirs {
    pub(super) values: Row,
    pub(super) is_cut: bool,
    pub(super) is_malformed: bool,
    pub(super) is_crc_checked: bool,
    pub(super) protocols: String,
}

/// Frames of a capture as shown by both, by number.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) capture: &'static str,
    pub(super) theirs: BTreeMap<u64, Theirs>,
    pub(super) ours: BTreeMap<u64, Row>,
}

/// Fields in the registry of tshark; `true` if their values are bytes there.
static OF_TSHARK: LazyLock<Option<HashMap<String, bool>>> = LazyLock::new(|| {
    let output = Command::new("tshark").args(["-G", "fields"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    Some(lines.filter(|c| c.len() > 2).map(|c| (c[2].to_owned(), c.get(3) == Some(&"FT_BYTES"))).collect())
});

/// Returns the first line of `tshark --version`; `None` if it is not installed.
pub(super) fn version() -> Option<String> {
    let output = Command::new("tshark").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.split_whitespace().nth(2)?.trim_end_matches('.').to_owned())
}

/// Fields that both have, with their type in this program.
pub(super) static FIELDS: LazyLock<BTreeMap<&'static str, FilterType>> = LazyLock::new(|| {
    let is_compared = |name: &str| PROTOCOLS.contains(&name.split('.').next().unwrap_or(name));
    let is_theirs = |name: &str| OF_TSHARK.as_ref().is_some_and(|fields| fields.contains_key(name));
    let entries = FilterFieldCatalog::shared().iter();
    entries.filter(|e| is_compared(e.name) && is_theirs(e.name)).map(|e| (e.name, e.kind)).collect()
});

/// Returns `true` if a field belongs to an RPC message, and not to the frame that carries it.
pub(super) fn is_of_message(field: &str) -> bool {
    let protocol = field.split('.').next().unwrap_or(field);
    !["infiniband", "iwarp_ddp", "iwarp_mpa", "iwarp_rdma", "rpcordma"].contains(&protocol)
}

fn run(command: &mut Command) -> String {
    let output = command.env("TZ", "UTC").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn theirs(capture: &str) -> BTreeMap<u64, Theirs> {
    let mut command = Command::new("tshark");
    command.arg("-2").arg("-r").arg(captures::path(capture)).args(["-T", "fields", "-E", "occurrence=a"]);
    command.arg("-E").arg(format!("aggregator={BETWEEN}"));
    // The client of `tcp-v42` uses the port of DNS over TLS, and its records would be dissected as that.
    command.args(["--disable-protocol", "tls"]);
    for field in ABOUT.iter().chain(FIELDS.keys()) {
        command.args(["-e", field]);
    }
    let text = run(&mut command);
    let frames = text.lines().map(|line| {
        let (about, values): (Vec<&str>, Vec<&str>) = {
            let mut cells: Vec<_> = line.split('\t').collect();
            let values = cells.split_off(ABOUT.len());
            (cells, values)
        };
        let theirs = Theirs {
            values: row(FIELDS.keys().copied().zip(values)),
            is_cut: about[1] != about[2],
            is_malformed: !about[4].is_empty(),
            is_crc_checked: !about[5].is_empty(),
            protocols: about[3].to_owned(),
        };
        (about[0].parse().unwrap(), theirs)
    });
    frames.collect()
}

fn ours(capture: &str) -> BTreeMap<u64, Row> {
    // Fields that no structure of the capture has, and that represent no others, are not requested.
    let reported = field_coverage::reported(capture).names();
    let may_be_there = |name: &str| {
        let origin = FilterFieldCatalog::shared().get(name).map(|entry| &entry.origin);
        reported.contains(name) || !matches!(origin, Some(FilterFieldSource::Structure(_)))
    };
    let fields: Vec<_> = FIELDS.keys().copied().filter(|name| may_be_there(name)).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    command.args(["--view", "frames", "-T", "fields", "-e", "frame.number"]);
    command.arg("-E").arg(format!("aggregator={BETWEEN}"));
    for field in &fields {
        command.args(["-e", field]);
    }
    let text = run(command.arg(captures::path(capture)));
    let frames = text.lines().map(|line| {
        let mut cells = line.split('\t');
        let number = cells.next().and_then(|cell| cell.parse().ok()).unwrap();
        (number, row(fields.iter().copied().zip(cells)))
    });
    frames.collect()
}

fn row<'t>(cells: impl Iterator<Item = (&'static str, &'t str)>) -> Row {
    let cells = cells.filter(|(_, cell)| !cell.is_empty() && *cell != "<MISSING>");
    cells.map(|(field, cell)| (field, cell.split(BETWEEN).map(|value| plain(field, value)).collect())).collect()
}

/// Normalizes a value: numbers in decimal, bytes in hexadecimal, and a placeholder for a structure or a protocol, of
/// which tshark shows its bytes, a sentence or nothing.
fn plain(field: &str, value: &str) -> String {
    let kind = FIELDS.get(field).copied().unwrap_or(FilterType::Text);
    let is_bytes = OF_TSHARK.as_ref().and_then(|fields| fields.get(field)).copied().unwrap_or(false);
    let digits = value.strip_prefix("0x");
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    let plain = match kind {
        FilterType::Protocol | FilterType::Structure => Some("there".to_owned()),
        FilterType::Unsigned | FilterType::Enumeration | FilterType::Flags | FilterType::Boolean => {
            let bytes = (is_bytes && value.len() >= 8 && digits.is_none())
                .then(|| u64::from_str_radix(value, 16).ok())
                .flatten();
            let number = bytes.or_else(|| number(value));
            number.map(|number| if kind == FilterType::Boolean { number.min(1) } else { number }.to_string())
        }
        FilterType::Bytes => match digits {
            Some(digits) => Some(digits.to_owned()),
            // tshark shows a verifier as a number.
            None if !is_bytes && value.len() < 16 => value.parse::<u64>().ok().map(|n| format!("{n:016x}")),
            None => None,
        },
        FilterType::Ipv6 => {
            let address = value.parse::<std::net::Ipv6Addr>().ok();
            let bits = (value.len() == 32).then(|| u128::from_str_radix(value, 16).ok()).flatten();
            address.or(bits.map(std::net::Ipv6Addr::from_bits)).map(|address| address.to_string())
        }
        _ => None,
    };
    plain.unwrap_or_else(|| value.to_owned())
}

/// Frames of both that show the same, for comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// Frame in which tshark shows it.
    pub(super) theirs: u64,
    /// Frame in which this program shows it; it differs if tshark reassembles elsewhere.
    pub(super) ours: u64,
    /// `true` to compare the fields of RPC messages; `false` for those of the frames that carry them.
    pub(super) is_message: bool,
}

impl Shown {
    /// Reads a capture with both programs, if tshark is installed.
    pub(super) fn of(capture: &'static str) -> Self {
        Self { capture, theirs: theirs(capture), ours: ours(capture) }
    }

    /// Returns the pairs: frames, messages in the same frame in both, those that tshark shows in another frame, and
    /// those that one of them does not show.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        self.pair(&mut pairs, false, |row| {
            // Fields that identify an FPDU.
            let names = ["iwarp_mpa.ulpdulength", "iwarp_ddp.stag", "iwarp_ddp.tagged_offset", "iwarp_ddp.msn"];
            row.contains_key("iwarp_mpa.fpdu").then(|| names.map(|name| row.get(name).cloned()).to_vec())
        });
        self.pair(&mut pairs, true, |row| {
            let names = ["rpc.xid", "rpc.msgtyp"];
            row.contains_key("rpc.xid").then(|| names.map(|name| row.get(name).cloned()).to_vec())
        });
        pairs
    }

    fn pair<K: Clone + Eq + std::hash::Hash>(
        &self,
        pairs: &mut Vec<Pair>,
        is_message: bool,
        key: impl Fn(&Row) -> Option<K>,
    ) {
        let (mut alone, mut missed): (HashMap<K, VecDeque<u64>>, _) = (HashMap::new(), Vec::new());
        for (number, theirs) in &self.theirs {
            let empty = Row::new();
            let ours = self.ours.get(number).unwrap_or(&empty);
            let keys = (key(&theirs.values), key(ours));
            if keys.0 == keys.1 {
                pairs.push(Pair { theirs: *number, ours: *number, is_message });
                continue;
            }
            missed.extend(keys.0.map(|key| (*number, key)));
            if let Some(key) = keys.1 {
                alone.entry(key).or_default().push_back(*number);
            }
        }
        for (number, key) in missed {
            let ours = alone.get_mut(&key).and_then(VecDeque::pop_front);
            pairs.push(Pair { theirs: number, ours: ours.unwrap_or(number), is_message });
        }
        let mut left: Vec<u64> = alone.into_values().flatten().collect();
        left.sort_unstable();
        pairs.extend(left.into_iter().map(|number| Pair { theirs: number, ours: number, is_message }));
    }
}
