//! Kerberos realm with its own key distribution centre on the loopback interface, stopped with its test.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::ganesha::{find, free_port};
use crate::skipped::skip_without;

/// Realm with the service `nfs` of localhost, and the user `somebody`, whom no server knows.
pub(super) struct Realm {
    centre: Child,
    folder: PathBuf,
}

impl Realm {
    /// Creates a realm. Returns `None` with a message if Kerberos is not installed.
    pub(super) fn new() -> Option<Self> {
        let programs = [find("kdb5_util"), find("kadmin.local"), find("krb5kdc")];
        let [Some(database), Some(admin), Some(centre)] = programs else {
            skip_without("krb5kdc");
            return None;
        };
        let port = free_port();
        let folder = env::temp_dir().join(format!("nfsrdma-inspect-realm-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the realm");
        let place = folder.display();
        let client = format!(
            "[libdefaults]\n default_realm = TEST\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n \
             rdns = false\n[realms]\n TEST = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        );
        let server = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n TEST = {{\n  \
             database_name = {place}/principal\n  key_stash_file = {place}/stash\n }}\n"
        );
        fs::write(folder.join("krb5.conf"), client).expect("a file of settings");
        fs::write(folder.join("kdc.conf"), server).expect("a file of settings");
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).envs(environment(&folder)).args(arguments).output();
            let output = output.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run(&database, &["create", "-s", "-P", "of no use"]);
        for (principal, keytab) in [("nfs/localhost", "server.keytab"), ("somebody", "client.keytab")] {
            run(&admin, &["-q", &format!("addprinc -randkey {principal}")]);
            run(&admin, &["-q", &format!("ktadd -k {place}/{keytab} {principal}")]);
        }
        let output = File::create(folder.join("output")).expect("a file for the output");
        let centre = Command::new(centre)
            .envs(environment(&folder))
            .args(["-n", "-P"])
            .arg(folder.join("pid"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the same file"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|e| panic!("krb5kdc does not start: {e}"));
        let mut realm = Self { centre, folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = realm.centre.try_wait().ok().flatten();
            assert!(ended.is_none() && Instant::now() < deadline, "krb5kdc: {ended:?}");
            thread::sleep(Duration::from_millis(50));
        }
        Some(realm)
    }

    /// Returns the keytab of the service.
    pub(super) fn server_keytab(&self) -> PathBuf {
        self.folder.join("server.keytab")
    }

    /// Returns the environment of the service.
    pub(super) fn server_environment(&self) -> Vec<(&'static str, PathBuf)> {
        let mut environment = environment(&self.folder);
        environment.push(("KRB5_KTNAME", self.server_keytab()));
        environment
    }

    /// Returns the environment of a client: without a ticket, and with the keys to get one.
    pub(super) fn client_environment(&self) -> Vec<(&'static str, PathBuf)> {
        self.environment_of("tickets", "client.keytab")
    }

    /// Returns the environment of a user unknown in the realm.
    pub(super) fn strangers_environment(&self) -> Vec<(&'static str, PathBuf)> {
        self.environment_of("no-tickets", "no-keytab")
    }

    fn environment_of(&self, tickets: &str, keytab: &str) -> Vec<(&'static str, PathBuf)> {
        let mut environment = environment(&self.folder);
        environment.push(("KRB5CCNAME", self.folder.join(tickets)));
        environment.push(("KRB5_CLIENT_KTNAME", self.folder.join(keytab)));
        environment
    }
}

fn environment(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    vec![("KRB5_CONFIG", folder.join("krb5.conf")), ("KRB5_KDC_PROFILE", folder.join("kdc.conf"))]
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = self.centre.kill();
        let _ = self.centre.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
