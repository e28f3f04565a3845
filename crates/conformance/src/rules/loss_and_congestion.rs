//! The transport below RPC-over-RDMA: losses and congestion.

use nfsrdma_dissectors::infiniband::NakCode;
use nfsrdma_flow::PacketOpcodeOrLengthViolation;

use super::prelude::*;

/// Judges events of such a kind: `$applicable` returns the number of packets to which the rule applies, and the
/// expression the values that broke it.
macro_rules! anomaly {
    ($applicable:expr; $($kind:pat $(if $condition:expr)? => $text:expr),+ $(,)?) => {
        RuleCheck::Counted(
            |event| match event.kind {
                $($kind $(if $condition)? => Some(RuleVerdict::broken($text)),)+
                _ => None,
            },
            $applicable,
            |_| 0,
        )
    };
}

/// Returns the verdict about an event that the peer of its sender caused: another rule names that.
fn caused_by_peer(event: &CapturedTransportEvent, text: String) -> RuleVerdict {
    RuleVerdict::broken(text).by(event.sender.peer()).with_severity(Severity::Info)
}

fn nak_text(code: NakCode) -> String {
    format!("NAK {}: {code}", code.0)
}

/// Rules about events that end a connection, or may end it.
pub(crate) const ENDS_CONNECTION: [&str; 5] = [
    "transport/nak-invalid-request",
    "transport/nak-access",
    "transport/nak-operational",
    "transport/receiver-not-ready",
    "transport/terminate",
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "transport/nak-sequence",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2",
        requirement: "Observation: a receiver reports a missing packet.",
        explanation: "NAK PSN Sequence Error: the receiver misses a packet and asks for all packets from there on. Each NAK \
            costs a round trip and repeated data. Look at drop and pause counters of switches and adapters. The side is the \
            receiver that misses packets. Example: a switch drops one packet of an RDMA Write of 256: \"NAK 0: PSN Sequence \
            Error\".",
        check: anomaly! { |checks| checks.acknowledgments;
            TransportAnomalyKind::Nak(code @ NakCode::PSN_SEQUENCE_ERROR) => nak_text(code)
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/nak-invalid-request",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2",
        requirement: "Observation: a receiver refuses the operation or the length of a request.",
        explanation: "NAK Invalid Request ends the connection. A Send was longer than the receive buffer, an RDMA Write had \
            another length than its header announced, or too many RDMA Reads were in flight. Look at the request with the \
            same PSN. If it is a Send above the inline threshold, its sender is the side, and this is information: see \
            rpcrdma/send-too-long. Example: a Send of 4,100 bytes into a receive buffer of 4,096: \"NAK 1: Invalid Request\".",
        check: RuleCheck::Counted(
            |event| match event.kind {
                TransportAnomalyKind::Nak(code @ NakCode::INVALID_REQUEST) => Some(RuleVerdict::broken(nak_text(code))),
                TransportAnomalyKind::OversizedSendRefused => {
                    let text = format!("{} of a Send above the inline threshold", nak_text(NakCode::INVALID_REQUEST));
                    Some(caused_by_peer(event, text))
                }
                _ => None,
            },
            |checks| checks.acknowledgments,
            |_| 0,
        ),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/nak-access",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2",
        requirement: "Observation: a receiver refuses an access to its memory.",
        explanation: "NAK Remote Access Error ends the connection. The handle of an RDMA Read or Write is unknown or was \
            invalidated, or the range or the right of access is wrong. Look for findings about handles, and at the call that \
            offered the memory. Example: an RDMA Write to a handle that the client has invalidated: \"NAK 2: Remote Access \
            Error\".",
        check: anomaly! { |checks| checks.acknowledgments;
            TransportAnomalyKind::Nak(code @ NakCode::REMOTE_ACCESS_ERROR) => nak_text(code)
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/nak-operational",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2",
        requirement: "Observation: a receiver cannot complete a request that it accepted.",
        explanation: "NAK Remote Operational Error ends the connection. The receiver has a local problem: look at the log of \
            its kernel and at the state of its adapter. Example: the adapter of the receiver fails on a completion queue: \
            \"NAK 3: Remote Operational Error\".",
        check: anomaly! { |checks| checks.acknowledgments;
            TransportAnomalyKind::Nak(code @ NakCode::REMOTE_OPERATIONAL_ERROR) => nak_text(code)
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/nak-reserved",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2",
        requirement: "A NAK of a reliable connection has code 0, 1, 2 or 3.",
        explanation: "Code 4 belongs to Reliable Datagrams, and greater codes are reserved. The finding names the code. Example: \
            an acknowledgement with code 17: \"NAK 17: 0x11\".",
        check: anomaly! { |checks| checks.acknowledgments;
            TransportAnomalyKind::Nak(code) if code.0 > NakCode::REMOTE_OPERATIONAL_ERROR.0 => nak_text(code)
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/receiver-not-ready",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "Observation: a receiver has posted no receive buffer for a Send.",
        explanation: "RNR NAK: the sender waits for the time in the text and repeats the Send; after the last retry the \
            connection ends. Credits exist to prevent it. Look at the credits of both sides, and at how the receiver posts \
            receives. The side is the receiver. If the sender had more calls in flight than were granted, it is the \
            sender, and this is information: see rpcrdma/credit-exceeded. Example: a client sends a second call, and the \
            server has posted one receive buffer: \"RNR NAK, wait 1280 µs\".",
        check: RuleCheck::Counted(
            |event| match event.kind {
                TransportAnomalyKind::ReceiverNotReady { wait_us, exceeds_credits } => {
                    let text = format!("RNR NAK, wait {wait_us} \u{b5}s");
                    Some(match exceeds_credits {
                        true => caused_by_peer(event, format!("{text}, more calls in flight than granted")),
                        false => RuleVerdict::broken(text),
                    })
                }
                _ => None,
            },
            |checks| checks.acknowledgments,
            |_| 0,
        ),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/retransmission",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1; RFC 9293 section 3.8.1",
        requirement: "Observation: a packet or TCP segment is sent again.",
        explanation: "Packets are repeated after a loss, after RNR NAK, or because an acknowledgement is late. A \
            retransmission costs time and bandwidth. A repeated packet that the receiver refuses again counts as a sequence \
            gap. Compare with the NAKs of the other side: without them, the sender's timer expired. Example: a NAK names a \
            PSN, and the packets from there on come again: \"retransmission\".",
        check: anomaly! { |checks| checks.packets + checks.segments;
            TransportAnomalyKind::Retransmission => "retransmission".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/repeated-read",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1.1",
        requirement: "Observation: an RDMA Read request is sent again.",
        explanation: "The request, or a response to it, was lost. The requester asks again for all of the data, or for the \
            rest of it. Loss in the direction of the responses shows only here: no NAK is sent for a response. Example: \
            a response to an RDMA Read of 1 MiB is lost, and the requester asks again: \"repeated RDMA Read request\".",
        check: anomaly! { |checks| checks.read_requests;
            TransportAnomalyKind::RepeatedReadRequest => "repeated RDMA Read request".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/sequence-gap",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1",
        requirement: "Observation: the PSNs of a side have a gap.",
        explanation: "Packets after a gap: the receiver refuses them. Either the network lost a packet, and a NAK and \
            retransmissions follow, or the capture lacks it, and the connection goes on. Example: PSN 1003 follows 1001: \
            \"packet after a gap in the PSNs\".",
        check: anomaly! { |checks| checks.packets;
            TransportAnomalyKind::SequenceGap => "packet after a gap in the PSNs".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/starting-psn",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 12.7.31",
        requirement: "The first packet of a side has the starting PSN that the set-up announced.",
        explanation: "The receiver drops all packets until one has the PSN that it expects, so that a connection that works \
            had another set-up, or the program that wrote the capture did not keep the number. A difference of less than 128 \
            counts as packets that the capture lacks. In both cases, packets may be missing before the first one: rules \
            that need all of them are not judged until the connection is idle. Example: the REP announces 1048576, and the \
            client begins lower: \"first packet with PSN 1044480, the set-up announced 1048576\".",
        check: anomaly! { |checks| checks.packets;
            TransportAnomalyKind::StartingPsn { announced, first } => {
                format!("first packet with PSN {}, the set-up announced {}", first.0, announced.0)
            }
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/packet-order",
        section: "InfiniBand Architecture Specification volume 1, sections 9.4.1 and 9.7.4.1",
        requirement: "A message is a packet of position Only, or First, Middle packets and Last of one operation, of equal lengths \
            up to the last.",
        explanation: "The receiver answers NAK Invalid Request, and the connection ends. Only packets with consecutive PSNs \
            are judged, so that loss and reordering do not count. Example: a Middle packet follows a packet that was a whole \
            message: \"RC RDMA Write Middle after RC RDMA Write Only\".",
        check: anomaly! { |checks| checks.packets;
            TransportAnomalyKind::PacketOrderFault(PacketOpcodeOrLengthViolation::Opcode { before, opcode }) => {
                format!("{opcode} after {before}")
            },
            TransportAnomalyKind::PacketOrderFault(PacketOpcodeOrLengthViolation::Length { before, length }) => {
                let (length, before) = (CountWithNoun(length, "byte"), CountWithNoun(before, "byte"));
                format!("packet of {length} after one of {before} in a message")
            },
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/write-length",
        section: "InfiniBand Architecture Specification volume 1, sections 9.4.3 and 9.7.4.1",
        requirement: "An RDMA Write has as many bytes as the DMA Length of its header announces.",
        explanation: "The receiver answers NAK Invalid Request, and the connection ends. The length is judged if all packets \
            of the RDMA Write were captured. Example: the header of an RDMA Write of 3,000 bytes announces four bytes more: \
            \"RDMA Write of 3000 bytes, DMA Length 3004\".",
        check: anomaly! { |checks| checks.packets;
            TransportAnomalyKind::PacketOrderFault(PacketOpcodeOrLengthViolation::WriteLength { announced, length }) => {
                format!("RDMA Write of {}, DMA Length {announced}", CountWithNoun(length, "byte"))
            }
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/congestion-notification",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, annex A17.9.3",
        requirement: "Observation: a receiver notifies the sender of congestion.",
        explanation: "Congestion Notification Packet: the sender of this packet received packets that a switch marked, and \
            the receiver of it lowers its rate. Look at the load of the path towards this side. Example: sixteen clients \
            write to one server, whose port is full: \"CNP\".",
        check: anomaly! { |checks| checks.packets;
            TransportAnomalyKind::CongestionNotification => "CNP".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/congestion-experienced",
        severity: Severity::Info,
        section: "RFC 3168 section 5",
        requirement: "Observation: a switch marks packets because of congestion.",
        explanation: "A switch marked packets of this side because its queue was long. With RoCE, the receiver answers with \
            CNPs; with TCP, with the ECE flag. Example: the ECN field of a packet arrives as 3: \"Congestion Experienced\".",
        check: anomaly! { |checks| checks.packets + checks.segments;
            TransportAnomalyKind::CongestionExperienced => "Congestion Experienced".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/icrc",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 7.8.1; annex A17.3.3",
        requirement: "The ICRC matches the packet.",
        explanation: "A receiver drops the packet silently. A cable, a switch or an adapter damages packets, or a device \
            rewrites fields that the ICRC covers. A capture on the sender's host may have packets whose ICRC the adapter \
            computes later. Example: a bit of the payload changed in the memory of a switch: \"wrong ICRC\".",
        needs: &[RequiredCaptureEvidence::CheckedIcrc],
        check: anomaly! { |checks| checks.icrcs;
            TransportAnomalyKind::BadIcrc => "wrong ICRC".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/zero-window",
        severity: Severity::Warning,
        section: "RFC 9293 section 3.8.6",
        requirement: "Observation: a receiver announces a TCP window of zero bytes.",
        explanation: "The receive buffer is full: the sender waits until the window opens. The side is the slow receiver; \
            look at its load. Example: a server stops reading from its socket while it syncs a disk: \"window of zero\".",
        check: anomaly! { |checks| checks.segments;
            TransportAnomalyKind::ZeroWindow => "window of zero".to_owned()
        },
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "transport/terminate",
        severity: Severity::Warning,
        section: "RFC 5040 section 4.8",
        requirement: "Observation: a side ends the connection with a Terminate.",
        explanation: "RDMAP Terminate: the sender detected an error in what the other side sent, and closes the connection. \
            The text has the layer, the type and the code of the error; -V also shows the header at fault, which many \
            messages include. Example: a server writes to a handle that the client has invalidated, and the client ends \
            the connection: \"RDMA, Remote Protection Error, Invalid STag\".",
        check: anomaly! { |checks| checks.fpdus;
            TransportAnomalyKind::Terminate(cause) => cause.to_string()
        },
        ..Rule::PER_CONNECTION
    },
];
