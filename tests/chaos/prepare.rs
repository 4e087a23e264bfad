//! A round over `millstream prepare`: ended and run again until it is done, its shards give the batches of the text.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::corpora::{CHATS, Corpora};
use crate::dice::Dice;
use crate::process::{Ending, Moment};
use crate::program::json;
use crate::samples::FORMATS;
use crate::session::{Session, Site};
use crate::shim::Ground;
use crate::weather::files;

/// After so many runs nothing disturbs it.
const MOST_RUNS: usize = 8;

/// Plays a round, and says what it was.
pub(crate) fn round(dice: &mut Dice, corpora: &Corpora) -> String {
    let scratch = corpora.scratch();
    let out = scratch.path().join("out");
    let mut formats: Vec<&str> = FORMATS.iter().copied().filter(|format| *format != "shards").collect();
    while formats.len() > 2 {
        formats.remove(dice.below(formats.len() as u64) as usize);
    }
    formats.push(dice.pick(&CHATS[..CHATS.len() - 1]));
    let split = dice.pick(&[300, 2000, 1 << 20]);
    let text = |format: &str| {
        let source = corpora.source(format, &corpora.directory(format));
        let kind = toml::Value::try_from(source.kind).expect("a kind");
        let field = source.field.map_or(String::new(), |field| format!("field = {field:?}\n"));
        let document = if format == "text" { "document = \"paragraph\"\n" } else { "" };
        let chat = match source.chat.template {
            Some(template) => format!("task = \"chat\"\nchat = {{ template = {template:?} }}\n"),
            None => String::new(),
        };
        format!("kind = {kind}\npaths = {:?}\n{field}{document}{chat}split = {split}\n", source.paths)
    };
    let shards = |format: &str| format!("kind = \"shards\"\npaths = [{:?}]\n", out.join(name(format)));
    let pack = dice.pick(&["concat", "best_fit", "pad"]);
    let text = config(scratch.path(), "text.toml", &formats, pack, text);
    let shards = config(scratch.path(), "shards.toml", &formats, pack, shards);
    let digest = |config: &str| -> Value { json(&["digest", config, "--batches", "1000000"]) };
    let expected = digest(&text);

    let out_name = out.display().to_string();
    let arguments = ["prepare", &text, "-o", &out_name];
    let site = Site { corpora, out: &out, scratch: scratch.path(), saved: "continue with: " };
    let ground = Ground { disks: &[&out], old: Some(&out), caches: None };
    let moment = |dice: &mut Dice| match dice.chance(50) {
        true => Moment::After(Duration::from_micros(dice.below(40_000))),
        false => Moment::Made(dice.below(8), Duration::from_micros(dice.below(3000))),
    };
    let (mut runs, mut ends, wanted) = (0, 0, dice.within(1, 3));
    loop {
        runs += 1;
        let is_last = runs >= dice.tries(MOST_RUNS);
        let session = if is_last { Session::default() } else { Session::draw(dice, ground, moment) };
        match session.run(dice, &arguments, &site, || files(&out).len() as u64) {
            Ending::Done if is_last || ends >= wanted && dice.awaited().is_none() => break,
            // It was too fast.
            Ending::Done => std::fs::remove_dir_all(&out).expect("removed"),
            Ending::Killed | Ending::Stopped => ends += 1,
            Ending::Failed(_) | Ending::Deaf | Ending::Unread => {}
        }
    }
    let verified = json(&[&arguments[..], &["--verify"]].concat());
    assert_eq!(verified["verified"], Value::from(true));
    assert_eq!(digest(&shards), expected, "the shards' batches");
    format!("prepare of {formats:?}, {pack}, {runs} runs, {ends} of them ended")
}

/// The name of a source: that of its format, without a dot.
fn name(format: &str) -> String {
    format.replace('.', "-")
}

/// Writes a config whose sources are what `of` says of each format, and returns its path.
fn config(directory: &Path, file: &str, formats: &[&str], pack: &str, of: impl Fn(&str) -> String) -> String {
    let source = |format: &&str| {
        format!("[[source]]\nname = {:?}\non_error = {{ skip = 1000 }}\n{}\n", name(format), of(format))
    };
    let sources: String = formats.iter().map(source).collect();
    let rest = format!(
        "[tokenizer]\nkind = \"bytes\"\n\n\
         [pipeline]\nseq_len = 400\nbatch_size = 4\nlanes = 2\nepochs = 1\npack = {pack:?}\n"
    );
    let path = directory.join(file);
    std::fs::write(&path, format!("{sources}{rest}")).expect("written");
    path.display().to_string()
}
