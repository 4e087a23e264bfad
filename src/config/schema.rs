//! The JSON Schema of configs, made from the structs. Editors complete and check configs with it.
//!
//! It has each key's description, type, default and bounds. Rules over several keys, such as the field that a
//! kind of source needs, are checked by [`Config::validate`] only.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Config;
use super::keys::TRAINER;

impl Config {
    /// The JSON Schema of config files: draft 7, which editors read for TOML, YAML and JSON.
    pub fn schema() -> Value {
        let mut schema = schema::<Self>();
        for table in TRAINER {
            schema["properties"][table] =
                json!({ "description": "A table of the trainer.", "type": "object" });
        }
        schema
    }
}

/// The JSON Schema of a whole config.
pub fn schema<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value();
    schema["title"] = json!("Millstream config");
    shorten(&mut schema);
    schema
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
