//! Which files a pattern finds: names of any bytes, directories that cannot be read, and links.

#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use millstream::config::SourceConfig;
use millstream::{Cursor, LaneCursor, Source};

use crate::corpus::{Corpus, all, in_time, open, pipe, run, texts};

fn source(corpus: &Corpus, patterns: &[&str]) -> SourceConfig {
    let paths = patterns.iter().map(|pattern| corpus.path(pattern)).collect();
    SourceConfig { paths, ..SourceConfig::default() }
}

/// The documents of the files that the patterns match, and those files' names.
fn found(corpus: &Corpus, patterns: &[&str]) -> (Vec<String>, Vec<String>) {
    run(async {
        let source = open(&source(corpus, patterns)).await;
        let seen = all(source.documents(&LaneCursor::default())).await;
        let directory = corpus.path("");
        let name = |path: &Path| path.strip_prefix(&directory).expect("in it").display().to_string();
        let names = source.files().iter().map(|file| name(file.path())).collect();
        (texts(&seen).into_iter().map(str::to_owned).collect(), names)
    })
}

fn link(corpus: &Corpus, to: &str, name: &str) {
    symlink(corpus.path(to), corpus.path(name)).expect("a link");
}

#[test]
fn a_name_that_is_no_utf8_is_read() {
    let corpus = Corpus::new([("a/b.txt", "one\n")]);
    let odd = Path::new(&corpus.path("a")).join(OsStr::from_bytes(b"c\xff.txt"));
    if fs::write(&odd, "two\n").is_err() {
        crate::support::skip::skipped("a_name_that_is_no_utf8_is_read", "no such names here");
        return;
    }
    fs::create_dir(Path::new(&corpus.path("a")).join(OsStr::from_bytes(b"\xfe"))).expect("a directory");
    fs::write(Path::new(&corpus.path("a")).join(OsStr::from_bytes(b"\xfe/d.txt")), "three\n")
        .expect("a file");
    for pattern in ["a/**/*.txt", "**/*.txt"] {
        assert_eq!(found(&corpus, &[pattern]).0, ["one", "two", "three"], "{pattern}");
    }
    assert_eq!(found(&corpus, &["*/*.txt"]).0, ["one", "two"]);
    assert_eq!(found(&corpus, &["a/*/d.txt"]).0, ["three"]);
    // Names that differ only there are different files.
    let summary = || run(Source::open(&[source(&corpus, &["a/*.txt"])])).expect("a source").summary();
    let was = summary();
    fs::rename(&odd, odd.with_file_name(OsStr::from_bytes(b"c\xfd.txt"))).expect("renamed");
    assert_ne!(summary(), was);
}

#[test]
fn two_stars_at_the_end_are_every_file_below() {
    let corpus = Corpus::new([("a/x.txt", "one\n"), ("a/b/c/y.txt", "two\n"), ("z.txt", "three\n")]);
    assert_eq!(found(&corpus, &["a/**"]).1, ["a/b/c/y.txt", "a/x.txt"]);
    assert_eq!(found(&corpus, &["**"]).1, ["a/b/c/y.txt", "a/x.txt", "z.txt"]);
}

#[test]
fn what_is_hidden_is_read_only_if_a_pattern_names_it() {
    let corpus = Corpus::new([
        ("a/x.txt", "one\n"),
        ("a/.y.txt", "two\n"),
        ("a/.ipynb_checkpoints/x.txt", "three\n"),
        ("a/.ipynb_checkpoints/.z/x.txt", "four\n"),
    ]);
    for pattern in ["**", "**/*", "**/*.txt", "a/**/x.txt", "*/*", "a/[.x]*", "a/*"] {
        assert_eq!(found(&corpus, &[pattern]).1, ["a/x.txt"], "{pattern}");
    }
    assert_eq!(found(&corpus, &["a/.*"]).1, ["a/.y.txt"]);
    assert_eq!(found(&corpus, &["**/.y.txt"]).1, ["a/.y.txt"]);
    assert_eq!(found(&corpus, &["**/.ipynb*/**"]).1, ["a/.ipynb_checkpoints/x.txt"]);
    assert_eq!(found(&corpus, &["a/.ipynb_checkpoints/.z/*"]).1, ["a/.ipynb_checkpoints/.z/x.txt"]);
}

#[test]
fn braces_stand_for_several_paths() {
    let corpus = Corpus::new((7..12).map(|n| (format!("n/{n:03}.txt"), format!("{n}\n"))).chain([
        ("a/x.txt".to_owned(), "one\n".to_owned()),
        ("b/x.md".to_owned(), "two\n".to_owned()),
        ("{a,b}/x.txt".to_owned(), "three\n".to_owned()),
    ]));
    assert_eq!(found(&corpus, &["n/{008..010}.txt"]).1, ["n/008.txt", "n/009.txt", "n/010.txt"]);
    assert_eq!(found(&corpus, &["{a/*.txt,b/x.{md,md}}"]).1, ["a/x.txt", "b/x.md"]);
    assert_eq!(found(&corpus, &["[{]a,b}/x.txt"]).1, ["{a,b}/x.txt"]);
    // Each of them has to be there.
    let error =
        run(Source::open(&[source(&corpus, &["n/{008..013}.txt"])])).expect_err("refused").to_string();
    assert!(error.contains(&corpus.path("n/012.txt")) && error.contains("source.0.paths"), "{error}");
    let error = run(Source::open(&[source(&corpus, &["{1..10000000}"])])).expect_err("refused").to_string();
    assert!(error.starts_with("source.0.paths: ") && error.contains("more than 1000000 paths"), "{error}");
}

#[test]
fn a_link_to_a_directory_around_it_adds_nothing() {
    let corpus = Corpus::new([("a/x.txt", "one\n"), ("a/b/y.txt", "two\n")]);
    link(&corpus, "a", "a/self");
    link(&corpus, "a", "a/b/up");
    link(&corpus, "", "a/b/top");
    assert_eq!(
        found(&corpus, &["a/**/*.txt"]),
        (texts_of(&["two", "one"]), texts_of(&["a/b/y.txt", "a/x.txt"]))
    );
    assert_eq!(found(&corpus, &["**/x.txt"]), (texts_of(&["one"]), texts_of(&["a/x.txt"])));
}

fn texts_of(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn directories_that_link_to_each_other_are_read_once_each() {
    let corpus = Corpus::new([("a/x.txt", "one\n"), ("b/y.txt", "two\n")]);
    for (to, name) in [("b", "a/b"), ("a", "b/a"), ("b", "a/again"), ("a", "b/again")] {
        link(&corpus, to, name);
    }
    assert_eq!(found(&corpus, &["**/*.txt"]).1, ["a/x.txt", "b/y.txt"]);
    // From one of them, the other one's files are found through the link.
    assert_eq!(found(&corpus, &["a/**/*.txt"]).1, ["a/again/y.txt", "a/x.txt"]);
}

#[test]
fn a_file_is_read_once_whatever_leads_to_it() {
    let corpus = Corpus::new([("data/x.txt", "one\n"), ("data/y.txt", "two\n"), ("other/z.txt", "three\n")]);
    link(&corpus, "data", "a-link");
    link(&corpus, "data/x.txt", "data/a.txt");
    link(&corpus, "data/y.txt", "other/linked.txt");
    let direct = ["data/x.txt", "data/y.txt", "other/z.txt"];
    assert_eq!(found(&corpus, &["**/*.txt"]).1, direct, "the path without a link counts");
    assert_eq!(found(&corpus, &["*/*.txt"]).1, direct);
    assert_eq!(found(&corpus, &["a-link/*.txt", "data/*.txt", "other/z.txt"]).1, direct);
    assert_eq!(found(&corpus, &["a-link/*.txt"]).1, ["a-link/x.txt", "a-link/y.txt"]);
    assert_eq!(found(&corpus, &["other/*.txt"]).1, ["other/linked.txt", "other/z.txt"]);
    // Two sources may read the same files.
    let both =
        run(Source::open(&[source(&corpus, &["data/*"]), source(&corpus, &["a-link/*"])])).expect("opened");
    assert_eq!(both.files().len(), 4);
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let corpus = Corpus::new([("a/x.txt", "one\n")]);
    link(&corpus, "gone", "a/y.txt");
    let error = run(Source::open(&[source(&corpus, &["a/*.txt"])])).expect_err("refused");
    assert_eq!(error.to_string(), format!("{}: cannot look at the file", corpus.path("a/y.txt")));
    // Where only directories are looked for, nothing can be behind it.
    link(&corpus, "gone", "b");
    assert_eq!(found(&corpus, &["*/x.txt"]).1, ["a/x.txt"]);
}

#[test]
fn pipes_are_skipped_by_wildcards_and_refused_by_name() {
    let corpus = Corpus::new([("sp/a.txt", "one\n")]);
    pipe(&corpus, "sp/f.txt");
    assert_eq!(found(&corpus, &["sp/*.txt"]).1, ["sp/a.txt"]);
    link(&corpus, "sp/f.txt", "link.txt");
    for name in ["sp/f.txt", "link.txt"] {
        let error = run(Source::open(&[source(&corpus, &["sp/a.txt", name])])).expect_err("refused");
        let wanted = format!(
            "{}: it is a pipe, socket or device; only files can be read more than once: copy it to a file, \
             or use \"-\" for standard input",
            corpus.path(name)
        );
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn a_cursor_may_come_through_a_pipe() {
    let corpus = Corpus::new([("a.txt", "one\n")]);
    let saved = corpus.path("saved.json");
    Cursor::default().save(&saved).expect("saved");
    pipe(&corpus, "cursor.json");
    let path = corpus.path("cursor.json");
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, std::fs::read(saved).expect("it is there")).expect("written")
    });
    assert_eq!(in_time(move || Cursor::load(path)).expect("a cursor"), Cursor::default());
    writer.join().expect("it wrote");
}
