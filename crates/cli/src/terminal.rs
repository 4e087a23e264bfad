//! The abilities of a terminal: colors, redrawn lines, how many characters fit in a line, and names of any bytes.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use terminal::Term;

/// The width of a terminal that does not tell it.
const WIDTH: usize = 80;

/// Whether standard error is a terminal that can redraw a line.
pub(super) fn draws() -> bool {
    io::stderr().is_terminal() && has_escapes(env::var_os("TERM").as_deref())
}

/// Whether standard error has colors.
pub(super) fn has_colors() -> bool {
    io::stderr().is_terminal() && takes_colors()
}

pub(super) fn output_has_colors() -> bool {
    io::stdout().is_terminal() && takes_colors()
}

/// Whether the kind of terminal has colors, and `NO_COLOR` is not set.
pub(super) fn takes_colors() -> bool {
    has_escapes(env::var_os("TERM").as_deref()) && !is_set(env::var_os("NO_COLOR").as_deref())
}

/// How many characters fit in a line: one less than its columns, because some terminals wrap a full line.
pub(super) fn width() -> usize {
    let columns = Term::stderr().size_checked().map_or(WIDTH, |(_, columns)| usize::from(columns));
    columns.saturating_sub(1).max(1)
}

/// The text with its control characters escaped. Names of files and columns may have any, and a terminal would obey them.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    written_out(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

/// As [`shown`], on one line.
pub(super) fn on_a_line(text: &str) -> Cow<'_, str> {
    written_out(text, char::is_control)
}

fn written_out(text: &str, is_obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_obeyed) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_obeyed(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Whether a terminal of this kind reads escapes.
fn has_escapes(term: Option<&OsStr>) -> bool {
    match term {
        Some(term) => term != "dumb",
        // Windows does not set it. Asking for colors turns escapes on there.
        None => cfg!(windows) && Term::stderr().features().colors_supported(),
    }
}

/// Whether `NO_COLOR` is set. By the convention of no-color.org, an empty value does not count.
fn is_set(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
}
