//! Turns between markers: the text that stands before each turn of the assistant, and what ends it.

use std::ops::Range;

use super::RenderError;
use super::spellings::{Spelling, Spellings};

/// What a marker means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A turn begins behind it.
    Begin,
    /// It ends a turn, and belongs to it.
    End,
    /// A turn has ended before it.
    Stop,
    /// It belongs to the turn, and what comes behind it does not.
    Pause,
    /// What comes behind it is another message's, without a marker of its own.
    Resume,
}

/// The markers of a template.
#[derive(Clone, Debug)]
pub(super) struct Markers {
    spellings: Spellings,
    /// For each spelling.
    meanings: Vec<Meaning>,
    /// What the template's generation prompt has behind the marker that begins a turn. The model does not write it.
    pub(super) prompt: Prompt,
    /// Whether the model itself writes the marker that begins another part of its message.
    pub(super) is_joined: bool,
    /// Whether one message may become several turns.
    pub(super) is_split: bool,
    /// Whether the config names them. Then a turn without an end is an error.
    is_named: bool,
}

/// The end of a generation prompt, in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// Each piece's text, and whether it is a token's spelling.
    pieces: Vec<(String, bool)>,
}

impl Prompt {
    pub(super) fn new(text: &str, tokens: &Spellings) -> Self {
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (range, _) in tokens.find(text) {
            pieces.push((text[at..range.start].to_owned(), false));
            at = range.end;
            pieces.push((text[range].to_owned(), true));
        }
        pieces.push((text[at..].to_owned(), false));
        pieces.retain(|(text, _)| !text.is_empty());
        Self { pieces }
    }

    /// The place behind the prompt, if it stands in a text from `at` on. A prompt that only begins alike, such as one
    /// that says not to think, ends behind the tokens that both have.
    fn end(&self, text: &str, at: usize) -> usize {
        let mut end = at;
        let mut tokens_end = at;
        for (piece, is_token) in &self.pieces {
            if !text[end..].starts_with(piece.as_str()) {
                return tokens_end;
            }
            end += piece.len();
            tokens_end = if *is_token { end } else { tokens_end };
        }
        end
    }
}

/// A turn's ranges of the text, which are learned from, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// Where the marker stands that begins it; its own beginning if there is none.
    pub(super) marker: usize,
    pub(super) ranges: Vec<Range<usize>>,
}

impl Turn {
    pub(super) fn contains(&self, place: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&place))
    }

    pub(super) fn end(&self) -> Option<usize> {
        self.ranges.last().map(|range| range.end)
    }
}

impl Markers {
    /// The markers that a config names.
    pub(super) fn named(begin: &str, end: &str) -> Self {
        let marks = [(begin, Meaning::Begin), (end, Meaning::End)];
        Self { is_named: true, ..Self::of(marks.map(|(text, meaning)| (text.to_owned(), meaning)).to_vec()) }
    }

    /// Those of a template: what begins turns, what ends them, what stands behind their end, and what interrupts them.
    pub(super) fn new(begins: &[String], ends: &[String], stops: &[String], pauses: &[(&str, &str)]) -> Self {
        let with =
            |texts: &[String], meaning| texts.iter().map(|text| (text.clone(), meaning)).collect::<Vec<_>>();
        let mut marks = with(begins, Meaning::Begin);
        marks.extend(with(ends, Meaning::End));
        marks.extend(with(stops, Meaning::Stop));
        for (pause, resume) in pauses {
            marks.extend([((*pause).to_owned(), Meaning::Pause), ((*resume).to_owned(), Meaning::Resume)]);
        }
        Self::of(marks)
    }

    fn of(marks: Vec<(String, Meaning)>) -> Self {
        let spellings = Spellings::new(marks.iter().map(|(text, _)| Spelling::new(text)));
        let meaning = |spelling: &Spelling| {
            marks.iter().find(|(text, _)| *text == spelling.text).map_or(Meaning::Stop, |mark| mark.1)
        };
        let meanings = spellings.all().iter().map(meaning).collect();
        Self {
            spellings,
            meanings,
            prompt: Prompt::default(),
            is_joined: false,
            is_split: false,
            is_named: false,
        }
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.spellings.all().iter().map(|spelling| spelling.text.clone()).collect()
    }

    pub(super) fn begins(&self) -> impl Iterator<Item = &str> {
        let marks = self.spellings.all().iter().zip(&self.meanings);
        marks.filter(|(_, meaning)| **meaning == Meaning::Begin).map(|(spelling, _)| spelling.text.as_str())
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &str> {
        let marks = self.spellings.all().iter().zip(&self.meanings);
        marks.filter(|(_, meaning)| **meaning == Meaning::End).map(|(spelling, _)| spelling.text.as_str())
    }

    /// The turns of a text. `structure` is the text with other letters for what somebody imitates.
    pub(super) fn turns(&self, text: &str, structure: &str) -> Result<Vec<Turn>, RenderError> {
        let mut finding = Finding { turns: Vec::new(), open: None, is_paused: false };
        for (range, number) in self.spellings.find(structure) {
            match self.meanings[number] {
                Meaning::Begin => {
                    if self.is_named && finding.open.is_some() {
                        return Err(self.unended("the next"));
                    }
                    finding.close(range.start);
                    finding.begin(range.start, self.prompt.end(text, range.end));
                }
                Meaning::End => finding.close(range.end),
                Meaning::Stop => finding.close(range.start),
                // Behind one result stands another one.
                Meaning::Pause if finding.open == Some(range.start) => finding.wait(),
                Meaning::Pause => finding.pause(range.end),
                Meaning::Resume => finding.resume(range.end),
            }
        }
        // Nothing is open behind a template's prompt for the next turn.
        if self.is_named && finding.open.is_some_and(|start| start < structure.len()) {
            return Err(self.unended("the end of the text"));
        }
        finding.close(structure.len());
        finding.turns.retain(|turn| !turn.ranges.is_empty());
        Ok(finding.turns)
    }

    fn unended(&self, next: &str) -> RenderError {
        let begin = self.begins().next().unwrap_or_default();
        RenderError::new(
            format!("chat.turn.end is not found between one {begin:?} and {next}"),
            "correct chat.turn: its end must stand behind each turn of the assistant",
        )
    }
}

/// What is known on the way through a text.
struct Finding {
    turns: Vec<Turn>,
    /// Where the open range begins.
    open: Option<usize>,
    /// Whether a turn was interrupted, and none has begun since.
    is_paused: bool,
}

impl Finding {
    fn begin(&mut self, marker: usize, at: usize) {
        self.turns.push(Turn { marker, ranges: Vec::new() });
        self.open = Some(at);
        self.is_paused = false;
    }

    fn close(&mut self, at: usize) {
        self.is_paused = false;
        if let (Some(start), Some(turn)) = (self.open.take(), self.turns.last_mut())
            && start < at
        {
            turn.ranges.push(start..at);
        }
    }

    fn pause(&mut self, at: usize) {
        if self.open.is_some() {
            self.close(at);
            self.is_paused = true;
        }
    }

    /// Nothing was written since the turn went on.
    fn wait(&mut self) {
        self.open = None;
        self.is_paused = true;
    }

    fn resume(&mut self, at: usize) {
        if std::mem::take(&mut self.is_paused) {
            self.begin(at, at);
        }
    }
}
