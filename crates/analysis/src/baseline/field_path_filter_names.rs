//! The part `[fields]`: the filter name of each path in a baseline.
//!
//! The names are stored so that a baseline outlives fields of the program. Settings accept the same names.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use nfsrdma_dissectors::field_names;

use crate::comparison::field_equality::requirement_of_field;
use crate::comparison::field_path::FieldPath;
use crate::comparison::record::{AMBIGUOUS_FIELD, ComparableMessage, ComparableTransaction, class};
use crate::filter::catalog::{FilterFieldCatalog, FilterFieldCatalogEntry};

/// Word for the headers, in place of an operation.
const HEADERS: &str = "-";
/// Word for the program of fields that all programs share.
const RPC: &str = "RPC";

#[derive(Clone, Debug)]
pub(super) struct BaselineFieldDescriptor {
    /// The name of the field, even if the catalogue no longer has it.
    name: Box<str>,
    pub(super) path: Rc<FieldPath>,
    is_used: Cell<bool>,
    /// The catalogue entry; `None` if the field no longer exists or has no name.
    pub(super) entry: Option<&'static FilterFieldCatalogEntry>,
}

type BaselineFieldsByOperation = BTreeMap<Box<str>, BTreeMap<Box<str>, BaselineFieldDescriptor>>;

/// The fields of a baseline.
#[derive(Clone, Debug, Default)]
pub struct BaselineFieldNamesByPath {
    /// Fields by program: of Calls, and of Replies.
    programs: BTreeMap<Box<str>, [BaselineFieldsByOperation; 2]>,
}

/// Returns the program and version of a title: `NFS 4` of `NFS 4.2 READ`.
pub(super) fn program(title: &str) -> String {
    let class = class(title);
    let end = class.match_indices(' ').nth(1).map_or(class.len(), |(at, _)| at);
    class.get(..end).unwrap_or_default().to_owned()
}

fn word(section: &str) -> String {
    if section.is_empty() { HEADERS.to_owned() } else { section.replace(' ', "_") }
}

impl BaselineFieldNamesByPath {
    /// Adds the fields of a record, and returns the number of new ones.
    pub(super) fn record(&mut self, record: &ComparableTransaction) -> usize {
        let program = program(&record.title);
        self.message(&program, true, record.call.as_ref()) + self.message(&program, false, record.reply.as_ref())
    }

    fn message(&mut self, program: &str, is_call: bool, message: Option<&ComparableMessage>) -> usize {
        let mut added = 0;
        for section in message.iter().flat_map(|message| &message.sections) {
            let operation = word(&section.name);
            for entry in &section.entries {
                let is_rpc = section.name.is_empty() && field_names::protocol(entry.path.field) == field_names::RPC;
                let program = if is_rpc { RPC } else { program };
                match self.get(program, is_call, &operation, &entry.path.text) {
                    Some(known) if *known.name == *entry.path.field || &*known.name == AMBIGUOUS_FIELD => {}
                    Some(_) => self.add(program, is_call, &operation, &entry.path.text, AMBIGUOUS_FIELD),
                    None => {
                        self.add(program, is_call, &operation, &entry.path.text, entry.path.field);
                        added += 1;
                    }
                }
            }
        }
        added
    }

    fn add(&mut self, program: &str, is_call: bool, operation: &str, path: &str, name: &str) {
        let entry = FilterFieldCatalog::shared().get(name);
        let fallback = if name == AMBIGUOUS_FIELD { AMBIGUOUS_FIELD } else { "" };
        let field = entry.map_or(fallback, |entry| entry.name);
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let path = Rc::new(FieldPath::new(path, field, requirement_of_field(name, parent, is_call)));
        let operations = self.programs.entry(program.into()).or_default();
        let of_message = if is_call { &mut operations[0] } else { &mut operations[1] };
        let paths = of_message.entry(operation.into()).or_default();
        paths.insert(
            path.text.clone(),
            BaselineFieldDescriptor { name: name.into(), path, is_used: Cell::new(false), entry },
        );
    }

    fn get(&self, program: &str, is_call: bool, operation: &str, path: &str) -> Option<&BaselineFieldDescriptor> {
        let [calls, replies] = self.programs.get(program)?;
        (if is_call { calls } else { replies }).get(operation)?.get(path)
    }

    /// Returns the field of a path and marks it as used; `operation` is empty for the headers.
    pub(super) fn find(
        &self,
        program: &str,
        is_call: bool,
        operation: &str,
        path: &str,
    ) -> Option<&BaselineFieldDescriptor> {
        let descriptor = if operation.is_empty() {
            self.get(program, is_call, HEADERS, path).or_else(|| self.get(RPC, is_call, HEADERS, path))
        } else {
            self.get(program, is_call, operation, path)
        };
        descriptor.inspect(|descriptor| descriptor.is_used.set(true))
    }

    /// Returns the lines, each with `true` if its field was used.
    fn lines(&self) -> impl Iterator<Item = (String, bool)> {
        self.programs.iter().flat_map(|(program, messages)| {
            ["call", "reply"].into_iter().zip(messages).flat_map(move |(message, operations)| {
                operations.iter().flat_map(move |(operation, paths)| {
                    paths.iter().map(move |(text, descriptor)| {
                        let line = format!("{program} {message} {operation} {text} {}", descriptor.name);
                        (line, descriptor.is_used.get())
                    })
                })
            })
        })
    }

    /// Returns the first line whose field was not used.
    pub(super) fn unused(&self) -> Option<String> {
        self.lines().find(|(_, is_used)| !is_used).map(|(line, _)| line)
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        self.lines().try_for_each(|(line, _)| writeln!(to, "{line}"))
    }

    /// Reads a line; returns `None` if it is malformed.
    pub(super) fn read(&mut self, line: &str) -> Option<()> {
        let mut words = line.rsplitn(5, ' ');
        let (name, path, operation) = (words.next()?, words.next()?, words.next()?);
        let is_call = match words.next()? {
            "call" => true,
            "reply" => false,
            _ => return None,
        };
        self.add(words.next()?, is_call, operation, path, name);
        Some(())
    }
}
