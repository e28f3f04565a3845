//! Infers facts about files from a step.

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::nfs::{Procedure, v3, v4};
use nfsrdma_dissectors::rpc::RpcMsg;
use nfsrdma_dissectors::xdr::{Cursor, Text};
use nfsrdma_nfs_model::names::Name;
use nfsrdma_nfs_model::types::{Entry, Objects, Proof, Types, conflict};
use rustc_hash::FxHashMap;

use super::inferred_object::{ChangedAttributeFlags, InferredObjectId};
use super::inferred_tree::{InferredTree, is_dots};
use crate::trace::file_format::{TraceFileType, TraceObjectOrigin};
use crate::trace::step::{NONE, TraceMessage, TraceProcedure, TraceSlotValueKind};
use crate::trace::value_substitution::captured_value;

/// Overhead of an owner and a group in bytes.
const OWNERS_OVERHEAD_BYTES: usize = 64;

/// The parts of a step that are relevant to files.
pub struct TreeInferenceStepInput<'s> {
    /// ID of the step.
    pub id: u64,
    /// Number of the server in the trace.
    pub server: u32,
    /// `true` if the server sent the Call.
    pub is_reverse: bool,
    /// The procedure of the Call.
    pub procedure: &'s TraceProcedure,
    /// The Call.
    pub call: &'s TraceMessage<'s>,
    /// The Reply.
    pub reply: &'s TraceMessage<'s>,
    /// Functions that return the content of a payload of the Call and of the Reply, if it is known.
    pub contents: [&'s dyn Fn(usize) -> Option<&'s [u8]>; 2],
}

/// Initial content of a part of a file, found in a payload of a Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialFileContent {
    /// The file.
    pub object: InferredObjectId,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Index of the payload in the Reply.
    pub payload: usize,
    /// Offset in the payload, in bytes.
    pub payload_offset: u32,
    /// Length in bytes.
    pub length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapturedUserOrGroup<'a> {
    /// A string of NFSv4. RFC 8881 section 5.9.
    Text(&'a [u8]),
    /// A number of NFSv3. RFC 1813 section 2.6.
    Number(u32),
}

impl CapturedUserOrGroup<'_> {
    /// Returns the string; a number in decimal.
    fn text(self) -> Box<[u8]> {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.to_string().into_bytes().into(),
        }
    }
}

/// The attributes of an object that are present in a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CapturedObjectAttributes<'a> {
    pub(super) file_type: Option<TraceFileType>,
    pub(super) size: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) owner: Option<CapturedUserOrGroup<'a>>,
    pub(super) group: Option<CapturedUserOrGroup<'a>>,
    pub(super) links: Option<u32>,
}

/// A step during inference.
pub(super) struct TreeInferenceStepContext<'w, 's> {
    pub(super) tree: &'w mut InferredTree,
    pub(super) facts: &'w TreeInferenceStepInput<'s>,
    handles: FxHashMap<&'s [u8], u32>,
    contents: &'w mut Vec<InitialFileContent>,
}

impl InferredTree {
    /// Updates the tree from a step. Replaces `contents` by the initial file contents that the step shows.
    pub fn infer_from_step(&mut self, input: &TreeInferenceStepInput<'_>, contents: &mut Vec<InitialFileContent>) {
        contents.clear();
        let mut handles = FxHashMap::default();
        for message in [input.call, input.reply] {
            for slot in message.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE) {
                if let Some(handle) = captured_value(message.head.0, &slot) {
                    handles.insert(handle, slot.variable);
                }
            }
        }
        let call_handles = input.call.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE);
        for slot in call_handles {
            if let Some(id) = self.find_or_add_by_handle(slot.variable, input.server, input.id) {
                self.record_use(id, input.id);
            }
        }
        if input.is_reverse {
            return;
        }
        let [calls, replies] =
            [(input.call, input.contents[0]), (input.reply, input.contents[1])].map(|(message, content)| {
                let mut items = message.items_with(content);
                // An empty item matches no Position of an edited trace, and would hide those behind it.
                items.retain(|item| item.length > 0);
                items
            });
        let [call, reply] = [(input.call, &calls), (input.reply, &replies)]
            .map(|(message, items)| message.body_cursor().with_chunks(items));
        let mut context = TreeInferenceStepContext { tree: self, facts: input, handles, contents };
        match input.procedure.find_description() {
            Some(Procedure::Compound) => context.infer_from_compound(call, reply),
            Some(Procedure::V3(procedure)) => context.infer_from_nfs3(procedure, call, reply),
            Some(Procedure::Mount3(procedure)) => context.infer_from_mount(procedure, call, reply),
            _ => {}
        }
    }
}

impl InferredTree {
    /// Updates the tree from the call of a step whose reply was not captured, but gave filehandles that are known.
    pub(super) fn infer_from_lost_reply(&mut self, input: &TreeInferenceStepInput<'_>) {
        let mut handles = FxHashMap::default();
        for slot in input.call.slots.iter().filter(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE) {
            if let Some(handle) = captured_value(input.call.head.0, &slot) {
                handles.insert(handle, slot.variable);
            }
        }
        let items = input.call.items();
        let call = input.call.body_cursor().with_chunks(&items);
        let mut context = TreeInferenceStepContext { tree: self, facts: input, handles, contents: &mut Vec::new() };
        match input.procedure.find_description() {
            Some(Procedure::Compound) => context.infer_from_lost_compound(call),
            Some(Procedure::V3(procedure)) => context.infer_from_lost_nfs3(procedure, call),
            _ => {}
        }
    }
}

impl<'s> TreeInferenceStepContext<'_, 's> {
    /// Returns the variable of the filehandle that an operation of a reply gave that was not captured, or [`NONE`].
    pub(super) fn lost_variable(&self, operation: usize) -> u32 {
        let mut slots = self.facts.reply.slots.iter();
        let slot = slots
            .find(|slot| slot.value_kind == TraceSlotValueKind::FILEHANDLE && slot.operation as usize == operation);
        slot.map_or(NONE, |slot| slot.variable)
    }

    /// Returns the variable of a filehandle of the step, or [`NONE`].
    pub(super) fn variable(&self, handle: &[u8]) -> u32 {
        self.handles.get(handle).copied().unwrap_or(NONE)
    }

    /// Returns the object of a filehandle of the step.
    pub(super) fn object_of_handle(&mut self, handle: &[u8]) -> Option<InferredObjectId> {
        let variable = self.variable(handle);
        self.tree.find_or_add_by_handle(variable, self.facts.server, self.facts.id)
    }

    pub(super) fn child(&mut self, parent: InferredObjectId, name: Text<'_>, handle: u32) -> Option<InferredObjectId> {
        self.tree.resolve_name(parent, name.0, handle, self.facts.id)
    }

    /// Records what the status of an operation proves about its objects, and about names in the directories among them:
    /// those in the current directory, and the old one of RENAME in the other.
    pub(super) fn infer_from_status(
        &mut self,
        objects: Objects,
        status: Nfsstat4,
        [current, saved]: [Option<InferredObjectId>; 2],
        names: [Option<Name<'_>>; 2],
    ) {
        let name_of = |is_old| names.into_iter().flatten().find(|name| name.is_old == is_old).map(|name| name.text);
        let [name, old_name] = [name_of(false), name_of(true)];
        let is_success = status == Nfsstat4::NFS4_OK;
        let mut proof = objects.proof(status);
        for (id, types) in [(current, proof.current), (saved, proof.saved)] {
            if let Some(id) = id.filter(|_| types != Types::ANY) {
                self.tree.prove_types(id, types, is_success);
            }
        }
        // What succeeds makes or removes the name.
        let needs_two = objects == Objects::TwoDirectories;
        let mut is_directory = |id: Option<InferredObjectId>| {
            id.and_then(|id| self.tree.node(id)).is_some_and(|node| node.initial_type() == TraceFileType::DIRECTORY)
        };
        if is_success || !is_directory(current) || needs_two && !is_directory(saved) {
            return;
        }
        if needs_two && status == Nfsstat4::NFS4ERR_EXIST {
            let [old, named] = [(saved, old_name), (current, name)].map(|(parent, name)| {
                let id = name.zip(parent).and_then(|(name, parent)| self.tree.bound_object(parent, name));
                id.and_then(|id| self.tree.node(id)).map_or(Types::ANY, |node| node.possible_types())
            });
            [proof.old, proof.named] = conflict(old, named);
        }
        let Proof { named, old, .. } = proof;
        for (parent, name, entry) in [(saved, old_name, old), (current, name, named)] {
            if let (Some(parent), Some(name)) = (parent, name) {
                self.infer_entry(parent, name, entry);
            }
        }
    }

    /// Records what is known of a name in a directory.
    fn infer_entry(&mut self, parent: InferredObjectId, name: &[u8], entry: Entry) {
        let types = match entry {
            Entry::Unknown => return,
            _ if is_dots(name) => return,
            Entry::Absent => return self.tree.unbind_name(parent, name),
            Entry::Present(types) => types,
            Entry::Occupied => Types::DIRECTORY,
        };
        if let Some(id) = self.tree.resolve_name(parent, name, NONE, self.facts.id) {
            self.tree.prove_types(id, types, false);
            if entry == Entry::Occupied {
                self.tree.record_occupied(id);
            }
        }
    }

    /// Records attributes from a Reply.
    pub(super) fn attributes(&mut self, id: InferredObjectId, attributes: &CapturedObjectAttributes<'_>) {
        if let Some(file_type) = attributes.file_type {
            self.tree.set_type(id, file_type);
        }
        self.tree.update_current_attributes(id, attributes);
        if let Some(size) = attributes.size {
            self.tree.exclude_beyond_size(id, size);
        }
        if let Some(links) = attributes.links {
            self.tree.record_links(id, links);
        }
        let Some(node) = self.tree.node(id) else { return };
        if let Some(size) = attributes.size.filter(|_| !node.is_size_known) {
            // A size beyond all that was written is the initial one. Only the first size after a write tells.
            match !node.is_resized || size > node.written_end {
                true => (node.size, node.is_size_known) = (size, true),
                false => node.written_end = u64::MAX,
            }
        }
        if !node.changed.mode {
            node.mode = node.mode.or(attributes.mode);
        }
        let [has_owner, has_group] =
            node.owners.as_deref().map_or([false; 2], |[owner, group]| [owner, group].map(|name| !name.is_empty()));
        let owner = attributes.owner.filter(|_| !has_owner && !node.changed.owner);
        let group = attributes.group.filter(|_| !has_group && !node.changed.group);
        let [owner, group] = [owner, group].map(|name| name.map(CapturedUserOrGroup::text).unwrap_or_default());
        let length = owner.len() + group.len();
        if length == 0 || !self.tree.reserve_memory(length + OWNERS_OVERHEAD_BYTES) {
            return;
        }
        if let Some(node) = self.tree.node(id) {
            let owners = node.owners.get_or_insert_default();
            for (existing, captured) in owners.iter_mut().zip([owner, group]) {
                if existing.is_empty() {
                    *existing = captured;
                }
            }
        }
    }

    /// Records attributes set by a Call: the size, the mode, and those that it changed.
    pub(super) fn record_setattr(
        &mut self,
        id: InferredObjectId,
        size: Option<u64>,
        mode: Option<u32>,
        changed: ChangedAttributeFlags,
    ) {
        let now = self.facts.id;
        if let Some(size) = size {
            // RFC 8881 section 18.30.3: only a file has a size that can be set.
            self.tree.prove_types(id, Types::FILE, true);
            self.tree.record_resize(id, size, now);
        }
        if changed != ChangedAttributeFlags::default() {
            self.tree.set_current_mode(id, mode);
        }
        self.record_changer(id);
        if let Some(node) = self.tree.node(id).filter(|_| now != 0) {
            // A change of owner or group may clear bits of the mode.
            node.changed.mode |= changed.mode || changed.owner || changed.group;
            node.changed.owner |= changed.owner;
            node.changed.group |= changed.group;
        }
    }

    /// Records that the user of the Call may change an object, so that a server lets it do so again.
    pub(super) fn record_changer(&mut self, id: InferredObjectId) {
        let Some(node) = self.tree.node(id) else { return };
        if node.changer.is_some() || node.existence == TraceObjectOrigin::CREATED {
            return;
        }
        let mut header = Cursor::new(self.facts.call.head.0);
        let Ok(header) = RpcMsg::decode(&mut header, &mut NullFieldObserver) else { return };
        node.changer =
            header.call().and_then(|call| call.cred.sys()).map(|user| [user.uid, user.gid]).filter(|user| user[0] != 0);
    }

    pub(super) fn record_write(&mut self, id: InferredObjectId, operation: u32, offset: u64, count: u32) {
        self.record_changer(id);
        let end = offset.saturating_add(count.into());
        self.tree.record_write(id, offset, end, self.facts.id);
        let mut payloads = self.facts.call.payloads.iter();
        let payload = payloads.find(|payload| payload.operation == operation && payload.offset == offset);
        self.tree.add_current_extent(id, payload.as_ref(), offset, end);
    }

    /// Records data that a Reply returned. `is_end` is `None` if it does not tell whether the file ends there.
    pub(super) fn read(&mut self, id: InferredObjectId, operation: u32, offset: u64, is_end: Option<bool>) {
        let mut payloads = self.facts.reply.payloads.iter().enumerate();
        let payload = payloads.find(|(_, payload)| payload.operation == operation);
        let Some((at, payload)) = payload else { return };
        let end = offset.saturating_add(payload.length.into());
        let Self { tree, contents, .. } = self;
        tree.record_read(id, offset, end, |from, to| {
            contents.push(InitialFileContent {
                object: id,
                offset: from,
                payload: at,
                payload_offset: (from - offset) as u32,
                length: (to - from) as u32,
            });
        });
        if let Some(node) = tree.node(id).filter(|node| !node.is_resized) {
            match is_end {
                Some(true) => (node.size, node.is_size_known) = (end, true),
                // There is at least one more byte.
                Some(false) if !node.is_size_known => node.size = node.size.max(end.saturating_add(1)),
                _ => {}
            }
        }
    }

    pub(super) fn link(&mut self, id: InferredObjectId, text: Option<&[u8]>) {
        let Some(text) = text else { return };
        if self.tree.reserve_memory(text.len())
            && let Some(node) = self.tree.node(id)
            && node.target.is_empty()
        {
            node.target = text.into();
        }
    }
}

impl From<v4::NfsFtype4> for TraceFileType {
    fn from(nfs_type: v4::NfsFtype4) -> Self {
        match nfs_type {
            v4::NfsFtype4::NF4REG => Self::FILE,
            v4::NfsFtype4::NF4DIR | v4::NfsFtype4::NF4ATTRDIR => Self::DIRECTORY,
            v4::NfsFtype4::NF4BLK => Self::BLOCK,
            v4::NfsFtype4::NF4CHR => Self::CHARACTER,
            v4::NfsFtype4::NF4LNK => Self::LINK,
            v4::NfsFtype4::NF4SOCK => Self::SOCKET,
            v4::NfsFtype4::NF4FIFO => Self::FIFO,
            _ => Self::UNKNOWN,
        }
    }
}

/// The types of NFSv3 have these numbers.
impl From<v3::Ftype3> for TraceFileType {
    fn from(nfs_type: v3::Ftype3) -> Self {
        if nfs_type.name().is_some() { Self(nfs_type.0) } else { Self::UNKNOWN }
    }
}
