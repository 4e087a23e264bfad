//! Runs each target on the inputs that are kept for it.

use std::fs;
use std::path::Path;

use millstream_fuzz::TARGETS;

#[test]
fn kept_inputs_keep_all_promises() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap_or_else(|e| panic!("no inputs are kept for {name}: {e}"))
            .map(|entry| entry.expect("an input").path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "no inputs are kept for {name}");
        for input in &inputs {
            // Shown if the test fails.
            println!("{}", input.display());
            target(&fs::read(input).expect("an input"));
        }
    }
}

#[test]
fn each_target_has_a_program() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut programs: Vec<_> = fs::read_dir(directory)
        .expect("the programs")
        .map(|entry| entry.expect("a program").path().file_stem().expect("a name").display().to_string())
        .collect();
    programs.sort();
    assert_eq!(programs, TARGETS.map(|(name, _)| name));
}
