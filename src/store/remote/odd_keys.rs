//! Keys that the library cannot name, and fails a whole listing for: `a//b`, `./a`, `../a`, a tab. And those of
//! directories, `a/`, which it would take for files.
//!
//! An answer that lists such keys is changed before the library reads it: each key is replaced by a stand-in name.

use std::borrow::Cow;

use object_store::path::Path;

/// The first character of stand-in names: one for private use.
const MARK: char = '\u{E0DD}';

/// The elements of a listing that hold keys: of S3 and Google, and of Azure.
const ELEMENTS: [[&str; 2]; 3] = [["<Key>", "</Key>"], ["<Prefix>", "</Prefix>"], ["<Name>", "</Name>"]];

/// The listing with stand-in names for its odd keys. Other answers stay as they are.
pub(super) fn replaced(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    let head = text.get(..text.floor_char_boundary(512))?;
    if !head.contains("<ListBucketResult") && !head.contains("<EnumerationResults") {
        return None;
    }
    let replaced = ELEMENTS.iter().fold(Cow::Borrowed(text), |text, [open, close]| {
        let mut parts = text.split(open);
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (key, rest) = part.split_once(close).unwrap_or((part, ""));
            let plain = unescaped(key);
            // The object that some programs make for a directory is no file.
            let is_directory = *open == "<Key>" && plain.ends_with('/');
            let name = if is_directory { Some(named(&plain)) } else { stand_in(&plain) };
            let name = name.map_or(Cow::Borrowed(key), Cow::Owned);
            let end = if key.len() < part.len() { close } else { &"" };
            for piece in [open, &*name, end, rest] {
                whole.push_str(piece);
            }
        }
        whole.into()
    });
    Some(replaced.into_owned())
}

/// The key that a listed name stands for, if it does.
pub(super) fn odd_key(name: &str) -> Option<String> {
    let numbers = name.strip_prefix(MARK)?.split('-');
    numbers.map(|number| u32::from_str_radix(number, 16).ok().and_then(char::from_u32)).collect()
}

/// The stand-in name of a key that the library cannot name.
pub(super) fn stand_in(key: &str) -> Option<String> {
    Path::parse(key).err().map(|_| named(key))
}

fn named(key: &str) -> String {
    let numbers: Vec<String> = key.chars().map(|at| format!("{:x}", u32::from(at))).collect();
    format!("{MARK}{}", numbers.join("-"))
}

/// The text of an XML element.
pub(super) fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or((part, ""));
        let number = |digits: &str| match digits.strip_prefix('x') {
            Some(hex) => u32::from_str_radix(hex, 16).ok().and_then(char::from_u32),
            None => digits.parse().ok().and_then(char::from_u32),
        };
        let named = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => name.strip_prefix('#').and_then(number),
        };
        plain.extend(named);
        plain.push_str(rest);
    }
    plain
}
