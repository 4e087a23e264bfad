//! The proof itself: the delivered ids and their mask against what they must be. It is a pure function.
//!
//! The text is compared first, then special tokens, then the mask, id by id. A mask that is wrong is compared with the
//! ways in which masks usually are, so that the fault has a name.

use std::ops::Range;

use super::expected::{Expected, Turn};
use super::fault::{FaultKind, Finding};
use super::mistakes::named;
use super::spans::Ids;
use crate::config::Truncate;
use crate::source::{excerpt, listed};

/// The roles of the results of tools.
const TOOLS: [&str; 3] = ["tool", "function", "ipython"];

/// How far a mask may be from its place to be called shifted, in ids.
const SHIFTS: [isize; 4] = [1, -1, 2, -2];

/// The ids of one document, as they were delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered<'a> {
    pub(super) ids: &'a [u32],
    /// Whether each of them is learned from.
    pub(super) learned: &'a [bool],
    /// Whether the document ends with them, as far as the batches tell.
    pub(super) is_whole: bool,
}

/// The rules that the ids were made by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) ids: Ids<'a>,
    /// Whether special tokens in contents are parsed.
    pub(super) parses: bool,
    pub(super) truncate: Truncate,
    /// The id that fills rows.
    pub(super) pad: u32,
}

/// What was proved of one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// How many turns are learned from to their end.
    pub(super) turns: u64,
    /// How many of them end without a token that stops generation: the text ends there, or they are another role's.
    pub(super) open_turns: u64,
    /// How many have white space learned behind their end.
    pub(super) blanks: u64,
    /// Up to which byte of the text the ids reach.
    pub(super) end: usize,
}

/// Proves one document, or finds what is wrong. `one_by_one` is the text of messages that were rendered one by one.
pub(super) fn judge(
    expected: &Expected,
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
    one_by_one: impl FnOnce() -> Option<String>,
) -> Result<Judged, Finding> {
    if expected.turns.is_empty() && expected.lost == 0 {
        return Err(no_turn(expected));
    }
    let Some(spans) = spans(expected, delivered, rules) else {
        return Err(named(expected, &rules.ids.text(delivered.ids), one_by_one));
    };
    let (begin, end) = (spans.first().map_or(0, |span| span.start), spans.last().map_or(0, |span| span.end));
    let is_cut = begin > 0 || delivered.is_whole && end < expected.text.len();
    if is_cut && begin == 0 && rules.truncate != Truncate::End {
        return Err(named(expected, &expected.text[..end], one_by_one));
    }
    let judge = Judge { expected, delivered, rules, spans: &spans };
    judge.special()?;
    judge.mask(is_cut)?;
    judge.ends(end)
}

/// The bytes that the ids stand for: those of the whole text, or those that were left of it.
fn spans(expected: &Expected, delivered: &Delivered<'_>, rules: &Rules<'_>) -> Option<Vec<Range<usize>>> {
    let cuts: Vec<usize> = expected.turns.iter().map(|turn| turn.start.end).collect();
    let spans = |from| rules.ids.spans(delivered.ids, &expected.text, from, &cuts).ok();
    spans(0).or_else(|| {
        let text = rules.ids.text(delivered.ids);
        // Its first id may be the rest of a character.
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
        let is_rest = rules.truncate == Truncate::Start && expected.text.ends_with(text);
        spans(is_rest.then(|| expected.text.len() - text.len())?)
    })
}

/// The fault of a document that has no turn to learn from.
fn no_turn(expected: &Expected) -> Finding {
    let problem =
        format!("no message has a role that is learned from: the roles are {}", listed(&expected.roles));
    Finding { kind: FaultKind::UnknownRoles, bytes: 0..expected.text.len(), message: None, problem }
}

struct Judge<'a> {
    expected: &'a Expected,
    delivered: &'a Delivered<'a>,
    rules: &'a Rules<'a>,
    /// The bytes of each id.
    spans: &'a [Range<usize>],
}

impl Judge<'_> {
    fn finding(&self, kind: FaultKind, bytes: Range<usize>, message: Option<usize>, what: &str) -> Finding {
        let problem = format!("{what}: {:?}", excerpt(&self.expected.text[bytes.clone()]));
        Finding { kind, bytes, message, problem }
    }

    /// No special token stands for a content's text.
    fn special(&self) -> Result<(), Finding> {
        if self.rules.parses {
            return Ok(());
        }
        for (id, span) in self.delivered.ids.iter().zip(self.spans) {
            let within = |place: &Range<usize>| place.start <= span.start && span.end <= place.end;
            let of = self.expected.contents.iter().find(|content| within(&content.place));
            if let (Some(_), Some(of)) = (self.rules.ids.special.get(id), of) {
                let what = format!("the text of a content has become the special token {id}");
                return Err(self.finding(FaultKind::SpecialInContent, span.clone(), Some(of.message), &what));
            }
        }
        Ok(())
    }

    /// Whether each id must be learned from; `None` where it may be either.
    fn wanted(&self) -> Vec<Option<bool>> {
        let overlaps = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        // White space behind a turn may be learned from, but not with the text behind that.
        let is_blank =
            |span: &Range<usize>, turn: &Turn| turn.end.start <= span.start && span.end <= turn.end.end;
        let wanted = |span: &Range<usize>| {
            let mut turns = self.expected.turns.iter();
            let is_either = |turn: &Turn| {
                let is_end = if turn.is_prompted { is_blank(span, turn) } else { overlaps(span, &turn.end) };
                is_end || overlaps(span, &turn.start)
            };
            // Near a turn that was not found, nothing is known.
            let is_known = self.expected.lost == 0 && !span.is_empty();
            match () {
                () if turns.clone().any(|turn| overlaps(span, &turn.written())) => Some(true),
                () if turns.any(is_either) || !is_known => None,
                () => Some(false),
            }
        };
        self.spans.iter().map(wanted).collect()
    }

    /// Each id is learned from exactly if the model writes it.
    fn mask(&self, is_cut: bool) -> Result<(), Finding> {
        let (wanted, learned) = (self.wanted(), self.delivered.learned);
        let differs =
            |(wanted, learned): (&Option<bool>, &bool)| wanted.is_some_and(|wanted| wanted != *learned);
        let all = |value: bool| learned.iter().all(|learned| *learned == value);
        let (begin, end) =
            (self.spans.first().map_or(0, |s| s.start), self.spans.last().map_or(0, |s| s.end));
        if all(false) && self.delivered.is_whole && self.expected.lost == 0 {
            return Err(match is_cut && !wanted.contains(&Some(true)) {
                true => self.finding(
                    FaultKind::NothingLeft,
                    begin..end,
                    None,
                    "nothing of what is left is learned from",
                ),
                false => self.finding(FaultKind::NothingLearned, begin..end, None, "nothing is learned from"),
            });
        }
        let Some(wrong) = wanted.iter().zip(learned).position(differs) else { return Ok(()) };
        if all(true) {
            let what = "everything is learned from, as if there was no mask";
            return Err(self.finding(FaultKind::EverythingLearned, begin..end, None, what));
        }
        let is_shifted = |by: &isize| {
            let beside = |index: usize| index.checked_add_signed(*by).and_then(|index| learned.get(index));
            (0..wanted.len()).all(|index| beside(index).is_none_or(|there| !differs((&wanted[index], there))))
        };
        // What was shifted is also learned from where the model writes nothing.
        let is_beside = wanted.iter().zip(learned).any(|(wanted, learned)| *learned && *wanted != Some(true));
        if let Some(by) = SHIFTS.iter().find(|by| is_beside && is_shifted(by)) {
            let what = format!(
                "the mask stands {} {} too {}",
                by.abs(),
                if by.abs() == 1 { "id" } else { "ids" },
                if *by > 0 { "far behind" } else { "far ahead" }
            );
            return Err(self.finding(FaultKind::Shifted, self.spans[wrong].clone(), None, &what));
        }
        let masked: Vec<&Turn> = self.expected.turns.iter().filter(|turn| self.is_masked(turn)).collect();
        if let [first, .., last] = &*self.expected.turns
            && masked.len() + 1 == self.expected.turns.len()
            && !self.is_masked(last)
        {
            let what = "only the last turn is learned from, and not this one";
            return Err(self.finding(FaultKind::OnlyLastTurn, first.written(), Some(first.message), what));
        }
        Err(match wanted[wrong] {
            Some(true) => self.not_learned(wrong),
            _ => self.learned(wrong, &wanted),
        })
    }

    /// The ids that overlap what the model certainly writes in a turn.
    fn of_turn(&self, turn: &Turn) -> impl Iterator<Item = usize> {
        let written = turn.written();
        let overlaps = move |span: &Range<usize>| span.start < written.end && written.start < span.end;
        self.spans.iter().enumerate().filter(move |(_, span)| overlaps(span)).map(|(index, _)| index)
    }

    fn is_masked(&self, turn: &Turn) -> bool {
        self.of_turn(turn).all(|index| !self.delivered.learned[index])
    }

    /// The fault of id `wrong`, which should be learned from.
    fn not_learned(&self, wrong: usize) -> Finding {
        let span = self.spans[wrong].clone();
        let of = self.expected.turns.iter().find(|turn| self.of_turn(turn).any(|index| index == wrong));
        let Some(turn) = of else {
            return self.finding(FaultKind::PartMasked, span, None, "this is not learned from");
        };
        let (message, stop) = (Some(turn.message), turn.stop.as_ref().map_or(0, String::len));
        if self.is_masked(turn) {
            return self.finding(
                FaultKind::TurnMasked,
                turn.written(),
                message,
                "this turn is not learned from",
            );
        }
        if span.start + stop < turn.end.start || stop == 0 {
            return self.finding(
                FaultKind::PartMasked,
                span,
                message,
                "this part of a turn is not learned from",
            );
        }
        let what = match self.delivered.ids[wrong] == self.rules.pad {
            true => "the token that ends the turn is not learned from; it is also the one that fills rows",
            false => "the token that ends the turn is not learned from",
        };
        self.finding(FaultKind::EndMasked, span, message, what)
    }

    /// The fault of id `wrong`, which should not be learned from.
    fn learned(&self, wrong: usize, wanted: &[Option<bool>]) -> Finding {
        let is_wrong = |index: &usize| wanted[*index] == Some(false) && self.delivered.learned[*index];
        let last = (wrong..wanted.len()).take_while(is_wrong).last().unwrap_or(wrong);
        let bytes = self.spans[wrong].start..self.spans[last].end;
        let overlaps = |place: &Range<usize>| place.start < bytes.end && bytes.start < place.end;
        if let Some(content) = self.expected.contents.iter().find(|content| overlaps(&content.place)) {
            let role = &*self.expected.roles[content.message];
            let bytes = content.place.start.max(bytes.start)..content.place.end.min(bytes.end);
            let (kind, what) = match TOOLS.contains(&role) {
                true => (FaultKind::ToolResultLearned, "the result of a tool is learned from".to_owned()),
                false => (FaultKind::MessageLearned, format!("text of the role {role:?} is learned from")),
            };
            return self.finding(kind, bytes, Some(content.message), &what);
        }
        if self.expected.ends.iter().any(|end| self.expected.text[bytes.clone()].trim() == end) {
            let what = "the token that ends another message is learned from";
            return self.finding(FaultKind::OtherEndLearned, bytes, None, what);
        }
        let turns = self.expected.turns.iter();
        let before = turns.rev().find(|turn| turn.prompted() <= bytes.start);
        match before.filter(|turn| bytes.end <= turn.start.end) {
            Some(turn) if bytes == (turn.prompted()..turn.start.start) => {
                let what = "the template's prompt for the turn is learned from";
                self.finding(FaultKind::PromptLearned, bytes, Some(turn.message), what)
            }
            Some(turn) => {
                let what = "a part of the template's prompt for the turn is learned from";
                self.finding(FaultKind::HeaderLearned, bytes, Some(turn.message), what)
            }
            None => {
                self.finding(FaultKind::TemplateLearned, bytes, None, "text of the template is learned from")
            }
        }
    }

    /// Each turn that is there to its end ends with a token that stops generation.
    fn ends(&self, end: usize) -> Result<Judged, Finding> {
        let mut judged = Judged { end, ..Judged::default() };
        for turn in self.expected.turns.iter().filter(|turn| turn.end.start <= end) {
            let ids: Vec<usize> = self.of_turn(turn).collect();
            let Some(last) = ids.last() else { continue };
            judged.turns += 1;
            let id = self.delivered.ids[*last];
            let is_last = turn.end.end == self.expected.text.len();
            match &turn.stop {
                None if is_last && !self.expected.ends.is_empty() || !turn.is_prompted => {
                    judged.open_turns += 1
                }
                None if self.rules.ids.special.contains_key(&id) || is_last => {}
                None => {
                    let what = "this turn ends without a token that stops generation";
                    return Err(self.finding(FaultKind::NoEnd, turn.written(), Some(turn.message), what));
                }
                Some(stop) => {
                    let is_token = |token: &String| token == stop;
                    let known = self.rules.ids.special.values().any(is_token);
                    if known && !self.rules.ids.special.get(&id).is_some_and(is_token) {
                        let what =
                            "the end of the turn is plain text, and not the token that stops generation";
                        let bytes = self.spans[*last].clone();
                        return Err(self.finding(FaultKind::NoEnd, bytes, Some(turn.message), what));
                    }
                }
            }
            let blank = |(span, learned): (&Range<usize>, &bool)| {
                *learned && span.start >= turn.end.start && span.end <= turn.end.end && !span.is_empty()
            };
            judged.blanks += u64::from(self.spans.iter().zip(self.delivered.learned).any(blank));
        }
        Ok(judged)
    }
}
