//! The execution of a Call by its program and version.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::rpc::{
    self, AcceptStat, MismatchInfo, ProgMismatchInfo, Program, RejectedReply, ReplyData, RpcMsg, RpcMsgBody,
};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Xdr};

use super::mock_server::MockServer;
use super::reply::{MockReply, MockReplyBuffers, accepted};
use super::{auxiliary_programs, v3, v4};

impl MockServer {
    /// Executes a Call. A message that is not a Call, or cannot be decoded, gets an answer too.
    pub fn call(&mut self, mut cursor: Cursor<'_>, reply: &mut MockReply) {
        reply.data.clear();
        let mut encoder = Encoder::reusing(std::mem::take(&mut reply.message));
        let call_bytes = cursor.rest();
        let message = RpcMsg::decode(&mut cursor, &mut NullFieldObserver);
        let call = message.as_ref().ok().and_then(|message| message.call().map(|call| (message.xid, call)));
        match call {
            Some((xid, call)) if call.rpcvers == rpc::VERSION => {
                if let Some(outside) = &self.tree.outside {
                    outside.check_call(call_bytes, call, cursor);
                }
                accepted(xid, ReplyData::Success).encode(&mut encoder);
                let mut buffers = MockReplyBuffers { encoder: &mut encoder, data: &mut reply.data };
                if let Err(refusal) = self.dispatch(call, &mut cursor, &mut buffers) {
                    reply.data.clear();
                    encoder = Encoder::reusing(encoder.finish().0);
                    accepted(xid, refusal).encode(&mut encoder);
                }
            }
            Some((xid, _)) => {
                let versions = MismatchInfo { low: rpc::VERSION, high: rpc::VERSION };
                let reply = rpc::ReplyBody::Denied(RejectedReply::RpcMismatch(versions));
                RpcMsg { xid, body: RpcMsgBody::Reply(reply) }.encode(&mut encoder);
            }
            None => {
                let xid = message.map_or(rpc::Xid(0), |message| message.xid);
                accepted(xid, ReplyData::Failed(AcceptStat::GARBAGE_ARGS)).encode(&mut encoder);
            }
        }
        (reply.message, reply.splices) = encoder.finish();
        self.record_files();
    }

    fn dispatch(
        &mut self,
        call: &rpc::CallBody<'_>,
        cursor: &mut Cursor<'_>,
        buffers: &mut MockReplyBuffers<'_>,
    ) -> Result<(), ReplyData> {
        self.caller.set_from(&call.cred);
        let is_known = Procedure::from_numbers(call.prog, call.vers, call.proc).is_some();
        let result = match (call.prog, call.vers) {
            (Program::NFS, 3 | 4) | (Program::PORTMAP, 2) | (Program::MOUNT, 3) | (Program::NLM, 4) if !is_known => {
                Err(AcceptStat::PROC_UNAVAIL)
            }
            (Program::NFS, 3) => v3::call(self, call.proc, cursor, buffers),
            (Program::NFS, 4) => v4::call(self, call.proc, cursor, buffers),
            (Program::PORTMAP, 2) => auxiliary_programs::port_mapper(self, call.proc, cursor, buffers),
            (Program::MOUNT, 3) => auxiliary_programs::mount(self, call.proc, cursor, buffers),
            (Program::NLM, 4) => auxiliary_programs::nlm(self, call.proc, cursor, buffers),
            (Program::NFS, _) => {
                return Err(ReplyData::ProgMismatch(ProgMismatchInfo { low: 3, high: 4 }));
            }
            _ => Err(AcceptStat::PROG_UNAVAIL),
        };
        result.map_err(ReplyData::Failed)
    }
}
