//! Pairs of the rules in `rules/gss.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
