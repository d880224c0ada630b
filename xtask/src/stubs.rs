//! The typed launch stubs: parameter lists of `kernels/*.cu`, written as Rust to
//! `crates/cuda-kernels/src/launch/kernels`.
//!
//! Entry points whose names differ only in element types become one stub with type parameters:
//! `pad_b8`, `pad_b32` and `pad_b64` are `Pad<T: Word>`. A pointer to `const` is an input buffer,
//! another pointer an output buffer, and a `u64` that is not a pointer is a `usize`. A type parameter that no
//! parameter of the kernel has becomes a parameter `element`, which passes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::build_kernels::Family;

/// The maximum line width of a stub.
const WIDTH: usize = 100;

/// The words in names that stand for element types, with the types in CUDA and in Rust.
const TAGS: &[(&str, &str, &str)] = &[
    ("f32", "float", "f32"),
    ("f64", "double", "f64"),
    ("i64", "i64", "i64"),
    ("i32", "i32", "i32"),
    ("u32", "u32", "u32"),
    ("u8", "unsigned char", "u8"),
    ("f16", "unsigned short", "f16"),
    ("bf16", "unsigned short", "bf16"),
    ("b8", "unsigned char", "u8"),
    ("b16", "unsigned short", "u16"),
    ("b32", "u32", "u32"),
    ("b64", "u64", "u64"),
];

/// An entry point and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Signature {
    name: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Clone, PartialEq)]
struct Parameter {
    mode: Mode,
    /// The CUDA type, or the pointee of a pointer.
    ty: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Read,
    Write,
    Value,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Read => "read",
            Mode::Write => "write",
            Mode::Value => "value",
        }
    }
}

/// Returns the entry points of a source, in order: functions, and invocations of macros that define
/// one.
pub(crate) fn signatures(source: &str) -> Result<Vec<Signature>> {
    let joined = source.replace("\\\n", " ");
    let mut macros: BTreeMap<&str, (Vec<&str>, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    let mut offset = 0;
    for line in joined.split_inclusive('\n') {
        let rest = &joined[offset..];
        offset += line.len();
        if let Some(definition) = line.strip_prefix("#define ") {
            if let (Some((name, rest)), true) =
                (definition.split_once('('), definition.contains("__global__ void"))
            {
                let (formals, body) = rest.split_once(')').context("a macro without `)`")?;
                macros.insert(name, (formals.split(',').map(str::trim).collect(), body));
            }
        } else if line.contains("__global__ void ") {
            found.push(signature(rest)?);
        } else if let Some((name, arguments)) = line.trim_end().split_once('(')
            && let Some((formals, body)) = macros.get(name)
        {
            let arguments = arguments.strip_suffix(')').context("an invocation over lines")?;
            found.push(signature(&substitute(body, formals, &arguments_of(arguments)))?);
        }
    }
    Ok(found)
}

/// Parses `.. __global__ void NAME(PARAMETERS)`.
fn signature(text: &str) -> Result<Signature> {
    let (_, rest) = text.split_once("__global__ void ").context("no entry point")?;
    let (name, rest) = rest.split_once('(').context("an entry point without `(`")?;
    let (list, _) = rest.split_once(')').context("an entry point without `)`")?;
    let parameters: Result<Vec<_>> =
        list.split(',').map(|parameter| parse_parameter(name, parameter)).collect();
    Ok(Signature { name: name.trim().to_owned(), parameters: parameters? })
}

fn parse_parameter(kernel: &str, text: &str) -> Result<Parameter> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (ty, name) = text
        .rsplit_once(' ')
        .with_context(|| format!("{kernel}: `{text}` is no parameter with a name"))?;
    let constant = ty.strip_prefix("const ");
    let (mode, ty) = match constant.unwrap_or(ty).strip_suffix('*') {
        Some(ty) if constant.is_some() => (Mode::Read, ty),
        Some(ty) => (Mode::Write, ty),
        None => (Mode::Value, ty),
    };
    let name = if name == "in" { "input" } else { name };
    Ok(Parameter { mode, ty: ty.to_owned(), name: name.to_owned() })
}

/// Splits the arguments of a macro at top-level commas.
fn arguments_of(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

/// Substitutes arguments for the parameters of a macro in its body.
fn substitute(body: &str, formals: &[&str], arguments: &[&str]) -> String {
    let mut text = String::new();
    let mut word = String::new();
    for c in body.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        let place = formals.iter().position(|&formal| formal == word);
        text.push_str(place.and_then(|place| arguments.get(place)).unwrap_or(&word.as_str()));
        word.clear();
        text.push(c);
    }
    text
}

/// Fails unless the PTX of a family has these parameters.
pub(crate) fn compare(family: &str, signatures: &[Signature], ptx: &str) -> Result<()> {
    let compiled = ptx_parameters(ptx)?;
    ensure!(
        compiled.len() == signatures.len(),
        "kernels/{family}.cu: {} entry points are compiled, and {} are read in the source",
        compiled.len(),
        signatures.len()
    );
    for Signature { name, parameters } in signatures {
        let compiled = compiled
            .get(name.as_str())
            .with_context(|| format!("kernels/{family}.cu: {name} is not compiled"))?;
        let same = compiled.len() == parameters.len()
            && parameters.iter().zip(compiled).all(|(parameter, compiled)| {
                match (parameter.mode, parameter.ty.as_str()) {
                    (Mode::Value, "u32" | "i32") => *compiled == Compiled::Number(".u32"),
                    (Mode::Value, "float") => *compiled == Compiled::Number(".f32"),
                    (Mode::Value, "double") => *compiled == Compiled::Number(".f64"),
                    (Mode::Value, "u64" | "i64") => *compiled == Compiled::Number(".u64"),
                    (Mode::Value, "unsigned short") => *compiled == Compiled::Number(".u16"),
                    (Mode::Value, "unsigned char") => *compiled == Compiled::Number(".u8"),
                    (Mode::Value, _) => matches!(compiled, Compiled::Bytes(_)),
                    _ => *compiled == Compiled::Number(".u64"),
                }
            });
        ensure!(
            same,
            "kernels/{family}.cu: {name} is compiled with {compiled:?}, and read as {parameters:?}"
        );
    }
    Ok(())
}

/// A parameter in PTX.
#[derive(Debug, PartialEq)]
enum Compiled<'a> {
    Number(&'a str),
    /// A structure of this size.
    Bytes(usize),
}

/// Returns the parameters of all entry points: lines like `.param .u64 NAME,` and
/// `.param .align 8 .b8 NAME[32]`.
fn ptx_parameters(ptx: &str) -> Result<BTreeMap<&str, Vec<Compiled<'_>>>> {
    let mut found = BTreeMap::new();
    let mut entry = None;
    for line in ptx.lines() {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.split('(').next().unwrap_or_default();
            entry = Some(name);
            found.insert(name, Vec::new());
        } else if line.starts_with(')') {
            entry = None;
        } else if let (Some(entry), Some(rest)) = (entry, line.trim().strip_prefix(".param ")) {
            let parameter = match rest.split_once(".b8 ") {
                Some((_, array)) => Compiled::Bytes(
                    array
                        .split(['[', ']'])
                        .nth(1)
                        .and_then(|bytes| bytes.parse().ok())
                        .with_context(|| format!("{entry}: `{line}` has no size"))?,
                ),
                None => Compiled::Number(rest.split(' ').next().unwrap_or_default()),
            };
            found.entry(entry).or_default().push(parameter);
        }
    }
    Ok(found)
}

/// The type of a stub's parameter.
#[derive(Debug, Clone, PartialEq)]
enum Type {
    Concrete(String),
    /// The type parameter with this index.
    Generic(usize),
    /// The unsigned integer as wide as the first type parameter.
    Key,
}

/// An entry point with the type words of its name.
type Tagged<'a> = (Vec<&'a str>, &'a Signature);

/// Entry points that differ only in element types.
#[derive(Debug)]
struct Stub<'a> {
    name: String,
    /// The tags and the name of each entry point.
    entries: Vec<(Vec<&'a str>, &'a str)>,
    parameters: Vec<(Mode, &'a str, Type)>,
}

impl<'a> Stub<'a> {
    /// Makes one stub for entry points whose names share all other words, if their parameters
    /// agree.
    fn new(name: String, group: &[Tagged<'a>]) -> Option<Stub<'a>> {
        let (first_tags, first) = group.first()?;
        let alone = group.len() == 1 && !first_tags.iter().all(|tag| ["f32", "b32"].contains(tag));
        let generics = if alone { 0 } else { first_tags.len() };
        let mut parameters = Vec::new();
        for (place, Parameter { mode, name, .. }) in first.parameters.iter().enumerate() {
            let mut types = Vec::new();
            for (tags, signature) in group {
                let parameter = signature.parameters.get(place)?;
                if signature.parameters.len() != first.parameters.len()
                    || tags.len() != first_tags.len()
                    || (parameter.mode, &parameter.name) != (*mode, name)
                {
                    return None;
                }
                types.push((tags, parameter.ty.as_str()));
            }
            let is = |generic: usize, ty: fn(&str) -> &str| {
                types.iter().all(|(tags, found)| ty(tags[generic]) == *found)
            };
            let ty = if let Some(generic) = (0..generics).find(|&generic| is(generic, cuda_type)) {
                Type::Generic(generic)
            } else if types.iter().all(|(_, ty)| *ty == types[0].1) {
                Type::Concrete(types[0].1.to_owned())
            } else if generics > 0 && is(0, key_type) {
                Type::Key
            } else {
                return None;
            };
            parameters.push((*mode, name.as_str(), ty));
        }
        let entries = group
            .iter()
            .map(|(tags, signature)| (tags[..generics].to_vec(), signature.name.as_str()))
            .collect();
        Some(Stub { name, entries, parameters })
    }

    /// Returns the bounds of the type parameters.
    fn bounds(&self) -> Vec<&'static str> {
        let generics = self.entries[0].0.len();
        let keyed = self.parameters.iter().any(|(_, _, ty)| *ty == Type::Key);
        (0..generics)
            .map(|generic| {
                let only = |allowed: &[&str]| {
                    self.entries.iter().all(|(tags, _)| allowed.contains(&tags[generic]))
                };
                if only(&["f32", "f64"]) && !keyed {
                    "Float"
                } else if only(&["f32", "f64", "i64"]) {
                    if keyed { "Sortable" } else { "Number" }
                } else {
                    "Word"
                }
            })
            .collect()
    }
}

fn cuda_type(tag: &str) -> &str {
    TAGS.iter().find(|known| known.0 == tag).map_or("", |known| known.1)
}

fn key_type(tag: &str) -> &str {
    match tag {
        "f32" | "i32" => "u32",
        _ => "u64",
    }
}

/// Groups entry points into stubs.
fn stubs(signatures: &[Signature]) -> Result<Vec<Stub<'_>>> {
    let mut groups: Vec<(String, Vec<Tagged<'_>>)> = Vec::new();
    for signature in signatures {
        let (tags, words): (Vec<&str>, Vec<&str>) =
            signature.name.split('_').partition(|word| TAGS.iter().any(|tag| tag.0 == *word));
        let name = camel(&words);
        match groups.iter_mut().find(|group| group.0 == name) {
            Some((_, group)) => group.push((tags, signature)),
            None => groups.push((name, vec![(tags, signature)])),
        }
    }
    let mut found = Vec::new();
    for (name, group) in groups {
        if let Some(stub) = Stub::new(name, &group) {
            found.push(stub);
            continue;
        }
        for (_, signature) in group {
            let name = camel(&signature.name.split('_').collect::<Vec<_>>());
            let alone = Stub::new(name, &[(Vec::new(), signature)]);
            found.push(alone.with_context(|| format!("{} has no stub", signature.name))?);
        }
    }
    Ok(found)
}

/// Converts `["max", "pool"]` to `MaxPool`.
fn camel(words: &[&str]) -> String {
    let mut name = String::new();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// Returns the Rust source of a family's stubs.
pub(crate) fn render(
    family: &Family,
    signatures: &[Signature],
    ptx: &str,
    structures: &BTreeMap<String, String>,
) -> Result<String> {
    let name = &family.name;
    let compiled = ptx_parameters(ptx)?;
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    used.entry("crate::launch".to_owned()).or_default().insert("Family".to_owned());
    let mut sizes = BTreeMap::new();
    let mut body = String::new();
    for stub in stubs(signatures)? {
        let levels: BTreeSet<&str> = stub
            .entries
            .iter()
            .filter_map(|(_, name)| family.entry.iter().find(|entry| entry.name == *name))
            .map(|entry| entry.level.as_str())
            .collect();
        let [level] = levels.iter().collect::<Vec<_>>()[..] else {
            bail!("kernels/{name}.cu: {} have levels {levels:?}", stub.name);
        };
        let bounds = stub.bounds();
        let generics: Vec<String> =
            bounds.iter().zip(["T", "R"]).map(|(bound, t)| format!("{t}: {bound}")).collect();
        for bound in bounds {
            used.entry("crate::device".to_owned()).or_default().insert(bound.to_owned());
        }
        let mut parameters = Vec::new();
        for (place, (mode, parameter, ty)) in stub.parameters.iter().enumerate() {
            let ty = match ty {
                Type::Generic(generic) => ["T", "R"][*generic].to_owned(),
                Type::Key => "T::Key".to_owned(),
                Type::Concrete(ty) => match (mode, ty.as_str()) {
                    (Mode::Value, "u64") => "usize".to_owned(),
                    (_, "u64" | "i64" | "u32" | "i32") => ty.clone(),
                    (_, structure) if structure.starts_with("Sb") => {
                        let path = structures.get(structure).with_context(|| {
                            format!("kernels/{name}.cu: {structure} is not declared in Rust")
                        })?;
                        let (module, structure) = path.rsplit_once("::").context("a path")?;
                        used.entry(module.to_owned()).or_default().insert(structure.to_owned());
                        if let Compiled::Bytes(bytes) = compiled[stub.entries[0].1][place] {
                            sizes.insert(structure.to_owned(), bytes);
                        }
                        structure.to_owned()
                    }
                    (_, ty) => TAGS
                        .iter()
                        .find(|tag| tag.1 == ty)
                        .with_context(|| format!("kernels/{name}.cu: there is no type {ty}"))?
                        .2
                        .to_owned(),
                },
            };
            parameters.push(format!("{} {parameter}: {ty}", mode.name()));
        }
        for (generic, t) in ["T", "R"].into_iter().enumerate().take(generics.len()) {
            let names_it =
                |ty: &Type| *ty == Type::Generic(generic) || generic == 0 && *ty == Type::Key;
            if !stub.parameters.iter().any(|(_, _, ty)| names_it(ty)) {
                parameters.push(format!("element {}: {t}", t.to_lowercase()));
            }
        }
        let generics =
            if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let entries: Vec<String> = stub
            .entries
            .iter()
            .map(|(tags, name)| {
                format!(
                    "{}=> \"{name}\"",
                    tags.iter().fold(String::new(), |all, tag| all + tag + " ")
                )
            })
            .collect();
        let head = format!("    {level} {}{generics} ", stub.name);
        wrapped(&mut body, &head, '[', &entries, "]")?;
        wrapped(&mut body, "        ", '(', &parameters, ");")?;
    }
    let mut text = format!(
        "// Written by `cargo xtask build-kernels` from kernels/{name}.cu. Do not edit.\n\n"
    );
    for (module, names) in used {
        let names = names.into_iter().collect::<Vec<_>>();
        match &names[..] {
            [name] => writeln!(text, "use {module}::{name};")?,
            names => writeln!(text, "use {module}::{{{}}};", names.join(", "))?,
        }
    }
    let (head, value) = (
        "pub(crate) const FAMILY: Family =",
        format!("Family {{ name: \"{name}\", ptx: include_str!(\"../../../ptx/{name}.ptx\") }};"),
    );
    let gap = if head.len() + 1 + value.len() <= WIDTH { " " } else { "\n    " };
    writeln!(text, "\n{head}{gap}{value}")?;
    for (structure, bytes) in sizes {
        writeln!(text, "const _: () = assert!(size_of::<{structure}>() == {bytes});")?;
    }
    write!(text, "\nkernels! {{\n{body}}}\n")?;
    Ok(text)
}

/// Writes a list on one line, or each item on its own line.
fn wrapped(
    text: &mut String,
    head: &str,
    open: char,
    items: &[String],
    close: &str,
) -> std::fmt::Result {
    let line = format!("{head}{open}{}{close}", items.join(", "));
    if line.len() <= WIDTH {
        return writeln!(text, "{line}");
    }
    let indent = " ".repeat(head.len() - head.trim_start().len());
    writeln!(text, "{head}{open}")?;
    let mut row = format!("{indent}   ");
    for item in items {
        if row.len() + item.len() + 2 > WIDTH {
            writeln!(text, "{row}")?;
            row = format!("{indent}   ");
        }
        write!(row, " {item},")?;
    }
    writeln!(text, "{row}\n{indent}{close}")
}

/// Returns the folder of the stubs.
pub(crate) fn folder() -> PathBuf {
    crate::root().join("crates/cuda-kernels/src/launch/kernels")
}

/// Returns the module that lists the families.
pub(crate) fn render_index<'a>(families: impl Iterator<Item = &'a str>) -> String {
    let mut text = "//! A type for each kernel, with its parameters as fields.\n\
                    //!\n\
                    //! Written by `cargo xtask build-kernels`. Do not edit.\n\n"
        .to_owned();
    for family in families {
        text.push_str("pub(crate) mod ");
        text.push_str(family);
        text.push_str(";\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#define SB_PAD(NAME, T) \\\n    extern \"C\" __global__ void NAME(T* out, \
                          const T* in, SbPad p, T value) { \\\n    }\n\
                          SB_PAD(pad_b8, unsigned char)\nSB_PAD(pad_b32, u32)\n\
                          extern \"C\" __global__ void keys(i64* keys, u64 n,\n    u32 with) {\n}\n";

    #[test]
    fn parameters_are_read_from_functions_and_macros() {
        let found = signatures(SOURCE).unwrap();
        let names: Vec<&str> = found.iter().map(|signature| signature.name.as_str()).collect();
        assert_eq!(names, ["pad_b8", "pad_b32", "keys"]);
        assert_eq!(found[1].parameters[1].ty, "u32");
        assert_eq!(found[1].parameters[1].mode, Mode::Read);
        assert_eq!(found[2].parameters.len(), 3);
    }

    #[test]
    fn element_types_become_type_parameters() {
        let found = signatures(SOURCE).unwrap();
        let stubs = stubs(&found).unwrap();
        assert_eq!(stubs.len(), 2);
        assert_eq!((stubs[0].name.as_str(), stubs[0].bounds()), ("Pad", vec!["Word"]));
        assert_eq!(stubs[0].parameters[3], (Mode::Value, "value", Type::Generic(0)));
    }

    #[test]
    fn parameters_that_are_compiled_otherwise_are_refused() {
        let ptx = ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .u32 k_1\n)\n{\n";
        let read = |text| compare("x", &signatures(text).unwrap(), ptx);
        assert!(read("__global__ void k(float* out, u32 n) {\n").is_ok());
        assert!(read("__global__ void k(float* out, u64 n) {\n").is_err());
        assert!(read("__global__ void k(float* out) {\n").is_err());
    }
}
