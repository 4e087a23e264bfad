//! What a run's receipt says of files that are not plain text on this machine: token shards, and files on servers.

use serde_json::json;

use super::data::{data, trained};
use super::*;
use crate::support::server::{Content, Fault, Request, Server};

/// The paths of these files.
fn paths(files: &Value) -> Vec<&str> {
    files.as_array().into_iter().flatten().filter_map(|file| file["path"].as_str()).collect()
}

#[test]
fn of_token_shards_the_receipt_names_the_shards() {
    let project = Project::new();
    project.succeed(&["prepare", "run.toml", "-o", "shards"]);
    let shards = ["--set", "source.0={ kind = 'shards', paths = ['shards'] }"];
    project.succeed(&[&["train", "run.toml", "--set", "train.trail_every=5"], &shards[..]].concat());
    // Nobody reads the text any more.
    std::fs::remove_dir_all(project.path("corpus")).expect("removed");
    let (code, receipt) = data(&project, &["--check"]);
    assert_eq!((code, &receipt["changes"]), (Some(0), &Value::Null), "{receipt}");
    let read = paths(&receipt["files"]);
    assert!(read.len() > 1 && read[0] == "shards/manifest.json", "{receipt}");
    for file in receipt["files"].as_array().expect("files") {
        let path = file["path"].as_str().expect("a path");
        let sum = Command::new("sha256sum").arg(project.path(path)).output().expect("it runs");
        let sum = String::from_utf8(sum.stdout).expect("text");
        assert_eq!(file["sha256"].as_str(), sum.split(' ').next(), "{path}");
        let len = project.path(path).metadata().expect("a file").len();
        assert!(path.starts_with("shards/") && file["bytes"] == len, "{file}");
    }
    assert_eq!(receipt["sources"][0]["files"], json!(read.len()));
    assert_eq!(
        paths(&receipt["made_from"]),
        (0..4).map(|nth| format!("corpus/{nth}.txt")).collect::<Vec<_>>()
    );
    assert!(
        receipt["made_from"][0].get("sha256").is_none() && receipt["made_from"][0].get("problem").is_none()
    );
    let output = project.program(&["report", "run", "--data"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("What token shards were made from, as their manifests say"), "{text}");

    // Shards that are gone are no text that is there.
    std::fs::rename(project.path("shards"), project.path("moved")).expect("moved");
    let (code, receipt) = data(&project, &[]);
    let problem = receipt["sources"][0]["problem"].as_str().expect("a problem");
    assert!(code == Some(0) && problem.contains("shards"), "{receipt}");
    assert_eq!((paths(&receipt["files"]).len(), paths(&receipt["made_from"]).len()), (0, 4), "{receipt}");
    let (code, receipt) = data(&project, &["--check", "--set", "source.0.paths=moved"]);
    assert_eq!((code, &receipt["check"]["is_same"]), (Some(0), &json!(true)), "{receipt}");
}

/// What is asked once and no more, since the second time would come after the deadline.
const ASKED_ONCE: &str = "\n[store]\ndeadline = 5\nbackoff = 20\nbackoff_max = 20\n";

/// A finished run of two sources on a server.
fn of_a_server() -> (Project, Server) {
    let project = trained();
    let content = |name: &str| Content::new(std::fs::read(project.path(name)).expect("a file"));
    let names = ["corpus/0.txt", "corpus/1.txt", "records.jsonl"];
    let server = Server::new(names.map(|name| (name, content(name))));
    let config = std::fs::read_to_string(project.path("run.toml")).expect("a config");
    let urls = names.map(|name| server.url(name));
    let config = config.replace("\"corpus/*.txt\"", &format!("{:?}, {:?}", urls[0], urls[1]));
    let config = config.replace("\"records.jsonl\"", &format!("{:?}", urls[2]));
    std::fs::write(project.path("run.toml"), config + ASKED_ONCE).expect("written");
    std::fs::remove_dir_all(project.path("run")).expect("removed");
    project.succeed(&["train", "run.toml"]);
    (project, server)
}

/// How often the server was asked how long each file is: for its first byte.
fn looks(server: &Server) -> Vec<usize> {
    let requests = server.requests();
    let is_look = |request: &&Request| request.headers.get("range").is_some_and(|range| range == "bytes=0-0");
    let looks = |name: &str| requests.iter().filter(is_look).filter(|look| look.path.ends_with(name)).count();
    ["0.txt", "1.txt", "records.jsonl"].map(looks).to_vec()
}

#[test]
fn a_server_is_looked_at_once() {
    let (project, server) = of_a_server();
    let whole = ["report", "run", "--data", "--check", "-n", "100"];
    for command in [&whole[..4], &whole, &["when", "run", "--document", "0.txt:1"]] {
        looks(&server);
        project.succeed(command);
        assert_eq!(looks(&server), [1, 1, 1], "{command:?}");
    }
    // Also if it has a source no more.
    server.with_faults(|request| match request.path.ends_with("records.jsonl") {
        true => Fault::Page(404),
        false => Fault::Nothing,
    });
    looks(&server);
    let said = project.fail(&whole);
    assert!(said.contains("records.jsonl") && looks(&server) == [1, 1, 1], "{said}");
    let (_, receipt) = data(&project, &[]);
    let problem = receipt["sources"][1]["problem"].as_str().expect("a problem");
    assert!(
        problem.ends_with("cannot look at the file: the server answers 404 Not Found; check the name"),
        "{problem}"
    );
}

#[test]
fn files_of_a_server_can_move_to_another_one_and_not_to_this_machine() {
    let (project, server) = of_a_server();
    let check = ["report", "run", "--data", "--check"];
    let paths = |lines: [&str; 2], records: &str| {
        [format!("source.lines.paths={lines:?}"), format!("source.records.paths={records}")]
    };
    let moved = |[lines, records]: &[String; 2]| {
        project.program(&check).args(["--set", lines, "--set", records]).output()
    };
    let here = moved(&paths(["corpus/0.txt", "corpus/1.txt"], "records.jsonl")).expect("it runs");
    let (why, url) = (said(&here), server.url("corpus/0.txt"));
    assert!(!here.status.success(), "{why}");
    for part in [
        &*format!(
            "source.lines.paths: the files are not those that the run has read: in a store or on this machine, unlike now: {url}"
        ),
        "move to another store with the same etags",
        "--set source.lines.paths=",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let names = ["corpus/0.txt", "corpus/1.txt", "records.jsonl"];
    let other = Server::new(
        names.map(|name| (name, Content::new(std::fs::read(project.path(name)).expect("a file")))),
    );
    let [first, second, records] = names.map(|name| other.url(name));
    succeeded(&moved(&paths([&first, &second], &records)).expect("it runs"));
}

#[test]
fn a_server_that_is_silent_is_waited_for_once() {
    let (project, server) = of_a_server();
    server.with_faults(|_| Fault::Silent(std::time::Duration::from_secs(60)));
    let fails: [&[&str]; 3] = [
        &["report", "run", "--data", "--check"],
        &["when", "run", "--document", "0.txt:1"],
        &["ledger", "run", "--count"],
    ];
    for command in fails {
        server.requests();
        project.fail(command);
        assert_eq!(server.requests().len(), 3, "{command:?}");
    }
    assert_eq!((data(&project, &[]).0, server.requests().len()), (Some(0), 3));
}

#[test]
fn a_server_that_is_down_is_an_error_and_no_wait() {
    let (project, server) = of_a_server();
    server.with_faults(|_| Fault::Closed);
    for command in [
        &["report", "run", "--data", "--check"][..],
        &["when", "run", "--document", "0.txt:1"],
        &["ledger", "run", "--count"],
    ] {
        let said = project.fail(command);
        assert!(said.contains(&server.url("corpus/0.txt")), "{said}");
    }
    let (code, receipt) = data(&project, &[]);
    assert_eq!(code, Some(0));
    for (source, files) in [("lines", 2), ("records", 1)] {
        let listed = receipt["files"].as_array().into_iter().flatten();
        let listed: Vec<&Value> = listed.filter(|file| file["source"] == source).collect();
        let are_marked = listed.iter().all(|file| file["problem"] == "cannot be read, as its source");
        assert!(listed.len() == files && are_marked, "{receipt}");
    }
    assert_eq!(
        (&receipt["sources"][0]["files"], &receipt["sources"][1]["bytes"]),
        (&Value::Null, &Value::Null)
    );
}
