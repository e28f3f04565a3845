//! `export`: the tables agree with the program's own JSON, and engines answer the documented queries from them.

mod engines;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};

use super::captures::{self, Temporary};
use super::program::{self, Transaction, nanoseconds};
use crate::lint;

/// Temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("nfsrdma-inspect-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn tables(&self) -> PathBuf {
        self.0.join("tables")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"))
        .arg("export")
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("the program does not start: {e}"))
}

fn export(to: &Path, captures: &[PathBuf]) {
    let files: Vec<&Path> = captures.iter().map(PathBuf::as_path).collect();
    let output = run(&[&[Path::new("--to"), to], files.as_slice()].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the rows of a file by column.
fn rows(file: &Path) -> Vec<BTreeMap<String, Value>> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let cell = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::Long(number) | Field::TimestampMicros(number) => json!(number),
        Field::Str(text) => json!(text),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| row.get_column_iter().map(|(name, field)| (name.clone(), cell(field))).collect()).collect()
}

fn table(tables: &Path, table: &str, capture: &Path) -> Vec<BTreeMap<String, Value>> {
    let name = capture.file_name().unwrap().to_string_lossy();
    rows(&tables.join(table).join(format!("capture={name}")).join("part-0.parquet"))
}

/// Returns the value at a path of keys, or null if there is none.
fn at(value: &Value, path: &str) -> Value {
    path.split('.').try_fold(value, |value, key| value.get(key)).cloned().unwrap_or_default()
}

/// Converts `"seconds.nanoseconds"` to nanoseconds.
fn time(value: &Value) -> Value {
    value.as_str().map_or(Value::Null, |text| json!(nanoseconds(text)))
}

fn chunks(transaction: &Value, key: &str) -> Vec<Value> {
    match &transaction[key] {
        Value::Array(chunks) => chunks.clone(),
        Value::Null => Vec::new(),
        chunk => vec![chunk.clone()],
    }
}

fn sum(chunks: &[Value], key: &str) -> u64 {
    chunks
        .iter()
        .flat_map(|chunk| chunk["segments"].as_array().unwrap())
        .filter_map(|segment| segment[key].as_u64())
        .sum()
}

/// Returns the expected row of `transactions` for a line of JSON.
fn transaction_row(line: &Value) -> BTreeMap<String, Value> {
    let mut row = BTreeMap::new();
    for key in [
        "index",
        "connection",
        "transport",
        "client",
        "client_port",
        "server",
        "server_port",
        "vni",
        "direction",
        "xid",
        "program",
        "program_name",
        "version",
        "minor_version",
        "procedure",
        "operation",
        "status",
        "rpc_status",
        "latency_ns",
        "complete",
        "retry_of",
        "path",
        "new_path",
    ] {
        row.insert(key.to_owned(), line[key].clone());
    }
    let vlan_ids = line["vlan_ids"].as_array().map(|ids| ids.iter().map(Value::to_string).collect::<Vec<_>>());
    row.insert("vlan_ids".into(), vlan_ids.map_or(Value::Null, |ids| json!(ids.join(","))));
    row.insert("done".into(), json!(line.get("done") == Some(&Value::Bool(true))));
    for side in ["call", "reply"] {
        let message = &line[side];
        let start = time(&at(message, "time"));
        row.insert(format!("{side}_time"), start.as_u64().map_or(Value::Null, |ns| json!(ns / 1000)));
        row.insert(format!("{side}_time_ns"), start);
        row.insert(format!("{side}_end_time_ns"), time(&at(message, "end_time")));
        row.insert(format!("{side}_frame"), message["frames"].get(0).cloned().unwrap_or_default());
        for (column, path) in [
            ("delivered", "delivered"),
            ("copies", "copies"),
            ("resent", "resent"),
            ("rdma_proc", "rpcrdma.proc"),
            ("credits", "rpcrdma.credits"),
            ("length", "length"),
            ("rpc_length", "rpc_length"),
        ] {
            row.insert(format!("{side}_{column}"), at(message, path));
        }
    }
    for phase in ["call", "data_in", "server", "data_out", "reply", "recovery"] {
        row.insert(format!("phase_{phase}_ns"), at(line, &format!("phases_ns.{phase}")));
    }
    row.insert("possible_recovery".into(), at(line, "possible_recovery.evidence"));
    for kind in ["read", "write"] {
        let chunks = chunks(line, &format!("{kind}_chunks"));
        row.insert(format!("{kind}_chunks"), json!(chunks.len()));
        row.insert(format!("{kind}_offered"), json!(sum(&chunks, "length")));
        row.insert(format!("{kind}_moved"), json!(sum(&chunks, "moved")));
    }
    let reply_chunk = chunks(line, "reply_chunk");
    for (column, key) in [("offered", "length"), ("moved", "moved")] {
        let value = if reply_chunk.is_empty() { Value::Null } else { json!(sum(&reply_chunk, key)) };
        row.insert(format!("reply_chunk_{column}"), value);
    }
    let missing: Vec<&str> = line["missing"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    row.insert("missing".into(), if missing.is_empty() { Value::Null } else { json!(missing.join(" ")) });
    row
}

fn segment_rows(line: &Value) -> Vec<BTreeMap<String, Value>> {
    let mut rows = Vec::new();
    for (kind, key) in [
        ("read", "read_chunks"),
        ("write", "write_chunks"),
        ("reply", "reply_chunk"),
        ("reply_read", "reply_read_chunks"),
    ] {
        for (number, chunk) in chunks(line, key).iter().enumerate() {
            for (place, segment) in chunk["segments"].as_array().unwrap().iter().enumerate() {
                let row = json!({
                    "transaction": line["index"], "kind": kind, "chunk": number, "segment": place,
                    "position": at(chunk, "position"), "handle": segment["handle"], "offset": segment["offset"],
                    "length": segment["length"], "returned": at(segment, "returned"), "moved": segment["moved"],
                    "first_frame": segment["frames"].get(0), "last_frame": segment["frames"].get(1),
                });
                rows.push(row.as_object().unwrap().clone().into_iter().collect());
            }
        }
    }
    rows
}

#[test]
fn the_tables_have_the_values_of_json() {
    let folder = Folder::new("export-equal");
    for name in ["rxe-v3", "rxe-v42-deleg", "rxe-v42-loss", "rxe-v42-mid", "rxe-v42-snap128", "tcp-v42"] {
        let capture = captures::path(name);
        export(&folder.tables(), std::slice::from_ref(&capture));
        let lines: Vec<Value> = program::json(&capture).transactions.into_iter().map(|line| line.0).collect();
        let of = |of: &str| table(&folder.tables(), of, &capture);
        let transactions: Vec<_> = lines.iter().map(transaction_row).collect();
        for (row, line) in of("transactions").iter().zip(&transactions) {
            assert_eq!(row, line, "{name}");
        }
        assert_eq!(of("transactions").len(), transactions.len());
        assert_eq!(of("segments"), lines.iter().flat_map(segment_rows).collect::<Vec<_>>(), "{name}");
    }
}

/// A file size limit of 512 bytes, equivalent to a full disk.
#[test]
fn an_export_that_fails_leaves_no_folder_that_it_made() {
    let folder = Folder::new("failed");
    let capture = captures::path("rxe-v42");
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(folder.tables()).unwrap();
        }
        let script = "ulimit -f 1; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_nfsrdma-inspect"), "export"]);
        let ended = command.arg(&capture).arg("--to").arg(folder.tables()).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert_eq!(folder.tables().exists(), is_there);
        assert!(!is_there || fs::read_dir(folder.tables()).unwrap().next().is_none());
    }
}

#[test]
fn operations_are_those_of_the_json_with_the_file_that_they_work_on() {
    let folder = Folder::new("export-operations");
    let capture = captures::path("rxe-v42");
    export(&folder.tables(), std::slice::from_ref(&capture));
    let rows = table(&folder.tables(), "operations", &capture);
    let lines = program::json(&capture).transactions;
    let mut expected = Vec::new();
    let mut paths = Vec::new();
    for line in &lines {
        let operations = line.0["operations"].as_array().unwrap();
        for (position, operation) in operations.iter().enumerate() {
            // Paths are inferred by the views from other Transactions, and have their own column.
            paths.push(operation.get("path").cloned().unwrap_or_default());
            let mut operation = operation.clone();
            operation.as_object_mut().unwrap().retain(|key, _| !matches!(key.as_str(), "path" | "new_path"));
            expected.push((line.0["index"].clone(), json!(position), operation));
        }
        if operations.is_empty() {
            paths.push(line.0.get("path").cloned().unwrap_or_default());
            let both = json!({ "arguments": line.0["arguments"], "results": line.0["results"] });
            expected.push((line.0["index"].clone(), json!(0), both));
        }
    }
    // An empty body is omitted from a line, and is an empty object in the table.
    let detail = |row: &BTreeMap<String, Value>| {
        let mut value: Value = serde_json::from_str(row["detail"].as_str().unwrap()).unwrap();
        for key in ["arguments", "results"] {
            if value[key].as_object().is_some_and(|members| members.is_empty()) {
                value[key] = Value::Null;
            }
        }
        let operation = value.as_object_mut().unwrap();
        if operation.contains_key("op") {
            operation.retain(|key, _| !matches!(key.as_str(), "arguments" | "results"));
        }
        value
    };
    let given: Vec<_> =
        rows.iter().map(|row| (row["transaction"].clone(), row["position"].clone(), detail(row))).collect();
    assert_eq!(given, expected);
    assert_eq!(rows.iter().map(|row| row["path"].clone()).collect::<Vec<_>>(), paths);

    let write = rows.iter().find(|row| row["op"] == "WRITE" && row["data"] == 8192).unwrap();
    assert_eq!((&write["offset"], &write["count"], &write["status"]), (&json!(0), &json!(8192), &json!("NFS4_OK")));
    // The file was opened by name before, in another COMPOUND.
    let opened = rows.iter().find(|row| row["result_filehandle"] == write["filehandle"]).unwrap();
    assert_eq!((&opened["op"], &opened["name"]), (&json!("GETFH"), &json!("s8k")));
}

/// RFC 8881 sections 18.9 and 18.26, RFC 7862 sections 15.2 and 15.13: the saved filehandle is the source. The capture was
/// written by a script that shares no code with the program.
#[test]
fn rows_of_two_objects_have_both() {
    let folder = Folder::new("export-every-operation");
    let capture = captures::path("cases/every-operation");
    export(&folder.tables(), std::slice::from_ref(&capture));
    let rows = table(&folder.tables(), "operations", &capture);
    let handle =
        |number: u8| json!(format!("handle-{number:02}").bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
    let null = Value::Null;
    for (op, source, target, name, target_name, offsets) in [
        ("RENAME", 3, 4, json!("before"), json!("after"), [null.clone(), null.clone()]),
        ("LINK", 1, 4, null.clone(), json!("linked"), [null.clone(), null.clone()]),
        ("COPY", 1, 2, null.clone(), null.clone(), [json!(1), json!(2)]),
        ("CLONE", 1, 2, null.clone(), null.clone(), [json!(1), json!(2)]),
    ] {
        // Answered, failed and without reply.
        let of_op: Vec<_> = rows.iter().filter(|row| row["op"] == op).collect();
        assert_eq!(of_op.len(), 3, "{op}");
        for row in of_op {
            assert_eq!((&row["filehandle"], &row["target_filehandle"]), (&handle(source), &handle(target)), "{op}");
            assert_eq!((&row["name"], &row["target_name"]), (&name, &target_name), "{op}");
            assert_eq!([&row["offset"], &row["target_offset"]], [&offsets[0], &offsets[1]], "{op}");
        }
    }
    // What the server returned is what the operations before it lead to.
    let given: Vec<_> = rows.iter().filter(|row| row["op"] == "GETFH" && row["status"] == "NFS4_OK").collect();
    assert!(given.len() > 60 && given.iter().all(|row| row["filehandle"] == row["result_filehandle"]));
    let puts = rows.iter().filter(|row| row["op"] == "PUTFH").collect::<Vec<_>>();
    assert!(
        puts.len() > 300 && puts.iter().all(|row| row["target_filehandle"].is_null() && row["filehandle"].is_string())
    );
}

#[test]
fn procedures_of_nfsv3_are_operations_of_their_own() {
    let folder = Folder::new("export-v3");
    let capture = captures::path("rxe-v3");
    export(&folder.tables(), std::slice::from_ref(&capture));
    let rows = table(&folder.tables(), "operations", &capture);
    let create = rows.iter().find(|row| row["op"] == "CREATE" && row["name"] == "s8k").unwrap();
    // RFC 1813 section 3.3.14: two directories, each with a name.
    let rename = rows.iter().find(|row| row["op"] == "RENAME").unwrap();
    for column in ["filehandle", "name", "target_filehandle", "target_name"] {
        assert!(rename[column].is_string(), "{column}");
    }
    assert_ne!(rename["name"], rename["target_name"]);
    let write = rows.iter().find(|row| row["op"] == "WRITE" && row["data"] == 8192).unwrap();
    assert_eq!(create["result_filehandle"], write["filehandle"]);
    for op in ["GETACL", "SETACL", "LOCK", "UNLOCK"] {
        let mut of_op = rows.iter().filter(|row| row["op"] == op).peekable();
        assert!(of_op.peek().is_some() && of_op.all(|row| row["filehandle"].is_string()), "{op}");
    }
    let mount = rows.iter().find(|row| row["op"] == "MNT").unwrap();
    assert_eq!(mount["result_filehandle"], "0100010000000000");
    assert_eq!((&write["offset"], &write["status"], &write["position"]), (&json!(0), &json!("NFS3_OK"), &json!(0)));
}

/// Adds tags after the addresses of an Ethernet frame.
fn tagged(bytes: &[u8], tags: &[u8]) -> Vec<u8> {
    [&bytes[..12], tags, &bytes[12..]].concat()
}

/// IEEE 802.1Q section 9.6, RFC 7348 section 5: two tags around a frame in VXLAN, of which the inner frame has one,
/// too.
#[test]
fn the_tables_name_the_virtual_network() {
    let folder = Folder::new("export-networks");
    let plain = crate::tunnels::only_ip("rxe-v42-deleg");
    let cases = [
        (
            "tags",
            crate::tunnels::wrapped(&plain, |bytes, _| tagged(bytes, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5])),
            json!("7,5"),
            Value::Null,
        ),
        (
            "vxlan",
            crate::tunnels::wrapped(&plain, |bytes, n| crate::tunnels::vxlan(&tagged(bytes, &[0x81, 0, 0, 6]), n + 4)),
            json!("6"),
            json!(100),
        ),
    ];
    for (name, frames, vlan_ids, vni) in cases {
        let file = Temporary::new(&format!("{name}.pcap"), &crate::tunnels::pcap(&frames));
        let capture = file.path().to_owned();
        export(&folder.tables(), std::slice::from_ref(&capture));
        for kind in ["transactions", "connections"] {
            let rows = table(&folder.tables(), kind, &capture);
            assert!(!rows.is_empty());
            for row in rows {
                assert_eq!((&row["vlan_ids"], &row["vni"]), (&vlan_ids, &vni), "{name}: {kind}");
            }
        }
        let csv = program::output(&capture, &["-T", "csv"]);
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let at = lines.next().unwrap().iter().position(|column| *column == "nfsrdma.vlan_id").unwrap();
        let outermost = vlan_ids.as_str().unwrap().split(',').next();
        assert!(lines.all(|cells| cells.get(at).copied() == outermost), "{csv}");
    }
}

#[test]
fn connections_add_up_to_their_transactions() {
    let folder = Folder::new("export-connections");
    let capture = captures::path("rxe-v42-krb5");
    export(&folder.tables(), std::slice::from_ref(&capture));
    let lines = program::json(&capture);
    let listed = &lines.summary.unwrap()["connections"]["listed"];
    let mut listed: Vec<Value> = listed.as_array().unwrap().clone();
    listed.sort_by_key(|connection| connection["connection"].as_u64());
    let rows = table(&folder.tables(), "connections", &capture);
    assert_eq!(rows.len(), listed.len());
    for (row, listed) in rows.iter().zip(&listed) {
        for key in
            ["connection", "transport", "client", "client_port", "server", "server_port", "transactions", "bytes"]
        {
            assert_eq!(row[key], listed[key], "{key}");
        }
        let mine = |one: &&Transaction| one.0["connection"] == row["connection"];
        let first = lines.transactions.iter().filter(mine).filter_map(Transaction::call_time).min();
        assert_eq!(row["first_time_ns"].as_u64(), first);
    }
}

#[test]
fn findings_are_those_of_lint() {
    let folder = Folder::new("export-findings");
    let broken = lint::broken("export");
    let mut rules = std::collections::BTreeSet::new();
    for capture in [broken.path().to_owned(), captures::path("rxe-v42-loss"), captures::path("tcp-v42")] {
        export(&folder.tables(), std::slice::from_ref(&capture));
        let lines = lint::text(&lint::lint(&["-T", "json"], Some(&capture)), 0);
        let findings = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut expected: Vec<BTreeMap<String, Value>> = Vec::new();
        for finding in findings.filter(|line| line["kind"] == "finding") {
            rules.insert((finding["rule"].as_str().unwrap().to_owned(), finding["transaction"].is_null()));
            let mut row = BTreeMap::new();
            for key in [
                "rule",
                "severity",
                "known",
                "section",
                "text",
                "side",
                "address",
                "connection",
                "transaction",
                "xid",
                "count",
            ] {
                row.insert(key.to_owned(), finding.get(key).cloned().unwrap_or_default());
            }
            row.insert("first_frame".to_owned(), finding["frames"][0].clone());
            let time_ns = nanoseconds(finding["time"].as_str().unwrap());
            row.insert("time_ns".to_owned(), json!(time_ns));
            row.insert("time".to_owned(), json!(time_ns / 1000));
            expected.push(row);
        }
        let mut rows = table(&folder.tables(), "findings", &capture);
        let order = |row: &BTreeMap<String, Value>| serde_json::to_string(row).unwrap();
        rows.sort_by_key(order);
        expected.sort_by_key(order);
        assert_eq!(rows, expected, "{}", capture.display());
    }
    // One about a Transaction, and one about a connection.
    assert!(rules.contains(&("rpcrdma/credit-zero".to_owned(), false)), "{rules:?}");
    assert!(rules.iter().any(|(_, is_of_connection)| *is_of_connection), "{rules:?}");
}

#[test]
fn an_export_takes_the_place_of_the_one_before() {
    let folder = Folder::new("export-again");
    let capture = captures::path("rxe-v42-deleg");
    export(&folder.tables(), std::slice::from_ref(&capture));
    let partition = folder.tables().join("segments").join("capture=rxe-v42-deleg.pcap");
    let before = fs::read(partition.join("part-0.parquet")).unwrap();
    // Files of an export with more parts, and of one that was killed.
    fs::write(partition.join("part-1.parquet"), "old").unwrap();
    fs::write(partition.join(".part-0.parquet.Ab12Cd.unfinished"), "torn").unwrap();
    export(&folder.tables(), std::slice::from_ref(&capture));
    let names: Vec<_> = fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["part-0.parquet"]);
    assert_eq!(fs::read(partition.join("part-0.parquet")).unwrap(), before);
}

#[test]
fn a_truncated_capture_is_exported_and_other_files_are_not() {
    let folder = Folder::new("export-torn");
    let bytes = captures::bytes("rxe-v42-deleg");
    let (torn, text) = (folder.0.join("torn.pcap"), folder.0.join("text.pcap"));
    fs::write(&torn, &bytes[..bytes.len() - 100]).unwrap();
    fs::write(&text, "no capture").unwrap();
    let tables = folder.tables();
    let output = run(&[Path::new("--to"), &tables, &text, &torn]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("text.pcap: not a capture file") && said.contains("torn.pcap: frame "), "{said}");
    assert!(!table(&tables, "transactions", &torn).is_empty());
    assert!(!tables.join("transactions").join("capture=text.pcap").exists());
}

#[test]
fn captures_need_distinct_names() {
    let folder = Folder::new("export-names");
    let capture = captures::path("rxe-v42-deleg");
    let tables = folder.tables();
    let refused = |arguments: &[&Path]| {
        let output = run(&[&[Path::new("--to"), tables.as_path()], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&[&capture, &capture]).contains("has the same name"));
    assert!(refused(&[Path::new("-")]).contains("give one with --name"));
    let output = run(&[Path::new("--to"), &tables, Path::new("--name"), Path::new("a/b=c"), &capture]);
    assert!(output.status.success());
    assert!(tables.join("transactions/capture=a%2Fb%3Dc/part-0.parquet").exists());
}

/// As `mkdir` without `-p`.
#[test]
fn the_last_directory_is_created_and_one_above_must_exist() {
    let folder = Folder::new("above");
    let capture = captures::path("rxe-v42");
    let above = folder.0.join("above");
    let to = above.join("tables");
    let output = run(&[Path::new("--to"), &to, &capture]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let expected = format!("{}: cannot write: no such directory {}; create it", to.display(), above.display());
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(!above.exists());

    fs::create_dir(&above).unwrap();
    export(&to, std::slice::from_ref(&capture));
    // With a slash at the end, and into a directory that exists.
    export(&PathBuf::from(format!("{}/", above.join("others").display())), std::slice::from_ref(&capture));
    export(&to, std::slice::from_ref(&capture));
    for tables in [to, above.join("others")] {
        assert_eq!(table(&tables, "transactions", &capture).len(), 237);
    }
}

#[test]
fn an_unwritable_destination_is_reported_in_one_line() {
    let folder = Folder::new("export-refused");
    fs::write(folder.tables(), "a file").unwrap();
    let output = run(&[Path::new("--to"), &folder.tables(), &captures::path("rxe-v42-deleg")]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("tables: cannot write: ") && said.lines().count() == 1, "{said}");
}
