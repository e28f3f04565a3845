//! Reverse-direction operation: RFC 8167, RFC 8267 section 6.5.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
