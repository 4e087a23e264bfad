//! What of a record is its document: a text, or an object of JSON for the template of a task.

use std::sync::Arc;

use serde::de::IgnoredAny;

use crate::config::SourceConfig;
use crate::excerpt::listed;
use crate::render::Renderer;
use crate::source::problem::Problem;

/// What of a record is its document.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Text(String),
    /// An object of the fields with these names, as far as the record has them. A format may have more of them.
    Record(Arc<[String]>),
}

impl Wanted {
    /// What the config wants of the records of a source.
    pub(super) fn new(config: &SourceConfig, rendering: Option<&Renderer>) -> Self {
        match rendering.filter(|_| config.task.reads_records()) {
            Some(rendering) => Self::Record(rendering.columns().into()),
            None => Self::Text(config.field.clone().unwrap_or_default()),
        }
    }
}

/// The columns of a record, in the order of their names: the column with a whole name or, without one, the column with
/// the first part of it. `find` finds a column by its name.
pub(super) fn columns_of(names: &[String], find: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
    let mut columns = Vec::new();
    for name in names {
        let column = find(name).or_else(|| find(outermost(name)));
        columns.extend(column.filter(|column| !columns.contains(column)));
    }
    columns
}

/// The first part of a dotted name.
pub(super) fn outermost(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The bytes of a record that is too long. Only its length counts: JSON cannot be cut.
pub(super) const TOO_LONG: &[u8] = b"{";

/// A record that is being written as an object of JSON.
#[derive(Debug, Default)]
pub(super) struct Object(Vec<u8>);

impl Object {
    /// Begins a field. Its value is to be written next.
    pub(super) fn field(&mut self, name: &str) -> &mut Vec<u8> {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        write_text(name, &mut self.0);
        self.0.push(b':');
        &mut self.0
    }

    /// Adds a field whose value is JSON already.
    pub(super) fn json(&mut self, name: &str, json: &str) -> Result<(), Problem> {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
            return Err(Problem::new(0, format!("{name:?} is broken JSON: {error}"), "mend it"));
        }
        self.field(name).extend_from_slice(json.as_bytes());
        Ok(())
    }

    /// Adds the fields of another object, which is JSON already.
    pub(super) fn fields(&mut self, json: &str) -> Result<(), Problem> {
        let wrong = |what: String| Problem::new(0, what, "mend it");
        serde_json::from_str::<IgnoredAny>(json).map_err(|error| wrong(format!("broken JSON: {error}")))?;
        let inner = json.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.ok_or_else(|| wrong("the record is not an object".to_owned()))?;
        if !inner.trim().is_empty() {
            self.0.push(if self.0.is_empty() { b'{' } else { b',' });
            self.0.extend_from_slice(inner.as_bytes());
        }
        Ok(())
    }

    /// Ends the object. It is empty if it has no field.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.0.is_empty() {
            self.0.push(b'}');
        }
        self.0
    }
}

/// The problem of a table that has none of the columns of a record. `there` lists those that it has.
pub(super) fn no_column(names: &[String], there: &str) -> String {
    let wanted = listed(names);
    format!(
        "there is no column of a record ({wanted}); it has {there}; name others with field or chat.fields"
    )
}

pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    // Nothing but the writer can fail, and memory does not.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_json() {
        assert!(Object::default().finish().is_empty());
        let mut object = Object::default();
        write_text("a \"b\"\n", object.field("x\t"));
        object.json("y", "[1]").expect("it is JSON");
        assert!(object.json("z", "1, \"x\": 2").is_err());
        assert_eq!(object.finish(), b"{\"x\\t\":\"a \\\"b\\\"\\n\",\"y\":[1]}");
    }
}
