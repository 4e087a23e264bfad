//! The proof of what is learned from, and the figures that it gives.

use serde::Serialize;

use super::super::words::count;
use super::super::{print_json, print_line, progress};
use super::mask::Shares;
use millstream::prove::{Borders, Proof, Prover};
use millstream::{Batch, Error, Loader, Result};

/// A proof that may be asked for, or only give figures.
#[derive(Debug, Default)]
pub(super) struct Check {
    prover: Option<Prover>,
    is_asked_for: bool,
    /// Whether a batch had a fault, although no proof was asked for.
    has_fault: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    proof: &'a Proof,
    mask: &'a Shares,
}

impl Check {
    /// Opens the records of a loader. `is_within` says that the stream does not begin at its start.
    pub(super) async fn open(loader: &Loader, is_within: bool, is_asked_for: bool) -> Result<Self> {
        let prover = match Prover::open(loader).await {
            Err(error) if is_asked_for => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "the records cannot be read again");
                return Ok(Self::default());
            }
            Ok(prover) => Some(prover).filter(Prover::has_task),
        };
        if is_asked_for && prover.is_none() {
            let problem = "all of each text is learned from, so there is no mask to prove: no source has the task \"chat\" \
                           or \"completion\"";
            return Err(Error::config("source.0.task", problem));
        }
        let prover = prover.map(|prover| if is_within { prover.within_stream() } else { prover });
        let prover = prover.map(|prover| if is_asked_for { prover } else { prover.at_a_glance() });
        Ok(Self { prover, is_asked_for, has_fault: false })
    }

    /// Proves a batch. The first fault is an error if the proof was asked for.
    pub(super) async fn add(&mut self, batch: &Batch) -> Result<()> {
        let Some(prover) = &mut self.prover else { return Ok(()) };
        match prover.check(batch).await {
            Ok(None) => Ok(()),
            Ok(Some(fault)) if self.is_asked_for => Err(fault.into()),
            Err(error) if self.is_asked_for => Err(error),
            Ok(Some(_)) => {
                self.has_fault = true;
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, "the records cannot be read again");
                self.prover = None;
                Ok(())
            }
        }
    }

    pub(super) fn finish(self, shares: &Shares, json: bool) -> Result<()> {
        let Self { prover, is_asked_for, has_fault } = self;
        let proof = prover.as_ref().map(Prover::proof);
        if let (true, Some(proof)) = (is_asked_for, proof) {
            if proof.documents == 0 {
                let problem = format!(
                    "nothing is proved: of {} no document is whole and can be read again; look at more batches with -n, \
                     or from the start of the stream",
                    count(proof.batches, "batch")
                );
                return Err(Error::Verify { problem });
            }
            if proof.turns + proof.partial_turns == 0 {
                return Err(Error::Verify { problem: no_turn(proof) });
            }
            if let Some(problem) = proof.problem() {
                return Err(Error::Verify { problem });
            }
            if json {
                print_json(&Report { proof, mask: shares })?;
            } else {
                proved(proof).iter().try_for_each(|line| print_line(line))?;
            }
        }
        if !json {
            print_line(&shares.line())?;
            if let Some(proof) = proof.filter(|proof| proof.borders.borders > 0) {
                print_line(&borders(&proof.borders))?;
            }
        }
        if has_fault {
            progress::say("the mask has a fault; --check says which, and where");
        }
        Ok(())
    }
}

/// Why no turn was proved.
fn no_turn(proof: &Proof) -> String {
    let why = match proof.lost {
        0 => "none is there to its end, or the places of their parts are unknown".to_owned(),
        lost => format!("the place of {} in the text is unknown", count(lost, "turn")),
    };
    format!(
        "no turn could be proved in {}: {why}; look at them with --mask, and at chat.learn and the template",
        count(proof.documents, "document")
    )
}

/// What was proved, in lines.
fn proved(proof: &Proof) -> Vec<String> {
    let mut lines = vec![format!(
        "proved: {} of {} in {}",
        count(proof.turns, "turn"),
        count(proof.documents, "document"),
        count(proof.batches, "batch")
    )];
    let notes = [
        (proof.plain, "are of sources without a task, and all of them is learned from", "piece"),
        (proof.unproved, "are not proved: they are rests, or cannot be read again", "piece"),
        (proof.partial_turns, "more are learned from in parts, which are proved", "turn"),
        (proof.lost, "are not proved: where they stand in the text is unknown", "turn"),
        (proof.open_turns, "end with their text: the template writes no token that stops generation", "turn"),
        (
            proof.spelled_turns,
            "spell a token of the tokenizer, such as <think>, letter by letter; with tokenizer.special_tokens = \"parse\" \
             it becomes that token",
            "turn",
        ),
        (proof.blanks, "have white space learned behind their end, which the model never writes", "turn"),
    ];
    let some = notes.into_iter().filter(|(number, ..)| *number > 0);
    lines.extend(some.map(|(number, what, noun)| format!("note: {} {what}", count(number, noun))));
    lines.extend(proof.kept.lines().into_iter().map(|line| format!("note: {line}")));
    lines
}

/// The ids at the places where the model begins to write, in words.
fn borders(Borders { borders, differing, overlap, split, .. }: &Borders) -> String {
    if *differing == 0 {
        return format!("borders: {borders}, none of which has other ids with border = \"split\"");
    }
    format!(
        "borders: {borders}, of which {differing} have other ids with border = \"split\": {split} ids around them instead \
         of {overlap}"
    )
}
