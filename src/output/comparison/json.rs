//! Comparison as JSON Lines. The schema is `docs/comparison.schema.json`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nfsrdma_analysis::comparison::capture_summary::ComparedCaptureSummary;
use nfsrdma_analysis::comparison::difference::{Difference, DifferenceSideValue};
use serde::Serialize;

use super::unformatted_comparison_report::ComparisonReportWriter;
use crate::output::json::object::{JsonArray, SCHEMA, json_object, write_json_line};

/// Returns the object of a side; `None` if it has neither a Transaction nor a value.
fn side(side: &DifferenceSideValue) -> Option<impl Serialize> {
    let location = side.location;
    (location.is_some() || side.value.is_some()).then(|| {
        json_object! {
            index: location.map(|location| location.index).filter(|index| *index > 0),
            call: location.and_then(|location| location.call).map(|frame| frame.0),
            reply: location.and_then(|location| location.reply).map(|frame| frame.0),
            frame: side.frame.map(|frame| frame.0),
            value: side.value.as_deref(),
        }
    })
}

fn capture(trace: &ComparedCaptureSummary) -> impl Serialize {
    json_object! {
        file: &trace.name,
        frames: trace.frames,
        transactions: trace.transactions,
        incomplete: trace.incomplete,
        transports: &trace.transports,
        versions: &trace.versions,
        undecoded: &trace.undecoded,
        given_up: &trace.evicted,
    }
}

pub(super) fn difference(
    to: &mut impl Write,
    difference: &Difference,
    file: Option<&str>,
    object: Option<&str>,
) -> io::Result<()> {
    let non_empty = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let object = json_object! {
        schema: SCHEMA,
        kind: "difference",
        difference: difference.kind.word(),
        operation: &*difference.operation,
        #[serde(flatten)]
        file: file.map(|file| json_object! { file: file }),
        #[serde(flatten)]
        object: object.map(|object| json_object! { object: object }),
        path: non_empty(&difference.path),
        field: non_empty(difference.field),
        times: difference.count,
        a: side(&difference.a),
        b: side(&difference.b),
    };
    write_json_line(to, &object)
}

pub(super) fn write(view: &ComparisonReportWriter<'_>, to: &mut impl Write) -> io::Result<()> {
    let comparison = view.comparison;
    let compared = comparison.compared();
    let counts: BTreeMap<_, _> = { comparison.counts().iter() }.map(|(kind, count)| (kind.word(), count)).collect();
    let object = json_object! {
        schema: SCHEMA,
        kind: "comparison",
        equal: comparison.total() == 0,
        differences: comparison.total(),
        filtered: comparison.filtered(),
        counts: counts,
        operations: JsonArray(|| {
            comparison.operation_counts().iter().map(|(operation, mix)| {
                let [a, b] = mix.counts;
                json_object! { operation: &**operation, a: a, b: b, differences: mix.differences }
            })
        }),
        pairs: comparison.pairs(),
        fields: compared.fields,
        data_bytes: compared.data_bytes,
        not_known: compared.unknown,
        left_out: compared.version_dependent_fields,
        reordered: comparison.reordered(),
        set_up: comparison.setup_calls(),
        forgotten_identities: comparison.forgotten_identities(),
        a: capture(view.a),
        b: capture(view.b),
    };
    write_json_line(to, &object)
}
