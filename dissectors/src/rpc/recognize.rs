//! Recognition of RPC messages by their structure: ports are unreliable, and a capture may begin anywhere.

use super::header::{MsgType, RpcMsg, RpcMsgBody, VERSION, Xid};
use super::program::Program;
use super::record_marking::{MAX_RECORD_BYTES, MIN_MESSAGE_BYTES, RecordMark};
use crate::field::NullFieldObserver;
use crate::xdr::Cursor;

/// Number of bytes of a Call through its procedure, and of a Reply through its status. RFC 5531 section 9.
const MIN_RECOGNIZABLE_BYTES: usize = 24;

/// XID and type of a recognized RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecognizedRpcMessage {
    /// XID.
    pub xid: Xid,
    /// Call or Reply.
    pub mtype: MsgType,
}

/// Recognizes an RPC message of `length` bytes, of which `bytes` were captured. A Call must be present through its
/// procedure, a Reply through its status.
pub fn recognize(bytes: &[u8], length: usize) -> Option<RecognizedRpcMessage> {
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    // Rejects nearly everything else early.
    let (mtype, next) = (MsgType(word(4)?), word(8)?);
    match mtype {
        MsgType::CALL if next == VERSION => {}
        MsgType::REPLY if next <= 1 => {}
        _ => return None,
    }
    if bytes.len() < MIN_RECOGNIZABLE_BYTES.min(length) || length < MIN_MESSAGE_BYTES as usize {
        return None;
    }
    let mut cursor = Cursor::new(bytes).with_length(length);
    let is_sane = match RpcMsg::decode(&mut cursor, &mut NullFieldObserver) {
        Ok(RpcMsg { body: RpcMsgBody::Call(call), .. }) => is_plausible(call.prog),
        Ok(RpcMsg { body: RpcMsgBody::Reply(reply), .. }) => reply.status().name().is_some(),
        // The bytes present do not contradict it.
        Err(error) => error.is_cut() && (mtype == MsgType::REPLY || is_plausible(Program(word(12)?))),
    };
    is_sane.then_some(RecognizedRpcMessage { xid: Xid(word(0)?), mtype })
}

/// Recognizes a record at the start of `bytes`: a record mark followed by an RPC message.
pub fn recognize_record(bytes: &[u8]) -> Option<RecognizedRpcMessage> {
    // Seven bits of the length are zero in the longest accepted record.
    if bytes.first()? & 0x7e != 0 {
        return None;
    }
    let mark = RecordMark::from_bytes(bytes)?;
    if !(MIN_MESSAGE_BYTES..=MAX_RECORD_BYTES).contains(&mark.length) {
        return None;
    }
    let length = mark.length as usize;
    let message = bytes.get(4..)?;
    // A record of several fragments continues after this one.
    let following_bytes = if mark.is_last { 0 } else { MIN_RECOGNIZABLE_BYTES };
    recognize(message.get(..length).unwrap_or(message), length + following_bytes)
}

/// Recognizes a record at an arbitrary stream position, with stricter rules than at the start of a segment: a Call in a
/// single-fragment record. Replies have too little structure; an RPC-over-RDMA header looks like one.
pub fn recognize_call_record(bytes: &[u8]) -> Option<RecognizedRpcMessage> {
    let is_last = bytes.first()? & 0x80 != 0;
    recognize_record(bytes).filter(|message| is_last && message.mtype == MsgType::CALL)
}

/// Returns `true` if the program number may exist: numbers below 100000 were never assigned. RFC 5531 section 8.3.
fn is_plausible(program: Program) -> bool {
    matches!(program.0, 100_000..=0x5fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn whole(bytes: &[u8]) -> Option<MsgType> {
        recognize(bytes, bytes.len()).map(|recognized| recognized.mtype)
    }

    #[test]
    fn rfc5531_section_9_calls_and_replies_are_recognized() {
        assert_eq!(whole(&words(&[7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])), Some(MsgType::CALL));
        assert_eq!(whole(&words(&[7, 1, 0, 0, 0, 0])), Some(MsgType::REPLY));
        assert_eq!(whole(&words(&[7, 1, 1, 1, 5])), Some(MsgType::REPLY));
    }

    #[test]
    fn rfc5531_section_9_invalid_values_are_not_recognized() {
        for wrong in [
            &[7, 2, 2, 100_003, 3, 0, 0, 0, 0, 0][..],
            &[7, 0, 3, 100_003, 3, 0, 0, 0, 0, 0],
            &[7, 0, 2, 99_999, 3, 0, 0, 0, 0, 0],
            &[7, 0, 2, 100_003, 3, 0, 0, 404, 0, 0],
            &[7, 1, 2, 0, 0, 0],
            &[7, 1, 0, 0, 0, 6],
            &[7, 1, 0, 0],
        ] {
            assert_eq!(whole(&words(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_cut_message_is_recognized_by_its_remaining_bytes() {
        let call = words(&[7, 0, 2, 100_003, 3, 1, 1, 24, 0, 0]);
        assert_eq!(recognize(&call[..24], 200).map(|found| found.mtype), Some(MsgType::CALL));
        assert_eq!(recognize(&call[..20], 200), None);
    }

    #[test]
    fn a_record_is_recognized_by_its_first_28_bytes() {
        let call = words(&[0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        assert!(recognize_record(&call[..28]).is_some());
        assert_eq!(recognize_record(&call[..27]), None);
    }

    #[test]
    fn rfc5531_section_11_a_record_begins_with_a_mark_of_its_length() {
        let call = words(&[0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        assert!(recognize_record(&call).is_some());
        let too_long = words(&[0x8200_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        assert_eq!(recognize_record(&too_long), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_not_recognized(bytes: Vec<u8>, length: u16) {
            assert_eq!(recognize(&bytes, length.into()), None);
            assert_eq!(recognize_record(&bytes), None);
        }
    }
}
