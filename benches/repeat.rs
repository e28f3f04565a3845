//! A large capture that needs no room: a real one, repeated. Each repetition is other connections at a later time, so
//! that it is not one connection whose packets are sent again and again.

use std::io::{self, Read};

/// The client of the captures in `captures/` that are repeated.
const CLIENT: [u8; 4] = [10, 9, 0, 2];
/// The clients of the repetitions count from here.
const FIRST_CLIENT: u32 = u32::from_be_bytes([10, 64, 0, 0]);

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const ETHERNET: usize = 14;
const IPV4: [u8; 3] = [0x08, 0x00, 0x45];
const IP_SOURCE: usize = ETHERNET + 12;
const IP_DESTINATION: usize = ETHERNET + 16;

const SECOND: u64 = 1_000_000_000;

/// The bytes of the large capture, as a file has them. Nothing is allocated once it is made.
pub(crate) struct Repeated {
    /// The real capture; its records are rewritten in place for each repetition.
    file: Vec<u8>,
    /// Where each record begins, and its time in nanoseconds.
    records: Vec<(usize, u64)>,
    /// Where the client's address stands.
    clients: Vec<usize>,
    /// How much later each repetition is than the one before, in nanoseconds.
    step: u64,
    repetitions: u32,
    /// The repetition that is being read, from 0, and how far it was read.
    repetition: u32,
    at: usize,
}

impl Repeated {
    /// Repeats a capture of Ethernet and IPv4 in the pcap format, with nanoseconds and in the byte order of x86.
    pub(crate) fn new(file: Vec<u8>, repetitions: u32) -> Self {
        assert_eq!(
            file.get(..4),
            Some(&[0x4d, 0x3c, 0xb2, 0xa1][..]),
            "pcap with nanoseconds, little endian"
        );
        let (mut records, mut clients) = (Vec::new(), Vec::new());
        let mut at = FILE_HEADER;
        while at < file.len() {
            let word = |place: usize| {
                let bytes: [u8; 4] = file[at + place..at + place + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes)
            };
            records.push((at, u64::from(word(0)) * SECOND + u64::from(word(4))));
            let frame = at + RECORD_HEADER..at + RECORD_HEADER + word(8) as usize;
            let bytes = &file[frame.clone()];
            if bytes.get(ETHERNET - 2..=ETHERNET) == Some(&IPV4) {
                let places = [IP_SOURCE, IP_DESTINATION].into_iter();
                let of_client = places.filter(|place| bytes.get(*place..place + 4) == Some(&CLIENT));
                clients.extend(of_client.map(|place| frame.start + place));
            }
            at = frame.end;
        }
        let times = || records.iter().map(|(_, time)| *time);
        let span = times().max().expect("a record") - times().min().expect("a record");
        Self { file, records, clients, step: span + SECOND / 100, repetitions, repetition: 0, at: 0 }
    }

    /// As many repetitions of a capture as make at least this many bytes.
    pub(crate) fn of_size(file: Vec<u8>, bytes: u64) -> Self {
        let repetitions = bytes.div_ceil((file.len() - FILE_HEADER) as u64);
        Self::new(file, repetitions.try_into().expect("fewer than 2^32 repetitions"))
    }

    /// How often the real capture is in it.
    pub(crate) fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// How many packets there are.
    pub(crate) fn packets(&self) -> u64 {
        self.records.len() as u64 * u64::from(self.repetitions)
    }

    /// Length of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        FILE_HEADER as u64 + (self.file.len() - FILE_HEADER) as u64 * u64::from(self.repetitions)
    }

    /// Makes the next repetition of what was read to its end.
    fn rewrite(&mut self) {
        self.repetition += 1;
        self.at = FILE_HEADER;
        for (at, time) in &self.records {
            let time = time + self.step * u64::from(self.repetition);
            self.file[*at..at + 4].copy_from_slice(&((time / SECOND) as u32).to_le_bytes());
            self.file[at + 4..at + 8].copy_from_slice(&((time % SECOND) as u32).to_le_bytes());
        }
        let client = (FIRST_CLIENT + self.repetition).to_be_bytes();
        for at in &self.clients {
            self.file[*at..at + 4].copy_from_slice(&client);
        }
    }
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.file.len() && self.repetition + 1 < self.repetitions {
            self.rewrite();
        }
        let mut rest = &self.file[self.at..];
        let read = rest.read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
