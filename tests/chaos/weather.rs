//! What goes wrong between a start and its end: kills, faults of the server, what the shim does, damaged caches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream::config::StoreConfig;

use crate::dice::Dice;
use crate::process::Moment;
use crate::shim::{Ground, Odd};
use crate::support::server::{Fault, Request, Server};

/// Seconds after which a short deadline ends a child, and those without a byte after which it asks again.
const SHORT_DEADLINE: f64 = 0.5;
const TIMEOUT: f64 = 0.25;

/// How many requests of one start get no answer at all: each costs that time.
const MOST_SILENT: u64 = 2;

/// What one start meets.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) kill: Option<Kill>,
    pub(crate) odd: Option<Odd>,
    /// Which part of a hundred requests fails.
    faults: u64,
    /// From which request on all fail.
    outage: Option<u64>,
    /// With which request its file becomes another version.
    pub(crate) change: Option<u64>,
    /// Whether a child ends when nothing comes for a short while.
    is_impatient: bool,
}

/// When the children are killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kill {
    At(Moment),
    /// When so many files more are in the caches.
    Caching(u64),
}

impl Weather {
    /// No fault and no kill.
    pub(crate) fn calm() -> Self {
        Self { kill: None, odd: None, faults: 0, outage: None, change: None, is_impatient: false }
    }

    /// Draws a storm.
    pub(crate) fn draw(dice: &mut Dice, is_remote: bool, ground: Ground) -> Self {
        let rest = Duration::from_micros(dice.below(3000));
        let kill = match dice.below(10) {
            0 => None,
            1 | 2 => Some(Kill::At(Moment::After(Duration::from_micros(dice.below(60_000))))),
            3 => Some(Kill::Caching(dice.below(12))),
            _ => Some(Kill::At(Moment::Made(1 + dice.below(14), rest))),
        };
        let odd = Some(Odd::draw(dice, ground));
        let is_impatient = is_remote && dice.chance(30);
        let outage = is_impatient.then(|| dice.below(60));
        let change = if is_remote { dice.maybe(15, |dice| dice.below(60)) } else { None };
        let faults = if is_remote { dice.pick(&[0, 10, 40]) } else { 0 };
        Self { kill, odd, faults, outage, change, is_impatient }
    }

    /// Whether a child may end with an error.
    pub(crate) fn may_fail(&self) -> bool {
        self.is_impatient || self.change.is_some() || self.odd.as_ref().is_some_and(|odd| odd.full.is_some())
    }

    /// Whether the caches are read-only.
    pub(crate) fn seals_caches(&self) -> bool {
        self.odd.as_ref().is_some_and(|odd| odd.sealed.is_some())
    }

    /// Lets the server fail. Its files are those of the start again.
    pub(crate) fn begin(&self, dice: &mut Dice, server: &Server) {
        let change = self.change.unwrap_or(u64::MAX);
        server
            .state
            .files
            .lock()
            .expect("no panic")
            .values_mut()
            .for_each(|file| *file = file.version("one"));
        let state = server.state.clone();
        let (mut dice, mut nth, mut silent) = (Dice::new(dice.next()), 0, 0);
        let (faults, outage) = (self.faults, self.outage.unwrap_or(u64::MAX));
        server.with_faults(move |request| {
            nth += 1;
            if nth == change
                && let Some(file) =
                    state.files.lock().expect("no panic").get_mut(request.path.trim_start_matches('/'))
            {
                *file = file.version("two");
            }
            match nth > outage {
                true => Fault::Closed,
                false if dice.chance(faults) => fault(&mut dice, request, &mut silent),
                false => Fault::Nothing,
            }
        });
    }

    /// The settings of the store that bring faults to an end.
    pub(crate) fn store(&self, store: &mut StoreConfig) {
        let usual = StoreConfig::default();
        store.timeout = if self.faults > 0 { TIMEOUT } else { usual.timeout };
        store.deadline = if self.is_impatient { SHORT_DEADLINE } else { 2.0 * usual.deadline };
    }
}

fn fault(dice: &mut Dice, request: &Request, silent: &mut u64) -> Fault {
    match dice.below(8) {
        0 | 1 => Fault::Status(dice.pick(&[429, 500, 502, 503]), None),
        2 | 3 => Fault::Closed,
        // A body that is cut off needs one.
        4 | 5 if request.method == "GET" => Fault::Cut(dice.within(0, 3000)),
        6 if request.method == "GET" => Fault::Short(dice.within(1, 3000)),
        7 if *silent < MOST_SILENT => {
            *silent += 1;
            Fault::Silent(Duration::from_secs_f64(3.0 * TIMEOUT))
        }
        _ => Fault::Closed,
    }
}

/// The files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(directory) = todo.pop() {
        // A child may remove it meanwhile.
        for path in std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() { todo.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// The files below a directory, and what they hold.
pub(crate) fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file");
        (path, bytes)
    };
    files(directory).into_iter().map(read).collect()
}

/// Damages some of the files below a directory: changes a byte, or cuts the file off.
pub(crate) fn damage(dice: &mut Dice, directory: &Path) {
    for path in files(directory) {
        let mut bytes = std::fs::read(&path).expect("a file");
        if bytes.is_empty() || !dice.chance(30) {
            continue;
        }
        let at = dice.below(bytes.len() as u64) as usize;
        match dice.chance(70) {
            true => bytes[at] ^= 1 << dice.below(8),
            false => bytes.truncate(at),
        }
        std::fs::write(path, bytes).expect("written");
    }
}
