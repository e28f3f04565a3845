//! What a Call consists of, as far as a run must know: its operations, which file each is about, and what must not be sent.

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::nfs::v4::{self, Operation};
use nfsrdma_dissectors::nfs::{Procedure, v3};
use nfsrdma_dissectors::rpc::Program;
use nfsrdma_dissectors::xdr::{ChunkItem, Cursor, roundup};

use crate::replay::trace::{Holds, Message, NONE, Step};

/// Operations of one COMPOUND that are looked at.
const OPERATIONS: usize = 256;

/// Stands for the variable of the root.
pub(super) const ROOT: u32 = NONE - 1;

/// What a Call consists of.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The operations of a COMPOUND.
    pub(super) operations: Vec<Operation>,
    /// What it is about: `NFS 4.2 READ`.
    pub(super) title: String,
    /// A name in a Call of NFSv3 that leads to the directory above.
    pub(super) has_dots: bool,
}

/// DDP-eligible items that stand beside the head, with positions that count from its arguments or results on.
pub(super) fn items(message: &Message<'_>) -> Vec<ChunkItem<'static>> {
    let mut beside: u32 = 0;
    let payloads = message.payloads.iter().filter(|payload| !payload.is_inside);
    payloads
        .map(|payload| {
            let position = payload.at.saturating_sub(message.body).saturating_add(beside);
            let padded = payload.length.saturating_add(roundup(payload.length as usize) as u32);
            beside = beside.saturating_add(padded);
            ChunkItem { position: Some(position), length: payload.length, bytes: None }
        })
        .collect()
}

impl Parts {
    /// Looks at the Call of a step.
    pub(super) fn of(step: &Step<'_>) -> Self {
        let asked = &step.asked;
        let procedure = asked.described();
        let program = Program(asked.program);
        let name = program.name().map_or_else(|| format!("program {}", asked.program), str::to_owned);
        let mut parts = Self::default();
        let items = items(&step.call);
        let body = step.call.head.0.get(step.call.body as usize..step.call.end as usize).unwrap_or_default();
        let mut cursor = Cursor::new(body).with_chunks(&items);
        let mut about =
            procedure.map_or_else(|| format!("procedure {}", asked.procedure), |p| p.name().to_owned());
        match procedure {
            Some(Procedure::Compound) => {
                if let Ok(call) = v4::Call::decode(&mut cursor, &mut Unobserved) {
                    let operations = call.operations().map_while(Result::ok);
                    parts.operations =
                        operations.map(|operation| operation.number()).take(OPERATIONS).collect();
                    if let Some(operation) = call.named().operation {
                        about = operation.to_string();
                    }
                }
            }
            Some(Procedure::V3(v3::Procedure::LOOKUP)) => {
                let lookup = v3::Args::decode(v3::Procedure::LOOKUP, &mut cursor, &mut Unobserved);
                if let Ok(v3::Args::LOOKUP(lookup)) = lookup {
                    parts.has_dots = lookup.what.name.0 == b"..";
                }
            }
            _ => {}
        }
        parts.title = match asked.minor_version {
            NONE => format!("{name} {} {about}", asked.version),
            minor => format!("{name} {}.{minor} {about}", asked.version),
        };
        parts
    }

    /// The variable of the file that each operation is about, [`ROOT`] for the root, [`NONE`] where it is not known.
    pub(super) fn files(&self, step: &Step<'_>) -> Vec<u32> {
        let of = |message: &Message<'_>, operation: usize| {
            let slot = message
                .slots
                .iter()
                .find(|slot| slot.holds == Holds::FILEHANDLE && slot.operation as usize == operation);
            slot.map_or(NONE, |slot| slot.variable)
        };
        let mut files = vec![NONE; self.operations.len()];
        let (mut current, mut saved, mut since) = (NONE, NONE, 0);
        for (at, operation) in self.operations.iter().enumerate() {
            match *operation {
                Operation::PUTFH => (current, since) = (of(&step.call, at), at),
                Operation::PUTROOTFH | Operation::PUTPUBFH => (current, since) = (ROOT, at),
                Operation::LOOKUP
                | Operation::LOOKUPP
                | Operation::OPEN
                | Operation::CREATE
                | Operation::OPENATTR => {
                    (current, since) = (NONE, at);
                }
                Operation::SAVEFH => saved = current,
                Operation::RESTOREFH => (current, since) = (saved, at),
                Operation::GETFH if current == NONE => {
                    current = of(&step.reply, at);
                    files.get_mut(since..at).unwrap_or_default().fill(current);
                }
                _ => {}
            }
            if let Some(file) = files.get_mut(at) {
                *file = current;
            }
        }
        files
    }

    /// Whether the Call would lead above the root: LOOKUPP there, or the name `..` in NFSv3. `is_root` tells whether a
    /// variable names the root.
    pub(super) fn leaves(&self, step: &Step<'_>, is_root: impl Fn(u32) -> bool) -> bool {
        if self.has_dots {
            let mut handles = step.call.slots.iter().filter(|slot| slot.holds == Holds::FILEHANDLE);
            return handles.any(|slot| is_root(slot.variable));
        }
        if !self.operations.contains(&Operation::LOOKUPP) {
            return false;
        }
        // Of what LOOKUPP leaves, a second one could leave the root; where the first leads to is not known.
        let files = self.files(step);
        let mut before = (NONE, false);
        for (operation, file) in self.operations.iter().zip(files) {
            if *operation == Operation::LOOKUPP && (before.1 || before.0 == ROOT || is_root(before.0)) {
                return true;
            }
            before = (file, *operation == Operation::LOOKUPP);
        }
        false
    }

    /// Whether the COMPOUND may have to be adapted to the live server.
    pub(super) fn is_adaptable(&self) -> bool {
        self.operations.iter().any(|operation| {
            matches!(
                *operation,
                Operation::PUTROOTFH
                    | Operation::PUTPUBFH
                    | Operation::EXCHANGE_ID
                    | Operation::GETATTR
                    | Operation::READDIR
                    | Operation::CREATE
                    | Operation::SETATTR
                    | Operation::OPEN
            )
        })
    }

    /// Whether the root is asked for by its own operation.
    pub(super) fn has_root(&self) -> bool {
        self.operations.iter().any(is_root)
    }

    /// The operations, from 0, that ask for the root.
    pub(super) fn roots(&self) -> Vec<u32> {
        let roots = self.operations.iter().enumerate().filter(|(_, operation)| is_root(operation));
        roots.map(|(at, _)| at as u32).collect()
    }
}

fn is_root(operation: &Operation) -> bool {
    matches!(*operation, Operation::PUTROOTFH | Operation::PUTPUBFH)
}
