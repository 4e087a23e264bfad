//! Which cores the loader's work stays on.

use std::fmt;

use serde::de::{SeqAccess, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which cores reading and tokenizing stay on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinConfig {
    /// Wherever the system puts them.
    #[default]
    Off,
    /// On the cores of the NUMA node that the loader is opened on, if the machine has several.
    Auto,
    /// On these cores, by the numbers that the system gives them.
    Cores(Vec<usize>),
}

impl Serialize for PinConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Auto => serializer.serialize_str("auto"),
            Self::Cores(cores) => cores.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PinConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PinConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\", \"auto\", or a list of cores")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PinConfig, E> {
                match text {
                    "off" => Ok(PinConfig::Off),
                    "auto" => Ok(PinConfig::Auto),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PinConfig, A::Error> {
                let mut cores = Vec::new();
                while let Some(core) = seq.next_element()? {
                    cores.push(core);
                }
                Ok(PinConfig::Cores(cores))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PinConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PinConfig".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Which cores reading and tokenizing stay on: \"off\", \"auto\", or a list of cores.",
            "anyOf": [
                { "type": "string", "enum": ["off", "auto"] },
                { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_cores_are_read_and_written() {
        for (text, value) in [
            ("\"off\"", PinConfig::Off),
            ("\"auto\"", PinConfig::Auto),
            ("[0,3]", PinConfig::Cores(vec![0, 3])),
        ] {
            assert_eq!(serde_json::from_str::<PinConfig>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        for wrong in ["3", "\"on\"", "true"] {
            let error = serde_json::from_str::<PinConfig>(wrong).unwrap_err().to_string();
            assert!(error.contains("\"off\", \"auto\", or a list of cores"), "{error}");
        }
        assert!(serde_json::from_str::<PinConfig>("[-1]").is_err());
    }
}
