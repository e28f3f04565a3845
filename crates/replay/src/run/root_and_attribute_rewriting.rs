//! Rewrites a COMPOUND for the live server: the root becomes the run's directory, and unsupported attributes are left
//! out.
//!
//! PUTROOTFH becomes PUTFH with the filehandle of the run's directory. A mode with a umask (RFC 8275) becomes the
//! resulting mode. SETCLIENTID gets the callback address of this run. An OPEN requests what it was granted in the
//! capture ([`captured_open_grants`](super::captured_open_grants)). Everything else is kept, byte for byte if nothing
//! changes.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::time::Duration;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Args, Attribute, Attributes, BitNames, Bitmap4, BitmapKeyedValue, Close4Args, CompoundCall, Createhow4,
    ExchangeIdFlags, Fattr4, Mode4, Netaddr4, Nfstime4, ObjectFh4, OpenClaim4, Openflag4, ShareAccess, StateProtect4A,
    mask_and_values, words_for_bits,
};
use nfsrdma_dissectors::rpc;
use nfsrdma_dissectors::rpc::universal_address::{self, UniversalAddress};
use nfsrdma_dissectors::xdr::{Cursor, Encoder, Opaque, Text};

use super::captured_open_grants::CapturedStepOpenGrants;
use super::reply_check::mandatory_server_operations::required_attributes;
use crate::trace::step::TraceMessage;
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
    /// Time of the captured call, and the current time, since 1970: delegated times keep their age.
    pub(super) times: [Duration; 2],
    /// Operations that use the stateid of an open in place of a delegation's.
    pub(super) substituted_stateids: &'a [OperationWithSubstituteOpenStateid],
}

/// An operation that uses the stateid of an open in place of a delegation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationWithSubstituteOpenStateid {
    /// Index of the operation in the COMPOUND, from 0.
    pub(super) operation: usize,
    /// `true` if the open has this program's own open-owner.
    pub(super) has_own_owner: bool,
    pub(super) variable: u32,
    /// Next seqid of the open-owner in NFSv4.0; 0 in later versions.
    pub(super) seqid: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CompoundRewriteFlags {
    pub(super) has_replaced_root: bool,
    pub(super) has_changed_attributes: bool,
    /// `true` if an OPEN requests what it was granted in the capture.
    pub(super) has_changed_wants: bool,
}

/// State of a step that uses a delegation that the live server did not grant.
pub(super) const NO_DELEGATION_REASON: &str = "no-delegation: uses a delegation that this server did not grant";

/// OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS and OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION. RFC 9754 sections 4 and 5.
const DELEGATION_OFFER_BITS: u32 = 0x0030_0000;

/// Words and bytes that the arguments of an operation borrow if they are replaced.
type RewrittenArgumentBuffers = OnceCell<(Vec<u32>, Vec<u8>)>;

impl<'a> CompoundRewriteContext<'a> {
    fn substituted_stateid(&self, at: usize) -> Option<&OperationWithSubstituteOpenStateid> {
        self.substituted_stateids.iter().find(|substitute| substitute.operation == at)
    }

    fn supports(&self, bit: u32) -> bool {
        is_sent_attribute(self.supported, bit)
    }

    /// Removes attributes that the server does not support. Returns `true` if there are any.
    fn adapt_mask<'n>(&self, mask: &mut Bitmap4<'n>, values: &'n RewrittenArgumentBuffers) -> bool {
        if mask.iter().all(|bit| self.supports(bit)) {
            return false;
        }
        let words = words_for_bits(mask.iter().filter(|bit| self.supports(*bit)));
        *mask = Bitmap4::from(&values.get_or_init(|| (words, Vec::new())).0[..]);
        true
    }

    /// Returns a delegated time that is as old now as the captured one was at its call. RFC 9754 section 5.
    fn live_time(&self, captured: &Nfstime4) -> Nfstime4 {
        let [call_time, now] = self.times;
        let since_1970 = Duration::new(captured.seconds.max(0).cast_unsigned(), captured.nseconds.min(999_999_999));
        let live = now.saturating_sub(call_time.saturating_sub(since_1970));
        Nfstime4 { seconds: live.as_secs().cast_signed(), nseconds: live.subsec_nanos() }
    }

    /// Gives delegated times that SETATTR sets the age that they had in the capture. Returns `true` if there are any.
    fn adapt_delegated_times<'n>(&self, attributes: &mut Fattr4<'n>, values: &'n RewrittenArgumentBuffers) -> bool {
        if !attributes.mask.iter().any(is_delegated_time) {
            return false;
        }
        let live = |item: Attribute<'n>| match item {
            Attribute::TIME_DELEG_ACCESS(time) => Attribute::TIME_DELEG_ACCESS(self.live_time(&time)),
            Attribute::TIME_DELEG_MODIFY(time) => Attribute::TIME_DELEG_MODIFY(self.live_time(&time)),
            item => item,
        };
        let Ok(items) = attributes.items().map(|item| item.map(live)).collect::<Result<Vec<_>, _>>() else {
            return false;
        };
        let (words, bytes) = values.get_or_init(|| mask_and_values(&items));
        *attributes = Fattr4::new(Bitmap4::from(&words[..]), Opaque(bytes));
        true
    }

    /// Removes attributes that the server does not support; if `is_undelegated`, also the times that only a delegation
    /// holder sets (RFC 9754 section 5). Returns `true` if there are any.
    fn adapt_attributes<'n>(
        &self,
        attributes: &mut Fattr4<'n>,
        is_undelegated: bool,
        values: &'n RewrittenArgumentBuffers,
    ) -> bool {
        let is_sent = |bit: u32| self.supports(bit) && !(is_undelegated && is_delegated_time(bit));
        if attributes.mask.iter().all(is_sent) {
            return false;
        }
        let mut items = Vec::new();
        for item in attributes.items() {
            match item {
                Ok(Attribute::MODE_UMASK(mode_umask)) if !self.supports(Attributes::MODE_UMASK) => {
                    items.push(Attribute::MODE(Mode4(mode_umask.mu_mode.0 & !mode_umask.mu_umask.0)));
                }
                Ok(item) if is_sent(item.number()) => items.push(item),
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        items.sort_by_key(BitmapKeyedValue::number);
        let (words, bytes) = values.get_or_init(|| mask_and_values(&items));
        *attributes = Fattr4::new(Bitmap4::from(&words[..]), Opaque(bytes));
        true
    }

    /// Changes an operation for the live server. Returns `true` if it did. `values` owns the data that
    /// the changed operation borrows.
    fn adapt<'n>(
        &self,
        at: usize,
        operation: &mut Args<'n>,
        values: &'n RewrittenArgumentBuffers,
        changes: &mut CompoundRewriteFlags,
    ) -> bool
    where
        'a: 'n,
    {
        let substitute = self.substituted_stateid(at);
        let has_other_attributes = match operation {
            Args::PUTROOTFH(_) | Args::PUTPUBFH(_) => {
                *operation = Args::PUTFH(ObjectFh4 { object: Opaque(self.root) });
                changes.has_replaced_root = true;
                return true;
            }
            // State protection requires RPCSEC_GSS: NFS4ERR_INVAL otherwise (RFC 8881 section 18.35.3).
            Args::EXCHANGE_ID(args) if self.is_unsigned && args.eia_state_protect != StateProtect4A::None => {
                args.eia_flags.0 &= !ExchangeIdFlags::EXCHGID4_FLAG_BIND_PRINC_STATEID.0;
                args.eia_state_protect = StateProtect4A::None;
                return true;
            }
            // r_netid and r_addr: RFC 7530 section 2.2.10.
            Args::SETCLIENTID(args) => {
                let Some(callback) = self.callback else { return false };
                let address = SocketAddr::new(callback.ip().to_canonical(), callback.port());
                let netid = if address.is_ipv4() { "tcp" } else { "tcp6" };
                let text = universal_address::format_address(address).into_bytes();
                args.callback.cb_location = Netaddr4 {
                    na_r_netid: Text(netid.as_bytes()),
                    na_r_addr: UniversalAddress(Text(&values.get_or_init(|| (Vec::new(), text)).1)),
                };
                return true;
            }
            // CLOSE has the next seqid of the open-owner.
            Args::DELEGRETURN(args) => {
                let Some(OperationWithSubstituteOpenStateid { seqid, .. }) = substitute else { return false };
                *operation = Args::CLOSE(Close4Args { seqid: *seqid, open_stateid: args.deleg_stateid.clone() });
                return true;
            }
            Args::GETATTR(args) => self.adapt_mask(&mut args.attr_request, values),
            Args::READDIR(args) => self.adapt_mask(&mut args.attr_request, values),
            Args::CREATE(args) => self.adapt_attributes(&mut args.createattrs, false, values),
            Args::SETATTR(args) => {
                let has_removed = self.adapt_attributes(&mut args.obj_attributes, substitute.is_some(), values);
                // A delegation is needed to set other attributes together with these, which no client does.
                if !has_removed && self.adapt_delegated_times(&mut args.obj_attributes, values) {
                    return true;
                }
                has_removed
            }
            Args::OPEN(args) => match &mut args.openhow {
                Openflag4::Create(Createhow4::Unchecked(given) | Createhow4::Guarded(given)) => {
                    self.adapt_attributes(given, false, values)
                }
                Openflag4::Create(Createhow4::Exclusive41(create)) => {
                    self.adapt_attributes(&mut create.cva_attrs, false, values)
                }
                _ => false,
            },
            _ => false,
        };
        changes.has_changed_attributes |= has_other_attributes;
        let Args::OPEN(args) = operation else { return has_other_attributes };
        // A client may set these flags only for a server that supports OPEN_ARGUMENTS (RFC 9754 section 2).
        let offers = if self.supports(Attributes::OPEN_ARGUMENTS) { 0 } else { DELEGATION_OFFER_BITS };
        let access = ShareAccess(self.opens.adjusted_access(at, args.share_access).0 & !offers);
        // An OPEN that claims a delegation which an open replaces opens by name or filehandle.
        let claim = match &args.claim {
            OpenClaim4::DelegateCur(delegation) if substitute.is_some() => Some(OpenClaim4::Null(delegation.file)),
            OpenClaim4::DelegCurFh(_) if substitute.is_some() => Some(OpenClaim4::Fh),
            _ => None,
        };
        let is_changed = has_other_attributes || access != args.share_access || claim.is_some();
        changes.has_changed_wants |= is_changed;
        args.share_access = access;
        if let Some(claim) = claim {
            args.claim = claim;
        }
        is_changed
    }
}

pub(super) fn is_delegated_time(bit: u32) -> bool {
    matches!(bit, Attributes::TIME_DELEG_ACCESS | Attributes::TIME_DELEG_MODIFY)
}

/// Returns `true` if a Call to a server with these attributes (mask words; `None` if unknown) still names an attribute.
fn is_sent_attribute(supported: Option<&[u32]>, bit: u32) -> bool {
    let is_supported = |words: &[u32]| words.get((bit / 32) as usize).is_some_and(|word| word & (1 << (bit % 32)) != 0);
    // If a server does not support a REQUIRED attribute, its Replies differ.
    supported.is_none_or(is_supported) || required_attributes().any(|required| required == bit)
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

/// Rewrites an emitted COMPOUND and the positions of its payloads; `None` if it cannot be decoded or encoded.
pub(super) fn rewrite_compound(
    message: &mut Vec<u8>,
    payloads: &mut [TracePayloadInMessage],
    context: CompoundRewriteContext<'_>,
) -> Option<CompoundRewriteFlags> {
    let mut changes = CompoundRewriteFlags::default();
    let (bytes, splices) = {
        let items = TracePayloadInMessage::items(payloads);
        let mut cursor = Cursor::new(message).with_chunks(&items);
        rpc::RpcMsg::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        let header = message.get(..cursor.at())?;
        let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
        // Most Calls stay unchanged, which is determined without allocating.
        let mut is_unchanged = true;
        for (at, operation) in call.operations().enumerate() {
            let values = RewrittenArgumentBuffers::new();
            is_unchanged &= !context.adapt(at, &mut operation.ok()?, &values, &mut changes);
        }
        if is_unchanged {
            return Some(changes);
        }
        let values: Vec<_> = call.operations().map(|_| RewrittenArgumentBuffers::new()).collect();
        let mut operations = call.operations().collect::<Result<Vec<_>, _>>().ok()?;
        for (at, (operation, values)) in operations.iter_mut().zip(&values).enumerate() {
            context.adapt(at, operation, values, &mut changes);
        }
        let mut encoder = Encoder::new();
        encoder.raw(header);
        CompoundCall::new(call.head.clone(), &operations).encode(&mut encoder);
        encoder.finish()
    };
    if splices.len() != payloads.len() {
        return None;
    }
    for (payload, splice) in payloads.iter_mut().zip(splices) {
        payload.position = u32::try_from(splice.position).ok()?;
    }
    message.clear();
    message.extend_from_slice(&bytes);
    Some(changes)
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::{
        CbClient4, ClientOwner4, CompoundCallHead, Create4Args, Createtype4, ExchangeId4Args, Getattr4Args, ModeUmask4,
        NfsClientId4, NfsFtype4, Setattr4Args, Setclientid4Args, StateProtectOps4, Stateid4,
    };
    use nfsrdma_dissectors::xdr::{Text, Void, XdrArray};

    use super::*;

    fn message(operations: &[Args<'_>]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        [1, 0, 2, 100_003, 4, 1, 0, 0, 0, 0].iter().for_each(|word| encoder.word(*word));
        CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 2 }, operations).encode(&mut encoder);
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
            times: [Duration::ZERO; 2],
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
            times: [Duration::ZERO; 2],
        };
        assert!(rewrite_compound(&mut bytes, &mut [], live).unwrap().has_changed_attributes);
        assert_eq!(bytes, create(Attribute::MODE(Mode4(0o755))));
    }

    /// RFC 9754 section 5.
    #[test]
    fn delegated_times_of_setattr_keep_their_age() {
        let setattr = |seconds: i64| {
            let time = Nfstime4 { seconds, nseconds: 500 };
            let (words, values) = mask_and_values(&[Attribute::TIME_DELEG_MODIFY(time)]);
            message(&[Args::SETATTR(Setattr4Args {
                stateid: Stateid4 { seqid: 1, other: [7; 12] },
                obj_attributes: Fattr4::new(Bitmap4::from(&words[..]), Opaque(&values)),
            })])
        };
        let mut bytes = setattr(990);
        let live = CompoundRewriteContext {
            root: b"",
            supported: None,
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
            times: [1_000, 5_000].map(Duration::from_secs),
        };
        assert!(!rewrite_compound(&mut bytes, &mut [], live).unwrap().has_changed_attributes);
        assert_eq!(bytes, setattr(4_990), "ten seconds before the call, there and here");
    }

    #[test]
    fn rfc8881_section_18_35_3_without_rpcsec_gss_no_state_is_protected() {
        let exchange = |flags, eia_state_protect| {
            message(&[Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
                eia_clientowner: ClientOwner4 { co_verifier: [7; 8], co_ownerid: Opaque(b"me") },
                eia_flags: ExchangeIdFlags(flags),
                eia_state_protect,
                eia_client_impl_id: XdrArray::default(),
            }))])
        };
        let ops = StateProtectOps4 { spo_must_enforce: Bitmap4::default(), spo_must_allow: Bitmap4::default() };
        let mut bytes = exchange(0x101, StateProtect4A::MachCred(ops));
        let before = bytes.clone();
        let mut live = CompoundRewriteContext {
            root: b"",
            supported: None,
            opens: &CapturedStepOpenGrants::default(),
            is_unsigned: false,
            callback: None,
            substituted_stateids: &[],
            times: [Duration::ZERO; 2],
        };
        rewrite_compound(&mut bytes, &mut [], live).unwrap();
        assert_eq!(bytes, before);
        live.is_unsigned = true;
        rewrite_compound(&mut bytes, &mut [], live).unwrap();
        assert_eq!(bytes, exchange(1, StateProtect4A::None));
    }

    #[test]
    fn rfc7530_section_2_2_10_setclientid_has_the_callback_address_of_the_run() {
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
            times: [Duration::ZERO; 2],
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
    fn attributes_that_the_server_supports_are_not_rewritten() {
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
            times: [Duration::ZERO; 2],
        };
        assert_eq!(rewrite_compound(&mut bytes, &mut [], live), Some(CompoundRewriteFlags::default()));
        assert_eq!(bytes, before);
    }
}
