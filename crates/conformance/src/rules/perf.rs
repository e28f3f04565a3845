//! Performance: nothing is broken, but something costs time. One finding per connection.

use crate::rule::Rule;

pub(crate) const RULES: &[Rule] = &[];
