//! Pairs of the rules in `rules/callbacks.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
