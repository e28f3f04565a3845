//! Every operation, written and read again; and what arbitrary bytes do.

mod examples;

use std::ops::Range;

use proptest::prelude::*;

use self::examples::{every_call, every_callback, every_callback_reply, every_reply, slice};
use super::*;
use crate::field::{Field, Observer, Unobserved, Value};
use crate::nfs::Status;
use crate::xdr::{Cursor, Encoder, Error, Text, Xdr};

/// Writes down what a decoder tells.
#[derive(Default)]
pub(super) struct Seen<'a> {
    pub(super) depth: usize,
    pub(super) groups: Vec<&'static str>,
    pub(super) values: Vec<(&'static str, Range<usize>, Value<'a>)>,
}

impl<'a> Observer<'a> for Seen<'a> {
    fn enter(&mut self, field: &'static Field, _: usize) {
        self.depth += 1;
        self.groups.push(field.label);
    }

    fn leave(&mut self, _: usize) {
        self.depth = self.depth.checked_sub(1).expect("every group that is left was entered");
    }

    fn value(&mut self, field: &'static Field, bytes: Range<usize>, value: Value<'a>) {
        self.values.push((field.name, bytes, value));
    }
}

/// Walks over a COMPOUND with a watcher and without, and holds both to the same; the bytes it encodes to.
fn walk<'a, H: Xdr<'a>, B: Body<'a> + PartialEq + std::fmt::Debug + 'a>(
    bytes: &'a [u8],
) -> Result<(Compound<'a, H, B>, Vec<u8>), Error> {
    let mut seen = Seen::default();
    let compound = Compound::<H, B>::decode(&mut Cursor::new(bytes), &mut seen)?;
    let plain: Vec<_> = compound.operations().collect();
    let (mut operations, mut watched) = (compound.operations(), Vec::new());
    while let Some(step) = operations.next_observed(&mut seen) {
        watched.push(step);
    }
    assert_eq!(plain, watched);
    assert_eq!(seen.depth, 0);
    assert!(seen.values.iter().all(|(_, at, _)| at.start <= at.end && at.end <= bytes.len()));
    let mut encoder = Encoder::new();
    compound.encode(&mut encoder);
    Ok((compound, encoder.finish().0))
}

/// Every body alone in a COMPOUND: read back the same, to its last byte; and stopped at where it is cut, but for the
/// bytes before the cut.
macro_rules! round_trips {
    ($bodies:expr, $head:expr, $compound:ident, $all:expr) => {{
        let bodies = $bodies;
        let mut covered: Vec<_> = bodies.iter().map(|body| body.number()).collect();
        covered.dedup();
        assert_eq!(covered, $all, "an example of every operation, in the order of the table");
        for body in &bodies {
            let mut encoder = Encoder::new();
            $compound::new($head, std::slice::from_ref(body)).encode(&mut encoder);
            let bytes = encoder.finish().0;
            let (decoded, again): ($compound<'_>, _) = walk(&bytes).unwrap();
            let mut operations = decoded.operations();
            assert_eq!(operations.next().as_ref(), Some(&Ok(body.clone())));
            assert_eq!((operations.next(), operations.rest()), (None, &[][..]), "{body:?}");
            assert_eq!((&decoded.head, &again), (&$head, &bytes));

            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                if let Ok((decoded, again)) = walk::<_, _>(cut) {
                    let decoded: $compound<'_> = decoded;
                    let stop = decoded.operations().next().unwrap().unwrap_err();
                    assert!(
                        matches!(stop.error, Error::Short { .. } | Error::TooLong { .. }),
                        "{stop:?} {body:?}"
                    );
                    assert_eq!(again, cut);
                }
                let mut cursor = Cursor::new(cut).with_length(bytes.len());
                if let Ok(decoded) = $compound::decode(&mut cursor, &mut Seen::default()) {
                    let stop = decoded.operations().next().unwrap().unwrap_err();
                    assert_eq!(stop.error, Error::Cut { at: length }, "{body:?}");
                }
            }
        }
    }};
}

const CALL: CallHead<'_> = CallHead { tag: Text(b"tag"), minorversion: 2 };
const REPLY: ReplyHead<'_> = ReplyHead { status: Nfsstat4::NFS4_OK, tag: Text(b"") };
const CB_CALL: CbCallHead<'_> = CbCallHead { tag: Text(b""), minorversion: 0, callback_ident: 7 };

#[test]
fn every_operation_is_read_and_written() {
    round_trips!(every_call(), CALL, Call, Operation::ALL);
}

#[test]
fn every_result_is_read_and_written() {
    round_trips!(every_reply(), REPLY, Reply, Operation::ALL);
}

#[test]
fn every_callback_operation_is_read_and_written() {
    round_trips!(every_callback(), CB_CALL, CbCall, CbOperation::ALL);
}

#[test]
fn every_callback_result_is_read_and_written() {
    round_trips!(every_callback_reply(), REPLY, CbReply, CbOperation::ALL);
}

#[test]
fn a_result_begins_with_its_status() {
    let results = every_reply();
    assert!(results.iter().any(|result| result.status() == Nfsstat4::NFS4ERR_DENIED));
    for result in results {
        let mut encoder = Encoder::new();
        result.encode(&mut encoder);
        assert_eq!(
            Nfsstat4::decode(&mut Cursor::new(encoder.bytes()), Nfsstat4::FIELD, &mut Unobserved),
            Ok(result.status())
        );
    }
}

/// Bytes that look like a COMPOUND: a head of so many words, a count, operation numbers of the tables, and anything.
fn like_a_compound(head: usize) -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![9 => 3u32..80, 1 => any::<u32>()];
    let word = prop_oneof![4 => Just(0u32), 4 => 0u32..8, 1 => any::<u32>()];
    (number, proptest::collection::vec(word, 0..80), proptest::collection::vec(any::<u8>(), 0..4)).prop_map(
        move |(number, words, tail)| {
            let mut bytes = vec![0; 4 * head];
            for word in [2, number].into_iter().chain(words) {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(tail);
            bytes
        },
    )
}

/// What was read is read the same from what it is written as; what stopped the walk is written as it is.
fn survives<'a, H: Xdr<'a>, B: Body<'a> + PartialEq + std::fmt::Debug + 'a>(bytes: &'a [u8]) {
    if let Ok((compound, again)) = walk::<H, B>(bytes) {
        assert!(again.len() <= bytes.len());
        let again: &[u8] = slice(again);
        let (reread, third) = walk::<H, B>(again).unwrap();
        assert_eq!(reread.operations().collect::<Vec<_>>(), compound.operations().collect::<Vec<_>>());
        assert_eq!(third, again);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives::<CallHead, Args>(&bytes);
        survives::<ReplyHead, Results>(&bytes);
        survives::<CbCallHead, CbArgs>(&bytes);
        survives::<ReplyHead, CbResults>(&bytes);
    }

    #[test]
    fn no_operation_makes_it_panic(two in like_a_compound(2), three in like_a_compound(3)) {
        survives::<CallHead, Args>(&two);
        survives::<ReplyHead, Results>(&two);
        survives::<CbCallHead, CbArgs>(&three);
        survives::<ReplyHead, CbResults>(&two);
    }
}
