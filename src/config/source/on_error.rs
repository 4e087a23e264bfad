//! `on_error`: what happens to a document that cannot be read.

use std::fmt;

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Unexpected, Visitor};

/// What happens to a document that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum OnError {
    /// The stream ends with an error that says where.
    #[default]
    Fail,
    /// It is skipped, logged and counted; more than this many in one epoch of a lane are an error.
    Skip(u64),
}

/// Written by hand for its messages: a derived one would speak of variants.
impl<'de> Deserialize<'de> for OnError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = OnError;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"fail\", or how many to skip, such as { skip = 100 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OnError, E> {
                match text {
                    "fail" => Ok(OnError::Fail),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<OnError, A::Error> {
                let wrong = |visitor| de::Error::invalid_value(Unexpected::Map, visitor);
                match table.next_key::<String>()?.as_deref() {
                    Some("skip") => {}
                    _ => return Err(wrong(&self)),
                }
                let skip = OnError::Skip(table.next_value()?);
                match table.next_key::<String>()? {
                    None => Ok(skip),
                    Some(_) => Err(wrong(&self)),
                }
            }
        }

        deserializer.deserialize_any(Choice)
    }
}
