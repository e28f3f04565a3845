//! A listing that the live server divides into more replies than the captured one: its position, and its replies joined
//! into one.

use std::time::Instant;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Entry4, Readdir4Resok, Results};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion, v3};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::xdr::{Cursor, Encoder, XdrLinkedList};
use nfsrdma_rpc::TransportReply;
use rustc_hash::FxHashSet;

use super::super::rpc_header_splitting::{split_header, successful_results};

/// Names in a directory.
pub(super) type NameSet = FxHashSet<Box<[u8]>>;

/// A listing that is being continued.
#[derive(Debug)]
pub(super) struct ListingContinuation {
    /// Cookie and verifier of the next READDIR.
    pub(super) position: ListingPosition,
    /// Replies so far.
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) first_sent: Instant,
    /// Names that the captured listing has and the live one not yet; `None` if the captured one has ended, so that all
    /// names are wanted.
    pub(super) missing_names: Option<NameSet>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListingPosition {
    pub(super) cookie: u64,
    pub(super) verifier: [u8; 8],
}

/// Names of a listing in a reply, and its end.
pub(super) struct ListingPart<'a> {
    pub(super) names: Vec<&'a [u8]>,
    pub(super) is_end: bool,
    /// Position after its last entry, if it has any.
    pub(super) position: Option<ListingPosition>,
}

impl<'a> ListingPart<'a> {
    fn new(entries: impl Iterator<Item = (&'a [u8], u64)>, verifier: [u8; 8], is_end: bool) -> Self {
        let mut last = None;
        let names = entries.map(|(name, cookie)| {
            last = Some(cookie);
            name
        });
        let names = names.collect();
        Self { names, is_end, position: last.map(|cookie| ListingPosition { cookie, verifier }) }
    }
}

/// Returns the listing in a reply; `None` if there is none, or if anything in the reply failed.
pub(super) fn listing_part(procedure: Option<Procedure>, cursor: Cursor<'_>) -> Option<ListingPart<'_>> {
    let mut cursor = successful_results(cursor)?;
    match procedure? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            if reply.head.status != v4::Nfsstat4::NFS4_OK {
                return None;
            }
            reply.operations().map_while(Result::ok).find_map(|results| match results {
                Results::READDIR(StatusUnion::Ok(ok)) => {
                    let entries = ok.reply.entries.iter().map(|entry| (entry.name.0, entry.cookie));
                    Some(ListingPart::new(entries, ok.cookieverf, ok.reply.eof))
                }
                _ => None,
            })
        }
        Procedure::V3(procedure) => match v3::Results::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
            v3::Results::READDIR(StatusUnion::Ok(ok)) => {
                let entries = ok.reply.entries.iter().map(|entry| (entry.name.0, entry.cookie));
                Some(ListingPart::new(entries, ok.cookieverf, ok.reply.eof))
            }
            v3::Results::READDIRPLUS(StatusUnion::Ok(ok)) => {
                let entries = ok.reply.entries.iter().map(|entry| (entry.name.0, entry.cookie));
                Some(ListingPart::new(entries, ok.cookieverf, ok.reply.eof))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the last reply with the entries of all.
pub(super) fn join_replies(
    procedure: Option<Procedure>,
    parts: &[Vec<u8>],
    reply: &TransportReply<'_>,
) -> Option<Vec<u8>> {
    let (header, mut cursor) = split_header(reply.message, reply.payloads.items())?;
    let mut encoder = Encoder::new();
    encoder.raw(header);
    let parts = parts.iter().filter_map(|message| successful_results(Cursor::new(message)));
    match procedure? {
        Procedure::Compound => {
            let reply = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver).ok()?;
            let mut entries: Vec<Entry4<'_>> = Vec::new();
            for mut part in parts {
                let part = v4::CompoundReply::decode(&mut part, &mut NullFieldObserver).ok()?;
                for results in part.operations() {
                    if let Results::READDIR(StatusUnion::Ok(ok)) = results.ok()? {
                        entries.extend(ok.reply.entries.iter());
                    }
                }
            }
            let results: Vec<_> = reply.operations().collect::<Result<_, _>>().ok()?;
            for result in &results {
                if let Results::READDIR(StatusUnion::Ok(ok)) = result {
                    entries.extend(ok.reply.entries.iter());
                }
            }
            let joined = |result| match result {
                Results::READDIR(StatusUnion::Ok(ok)) => {
                    let list = v4::Dirlist4 { entries: XdrLinkedList::from(&entries[..]), ..ok.reply };
                    Results::READDIR(StatusUnion::Ok(Readdir4Resok { reply: list, ..ok }))
                }
                result => result,
            };
            let joined: Vec<_> = results.into_iter().map(joined).collect();
            v4::CompoundReply::new(reply.head.clone(), &joined).encode(&mut encoder);
        }
        Procedure::V3(procedure) => {
            let last = v3::Results::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()?;
            let mut earlier = Vec::new();
            for mut part in parts {
                earlier.push(v3::Results::decode(procedure, &mut part, &mut NullFieldObserver).ok()?);
            }
            match last {
                v3::Results::READDIR(StatusUnion::Ok(ok)) => {
                    let mut entries = Vec::new();
                    for part in &earlier {
                        let v3::Results::READDIR(StatusUnion::Ok(part)) = part else { return None };
                        entries.extend(part.reply.entries.iter());
                    }
                    entries.extend(ok.reply.entries.iter());
                    let reply = v3::Dirlist3 { entries: XdrLinkedList::from(&entries[..]), eof: ok.reply.eof };
                    v3::Results::READDIR(StatusUnion::Ok(v3::Readdir3Resok { reply, ..ok })).encode(&mut encoder);
                }
                v3::Results::READDIRPLUS(StatusUnion::Ok(ok)) => {
                    let mut entries = Vec::new();
                    for part in &earlier {
                        let v3::Results::READDIRPLUS(StatusUnion::Ok(part)) = part else { return None };
                        entries.extend(part.reply.entries.iter());
                    }
                    entries.extend(ok.reply.entries.iter());
                    let reply = v3::Dirlistplus3 { entries: XdrLinkedList::from(&entries[..]), eof: ok.reply.eof };
                    v3::Results::READDIRPLUS(StatusUnion::Ok(v3::Readdirplus3Resok { reply, ..ok }))
                        .encode(&mut encoder);
                }
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(encoder.finish().0)
}

/// Returns `true` if the message contains the number of NFS4ERR_DELAY, NFS4ERR_GRACE or NFS3ERR_JUKEBOX anywhere. Most
/// do not and need not be decoded.
pub(super) fn may_contain_delay(message: &[u8]) -> bool {
    message.chunks_exact(4).any(|word| matches!(word, [0, 0, 0x27, 0x18 | 0x1d]))
}

/// Returns `true` if an entry of READDIR has NFS4ERR_DELAY as its rdattr_error, for example because another client has
/// a delegation of the file. RFC 8881 section 5.8.1.12. The cursor is at the start of the message.
pub(super) fn has_delayed_entry(message: &[u8], mut cursor: Cursor<'_>) -> bool {
    if !may_contain_delay(message) || rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).is_err() {
        return false;
    }
    let Ok(reply) = v4::CompoundReply::decode(&mut cursor, &mut NullFieldObserver) else { return false };
    reply.operations().map_while(Result::ok).any(|results| {
        let Results::READDIR(StatusUnion::Ok(ok)) = results else { return false };
        ok.reply.entries.iter().any(|entry| {
            let mut attributes = entry.attrs.items().map_while(Result::ok);
            attributes.any(|attribute| attribute == v4::Attribute::RDATTR_ERROR(v4::Nfsstat4::NFS4ERR_DELAY))
        })
    })
}
