//! One reading of all frames, on a thread of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nfsrdma_dissectors::flow::{Flow, Limits};

use crate::analysis::names::{Filehandles, Names};
use crate::filter::{Filter, Selection};
use crate::output::style::Glyphs;
use crate::source::{Next, Source};

use super::capture::{Capture, First};
use super::mailbox::{Mail, Mailbox, Progress};
use super::model::row::{PAGE, Page, RowWriter};
use super::model::tables::Tally;

/// Frames between two looks at the clock.
const FRAMES: u64 = 512;
/// How long rows wait for others before they are given.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long it takes until tables are made anew.
const TABLES: Duration = Duration::from_millis(250);
/// Frames between two places that are remembered.
const APART: u64 = 4096;

/// The names of files, which a pass learns and others ask for. Who asks is let in before the pass goes on.
#[derive(Clone, Debug)]
pub(super) struct SharedNames(Arc<(Mutex<Names>, AtomicUsize)>);

impl SharedNames {
    /// Nothing is known yet.
    pub(super) fn new(how: Filehandles) -> Self {
        Self(Arc::new((Mutex::new(Names::new(how)), AtomicUsize::new(0))))
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks something up.
    pub(super) fn ask<R>(&self, ask: impl FnOnce(&mut Names) -> R) -> R {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let mut names = self.lock();
        self.0.1.fetch_sub(1, Ordering::SeqCst);
        ask(&mut names)
    }

    /// Lets in who waits.
    fn yield_to_others(&self) {
        while self.0.1.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// What a pass needs to know.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// The bounds of the decoder.
    pub(super) limits: Limits,
    /// How files are told.
    pub(super) filehandles: Filehandles,
    /// The characters of the terminal.
    pub(super) glyphs: Glyphs,
}

/// A pass that is under way, or done.
#[derive(Debug)]
pub(super) struct Pass {
    mailbox: Mailbox,
    /// The names that it learns.
    pub(super) names: SharedNames,
}

impl Pass {
    /// Starts to read.
    pub(super) fn start(capture: Capture, filter: Option<Filter>, manner: Manner) -> Self {
        let (mailbox, names) = (Mailbox::default(), SharedNames::new(manner.filehandles));
        let pass = Self { mailbox: mailbox.clone(), names: names.clone() };
        thread::spawn(move || Reading::new(capture, filter, &manner, mailbox, names).run());
        pass
    }

    /// How many rows wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.mailbox.rows()
    }

    /// What was found since this was asked last.
    pub(super) fn take(&self) -> Mail {
        self.mailbox.take()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// What the thread works with.
struct Reading {
    capture: Capture,
    flow: Flow,
    selection: Option<Selection>,
    names: SharedNames,
    writer: RowWriter,
    mailbox: Mailbox,
    /// Whether what is known must be given at once, because the input may pause.
    is_urgent: bool,
    page: Page,
    tally: Tally,
    transactions: u64,
    last_tables: Instant,
}

impl Reading {
    fn new(
        capture: Capture,
        filter: Option<Filter>,
        manner: &Manner,
        mailbox: Mailbox,
        names: SharedNames,
    ) -> Self {
        Self {
            is_urgent: capture.is_once(),
            capture,
            flow: Flow::new(manner.limits.clone()),
            selection: filter.map(Selection::new),
            names,
            writer: RowWriter::new(manner.glyphs),
            mailbox,
            page: Page::default(),
            tally: Tally::default(),
            transactions: 0,
            last_tables: Instant::now(),
        }
    }

    fn run(mut self) {
        match self.capture.source() {
            Some(Ok(first)) => self.first_time(first),
            Some(Err(error)) => _ = self.mailbox.put(false, |mail| mail.errors.push(error.to_string())),
            // Somebody else has the source: what was kept is read, and what comes after it.
            None => self.kept(),
        }
        self.flow.finish();
        self.transactions();
        self.give(true);
        self.mailbox.put(false, |mail| mail.progress.is_over = true);
    }

    fn first_time(&mut self, (mut source, mut pace): First) {
        let mut last = Instant::now();
        let mut frames = 0;
        let mut is_over = false;
        while !is_over {
            let mut is_idle = false;
            match source.next_within(PATIENCE) {
                Ok(Next::Frame(frame)) => {
                    frames += 1;
                    is_over = pace.as_mut().is_some_and(|pace| pace.frame(frame.time));
                    self.capture.keep(&frame);
                    self.frame(&frame);
                }
                Ok(Next::Nothing) => {
                    is_idle = true;
                    if let Some(pace) = &mut pace {
                        self.flow.idle(pace.idle());
                    }
                }
                Ok(Next::End) => is_over = true,
                Err(error) => _ = self.mailbox.put(false, |mail| mail.errors.push(error.to_string())),
            }
            let is_new = self.transactions();
            if frames % APART == 1
                && let Some(place) = source.place()
            {
                self.mailbox.put(false, |mail| mail.places.push(place));
            }
            let is_due = frames % FRAMES == 0 || is_over || is_idle || self.is_urgent && is_new;
            if !is_due {
                continue;
            }
            self.names.yield_to_others();
            if self.is_urgent || is_over || last.elapsed() > PATIENCE || frames == FRAMES {
                last = Instant::now();
                self.tell_progress(&source, frames);
                if !self.give(false) {
                    return;
                }
            }
        }
    }

    fn tell_progress(&self, source: &Source, frames: u64) {
        let counters = source.counters();
        let progress = Progress {
            bytes: source.progress(),
            frames,
            transactions: self.transactions,
            dropped: counters.map(|counters| counters.dropped()).or_else(|| source.dropped()),
            counters,
            is_over: false,
        };
        self.mailbox.put(false, |mail| mail.progress = progress);
    }

    /// Reads what was kept, and then what comes.
    fn kept(&mut self) {
        let Ok(mut again) = self.capture.again(None) else { return };
        let mut frames = 0;
        while !self.mailbox.is_stopped() {
            let taken = match again.next() {
                Some(frame) => {
                    frames += 1;
                    self.frame(&frame);
                    true
                }
                None => false,
            };
            self.transactions();
            if !taken || frames % FRAMES == 0 {
                let (transactions, frames) = (self.transactions, frames);
                self.mailbox.put(false, |mail| {
                    (mail.progress.frames, mail.progress.transactions) = (frames, transactions);
                });
                if !self.give(false) {
                    return;
                }
            }
            if !taken {
                thread::sleep(PATIENCE);
            }
        }
    }

    fn frame(&mut self, frame: &nfsrdma_dissectors::frame::Frame<'_>) {
        match &mut self.selection {
            Some(selection) => selection.note(frame, &mut self.flow),
            None => {
                self.flow.frame(frame);
                self.tally.frame(frame);
            }
        }
    }

    /// Takes the Transactions that are done; whether there were any.
    fn transactions(&mut self) -> bool {
        let Self { flow, selection, names, writer, page, tally, transactions, mailbox, is_urgent, .. } = self;
        let mut next = flow.next_named();
        if next.is_none() {
            return false;
        }
        // Put in when the names are free again: who waits for room must not keep others from them.
        let mut full = Vec::new();
        let mut names = names.lock();
        while let Some((key, transaction)) = next {
            *transactions += 1;
            transaction.read(|reading| {
                let facts = reading.facts();
                names.learn(&transaction, reading, &facts);
                if let Some(selection) = selection {
                    let Some(chosen) = selection.transaction(key, &transaction, reading) else { return };
                    tally.chosen_frames(chosen);
                }
                tally.transaction(&transaction, &facts, names.about());
                writer.add(page, &transaction, reading, &facts, names.about());
            });
            if page.len() == PAGE {
                full.push(std::mem::take(page));
            }
            next = flow.next_named();
        }
        drop(names);
        if !full.is_empty() {
            mailbox.put(!*is_urgent, |mail| mail.pages.append(&mut full));
        }
        true
    }

    /// Gives what there is; `false` if nobody wants more.
    fn give(&mut self, is_last: bool) -> bool {
        let tables = (is_last || self.last_tables.elapsed() > TABLES || self.tally.is_new()).then(|| {
            self.last_tables = Instant::now();
            Box::new(self.tally.tables(&self.flow))
        });
        let page = std::mem::take(&mut self.page);
        self.mailbox.put(!self.is_urgent, |mail| {
            // What comes one by one becomes a page again.
            let left = match mail.pages.last_mut() {
                Some(last) if last.len() < PAGE => last.append(page),
                _ => Some(page),
            };
            mail.pages.extend(left.filter(|page| !page.is_empty()));
            if tables.is_some() {
                mail.tables = tables;
            }
        })
    }
}
