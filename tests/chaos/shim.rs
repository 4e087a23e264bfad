//! Short reads, full disks, removals that fail and read-only caches: `shim.c`, which is put between a process and the C
//! library.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;

use crate::dice::Dice;
use crate::support::skip::skipped;
use crate::trouble::Trouble;

/// The compiled shim.
#[derive(Debug)]
pub(crate) struct Shim {
    path: PathBuf,
}

/// The directories of a process in which its system calls may fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    /// Each of them may be on a disk that is full.
    pub(crate) disks: &'a [&'a Path],
    /// Where removals may fail.
    pub(crate) old: Option<&'a Path>,
    /// What may be read-only.
    pub(crate) caches: Option<&'a Path>,
}

/// What the shim does to one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Odd {
    seed: u64,
    /// How many of a hundred reads are short, and how many are interrupted.
    short: u64,
    interrupted: u64,
    /// How many bytes there is room for on the disk, and which directory that is.
    pub(crate) full: Option<(u64, PathBuf)>,
    /// How many of a hundred removals fail, with which error, and below which directory.
    stuck: Option<(u64, Errno, PathBuf)>,
    /// The error of what would change something below a directory, and whether reading it fails too.
    pub(crate) sealed: Option<(Errno, bool, PathBuf)>,
}

impl Odd {
    /// Draws what a process meets on its ground.
    pub(crate) fn draw(dice: &mut Dice, ground: Ground) -> Self {
        let room =
            |dice: &mut Dice| (dice.pick(&[0, 3000, 20_000, 60_000]), dice.pick(ground.disks).to_owned());
        let stuck = ground.old.filter(|_| dice.brings(Trouble::NoRemoval, 20)).map(|old| {
            let error = dice.pick(&[Errno::EBUSY, Errno::ENOTEMPTY, Errno::EXDEV]);
            (dice.pick(&[50, 100]), error, old.to_owned())
        });
        let sealed = ground.caches.filter(|_| dice.brings(Trouble::ReadOnly, 20)).map(|caches| {
            let seals = [
                (Errno::EROFS, false),
                (Errno::ENOSPC, false),
                (Errno::EACCES, false),
                (Errno::EACCES, true),
            ];
            let (error, is_hidden) = dice.pick(&seals);
            (error, is_hidden, caches.to_owned())
        });
        Self {
            seed: dice.next(),
            short: dice.pick(&[0, 0, 30, 90]),
            interrupted: dice.pick(&[0, 0, 5, 25]),
            full: dice.maybe(30, room),
            stuck,
            sealed,
        }
    }
}

impl Shim {
    /// Compiles it into `directory`; `None`, and a line that says so, where it cannot be.
    pub(crate) fn build(directory: &Path) -> Option<Self> {
        let path = directory.join("shim.so");
        let source = crate::support::root().join("tests/chaos/shim.c");
        let missing = |why: &str| {
            skipped("short reads, full disks, removals that fail, read-only caches", why);
            None
        };
        if !cfg!(all(target_os = "linux", target_env = "gnu")) {
            return missing("they need Linux and the GNU C library");
        }
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&path)
            .args([source.as_os_str(), "-ldl".as_ref()])
            .output();
        match compiler {
            Err(error) => missing(&format!("there is no C compiler: {error}")),
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                Some(Self { path })
            }
        }
    }

    /// Puts it before `command`, for all files below `files`.
    pub(crate) fn put(&self, odd: &Odd, files: &Path, command: &mut Command) {
        command.env("LD_PRELOAD", &self.path).env("SHIM_FILES", files);
        command.env("SHIM_SEED", odd.seed.to_string());
        command.env("SHIM_SHORT", odd.short.to_string()).env("SHIM_INTERRUPTED", odd.interrupted.to_string());
        if let Some((room, disk)) = &odd.full {
            command.env("SHIM_ROOM", room.to_string()).env("SHIM_DISK", disk);
        }
        if let Some((percent, error, old)) = &odd.stuck {
            command.env("SHIM_STUCK", old).env("SHIM_STUCK_PERCENT", percent.to_string());
            command.env("SHIM_STUCK_ERROR", (*error as i32).to_string());
        }
        if let Some((error, is_hidden, caches)) = &odd.sealed {
            command.env("SHIM_SEALED", caches).env("SHIM_SEALED_ERROR", (*error as i32).to_string());
            command.env("SHIM_HIDDEN", u8::from(*is_hidden).to_string());
        }
    }
}
