//! What a server says with a refusal, in a few words: of JSON and XML the message, of other text the beginning, of a page
//! for a browser nothing.

use serde_json::Value;

use super::odd_keys::unescaped;
use crate::excerpt::cut;

/// The most characters that are shown.
const MOST: usize = 200;

/// What to do about a server in trouble.
pub(super) const LATER: &str = "; try again later, or raise store.deadline";

/// The message in the body of a refusal; empty if there is none.
pub(super) fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = match text.trim_start().chars().next() {
        Some('<') => of_xml(&text),
        Some('{') => serde_json::from_slice(body).ok().and_then(|json| of_json(&json)),
        _ => None,
    };
    let is_markup = text.trim_start().starts_with('<');
    let message = message.unwrap_or_else(|| if is_markup { String::new() } else { text.into_owned() });
    let words: Vec<&str> = message.split_whitespace().collect();
    cut(&words.join(" "), MOST).into_owned()
}

/// The message of an object such as `{"error": {"message": "…"}}`.
fn of_json(json: &Value) -> Option<String> {
    let said = ["message", "error", "detail"].iter().find_map(|key| json.get(key))?;
    said.as_str().map(str::to_owned).or_else(|| of_json(said))
}

/// The code and the message of an error of S3, Google or Azure.
fn of_xml(text: &str) -> Option<String> {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(unescaped(rest.split_once(&format!("</{name}>"))?.0))
    };
    Some(format!("{}: {}", element("Code")?, element("Message")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_few_words_and_never_a_page() {
        let long = "word ".repeat(100);
        for (body, words) in [
            ("", ""),
            (" no such\n file ", "no such file"),
            ("<!DOCTYPE html>\n<html><body>404</body></html>", ""),
            ("\n<html>", ""),
            ("<Error><Code>NoSuchKey</Code><Message>a &lt; b</Message></Error>", "NoSuchKey: a < b"),
            (r#"{"error": {"code": 404, "message": "none"}}"#, "none"),
            (r#"{"error": "none"}"#, "none"),
            (r#"{"code": 4}"#, r#"{"code": 4}"#),
            ("{", "{"),
            (&long, &format!("{}…", &long[..MOST])),
        ] {
            assert_eq!(said(body.as_bytes()), words, "{body}");
        }
    }
}
