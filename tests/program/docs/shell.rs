//! Shell blocks: a page's are run one after the other in a folder that is empty at first.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::pages::{Block, Page};

/// Writes the files of a page and runs its blocks, until one fails.
pub(crate) fn run(page: &Page) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let (programs, folder) = (directory.path().join("bin"), directory.path().join("page"));
    fs::create_dir(&programs).expect("a directory for the program");
    fs::create_dir(&folder).expect("a directory for the page");
    let program = programs.join("millstream");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_millstream"), program).expect("a link to the program");
    for block in &page.blocks {
        if let Some(file) = block.file() {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a file in the folder")).expect("the file's directory");
            fs::write(path, &block.text).expect("the page's file");
        }
        if block.language() == "sh" && !block.is_not_run() {
            let output = bash(&["-eu"], &block.text, &programs, &folder);
            told(block, &output)?;
        }
    }
    Ok(())
}

/// Checks the syntax of a block that is not run.
pub(crate) fn syntax(block: &Block) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let output = bash(&["-n"], &block.text, directory.path(), directory.path());
    told(block, &output)
}

/// Nothing of this machine's environment is seen but the path to its programs, and the network is out of reach: the
/// proxy that everything is sent through is not there.
fn bash(options: &[&str], script: &str, programs: &Path, folder: &Path) -> Output {
    let mut path = OsString::from(programs);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let nowhere = "http://127.0.0.1:9";
    Command::new("bash")
        .args(options)
        .args(["-c", script])
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("LANG", "C.UTF-8")
        .envs(
            ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
                .map(|name| (name, nowhere)),
        )
        .env("NO_PROXY", "127.0.0.1,localhost")
        .output()
        .expect("bash runs")
}

/// Says where a block failed, and what it printed.
fn told(block: &Block, output: &Output) -> Result<(), String> {
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{}: {}\n{}\nprinted:\n{}",
        block.place,
        output.status,
        block.text.trim_end(),
        printed.trim_end()
    ))
}

#[test]
fn a_block_that_fails_is_told() {
    let page = |text: &str| Page::parse("p.md".to_owned(), text);
    let good = "```toml file=a/run.toml\nseed = 1\n```\n\n```sh\ngrep seed a/run.toml > seen\n```\n\n```sh\ncat seen\n```\n";
    assert_eq!(run(&page(good)), Ok(()));
    let problem = run(&page("x\n\n```sh\necho before\nfalse\necho behind\n```\n")).expect_err("it fails");
    assert!(
        problem.starts_with("p.md:4: exit status: 1\n") && problem.ends_with("printed:\nbefore"),
        "{problem}"
    );
    assert!(run(&page("```sh\necho $UNSET\n```\n")).is_err());
    assert_eq!(syntax(&page("```sh no-run\nmissing --program\n```\n").blocks[0]), Ok(()));
    assert!(syntax(&page("```sh no-run\nif true\n```\n").blocks[0]).is_err());
}
