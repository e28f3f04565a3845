//! Pairs of the rules in `rules/read_chunks.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
