//! Pairs of the rules in `rules/transport.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
