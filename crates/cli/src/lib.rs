//! The program: its commands and their output. [`run`] runs all of it.
//!
//! With `--json` standard output has one JSON object per line and nothing else; if a command fails, the last one is
//! `{"error": …}`. Everything for people goes to standard error.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args as Arguments, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use millstream::atomic;
#[cfg(feature = "train")]
use millstream::config::PipelineConfig;
use millstream::config::SourceKind;
use millstream::loader::LoaderBuilder;
use millstream::tokenizer::Tokenizer;
#[cfg(feature = "train")]
use millstream::world::World;
use millstream::{Config, Error, Loader, Result, threads};
#[cfg(feature = "train")]
use millstream_train::{Peers, RunConfig, RunDirectory};

mod bench;
mod check;
mod completions;
mod config;
#[cfg(feature = "train")]
mod cost;
mod cursor;
mod digest;
mod exchange;
mod failure;
#[cfg(feature = "train")]
mod generate;
mod hint;
mod init;
mod inspect;
mod ledger;
mod logging;
mod metrics;
#[cfg(feature = "train")]
mod model;
mod output;
mod overview;
mod prepare;
mod program;
mod progress;
#[cfg(feature = "train")]
mod report;
#[cfg(not(feature = "train"))]
mod run_config;
mod settings;
#[cfg(feature = "train")]
mod steps;
mod stop;
mod table;
mod telemetry;
mod terminal;
mod tokenizer;
mod trace;
#[cfg(feature = "train")]
mod train;
mod verify;
#[cfg(feature = "train")]
mod when;
mod words;

use failure::Failure;
#[cfg(feature = "train")]
use model::ModelCommand;
#[cfg(not(feature = "train"))]
use run_config::RunConfig;

pub use program::Program;
use settings::Settings;
use telemetry::{Finish, Telemetry, TelemetryArgs};

const NAME: &str = "millstream";

const ABOUT: &str = match cfg!(feature = "train") {
    true => "Turn text into training batches, and train a language model on them",
    false => "Turn text into training batches",
};

/// The exit code of a run that was interrupted and saved: 128 plus the number of SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

/// How long idle threads are kept.
const KEPT_ALIVE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the process waits at its end for tasks that write what they hold, such as tokens for the cache. Jobs that
/// still run then, such as one that waits for standard input, are dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// The path in errors of standard output.
const STANDARD_OUTPUT_NAME: &str = "standard output";

#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    about = ABOUT,
    after_long_help = help()
)]
struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print JSON lines on standard output; a failure is {"error": …}.
    #[arg(long, global = true)]
    json: bool,
}

fn help() -> String {
    let example = if cfg!(feature = "train") { "train" } else { "bench loader" };
    format!(
        "Example: millstream {example} configs/quickstart.toml\n\n\
        Exit codes: 0 done, 1 failed or stopped at once, 2 wrong usage, 130 interrupted after saving, 141 the reader of \
        the output is gone.\nRUST_LOG sets the log level, for example RUST_LOG=debug. The default is info."
    )
}

// In the order of `millstream -h`, which groups them by it: see `overview`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Look at your files and write a config for them.
    #[command(after_help = init::HELP)]
    Init(init::InitArgs),
    /// Check a config and its files, and show what would be read.
    #[command(after_help = check::HELP)]
    Check(check::CheckArgs),
    /// Print the JSON Schema of config files, for editors.
    #[command(subcommand, after_help = config::HELP)]
    Config(config::ConfigCommand),
    /// Print a script that completes commands in your shell.
    #[command(after_help = completions::HELP)]
    Completions(completions::CompletionsArgs),

    #[cfg(feature = "train")]
    /// Train a model, or resume a run.
    #[command(after_help = train::HELP)]
    Train(train::TrainArgs),
    #[cfg(feature = "train")]
    /// Show the results of runs, or the data that one of them read.
    #[command(after_help = report::HELP)]
    Report(report::ReportArgs),
    #[cfg(feature = "train")]
    /// Continue a prompt with a trained model.
    #[command(after_help = generate::HELP)]
    Generate(generate::GenerateArgs),
    #[cfg(feature = "train")]
    /// Write a trained model for other programs.
    #[command(subcommand, after_help = model::HELP)]
    Model(ModelCommand),

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

    /// Show batches as text, with the file and line of each piece.
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::InspectArgs),
    /// Account for each document and id: learned, masked, skipped.
    #[command(after_help = ledger::HELP)]
    Ledger(ledger::LedgerArgs),
    #[cfg(feature = "train")]
    /// Say in which steps a run was trained on a document.
    #[command(after_help = when::HELP)]
    When(when::WhenArgs),
    /// Show cursors, and merge the cursors of several ranks.
    #[command(subcommand, after_help = cursor::HELP)]
    Cursor(cursor::CursorCommand),
    /// Print a digest of the first batches, to compare two runs.
    #[command(after_help = digest::HELP)]
    Digest(digest::DigestArgs),
    /// Check that workers, kills and ranks change no batch of your data.
    #[command(after_help = verify::HELP)]
    Verify(verify::VerifyArgs),
    /// Measure the loader, the tokenizer, the device and overlap.
    #[command(subcommand, after_help = bench::HELP)]
    Bench(bench::BenchCommand),

    #[command(hide = true, name = verify::CHILD)]
    VerifyChild,
    #[command(hide = true, name = bench::compare::COMMAND)]
    CompareChild,
}

impl Args {
    /// Parses the program's arguments. If they are wrong, or `--help` is among them, the result is an exit code.
    fn read(program: &Program) -> std::result::Result<Self, ExitCode> {
        // clap draws colors on a dumb terminal if `CI` is set.
        let color = if terminal::takes_colors() { ColorChoice::Auto } else { ColorChoice::Never };
        let command = Self::command().color(color);
        let template = overview::template(&command);
        let matches = command.help_template(template).try_get_matches_from(&program.args);
        failure::parsed(matches.and_then(|matches| Self::from_arg_matches(&matches)))
    }
}

impl Command {
    /// The trace and metrics options, for commands that drive a loader.
    fn telemetry(&self) -> Option<&TelemetryArgs> {
        match self {
            #[cfg(feature = "train")]
            Self::Train(args) => Some(&args.telemetry),
            Self::Bench(command) => command.telemetry(),
            _ => None,
        }
    }

    /// Whether this process is one of several ranks that train together, and not the first, which reports for all.
    fn is_aside(&self) -> bool {
        #[cfg(feature = "train")]
        if cfg!(feature = "mpi") && matches!(self, Self::Train(_)) {
            return World::launched(&PipelineConfig::default()).is_ok_and(|world| world.rank > 0);
        }
        false
    }

    /// Where the keys of the config that the command reads are written.
    fn written(&self) -> Option<Written> {
        match self {
            Self::Check(args) => Some(args.config.written()),
            #[cfg(feature = "train")]
            Self::Train(args) => args.written(),
            #[cfg(feature = "train")]
            Self::Generate(args) => Some(Written::of_run(&args.model, &args.settings)),
            #[cfg(feature = "train")]
            Self::Model(ModelCommand::Export(args)) => Some(Written::of_run(&args.run, &args.settings)),
            Self::Tokenizer(command) => Some(command.config().written()),
            Self::Prepare(args) => Some(args.config.written()),
            Self::Bench(command) => Some(command.config().written()),
            Self::Digest(args) => Some(args.config.written()),
            Self::Ledger(args) => Some(args.written()),
            Self::Inspect(args) => Some(args.config.written()),
            Self::Verify(args) => {
                Some(Written { config: args.config.clone(), settings: args.settings.clone(), has_at: false })
            }
            _ => None,
        }
    }
}

/// A config file, and settings that override it.
#[derive(Clone, Debug, Arguments)]
struct ConfigArgs {
    /// The config: a .toml, .json or .yaml file.
    config: PathBuf,

    #[command(flatten)]
    settings: Settings,
}

impl ConfigArgs {
    fn load(&self) -> Result<RunConfig> {
        RunConfig::load_with(&self.config, self.settings.all())
    }

    fn written(&self) -> Written {
        Written { config: Some(self.config.clone()), settings: self.settings.clone(), has_at: false }
    }
}

/// Where a command's keys are written: in settings, and in a config file if there is one.
#[derive(Debug)]
struct Written {
    config: Option<PathBuf>,
    settings: Settings,
    /// Whether the command uses a run's checkpoint, which `--at` names.
    has_at: bool,
}

impl Written {
    /// The config of the run in a directory, if it is one, with settings over it.
    #[cfg(feature = "train")]
    fn of_run(directory: &Path, settings: &Settings) -> Self {
        let config = RunDirectory::open(directory).ok().map(|run| run.config_path());
        Self { config, settings: settings.clone(), has_at: true }
    }

    /// The error, with the place of its key.
    fn place(&self, error: Error) -> Error {
        let Error::Config { key, .. } = &error else { return error };
        match RunConfig::locate(self.config.as_deref(), self.settings.all(), key) {
            Ok(Some(place)) => error.at(place),
            // The file was read before. If it cannot be read now, the error has no place.
            _ => error,
        }
    }
}

/// Opens a loader, with a message if it takes long.
async fn open(config: &Config, builder: LoaderBuilder) -> Result<Loader> {
    let _slow = progress::slow(match config.tokenizer.is_learned() {
        true => "listing the files, and learning a tokenizer from them",
        false => "listing the files",
    });
    builder.open().await
}

/// Opens the tokenizer, or learns it, with a message if it takes long.
async fn open_tokenizer(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    let _slow = progress::slow(match config.tokenizer.is_learned() {
        true => "learning a tokenizer from the corpus",
        false => "opening the tokenizer",
    });
    millstream::loader::open_tokenizer(config).await
}

/// Learns the tokenizer and writes it to `directory`, so that child processes need not.
async fn learn_once(config: &mut Config, directory: &Path) -> Result<()> {
    let path = directory.join("tokenizer.json");
    let tokenizer = open_tokenizer(config).await?;
    let json = tokenizer.tokenizer_json().unwrap_or_default();
    std::fs::write(&path, json).map_err(|e| Error::io(&path, "write", e))?;
    (config.tokenizer.path, config.tokenizer.train) = (Some(path), None);
    Ok(())
}

/// The result of work that blocks its thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = tokio::task::spawn_blocking(work);
    work.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
}

/// A directory that is removed when this is dropped.
fn temporary() -> Result<TempDir> {
    tempfile::tempdir().map_err(|e| Error::io(std::env::temp_dir(), "make a directory in", e))
}

/// A loader of the held-out batches.
fn held_out(config: &Config) -> Result<LoaderBuilder> {
    if config.pipeline.holdout == 0.0 {
        let problem = "nothing is held out; set it to a share of the documents, such as 0.01";
        return Err(Error::config("pipeline.holdout", problem));
    }
    Ok(Loader::builder(config).with_held_out(true))
}

/// Why a run that holds documents out may have no held-out batch, and what to do.
fn nothing_held_out(config: &Config) -> String {
    let share = config.pipeline.holdout;
    format!(
        "no batch is held out: the documents that pipeline.holdout = {share} sets aside fill none; raise it, or read more \
         documents"
    )
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

/// Turns a write beyond the limit on a file's length into an error. Otherwise a signal would end the program unsaved.
fn block_too_long_files() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let _ = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    }
}

/// How many threads can run at once.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// A runtime on all cores. It keeps its threads, because a busy system may refuse new ones.
fn runtime() -> Result<Runtime> {
    let workers = cores();
    threads::check(workers + threads::LEAST)?;
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().worker_threads(workers).thread_keep_alive(KEPT_ALIVE);
    builder.build().map_err(|e| Error::io("this program", "start its runtime", e))
}

/// Reads the arguments, runs one command on a new runtime, and turns its result into an exit code.
///
/// It prints errors itself. It sets up the log, so call it once in a process.
pub fn run(program: Program) -> ExitCode {
    block_too_long_files();
    let code = Args::read(program::start(program)).map_or_else(|code| code, execute);
    // A host such as Python does not flush Rust's output when it ends. A reader that is gone has been reported.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    code
}

/// Runs one command.
fn execute(args: Args) -> ExitCode {
    raise_open_files();
    let Args { command, json } = args;
    let is_aside = command.is_aside();
    let seen = command.telemetry().filter(|_| !is_aside);
    let telemetry = match seen.map_or_else(|| Ok(Telemetry::default()), Telemetry::open) {
        Ok(telemetry) => telemetry,
        Err(error) => return Failure::from(error).say(None, json),
    };
    let _finish = Finish(telemetry.clone());
    logging::init(&telemetry, is_aside);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::from(error).say(None, json),
    };
    let written = command.written();
    // After all output: leaving may wait for the other processes.
    #[cfg(feature = "train")]
    let mut peers = Peers::ALONE;
    let done = runtime.block_on(async {
        telemetry.serve().await?;
        match command {
            Command::Init(args) => init::run(args, json).await?,
            Command::Check(args) => check::run(args, json).await?,
            #[cfg(feature = "train")]
            Command::Train(args) => return Ok(train::run(args, &mut peers, &telemetry, json).await?),
            #[cfg(feature = "train")]
            Command::Report(args) => return report::run(&args, json).await,
            #[cfg(feature = "train")]
            Command::Generate(args) => generate::run(args, json).await?,
            Command::Tokenizer(command) => tokenizer::run(command, json).await?,
            #[cfg(feature = "train")]
            Command::Model(command) => model::run(command, json).await?,
            Command::Prepare(args) => return Ok(prepare::run(args, json).await?),
            Command::Import(args) => exchange::import(&args, json).await?,
            Command::Export(args) => exchange::export(&args, json).await?,
            Command::Bench(command) => return bench::run(command, &telemetry, json).await,
            Command::Digest(args) => digest::run(args, json).await?,
            Command::Cursor(command) => cursor::run(command, json)?,
            Command::Ledger(args) => ledger::run(args, json).await?,
            Command::Inspect(args) => inspect::run(args, json).await?,
            #[cfg(feature = "train")]
            Command::When(args) => return Ok(when::run(args, json).await?),
            Command::Verify(args) => return verify::run(args, json).await,
            Command::Config(command) => config::run(&command, json)?,
            Command::Completions(args) => completions::run(&args, json)?,
            Command::VerifyChild => return Ok(verify::child().await?),
            Command::CompareChild => bench::compare::serve().await?,
        }
        Ok::<_, Failure>(ExitCode::SUCCESS)
    });
    let code = done.unwrap_or_else(|failure| {
        let failure = match &written {
            Some(written) => failure.placed(written),
            None => failure,
        };
        let exit = failure.say(written.as_ref(), json);
        #[cfg(feature = "train")]
        peers.abort(failure.code());
        exit
    });
    runtime.shutdown_timeout(PATIENCE);
    code
}

fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let line = serde_json::to_string(value).map_err(unwritten)?;
    print_text(&format!("{line}\n"))
}

/// A value as JSON, which a path that is not UTF-8 cannot be.
#[cfg(feature = "train")]
fn as_json(value: &impl serde::Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(unwritten)
}

fn unwritten(e: serde_json::Error) -> Error {
    Error::io(STANDARD_OUTPUT_NAME, "write", e.into())
}

/// Prints that `output` was written: to standard error if `output` is standard output.
fn print_written(output: &Path, value: &impl serde::Serialize, line: &str, json: bool) -> Result<()> {
    match (atomic::is_standard_output(output), json) {
        (true, _) => progress::say(line),
        (false, true) => return print_json(value),
        (false, false) => return print_line(line),
    }
    Ok(())
}

fn print_line(line: &str) -> Result<()> {
    print_text(&format!("{}\n", terminal::shown(line)))
}

/// Prints text. A reader that is gone, such as `head`, is an error and not a panic.
fn print_text(text: &str) -> Result<()> {
    output::to_stdout(text.as_bytes()).map_err(|e| Error::io(STANDARD_OUTPUT_NAME, "write", e))
}
