//! Lines of real Transactions, compared with the schema, and of messages that no capture here contains.

use std::collections::BTreeSet;
use std::fmt;

use nfsrdma_analysis::names::FilehandleDisplay;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::*;
use crate::testing;

fn line(transaction: &Transaction) -> String {
    let mut lines = Vec::new();
    transaction
        .with_messages(|reading| {
            let off = FileNames::new(FilehandleDisplay::Off, 0);
            TransactionJsonLineWriter::default().transaction(
                &mut lines,
                transaction,
                reading,
                &reading.summary(),
                &off,
                (&[], None),
            )
        })
        .unwrap();
    String::from_utf8(lines).unwrap()
}

/// Returns the line of the Transaction whose Call, or else whose Reply, has this frame.
fn line_of_frame(capture: &str, frame: u64) -> String {
    let transactions = testing::transactions(capture);
    let has = |transaction: &&Transaction| {
        let message = transaction.call.as_ref().or(transaction.reply.as_ref());
        message.is_some_and(|message| message.frames.iter().any(|number| number.0 == frame))
    };
    line(transactions.iter().find(has).unwrap())
}

fn json(line: &str) -> Json {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_read_with_a_write_chunk() {
    let expected = concat!(
        r#"{"schema":1,"kind":"transaction","index":49,"connection":1,"transport":"rocev2","client":"10.9.0.2","#,
        r#""client_port":17,"server":"10.9.0.1","server_port":17,"direction":"forward","xid":"0xb38df27d","#,
        r#""program":100003,"program_name":"NFS","version":4,"minor_version":2,"procedure":"COMPOUND","#,
        r#""operation":"READ","operations":[{"op":"SEQUENCE","status":"NFS4_OK","#,
        r#""sa_sessionid":"e20a016b3bdba0000100000000000000","sa_sequenceid":45,"sa_slotid":0,"#,
        r#""sa_highest_slotid":0,"sa_cachethis":false,"sr_sessionid":"e20a016b3bdba0000100000000000000","#,
        r#""sr_sequenceid":45,"sr_slotid":0,"sr_highest_slotid":63,"sr_target_highest_slotid":63,"#,
        r#""sr_status_flags":[]},{"op":"PUTFH","status":"NFS4_OK","#,
        r#""object":"010001810000000086000000000000009b2ac450"},{"op":"READ","status":"NFS4_OK","#,
        r#""stateid":"e20a016b3bdba00009000000:0","offset":0,"count":4096,"eof":true,"data":2000}],"#,
        r#""status":"NFS4_OK","rpc_status":"SUCCESS","call":{"frames":[590],"time":"1795230439.055820921","#,
        r#""end_time":"1795230439.055820921","delivered":"acknowledged","copies":1,"resent":0,"sends":1,"#,
        r#""lists":"whole","rpcrdma":{"proc":"RDMA_MSG","version":1,"dialect":"rfc8166","credits":128},"length":176,"rpc_length":176,"undecoded":null},"#,
        r#""reply":{"frames":[595],"time":"1795230439.065270449","end_time":"1795230439.065270449","#,
        r#""delivered":"acknowledged","copies":1,"resent":0,"sends":1,"#,
        r#""lists":"whole","rpcrdma":{"proc":"RDMA_MSG","version":1,"dialect":"rfc8166","credits":128},"length":104,"rpc_length":2104,"undecoded":null},"#,
        r#""read_chunks":[],"write_chunks":[{"segments":[{"handle":"0x00000af3","#,
        r#""offset":"0xb38df27d3cb90000","length":4096,"returned":2000,"moved":2000,"frames":[592,593]}]}],"#,
        r#""reply_chunk":null,"latency_ns":9449528,"#,
        r#""phases_ns":{"call":0,"data_in":0,"server":7895926,"data_out":1553602,"reply":0,"recovery":0},"#,
        r#""complete":true,"missing":[],"findings":[]}"#,
        "\n"
    );
    assert_eq!(line_of_frame("rxe-v42.pcap", 590), expected);
}

#[test]
fn a_write_with_a_read_chunk() {
    let line = line_of_frame("rxe-v42.pcap", 120);
    let chunks = concat!(
        r#""read_chunks":[{"position":180,"segments":[{"handle":"0x00000971","offset":"0x9c8df27d03592000","#,
        r#""length":8192,"moved":8192,"frames":[123,130]}]}],"write_chunks":[],"reply_chunk":null,"#,
        r#""latency_ns":15340078,"phases_ns":{"call":0,"data_in":3958057,"#
    );
    assert!(line.contains(chunks), "{line}");
    let operation = concat!(
        r#"{"op":"WRITE","status":"NFS4_OK","stateid":"e20a016b3bdba00003000000:0","offset":0,"#,
        r#""stable":"FILE_SYNC4","data":8192,"count":8192,"committed":"FILE_SYNC4","#,
        r#""writeverf":"248461212738e31c"}"#
    );
    assert!(line.contains(operation), "{line}");
    let line = json(&line);
    assert_eq!(line["call"]["frames"], serde_json::json!([120]));
    assert_eq!(line["reply"]["frames"], serde_json::json!([131]));
    assert_eq!((&line["call"]["length"], &line["call"]["rpc_length"]), (&Json::from(196), &Json::from(8388)));
}

#[test]
fn a_reply_without_its_call_has_null_fields() {
    // Frame 590 is the Call of the READ whose Reply is frame 595.
    let transactions = testing::drained(testing::read_but("rxe-v42.pcap", 590));
    let reply = transactions.iter().find(|transaction| transaction.call.is_none()).unwrap();
    let line = json(&line(reply));
    for key in ["call", "program", "program_name", "version", "minor_version", "procedure", "operation", "status"] {
        assert_eq!(line[key], Json::Null, "{key}");
    }
    assert_eq!(line["operations"], serde_json::json!([]));
    assert_eq!(line["rpc_status"], "SUCCESS");
    assert_eq!(line["reply"]["frames"], serde_json::json!([595]));
    assert_eq!((&line["complete"], &line["missing"]), (&Json::from(false), &serde_json::json!(["call"])));
}

/// Returns the entry of the first operation of this name.
fn entry(transactions: &[Transaction], operation: &str) -> Json {
    let lines = transactions.iter().map(|transaction| json(&line(transaction)));
    let mut entries = lines.flat_map(|line| line["operations"].as_array().unwrap().clone());
    entries.find(|entry| entry["op"] == operation).unwrap()
}

#[test]
fn arguments_and_results_are_in_conventional_notation() {
    let transactions = testing::transactions("rxe-v42.pcap");
    let expected = [
        // A result with the name of an argument is in its own object.
        (
            "CLOSE",
            r#"{"op":"CLOSE","status":"NFS4_OK","seqid":0,"open_stateid":"e20a016b3bdba00001000000:1",
                "result":{"open_stateid":"000000000000000000000000:4294967295"}}"#,
        ),
        // Masks are names, modes are octal, and unions are flattened.
        (
            "CREATE",
            r#"{"op":"CREATE","status":"NFS4_OK","objtype":"NF4DIR","objname":"w","createattrs":["mode_umask"],
                "attributes":{"mode_umask":{"mu_mode":"0777","mu_umask":"0022"}},
                "cinfo":{"atomic":true,"before":"0x6b010ae03417c753","after":"0x6b010ae60ea942e8"},
                "attrset":["mode_umask"]}"#,
        ),
        (
            "GETATTR",
            r#"{"op":"GETATTR","status":"NFS4_OK","attr_request":["type","change","size","fsid"],
                "obj_attributes":["type","change","size","fsid"],
                "attributes":{"type":"NF4DIR","change":"0x6b010ae030c14951","size":42,"fsid":{"major":0,"minor":0}}}"#,
        ),
        // A list is an array, even with one item or none.
        (
            "SECINFO_NO_NAME",
            r#"{"op":"SECINFO_NO_NAME","status":"NFS4_OK","style":"SECINFO_STYLE4_CURRENT_FH",
                "resok4":[{"flavor":"AUTH_SYS"}]}"#,
        ),
        (
            "LISTXATTRS",
            r#"{"op":"LISTXATTRS","status":"NFS4_OK","lxa_cookie":"0x0000000000000000","lxa_maxcount":292,"lxr_cookie":"0x0000000000000002",
                "lxr_names":["a","big"],"lxr_eof":true}"#,
        ),
        // Data items are shown by their length, link texts by their text.
        ("GETXATTR", r#"{"op":"GETXATTR","status":"NFS4_OK","gxa_name":"a","gxr_value":20}"#),
        ("READLINK", r#"{"op":"READLINK","status":"NFS4_OK","link":"s100"}"#),
    ];
    for (operation, expected) in expected {
        assert_eq!(entry(&transactions, operation), json(expected));
    }
    let readdir = entry(&transactions, "READDIR");
    assert_eq!((&readdir["entries"], &readdir["eof"]), (&Json::from(286), &Json::from(false)));
    assert_eq!(readdir["names"].as_array().unwrap().len(), 286);
    assert_eq!(readdir["names"][0], "file-with-a-longer-name-001");
}

#[test]
fn a_procedure_that_is_no_compound_has_arguments_and_results() {
    let transactions = testing::transactions("rxe-v3.pcap");
    let lines = transactions.iter().map(|transaction| json(&line(transaction)));
    let read = lines.into_iter().find(|line| line["operation"] == "READ").unwrap();
    assert_eq!(read["operations"], serde_json::json!([]));
    let arguments = r#"{"file":"010001810000000085000000000000005eb0588b","offset":0,"count":4096}"#;
    assert_eq!(read["arguments"], json(arguments));
    let results = &read["results"];
    assert_eq!((&results["count"], &results["eof"], &results["data"]), (&100.into(), &true.into(), &100.into()));
    assert_eq!(results["file_attributes"]["mtime"], "1795230341.413269660");
    assert_eq!(read["status"], "NFS3_OK");
}

/// JSON value without duplicate keys in its objects.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Self)) = map.next_entry::<String, Self>()? {
            if !keys.insert(key.clone()) {
                return Err(Error::custom(format!("{key} stands twice")));
            }
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}

#[test]
fn no_object_has_a_key_twice() {
    for capture in ["rxe-v3.pcap", "rxe-v40.pcap.gz", "rxe-v42.pcap", "rxe-v42-deleg.pcap", "rxe-v42-snap128.pcap"] {
        for transaction in testing::transactions(capture) {
            let line = line(&transaction);
            serde_json::from_str::<Unique>(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
    }
}

static OPCODE: FieldDefinition = FieldDefinition { name: "nfs.opcode", label: "op", kind: FieldKind::Enum, doc: "" };
static STATUS: FieldDefinition =
    FieldDefinition { name: "nfs.nfsstat4", label: "status", kind: FieldKind::Enum, doc: "" };
static OPERATION: FieldDefinition = FieldDefinition::group("nfs.OPERATION", "OPERATION", "");
static NAME: FieldDefinition = FieldDefinition { name: "nfs.name", label: "name", kind: FieldKind::Text, doc: "" };
static BYTES: FieldDefinition = FieldDefinition { name: "nfs.owner", label: "owner", kind: FieldKind::Bytes, doc: "" };
static ENTRIES: FieldDefinition = FieldDefinition::group("nfs.entries", "entries", "");

/// Returns the operations of a COMPOUND as a buffer records them.
fn operations(call: impl FnOnce(&mut MessageFieldBuffer<'_>), reply: impl FnOnce(&mut MessageFieldBuffer<'_>)) -> Json {
    let transaction = &testing::transactions("rxe-v42.pcap")[0];
    let mut buffer = MessageFieldBuffer::default();
    call(&mut buffer);
    let (results, call_parts) = (buffer.end_message(), buffer.parts.len());
    reply(&mut buffer);
    buffer.end_message();
    let facts = RpcSummary::default();
    let names = FileNames::new(FilehandleDisplay::Off, 0);
    let values = DecodedValuesJson { buffer: &buffer, results, call_parts };
    let line = line_object(transaction, &facts, &names, &values, false, (&[], None));
    json(&serde_json::to_string(&line).unwrap())["operations"].take()
}

fn begin(buffer: &mut MessageFieldBuffer<'_>, number: u64, name: Option<&'static str>) {
    buffer.enter(&OPERATION, 0);
    buffer.value(&OPCODE, 0..4, FieldValue::Enum(number, name));
}

#[test]
fn text_that_is_not_utf_8_is_shown_lossily() {
    let operations = operations(
        |buffer| {
            begin(buffer, 15, Some("LOOKUP"));
            buffer.value(&NAME, 0..0, FieldValue::Text(b"caf\xe9"));
        },
        |_| {},
    );
    assert_eq!(operations, serde_json::json!([{"op": "LOOKUP", "name": "caf\u{fffd}"}]));
}

#[test]
fn an_operation_without_a_name_goes_by_its_number_and_is_answered_as_illegal() {
    let operations = operations(
        |buffer| begin(buffer, 4_294_967_295, None),
        |buffer| {
            begin(buffer, 10_044, Some("ILLEGAL"));
            buffer.value(&STATUS, 0..4, FieldValue::Enum(10_044, Some("NFS4ERR_OP_ILLEGAL")));
        },
    );
    assert_eq!(operations, serde_json::json!([{"op": "4294967295", "status": "NFS4ERR_OP_ILLEGAL"}]));
}

#[test]
fn a_result_of_another_operation_than_its_call_is_separate() {
    let operations = operations(
        |buffer| begin(buffer, 15, Some("LOOKUP")),
        |buffer| {
            begin(buffer, 25, Some("READ"));
            buffer.value(&STATUS, 0..4, FieldValue::Enum(77, None));
        },
    );
    assert_eq!(operations, serde_json::json!([{"op": "LOOKUP"}, {"op": "READ", "status": "77"}]));
}

#[test]
fn values_too_long_for_a_line_are_replaced_by_their_length() {
    static LONG: [u8; 1_025] = [7; 1_025];
    let operations = operations(
        |buffer| {
            begin(buffer, 18, Some("OPEN"));
            buffer.value(&BYTES, 0..0, FieldValue::Bytes(&LONG[..2]));
            buffer.value(&NAME, 0..0, FieldValue::Chunk(9, None));
        },
        |buffer| {
            begin(buffer, 18, Some("OPEN"));
            buffer.value(&BYTES, 0..0, FieldValue::Bytes(&LONG));
        },
    );
    let expected = serde_json::json!([{"op": "OPEN", "owner": "0707", "name": {"length": 9}, "result": {"owner": {"length": 1025}}}]);
    assert_eq!(operations, expected);
}

#[test]
fn of_a_large_directory_a_line_has_the_first_thousand_names() {
    let operations = operations(
        |_| {},
        |buffer| {
            begin(buffer, 26, Some("READDIR"));
            buffer.list(&ENTRIES, 0);
            for _ in 0..1_500 {
                buffer.enter(&ENTRIES, 0);
                buffer.value(&NAME, 0..0, FieldValue::Text(b"a"));
                buffer.leave(0);
            }
        },
    );
    assert_eq!(operations[0]["entries"], 1_500);
    assert_eq!(operations[0]["names"].as_array().unwrap().len(), 1_000);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_capture_keeps_the_contract(
        damage in proptest::collection::vec((0..197_u64, 42..1_100_usize, proptest::prelude::any::<u8>()), 1..200),
    ) {
        let schema = serde_json::from_str(include_str!("../../../docs/transaction.schema.json")).unwrap();
        let schema = jsonschema::draft202012::new(&schema).unwrap();
        let flow = testing::read_damaged("rxe-v42-deleg.pcap", |number, bytes| {
            for (_, at, value) in damage.iter().filter(|(frame, ..)| *frame == number) {
                if let Some(byte) = bytes.get_mut(*at) {
                    *byte = *value;
                }
            }
        });
        for transaction in testing::drained(flow) {
            let line = line(&transaction);
            proptest::prop_assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            let unique = serde_json::from_str::<Unique>(&line);
            proptest::prop_assert!(unique.is_ok(), "{}: {line}", unique.err().unwrap());
            let kept = schema.validate(&json(&line)).map_err(|error| format!("{}: {error}", error.instance_path()));
            proptest::prop_assert!(kept.is_ok(), "{}: {line}", kept.unwrap_err());
        }
    }
}
