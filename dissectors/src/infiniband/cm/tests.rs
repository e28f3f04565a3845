use super::*;
use crate::infiniband::mad::{MadHeader, MadMethod, MadTransactionId};
use crate::infiniband::{InfinibandPacket, RdmaEncapsulation};

/// Decodes a hex dump.
fn hex(dump: &str) -> Vec<u8> {
    let digits: Vec<u8> = dump.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Returns a packet from the Base Transport Header to the ICRC, with a 24-byte MAD header of this attribute.
fn packet(attribute: u16, message: &[u8]) -> Vec<u8> {
    let mut bytes = hex("6400ffff 00000001 80000000  80010000 00000001");
    let header = MadHeader {
        baseversion: 1,
        mgmtclass: MadManagementClass::COMMUNICATION,
        classversion: 2,
        method: MadMethod::SEND,
        status: 0,
        classspecific: 0,
        transactionid: MadTransactionId(0x2_3dd4_aece),
        attributeid: MadAttributeId(attribute),
        attributemodifier: 0,
    };
    bytes.extend(header.encode());
    bytes.extend(message);
    bytes.resize(12 + 8 + 256 + 4, 0);
    bytes
}

fn read(bytes: &[u8]) -> Option<CmMessage<'_>> {
    let part = CapturedSlice::new(bytes, 280, 42);
    let packet = InfinibandPacket::decode(part, RdmaEncapsulation::RoceV2, &mut NullFieldObserver).unwrap();
    CmMessage::decode(&Mad::from_packet(&packet, &mut NullFieldObserver)?, &mut NullFieldObserver)
}

/// REQ of a Linux NFS client at 10.9.0.2 to port 20049 of 10.9.0.1.
fn linux_request() -> Vec<u8> {
    hex("ceaed43d 00000000 0000000001064e51 505400fffe090002 00000000 00000000
         000011 80 000000 00 000000 a0 da8377 a6 ffff 30f0
         ffff ffff 00000000000000000000ffff0a090002 00000000000000000000ffff0a090001
         72915000 00400088
         0000 0000 00000000000000000000000000000000 00000000000000000000000000000000 00000000 00000000
         0040bcbc 0000000000000000000000000a090002 0000000000000000000000000a090001
         f6ab0e1801010303")
}

#[test]
fn req_of_a_linux_client_names_its_queue_pair_and_its_addresses() {
    let bytes = packet(0x10, &linux_request());
    let Some(CmMessage::Request(request, ends, private)) = read(&bytes) else { panic!() };
    assert_eq!(request.local_comm_id, CommunicationId(0xceae_d43d));
    assert_eq!(request.service_id, ServiceId(0x0106_4e51));
    assert_eq!(request.local_ca_guid, Guid(0x5054_00ff_fe09_0002));
    assert_eq!((request.local_qpn, request.starting_psn), (Qpn(0x11), Psn(0xda_8377)));
    assert_eq!((request.responder_resources, request.initiator_depth), (128, 0));
    assert_eq!((request.remote_response_timeout, request.local_response_timeout), (0x14, 0x14));
    assert_eq!((request.retry_count, request.rnr_retry_count, request.max_cm_retries), (6, 0, 15));
    assert_eq!((request.transport_service, request.path_mtu), (CmTransportServiceType::RC, PathMtu::B1024));
    assert_eq!((request.primary_local_lid, request.pkey), (Lid(0xffff), PartitionKey(0xffff)));
    assert_eq!(request.primary_local_gid, Ipv4Addr::new(10, 9, 0, 2).to_ipv6_mapped());
    assert_eq!((request.primary_flow_label, request.primary_packet_rate), (0x7_2915, 0));
    assert_eq!((request.primary_hop_limit, request.primary_ack_timeout), (0x40, 0x11));
    assert_eq!(
        ends,
        Some(CmRequestIpEndpoints {
            space: PortSpace::TCP,
            source: Ipv4Addr::new(10, 9, 0, 2).into(),
            source_port: Port(0xbcbc),
            destination: Ipv4Addr::new(10, 9, 0, 1).into(),
            destination_port: Port(20049),
        })
    );
    assert_eq!((private.length, private.at), (56, 42 + 20 + 24 + 140 + 36));
    assert_eq!(private.bytes[..8], [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
}

#[test]
fn req_over_ipv6() {
    let mut message = linux_request();
    message[141] = 0x60;
    message[144..160].copy_from_slice(&"fd09::2".parse::<Ipv6Addr>().unwrap().octets());
    message[160..176].copy_from_slice(&"fd09::1".parse::<Ipv6Addr>().unwrap().octets());
    let bytes = packet(0x10, &message);
    let Some(CmMessage::Request(_, Some(ends), _)) = read(&bytes) else { panic!() };
    assert_eq!((ends.source.to_string(), ends.destination.to_string()), ("fd09::2".into(), "fd09::1".into()));
}

#[test]
fn private_data_is_all_of_92_bytes_when_the_service_is_no_port_of_ip() {
    let mut message = linux_request();
    message[8] = 0x10;
    let bytes = packet(0x10, &message);
    let Some(CmMessage::Request(_, None, private)) = read(&bytes) else { panic!() };
    assert_eq!((private.length, &private.bytes[..4]), (92, &[0x00, 0x40, 0xbc, 0xbc][..]));
}

#[test]
fn rep_names_the_queue_pair_of_the_server() {
    let message =
        hex("98c3468d ceaed43d 00000000 00001100 00000000 c73bf300 00 80 78 00 505400fffe090001 f6ab0e1801000303");
    let bytes = packet(0x13, &message);
    let Some(CmMessage::Reply(reply, private)) = read(&bytes) else { panic!() };
    assert_eq!(reply.local_comm_id, CommunicationId(0x98c3_468d));
    assert_eq!(reply.remote_comm_id, CommunicationId(0xceae_d43d));
    assert_eq!((reply.local_qpn, reply.starting_psn), (Qpn(0x11), Psn(0xc7_3bf3)));
    assert_eq!((reply.responder_resources, reply.initiator_depth, reply.target_ack_delay), (0, 128, 15));
    assert_eq!(reply.local_ca_guid, Guid(0x5054_00ff_fe09_0001));
    assert_eq!((private.length, &private.bytes[..4]), (196, &[0xf6, 0xab, 0x0e, 0x18][..]));
}

#[test]
fn every_other_message_has_its_fields_and_232_bytes() {
    let bytes = packet(0x14, &hex("ceaed43d 98c3468d"));
    let Some(CmMessage::ReadyToUse(rtu, private)) = read(&bytes) else { panic!() };
    assert_eq!((rtu.remote_comm_id, private.length), (CommunicationId(0x98c3_468d), 224));

    let bytes = packet(0x11, &hex("00000001 00000002 40 a8"));
    let Some(CmMessage::ReceiptAck(mra, private)) = read(&bytes) else { panic!() };
    assert_eq!((mra.message, mra.service_timeout, private.length), (ReferencedCmMessageType::REP, 21, 222));

    let bytes = packet(0x12, &hex("00000001 00000002 00 08 001c deadbeef"));
    let Some(CmMessage::Reject(reject, information, private)) = read(&bytes) else { panic!() };
    assert_eq!(
        (reject.reason, reject.message, reject.info_length),
        (CmRejectReason::CONSUMER, ReferencedCmMessageType::REQ, 4)
    );
    assert_eq!(reject.reason.to_string(), "Consumer reject");
    assert_eq!((&information.bytes[..4], information.length), (&[0xde, 0xad, 0xbe, 0xef][..], 72));
    assert_eq!(private.length, 148);

    let bytes = packet(0x15, &hex("ceaed43d 98c3468d 00001100"));
    let Some(CmMessage::DisconnectRequest(dreq, private)) = read(&bytes) else { panic!() };
    assert_eq!((dreq.remote_qpn, private.length), (Qpn(0x11), 220));

    let bytes = packet(0x16, &hex("98c3468d ceaed43d"));
    let Some(CmMessage::DisconnectReply(drep, private)) = read(&bytes) else { panic!() };
    assert_eq!((drep.local_comm_id, private.length), (CommunicationId(0x98c3_468d), 224));

    let bytes = packet(0x19, &hex("00000001 00000002 00000000 000011a0 00000000 0005 0006"));
    let Some(CmMessage::LoadPath(lap, private)) = read(&bytes) else { panic!() };
    assert_eq!((lap.remote_qpn, lap.remote_response_timeout), (Qpn(0x11), 20));
    assert_eq!((lap.local_lid, lap.remote_lid, private.length), (Lid(5), Lid(6), 168));

    let bytes = packet(0x1a, &hex("00000001 00000002 00 03"));
    let Some(CmMessage::PathReply(apr, information, private)) = read(&bytes) else { panic!() };
    assert_eq!((apr.status, information.length, private.length), (AlternatePathStatus::REJECTED, 72, 148));

    let bytes = packet(0x17, &hex("00000001 ffff 0000 0000000001114e51"));
    let Some(CmMessage::ServiceRequest(sidr, private)) = read(&bytes) else { panic!() };
    assert_eq!((sidr.service_id.ip_port(), private.length), (Some((PortSpace::UDP, Port(20049))), 216));

    let bytes = packet(0x18, &hex("00000001 02 00 0000 00001100 0000000001114e51 00000007"));
    let Some(CmMessage::ServiceReply(sidr, information, private)) = read(&bytes) else { panic!() };
    assert_eq!((sidr.status, sidr.qpn, sidr.q_key), (SidrReplyStatus::REJECTED, Qpn(0x11), InfinibandQKey(7)));
    assert_eq!((information.length, private.length), (72, 136));

    assert_eq!(read(&packet(0x99, &[])), Some(CmMessage::Unknown(CmMessageType(0x99))));
}

#[test]
fn a_snap_length_of_128_leaves_the_reply_and_cuts_the_request() {
    let request = packet(0x10, &linux_request());
    assert!(matches!(read(&request[..128 - 42]), Some(CmMessage::Cut(CmMessageType::REQ, _))));
    let reply = packet(0x13, &hex("98c3468d ceaed43d 00000000 00001100 00000000 c73bf300"));
    let Some(CmMessage::Reply(reply, private)) = read(&reply[..128 - 42]) else { panic!() };
    assert_eq!((reply.local_qpn, private.bytes.len(), private.length), (Qpn(0x11), 6, 196));
    let request = packet(0x10, &linux_request());
    let Some(CmMessage::Request(_, None, private)) = read(&request[..210]) else { panic!() };
    assert!(private.is_cut());
}

#[test]
fn other_packets_are_no_management_datagrams() {
    let mut bytes = packet(0x10, &linux_request());
    bytes[7] = 2;
    assert_eq!(read(&bytes), None);
    bytes[7] = 1;
    bytes[21] = 0x03;
    assert_eq!(read(&bytes), None);
}
