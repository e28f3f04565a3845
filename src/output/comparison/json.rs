//! Comparison as JSON Lines. The schema is `docs/comparison.schema.json`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::ComparisonReportWriter;
use crate::escape;
use crate::output::json::SCHEMA;
use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};

/// One side of a difference.
#[derive(Serialize)]
struct DifferenceSideJson<'a> {
    /// Index of the Transaction.
    index: Option<u64>,
    call: Option<u64>,
    reply: Option<u64>,
    frame: Option<u64>,
    value: Option<&'a str>,
}

impl<'a> DifferenceSideJson<'a> {
    /// Creates the object of a side; `None` if it has neither a Transaction nor a value.
    fn new(half: &'a DifferenceSideValue) -> Option<Self> {
        let place = half.location;
        (place.is_some() || half.value.is_some()).then(|| Self {
            index: place.map(|place| place.index).filter(|index| *index > 0),
            call: place.and_then(|place| place.call).map(|frame| frame.0),
            reply: place.and_then(|place| place.reply).map(|frame| frame.0),
            frame: half.frame.map(|frame| frame.0),
            value: half.value.as_deref(),
        })
    }
}

/// JSON object of a difference.
#[derive(Serialize)]
struct DifferenceJson<'a> {
    schema: u32,
    kind: &'static str,
    difference: &'static str,
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    path: Option<&'a str>,
    field: Option<&'a str>,
    times: u64,
    a: Option<DifferenceSideJson<'a>>,
    b: Option<DifferenceSideJson<'a>>,
}

impl<'a> DifferenceJson<'a> {
    fn new(difference: &'a Difference, file: Option<&'a str>) -> Self {
        let word = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            schema: SCHEMA,
            kind: "difference",
            difference: difference.kind.word(),
            operation: &difference.operation,
            file,
            path: word(&difference.path),
            field: word(difference.field),
            times: difference.count,
            a: DifferenceSideJson::new(&difference.a),
            b: DifferenceSideJson::new(&difference.b),
        }
    }
}

/// JSON object of one of the captures.
#[derive(Serialize)]
struct ComparedCaptureJson<'a> {
    file: &'a str,
    frames: u64,
    transactions: u64,
    incomplete: u64,
    transports: Vec<&'a str>,
    versions: Vec<&'a str>,
    undecoded: &'a BTreeMap<&'static str, u64>,
    given_up: &'a BTreeMap<&'static str, u64>,
}

impl<'a> From<&'a ComparedCaptureSummary> for ComparedCaptureJson<'a> {
    fn from(trace: &'a ComparedCaptureSummary) -> Self {
        Self {
            file: &trace.name,
            frames: trace.frames,
            transactions: trace.transactions,
            incomplete: trace.incomplete,
            transports: trace.transports.iter().map(String::as_str).collect(),
            versions: trace.versions.iter().map(String::as_str).collect(),
            undecoded: &trace.undecoded,
            given_up: &trace.evicted,
        }
    }
}

#[derive(Serialize)]
struct ComparedOperationCountsJson<'a> {
    operation: &'a str,
    a: u64,
    b: u64,
    differences: u64,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    schema: u32,
    kind: &'static str,
    equal: bool,
    differences: u64,
    filtered: u64,
    counts: BTreeMap<&'static str, u64>,
    operations: Vec<ComparedOperationCountsJson<'a>>,
    pairs: u64,
    fields: u64,
    data_bytes: u64,
    not_known: u64,
    left_out: u64,
    reordered: u64,
    set_up: u64,
    forgotten_identities: u64,
    a: ComparedCaptureJson<'a>,
    b: ComparedCaptureJson<'a>,
}

fn line(to: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut line = escape::json(object)?;
    line.push(b'\n');
    to.write_all(&line)
}

pub(super) fn difference(to: &mut impl Write, difference: &Difference, file: Option<&str>) -> io::Result<()> {
    line(to, &DifferenceJson::new(difference, file))
}

pub(super) fn write(view: &ComparisonReportWriter<'_>, to: &mut impl Write) -> io::Result<()> {
    let comparison = view.comparison;
    let compared = comparison.compared();
    let mix = comparison.operation_counts().iter();
    let object = ComparisonJson {
        schema: SCHEMA,
        kind: "comparison",
        equal: comparison.total() == 0,
        differences: comparison.total(),
        filtered: comparison.filtered(),
        counts: comparison.counts().iter().map(|(kind, count)| (kind.word(), *count)).collect(),
        operations: mix
            .map(|(operation, mix)| ComparedOperationCountsJson {
                operation,
                a: mix.counts[0],
                b: mix.counts[1],
                differences: mix.differences,
            })
            .collect(),
        pairs: comparison.pairs(),
        fields: compared.fields,
        data_bytes: compared.data_bytes,
        not_known: compared.unknown,
        left_out: compared.version_dependent_fields,
        reordered: comparison.reordered(),
        set_up: comparison.setup_calls(),
        forgotten_identities: comparison.forgotten_identities(),
        a: view.a.into(),
        b: view.b.into(),
    };
    line(to, &object)
}
