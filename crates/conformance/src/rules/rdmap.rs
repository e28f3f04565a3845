//! iWARP below RPC-over-RDMA: RFC 5040, RFC 5041, RFC 5044, RFC 6581.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
