//! Comparison of chunks and of inline lengths.

use super::difference::DifferenceKind;
use super::record::{
    ComparableMessage, ComparableTransaction, ComparedChunk, ComparedChunkKind, MessageDecodeCompleteness,
};
use super::record_comparison::{PairComparison, RecordComparer};

impl RecordComparer<'_> {
    /// Compares the inline lengths.
    pub(super) fn compare_lengths(
        &self,
        comparison: &mut PairComparison<'_>,
        is_call: bool,
        a: &ComparableMessage,
        b: &ComparableMessage,
    ) {
        if a.proc != b.proc {
            let proc = |message: &ComparableMessage| message.proc.as_deref().unwrap_or("-").to_owned();
            comparison.add_length_difference(DifferenceKind::ChunkKind, is_call, "", proc(a), proc(b));
            return;
        }
        let fixed_length = |message: &ComparableMessage| {
            let is_inline = message.length >= message.varying;
            if comparison.policy.is_strict || !is_inline { message.length } else { message.length - message.varying }
        };
        // Fields that differ explain different lengths.
        if comparison.has_field_difference(is_call) && !comparison.policy.is_strict
            || a.completeness == MessageDecodeCompleteness::Undecoded
            || fixed_length(a) == fixed_length(b)
        {
            return;
        }
        if !self.options.tolerates_count(DifferenceKind::Inline.word(), fixed_length(a), fixed_length(b)) {
            comparison.add_length_difference(DifferenceKind::Inline, is_call, "", a.length, b.length);
        }
    }

    pub(super) fn compare_chunks(&self, comparison: &mut PairComparison<'_>) {
        let (a, b) = (comparison.a, comparison.b);
        let letters = |record: &ComparableTransaction| -> String {
            let letters: String = record.chunks.iter().map(|chunk| chunk.kind.letter()).collect();
            if letters.is_empty() { "no chunks".to_owned() } else { format!("chunks {letters}") }
        };
        if letters(a) != letters(b) {
            comparison.add_length_difference(DifferenceKind::ChunkKind, true, "", letters(a), letters(b));
            return;
        }
        let has_replies = a.reply.is_some() && b.reply.is_some();
        let is_reply_explained = comparison.has_field_difference(false);
        // A failed operation returns no data.
        let has_other_status = comparison.has_status_difference() && !comparison.policy.is_strict;
        for (at, (one, other)) in a.chunks.iter().zip(&b.chunks).enumerate() {
            let path = format!("chunk {at} ({})", one.kind.letter());
            let position = |chunk: &ComparedChunk| match chunk.kind {
                ComparedChunkKind::Read(position, varying) if !comparison.policy.is_strict => {
                    position.saturating_sub(varying)
                }
                ComparedChunkKind::Read(position, _) | ComparedChunkKind::ReplyRead(position) => position,
                _ => 0,
            };
            if position(one) != position(other) {
                comparison.add_length_difference(
                    DifferenceKind::ChunkShape,
                    true,
                    path.clone() + " position",
                    position(one),
                    position(other),
                );
            }
            if one.segments.len() != other.segments.len() {
                let (of_a, of_b) = (one.segments.len(), other.segments.len());
                comparison.add_length_difference(DifferenceKind::ChunkShape, true, path + " segments", of_a, of_b);
                continue;
            }
            // The length of a whole message in a chunk depends on its names, and it fills the segments in order.
            let net = |chunk: &ComparedChunk, sum: u64| {
                let varying = if comparison.policy.is_strict { 0 } else { chunk.varying };
                sum.saturating_sub(varying)
            };
            let offered = |chunk: &ComparedChunk| chunk.segments.iter().map(|segment| segment.length).sum::<u64>();
            let returned =
                |chunk: &ComparedChunk| -> Option<u64> { chunk.segments.iter().map(|segment| segment.returned).sum() };
            let is_same_call = matches!(one.kind, ComparedChunkKind::Read(0, _))
                && net(one, offered(one)) == net(other, offered(other));
            let sums = returned(one).zip(returned(other));
            let is_same_reply = sums.is_some_and(|(a, b)| net(one, a) == net(other, b)) && one.varying > 0;
            let is_explained =
                is_reply_explained && one.kind == ComparedChunkKind::Reply && !comparison.policy.is_strict;
            for (index, (segment, opposite)) in one.segments.iter().zip(&other.segments).enumerate() {
                let path = format!("{path} segment {index}");
                let (length, other_length) = (segment.length, opposite.length);
                if length != other_length
                    && !is_same_call
                    && !self.options.tolerates_count(DifferenceKind::ChunkLength.word(), length, other_length)
                {
                    comparison.add_length_difference(
                        DifferenceKind::ChunkLength,
                        true,
                        path.clone(),
                        length,
                        other_length,
                    );
                }
                let (Some(bytes), Some(other_bytes)) = (segment.returned, opposite.returned) else {
                    continue;
                };
                if has_replies
                    && !has_other_status
                    && bytes != other_bytes
                    && !is_explained
                    && !is_same_reply
                    && !self.options.tolerates_count(DifferenceKind::ChunkBytes.word(), bytes, other_bytes)
                {
                    comparison.add_length_difference(DifferenceKind::ChunkBytes, false, path, bytes, other_bytes);
                }
            }
        }
    }
}
