//! Commands that the program tells you to run, written the way you started it, so that you can paste them.

use std::borrow::Cow;
use std::env;
use std::path::Path;
use std::sync::OnceLock;

use clap::CommandFactory;

use super::NAME as PROGRAM;
use super::program::program;

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

/// What is known of how the program was started.
struct Start<'a> {
    /// The name that it was called by, as the shell gave it.
    name: Option<&'a str>,
    /// The package that cargo runs, and its directory.
    cargo: Option<(&'a str, &'a Path)>,
    directory: Option<&'a Path>,
}

impl Start<'_> {
    /// How to start it again.
    fn again(&self) -> String {
        let name = self.name.filter(|name| !name.is_empty()).unwrap_or(PROGRAM);
        // Cargo runs it by its path. A program that is found by its name alone is an installed one.
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
        // The package lies in `crates/cli` of what was cloned, and cargo runs it from anywhere in that.
        let clone = package.ancestors().nth(2).unwrap_or(package);
        if !self.directory.is_some_and(|directory| directory.starts_with(clone)) {
            let manifest = clone.join("Cargo.toml");
            words.extend(["--manifest-path".to_owned(), quoted(&manifest.to_string_lossy()).into_owned()]);
        }
        words.push("--".to_owned());
        words.join(" ")
    }
}

/// How to start this program again.
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

/// The command that this process runs, ready for a shell.
pub(super) fn same_command() -> String {
    command(program().arguments().map(|argument| argument.to_string_lossy().into_owned()))
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> Cow<'_, str> {
    // Only a zero byte cannot be quoted, and no argument has one.
    shlex::try_quote(argument).unwrap_or(Cow::Borrowed(argument))
}

/// The text with every `millstream COMMAND` in it written the way the program was started.
pub(super) fn pasteable(text: &str) -> String {
    let program = super::Args::command();
    let commands: Vec<&str> = program.get_subcommands().map(|command| command.get_name()).collect();
    rewritten(text, &commands, again())
}

fn rewritten(text: &str, commands: &[&str], again: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PROGRAM) {
        let (before, from) = rest.split_at(at);
        let after = &from[PROGRAM.len()..];
        let is_a_word = !before.ends_with(|c: char| c.is_alphanumeric() || "/_-.".contains(c));
        let command = after
            .strip_prefix(' ')
            .and_then(|after| after.split(|c: char| !c.is_ascii_lowercase() && c != '-').next());
        let is_command = is_a_word && command.is_some_and(|command| commands.contains(&command));
        done.push_str(before);
        done.push_str(if is_command { again } else { PROGRAM });
        rest = after;
    }
    done.push_str(rest);
    done
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
    fn only_commands_are_rewritten() {
        let rewritten = |text| rewritten(text, &["train", "cursor"], "cargo run --");
        assert_eq!(
            rewritten("go on with `millstream train --resume x`"),
            "go on with `cargo run -- train --resume x`"
        );
        assert_eq!(
            rewritten("millstream cursor merge\nmillstream train"),
            "cargo run -- cursor merge\ncargo run -- train"
        );
        for same in [
            "the version of millstream that saved it",
            "millstream::verify::serve",
            "target/release/millstream train",
            "millstream trains",
            "a millstream",
        ] {
            assert_eq!(rewritten(same), same);
        }
    }

    #[test]
    fn arguments_are_quoted() {
        let said = command(["inspect", "my data/it's.toml", "--set", "pipeline.window=1"]);
        let words = shlex::split(&said).expect("words of a shell");
        assert_eq!(words[words.len() - 4..], ["inspect", "my data/it's.toml", "--set", "pipeline.window=1"]);
    }
}
