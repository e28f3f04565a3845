//! Two records that stand for each other, compared field by field.

use std::rc::Rc;

use nfsrdma_dissectors::frame::FrameNumber;

use super::difference::{Difference, Half, Kind};
use super::record::{Chunk, ChunkKind, Datum, End, Entry, Message, Record, SEVERAL, Section};
use super::renaming::{Name, Renaming, Verdict};
use super::role::{Identity, Role};
use super::selection::Selection;

/// How far a field is looked for that does not stand where the other side has it.
const AHEAD: usize = 64;

/// The field that says how many operations a COMPOUND has: the operations themselves are compared.
pub(crate) const OPERATIONS: &str = "nfs.ops.count";

/// What comparing pairs gave, besides differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Fields whose values were compared.
    pub fields: u64,
    /// Bytes of file data whose hashes were compared.
    pub data_bytes: u64,
    /// Fields that are not in one of the captures, so that nothing is known of them.
    pub unknown: u64,
    /// Arguments and results that were left out because the minor versions differ.
    pub left_out: u64,
}

/// Compares two records.
pub struct Comparer<'c> {
    /// Which differences count.
    pub selection: &'c Selection,
    /// The names of both sides.
    pub renaming: &'c mut Renaming,
    /// What was compared.
    pub compared: &'c mut Compared,
    /// Whether the two records are of two minor versions of NFSv4.
    pub is_other_minor: bool,
}

/// The two records, and the differences up to now.
struct Found<'r> {
    a: &'r Record,
    b: &'r Record,
    differences: Vec<Difference>,
}

/// The frame that shows a field of the Call or of the Reply.
fn frame(record: &Record, is_call: bool) -> Option<FrameNumber> {
    let place = record.place;
    if is_call { place.call.or(place.reply) } else { place.reply.or(place.call) }
}

/// One side of a difference in a message.
pub(super) fn half(record: &Record, is_call: bool, value: Option<String>) -> Half {
    Half { place: Some(record.place), frame: frame(record, is_call), value }
}

impl Found<'_> {
    fn add(
        &mut self,
        kind: Kind,
        is_call: bool,
        path: String,
        field: &'static str,
        values: [Option<String>; 2],
    ) {
        // A list has a field many times.
        if !path.is_empty()
            && let Some(known) =
                self.differences.iter_mut().find(|known| known.path == path && known.kind == kind)
        {
            // An operation that one COMPOUND has alone has a result alone, too: that is one difference.
            known.times += u64::from(!matches!(kind, Kind::Missing | Kind::Extra));
            return;
        }
        let [a, b] = values;
        self.differences.push(Difference {
            kind,
            operation: self.a.title.to_string(),
            path,
            field,
            times: 1,
            a: half(self.a, is_call, a),
            b: half(self.b, is_call, b),
        });
    }

    fn length(&mut self, kind: Kind, is_call: bool, path: String, a: impl ToString, b: impl ToString) {
        self.add(kind, is_call, path, "", [Some(a.to_string()), Some(b.to_string())]);
    }
}

impl Comparer<'_> {
    /// The differences of two records.
    pub fn compare(&mut self, a: &Record, b: &Record) -> Vec<Difference> {
        let mut found = Found { a, b, differences: Vec::new() };
        let is_exact = self.selection.exact;
        // Where one side has chunks and the other cannot, neither they nor what went inline is compared.
        let is_across = a.is_rdma() != b.is_rdma() && !is_exact;
        // Another minor version asks for other attributes and rights, and lengths follow.
        self.is_other_minor = a.minor_version != b.minor_version && !self.selection.strict && !is_exact;
        let has_lengths = !is_across && !self.is_other_minor;
        for is_call in [true, false] {
            let of =
                |record: &'_ Record| if is_call { record.call.is_some() } else { record.reply.is_some() };
            let (in_a, in_b) = (of(a), of(b));
            if in_a != in_b {
                let kind = if is_call { Kind::Call } else { Kind::Reply };
                let word = |is_there| Some(if is_there { "there" } else { "not in the capture" }.to_owned());
                found.add(kind, is_call, String::new(), "", [word(in_a), word(in_b)]);
                continue;
            }
            let messages = if is_call { (&a.call, &b.call) } else { (&a.reply, &b.reply) };
            let (Some(of_a), Some(of_b)) = messages else { continue };
            let before = found.differences.len();
            self.messages(&mut found, is_call, of_a, of_b, is_across);
            let is_explained = found.differences.len() > before;
            if has_lengths {
                self.lengths(&mut found, is_call, of_a, of_b, is_explained);
            }
        }
        if has_lengths {
            self.chunks(&mut found);
        }
        if a.missing != b.missing
            && a.call.is_some() == b.call.is_some()
            && a.reply.is_some() == b.reply.is_some()
        {
            let is_call = |record: &Record| record.missing.iter().any(|code| code.starts_with("call"));
            let text = |record: &Record| {
                if record.missing.is_empty() {
                    "complete".to_owned()
                } else {
                    "missing ".to_owned() + &record.missing.join(" ")
                }
            };
            let in_call = is_call(a) || is_call(b);
            found.length(Kind::Incomplete, in_call, String::new(), text(a), text(b));
        }
        if is_exact {
            exactly(&mut found);
        }
        found.differences
    }

    fn messages(&mut self, found: &mut Found<'_>, is_call: bool, a: &Message, b: &Message, is_across: bool) {
        let is_whole = a.end == End::Whole && b.end == End::Whole;
        if (a.end == End::Undecoded) != (b.end == End::Undecoded) {
            let word =
                |message: &Message| if message.end == End::Undecoded { "not decoded" } else { "decoded" };
            found.length(Kind::Undecoded, is_call, String::new(), word(a), word(b));
        }
        let is_status = |difference: &Difference| difference.kind == Kind::Status;
        let has_failed = |found: &Found<'_>| found.differences.iter().any(is_status);
        // Which filehandle the cookies of a message belong to.
        let scopes = [found.a.scope(), found.b.scope()];
        let mut at = (0, 0);
        for (i, j) in aligned(&a.sections, &b.sections, is_across) {
            let only_a = a.sections.get(at.0..i).unwrap_or_default();
            let only_b = b.sections.get(at.1..j).unwrap_or_default();
            if is_whole && (is_call || !has_failed(found)) {
                sections_alone(found, is_call, only_a, only_b);
            }
            if let (Some(one), Some(other)) = (a.sections.get(i), b.sections.get(j)) {
                self.sections(found, is_call, one, other, is_whole, is_across, scopes);
            }
            at = (i + 1, j + 1);
        }
        if is_whole && (is_call || !has_failed(found)) {
            let rest =
                |sections: &'_ [Section], from: usize| sections.get(from..).unwrap_or_default().to_vec();
            sections_alone(found, is_call, &rest(&a.sections, at.0), &rest(&b.sections, at.1));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of the messages that the sections are in")]
    fn sections(
        &mut self,
        found: &mut Found<'_>,
        is_call: bool,
        a: &Section,
        b: &Section,
        is_whole: bool,
        is_across: bool,
        scopes: [Option<Name>; 2],
    ) {
        let is_plus = is_across && a.name != b.name;
        // READ_PLUS tells its data in parts; its hash is that of a READ.
        let skip = |entry: &Entry| {
            is_plus && (entry.path.text.contains("rpr_contents") || entry.path.text.contains("rpc_"))
        };
        let (mut of_a, mut of_b) = (
            a.entries.iter().filter(|entry| !skip(entry)).collect::<Vec<_>>().into_iter().peekable(),
            b.entries.iter().filter(|entry| !skip(entry)).collect::<Vec<_>>().into_iter().peekable(),
        );
        let name = |entry: &Entry| {
            let dot = if a.name.is_empty() { "" } else { "." };
            format!("{}{dot}{}", a.name, entry.path.text)
        };
        loop {
            match (of_a.peek().copied(), of_b.peek().copied()) {
                (Some(one), Some(other)) if is_place(one, other, is_plus) => {
                    self.entries(found, is_call, one, other, &name, scopes);
                    of_a.next();
                    of_b.next();
                }
                (Some(one), Some(other)) => {
                    let find = |entries: &mut dyn Iterator<Item = &Entry>, wanted: &Entry| {
                        entries.take(AHEAD).position(|entry| is_place(entry, wanted, is_plus))
                    };
                    let in_b = find(&mut of_b.clone(), one);
                    let in_a = find(&mut of_a.clone(), other);
                    if in_b.is_none() || in_a.is_some_and(|far| Some(far) < in_b) {
                        if let Some(entry) = of_a.next() {
                            self.alone(found, is_call, entry, true, name(entry));
                        }
                    } else if let Some(entry) = of_b.next() {
                        self.alone(found, is_call, entry, false, name(entry));
                    }
                }
                (Some(_), None) | (None, Some(_)) => {
                    // What one message does not have to its end says nothing.
                    let is_a = of_a.peek().is_some();
                    let Some(entry) = of_a.next().or_else(|| of_b.next()) else { break };
                    if is_whole {
                        self.alone(found, is_call, entry, is_a, name(entry));
                    } else {
                        self.compared.unknown += 1;
                    }
                }
                (None, None) => break,
            }
        }
    }

    /// A field that one side has alone.
    fn alone(&mut self, found: &mut Found<'_>, is_call: bool, entry: &Entry, is_a: bool, path: String) {
        let kind = match entry.path.role {
            _ if entry.path.field == OPERATIONS => return,
            Role::Varies(_) if !self.selection.strict => return,
            Role::Equal(kind) | Role::Racing(kind) | Role::OfTransport(kind) => kind,
            Role::Identity(_) => Kind::Identity,
            Role::Varies(_) => {
                if is_call {
                    Kind::Argument
                } else {
                    Kind::Result
                }
            }
        };
        if self.leaves_out(kind) {
            return;
        }
        let value = Some(entry.datum.shown());
        let values = if is_a { [value, None] } else { [None, value] };
        found.add(kind, is_call, path, entry.path.field, values);
    }

    /// Between two minor versions operations are compared, their statuses, names, ranges, data and identities.
    fn leaves_out(&mut self, kind: Kind) -> bool {
        let leaves_out = self.is_other_minor && matches!(kind, Kind::Argument | Kind::Result);
        self.compared.left_out += u64::from(leaves_out);
        leaves_out
    }

    fn entries(
        &mut self,
        found: &mut Found<'_>,
        is_call: bool,
        a: &Entry,
        b: &Entry,
        name: &dyn Fn(&Entry) -> String,
        scopes: [Option<Name>; 2],
    ) {
        let path = &a.path;
        if path.field == OPERATIONS {
            return;
        }
        if a.datum.is_unknown() || b.datum.is_unknown() {
            self.compared.unknown += 1;
            return;
        }
        let is_exact = self.selection.strict || self.selection.exact;
        let kind = match path.role {
            Role::Varies(_) if !self.selection.strict => return,
            Role::Varies(_) => {
                if is_call {
                    Kind::Argument
                } else {
                    Kind::Result
                }
            }
            // The identities of a long list as they are, which another run has not.
            Role::Identity(_) if a.datum.is_fold() && b.datum.is_fold() && !is_exact => return,
            Role::Identity(_) if is_exact || a.datum.is_fold() && b.datum.is_fold() => Kind::Identity,
            Role::Identity(identity) => return self.identities(found, is_call, identity, a, b, name, scopes),
            Role::Racing(_) if (found.a.is_racing || found.b.is_racing) && !is_exact => return,
            Role::OfTransport(_) if found.a.is_rdma() != found.b.is_rdma() && !self.selection.strict => {
                return;
            }
            Role::Equal(kind) | Role::Racing(kind) | Role::OfTransport(kind) => kind,
        };
        if self.leaves_out(kind) {
            return;
        }
        // A place that has another field now; one without a name has none to compare.
        let is_other = a.path.field != b.path.field && a.path.field != SEVERAL && b.path.field.contains('.');
        if is_exact && is_other {
            let values = [Some(a.path.field.to_owned()), Some(b.path.field.to_owned())];
            return found.add(kind, is_call, name(a), b.path.field, values);
        }
        self.compared.fields += 1;
        if let (Kind::Data, Datum::Digest(length, _)) = (kind, &a.datum) {
            self.compared.data_bytes += length;
        }
        if !a.datum.is_same(&b.datum) && !self.selection.tolerates(path.field, &a.datum, &b.datum) {
            let values = [Some(a.datum.shown()), Some(b.datum.shown())];
            found.add(kind, is_call, name(a), path.field, values);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of the message that the names are in")]
    fn identities(
        &mut self,
        found: &mut Found<'_>,
        is_call: bool,
        identity: Identity,
        a: &Entry,
        b: &Entry,
        name: &dyn Fn(&Entry) -> String,
        scopes: [Option<Name>; 2],
    ) {
        self.compared.fields += 1;
        let [scope_a, scope_b] = scopes;
        let names = (Name::of(identity, &a.datum, scope_a), Name::of(identity, &b.datum, scope_b));
        let frames = [frame(found.a, is_call), frame(found.b, is_call)];
        let since = match names {
            (None, None) if a.datum.is_same(&b.datum) => return,
            (Some(a), Some(b)) => match self.renaming.pair(a, b, frames) {
                Verdict::Same => return,
                Verdict::Other(since) => since,
            },
            _ => [None, None],
        };
        let shown = |datum: &Datum, since: Option<FrameNumber>| match since {
            Some(since) => Some(format!("{} {}, unlike in frame {since}", identity.name(), datum.shown())),
            None => Some(format!("{} {}", identity.name(), datum.shown())),
        };
        let field = a.path.field;
        let [since_a, since_b] = since;
        let values = [shown(&a.datum, since_a), shown(&b.datum, since_b)];
        found.add(Kind::Identity, is_call, name(a), field, values);
    }

    fn lengths(&self, found: &mut Found<'_>, is_call: bool, a: &Message, b: &Message, is_explained: bool) {
        if a.proc != b.proc {
            let word = |message: &Message| message.proc.as_deref().unwrap_or("-").to_owned();
            found.length(Kind::ChunkKind, is_call, String::new(), word(a), word(b));
            return;
        }
        let fixed = |message: &Message| {
            let is_inline = message.length >= message.varying;
            if self.selection.strict || !is_inline {
                message.length
            } else {
                message.length - message.varying
            }
        };
        // Fields that differ bring their lengths with them.
        if is_explained && !self.selection.strict || a.end == End::Undecoded || fixed(a) == fixed(b) {
            return;
        }
        if !self.selection.tolerates_length(Kind::Inline, fixed(a), fixed(b)) {
            found.length(Kind::Inline, is_call, String::new(), a.length, b.length);
        }
    }

    fn chunks(&self, found: &mut Found<'_>) {
        let (a, b) = (found.a, found.b);
        let letters = |record: &Record| -> String {
            let letters: String = record.chunks.iter().map(|chunk| chunk.kind.letter()).collect();
            if letters.is_empty() { "no chunks".to_owned() } else { format!("chunks {letters}") }
        };
        if letters(a) != letters(b) {
            found.length(Kind::ChunkKind, true, String::new(), letters(a), letters(b));
            return;
        }
        let has_replies = a.reply.is_some() && b.reply.is_some();
        // Fields that differ bring their lengths with them; what could not be decoded brings nothing.
        let is_reply_explained = found.differences.iter().any(|known| {
            known.b.frame == frame(b, false)
                && known.b.frame != frame(b, true)
                && known.kind != Kind::Undecoded
        });
        for (at, (one, other)) in a.chunks.iter().zip(&b.chunks).enumerate() {
            let path = format!("chunk {at} ({})", one.kind.letter());
            let position = |chunk: &Chunk| match chunk.kind {
                ChunkKind::Read(position, varying) if !self.selection.strict => {
                    position.saturating_sub(varying)
                }
                ChunkKind::Read(position, _) | ChunkKind::ReplyRead(position) => position,
                _ => 0,
            };
            if position(one) != position(other) {
                found.length(
                    Kind::ChunkShape,
                    true,
                    path.clone() + " position",
                    position(one),
                    position(other),
                );
            }
            if one.segments.len() != other.segments.len() {
                let (of_a, of_b) = (one.segments.len(), other.segments.len());
                found.length(Kind::ChunkShape, true, path + " segments", of_a, of_b);
                continue;
            }
            // A whole message in a chunk is as long as its names are, and fills the segments in their order.
            let net = |chunk: &Chunk, sum: u64| {
                let varying = if self.selection.strict { 0 } else { chunk.varying };
                sum.saturating_sub(varying)
            };
            let offered = |chunk: &Chunk| chunk.segments.iter().map(|segment| segment.length).sum::<u64>();
            let returned = |chunk: &Chunk| -> Option<u64> {
                chunk.segments.iter().map(|segment| segment.returned).sum()
            };
            let is_same_call = matches!(one.kind, ChunkKind::Read(0, _))
                && net(one, offered(one)) == net(other, offered(other));
            let sums = returned(one).zip(returned(other));
            let is_same_reply = sums.is_some_and(|(a, b)| net(one, a) == net(other, b)) && one.varying > 0;
            let is_explained = is_reply_explained && one.kind == ChunkKind::Reply && !self.selection.strict;
            for (index, (segment, opposite)) in one.segments.iter().zip(&other.segments).enumerate() {
                let path = format!("{path} segment {index}");
                let (length, against) = (segment.length, opposite.length);
                if length != against
                    && !is_same_call
                    && !self.selection.tolerates_length(Kind::ChunkLength, length, against)
                {
                    found.length(Kind::ChunkLength, true, path.clone(), length, against);
                }
                let (Some(bytes), Some(answer)) = (segment.returned, opposite.returned) else { continue };
                if has_replies
                    && bytes != answer
                    && !is_explained
                    && !is_same_reply
                    && !self.selection.tolerates_length(Kind::ChunkBytes, bytes, answer)
                {
                    found.length(Kind::ChunkBytes, false, path, bytes, answer);
                }
            }
        }
    }
}

/// What two decodings of one message must have alike, besides: what is told of a Transaction in one word, and how far its
/// messages could be read.
fn exactly(found: &mut Found<'_>) {
    let (a, b) = (found.a, found.b);
    let is_told = |found: &Found<'_>| !found.differences.is_empty();
    if a.title != b.title {
        found.length(Kind::Header, true, String::new(), &a.title, &b.title);
    }
    if a.status != b.status && !is_told(found) {
        found.length(Kind::Status, false, String::new(), &a.status, &b.status);
    }
    for (is_call, messages) in [(true, [&a.call, &b.call]), (false, [&a.reply, &b.reply])] {
        let [Some(one), Some(other)] = messages else { continue };
        if one.end != other.end && !is_told(found) {
            let word = |message: &Message| match message.end {
                End::Whole => "whole",
                End::Cut => "cut",
                End::Undecoded => "not decoded",
            };
            found.length(Kind::Incomplete, is_call, String::new(), word(one), word(other));
        }
    }
}

/// Whether two fields stand in the same place.
fn is_place(a: &Entry, b: &Entry, is_plus: bool) -> bool {
    if Rc::ptr_eq(&a.path, &b.path) || a.path.text == b.path.text {
        return true;
    }
    // READ and READ_PLUS have the same fields under names with other prefixes.
    let last = |entry: &Entry| {
        let text = entry.path.text.rsplit('.').next().unwrap_or_default().to_owned();
        text.trim_start_matches("rpa_").trim_start_matches("rpr_").to_owned()
    };
    is_plus && (a.path.field == b.path.field && !a.path.field.is_empty() || last(a) == last(b))
}

fn sections_alone(found: &mut Found<'_>, is_call: bool, a: &[Section], b: &[Section]) {
    for section in a {
        found.add(Kind::Missing, is_call, section.name.to_string(), "", [Some("there".to_owned()), None]);
    }
    for section in b {
        found.add(Kind::Extra, is_call, section.name.to_string(), "", [None, Some("there".to_owned())]);
    }
}

/// Which operations of two COMPOUNDs stand for each other: the longest common row of names.
fn aligned(a: &[Section], b: &[Section], is_across: bool) -> Vec<(usize, usize)> {
    let is_same = |a: &Section, b: &Section| {
        let plain =
            |name: &str| if is_across && name == "READ_PLUS" { "READ".to_owned() } else { name.to_owned() };
        a.name == b.name || plain(&a.name) == plain(&b.name)
    };
    if a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)) {
        return (0..a.len()).map(|at| (at, at)).collect();
    }
    super::alignment::common(a.len().min(AHEAD), b.len().min(AHEAD), |i, j| {
        a.get(i).zip(b.get(j)).is_some_and(|(a, b)| is_same(a, b))
    })
}
