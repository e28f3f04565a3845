//! Current and saved filehandle of a COMPOUND, operation by operation, as objects: the filehandle of an object may be
//! known only later in the COMPOUND, or never. RFC 7530 section 15.2, RFC 8881 sections 16.2.3.1.1 and 2.6.3.1.1.8.

use nfsrdma_dissectors::nfs::v4::{Args, Attribute, Attributes, Operation, Results};

use super::{Current, meaning};
use crate::names::Name;

/// An object that the operations of one COMPOUND work on. Two objects of a COMPOUND may be one object of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(u32);

impl Object {
    /// Returns the index of the operation that made it current.
    pub const fn operation(self) -> usize {
        self.0 as usize
    }
}

/// Source of the filehandle of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'m> {
    /// From the arguments of PUTFH.
    Handle(&'m [u8]),
    /// It is the root.
    Root,
    /// It has the public filehandle.
    Public,
    /// A name in a directory.
    Name(Option<Object>, &'m [u8]),
    /// The directory above an object.
    Parent(Option<Object>),
    /// The directory of named attributes of an object.
    Attributes(Option<Object>),
    /// The arguments that say it are not in the capture.
    Unknown,
}

/// The objects of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'m> {
    /// Object of the current filehandle when the operation begins.
    pub current: Option<Object>,
    /// Object of the saved filehandle when the operation begins.
    pub saved: Option<Object>,
    /// Object of the current filehandle after the operation, if it succeeds.
    pub next: Option<Object>,
    /// Origin of `next`, if the operation makes it.
    pub made: Option<Origin<'m>>,
}

/// The current and the saved filehandle during a COMPOUND. An operation that failed counts as if it had succeeded: the
/// objects are those that the client asked for.
#[derive(Clone, Copy, Debug)]
pub struct Filehandles {
    minor_version: u32,
    operations: u32,
    current: Option<Object>,
    saved: Option<Object>,
}

impl Filehandles {
    /// Returns the state at the beginning of a COMPOUND.
    pub const fn new(minor_version: u32) -> Self {
        Self { minor_version, operations: 0, current: None, saved: None }
    }

    /// Applies the next operation; `args` is `None` if they are not in the capture.
    pub fn apply<'m>(&mut self, operation: Operation, args: Option<&Args<'m>>) -> Step<'m> {
        let (current, saved) = (self.current, self.saved);
        let name = || Name::of_v4(args?)[0].map(|name| name.text);
        let named = || name().map_or(Origin::Unknown, |name| Origin::Name(current, name));
        let (next, made) = match meaning(operation).current {
            Current::Kept => (current, None),
            Current::Saved => (saved, None),
            Current::Consumed => (current.filter(|_| self.minor_version == 0), None),
            Current::Claim if args.is_some() && name().is_none() => (current, None),
            Current::Argument => self.make(match args {
                Some(Args::PUTFH(args)) => Origin::Handle(args.object.0),
                _ => Origin::Unknown,
            }),
            Current::Root => self.make(Origin::Root),
            Current::Public => self.make(Origin::Public),
            Current::Name | Current::Claim => self.make(named()),
            Current::Parent => self.make(Origin::Parent(current)),
            Current::Attributes => self.make(Origin::Attributes(current)),
        };
        if operation == Operation::SAVEFH {
            self.saved = current;
        }
        self.current = next;
        self.operations += 1;
        Step { current, saved, next, made }
    }

    fn make<'m>(&self, origin: Origin<'m>) -> (Option<Object>, Option<Origin<'m>>) {
        (Some(Object(self.operations)), Some(origin))
    }
}

impl Step<'_> {
    /// Returns the object that an operation is about: the source of one that works on two.
    pub fn object(&self, operation: Operation) -> Option<Object> {
        if meaning(operation).uses_saved { self.saved } else { self.current }
    }

    /// Returns the object that is the target of an operation that works on two.
    pub fn target(&self, operation: Operation) -> Option<Object> {
        self.current.filter(|_| meaning(operation).uses_saved)
    }
}

/// Filehandles of the objects of a COMPOUND, as far as its messages have them.
#[derive(Clone, Debug, Default)]
pub struct Handles<'m>(Vec<(Object, &'m [u8])>);

impl<'m> Handles<'m> {
    /// Learns what the arguments and the results of an operation say: those of PUTFH, GETFH, and the attribute of
    /// GETATTR. RFC 8881 sections 18.19.3, 18.8.3 and 5.8.1.19.
    pub fn learn(&mut self, step: &Step<'m>, results: Option<&Results<'m>>) {
        let sent = match step.made {
            Some(Origin::Handle(handle)) => Some(handle),
            _ => None,
        };
        if let (Some(object), Some(handle)) = (step.next, results.and_then(returned).or(sent)) {
            match self.0.binary_search_by_key(&object, |(known, _)| *known) {
                Ok(at) => self.0[at] = (object, handle),
                Err(at) => self.0.insert(at, (object, handle)),
            }
        }
    }

    /// Returns the filehandle of an object.
    pub fn of(&self, object: Option<Object>) -> Option<&'m [u8]> {
        let at = self.0.binary_search_by_key(&object?, |(known, _)| *known).ok()?;
        self.0.get(at).map(|(_, handle)| *handle)
    }
}

/// Returns the filehandle in a result that is the current one.
fn returned<'m>(results: &Results<'m>) -> Option<&'m [u8]> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other result has the current filehandle")]
    match results {
        Results::GETFH(result) => result.ok().map(|ok| ok.object.0),
        Results::GETATTR(result) => {
            let fattr = &result.ok()?.obj_attributes;
            if !fattr.mask.contains(Attributes::FILEHANDLE) {
                return None;
            }
            fattr.items().map_while(Result::ok).find_map(|attribute| match attribute {
                Attribute::FILEHANDLE(handle) => Some(handle.0),
                _ => None,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::StatusUnion;
    use nfsrdma_dissectors::nfs::v4::{
        Lookup4Args, ObjectFh4, Open4Args, OpenClaim4, OpenOwner4, Openflag4, Opentype4, Rename4Args, ShareAccess,
        ShareDeny, Stateid4,
    };
    use nfsrdma_dissectors::xdr::{Opaque, Text, Void};

    use super::*;

    fn put(handle: &[u8]) -> Args<'_> {
        Args::PUTFH(ObjectFh4 { object: Opaque(handle) })
    }

    fn lookup(name: &[u8]) -> Args<'_> {
        Args::LOOKUP(Lookup4Args { objname: Text(name) })
    }

    fn steps<'m>(minor_version: u32, operations: &[Args<'m>]) -> Vec<Step<'m>> {
        let mut filehandles = Filehandles::new(minor_version);
        operations.iter().map(|args| filehandles.apply(args.operation(), Some(args))).collect()
    }

    /// RFC 8881 section 18.26.1: SAVED_FH is the source directory, CURRENT_FH the target directory.
    #[test]
    fn rename_goes_from_saved() {
        let rename = Args::RENAME(Rename4Args { oldname: Text(b"a"), newname: Text(b"b") });
        let operations = [put(b"one"), Args::SAVEFH(Void), put(b"two"), rename];
        let steps = steps(1, &operations);
        let (source, target) = (steps[3].object(Operation::RENAME), steps[3].target(Operation::RENAME));
        assert_eq!((source, target), (steps[0].next, steps[2].next));
        assert_eq!((steps[0].made, steps[2].made), (Some(Origin::Handle(b"one")), Some(Origin::Handle(b"two"))));
        assert_ne!(source, target);
    }

    /// RFC 8881 section 18.27: RESTOREFH makes the saved object current, whatever was saved.
    #[test]
    fn restorefh_returns_saved_object() {
        let operations = [put(b"dir"), lookup(b"file"), Args::SAVEFH(Void), put(b"other"), Args::RESTOREFH(Void)];
        let steps = steps(0, &operations);
        assert_eq!(steps[4].next, steps[1].next);
        assert_eq!(steps[1].made, Some(Origin::Name(steps[0].next, b"file")));
    }

    /// RFC 8881 section 18.29.3: no current filehandle behind SECINFO; RFC 7530 section 16.31.4: it remains.
    #[test]
    fn secinfo_consumes_filehandle_with_sessions() {
        let secinfo = Args::SECINFO(nfsrdma_dissectors::nfs::v4::Secinfo4Args { name: Text(b"file") });
        let operations = [put(b"dir"), secinfo];
        assert_eq!(steps(1, &operations)[1].next, None);
        let before = steps(0, &operations);
        assert_eq!((before[1].next, before[1].made), (before[0].next, None));
    }

    /// RFC 8881 section 18.8.3: GETFH returns the filehandle of what LOOKUP found, also for operations before it.
    #[test]
    fn getfh_binds_object_found_before() {
        let given = Results::GETFH(StatusUnion::Ok(ObjectFh4 { object: Opaque(b"file") }));
        let done = Results::LOOKUP(StatusUnion::Ok(Void));
        let steps = steps(1, &[put(b"dir"), lookup(b"f"), Args::SAVEFH(Void), Args::GETFH(Void)]);
        let mut handles = Handles::default();
        handles.learn(&steps[0], None);
        handles.learn(&steps[1], Some(&done));
        assert_eq!((handles.of(steps[1].current), handles.of(steps[1].next)), (Some(&b"dir"[..]), None));
        handles.learn(&steps[3], Some(&given));
        assert_eq!(handles.of(steps[1].next), Some(&b"file"[..]));
        assert_eq!(handles.of(steps[0].next), Some(&b"dir"[..]));
    }

    /// RFC 8881 section 18.16.3: OPEN by CLAIM_DELEG_CUR_FH needs no GETFH, its file is that of PUTFH.
    #[test]
    fn claim_by_filehandle_has_filehandle() {
        let open = |claim| {
            Args::OPEN(Open4Args {
                seqid: 0,
                share_access: ShareAccess(1),
                share_deny: ShareDeny(0),
                owner: OpenOwner4 { clientid: 1, owner: Opaque(b"owner") },
                openhow: Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
                claim,
            })
        };
        let opened = |claim| {
            let steps = steps(1, &[put(b"file"), open(claim)]);
            let mut handles = Handles::default();
            steps.iter().for_each(|step| handles.learn(step, None));
            handles.of(steps[1].next)
        };
        assert_eq!(opened(OpenClaim4::DelegCurFh(Stateid4 { seqid: 1, other: [7; 12] })), Some(&b"file"[..]));
        assert_eq!(opened(OpenClaim4::Null(Text(b"name"))), None);
    }

    /// An operation whose arguments are not in the capture has made another object.
    #[test]
    fn cut_open_makes_unknown_object() {
        let mut filehandles = Filehandles::new(2);
        let first = filehandles.apply(Operation::PUTROOTFH, None);
        let open = filehandles.apply(Operation::OPEN, None);
        assert_eq!((first.made, open.made), (Some(Origin::Root), Some(Origin::Unknown)));
        assert_ne!(first.next, open.next);
    }
}
