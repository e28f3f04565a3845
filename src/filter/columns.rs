//! Fields whose values are shown: a filter gathers them beside those that it looks at.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Filter;
use super::catalog::{Catalog, Type};
use super::compile::Named;
use super::error::proposal;
use super::program::Node;
use super::value::{Slot, Value};

/// A field that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    pub(super) slot: Slot,
}

/// A value of it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'v>(pub(super) Value<'v>);

/// A value, as far as showing it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plain<'v> {
    /// A number.
    Number(i128),
    /// Yes or no.
    Bool(bool),
    /// Bytes.
    Bytes(&'v [u8]),
    /// Text, which may not be UTF-8.
    Text(&'v [u8]),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// Nanoseconds since 1970-01-01 00:00:00 UTC.
    Time(i128),
    /// Nanoseconds.
    Duration(i128),
    /// It is there, and nothing is known of it.
    Unknown,
}

impl<'v> Shown<'v> {
    /// Whether it is a value of this type: a structure that is called as a number or a time in it has its bytes, too.
    pub(super) fn fits(self, kind: Type) -> bool {
        let is_one_value = matches!(
            kind,
            Type::Unsigned
                | Type::Signed
                | Type::Boolean
                | Type::Enumeration
                | Type::Flags
                | Type::Time
                | Type::Duration
        );
        !(is_one_value && matches!(self.0, Value::Bytes(_)))
    }

    /// The value.
    pub fn plain(self) -> Plain<'v> {
        match self.0 {
            Value::Number(number) => Plain::Number(number),
            Value::Bool(value) => Plain::Bool(value),
            Value::Bytes(bytes) => Plain::Bytes(bytes),
            Value::Text(bytes) => Plain::Text(bytes),
            Value::Ipv4(address, _) => Plain::Ipv4(Ipv4Addr::from_bits(address)),
            Value::Ipv6(address, _) => Plain::Ipv6(Ipv6Addr::from_bits(address)),
            Value::Time(time) => Plain::Time(time),
            Value::Duration(duration) => Plain::Duration(duration),
            Value::Unknown => Plain::Unknown,
        }
    }
}

impl Filter {
    /// A filter that everything passes.
    pub fn everything() -> Self {
        Self { program: Node::And(Vec::new()), fields: Vec::new() }
    }

    /// Has it gather the values of these fields, too.
    ///
    /// # Errors
    /// A name that no field has.
    pub fn with_columns(mut self, names: &[String]) -> Result<(Self, Vec<Column>), String> {
        let catalog = Catalog::shared();
        let mut columns = Vec::new();
        for name in names {
            let Some(entry) = catalog.get(name) else {
                let near = catalog.nearest(name);
                return Err(format!("there is no field {name}{}", proposal(&near)));
            };
            // What has other fields in it is shown by its name.
            let has_value = !matches!(entry.kind, Type::Protocol | Type::Structure);
            let is_it = |field: &Named| field.name == entry.name && !field.is_search;
            let slot = match self.fields.iter().position(is_it) {
                Some(slot) => {
                    if let Some(field) = self.fields.get_mut(slot) {
                        field.has_value |= has_value;
                    }
                    slot
                }
                None => {
                    self.fields.push(Named {
                        name: entry.name,
                        origin: entry.origin.clone(),
                        has_value,
                        is_search: false,
                    });
                    self.fields.len() - 1
                }
            };
            columns.push(Column { name: entry.name, kind: entry.kind, slot });
        }
        Ok((self, columns))
    }
}
