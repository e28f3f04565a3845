//! COMPOUND and CB_COMPOUND: operations one after the other. RFC 7530 sections 15.2 and 17.2, RFC 8881 sections 16.2
//! and 19.2.
//!
//! Nothing in a COMPOUND tells how long an operation is, so one that cannot be read ends the walk. What came before
//! it stays decoded, and what is left can be had as bytes.

use std::fmt;

use crate::field::{Field, Kind, Observer, Unobserved, Value};
use crate::xdr::{Cursor, Encoder, Error, Text, Xdr};

use super::file::Createtype4;
use super::inside::Inside;
use super::operations::{Args, Body, CbArgs, CbResults, Results};
use super::status::Nfsstat4;

crate::xdr! { "nfs";
    /// COMPOUND4args, but for the operations. RFC 8881 section 16.2.1.
    struct CallHead<'a> { tag: Text<'a>, minorversion: u32 }

    /// COMPOUND4res and CB_COMPOUND4res, but for the operations. RFC 8881 sections 16.2.2 and 19.2.2.
    struct ReplyHead<'a> { status: Nfsstat4 => "nfs.nfsstat4", tag: Text<'a> }

    /// CB_COMPOUND4args, but for the operations. RFC 8881 section 19.2.1.
    struct CbCallHead<'a> { tag: Text<'a>, minorversion: u32, callback_ident: u32 => "nfs.callback.ident" }
}

/// The arguments of COMPOUND.
pub type Call<'a> = Compound<'a, CallHead<'a>, Args<'a>>;
/// The results of COMPOUND.
pub type Reply<'a> = Compound<'a, ReplyHead<'a>, Results<'a>>;
/// The arguments of CB_COMPOUND.
pub type CbCall<'a> = Compound<'a, CbCallHead<'a>, CbArgs<'a>>;
/// The results of CB_COMPOUND.
pub type CbReply<'a> = Compound<'a, ReplyHead<'a>, CbResults<'a>>;

static HEAD: Field = Field::group("nfs.compound", "COMPOUND", "Operations in a row. RFC 8881 section 16.2.");
static COUNT: Field = Field {
    name: "nfs.ops.count",
    label: "operations",
    kind: Kind::Unsigned,
    doc: "How many operations there are. RFC 8881 section 16.2.1.",
};
static UNKNOWN: Field = Field::group(
    "nfs.unknown_operation",
    "unknown operation",
    "An operation that this program does not know.",
);
static REST: Field = Field {
    name: "nfs.undecoded",
    label: "undecoded",
    kind: Kind::Bytes,
    doc: "What follows an operation that could not be read, and what could not be read of it.",
};

/// A COMPOUND: what stands before the operations, and the operations.
pub struct Compound<'a, H, B> {
    /// What stands before the operations.
    pub head: H,
    count: u32,
    place: Place<'a, B>,
}

impl<H: Clone, B> Clone for Compound<'_, H, B> {
    fn clone(&self) -> Self {
        Self { head: self.head.clone(), ..*self }
    }
}

impl<'a, H: fmt::Debug, B: Body<'a> + fmt::Debug> fmt::Debug for Compound<'a, H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Operations<'a, B> =
            Operations { left: self.count, place: self.place, stopped: false };
        f.debug_list().entry(&self.head).entries(operations).finish()
    }
}

/// Where operations are: still in a message, or made by the program.
#[derive(Debug)]
enum Place<'a, B> {
    Message(Cursor<'a>),
    Slice(&'a [B]),
}

impl<B> Clone for Place<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B> Copy for Place<'_, B> {}

impl<'a, H: Xdr<'a>, B: Body<'a>> Compound<'a, H, B> {
    /// A COMPOUND of these operations.
    pub fn new(head: H, operations: &'a [B]) -> Self {
        let count = u32::try_from(operations.len()).unwrap_or(u32::MAX);
        Self { head, count, place: Place::Slice(operations) }
    }

    /// Reads what stands before the operations, and tells the observer about it; leaves the cursor at the first one.
    ///
    /// # Errors
    /// When the message ends before the operations begin.
    pub fn decode<O: Observer<'a>>(cursor: &mut Cursor<'a>, observer: &mut O) -> Result<Self, Error> {
        let mut inside = Inside::new(observer, Some(&HEAD));
        let head = H::decode(cursor, &HEAD, &mut inside)?;
        let count = u32::decode(cursor, &COUNT, &mut inside)?;
        Ok(Self { head, count, place: Place::Message(*cursor) })
    }

    /// How many operations the message says there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The operations, in order.
    pub fn operations(&self) -> Operations<'a, B> {
        Operations { left: self.count, place: self.place, stopped: false }
    }

    /// Appends the XDR form. What could not be read is appended as it is.
    pub fn encode(&self, encoder: &mut Encoder) {
        self.head.encode(encoder);
        encoder.word(self.count);
        let mut operations = self.operations();
        for body in operations.by_ref().map_while(Result::ok) {
            encoder.word(body.number().into());
            body.encode(encoder);
        }
        if operations.left() > 0 {
            encoder.raw(operations.rest());
        }
    }
}

/// Where and why a walk over operations ended before its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop<N> {
    /// The operation that could not be read; `None` if not even its number could.
    pub operation: Option<N>,
    /// In a Reply: its status, if that could be read.
    pub status: Option<Nfsstat4>,
    /// Why.
    pub error: Error,
}

/// A walk over the operations of a COMPOUND. An operation that cannot be read is an error, and the last.
#[derive(Clone, Debug)]
pub struct Operations<'a, B> {
    left: u32,
    place: Place<'a, B>,
    stopped: bool,
}

impl<'a, B: Body<'a>> Operations<'a, B> {
    /// How many operations the walk has not read.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The captured bytes that the walk has not read: after it has stopped, from the operation on that it stopped at;
    /// after its end, what follows the COMPOUND.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor().map_or(&[], |cursor| cursor.rest())
    }

    /// Where the walk is in the message, if the COMPOUND came from one.
    pub fn cursor(&self) -> Option<Cursor<'a>> {
        match self.place {
            Place::Message(cursor) => Some(cursor),
            Place::Slice(_) => None,
        }
    }

    /// The next operation. The observer sees a group of fields whose first is the number; operations that the program
    /// made have no bytes to see.
    #[inline]
    pub fn next_observed<O: Observer<'a>>(&mut self, observer: &mut O) -> Option<Result<B, Stop<B::Number>>> {
        if self.stopped || self.left == 0 {
            return None;
        }
        let body = match &mut self.place {
            Place::Slice(bodies) => {
                let (first, rest) = bodies.split_first()?;
                *bodies = rest;
                Ok(first.clone())
            }
            Place::Message(cursor) => {
                let start = *cursor;
                let body = step(cursor, observer);
                if body.is_err() {
                    *cursor = start;
                }
                body
            }
        };
        match body {
            Ok(_) => self.left -= 1,
            Err(_) => self.stopped = true,
        }
        Some(body)
    }
}

/// Reads one operation and tells the observer about it, about what is left if it cannot be read, too.
#[inline]
fn step<'a, B: Body<'a>, O: Observer<'a>>(
    cursor: &mut Cursor<'a>,
    observer: &mut O,
) -> Result<B, Stop<B::Number>> {
    let at = cursor.position();
    let number = match cursor.word() {
        Ok(number) => B::Number::from(number),
        Err(error) => {
            tell_rest(cursor, observer);
            return Err(Stop { operation: None, status: None, error });
        }
    };
    let status = if B::HAS_STATUS { cursor.clone().word().ok().map(Nfsstat4) } else { None };
    let group = B::field(number);
    observer.enter(group.unwrap_or(&UNKNOWN), at);
    let code: u32 = number.into();
    observer.value(B::OPCODE, at..at + 4, Value::Enum(code.into(), B::name(number)));
    let mut inside = Inside::new(observer, group);
    let body = B::decode(number, cursor, &mut inside);
    if body.is_err() {
        inside.leave_all(cursor.position());
        tell_rest(cursor, observer);
    }
    observer.leave(cursor.position());
    body.map_err(|error| Stop { operation: Some(number), status, error })
}

fn tell_rest<'a, O: Observer<'a>>(cursor: &Cursor<'a>, observer: &mut O) {
    let (at, rest) = (cursor.position(), cursor.rest());
    if !rest.is_empty() {
        observer.value(&REST, at..at + rest.len(), Value::Bytes(rest));
    }
}

impl<'a, B: Body<'a>> Iterator for Operations<'a, B> {
    type Item = Result<B, Stop<B::Number>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_observed(&mut Unobserved)
    }
}

/// What a COMPOUND is called after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named<N> {
    /// The first operation of the lowest class among those whose number was read.
    pub operation: Option<N>,
    /// Why the walk ended before the last operation, if it did: one of a lower class may have followed.
    pub stop: Option<Error>,
}

impl<'a, H: Xdr<'a>, B: Body<'a>> Compound<'a, H, B> {
    /// The operation that the COMPOUND is called after.
    pub fn named(&self) -> Named<B::Number> {
        let mut named = Named { operation: None, stop: None };
        let mut lowest = u8::MAX;
        for body in self.operations() {
            let number = match body {
                Ok(body) => Some(body.number()),
                Err(stop) => {
                    named.stop = Some(stop.error);
                    stop.operation
                }
            };
            if let Some(number) = number.filter(|number| B::class(*number) < lowest) {
                lowest = B::class(number);
                named.operation = Some(number);
            }
        }
        named
    }
}

/// Whether chunks may hold text that people read: link texts. RFC 8267 section 6.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextItems {
    /// The Read chunks of the Call: it creates a symbolic link.
    pub call: bool,
    /// The Write chunks that the Call offers: it reads a symbolic link.
    pub reply: bool,
}

impl Call<'_> {
    /// Whether an operation has a [`DdpText`](crate::xdr::DdpText) item.
    pub fn text_items(&self) -> TextItems {
        let mut items = TextItems::default();
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
