//! Pairs of the rules in `rules/rpc.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
