//! The program as people and scripts run it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use millstream::Cursor;
use millstream::trail::Trail;
use serde_json::Value;

use crate::program::{TINY, failure, millstream, run, start, text};
use crate::support::cursors::editable;

/// The lines of a run as JSON, which must succeed.
fn json(arguments: &[&str]) -> Vec<Value> {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    lines(&text(&arguments))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn nobody_has_to_read_what_is_said_beside() {
    // A standard error whose reader is gone before anything is said.
    let unread = |arguments: &[&str]| {
        let mut child = millstream(arguments);
        child.env("RUST_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("it starts");
        drop(child.stderr.take());
        child.wait_with_output().expect("it ends")
    };
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let out = format!("train.out={}", run.display());
    let train = ["train", TINY, "--set", &out, "--set", "train.steps=3", "--set", "train.log_every=1"];
    let output = unread(&train);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(run.join("checkpoints").is_dir());
    assert_eq!(unread(&["bench", "loader", TINY, "-n", "3", "--metrics-addr", "0"]).status.code(), Some(0));
    assert_eq!(unread(&["bench", "loader", "configs/absent.toml"]).status.code(), Some(1));
}

#[test]
fn who_reads_no_further_ends_a_command_and_no_more() {
    // The first line is taken; what is written behind it finds nobody.
    let each = ["digest", TINY, "-n", "20000", "--each", "--json"];
    let mut child = start(&each);
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    lines.next().expect("a line").expect("text");
    drop(lines);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
}

#[test]
fn digests_do_not_depend_on_what_runs_ahead() {
    let digest = |workers: &str, depth: &str| {
        let (workers, depth) = (format!("pipeline.workers={workers}"), format!("pipeline.depth={depth}"));
        json(&["digest", TINY, "--batches", "40", "--each", "--set", &workers, "--set", &depth])
    };
    let expected = digest("1", "1");
    assert_eq!(expected.len(), 41);
    assert_eq!(expected[39]["batch"], 39);
    for (workers, depth) in [("2", "1"), ("8", "1"), ("1", "16"), ("2", "16"), ("8", "16")] {
        assert_eq!(digest(workers, depth), expected);
    }
    let other = json(&["digest", TINY, "--batches", "40", "--set", "seed=1"]);
    assert_ne!(other[0]["digest"], expected[40]["digest"]);
}

#[test]
fn a_token_cache_of_runs_that_were_killed_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = format!("source.0.cache.path={}", directory.path().display());
    let plain = ["digest", TINY, "-n", "3000", "--each", "--json"];
    let kept = [&plain[..], &["--set", &cache]].concat();
    for batches in [20, 900, 1700] {
        let mut child = millstream(&kept).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert_eq!(lines.take(batches).count(), batches);
        child.kill().expect("it dies");
        child.wait().expect("it is dead");
    }
    let expected = text(&plain);
    assert_eq!(text(&kept), expected);
    assert_eq!(text(&kept), expected);
    let kept = std::fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let segments = kept.flat_map(|directory| std::fs::read_dir(directory).expect("a directory"));
    assert!(
        segments.filter(|file| file.as_ref().is_ok_and(|file| file.path().extension().is_some())).count() > 0
    );
}

#[test]
fn a_run_that_ends_within_an_epoch_leaves_its_whole_splits_in_the_token_cache() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = format!("source.0.cache.path={}", directory.path().display());
    text(&["digest", TINY, "-n", "400", "--set", &cache]);
    let caches = std::fs::read_dir(directory.path()).expect("a directory").flatten();
    let files = caches.flat_map(|cache| std::fs::read_dir(cache.path()).expect("a directory"));
    let names: Vec<PathBuf> = files.map(|file| file.expect("a file").file_name().into()).collect();
    let (whole, rest): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| name.extension().is_some_and(|kind| kind == "tokens"));
    assert!(!whole.is_empty() && rest == [Path::new(".lock")], "{names:?}");
}

#[test]
fn a_saved_cursor_gives_what_follows() {
    let directory = tempfile::tempdir().expect("a directory");
    let cursor = directory.path().join("cursor.json");
    let cursor = cursor.to_str().expect("a name");
    let all = json(&["digest", TINY, "-n", "30", "--each", "--cursor-at", "12", cursor]);
    let rest = json(&["digest", TINY, "-n", "18", "--each", "--from", cursor]);
    assert_eq!(rest[..18], all[12..30]);
    assert_eq!(rest[0]["batch"], 12);
    assert!(std::fs::metadata(cursor).expect("a file").len() < 12 << 10);

    let (code, error) =
        failure(&["digest", TINY, "-n", "5", "--from", cursor, "--set", "pipeline.window=17"]);
    assert_eq!(code, 1);
    assert_eq!(
        error,
        "error: the cursor does not match this run: `pipeline.window` was 128 and is now 17; \
         set it back to resume exactly, or begin anew"
    );
}

#[test]
fn one_of_several_processes_counts_the_rows_of_a_finite_stream() {
    let directory = tempfile::tempdir().expect("a directory");
    let corpus = directory.path().join("corpus.txt");
    let line = format!("{}\n", "some text ".repeat(200));
    std::fs::write(&corpus, line.repeat((34 << 20) / line.len())).expect("a corpus");
    let config = directory.path().join("run.toml");
    let settings = "tokenizer.kind = \"bytes\"\n[pipeline]\nlanes = 2\nepochs = 1\nseq_len = 1024\n[[source]]\npaths = [\"corpus.txt\"]\n";
    std::fs::write(&config, settings).expect("a config");
    let start = |rank: usize| {
        millstream(&["digest", "run.toml", "-n", "1000000", "--json"])
            .current_dir(directory.path())
            .env("MILLSTREAM_CACHE", directory.path().join("cache"))
            .env("RUST_LOG", "info")
            .envs([("RANK", rank.to_string()), ("WORLD_SIZE", "2".to_owned())])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let end = |rank: Child| {
        let output = rank.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (output.stdout, said.matches("counting the rows").count())
    };
    let ranks = [start(0), start(1)].map(end);
    assert_eq!(ranks[0].1 + ranks[1].1, 1);
    assert_eq!(end(start(1)), (ranks[1].0.clone(), 0));
    // Files that were written again are counted again.
    std::fs::write(&corpus, line.repeat((34 << 20) / line.len())).expect("a corpus");
    assert_eq!(end(start(1)), (ranks[1].0.clone(), 1));
}

#[test]
fn a_launchers_ranks_make_the_rows_of_one_process_and_another_world_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let one = json(&["inspect", TINY, "-n", "9"]);
    let rows = |batch: &Value| batch["ids"].as_array().expect("rows").clone();
    let rank = |rank: usize, world: usize, arguments: &[&str]| {
        let mut command = millstream(arguments);
        command.arg("--json").env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", world.to_string());
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines(&String::from_utf8(output.stdout).expect("text"))
    };
    for number in 0..2 {
        let batches = rank(number, 2, &["inspect", TINY, "-n", "5"]);
        for (batch, whole) in batches.iter().zip(&one) {
            let part: Vec<Value> = rows(whole).into_iter().skip(number).step_by(2).collect();
            assert_eq!(rows(batch), part);
        }
        let cursor = file(&format!("{number}.json"));
        rank(number, 2, &["digest", TINY, "-n", "5", "--cursor-at", "5", &cursor]);
    }

    let (code, error) = failure(&["digest", TINY, "-n", "1", "--from", &file("0.json")]);
    assert_eq!(code, 1);
    assert!(
        error.contains("lane 1 of 16 is another rank's; merge the cursors of all ranks first"),
        "{error}"
    );
    let (code, error) = failure(&["cursor", "merge", &file("0.json"), "-o", &file("whole.json")]);
    assert_eq!(code, 1);
    let missing =
        "lane 1 of 16 is in none of them, so that of rank 1 of 2 is missing; give the cursors of all ranks";
    assert!(error.ends_with(missing), "{error}");
    text(&["digest", TINY, "-n", "5", "--cursor-at", "4", &file("early.json")]);
    let (_, error) =
        failure(&["cursor", "merge", &file("0.json"), &file("early.json"), "-o", &file("x.json")]);
    let expected = format!("{} is of batch 5 and {} of batch 4", file("0.json"), file("early.json"));
    assert!(error.contains(&expected), "{error}");

    let merged = json(&["cursor", "merge", &file("1.json"), &file("0.json"), "-o", &file("whole.json")]);
    text(&["digest", TINY, "-n", "5", "--cursor-at", "5", &file("one.json")]);
    let shown = json(&["cursor", "show", &file("one.json")]);
    assert_eq!(merged[0]["digest"], shown[0]["digest"]);
    assert_eq!((merged[0]["batch"].clone(), merged[0]["lanes"].clone()), (5.into(), 16.into()));
    for number in 0..4 {
        let batches = rank(number, 4, &["inspect", TINY, "-n", "4", "--from", &file("whole.json")]);
        for (batch, whole) in batches.iter().zip(&one[5..]) {
            let part: Vec<Value> = rows(whole).into_iter().skip(number).step_by(4).collect();
            assert_eq!(rows(batch), part);
        }
    }

    // A single step, from the start and from the nearest cursor.
    let step = json(&["inspect", TINY, "--batch", "7"]);
    assert_eq!(step, one[7..8]);
    assert_eq!(json(&["inspect", TINY, "--batch", "7", "--from", &file("whole.json")]), step);
    let (_, error) = failure(&["inspect", TINY, "--batch", "3", "--from", &file("whole.json")]);
    assert_eq!(error, "error: --batch: batch 3 is before the cursor, which is of batch 5");
}

#[test]
fn inspect_says_where_each_piece_came_from() {
    let directory = tempfile::tempdir().expect("a directory");
    let corpus = directory.path().join("corpus.txt");
    let written: String = (1..200).map(|line| format!("this is line {line}\n")).collect();
    std::fs::write(&corpus, &written).expect("a file");
    let paths = format!("source.0.paths=[{corpus:?}]");
    let settings = ["source.0.document=line", "pipeline.holdout=0", "pipeline.lanes=1", &paths]
        .map(|key| ["--set", key]);
    let settings = settings.as_flattened();
    let tokenizer = directory.path().join("tokenizer.json");
    let tokenizer = tokenizer.to_str().expect("a name");
    text(&[&["tokenizer", "train", TINY, "-o", tokenizer][..], settings].concat());

    let batches = json(&[&["inspect", TINY, "-n", "3"][..], settings].concat());
    assert_eq!(batches.len(), 3);
    let loaded = tokenizers_reference::Tokenizer::from_file(tokenizer).expect("it loads");
    let mut whole = 0;
    for batch in &batches {
        for piece in batch["pieces"].as_array().expect("pieces") {
            assert_eq!(piece["path"], corpus.to_str().expect("a name"));
            let at = |key: &str| piece[key].as_u64().expect("a number") as usize;
            let ids: Vec<u32> = batch["ids"][at("row")].as_array().expect("ids")[at("from")..at("to")]
                .iter()
                .map(|id| id.as_u64().expect("an id") as u32)
                .collect();
            let decoded = loaded.decode(&ids, true).expect("it decodes");
            let line = written.lines().nth(at("line") - 1).expect("a line");
            assert!(line.contains(&decoded), "{decoded:?} in {line:?}");
            whole += usize::from(line == decoded);
        }
    }
    assert!(whole > 20);
    assert!(text(&[&["inspect", TINY][..], settings].concat()).contains("corpus.txt:"));
}

#[test]
fn inspect_passes_over_a_trail_of_another_stream_and_names_what_is_excluded() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (cursor, out) = (file("cursor.json"), format!("train.out={}", directory.path().display()));
    text(&["digest", TINY, "-n", "5", "--cursor-at", "5", &cursor]);
    std::fs::write(directory.path().join("config.toml"), "").expect("a run's directory");
    let mut trail = Trail::open(file("cursors.jsonl"), 0).expect("a trail");
    trail.record(&Cursor::load(&cursor).expect("a cursor")).expect("recorded");

    for (setting, is_other) in [
        ("exclude.batches=[]", false),
        ("pipeline.window=17", true),
        ("exclude.batches=[[2,3]]", true),
        ("exclude.batches=[[8,9]]", false),
    ] {
        let step = ["inspect", TINY, "--json", "--batch", "7", "--set", setting];
        let from_the_start = text(&[&step[..], &["--set", &format!("train.out={}", file("none"))]].concat());
        let output = run(&[&step[..], &["--set", &out]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{setting}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), from_the_start, "{setting}");
        assert_eq!(said.contains("reading from the start"), is_other, "{setting}: {said}");
        let asked_for = run(&[&step[..], &["--from", &cursor]].concat());
        assert_eq!(asked_for.status.success(), !is_other, "{setting}");
    }

    let excluded = ["inspect", TINY, "--set", "exclude.batches=[[6,9]]", "--batch"];
    let (_, error) = failure(&[&excluded[..], &["7"]].concat());
    assert_eq!(error, "error: --batch: batch 7 is excluded (exclude.batches); the next one here is batch 9");
    let batches = json(&[&excluded[..], &["5", "-n", "2"]].concat());
    assert_eq!(batches.iter().map(|batch| &batch["batch"]).collect::<Vec<_>>(), [5, 9]);
    let by_tokens = ["--set", "pipeline.batch_tokens=128", "--set", "pipeline.world=2"];
    let other_rank = [&["inspect", TINY, "--batch", "4"], &by_tokens[..], &["--set", "pipeline.rank=1"]];
    let (_, error) = failure(&other_rank.concat());
    assert_eq!(error, "error: --batch: batch 4 is another rank's; the next one here is batch 5");
}

#[test]
fn a_cursor_that_cannot_be_is_refused_by_every_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cursor.json");
    let path = path.to_str().expect("a name");
    let mut form = editable(&Cursor::start(2, ["0".to_owned()], Arc::default()));
    form["lanes"][1]["sources"][0]["rows"] = u64::MAX.into();
    std::fs::write(path, form.to_string()).expect("a file");
    for command in [
        &["cursor", "show", path][..],
        &["digest", TINY, "--from", path],
        &["inspect", TINY, "--from", path],
        &["bench", "loader", TINY, "--from", path],
    ] {
        let (code, error) = failure(command);
        assert_eq!(code, 1);
        assert!(
            error.contains(
                "cursor.json: this is not a cursor: lane 1: a source's rows = 18446744073709551615"
            ),
            "{error}"
        );
    }
}

#[test]
fn bench_reports_what_scripts_rely_on() {
    let report = &json(&["bench", "loader", TINY, "--batches", "50", "--consume-ms", "1"])[0];
    assert_eq!(report["batches"], 50);
    assert_eq!(report["tokens"], 50 * 8 * 64);
    for field in ["seconds", "tokens_per_second", "first_batch_seconds", "peak_rss_bytes"] {
        assert!(report[field].as_f64().expect("a number") > 0.0, "{field} of {report}");
    }
    assert!(report["seconds"].as_f64().expect("a number") >= 0.049);
    assert!((0.0..=1.0).contains(&report["wait_share"].as_f64().expect("a share")));
    let bare = &json(&["bench", "tokenizer", TINY, "--batches", "50"])[0];
    assert!(bare["tokens"].as_u64().expect("a number") > 20_000);
    assert!(bare["tokens_per_second"].as_f64().expect("a number") > 0.0);
}

#[test]
fn bench_says_how_well_batches_are_mixed() {
    let with_lanes = |lanes: &str| {
        let lanes = format!("pipeline.lanes={lanes}");
        let bench = ["bench", "loader", TINY, "--batches", "50", "--set", &lanes];
        (json(&bench)[0]["mixing"].clone(), text(&bench))
    };
    // Batches have 8 rows: two of each of four lanes, and those overlap.
    let (few, said) = with_lanes("4");
    assert_eq!(few["shared_rows"], 1.0);
    let warning = few["warning"].as_str().expect("a warning");
    assert!(warning.contains("set pipeline.lanes to at least 8"), "{warning}");
    assert!(said.contains(&format!("% of rows share a document with another row\nwarning: {warning}\n")));

    let (enough, said) = with_lanes("8");
    assert_eq!((&enough["shared_rows"], &enough["warning"]), (&Value::from(0.0), &Value::Null));
    assert!(said.contains("; 0.0% of rows share a document") && !said.contains("warning"), "{said}");
    let number = |mixed: &Value, name: &str| mixed[name].as_f64().expect("a number");
    // Each file is one document there.
    assert_eq!(number(&enough, "documents_per_batch"), number(&enough, "files_per_batch"));
    assert!(number(&enough, "documents_per_batch") > number(&few, "documents_per_batch"));
}

#[test]
fn bench_begins_at_a_cursor() {
    let directory = tempfile::tempdir().expect("a directory");
    let cursor = directory.path().join("cursor.json");
    let cursor = cursor.to_str().expect("a name");
    let batches = |options: &[&str]| {
        let once = ["bench", "loader", TINY, "--batches", "1000000", "--set", "pipeline.epochs=1"];
        json(&[&once[..], options].concat())[0]["batches"].as_u64().expect("a number")
    };
    text(&["digest", TINY, "-n", "12", "--cursor-at", "12", cursor]);
    let all = batches(&[]);
    assert_eq!(batches(&["--from", cursor]), all - 12);
    // Behind the last one there is nothing to measure.
    let (all, once) = (all.to_string(), ["--set", "pipeline.epochs=1"]);
    text(&[&["digest", TINY, "-n", &all, "--cursor-at", &all, cursor][..], &once].concat());
    let last = &json(&[&["bench", "loader", TINY, "--from", cursor][..], &once].concat())[0];
    assert_eq!((&last["batches"], &last["verdict"]["fault"]), (&Value::from(0), &Value::Null));
    assert_eq!(last["verdict"]["sentence"], "the stream ended before a batch came");
}

/// A config over so little text that an epoch takes a moment.
fn little(directory: &Path) -> String {
    let (text, config) = (directory.join("a.txt"), directory.join("run.toml"));
    std::fs::write(&text, "one line\nand another one\n").expect("a file");
    let source = format!("[[source]]\nname = \"small\"\npaths = [{text:?}]\ndocument = \"line\"\n");
    let rest = "[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 8\nbatch_size = 1\nlanes = 1\n";
    std::fs::write(&config, source + rest).expect("a config");
    config.display().to_string()
}

#[test]
fn a_small_source_that_repeats_is_named_and_does_not_fill_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = little(directory.path());
    // Some three batches an epoch.
    let mut digest = millstream(&["digest", &config, "-n", "3000", "--set", "pipeline.holdout=0"]);
    let output = digest.env("RUST_LOG", "info").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("epoch begins")).collect();
    assert!(!lines.is_empty() && lines.len() < 100, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.contains("source=small epoch=")), "{said}");
}

#[test]
fn who_asks_for_held_out_batches_is_told_why_there_are_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = little(directory.path());
    let held_out = |command: &[&str]| {
        let set = [&config[..], "--held-out", "--set", "pipeline.holdout=0.000001"];
        let output = run(&[command, &set].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).expect("text"), said)
    };
    let hint =
        "no batch is held out: the documents that pipeline.holdout = 0.000001 sets aside fill none; raise it";
    let (printed, _) = held_out(&["bench", "loader"]);
    assert!(printed.starts_with("0 batches, 0 tokens") && printed.contains(hint), "{printed}");
    let (printed, said) = held_out(&["inspect"]);
    assert!(printed.is_empty() && said.contains(hint), "{said}");
    let set = ["--held-out", "--set", "pipeline.holdout=0.000001"];
    let report = &json(&[&["bench", "loader", &config][..], &set].concat())[0];
    assert!(report["hint"].as_str().is_some_and(|said| said.contains("pipeline.holdout")), "{report}");
}

#[test]
fn one_of_a_thing_has_no_plural() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = little(directory.path());
    let settings = ["--set", "pipeline.holdout=0"];
    assert!(
        text(&[&["inspect", &config][..], &settings].concat())
            .starts_with("batch 0: 1 row of 9 ids, 8 targets")
    );
    assert!(text(&[&["digest", &config, "-n", "1"][..], &settings].concat()).contains("  1 batch, 8 tokens"));
    assert!(
        text(&[&["bench", "loader", &config, "-n", "1"][..], &settings].concat())
            .starts_with("1 batch, 8 tokens; ")
    );
}

#[test]
fn mistakes_are_one_line_and_an_exit_code() {
    let (code, error) = failure(&["digest"]);
    assert_eq!(code, 2);
    assert!(error.contains("<CONFIG>"), "{error}");
    assert_eq!(failure(&["grind", TINY]).0, 2);

    let (code, error) = failure(&["bench", "loader", TINY, "--set", "pipeline.windw=3"]);
    assert_eq!(
        (code, error.as_str()),
        (2, "error: --set pipeline.windw=3: pipeline.windw: unknown key `windw`; did you mean `window`?")
    );

    let (code, error) = failure(&["train", TINY, "--set", "source.0.paths=[\"nowhere/*.txt\"]"]);
    assert_eq!(code, 1);
    assert!(error.contains("nowhere/*.txt") && error.contains("source.0.paths"), "{error}");

    let (code, error) = failure(&["bench", "loader", "configs/absent.toml"]);
    assert_eq!(code, 1);
    assert!(error.starts_with("error: configs/absent.toml: cannot read the config: No such file"), "{error}");

    let shards = ["--set", "source=[{ kind = \"shards\", paths = [\"nowhere\"] }]"];
    for command in [&["bench", "tokenizer", TINY][..], &["tokenizer", "check", TINY]] {
        let (code, error) = failure(&[command, &shards].concat());
        let problem = format!(
            "error: --set {}: source.0.kind: token shards have no text to encode; name the text that they were made of",
            shards[1]
        );
        assert_eq!((code, error), (1, problem));
    }
}

#[test]
fn the_help_of_the_program_is_one_screen() {
    let help = text(&["-h"]);
    assert!((24..=32).contains(&help.lines().count()), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    for group in ["Begin:", "Train:", "Prepare data:", "Look, prove and measure:", "Options:"] {
        assert!(help.lines().any(|line| line == group), "{group}: {help}");
    }
    let long = text(&["--help"]);
    assert!(long.contains("\n  completions  ") && long.contains("Exit codes: "), "{long}");
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        &["train"][..],
        &["report"],
        &["generate"],
        &["tokenizer", "train"],
        &["bench", "loader"],
        &["bench", "compare"],
        &["verify"],
        &["digest"],
        &["inspect"],
        &["cursor", "merge"],
    ] {
        let help = text(&[command, &["--help"]].concat());
        assert!(help.contains("Example") && help.contains("millstream "), "{help}");
    }
}

/// The losses that a run logged, by step.
fn losses(run: &Path) -> Vec<(u64, f64)> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let loss = |line: Value| Some((line["step"].as_u64()?, line["loss"].as_f64()?));
    lines(&metrics).into_iter().filter_map(loss).collect()
}

const TRAIN: [&str; 10] = [
    "--set", "train.trail_every=30", "--set", "train.log_every=1", "--set", "train.checkpoint_every=20",
    "--set", "train.sample_tokens=8", "--set", "train.steps=150",
];

#[test]
fn train_generate_and_resume_a_run_that_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = directory.path().join("whole");
    let killed = directory.path().join("killed");
    let stopped = directory.path().join("stopped");
    let out = |run: &Path| format!("train.out={}", run.display());
    let (whole_out, killed_out, stopped_out) = (out(&whole), out(&killed), out(&stopped));

    // Without an interruption: what the README says that a run leaves.
    let report = json(&[&["train", TINY, "--set", &whole_out][..], &TRAIN].concat());
    let (last, steps) = report.split_last().expect("lines");
    for (step, line) in steps.iter().filter(|line| line["loss"].is_number()).enumerate() {
        assert_eq!(line["step"].as_u64(), Some(step as u64 + 1));
        assert!(line["tokens_per_second"].as_f64().expect("a rate") > 0.0);
        assert!((0.0..=1.0).contains(&line["wait_share"].as_f64().expect("a share")));
    }
    for field in ["unigram_loss", "validation_loss", "tokens_per_second", "wait_share"] {
        assert!(last[field].is_number(), "{field} of {last}");
    }
    let number = |field: &str| last[field].as_f64().expect("a number");
    assert!(number("validation_loss") < number("unigram_loss"), "{last}");
    for name in ["config.toml", "tokenizer.json", "metrics.jsonl", "cursors.jsonl", "checkpoints"] {
        assert!(whole.join(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_dir(whole.join("checkpoints")).expect("checkpoints").count(), 2);
    let whole_losses = losses(&whole);
    assert_eq!(whole_losses.iter().map(|(step, _)| *step).collect::<Vec<_>>(), (1..=150).collect::<Vec<_>>());

    let generated = text(&["generate", whole.to_str().expect("a name"), "pub fn ", "--tokens", "16"]);
    assert!(generated.starts_with("pub fn "), "{generated}");
    assert_eq!(generated, text(&["generate", whole.to_str().expect("a name"), "pub fn ", "--tokens", "16"]));

    // A run in the same directory would overwrite it.
    let (code, error) = failure(&["train", TINY, "--set", &whole_out]);
    assert_eq!(code, 1);
    assert!(error.contains("--resume"), "{error}");

    // Killed without warning between two checkpoints.
    let arguments = [&["train", TINY, "--json", "--set", &killed_out][..], &TRAIN].concat();
    let mut child =
        millstream(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let reader = BufReader::new(child.stdout.take().expect("its output"));
    for line in reader.lines() {
        if lines(&line.expect("a line"))[0]["step"].as_u64() >= Some(67) {
            child.kill().expect("it dies");
            break;
        }
    }
    child.wait().expect("it is dead");
    text(&["train", "--resume", killed.to_str().expect("a name"), "--json"]);
    assert_eq!(losses(&killed), whole_losses);

    // Its trail leads to any batch, without reading from the start.
    let inspect = |out: &str| run(&["inspect", TINY, "--batch", "134", "--json", "--set", out]);
    let mut logged = millstream(&["inspect", TINY, "--batch", "134", "--json", "--set", &killed_out]);
    let logged = logged.env("RUST_LOG", "info").output().expect("it runs");
    assert_eq!(logged.stdout, inspect("train.out=nowhere").stdout);
    assert!(String::from_utf8_lossy(&logged.stderr).contains("opened at a cursor batch=120"), "{logged:?}");

    // Asked to stop: it saves, says how to go on, and exits as interrupted.
    #[cfg(unix)]
    {
        let arguments = [&["train", TINY, "--json", "--set", &stopped_out][..], &TRAIN].concat();
        let stop = || {
            let mut child = start(&arguments);
            let mut reader = BufReader::new(child.stdout.take().expect("its output")).lines();
            for line in reader.by_ref() {
                if lines(&line.expect("a line"))[0]["step"].as_u64() >= Some(33) {
                    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
                    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is asked");
                    break;
                }
            }
            reader.by_ref().for_each(drop);
            child.wait_with_output().expect("it ends")
        };
        let mut output = stop();
        // It may have been done before it was asked.
        for _ in 0..10 {
            if output.status.code() != Some(0) {
                break;
            }
            std::fs::remove_dir_all(&stopped).expect("removed");
            output = stop();
        }
        assert_eq!(output.status.code(), Some(130));
        let said = String::from_utf8_lossy(&output.stderr);
        let hint = format!(" train --resume {}", stopped.display());
        assert!(said.contains(&hint), "{said}");
        assert!(losses(&stopped).len() < 150);
        text(&["train", "--resume", stopped.to_str().expect("a name"), "--json"]);
        assert_eq!(losses(&stopped), whole_losses);
    }
}

#[test]
fn each_digest_has_the_number_of_its_batch() {
    let excluded = ["digest", TINY, "-n", "3", "--each", "--set", "exclude.batches=[[1,3]]"];
    let lines = json(&excluded);
    let numbers: Vec<_> = lines.iter().filter_map(|line| line["batch"].as_u64()).collect();
    assert_eq!(numbers, [0, 3, 4]);
    // The batches that are left are those of a run without exclusions.
    let all = json(&["digest", TINY, "-n", "5", "--each"]);
    assert_eq!(&lines[..3], [&all[0..1], &all[3..5]].concat());
}

#[test]
fn a_cursor_of_a_token_budget_counts_no_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let cursor = directory.path().join("cursor.json").display().to_string();
    let rows_of = |settings: &[&str]| {
        text(&[&["digest", TINY, "-n", "3", "--cursor-at", "3", &cursor], settings].concat());
        (
            json(&["cursor", "show", &cursor])[0]["sources"][0]["rows"].clone(),
            text(&["cursor", "show", &cursor]),
        )
    };
    let (rows, said) = rows_of(&[]);
    assert_eq!(rows, 24);
    assert!(said.contains(": 24 rows, 0 skipped, epoch 0; "), "{said}");
    let (rows, said) = rows_of(&["--set", "pipeline.batch_tokens=128"]);
    assert!(rows.is_null(), "{rows}");
    assert!(!said.contains(" rows") && said.contains(": 0 skipped, epoch 0; "), "{said}");
}
