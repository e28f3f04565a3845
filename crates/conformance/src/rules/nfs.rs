//! NFS: RFC 8881, RFC 7862, RFC 8267.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
