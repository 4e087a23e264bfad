//! Links within the repository, and files of it that a page names: whether they are there, and the heading.

use std::path::Path;

use super::pages::Page;
use crate::support::root;

/// The folders whose files pages name.
const FOLDERS: [&str; 9] =
    [".ci/", "benches/", "configs/", "crates/", "examples/", "fuzz/", "python/", "src/", "tests/"];

/// What is wrong with a page's links, and with the files that it names. Links to other sites are not followed.
pub(crate) fn broken(page: &Page) -> Vec<String> {
    let links = page.links.iter().filter(|(_, to)| !to.contains("://") && !to.starts_with("mailto:"));
    let problems = links.filter_map(|(place, to)| Some(format!("{place}: {to}: {}", problem(page, to)?)));
    let named = page.codes.iter().filter(|(_, code)| is_file(code) && !is_there(page, code));
    problems.chain(named.map(|(place, file)| format!("{place}: {file}: there is no such file"))).collect()
}

/// Whether a word of code is the path of a file or folder of the repository, and not of one that a command or the reader
/// writes.
fn is_file(code: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    FOLDERS.iter().any(|folder| code.starts_with(folder))
        && code.chars().all(is_path)
        && !code.starts_with("benches/results/")
        && code != "src/main.rs"
}

/// Whether it is there, from the root or from the page's folder.
fn is_there(page: &Page, file: &str) -> bool {
    let folder = root().join(&page.name);
    root().join(file).exists() || folder.parent().is_some_and(|folder| folder.join(file).exists())
}

fn problem(page: &Page, to: &str) -> Option<String> {
    let (path, anchor) = to.split_once('#').map_or((to, None), |(path, anchor)| (path, Some(anchor)));
    let file = root().join(&page.name).parent().unwrap_or(root()).join(path);
    if !path.is_empty() && !file.exists() {
        return Some("there is no such file".to_owned());
    }
    let is_page = path.is_empty() || file.extension() == Some("md".as_ref());
    let anchor = anchor.filter(|_| is_page)?;
    let anchors = if path.is_empty() { page.anchors.clone() } else { anchors(&file) };
    (!anchors.iter().any(|known| known == anchor))
        .then(|| format!("it has no such heading; it has {}", anchors.join(", ")))
}

fn anchors(file: &Path) -> Vec<String> {
    Page::read(&file.canonicalize().expect("a file that is there")).anchors
}

#[test]
fn broken_links_are_told() {
    let page = |text: &str| Page::parse("docs/p.md".to_owned(), text);
    let good = "# Some day\n\n[a](#some-day) [b](../README.md) [c](https://x.y/z) [d](../README.md#millstream) [e](../src)";
    assert_eq!(broken(&page(good)), [""; 0]);
    assert_eq!(broken(&page("[a](none.md)")), ["docs/p.md:1: none.md: there is no such file"]);
    assert_eq!(broken(&page("# X\n[a](#y)")), ["docs/p.md:2: #y: it has no such heading; it has x"]);
    assert_eq!(broken(&page("![a](../README.md#n)")).len(), 1);
    assert_eq!(broken(&page("`src/lib.rs`, `tests/laws/`, `src/*.rs`")), [""; 0]);
    assert_eq!(broken(&page("`src/none.rs`")), ["docs/p.md:1: src/none.rs: there is no such file"]);
}
