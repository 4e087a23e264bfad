//! Files that are cut off or changed: an error that says where, or what can be had; never a panic, a hang or too much
//! memory.

use std::fs;

use millstream::config::SourceConfig;
use proptest::prelude::*;

use crate::rows::{FILES, config, directory, skipping, texts, wanted};

/// The first file of a pattern's, changed, as a corpus of its own.
fn changed(file: &str, change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, SourceConfig) {
    let path = glob::glob(&directory().join(file).display().to_string()).expect("a pattern").next();
    let path = path.expect("a file").expect("read");
    let mut bytes = fs::read(&path).expect("read");
    change(&mut bytes);
    let place = tempfile::tempdir().expect("a directory");
    let copy = place.path().join(path.file_name().expect("a name"));
    fs::write(&copy, bytes).expect("written");
    let config = SourceConfig { paths: vec![copy.display().to_string()], ..config(file) };
    (place, config)
}

#[test]
fn a_file_that_is_cut_off_is_an_error_and_what_was_before_is_kept() {
    for file in FILES {
        for share in [0.1, 0.5, 0.9] {
            let cut = |bytes: &mut Vec<u8>| bytes.truncate((bytes.len() as f64 * share) as usize);
            let (_place, config) = changed(file, cut);
            let error = texts(&config).expect_err(file);
            let name = file.rsplit(['/', '*']).next().expect("a name");
            assert!(error.contains(name) && error.contains(';'), "{file} at {share}: {error}");
            // A table's footer is at its end: without it there is nothing.
            if let Ok(texts) = texts(&skipping(config)) {
                assert!(wanted(file).starts_with(&texts), "{file} at {share}");
                let is_streamed = file.ends_with(".tar") || file == "stream.arrow" || file == "lz4.arrow";
                assert!(!is_streamed || share < 0.5 || !texts.is_empty(), "{file} at {share}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_change_panics_or_hangs(file in prop::sample::select(FILES.to_vec()), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (_place, config) = changed(file, |bytes| {
            for (index, value) in &changes {
                let index = index.index(bytes.len());
                bytes[index] = *value;
            }
        });
        for config in [config.clone(), skipping(config)] {
            let seen = texts(&config);
            let is_panic = seen.as_ref().err().is_some_and(|error| error.contains("panicked"));
            prop_assert!(!is_panic, "{seen:?}");
        }
    }
}
