//! Recognition of RPC-over-RDMA and its dialect in the payload of a Send, by structure: other protocols over RDMA and
//! test patterns contain words that look like a version and a procedure.

use super::dialects::Dialect;
use super::header::{ChunkLists, RdmaBody, RpcRdma1Header, VERSION};
use super::sigcomm2003_prototype::{NfsRdmaPrototypeBody, NfsRdmaPrototypeHeader};
use super::version2::{self, RpcRdma2Body, RpcRdma2Header, RpcRdma2HeaderType, RpcRdma2Property};
use crate::field::NullFieldObserver;
use crate::rpc::{self, MsgType, RpcMsg, Xid};
use crate::xdr::{Cursor, Xdr, XdrError};

/// Strength of the evidence that a payload is RPC-over-RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RpcRdmaEvidence {
    /// Something else, or too few bytes.
    None,
    /// Possible: sufficient on a connection already known to be RPC-over-RDMA, but not on its own.
    Weak,
    /// Certain.
    Strong,
}

impl RpcRdmaEvidence {
    fn strong_if(is_certain: bool) -> Self {
        if is_certain { Self::Strong } else { Self::None }
    }
}

/// Length in bytes of a header with three empty lists. RFC 8166 section 4.5.
pub const MIN_HEADER_BYTES: usize = 28;

/// Evaluates the payload of a Send like [`recognize`], in the dialect `dialect` or in all dialects if `None`. Returns
/// the evidence with its dialect.
pub fn recognize_dialect(bytes: &[u8], length: usize, dialect: Option<Dialect>) -> (RpcRdmaEvidence, Dialect) {
    let start = Cursor::new(bytes).with_length(length);
    let version1 = || (recognize(bytes, length), Dialect::Rfc8166);
    let version2 = || (version2_evidence(start), Dialect::Version2);
    match dialect {
        Some(Dialect::Prototype) => (prototype_evidence(start), Dialect::Prototype),
        Some(dialect @ (Dialect::Rfc5666 | Dialect::Rfc8166)) => (version1().0, dialect),
        Some(Dialect::Version2) => version2(),
        None => {
            let mut words = start;
            let _xid = words.word();
            let by_version = match words.word() {
                Ok(version2::VERSION) => version2(),
                _ => version1(),
            };
            if by_version.0 == RpcRdmaEvidence::Strong {
                return by_version;
            }
            match prototype_evidence(start) {
                RpcRdmaEvidence::Strong => (RpcRdmaEvidence::Strong, Dialect::Prototype),
                RpcRdmaEvidence::None | RpcRdmaEvidence::Weak => by_version,
            }
        }
    }
}

/// Evaluates the payload of a Send of `length` bytes, of which `bytes` were captured, as version 1.
pub fn recognize(bytes: &[u8], length: usize) -> RpcRdmaEvidence {
    let start = Cursor::new(bytes).with_length(length);
    let mut cursor = start;
    let header = match RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver) {
        Ok(header) => header,
        Err(error) if error.is_cut() => return truncated_header_evidence(start),
        Err(_) => return RpcRdmaEvidence::None,
    };
    let at_end = cursor.remaining() == 0;
    match &header.rdma_body {
        RdmaBody::Msg(_) | RdmaBody::Msgp(_) => message_evidence(cursor, header.rdma_xid),
        RdmaBody::Nomsg(lists) if !has_message_chunk(lists) => RpcRdmaEvidence::None,
        RdmaBody::Nomsg(_) if at_end => RpcRdmaEvidence::Strong,
        RdmaBody::Nomsg(_) => RpcRdmaEvidence::Weak,
        RdmaBody::Done | RdmaBody::Error(_) if at_end => RpcRdmaEvidence::Weak,
        RdmaBody::Done | RdmaBody::Error(_) | RdmaBody::Unread(..) => RpcRdmaEvidence::None,
    }
}

/// Returns `true` if the payload of a Send is truncated before a decision is possible, and nothing contradicts
/// RPC-over-RDMA.
pub fn may_be_truncated_rpcrdma(bytes: &[u8], length: usize) -> bool {
    let mut cursor = Cursor::new(bytes).with_length(length);
    let is_cut = bytes.len() < length;
    let mut read_words = || -> Result<bool, XdrError> {
        let _xid = cursor.word()?;
        if !matches!(cursor.word()?, VERSION | version2::VERSION) {
            return Ok(false);
        }
        let (_credit, _proc) = (cursor.word()?, cursor.word()?);
        // The fixed words are present, so the header can be evaluated.
        Ok(recognize_dialect(bytes, length, None).0 != RpcRdmaEvidence::None)
    };
    is_cut && length >= MIN_HEADER_BYTES && read_words().unwrap_or(true)
}

/// Returns `true` if the payload of a Send is a version 1 RDMA_DONE. It is evidence of RPC-over-RDMA, but too short to
/// be sufficient.
pub fn is_whole_done(bytes: &[u8], length: usize) -> bool {
    let mut cursor = Cursor::new(bytes).with_length(length);
    let header = RpcRdma1Header::decode(&mut cursor, &mut NullFieldObserver);
    header.is_ok_and(|header| matches!(header.rdma_body, RdmaBody::Done)) && cursor.remaining() == 0
}

/// Evaluates a header of the prototype: an RPC message of the same XID follows the list, or the list begins at offset 0
/// and ends the message. NFS over RDMA (SIGCOMM 2003) sections 4.4 and 4.6.2.
fn prototype_evidence(start: Cursor<'_>) -> RpcRdmaEvidence {
    let mut cursor = start;
    let header = NfsRdmaPrototypeHeader::decode(&mut cursor, NfsRdmaPrototypeHeader::FIELD, &mut NullFieldObserver);
    // So few words are not evidence if the header is truncated.
    let Ok(header) = header else { return RpcRdmaEvidence::None };
    let at_end = cursor.remaining() == 0;
    match header.rc_body {
        NfsRdmaPrototypeBody::Done if at_end => RpcRdmaEvidence::Weak,
        NfsRdmaPrototypeBody::Done => RpcRdmaEvidence::None,
        NfsRdmaPrototypeBody::Msg(_) if header.is_long() => {
            let offsets = header.chunks().iter().map(|chunk| chunk.c_xdroff);
            let is_ordered = offsets.is_sorted();
            let is_moved = header.chunks().iter().any(|chunk| chunk.c_xdroff == 0 && chunk.c_len > 0);
            // The prototype is the first version of the header.
            RpcRdmaEvidence::strong_if(at_end && is_ordered && is_moved && header.rc_vers <= VERSION)
        }
        NfsRdmaPrototypeBody::Msg(_) => message_evidence(cursor, header.rc_xid),
    }
}

/// Evaluates a header of version 2.
fn version2_evidence(start: Cursor<'_>) -> RpcRdmaEvidence {
    let mut cursor = start;
    let header = match RpcRdma2Header::decode(&mut cursor, &mut NullFieldObserver) {
        Ok(header) => header,
        Err(error) if error.is_cut() => return truncated_version2_evidence(start),
        Err(_) => return RpcRdmaEvidence::None,
    };
    let at_end = cursor.remaining() == 0;
    let ends = |evidence| if at_end { evidence } else { RpcRdmaEvidence::None };
    match &header.rdma_body {
        RpcRdma2Body::CallInline(_)
        | RpcRdma2Body::CallMiddle(_)
        | RpcRdma2Body::ReplyInline(_)
        | RpcRdma2Body::ReplyMiddle(_) => match message_start_evidence(cursor, header.rdma_xid) {
            // Only the first part of a message has an RPC header.
            RpcRdmaEvidence::None => RpcRdmaEvidence::Weak,
            evidence => evidence,
        },
        RpcRdma2Body::CallExternal(call) => {
            let segments = call.rdma_call.iter();
            let is_call_chunk = !call.rdma_call.is_empty() && { segments }.all(|segment| segment.position == 0);
            ends(RpcRdmaEvidence::strong_if(is_call_chunk))
        }
        RpcRdma2Body::ReplyExternal(reply) => {
            let has_chunk = reply.rdma_reply.as_ref().is_some_and(|chunk| !chunk.target.is_empty());
            ends(RpcRdmaEvidence::strong_if(has_chunk))
        }
        RpcRdma2Body::ConnpropMiddle(properties) | RpcRdma2Body::ConnpropFinal(properties) => {
            let is_known = |property: RpcRdma2Property<'_>| property.tag().name().is_some();
            let is_property = properties.rdma_props.iter().any(is_known);
            ends(if is_property { RpcRdmaEvidence::Strong } else { RpcRdmaEvidence::Weak })
        }
        RpcRdma2Body::Error(_) | RpcRdma2Body::Grant => ends(RpcRdmaEvidence::Weak),
        RpcRdma2Body::Unread(..) => RpcRdmaEvidence::None,
    }
}

/// Evaluates the first words of an RPC message, whose rest may follow in other Sends.
fn message_start_evidence(cursor: Cursor<'_>, xid: Xid) -> RpcRdmaEvidence {
    let read_words = || -> Result<RpcRdmaEvidence, XdrError> {
        let mut cursor = cursor;
        let is_same = cursor.word()? == xid.0;
        let is_message = match MsgType(cursor.word()?) {
            MsgType::CALL => cursor.word()? == rpc::VERSION,
            // reply_stat
            MsgType::REPLY => cursor.word()? <= 1,
            _ => false,
        };
        Ok(RpcRdmaEvidence::strong_if(is_same && is_message))
    };
    let starts_with_xid = cursor.rest().starts_with(&xid.0.to_be_bytes());
    match read_words() {
        Ok(evidence) => evidence,
        Err(error) if error.is_cut() => RpcRdmaEvidence::Weak,
        // A first part may be as short as the XID.
        Err(_) if starts_with_xid => RpcRdmaEvidence::Strong,
        Err(_) => RpcRdmaEvidence::None,
    }
}

/// Evaluates a truncated header of version 2 that is valid so far.
fn truncated_version2_evidence(mut cursor: Cursor<'_>) -> RpcRdmaEvidence {
    let (_xid, vers, _credit, htype) = (cursor.word(), cursor.word(), cursor.word(), cursor.word());
    match (vers, htype.map(RpcRdma2HeaderType)) {
        (Ok(version2::VERSION), Ok(htype)) if htype.name().is_some() => RpcRdmaEvidence::Weak,
        _ => RpcRdmaEvidence::None,
    }
}

/// Returns `true` if an RDMA_NOMSG has a chunk for its RPC message. RFC 8166 section 4.2.4.
fn has_message_chunk(lists: &ChunkLists<'_>) -> bool {
    lists.rdma_reads.iter().any(|segment| segment.position == 0)
        || lists.rdma_reply.as_ref().is_some_and(|chunk| !chunk.target.is_empty())
}

/// Evaluates a truncated header of version 1 that is valid so far.
fn truncated_header_evidence(mut cursor: Cursor<'_>) -> RpcRdmaEvidence {
    let (_xid, vers, _credit, proc) = (cursor.word(), cursor.word(), cursor.word(), cursor.word());
    match (vers, proc) {
        (Ok(VERSION), Ok(0..=2)) if cursor.length() >= MIN_HEADER_BYTES => RpcRdmaEvidence::Weak,
        (Ok(VERSION), Ok(4)) if matches!(cursor.length(), 20 | 28) => RpcRdmaEvidence::Weak,
        _ => RpcRdmaEvidence::None,
    }
}

/// Evaluates the bytes after the header of an RDMA_MSG: an RPC message of the same XID. RFC 8166 section 4.2.1.
fn message_evidence(cursor: Cursor<'_>, xid: Xid) -> RpcRdmaEvidence {
    match RpcMsg::decode(&mut { cursor }, &mut NullFieldObserver) {
        Ok(message) if message.xid == xid && is_valid_body(&message.body) => RpcRdmaEvidence::Strong,
        Err(error) if error.is_cut() => truncated_message_evidence(cursor, xid),
        _ => RpcRdmaEvidence::None,
    }
}

/// Evaluates a truncated RPC header by its first three words.
fn truncated_message_evidence(mut cursor: Cursor<'_>, xid: Xid) -> RpcRdmaEvidence {
    let mut read_words = || -> Result<RpcRdmaEvidence, XdrError> {
        if cursor.word()? != xid.0 {
            return Ok(RpcRdmaEvidence::None);
        }
        // An invalid msg_type or reply_stat was rejected before.
        let (mtype, next) = (MsgType(cursor.word()?), cursor.word()?);
        Ok(RpcRdmaEvidence::strong_if(mtype != MsgType::CALL || next == rpc::VERSION))
    };
    read_words().unwrap_or(RpcRdmaEvidence::Weak)
}

/// Returns `true` for a Call of RPC version 2, or a Reply with a defined status, which the types of RFC 5531 do not
/// ensure.
fn is_valid_body(body: &rpc::RpcMsgBody<'_>) -> bool {
    match body {
        rpc::RpcMsgBody::Call(call) => call.rpcvers == rpc::VERSION,
        rpc::RpcMsgBody::Reply(reply) => reply.status().name().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RpcRdmaEvidence::{None, Strong, Weak};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn whole(bytes: &[u8]) -> RpcRdmaEvidence {
        recognize(bytes, bytes.len())
    }

    /// RDMA_MSG without chunks, with a Call of NFSv3 NULL with AUTH_NONE.
    fn call() -> Vec<u8> {
        words(&[7, 1, 32, 0, 0, 0, 0, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])
    }

    /// RDMA_MSG with a Write chunk of one segment, with a Reply accepted with SUCCESS.
    fn reply() -> Vec<u8> {
        words(&[7, 1, 32, 0, 0, 1, 1, 0xb1, 4096, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0])
    }

    #[test]
    fn rfc8166_section_4_2_1_a_call_and_a_reply_of_the_same_xid_as_the_header_are_claimed() {
        assert_eq!((whole(&call()), whole(&reply())), (Strong, Strong));
        let denied = words(&[7, 1, 32, 0, 0, 0, 0, 7, 1, 1, 1, 13]);
        assert_eq!(whole(&denied), Strong);
    }

    #[test]
    fn rfc8166_section_4_2_1_another_xid_after_the_header_is_refused() {
        let mut bytes = call();
        bytes[31] = 8;
        assert_eq!(whole(&bytes), None);
    }

    #[test]
    fn rfc8166_section_4_2_4_a_message_without_payload_needs_a_chunk_that_holds_it() {
        let long_call = words(&[7, 1, 32, 1, 1, 0, 0xa1, 4096, 0, 0, 0, 0, 0]);
        let long_reply = words(&[7, 1, 32, 1, 0, 0, 1, 1, 0xc1, 4096, 0, 0]);
        assert_eq!((whole(&long_call), whole(&long_reply)), (Strong, Strong));

        let nowhere = words(&[7, 1, 32, 1, 0, 0, 0]);
        let elsewhere = words(&[7, 1, 32, 1, 1, 180, 0xa1, 4096, 0, 0, 0, 0, 0]);
        let no_segment = words(&[7, 1, 32, 1, 0, 0, 1, 0]);
        assert_eq!((whole(&nowhere), whole(&elsewhere), whole(&no_segment)), (None, None, None));
    }

    #[test]
    fn rfc8166_section_4_5_errors_and_done_have_their_length_and_claim_nothing_alone() {
        let done = words(&[7, 1, 32, 3]);
        let vers = words(&[7, 1, 32, 4, 1, 1, 1]);
        let chunk = words(&[7, 1, 32, 4, 2]);
        for bytes in [done, vers, chunk] {
            assert_eq!(whole(&bytes), Weak);
            assert_eq!(whole(&[&bytes[..], &[0; 4]].concat()), None);
        }
    }

    #[test]
    fn rfc5531_section_9_a_payload_that_is_no_rpc_message_is_refused() {
        let with = |at: usize, word: u32| {
            let mut bytes = call();
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
            whole(&bytes)
        };
        assert_eq!(with(8, 2), None, "msg_type");
        assert_eq!(with(9, 3), None, "rpcvers");
        assert_eq!(with(14, 404), None, "length of the credential");
        let accept_stat = words(&[7, 1, 32, 0, 0, 0, 0, 7, 1, 0, 0, 0, 6]);
        assert_eq!(whole(&accept_stat), None);
    }

    /// The bytes left by a snap length decide as far as they reach: a repeated XID and the first words of RPC are
    /// strong evidence, a header alone is weak. Truncation only ever reduces the evidence, to none only within the
    /// first words.
    #[test]
    fn a_payload_cut_by_a_snap_length_has_less_evidence() {
        for (bytes, rpc) in [(call(), 28), (reply(), 52)] {
            for end in 0..bytes.len() {
                let expected = match end {
                    _ if end < 16 => None,
                    _ if end < rpc + 12 => Weak,
                    _ => Strong,
                };
                assert_eq!(recognize(&bytes[..end], bytes.len()), expected, "{end} of {}", bytes.len());
            }
        }
        let error = words(&[7, 1, 32, 4, 1, 1, 1]);
        assert_eq!((recognize(&error[..18], 28), recognize(&error[..18], 24)), (Weak, None));
        let long_reply = words(&[7, 1, 32, 1, 0, 0, 1, 1, 0xc1, 4096, 0, 0]);
        assert_eq!(recognize(&long_reply[..40], 48), Weak);
        let other_xid = words(&[7, 1, 32, 0, 0, 0, 0, 8]);
        assert_eq!(recognize(&other_xid, 200), None);
    }

    #[test]
    fn a_cut_payload_is_refused_only_if_something_contradicts_it() {
        let call = call();
        for end in 0..call.len() {
            assert!(may_be_truncated_rpcrdma(&call[..end], call.len()), "{end}");
        }
        assert!(!may_be_truncated_rpcrdma(&call, call.len()));
        assert!(!may_be_truncated_rpcrdma(&[0; 12], 100), "another version");
        assert!(!may_be_truncated_rpcrdma(&words(&[7, 1, 32, 9]), 100), "another procedure");
        assert!(!may_be_truncated_rpcrdma(&call[..8], 20), "no room for a header");
    }

    /// ib_send_bw and similar tools send zeros, a repeated byte, counters or noise.
    #[test]
    fn test_patterns_are_not_claimed() {
        for length in [16, 20, 28, 64, 256, 4096] {
            assert_eq!(whole(&vec![0; length]), None);
            assert_eq!(whole(&vec![0xff; length]), None);
            assert_eq!(whole(&(0..length).map(|byte| byte as u8).collect::<Vec<_>>()), None);
            assert_eq!(whole(&words(&vec![1; length / 4])), None);
            // Counting words: the first four of them look like an RDMA_DONE.
            let counter = words(&(0..length as u32 / 4).collect::<Vec<_>>());
            assert_eq!(whole(&counter), if length == 16 { Weak } else { None });
        }
    }

    #[test]
    fn words_that_look_like_version_and_procedure_are_not_enough() {
        for proc in 0..=4 {
            for filler in [0, 1, 2, 7, 0x0101_0101, u32::MAX] {
                for length in [5, 7, 8, 12, 16, 64] {
                    let mut pattern = vec![filler; length];
                    pattern[..4].copy_from_slice(&[filler, 1, filler, proc]);
                    let evidence = whole(&words(&pattern));
                    assert!(evidence < Strong, "{proc} {filler} {length}");
                    // Only an error or RDMA_DONE of its exact length is weak evidence.
                    assert!(evidence == None || proc >= 3, "{proc} {filler} {length}");
                }
            }
        }
    }

    /// An NVMe-oF command capsule: a little-endian submission queue entry of 64 bytes, here of Read, and of Connect
    /// with its 1024 bytes of data.
    #[test]
    fn nvme_capsules_are_not_claimed() {
        let mut read = [0; 64];
        read[..2].copy_from_slice(&[0x02, 0x40]);
        read[2..4].copy_from_slice(&7u16.to_le_bytes());
        read[4..8].copy_from_slice(&1u32.to_le_bytes());
        read[24..32].copy_from_slice(&0xffff_8881_0000_1000u64.to_le_bytes());
        read[32..39].copy_from_slice(&[0, 0x10, 0, 0x34, 0x12, 0, 0]);
        read[39] = 0x40;
        assert_eq!(whole(&read), None);
        // A namespace number that equals the version in the wrong byte order.
        read[4..8].copy_from_slice(&1u32.to_be_bytes());
        assert_eq!(whole(&read), None);

        let mut connect = vec![0; 64 + 1024];
        connect[..5].copy_from_slice(&[0x7f, 0x40, 1, 0, 1]);
        connect[64 + 256..64 + 280].copy_from_slice(b"nqn.2014-08.org.nvmexpre");
        assert_eq!(whole(&connect), None);

        // The completion: result, queue head, command identifier, status.
        assert_eq!(whole(&[0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 7, 0, 0, 0]), None);
    }

    /// iSER (RFC 7145 section 9): a header of 28 bytes, then an iSCSI PDU header of 48.
    #[test]
    fn iser_messages_are_not_claimed() {
        let mut message = [0; 28 + 48];
        message[0] = 0x10 | 0x08;
        message[4..8].copy_from_slice(&0x2000u32.to_be_bytes());
        message[8..16].copy_from_slice(&0xffff_8881_0000_1000u64.to_be_bytes());
        message[28..30].copy_from_slice(&[0x01, 0xc0]);
        message[44..48].copy_from_slice(&7u32.to_be_bytes());
        assert_eq!(whole(&message), None);
        // A handle that equals the version.
        message[4..8].copy_from_slice(&1u32.to_be_bytes());
        message[8..16].fill(0);
        assert_eq!(whole(&message), None);
        assert_eq!(whole(&[0x20; 28]), None);
    }

    /// SMB Direct (MS-SMBD section 2.2): the negotiation of 20 bytes, and data with its header of 24.
    #[test]
    fn smb_direct_messages_are_not_claimed() {
        let negotiate: Vec<u8> = [
            [0x00, 0x01, 0x00, 0x01], // MinVersion, MaxVersion 1.0
            [0, 0, 0, 1],             // Reserved, CreditsRequested 256: the version in the wrong byte order
            [0x54, 0x05, 0, 0],       // PreferredSendSize
            [0, 0x20, 0, 0],          // MaxReceiveSize
            [0, 0, 0x10, 0],          // MaxFragmentedSize
        ]
        .concat();
        assert_eq!(whole(&negotiate), None);

        let data = [
            &[10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0][..],
            b"\xfeSMB\x40\0\x01\0",
            &[0; 56],
        ]
        .concat();
        assert_eq!(whole(&data), None);
        // An empty message that only grants credits.
        assert_eq!(whole(&[10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_never_claimed(bytes: Vec<u8>, length: u16) {
            assert!(recognize(&bytes, length.into()) < Strong);
        }

        #[test]
        fn arbitrary_bytes_under_a_plausible_beginning_are_never_claimed(
            xid in 1u32.., credit: u32, proc in 0u32..=4, rest: Vec<u8>, more: u16,
        ) {
            let bytes = [words(&[xid, 1, credit, proc]), rest].concat();
            assert!(recognize(&bytes, bytes.len() + usize::from(more)) < Strong);
        }
    }
}
