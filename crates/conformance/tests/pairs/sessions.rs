//! Pairs of the rules in `rules/sessions.rs`.

use crate::Pair;

pub(crate) const PAIRS: &[Pair] = &[];
