//! Name of a Call: its procedure, or the main operation of its COMPOUND.

/// Procedure or main operation of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallOperation {
    /// A procedure or an operation with a known name.
    Named(&'static str),
    /// A number without a known name.
    Number(u32),
}

impl CallOperation {
    /// Returns the operation of this number, whose name may be known.
    pub(super) fn new((name, number): (Option<&'static str>, u32)) -> Self {
        name.map_or(Self::Number(number), Self::Named)
    }
}
