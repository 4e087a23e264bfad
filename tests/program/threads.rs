//! A system that refuses threads: an error that says so, and neither a hang nor a panic.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::skip::skipped;
use crate::support::wait::wait_for;

/// A user that nobody else is, so that the limit counts this test's threads alone.
const USER: &str = "61234";

/// The program, as a user who may have so many threads and processes.
fn limited(most: usize, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nproc={most}"));
    let user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
    command.arg("setpriv").args(user).arg(program).args(arguments).env("RUST_LOG", "warn");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_system_that_refuses_threads_is_an_error_and_never_a_hang() {
    let name = "a_system_that_refuses_threads_is_an_error_and_never_a_hang";
    let directory = tempfile::tempdir().expect("a directory");
    let open =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("permissions");
    open(directory.path());
    // The program and the text, where any user can read them.
    let program = directory.path().join("millstream");
    fs::copy(env!("CARGO_BIN_EXE_millstream"), &program).expect("a copy");
    let file = |name: &str| directory.path().join(name);
    for number in 0..40 {
        let lines: String =
            (0..200).map(|line| format!("text {number}, line {line} of some length\n")).collect();
        fs::write(file(&format!("{number}.txt")), lines).expect("a file");
    }
    let config = file("run.toml");
    let text = format!("[[source]]\npaths = [\"{}/*.txt\"]\n", directory.path().display());
    fs::write(&config, text + "[tokenizer]\ntrain.vocab_size = 300\n[pipeline]\nseq_len = 32\n")
        .expect("a config");
    let config = config.to_str().expect("a name");

    match limited(1000, &program, &["--version"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(name, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => return skipped(name, &format!("no prlimit or setpriv: {error}")),
    }
    let runs = file("runs");
    fs::create_dir(&runs).expect("a directory");
    open(&runs);
    let digest = ["digest", config, "-n", "40", "--json"].map(str::to_owned).to_vec();
    // It opens the files twice: the second time, threads of the first are idle.
    let bench = ["bench", "loader", config, "-n", "40", "--json"].map(str::to_owned).to_vec();
    let train = |most: usize| {
        let out = format!("train.out={}/{most}", runs.display());
        let train = ["train", config, "--json", "--set", &out, "--set", "train.steps=3", "--set"];
        train.into_iter().chain(["train.sample_tokens=0"]).map(str::to_owned).collect()
    };
    // Up to as many as are enough, for any number of cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let enough = 3 * cores + 12;
    let few: Vec<usize> = (1..enough).step_by(enough.div_ceil(18)).collect();
    let many = 16 * cores + 100;
    let mut digests = Vec::new();
    for most in few.into_iter().chain([many]) {
        for arguments in [digest.clone(), bench.clone(), train(most)] {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let mut child = limited(most, &program, &arguments).spawn().expect("it starts");
            let what = format!("the end of {} with {most} threads", arguments[0]);
            wait_for(&what, || child.try_wait().expect("it can be asked"));
            let output = child.wait_with_output().expect("its output");
            let said = String::from_utf8_lossy(&output.stderr);
            let printed = String::from_utf8_lossy(&output.stdout);
            let last = printed.lines().last().unwrap_or_else(|| panic!("{what}: {said}"));
            let last: Value = serde_json::from_str(last).expect("JSON");
            match output.status.code() {
                Some(0) if arguments[0] == "digest" => digests.push(last["digest"].clone()),
                Some(0) => {}
                code => {
                    assert_eq!(
                        (code, &last["error"]["kind"]),
                        (Some(1), &"threads".into()),
                        "{what}: {said}"
                    );
                    assert!(said.contains("more threads: the system refused after"), "{said}");
                    assert!(said.contains("`ulimit -u`") && !said.contains("panicked"), "{said}");
                    assert!(most < many, "{said}");
                }
            }
            assert!(most > 1 || output.status.code() == Some(1), "one thread is too few");
        }
    }
    assert!(digests.iter().all(|digest| digest == &digests[0]), "{digests:?}");
}
