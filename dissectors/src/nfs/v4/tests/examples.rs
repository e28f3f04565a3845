//! An example of every operation, result, callback operation and callback result, with its hand-written encoding from
//! the XDR of the RFC: hexadecimal, `'text'` for text bytes, `$name` for a [component](PIECES).

mod callbacks;
mod contents;
mod layouts;
mod objects;
mod sessions;
mod state;

use super::super::*;
use crate::nfs::StatusUnion;
use crate::xdr::{Ddp, DdpText, Opaque, ReadPlusDdpEligibleData, Text, Void, XdrArray, XdrLinkedList};

const SECONDS: Nfstime4 = Nfstime4 { seconds: 1_700_000_000, nseconds: 7 };
const SPAN: Duration4 = Duration4 { seconds: 1_700_000_000, nseconds: 7 };
const STATEID: Stateid4 = Stateid4 { seqid: 1, other: *b"twelve bytes" };
const CINFO: ChangeInfo4 = ChangeInfo4 { atomic: true, before: 1, after: 2 };
const VERIFIER: Verifier4 = *b"verifier";
const SESSION: Sessionid4 = *b"session of a box";
const DEVICE: Deviceid4 = *b"a device id is16";
const OWNER: LockOwner4<'_> = LockOwner4 { clientid: 5, owner: Opaque(b"owner") };
const FH: NfsFh4<'_> = Opaque(&[1, 0, 1, 0x81]);
const NAME: Text<'_> = Text(b"name");
const ACE: Nfsace4<'_> = Nfsace4 {
    r#type: Acetype4::ACE4_ACCESS_ALLOWED_ACE_TYPE,
    flag: Aceflag4::ACE4_FILE_INHERIT_ACE,
    access_mask: Acemask4::ACE4_READ_DATA,
    who: Text(b"OWNER@"),
};
const FILES: Layouttype4 = Layouttype4::LAYOUT4_NFSV4_1_FILES;

/// Leaks a slice.
pub(super) fn slice<T>(items: impl Into<Vec<T>>) -> &'static [T] {
    Box::leak(items.into().into_boxed_slice())
}

fn list<T: Clone, const BOUND: u32>(items: impl Into<Vec<T>>) -> XdrArray<'static, T, BOUND> {
    XdrArray::from(slice(items))
}

fn bitmap<N>(words: &[u32]) -> Bitmap4<'static, N> {
    Bitmap4::from(slice(words))
}

fn masked<T: BitmapKeyedValue<'static, Names = N> + 'static, N: BitNames>(
    items: &[T],
) -> BitmapKeyedValues<'static, T, N> {
    let (words, values) = mask_and_values(items);
    BitmapKeyedValues::new(bitmap(&words), Opaque(slice(values)))
}

fn fattr() -> Fattr4<'static> {
    masked(&[Attribute::SIZE(42), Attribute::OWNER(Text(b"root"))])
}

fn netaddr() -> Netaddr4<'static> {
    Netaddr4 { na_r_netid: Text(b"rdma"), na_r_addr: UniversalAddress(Text(b"192.0.2.1.78.81")) }
}

fn channel_attrs() -> ChannelAttrs4<'static> {
    ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1_049_620,
        ca_maxresponsesize: 1_049_480,
        ca_maxresponsesize_cached: 7584,
        ca_maxoperations: 8,
        ca_maxrequests: 64,
        ca_rdma_ird: list([16]),
    }
}

fn sec_parms() -> XdrArray<'static, CallbackSecParms4<'static>> {
    list([
        CallbackSecParms4::None,
        CallbackSecParms4::Sys(AuthsysParms {
            stamp: 1,
            machinename: Text(b"client"),
            uid: 0,
            gid: 0,
            gids: list([10, 20]),
        }),
        CallbackSecParms4::Gss(GssCbHandles4 {
            gcbp_service: RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
            gcbp_handle_from_server: Opaque(b"s"),
            gcbp_handle_from_client: Opaque(b"cc"),
        }),
    ])
}

fn protect_ops() -> StateProtectOps4<'static> {
    StateProtectOps4 { spo_must_enforce: bitmap(&[0, 0x3800]), spo_must_allow: bitmap(&[0x10]) }
}

fn write_delegation() -> OpenWriteDelegation4<'static> {
    OpenWriteDelegation4 {
        stateid: STATEID,
        recall: false,
        space_limit: NfsSpaceLimit4::Blocks(NfsModifiedLimit4 { num_blocks: 1, bytes_per_block: 4096 }),
        permissions: ACE,
    }
}

fn write_response() -> WriteResponse4<'static> {
    WriteResponse4 {
        wr_callback_id: list([STATEID]),
        wr_count: 4096,
        wr_committed: StableHow4::FILE_SYNC4,
        wr_writeverf: VERIFIER,
    }
}

fn locations() -> XdrArray<'static, Netloc4<'static>> {
    list([Netloc4::Name(Text(b"host")), Netloc4::Url(Text(b"nfs://host/")), Netloc4::Netaddr(netaddr())])
}

/// Components common to several examples.
const PIECES: [(&str, &str); 24] = [
    ("stateid", "00000001 'twelve bytes'"),
    ("time", "00000000 6553f100 00000007"),
    ("cinfo", "00000001 00000000 00000001 00000000 00000002"),
    ("verifier", "'verifier'"),
    ("session", "'session of a box'"),
    ("device", "'a device id is16'"),
    ("owner", "00000000 00000005 00000005 'owner' 000000"),
    ("fh", "00000004 01000181"),
    ("name", "00000004 'name'"),
    ("ace", "00000000 00000001 00000001 00000006 'OWNER@' 0000"),
    ("fattr", "00000002 00000010 00000010 00000010 00000000 0000002a 00000004 'root'"),
    ("netaddr", "00000004 'rdma' 0000000f '192.0.2.1.78.81' 00"),
    ("chan", "00000000 00100414 00100388 00001da0 00000008 00000040 00000001 00000010"),
    (
        "sec",
        "00000003 00000000 00000001 00000001 00000006 'client' 0000 00000000 00000000 00000002 0000000a 00000014 00000006 00000002 00000001 's' 000000 00000002 'cc' 0000",
    ),
    ("ops", "00000002 00000000 00003800 00000001 00000010"),
    ("open", "00000000 00000003 00000000 00000000 00000005 00000008 'open id:'"),
    ("read_delegation", "$stateid 00000001 $ace"),
    ("write_delegation", "$stateid 00000000 00000002 00000001 00001000 $ace"),
    ("write_response", "00000001 $stateid 00000000 00001000 00000002 $verifier"),
    ("locations", "00000003 00000001 00000004 'host' 00000002 0000000b 'nfs://host/' 00 00000003 $netaddr"),
    ("netaddr6", "00000005 'rdma6' 000000 0000000d 'fd00::1.78.81' 000000"),
    ("segment", "00000000 00000000 ffffffff ffffffff 00000001"),
    (
        "latency",
        "00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004 00000000 00000005 $time $time",
    ),
    ("flex_update", "$netaddr $fh $latency $latency $time 00000001"),
];

/// Parses a hand-written encoding.
pub(in crate::nfs::v4) fn laid(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let token;
        if first == '\'' {
            (token, rest) = rest[1..].split_once('\'').expect("text ends with a quote");
            bytes.extend_from_slice(token.as_bytes());
        } else {
            (token, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(name) = token.strip_prefix('$') {
                let (_, piece) = PIECES.iter().find(|(piece, _)| *piece == name).expect(name);
                bytes.extend(laid(piece));
            } else {
                let byte = |at| u8::from_str_radix(&token[at..at + 2], 16).expect(token);
                bytes.extend((0..token.len()).step_by(2).map(byte));
            }
        }
        rest = rest.trim_start();
    }
    bytes
}

/// Returns the arguments of every operation, some in several forms.
pub(super) fn every_call() -> Vec<(Args<'static>, &'static str)> {
    let rooms = [objects::calls(), contents::calls(), state::calls(), sessions::calls(), layouts::calls()];
    let mut all = rooms.concat();
    all.sort_by_key(|(body, _)| body.number());
    all
}

/// Returns the results of every operation, some in several forms.
pub(super) fn every_reply() -> Vec<(Results<'static>, &'static str)> {
    let rooms = [objects::replies(), contents::replies(), state::replies(), sessions::replies(), layouts::replies()];
    let mut all = rooms.concat();
    all.sort_by_key(|(body, _)| body.number());
    all
}

/// Returns the arguments of every callback operation, some in several forms.
pub(super) fn every_callback() -> Vec<(CbArgs<'static>, &'static str)> {
    callbacks::calls()
}

/// Returns the results of every callback operation.
pub(super) fn every_callback_reply() -> Vec<(CbResults<'static>, &'static str)> {
    callbacks::replies()
}
