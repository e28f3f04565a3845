//! The lines of a baseline file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use super::baseline_read_error::{BaselineReadError, REWRITE_ADVICE};
use super::settings::is_conflict;

const BUFFER_BYTES: usize = 256 << 10;

/// Reader of a file from an offset. Several readers of one file do not disturb each other.
#[derive(Debug)]
pub(super) struct PositionalFileReader<'f> {
    file: &'f File,
    offset: u64,
}

impl<'f> PositionalFileReader<'f> {
    pub(super) fn buffered(file: &'f File, offset: u64) -> BufReader<Self> {
        BufReader::with_capacity(BUFFER_BYTES, Self { file, offset })
    }
}

impl Read for PositionalFileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Place between two lines: the number of the line before it, from 1, and the offset behind that line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaselineReadPosition {
    pub(super) number: u64,
    pub(super) offset: u64,
}

#[derive(Debug)]
pub(super) struct BaselineLineReader<'f> {
    input: BufReader<PositionalFileReader<'f>>,
    line: Vec<u8>,
    max_line_bytes: usize,
    /// Place behind the last line.
    pub(super) place: BaselineReadPosition,
}

impl<'f> BaselineLineReader<'f> {
    pub(super) fn new(file: &'f File, position: BaselineReadPosition, max_line_bytes: usize) -> Self {
        Self {
            input: PositionalFileReader::buffered(file, position.offset),
            line: Vec::new(),
            max_line_bytes,
            place: position,
        }
    }

    /// Reads the next line, without white space at its end; `None` at the end of the file.
    pub(super) fn next_bytes(&mut self) -> Result<Option<&[u8]>, BaselineReadError> {
        let number = self.place.number + 1;
        let max_bytes = (self.max_line_bytes as u64).saturating_add(1);
        self.line.clear();
        let read = self.input.by_ref().take(max_bytes).read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|error| BaselineReadError::new(number, format!("cannot read: {error}; check the file")))?;
        if read as u64 == max_bytes {
            return Err(BaselineReadError::too_large(number));
        }
        if read == 0 {
            return Ok(None);
        }
        self.place = BaselineReadPosition { number, offset: self.place.offset + read as u64 };
        lower_words(&mut self.line);
        Ok(Some(self.line.trim_ascii_end()))
    }

    /// Reads the next line as text; `None` at the end of the file.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, BaselineReadError> {
        let number = self.place.number + 1;
        let read_error = |reason: &str| BaselineReadError::new(number, reason.to_owned());
        let Some(line) = self.next_bytes()? else { return Ok(None) };
        // No baseline contains bytes that are not UTF-8.
        match str::from_utf8(line) {
            Ok(line) if is_conflict(line) => {
                Err(read_error("unresolved merge conflict; rewrite with check --bless, which keeps the settings"))
            }
            Ok(line) if !line.contains(char::is_control) => Ok(Some(line)),
            _ => Err(read_error(&format!("a control character; {REWRITE_ADVICE}"))),
        }
    }
}

/// Replaces capital letters that earlier versions wrote: "[end of 2 Transactions]", "Reply without its Call".
fn lower_words(line: &mut [u8]) {
    const ORPHAN: &[u8] = b"Reply without its C";
    if line.starts_with(b"[end of ")
        && let Some(letter) = line.iter_mut().find(|byte| **byte == b'T')
    {
        *letter = b't';
    } else if let Some(at) = line.windows(ORPHAN.len()).position(|part| part == ORPHAN)
        && let Some(letter) = line.get_mut(at + ORPHAN.len() - 1)
    {
        *letter = b'c';
    }
}

/// Calls `visit` with the length and the first bytes of each line of a file, however long the lines are.
pub(super) fn for_each_line_length(file: &File, mut visit: impl FnMut(u64, &[u8])) -> io::Result<()> {
    const FIRST_BYTES: usize = 2;
    let mut input = PositionalFileReader::buffered(file, 0);
    let (mut length, mut first) = (0, Vec::with_capacity(FIRST_BYTES));
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            if length > 0 {
                visit(length, &first);
            }
            return Ok(());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = bytes.get(..end.map_or(bytes.len(), |end| end + 1)).unwrap_or_default();
        first.extend(part.iter().take(FIRST_BYTES - first.len()));
        length += part.len() as u64;
        let used = part.len();
        input.consume(used);
        if end.is_some() {
            visit(length, &first);
            length = 0;
            first.clear();
        }
    }
}
