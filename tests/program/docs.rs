//! The documentation is tested: every block of the READMEs, CONTRIBUTING, SECURITY and `docs/`, every link, and the config
//! reference against the code.
//!
//! The words after a block's three backticks say how it is tested:
//!
//! | block | test |
//! |---|---|
//! | `rust` | rustdoc compiles and runs it, if the `lib.rs` of the loader or the trainer names its page; one must |
//! | `rust,ignore file=PATH` | it is a part of that file of the crate, which is compiled with it |
//! | `toml` | it loads as a config, or a part of one |
//! | `toml file=NAME` | and it is written to that file in the page's folder |
//! | `toml file=Cargo.toml` | the features of this crate that it names exist |
//! | `sh` | `bash -eu` runs it in the page's folder, which starts empty; `millstream` is the program |
//! | `sh no-run` | its syntax is right, and the commands and flags of `millstream` in it exist |
//! | `text` and others | none |

mod changes;
mod configs;
mod excerpts;
mod index;
mod links;
mod pages;
mod reference;
mod security;
mod shell;
mod usage;

use std::sync::atomic::{AtomicUsize, Ordering};

use pages::Page;

/// Panics with all that went wrong.
fn expect_none(failures: &[String]) {
    assert!(failures.is_empty(), "\n\n{}\n", failures.join("\n\n"));
}

#[test]
fn blocks_say_what_they_are() {
    let mut failures = Vec::new();
    for page in Page::all() {
        for block in &page.blocks {
            let advice = match block.language() {
                "" => "name the block's language; `text` is not tested",
                "bash" | "shell" | "console" | "zsh" => "write `sh`, or `sh no-run`",
                "rs" => "write `rust`",
                "sh" if !matches!(block.words()[..], [] | ["no-run"]) => "write `sh`, or `sh no-run`",
                "toml" if block.words().iter().any(|word| !word.starts_with("file=")) => {
                    "write `toml`, or `toml file=NAME`"
                }
                _ => continue,
            };
            failures.push(format!("{}: {advice}", block.place));
        }
    }
    expect_none(&failures);
}

#[test]
fn toml_blocks_are_configs() {
    let pages = Page::all();
    let blocks = pages.iter().flat_map(|page| &page.blocks).filter(|block| block.language() == "toml");
    let failures: Vec<String> = blocks.filter_map(|block| configs::check(block).err()).collect();
    expect_none(&failures);
}

#[test]
fn shell_blocks_run() {
    let pages = Page::all();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(shell::run(page).err());
        }
        failures
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a page's thread")).collect()
    });
    expect_none(&failures);
}

#[test]
fn commands_that_are_not_run_exist() {
    let mut help = usage::Help::default();
    let mut failures = Vec::new();
    for block in Page::all().iter().flat_map(|page| &page.blocks).filter(|block| block.is_not_run()) {
        failures.extend(shell::syntax(block).err());
        for problem in help.problems(&block.text) {
            failures.push(format!("{}: {problem}", block.place));
        }
    }
    expect_none(&failures);
}

#[test]
fn links_lead_somewhere() {
    let pages = Page::all();
    let mut failures: Vec<String> = pages.iter().flat_map(links::broken).collect();
    failures.extend(index::missing(&pages));
    expect_none(&failures);
}

#[test]
fn rust_blocks_are_tested_by_rustdoc() {
    let wired = ["src/lib.rs", "crates/train/src/lib.rs"]
        .map(|file| std::fs::read_to_string(crate::support::root().join(file)).expect(file))
        .concat();
    let has_rust = |page: &&Page| page.blocks.iter().any(|block| block.language() == "rust");
    let names = Page::all().iter().filter(has_rust).map(|page| page.name.clone()).collect::<Vec<_>>();
    let missing = names.iter().filter(|name| !wired.contains(&format!("../{name}\"")));
    let failures: Vec<String> =
        missing.map(|name| format!("{name} has Rust blocks; add it to src/lib.rs")).collect();
    expect_none(&failures);
}

#[test]
fn parts_of_the_crate_are_what_they_are_there() {
    let pages = Page::all();
    let blocks = pages.iter().flat_map(|page| &page.blocks).filter(|block| block.is_ignored());
    expect_none(&blocks.filter_map(|block| excerpts::check(block).err()).collect::<Vec<_>>());
}

#[test]
fn the_config_reference_is_the_code() {
    expect_none(&reference::differences());
}
