//! Files that the program writes. Each is whole under its name, or not there.
//!
//! An [`OutputFile`] is written under another name in the same directory, `.NAME.RANDOM.unfinished`. [`OutputFile::commit`]
//! flushes it, syncs it to the disk and renames it, so that a reader of NAME sees the old file or the new one, whatever
//! happens in between. What is dropped without a commit is removed, and so it is when a signal ends the program
//! ([`crate::interrupt`]); SIGKILL and a crash of the machine leave the unfinished file.
//!
//! - An input of the command is never replaced: [`InputFiles`] knows them by device and inode, whatever they are called.
//! - A symbolic link is not followed, so that the file that is replaced is the one that is named.
//! - A character device and a FIFO are opened and written to as they are; nothing is renamed over them. `-` and
//!   `/dev/stdout` are standard output.
//! - The file that replaces another has its permissions, and its owner and group where the system allows that.
//! - A capture that grows for hours gets its name as soon as it has its header: [`OutputFile::publish`].

#![expect(clippy::disallowed_methods, reason = "what writes files is here, and nowhere else")]

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};
use tempfile::{Builder, TempPath};

use crate::escape;
use crate::source::os_error_text;

/// Bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 256 << 10;
/// What the names of unfinished files end with.
const SUFFIX: &str = ".unfinished";
/// Bytes of the final name that are in the name of an unfinished file: with what is added it has to fit into 255.
const NAME_BYTES: usize = 200;
/// Permissions of a file that replaces none, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Whether an output is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    matches!(path.as_os_str().as_bytes(), b"-" | b"/dev/stdout")
}

/// What tells whether two names are of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileIdentity {
    File { device: u64, inode: u64 },
    BlockDevice { number: u64 },
}

impl FileIdentity {
    /// The identity of what writing could destroy, or wait for: not of a character device.
    fn of(about: &Metadata) -> Option<Self> {
        match about.file_type() {
            kind if kind.is_char_device() => None,
            kind if kind.is_block_device() => Some(Self::BlockDevice { number: about.rdev() }),
            _ => Some(Self::File { device: about.dev(), inode: about.ino() }),
        }
    }
}

/// The files that a command reads, which none of its outputs replaces.
#[derive(Clone, Debug, Default)]
pub struct InputFiles(Vec<(FileIdentity, String)>);

impl InputFiles {
    /// The files with these names. `-` is standard input; what cannot be looked at is no input.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut this = Self::default();
        paths.into_iter().for_each(|path| this.add(path.as_ref()));
        this
    }

    /// Adds the file with this name.
    pub fn add(&mut self, path: &Path) {
        let (about, name) = if path.as_os_str() == "-" {
            (about_descriptor(io::stdin()), "standard input".to_owned())
        } else {
            (fs::metadata(path), path.to_string_lossy().into_owned())
        };
        let identity = about.ok().as_ref().and_then(FileIdentity::of);
        self.0.extend(identity.map(|identity| (identity, name)));
    }

    /// The name of the input that this is.
    fn find(&self, about: &Metadata) -> Option<&str> {
        let identity = FileIdentity::of(about)?;
        self.0.iter().find(|(of, _)| *of == identity).map(|(_, name)| name.as_str())
    }

    fn check(&self, path: &Path, about: &Metadata) -> Result<(), OutputError> {
        let input = self.find(about).map(str::to_owned);
        input.map_or(Ok(()), |input| Err(OutputError::new(path, OutputErrorKind::Input(input))))
    }
}

fn about_descriptor(of: impl AsFd) -> io::Result<Metadata> {
    duplicate(of)?.metadata()
}

/// Another handle of an open file.
fn duplicate(of: impl AsFd) -> io::Result<File> {
    Ok(of.as_fd().try_clone_to_owned()?.into())
}

/// Why an output cannot be written. `Display` gives one line, with what to do.
#[derive(Debug)]
pub struct OutputError {
    name: String,
    kind: OutputErrorKind,
}

/// What is wrong with an output.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutputErrorKind {
    /// It is an input of the command: the name of that.
    Input(String),
    /// It is a symbolic link: its target.
    Link(PathBuf),
    /// It is a directory.
    Directory,
    /// It is a block device, a socket, or another file that cannot be written from its beginning: what it is.
    Special(&'static str),
    /// There is a file, which must not be replaced.
    Exists,
    /// The system does not let it be made.
    Create(io::Error),
    /// The system does not let it be written.
    Write(io::Error),
    /// It is whole, and cannot get its name: the name that it has.
    Rename(PathBuf, io::Error),
}

impl OutputError {
    fn new(path: &Path, kind: OutputErrorKind) -> Self {
        let name = if is_standard_output(path) { "standard output".into() } else { path.to_string_lossy() };
        Self { name: name.into_owned(), kind }
    }

    /// The error of writing to the output of this name.
    pub fn unwritten(path: &Path, error: io::Error) -> Self {
        Self::new(path, OutputErrorKind::Write(error))
    }

    /// What is wrong.
    pub fn kind(&self) -> &OutputErrorKind {
        &self.kind
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", escape::line(&self.name))?;
        match &self.kind {
            OutputErrorKind::Input(input) => {
                write!(f, "is read as {}, and cannot be written too; name another file", escape::line(input))
            }
            OutputErrorKind::Link(to) => {
                write!(
                    f,
                    "is a symbolic link to {}; name that file to replace it",
                    escape::told(to.display())
                )
            }
            OutputErrorKind::Directory => f.write_str("is a directory; name a file in it"),
            OutputErrorKind::Special(what) => {
                write!(f, "is {what}, and cannot be written to; name a file")
            }
            OutputErrorKind::Exists => f.write_str("cannot write: file exists; name another file"),
            OutputErrorKind::Create(error) => {
                if let Some(directory) = missing_directory(Path::new(&self.name)) {
                    let directory = escape::told(directory.display());
                    return write!(
                        f,
                        "cannot write: no such directory {directory}; create it, or name another file"
                    );
                }
                write!(f, "cannot write: {}; ", os_error_text(error))?;
                f.write_str(match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "check the permissions of the file and its directory, in which it is written before it is renamed"
                    }
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => MAKE_ROOM,
                    _ => "check the path",
                })
            }
            OutputErrorKind::Write(error) => write!(f, "cannot write: {}; {MAKE_ROOM}", os_error_text(error)),
            OutputErrorKind::Rename(temporary, error) => {
                let file = escape::told(temporary.display());
                write!(f, "cannot be replaced: {}; the new file is {file}", os_error_text(error))
            }
        }
    }
}

/// The directory in which a file would lie, if there is none.
pub(crate) fn missing_directory(file: &Path) -> Option<&Path> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    directory.symlink_metadata().is_err_and(is_missing).then_some(directory)
}

const MAKE_ROOM: &str = "make room or write elsewhere";

impl Error for OutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            OutputErrorKind::Create(error)
            | OutputErrorKind::Write(error)
            | OutputErrorKind::Rename(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<OutputError> for io::Error {
    fn from(error: OutputError) -> Self {
        match error.kind {
            OutputErrorKind::Create(error) | OutputErrorKind::Write(error) => error,
            _ => io::Error::other(error),
        }
    }
}

/// Unfinished files of the program.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished files. No other is made as long as what is given is held.
pub(crate) fn remove_unfinished() -> impl Sized {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // Somebody may have removed it.
        let _ = fs::remove_file(path);
    }
    paths
}

/// A file that is removed when it is dropped, and when the program ends.
#[derive(Debug)]
struct UnfinishedFile(Option<TempPath>);

impl UnfinishedFile {
    fn new(builder: &Builder<'_, '_>, directory: &Path) -> io::Result<(File, Self)> {
        // Whoever ends the program now waits until the file is known.
        let mut paths = unfinished();
        let (file, path) = builder.tempfile_in(directory)?.into_parts();
        // It tells others that somebody is at work. Not every file system can do that.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        paths.push(path.to_path_buf());
        Ok((file, Self(Some(path))))
    }

    fn forget(path: &Path) {
        unfinished().retain(|known| known != path);
    }

    /// Gives it its name; `replaces` says whether it may take the place of another file.
    fn rename(mut self, to: &Path, replaces: bool) -> Result<(), OutputErrorKind> {
        let Some(path) = self.0.take() else { return Ok(()) };
        let known = path.to_path_buf();
        let renamed = if replaces { path.persist(to) } else { path.persist_noclobber(to) };
        Self::forget(&known);
        match renamed {
            Ok(()) => Ok(()),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(OutputErrorKind::Exists)
            }
            // What took hours to write stays.
            Err(refused) => match refused.path.keep() {
                Ok(path) => Err(OutputErrorKind::Rename(path, refused.error)),
                Err(_) => Err(OutputErrorKind::Write(refused.error)),
            },
        }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let known = path.to_path_buf();
            drop(path);
            Self::forget(&known);
        }
    }
}

/// A file for the program itself, which nobody else may read, and which is removed with it.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
    // Removes it.
    _unfinished: UnfinishedFile,
}

impl ScratchFile {
    /// Makes a file whose name begins with `name` and ends with `suffix`, in the directory for temporary files (`TMPDIR`).
    ///
    /// # Errors
    /// [`OutputErrorKind::Create`].
    pub fn new(name: &str, suffix: &str) -> Result<(Self, BufWriter<File>), OutputError> {
        let directory = std::env::temp_dir();
        let prefix = format!("{}.", name.replace('/', "_"));
        let made = UnfinishedFile::new(Builder::new().prefix(&prefix).suffix(suffix), &directory);
        let (file, unfinished) =
            made.map_err(|error| OutputError::new(&directory, OutputErrorKind::Create(error)))?;
        let path = unfinished.0.as_ref().map(|path| path.to_path_buf()).unwrap_or_default();
        Ok((Self { path, _unfinished: unfinished }, BufWriter::new(file)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes to a file. Where that grows under its name, what is written at once is written as a whole or not at all.
#[derive(Debug)]
struct OutputSink {
    file: File,
    /// Bytes of a file that grows under its name.
    growing_bytes: Option<u64>,
}

impl Write for OutputSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(length) = self.growing_bytes else { return self.file.write(bytes) };
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.growing_bytes = Some(length + bytes.len() as u64);
                Ok(bytes.len())
            }
            Err(error) => {
                // A part of a record makes the file a damaged one. Where it cannot be cut off, the reader says so.
                let _ = self.file.set_len(length);
                let _ = self.file.seek(SeekFrom::Start(length));
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputSink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Where an output is written.
#[derive(Debug)]
enum OutputLocation {
    /// Beside its name, which it gets when it is whole.
    Beside(UnfinishedFile),
    /// Under its name.
    Published,
    /// A device, a FIFO, or standard output.
    Stream,
}

/// A file that is being written. See the [module](self).
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    to: BufWriter<OutputSink>,
    place: OutputLocation,
    /// Whether it may take the place of another file.
    replaces: bool,
}

impl OutputFile {
    /// Begins a file that takes the place of the one with this name, when it is committed.
    ///
    /// # Errors
    /// What `path` is that cannot be replaced, or what making a file gives.
    pub fn create(path: &Path, inputs: &InputFiles) -> Result<Self, OutputError> {
        Self::open(path, inputs, true)
    }

    /// The same where no file has this name. A device and a FIFO are written to as they are.
    ///
    /// # Errors
    /// [`OutputErrorKind::Exists`], and those of [`OutputFile::create`].
    pub fn create_new(path: &Path) -> Result<Self, OutputError> {
        Self::open(path, &InputFiles::default(), false)
    }

    /// The same of a file whose beginning is written last.
    ///
    /// # Errors
    /// [`OutputErrorKind::Special`] for what can be written in one go alone, and those of [`OutputFile::create`].
    pub fn create_seekable(path: &Path, inputs: &InputFiles) -> Result<Self, OutputError> {
        let refused = |what| Err(OutputError::new(path, OutputErrorKind::Special(what)));
        if is_standard_output(path) {
            return refused("a stream, while the beginning of this file is written last");
        }
        let about = fs::symlink_metadata(path).ok();
        if about.is_some_and(|about| about.file_type().is_fifo()) {
            return refused("a FIFO, while the beginning of this file is written last");
        }
        let mut this = Self::create(path, inputs)?;
        if matches!(this.place, OutputLocation::Stream) && this.to.stream_position().is_err() {
            return refused("a device that cannot seek, while the beginning of this file is written last");
        }
        Ok(this)
    }

    fn open(path: &Path, inputs: &InputFiles, replaces: bool) -> Result<Self, OutputError> {
        let failed = |kind| OutputError::new(path, kind);
        let unmade = |error| failed(OutputErrorKind::Create(error));
        let new = |file, place| {
            let to = BufWriter::with_capacity(GATHERED_BYTES, OutputSink { file, growing_bytes: None });
            Self { path: path.to_owned(), to, place, replaces }
        };
        if is_standard_output(path) {
            let file = duplicate(io::stdout()).map_err(unmade)?;
            inputs.check(path, &file.metadata().map_err(unmade)?)?;
            return Ok(new(file, OutputLocation::Stream));
        }
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(failed(OutputErrorKind::Directory));
        }
        let about = match looked_at(path) {
            Ok(about) => Some(about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unmade(error)),
        };
        if let Some(about) = &about {
            inputs.check(path, about)?;
            let kind = about.file_type();
            match () {
                () if kind.is_symlink() => {
                    // One that leads to an input is that, too.
                    if let Ok(about) = fs::metadata(path) {
                        inputs.check(path, &about)?;
                    }
                    return Err(failed(OutputErrorKind::Link(fs::read_link(path).unwrap_or_default())));
                }
                () if kind.is_dir() => return Err(failed(OutputErrorKind::Directory)),
                () if kind.is_char_device() || kind.is_fifo() => {
                    return Ok(new(open_stream(path).map_err(unmade)?, OutputLocation::Stream));
                }
                () if kind.is_block_device() => {
                    return Err(failed(OutputErrorKind::Special("a block device")));
                }
                () if !kind.is_file() => return Err(failed(OutputErrorKind::Special("a socket"))),
                () if !replaces => return Err(failed(OutputErrorKind::Exists)),
                // A file that may not be written may not be replaced either.
                () => _ = open_existing(path).map_err(unmade)?,
            }
        }
        // Who may not read the old file may not read the new one while it is written.
        let mode = about.map_or(NEW_FILE_MODE, |about| about.mode() & 0o600);
        let name = path.file_name().ok_or_else(|| failed(OutputErrorKind::Directory))?;
        let mut builder = Builder::new();
        let prefix = prefix(name);
        builder.prefix(&prefix).suffix(SUFFIX).permissions(Permissions::from_mode(mode));
        let (file, unfinished) = UnfinishedFile::new(&builder, directory(path)).map_err(unmade)?;
        Ok(new(file, OutputLocation::Beside(unfinished)))
    }

    /// The name of the output, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing more comes: flushes and syncs what was written, and gives the file its name.
    ///
    /// # Errors
    /// [`OutputErrorKind::Write`], and then no file was replaced; [`OutputErrorKind::Rename`].
    pub fn commit(self) -> Result<(), OutputError> {
        self.close()?.publish()
    }

    /// The first half of a commit: the file is whole and on the disk, and does not have its name yet.
    ///
    /// # Errors
    /// [`OutputErrorKind::Write`].
    pub fn close(self) -> Result<ClosedFile, OutputError> {
        let Self { path, to, place, replaces } = self;
        let unwritten = |error| OutputError::unwritten(&path, error);
        let OutputSink { file, .. } = to.into_inner().map_err(|error| unwritten(error.into_error()))?;
        if let OutputLocation::Beside(_) = &place {
            keep_access(&file, &path).map_err(unwritten)?;
        }
        if !matches!(place, OutputLocation::Stream) {
            file.sync_all().map_err(unwritten)?;
        }
        Ok(ClosedFile { path, place, replaces })
    }

    /// Flushes what was written, gives the file its name, and goes on writing to it under that. It is for a capture that grows
    /// while it is looked at: what was written up to now must be a whole file. From now on a write that fails leaves the file
    /// as it was before that.
    ///
    /// # Errors
    /// [`OutputErrorKind::Write`], and then no file was replaced; [`OutputErrorKind::Rename`].
    pub fn publish(&mut self) -> Result<(), OutputError> {
        let unwritten = |path: &Path, error| OutputError::unwritten(path, error);
        self.to.flush().map_err(|error| unwritten(&self.path, error))?;
        let OutputLocation::Beside(_) = &self.place else { return Ok(()) };
        let OutputLocation::Beside(unfinished) =
            std::mem::replace(&mut self.place, OutputLocation::Published)
        else {
            return Ok(());
        };
        let sink = self.to.get_mut();
        let published = keep_access(&sink.file, &self.path).and_then(|()| {
            sink.file.sync_all()?;
            sink.file.stream_position()
        });
        sink.growing_bytes = Some(published.map_err(|error| unwritten(&self.path, error))?);
        let named = unfinished.rename(&self.path, self.replaces);
        named.map_err(|kind| OutputError::new(&self.path, kind))?;
        sync_directory(&self.path);
        Ok(())
    }

    /// Whether the file that has the name now is this one, which was published.
    fn is_published_as(&self, path: &Path) -> bool {
        let same = |one: &Metadata, other: &Metadata| FileIdentity::of(one) == FileIdentity::of(other);
        let mine = self.to.get_ref().file.metadata().ok();
        mine.zip(fs::symlink_metadata(path).ok()).is_some_and(|(mine, there)| same(&mine, &there))
    }

    /// Ends a file that was published, without waiting for the disk, and gives what tells it from others.
    ///
    /// # Errors
    /// What writing gives.
    pub fn end(mut self) -> io::Result<WrittenFile> {
        self.to.flush()?;
        let identity = if self.is_published_as(&self.path) {
            FileIdentity::of(&self.to.get_ref().file.metadata()?)
        } else {
            None
        };
        Ok(WrittenFile { path: self.path, identity })
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.to.seek(to)
    }
}

/// A file that is whole, and does not have its name yet. Dropped, it is removed.
#[derive(Debug)]
pub struct ClosedFile {
    path: PathBuf,
    place: OutputLocation,
    replaces: bool,
}

impl ClosedFile {
    /// Gives it its name.
    ///
    /// # Errors
    /// [`OutputErrorKind::Rename`].
    pub fn publish(self) -> Result<(), OutputError> {
        let Self { path, place, replaces } = self;
        if let OutputLocation::Beside(unfinished) = place {
            unfinished.rename(&path, replaces).map_err(|kind| OutputError::new(&path, kind))?;
            sync_directory(&path);
        }
        Ok(())
    }
}

/// A file that this program wrote, and may remove again.
#[derive(Debug)]
pub struct WrittenFile {
    path: PathBuf,
    identity: Option<FileIdentity>,
}

impl WrittenFile {
    /// Removes the file, unless another one has its name now.
    pub fn remove(self) {
        let there = fs::symlink_metadata(&self.path).ok().as_ref().and_then(FileIdentity::of);
        if self.identity.is_some() && there == self.identity {
            // Somebody may have removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a file that an earlier run wrote, unless it is an input.
///
/// # Errors
/// [`OutputErrorKind::Input`], [`OutputErrorKind::Write`].
pub fn remove_old(path: &Path, inputs: &InputFiles) -> Result<(), OutputError> {
    let unwritten = |error| OutputError::unwritten(path, error);
    inputs.check(path, &fs::symlink_metadata(path).map_err(unwritten)?)?;
    fs::remove_file(path).map_err(unwritten)
}

/// Removes unfinished files of a directory that nobody is writing any more: whoever did was killed. What cannot be looked at
/// stays.
pub fn remove_abandoned(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_unfinished = name.starts_with(b".") && name.ends_with(SUFFIX.as_bytes());
        if is_unfinished
            && let Ok(file) = open_existing(&path)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // Somebody else may have done it.
            let _ = fs::remove_file(&path);
        }
    }
}

/// What has a name. Names of open descriptors are no links: whoever gives one means what is behind it.
fn looked_at(path: &Path) -> io::Result<Metadata> {
    let is_descriptor = ["/dev/fd/", "/proc/self/fd/", "/dev/stderr"]
        .iter()
        .any(|start| path.as_os_str().as_bytes().starts_with(start.as_bytes()));
    let about = fs::symlink_metadata(path)?;
    if is_descriptor && about.is_symlink() {
        let behind = fs::metadata(path)?;
        let kind = behind.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(behind);
        }
    }
    Ok(about)
}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the name of an unfinished file begins with.
fn prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(bytes.get(..NAME_BYTES).unwrap_or(bytes)));
    prefix.push(".");
    prefix
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(no_follow()).open(path)
}

/// Opens a device or a FIFO, which waits for a reader.
fn open_stream(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(no_control()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_char_device() || kind.is_fifo() {
        Ok(file)
    } else {
        Err(io::Error::other("it became another file meanwhile"))
    }
}

/// O_NOFOLLOW.
fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

/// O_NOCTTY: a terminal that is written to does not become that of the program.
fn no_control() -> i32 {
    rustix::fs::OFlags::NOCTTY.bits() as i32
}

/// Gives a file the permissions of the one that it replaces, and its owner and group where that is allowed.
fn keep_access(file: &File, replaced: &Path) -> io::Result<()> {
    let old = match fs::symlink_metadata(replaced) {
        Ok(old) if old.is_file() => old,
        // There is none, or none that is replaced.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o7777;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        let is_kept = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())).is_ok()
            || std::os::unix::fs::fchown(file, None, Some(old.gid())).is_ok();
        if !is_kept {
            // Another group gets no more than everybody, and nobody the rights of another owner.
            mode = (mode & 0o707) | ((mode & 0o007) << 3);
        }
    }
    // A file system without permissions refuses to change them.
    if new.mode() & 0o7777 == mode {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Makes a rename outlast a crash of the machine. Not every file system can do that, and not every directory may be read: the
/// file is whole under its name or not renamed either way.
fn sync_directory(path: &Path) {
    let _ = File::open(directory(path)).and_then(|directory| directory.sync_all());
}
