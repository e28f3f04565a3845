//! Text in memory up to a limit, and then in a temporary file.

use std::borrow::Cow;
use std::io;

use nfsrdma_output_file::{AnonymousScratchFile, OutputError};

/// Text that is appended to, and then read in any order.
#[derive(Debug)]
pub(super) struct SpooledText {
    memory: Vec<u8>,
    max_memory_bytes: usize,
    /// All of the text, if it is too long for the memory.
    file: Option<AnonymousScratchFile>,
    length: u64,
}

impl SpooledText {
    /// Creates an empty text, of which at most `max_memory_bytes` are in memory.
    pub(super) fn new(max_memory_bytes: usize) -> Self {
        Self { memory: Vec::new(), max_memory_bytes, file: None, length: 0 }
    }

    /// Appends text, and returns its offset in bytes.
    pub(super) fn append(&mut self, text: &str) -> Result<u64, OutputError> {
        let offset = self.length;
        self.length += text.len() as u64;
        if self.file.is_none() && self.memory.len() + text.len() > self.max_memory_bytes {
            let mut file = AnonymousScratchFile::new()?;
            file.append(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.append(text.as_bytes())?,
            None => {
                // A vector that doubles would need three times the memory while it grows.
                let free = self.memory.capacity() - self.memory.len();
                if free < text.len() {
                    self.memory.reserve_exact(text.len().max(self.memory.len() / 4).max(4096));
                }
                self.memory.extend_from_slice(text.as_bytes());
            }
        }
        Ok(offset)
    }

    /// Makes the text readable.
    pub(super) fn finish(&mut self) -> Result<(), OutputError> {
        self.file.as_mut().map_or(Ok(()), AnonymousScratchFile::flush)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.max_memory_bytes);
    }

    /// Reads bytes at an offset. Fewer bytes are an error.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Cow<'_, str>> {
        let text = if let Some(file) = &self.file {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset)?;
            String::from_utf8(bytes).map(Cow::Owned).ok()
        } else {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = self.memory.get(from..).and_then(|rest| rest.get(..length));
            str::from_utf8(bytes.ok_or(io::ErrorKind::UnexpectedEof)?).map(Cow::Borrowed).ok()
        };
        text.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_in_memory_and_in_a_file() {
        for max_memory_bytes in [0, 10, 1 << 20] {
            let mut stored = SpooledText::new(max_memory_bytes);
            let texts: Vec<String> = (0..100).map(|number| format!("{number}:").repeat(number)).collect();
            let offsets: Vec<_> = texts.iter().map(|text| stored.append(text).unwrap()).collect();
            stored.finish().unwrap();
            assert_eq!(stored.file.is_some(), max_memory_bytes < 100);
            assert!(stored.memory.capacity() <= 1 << 20);
            for (text, offset) in texts.iter().zip(offsets).rev() {
                assert_eq!(stored.read(offset, text.len()).unwrap(), *text);
            }
            assert!(stored.read(stored.length, 1).is_err());
        }
    }
}
