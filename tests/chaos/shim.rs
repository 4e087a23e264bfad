//! Short reads and full disks: `shim.c`, which is put between a process and the C library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dice::Dice;
use crate::support::skip::skipped;

/// The compiled shim.
#[derive(Debug)]
pub(crate) struct Shim {
    path: PathBuf,
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
}

impl Odd {
    /// Draws what a process meets. Its writes may meet a full disk below one of `disks`.
    pub(crate) fn draw(dice: &mut Dice, disks: &[&Path]) -> Self {
        let interrupted = dice.pick(&[0, 5, 25]);
        let full =
            dice.maybe(50, |dice| (dice.pick(&[0, 3000, 20_000, 60_000]), dice.pick(disks).to_owned()));
        Self { seed: dice.next(), short: dice.pick(&[0, 30, 90]), interrupted, full }
    }
}

impl Shim {
    /// Compiles it into `directory`; `None`, and a line that says so, where it cannot be.
    pub(crate) fn build(directory: &Path) -> Option<Self> {
        let path = directory.join("shim.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/shim.c");
        let missing = |why: &str| {
            skipped("short reads and full disks", why);
            None
        };
        if !cfg!(all(target_os = "linux", target_env = "gnu")) {
            return missing("they need Linux and the GNU C library");
        }
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&path)
            .args([source, "-ldl"])
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
    }
}
