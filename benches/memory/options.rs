//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use millstream::config::ByteCount;

use crate::write::FORMATS;

/// Bytes of text of a corpus.
const BYTES: usize = 128 << 20;
const TEST_BYTES: usize = 2 << 20;

pub(crate) struct Options {
    pub(crate) formats: Vec<String>,
    /// How long each format is read, and how often it is looked at.
    pub(crate) time: Duration,
    pub(crate) every: Duration,
    /// `pipeline.memory`.
    pub(crate) memory: ByteCount,
    pub(crate) bytes: usize,
    pub(crate) program: PathBuf,
    /// Where the table goes beside standard output.
    pub(crate) out: Option<PathBuf>,
    /// Where what was seen over time goes.
    pub(crate) samples: Option<PathBuf>,
    /// What is run instead of the formats; empty if the formats are.
    pub(crate) command: Vec<String>,
    pub(crate) is_trial: bool,
}

impl Options {
    pub(crate) fn parse() -> Result<Self, String> {
        // Cargo says `--bench` where it measures, as the last argument; where it only tries out, it does not, or we
        // are told `--test`.
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        let is_bench = arguments.last().is_some_and(|last| last == "--bench");
        arguments.truncate(arguments.len() - usize::from(is_bench));
        let command = match arguments.iter().position(|argument| argument == "--") {
            Some(at) => arguments.split_off(at).split_off(1),
            None => Vec::new(),
        };
        let is_trial = !is_bench || arguments.iter().any(|argument| argument == "--test");
        let formats: Vec<String> = FORMATS.into_iter().chain(["store"]).map(str::to_owned).collect();
        let mut options = Self {
            time: Duration::from_secs(if is_trial { 1 } else { 600 }),
            every: Duration::from_millis(if is_trial { 50 } else { 1000 }),
            memory: ByteCount::mib(128),
            bytes: if is_trial { TEST_BYTES } else { BYTES },
            program: PathBuf::from(env!("CARGO_BIN_EXE_millstream")),
            out: None,
            samples: None,
            formats: formats.clone(),
            command,
            is_trial,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} lacks its value"));
            match argument.as_str() {
                "--bench" | "--test" => {}
                "--seconds" => options.time = Duration::from_secs(number(&value()?)?),
                "--memory" => options.memory = value()?.parse().map_err(|e| format!("--memory: {e}"))?,
                "--mb" => options.bytes = (number(&value()?)? as usize) << 20,
                "--program" => options.program = PathBuf::from(value()?),
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--samples" => options.samples = Some(PathBuf::from(value()?)),
                "--only" => {
                    options.formats = value()?.split(',').map(str::to_owned).collect();
                    if let Some(other) = options.formats.iter().find(|format| !formats.contains(format)) {
                        return Err(format!("unknown format {other:?}; there are {}", formats.join(", ")));
                    }
                }
                other => return Err(format!("unknown option {other:?}")),
            }
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}
