//! Maps identifiers of servers and clients to the variable numbers of a trace. Identifiers are stored by their hash,
//! and identifiers of a kind that were not used for long are evicted. An evicted identifier that occurs again becomes a
//! new variable without definition; evictions are counted.

use nfsrdma_analysis::second_chance_map::SecondChanceMap;
use twox_hash::XxHash3_128;

use crate::trace::step::TraceSlotValueKind;

/// A variable and the step that defined it; 0 if none did before its first use.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariableDefinition {
    pub(super) variable: u32,
    pub(super) definition: u64,
    /// `true` if its use before any definition is counted as unrecorded.
    is_counted: bool,
}

#[derive(Debug)]
pub(super) struct TraceVariableNumbering {
    filehandles: SecondChanceMap<u128, VariableDefinition>,
    stateids: SecondChanceMap<u128, VariableDefinition>,
    cookies: SecondChanceMap<u128, VariableDefinition>,
    changes: SecondChanceMap<u128, VariableDefinition>,
    others: SecondChanceMap<u128, VariableDefinition>,
    count: u32,
}

/// The possible scopes of an identifier: server, client, and file or directory. Its kind decides which of them apply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VariableScope {
    pub(super) server: u32,
    pub(super) client: u32,
    pub(super) file: u32,
}

impl TraceVariableNumbering {
    /// Creates a table that uses at most `memory_bytes` bytes.
    pub(super) fn new(memory_bytes: usize) -> Self {
        let unit_bytes = memory_bytes / 16;
        Self {
            filehandles: SecondChanceMap::for_memory(8 * unit_bytes),
            stateids: SecondChanceMap::for_memory(4 * unit_bytes),
            cookies: SecondChanceMap::for_memory(2 * unit_bytes),
            changes: SecondChanceMap::for_memory(unit_bytes),
            others: SecondChanceMap::for_memory(unit_bytes),
            count: 0,
        }
    }

    fn cache_for(&mut self, kind: TraceSlotValueKind) -> &mut SecondChanceMap<u128, VariableDefinition> {
        match kind {
            TraceSlotValueKind::FILEHANDLE => &mut self.filehandles,
            TraceSlotValueKind::STATEID => &mut self.stateids,
            TraceSlotValueKind::COOKIE => &mut self.cookies,
            TraceSlotValueKind::CHANGE => &mut self.changes,
            _ => &mut self.others,
        }
    }

    /// Returns the variable of an identifier, and `true` if it was known. A new variable gets `definition`.
    pub(super) fn resolve(
        &mut self,
        kind: TraceSlotValueKind,
        scope: VariableScope,
        name: &[u8],
        definition: u64,
    ) -> (VariableDefinition, bool) {
        let key = identifier_key(kind, scope, name);
        if let Some(existing) = self.cache_for(kind).get(key) {
            return (*existing, true);
        }
        let new_definition = VariableDefinition { variable: self.new_anonymous(), definition, is_counted: false };
        self.cache_for(kind).insert(key, new_definition);
        (new_definition, false)
    }

    pub(super) fn find(
        &mut self,
        kind: TraceSlotValueKind,
        scope: VariableScope,
        name: &[u8],
    ) -> Option<VariableDefinition> {
        self.cache_for(kind).get(identifier_key(kind, scope, name)).copied()
    }

    /// Marks an identifier as counted. Returns `true` if it was not marked before.
    pub(super) fn mark_counted(&mut self, kind: TraceSlotValueKind, scope: VariableScope, name: &[u8]) -> bool {
        let key = identifier_key(kind, scope, name);
        let existing = self.cache_for(kind).get(key);
        existing.is_some_and(|entry| !std::mem::replace(&mut entry.is_counted, true))
    }

    /// Creates a variable without identifier.
    pub(super) fn new_anonymous(&mut self) -> u32 {
        let variable = self.count;
        // The last number is reserved for "none".
        self.count = self.count.saturating_add(1).min(u32::MAX - 1);
        variable
    }

    pub(super) fn len(&self) -> u64 {
        self.count.into()
    }

    /// Returns the number of evicted identifiers, without change values, of which each occurs only a few times.
    pub(super) fn evicted(&self) -> u64 {
        [&self.filehandles, &self.stateids, &self.cookies, &self.others].map(SecondChanceMap::forgotten).iter().sum()
    }
}

/// Returns the hash of an identifier in its scope.
fn identifier_key(kind: TraceSlotValueKind, scope: VariableScope, name: &[u8]) -> u128 {
    let key_scope = match kind {
        TraceSlotValueKind::COOKIE | TraceSlotValueKind::COOKIE_VERIFIER | TraceSlotValueKind::CHANGE => {
            [scope.server, scope.file]
        }
        TraceSlotValueKind::OWNER
        | TraceSlotValueKind::CLIENT_VERIFIER
        | TraceSlotValueKind::CREATE_VERIFIER
        | TraceSlotValueKind::PROGRAM => [scope.client, u32::MAX],
        TraceSlotValueKind::CLIENT_OWNER | TraceSlotValueKind::HOST => [u32::MAX, u32::MAX],
        _ => [scope.server, u32::MAX],
    };
    let mut hasher = twox_hash::xxhash3_128::Hasher::with_seed(u64::from(kind.0));
    hasher.write(&key_scope.map(u32::to_be_bytes).concat());
    hasher.write(name);
    hasher.finish_128()
}

/// Returns the 128-bit XXH3 hash of data or of an identifier.
pub(super) fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_in_its_directory_and_a_filehandle_on_its_server() {
        let mut variables = TraceVariableNumbering::new(1 << 16);
        let mut of = |value_kind, server, file| {
            variables.resolve(value_kind, VariableScope { server, client: 0, file }, b"name", 1).0.variable
        };
        assert_ne!(of(TraceSlotValueKind::COOKIE, 0, 1), of(TraceSlotValueKind::COOKIE, 0, 2));
        assert_eq!(of(TraceSlotValueKind::COOKIE, 0, 1), of(TraceSlotValueKind::COOKIE, 0, 1));
        assert_eq!(of(TraceSlotValueKind::FILEHANDLE, 0, 1), of(TraceSlotValueKind::FILEHANDLE, 0, 2));
        assert_ne!(of(TraceSlotValueKind::FILEHANDLE, 0, 1), of(TraceSlotValueKind::FILEHANDLE, 1, 1));
        assert_ne!(of(TraceSlotValueKind::FILEHANDLE, 0, 1), of(TraceSlotValueKind::STATEID, 0, 1));
    }
}
