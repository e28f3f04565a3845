//! What people and programs get to see.

pub mod frames;
pub mod kept_frames;
mod label;
pub mod list;
pub mod style;
pub mod tree;
pub mod units;

#[cfg(test)]
mod tests;
