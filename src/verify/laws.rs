//! The runs that are compared with the reference, law by law.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Plan;
use super::chance::Chance;
use super::child::Orders;
use super::compare::{Compared, Together};
use super::log::Reader;
use super::process::{Child, Nursery};
use super::report::{Check, Law, Report};
use crate::config::{ByteCount, Config};
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// About how long all steps of a run that will be killed take together, so that there is time to kill it.
const PACE: Duration = Duration::from_millis(500);

/// The longest step of a run that will be killed.
const LONGEST_STEP: Duration = Duration::from_millis(2);

/// The parent waits for a batch, and kills the child at most this many microseconds later.
const LATEST_STRIKE: u64 = 3000;

/// After so many passes in a row in which no child could be killed, no more are tried.
const MISSED: u32 = 5;

/// How many kills are named.
const NAMED_KILLS: usize = 10;

pub(super) fn run(plan: &Plan, stop: &AtomicBool) -> Result<Report> {
    let directory = tempfile::Builder::new().prefix("millstream-verify-").tempdir();
    let directory = directory.map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))?;
    let Plan { program, args, patience, .. } = plan;
    let nursery = Nursery { program, args, patience: *patience, stop };
    let files = Files { directory, logs: 0 };
    let mut trial = Trial { plan, nursery, files, chance: Chance::new(plan.seed), checks: Vec::new() };

    tracing::info!(batches = plan.batches, "the reference");
    let reference = trial.reference()?;
    let (batches, rows) = (reference.batches, reference.rows);
    tracing::info!(batches, workers = ?plan.workers, depths = ?plan.depths, "law 1, order");
    trial.order(&reference)?;
    tracing::info!(points = plan.points, seed = plan.seed, "law 2, resume");
    let resume_points = trial.resume(&reference)?;
    tracing::info!(worlds = ?plan.worlds, "law 3, world");
    trial.world(&reference)?;

    let checks = trial.checks;
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

/// The run that all others are compared with.
struct Reference {
    child: Child,
    batches: u64,
    rows: u64,
    /// The number after the last batch. It exceeds the number of batches if some are excluded.
    end: u64,
}

/// Where children log.
struct Files {
    directory: TempDir,
    logs: u64,
}

struct Trial<'a> {
    plan: &'a Plan,
    nursery: Nursery<'a>,
    files: Files,
    chance: Chance,
    checks: Vec<Check>,
}

impl Trial<'_> {
    fn spawn(&mut self, how: &str, config: &Config, cursor: Option<Cursor>, step: Duration) -> Result<Child> {
        self.files.logs += 1;
        let log = self.files.directory.path().join(format!("{}.log", self.files.logs));
        let until = self.plan.batches;
        self.nursery.spawn(how, &Orders { config: config.clone(), cursor, until, step, log })
    }

    fn check(&mut self, law: Law, how: String, compared: Compared, started: Instant) {
        let Compared { batches, rows, difference } = compared;
        let seconds = started.elapsed().as_secs_f64();
        self.checks.push(Check { law, how, batches, rows, seconds, difference });
    }

    /// One process with the given config, undisturbed.
    fn reference(&mut self) -> Result<Reference> {
        let config = of_rank(&self.plan.config, 0, 1);
        let mut child = self.spawn("the reference", &config, None, Duration::ZERO)?;
        self.nursery.finish(std::slice::from_mut(&mut child))?;
        let (mut batches, mut rows, mut end) = (0, 0, 0);
        for delivered in child.delivered()? {
            let delivered = delivered?;
            (batches, rows, end) = (batches + 1, rows + delivered.rows.len() as u64, delivered.batch + 1);
        }
        if batches == 0 {
            let program = self.plan.program.display();
            let problem =
                format!("{program} made no batch; its main must begin with millstream::verify::serve");
            return Err(Error::Verify { problem });
        }
        Ok(Reference { child, batches, rows, end })
    }

    /// Law 1: every number of workers with every depth.
    fn order(&mut self, reference: &Reference) -> Result<()> {
        let plan = self.plan;
        for &workers in &plan.workers {
            for &depth in &plan.depths {
                let (started, how) = (Instant::now(), format!("workers {workers}, depth {depth}"));
                let config = of_rank(&ahead(&plan.config, workers, depth), 0, 1);
                let mut child = self.spawn(&how, &config, None, Duration::ZERO)?;
                self.nursery.finish(std::slice::from_mut(&mut child))?;
                let (mut compared, mut expected) = (Compared::default(), reference.child.delivered()?);
                compared.go_on(&mut expected, child.delivered()?)?;
                compared.end(&mut expected)?;
                self.check(Law::Order, how, compared, started);
            }
        }
        Ok(())
    }

    /// Law 2: passes through all batches until enough children were killed while working. Returns how many.
    fn resume(&mut self, reference: &Reference) -> Result<u64> {
        let (mut kills, mut missed) = (0, 0);
        // A stream of one or two batches may end before a child can be killed, and so may others on a busy machine.
        while kills < self.plan.points && missed < MISSED {
            let more = self.pass(reference, self.plan.points - kills)?;
            kills += more;
            missed = if more == 0 { missed + 1 } else { 0 };
            if self.checks.iter().any(|check| check.law == Law::Resume && check.difference.is_some()) {
                break;
            }
        }
        Ok(kills)
    }

    /// One pass through all batches. At most `kills` children are killed while working. Returns how many.
    fn pass(&mut self, reference: &Reference, kills: u64) -> Result<u64> {
        let started = Instant::now();
        let (mut compared, mut expected) = (Compared::default(), reference.child.delivered()?);
        let config = of_rank(&self.plan.config, 0, 1);
        let step = PACE.div_f64(reference.batches as f64).min(LONGEST_STEP);
        let (mut cursor, mut from, mut killed_after) = (None, 0, Vec::new());
        let refused = loop {
            let how = format!("resumed after {from} batches");
            let mut child = self.spawn(&how, &config, cursor.clone(), step)?;
            let was_killed =
                self.strike(&mut child, reference.end - from, kills - killed_after.len() as u64)?;
            if let Some(last) = child.last()? {
                (from, cursor) = (last.cursor.batch(), Some(last.cursor));
            }
            compared.go_on(&mut expected, child.delivered()?)?;
            if !was_killed || from >= reference.end || compared.difference.is_some() {
                break child.refused();
            }
            killed_after.push(from);
        };
        compared.end(&mut expected)?;
        let how = with_refusal(in_words(&killed_after), refused);
        self.check(Law::Resume, how, compared, started);
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

    /// Law 3: runs the ranks of each world, and then the ranks of the next world from their cursors.
    fn world(&mut self, reference: &Reference) -> Result<()> {
        let worlds = &self.plan.worlds;
        for (&world, &next) in worlds.iter().zip(worlds.iter().cycle().skip(1)) {
            let ranks = self.ranks(reference, world, None)?;
            if next != world
                && let Some(whole) = self.saved(&ranks)?
            {
                self.ranks(reference, next, Some((world, whole)))?;
            }
        }
        Ok(())
    }

    /// Runs the ranks of a world side by side, from the start or from a cursor that another world's ranks left.
    fn ranks(
        &mut self,
        reference: &Reference,
        world: usize,
        from: Option<(usize, Cursor)>,
    ) -> Result<Vec<Child>> {
        let started = Instant::now();
        let (after, how) = match &from {
            None => (0, format!("world {world}")),
            Some((saved, at)) => {
                (at.batch(), format!("world {world}, from world {saved} after {} batches", at.batch()))
            }
        };
        let mut ranks = Vec::new();
        for rank in 0..world {
            let cursor = from.as_ref().map(|(_, cursor)| cursor.clone());
            let config = of_rank(&self.plan.config, rank, world);
            ranks.push(self.spawn(&format!("{how}, rank {rank}"), &config, cursor, Duration::ZERO)?);
        }
        self.nursery.finish(&mut ranks)?;
        let mut expected = reference
            .child
            .delivered()?
            .skip_while(|delivered| delivered.as_ref().is_ok_and(|delivered| delivered.batch < after));
        let mut compared = Compared::default();
        let logs: Result<Vec<Reader>> = ranks.iter().map(Child::delivered).collect();
        compared.go_on(&mut expected, Together::new(logs?))?;
        compared.end(&mut expected)?;
        let how = with_refusal(how, ranks.iter().find_map(Child::refused));
        self.check(Law::World, how, compared, started);
        Ok(ranks)
    }

    /// Merges the cursors that all ranks saved after the same batch, which is drawn at random; `None` if there is none.
    fn saved(&mut self, ranks: &[Child]) -> Result<Option<Cursor>> {
        let pipeline = &self.plan.config.pipeline;
        // If ranks take turns with whole batches, another world can go on only after a complete round of lanes.
        let apart = if pipeline.batch_tokens.is_some() { pipeline.lanes() as u64 } else { 1 };
        let mut points = Vec::new();
        for delivered in ranks[0].delivered()? {
            let after = delivered?.cursor.batch();
            if after < self.plan.batches && after.is_multiple_of(apart) {
                points.push(after);
            }
        }
        let Some(last) = points.len().checked_sub(1) else { return Ok(None) };
        let after = points[self.chance.up_to(last as u64) as usize];
        let mut saved = Vec::new();
        for rank in ranks {
            let cursors = rank.delivered()?.map(|delivered| Ok(delivered?.cursor));
            saved.extend(cursors.filter(|cursor| !cursor.as_ref().is_ok_and(|at| at.batch() != after)));
        }
        Cursor::merge(&saved.into_iter().collect::<Result<Vec<_>>>()?).map(Some)
    }
}

/// The config of one rank, whatever the environment says.
fn of_rank(config: &Config, rank: usize, world: usize) -> Config {
    let mut config = config.clone();
    (config.pipeline.rank, config.pipeline.world) = (Some(rank), Some(world));
    config
}

/// The same order with other workers and another depth, and the memory that more batches ahead need.
fn ahead(config: &Config, workers: usize, depth: usize) -> Config {
    let mut config = config.clone();
    let pipeline = &mut config.pipeline;
    let world = pipeline.world.unwrap_or(1);
    let own = pipeline.most_depth(world);
    let (more, own) = (depth.max(own) as u64 + 2, own as u64 + 2);
    pipeline.memory = ByteCount(pipeline.memory.0.saturating_mul(more) / own);
    (pipeline.workers, pipeline.depth) = (workers.into(), depth.into());
    config
}

fn with_refusal(how: String, refused: Option<String>) -> String {
    match refused {
        None => how,
        Some(problem) => format!("{how}: the cursor was refused, {problem}"),
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
