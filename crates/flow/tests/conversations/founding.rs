//! Conversations that the founding documents describe, by their sections. 000 is nfs-direct-data-placement, 002
//! draft-ietf-nfsv4-rfc5667bis-02, 004 draft-talpey-nfsv4-rdma-sess-01.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_flow::transaction::{RpcMessageKind, Transaction};

use super::calls::{self, Deed, Item};
use super::fabric::{Fabric, Kind, Side};
use super::writer::{Lists, Memory, NfsRdmaPrototypeProc, Padding, Way, Writer, header};

const XID: u32 = 7;
const NFS: u32 = 100_003;

/// A Call, the data that RDMA moves, and its Reply.
struct Exchange {
    call: Writer,
    call_proc: NfsRdmaPrototypeProc,
    call_lists: Lists,
    /// Content of the Read chunks.
    fetched: Vec<(Memory, Vec<u8>)>,
    /// Content of the Write chunks.
    placed: Vec<(Memory, Vec<u8>)>,
    reply: Writer,
    reply_lists: Lists,
}

impl Exchange {
    /// Creates an exchange with RPC headers alone. RFC 5531 section 9.
    fn new(version: u32, procedure: u32) -> Self {
        let (mut call, mut reply) = (Writer::default(), Writer::default());
        call.words(&[XID, 0, 2, NFS, version, procedure, 0, 0, 0, 0]);
        reply.words(&[XID, 1, 0, 0, 0, 0]);
        Self {
            call,
            call_proc: NfsRdmaPrototypeProc::Msg,
            call_lists: Lists::default(),
            fetched: Vec::new(),
            placed: Vec::new(),
            reply,
            reply_lists: Lists::default(),
        }
    }

    /// Puts the last data item of the Call into a Read chunk. `at` distinguishes chunks.
    fn fetch(&mut self, at: u32, bytes: &[u8]) {
        let memory = memory(at, bytes.len() as u32);
        let position = *self.call.positions.last().unwrap() as u32;
        self.call_lists.reads.push((position, memory));
        self.fetched.push((memory, bytes.to_vec()));
    }

    /// Offers a Write chunk of `length` bytes, which returns `bytes`.
    fn place(&mut self, at: u32, length: u32, bytes: &[u8]) {
        let offered = memory(at, length);
        self.call_lists.writes.push(vec![offered]);
        self.reply_lists.writes.push(vec![Memory { length: bytes.len() as u32, ..offered }]);
        if !bytes.is_empty() {
            self.placed.push((offered, bytes.to_vec()));
        }
    }

    /// Returns the only Transaction of a capture of this exchange.
    fn inspect(&self, kind: Kind) -> Transaction {
        let mut fabric = Fabric::new(kind, 1024);
        let call = [header(XID, self.call_proc, &self.call_lists), self.call.bytes.clone()].concat();
        fabric.send(Side::Client, &call);
        self.fetched.iter().for_each(|(memory, bytes)| fabric.read(Side::Server, *memory, bytes));
        self.placed.iter().for_each(|(memory, bytes)| fabric.write(*memory, bytes));
        let reply = [header(XID, NfsRdmaPrototypeProc::Msg, &self.reply_lists), self.reply.bytes.clone()].concat();
        fabric.send(Side::Server, &reply);
        let [transaction] = <[Transaction; 1]>::try_from(super::inspect(&fabric.frames, &[])).unwrap();
        transaction
    }

    /// Asserts that the data items of both messages are these, over both transports, and that nothing is missing.
    #[track_caller]
    fn expect(&self, arguments: &[(&[u8], Way)], results: &[(&[u8], Way)]) {
        let items = |items: &[(&[u8], Way)]| -> Vec<Item> {
            items.iter().map(|(bytes, way)| Item { bytes: bytes.to_vec(), way: *way }).collect()
        };
        for kind in [Kind::Roce, Kind::Iwarp] {
            let transaction = self.inspect(kind);
            let said = format!("{kind:?}");
            assert_eq!(transaction.missing_parts(), [], "{said}");
            let facts = transaction.with_messages(|reading| reading.summary());
            assert_eq!((facts.call_error, facts.reply_error), (None, None), "{said}");
            super::items(&transaction, RpcMessageKind::Call, &items(arguments), &said);
            super::items(&transaction, RpcMessageKind::Reply, &items(results), &said);
        }
    }
}

fn memory(at: u32, length: u32) -> Memory {
    Memory { handle: 0x4000 + at, offset: 0x10_0000 * u64::from(at + 1), length }
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + 1) as u8).collect()
}

/// 000 section 4, 002 section 3: data of READ and the pathname of READLINK are in a Write chunk, data of WRITE and the
/// pathname of SYMLINK in a Read chunk, in NFSv2 and in NFSv3.
#[test]
fn seed_000_4_nfs_versions_2_and_3_place_four_items_directly() {
    for version in [2, 3] {
        for (at, bytes) in [data(4000), b"../somewhere/else".to_vec(), data(1500), data(3)].into_iter().enumerate() {
            let deed = match at {
                0 => Deed::Read { data: Some(bytes.clone()) },
                1 => Deed::Readlink { text: Some(bytes.clone()) },
                2 => Deed::Write { data: bytes.clone() },
                _ => Deed::Link { text: bytes.clone() },
            };
            let mut exchange = Exchange::new(version, calls::procedure(version, &deed));
            calls::arguments(&mut exchange.call, version, std::slice::from_ref(&deed), 0, || Way::Chunk);
            calls::results(&mut exchange.reply, version, std::slice::from_ref(&deed), 0, || Way::Chunk);
            let item = [(&bytes[..], Way::Chunk)];
            if at < 2 {
                exchange.place(0, 4096, &bytes);
                exchange.expect(&[], &item);
            } else {
                exchange.fetch(0, &bytes);
                exchange.expect(&item, &[]);
            }
        }
    }
}

/// 000 section 4, 002 section 3: a server ignores the Write list of a procedure without such results. It returns the
/// list unused, and the Reply is not in it.
#[test]
fn seed_000_4_the_write_list_of_another_procedure_is_ignored() {
    let mut exchange = Exchange::new(3, 1);
    exchange.call.opaque(b"file");
    // NFS3ERR_STALE.
    exchange.reply.words(&[70]);
    exchange.place(0, 4096, &[]);
    exchange.expect(&[], &[]);
    let transaction = exchange.inspect(Kind::Roce);
    let segment = &transaction.write_chunks[0].segments[0];
    assert_eq!((segment.length, segment.returned_length), (4096, Some(0)));
    assert_eq!(transaction.with_messages(|reading| reading.summary()).status.unwrap().name, Some("NFS3ERR_STALE"));
}

/// Operations of NFSv4. RFC 7530 section 16.
const OP_LOOKUP: u32 = 15;
const OP_PUTFH: u32 = 22;
const OP_READ: u32 = 25;
const OP_READLINK: u32 = 27;
const OP_WRITE: u32 = 38;
/// RFC 7863.
const OP_READ_PLUS: u32 = 68;

/// Writes the arguments of PUTFH and LOOKUP, and their results.
fn find(exchange: &mut Exchange, name: &[u8]) {
    exchange.call.words(&[OP_PUTFH]).opaque(b"root").words(&[OP_LOOKUP]).opaque(name);
    exchange.reply.words(&[OP_PUTFH, 0, OP_LOOKUP, 0]);
}

/// Writes a READ of 4,096 bytes, and its result.
fn read(exchange: &mut Exchange, bytes: &[u8], way: Way) {
    exchange.call.words(&[OP_READ, 0, 0, 0, 0]).hyper(0).words(&[4096]);
    exchange.reply.words(&[OP_READ, 0, 1]).item(bytes, way);
}

/// The COMPOUND of the figure in 000 section 5 and 002 section 4.3: PUTFH LOOKUP READ PUTFH LOOKUP READLINK PUTFH
/// LOOKUP READ.
fn figure(items: [(&[u8], Way); 3]) -> Exchange {
    let mut exchange = Exchange::new(4, 1);
    // No tag, minor version 0; NFS4_OK, no tag.
    exchange.call.words(&[0, 0, 9]);
    exchange.reply.words(&[0, 0, 9]);
    for (at, (bytes, way)) in items.into_iter().enumerate() {
        find(&mut exchange, [&b"a"[..], b"b", b"c"][at]);
        if at == 1 {
            exchange.call.words(&[OP_READLINK]);
            exchange.reply.words(&[OP_READLINK, 0]).item(bytes, way);
        } else {
            read(&mut exchange, bytes, way);
        }
    }
    exchange
}

#[test]
fn seed_000_5_the_nth_write_chunk_belongs_to_the_nth_read_or_readlink() {
    let (a, b, c) = (data(3000), b"../b".to_vec(), data(100));
    let items = [(&a[..], Way::Chunk), (&b[..], Way::Chunk), (&c[..], Way::Chunk)];
    let mut exchange = figure(items);
    (0..).zip(items).for_each(|(at, (bytes, _))| exchange.place(at, 4096, bytes));
    exchange.expect(&[], &items);
    // More operations than chunks: the results of the others are inline.
    let items = [(&a[..], Way::Chunk), (&b[..], Way::Inline), (&c[..], Way::Inline)];
    let mut exchange = figure(items);
    exchange.place(0, 4096, &a);
    exchange.expect(&[], &items);
    // The first READ has no data. Its chunk returns zeros, and the second chunk is not moved up (000 section 3).
    let items = [(&[][..], Way::Inline), (&b[..], Way::Chunk), (&c[..], Way::Chunk)];
    let mut exchange = figure(items);
    (0..).zip(items).for_each(|(at, (bytes, _))| exchange.place(at, 4096, bytes));
    exchange.expect(&[], &items);
}

#[test]
fn seed_002_4_3_the_result_of_a_write_chunk_without_segments_or_bytes_is_inline() {
    let (a, b, c) = (data(3000), b"../b".to_vec(), data(100));
    let items = [(&a[..], Way::Chunk), (&b[..], Way::Inline), (&c[..], Way::Chunk)];
    // A zero-length array of segments for B; a segment of zeros for B.
    for of_b in [Vec::new(), vec![Memory { handle: 0, offset: 0, length: 0 }]] {
        let mut exchange = figure(items);
        exchange.place(0, 4096, &a);
        exchange.call_lists.writes.push(of_b.clone());
        exchange.reply_lists.writes.push(of_b);
        exchange.place(2, 4096, &c);
        exchange.expect(&[], &items);
    }
}

/// RFC 8166 section 3.4.6.2: a returned chunk has the length of its item. A Responder may have written the roundup,
/// too. With any other length, the item is not whole, or bytes follow it.
#[test]
fn seed_8166_3_4_6_2_a_write_chunk_returns_the_length_of_its_item() {
    let [bytes, link] = [data(97), b"../b".to_vec()];
    let items = [(&bytes[..], Way::Chunk), (&link[..], Way::Inline), (&b"c"[..], Way::Inline)];
    let reasons = [
        (97, None),
        (100, None),
        (50, Some("50 of 97 bytes in Write chunk 0")),
        (96, Some("96 of 97 bytes in Write chunk 0")),
        (99, Some("99 bytes for an item of 97 in Write chunk 0")),
        (101, Some("101 bytes for an item of 97 in Write chunk 0")),
    ];
    for (returned, reason) in reasons {
        let mut exchange = figure(items);
        let mut written = bytes.clone();
        written.resize(returned, 0);
        exchange.place(0, 4096, &written);
        for kind in [Kind::Roce, Kind::Iwarp] {
            let transaction = exchange.inspect(kind);
            let summary = transaction.with_messages(|reading| reading.summary());
            let error = summary.decode_error(&transaction, RpcMessageKind::Reply);
            assert_eq!(error.map(|error| error.reason().to_string()).as_deref(), reason, "{kind:?}");
            // The offset of the length of the first READ: after XID, type, status, verifier and status of the RPC,
            // status, tag and count of the COMPOUND, two results, and operation, status and eof of READ.
            let missing: Vec<_> = summary.missing(&transaction).iter().map(ToString::to_string).collect();
            let expected = reason.map(|_| format!("undecoded:reply:{}", (6 + 3 + 4 + 3) * 4) + "-");
            assert_eq!(missing, expected.into_iter().collect::<Vec<_>>(), "{kind:?}, {returned}");
        }
    }
}

/// RFC 8166 section 3.4.5.2: a Read chunk has the length of its item, with or without roundup.
#[test]
fn seed_8166_3_4_5_2_a_read_chunk_has_the_length_of_its_item() {
    let bytes = data(97);
    let reasons = [
        (97, None),
        (100, None),
        (50, Some("50 of 97 bytes in its Read chunk")),
        (104, Some("104 bytes for an item of 97 in its Read chunk")),
    ];
    for (length, reason) in reasons {
        let mut exchange = Exchange::new(3, 7);
        exchange.call.opaque(b"file").hyper(0).words(&[97, 2]).item(&bytes, Way::Chunk);
        exchange.reply.words(&[0, 0, 0, 97, 2, 1, 2]);
        let mut sent = bytes.clone();
        sent.resize(length, 0);
        exchange.fetch(0, &sent);
        let transaction = exchange.inspect(Kind::Roce);
        let summary = transaction.with_messages(|reading| reading.summary());
        let error = summary.decode_error(&transaction, RpcMessageKind::Call);
        assert_eq!(error.map(|error| error.reason().to_string()).as_deref(), reason);
        assert_eq!(summary.missing(&transaction).is_empty(), reason.is_none());
    }
}

/// 000 section 5, 002 section 4.1: a COMPOUND with READ and WRITE uses both lists.
#[test]
fn seed_002_4_1_a_compound_may_use_the_read_list_and_the_write_list() {
    let (written, read_back) = (data(2000), data(3001));
    let mut exchange = Exchange::new(4, 1);
    exchange.call.words(&[0, 0, 6]);
    exchange.reply.words(&[0, 0, 6]);
    find(&mut exchange, b"from");
    read(&mut exchange, &read_back, Way::Chunk);
    find(&mut exchange, b"to");
    exchange.call.words(&[OP_WRITE, 0, 0, 0, 0]).hyper(0).words(&[2]).item(&written, Way::Chunk);
    exchange.reply.words(&[OP_WRITE, 0, written.len() as u32, 2, 1, 2]);
    exchange.fetch(0, &written);
    exchange.place(1, 4096, &read_back);
    exchange.expect(&[(&written, Way::Chunk)], &[(&read_back, Way::Chunk)]);
}

/// 002 section 4.1 lists NFS4_CONTENT_DATA of READ_PLUS among the DDP-eligible results; RFC 8267 section 6.1 does not.
/// The chunk of a READ after it remains with the READ.
#[test]
fn seed_002_4_1_the_data_of_read_plus_is_found_in_a_write_chunk() {
    let (a, b, c) = (data(3001), data(1000), data(400));
    let both = [Way::Chunk, Way::Inline];
    for (way, of_read) in both.into_iter().flat_map(|way| both.map(|of_read| (way, of_read))) {
        let mut exchange = Exchange::new(4, 1);
        // No tag, minor version 2; NFS4_OK, no tag.
        exchange.call.words(&[0, 2, 2, OP_READ_PLUS, 0, 0, 0, 0]).hyper(0).words(&[8192]);
        // Data, a hole, data.
        exchange.reply.words(&[0, 0, 2, OP_READ_PLUS, 0, 1, 3, 0]).hyper(0).item(&a, way);
        exchange.reply.words(&[1]).hyper(3001).hyper(3191);
        exchange.reply.words(&[0]).hyper(6192).item(&b, way);
        read(&mut exchange, &c, of_read);
        let mut chunks = [(&a, way), (&b, way), (&c, of_read)].into_iter().filter(|(_, way)| *way == Way::Chunk);
        (0..).zip(chunks.by_ref()).for_each(|(at, (bytes, _))| exchange.place(at, 4096, bytes));
        for kind in [Kind::Roce, Kind::Iwarp] {
            let transaction = exchange.inspect(kind);
            assert_eq!(transaction.missing_parts(), [], "{kind:?} {way:?} {of_read:?}");
            let facts = transaction.with_messages(|reading| reading.summary());
            assert_eq!((facts.call_error, facts.reply_error), (None, None), "{kind:?} {way:?} {of_read:?}");
            let items = [(&a, way), (&b, way), (&c, of_read)].map(|(bytes, way)| Item { bytes: bytes.clone(), way });
            super::items(&transaction, RpcMessageKind::Reply, &items, "READ_PLUS");
        }
    }
}

/// 000 sections 4 and 5, 004 section 2.8: pad bytes within the Call align the data, and are not part of it.
#[test]
fn seed_004_2_8_pad_bytes_before_the_data_are_no_data() {
    for (align, length) in [(4096, 1000), (512, 1000), (64, 61)] {
        let bytes = data(length);
        let mut exchange = Exchange::new(3, 7);
        exchange.call_proc = NfsRdmaPrototypeProc::Msgp { align, threshold: 32 };
        let of_header = header(XID, exchange.call_proc, &Lists::default()).len();
        exchange.call.padding = Some(Padding { align: align as usize, threshold: 32, header: of_header });
        exchange.call.opaque(b"file").hyper(0).words(&[length as u32, 2]).item(&bytes, Way::Inline);
        // No attributes, count, FILE_SYNC, verifier.
        exchange.reply.words(&[0, 0, 0, length as u32, 2, 1, 2]);
        let start = of_header + exchange.call.bytes.len() - length.next_multiple_of(4);
        assert!(start.is_multiple_of(align as usize), "the data is aligned");
        exchange.expect(&[(&bytes, Way::Inline)], &[]);
        let transaction = exchange.inspect(Kind::Roce);
        assert_eq!(transaction.rpc_length(RpcMessageKind::Call), Some(exchange.call.whole as u64));
        let is_decoded = transaction
            .with_messages(|reading| reading.observe_rpc(RpcMessageKind::Call, &mut NullFieldObserver).is_ok());
        assert!(is_decoded);
    }
}
