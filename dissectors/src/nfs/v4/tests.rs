//! Round trips of every operation, and robustness against arbitrary bytes.

mod examples;

use std::ops::Range;

use proptest::prelude::*;

pub(super) use self::examples::laid;
use self::examples::{every_call, every_callback, every_callback_reply, every_reply, slice};
use super::*;
use crate::field::{FieldDefinition, FieldObserver, FieldValue, NullFieldObserver};
use crate::nfs::{StatusUnion, StatusUnionDiscriminant};
use crate::xdr::{Cursor, Encoder, Opaque, Text, Xdr, XdrArray, XdrError};

/// Observer that records fields.
#[derive(Default)]
pub(super) struct Seen<'a> {
    pub(super) depth: usize,
    pub(super) groups: Vec<&'static str>,
    pub(super) values: Vec<(&'static str, Range<usize>, FieldValue<'a>)>,
}

impl<'a> FieldObserver<'a> for Seen<'a> {
    fn enter(&mut self, field: &'static FieldDefinition, _: usize) {
        self.depth += 1;
        self.groups.push(field.label);
    }

    fn leave(&mut self, _: usize) {
        self.depth = self.depth.checked_sub(1).expect("every group that is left was entered");
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        self.values.push((field.name, bytes, value));
    }
}

/// Decodes a COMPOUND with and without an observer, compares both, and returns it with its encoding.
fn walk<'a, H: Xdr<'a>, B: OperationBody<'a> + PartialEq + std::fmt::Debug + 'a>(
    bytes: &'a [u8],
) -> Result<(Compound<'a, H, B>, Vec<u8>), XdrError> {
    let mut seen = Seen::default();
    let compound = Compound::<H, B>::decode(&mut Cursor::new(bytes), &mut seen)?;
    let plain: Vec<_> = compound.operations().collect();
    let (mut operations, mut watched) = (compound.operations(), Vec::new());
    while let Some(step) = operations.read_next(&mut seen) {
        watched.push(step);
    }
    assert_eq!(plain, watched);
    assert_eq!(seen.depth, 0);
    assert!(seen.values.iter().all(|(_, at, _)| at.start <= at.end && at.end <= bytes.len()));
    let mut encoder = Encoder::new();
    compound.encode(&mut encoder);
    Ok((compound, encoder.finish().0))
}

/// Round trips of every body alone in a COMPOUND: hand-written bytes decode completely and encode to the same. A
/// truncated body stops the iteration, with the bytes before the truncation reported. Every operation of the table
/// needs an example.
macro_rules! round_trips {
    ($bodies:expr, $head:expr, $compound:ident, $all:expr) => {{
        let bodies = $bodies;
        let mut covered: Vec<_> = bodies.iter().map(|(body, _)| body.operation()).collect();
        covered.dedup();
        assert_eq!(covered, $all, "an example of every operation, in the order of the table");
        for (body, by_hand) in &bodies {
            let mut encoder = Encoder::new();
            body.encode(&mut encoder);
            assert_eq!(encoder.bytes(), laid(by_hand), "{body:?}");
            let mut encoder = Encoder::new();
            $compound::new($head, std::slice::from_ref(body)).encode(&mut encoder);
            let bytes = encoder.finish().0;
            assert!(bytes.ends_with(&laid(by_hand)));
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
                        matches!(stop.error, XdrError::Short { .. } | XdrError::TooLong { .. }),
                        "{stop:?} {body:?}"
                    );
                    assert_eq!(again, cut);
                }
                let mut cursor = Cursor::new(cut).with_length(bytes.len());
                if let Ok(decoded) = $compound::decode(&mut cursor, &mut Seen::default()) {
                    let stop = decoded.operations().next().unwrap().unwrap_err();
                    assert_eq!(stop.error, XdrError::Cut { at: length }, "{body:?}");
                }
            }
        }
    }};
}

const CALL: CompoundCallHead<'_> = CompoundCallHead { tag: Text(b"tag"), minorversion: 2 };
const REPLY: CompoundReplyHead<'_> = CompoundReplyHead { status: Nfsstat4::NFS4_OK, tag: Text(b"") };
const CB_CALL: CbCompoundCallHead<'_> = CbCompoundCallHead { tag: Text(b""), minorversion: 0, callback_ident: 7 };

#[test]
fn every_operation_is_read_and_written() {
    round_trips!(every_call(), CALL, CompoundCall, Operation::ALL);
}

#[test]
fn every_result_is_read_and_written() {
    round_trips!(every_reply(), REPLY, CompoundReply, Operation::ALL);
}

#[test]
fn every_callback_operation_is_read_and_written() {
    round_trips!(every_callback(), CB_CALL, CbCompoundCall, CbOperation::ALL);
}

#[test]
fn every_callback_result_is_read_and_written() {
    round_trips!(every_callback_reply(), REPLY, CbCompoundReply, CbOperation::ALL);
}

#[test]
fn a_result_begins_with_its_status() {
    let results = every_reply();
    assert!(results.iter().any(|(result, _)| result.status() == Nfsstat4::NFS4ERR_DENIED));
    for (result, _) in results {
        let mut encoder = Encoder::new();
        result.encode(&mut encoder);
        assert_eq!(
            Nfsstat4::decode(&mut Cursor::new(encoder.bytes()), Nfsstat4::FIELD, &mut NullFieldObserver),
            Ok(result.status())
        );
    }
}

/// Returns bytes that resemble a COMPOUND: a head of `head` words, a count, operation numbers of the tables, and
/// arbitrary words.
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

/// Asserts that a decoded COMPOUND survives a round trip, with undecodable bytes copied verbatim.
fn survives<'a, H: Xdr<'a>, B: OperationBody<'a> + PartialEq + std::fmt::Debug + 'a>(bytes: &'a [u8]) {
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
        survives::<CompoundCallHead, Args>(&bytes);
        survives::<CompoundReplyHead, Results>(&bytes);
        survives::<CbCompoundCallHead, CbArgs>(&bytes);
        survives::<CompoundReplyHead, CbResults>(&bytes);
    }

    #[test]
    fn no_operation_makes_it_panic(two in like_a_compound(2), three in like_a_compound(3)) {
        survives::<CompoundCallHead, Args>(&two);
        survives::<CompoundReplyHead, Results>(&two);
        survives::<CbCompoundCallHead, CbArgs>(&three);
        survives::<CompoundReplyHead, CbResults>(&two);
    }

    #[test]
    fn no_content_of_a_body_stops_the_items_after_it(
        of_type in 0u32..7,
        body in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            proptest::collection::vec(0u32..5, 0..40)
                .prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect()),
        ],
        mask in proptest::collection::vec(any::<u32>(), 0..4),
    ) {
        let of_type = Layouttype4(of_type);
        let opaque = || Opaque(&body);
        let mask: &[u32] = &mask;
        let fattr = || Getattr4Resok { obj_attributes: Fattr4::new(Bitmap4::from(mask), opaque()) };
        let replies = [
            layout_reply(LayoutContent4::Other(of_type, opaque())),
            Results::GETDEVICEINFO(Box::new(GetdeviceinfoRes::Ok(Getdeviceinfo4Resok {
                gdir_device_addr: DeviceAddr4::Other(of_type, opaque()),
                gdir_notification: Bitmap4::default(),
            }))),
            Results::GETATTR(StatusUnion::Ok(fattr())),
            Results::GETFH(StatusUnion::Ok(ObjectFh4 { object: Opaque(b"fh") })),
        ];
        let mut encoder = Encoder::new();
        CompoundReply::new(REPLY, &replies).encode(&mut encoder);
        let (reply, again) = walk::<CompoundReplyHead<'_>, Results<'_>>(encoder.bytes()).unwrap();
        prop_assert_eq!(reply.operations().filter(Result::is_ok).count(), replies.len());
        prop_assert_eq!(again.len(), encoder.bytes().len());

        let rest = LayoutreturnFromIomode {
            lora_iomode: Layoutiomode4::LAYOUTIOMODE4_ANY,
            lora_layoutreturn: Layoutreturn4::File(LayoutreturnFile4 {
                lrf_offset: 0,
                lrf_length: 0,
                lrf_stateid: Stateid4 { seqid: 0, other: [0; 12] },
                lrf_body: opaque(),
            }),
        };
        let calls = [
            Args::LAYOUTRETURN(Box::new(Layoutreturn4Args {
                lora_reclaim: false,
                lora_by_type: LayoutreturnByLayoutType::Other(of_type, rest),
            })),
            Args::LAYOUTSTATS(Box::new(Layoutstats4Args {
                lsa_offset: 0,
                lsa_length: 0,
                lsa_stateid: Stateid4 { seqid: 0, other: [0; 12] },
                lsa_read: IoInfo4 { ii_count: 0, ii_bytes: 0 },
                lsa_write: IoInfo4 { ii_count: 0, ii_bytes: 0 },
                lsa_deviceid: [0; 16],
                lsa_layoutupdate: Layoutupdate4::Other(of_type, opaque()),
            })),
            Args::VERIFY(fattr()),
            Args::PUTFH(ObjectFh4 { object: Opaque(b"fh") }),
        ];
        let mut encoder = Encoder::new();
        CompoundCall::new(CALL, &calls).encode(&mut encoder);
        let (call, again) = walk::<CompoundCallHead<'_>, Args<'_>>(encoder.bytes()).unwrap();
        prop_assert_eq!(call.operations().filter(Result::is_ok).count(), calls.len());
        prop_assert_eq!(again.len(), encoder.bytes().len());
    }
}

/// Returns a LAYOUTGET result with one segment.
fn layout_reply(lo_content: LayoutContent4<'_>) -> Results<'_> {
    let layout = Layout4 { lo_offset: 0, lo_length: 0, lo_iomode: Layoutiomode4::LAYOUTIOMODE4_RW, lo_content };
    // The list borrows its items, so they are leaked.
    let layouts: &[Layout4<'_>] = Box::leak(Box::new([layout]));
    Results::LAYOUTGET(LayoutgetRes::Ok(Layoutget4Resok {
        logr_return_on_close: false,
        logr_stateid: Stateid4 { seqid: 0, other: [0; 12] },
        logr_layout: XdrArray::from(layouts),
    }))
}
