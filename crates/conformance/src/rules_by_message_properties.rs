//! Rules that apply to messages or Transactions with the same subjects and evidence.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::aggregation::tally_index;
use crate::required_evidence::RequiredCaptureEvidenceSet;
use crate::rule::{Rule, RuleCheck, RuleVerdict};
use crate::rule_applicability::RequiredMessagePropertySet;
use crate::rules::RULES;

/// Maximum number of plans. There are fewer in any traffic but a hostile one; beyond it, all are made anew.
const MAX_PLANS: usize = 1 << 10;

/// A rule, prepared for the many messages or Transactions that `check` judges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreparedConformanceRule<F> {
    /// Index in [`RULES`].
    pub(crate) at: usize,
    pub(crate) rule: &'static Rule,
    pub(crate) subjects: RequiredMessagePropertySet,
    pub(crate) needs: RequiredCaptureEvidenceSet,
    /// Index of its judgements on a connection, if its findings are about connections.
    pub(crate) tally_index: Option<usize>,
    /// Subjects without one of which messages or Transactions keep the rule.
    suspects: RequiredMessagePropertySet,
    pub(crate) check: F,
}

impl<F> PreparedConformanceRule<F> {
    pub(crate) fn select(check: impl Fn(&'static Rule) -> Option<F>) -> Vec<Self> {
        let prepared = |(at, rule): (usize, &'static Rule)| {
            let tally_index = tally_index(rule);
            let suspects = match rule.check {
                // Judgements on a connection are counted one by one.
                _ if tally_index.is_some() => RequiredMessagePropertySet::default(),
                RuleCheck::MessageUnlessEvent(_) => RequiredMessagePropertySet::IMPOSSIBLE,
                _ => RequiredMessagePropertySet::of(rule.suspects),
            };
            Some(Self {
                at,
                rule,
                subjects: RequiredMessagePropertySet::of(rule.subjects),
                needs: RequiredCaptureEvidenceSet::of(rule.needs),
                tally_index,
                suspects,
                check: check(rule)?,
            })
        };
        RULES.iter().copied().enumerate().filter_map(prepared).collect()
    }

    fn is_kept_by(&self, subjects: RequiredMessagePropertySet) -> bool {
        !subjects.contains(self.suspects)
    }
}

/// Verdict that a plan has for all its messages or Transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageClassRuleVerdict {
    Kept,
    Unknown,
}

/// Properties of a message or Transaction that decide the rules.
pub(crate) type RuleRelevantMessageProperties = (RequiredMessagePropertySet, RequiredCaptureEvidenceSet);

/// Rules for one kind of message or Transaction, by its properties.
#[derive(Debug)]
pub(crate) struct RulePlans<F> {
    rules: Vec<PreparedConformanceRule<F>>,
    plans: FxHashMap<RuleRelevantMessageProperties, MessageClassRulePlan<F>>,
}

/// Rules for messages or Transactions with the same properties.
#[derive(Debug)]
struct MessageClassRulePlan<F> {
    judged: Arc<[PreparedConformanceRule<F>]>,
    /// Indices in [`RULES`] of the rules that are kept.
    kept: Vec<usize>,
    /// Indices in [`RULES`] of the rules that are not judged, because evidence is missing.
    not_judged: Vec<usize>,
    /// Number of messages or Transactions.
    uses: u64,
}

impl<F: Copy> RulePlans<F> {
    pub(crate) fn new(rules: Vec<PreparedConformanceRule<F>>) -> Self {
        Self { rules, plans: FxHashMap::default() }
    }

    /// Returns the rules to judge: those that apply, and for which there is evidence, unless they are kept. Counts a
    /// use of the plan. `count` receives the counts of earlier uses, before their plans are made anew; see
    /// [`RulePlans::for_each_count`].
    #[inline]
    pub(crate) fn applicable(
        &mut self,
        properties: RuleRelevantMessageProperties,
        count: impl FnMut(usize, MessageClassRuleVerdict, u64),
    ) -> Arc<[PreparedConformanceRule<F>]> {
        if let Some(plan) = self.plans.get_mut(&properties) {
            plan.uses += 1;
            return Arc::clone(&plan.judged);
        }
        self.add(properties, count)
    }

    #[cold]
    fn add(
        &mut self,
        properties: RuleRelevantMessageProperties,
        count: impl FnMut(usize, MessageClassRuleVerdict, u64),
    ) -> Arc<[PreparedConformanceRule<F>]> {
        if self.plans.len() >= MAX_PLANS {
            self.for_each_count(count);
            self.plans.clear();
        }
        let (subjects, evidence) = properties;
        let applicable = self.rules.iter().filter(|rule| subjects.contains(rule.subjects));
        let (provided, missing): (Vec<&PreparedConformanceRule<F>>, Vec<_>) =
            applicable.partition(|rule| evidence.provides(rule.needs));
        let (kept, judged): (Vec<&PreparedConformanceRule<F>>, Vec<_>) =
            provided.into_iter().partition(|rule| rule.is_kept_by(subjects));
        let judged: Arc<[PreparedConformanceRule<F>]> = judged.into_iter().copied().collect();
        let indices = |rules: Vec<&PreparedConformanceRule<F>>| rules.into_iter().map(|rule| rule.at).collect();
        let (kept, not_judged) = (indices(kept), indices(missing));
        self.plans.insert(properties, MessageClassRulePlan { judged: Arc::clone(&judged), kept, not_judged, uses: 1 });
        judged
    }

    /// Calls `count` with the index in [`RULES`] of each rule that uses of the plans did not judge one by one, with the
    /// verdict and the number of uses.
    pub(crate) fn for_each_count(&self, mut count: impl FnMut(usize, MessageClassRuleVerdict, u64)) {
        for plan in self.plans.values() {
            plan.kept.iter().for_each(|at| count(*at, MessageClassRuleVerdict::Kept, plan.uses));
            plan.not_judged.iter().for_each(|at| count(*at, MessageClassRuleVerdict::Unknown, plan.uses));
        }
    }

    /// Asserts in debug builds that rules do not apply to a message or Transaction without the rule's subjects, and
    /// that it keeps rules without their suspects.
    pub(crate) fn assert_subjects(
        &self,
        (subjects, evidence): RuleRelevantMessageProperties,
        judge: impl Fn(F) -> Option<RuleVerdict>,
    ) {
        if cfg!(debug_assertions) {
            let is_judged = |rule: &&PreparedConformanceRule<F>| {
                evidence.provides(rule.needs) && rule.suspects != RequiredMessagePropertySet::IMPOSSIBLE
            };
            for rule in self.rules.iter().filter(is_judged) {
                let id = rule.rule.id;
                if !subjects.contains(rule.subjects) {
                    assert!(judge(rule.check).is_none(), "{id} applies without its subjects");
                } else if rule.is_kept_by(subjects) {
                    let verdict = judge(rule.check);
                    assert!(matches!(verdict, Some(RuleVerdict::Kept)), "{id} without suspects: {verdict:?}");
                }
            }
        }
    }
}
