//! Private data, remote invalidation, ports and dialects: RFC 8797, RFC 8267 section 6.3.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
