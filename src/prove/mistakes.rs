//! Names for texts that are not what the template renders.

use super::fault::{FaultKind, Finding};
use crate::excerpt::excerpt;

/// The fault of ids that stand for `found` and not for `text`. `one_by_one` is the text of messages that were rendered
/// one by one.
pub(super) fn named(text: &str, found: &str, one_by_one: impl FnOnce() -> Option<String>) -> Finding {
    let common = text.bytes().zip(found.bytes()).take_while(|(a, b)| a == b).count();
    let start = text.floor_char_boundary(common).min(found.floor_char_boundary(common));
    let (rendered, delivered) = (excerpt(&text[start..]), excerpt(&found[start..]));
    let (kind, what) = match () {
        () if is_doubled(text, found) => {
            (FaultKind::DoubleBos, "the token that begins the text stands there twice")
        }
        () if found != text && without_nulls(found) == text => (
            FaultKind::NullArguments,
            "arguments that are null only because the table has their column are rendered",
        ),
        () if one_by_one().is_some_and(|apart| apart == found) => {
            (FaultKind::RenderedApart, "each message was rendered as a conversation of its own")
        }
        () => (FaultKind::OtherText, "the ids stand for another text than the template renders"),
    };
    let problem = format!("{what}: {delivered:?} instead of {rendered:?}");
    Finding { kind, bytes: start..text.len(), message: None, problem }
}

/// Whether the beginning of `text`, a word in brackets, stands twice before the rest.
fn is_doubled(text: &str, found: &str) -> bool {
    found.strip_suffix(text).is_some_and(|more| !more.is_empty() && text.starts_with(more))
}

/// The text without fields of JSON objects that are null.
fn without_nulls(text: &str) -> String {
    let (mut left, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once("null") {
        left.push_str(before);
        rest = behind;
        match field(&left) {
            Some(start) if left[..start].ends_with(',') => left.truncate(start - 1),
            Some(start) if left[..start].ends_with('{') => {
                left.truncate(start);
                rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
            }
            _ => left.push_str("null"),
        }
    }
    left + rest
}

/// Where the name of a field begins that the text ends with, and the white space before it.
fn field(text: &str) -> Option<usize> {
    let name = text.trim_end().strip_suffix(':')?.trim_end().strip_suffix('"')?;
    Some(name[..name.rfind('"')?].trim_end().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_null_leave_with_their_commas() {
        let cases = [
            (r#"{"a": 1, "b": null}"#, r#"{"a": 1}"#),
            (r#"{"a": null, "b": 1}"#, r#"{"b": 1}"#),
            (r#"{"a": null}"#, "{}"),
            (r#"{"a": null, "b": null}"#, "{}"),
            ("a null of text", "a null of text"),
            (r#"{"a": [null]}"#, r#"{"a": [null]}"#),
        ];
        for (text, without) in cases {
            assert_eq!(without_nulls(text), without);
        }
        let kind = |found: &str| named(r#"{"a": 1}"#, found, || None).kind;
        assert_eq!(kind(r#"{"a": 1, "b": null}"#), FaultKind::NullArguments);
        assert_eq!(kind(r#"{"a": 1}"#), FaultKind::OtherText);
    }
}
