//! Reads the text of a JSON object that has it in a top-level field, as most lines do.
//!
//! It takes one pass, and writes the text straight to its destination. Anything more difficult (a key with an escape, a
//! text that is not a string, half a character, anything that is not JSON) is left to serde_json, which reports it.

use serde::de::IgnoredAny;

/// Appends the string at `key`, if the line is exactly one object that has it. Otherwise ignore what was appended.
pub(super) fn text(line: &str, key: &str, out: &mut String) -> Option<()> {
    let (mut rest, start) = (LineRest(line), out.len());
    let mut found = None;
    rest.token(b'{')?;
    loop {
        rest.token(b'"')?;
        let name = rest.plain()?;
        rest.token(b':')?;
        if name == key {
            // Of equal keys the last counts.
            out.truncate(start);
            rest.token(b'"')?;
            found = Some(rest.string(|text| out.push_str(text))?);
        } else {
            rest.skip_value()?;
        }
        if rest.token(b',').is_none() {
            break;
        }
    }
    rest.token(b'}')?;
    rest.space();
    if rest.0.is_empty() { found } else { None }
}

struct LineRest<'a>(&'a str);

impl<'a> LineRest<'a> {
    fn space(&mut self) {
        if self.0.as_bytes().first().is_some_and(|&byte| byte <= b' ') {
            self.0 = self.0.trim_start_matches([' ', '\n', '\t', '\r']);
        }
    }

    /// Takes one ASCII character, after any space.
    #[inline]
    fn token(&mut self, wanted: u8) -> Option<()> {
        self.space();
        (*self.0.as_bytes().first()? == wanted).then(|| self.0 = &self.0[1..])
    }

    /// Takes characters up to a quote, a backslash or a control character, and that one too.
    fn run(&mut self) -> Option<(&'a str, u8)> {
        let end = special(self.0.as_bytes())?;
        let (run, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some((run, rest.as_bytes()[0]))
    }

    /// Takes the rest of a string that has no escapes.
    fn plain(&mut self) -> Option<&'a str> {
        let (run, end) = self.run()?;
        (end == b'"').then_some(run)
    }

    /// Takes the rest of a string, in pieces.
    fn string(&mut self, mut piece: impl FnMut(&str)) -> Option<()> {
        loop {
            let (run, end) = self.run()?;
            piece(run);
            match end {
                b'"' => return Some(()),
                b'\\' => piece(self.escaped()?.encode_utf8(&mut [0; 4])),
                _ => return None,
            }
        }
    }

    /// Takes what follows a backslash.
    fn escaped(&mut self) -> Option<char> {
        let kind = *self.0.as_bytes().first()?;
        // Only ASCII characters are escapes.
        let plain = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => return self.unicode(),
            _ => return None,
        };
        self.0 = &self.0[1..];
        Some(plain)
    }

    /// Takes a `u` and four digits, and a second such escape if the first is only half a character.
    fn unicode(&mut self) -> Option<char> {
        let first = self.unit()?;
        if let Some(char) = char::from_u32(first.into()) {
            return Some(char);
        }
        self.0 = self.0.strip_prefix('\\')?;
        char::decode_utf16([first, self.unit()?]).next()?.ok()
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.0.strip_prefix('u')?.get(..4)?;
        // A sign is not a digit, although numbers may have one.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.0 = &self.0[5..];
        u16::from_str_radix(digits, 16).ok()
    }

    fn skip_value(&mut self) -> Option<()> {
        if self.token(b'"').is_some() {
            return self.string(|_| ());
        }
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        self.0 = &self.0[values.byte_offset()..];
        Some(())
    }
}

/// The index of the first quote, backslash or control character. Looks at eight bytes at a time.
fn special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(8 * number + found.trailing_zeros() as usize / 8);
        }
    }
    let place = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))?;
    Some(8 * words.len() + place)
}

/// Sets the highest bit of each special byte. Ignore the bytes after the first such byte.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    // A byte below 128 that is less than `n` borrows from its highest bit.
    let less = |word: u64, n: u8| word.wrapping_sub(ONES * u64::from(n)) & !word;
    let equal = |byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    (less(word, b' ') | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Option<String> {
        let mut out = "kept ".to_owned();
        text(line, "text", &mut out).map(|()| out.split_off(5))
    }

    /// The result of serde_json.
    fn reference(line: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        value.as_object()?.get("text")?.as_str().map(str::to_owned)
    }

    /// Lines that are JSON, or nearly.
    fn line() -> impl Strategy<Value = String> {
        let parts = [
            "{", "}", ",", ":", "\"", "\"text\"", "\"text\":", "\"a\":", "{\"text\":\"", "\"}", "[1,{}]",
            "\"text\": \"first\", ", "-1.5e3", "01", "null", "tru", " ", "\t", "\u{a0}", "\\", "\\n", "\\\"",
            "\\/", "\\x", "\\u00e9", "\\u+0e9", "\\ud83d\\ude00", "\\ud83d", "\\u12", "x", "é", "漢字",
            "\u{1}", "\u{7f}", "abcdefgh",
        ];
        let loose = prop::collection::vec(prop::sample::select(parts.to_vec()), 0..12)
            .prop_map(|parts| parts.concat());
        let inner = prop::collection::vec(prop::sample::select(parts[19..].to_vec()), 0..12);
        let text = inner.prop_map(|parts| format!("{{\"a\": 1, \"text\": \"{}\" }}", parts.concat()));
        prop_oneof![loose, text]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn what_it_reads_is_what_serde_json_reads(line in line()) {
            if let Some(text) = read(&line) {
                prop_assert_eq!(Some(text), reference(&line));
            }
        }

        #[test]
        fn it_reads_all_that_programs_write(text in ".*", other in ".*", number in any::<f64>(), is_ascii in any::<bool>()) {
            let value = serde_json::json!({ "a": other, "n": [number, { "text": other }], "text": text, "z": number });
            let mut line = value.to_string();
            if is_ascii {
                let mut units = [0; 2];
                let escaped = |char: char| match char.is_ascii() {
                    true => char.to_string(),
                    false => char.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
                };
                line = line.chars().map(escaped).collect();
            }
            prop_assert_eq!(read(&line), Some(text));
        }

        #[test]
        fn the_first_special_byte_is_found(bytes in prop::collection::vec(prop_oneof![any::<u8>(), b'!'..=b'~'], 0..40)) {
            let expected = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(special(&bytes), expected);
        }
    }
}
