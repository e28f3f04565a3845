//! Answers of a run to Calls of the server: NFSv4 callbacks and NULL.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::StatusUnion;
use nfsrdma_dissectors::nfs::v4::{
    Bitmap4, CbArgs, CbCompoundCall, CbCompoundReply, CbResults, CbSequence4Resok, CompoundReplyHead, Fattr4,
    Getattr4Resok, Nfsstat4,
};
use nfsrdma_dissectors::rpc::auth::{AuthNoneVerifier, AuthNoneVerifierBody};
use nfsrdma_dissectors::rpc::{self, AcceptStat, AcceptedReply, ReplyData, RpcMsg, RpcMsgBody, Verifier};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text, Void, Xdr};

/// Maximum number of operations of a callback that are answered.
const MAX_OPERATIONS: usize = 64;

/// Source of the requested attributes of a file, as mask words and values.
pub(super) type CallbackAttributeSource<'t> = dyn FnMut(&[u8], &Bitmap4<'_>) -> Option<(Vec<u32>, Vec<u8>)> + 't;

/// Returns the answer to a Call; `None` if the message is not a Call. Appends the names of its operations to `names`.
/// `query` returns the attributes for CB_GETATTR.
pub(super) fn answer_callback(
    message: &[u8],
    names: &mut Vec<&'static str>,
    query: &mut CallbackAttributeSource<'_>,
) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(message);
    let callback_message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
    let call = callback_message.call()?;
    let accepted = |reply_data| {
        let verf = Verifier::None(AuthNoneVerifier { body: AuthNoneVerifierBody::default() });
        let reply = rpc::ReplyBody::Accepted(AcceptedReply { verf, reply_data });
        let mut encoder = Encoder::new();
        RpcMsg { xid: callback_message.xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
        encoder
    };
    let without_results = |reply_data| Some(accepted(reply_data).finish().0);
    match call.proc {
        0 => {
            names.push("CB_NULL");
            return without_results(ReplyData::Success);
        }
        1 => {}
        _ => return without_results(ReplyData::Failed(AcceptStat::PROC_UNAVAIL)),
    }
    let Ok(call) = CbCompoundCall::decode(&mut cursor, &mut NullFieldObserver) else {
        return without_results(ReplyData::Failed(AcceptStat::GARBAGE_ARGS));
    };
    let operations: Vec<_> = call.operations().take(MAX_OPERATIONS).map_while(Result::ok).collect();
    let query: Vec<_> = operations
        .iter()
        .map(|operation| match operation {
            CbArgs::CB_GETATTR(args) => query(args.fh.0, &args.attr_request),
            _ => None,
        })
        .collect();
    let mut results = Vec::new();
    for (operation, query) in operations.iter().zip(&query) {
        names.push(operation.operation().name());
        results.push(match query {
            Some((words, values)) => CbResults::CB_GETATTR(StatusUnion::Ok(Getattr4Resok {
                obj_attributes: Fattr4::new(Bitmap4::from(&words[..]), Opaque(values)),
            })),
            None => callback_result(operation),
        });
    }
    let status = results.last().map_or(Nfsstat4::NFS4_OK, CbResults::status);
    let mut encoder = accepted(ReplyData::Success);
    CbCompoundReply::new(CompoundReplyHead { status, tag: Text(b"") }, &results).encode(&mut encoder);
    Some(encoder.finish().0)
}

fn callback_result(operation: &CbArgs<'_>) -> CbResults<'static> {
    let ok = || StatusUnion::Ok(Void);
    match operation {
        CbArgs::CB_SEQUENCE(args) => CbResults::CB_SEQUENCE(StatusUnion::Ok(CbSequence4Resok {
            csr_sessionid: args.csa_sessionid,
            csr_sequenceid: args.csa_sequenceid,
            csr_slotid: args.csa_slotid,
            csr_highest_slotid: args.csa_highest_slotid,
            csr_target_highest_slotid: args.csa_highest_slotid,
        })),
        CbArgs::CB_GETATTR(_) => CbResults::CB_GETATTR(StatusUnion::Fail(Nfsstat4::NFS4ERR_BADHANDLE, Void)),
        CbArgs::CB_RECALL(_) => CbResults::CB_RECALL(ok()),
        CbArgs::CB_LAYOUTRECALL(_) => {
            CbResults::CB_LAYOUTRECALL(StatusUnion::Fail(Nfsstat4::NFS4ERR_NOMATCHING_LAYOUT, Void))
        }
        CbArgs::CB_NOTIFY(_) => CbResults::CB_NOTIFY(ok()),
        CbArgs::CB_PUSH_DELEG(_) => CbResults::CB_PUSH_DELEG(StatusUnion::Fail(Nfsstat4::NFS4ERR_NOTSUPP, Void)),
        CbArgs::CB_RECALL_ANY(_) => CbResults::CB_RECALL_ANY(ok()),
        CbArgs::CB_RECALLABLE_OBJ_AVAIL(_) => CbResults::CB_RECALLABLE_OBJ_AVAIL(ok()),
        CbArgs::CB_RECALL_SLOT(_) => CbResults::CB_RECALL_SLOT(ok()),
        CbArgs::CB_WANTS_CANCELLED(_) => CbResults::CB_WANTS_CANCELLED(ok()),
        CbArgs::CB_NOTIFY_LOCK(_) => CbResults::CB_NOTIFY_LOCK(ok()),
        CbArgs::CB_NOTIFY_DEVICEID(_) => CbResults::CB_NOTIFY_DEVICEID(ok()),
        CbArgs::CB_OFFLOAD(_) => CbResults::CB_OFFLOAD(ok()),
        CbArgs::CB_ILLEGAL(_) => CbResults::CB_ILLEGAL(StatusUnion::Fail(Nfsstat4::NFS4ERR_OP_ILLEGAL, Void)),
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{
        Attribute, CbCompoundCallHead, CbGetattr4Args, CbSequence4Args, mask_and_values,
    };
    use nfsrdma_dissectors::rpc::Xid;
    use nfsrdma_dissectors::xdr::XdrArray;

    use super::*;

    fn call(procedure: u32) -> Encoder {
        let words = [9, 0, 2, 0x4000_0000, 1, procedure, 0, 0, 0, 0];
        let mut encoder = Encoder::new();
        words.iter().for_each(|word| encoder.word(*word));
        encoder
    }

    #[test]
    fn rfc8881_section_20_9_cb_sequence_is_answered_with_its_own_slot_and_cb_recall_is_taken() {
        let sequence = CbArgs::CB_SEQUENCE(CbSequence4Args {
            csa_sessionid: [5; 16],
            csa_sequenceid: 3,
            csa_slotid: 1,
            csa_highest_slotid: 2,
            csa_cachethis: false,
            csa_referring_call_lists: XdrArray::default(),
        });
        let mut encoder = call(1);
        let head = CbCompoundCallHead { tag: Text(b""), minorversion: 1, callback_ident: 0 };
        CbCompoundCall::new(head, &[sequence]).encode(&mut encoder);
        let mut names = Vec::new();
        let bytes = answer_callback(&encoder.finish().0, &mut names, &mut |_, _| None).unwrap();
        assert_eq!(names, ["CB_SEQUENCE"]);
        let mut cursor = Cursor::new(&bytes);
        let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(message.xid, Xid(9));
        let reply = CbCompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(reply.head.status, Nfsstat4::NFS4_OK);
        let results: Vec<_> = reply.operations().map(Result::unwrap).collect();
        let [CbResults::CB_SEQUENCE(StatusUnion::Ok(given))] = &results[..] else { panic!("{results:?}") };
        assert_eq!((given.csr_sessionid, given.csr_sequenceid, given.csr_slotid), ([5; 16], 3, 1));
    }

    #[test]
    fn rfc8881_section_20_1_cb_getattr_is_answered_with_known_attributes() {
        let (words, values) = mask_and_values(&[Attribute::SIZE(512)]);
        let getattr =
            CbArgs::CB_GETATTR(CbGetattr4Args { fh: Opaque(b"delegated"), attr_request: Bitmap4::from(&words[..]) });
        let mut encoder = call(1);
        let head = CbCompoundCallHead { tag: Text(b""), minorversion: 1, callback_ident: 0 };
        CbCompoundCall::new(head, &[getattr]).encode(&mut encoder);
        let message = encoder.finish().0;
        let answered = |is_known: bool| {
            let known = (words.clone(), values.clone());
            let mut query =
                |handle: &[u8], _: &Bitmap4<'_>| (is_known && handle == b"delegated").then(|| known.clone());
            let bytes = answer_callback(&message, &mut Vec::new(), &mut query).unwrap();
            let mut cursor = Cursor::new(&bytes);
            RpcMsg::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            let reply = CbCompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
            (reply.head.status, cursor.rest().to_vec(), bytes.len())
        };
        let (status, rest, _) = answered(true);
        // The number of the operation, NFS4_OK, one word of the mask, and eight bytes of the size. RFC 8881 section
        // 20.1.2.
        let expected = [3u32, 0, 1, 0x10, 8, 0, 512].map(u32::to_be_bytes).concat();
        assert_eq!((status, rest), (Nfsstat4::NFS4_OK, expected));
        assert_eq!(answered(false).0, Nfsstat4::NFS4ERR_BADHANDLE);
    }

    #[test]
    fn null_is_answered_and_unknown_procedures_are_unavailable() {
        let mut names = Vec::new();
        assert_eq!(answer_callback(&call(0).finish().0, &mut names, &mut |_, _| None).unwrap().len(), 24);
        let refused = answer_callback(&call(7).finish().0, &mut names, &mut |_, _| None).unwrap();
        assert_eq!(refused[20..], 3u32.to_be_bytes());
        assert_eq!(answer_callback(b"no call", &mut names, &mut |_, _| None), None);
    }
}
