//! The JSON Schema of configs, made from the structs. Editors complete and check configs with it.
//!
//! It has each key's description, type, default and bounds. Rules over several keys, such as the field that a
//! kind of source needs, are checked by [`Config::validate`] only.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Config;
use super::bounds::{BOUNDS, Bound};

impl Config {
    /// The JSON Schema of config files: draft 7, which editors read for TOML, YAML and JSON.
    pub fn schema() -> Value {
        let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Self>().to_value();
        schema["title"] = json!("Millstream config");
        shorten(&mut schema);
        for (table, key, bound) in BOUNDS {
            let property = &mut schema["definitions"][table]["properties"][key];
            for (name, value) in limits(bound) {
                property[name] = value;
            }
        }
        schema
    }
}

/// Writes the numbers that come from an `f32` as people write them: 0.9, and not 0.8999999761581421.
fn shorten(schema: &mut Value) {
    match schema {
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().map(|long| (long, long as f32));
            if let Some((long, short)) = short
                && f64::from(short) == long
                && let Ok(written) = short.to_string().parse::<f64>()
            {
                *schema = json!(written);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(values) => values.values_mut().for_each(shorten),
        _ => {}
    }
}

/// A bound in the words of JSON Schema.
fn limits(bound: Bound) -> Vec<(&'static str, Value)> {
    let limits = match bound {
        Bound::AtLeast(least) => vec![("minimum", least)],
        Bound::Above(least) => vec![("exclusiveMinimum", least)],
        Bound::Within(least, most) => vec![("minimum", least), ("maximum", most)],
        Bound::Below(least, most) => vec![("minimum", least), ("exclusiveMaximum", most)],
        Bound::AboveUpTo(least, most) => vec![("exclusiveMinimum", least), ("maximum", most)],
    };
    // A whole number is written as one.
    let written = |limit: f64| if limit.fract() == 0.0 { json!(limit as i64) } else { json!(limit) };
    limits.into_iter().map(|(name, limit)| (name, written(limit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loader's message about a key with a value, if it refuses that key.
    fn refused(key: &str, value: &str) -> Option<String> {
        let config = r#"
            [[source]]
            kind = "jsonl"
            paths = ["a"]
            field = "text"
            weight = 1
            sample = { field = "w", max = 1 }
            [[source]]
            paths = ["b"]
            weight = 1
            [pipeline]
            seq_len = 1
            [model]
            heads = 1
            rope_scaling = { low_freq_factor = 0.1 }
        "#;
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
        std::io::Write::write_all(&mut file, config.as_bytes()).expect("it is written");
        let said = Config::load_with(file.path(), &[format!("{key}={value}")]).err()?.to_string();
        said.contains(&format!(": `{key}` must be ")).then_some(said)
    }

    #[test]
    fn the_bounds_are_those_that_configs_are_checked_with() {
        for (table, key, bound) in BOUNDS {
            let place = match table {
                "SourceConfig" => "source.0",
                "SampleConfig" => "source.0.sample",
                "MixtureConfig" => "mixture",
                "StoreConfig" => "store",
                "LearnConfig" => "tokenizer.train",
                "PipelineConfig" => "pipeline",
                "ModelConfig" => "model",
                "RopeScaling" => "model.rope_scaling",
                "TrainConfig" => "train",
                other => panic!("{other} has no place in a config"),
            };
            let key = format!("{place}.{key}");
            for (name, limit) in limits(bound) {
                let limit = limit.as_f64().expect("a number");
                let beyond = match name {
                    "minimum" => limit - limit.abs().clamp(1e-3, 1.0),
                    "maximum" => limit + limit.max(1.0),
                    _ => limit,
                };
                assert!(refused(&key, &beyond.to_string()).is_some(), "{key} = {beyond} is accepted");
                if !name.starts_with("exclusive") {
                    assert_eq!(refused(&key, &limit.to_string()), None, "the bound itself is within");
                }
            }
        }
    }

    #[test]
    fn every_bound_belongs_to_a_key() {
        let schema = Config::schema();
        for (table, key, _) in BOUNDS {
            let property = &schema["definitions"][table]["properties"][key];
            assert!(property["description"].is_string(), "{table} has no key {key}");
        }
    }
}
