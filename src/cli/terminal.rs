//! What standard error can show: colors, lines that are drawn over, and how many characters fit in a line.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use terminal::Term;

/// The width of a terminal that does not tell its own.
const WIDTH: usize = 80;

/// Whether colors are wanted there: it is a terminal that has them, and `NO_COLOR` is not set.
pub(super) fn has_colors() -> bool {
    let refused = env::var_os("NO_COLOR");
    io::stderr().is_terminal() && has_escapes(env::var_os("TERM").as_deref()) && !is_set(refused.as_deref())
}

/// How many characters a line has. A full last column would make some terminals begin another line.
pub(super) fn width() -> usize {
    let columns = Term::stderr().size_checked().map_or(WIDTH, |(_, columns)| usize::from(columns));
    columns.saturating_sub(1).max(1)
}

/// Whether a terminal of this kind reads escapes.
fn has_escapes(term: Option<&OsStr>) -> bool {
    match term {
        Some(term) => term != "dumb",
        // Windows does not set it.
        None => cfg!(windows),
    }
}

/// By the convention of no-color.org, nothing is the same as unset.
fn is_set(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_has_no_escapes_and_an_empty_variable_is_none() {
        assert!(has_escapes(Some(OsStr::new("xterm-256color"))) && !has_escapes(Some(OsStr::new("dumb"))));
        assert!(is_set(Some(OsStr::new("1"))) && !is_set(Some(OsStr::new(""))) && !is_set(None));
    }
}
