//! Attributes that a client with a write delegation returns to the server's CB_GETATTR. RFC 8881 section 20.1.
//!
//! A run returns the size that the captured client returned. It returns the live server's change attribute if the
//! captured client returned one that its server had given; any other value means that the client modified the file.
//! Delegated times (RFC 9754 section 5) are as old as the captured ones were.

use std::collections::VecDeque;
use std::time::Duration;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::nfs::v4::{
    Attribute, Bitmap4, BitmapKeyedValue, CbArgs, CbCompoundCall, CbCompoundReply, CbResults, Nfstime4, mask_and_values,
};
use nfsrdma_dissectors::nfs::{Procedure, StatusUnion};
use rustc_hash::FxHashMap;

use super::super::live_values::LiveVariableValues;
use super::super::recovery::recoverable_client_state::slot_variable;
use crate::trace::step::{NONE, TraceSlotValueKind, TraceStep};

const MAX_ANSWERS: usize = 1 << 14;

/// Answer of a client about one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CapturedCbGetattrAnswer {
    size_bytes: Option<u64>,
    change: Option<u64>,
    /// Variable of the change attribute, or [`NONE`].
    change_variable: u32,
    /// Age of time_deleg_access and of time_deleg_modify at the captured Call.
    time_ages: [Option<Duration>; 2],
}

/// Captured answers to CB_GETATTR, by the variable of the filehandle, as far as the trace was read.
#[derive(Debug, Default)]
pub(super) struct CapturedCbGetattrAnswers {
    answers: FxHashMap<u32, VecDeque<CapturedCbGetattrAnswer>>,
    count: usize,
}

/// Returns the age of a time at the Call of a step.
fn age(step: &TraceStep<'_>, time: &Nfstime4) -> Duration {
    let since_1970 = Duration::new(time.seconds.max(0).cast_unsigned(), time.nseconds.min(999_999_999));
    Duration::from_nanos(step.origin.time_ns).saturating_sub(since_1970)
}

fn time(since_1970: Duration) -> Nfstime4 {
    Nfstime4 { seconds: since_1970.as_secs().cast_signed(), nseconds: since_1970.subsec_nanos() }
}

impl CapturedCbGetattrAnswers {
    /// Records the answers to a Call of the captured server.
    pub(super) fn record_answers(&mut self, step: &TraceStep<'_>) {
        if step.procedure.find_description() != Some(Procedure::CbCompound) || self.count >= MAX_ANSWERS {
            return;
        }
        let (Ok(call), Ok(reply)) = (
            CbCompoundCall::decode(&mut step.call.body_cursor(), &mut NullFieldObserver),
            CbCompoundReply::decode(&mut step.reply.body_cursor(), &mut NullFieldObserver),
        ) else {
            return;
        };
        let operations = call.operations().map_while(Result::ok).zip(reply.operations().map_while(Result::ok));
        for (at, pair) in operations.enumerate() {
            let (CbArgs::CB_GETATTR(_), CbResults::CB_GETATTR(StatusUnion::Ok(ok))) = pair else { continue };
            let file = slot_variable(&step.call, TraceSlotValueKind::FILEHANDLE, at);
            if file == NONE {
                continue;
            }
            let change_variable = slot_variable(&step.reply, TraceSlotValueKind::CHANGE, at);
            let mut getattr_answer = CapturedCbGetattrAnswer { change_variable, ..CapturedCbGetattrAnswer::default() };
            for attribute in ok.obj_attributes.items().map_while(Result::ok) {
                match attribute {
                    Attribute::CHANGE(change) => getattr_answer.change = Some(change),
                    Attribute::SIZE(size) => getattr_answer.size_bytes = Some(size),
                    Attribute::TIME_DELEG_ACCESS(time) => getattr_answer.time_ages[0] = Some(age(step, &time)),
                    Attribute::TIME_DELEG_MODIFY(time) => getattr_answer.time_ages[1] = Some(age(step, &time)),
                    _ => {}
                }
            }
            self.answers.entry(file).or_default().push_back(getattr_answer);
            self.count += 1;
        }
    }

    /// Returns the mask words and the values of the attributes that the live server asks for. The captured answers
    /// about the file are returned in order, the last one repeatedly. `now` is the time since 1970. Returns `None` if
    /// the capture has no answer about the file.
    pub(super) fn next_attributes(
        &mut self,
        values: &LiveVariableValues,
        handle: &[u8],
        requested: &Bitmap4<'_>,
        now: Duration,
    ) -> Option<(Vec<u32>, Vec<u8>)> {
        let mut files = self.answers.iter_mut();
        let (_, answers) = files.find(|(file, _)| values.get(**file) == Some(handle))?;
        let getattr_answer = match answers.len() {
            1 => answers.front().copied()?,
            _ => {
                self.count = self.count.saturating_sub(1);
                answers.pop_front()?
            }
        };
        let live_change = values.identifier(getattr_answer.change_variable).map(u64::from_be_bytes);
        let [access, modify] = getattr_answer.time_ages.map(|age| age.map(|age| time(now.saturating_sub(age))));
        // In ascending order of attribute number.
        let attributes = [
            live_change.or(getattr_answer.change).map(Attribute::CHANGE),
            getattr_answer.size_bytes.map(Attribute::SIZE),
            access.map(Attribute::TIME_DELEG_ACCESS),
            modify.map(Attribute::TIME_DELEG_MODIFY),
        ];
        let attributes = attributes.into_iter().flatten();
        Some(mask_and_values(
            &attributes.filter(|attribute| requested.contains(attribute.number())).collect::<Vec<_>>(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use nfsrdma_dissectors::nfs::v4::Attributes;

    use super::*;
    use crate::run::live_values::LiveVariableValues;

    #[test]
    fn rfc8881_section_20_1_the_answer_is_that_of_the_capture() {
        let getattr_answer = |size, change| CapturedCbGetattrAnswer {
            size_bytes: Some(size),
            change: Some(change),
            change_variable: 9,
            time_ages: [None, Some(Duration::from_secs(3))],
        };
        let now = Duration::from_secs(1000);
        let mut delegated = CapturedCbGetattrAnswers::default();
        delegated.answers.insert(4, VecDeque::from([getattr_answer(100, 7), getattr_answer(200, 8)]));
        let mut values = LiveVariableValues::new("t");
        assert!(values.set_value(4, b"live"));
        let both = [1 << Attributes::CHANGE | 1 << Attributes::SIZE];
        let both = Bitmap4::from(&both[..]);
        let answer = |change, size| Some(mask_and_values(&[Attribute::CHANGE(change), Attribute::SIZE(size)]));
        assert_eq!(delegated.next_attributes(&values, b"other", &both, now), None);
        assert_eq!(delegated.next_attributes(&values, b"live", &both, now), answer(7, 100));
        assert_eq!(delegated.next_attributes(&values, b"live", &both, now), answer(8, 200));
        // The live server has given the change attribute.
        assert!(values.set_value(9, &77u64.to_be_bytes()));
        assert_eq!(delegated.next_attributes(&values, b"live", &both, now), answer(77, 200));
        let size = [1 << Attributes::SIZE];
        let only = delegated.next_attributes(&values, b"live", &Bitmap4::from(&size[..]), now);
        assert_eq!(only, Some(mask_and_values(&[Attribute::SIZE(200)])));
        // Delegated times are as old as they were.
        let times = [0, 0, 1 << (Attributes::TIME_DELEG_ACCESS - 64) | 1 << (Attributes::TIME_DELEG_MODIFY - 64)];
        let times = delegated.next_attributes(&values, b"live", &Bitmap4::from(&times[..]), now);
        let modify = Nfstime4 { seconds: 997, nseconds: 0 };
        assert_eq!(times, Some(mask_and_values(&[Attribute::TIME_DELEG_MODIFY(modify)])));
    }
}
