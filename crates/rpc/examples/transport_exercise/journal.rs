//! What the exercise did, a line a Call, so that a capture of it can be held to that.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use nfsrdma_rpc::{MessageForm, PayloadSource, SubmittedCall, TransportCall};

/// A file of lines with tabs between XID, form (`RDMA_MSG` or `RDMA_NOMSG`), bytes of the whole message, bytes in the Send, bytes
/// that the server had to fetch, segments of Read, Write and Reply chunks; and of the Reply, form, bytes of the message
/// without what came by a Write chunk, bytes of that, and the handle that came invalidated; `-` for what there was not.
pub(crate) struct Journal {
    file: Option<BufWriter<File>>,
}

/// What was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    /// Its XID.
    pub xid: u32,
    length: usize,
    payloads: usize,
    submitted: SubmittedCall,
}

impl Sent {
    /// A Call, and what became of it.
    pub(crate) fn new(call: &TransportCall<'_>, submitted: SubmittedCall) -> Self {
        let length = |source| match source {
            PayloadSource::Copied(bytes) => <[u8]>::len(bytes),
            PayloadSource::Shared { length, .. } => length as usize,
        };
        let payloads = call.payloads.iter().map(|payload| length(payload.source)).sum();
        Self { xid: call.xid.0, length: call.length(), payloads, submitted }
    }
}

/// What came back, as far as it did.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// How the message came.
    pub form: MessageForm,
    /// Its bytes.
    pub message: usize,
    /// Bytes by the Write chunk.
    pub payload: usize,
    /// The handle that the server invalidated.
    pub invalidated: Option<u32>,
}

fn name(form: MessageForm) -> &'static str {
    match form {
        MessageForm::Nomsg => "RDMA_NOMSG",
        MessageForm::Message => "RDMA_MSG",
        MessageForm::Record => "record",
    }
}

impl Journal {
    /// One in this file, or one that keeps nothing.
    pub(crate) fn new(path: Option<&str>) -> Result<Self> {
        let create = |path: &str| File::create(path).with_context(|| path.to_string());
        Ok(Self { file: path.map(create).transpose()?.map(BufWriter::new) })
    }

    /// Notes a Call.
    pub(crate) fn note(&mut self, sent: &Sent, came: Option<Came>) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let Sent { xid, length, payloads, submitted } = *sent;
        // All of a Long Call is fetched; of another, what has a Read chunk.
        let fetched = match (submitted.form, submitted.read_segments) {
            (MessageForm::Nomsg, _) => length,
            (_, 0) => 0,
            _ => payloads,
        };
        write!(
            file,
            "0x{xid:08x}\t{}\t{length}\t{}\t{fetched}\t{}\t{}\t{}",
            name(submitted.form),
            submitted.inline,
            submitted.read_segments,
            submitted.write_segments,
            submitted.reply_segments,
        )?;
        match came {
            Some(came) => {
                let invalidated = came.invalidated.map_or("-".into(), |handle| format!("0x{handle:08x}"));
                writeln!(file, "\t{}\t{}\t{}\t{invalidated}", name(came.form), came.message, came.payload)?;
            }
            None => writeln!(file, "\t-\t-\t-\t-")?,
        }
        Ok(())
    }

    /// Writes what is not written yet.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.file.as_mut().map_or(Ok(()), Write::flush)?)
    }
}
