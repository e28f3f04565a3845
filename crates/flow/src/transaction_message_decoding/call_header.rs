//! Fields of a Call header that decoding of arguments and results needs, also from a header that was cut.

use std::ops::Range;

use nfsrdma_dissectors::field::{FieldDefinition, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::auth::Flavor;
use nfsrdma_dissectors::rpc::gss::GssPayload;
use nfsrdma_dissectors::rpc::{self, Program};
use nfsrdma_dissectors::xdr::Cursor;

/// Fields of a Call header that are needed to decode arguments and results.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallBodyDecodeParameters {
    pub(super) program: Program,
    pub(super) version: u32,
    pub(super) procedure: u32,
    pub(super) payload: GssPayload,
}

impl CallBodyDecodeParameters {
    pub(super) fn from_call(call: &rpc::CallBody<'_>) -> Self {
        Self { program: call.prog, version: call.vers, procedure: call.proc, payload: call.cred.payload() }
    }

    pub(super) fn described_procedure(self) -> Option<Procedure> {
        Procedure::from_numbers(self.program, self.version, self.procedure)
    }
}

/// Collects fields of a Call header that is cut before its end.
#[derive(Default)]
pub(super) struct PartialCallHeader {
    pub(super) program: Option<Program>,
    pub(super) version: Option<u32>,
    pub(super) procedure: Option<u32>,
    flavor: Option<Flavor>,
}

impl PartialCallHeader {
    pub(super) fn decode(mut call: Cursor<'_>) -> Self {
        let mut header = Self::default();
        let _ = rpc::RpcMsg::decode(&mut call, &mut header);
        header
    }

    /// Returns the header, if the credential has a flavor that protects nothing.
    pub(super) fn plain_summary(&self) -> Option<CallBodyDecodeParameters> {
        let is_plain = matches!(self.flavor?, Flavor::AUTH_NONE | Flavor::AUTH_SYS);
        let (program, version, procedure) = (self.program?, self.version?, self.procedure?);
        is_plain.then_some(CallBodyDecodeParameters { program, version, procedure, payload: GssPayload::Plain })
    }
}

impl<'a> FieldObserver<'a> for PartialCallHeader {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}

    fn leave(&mut self, _: usize) {}

    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, value: FieldValue<'a>) {
        let (FieldValue::Unsigned(number) | FieldValue::Enum(number, _)) = value else { return };
        let word = number as u32;
        match field.name {
            field_names::RPC_PROGRAM => self.program = Some(Program(word)),
            field_names::RPC_PROGRAMVERSION => self.version = Some(word),
            field_names::RPC_PROCEDURE => self.procedure = Some(word),
            // The flavor of the verifier follows.
            field_names::RPC_AUTH_FLAVOR if self.flavor.is_none() => self.flavor = Some(Flavor(word)),
            _ => {}
        }
    }
}
