//! The proof itself: the delivered ids and their mask against what they must be. It is a pure function.
//!
//! The text is compared first, then special tokens, then the mask, id by id. A mask that is wrong is compared with the
//! ways in which masks usually are, so that the fault has a name.

use std::ops::Range;

use super::conversation::REASONING_TAGS;
use super::expected::{Content, Expected, Turn};
use super::fault::{FaultKind, Finding};
use super::ranges::{Ranges, overlaps};
use super::spans::{Added, Ids};
use crate::config::Truncate;
use crate::excerpt::{excerpt, listed};

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
    /// Whether the prompt of each turn is rendered. Otherwise a fault may be none.
    pub(super) renders_prompts: bool,
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
    /// How many of the turns are the model's own, and how many of those end without a token of any kind.
    pub(super) own_turns: u64,
    pub(super) unstopped_turns: u64,
    /// How many spell a token of the tokenizer letter by letter.
    pub(super) spelled_turns: u64,
    /// Of how many others only parts are learned from.
    pub(super) partial_turns: u64,
    /// How many have white space learned behind their end.
    pub(super) blanks: u64,
    /// Up to which byte of the text the ids reach.
    pub(super) end: usize,
}

/// Proves one document, or finds what is wrong. `None` if the ids are of another text.
pub(super) fn judge(
    expected: &Expected,
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
) -> Option<Result<Judged, Finding>> {
    if expected.turns.is_empty() && expected.lost == 0 {
        return Some(Err(no_turn(expected)));
    }
    let cuts: Vec<usize> = expected.turns.iter().map(|turn| turn.start.end).collect();
    let spans = spans(&expected.text, &cuts, delivered, rules)?;
    let (begin, end) = (spans.first().map_or(0, |span| span.start), spans.last().map_or(0, |span| span.end));
    let is_cut = begin > 0 || delivered.is_whole && end < expected.text.len();
    let at = Ranges::new(spans.iter().cloned());
    let judge = Judge { expected, delivered, rules, spans: &spans, at };
    Some(judge.special().and_then(|()| judge.mask(is_cut)).and_then(|()| judge.ends(end)))
}

/// Whether the ids may be those of a text, whatever its turns are.
pub(super) fn fits(text: &str, delivered: &Delivered<'_>, rules: &Rules<'_>) -> bool {
    spans(text, &[], delivered, rules).is_some() || !rules.ids.is_exact(text)
}

/// The bytes of a text that the ids stand for: all of them, or those that were left.
fn spans(
    text: &str,
    cuts: &[usize],
    delivered: &Delivered<'_>,
    rules: &Rules<'_>,
) -> Option<Vec<Range<usize>>> {
    let spans = |from| rules.ids.spans(delivered.ids, text, from, cuts).ok();
    if let Some(spans) = spans(0) {
        let is_cut = delivered.is_whole && spans.last().map_or(0, |span| span.end) < text.len();
        return (!is_cut || rules.truncate == Truncate::End).then_some(spans);
    }
    let found = rules.ids.text(delivered.ids);
    // Its first id may be the rest of a character.
    let found = found.trim_start_matches(char::REPLACEMENT_CHARACTER);
    let is_rest = rules.truncate == Truncate::Start && text.ends_with(found);
    spans(is_rest.then(|| text.len() - found.len())?)
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
    /// The same, to search.
    at: Ranges,
}

impl Judge<'_> {
    fn finding(&self, kind: FaultKind, bytes: Range<usize>, message: Option<usize>, what: &str) -> Finding {
        let problem = format!("{what}: {:?}", excerpt(&self.expected.text[bytes.clone()]));
        Finding { kind, bytes, message, problem }
    }

    /// No special token stands for a content's text, but for tags that the template looks for there.
    fn special(&self) -> Result<(), Finding> {
        if self.rules.parses {
            return Ok(());
        }
        let places = Ranges::new(self.expected.contents.iter().map(|content| content.place.clone()));
        for (id, span) in self.delivered.ids.iter().zip(self.spans) {
            let Some(Added { spelling, .. }) = self.rules.ids.special.get(id) else { continue };
            // The token for unknown text stands for another one.
            if !self.expected.text.get(span.start..).is_some_and(|text| text.starts_with(spelling)) {
                continue;
            }
            let is_tag = self.expected.reads_tags && REASONING_TAGS.contains(&&**spelling);
            let is_wrong = |content: &&Content| {
                let is_within = content.place.start <= span.start && span.end <= content.place.end;
                is_within && !(is_tag && self.expected.roles[content.message] == "assistant")
            };
            if let Some(of) = places.at(span).map(|nth| &self.expected.contents[nth]).find(is_wrong) {
                let what = format!("the text of a content has become the special token {id}");
                return Err(self.finding(FaultKind::SpecialInContent, span.clone(), Some(of.message), &what));
            }
        }
        Ok(())
    }

    /// Whether each id must be learned from; `None` where it may be either.
    fn wanted(&self) -> Vec<Option<bool>> {
        let turns = &self.expected.turns;
        let of_turns = Ranges::new(turns.iter().map(|turn| turn.start.start..turn.end.end));
        let parts: Vec<&(Range<usize>, bool)> = turns.iter().flat_map(|turn| &turn.parts).collect();
        let of_parts = Ranges::new(parts.iter().map(|(place, _)| place.clone()));
        // White space behind a turn may be learned from, but not with the text behind that.
        let is_blank =
            |span: &Range<usize>, turn: &Turn| turn.end.start <= span.start && span.end <= turn.end.end;
        let wanted = |span: &Range<usize>| {
            let mut parts =
                of_parts.at(span).map(|nth| parts[nth]).filter(|(place, _)| overlaps(span, place));
            if let Some((place, _)) = parts.clone().next() {
                // An id is learned from if any of its bytes is.
                let is_learned = parts.any(|(_, is_learned)| *is_learned);
                let is_within = place.start <= span.start && span.end <= place.end;
                return (is_learned || is_within).then_some(is_learned);
            }
            let mut turns = of_turns.at(span).map(|nth| &turns[nth]);
            let is_either = |turn: &Turn| {
                let is_end = if turn.is_prompted { is_blank(span, turn) } else { overlaps(span, &turn.end) };
                is_end || overlaps(span, &turn.start)
            };
            // Near a turn that was not found, nothing is known.
            let is_known = self.expected.lost == 0 && !span.is_empty();
            match () {
                () if turns.clone().any(|turn| is_written(span, turn)) => Some(true),
                () if turns.any(is_either) || !is_known => None,
                () => Some(false),
            }
        };
        // White space that a token drops may count as its own.
        let either = |(id, span): (&u32, &Range<usize>)| {
            let reach = self.rules.ids.reach(*id, span, &self.expected.text);
            wanted(span).filter(|is_learned| reach == *span || wanted(&reach) == Some(*is_learned))
        };
        self.delivered.ids.iter().zip(self.spans).map(either).collect()
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
        // What was shifted is learned from where the model writes nothing, and is not where it begins or ends to write.
        let is_beside = wanted.iter().zip(learned).any(|(wanted, learned)| *learned && *wanted != Some(true));
        let is_missing =
            wanted.iter().zip(learned).any(|(wanted, learned)| !learned && *wanted == Some(true));
        if let Some(by) = SHIFTS.iter().find(|by| is_beside && is_missing && is_shifted(by)) {
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
        self.at.at(&turn.written()).filter(|index| is_written(&self.spans[*index], turn))
    }

    fn is_masked(&self, turn: &Turn) -> bool {
        let mut ids = self.of_turn(turn).peekable();
        ids.peek().is_some() && ids.all(|index| !self.delivered.learned[index])
    }

    /// The fault of id `wrong`, which should be learned from.
    fn not_learned(&self, wrong: usize) -> Finding {
        let span = self.spans[wrong].clone();
        let of = self.expected.turns.iter().find(|turn| is_written(&span, turn));
        let Some(turn) = of else {
            let has = |turn: &&Turn| turn.parts.iter().any(|(place, _)| overlaps(&span, place));
            let message = self.expected.turns.iter().find(has).map(|turn| turn.message);
            return self.finding(FaultKind::PartMasked, span, message, "this is not learned from");
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
        let is_masked = |(place, is_learned): &(Range<usize>, bool)| !is_learned && overlaps(&bytes, place);
        if let Some(turn) = self.expected.turns.iter().find(|turn| turn.parts.iter().any(is_masked)) {
            let what = "a part of a message is learned from that is not to be";
            return self.finding(FaultKind::MessageLearned, bytes, Some(turn.message), what);
        }
        let is_of = |content: &&Content| overlaps(&bytes, &content.place);
        if let Some(content) = self.expected.contents.iter().find(is_of) {
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
            let Some(last) = ids.last() else {
                let is_there = |(place, is_learned): &(Range<usize>, bool)| *is_learned && place.end <= end;
                judged.partial_turns += u64::from(turn.parts.iter().any(is_there));
                continue;
            };
            judged.turns += 1;
            let id = self.delivered.ids[*last];
            let is_last = turn.end.end == self.expected.text.len();
            judged.spelled_turns += u64::from(turn.is_prompted && self.spells(turn));
            judged.own_turns += u64::from(turn.is_prompted);
            let is_stopped = turn.stop.is_some() || self.rules.ids.special.contains_key(&id);
            judged.unstopped_turns += u64::from(turn.is_prompted && !is_stopped);
            match &turn.stop {
                None if is_last && !self.expected.ends.is_empty() || !turn.is_prompted => {
                    judged.open_turns += 1;
                }
                None if is_stopped || is_last => {}
                None => {
                    let what = "this turn ends without a token that stops generation";
                    return Err(self.finding(FaultKind::NoEnd, turn.written(), Some(turn.message), what));
                }
                Some(stop) => {
                    let is_token = |token: &Added| token.spelling == *stop;
                    let is_known = self.rules.ids.special.values().any(is_token);
                    if is_known && !self.rules.ids.special.get(&id).is_some_and(is_token) {
                        let what =
                            "the end of the turn is plain text, and not the token that stops generation";
                        let bytes = self.spans[*last].clone();
                        return Err(self.finding(FaultKind::NoEnd, bytes, Some(turn.message), what));
                    }
                    if !is_known && !self.rules.ids.has_token(stop) {
                        let what =
                            "the tokenizer has no token for the end of the turn, so nothing stops generation";
                        let bytes = turn.end.start - stop.len()..turn.end.start;
                        return Err(self.finding(FaultKind::EndIsNoToken, bytes, Some(turn.message), what));
                    }
                }
            }
            let is_blank = |index: usize| {
                let span = &self.spans[index];
                let is_behind = span.start >= turn.end.start && span.end <= turn.end.end && !span.is_empty();
                is_behind && self.delivered.learned[index]
            };
            judged.blanks += u64::from(self.at.at(&turn.end).any(is_blank));
        }
        Ok(judged)
    }

    /// Whether a turn has the text of an added token, and other ids for it.
    fn spells(&self, turn: &Turn) -> bool {
        if self.rules.parses || !self.rules.renders_prompts {
            return false;
        }
        let (written, special) = (turn.written(), self.rules.ids.special);
        let is_token = |place: Range<usize>| {
            let is_it = |index: usize| {
                let span = &self.spans[index];
                let covers = span.start <= place.start && place.end <= span.end;
                covers && special.contains_key(&self.delivered.ids[index])
            };
            self.at.at(&place).any(is_it)
        };
        let spelled = |spelling: &str| {
            let mut found = self.expected.text[written.clone()].match_indices(spelling);
            found.any(|(at, _)| !is_token(written.start + at..written.start + at + spelling.len()))
        };
        let tokens = special.values().filter(|added| !added.is_unknown && added.spelling.starts_with('<'));
        tokens.map(|added| &*added.spelling).any(spelled)
    }
}

/// Whether the model certainly writes an id of these bytes in a turn.
fn is_written(span: &Range<usize>, turn: &Turn) -> bool {
    let written = turn.written();
    !written.is_empty() && overlaps(span, &written)
}
