//! RPC: RFC 5531, and retransmission as NFS restricts it.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
