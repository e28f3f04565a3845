//! stub
#![allow(missing_docs)]
use crate::analysis::statistics::Statistics;
use nfsrdma_dissectors::flow::Flow;
use std::io;
pub fn json(_: &mut impl io::Write, _: &Statistics, _: &Flow) -> io::Result<()> {
    Ok(())
}
pub fn text(_: &mut impl io::Write, _: &Statistics, _: &Flow, _: super::style::Screen) -> io::Result<()> {
    Ok(())
}
