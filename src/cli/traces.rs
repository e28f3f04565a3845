//! Captures and traces read as records, for the commands that compare them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::{Result, anyhow};
use nfsrdma_dissectors::flow::{Flow, Limits};
use nfsrdma_dissectors::rpcrdma::Dialect;

use super::progress::Progress;
use super::replay::server::open_trace_file;
use super::{Exit, unwritten};
use crate::analysis::comparison::Client;
use crate::analysis::comparison::record::Record;
use crate::analysis::comparison::recorder::Recorder;
use crate::analysis::comparison::trace::Trace;
use crate::filter::{Filter, Selection};
use crate::memory::Memory;
use crate::output::{Output, Settings};
use crate::replay::trace::layout::MAGIC;
use crate::replay::trace::retold::Retelling;
use crate::replay::trace::{self, TraceError};
use crate::source::{self, Source, SourceError};

/// Transactions that are done, and wait for late copies of their messages. They keep their file data until it is hashed,
/// so they are fewer than where nothing looks into it.
const LINGERING: usize = 256;

/// What records are read from.
enum From {
    /// A capture: its frames.
    Capture(Box<(Source, Flow)>),
    /// A trace: its steps, the same file for their file data, and how steps are told.
    Steps(Box<Steps>),
}

/// A trace, opened twice.
struct Steps {
    steps: trace::Trace<BufReader<File>>,
    contents: trace::Trace<BufReader<File>>,
    retelling: Retelling,
    total: u64,
}

/// A capture or a trace that is being read.
pub(super) struct Reader {
    from: From,
    is_over: bool,
    /// What is known of it as a whole.
    pub(super) trace: Trace,
    /// What was wrong with the file.
    pub(super) errors: Vec<anyhow::Error>,
}

/// Whether a file begins as a trace does.
pub(super) fn is_trace(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let is_file = path.is_file();
    is_file && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == MAGIC
}

impl Steps {
    fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let open = || {
            let file = open_trace_file(path)?;
            trace::Trace::open(BufReader::new(file)).map_err(|error| anyhow!("{name}: {error}"))
        };
        let (steps, contents) = (open()?, open()?);
        let (retelling, total) = (Retelling::of(steps.summary()), steps.summary().end.steps);
        Ok(Self { steps, contents, retelling, total })
    }

    /// The next record; tells the trace as a whole of it.
    fn next(
        &mut self,
        recorder: &mut Recorder,
        whole: &mut Trace,
    ) -> Result<Option<(Client, Record)>, TraceError> {
        let Some(step) = self.steps.next_step()? else { return Ok(None) };
        let (transaction, amended) = self.retelling.transaction(&step, &mut self.contents)?;
        let mut record = recorder.record(&transaction);
        amended.tell(&mut record, recorder);
        record.run_of = (step.origin.run_of != 0).then_some(step.origin.run_of);
        whole.transaction(&transaction, &record);
        let client =
            Client { address: recorder.word(self.retelling.client(&step)), direction: transaction.direction };
        Ok(Some((client, record)))
    }
}

impl Reader {
    /// Opens a capture or a trace; a dialect that is named is the one in which a capture is read.
    pub(super) fn open(path: &Path, memory: &Memory, dialect: Option<Dialect>) -> Result<Self> {
        let from = match is_trace(path) {
            true => From::Steps(Box::new(Steps::open(path)?)),
            false => capture(path, memory, dialect)?,
        };
        Ok(Self {
            from,
            is_over: false,
            trace: Trace { name: path.to_string_lossy().into_owned(), ..Trace::default() },
            errors: Vec::new(),
        })
    }

    /// Whether it turned out to be neither capture nor trace.
    pub(super) fn is_no_capture(&self) -> bool {
        !self.errors.is_empty() && self.trace.frames == 0 && self.trace.transactions == 0
    }

    /// The next record, and whose it is; `None` at the end.
    pub(super) fn next(
        &mut self,
        recorder: &mut Recorder,
        progress: &mut Progress,
    ) -> Option<(Client, Record)> {
        if self.is_over && matches!(self.from, From::Steps(_)) {
            return None;
        }
        let (source, flow) = match &mut self.from {
            From::Capture(capture) => &mut **capture,
            From::Steps(steps) => {
                let next = steps.next(recorder, &mut self.trace);
                if progress.is_due(false) {
                    let read = self.trace.transactions;
                    let part = source::Progress { read, total: Some(steps.total) };
                    progress.draw(part, self.trace.transactions);
                }
                return next.unwrap_or_else(|error| {
                    self.errors.push(anyhow!("{}: {error}", self.trace.name));
                    self.is_over = true;
                    None
                });
            }
        };
        loop {
            if let Some(transaction) = flow.next_transaction() {
                let record = recorder.record(&transaction);
                self.trace.transaction(&transaction, &record);
                let client = Client {
                    address: recorder.word(&transaction.connection.client.address.to_string()),
                    direction: transaction.direction,
                };
                return Some((client, record));
            }
            if self.is_over {
                return None;
            }
            match source.next() {
                Ok(Some(frame)) => {
                    self.trace.frames += 1;
                    let is_known = frame.link.is_known();
                    flow.frame(&frame);
                    if !is_known {
                        self.errors.extend(source.unknown_link().map(anyhow::Error::from));
                    }
                }
                Ok(None) => {
                    flow.finish();
                    self.trace.end(flow);
                    self.is_over = true;
                }
                Err(error) => self.errors.push(error.into()),
            }
            if progress.is_due(false) {
                progress.draw(source.progress(), self.trace.transactions);
            }
        }
    }
}

fn capture(path: &Path, memory: &Memory, dialect: Option<Dialect>) -> Result<From, SourceError> {
    let limits = Limits { keep_data: true, lingering_transactions: LINGERING, dialect, ..memory.limits() };
    Ok(From::Capture(Box::new((Source::open_within([path], memory.windows())?, Flow::new(limits)))))
}

/// Shows the steps of a trace as the Transactions that they are of.
pub(super) fn show_trace(path: &Path, settings: Settings, filter: Option<Filter>, most: u64) -> Result<Exit> {
    let name = path.display();
    let Steps { mut steps, mut contents, mut retelling, total } = Steps::open(path)?;
    let mut selection = filter.map(|filter| Selection::new(filter, &settings.memory));
    let mut progress = Progress::new();
    let mut output = Output::new(settings, BufWriter::with_capacity(64 << 10, progress.page()));
    let mut read = 0;
    while output.lines() < most
        && let Some(step) = steps.next_step().map_err(|error| anyhow!("{name}: {error}"))?
    {
        let (transaction, _) =
            retelling.transaction(&step, &mut contents).map_err(|error| anyhow!("{name}: {error}"))?;
        let is_chosen = selection
            .as_mut()
            .is_none_or(|selection| transaction.read(|reading| selection.alone(&transaction, reading)));
        if is_chosen {
            output.retold(&transaction).map_err(unwritten)?;
        }
        read += 1;
        if progress.is_due(false) {
            progress.draw(source::Progress { read, total: Some(total) }, output.transactions());
        }
    }
    output.finish(&Flow::new(Limits::default()), None, None).map_err(unwritten)?;
    Ok(Exit::Done)
}
