//! Commands that the program tells you to run, written the way you started it, so that you can paste them.

use std::borrow::Cow;
use std::env;
use std::path::Path;
use std::sync::OnceLock;

use super::program::program;
use super::{NAME as PROGRAM, Written};
use millstream::Error;
use millstream::error::{Remedy, ResumeFrom};

/// The features of the build that are not on by default and change what the program can do.
const FEATURES: [(&str, bool); 5] = [
    ("cuda", cfg!(feature = "cuda")),
    ("wgpu", cfg!(feature = "wgpu")),
    ("vulkan", cfg!(feature = "vulkan")),
    ("metal", cfg!(feature = "metal")),
    ("fastokens", cfg!(feature = "fastokens")),
];

/// The package that has the program.
const PACKAGE: &str = env!("CARGO_PKG_NAME");

/// How the program was started.
struct Start<'a> {
    /// The name that it was called by, as the shell gave it.
    name: Option<&'a str>,
    /// The package that cargo runs, and its directory.
    cargo: Option<(&'a str, &'a Path)>,
    directory: Option<&'a Path>,
}

impl Start<'_> {
    /// The words that start it again.
    fn again(&self) -> String {
        let name = self.name.filter(|name| !name.is_empty()).unwrap_or(PROGRAM);
        // Cargo runs a program by its path. A name without a path is an installed program.
        let built = Path::new(name).parent().filter(|parent| !parent.as_os_str().is_empty());
        match (self.cargo, built) {
            (Some((PACKAGE, package)), Some(built)) => self.by_cargo(package, built),
            _ => quoted(name).into_owned(),
        }
    }

    fn by_cargo(&self, package: &Path, built: &Path) -> String {
        let mut words = vec!["cargo".to_owned(), "run".to_owned()];
        match built.file_name().and_then(|profile| profile.to_str()) {
            Some("debug") | None => {}
            Some("release") => words.push("--release".to_owned()),
            Some(profile) => words.extend(["--profile".to_owned(), quoted(profile).into_owned()]),
        }
        let features: Vec<&str> =
            FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        if !features.is_empty() {
            words.extend(["--features".to_owned(), features.join(",")]);
        }
        // The package is `crates/cli` of a clone, and cargo runs it from anywhere in the clone.
        let clone = package.ancestors().nth(2).unwrap_or(package);
        if !self.directory.is_some_and(|directory| directory.starts_with(clone)) {
            let manifest = clone.join("Cargo.toml");
            words.extend(["--manifest-path".to_owned(), quoted(&manifest.to_string_lossy()).into_owned()]);
        }
        words.push("--".to_owned());
        words.join(" ")
    }
}

/// The words that start this program again.
fn again() -> &'static str {
    static AGAIN: OnceLock<String> = OnceLock::new();
    AGAIN.get_or_init(|| {
        let name = program().name();
        let cargo = env::var("CARGO").and(env::var("CARGO_PKG_NAME")).ok();
        let package = env::var_os("CARGO_MANIFEST_DIR");
        let directory = env::current_dir().ok();
        let start = Start {
            name: name.as_deref(),
            cargo: cargo.as_deref().zip(package.as_deref().map(Path::new)),
            directory: directory.as_deref(),
        };
        start.again()
    })
}

/// A command of this program with its arguments, ready for a shell.
pub(super) fn command<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> String {
    let mut words = again().to_owned();
    for argument in arguments {
        words.push(' ');
        words.push_str(&quoted(argument.as_ref()));
    }
    words
}

/// The arguments of this process.
fn arguments() -> impl Iterator<Item = String> {
    program().arguments().map(|argument| argument.to_string_lossy().into_owned())
}

/// The command that this process runs, ready for a shell.
pub(super) fn same_command() -> String {
    command(arguments())
}

/// The arguments of a command that uses a checkpoint, changed to the checkpoint of this step. `--step` is another name of
/// `--at`.
fn at(arguments: impl Iterator<Item = String>, step: u64) -> Vec<String> {
    let is_step = |name: &str| name == "--at" || name == "--step";
    let mut words: Vec<String> = arguments.collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let values = words.split_off(end);
    let mut words = words.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            None if is_step(&word) => drop(words.next()),
            Some((name, _)) if is_step(name) => {}
            _ => kept.push(word),
        }
    }
    kept.extend(["--at".to_owned(), step.to_string()]);
    kept.extend(values);
    kept
}

/// An argument quoted for a shell.
fn quoted(argument: &str) -> Cow<'_, str> {
    // Only a zero byte cannot be quoted, and no argument has one.
    shlex::try_quote(argument).unwrap_or(Cow::Borrowed(argument))
}

/// The command that resumes a run.
pub(super) fn resume(from: &ResumeFrom) -> String {
    let mut arguments =
        vec!["train".to_owned(), "--resume".to_owned(), from.run.to_string_lossy().into_owned()];
    if let Some(step) = from.step {
        arguments.extend(["--at".to_owned(), step.to_string()]);
    }
    arguments.extend(from.settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
    command(arguments)
}

/// The commands to run after an error of a command that has read the config `written`, one on a line.
pub(super) fn after(error: &Error, written: Option<&Written>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(from) = error.resume_from() {
        // The same command with another checkpoint.
        let is_damaged = matches!(error, Error::Checkpoint { .. });
        let same = is_damaged && written.is_some_and(|written| written.has_at);
        lines.push(match from.step.filter(|_| same) {
            Some(step) => format!("take that one with: {}", command(at(arguments(), step))),
            None => format!("resume with: {}", resume(from)),
        });
    }
    match error.remedy() {
        Some(Remedy::NamePart) => {
            let third = arguments().chain(["--part".to_owned(), "3/100".to_owned()]);
            lines.push(format!("make part 3 of 100 with: {}", command(third)));
        }
        Some(Remedy::MergeCursors) => {
            let merge = command(["cursor", "merge", "rank-0.json", "rank-1.json", "-o", "cursor.json"]);
            lines.push(format!("merge two with: {merge}"));
        }
        Some(Remedy::ExportModel(run)) => {
            let run = run.to_string_lossy();
            let output = format!("{}-model", run.trim_end_matches('/'));
            let export = command(["model", "export", &*run, "-o", &*output]);
            lines.push(format!("export it with: {export}"));
        }
        _ => {}
    }
    if let Error::Diverged { batches, .. } = error
        && let Some(Written { config: Some(config), settings, .. }) = written
    {
        let (config, batch) = (config.to_string_lossy(), batches.start.to_string());
        let settings = settings.all().iter().flat_map(|setting| ["--set", setting.as_str()]);
        let inspect = command(["inspect", &*config, "--batch", &*batch].into_iter().chain(settings));
        lines.push(format!("see the batch with: {inspect}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(name: &str, package: Option<&str>, directory: &str) -> String {
        let cargo = package.map(|package| (package, Path::new("/code/millstream/crates/cli")));
        Start { name: Some(name), cargo, directory: Some(Path::new(directory)) }.again()
    }

    #[test]
    fn the_program_is_started_again_as_it_was() {
        assert_eq!(again("millstream", None, "/data"), "millstream");
        assert_eq!(again("../bin/millstream", None, "/data"), "../bin/millstream");
        assert_eq!(again("/my programs/millstream", None, "/data"), "'/my programs/millstream'");
        assert_eq!(Start { name: None, cargo: None, directory: None }.again(), "millstream");
    }

    #[test]
    fn under_cargo_it_is_cargo_that_starts_it() {
        let here = "/code/millstream/configs";
        let (cargo, release) = (Some("millstream-cli"), "target/release/millstream");
        let features: Vec<&str> =
            FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        let features =
            if features.is_empty() { String::new() } else { format!(" --features {}", features.join(",")) };
        assert_eq!(again(release, cargo, here), format!("cargo run --release{features} --"));
        assert_eq!(again("target/debug/millstream", cargo, here), format!("cargo run{features} --"));
        assert_eq!(
            again("/t/thin-lto/millstream", cargo, here),
            format!("cargo run --profile thin-lto{features} --")
        );
        assert_eq!(
            again(release, cargo, "/data"),
            format!("cargo run --release{features} --manifest-path /code/millstream/Cargo.toml --")
        );
        // Another package's program may start an installed one, or one of this package's by its path.
        assert_eq!(again("millstream", cargo, here), "millstream");
        assert_eq!(again("/bin/millstream", Some("trainer"), here), "/bin/millstream");
    }

    #[test]
    fn arguments_are_quoted() {
        let said = command(["inspect", "my data/it's.toml", "--set", "pipeline.window=1"]);
        let words = shlex::split(&said).expect("words of a shell");
        assert_eq!(words[words.len() - 4..], ["inspect", "my data/it's.toml", "--set", "pipeline.window=1"]);
    }

    #[test]
    fn another_step_takes_the_place_of_the_one_given() {
        let said = |words: &str| at(words.split(' ').map(str::to_owned), 4).join(" ");
        assert_eq!(said("--json generate run foo"), "--json generate run foo --at 4");
        assert_eq!(said("generate run --at 6 foo"), "generate run foo --at 4");
        assert_eq!(said("generate run --at=6 -- --at"), "generate run --at 4 -- --at");
        assert_eq!(said("model export run --step 6 -o m"), "model export run -o m --at 4");
    }

    #[test]
    fn a_resume_has_its_directory_step_and_settings() {
        let mut from = ResumeFrom { run: "my runs/a".into(), step: None, settings: Vec::new() };
        assert!(resume(&from).ends_with(" train --resume 'my runs/a'"), "{}", resume(&from));
        (from.step, from.settings) = (Some(5), vec!["train.lr=1e-4".to_owned()]);
        assert!(resume(&from).ends_with(" --at 5 --set 'train.lr=1e-4'"), "{}", resume(&from));
    }
}
