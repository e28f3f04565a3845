//! Pairs of the rules in `rules/rdmap.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
