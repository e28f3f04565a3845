//! A live Reply beside the recorded one.
//!
//! Both are reduced to their fields as a comparison of captures does it ([`comparison`](crate::analysis::comparison)), and
//! compared by the same table. Before that, what a [rule](rules) lets differ is taken out of both and compared by itself,
//! so that it is known which rule was needed; names of a directory are put in order, because a server lists them as it
//! likes.

use std::rc::Rc;

use nfsrdma_dissectors::frame::FrameNumber;
use nfsrdma_dissectors::nfs::Procedure;
use nfsrdma_dissectors::xdr::Cursor;
use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::{self, Rule};
use crate::analysis::comparison::difference::{Difference, Kind, Place};
use crate::analysis::comparison::pair::{Compared, Comparer};
use crate::analysis::comparison::record::{Datum, Entry, Message, Record, Section};
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::renaming::Renaming;
use crate::analysis::comparison::role::{Identity, Role};
use crate::analysis::comparison::selection::Selection;

/// Directories whose listing is under way, and names of each that one side alone has given up to now.
const LISTINGS: usize = 256;
const NAMES: usize = 1 << 16;

/// What is held against each other.
pub struct Replies<'a> {
    /// The `id` of the step.
    pub step: u64,
    /// First frames of Call and Reply in the capture; 0 where there is none.
    pub frames: [u64; 2],
    /// What it is about: `NFS 4.2 READ`.
    pub title: &'a str,
    /// The procedure, where it is described.
    pub procedure: Option<Procedure>,
    /// The recorded Reply.
    pub recorded: Cursor<'a>,
    /// Length and hash of each DDP-eligible result of it whose content the cursor does not know, in their order.
    pub known: &'a [(u32, Option<u128>)],
    /// The live Reply.
    pub live: Cursor<'a>,
    /// Of each operation whether its attributes are those of a directory.
    pub directories: &'a [bool],
    /// Whether another step was in flight at the same time.
    pub is_racing: bool,
    /// The variable of the directory that is listed, and whether the listing begins with this Call.
    pub listing: Option<(u32, bool)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Everything that must be equal is.
    Matched,
    /// It is but for what this rule lets differ; of several rules the first.
    Tolerated(Rule),
    /// The server has no such operation, and has done none in this run: the operation, and what it answered.
    Unsupported(String, String),
    /// It is not; what differs.
    Mismatched(Vec<Difference>),
}

/// Names that one side has given, and the other has not yet.
#[derive(Debug, Default)]
struct Listing {
    recorded: FxHashSet<Box<[u8]>>,
    live: FxHashSet<Box<[u8]>>,
    is_forgotten: bool,
}

/// Holds live Replies to recorded ones.
#[derive(Debug)]
pub struct Judge {
    recorder: Recorder,
    selection: Selection,
    renaming: Renaming,
    /// What was compared.
    pub compared: Compared,
    /// Nothing is tolerated.
    is_strict: bool,
    /// Rules that are turned off.
    off: FxHashSet<&'static str>,
    /// Attributes that the live server has given.
    offered: FxHashSet<Box<str>>,
    /// Operations that the live server has done.
    done: FxHashSet<Rc<str>>,
    listings: FxHashMap<u32, Listing>,
}

impl Judge {
    /// One that has seen nothing. `off` are rules that are turned off.
    pub fn new(is_strict: bool, off: impl IntoIterator<Item = &'static str>, selection: Selection) -> Self {
        Self {
            recorder: Recorder::default(),
            selection,
            renaming: Renaming::default(),
            compared: Compared::default(),
            is_strict,
            off: off.into_iter().collect(),
            offered: FxHashSet::default(),
            done: FxHashSet::default(),
            listings: FxHashMap::default(),
        }
    }

    /// Holds a live Reply to the recorded one.
    pub fn judge(&mut self, replies: &Replies<'_>) -> Verdict {
        let mut recorded = self.recorder.reply(replies.procedure, replies.recorded);
        let mut live = self.recorder.reply(replies.procedure, replies.live);
        know(&mut recorded, replies.known);
        align(&recorded, &mut live);
        // What went inline follows from the names in it.
        (recorded.length, live.length) = (0, 0);
        self.learn(&live);
        let mut tolerated = Vec::new();
        let mut alone = Vec::new();
        let is_same_way = statuses(&recorded) == statuses(&live);
        for at in 0..recorded.sections.len().min(live.sections.len()) {
            let (Some(a), Some(b)) = (recorded.sections.get_mut(at), live.sections.get_mut(at)) else {
                break;
            };
            let is_directory = at > 0 && replies.directories.get(at - 1).copied().unwrap_or(false);
            leave_out(a);
            leave_out(b);
            if let (Some(listing), true) = (replies.listing, is_same_way) {
                alone.extend(self.listing(listing, a, b, &mut tolerated));
            }
            let status = |section: &Section| {
                section.entries.iter().find(|entry| is_status(entry)).map(|e| e.datum.clone())
            };
            if !self.is_strict && status(a) == status(b) {
                self.tolerate(a, b, is_directory, &mut tolerated);
            }
        }
        let (title, status) = (self.recorder.word(replies.title), self.recorder.word(""));
        let frame = |number: u64| (number > 0).then_some(FrameNumber(number));
        let place =
            Place { index: replies.step, call: frame(replies.frames[0]), reply: frame(replies.frames[1]) };
        let record = |reply| Record {
            place,
            title: Rc::clone(&title),
            class: Rc::clone(&title),
            status: Rc::clone(&status),
            reply: Some(reply),
            is_racing: replies.is_racing,
            ..Record::default()
        };
        let (recorded, live) = (record(recorded), record(live));
        let mut differences = Comparer {
            selection: &self.selection,
            renaming: &mut self.renaming,
            compared: &mut self.compared,
        }
        .compare(&recorded, &live);
        differences.retain(|difference| self.selection.counts(difference));
        differences.extend(alone.into_iter().map(|(path, values)| {
            let [a, b] = values.map(|value| crate::analysis::comparison::difference::Half {
                place: Some(place),
                frame: place.reply,
                value,
            });
            let operation = title.to_string();
            Difference { kind: Kind::Name, operation, path, field: "nfs.entry_name", times: 1, a, b }
        }));
        self.verdict(differences, &tolerated)
    }

    fn verdict(&self, differences: Vec<Difference>, tolerated: &[Rule]) -> Verdict {
        if differences.is_empty() {
            return tolerated.first().map_or(Verdict::Matched, |rule| Verdict::Tolerated(*rule));
        }
        let of = |difference: &Difference| {
            let value =
                |half: &crate::analysis::comparison::difference::Half| half.value.clone().unwrap_or_default();
            (value(&difference.a), value(&difference.b))
        };
        let status = differences.iter().find(|difference| difference.kind == Kind::Status);
        if let (Some(status), false) = (status, self.is_strict) {
            let (a, b) = of(status);
            // An operation that there is not has a result of its own name.
            let title = status.operation.rsplit(' ').next().unwrap_or_default();
            let operation = status.path.split_once('.').map_or(title, |(operation, _)| operation);
            if is_unsupported(&b) && !is_unsupported(&a) && !self.done.contains(operation) {
                return Verdict::Unsupported(operation.to_owned(), b);
            }
            if self.is_on(rules::ROOM) && rules::is_room(&a) && is_done(&b) {
                return Verdict::Tolerated(rules::ROOM);
            }
            if self.is_on(rules::SAME_REFUSAL)
                && rules::is_same_refusal(&a, &b)
                && differences.iter().all(|difference| difference.kind == Kind::Status)
            {
                return Verdict::Tolerated(rules::SAME_REFUSAL);
            }
        }
        Verdict::Mismatched(differences)
    }

    /// Whether what differs is no more than what a file holds, so that a step before may explain it.
    pub fn is_of_content(&self, differences: &[Difference]) -> bool {
        self.is_on(rules::AFTER)
            && differences.iter().all(|difference| {
                let leaf = difference.path.rsplit('.').next().unwrap_or_default();
                matches!(difference.kind, Kind::Data | Kind::Count | Kind::Status | Kind::Offset | Kind::Name)
                    || matches!(leaf, "size" | "eof" | "sr_eof" | "numlinks" | "nlink" | "lxr_eof")
            })
    }

    /// Whether what differs is no more than what a user may do.
    pub fn is_of_rights(&self, differences: &[Difference]) -> bool {
        self.is_on(rules::CREDENTIALS)
            && differences.iter().all(|difference| difference.path.ends_with("ACCESS.access"))
    }

    fn is_on(&self, rule: Rule) -> bool {
        !self.is_strict && !self.off.contains(rule.name)
    }

    /// What turned out late to be wrong: names that stand for something else.
    pub fn late(&mut self, is_last: bool) -> Vec<Difference> {
        let mut wrong = self.renaming.wrong(is_last);
        wrong.retain(|difference| self.selection.counts(difference));
        wrong
    }

    /// What the live server has and does.
    fn learn(&mut self, live: &Message) {
        for section in live.sections.iter().skip(1) {
            let is_done = section.entries.iter().any(|entry| is_status(entry) && is_ok(&entry.datum));
            if is_done && !self.done.contains(&section.name) {
                self.done.insert(Rc::clone(&section.name));
            }
            for entry in section.entries.iter().filter(|entry| is_attribute(&entry.path.text)) {
                let name = attribute(&entry.path.text);
                if !self.offered.contains(name) {
                    self.offered.insert(name.into());
                }
            }
        }
    }

    /// Takes out of both what a rule lets differ, and notes the rules that were needed.
    fn tolerate(&self, a: &mut Section, b: &mut Section, is_directory: bool, needed: &mut Vec<Rule>) {
        let operation = Rc::clone(&a.name);
        committed(a, b, needed, |rule| self.is_on(rule));
        access(a, b, needed, |rule| self.is_on(rule));
        let mut taken: [Vec<(Rule, Entry)>; 2] = [Vec::new(), Vec::new()];
        for (section, taken) in [&mut *a, &mut *b].into_iter().zip(&mut taken) {
            let of_directories = directories(&section.entries);
            section.entries.retain(|entry| {
                let path = &entry.path;
                let is_size = matches!(path.leaf(), "size" | "numlinks" | "nlink");
                let rule = match rules::of(&operation, &path.text, path.field) {
                    None if is_size && is_of_directory(path.above(), is_directory, &of_directories) => {
                        Some(rules::DIRECTORY_SIZE)
                    }
                    rule => rule,
                };
                match rule.filter(|rule| self.is_on(*rule)) {
                    Some(rule) => {
                        taken.push((rule, entry.clone()));
                        false
                    }
                    None => true,
                }
            });
        }
        let [of_a, of_b] = &taken;
        let is_same = |(a, b): (&(Rule, Entry), &(Rule, Entry))| {
            a.1.path.text == b.1.path.text && a.1.datum.is_same(&b.1.datum)
        };
        if of_a.len() != of_b.len() || !of_a.iter().zip(of_b).all(is_same) {
            let differing = of_a.iter().zip(of_b).find(|pair| !is_same(*pair)).map(|(a, _)| a.0);
            let longer = if of_a.len() > of_b.len() { of_a } else { of_b };
            let more = longer.get(of_a.len().min(of_b.len())).map(|(rule, _)| *rule);
            needed.extend(differing.or(more));
        }
        self.offered(a, b, needed);
    }

    /// Attributes that one side has alone, where the live server has never given them or need not give any.
    fn offered(&self, a: &mut Section, b: &mut Section, needed: &mut Vec<Rule>) {
        let names = |section: &Section| -> FxHashSet<Box<str>> {
            section
                .entries
                .iter()
                .filter(|entry| is_attribute(&entry.path.text) || is_post_op(&entry.path.text))
                .map(|entry| entry.path.text.clone())
                .collect()
        };
        let (of_a, of_b) = (names(a), names(b));
        if of_a == of_b {
            return;
        }
        for (section, others, is_recorded) in [(&mut *a, &of_b, true), (&mut *b, &of_a, false)] {
            section.entries.retain(|entry| {
                let text = &entry.path.text;
                if others.contains(text) {
                    return true;
                }
                let rule = if is_post_op(text) {
                    rules::POST_OP
                } else if is_attribute(text) && (!is_recorded || !self.offered.contains(attribute(text))) {
                    rules::ATTRIBUTES_OFFERED
                } else {
                    return true;
                };
                if !self.is_on(rule) {
                    return true;
                }
                needed.push(rule);
                false
            });
        }
    }

    /// Puts the names of two listings in one order. What one side has alone is remembered until the listing ends, and told
    /// then.
    fn listing(
        &mut self,
        (directory, is_first): (u32, bool),
        a: &mut Section,
        b: &mut Section,
        needed: &mut Vec<Rule>,
    ) -> Vec<(String, [Option<String>; 2])> {
        let ends = [is_end(a), is_end(b)];
        let (Some(mut of_a), Some(mut of_b)) = (elements(a), elements(b)) else { return Vec::new() };
        if is_first {
            self.listings.remove(&directory);
        }
        if self.listings.len() >= LISTINGS && !self.listings.contains_key(&directory) {
            self.listings.clear();
        }
        let known = self.listings.entry(directory).or_default();
        of_a.sort_by(|a, b| a.0.cmp(&b.0));
        of_b.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut rest_a, mut rest_b) = (of_a.into_iter().peekable(), of_b.into_iter().peekable());
        loop {
            let order = match (rest_a.peek(), rest_b.peek()) {
                (Some(one), Some(other)) => one.0.cmp(&other.0),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => break,
            };
            match order {
                std::cmp::Ordering::Less => {
                    if let Some((name, _)) = rest_a.next() {
                        known.meet(name, true);
                    }
                }
                std::cmp::Ordering::Greater => {
                    if let Some((name, _)) = rest_b.next() {
                        known.meet(name, false);
                    }
                }
                std::cmp::Ordering::Equal => {
                    if let (Some((_, one)), Some((_, other))) = (rest_a.next(), rest_b.next()) {
                        a.entries.extend(one);
                        b.entries.extend(other);
                    }
                }
            }
        }
        if known.is_even() {
            // The same names up to here: whether there are more must be told alike.
            if ends == [true, true] {
                self.listings.remove(&directory);
            }
            return Vec::new();
        }
        // The parts differ, so that ends do too.
        for section in [a, b] {
            section.entries.retain(|entry| entry.path.leaf() != "eof");
        }
        if ends[0] && (ends[1] || !known.live.is_empty()) || self.is_strict {
            let known = self.listings.remove(&directory).unwrap_or_default();
            return known.told();
        }
        needed.push(rules::LISTING);
        Vec::new()
    }
}

impl Listing {
    /// One side has a name that the other has not in the same part.
    fn meet(&mut self, name: Box<[u8]>, is_recorded: bool) {
        // NFSv3 may list these two, and NFSv4 does not (RFC 8881 section 18.23.3).
        if matches!(&*name, b"." | b"..") {
            return;
        }
        let (own, others) = match is_recorded {
            true => (&mut self.recorded, &mut self.live),
            false => (&mut self.live, &mut self.recorded),
        };
        if !others.remove(&name) {
            if own.len() >= NAMES {
                self.is_forgotten = true;
            } else {
                own.insert(name);
            }
        }
    }

    fn is_even(&self) -> bool {
        self.recorded.is_empty() && self.live.is_empty()
    }

    fn told(&self) -> Vec<(String, [Option<String>; 2])> {
        if self.is_forgotten {
            return Vec::new();
        }
        let shown = |name: &[u8]| Some(format!("{:?}", String::from_utf8_lossy(name)));
        let mut told: Vec<_> = self
            .recorded
            .iter()
            .map(|name| [shown(name), None])
            .chain(self.live.iter().map(|name| [None, shown(name)]))
            .collect();
        told.sort();
        told.into_iter().map(|values| ("READDIR.reply.entries.name".to_owned(), values)).collect()
    }
}

/// PUTFH stands where PUTROOTFH stood: the root is the run's directory.
fn align(recorded: &Message, live: &mut Message) {
    for (section, of) in recorded.sections.iter().zip(&mut live.sections) {
        if matches!(&*section.name, "PUTROOTFH" | "PUTPUBFH") && &*of.name == "PUTFH" {
            of.name = Rc::clone(&section.name);
        }
    }
}

/// Puts the hash in the place of what the message does not hold itself.
fn know(message: &mut Message, known: &[(u32, Option<u128>)]) {
    let entries = message.sections.iter_mut().flat_map(|section| &mut section.entries);
    let unknown = entries.filter(|entry| entry.datum.is_unknown());
    for (entry, (length, hash)) in unknown.zip(known) {
        if let Some(hash) = hash {
            entry.datum = Datum::Digest(u64::from(*length), *hash);
        }
    }
}

fn is_status(entry: &Entry) -> bool {
    entry.path.role == Role::Equal(Kind::Status)
}

fn is_ok(datum: &Datum) -> bool {
    match datum {
        Datum::Named(name) => name.ends_with("_OK") || *name == "SUCCESS" || *name == "MSG_ACCEPTED",
        Datum::Number(number) => *number == 0,
        _ => false,
    }
}

/// How each operation went.
fn statuses(message: &Message) -> Vec<&Datum> {
    let sections = message.sections.iter();
    sections
        .filter_map(|section| section.entries.iter().find(|entry| is_status(entry)).map(|entry| &entry.datum))
        .collect()
}

fn is_done(status: &str) -> bool {
    status.ends_with("_OK")
}

/// Whether a status says that the server has no such thing.
fn is_unsupported(status: &str) -> bool {
    matches!(
        status,
        "NFS4ERR_NOTSUPP"
            | "NFS4ERR_OP_ILLEGAL"
            | "NFS4ERR_ATTRNOTSUPP"
            | "NFS4ERR_UNION_NOTSUPP"
            | "NFS4ERR_UNKNOWN_LAYOUTTYPE"
            | "NFS4ERR_MINOR_VERS_MISMATCH"
            | "NFS3ERR_NOTSUPP"
            | "PROC_UNAVAIL"
            | "PROG_UNAVAIL"
            | "PROG_MISMATCH"
    )
}

/// What is never compared: names that each server has of its own, filehandles aside, which must stand for the same
/// objects; how a message is protected; and masks of attributes, which the attributes show.
fn leave_out(section: &mut Section) {
    let is_header = section.name.is_empty();
    section.entries.retain(|entry| match entry.path.role {
        Role::Identity(identity) => identity == Identity::Filehandle,
        Role::Equal(Kind::Status) => true,
        _ if is_header => !entry.path.field.starts_with("rpc"),
        _ => {
            let is_mask = matches!(entry.path.leaf(), "attrmask");
            entry.path.field != "nfs.stateid.seqid" && !is_mask
        }
    });
}

/// Whether a field is an attribute of NFSv4.
fn is_attribute(path: &str) -> bool {
    path.starts_with("obj_attributes.") || path.contains(".attrs.")
}

/// The name of an attribute, without what is below it.
fn attribute(path: &str) -> &str {
    let after = path.strip_prefix("obj_attributes.").or(path.split_once(".attrs.").map(|(_, rest)| rest));
    after.and_then(|rest| rest.split('.').next()).unwrap_or_default()
}

/// Whether a field is of the attributes that a Reply of NFSv3 may have.
fn is_post_op(path: &str) -> bool {
    path.contains("_wcc.")
        || path.split('.').any(|word| word.ends_with("_attributes") && word != "obj_attributes")
}

/// Where the types of these fields say that a directory is meant: the names above.
fn directories(entries: &[Entry]) -> Vec<String> {
    let is_directory = |entry: &&Entry| {
        matches!(entry.datum, Datum::Named("NF4DIR" | "NF3DIR")) && entry.path.leaf() == "type"
    };
    entries.iter().filter(is_directory).map(|entry| entry.path.above().to_owned()).collect()
}

fn is_of_directory(above: &str, is_directory: bool, directories: &[String]) -> bool {
    is_directory || above.contains("dir_wcc.") || directories.iter().any(|known| known == above)
}

/// Takes out how far data is committed, where the live server did better.
fn committed(a: &mut Section, b: &mut Section, needed: &mut Vec<Rule>, is_on: impl Fn(Rule) -> bool) {
    let find = |section: &Section| section.entries.iter().position(|entry| entry.path.leaf() == "committed");
    let (Some(at), Some(other)) = (find(a), find(b)) else { return };
    let rank = |datum: Option<&Entry>| match datum.map(|entry| &entry.datum) {
        Some(Datum::Named(name)) if name.starts_with("UNSTABLE") => Some(0),
        Some(Datum::Named(name)) if name.starts_with("DATA_SYNC") => Some(1),
        Some(Datum::Named(name)) if name.starts_with("FILE_SYNC") => Some(2),
        _ => None,
    };
    let (recorded, live) = (rank(a.entries.get(at)), rank(b.entries.get(other)));
    if live > recorded && recorded.is_some() && is_on(rules::COMMITTED) {
        a.entries.remove(at);
        b.entries.remove(other);
        needed.push(rules::COMMITTED);
    }
}

/// Compares rights in the bits that both servers can tell of.
fn access(a: &mut Section, b: &mut Section, needed: &mut Vec<Rule>, is_on: impl Fn(Rule) -> bool) {
    if &*a.name != "ACCESS" || !is_on(rules::ACCESS_SUPPORTED) {
        return;
    }
    let mask = |section: &Section, leaf: &str| {
        section.entries.iter().find(|entry| entry.path.leaf() == leaf).and_then(|entry| match entry.datum {
            Datum::Flags(mask, _) | Datum::Number(mask) => Some(mask),
            _ => None,
        })
    };
    let supported = mask(a, "supported").zip(mask(b, "supported"));
    let Some((common, differs)) = supported.map(|(a, b)| (a & b, a != b)) else { return };
    let rights = mask(a, "access").zip(mask(b, "access"));
    if differs && rights.is_some_and(|(a, b)| a & common == b & common) {
        a.entries.retain(|entry| entry.path.leaf() != "access");
        b.entries.retain(|entry| entry.path.leaf() != "access");
        needed.push(rules::ACCESS_SUPPORTED);
    }
}

/// Whether a listing ends here.
fn is_end(section: &Section) -> bool {
    let eof = section.entries.iter().find(|entry| entry.path.leaf() == "eof");
    eof.is_some_and(|entry| entry.datum == Datum::Bool(true))
}

/// An entry of a directory: its name, and its fields.
type Element = (Box<[u8]>, Vec<Entry>);

/// Takes the entries of a directory out of a section: the name of each, and its fields. `None` where it lists nothing.
fn elements(section: &mut Section) -> Option<Vec<Element>> {
    if !matches!(&*section.name, "READDIR" | "READDIRPLUS") {
        return None;
    }
    let is_below = |entry: &Entry| entry.path.text.contains("entries.");
    let (below, other): (Vec<_>, Vec<_>) =
        std::mem::take(&mut section.entries).into_iter().partition(is_below);
    section.entries = other;
    let mut elements: Vec<Element> = Vec::new();
    let first = below.first().map(|entry| Rc::clone(&entry.path));
    for entry in below {
        if first.as_ref().is_some_and(|first| Rc::ptr_eq(first, &entry.path)) || elements.is_empty() {
            elements.push((Box::default(), Vec::new()));
        }
        let Some((name, fields)) = elements.last_mut() else { break };
        if entry.path.text.ends_with("entries.name") {
            *name = match &entry.datum {
                Datum::Text(bytes) | Datum::Bytes(bytes) => bytes.clone(),
                other => other.to_string().into_bytes().into(),
            };
        }
        fields.push(entry);
    }
    Some(elements)
}
