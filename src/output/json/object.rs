//! JSON objects and lines of all reports.

use std::fmt;
use std::io::{self, Write};

use serde::ser::{Serialize, Serializer};

use crate::escape;

/// Version of the schema of the lines.
pub(crate) const SCHEMA: u32 = 1;

/// Creates a JSON object with these members, in this order: like `serde_json::json!`, but it keeps the order and
/// buffers nothing. `#[serde(flatten)]` before a member inserts the members of its object, or none if it is `None`.
macro_rules! json_object {
    ($($(#[$attribute:meta])* $key:ident: $value:expr),+ $(,)?) => {{
        // Each member has a type parameter of its own name.
        #[allow(non_camel_case_types)]
        mod object {
            #[derive(serde::Serialize)]
            pub(super) struct JsonObject<$($key),+> {
                $($(#[$attribute])* pub(super) $key: $key),+
            }
        }
        object::JsonObject { $($key: $value),+ }
    }};
}
pub(crate) use json_object;

/// Array of the items that a function iterates over.
pub(crate) struct JsonArray<F>(pub(crate) F);

impl<I: IntoIterator<Item: Serialize>, F: Fn() -> I> Serialize for JsonArray<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}

/// Object of the members that a function iterates over.
pub(crate) struct JsonMap<F>(pub(crate) F);

impl<K: Serialize, V: Serialize, I: IntoIterator<Item = (K, V)>, F: Fn() -> I> Serialize for JsonMap<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0())
    }
}

/// Value written as a JSON string.
pub(crate) struct DisplayAsJsonString<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for DisplayAsJsonString<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Writes an object as a line, in one write, so that no partial lines appear.
pub(crate) fn write_json_line(to: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut line = escape::json(object)?;
    line.push(b'\n');
    to.write_all(&line)
}
