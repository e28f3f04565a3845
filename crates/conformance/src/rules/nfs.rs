//! NFS: RFC 8881, RFC 7862, RFC 8267.

use nfsrdma_dissectors::enumerator_names;
use nfsrdma_dissectors::nfs::v4::{
    Attributes, BitNames, Bitmap4, CbArgs, CbOperationNumber, CbResults, Operation, StableHow4,
};
use nfsrdma_flow::transaction_message_decoding::{
    AttributeSet, COMPARED_OPERATIONS, UnknownLength, first_gap, is_less_stable, result_contradiction,
};
use nfsrdma_nfs_model::{Again, v4};

use super::prelude::*;
use crate::compound_operations_view::{CompoundOrCallbackOpcode, OperationSet, is_in_minor_version};

/// Operations whose results nfs/result-arguments compares with their arguments.
const COMPARED: OperationSet = OperationSet::of(&COMPARED_OPERATIONS);

/// Returns `true` if a second execution of the operation may fail or do harm, in minor version 0.
fn is_non_idempotent(operation: &Args<'_>) -> bool {
    matches!(v4::meaning(operation.operation()).again, Again::Fails(_) | Again::Differs)
}

/// Returns the seqids of the copy offload stateids with the side that sent each.
fn offload_stateids(
    transaction: &ConformanceTransaction<'_>,
) -> impl Iterator<Item = (&'static str, u32, EndpointRole)> {
    let (client, server) = (transaction.requester(), transaction.responder());
    transaction.operations.pairs().filter_map(move |pair| match pair {
        (Args::OFFLOAD_CANCEL(args), _) => Some((enumerator_names::OFFLOAD_CANCEL, args.oca_stateid.seqid, client)),
        (Args::OFFLOAD_STATUS(args), _) => Some((enumerator_names::OFFLOAD_STATUS, args.osa_stateid.seqid, client)),
        (_, Some(Results::COPY(copied))) => {
            let stateid = copied.ok()?.cr_response.wr_callback_id.iter().next()?;
            Some((enumerator_names::COPY, stateid.seqid, server))
        }
        _ => None,
    })
}

/// Returns `true` if the Call is not decoded to its end although it was captured: what was decoded of it is uncertain.
fn has_malformed_call(transaction: &ConformanceTransaction<'_>) -> bool {
    transaction.summary.decode_error(transaction.transaction, RpcMessageKind::Call).is_some()
}

/// An operation with the attributes that it asked for, and those that one of its results has.
type ReturnedAttributes = (CompoundOrCallbackOpcode, AttributeSet, AttributeSet);

/// Iterates over the sets of attributes in the results of GETATTR, READDIR and CB_GETATTR.
fn returned_attributes(transaction: &ConformanceTransaction<'_>) -> impl Iterator<Item = ReturnedAttributes> {
    let operations = transaction.operations;
    let fore = operations.pairs().filter_map(|pair| {
        let (operation, asked, masks) = match pair {
            (Args::GETATTR(args), Some(Results::GETATTR(result))) => {
                let mask = result.ok()?.obj_attributes.mask;
                (Operation::GETATTR, args.attr_request, (Some(mask), None))
            }
            (Args::READDIR(args), Some(Results::READDIR(result))) => {
                let entries = result.ok()?.reply.entries.iter().map(|entry| entry.attrs.mask);
                (Operation::READDIR, args.attr_request, (None, Some(entries)))
            }
            _ => return None,
        };
        let masks = masks.0.into_iter().chain(masks.1.into_iter().flatten());
        Some(masks.map(move |mask: Bitmap4<'_>| (CompoundOrCallbackOpcode::Fore(operation.number()), asked, mask)))
    });
    let callbacks = operations.callback_arguments.iter().zip(operations.callback_results);
    let back = callbacks.filter_map(|pair| match pair {
        (CbArgs::CB_GETATTR(args), CbResults::CB_GETATTR(result)) => {
            let number = CompoundOrCallbackOpcode::Back(CbOperationNumber::CB_GETATTR);
            Some((number, args.attr_request, result.ok()?.obj_attributes.mask))
        }
        _ => None,
    });
    fore.flatten()
        .chain(back)
        .map(|(number, asked, returned)| (number, AttributeSet::new(&asked), AttributeSet::new(&returned)))
}

/// Returns `None` for a Transaction without a COMPOUND whose results are known.
fn status_of_results(transaction: &ConformanceTransaction<'_>) -> Option<Nfsstat4> {
    transaction.operations.status.filter(|_| transaction.operations.result_count > 0)
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "nfs/compound-status",
        section: "RFC 7530 section 15.2.4, RFC 8881 sections 16.2.3 and 19.2.3",
        requirement: "The status of a COMPOUND or CB_COMPOUND is that of its last result.",
        explanation: "A client that looks at the status alone takes a failure for a success, or the other way round. \
            Example: a LOOKUP finds nothing, and the COMPOUND reports another error: \"COMPOUND NFS4ERR_IO, last result \
            NFS4ERR_NOENT\".",
        subjects: &[RequiredMessageProperty::Compound],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(|transaction| {
            let status = status_of_results(transaction)?;
            let operations = &transaction.operations;
            if !operations.has_all_results {
                return Some(RuleVerdict::Unknown);
            }
            let (_, last) = operations.outcomes().next_back()?;
            // See rpc/undefined-result.
            status.name()?;
            Some(
                RuleVerdict::from_condition(last == status, || format!("COMPOUND {status}, last result {last}"))
                    .at_field(field_names::NFS_NFSSTAT4),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/result-after-failure",
        section: "RFC 7530 section 15.2.4, RFC 8881 sections 16.2.3 and 19.2.4",
        requirement: "A Responder stops at the first operation of a COMPOUND or CB_COMPOUND that fails: its result is the last.",
        explanation: "Later operations rely on the failed one, such as the current filehandle of LOOKUP: they may have \
            changed another file. Example: a LOOKUP fails, and GETATTR has a result: \"LOOKUP returned NFS4ERR_NOENT, result \
            2 of 3\".",
        subjects: &[RequiredMessageProperty::Compound],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(|transaction| {
            status_of_results(transaction)?;
            let operations = &transaction.operations;
            let before_last = (operations.result_count as usize).saturating_sub(1);
            let results = operations.outcomes().take(before_last).enumerate();
            let mut failed = results.filter(|(_, (_, status))| *status != Nfsstat4::NFS4_OK);
            Some(match failed.next() {
                Some((at, (name, status))) => RuleVerdict::broken({
                    let count = operations.result_count;
                    format!("{name} returned {status}, result {} of {count}", at + 1)
                }),
                None if operations.decoded_results() < before_last => RuleVerdict::Unknown,
                None => RuleVerdict::Kept,
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/result-count",
        section: "RFC 7530 section 15.2.4, RFC 8881 sections 16.2.3 and 19.2.3",
        requirement: "A COMPOUND or CB_COMPOUND has no more results than operations, and none with \
            NFS4ERR_MINOR_VERS_MISMATCH.",
        explanation: "The reply belongs to another call, or the Responder adds results: its peer cannot decode them. Too few \
            results of a successful COMPOUND break rpc/wrong-result. Example: a call with PUTROOTFH alone gets the \
            results of two operations: \"2 results of 1 operation\".",
        subjects: &[RequiredMessageProperty::Compound],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            (operations.tag.is_some() && operations.status.is_some()).then_some(())?;
            if has_malformed_call(transaction) {
                return Some(RuleVerdict::Unknown);
            }
            let (results, operation_count) = (operations.result_count, operations.operation_count);
            let is_mismatch = operations.status == Some(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
            let highest = if is_mismatch { 0 } else { operation_count };
            super::sessions::unless_false_retry(
                transaction,
                RuleVerdict::from_condition(results <= highest, || {
                    let mismatch = if is_mismatch { " with NFS4ERR_MINOR_VERS_MISMATCH" } else { "" };
                    format!(
                        "{results} of {operations}{mismatch}",
                        results = CountWithNoun(results, "result"),
                        operations = CountWithNoun(operation_count, "operation")
                    )
                }),
            )
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/result-operation",
        section: "RFC 7530 section 15.2.4, RFC 8881 sections 16.2.2, 16.2.3, 19.2.2 and 19.2.3",
        requirement: "The k-th result of a COMPOUND or CB_COMPOUND is of the k-th operation, or ILLEGAL.",
        explanation: "The client decodes the result of another operation. Most clients then return an I/O error. Example: \
            the call has PUTROOTFH, and its result has the number of PUTPUBFH: \"result of PUTPUBFH for PUTROOTFH\".",
        subjects: &[RequiredMessageProperty::Compound],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            let results = operations.outcomes().map(|(number, _)| number);
            let mut pairs = operations.numbers().zip(results);
            let undecoded_operation = operations.numbers().nth(operations.decoded_results());
            // Bytes that are not a result rarely begin with the number of an operation.
            let undecoded = operations.undecoded_result.filter(|number| number.name().is_some());
            let undecoded = undecoded_operation.zip(undecoded).filter(|(operation, result)| operation != result);
            if undecoded.is_none() {
                operations.outcomes().next()?;
            }
            operations.numbers().next()?;
            if has_malformed_call(transaction) {
                return Some(RuleVerdict::Unknown);
            }
            let mismatch = pairs.find(|(operation, result)| operation != result && !result.is_illegal());
            let fault = mismatch.or(undecoded).map(|(operation, result)| format!("result of {result} for {operation}"));
            super::sessions::unless_false_retry(transaction, RuleVerdict::from_fault(fault))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/tag",
        severity: Severity::Warning,
        section: "RFC 7530 section 15.2.4, RFC 8881 sections 16.2.3 and 19.2.3",
        requirement: "The tag of the results of a COMPOUND or CB_COMPOUND is that of its call.",
        explanation: "The tag has no other purpose than to help people who read captures. Example: a client sends an empty \
            tag: \"tag \"other\", \"\" in the call\".",
        subjects: &[RequiredMessageProperty::Compound],
        suspects: &[RequiredMessageProperty::UnusualCompound],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            let (sent, returned) = (operations.tag?, operations.reply_tag?);
            if has_malformed_call(transaction) {
                return Some(RuleVerdict::Unknown);
            }
            let text = || format!("tag {returned:?}, {sent:?} in the call");
            Some(RuleVerdict::from_condition(sent.0 == returned.0, text).at_field(field_names::NFS_TAG))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/unrequested-attrs",
        section: "RFC 7530 section 16.7.4, RFC 8881 sections 18.7.3 and 18.23.3",
        requirement: "GETATTR, READDIR and CB_GETATTR return no attributes but those that the call requests.",
        explanation: "The reply belongs to another call, or the client decodes values that it did not expect: many clients \
            return an I/O error. The status of the transaction is \"wrong result\". A server may answer a call that breaks \
            nfs/false-retry in this way. Example: a client requests the type of a file, and gets its size, too: \"GETATTR \
            returned size, which the call does not request\".",
        subjects: &[RequiredMessageProperty::Compound],
        check: RuleCheck::Transaction(|transaction| {
            let verdict = RuleVerdict::of_items(returned_attributes(transaction), |(number, asked, returned)| {
                let attribute = asked.first_other(returned)?;
                let name = Attributes::name(attribute).map_or_else(|| format!("attribute {attribute}"), str::to_owned);
                Some(format!("{number} returned {name}, which the call does not request"))
            })?;
            if has_malformed_call(transaction) {
                return Some(RuleVerdict::Unknown);
            }
            super::sessions::unless_false_retry(transaction, verdict.at_field(field_names::NFS_ATTR_MASK))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/reserved-op",
        section: "RFC 8881 section 17, RFC 7862 section 14.2, RFC 8178 section 4.4.2",
        requirement: "A server refuses operations that are not of the minor version of the COMPOUND.",
        explanation: "SETCLIENTID and RENEW are of minor version 0 alone, SEQUENCE begins with 1, COPY and extended \
            attributes with 2; GETDEVICELIST is gone in 2. The server answers NFS4ERR_OP_ILLEGAL or NFS4ERR_NOTSUPP. \
            Example: RENEW, which ends with minor version 0, succeeds in a session: \"RENEW accepted in minor version 1\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::ReservedOperation],
        needs: &[RequiredCaptureEvidence::BothMessages],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            let minor_version = operations.minor_version;
            let reserved =
                operations.pairs().filter(|(operation, _)| !is_in_minor_version(operation.operation(), minor_version));
            RuleVerdict::of_items(reserved, |(operation, result)| {
                let operation = operation.operation();
                let is_accepted = result
                    .is_some_and(|result| result.operation() == operation && result.status() == Nfsstat4::NFS4_OK);
                is_accepted.then(|| format!("{operation} accepted in minor version {minor_version}"))
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/read-count",
        section: "RFC 1094 section 2.2.7, RFC 1813 section 3.3.6, RFC 7530 section 16.23, RFC 8881 section 18.22",
        requirement: "READ returns no more bytes than its count.",
        explanation: "The client's buffer, or its Write chunk, has room for the count alone. Example: a client requests 7 \
            bytes, and the server rounds up to words: \"8 bytes read, count 7\".",
        subjects: &[RequiredMessageProperty::SuccessfulReadWrite],
        check: RuleCheck::Transaction(|transaction| {
            // rpcrdma/returned-too-much judges data that do not fit into the Write chunk.
            let mut segments = transaction.transaction.write_chunks.iter().flat_map(|chunk| &chunk.segments);
            if segments.any(|segment| segment.returned_length.is_some_and(|length| length > segment.length)) {
                return None;
            }
            let reads = transaction.file_accesses().iter().filter(|access| !access.is_write);
            RuleVerdict::of_items(reads, |read| {
                let text = || format!("{} read, count {}", CountWithNoun(read.done_bytes, "byte"), read.asked_bytes);
                (read.done_bytes > read.asked_bytes).then(text)
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/write-count",
        section: "RFC 1813 section 3.3.7, RFC 7530 section 16.36, RFC 8881 section 18.32",
        requirement: "WRITE writes no more bytes than it has.",
        explanation: "A client that advances by the returned count loses data. Example: a WRITE has 8 bytes of data: \"9 \
            bytes written of 8\".",
        subjects: &[RequiredMessageProperty::SuccessfulReadWrite],
        check: RuleCheck::Transaction(|transaction| {
            let writes = transaction.file_accesses().iter().filter(|access| access.is_write);
            let verdict = RuleVerdict::of_items(writes, |write| {
                let text = || format!("{} written of {}", CountWithNoun(write.done_bytes, "byte"), write.asked_bytes);
                (write.done_bytes > write.asked_bytes).then(|| (text(), write.done_bytes))
            })?;
            Some(verdict.at_field(if transaction.is_nfs4() {
                field_names::NFS_COUNT4
            } else {
                field_names::NFS_COUNT3
            }))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/write-committed",
        section: "RFC 1813 section 3.3.7, RFC 7530 section 16.36, RFC 8881 section 18.32.3",
        requirement: "WRITE commits the data at the level that the client requested, or at a higher one.",
        explanation: "The client does not send a COMMIT, because it requested stable data: a crash of the server loses them. \
            0 is UNSTABLE, 1 DATA_SYNC, 2 FILE_SYNC. Example: a WRITE asks for FILE_SYNC, and the server caches the data: \
            \"committed 0, stable 2\".",
        subjects: &[RequiredMessageProperty::SuccessfulReadWrite],
        check: RuleCheck::Transaction(|transaction| {
            // rpc/undefined-argument judges other levels.
            let is_defined = |access: &&SuccessfulReadWrite| StableHow4(access.stability[0]).name().is_some();
            let writes = transaction.file_accesses().iter().filter(|access| access.is_write).filter(is_defined);
            RuleVerdict::of_items(writes, |SuccessfulReadWrite { stability: [requested, committed], .. }| {
                is_less_stable(StableHow4(*requested), StableHow4(*committed))
                    .then(|| format!("committed {committed}, stable {requested}"))
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/read-plus",
        section: "RFC 7862 section 15.10.3",
        requirement: "The contents of READ_PLUS are contiguous in the file.",
        explanation: "The client fills the gap with old data or zeros. The first hole may begin before rpa_offset. Example: \
            a segment of data ends at 4,608, and a hole follows at 5,000: \"a content ends at 4608, the next begins at \
            5000\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::ReadPlus],
        check: RuleCheck::Transaction(|transaction| {
            let results = transaction.operations.results.iter().filter_map(|result| match result {
                Results::READ_PLUS(result) => result.ok(),
                _ => None,
            });
            let mut verdict = None;
            for result in results {
                match first_gap(result) {
                    Ok(Some((end, next))) => {
                        let text = format!("a content ends at {end}, the next begins at {next}");
                        return Some(RuleVerdict::broken(text));
                    }
                    Ok(None) => verdict = verdict.or(Some(RuleVerdict::Kept)),
                    Err(UnknownLength) => verdict = Some(RuleVerdict::Unknown),
                }
            }
            verdict
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/result-arguments",
        section: "RFC 7530 sections 16.10.4 and 16.11.4, RFC 8881 sections 18.10.3, 18.11.3, 18.34.3 and \
            18.48.3, RFC 7862 sections 15.2.3, 15.10.3 and 15.11.3",
        requirement: "The results of COPY, SEEK, READ_PLUS, TEST_STATEID, BIND_CONN_TO_SESSION, LOCK and LOCKT fit \
            their arguments.",
        explanation: "COPY and READ_PLUS return no more data than the client asked for, SEEK finds no offset before its own, \
            TEST_STATEID returns a status for each stateid, and a lock is denied by one that overlaps it. The reply belongs \
            to another call, or the server has an error. The status of the transaction is \"wrong result\". Example: a \
            client copies 100 bytes, and the server copied 5,000: \"COPY of 100 bytes copied 5000\".",
        subjects: &[RequiredMessageProperty::Compound],
        check: RuleCheck::Transaction(|transaction| {
            if !transaction.operations.has_any(COMPARED) {
                return None;
            }
            let pairs = transaction.operations.pairs().filter_map(|(operation, result)| Some((operation, result?)));
            let verdict = RuleVerdict::of_items(pairs, |(operation, result)| result_contradiction(operation, result))?;
            if has_malformed_call(transaction) {
                return Some(RuleVerdict::Unknown);
            }
            super::sessions::unless_false_retry(transaction, verdict)
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/copy-stateid",
        section: "RFC 7862 section 4.8",
        requirement: "The seqid of a copy offload stateid is not zero.",
        explanation: "Zero would stand for the most recent copy, but several may be under way on one file. The stateid is \
            invalid. Example: a client asks for the status of a copy with a stateid whose seqid it cleared: \"seqid 0 in the \
            copy offload stateid of OFFLOAD_STATUS\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::Offload],
        check: RuleCheck::Transaction(|transaction| {
            let mut stateids = offload_stateids(transaction).peekable();
            let (_, _, side) = *stateids.peek()?;
            let zero = stateids.find(|(_, seqid, _)| *seqid == 0);
            let side = zero.map_or(side, |(_, _, side)| side);
            let fault = zero.map(|(name, ..)| format!("seqid 0 in the copy offload stateid of {name}"));
            Some(RuleVerdict::from_fault(fault).by(side))
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/offload",
        severity: Severity::Info,
        section: "RFC 7862 sections 15.2.3 and 16.1",
        requirement: "Observation: a session ends before the result of an asynchronous COPY is reported.",
        explanation: "A server reports it with CB_OFFLOAD; a client may also ask with OFFLOAD_STATUS. Without a report, the \
            client does not know how much was copied. Look for a back channel that is down. Example: a client starts a COPY, \
            and unmounts before CB_OFFLOAD: \"no result of 1 of 1 asynchronous copies\".",
        subjects: &[RequiredMessageProperty::Compound],
        needs: &[RequiredCaptureEvidence::Session],
        check: RuleCheck::Transaction(|transaction| {
            let copies = transaction.ended_copies?;
            let (started, unreported) = (copies.started, copies.unreported);
            Some(match unreported {
                0 => RuleVerdict::Kept,
                _ if copies.has_gaps => RuleVerdict::Unknown,
                _ => RuleVerdict::broken(format!("no result of {unreported} of {started} asynchronous copies")),
            })
        }),
        ..Rule::DEFAULT
    },
    Rule {
        id: "nfs/acl-with-nonidempotent",
        severity: Severity::Info,
        section: "RFC 8267 section 6.2.1",
        requirement: "Observation: in minor version 0, a GETATTR of unpredictable length is beside a non-idempotent \
            operation.",
        explanation: "If the Reply chunk is too small for the ACL or fs_locations, the client must send the COMPOUND again, \
            although the server has executed its RENAME or REMOVE. Example: a COMPOUND removes a file, and reads the ACL of \
            its directory: \"GETATTR of acl or fs_locations beside REMOVE\".",
        subjects: &[RequiredMessageProperty::Compound, RequiredMessageProperty::MinorVersion0],
        check: RuleCheck::Transaction(|transaction| {
            let operations = &transaction.operations;
            if operations.minor_version != 0 || !transaction.transaction.connection.transport.is_rdma() {
                return None;
            }
            let is_unpredictable = |operation: &Args<'_>| match operation {
                Args::GETATTR(args) => {
                    args.attr_request.contains(Attributes::ACL) || args.attr_request.contains(Attributes::FS_LOCATIONS)
                }
                _ => false,
            };
            operations.arguments.iter().find(|operation| is_unpredictable(operation))?;
            let non_idempotent = operations.arguments.iter().find(|operation| is_non_idempotent(operation));
            let fault = non_idempotent
                .map(|operation| format!("GETATTR of acl or fs_locations beside {}", operation.operation()));
            Some(RuleVerdict::from_fault(fault).by(transaction.requester()))
        }),
        ..Rule::PER_CONNECTION
    },
    Rule {
        id: "nfs/aux-over-rdma",
        severity: Severity::Info,
        section: "RFC 8267 section 5.1",
        requirement: "Observation: MOUNT, NLM or NSM go over RDMA, not over TCP as usual.",
        explanation: "A server must offer them over TCP. Over RDMA, few implementations understand each other. Example: a \
            client asks for the root filehandle with MNT on its RDMA connection: \"MOUNT over RDMA\".",
        check: RuleCheck::Transaction(|transaction| {
            let program = transaction.summary.program?;
            if !transaction.transaction.connection.transport.is_rdma() {
                return None;
            }
            let is_auxiliary = matches!(program, Program::MOUNT | Program::NLM | Program::NSM);
            Some(
                RuleVerdict::from_condition(!is_auxiliary, || format!("{program} over RDMA"))
                    .by(transaction.requester()),
            )
        }),
        ..Rule::PER_CONNECTION
    },
];
