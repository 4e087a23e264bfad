//! Checkpoints that are damaged, unfinished, or of another version.

use std::fs;

use super::{Project, Running, after, copy, flip, said};
#[cfg(target_os = "linux")]
use crate::support::faults::inject;

const NEWEST: &str = "checkpoints/step-00000020";

/// The files of a checkpoint.
const FILES: [&str; 6] =
    ["model.bpk", "optimizer.bpk", "unigram.bin", "cursor.json", "state.json", "blake3.txt"];

/// The command that uses an earlier checkpoint, which is told on a line.
fn instead(said: &str) -> &str {
    after(said, "take that one with: ")
}

#[test]
fn a_flipped_bit_in_any_file_is_refused_and_the_checkpoint_before_it_goes_on() {
    let project = Project::trained();
    let whole = project.losses("run");
    for name in FILES {
        let run = format!("damaged {name}");
        copy(&project.path("run"), &project.path(&run));
        let file = format!("{NEWEST}/{name}");
        flip(&project.path(&run).join(&file));
        let error = project.fail(&["train", "--resume", &run, "--set", "train.keep=9"]);
        // A digest that is damaged is one that a file no longer has.
        let named = if name == "blake3.txt" { format!("{run}/{NEWEST}/") } else { format!("{run}/{file}") };
        assert!(error.starts_with(&format!("error: {named}")) && error.contains("damaged"), "{error}");
        let earlier = instead(&error);
        assert!(
            earlier.ends_with(&format!(" train --resume '{run}' --set 'train.keep=9' --at 10")),
            "{error}"
        );
        let said = project.paste(earlier);
        assert!(said.contains("checkpoints/aside-step-00000020"), "{said}");
        assert_eq!(project.losses(&run), whole, "{name}");
        // The checkpoint that it made is whole.
        project.succeed(&["train", "--resume", &run, "--set", "train.steps=25"]);
        assert!(project.path(&run).join("checkpoints/step-00000025").is_dir());
    }
}

#[test]
fn generate_refuses_a_damaged_model_and_takes_an_earlier_one() {
    let project = Project::trained();
    let before = project.program(&["generate", "run", "file", "--at", "10"]).output().expect("it runs");
    assert!(before.status.success());
    for name in ["model.bpk", "state.json"] {
        let run = format!("damaged-{name}");
        copy(&project.path("run"), &project.path(&run));
        flip(&project.path(&run).join(NEWEST).join(name));
        let error = project.fail(&["generate", &run, "file"]);
        assert!(error.contains(&format!("{run}/{NEWEST}/{name}")), "{error}");
        assert!(error.contains("; the checkpoint before it is of step 10"), "{error}");
        assert!(instead(&error).ends_with(&format!(" generate {run} file --at 10")), "{error}");
        let earlier = project.program(&["generate", &run, "file", "--at", "10"]).output().expect("it runs");
        assert_eq!(earlier.stdout, before.stdout);
        // However the step is written, the command has one.
        let output = format!("model-{name}");
        for arguments in [
            &["--json", "generate", &run, "file"][..],
            &["generate", &run, "file", "--at", "20"],
            &["generate", "--at=20", &run, "--", "file"],
            &["model", "export", &run, "--step", "20", "-o", &output],
        ] {
            let error = project.fail(arguments);
            assert_eq!(instead(&error).matches("--at 10").count(), 1, "{error}");
            let others = ["--at=", "--at 20", "--step", "resume with: "];
            assert!(!others.iter().any(|other| instead(&error).contains(other)), "{error}");
            project.paste(instead(&error));
        }
    }
    // What it does not read does not matter.
    flip(&project.path("run").join(NEWEST).join("optimizer.bpk"));
    project.succeed(&["generate", "run", "file"]);
    let error = project.fail(&["generate", "run", "file", "--at", "15"]);
    assert!(error.contains("there is no checkpoint of step 15; there is one of 10, 20"), "{error}");
}

#[test]
fn without_an_earlier_checkpoint_it_says_to_start_again() {
    let project = Project::trained();
    std::fs::remove_dir_all(project.path("run/checkpoints/step-00000010")).expect("removed");
    flip(&project.path("run").join(NEWEST).join("unigram.bin"));
    let error = project.fail(&["train", "--resume", "run"]);
    assert!(error.contains("there is no checkpoint before it, so start the run again"), "{error}");
}

#[test]
fn a_checkpoint_under_the_name_of_another_step_is_refused() {
    let project = Project::trained();
    std::fs::remove_dir_all(project.path("run").join(NEWEST)).expect("removed");
    copy(&project.path("run/checkpoints/step-00000010"), &project.path("run").join(NEWEST));
    let error = project.fail(&["train", "--resume", "run", "--set", "train.steps=25"]);
    assert!(error.contains("this is the checkpoint of step 10, not of step 20"), "{error}");
    let earlier = instead(&error);
    assert!(earlier.ends_with(" train --resume run --set 'train.steps=25' --at 10"), "{error}");
    assert!(project.path("run").join(NEWEST).is_dir(), "nothing is moved");
    let output = project.program(&["train", "--resume", "run", "--json"]).output().expect("it runs");
    let failed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let (kind, resume) = (&failed["error"]["kind"], &failed["error"]["resume"]);
    let expected = serde_json::json!({ "run": "run", "step": 10, "settings": [] });
    assert_eq!((kind, resume), (&"checkpoint".into(), &expected));
    project.paste(earlier);
    assert_eq!(project.losses("run").len(), 25);
}

#[test]
fn a_corpus_that_moved_as_a_whole_resumes() {
    let project = Project::trained();
    let all = project.losses("run");
    fs::create_dir_all(project.path("mnt/other")).expect("a directory");
    fs::rename(project.path("corpus"), project.path("mnt/other/text")).expect("moved");
    let moved = format!("source.0.paths=[{:?}]", project.path("mnt/other/text/*.txt").display().to_string());
    let resume = ["train", "--resume", "run", "--at", "10", "--set", &moved];
    project.succeed(&resume);
    assert_eq!(project.losses("run"), all);
    // A file that changed its place below is another one, and named.
    let file = fs::read_dir(project.path("mnt/other/text")).expect("a directory").next().expect("a file");
    let file = file.expect("an entry").path();
    fs::rename(&file, file.with_file_name("renamed.txt")).expect("renamed");
    let said = project.fail(&resume);
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(said.contains("`source.0.files`") || said.contains(".files`"), "{said}");
    assert!(said.contains("renamed: ") && said.contains(&*name), "{said}");
}

#[test]
fn one_of_two_roots_that_moved_resumes() {
    let project = Project::new();
    for (file, directory) in ["home/c", "home/c", "data/d", "data/d"].into_iter().enumerate() {
        fs::create_dir_all(project.path(directory)).expect("a directory");
        let (from, to) = (format!("corpus/{file}.txt"), format!("{directory}/{file}.txt"));
        fs::rename(project.path(&from), project.path(&to)).expect("moved");
    }
    project.succeed(&["train", "run.toml", "--set", "source.0.paths=[\"home/c/*.txt\", \"data/d/*.txt\"]"]);
    let all = project.losses("run");
    fs::rename(project.path("home"), project.path("house")).expect("moved");
    let moved = "source.0.paths=[\"house/c/*.txt\", \"data/d/*.txt\"]";
    let resume = ["train", "--resume", "run", "--at", "10", "--set", moved];
    project.succeed(&resume);
    assert_eq!(project.losses("run"), all);
    fs::rename(project.path("house/c/1.txt"), project.path("house/c/one.txt")).expect("renamed");
    let said = project.fail(&resume);
    assert!(said.contains(".files`") && said.contains("house/c/one.txt"), "{said}");
}

#[test]
fn documents_stay_excluded_when_their_corpus_moves() {
    let project = Project::new();
    project.succeed(&["train", "run.toml", "--set", "train.steps=10"]);
    let excluded = |directory: &str| {
        let documents = [0, 26, 52].map(|byte| format!("{{path=\"{directory}/0.txt\", byte={byte}}}"));
        format!("exclude.documents=[{}]", documents.join(", "))
    };
    let here = excluded("corpus");
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=20", "--set", &here]);
    let runs = ["named", "unnamed", "stale"];
    runs.iter().for_each(|run| copy(&project.path("run"), &project.path(run)));
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=30"]);
    let all = project.losses("run");
    fs::create_dir(project.path("mnt")).expect("a directory");
    fs::rename(project.path("corpus"), project.path("mnt/text")).expect("moved");
    let moved = "source.0.paths=[\"mnt/text/*.txt\"]";
    // By its new path, by none, and by the old one.
    let there = excluded("mnt/text");
    let documents = [&*there, "exclude.documents=[]", &*here];
    for (run, documents) in runs.iter().zip(documents) {
        let settings = ["--set", "train.steps=30", "--set", moved, "--set", documents];
        project.succeed(&[&["train", "--resume", run][..], &settings].concat());
        assert_eq!(project.losses(run), all, "{run}");
    }
    // What the history does not know is looked for.
    let other = "exclude.documents=[{path=\"corpus/1.txt\", byte=0}]";
    let resume = ["train", "--resume", "run", "--set", "train.steps=40"];
    let said = project.fail(&[&resume[..], &["--set", moved, "--set", other]].concat());
    assert!(said.contains("corpus/1.txt is not a file of any source"), "{said}");
}

#[test]
fn an_unfinished_checkpoint_is_skipped_with_a_warning() {
    let project = Project::trained();
    let whole = project.losses("run");
    // As a copy leaves it that was cut off: the digests come last.
    std::fs::remove_file(project.path("run").join(NEWEST).join("blake3.txt")).expect("removed");
    let said = project.succeed(&["train", "--resume", "run"]);
    assert!(said.contains("unfinished checkpoint skipped") && said.contains(NEWEST), "{said}");
    assert!(said.contains("resuming from run/checkpoints/step-00000010"), "{said}");
    assert_eq!(project.losses("run"), whole);
}

#[test]
fn a_checkpoint_of_another_version_is_refused_and_the_one_before_it_goes_on() {
    let project = Project::trained();
    let newest = project.path("run").join(NEWEST);
    let (state, digests) = (newest.join("state.json"), newest.join("blake3.txt"));
    let digest = || blake3::hash(&fs::read(&state).expect("a state")).to_string();
    let (before, listed) = (digest(), fs::read_to_string(&digests).expect("digests"));
    let text = fs::read_to_string(&state).expect("a state");
    fs::write(&state, text.replace("\"version\": 1", "\"version\": 2")).expect("written");
    fs::write(&digests, listed.replace(&before, &digest())).expect("written");
    let error = project.fail(&["train", "--resume", "run"]);
    assert!(error.contains("state.json: its format is 2, but this version reads 1"), "{error}");
    assert!(instead(&error).ends_with(" train --resume run --at 10"), "{error}");
}

/// The names in the directory of checkpoints, sorted.
fn names(project: &Project, run: &str) -> Vec<String> {
    let entries = fs::read_dir(project.path(run).join("checkpoints")).expect("checkpoints");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(target_os = "linux")]
#[test]
fn a_checkpoint_that_cannot_be_removed_ends_no_run() {
    use nix::errno::Errno;
    let project = Project::trained();
    let cases: [&[(&str, &str, Errno)]; 5] = [
        // A file that is read over NFS, or may not be changed.
        &[("unlink", ".partial-old", Errno::ENOTEMPTY)],
        &[("unlink", ".partial-old", Errno::EPERM)],
        // A directory of a lower layer of an overlay; its files can be removed one by one.
        &[("rename", "step-000000", Errno::EXDEV)],
        &[("rename", "step-00000010", Errno::EBUSY), ("unlink", "step-00000010", Errno::EBUSY)],
        &[("rename", "step-00000010", Errno::EXDEV), ("unlink", "step-00000010/m", Errno::EBUSY)],
    ];
    for (case, faults) in cases.into_iter().enumerate() {
        let run = format!("run {case}");
        copy(&project.path("run"), &project.path(&run));
        let train = ["train", "--resume", &run, "--set", "train.keep=1", "--set"];
        let mut command = project.program(&[&train[..], &["train.steps=40"]].concat());
        let faults: Vec<_> = faults.iter().map(|&(call, path, error)| (call, path, error as i32)).collect();
        inject(&mut command, &faults);
        let output = command.output().expect("it runs");
        let told = said(&output);
        assert!(output.status.success(), "{faults:?}: {told}");
        let left = names(&project, &run);
        assert_eq!(left.last().map(String::as_str), Some("step-00000040"), "{faults:?}: {left:?}");
        // What cannot be removed is told, and the next one to save removes it.
        assert_eq!(left.len() > 1, told.contains("the next checkpoint tries again"), "{left:?}: {told}");
        assert_eq!(left.len() > 1, case != 2, "{faults:?}: {left:?}");
        project.succeed(&[&train[..], &["train.steps=42"]].concat());
        assert_eq!(names(&project, &run), ["step-00000042"], "{faults:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_goes_back_where_directories_cannot_be_renamed() {
    let project = Project::trained();
    let whole = project.losses("run");
    let mut command = project.program(&["train", "--resume", "run", "--at", "10"]);
    inject(&mut command, &[("rename", "checkpoints/step-00000020", nix::errno::Errno::EXDEV as i32)]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(names(&project, "run"), ["aside-step-00000020", "step-00000010", "step-00000020"]);
    for name in FILES {
        assert!(project.path("run/checkpoints/aside-step-00000020").join(name).is_file(), "{name}");
    }
    assert_eq!(project.losses("run"), whole);
}

/// What fails while a run writes and reads is told after the last step is saved, and the run goes on from there.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fails_costs_no_step() {
    use nix::errno::Errno;
    for (call, path, error) in [
        ("write", "metrics.jsonl", Errno::EDQUOT),
        ("write", "cursors.jsonl", Errno::EIO),
        ("read", "corpus/", Errno::ESTALE),
    ] {
        let project = Project::new();
        let mut command = project.program(&["train", "run.toml", "--json", "--set", "train.steps=1000000"]);
        command.args(["--set", "train.checkpoint_every=0", "--set", "train.trail_every=1"]);
        inject(&mut command, &[(call, path, error as i32)]);
        command.env("FAULTS_WHEN", project.path("now"));
        let mut run = Running::new(command);
        let reached = run.step(3);
        fs::write(project.path("now"), "").expect("written");
        let (code, told) = run.end();
        assert_eq!(code, Some(1), "{path}: {told}");
        assert!(told.contains("saved run/checkpoints/step-") && told.contains(path), "{path}: {told}");
        assert!(super::told(&told).ends_with(" train --resume run"), "{path}: {told}");
        let step = |name: &String| name["step-".len()..].parse::<u64>().expect("a step");
        let saved = names(&project, "run").last().map(step).expect("a checkpoint");
        assert!(saved >= reached, "{path}: {saved} {reached}");
        project.succeed(&["train", "--resume", "run", "--set", &format!("train.steps={}", saved + 2)]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_goes_on_without_tensorboard() {
    let project = Project::new();
    let mut command = project.program(&["train", "run.toml", "--set", "train.tensorboard=true"]);
    command.args(["--set", "train.sample_tokens=4", "--set", "train.prompt=file"]);
    inject(&mut command, &[("write", "tfevents", nix::errno::Errno::EDQUOT as i32)]);
    let output = command.output().expect("it runs");
    let told = said(&output);
    assert!(
        output.status.success() && told.matches("the run goes on without TensorBoard").count() == 1,
        "{told}"
    );
    assert_eq!(project.losses("run").len(), 20);
    let samples = fs::read_to_string(project.path("run/samples.jsonl")).expect("samples");
    assert_eq!(samples.lines().count(), 1, "{samples}");
    assert_eq!(told.matches("samples.jsonl").count(), 1, "{told}");
}

#[test]
fn a_save_that_finds_no_room_leaves_nothing_and_more_than_are_kept_make_room_before_it() {
    let project = Project::trained();
    let names = || names(&project, "run");
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    // A run that goes on has its leftovers' room before it saves, even if it is at its end.
    fs::create_dir(project.path("run/checkpoints/.partial-00000030")).expect("made");
    project.succeed(&["train", "--resume", "run"]);
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    // No file may be as large as the moments, and a write beyond that is an error, as on a full disk.
    let arguments = ["train", "--resume", "run", "--set", "train.steps=30"];
    let program = env!("CARGO_BIN_EXE_millstream");
    let limited = ["-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "bash", program];
    let output = project.in_here("bash", &[&limited[..], &arguments].concat()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(names(), ["step-00000010", "step-00000020"]);
    let fewer = ["--set", "train.keep=1"];
    let output =
        project.in_here("bash", &[&limited[..], &arguments, &fewer].concat()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(names(), ["step-00000020"]);
    project.succeed(&arguments);
    assert_eq!(names().last().expect("one"), "step-00000030");
}
