//! Paths of any bytes in JSON: a string, or `{"bytes": "…"}` with hexadecimal digits for a path that is not UTF-8.
//!
//! It is meant for fields: `#[serde(with = "crate::files::lossless")]`.

use std::ffi::{OsStr, OsString};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "expected a path: a string, or an object with its bytes")]
enum Stored {
    Text(String),
    Bytes { bytes: String },
}

pub(crate) fn serialize<P, S>(path: &P, serializer: S) -> Result<S::Ok, S::Error>
where
    P: AsRef<OsStr>,
    S: Serializer,
{
    let path = path.as_ref();
    match path.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => Stored::Bytes { bytes: to_hex(path.as_encoded_bytes()) }.serialize(serializer),
    }
}

pub(crate) fn deserialize<'de, P, D>(deserializer: D) -> Result<P, D::Error>
where
    P: From<OsString>,
    D: Deserializer<'de>,
{
    let path = match Stored::deserialize(deserializer)? {
        Stored::Text(text) => OsString::from(text),
        Stored::Bytes { bytes } => from_hex(&bytes)
            .and_then(from_bytes)
            .ok_or_else(|| D::Error::custom(format!("{bytes:?} are not the bytes of a path")))?,
    };
    Ok(P::from(path))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| (high << 4) | low).collect())
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes))
}

/// Other systems do not let these bytes back in, unless they are UTF-8.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Kept {
        #[serde(with = "crate::files::lossless")]
        path: PathBuf,
    }

    fn json(path: impl Into<PathBuf>) -> String {
        serde_json::to_string(&Kept { path: path.into() }).expect("any path can be written")
    }

    fn read(json: &str) -> Result<PathBuf, String> {
        serde_json::from_str(json).map(|kept: Kept| kept.path).map_err(|error| error.to_string())
    }

    #[test]
    fn text_is_a_string() {
        for path in ["a/b.txt", "é \"x\"\n", "", "{\"bytes\":\"ff\"}", "\u{fffd}", "s3://b//k"] {
            let written = json(path);
            assert_eq!(written, format!("{{\"path\":{}}}", serde_json::json!(path)));
            assert_eq!(read(&written).expect("a path").as_os_str(), path);
        }
    }

    #[cfg(unix)]
    #[test]
    fn other_bytes_are_kept() {
        use std::os::unix::ffi::OsStrExt;

        let all: Vec<u8> = (1..=255).collect();
        for bytes in [b"\xff.txt".as_slice(), b"\xfd.txt", &all] {
            let written = json(OsStr::from_bytes(bytes));
            assert_eq!(read(&written).expect("a path").as_os_str().as_bytes(), bytes);
        }
        assert_eq!(json(OsStr::from_bytes(b"a\xff\x0a")), "{\"path\":{\"bytes\":\"61ff0a\"}}");
    }

    #[test]
    fn nothing_else_is_read() {
        for path in ["1", "{}", "[97]", "null", "{\"bytes\":\"61\",\"more\":1}", "{\"bytes\":[97]}"] {
            let error = read(&format!("{{\"path\":{path}}}")).expect_err("no path");
            assert!(error.starts_with("expected a path"), "{path}: {error}");
        }
        for bytes in ["6", "+6", "6g", " 61"] {
            let error = read(&format!("{{\"path\":{{\"bytes\":\"{bytes}\"}}}}")).expect_err("no digits");
            assert!(error.contains("are not the bytes of a path"), "{bytes}: {error}");
        }
    }
}
