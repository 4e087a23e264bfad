//! The JSON Schema of configs, made from the structs. Editors complete and check configs with it.
//!
//! It has each key's description, type, default and bounds. Rules over several keys, such as the field that a
//! kind of source needs, are checked by [`Config::validate`] only.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Config;

impl Config {
    /// The JSON Schema of config files: draft 7, which editors read for TOML, YAML and JSON.
    pub fn schema() -> Value {
        let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Self>().to_value();
        schema["title"] = json!("Millstream config");
        shorten(&mut schema);
        for (table, keys) in bounds() {
            for (key, bounds) in keys.as_object().into_iter().flatten() {
                let property = &mut schema["definitions"][table]["properties"][key];
                for (bound, value) in bounds.as_object().into_iter().flatten() {
                    property[bound] = value.clone();
                }
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

/// The bounds that [`Config::validate`] checks and the types do not express, by struct and key.
fn bounds() -> [(&'static str, Value); 8] {
    let count = json!({ "minimum": 1 });
    let positive = json!({ "exclusiveMinimum": 0.0 });
    let share = json!({ "minimum": 0.0, "exclusiveMaximum": 1.0 });
    let seconds = json!({ "exclusiveMinimum": 0.0, "maximum": 86400.0 });
    let window = json!({ "minimum": 1, "maximum": 1 << 24 });
    [
        ("SourceConfig", json!({ "epochs": count, "weight": { "minimum": 0.0, "maximum": 1e15 } })),
        ("SampleConfig", json!({ "max": positive })),
        ("MixtureConfig", json!({ "temperature": positive })),
        (
            "StoreConfig",
            json!({
                "concurrency": { "minimum": 1, "maximum": 4096 },
                "timeout": seconds,
                "deadline": seconds,
                "backoff": seconds,
                "backoff_max": seconds,
            }),
        ),
        ("LearnConfig", json!({ "vocab_size": { "minimum": 258 } })),
        (
            "PipelineConfig",
            json!({
                "seq_len": window,
                "ahead": count,
                "max_segments": count,
                "pack_window": window,
                "holdout": share,
                "batch_tokens": count,
                "bucket_window": window,
                "batch_size": count,
                "epochs": count,
                "world": count,
            }),
        ),
        (
            "ModelConfig",
            json!({
                "layers": count,
                "d_model": { "minimum": 2 },
                "heads": count,
                "d_ff": count,
                "rope_theta": { "exclusiveMinimum": 1.0 },
                "norm_epsilon": positive,
            }),
        ),
        (
            "TrainConfig",
            json!({
                "steps": count,
                "accumulate": count,
                "lr": positive,
                "min_lr": { "minimum": 0.0 },
                "weight_decay": { "minimum": 0.0 },
                "beta1": share,
                "beta2": share,
                "epsilon": positive,
                "clip": { "minimum": 0.0 },
                "keep": count,
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    /// The loader's message about a key with a value, if it refuses that key.
    fn refused(key: &str, value: &str) -> Option<String> {
        let mut config = json!({
            "source": [
                { "kind": "jsonl", "paths": ["a"], "field": "text", "weight": 1, "sample": { "field": "w", "max": 1 } },
                { "paths": ["b"], "weight": 1 },
            ],
            "pipeline": { "seq_len": 1 },
            "model": { "heads": 1 },
        });
        parse::set(&mut config, &format!("{key}={value}")).expect("a setting");
        let checked = parse::config::<Config>(config).and_then(|config| config.validate());
        checked.err().map(|error| error.to_string()).filter(|said| said.starts_with(&format!("{key}: ")))
    }

    #[test]
    fn the_bounds_are_those_that_configs_are_checked_with() {
        for (table, keys) in bounds() {
            let place = match table {
                "SourceConfig" => "source.0",
                "SampleConfig" => "source.0.sample",
                "MixtureConfig" => "mixture",
                "StoreConfig" => "store",
                "LearnConfig" => "tokenizer.train",
                "PipelineConfig" => "pipeline",
                "ModelConfig" => "model",
                "TrainConfig" => "train",
                other => panic!("{other} has no place in a config"),
            };
            for (key, bounds) in keys.as_object().expect("keys") {
                let key = format!("{place}.{key}");
                for (bound, value) in bounds.as_object().expect("bounds") {
                    let step = if value.is_i64() || value.is_u64() { 1.0 } else { 1e-3 };
                    let beyond = match bound.as_str() {
                        "minimum" => value.as_f64().map(|least| least - step),
                        "maximum" => value.as_f64().map(|most| most + step * most.max(1.0)),
                        _ => value.as_f64(),
                    };
                    let beyond = beyond.expect("a number").to_string();
                    assert!(refused(&key, &beyond).is_some(), "{key} = {beyond} is accepted");
                    if !bound.starts_with("exclusive") {
                        assert_eq!(refused(&key, &value.to_string()), None, "the bound itself is within");
                    }
                }
            }
        }
    }

    #[test]
    fn every_bound_belongs_to_a_key() {
        let schema = Config::schema();
        for (table, keys) in bounds() {
            for key in keys.as_object().expect("keys").keys() {
                let property = &schema["definitions"][table]["properties"][key];
                assert!(property["description"].is_string(), "{table} has no key {key}");
            }
        }
    }
}
