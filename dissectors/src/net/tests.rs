mod tunnels;

use std::net::Ipv4Addr;
use std::ops::Range;

use super::*;
use crate::address::{Lid, Port};
use crate::captured_frame::{FrameNumber, Timestamp};
use crate::field::{FieldDefinition, FieldValue, NullFieldObserver};
use crate::infiniband::{self, BthOpcode, InfinibandPacket, Psn, Qpn, RdmaEncapsulation};

/// An acknowledgement of Linux rxe: Ethernet, IPv4, UDP 4791, BTH, AETH, ICRC.
const ACK: [u8; 62] = [
    0x52, 0x54, 0x00, 0x09, 0x00, 0x02, 0x52, 0x54, 0x00, 0x09, 0x00, 0x01, 0x08, 0x00, // Ethernet
    0x45, 0x00, 0x00, 0x30, 0x4d, 0xba, 0x40, 0x00, 0x40, 0x11, 0xd8, 0xee, // IPv4
    0x0a, 0x09, 0x00, 0x01, 0x0a, 0x09, 0x00, 0x02, // addresses
    0xe9, 0x09, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, // UDP
    0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x00, 0xc7, 0x3b, 0xf3, // BTH
    0x1f, 0x00, 0x00, 0x01, // AETH
    0xfd, 0x81, 0x31, 0x4d, // ICRC
];

/// Returns the IP datagram of [`ACK`].
fn ip() -> &'static [u8] {
    &ACK[14..]
}

fn frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    cut_frame(link, bytes, bytes.len())
}

fn cut_frame(link: LinkType, bytes: &[u8], length: usize) -> Frame<'_> {
    Frame { number: FrameNumber(1), time: Timestamp(0), link, bytes, length: length as u32 }
}

fn read(link: LinkType, bytes: &[u8]) -> InnermostNetworkPacket<'_> {
    decode(&frame(link, bytes), &mut NullFieldObserver)
}

fn packet(datagram: InnermostNetworkPacket<'_>) -> InfinibandPacket<'_> {
    match datagram.payload {
        NetworkLayerPayload::Infiniband(packet) => packet,
        other => panic!("no packet but {other:?}"),
    }
}

fn address(text: &str) -> Address {
    Address::Ip(text.parse().unwrap())
}

/// Asserts that the link layer header leads to the IP datagram of [`ACK`].
#[track_caller]
fn leads_to_the_acknowledgement(link: LinkType, header: &[u8]) {
    let bytes = [header, ip()].concat();
    let datagram = read(link, &bytes);
    assert_eq!((datagram.source, datagram.destination), (address("10.9.0.1"), address("10.9.0.2")));
    assert_eq!(datagram.network_offset, header.len());
    let packet = packet(datagram);
    assert_eq!(packet.encapsulation, RdmaEncapsulation::RoceV2);
    assert_eq!((packet.at, packet.length), (header.len() + 28, 20));
    assert_eq!((packet.bth.destqp, packet.bth.psn), (Qpn(0x11), Psn(0xc7_3bf3)));
}

#[test]
fn roce_v2_over_ethernet() {
    let datagram = read(LinkType::ETHERNET, &ACK);
    assert_eq!((datagram.source, datagram.destination), (address("10.9.0.1"), address("10.9.0.2")));
    let packet = packet(datagram);
    assert_eq!(packet.bth.opcode, BthOpcode::RC_ACKNOWLEDGE);
    assert_eq!(packet.aeth.unwrap().msn.0, 1);
    assert_eq!(packet.payload, CapturedSlice { bytes: &[], length: 0, at: 58 });
}

#[test]
fn every_link_layer_leads_to_ip() {
    leads_to_the_acknowledgement(LinkType::ETHERNET, &ACK[..14]);
    for raw in [LinkType::RAW, LinkType::RAW_BSD, LinkType::RAW_OPENBSD, LinkType::IPV4] {
        leads_to_the_acknowledgement(raw, &[]);
    }
    leads_to_the_acknowledgement(LinkType::NULL, &[2, 0, 0, 0]);
    leads_to_the_acknowledgement(LinkType::NULL, &[0, 0, 0, 2]);
    leads_to_the_acknowledgement(LinkType::LOOP, &[0, 0, 0, 2]);
    let sll = [0, 4, 0, 1, 0, 6, 0x52, 0x54, 0, 9, 0, 1, 0, 0, 0x08, 0x00];
    leads_to_the_acknowledgement(LinkType::LINUX_SLL, &sll);
    let sll2 = [0x08, 0x00, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 0x52, 0x54, 0, 9, 0, 1, 0, 0];
    leads_to_the_acknowledgement(LinkType::LINUX_SLL2, &sll2);
}

#[test]
fn vlan_tags_are_passed_however_many() {
    let mut tagged = ACK[..12].to_vec();
    tagged.extend([0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x60, 0x07, 0x08, 0x00]);
    leads_to_the_acknowledgement(LinkType::ETHERNET, &tagged);
    let sll2 = [0x81, 0x00, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 0x52, 0x54, 0, 9, 0, 1, 0, 0, 0x60, 0x07, 0x08, 0x00];
    leads_to_the_acknowledgement(LinkType::LINUX_SLL2, &sll2);
}

#[test]
fn erf_holds_ethernet_behind_its_extension_headers_and_two_bytes_of_pad() {
    let mut header = vec![0, 0, 0, 0, 0, 0, 0, 0, 0x82, 0x04, 0, 96, 0, 0, 0, 64];
    header.extend([0x83, 0, 0, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0, 0, 0]);
    header.extend([0, 0]);
    header.extend(&ACK[..14]);
    leads_to_the_acknowledgement(LinkType::ERF, &header);
}

/// A native acknowledgement: LRH, BTH, AETH, ICRC, VCRC.
const NATIVE: [u8; 30] = [
    0x00, 0x02, 0x00, 0x09, 0x00, 0x07, 0x00, 0x02, // LRH
    0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x01, 0x23, 0x00, 0x00, 0x00, 0x05, // BTH
    0x1f, 0x00, 0x00, 0x01, // AETH
    0x01, 0x02, 0x03, 0x04, // ICRC
    0x05, 0x06, // VCRC
];

#[test]
fn native_infiniband_goes_by_local_identifiers() {
    let erf = [&[0, 0, 0, 0, 0, 0, 0, 0, 21, 4, 0, 46, 0, 0, 0, 30][..], &NATIVE].concat();
    for (link, bytes, at) in [(LinkType::INFINIBAND, &NATIVE[..], 0), (LinkType::ERF, &erf, 16)] {
        let datagram = read(link, bytes);
        assert_eq!(datagram.source, Address::Lid(Lid(2)));
        assert_eq!(datagram.destination, Address::Lid(Lid(9)));
        assert_eq!(datagram.network_offset, at);
        let packet = packet(datagram);
        assert_eq!((packet.encapsulation, packet.at, packet.length), (RdmaEncapsulation::InfiniBand, at + 8, 20));
        assert_eq!(packet.bth.destqp, Qpn(0x123));
        assert_eq!(packet.payload.length, 0);
    }
}

/// Returns a Global Route Header with IPv4-mapped GIDs and payload length `paylen`.
fn grh(paylen: u16) -> Vec<u8> {
    let mut grh = vec![0x60, 0, 0, 0];
    grh.extend(paylen.to_be_bytes());
    grh.extend([0x1b, 64]);
    for last in [1, 2] {
        grh.extend(Ipv4Addr::new(10, 9, 0, last).to_ipv6_mapped().octets());
    }
    grh
}

#[test]
fn roce_v1_has_a_global_route_header_behind_its_ether_type() {
    let mut bytes = ACK[..12].to_vec();
    bytes.extend([0x89, 0x15]);
    bytes.extend(grh(20));
    bytes.extend(&NATIVE[8..28]);
    bytes.extend([0; 9]);
    let datagram = read(LinkType::ETHERNET, &bytes);
    assert_eq!((datagram.source, datagram.destination), (address("10.9.0.1"), address("10.9.0.2")));
    assert_eq!(datagram.network_offset, 14);
    let packet = packet(datagram);
    assert_eq!((packet.encapsulation, packet.at, packet.length), (RdmaEncapsulation::RoceV1, 54, 20));
}

#[test]
fn a_native_packet_with_a_global_route_header_goes_by_gids() {
    let mut bytes = NATIVE[..8].to_vec();
    bytes[1] = 0x03;
    bytes[5] = 17;
    bytes.extend(grh(20));
    bytes.extend(&NATIVE[8..]);
    let datagram = read(LinkType::INFINIBAND, &bytes);
    assert_eq!((datagram.source, datagram.network_offset), (address("10.9.0.1"), 0));
    assert_eq!((packet(datagram).encapsulation, packet(datagram).at), (RdmaEncapsulation::InfiniBand, 48));
}

/// Returns the datagram of [`ACK`] with an IPv6 header, and `extensions` before UDP.
fn ip6(first: u8, extensions: &[u8]) -> Vec<u8> {
    let udp = &ip()[20..];
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(((extensions.len() + udp.len()) as u16).to_be_bytes());
    bytes.extend([first, 64]);
    for last in [1, 2] {
        let address: std::net::Ipv6Addr = format!("fd09::{last}").parse().unwrap();
        bytes.extend(address.octets());
    }
    [&bytes, extensions, udp].concat()
}

#[test]
fn ipv6_with_and_without_extension_headers() {
    let options = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [17, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let whole = [17, 0, 0, 0, 0, 0, 0, 9];
    for (first, extensions) in [
        (17, vec![]),
        (0, [&options[..], &routing].concat()),
        (44, whole.to_vec()),
        (60, [17, 0, 1, 4, 0, 0, 0, 0].to_vec()),
    ] {
        for link in [LinkType::RAW, LinkType::IPV6] {
            let bytes = ip6(first, &extensions);
            let datagram = read(link, &bytes);
            assert_eq!((datagram.source, datagram.destination), (address("fd09::1"), address("fd09::2")));
            assert_eq!(packet(datagram).at, 48 + extensions.len());
        }
    }
    let bytes = [&[30, 0, 0, 0][..], &ip6(17, &[])].concat();
    assert_eq!(packet(read(LinkType::NULL, &bytes)).at, 52);
}

#[test]
fn ipv4_options_are_passed() {
    let mut bytes = ip().to_vec();
    bytes[0] = 0x46;
    bytes[3] += 4;
    bytes.splice(20..20, [1, 1, 1, 0]);
    assert_eq!(packet(read(LinkType::RAW, &bytes)).at, 32);
}

#[test]
fn the_padding_of_a_short_ethernet_frame_is_no_payload() {
    let mut bytes = ACK.to_vec();
    bytes.extend([0; 6]);
    let packet = packet(read(LinkType::ETHERNET, &bytes));
    assert_eq!((packet.length, packet.payload.length), (20, 0));
}

#[test]
fn a_snap_length_changes_no_length() {
    let mut bytes = ACK.to_vec();
    bytes[16..18].copy_from_slice(&(48u16 + 1020).to_be_bytes());
    bytes[38..40].copy_from_slice(&(28u16 + 1020).to_be_bytes());
    bytes[42] = BthOpcode::RC_RDMA_READ_RESPONSE_FIRST.0;
    for captured in [54, 58, 60, 62] {
        let frame = cut_frame(LinkType::ETHERNET, &bytes[..captured], 62 + 1020);
        let packet = packet(decode(&frame, &mut NullFieldObserver));
        assert_eq!((packet.length, packet.payload.length, packet.payload.at), (1040, 1020, 58));
        assert_eq!(packet.payload.bytes.len(), captured.saturating_sub(58));
        assert_eq!(packet.aeth.is_some(), captured >= 58);
    }
    for (captured, at) in [(13, 0), (33, 14), (41, 34)] {
        let frame = cut_frame(LinkType::ETHERNET, &bytes[..captured], 62 + 1020);
        assert_eq!(
            decode(&frame, &mut NullFieldObserver).payload,
            NetworkLayerPayload::Other(UndecodableFrameReason::Cut { at })
        );
    }
}

#[test]
fn frames_that_are_not_decoded_have_a_reason() {
    let reason = |link, bytes: &[u8]| match read(link, bytes).payload {
        NetworkLayerPayload::Other(reason) => reason,
        other => panic!("{other:?}"),
    };
    let mut arp = ACK.to_vec();
    arp[13] = 6;
    assert_eq!(reason(LinkType::ETHERNET, &arp), UndecodableFrameReason::EtherType(EtherType::ARP));
    assert_eq!(UndecodableFrameReason::EtherType(EtherType(0x88e5)).to_string(), "ether type 0x88e5");
    let mut icmp = ACK.to_vec();
    icmp[23] = 1;
    assert_eq!(reason(LinkType::ETHERNET, &icmp), UndecodableFrameReason::IpProtocol(IpProtocol::ICMP));
    assert_eq!(reason(LinkType(147), &ACK), UndecodableFrameReason::LinkType(LinkType(147)));
    let mut version = ACK.to_vec();
    version[14] = 0x55;
    assert_eq!(
        reason(LinkType::ETHERNET, &version),
        UndecodableFrameReason::Malformed { what: NetworkHeaderDefect::IpVersion, at: 14 }
    );
    let mut length = ACK.to_vec();
    length[39] = 0x1d;
    assert_eq!(reason(LinkType::ETHERNET, &length).to_string(), "bad UDP length at byte 38");
    let flow_control = [0, 0, 0, 0, 0, 0, 0, 0, 25, 4, 0, 24, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(reason(LinkType::ERF, &flow_control), UndecodableFrameReason::ErfRecord(ErfType::INFINIBAND_LINK));
}

#[test]
fn a_tcp_segment_has_ports_sequence_numbers_and_payload() {
    let mut bytes = vec![0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
    bytes.extend([0xa5, 0x38, 0x08, 0x01, 0x82, 0xd6, 0xee, 0x10, 0xde, 0x7f, 0x2e, 0x18]);
    bytes.extend([0x60, 0x18, 0x00, 0x7e, 0, 0, 0, 0, 1, 1, 1, 0]);
    bytes.extend(*b"abcdef");
    bytes.extend([0; 4]);
    let datagram = read(LinkType::RAW, &bytes);
    let NetworkLayerPayload::Tcp(segment) = datagram.payload else { panic!("{datagram:?}") };
    assert_eq!((segment.source_port, segment.destination_port), (Port(42296), Port(2049)));
    assert_eq!(segment.sequence, TcpSequence(0x82d6_ee10));
    assert_eq!(segment.acknowledgment, TcpSequence(0xde7f_2e18));
    assert!(segment.flags.ack() && !segment.flags.syn() && !segment.flags.fin() && !segment.flags.rst());
    assert_eq!(segment.window, 126);
    assert_eq!(segment.payload, CapturedSlice { bytes: b"abcdef", length: 6, at: 44 });
}

#[test]
fn a_datagram_length_of_zero_was_left_open_by_an_offload() {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
    bytes.extend([0; 12]);
    bytes.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    bytes.extend([7; 100]);
    let frame = cut_frame(LinkType::RAW, &bytes, 70_040);
    let NetworkLayerPayload::Tcp(segment) = decode(&frame, &mut NullFieldObserver).payload else { panic!() };
    assert_eq!((segment.payload.length, segment.payload.bytes.len()), (70_000, 100));
}

#[test]
fn fragments_are_handed_on() {
    let mut bytes = ip().to_vec();
    bytes[6..8].copy_from_slice(&0x2003u16.to_be_bytes());
    let NetworkLayerPayload::Fragment(fragment) = read(LinkType::RAW, &bytes).payload else { panic!() };
    assert_eq!(fragment.protocol, IpProtocol::UDP);
    assert_eq!(fragment.identification, IpIdentification(0x4dba));
    assert_eq!((fragment.offset, fragment.has_more_fragments), (24, true));
    assert_eq!(fragment.payload, CapturedSlice { bytes: &ip()[20..], length: 28, at: 20 });

    let bytes = ip6(44, &[17, 0, 0x00, 0x18, 0xde, 0xad, 0xbe, 0xef]);
    let NetworkLayerPayload::Fragment(fragment) = read(LinkType::RAW, &bytes).payload else { panic!() };
    assert_eq!(fragment.identification, IpIdentification(0xdead_beef));
    assert_eq!((fragment.offset, fragment.has_more_fragments, fragment.payload.at), (24, false, 48));

    let whole = &ip()[20..];
    let datagram = decode_payload(
        address("10.9.0.1"),
        address("10.9.0.2"),
        crate::address::VirtualNetwork::NONE,
        IpProtocol::UDP,
        CapturedSlice::new(whole, whole.len(), 0),
        &mut NullFieldObserver,
    );
    assert_eq!(packet(datagram).at, 8);
}

/// Observer that records name, position and value of each field, and the names of groups.
#[derive(Default)]
struct Told(Vec<(&'static str, Range<usize>, String)>, Vec<&'static str>);

impl<'a> FieldObserver<'a> for Told {
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        self.0.push((field.name, at..at, String::new()));
        self.1.push(field.name);
    }

    fn leave(&mut self, _: usize) {
        self.1.pop().expect("a group was entered");
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.0.push((field.name, bytes, format!("{value:?}")));
    }
}

impl Told {
    fn of(link: LinkType, bytes: &[u8]) -> Self {
        let mut printed = Self::default();
        decode(&frame(link, bytes), &mut printed);
        assert!(printed.1.is_empty(), "groups {:?} were not left", printed.1);
        printed
    }

    #[track_caller]
    fn find(&self, name: &str) -> (Range<usize>, &str) {
        let found = self.0.iter().find(|(printed, ..)| *printed == name);
        found.map(|(_, range, value)| (range.clone(), &value[..])).unwrap_or_else(|| panic!("no {name}"))
    }
}

#[test]
fn an_observer_gets_every_layer_with_wiresharks_names_and_offsets() {
    let printed = Told::of(LinkType::ETHERNET, &ACK);
    assert_eq!(printed.find("eth.dst"), (0..6, "Ethernet([82, 84, 0, 9, 0, 2])"));
    assert_eq!(printed.find("eth.type"), (12..14, "Enum(2048, Some(\"IPv4\"))"));
    assert_eq!(printed.find("ip.hdr_len"), (14..15, "Unsigned(20)"));
    assert_eq!(printed.find("ip.ttl"), (22..23, "Unsigned(64)"));
    assert_eq!(printed.find("ip.src"), (26..30, "Ipv4(10.9.0.1)"));
    assert_eq!(printed.find("udp.dstport"), (36..38, "Unsigned(4791)"));
    assert_eq!(printed.find("infiniband.bth.opcode"), (42..43, "Enum(17, Some(\"RC Acknowledge\"))"));
    assert_eq!(printed.find("infiniband.bth.destqp"), (47..50, "Unsigned(17)"));
    assert_eq!(printed.find("infiniband.aeth.syndrome"), (54..55, "Enum(31, Some(\"Ack\"))"));
    assert_eq!(printed.find("infiniband.aeth.syndrome.credit_count"), (54..55, "Unsigned(31)"));
    assert_eq!(printed.find("infiniband.invariant.crc"), (58..62, "Unsigned(4253102413)"));
    let printed = Told::of(LinkType::INFINIBAND, &NATIVE);
    assert_eq!(printed.find("infiniband.lrh.pktlen"), (4..6, "Unsigned(7)"));
    assert_eq!(printed.find("infiniband.variant.crc"), (28..30, "Unsigned(1286)"));
}

/// Decodes every link type: exactly the known ones are supported.
#[test]
fn the_link_types_that_are_known_are_those_that_are_read() {
    for link in (0..1 << 16).map(LinkType) {
        let is_read =
            !matches!(read(link, &[]).payload, NetworkLayerPayload::Other(UndecodableFrameReason::LinkType(_)));
        assert_eq!(link.is_known(), is_read, "{}", link.0);
    }
}

const LINKS: [LinkType; 13] = [
    LinkType::NULL,
    LinkType::ETHERNET,
    LinkType::RAW_BSD,
    LinkType::RAW_OPENBSD,
    LinkType::RAW,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::ERF,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::INFINIBAND,
    LinkType::LINUX_SLL2,
    LinkType(9999),
];

/// Observer that asserts that groups are nested correctly and that fields are within the bytes.
struct Within(usize, usize);

impl<'a> FieldObserver<'a> for Within {
    fn enter(&mut self, _: &'static FieldDefinition, at: usize) {
        assert!(at <= self.0);
        self.1 += 1;
    }

    fn leave(&mut self, at: usize) {
        assert!(at <= self.0);
        self.1 -= 1;
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, _: FieldValue<'a>) {
        assert!(bytes.start < bytes.end && bytes.end <= self.0, "{} at {bytes:?} of {}", field.name, self.0);
    }
}

/// Asserts that bytes decode to the same with and without an observer, and that all positions are within the frame.
fn holds_for(link: LinkType, bytes: &[u8], length: usize) {
    let frame = cut_frame(link, bytes, length);
    let datagram = decode(&frame, &mut NullFieldObserver);
    let mut within = Within(bytes.len(), 0);
    assert_eq!(decode(&frame, &mut within), datagram);
    assert_eq!(within.1, 0);
    let payload = match datagram.payload {
        NetworkLayerPayload::Infiniband(packet) => {
            let mad = infiniband::mad::Mad::from_packet(&packet, &mut within);
            mad.and_then(|mad| infiniband::cm::CmMessage::decode(&mad, &mut within));
            packet.payload
        }
        NetworkLayerPayload::Tcp(segment) => segment.payload,
        NetworkLayerPayload::Udp(datagram) => datagram.payload,
        NetworkLayerPayload::Fragment(fragment) => fragment.payload,
        NetworkLayerPayload::Other(_) => CapturedSlice::default(),
    };
    assert!(payload.bytes.len() <= payload.length);
    if !payload.bytes.is_empty() {
        assert_eq!(bytes[payload.range()], *payload.bytes);
    }
    datagram.icrc(&frame);
}

proptest::proptest! {
    #[test]
    fn any_bytes_under_any_link_type_decode_to_something(
        link in 0..LINKS.len(),
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        more in 0usize..2000,
    ) {
        holds_for(LINKS[link], &bytes, bytes.len() + more);
    }

    #[test]
    fn a_damaged_packet_decodes_to_something(
        base in 0..4usize,
        cut in 0usize..100,
        changes in proptest::collection::vec((0usize..100, proptest::num::u8::ANY), 0..8),
    ) {
        let (link, mut bytes) = match base {
            0 => (LinkType::ETHERNET, ACK.to_vec()),
            1 => (LinkType::INFINIBAND, NATIVE.to_vec()),
            2 => (LinkType::RAW, ip6(0, &[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 9])),
            _ => (LinkType::ERF, [&[0, 0, 0, 0, 0, 0, 0, 0, 21, 4, 0, 46, 0, 0, 0, 30][..], &NATIVE].concat()),
        };
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let length = bytes.len();
        bytes.truncate(length - cut % (length + 1));
        holds_for(link, &bytes, length);
    }

    /// Compares the header descriptions with etherparse.
    #[test]
    fn etherparse_finds_the_same_ports_and_payload(
        vlans in 0usize..3,
        version6 in proptest::bool::ANY,
        options in 0u8..5,
        tcp in proptest::bool::ANY,
        payload in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
        captured in 0usize..200,
    ) {
        let mut bytes = ACK[..12].to_vec();
        for _ in 0..vlans {
            bytes.extend([0x81, 0x00, 0x00, 0x05]);
        }
        let transport = if tcp {
            [&[8, 1, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], &payload].concat()
        } else {
            let length = 8 + payload.len() as u8;
            [&[8, 1, 0x9c, 0x40, 0, length, 0, 0][..], &payload].concat()
        };
        let protocol = if tcp { 6 } else { 17 };
        if version6 {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            let extension = if options == 0 { vec![] } else {
                let mut extension = vec![protocol, options - 1];
                extension.resize(8 * usize::from(options), 0);
                extension
            };
            bytes.extend(((extension.len() + transport.len()) as u16).to_be_bytes());
            bytes.extend([if options == 0 { protocol } else { 60 }, 64]);
            bytes.extend([0xfd; 32]);
            bytes.extend(extension);
        } else {
            bytes.extend([0x08, 0x00, 0x45 + options, 0]);
            bytes.extend((20 + 4 * u16::from(options) + transport.len() as u16).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
            bytes.extend(vec![1; 4 * usize::from(options)]);
        }
        bytes.extend(transport);
        let length = bytes.len();
        bytes.truncate(captured);

        let ours = match decode(&cut_frame(LinkType::ETHERNET, &bytes, length), &mut NullFieldObserver).payload {
            NetworkLayerPayload::Tcp(segment) => Some((segment.source_port.0, segment.destination_port.0, segment.payload.bytes)),
            NetworkLayerPayload::Udp(datagram) => {
                Some((datagram.source_port.0, datagram.destination_port.0, datagram.payload.bytes))
            }
            _ => None,
        };
        use etherparse::TransportSlice;
        let theirs = etherparse::LaxSlicedPacket::from_ethernet(&bytes).ok().and_then(|sliced| match sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port(), tcp.payload())),
            Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port(), udp.payload())),
            _ => None,
        });
        proptest::prop_assert_eq!(ours, theirs);
    }
}
