//! One run of the program in a round: what it meets, and whether it ends as it may.

use std::path::Path;
use std::time::Duration;

use crate::corpora::Corpora;
use crate::dice::Dice;
use crate::process::{Blow, Ending, Moment, Process, REQUESTS, Unread, watch};
use crate::program::millstream;
use crate::shim::{Ground, Odd};
use crate::story;
use crate::trouble::Trouble;

/// The program's exit code for an error.
const FAILED: i32 = 1;

/// What a run says that was stopped without saving.
const CUT: [&str; 2] = ["interrupted before the first step", "stopped at once, as was asked"];

/// What a run of the program meets.
#[derive(Debug, Default)]
pub(crate) struct Session {
    odd: Option<Odd>,
    moment: Option<Moment>,
    /// How it is ended at that moment, if it is not killed.
    ask: Option<Blow>,
    unread: Option<Unread>,
}

/// Where a round's runs of the program are.
pub(crate) struct Site<'a> {
    pub(crate) corpora: &'a Corpora,
    /// What they write.
    pub(crate) out: &'a Path,
    /// A directory for what they say.
    pub(crate) scratch: &'a Path,
    /// What one says that was asked to stop and has saved all.
    pub(crate) saved: &'a str,
}

impl Session {
    /// Draws what a run meets. `moment` draws when it may be ended.
    pub(crate) fn draw(dice: &mut Dice, ground: Ground, moment: impl FnOnce(&mut Dice) -> Moment) -> Self {
        let odd = Odd::draw(dice, ground);
        let unread = dice
            .brings(Trouble::NoReader, 20)
            .then(|| Unread { is_stderr: dice.chance(50), pages: dice.pick(&[0, 0, 1, 3]) });
        let is_pair = dice.brings(Trouble::TwoSignals, 20);
        let is_asked = is_pair || unread.is_some() || dice.chance(20);
        let ask = is_asked.then(|| {
            let second = is_pair.then(|| (Duration::from_micros(dice.below(20_000)), dice.pick(&REQUESTS)));
            Blow::Ask(dice.pick(&REQUESTS), second)
        });
        let moment = Some(moment(dice)).filter(|_| is_asked || dice.chance(75));
        Self { odd: Some(odd), moment, ask, unread }
    }

    /// Runs the program. `made` counts what it makes.
    ///
    /// # Panics
    /// If it ends in a way that nothing it meets explains.
    pub(crate) fn run(
        &self,
        dice: &mut Dice,
        arguments: &[&str],
        site: &Site,
        mut made: impl FnMut() -> u64,
    ) -> Ending {
        let is_mute = self.unread.is_some_and(|unread| unread.is_stderr);
        let mut command = millstream(arguments);
        if self.unread.is_some() && !is_mute {
            // There is more to write.
            command.arg("--json");
        }
        if let (Some(shim), Some(odd)) = (&site.corpora.shim, &self.odd) {
            shim.put(odd, site.corpora.root(), &mut command);
        }
        story::note("session", (arguments, self));
        let before = made();
        let mut process = [Process::start(command, site.scratch.join("stderr"), self.unread)];
        let blow = self.ask.unwrap_or(Blow::Kill);
        let ending = watch(&mut process, (self.moment, blow), FAILED, &mut made).remove(0);
        let said = process[0].said();
        story::note("ended", &ending);
        if matches!(ending, Ending::Deaf) {
            assert_eq!(made(), before, "it was at work, and did not hear that it should stop");
        }
        let has_stopped = self.explains(&ending, &said, site);
        let is_pair = matches!(self.ask, Some(Blow::Ask(_, Some(_))));
        let is_sealed = self.odd.as_ref().is_some_and(|odd| odd.sealed.is_some());
        for (trouble, is_met) in [
            (Trouble::TwoSignals, has_stopped && is_pair),
            (Trouble::NoReader, has_stopped && self.unread.is_some_and(|unread| unread.pages == 0)),
            (Trouble::NoRemoval, said.contains("; the run goes on, and the next checkpoint tries again")),
            (Trouble::ReadOnly, is_sealed && made() > before),
        ] {
            if is_met {
                dice.met(trouble);
            }
        }
        ending
    }

    /// Checks that what the run met explains how it ended. Returns whether it stopped because it was asked to.
    fn explains(&self, ending: &Ending, said: &str, site: &Site) -> bool {
        let is_mute = self.unread.is_some_and(|unread| unread.is_stderr);
        let is_asked = self.ask.is_some();
        match ending {
            Ending::Stopped => assert!(is_mute || said.contains(site.saved), "it has saved nothing: {said}"),
            Ending::Failed(error) => {
                let is_full = self.odd.as_ref().is_some_and(|odd| odd.full.is_some());
                let names_the_disk = is_full && error.contains(&site.out.display().to_string());
                let is_cut = is_asked && CUT.iter().any(|cut| error.contains(cut));
                let is_unseen = is_mute && (is_full || is_asked);
                assert!(names_the_disk || is_cut || is_unseen, "it cannot fail in this weather: {error}");
                return is_cut;
            }
            _ => {}
        }
        matches!(ending, Ending::Stopped | Ending::Unread)
    }
}
