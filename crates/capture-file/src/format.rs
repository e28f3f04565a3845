//! Recognition of the file format from the first bytes.

use super::buffer::CaptureFileReadBuffer;
use super::error::SourceErrorKind;
use super::pcap::{self, Pcap};
use super::pcapng::{self, PcapngFileReader};

/// Number of bytes inspected to describe a file that is not a capture.
const DETECTION_BYTES: usize = 64;

const EDITCAP: &str = "convert it with editcap -F pcapng";
const DECOMPRESS: &str = "decompress it first";

/// First bytes of formats that are often found where a capture is expected: magic, name and remedy.
const UNSUPPORTED_FORMATS: &[(&[u8], &str, &str)] = &[
    (&[0xa1, 0xb2, 0xcd, 0x34], "modified pcap (magic a1b2cd34)", EDITCAP),
    (&[0x34, 0xcd, 0xb2, 0xa1], "modified pcap (magic a1b2cd34)", EDITCAP),
    (&[0xa1, 0xe2, 0xcb, 0x12], "Nokia pcap", EDITCAP),
    (&[0x12, 0xcb, 0xe2, 0xa1], "Nokia pcap", EDITCAP),
    (b"snoop\0\0\0", "Solaris snoop", EDITCAP),
    (b"RTSS", "Microsoft Network Monitor 1", EDITCAP),
    (b"GMBU", "Microsoft Network Monitor 2", EDITCAP),
    (b"iptrace ", "AIX iptrace", EDITCAP),
    (b"TRSNIFF data", "Sniffer (DOS)", EDITCAP),
    (b"XCP\0", "Sniffer (Windows)", EDITCAP),
    (b"BZh", "bzip2", DECOMPRESS),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", DECOMPRESS),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", DECOMPRESS),
    (&[0x1f, 0x9d], "compress (.Z)", DECOMPRESS),
    (&[0x1f, 0x8b], "gzip within other compressed data", DECOMPRESS),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd within other compressed data", DECOMPRESS),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
];

pub(super) enum CaptureFormatParser {
    Pcap(Pcap),
    Pcapng(PcapngFileReader),
}

impl CaptureFormatParser {
    /// Recognises the format from the first bytes and reads its header.
    pub(super) fn open(buffer: &mut CaptureFileReadBuffer) -> Result<Self, SourceErrorKind> {
        if buffer.fill(4)?
            && let Some(first) = buffer.buffered().first_chunk::<4>()
        {
            if let Some((order, unit)) = pcap::parse_magic(*first) {
                return Pcap::open(buffer, order, unit).map(Self::Pcap);
            }
            if *first == pcapng::MAGIC {
                return PcapngFileReader::open(buffer).map(Self::Pcapng);
            }
        }
        buffer.fill(DETECTION_BYTES)?;
        Err(unrecognized_error(buffer.buffered().get(..DETECTION_BYTES).unwrap_or(buffer.buffered())))
    }
}

fn unrecognized_error(first: &[u8]) -> SourceErrorKind {
    if first.is_empty() {
        return SourceErrorKind::Empty;
    }
    if let Some((_, name, advice)) = UNSUPPORTED_FORMATS.iter().find(|(magic, ..)| first.starts_with(magic)) {
        return SourceErrorKind::UnsupportedFormat(name, advice);
    }
    if let Some(text) = text_prefix(first) {
        return SourceErrorKind::Text(text);
    }
    if is_erf(first) {
        return SourceErrorKind::UnsupportedFormat("perhaps an Endace ERF file", EDITCAP);
    }
    SourceErrorKind::Unknown(first.iter().copied().take(8).collect())
}

/// Returns the first characters if all of `first` is text. The last character may be truncated.
fn text_prefix(first: &[u8]) -> Option<String> {
    let valid = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(first.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    let printable = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    (!valid.is_empty() && valid.chars().all(printable)).then(|| valid.chars().take(24).collect())
}

/// Returns `true` if `first` looks like an ERF record. ERF has no magic number, but a time in 32.32 bits
/// (little-endian), a type, and lengths (big-endian). The type is at most 50, with a bit for extension headers.
fn is_erf(first: &[u8]) -> bool {
    let Some(&[_, _, _, _, s0, s1, s2, s3, kind, _, r0, r1, _, _, w0, w1]) = first.first_chunk::<16>() else {
        return false;
    };
    let seconds = u32::from_le_bytes([s0, s1, s2, s3]);
    let (record, wire) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([w0, w1]));
    // From 1990 to 2090.
    (631_152_000..3_786_912_000).contains(&seconds) && (1..=50).contains(&(kind & 0x7f)) && record >= 16 && wire > 0
}

#[cfg(test)]
mod tests {
    use super::super::testing::failure;
    use super::*;

    fn detected(bytes: &[u8]) -> String {
        let (frames, error) = failure(bytes);
        assert!(frames.is_empty());
        error.to_string()
    }

    #[test]
    fn files_that_are_no_captures_are_described_by_their_beginning() {
        assert_eq!(detected(b""), "test: the file is empty; expected pcap or pcapng");
        assert_eq!(
            detected(b"12:00:01.5 IP 10.0.0.1.4791 > 10.0.0.2"),
            r#"test: not a capture file: begins with "12:00:01.5 IP 10.0.0.1.4"; expected pcap or pcapng"#
        );
        assert_eq!(
            detected(&[0xff, 0xfe, 0, 1, 2]),
            "test: not a capture file: begins with bytes ff fe 00 01 02; expected pcap or pcapng"
        );
        assert_eq!(detected(&[0]), "test: not a capture file: begins with bytes 00; expected pcap or pcapng");
    }

    #[test]
    fn known_formats_are_named_with_a_remedy() {
        assert_eq!(
            detected(b"snoop\0\0\0\0\0\0\x02\0\0\0\x04"),
            "test: not a pcap or pcapng file but Solaris snoop; convert it with editcap -F pcapng"
        );
        assert_eq!(detected(b"BZh91AY&SY"), "test: not a pcap or pcapng file but bzip2; decompress it first");
        assert!(detected(&[0x34, 0xcd, 0xb2, 0xa1, 2, 0, 4, 0]).contains("modified pcap"));
        let erf = [0, 0, 0, 0, 0, 0, 0, 0x50, 21, 4, 0, 60, 0, 0, 0, 40, 0xff];
        assert!(detected(&erf).contains("perhaps an Endace ERF file"));
    }

    #[test]
    fn text_may_be_cut_within_a_character() {
        let text = "naïve ".repeat(11);
        assert!(text.as_bytes().get(..DETECTION_BYTES).is_some());
        assert!(detected(text.as_bytes()).contains("begins with \"naïve"));
    }
}
