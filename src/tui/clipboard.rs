//! The terminal's clipboard, which may be on another machine than the program: OSC 52.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the control sequence that puts `text` on the terminal's clipboard.
pub(super) fn sequence(text: &str) -> Vec<u8> {
    let mut sequence = b"\x1b]52;c;".to_vec();
    for three in text.as_bytes().chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let six = (bits >> (18 - 6 * at) & 0x3f) as usize;
            let letter = LETTERS.get(six).copied().unwrap_or(b'=');
            sequence.push(if at <= three.len() { letter } else { b'=' });
        }
    }
    sequence.push(0x07);
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_in_base64() {
        // The test vectors of RFC 4648 section 10.
        for (text, base64) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            let expected = format!("\x1b]52;c;{base64}\x07");
            assert_eq!(sequence(text), expected.as_bytes());
        }
    }
}
