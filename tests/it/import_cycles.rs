//! Files do not import each other in cycles, so that each file can be read after those that it uses.
//!
//! Imports are `use` declarations and qualified paths. A file that uses a re-export imports both the re-exporting file
//! and the defining one. Calls of methods are not imports, and an import of all names of a module is an import of that
//! module only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path of modules: the name of the package, and the modules in it.
type ModulePath = Vec<String>;

/// A `use` declaration of one name.
struct Import {
    path: Vec<String>,
    /// Name in this module; `*` if the path names all items of a module.
    name: String,
}

/// Names in a source file, without its tests.
#[derive(Default)]
struct SourceNames {
    definitions: BTreeSet<String>,
    imports: Vec<Import>,
    /// Qualified paths outside of `use` declarations.
    paths: Vec<Vec<String>>,
}

impl SourceNames {
    /// Adds the names of tokens that are within `depth` inline modules.
    fn add(&mut self, tokens: TokenStream, depth: usize) {
        let mut tokens = tokens.into_iter().peekable();
        let (mut is_test, mut previous) = (false, String::new());
        while let Some(token) = tokens.next() {
            let text = token.to_string();
            match token {
                TokenTree::Group(group) => {
                    is_test |= previous == "#" && group.stream().to_string() == "cfg (test)";
                    if group.delimiter() == Delimiter::Brace && std::mem::take(&mut is_test) {
                        continue;
                    }
                    self.add(group.stream(), depth + usize::from(previous == "mod"));
                }
                TokenTree::Ident(_) if text == "use" && !is_test => {
                    let declared = tokens.by_ref().take_while(|token| token.to_string() != ";").collect();
                    self.add_imports(Vec::new(), declared, depth);
                }
                TokenTree::Ident(_) if previous == "mod" => continue,
                TokenTree::Ident(_) => {
                    let is_definition = matches!(
                        &*previous,
                        "fn" | "struct" | "enum" | "trait" | "union" | "type" | "const" | "static" | "macro_rules"
                    );
                    if is_definition {
                        self.definitions.insert(text.clone());
                    }
                    let mut path = vec![text.clone()];
                    while tokens.next_if(|token| token.to_string() == ":").is_some() {
                        tokens.next_if(|token| token.to_string() == ":");
                        let Some(TokenTree::Ident(name)) = tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
                        else {
                            break;
                        };
                        path.push(name.to_string());
                    }
                    // Macros of a crate are at its root, whichever file has them.
                    let is_macro = matches!(tokens.peek(), Some(TokenTree::Punct(punct))
                        if punct.as_char() == '!' && punct.spacing() == Spacing::Alone);
                    if path.len() > 1 && !is_test && !is_macro {
                        self.paths.extend(without_inline_supers(path, depth));
                    }
                }
                // Ends an item, or a field.
                TokenTree::Punct(_) if text == ";" || text == "," => is_test = false,
                _ => {}
            }
            // `macro_rules! name` and `mod name { .. }`.
            if text != "!" {
                previous = text;
            }
        }
    }

    fn add_imports(&mut self, prefix: Vec<String>, tree: TokenStream, depth: usize) {
        let mut path = prefix.clone();
        let mut tokens = tree.into_iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => {
                    self.add_imports(std::mem::take(&mut path), group.stream(), depth);
                }
                TokenTree::Ident(name) if name == "as" => {
                    let name = tokens.next().map(|name| name.to_string()).unwrap_or_default();
                    self.add_import(std::mem::take(&mut path), name, depth);
                }
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
                TokenTree::Punct(punct) if punct.as_char() == ',' => {
                    let name = path.last().cloned().unwrap_or_default();
                    self.add_import(std::mem::replace(&mut path, prefix.clone()), name, depth);
                    path.clone_from(&prefix);
                }
                _ => {}
            }
        }
        let name = path.last().cloned().unwrap_or_default();
        self.add_import(path, name, depth);
    }

    fn add_import(&mut self, mut path: Vec<String>, name: String, depth: usize) {
        path.retain(|name| !name.is_empty());
        if matches!(path.last().map(String::as_str), Some("self" | "*")) && path.len() > 1 {
            path.pop();
        }
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        self.imports.extend(without_inline_supers(path, depth).map(|path| Import { path, name }));
    }
}

/// Returns a path as seen from the file, or `None` if it remains in the inline modules.
fn without_inline_supers(mut path: Vec<String>, depth: usize) -> Option<Vec<String>> {
    if depth == 0 || path.first().is_none_or(|first| first != "super" && first != "self") {
        return Some(path).filter(|path| path.len() > 1);
    }
    let supers = path.iter().take_while(|name| *name == "super").count();
    path.drain(..supers.min(depth));
    (supers > depth).then_some(path)
}

/// Re-exports that a path may pass.
const MAX_REEXPORTS: usize = 8;

/// Source files of all packages, without tests.
struct SourceTree {
    modules: BTreeMap<ModulePath, SourceNames>,
}

impl SourceTree {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut tree = Self { modules: BTreeMap::new() };
        tree.read_directory(&root.join("src"), &["nfsrdma_inspect".to_owned()]);
        tree.read_directory(&root.join("dissectors/src"), &["nfsrdma_dissectors".to_owned()]);
        for package in fs::read_dir(root.join("crates")).unwrap() {
            let package = package.unwrap();
            let name = format!("nfsrdma_{}", package.file_name().to_string_lossy().replace('-', "_"));
            tree.read_directory(&package.path().join("src"), &[name]);
        }
        tree
    }

    fn read_directory(&mut self, directory: &Path, parent: &[String]) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if matches!(&*name, "tests" | "testing" | "example_messages") {
                continue;
            }
            let module = match &*name {
                "lib" | "main" | "mod" => parent.to_vec(),
                _ => [parent, &[name]].concat(),
            };
            if path.is_dir() {
                self.read_directory(&path, &module);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let tokens = TokenStream::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                self.modules.entry(module).or_default().add(tokens, 0);
            }
        }
    }

    /// Adds the modules that a path in `module` imports.
    fn add_imported(
        &self,
        module: &ModulePath,
        path: &[String],
        is_glob: bool,
        reexports: usize,
        imported: &mut BTreeSet<ModulePath>,
    ) {
        let Some(first) = path.first() else { return };
        let supers = path.iter().take_while(|name| *name == "super").count();
        let child = |parent: &ModulePath, name: &String| [&parent[..], std::slice::from_ref(name)].concat();
        let (mut at, mut rest) = match &**first {
            "crate" => (module[..1].to_vec(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => (module[..module.len().saturating_sub(supers).max(1)].to_vec(), &path[supers..]),
            _ if self.modules.contains_key(std::slice::from_ref(first)) => (vec![first.clone()], &path[1..]),
            _ if self.modules.contains_key(&child(module, first)) => (module.clone(), path),
            // The name of an imported module.
            _ => {
                let import = self.modules[module].imports.iter().find(|import| import.name == *first);
                if let Some(import) = import.filter(|import| reexports < MAX_REEXPORTS && import.path != path) {
                    let path = [&import.path, &path[1..]].concat();
                    self.add_imported(module, &path, is_glob, reexports + 1, imported);
                }
                return;
            }
        };
        while let Some(name) = rest.first()
            && self.modules.contains_key(&child(&at, name))
        {
            (at, rest) = (child(&at, name), &rest[1..]);
        }
        let names = &self.modules[&at];
        if rest.is_empty() && !is_glob {
            return;
        }
        imported.insert(at.clone());
        let Some(name) = rest.first().filter(|name| !names.definitions.contains(*name)) else { return };
        if reexports < MAX_REEXPORTS {
            for import in names.imports.iter().filter(|import| import.name == *name) {
                let path = [&import.path, &rest[1..]].concat();
                self.add_imported(&at, &path, false, reexports + 1, imported);
            }
        }
    }

    fn imports_of(&self, module: &ModulePath) -> BTreeSet<ModulePath> {
        let mut imported = BTreeSet::new();
        let names = &self.modules[module];
        for import in &names.imports {
            self.add_imported(module, &import.path, import.name == "*", 0, &mut imported);
        }
        for path in &names.paths {
            self.add_imported(module, path, false, 0, &mut imported);
        }
        imported.remove(module);
        imported
    }
}

#[test]
fn no_file_imports_itself_through_others() {
    let tree = SourceTree::read();
    let mut imports: BTreeMap<_, _> =
        tree.modules.keys().map(|module| (module.clone(), tree.imports_of(module))).collect();
    let count: usize = imports.values().map(BTreeSet::len).sum();
    assert!(imports.len() > 500 && count > 2_000, "{} files, {count} imports", imports.len());
    // Files that import none of the remaining files are in no cycle.
    loop {
        let remaining: BTreeSet<_> = imports.keys().cloned().collect();
        imports.retain(|_, imported| !imported.is_disjoint(&remaining));
        if imports.len() == remaining.len() {
            break;
        }
    }
    // Neither are those that none of them imports.
    loop {
        let imported: BTreeSet<_> = imports.values().flatten().cloned().collect();
        let before = imports.len();
        imports.retain(|module, _| imported.contains(module));
        if imports.len() == before {
            break;
        }
    }
    let arrow = |(module, imported): (&ModulePath, &BTreeSet<ModulePath>)| {
        let imported = imported.iter().filter(|imported| imports.contains_key(*imported)).map(|path| path.join("::"));
        format!("{} imports {}", module.join("::"), imported.collect::<Vec<_>>().join(", "))
    };
    let cycles: Vec<_> = imports.iter().map(arrow).collect();
    assert!(cycles.is_empty(), "{}", cycles.join("\n"));
}
