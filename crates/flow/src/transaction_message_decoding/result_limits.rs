//! Results of the right operations that are not valid: more than the arguments asked for, a lower stability, values that
//! no result may have.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Args, Bitmap4, CbArgs, CbResults, ChannelAttrs4, CreateSession4Args, CreateSession4Resok, CreateSessionFlags,
    LockRes, LocktRes, ReadPlusContent, ReadPlusRes4, Results, StableHow4,
};
use nfsrdma_dissectors::nfs::{Procedure, field_labels, v2, v3};
use nfsrdma_dissectors::xdr::Cursor;

use super::decoded_compound::DecodedCompound;
use super::result_contradictions::{LockRange, data_end, result_contradiction};

/// Words of bitmap4 that the RFCs define.
const ATTRIBUTE_WORDS: usize = 3;

/// Attributes by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeSet([u32; ATTRIBUTE_WORDS]);

impl AttributeSet {
    /// Returns the defined attributes of a bitmap.
    #[inline]
    pub fn new(bitmap: &Bitmap4<'_>) -> Self {
        let mut words = [0; ATTRIBUTE_WORDS];
        words.iter_mut().zip(bitmap.words().iter()).for_each(|(word, sent)| *word = sent);
        Self(words)
    }

    /// Returns the number of the first attribute of `returned` that is not in this set.
    pub fn first_other(self, returned: Self) -> Option<u32> {
        let words = self.0.iter().zip(returned.0).map(|(asked, returned)| returned & !asked);
        { (0..).step_by(32).zip(words) }.find(|(_, word)| *word != 0).map(|(first, word)| first + word.trailing_zeros())
    }
}

/// Limit that the arguments of an operation set to its results.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResultLimit {
    /// Attributes that GETATTR, READDIR or CB_GETATTR asked for.
    Attributes(AttributeSet),
    /// Number of bytes that READ asked for.
    Read(u32),
    /// Number of bytes of WRITE, and the stability that it asked for.
    Write(u32, StableHow4),
    /// End of the range of READ_PLUS.
    ReadPlus(u64),
    /// Range of LOCK or LOCKT, which a lock that denies it overlaps.
    Lock(LockRange),
    /// Those of CREATE_SESSION, and of other rare operations whose results are compared with their arguments.
    Arguments,
}

impl ResultLimit {
    #[inline]
    pub(super) fn of(arguments: &Args<'_>) -> Option<Self> {
        match arguments {
            Args::GETATTR(args) => Some(Self::Attributes(AttributeSet::new(&args.attr_request))),
            Args::READ(args) => Some(Self::Read(args.count)),
            Args::WRITE(args) => Some(Self::Write(args.data.length(), args.stable)),
            Args::READDIR(args) => Some(Self::Attributes(AttributeSet::new(&args.attr_request))),
            Args::READ_PLUS(args) => Some(Self::ReadPlus(args.rpa_offset.saturating_add(args.rpa_count.into()))),
            Args::LOCK(args) => Some(Self::Lock(LockRange { offset: args.offset, length: args.length })),
            Args::LOCKT(args) => Some(Self::Lock(LockRange { offset: args.offset, length: args.length })),
            Args::CREATE_SESSION(_)
            | Args::BIND_CONN_TO_SESSION(_)
            | Args::COPY(_)
            | Args::SEEK(_)
            | Args::TEST_STATEID(_) => Some(Self::Arguments),
            _ => None,
        }
    }

    pub(super) fn of_callback(arguments: &CbArgs<'_>) -> Option<Self> {
        match arguments {
            CbArgs::CB_GETATTR(args) => Some(Self::Attributes(AttributeSet::new(&args.attr_request))),
            _ => None,
        }
    }
}

/// Returns `true` if data of a WRITE are less stable than the level that it asked for. Other levels than those of
/// stable_how4 ask for nothing.
pub fn is_less_stable(asked: StableHow4, committed: StableHow4) -> bool {
    asked.name().is_some() && committed.0 < asked.0
}

/// Returns `true` if the results of an operation are not valid, by themselves or for arguments with this limit. Results of
/// CREATE_SESSION need their arguments.
#[inline]
fn is_invalid(limit: Option<ResultLimit>, results: &Results<'_>) -> bool {
    match (limit, results) {
        (Some(ResultLimit::Attributes(asked)), Results::GETATTR(result)) => {
            result.ok().is_some_and(|ok| asked.first_other(AttributeSet::new(&ok.obj_attributes.mask)).is_some())
        }
        (Some(ResultLimit::Attributes(asked)), Results::READDIR(result)) => result.ok().is_some_and(|ok| {
            let mut masks = ok.reply.entries.iter().map(|entry| AttributeSet::new(&entry.attrs.mask));
            masks.any(|returned| asked.first_other(returned).is_some())
        }),
        (Some(ResultLimit::Read(count)), Results::READ(result)) => {
            result.ok().is_some_and(|ok| ok.data.length() > count)
        }
        (Some(ResultLimit::Write(bytes, stable)), Results::WRITE(result)) => {
            result.ok().is_some_and(|ok| ok.count > bytes || is_less_stable(stable, ok.committed))
        }
        (
            Some(ResultLimit::Lock(asked)),
            Results::LOCK(LockRes::Denied(denied)) | Results::LOCKT(LocktRes::Denied(denied)),
        ) => !asked.overlaps(denied),
        (limit, Results::READ_PLUS(result)) => result.ok().is_some_and(|ok| {
            let exceeds = |end| data_end(ok).is_some_and(|data_end| data_end > end);
            matches!(first_gap(ok), Ok(Some(_))) || matches!(limit, Some(ResultLimit::ReadPlus(end)) if exceeds(end))
        }),
        (_, Results::COPY(result)) => result.ok().is_some_and(|ok| {
            let mut stateids = ok.cr_response.wr_callback_id.iter();
            stateids.any(|stateid| stateid.seqid == 0)
        }),
        _ => false,
    }
}

fn is_callback_invalid(limit: Option<ResultLimit>, results: &CbResults<'_>) -> bool {
    match (limit, results) {
        (Some(ResultLimit::Attributes(asked)), CbResults::CB_GETATTR(result)) => {
            result.ok().is_some_and(|ok| asked.first_other(AttributeSet::new(&ok.obj_attributes.mask)).is_some())
        }
        _ => false,
    }
}

/// Maximum number of limits of a COMPOUND that are collected. More are rare.
const MAX_LIMITS: usize = 4;

/// Limits of the operations of a COMPOUND, in their order, each with the index of its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResultLimits {
    limits: [Option<(u32, ResultLimit)>; MAX_LIMITS],
    count: usize,
    has_arguments: bool,
}

impl ResultLimits {
    #[inline]
    pub(super) fn add(&mut self, index: u32, limit: Option<ResultLimit>) {
        let Some(limit) = limit else { return };
        self.has_arguments |= matches!(limit, ResultLimit::Arguments);
        if let Some(slot) = self.limits.get_mut(self.count) {
            *slot = Some((index, limit));
        }
        self.count += 1;
    }

    /// Returns `true` if the results must be compared with the decoded arguments.
    pub(super) fn needs_arguments(&self) -> bool {
        self.has_arguments || self.count > MAX_LIMITS
    }
}

/// Comparison of results with the limits of their operations.
pub(super) struct LimitedResults<'l> {
    limits: &'l ResultLimits,
    next: usize,
    /// `true` if a result is not valid.
    pub(super) has_invalid: bool,
}

impl<'l> LimitedResults<'l> {
    pub(super) fn new(limits: &'l ResultLimits) -> Self {
        Self { limits, next: 0, has_invalid: false }
    }

    /// Returns the limit of the results of an operation, which are seen in their order.
    #[inline]
    fn limit(&mut self, index: u32) -> Option<ResultLimit> {
        let (at, limit) = (*self.limits.limits.get(self.next)?)?;
        if at != index {
            return None;
        }
        self.next += 1;
        Some(limit)
    }

    #[inline]
    pub(super) fn see(&mut self, index: u32, results: &Results<'_>) {
        let limit = self.limit(index);
        self.has_invalid |= is_invalid(limit, results);
    }

    pub(super) fn see_callback(&mut self, index: u32, results: &CbResults<'_>) {
        let limit = self.limit(index);
        self.has_invalid |= is_callback_invalid(limit, results);
    }
}

/// Returns `true` if a result of a decoded COMPOUND or CB_COMPOUND is not valid.
#[cold]
pub(super) fn has_invalid_result(compound: &DecodedCompound<'_>) -> bool {
    let is_operation_invalid = |(arguments, results): (&Args<'_>, &Results<'_>)| match (arguments, results) {
        (Args::CREATE_SESSION(args), Results::CREATE_SESSION(result)) => {
            result.ok().is_some_and(|created| session_fault(args, created).is_some())
        }
        _ => is_invalid(ResultLimit::of(arguments), results) || result_contradiction(arguments, results).is_some(),
    };
    if let (Some(call), Some(reply)) = (&compound.call, &compound.reply) {
        return call.operations.iter().zip(&reply.operations).any(is_operation_invalid);
    }
    compound.callback.as_ref().is_some_and(|callback| match (&callback.call, &callback.reply) {
        (Some(call), Some(reply)) => { call.operations.iter().zip(&reply.operations) }
            .any(|(arguments, results)| is_callback_invalid(ResultLimit::of_callback(arguments), results)),
        _ => false,
    })
}

/// Returns `true` for procedures without operations whose arguments limit their results.
pub(super) fn is_limited(procedure: Procedure) -> bool {
    matches!(procedure, Procedure::V3(v3::Procedure::READ | v3::Procedure::WRITE) | Procedure::V2(v2::Procedure::READ))
}

/// Returns `true` if the results of a READ or WRITE of NFSv2 or NFSv3 are not valid for its arguments. RFC 1094 section
/// 2.2.7, RFC 1813 sections 3.3.6 and 3.3.7.
pub(super) fn is_procedure_invalid(procedure: Procedure, mut arguments: Cursor<'_>, mut results: Cursor<'_>) -> bool {
    let observer = &mut NullFieldObserver;
    match procedure {
        Procedure::V3(procedure @ (v3::Procedure::READ | v3::Procedure::WRITE)) => {
            let call = v3::Args::decode(procedure, &mut arguments, observer);
            let reply = v3::Results::decode(procedure, &mut results, observer);
            match (call, reply) {
                (Ok(v3::Args::READ(args)), Ok(v3::Results::READ(result))) => {
                    result.ok().is_some_and(|ok| ok.count > args.count)
                }
                (Ok(v3::Args::WRITE(args)), Ok(v3::Results::WRITE(result))) => result.ok().is_some_and(|ok| {
                    ok.count > args.count || is_less_stable(StableHow4(args.stable.0), StableHow4(ok.committed.0))
                }),
                _ => false,
            }
        }
        Procedure::V2(procedure @ v2::Procedure::READ) => {
            let call = v2::Args::decode(procedure, &mut arguments, observer);
            let reply = v2::Results::decode(procedure, &mut results, observer);
            match (call, reply) {
                (Ok(v2::Args::READ(args)), Ok(v2::Results::READ(result))) => {
                    result.ok().is_some_and(|ok| ok.data.length() > args.count)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Returns the first gap or overlap between two contents of READ_PLUS: the end of one, and the offset of the next. RFC
/// 7862 section 15.10.3.
///
/// # Errors
/// Returns an error if the length of a content is unknown.
pub fn first_gap(results: &ReadPlusRes4<'_>) -> Result<Option<(u64, u64)>, UnknownLength> {
    let mut end = None;
    for content in results.rpr_contents.iter() {
        let (offset, length) = match content {
            ReadPlusContent::Data(data) => (data.d_offset, u64::from(data.d_data.0.length())),
            ReadPlusContent::Hole(hole) => (hole.di_offset, hole.di_length),
            ReadPlusContent::Other(_) => return Err(UnknownLength),
        };
        if let Some(end) = end
            && end != offset
        {
            return Ok(Some((end, offset)));
        }
        end = Some(offset.saturating_add(length));
    }
    Ok(None)
}

/// Error: the length of a content of READ_PLUS is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLength;

/// Returns the first attribute of a channel that the server may not have changed in this way.
fn changed_attribute(
    requested: &ChannelAttrs4<'_>,
    granted: &ChannelAttrs4<'_>,
    is_back_channel: bool,
) -> Option<String> {
    let channel = if is_back_channel { "back" } else { "fore" };
    let ird = |attributes: &ChannelAttrs4<'_>| attributes.ca_rdma_ird.iter().next();
    let may_decrease = [
        (field_labels::CA_HEADERPADSIZE, requested.ca_headerpadsize, granted.ca_headerpadsize),
        (field_labels::CA_MAXREQUESTSIZE, requested.ca_maxrequestsize, granted.ca_maxrequestsize),
        (field_labels::CA_MAXRESPONSESIZE, requested.ca_maxresponsesize, granted.ca_maxresponsesize),
        (
            field_labels::CA_MAXRESPONSESIZE_CACHED,
            requested.ca_maxresponsesize_cached,
            granted.ca_maxresponsesize_cached,
        ),
        (field_labels::CA_RDMA_IRD, ird(requested).unwrap_or(u32::MAX), ird(granted).unwrap_or(0)),
    ];
    let is_fixed = [
        (field_labels::CA_MAXOPERATIONS, requested.ca_maxoperations, granted.ca_maxoperations),
        (field_labels::CA_MAXREQUESTS, requested.ca_maxrequests, granted.ca_maxrequests),
    ];
    let increased = may_decrease.into_iter().find(|(_, requested, granted)| granted > requested);
    let changed = is_fixed.into_iter().find(|(_, requested, granted)| is_back_channel && granted != requested);
    increased.or(changed).map(|(name, requested, granted)| {
        format!("{name} of the {channel} channel: {requested} offered, {granted} returned")
    })
}

/// Returns what the server may not have returned for the arguments of CREATE_SESSION, as text. RFC 8881 section 18.36.3.
pub fn session_fault(args: &CreateSession4Args<'_>, created: &CreateSession4Resok<'_>) -> Option<String> {
    let added = created.csr_flags.0 & !args.csa_flags.0;
    let forbidden = CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_BACK_CHAN.0
        | CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_RDMA.0;
    if added & forbidden != 0 {
        return Some(format!("csr_flags 0x{:x}, csa_flags 0x{:x}", created.csr_flags.0, args.csa_flags.0));
    }
    if created.csr_sequence != args.csa_sequence {
        return Some(format!("csr_sequence {}, csa_sequence {}", created.csr_sequence, args.csa_sequence));
    }
    changed_attribute(&args.csa_fore_chan_attrs, &created.csr_fore_chan_attrs, false)
        .or_else(|| changed_attribute(&args.csa_back_chan_attrs, &created.csr_back_chan_attrs, true))
}
