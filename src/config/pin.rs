//! Which cores the loader's work stays on.

use serde::{Deserialize, Serialize};

/// Which cores reading and tokenizing stay on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "must be \"off\", \"auto\", or a list of cores")]
#[non_exhaustive]
pub enum PinConfig {
    /// Wherever the system puts them.
    #[default]
    Off,
    /// On the cores of the NUMA node that the loader is opened on, if the machine has several.
    Auto,
    /// On these cores, by the numbers that the system gives them.
    #[serde(untagged)]
    Cores(Vec<usize>),
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
