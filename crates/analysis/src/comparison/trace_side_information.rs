//! Extra knowledge about Transactions that come from a trace instead of a capture: hashes of file data that was not
//! kept, and filehandles that replace PUTROOTFH.

use nfsrdma_dissectors::nfs::v4::Operation;

use super::comparable_transaction_recorder::{ComparableTransactionRecorder, signature};
use super::difference::DifferenceKind;
use super::field_equality::{FieldEqualityRequirement, MappedIdentifierType};
use super::record::{ComparableMessage, ComparableTransaction, ComparedChunkKind, ComparedFieldValue};

/// Knowledge about file data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePayloadAvailability {
    /// The bytes are in the message.
    Bytes,
    /// Hash of the bytes.
    Hash(u128),
    /// Nothing is known.
    Unknown,
}

/// Knowledge about a record beyond the bytes of its Transaction.
#[derive(Clone, Debug, Default)]
pub struct TraceTransactionSideInformation {
    /// File data of the Call and of the Reply, in the order of each message: length in bytes, and knowledge.
    pub data: [Vec<(u64, TracePayloadAvailability)>; 2],
    /// Indices of operations of the Call, from 0, where a replay sent PUTFH instead of PUTROOTFH.
    pub roots: Vec<u32>,
}

impl TraceTransactionSideInformation {
    /// Applies the amendments to a record.
    pub fn apply(&self, record: &mut ComparableTransaction, recorder: &mut ComparableTransactionRecorder) {
        let [of_call, of_reply] = &self.data;
        for (message, data) in [(&mut record.call, of_call), (&mut record.reply, of_reply)] {
            if let Some(message) = message
                && data.iter().any(|(_, availability)| *availability != TracePayloadAvailability::Bytes)
            {
                replace_data(message, data);
            }
        }
        if !self.roots.is_empty() {
            self.apply_roots(record, recorder);
        }
    }

    /// Compares the PUTFH as the PUTROOTFH that was recorded.
    fn apply_roots(&self, record: &mut ComparableTransaction, recorder: &mut ComparableTransactionRecorder) {
        let name = recorder.word(Operation::PUTROOTFH.name());
        let mut shorter = 0;
        for operation in &self.roots {
            // The headers are the first section.
            let at = *operation as usize + 1;
            for message in [&mut record.call, &mut record.reply].into_iter().flatten() {
                if let Some(section) =
                    message.sections.get_mut(at).filter(|section| section.is_operation(Operation::PUTFH))
                {
                    section.name = name.clone();
                    let before = section.entries.len();
                    let is_handle = |requirement| {
                        requirement == FieldEqualityRequirement::Identity(MappedIdentifierType::Filehandle)
                    };
                    section.entries.retain(|entry| !is_handle(entry.path.class));
                    // The filehandle is a varying field; its length is the word before it.
                    if section.entries.len() < before {
                        message.varying += 4;
                        shorter += 4;
                    }
                }
            }
        }
        for chunk in &mut record.chunks {
            match &mut chunk.kind {
                ComparedChunkKind::Read(0, _) => chunk.varying += shorter,
                // Roots come before data.
                ComparedChunkKind::Read(_, varying) => *varying += shorter,
                _ => {}
            }
        }
        let [handle, root] = [Operation::PUTFH, Operation::PUTROOTFH].map(Operation::name);
        if record.title.split(' ').next_back() == Some(handle) {
            let renamed = |title: &str| format!("{}{root}", title.trim_end_matches(handle));
            record.title = recorder.word(&renamed(&record.title));
            record.class = recorder.word(&renamed(&record.class));
            record.signature = signature(&record.class);
        }
    }
}

fn replace_data(message: &mut ComparableMessage, data: &[(u64, TracePayloadAvailability)]) {
    let mut data = data.iter();
    for section in &mut message.sections {
        let is_plus = section.is_operation(Operation::READ_PLUS);
        for entry in section
            .entries
            .iter_mut()
            .filter(|entry| entry.path.class == FieldEqualityRequirement::Equal(DifferenceKind::Data))
        {
            let (ComparedFieldValue::Digest(length, _) | ComparedFieldValue::Unknown(length)) = entry.datum else {
                continue;
            };
            if is_plus {
                entry.datum = ComparedFieldValue::Unknown(length);
                continue;
            }
            match data.find(|(data_length, _)| *data_length == length) {
                Some((_, TracePayloadAvailability::Hash(hash))) => {
                    entry.datum = ComparedFieldValue::Digest(length, *hash)
                }
                Some((_, TracePayloadAvailability::Unknown)) => entry.datum = ComparedFieldValue::Unknown(length),
                Some((_, TracePayloadAvailability::Bytes)) | None => {}
            }
        }
    }
}
