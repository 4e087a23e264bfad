//! `millstream config`: the keys of a config.

use clap::Subcommand;

use super::{RunConfig, print_json, print_line};
use millstream::Result;

pub(super) const HELP: &str = "\
Example: keys, values and defaults in an editor, as you type
  millstream config schema > schema.json

Then begin the config beside it with the line

  #:schema schema.json

Even Better TOML in VS Code, and any editor that runs Taplo, reads that line. In YAML the line is
# yaml-language-server: $schema=schema.json";

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the JSON Schema of config files.
    #[command(after_help = HELP)]
    Schema,
}

pub(super) fn run(command: &ConfigCommand, json: bool) -> Result<()> {
    match command {
        ConfigCommand::Schema if json => print_json(&RunConfig::schema()),
        ConfigCommand::Schema => print_line(&format!("{:#}", RunConfig::schema())),
    }
}
