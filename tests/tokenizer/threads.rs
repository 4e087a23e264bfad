//! What engines take of the machine: no threads of their own, and memory that does not grow. Both are counted for a
//! whole process, so that a child process encodes.

use std::path::Path;
use std::process::Command;

use millstream::config::SpecialTokens;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::HfTokenizer;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the threads").count()
}

/// What the process has in memory, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

/// Words that come once: letters by a generator, so that no cache of words ever sees one again.
fn fresh(state: &mut u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (mut letters, length) = (*state >> 20, 3 + (*state >> 60) as usize);
        for _ in 0..length {
            text.push(char::from(b'a' + (letters % 26) as u8));
            letters /= 26;
        }
        text.push(' ');
    }
    text
}

#[test]
fn engines_start_no_threads_and_their_memory_is_bounded() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output =
        child.args(["--exact", "threads::encode", "--ignored", "--nocapture"]).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
#[ignore = "another test starts it as its child"]
fn encode() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizers/gate");
    let mut state = 1;
    // "digits-2" runs on the reference.
    for name in ["cl100k", "gpt2", "digits-2"] {
        let before = threads();
        let tokenizer =
            HfTokenizer::from_file(gate.join(format!("{name}.json")), SpecialTokens::Text).expect(name);
        let is_slow = name == "digits-2";
        let (mut ids, mut most) = (Vec::with_capacity(1 << 20), 0);
        let mut encode = |bytes: usize, state: &mut u64| {
            ids.clear();
            tokenizer.encode(&fresh(state, bytes), &mut ids).expect("ids");
            most = most.max(threads());
        };
        // Long enough for an engine that would share one text out.
        encode(if is_slow { 200 << 10 } else { 1 << 20 }, &mut state);
        let rounds = if is_slow { 8 } else { 160 };
        let mut after = Vec::new();
        for _ in 0..4 {
            (0..rounds).for_each(|_| encode(32 << 10, &mut state));
            // Lines, enough of them that the engine is chosen for lines.
            (0..40 * rounds).for_each(|_| encode(80, &mut state));
            after.push(resident());
        }
        assert_eq!(most, before, "{name}: threads while it encodes");
        let grown = after[3].saturating_sub(after[1]);
        assert!(grown < 24 << 20, "{name}: {after:?}");
    }
}
