//! Pairs of the rules in `rules/private_data.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
