//! Plans of traces whose names must not be sent.

use std::io::Cursor;

use nfsrdma_dissectors::xdr::{Opaque, Text, XdrArray};

use super::*;
use crate::trace::file_format::{
    InitialFileExtent, ReplayTraceBlockKind, TraceFileDataRetention, TraceFileSystemObjectName, TraceProvenance,
};
use crate::trace::step_writer::ReplayTraceWriter;

/// A type, its size, and its names below directories.
type Object<'a> = (TraceFileType, u64, &'a [(u32, &'a str)]);

/// Plans a trace of the root, number 0, and these objects, numbered from 1.
fn tree(objects: &[Object<'_>]) -> FileTreePlan {
    tree_with_contents(objects, &[])
}

/// The same, with initial content: the number of each file, and an offset and a length.
fn tree_with_contents(objects: &[Object<'_>], contents: &[(u32, u64, u32)]) -> FileTreePlan {
    let mut writer = ReplayTraceWriter::new(Cursor::new(Vec::new()), 1 << 16, 1 << 16).unwrap();
    for (object, offset, length) in contents {
        let content = PayloadContentState::ZEROS;
        let (object, offset, length, hash) = (*object, *offset, *length, [0; 16]);
        writer.extent(&InitialFileExtent { object, offset, length, content, hash, data: 0, step: 1 }).unwrap();
    }
    let mut tables = writer
        .begin_tables(&TraceProvenance {
            program: Text(b"test"),
            captures: XdrArray::default(),
            keeping: TraceFileDataRetention::KEPT,
            key: 0,
        })
        .unwrap();
    let root: Object<'_> = (TraceFileType::DIRECTORY, 0, &[(NONE, "/")]);
    for (number, (file_type, size, names)) in (0..).zip([&root].into_iter().chain(objects)) {
        let names: Vec<_> = names
            .iter()
            .map(|(parent, name)| TraceFileSystemObjectName { parent: *parent, name: Opaque(name.as_bytes()), step: 0 })
            .collect();
        let object = TraceFileSystemObject {
            number,
            existence: if number == 0 { TraceObjectOrigin::ROOT } else { TraceObjectOrigin::BEFORE },
            step: 0,
            file_type: *file_type,
            names: XdrArray::from(&names[..]),
            handles: XdrArray::default(),
            server: 0,
            size: *size,
            is_size_known: true,
            mode: NONE,
            owner: Opaque(b""),
            group: Opaque(b""),
            target: Opaque(b""),
            first: 1,
            uses: 1,
        };
        tables.add(ReplayTraceBlockKind::OBJECTS, &object).unwrap();
    }
    let file = tables.finish().unwrap().0.into_inner();
    let mut plan = FileTreePlan::default();
    plan.read_objects(&mut ReplayTraceReader::open(Cursor::new(file)).unwrap()).unwrap();
    plan
}

fn paths(plan: &FileTreePlan) -> Vec<(&str, u64)> {
    plan.items.iter().map(|item| (std::str::from_utf8(&item.path).unwrap(), item.links)).collect()
}

/// Seeding creates neither a name that leaves its directory, nor what is below it. A directory may follow its files.
#[test]
fn nothing_below_unsafe_directory_is_planned() {
    let plan = tree(&[
        (TraceFileType::DIRECTORY, 0, &[(0, "..")]),
        (TraceFileType::FILE, 5, &[(1, "x")]),
        (TraceFileType::FILE, 6, &[(4, "z")]),
        (TraceFileType::DIRECTORY, 0, &[(1, "d")]),
        (TraceFileType::FILE, 7, &[(0, "y")]),
    ]);
    assert_eq!((paths(&plan), plan.bytes), (vec![("/y", 0)], 7));
    assert_eq!(plan.objects, BTreeMap::from([(TraceFileType::FILE, 1)]));
}

#[test]
fn hard_link_has_its_safe_name() {
    let plan = tree(&[
        (TraceFileType::DIRECTORY, 0, &[(0, "..")]),
        (TraceFileType::FILE, 5, &[(0, "a/b"), (0, "plain")]),
        (TraceFileType::FILE, 6, &[(1, "x"), (0, "y"), (0, "z")]),
    ]);
    assert_eq!((paths(&plan), plan.bytes), (vec![("/plain", 0), ("/y", 1)], 11));
}

/// Bytes read from files that are not created are not content, and a file is at least as long as the bytes read from it.
#[test]
fn content_is_that_of_created_files() {
    let [safe, unsafe_] = [&[(0, "f")], &[(0, "a/b")]];
    let objects: [Object<'_>; 2] = [(TraceFileType::FILE, 10, safe), (TraceFileType::FILE, 10, unsafe_)];
    let plan = tree_with_contents(&objects, &[(1, 0, 10), (2, 0, 10)]);
    assert_eq!((plan.bytes, plan.known_bytes), (10, 10));
    let plan = tree_with_contents(&objects[..1], &[(1, 0, 10), (1, 10, 10)]);
    assert_eq!((plan.bytes, plan.known_bytes), (20, 20));
}

/// Links whose names are unknown.
#[test]
fn object_with_unnamed_links_has_no_name() {
    let objects: [Object<'_>; 2] = [
        (TraceFileType::FILE, 0, &[(NONE, "1-0"), (NONE, "1-1")]),
        (TraceFileType::FILE, 0, &[(0, "f"), (NONE, "2-0")]),
    ];
    let plan = tree(&objects);
    assert_eq!((paths(&plan), plan.nameless), (vec![("", 1), ("/f", 1)], 1));
}
