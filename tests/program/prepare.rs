//! `millstream prepare` that is killed and run again, and several of it at once.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{failure, json, said, start, text as text_of};
use crate::support::wait::wait_for;

#[cfg(target_os = "linux")]
mod file_systems;

/// How many sources there are: each has a directory, and so segments that are whole long before all is.
const SOURCES: usize = 12;

/// Files of text, and configs that read them and what is prepared of them.
struct Case {
    directory: TempDir,
    tokenizer: &'static str,
}

impl Case {
    fn new(lines: usize, tokenizer: &'static str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let words = ["some", "words", "of", "text", "that", "is", "to", "be", "prepared"];
        let line = |n: usize| {
            (0..n % 23).map(|k| words[(n / 7 + k * k) % words.len()]).collect::<Vec<_>>().join(" ")
        };
        for source in 0..SOURCES {
            let text: String = (0..lines).map(|n| format!("{n} {}\n", line(n * SOURCES + source))).collect();
            std::fs::write(directory.path().join(format!("{source}.txt")), text).expect("a file");
        }
        Self { directory, tokenizer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a config whose sources are what `of` says of each.
    fn config(&self, name: &str, of: impl Fn(usize) -> String) -> String {
        let sources =
            (0..SOURCES).map(|source| format!("[[source]]\nname = \"s{source}\"\n{}\n", of(source)));
        let pipeline = "[pipeline]\nseq_len = 256\nbatch_size = 8\nlanes = 2\nepochs = 1\n";
        let text = format!("{}[tokenizer]\n{}\n{pipeline}", sources.collect::<String>(), self.tokenizer);
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    /// The config of the text, in splits of some length.
    fn text(&self, split: &str) -> String {
        let path = |source| self.path(&format!("{source}.txt"));
        self.config(&format!("{split}.toml"), |source| {
            format!("paths = [{:?}]\nsplit = {split:?}", path(source).display().to_string())
        })
    }

    /// The config of the shards in a directory.
    fn shards(&self, directory: &Path) -> String {
        let path = |source| directory.join(format!("s{source}"));
        self.config("shards.toml", |source| {
            format!("kind = \"shards\"\npaths = [{:?}]", path(source).display().to_string())
        })
    }
}

/// The digest of all batches.
fn digest(config: &str) -> Value {
    json(&["digest", config, "--batches", "1000000"])
}

/// How many whole segments there are.
fn segments(directory: &Path) -> usize {
    let all = |source: usize| std::fs::read_dir(directory.join(format!("s{source}"))).into_iter().flatten();
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "tokens");
    (0..SOURCES)
        .flat_map(all)
        .filter(|entry| entry.as_ref().is_ok_and(|entry| is_segment(&entry.path())))
        .count()
}

/// How many files there are that a process has begun.
fn unfinished(directory: &Path) -> usize {
    let all = |source: usize| std::fs::read_dir(directory.join(format!("s{source}"))).into_iter().flatten();
    let is_begun = |name: &str| name.starts_with(".writing-");
    let entries = (0..SOURCES).flat_map(all).flatten();
    entries.filter(|entry| is_begun(&entry.file_name().to_string_lossy())).count()
}

#[test]
fn what_a_kill_leaves_is_gone_when_it_goes_on() {
    let case = Case::new(12_000, "path = \"tests/data/tokenizers/unigram.json\"");
    let (text, out) = (case.text("64KiB"), case.path("killed"));
    let arguments = ["prepare", &text, "-o", out.to_str().expect("a name")];
    loop {
        let mut child = start(&arguments);
        wait_for("a file under way", || {
            let has_ended = child.try_wait().expect("it can be asked").is_some();
            (unfinished(&out) > 0 || has_ended).then_some(())
        });
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        if unfinished(&out) > 0 {
            break;
        }
        std::fs::remove_dir_all(&out).expect("removed");
    }
    json(&arguments);
    assert_eq!(unfinished(&out), 0);
    let again = text_of(&arguments);
    assert!(again.trim_end().ends_with("splits, nothing to do: all of them were there"), "{again}");
}

#[test]
fn an_interrupted_run_keeps_what_is_done_and_says_how_to_go_on() {
    [Signal::SIGINT, Signal::SIGUSR1].into_iter().for_each(interrupted);
}

fn interrupted(signal: Signal) {
    let case = Case::new(12_000, "path = \"tests/data/tokenizers/unigram.json\"");
    let (text, out) = (case.text("64KiB"), case.path("it's stopped"));
    let arguments = ["prepare", &text, "-o", out.to_str().expect("a name"), "--set", "pipeline.workers=1"];
    let output = loop {
        let mut child = start(&arguments);
        wait_for("a whole segment", || {
            let has_ended = child.try_wait().expect("it can be asked").is_some();
            (segments(&out) > 0 || has_ended).then_some(())
        });
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
        // One that is done first begins anew.
        let _ = kill(pid, signal);
        let output = child.wait_with_output().expect("it ends");
        if !output.status.success() {
            break output;
        }
        std::fs::remove_dir_all(&out).expect("removed");
    };
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_eq!(unfinished(&out), 0);
    let said = said(&output);
    let [.., done, how] = &said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(
        done.starts_with(&format!("{}: ", out.display())) && done.ends_with(" splits are done"),
        "{done}"
    );
    let words = shlex::split(how.strip_prefix("continue with: ").expect("a command")).expect("words");
    assert!(words.ends_with(&arguments.map(str::to_owned)), "{how}");
    let rest = json(&arguments);
    assert_eq!(rest["splits"], rest["of"]);
    assert_eq!(digest(&case.shards(&out)), digest(&text));
}

#[test]
fn processes_share_a_token_cache_and_may_be_killed_at_any_moment() {
    let case = Case::new(4000, "path = \"tests/data/tokenizers/unigram.json\"");
    let text = case.text("16KiB");
    let cache = case.path("cache");
    let cached = case.config("cached.toml", |source| {
        let path = case.path(&format!("{source}.txt")).display().to_string();
        format!(
            "paths = [{path:?}]\nsplit = \"16KiB\"\ncache = {{ path = {:?} }}",
            cache.display().to_string()
        )
    });
    let expected = digest(&text);
    let arguments = ["digest", &cached, "--batches", "1000000", "--json"];
    let begun = || {
        let directories = std::fs::read_dir(&cache).into_iter().flatten().flatten();
        let files =
            directories.flat_map(|directory| std::fs::read_dir(directory.path()).into_iter().flatten());
        files.flatten().filter(|file| file.file_name().to_string_lossy().starts_with(".writing-")).count()
    };
    let honest = [(); 2].map(|()| start(&arguments));
    for round in 0..4 {
        let mut victim = start(&arguments);
        wait_for("something of the run", || {
            let has_ended = victim.try_wait().expect("it can be asked").is_some();
            (begun() > 0 || has_ended).then_some(())
        });
        thread::sleep(Duration::from_millis(7 * round));
        victim.kill().expect("it is killed");
        victim.wait().expect("it ends");
    }
    for child in honest {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).expect("one object"), expected);
    }
    assert_eq!(digest(&cached), expected);
    assert_eq!(begun(), 0, "what the killed processes left is gone");
}

#[test]
fn shards_of_bytes_are_exported_without_a_file() {
    let case = Case::new(50, "kind = \"bytes\"");
    let (text, out, ids) = (case.text("2KiB"), case.path("shards"), case.path("ids.bin"));
    let prepared = json(&["prepare", &text, "-o", out.to_str().expect("a name")]);
    let export = |eos: &str| {
        [
            "export",
            out.to_str().expect("a name"),
            "--to",
            "nanogpt",
            "--eos",
            eos,
            "-o",
            ids.to_str().expect("a name"),
        ]
        .map(str::to_owned)
    };
    let (eos, space) = (export("<|endoftext|>"), export(" "));
    let done = json(&eos.each_ref().map(String::as_str));
    assert_eq!(done["documents"], prepared["documents"]);
    let bytes = std::fs::read(&ids).expect("a file");
    let ends = bytes.chunks(2).filter(|id| *id == 256_u16.to_le_bytes()).count();
    assert_eq!(prepared["documents"], ends);
    let (code, error) = failure(&space.each_ref().map(String::as_str));
    assert_eq!(code, 1);
    assert!(error.contains("documents contain the token that ends documents, the first at"), "{error}");
}

#[test]
fn ids_of_four_bytes_are_imported_as_they_were_exported() {
    const WORDS: usize = 70_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let vocab: serde_json::Map<String, Value> = (0..WORDS).map(|id| (format!("w{id}"), id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [{
            "id": WORDS, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        }],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "w0" },
    });
    std::fs::write(path("words.json"), tokenizer.to_string()).expect("a tokenizer");
    let line = |n: usize| format!("w{n} w{} w{}\n", WORDS - n, n * 700);
    std::fs::write(path("a.txt"), (1..100).map(line).collect::<String>()).expect("a text");
    let config = format!(
        "[[source]]\npaths = [{:?}]\n[tokenizer]\npath = {:?}\n[pipeline]\nseq_len = 64\nlanes = 1\n",
        path("a.txt"),
        path("words.json")
    );
    std::fs::write(path("run.toml"), config).expect("a config");
    let (shards, ids, tokenizer) = (path("shards"), path("ids.bin"), path("words.json"));
    let prepared = json(&["prepare", &path("run.toml"), "-o", &shards]);
    let exported = json(&["export", &shards, "--to", "nanogpt", "--eos", "<|end|>", "-o", &ids]);
    let import = ["import", &ids, "--from", "nanogpt", "--tokenizer", &tokenizer, "--eos", "<|end|>", "-o"];
    assert_eq!(json(&[&import[..], &[&*path("imported")]].concat()), exported);
    assert_eq!((&exported["documents"], &exported["tokens"]), (&prepared["documents"], &prepared["tokens"]));
    let again = path("again.bin");
    json(&["export", &path("imported"), "--to", "nanogpt", "--eos", "<|end|>", "-o", &again]);
    assert!(std::fs::read(&again).expect("ids") == std::fs::read(&ids).expect("ids"));
}

#[test]
fn killed_at_any_moment_it_goes_on_to_the_same_shards() {
    let case = Case::new(12_000, "path = \"tests/data/tokenizers/unigram.json\"");
    let text = case.text("64KiB");
    let whole = json(&["prepare", &text, "-o", case.path("whole").to_str().expect("a name")]);
    let out = case.path("killed");
    let arguments = ["prepare", &text, "-o", out.to_str().expect("a name")];

    // Before anything is whole, and then some time after there is more than before. What it does at that moment is left
    // to chance; whether it is killed in time is not: a run that was done first begins anew.
    let (mut killed, mut runs) = (0, 0);
    while killed < 4 {
        runs += 1;
        assert!(runs < 100, "no run is killed in time");
        let before = segments(&out);
        let mut child = start(&arguments);
        wait_for("something of the run", || {
            let has_ended = child.try_wait().expect("it can be asked").is_some();
            let is_seen = if killed == 0 { out.exists() } else { segments(&out) > before };
            (is_seen || has_ended).then_some(())
        });
        thread::sleep(Duration::from_millis(3 * killed));
        child.kill().expect("it is killed");
        match child.wait().expect("it ends").signal() {
            Some(9) => killed += 1,
            _ => {
                std::fs::remove_dir_all(&out).expect("removed");
                killed = 0;
            }
        }
    }
    let rest = json(&[&arguments[..], &["--verify"]].concat());
    assert_eq!(unfinished(&out), 0);
    assert!(
        rest["documents"].as_u64() < whole["documents"].as_u64(),
        "what was whole is passed over: {rest}"
    );
    assert_eq!((&rest["splits"], &rest["verified"]), (&whole["splits"], &Value::from(true)));
    assert_eq!(digest(&case.shards(&out)), digest(&text));
}

#[test]
fn a_second_process_is_refused_until_the_first_ends() {
    let case = Case::new(12_000, "path = \"tests/data/tokenizers/unigram.json\"");
    let (text, out) = (case.text("64KiB"), case.path("both"));
    let arguments = ["prepare", &text, "-o", out.to_str().expect("a name")];
    let lock = out.join("s0").join(".lock");
    // The first stands still while the second runs. One that was done before that begins anew.
    let first = loop {
        let mut first = start(&arguments);
        let pid = Pid::from_raw(i32::try_from(first.id()).expect("a number"));
        wait_for("the lock", || {
            let has_ended = first.try_wait().expect("it can be asked").is_some();
            let is_locked = std::fs::read_to_string(&lock).is_ok_and(|text| text.trim() == pid.to_string());
            (is_locked || has_ended).then_some(())
        });
        if first.try_wait().expect("it can be asked").is_none() && kill(pid, Signal::SIGSTOP).is_ok() {
            break first;
        }
        std::fs::remove_dir_all(&out).expect("removed");
    };
    let expected = format!(
        "error: {}: another process (pid {}) writes token shards there; wait until it ends, or use another directory",
        out.join("s0").display(),
        first.id()
    );
    assert_eq!(failure(&arguments), (1, expected));
    kill(Pid::from_raw(i32::try_from(first.id()).expect("a number")), Signal::SIGCONT).expect("it is there");
    let first = first.wait_with_output().expect("it ends");
    assert!(first.status.success(), "{}", said(&first));
    // The lock is free again, whatever its file says.
    assert_eq!(json(&arguments)["documents"], 0);
    assert_eq!(digest(&case.shards(&out)), digest(&text));
}

#[test]
fn of_two_configs_at_once_one_is_refused() {
    let case = Case::new(300, "kind = \"bytes\"");
    let configs = [case.text("2KiB"), case.text("3KiB")];
    for round in 0..8 {
        let out = case.path(&format!("race{round}"));
        let both =
            configs.each_ref().map(|text| start(&["prepare", text, "-o", out.to_str().expect("a name")]));
        let both = both.map(|child| child.wait_with_output().expect("it ends"));
        let won = both.iter().position(|output| output.status.success()).expect("one is prepared");
        let lost = &both[1 - won];
        assert_eq!(lost.status.code(), Some(1), "both say that it is theirs");
        let refusals = ["it has the tokens of", "writes token shards there"];
        assert!(refusals.iter().any(|refusal| said(lost).contains(refusal)), "{}", said(lost));
        assert_eq!(digest(&case.shards(&out)), digest(&configs[won]));
    }
}
