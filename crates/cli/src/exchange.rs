//! `millstream import` and `export`: token shards from and to the formats of other programs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::failure::Failure;
use super::words::count;
use super::{print_written, progress};
use millstream::config::{SourceConfig, TokenizerConfig};
use millstream::loader::open_tokenizer;
use millstream::prepare::{Import, ShardCounts, TokenFormat, import_mds, tokenizer_of};
use millstream::source::covered;
use millstream::tokenizer::Tokenizer;
use millstream::{Config, Error, Result};

pub(super) const IMPORT_HELP: &str = "\
Example: millstream import train.bin --from nanogpt --tokenizer gpt2.json --eos '<|endoftext|>' -o shards

Example: millstream import foundry --from mds --field tokens --width 8 --tokenizer gpt2.json -o shards

Megatron's .idx must lie beside the .bin. The token that ends documents is not stored; tokenizer.eos adds it again when
you train. In MosaicML's shards each sample is a document, and its tokens are an array of integers, or bytes.";

pub(super) const EXPORT_HELP: &str = "\
Example: millstream export shards --to megatron --eos '<|endoftext|>' -o corpus.bin";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ImportFormat {
    /// Ids and nothing else. A token ends each document.
    Nanogpt,
    /// A .bin of ids and an .idx of documents.
    Megatron,
    /// MosaicML's shards: a directory with an index.json.
    Mds,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Ids and nothing else. A token ends each document.
    Nanogpt,
    /// A .bin of ids and an .idx of documents.
    Megatron,
}

impl Format {
    fn tokens(self) -> TokenFormat {
        match self {
            Self::Nanogpt => TokenFormat::NanoGpt,
            Self::Megatron => TokenFormat::Megatron,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The .bin file, or the directory of MosaicML's shards.
    file: PathBuf,

    /// Its format.
    #[arg(long)]
    from: ImportFormat,

    /// The column of MosaicML's shards that has the tokens.
    #[arg(long, default_value = "tokens", value_name = "COLUMN")]
    field: String,

    /// The tokenizer that made the ids: a tokenizer.json.
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,

    /// The token that ends documents.
    #[arg(long, value_name = "TOKEN")]
    eos: Option<String>,

    /// The bytes of an id, in nanoGPT's file and in columns of bytes: 2, 4 or 8. Default: 2 if the tokenizer's vocabulary
    /// fits, and 4 otherwise.
    #[arg(long, value_name = "BYTES")]
    width: Option<usize>,

    /// Where to write the shards: a new directory.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The shard directory, or one with those of several sources.
    directory: PathBuf,

    /// The format to write.
    #[arg(long)]
    to: Format,

    /// The tokenizer that made the ids. Default: the one in the directory.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// The token to end documents with.
    #[arg(long, value_name = "TOKEN")]
    eos: Option<String>,

    /// The .bin file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) async fn import(args: &ImportArgs, json: bool) -> Result<()> {
    let tokenizer = tokenizer(&args.tokenizer).await?;
    let eos = id(args.eos.as_deref(), &*tokenizer)?;
    let slow = progress::slow("importing");
    let mut how = Import::new(eos, &*tokenizer);
    how.width = args.width.unwrap_or(how.width);
    let import = |format| millstream::prepare::import(&args.file, format, how, &*tokenizer, &args.output);
    let done = match args.from {
        ImportFormat::Nanogpt => import(TokenFormat::NanoGpt)?,
        ImportFormat::Megatron => import(TokenFormat::Megatron)?,
        ImportFormat::Mds => import_mds(&args.file, &args.field, how, &*tokenizer, &args.output)?,
    };
    drop(slow);
    say(&args.output, &done, json)
}

pub(super) async fn export(args: &ExportArgs, json: bool) -> Result<(), Failure> {
    let shards = files(&args.directory).into_iter().flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    let is_shards = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "tokens" || kind == "json");
    check_output("--output", &args.output, shards.filter(is_shards).chain(args.tokenizer.clone()), &[])?;
    let eos = match (&args.eos, &args.tokenizer) {
        (None, _) => None,
        (eos, Some(file)) => id(eos.as_deref(), &*tokenizer(file).await?)?,
        (eos, None) => id(eos.as_deref(), &*tokenizer_of(&args.directory).await?)?,
    };
    let slow = progress::slow("exporting");
    let done = millstream::prepare::export(&args.directory, args.to.tokens(), &args.output, eos)?;
    drop(slow);
    Ok(say(&args.output, &done, json)?)
}

/// Refuses an output that the command reads: one of the files `read`, or one that the paths of the `sources` match.
pub(super) fn check_output(
    option: &str,
    output: &Path,
    read: impl IntoIterator<Item = PathBuf>,
    sources: &[SourceConfig],
) -> Result<(), Failure> {
    let real = output.canonicalize().or_else(|_| std::path::absolute(output));
    let Ok(real) = real else { return Ok(()) };
    if read.into_iter().any(|path| path.canonicalize().is_ok_and(|path| path == real)) {
        let problem = format!("{} is a file that this command reads; name another file", output.display());
        return Err(Failure::usage(option, problem));
    }
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else { return Ok(()) };
    let problem = covered(sources, directory, &[name.into()]);
    problem.map_or(Ok(()), |problem| Err(Failure::usage(option, problem)))
}

/// What a directory holds. One that cannot be read is reported by whoever reads it.
fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

async fn tokenizer(path: &Path) -> Result<std::sync::Arc<dyn Tokenizer>> {
    open_tokenizer(&Config::default().with_tokenizer(TokenizerConfig::file(path))).await
}

fn id(token: Option<&str>, tokenizer: &dyn Tokenizer) -> Result<Option<u32>> {
    let Some(token) = token else { return Ok(None) };
    let id = tokenizer.id(token);
    id.map(Some).ok_or_else(|| {
        Error::config("--eos", format!("the tokenizer has no token {token:?}; name one that it has"))
    })
}

fn say(output: &Path, done: &ShardCounts, json: bool) -> Result<()> {
    let (documents, tokens) = (count(done.documents, "document"), count(done.tokens, "token"));
    print_written(output, done, &format!("{}: {documents}, {tokens}", output.display()), json)
}
