//! `docs/transaction.schema.json` and `docs/summary.schema.json` state the contract of `-T json`, and every line of
//! every capture keeps it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::captures;
use crate::program;

const SCHEMAS: [&str; 9] = [
    "transaction.schema.json",
    "pending.schema.json",
    "summary.schema.json",
    "operation.schema.json",
    "connection.schema.json",
    "comparison.schema.json",
    "probe.schema.json",
    "plan.schema.json",
    "replay.schema.json",
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

pub(crate) fn validator(file: &str) -> jsonschema::Validator {
    jsonschema::draft202012::new(&schema(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Every object of a schema that describes a key says what it is, in words.
fn assert_described(schema: &Value, path: &str) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        assert!(
            value["description"].is_string() || value["const"].is_string(),
            "{path}/{key} has no description"
        );
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
            let sum: Option<u64> =
                phases.as_object().map(|phases| phases.values().filter_map(Value::as_u64).sum());
            assert_eq!(sum, transaction.0["latency_ns"].as_u64(), "{name}: {transaction:?}");
        }
    }
}
