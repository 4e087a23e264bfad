//! Which of a record's samples ids are of: that whose text they stand for, whole or without its first turns.

use std::cmp::Reverse;
use std::ops::Range;

use serde_json::Value;

use super::conversation::{Completion, Conversation, Sample, role};
use super::expected::Expected;
use super::fault::{FaultKind, Finding};
use super::judge::{Delivered, Judged, Rules, judge};
use crate::config::Truncate;

/// Proves the ids of one of these samples of a record. Of ids that are none of them the fault is told by the most alike.
pub(super) fn judge_any(
    samples: &[Sample],
    ends: &[String],
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
) -> Result<(Expected, Judged), Finding> {
    let mut order: Vec<&Sample> = samples.iter().collect();
    if order.len() > 1 {
        let text = rules.ids.text(delivered.ids);
        order.sort_by_cached_key(|sample| Reverse(likeness(&sample.text(), &text)));
    }
    let mut fault: Option<Finding> = None;
    for sample in order {
        let finding = match sample.judge(ends, delivered, rules) {
            Err(finding) => finding,
            proved => return proved,
        };
        // A fault of the mask tells that the text is that of the sample.
        if fault
            .as_ref()
            .is_none_or(|fault| fault.kind == FaultKind::OtherText && finding.kind != FaultKind::OtherText)
        {
            fault = Some(finding);
        }
    }
    Err(fault.unwrap_or_else(|| Finding::refused(String::new())))
}

/// How many bytes two texts have in common at their beginnings and at their ends.
fn likeness(one: &str, other: &str) -> usize {
    let begins = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let ends = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    begins + ends
}

impl Sample {
    /// Its whole text; empty if the template refuses it.
    fn text(&self) -> String {
        match self {
            Self::Conversation(conversation) => {
                let all: Vec<usize> = (0..conversation.messages.len()).collect();
                conversation.engine.render(&all, &[], false).unwrap_or_default()
            }
            Self::Completion(Completion { text, .. }) => text.clone(),
        }
    }

    /// Proves the ids of a sample. Where whole turns may have left, the first ones of them leave until the text fits.
    pub(super) fn judge(
        &self,
        ends: &[String],
        delivered: &Delivered<'_>,
        rules: &Rules<'_>,
    ) -> Result<(Expected, Judged), Finding> {
        let conversation = match self {
            Self::Conversation(conversation) => conversation,
            Self::Completion(completion) => {
                let expected = Expected::of_completion(completion, ends);
                return judge(&expected, delivered, rules, || None).map(|judged| (expected, judged));
            }
        };
        let mut first = None;
        for without in conversation.shorter(rules.truncate == Truncate::Turns) {
            let judged = Expected::of_conversation(conversation, ends, rules.ids, without)
                .map_err(Finding::refused)
                .and_then(|expected| {
                    judge(&expected, delivered, rules, || conversation.one_by_one())
                        .map(|judged| (expected, judged))
                });
            match judged {
                Err(finding) if finding.kind == FaultKind::OtherText => _ = first.get_or_insert(finding),
                // Of a conversation that was cut, the whole one's fault is what counts.
                judged => return judged,
            }
        }
        Err(first.unwrap_or_else(|| Finding::refused(String::new())))
    }
}

impl Conversation {
    /// Which messages may have left: none, and if whole turns may, ever more of those behind the system prompt.
    fn shorter(&self, may_leave: bool) -> impl Iterator<Item = Range<usize>> {
        let is_system = |message: &&Value| ["system", "developer"].contains(&role(message));
        let first = self.messages.iter().take_while(is_system).count();
        let last = if may_leave { self.messages.len() } else { 0 };
        std::iter::once(0..0).chain((first + 1..last).map(move |end| first..end))
    }

    /// The text of messages that are rendered one by one.
    fn one_by_one(&self) -> Option<String> {
        (0..self.messages.len()).map(|message| self.engine.render(&[message], &[], false).ok()).collect()
    }
}

impl Finding {
    /// A record that gave ids, although the template refuses it.
    fn refused(why: String) -> Self {
        let problem = format!("the template refuses the record, which gave ids: {why}");
        Self { kind: FaultKind::OtherText, bytes: 0..0, message: None, problem }
    }
}
