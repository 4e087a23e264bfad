//! The pages, and what is in them: blocks of code, links, headings.

use std::fmt;
use std::fs;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::support::find::find;
use crate::support::root;

/// A page, by its path from the crate's directory.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    pub(crate) links: Vec<(PageLine, String)>,
    /// What stands in the text as code.
    pub(crate) codes: Vec<(PageLine, String)>,
    /// The headings, as links name them.
    pub(crate) anchors: Vec<String>,
}

/// A block of code between fences.
pub(crate) struct Block {
    /// The first line of its code.
    pub(crate) place: PageLine,
    info: String,
    pub(crate) text: String,
}

/// A line of a page.
#[derive(Clone)]
pub(crate) struct PageLine {
    pub(crate) page: String,
    pub(crate) line: usize,
}

impl fmt::Display for PageLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

impl Block {
    /// The word behind the fence.
    pub(crate) fn language(&self) -> &str {
        self.info.split([' ', ',']).next().unwrap_or_default()
    }

    /// The words after that one.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.info.split_whitespace().skip(1).collect()
    }

    /// The file that it is, if it says so.
    pub(crate) fn file(&self) -> Option<&str> {
        self.words().iter().find_map(|word| word.strip_prefix("file="))
    }

    /// Whether rustdoc passes over it.
    pub(crate) fn is_ignored(&self) -> bool {
        self.info.split_whitespace().next().is_some_and(|first| first.split(',').any(|word| word == "ignore"))
    }

    pub(crate) fn is_not_run(&self) -> bool {
        self.language() == "sh" && self.words().contains(&"no-run")
    }
}

impl Page {
    /// The READMEs of all packages, CONTRIBUTING, SECURITY and all of `docs/`.
    pub(crate) fn all() -> Vec<Self> {
        let packages = ["", "crates/cli/", "crates/train/", "python/"];
        let mut files: Vec<_> = packages.map(|package| root().join(format!("{package}README.md"))).into();
        files.extend(["CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
        find(&root().join("docs"), "md", &mut files);
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(root()).expect("a file below it").display().to_string();
        Self::parse(name, &text)
    }

    pub(crate) fn parse(name: String, text: &str) -> Self {
        let (mut blocks, mut links, mut codes, mut anchors) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            let place = |line| PageLine { page: name.clone(), line };
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let (info, line) = match kind {
                        CodeBlockKind::Fenced(info) => (info.to_string(), line + 1),
                        CodeBlockKind::Indented => (String::new(), line),
                    };
                    block = Some(Block { place: place(line), info, text: String::new() });
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push((place(line), dest_url.to_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    anchors.extend(heading.take().map(|heading| anchor(&heading, &anchors)));
                }
                Event::Text(ref part) | Event::Code(ref part) => {
                    if let Event::Code(_) = event {
                        codes.push((place(line), part.to_string()));
                    }
                    if let Some(block) = &mut block {
                        block.text += part;
                    } else if let Some(heading) = &mut heading {
                        *heading += part;
                    }
                }
                _ => {}
            }
        }
        Self { name, blocks, links, codes, anchors }
    }
}

/// A heading as GitHub names it in links: small letters, digits, `-` and `_`, a `-` for each space, and a number where
/// `before` has it already.
fn anchor(heading: &str, before: &[String]) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let anchor: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
    let mut numbered = (1..).map(|number| format!("{anchor}-{number}"));
    let is_new = |name: &String| !before.contains(name);
    if is_new(&anchor) { anchor } else { numbered.find(is_new).expect("some number is free") }
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# A `b` c!\n\nSee [it](x.md#a)\n\n```toml file=run.toml\na = 1\n```\n\n## A b c\n\n- x\n\n  ```sh\n  ls\n  ```\n";
    let page = Page::parse("p.md".to_owned(), text);
    assert_eq!(page.anchors, ["a-b-c", "a-b-c-1"]);
    let links: Vec<String> = page.links.iter().map(|(place, to)| format!("{place} {to}")).collect();
    assert_eq!(links, ["p.md:3 x.md#a"]);
    let [config, shell] = &page.blocks[..] else { panic!("{} blocks", page.blocks.len()) };
    assert_eq!((config.language(), config.file(), &*config.text), ("toml", Some("run.toml"), "a = 1\n"));
    assert_eq!((config.place.line, shell.place.line, &*shell.text), (6, 14, "ls\n"));
}
