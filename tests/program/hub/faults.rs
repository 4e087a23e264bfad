//! What goes wrong between a run and the Hub.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{STORIES, World, ordered, path, source, stories};
use crate::hub_server::Fault;

/// A token, which no log may show.
const TOKEN: &str = "hf_secretsecretsecret";

fn status(status: u16, headers: &[(&str, &str)]) -> Fault {
    Fault::Status(
        status,
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    )
}

/// Has the program ask for each thing once: the second time would come after the deadline.
fn ask_once(program: &mut Command) {
    program.args(["--set", "store.backoff=1000", "--set", "store.backoff_max=1000"]);
}

#[test]
fn what_passes_is_waited_for() {
    let (world, _) = World::with_stories(2, 8_000);
    let config = ordered(&source(""));
    let small = ["--set", "store.block=64KiB"];
    let expected = world.digest(&config, &small);
    let faults: [fn() -> Fault; 6] = [
        || status(429, &[("Retry-After", "1")]),
        || status(429, &[("RateLimit", "\"api\";r=0;t=1")]),
        || status(429, &[]),
        || status(503, &[]),
        || Fault::Closed,
        || Fault::Cut(700),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let mut asked = 0;
        // Each of the first requests fails once: for the commit, the files, the place and the bytes.
        std::fs::remove_dir_all(world.cache()).expect("a cache");
        world.hub.with_faults(move |_| {
            asked += 1;
            if asked % 2 == 1 && asked < 12 { fault() } else { Fault::Nothing }
        });
        assert_eq!(world.digest(&config, &small), expected, "fault {number}");
    }
}

/// After a server has asked for a wait of a second, in either header, few requests come before that: those that were under
/// way. Without the wait, one lane would go on and ask for all files.
#[test]
fn all_lanes_wait_as_long_as_the_server_says() {
    const FILES: usize = 40;
    for header in [("Retry-After", "1"), ("RateLimit", "\"resolvers\";r=0;t=1")] {
        let (world, _) = World::with_stories(FILES, 20);
        let config = source("")
            + "\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 64\nbatch_size = 4\nepochs = 1\nlanes = 4\n";
        let (sender, early) = std::sync::mpsc::channel();
        let (mut resolved, mut until) = (0, None);
        world.hub.with_faults(move |request| {
            if !request.path.contains("/resolve/") {
                return Fault::Nothing;
            }
            resolved += 1;
            if resolved == 5 {
                until = Some(Instant::now() + Duration::from_secs(1));
                return status(429, &[header]);
            }
            if until.is_some_and(|until| Instant::now() < until) {
                let _ = sender.send(());
            }
            Fault::Nothing
        });
        world.digest(&config, &["--set", "store.concurrency=2"]);
        let early = early.try_iter().count();
        assert!(early < FILES / 4, "{header:?}: {early} requests came too early");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let (world, _) = World::with_stories(1, 10);
    world.hub.commit("me/model", "main", &[("config.json", b"{}")]);
    world.hub.commit("datasets/me/private", "main", &[("data/a.jsonl", stories("", 0, 10).as_bytes())]);
    world.hub.require_token("datasets/me/private", TOKEN);
    // Long enough to come from another server than the Hub.
    world.hub.commit("datasets/me/gated", "main", &[("data/a.jsonl", stories("", 0, 2_000).as_bytes())]);
    world.hub.gate("datasets/me/gated", TOKEN);
    let of = |repo: &str| ordered(&source("").replace(STORIES, repo));
    let gated = format!("{}/datasets/me/gated", world.hub.endpoint());
    for (repo, token, parts) in [
        ("datasets/me/none", None, &["there is no dataset me/none", "HF_TOKEN"][..]),
        ("datasets/me/none", Some(TOKEN), &["there is no dataset me/none", "the token of HF_TOKEN"]),
        ("datasets/me/private", None, &["private", "HF_TOKEN"]),
        (
            "datasets/me/model",
            None,
            &["there is no dataset me/model; there is a model of this name: hf://me/model"],
        ),
        ("datasets/me/stories@v2", None, &["no branch, tag or commit \"v2\"", "it has main"]),
        ("datasets/me/gated", None, &["gated", &gated, "HF_TOKEN"]),
        ("datasets", None, &["hf://datasets/OWNER/NAME"]),
        ("datasets/me/model", Some("bad"), &["the token of HF_TOKEN"]),
    ] {
        let failure = world.failure(&of(repo), |command| {
            command.env("RUST_LOG", "trace");
            token.map(|token| command.env("HF_TOKEN", token));
        });
        assert!(!failure.contains(TOKEN), "{failure}");
        // Lines of the log may follow it.
        let last = failure.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in parts {
            assert!(last.contains(part), "{repo}, {token:?}: {part}: {last}");
        }
    }
    // With the token in its place, or in the file of `hf auth login`, both are read.
    std::fs::write(world.home.path().join("token"), format!("{TOKEN}\n")).expect("a file");
    for repo in ["datasets/me/private", "datasets/me/gated"] {
        world.digest(&of(repo), &[]);
    }
    assert!(world.hub.requests().iter().any(|request| request.is_cdn));
    assert_eq!(world.hub.leaks(), 0, "the token went to another server");
}

#[test]
fn a_hub_in_trouble_is_named_with_what_it_says() {
    let (world, _) = World::with_stories(1, 2_000);
    for (about, from) in [("/revision/", "the Hub"), ("/files/", "the server of the file's bytes")] {
        world.hub.with_faults(move |request| {
            match request.path.contains(about) || about == "/files/" && request.is_cdn {
                true => status(503, &[]),
                false => Fault::Nothing,
            }
        });
        let failure = world.failure(&ordered(&source("")), ask_once);
        let said = format!("{from} answers 503 Service Unavailable");
        assert!(failure.contains(&said) && failure.contains("; try again later"), "{failure}");
    }
}

#[test]
fn another_content_under_a_commit_is_an_error() {
    const ETAG: &str = "0123456789abcdef0123456789abcdef01234567";
    // A file of the Hub itself, and one of the CDN.
    for lines in [100, 2_000] {
        let (world, _) = World::with_stories(1, lines);
        world.hub.with_faults(|request| match request.path.contains("/resolve/") {
            true => Fault::Etag(ETAG.to_owned()),
            false => Fault::Nothing,
        });
        let failure = world.failure(&ordered(&source("")), |_| ());
        assert!(failure.contains("its etag was") && failure.contains(ETAG), "{failure}");
    }
}

#[test]
fn what_the_store_settings_say_holds_for_all_that_is_asked_of_the_hub() {
    let (world, _) = World::with_stories(1, 10);
    let here = world.home.path().join("texts");
    super::write(&here, "", 1, 10);
    let model = |key: &str, value: &str| format!("{}\n[{key}]\n{value}\n", super::local(&here));
    let card = "[[source]]\nkind = \"huggingface\"\nrepo = \"me/stories\"\nfield = \"text\"\n";
    let tokenizer = model("tokenizer", "path = \"hf://me/model/tokenizer.json\"");
    let chat = super::local(&here) + "task = \"chat\"\nchat = { template = \"hf://me/model/chat.jinja\" }\n";
    let init = model("train", "init = \"hf://me/model\"\nsteps = 1");
    for (command, config, about) in [
        ("digest", ordered(&source("")), "/api/datasets/me/stories/revision/main"),
        ("digest", ordered(card), "/api/datasets/me/stories/revision/main"),
        ("digest", tokenizer, "/api/models/me/model/revision/main"),
        ("digest", ordered(&chat), "/api/models/me/model/revision/main"),
        ("train", init, "/api/models/me/model/revision/main"),
    ] {
        world.hub.with_faults(|_| Fault::Closed);
        world.hub.requests();
        let mut program = world.command(&[command, &world.config(&config)]);
        ask_once(&mut program);
        let output = program.output().expect("it runs");
        let asked: Vec<String> = world.hub.requests().iter().map(|request| request.path.clone()).collect();
        assert!(
            !output.status.success() && asked == [about],
            "{command} {config}: {asked:?}: {}",
            crate::program::said(&output)
        );
    }
}

#[test]
fn a_range_that_never_comes_is_an_error_that_names_the_file() {
    let (world, commit) = World::with_stories(1, 8_000);
    world.hub.with_faults(|request| if request.is_cdn { Fault::Closed } else { Fault::Nothing });
    let config = ordered(&source(""));
    let failure = world.failure(&config, ask_once);
    assert!(failure.contains(&format!("hf://{STORIES}@{commit}/{}", path(0))), "{failure}");
    assert!(!failure.contains("Signature"), "{failure}");
}

#[test]
fn another_range_than_was_asked_for_is_an_error() {
    let (world, _) = World::with_stories(1, 8_000);
    world.hub.with_faults(|_| Fault::Beginning);
    let failure = world.failure(&ordered(&source("")), |command| {
        command.args(["--set", "store.block=64KiB"]);
    });
    assert!(failure.contains("the server sends other bytes than") && failure.contains(&path(0)), "{failure}");
}

#[test]
fn answers_that_are_not_the_hubs_are_errors() {
    let file = |oid: &str, path: &str| {
        format!(r#"[{{"type": "file", "oid": "{oid}", "size": 3, "path": "{path}"}}]"#)
    };
    let (world, _) = World::with_stories(1, 10);
    for (about, answer, said) in [
        ("/revision/", "<html></html>".to_owned(), "the answer is not the Hub's"),
        ("/revision/", r#"{"sha": "../../elsewhere"}"#.to_owned(), "is not a commit"),
        ("/tree/", file("0123", "../elsewhere.jsonl"), "is not the path of a file"),
        ("/tree/", file("../elsewhere", "data/a.jsonl"), "is not the path of a file"),
    ] {
        world.hub.with_faults(move |request| match request.path.contains(about) {
            true => Fault::Body(answer.clone()),
            false => Fault::Nothing,
        });
        let failure = world.failure(&ordered(&source("")), |_| ());
        assert!(failure.contains(said) && failure.contains(STORIES), "{said}: {failure}");
    }
}

#[test]
fn a_list_without_an_end_is_an_error() {
    let (world, _) = World::with_stories(1, 10);
    // Each page is empty and names itself as the next one.
    world.hub.set_page_size(0);
    let failure = world.failure(&ordered(&source("")), |_| ());
    assert!(failure.contains("the same page again and again"), "{failure}");
}

#[test]
fn a_repository_that_has_another_name_by_now_is_read() {
    let (world, _) = World::with_stories(2, 100);
    let expected = world.digest(&ordered(&source("")), &[]);
    world.hub.with_faults(|request| match request.path.contains("/me/old") {
        true => {
            let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
            status(
                307,
                &[("Location", &format!("{}{query}", request.path.replace("/me/old", "/me/stories")))],
            )
        }
        false => Fault::Nothing,
    });
    assert_eq!(world.digest(&ordered(&source("").replace("/me/stories", "/me/old")), &[]), expected);
}
