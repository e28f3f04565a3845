//! Listings that the live server divides into more replies than the captured one.
//!
//! The run continues a listing by READDIRs of its own, each from the last live cookie and with its verifier (RFC 8881
//! section 18.23.3, RFC 1813 section 3.3.16): to its end if the captured one ends, and otherwise until it has the names
//! that the captured one has, or ends without them. The replies are joined into one, which is checked as any other: a
//! name that the live server drops is then missing.

use std::io::{Read, Seek};
use std::time::Instant;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{self, Args, Operation, Readdir4Args};
use nfsrdma_dissectors::nfs::{Procedure, v3};
use nfsrdma_dissectors::xdr::{Cursor, Encoder};
use nfsrdma_rpc::TransportReply;

use super::super::dependencies::effects::OperationEffect;
use super::super::recovery::is_repeatable;
use super::super::reply_statuses_and_grants::ReplyStatusesAndSessionGrants;
use super::super::rpc_header_splitting::split_header;
use super::super::run_error::ReplayRunError;
use super::super::tolerance_rules;
use super::listing_continuation::{
    ListingContinuation, ListingPart, ListingPosition, NameSet, has_delayed_entry, join_replies, listing_part,
};
use super::live_call_builder::LiveCallBuilder;
use super::recorded_reply::{recorded_items, unprotected_reply};
use super::replay_engine::ReplayEngine;
use super::step_window::StepWindowEntry;
use crate::trace::step::TraceStep;
use crate::trace::value_substitution::TracePayloadInMessage;

/// Maximum number of READDIRs that continue one listing, and of the bytes of their replies.
const MAX_CALLS: usize = 4096;
const MAX_BYTES: usize = 16 << 20;

pub(super) enum ListingProgress {
    NextPart,
    /// The reply is that to the whole step.
    Unchanged,
    /// Joined reply to all READDIRs.
    Joined(Vec<u8>),
}

impl LiveCallBuilder {
    /// Sets the position of the READDIR in the emitted Call. Returns `None` if it has none.
    pub(super) fn set_listing_position(&mut self, step: &TraceStep<'_>, listing: &ListingContinuation) -> Option<()> {
        let ListingPosition { cookie, verifier: cookieverf } = listing.position;
        let items = TracePayloadInMessage::items(&self.placed);
        let (header, mut cursor) = split_header(&self.call_buffer, &items)?;
        let mut encoder = Encoder::new();
        encoder.raw(header);
        match step.procedure.find_description()? {
            Procedure::Compound => {
                let call = v4::CompoundCall::decode(&mut cursor, &mut NullFieldObserver).ok()?;
                let operations: Option<Vec<_>> = call
                    .operations()
                    .map(|operation| match operation.ok()? {
                        Args::READDIR(args) => Some(Args::READDIR(Readdir4Args { cookie, cookieverf, ..args })),
                        operation => Some(operation),
                    })
                    .collect();
                v4::CompoundCall::new(call.head.clone(), &operations?).encode(&mut encoder);
            }
            Procedure::V3(procedure) => {
                match v3::Args::decode(procedure, &mut cursor, &mut NullFieldObserver).ok()? {
                    v3::Args::READDIR(args) => v3::Args::READDIR(v3::Readdir3Args { cookie, cookieverf, ..args }),
                    v3::Args::READDIRPLUS(args) => {
                        v3::Args::READDIRPLUS(v3::Readdirplus3Args { cookie, cookieverf, ..args })
                    }
                    _ => return None,
                }
                .encode(&mut encoder);
            }
            _ => return None,
        }
        let (bytes, _) = encoder.finish();
        self.call_buffer.clear();
        self.call_buffer.extend_from_slice(&bytes);
        Some(())
    }
}

impl<R: Read + Seek> ReplayEngine<'_, R> {
    /// Handles the reply to a READDIR: if the live listing does not end with it, and lacks names of the captured one or
    /// may have more than it, the step continues the listing.
    pub(super) fn handle_listing_reply(
        &mut self,
        entry: &mut StepWindowEntry,
        sent: Instant,
        reply: &TransportReply<'_>,
    ) -> Result<ListingProgress, ReplayRunError> {
        if !entry.description.effects.contains(&OperationEffect::ReadDirectory)
            || !self.verification.checker.is_enabled(tolerance_rules::LISTING)
        {
            return Ok(ListingProgress::Unchanged);
        }
        let stored_step = std::mem::take(&mut entry.step);
        let progress = match stored_step.trace_step() {
            Some(step) => self.continue_listing(entry, &step, sent, reply),
            None => Ok(ListingProgress::Unchanged),
        };
        entry.step = stored_step;
        progress
    }

    fn continue_listing(
        &mut self,
        entry: &mut StepWindowEntry,
        step: &TraceStep<'_>,
        sent: Instant,
        reply: &TransportReply<'_>,
    ) -> Result<ListingProgress, ReplayRunError> {
        let procedure = step.procedure.find_description();
        let Some(part) = listing_part(procedure, reply.cursor()) else { return Ok(ListingProgress::Unchanged) };
        if entry.delay_retries < self.context.options.max_delay_retries
            && has_delayed_entry(reply.message, reply.cursor())
            && {
                let recorded = unprotected_reply(step);
                !has_delayed_entry(&recorded, Cursor::new(&recorded))
            }
        {
            // This part is requested again.
            return Ok(ListingProgress::Unchanged);
        }
        if let Some(position) = part.position.filter(|_| !part.is_end) {
            let is_continued = entry.rewrites.listing.is_some();
            let missing_names = match &mut entry.rewrites.listing {
                Some(listing) => {
                    if let Some(missing) = &mut listing.missing_names {
                        part.names.iter().for_each(|name| {
                            missing.remove(*name);
                        });
                    }
                    None
                }
                None => self.names_to_list(entry, step, &part)?,
            };
            if let Some(missing_names) = missing_names {
                let (parts, first_sent) = (Vec::new(), sent);
                let listing = ListingContinuation { position, parts, first_sent, missing_names };
                entry.rewrites.listing = Some(Box::new(listing));
            }
            let is_wanted = |listing: &&mut Box<ListingContinuation>| {
                listing.missing_names.as_ref().is_none_or(|missing| !missing.is_empty())
            };
            if let Some(listing) = entry.rewrites.listing.as_mut().filter(is_wanted) {
                let bytes = listing.parts.iter().map(Vec::len).sum::<usize>() + reply.message.len();
                if is_continued && listing.position.cookie == position.cookie {
                    self.report.protocol.count_violation(format!(
                        "{}: the cookie of the last entry is that of the call (RFC 8881 section 18.23.3, RFC 1813 \
                         section 3.3.16)",
                        entry.description.title()
                    ));
                } else if listing.parts.len() < MAX_CALLS && bytes <= MAX_BYTES {
                    listing.position = position;
                    listing.parts.push(reply.message.to_vec());
                    let outcome = ReplyStatusesAndSessionGrants::of(procedure, reply.cursor());
                    self.count_sequences(&entry.call.counts, &outcome);
                    entry.call.counts.slot = None;
                    return Ok(ListingProgress::NextPart);
                }
            }
        }
        let joined = entry.rewrites.listing.as_ref().and_then(|listing| join_replies(procedure, &listing.parts, reply));
        Ok(joined.map_or(ListingProgress::Unchanged, ListingProgress::Joined))
    }

    /// Returns the names for which a listing is continued after its first live reply: `Some(None)` for all, and `None`
    /// if it is not continued, or cannot be.
    fn names_to_list(
        &mut self,
        entry: &StepWindowEntry,
        step: &TraceStep<'_>,
        live: &ListingPart<'_>,
    ) -> Result<Option<Option<NameSet>>, ReplayRunError> {
        let operations = &entry.description.operations;
        let listings = operations.iter().filter(|operation| **operation == Operation::READDIR).count();
        if !is_repeatable(operations) || listings > 1 {
            return Ok(None);
        }
        let message = unprotected_reply(step);
        let items = recorded_items(step, |_| None);
        let recorded = listing_part(step.procedure.find_description(), Cursor::new(&message).with_chunks(&items));
        let Some(recorded) = recorded else { return Ok(None) };
        if recorded.is_end {
            return Ok(Some(None));
        }
        // The names of earlier parts are those of their checks.
        self.check_all()?;
        let mut missing = self.verification.unlisted_names(step, &entry.description, &recorded.names);
        live.names.iter().for_each(|name| {
            missing.remove(*name);
        });
        Ok((!missing.is_empty()).then_some(Some(missing)))
    }
}
