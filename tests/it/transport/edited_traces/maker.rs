//! Generator of traces that no capture has: steps that are assembled and edited at random.

use super::*;

/// Parts of a step, for editing.
struct Draft {
    head: Vec<u8>,
    slots: Vec<SubstitutableMessageSlot>,
    payloads: Vec<TracePayload>,
    procedure: TraceProcedure,
    has_session: bool,
}

pub(super) struct Maker<'b> {
    pub(super) base: &'b Base,
    pub(super) random: Random,
}

impl Maker<'_> {
    fn name(&mut self) -> &'static [u8] {
        // Half of them are plain.
        let count = if self.random.once_in(2) { 4 } else { NAMES.len() };
        NAMES[self.random.below(count)]
    }

    /// Returns a filehandle of the capture, which gets slots; or a foreign one, or none.
    fn handle(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0 => self.random.of(&self.base.handles).clone(),
            1 => (*self.random.of(&[&b""[..], b"raw handle......", b"loopback\0\0\0\0\0\0\0\x01"])).to_vec(),
            2 => captured(4 + self.random.below(3)),
            _ => captured(self.random.below(OBJECTS)),
        }
    }

    fn stateid(&mut self) -> Stateid4 {
        match self.random.below(3) {
            0 => self.base.stateid.clone(),
            1 => Stateid4 { seqid: 0, other: [0; 12] },
            _ => Stateid4 { seqid: 1, other: *b"captured-id." },
        }
    }

    fn clientid(&mut self) -> u64 {
        *self.random.of(&[0, CLIENT, CLIENT, self.base.clientid])
    }

    fn session(&mut self) -> [u8; 16] {
        *self.random.of(&[SESSION_ID, SESSION_ID, SESSION_ID, self.base.session])
    }

    fn header(&mut self, (program, version, procedure): (u32, u32, u32)) -> Encoder {
        let mut encoder = Encoder::new();
        let root = [1, 20, 0, 0, 0, 0, 0, 0, 0];
        [1, 0, 2, program, version, procedure].iter().chain(&root).for_each(|word| encoder.word(*word));
        encoder
    }

    fn draft(&mut self) -> Draft {
        match self.random.below(20) {
            0..11 => self.nfs3(),
            11..15 => self.compound(0),
            15..18 => self.compound(2),
            18 if self.random.once_in(4) => self.mount(),
            _ => self.nfs3(),
        }
    }

    fn finished(&mut self, encoder: Encoder, procedure: (u32, u32, u32), minor_version: u32) -> Draft {
        let (head, splices) = encoder.finish();
        let payloads = splices.iter().map(|splice| TracePayload {
            at: splice.position as u32,
            length: splice.length,
            is_inside: false,
            content: PayloadContentState::ZEROS,
            hash: [0; 16],
            data: 0,
            operation: 0,
            file: NONE,
            offset: 0,
        });
        let (program, version, procedure) = procedure;
        let procedure = TraceProcedure {
            program,
            version,
            minor_version,
            number: procedure,
            flavor: 1,
            protection: GssProtection::PLAIN,
        };
        let mut draft = Draft { slots: Vec::new(), payloads: payloads.collect(), procedure, has_session: false, head };
        // Most positions have slots, as in a compiled trace.
        for variable in 0..OBJECTS + 3 {
            self.add_slots(&mut draft, &captured(variable), (TraceSlotValueKind::FILEHANDLE, variable as u32), true);
        }
        self.add_slots(&mut draft, &SESSION_ID, (TraceSlotValueKind::SESSION, SESSION), false);
        self.add_slots(&mut draft, &CLIENT.to_be_bytes(), (TraceSlotValueKind::CLIENTID, CLIENTID), false);
        draft.slots.sort_by_key(|slot| slot.at);
        draft
    }

    fn add_slots(
        &mut self,
        draft: &mut Draft,
        value: &[u8],
        (value_kind, variable): (TraceSlotValueKind, u32),
        is_counted: bool,
    ) {
        let places: Vec<usize> = draft
            .head
            .windows(value.len())
            .enumerate()
            .filter_map(|(at, bytes)| (bytes == value).then_some(at))
            .collect();
        let length = if is_counted { 4 } else { 0 };
        for at in places {
            if self.random.once_in(10) {
                continue;
            }
            draft.slots.push(SubstitutableMessageSlot {
                at: (at - length) as u32,
                length: (length + value.len().next_multiple_of(4)) as u32,
                value_kind,
                part: VariableUseKind::USED,
                is_counted,
                operation: 0,
                variable,
                definition: u64::from(value_kind == TraceSlotValueKind::FILEHANDLE),
                place: 0,
            });
        }
    }

    fn nfs3(&mut self) -> Draft {
        let procedure = self.random.below(22) as u32;
        let mut encoder = self.header((100_003, 3, procedure));
        let (handle, other) = (self.handle(), self.handle());
        let (name, second) = (self.name(), self.name());
        let at = || Diropargs3 { dir: Opaque(&handle), name: Text(name) };
        let to = Diropargs3 { dir: Opaque(&other), name: Text(second) };
        let set = || Sattr3 {
            mode: None,
            uid: None,
            gid: None,
            size: None,
            atime: SetAtime::DontChange,
            mtime: SetMtime::DontChange,
        };
        let object = || Opaque(&handle[..]);
        let arguments = match procedure {
            0 => v3::Args::NULL(Void),
            1 => v3::Args::GETATTR(v3::Getattr3Args { object: object() }),
            2 => v3::Args::SETATTR(v3::Setattr3Args { object: object(), new_attributes: set(), guard: None }),
            3 => v3::Args::LOOKUP(v3::Lookup3Args { what: at() }),
            4 => v3::Args::ACCESS(v3::Access3Args { object: object(), access: v3::Access3(0x3f) }),
            5 => v3::Args::READLINK(v3::Readlink3Args { symlink: object() }),
            6 => v3::Args::READ(v3::Read3Args { file: object(), offset: 0, count: 16 }),
            7 => v3::Args::WRITE(v3::Write3Args {
                file: object(),
                offset: 0,
                count: 8,
                stable: StableHow::FILE_SYNC,
                data: Ddp::Chunk { length: 8, bytes: None },
            }),
            8 => v3::Args::CREATE(v3::Create3Args { r#where: at(), how: Createhow3::Unchecked(set()) }),
            9 => v3::Args::MKDIR(v3::Mkdir3Args { r#where: at(), attributes: set() }),
            10 => v3::Args::SYMLINK(v3::Symlink3Args {
                r#where: at(),
                symlink: Symlinkdata3 { symlink_attributes: set(), symlink_data: DdpText::Inline(b"/victim") },
            }),
            11 => v3::Args::MKNOD(v3::Mknod3Args { r#where: at(), what: v3::Mknoddata3::Fifo(set()) }),
            12 => v3::Args::REMOVE(v3::Remove3Args { object: at() }),
            13 => v3::Args::RMDIR(v3::Remove3Args { object: at() }),
            14 => v3::Args::RENAME(v3::Rename3Args { from: at(), to }),
            15 => v3::Args::LINK(v3::Link3Args { file: Opaque(&other), link: at() }),
            16 => v3::Args::READDIR(v3::Readdir3Args { dir: object(), cookie: 0, cookieverf: [0; 8], count: 512 }),
            17 => v3::Args::READDIRPLUS(v3::Readdirplus3Args {
                dir: object(),
                cookie: 0,
                cookieverf: [0; 8],
                dircount: 512,
                maxcount: 1024,
            }),
            18 => v3::Args::FSSTAT(v3::Fsroot3Args { fsroot: object() }),
            19 => v3::Args::FSINFO(v3::Fsroot3Args { fsroot: object() }),
            20 => v3::Args::PATHCONF(v3::Pathconf3Args { object: object() }),
            _ => v3::Args::COMMIT(v3::Commit3Args { file: object(), offset: 0, count: 0 }),
        };
        arguments.encode(&mut encoder);
        self.finished(encoder, (100_003, 3, procedure), NONE)
    }

    /// MOUNT, NLM or NSM.
    fn mount(&mut self) -> Draft {
        let path =
            *self.random.of(&[&b"/"[..], b"", b"//", b"/..", b"/../../other", b"/victim", b"other", b"/dir/../.."]);
        let (program, version, procedure) = *self.random.of(&[
            (100_005, 3, 1),
            (100_005, 3, 3),
            (100_005, 3, 4),
            (100_005, 1, 1),
            (100_021, 4, 23),
            (100_024, 1, 6),
        ]);
        let mut encoder = self.header((program, version, procedure));
        let path = DirpathArgs { dirpath: Text(path) };
        match (program, procedure) {
            (100_005, 1) => mount::v3::Args::MNT(path).encode(&mut encoder),
            (100_005, 3) => mount::v3::Args::UMNT(path).encode(&mut encoder),
            (100_021, _) => encoder.append_opaque(b"host"),
            _ => {}
        }
        self.finished(encoder, (program, version, procedure), NONE)
    }

    fn compound(&mut self, minorversion: u32) -> Draft {
        let mut encoder = self.header((100_003, 4, 1));
        let count = 1 + self.random.below(5);
        let handles: Vec<Vec<u8>> = (0..count).map(|_| self.handle()).collect();
        let words = words_for_bits([Attributes::TYPE, Attributes::FILEHANDLE]);
        let (modes, values) = mask_and_values(&[Attribute::MODE(Mode4(0o4755))]);
        let given = Fattr4::new(Bitmap4::from(&modes[..]), Opaque(&values));
        let victim = self.base.handles[1].clone();
        let (named, value) = mask_and_values(&[Attribute::FILEHANDLE(Opaque(&victim))]);
        let servers = [Netloc4::Name(Text(b"victim.example"))];
        let mut operations = Vec::new();
        if minorversion > 0 {
            operations.push(Args::SEQUENCE(Sequence4Args {
                sa_sessionid: self.session(),
                sa_sequenceid: 1,
                sa_slotid: 0,
                sa_highest_slotid: 0,
                sa_cachethis: false,
            }));
        }
        operations.push(Args::PUTFH(ObjectFh4 { object: Opaque(&handles[0]) }));
        for handle in &handles {
            let (name, second) = (self.name(), self.name());
            operations.push(match self.random.below(36) {
                0..4 => Args::PUTFH(ObjectFh4 { object: Opaque(handle) }),
                4 => Args::PUTROOTFH(Void),
                5 => Args::PUTPUBFH(Void),
                6..8 => Args::LOOKUPP(Void),
                8..11 => Args::LOOKUP(Lookup4Args { objname: Text(name) }),
                11 => Args::GETFH(Void),
                12 => Args::SAVEFH(Void),
                13 => Args::RESTOREFH(Void),
                14 => Args::CREATE(Create4Args {
                    objtype: Createtype4::Other(NfsFtype4::NF4DIR),
                    objname: Text(name),
                    createattrs: given,
                }),
                15 => Args::REMOVE(Remove4Args { target: Text(name) }),
                16 => Args::RENAME(Rename4Args { oldname: Text(name), newname: Text(second) }),
                17 => Args::LINK(Link4Args { newname: Text(name) }),
                18..20 => Args::OPEN(Open4Args {
                    seqid: 0,
                    share_access: ShareAccess(2),
                    share_deny: ShareDeny(0),
                    owner: OpenOwner4 { clientid: self.clientid(), owner: Opaque(b"owner") },
                    openhow: Openflag4::Create(Createhow4::Unchecked(given)),
                    claim: OpenClaim4::Null(Text(name)),
                }),
                20 => Args::GETATTR(Getattr4Args { attr_request: Bitmap4::from(&words[..]) }),
                21 => Args::READDIR(Readdir4Args {
                    cookie: 0,
                    cookieverf: [0; 8],
                    dircount: 512,
                    maxcount: 1024,
                    attr_request: Bitmap4::from(&words[..]),
                }),
                22 => Args::SETATTR(Setattr4Args { stateid: self.stateid(), obj_attributes: given }),
                23 => Args::READ(Read4Args { stateid: self.stateid(), offset: 0, count: 8 }),
                24 => Args::WRITE(Write4Args {
                    stateid: self.stateid(),
                    offset: 0,
                    stable: StableHow4(2),
                    data: Ddp::Chunk { length: 8, bytes: None },
                }),
                25 => Args::CLOSE(Close4Args { seqid: 1, open_stateid: self.stateid() }),
                26 => Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: self.clientid() }),
                27 => Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: self.session() }),
                28 => Args::RENEW(Renew4Args { clientid: self.clientid() }),
                29 => Args::FREE_STATEID(FreeStateid4Args { fsa_stateid: self.stateid() }),
                30 => Args::SECINFO(Secinfo4Args { name: Text(name) }),
                31 => Args::VERIFY(Getattr4Resok {
                    obj_attributes: Fattr4::new(Bitmap4::from(&named[..]), Opaque(&value)),
                }),
                32 => Args::COPY(Copy4Args {
                    ca_src_stateid: self.stateid(),
                    ca_dst_stateid: self.stateid(),
                    ca_src_offset: 0,
                    ca_dst_offset: 0,
                    ca_count: 0,
                    ca_consecutive: true,
                    ca_synchronous: true,
                    ca_source_server: XdrArray::from(&servers[..self.random.below(2)]),
                }),
                33 => Args::COPY_NOTIFY(CopyNotify4Args {
                    cna_src_stateid: self.stateid(),
                    cna_destination_server: servers[0].clone(),
                }),
                34 => Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
                    eia_clientowner: ClientOwner4 { co_verifier: [9; 8], co_ownerid: Opaque(VICTIM) },
                    eia_flags: ExchangeIdFlags(0),
                    eia_state_protect: StateProtect4A::None,
                    eia_client_impl_id: XdrArray::default(),
                })),
                _ => Args::SETCLIENTID(Setclientid4Args {
                    client: NfsClientId4 {
                        verifier: [9; 8],
                        id: Opaque(if self.random.once_in(2) { VICTIM } else { b"x tag" }),
                    },
                    callback: CbClient4 {
                        cb_program: 0x4000_0000,
                        cb_location: Netaddr4 {
                            na_r_netid: Text(b"tcp"),
                            na_r_addr: UniversalAddress(Text(b"192.0.2.9.8.1")),
                        },
                    },
                    callback_ident: 1,
                }),
            });
        }
        let head = CompoundCallHead { tag: Text(b"captured handle 0001"), minorversion };
        v4::CompoundCall::new(head, &operations).encode(&mut encoder);
        let mut draft = self.finished(encoder, (100_003, 4, 1), minorversion);
        draft.has_session = minorversion > 0;
        draft
    }

    /// Makes a change that no compiler would write.
    fn edit(&mut self, draft: &mut Draft) {
        let length = draft.head.len();
        let at = self.random.below(length) / 4 * 4;
        let slot = match draft.slots.len() {
            0 => None,
            count => draft.slots.get_mut(self.random.below(count)),
        };
        match (self.random.below(14), slot) {
            // The tag of a COMPOUND begins after the header of 60 bytes.
            (0..3, Some(slot)) => slot.at = *self.random.of(&[60, 4, 12, at as u32, slot.at.saturating_add(4)]),
            (3, Some(slot)) => slot.length = *self.random.of(&[0, 4, 8, slot.length.saturating_add(4), u32::MAX]),
            (4, Some(slot)) => {
                slot.value_kind = *self.random.of(&[
                    TraceSlotValueKind::COOKIE,
                    TraceSlotValueKind::CHANGE,
                    TraceSlotValueKind::OWNER,
                    TraceSlotValueKind::HOST,
                    TraceSlotValueKind::SEQUENCE_ID,
                    TraceSlotValueKind::CLIENT_OWNER,
                ]);
            }
            (5, Some(slot)) => slot.variable = self.random.below(14) as u32,
            (6, Some(slot)) => slot.is_counted = !slot.is_counted,
            (7, _) => drop(draft.slots.pop()),
            (8..10, _) => {
                // Another program, version, procedure, count of operations, operation, or length.
                let word = *self.random.of(&[12, 16, 20, 20, 88, 92, at]);
                let values = [0u32, 1, 3, 4, 12, 14, 16, 24, 60, 100_005, 100_021, 4096, u32::MAX];
                let value = self.random.of(&values).to_be_bytes();
                if let Some(bytes) = draft.head.get_mut(word..word + 4) {
                    bytes.copy_from_slice(&value);
                }
            }
            (10, _) => {
                let value = self.random.next() as u8;
                if let Some(byte) = draft.head.get_mut(at) {
                    *byte = value;
                }
            }
            (11, _) => draft.head.truncate(at),
            (12, _) => {
                if let Some(payload) = draft.payloads.first_mut() {
                    payload.length = *self.random.of(&[0, 4, 8, 64, 4096]);
                } else {
                    // File data where none belongs: on the wire it would be between the operations.
                    draft.payloads.push(TracePayload {
                        at: at as u32,
                        length: 8,
                        is_inside: false,
                        content: PayloadContentState::ZEROS,
                        hash: [0; 16],
                        data: 0,
                        operation: 0,
                        file: NONE,
                        offset: 0,
                    });
                }
            }
            _ => draft.procedure.number = self.random.below(24) as u32,
        }
        draft.slots.sort_by_key(|slot| slot.at);
    }

    /// Returns the slots of a Reply whose values later steps use.
    fn given(&mut self) -> Vec<SubstitutableMessageSlot> {
        let count = self.random.below(3);
        let slots = (0..count).map(|_| SubstitutableMessageSlot {
            at: *self.random.of(&[24, 28, 32, 120]),
            length: *self.random.of(&[16, 20, 32]),
            value_kind: *self.random.of(&[
                TraceSlotValueKind::FILEHANDLE,
                TraceSlotValueKind::FILEHANDLE,
                TraceSlotValueKind::SESSION,
                TraceSlotValueKind::CLIENTID,
            ]),
            part: VariableUseKind::DEFINED,
            is_counted: self.random.once_in(2),
            operation: self.random.below(3) as u32,
            variable: 4 + self.random.below(3) as u32,
            definition: 1,
            place: 0,
        });
        let mut slots: Vec<SubstitutableMessageSlot> = slots.collect();
        slots.sort_by_key(|slot| slot.at);
        slots
    }

    /// Returns a trace of a few steps, and passes their Calls to `each`.
    pub(super) fn trace(&mut self, mut each: impl FnMut(&TraceMessage<'_>)) -> (Vec<u8>, bool) {
        let mut writer = ReplayTraceWriter::new(Bytes::new(Vec::new()), 1 << 20, 1 << 20).unwrap();
        let (mut has_session, mut is_v4) = (false, false);
        for at in 0..2 + self.random.below(3) as u64 {
            let mut draft = self.draft();
            for _ in 0..self.random.below(3) {
                self.edit(&mut draft);
            }
            has_session |= draft.has_session;
            is_v4 |= draft.procedure.version == 4;
            let given = self.given();
            let none = || ChunkSegmentLengths { lengths: XdrArray::default() };
            let reply = [0u8; 160];
            let call = TraceMessage {
                completeness: MessageCaptureCompleteness::WHOLE,
                head: Opaque(&draft.head),
                body: 60,
                end: draft.head.len() as u32,
                slots: XdrArray::from(&draft.slots[..]),
                payloads: XdrArray::from(&draft.payloads[..]),
            };
            each(&call);
            let step = TraceStep {
                origin: TraceStepOrigin {
                    id: at + 1,
                    repeats: 0,
                    call_frame: at + 1,
                    reply_frame: 0,
                    time_ns: at,
                    latency_ns: 0,
                    run_of: 0,
                },
                caller: TraceCallConnectionAndSession {
                    client: 0,
                    server: 0,
                    connection: 1,
                    is_reverse: false,
                    clientid: NONE,
                    session: if draft.has_session { SESSION } else { NONE },
                    slot: if draft.has_session { 0 } else { NONE },
                    sequence: NONE,
                    owner: NONE,
                },
                procedure: draft.procedure.clone(),
                call,
                reply: TraceMessage {
                    completeness: if self.random.once_in(3) {
                        MessageCaptureCompleteness::WHOLE
                    } else {
                        MessageCaptureCompleteness::NOTHING
                    },
                    head: Opaque(&reply),
                    body: 24,
                    end: 160,
                    slots: XdrArray::from(&given[..]),
                    payloads: XdrArray::default(),
                },
                shape: TraceCallChunks {
                    call: none(),
                    reads: XdrArray::default(),
                    writes: XdrArray::default(),
                    reply: none(),
                },
                carried: CallAndReplyWireForms {
                    call: TraceMessageWireForm::MESSAGE,
                    reply: TraceMessageWireForm::MESSAGE,
                    credits: [1; 2],
                    rdma_error: 0,
                    returned: XdrArray::default(),
                    returned_reply: 0,
                },
                needs: TraceReplySizeLimits { message_bytes: 2048, payloads: XdrArray::from(&[64][..]) },
            };
            writer.step(&step).unwrap();
        }
        let captures = [Text(b"edited")];
        let about = TraceProvenance {
            program: Text(b"test"),
            captures: XdrArray::from(&captures[..]),
            keeping: TraceFileDataRetention::HASHED,
            key: 0,
        };
        let mut tables = writer.begin_tables(&about).unwrap();
        if has_session {
            for (variable, value_kind) in
                [(SESSION, TraceSlotValueKind::SESSION), (CLIENTID, TraceSlotValueKind::CLIENTID)]
            {
                let line = TraceVariableWithoutDefiningStep {
                    variable,
                    value_kind,
                    value: Opaque(b""),
                    step: 1,
                    uses: 1,
                    object: NONE,
                    access: 0,
                };
                tables.add(ReplayTraceBlockKind::UNDEFINED, &line).unwrap();
            }
        }
        (tables.finish().unwrap().0.into_inner(), is_v4)
    }
}
