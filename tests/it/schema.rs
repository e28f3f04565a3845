//! `docs/transaction.schema.json` and `docs/summary.schema.json` are the schemas of `-T json`, and every line of every
//! capture is valid.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::captures;
use crate::program;

const SCHEMAS: [&str; 10] = [
    "transaction.schema.json",
    "pending.schema.json",
    "summary.schema.json",
    "operation.schema.json",
    "connection.schema.json",
    "comparison.schema.json",
    "probe.schema.json",
    "plan.schema.json",
    "replay.schema.json",
    "lint.schema.json",
];

fn schema(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

pub(crate) fn assert_keeps(validator: &jsonschema::Validator, line: &Value, name: &str) {
    let errors: Vec<_> = validator.iter_errors(line).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?} in {line}");
}

/// Returns a validator that also refuses keys that the schema does not describe. The published schemas permit them, so
/// that readers keep working when later versions add keys.
pub(crate) fn validator(file: &str) -> jsonschema::Validator {
    let mut schema = schema(file);
    refuse_unknown_keys(&mut schema);
    jsonschema::draft202012::new(&schema).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn refuse_unknown_keys(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    for keyword in ["properties", "$defs"] {
        let named = members.get_mut(keyword).and_then(Value::as_object_mut);
        named.into_iter().flat_map(|named| named.values_mut()).for_each(refuse_unknown_keys);
    }
    let alternatives = members.get_mut("oneOf").and_then(Value::as_array_mut);
    alternatives.into_iter().flatten().for_each(refuse_unknown_keys);
    for keyword in ["items", "additionalProperties"] {
        members.get_mut(keyword).into_iter().for_each(refuse_unknown_keys);
    }
    if members.contains_key("properties") {
        members.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Verifies that every key of a schema has a description.
fn assert_described(schema: &Value, path: &str) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        assert!(value["description"].is_string() || value["const"].is_string(), "{path}/{key} has no description");
        assert_described(value, &format!("{path}/{key}"));
        assert_described(&value["items"], &format!("{path}/{key}"));
    }
    for (key, value) in schema["$defs"].as_object().into_iter().flatten() {
        assert_described(value, key);
    }
}

#[test]
fn every_key_of_the_schemas_is_described() {
    for file in SCHEMAS {
        assert_described(&schema(file), file);
    }
}

#[test]
fn the_schemas_are_schemas() {
    for file in SCHEMAS {
        assert!(jsonschema::meta::is_valid(&schema(file)), "{file}");
    }
}

#[test]
fn every_line_of_every_capture_keeps_the_schema() {
    let (transaction, summary) = (validator("transaction.schema.json"), validator("summary.schema.json"));
    for name in captures::ALL {
        let lines = program::json(&captures::path(name));
        for line in &lines.transactions {
            assert_keeps(&transaction, &line.0, name);
        }
        assert_keeps(&summary, lines.summary.as_ref().unwrap_or(&Value::Null), name);
    }
}

#[test]
fn transactions_are_numbered_from_one_in_order() {
    for name in captures::ALL {
        let lines = program::json(&captures::path(name));
        let numbers: Vec<_> = lines.transactions.iter().map(|t| t.0["index"].as_u64()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).map(Some).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn the_phases_of_a_transaction_sum_up_to_its_latency() {
    for name in captures::ALL {
        for transaction in program::json(&captures::path(name)).transactions {
            let phases = &transaction.0["phases_ns"];
            let sum: Option<u64> = phases.as_object().map(|phases| phases.values().filter_map(Value::as_u64).sum());
            assert_eq!(sum, transaction.0["latency_ns"].as_u64(), "{name}: {transaction:?}");
        }
    }
}

/// Converts ISO 8601 to seconds since 1970 with nine decimals, counting days year by year and month by month, unlike
/// the program.
fn epoch(iso: &str) -> String {
    let number = |range: std::ops::Range<usize>| iso[range].parse::<i64>().unwrap();
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let months = |year| [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (year, month) = (number(0..4), number(5..7));
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let days = years + months(year).iter().take(month as usize - 1).sum::<i64>() + number(8..10) - 1;
    let seconds = ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19);
    format!("{seconds}.{}", &iso[20..29])
}

#[test]
fn with_t_iso_each_time_has_a_second_key_in_iso_8601() {
    let lines = |arguments: &[&str]| -> Vec<Value> {
        let capture = captures::path("rxe-v42");
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        let output = program.args(["-T", "json"]).args(arguments).arg(capture).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut found = 0;
    let mut hold = |object: &Value| {
        for key in ["time", "end_time"] {
            let iso = object[format!("{key}_iso")].as_str().unwrap_or_else(|| panic!("{object}"));
            assert_eq!(object[key], epoch(iso), "{iso}");
            found += 1;
        }
    };
    let transaction = validator("transaction.schema.json");
    let all = lines(&["-t", "iso"]);
    let (summary, transactions) = all.split_last().unwrap();
    for line in transactions {
        assert_keeps(&transaction, line, "-t iso");
        hold(&line["call"]);
        hold(&line["reply"]);
    }
    assert_keeps(&validator("summary.schema.json"), summary, "-t iso");
    hold(summary);
    let connections = lines(&["-t", "iso", "--view", "connections"]);
    assert_keeps(&validator("connection.schema.json"), &connections[0], "-t iso");
    hold(&connections[0]);
    assert_eq!(found, 2 * (2 * 237 + 2));
    // Without the option there is no such key.
    assert!(lines(&[]).iter().all(|line| !line.to_string().contains("_iso")));
}
