//! What is damaged in a store is made good by preparing it again.
//!
//! Credentials and endpoints come by the environment, so each command is given by a child process that has one.

use std::path::Path;
use std::process::{Command, Stdio};

use millstream::config::{Config, TokenizerKind};
use millstream::prepare::{prepare, status};

use super::corpus::{block_on, chain, config, files, lines, write};
use crate::support::moto::Moto;

const CHILD: &str = "MILLSTREAM_TEST_REPAIR";

fn text(directory: &Path) -> Config {
    let mut text = config(lines(vec![format!("{}/**/*.txt", directory.display())]));
    text.tokenizer.kind = TokenizerKind::Bytes;
    text.pipeline.lanes = 2.into();
    text
}

/// Does what the environment says, and writes what came of it to a file that it names.
#[test]
#[ignore = "other tests start it as their child"]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let [what, directory, into, out] = orders.split('\n').collect::<Vec<_>>()[..] else { panic!("{orders}") };
    let (config, into) = (text(Path::new(directory)), Path::new(into));
    let said = block_on(async {
        match what {
            "prepare" => {
                prepare(&config, into, |_| {}).await.map(|made| format!("{} documents", made.documents))
            }
            _ => status(&config, into, None).await.map(|all| format!("{} {}", all[0].is_whole(), all[0])),
        }
    });
    std::fs::write(out, said.unwrap_or_else(|error| chain(&error))).expect("written");
}

#[test]
fn a_damaged_list_and_a_segment_that_is_cut_short_are_made_anew() {
    let Some(moto) =
        Moto::start_or_skip("repair::a_damaged_list_and_a_segment_that_is_cut_short_are_made_anew")
    else {
        return;
    };
    moto.put("/repair", b"");
    let (directory, endpoint) = (tempfile::tempdir().expect("a directory"), moto.endpoint());
    write(directory.path(), &files(&[300, 40, 500]));
    let into = "s3://repair/shards";
    let ask = |what: &str| {
        let out = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "repair::child", "--ignored"]).stdout(Stdio::null());
        let orders = [what, &directory.path().display().to_string(), into, &out.path().display().to_string()];
        command.envs(Moto::environment(&endpoint)).env(CHILD, orders.join("\n"));
        assert!(command.status().expect("it runs").success());
        std::fs::read_to_string(out.path()).expect("what it says")
    };
    let (list_at, segment_at) = ("/repair/shards/segments.json", "/repair/shards/00000000.tokens");
    let get = |path: &str| moto.get(path).expect("an object");
    let made = ask("prepare");
    assert!(made.ends_with(" documents"), "{made}");
    assert!(ask("status").starts_with("true "));
    let (list, segment) = (get(list_at), get(segment_at));

    moto.put(list_at, &list[..100]);
    let told = ask("status");
    assert!(
        told.starts_with("false ") && told.contains("and not their list: prepare any part once"),
        "{told}"
    );
    assert!(ask("prepare").starts_with("0 "));
    assert!(get(list_at) == list);

    moto.put(segment_at, &segment[..segment.len() / 16 * 8]);
    let told = ask("status");
    assert!(told.starts_with("false "), "{told}");
    let made = ask("prepare");
    assert!(made.ends_with(" documents"), "{made}");
    assert!(get(segment_at) == segment && get(list_at) == list);
    assert!(ask("status").starts_with("true "));
}
