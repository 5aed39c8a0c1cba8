// SPDX-License-Identifier: Apache-2.0
//! The names of a crate: which file defines the name that a path ends in, through all `use` items on the way, renamed ones and `*` as well.

use super::{Module, is_test};
use std::collections::{BTreeMap, BTreeSet};
use syn::buffer::Cursor;

/// So many `use` items lead from one to the next at most; more is a circle of them.
const LONGEST_CHAIN: usize = 16;

/// What the modules of a crate define and import.
#[derive(Default)]
pub(super) struct Names {
    scopes: BTreeMap<Module, Scope>,
}

#[derive(Default)]
struct Scope {
    /// The file that the module is in: another module than itself, if it is written in braces.
    file: Module,
    defined: BTreeSet<String>,
    /// Imported names. One name can be a module and a function.
    imported: BTreeMap<String, Vec<Vec<String>>>,
    /// The paths before `::*`.
    globs: Vec<Vec<String>>,
}

/// What a word means in a module.
enum Meaning {
    Module(Module),
    /// An item that this module defines.
    Item(Module),
}

impl Names {
    /// Adds the module of a file, and the modules that it has in braces.
    pub(super) fn add_file(&mut self, module: &Module, items: &[syn::Item]) {
        self.add(module, module, items);
    }

    fn add(&mut self, module: &Module, file: &Module, items: &[syn::Item]) {
        let mut scope = Scope { file: file.clone(), ..Scope::default() };
        for item in items {
            match item {
                syn::Item::Use(item) if !is_test(&item.attrs) => {
                    for_each_leaf(&root(item.leading_colon), &item.tree, &mut |path, name| match name {
                        Some(name) => scope.imported.entry(name).or_default().push(path),
                        None => scope.globs.push(path),
                    });
                }
                syn::Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content
                        && !is_test(&inner.attrs)
                    {
                        self.add(&below(module, &inner.ident.to_string()), file, items);
                    }
                }
                other => scope.defined.extend(name_of(other)),
            }
        }
        self.scopes.insert(module.clone(), scope);
    }

    /// The files that define what `path`, written in the module `at`, names. Empty: nothing of this crate.
    pub(super) fn definers(&self, at: &Module, path: &[String]) -> BTreeSet<Module> {
        let meanings = self.resolve(at, path, LONGEST_CHAIN);
        meanings
            .into_iter()
            .filter_map(|(Meaning::Module(module) | Meaning::Item(module))| self.file_of(&module))
            .collect()
    }

    /// The file that a module is in.
    pub(super) fn file_of(&self, module: &Module) -> Option<Module> {
        self.scopes.get(module).map(|scope| scope.file.clone())
    }

    fn resolve(&self, at: &Module, path: &[String], chain: usize) -> Vec<Meaning> {
        let (mut base, mut rest) = start(at, path);
        if rest.is_empty() {
            return vec![Meaning::Module(base)];
        }
        while let Some((word, after)) = rest.split_first() {
            let mut meanings = self.meanings(&base, word, chain);
            if after.is_empty() {
                return meanings;
            }
            let module = meanings.iter().position(|meaning| matches!(meaning, Meaning::Module(_)));
            match module.map(|index| meanings.swap_remove(index)) {
                Some(Meaning::Module(next)) => (base, rest) = (next, after),
                // the rest is a variant, a constant or a function of the item
                _ => return meanings,
            }
        }
        Vec::new()
    }

    /// What a word means in a module: a module and an item can have one name.
    fn meanings(&self, module: &Module, word: &String, chain: usize) -> Vec<Meaning> {
        let (Some(scope), Some(chain)) = (self.scopes.get(module), chain.checked_sub(1)) else { return Vec::new() };
        let mut found = Vec::new();
        let inner = below(module, word);
        if self.scopes.contains_key(&inner) {
            found.push(Meaning::Module(inner));
        }
        if scope.defined.contains(word) {
            found.push(Meaning::Item(module.clone()));
            return found;
        }
        for path in scope.imported.get(word).into_iter().flatten() {
            found.extend(self.resolve(module, path, chain));
        }
        if found.is_empty() {
            found.extend(scope.globs.iter().flat_map(|path| self.through_glob(module, path, word, chain)));
        }
        found
    }

    fn through_glob(&self, at: &Module, path: &[String], word: &String, chain: usize) -> Vec<Meaning> {
        let meanings = self.resolve(at, path, chain).into_iter();
        let modules = meanings.filter_map(|meaning| match meaning {
            Meaning::Module(module) => Some(module),
            Meaning::Item(_) => None,
        });
        modules.flat_map(|module| self.meanings(&module, word, chain)).collect()
    }
}

/// The module at which a path starts, and its words from there on.
pub(super) fn start<'a>(at: &Module, path: &'a [String]) -> (Module, &'a [String]) {
    match path.first().map(String::as_str) {
        Some("crate") => (Module::new(), &path[1..]),
        Some("self") => start(at, &path[1..]),
        Some("super") => start(&at[..at.len().saturating_sub(1)].to_vec(), &path[1..]),
        _ => (at.clone(), path),
    }
}

/// The first words of a path: a word that no module of the crate has, if the path begins with `::`.
pub(super) fn root(leading_colon: Option<syn::token::PathSep>) -> Vec<String> {
    leading_colon.iter().map(|_| "::".to_owned()).collect()
}

/// Calls `leaf` with each path that a `use` item names, and with the name that it has here; without one for `*`.
pub(super) fn for_each_leaf(
    before: &[String],
    tree: &syn::UseTree,
    leaf: &mut impl FnMut(Vec<String>, Option<String>),
) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => for_each_leaf(&with(&path.ident), &path.tree, leaf),
        syn::UseTree::Name(name) if name.ident == "self" => leaf(before.to_vec(), before.last().cloned()),
        syn::UseTree::Name(name) => leaf(with(&name.ident), Some(name.ident.to_string())),
        syn::UseTree::Rename(name) if name.ident == "self" => leaf(before.to_vec(), Some(name.rename.to_string())),
        syn::UseTree::Rename(name) => leaf(with(&name.ident), Some(name.rename.to_string())),
        syn::UseTree::Glob(_) => leaf(before.to_vec(), None),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| for_each_leaf(before, tree, leaf)),
    }
}

/// Calls `found` with each path of several words among the arguments of a macro, which no parser knows.
pub(super) fn for_each_path(mut tokens: Cursor<'_>, found: &mut impl FnMut(Vec<String>)) {
    let mut path = Vec::new();
    while !tokens.eof() {
        if let Some((word, after)) = tokens.ident() {
            path.push(word.to_string());
            if let Some(after) = after_separator(after) {
                tokens = after;
                continue;
            }
            tokens = after;
        } else if let Some((inside, _, _, after)) = tokens.any_group() {
            for_each_path(inside, found);
            tokens = after;
        } else if let Some((_, after)) = tokens.token_tree() {
            tokens = after;
        }
        if path.len() > 1 {
            found(std::mem::take(&mut path));
        }
        path.clear();
    }
}

/// The tokens after `::`.
fn after_separator(tokens: Cursor<'_>) -> Option<Cursor<'_>> {
    let (first, after) = tokens.punct()?;
    let (second, after) = after.punct()?;
    (first.as_char() == ':' && second.as_char() == ':').then_some(after)
}

fn below(module: &Module, word: &str) -> Module {
    [module.as_slice(), &[word.to_owned()]].concat()
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
