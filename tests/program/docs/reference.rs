//! The config reference beside the code: every key is in its tables, with its default, and none that there is not; and
//! whether a key is part of the order and may change at a resume is what a resume says.

use std::collections::BTreeMap;

use millstream::config::ByteCount;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use super::{changes, keys, pages};

const PAGE: &str = "docs/guide/config.md";
const COLUMNS: [&str; 7] = ["key", "type", "default", "range", "order", "resume", "what"];

/// What the page says of one key.
struct Row {
    default: String,
    order: String,
    resume: String,
}

/// Where the page and the code disagree.
pub(crate) fn differences() -> Vec<String> {
    let path = pages::root().join(PAGE);
    let Ok(text) = std::fs::read_to_string(&path) else { return vec![format!("{PAGE} is not there")] };
    let rows = match rows(&text) {
        Ok(rows) => rows,
        Err(problem) => return vec![format!("{PAGE}: {problem}")],
    };
    let keys = keys::all();
    let mut problems = Vec::new();
    problems.extend(
        rows.keys().filter(|key| !keys.contains_key(*key)).map(|key| format!("the config has no {key}")),
    );
    problems
        .extend(keys.keys().filter(|key| !rows.contains_key(*key)).map(|key| format!("{key} is missing")));
    for (key, Row { default, .. }) in &rows {
        if let Some(value) = keys.get(key).filter(|value| !is(default, value.as_ref())) {
            let value = value.as_ref().map_or("none".to_owned(), |value| format!("`{value}`"));
            problems.push(format!("{key}: the default is {default} there, and {value} in the code"));
        }
    }
    let known = rows.iter().filter(|(key, _)| keys.contains_key(*key));
    let said = known.map(|(key, row)| (key.as_str(), (&*row.order, &*row.resume))).collect();
    problems.extend(changes::contradictions(&said));
    problems.iter().map(|problem| format!("{PAGE}: {problem}")).collect()
}

/// Whether a cell names this default: TOML in backticks, or `none`.
fn is(cell: &str, value: Option<&Value>) -> bool {
    let Some(value) = value else { return cell == "none" };
    let code = cell.strip_prefix('`').and_then(|code| code.strip_suffix('`'));
    let table = code.and_then(|code| format!("value = {code}").parse::<toml::Table>().ok());
    let Some(named) = table.and_then(|table| serde_json::to_value(&table["value"]).ok()) else {
        return false;
    };
    let size = |value: &Value| value.as_str().and_then(|text| text.parse::<ByteCount>().ok());
    match (named.as_f64(), value.as_f64()) {
        // Some defaults are numbers of 32 bits.
        (Some(named), Some(value)) => (named - value).abs() <= 1e-6 * value.abs(),
        _ => named == *value || size(&named).is_some() && size(&named) == size(value),
    }
}

/// The rows of all tables, by the full names of their keys: a section's name goes before them.
fn rows(text: &str) -> Result<BTreeMap<String, Row>, String> {
    let mut rows = BTreeMap::new();
    let mut section = String::new();
    let mut cells: Vec<String> = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                section = text[range].trim_matches(['#', ' ', '\n']).to_owned()
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => cells.clear(),
            Event::Start(Tag::TableCell) => {
                cells.push(text[range].trim().trim_matches('|').trim().to_owned())
            }
            Event::End(TagEnd::TableHead) if cells != COLUMNS => {
                return Err(format!("the columns of {section} are {}", COLUMNS.join(", ")));
            }
            Event::End(TagEnd::TableRow) => {
                let [key, _, default, _, order, resume, _] = &cells[..] else {
                    return Err(format!("a row of {section} has {} cells", cells.len()));
                };
                let key = key.trim_matches('`');
                let table = section.trim_matches(['[', ']']);
                let name = if table == "root" { key.to_owned() } else { format!("{table}.{key}") };
                let row = Row { default: default.clone(), order: order.clone(), resume: resume.clone() };
                if rows.insert(name.clone(), row).is_some() {
                    return Err(format!("{name} is there twice"));
                }
            }
            _ => {}
        }
    }
    Ok(rows)
}

#[test]
fn defaults_are_compared_by_value() {
    use serde_json::json;
    for (cell, value, same) in [
        ("`\"auto\"`", Some(json!("auto")), true),
        ("`1e-3`", Some(json!(0.001)), true),
        ("`0.9`", Some(json!(0.9_f32)), true),
        ("`0.91`", Some(json!(0.9_f32)), false),
        ("`\"1024MiB\"`", Some(json!("1GiB")), true),
        ("`[]`", Some(json!([])), true),
        ("none", None, true),
        ("`16`", None, false),
        ("none", Some(json!(16)), false),
        ("16", Some(json!(16)), false),
    ] {
        assert_eq!(is(cell, value.as_ref()), same, "{cell} {value:?}");
    }
}
