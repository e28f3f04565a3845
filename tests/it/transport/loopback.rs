//! The mock server over simulated RDMA.

use std::time::Duration;

use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_inspect::output::Report;
use nfsrdma_inspect::output::probe::ProbeReportView;
use nfsrdma_inspect::output::style::TerminalProfile;
use nfsrdma_mock_server::{MockConnectionSettings, MockTransport, MockTransportFault};
use nfsrdma_replay::probe::{NullCallLatency, probe};
use nfsrdma_rpc::url::ServerUrl;
use nfsrdma_rpc::{
    CapturedCallChunkLayout, ConnectOptions, RdmaFabric, RequestedCallForm, RpcClientTransport, TransportKind,
};

use super::client::{Client, content, every_length, many_nulls, target};
use crate::schema::{assert_keeps, validator};

#[test]
fn files_of_every_length_in_every_minor_version_and_with_every_threshold() {
    for minor in 0..=2 {
        for size in [0, 3, 255] {
            let private_data = PrivateData { send_size: size, receive_size: size, ..PrivateData::DEFAULT };
            let mut transport = MockTransport::new(MockConnectionSettings {
                private_data: Some(private_data),
                credits: 8,
                ..MockConnectionSettings::default()
            });
            let mut client = Client::new(&mut transport, &target(20049), minor, &[]);
            every_length(&mut client);
            client.leave();
        }
    }
}

#[test]
fn a_read_comes_in_the_segments_that_a_capture_had() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let mut client = Client::new(&mut transport, &target(20049), 2, &[]);
    let data = content(100_000);
    let open = client.open("f", true);
    client.write(&open, &data);
    let captured = CapturedCallChunkLayout { writes: &[&[65_536, 1, 65_536]], ..CapturedCallChunkLayout::default() };
    assert_eq!(client.read(&open, 131_072, RequestedCallForm::Captured(captured)), data);
    // Only as a Long Reply: the capture had no Write chunk.
    let captured = CapturedCallChunkLayout { reply: &[131_072 + 4096], ..CapturedCallChunkLayout::default() };
    assert_eq!(client.read(&open, 131_072, RequestedCallForm::Captured(captured)), data);
}

#[test]
fn rfc8166_section_3_3_1_100_000_calls_with_all_credits_in_flight() {
    let mut transport = MockTransport::new(MockConnectionSettings { credits: 64, ..MockConnectionSettings::default() });
    assert_eq!(many_nulls(&mut transport, &target(20049), 100_000, u32::MAX), 64);
}

#[test]
fn a_probe_shows_the_negotiated_parameters() {
    let private_data = PrivateData { send_size: 7, receive_size: 1, ..PrivateData::DEFAULT };
    let mut transport = MockTransport::new(MockConnectionSettings {
        private_data: Some(private_data),
        credits: 33,
        ..MockConnectionSettings::default()
    });
    let url: ServerUrl = "rdma://127.0.0.1/?vers=4.2".parse().unwrap();
    let mut found = probe(&mut transport, &url, &ConnectOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let rdma = found.terms.rdma.clone().unwrap();
    assert_eq!((rdma.call_inline, rdma.reply_inline, rdma.remote_invalidation), (2048, 4096, false));
    assert_eq!(found.credits.map(|credits| (credits.requested, credits.granted)), Some((128, Some(33))));
    assert_eq!((&found.versions, &found.v3), (&vec![3, 4], &None));
    let [(2, Ok(v4))] = &found.v4[..] else { panic!("{:?}", found.v4) };
    assert_eq!((v4.maxread, v4.lease_time), (Some(1 << 20), Some(90)));
    assert_eq!(v4.session.map(|session| session.fore.max_requests), Some(64));

    // The only value that differs each time.
    found.null = NullCallLatency { calls: 32, fastest: Duration::from_nanos(1500), median: Duration::from_micros(2) };
    let view = ProbeReportView { url: &url, probe: &found, screen: TerminalProfile::pipe() };
    let (mut json, mut text) = (Vec::new(), Vec::new());
    view.json(&mut json).unwrap();
    assert_keeps(&validator("probe.schema.json"), &serde_json::from_slice(&json).unwrap(), "probe");
    view.text(&mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap());

    // The server keeps no state: the next connection finds it unchanged.
    assert!(transport.poll(None).unwrap().is_some());
    let found = probe(&mut transport, &url, &ConnectOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(&found.v4[..], [(2, Ok(_))]));
}

/// Returns the text of a probe, or the error.
fn probed(transport: &mut MockTransport) -> String {
    probed_at("/", transport)
}

fn probed_at(export: &str, transport: &mut MockTransport) -> String {
    let url: ServerUrl = format!("rdma://127.0.0.1{export}?vers=4.2").parse().unwrap();
    let wish = ConnectOptions { timeout: Duration::from_millis(2500), ..ConnectOptions::default() };
    let found = match probe(transport, &url, &wish) {
        Ok(found) => found,
        Err(error) => return error.to_string(),
    };
    let view = ProbeReportView { url: &url, probe: &found, screen: TerminalProfile::pipe() };
    let (mut json, mut text) = (Vec::new(), Vec::new());
    view.json(&mut json).unwrap();
    assert_keeps(&validator("probe.schema.json"), &serde_json::from_slice(&json).unwrap(), "probe");
    view.text(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn over_iwarp_a_probe_abandons_a_connection_without_a_first_reply() {
    let iwarp =
        MockConnectionSettings { kind: TransportKind::Rdma(RdmaFabric::Iwarp), ..MockConnectionSettings::default() };
    let mut transport = MockTransport::new(iwarp.clone());
    assert!(!probed(&mut transport).contains("abandoned"));
    transport.inject(0, MockTransportFault::NoReply);
    let said = probed(&mut transport);
    assert!(said.contains("  abandoned       1 earlier connection without a reply to its first call\n"), "{said}");
    assert!(said.contains("NFSv4.2\n  READ "), "{said}");

    let mut transport = MockTransport::new(iwarp);
    transport.inject(0, MockTransportFault::NoReply);
    transport.inject(1, MockTransportFault::NoReply);
    let place = "127.0.0.1 (127.0.0.1:20049)";
    assert_eq!(
        probed(&mut transport),
        format!(
            "{place}: 2 iWARP connections were accepted, but none replied to the first call within 2.5 s; \
             check the server's log, or raise --timeout"
        )
    );

    // Neither a later Call nor another fabric is excused.
    let mut transport = MockTransport::new(MockConnectionSettings {
        kind: TransportKind::Rdma(RdmaFabric::Iwarp),
        ..MockConnectionSettings::default()
    });
    transport.inject(1, MockTransportFault::NoReply);
    assert_eq!(probed(&mut transport), format!("{place}: no reply within 2.5 s; check that the server runs"));
    let mut transport = MockTransport::new(MockConnectionSettings {
        kind: TransportKind::Rdma(RdmaFabric::Roce),
        ..MockConnectionSettings::default()
    });
    transport.inject(0, MockTransportFault::NoReply);
    assert_eq!(probed(&mut transport), format!("{place}: no reply within 2.5 s; check that the server runs"));
}

#[test]
fn a_probe_names_the_directory_that_is_not_there() {
    let mut transport = MockTransport::new(MockConnectionSettings::default());
    let said = probed_at("/nosuch/export", &mut transport);
    let expected = "  unknown         no such file or directory: check the URL; `probe` lists the exports (no /nosuch: LOOKUP: \
                    NFS4ERR_NOENT)\n";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_probe_shows_announcement_and_use_of_remote_invalidation() {
    let url: ServerUrl = "rdma://127.0.0.1/?vers=4.2".parse().unwrap();
    let mut found =
        probe(&mut MockTransport::new(MockConnectionSettings::default()), &url, &ConnectOptions::default()).unwrap();
    let mut said = |asked, announced, by_server, used| {
        found.asked_for_invalidation = asked;
        found.invalidations = (used, 40);
        let rdma = found.terms.rdma.as_mut().unwrap();
        rdma.sent.as_mut().unwrap().remote_invalidation = announced;
        rdma.received.as_mut().unwrap().remote_invalidation = by_server;
        rdma.remote_invalidation = announced && by_server;
        let mut text = Vec::new();
        ProbeReportView { url: &url, probe: &found, screen: TerminalProfile::pipe() }.text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix("  remote inval.   ")).unwrap().to_owned()
    };
    assert_eq!(said(false, false, false, 0), "not requested");
    assert_eq!(said(false, false, true, 0), "not requested");
    assert_eq!(said(true, false, false, 0), "not announced: the device has no memory windows");
    assert_eq!(said(true, true, false, 0), "not announced by the server, not used");
    assert_eq!(said(true, true, false, 7), "used in 7 of 40 replies, not announced by the server");
    assert_eq!(said(true, true, true, 0), "agreed on, not used");
    assert_eq!(said(true, true, true, 7), "agreed on, used in 7 of 40 replies");
    assert_eq!(said(false, false, false, 1), "used in 1 of 40 replies, not announced by this side");
}
