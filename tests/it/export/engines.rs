//! Engines answer the documented queries from the tables.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Folder, at, export};
use crate::captures;
use crate::program::{self, Transaction, nanoseconds};
use crate::skipped::{skip, skip_without};

/// Returns the blocks of `docs/scale-out.md` in a language.
fn shown(language: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scale-out.md")).unwrap();
    let start = format!("```{language}\n");
    text.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Returns a Python that has a module: that of `NFSRDMA_PYTHON`, which the Makefile sets, or `python3`.
fn python_with(module: &str) -> Option<PathBuf> {
    let named = env::var_os("NFSRDMA_PYTHON").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("python3")]).find(|python| {
        let output = Command::new(python).args(["-c", &format!("import {module}")]).output();
        output.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skip(module, format_args!("there is no Python with the module {module}"));
    }
    found
}

/// Runs a script in a folder, and returns the lines of JSON that it wrote to `answers`.
fn answers(python: &Path, folder: &Folder, script: &str, arguments: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let file = folder.0.join("script.py");
    fs::write(&file, script).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_nfsrdma-inspect")).parent().unwrap();
    let path = env::join_paths(env::split_paths(&env::var_os("PATH").unwrap()).chain([program.to_owned()])).unwrap();
    let output = Command::new(python)
        .arg(&file)
        .args(arguments)
        .current_dir(&folder.0)
        .env("PATH", path)
        .env("PYSPARK_PYTHON", python)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(folder.0.join("answers")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const CAPTURES: [&str; 4] = ["rxe-v3", "rxe-v42", "rxe-v42-conc-head", "tcp-v42"];

/// Returns the lines of each capture, each with the name of its file.
fn lines() -> Vec<(String, Transaction)> {
    let of = |name: &&str| {
        let path = captures::path(name);
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        program::json(&path).transactions.into_iter().map(move |line| (file.clone(), line))
    };
    CAPTURES.iter().flat_map(of).collect()
}

/// Returns a percentile (SQL: percentile_disc).
fn percentile(sorted: &[u64], part: f64) -> u64 {
    sorted[((sorted.len() as f64 * part).ceil() as usize).max(1) - 1]
}

/// Returns the expected result of the first query.
fn latencies(lines: &[(String, Transaction)]) -> Vec<Vec<Value>> {
    let mut groups: BTreeMap<(String, Option<String>), Vec<u64>> = BTreeMap::new();
    for (_, line) in lines {
        if let Some(latency) = line.0["latency_ns"].as_u64() {
            let key = (line.text("client").unwrap().to_owned(), line.text("operation").map(str::to_owned));
            groups.entry(key).or_default().push(latency);
        }
    }
    let mut rows: Vec<_> = groups
        .into_iter()
        .map(|((client, operation), mut latencies)| {
            latencies.sort_unstable();
            let (p50, p99) = (percentile(&latencies, 0.5), percentile(&latencies, 0.99));
            (std::cmp::Reverse(p99), json!([client, operation, latencies.len(), p50, p99, latencies.last()]))
        })
        .collect();
    // Those of one client and operation are in order already.
    rows.sort_by_key(|(p99, _)| *p99);
    rows.into_iter().map(|(_, row)| row.as_array().unwrap().clone()).collect()
}

/// Returns the expected result of the second query by file: operations, bytes and nanoseconds.
fn files(lines: &[(String, Transaction)]) -> BTreeMap<(String, String), (u64, u64, u64)> {
    let mut files: BTreeMap<_, (u64, u64, u64)> = BTreeMap::new();
    for (capture, line) in lines {
        let Some(latency) = line.0["latency_ns"].as_u64() else { continue };
        let mut note = |handle: &str, data: u64| {
            let file = files.entry((capture.clone(), handle.to_owned())).or_default();
            *file = (file.0 + 1, file.1 + data, file.2 + latency);
        };
        if let Some(handle) = at(&line.0, "arguments.file").as_str()
            && let Some("READ" | "WRITE") = line.text("operation")
        {
            let data = at(&line.0, "arguments.data").as_u64().or(at(&line.0, "results.data").as_u64());
            note(handle, data.unwrap_or(0));
        }
        // Linux sends PUTFH right before these operations.
        for pair in line.operations().windows(2) {
            if let [("PUTFH", put), ("READ" | "READ_PLUS" | "WRITE", entry)] = pair {
                note(put["object"].as_str().unwrap(), entry["data"].as_u64().unwrap_or(0));
            }
        }
    }
    files
}

/// Returns the expected result of the third query if Replies grant at most `most` credits: Calls, starved Calls,
/// maximum Calls in flight, and minimum credits.
fn starvation(lines: &[(String, Transaction)], most: u64) -> (u64, u64, u64, u64) {
    let mut events: BTreeMap<_, Vec<(u64, bool, u64)>> = BTreeMap::new();
    for (capture, line) in lines {
        let credits = |side: &str| line.message(side)?["rpcrdma"]["credits"].as_u64();
        let Some(called) = line.call_time().filter(|_| credits("call").is_some()) else { continue };
        let key = (capture, line.0["connection"].as_u64(), line.is_forward());
        let of = events.entry(key).or_default();
        of.push((called, true, 0));
        if let Some(granted) = credits("reply") {
            let end = line.message("reply").unwrap()["end_time"].as_str().unwrap();
            of.push((nanoseconds(end), false, granted.min(most)));
        }
    }
    let (mut calls, mut starved, mut largest, mut fewest) = (0, 0, 0, u64::MAX);
    for mut events in events.into_values() {
        events.sort_unstable();
        let (mut under_way, mut credits) = (0_u64, None);
        for (_, is_call, granted) in events {
            if is_call {
                under_way += 1;
                calls += 1;
                starved += u64::from(credits.is_some_and(|credits| under_way >= credits));
                largest = largest.max(under_way);
                fewest = fewest.min(credits.unwrap_or(u64::MAX));
            } else {
                under_way -= 1;
                credits = Some(granted);
            }
        }
    }
    (calls, starved, largest, fewest)
}

/// Compares the results of the three queries with the JSON.
fn hold(answers: &[Vec<Vec<Value>>], lines: &[(String, Transaction)]) {
    let number = |value: &Value| value.as_f64().unwrap() as u64;
    let [by_operation, by_file, by_hour] = answers else { panic!("{answers:?}") };
    let whole: Vec<Vec<Value>> = by_operation
        .iter()
        .map(|row| row.iter().map(|cell| if cell.is_number() { json!(number(cell)) } else { cell.clone() }).collect())
        .collect();
    assert_eq!(whole, latencies(lines));

    let files = files(lines);
    let mut slowest: Vec<u64> = files.values().map(|(_, _, total)| *total).collect();
    slowest.sort_unstable_by_key(|total| std::cmp::Reverse(*total));
    assert_eq!(by_file.iter().map(|row| number(&row[5])).collect::<Vec<_>>(), slowest[..20]);
    for row in by_file {
        let [capture, handle] = [0, 1].map(|at| row[at].as_str().unwrap().to_owned());
        assert_eq!((number(&row[3]), number(&row[4]), number(&row[5])), files[&(capture, handle)], "{row:?}");
    }
    assert!(by_file.iter().any(|row| row[2] == "/data/w/s256k"), "{by_file:?}");

    let add = |at: usize| by_hour.iter().map(|row| number(&row[at])).sum::<u64>();
    let largest = by_hour.iter().map(|row| number(&row[4])).max().unwrap();
    let fewest = by_hour.iter().filter(|row| !row[5].is_null()).map(|row| number(&row[5])).min().unwrap();
    assert_eq!((add(2), add(3), largest, fewest), starvation(lines, u64::MAX));
    assert_eq!((by_hour[0][0].as_str(), number(&by_hour[0][1])), (Some("2026-11-21"), 3));
}

#[test]
fn duckdb_answers_documented_queries_with_the_sums_of_json() {
    let Some(python) = python_with("duckdb") else { return };
    let folder = Folder::new("export-duckdb");
    export(&folder.tables(), &CAPTURES.map(captures::path));
    let queries = json!(shown("sql"));
    let script = format!(
        "{}
import json
def answer(query):
    rows = db.execute(query).fetchall()
    print(json.dumps([[str(cell) if hasattr(cell, 'year') else cell for cell in row] for row in rows], default=int), file=out)
queries = {queries}
with open('answers', 'w') as out:
    for query in queries:
        answer(query)
    # As if replies granted 2 credits at most: the captures starve no call.
    db.execute('''CREATE VIEW all_transactions AS SELECT * FROM read_parquet(
        'tables/transactions/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)''')
    db.execute('''CREATE OR REPLACE VIEW transactions AS
        SELECT * REPLACE (least(reply_credits, 2) AS reply_credits) FROM all_transactions''')
    answer(queries[2])
",
        shown("python")[0],
    );
    let mut answers = answers(&python, &folder, &script, &[]);
    let starved = answers.pop().unwrap();
    let lines = lines();
    hold(&answers, &lines);
    let number = |at: usize| starved.iter().map(|row| row[at].as_u64().unwrap()).sum::<u64>();
    let expected = starvation(&lines, 2);
    assert!(expected.1 > 0);
    assert_eq!((number(2), number(3)), (expected.0, expected.1));
}

#[test]
fn spark_runs_the_documented_job_and_answers_the_same_queries() {
    let Some(python) = python_with("pyspark") else { return };
    if Command::new("java").arg("-version").output().is_err() {
        skip_without("java");
        return;
    }
    let folder = Folder::new("export-spark");
    let names = CAPTURES.map(|name| captures::path(name).to_string_lossy().into_owned());
    fs::write(folder.0.join("captures.txt"), names.join("\n") + "\n").unwrap();
    let queries = json!(shown("sql"));
    let script = format!(
        "{}
import json
with open('answers', 'w') as out:
    for query in {queries}:
        rows = spark.sql(query).collect()
        print(json.dumps([[str(cell) if hasattr(cell, 'year') else cell for cell in row] for row in rows]), file=out)
spark.stop()
",
        shown("python")[1],
    );
    let tables = folder.tables();
    let answers = answers(&python, &folder, &script, &["captures.txt", &tables.to_string_lossy()]);
    hold(&answers, &lines());
}
