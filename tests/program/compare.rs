//! `millstream bench compare` as people and scripts run it.

use std::path::Path;

use crate::program::{TINY, failure, json, run, text};

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_way_delivers_the_same_ids() {
    let arguments = ["bench", "compare", TINY, "-n", "12", "--rounds", "2", "--consume-ms", "1"];
    let shapes = ["--batch-sizes", "2,8", "--seq-lens", "64", "--load-all", "--in-flight", "40"];
    let report = json(&[&arguments[..], &shapes].concat());

    let workloads = report["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), 2);
    for (workload, (rows, depth)) in workloads.iter().zip([(2, 20), (8, 5)]) {
        assert_eq!((&workload["batch_size"], &workload["depth"]), (&rows.into(), &depth.into()));
        let variants = workload["variants"].as_array().expect("variants");
        let ways: Vec<&str> = variants.iter().filter_map(|it| it["variant"].as_str()).collect();
        assert_eq!(ways, ["on_demand", "prefetch", "workers", "load_all"]);
        for variant in variants {
            assert_eq!(variant["tokens"], 12 * rows * 64);
            assert_eq!(variant["digest"], variants[0]["digest"]);
            assert_eq!(variant["rounds_tokens_per_second"].as_array().expect("rounds").len(), 2);
            assert!(variant["tokens_per_second"].as_f64().expect("a rate") > 0.0);
            assert!((0.0..=1.0).contains(&variant["wait_share"].as_f64().expect("a share")));
        }
    }
    assert_ne!(workloads[0]["variants"][0]["digest"], workloads[1]["variants"][0]["digest"]);
}

#[test]
fn the_table_has_a_row_for_each_way() {
    let arguments = ["bench", "compare", TINY, "-n", "4", "--rounds", "1", "--consume-ms", "0"];
    let table = text(&[&arguments[..], &["--batch-sizes", "2,8", "--load-all"]].concat());
    for way in ["no overlap", "prefetch  ", "prefetch and workers", "all in memory first"] {
        assert_eq!(table.matches(&format!(" | {way}")).count(), 2, "{way}: {table}");
    }
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert!(lines.len() == 2 + 8 && lines[1].starts_with("|---"), "{table}");
    assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
}

#[test]
fn what_no_overlap_delivers_is_what_the_loader_delivers() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let out = format!("train.out={}", at("run"));
    let learned = ["tokenizer", "train", TINY, "-o", &at("tokenizer.json")];
    assert!(run(&learned).status.success());
    let tokenizer = format!("tokenizer={{ path = {:?}, eos = \"<|endoftext|>\" }}", at("tokenizer.json"));
    let set = ["--set", &out, "--set", &tokenizer];
    let compare = ["bench", "compare", TINY, "-n", "5", "--rounds", "1", "--consume-ms", "0"];
    let report = json(&[&compare[..], &set].concat());
    assert_eq!(names(directory.path()), ["tokenizer.json"]);
    let cursor = at("cursor.json");
    assert!(
        run(&[&["digest", TINY, "-n", "5", "--cursor-at", "5", &cursor], &set[..]].concat()).status.success()
    );
    let cursor = json(&["cursor", "show", &cursor]);
    assert_eq!(report["workloads"][0]["variants"][0]["digest"], cursor["digest"]);
}

#[test]
fn the_model_is_trained_and_nothing_of_it_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = format!("train.out={}", directory.path().join("run").display());
    let report = json(&["bench", "compare", TINY, "--train", "-n", "3", "--rounds", "1", "--set", &out]);
    assert_eq!(report["takes"], "train");
    assert_eq!(report["workloads"][0]["variants"].as_array().expect("variants").len(), 3);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn what_cannot_be_compared_is_refused_with_its_cause() {
    let compare = |more: &[&str]| failure(&[&["bench", "compare", TINY], more].concat()).1;
    assert!(compare(&["--train", "--consume-ms", "5"]).contains("cannot be used with"));
    assert!(compare(&["--batch-sizes", "4,0"]).contains("invalid value '0'"));
    assert!(compare(&["--consume-ms=-1"]).contains("milliseconds"));
    assert_eq!(
        compare(&["-n", "1"]).lines().last().expect("a line"),
        "error: --batches: 1 leaves nothing to measure behind the first; it must be at least 2"
    );
    let stdin =
        ["source.0.paths=[\"-\"]", "source.0.document=\"line\"", "pipeline.lanes=1", "pipeline.epochs=1"];
    let stdin = stdin.map(|set| ["--set", set]).concat();
    assert!(compare(&stdin).contains("standard input comes only once; compare with files"));
    let error = compare(&["--batch-sizes", "2", "--set", "pack=1"]);
    assert!(error.contains("pack"), "{error}");
    // A child's error comes with its cause.
    let few = ["-n", "5000", "--set", "pipeline.epochs=1"];
    let error =
        compare(&[&few[..], &["--consume-ms", "0", "--set", "source.0.paths=[\"src/prelude.rs\"]"]].concat());
    assert!(error.contains("`no overlap` failed (exit status: 1): the stream ended after"), "{error}");
}

#[cfg(target_os = "linux")]
mod ends {
    use std::process::Stdio;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use crate::program::{TINY, millstream};
    use crate::support::wait::wait_for;

    fn child_of(parent: u32) -> Option<u32> {
        let path = format!("/proc/{parent}/task");
        let threads = std::fs::read_dir(path).ok()?.flatten();
        let children = threads.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
        children.flat_map(|it| it.split_whitespace().filter_map(|pid| pid.parse().ok()).next()).next()
    }

    /// Whether a process is there and does something.
    fn is_alive(pid: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    #[test]
    fn a_run_that_is_stopped_leaves_no_children() {
        for signal in [Signal::SIGINT, Signal::SIGKILL] {
            let arguments = ["bench", "compare", TINY, "-n", "1000000"];
            let mut parent =
                millstream(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
            let child = wait_for("a child", || child_of(parent.id()));
            kill(Pid::from_raw(parent.id() as i32), signal).expect("it is there");
            let status = parent.wait().expect("it ends");
            if signal == Signal::SIGINT {
                assert_eq!(status.code(), Some(130));
            }
            wait_for("the child's end", || (!is_alive(child)).then_some(()));
        }
    }
}
