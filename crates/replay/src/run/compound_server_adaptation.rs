//! Rewrites a COMPOUND for the live server: the root becomes the run's directory, and unsupported attributes are left
//! out.
//!
//! PUTROOTFH becomes PUTFH with the filehandle of the run's directory. A mode with a umask (RFC 8275) becomes the
//! resulting mode. SETCLIENTID gets the callback address of this run. An OPEN requests what it was granted in the
//! capture ([`captured_open_grants`](super::captured_open_grants)). Everything else is kept, byte for byte if nothing
//! changes.

use std::net::SocketAddr;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, BitNames, Bitmap4, CbClient4, Close4Args, CompoundCall, Createhow4,
    ExchangeId4Args, ExchangeIdFlags, Fattr4, Getattr4Args, Mode4, Netaddr4, ObjectFh4, Open4Args,
    OpenClaim4, Openflag4, Readdir4Args, Setclientid4Args, ShareAccess, StateProtect4A, mask_and_values,
    words_for_bits,
};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::rpc::universal_address::{self, UniversalAddress};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text};

use super::captured_open_grants::CapturedStepOpenGrants;
use super::engine::OperationWithSubstituteOpenStateid;
use crate::trace::TraceMessage;
use crate::trace::value_substitution::TracePayloadInMessage;

/// Properties of the live server and the run that a COMPOUND is rewritten for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompoundRewriteContext<'a> {
    /// Filehandle that replaces the root.
    pub(super) root: &'a [u8],
    /// Mask words of the server's attributes; `None` if unknown.
    pub(super) supported: Option<&'a [u32]>,
    /// State that the OPENs of the COMPOUND were granted in the capture.
    pub(super) opens: &'a CapturedStepOpenGrants,
    /// `true` if the captured Call used RPCSEC_GSS and this one uses AUTH_SYS.
    pub(super) is_unsigned: bool,
    /// Callback address of this run, if it has one.
    pub(super) callback: Option<SocketAddr>,
    /// Operations that use the stateid of an open in place of a delegation's.
    pub(super) substituted_stateids: &'a [OperationWithSubstituteOpenStateid],
}

/// Changes made to a COMPOUND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AppliedCompoundChangeFlags {
    /// `true` if PUTROOTFH was replaced.
    pub(super) has_replaced_root: bool,
    /// `true` if attributes were left out or changed.
    pub(super) has_changed_attributes: bool,
    /// `true` if an OPEN requests what it was granted in the capture.
    pub(super) has_changed_wants: bool,
}

/// OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS and OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION. RFC 9754 sections 4 and 5.
const DELEGATION_OFFER_BITS: u32 = 0x0030_0000;

/// Replacement for an operation or its arguments.
enum OperationReplacement {
    Open(ShareAccess, Option<(Vec<u32>, Vec<u8>)>, ClaimsDelegationReplacedByOpen),
    /// CLOSE instead of DELEGRETURN, with the next seqid of the open-owner.
    Close(u32),
    Root,
    /// EXCHANGE_ID without state protection, which requires RPCSEC_GSS: NFS4ERR_INVAL otherwise (RFC 8881 section
    /// 18.35.3).
    Unprotected,
    Mask(Vec<u32>),
    Attributes(Vec<u32>, Vec<u8>),
    /// r_netid and r_addr. RFC 7530 section 2.2.10.
    Callback(&'static str, String),
}

/// `true` if OPEN claims a delegation that was replaced by an open; it then opens by name or filehandle.
type ClaimsDelegationReplacedByOpen = bool;

impl CompoundRewriteContext<'_> {
    fn borrowed(&self, at: usize) -> Option<&OperationWithSubstituteOpenStateid> {
        self.substituted_stateids.iter().find(|one| one.operation == at)
    }

    fn supports(&self, bit: u32) -> bool {
        is_sent_attribute(self.supported, bit)
    }

    fn supported_mask(&self, mask: &Bitmap4<'_>) -> Option<OperationReplacement> {
        if mask.iter().all(|bit| self.supports(bit)) {
            return None;
        }
        Some(OperationReplacement::Mask(words_for_bits(mask.iter().filter(|bit| self.supports(*bit)))))
    }

    /// Returns the attributes without those that the server does not support; if `is_undelegated`, also without the
    /// times that only a delegation holder sets (RFC 9754 section 5).
    fn attributes(&self, given: &Fattr4<'_>, is_undelegated: bool) -> Option<OperationReplacement> {
        let is_told = |bit: u32| {
            is_undelegated && matches!(bit, Attributes::TIME_DELEG_ACCESS | Attributes::TIME_DELEG_MODIFY)
        };
        if given.mask.iter().all(|bit| self.supports(bit) && !is_told(bit)) {
            return None;
        }
        let mut items = Vec::new();
        for item in given.items() {
            match item.ok()? {
                Attribute::MODE_UMASK(both) if !self.supports(Attributes::MODE_UMASK) => {
                    items.push((Attributes::MODE, Attribute::MODE(Mode4(both.mu_mode.0 & !both.mu_umask.0))));
                }
                item => {
                    let bit = nfsrdma_dissectors::nfs::v4::BitmapKeyedValue::number(&item);
                    if self.supports(bit) && !is_told(bit) {
                        items.push((bit, item));
                    }
                }
            }
        }
        items.sort_by_key(|(bit, _)| *bit);
        let items: Vec<_> = items.into_iter().map(|(_, item)| item).collect();
        let (words, values) = mask_and_values(&items);
        Some(OperationReplacement::Attributes(words, values))
    }

    fn replacement(&self, at: usize, operation: &Args<'_>) -> Option<OperationReplacement> {
        match operation {
            Args::PUTROOTFH(_) | Args::PUTPUBFH(_) => Some(OperationReplacement::Root),
            Args::EXCHANGE_ID(args) => {
                let is_protected = args.eia_state_protect != StateProtect4A::None;
                (self.is_unsigned && is_protected).then_some(OperationReplacement::Unprotected)
            }
            Args::SETCLIENTID(_) => self.callback.map(|at| {
                let address = SocketAddr::new(at.ip().to_canonical(), at.port());
                let netid = if address.is_ipv4() { "tcp" } else { "tcp6" };
                OperationReplacement::Callback(netid, universal_address::format_address(address))
            }),
            Args::GETATTR(args) => self.supported_mask(&args.attr_request),
            Args::READDIR(args) => self.supported_mask(&args.attr_request),
            Args::CREATE(args) => self.attributes(&args.createattrs, false),
            Args::SETATTR(args) => self.attributes(&args.obj_attributes, self.borrowed(at).is_some()),
            Args::DELEGRETURN(_) => self.borrowed(at).map(|one| OperationReplacement::Close(one.seqid)),
            Args::OPEN(args) => {
                let given = match &args.openhow {
                    Openflag4::Create(Createhow4::Unchecked(given) | Createhow4::Guarded(given)) => {
                        self.attributes(given, false)
                    }
                    Openflag4::Create(Createhow4::Exclusive41(both)) => {
                        self.attributes(&both.cva_attrs, false)
                    }
                    _ => None,
                };
                let given = match given {
                    Some(OperationReplacement::Attributes(words, values)) => Some((words, values)),
                    _ => None,
                };
                // A client may set these flags only for a server that supports OPEN_ARGUMENTS (RFC 9754 section 2).
                let offers =
                    if self.supports(Attributes::OPEN_ARGUMENTS) { 0 } else { DELEGATION_OFFER_BITS };
                let access = ShareAccess(self.opens.adjusted_access(at, args.share_access).0 & !offers);
                let is_claimed = self.borrowed(at).is_some()
                    && matches!(args.claim, OpenClaim4::DelegateCur(_) | OpenClaim4::DelegCurFh(_));
                (access != args.share_access || given.is_some() || is_claimed)
                    .then_some(OperationReplacement::Open(access, given, is_claimed))
            }
            _ => None,
        }
    }
}

/// Returns `true` if a Call to a server with these attributes (mask words; `None` if unknown) still names an attribute.
fn is_sent_attribute(supported: Option<&[u32]>, bit: u32) -> bool {
    // A server must support these. If it does not, its Replies differ. RFC 8881 section 5.1.
    if matches!(bit, Attributes::SUPPORTED_ATTRS..=Attributes::RDATTR_ERROR | Attributes::FILEHANDLE) {
        return true;
    }
    let word =
        |words: &[u32]| words.get((bit / 32) as usize).is_some_and(|word| word & (1 << (bit % 32)) != 0);
    supported.is_none_or(word)
}

/// Returns `false` if an operation of a recorded COMPOUND, by index, is a GETATTR or READDIR that did not request an
/// attribute when it was sent to a server with these attributes.
pub(super) fn may_return_attribute(
    call: &TraceMessage<'_>,
    supported: Option<&[u32]>,
    index: usize,
    attribute: &str,
) -> bool {
    let items = call.items();
    let mut cursor = call.body_cursor().with_chunks(&items);
    let Ok(call) = CompoundCall::decode(&mut cursor, &mut NullFieldObserver) else { return true };
    let mask = match call.operations().map_while(Result::ok).nth(index) {
        Some(Args::GETATTR(args)) => args.attr_request,
        Some(Args::READDIR(args)) => args.attr_request,
        _ => return true,
    };
    let mut sent = mask.iter().filter(|bit| is_sent_attribute(supported, *bit));
    sent.any(|bit| Attributes::name(bit) == Some(attribute))
}

/// Applies a replacement to an operation.
fn apply_replacement<'n>(operation: Args<'n>, new: &'n OperationReplacement, root: &'n [u8]) -> Args<'n> {
    match (operation, new) {
        (_, OperationReplacement::Root) => Args::PUTFH(ObjectFh4 { object: Opaque(root) }),
        (Args::EXCHANGE_ID(args), OperationReplacement::Unprotected) => {
            Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
                eia_flags: ExchangeIdFlags(
                    args.eia_flags.0 & !ExchangeIdFlags::EXCHGID4_FLAG_BIND_PRINC_STATEID.0,
                ),
                eia_state_protect: StateProtect4A::None,
                ..*args
            }))
        }
        (Args::SETCLIENTID(args), OperationReplacement::Callback(netid, address)) => {
            let cb_location = Netaddr4 {
                na_r_netid: Text(netid.as_bytes()),
                na_r_addr: UniversalAddress(Text(address.as_bytes())),
            };
            let callback = CbClient4 { cb_location, ..args.callback };
            Args::SETCLIENTID(Setclientid4Args { callback, ..args })
        }
        (Args::GETATTR(_), OperationReplacement::Mask(words)) => {
            Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&words[..]) })
        }
        (Args::READDIR(args), OperationReplacement::Mask(words)) => {
            Args::READDIR(Readdir4Args { attr_request: Bitmap4::from(&words[..]), ..args })
        }
        (Args::CREATE(mut args), OperationReplacement::Attributes(words, values)) => {
            args.createattrs = Fattr4::new(Bitmap4::from(&words[..]), Opaque(values));
            Args::CREATE(args)
        }
        (Args::SETATTR(mut args), OperationReplacement::Attributes(words, values)) => {
            args.obj_attributes = Fattr4::new(Bitmap4::from(&words[..]), Opaque(values));
            Args::SETATTR(args)
        }
        (Args::DELEGRETURN(args), OperationReplacement::Close(seqid)) => {
            Args::CLOSE(Close4Args { seqid: *seqid, open_stateid: args.deleg_stateid })
        }
        (Args::OPEN(args), OperationReplacement::Open(access, None, is_claimed)) => {
            Args::OPEN(open_with_access(args, *access, *is_claimed))
        }
        (Args::OPEN(args), OperationReplacement::Open(access, Some((words, values)), is_claimed)) => {
            let mut args = open_with_access(args, *access, *is_claimed);
            let given = Fattr4::new(Bitmap4::from(&words[..]), Opaque(values));
            args.openhow = match args.openhow {
                Openflag4::Create(Createhow4::Unchecked(_)) => {
                    Openflag4::Create(Createhow4::Unchecked(given))
                }
                Openflag4::Create(Createhow4::Guarded(_)) => Openflag4::Create(Createhow4::Guarded(given)),
                Openflag4::Create(Createhow4::Exclusive41(mut both)) => {
                    both.cva_attrs = given;
                    Openflag4::Create(Createhow4::Exclusive41(both))
                }
                other => other,
            };
            Args::OPEN(args)
        }
        (operation, _) => operation,
    }
}

/// Returns an OPEN with this access and, if `is_claimed`, without its delegation claim.
fn open_with_access(args: Open4Args<'_>, share_access: ShareAccess, is_claimed: bool) -> Open4Args<'_> {
    let claim = match args.claim {
        OpenClaim4::DelegateCur(both) if is_claimed => OpenClaim4::Null(both.file),
        OpenClaim4::DelegCurFh(_) if is_claimed => OpenClaim4::Fh,
        claim => claim,
    };
    Open4Args { share_access, claim, ..args }
}

/// Rewrites an emitted COMPOUND and the positions of its payloads. Returns `None` if it cannot be fully decoded or
/// re-encoded.
pub(super) fn rewrite_compound(
    message: &mut Vec<u8>,
    placed: &mut [TracePayloadInMessage],
    live: CompoundRewriteContext<'_>,
) -> Option<AppliedCompoundChangeFlags> {
    let mut adapted = AppliedCompoundChangeFlags::default();
    let written = {
        let items = TracePayloadInMessage::items(placed);
        let mut cursor = Cursor::new(message).with_chunks(&items);
        rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        let header = message.get(..cursor.at())?;
        let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        // Most Calls stay unchanged, which is determined without allocating.
        let mut stays = true;
        for (at, operation) in call.operations().enumerate() {
            stays &= live.replacement(at, &operation.ok()?).is_none();
        }
        if stays {
            return Some(adapted);
        }
        let operations: Vec<Args<'_>> = call.operations().collect::<Result<_, _>>().ok()?;
        let news: Vec<Option<OperationReplacement>> =
            operations.iter().enumerate().map(|(at, operation)| live.replacement(at, operation)).collect();
        for new in news.iter().flatten() {
            adapted.has_replaced_root |= matches!(new, OperationReplacement::Root);
            adapted.has_changed_wants |= matches!(new, OperationReplacement::Open(..));
            adapted.has_changed_attributes |= matches!(
                new,
                OperationReplacement::Open(_, Some(_), _)
                    | OperationReplacement::Mask(_)
                    | OperationReplacement::Attributes(..)
            );
        }
        let operations: Vec<Args<'_>> = operations
            .into_iter()
            .zip(&news)
            .map(|(operation, new)| match new {
                Some(new) => apply_replacement(operation, new, live.root),
                None => operation,
            })
            .collect();
        let mut encoder = Encoder::new();
        encoder.raw(header);
        CompoundCall::new(call.head.clone(), &operations).encode(&mut encoder);
        encoder.finish()
    };
    let (bytes, splices) = written;
    if splices.len() != placed.len() {
        return None;
    }
    for (placed, splice) in placed.iter_mut().zip(splices) {
        placed.position = u32::try_from(splice.position).ok()?;
    }
    message.clear();
    message.extend_from_slice(&bytes);
    Some(adapted)
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{
        ClientOwner4, CompoundCallHead, Create4Args, Createtype4, ModeUmask4, NfsClientId4, NfsFtype4,
        StateProtectOps4,
    };
    use nfsrdma_dissectors::xdr::{List, Text, Void};

    use super::*;

    fn message(operations: &[Args<'_>]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        [1, 0, 2, 100_003, 4, 1, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 2 }, operations)
            .encode(&mut encoder);
        encoder.finish().0
    }

    #[test]
    fn the_root_is_the_directory_of_the_run() {
        let mut bytes = message(&[Args::PUTROOTFH(Void), Args::GETFH(Void)]);
        let live = CompoundRewriteContext {
            root: b"root!",
            supported: None,
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
        };
        let adapted = rewrite_compound(&mut bytes, &mut [], live).unwrap();
        assert!(adapted.has_replaced_root && !adapted.has_changed_attributes);
        assert_eq!(bytes, message(&[Args::PUTFH(ObjectFh4 { object: Opaque(b"root!") }), Args::GETFH(Void)]));
    }

    #[test]
    fn rfc8275_a_mode_and_its_umask_are_one_mode_where_the_server_knows_no_umask() {
        let create = |attribute: Attribute<'_>| {
            let (words, values) = mask_and_values(&[attribute]);
            message(&[Args::CREATE(Create4Args {
                objtype: Createtype4::Other(NfsFtype4::NF4DIR),
                objname: Text(b"d"),
                createattrs: Fattr4::new(Bitmap4::from(&words[..]), Opaque(&values)),
            })])
        };
        let both = ModeUmask4 { mu_mode: Mode4(0o777), mu_umask: Mode4(0o022) };
        let mut bytes = create(Attribute::MODE_UMASK(both));
        let supported = words_for_bits([Attributes::MODE]);
        let live = CompoundRewriteContext {
            root: b"",
            supported: Some(&supported),
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
        };
        assert!(rewrite_compound(&mut bytes, &mut [], live).unwrap().has_changed_attributes);
        assert_eq!(bytes, create(Attribute::MODE(Mode4(0o755))));
    }

    #[test]
    fn rfc8881_section_18_35_3_without_rpcsec_gss_no_state_is_protected() {
        let exchange = |flags, eia_state_protect| {
            message(&[Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
                eia_clientowner: ClientOwner4 { co_verifier: [7; 8], co_ownerid: Opaque(b"me") },
                eia_flags: ExchangeIdFlags(flags),
                eia_state_protect,
                eia_client_impl_id: List::default(),
            }))])
        };
        let ops =
            StateProtectOps4 { spo_must_enforce: Bitmap4::default(), spo_must_allow: Bitmap4::default() };
        let mut bytes = exchange(0x101, StateProtect4A::MachCred(ops));
        let before = bytes.clone();
        let mut live = CompoundRewriteContext {
            root: b"",
            supported: None,
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
        };
        rewrite_compound(&mut bytes, &mut [], live).unwrap();
        assert_eq!(bytes, before);
        live.is_unsigned = true;
        rewrite_compound(&mut bytes, &mut [], live).unwrap();
        assert_eq!(bytes, exchange(1, StateProtect4A::None));
    }

    #[test]
    fn rfc7530_section_2_2_10_the_server_is_told_where_this_run_listens() {
        let setclientid = |netid: &'static str, address: &'static str| {
            message(&[Args::SETCLIENTID(Setclientid4Args {
                client: NfsClientId4 { verifier: [7; 8], id: Opaque(b"me") },
                callback: CbClient4 {
                    cb_program: 0x4000_0000,
                    cb_location: Netaddr4 {
                        na_r_netid: Text(netid.as_bytes()),
                        na_r_addr: UniversalAddress(Text(address.as_bytes())),
                    },
                },
                callback_ident: 1,
            })])
        };
        let mut live = CompoundRewriteContext {
            root: b"",
            supported: None,
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
        };
        for (at, netid, address) in [
            (None, "tcp", "0.0.0.0.0.0"),
            (Some("127.0.0.1:20049"), "tcp", "127.0.0.1.78.81"),
            (Some("[::ffff:127.0.0.1]:20049"), "tcp", "127.0.0.1.78.81"),
            (Some("[fe80::1%3]:2049"), "tcp6", "fe80::1.8.1"),
        ] {
            live.callback = at.map(|at| at.parse().unwrap());
            let mut bytes = setclientid("tcp", "0.0.0.0.0.0");
            assert!(!rewrite_compound(&mut bytes, &mut [], live).unwrap().has_changed_attributes);
            assert_eq!(bytes, setclientid(netid, address));
        }
    }

    #[test]
    fn what_the_server_can_take_stays_as_it_is() {
        // RFC 9754: open_arguments is attribute 86.
        let mask = words_for_bits([Attributes::SIZE, Attributes::MODE, 86]);
        let getattr = Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&mask[..]) });
        let mut bytes = message(&[getattr]);
        let before = bytes.clone();
        let live = CompoundRewriteContext {
            root: b"",
            supported: Some(&mask),
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
        };
        assert_eq!(rewrite_compound(&mut bytes, &mut [], live), Some(AppliedCompoundChangeFlags::default()));
        assert_eq!(bytes, before);
    }
}
