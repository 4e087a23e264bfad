//! What the lines of a run's metrics say of its memory and its stages.

use super::*;

#[test]
fn logged_lines_have_the_memory_and_what_the_stages_did() {
    let project = Project::new();
    let output = project.program(&["train", "run.toml", "--json", "--set", "train.log_every=4"]);
    let output = { output }.output().expect("it runs");
    succeeded(&output);
    let lines = project.metrics("run");
    let steps: Vec<&Value> = lines.iter().filter(|line| line["loss"].is_number()).collect();
    assert_eq!(steps.len(), 5);
    for line in &steps {
        let memory = line["memory"].as_u64();
        // More than the program's own code, and less than the machine.
        assert!(!cfg!(target_os = "linux") || memory.is_some_and(|bytes| bytes > 4 << 20), "{line}");
        let stages = line["stages"].as_object().expect("stages");
        let names: Vec<&str> = stages.keys().map(String::as_str).collect();
        assert_eq!(names, ["batch", "pack", "prefetch", "shuffle", "source", "tokenize"]);
        for (name, stage) in stages {
            for field in ["busy", "waiting"] {
                let share = stage[field].as_f64().expect("a share");
                assert!((0.0..=1.0).contains(&share), "{name}: {stage}");
            }
        }
        assert!(stages["prefetch"]["queue"].is_number(), "{line}");
    }
    let busy = |line: &&&Value| line["stages"]["tokenize"]["busy"].as_f64().expect("a share") > 0.0;
    assert!(steps.iter().any(|line| busy(&line)), "{steps:?}");
    // `--json` prints the same lines.
    let printed = String::from_utf8(output.stdout).expect("text");
    let printed: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(printed[..lines.len()], lines);
}

#[test]
fn a_line_without_them_still_reads() {
    let line = r#"{"step":5,"loss":3.5,"lr":0.1,"grad_norm":1.0,"tokens":10,"tokens_per_second":9.0,"wait_share":0.5,"seconds":1.0}"#;
    let report: StepReport = serde_json::from_str(line).expect("a report");
    assert_eq!((report.step, report.memory, report.stages), (5, None, None));
}
