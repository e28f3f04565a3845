//! Captures of one direction only, such as from a mirror of one port: every Call without its Reply, or every Reply
//! without its Call, and nothing else. The target of RDMA data is known only from the Calls and Read requests of the
//! other direction, so that it is counted as unknown memory.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::net;
use nfsrdma_flow::transaction::{MissingPart, RpcMessageKind};

use crate::independent_decoder;
use crate::loss_comparison::{ALL, agrees, named, run};

#[test]
fn one_direction_alone_has_exactly_its_own_messages() {
    for exhibit in &ALL {
        let name = exhibit.name;
        let source = |at: usize| net::decode(&exhibit.frames[at].frame(1), &mut NullFieldObserver).source;
        let addresses: std::collections::BTreeSet<_> =
            exhibit.transactions.iter().map(|t| independent_decoder::name(t).0).collect();
        let client = exhibit.transactions[0].connection.client.address;
        let server = exhibit.transactions[0].connection.server.address;
        assert!(addresses.iter().all(|address| [client, server].contains(address)));
        for sender in [client, server] {
            let said = format!("{name}, what {sender} sends");
            let frames = exhibit.numbered(0..exhibit.frames.len());
            let outcome = run(frames.filter(|(number, _)| source(*number as usize - 1) == sender));
            let found = named(&outcome.transactions, &said);
            assert_eq!(found.len(), exhibit.transactions.len(), "{said}");
            for before in &exhibit.transactions {
                let now = found[&independent_decoder::name(before)];
                let said = format!("{said}: {}", now.xid);
                agrees(now, before, &said);
                let is_caller = independent_decoder::name(before).0 == sender;
                let (there, gone) = if is_caller {
                    (RpcMessageKind::Call, RpcMessageKind::Reply)
                } else {
                    (RpcMessageKind::Reply, RpcMessageKind::Call)
                };
                assert!(now.message(gone).is_none(), "{said}");
                let (now_there, before_there) = (now.message(there).unwrap(), before.message(there).unwrap());
                assert!(now_there.bytes == before_there.bytes && now_there.frames == before_there.frames, "{said}");
                assert_eq!(now.missing_parts(), [MissingPart::Message(gone)], "{said}");
                let chunks = now.read_chunks.iter().chain(&now.write_chunks).chain(&now.reply_chunk);
                assert_eq!(chunks.map(|chunk| chunk.moved_bytes()).sum::<u64>(), 0, "{said}");
            }
            assert_eq!(outcome.given_up, 0, "{said}");
        }
    }
}
