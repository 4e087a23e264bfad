//! The files that come along with one: small ones that say what it means, and the weights of a model.

use super::cache::{Entry, Tree};

/// The most bytes of a file that comes along.
const BESIDE: u64 = 64 << 20;

/// The directory of further chat templates.
const TEMPLATES: &str = "additional_chat_templates/";

/// The files that a file or a directory needs. A file needs the JSON files and the Jinja templates beside it. A directory
/// needs those in it, and the weights. None if there is no such file or directory.
pub(super) fn needed<'t>(named: &str, tree: &'t Tree) -> Vec<&'t String> {
    let is_file = tree.files.contains_key(named);
    let directory =
        if is_file { named.rsplit_once('/').map_or("", |(directory, _)| directory) } else { named };
    let is_wanted = |path: &str, entry: &Entry| {
        let below = match directory {
            "" => Some(path),
            _ => path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(below) = below else { return false };
        let is_beside = !below.strip_prefix(TEMPLATES).unwrap_or(below).contains('/');
        let is_small =
            [".json", ".jinja"].iter().any(|ending| below.ends_with(ending)) && entry.len() <= BESIDE;
        path == named || is_beside && (is_small || !is_file && is_weights(below))
    };
    tree.files.iter().filter(|(path, entry)| is_wanted(path, entry)).map(|(path, _)| path).collect()
}

/// Whether a file has weights, as transformers names them.
fn is_weights(name: &str) -> bool {
    name.strip_suffix(".safetensors").is_some_and(|name| name == "model" || name.starts_with("model-"))
}

/// Says that there is no such file, and which one may have been meant.
pub(super) fn nearest<'f>(file: &str, files: impl Iterator<Item = &'f String>) -> String {
    let alike = files.map(|other| (strsim::jaro_winkler(file, other), other));
    match alike.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((likeness, other)) if likeness > 0.8 => {
            format!("the repository has no such file; it has {other}")
        }
        _ => "the repository has no such file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_come_along_and_weights_with_a_directory() {
        let entry = |size| Entry {
            size,
            blob_id: "0123".to_owned(),
            lfs_sha256: None,
            lfs_size: None,
            xet_hash: None,
        };
        let files = [
            ("README.md", 1),
            ("additional_chat_templates/tools.jinja", 1),
            ("additional_chat_templates/more/tools.jinja", 1),
            ("chat_template.jinja", 1),
            ("large.json", BESIDE + 1),
            ("model-00001-of-00002.safetensors", u64::MAX),
            ("model.safetensors.index.json", BESIDE),
            ("onnx/config.json", 1),
            ("optimizer.safetensors", 1),
            ("tokenizer.json", 1),
        ];
        let tree = Tree::new(files.iter().map(|(path, size)| ((*path).to_owned(), entry(*size))).collect());
        let small = [
            "additional_chat_templates/tools.jinja",
            "chat_template.jinja",
            "model.safetensors.index.json",
            "tokenizer.json",
        ];
        assert_eq!(needed("tokenizer.json", &tree), small);
        let mut model = [&small[..], &["model-00001-of-00002.safetensors"]].concat();
        model.sort_unstable();
        assert_eq!(needed("", &tree), model);
        let mut readme = [&["README.md"], &small[..]].concat();
        readme.sort_unstable();
        assert_eq!(needed("README.md", &tree), readme);
        assert_eq!(needed("onnx/config.json", &tree), ["onnx/config.json"]);
        assert_eq!(needed("onnx", &tree), ["onnx/config.json"]);
        assert_eq!(needed("onn", &tree), [""; 0]);
    }
}
