//! Pairs of the rules in `rules/header.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
