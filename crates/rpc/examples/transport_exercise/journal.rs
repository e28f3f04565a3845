//! Journal of the exercise, one line per Call, for comparison with a capture of it.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use nfsrdma_rpc::{OutgoingRpcCall, PayloadContentLocation, RpcMessageWireForm, SubmittedCallForm};

/// File of lines with tabs between XID, form (`RDMA_MSG` or `RDMA_NOMSG`), bytes of the complete message, bytes in the
/// Send, bytes that the server had to fetch, segments of Read, Write and Reply chunks; and of the Reply: form, bytes of
/// the message without the Write chunk, bytes of the Write chunk, and the invalidated handle; `-` for absent values.
pub(crate) struct Journal {
    file: Option<BufWriter<File>>,
}

/// Call sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    /// XID of the Call.
    pub xid: u32,
    length: usize,
    payloads: usize,
    submitted: SubmittedCallForm,
}

impl Sent {
    /// Creates the entry of a submitted Call.
    pub(crate) fn new(call: &OutgoingRpcCall<'_>, submitted: SubmittedCallForm) -> Self {
        let length = |source| match source {
            PayloadContentLocation::Copied(bytes) => <[u8]>::len(bytes),
            PayloadContentLocation::Shared { length, .. } => length as usize,
        };
        let payloads = call.payloads.iter().map(|payload| length(payload.source)).sum();
        Self { xid: call.xid.0, length: call.length(), payloads, submitted }
    }
}

/// Reply received.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// Form of the message.
    pub form: RpcMessageWireForm,
    /// Length of the message in bytes.
    pub message: usize,
    /// Length of the data in the Write chunk in bytes.
    pub payload: usize,
    /// Handle that the server invalidated.
    pub invalidated: Option<u32>,
}

fn name(form: RpcMessageWireForm) -> &'static str {
    match form {
        RpcMessageWireForm::Nomsg => "RDMA_NOMSG",
        RpcMessageWireForm::Message => "RDMA_MSG",
        RpcMessageWireForm::Record => "record",
    }
}

impl Journal {
    /// Creates a journal in this file, or a disabled one.
    pub(crate) fn new(path: Option<&str>) -> Result<Self> {
        let create = |path: &str| File::create(path).with_context(|| path.to_string());
        Ok(Self { file: path.map(create).transpose()?.map(BufWriter::new) })
    }

    /// Writes the line of a Call.
    pub(crate) fn note(&mut self, sent: &Sent, came: Option<Came>) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let Sent { xid, length, payloads, submitted } = *sent;
        // A Long Call is fetched completely; of another Call, the data in Read chunks.
        let fetched = match (submitted.form, submitted.read_segments) {
            (RpcMessageWireForm::Nomsg, _) => length,
            (_, 0) => 0,
            _ => payloads,
        };
        write!(
            file,
            "0x{xid:08x}\t{}\t{length}\t{}\t{fetched}\t{}\t{}\t{}",
            name(submitted.form),
            submitted.inline_bytes,
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

    /// Flushes the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.file.as_mut().map_or(Ok(()), Write::flush)?)
    }
}
