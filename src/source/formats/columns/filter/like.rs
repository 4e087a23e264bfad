//! SQL's `like`: `%` is any text, `_` any character, and what stands after a backslash is itself.

use memchr::memmem;

/// Whether a text has the form of a pattern, in the same or any case.
pub(super) fn like(mut text: &str, mut pattern: &str, any_case: bool) -> bool {
    // What is behind the last `%`, and from where on it is looked for.
    let mut sought: Option<(&str, &str)> = None;
    loop {
        let (mut here, mut wanted) = (text.chars(), pattern.chars());
        let is_same = match (wanted.next(), here.next()) {
            (None, None) => return true,
            (Some('%'), _) => {
                sought = Some((wanted.as_str(), text));
                false
            }
            (Some('_'), Some(_)) => true,
            (Some('\\'), Some(found)) => is_letter(found, wanted.next().unwrap_or('\\'), any_case),
            (Some(wanted), Some(found)) => is_letter(found, wanted, any_case),
            _ => false,
        };
        if is_same {
            (text, pattern) = (here.as_str(), wanted.as_str());
            continue;
        }
        let Some((behind, from)) = sought else { return false };
        if behind.is_empty() {
            return true;
        }
        let word = &behind[..behind.find(['%', '_', '\\']).unwrap_or(behind.len())];
        let found = if any_case { Some(0) } else { memmem::find(from.as_bytes(), word.as_bytes()) };
        let Some(found) = found else { return false };
        (text, pattern) = (&from[found..], behind);
        // If it is not here, it is looked for one character further on.
        let next = text.chars().next().map_or(0, char::len_utf8);
        sought = (next > 0).then(|| (behind, &text[next..]));
    }
}

fn is_letter(one: char, other: char, any_case: bool) -> bool {
    match any_case {
        true if one.is_ascii() && other.is_ascii() => one.eq_ignore_ascii_case(&other),
        true => one.to_lowercase().eq(other.to_lowercase()) || one.to_uppercase().eq(other.to_uppercase()),
        false => one == other,
    }
}
