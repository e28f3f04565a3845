//! File names in real captures, and the rules of the store.

use std::net::IpAddr;

use nfsrdma_dissectors::address::{Address, VirtualNetwork};

use super::*;
use crate::testing;

const SERVER: ServerAddressAndVirtualNetwork = host(1);
const OTHER: ServerAddressAndVirtualNetwork = host(7);

const fn host(number: u8) -> ServerAddressAndVirtualNetwork {
    let address = Address::Ip(IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, number)));
    ServerAddressAndVirtualNetwork { address, tenant: VirtualNetwork::NONE }
}

/// Returns a store for some thousand files.
fn store() -> FileNodeStore {
    FileNodeStore::new(1 << 20)
}

fn text(store: &FileNodeStore, id: FileNodeId) -> String {
    let mut text = Vec::new();
    path(FilehandleDisplay::Names, store, id, &mut text);
    String::from_utf8(text).unwrap()
}

/// Returns the path of a filehandle.
fn named(store: &FileNodeStore, handle: &[u8]) -> String {
    store.find(SERVER, handle).map(|id| text(store, id)).unwrap_or_default()
}

/// Returns a server with the directory `/d` of handle `D` and its file `f` of handle `F`.
fn known() -> (FileNodeStore, FileNodeId) {
    let mut store = store();
    let root = store.root(SERVER);
    let directory = store.find_or_insert_child(root, b"d");
    let directory = store.bind(directory, SERVER, b"D");
    let file = store.find_or_insert_child(directory, b"f");
    store.bind(file, SERVER, b"F");
    (store, directory)
}

#[test]
fn a_path_is_that_of_the_directory_and_the_name() {
    let (store, _) = known();
    assert_eq!([named(&store, b"D"), named(&store, b"F")], ["/d", "/d/f"]);
}

#[test]
fn the_key_of_a_root_counts_for_the_limit() {
    let mut store = store();
    store.find_or_insert(SERVER, &[]);
    let with_key = store.bytes();
    store.root(SERVER);
    // The key stays in the table; the path is new.
    assert_eq!(store.bytes(), with_key + "/".len());
    store.check();
}

#[test]
fn renaming_a_directory_changes_the_paths_below_it() {
    let (mut store, _) = known();
    let root = store.root(SERVER);
    store.rename(root, b"d", root, b"e");
    assert_eq!(named(&store, b"F"), "/e/f");
    assert_eq!(store.find_child(root, b"d"), None);
}

#[test]
fn an_object_replaced_by_a_rename_keeps_its_path_and_handle() {
    let (mut store, directory) = known();
    let new = store.find_or_insert_child(directory, b"f.new");
    store.bind(new, SERVER, b"N");
    store.rename(directory, b"f.new", directory, b"f");
    assert_eq!([named(&store, b"N"), named(&store, b"F")], ["/d/f", "/d/f"]);
    assert_eq!(store.find_child(directory, b"f"), Some(store.find(SERVER, b"N").unwrap()));
}

#[test]
fn a_file_has_its_other_name_after_its_first_is_removed() {
    let (mut store, directory) = known();
    let file = store.find(SERVER, b"F").unwrap();
    store.link(file, directory, b"g");
    assert_eq!(named(&store, b"F"), "/d/f");
    store.remove(directory, b"f");
    assert_eq!(named(&store, b"F"), "/d/g");
    // An open file without a name.
    store.remove(directory, b"g");
    assert_eq!(named(&store, b"F"), "/d/g");
    assert_eq!(store.find_child(directory, b"g"), None);
}

#[test]
fn a_name_that_has_another_handle_is_another_file() {
    let (mut store, directory) = known();
    let id = store.find_or_insert_child(directory, b"f");
    let new = store.bind(id, SERVER, b"F2");
    assert_ne!(id, new);
    assert_eq!(named(&store, b"F2"), "/d/f");
}

#[test]
fn a_nameless_directory_gets_its_path_when_it_is_bound() {
    let mut store = store();
    let directory = store.find_or_insert(SERVER, b"D");
    let file = store.find_or_insert_child(directory, b"f");
    assert_eq!(text(&store, file), "…/f");
    assert_eq!(text(&store, directory), format!("0x{:08x}", hash(b"D")));
    let root = store.root(SERVER);
    let id = store.find_or_insert_child(root, b"d");
    assert_eq!(store.bind(id, SERVER, b"D"), directory);
    assert_eq!(text(&store, file), "/d/f");
}

#[test]
fn the_root_is_the_root_under_its_handle_too() {
    let mut store = store();
    let file = store.find_or_insert(SERVER, b"R");
    let below = store.find_or_insert_child(file, b"f");
    let root = store.root(SERVER);
    assert_eq!(store.bind(root, SERVER, b"R"), file);
    assert_eq!([text(&store, file), text(&store, below)], ["/", "/f"]);
}

#[test]
fn servers_have_handles_of_their_own() {
    let (mut store, _) = known();
    let id = store.find_or_insert(OTHER, b"F");
    assert_eq!(text(&store, id), format!("0x{:08x}", hash(b"F")));
}

/// IEEE 802.1Q section 9.6, RFC 7348 section 5: tenants may have equal addresses.
#[test]
fn servers_of_equal_addresses_in_different_networks_have_handles_of_their_own() {
    let (mut store, _) = known();
    let vlan = VirtualNetwork::NONE.with_vlan(5);
    let tenants = [
        vlan,
        VirtualNetwork::NONE.with_vlan(6),
        vlan.with_vlan(6),
        VirtualNetwork::network(0),
        VirtualNetwork::network(5),
        VirtualNetwork::network(5).with_vlan(5),
    ];
    let names = |at: usize| format!("dir{at}").into_bytes();
    for (at, tenant) in tenants.into_iter().enumerate() {
        let server = ServerAddressAndVirtualNetwork { tenant, ..SERVER };
        assert_eq!(store.find(server, b"F"), None, "{tenant}");
        let root = store.root(server);
        let file = store.find_or_insert_child(root, &names(at));
        store.bind(file, server, b"F");
    }
    for (at, tenant) in tenants.into_iter().enumerate() {
        let id = store.find(ServerAddressAndVirtualNetwork { tenant, ..SERVER }, b"F").unwrap();
        assert_eq!(text(&store, id), format!("/dir{at}"));
    }
    assert_eq!(named(&store, b"F"), "/d/f");
    store.check();
}

#[test]
fn a_tenant_learns_nothing_from_another() {
    let transactions = testing::transactions("rxe-v42.pcap");
    let paths = |tenant_of: fn(usize) -> VirtualNetwork| {
        let mut names = FileNames::default();
        let printed = transactions.iter().enumerate().map(|(at, transaction)| {
            let mut transaction = transaction.clone();
            transaction.connection.tenant = tenant_of(at);
            transaction.with_messages(|messages| names.infer(&transaction, messages, &messages.summary()));
            String::from_utf8_lossy(names.paths().path.unwrap_or_default()).into_owned()
        });
        printed.collect::<Vec<_>>()
    };
    let one = paths(|_| VirtualNetwork::NONE.with_vlan(7));
    assert_eq!(one, paths(|_| VirtualNetwork::NONE));
    assert!(one.iter().any(|path| path == "/data/w/s64k"), "{one:?}");
    // Each Transaction is from another tenant: only its own Call and Reply give names.
    let apart = paths(|at| VirtualNetwork::network(at as u32));
    assert!(apart.iter().all(|path| path != "/data/w/s64k"), "{apart:?}");
}

#[test]
fn a_directory_below_itself_ends_a_path() {
    let (mut store, directory) = known();
    let root = store.root(SERVER);
    let below = store.find_or_insert_child(directory, b"e");
    store.rename(root, b"d", below, b"d");
    assert!(!named(&store, b"F").is_empty());
}

#[test]
fn memory_is_bounded_and_evicted_entries_are_counted() {
    let mut store = FileNodeStore::new(64 << 10);
    let root = store.root(SERVER);
    for number in 0..10_000_u32 {
        let id = store.find_or_insert_child(root, format!("file {number}").as_bytes());
        store.bind(id, SERVER, &number.to_be_bytes());
        assert!(store.bytes() <= 66 << 10, "{}", store.bytes());
    }
    assert!(store.evicted > 9_000, "{}", store.evicted);
    assert_eq!(named(&store, &9_999_u32.to_be_bytes()), "/file 9999");
    assert_eq!(named(&store, &0_u32.to_be_bytes()), "");
}

/// Returns the moves in LRU order for a chain of nested directories, in a store for some thousand.
fn moves_for_chain(depth: u32) -> u64 {
    let mut store = store();
    let mut directory = store.root(SERVER);
    for level in 0..depth {
        let child = store.find_or_insert_child(directory, b"d");
        directory = store.bind(child, SERVER, &level.to_be_bytes());
    }
    assert!(store.evicted > u64::from(depth / 2));
    store.check();
    store.moves
}

#[test]
fn evictions_from_a_deep_chain_of_directories_cost_linear_time() {
    let moves = [1, 2, 4, 8].map(|times| moves_for_chain(times * 8_192));
    for pair in moves.windows(2) {
        assert!(pair[1] * 10 <= pair[0] * 22, "{moves:?}");
    }
    assert!(moves[3] <= 32 * 8 * 8_192, "{moves:?}");
}

#[test]
fn directories_in_use_outlive_files_that_were_used_once() {
    let mut store = store();
    let root = store.root(SERVER);
    let mut directory = root;
    for level in 0..5_u32 {
        let child = store.find_or_insert_child(directory, format!("d{level}").as_bytes());
        directory = store.bind(child, SERVER, &level.to_be_bytes());
    }
    for at in 100..20_000_u32 {
        let file = store.find_or_insert_child(directory, &at.to_be_bytes());
        store.bind(file, SERVER, &at.to_be_bytes());
    }
    assert!(store.evicted > 10_000);
    assert_eq!(text(&store, directory), "/d0/d1/d2/d3/d4");
}

#[test]
fn the_hash_is_the_one_that_wireshark_has() {
    // tshark -r rxe-v3.pcap -T fields -e nfs.fh.hash, frames 61 and 63.
    assert_eq!(hash(&[1, 0, 1, 0, 0, 0, 0, 0]), 0x62d4_0c52);
}

/// Returns operation, path and new path of each Transaction of a capture.
fn about(capture: &str) -> Vec<(String, String, String)> {
    let mut names = FileNames::default();
    let words = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let mut all = Vec::new();
    for transaction in testing::transactions(capture) {
        transaction.with_messages(|messages| {
            let summary = messages.summary();
            names.infer(&transaction, messages, &summary);
            let OperationPaths { path, new_path, .. } = names.paths();
            all.push((summary.procedure_name.unwrap_or_default().to_owned(), words(path), words(new_path)));
        });
    }
    all
}

#[test]
fn every_call_about_a_file_has_a_path_where_the_mount_is_in_the_capture() {
    for name in ["rxe-v3.pcap", "rxe-v40.pcap.gz", "rxe-v41.pcap.gz", "rxe-v42.pcap", "tcp-v42.pcap.gz"] {
        for (procedure, path, _) in about(name) {
            assert!(path.is_empty() || path.starts_with('/'), "{name}: {procedure} {path}");
        }
    }
}

#[test]
fn a_capture_from_the_middle_has_hashes_and_partial_paths() {
    let paths: Vec<String> = about("rxe-v42-mid.pcap.gz").into_iter().map(|(_, path, _)| path).collect();
    assert!(paths.iter().any(|path| path.starts_with("0x")));
    assert!(paths.iter().any(|path| path.starts_with("…/")));
}

#[test]
fn rename_and_link_have_both_paths() {
    let moved: Vec<_> = about("rxe-v3.pcap").into_iter().filter(|(.., new_path)| !new_path.is_empty()).collect();
    let expected = [
        ("LINK", "/export/data/w/s100", "/export/data/w/hard"),
        ("RENAME", "/export/data/w/hard", "/export/data/w/sub/hard2"),
    ];
    assert_eq!(moved, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
}

proptest::proptest! {
    /// After any history the counts match the nodes, and every path ends.
    #[test]
    fn any_history_leaves_a_consistent_store(
        steps in proptest::collection::vec((0_u8..7, 0_u8..6, 0_u8..6, 0_u8..6, 0_u8..6), 0..200),
    ) {
        let mut store = FileNodeStore::new(6 << 10);
        for (change, a, b, c, d) in steps {
            let (first, second) = (store.find_or_insert(SERVER, &[a]), store.find_or_insert(SERVER, &[b]));
            match change {
                0 => { let id = store.find_or_insert_child(first, &[c]); store.bind(id, SERVER, &[d]); }
                1 => store.rename(first, &[c], second, &[d]),
                2 => store.link(first, second, &[c]),
                3 => store.remove(first, &[c]),
                4 => { let root = store.root(SERVER); store.bind(root, SERVER, &[a]); }
                5 => store.mount(SERVER, &[a], &[c]),
                _ => { store.find_or_insert_child(first, &[c]); }
            }
            for handle in 0..6 {
                named(&store, &[handle]);
            }
            store.check();
        }
    }
}

/// RFC 8881 section 13.3: the layout of a file has its filehandles on data servers.
#[test]
fn a_filehandle_of_a_data_server_refers_to_the_file_of_its_layout() {
    let (mut store, _) = known();
    let file = store.find(SERVER, b"F").unwrap();
    store.add_layout_handle(file, b"on the data server");
    assert_eq!(store.find_or_insert(OTHER, b"on the data server"), file);
    assert_eq!(text(&store, store.find(OTHER, b"on the data server").unwrap()), "/d/f");
    // A server's own filehandle takes precedence.
    store.add_layout_handle(file, b"D");
    assert_eq!(named(&store, b"D"), "/d");
    // The number of layout handles is limited.
    (0..1_000_u32).for_each(|stripe| store.add_layout_handle(file, &stripe.to_be_bytes()));
    assert!(store.find(OTHER, &9_u32.to_be_bytes()).is_some());
    assert!(store.find(OTHER, &999_u32.to_be_bytes()).is_none());
}

/// The same from messages: LAYOUTGET on the metadata server, then READ on a data server.
#[test]
fn a_read_on_a_data_server_is_about_the_file() {
    use nfsrdma_dissectors::nfs::Procedure;
    use nfsrdma_dissectors::nfs::v4::{self, Args, Results};
    use nfsrdma_dissectors::rpc::Program;
    use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, StructuredOpaque, Text, XdrArray};
    use nfsrdma_flow::transaction_message_decoding::MainOperation;

    let (mut store, _) = known();
    let stateid = v4::Stateid4 { seqid: 1, other: [7; 12] };
    let putfh = |object| Args::PUTFH(v4::ObjectFh4 { object: Opaque(object) });
    let mut printed = TransactionOperationPaths { wants_all: true, ..TransactionOperationPaths::default() };
    let mut infer_paths = |server, operation, arguments: &[Args<'_>], results: &[Results<'_>]| {
        let (mut call, mut reply) = (MessageFilenameTokens::default(), MessageFilenameTokens::default());
        let mut encoder = Encoder::new();
        v4::CompoundCall::new(v4::CompoundCallHead { tag: Text(b""), minorversion: 1 }, arguments).encode(&mut encoder);
        Procedure::Compound.arguments(&mut Cursor::new(encoder.bytes()), &mut call).unwrap();
        let mut encoder = Encoder::new();
        let head = v4::CompoundReplyHead { status: v4::Nfsstat4::NFS4_OK, tag: Text(b"") };
        v4::CompoundReply::new(head, results).encode(&mut encoder);
        Procedure::Compound.results(&mut Cursor::new(encoder.bytes()), &mut reply).unwrap();
        let summary = RpcSummary {
            program: Some(Program::NFS),
            version: Some(4),
            procedure: Some(1),
            main_operation: Some(MainOperation::Operation(operation)),
            ..RpcSummary::default()
        };
        printed.clear();
        let display = FilehandleDisplay::Names;
        path_inference::TransactionPathResolver {
            display,
            store: &mut store,
            call: &call,
            reply: &reply,
            resolved: &mut printed,
            server,
            uses_reply: true,
        }
        .transaction(&summary);
        printed.paths(&printed.transaction).path.map(|path| String::from_utf8_lossy(path).into_owned())
    };
    let handles = [Opaque(&b"of the data server"[..])];
    let layouts = [v4::Layout4 {
        lo_offset: 0,
        lo_length: u64::MAX,
        lo_iomode: v4::Layoutiomode4::LAYOUTIOMODE4_READ,
        lo_content: v4::LayoutContent4::Files(StructuredOpaque::Known(v4::Nfsv41FileLayout4 {
            nfl_deviceid: [1; 16],
            nfl_util: v4::NflUtil4(0x0001_0000),
            nfl_first_stripe_index: 0,
            nfl_pattern_offset: 0,
            nfl_fh_list: XdrArray::from(&handles[..]),
        })),
    }];
    let layoutget = Args::LAYOUTGET(v4::Layoutget4Args {
        loga_signal_layout_avail: false,
        loga_layout_type: v4::Layouttype4::LAYOUT4_NFSV4_1_FILES,
        loga_iomode: v4::Layoutiomode4::LAYOUTIOMODE4_READ,
        loga_offset: 0,
        loga_length: u64::MAX,
        loga_minlength: 4096,
        loga_stateid: stateid.clone(),
        loga_maxcount: 4096,
    });
    let given = v4::LayoutgetRes::Ok(v4::Layoutget4Resok {
        logr_return_on_close: true,
        logr_stateid: stateid.clone(),
        logr_layout: XdrArray::from(&layouts[..]),
    });
    let done = || Results::PUTFH(nfsrdma_dissectors::nfs::StatusUnion::Ok(nfsrdma_dissectors::xdr::Void));
    let path = infer_paths(
        SERVER,
        v4::OperationNumber::LAYOUTGET,
        &[putfh(b"F"), layoutget],
        &[done(), Results::LAYOUTGET(given)],
    );
    assert_eq!(path.as_deref(), Some("/d/f"));
    let read = Args::READ(v4::Read4Args { stateid, offset: 0, count: 4096 });
    let path = infer_paths(OTHER, v4::OperationNumber::READ, &[putfh(b"of the data server"), read], &[done()]);
    assert_eq!(path.as_deref(), Some("/d/f"));
}
