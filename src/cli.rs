//! The program: its commands, and what they print.
//!
//! With `--json` standard output has one JSON object per line and nothing else. Everything for people goes to standard
//! error.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args as Arguments, CommandFactory, FromArgMatches, Parser, Subcommand};
use millstream::config::SourceKind;
use millstream::loader::LoaderBuilder;
use millstream::{Config, Error, Loader, Result};

#[cfg(target_os = "linux")]
mod allocator;
mod bench;
mod completions;
mod config;
mod cursor;
mod digest;
mod exchange;
mod generate;
mod hint;
mod init;
mod inspect;
mod logging;
mod metrics;
mod prepare;
mod progress;
mod sight;
mod stop;
mod tokenizer;
mod trace;
mod train;
mod verify;

use sight::{Finish, Sight, SightArgs};

/// The exit code of a run that was interrupted and saved: 128 plus the number of SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

/// The exit code when the reader of standard output is gone: 128 plus the number of SIGPIPE.
const UNREAD: u8 = 141;

/// What errors of standard output have as their path.
const STANDARD_OUTPUT_NAME: &str = "standard output";

/// Turn text into training batches, and train a language model on them.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example: millstream train configs/quickstart.toml\n\n\
    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted after saving, 141 the reader of the output is gone.\n\
    RUST_LOG sets the log level, for example RUST_LOG=debug. The default is info."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print one JSON object per line on standard output, and nothing else.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at your files and write a config for them.
    #[command(after_help = init::HELP)]
    Init(init::InitArgs),
    /// Train a model, or resume a run.
    #[command(after_help = train::HELP)]
    Train(train::TrainArgs),
    /// Continue a prompt with a trained model.
    #[command(after_help = generate::HELP)]
    Generate(generate::GenerateArgs),
    /// Learn a tokenizer, or check that its fast engine is exact.
    #[command(subcommand, after_help = tokenizer::HELP)]
    Tokenizer(tokenizer::TokenizerCommand),
    /// Tokenize the sources once and store the ids as token shards.
    #[command(after_help = prepare::HELP)]
    Prepare(prepare::PrepareArgs),
    /// Import tokens that another program prepared, as token shards.
    #[command(after_help = exchange::IMPORT_HELP)]
    Import(exchange::ImportArgs),
    /// Export token shards as files for other programs.
    #[command(after_help = exchange::EXPORT_HELP)]
    Export(exchange::ExportArgs),
    /// Measure the loader without training.
    #[command(after_help = bench::HELP)]
    Bench(bench::BenchArgs),
    /// Print a digest of the first batches, to compare the order of two runs.
    #[command(after_help = digest::HELP)]
    Digest(digest::DigestArgs),
    /// Show cursors, and merge the cursors of several ranks.
    #[command(subcommand, after_help = cursor::HELP)]
    Cursor(cursor::CursorCommand),
    /// Show batches as text, with the file and line of each piece.
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::InspectArgs),
    /// Check on your data that workers, kills and ranks do not change the batches.
    #[command(after_help = verify::HELP)]
    Verify(verify::VerifyArgs),
    /// Print the JSON Schema of config files, for editors.
    #[command(subcommand, after_help = config::HELP)]
    Config(config::ConfigCommand),
    /// Print a script that completes commands in your shell.
    #[command(after_help = completions::HELP)]
    Completions(completions::CompletionsArgs),
    #[command(hide = true, name = verify::CHILD)]
    VerifyChild,
    #[command(hide = true, name = bench::compare::COMMAND)]
    CompareChild,
}

impl Args {
    /// The arguments that the program was called with. Wrong ones end it, and so does `--help`.
    pub(crate) fn read() -> Self {
        let matches = hint::in_help(Self::command()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

impl Command {
    /// The trace and metrics options, for commands that drive a loader.
    fn sight(&self) -> Option<&SightArgs> {
        match self {
            Self::Train(args) => Some(&args.sight),
            Self::Bench(args) => Some(&args.sight),
            _ => None,
        }
    }
}

/// A config file, and settings that override it.
#[derive(Debug, Arguments)]
struct ConfigArgs {
    /// The config: a .toml, .json or .yaml file.
    config: PathBuf,

    /// Override a key of the config, for example --set pipeline.workers=4. Repeat it for more keys.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config> {
        Config::load_with(&self.config, &self.set)
    }
}

/// A loader of the held-out batches.
fn held_out(config: &Config) -> Result<LoaderBuilder> {
    if config.pipeline.holdout == 0.0 {
        let problem = "nothing is held out; set it to a share of the documents, such as 0.01";
        return Err(Error::config("pipeline.holdout", problem));
    }
    Ok(Loader::builder(config).with_held_out(true))
}

/// Refuses token shards, for commands that need the text.
fn needs_text(config: &Config) -> Result<()> {
    match config.sources.iter().position(|source| source.kind == SourceKind::Shards) {
        None => Ok(()),
        Some(source) => {
            let problem = "token shards have no text to encode; name the text that they were made of";
            Err(Error::config(format!("source.{source}.kind"), problem))
        }
    }
}

/// Raises the limit on open files as far as the system allows: each lane reads several files at once.
fn raise_open_files() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // If the system refuses, the old limit stays.
        if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
        }
    }
}

/// Runs one command on a new runtime and turns its result into an exit code.
pub(crate) fn run(args: Args) -> ExitCode {
    raise_open_files();
    let sight = match args.command.sight().map_or_else(|| Ok(Sight::default()), Sight::open) {
        Ok(sight) => sight,
        Err(error) => return fail(&error),
    };
    let _finish = Finish(sight.clone());
    logging::init(&sight);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let Args { command, json } = args;
    let done = runtime.block_on(async {
        sight.serve();
        match command {
            Command::Init(args) => init::run(args, json).await,
            Command::Train(args) => return train::run(args, &sight, json).await,
            Command::Generate(args) => generate::run(args, json).await,
            Command::Tokenizer(command) => tokenizer::run(command, json).await,
            Command::Prepare(args) => prepare::run(args, json).await,
            Command::Import(args) => exchange::import(&args, json).await,
            Command::Export(args) => exchange::export(&args, json).await,
            Command::Bench(args) => return bench::run(args, &sight, json).await,
            Command::Digest(args) => digest::run(args, json).await,
            Command::Cursor(command) => cursor::run(command, json),
            Command::Inspect(args) => inspect::run(args, json).await,
            Command::Verify(args) => return verify::run(args, json).await,
            Command::Config(command) => config::run(&command, json),
            Command::Completions(args) => completions::run(&args, json),
            Command::VerifyChild => return verify::child().await,
            Command::CompareChild => bench::compare::serve().await,
        }
        .map(|()| ExitCode::SUCCESS)
    });
    // Nobody waits for jobs that are still running when the command has ended.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| if is_unread(&error) { ExitCode::from(UNREAD) } else { fail(&error) })
}

/// Prints an error and its causes on one line.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    progress::say(&hint::pasteable(&format!("error: {message}")));
    ExitCode::FAILURE
}

/// Prints one line of JSON.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let line =
        serde_json::to_string(value).map_err(|e| Error::io(STANDARD_OUTPUT_NAME, "write", e.into()))?;
    print_line(&line)
}

/// Prints a line.
fn print_line(line: &str) -> Result<()> {
    print_text(&format!("{line}\n"))
}

/// Prints text as it is. If the reader has gone away, as `head` does, that is an error and not a panic.
fn print_text(text: &str) -> Result<()> {
    use std::io::Write;
    std::io::stdout().write_all(text.as_bytes()).map_err(|e| Error::io(STANDARD_OUTPUT_NAME, "write", e))
}

/// Whether the error is only that the reader of standard output is gone.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STANDARD_OUTPUT_NAME) && source.kind() == std::io::ErrorKind::BrokenPipe)
}
