//! Every program in `examples/` runs and says what it should.

use std::process::Command;

use crate::support;

/// Each runs in the crate's directory, as the README has it.
fn run(example: &str) -> String {
    let mut program = Command::new(support::examples::example(example));
    let output = program.current_dir(crate::support::root()).output().expect("the example runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{example}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn minimal() {
    assert!(run("minimal").starts_with("20 batches, 10240 tokens, "));
}

#[test]
fn resume() {
    assert_eq!(run("resume"), "batches 5 to 10 are the same after the resume\n");
}

#[test]
fn custom_stages() {
    assert!(run("custom_stages").starts_with("the stages keep the laws of order and resume\n"));
}

#[test]
fn deduplicate() {
    let output = run("deduplicate");
    let (law, count) = output.split_once('\n').expect("two lines");
    assert_eq!(law, "the stage keeps the laws of order and resume");
    let numbers: Vec<u64> = count.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 1000 && numbers[0] < numbers[1], "{output}");
}

#[test]
fn drop_by_tokens() {
    let output = run("drop_by_tokens");
    let numbers: Vec<u64> = output.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 1000 && numbers[0] < numbers[1], "{output}");
    assert!(output.contains(" documents kept, "), "{output}");
}

#[test]
fn mask_tokens() {
    let output = run("mask_tokens");
    assert!(output.starts_with("15% of "), "{output}");
    assert!(output.ends_with("resumed after batch 10: the same masks\n"), "{output}");
}

#[test]
fn channel() {
    assert_eq!(run("channel"), "22 batches, 21778 tokens out of channels\n12 batches after batch 10\n");
}

#[test]
fn records() {
    let output = run("records");
    assert!(output.ends_with(" of them read again after a resume\n"), "{output}");
}

#[test]
fn lstm() {
    let output = run("lstm");
    let (sessions, losses) = output.split_once('\n').expect("lines");
    assert_eq!(sessions, "steps 1 to 5 and 6 to 12, in two sessions");
    assert!(losses.starts_with("the loss is ") && losses.contains(" in both runs\n"), "{output}");
}

#[test]
fn training_loop() {
    let output = run("training_loop");
    let losses: Vec<f64> = output
        .lines()
        .filter_map(|line| line.split("loss ").nth(1)?.split_whitespace().next()?.parse().ok())
        .collect();
    assert!(losses.len() >= 4, "{output}");
    assert!(losses[losses.len() - 1] < losses[0] - 0.5, "the loss falls: {output}");
}
