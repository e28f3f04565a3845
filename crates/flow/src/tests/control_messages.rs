//! Control messages of RPCSEC_GSS in a Transaction. RFC 2203 section 5.2, RFC 7861 section 2.7.

use super::message::Rdma;
use super::*;

/// Observer that collects the names of the fields.
#[derive(Default)]
struct Names(Vec<&'static str>);

impl<'a> FieldObserver<'a> for Names {
    fn enter(&mut self, _: &'static FieldDefinition, _: usize) {}
    fn leave(&mut self, _: usize) {}
    fn value(&mut self, field: &'static FieldDefinition, _: Range<usize>, _: FieldValue<'a>) {
        self.0.push(field.name);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A NULL Call of NFSv4 with an RPCSEC_GSS credential, and its Reply.
fn exchange(version: u32, procedure: u32, service: u32, arguments: &[u8], results: &[u8]) -> Frames {
    let call = words(&[7, 0, 2, 100_003, 4, 0, 6, 20, version, procedure, 0, service, 0, 0, 0]);
    let reply = words(&[7, 1, 0, 0, 0, 0]);
    let mut link = Link::new(17);
    [
        link.send(Client, &Rdma::new(7, [&call[..], arguments].concat())),
        link.send(Server, &Rdma::new(7, [&reply[..], results].concat())),
    ]
    .concat()
}

/// Asserts that both messages decode to the last field, and re-encode to their own bytes.
fn reports(frames: &[Vec<u8>], call: &str, reply: &str) {
    let outcome = run(frames);
    let [transaction] = &outcome.transactions[..] else { panic!("{:?}", outcome.lines()) };
    transaction.with_messages(|reading| {
        for (which, last) in [(RpcMessageKind::Call, call), (RpcMessageKind::Reply, reply)] {
            let mut names = Names::default();
            reading.observe(which, &mut names).unwrap();
            assert_eq!(names.0.last(), Some(&last), "{names:?}", names = names.0);
            let again = reading.reencode(which).unwrap().unwrap();
            assert!(again.header.is_same() && again.message.is_same(), "{again:?}");
        }
    });
}

#[test]
fn rfc2203_section_5_2_a_context_is_created() {
    let token = b"\0\0\0\x05token\0\0\0";
    let results = [b"\0\0\0\x04ctx1\0\0\0\0\0\0\0\0\0\0\0\x80", &token[..]].concat();
    reports(&exchange(1, 1, 1, token, &results), "rpc.authgss.token", "rpc.authgss.token");
}

#[test]
fn rfc7861_section_2_7_2_assertions_are_listed_under_integrity() {
    let arguments = b"\0\0\0\x0c\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x04mic!";
    let results = b"\0\0\0\x10\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x04mic!";
    reports(&exchange(3, 6, 2, arguments, results), "rpc.authgss.checksum", "rpc.authgss.checksum");
}
