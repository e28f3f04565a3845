//! Procedures of all programs, by program, version and number.

use super::status_union::{ProcedureStatus, StatusUnionDiscriminant};
use super::v4::compound::SymlinkTextChunkFlags;
use super::{mount, nfsacl, nlm, nsm, rpcbind, rquota, v2, v3, v4};
use crate::field::registry::FieldRegistry;
use crate::field::{FieldObserver, NullFieldObserver, TypeErasedFieldObserver};
use crate::rpc::message_kind::RpcMessageKind::{self, *};
use crate::rpc::program::Program;
use crate::xdr::{Cursor, Encoder, Xdr, XdrError};

/// Maps programs and versions to the modules with their procedure tables.
macro_rules! programs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $program:ident $version:literal: $($module:ident)::+;)*) => {
        /// A procedure with known arguments and results.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Procedure {
            $($(#[doc = $doc])+ $variant($($module)::+::Procedure),)*
            /// COMPOUND of any minor version of NFSv4.
            Compound,
            /// CB_COMPOUND of any minor version of NFSv4.
            CbCompound,
            /// The NULL procedure.
            Null,
        }

        impl Procedure {
            /// Programs and versions with a procedure table.
            pub const PROGRAMS: &'static [(Program, u32)] = &[$((Program::$program, $version)),*];

            /// Adds the fields of all tables to a registry.
            pub(super) fn describe(registry: &mut FieldRegistry) {
                $($($module)::+::Args::describe(registry);
                $($module)::+::Results::describe(registry);)*
            }

            /// Returns the procedure with these numbers, if it is in a table.
            fn in_table(program: Program, version: u32, number: u32) -> Option<Self> {
                match (program, version) {
                    $((Program::$program, $version) => {
                        $($module)::+::ProcedureNumber(number).known().map(Self::$variant)
                    })*
                    _ => None,
                }
            }

            /// Returns the name in the RFC without prefix.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant(procedure) => procedure.name(),)*
                    Self::Compound => "COMPOUND",
                    Self::CbCompound => "CB_COMPOUND",
                    Self::Null => "NULL",
                }
            }

            /// Decodes the arguments (of a Call) or the results (of a Reply), and appends their encoding if there is an
            /// encoder.
            fn convert<'a, O: FieldObserver<'a>>(
                self,
                kind: RpcMessageKind,
                cursor: &mut Cursor<'a>,
                observer: &mut O,
                encoder: Option<&mut Encoder>,
            ) -> Result<(), XdrError> {
                match (self, kind) {
                    $((Self::$variant(procedure), Call) => {
                        let arguments = $($module)::+::Args::decode(procedure, cursor, observer)?;
                        encoder.into_iter().for_each(|encoder| arguments.encode(encoder));
                        Ok(())
                    }
                    (Self::$variant(procedure), Reply) => {
                        let results = $($module)::+::Results::decode(procedure, cursor, observer)?;
                        encoder.into_iter().for_each(|encoder| results.encode(encoder));
                        Ok(())
                    })*
                    (Self::Compound, Call) => {
                        convert_compound::<v4::CompoundCallHead<'_>, v4::Args<'_>, _>(cursor, observer, encoder)
                    }
                    (Self::Compound, Reply) => {
                        convert_compound::<v4::CompoundReplyHead<'_>, v4::Results<'_>, _>(cursor, observer, encoder)
                    }
                    (Self::CbCompound, Call) => {
                        convert_compound::<v4::CbCompoundCallHead<'_>, v4::CbArgs<'_>, _>(cursor, observer, encoder)
                    }
                    (Self::CbCompound, Reply) => {
                        convert_compound::<v4::CompoundReplyHead<'_>, v4::CbResults<'_>, _>(cursor, observer, encoder)
                    }
                    (Self::Null, _) => Ok(()),
                }
            }

            /// Returns `true` if the arguments or results can have a DDP-eligible item (RFC 8267 sections 4, 5.2, 6.1
            /// and 6.5). Those of COMPOUND can, depending on its operations.
            pub fn has_eligible_items(self, kind: RpcMessageKind) -> bool {
                match (self, kind) {
                    $((Self::$variant(procedure), Call) => $($module)::+::Args::is_ddp_eligible(procedure),
                    (Self::$variant(procedure), Reply) => $($module)::+::Results::is_ddp_eligible(procedure),)*
                    (Self::Compound, _) => true,
                    (Self::CbCompound | Self::Null, _) => false,
                }
            }
        }
    };
}

programs! {
    /// A procedure of NFSv2.
    V2 = NFS 2: v2;
    /// A procedure of NFSv3.
    V3 = NFS 3: v3;
    /// A procedure of MOUNT version 1.
    Mount1 = MOUNT 1: mount::v1;
    /// A procedure of MOUNT version 2.
    Mount2 = MOUNT 2: mount::v2;
    /// A procedure of MOUNT version 3.
    Mount3 = MOUNT 3: mount::v3;
    /// A procedure of NLM version 1.
    Nlm1 = NLM 1: nlm::v1;
    /// A procedure of NLM version 3.
    Nlm3 = NLM 3: nlm::v3;
    /// A procedure of NLM version 4.
    Nlm4 = NLM 4: nlm::v4;
    /// A procedure of NSM.
    Nsm = NSM 1: nsm;
    /// A procedure of NFSACL version 2.
    Nfsacl2 = NFSACL 2: nfsacl::v2;
    /// A procedure of NFSACL version 3.
    Nfsacl3 = NFSACL 3: nfsacl::v3;
    /// A procedure of RQUOTA version 1.
    Rquota1 = RQUOTA 1: rquota::v1;
    /// A procedure of RQUOTA version 2.
    Rquota2 = RQUOTA 2: rquota::v2;
    /// A procedure of the port mapper.
    Portmap2 = PORTMAP 2: rpcbind::v2;
    /// A procedure of RPCBIND version 3.
    Rpcbind3 = PORTMAP 3: rpcbind::v3;
    /// A procedure of RPCBIND version 4.
    Rpcbind4 = PORTMAP 4: rpcbind::v4;
}

impl Procedure {
    /// Returns the procedure with these numbers, if it is known.
    pub fn from_numbers(program: Program, version: u32, number: u32) -> Option<Self> {
        match (program, version, number) {
            (Program::NFS, 4, 1) => Some(Self::Compound),
            // A client chooses the number of its callback program, and all minor versions use version 1.
            (program, _, 1) if program.is_transient() => Some(Self::CbCompound),
            (Program::NFS, 4, 0) => Some(Self::Null),
            (program, _, 0) if program.is_transient() => Some(Self::Null),
            _ => Self::in_table(program, version, number),
        }
    }

    /// Returns `true` if the procedures of this version are known. Excludes callback programs, because their
    /// client-chosen numbers do not distinguish them from unknown programs.
    pub fn is_known(program: Program, version: u32) -> bool {
        (program, version) == (Program::NFS, 4) || Self::PROGRAMS.contains(&(program, version))
    }

    /// Decodes the arguments and reports them to the observer.
    ///
    /// # Errors
    /// Returns an error if decoding fails; fields reported before remain valid.
    pub fn arguments<'a, O: FieldObserver<'a>>(
        self,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        self.decode(Call, cursor, observer)
    }

    /// Decodes the results and reports them to the observer.
    ///
    /// # Errors
    /// Returns an error if decoding fails; fields reported before remain valid.
    pub fn results<'a, O: FieldObserver<'a>>(self, cursor: &mut Cursor<'a>, observer: &mut O) -> Result<(), XdrError> {
        self.decode(Reply, cursor, observer)
    }

    fn decode<'a, O: FieldObserver<'a>>(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        match O::is_enabled() {
            true => self.report(kind, cursor, &mut TypeErasedFieldObserver::new(observer)),
            false if O::ignores_all() => self.check(kind, cursor),
            false => self.decode_with(kind, cursor, observer),
        }
    }

    /// Same as [`arguments`](Self::arguments) or [`results`](Self::results), compiled for the observer.
    pub fn decode_with<'a, O: FieldObserver<'a>>(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'a>,
        observer: &mut O,
    ) -> Result<(), XdrError> {
        self.convert(kind, cursor, observer, None)
    }

    /// Decodes the arguments (of a Call) or the results (of a Reply), and appends their encoding.
    ///
    /// # Errors
    /// Returns an error if decoding fails; the appended bytes are then invalid.
    pub fn reencode(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'_>,
        encoder: &mut Encoder,
    ) -> Result<(), XdrError> {
        self.convert(kind, cursor, &mut NullFieldObserver, Some(encoder))
    }

    fn report<'a>(
        self,
        kind: RpcMessageKind,
        cursor: &mut Cursor<'a>,
        observer: &mut TypeErasedFieldObserver<'_, 'a>,
    ) -> Result<(), XdrError> {
        self.decode_with(kind, cursor, observer)
    }

    fn check(self, kind: RpcMessageKind, cursor: &mut Cursor<'_>) -> Result<(), XdrError> {
        self.decode_with(kind, cursor, &mut NullFieldObserver)
    }

    /// Decodes the status from the results at the cursor, or returns `None` for procedures without status.
    ///
    /// # Errors
    /// Returns an error if the message ends before the status.
    pub fn status(self, mut results: Cursor<'_>) -> Result<Option<ProcedureStatus>, XdrError> {
        let read = match self {
            Self::V2(v2::Procedure::NULL | v2::Procedure::ROOT | v2::Procedure::WRITECACHE)
            | Self::V3(v3::Procedure::NULL)
            | Self::Nfsacl2(nfsacl::v2::Procedure::NULL)
            | Self::Nfsacl3(nfsacl::v3::Procedure::NULL)
            | Self::Rquota1(rquota::v1::Procedure::NULL)
            | Self::Rquota2(rquota::v2::Procedure::NULL) => return Ok(None),
            // RFC 1094 section 2.3.1.
            Self::V2(_) | Self::Nfsacl2(_) => ProcedureStatus::read::<v2::Nfsstat>,
            // RFC 1813 section 2.6.
            Self::V3(_) | Self::Nfsacl3(_) => ProcedureStatus::read::<v3::Nfsstat3>,
            // RFC 8881 section 16.2.2.
            Self::Compound | Self::CbCompound => ProcedureStatus::read::<v4::Nfsstat4>,
            Self::Rquota1(_) | Self::Rquota2(_) => ProcedureStatus::read::<rquota::GqrStatus>,
            // RFC 1094 section A.4.2.
            Self::Mount1(mount::v1::Procedure::MNT) | Self::Mount2(mount::v2::Procedure::MNT) => {
                ProcedureStatus::read::<mount::FhstatusCode>
            }
            // RFC 1813 section 5.2.1.
            Self::Mount3(mount::v3::Procedure::MNT) => ProcedureStatus::read::<mount::Mountstat3>,
            Self::Nsm(nsm::Procedure::STAT | nsm::Procedure::MON) => ProcedureStatus::read::<nsm::SmRes>,
            // TEST to GRANTED, SHARE, UNSHARE and NM_LOCK (XNFS section 10, RFC 1813 section 6.2). The others have no
            // results.
            Self::Nlm1(procedure) if matches!(procedure.number().0, 1..=5) => {
                read_status_after_cookie::<nlm::v3::NlmStats>
            }
            Self::Nlm3(procedure) if matches!(procedure.number().0, 1..=5 | 20..=22) => {
                read_status_after_cookie::<nlm::v3::NlmStats>
            }
            Self::Nlm4(procedure) if matches!(procedure.number().0, 1..=5 | 20..=22) => {
                read_status_after_cookie::<nlm::v4::Nlm4Stats>
            }
            _ => return Ok(None),
        };
        read(&mut results).map(Some)
    }

    /// Returns `true` if it consists of operations.
    pub fn is_compound(self) -> bool {
        matches!(self, Self::Compound | Self::CbCompound)
    }

    /// Returns the number of operations in a Call of COMPOUND or CB_COMPOUND. `None` for other procedures, and if the
    /// message ends before the number.
    pub fn operation_count(self, mut arguments: Cursor<'_>) -> Option<u32> {
        let (cursor, observer) = (&mut arguments, &mut NullFieldObserver);
        match self {
            Self::Compound => v4::CompoundCall::decode(cursor, observer).map(|call| call.count()).ok(),
            Self::CbCompound => v4::CbCompoundCall::decode(cursor, observer).map(|call| call.count()).ok(),
            _ => None,
        }
    }

    /// Returns the number of results in a Reply of COMPOUND or CB_COMPOUND, if its status says that all operations
    /// succeeded.
    pub fn successful_result_count(self, mut results: Cursor<'_>) -> Option<u32> {
        let (cursor, observer) = (&mut results, &mut NullFieldObserver);
        let (status, count) = match self {
            Self::Compound => {
                v4::CompoundReply::decode(cursor, observer).map(|reply| (reply.head.status, reply.count()))
            }
            Self::CbCompound => {
                v4::CbCompoundReply::decode(cursor, observer).map(|reply| (reply.head.status, reply.count()))
            }
            _ => return None,
        }
        .ok()?;
        (status == v4::Nfsstat4::NFS4_OK).then_some(count)
    }
}

/// Decodes a COMPOUND, moves the cursor to its end, and appends the encoding if there is an encoder. An undecodable
/// operation is an error: its bytes would otherwise be copied verbatim.
fn convert_compound<'a, H: Xdr<'a>, B: v4::OperationBody<'a> + 'a, O: FieldObserver<'a>>(
    cursor: &mut Cursor<'a>,
    observer: &mut O,
    encoder: Option<&mut Encoder>,
) -> Result<(), XdrError> {
    let compound = v4::Compound::<'a, H, B>::decode(cursor, observer)?;
    let mut operations = compound.operations();
    while let Some(operation) = operations.visit_next(observer, |_, _, _| ()) {
        operation.map_err(|stop| stop.error)?;
    }
    if let Some(end) = operations.cursor() {
        *cursor = end;
    }
    encoder.into_iter().for_each(|encoder| compound.encode(encoder));
    Ok(())
}

/// Decodes a status that follows the cookie of NLM. XNFS version 3W chapter 10.
fn read_status_after_cookie<S: StatusUnionDiscriminant>(cursor: &mut Cursor<'_>) -> Result<ProcedureStatus, XdrError> {
    nlm::Netobj::decode(cursor, S::FIELD, &mut NullFieldObserver)?;
    ProcedureStatus::read::<S>(cursor)
}

/// Returns the name of a procedure, even if its arguments are not decoded.
pub fn procedure_name(program: Program, version: u32, number: u32) -> Option<&'static str> {
    match Procedure::from_numbers(program, version, number) {
        Some(procedure) => Some(procedure.name()),
        None if number == 0 && program.name().is_some() => Some("NULL"),
        None => None,
    }
}

/// Returns which chunks of a Call contain text for display, which should be retained. The cursor is at the arguments.
pub fn link_text_chunks(procedure: Procedure, mut cursor: Cursor<'_>) -> SymlinkTextChunkFlags {
    match procedure {
        // RFC 8267 section 4.
        Procedure::V2(procedure) => SymlinkTextChunkFlags {
            call: procedure == v2::Procedure::SYMLINK,
            reply: procedure == v2::Procedure::READLINK,
        },
        Procedure::V3(procedure) => SymlinkTextChunkFlags {
            call: procedure == v3::Procedure::SYMLINK,
            reply: procedure == v3::Procedure::READLINK,
        },
        Procedure::Compound => v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver)
            .map(|call| call.link_text_chunks())
            .unwrap_or_default(),
        // RFC 8267 sections 5 and 6.5: these have no DDP-eligible items.
        _ => SymlinkTextChunkFlags::default(),
    }
}
