//! Operation of a Call: its procedure, or the main operation of its COMPOUND.

use nfsrdma_dissectors::nfs::v4;

/// Procedure or main operation of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcedureOrMainOperation {
    /// A procedure or an operation with a known name.
    Named(&'static str),
    /// A number without a known name.
    Number(u32),
}

/// Main operation of a COMPOUND or CB_COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainOperation {
    /// An operation of COMPOUND.
    Operation(v4::OperationNumber),
    /// An operation of CB_COMPOUND.
    Callback(v4::CbOperationNumber),
}

impl From<MainOperation> for ProcedureOrMainOperation {
    fn from(operation: MainOperation) -> Self {
        let (name, number) = match operation {
            MainOperation::Operation(operation) => (operation.name(), operation.0),
            MainOperation::Callback(operation) => (operation.name(), operation.0),
        };
        name.map_or(Self::Number(number), Self::Named)
    }
}
