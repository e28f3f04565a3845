//! Tunnels, encoded by hand from their specifications.

use super::*;
use crate::infiniband::icrc::Icrc;

/// Returns an outer IPv4 header of this protocol with the payload.
fn outer_ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    [&bytes, payload].concat()
}

fn gre(header: &[u8], inside: &[u8]) -> Vec<u8> {
    outer_ip(47, &[header, inside].concat())
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 0x01];
    bytes.extend(port.to_be_bytes());
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    [&bytes, payload].concat()
}

fn vxlan(inside: &[u8]) -> Vec<u8> {
    let header = [0x08, 0, 0, 0, 0x00, 0x00, 0x64, 0x00];
    outer_ip(17, &udp(4789, &[&header[..], inside].concat()))
}

/// Returns an Ethernet frame of this EtherType.
fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ACK[..12], &ether_type.to_be_bytes(), payload].concat()
}

/// Asserts that bytes ending with the IP datagram of [`ACK`] lead to it, complete and at any truncation.
#[track_caller]
fn leads_to_the_acknowledgement(link: LinkType, bytes: &[u8]) {
    let network = bytes.len() - ip().len();
    let whole = frame(link, bytes);
    let datagram = decode(&whole, &mut NullFieldObserver);
    assert_eq!((datagram.source, datagram.destination), (address("10.9.0.1"), address("10.9.0.2")));
    assert_eq!(datagram.network_offset, network);
    let found = packet(datagram);
    assert_eq!((found.encapsulation, found.at, found.length), (RdmaEncapsulation::RoceV2, network + 28, 20));
    assert_eq!(found.bth.psn, Psn(0xc7_3bf3));
    assert_eq!(datagram.icrc(&whole), Some(Icrc::Good));
    Told::of(link, bytes);
    for captured in 0..bytes.len() {
        let cut = cut_frame(link, &bytes[..captured], bytes.len());
        let datagram = decode(&cut, &mut NullFieldObserver);
        if let NetworkLayerPayload::Infiniband(packet) = datagram.payload {
            assert_eq!((packet.at, packet.length), (found.at, found.length));
            assert_eq!(datagram.network_offset, network);
        } else {
            let cut = matches!(datagram.payload, NetworkLayerPayload::Other(UndecodableFrameReason::Cut { .. }));
            let in_bth = matches!(
                datagram.payload,
                NetworkLayerPayload::Other(UndecodableFrameReason::Infiniband(infiniband::PacketError {
                    kind: infiniband::PacketErrorKind::Cut,
                    ..
                }))
            );
            assert!(cut || in_bth, "{captured} bytes: {datagram:?}");
        }
    }
}

#[track_caller]
fn malformed(link: LinkType, bytes: &[u8]) -> (NetworkHeaderDefect, usize) {
    match read(link, bytes).payload {
        NetworkLayerPayload::Other(UndecodableFrameReason::Malformed { what, at }) => (what, at),
        other => panic!("{other:?}"),
    }
}

/// RFC 2784 section 2: no optional field, each field of RFC 2890 section 2 and RFC 1701, and all of them.
#[test]
fn gre_with_every_field_that_its_flags_announce() {
    let checksum = [0xab, 0xcd, 0, 0];
    let key = [0, 0, 0, 7];
    let sequence = [0, 0, 0, 9];
    // A route of eight bytes over IPv4, and the entry of zeros at the end of the list.
    let routing = [8, 0, 4, 8, 192, 0, 2, 3, 192, 0, 2, 4, 0, 0, 0, 0];
    let offset = [0, 0, 0, 4];
    for header in [
        &[0x00, 0x00, 0x08, 0x00][..],
        &[&[0x80, 0x00, 0x08, 0x00][..], &checksum].concat(),
        &[&[0x20, 0x00, 0x08, 0x00][..], &key].concat(),
        &[&[0x10, 0x00, 0x08, 0x00][..], &sequence].concat(),
        &[&[0xb0, 0x00, 0x08, 0x00][..], &checksum, &key, &sequence].concat(),
        &[&[0x40, 0x00, 0x08, 0x00][..], &offset, &routing].concat(),
        &[&[0xf0, 0x00, 0x08, 0x00][..], &checksum, &key, &sequence, &routing].concat(),
    ] {
        leads_to_the_acknowledgement(LinkType::RAW, &gre(header, ip()));
    }
}

#[test]
fn gre_fields_have_wiresharks_names() {
    let header = [0xb0, 0, 0x08, 0, 0xab, 0xcd, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9];
    let printed = Told::of(LinkType::RAW, &gre(&header, ip()));
    assert_eq!(printed.find("gre.flags.key"), (20..21, "Bool(true)"));
    assert_eq!(printed.find("gre.proto"), (22..24, "Enum(2048, Some(\"IPv4\"))"));
    assert_eq!(printed.find("gre.checksum"), (24..26, "Unsigned(43981)"));
    assert_eq!(printed.find("gre.key"), (28..32, "Unsigned(7)"));
    assert_eq!(printed.find("gre.sequence_number"), (32..36, "Unsigned(9)"));
}

/// RFC 7637 section 3.2: GRE with a key of subnet and flow, and untagged Ethernet inside.
#[test]
fn nvgre_and_bridged_ethernet() {
    leads_to_the_acknowledgement(LinkType::RAW, &gre(&[0x20, 0, 0x65, 0x58, 0, 0x12, 0x34, 0x05], &ACK));
    leads_to_the_acknowledgement(LinkType::RAW, &gre(&[0, 0, 0x65, 0x58], &ACK));
}

#[test]
fn erspan_type_1_is_gre_without_sequence_number() {
    leads_to_the_acknowledgement(LinkType::RAW, &gre(&[0, 0, 0x88, 0xbe], &ACK));
}

/// draft-foschiano-erspan-03 section 4.2.
#[test]
fn erspan_type_2_has_a_header_of_eight_bytes() {
    // Version 1, VLAN 100; class 3, encapsulation 2, not truncated, session 5; index 0x12345.
    let erspan = [0x10, 0x64, 0x70, 0x05, 0x00, 0x01, 0x23, 0x45];
    let bytes = gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1], &[&erspan[..], &ACK].concat());
    leads_to_the_acknowledgement(LinkType::RAW, &bytes);
    let printed = Told::of(LinkType::RAW, &bytes);
    assert_eq!(printed.find("erspan.version").1, "Unsigned(1)");
    assert_eq!(printed.find("erspan.vlan").1, "Unsigned(100)");
    assert_eq!(printed.find("erspan.cos").1, "Unsigned(3)");
    assert_eq!(printed.find("erspan.encap").1, "Unsigned(2)");
    assert_eq!(printed.find("erspan.truncated").1, "Bool(false)");
    assert_eq!(printed.find("erspan.spanid"), (30..32, "Unsigned(5)"));
    assert_eq!(printed.find("erspan.index"), (33..36, "Unsigned(74565)"));
}

/// draft-foschiano-erspan-03 section 4.3.
#[test]
fn erspan_type_3_holds_ethernet_or_ip_behind_an_optional_subheader() {
    let gre_header = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1];
    let header = |last: [u8; 2]| {
        let mut header = vec![0x20, 0x64, 0x00, 0x05, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x00];
        header.extend(last);
        header
    };
    let platform = [0x0c, 0, 0, 1, 0, 0, 0, 2];
    let ethernet = [&header([0x80, 0x1c])[..], &ACK].concat();
    let ip_only = [&header([0x08, 0x14])[..], ip()].concat();
    let with_platform = [&header([0x00, 0x15])[..], &platform, &ACK].concat();
    for inside in [&ethernet, &ip_only, &with_platform] {
        leads_to_the_acknowledgement(LinkType::RAW, &gre(&gre_header, inside));
    }
    let printed = Told::of(LinkType::RAW, &gre(&gre_header, &with_platform));
    assert_eq!(printed.find("erspan.timestamp").1, "Unsigned(3735928559)");
    assert_eq!(printed.find("erspan.ft").1, "Enum(0, Some(\"Ethernet\"))");
    assert_eq!(printed.find("erspan.hw").1, "Unsigned(1)");
    assert_eq!(printed.find("erspan.gra").1, "Unsigned(2)");
    assert_eq!(printed.find("erspan.o").1, "Bool(true)");
    assert_eq!(printed.find("erspan.platid").1, "Unsigned(3)");
    let reserved = gre(&gre_header, &[&header([0x04, 0x00])[..], &ACK].concat());
    assert_eq!(malformed(LinkType::RAW, &reserved), (NetworkHeaderDefect::ErspanFrameType, 38));
}

/// A mirror truncates frames like a snap length: the inner headers keep their lengths.
#[test]
fn a_frame_that_the_mirror_cut_keeps_its_lengths() {
    let erspan = [0x10, 0x64, 0x04, 0x05, 0, 0, 0, 0];
    let bytes = gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1], &[&erspan[..], &ACK[..56]].concat());
    let found = packet(read(LinkType::RAW, &bytes));
    assert_eq!((found.length, found.payload.length, found.aeth), (20, 0, None));
    let whole = frame(LinkType::RAW, &bytes);
    assert_eq!(decode(&whole, &mut NullFieldObserver).icrc(&whole), Some(Icrc::Unknown));
}

/// RFC 7348 section 5.
#[test]
fn vxlan_holds_ethernet_where_its_identifier_is_valid() {
    let bytes = vxlan(&ACK);
    leads_to_the_acknowledgement(LinkType::RAW, &bytes);
    let printed = Told::of(LinkType::RAW, &bytes);
    assert_eq!(printed.find("vxlan.flag_i").1, "Bool(true)");
    assert_eq!(printed.find("vxlan.vni"), (32..35, "Unsigned(100)"));
    let mut invalid = bytes;
    invalid[28] = 0;
    let NetworkLayerPayload::Udp(datagram) = read(LinkType::RAW, &invalid).payload else { panic!() };
    assert_eq!(datagram.destination_port, Port(4789));
}

#[test]
fn vlan_tags_stand_inside_of_tunnels_too() {
    let tagged = [&ACK[..12], &[0x81, 0, 0, 5, 0x08, 0][..], ip()].concat();
    leads_to_the_acknowledgement(LinkType::RAW, &vxlan(&tagged));
}

/// RFC 2003 and RFC 2473: IP protocols 4 and 41, in IPv4 and IPv6.
#[test]
fn ip_in_ip() {
    leads_to_the_acknowledgement(LinkType::RAW, &outer_ip(4, ip()));
    let mut in_ipv6 = ip6(4, &[]);
    in_ipv6.truncate(40);
    in_ipv6[5] = ip().len() as u8;
    in_ipv6.extend(ip());
    leads_to_the_acknowledgement(LinkType::RAW, &in_ipv6);
    let bytes = outer_ip(41, &ip6(17, &[]));
    let datagram = read(LinkType::RAW, &bytes);
    assert_eq!((datagram.source, datagram.network_offset), (address("fd09::1"), 20));
    assert_eq!(packet(datagram).at, 68);
}

/// Two labels, the second at the bottom of the stack. RFC 3032 section 2.1.
const LABELS: [u8; 8] = [0x00, 0x06, 0x4a, 0x40, 0x00, 0x0c, 0x81, 0x3f];

#[test]
fn mpls_holds_ip_by_its_first_bits() {
    for ether_type in [0x8847, 0x8848] {
        let bytes = ethernet(ether_type, &[&LABELS, ip()].concat());
        leads_to_the_acknowledgement(LinkType::ETHERNET, &bytes);
    }
    let bytes = ethernet(0x8847, &[&LABELS[..], &ip6(17, &[])].concat());
    assert_eq!(read(LinkType::ETHERNET, &bytes).source, address("fd09::1"));
    let printed = Told::of(LinkType::ETHERNET, &ethernet(0x8847, &[&LABELS[4..], ip()].concat()));
    assert_eq!(printed.find("mpls.label"), (14..17, "Unsigned(200)"));
    assert_eq!(printed.find("mpls.bottom").1, "Bool(true)");
    assert_eq!(printed.find("mpls.ttl"), (17..18, "Unsigned(63)"));
}

/// RFC 3032 section 2.1: labels 0 and 2 identify the payload.
#[test]
fn an_explicit_null_label_identifies_the_payload() {
    leads_to_the_acknowledgement(LinkType::ETHERNET, &ethernet(0x8847, &[&[0, 0, 0x01, 64], ip()].concat()));
    let bytes = ethernet(0x8847, &[&[0, 0, 0x21, 64], ip()].concat());
    assert_eq!(malformed(LinkType::ETHERNET, &bytes), (NetworkHeaderDefect::IpVersion, 18));
}

#[test]
fn mpls_in_gre() {
    leads_to_the_acknowledgement(LinkType::RAW, &gre(&[0, 0, 0x88, 0x47], &[&LABELS, ip()].concat()));
}

/// Returns a pseudowire frame with this destination address.
fn pseudowire(control: &[u8], destination: [u8; 6]) -> Vec<u8> {
    let mut inside = ACK.to_vec();
    inside[..6].copy_from_slice(&destination);
    ethernet(0x8847, &[&LABELS, control, &inside].concat())
}

/// RFC 4448 section 4.6 and RFC 4928 section 3: an Ethernet address may begin with any bits.
#[test]
fn an_ethernet_pseudowire_with_and_without_control_word() {
    for first in [0x52, 0x00, 0x02, 0x45, 0x40, 0x60, 0x16, 0xff] {
        for second in [0x00, 0x54] {
            let destination = [first, second, 0, 9, 0, 1];
            for control in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 7]] {
                let bytes = pseudowire(control, destination);
                let datagram = read(LinkType::ETHERNET, &bytes);
                assert_eq!(datagram.source, address("10.9.0.1"), "{destination:x?} {control:?}");
                assert_eq!(packet(datagram).bth.psn, Psn(0xc7_3bf3));
            }
        }
    }
    let bytes = pseudowire(&[0, 0, 0, 7], [0x52, 0x54, 0, 9, 0, 1]);
    leads_to_the_acknowledgement(LinkType::ETHERNET, &bytes);
    assert_eq!(Told::of(LinkType::ETHERNET, &bytes).find("pweth.cw.sequence_number").1, "Unsigned(7)");
}

/// RFC 4385 section 5: a first nibble of 1 is an associated channel.
#[test]
fn a_channel_beside_a_pseudowire_is_not_read() {
    let bytes = ethernet(0x8847, &[&LABELS[..], &[0x10, 0, 0x00, 0x21, 0x45, 0, 0, 0]].concat());
    assert_eq!(
        read(LinkType::ETHERNET, &bytes).payload,
        NetworkLayerPayload::Other(UndecodableFrameReason::EtherType(EtherType::MPLS))
    );
    assert_eq!(Told::of(LinkType::ETHERNET, &bytes).find("pwach.channel_type").1, "Unsigned(33)");
}

#[test]
fn payloads_of_tunnels_are_decoded_like_those_outside() {
    let mut roce_v1 = grh(20);
    roce_v1.extend(&NATIVE[8..28]);
    let bytes = vxlan(&ethernet(0x8915, &roce_v1));
    let found = packet(read(LinkType::RAW, &bytes));
    assert_eq!((found.encapsulation, found.at), (RdmaEncapsulation::RoceV1, 20 + 8 + 8 + 14 + 40));
    let mut fragment = ip().to_vec();
    fragment[6..8].copy_from_slice(&0x2000u16.to_be_bytes());
    let bytes = gre(&[0, 0, 8, 0], &fragment);
    let datagram = read(LinkType::RAW, &bytes);
    assert!(matches!(datagram.payload, NetworkLayerPayload::Fragment(_)));
    assert_eq!(datagram.source, address("10.9.0.1"));
    let arp = vxlan(&ethernet(0x0806, &[0; 28]));
    let datagram = read(LinkType::RAW, &arp);
    assert_eq!(datagram.payload, NetworkLayerPayload::Other(UndecodableFrameReason::EtherType(EtherType::ARP)));
    assert_eq!(datagram.source, Address::Unknown, "its addresses are those of Ethernet");
    let keepalive = gre(&[0, 0, 0, 0], &[]);
    assert_eq!(read(LinkType::RAW, &keepalive).source, address("192.0.2.1"));
}

#[test]
fn tunnels_in_tunnels_are_read_to_a_depth_of_eight() {
    let mut bytes = ip().to_vec();
    for _ in 0..8 {
        bytes = outer_ip(4, &bytes);
    }
    leads_to_the_acknowledgement(LinkType::RAW, &bytes);
    assert_eq!(malformed(LinkType::RAW, &outer_ip(4, &bytes)), (NetworkHeaderDefect::TunnelDepth, 9 * 20));
    leads_to_the_acknowledgement(
        LinkType::ETHERNET,
        &ethernet(0x0800, &gre(&[0, 0, 0x88, 0xbe], &ethernet(0x0800, &vxlan(&ACK)))),
    );
}

#[test]
fn an_invalid_tunnel_header_is_malformed() {
    assert_eq!(malformed(LinkType::RAW, &gre(&[0, 7, 8, 0], ip())), (NetworkHeaderDefect::GreVersion, 21));
    assert_eq!(malformed(LinkType::RAW, &gre(&[0x20, 0, 8, 0, 0, 0], &[])), (NetworkHeaderDefect::GreHeader, 24));
    assert_eq!(
        malformed(LinkType::RAW, &gre(&[0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 9], &[])).0,
        NetworkHeaderDefect::GreHeader
    );
    let erspan = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1];
    assert_eq!(malformed(LinkType::RAW, &gre(&erspan, &[0x20; 80])), (NetworkHeaderDefect::ErspanVersion, 28));
    assert_eq!(malformed(LinkType::RAW, &gre(&erspan, &[0x10; 7])), (NetworkHeaderDefect::ErspanHeader, 28));
    let bytes = ethernet(0x8847, &[0; 4]);
    assert_eq!(malformed(LinkType::ETHERNET, &bytes), (NetworkHeaderDefect::MplsStack, 18));
    // PPTP has its own GRE version. RFC 2637 section 4.1.
    let pptp = gre(&[0x30, 0x81, 0x88, 0x0b], &[0; 20]);
    assert_eq!(
        read(LinkType::RAW, &pptp).payload,
        NetworkLayerPayload::Other(UndecodableFrameReason::EtherType(EtherType::PPP))
    );
}

fn every_kind() -> Vec<Vec<u8>> {
    let erspan_2 = [&[0x10, 0x64, 0x70, 0x05, 0, 0, 0, 0][..], &ACK].concat();
    let erspan_3 = [&[0x20, 0x64, 0, 5, 1, 2, 3, 4, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0][..], &ACK].concat();
    let routed = [0xf0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 8, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
    [
        gre(&routed, &ACK),
        gre(&[0, 0, 0x88, 0xbe], &ACK),
        gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1], &erspan_2),
        gre(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1], &erspan_3),
        gre(&[0, 0, 0x88, 0x47], &[&LABELS, &[0, 0, 0, 7][..], &ACK].concat()),
        outer_ip(4, &outer_ip(41, &ip6(17, &[]))),
        vxlan(&ethernet(0x8847, &[&LABELS, ip()].concat())),
    ]
    .map(|bytes| ethernet(0x0800, &bytes))
    .into()
}

proptest::proptest! {
    #[test]
    fn any_bytes_in_a_tunnel_decode_to_something(
        kind in 0..7usize,
        kept in 14usize..80,
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        more in 0usize..2000,
    ) {
        let mut tunnel = every_kind().swap_remove(kind);
        tunnel.truncate(kept);
        tunnel.extend(&bytes);
        // The lengths of IP and UDP extend to the end of the bytes.
        let (ip_length, udp_length) = (tunnel.len() as u16 - 14, tunnel.len().saturating_sub(34) as u16);
        if let Some(length) = tunnel.get_mut(16..18) {
            length.copy_from_slice(&ip_length.to_be_bytes());
        }
        if kind == 6 && let Some(length) = tunnel.get_mut(38..40) {
            length.copy_from_slice(&udp_length.to_be_bytes());
        }
        holds_for(LinkType::ETHERNET, &tunnel, tunnel.len() + more);
    }

    #[test]
    fn a_damaged_tunnel_decodes_to_something(
        kind in 0..7usize,
        cut in 0usize..200,
        changes in proptest::collection::vec((0usize..200, proptest::num::u8::ANY), 0..8),
    ) {
        let mut bytes = every_kind().swap_remove(kind);
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let length = bytes.len();
        bytes.truncate(length - cut % (length + 1));
        holds_for(LinkType::ETHERNET, &bytes, length);
    }

    /// Frames with the maximum nesting that fits.
    #[test]
    fn headers_of_tunnels_in_any_order_decode_to_something(
        kinds in proptest::collection::vec(0..7usize, 1..24),
    ) {
        let mut bytes = ACK.to_vec();
        for kind in kinds {
            bytes = match kind {
                0 => ethernet(0x0800, &vxlan(&bytes)),
                1 => ethernet(0x0800, &gre(&[0, 0, 0x65, 0x58], &bytes)),
                2 => ethernet(0x8847, &[&LABELS, &[0; 4][..], &bytes].concat()),
                3 => ethernet(0x8847, &[&LABELS, &bytes[..]].concat()),
                4 => ethernet(0x8847, &LABELS.repeat(2)[..4].repeat(9)),
                5 => ethernet(0x0800, &outer_ip(4, &bytes[14..])),
                _ => ethernet(0x8100, &[&[0, 1][..], &bytes[12..]].concat()),
            };
        }
        holds_for(LinkType::ETHERNET, &bytes, bytes.len());
    }
}
