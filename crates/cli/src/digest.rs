//! `millstream digest`: checks that two runs make the same batches.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt;
use serde_json::json;

use super::exchange::check_output;
use super::failure::Failure;
use super::words::count;
use super::{ConfigArgs, print_json, print_line, progress};
use millstream::atomic::check_target;
use millstream::{Cursor, Error, Loader, Result};

pub(super) const HELP: &str = "\
Example: the number of workers does not change the order
  millstream digest configs/quickstart.toml --batches 50 --set pipeline.workers=1
  millstream digest configs/quickstart.toml --batches 50 --set pipeline.workers=8

Example: a resume after batch 20 gives the same batches
  millstream digest configs/quickstart.toml --batches 50 --each --cursor-at 20 cursor.json
  millstream digest configs/quickstart.toml --batches 30 --each --from cursor.json";

#[derive(Debug, Args)]
pub(super) struct DigestArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,

    /// How many batches to read. Fewer if the stream ends earlier.
    #[arg(long, short = 'n', default_value = "100")]
    batches: NonZeroU64,

    /// Also print the digest of each batch.
    #[arg(long)]
    each: bool,

    /// Start from this cursor.
    #[arg(long, value_name = "CURSOR_FILE")]
    from: Option<PathBuf>,

    /// Save the cursor after the first K batches.
    #[arg(long, num_args = 2, value_names = ["K", "FILE"])]
    cursor_at: Option<Vec<String>>,
}

pub(super) async fn run(args: DigestArgs, json: bool) -> Result<(), Failure> {
    let save = args.cursor_at.as_deref().map(cursor_at).transpose()?;
    save.iter().try_for_each(|(_, path)| check_target(path))?;
    let config = args.config.load()?.data;
    if let Some((_, path)) = &save {
        let read = [Some(&args.config.config), config.tokenizer.path.as_ref()];
        check_output("--cursor-at", path, read.into_iter().flatten().cloned(), &config.sources)?;
    }
    let mut builder = Loader::builder(&config);
    if let Some(path) = &args.from {
        builder = builder.with_cursor(Cursor::load(path)?);
    }
    let mut loader = super::open(&config, builder).await?;
    if let Some((0, path)) = &save {
        loader.start().save(path)?;
    }

    let (mut batches, mut tokens, mut total) = (0, 0, blake3::Hasher::new());
    // The lines of digests show the progress.
    let slow = (!args.each).then(|| progress::slow("reading batches"));
    while batches < args.batches.get() {
        if let Some(slow) = &slow {
            slow.detail(|| format!("batch {batches} of {}", args.batches));
        }
        let Some(batch) = loader.next().await else { break };
        let batch = batch?;
        let digest = batch.digest();
        total.update(digest.as_bytes());
        if args.each {
            let (number, digest) = (batch.number(), digest.to_string());
            match json {
                true => print_json(&json!({ "batch": number, "digest": digest }))?,
                false => print_line(&format!("{number:>8}  {digest}"))?,
            }
        }
        batches += 1;
        tokens += batch.tokens() as u64;
        if let Some((_, path)) = save.as_ref().filter(|(at, _)| *at == batches) {
            batch.cursor().save(path)?;
        }
    }
    drop(slow);
    if let Some((at, path)) = save.filter(|(at, _)| *at > batches) {
        let problem = format!("not saved: there are only {}, not {at}", count(batches, "batch"));
        return Err(Error::Cursor { path, problem }.into());
    }
    let digest = total.finalize().to_string();
    let printed = match json {
        true => print_json(&json!({ "batches": batches, "tokens": tokens, "digest": digest })),
        false => print_line(&format!("{digest}  {}, {}", count(batches, "batch"), count(tokens, "token"))),
    };
    printed.map_err(Failure::from)
}

fn cursor_at(values: &[String]) -> Result<(u64, PathBuf), Failure> {
    let wrong = |problem: String| Failure::usage("--cursor-at", problem);
    let [at, path] = values else {
        return Err(wrong("needs a number and a file".to_owned()));
    };
    let number = at.parse().map_err(|_| wrong(format!("{at:?} is not a number of batches")))?;
    Ok((number, PathBuf::from(path)))
}
