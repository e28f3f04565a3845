//! Possible values of generated fields: a comparison with any other word would silently select nothing.

use nfsrdma_conformance::{RULES, ReportedFindingSeverity};
use nfsrdma_dissectors::field::FlagName;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::v4::{CbOperationNumber, OperationNumber};
use nfsrdma_dissectors::rpc::{AcceptStat, Program, RejectStat};
use nfsrdma_dissectors::rpcrdma::{Dialect, RpcRdma1ErrCode, version2};
use nfsrdma_dissectors::xdr::Xdr;
use nfsrdma_flow::transaction::{ConnectionTransport, PossibleRecovery};

use super::catalog::FilterFieldCatalog;
use super::derived_fields::GeneratedField;
use super::procedure_number_fields;

const STATUSES: [&str; 8] = [
    field_names::NFS_STATUS2,
    field_names::NFS_STATUS3,
    field_names::NFS_NFSSTAT4,
    field_names::MOUNT_STATUS,
    field_names::NLM_STAT,
    field_names::NLM_TEST_STAT_STAT,
    field_names::RQUOTA_STATUS,
    field_names::STAT_STAT_RES_RES,
];

fn names(named_values: &[FlagName]) -> impl Iterator<Item = String> {
    named_values.iter().map(|(_, name)| (*name).to_owned())
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns every value of a generated field, once; `None` if it can be any text. Values without names are numbers,
/// which are not listed.
pub(super) fn possible_values(field: GeneratedField, catalog: &FilterFieldCatalog) -> Option<Vec<String>> {
    let procedures = || procedure_number_fields::all().iter().flat_map(|field| names(&field.names));
    let mut words: Vec<String> = match field {
        GeneratedField::Program => names(Program::NAMES).collect(),
        GeneratedField::Procedure => procedures().collect(),
        GeneratedField::Operation => {
            procedures().chain(names(OperationNumber::NAMES)).chain(names(CbOperationNumber::NAMES)).collect()
        }
        GeneratedField::Status => {
            let fields = STATUSES.iter().filter_map(|name| catalog.get(name));
            fields.flat_map(|field| names(&field.names)).collect()
        }
        GeneratedField::RpcStatus => {
            let codes = names(RpcRdma1ErrCode::NAMES).chain(names(version2::RpcRdma2ErrCode::NAMES));
            let rdma = codes.map(|code| format!("RDMA_ERROR:{code}"));
            names(AcceptStat::NAMES).chain(names(RejectStat::NAMES)).chain(rdma).collect()
        }
        GeneratedField::Transport => ConnectionTransport::ALL.iter().map(ConnectionTransport::to_string).collect(),
        GeneratedField::Direction => to_strings(&["forward", "reverse"]),
        GeneratedField::Dialect => to_strings(&Dialect::ALL.map(Dialect::key)),
        GeneratedField::ChunkKind => to_strings(&["read", "write", "reply"]),
        GeneratedField::CallDelivered | GeneratedField::ReplyDelivered => to_strings(&["acknowledged", "assumed"]),
        GeneratedField::Finding => RULES.iter().map(|rule| rule.id.to_owned()).collect(),
        GeneratedField::FindingSeverity => to_strings(&ReportedFindingSeverity::ALL.map(ReportedFindingSeverity::name)),
        GeneratedField::FindingSide => to_strings(&["client", "server"]),
        GeneratedField::CallLostCopy => to_strings(&["certain", "possible"]),
        GeneratedField::PossibleRecovery => to_strings(&PossibleRecovery::KEYS),
        GeneratedField::MpaCrc => to_strings(&["good", "bad", "absent", "unknown"]),
        _ => return None,
    };
    words.sort_unstable();
    words.dedup();
    Some(words)
}

/// Returns `true` if a word is the number of a value without a name.
pub(super) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generated_field_of_words_has_possible_values() {
        let words = |field: &GeneratedField| possible_values(*field, FilterFieldCatalog::shared());
        let all: Vec<_> = GeneratedField::ALL.iter().filter_map(words).collect();
        assert_eq!(all.len(), 17);
        for words in all {
            let is_capital = words.iter().any(|word| *word != word.to_ascii_lowercase());
            let as_written = |word: &String| {
                if is_capital { word.to_ascii_uppercase() } else { word.to_ascii_lowercase() }
            };
            assert!(words.iter().all(|word| *word == as_written(word)), "{words:?}");
        }
        assert_eq!(possible_values(GeneratedField::Path, FilterFieldCatalog::shared()), None);
    }

    #[test]
    fn possible_statuses_are_those_of_every_protocol() {
        let words = possible_values(GeneratedField::Status, FilterFieldCatalog::shared()).unwrap();
        for word in [
            "NFS_OK",
            "NFS3ERR_NOENT",
            "NFS4ERR_DELAY",
            "MNT3_OK",
            "LCK_GRANTED",
            "NLM4_DENIED_GRACE_PERIOD",
            "STAT_SUCC",
            "Q_OK",
        ] {
            assert!(words.iter().any(|known| known == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn operations_are_those_of_every_program() {
        let words = possible_values(GeneratedField::Operation, FilterFieldCatalog::shared()).unwrap();
        for word in ["READ", "MNT", "SEQUENCE", "READ_PLUS", "CB_RECALL", "CB_COMPOUND", "NM_LOCK", "GETPORT"] {
            assert!(words.iter().any(|known| known == word), "{word}");
        }
    }
}
