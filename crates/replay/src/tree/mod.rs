//! The tree that a trace expects: the files, directories and links that its steps use, in their state before the first
//! step.
//!
//! It is inferred from the steps in execution order. A name that a step finds existed before, unless an earlier step
//! created it. An attribute had its value before, unless an earlier step changed it. Data that a step reads was in the
//! file before, unless an earlier step wrote it. Seeding creates exactly the tree that is inferred here.
//!
//! - [`inferred_object`]: objects and their facts; [`inferred_tree`]: the tree of these objects;
//! - [`inference`]: the facts that a step gives about files;
//! - [`nfs3_tree_inference`], [`nfs4_tree_inference`]: the same for the procedures of NFSv3 and MOUNT, and for
//!   COMPOUND;
//! - [`tree_after_steps`]: the tree in its state after the steps; [`latest_file_state`]: known state of its files.

pub(crate) mod byte_ranges;
pub(crate) mod inference;
pub(crate) mod inferred_object;
pub(crate) mod inferred_tree;
pub(crate) mod latest_file_state;
mod nfs3_tree_inference;
pub(crate) mod nfs4_tree_inference;
#[cfg(test)]
mod tests;
mod tree_after_steps;

pub use inference::{InitialFileContent, TreeInferenceStepInput};
pub use inferred_object::{InferredObject, InferredObjectId, InferredObjectName};
pub use inferred_tree::InferredTree;
pub use latest_file_state::{CurrentNameBinding, ExtentContent, KnownFileContentRange, LatestInferredFileState};
