//! iWARP below RPC-over-RDMA: RFC 5040, RFC 5041, RFC 5044, RFC 6581.
//!
//! The headers of a segment are judged where an FPDU begins for certain and its CRC is right, or it ends with its TCP
//! segment. The order of segments is judged while no FPDU is lost.

use nfsrdma_flow::exceptional_transport_events::{MpaStartupFault, RdmapFault};

use super::prelude::*;

/// Judges events with such a fault: `$judged` counts the packets to which the rule applies, and the expression returns
/// the values that broke the rule.
macro_rules! fault {
    ($judged:ident: $($fault:pat => $text:expr),+ $(,)?) => {
        RuleCheck::Counted(
            |event| match event.kind {
                $(TransportAnomalyKind::Rdmap($fault) => Some(RuleVerdict::broken($text)),)+
                _ => None,
            },
            |checks| checks.$judged,
            |_| 0,
        )
    };
}

fn startup_text(fault: MpaStartupFault) -> String {
    match fault {
        MpaStartupFault::ReservedBits(bits) => format!("reserved bits {bits:#x}"),
        MpaStartupFault::RejectedRequest => "R bit in a request".to_owned(),
        MpaStartupFault::UsedAfterRejection => "R bit in a reply, and FPDUs after it".to_owned(),
        MpaStartupFault::PrivateDataLength(length) => {
            format!("{length} of private data, at most 512", length = CountWithNoun(length, "byte"))
        }
        MpaStartupFault::PrivateDataMismatch { announced, length } => {
            format!("PD_Length {announced}, {length} of private data", length = CountWithNoun(length, "byte"))
        }
        MpaStartupFault::Revision { requested, replied } => {
            format!("reply of revision {replied} to a request of revision {requested}")
        }
        MpaStartupFault::EnhancedRevision { revision, requested } => {
            let frame = match requested.filter(|requested| *requested != revision) {
                Some(requested) => format!("reply of revision {revision} to a request of revision {requested}"),
                None => format!("revision {revision}"),
            };
            format!("{frame}, but the S bit needs revision 2")
        }
        MpaStartupFault::NoEnhancedData => "no enhanced connection data, which the S bit announces".to_owned(),
        MpaStartupFault::EnhancedReply { is_enhanced: true } => "enhanced reply to a request that is not".to_owned(),
        MpaStartupFault::EnhancedReply { is_enhanced: false } => "plain reply to an enhanced request".to_owned(),
        MpaStartupFault::PeerToPeer { is_requested: true } => "peer-to-peer model requested, not confirmed".to_owned(),
        MpaStartupFault::PeerToPeer { is_requested: false } => "peer-to-peer model confirmed, not requested".to_owned(),
        MpaStartupFault::RdmaReadQueueDepth { outbound, inbound } => {
            format!("{outbound} outbound RDMA Reads, the initiator permits {inbound}")
        }
    }
}

fn framing_text(fault: RdmapFault) -> Option<String> {
    Some(match fault {
        RdmapFault::NoFpdu => "no FPDU behind the one before".to_owned(),
        RdmapFault::NoFpduBehind => "no FPDU begins where this one ends".to_owned(),
        RdmapFault::UlpduLength { announced, length } => {
            format!("ULPDU_Length {announced}, the ULPDU has {}", CountWithNoun(length, "byte"))
        }
        RdmapFault::ShortUlpdu(length) => {
            format!("ULPDU_Length {length}, which has no room for the headers that follow")
        }
        _ => return None,
    })
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "rdmap/crc",
        section: "RFC 5044 section 4.4",
        requirement: "The CRC32C of an FPDU is correct where a side requested CRCs.",
        explanation: "The receiver drops the FPDU and ends the connection. The sender computes the CRC wrongly, or bytes \
            changed on the way although the checksum of TCP is right. Judged once a start-up frame or a correct CRC shows \
            that CRCs are in use. Example: one bit of an FPDU changed between two checksums of TCP: \"wrong CRC\".",
        check: RuleCheck::Counted(
            |event| match event.kind {
                TransportAnomalyKind::BadMpaCrc => Some(RuleVerdict::broken("wrong CRC".to_owned())),
                _ => None,
            },
            |checks| checks.fpdu_crcs,
            |_| 0,
        ),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/framing",
        section: "RFC 5044 section 4.1",
        requirement: "An FPDU begins where the one before it ends, as its ULPDU_Length says.",
        explanation: "A ULPDU_Length is wrong, or the bytes behind an FPDU are not an FPDU. Without CRCs, the receiver uses \
            an FPDU of the wrong length, and cannot decode those that follow. With CRCs, it refuses the FPDU: the CRC is not \
            where the length says, but at the end of the bytes that the sender sent at once. Judged from the start-up frames \
            on, from the first correct CRC, or from the eighth FPDU in a row, as long as all bytes are captured; not in \
            streams with markers. Nothing else is judged of a transaction with bytes in such an FPDU. \
            Example: an RDMA Write of 1000 bytes with the length of one of 996 bytes: \
            \"ULPDU_Length 1010, the ULPDU has 1014 bytes\".",
        check: RuleCheck::Counted(
            |event| match event.kind {
                TransportAnomalyKind::Rdmap(fault) => framing_text(fault).map(RuleVerdict::broken),
                _ => None,
            },
            |checks| checks.fpdus.saturating_sub(checks.unproven_fpdus),
            |checks| checks.unproven_fpdus,
        ),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/marker",
        section: "RFC 5044 sections 4.3 and 7.1",
        requirement: "A side sends markers if and only if the other side requested them, and each points to its FPDU.",
        explanation: "The receiver looks for the next FPDU at the wrong place, and ends the connection with a Terminate. \
            Look at the M bit of the start-up frames. Example: the MPA Request has the M bit, and the FPDUs of the server \
            have no markers: \"no markers, which the peer requested\".",
        check: fault! { startups:
            RdmapFault::NoMarkers => "no markers, which the peer requested".to_owned(),
            RdmapFault::UnrequestedMarkers => "markers, which the peer did not request".to_owned(),
            RdmapFault::MarkerPointer { pointer, expected } => {
                format!("marker points {pointer} back, the FPDU begins {expected} before it", pointer = CountWithNoun(pointer, "byte"), expected = CountWithNoun(expected, "byte"))
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/startup",
        section: "RFC 5044 sections 7.1.1 and 7.1.2, RFC 6581 sections 6, 9 and 10",
        requirement: "The start-up frames of MPA agree with each other and with their revision.",
        explanation: "Reserved bits and the R bit of a Request are zero, PD_Length is the length of the private data, and at \
            most 512 bytes. A responder that sets the R bit rejects the connection, and sends no FPDUs on it. The reply has the revision of \
            the Request. Enhanced \
            connection data needs revision 2, and is in the reply if and only if it is in the Request. The reply confirms \
            the connection model, and wants no more RDMA Reads in flight than the \
            initiator permits. Example: an MPA Request of revision 1 with the S bit, which announces such data: \"revision 1, \
            but the S bit needs revision 2\".",
        check: fault! { startups: RdmapFault::Startup(fault) => startup_text(fault) },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/responder-first",
        section: "RFC 5044 section 7.1.2",
        requirement: "The responder sends no FPDU before it received one of the initiator.",
        explanation: "The receiver of the initiator may not be in full operation yet: it takes the FPDU for private data or \
            for other bytes, and the connection fails now and then. Example: a server sends CB_NULL right after its MPA \
            reply: \"FPDU before the first of the initiator\".",
        check: fault! { startups: RdmapFault::ResponderFirst => "FPDU before the first of the initiator".to_owned() },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/version",
        section: "RFC 5041 section 4.1, RFC 5040 section 4.1",
        requirement: "The version of DDP is 1; the version of RDMAP is 1, or 0 for the RDMA Consortium's specification.",
        explanation: "The receiver ends the connection with a Terminate: invalid version. Example: a segment with 2 in the \
            two bits of the version: \"version 2 of DDP\".",
        check: fault! { fpdus:
            RdmapFault::DdpVersion(version) => format!("version {version} of DDP"),
            RdmapFault::RdmapVersion(version) => format!("version {version} of RDMAP"),
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/reserved-bits",
        section: "RFC 5041 section 4.1, RFC 5040 section 4.1, RFC 5044 sections 4.1 and 4.2",
        requirement: "Reserved bits of the control fields and of markers, and the padding of an FPDU, are zero.",
        explanation: "A receiver of a later version would give the bits a meaning. Some receivers refuse the segment. Padding \
            that is not zero shows memory of the sender. Example: a sender leaves a control field uninitialized: \"reserved \
            bits 0x0 of DDP, 0x1 of RDMAP\".",
        check: fault! { fpdus:
            RdmapFault::ReservedBits { ddp, rdmap } => format!("reserved bits {ddp:#x} of DDP, {rdmap:#x} of RDMAP"),
            RdmapFault::Pad(pad) => format!("padding {pad:#x}"),
            RdmapFault::MarkerReserved(reserved) => format!("reserved field {reserved:#x} of a marker"),
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/opcode",
        section: "RFC 5040 section 4.1, RFC 7306 section 10",
        requirement: "The opcode of a segment is defined.",
        explanation: "The receiver ends the connection with a Terminate: unexpected opcode. Example: a segment with an \
            opcode above those of RFC 7306: \"opcode 0xc\".",
        check: fault! { fpdus: RdmapFault::Opcode(opcode) => format!("opcode {:#x}", opcode.0) },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/tagged",
        section: "RFC 5040 section 4.1",
        requirement: "RDMA Writes and Read Responses are tagged; all other messages are untagged.",
        explanation: "The receiver would place data in memory that was not offered, or in a receive buffer. Example: an RDMA \
            Write with the T bit clear: \"RDMA Write in an untagged segment\".",
        check: fault! { fpdus:
            RdmapFault::Tagged { opcode, is_tagged } => {
                format!("{opcode} in {} segment", if is_tagged { "a tagged" } else { "an untagged" })
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/queue",
        section: "RFC 5040 section 4.1",
        requirement: "Sends use queue 0, RDMA Read Requests queue 1, and Terminates queue 2.",
        explanation: "Each queue has buffers of its own; the receiver answers with a Terminate: invalid queue number. \
            Example: a Send in the queue of RDMA Read Requests: \"Send in queue 1\".",
        check: fault! { fpdus: RdmapFault::Queue { opcode, queue } => format!("{opcode} in queue {}", queue.0) },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/header-length",
        section: "RFC 5040 section 4.4, RFC 5041 sections 4.2 and 4.3, RFC 7306 sections 5.2 and 6",
        requirement: "A ULPDU has the headers of its segment, 14 or 18 bytes; an RDMA Read Request has 28 more bytes and no \
            payload.",
        explanation: "Immediate Data has 8 more bytes, an Atomic Request 52, and an Atomic Response 12. The receiver cannot \
            use another segment, and ends the connection. Example: a request with four bytes \
            behind its header: \"RDMA Read Request with 32 bytes\".",
        check: fault! { fpdus:
            RdmapFault::HeaderLength { opcode, length } => format!("{opcode} with {length}", length = CountWithNoun(length, "byte")),
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/message-number",
        section: "RFC 5041 section 4.3",
        requirement: "The message sequence numbers of each queue begin with 1 and increase by 1 with each message.",
        explanation: "The number selects the receive buffer. The receiver finds no buffer for it, and ends the connection \
            with a Terminate. Example: the third Send comes without the second: \"number 3 in queue 0, expected 2\".",
        check: fault! { untagged_fpdus:
            RdmapFault::MessageNumber { queue, number, expected } => {
                format!("number {} in queue {}, expected {}", number.0, queue.0, expected.0)
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/message-offset",
        section: "RFC 5041 section 5.2",
        requirement: "The offsets of the segments of an untagged message begin with 0 and leave no gap.",
        explanation: "The receiver places bytes at the wrong place in its receive buffer. Example: the first segment of a \
            Send does not begin at 0: \"message offset 4 after 0 bytes\".",
        check: fault! { untagged_fpdus:
            RdmapFault::MessageOffset { offset, expected } => {
                format!("message offset {offset} after {expected}", expected = CountWithNoun(expected, "byte"))
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/tagged-offset",
        section: "RFC 5041 section 5.2",
        requirement: "Each segment of a tagged message continues where the preceding segment ended.",
        explanation: "Memory has bytes at the wrong place, or lacks bytes, and nothing reports it. Example: the second \
            segment of an RDMA Write skips four bytes: \"offset 0x20100404, expected 0x20100400\".",
        check: fault! { ordered_fpdus:
            RdmapFault::TaggedOffset { stag, offset, expected } => {
                format!("STag {stag}, offset {offset:#x}, expected {expected:#x}")
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/last-segment",
        section: "RFC 5041 section 4.1",
        requirement: "The last segment of a message has the L flag, and no other message begins before it.",
        explanation: "The receiver never completes the message without its last segment. Example: the last segment of an \
            RDMA Write lacks the L flag, and a Send follows: \"another message begins before the last segment of RDMA \
            Write\".",
        check: fault! { ordered_fpdus:
            RdmapFault::Interrupted { opcode } => format!("another message begins before the last segment of {opcode}"),
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/response-sink",
        section: "RFC 5040 sections 4.5 and 5.2.2",
        requirement: "A Read Response goes to the sink that its RDMA Read Request names, from its first byte on.",
        explanation: "The response overwrites other memory of the requester, or fails with a Terminate. Example: a request \
            names STag 0x77, and its response goes to 0x66: \"response of 100 bytes, STag 0x00000066\".",
        check: fault! { responses:
            RdmapFault::UnrequestedResponse { stag, offset, length } => {
                format!("response of {length}, STag {stag}, offset {offset:#x}", length = CountWithNoun(length, "byte"))
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/response-order",
        section: "RFC 5040 section 5.2.2",
        requirement: "Read Responses have the order of their requests.",
        explanation: "The requester completes RDMA Reads in their order: it would use the memory of an earlier one before it \
            has its data. Example: the second of two requests is answered first: \"response for STag 0x00000088 before \
            those for 1 earlier request\".",
        check: fault! { responses:
            RdmapFault::ResponseOrder { stag, unanswered } => {
                format!("response for STag {stag} before those for {unanswered}", unanswered = CountWithNoun(unanswered, "earlier request"))
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "rdmap/response-length",
        section: "RFC 5040 sections 4.5 and 5.2.2",
        requirement: "A Read Response has as many bytes as its RDMA Read Request asks for.",
        explanation: "The requester uses memory that the response did not fill. Example: a response ends four bytes before \
            the end of the request: \"response of 996 bytes, 1000 requested\".",
        check: fault! { responses:
            RdmapFault::ResponseLength { length, requested } => {
                format!("response of {length}, {requested} requested", length = CountWithNoun(length, "byte"))
            },
        },
        ..Rule::PER_CONNECTION
    },
];
