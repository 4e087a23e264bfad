//! Which files of a repository are which: as the `datasets` library finds them there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use super::cache::python;
use super::{STORIES, World, ordered, source, stories};
use crate::program::said;
use crate::support::torch;

/// A directory as `tests/data/make_layouts.py` describes it.
#[derive(Deserialize)]
struct Layout {
    files: Vec<String>,
    #[serde(default)]
    readme: String,
    subset: Option<String>,
    parts: BTreeMap<String, BTreeSet<String>>,
}

/// Some text in the format of a file's name.
fn content(path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name).to_lowercase();
    let has = |ending: &str| name.split('.').skip(1).any(|other| other == ending);
    match () {
        () if has("csv") || has("tsv") => format!("text\n{path}\n"),
        () if has("json") || has("jsonl") || has("ndjson") => format!("{{\"text\": {path:?}}}\n"),
        () => format!("{path}\n"),
    }
}

#[test]
fn parts_of_a_repository_have_the_files_that_the_datasets_library_finds() {
    let world = World::new();
    let (mut config, mut asked, mut expected) = (String::new(), vec!["files".to_owned()], Vec::new());
    for (number, layout) in include_str!("../../data/layouts.jsonl").lines().enumerate() {
        let layout: Layout = serde_json::from_str(layout).expect("a layout");
        let mut files: Vec<(&str, String)> =
            layout.files.iter().map(|path| (&**path, content(path))).collect();
        files.push(("README.md", layout.readme.clone()));
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
        for (nth, (part, wanted)) in layout.parts.iter().enumerate() {
            let repo = format!("me/set-{number}-{nth}");
            world.hub.commit(&format!("datasets/{repo}"), "main", &files);
            let subset =
                layout.subset.as_ref().map(|subset| format!("subset = {subset:?}\n")).unwrap_or_default();
            write!(
                config,
                "[[source]]\nkind = \"huggingface\"\nfield = \"text\"\nrepo = \"{repo}\"\npart = {part:?}\n{subset}"
            )
            .expect("a source");
            let subset = layout.subset.clone().unwrap_or_else(|| "-".to_owned());
            asked.extend([format!("datasets/{repo}"), subset, part.clone(), "-".to_owned()]);
            expected.push((repo, wanted.clone()));
        }
    }
    config += "[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 64\nbatch_size = 1\nepochs = 1\nlanes = 1\nuneven = \"pad\"\nlast = \"short\"\n";
    let output = world
        .command(&["inspect", &world.config(&config), "-n", "100000", "--json"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for batch in String::from_utf8_lossy(&output.stdout).lines() {
        let batch: Value = serde_json::from_str(batch).expect("a batch");
        for piece in batch["pieces"].as_array().expect("pieces") {
            let name =
                piece["path"].as_str().expect("a path").strip_prefix("hf://datasets/").expect("a name");
            let (repo, rest) = name.split_once('@').expect("a commit");
            let (_, path) = rest.split_once('/').expect("a path");
            found.entry(repo.to_owned()).or_default().insert(path.to_owned());
        }
    }
    for (repo, wanted) in &expected {
        assert_eq!(found.get(repo), Some(wanted), "{repo}");
    }
    let Some(interpreter) =
        torch::python("parts_of_a_repository_have_the_files_that_the_datasets_library_finds")
    else {
        return;
    };
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let theirs = python(&world, &interpreter, &asked);
    for ((repo, wanted), theirs) in expected.iter().zip(theirs.as_array().expect("lists")) {
        let theirs: BTreeSet<String> = serde_json::from_value(theirs.clone()).expect("paths");
        assert_eq!(&theirs, wanted, "{repo}");
    }
}

#[test]
fn a_readme_lists_files_as_the_datasets_library_reads_it() {
    let world = World::new();
    // A byte order mark, and a pattern that matches a directory which is not data.
    let readme = "\u{feff}---\nconfigs:\n- config_name: default\n  data_files: \"data/**/*.jsonl\"\n---\n";
    let file = |mark| stories(mark, 0, 20);
    let files = [
        ("README.md", readme.to_owned()),
        ("data/a.jsonl", file("wanted")),
        ("data/__pycache__/b.jsonl", file("special")),
        ("c.jsonl", file("unlisted")),
    ];
    world.hub.commit(STORIES, "main", &files.each_ref().map(|(path, text)| (*path, text.as_bytes())));
    let whole = "[[source]]\nkind = \"huggingface\"\nfield = \"text\"\nrepo = \"me/stories\"\n";
    let expected = world.digest(&ordered(&source("").replace("data/*.jsonl", "data/a.jsonl")), &[]);
    assert_eq!(world.digest(&ordered(whole), &[]), expected);
    // The same on this machine.
    let here = world.home.path().join("snapshot");
    for (path, text) in &files {
        std::fs::create_dir_all(here.join(path).parent().expect("a directory")).expect("a directory");
        std::fs::write(here.join(path), text).expect("a file");
    }
    let whole = whole.replace("repo = \"me/stories\"", &format!("paths = [\"{}\"]", here.display()));
    assert_eq!(world.digest(&ordered(&whole), &[]), expected);
    let Some(interpreter) = torch::python("a_readme_lists_files_as_the_datasets_library_reads_it") else {
        return;
    };
    let theirs = python(&world, &interpreter, &["files", STORIES, "-", "-", "-"]);
    assert_eq!(theirs, serde_json::json!([["data/a.jsonl"]]));
}
