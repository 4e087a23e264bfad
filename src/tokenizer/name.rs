//! Names a tokenizer in errors when only its fingerprint is known.

/// How many digits of a file's digest are shown.
const TOLD: usize = 8;

/// A name for the tokenizer with this fingerprint; for a file, with the beginning of its digest.
pub(crate) fn name_of(fingerprint: &str) -> String {
    match of_file(fingerprint) {
        Some((digest, mode)) => format!("file {}\u{2026} (special_tokens = {mode:?})", &digest[..TOLD]),
        None => fingerprint.to_owned(),
    }
}

/// The digest of a tokenizer's file, and its treatment of special tokens. `None` for bytes and custom tokenizers.
fn of_file(fingerprint: &str) -> Option<(&str, &str)> {
    let (digest, mode) = fingerprint.split_once('/')?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_digest && matches!(mode, "text" | "parse")).then_some((digest, mode))
}

/// If the stored ids were made by `made` and the config's tokenizer is another one, `now`: says so, and how to set
/// `[tokenizer]`.
pub(crate) fn difference(made: &str, now: &str) -> Option<String> {
    if made == now {
        return None;
    }
    let remedy = match of_file(made).zip(of_file(now)) {
        Some(((one, mode), (other, _))) if one == other => format!("set tokenizer.special_tokens = {mode:?}"),
        _ => "leave `path`, `train` and `kind` out of [tokenizer], so that the stored one is used".to_owned(),
    };
    let (made, now) = (name_of(made), name_of(now));
    Some(format!("made by the tokenizer {made}, and the config's is {now}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_the_beginning_of_its_digest() {
        let digest = "0247a626".to_owned() + &"c".repeat(56);
        let [text, parse] = ["text", "parse"].map(|mode| format!("{digest}/{mode}"));
        assert_eq!(name_of(&text), "file 0247a626\u{2026} (special_tokens = \"text\")");
        for other in ["bytes", "other", "a/text", "", "ä/parse"] {
            assert_eq!(name_of(other), other);
        }
        assert_eq!(difference(&text, &text), None);
        let of = |now: &str| difference(&text, now).expect("they differ");
        assert!(of("bytes").contains("and the config's is bytes; leave `path`, `train` and `kind` out"));
        assert!(of(&parse).ends_with("; set tokenizer.special_tokens = \"text\""), "{}", of(&parse));
    }
}
