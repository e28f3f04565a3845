//! Output files of the program. Each is complete under its name, or does not exist.
//!
//! An [`OutputFile`] is written under another name in the same directory, `.NAME.RANDOM.unfinished`.
//! [`OutputFile::commit`] flushes it, syncs it to the disk and renames it, so that a reader of NAME sees the old file
//! or the new one, whatever happens in between. A file dropped without a commit is removed. A program that a signal
//! ends calls [`remove_unfinished`]; SIGKILL and a crash of the machine leave the unfinished file.
//!
//! - An input of the command is never replaced: [`ProtectedInputFiles`] identifies inputs by device and inode, whatever
//!   their names.
//! - A symbolic link is not followed, so that the file that is replaced is the named one.
//! - A character device and a FIFO are opened and written directly; nothing is renamed over them. `-` and `/dev/stdout`
//!   are standard output.
//! - A file that replaces another has its owner, group, mode, ACL and extended attributes, or does not replace it. Any
//!   other file is for its owner only, whatever the umask.
//! - A part of what should have been written replaces no file: [`OutputFile::commit_part`].
//! - A capture that grows for hours gets its name as soon as it has its header: [`OutputFile::publish`].

#![expect(clippy::disallowed_methods, reason = "what writes files is here, and nowhere else")]

mod access;

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nfsrdma_text::{escape, os_error_text};
use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::{Builder, TempPath};

pub use access::LostAccess;

/// Size of the write buffer of an [`OutputFile`] in bytes.
pub const WRITE_BUFFER_BYTES: usize = 256 << 10;
const SUFFIX: &str = ".unfinished";
/// Maximum number of bytes of the final name in the name of an unfinished file, which must fit into 255 bytes.
const NAME_BYTES: usize = 200;

/// Returns `true` if an output is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    matches!(path.as_os_str().as_bytes(), b"-" | b"/dev/stdout")
}

/// Identity of a file, equal for all its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalFileIdentity {
    File { device: u64, inode: u64 },
    BlockDevice { number: u64 },
}

impl LocalFileIdentity {
    /// Returns the identity of a file that writing could destroy or wait for; `None` for a character device.
    fn of(metadata: &Metadata) -> Option<Self> {
        match metadata.file_type() {
            kind if kind.is_char_device() => None,
            kind if kind.is_block_device() => Some(Self::BlockDevice { number: metadata.rdev() }),
            _ => Some(Self::File { device: metadata.dev(), inode: metadata.ino() }),
        }
    }
}

/// Returns the identity of the file with this name; a symbolic link has its own.
fn identity_at(path: &Path) -> Option<LocalFileIdentity> {
    LocalFileIdentity::of(&fs::symlink_metadata(path).ok()?)
}

/// Files that a command reads, which none of its outputs may replace.
#[derive(Clone, Debug, Default)]
pub struct ProtectedInputFiles {
    files: Vec<(LocalFileIdentity, String)>,
    /// Directory and name of files that do not exist.
    absent: Vec<(PathBuf, OsString)>,
}

impl ProtectedInputFiles {
    /// Creates the set of the files with these names. `-` is standard input. A name without a file is reserved.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut this = Self::default();
        paths.into_iter().for_each(|path| this.add(path.as_ref()));
        this
    }

    /// Adds the file with this name.
    pub fn add(&mut self, path: &Path) {
        let (metadata, name) = if path.as_os_str() == "-" {
            (descriptor_metadata(io::stdin()), "standard input".to_owned())
        } else {
            (fs::metadata(path), path.to_string_lossy().into_owned())
        };
        let identity = metadata.ok().as_ref().and_then(LocalFileIdentity::of);
        match identity {
            Some(identity) => self.files.push((identity, name)),
            None if !path.exists() => self.absent.extend(directory_and_name(path)),
            None => {}
        }
    }

    fn check(&self, path: &Path, metadata: &Metadata) -> Result<(), OutputError> {
        let identity = LocalFileIdentity::of(metadata);
        let input = self.files.iter().find(|(input_identity, _)| Some(*input_identity) == identity);
        input.map_or(Ok(()), |(_, name)| Err(OutputError::input(path, name)))
    }
}

/// Checks that standard output is not redirected to a file that one of these arguments names, as with `>>
/// capture.pcap`.
///
/// # Errors
/// Returns [`OutputErrorKind::Input`].
pub fn check_standard_output<P: AsRef<Path>>(arguments: impl IntoIterator<Item = P>) -> Result<(), OutputError> {
    match descriptor_metadata(io::stdout()) {
        Ok(metadata) if metadata.is_file() => ProtectedInputFiles::new(arguments).check(Path::new("-"), &metadata),
        _ => Ok(()),
    }
}

/// Returns the canonical directory of a path and its name in it, whether the file exists or not.
pub fn directory_and_name(path: &Path) -> Option<(PathBuf, OsString)> {
    Some((directory(path).canonicalize().ok()?, path.file_name()?.to_owned()))
}

fn descriptor_metadata(file: impl AsFd) -> io::Result<Metadata> {
    duplicate(file)?.metadata()
}

/// Duplicates the handle of an open file.
fn duplicate(file: impl AsFd) -> io::Result<File> {
    Ok(file.as_fd().try_clone_to_owned()?.into())
}

/// Error of an output. `Display` writes one line with the remedy.
#[derive(Debug)]
pub struct OutputError {
    name: String,
    kind: OutputErrorKind,
}

/// Reason of an output error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputErrorKind {
    /// The output is an input of the command, with this name.
    #[error(
        "is also an input ({}) and cannot be overwritten; name another file",
        escape::escape_line(.0)
    )]
    Input(String),
    /// The output is a symbolic link to this target.
    #[error("is a symbolic link to {}; name that file to replace it", escape::display_line(.0.display()))]
    Link(PathBuf),
    /// The output is a directory.
    #[error("is a directory; name a file in it")]
    Directory,
    /// The output is a block device, a socket, or another file that cannot be written from its beginning; the text
    /// describes it.
    #[error("is {0}, and cannot be written to; name a file")]
    Special(&'static str),
    /// The output is a terminal, and its content is binary.
    #[error("is a terminal; name a file, or pipe to another program")]
    Terminal,
    /// The output exists and must not be replaced.
    #[error("cannot write: file exists; name another file")]
    Exists,
    /// The output exists, and the new file has only a part of what it should have. It remains under this name, if any.
    #[error(
        "not replaced: the input was not read to its end; {}",
        .0.as_ref().map_or_else(
            || "name another file to keep what was read".to_owned(),
            |path| format!("what was read is {}", escape::display_line(path.display()))
        )
    )]
    Part(Option<PathBuf>),
    /// The output exists, and the new file cannot have its access.
    #[error("cannot be replaced: {0}; remove it, or name another file")]
    Access(LostAccess),
    /// The file cannot be created.
    #[error("cannot write: {}; {}", os_error_text(.0), write_advice(.0))]
    Create(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write: {}; {}", os_error_text(.0), write_advice(.0))]
    Write(#[source] io::Error),
    /// The file is complete, but cannot be renamed; it remains under this name.
    #[error(
        "cannot be replaced: {}; the new file is {}",
        os_error_text(.1),
        escape::display_line(.0.display())
    )]
    Rename(PathBuf, #[source] io::Error),
}

impl OutputError {
    fn new(path: &Path, kind: OutputErrorKind) -> Self {
        let name = if is_standard_output(path) { "standard output".into() } else { path.to_string_lossy() };
        Self { name: name.into_owned(), kind }
    }

    fn input(path: &Path, input: &str) -> Self {
        Self::new(path, OutputErrorKind::Input(input.to_owned()))
    }

    /// Creates the error of writing to the output of this name.
    pub fn write_error(path: &Path, error: io::Error) -> Self {
        Self::new(path, OutputErrorKind::Write(error))
    }

    /// Returns the reason.
    pub fn kind(&self) -> &OutputErrorKind {
        &self.kind
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", escape::escape_line(&self.name))?;
        if let OutputErrorKind::Create(_) = self.kind
            && let Some(directory) = missing_directory(Path::new(&self.name))
        {
            let directory = escape::display_line(directory.display());
            return write!(f, "cannot write: no such directory {directory}; create it, or name another file");
        }
        self.kind.fmt(f)
    }
}

/// Returns the directory of a file, if it does not exist.
pub fn missing_directory(file: &Path) -> Option<&Path> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    directory.symlink_metadata().is_err_and(is_missing).then_some(directory)
}

/// Returns the remedy for an output that cannot be written.
pub fn write_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "check the permissions of the file and its directory, in which it is written before it is renamed"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => "check the path",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free disk space, or write elsewhere"
        }
        _ => "write elsewhere",
    }
}

impl Error for OutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
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

/// Removes all unfinished files. No other is created while the returned guard exists.
pub fn remove_unfinished() -> impl Sized {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // It may have been removed already.
        let _ = fs::remove_file(path);
    }
    paths
}

/// File that is removed when it is dropped or the program ends.
#[derive(Debug)]
struct UnfinishedFile(Option<TempPath>);

impl UnfinishedFile {
    fn new(builder: &Builder<'_, '_>, directory: &Path) -> io::Result<(File, Self)> {
        // The lock delays the end of the program until the file is registered.
        let mut paths = unfinished();
        // A file in the working directory is shown without `./`.
        let directory = if directory == Path::new(".") { Path::new("") } else { directory };
        let (file, path) = builder.tempfile_in(directory)?.into_parts();
        // The umask may have taken rights of the owner.
        let _ = access::make_private(&file, access::PRIVATE_MODE);
        // Marks the file as in use for other processes. Not every file system supports it.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        paths.push(path.to_path_buf());
        Ok((file, Self(Some(path))))
    }

    fn unregister(path: &Path) {
        unfinished().retain(|entry| entry != path);
    }

    /// Renames the file; `replaces` allows it to replace another one.
    fn rename(mut self, to: &Path, replaces: bool) -> Result<(), OutputErrorKind> {
        let Some(path) = self.0.take() else { return Ok(()) };
        let temporary_path = path.to_path_buf();
        let result = if replaces { path.persist(to) } else { path.persist_noclobber(to) };
        Self::unregister(&temporary_path);
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(OutputErrorKind::Exists),
            // A complete file is kept.
            Err(error) => match error.path.keep() {
                Ok(path) => Err(OutputErrorKind::Rename(path, error.error)),
                Err(_) => Err(OutputErrorKind::Write(error.error)),
            },
        }
    }

    /// Gives the file, which is complete, the access to the one that it replaces.
    fn with_access(self, file: &File, replaced: &Path) -> Result<Self, OutputErrorKind> {
        match access::keep(file, replaced) {
            Ok(()) => Ok(self),
            // It could be kept when the file was created, and a complete file is not lost.
            Err(lost) => Err(match self.keep() {
                Some(path) => OutputErrorKind::Rename(path, io::Error::other(lost)),
                None => OutputErrorKind::Access(lost),
            }),
        }
    }

    /// Keeps the file under its temporary name; returns the name.
    fn keep(mut self) -> Option<PathBuf> {
        let path = self.0.take()?;
        Self::unregister(&path);
        path.keep().ok()
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let temporary_path = path.to_path_buf();
            drop(path);
            Self::unregister(&temporary_path);
        }
    }
}

/// Private temporary file, removed when it is dropped.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
    _unfinished: UnfinishedFile,
}

impl ScratchFile {
    /// Creates a file whose name begins with `name` and ends with `suffix`, in the directory for temporary files
    /// (`TMPDIR`).
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Create`] if the file cannot be created.
    pub fn new(name: &str, suffix: &str) -> Result<(Self, BufWriter<File>), OutputError> {
        let directory = std::env::temp_dir();
        let prefix = format!("{}.", name.replace('/', "_"));
        let result = UnfinishedFile::new(Builder::new().prefix(&prefix).suffix(suffix), &directory);
        let (file, unfinished) =
            result.map_err(|error| OutputError::new(&directory, OutputErrorKind::Create(error)))?;
        let path = unfinished.0.as_ref().map(|path| path.to_path_buf()).unwrap_or_default();
        Ok((Self { path, _unfinished: unfinished }, BufWriter::new(file)))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Temporary file without a name, in the directory for temporary files (`TMPDIR`). It vanishes when it is closed, even
/// by SIGKILL.
#[derive(Debug)]
pub struct AnonymousScratchFile {
    directory: PathBuf,
    to: BufWriter<File>,
}

impl AnonymousScratchFile {
    /// Creates a file.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Create`] if the file cannot be created.
    pub fn new() -> Result<Self, OutputError> {
        let directory = std::env::temp_dir();
        let file = tempfile::tempfile_in(&directory)
            .map_err(|error| OutputError::new(&directory, OutputErrorKind::Create(error)))?;
        Ok(Self { directory, to: BufWriter::with_capacity(WRITE_BUFFER_BYTES, file) })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Write`] if writing fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.to.write_all(bytes).map_err(|error| OutputError::write_error(&self.directory, error))
    }

    /// Makes appended bytes readable.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Write`] if writing fails.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        self.to.flush().map_err(|error| OutputError::write_error(&self.directory, error))
    }

    /// Fills `buffer` with the flushed bytes from `offset` on.
    ///
    /// # Errors
    /// Returns an error if reading fails, or if there are fewer bytes.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.to.get_ref().read_exact_at(buffer, offset)
    }
}

/// Writer to a file. In a published file, each write succeeds completely or is undone.
#[derive(Debug)]
struct FailedWriteRollbackWriter {
    file: File,
    /// Bytes of a published file; `None` before.
    growing_bytes: Option<u64>,
}

impl FailedWriteRollbackWriter {
    /// Returns the space behind the end of a published file, which [`reserve`] took. Only the file system's space
    /// suffers if this fails.
    fn release_reserve(&self) {
        if let Some(length) = self.growing_bytes {
            let _ = self.file.set_len(length);
        }
    }
}

impl Write for FailedWriteRollbackWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(length) = self.growing_bytes else { return self.file.write(bytes) };
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.growing_bytes = Some(length + bytes.len() as u64);
                Ok(bytes.len())
            }
            Err(error) => {
                // A partial record would damage the file. If it cannot be truncated, its reader reports the damage.
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

impl Seek for FailedWriteRollbackWriter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[derive(Debug)]
enum OutputPublicationState {
    /// Temporary file, renamed when it is complete.
    Temporary(UnfinishedFile),
    /// File under its final name.
    Published,
    /// Device, FIFO or standard output.
    Stream,
}

/// File being written. See the [module](self).
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    to: BufWriter<FailedWriteRollbackWriter>,
    place: OutputPublicationState,
    /// `true` if it may replace another file.
    replaces: bool,
}

impl OutputFile {
    /// Creates a file that replaces the one with this name when it is committed.
    ///
    /// # Errors
    /// Returns an error if `path` cannot be replaced or the file cannot be created.
    pub fn create(path: &Path, inputs: &ProtectedInputFiles) -> Result<Self, OutputError> {
        Self::open(path, inputs, true)
    }

    /// Creates a regular file whose name must not exist.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Exists`], [`OutputErrorKind::Special`] for standard output, a device and a FIFO, and
    /// the errors of [`OutputFile::create`].
    pub fn create_new(path: &Path) -> Result<Self, OutputError> {
        Self::open(path, &ProtectedInputFiles::default(), false)
    }

    /// Creates a file whose header is written last.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Special`] for an output that cannot seek, and the errors of [`OutputFile::create`].
    pub fn create_seekable(path: &Path, inputs: &ProtectedInputFiles) -> Result<Self, OutputError> {
        let special_error = |description| Err(OutputError::new(path, OutputErrorKind::Special(description)));
        if is_standard_output(path) {
            return special_error("a stream, but the header of this file is written last");
        }
        let metadata = fs::symlink_metadata(path).ok();
        if metadata.is_some_and(|metadata| metadata.file_type().is_fifo()) {
            return special_error("a FIFO, but the header of this file is written last");
        }
        let mut this = Self::create(path, inputs)?;
        if matches!(this.place, OutputPublicationState::Stream) && this.to.stream_position().is_err() {
            return special_error("a device that cannot seek, but the header of this file is written last");
        }
        Ok(this)
    }

    fn open(path: &Path, inputs: &ProtectedInputFiles, replaces: bool) -> Result<Self, OutputError> {
        let output_error = |kind| OutputError::new(path, kind);
        let create_error = |error| output_error(OutputErrorKind::Create(error));
        let new_output = |file, state| {
            let to =
                BufWriter::with_capacity(WRITE_BUFFER_BYTES, FailedWriteRollbackWriter { file, growing_bytes: None });
            Self { path: path.to_owned(), to, place: state, replaces }
        };
        if is_standard_output(path) && !replaces {
            return Err(output_error(OutputErrorKind::Special("a stream")));
        }
        if is_standard_output(path) {
            let file = duplicate(io::stdout()).map_err(create_error)?;
            inputs.check(path, &file.metadata().map_err(create_error)?)?;
            return Ok(new_output(file, OutputPublicationState::Stream));
        }
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(output_error(OutputErrorKind::Directory));
        }
        let metadata = match output_metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(create_error(error)),
        };
        if metadata.is_none() && directory_and_name(path).is_some_and(|location| inputs.absent.contains(&location)) {
            return Err(OutputError::input(path, &path.to_string_lossy()));
        }
        if let Some(metadata) = &metadata {
            inputs.check(path, metadata)?;
            let kind = metadata.file_type();
            match () {
                () if kind.is_symlink() => {
                    // A link to an input is an input, too.
                    if let Ok(metadata) = fs::metadata(path) {
                        inputs.check(path, &metadata)?;
                    }
                    return Err(output_error(OutputErrorKind::Link(fs::read_link(path).unwrap_or_default())));
                }
                () if kind.is_dir() => return Err(output_error(OutputErrorKind::Directory)),
                () if (kind.is_char_device() || kind.is_fifo()) && !replaces => {
                    return Err(output_error(OutputErrorKind::Special("a device or a FIFO")));
                }
                () if kind.is_char_device() || kind.is_fifo() => {
                    return Ok(new_output(open_stream(path).map_err(create_error)?, OutputPublicationState::Stream));
                }
                () if kind.is_block_device() => {
                    return Err(output_error(OutputErrorKind::Special("a block device")));
                }
                () if !kind.is_file() => return Err(output_error(OutputErrorKind::Special("a socket"))),
                () if !replaces => return Err(output_error(OutputErrorKind::Exists)),
                // A file that may not be written may not be replaced either.
                () => _ = open_existing(path).map_err(create_error)?,
            }
        }
        let name = path.file_name().ok_or_else(|| output_error(OutputErrorKind::Directory))?;
        let mut builder = Builder::new();
        let prefix = prefix(name);
        builder.prefix(&prefix).suffix(SUFFIX);
        let (file, unfinished) = UnfinishedFile::new(&builder, directory(path)).map_err(create_error)?;
        if let Some(metadata) = &metadata {
            // A file that cannot be replaced is refused before the work begins.
            access::keep(&file, path).map_err(|lost| output_error(OutputErrorKind::Access(lost)))?;
            // Whoever may not read the old file may not read the new one while it is written.
            let _ = access::make_private(&file, metadata.mode());
        }
        Ok(new_output(file, OutputPublicationState::Temporary(unfinished)))
    }

    /// Returns the output, whose content is binary, unless it is a terminal.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Terminal`].
    pub fn refuse_terminal(self) -> Result<Self, OutputError> {
        match self.to.get_ref().file.is_terminal() {
            true => Err(OutputError::new(&self.path, OutputErrorKind::Terminal)),
            false => Ok(self),
        }
    }

    /// Returns the name of the output, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes, syncs and renames the file.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Write`], in which case no file was replaced, or [`OutputErrorKind::Rename`].
    pub fn commit(self) -> Result<(), OutputError> {
        self.close()?.publish()
    }

    /// Flushes, syncs and renames a file that has only a part of what it should have, because an input could not be
    /// read to its end, unless it would replace another file. Such a part remains under its temporary name if `is_unique`,
    /// because it cannot be read again; otherwise it is removed.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Part`] if there is another file, and the errors of [`OutputFile::commit`].
    pub fn commit_part(mut self, is_unique: bool) -> Result<(), OutputError> {
        self.replaces = false;
        self.close()?.publish_part(is_unique)
    }

    /// Flushes and syncs the file, the first half of a commit, without renaming it.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Write`] if writing fails.
    pub fn close(self) -> Result<UnpublishedOutputFile, OutputError> {
        let Self { path, to, place, replaces } = self;
        let write_error = |error| OutputError::write_error(&path, error);
        let sink = to.into_inner().map_err(|error| write_error(error.into_error()))?;
        sink.release_reserve();
        let FailedWriteRollbackWriter { file, .. } = sink;
        let place = match place {
            OutputPublicationState::Temporary(unfinished) if replaces => {
                let unfinished = unfinished.with_access(&file, &path).map_err(|kind| OutputError::new(&path, kind))?;
                OutputPublicationState::Temporary(unfinished)
            }
            place => place,
        };
        if !matches!(place, OutputPublicationState::Stream) {
            file.sync_all().map_err(write_error)?;
        }
        Ok(UnpublishedOutputFile { path, place, replaces })
    }

    /// Flushes the file, renames it, and continues to write to it, for a capture that is read while it grows. The
    /// content so far must be a valid file. Nothing is replaced if the disk has no room for more. After this, a failed
    /// write leaves the file as it was before.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Write`], in which case no file was replaced, or [`OutputErrorKind::Rename`].
    pub fn publish(&mut self) -> Result<(), OutputError> {
        self.to.flush().map_err(|error| OutputError::write_error(&self.path, error))?;
        let unfinished = match std::mem::replace(&mut self.place, OutputPublicationState::Published) {
            OutputPublicationState::Temporary(unfinished) => unfinished,
            state => {
                self.place = state;
                return Ok(());
            }
        };
        let (sink, output_error) = (self.to.get_mut(), |kind| OutputError::new(&self.path, kind));
        let unfinished = match self.replaces {
            true => {
                access::check_growing(&self.path).map_err(|lost| output_error(OutputErrorKind::Access(lost)))?;
                unfinished.with_access(&sink.file, &self.path).map_err(output_error)?
            }
            false => unfinished,
        };
        let published = reserve(&sink.file, WRITE_BUFFER_BYTES as u64).and_then(|()| {
            sink.file.sync_all()?;
            sink.file.stream_position()
        });
        let length = published.map_err(|error| OutputError::write_error(&self.path, error))?;
        sink.growing_bytes = Some(length);
        unfinished.rename(&self.path, self.replaces).map_err(output_error)?;
        sync_directory(&self.path);
        Ok(())
    }

    /// Ends a published file without waiting for the disk, and returns its identity.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn end_published(mut self) -> io::Result<CompletedOutputFile> {
        self.to.flush()?;
        self.to.get_ref().release_reserve();
        let metadata = self.to.get_ref().file.metadata().ok();
        let identity = metadata.as_ref().and_then(LocalFileIdentity::of);
        // Another file may have its name now.
        let identity = identity.filter(|_| identity == identity_at(&self.path));
        Ok(CompletedOutputFile { path: self.path, identity })
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

/// Complete file that is not renamed yet. Removed when it is dropped.
#[derive(Debug)]
pub struct UnpublishedOutputFile {
    path: PathBuf,
    place: OutputPublicationState,
    replaces: bool,
}

impl UnpublishedOutputFile {
    /// Renames the file.
    ///
    /// # Errors
    /// Returns [`OutputErrorKind::Rename`] if the file cannot be renamed.
    pub fn publish(self) -> Result<(), OutputError> {
        let Self { path, place, replaces } = self;
        if let OutputPublicationState::Temporary(unfinished) = place {
            unfinished.rename(&path, replaces).map_err(|kind| OutputError::new(&path, kind))?;
            sync_directory(&path);
        }
        Ok(())
    }

    /// See [`OutputFile::commit_part`].
    fn publish_part(self, is_unique: bool) -> Result<(), OutputError> {
        if !matches!(self.place, OutputPublicationState::Temporary(_)) || check_part(&self.path).is_ok() {
            return self.publish();
        }
        let Self { path, place, .. } = self;
        let part = match place {
            OutputPublicationState::Temporary(unfinished) if is_unique => unfinished.keep(),
            _ => None,
        };
        Err(OutputError::new(&path, OutputErrorKind::Part(part)))
    }
}

/// File written by this program, which may remove it.
#[derive(Debug)]
pub struct CompletedOutputFile {
    path: PathBuf,
    identity: Option<LocalFileIdentity>,
}

impl CompletedOutputFile {
    /// Removes the file, unless another one has its name now.
    pub fn remove(self) {
        if self.identity.is_some() && identity_at(&self.path) == self.identity {
            // It may have been removed already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that a file that holds only a part of what it should would not replace another one.
///
/// # Errors
/// Returns [`OutputErrorKind::Part`].
pub fn check_part(path: &Path) -> Result<(), OutputError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(OutputError::new(path, OutputErrorKind::Part(None))),
        Err(_) => Ok(()),
    }
}

/// Removes a file of an earlier run, unless it is an input.
///
/// # Errors
/// Returns [`OutputErrorKind::Input`] or [`OutputErrorKind::Write`].
pub fn remove_old(path: &Path, inputs: &ProtectedInputFiles) -> Result<(), OutputError> {
    let unwritten = |error| OutputError::write_error(path, error);
    inputs.check(path, &fs::symlink_metadata(path).map_err(unwritten)?)?;
    fs::remove_file(path).map_err(unwritten)
}

/// Removes unfinished files of killed processes in a directory. Files that cannot be opened stay.
pub fn remove_abandoned(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_unfinished = name.starts_with(b".") && name.ends_with(SUFFIX.as_bytes());
        if is_unfinished
            && let Ok(file) = open_existing(&path)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // Another process may have removed it.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the metadata of a path without following links, except for names of open descriptors.
fn output_metadata(path: &Path) -> io::Result<Metadata> {
    let is_descriptor = ["/dev/fd/", "/proc/self/fd/", "/dev/stderr"]
        .iter()
        .any(|start| path.as_os_str().as_bytes().starts_with(start.as_bytes()));
    let metadata = fs::symlink_metadata(path)?;
    if is_descriptor && metadata.is_symlink() {
        let target = fs::metadata(path)?;
        let kind = target.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(target);
        }
    }
    Ok(metadata)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(bytes.get(..NAME_BYTES).unwrap_or(bytes)));
    prefix.push(".");
    prefix
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// Opens a device or a FIFO; a FIFO waits for a reader. A terminal does not become the controlling terminal.
fn open_stream(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_char_device() || kind.is_fifo() {
        Ok(file)
    } else {
        Err(io::Error::other("another file has replaced it meanwhile"))
    }
}

/// Reserves space for the first `bytes` of a file, without a change of its length.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT)) => Err(error.into()),
        // Not every file system can reserve space.
        _ => Ok(()),
    }
}

/// Makes a rename survive a crash of the machine. Not every file system supports that, and the directory may be
/// unreadable: in any case the file is either complete under its name or not renamed.
fn sync_directory(path: &Path) {
    let _ = File::open(directory(path)).and_then(|directory| directory.sync_all());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_in_working_directory_has_plain_path() {
        let builder = Builder::new();
        let (_, unfinished) = UnfinishedFile::new(&builder, directory(Path::new("name"))).unwrap();
        let path = unfinished.0.as_ref().unwrap().to_path_buf();
        assert!(path.exists() && !path.to_string_lossy().contains("./"), "{}", path.display());
    }
}
