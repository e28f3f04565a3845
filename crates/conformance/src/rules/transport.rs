//! The transport below RPC-over-RDMA: losses and congestion.

use nfsrdma_dissectors::flow::PacketOrderFault;
use nfsrdma_dissectors::flow::transport_event::{TransportEvent, TransportEventKind};
use nfsrdma_dissectors::infiniband::NakCode;

use crate::rule::{Evidence, Rule, RuleCheck, RuleScope, Severity, Verdict};

/// Returns a violation if the event is a NAK with such a code.
fn nak_verdict(event: &TransportEvent, is_wanted: fn(NakCode) -> bool) -> Option<Verdict> {
    let TransportEventKind::Nak(code) = event.kind else { return None };
    is_wanted(code).then(|| Verdict::from_condition(false, || format!("NAK {}: {code}", code.0)))
}

/// Returns a violation if the event is of this kind.
fn event_verdict(event: &TransportEvent, wanted: TransportEventKind, text: &str) -> Option<Verdict> {
    (event.kind == wanted).then(|| Verdict::from_condition(false, || text.to_owned()))
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "transport/nak-sequence",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "No packet is lost on the way to its receiver.",
        explanation: "NAK PSN Sequence Error: the receiver misses a packet and asks for all packets from there on. Each one \
            costs a round trip and repeated data. Look at drop and pause counters of switches and adapters. The side is the \
            receiver that misses packets.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| nak_verdict(event, |code| code == NakCode::PSN_SEQUENCE_ERROR),
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/nak-invalid-request",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A receiver accepts the operation and the length of each request.",
        explanation: "NAK Invalid Request ends the connection. A Send was longer than the receive buffer, an RDMA Write had \
            another length than its header announced, or too many RDMA Reads were in flight. Look at the request with the \
            same PSN.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| nak_verdict(event, |code| code == NakCode::INVALID_REQUEST),
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/nak-access",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A receiver permits each access to its memory.",
        explanation: "NAK Remote Access Error ends the connection. The handle of an RDMA Read or Write is unknown or was \
            invalidated, or the range or the right of access is wrong. Look for findings about handles, and at the Call that \
            offered the memory.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| nak_verdict(event, |code| code == NakCode::REMOTE_ACCESS_ERROR),
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/nak-operational",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A receiver completes each request that it accepts.",
        explanation: "NAK Remote Operational Error ends the connection. The receiver has a local problem: look at the log of \
            its kernel and at the state of its adapter.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| nak_verdict(event, |code| code == NakCode::REMOTE_OPERATIONAL_ERROR),
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/nak-reserved",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A NAK of a reliable connection has code 0, 1, 2 or 3.",
        explanation: "Code 4 belongs to Reliable Datagrams, and greater codes are reserved. The text has the code.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| nak_verdict(event, |code| code.0 > NakCode::REMOTE_OPERATIONAL_ERROR.0),
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/receiver-not-ready",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.2.8",
        requirement: "A receiver has a receive buffer posted for each Send.",
        explanation: "RNR NAK: the sender waits for the time in the text and repeats the Send; after the last retry the \
            connection ends. Credits exist to prevent it. Look at the credits of both sides, and at how the receiver posts \
            receives. The side is the receiver.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| {
                let TransportEventKind::ReceiverNotReady { wait_us } = event.kind else { return None };
                Some(Verdict::from_condition(false, || format!("RNR NAK, wait {wait_us} \u{b5}s")))
            },
            |checks| checks.acknowledgments,
        ),
    },
    Rule {
        id: "transport/retransmission",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1; RFC 9293 section 3.8.1",
        requirement: "A packet or TCP segment is sent once.",
        explanation: "Packets are repeated after a loss, after RNR NAK, or because an acknowledgement is late. Each costs time \
            and bandwidth. A repeated packet that the receiver refuses again counts as a sequence gap. Compare with the NAKs of the other side: without them, the sender's timer expired.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::Retransmission, "retransmission"),
            |checks| checks.packets + checks.segments,
        ),
    },
    Rule {
        id: "transport/repeated-read",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1.1",
        requirement: "An RDMA Read request is sent once.",
        explanation: "The request, or a response to it, was lost. The requester asks again for all of the data, or for the \
            rest of it. Loss in the direction of the responses shows only here: nobody sends a NAK for a response.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| {
                event_verdict(event, TransportEventKind::RepeatedReadRequest, "repeated RDMA Read request")
            },
            |checks| checks.read_requests,
        ),
    },
    Rule {
        id: "transport/sequence-gap",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, section 9.7.5.1",
        requirement: "The packets of a side have consecutive PSNs.",
        explanation: "Packets behind a gap: the receiver refuses them. Either the network lost a packet, and a NAK and \
            retransmissions follow, or the capture lacks it, and the connection goes on.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::SequenceGap, "packet behind a gap in the PSNs"),
            |checks| checks.packets,
        ),
    },
    Rule {
        id: "transport/packet-order",
        severity: Severity::Error,
        section: "InfiniBand Architecture Specification volume 1, sections 9.4.1 and 9.7.4.1",
        requirement: "A message is a packet of position Only, or First, Middle packets and Last of one operation, of equal lengths \
            up to the last.",
        explanation: "The receiver answers NAK Invalid Request, and the connection ends. Only packets with consecutive PSNs are \
            judged, so that loss and reordering do not count.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| {
                let TransportEventKind::PacketOrder(fault) = event.kind else { return None };
                Some(Verdict::from_condition(false, || match fault {
                    PacketOrderFault::Opcode { before, opcode } => format!("{opcode} after {before}"),
                    PacketOrderFault::Length { before, length } => {
                        format!("packet of {length} bytes after one of {before} bytes in a message")
                    }
                }))
            },
            |checks| checks.packets,
        ),
    },
    Rule {
        id: "transport/congestion-notification",
        severity: Severity::Info,
        section: "InfiniBand Architecture Specification volume 1, annex A17.9.3",
        requirement: "A path is not congested.",
        explanation: "Congestion Notification Packet: the sender of this packet received packets that a switch marked, and the \
            receiver of it lowers its rate. Look at the load of the path towards this side.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::CongestionNotification, "CNP"),
            |checks| checks.packets,
        ),
    },
    Rule {
        id: "transport/congestion-experienced",
        severity: Severity::Info,
        section: "RFC 3168 section 5",
        requirement: "A path is not congested.",
        explanation: "A switch marked packets of this side because its queue was long. With RoCE, the receiver answers with \
            CNPs; with TCP, with the ECE flag.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::CongestionExperienced, "Congestion Experienced"),
            |checks| checks.packets + checks.segments,
        ),
    },
    Rule {
        id: "transport/icrc",
        severity: Severity::Warning,
        section: "InfiniBand Architecture Specification volume 1, section 7.8.1; annex A17.3.3",
        requirement: "The ICRC matches the packet.",
        explanation: "A receiver drops the packet silently. A cable, a switch or an adapter damages packets, or a device \
            rewrites fields that the ICRC covers. A capture on the sender's host may have packets whose ICRC the adapter \
            computes later.",
        subjects: &[],
        needs: &[Evidence::CheckedIcrc],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::BadIcrc, "wrong ICRC"),
            |checks| checks.icrcs,
        ),
    },
    Rule {
        id: "transport/zero-window",
        severity: Severity::Warning,
        section: "RFC 9293 section 3.8.6",
        requirement: "A receiver takes bytes from TCP as fast as they arrive.",
        explanation: "The receive buffer is full: the sender waits until the window opens. The side is the slow receiver; look \
            at its load.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::ZeroWindow, "window of zero"),
            |checks| checks.segments,
        ),
    },
    Rule {
        id: "transport/terminate",
        severity: Severity::Warning,
        section: "RFC 5040 section 4.8",
        requirement: "A side closes the connection without an error.",
        explanation: "RDMAP Terminate: the sender detected an error in what the other side sent, and closes the connection. The \
            message has the layer, the type and the code of the error, and often the header at fault; -V shows them.",
        subjects: &[],
        needs: &[],
        scope: RuleScope::Connection,
        check: RuleCheck::Counted(
            |event| event_verdict(event, TransportEventKind::Terminate, "Terminate"),
            |checks| checks.fpdus,
        ),
    },
];
