//! Owners of the seeded objects.

use rustc_hash::FxHashSet;

use super::file_server_client::{
    FileServerClientError, FileServerClientResult, VersionIndependentNfsClient, is_root_name,
};

/// Gives objects to their captured owners and groups, as far as the server lets root do so. New objects are root's
/// already. Returns a description of the objects that have other owners, if there are any.
pub(super) fn set_owners<'o>(
    files: &mut dyn VersionIndependentNfsClient,
    objects: impl Iterator<Item = (&'o [u8], &'o [Box<[u8]>; 2])>,
    squashes_root: bool,
) -> FileServerClientResult<Option<String>> {
    let mut unset = RefusedFileOwners::default();
    for (live, [owner, group]) in objects {
        let settable = |owner: &'o [u8]| Some(owner).filter(|name| !name.is_empty() && !is_root_name(name));
        let [owner, group] = [settable(owner), settable(group)];
        if owner.is_some() || group.is_some() {
            let is_set = !squashes_root && unset.set_both(files, live, owner, group)?;
            unset.objects += u64::from(!is_set);
        }
    }
    let reason = unset.reason.unwrap_or_else(|| "the export squashes root".into());
    Ok((unset.objects > 0).then(|| format!("owner of {} objects: {reason}", unset.objects)))
}

/// Returns `true` if the server refuses an owner as it may. If it fails or the protocol is broken, other owners would
/// find the same.
fn is_refusal(error: &FileServerClientError) -> bool {
    error.blame().is_none() && !error.is_server_failure()
}

#[derive(Default)]
pub(super) struct RefusedFileOwners<'o> {
    /// Refused owners and groups. Each is refused for all objects, so that an owner of the captured server has one on
    /// the live server.
    refused: [FxHashSet<&'o [u8]>; 2],
    /// Number of objects with such an owner or group.
    objects: u64,
    pub(super) reason: Option<String>,
}

impl<'o> RefusedFileOwners<'o> {
    /// Sets owner and group; if the server refuses both, each alone. Returns `false` if one is not set.
    pub(super) fn set_both(
        &mut self,
        files: &mut dyn VersionIndependentNfsClient,
        live: &[u8],
        owner: Option<&'o [u8]>,
        group: Option<&'o [u8]>,
    ) -> FileServerClientResult<bool> {
        let [users, groups] = &self.refused;
        let accepted_owner = owner.filter(|name| !users.contains(name));
        let accepted_group = group.filter(|name| !groups.contains(name));
        let is_whole = (accepted_owner, accepted_group) == (owner, group);
        match (accepted_owner, accepted_group) {
            (None, None) => Ok(false),
            (Some(_), Some(_)) => match files.set_owners(live, accepted_owner, accepted_group) {
                Err(error) if is_refusal(&error) => {
                    let is_owner_set = self.set_both(files, live, accepted_owner, None)?;
                    Ok(self.set_both(files, live, None, accepted_group)? && is_owner_set && is_whole)
                }
                result => result.map(|()| is_whole),
            },
            _ => match files.set_owners(live, accepted_owner, accepted_group) {
                Err(error) if !is_refusal(&error) => Err(error),
                Err(FileServerClientError::Refused(operation, reason)) => {
                    let name = accepted_owner.or(accepted_group).unwrap_or_default();
                    self.reason.get_or_insert_with(|| {
                        let name = String::from_utf8_lossy(name);
                        format!("{:?}: {operation}: {reason}", shorten(&name))
                    });
                    let [users, groups] = &mut self.refused;
                    users.extend(accepted_owner);
                    groups.extend(accepted_group);
                    Ok(false)
                }
                result => result.map(|()| is_whole),
            },
        }
    }
}

/// Shortens a name to 40 characters for display.
pub(super) fn shorten(name: &str) -> String {
    match name.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", name.get(..at).unwrap_or_default()),
        None => name.to_owned(),
    }
}
