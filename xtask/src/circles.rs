// SPDX-License-Identifier: Apache-2.0
//! Finds pairs of files of one crate that import each other: a reader of one must read the other as well. Code that both need belongs into a third
//! file. A module and the modules below it are no such pair: a folder's `mod.rs` may hold code that its files share.
//!
//! Imports are `use` items, and paths in code, as the parser sees them; also among the arguments of macros. A name that a module hands on with
//! `pub use` is an import of the file that defines the name ([`names`]). Methods that are called on a value, and tests, are not looked at.

mod names;

use names::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::buffer::TokenBuffer;
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
    let found = pairs_of(&[
        ("lib.rs", "mod one; mod two; mod three; pub struct Error; fn f() -> Error { one::f() }"),
        ("one.rs", "use crate::{Error, two::Two}; pub fn f() -> Error { Error }"),
        (
            "two.rs",
            "pub struct Two; fn g() { assert!(super::one::f()); } #[cfg(test)] mod tests { use crate::three::h; }",
        ),
        ("three/mod.rs", "mod four; use crate::two::Two; pub fn h() { four::i() } pub struct Shared;"),
        ("three/four.rs", "use super::Shared; pub fn i() {} mod inner { use super::super::super::one::f; }"),
    ]);
    assert_eq!(found, ["one <-> two"]);
}

#[test]
fn a_name_that_modules_hand_on_is_an_import_of_the_file_that_defines_it() {
    let found = pairs_of(&[
        (
            "lib.rs",
            "mod folder; mod outer; pub(crate) use folder::Renamed as Twice; mod braces { pub use crate::outer::*; }",
        ),
        ("folder/mod.rs", "mod deep; mod user; pub use deep::Deep as Renamed; pub(super) use deep::*; use user::User;"),
        ("folder/deep.rs", "use super::User; pub struct Deep; pub fn deep() { crate::braces::outer(); }"),
        ("folder/user.rs", "use super::*; pub struct User(Renamed);"),
        ("outer.rs", "pub fn outer() -> crate::Twice { }"),
    ]);
    assert_eq!(found, ["folder/deep <-> folder/user", "folder/deep <-> outer"]);
}

#[test]
fn a_name_that_is_handed_on_in_one_direction_only_is_no_pair() {
    let found = pairs_of(&[
        (
            "lib.rs",
            "mod one; mod two; pub use one::One; pub use two::Two; pub use self::lost::Lost; pub use lost::Lost;",
        ),
        ("one.rs", "pub struct One; pub fn shadows() { struct Two; }"),
        ("two.rs", "use crate::{Lost, One}; pub struct Two; fn f() -> ::one::One { Two::Variant }"),
    ]);
    assert_eq!(found, [""; 0]);
}

/// The pairs of a crate of these files.
fn pairs_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("makes it");
        std::fs::write(file, text).expect("writes");
    }
    pairs(folder.path())
}

fn pairs(source: &Path) -> Vec<String> {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let parsed = |file: &PathBuf| syn::parse_file(&std::fs::read_to_string(file).expect("reads")).expect("is Rust");
    let modules: BTreeMap<Module, syn::File> =
        files.iter().filter_map(|file| Some((module_of(source, file)?, parsed(file)))).collect();
    let mut names = Names::default();
    modules.iter().for_each(|(module, file)| names.add_file(module, &file.items));
    let mut imports: BTreeSet<(&Module, Module)> = BTreeSet::new();
    for (module, file) in &modules {
        let mut seen = Seen { at: module.clone(), names: &names, imports: BTreeSet::new() };
        seen.visit_file(file);
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
    names: &'a Names,
    imports: BTreeSet<Module>,
}

impl Seen<'_> {
    /// A path imports the file that it is written through, and the file that defines what it names.
    fn path(&mut self, path: &[String]) {
        let (mut base, mut rest) = names::start(&self.at, path);
        let (is_ours, before) = (rest.len() < path.len(), base.len());
        while let Some((word, after)) = rest.split_first() {
            let next = [base.as_slice(), std::slice::from_ref(word)].concat();
            if self.names.file_of(&next).is_none() {
                break;
            }
            (base, rest) = (next, after);
        }
        if is_ours || base.len() > before {
            self.imports.extend(self.names.file_of(&base));
        }
        self.imports.extend(self.names.definers(&self.at, path));
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
            names::for_each_leaf(&names::root(item.leading_colon), &item.tree, &mut |path, _| self.path(&path));
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

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        names::for_each_path(TokenBuffer::new2(item.tokens.clone()).begin(), &mut |path| self.path(&path));
        visit::visit_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words = path.segments.iter().map(|segment| segment.ident.to_string());
        self.path(&names::root(path.leading_colon).into_iter().chain(words).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}
