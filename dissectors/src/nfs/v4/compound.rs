//! COMPOUND and CB_COMPOUND, sequences of operations. RFC 7530 sections 15.2 and 17.2, RFC 8881 sections 16.2 and 19.2.
//!
//! A COMPOUND does not contain the lengths of its operations, so an undecodable operation ends the iteration.
//! Operations before it remain decoded; the rest is available as bytes.

use std::fmt;

use super::forwarding_observer::OuterGroupOmittingObserver;
use super::namespace_and_attributes::Createtype4;
use super::operation_numbers::{CbOperationNumber, OperationNumber};
use super::operations::{Args, CbArgs, CbResults, OperationBody, Results};
use super::status::Nfsstat4;
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, FieldValue, NullFieldObserver, UndefinedValueObserver};
use crate::xdr::{Cursor, EncodedItemsOrSlice, Encoder, Text, Xdr, XdrError};

crate::xdr! { "nfs";
    /// COMPOUND4args, without the operations. RFC 8881 section 16.2.1.
    struct CompoundCallHead<'a> { tag: Text<'a>, minorversion: u32 }

    /// COMPOUND4res and CB_COMPOUND4res, without the operations. RFC 8881 sections 16.2.2 and 19.2.2.
    struct CompoundReplyHead<'a> { status: Nfsstat4 => "nfs.nfsstat4", tag: Text<'a> }

    /// CB_COMPOUND4args, without the operations. RFC 8881 section 19.2.1.
    struct CbCompoundCallHead<'a> { tag: Text<'a>, minorversion: u32, callback_ident: u32 => "nfs.callback.ident" }
}

/// Arguments of COMPOUND.
pub type CompoundCall<'a> = Compound<'a, CompoundCallHead<'a>, Args<'a>>;
/// Results of COMPOUND.
pub type CompoundReply<'a> = Compound<'a, CompoundReplyHead<'a>, Results<'a>>;
/// Arguments of CB_COMPOUND.
pub type CbCompoundCall<'a> = Compound<'a, CbCompoundCallHead<'a>, CbArgs<'a>>;
/// Results of CB_COMPOUND.
pub type CbCompoundReply<'a> = Compound<'a, CompoundReplyHead<'a>, CbResults<'a>>;

crate::field::fields! {
    HEAD = "nfs.compound" "COMPOUND" Group, "Operations in a row. RFC 8881 section 16.2.";
    pub(crate) COUNT = "nfs.ops.count" "operations" Unsigned, "Number of operations. RFC 8881 section 16.2.1.";
    pub(crate) UNKNOWN = "nfs.unknown_operation" "unknown operation" Group,
        "An operation that this program does not know. RFC 8881 section 16.2.";
    pub(crate) REST = "nfs.undecoded" "undecoded" Bytes,
        "Undecoded bytes: the rest of an operation that cannot be decoded, and all bytes after it. RFC 8881 section 16.2.";
}

/// Adds the fields of COMPOUND and CB_COMPOUND to a registry.
pub fn describe(registry: &mut FieldRegistry) {
    for field in [&HEAD, &COUNT, &UNKNOWN, &REST] {
        registry.field(field);
    }
    CompoundCallHead::describe(registry);
    CompoundReplyHead::describe(registry);
    CbCompoundCallHead::describe(registry);
    OperationNumber::describe_field(registry, <Args<'_> as OperationBody>::OPCODE, "");
    CbOperationNumber::describe_field(registry, <CbArgs<'_> as OperationBody>::OPCODE, "");
    Args::describe(registry);
    Results::describe(registry);
    CbArgs::describe(registry);
    CbResults::describe(registry);
}

/// A COMPOUND: the head before the operations, and the operations.
pub struct Compound<'a, H, B> {
    /// Members before the operations.
    pub head: H,
    count: u32,
    storage: EncodedItemsOrSlice<'a, B>,
}

impl<H: Clone, B> Clone for Compound<'_, H, B> {
    fn clone(&self) -> Self {
        Self { head: self.head.clone(), ..*self }
    }
}

impl<'a, H: Xdr<'a> + fmt::Debug, B: OperationBody<'a> + fmt::Debug> fmt::Debug for Compound<'a, H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entry(&self.head).entries(self.operations()).finish()
    }
}

impl<'a, H: Xdr<'a>, B: OperationBody<'a>> Compound<'a, H, B> {
    /// Returns a COMPOUND of these operations.
    pub fn new(head: H, operations: &'a [B]) -> Self {
        let count = u32::try_from(operations.len()).unwrap_or(u32::MAX);
        Self { head, count, storage: EncodedItemsOrSlice::Slice(operations) }
    }

    /// Decodes the head and reports it to the observer. Moves the cursor to the first operation.
    ///
    /// # Errors
    /// Returns an error if the message ends before the operations.
    pub fn decode<O: FieldObserver<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, XdrError> {
        let mut inner_observer = OuterGroupOmittingObserver::new(observer, Some(&HEAD));
        let head = H::decode(cursor, &HEAD, &mut inner_observer)?;
        let count = u32::decode(cursor, &COUNT, &mut inner_observer)?;
        Ok(Self { head, count, storage: EncodedItemsOrSlice::Message(*cursor) })
    }

    /// Returns the number of operations according to the message.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Iterates over the operations.
    pub fn operations(&self) -> CompoundOperationIterator<'a, B> {
        CompoundOperationIterator { remaining: self.count, storage: self.storage, is_stopped: false }
    }

    /// Appends the encoding. Undecodable bytes are copied verbatim.
    pub fn encode(&self, encoder: &mut Encoder) {
        self.head.encode(encoder);
        encoder.word(self.count);
        let mut operations = self.operations();
        for body in operations.by_ref().map_while(Result::ok) {
            body.number().encode(encoder);
            body.encode(encoder);
        }
        if operations.remaining() > 0 {
            encoder.raw(operations.rest());
        }
    }
}

/// Position and cause of an early end of an iteration over operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompoundDecodeFailure<N> {
    /// Undecodable operation; `None` if not even its number was decoded.
    pub operation: Option<N>,
    /// In a Reply: status of the operation, if it was decoded.
    pub status: Option<Nfsstat4>,
    /// Cause.
    pub error: XdrError,
}

/// Iterator over the operations of a COMPOUND. An undecodable operation is an error and ends the iteration.
#[derive(Clone, Debug)]
pub struct CompoundOperationIterator<'a, B> {
    remaining: u32,
    storage: EncodedItemsOrSlice<'a, B>,
    is_stopped: bool,
}

impl<'a, B: OperationBody<'a>> CompoundOperationIterator<'a, B> {
    /// Returns the number of operations not decoded yet.
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Returns the captured bytes not decoded yet: from the undecodable operation, or after the COMPOUND at the end of
    /// the iteration.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor().map_or(&[], |cursor| cursor.rest())
    }

    /// Returns the position of the iteration in the message, or `None` for a slice.
    pub fn cursor(&self) -> Option<Cursor<'a>> {
        match self.storage {
            EncodedItemsOrSlice::Message(cursor) => Some(cursor),
            EncodedItemsOrSlice::Slice(_) => None,
        }
    }

    /// Decodes the next operation. The observer receives a group of fields that begins with the number. Operations in a
    /// slice are not reported.
    pub fn read_next<O: FieldObserver<'a>>(
        &mut self,
        observer: &mut O,
    ) -> Option<Result<B, CompoundDecodeFailure<B::OperationNumber>>> {
        self.take_next(observer, |_, _, body| body)
    }

    /// Decodes the next operation, and returns what `visit` returns for its number, its status in a Reply, and its body.
    /// Operations are large, and this one is not moved.
    #[inline]
    pub fn visit_next<O: FieldObserver<'a>, R>(
        &mut self,
        observer: &mut O,
        visit: impl FnOnce(B::OperationNumber, Option<Nfsstat4>, &B) -> R,
    ) -> Option<Result<R, CompoundDecodeFailure<B::OperationNumber>>> {
        self.take_next(observer, |number, status, body| {
            body.as_ref().map(|body| visit(number, status, body)).map_err(|error| *error)
        })
    }

    #[inline]
    fn take_next<O: FieldObserver<'a>, R>(
        &mut self,
        observer: &mut O,
        take: impl FnOnce(B::OperationNumber, Option<Nfsstat4>, Result<B, XdrError>) -> Result<R, XdrError>,
    ) -> Option<Result<R, CompoundDecodeFailure<B::OperationNumber>>> {
        if self.is_stopped || self.remaining == 0 {
            return None;
        }
        let body = match &mut self.storage {
            EncodedItemsOrSlice::Slice(bodies) => {
                let (first, rest) = bodies.split_first()?;
                *bodies = rest;
                take(first.number(), None, Ok(first.clone())).map_err(|error| CompoundDecodeFailure {
                    operation: None,
                    status: None,
                    error,
                })
            }
            EncodedItemsOrSlice::Message(cursor) => {
                let start = *cursor;
                let body = decode_operation(cursor, observer, take);
                if body.is_err() {
                    *cursor = start;
                }
                body
            }
        };
        match body {
            Ok(_) => self.remaining -= 1,
            Err(_) => self.is_stopped = true,
        }
        Some(body)
    }
}

/// Decodes one operation, reports it to the observer, and returns what `take` returns for it. If it is undecodable,
/// reports the remaining bytes.
#[inline]
fn decode_operation<'a, B: OperationBody<'a>, O: FieldObserver<'a>, R>(
    cursor: &mut Cursor<'a>,
    observer: &mut O,
    take: impl FnOnce(B::OperationNumber, Option<Nfsstat4>, Result<B, XdrError>) -> Result<R, XdrError>,
) -> Result<R, CompoundDecodeFailure<B::OperationNumber>> {
    let at = cursor.position();
    let mut number_field = O::is_enabled().then_some(*cursor);
    let number = match B::OperationNumber::decode(cursor, B::OPCODE, &mut NullFieldObserver) {
        Ok(number) => number,
        Err(error) => {
            report_rest(cursor, observer);
            return Err(CompoundDecodeFailure { operation: None, status: None, error });
        }
    };
    let status = if B::HAS_STATUS { cursor.peek_word().map(Nfsstat4) } else { None };
    let group = if O::is_enabled() { B::field(number) } else { None };
    observer.enter(group.unwrap_or(&UNKNOWN), at);
    if let Some(field) = &mut number_field {
        B::OperationNumber::decode(field, B::OPCODE, observer).map_err(|error| CompoundDecodeFailure {
            operation: Some(number),
            status,
            error,
        })?;
    }
    let mut inner_observer = OuterGroupOmittingObserver::new(observer, group);
    let body = take(number, status, B::decode(number, cursor, &mut inner_observer));
    if body.is_err() {
        inner_observer.leave_all(cursor.position());
        report_rest(cursor, observer);
    }
    observer.leave(cursor.position());
    body.map_err(|error| CompoundDecodeFailure { operation: Some(number), status, error })
}

fn report_rest<'a, O: FieldObserver<'a>>(cursor: &Cursor<'a>, observer: &mut O) {
    let (at, rest) = (cursor.position(), cursor.rest());
    if !rest.is_empty() {
        observer.value(&REST, at..at + rest.len(), FieldValue::Bytes(rest));
    }
}

impl<'a, B: OperationBody<'a>> Iterator for CompoundOperationIterator<'a, B> {
    type Item = Result<B, CompoundDecodeFailure<B::OperationNumber>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_next(&mut NullFieldObserver)
    }
}

/// Lowest class: an operation of this class names the COMPOUND regardless of later operations.
const LOWEST_CLASS: u8 = 1;

/// Highest class of operations that describe a truncated COMPOUND: those of higher classes precede or follow most
/// others.
const HIGHEST_NAMING_CLASS: u8 = 5;

/// The operation that names a COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompoundMainOperation<N> {
    /// First operation of the lowest class among the decoded numbers. If the capture truncates the rest, only an
    /// operation of `LOWEST_CLASS` counts: Linux sends a SETATTR before DELEGRETURN.
    pub operation: Option<N>,
    /// If `operation` is unknown because the capture truncates the rest: the first operation of the lowest class among
    /// the decoded numbers, unless it only selects or describes a file, as in nearly every COMPOUND.
    pub decoded: Option<N>,
    /// Cause of an early end of the iteration, or trailing bytes: an operation of a lower class may have followed.
    pub stop: Option<XdrError>,
}

/// Search for the operation that names a COMPOUND.
struct MainOperationSearch<N> {
    lowest_class: u8,
    operation: Option<N>,
}

impl<N: Copy> MainOperationSearch<N> {
    const NEW: Self = Self { lowest_class: u8::MAX, operation: None };

    #[inline]
    fn add<'a, B: OperationBody<'a, OperationNumber = N>>(&mut self, number: N) {
        let class = B::class(number);
        if class < self.lowest_class {
            (self.lowest_class, self.operation) = (class, Some(number));
        }
    }

    /// Ends the search at `end` in the message, with a number of operations that were not decoded because of `stop`.
    fn finish<'a, B: OperationBody<'a, OperationNumber = N>>(
        mut self,
        (remaining, end): (u32, Option<Cursor<'_>>),
        stop: Option<CompoundDecodeFailure<N>>,
    ) -> CompoundMainOperation<N> {
        if let Some(number) = stop.and_then(|stop| stop.operation) {
            self.add::<B>(number);
        }
        let is_cut = stop.is_some_and(|stop| stop.error.is_cut());
        let undecodable_count = u32::from(stop.is_some_and(|stop| stop.operation.is_some()));
        let mut main = CompoundMainOperation { operation: self.operation, decoded: None, stop: None };
        if is_cut && remaining > undecodable_count && self.lowest_class > LOWEST_CLASS {
            let is_naming = self.lowest_class <= HIGHEST_NAMING_CLASS;
            main.decoded = main.operation.take().filter(|_| is_naming);
        }
        let trailing = || end?.expect_end().err();
        main.stop = stop.map(|stop| stop.error).or_else(trailing);
        main
    }
}

/// Maximum number of operations in a summary. Longer COMPOUNDs are rare.
const MAX_SUMMARY: usize = 20;

/// First operations of a COMPOUND, in order: enough to compare a Call with its results without a second decoding.
#[derive(Clone, Copy, Debug)]
pub struct OperationSummary<N> {
    /// Number of operations according to the message.
    pub count: u32,
    numbers: [N; MAX_SUMMARY],
    len: usize,
}

impl<N: Copy + Default> OperationSummary<N> {
    fn new(count: u32) -> Self {
        Self { count, numbers: [N::default(); MAX_SUMMARY], len: 0 }
    }

    #[inline]
    fn add(&mut self, number: N) {
        if let Some(slot) = self.numbers.get_mut(self.len) {
            *slot = number;
        }
        self.len += 1;
    }

    /// Returns the operation at an index; `None` for one that was not decoded, or that is not among the first.
    #[inline]
    pub fn number(&self, index: usize) -> Option<N> {
        self.numbers.get(..self.len.min(MAX_SUMMARY))?.get(index).copied()
    }

    /// Returns `true` if operations that were decoded are not among the first.
    pub fn is_truncated(&self) -> bool {
        self.len > MAX_SUMMARY
    }
}

impl<'a, H: Xdr<'a>, B: OperationBody<'a>> Compound<'a, H, B> {
    /// Returns the operation that names the COMPOUND.
    pub fn main_operation(&self) -> CompoundMainOperation<B::OperationNumber> {
        self.main_operation_and_summary(|_, _| {}).0
    }

    /// Returns the operation that names the COMPOUND, and its first operations. `see` receives each operation with its
    /// index.
    pub fn main_operation_and_summary(
        &self,
        mut see: impl FnMut(u32, &B),
    ) -> (CompoundMainOperation<B::OperationNumber>, OperationSummary<B::OperationNumber>) {
        let mut search = MainOperationSearch::NEW;
        let mut summary = OperationSummary::new(self.count);
        let mut operations = self.operations();
        let mut stop = None;
        loop {
            let index = self.count - operations.remaining();
            let visit = |number, _, body: &B| {
                see(index, body);
                number
            };
            let Some(number) = operations.visit_next(&mut NullFieldObserver, visit) else { break };
            match number {
                Ok(number) => {
                    search.add::<B>(number);
                    summary.add(number);
                }
                Err(error) => stop = Some(error),
            }
        }
        if let Some(number) = stop.and_then(|stop: CompoundDecodeFailure<_>| stop.operation) {
            summary.add(number);
        }
        (search.finish::<B>((operations.remaining(), operations.cursor()), stop), summary)
    }

    /// Decodes the results of a Reply. Returns the position behind the last. `see` receives each result that was decoded at
    /// least up to its number: its index, number, status and body.
    ///
    /// # Errors
    /// Returns the cause of an early end.
    pub fn visit_results(
        &self,
        mut see: impl FnMut(u32, B::OperationNumber, Option<Nfsstat4>, Option<&B>),
    ) -> Result<Option<Cursor<'a>>, XdrError> {
        let mut operations = self.operations();
        loop {
            let index = self.count - operations.remaining();
            let visit = |number, status, body: &B| see(index, number, status, Some(body));
            match operations.visit_next(&mut NullFieldObserver, visit) {
                Some(Ok(())) => {}
                Some(Err(stop)) => {
                    if let Some(number) = stop.operation {
                        see(index, number, stop.status, None);
                    }
                    return Err(stop.error);
                }
                None => return Ok(operations.cursor()),
            }
        }
    }
}

/// A COMPOUND with its operations, as far as they can be decoded.
#[derive(Clone, Debug)]
pub struct DecodedOperations<'a, H, B, N> {
    /// Members before the operations.
    pub head: H,
    /// Number of operations according to the message.
    pub count: u32,
    /// Operations that were decoded.
    pub operations: Vec<B>,
    /// Position and cause of an early end.
    pub stop: Option<CompoundDecodeFailure<N>>,
    /// `true` if an operation has a value that its type does not define.
    pub has_undefined: bool,
    /// Bytes behind the first operation, if all of them were captured.
    after_first: Option<&'a [u8]>,
    /// Position behind the last operation that was decoded.
    end: Cursor<'a>,
}

/// Maximum number of operations for which space is reserved: a message can announce more than it has.
const MAX_RESERVED: usize = 16;

impl<'a, H: Xdr<'a>, B: OperationBody<'a> + 'a> DecodedOperations<'a, H, B, B::OperationNumber> {
    /// Decodes the operations of a COMPOUND as far as possible. The cursor is at its head.
    ///
    /// # Errors
    /// Returns an error if the message ends before the operations.
    pub fn decode(mut cursor: Cursor<'a>) -> Result<Self, XdrError> {
        let mut undefined = UndefinedValueObserver::default();
        let compound = Compound::<'a, H, B>::decode(&mut cursor, &mut NullFieldObserver)?;
        let mut operations = Vec::with_capacity(MAX_RESERVED.min(compound.count as usize));
        let (mut stop, mut after_first) = (None, None);
        while stop.is_none() && operations.len() < compound.count as usize {
            let start = cursor;
            match decode_operation(&mut cursor, &mut undefined, |_, _, body| body.map(|body| operations.push(body))) {
                Ok(()) if operations.len() == 1 => {
                    let rest = cursor.rest();
                    after_first = (cursor.remaining() == rest.len()).then_some(rest);
                }
                Ok(()) => {}
                Err(error) => (cursor, stop) = (start, Some(error)),
            }
        }
        let has_undefined = undefined.has_undefined;
        Ok(Self {
            head: compound.head,
            count: compound.count,
            operations,
            stop,
            has_undefined,
            after_first,
            end: cursor,
        })
    }

    /// Returns the bytes behind the first operation, to the end of the message; `None` without an operation, or if the
    /// capture lacks some of them.
    pub fn bytes_after_first(&self) -> Option<&'a [u8]> {
        self.after_first
    }

    /// Returns the position behind the last operation.
    ///
    /// # Errors
    /// Returns the cause of an early end.
    pub fn end(&self) -> Result<Cursor<'a>, XdrError> {
        match self.stop {
            Some(stop) => Err(stop.error),
            None => Ok(self.end),
        }
    }

    /// Returns the operation that names the COMPOUND.
    pub fn main_operation(&self) -> CompoundMainOperation<B::OperationNumber> {
        let mut search = MainOperationSearch::NEW;
        self.operations.iter().for_each(|body| search.add::<B>(body.number()));
        let remaining = self.count - self.operations.len() as u32;
        search.finish::<B>((remaining, Some(self.end)), self.stop)
    }

    /// Returns the first operations.
    pub fn summary(&self) -> OperationSummary<B::OperationNumber> {
        let mut summary = OperationSummary::new(self.count);
        self.operations.iter().for_each(|body| summary.add(body.number()));
        self.stop.and_then(|stop| stop.operation).into_iter().for_each(|number| summary.add(number));
        summary
    }
}

impl DecodedCompoundReply<'_> {
    /// Calls `see` with each result that was decoded at least up to its number: its index, number, status and body.
    pub fn visit_results(&self, mut see: impl FnMut(u32, OperationNumber, Option<Nfsstat4>, Option<&Results<'_>>)) {
        for (index, result) in (0..).zip(&self.operations) {
            see(index, result.number(), Some(result.status()), Some(result));
        }
        if let Some(stop) = &self.stop
            && let Some(number) = stop.operation
        {
            see(self.operations.len() as u32, number, stop.status, None);
        }
    }
}

/// Arguments of COMPOUND, decoded.
pub type DecodedCompoundCall<'a> = DecodedOperations<'a, CompoundCallHead<'a>, Args<'a>, OperationNumber>;
/// Results of COMPOUND, decoded.
pub type DecodedCompoundReply<'a> = DecodedOperations<'a, CompoundReplyHead<'a>, Results<'a>, OperationNumber>;
/// Arguments of CB_COMPOUND, decoded.
pub type DecodedCbCompoundCall<'a> = DecodedOperations<'a, CbCompoundCallHead<'a>, CbArgs<'a>, CbOperationNumber>;
/// Results of CB_COMPOUND, decoded.
pub type DecodedCbCompoundReply<'a> = DecodedOperations<'a, CompoundReplyHead<'a>, CbResults<'a>, CbOperationNumber>;

impl<'a, H: Xdr<'a>, B: OperationBody<'a>> Compound<'a, H, B> {
    /// Returns the decoded operation numbers.
    fn numbers(&self) -> impl Iterator<Item = B::OperationNumber> {
        self.operations().map_while(|body| match body {
            Ok(body) => Some(body.number()),
            Err(stop) => stop.operation,
        })
    }

    /// Returns the operation that names a Call whose operations may be truncated, with the help of the operation
    /// numbers in its Reply. `None` if an operation of a lower class may be in neither. RFC 8881 section 16.2.3.
    pub fn main_operation_with_reply<R, C>(&self, reply: &Compound<'a, R, C>) -> Option<B::OperationNumber>
    where
        R: Xdr<'a>,
        C: OperationBody<'a, OperationNumber = B::OperationNumber>,
    {
        let call_count = self.numbers().count();
        let results = reply.numbers().skip(call_count);
        let mut numbers = 0;
        let lowest = { self.numbers().chain(results) }
            .inspect(|_| numbers += 1)
            .reduce(|lowest, number| if B::class(number) < B::class(lowest) { number } else { lowest });
        lowest.filter(|lowest| numbers >= self.count || B::class(*lowest) <= LOWEST_CLASS)
    }
}

impl CompoundReply<'_> {
    /// Returns the operation that names the Call, if all its operations succeeded and therefore have results.
    pub fn main_operation_of_call(&self) -> Option<OperationNumber> {
        let is_complete = self.head.status == Nfsstat4::NFS4_OK;
        self.main_operation().operation.filter(|_| is_complete)
    }
}

/// Chunks that contain text for display: link texts. RFC 8267 section 6.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SymlinkTextChunkFlags {
    /// `true` if the Read chunks of the Call do: it creates a symbolic link.
    pub call: bool,
    /// `true` if the Write chunks of the Call will: it reads a symbolic link.
    pub reply: bool,
}

impl CompoundCall<'_> {
    /// Returns the chunks with a [`DdpText`](crate::xdr::DdpText) item.
    pub fn link_text_chunks(&self) -> SymlinkTextChunkFlags {
        let mut items = SymlinkTextChunkFlags::default();
        for body in self.operations() {
            match body {
                Ok(Args::CREATE(create)) => items.call |= matches!(create.objtype, Createtype4::Link(_)),
                Ok(Args::READLINK(_)) => items.reply = true,
                _ => {}
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Seen;
    use super::*;
    use crate::nfs::StatusUnion;
    use crate::nfs::v4::*;
    use crate::xdr::{ChunkedDataItem, Ddp, DdpText, Opaque, Void};

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// SEQUENCE, PUTFH, WRITE of 65,536 bytes in a Read chunk, GETATTR; from a Linux client.
    const WRITE_CALL: &str = "
        00000000 00000002 00000004
        00000035 e20a016b3bdba0000100000000000000 00000019 00000000 00000000 00000000
        00000016 00000014 0100018100000000880000000 0000000c728a333
        00000026 00000000 e20a016b3bdba00004000000 0000000000000000 00000002 00010000
        00000009 00000002 00000018 00302000";

    /// Reply of a Linux server to SEQUENCE, PUTFH, READ of 4,096 bytes, with 100 bytes in the Write chunk.
    const READ_REPLY: &str = "
        00000000 00000000 00000003
        00000035 00000000 e20a016b3bdba0000100000000000000 0000002a 00000000 0000003f 0000003f 00000000
        00000016 00000000
        00000019 00000000 00000001 00000064";

    /// CB_SEQUENCE and CB_RECALL, from a Linux server.
    const RECALL_CALL: &str = "
        00000000 00000002 00000000 00000002
        0000000b e510016b3fd0331f0100000000000000 00000001 00000000 0000000f 00000000 00000000
        00000004 00000001 e510016b3fd0331f02000000 00000000 00000014 010001810000000081004200000000006c9d4b7f";

    #[test]
    fn a_write_with_its_data_in_a_read_chunk() {
        let bytes = bytes(WRITE_CALL);
        let chunks = [ChunkedDataItem { position: Some(112), length: 65536, bytes: None }];
        let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
        let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!((call.head.minorversion, call.count()), (2, 4));

        let operations: Vec<_> = call.operations().map(Result::unwrap).collect();
        let numbers: Vec<_> = operations.iter().map(|body| body.number().to_string()).collect();
        assert_eq!(numbers, ["SEQUENCE", "PUTFH", "WRITE", "GETATTR"]);
        let Args::WRITE(write) = &operations[2] else { unreachable!() };
        assert_eq!((write.offset, write.stable), (0, StableHow4::FILE_SYNC4));
        assert_eq!(write.data, Ddp::Chunk { length: 65536, bytes: None });
        assert_eq!(
            call.main_operation(),
            CompoundMainOperation { operation: Some(OperationNumber::WRITE), decoded: None, stop: None }
        );

        let mut encoder = Encoder::new();
        call.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        assert_eq!(encoder.splices()[0].position, 112);
    }

    #[test]
    fn a_read_with_its_data_in_a_write_chunk() {
        let bytes = bytes(READ_REPLY);
        let chunks = [ChunkedDataItem { position: None, length: 100, bytes: None }];
        let reply =
            CompoundReply::decode(&mut Cursor::new(&bytes).with_chunks(&chunks), &mut NullFieldObserver).unwrap();
        let data = Ddp::Chunk { length: 100, bytes: None };
        let read = Results::READ(StatusUnion::Ok(Read4Resok { eof: true, data }));
        assert_eq!(reply.operations().nth(2), Some(Ok(read)));
        let statuses: Vec<_> = reply.operations().map(|body| body.unwrap().status()).collect();
        assert_eq!(statuses, [Nfsstat4::NFS4_OK; 3]);
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// PUTFH LOOKUP READ PUTFH LOOKUP READLINK PUTFH LOOKUP READ: the example of RFC 8267 section 6.4.3. An item has a
    /// length and, if it is inline, content.
    fn example(items: [&[u32]; 3]) -> Vec<u8> {
        let mut reply = vec![0, 0, 9];
        for (operation, item) in [25, 27, 25].into_iter().zip(items) {
            reply.extend([22, 0, 15, 0, operation, 0]);
            reply.extend((operation == 25).then_some(1));
            reply.extend(item);
        }
        words(&reply)
    }

    /// Decodes the results of the example with these returned Write chunk lengths. Returns the length in a chunk or the
    /// inline content of each, and the chunks assigned by the encoder. Asserts that the message encodes to the same
    /// bytes.
    fn results(bytes: &[u8], returned: [u32; 3]) -> (Vec<String>, Vec<(usize, u32)>) {
        let chunks = returned.map(|length| ChunkedDataItem { position: None, length, bytes: None });
        let mut cursor = Cursor::new(bytes).with_chunks(&chunks);
        let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let (mut operations, mut results) = (reply.operations(), Vec::new());
        for body in operations.by_ref() {
            let (length, bytes) = match body.unwrap() {
                Results::READ(StatusUnion::Ok(Read4Resok { data: Ddp::Inline(bytes), .. }))
                | Results::READLINK(StatusUnion::Ok(Readlink4Resok { link: DdpText::Inline(bytes) })) => {
                    (0, Some(bytes))
                }
                Results::READ(StatusUnion::Ok(read)) => (read.data.length(), None),
                Results::READLINK(StatusUnion::Ok(link)) => (link.link.length(), None),
                _ => continue,
            };
            results.push(match bytes {
                Some(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                None => length.to_string(),
            });
        }
        assert_eq!((operations.rest(), operations.remaining()), (&b""[..], 0));
        let mut encoder = Encoder::new();
        reply.encode(&mut encoder);
        assert_eq!(encoder.bytes(), bytes);
        (results, encoder.splices().iter().map(|splice| (splice.ordinal, splice.length)).collect())
    }

    #[test]
    fn rfc8267_section_6_4_3_the_results_of_a_compound_are_paired_with_the_write_chunks_in_order() {
        let expected = |results: [&str; 3], chunks: &[_]| (results.map(str::to_owned).to_vec(), chunks.to_vec());
        let full = example([&[4096], &[7], &[100]]);
        let each = expected(["4096", "7", "100"], &[(0, 4096), (1, 7), (2, 100)]);
        assert_eq!(results(&full, [4096, 7, 100]), each);
        // B is empty: the link text is inline.
        let inline = example([&[4096], &[4, 0x6c69_6e6b], &[100]]);
        let without_b = expected(["4096", "link", "100"], &[(0, 4096), (2, 100)]);
        assert_eq!(results(&inline, [4096, 0, 100]), without_b);
        // The first READ is at the end of its file: chunk A is empty.
        let empty = example([&[0], &[7], &[100]]);
        let without_a = expected(["", "7", "100"], &[(1, 7), (2, 100)]);
        assert_eq!(results(&empty, [0, 7, 100]), without_a);
        // A server that skips results without data.
        assert_eq!(results(&empty, [7, 100, 0]), without_a);
    }

    #[test]
    fn rfc8267_section_6_4_1_an_operation_that_failed_has_its_write_chunk_all_the_same() {
        // READ with NFS4ERR_DELAY, READ of 100 bytes.
        let bytes = words(&[0, 0, 2, 25, 10008, 25, 0, 1, 100]);
        let chunks = [0, 100].map(|length| ChunkedDataItem { position: None, length, bytes: None });
        let mut cursor = Cursor::new(&bytes).with_chunks(&chunks);
        let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let read =
            Results::READ(StatusUnion::Ok(Read4Resok { eof: true, data: Ddp::Chunk { length: 100, bytes: None } }));
        assert_eq!(reply.operations().nth(1), Some(Ok(read)));
    }

    #[test]
    fn rfc8267_section_6_1_of_the_results_those_of_read_and_readlink_are_ddp_eligible() {
        let eligible = |is: fn(Operation) -> bool| Operation::ALL.iter().copied().filter(move |op| is(*op));
        let results: Vec<_> = eligible(Results::is_ddp_eligible).collect();
        assert_eq!(results, [Operation::READ, Operation::READLINK]);
        let arguments: Vec<_> = eligible(Args::is_ddp_eligible).collect();
        assert_eq!(arguments, [Operation::CREATE, Operation::WRITE]);
    }

    #[test]
    fn a_callback_is_named_after_its_main_operation() {
        let bytes = bytes(RECALL_CALL);
        let call = CbCompoundCall::decode(&mut Cursor::new(&bytes), &mut NullFieldObserver).unwrap();
        assert_eq!(call.head.callback_ident, 0);
        assert_eq!(call.main_operation().operation, Some(CbOperationNumber::CB_RECALL));
        let mut operations = call.operations();
        assert!(operations.by_ref().all(|body| body.is_ok()));
        assert_eq!(operations.rest(), []);
    }

    #[test]
    fn an_observer_gets_operations_as_groups_beginning_with_their_number() {
        let bytes = bytes(READ_REPLY);
        let mut seen = Seen::default();
        let reply = CompoundReply::decode(&mut Cursor::new(&bytes).with_base(1000), &mut seen).unwrap();
        assert_eq!(
            seen.values.iter().map(|(name, at, _)| (*name, at.start)).collect::<Vec<_>>(),
            [("nfs.nfsstat4", 1000), ("nfs.tag", 1004), ("nfs.ops.count", 1008)]
        );
        let mut operations = reply.operations();
        assert!(operations.read_next(&mut seen).is_some_and(|body| body.is_ok()));
        assert!(operations.read_next(&mut seen).is_some_and(|body| body.is_ok()));
        assert_eq!(seen.groups, ["SEQUENCE", "PUTFH"]);
        assert_eq!(seen.values[3], ("nfs.opcode", 1012..1016, FieldValue::Enum(53, Some("SEQUENCE"))));
        assert_eq!(seen.values[4], ("nfs.nfsstat4", 1016..1020, FieldValue::Enum(0, Some("NFS4_OK"))));
    }

    #[test]
    fn an_unknown_operation_stops_the_walk_and_leaves_its_bytes() {
        let bytes = bytes("00000000 00000002 00000003 0000000a 0000004c 00000007 0000000a");
        let call = CompoundCall::decode(&mut Cursor::new(&bytes), &mut NullFieldObserver).unwrap();
        let mut operations = call.operations();
        assert_eq!(operations.next(), Some(Ok(Args::GETFH(Void))));
        let error = XdrError::Unknown { at: 20, what: "Operation", number: 76 };
        let stop = CompoundDecodeFailure { operation: Some(OperationNumber(76)), status: None, error };
        assert_eq!(operations.next(), Some(Err(stop)));
        assert_eq!(operations.next(), None);
        assert_eq!((operations.remaining(), operations.rest()), (2, &bytes[16..]));

        let mut seen = Seen::default();
        let mut operations = call.operations();
        while operations.read_next(&mut seen).is_some() {}
        assert_eq!(seen.groups, ["GETFH", "unknown operation"]);
        assert_eq!(seen.values.last(), Some(&("nfs.undecoded", 20..28, FieldValue::Bytes(&bytes[20..]))));
    }

    #[test]
    fn a_result_that_cannot_be_read_still_has_its_status() {
        let bytes = bytes("00000000 00000000 00000001 00000019 00000000 00000001");
        let mut cursor = Cursor::new(&bytes).with_length(500);
        let reply = CompoundReply::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        let stop = reply.operations().next().unwrap().unwrap_err();
        assert_eq!((stop.operation, stop.status), (Some(OperationNumber::READ), Some(Nfsstat4::NFS4_OK)));
        assert!(stop.error.is_cut());
    }

    #[test]
    fn an_operation_of_a_later_minor_version_is_read_all_the_same() {
        let head = CompoundCallHead { tag: Text(b""), minorversion: 0 };
        let operations = [Args::GETXATTR(Getxattr4Args { gxa_name: Text(b"user.a") })];
        let mut encoder = Encoder::new();
        CompoundCall::new(head, &operations).encode(&mut encoder);
        let call = CompoundCall::decode(&mut Cursor::new(encoder.bytes()), &mut NullFieldObserver).unwrap();
        assert_eq!(call.operations().next(), Some(Ok(operations[0].clone())));
        assert!(operations[0].operation().first_minor_version() > call.head.minorversion);
    }

    #[test]
    fn a_compound_is_named_after_the_first_operation_of_the_lowest_class() {
        let named = |operations: &[Args<'_>]| {
            CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 1 }, operations)
                .main_operation()
                .operation
        };
        let stateid = Stateid4 { seqid: 0, other: [0; 12] };
        let putfh = || Args::PUTFH(ObjectFh4 { object: Opaque(b"fh") });
        let getattr = || Args::GETATTR(Getattr4Args { attr_request: Bitmap4::default() });
        let access = || Args::ACCESS(Access4Args { access: Access4::ACCESS4_READ });
        let lookup = || Args::LOOKUP(Lookup4Args { objname: Text(b"a") });
        let close = || Args::CLOSE(Close4Args { seqid: 0, open_stateid: stateid.clone() });
        let commit = || Args::COMMIT(Commit4Args { offset: 0, count: 0 });
        let delegreturn = || Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: stateid.clone() });
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[putfh(), getattr()]), Some(OperationNumber::GETATTR));
        assert_eq!(named(&[Args::PUTROOTFH(Void), Args::GETFH(Void)]), Some(OperationNumber::GETFH));
        assert_eq!(named(&[putfh(), access(), getattr()]), Some(OperationNumber::ACCESS));
        assert_eq!(named(&[putfh(), lookup(), Args::GETFH(Void), getattr()]), Some(OperationNumber::LOOKUP));
        assert_eq!(named(&[commit(), getattr(), lookup()]), Some(OperationNumber::COMMIT));
        assert_eq!(named(&[Args::READLINK(Void), commit()]), Some(OperationNumber::READLINK));
        assert_eq!(named(&[putfh(), Args::READLINK(Void), delegreturn(), close()]), Some(OperationNumber::DELEGRETURN));
    }

    #[test]
    fn a_cut_compound_is_named_if_later_operations_do_not_matter() {
        let putfh = || Args::PUTFH(ObjectFh4 { object: Opaque(b"fh__") });
        let mut encoder = Encoder::new();
        let operations = [putfh(), Args::READLINK(Void), Args::GETFH(Void)];
        CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 1 }, &operations).encode(&mut encoder);
        let named = |captured: usize| {
            let mut cursor = Cursor::new(&encoder.bytes()[..captured]).with_length(encoder.bytes().len());
            CompoundCall::decode(&mut cursor, &mut NullFieldObserver).unwrap().main_operation().operation
        };
        // Tag, minor version and count are 12 bytes, PUTFH 12, the others 4.
        assert_eq!([12, 16, 24, 27, 28, 31].map(named), [None; 6]);
        assert_eq!(named(32), Some(OperationNumber::READLINK));
        // All numbers are present: the arguments do not matter.
        let mut encoder = Encoder::new();
        CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: 1 }, &[Args::GETFH(Void), putfh()])
            .encode(&mut encoder);
        let mut cursor = Cursor::new(&encoder.bytes()[..20]).with_length(encoder.bytes().len());
        let call = CompoundCall::decode(&mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(call.main_operation().operation, Some(OperationNumber::GETFH));
    }

    #[test]
    fn chunks_with_link_texts_are_flagged() {
        let head = CompoundCallHead { tag: Text(b""), minorversion: 1 };
        let create =
            |objtype| [Args::CREATE(Create4Args { objtype, objname: Text(b"a"), createattrs: Fattr4::default() })];
        let link = create(Createtype4::Link(DdpText::Chunk { length: 9, bytes: None }));
        let directory = create(Createtype4::Other(NfsFtype4::NF4DIR));
        assert_eq!(
            CompoundCall::new(head.clone(), &link).link_text_chunks(),
            SymlinkTextChunkFlags { call: true, reply: false }
        );
        assert_eq!(CompoundCall::new(head.clone(), &directory).link_text_chunks(), SymlinkTextChunkFlags::default());
        let readlink = [Args::READLINK(Void)];
        assert_eq!(
            CompoundCall::new(head, &readlink).link_text_chunks(),
            SymlinkTextChunkFlags { call: false, reply: true }
        );
    }
}
