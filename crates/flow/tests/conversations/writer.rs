//! Bytes of RPC, NFS and RPC-over-RDMA, encoded from RFC 5531, 1094, 1813, 7531 and 8166 alone.

/// Returns the number of XDR fill bytes. RFC 4506 section 4.10.
pub(crate) fn fill(length: usize) -> usize {
    (4 - length % 4) % 4
}

/// Transfer mode of a data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Inline,
    Chunk,
}

/// Alignment of inline data in a Send of RDMA_MSGP. RFC 5666 section 3.9.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Padding {
    pub(crate) align: usize,
    pub(crate) threshold: usize,
    /// Length of the RPC-over-RDMA header in bytes.
    pub(crate) header: usize,
}

/// A reduced RPC message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    /// Length of the unreduced message without padding.
    pub(crate) whole: usize,
    /// Positions in the unreduced message of the items sent in chunks.
    pub(crate) positions: Vec<usize>,
    /// Length of the reduced message up to the last item sent in a chunk.
    pub(crate) last_cut: usize,
    pub(crate) padding: Option<Padding>,
}

impl Writer {
    pub(crate) fn words(&mut self, words: &[u32]) -> &mut Self {
        for word in words {
            self.bytes.extend(word.to_be_bytes());
        }
        self.whole += 4 * words.len();
        self
    }

    pub(crate) fn hyper(&mut self, value: u64) -> &mut Self {
        self.words(&[(value >> 32) as u32, value as u32])
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self.bytes.extend(vec![0; fill(bytes.len())]);
        self.whole += bytes.len() + fill(bytes.len());
        self
    }

    pub(crate) fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.words(&[bytes.len() as u32]).fixed(bytes)
    }

    /// Writes a DDP-eligible item.
    pub(crate) fn item(&mut self, bytes: &[u8], way: Way) -> &mut Self {
        self.words(&[bytes.len() as u32]);
        match (way, self.padding) {
            (Way::Chunk, _) => {
                self.positions.push(self.whole);
                self.last_cut = self.bytes.len();
                self.whole += bytes.len() + fill(bytes.len());
                self
            }
            (Way::Inline, Some(padding)) if bytes.len() >= padding.threshold => {
                while !(padding.header + self.bytes.len()).is_multiple_of(padding.align) {
                    self.bytes.push(0);
                }
                self.fixed(bytes)
            }
            (Way::Inline, _) => self.fixed(bytes),
        }
    }
}

/// A segment of memory. RFC 8166 section 3.4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) handle: u32,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// The chunk lists of a header. RFC 8166 section 4.3.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) reads: Vec<(u32, Memory)>,
    pub(crate) writes: Vec<Vec<Memory>>,
    pub(crate) reply: Option<Vec<Memory>>,
}

/// rdma_proc. RFC 8166 section 4.2.4, RFC 5666 section 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NfsRdmaPrototypeProc {
    Msg,
    Nomsg,
    Msgp { align: u32, threshold: u32 },
}

pub(crate) fn header(xid: u32, proc: NfsRdmaPrototypeProc, lists: &Lists) -> Vec<u8> {
    let mut to = Writer::default();
    let number = match proc {
        NfsRdmaPrototypeProc::Msg => 0,
        NfsRdmaPrototypeProc::Nomsg => 1,
        NfsRdmaPrototypeProc::Msgp { .. } => 2,
    };
    to.words(&[xid, 1, 64, number]);
    if let NfsRdmaPrototypeProc::Msgp { align, threshold } = proc {
        to.words(&[align, threshold]);
    }
    let segment = |to: &mut Writer, memory: &Memory| {
        to.words(&[memory.handle, memory.length]).hyper(memory.offset);
    };
    for (position, memory) in &lists.reads {
        to.words(&[1, *position]);
        segment(&mut to, memory);
    }
    to.words(&[0]);
    let chunk = |to: &mut Writer, chunk: &Vec<Memory>| {
        to.words(&[1, chunk.len() as u32]);
        chunk.iter().for_each(|memory| segment(to, memory));
    };
    lists.writes.iter().for_each(|writes| chunk(&mut to, writes));
    to.words(&[0]);
    match &lists.reply {
        Some(reply) => chunk(&mut to, reply),
        None => {
            to.words(&[0]);
        }
    }
    to.bytes
}
