//! Test messages encoded by hand from their specification, and tests of procedure tables against them.

use std::ops::Range;

use crate::field::{FieldDefinition, FieldObserver, FieldValue};

/// A value with a hand-written encoding: numbers of four or eight bytes, fixed opaque data, text with length and fill
/// bytes.
pub(super) trait ExampleXdrValue {
    fn bytes(&self) -> Vec<u8>;
}
impl ExampleXdrValue for i32 {
    fn bytes(&self) -> Vec<u8> {
        self.to_be_bytes().into()
    }
}
impl ExampleXdrValue for u64 {
    fn bytes(&self) -> Vec<u8> {
        self.to_be_bytes().into()
    }
}
impl<const N: usize> ExampleXdrValue for [u8; N] {
    fn bytes(&self) -> Vec<u8> {
        self.into()
    }
}
impl ExampleXdrValue for &str {
    fn bytes(&self) -> Vec<u8> {
        let fill = [0; 3];
        let fill = &fill[..(4 - self.len() % 4) % 4];
        [&(self.len() as u32).to_be_bytes(), self.as_bytes(), fill].concat()
    }
}
impl ExampleXdrValue for Vec<u8> {
    fn bytes(&self) -> Vec<u8> {
        self.clone()
    }
}

/// Concatenates the bytes of items.
macro_rules! lay_out {
    () => { Vec::<u8>::new() };
    ($($part:expr),+ $(,)?) => { [$($crate::nfs::example_messages::ExampleXdrValue::bytes(&$part)),+].concat() };
}
pub(super) use lay_out;

/// Leaks items, for the lifetime of the tests.
pub(super) fn items<T: 'static, L: From<&'static [T]>, const N: usize>(items: [T; N]) -> L {
    L::from(Box::leak(Box::new(items)))
}

/// Observer that checks that entered groups are left, and that values are in byte order. Values derived from another,
/// such as the port in an address, have the same bytes.
#[derive(Default)]
pub(super) struct FieldOrderChecker {
    pub(super) depth: usize,
    end: usize,
    last: Range<usize>,
    pub(super) names: Vec<&'static str>,
}

impl<'a> FieldObserver<'a> for FieldOrderChecker {
    fn enter(&mut self, _: &'static FieldDefinition, at: usize) {
        assert!(at >= self.end);
        self.depth += 1;
    }
    fn leave(&mut self, at: usize) {
        assert!(at >= self.end);
        self.depth -= 1;
    }
    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, _: FieldValue<'a>) {
        let follows = bytes.start >= self.end && bytes.end >= bytes.start;
        assert!(follows || bytes == self.last, "{}", field.name);
        self.end = bytes.end;
        self.last = bytes;
        self.names.push(field.name);
    }
}

/// Defines a function that checks bytes against a body of `Args` or `Results`.
macro_rules! holds {
    ($check:ident, $bodies:ident) => {
        /// Asserts that the bytes decode completely to `expected`, that both encode to the same bytes, and that any
        /// proper prefix is truncated.
        #[track_caller]
        fn $check(procedure: Procedure, bytes: &[u8], expected: &$bodies) {
            use $crate::field::NullFieldObserver;
            use $crate::nfs::example_messages::FieldOrderChecker;
            use $crate::xdr::{Cursor, Encoder, XdrError};
            let mut cursor = Cursor::new(bytes);
            let mut observer = FieldOrderChecker::default();
            let decoded = $bodies::decode(procedure, &mut cursor, &mut observer).unwrap();
            assert_eq!((&decoded, cursor.remaining(), observer.depth), (expected, 0, 0));
            assert_eq!(decoded.operation(), procedure);
            for body in [&decoded, expected] {
                let mut encoder = Encoder::new();
                body.encode(&mut encoder);
                assert_eq!(encoder.bytes(), bytes);
            }
            for end in 0..bytes.len() {
                let mut cursor = Cursor::new(&bytes[..end]).with_length(bytes.len());
                let error = $bodies::decode(procedure, &mut cursor, &mut NullFieldObserver).unwrap_err();
                assert_eq!(error, XdrError::Cut { at: end });
                assert!($bodies::decode(procedure, &mut Cursor::new(&bytes[..end]), &mut NullFieldObserver).is_err());
            }
        }
    };
}
pub(super) use holds;

/// Example messages of one version of a program, by procedure number.
pub(super) struct ProcedureTestMessages {
    pub(super) calls: Vec<(u32, Vec<u8>)>,
    pub(super) replies: Vec<(u32, Vec<u8>)>,
}

/// Tests the procedure table of module `$room` against `calls` and `replies`: pairs of bytes and their decoded values.
macro_rules! examples {
    ($room:path: $calls:expr, $replies:expr) => {
        use $room::{Args, Procedure, ProcedureNumber, Results};

        $crate::nfs::example_messages::holds!(arguments, Args);
        $crate::nfs::example_messages::holds!(results, Results);

        pub(in crate::nfs) fn examples() -> $crate::nfs::example_messages::ProcedureTestMessages {
            $crate::nfs::example_messages::ProcedureTestMessages {
                calls: $calls.into_iter().map(|(bytes, args)| (args.operation().number().0, bytes)).collect(),
                replies: $replies.into_iter().map(|(bytes, results)| (results.operation().number().0, bytes)).collect(),
            }
        }

        #[test]
        fn every_call_and_reply_has_the_expected_layout() {
            $calls.iter().for_each(|(bytes, args)| arguments(args.operation(), bytes, args));
            $replies.iter().for_each(|(bytes, answer)| results(answer.operation(), bytes, answer));
        }

        #[test]
        fn no_procedure_is_without_an_example() {
            let examples = examples();
            for procedure in Procedure::ALL {
                let has = |list: &[(u32, Vec<u8>)]| list.iter().any(|(number, _)| *number == procedure.number().0);
                assert!(has(&examples.calls) && has(&examples.replies), "{procedure}");
            }
        }

        proptest::proptest! {
            #[test]
            fn arbitrary_words_neither_panic_nor_encode_to_anything_else(
                procedure in 0u32..26, words in proptest::collection::vec(0u32..5, 0..80), more: Vec<u8>, length: u16,
            ) {
                use $crate::field::NullFieldObserver;
                use $crate::nfs::example_messages::FieldOrderChecker;
                use $crate::xdr::{Cursor, Encoder};
                let Some(procedure) = ProcedureNumber(procedure).known() else { return Ok(()) };
                let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                for bytes in [&words[..], &more[..]] {
                    let start = Cursor::new(bytes).with_length(length.into());
                    let _ = Args::decode(procedure, &mut { start }, &mut FieldOrderChecker::default());
                    let _ = Results::decode(procedure, &mut { start }, &mut FieldOrderChecker::default());
                    let mut cursor = Cursor::new(bytes);
                    if let Ok(decoded) = Args::decode(procedure, &mut cursor, &mut NullFieldObserver) {
                        let mut encoder = Encoder::new();
                        decoded.encode(&mut encoder);
                        let again = Args::decode(procedure, &mut Cursor::new(encoder.bytes()), &mut NullFieldObserver);
                        proptest::prop_assert_eq!(again, Ok(decoded));
                        proptest::prop_assert_eq!(encoder.bytes().len(), cursor.at());
                    }
                    let mut cursor = Cursor::new(bytes);
                    if let Ok(decoded) = Results::decode(procedure, &mut cursor, &mut NullFieldObserver) {
                        let mut encoder = Encoder::new();
                        decoded.encode(&mut encoder);
                        let again = Results::decode(procedure, &mut Cursor::new(encoder.bytes()), &mut NullFieldObserver);
                        proptest::prop_assert_eq!(again, Ok(decoded));
                        proptest::prop_assert_eq!(encoder.bytes().len(), cursor.at());
                    }
                }
            }
        }
    };
}
pub(super) use examples;
