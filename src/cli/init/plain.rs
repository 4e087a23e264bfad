//! What a document is in plain text: a line, a paragraph or a file.

use std::path::Path;

use crate::config::DocumentKind;

use super::head::Head;

/// From so many files on, short files are documents.
const MANY: usize = 8;

/// How long a file is on average, at most, if files are documents, in bytes.
const SHORT: u64 = 1 << 20;

/// Extensions of programs and pages: each file is written to be read as a whole.
const WHOLE: [&str; 26] = [
    "rs", "py", "c", "h", "cc", "cpp", "hpp", "java", "js", "ts", "tsx", "go", "rb", "php", "cs", "swift",
    "kt", "scala", "hs", "lua", "sh", "sql", "tex", "html", "md", "rst",
];

/// What is looked at: some files of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight<'a> {
    pub(super) path: &'a Path,
    pub(super) head: &'a Head,
    pub(super) files: usize,
    /// How long all of them are together, in bytes.
    pub(super) bytes: u64,
}

/// What a document is, and why.
pub(super) fn document(Sight { path, head, files, bytes }: Sight<'_>) -> (DocumentKind, &'static str) {
    let extension = super::kind::extension(path);
    let is_whole = WHOLE.contains(&extension.split('.').next().unwrap_or_default());
    let mean = bytes / files.max(1) as u64;
    if mean <= SHORT && (is_whole || files >= MANY) {
        return (
            DocumentKind::File,
            "each file is a document: there are many short ones, or they are code or pages",
        );
    }
    let text = Lines::count(head);
    if text.blank > 0 && text.blank * 20 >= text.filled && text.mean() < 400 {
        return (DocumentKind::Paragraph, "blank lines separate documents; \"line\" makes each line one");
    }
    (
        DocumentKind::Line,
        "each line is a document; \"paragraph\" joins lines up to a blank one, \"file\" takes all",
    )
}

/// How many documents a text has, by its beginning.
pub(super) fn count(document: DocumentKind, head: &Head, files: usize, bytes: u64) -> u64 {
    let text = Lines::count(head);
    let in_head = match document {
        DocumentKind::File => return files as u64,
        DocumentKind::Paragraph => text.paragraphs,
        _ => text.filled,
    };
    let scale = bytes as f64 / (head.bytes.len().max(1) as f64);
    (in_head as f64 * scale.max(1.0)) as u64
}

/// How the lines of a text are.
#[derive(Debug, Default)]
struct Lines {
    blank: u64,
    filled: u64,
    bytes: u64,
    paragraphs: u64,
}

impl Lines {
    fn count(head: &Head) -> Self {
        let mut all = Self::default();
        let mut is_within = false;
        for line in head.lines() {
            let is_blank = line.trim().is_empty();
            if is_blank {
                all.blank += 1;
            } else {
                all.filled += 1;
                all.bytes += line.len() as u64;
                all.paragraphs += u64::from(!is_within);
            }
            is_within = !is_blank;
        }
        all
    }

    /// How long a line is that is not blank, in bytes.
    fn mean(&self) -> u64 {
        self.bytes / self.filled.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str, files: usize) -> DocumentKind {
        let head = Head { bytes: text.as_bytes().to_vec(), is_whole: true, is_packed: false };
        let bytes = (text.len() * files) as u64;
        document(Sight { path: Path::new(name), head: &head, files, bytes }).0
    }

    #[test]
    fn the_text_and_the_number_of_files_say_what_a_document_is() {
        let poem = "a line\nanother\n\na third\n\n".repeat(9);
        let article = format!("{}\n", "word ".repeat(200)).repeat(9);
        assert_eq!(of("a.txt", &poem, 1), DocumentKind::Paragraph);
        assert_eq!(of("a.txt", &article, 1), DocumentKind::Line);
        assert_eq!(of("a.txt", &format!("{article}\n").repeat(3), 1), DocumentKind::Line);
        assert_eq!(of("a.txt", &poem, MANY), DocumentKind::File);
        assert_eq!(of("a.rs", &poem, 1), DocumentKind::File);
        assert_eq!(of("a.txt.gz", "one line", 1), DocumentKind::Line);
    }

    #[test]
    fn documents_are_counted_by_the_beginning() {
        let head = Head { bytes: b"a\nb\n\nc\n".to_vec(), is_whole: true, is_packed: false };
        assert_eq!(count(DocumentKind::Line, &head, 1, 70), 30);
        assert_eq!(count(DocumentKind::Paragraph, &head, 1, 70), 20);
        assert_eq!(count(DocumentKind::File, &head, 4, 70), 4);
    }
}
