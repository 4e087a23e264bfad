//! Where the code is `unsafe`, as SECURITY.md lists it.

use std::collections::BTreeMap;
use std::fs;

use crate::support::find::find;

/// What makes a line one that a compiler does not check.
const UNSAFE: [&str; 5] = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe("];

#[test]
fn every_unsafe_line_is_counted() {
    let root = crate::support::root();
    let mut files = Vec::new();
    ["src", "crates", "python/src"]
        .iter()
        .for_each(|directory| find(&root.join(directory), "rs", &mut files));
    let is_unsafe = |line: &&str| UNSAFE.iter().any(|word| line.contains(word));
    let found: BTreeMap<String, usize> = files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source");
            let name = path.strip_prefix(root).expect("below the root").display().to_string();
            (name, text.lines().filter(is_unsafe).count())
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let text = fs::read_to_string(root.join("SECURITY.md")).expect("a file");
    let listed: BTreeMap<String, usize> = text
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`').to_owned();
            Some((name, cells.next()?.parse().ok()?))
        })
        .collect();
    assert_eq!(found, listed);
}
