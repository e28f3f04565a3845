//! Pairs of the rules in `rules/nfs.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
