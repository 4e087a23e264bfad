//! What the program is asked to do, and what it says.
//!
//! With `--json` standard output is one JSON object a line and nothing else; all that is for people
//! goes to standard error.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args as Arguments, Parser, Subcommand};
use millstream::config::SourceKind;
use millstream::loader::LoaderBuilder;
use millstream::{Config, Error, Loader, Result};

mod bench;
mod cursor;
mod digest;
mod exchange;
mod generate;
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

/// The exit code of a run that was interrupted and saved: 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// The exit code where nobody reads on: 128 and the number of SIGPIPE.
const UNREAD: u8 = 141;

/// Names it in errors.
const STANDARD_OUTPUT: &str = "standard output";

/// Streams of text into training batches, and a model trained on them.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Example: millstream train configs/quickstart.toml\n\n\
    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted after saving, 141 nobody read on.\n\
    RUST_LOG sets what is logged, such as RUST_LOG=debug; the default is info."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print one JSON object a line on standard output, and nothing else there.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model, or go on with a run.
    #[command(after_help = train::HELP)]
    Train(train::TrainArgs),
    /// Continue a prompt with a trained model.
    #[command(after_help = generate::HELP)]
    Generate(generate::GenerateArgs),
    /// Learn a tokenizer, or check that its fast engine is exact.
    #[command(subcommand, after_help = tokenizer::HELP)]
    Tokenizer(tokenizer::TokenizerCommand),
    /// Tokenize the sources once, into shards to train from.
    #[command(after_help = prepare::HELP)]
    Prepare(prepare::PrepareArgs),
    /// Make token shards of tokens that another program prepared.
    #[command(after_help = exchange::IMPORT_HELP)]
    Import(exchange::ImportArgs),
    /// Write token shards as files that other programs train from.
    #[command(after_help = exchange::EXPORT_HELP)]
    Export(exchange::ExportArgs),
    /// Measure the loader alone.
    #[command(after_help = bench::HELP)]
    Bench(bench::BenchArgs),
    /// Print a digest of the first batches, to compare orders by.
    #[command(after_help = digest::HELP)]
    Digest(digest::DigestArgs),
    /// Look at cursors, and merge those of several ranks.
    #[command(subcommand, after_help = cursor::HELP)]
    Cursor(cursor::CursorCommand),
    /// Show batches as text, and where each piece came from.
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::InspectArgs),
    /// Prove that the order survives workers, kills and ranks.
    #[command(after_help = verify::HELP)]
    Verify(verify::VerifyArgs),
    #[command(hide = true, name = verify::CHILD)]
    VerifyChild,
    #[command(hide = true, name = bench::compare::COMMAND)]
    CompareChild,
}

impl Command {
    /// What is to show the run, if the command drives one.
    fn sight(&self) -> Option<&SightArgs> {
        match self {
            Self::Train(args) => Some(&args.sight),
            Self::Bench(args) => Some(&args.sight),
            _ => None,
        }
    }
}

/// A config file and the settings over it.
#[derive(Debug, Arguments)]
struct ConfigArgs {
    /// The config: a .toml, .json or .yaml file.
    config: PathBuf,

    /// Set any key of the config, such as --set pipeline.workers=4; may be given many times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config> {
        Config::load_with(&self.config, &self.set)
    }
}

/// A loader of the held-out batches, if there is a hold-out.
fn held_out(config: &Config) -> Result<LoaderBuilder> {
    if config.pipeline.holdout == 0.0 {
        let problem = "nothing is held out; set it to a share of the documents, such as 0.01";
        return Err(Error::config("pipeline.holdout", problem));
    }
    Ok(Loader::builder(config).held_out())
}

/// Refuses sources that are tokens already, for who wants to encode their text.
fn needs_text(config: &Config) -> Result<()> {
    match config.sources.iter().position(|source| source.kind == SourceKind::Shards) {
        None => Ok(()),
        Some(source) => {
            let problem = "token shards have no text to encode; name the text that they were made of";
            Err(Error::config(format!("source.{source}.kind"), problem))
        }
    }
}

/// Asks for as many open files as the system allows: each lane reads several at once.
fn raise_open_files() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // Who is refused has as many as before.
        if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
        }
    }
}

/// Runs one command on a runtime of its own and turns what came of it into an exit code.
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
            Command::Train(args) => return train::run(args, &sight, json).await,
            Command::Generate(args) => generate::run(args, json).await,
            Command::Tokenizer(command) => tokenizer::run(command, json).await,
            Command::Prepare(args) => prepare::run(args, json).await,
            Command::Import(args) => exchange::import(&args, json),
            Command::Export(args) => exchange::export(&args, json),
            Command::Bench(args) => return bench::run(args, &sight, json).await,
            Command::Digest(args) => digest::run(args, json).await,
            Command::Cursor(command) => cursor::run(command, json),
            Command::Inspect(args) => inspect::run(args, json).await,
            Command::Verify(args) => return verify::run(args, json).await,
            Command::VerifyChild => return verify::child().await,
            Command::CompareChild => bench::compare::serve().await,
        }
        .map(|()| ExitCode::SUCCESS)
    });
    // Jobs that were under way when the command ended have nobody to give their work to.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| if is_unread(&error) { ExitCode::from(UNREAD) } else { fail(&error) })
}

/// Prints an error and its causes, once each.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    progress::say(&format!("error: {message}"));
    ExitCode::FAILURE
}

/// Prints one line of JSON.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let line = serde_json::to_string(value).map_err(|e| Error::io(STANDARD_OUTPUT, "write", e.into()))?;
    print_line(&line)
}

/// Prints a line; a reader that has gone away, as `head` does, is an error and no panic.
fn print_line(line: &str) -> Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}").map_err(|e| Error::io(STANDARD_OUTPUT, "write", e))
}

/// Whether all that failed is that nobody reads what is printed any more.
fn is_unread(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STANDARD_OUTPUT) && source.kind() == std::io::ErrorKind::BrokenPipe)
}
