//! The floors of the code: imports point down the tables in `src/lib.rs`, `src/source.rs` and `crates/train/src/lib.rs`. In
//! no crate do modules import each other in a circle.
//!
//! A name that a module only hands on is looked up where it is defined. A module may use what the modules around it
//! define, and what those within it do. It names what it uses: nothing would be seen of a glob.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use crate::support::find::find;
use crate::support::root;

/// A module of the library or the program, by the names on the way to it.
type Name = Vec<String>;

/// What one module says of others.
#[derive(Default)]
struct Module {
    /// The names that it uses, from the crate on.
    used: BTreeSet<Name>,
    /// What it hands on under a name of its own.
    handed_on: BTreeMap<String, Name>,
    /// The modules of which it uses or hands on whatever they have.
    globs: BTreeSet<Name>,
    /// Its file's text.
    text: String,
}

struct Crate {
    modules: BTreeMap<Name, Module>,
}

impl Crate {
    /// The loader, the trainer and the program.
    fn all() -> [Self; 3] {
        ["src", "crates/train/src", "crates/cli/src"].map(|src| Self::read(&root().join(src)))
    }

    /// Reads all files below `src`.
    fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        find(src, "rs", &mut files);
        let name = |file: &Path| -> Name {
            let path = file.strip_prefix(src).expect("a file below it").with_extension("");
            let names: Name = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if names == ["lib"] || names == ["main"] { Name::new() } else { names }
        };
        let names: BTreeSet<Name> = files.iter().map(|file| name(file)).collect();
        let mut modules: BTreeMap<Name, Module> = BTreeMap::new();
        for file in &files {
            let code = fs::read_to_string(file).expect("a file that can be read");
            let parsed = syn::parse_file(&code).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let of = name(file);
            let module = modules.entry(of.clone()).or_default();
            module.text.push_str(&code);
            Imports { of, names: &names, module }.visit_file(&parsed);
        }
        Self { modules }
    }

    /// The module that defines what a path names; none if it is of another crate.
    fn definer(&self, path: &[String]) -> Option<Name> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let len = (0..=path.len()).rev().find(|&len| self.modules.contains_key(&path[..len]))?;
            let handed_on = path.get(len).and_then(|name| self.modules[&path[..len]].handed_on.get(name));
            match handed_on {
                Some(from) => path = [from, &path[len + 1..]].concat(),
                None => return Some(path[..len].to_vec()),
            }
        }
        panic!("{path:?} is handed on in a circle")
    }

    /// Which modules each one imports from, but those around it and within it.
    fn imports(&self) -> BTreeMap<&Name, BTreeSet<Name>> {
        let of = |(name, module): (&'_ Name, &Module)| {
            let used = module.used.iter().chain(module.handed_on.values());
            let definers = used.filter_map(|path| self.definer(path));
            definers.filter(|other| !name.starts_with(other) && !other.starts_with(name)).collect()
        };
        self.modules.iter().map(|(name, module)| (name, of((name, module)))).collect()
    }

    /// The floor of each module in the table of the module around them, from the top.
    fn floors(&self, around: &[String]) -> BTreeMap<String, usize> {
        let rows =
            self.modules[around].text.lines().skip_while(|line| !line.starts_with("//! | floor |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with("//! |"));
        let mut floors = BTreeMap::new();
        for (floor, row) in rows.enumerate() {
            let cell = row.split('|').nth(1).expect("a first cell");
            for module in cell.split('`').skip(1).step_by(2) {
                assert_eq!(
                    floors.insert(module.to_owned(), floor),
                    None,
                    "{module} stands in the table twice"
                );
            }
        }
        floors
    }

    /// The modules directly within another.
    fn children(&self, around: &[String]) -> BTreeSet<String> {
        let within = self.modules.keys().filter(|name| name.starts_with(around));
        within.filter_map(|name| name.get(around.len()).cloned()).collect()
    }

    /// The imports that point up the table of the module around them.
    fn upward(&self, around: &[String]) -> Vec<String> {
        let floors = self.floors(around);
        let floor = |name: &Name| -> Option<usize> {
            let child = name.get(around.len()).filter(|_| name.starts_with(around))?;
            Some(floors[child])
        };
        let mut upward = Vec::new();
        for (name, imports) in self.imports() {
            for other in imports {
                if let (Some(from), Some(to)) = (floor(name), floor(&other))
                    && from > to
                {
                    let (name, other) = (name.join("::"), other.join("::"));
                    upward.push(format!("{name} imports from {other}, which is above it"));
                }
            }
        }
        upward
    }

    /// The modules that import each other in a circle, or stand above one.
    fn in_circles(&self) -> Vec<String> {
        let mut imports = self.imports();
        // Whoever imports from nobody that is left is in no circle.
        loop {
            let left: BTreeSet<Name> = imports.keys().map(|name| (*name).clone()).collect();
            let before = imports.len();
            imports.retain(|_, from| from.iter().any(|other| left.contains(other)));
            if imports.len() == before {
                break;
            }
        }
        imports.keys().map(|name| name.join("::")).collect()
    }

    /// Where modules of the crate are imported from without saying what.
    fn globs(&self) -> Vec<String> {
        let of = |(name, module): (&Name, &Module)| -> Vec<String> {
            module.globs.iter().map(|of| format!("{}: {}::*", name.join("::"), of.join("::"))).collect()
        };
        self.modules.iter().flat_map(of).collect()
    }
}

/// Walks through one file.
struct Imports<'a> {
    of: Name,
    names: &'a BTreeSet<Name>,
    module: &'a mut Module,
}

impl Imports<'_> {
    /// A path as it is from the crate on; none if it is of another crate.
    fn absolute(&self, path: &[String]) -> Option<Name> {
        let up = path.iter().take_while(|part| *part == "super").count();
        let (around, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&self.of[..], &path[1..]),
            "super" => (&self.of[..self.of.len().checked_sub(up)?], &path[up..]),
            child if self.names.contains(&[&self.of[..], &[child.to_owned()]].concat()) => {
                (&self.of[..], path)
            }
            _ => return None,
        };
        Some([around, rest].concat())
    }

    fn tree(&mut self, tree: &syn::UseTree, path: &mut Name, is_handed_on: bool) {
        let (name, as_name) = match tree {
            syn::UseTree::Path(of) => {
                path.push(of.ident.to_string());
                self.tree(&of.tree, path, is_handed_on);
                path.pop();
                return;
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, path, is_handed_on));
                return;
            }
            syn::UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            syn::UseTree::Rename(rename) => (rename.ident.to_string(), rename.rename.to_string()),
            syn::UseTree::Glob(_) => {
                // A file of tests takes what it tests.
                let is_for_tests = *path == ["super"] && self.of.last().is_some_and(|name| name == "tests");
                let whole = self.absolute(path).filter(|_| !is_for_tests);
                self.module.globs.extend(whole);
                return;
            }
        };
        let whole = if name == "self" { path.clone() } else { [&path[..], &[name]].concat() };
        let Some(whole) = self.absolute(&whole) else { return };
        if is_handed_on {
            self.module.handed_on.insert(as_name, whole);
        } else {
            self.module.used.insert(whole);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args().is_ok_and(|condition| asks_for_tests(&condition))
    })
}

/// Whether a condition is `test`, or `all(…)` with it.
fn asks_for_tests(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(name) => name.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(asks_for_tests))
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_handed_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.tree(&item.tree, &mut Name::new(), is_handed_on);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Name = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(whole) = self.absolute(&names).filter(|_| names.len() > 1) {
            self.module.used.insert(whole);
        }
        visit::visit_path(self, path);
    }
}

#[test]
fn every_module_has_a_floor_and_imports_point_down() {
    let [loader, trainer, _] = Crate::all();
    let (root, source) = (Name::new(), vec!["source".to_owned()]);
    for (of, around) in [(&loader, &root), (&loader, &source), (&trainer, &root)] {
        let named: BTreeSet<String> = of.floors(around).into_keys().collect();
        assert_eq!(named, of.children(around), "the table of {around:?} and the modules in it");
        assert_eq!(of.upward(around), [""; 0]);
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for of in Crate::all() {
        assert_eq!(of.in_circles(), [""; 0], "in circles, or above one");
    }
}

#[test]
fn imports_name_what_they_use() {
    for of in Crate::all() {
        assert_eq!(of.globs(), [""; 0]);
    }
}

#[test]
fn hundreds_of_imports_are_seen() {
    let [loader, trainer, _] = Crate::all().map(|of| of.imports().values().map(BTreeSet::len).sum::<usize>());
    assert!(loader > 500 && trainer > 150, "{loader} and {trainer} imports are seen");
}

#[test]
fn what_is_wrong_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let table =
        ["| floor | what |", "|---|---|", "| `top` | a |", "| `left`, [`right`] | b |", "| `low` | c |"]
            .map(|row| format!("//! {row}\n"))
            .concat();
    let tests = "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::top::Top;\n}\n";
    for (file, code) in [
        ("lib.rs", format!("{table}mod left;\nmod low;\nmod right;\nmod top;\n\npub use top::Top;\n")),
        ("top.rs", "use crate::low::*;\n\npub struct Top;\n".to_owned()),
        ("top/tests.rs", "use super::*;\n".to_owned()),
        // A circle: one imports the other, which names it where it is used.
        ("left.rs", format!("use crate::right::Right;\n\n{tests}")),
        ("right.rs", "pub struct Right;\n\nfn turn() {\n    super::left::turn();\n}\n".to_owned()),
        // Up, by a name that the crate hands on.
        ("low.rs", format!("use crate::Top;\n\npub struct Low;\n\n{tests}")),
    ] {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, code).expect("a file");
    }
    let all = Crate::read(directory.path());
    assert_eq!(all.children(&[]), all.floors(&[]).into_keys().collect());
    assert_eq!(all.upward(&[]), ["low imports from top, which is above it"]);
    assert_eq!(all.in_circles(), ["left", "right"]);
    assert_eq!(all.globs(), ["top: low::*"]);
}
