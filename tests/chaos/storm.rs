//! A round over the loader: its ranks are killed and started again until all is delivered, and each row is compared.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use millstream::Cursor;
use millstream::config::Last;

use crate::child::{FAILED, ORDERS, Orders, Saves};
use crate::corpora::Corpora;
use crate::dice::Dice;
use crate::home::Home;
use crate::journal::{Line, Reader, state};
use crate::plan::{Plan, ahead};
use crate::process::{Blow, Ending, Moment, Process, watch};
use crate::quiet::Quiet;
use crate::shim::{Ground, Odd};
use crate::story;
use crate::support::server::Fault;
use crate::trouble::Trouble;
use crate::weather::{Kill, Weather, contents, damage, files};

/// After so many starts the weather is calm.
const MOST_STARTS: usize = 9;

/// A round's files.
struct Places {
    root: tempfile::TempDir,
    /// Where the caches are.
    caches: PathBuf,
    /// The disk with the caches and the cursors.
    disk: PathBuf,
}

impl Places {
    fn new(corpora: &Corpora) -> Self {
        let root = corpora.scratch();
        let disk = root.path().join("disk");
        let caches = disk.join("caches");
        std::fs::create_dir_all(&caches).expect("a directory");
        Self { root, caches, disk }
    }
}

/// Starts a child.
pub(crate) fn start(orders: &Orders, odd: Option<&Odd>, corpora: &Corpora) -> Process {
    let told = orders.journal.with_extension("orders");
    std::fs::write(&told, serde_json::to_vec(orders).expect("orders")).expect("written");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["child::deliver", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ORDERS, told);
    if let (Some(shim), Some(odd)) = (&corpora.shim, odd) {
        shim.put(odd, corpora.root(), &mut command);
    }
    Process::start(command, orders.journal.with_extension("stderr"), None)
}

/// Plays a round, and says what it was.
pub(crate) fn round(dice: &mut Dice, corpora: &Corpora) -> String {
    let places = Places::new(corpora);
    let home = Home::draw(dice, corpora, places.root.path());
    corpora.server().with_faults(|_| Fault::Nothing);
    let (plan, quiet) = loop {
        let mut plan = Plan::draw(dice, corpora, &home, &places.caches);
        story::note("plan", &plan);
        let turns = plan.batches * turns_of_batch(&plan);
        let can_meet = match dice.awaited() {
            Some(Trouble::ReadOnly) => plan.has_caches(),
            Some(Trouble::Moved) => plan.local().next().is_some(),
            _ => true,
        };
        // Of some plans nothing is left to deliver.
        if can_meet && let Some(quiet) = Quiet::run(&plan, turns, corpora, places.root.path()) {
            break (plan, quiet);
        }
    };
    std::fs::remove_dir_all(&places.caches).expect("removed");
    let mut storm = Storm {
        plan,
        quiet: &quiet,
        places: &places,
        corpora,
        home,
        cursor: None,
        world: 1,
        starts: 0,
        kills: 0,
    };
    let kills = dice.within(2, 5);
    loop {
        let is_done = storm.start(dice);
        let is_enough = dice.awaited().is_none() && storm.kills >= kills;
        if is_done && (is_enough || storm.starts >= dice.tries(MOST_STARTS)) {
            break;
        }
    }
    storm.after(dice);
    let Storm { plan, starts, kills, .. } = storm;
    format!("{:?}, {} turns, {starts} starts, {kills} kills", plan.formats, quiet.turns)
}

fn turns_of_batch(plan: &Plan) -> u64 {
    let pipeline = &plan.config.pipeline;
    if pipeline.batch_tokens.is_some() { 1 } else { pipeline.batch_size as u64 }
}

/// A round under way.
struct Storm<'a> {
    plan: Plan,
    quiet: &'a Quiet,
    places: &'a Places,
    corpora: &'a Corpora,
    home: Home<'a>,
    cursor: Option<Cursor>,
    world: usize,
    starts: usize,
    kills: usize,
}

/// One rank of a start.
struct Rank {
    reader: Reader,
    lines: Vec<Line>,
    saves: Saves,
}

impl Storm<'_> {
    /// Starts the ranks of some world where the cursor is, and compares what they deliver. Returns whether all is
    /// delivered.
    fn start(&mut self, dice: &mut Dice) -> bool {
        self.starts += 1;
        let caches = &self.places.caches;
        let ground =
            Ground { disks: &[caches, &self.places.disk], old: None, caches: Some(caches.as_path()) };
        let mut weather = match self.starts < dice.tries(MOST_STARTS) {
            true => Weather::draw(dice, self.plan.is_remote, ground),
            false => Weather::calm(),
        };
        if self.cursor.is_none() {
            // A run that began with another version would not go on with this one.
            weather.change = None;
        }
        let has_moved = self.moves(dice);
        story::note("start", (self.starts, &weather, has_moved));
        weather.begin(dice, self.corpora.server());
        if dice.chance(25) {
            damage(dice, caches);
        }
        let cached = weather.seals_caches().then(|| contents(caches));
        let (mut ranks, mut processes) = (Vec::new(), Vec::new());
        for orders in self.orders(dice, &weather) {
            let reader = Reader::create(&orders.journal);
            ranks.push(Rank { reader, lines: Vec::new(), saves: orders.saves.clone().expect("it saves").0 });
            processes.push(start(&orders, weather.odd.as_ref(), self.corpora));
        }
        story::note("world", self.world);
        let endings = self.watch(&weather, &mut ranks, &mut processes);
        drop(processes);
        story::note("ended", &endings);
        for (rank, lines) in ranks.iter_mut().enumerate() {
            lines.lines.extend(lines.reader.news());
            self.compare(rank, &lines.lines);
        }
        self.kills += usize::from(endings.iter().any(|ending| matches!(ending, Ending::Killed)));
        for ending in &endings {
            if let Ending::Failed(error) = ending {
                assert!(weather.may_fail(), "it cannot fail in this weather: {error}");
            }
        }
        if let Some(cached) = cached {
            assert!(cached == contents(caches), "caches that are read-only have changed");
        }
        if ranks.iter().any(|rank| !rank.lines.is_empty()) {
            self.note_met(dice, &weather, has_moved);
        }
        let is_done = endings.iter().all(|ending| matches!(ending, Ending::Done));
        match is_done {
            // If there is another start, it begins anew over what is in the caches.
            true => self.cursor = None,
            false => self.save(&ranks),
        }
        is_done
    }

    /// Moves the corpora, perhaps. Returns whether they moved.
    fn moves(&mut self, dice: &mut Dice) -> bool {
        let has_moved = self.home.moves(dice);
        for (format, source) in self.plan.local() {
            source.paths = self.corpora.source(format, &self.home.directory(format)).paths;
        }
        has_moved
    }

    /// Notes what a start has met that delivered something.
    fn note_met(&self, dice: &mut Dice, weather: &Weather, has_moved: bool) {
        if weather.seals_caches() && self.plan.has_caches() {
            dice.met(Trouble::ReadOnly);
        }
        if has_moved && self.cursor.is_some() {
            dice.met(Trouble::Moved);
        }
    }

    /// What each rank of the next world does.
    fn orders(&mut self, dice: &mut Dice, weather: &Weather) -> Vec<Orders> {
        let mut config = self.plan.config.clone();
        ahead(dice, &mut config);
        weather.store(&mut config.store);
        let worlds = self.plan.worlds();
        // If ranks take turns with whole batches, another world can go on only after a complete round of lanes.
        let lanes = config.pipeline.lanes() as u64;
        let turn = self.cursor.as_ref().map_or(0, Cursor::turn);
        if config.pipeline.batch_tokens.is_none() || turn.is_multiple_of(lanes) {
            self.world = dice.pick(&worlds);
        }
        // Weights change, and the last rows end, at the batches of the quiet run.
        let is_open = config.pipeline.last == Last::Short && config.mixture.changes.is_empty();
        if is_open && config.pipeline.batch_tokens.is_none() && dice.chance(30) {
            config.pipeline.batch_size = worlds.iter().product::<usize>() * dice.within(1, 2);
            ahead(dice, &mut config);
        }
        let cursors = self.places.disk.join("cursors").join(self.starts.to_string());
        let (each, step) = (dice.within(1, 3) as u64, Duration::from_micros(500 + dice.below(2500)));
        let order = |rank: usize| {
            let mut config = config.clone();
            (config.pipeline.rank, config.pipeline.world) = (Some(rank), Some(self.world));
            let directory = cursors.join(rank.to_string());
            std::fs::create_dir_all(&directory).expect("a directory");
            let saves = match self.world {
                1 => Saves::Over(directory.join("cursor.json")),
                _ => Saves::Each(directory),
            };
            Orders {
                config,
                is_fussy: self.plan.is_fussy,
                cursor: self.cursor.clone(),
                until: self.quiet.turns + u64::from(self.quiet.has_ended),
                saves: Some((saves, each)),
                step,
                journal: self.places.root.path().join(format!("{}-{rank}.journal", self.starts)),
                with_pieces: false,
            }
        };
        (0..self.world).map(order).collect()
    }

    fn watch(&self, weather: &Weather, ranks: &mut [Rank], processes: &mut [Process]) -> Vec<Ending> {
        let cached = files(&self.places.caches).len();
        let moment = weather.kill.map(|kill| match kill {
            Kill::At(moment) => moment,
            Kill::Caching(more) => Moment::Made(cached as u64 + more, Duration::ZERO),
        });
        watch(processes, (moment, Blow::Kill), FAILED, || {
            for rank in &mut *ranks {
                rank.lines.extend(rank.reader.news());
            }
            match weather.kill {
                Some(Kill::Caching(_)) => files(&self.places.caches).len() as u64,
                _ => ranks[0].lines.len() as u64,
            }
        })
    }

    /// Compares what a rank delivered.
    fn compare(&self, rank: usize, lines: &[Line]) {
        let mut turn = self.cursor.as_ref().map_or(0, Cursor::turn);
        for line in lines {
            match line {
                Line::Batch(batch) => {
                    assert_eq!(batch.turns.0, turn, "rank {rank} goes on where it was");
                    turn = batch.turns.1;
                    self.quiet.compare(batch, rank, self.world);
                }
                Line::End { .. } => assert!(
                    self.quiet.has_ended && turn == self.quiet.turns,
                    "rank {rank} ended after {turn} turns, and not after {}",
                    self.quiet.turns
                ),
                Line::Enough => assert!(!self.quiet.has_ended, "rank {rank} goes on after the end"),
            }
        }
    }

    /// Takes the newest cursors that all ranks have saved, if there are any.
    fn save(&mut self, ranks: &[Rank]) {
        let mut batches = ranks[0].saves.batches();
        batches.retain(|batch| ranks.iter().all(|rank| rank.saves.path(*batch).exists()));
        let Some(newest) = batches.into_iter().max() else { return };
        let load = |rank: &Rank| Cursor::load(rank.saves.path(newest)).expect("a whole cursor");
        let cursors: Vec<Cursor> = ranks.iter().map(load).collect();
        let whole = Cursor::merge(&cursors).expect("they are of one batch");
        self.quiet.compare_state(whole.turn(), &state(&whole));
        story::note("cursor", (self.world, whole.batch(), whole.turn()));
        self.cursor = Some(whole);
    }

    /// What the storm left in the caches changes nothing, even if it is damaged.
    fn after(&mut self, dice: &mut Dice) {
        self.moves(dice);
        self.corpora.server().with_faults(|_| Fault::Nothing);
        if dice.chance(50) {
            damage(dice, &self.places.caches);
        }
        for _ in 0..2 {
            let turns = self.quiet.turns + u64::from(self.quiet.has_ended);
            let again = Quiet::run(&self.plan, turns, self.corpora, self.places.root.path())
                .expect("rows, as before");
            self.quiet.compare_whole(&again);
        }
    }
}
