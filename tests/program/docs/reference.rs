//! The config reference beside the code: every key is in its tables, with its type, default and range, and none that
//! there is not; and whether a key is part of the order and may change at a resume is what a resume says.

use std::collections::{BTreeMap, BTreeSet};

use millstream::config::ByteCount;
use millstream_train::RunConfig;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use super::changes;

const PAGE: &str = "docs/guide/config.md";
const COLUMNS: [&str; 7] = ["key", "type", "default", "range", "order", "resume", "what"];

/// The type of a key that the loader may choose.
const OR_AUTO: &str = "integer or `\"auto\"`";

/// The type of a key that holds a time.
const DURATION: &str = "duration";

/// What the page says of one key.
struct Row {
    kind: String,
    range: String,
    default: String,
    order: String,
    resume: String,
}

/// Where the page and the code disagree.
pub(crate) fn differences() -> Vec<String> {
    let path = crate::support::root().join(PAGE);
    let Ok(text) = std::fs::read_to_string(&path) else { return vec![format!("{PAGE} is not there")] };
    let rows = match rows(&text) {
        Ok(rows) => rows,
        Err(problem) => return vec![format!("{PAGE}: {problem}")],
    };
    let schema = RunConfig::schema();
    let keys = keys(&schema, &schema);
    let mut problems = Vec::new();
    problems
        .extend(keys.keys().filter(|key| !rows.contains_key(*key)).map(|key| format!("{key} is missing")));
    let mut said = BTreeMap::new();
    for (key, row) in &rows {
        let Some(property) = keys.get(key) else {
            problems.push(format!("the config has no {key}"));
            continue;
        };
        let default = property.get("default");
        if !is(&row.default, default) {
            let value = default.map_or("none".to_owned(), |value| format!("`{value}`"));
            problems.push(format!("{key}: the default is {} there, and {value} in the code", row.default));
        }
        problems.extend(unlike_schema(key, row, &schema, property));
        said.insert(key.as_str(), (&*row.order, &*row.resume));
    }
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
    named == *value || size(&named).is_some() && size(&named) == size(value)
}

/// Where a key's type and range differ from the schema's: the type, the values to choose from, and the least and the
/// most of a number. The schema has no bounds of sizes.
fn unlike_schema(key: &str, Row { kind, range, .. }: &Row, root: &Value, property: &Value) -> Vec<String> {
    let schema = meant(root, property);
    let word = word(root, schema);
    if *kind != word && (&**kind, &*word) != ("path", "string") {
        return vec![format!("{key}: the type is {kind} there, and {word} in the schema")];
    }
    let mut problems = Vec::new();
    if word == "boolean" && range != "`true`, `false`" {
        problems.push(format!("{key}: the range of a boolean is `true`, `false`"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let values: BTreeSet<&str> = choices.iter().filter_map(|choice| choice["const"].as_str()).collect();
        let named = named(range);
        if named != values {
            problems.push(format!("{key}: the values are {named:?} there, and {values:?} in the schema"));
        }
        let tables = choices.iter().filter_map(|choice| choice["properties"].as_object());
        for name in tables.flat_map(|table| table.keys()).filter(|name| !range.contains(name.as_str())) {
            problems.push(format!("{key}: the range does not say {name}"));
        }
    }
    let number = match &*word {
        "integer" | "number" => schema,
        // The key itself has the bounds.
        OR_AUTO | DURATION => property,
        _ => return problems,
    };
    for (said, known) in bounds(range).into_iter().zip(bounds_of(number)) {
        let is_same = match said {
            // Another key gives it.
            Some((None, _)) => true,
            Some(_) => said == known,
            // Integers are never negative.
            None => known.is_none_or(|known| word == "integer" && known == (Some(0.0), false)),
        };
        if !is_same {
            problems.push(format!("{key}: the range is {range} there, with {known:?} in the schema"));
        }
    }
    problems
}

/// The keys of a table and of the tables in it, such as `source.sample.field` and `mixture.changes[].batch`, with what the
/// schema's properties say of them.
fn keys<'a>(root: &'a Value, table: &'a Value) -> BTreeMap<String, &'a Value> {
    let mut found = BTreeMap::new();
    for (name, property) in table["properties"].as_object().into_iter().flatten() {
        let schema = meant(root, property);
        let (list, within) = schema.get("items").map_or(("", schema), |items| ("[]", meant(root, items)));
        // The page writes `source`, though it is a list.
        let list = if name == "source" { "" } else { list };
        let below = keys(root, within);
        if below.is_empty() {
            found.insert(name.clone(), property);
        }
        found.extend(below.into_iter().map(|(key, property)| (format!("{name}{list}.{key}"), property)));
    }
    found
}

/// What a schema refers to, without the null of a table that may be absent.
fn meant<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let or_null =
        schema["anyOf"].as_array().filter(|either| either.len() == 2 && either[1]["type"] == "null");
    let schema = or_null.map_or(schema, |either| &either[0]);
    let schema = schema["allOf"].get(0).unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(to) => &root["definitions"][to.trim_start_matches("#/definitions/")],
        None => schema,
    }
}

/// A schema's type, as the page words it.
fn word(root: &Value, schema: &Value) -> String {
    let is = |name: &str| *schema == root["definitions"][name];
    if is("ByteCount") {
        return "size".to_owned();
    }
    if is("OrAuto") {
        return OR_AUTO.to_owned();
    }
    if is("Seconds") {
        return DURATION.to_owned();
    }
    // One of what there may be several of.
    if let [one, .., several] = schema["anyOf"].as_array().map_or(&[][..], Vec::as_slice)
        && several["type"] == "array"
    {
        return format!("{} or {}", word(root, one), word(root, several));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let are_strings = choices.iter().all(|choice| choice["const"].is_string());
        return if are_strings { "string".to_owned() } else { "string or table".to_owned() };
    }
    // That of a key that may be absent is a list, with null.
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("unknown") {
        "array" if schema["items"]["maxItems"] == 2 => "list of pairs".to_owned(),
        "array" => format!("list of {}s", word(root, meant(root, &schema["items"]))),
        "object" if schema["additionalProperties"] == true => "table".to_owned(),
        "object" => format!("table of {}s", word(root, meant(root, &schema["additionalProperties"]))),
        plain => plain.to_owned(),
    }
}

/// The strings that a range names, before what it says of other keys.
fn named(range: &str) -> BTreeSet<&str> {
    let codes = range.split(';').next().unwrap_or_default().split('`').skip(1).step_by(2);
    codes.filter_map(|code| code.strip_prefix('"')?.strip_suffix('"')).collect()
}

/// A bound: its value, none if another key gives it, and whether the value itself is out of range.
type Bound = (Option<f64>, bool);

/// The least and the most that a range names.
fn bounds(range: &str) -> [Option<Bound>; 2] {
    let number = |words: &str| words.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    let mut bounds = [None; 2];
    for part in range.split(';').next().unwrap_or_default().split(", ") {
        if let Some(least) = part.strip_prefix("at least ") {
            bounds[0] = Some((number(least), false));
        } else if let Some(least) = part.strip_prefix("above ") {
            bounds[0] = Some((number(least), true));
        } else if let Some(most) = part.strip_prefix("at most ") {
            bounds[1] = Some((number(most), false));
        } else if let Some(most) = part.strip_prefix("less than ") {
            bounds[1] = Some((number(most), true));
        } else if let Some((least, most)) = part.split_once(" to ") {
            bounds = [least, most].map(|bound| Some((number(bound), false)));
        }
    }
    bounds
}

/// The least and the most that a schema allows.
fn bounds_of(schema: &Value) -> [Option<Bound>; 2] {
    [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")].map(|(within, beyond)| {
        let bound = |name: &str, is_out: bool| schema[name].as_f64().map(|value| (Some(value), is_out));
        bound(beyond, true).or_else(|| bound(within, false))
    })
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
                cells.push(text[range].trim().trim_matches('|').trim().replace("\\|", "|"))
            }
            Event::End(TagEnd::TableHead) if cells != COLUMNS => {
                return Err(format!("the columns of {section} are {}", COLUMNS.join(", ")));
            }
            Event::End(TagEnd::TableRow) => {
                let [key, kind, default, range, order, resume, _] = &cells[..] else {
                    return Err(format!("a row of {section} has {} cells", cells.len()));
                };
                let key = key.trim_matches('`');
                let table = section.trim_matches(['[', ']']);
                let name = if table == "root" { key.to_owned() } else { format!("{table}.{key}") };
                let [kind, range, default, order, resume] =
                    [kind, range, default, order, resume].map(String::clone);
                let row = Row { kind, range, default, order, resume };
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
        ("`0.9`", Some(json!(0.9)), true),
        ("`0.91`", Some(json!(0.9)), false),
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

#[test]
fn types_and_ranges_are_compared_with_the_schema() {
    let schema = RunConfig::schema();
    let keys = keys(&schema, &schema);
    for (key, kind, range, is_right) in [
        ("store.concurrency", "integer", "1 to 4096", true),
        ("store.concurrency", "number", "1 to 4096", false),
        ("store.concurrency", "integer", "1 to 4095", false),
        ("store.concurrency", "integer", "at least 1", false),
        ("store.timeout", DURATION, "above 0, at most 86400", true),
        ("store.timeout", DURATION, "at least 0, at most 86400", false),
        ("store.timeout", "number", "above 0, at most 86400", false),
        ("store.backoff_max", DURATION, "`backoff` to 86400", true),
        ("pipeline.lanes", OR_AUTO, "1 to 65536", true),
        ("pipeline.lanes", OR_AUTO, "1 to 65535", false),
        ("source.paths", "string or list of strings", "", true),
        ("source.paths", "list of strings", "", false),
        ("store.block", "size", "4 KiB to 1 GiB", true),
        ("store.block", "integer", "4 KiB to 1 GiB", false),
        ("store.cache", "path", "a directory", true),
        ("pipeline.holdout", "number", "at least 0, less than 1", true),
        ("pipeline.holdout", "number", "0 to 1", false),
        ("pipeline.pack", "string", "`\"concat\"`, `\"pad\"`, `\"best_fit\"`; and more", true),
        ("pipeline.pack", "string", "`\"concat\"`, `\"pad\"`", false),
        ("pipeline.pack", "string", "`\"concat\"`, `\"pad\"`, `\"best_fit\"`, `\"best\"`", false),
        ("model.tied", "boolean", "`true`, `false`", true),
        ("model.tied", "boolean", "`true`", false),
        ("pipeline.depth", OR_AUTO, "at least 1", true),
        ("pipeline.depth", OR_AUTO, "at least 2", false),
        ("pipeline.buckets", "list of integers", "ascending", true),
        ("pipeline.buckets", "list of numbers", "ascending", false),
        ("seed", "integer", "any", true),
        ("seed", "integer", "at least 1", false),
        ("source.on_error", "string or table", "`\"fail\"` or `{ skip = n }`", true),
        ("source.on_error", "string or table", "`\"fail\"`", false),
        ("source.sample.max", "number", "above 0", true),
        ("source.sample.max", "number", "", false),
        ("mixture.changes[].weights", "table of numbers", "", true),
        ("exclude.batches", "list of pairs", "", true),
        ("exclude.documents[].byte", "integer", "", true),
    ] {
        let (kind, range) = (kind.to_owned(), range.to_owned());
        let row = Row { kind, range, default: String::new(), order: String::new(), resume: String::new() };
        let problems = unlike_schema(key, &row, &schema, keys[key]);
        assert_eq!(problems.is_empty(), is_right, "{key}, {}, {}: {problems:?}", row.kind, row.range);
    }
}
