//! Objects of a step's operations, by the variables of their filehandles.

use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::nfs::v3;
use nfsrdma_dissectors::nfs::v4::Operation;

use super::reply_attribute_values::AttributeSubject;
use crate::run::call_operations_and_files::CallOperationsAndFiles;
use crate::run::reply_check::reply_pair::{ReplyCheckStepContext, ReplyPair};
use crate::trace::step::{NONE, TraceSlotValueKind};

pub(super) struct OperationFilehandleVariables<'a> {
    pub(super) is_v3: bool,
    files: &'a [u32],
    call: &'a CallOperationsAndFiles,
    is_commit: bool,
    call_handles: [u32; 2],
    reply_handle: u32,
}

impl<'a> OperationFilehandleVariables<'a> {
    pub(super) fn from_step(replies: &ReplyPair<'a>, context: &ReplyCheckStepContext<'a>) -> Option<Self> {
        let is_v3 = match replies.procedure? {
            Procedure::V3(_) => true,
            Procedure::Compound => false,
            _ => return None,
        };
        let [mut called, mut returned] = context.slots.map(|slots| {
            let handles = slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE);
            handles.map(|slot| slot.variable)
        });
        Some(Self {
            is_v3,
            files: replies.files,
            call: context.parts,
            is_commit: replies.procedure == Some(Procedure::V3(v3::Procedure::COMMIT)),
            call_handles: [called.next().unwrap_or(NONE), called.next().unwrap_or(NONE)],
            reply_handle: returned.next().unwrap_or(NONE),
        })
    }

    pub(super) fn file_variable(&self, index: Option<usize>) -> u32 {
        index.and_then(|index| self.files.get(index)).copied().unwrap_or(NONE)
    }

    /// Returns the variable of an object of the operation with this index.
    pub(super) fn subject(&self, subject: AttributeSubject, index: usize) -> u32 {
        match (subject, self.is_v3) {
            (AttributeSubject::ReplyHandle, true) => self.reply_handle,
            (AttributeSubject::CallHandle(1), true) => self.call_handles[1],
            (_, true) => self.call_handles[0],
            (AttributeSubject::Parent, false) => self.call.current_file(index),
            (AttributeSubject::Saved, false) => self.call.saved_file(index),
            (_, false) => self.file_variable(Some(index)),
        }
    }

    /// Returns the second object: for NFSv3 that of the second filehandle, for NFSv4 the saved one.
    pub(super) fn second_object(&self, index: usize) -> u32 {
        self.subject(if self.is_v3 { AttributeSubject::CallHandle(1) } else { AttributeSubject::Saved }, index)
    }

    pub(super) fn is_commit(&self, operation: Option<Operation>) -> bool {
        self.is_commit || operation == Some(Operation::COMMIT)
    }
}
