//! Circles of modules: modules of a crate that use one another in a ring, so that none can be read
//! without the others.
//!
//! A module uses another if it names an item that is defined there, in a `use` declaration or in a
//! path that begins with `crate::` or `super::`. Names are followed through `use` declarations to the
//! module that defines them. A declaration that only re-exports counts as no use, and neither does a
//! module's test module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

/// The path of a module below its crate.
type Module = Vec<String>;

/// A `use` declaration of one name.
#[derive(Debug)]
struct Use {
    public: bool,
    path: Vec<String>,
    /// The name in this module; `*` for all.
    name: String,
}

/// The modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    uses: BTreeMap<Module, Vec<Use>>,
    /// Paths in code, other than in `use` declarations.
    paths: BTreeMap<Module, Vec<Vec<String>>>,
    items: BTreeMap<Module, BTreeSet<String>>,
}

impl Modules {
    /// Reads the modules below a crate's source folder.
    pub(crate) fn read(folder: &Path) -> Result<Modules> {
        let mut all = Modules::default();
        let mut open = vec![folder.to_owned()];
        while let Some(inner) = open.pop() {
            for entry in std::fs::read_dir(&inner)? {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let relative = path.strip_prefix(folder)?.with_extension("");
                    let mut module: Module =
                        relative.iter().map(|name| name.to_string_lossy().into_owned()).collect();
                    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                        module.pop();
                    }
                    if !module.iter().any(|name| name == "tests") {
                        let text = std::fs::read_to_string(&path).context("a source")?;
                        all.add(module, &text);
                    }
                }
            }
        }
        Ok(all)
    }

    fn add(&mut self, module: Module, source: &str) {
        let text: String = source
            .lines()
            .map(|line| line.split_once("//").map_or(line, |(code, _)| code).to_owned() + "\n")
            .collect();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let (mut uses, mut items, mut code) = (Vec::new(), BTreeSet::new(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let (public, declared) = without_visibility(line.trim_start());
            if let Some(first) = declared.strip_prefix("use ") {
                let mut tree = first.to_owned();
                while !tree.contains(';') {
                    let Some(more) = lines.next() else { break };
                    tree.push_str(more.trim());
                }
                let tree = tree.split(';').next().unwrap_or_default();
                expand(tree, &[], public, &mut uses);
                continue;
            }
            items.extend(defined(declared).map(str::to_owned));
            code.push_str(line);
            code.push('\n');
        }
        self.paths.insert(module.clone(), paths(&code));
        self.uses.insert(module.clone(), uses);
        self.items.insert(module, items);
    }

    /// Returns the circles, each with its modules in order.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.uses.keys().map(|module| (module, self.used_by(module))).collect();
        let reached = |from: &Module| {
            let mut found = BTreeSet::new();
            let mut open: Vec<&Module> = edges[from].iter().collect();
            while let Some(next) = open.pop() {
                if found.insert(next) {
                    open.extend(&edges[next]);
                }
            }
            found
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|&module| (module, reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (&module, found) in &reached {
            let ring: Vec<String> = found
                .iter()
                .filter(|other| **other == module || reached[**other].contains(module))
                .map(|other| other.join("::"))
                .collect();
            if ring.len() > 1 {
                circles.insert(ring);
            }
        }
        circles.into_iter().collect()
    }

    /// Returns the modules whose items a module uses.
    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        let mut used = BTreeSet::new();
        for Use { public, path, name } in &self.uses[module] {
            let path = if name == "*" { &path[..path.len() - 1] } else { &path[..] };
            let (false, Some((base, rest))) = (*public, self.absolute(module, path)) else {
                continue;
            };
            used.extend(self.owner(&base, rest, &mut Vec::new()));
        }
        for path in &self.paths[module] {
            let Some((base, rest)) = self.absolute(module, path) else { continue };
            used.extend(self.owner(&base, rest, &mut Vec::new()));
        }
        used.remove(module);
        used
    }

    /// Splits a path into a module of this crate and names below it; `None` for other crates.
    fn absolute<'a>(&self, module: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let first = path.first()?;
        let supers = path.iter().take_while(|name| *name == "super").count();
        match first.as_str() {
            "crate" => Some((Vec::new(), &path[1..])),
            "self" => Some((module.clone(), &path[1..])),
            "super" => {
                let depth = module.len().checked_sub(supers)?;
                Some((module[..depth].to_vec(), &path[supers..]))
            }
            name => self.child(module, name).map(|_| (module.clone(), path)),
        }
    }

    fn child(&self, module: &[String], name: &str) -> Option<Module> {
        let child = [module, &[name.to_owned()]].concat();
        self.items.contains_key(&child).then_some(child)
    }

    /// Returns the module that defines what a path names.
    fn owner(
        &self,
        module: &[String],
        path: &[String],
        seen: &mut Vec<(Module, Vec<String>)>,
    ) -> Option<Module> {
        let (mut module, mut path) = (module.to_vec(), path);
        while let Some(child) = path.first().and_then(|name| self.child(&module, name)) {
            (module, path) = (child, &path[1..]);
        }
        let at = (module.clone(), path.to_vec());
        if seen.contains(&at) {
            return None;
        }
        seen.push(at);
        let Some((name, below)) = path.split_first() else { return Some(module) };
        let uses = self.uses.get(&module)?;
        if let Some(found) = uses.iter().find(|used| used.name == *name) {
            let (base, rest) = self.absolute(&module, &found.path)?;
            return self.owner(&base, &[rest, below].concat(), seen);
        }
        if self.items[&module].contains(name) {
            return Some(module);
        }
        uses.iter().filter(|used| used.name == "*").find_map(|used| {
            let (base, rest) = self.absolute(&module, &used.path[..used.path.len() - 1])?;
            self.owner(&base, &[rest, path].concat(), seen)
        })
    }
}

/// Returns a declaration without `pub` or `pub(..)`, and true if it had one.
fn without_visibility(line: &str) -> (bool, &str) {
    let Some(rest) = line.strip_prefix("pub") else { return (false, line) };
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    };
    (true, rest.trim_start())
}

/// Returns the name of the item that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    if let Some(name) = line.strip_prefix("macro_rules! ") {
        return Some(word(name));
    }
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union"];
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let found = words.windows(2).enumerate().take_while(|(at, _)| {
        words[..*at].iter().all(|word| ["async", "const", "unsafe"].contains(word))
    });
    let (_, last) = found.filter(|(_, pair)| keywords.contains(&pair[0])).last()?;
    let name = word(last[1]);
    (!name.is_empty()).then_some(name)
}

fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// Appends the names of a `use` tree.
fn expand(tree: &str, before: &[String], public: bool, uses: &mut Vec<Use>) {
    let tree = tree.trim();
    let segments =
        |text: &str| text.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some((head, list)) = tree.split_once('{') {
        let head: Vec<String> = segments(head.trim());
        let inner = list.trim_end().strip_suffix('}').unwrap_or(list);
        let (mut depth, mut start) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inner[start..at], &[before, &head].concat(), public, uses);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path: Vec<String> = segments(path);
    let mut path = [before, &path].concat();
    if path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    let name = if alias.is_empty() { last.clone() } else { alias.trim().to_owned() };
    uses.push(Use { public, path, name });
}

/// Returns the paths in code that begin with `crate::` or `super::`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_ascii_alphanumeric() || "_:$".contains(c)) {
                continue;
            }
            let mut path = Vec::new();
            let mut rest = &code[at..];
            loop {
                let name = word(rest);
                if name.is_empty() {
                    break;
                }
                path.push(name.to_owned());
                let Some(next) = rest[name.len()..].strip_prefix("::") else { break };
                rest = next;
            }
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut all = Modules::default();
        for (module, text) in files {
            let module = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
            all.add(module.collect(), text);
        }
        all.circles()
    }

    #[test]
    fn a_planted_circle_is_found_however_it_is_spelt() {
        let root = ("", "mod a;\nmod b;\npub use b::Two;\n");
        for (uses, found) in [
            ("use super::b::Two;", true),
            ("use crate::{b::{Other, Two}};", true),
            // By way of the parent's re-export.
            ("use super::Two;", true),
            ("use super::b as other;", true),
            ("use super::*;", false),
            ("pub use super::b::Two;", false),
            ("// use super::b::Two;", false),
            ("use other_crate::b::Two;", false),
            ("fn f() { crate::b::g() }", true),
            ("#[cfg(test)]\nmod tests {\n    use crate::b::Two;\n}", false),
        ] {
            let a = format!("{uses}\npub(crate) struct One;\n");
            let b = "use crate::a::One;\npub struct Two;\npub struct Other;\npub fn g() {}\n";
            let expected: &[&[&str]] = if found { &[&["a", "b"]] } else { &[] };
            assert_eq!(circles(&[root, ("a", &a), ("b", b)]), expected, "{uses}");
        }
    }

    #[test]
    fn modules_in_layers_make_no_circle() {
        let files = [
            ("", "mod a;\nmod b;\nmod c;\n"),
            ("a", "pub fn f() {}\n"),
            ("b", "mod inner;\nuse crate::a::f;\nuse inner::h;\npub fn g() {}\n"),
            ("b::inner", "use crate::a;\npub fn h() { a::f() }\n"),
            ("c", "use crate::{a::f, b::g};\n"),
        ];
        assert_eq!(circles(&files), [[""; 0]; 0]);
    }
}
