//! Hex dump, 16 bytes per line with their text, as tshark's `-x` shows it.

use std::io::{self, Write};

use nfsrdma_flow::chunk::Chunk;
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction};

const PER_LINE: usize = 16;

fn dump(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for (line, bytes) in bytes.chunks(PER_LINE).enumerate() {
        write!(to, "{:04x}  ", line * PER_LINE)?;
        for at in 0..PER_LINE {
            match bytes.get(at) {
                Some(byte) => write!(to, "{byte:02x} ")?,
                None => write!(to, "   ")?,
            }
        }
        write!(to, "  ")?;
        for byte in bytes {
            let is_shown = byte.is_ascii_graphic() || *byte == b' ';
            to.write_all(&[if is_shown { *byte } else { b'.' }])?;
        }
        writeln!(to)?;
    }
    writeln!(to)
}

/// Writes the bytes of a frame and an empty line.
pub(super) fn frame(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    writeln!(to)?;
    dump(to, bytes)
}

/// Writes the inline bytes of both messages, from the RPC-over-RDMA header on, and the captured bytes of the chunks.
pub(super) fn transaction(to: &mut impl Write, transaction: &Transaction) -> io::Result<()> {
    writeln!(to)?;
    for (kind, name) in [(RpcMessageKind::Call, "Call"), (RpcMessageKind::Reply, "Reply")] {
        let Some(message) = transaction.message(kind) else { continue };
        let (captured, length) = (message.bytes.len(), message.length);
        if captured < length {
            writeln!(to, "{name}, {captured} of {length} bytes:")?;
        } else {
            writeln!(to, "{name}, {length} bytes:")?;
        }
        dump(to, &message.bytes)?;
    }
    let kinds = [
        ("Read", transaction.read_chunks.as_slice()),
        ("Write", &transaction.write_chunks),
        ("Reply", transaction.reply_chunk.as_slice()),
    ];
    for (kind, chunks) in kinds {
        for (number, chunk) in chunks.iter().enumerate() {
            segments(to, kind, number, chunk)?;
        }
    }
    Ok(())
}

fn segments(to: &mut impl Write, kind: &str, number: usize, chunk: &Chunk) -> io::Result<()> {
    for (at, segment) in chunk.segments.iter().enumerate() {
        let Some(bytes) = segment.payload.as_ref().map(|payload| payload.prefix()).filter(|bytes| !bytes.is_empty())
        else {
            continue;
        };
        let (captured, moved) = (bytes.len(), segment.moved_coverage.total_bytes());
        writeln!(to, "{kind} chunk {number}, segment {at}, {captured} of {moved} bytes:")?;
        dump(to, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_16_bytes_with_their_text() {
        let mut text = Vec::new();
        dump(&mut text, b"GET / HTTP\x00\xff\x7f 16!\n").unwrap();
        let expected = "0000  47 45 54 20 2f 20 48 54 54 50 00 ff 7f 20 31 36   GET / HTTP... 16\n\
                        0010  21 0a                                             !.\n\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
