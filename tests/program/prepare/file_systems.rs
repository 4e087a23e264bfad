//! File systems that refuse what others give: names, maps, writing.

use std::path::Path;

use serde_json::Value;

use super::{Case, digest};
use crate::program::{json, millstream, said};
use crate::support::faults::inject;

/// Errors, as Linux numbers them.
const EPERM: i32 = 1;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const EDQUOT: i32 = 122;

const BYTES: &str = "kind = \"bytes\"";

/// What a command prints under faults, and what it says.
fn under(faults: &[(&str, &str, i32)], arguments: &[&str]) -> (Value, String) {
    let mut command = millstream(&[arguments, &["--json"]].concat());
    inject(&mut command, faults);
    command.env("FAULTS_RENAMEAT2", ENOSYS.to_string()).env("RUST_LOG", "info");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    (serde_json::from_slice(&output.stdout).expect("one object"), said(&output))
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name")
}

#[test]
fn shards_are_made_where_files_have_one_name_and_are_never_replaced_by_chance() {
    let case = Case::new(300, BYTES);
    let (text, out) = (case.text("2KiB"), case.path("out"));
    let faults = [("link", "out", EPERM)];
    let prepare = ["prepare", &text, "-o", name(&out)];
    let (made, _) = under(&faults, &prepare);
    assert_eq!(made["splits"], made["of"]);
    assert_eq!(digest(&case.shards(&out)), digest(&text));
    let manifest = std::fs::read(out.join("s0/manifest.json")).expect("a manifest");
    under(&faults, &prepare);
    assert_eq!(std::fs::read(out.join("s0/manifest.json")).expect("a manifest"), manifest);
}

#[test]
fn shards_are_read_where_maps_are_not_shared_or_not_there() {
    let case = Case::new(300, BYTES);
    let (text, out) = (case.text("2KiB"), case.path("out"));
    json(&["prepare", &text, "-o", name(&out)]);
    let shards = case.shards(&out);
    let digested = ["digest", &shards, "--batches", "1000000"];
    let expected = digest(&text);
    let shared = ("mmap_shared", "/out/", ENODEV);
    assert_eq!(under(&[shared], &digested).0, expected);
    assert_eq!(under(&[shared, ("mmap_private", "/out/", ENODEV)], &digested).0, expected);
}

#[test]
fn shards_are_verified_where_nothing_can_be_written() {
    let case = Case::new(300, BYTES);
    let (text, out) = (case.text("2KiB"), case.path("out"));
    let prepare = ["prepare", &text, "-o", name(&out)];
    json(&prepare);
    let (verified, _) = under(&[("create", "/out", EROFS)], &[&prepare[..], &["--verify"]].concat());
    assert_eq!((&verified["verified"], &verified["splits"]), (&true.into(), &verified["of"]));
    // What is missing cannot be made there.
    let segment = std::fs::read_dir(out.join("s0")).expect("a directory").flatten().map(|entry| entry.path());
    let mut segments: Vec<_> =
        segment.filter(|path| path.extension().is_some_and(|e| e == "tokens")).collect();
    std::fs::remove_file(segments.pop().expect("a segment")).expect("removed");
    let mut command = millstream(&prepare);
    inject(&mut command, &[("create", "/out", EROFS)]);
    let output = command.output().expect("it runs");
    assert!(!output.status.success() && said(&output).contains("Read-only file system"), "{}", said(&output));
}

#[test]
fn a_token_cache_that_cannot_be_written_is_read_or_passed_over() {
    let case = Case::new(300, BYTES);
    let (text, cache) = (case.text("2KiB"), case.path("kept"));
    let cached = case.config("cached.toml", |source| {
        let (path, cache) = (case.path(&format!("{source}.txt")), cache.display().to_string());
        format!("paths = [{path:?}]\nsplit = \"2KiB\"\ncache = {{ path = {cache:?} }}")
    });
    let (digested, expected) = (["digest", &cached, "--batches", "1000000"], digest(&text));
    let refusals = [EROFS, ENOSPC, EDQUOT];
    for error in refusals {
        let (found, said) = under(&[("create", "/kept", error)], &digested);
        assert_eq!(found, expected);
        assert!(said.contains("the token cache is only read: nothing can be written there"), "{said}");
        assert!(!cache.exists());
    }

    assert_eq!(json(&digested), expected);
    let files = || {
        let directories = std::fs::read_dir(&cache).expect("a directory").flatten();
        let files = directories.flat_map(|directory| std::fs::read_dir(directory.path()).expect("read"));
        let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        files
    };
    let before = files();
    for error in refusals {
        let (found, said) = under(&[("create", "/kept", error)], &digested);
        assert_eq!(found, expected);
        // All of its tokens are used.
        let counts = said.lines().filter_map(|line| line.split_once(" splits are in the token cache"));
        let counts: Vec<_> = counts.filter_map(|(count, _)| count.rsplit_once(" of ")).collect();
        assert_eq!(counts.len(), 12, "{said}");
        for (there, of) in counts {
            assert!(there.ends_with(&format!(" {of}")), "{there} of {of}");
        }
        assert_eq!(files(), before);
    }
}
