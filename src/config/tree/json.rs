//! JSON as a tree.
//!
//! serde_json says whether the text is valid, but not where its values are. So valid text is read once more.

use super::{Node, Spot, Table, Value, Written};
use crate::error::Result;

/// A JSON value that the caller gave.
pub(in crate::config) fn given(value: &serde_json::Value) -> Node {
    let value = match value {
        serde_json::Value::Null => Value::Absent,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => scalar(&number.to_string()),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(list) => Value::List(list.iter().map(given).collect()),
        serde_json::Value::Object(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.clone(), given(value))).collect())
        }
    };
    Node { spot: Spot::Value, value }
}

pub(super) fn read(written: &Written<'_>) -> Result<Value> {
    if let Err(e) = serde_json::from_str::<serde_json::Value>(written.text) {
        let spot = Spot::Text { line: e.line() as u64, column: e.column() as u64 };
        let said = e.to_string();
        let problem = said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
        return Err(written.invalid(spot, problem));
    }
    Reader { written, at: 0 }.value()
}

/// Reads valid JSON.
struct Reader<'t> {
    written: &'t Written<'t>,
    /// The next byte.
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value> {
        match self.peek() {
            b'{' => self.table(),
            b'[' => self.list(),
            _ => Ok(scalar(self.token())),
        }
    }

    fn table(&mut self) -> Result<Value> {
        self.at += 1;
        let mut table = Table::new();
        while self.peek() != b'}' {
            let spot = self.written.spot(self.at);
            let key = text(self.token());
            // The colon.
            self.peek();
            self.at += 1;
            let node = Node { spot: spot.clone(), value: self.value()? };
            if table.insert(key.clone(), node).is_some() {
                return Err(self.written.invalid(spot, &format!("the key `{key}` is there twice")));
            }
            self.pass_comma();
        }
        self.at += 1;
        Ok(Value::Table(table))
    }

    fn list(&mut self) -> Result<Value> {
        self.at += 1;
        let mut list = Vec::new();
        while self.peek() != b']' {
            let spot = self.written.spot(self.at);
            list.push(Node { spot, value: self.value()? });
            self.pass_comma();
        }
        self.at += 1;
        Ok(Value::List(list))
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> u8 {
        let bytes = self.written.text.as_bytes();
        while bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        bytes[self.at]
    }

    fn pass_comma(&mut self) {
        if self.peek() == b',' {
            self.at += 1;
        }
    }

    /// A text with its quotes, a number or a word.
    fn token(&mut self) -> &str {
        let rest = &self.written.text[self.at..];
        let bytes = rest.as_bytes();
        let mut len = 1;
        if bytes[0] == b'"' {
            while bytes[len] != b'"' {
                len += if bytes[len] == b'\\' { 2 } else { 1 };
            }
            len += 1;
        } else {
            let ends = |byte: u8| byte.is_ascii_whitespace() || b",]}".contains(&byte);
            len = bytes.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        }
        self.at += len;
        &rest[..len]
    }
}

fn scalar(token: &str) -> Value {
    match token {
        "null" => Value::Absent,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        quoted if quoted.starts_with('"') => Value::Text(text(quoted)),
        number => match number.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Float(number.parse().unwrap_or(f64::NAN)),
        },
    }
}

/// The text that a token in quotes stands for.
fn text(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_default()
}
