//! The runs that are compared with the reference, law by law.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Plan;
use super::compare::{Compared, Pairing};
use super::log::{Delivered, Reader, Together};
use super::orders::{Run, Saved, Setup, Subject, merged};
use super::process::{Child, Nursery};
use super::report::{Check, Law, Report, first_difference};
use crate::error::{Error, Result};
use crate::order::uniform;

/// About how long all steps of a run that will be killed take together, so that there is time to kill it.
const PACE: Duration = Duration::from_millis(500);

/// The longest step of a run that will be killed.
const LONGEST_STEP: Duration = Duration::from_millis(2);

/// The parent waits for a batch, and kills the child at most this many microseconds later.
const LATEST_STRIKE: u64 = 3000;

/// After so many passes in a row in which no child could be killed, no more are tried.
const MISSED: u32 = 5;

const NAMED_KILLS: usize = 10;

pub(super) fn run(plan: &Plan, stop: &AtomicBool) -> Result<Report> {
    let directory = tempfile::Builder::new().prefix("millstream-verify-").tempdir();
    let directory = directory.map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))?;
    let Plan { program, args, patience, .. } = plan;
    let nursery = Nursery { program, args, patience: *patience, stop };
    let files = Files { directory, logs: 0 };
    let mut trial =
        Trial { plan, nursery, files, chance: Chance { seed: plan.seed, drawn: 0 }, checks: Vec::new() };
    match trial.all() {
        // It failed because of the interruption.
        Err(_) if trial.nursery.is_stopped() => Err(trial.interrupted()),
        report => report,
    }
}

/// The run that all others are compared with.
struct Reference {
    child: Child,
    batches: u64,
    rows: u64,
    /// The number after the last batch. It exceeds the number of batches if some are excluded.
    end: u64,
}

struct Files {
    directory: TempDir,
    logs: u64,
}

/// Random numbers drawn from a seed, one after the other.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    /// Returns a number from 0 to `last`, each about equally likely.
    fn up_to(&mut self, last: u64) -> u64 {
        self.drawn += 1;
        (uniform("verify", &[self.seed, self.drawn]) * (last as f64 + 1.0)) as u64
    }
}

struct Trial<'a> {
    plan: &'a Plan,
    nursery: Nursery<'a>,
    files: Files,
    chance: Chance,
    checks: Vec<Check>,
}

impl Trial<'_> {
    /// The reference, and the comparisons of all laws with it.
    fn all(&mut self) -> Result<Report> {
        let plan = self.plan;
        tracing::info!(batches = plan.batches, "the reference");
        let reference = self.reference()?;
        let (batches, rows) = (reference.batches, reference.rows);
        tracing::info!(batches, workers = ?plan.workers, depths = ?plan.depths, "law 1, order");
        self.order(&reference)?;
        tracing::info!(points = plan.points, seed = plan.seed, "law 2, resume");
        let resume_points = self.resume(&reference)?;
        tracing::info!(worlds = ?plan.worlds, "law 3, world");
        self.world(&reference)?;

        let checks = std::mem::take(&mut self.checks);
        Ok(Report {
            seed: plan.seed,
            batches,
            rows,
            resume_points,
            workers: plan.workers.clone(),
            depths: plan.depths.clone(),
            worlds: plan.worlds.clone(),
            mismatches: checks.iter().filter(|check| check.difference.is_some()).count() as u64,
            checks,
        })
    }

    /// The error of a run that was interrupted, with what it found before.
    fn interrupted(&self) -> Error {
        let found = match first_difference(&self.checks) {
            None => "no difference so far".to_owned(),
            Some((check, difference)) => check.said(difference),
        };
        let problem = format!("interrupted; comparisons done: {}; {found}", self.checks.len());
        Error::Verify { problem }
    }

    fn spawn(&mut self, how: &str, run: &Run<'_>) -> Result<Child> {
        self.files.logs += 1;
        let log = self.files.directory.path().join(format!("{}.log", self.files.logs));
        self.nursery.spawn(how, &self.plan.subject.orders(run, self.plan.batches, log))
    }

    /// Ends a comparison, and notes it.
    fn check(
        &mut self,
        law: Law,
        how: String,
        mut compared: Compared,
        expected: &mut impl Iterator<Item = Result<Delivered>>,
        (reference, started): (&Reference, Instant),
    ) -> Result<()> {
        let difference = compared.end(expected, reference.child.delivered()?)?;
        let Compared { batches, rows, .. } = compared;
        let seconds = started.elapsed().as_secs_f64();
        self.checks.push(Check { law, how, batches, rows, seconds, difference });
        Ok(())
    }

    fn reference(&mut self) -> Result<Reference> {
        let plan = self.plan;
        let setup = match plan.subject {
            Subject::Config(_) => Setup::default(),
            Subject::Any => Setup { workers: plan.workers.first().copied(), depth: None },
        };
        let mut child = self.spawn("the reference", &Run::alone(setup))?;
        self.nursery.finish(std::slice::from_mut(&mut child))?;
        let (mut batches, mut rows, mut end) = (0, 0, 0);
        for delivered in child.delivered()? {
            let delivered = delivered?;
            (batches, rows, end) = (batches + 1, rows + delivered.rows.len() as u64, delivered.batch + 1);
        }
        if batches == 0 {
            let must = match plan.subject {
                Subject::Config(_) => "its main must begin with millstream::verify::serve",
                Subject::Any => {
                    "it must log the batches that the file MILLSTREAM_VERIFY_ORDERS orders; a Millstream loader needs \
                     its config too"
                }
            };
            let problem = format!("{} made no batch; {must}", plan.program.display());
            return Err(Error::Verify { problem });
        }
        if rows == 0 {
            let problem = format!(
                "{} made {batches} batches without a row, so there is nothing to compare; look at what it logs as rows",
                plan.program.display()
            );
            return Err(Error::Verify { problem });
        }
        Ok(Reference { child, batches, rows, end })
    }

    /// Law 1: every number of workers with every depth.
    fn order(&mut self, reference: &Reference) -> Result<()> {
        let plan = self.plan;
        let depths: Vec<Option<usize>> = match plan.subject {
            Subject::Config(_) => plan.depths.iter().copied().map(Some).collect(),
            Subject::Any => vec![None],
        };
        for &workers in &plan.workers {
            for &depth in &depths {
                let started = Instant::now();
                let how = match depth {
                    Some(depth) => format!("workers {workers}, depth {depth}"),
                    None => format!("workers {workers}"),
                };
                let mut child = self.spawn(&how, &Run::alone(Setup { workers: Some(workers), depth }))?;
                self.nursery.finish(std::slice::from_mut(&mut child))?;
                let (mut compared, mut expected) =
                    (Compared::new(Pairing::InOrder), reference.child.delivered()?);
                compared.go_on(&mut expected, child.delivered()?)?;
                self.check(Law::Order, how, compared, &mut expected, (reference, started))?;
            }
        }
        Ok(())
    }

    /// Law 2: passes through all batches until enough children were killed while working. Returns how many.
    ///
    /// A Millstream loader runs as its config says. For any loader the kills are divided among its numbers of workers,
    /// the last number first: with the most workers, the most can be lost.
    fn resume(&mut self, reference: &Reference) -> Result<u64> {
        let plan = self.plan;
        let setups: Vec<Setup> = match plan.subject {
            Subject::Config(_) => vec![Setup::default()],
            Subject::Any => {
                plan.workers.iter().rev().map(|&it| Setup { workers: Some(it), depth: None }).collect()
            }
        };
        let mut all = 0;
        for (nth, &setup) in (0..).zip(&setups) {
            let points = (plan.points + setups.len() as u64 - 1 - nth) / setups.len() as u64;
            let (mut kills, mut missed, before) = (0, 0, self.checks.len());
            // A stream of one or two batches may end before a child can be killed, and so may others on a busy machine.
            while kills < points && missed < MISSED {
                let more = self.pass(reference, setup, points - kills)?;
                kills += more;
                missed = if more == 0 { missed + 1 } else { 0 };
                if self.checks[before..].iter().any(|check| check.difference.is_some()) {
                    break;
                }
            }
            all += kills;
        }
        Ok(all)
    }

    /// One pass through all batches. At most `kills` children are killed while working. Returns how many.
    ///
    /// After a difference the run goes on undisturbed, as long as needed to find out what happened to the row.
    fn pass(&mut self, reference: &Reference, setup: Setup, kills: u64) -> Result<u64> {
        let started = Instant::now();
        let (mut compared, mut expected) = (Compared::new(Pairing::InOrder), reference.child.delivered()?);
        let step = PACE.div_f64(reference.batches as f64).min(LONGEST_STEP);
        let (mut saved, mut killed_after) = (None::<Saved>, Vec::new());
        let refused = loop {
            let from = saved.as_ref().map_or(0, |saved| saved.after);
            let how = format!("resumed after {from} batches");
            let mut child = self.spawn(&how, &Run { saved: saved.as_ref(), step, ..Run::alone(setup) })?;
            // Before its first batch it has saved nothing, and an only batch is also the last.
            let is_over = compared.differs() || from == 0 && reference.end <= 1;
            let kills = if is_over { 0 } else { kills - killed_after.len() as u64 };
            let was_killed = match self.strike(&mut child, reference.end - from, kills) {
                // The difference says more than a failure after it.
                Err(_) if compared.differs() && !self.nursery.is_stopped() => false,
                was_killed => was_killed?,
            };
            if let Some(last) = child.last()? {
                saved = Some(Saved { after: last.after(), states: vec![last.state] });
            }
            compared.go_on(&mut expected, child.delivered()?)?;
            let after = saved.as_ref().map_or(0, |saved| saved.after);
            if !was_killed || after >= reference.end || compared.differs() && !compared.is_looking() {
                break child.refused();
            }
            if !compared.differs() {
                killed_after.push(after);
            }
        };
        let mut how = in_words(&killed_after);
        if let Some(workers) = setup.workers {
            how = format!("workers {workers}, {how}");
        }
        let how = self.with_refusal(how, refused);
        self.check(Law::Resume, how, compared, &mut expected, (reference, started))?;
        Ok(killed_after.len() as u64)
    }

    /// Kills the child at a random moment, chosen so that `kills` of them are spread evenly over `batches`. Returns
    /// whether it was still running. With `kills` 0 it waits for the child's end.
    fn strike(&mut self, child: &mut Child, batches: u64, kills: u64) -> Result<bool> {
        if kills == 0 {
            self.nursery.finish(std::slice::from_mut(child))?;
            return Ok(false);
        }
        let apart = 2 * batches / (kills + 1);
        let enough = (1 + self.chance.up_to(apart)).min(batches.saturating_sub(1));
        if !self.nursery.watch(child, |logged| logged >= enough)? {
            return Ok(false);
        }
        self.nursery.rest(Duration::from_micros(self.chance.up_to(LATEST_STRIKE)))?;
        child.kill()
    }

    /// Law 3: runs the ranks of each world, and then the ranks of the next world from their saved states. The ranks of
    /// any loader continue in a world of the same size too; a single process is left to the other laws.
    fn world(&mut self, reference: &Reference) -> Result<()> {
        let worlds = &self.plan.worlds;
        let is_any = matches!(self.plan.subject, Subject::Any);
        if is_any && worlds.iter().all(|&world| world == 1) {
            return Ok(());
        }
        for (&world, &next) in worlds.iter().zip(worlds.iter().cycle().skip(1)) {
            let ranks = self.ranks(reference, world, None)?;
            let again = (is_any && world > 1).then_some(world);
            let next = (next != world).then_some(next);
            for to in again.into_iter().chain(next) {
                if let Some(saved) = self.saved(&ranks)? {
                    self.ranks(reference, to, Some((world, &saved)))?;
                }
            }
        }
        Ok(())
    }

    /// Runs the ranks of a world side by side, from the start or from the saved states of another world's ranks.
    fn ranks(
        &mut self,
        reference: &Reference,
        world: usize,
        from: Option<(usize, &Saved)>,
    ) -> Result<Vec<Child>> {
        let started = Instant::now();
        let (after, how) = match from {
            None => (0, format!("world {world}")),
            Some((before, &Saved { after, .. })) => {
                (after, format!("world {world}, from world {before} after {after} batches"))
            }
        };
        let (setup, pairing) = match self.plan.subject {
            Subject::Config(_) => (Setup::default(), Pairing::InOrder),
            Subject::Any => {
                let setup = Setup { workers: self.plan.workers.last().copied(), depth: None };
                (setup, if world > 1 { Pairing::Free } else { Pairing::InOrder })
            }
        };
        let saved = from.map(|(_, saved)| saved);
        let mut ranks = Vec::new();
        for rank in 0..world {
            let run = Run { rank, world, saved, ..Run::alone(setup) };
            ranks.push(self.spawn(&format!("{how}, rank {rank}"), &run)?);
        }
        self.nursery.finish(&mut ranks)?;
        let mut expected = reference
            .child
            .delivered()?
            .skip_while(|delivered| delivered.as_ref().is_ok_and(|delivered| delivered.batch < after));
        let mut compared = Compared::new(pairing);
        let logs: Result<Vec<Reader>> = ranks.iter().map(Child::delivered).collect();
        compared.go_on(&mut expected, Together::new(logs?))?;
        let how = self.with_refusal(how, ranks.iter().find_map(Child::refused));
        self.check(Law::World, how, compared, &mut expected, (reference, started))?;
        Ok(ranks)
    }

    /// The states that all ranks saved after the same batch, which is drawn at random; `None` if there is none.
    fn saved(&mut self, ranks: &[Child]) -> Result<Option<Saved>> {
        // If ranks take turns with whole batches, another world can go on only after a complete round of lanes.
        let (apart, end) = match &self.plan.subject {
            Subject::Config(config) if config.pipeline.batch_tokens.is_some() => {
                (config.pipeline.lanes() as u64, u64::MAX)
            }
            Subject::Config(_) => (1, u64::MAX),
            Subject::Any => {
                let last = |rank: &Child| Ok(rank.last()?.map_or(0, |last| last.after()));
                let ends: Vec<u64> = ranks.iter().map(last).collect::<Result<_>>()?;
                (1, ends.into_iter().min().unwrap_or(0))
            }
        };
        let mut points = Vec::new();
        for delivered in ranks[0].delivered()? {
            let after = delivered?.after();
            if after < self.plan.batches && after <= end && after.is_multiple_of(apart) {
                points.push(after);
            }
        }
        let Some(last) = points.len().checked_sub(1) else { return Ok(None) };
        let after = points[self.chance.up_to(last as u64) as usize];
        let mut states = Vec::new();
        for rank in ranks {
            for delivered in rank.delivered()? {
                let delivered = delivered?;
                if delivered.after() == after {
                    states.push(delivered.state);
                }
            }
        }
        if let Subject::Config(_) = self.plan.subject {
            let fail = |e: serde_json::Error| Error::Verify { problem: e.to_string() };
            states = vec![serde_json::to_string(&merged(states.iter())?).map_err(fail)?];
        }
        Ok(Some(Saved { after, states }))
    }

    fn with_refusal(&self, how: String, refused: Option<String>) -> String {
        match refused {
            None => how,
            Some(problem) => format!("{how}: the {} was refused, {problem}", self.plan.subject.saves()),
        }
    }
}

fn in_words(killed_after: &[u64]) -> String {
    let named: Vec<String> = killed_after.iter().take(NAMED_KILLS).map(ToString::to_string).collect();
    match killed_after.len() {
        0 => "not killed".to_owned(),
        len if len > NAMED_KILLS => format!("killed {len} times, after {}, … batches", named.join(", ")),
        _ => format!("killed after {} batches", named.join(", ")),
    }
}
