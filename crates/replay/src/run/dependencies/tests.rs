//! One test for each rule of [`collector`]: whether the second of two steps waits for the first.

use nfsrdma_dissectors::nfs::v4::{
    Allocate4Args, Args, Bitmap4, Clone4Args, Close4Args, CompoundCall, CompoundCallHead, Copy4Args, Create4Args,
    Createhow4, Createtype4, Delegreturn4Args, DestroySession4Args, Fattr4, FreeStateid4Args, Getattr4Args, Link4Args,
    Locku4Args, Lookup4Args, NfsFtype4, NfsLockType4, ObjectFh4, Open4Args, OpenClaim4, OpenOwner4, Openflag4,
    Opentype4, Read4Args, Readdir4Args, Remove4Args, Rename4Args, Secinfo4Args, Sequence4Args, Setattr4Args,
    ShareAccess, ShareDeny, StableHow4, Stateid4, Write4Args,
};
use nfsrdma_dissectors::xdr::{Ddp, Encoder, Opaque, Text, Void, XdrArray};

use super::super::call_operations_and_files::{CallOperationsAndFiles, StepTitleCache};
use super::super::options::{ReplayOrder, ReplayPace};
use super::collector::DependencyCollector;
use super::name_to_object_bindings::DirectoryEntryTargetTable;
use super::*;
use crate::trace::step::{
    CallAndReplyWireForms, ChunkSegmentLengths, GssProtection, MessageCaptureCompleteness, NONE, PayloadContentState,
    SubstitutableMessageSlot, TraceCallChunks, TraceCallConnectionAndSession, TraceMessage, TraceMessageWireForm,
    TracePayload, TraceProcedure, TraceReplySizeLimits, TraceSlotValueKind, TraceStep, TraceStepOrigin,
    VariableUseKind,
};

/// Step of a test: operations with their values, times, and client.
#[derive(Clone, Default)]
struct Made {
    operations: Vec<Args<'static>>,
    /// Operation, kind, use in the message, and variable, for the Call and the Reply.
    call: Vec<(u32, TraceSlotValueKind, VariableUseKind, u32)>,
    reply: Vec<(u32, TraceSlotValueKind, VariableUseKind, u32)>,
    /// Number of bytes that it writes.
    length: u32,
    span: Option<(u64, u64)>,
    client: u32,
    slot: Option<u32>,
    minor: u32,
    /// Version and procedure of NLM.
    nlm: Option<(u32, u32)>,
}

impl Made {
    fn then(mut self, operation: Args<'static>) -> Self {
        self.operations.push(operation);
        self
    }

    fn with(mut self, value_kind: TraceSlotValueKind, variable: u32) -> Self {
        let at = self.operations.len() as u32 - 1;
        self.call.push((at, value_kind, VariableUseKind::USED, variable));
        self
    }

    fn gives(mut self, value_kind: TraceSlotValueKind, part: VariableUseKind, variable: u32) -> Self {
        let at = self.operations.len() as u32 - 1;
        self.reply.push((at, value_kind, part, variable));
        self
    }

    fn at(self, start: u64, end: u64) -> Self {
        Self { span: Some((start, end)), ..self }
    }

    fn of(self, client: u32) -> Self {
        Self { client, ..self }
    }
}

/// PUTFH of a variable.
fn on(file: u32) -> Made {
    Made { minor: 1, ..Made::default() }
        .then(Args::PUTFH(ObjectFh4 { object: Opaque(b"file") }))
        .with(TraceSlotValueKind::FILEHANDLE, file)
}

const STATEID: Stateid4 = Stateid4 { seqid: 0, other: [7; 12] };

fn read(file: u32, offset: u64, count: u32) -> Made {
    on(file).then(Args::READ(Read4Args { stateid: STATEID, offset, count }))
}

fn write(file: u32, offset: u64, length: u32) -> Made {
    let data = Ddp::Chunk { length, bytes: None };
    let stable = StableHow4::UNSTABLE4;
    let made = on(file).then(Args::WRITE(Write4Args { stateid: STATEID, offset, stable, data }));
    Made { length, ..made }
}

fn getattr(file: u32) -> Made {
    on(file).then(Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&[][..]) }))
}

fn attributes() -> Fattr4<'static> {
    Fattr4::new(Bitmap4::from(&[][..]), Opaque(b""))
}

fn setattr(file: u32) -> Made {
    on(file).then(Args::SETATTR(Setattr4Args { stateid: STATEID, obj_attributes: attributes() }))
}

fn lookup(directory: u32, name: &'static str, found: u32) -> Made {
    let objname = Text(name.as_bytes());
    on(directory).then(Args::LOOKUP(Lookup4Args { objname })).then(Args::GETFH(Void)).gives(
        TraceSlotValueKind::FILEHANDLE,
        VariableUseKind::AGAIN,
        found,
    )
}

fn secinfo(directory: u32, name: &'static str) -> Made {
    on(directory).then(Args::SECINFO(Secinfo4Args { name: Text(name.as_bytes()) }))
}

fn make(directory: u32, name: &'static str) -> Made {
    let (objname, objtype) = (Text(name.as_bytes()), Createtype4::Other(NfsFtype4::NF4DIR));
    on(directory).then(Args::CREATE(Create4Args { objtype, objname, createattrs: attributes() }))
}

fn remove(directory: u32, name: &'static str) -> Made {
    on(directory).then(Args::REMOVE(Remove4Args { target: Text(name.as_bytes()) }))
}

fn rename(from: (u32, &'static str), to: (u32, &'static str)) -> Made {
    let (oldname, newname) = (Text(from.1.as_bytes()), Text(to.1.as_bytes()));
    on(from.0)
        .then(Args::SAVEFH(Void))
        .then(Args::PUTFH(ObjectFh4 { object: Opaque(b"to") }))
        .with(TraceSlotValueKind::FILEHANDLE, to.0)
        .then(Args::RENAME(Rename4Args { oldname, newname }))
}

fn link(file: u32, to: (u32, &'static str)) -> Made {
    on(file)
        .then(Args::SAVEFH(Void))
        .then(Args::PUTFH(ObjectFh4 { object: Opaque(b"to") }))
        .with(TraceSlotValueKind::FILEHANDLE, to.0)
        .then(Args::LINK(Link4Args { newname: Text(to.1.as_bytes()) }))
}

fn readdir(directory: u32) -> Made {
    on(directory).then(Args::READDIR(Readdir4Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: Bitmap4::from(&[][..]),
    }))
}

fn open(directory: u32, name: &'static str, creates: bool) -> Made {
    let openhow = if creates {
        Openflag4::Create(Createhow4::Unchecked(attributes()))
    } else {
        Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE)
    };
    on(directory).then(Args::OPEN(Open4Args {
        seqid: 0,
        share_access: ShareAccess(1),
        share_deny: ShareDeny(0),
        owner: OpenOwner4 { clientid: 0, owner: Opaque(b"owner") },
        openhow,
        claim: OpenClaim4::Null(Text(name.as_bytes())),
    }))
}

fn close(file: u32, stateid: u32) -> Made {
    on(file)
        .then(Args::CLOSE(Close4Args { seqid: 0, open_stateid: STATEID }))
        .with(TraceSlotValueKind::STATEID, stateid)
}

fn free_stateid(stateid: u32) -> Made {
    Made { minor: 1, ..Made::default() }
        .then(Args::FREE_STATEID(FreeStateid4Args { fsa_stateid: STATEID }))
        .with(TraceSlotValueKind::STATEID, stateid)
}

fn copy(from: u32, to: u32, ca_dst_offset: u64, ca_count: u64) -> Made {
    on(from)
        .then(Args::SAVEFH(Void))
        .then(Args::PUTFH(ObjectFh4 { object: Opaque(b"to") }))
        .with(TraceSlotValueKind::FILEHANDLE, to)
        .then(Args::COPY(Copy4Args {
            ca_src_stateid: STATEID,
            ca_dst_stateid: STATEID,
            ca_src_offset: 0,
            ca_dst_offset,
            ca_count,
            ca_consecutive: false,
            ca_synchronous: true,
            ca_source_server: XdrArray::default(),
        }))
}

/// Dependency graph of a test, to which steps are added one after the other.
struct Book {
    graph: DependencyGraph,
    claims: DependencyCollector,
    titles: StepTitleCache,
    count: u32,
}

impl Book {
    fn new(order: ReplayOrder, pace: ReplayPace) -> Self {
        Self {
            graph: DependencyGraph::default(),
            claims: DependencyCollector::new(order, pace, DirectoryEntryTargetTable::default()),
            titles: StepTitleCache::default(),
            count: 0,
        }
    }

    /// Adds a step. Returns `true` if it is ready at once.
    fn admit(&mut self, made: &Made) -> bool {
        let mut encoder = Encoder::new();
        CompoundCall::new(CompoundCallHead { tag: Text(b""), minorversion: made.minor }, &made.operations)
            .encode(&mut encoder);
        let (head, splices) = encoder.finish();
        let slot = |(operation, value_kind, part, variable): &(u32, TraceSlotValueKind, VariableUseKind, u32)| {
            SubstitutableMessageSlot {
                at: 0,
                length: 0,
                value_kind: *value_kind,
                part: *part,
                is_counted: false,
                operation: *operation,
                variable: *variable,
                definition: 0,
                place: 0,
            }
        };
        let calls: Vec<SubstitutableMessageSlot> = made.call.iter().map(slot).collect();
        let replies: Vec<SubstitutableMessageSlot> = made.reply.iter().map(slot).collect();
        let payloads: Vec<TracePayload> = splices
            .iter()
            .map(|splice| TracePayload {
                at: splice.position as u32,
                length: made.length,
                is_inside: false,
                content: PayloadContentState::ZEROS,
                hash: [0; 16],
                data: 0,
                operation: made.operations.len() as u32 - 1,
                file: NONE,
                offset: 0,
            })
            .collect();
        let (start, end) = made.span.unwrap_or((u64::from(self.count) * 10, u64::from(self.count) * 10 + 5));
        let none = || ChunkSegmentLengths { lengths: XdrArray::default() };
        let step = TraceStep {
            origin: TraceStepOrigin {
                id: 1,
                repeats: 0,
                call_frame: 0,
                reply_frame: 0,
                time_ns: start,
                latency_ns: end - start,
                run_of: 0,
            },
            caller: TraceCallConnectionAndSession {
                client: made.client,
                server: 0,
                connection: 1,
                is_reverse: false,
                clientid: NONE,
                session: NONE,
                slot: NONE,
                sequence: NONE,
                owner: NONE,
            },
            procedure: TraceProcedure {
                program: if made.nlm.is_some() { 100_021 } else { 100_003 },
                version: made.nlm.map_or(4, |(version, _)| version),
                minor_version: if made.nlm.is_some() { NONE } else { made.minor },
                number: made.nlm.map_or(1, |(_, procedure)| procedure),
                flavor: 1,
                protection: GssProtection::PLAIN,
            },
            call: TraceMessage {
                completeness: MessageCaptureCompleteness::WHOLE,
                head: Opaque(&head),
                body: 0,
                end: head.len() as u32,
                slots: XdrArray::from(&calls[..]),
                payloads: XdrArray::from(&payloads[..]),
            },
            reply: TraceMessage {
                completeness: MessageCaptureCompleteness::WHOLE,
                head: Opaque(b""),
                body: 0,
                end: 0,
                slots: XdrArray::from(&replies[..]),
                payloads: XdrArray::default(),
            },
            shape: TraceCallChunks {
                call: none(),
                reads: XdrArray::default(),
                writes: XdrArray::default(),
                reply: none(),
            },
            carried: CallAndReplyWireForms {
                call: TraceMessageWireForm::RECORD,
                reply: TraceMessageWireForm::RECORD,
                credits: [0; 2],
                rdma_error: 0,
                returned: XdrArray::default(),
                returned_reply: 0,
            },
            needs: TraceReplySizeLimits { message_bytes: 0, payloads: XdrArray::default() },
        };
        let mut parts = CallOperationsAndFiles::default();
        parts.read(&step, &mut self.titles);
        assert_eq!(parts.operations.len(), made.operations.len(), "the call can be read");
        self.claims.collect(&step, &parts, made.slot.map(|slot| (0, slot)), &|_| false);
        let may_go = self.graph.admit(self.count, (start, end), &mut self.claims.dependencies);
        self.count += 1;
        may_go
    }

    /// Finishes the steps in order; each must be ready, and the graph must be empty afterwards.
    fn end(mut self) {
        let mut ready = Vec::new();
        for window_index in 0..self.count {
            assert_eq!(self.graph.nodes[window_index as usize].pending_count, 0, "{window_index}");
            self.graph.finish(window_index, &mut ready);
        }
        assert!(self.graph.is_empty(), "{:?}", self.graph);
    }
}

/// Returns `true` if the last of these steps waits for an earlier one; the others must be ready.
#[track_caller]
fn waits_in(order: ReplayOrder, pace: ReplayPace, steps: &[Made]) -> bool {
    let mut book = Book::new(order, pace);
    let (last, before) = steps.split_last().unwrap();
    for step in before {
        assert!(book.admit(step), "one before the last waits");
    }
    let may_go = book.admit(last);
    book.end();
    !may_go
}

#[track_caller]
fn waits(steps: &[Made]) -> bool {
    waits_in(ReplayOrder::Dependencies, ReplayPace::Immediate, steps)
}

#[test]
fn a_step_waits_for_the_step_that_defines_its_values() {
    let given = lookup(1, "a", 2).gives(TraceSlotValueKind::FILEHANDLE, VariableUseKind::DEFINED, 9);
    assert!(waits(&[given.clone(), getattr(9)]));
    assert!(!waits(&[given, getattr(8)]));
}

#[test]
fn rfc8881_section_2_10_6_1_a_slot_has_one_call_at_a_time() {
    let sequence = |slot| Made { slot: Some(slot), ..getattr(1) };
    assert!(waits(&[sequence(0), sequence(0)]));
    assert!(!waits(&[sequence(0), sequence(1)]));
}

#[test]
fn rfc7530_section_9_1_7_an_owner_has_one_call_at_a_time_in_minor_version_0() {
    let of = |minor, owner| Made { minor, ..getattr(owner).with(TraceSlotValueKind::OPEN_SEQID, owner) };
    assert!(waits(&[of(0, 5), of(0, 5)]));
    assert!(!waits(&[of(0, 5), of(0, 6)]));
    assert!(!waits(&[of(1, 5), of(1, 5)]), "seqids are not looked at: RFC 8881 section 8.2.2");
}

#[test]
fn reads_go_at_once_and_writes_of_the_same_bytes_do_not() {
    assert!(!waits(&[read(1, 0, 4096), read(1, 0, 4096), read(1, 100, 5)]));
    // They overlapped in the capture, so the size of the file is not a reason to wait.
    let [early, late] = [(0, 100), (50, 150)];
    for (one, other, must) in [
        (read(1, 0, 4096), write(1, 4095, 10), true),
        (read(1, 0, 4096), write(1, 4096, 10), false),
        (write(1, 0, 4096), read(1, 4095, 10), true),
        (write(1, 0, 4096), read(1, 4096, 10), false),
        (write(1, 0, 4096), write(1, 4095, 10), true),
        (write(1, 0, 4096), write(1, 4096, 10), false),
        (write(1, 0, 4096), write(2, 0, 4096), false),
        (copy(2, 1, 8192, 4096), read(1, 8192, 1), true),
        (copy(2, 1, 8192, 4096), read(1, 0, 8192), false),
        (copy(2, 1, 8192, 0), read(1, 1 << 40, 1), true),
        (copy(2, 1, 8192, 4096), write(2, 0, 1), true),
    ] {
        assert_eq!(waits(&[one.at(early.0, early.1), other.at(late.0, late.1)]), must);
    }
    let allocate = Args::ALLOCATE(Allocate4Args { aa_stateid: STATEID, aa_offset: 0, aa_length: 10 });
    assert!(waits(&[on(1).then(allocate).at(0, 100), read(1, 9, 1).at(50, 150)]));
    let clone = Args::CLONE(Clone4Args {
        cl_src_stateid: STATEID,
        cl_dst_stateid: STATEID,
        cl_src_offset: 0,
        cl_dst_offset: 0,
        cl_count: 10,
    });
    assert!(waits(&[on(1).then(clone).at(0, 100), read(1, 9, 1).at(50, 150)]));
}

#[test]
fn a_file_that_grew_before_has_grown_before_its_size_is_seen() {
    assert!(waits(&[write(1, 0, 10), getattr(1)]));
    assert!(waits(&[getattr(1), write(1, 0, 10)]));
    assert!(!waits(&[write(1, 0, 10).at(0, 100), getattr(1).at(50, 150)]), "the capture does not tell which was first");
    assert!(!waits(&[write(1, 0, 10), getattr(2)]));
}

#[test]
fn setattr_excludes_other_uses_of_the_object() {
    assert!(waits(&[getattr(1).at(0, 100), setattr(1).at(50, 150)]));
    assert!(waits(&[setattr(1).at(0, 100), getattr(1).at(50, 150)]));
    assert!(waits(&[setattr(1), read(1, 0, 1)]));
    assert!(!waits(&[setattr(1), read(2, 0, 1)]));
}

#[test]
fn names_are_looked_up_at_once_and_changed_alone() {
    assert!(!waits(&[lookup(1, "a", 2), lookup(1, "a", 2), open(1, "a", false)]));
    for change in [make(1, "a"), remove(1, "a"), open(1, "a", true), link(3, (1, "a")), rename((1, "a"), (1, "z"))] {
        assert!(waits(&[lookup(1, "a", 2), change.clone()]));
        assert!(waits(&[change.clone(), lookup(1, "a", 2)]));
        if !matches!(change.operations.last(), Some(Args::REMOVE(_) | Args::RENAME(_))) {
            assert!(!waits(&[change.clone(), lookup(1, "b", 2)]));
            assert!(!waits(&[change, lookup(4, "a", 2)]));
        }
    }
    assert!(waits(&[rename((1, "a"), (1, "b")), lookup(1, "b", 2)]));
    assert!(!waits(&[make(1, "a"), make(1, "b")]));
}

#[test]
fn a_directory_is_listed_apart_from_changes_of_its_names() {
    assert!(!waits(&[readdir(1), readdir(1)]));
    assert!(waits(&[make(1, "a"), readdir(1)]));
    assert!(waits(&[readdir(1), make(1, "a")]));
    assert!(!waits(&[readdir(1), lookup(1, "a", 2)]));
    assert!(!waits(&[readdir(1), make(2, "a")]));
    let with_entry = readdir(1).gives(TraceSlotValueKind::FILEHANDLE, VariableUseKind::AGAIN, 5);
    assert!(waits(&[write(5, 0, 10), with_entry]), "the listing tells its size");
}

#[test]
fn a_removal_waits_for_uses_of_the_object() {
    assert!(waits(&[lookup(1, "a", 2), read(2, 0, 1), remove(1, "a")]));
    // The target of the name is known, and the other file is another object.
    let mut book = Book::new(ReplayOrder::Dependencies, ReplayPace::Immediate);
    assert!(book.admit(&lookup(1, "a", 2)));
    book.graph.finish(0, &mut Vec::new());
    assert!(book.admit(&read(3, 0, 1)));
    assert!(book.admit(&remove(1, "a")));
    assert!(!book.admit(&read(2, 0, 1)), "and then it may be gone");
    // A name that was not seen may refer to any object.
    assert!(waits(&[read(3, 0, 1), remove(1, "unseen")]));
    assert!(waits(&[lookup(1, "b", 2), read(2, 0, 1), rename((1, "a"), (1, "b"))]), "which replaces it");
    assert!(waits(&[link(2, (1, "b")), getattr(2)]), "it has one more link");
}

/// RFC 8881 section 18.29: SECINFO makes no object current, so that its name is not that of its directory.
#[test]
fn secinfo_binds_no_name() {
    let mut book = Book::new(ReplayOrder::Dependencies, ReplayPace::Immediate);
    assert!(book.admit(&secinfo(1, "a")));
    book.graph.finish(0, &mut Vec::new());
    assert!(book.admit(&read(3, 0, 1)));
    assert!(!book.admit(&remove(1, "a")), "any object may have the name");
    assert!(waits(&[secinfo(1, "a"), remove(1, "a")]));
}

#[test]
fn a_stateid_ends_after_its_uses() {
    let uses = || read(1, 0, 1).with(TraceSlotValueKind::STATEID, 7).at(0, 100);
    let late = |made: Made| made.at(50, 150);
    let back =
        on(1).then(Args::DELEGRETURN(Delegreturn4Args { deleg_stateid: STATEID })).with(TraceSlotValueKind::STATEID, 7);
    let unlock = on(1)
        .then(Args::LOCKU(Locku4Args {
            locktype: NfsLockType4::READ_LT,
            seqid: 0,
            lock_stateid: STATEID,
            offset: 0,
            length: 1,
        }))
        .with(TraceSlotValueKind::STATEID, 7);
    for end in [close(1, 7), back, unlock, free_stateid(7)] {
        assert!(waits(&[uses(), late(end)]));
    }
    assert!(!waits(&[uses(), late(free_stateid(8))]));
    assert!(!waits(&[uses(), late(uses())]));
    let upgraded = open(1, "a", false).gives(TraceSlotValueKind::STATEID, VariableUseKind::AGAIN, 7);
    assert!(waits(&[uses(), late(upgraded)]), "its count is another then");
}

#[test]
fn an_open_ends_after_the_locks_that_came_from_it() {
    use nfsrdma_dissectors::nfs::v4::{Lock4Args, LockOwner4, Locker4, OpenToLockOwner4};
    let lock_owner = LockOwner4 { clientid: 0, owner: Opaque(b"locker") };
    let locker = Locker4::New(OpenToLockOwner4 { open_seqid: 0, open_stateid: STATEID, lock_seqid: 0, lock_owner });
    let lock = on(1)
        .then(Args::LOCK(Lock4Args { locktype: NfsLockType4::READ_LT, reclaim: false, offset: 0, length: 1, locker }))
        .with(TraceSlotValueKind::STATEID, 7)
        .gives(TraceSlotValueKind::STATEID, VariableUseKind::DEFINED, 8);
    let orders = [ReplayOrder::Dependencies, ReplayOrder::Captured];
    let times = [[(10, 20), (30, 40)], [(10, 20), (15, 25)]];
    for (order, [freed, closed]) in orders.into_iter().flat_map(|order| times.map(|times| (order, times))) {
        let mut book = Book::new(order, ReplayPace::Immediate);
        assert!(book.admit(&lock.clone().at(0, 5)));
        book.graph.finish(0, &mut Vec::new());
        assert!(book.admit(&free_stateid(8).at(freed.0, freed.1)));
        assert!(!book.admit(&close(1, 7).at(closed.0, closed.1)), "{order:?} {freed:?} {closed:?}");
    }
}

#[test]
fn opens_and_closes_of_a_file_keep_the_captured_order() {
    let opened = |file| {
        open(1, "a", false).then(Args::GETFH(Void)).gives(TraceSlotValueKind::FILEHANDLE, VariableUseKind::AGAIN, file)
    };
    assert!(waits(&[close(5, 7).of(1), opened(5).of(2)]), "the other's open may have been refused");
    assert!(!waits(&[close(5, 7).at(0, 100), opened(5).at(50, 150)]));
    assert!(!waits(&[close(5, 7), opened(6)]));
}

#[test]
fn rfc8881_section_9_9_an_open_with_a_new_stateid_waits_for_an_overlapping_close() {
    let opened = |file, part| {
        let open = open(1, "a", false).gives(TraceSlotValueKind::STATEID, part, 9);
        open.then(Args::GETFH(Void)).gives(TraceSlotValueKind::FILEHANDLE, VariableUseKind::AGAIN, file).at(50, 150)
    };
    let close = || close(5, 7).at(0, 100);
    assert!(waits(&[close(), opened(5, VariableUseKind::DEFINED)]));
    assert!(!waits(&[close(), opened(5, VariableUseKind::AGAIN)]), "it has the stateid of another open");
    assert!(!waits(&[close(), opened(6, VariableUseKind::DEFINED)]));
    assert!(!waits(&[close().of(2), opened(5, VariableUseKind::DEFINED)]));
}

#[test]
fn locks_of_nlm_are_taken_in_the_order_of_the_capture() {
    let lock = |file, client| Made {
        nlm: Some((4, 2)),
        call: vec![(0, TraceSlotValueKind::FILEHANDLE, VariableUseKind::USED, file)],
        client,
        ..Made::default()
    };
    assert!(waits(&[lock(1, 0), lock(1, 1)]));
    assert!(!waits(&[lock(1, 0), lock(2, 1)]));
    assert!(waits(&[lock(1, 0).at(0, 100), getattr(2).at(50, 150)]), "its client waits for it");
}

#[test]
fn sessions_are_made_and_ended_while_their_client_does_nothing_else() {
    let session = DestroySession4Args { dsa_sessionid: [1; 16] };
    let destroy = Made { minor: 1, ..Made::default() }.then(Args::DESTROY_SESSION(session));
    assert!(waits(&[getattr(1), destroy.clone()]));
    assert!(waits(&[destroy.clone(), getattr(1)]));
    assert!(!waits(&[destroy, getattr(1).of(1)]));
}

#[test]
fn in_captured_order_a_step_waits_for_all_earlier_steps() {
    let waits = |steps: &[Made]| waits_in(ReplayOrder::Captured, ReplayPace::Immediate, steps);
    assert!(waits(&[getattr(1).at(0, 5).of(1), getattr(2).at(5, 10).of(2)]));
    assert!(!waits(&[write(1, 0, 10).at(0, 6), write(1, 0, 10).at(5, 10)]));
}

#[test]
fn conservatively_a_client_has_one_call_at_a_time() {
    let waits = |steps: &[Made]| waits_in(ReplayOrder::Serial, ReplayPace::Immediate, steps);
    assert!(waits(&[getattr(1).at(0, 10), getattr(2).at(5, 15)]));
    assert!(!waits(&[getattr(1), getattr(1).of(1)]));
    assert!(waits(&[make(1, "a"), lookup(1, "a", 2).of(1)]), "and clients wait for each other as they must");
}

#[test]
fn with_think_time_a_step_waits_for_its_clients_earlier_replies() {
    let waits = |steps: &[Made]| waits_in(ReplayOrder::Dependencies, ReplayPace::ThinkTime, steps);
    assert!(waits(&[getattr(1).at(0, 5), getattr(2).at(6, 10)]));
    assert!(!waits(&[getattr(1).at(0, 5), getattr(2).at(6, 10).of(1)]));
    assert!(!waits(&[getattr(1).at(0, 7), getattr(2).at(6, 10)]));
}

#[test]
fn a_step_may_start_before_earlier_waiting_steps() {
    let mut book = Book::new(ReplayOrder::Dependencies, ReplayPace::Immediate);
    assert!(book.admit(&setattr(1)));
    assert!(!book.admit(&getattr(1)));
    assert!(book.admit(&getattr(2)));
    let mut ready = Vec::new();
    book.graph.finish(0, &mut ready);
    assert_eq!(ready, [1]);
}

#[test]
fn a_lone_sequence_has_no_dependencies() {
    let sequence = Sequence4Args {
        sa_sessionid: [1; 16],
        sa_sequenceid: 1,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: false,
    };
    let lone = Made { minor: 1, ..Made::default() }.then(Args::SEQUENCE(sequence));
    assert!(!waits(&[setattr(1), lone.clone(), lone]));
}
