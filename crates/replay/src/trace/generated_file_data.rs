//! File data generated from a key: the same bytes for the same file and offset, in every run and on every machine.
//!
//! A READ thus returns the data of the WRITE before it, however both split the file, and a trace need not hold any
//! data. A READ that returns stale data of the same range goes undetected.

/// Fills `out` with the bytes of a file from `offset`. Each eight bytes are SplitMix64 of key, file and offset.
pub fn fill(key: u64, file: u32, offset: u64, out: &mut [u8]) {
    let seed = splitmix64(key ^ u64::from(file).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let word = splitmix64(seed.wrapping_add(at / 8)).to_le_bytes();
        let word = word.get((at % 8) as usize..).unwrap_or_default();
        let length = word.len().min(rest.len());
        let (filled, remaining) = rest.split_at_mut(length);
        filled.copy_from_slice(word.get(..length).unwrap_or_default());
        at = at.wrapping_add(length as u64);
        rest = remaining;
    }
}

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
fn splitmix64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_file_is_the_same_however_it_is_cut_out() {
        let mut whole = [0; 64];
        fill(7, 3, 100, &mut whole);
        for (from, to) in [(0, 1), (3, 9), (5, 64), (8, 16), (63, 64)] {
            let mut piece = vec![0; to - from];
            fill(7, 3, 100 + from as u64, &mut piece);
            assert_eq!(piece, whole[from..to]);
        }
    }

    #[test]
    fn other_files_other_places_and_other_keys_have_other_bytes() {
        let of = |key, file, offset| {
            let mut bytes = [0; 16];
            fill(key, file, offset, &mut bytes);
            bytes
        };
        let one = of(1, 1, 0);
        assert!([of(2, 1, 0), of(1, 2, 0), of(1, 1, 16)].iter().all(|other| *other != one));
    }
}
