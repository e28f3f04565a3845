//! RPCSEC_GSS with RPC-over-RDMA: RFC 8166 section 8.2.2.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
