//! Pairs of the rules in `rules/perf.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
