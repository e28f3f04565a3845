//! Runs the program with `-T json` and parses its lines (`docs/transaction.schema.json`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Lines of one run: the Transactions in order, then the summary.
pub(crate) struct Lines {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) summary: Option<Value>,
}

/// Runs `nfsrdma-inspect -T json CAPTURE`. Panics if the run fails or has no output.
pub(crate) fn json(capture: &Path) -> Lines {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(["-T", "json"])
        .arg(capture)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}: {error}", capture.display(), output.status);
    let text = String::from_utf8(output.stdout).expect("JSON Lines are UTF-8");
    let mut lines = Lines { transactions: Vec::new(), summary: None };
    for line in text.lines() {
        assert!(lines.summary.is_none(), "the summary is the last line, but there is {line}");
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("no JSON: {e}: {line}"));
        match value["kind"].as_str() {
            Some("transaction") => lines.transactions.push(Transaction(value)),
            Some("summary") => lines.summary = Some(value),
            _ => panic!("a line of no known kind: {line}"),
        }
    }
    assert!(!lines.transactions.is_empty(), "no transaction came out of {}: {error}", capture.display());
    lines
}

/// Returns the standard output of the program. Panics if the run fails.
pub(crate) fn output(capture: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .args(arguments)
        .arg(capture)
        .env("COLUMNS", "200")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Line of kind `transaction`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transaction(pub(crate) Value);

impl Transaction {
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0[key].as_str()
    }

    pub(crate) fn is_forward(&self) -> bool {
        self.text("direction") == Some("forward")
    }

    pub(crate) fn is_rdma(&self) -> bool {
        !matches!(self.text("transport"), Some("tcp" | "udp"))
    }

    pub(crate) fn is_nfs(&self) -> bool {
        self.text("program_name") == Some("NFS")
    }

    pub(crate) fn xid(&self) -> u32 {
        let text = self.text("xid").unwrap_or_else(|| panic!("no xid: {self:?}"));
        let digits = text.strip_prefix("0x").unwrap_or_else(|| panic!("xid is not hexadecimal: {text}"));
        u32::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("xid {text}: {e}"))
    }

    /// Returns the `call` or `reply` of the Transaction, if it was captured.
    pub(crate) fn message(&self, side: &str) -> Option<&Value> {
        self.0.get(side).filter(|message| !message.is_null())
    }

    /// Returns the time of the first frame of the Call, in nanoseconds since 1970.
    pub(crate) fn call_time(&self) -> Option<u64> {
        let time = self.message("call")?["time"].as_str().unwrap_or_else(|| panic!("no time: {self:?}"));
        Some(nanoseconds(time))
    }

    /// Returns the operations of a COMPOUND: the name of each, and its entry.
    pub(crate) fn operations(&self) -> Vec<(&str, &Value)> {
        let entries = self.0["operations"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries.iter().map(|entry| (entry["op"].as_str().unwrap_or("?"), entry)).collect()
    }

    /// Returns the entry of the first operation of this name.
    pub(crate) fn entry(&self, operation: &str) -> Option<&Value> {
        self.operations().into_iter().find(|(name, _)| *name == operation).map(|(_, entry)| entry)
    }

    /// Returns `true` if the Reply reports a failure.
    pub(crate) fn has_failed(&self) -> bool {
        let is_ok = |status: &str| status.ends_with("_OK") || status == "NLM4_GRANTED";
        self.message("reply").is_some()
            && (self.text("rpc_status") != Some("SUCCESS") || self.text("status").is_some_and(|s| !is_ok(s)))
    }

    pub(crate) fn missing(&self) -> Vec<&str> {
        let codes = self.0["missing"].as_array().unwrap_or_else(|| panic!("no missing: {self:?}"));
        codes.iter().filter_map(Value::as_str).collect()
    }

    /// Returns the segments of the chunks under these keys: `read_chunks`, `write_chunks`, `reply_chunk`.
    pub(crate) fn segments(&self, key: &str) -> Vec<&Value> {
        let chunks = match &self.0[key] {
            Value::Array(chunks) => chunks.iter().collect(),
            Value::Null => Vec::new(),
            chunk => vec![chunk],
        };
        chunks.into_iter().flat_map(|chunk| chunk["segments"].as_array().into_iter().flatten()).collect()
    }
}

/// Returns a number under a key, or panics with the key.
pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no number in {value}"))
}

/// Returns the frame numbers of a message.
pub(crate) fn frames(message: &Value) -> Vec<u64> {
    let frames = message["frames"].as_array().unwrap_or_else(|| panic!("no frames in {message}"));
    frames.iter().filter_map(Value::as_u64).collect()
}

/// Converts `"seconds.nanoseconds"`, or a fraction of fewer digits, to nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> u64 {
    let (seconds, fraction) = text.split_once('.').unwrap_or_else(|| panic!("no time: {text}"));
    let seconds: u64 = seconds.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let fraction: u64 = format!("{fraction:0<9}").parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    seconds * 1_000_000_000 + fraction
}
