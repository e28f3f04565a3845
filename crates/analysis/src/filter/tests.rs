//! Tests of the filter language, rule by rule. Examples are from wireshark-filter(4) if it has one.

use proptest::prelude::*;

use super::catalog::FilterFieldCatalog;
use super::value::{FilterValue, FilterValues};
use super::*;

/// Returns `true` if a filter is true for fields with these values.
fn holds(filter: &str, fields: &[(&str, FilterValue<&[u8]>)]) -> bool {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let mut values = FilterValues::new(filter.fields.len());
    for (name, value) in fields {
        if let Some(slot) = filter.fields.iter().position(|field| field.name == *name) {
            values.push(slot, *value);
        }
    }
    filter.program.is_true(&values)
}

fn error(filter: &str) -> (usize, String) {
    let FilterError { column, message: what } = Filter::parse(filter).expect_err(filter);
    (column, what)
}

fn number(number: i128) -> FilterValue<&'static [u8]> {
    FilterValue::Number(number)
}

fn bytes(bytes: &'static [u8]) -> FilterValue<&'static [u8]> {
    FilterValue::Bytes(bytes)
}

fn text(bytes: &'static [u8]) -> FilterValue<&'static [u8]> {
    FilterValue::Text(bytes)
}

fn ipv4(text: &str) -> FilterValue<&'static [u8]> {
    FilterValue::Ipv4(text.parse().unwrap(), 32)
}

fn ipv6(text: &str) -> FilterValue<&'static [u8]> {
    FilterValue::Ipv6(text.parse().unwrap(), 128)
}

const PORTS: [(&str, FilterValue<&'static [u8]>); 2] =
    [("tcp.port", FilterValue::Number(80)), ("tcp.port", FilterValue::Number(2049))];

#[test]
fn a_field_alone_tests_its_presence() {
    assert!(holds("tcp.port", &PORTS));
    assert!(!holds("udp.port", &PORTS));
    assert!(holds("not udp.port", &PORTS));
    assert!(holds("rpc.auth.uid", &[("rpc.auth.uid", number(0))]));
}

#[test]
fn one_value_must_be_equal_and_every_value_unequal() {
    assert!(holds("tcp.port == 80", &PORTS) && holds("tcp.port eq 2049", &PORTS));
    assert!(!holds("tcp.port != 80", &PORTS) && holds("tcp.port != 81", &PORTS));
    assert!(holds("tcp.port !== 80", &PORTS) && holds("tcp.port any_ne 80", &PORTS));
    assert!(!holds("tcp.port === 80", &PORTS) && !holds("tcp.port all_eq 80", &PORTS));
    assert!(holds("tcp.port === 80", &PORTS[..1]));
}

#[test]
fn a_comparison_asks_for_its_field_to_be_there() {
    for relation in ["==", "!=", "===", "!==", ">", "<"] {
        assert!(!holds(&format!("udp.port {relation} 80"), &PORTS), "{relation}");
    }
    assert!(!holds("ip.dst ne 224.1.2.3", &[]) && holds("not ip.dst eq 224.1.2.3", &[]));
    assert!(!holds("all udp.port > 1", &[]) && !holds("udp.port in {80}", &[]));
    assert!(holds("udp.port not in {80}", &[]));
}

#[test]
fn any_and_all_quantify_the_values_that_must_pass() {
    assert!(holds("any tcp.port > 1024", &PORTS) && !holds("all tcp.port > 1024", &PORTS));
    assert!(holds("all tcp.port >= 80", &PORTS));
    assert!(holds("any tcp.port != 80", &PORTS) && !holds("all tcp.port == 80", &PORTS));
    assert!(!holds("all tcp.port in {80}", &PORTS) && holds("all tcp.port in {80, 2000..3000}", &PORTS));
}

#[test]
fn numbers_are_compared_in_every_notation() {
    let length = [("frame.len", number(11))];
    for ten in ["10", "012", "0xa", "0b1010", r"'\n'", r"'\x0a'", r"'\012'"] {
        assert!(holds(&format!("frame.len > {ten}"), &length), "{ten}");
        assert!(!holds(&format!("frame.len < {ten}"), &length), "{ten}");
    }
    assert!(holds("frame.len ge 11 and frame.len le 11", &length));
    assert!(holds("10 < frame.len <= 11", &length));
    assert!(holds("frame.len > -1", &length));
}

#[test]
fn booleans_are_words_or_numbers() {
    let set = [("tcp.flags.syn", FilterValue::Bool(true))];
    for yes in ["1", "True", "TRUE", "true", "7"] {
        assert!(holds(&format!("tcp.flags.syn == {yes}"), &set), "{yes}");
    }
    for no in ["0", "False", "FALSE"] {
        assert!(!holds(&format!("tcp.flags.syn == {no}"), &set), "{no}");
    }
}

#[test]
fn procedures_and_flavors_go_by_their_names() {
    assert!(holds("nfs.procedure_v3 == READ", &[("nfs.procedure_v3", number(6))]));
    assert!(holds("nlm.procedure_v4 in {LOCK, UNLOCK}", &[("nlm.procedure_v4", number(2))]));
    for name in ["AUTH_SYS", "AUTH_UNIX"] {
        let filter = format!("rpc.auth.flavor == \"{name}\"");
        assert!(holds(&filter, &[("rpc.auth.flavor", number(1))]), "{name}");
    }
    let (_, message) = error("rpc.procedure == READ");
    assert!(message.contains("nfsrdma.procedure"), "{message}");
}

#[test]
fn values_of_enumerations_go_by_their_names() {
    let read = [("nfs.opcode", number(25))];
    for filter in [
        "nfs.opcode == READ",
        "nfs.opcode == \"READ\"",
        "nfs.opcode == read",
        "nfs.opcode == 25",
        "nfs.opcode in {WRITE, READ}",
    ] {
        assert!(holds(filter, &read), "{filter}");
    }
    assert!(holds("infiniband.bth.opcode == \"RC Send Only\"", &[("infiniband.bth.opcode", number(4))]));
    assert!(holds(
        "nfs.access_supported & ACCESS4_READ or nfs.nfsstat4 == NFS4ERR_GRACE",
        &[("nfs.nfsstat4", number(10013))]
    ));
}

#[test]
fn ethernet_addresses_and_bytes_in_hexadecimal() {
    let ether = [("eth.dst", bytes(&[0xff; 6]))];
    for filter in ["eth.dst eq ff:ff:ff:ff:ff:ff", "eth.dst == ff-ff-ff-ff-ff-ff", "eth.dst == ff.ff.ff.ff.ff.ff"] {
        assert!(holds(filter, &ether), "{filter}");
    }
    let handle = [("nfs.fhandle", bytes(b"\0\x01\0\x0d"))];
    assert!(holds("nfs.fhandle == 0.1.0.d", &handle) && holds("nfs.fhandle == 0001000d", &handle));
    assert!(holds("nfs.fhandle < 00:02", &handle) && holds("nfs.fhandle == \"\\0\\x01\\0\\r\"", &handle));
}

#[test]
fn addresses_are_compared_up_to_their_prefix_length() {
    let address = [("ip.addr", ipv4("129.111.7.9"))];
    assert!(holds("ip.addr == 129.111.0.0/16", &address) && !holds("ip.addr == 129.112.0.0/16", &address));
    assert!(holds("ip.addr > 129.111.7.8 and ip.addr < 129.112.0.0", &address));
    let address = [("ipv6.addr", ipv6("fd09::2"))];
    assert!(holds("ipv6.addr == fd09::/16", &address) && holds("ipv6.addr == fd09:0::0002", &address));
    assert!(!holds("ipv6.addr == ::1", &address));
}

#[test]
fn text_is_compared_byte_by_byte() {
    let name = [("nfs.name", text("a \"ä\"".as_bytes()))];
    assert!(holds(r#"nfs.name == "a \"\xc3\xa4\"""#, &name) && holds(r#"nfs.name == "\x61 \"ä\"""#, &name));
    assert!(!holds("nfs.name == \"A\"", &name));
    assert!(holds("nfs.name == big", &[("nfs.name", text(b"big"))]));
}

#[test]
fn the_name_of_a_protocol_beside_text_is_text() {
    let transport = [("nfsrdma.transport", text(b"tcp"))];
    assert!(holds("nfsrdma.transport == tcp", &transport) && holds("nfsrdma.transport in {udp, tcp}", &transport));
}

#[test]
fn contains_looks_for_a_part() {
    let name = [("nfs.name", text(br"\\SERVER\SHARE"))];
    assert!(holds(r#"nfs.name contains "\\\\SERVER\\SHARE""#, &name));
    assert!(holds(r#"nfs.name contains r"\\SERVER\SHARE""#, &name));
    assert!(!holds("nfs.name contains \"server\"", &name));
    let frame = [("frame", bytes(b"GET /"))];
    assert!(holds("frame contains \"GET\"", &frame) && holds("frame contains 47.45.54", &frame));
    assert!(holds("frame contains 0x45 and frame contains 'T'", &frame));
    assert!(holds("eth.dst contains 09:00", &[("eth.dst", bytes(&[0x52, 0x54, 0, 9, 0, 2]))]));
}

#[test]
fn matches_is_a_regular_expression_without_case() {
    let name = [("nfs.name", text(b"cLdC"))];
    assert!(holds("nfs.name matches \"cldc\"", &name) && holds("nfs.name ~ \"^c.*c$\"", &name));
    assert!(!holds("nfs.name matches \"(?-i)cldc\"", &name));
    assert!(holds(r#"frame matches "\\xff\\x00""#, &[("frame", bytes(&[1, 0xff, 0]))]));
    assert!(holds(r#"string(frame.number) matches "[13579]$""#, &[("frame.number", number(21))]));
}

#[test]
fn sets_hold_values_and_ranges_of_them() {
    assert!(holds("tcp.port in {443, 4430..4434, 2049}", &PORTS) && !holds("tcp.port in {81..2048}", &PORTS));
    let address = [("ip.addr", ipv4("10.0.0.7"))];
    assert!(holds("ip.addr in {10.0.0.5 .. 10.0.0.9, 192.168.1.1..192.168.1.9}", &address));
    assert!(holds("frame.time_delta in {10 .. 10.5}", &[("frame.time_delta", FilterValue::Duration(10_250_000_000))]));
    assert!(holds("nfs.name in {\"HEAD\", \"GET\"}", &[("nfs.name", text(b"GET"))]));
}

#[test]
fn slices_take_parts_of_bytes_and_text() {
    let source = [("eth.src", bytes(&[0, 0, 0x83, 1, 2, 3]))];
    for filter in [
        "eth.src[0:3] == 00:00:83",
        "eth.src[2] == 83",
        "eth.src[2] == 0x83",
        "eth.src[1-2] == 0.83",
        "eth.src[:3] == 00:00:83",
        "eth.src[4:] == 02:03",
        "eth.src[-2:2] == 02:03",
        "eth.src[-2:] == 02:03",
        "eth.src[0,2-3,5:] == 00:83:01:03",
        "eth.src[2:2][1] == 01",
    ] {
        assert!(holds(filter, &source), "{filter}");
    }
    assert!(!holds("eth.src[6] == 0", &source) && !holds("eth.src[6]", &source) && holds("eth.src[5]", &source));
    assert!(holds("nfs.name[0:4] == \"text\"", &[("nfs.name", text(b"text/html"))]));
    assert!(holds("frame[0:2] gt 50.51 and frame[0:2] gt \"PQ\"", &[("frame", bytes(b"PR"))]));
}

#[test]
fn bits_are_masked() {
    let flags = [("tcp.flags", number(0x12))];
    assert!(holds("tcp.flags & 0x02", &flags) && !holds("tcp.flags & 0x04", &flags));
    assert!(holds("tcp.flags & 0x0f == 2", &flags) && holds("tcp.flags bitwise_and SYN", &flags));
    let address = [("eth.addr", bytes(&[0xf2, 0, 0, 0, 0, 0]))];
    assert!(holds("eth.addr[0] & 0x0f == 2", &address));
    assert!(holds("eth.addr[0:2] & 40:ff", &address) && !holds("eth.addr[0:2] & 01:ff", &address));
}

#[test]
fn numbers_and_durations_are_calculated_with() {
    let ports = [("udp.dstport", number(8)), ("udp.srcport", number(7)), ("frame.len", number(0))];
    assert!(holds("udp.dstport >= udp.srcport + 1", &ports));
    assert!(!holds("udp.dstport >= 4 * {udp.srcport + 3}", &ports));
    assert!(holds("udp.srcport % 2 == 1 and udp.dstport / 3 == 2 and udp.srcport -8 == -1", &ports));
    assert!(!holds("udp.srcport / frame.len == 0", &ports));
    let times = [
        ("rpc.time", FilterValue::Duration(2_000_000_000)),
        ("frame.time_delta", FilterValue::Duration(1_000_000_000)),
    ];
    assert!(holds("rpc.time >= frame.time_delta * 2 and rpc.time - 0.5 == 1.5", &times));
}

#[test]
fn fields_are_compared_with_fields() {
    let ports = [("udp.dstport", number(8)), ("udp.srcport", number(8))];
    assert!(holds("udp.dstport == udp.srcport", &ports));
    assert!(holds("rpc.xid == rpcordma.xid", &[("rpc.xid", number(5)), ("rpcordma.xid", number(5))]));
}

#[test]
fn functions_of_the_manual() {
    let name = [("nfs.name", text(b"Macro")), ("nfs.name", text(b"x"))];
    assert!(holds("upper(nfs.name) contains \"MACRO\" and lower(nfs.name) == \"macro\"", &name));
    assert!(holds("len(nfs.name) == 5 and count(nfs.name) == 2", &name));
    assert!(!holds("count(udp.port) == 0", &name));
    assert!(holds("max(tcp.port) == 2049 and min(tcp.port, 100) == 80", &PORTS));
    assert!(holds("abs(rpc.time) == 1.5", &[("rpc.time", FilterValue::Duration(-1_500_000_000))]));
    assert!(holds("string(ip.src) contains \"9.0\"", &[("ip.src", ipv4("10.9.0.2"))]));
    assert!(holds("len(frame[2:]) == 3", &[("frame", bytes(b"abcde"))]));
}

#[test]
fn times_and_durations() {
    let time = [("frame.time", FilterValue::Time(1_735_732_800_500_000_000))];
    assert!(holds("frame.time >= \"2025-01-01 12:00:00\" and frame.time < \"2025-01-01T12:00:01Z\"", &time));
    assert!(holds("frame.time == \"Jan 1, 2025 12:00:00.5\"", &time));
    assert!(holds(
        "nfsrdma.latency > 0.001 && nfsrdma.latency < 1",
        &[("nfsrdma.latency", FilterValue::Duration(2_000_000))]
    ));
    for filter in [
        "nfsrdma.latency > 1ms and nfsrdma.latency < 2.5ms",
        "nfsrdma.latency in {500us..3ms}",
        "nfsrdma.latency == 2000us and nfsrdma.latency == \"2ms\"",
        "nfsrdma.latency < 1h and nfsrdma.latency < 1m and nfsrdma.latency < 1s and nfsrdma.latency > 5ns",
    ] {
        assert!(holds(filter, &[("nfsrdma.latency", FilterValue::Duration(2_000_000))]), "{filter}");
    }
}

#[test]
fn tests_are_put_together() {
    for (filter, expected) in [
        ("tcp.port and udp.port", false),
        ("tcp.port && !udp.port", true),
        ("tcp.port or udp.port", true),
        ("tcp.port xor udp.port", true),
        ("tcp.port ^^ tcp.port", false),
        ("tcp.port ^^ tcp.port ^^ tcp.port", true),
        ("not (tcp.port and udp.port)", true),
        ("udp.port and udp.port or tcp.port", true),
        ("udp.port and (udp.port or tcp.port)", false),
    ] {
        assert_eq!(holds(filter, &PORTS), expected, "{filter}");
    }
}

#[test]
fn data_without_bytes_is_present_and_equals_nothing() {
    let data = [("nfs.data", FilterValue::Unknown)];
    assert!(holds("nfs.data", &data) && !holds("nfs.data == 00", &data) && !holds("nfs.data contains 00", &data));
}

#[test]
fn errors_have_a_column_and_the_nearest_names() {
    assert_eq!(
        error("tcp.port == 80 and nfs.opcod == 25"),
        (20, "unknown field nfs.opcod; did you mean nfs.opcode?".into())
    );
    assert_eq!(error("nfs.opcode == REED").0, 15);
    assert!(error("nfs.opcode == CB_RECALL").1.ends_with("; nfs.cb.operation has it"));
    assert!(error("nfs.opcode == REED").1.starts_with("nfs.opcode has no value REED; did you mean READ"));
    assert_eq!(
        error("nfsrdma.operation == reed"),
        (22, "nfsrdma.operation has no value REED; did you mean READ?".into())
    );
    assert!(
        error("nfsrdma.status in {\"NFS4_OK\", NFS4ERR_NOENTT}")
            .1
            .ends_with("did you mean NFS4ERR_NOENT, NFS3ERR_NOENT or NFSERR_NOENT?")
    );
    assert_eq!(error("nfsrdma.direction == up").1, "nfsrdma.direction has no value up; it is forward, reverse");
    assert_eq!(
        error("nfsrdma.finding == \"rpcrdma/credit-zeros\"").1,
        "nfsrdma.finding has no value rpcrdma/credit-zeros; did you mean rpcrdma/credit-zero?"
    );
    assert_eq!(
        error("nfsrdma.finding.severity >= warning"),
        (1, "values of nfsrdma.finding.severity are not ordered; compare with ==, != or in {...}".into())
    );
    assert_eq!(error("ip.src == 10.9.0").1, "ip.src is an IPv4 address, as in 10.9.0.2 or 10.9.0.0/16; 10.9.0 is not");
    assert_eq!(error("eth.src == 52").0, 12);
    assert_eq!(error("lenn(nfs.name) > 1"), (1, "unknown function lenn; did you mean len?".into()));
    assert_eq!(error("5 == 6"), (1, "neither side of == is a field".into()));
    assert_eq!(error("tcp.port contains \"80\""), (1, "tcp.port is neither text nor bytes".into()));
    assert_eq!(error("tcp.port matches \"80\"").1, "tcp.port is a number, not text; use string(tcp.port)");
    assert_eq!(error("nfs.name matches \"(\"").0, 18);
    assert_eq!(error("ip.src == eth.src").0, 11);
    assert_eq!(error("len(tcp.port) == 2").0, 5);
    assert_eq!(error("tcp.port[0] == 1").0, 1);
    assert_eq!(error("len(nfs.name)").0, 1);
    assert_eq!(error("\"text\"").0, 1);
    assert_eq!(error("nfs.name == \"a\" or frame.time > yesterday").0, 33);
}

#[test]
fn a_filter_may_name_every_field() {
    let names: Vec<_> = FilterFieldCatalog::shared().iter().map(|entry| entry.name).collect();
    assert!(names.len() > 1000);
    assert!(Filter::parse(&names.join(" or ")).is_ok());
}

/// Generates filters of valid and invalid pieces in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "nfs.opcode",
        "tcp.port",
        "ip.src",
        "frame",
        "nfs.name",
        "rpc.time",
        "frame.time",
        "eth.addr",
        "nfs",
        "x.y",
        "==",
        "!=",
        "===",
        "~=",
        ">",
        "contains",
        "matches",
        "in",
        "not",
        "!",
        "and",
        "or",
        "xor",
        "any",
        "all",
        "&",
        "+",
        "-",
        "*",
        "/",
        "%",
        "(",
        ")",
        "{",
        "}",
        ",",
        "..",
        "[0:2]",
        "[-1]",
        "[",
        "len(",
        "count(",
        "max(",
        "string(",
        "READ",
        "10.0.0.0/8",
        "aa:bb",
        "0x10",
        "0.5",
        "\"a\"",
        "\"\\x41\"",
        "r\"(\"",
        "'a'",
        "\"2025-01-01\"",
        "\"",
        "ä",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #[test]
    fn any_text_is_a_filter_or_an_error_inside_it(text in prop_oneof![pieces(), "\\PC{0,40}", "[ -~]{0,40}"]) {
        match Filter::parse(&text) {
            Ok(filter) => {
                // No filter can fail at run time.
                let mut values = FilterValues::new(filter.fields.len());
                filter.program.is_true(&values);
                for slot in 0..filter.fields.len() {
                    for value in [FilterValue::Number(7), FilterValue::Text(&b"ab"[..]), FilterValue::Bytes(b""), FilterValue::Unknown] {
                        values.push(slot, value);
                    }
                }
                filter.program.is_true(&values);
            }
            Err(error) => {
                prop_assert!((1..=text.chars().count().max(1)).contains(&error.column), "{}", error);
                prop_assert!(!error.message.is_empty());
            }
        }
    }
}
