//! What is damaged in a store is made good by preparing it again.
//!
//! Credentials and endpoints come by the environment, so each command is given by a child process that has one.

use std::path::Path;
use std::process::{Command, Stdio};

use millstream::config::{Config, TokenizerKind};
use millstream::prepare::{prepare, prepare_rows, status};

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
            "shards" => {
                prepare(&config, into, |_| {}).await.map(|made| format!("{} documents", made.documents))
            }
            "rows" => prepare_rows(&config, into, |_| {}).await.map(|made| format!("{} rows", made.rows)),
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
    let ask = |what: &str, into: &str| {
        let out = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "repair::child", "--ignored"]).stdout(Stdio::null());
        let orders = [what, &directory.path().display().to_string(), into, &out.path().display().to_string()];
        command.envs(Moto::environment(&endpoint)).env(CHILD, orders.join("\n"));
        assert!(command.status().expect("it runs").success());
        std::fs::read_to_string(out.path()).expect("what it says")
    };
    for (what, segment) in [("shards", "00000000.tokens"), ("rows", "00000-00000.rows")] {
        let (into, at) = (format!("s3://repair/{what}"), |name: &str| format!("/repair/{what}/{name}"));
        let get = |name: &str| moto.get(&at(name)).expect("an object");
        let made = ask(what, &into);
        assert!(made.ends_with(" documents") || made.ends_with(" rows"), "{made}");
        assert!(ask("status", &into).starts_with("true "));
        let (list, whole) = (get("segments.json"), get(segment));

        moto.put(&at("segments.json"), &list[..100]);
        let told = ask("status", &into);
        assert!(
            told.starts_with("false ") && told.contains("and not their list: prepare any part once"),
            "{told}"
        );
        assert!(ask(what, &into).starts_with("0 "));
        assert!(get("segments.json") == list);

        moto.put(&at(segment), &whole[..whole.len() / 16 * 8]);
        let told = ask("status", &into);
        assert!(told.starts_with("false "), "{told}");
        let made = ask(what, &into);
        assert!(made.ends_with(" documents") || made.ends_with(" rows"), "{made}");
        assert!(get(segment) == whole && get("segments.json") == list);
        assert!(ask("status", &into).starts_with("true "));
    }
}
