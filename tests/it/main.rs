//! The program and its rooms from outside, in one binary.

mod readers;
