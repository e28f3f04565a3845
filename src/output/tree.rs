//! Field tree of a message or a frame: one line per decoded field.

mod field_tree;
mod filehandle_names;
pub mod frame_store;
mod layer_headings;
pub mod lines;
pub mod transaction;
mod value;
