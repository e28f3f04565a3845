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
    /// `false` for a Call of a program or a version that hardly exists: bytes in the middle of a stream look like one by
    /// chance.
    pub is_usual: bool,
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
    let is_usual = mtype == MsgType::REPLY || is_usual(Program(word(12)?), word(16)?);
    is_sane.then_some(RecognizedRpcMessage { xid: Xid(word(0)?), mtype, is_usual })
}

/// Recognizes a record at the start of `bytes`: a record mark followed by an RPC message, whose header may be spread
/// over several fragments.
pub fn recognize_record(bytes: &[u8]) -> Option<RecognizedRpcMessage> {
    // Seven bits of the length are zero in the longest accepted record.
    if bytes.first()? & 0x7e != 0 {
        return None;
    }
    let mark = RecordMark::from_bytes(bytes)?;
    if begins_with_small_fragment(bytes) {
        return recognize_small_fragments(bytes);
    }
    if !(MIN_MESSAGE_BYTES..=MAX_RECORD_BYTES).contains(&mark.length) {
        return None;
    }
    let length = mark.length as usize;
    let message = bytes.get(4..)?;
    // A record of several fragments continues after this one.
    let following_bytes = if mark.is_last { 0 } else { MIN_RECOGNIZABLE_BYTES };
    recognize(message.get(..length).unwrap_or(message), length + following_bytes)
}

/// Maximum number of fragments over which a recognized header is spread.
const MAX_HEADER_FRAGMENTS: usize = 32;

/// Maximum length of a fragment that completes a spread header and is not the last.
const MAX_HEADER_FRAGMENT_BYTES: u32 = 64 << 10;

/// Number of bytes that contain any header spread over small fragments.
pub const MAX_SPREAD_HEADER_BYTES: usize = MIN_RECOGNIZABLE_BYTES + MAX_HEADER_FRAGMENTS * RecordMark::LENGTH;

/// Returns `true` if these bytes can be a record whose first fragment is too small for the header of an RPC message.
/// RFC 5531 section 11 permits any length, also 0.
pub fn begins_with_small_fragment(bytes: &[u8]) -> bool {
    matches!(bytes, [0, 0, 0, length, ..] if usize::from(*length) < MIN_RECOGNIZABLE_BYTES)
}

/// Recognizes a record whose header is spread over several fragments. The header must have been captured.
fn recognize_small_fragments(mut bytes: &[u8]) -> Option<RecognizedRpcMessage> {
    let mut header = [0; MIN_RECOGNIZABLE_BYTES];
    let (mut filled, mut length) = (0, 0);
    for _ in 0..MAX_HEADER_FRAGMENTS {
        // An FPDU of MPA after a marker resembles a long fragment that is not the last.
        let max_length = |mark: &RecordMark| if mark.is_last { MAX_RECORD_BYTES } else { MAX_HEADER_FRAGMENT_BYTES };
        let mark = RecordMark::from_bytes(bytes).filter(|mark| mark.length <= max_length(mark))?;
        let content = bytes.get(RecordMark::LENGTH..)?;
        let fragment = content.get(..mark.length as usize).unwrap_or(content);
        let target = header.get_mut(filled..)?;
        let count = fragment.len().min(target.len());
        target.get_mut(..count)?.copy_from_slice(fragment.get(..count)?);
        filled += count;
        length += mark.length as usize;
        let is_filled = filled == MIN_RECOGNIZABLE_BYTES;
        if is_filled || mark.is_last {
            let following_bytes = if mark.is_last { 0 } else { MIN_RECOGNIZABLE_BYTES };
            return recognize(header.get(..filled)?, length + following_bytes);
        }
        // Zeros would be empty fragments without end.
        if mark.length == 0 && filled == 0 && content.starts_with(&[0; 2 * RecordMark::LENGTH]) {
            return None;
        }
        bytes = content.get(mark.length as usize..)?;
    }
    None
}

/// Recognizes a record at an arbitrary stream position, with stricter rules than at the start of a segment: a Call
/// whose header is in the only fragment, or spread over several. Replies have too little structure; an RPC-over-RDMA
/// header looks like one.
pub fn recognize_call_record(bytes: &[u8]) -> Option<RecognizedRpcMessage> {
    let has_structure = bytes.first()? & 0x80 != 0 || begins_with_small_fragment(bytes);
    recognize_record(bytes).filter(|message| has_structure && message.mtype == MsgType::CALL && message.is_usual)
}

/// Returns `true` if these bytes, the last ones of a segment, can begin a record of which more is needed to recognize
/// it. It then begins behind its first empty fragments, which have nothing.
pub fn may_begin_record(bytes: &[u8]) -> bool {
    let word = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_be_bytes(*word));
    let Some(mark) = RecordMark::from_bytes(bytes) else {
        return bytes.first().is_some_and(|byte| byte & 0x7e == 0);
    };
    if begins_with_small_fragment(bytes) {
        return bytes.len() < MAX_SPREAD_HEADER_BYTES && mark.length > 0;
    }
    bytes.len() < RecordMark::LENGTH + MIN_RECOGNIZABLE_BYTES
        && (MIN_MESSAGE_BYTES..=MAX_RECORD_BYTES).contains(&mark.length)
        && word(8).is_none_or(|mtype| mtype <= MsgType::REPLY.0)
        && word(12).is_none_or(|next| next <= VERSION)
}

/// Returns `true` if the program number may exist: numbers below 100000 were never assigned. RFC 5531 section 8.3.
fn is_plausible(program: Program) -> bool {
    matches!(program.0, 100_000..=0x5fff_ffff)
}

/// Returns `true` for a program in a range from which numbers were assigned or chosen, and a version as programs have.
fn is_usual(program: Program, version: u32) -> bool {
    matches!(program.0, 100_000..=999_999 | 0x2000_0000..=0x5fff_ffff) && version <= MAX_USUAL_VERSION
}

/// Largest version of a program that is expected in the middle of a stream.
const MAX_USUAL_VERSION: u32 = 255;

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

    #[test]
    fn a_header_may_be_spread_over_small_fragments() {
        let fragment = |bytes: &[u8], is_last: bool| {
            let mark = (bytes.len() as u32 | u32::from(is_last) << 31).to_be_bytes();
            [&mark[..], bytes].concat()
        };
        let call = words(&[7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        let reply = words(&[7, 1, 0, 0, 0, 0]);
        for (message, mtype) in [(call, MsgType::CALL), (reply, MsgType::REPLY)] {
            for first in 0..24 {
                let record = [fragment(&message[..first], false), fragment(&message[first..], true)].concat();
                let found = recognize_record(&record);
                assert_eq!(found, Some(RecognizedRpcMessage { xid: Xid(7), mtype, is_usual: true }), "{first}");
                assert_eq!(recognize_call_record(&record).is_some(), mtype == MsgType::CALL);
                assert_eq!(recognize_record(&record[..20]), None);
            }
            let bytes: Vec<_> = message[..23].iter().map(|byte| fragment(&[*byte], false)).collect();
            let record = [bytes.concat(), fragment(&message[23..], true)].concat();
            assert!(recognize_record(&record).is_some());
        }
        assert_eq!(recognize_record(&[0; 200]), None);
    }

    #[test]
    fn rfc5531_section_8_3_unusual_program_is_no_record() {
        for (program, version, expected) in [(100_003, 4, true), (0x4000_0000, 1, true), (0x30_0000, 4, false)]
            .into_iter()
            .chain([(100_003, 256, false), (100_003, 0x28_0000, false)])
        {
            let call = words(&[0x8000_0028, 7, 0, 2, program, version, 0, 0, 0, 0, 0]);
            assert_eq!(recognize_call_record(&call).is_some(), expected, "{program} {version}");
        }
    }

    #[test]
    fn any_prefix_of_header_may_begin_record() {
        let fragment = |bytes: &[u8], mark: u32| [&(bytes.len() as u32 | mark).to_be_bytes()[..], bytes].concat();
        let message = words(&[7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        for first in 1..24 {
            let record = [fragment(&message[..first], 0), fragment(&message[first..], 1 << 31)].concat();
            for length in 1..record.len() {
                let prefix = &record[..length];
                assert!(may_begin_record(prefix) || recognize_record(prefix).is_some(), "{first} {length}");
            }
        }
        for other in [&[][..], b"/", &[0; 4], &[0x80, 0, 0, 40, 0, 0, 0, 7, 1], &[0x80, 0, 0, 8]] {
            assert_eq!(may_begin_record(other), other == [0x80, 0, 0, 40, 0, 0, 0, 7, 1], "{other:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_not_recognized(bytes: Vec<u8>, length: u16) {
            assert_eq!(recognize(&bytes, length.into()), None);
            assert_eq!(recognize_record(&bytes), None);
        }
    }
}
