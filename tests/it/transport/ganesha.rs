//! nfs-ganesha, a user space NFS server, started for a test on the loopback interface and stopped with it.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::kerberos_realm::Realm;
use crate::skipped::{skip, skip_without};

/// Running server.
pub(super) struct Ganesha {
    command: Command,
    child: Child,
    rpcbind: Option<Child>,
    /// Lock held while the server is registered with the port mapper of this machine, which supports one of a kind.
    _alone: Option<File>,
    folder: PathBuf,
    /// Port of NFS.
    pub(super) port: u16,
    /// Port of MOUNT.
    pub(super) mount_port: u16,
}

/// Plugin directories of Debian's package.
const PLUGINS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/ganesha",
    "/usr/lib/aarch64-linux-gnu/ganesha",
    "/usr/lib/ganesha",
    "/usr/lib64/ganesha",
];

pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns an unused port.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

impl Ganesha {
    /// Starts a server with the export `/export`. Returns `None` with a message if it is not installed or may not
    /// serve.
    pub(super) fn start(has_v3: bool) -> Option<Self> {
        Self::start_in(None, has_v3, false)
    }

    /// Starts an NFSv4 server in a Kerberos realm that also accepts AUTH_SYS.
    pub(super) fn start_secure(realm: &Realm) -> Option<Self> {
        Self::start_in(Some(realm), false, false)
    }

    /// Starts an NFSv4 server with a grace period of five seconds after each start.
    pub(super) fn start_with_grace_period() -> Option<Self> {
        Self::start_in(None, false, true)
    }

    fn start_in(realm: Option<&Realm>, has_v3: bool, has_grace_period: bool) -> Option<Self> {
        let Some(program) = find("ganesha.nfsd") else {
            skip_without("ganesha.nfsd");
            return None;
        };
        let Some(plugins) = PLUGINS.iter().find(|folder| Path::new(folder).join("libfsalvfs.so").is_file()) else {
            skip("nfs-ganesha-vfs", "nfs-ganesha has no libfsalvfs.so");
            return None;
        };
        if !rustix::process::geteuid().is_root() {
            skip("root", "nfs-ganesha opens files by their handles, which needs root");
            return None;
        }
        let alone = has_v3.then(|| {
            let path = env::temp_dir().join("nfsrdma-inspect-ganesha.lock");
            let file = File::create(path).expect("a file to lock");
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
            file
        });
        let rpcbind = if has_v3 { Some(rpcbind()?) } else { None };
        let (port, mount_port) = (free_port(), free_port());
        let folder = env::temp_dir().join(format!("nfsrdma-inspect-ganesha-{}-{port}", std::process::id()));
        fs::create_dir_all(folder.join("export")).expect("a folder for the export");
        fs::create_dir_all(folder.join("recovery")).expect("a folder for the server's state");
        let mut settings = settings(&folder, plugins, port, mount_port, if has_v3 { "3,4" } else { "4" });
        if has_grace_period {
            let grace = "Graceless = false; Grace_Period = 5; Lease_Lifetime = 5;";
            settings = settings.replace("Graceless = true;", grace);
        }
        if let Some(realm) = realm {
            settings = settings.replace("SecType = sys;", "SecType = sys,krb5,krb5i,krb5p;");
            settings += &format!(
                "NFS_KRB5 {{ PrincipalName = nfs; KeytabPath = {}; Active_krb5 = true; }}\n",
                realm.server_keytab().display()
            );
        }
        fs::write(folder.join("ganesha.conf"), settings).expect("a file of settings");
        let output = File::create(folder.join("output")).expect("a file for the output");
        let mut command = Command::new(program);
        command
            .envs(realm.into_iter().flat_map(Realm::server_environment))
            .arg("-F")
            .args([Path::new("-f"), &folder.join("ganesha.conf")])
            .args([Path::new("-L"), &folder.join("log")])
            .args([Path::new("-p"), &folder.join("pid")])
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the same file"))
            .stderr(output);
        let child = spawned(&mut command);
        let mut server = Self { command, child, rpcbind: rpcbind.flatten(), _alone: alone, folder, port, mount_port };
        server.wait();
        Some(server)
    }

    /// Waits until it serves.
    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.try_wait().ok().flatten();
            assert!(ended.is_none() && Instant::now() < deadline, "ganesha.nfsd: {ended:?}\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        ["log", "output"].map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default()).join("\n")
    }

    /// Returns the exported folder.
    pub(super) fn export(&self) -> PathBuf {
        self.folder.join("export")
    }

    /// Kills the server and starts it again, which loses its security contexts.
    pub(super) fn restart(&mut self) {
        self.kill();
        self.child = spawned(&mut self.command);
        self.wait();
    }

    /// Kills the server.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawned(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|e| panic!("ganesha.nfsd does not start: {e}"))
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut rpcbind) = self.rpcbind.take() {
            let _ = rpcbind.kill();
            let _ = rpcbind.wait();
        }
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the port mapper that NFSv3 needs: a running one, or one started for the test. The outer `None`: there is
/// none.
fn rpcbind() -> Option<Option<Child>> {
    let is_there = || TcpStream::connect(("127.0.0.1", 111)).is_ok();
    if is_there() {
        return Some(None);
    }
    let Some(program) = find("rpcbind") else {
        skip_without("rpcbind");
        return None;
    };
    let mut child = Command::new(program)
        .arg("-f")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("rpcbind does not start: {e}"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_there() {
        if child.try_wait().ok().flatten().is_some() || Instant::now() > deadline {
            let _ = child.kill();
            skip("rpcbind", "rpcbind does not serve here");
            return None;
        }
        thread::sleep(Duration::from_millis(50));
    }
    Some(Some(child))
}

/// Returns the settings of a server of any version from 4.3 on. A server logs an unknown setting, and starts.
///
/// Version 6 does not start without the capability CAP_SYS_RESOURCE, which containers lack, unless it is configured to
/// continue.
fn settings(folder: &Path, plugins: &str, port: u16, mount_port: u16, protocols: &str) -> String {
    let folder = folder.display();
    format!(
        r#"NFS_CORE_PARAM {{ Protocols = {protocols}; NFS_Port = {port}; MNT_Port = {mount_port}; Bind_addr = 127.0.0.1;
  Enable_NLM = false; Enable_RQUOTA = false; Allow_Set_Io_Flusher_Fail = true; Plugins_Dir = "{plugins}"; }}
NFSV4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; Minor_Versions = 0,1,2; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = {protocols}; Transports = TCP; }}
EXPORT {{ Export_Id = 1; Path = "{folder}/export"; Pseudo = /export; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"#
    )
}
