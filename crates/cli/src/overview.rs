//! The output of `millstream -h`: the commands in groups, by purpose, on one screen.

use std::fmt::Write;

use clap::Command;

/// The groups: their purpose, and the first command of each. The other commands of a group follow it, in the program's
/// order.
const GROUPS: [(&str, &str); 4] = [
    ("Begin", "init"),
    ("Train", "train"),
    ("Prepare data", "tokenizer"),
    ("Look, prove and measure", "inspect"),
];

/// The template of the program's help. clap has no headings among commands.
pub(super) fn template(program: &Command) -> String {
    let head = program.get_styles().get_header();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\n{head}Options:{head:#}\n{{options}}{{after-help}}",
        list(program)
    )
}

/// The commands with their descriptions, below the heads of their groups.
fn list(program: &Command) -> String {
    let styles = program.get_styles();
    let (head, literal) = (styles.get_header(), styles.get_literal());
    let commands = || program.get_subcommands().filter(|command| !command.is_hide_set());
    let width = commands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut list = String::new();
    for command in commands() {
        let name = command.get_name();
        let (about, gap) = (command.get_about().cloned().unwrap_or_default(), width - name.len());
        // Writing to a string cannot fail.
        if let Some((title, _)) = GROUPS.iter().find(|(_, first)| *first == name) {
            let _ = writeln!(list, "{head}{title}:{head:#}");
        }
        let _ = writeln!(list, "  {literal}{name}{literal:#}{:gap$}  {about}", "");
    }
    list
}
