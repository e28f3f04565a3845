//! What is chosen, as a pcapng file with comments.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use nfsrdma_dissectors::flow::{Flow, Limits};

use crate::filter::{Filter, Selection};
use crate::output::View;
use crate::output::frame_file::FrameFile;
use crate::source::{Source, reason};

use super::capture::Capture;

/// Bytes that what waits to be written may take.
const ROOM: usize = 256 << 20;

/// Which Transactions are saved.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Those with these numbers.
    These(BTreeSet<u64>),
    /// Those that a filter selects; without one, all.
    Selected(Option<Filter>),
}

/// Saves Transactions with all their frames; tells what was done, or why not.
pub(super) fn save(capture: &Capture, limits: &Limits, to: &Path, what: &What) -> Result<String, String> {
    let Some(files) = capture.paths() else {
        return Err("what came once cannot be saved afterwards: write it with capture -w".to_owned());
    };
    let name = to.display();
    let unwritten = |error: io::Error| format!("{name}: cannot write: {}", reason(&error));
    // Never over a file that is there: it may be the capture itself.
    let file = File::create_new(to).map_err(unwritten)?;
    let open = || Source::open(files).map_err(|error| error.to_string());
    let mut source = open()?;
    let sink = BufWriter::with_capacity(256 << 10, file);
    let mut file = FrameFile::reading_again(sink, View::Transactions, ROOM, open()?).map_err(unwritten)?;
    let mut flow = Flow::new(Limits { note_steps: true, ..limits.clone() });
    let mut selection = match what {
        What::Selected(Some(filter)) => Some(Selection::new(filter.clone())),
        _ => None,
    };
    let mut saved = 0_u64;
    let mut is_over = false;
    while !is_over {
        match source.next() {
            Ok(Some(frame)) => {
                match &mut selection {
                    Some(selection) => selection.note(&frame, &mut flow),
                    None => _ = flow.frame(&frame),
                }
                file.frame(&source, flow.steps(), false).map_err(unwritten)?;
            }
            Ok(None) => {
                flow.finish();
                is_over = true;
            }
            // It was told when the file was read first.
            Err(_) => {}
        }
        while let Some((key, transaction)) = flow.next_named() {
            transaction.read(|reading| {
                let is_chosen = match (what, &mut selection) {
                    (What::These(numbers), _) => numbers.contains(&transaction.index),
                    (_, Some(selection)) => selection.transaction(key, &transaction, reading).is_some(),
                    (_, None) => true,
                };
                saved += u64::from(is_chosen);
                file.transaction(key, &transaction, reading, &reading.facts(), is_chosen);
            });
        }
    }
    let too_late = file.finish().map_err(unwritten)?;
    let missing =
        if too_late > 0 { format!("; {too_late} frames were past and are not in it") } else { String::new() };
    let s = if saved == 1 { "" } else { "s" };
    Ok(format!("saved {saved} Transaction{s} to {name}{missing}"))
}
