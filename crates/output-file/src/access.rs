//! Access to a file: owner, group, mode, POSIX ACL and other extended attributes.
//!
//! A file that replaces another one gets exactly its access, or the other one is not replaced. At no moment does it
//! grant more: it is created for its owner only, gets owner and group, then its extended attributes, the ACL last, and
//! the mode. Until it is complete, it is for its owner only again.

use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use nfsrdma_text::{escape, os_error_text};
use rustix::fs::{
    XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fremovexattr, fsetxattr, lgetxattr,
    lgetxattr_query, llistxattr, llistxattr_query,
};
use rustix::io::Errno;

/// Mode of a file that replaces none, whatever the umask: captures and traces hold the data and names of files.
pub(crate) const PRIVATE_MODE: u32 = 0o600;
/// Bits of a mode that grant access, with setuid, setgid and the sticky bit.
const MODE_BITS: u32 = 0o7777;
/// POSIX ACL of a file. Setting it changes the mode, too.
const ACL: &[u8] = b"system.posix_acl_access";
/// Setuid and setgid.
const SET_ID_BITS: u32 = 0o6000;
/// Capabilities of an executable file.
const CAPABILITIES: &CStr = c"security.capability";
/// Attributes that the kernel computes from the content of a file.
const CONTENT_HASHES: [&[u8]; 2] = [b"security.ima", b"security.evm"];

/// Part of the access to a replaced file that the new one cannot have.
#[derive(Debug)]
pub struct LostAccess {
    part: String,
    error: io::Error,
}

impl LostAccess {
    fn of(part: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let part = part.into();
        |error| Self { part, error }
    }

    fn of_attribute(name: &CStr) -> impl FnOnce(io::Error) -> Self + use<> {
        Self::of(match name.to_bytes() {
            ACL => "ACL".to_owned(),
            name => format!("extended attribute {}", escape::escape_line(&String::from_utf8_lossy(name))),
        })
    }
}

impl fmt::Display for LostAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its {} cannot be kept: {}", self.part, os_error_text(&self.error))
    }
}

impl std::error::Error for LostAccess {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Gives a new file the access to the file with the name `replaced`, if there is one. After an error, it has no more
/// than that.
pub(crate) fn keep(file: &File, replaced: &Path) -> Result<(), LostAccess> {
    let old = match fs::symlink_metadata(replaced) {
        Ok(old) if old.is_file() => old,
        // No file is replaced.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LostAccess::of("access")(error)),
    };
    let new = file.metadata().map_err(LostAccess::of("access"))?;
    keep_owner(file, &new, &old)?;
    keep_attributes(file, replaced)?;
    set_mode(file, old.mode() & MODE_BITS).map_err(LostAccess::of("mode"))
}

/// Returns an error if the file with the name `replaced` has access that a growing file cannot keep: the kernel clears
/// setuid, setgid and file capabilities at each write.
pub(crate) fn check_growing(replaced: &Path) -> Result<(), LostAccess> {
    let cleared = || io::Error::other("the kernel clears it at each write to a growing file");
    let Some(old) = fs::symlink_metadata(replaced).ok().filter(Metadata::is_file) else { return Ok(()) };
    if old.mode() & SET_ID_BITS != 0 {
        return Err(LostAccess::of("setuid or setgid bit")(cleared()));
    }
    match lgetxattr_query(replaced, CAPABILITIES) {
        Ok(_) => Err(LostAccess::of_attribute(CAPABILITIES)(cleared())),
        Err(_) => Ok(()),
    }
}

/// Makes a new file accessible to its owner only, with the rights of the replaced file's owner.
pub(crate) fn make_private(file: &File, mode: u32) -> io::Result<()> {
    set_mode(file, mode & PRIVATE_MODE)
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let is_set = || file.metadata().map(|new| new.mode() & MODE_BITS == mode);
    // A file system without permissions refuses to change them.
    if is_set()? {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    // The kernel clears setgid without an error if the user is not in the group.
    if is_set()? { Ok(()) } else { Err(Errno::PERM.into()) }
}

fn keep_owner(file: &File, new: &Metadata, old: &Metadata) -> Result<(), LostAccess> {
    let changed = |old: u32, new: u32| (old != new).then_some(old);
    match (changed(old.uid(), new.uid()), changed(old.gid(), new.gid())) {
        (None, None) => Ok(()),
        (owner, group) => {
            fchown(file, owner, group).map_err(LostAccess::of(if owner.is_some() { "owner" } else { "group" }))
        }
    }
}

/// Copies the extended attributes, and removes those that the replaced file does not have.
fn keep_attributes(file: &File, replaced: &Path) -> Result<(), LostAccess> {
    let names = || {
        let old = attribute_names(|| llistxattr_query(replaced), |list| llistxattr(replaced, list))?;
        Ok((old, attribute_names(|| flistxattr_query(file), |list| flistxattr(file, list))?))
    };
    let (mut old_names, mut new_names): (Vec<_>, Vec<_>) = names().map_err(LostAccess::of("extended attributes"))?;
    // A default ACL of the directory gives a new file an ACL. A security module labels it; such a label stays.
    new_names.retain(|name| !old_names.contains(name) && !name.to_bytes().starts_with(b"security."));
    for name in &new_names {
        fremovexattr(file, name).map_err(io::Error::from).map_err(LostAccess::of_attribute(name))?;
    }
    old_names.retain(|name| !CONTENT_HASHES.contains(&name.to_bytes()));
    old_names.sort_by_key(|name| name.to_bytes() == ACL);
    for name in &old_names {
        keep_attribute(file, replaced, name).map_err(io::Error::from).map_err(LostAccess::of_attribute(name))?;
    }
    Ok(())
}

fn keep_attribute(file: &File, replaced: &Path, name: &CStr) -> rustix::io::Result<()> {
    let old = read_whole(|| lgetxattr_query(replaced, name), |value| lgetxattr(replaced, name, value))?;
    let new = read_whole(|| fgetxattr_query(file, name), |value| fgetxattr(file, name, value));
    if new.is_ok_and(|new| new == old) { Ok(()) } else { fsetxattr(file, name, &old, XattrFlags::empty()) }
}

/// Returns the names of a list of extended attributes; none for a file system without them.
fn attribute_names(
    length: impl Fn() -> rustix::io::Result<usize>,
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Vec<CString>> {
    let list = match read_whole(length, read) {
        Err(Errno::NOTSUP | Errno::NOSYS) => Vec::new(),
        list => list?,
    };
    Ok(list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).flat_map(CString::new).collect())
}

/// Reads a list or a value that may change in length until it is read.
fn read_whole(
    length: impl Fn() -> rustix::io::Result<usize>,
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    loop {
        let mut bytes = vec![0; length()?];
        // Reading into an empty buffer would return the length.
        if bytes.is_empty() {
            return Ok(bytes);
        }
        match read(&mut bytes) {
            Ok(length) => {
                bytes.truncate(length);
                return Ok(bytes);
            }
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{OutputErrorKind, OutputFile, ProtectedInputFiles};

    /// Other outputs keep the bits: they are set after the last write.
    #[test]
    fn growing_file_refuses_setuid_and_setgid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        for (mode, is_kept) in [(0o755, true), (0o4755, false), (0o2755, false), (0o1755, true)] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let mut output = OutputFile::create(&path, &ProtectedInputFiles::default()).unwrap();
            output.write_all(b"new").unwrap();
            let result = output.publish();
            let is_refused = result.is_err_and(|error| matches!(error.kind(), OutputErrorKind::Access(_)));
            drop(output);
            let content = fs::read_to_string(&path).unwrap();
            assert_eq!((is_refused, content == "new"), (!is_kept, is_kept), "{mode:o}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & MODE_BITS, mode, "{mode:o}");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
