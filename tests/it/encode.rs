//! Round trip of every real message: encoding the decoded message gives the same bytes, for the RPC-over-RDMA header,
//! the RPC header with the protected arguments, and NFS down to single attributes. The encoder computes the Positions
//! of Read chunks, too.

use std::fmt::Debug;
use std::ops::{AddAssign, Range};

use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::nfs::v4::{Attribute, BitmapKeyedValue};
use nfsrdma_flow::transaction::RpcMessageKind;
use nfsrdma_flow::transaction_message_decoding::{OriginalAndReencodedMessage, TransactionMessages};
use nfsrdma_flow::{Flow, FlowLimits, Transaction};

use crate::captures;

/// Counts of the Calls and Replies of a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Number of messages.
    messages: u64,
    /// Number of complete messages of described programs.
    held: u64,
    /// Number of these in a chunk.
    in_chunks: u64,
    /// Number of Read chunks with an item that the encoder left out at the Position of the chunk.
    read_items: u64,
    /// Number of Write chunks with an item.
    write_items: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.held += other.held;
        self.in_chunks += other.in_chunks;
        self.read_items += other.read_items;
        self.write_items += other.write_items;
    }
}

/// Panics if raw bytes represent undecoded data, which would be encoded unchanged.
struct NothingUnread<'t>(&'t dyn Debug);

impl<'a> FieldObserver<'a> for NothingUnread<'_> {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, _: FieldValue<'a>) {
        let unread = ["nfs.undecoded", <Attribute<'_> as BitmapKeyedValue<'_>>::VALUES.name];
        assert!(!unread.contains(&field.name), "{} at {bytes:?} of {:?}", field.name, self.0);
    }
}

fn hold(transaction: &Transaction, reading: &TransactionMessages<'_>, which: RpcMessageKind) -> Counts {
    let Some(record) = transaction.message(which) else { return Counts::default() };
    let mut counts = Counts { messages: 1, ..Counts::default() };
    let Some(again) = reading.reencode(which) else { return counts };
    let OriginalAndReencodedMessage { header, message, splices } =
        again.unwrap_or_else(|e| panic!("{e}: {transaction:?}"));
    assert_eq!(header.encoded, header.sent, "the header of the {which:?} of {transaction:?}");
    assert_eq!(message.encoded, message.sent, "the {which:?} of {transaction:?}");
    assert!(record.is_rdma_error() || !message.sent.is_empty());
    reading.observe(which, &mut NothingUnread(transaction)).unwrap();

    // Items and their chunks: the length of a chunk may include the padding of the item.
    let items: Vec<_> = match which {
        RpcMessageKind::Call => transaction
            .read_chunks
            .iter()
            .filter(|chunk| chunk.position != Some(0))
            .map(|chunk| (chunk.position, chunk.offered_bytes()))
            .collect(),
        RpcMessageKind::Reply => transaction
            .write_chunks
            .iter()
            .map(|chunk| (None, chunk.returned_bytes().unwrap_or(0)))
            .filter(|(_, returned)| *returned > 0)
            .collect(),
    };
    assert_eq!(splices.len(), items.len(), "the items in chunks of the {which:?} of {transaction:?}");
    for (splice, (position, length)) in splices.iter().zip(items) {
        let (item, filled) = (u64::from(splice.length), u64::from(splice.length).next_multiple_of(4));
        assert!((item..=filled).contains(&length), "{splice:?}, a chunk of {length} bytes: {transaction:?}");
        match which {
            RpcMessageKind::Call => {
                assert_eq!(position.map(|position| position as usize), Some(splice.position), "{transaction:?}");
                counts.read_items += 1;
            }
            RpcMessageKind::Reply => counts.write_items += 1,
        }
    }
    counts.held = 1;
    counts.in_chunks = u64::from(record.is_nomsg());
    counts
}

fn every_message_of(name: &'static str) -> Counts {
    let mut source = CaptureFrameSource::from_reader(name, std::io::Cursor::new(captures::bytes(name)));
    let mut flow = Flow::new(FlowLimits::default());
    let mut counts = Counts::default();
    let mut hold_all = |flow: &mut Flow| {
        while let Some(transaction) = flow.next_transaction() {
            transaction.with_messages(|reading| {
                for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                    counts += hold(&transaction, reading, which);
                }
            });
        }
    };
    while let Some(frame) = source.next().unwrap() {
        flow.process_frame(&frame);
        hold_all(&mut flow);
    }
    flow.finish();
    hold_all(&mut flow);
    counts
}

macro_rules! gives_its_own_bytes {
    ($($test:ident, $name:literal: $messages:literal, $held:literal, $in_chunks:literal, $read:literal, $write:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let counts = every_message_of($name);
                let expected = Counts {
                    messages: $messages,
                    held: $held,
                    in_chunks: $in_chunks,
                    read_items: $read,
                    write_items: $write,
                };
                assert_eq!(counts, expected);
            }
        )*

        #[test]
        fn no_capture_is_left_out() {
            assert_eq!([$($name),*], captures::ALL);
        }
    };
}
gives_its_own_bytes! {
    // Messages, complete messages, in chunks, items in Read chunks, items in Write chunks. In `rxe-v42-snap128` most
    // are truncated: complete are the two messages of NULL, and the Replies to DESTROY_SESSION and DESTROY_CLIENTID,
    // which name their operation without their Calls.
    rxe_v3, "rxe-v3": 394, 394, 10, 14, 9;
    rxe_v40, "rxe-v40": 458, 458, 37, 14, 9;
    rxe_v40_deleg, "rxe-v40-deleg": 68, 68, 5, 1, 3;
    rxe_v40_errors, "rxe-v40-errors": 278, 278, 1, 1, 0;
    rxe_v41, "rxe-v41": 454, 454, 39, 14, 9;
    rxe_v42, "rxe-v42": 474, 474, 42, 13, 8;
    rxe_v42_bulk_loss1, "rxe-v42-bulk-loss1": 92, 92, 9, 6, 6;
    rxe_v42_bulk_loss5, "rxe-v42-bulk-loss5": 92, 92, 9, 6, 6;
    rxe_v42_conc_head, "rxe-v42-conc-head": 85, 85, 7, 13, 0;
    rxe_v42_credits, "rxe-v42-credits": 1446, 1446, 67, 256, 256;
    rxe_v42_deleg, "rxe-v42-deleg": 74, 74, 10, 1, 3;
    rxe_v42_ip6, "rxe-v42-ip6": 474, 474, 42, 13, 8;
    rxe_v42_krb5, "rxe-v42-krb5": 1332, 1332, 320, 2, 3;
    rxe_v42_loss, "rxe-v42-loss": 474, 474, 42, 13, 8;
    rxe_v42_mid, "rxe-v42-mid": 440, 440, 39, 13, 8;
    rxe_v42_snap128, "rxe-v42-snap128": 474, 4, 0, 0, 0;
    siw_v3, "siw-v3": 396, 396, 10, 14, 9;
    siw_v40_errors, "siw-v40-errors": 280, 280, 1, 1, 0;
    siw_v41, "siw-v41": 454, 454, 39, 14, 9;
    siw_v42, "siw-v42": 450, 450, 41, 13, 8;
    siw_v42_bulk_loss, "siw-v42-bulk-loss": 92, 92, 9, 6, 6;
    siw_v42_crc, "siw-v42-crc": 474, 474, 42, 13, 8;
    siw_v42_mid, "siw-v42-mid": 440, 440, 39, 13, 8;
    tcp_v3, "tcp-v3": 402, 402, 0, 0, 0;
    tcp_v42, "tcp-v42": 474, 474, 0, 0, 0;
    tcp_v42_bulk_loss, "tcp-v42-bulk-loss": 92, 92, 0, 0, 0;
    tcp_v42_ganesha, "tcp-v42-ganesha": 178, 178, 0, 0, 0;
}
