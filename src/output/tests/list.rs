use nfsrdma_analysis::memory_budget_shares::CommandMemoryBudget;
use nfsrdma_analysis::names::{FileNames, FilehandleDisplay};
use nfsrdma_dissectors::address::Address;
use nfsrdma_flow::Transaction;
use nfsrdma_flow::transaction::ChunkListCompleteness;

use super::{capture, transactions};
use crate::output::settings::TimeFormat;
use crate::output::style::{Glyphs, TerminalOutputStyles, TerminalProfile, columns};
use crate::output::transaction_list::TransactionListWriter;

fn list_as(name: &str, screen: TerminalProfile, time: TimeFormat) -> String {
    list_with(name, screen, time, FilehandleDisplay::Names)
}

fn list_with(name: &str, screen: TerminalProfile, time: TimeFormat, filehandles: FilehandleDisplay) -> String {
    let (mut list, mut names) = (
        TransactionListWriter::new(screen, time),
        FileNames::new(filehandles, CommandMemoryBudget::default().names_bytes()),
    );
    list.start(capture(name).next().unwrap().unwrap().time);
    let mut out = Vec::new();
    for transaction in transactions(name) {
        transaction
            .with_messages(|reading| {
                let facts = reading.summary();
                names.infer(&transaction, reading, &facts);
                list.transaction(&mut out, &transaction, reading, &facts, &names, (&[], None))
            })
            .unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn list(name: &str, screen: TerminalProfile) -> String {
    list_as(name, screen, TimeFormat::Relative)
}

/// Returns the line that contains the operation.
fn line(list: &str, operation: &str) -> String {
    list.lines().find(|line| line.contains(operation)).unwrap_or_default().trim().to_owned()
}

/// RFC 7530 section 15.2: a COMPOUND with the result of one of its two operations only. JSON and the summary call it a
/// wrong result, too.
#[test]
fn status_of_too_few_results() {
    for screen in [TerminalProfile::pipe(), TerminalProfile::terminal(120), TerminalProfile::terminal(80)] {
        let line = line(&list("cases/too-few-results.pcap", screen), "REMOVE");
        assert!(line.ends_with(" wrong result"), "{line}");
    }
}

/// RFC 5666 section 3.5: a Reply may offer its data in Read chunks.
#[test]
fn the_read_list_of_a_reply_is_among_the_chunks() {
    use crate::output::transaction_list;
    let mut transaction = transactions("rxe-v42.pcap")
        .into_iter()
        .find(|transaction| transaction.write_chunks.iter().any(|chunk| chunk.moved_bytes() > 0))
        .unwrap();
    let (mut before, bytes) = (String::new(), transaction_list::wire_bytes(&transaction));
    transaction_list::chunks(&transaction, false, &mut before);
    transaction.reply_read_chunks = std::mem::take(&mut transaction.write_chunks);
    let mut text = String::new();
    transaction_list::chunks(&transaction, false, &mut text);
    assert_eq!((text.replacen("rR", "W", 1), text.contains("rR")), (before, true));
    assert_eq!(transaction_list::wire_bytes(&transaction), bytes);
}

/// RFC 8166 section 4.3: if the lists of a Call were truncated, more chunks may follow.
#[test]
fn lists_that_were_cut_are_not_shown_as_empty() {
    use crate::output::transaction_list;
    let cut = transactions("rxe-v42-snap128.pcap");
    let is_cut = |transaction: &&Transaction| {
        transaction.call.as_ref().is_some_and(|call| call.chunk_lists() == Some(ChunkListCompleteness::Cut))
    };
    assert!(cut.iter().filter(is_cut).count() > 0);
    for transaction in &cut {
        let mut text = String::new();
        transaction_list::chunks(transaction, true, &mut text);
        assert_eq!(text.ends_with('?'), is_cut(&transaction), "{text}");
    }
}

/// A truncated number would read as another number.
#[test]
fn a_narrow_column_cuts_no_number_of_chunks() {
    use crate::output::transaction_list;
    let mut rounded = 0;
    for transaction in &transactions("rxe-v42.pcap") {
        let mut text = String::new();
        transaction_list::chunks(transaction, true, &mut text);
        let kinds = text.split(' ').filter(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic())).count();
        assert!(text.len() <= 13 * kinds + kinds.saturating_sub(1), "{text}");
        rounded += usize::from(text == "r 1176/65644");
    }
    assert_eq!(rounded, 1, "the second READDIR returned 1,176 of 65,644 bytes");
}

#[test]
fn a_list_of_80_columns() {
    insta::assert_snapshot!(list("rxe-v42-deleg.pcap", TerminalProfile::terminal(80)));
}

#[test]
fn a_list_of_120_columns() {
    insta::assert_snapshot!(list("rxe-v42-deleg.pcap", TerminalProfile::terminal(120)));
}

#[test]
fn a_list_in_a_pipe() {
    insta::assert_snapshot!(list("rxe-v42-deleg.pcap", TerminalProfile::pipe()));
}

/// Returns the list in a pipe, with the clients replaced by `client`.
fn piped_list(client: impl Fn(usize) -> Option<Address>) -> String {
    let mut list = TransactionListWriter::new(TerminalProfile::pipe(), TimeFormat::Relative);
    let mut out = Vec::new();
    for (at, mut transaction) in transactions("rxe-v42-deleg.pcap").into_iter().enumerate() {
        if let Some(address) = client(at) {
            transaction.connection.client.address = address;
        }
        let names = FileNames::default();
        transaction
            .with_messages(|reading| {
                list.transaction(&mut out, &transaction, reading, &reading.summary(), &names, (&[], None))
            })
            .unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn an_ipv6_client_leaves_the_columns_of_a_pipe_in_line() {
    let clients: [Address; 4] = [
        "fe80::1",
        "2001:db8::17",
        "2001:db8:1234:5678:9abc:def0:1234:5678",
        "2001:0db8:1234:5678:9abc:def0:1234:5678",
    ]
    .map(|text| Address::Ip(text.parse().unwrap()));
    let xid_at = |line: &str| line.find(" 0x").or(line.find(" XID")).unwrap();
    // The shortest address comes first.
    let list = piped_list(|at| Some(clients[at % clients.len()]));
    let at: Vec<usize> = list.lines().map(xid_at).collect();
    assert!(at.len() > 20 && at.iter().all(|place| *place == at[0]), "{list}");
    // Only the first IPv6 address moves the columns of a list that begins with IPv4.
    let list = piped_list(|at| (at >= 5).then_some(clients[at % clients.len()]));
    let at: Vec<usize> = list.lines().map(xid_at).collect();
    let (before, after) = at.split_at(at.iter().position(|place| *place > at[0]).unwrap());
    assert!(before.len() == 6 && before.iter().all(|place| *place == before[0]), "{list}");
    // RFC 5952: the longest text of an address has eight groups of four digits.
    assert!(after.len() > 15 && after.iter().all(|place| *place == before[0] + 39 - 15), "{list}");
}

#[test]
fn a_list_of_nfsv3_with_nfsacl_and_errors() {
    insta::assert_snapshot!(list("rxe-v3.pcap", TerminalProfile::terminal(100)));
}

#[test]
fn no_line_is_wider_than_the_terminal_and_columns_stay_in_their_places() {
    for name in ["rxe-v42.pcap", "rxe-v42-loss.pcap", "rxe-v42-snap128.pcap", "rxe-v3.pcap"] {
        for width in [20, 40, 56, 68, 80, 100, 108, 120, 150, 180, 200] {
            for time in [TimeFormat::Relative, TimeFormat::AbsoluteDate] {
                let list = list_as(name, TerminalProfile::terminal(width), time);
                let widest = list.lines().map(columns).max().unwrap();
                assert!(widest <= width, "{name} at {width}: {widest}");
            }
        }
    }
    let list = list("rxe-v42.pcap", TerminalProfile::terminal(120));
    let mut lines = list.lines();
    let at = columns(lines.next().unwrap().split_once("OPERATION").unwrap().0);
    for line in lines {
        let before: String = line.chars().take(at).collect();
        assert!(before.ends_with(' '), "{line}");
    }
}

#[test]
fn the_least_important_columns_are_omitted_first_on_narrow_terminals() {
    let header =
        |width| list("rxe-v42-deleg.pcap", TerminalProfile::terminal(width)).lines().next().unwrap().to_owned();
    let names = |width| header(width).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(names(40), "OPERATION LATENCY STATUS");
    assert_eq!(names(48), "TIME OPERATION LATENCY STATUS");
    assert_eq!(names(60), "TIME OPERATION CHUNKS LATENCY STATUS");
    assert_eq!(names(80), "TIME VERS OPERATION CHUNKS LATENCY STATUS");
    assert_eq!(names(100), "TIME CONN XID VERS OPERATION CHUNKS LATENCY STATUS");
    assert_eq!(names(120), "TIME CONN XID VERS OPERATION CHUNKS BYTES LATENCY STATUS");
    assert_eq!(names(200), "TIME FRAME CONN CLIENT XID VERS OPERATION CHUNKS BYTES LATENCY STATUS");
}

/// Returns the list with `--filehandles none`.
fn nameless(name: &str) -> String {
    list_with(name, TerminalProfile::pipe(), TimeFormat::Relative, FilehandleDisplay::Off)
}

#[test]
fn the_principal_operation_of_a_compound_is_shown_with_details() {
    let list = nameless("rxe-v42.pcap");
    let operation = |begin: &str| {
        let line = line(&list, begin);
        let at = line.find(begin).unwrap();
        line[at..].split("  ").next().unwrap().to_owned()
    };
    assert_eq!(operation("READ 0+4096 len 2000"), "READ 0+4096 len 2000 EOF");
    assert_eq!(operation("WRITE 131072"), "WRITE 131072+4096 UNSTABLE");
    assert_eq!(operation("OPEN \"s8k\""), "OPEN \"s8k\" CREATE W");
    assert_eq!(operation("OPEN \"nothere\""), "OPEN \"nothere\" R");
    assert_eq!(operation("RENAME"), "RENAME \"hard\" → \"hard2\"");
    assert_eq!(operation("CREATE \"sl\""), "CREATE \"sl\" LNK → \"s100\"");
    assert_eq!(operation("CREATE \"fifo\""), "CREATE \"fifo\" FIFO");
    assert_eq!(operation("READLINK"), "READLINK → \"s100\"");
    assert_eq!(operation("READDIR 286"), "READDIR 286 entries");
    assert_eq!(operation("READDIR from"), "READDIR from 1462 14 entries EOF");
    assert_eq!(operation("SETXATTR \"big\""), "SETXATTR \"big\" 4000 bytes");
    assert_eq!(operation("LOCK 20"), "LOCK 20+5 READW");
    assert_eq!(operation("LOCKU 0+∞"), "LOCKU 0+∞ WRITE");
    assert_eq!(operation("SEEK DATA"), "SEEK DATA 8192 → 131072");
    assert_eq!(operation("COPY"), "COPY 0+8192 → 0");
    assert_eq!(operation("SETATTR mode"), "SETATTR mode 0600");
    assert_eq!(operation("SETATTR owner"), "SETATTR owner 1000 group 1001");
    assert_eq!(operation("ACCESS RD MD"), "ACCESS RD MD XT XE XA → RD MD XT XA");
    assert_eq!(operation("CREATE_SESSION"), "CREATE_SESSION 64 slots");
    assert_eq!(operation("EXCHANGE_ID"), "EXCHANGE_ID \"Linux NFSv4.2 client\"");
    assert_eq!(operation("GETATTR maxlink"), "GETATTR maxlink maxname");
    assert_eq!(operation("LOOKUP \"data\""), "LOOKUP \"data\"");
}

#[test]
fn procedures_of_nfsv3_are_shown_with_details() {
    let list = nameless("rxe-v3.pcap");
    for expected in [
        "READDIRPLUS 302 entries EOF",
        "MKNOD \"fifo\" FIFO",
        "CREATE \"sparse\" UNCHECKED",
        "SYMLINK \"sl\" → \"s100\"",
        "RENAME \"hard\" → \"hard2\"",
        "SETATTR size 200000 times",
        "ACCESS RD LU MD XT DL → none",
        "LINK \"hard\"",
        "MKDIR \"w\"",
    ] {
        assert!(list.contains(&format!("  {expected}  ")), "{expected}");
    }
}

#[test]
fn errors_are_shown_without_their_common_prefix() {
    let list = nameless("rxe-v42.pcap");
    assert!(line(&list, "REMOVE \"w\"").ends_with("  NOTEMPTY"));
    assert!(line(&list, "OPEN \"nothere\"").ends_with("  NOENT"));
    assert!(line(&list, "LOCK 0+10").ends_with("  GRACE"));
}

#[test]
fn statuses_of_nlm_are_shown_without_their_prefix() {
    let list = list("rxe-v3.pcap", TerminalProfile::terminal(100));
    assert!(!list.contains("NLM4_") && list.contains(" DENIED_GRACE"), "{list}");
}

#[test]
fn files_are_shown_by_their_paths() {
    let list = list("rxe-v42.pcap", TerminalProfile::pipe());
    for expected in [
        "READ /data/w/s2k 0+4096 len 2000 EOF",
        "OPEN /data/w/s8k CREATE W",
        "LOOKUP /data",
        "RENAME /data/w/hard → sub/hard2",
        "COPY /data/w/s8k 0+8192 → copy8k 0",
        "REMOVE /data/w/s100",
        "CLOSE /data/w/s100",
    ] {
        let expected = expected.replace("sub/hard2", "/data/w/sub/hard2");
        assert!(list.contains(&format!("  {expected}  ")), "{expected} in {list}");
    }
}

#[test]
fn auxiliary_programs_are_shown_with_their_objects() {
    let list = list("rxe-v3.pcap", TerminalProfile::pipe());
    for expected in [
        "GETPORT MOUNT 3 tcp → 39883",
        "MNT /export",
        "LOCK /export/data/w/s100 20+5 shared wait client",
        "UNLOCK /export/data/w/s100 0+∞ client",
        "GETACL /export/data dfacl dfaclcnt",
        "RENAME /export/data/w/hard → /export/data/w/sub/hard2",
        "LINK /export/data/w/s100 → hard",
        "READDIRPLUS /export/data/many300 302 entries EOF",
    ] {
        assert!(list.contains(&format!("  {expected}  ")), "{expected} in {list}");
    }
}

#[test]
fn a_path_is_shortened_for_the_details_after_it() {
    let list = list("rxe-v3.pcap", TerminalProfile::terminal(83));
    assert!(list.contains(" READ …/d12345 10000+4096 len… "), "{list}");
    assert!(list.contains(" ACCESS …/s100 RD MD XT XE → … "), "{list}");
    assert!(list.contains(" LOOKUP /export/data/w/s100  "), "{list}");
}

#[test]
fn filehandles_are_shown_by_wiresharks_hash_or_in_hexadecimal() {
    let list = |how| list_with("rxe-v3.pcap", TerminalProfile::pipe(), TimeFormat::Relative, how);
    // tshark -r rxe-v3.pcap -Y 'rpc.xid == 0xa78d6284' -T fields -e nfs.fh.hash
    let (hash, hex) = (list(FilehandleDisplay::Hash), list(FilehandleDisplay::Hex));
    assert!(hash.contains("  LOOKUP 0x62d40c52/data  "), "{hash}");
    assert!(hex.contains("  LOOKUP 0x0100010000000000/data  "), "{hex}");
}

#[test]
fn both_filehandles_of_a_copy_are_shown_in_full() {
    let list = list_with("rxe-v42.pcap", TerminalProfile::pipe(), TimeFormat::Relative, FilehandleDisplay::Hash);
    // tshark -r rxe-v42.pcap -Y 'nfs.opcode == 60' -T fields -e nfs.fh.hash
    assert!(list.contains("  COPY 0xc0c18a12 0+8192 → 0x47c7b027 0"), "{}", line(&list, "COPY"));
}

#[test]
fn retransmissions_and_missing_bytes_are_marked() {
    assert!(list("rxe-v42-loss.pcap", TerminalProfile::terminal(120)).contains("  ok reply×2\n"));
    let narrow = list("rxe-v42-snap128.pcap", TerminalProfile::terminal(80));
    assert!(narrow.contains(" 392 B missing\n") && !narrow.replace("missing", "").contains("mis"), "{narrow}");
    let piped = list("rxe-v42-snap128.pcap", TerminalProfile::pipe());
    assert!(piped.contains("  ok missing call:26-251 replychunk:58-223\n"), "{piped}");
}

#[test]
fn callbacks_have_a_reverse_arrow() {
    let list = list("rxe-v42-deleg.pcap", TerminalProfile::terminal(100));
    assert!(line(&list, "CB_RECALL").contains(" ←4.2  CB_RECALL "));
    let ascii = TerminalProfile { glyphs: Glyphs::ASCII, ..TerminalProfile::terminal(100) };
    let list = super::list::list("rxe-v42-deleg.pcap", ascii);
    assert!(line(&list, "CB_RECALL").contains(" <-4.2 CB_RECALL "));
    assert!(list.is_ascii());
}

#[test]
fn colours_change_nothing_but_colours() {
    let colored = list(
        "rxe-v42.pcap",
        TerminalProfile { styles: TerminalOutputStyles::colored(), ..TerminalProfile::terminal(100) },
    );
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, code)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = code.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, list("rxe-v42.pcap", TerminalProfile::terminal(100)));
    assert!(colored.contains("\u{1b}[1m\u{1b}[31mNOENT\u{1b}[0m"));
}
