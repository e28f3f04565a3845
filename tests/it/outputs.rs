//! Matrix of output files: every output option × every failure. No cell loses an existing file, and none leaves a
//! partial file under the final name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output as Ended, Stdio};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_analysis::baseline::OpenBaselineFile;
use nfsrdma_capture_file::CaptureFrameSource;
use nfsrdma_dissectors::xdr::Cursor;
use nfsrdma_mock_server::server::{MockReply, MockServer};
use nfsrdma_replay::trace::ReplayTraceReader;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, llistxattr, mknodat, setxattr};

use super::captures;
use super::skipped::skip;

/// Capture that is read completely.
const CAPTURE: &str = "rxe-v42-deleg";
/// Capture of which half is read through a FIFO: larger than the FIFO.
const LONG_CAPTURE: &str = "rxe-v42";
/// Content of an existing file at the path of an output: a page of memory, so that it fills a file system of one page.
/// It begins as a baseline does, because `check --bless` replaces no other file.
const OLD: [u8; 4096] = {
    let (mut bytes, head) = ([b'o'; 4096], b"nfsrdma-inspect baseline ");
    let mut at = 0;
    while at < head.len() {
        bytes[at] = head[at];
        at += 1;
    }
    bytes
};
/// Timeout of the program.
const PATIENCE: Duration = Duration::from_secs(60);

const PCAPNG: fn(&[u8]) -> bool = |bytes| {
    let mut source = CaptureFrameSource::from_reader("output", std::io::Cursor::new(bytes.to_vec()));
    loop {
        match source.next() {
            Ok(Some(_)) => {}
            Ok(None) => return !bytes.is_empty(),
            Err(_) => return false,
        }
    }
};
const TRACE: fn(&[u8]) -> bool = |bytes| {
    let file = captures::Temporary::new(&format!("whole-{}.trace", unique()), bytes);
    ReplayTraceReader::open(File::open(file.path()).unwrap()).is_ok()
};
const XML: fn(&[u8]) -> bool = |bytes| {
    let text = String::from_utf8_lossy(bytes);
    text.contains("<testcase ") && text.trim_end().ends_with("</testsuites>")
};
const HTML: fn(&[u8]) -> bool = |bytes| bytes.trim_ascii_end().ends_with(b"</html>");
const RULES: fn(&[u8]) -> bool = |bytes| bytes.starts_with(b"#") && bytes.ends_with(b"\n");
const BASELINE: fn(&[u8]) -> bool = |bytes| {
    let file = captures::Temporary::new(&format!("whole-{}.baseline", unique()), bytes);
    OpenBaselineFile::new(File::open(file.path()).unwrap()).read(64 << 20).is_ok()
};
#[cfg(feature = "parquet")]
const PARQUET: fn(&[u8]) -> bool = |bytes| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1");

/// An output option.
struct Output {
    name: &'static str,
    /// Arguments; `IN`, `OUT` and `URL` are replaced.
    arguments: &'static [&'static str],
    /// Path of OUT in the folder.
    out: &'static str,
    /// Input files, the first of which is IN.
    inputs: &'static [&'static str],
    /// Predicate for a complete file.
    is_whole: fn(&[u8]) -> bool,
    /// `true` if the file is not written sequentially, so that a FIFO is refused.
    seeks: bool,
}

const OUTPUTS: &[Output] = &[
    Output {
        name: "-w",
        arguments: &["-w", "OUT", "IN"],
        out: "out",
        inputs: &["in.pcap"],
        is_whole: PCAPNG,
        seeks: false,
    },
    Output {
        name: "replay compile -o",
        arguments: &["replay", "compile", "IN", "-o", "OUT"],
        out: "out",
        inputs: &["in.pcap"],
        is_whole: TRACE,
        seeks: true,
    },
    Output {
        name: "check --junit",
        arguments: &["check", "--junit", "OUT", "IN"],
        out: "out",
        inputs: &["in.pcap", "in.pcap.baseline"],
        is_whole: XML,
        seeks: false,
    },
    Output {
        name: "lint --junit",
        arguments: &["lint", "--config", "config", "--junit", "OUT", "IN"],
        out: "out",
        inputs: &["in.pcap", "config"],
        is_whole: XML,
        seeks: false,
    },
    Output {
        name: "check --bless",
        arguments: &["check", "--bless", "IN"],
        out: "in.pcap.baseline",
        inputs: &["in.pcap"],
        is_whole: BASELINE,
        seeks: false,
    },
    #[cfg(feature = "parquet")]
    Output {
        name: "export --to",
        arguments: &["export", "--to", "tables", "IN"],
        out: "tables/transactions/capture=in.pcap/part-0.parquet",
        inputs: &["in.pcap"],
        is_whole: PARQUET,
        seeks: false,
    },
    Output {
        name: "replay --html",
        arguments: &["replay", "IN", "--server", "URL", "--rules", "rules", "--html", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: HTML,
        seeks: false,
    },
    Output {
        name: "replay --junit",
        arguments: &["replay", "IN", "--server", "URL", "--rules", "rules", "--junit", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: XML,
        seeks: false,
    },
    Output {
        name: "replay --record",
        arguments: &["replay", "IN", "--server", "URL", "--rules", "rules", "--record", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: TRACE,
        seeks: true,
    },
    Output {
        name: "replay run --html",
        arguments: &["replay", "run", "IN", "--server", "URL", "--rules", "rules", "--html", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: HTML,
        seeks: false,
    },
    Output {
        name: "replay run --junit",
        arguments: &["replay", "run", "IN", "--server", "URL", "--rules", "rules", "--junit", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: XML,
        seeks: false,
    },
    Output {
        name: "replay run --record",
        arguments: &["replay", "run", "IN", "--server", "URL", "--rules", "rules", "--record", "OUT"],
        out: "out",
        inputs: &["in.trace", "rules"],
        is_whole: TRACE,
        seeks: true,
    },
    Output {
        name: "replay learn -o",
        arguments: &["replay", "learn", "IN", "--server", "URL", "-o", "OUT"],
        out: "out",
        inputs: &["in.trace"],
        is_whole: RULES,
        seeks: false,
    },
    Output {
        name: "check --server --junit",
        arguments: &["check", "IN", "--server", "URL", "--rules", "rules", "--junit", "OUT"],
        out: "out",
        inputs: &["in.pcap", "rules", "in.pcap.baseline"],
        is_whole: XML,
        seeks: false,
    },
    Output {
        name: "check --server --html",
        arguments: &["check", "IN", "--server", "URL", "--rules", "rules", "--html", "OUT"],
        out: "out",
        inputs: &["in.pcap", "rules", "in.pcap.baseline"],
        is_whole: HTML,
        seeks: false,
    },
    Output {
        name: "check --server --record",
        arguments: &["check", "IN", "--server", "URL", "--rules", "rules", "--record", "OUT"],
        out: "out",
        inputs: &["in.pcap", "rules", "in.pcap.baseline"],
        is_whole: TRACE,
        seeks: true,
    },
];

impl Output {
    fn needs_server(&self) -> bool {
        self.arguments.contains(&"URL")
    }

    /// Returns `true` if OUT can be chosen freely.
    fn is_named(&self) -> bool {
        self.arguments.contains(&"OUT")
    }
}

fn unique() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// TCP server that answers a number of Calls, and then keeps its connections open without answering.
struct Standin {
    address: SocketAddr,
    calls: Arc<AtomicI64>,
}

impl Standin {
    fn start(answers: i64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (server, calls) = (Arc::new(Mutex::new(MockServer::default())), Arc::<AtomicI64>::default());
        let counted = Arc::clone(&calls);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, calls) = (Arc::clone(&server), Arc::clone(&counted));
                thread::spawn(move || serve(stream.unwrap(), &server, &calls, answers));
            }
        });
        Self { address, calls }
    }
}

fn serve(mut stream: TcpStream, server: &Mutex<MockServer>, calls: &AtomicI64, answers: i64) -> Option<()> {
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).ok()?;
        let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut call).ok()?;
        if calls.fetch_add(1, Ordering::Relaxed) >= answers {
            continue;
        }
        let mut answer = MockReply::default();
        server.lock().unwrap().call(Cursor::new(&call), &mut answer);
        let reply = answer.complete_message();
        let mark = 0x8000_0000 | reply.len() as u32;
        stream.write_all(&[&mark.to_be_bytes()[..], &reply].concat()).ok()?;
    }
}

/// Folder with inputs, for one output.
struct Cell<'o> {
    output: &'o Output,
    folder: PathBuf,
    url: String,
    server: Option<Standin>,
}

impl Drop for Cell<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn program() -> Command {
    // Under nohup, SIGHUP is ignored, and in the background of a shell SIGINT: the program inherits that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT", env!("CARGO_BIN_EXE_nfsrdma-inspect")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the inputs, created once: a capture, its baseline, and its trace.
fn inputs() -> &'static BTreeMap<&'static str, Vec<u8>> {
    static INPUTS: std::sync::OnceLock<BTreeMap<&'static str, Vec<u8>>> = std::sync::OnceLock::new();
    INPUTS.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("nfsrdma-outputs-{}-inputs", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("in.pcap"), captures::bytes(CAPTURE)).unwrap();
        for arguments in [&["check", "--bless", "in.pcap"][..], &["replay", "compile", "in.pcap", "-o", "in.trace"]] {
            let ended = program().args(arguments).current_dir(&folder).output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
        }
        let read = |name: &'static str| (name, fs::read(folder.join(name)).unwrap());
        let mut found: BTreeMap<_, _> = ["in.pcap", "in.pcap.baseline", "in.trace"].map(read).into();
        found.insert("rules", b"# no rules\n".to_vec());
        found.insert("config", b"deny = []\n".to_vec());
        fs::remove_dir_all(&folder).unwrap();
        found
    })
}

/// Number of Calls answered before a server becomes silent: in the middle of the run.
const SOME: i64 = 60;

impl<'o> Cell<'o> {
    fn new(output: &'o Output, answers: i64) -> Self {
        let folder = std::env::temp_dir().join(format!("nfsrdma-outputs-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(folder.join(output.out).parent().unwrap()).unwrap();
        for (name, bytes) in inputs() {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let server = output.needs_server().then(|| Standin::start(answers));
        let url = server.as_ref().map(|server| format!("tcp://{}/", server.address)).unwrap_or_default();
        Self { output, folder, url, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn out(&self) -> PathBuf {
        self.path(self.output.out)
    }

    /// Creates a file at the path of the output.
    fn old(&self) {
        fs::write(self.out(), OLD).unwrap();
        fs::set_permissions(self.out(), fs::Permissions::from_mode(0o640)).unwrap();
    }

    fn arguments(&self, input: &str, out: &str) -> Vec<String> {
        let replaced = |word: &&str| match *word {
            "IN" => input.to_owned(),
            "OUT" => out.to_owned(),
            "URL" => self.url.clone(),
            word => word.to_owned(),
        };
        self.output.arguments.iter().map(replaced).collect()
    }

    fn command(&self) -> Command {
        let mut command = program();
        command.args(self.arguments(self.output.inputs[0], self.output.out)).current_dir(&self.folder);
        command
    }

    /// Returns the content and type of every file below the folder.
    fn all(&self) -> BTreeMap<String, Found> {
        let (mut found, mut left) = (BTreeMap::new(), vec![self.folder.clone()]);
        while let Some(path) = left.pop() {
            let about = fs::symlink_metadata(&path).unwrap();
            let what = match about.file_type() {
                kind if kind.is_dir() => {
                    left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                    continue;
                }
                kind if kind.is_symlink() => Found::Link(fs::read_link(&path).unwrap()),
                kind if kind.is_file() => Found::File(fs::read(&path).unwrap()),
                _ => Found::Special(about.mode(), about.rdev()),
            };
            found.insert(path.strip_prefix(&self.folder).unwrap().to_str().unwrap().to_owned(), what);
        }
        found
    }

    /// Returns the faults of the folder, compared with `before`. Only the output may change, and must be complete; new
    /// files must have names of unfinished files, if they are allowed at all.
    fn faults(&self, before: &BTreeMap<String, Found>, may_leave: bool) -> Vec<String> {
        let after = self.all();
        let mut faults = Vec::new();
        for (name, then) in before {
            let now = after.get(name);
            let is_out = name == self.output.out;
            match now {
                Some(now) if now == then => {}
                None => faults.push(format!("{name} is gone")),
                Some(Found::File(bytes)) if is_out && matches!(then, Found::File(_)) => {
                    if !(self.output.is_whole)(bytes) {
                        faults.push(format!("{name} has {} bytes that are not whole", bytes.len()));
                    }
                }
                Some(now) => faults.push(format!("{name} was {then} and is {now}")),
            }
        }
        for (name, now) in &after {
            let last = name.rsplit('/').next().unwrap();
            match now {
                _ if before.contains_key(name) => {}
                _ if last.starts_with('.') && last.ends_with(".unfinished") && may_leave => {}
                Found::File(bytes) if name == self.output.out && (self.output.is_whole)(bytes) => {}
                // The other tables.
                Found::File(bytes) if name.starts_with("tables/") && bytes.ends_with(b"PAR1") => {}
                now => faults.push(format!("{name} is left: {now}")),
            }
        }
        faults
    }
}

#[derive(PartialEq)]
enum Found {
    File(Vec<u8>),
    Link(PathBuf),
    /// Mode and device.
    Special(u32, u64),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(bytes) => {
                let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned();
                write!(f, "a file of {} bytes ({begin:?})", bytes.len())
            }
            Self::Link(to) => write!(f, "a link to {}", to.display()),
            Self::Special(mode, device) => write!(f, "special: {mode:o} {device:x}"),
        }
    }
}

/// Reports at the end which cells of a column fail.
#[derive(Default)]
struct Column(Vec<String>);

impl Column {
    fn note(&mut self, output: &Output, faults: impl IntoIterator<Item = String>) {
        self.0.extend(faults.into_iter().map(|fault| format!("{}: {fault}", output.name)));
    }

    fn end(self) {
        assert!(self.0.is_empty(), "{} faults:\n{}", self.0.len(), self.0.join("\n"));
    }
}

fn stderr(ended: &Ended) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// Returns the fault of a program that should have refused its output.
fn refused(ended: &Ended) -> Option<String> {
    let said = stderr(ended);
    let is_right = ended.status.code() == Some(2) && said.lines().filter(|line| !line.is_empty()).count() == 1;
    (!is_right).then(|| format!("not refused with one line: {}: {said}", ended.status))
}

#[test]
fn every_output_replaces_a_file_whole() {
    let mut column = Column::default();
    for output in OUTPUTS {
        let cell = Cell::new(output, i64::MAX);
        cell.old();
        let before = cell.all();
        let ended = cell.command().output().unwrap();
        column.note(output, cell.faults(&before, false));
        let bytes = fs::read(cell.out()).unwrap();
        if !matches!(ended.status.code(), Some(0 | 1)) || bytes == OLD {
            column.note(output, [format!("nothing was written: {}", stderr(&ended))]);
        }
    }
    column.end();
}

/// Extended attribute with the POSIX ACL of a file, and with that of files that are created in a folder.
const ACL: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// A POSIX ACL in the format of its extended attribute: rights of the owner, of a user, of the group, of another group,
/// the mask, and rights of everybody.
fn acl([owner, user, group, other_group, mask, everybody]: [u16; 6]) -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    let entries = [
        (1, owner, NONE),
        (2, user, 4711),
        (4, group, NONE),
        (8, other_group, 4712),
        (16, mask, NONE),
        (32, everybody, NONE),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&u32::to_le_bytes(id));
    }
    bytes
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

/// Access of a file: output of `stat`, `getfacl` and `getfattr`.
#[derive(Debug, PartialEq)]
struct Access {
    owner: u32,
    group: u32,
    mode: u32,
    attributes: BTreeMap<String, Vec<u8>>,
}

fn access(path: &Path) -> Access {
    let about = fs::symlink_metadata(path).unwrap();
    let mut list = vec![0; 4096];
    let length = llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let attributes = names.map(|name| {
        let name = String::from_utf8(name.to_vec()).unwrap();
        let mut value = vec![0; 4096];
        let length = lgetxattr(path, name.as_str(), &mut value[..]).unwrap();
        value.truncate(length);
        (name, value)
    });
    Access { owner: about.uid(), group: about.gid(), mode: about.mode() & 0o7777, attributes: attributes.collect() }
}

/// Returns `true` if the folder for temporary files has ACLs and attributes of users.
fn has_attributes() -> bool {
    let file = captures::Temporary::new("attributes", b"");
    let has =
        set_attribute(file.path(), ACL[0], &acl([6, 4, 4, 4, 4, 0])) && set_attribute(file.path(), "user.x", b"1");
    if !has {
        skip("xattr", "the folder for temporary files has no ACLs or no extended attributes");
    }
    has
}

fn with_umask(command: &Command, umask: u32) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("umask {umask:o}; exec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

#[test]
fn every_output_keeps_acl_and_attributes() {
    if !has_attributes() {
        return;
    }
    let mut column = Column::default();
    for output in OUTPUTS {
        // The mask hides rights of the group, and the folder would add some.
        for has_acl in [true, false] {
            let cell = Cell::new(output, i64::MAX);
            cell.old();
            assert!(set_attribute(&cell.out(), "user.origin", b"a colleague"));
            if has_acl {
                assert!(set_attribute(&cell.out(), ACL[0], &acl([6, 6, 6, 4, 4, 0])));
            }
            assert!(set_attribute(cell.out().parent().unwrap(), ACL[1], &acl([7, 7, 7, 7, 7, 7])));
            let before = access(&cell.out());
            let ended = with_umask(&cell.command(), 0).output().unwrap();
            let after = access(&cell.out());
            if fs::read(cell.out()).unwrap() == OLD {
                column.note(output, [format!("nothing was written: {}", stderr(&ended))]);
            }
            column.note(output, (before != after).then(|| format!("{before:?} became {after:?}")));
        }
    }
    column.end();
}

/// Modes, ACLs, owners, ACLs of the folder, umasks.
#[test]
fn no_access_grants_or_loses_a_right() {
    if !has_attributes() {
        return;
    }
    let output = &OUTPUTS[0];
    let is_root = rustix::process::geteuid().is_root();
    let acls = [None, Some([6, 6, 6, 4, 4, 0]), Some([6, 0, 0, 6, 6, 4]), Some([6, 4, 0, 0, 0, 0])];
    let mut column = Column::default();
    let mut cells = 0;
    for (mode, rights) in [0o600, 0o640, 0o604, 0o666, 0o620, 0o6755].into_iter().flat_map(|m| acls.map(|acl| (m, acl)))
    {
        for (owner, folder_acl, umask) in
            [(0, false, 0), (0, true, 0o077), (1, false, 0o777), (1, true, 0), (2, true, 0o022), (2, false, 0)]
        {
            let cell = Cell::new(output, i64::MAX);
            fs::write(cell.out(), OLD).unwrap();
            if is_root && owner > 0 {
                std::os::unix::fs::chown(cell.out(), (owner == 1).then_some(4710), Some(4712)).unwrap();
            }
            fs::set_permissions(cell.out(), fs::Permissions::from_mode(mode)).unwrap();
            if let Some(rights) = rights {
                assert!(set_attribute(&cell.out(), ACL[0], &acl(rights)));
            }
            if folder_acl {
                assert!(set_attribute(&cell.folder, ACL[1], &acl([7, 7, 7, 7, 7, 7])));
            }
            let before = access(&cell.out());
            let ended = with_umask(&cell.command(), umask).output().unwrap();
            let after = access(&cell.out());
            let about = format!("mode {mode:o}, ACL {rights:?}, owner {owner}, folder {folder_acl}, umask {umask:o}");
            if before != after || fs::read(cell.out()).unwrap() == OLD {
                column.note(output, [format!("{about}: {before:?} became {after:?}: {}", stderr(&ended))]);
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 144);
    column.end();
}

/// A file of another user that everybody may write, in a folder that everybody may write to.
#[test]
fn lost_owner_is_refused() {
    if !rustix::process::geteuid().is_root() {
        skip("root", "only root can make a file of another user");
        return;
    }
    let cell = Cell::new(&OUTPUTS[0], i64::MAX);
    cell.old();
    for path in [&cell.folder, &cell.out()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let as_nobody = |arguments: &[String]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_nfsrdma-inspect")]);
        command.args(arguments).current_dir(&cell.folder).output().unwrap()
    };
    if !as_nobody(&["--version".to_owned()]).status.success() {
        skip("nobody", "the user nobody may not start the program where it is");
        return;
    }
    let before = (access(&cell.out()), cell.all());
    let ended = as_nobody(&cell.arguments("in.pcap", "out"));
    assert_eq!(
        (ended.status.code(), stderr(&ended).as_str()),
        (
            Some(2),
            "nfsrdma-inspect: out: cannot be replaced: its owner cannot be kept: operation not permitted; \
             remove it, or name another file\n"
        )
    );
    assert!((access(&cell.out()), cell.all()) == before, "something changed");
}

#[test]
fn new_files_are_private() {
    let mut column = Column::default();
    for output in OUTPUTS {
        // Without rights of its owner, nobody but root can write to a new folder.
        for umask in [0, if output.name.starts_with("export") { 0o077 } else { 0o777 }] {
            let cell = Cell::new(output, i64::MAX);
            let _ = fs::remove_file(cell.out());
            let before = cell.all();
            let ended = with_umask(&cell.command(), umask).output().unwrap();
            let after = cell.all();
            let new: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
            if new.is_empty() {
                column.note(output, [format!("umask {umask:o}: nothing was written: {}", stderr(&ended))]);
            }
            for name in new {
                let mode = access(&cell.path(name)).mode;
                column.note(output, (mode != 0o600).then(|| format!("umask {umask:o}: {name}: mode {mode:o}")));
                let path = cell.path(name);
                for folder in path.ancestors().skip(1).take_while(|folder| **folder != cell.folder) {
                    let mode = access(folder).mode;
                    // Some were there before.
                    let is_open = mode & 0o022 != 0;
                    column.note(output, is_open.then(|| format!("umask {umask:o}: {folder:?}: mode {mode:o}")));
                }
            }
        }
    }
    column.end();
}

/// The input ends within a frame or a block. A report states that; no other output replaces an older one.
#[test]
fn cut_input_replaces_nothing() {
    let mut column = Column::default();
    for output in OUTPUTS {
        let is_report = ["--junit", "--html"].iter().any(|option| output.name.ends_with(option));
        for is_new in [false, true] {
            let cell = Cell::new(output, i64::MAX);
            let input = cell.path(output.inputs[0]);
            let bytes = fs::read(&input).unwrap();
            fs::write(&input, &bytes[..bytes.len() * 3 / 4 + 1]).unwrap();
            match is_new {
                true => _ = fs::remove_file(cell.out()),
                false => cell.old(),
            }
            let before = cell.all();
            let ended = cell.command().output().unwrap();
            column.note(output, cell.faults(&before, false));
            let is_replaced = !is_new && fs::read(cell.out()).unwrap() != OLD;
            column.note(output, (is_replaced != (is_report && !is_new)).then(|| format!("replaced: {is_replaced}")));
            column.note(
                output,
                (ended.status.code() != Some(2)).then(|| format!("{}: {}", ended.status, stderr(&ended))),
            );
        }
    }
    column.end();
}

/// Input of a pipe cannot be read again.
#[test]
fn part_of_a_pipe_is_kept() {
    let bytes = captures::bytes(LONG_CAPTURE);
    for (is_new, arguments) in
        [true, false].into_iter().flat_map(|is_new| [&OUTPUTS[0], &OUTPUTS[1]].map(|output| (is_new, output)))
    {
        let cell = Cell::new(arguments, i64::MAX);
        if !is_new {
            cell.old();
        }
        let mut command = program();
        command.args(cell.arguments("-", "out")).current_dir(&cell.folder).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        to.write_all(&bytes[..bytes.len() / 2 + 1]).unwrap();
        drop(to);
        let ended = child.wait_with_output().unwrap();
        let said = stderr(&ended);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        if is_new {
            assert!((arguments.is_whole)(&fs::read(cell.out()).unwrap()), "{said}");
            continue;
        }
        assert!(fs::read(cell.out()).unwrap() == OLD, "{said}");
        let (_, kept) =
            said.split_once("out: not replaced: the input was not read to its end; what was read is ").unwrap();
        let kept = cell.path(kept.lines().next().unwrap());
        assert!((arguments.is_whole)(&fs::read(&kept).unwrap()), "{said}");
        assert_eq!(access(&kept).mode, 0o600);
    }
}

/// A file system without space for one more byte, in its own mount namespace.
#[test]
fn a_full_disk_loses_nothing() {
    let probe = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !probe.as_ref().is_ok_and(|ended| ended.status.success()) {
        skip("unshare", format_args!("a full disk needs mount namespaces (unshare -rm): {probe:?}"));
        return;
    }
    let mut column = Column::default();
    for output in OUTPUTS {
        let cell = Cell::new(output, i64::MAX);
        let (disk, seed) = (cell.path("disk"), cell.path("seed"));
        let out = if output.is_named() { "disk/out" } else { &*format!("disk/{}", output.out) };
        for root in [&disk, &seed] {
            fs::create_dir_all(root.join(output.out).parent().unwrap()).unwrap();
        }
        let place = seed.join(Path::new(out).strip_prefix("disk").unwrap());
        fs::write(&place, OLD).unwrap();
        // A baseline is next to its capture.
        symlink("../in.pcap", seed.join("in.pcap")).unwrap();
        let input = if output.is_named() { output.inputs[0] } else { "disk/in.pcap" };
        let mut arguments = cell.arguments(input, out);
        for argument in &mut arguments {
            if argument == "tables" {
                *argument = "disk/tables".into();
            }
        }
        let script = "mount -t tmpfs -o size=4k tmpfs disk && cp -a seed/. disk/ || exit 99; \
            \"$@\"; code=$?; mkdir result; cp -a disk/. result/; exit $code";
        let ended = Command::new("unshare")
            .args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_nfsrdma-inspect")])
            .args(arguments)
            .current_dir(&cell.folder)
            .output()
            .unwrap();
        let after = fs::read(cell.path("result").join(Path::new(out).strip_prefix("disk").unwrap()));
        if ended.status.code() != Some(2) || !stderr(&ended).to_lowercase().contains("no space left") {
            column.note(output, [format!("{}: {}", ended.status, stderr(&ended))]);
        }
        if after.as_deref().ok() != Some(&OLD) {
            let what = after.map(|bytes| format!("{} bytes", bytes.len())).unwrap_or_else(|e| e.to_string());
            column.note(output, [format!("the old file is lost: {what}")]);
        }
        let result = Command::new("find").args([".", "-type", "f"]).current_dir(cell.path("result")).output();
        let names = String::from_utf8(result.unwrap().stdout).unwrap();
        if names.lines().count() != 1 {
            column.note(output, [format!("left: {names:?}")]);
        }
    }
    column.end();
}

/// Starts the program and waits until it is in the middle of its work: half of a capture is read, or a server is
/// silent.
fn in_the_middle(cell: &Cell<'_>) -> (Child, Option<File>) {
    let output = cell.output;
    let mut command = cell.command();
    let mut feed = None;
    if !output.needs_server() {
        let fifo = cell.path(output.inputs[0]);
        fs::remove_file(&fifo).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let child = command.spawn().unwrap();
        let mut to = File::options().write(true).open(&fifo).unwrap();
        let bytes = captures::bytes(LONG_CAPTURE);
        // Returns when all is read except the content of the FIFO.
        to.write_all(&bytes[..bytes.len() / 2]).unwrap();
        feed = Some(to);
        return (child, feed);
    }
    let child = command.spawn().unwrap();
    let server = cell.server.as_ref().unwrap();
    let start = Instant::now();
    while server.calls.load(Ordering::Relaxed) <= SOME {
        assert!(start.elapsed() < PATIENCE, "{}: the server was not asked", output.name);
        thread::sleep(Duration::from_millis(5));
    }
    (child, feed)
}

fn wait(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

fn signals(signal: Signal) {
    let mut column = Column::default();
    // Those with a server wait for the timeout.
    let faults: Vec<Vec<String>> = thread::scope(|scope| {
        let cells: Vec<_> = OUTPUTS.iter().map(|output| scope.spawn(|| signalled(output, signal))).collect();
        cells.into_iter().map(|cell| cell.join().unwrap()).collect()
    });
    OUTPUTS.iter().zip(faults).for_each(|(output, faults)| column.note(output, faults));
    column.end();
}

/// Returns the faults after a signal in the middle.
fn signalled(output: &Output, signal: Signal) -> Vec<String> {
    let cell = Cell::new(output, SOME);
    cell.old();
    let mut before = cell.all();
    if !output.needs_server() {
        // It becomes a FIFO.
        before.remove(output.inputs[0]);
    }
    let (mut child, feed) = in_the_middle(&cell);
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let does_end = wait(&mut child);
    drop(feed);
    let mut faults = cell.faults(&before, signal == Signal::SIGKILL);
    faults.retain(|fault| !fault.starts_with(&format!("{} is left: special", output.inputs[0])));
    faults.extend((!does_end).then(|| "does not end".to_owned()));
    faults
}

#[test]
fn sigint_loses_nothing_and_leaves_nothing() {
    signals(Signal::SIGINT);
}

#[test]
fn sigterm_loses_nothing_and_leaves_nothing() {
    signals(Signal::SIGTERM);
}

#[test]
fn sighup_loses_nothing_and_leaves_nothing() {
    signals(Signal::SIGHUP);
}

#[test]
fn sigkill_loses_nothing_and_leaves_no_half_file_under_the_final_name() {
    signals(Signal::SIGKILL);
}

/// Uses each of the inputs as output, under another name.
fn input_as_output(name: &str, link: impl Fn(&Path, &Path)) {
    let mut column = Column::default();
    for output in OUTPUTS {
        for input in output.inputs {
            let cell = Cell::new(output, i64::MAX);
            let _ = fs::remove_file(cell.out());
            link(&cell.path(input), &cell.out());
            let before = cell.all();
            let ended = cell.command().output().unwrap();
            let about = |fault| format!("{name} {input}: {fault}");
            column.note(output, cell.faults(&before, false).into_iter().map(about));
            column.note(output, refused(&ended).into_iter().map(about));
            // Not even replaced by a file with the same content.
            if cell.all() != before {
                column.note(output, [about("is another file".to_owned())]);
            }
        }
    }
    column.end();
}

#[test]
fn a_hard_link_of_an_input_is_not_written_to() {
    input_as_output("hard link of", |input, out| {
        // A baseline is its own link.
        if input != out && input.exists() {
            fs::hard_link(input, out).unwrap();
        }
    });
}

#[test]
fn a_symbolic_link_to_an_input_is_not_written_through() {
    input_as_output("symbolic link to", |input, out| {
        if input != out && input.exists() {
            symlink(input, out).unwrap();
        }
    });
}

#[test]
fn an_input_is_not_written_to_under_its_own_name() {
    let mut column = Column::default();
    for output in OUTPUTS.iter().filter(|output| output.is_named()) {
        for input in output.inputs {
            let cell = Cell::new(output, i64::MAX);
            let before = cell.all();
            for out in [(*input).to_owned(), format!("./{input}"), cell.path(input).display().to_string()] {
                let mut command = program();
                command.args(cell.arguments(output.inputs[0], &out)).current_dir(&cell.folder);
                let ended = command.output().unwrap();
                let about = |fault| format!("{out}: {fault}");
                column.note(output, cell.faults(&before, false).into_iter().map(about));
                column.note(output, refused(&ended).into_iter().map(about));
            }
        }
    }
    column.end();
}

#[test]
fn the_file_behind_standard_input_is_not_written_to() {
    let mut column = Column::default();
    for output in OUTPUTS.iter().filter(|output| output.is_named()) {
        let cell = Cell::new(output, i64::MAX);
        let input = output.inputs[0];
        let before = cell.all();
        for name in ["-", "/dev/stdin"] {
            let mut command = program();
            command.args(cell.arguments(name, input)).current_dir(&cell.folder);
            let ended = command.stdin(File::open(cell.path(input)).unwrap()).output().unwrap();
            let about = |fault| format!("{name} < {input}: {fault}");
            column.note(output, cell.faults(&before, false).into_iter().map(about));
            column.note(output, (ended.status.code() != Some(2)).then(|| about(stderr(&ended))));
        }
    }
    column.end();
}

#[test]
fn standard_output_is_not_appended_to_an_input() {
    let folder = std::env::temp_dir().join(format!("nfsrdma-outputs-{}-{}", std::process::id(), unique()));
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in inputs() {
        fs::write(folder.join(name), bytes).unwrap();
    }
    for (words, input) in [
        ("in.pcap", "in.pcap"),
        ("-", "in.pcap"),
        ("-T json in.pcap", "in.pcap"),
        ("lint in.pcap", "in.pcap"),
        ("check in.pcap", "in.pcap"),
        ("check in.pcap", "in.pcap.baseline"),
        ("compare in.pcap ./in.pcap", "in.pcap"),
        ("replay plan in.trace", "in.trace"),
        ("in.trace", "in.trace"),
    ] {
        let path = folder.join(input);
        let before = fs::read(&path).unwrap();
        let appended = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut command = program();
        command.args(words.split(' ')).current_dir(&folder).stdin(File::open(&path).unwrap());
        let ended = command.stdout(appended).output().unwrap();
        assert_eq!(refused(&ended), None, "{words}");
        assert!(fs::read(&path).unwrap() == before, "{words}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_report_does_not_take_the_name_of_a_missing_baseline() {
    let folder = std::env::temp_dir().join(format!("nfsrdma-outputs-{}-{}", std::process::id(), unique()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("in.pcap"), &inputs()["in.pcap"]).unwrap();
    let mut command = program();
    command.args(["check", "--junit", "./in.pcap.baseline", "in.pcap"]).current_dir(&folder);
    assert_eq!(refused(&command.output().unwrap()), None);
    assert!(!folder.join("in.pcap.baseline").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_baseline_that_is_a_fifo_is_refused_without_waiting() {
    let folder = std::env::temp_dir().join(format!("nfsrdma-outputs-{}-{}", std::process::id(), unique()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("in.pcap"), &inputs()["in.pcap"]).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("in.pcap.baseline")).status().unwrap().success());
    let ended = program().args(["check", "in.pcap"]).current_dir(&folder).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("not a regular file"), "{said}");
    assert_eq!(ended.status.code(), Some(2));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_symbolic_link_is_not_written_through_and_stays() {
    let mut column = Column::default();
    for output in OUTPUTS {
        for is_dangling in [false, true] {
            let cell = Cell::new(output, i64::MAX);
            let elsewhere = cell.path("elsewhere");
            if !is_dangling {
                fs::write(&elsewhere, OLD).unwrap();
            }
            let _ = fs::remove_file(cell.out());
            symlink(&elsewhere, cell.out()).unwrap();
            let before = cell.all();
            let ended = cell.command().output().unwrap();
            column.note(output, cell.faults(&before, false));
            column.note(output, refused(&ended));
            if cell.all() != before {
                column.note(output, ["something changed".to_owned()]);
            }
        }
    }
    column.end();
}

#[test]
fn a_device_is_written_to_and_stays() {
    let mut column = Column::default();
    for output in OUTPUTS.iter().filter(|output| output.is_named()) {
        for is_bad in [false, true] {
            let cell = Cell::new(output, i64::MAX);
            // /dev/null under another name.
            let null = rustix::fs::makedev(1, 3);
            let mode = Mode::from_raw_mode(0o666);
            if let Err(error) = mknodat(CWD, cell.out(), FileType::CharacterDevice, mode, null) {
                skip("root", format_args!("a device cannot be made: {error}"));
                return;
            }
            if File::options().write(true).open(cell.out()).is_err() {
                skip("dev", "devices cannot be opened in the folder for temporary files (nodev)");
                return;
            }
            if is_bad {
                fs::write(cell.path(output.inputs[0]), "no capture and no trace").unwrap();
            }
            let before = cell.all();
            let ended = cell.command().output().unwrap();
            column.note(output, cell.faults(&before, false));
            if !is_bad && !matches!(ended.status.code(), Some(0 | 1)) {
                column.note(output, [format!("{}: {}", ended.status, stderr(&ended))]);
            }
        }
    }
    column.end();
}

#[test]
fn a_fifo_is_written_to_and_stays() {
    let mut column = Column::default();
    for output in OUTPUTS.iter().filter(|output| output.is_named()) {
        let cell = Cell::new(output, i64::MAX);
        mknodat(CWD, cell.out(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let before = cell.all();
        let mut child = cell.command().spawn().unwrap();
        let path = cell.out();
        let read = thread::spawn(move || fs::read(path).unwrap());
        let is_over = wait(&mut child);
        // Releases a reader that waits for a writer.
        drop(File::options().read(true).write(true).open(cell.out()));
        if !cell.out().symlink_metadata().is_ok_and(|about| about.file_type().is_fifo()) {
            column.note(output, ["the FIFO is gone".to_owned()]);
            continue;
        }
        let got = read.join().unwrap();
        let ended = child.wait_with_output().unwrap();
        column.note(output, cell.faults(&before, false));
        if output.seeks {
            column.note(output, refused(&ended));
        } else if !is_over || !matches!(ended.status.code(), Some(0 | 1)) || !(output.is_whole)(&got) {
            let said = stderr(&ended);
            column.note(output, [format!("{}: {} bytes came: {said}", ended.status, got.len())]);
        }
    }
    column.end();
}

#[test]
fn an_input_that_is_no_capture_replaces_nothing() {
    let mut column = Column::default();
    for output in OUTPUTS {
        let cell = Cell::new(output, i64::MAX);
        cell.old();
        fs::write(cell.path(output.inputs[0]), "no capture and no trace").unwrap();
        let before = cell.all();
        let ended = cell.command().output().unwrap();
        // A report includes inputs that could not be read.
        column.note(output, cell.faults(&before, false));
        column.note(output, (ended.status.code() != Some(2)).then(|| ended.status.to_string()));
    }
    column.end();
}

/// If Ctrl-C ends `ssh HOST tcpdump | nfsrdma-inspect -w FILE -`, the frames received so far are written.
#[test]
fn frames_of_a_pipe_before_a_signal_are_written() {
    let output = &OUTPUTS[0];
    for name in ["-", "/dev/stdin"] {
        let cell = Cell::new(output, i64::MAX);
        cell.old();
        let mut command = program();
        command.args(cell.arguments(name, output.out)).current_dir(&cell.folder).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let bytes = captures::bytes(LONG_CAPTURE);
        let mut to = child.stdin.take().unwrap();
        // In the middle of a frame.
        to.write_all(&bytes[..bytes.len() / 2 + 1]).unwrap();
        // As `timeout` does, which signals the program and its process group: the first one counts.
        for _ in 0..20 {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
            thread::sleep(Duration::from_millis(1));
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        assert!(wait(&mut child), "{name}: does not end");
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        let mut source = CaptureFrameSource::open([cell.out()]).unwrap();
        let mut frames = 0;
        while source.next().unwrap().is_some() {
            frames += 1;
        }
        // 1,978 frames are in it, and not all belong to Transactions.
        assert!(frames > 300, "{name}: {frames}");
        let said = stderr(&ended);
        assert!(
            said.starts_with(&format!("nfsrdma-inspect: wrote {frames} of ")) && said.lines().count() == 1,
            "{said}"
        );
        drop(to);
    }
}

/// Options of input files, and of live captures, whose outputs tests/it/live tests.
const NO_ROWS: &[(&str, &str)] = &[
    ("", "--read"),
    ("check", "--rules"),
    ("replay", "--rules"),
    ("replay run", "--rules"),
    ("lint", "--config"),
    ("capture", "--write"),
];

/// Collects the file options of the subcommands below `words`: the long name, and the short one if there is one.
fn file_options(words: &[&str], found: &mut Vec<(String, Vec<String>)>) {
    let ended = program().args(words).arg("--help").output().unwrap();
    let help = String::from_utf8(ended.stdout).unwrap();
    let mut is_command = false;
    for line in help.lines() {
        is_command = if line.starts_with(' ') || line.is_empty() { is_command } else { line == "Commands:" };
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_name = line.starts_with("  ") && !line.starts_with("   ");
        if is_command && is_name && first != "help" {
            file_options(&[words, &[first]].concat(), found);
        }
        let takes_file = ["<FILE>", "<DIR>", "<TRACE>", "<RULES>"].iter().any(|value| line.contains(value));
        if line.trim_start().starts_with('-') && takes_file {
            let names = line.split_whitespace().map(|word| word.trim_end_matches(','));
            let names = names.take_while(|word| word.starts_with('-')).map(str::to_owned).collect();
            found.push((words.join(" "), names));
        }
    }
}

#[test]
fn every_option_that_names_a_file_is_a_row_or_an_input() {
    let mut found = Vec::new();
    file_options(&[], &mut found);
    assert!(found.len() > 12, "{found:?}");
    for (command, names) in found {
        let is_row = OUTPUTS.iter().any(|output| {
            let words = output.arguments.iter().take_while(|word| !word.starts_with('-') && **word != "IN");
            let is_command = words.copied().collect::<Vec<_>>().join(" ") == command;
            let is_written =
                |pair: &[&str]| names.iter().any(|name| name == pair[0]) && ["OUT", "tables"].contains(&pair[1]);
            is_command && output.arguments.windows(2).any(is_written)
        });
        let is_exempt = names.iter().any(|name| NO_ROWS.contains(&(command.as_str(), name.as_str())));
        assert!(is_row != is_exempt, "{command} {names:?}: is no row of OUTPUTS, and is not in NO_ROWS");
    }
}
