//! TOML blocks: configs, parts of them, and manifests that depend on this crate.

use millstream_train::RunConfig;
use toml::{Table, Value};

use super::pages::Block;
use crate::support::root;

/// Checks a block, and says where and what is wrong with it.
pub(crate) fn check(block: &Block) -> Result<(), String> {
    let is_manifest = block.file() == Some("Cargo.toml");
    let checked = if is_manifest { manifest(&block.text) } else { config(&block.text) };
    checked.map_err(|problem| format!("{}: {problem}", block.place))
}

/// Loads a config. A part of one may leave out the paths of its sources.
fn config(text: &str) -> Result<(), String> {
    let mut table: Table = text.parse().map_err(|error| format!("{error}"))?;
    for source in table.get_mut("source").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_made =
            source.get("kind").and_then(Value::as_str) == Some("synthetic") || source.get("repo").is_some();
        if let Some(source) = source.as_table_mut().filter(|_| !is_made) {
            source.entry("paths").or_insert_with(|| Value::Array(vec!["corpus/*".into()]));
        }
    }
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    std::fs::write(file.path(), table.to_string()).expect("the config is written");
    RunConfig::load(file.path()).map(drop).map_err(|error| error.to_string())
}

/// Checks the features of this crate that a manifest asks for.
fn manifest(text: &str) -> Result<(), String> {
    let table: Table = text.parse().map_err(|error| format!("{error}"))?;
    let ours: Table = std::fs::read_to_string(root().join("Cargo.toml"))
        .expect("the crate's manifest")
        .parse()
        .expect("it is TOML");
    let asked = table.get("dependencies").and_then(|all| all.get("millstream")?.get("features")?.as_array());
    for feature in asked.into_iter().flatten().filter_map(Value::as_str) {
        if ours["features"].get(feature).is_none() {
            return Err(format!("there is no feature {feature:?}"));
        }
    }
    Ok(())
}

#[test]
fn wrong_ones_are_noticed() {
    let problem = |text: &str| config(text).expect_err(text);
    assert_eq!(config("[[source]]\nweight = 2.0\n[pipeline]\nseq_len = 8\n"), Ok(()));
    assert!(problem("[pipeline]\nseq_length = 8").contains("seq_len"));
    assert!(problem("[pipeline]\nholdout = 2.0").contains("holdout"));
    assert!(problem("[pipeline\n").contains("TOML"));
    let features =
        |name| manifest(&format!("[dependencies]\nmillstream = {{ version = '1', features = ['{name}'] }}"));
    assert_eq!(features("tokenizers"), Ok(()));
    assert_eq!(features("tokeniser"), Err("there is no feature \"tokeniser\"".to_owned()));
}
