//! Owners of the seeded objects.

use rustc_hash::FxHashSet;

use super::file_server_client::{
    FileServerClient, FileServerClientError, FileServerResult, FileUserAndGroup, is_root_name,
};
use super::{SeedError, SeedObject, TreeSeeder, shorten};

/// Gives the objects to their captured owners, as far as the server lets root do so. New objects are root's already.
pub(super) fn set_owners<'o>(
    seeder: &mut TreeSeeder<'_>,
    objects: impl Iterator<Item = &'o SeedObject>,
    squashed_owner: Option<&FileUserAndGroup>,
) -> Result<(), SeedError> {
    let mut unset = UnsetOwners::default();
    for SeedObject { live_handle, owners: [owner, group], .. } in objects {
        let Some(live) = live_handle else { continue };
        let settable = |owner: &'o [u8]| Some(owner).filter(|name| !name.is_empty() && !is_root_name(name));
        let [owner, group] = [settable(owner), settable(group)];
        if owner.is_none() && group.is_none() {
            continue;
        }
        if squashed_owner.is_some() {
            unset.objects += 1;
            continue;
        }
        let is_set = unset.set_both(seeder.files, live, owner, group);
        unset.objects += u64::from(!is_set.map_err(|problem| SeedError::Server("owner".into(), problem))?);
    }
    if unset.objects > 0 {
        let reason = unset.reason.unwrap_or_else(|| "the export squashes root".into());
        seeder.refusals.push(format!("owner of {} objects: {reason}", unset.objects));
    }
    Ok(())
}

#[derive(Default)]
pub(super) struct UnsetOwners<'o> {
    /// Refused owners and groups. Each is refused for all objects, so that an owner of the captured server has one on
    /// the live server.
    refused: [FxHashSet<&'o [u8]>; 2],
    /// Number of objects with such an owner or group.
    objects: u64,
    pub(super) reason: Option<String>,
}

impl<'o> UnsetOwners<'o> {
    /// Sets owner and group; if the server refuses both, each alone. Returns `false` if one is not set.
    pub(super) fn set_both(
        &mut self,
        files: &mut dyn FileServerClient,
        live: &[u8],
        owner: Option<&'o [u8]>,
        group: Option<&'o [u8]>,
    ) -> FileServerResult<bool> {
        let [users, groups] = &self.refused;
        let accepted_owner = owner.filter(|name| !users.contains(name));
        let accepted_group = group.filter(|name| !groups.contains(name));
        let is_whole = (accepted_owner, accepted_group) == (owner, group);
        match (accepted_owner, accepted_group) {
            (None, None) => Ok(false),
            (Some(_), Some(_)) => match files.set_owners(live, accepted_owner, accepted_group) {
                Err(FileServerClientError::Refused(..)) => {
                    let is_owner_set = self.set_both(files, live, accepted_owner, None)?;
                    Ok(self.set_both(files, live, None, accepted_group)? && is_owner_set && is_whole)
                }
                result => result.map(|()| is_whole),
            },
            _ => match files.set_owners(live, accepted_owner, accepted_group) {
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
