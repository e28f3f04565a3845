//! Privileges required for capturing, and their removal after the capture is open.
//!
//! Opening a capture needs CAP_NET_RAW, and promiscuous mode CAP_NET_ADMIN. Reading packets needs neither, and a
//! program that decodes untrusted packets should run without privileges.

use std::env;
use std::fs;
use std::io;

use nix::unistd::{Gid, Uid, User};

/// Bits of capabilities(7).
const CAP_NET_RAW: u32 = 13;

/// The user that the process switches to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivilegeDropTarget {
    /// The process is not root; only its capabilities are dropped.
    SameUser,
    /// The process stays root.
    Root,
    /// The process switches to this user and group.
    User {
        /// User ID.
        uid: u32,
        /// Group ID.
        gid: u32,
        /// Name to display.
        name: String,
    },
    /// No such user exists.
    UnknownUser(String),
}

/// Returns the user to switch to: the user named `user_name`, else the caller of sudo, else `nobody` if
/// `nobody_will_do`, which says that the process needs no further access, not even to create a file. Otherwise the
/// process stays root.
pub fn target(user_name: Option<&str>, nobody_will_do: bool) -> PrivilegeDropTarget {
    if !Uid::effective().is_root() {
        return PrivilegeDropTarget::SameUser;
    }
    let find_user = |name: &str| match User::from_name(name) {
        Ok(Some(user)) if user.uid.is_root() => PrivilegeDropTarget::Root,
        Ok(Some(user)) => PrivilegeDropTarget::User { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name },
        _ => PrivilegeDropTarget::UnknownUser(name.to_owned()),
    };
    if let Some(name) = user_name {
        return find_user(name);
    }
    let number = |key: &str| env::var(key).ok()?.parse::<u32>().ok().filter(|id| *id != 0);
    match (number("SUDO_UID"), number("SUDO_GID")) {
        (Some(uid), Some(gid)) => {
            let name = env::var("SUDO_USER").unwrap_or_else(|_| uid.to_string());
            PrivilegeDropTarget::User { uid, gid, name }
        }
        _ if nobody_will_do => find_user("nobody"),
        _ => PrivilegeDropTarget::Root,
    }
}

/// Returns `true` if the target user was chosen explicitly, by an option or by calling sudo.
pub fn is_target_chosen(wished: Option<&str>) -> bool {
    wished.is_some() || env::var("SUDO_UID").is_ok_and(|id| id.parse::<u32>().is_ok_and(|id| id != 0))
}

/// Drops all privileges that `target` does not have. Must be called before threads are started.
///
/// # Errors
/// Returns an error if the system refuses. Some privileges may have been dropped by then.
pub fn drop_privileges(target: &PrivilegeDropTarget) -> io::Result<()> {
    match target {
        PrivilegeDropTarget::Root => Ok(()),
        PrivilegeDropTarget::SameUser => drop_capabilities(),
        PrivilegeDropTarget::UnknownUser(name) => {
            Err(io::Error::new(io::ErrorKind::NotFound, format!("unknown user {name}")))
        }
        PrivilegeDropTarget::User { uid, gid, .. } => {
            let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
            become_user(uid, gid)?;
            // If root can be regained, nothing was dropped.
            match nix::unistd::setuid(Uid::from_raw(0)) {
                Ok(()) => Err(io::Error::other("root privileges could be regained")),
                Err(_) => drop_capabilities(),
            }
        }
    }
}

fn become_user(uid: Uid, gid: Gid) -> io::Result<()> {
    #[cfg(not(any(target_os = "macos", target_os = "ios")))]
    nix::unistd::setgroups(&[gid])?;
    nix::unistd::setgid(gid)?;
    nix::unistd::setuid(uid)?;
    Ok(())
}

/// Drops all capabilities, including those granted by setcap.
fn drop_capabilities() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    }
    Ok(())
}

/// Returns the capability that capturing needs and this process lacks; `None` if it has it or this is unknown.
pub fn missing_capability() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    lacks_capability(&status, CAP_NET_RAW).then_some("CAP_NET_RAW")
}

/// Returns `true` if the text of `/proc/self/status` lacks a capability in its effective set.
fn lacks_capability(status: &str, capability: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    effective.is_some_and(|effective| effective & (1 << capability) == 0)
}

/// Returns the remedy for missing privileges.
pub fn remedy() -> String {
    if Uid::effective().is_root() {
        return "root lacks it here, as in a container: start that with --cap-add NET_RAW --cap-add NET_ADMIN"
            .to_owned();
    }
    let program = env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.unwrap_or_else(|| "PATH/TO/nfsrdma-inspect".to_owned());
    format!("run it with sudo, or once: sudo setcap cap_net_raw,cap_net_admin=eip {program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_read_from_the_effective_set() {
        let status = |effective: &str| format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\n");
        assert!(!lacks_capability(&status("000001ffffffffff"), CAP_NET_RAW));
        assert!(!lacks_capability(&status("0000000000003000"), CAP_NET_RAW));
        assert!(lacks_capability(&status("0000000000001000"), CAP_NET_RAW));
        assert!(lacks_capability(&status("0000000000000000"), CAP_NET_RAW));
        // Without the line, no capability is known to be missing.
        assert!(!lacks_capability("Name:\tx\n", CAP_NET_RAW));
    }
}
