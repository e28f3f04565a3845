//! Privileges: the error if they are missing, and dropping them.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use super::veth_link::{Capturing, RECEIVER, Wire};
use crate::skipped::skip;

const NOBODY: u32 = 65_534;

fn refused(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(2));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn capturing_without_rights_is_refused_with_a_remedy() {
    if Wire::new().is_none() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    command.args(["-i", "lo"]).uid(NOBODY).gid(NOBODY);
    let Ok(output) = command.output() else {
        skip("nobody", "the user nobody may not start the program where it is");
        return;
    };
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("lo: capturing needs the capability CAP_NET_RAW; run it with sudo, or once: sudo setcap cap_net_raw,cap_net_admin=eip /"), "{printed}");
}

#[test]
fn root_becomes_nobody_or_the_sudo_user_without_capabilities() {
    let Some(wire) = Wire::new() else { return };
    let arguments = ["-i", RECEIVER];
    let users = |program: &Capturing| {
        assert_eq!(program.status("CapEff"), "0000000000000000");
        assert_eq!(program.status("CapPrm"), "0000000000000000");
        program.status("Uid").split_whitespace().map(|id| id.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let program = wire.capture(&arguments);
    assert_eq!(users(&program), [NOBODY; 4]);
    assert_eq!(program.status("Groups"), program.status("Gid").split_whitespace().next().unwrap());
    program.interrupt();
    let mut sudo = wire.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
    sudo.args(arguments).env("SUDO_UID", "1234").env("SUDO_GID", "1234").env("SUDO_USER", "someone");
    let program = Capturing::start(sudo);
    assert_eq!(users(&program), [1234; 4]);
    program.interrupt();
    let program = wire.capture(&[&arguments[..], &["-Z", "root"]].concat());
    assert_eq!(program.status("Uid").split_whitespace().next(), Some("0"));
    program.interrupt();
}

#[test]
fn captures_that_cannot_start_are_refused_in_one_line() {
    let Some(wire) = Wire::new() else { return };
    let printed = |arguments: &[&str]| {
        let mut command = wire.command(env!("CARGO_BIN_EXE_nfsrdma-inspect"));
        command.args(arguments);
        refused(command)
    };
    assert_eq!(printed(&["-i", "no0"]), "nfsrdma-inspect: no0: no such interface; list them with -D\n");
    let filter = printed(&["-i", RECEIVER, "-f", "udp port nonsense("]);
    assert!(filter.contains(": -f: ") && filter.contains("pcap-filter") && filter.lines().count() == 1, "{filter}");
    let user = printed(&["-i", RECEIVER, "-Z", "no-such-user"]);
    assert!(user.contains("unknown user no-such-user"), "{user}");
    let both = printed(&["-i", RECEIVER, "some.pcap"]);
    assert!(both.contains("-i cannot be combined with capture files"), "{both}");
    let ring = printed(&["capture", "-i", RECEIVER, "-w", "x.pcapng", "-b", "files:3"]);
    assert!(ring.contains("needs a switch condition"), "{ring}");
}
