//! Sessions and slots: RFC 8881 sections 2.10.6, 18.36 and 18.46.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
