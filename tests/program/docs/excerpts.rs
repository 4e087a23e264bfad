//! Blocks of Rust that rustdoc does not compile, because they are parts of the crate.

use std::fs;

use super::pages::{Block, Page};
use crate::support::root;

/// Says what is wrong with a block, if anything.
pub(crate) fn check(block: &Block) -> Result<(), String> {
    let place = &block.place;
    let Some(path) = block.file() else {
        return Err(format!(
            "{place}: nothing tests it; name the file that it is from: `rust,ignore file=PATH`"
        ));
    };
    let source = fs::read_to_string(root().join(path)).map_err(|e| format!("{place}: {path}: {e}"))?;
    match source.contains(&block.text) {
        true => Ok(()),
        false => Err(format!("{place}: {path} has no such lines; copy them from there")),
    }
}

#[test]
fn other_lines_are_noticed() {
    let check = |info: &str, text: &str| {
        let page = Page::parse("a page".to_owned(), &format!("```{info}\n{text}```\n"));
        check(&page.blocks[0])
    };
    assert!(check("rust,ignore file=src/lib.rs", "pub mod prelude;\n").is_ok());
    assert!(check("rust,ignore file=src/lib.rs", "pub mod prelud;\n").is_err());
    assert!(check("rust,ignore file=src/nowhere.rs", "pub mod prelude;\n").is_err());
    assert!(check("rust,ignore", "pub mod prelude;\n").is_err());
}
