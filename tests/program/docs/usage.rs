//! Commands of the program that a page names and a test cannot run: whether there are such commands and flags.

use std::collections::BTreeMap;
use std::process::Command;

/// What the program says of each of its commands, asked once.
#[derive(Default)]
pub(crate) struct Help {
    said: BTreeMap<Vec<String>, String>,
}

impl Help {
    /// What is wrong with the calls of `millstream` in a shell block.
    pub(crate) fn problems(&mut self, text: &str) -> Vec<String> {
        calls(text).iter().filter_map(|call| self.problem(call)).collect()
    }

    fn problem(&mut self, words: &[String]) -> Option<String> {
        let mut command = Vec::new();
        for word in words {
            let flag = word.split('=').next().unwrap_or(word);
            if flag.starts_with('-') && flag != "-" {
                if !flags(self.of(&command)).any(|known| known == flag) {
                    return Some(format!("`millstream {}` has no flag {flag}", command.join(" ")));
                }
            } else if commands(self.of(&command)).next().is_some() {
                if !commands(self.of(&command)).any(|known| known == word) {
                    return Some(format!("`millstream {}` has no command {word}", command.join(" ")));
                }
                command.push(word.clone());
            }
        }
        None
    }

    fn of(&mut self, command: &[String]) -> &str {
        self.said.entry(command.to_vec()).or_insert_with(|| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_millstream"));
            let output = program.args(command).arg("--help").output().expect("the program runs");
            assert!(output.status.success(), "millstream {} --help", command.join(" "));
            String::from_utf8(output.stdout).expect("help is UTF-8")
        })
    }
}

/// The words behind the program's name in each call of it, by its name or through `cargo run`.
fn calls(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let uncommented = joined.lines().map(|line| line.split(" #").next().unwrap_or(line));
    let commands = uncommented.flat_map(|line| line.split(['|', ';', '&', '(', ')', '`']));
    let mut calls = Vec::new();
    for command in commands.filter(|command| !command.trim_start().starts_with('#')) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let start = match words[..] {
            ["cargo", "run", ..] if !words.contains(&"--example") => {
                words.iter().position(|word| *word == "--")
            }
            ["cargo" | "git" | "cd", ..] => None,
            _ => words.iter().position(|word| *word == "millstream" || word.ends_with("/millstream")),
        };
        let Some(start) = start else { continue };
        let redirected = |word: &&&str| !word.starts_with(['>', '<']) && !word.starts_with("2>");
        calls.push(words[start + 1..].iter().take_while(redirected).map(|word| (*word).to_owned()).collect());
    }
    calls
}

/// The flags that a command's help lists, short ones and long ones.
fn flags(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    lines.flat_map(|line| {
        let words = line.split([' ', ',', '=', '[']);
        words
            .take_while(|word| word.is_empty() || word.starts_with('-') || word.starts_with('<'))
            .filter(|word| word.starts_with('-'))
    })
}

/// The commands that a command's help lists: before its options, and indented.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed =
        help.lines().take_while(|line| *line != "Options:").filter_map(|line| line.strip_prefix("  "));
    let named = listed.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    named.filter_map(|line| line.split_whitespace().next())
}

#[test]
fn what_is_not_there_is_told() {
    let mut help = Help::default();
    let good = "millstream train run.toml --set a.b=1 --json | head -3\nmpirun -n 2 millstream cursor merge a -o b\n\
                cargo run --release -- bench loader x.toml \\\n    --consume-ms 20 > out --none  # --no\n# millstream fly\n\
                cargo add millstream --path ..\ncargo run --example fly -- --none\n";
    assert_eq!(help.problems(good), [""; 0]);
    assert_eq!(help.problems("x && millstream train a --fast"), ["`millstream train` has no flag --fast"]);
    assert_eq!(help.problems("cargo run -- fly"), ["`millstream ` has no command fly"]);
    assert_eq!(help.problems("./millstream cursor fly"), ["`millstream cursor` has no command fly"]);
}
