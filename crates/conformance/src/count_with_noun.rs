//! Counts with their nouns in the texts of findings.

use std::fmt::{self, Display};

/// Count with its noun in singular or plural, without separators: `1 byte`, `4096 bytes`.
pub(crate) struct Count<N>(pub(crate) N, pub(crate) &'static str);

impl<N: Display + PartialEq + From<u8>> Display for Count<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == N::from(1) { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let texts = [0_u8, 1, 2].map(|count| Count(count, "Read chunk").to_string());
        assert_eq!(texts, ["0 Read chunks", "1 Read chunk", "2 Read chunks"]);
        assert_eq!(Count(4096_usize, "byte").to_string(), "4096 bytes");
    }
}
