//! Commands that messages tell you to run.

use std::borrow::Cow;
use std::path::Path;

/// The command that resumes the run in `root`, with more arguments.
pub(super) fn resume(root: &Path, arguments: &[&str]) -> String {
    let root = root.to_string_lossy();
    command(["train", "--resume", &*root].into_iter().chain(arguments.iter().copied()))
}

/// The command that shows a batch.
pub(super) fn inspect(config: &Path, batch: u64) -> String {
    command(["inspect", &*config.to_string_lossy(), "--batch", &batch.to_string()])
}

/// A command between backticks, quoted for a shell.
fn command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    // Only a zero byte cannot be quoted, and no argument has one.
    let quoted = arguments.into_iter().map(|word| shlex::try_quote(word).unwrap_or(Cow::Borrowed(word)));
    let words: Vec<Cow<str>> = ["millstream".into()].into_iter().chain(quoted).collect();
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        assert_eq!(resume(Path::new("runs/a"), &[]), "`millstream train --resume runs/a`");
        assert_eq!(
            resume(Path::new("my runs"), &["--at", "5"]),
            "`millstream train --resume 'my runs' --at 5`"
        );
    }
}
