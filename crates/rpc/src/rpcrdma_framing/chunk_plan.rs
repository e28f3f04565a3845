//! The plan for the form of a Call: the parts that are sent inline and in chunks, and the chunks offered for its Reply.
//! RFC 8166 section 3.5.

use nfsrdma_dissectors::xdr::roundup;

use super::header_lengths::{READ_SEGMENT, REPLY_CHUNK, SEGMENT, SHORTEST_HEADER, WRITE_CHUNK};
use crate::outgoing_call::{
    CapturedCallChunkLayout, OutgoingRpcCall, RequestedCallForm, RpcMessageWireForm, SubmittedCallForm,
};
use crate::params::NegotiatedRpcRdmaParameters;
use crate::transport_error::PermanentSubmitRefusal;

/// Maximum length of a chunk in bytes. NFS transfers at most 4 MiB in one operation today.
const LONGEST_CHUNK: u64 = 64 << 20;

/// The form of a Call. Payloads and results are bits, the first in the lowest; there are at most
/// [`OutgoingRpcCall::MAX_PAYLOADS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallChunkPlan {
    /// `true` if the message is sent in a Position-Zero Read chunk: a Long Call.
    pub is_long_call: bool,
    /// Bit mask of the payloads that are sent in Read chunks.
    pub reads: u16,
    /// Bit mask of the results for which Write chunks are offered.
    pub writes: u16,
    /// Length of the Reply chunk in bytes, if one is offered.
    pub reply: Option<u32>,
    /// The summary that `submit` returns.
    pub submitted: SubmittedCallForm,
}

impl CallChunkPlan {
    /// Checks a Call against the rules of [`OutgoingRpcCall`], and plans its form.
    ///
    /// # Errors
    /// Returns an error if the Call violates a rule, or can never be sent with these parameters.
    pub fn for_call(
        call: &OutgoingRpcCall<'_>,
        params: &NegotiatedRpcRdmaParameters,
    ) -> Result<Self, PermanentSubmitRefusal> {
        check_call(call)?;
        let mut plan = match call.requested_form {
            RequestedCallForm::Fitting => Self { writes: needed_writes(call, params), ..Self::default() },
            RequestedCallForm::Captured(captured) => Self::from_capture(&captured),
        };
        let requested = plan;
        let limit_bytes = params.reply_inline as usize;
        if plan.reply.is_none() && plan.reply_header(call) + plan.reply_message(call) > limit_bytes {
            plan.reply = Some(0);
        }
        if plan.reply.is_some() {
            let length = u32::try_from(plan.reply_message(call)).unwrap_or(u32::MAX);
            plan.reply = Some(length.max(total(captured_form(call).reply)));
        }
        let limit_bytes = params.call_inline as usize;
        if !plan.is_long_call && plan.header(call) + plan.message(call) > limit_bytes {
            plan.reads = mask(call.payloads.iter().map(|payload| payload.length() > 0));
        }
        if !plan.is_long_call && plan.header(call) + plan.message(call) > limit_bytes {
            // The payloads are sent with the message: RFC 8166 section 3.5.3 allows Read chunks in addition to that of
            // a Long Call, but Linux (up to 7.2) never fetches them, and answers that the message is truncated.
            plan.is_long_call = true;
            plan.reads = 0;
        }
        if plan.header(call) > limit_bytes {
            return Err(PermanentSubmitRefusal::TooLong);
        }
        plan.submitted = plan.submitted_form(call, requested);
        Ok(plan)
    }

    /// Returns the length in bytes of the Write chunk of a result: the length that the Call requests, or that in the
    /// capture if it is larger. 0 if the capture has an empty chunk, which requests the result inline (RFC 8166 section
    /// 4.3.2.3).
    pub fn write_length(call: &OutgoingRpcCall<'_>, result: usize) -> u32 {
        let length = call.reply.payloads.get(result).copied().unwrap_or(0);
        match captured_form(call).writes.get(result) {
            Some(segments) if total(segments) == 0 => 0,
            Some(segments) => length.max(total(segments)),
            None => length,
        }
    }

    /// Returns `true` if the payload with this index is sent in a Read chunk.
    pub fn is_read(&self, payload: usize) -> bool {
        bit(self.reads, payload)
    }

    /// Returns `true` if a Write chunk is offered for the result with this index.
    pub fn is_written(&self, result: usize) -> bool {
        bit(self.writes, result)
    }
}

/// Returns the form in the capture; an empty form if there is none.
pub(super) fn captured_form<'a>(call: &OutgoingRpcCall<'a>) -> CapturedCallChunkLayout<'a> {
    match call.requested_form {
        RequestedCallForm::Captured(captured) => captured,
        RequestedCallForm::Fitting => CapturedCallChunkLayout::default(),
    }
}

/// Returns the segment lengths in the capture of a result's Write chunk.
pub(super) fn captured_writes<'a>(call: &OutgoingRpcCall<'a>, result: usize) -> &'a [u32] {
    captured_form(call).writes.get(result).copied().unwrap_or_default()
}

/// Returns the segment lengths in the capture of a payload's Read chunk.
pub(super) fn captured_reads<'a>(call: &OutgoingRpcCall<'a>, payload: usize) -> &'a [u32] {
    captured_form(call).reads.get(payload).copied().unwrap_or_default()
}

/// Returns the mask of results for which Write chunks are offered: all if the complete Reply may not fit in a Send,
/// else none. A result that is requested inline is included, as an empty chunk of the Write list.
fn needed_writes(call: &OutgoingRpcCall<'_>, params: &NegotiatedRpcRdmaParameters) -> u16 {
    let results: usize = call.reply.payloads.iter().map(|length| padded(*length)).sum();
    if results == 0 || SHORTEST_HEADER + call.reply.message_bytes as usize + results <= params.reply_inline as usize {
        return 0;
    }
    mask(call.reply.payloads.iter().map(|_| true))
}

fn padded(length: u32) -> usize {
    length as usize + roundup(length as usize)
}

fn mask(bits: impl Iterator<Item = bool>) -> u16 {
    bits.take(OutgoingRpcCall::MAX_PAYLOADS)
        .enumerate()
        .fold(0, |mask, (index, is_set)| mask | u16::from(is_set) << index)
}

pub(super) fn total(lengths: &[u32]) -> u32 {
    lengths.iter().fold(0, |sum: u32, length| sum.saturating_add(*length))
}

fn bit(bits: u16, index: usize) -> bool {
    index < OutgoingRpcCall::MAX_PAYLOADS && bits >> index & 1 != 0
}

/// Checks a Call against the rules of [`OutgoingRpcCall`] that apply to all transports.
///
/// # Errors
/// Returns the rule that it violates.
pub fn check_call(call: &OutgoingRpcCall<'_>) -> Result<(), PermanentSubmitRefusal> {
    if call.message.first_chunk() != Some(&call.xid.0.to_be_bytes()) {
        return Err(PermanentSubmitRefusal::Xid);
    }
    if call.payloads.len().max(call.reply.payloads.len()) > OutgoingRpcCall::MAX_PAYLOADS {
        return Err(PermanentSubmitRefusal::TooMany);
    }
    let mut end = 4;
    let mut payload_bytes = 0;
    for payload in call.payloads {
        let position = payload.position as usize;
        if position < end || !position.is_multiple_of(4) || position - payload_bytes > call.message.len() {
            return Err(PermanentSubmitRefusal::Position);
        }
        payload_bytes += payload.padded();
        end = position + payload.padded();
    }
    let results: u64 = call.reply.payloads.iter().map(|length| u64::from(*length)).sum();
    let max_length = (call.length() as u64).max(results).max(u64::from(call.reply.message_bytes));
    if max_length > LONGEST_CHUNK { Err(PermanentSubmitRefusal::TooLong) } else { Ok(()) }
}

/// Returns the number of segments of a chunk of `length` bytes that is divided as in a capture.
pub(super) fn count(length: u32, lengths: &[u32]) -> u32 {
    let mut sum = 0u64;
    let used_segments = lengths.iter().take_while(|segment_length| {
        let is_used = sum < u64::from(length);
        sum += u64::from(**segment_length);
        is_used
    });
    u32::try_from(used_segments.count().max(1)).unwrap_or(u32::MAX)
}

impl CallChunkPlan {
    /// Returns the form in a capture, with a placeholder for the length of the Reply chunk.
    fn from_capture(captured: &CapturedCallChunkLayout<'_>) -> Self {
        Self {
            is_long_call: !captured.call.is_empty(),
            reads: mask(captured.reads.iter().map(|segments| !segments.is_empty())),
            // An empty chunk keeps its place before others: chunks match results in order (RFC 8267 section 6.4.1).
            writes: mask(
                (0..captured.writes.len())
                    .map(|at| captured.writes.get(at..).unwrap_or_default().iter().any(|segments| total(segments) > 0)),
            ),
            reply: (!captured.reply.is_empty()).then_some(0),
            submitted: SubmittedCallForm::default(),
        }
    }

    fn read_segments(&self, call: &OutgoingRpcCall<'_>) -> u32 {
        let payloads = call.payloads.iter().enumerate().filter(|(index, _)| self.is_read(*index));
        payloads.map(|(index, payload)| count(length_of(payload.length()), captured_reads(call, index))).sum()
    }

    /// Returns the number of segments of the Position-Zero Read chunk.
    fn call_segments(&self, call: &OutgoingRpcCall<'_>) -> u32 {
        if self.is_long_call { count(length_of(self.message(call)), captured_form(call).call) } else { 0 }
    }

    /// Returns the number of segments of each Write chunk. The chunk of a result that is requested inline has none.
    fn write_segments(&self, call: &OutgoingRpcCall<'_>) -> impl Iterator<Item = u32> {
        let (plan, call) = (*self, *call);
        (0..OutgoingRpcCall::MAX_PAYLOADS).filter(move |index| plan.is_written(*index)).map(move |index| {
            let length = Self::write_length(&call, index);
            if length == 0 { 0 } else { count(length, captured_writes(&call, index)) }
        })
    }

    fn reply_segments(&self, call: &OutgoingRpcCall<'_>) -> u32 {
        self.reply.map_or(0, |length| count(length, captured_form(call).reply))
    }

    /// Returns the number of header bytes of the Write list.
    fn write_list(&self, call: &OutgoingRpcCall<'_>) -> usize {
        self.write_segments(call).map(|segments| WRITE_CHUNK + SEGMENT * segments as usize).sum()
    }

    /// Returns the number of header bytes of the Reply chunk.
    fn reply_chunk(&self, call: &OutgoingRpcCall<'_>) -> usize {
        self.reply.map_or(0, |_| REPLY_CHUNK + SEGMENT * self.reply_segments(call) as usize)
    }

    /// Returns the length of the Call's header in bytes.
    fn header(&self, call: &OutgoingRpcCall<'_>) -> usize {
        let reads = (self.read_segments(call) + self.call_segments(call)) as usize * READ_SEGMENT;
        SHORTEST_HEADER + reads + self.write_list(call) + self.reply_chunk(call)
    }

    /// Returns the number of message bytes in the Send, or in the Position-Zero Read chunk of a Long Call.
    fn message(&self, call: &OutgoingRpcCall<'_>) -> usize {
        let payloads = call.payloads.iter().enumerate().filter(|(index, _)| !self.is_read(*index));
        call.message.len() + payloads.map(|(_, payload)| payload.padded()).sum::<usize>()
    }

    /// Returns the length of the Reply's header in bytes, without a Reply chunk.
    fn reply_header(&self, call: &OutgoingRpcCall<'_>) -> usize {
        SHORTEST_HEADER + self.write_list(call)
    }

    /// Returns the maximum length of the Reply's message in bytes, without results in Write chunks.
    fn reply_message(&self, call: &OutgoingRpcCall<'_>) -> usize {
        let is_inline = |index: usize| !self.is_written(index) || Self::write_length(call, index) == 0;
        let results = call.reply.payloads.iter().enumerate().filter(|(index, _)| is_inline(*index));
        call.reply.message_bytes as usize + results.map(|(_, length)| padded(*length)).sum::<usize>()
    }

    /// Returns the summary, with the difference from the requested form.
    fn submitted_form(&self, call: &OutgoingRpcCall<'_>, requested: Self) -> SubmittedCallForm {
        let read_segments = self.read_segments(call) + self.call_segments(call);
        let captured = captured_form(call);
        let segments = |chunks: &[&[u32]]| chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
        let write_segments = self.write_segments(call).sum();
        // An empty chunk has no segments.
        let captured_segments: usize =
            captured.writes.iter().filter(|chunk| total(chunk) > 0).map(|chunk| chunk.len()).sum();
        let reply_segments = self.reply_segments(call);
        let is_changed = Self { reply: self.reply.map(|_| 0), ..*self } != requested
            || read_segments as usize != captured.call.len() + segments(captured.reads)
            || write_segments as usize != captured_segments
            || reply_segments as usize != captured.reply.len();
        SubmittedCallForm {
            form: if self.is_long_call { RpcMessageWireForm::Nomsg } else { RpcMessageWireForm::Message },
            inline_bytes: if self.is_long_call { 0 } else { length_of(self.message(call)) },
            read_segments,
            write_segments,
            reply_segments,
            changed: matches!(call.requested_form, RequestedCallForm::Captured(_)) && is_changed,
        }
    }
}

/// Converts a length, which was checked against [`LONGEST_CHUNK`] before.
fn length_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing_call::{CallTag, DdpEligibleArgument, PayloadContentLocation, ReplySizeLimits};
    use nfsrdma_dissectors::rpc::Xid;

    const MESSAGE: [u8; 100] = [0; 100];

    fn terms(inline: u32) -> NegotiatedRpcRdmaParameters {
        NegotiatedRpcRdmaParameters {
            call_inline: inline,
            reply_inline: inline,
            ..NegotiatedRpcRdmaParameters::negotiate(None, None)
        }
    }

    fn call<'a>(
        message: &'a [u8],
        payloads: &'a [DdpEligibleArgument<'a>],
        reply: ReplySizeLimits<'a>,
    ) -> OutgoingRpcCall<'a> {
        OutgoingRpcCall { payloads, reply, ..OutgoingRpcCall::without_payloads(Xid(0), CallTag(0), message, 0) }
    }

    fn data(position: u32, bytes: &[u8]) -> DdpEligibleArgument<'_> {
        DdpEligibleArgument { position, source: PayloadContentLocation::Copied(bytes) }
    }

    #[test]
    fn rfc8166_section_3_5_1_a_call_that_fits_travels_in_the_send() {
        let bytes = [1; 1024];
        // Header 28 bytes, message 100, payload 1,024: 1,152.
        let payloads = [data(100, &bytes)];
        let call = call(&MESSAGE, &payloads, ReplySizeLimits { message_bytes: 100, payloads: &[] });
        let plan = CallChunkPlan::for_call(&call, &terms(1152)).unwrap();
        assert_eq!((plan.is_long_call, plan.reads, plan.reply, plan.submitted.inline_bytes), (false, 0, None, 1124));
        let plan = CallChunkPlan::for_call(&call, &terms(1151)).unwrap();
        assert_eq!((plan.is_long_call, plan.reads, plan.submitted.read_segments), (false, 1, 1));
        assert_eq!(plan.submitted.inline_bytes, 100);
    }

    #[test]
    fn rfc8166_section_3_5_3_a_message_that_does_not_fit_reduced_is_a_long_call() {
        let message = [0; 2000];
        let call = call(&message, &[], ReplySizeLimits { message_bytes: 100, payloads: &[] });
        let plan = CallChunkPlan::for_call(&call, &terms(1024)).unwrap();
        assert_eq!(
            (plan.is_long_call, plan.submitted.form, plan.submitted.inline_bytes),
            (true, RpcMessageWireForm::Nomsg, 0)
        );
        assert_eq!(plan.submitted.read_segments, 1);
    }

    #[test]
    fn a_long_call_takes_its_payloads_with_it_unless_a_capture_had_them_beside_it() {
        let (message, bytes) = ([0; 2000], [1; 600]);
        let payloads = [data(2000, &bytes)];
        let call = call(&message, &payloads, ReplySizeLimits { message_bytes: 100, payloads: &[] });
        let plan = CallChunkPlan::for_call(&call, &terms(1024)).unwrap();
        assert_eq!((plan.is_long_call, plan.reads, plan.submitted.read_segments), (true, 0, 1));
        let captured =
            CapturedCallChunkLayout { call: &[2000], reads: &[&[600]], ..CapturedCallChunkLayout::default() };
        let plan = CallChunkPlan::for_call(
            &OutgoingRpcCall { requested_form: RequestedCallForm::Captured(captured), ..call },
            &terms(1024),
        )
        .unwrap();
        assert_eq!((plan.is_long_call, plan.reads, plan.submitted.read_segments), (true, 1, 2));
        assert!(!plan.submitted.changed);
    }

    #[test]
    fn rfc8166_section_4_3_3_a_reply_that_may_not_fit_has_a_reply_chunk() {
        let fits = ReplySizeLimits { message_bytes: 996, payloads: &[] };
        assert_eq!(CallChunkPlan::for_call(&call(&MESSAGE, &[], fits), &terms(1024)).unwrap().reply, None);
        let longer = ReplySizeLimits { message_bytes: 1000, payloads: &[] };
        assert_eq!(CallChunkPlan::for_call(&call(&MESSAGE, &[], longer), &terms(1024)).unwrap().reply, Some(1000));
    }

    #[test]
    fn rfc8166_section_4_3_2_a_result_that_may_not_fit_has_a_write_chunk() {
        let reply = ReplySizeLimits { message_bytes: 200, payloads: &[1021] };
        let plan = CallChunkPlan::for_call(&call(&MESSAGE, &[], reply), &terms(1024)).unwrap();
        assert_eq!((plan.writes, plan.reply, plan.submitted.write_segments), (1, None, 1));
        let reply = ReplySizeLimits { message_bytes: 200, payloads: &[500] };
        assert_eq!(CallChunkPlan::for_call(&call(&MESSAGE, &[], reply), &terms(1024)).unwrap().writes, 0);
        let reply = ReplySizeLimits { message_bytes: 2000, payloads: &[1021] };
        let plan = CallChunkPlan::for_call(&call(&MESSAGE, &[], reply), &terms(1024)).unwrap();
        assert_eq!((plan.writes, plan.reply), (1, Some(2000)));
    }

    #[test]
    fn rfc8166_section_4_3_2_3_a_result_that_is_wanted_in_the_message_has_an_empty_write_chunk() {
        let reply = ReplySizeLimits { message_bytes: 700, payloads: &[0, 4000] };
        let plan = CallChunkPlan::for_call(&call(&MESSAGE, &[], reply), &terms(1024)).unwrap();
        assert_eq!((plan.writes, plan.submitted.write_segments), (0b11, 1));
    }

    #[test]
    fn rfc8267_section_6_4_1_an_empty_chunk_of_a_capture_keeps_its_place() {
        let writes: [&[u32]; 4] = [&[4096], &[], &[100], &[0]];
        let call = OutgoingRpcCall {
            requested_form: RequestedCallForm::Captured(CapturedCallChunkLayout {
                writes: &writes,
                ..CapturedCallChunkLayout::default()
            }),
            ..call(&MESSAGE, &[], ReplySizeLimits { message_bytes: 100, payloads: &[4096, 1024, 100, 512] })
        };
        let plan = CallChunkPlan::for_call(&call, &terms(4096)).unwrap();
        assert_eq!((plan.writes, plan.submitted.write_segments, plan.submitted.changed), (0b111, 2, false));
        assert_eq!([0, 1, 2].map(|at| CallChunkPlan::write_length(&call, at)), [4096, 0, 100]);
        // A result requested inline counts as part of the message: header 28 bytes, 3 chunks, 100 + 1,024 + 512.
        let header = SHORTEST_HEADER + 3 * WRITE_CHUNK + 2 * SEGMENT;
        let fits = |inline: usize| CallChunkPlan::for_call(&call, &terms(inline as u32)).unwrap().reply.is_none();
        assert_eq!((fits(header + 1636), fits(header + 1632)), (true, false));
    }

    #[test]
    fn a_captured_form_is_retained_where_the_terms_allow_it() {
        let bytes = [1; 600];
        let payloads = [data(100, &bytes)];
        let captured =
            CapturedCallChunkLayout { reads: &[&[512, 88]], reply: &[4096], ..CapturedCallChunkLayout::default() };
        let call = OutgoingRpcCall {
            requested_form: RequestedCallForm::Captured(captured),
            ..call(&MESSAGE, &payloads, ReplySizeLimits { message_bytes: 100, payloads: &[] })
        };
        let plan = CallChunkPlan::for_call(&call, &terms(4096)).unwrap();
        assert_eq!((plan.reads, plan.reply, plan.submitted.changed), (1, Some(4096), false));
        assert_eq!((plan.submitted.read_segments, plan.submitted.reply_segments), (2, 1));
        let call =
            OutgoingRpcCall { requested_form: RequestedCallForm::Captured(CapturedCallChunkLayout::default()), ..call };
        let plan = CallChunkPlan::for_call(&call, &terms(512)).unwrap();
        assert_eq!((plan.reads, plan.submitted.changed), (1, true));
    }

    #[test]
    fn a_call_is_held_to_its_rules() {
        let terms = terms(1024);
        let refusal = |call: &OutgoingRpcCall<'_>| CallChunkPlan::for_call(call, &terms).err();
        let none = ReplySizeLimits::default();
        assert_eq!(refusal(&call(&[1, 2, 3, 4], &[], none)), Some(PermanentSubmitRefusal::Xid));
        assert_eq!(refusal(&call(&MESSAGE, &[data(102, b"")], none)), Some(PermanentSubmitRefusal::Position));
        assert_eq!(refusal(&call(&MESSAGE, &[data(104, b"")], none)), Some(PermanentSubmitRefusal::Position));
        let two = [data(60, &[0; 8]), data(64, b"abcd")];
        assert_eq!(refusal(&call(&MESSAGE, &two, none)), Some(PermanentSubmitRefusal::Position));
        let many = [data(100, b""); 17];
        assert_eq!(refusal(&call(&MESSAGE, &many, none)), Some(PermanentSubmitRefusal::TooMany));
        let huge = ReplySizeLimits { message_bytes: u32::MAX, payloads: &[] };
        assert_eq!(refusal(&call(&MESSAGE, &[], huge)), Some(PermanentSubmitRefusal::TooLong));
    }

    #[test]
    fn a_chunk_has_the_segments_that_its_length_reaches() {
        assert_eq!(count(100, &[]), 1);
        assert_eq!(count(100, &[50, 50, 50]), 2);
        assert_eq!(count(101, &[50, 50, 50]), 3);
        assert_eq!(count(500, &[50, 50]), 2);
        assert_eq!(count(0, &[50]), 1);
    }
}
