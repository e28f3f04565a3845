//! RPC messages that are not inside RPC-over-RDMA: those of TCP and UDP, whose data is in the message. RFC 5531.

use crate::field::Unobserved;
use crate::flow::Meaning;
use crate::flow::account::Undecoded;
use crate::flow::ledger::{Key, SegmentAt};
use crate::flow::transaction::{MessageRecord, Which};
use crate::rdma::{Owner, Side};
use crate::rpc::{self, Program, Xid};
use crate::xdr::Cursor;

use super::{Before, Desk, Exchange, blank, rpc_type};

impl Exchange {
    /// Takes a message that `sender` sent. The owner is for the copies that may follow.
    pub(in crate::flow) fn bare(
        &mut self,
        desk: &mut Desk<'_>,
        sender: Side,
        message: MessageRecord,
    ) -> (Meaning, Owner) {
        let mut cursor = Cursor::new(&message.bytes).with_length(message.length);
        let which = rpc_type(&cursor).unwrap_or_default();
        let Ok(xid) = cursor.word().map(Xid) else {
            return (desk.account.undecoded(Undecoded::MessagePart), Owner::default());
        };
        let which = match (which, message.bytes.len()) {
            (Some(which), _) => which,
            // What tells a Call from a Reply was not captured.
            (None, ..8) if self.knows_call(sender.peer(), xid) => Which::Reply,
            (None, ..8) => Which::Call,
            (None, _) => return (desk.account.undecoded(Undecoded::Malformed), Owner::default()),
        };
        let (key, at) = match which {
            Which::Call => (self.bare_call(desk, sender, xid, message), SegmentAt::CALL),
            Which::Reply => (self.reply(desk, sender, xid, message, None), SegmentAt::REPLY),
        };
        (Meaning::Message { key, which }, key.owner(at))
    }

    fn bare_call(&mut self, desk: &mut Desk<'_>, sender: Side, xid: Xid, call: MessageRecord) -> Key {
        let answered = match self.before(desk, sender, xid, &call) {
            Before::Copy(key) => return key,
            Before::Reply(key) => Some(key),
            Before::Nothing => None,
        };
        let program = program(&call);
        let mut transaction = blank(xid);
        transaction.call = Some(call);
        self.open(desk, sender, transaction, program, answered)
    }
}

/// The program that a Call is for.
fn program(call: &MessageRecord) -> Option<Program> {
    let mut cursor = Cursor::new(call.inline()).with_length(call.length);
    let message = rpc::Message::decode(&mut cursor, &mut Unobserved).ok()?;
    message.call().map(|call| call.prog)
}
