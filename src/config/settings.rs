//! Settings over a config: `key=value` as in `--set`.

use super::tree::{Node, Spot, Value, literal};
use crate::error::{Error, Place, Result};

/// Sets `a.b=value` in the tree, making tables as needed. A list's element is named by its number or, if it is a table
/// with a `name`, by that. A value is TOML, or else text. Without a value, as in `a.b=`, the key is unset.
pub(super) fn set(root: &mut Node, setting: &str) -> Result<()> {
    let wrong =
        |key: &str, problem: String| Err(Error::config(key, problem).at(Place::Setting(setting.to_owned())));
    let Some((key, text)) = setting.split_once('=') else {
        let problem = "a setting is key=value, such as train.steps=100, or key= to unset a key";
        return wrong(setting, problem.to_owned());
    };
    let (key, text) = (key.trim(), text.trim());
    let mut node = root;
    let mut is_element = false;
    for part in key.split('.') {
        // A choice such as on_error = "fail" may become a table.
        if matches!(node.value, Value::Absent | Value::Text(_)) {
            if text.is_empty() {
                // Nothing to unset. If the key so far is unknown, this setting is to blame.
                node.spot = Spot::Setting(setting.to_owned());
                return Ok(());
            }
            *node = Node::table();
        }
        is_element = matches!(node.value, Value::List(_));
        node = match &mut node.value {
            Value::List(list) => match element(list, part) {
                Ok(index) => &mut list[index],
                Err(problem) => return wrong(key, problem),
            },
            Value::Table(table) => {
                table.entry(part.to_owned()).or_insert(Node { spot: Spot::Nowhere, value: Value::Absent })
            }
            other => return wrong(key, format!("`{part}` cannot be set in {other}")),
        };
    }
    if text.is_empty() && is_element {
        return wrong(key, "only keys can be unset; set the whole list".to_owned());
    }
    let spot = Spot::Setting(setting.to_owned());
    let value = match text {
        "" => Value::Absent,
        text => literal(text, &spot).unwrap_or_else(|| Value::Text(text.to_owned())),
    };
    *node = Node { spot, value };
    Ok(())
}

/// The number of the element that is called `part`.
fn element(list: &[Node], part: &str) -> Result<usize, String> {
    let name = |node: &Node| match &node.value {
        Value::Table(table) => match &table.get("name")?.value {
            Value::Text(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let names: Vec<Option<String>> = list.iter().map(name).collect();
    if let Some(index) = names.iter().position(|name| name.as_deref() == Some(part)) {
        return Ok(index);
    }
    if let Some(index) = part.parse().ok().filter(|index| *index < list.len()) {
        return Ok(index);
    }
    let names: Vec<String> = names.into_iter().flatten().map(|name| format!("`{name}`")).collect();
    let called =
        if names.is_empty() { String::new() } else { format!("; they are called {}", names.join(", ")) };
    Err(match list.len() {
        1 => format!("`{part}` is not in the list: it has one element, 0{called}"),
        len => format!("`{part}` is not in the list: it has {len} elements, counted from 0{called}"),
    })
}
