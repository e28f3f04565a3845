//! Description of a Call: its operations, their effects and the file of each.

use std::rc::Rc;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    self, Args, Attribute, Attributes, Bitmap4, Createhow4, Fattr4, Openflag4, Operation, OperationNumber, Settime4,
};
use nfsrdma_dissectors::nfs::{Procedure, nfsacl, v3};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_nfs_model::v4::filehandles::{Filehandles, Object};
use rustc_hash::FxHashMap;

use super::dependencies::effects::OperationEffect;
use super::root_and_attribute_rewriting::is_delegated_time;
use crate::trace::step::{NONE, SubstitutableMessageSlot, TraceMessage, TraceSlotValueKind, TraceStep};

/// Maximum number of operations of a COMPOUND that are read.
const MAX_OPERATIONS: usize = 256;

/// Pseudo variable of the root.
use crate::tree::inferred_object::ROOT;

#[derive(Debug, Default)]
pub(super) struct CallOperationsAndFiles {
    pub(super) operations: Vec<Operation>,
    /// Effect of each operation, or of the procedure if it is not a COMPOUND. Empty if the effects are unknown.
    pub(super) effects: Vec<OperationEffect>,
    /// Variable of the file that is current behind each operation, [`ROOT`] for the root, [`NONE`] if unknown.
    pub(super) files: Vec<u32>,
    /// Objects of the current and the saved filehandle when each operation begins, and of the current one behind it.
    objects: Vec<[Option<Object>; 3]>,
    /// Variables of the objects, by the operation that makes them current.
    variables: Vec<u32>,
    /// Title of the Call, for example `NFS 4.2 READ`.
    pub(super) title: CallTitle,
    /// `true` if it creates a file exclusively, without setting attributes: EXCLUSIVE of RFC 1813 section 3.3.8,
    /// EXCLUSIVE4 of RFC 7530 section 16.16.5.
    pub(super) creates_exclusively: bool,
    /// Size in bytes that SETATTR or OPEN sets, if it sets one.
    pub(super) set_size_bytes: Option<u64>,
    /// Seconds of the time of last modification that SETATTR sets, if it sets one, since 1970.
    pub(super) set_modify_seconds: Option<i64>,
    /// `true` if SETATTR, or an operation like it, may set the time of last modification: by itself, or with the size.
    pub(super) may_set_modify_time: bool,
    /// `true` if SETATTR sets times that its client kept under a delegation.
    pub(super) sets_delegated_times: bool,
    /// `true` if SETATTR only sets times that its client kept under a delegation. A server ignores times of before the
    /// delegation. RFC 9754 section 5.
    pub(super) sets_only_delegated_times: bool,
    /// Mask words of all attributes that a COMPOUND requests or sets, except those of OPEN.
    pub(super) attribute_mask: Vec<u32>,
}

pub(super) type CallTitle = Option<Rc<str>>;

/// Cache of titles. Its size is limited, as a hostile trace can have any number of them.
#[derive(Debug, Default)]
pub(super) struct StepTitleCache(FxHashMap<[u32; 5], Rc<str>>);

impl StepTitleCache {
    const MAX_TITLES: usize = 4096;

    fn of(&mut self, step: &TraceStep<'_>, operation: Option<OperationNumber>) -> CallTitle {
        let trace_procedure = &step.procedure;
        let number = operation.map_or(NONE, |operation| operation.0);
        let key = [
            trace_procedure.program,
            trace_procedure.version,
            trace_procedure.minor_version,
            trace_procedure.number,
            number,
        ];
        if let Some(title) = self.0.get(&key) {
            return Some(Rc::clone(title));
        }
        let title: Rc<str> = title(step, operation).into();
        if self.0.len() < Self::MAX_TITLES {
            self.0.insert(key, Rc::clone(&title));
        }
        Some(title)
    }
}

fn title(step: &TraceStep<'_>, operation: Option<OperationNumber>) -> String {
    let trace_procedure = &step.procedure;
    if trace_procedure.program == NONE {
        return "Reply without its call".into();
    }
    let name = Program(trace_procedure.program).name();
    let name = name.map_or_else(|| format!("program {}", trace_procedure.program), str::to_owned);
    let operation_name = match (operation, trace_procedure.find_description()) {
        (Some(operation), _) => operation.to_string(),
        (None, Some(procedure)) => procedure.name().to_owned(),
        (None, None) => format!("procedure {}", trace_procedure.number),
    };
    match trace_procedure.minor_version {
        NONE => format!("{name} {} {operation_name}", trace_procedure.version),
        minor => format!("{name} {}.{minor} {operation_name}", trace_procedure.version),
    }
}

impl CallOperationsAndFiles {
    /// Returns operations that are all on one file.
    #[cfg(test)]
    pub(super) fn on_file(operations: &[Operation], effects: &[OperationEffect], file: u32) -> Self {
        let object = Filehandles::new(0).apply(Operation::PUTROOTFH, None).next;
        Self {
            operations: operations.to_vec(),
            effects: effects.to_vec(),
            objects: vec![[object; 3]; operations.len()],
            variables: vec![file],
            ..Self::default()
        }
    }

    /// Decodes the Call of a step, reusing the buffers.
    pub(super) fn read(&mut self, step: &TraceStep<'_>, titles: &mut StepTitleCache) {
        self.operations.clear();
        self.objects.clear();
        self.effects.clear();
        self.attribute_mask.clear();
        (self.creates_exclusively, self.may_set_modify_time) = (false, false);
        (self.set_size_bytes, self.set_modify_seconds, self.sets_only_delegated_times) = (None, None, false);
        self.sets_delegated_times = false;
        let items = step.call.items();
        let mut cursor = step.call.body_cursor().with_chunks(&items);
        let mut main_operation = None;
        match step.procedure.find_description() {
            Some(Procedure::Compound) => {
                if let Ok(call) = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver) {
                    let mut lowest = None;
                    let mut filehandles = Filehandles::new(call.head.minorversion);
                    for operation in call.operations().map_while(Result::ok).take(MAX_OPERATIONS) {
                        let kind = operation.operation();
                        if lowest.is_none_or(|main: Operation| kind.class() < main.class()) {
                            lowest = Some(kind);
                        }
                        self.operations.push(kind);
                        let objects = filehandles.apply(kind, Some(&operation));
                        self.objects.push([objects.current, objects.saved, objects.next]);
                        self.effects.push(OperationEffect::from_operation(&operation));
                        self.record_arguments(&operation);
                    }
                    main_operation = lowest.map(Operation::number);
                    if self.operations.len() as u32 != call.count() {
                        main_operation = call.main_operation().operation;
                    }
                    if call.count() == 0 {
                        self.effects.push(OperationEffect::Nothing);
                    }
                }
            }
            Some(Procedure::V3(procedure)) => {
                if let Ok(arguments) = v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver) {
                    self.effects.push(OperationEffect::from_v3_args(&arguments));
                    match &arguments {
                        v3::Args::SETATTR(args) => {
                            let (size, mtime) = (args.new_attributes.size, &args.new_attributes.mtime);
                            self.set_size_bytes = size;
                            self.may_set_modify_time = size.is_some() || !matches!(mtime, v3::SetMtime::DontChange);
                            if let v3::SetMtime::Client(time) = mtime {
                                self.set_modify_seconds = Some(i64::from(time.seconds));
                            }
                        }
                        v3::Args::CREATE(args) => {
                            self.creates_exclusively = matches!(args.how, v3::Createhow3::Exclusive(_));
                        }
                        _ => {}
                    }
                }
            }
            Some(Procedure::Nfsacl3(procedure)) => {
                self.effects.push(match procedure {
                    nfsacl::v3::Procedure::SETACL => OperationEffect::ChangeAttributes,
                    _ => OperationEffect::ReadAttributes,
                });
            }
            Some(Procedure::Null) => self.effects.push(OperationEffect::Nothing),
            _ => {}
        }
        self.title = titles.of(step, main_operation);
        self.resolve_files(step);
    }

    /// Records what an operation of a COMPOUND requests or sets.
    fn record_arguments(&mut self, operation: &Args<'_>) {
        let sets_modify_time =
            |bit| matches!(bit, Attributes::SIZE | Attributes::TIME_MODIFY_SET | Attributes::TIME_DELEG_MODIFY);
        let sets_mode = |bit| matches!(bit, Attributes::MODE | Attributes::MODE_SET_MASKED | Attributes::MODE_UMASK);
        match operation {
            Args::GETATTR(args) => self.record_mask(args.attr_request),
            Args::READDIR(args) => self.record_mask(args.attr_request),
            Args::CREATE(args) => self.record_mask(args.createattrs.mask),
            Args::SETATTR(args) => {
                let attributes = &args.obj_attributes;
                self.record_mask(attributes.mask);
                self.may_set_modify_time |= attributes.mask.iter().any(sets_modify_time);
                self.sets_delegated_times |= attributes.mask.iter().any(is_delegated_time);
                self.sets_only_delegated_times |= attributes.mask.iter().all(is_delegated_time);
                self.record_set_size(attributes);
                let set_seconds = attributes.items().map_while(Result::ok).find_map(|attribute| match attribute {
                    Attribute::TIME_MODIFY_SET(Settime4::Client(time)) => Some(time.seconds),
                    _ => None,
                });
                self.set_modify_seconds = self.set_modify_seconds.or(set_seconds);
            }
            Args::LAYOUTCOMMIT(_) => self.may_set_modify_time = true,
            Args::OPEN(args) => match &args.openhow {
                Openflag4::Create(Createhow4::Unchecked(given) | Createhow4::Guarded(given)) => {
                    self.record_set_size(given);
                }
                Openflag4::Create(Createhow4::Exclusive(_)) => self.creates_exclusively = true,
                Openflag4::Create(Createhow4::Exclusive41(create)) => {
                    self.creates_exclusively |= !create.cva_attrs.mask.iter().any(sets_mode);
                }
                Openflag4::NoCreate(_) => {}
            },
            _ => {}
        }
    }

    fn record_set_size(&mut self, attributes: &Fattr4<'_>) {
        let size = attributes.items().map_while(Result::ok).find_map(|attribute| match attribute {
            Attribute::SIZE(bytes) => Some(bytes),
            _ => None,
        });
        self.set_size_bytes = self.set_size_bytes.or(size);
    }

    fn record_mask(&mut self, mask: Bitmap4<'_>) {
        for (at, word) in mask.words().iter().enumerate() {
            match self.attribute_mask.get_mut(at) {
                Some(existing) => *existing |= word,
                None => self.attribute_mask.push(word),
            }
        }
    }

    pub(super) fn title(&self) -> &str {
        self.title.as_deref().unwrap_or_default()
    }

    pub(super) fn may_change_sizes(&self) -> bool {
        use OperationEffect::{Copy, Create, Open, Write};
        let resizes = |effect: &OperationEffect| matches!(effect, Create(_) | Open(_, true) | Write(..) | Copy(..));
        self.set_size_bytes.is_some() || self.effects.iter().any(resizes)
    }

    pub(super) fn may_change(&self) -> bool {
        use OperationEffect::{Lookup, Nothing, Read, ReadAttributes, ReadDirectory};
        let is_reading = |effect: &OperationEffect| {
            matches!(effect, Nothing | ReadAttributes | Lookup(_) | ReadDirectory | Read(..))
        };
        self.effects.is_empty() || !self.effects.iter().all(is_reading)
    }

    /// Returns `true` if the Call may read or change attributes of objects whose filehandles neither it nor its Reply
    /// has: the root, the entries of a listing, and an object that is renamed.
    pub(super) fn may_use_unseen_objects(&self) -> bool {
        let is_unseen =
            |effect: &OperationEffect| matches!(effect, OperationEffect::ReadDirectory | OperationEffect::Rename(..));
        self.effects.is_empty() || self.has_root() || self.effects.iter().any(is_unseen)
    }

    pub(super) fn reads_link(&self, procedure: Option<Procedure>) -> bool {
        procedure == Some(Procedure::V3(v3::Procedure::READLINK)) || self.operations.contains(&Operation::READLINK)
    }

    /// Returns `true` if the messages may contain the text of a symbolic link, read or created.
    pub(super) fn has_link_text(&self, procedure: Option<Procedure>) -> bool {
        self.reads_link(procedure)
            || procedure == Some(Procedure::V3(v3::Procedure::SYMLINK))
            || self.operations.contains(&Operation::CREATE)
    }

    pub(super) fn lists(&self, procedure: Option<Procedure>) -> bool {
        let is_readdir =
            |v3_procedure: v3::Procedure| matches!(v3_procedure, v3::Procedure::READDIR | v3::Procedure::READDIRPLUS);
        matches!(procedure, Some(Procedure::V3(v3_procedure)) if is_readdir(v3_procedure))
            || self.operations.contains(&Operation::READDIR)
    }

    /// Returns `true` if the operation of a slot changes or ends the state of its stateid.
    pub(super) fn ends_state(&self, slot: &SubstitutableMessageSlot) -> bool {
        const ENDS: [Operation; 8] = [
            Operation::CLOSE,
            Operation::OPEN_DOWNGRADE,
            Operation::OPEN_CONFIRM,
            Operation::LOCK,
            Operation::LOCKU,
            Operation::DELEGRETURN,
            Operation::FREE_STATEID,
            Operation::LAYOUTRETURN,
        ];
        self.operations.get(slot.operation as usize).is_some_and(|operation| ENDS.contains(operation))
    }

    fn resolve_files(&mut self, step: &TraceStep<'_>) {
        let filehandle_variable = |message: &TraceMessage<'_>, operation: usize| {
            let slot = message
                .slots
                .iter()
                .find(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE && slot.operation as usize == operation);
            slot.map_or(NONE, |slot| slot.variable)
        };
        self.variables.clear();
        self.variables.resize(self.operations.len(), NONE);
        for (at, (operation, [.., next])) in self.operations.iter().zip(&self.objects).enumerate() {
            let variable = match operation {
                Operation::PUTFH => filehandle_variable(&step.call, at),
                Operation::PUTROOTFH | Operation::PUTPUBFH => ROOT,
                Operation::GETFH => filehandle_variable(&step.reply, at),
                _ => continue,
            };
            let known = next.and_then(|object| self.variables.get_mut(object.operation()));
            if let Some(known) = known.filter(|known| **known == NONE) {
                *known = variable;
            }
        }
        self.files.clear();
        self.files.extend(self.objects.iter().map(|[.., next]| variable_of(&self.variables, *next)));
    }

    /// Returns the variable of an object; [`ROOT`] for the root, [`NONE`] if unknown.
    pub(super) fn variable(&self, object: Option<Object>) -> u32 {
        variable_of(&self.variables, object)
    }

    /// Returns the variable of the file that is current when an operation begins.
    pub(super) fn current_file(&self, at: usize) -> u32 {
        self.objects.get(at).map_or(NONE, |[current, ..]| self.variable(*current))
    }

    /// Returns the variable of the file that is saved when an operation begins.
    pub(super) fn saved_file(&self, at: usize) -> u32 {
        self.objects.get(at).map_or(NONE, |[_, saved, _]| self.variable(*saved))
    }

    /// Returns `true` if the COMPOUND may need to be rewritten for a server with these attributes (mask words; `None`
    /// if unknown). Most need not, which saves decoding them again.
    pub(super) fn is_adaptable(&self, supported: Option<&[u32]>) -> bool {
        let is_beyond = |words: &[u32]| {
            let padded = words.iter().copied().chain(std::iter::repeat(0));
            self.attribute_mask.iter().zip(padded).any(|(requested, provided)| requested & !provided != 0)
        };
        supported.is_some_and(is_beyond)
            || self.has_root()
            || self.sets_delegated_times
            || [Operation::EXCHANGE_ID, Operation::OPEN, Operation::SETCLIENTID]
                .iter()
                .any(|operation| self.operations.contains(operation))
    }

    pub(super) fn has_root(&self) -> bool {
        self.operations.iter().any(is_root)
    }

    /// Returns the indices of the operations that set the root, from 0.
    pub(super) fn roots(&self) -> Vec<u32> {
        let roots = self.operations.iter().enumerate().filter(|(_, operation)| is_root(operation));
        roots.map(|(at, _)| at as u32).collect()
    }
}

fn variable_of(variables: &[u32], object: Option<Object>) -> u32 {
    object.and_then(|object| variables.get(object.operation())).copied().unwrap_or(NONE)
}

fn is_root(operation: &Operation) -> bool {
    matches!(*operation, Operation::PUTROOTFH | Operation::PUTPUBFH)
}
