//! The guide's index: whether it names every page.

use super::pages::Page;

const INDEX: &str = "docs/guide/README.md";

/// The pages of the guide that its index does not link.
pub(crate) fn missing(pages: &[Page]) -> Vec<String> {
    let Some(index) = pages.iter().find(|page| page.name == INDEX) else {
        return vec![format!("{INDEX} is not there")];
    };
    let guide = pages.iter().filter_map(|page| page.name.strip_prefix("docs/guide/"));
    let is_missing = |name: &&str| *name != "README.md" && !index.links.iter().any(|(_, to)| to == name);
    guide.filter(is_missing).map(|name| format!("{INDEX} does not link {name}")).collect()
}
