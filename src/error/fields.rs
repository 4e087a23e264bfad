//! An error for programs: its whole message, and its facts by name.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ConfigPlace, Error, ResumeFrom, answer};

impl Error {
    /// Returns its message and those of its causes, in one line.
    pub fn chain(&self) -> String {
        let first: &dyn std::error::Error = self;
        let all = std::iter::successors(Some(first), |error| error.source());
        all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }

    /// Returns its facts by name: the place, the problem, the remedy. The program prints them with `--json`.
    pub fn fields(&self) -> Map<String, Value> {
        let fields = match self {
            Error::Config { key, problem, place, .. } => config_fields(key, problem, place.as_deref()),
            Error::Document { path, line, unit, byte, problem, remedy } => {
                // A position counts what its name says.
                let mut fields =
                    json!({ "path": path.to_string_lossy(), "problem": problem, "remedy": remedy });
                fields[unit.to_string()] = (*byte).into();
                if *line > 0 {
                    fields["line"] = (*line).into();
                }
                fields
            }
            Error::Io { path, source, .. } => {
                let path = path.to_string_lossy();
                json!({ "path": path, "problem": source.to_string(), "os_error": answer::code(source) })
            }
            Error::Tokenizer { name, problem } => json!({ "tokenizer": name, "problem": problem }),
            Error::Fingerprint { field, saved, now } => json!({ "field": field, "saved": saved, "now": now }),
            Error::Cursor { path, problem } => {
                json!({ "path": path.to_string_lossy(), "problem": problem })
            }
            Error::Diverged { step, batches, resume } => json!({
                "step": step,
                "batches": [batches.start, batches.end],
                "resume": resume.as_deref().map(resume_fields),
            }),
            Error::Checkpoint { path, problem, resume } => json!({
                "path": path.to_string_lossy(),
                "problem": problem,
                "resume": resume.as_deref().map(resume_fields),
            }),
            Error::Budget { limit } => json!({ "limit_bytes": limit }),
            Error::Panic { stage, .. } => json!({ "stage": stage }),
            Error::Stage { name, problem } => json!({ "stage": name, "problem": problem }),
            _ => Value::Null,
        };
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

fn resume_fields(ResumeFrom { run, step, settings }: &ResumeFrom) -> Value {
    json!({ "run": run.to_string_lossy(), "step": step, "settings": settings })
}

/// The key, its problem, and where it is written.
fn config_fields(key: &str, problem: &str, place: Option<&ConfigPlace>) -> Value {
    let mut fields = json!({ "key": key, "problem": problem });
    match place {
        Some(ConfigPlace::File(path)) => fields["path"] = path.to_string_lossy().into(),
        Some(ConfigPlace::Line { file, line, column }) => {
            fields["path"] = file.as_deref().map(Path::to_string_lossy).into();
            fields["line"] = (*line).into();
            fields["column"] = (*column).into();
        }
        Some(ConfigPlace::Setting(setting)) => fields["setting"] = setting.as_str().into(),
        _ => {}
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Unit;

    #[test]
    fn a_position_is_named_by_its_unit() {
        let at = |unit, line| {
            let error = Error::Document {
                path: "a.txt".into(),
                line,
                unit,
                byte: 7,
                problem: "it is bad".to_owned(),
                remedy: "mend it".to_owned(),
            };
            Value::Object(error.fields())
        };
        let common = |more: Value| {
            let mut whole = json!({ "path": "a.txt", "problem": "it is bad", "remedy": "mend it" });
            whole.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            whole
        };
        assert_eq!(at(Unit::Byte, 3), common(json!({ "line": 3, "byte": 7 })));
        assert_eq!(at(Unit::Row, 0), common(json!({ "row": 7 })));
    }
}
