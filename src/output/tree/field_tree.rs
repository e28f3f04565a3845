//! Tree of the decoded fields of a message or a frame, rearranged for reading.
//!
//! A [`FieldTree`] observes decoders and rearranges their fields: the arm of a union follows its discriminant, a
//! structure of a few short values takes one line, the words of a bitmap form one set. It depends on no protocol except
//! for the names of some layers.

use std::fmt::Write as _;
use std::ops::Range;

use nfsrdma_analysis::filter::procedure_number_fields;
use nfsrdma_dissectors::field::{FieldDefinition, FieldKind, FieldObserver, FieldValue};
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::field_labels;
use nfsrdma_dissectors::rpc::Program;

use super::lines::{TreeLine, TreeLineByteSource, heading};
use super::{layer_headings, value};
use crate::output::style::{Glyphs, Style, TerminalOutputStyles};
use crate::output::units::{CalendarTime, DateTimeUtc};

/// Maximum length in bytes of a structure on one line.
const MAX_LINE_BYTES: usize = 76;
/// Name of the group that an RPC message begins with.
const RPC: &str = field_names::RPC;
/// Protocol of the operations of NFS and of its callbacks.
const NFS: &str = procedure_number_fields::protocol(Program::NFS);
/// Maximum number of fields on one line.
const MAX_LINE_FIELDS: usize = 4;

/// Field or group of fields.
#[derive(Debug)]
pub(super) struct FieldTreeNode {
    field: &'static FieldDefinition,
    /// `true` if the node is a group; `false` for a structure that was put on one line.
    is_group: bool,
    /// Text of the value; of a group, the text of its heading after the name.
    pub(super) text: String,
    /// Numeric value, if the value is a number.
    number: Option<i64>,
    /// Value in display filter syntax.
    literal: Option<String>,
    bytes: Range<usize>,
    children: Vec<usize>,
    /// Fields in the text of the node, which have no lines of their own.
    inner: Vec<(&'static FieldDefinition, Option<i64>)>,
}

/// Observer of decoders that builds a tree.
#[derive(Debug)]
pub(in crate::output) struct FieldTree {
    pub(super) glyphs: Glyphs,
    /// `true` to record values in display filter syntax, too.
    pub(super) has_literals: bool,
    pub(super) nodes: Vec<FieldTreeNode>,
    roots: Vec<usize>,
    open: Vec<usize>,
    /// Descriptions of the chunks that carry data of the message, in order.
    pub(super) chunks: Vec<String>,
    chunks_used: usize,
}

impl FieldTree {
    pub(super) fn new(glyphs: Glyphs) -> Self {
        Self {
            glyphs,
            has_literals: false,
            nodes: Vec::new(),
            roots: Vec::new(),
            open: Vec::new(),
            chunks: Vec::new(),
            chunks_used: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.roots.clear();
        self.open.clear();
        self.chunks.clear();
        self.chunks_used = 0;
    }

    /// Returns the end of the last byte decoded: of the RPC message, if there is one, which may have its own positions.
    pub(super) fn end(&self) -> usize {
        let start = self.rpc_root().unwrap_or(0);
        self.nodes.get(start..).unwrap_or_default().iter().map(|node| node.bytes.end).max().unwrap_or(0)
    }

    pub(super) fn rpc_root(&self) -> Option<usize> {
        self.roots.iter().copied().find(|at| self.nodes[*at].field.name == RPC)
    }

    fn add(&mut self, node: FieldTreeNode) -> usize {
        let at = self.nodes.len();
        match self.open.last() {
            Some(parent) => self.nodes[*parent].children.push(at),
            None => self.roots.push(at),
        }
        self.nodes.push(node);
        at
    }

    /// Closes the groups that an error left open, and rearranges the nodes.
    pub(super) fn finish(&mut self) {
        for at in self.open.drain(..).rev() {
            let end = self.nodes[at].children.iter().map(|child| self.nodes[*child].bytes.end).max();
            self.nodes[at].bytes.end = end.unwrap_or(self.nodes[at].bytes.start);
        }
        let mut roots = std::mem::take(&mut self.roots);
        for root in &roots {
            self.arrange(*root);
        }
        self.merge_lists(&mut roots);
        self.roots = roots;
    }

    fn arrange(&mut self, at: usize) {
        self.flatten_union_arms(at);
        let mut children = std::mem::take(&mut self.nodes[at].children);
        for child in &children {
            self.arrange(*child);
        }
        self.merge_lists(&mut children);
        self.nodes[at].children = children;
        self.collapse(at);
        if self.nodes[at].is_group {
            self.set_heading(at);
        }
    }

    /// Replaces the last group of a structure by its fields if the discriminant before it selects it, or if it is a
    /// wrapper.
    fn flatten_union_arms(&mut self, at: usize) {
        let mut used_tag = None;
        while let [before @ .., last] = self.nodes[at].children.as_slice() {
            let arm = &self.nodes[*last];
            let tag = before.last().copied().filter(|tag| self.nodes[*tag].field.kind == FieldKind::Enum);
            // A discriminant selects one arm; groups within the arm keep their headings.
            let follows_tag = tag.is_some() && tag != used_tag;
            let is_arm = follows_tag && layer_headings::title(arm.field).is_none() && !self.is_operation(*last);
            if !arm.is_group || !(is_arm || layer_headings::is_wrapper(arm.field)) {
                break;
            }
            let last = *last;
            if is_arm {
                used_tag = tag;
            }
            let inner = std::mem::take(&mut self.nodes[last].children);
            let children = &mut self.nodes[at].children;
            children.pop();
            children.extend(inner);
        }
    }

    /// Merges successive values of one list into one line.
    fn merge_lists(&mut self, children: &mut Vec<usize>) {
        let mut merged: Vec<usize> = Vec::with_capacity(children.len());
        for child in children.drain(..) {
            if let Some(previous) = merged.last().copied()
                && self.is_list(previous, child)
            {
                let (text, end) = (std::mem::take(&mut self.nodes[child].text), self.nodes[child].bytes.end);
                let list = &mut self.nodes[previous];
                list.bytes.end = end;
                // A set of several words has no number.
                let is_set = list.field.kind == FieldKind::Flags;
                let text = if is_set { without_number(&text) } else { &text };
                if is_set {
                    list.text.truncate(without_number(&list.text).len());
                }
                if is_set && list.text == "none" {
                    text.clone_into(&mut list.text);
                } else if !is_set || text != "none" {
                    list.text.push_str(", ");
                    list.text.push_str(text);
                }
            } else {
                merged.push(child);
            }
        }
        *children = merged;
    }

    fn is_list(&self, previous: usize, next: usize) -> bool {
        let (previous, next) = (&self.nodes[previous], &self.nodes[next]);
        let is_value = !previous.is_group && !next.is_group && next.children.is_empty();
        let is_short = match next.field.kind {
            FieldKind::Flags => true,
            FieldKind::Unsigned | FieldKind::Enum | FieldKind::Text => {
                previous.text.len() + next.text.len() < MAX_LINE_BYTES
            }
            _ => false,
        };
        is_value && is_short && std::ptr::eq(previous.field, next.field)
    }

    /// Returns `true` for an operation of a COMPOUND: a group whose first field is the operation's number.
    fn is_operation(&self, at: usize) -> bool {
        let first = self.nodes[at].children.first().map(|first| self.nodes[*first].field.name);
        matches!(first, Some(field_names::NFS_OPCODE | field_names::NFS_CB_OPERATION))
    }

    fn collapse(&mut self, at: usize) {
        let node = &self.nodes[at];
        let child_range = 1..=MAX_LINE_FIELDS;
        let is_small = node.is_group
            && child_range.contains(&node.children.len())
            && layer_headings::title(node.field).is_none()
            && !self.is_operation(at)
            && node.children.iter().all(|child| !self.nodes[*child].is_group);
        if !is_small {
            return;
        }
        let text = match self.format_time(&node.children) {
            Some(time) => time,
            None => {
                let mut text = String::new();
                for child in &node.children {
                    let child = &self.nodes[*child];
                    let comma = if text.is_empty() { "" } else { ", " };
                    let _ = write!(text, "{comma}{} {}", child.field.label, child.text);
                }
                text
            }
        };
        if text.len() <= MAX_LINE_BYTES {
            self.inline_children(at, usize::MAX);
            let node = &mut self.nodes[at];
            node.is_group = false;
            node.text = text;
        }
    }

    /// Formats seconds and nanoseconds as a date; small numbers of seconds are a resolution or a delay.
    fn format_time(&self, children: &[usize]) -> Option<String> {
        let [seconds, nanoseconds] = children else { return None };
        let (seconds, nanoseconds) = (&self.nodes[*seconds], &self.nodes[*nanoseconds]);
        if (seconds.field.label, nanoseconds.field.label) != (field_labels::SECONDS, field_labels::NSECONDS) {
            return None;
        }
        let nanosecond = u32::try_from(nanoseconds.number?).ok().filter(|ns| *ns < 1_000_000_000)?;
        let seconds = seconds.number.filter(|seconds| *seconds > 1_000_000 && *seconds < 1 << 40)?;
        Some(DateTimeUtc(CalendarTime::from_unix_seconds(seconds, nanosecond)).to_string())
    }

    /// Sets the text of a group's heading after its name.
    fn set_heading(&mut self, at: usize) {
        let mut text = String::new();
        if self.is_operation(at) {
            let children = &self.nodes[at].children;
            if let Some(code) = children.first() {
                text.push_str(&self.nodes[*code].text);
            }
            let status = children.get(1).filter(|status| self.nodes[**status].field.label == field_labels::STATUS);
            if let Some(status) = status {
                let name = self.nodes[*status].text.split(' ').next().unwrap_or_default();
                let _ = write!(text, ": {name}");
            }
            let own_children = 1 + usize::from(status.is_some());
            self.inline_children(at, own_children);
        } else {
            let names: &[&str] = match self.nodes[at].field.label {
                field_labels::ENTRIES => &[field_labels::NAME],
                _ => layer_headings::summary(self.nodes[at].field),
            };
            let mut inlined = 0;
            for name in names {
                let children = &self.nodes[at].children;
                let child = children.iter().map(|child| &self.nodes[*child]).find(|child| child.field.label == *name);
                if let Some(child) = child {
                    inlined += 1;
                    let comma = if text.is_empty() { "" } else { ", " };
                    let _ = match child.field.kind {
                        FieldKind::Enum | FieldKind::Text => {
                            write!(text, "{comma}{}", without_number(&child.text))
                        }
                        _ => write!(text, "{comma}{name} {}", child.text),
                    };
                }
            }
            if inlined == self.nodes[at].children.len() {
                self.inline_children(at, usize::MAX);
            }
        }
        self.nodes[at].text = text;
    }

    /// Removes the first `count` children of a node, whose text shows them.
    fn inline_children(&mut self, at: usize, count: usize) {
        let count = count.min(self.nodes[at].children.len());
        let children: Vec<usize> = self.nodes[at].children.drain(..count).collect();
        for child in children {
            let field = (self.nodes[child].field, self.nodes[child].number);
            let inner = std::mem::take(&mut self.nodes[child].inner);
            self.nodes[at].inner.push(field);
            self.nodes[at].inner.extend(inner);
        }
    }

    /// Appends the lines of the nodes, indented by `depth`; `note` precedes the RPC message, whose positions count in
    /// `rpc`.
    pub(super) fn lines(
        &self,
        out: &mut Vec<TreeLine>,
        styles: &TerminalOutputStyles,
        depth: usize,
        (origin, rpc): (TreeLineByteSource, TreeLineByteSource),
        note: Option<&str>,
    ) {
        let mut in_nfs = false;
        let mut origin = origin;
        for root in &self.roots {
            if self.nodes[*root].field.name == RPC {
                origin = rpc;
                out.extend(note.map(|note| heading(depth, styles.dim, note)));
            }
            let is_nfs = field_names::protocol(self.nodes[*root].field.name) == NFS;
            if is_nfs && !in_nfs {
                out.push(heading(depth, styles.layer, "Network File System"));
            }
            in_nfs = is_nfs;
            self.node_lines(out, styles, *root, depth + usize::from(is_nfs), origin);
        }
    }

    fn node_lines(
        &self,
        out: &mut Vec<TreeLine>,
        styles: &TerminalOutputStyles,
        at: usize,
        depth: usize,
        origin: TreeLineByteSource,
    ) {
        let node = &self.nodes[at];
        let mut line = TreeLine::new(depth, origin).with_bytes(node.bytes.clone());
        (line.field, line.number) = (Some(node.field), node.number);
        line.inner.clone_from(&node.inner);
        if !node.is_group {
            line.literal.clone_from(&node.literal);
            let line = line.with_text(styles.label, node.field.label).with_text(Style::new(), ": ");
            return out.push(line.with_text(Style::new(), &node.text));
        }
        if self.is_operation_heading(node) {
            let (name, status) = node.text.split_once(": ").unwrap_or((&node.text, ""));
            line = line.with_text(styles.operation, name);
            if !status.is_empty() {
                let style = if status.ends_with("_OK") { styles.ok } else { styles.error };
                line = line.with_text(Style::new(), " ").with_text(style, status);
            }
        } else {
            let title = layer_headings::title(node.field);
            let style = if title.is_some() { styles.layer } else { styles.label };
            line = line.with_text(style, title.unwrap_or(node.field.label));
            if !node.text.is_empty() {
                line = line.with_text(Style::new(), ": ").with_text(Style::new(), &node.text);
            }
        }
        out.push(line);
        node.children.iter().for_each(|child| self.node_lines(out, styles, *child, depth + 1, origin));
    }

    /// Returns `true` if the heading is the name of an operation: it begins with the name of the group, or the
    /// operation is unknown.
    fn is_operation_heading(&self, node: &FieldTreeNode) -> bool {
        node.text.starts_with(node.field.label) || node.field.name == field_names::NFS_UNKNOWN_OPERATION
    }
}

impl<'a> FieldObserver<'a> for FieldTree {
    fn enter(&mut self, field: &'static FieldDefinition, at: usize) {
        let node = FieldTreeNode {
            field,
            is_group: true,
            text: String::new(),
            number: None,
            literal: None,
            bytes: at..at,
            children: Vec::new(),
            inner: Vec::new(),
        };
        let at = self.add(node);
        self.open.push(at);
    }

    fn leave(&mut self, at: usize) {
        if let Some(open) = self.open.pop() {
            self.nodes[open].bytes.end = at;
        }
    }

    fn value(&mut self, field: &'static FieldDefinition, bytes: Range<usize>, value: FieldValue<'a>) {
        let chunk = match value {
            FieldValue::Chunk(..) => {
                self.chunks_used += 1;
                self.chunks.get(self.chunks_used - 1).map_or("a chunk", String::as_str)
            }
            _ => "",
        };
        let mut text = String::new();
        value::write(field, &value, chunk, &self.glyphs, &mut text);
        let number = match value {
            FieldValue::Unsigned(number) | FieldValue::Enum(number, _) => Some(number.cast_signed()),
            FieldValue::Signed(number) => Some(number),
            _ => None,
        };
        let literal = if self.has_literals { value::literal(&value) } else { None };
        self.add(FieldTreeNode {
            field,
            is_group: false,
            text,
            number,
            literal,
            bytes,
            children: Vec::new(),
            inner: Vec::new(),
        });
    }
}

/// Removes the number in parentheses after a name.
fn without_number(text: &str) -> &str {
    text.rsplit_once(" (").map_or(text, |(name, _)| name)
}
