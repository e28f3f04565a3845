//! A Transaction, or a frame, read again with all its bytes.

use nfsrdma_dissectors::field::Unobserved;
use nfsrdma_dissectors::flow::transaction::{ConnectionName, Transaction, Which};
use nfsrdma_dissectors::flow::{Flow, Key, Meaning, Step};
use nfsrdma_dissectors::frame::{Frame, FrameNumber};
use nfsrdma_dissectors::net::{Carried, Datagram};
use rustc_hash::FxHashMap;

use crate::output::tree::{Frames, Origin, TreeView};
use crate::source::Place;
use crate::tui::capture::Copied;

use super::acknowledgements::ReliablePacket;
use super::waterfall::{Packet, Waterfall};
use super::{Desk, Detail, FRAMES, Subject, Wanted};

/// Frames before the first one of a Transaction that are read with it: they tell which queue pairs belong together, and where
/// messages begin.
const BEFORE: u64 = 4096;
/// Frames behind the last one in which its acknowledgement is looked for.
const BEHIND: u64 = 64;
/// Bytes of frames that are held at most.
const HELD: usize = 64 << 20;
/// Packets of which the times are held at most.
const PACKETS: usize = 1 << 20;

/// Frames that were held, by number.
#[derive(Debug, Default)]
struct Held {
    frames: FxHashMap<FrameNumber, Copied>,
    bytes: usize,
}

impl Held {
    fn hold(&mut self, frame: &Frame<'_>) {
        if self.bytes + frame.bytes.len() <= HELD {
            self.bytes += frame.bytes.len();
            self.frames.insert(frame.number, Copied::of(frame));
        }
    }
}

impl Frames for Held {
    fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        self.frames.get(&number).map(Copied::frame)
    }
}

/// How a reading ended.
enum Outcome {
    Found(Box<Found>),
    /// What came out is not what the row says, or nothing came.
    Different,
    /// Something else is wanted.
    Stale,
}

struct Found {
    transaction: Transaction,
    steps: Vec<Step>,
    packets: FxHashMap<FrameNumber, Packet>,
    held: Held,
}

impl Desk {
    /// Reads a subject; `None` if something else is wanted by now.
    pub(super) fn detail(&mut self, subject: Subject) -> Option<Detail> {
        let wanted = match subject {
            Subject::Transaction(wanted) => wanted,
            Subject::Frame(number) => return self.frame_detail(number),
        };
        let near = self.place(wanted.first, BEFORE);
        let mut outcome = Outcome::Different;
        for place in near.map(Some).into_iter().chain([None]) {
            outcome = self.look_for(wanted, place);
            if !matches!(outcome, Outcome::Different) {
                break;
            }
        }
        match outcome {
            Outcome::Found(found) => Some(self.told(wanted, *found)),
            Outcome::Stale => None,
            Outcome::Different if self.capture.is_once() => Some(Detail::missing(
                subject,
                "its frames are gone: they came once, and later ones took their room",
            )),
            Outcome::Different => {
                Some(Detail::missing(subject, "the capture changed while it was looked at"))
            }
        }
    }

    /// Reads from a place until the Transaction is there; from the start of the capture until it is given out under its
    /// number.
    fn look_for(&mut self, wanted: Wanted, place: Option<Place>) -> Outcome {
        let Ok(mut again) = self.capture.again(place) else { return Outcome::Different };
        let from_start = place.is_none() && !self.capture.is_once();
        let mut flow = Flow::new(self.limits.clone());
        let mut steps: FxHashMap<Key, Vec<Step>> = FxHashMap::default();
        let mut packets = FxHashMap::default();
        let mut held = Held::default();
        let mut count = 0;
        loop {
            let frame = again.next();
            let is_over = match frame {
                Some(frame) => {
                    count += 1;
                    let number = frame.number;
                    let is_near = number >= wanted.first && number <= wanted.last;
                    let (datagram, _) = flow.observed_frame(&frame, &mut Unobserved);
                    if is_near {
                        held.hold(&frame);
                    }
                    let is_behind = number > wanted.last && number.0 <= wanted.last.0 + BEHIND;
                    if (is_near || is_behind) && packets.len() < PACKETS {
                        packets.insert(number, packet(&frame, &datagram));
                    }
                    for step in flow.steps().iter().filter(|step| step.frame >= wanted.first) {
                        steps.entry(step.key).or_default().push(*step);
                    }
                    !from_start && number.0 >= wanted.last.0 + BEHIND
                }
                None => true,
            };
            if is_over {
                flow.finish();
            }
            while let Some((key, transaction)) = flow.next_named() {
                if wanted.is(&transaction) {
                    let steps = steps.remove(&key).unwrap_or_default();
                    return Outcome::Found(Box::new(Found { transaction, steps, packets, held }));
                }
                steps.remove(&key);
            }
            if is_over {
                return Outcome::Different;
            }
            if count % FRAMES == 0 && self.is_stale() {
                return Outcome::Stale;
            }
        }
    }

    /// Puts everything into lines.
    fn told(&mut self, wanted: Wanted, found: Found) -> Detail {
        let Found { mut transaction, steps, packets, held } = found;
        transaction.index = wanted.index;
        transaction.connection = ConnectionName { number: wanted.connection, ..transaction.connection };
        let mut view = TreeView::new(self.screen).with_literals();
        let transaction = &transaction;
        let lines = self.names.ask(|names| {
            transaction.read(|reading| {
                let facts = reading.facts();
                names.look(transaction, reading, &facts);
                view.transaction_lines(transaction, reading, &facts, names, &held).to_vec()
            })
        });
        let mut bytes: FxHashMap<Origin, Vec<u8>> = FxHashMap::default();
        for line in &lines {
            if bytes.contains_key(&line.origin) {
                continue;
            }
            let of = match line.origin {
                Origin::Nothing => continue,
                Origin::Frame(number) => held.frame(number).map(|frame| frame.bytes.to_vec()),
                Origin::Message(which) => transaction.message(which).map(|message| message.bytes.clone()),
                Origin::Chunk(which) => TreeView::whole(transaction, which),
            };
            bytes.insert(line.origin, of.unwrap_or_default());
        }
        let mut frames: Vec<FrameNumber> = steps.iter().map(|step| step.frame).collect();
        for message in [Which::Call, Which::Reply].into_iter().filter_map(|which| transaction.message(which))
        {
            frames.extend(&message.frames);
        }
        frames.sort_unstable();
        frames.dedup();
        Detail {
            subject: Subject::Transaction(wanted),
            lines,
            bytes,
            waterfall: Waterfall::of(transaction, &steps, &packets),
            frames,
            problem: None,
        }
    }

    fn frame_detail(&mut self, wanted: FrameNumber) -> Option<Detail> {
        let subject = Subject::Frame(wanted);
        let mut again = self.capture.again(self.place(wanted, BEFORE)).ok()?;
        let mut flow = Flow::new(self.limits.clone());
        let mut count = 0;
        while let Some(frame) = again.next() {
            flow.frame(&frame);
            count += 1;
            if frame.number == wanted {
                let mut view = TreeView::new(self.screen).with_literals();
                let lines = self.names.ask(|names| view.frame_lines(&frame, &flow, names).to_vec());
                let mut bytes: FxHashMap<Origin, Vec<u8>> = FxHashMap::default();
                bytes.insert(Origin::Frame(wanted), frame.bytes.to_vec());
                for meaning in flow.meanings() {
                    if let Meaning::Message { key, which } | Meaning::MessageAgain { key, which } = *meaning
                        && let Some(transaction) = flow.transaction(key)
                    {
                        let message = transaction.message(which);
                        let inline = message.map(|message| message.bytes.clone()).unwrap_or_default();
                        bytes.entry(Origin::Message(which)).or_insert(inline);
                        let whole = TreeView::whole(transaction, which).unwrap_or_default();
                        bytes.entry(Origin::Chunk(which)).or_insert(whole);
                    }
                }
                let frames = vec![wanted];
                let waterfall = Waterfall::default();
                return Some(Detail { subject, lines, bytes, waterfall, frames, problem: None });
            }
            if frame.number > wanted {
                break;
            }
            while flow.next_transaction().is_some() {}
            if count % FRAMES == 0 && self.is_stale() {
                return None;
            }
        }
        Some(Detail::missing(subject, "the frame is gone"))
    }
}

/// What a waterfall needs to know of a frame.
fn packet(frame: &Frame<'_>, datagram: &Datagram<'_>) -> Packet {
    let (begins, bytes) = match &datagram.carried {
        Carried::Infiniband(packet) => (Some(packet.form.place.begins()), packet.payload.length as u64),
        _ => (None, 0),
    };
    Packet { time: frame.time, begins, bytes, reliable: ReliablePacket::of(datagram) }
}
