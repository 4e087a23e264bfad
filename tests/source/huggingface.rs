//! Directories as the Hugging Face libraries leave them; `tests/data/make_huggingface.py` made these.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use millstream::config::{SourceConfig, SourceKind};
use millstream::{LaneCursor, Result, Source};

use crate::corpus::Corpus;

fn config(directory: &str) -> SourceConfig {
    SourceConfig {
        kind: SourceKind::Huggingface,
        paths: vec![format!("{}/tests/data/huggingface/{directory}", env!("CARGO_MANIFEST_DIR"))],
        field: Some("text".to_owned()),
        ..SourceConfig::default()
    }
}

/// A dataset that a test made.
fn made(corpus: &Corpus, directory: &str) -> SourceConfig {
    SourceConfig { paths: vec![corpus.path(directory)], ..config("") }
}

/// A README with one subset, which has these settings.
fn card(settings: &str) -> String {
    format!("---\nconfigs:\n- config_name: default\n{settings}---\n")
}

fn texts(config: &SourceConfig) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let source = Source::open(std::slice::from_ref(config)).await?;
        let documents = source.documents(&LaneCursor::default());
        documents.map_ok(|document| document.value.text().to_owned()).try_collect().await
    })
}

fn part(config: SourceConfig, part: &str) -> SourceConfig {
    SourceConfig { part: Some(part.to_owned()), ..config }
}

fn subset(config: SourceConfig, subset: &str) -> SourceConfig {
    SourceConfig { subset: Some(subset.to_owned()), ..config }
}

/// The rows that the script made.
fn rows(name: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{name} text {i}, “quoted”\nand a second line")).collect()
}

#[test]
fn what_was_saved_to_disk() {
    assert_eq!(texts(&config("saved")).expect("no error"), rows("saved", 25));
    assert_eq!(texts(&config("saved_parts")).expect("no error"), rows("train", 12));
    assert_eq!(texts(&part(config("saved_parts"), "test")).expect("no error"), rows("test", 5));
}

#[test]
fn a_snapshot_of_a_cache_whose_files_are_links() {
    let snapshot = || config("cache/snapshots/0a1b");
    assert_eq!(texts(&snapshot()).expect("no error"), [rows("train a", 6), rows("train b", 6)].concat());
    assert_eq!(texts(&part(snapshot(), "test")).expect("no error"), rows("test", 6));
    assert_eq!(texts(&config("cache")).expect("no error"), texts(&snapshot()).expect("no error"));
}

#[test]
fn a_readme_says_which_files_are_which() {
    let listed = || config("listed");
    let train = [rows("en a", 3), rows("en b", 3)].concat();
    assert_eq!(texts(&listed()).expect("no error"), train);
    assert_eq!(texts(&subset(listed(), "en")).expect("no error"), train);
    assert_eq!(texts(&part(listed(), "validation")).expect("no error"), rows("en held", 2));
    assert_eq!(texts(&subset(listed(), "de")).expect("no error"), rows("de", 4));
}

#[test]
fn names_say_it_where_nothing_else_does() {
    assert_eq!(texts(&config("plain")).expect("no error"), rows("train", 3));
    assert_eq!(texts(&part(config("plain"), "validation")).expect("no error"), rows("dev", 2));
    assert_eq!(texts(&config("tables")).expect("no error"), rows("csv", 4));
    assert_eq!(texts(&subset(config("tables"), "default")).expect("no error"), rows("csv", 4));
    assert_eq!(texts(&part(config("shards"), "train_b")).expect("no error"), rows("train b", 2));
}

/// A directory as `tests/data/make_layouts.py` describes it.
#[derive(serde::Deserialize)]
struct Layout {
    /// The text of each file is its own path.
    files: Vec<String>,
    readme: Option<String>,
    subset: Option<String>,
    parts: BTreeMap<String, BTreeSet<String>>,
}

#[test]
fn parts_have_the_files_that_the_datasets_library_finds() {
    for layout in include_str!("../data/layouts.jsonl").lines() {
        let layout: Layout = serde_json::from_str(layout).expect("a layout");
        let corpus = Corpus::new([("set/README.md", layout.readme.as_deref().unwrap_or(""))]);
        for path in &layout.files {
            let name = path.rsplit_once('/').map_or(&path[..], |(_, name)| name).to_lowercase();
            let has = |ending: &str| name.split('.').skip(1).any(|other| other == ending);
            let text = match () {
                () if has("csv") || has("tsv") => format!("text\n{path}\n"),
                () if has("json") || has("jsonl") || has("ndjson") => format!("{{\"text\": {path:?}}}\n"),
                () => format!("{path}\n"),
            };
            corpus.write(format!("set/{path}"), text);
        }
        let set = SourceConfig { subset: layout.subset.clone(), ..made(&corpus, "set") };
        for name in ["train", "validation", "test"].into_iter().chain(layout.parts.keys().map(String::as_str))
        {
            let found = texts(&part(set.clone(), name));
            match layout.parts.get(name) {
                Some(wanted) => {
                    let found: BTreeSet<String> = found.expect("texts").into_iter().collect();
                    assert_eq!(&found, wanted, "{name} of {:?}", layout.files);
                }
                None => {
                    let error = found.expect_err("no such part").to_string();
                    let problem = format!("there is no part {name:?}; it has ");
                    let (_, there) = error.split_once(&problem).expect("what there is");
                    let there: BTreeSet<&str> = there.split(", ").collect();
                    let parts: BTreeSet<&str> = layout.parts.keys().map(String::as_str).collect();
                    assert_eq!(there, parts, "{:?}", layout.files);
                }
            }
        }
    }
}

#[test]
fn what_is_not_there_is_named_beside_what_is() {
    let refusals = [
        (
            part(config("saved_parts"), "dev"),
            "source.0.part: ",
            "there is no part \"dev\"; it has train, test",
        ),
        (
            part(config("listed"), "test"),
            "source.0.part: ",
            "there is no part \"test\"; it has train, validation",
        ),
        (subset(config("tables"), "fr"), "source.0.paths: ", "tables/fr holds no data files"),
        (subset(config("listed"), "fr"), "source.0.subset: ", "there is no subset \"fr\"; it has en, de"),
        (
            part(config("plain"), "test"),
            "source.0.part: ",
            "there is no part \"test\"; it has train, validation",
        ),
        (
            part(config("shards"), "dev"),
            "source.0.part: ",
            "there is no part \"dev\"; it has train_a, train_b",
        ),
        (config("cache/blobs"), "source.0.paths: ", "holds no data files"),
        (config("nowhere"), "source.0.paths: ", "it is not a directory"),
    ];
    for (config, key, problem) in refusals {
        let error = texts(&config).expect_err("a refusal").to_string();
        assert!(error.starts_with(key) && error.contains(problem), "{error}");
    }
}

#[test]
fn files_that_a_readme_lists_have_one_format() {
    let corpus = Corpus::new([
        ("set/a.jsonl", "{\"text\": \"one\"}\n"),
        ("set/b.txt", "two\n"),
        ("set/README.md", &card("  data_files: [a.jsonl, b.txt]\n")),
    ]);
    let error = texts(&made(&corpus, "set")).expect_err("refused").to_string();
    assert!(error.ends_with("its files are of several formats: jsonl, text; name some of them"), "{error}");
}

#[test]
fn a_readme_names_only_what_is_below_its_directory() {
    let corpus = Corpus::new([
        ("secret.jsonl", "{\"text\": \"outside\"}\n"),
        ("set/data/own.jsonl", "{\"text\": \"inside\"}\n"),
    ]);
    let refused = |path: &str, settings: &str| {
        corpus.write("set/README.md", card(settings));
        let error = texts(&made(&corpus, "set")).expect_err("refused").to_string();
        let wanted = format!(
            "source.0.paths: {}: README.md: {path:?} is not a path within its directory; correct its front matter, \
             or name the files one by one",
            corpus.path("set")
        );
        assert_eq!(error, wanted);
    };
    let absolute = corpus.path("secret.jsonl");
    for path in ["../secret.jsonl", "data/../../secret.jsonl", "../*.jsonl", &absolute, ""] {
        refused(path, &format!("  data_files: {path:?}\n"));
        refused(path, &format!("  data_files:\n  - split: train\n    path: [{path:?}]\n"));
    }
    refused("..", "  data_dir: \"..\"\n");
    refused("data/../..", "  data_dir: data/../..\n  data_files: secret.jsonl\n");
    for settings in ["  data_files: ./data/*.jsonl\n", "  data_dir: data/\n"] {
        corpus.write("set/README.md", card(settings));
        assert_eq!(texts(&made(&corpus, "set")).expect("no error"), ["inside"], "{settings}");
    }
}

#[test]
fn what_was_saved_lies_below_its_directory() {
    let corpus = Corpus::new([("secret.jsonl", "{\"text\": \"outside\"}\n")]);
    let absolute = corpus.path("secret.jsonl");
    for name in ["../secret.jsonl", &absolute] {
        corpus.write("set/state.json", format!("{{\"_data_files\": [{{\"filename\": {name:?}}}]}}"));
        let error = texts(&made(&corpus, "set")).expect_err("refused").to_string();
        let state = corpus.path("set/state.json");
        let wanted = format!("{state}: {name:?} is not a path within its directory; get the dataset again");
        assert_eq!(error, wanted);
    }
}

#[test]
fn a_cache_names_one_of_its_snapshots() {
    let corpus = Corpus::new([
        ("outside/train.jsonl", "{\"text\": \"outside\"}\n"),
        ("hub/snapshots/0a1b/train.jsonl", "{\"text\": \"inside\"}\n"),
    ]);
    let absolute = corpus.path("outside");
    for name in ["../../outside", &absolute, "..", ".", ""] {
        corpus.write("hub/refs/main", name);
        let error = texts(&made(&corpus, "hub")).expect_err("refused").to_string();
        let wanted = format!("{}: {name:?} is not the name of a snapshot; ", corpus.path("hub/refs/main"));
        assert!(error.starts_with(&wanted), "{error}");
    }
    corpus.write("hub/refs/main", "0a1b\n");
    assert_eq!(texts(&made(&corpus, "hub")).expect("no error"), ["inside"]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let corpus = Corpus::new([("data/a.jsonl", ""), ("data/b\u{fffd}.jsonl", "")]);
    std::fs::write(corpus.path("data/a.jsonl"), "{\"text\":\"one\"}\n").expect("a file");
    std::fs::write(corpus.path("data/b\u{fffd}.jsonl"), "{\"text\":\"two\"}\n").expect("a file");
    let odd = std::path::Path::new(&corpus.path("data")).join(std::ffi::OsStr::from_bytes(b"b\xff.jsonl"));
    std::fs::write(odd, "{\"text\":\"three\"}\n").expect("a file");
    let mut found = texts(&made(&corpus, "data")).expect("texts");
    found.sort();
    assert_eq!(found, ["one", "three", "two"]);
}

#[test]
fn names_of_files_have_no_variables() {
    let corpus = Corpus::new([
        ("secret.jsonl", "{\"text\": \"outside\"}\n"),
        ("set/${MILLSTREAM_NOWHERE:-..}/secret.jsonl", "{\"text\": \"inside\"}\n"),
    ]);
    assert_eq!(texts(&made(&corpus, "set")).expect("no error"), ["inside"]);
}

#[cfg(unix)]
#[test]
fn pipes_are_not_waited_for() {
    use crate::corpus::{in_time, pipe};

    for name in ["README.md", "dataset_dict.json", "state.json", "refs/main"] {
        let corpus = Corpus::new([
            ("set/train.jsonl", "{\"text\": \"one\"}\n"),
            ("set/refs/other", ""),
            ("set/snapshots/0a1b/train.jsonl", "{\"text\": \"two\"}\n"),
        ]);
        if name != "refs/main" {
            std::fs::remove_dir_all(corpus.path("set/snapshots")).expect("removed");
        }
        pipe(&corpus, &format!("set/{name}"));
        let config = made(&corpus, "set");
        let error = in_time(move || texts(&config)).expect_err("refused");
        assert_eq!(error.to_string(), format!("{}: cannot read", corpus.path(&format!("set/{name}"))));
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert_eq!(cause, "it is not a regular file");
    }
    // Pipes among the data.
    let corpus = Corpus::new([("set/train.jsonl", "{\"text\": \"one\"}\n")]);
    pipe(&corpus, "set/train-pipe.jsonl");
    assert_eq!(texts(&made(&corpus, "set")).expect("no error"), ["one"]);
    corpus.write("set/README.md", card("  data_files: \"*.jsonl\"\n"));
    assert_eq!(texts(&made(&corpus, "set")).expect("no error"), ["one"]);
    corpus.write("set/README.md", card("  data_files: train-pipe.jsonl\n"));
    let error = texts(&made(&corpus, "set")).expect_err("refused").to_string();
    assert!(error.contains("README.md: \"train-pipe.jsonl\" is a pipe, socket or device; "), "{error}");
}
