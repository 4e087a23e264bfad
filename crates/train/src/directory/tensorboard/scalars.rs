//! A line of `metrics.jsonl` as scalars with TensorBoard's tags: a new field of a line is shown too.
//!
//! TensorBoard groups tags by the text before the first slash.

use serde_json::{Map, Value};

/// The fields whose tag is not their name.
const TAGS: [(&str, &str); 4] = [
    ("lr", "learning_rate"),
    ("grad_norm", "gradient_norm"),
    ("validation_loss", "validation/loss"),
    ("bits_per_byte", "validation/bits_per_byte"),
];

/// The fields that are no curves: the step is the axis, and the number of a validation's targets is always the same.
const LEFT_OUT: [&str; 2] = ["step", "validation_tokens"];

/// The numbers of a line by their tags. A value that is not a number, such as a loss that overflowed, is left out.
pub(super) fn from_line(line: &Value) -> Vec<(String, f64)> {
    let Some(fields) = line.as_object() else { return Vec::new() };
    // A validation's losses by value have the names of the training's.
    let group = if fields.contains_key("validation_loss") { "validation/" } else { "" };
    let mut scalars = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
        match (name.as_str(), value) {
            ("stages", Value::Object(stages)) => within(stages, |stage, field| {
                scalars.extend(field.1.as_f64().map(|value| (format!("stages/{stage}/{}", field.0), value)));
            }),
            // How many targets a value had is no curve either.
            ("loss_by", Value::Object(names)) => within(names, |name, (value, mean)| {
                let tag = format!("{group}loss_by/{name}/{value}");
                scalars.extend(mean["loss"].as_f64().map(|loss| (tag, loss)));
            }),
            (name, value) => {
                let tag = TAGS.iter().find(|(field, _)| *field == name).map_or(name, |(_, tag)| tag);
                scalars.extend(value.as_f64().map(|value| (tag.to_owned(), value)));
            }
        }
    }
    scalars
}

/// Goes through the fields of all objects in an object.
fn within<'a>(objects: &'a Map<String, Value>, mut visit: impl FnMut(&str, (&'a String, &'a Value))) {
    for (name, object) in objects {
        object.as_object().into_iter().flatten().for_each(|field| visit(name, field));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scalars(line: &Value) -> Vec<(String, f64)> {
        let mut scalars = from_line(line);
        scalars.sort_by(|one, other| one.0.cmp(&other.0));
        scalars
    }

    fn expected(scalars: &[(&str, f64)]) -> Vec<(String, f64)> {
        scalars.iter().map(|(tag, value)| ((*tag).to_owned(), *value)).collect()
    }

    #[test]
    fn every_number_of_a_line_has_a_tag() {
        let line = json!({
            "step": 3, "loss": 2.5, "lr": 0.1, "grad_norm": null, "memory": 1024, "mfu": 0.25, "flops_per_second": 1e9,
            "verdict": { "wait_share": 0.5 },
            "stages": { "pack": { "busy": 0.5, "queue": 1.0 } },
            "loss_by": {
                "source": { "code": { "loss": 2.0, "tokens": 7 } },
                "lang": { "a/b": { "loss": 3.0, "tokens": 8 } },
            },
        });
        assert_eq!(
            scalars(&line),
            expected(&[
                ("flops_per_second", 1e9),
                ("learning_rate", 0.1),
                ("loss", 2.5),
                ("loss_by/lang/a/b", 3.0),
                ("loss_by/source/code", 2.0),
                ("memory", 1024.0),
                ("mfu", 0.25),
                ("stages/pack/busy", 0.5),
                ("stages/pack/queue", 1.0),
            ])
        );
        let line = json!({
            "step": 3, "validation_loss": 2.5, "bits_per_byte": 1.5, "validation_tokens": 9,
            "loss_by": { "lang": { "loss": { "loss": 2.0, "tokens": 7 } } },
        });
        assert_eq!(
            scalars(&line),
            expected(&[
                ("validation/bits_per_byte", 1.5),
                ("validation/loss", 2.5),
                ("validation/loss_by/lang/loss", 2.0),
            ])
        );
        assert_eq!(scalars(&json!([1])), []);
    }
}
