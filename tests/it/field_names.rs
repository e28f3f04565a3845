//! Names of fields are Wireshark's for the fields that Wireshark has. `fields/wireshark.txt` lists those of our names
//! that are Wireshark's, `fields/ours.txt` the others, so that a name that is nearly Wireshark's is not added
//! unnoticed. `UPDATE=1 cargo test --test it field_names` writes both with tshark.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nfsrdma_analysis::filter::catalog::FilterFieldCatalog;

use crate::skipped::skip_without;
use crate::tshark;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fields").join(name)
}

/// Returns the names, and the version of Wireshark that introduced them, if not every tested version has them.
fn stored(name: &str) -> BTreeMap<String, (u32, u32)> {
    let text = fs::read_to_string(file(name)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.map(|line| match line.split_once(" since ") {
        Some((name, version)) => (name.to_owned(), tshark::parse(version).expect("a version")),
        None => (line.to_owned(), (0, 0)),
    });
    names.collect()
}

/// Returns the names of Wireshark's fields and protocols; `None` if tshark is not installed.
fn wireshark() -> Option<BTreeSet<String>> {
    let output = Command::new("tshark").args(["-G", "fields"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().filter_map(|line| line.split('\t').nth(2)).map(str::to_owned).collect())
}

fn ours() -> BTreeSet<String> {
    let catalog = FilterFieldCatalog::shared();
    let names = catalog.iter().map(|entry| entry.name.to_owned());
    names.filter(|name| name != "nfsrdma" && !name.starts_with("nfsrdma.")).collect()
}

fn write(name: &str, about: &str, names: impl Iterator<Item = String>) {
    let lines: Vec<String> = names.collect();
    fs::write(file(name), format!("# {about}\n{}\n", lines.join("\n"))).unwrap();
}

#[test]
fn every_name_is_wiresharks_or_listed_as_ours() {
    let ours = ours();
    if std::env::var_os("UPDATE").is_some() {
        let theirs = wireshark().expect("tshark tells which names are Wireshark's");
        let version = tshark::version().expect("tshark has a version");
        let (listed, others) = (stored("wireshark.txt"), stored("ours.txt"));
        // One of our names may be new in this version, and one introduced by a later version stays.
        let since = |name: &String| match listed.get(name) {
            Some(since) if *since > version || theirs.contains(name) => Some(*since),
            _ if theirs.contains(name) && others.contains_key(name) => Some(version),
            _ => theirs.contains(name).then_some((0, 0)),
        };
        let line = |name: &String| match since(name)? {
            (0, 0) => Some(name.clone()),
            (major, minor) => Some(format!("{name} since {major}.{minor}")),
        };
        write("wireshark.txt", "Names of fields that Wireshark has.", ours.iter().filter_map(line));
        let rest = ours.iter().filter(|name| since(name).is_none()).cloned();
        write("ours.txt", "Names of fields that Wireshark has not.", rest);
    }
    let (wiresharks, others) = (stored("wireshark.txt"), stored("ours.txt"));
    let unlisted: Vec<_> =
        ours.iter().filter(|name| !wiresharks.contains_key(*name) && !others.contains_key(*name)).collect();
    assert!(
        unlisted.is_empty(),
        "{unlisted:?} are in no list of tests/it/fields; find Wireshark's names for them with tshark -G fields, and \
         where it has none: UPDATE=1 cargo test --test it field_names"
    );
    let gone: Vec<_> = wiresharks.keys().chain(others.keys()).filter(|name| !ours.contains(*name)).collect();
    assert!(gone.is_empty(), "{gone:?} are no fields any more: UPDATE=1 cargo test --test it field_names");
}

#[test]
fn the_stored_names_are_those_of_the_tshark_that_is_here() {
    let Some(theirs) = wireshark() else {
        skip_without("tshark");
        return;
    };
    let version = tshark::version().expect("tshark has a version");
    let listed = stored("wireshark.txt").into_iter().filter(|(_, since)| *since <= version);
    let missing: Vec<_> = listed.map(|(name, _)| name).filter(|name| !theirs.contains(name)).collect();
    assert!(missing.is_empty(), "tshark does not know {missing:?}");
    let known: Vec<_> = stored("ours.txt").into_keys().filter(|name| theirs.contains(name)).collect();
    assert!(known.is_empty(), "tshark knows {known:?}, which are listed as ours");
}
