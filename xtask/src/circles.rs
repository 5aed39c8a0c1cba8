// SPDX-License-Identifier: Apache-2.0
//! Finds pairs of files of one crate that import each other: a reader of one must read the other as well. Code that both need belongs into a third
//! file. A module and the modules below it are no such pair: a folder's `mod.rs` may hold code that its files share.
//!
//! Imports are `use` items, and paths in code, as the parser sees them. The arguments of macros and tests are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

type Module = Vec<String>;

#[test]
fn no_two_files_import_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = BTreeSet::new();
    for entry in crates.read_dir().expect("crates") {
        let entry = entry.expect("a crate");
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(pairs(&entry.path().join("src")).into_iter().map(|pair| format!("{name}: {pair}")));
    }
    assert!(found.is_empty(), "these files import each other; move what both need: {found:#?}");
}

#[test]
fn a_pair_is_found_and_a_folder_with_its_files_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("makes it");
        std::fs::write(file, text).expect("writes");
    };
    write("lib.rs", "mod one; mod two; mod three; pub struct Error; fn f() -> Error { one::f() }");
    write("one.rs", "use crate::{Error, two::Two}; pub fn f() -> Error { Error }");
    write("two.rs", "pub struct Two; fn g() { super::one::f(); } #[cfg(test)] mod tests { use crate::three::h; }");
    write("three/mod.rs", "mod four; use crate::two::Two; pub fn h() { four::i() } pub struct Shared;");
    write("three/four.rs", "use super::Shared; pub fn i() {} mod inner { use super::super::super::one::f; }");
    assert_eq!(pairs(folder.path()), ["one <-> two"]);
}

fn pairs(source: &Path) -> Vec<String> {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let modules: BTreeMap<Module, PathBuf> =
        files.into_iter().filter_map(|file| Some((module_of(source, &file)?, file))).collect();
    let mut imports: BTreeSet<(&Module, Module)> = BTreeSet::new();
    for (module, file) in &modules {
        let text = std::fs::read_to_string(file).expect("reads");
        let mut seen = Seen { at: module.clone(), modules: &modules, imports: BTreeSet::new() };
        seen.visit_file(&syn::parse_file(&text).expect("is Rust"));
        imports.extend(seen.imports.into_iter().map(|other| (module, other)));
    }
    let is_pair = |(one, other): &&(&Module, Module)| {
        *one < other && !other.starts_with(one) && imports.contains(&(other, (*one).clone()))
    };
    imports.iter().filter(is_pair).map(|(one, other)| format!("{} <-> {}", one.join("/"), other.join("/"))).collect()
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The module of a file; `None`: it is a file of tests.
fn module_of(source: &Path, file: &Path) -> Option<Module> {
    let inside = file.strip_prefix(source).expect("below it").with_extension("");
    let mut module: Module = inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if module.iter().any(|name| name == "tests") {
        return None;
    }
    let is_root = module.len() == 1 && (module[0] == "lib" || module[0] == "main");
    if is_root || module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    Some(module)
}

/// The imports of one file.
struct Seen<'a> {
    /// The module of the file, and the modules within it that are being read.
    at: Module,
    modules: &'a BTreeMap<Module, PathBuf>,
    imports: BTreeSet<Module>,
}

impl Seen<'_> {
    fn path(&mut self, path: &[String]) {
        let mut base = self.at.clone();
        let mut rest = path;
        match rest.first().map(String::as_str) {
            Some("crate") => (base, rest) = (Module::new(), &rest[1..]),
            Some("self") => rest = &rest[1..],
            Some("super") => {
                while rest.first().is_some_and(|word| word == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            _ => {}
        }
        let is_ours = rest.len() < path.len();
        let before = base.len();
        while let Some(next) = rest.first().map(|word| [base.as_slice(), std::slice::from_ref(word)].concat()) {
            if !self.modules.contains_key(&next) {
                break;
            }
            (base, rest) = (next, &rest[1..]);
        }
        if is_ours || base.len() > before {
            self.imports.insert(base);
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.path(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Seen<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() && !is_test(&item.attrs) {
            self.at.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.at.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.path(&words);
        }
        visit::visit_path(self, path);
    }
}
