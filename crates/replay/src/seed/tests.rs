//! Tests of listings and owners.

use nfsrdma_dissectors::nfs::v4::Nfsstat4;

use super::owners::RefusedFileOwners;
use super::*;
use file_server_client::{LiveObjectAttributes, NfsOperationFailure, ReaddirPosition};

/// Server with empty directories and directories with names, which knows one user and one group.
struct TestServer {
    listings: Vec<Vec<Box<[u8]>>>,
    known_owners: [&'static [u8]; 2],
    /// Owners that were set.
    set: Vec<[Option<Vec<u8>>; 2]>,
    refusals: u32,
}

impl VersionIndependentNfsClient for TestServer {
    fn export(&mut self, _: &str) -> Result<LiveFilehandle, FileServerClientError> {
        unreachable!()
    }

    fn find(&mut self, _: &[u8], _: &[u8]) -> Result<LiveFilehandle, FileServerClientError> {
        unreachable!()
    }

    fn make(
        &mut self,
        _: &[u8],
        _: &[u8],
        _: NewObjectKind<'_>,
        _: u32,
    ) -> Result<LiveFilehandle, FileServerClientError> {
        unreachable!()
    }

    fn link(&mut self, _: &[u8], _: &[u8], _: &[u8]) -> Result<(), FileServerClientError> {
        unreachable!()
    }

    fn remove(&mut self, _: &[u8], _: &[u8], _: bool) -> Result<(), FileServerClientError> {
        unreachable!()
    }

    fn set_attributes(&mut self, _: &[u8], _: Option<u32>, _: Option<u64>) -> Result<(), FileServerClientError> {
        unreachable!()
    }

    fn set_owners(
        &mut self,
        _: &[u8],
        owner: Option<&[u8]>,
        group: Option<&[u8]>,
    ) -> Result<(), FileServerClientError> {
        let given = [owner, group];
        let is_known = |(given, known): (&Option<&[u8]>, &&[u8])| given.is_none_or(|given| given == *known);
        if !given.iter().zip(&self.known_owners).all(is_known) {
            self.refusals += 1;
            let reason = NfsOperationFailure::V4(Nfsstat4::NFS4ERR_BADOWNER);
            return Err(FileServerClientError::Refused("SETATTR".into(), reason));
        }
        self.set.push(given.map(|name| name.map(<[u8]>::to_vec)));
        Ok(())
    }

    fn write_once(&mut self, _: &[u8], _: u64, _: &[u8]) -> Result<usize, FileServerClientError> {
        unreachable!()
    }

    fn list_next_names(
        &mut self,
        _: &[u8],
        _: &mut ReaddirPosition,
        _: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, FileServerClientError> {
        unreachable!()
    }

    fn capabilities(&mut self, _: &[u8]) -> Result<FileSystemCapabilities, FileServerClientError> {
        unreachable!()
    }

    fn limit_io(&mut self, _: IoLimits) {}

    fn io_limits(&self) -> IoLimits {
        unreachable!()
    }

    fn status(&mut self, _: &[u8]) -> Result<LiveObjectAttributes, FileServerClientError> {
        unreachable!()
    }

    fn read(&mut self, _: &[u8], _: u64, _: u32) -> Result<Vec<u8>, FileServerClientError> {
        unreachable!()
    }

    fn read_link(&mut self, _: &[u8]) -> Result<Vec<u8>, FileServerClientError> {
        unreachable!()
    }

    fn list_names(&mut self, directory: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), FileServerClientError> {
        self.listings[usize::from(directory[0])].iter().for_each(|name| each(name));
        Ok(())
    }

    fn close(&mut self) {}
}

fn server(sizes: &[usize]) -> TestServer {
    let names = |count: &usize| (0..*count).map(|name| name.to_string().into_bytes().into()).collect();
    TestServer {
        listings: sizes.iter().map(names).collect(),
        known_owners: [b"alice", b"staff"],
        set: Vec::new(),
        refusals: 0,
    }
}

#[test]
fn a_listing_that_the_limit_cuts_off_is_not_recorded() {
    let directories: Vec<LiveFilehandle> = (0..4).map(|number| vec![number]).collect();
    let listed = list_directories(&mut server(&[3, 0, 4, 0]), directories.iter(), 6, &mut Vec::new()).unwrap();
    let mut handles: Vec<_> = listed.keys().cloned().collect();
    handles.sort();
    assert_eq!(handles, [[0], [1]]);
    assert!(listed[&vec![0]].contains(b"2") && !listed[&vec![0]].contains(b"3"));
    let listed = list_directories(&mut server(&[3, 0, 4, 0]), directories.iter(), 7, &mut Vec::new()).unwrap();
    assert_eq!(listed.len(), 4);
}

/// RFC 8881 section 5.9: NFS4ERR_BADOWNER.
#[test]
fn an_owner_that_the_server_does_not_know_is_refused_once_and_the_group_is_set() {
    let (mut files, mut unset) = (server(&[]), RefusedFileOwners::default());
    let mut set = |owner: &'static [u8], group: &'static [u8]| {
        unset.set_both(&mut files, b"file", Some(owner), Some(group)).unwrap()
    };
    assert!(set(b"alice", b"staff"));
    assert!(!set(b"bob", b"staff"));
    assert!(!set(b"bob", b"staff"));
    assert!(!set(b"bob", b"wheels"));
    assert!(!set(b"alice", b"wheels"));
    let [alice, staff] = [b"alice", b"staff"].map(|name| Some(name.to_vec()));
    let group_alone = [None, staff.clone()];
    let expected = [[alice.clone(), staff], group_alone.clone(), group_alone, [alice, None]];
    assert_eq!(files.set, expected);
    // The pair with bob, bob, and wheels.
    assert_eq!(files.refusals, 3);
    assert_eq!(unset.reason.as_deref(), Some("\"bob\": SETATTR: NFS4ERR_BADOWNER"));
}
