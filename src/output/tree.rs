//! Field tree of a message or a frame: one line per decoded field.
//!
//! A [`FieldTree`](field_tree::FieldTree) observes decoders and rearranges their fields: the arm of a union follows its discriminant, a
//! structure of a few short values takes one line, the words of a bitmap form one set. It depends on no protocol except
//! for the names of some layers.

mod field_tree;
mod filehandle_names;
pub mod frame_store;
mod layer_headings;
pub mod lines;
pub mod transaction;
mod value;
