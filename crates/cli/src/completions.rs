//! `millstream completions`: a script that completes the program's commands and options in a shell.

use clap::{Args, Command, CommandFactory};
use clap_complete::{Shell, generate};
use serde_json::json;

use super::{NAME, print_json, print_text};
use millstream::Result;

pub(super) const HELP: &str = "\
Example: bash, in this shell
  source <(millstream completions bash)
Example: bash, zsh and fish, in every shell from now on
  mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream
  millstream completions zsh > \"${fpath[1]}/_millstream\"
  millstream completions fish > ~/.config/fish/completions/millstream.fish";

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, json: bool) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut visible(), NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if json {
        return print_json(&json!({ "shell": args.shell.to_string(), "script": script }));
    }
    print_text(&script)
}

/// The program without its hidden commands, which scripts would complete too.
fn visible() -> Command {
    let all = super::Args::command();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}
