//! Truncated frames. The truncated part is missing or counted by the headers, never misinterpreted; everything outside
//! of the frame is unchanged.

use nfsrdma_dissectors::captured_frame::FrameNumber;
use nfsrdma_flow::transaction::{ConnectionTransport, MissingPart, RpcMessageKind};

use crate::independent_decoder::What;
use crate::loss_comparison::{ALL, Exhibit, IWARP, ROCE, TCP, agrees, named, names, run, same};

/// Returns the length of the trailer after the payload: the pad and the ICRC, or the pad and the CRC of MPA.
fn trailer(transport: ConnectionTransport) -> usize {
    if transport == ConnectionTransport::Tcp { 0 } else { 3 + 4 }
}

/// Truncates one frame of a part of the capture, and checks every Transaction in it.
fn cut(exhibit: &Exhibit, range: &std::ops::Range<usize>, at: usize, length: usize) {
    let said = format!("{}: {length} bytes of frame {}", exhibit.name, at + 1);
    let mut short = exhibit.frames[at].clone();
    let taken = short.bytes.len() - length;
    short.bytes.truncate(length);
    let frames = exhibit.numbered(range.clone());
    let outcome = run(frames.map(|(number, kept)| match number as usize == at + 1 {
        true => (number, &short),
        false => (number, kept),
    }));
    assert_eq!(outcome.given_up, 0, "{said}");
    let expected = exhibit.within(range);
    let found = named(&outcome.transactions, &said);
    assert!(found.keys().all(|name| expected.contains_key(name)), "{said}: invented");
    for (name, index) in &expected {
        let before = &exhibit.transactions[*index];
        let said = format!("{said}: {name:x?}");
        let parts: Vec<_> = exhibit.parts[at].iter().filter(|part| part.transaction == *index).collect();
        let is_head = |which| parts.iter().any(|part| part.what == What::Message(which) && part.is_head);
        let Some(now) = found.get(name) else {
            for which in [RpcMessageKind::Call, RpcMessageKind::Reply] {
                assert!(before.message(which).is_none() || is_head(which), "{said}: gone");
            }
            continue;
        };
        if parts.is_empty() {
            same(now, before, !names(before, FrameNumber(at as u64 + 1)), &said);
            continue;
        }
        agrees(now, before, &said);
        let codes = now.missing_parts();
        for code in &codes {
            let is_right = match code {
                // Truncation removes bytes, and leaves none that cannot be decoded.
                MissingPart::Undecoded(..)
                | MissingPart::ReplyRead(..)
                | MissingPart::Refused(_)
                | MissingPart::WrongResult => false,
                MissingPart::Message(which) | MissingPart::Header(which) => is_head(*which),
                MissingPart::Bytes(which, range) => parts.iter().any(|part| {
                    part.what == What::Message(*which)
                        && part.bytes.start <= range.start
                        && (range.end <= part.bytes.end || part.is_head)
                }),
                MissingPart::Chunk(kind, chunk, range) => { parts.iter() }.any(|part| {
                    part.what == What::Chunk(*kind, *chunk)
                        && part.bytes.start <= range.start
                        && range.end <= part.bytes.end
                }),
            };
            assert!(is_right, "{said}: {code} of {parts:?}");
        }
        for part in parts {
            if let What::Message(which) = part.what
                && taken > trailer(before.connection.transport)
                && !part.bytes.is_empty()
                // If several are in one frame, the last one is truncated.
                && exhibit.parts[at].len() == 1
            {
                let is_missed = codes.iter().any(|code| match code {
                    MissingPart::Message(of) | MissingPart::Header(of) | MissingPart::Bytes(of, _) => *of == which,
                    MissingPart::Chunk(..)
                    | MissingPart::ReplyRead(..)
                    | MissingPart::Undecoded(..)
                    | MissingPart::Refused(_)
                    | MissingPart::WrongResult => false,
                });
                assert!(is_missed, "{said}: nothing is missed of {part:?}");
            }
        }
    }
}

fn each_in_turn(exhibits: [usize; 2]) {
    for exhibit in exhibits.map(|at| &*ALL[at]) {
        for range in [exhibit.quiet(0, 150), exhibit.quiet(exhibit.frames.len() / 2, 100)] {
            for at in range.clone() {
                let whole = exhibit.frames[at].bytes.len();
                // Within headers, at their ends, and at common snap lengths.
                let lengths = [0, 13, 33, 41, 53, 60, 69, 77, 95, 128, 200, 256, whole / 2, whole - 5, whole - 1];
                for length in lengths.into_iter().filter(|length| *length < whole).skip(at % 3).step_by(3) {
                    cut(exhibit, &range, at, length);
                }
            }
        }
    }
}

#[test]
fn a_cut_rocev2_frame_lacks_only_the_cut_bytes() {
    each_in_turn(ROCE);
}

#[test]
fn a_cut_tcp_segment_lacks_only_the_cut_bytes() {
    each_in_turn(TCP);
}

#[test]
fn a_cut_iwarp_segment_lacks_only_the_cut_bytes() {
    each_in_turn(IWARP);
}

fn each_length(exhibit: &Exhibit) {
    let range = exhibit.quiet(exhibit.frames.len() / 2, 24);
    for at in range.clone() {
        for length in 0..exhibit.frames[at].bytes.len() {
            cut(exhibit, &range, at, length);
        }
    }
}

#[test]
fn a_frame_of_rocev2_may_be_cut_at_each_length() {
    each_length(&ALL[ROCE[0]]);
}

#[test]
fn a_segment_of_tcp_may_be_cut_at_each_length() {
    each_length(&ALL[TCP[0]]);
}

#[test]
fn a_segment_of_iwarp_may_be_cut_at_each_length() {
    each_length(&ALL[IWARP[0]]);
}
