//! What is wrong with finished rows is said, and made good by preparing them again.

use std::fs;
use std::path::{Path, PathBuf};

use millstream::config::{ByteCount, Config, SourceConfig};
use millstream::prepare::{prepare_rows, status};

use crate::text::{Case, all, assert_same, run};

/// Rows of three lanes, and the config that reads them.
fn rows() -> (Case, PathBuf, Config) {
    let files: Vec<String> = (0..9).map(|n| format!("file {n} of lines\n").repeat(50)).collect();
    let case = Case::new(&files, |_| {});
    let rows = case.directory.path().join("rows");
    run(prepare_rows(&case.config, &rows, |_| {})).expect("prepared");
    let source = SourceConfig::rows(rows.display().to_string());
    let config = Config { sources: vec![source], ..case.config.clone() };
    (case, rows, config)
}

/// Whether all of it is there, and how far it is.
fn said(case: &Case, rows: &Path) -> (bool, String) {
    let status = run(status(&case.config, rows, None)).expect("a status");
    (status[0].is_whole(), status[0].to_string())
}

#[test]
fn one_that_is_cut_short_is_missed_and_made_anew() {
    let (case, rows, config) = rows();
    let expected = all(&config, None).expect("batches");
    assert_eq!(said(&case, &rows), (true, "3 of 3 lanes of rows are there".to_owned()));
    let path = rows.join("00001-00000.rows");
    let whole = fs::read(&path).expect("a segment");
    fs::write(&path, &whole[..whole.len() / 16 * 8]).expect("written");
    assert_eq!(said(&case, &rows), (false, "2 of 3 lanes of rows are there".to_owned()));
    let error = all(&config, None).expect_err("it is cut short").to_string();
    let expected_error = format!("{}: this is not a complete segment: ", path.display());
    assert!(error.starts_with(&expected_error), "{error}");
    assert!(error.ends_with("; remove it, and prepare again"), "{error}");
    run(prepare_rows(&case.config, &rows, |_| {})).expect("prepared");
    assert!(fs::read(&path).expect("a segment") == whole);
    assert_same(&all(&config, None).expect("batches"), &expected);
}

#[test]
fn one_that_is_gone_is_named_with_its_lane() {
    let (case, rows, config) = rows();
    let expected = all(&config, None).expect("batches");
    let path = rows.join("00002-00000.rows");
    fs::remove_file(&path).expect("removed");
    let error = all(&config, None).expect_err("it is gone").to_string();
    assert!(
        error.starts_with(&format!("{}: it is gone, and without it lane 2 of", path.display())),
        "{error}"
    );
    assert!(error.contains("; prepare the rows again: that makes the lane anew"), "{error}");
    run(prepare_rows(&case.config, &rows, |_| {})).expect("prepared");
    assert_same(&all(&config, None).expect("batches"), &expected);
}

#[test]
fn a_damaged_list_is_none_and_is_written_anew() {
    let (case, rows, config) = rows();
    let list = rows.join("segments.json");
    let whole = fs::read(&list).expect("a list");
    fs::write(&list, &whole[..100]).expect("written");
    let (is_whole, told) = said(&case, &rows);
    assert!(!is_whole && told.contains("and not their list: prepare any part once more"), "{told}");
    let error = all(&config, None).expect_err("no list").to_string();
    assert!(error.contains("; prepare again"), "{error}");
    run(prepare_rows(&case.config, &rows, |_| {})).expect("prepared");
    assert!(fs::read(&list).expect("a list") == whole);

    case.prepare().expect("prepared");
    let list = case.shards().join("segments.json");
    let whole = fs::read(&list).expect("a list");
    fs::write(&list, &whole[..whole.len() / 2]).expect("written");
    let (is_whole, told) = said(&case, &case.shards());
    assert!(!is_whole && told.contains("and not their list: prepare any part once more"), "{told}");
    case.prepare().expect("prepared again");
    assert!(fs::read(&list).expect("a list") == whole && said(&case, &case.shards()).0);
}

#[test]
fn other_settings_are_named_with_both_values() {
    type Change = fn(&mut Config);
    let (case, rows, _) = rows();
    let refused = |change: Change| {
        let mut other = case.config.clone();
        change(&mut other);
        run(prepare_rows(&other, &rows, |_| {})).expect_err("a refusal").to_string()
    };
    let changes: [(Change, &str); 4] = [
        (|config| config.seed += 1, "seed 42, and the config says 43"),
        (|config| config.pipeline.lanes = 2.into(), "pipeline.lanes 3, and the config says 2"),
        (|config| config.pipeline.window = 9.into(), "pipeline.window 8, and the config says 9"),
        (
            |config| config.pipeline.shuffle_splits = false,
            "pipeline.shuffle_splits true, and the config says false",
        ),
    ];
    for (change, expected) in changes {
        let said = refused(change);
        assert!(said.contains(&format!("its rows were made with {expected}; prepare into")), "{said}");
    }
    // Token shards say where files were cut.
    case.prepare().expect("prepared");
    let mut other = case.config.clone();
    other.sources[0].split = Some(ByteCount(100));
    let error = run(millstream::prepare::prepare(&other, &case.shards(), |_| {})).expect_err("a refusal");
    let error = error.to_string();
    assert!(
        error.contains("it has the tokens of files that were cut otherwise (source.split), or"),
        "{error}"
    );
}
