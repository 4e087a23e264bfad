//! The Hub's cache on this machine, shared with the Hub's own Python libraries.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::{STORIES, World, digest_of, ordered, path, source, stories};
use crate::hub_server::Request;
use crate::program::said;
#[cfg(target_os = "linux")]
use crate::support::faults::inject;
use crate::support::torch;

/// What `huggingface_hub` or `datasets` says.
pub(super) fn python(world: &World, python: &Path, arguments: &[&str]) -> Value {
    let script = crate::support::root().join("tests/support/hub_peer.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments);
    let output = world.env(command).output().expect("Python runs");
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Keeps the files that a run reads.
const KEPT: [&str; 2] = ["--set", "store.hub_cache=1GiB"];

fn asked_for_bytes(requests: &[Request]) -> bool {
    requests.iter().any(|request| request.is_cdn || request.path.contains("/resolve/"))
}

#[test]
fn what_python_has_downloaded_is_not_downloaded_again() {
    let Some(interpreter) = torch::python("what_python_has_downloaded_is_not_downloaded_again") else {
        return;
    };
    let (world, commit) = World::with_stories(2, 3_000);
    let expected = world.digest(&ordered(&source("")), &[]);
    fs::remove_dir_all(world.cache()).expect("a cache");
    python(&world, &interpreter, &["download", STORIES, "main", &path(0), &path(1)]);
    world.hub.requests();
    assert_eq!(world.digest(&ordered(&source("")), &[]), expected);
    assert!(!asked_for_bytes(&world.hub.requests()));
    // Without a server, for what the cache has.
    let without = |command: &mut Command| {
        command.env("HF_HUB_OFFLINE", "1").env("HF_ENDPOINT", "http://127.0.0.1:1");
    };
    let mut command =
        world.command(&["digest", &world.config(&ordered(&source(""))), "-n", "100000", "--json"]);
    without(&mut command);
    assert_eq!(digest_of(&command.output().expect("it runs")), expected);
    // Python lists the files of a commit only for a whole snapshot.
    fs::remove_dir_all(world.folder().join("trees")).expect("a list");
    assert_eq!(digest_of(&command.output().expect("it runs")), expected);
    world.digest(&ordered(&source("")), &[]);
    fs::remove_file(world.folder().join("snapshots").join(&commit).join(path(1))).expect("a file");
    let failure = world.failure(&ordered(&source("")), without);
    assert!(failure.contains("HF_HUB_OFFLINE") && failure.contains(&path(1)), "{failure}");
    let failure = world.failure(&ordered(&source("@v2")), without);
    assert!(failure.contains("HF_HUB_OFFLINE") && failure.contains("@v2"), "{failure}");
}

#[test]
fn what_a_run_has_kept_is_read_without_a_server() {
    let (world, _) = World::with_stories(2, 300);
    let expected = world.digest(&ordered(&source("")), &KEPT);
    let config = world.config(&ordered(&source("")));
    let mut command = world.command(&["digest", &config, "-n", "100000", "--json"]);
    command.env("HF_HUB_OFFLINE", "1").env("HF_ENDPOINT", "http://127.0.0.1:1");
    assert_eq!(digest_of(&command.output().expect("it runs")), expected);
}

#[test]
fn what_a_run_has_kept_is_there_for_python() {
    let Some(interpreter) = torch::python("what_a_run_has_kept_is_there_for_python") else { return };
    let (world, commit) = World::with_stories(2, 3_000);
    world.digest(&ordered(&source("")), &KEPT);
    let found = python(&world, &interpreter, &["offline", STORIES, "main", &path(0), &path(1)]);
    for (file, found) in found.as_array().expect("paths").iter().enumerate() {
        let found = fs::read_to_string(found.as_str().expect("a path")).expect("a file");
        assert!(found == stories("", file, 3_000));
    }
    let whole = python(&world, &interpreter, &["snapshot", STORIES, "main"]);
    assert!(whole.as_str().expect("a path").ends_with(&commit));
    let before = world.hub.requests().len();
    world.digest(&ordered(&source("")), &KEPT);
    assert!(before > 0 && !asked_for_bytes(&world.hub.requests()));
}

#[test]
fn a_run_streams_what_the_cache_has_no_room_for() {
    let (world, _) = World::with_stories(4, 12_000);
    let expected = world.digest(&ordered(&source("")), &[]);
    let size = stories("", 0, 12_000).len() as u64;
    let room = format!("store.hub_cache={}B", 2 * size + size / 2);
    assert_eq!(world.digest(&ordered(&source("")), &["--set", &room]), expected);
    let blobs = || fs::read_dir(world.folder().join("blobs")).expect("blobs").count();
    assert_eq!(blobs(), 2, "no more than there is room for");
    assert_eq!(world.digest(&ordered(&source("")), &["--set", &room]), expected);
    assert_eq!(blobs(), 2, "what an earlier run kept takes room too");
}

#[test]
fn two_processes_fill_one_cache() {
    let Some(interpreter) = torch::python("two_processes_fill_one_cache") else { return };
    let (world, _) = World::with_stories(6, 4_000);
    let config = world.config(&ordered(&source("")));
    let arguments = [&["digest", &config, "-n", "100000", "--json"][..], &KEPT].concat();
    let files: Vec<String> = (0..6).map(path).collect();
    let mut hold = vec!["hold", STORIES, "main"];
    hold.extend(files.iter().map(String::as_str));
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let ours: Vec<_> =
            (0..2).map(|_| scope.spawn(|| world.command(&arguments).output().expect("it runs"))).collect();
        python(&world, &interpreter, &hold);
        ours.into_iter().map(|run| run.join().expect("no panic")).collect()
    });
    let digests: Vec<String> = outputs.iter().map(digest_of).collect();
    assert_eq!(digests[0], digests[1]);
    for file in 0..6 {
        let copies = fs::read_dir(world.folder().join("snapshots")).expect("snapshots").flatten();
        for copy in copies {
            assert!(
                fs::read_to_string(copy.path().join(path(file))).expect("a file") == stories("", file, 4_000)
            );
        }
    }
    let left = fs::read_dir(world.folder().join("blobs")).expect("blobs").flatten();
    assert!(left.map(|blob| blob.file_name()).all(|name| !name.to_string_lossy().ends_with(".incomplete")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_nothing_and_changes_nothing() {
    const ENOSPC: i32 = 28;
    let (world, _) = World::with_stories(2, 3_000);
    let expected = world.digest(&ordered(&source("")), &[]);
    let config = world.config(&ordered(&source("")));
    let mut command = world.command(&[&["digest", &config, "-n", "100000", "--json"][..], &KEPT].concat());
    inject(&mut command, &[("write", "blobs/", ENOSPC)]);
    let output = command.output().expect("it runs");
    assert_eq!(digest_of(&output), expected);
    assert!(said(&output).contains("cannot keep this in the Hub's cache"), "{}", said(&output));
    assert_eq!(fs::read_dir(world.folder().join("blobs")).expect("blobs").count(), 0);
}

#[test]
fn a_run_goes_on_where_nothing_can_be_kept() {
    let (world, _) = World::with_stories(2, 3_000);
    let expected = world.digest(&ordered(&source("")), &[]);
    fs::remove_dir_all(world.cache()).expect("a cache");
    // A file where the cache's directory would be.
    fs::write(world.cache(), "").expect("a file");
    assert_eq!(world.digest(&ordered(&source("")), &KEPT), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_tokenizer_that_cannot_be_kept_is_an_error() {
    const EACCES: i32 = 13;
    let (world, _) = World::with_stories(1, 10);
    world.hub.commit("me/model", "main", &[("tokenizer.json", b"{}")]);
    let config = ordered(&source("")).replace("kind = \"bytes\"", "path = \"hf://me/model/tokenizer.json\"");
    let failure = world.failure(&config, |command| inject(command, &[("write", "blobs/", EACCES)]));
    assert!(failure.contains("tokenizer.json") && failure.contains("set HF_HUB_CACHE"), "{failure}");
}

#[test]
fn a_damaged_list_of_files_is_fetched_again() {
    let (world, commit) = World::with_stories(2, 50);
    let expected = world.digest(&ordered(&source("")), &[]);
    let tree = world.folder().join(format!("trees/{commit}.json"));
    let whole = fs::read_to_string(&tree).expect("a list");
    for (now, later) in [("{", ""), ("data/part-00", "../part-00"), ("\"blob_id\": \"", "\"blob_id\": \"../")]
    {
        assert!(whole.contains(now), "{whole}");
        fs::write(&tree, whole.replace(now, later)).expect("a file");
        assert_eq!(world.digest(&ordered(&source("")), &[]), expected, "{later:?} for {now:?}");
        assert_eq!(fs::read_to_string(&tree).expect("a list"), whole);
    }
}

#[test]
fn a_damaged_copy_is_fetched_again() {
    let (world, commit) = World::with_stories(2, 3_000);
    let expected = world.digest(&ordered(&source("")), &KEPT);
    let blobs = || fs::read_dir(world.folder().join("blobs")).expect("blobs").flatten();
    blobs().for_each(|blob| fs::write(blob.path(), "").expect("a file"));
    assert_eq!(world.digest(&ordered(&source("")), &KEPT), expected);
    assert!(blobs().all(|blob| blob.metadata().expect("a file").len() > 100));
    // A link that leads nowhere.
    blobs().for_each(|blob| fs::remove_file(blob.path()).expect("a file"));
    assert_eq!(world.digest(&ordered(&source("")), &KEPT), expected);
    let copy = world.folder().join("snapshots").join(commit).join(path(1));
    assert!(fs::read_to_string(&copy).expect("a file") == stories("", 1, 3_000));
    // Another file in its place.
    fs::remove_file(&copy).expect("a link");
    fs::write(&copy, "another").expect("a file");
    assert_eq!(world.digest(&ordered(&source("")), &KEPT), expected);
    assert!(fs::read_to_string(&copy).expect("a file") == stories("", 1, 3_000));
}

#[test]
fn what_is_asked_for_never_leads_out_of_the_cache() {
    let (world, _) = World::with_stories(1, 10);
    world.hub.commit("me/model", "main", &[("config.json", b"{}")]);
    let precious = world.home.path().join("hub/precious.json");
    fs::create_dir_all(world.cache()).expect("a directory");
    fs::write(&precious, "precious").expect("a file");
    let config =
        ordered(&source("")).replace("kind = \"bytes\"", "path = \"hf://me/model/../../../precious.json\"");
    let failure = world.failure(&config, |_| ());
    assert!(failure.contains("the repository has no such file"), "{failure}");
    assert_eq!(fs::read_to_string(precious).expect("a file"), "precious");
}
