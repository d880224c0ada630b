//! Declarations that CUDA kernels and Rust share: `#[repr(C)]` parameter structures and
//! `#[repr(u32)]` enumerations, declared in Rust and written as CUDA to `kernels/include/declared`.
//!
//! Each family gives the header of its name, with `SbPad` for the structure `RawPad` and
//! `SB_PAD_MODE_CONSTANT` for `PadMode::Constant`; `Kind` at the end of a name is dropped. Comments
//! are copied.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The folder of the headers.
pub(crate) const FOLDER: &str = "kernels/include/declared";

/// The sources that may hold declarations, and their names in Rust.
const SOURCES: [(&str, &str); 3] = [
    ("crates/cuda-kernels/src", "crate"),
    ("crates/tensor-core/src/geometry", "samebits_tensor_core::geometry"),
    ("crates/tensor-core/src/ops", "samebits_tensor_core::ops"),
];

/// All declarations of Rust for CUDA.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    /// The Rust paths of the structures, by their CUDA names.
    pub(crate) structures: BTreeMap<String, String>,
    /// The texts of the headers, by name.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Declarations {
    pub(crate) fn read() -> Result<Declarations> {
        let mut all = Declarations::default();
        for (folder, module) in SOURCES {
            for path in sources(&crate::root().join(folder))? {
                let text = std::fs::read_to_string(&path)?;
                let relative = path.strip_prefix(crate::root().join(folder))?.with_extension("");
                let names: Vec<_> = relative.iter().filter_map(|name| name.to_str()).collect();
                all.add(&text, &[&[module], &names[..]].concat())
                    .with_context(|| path.display().to_string())?;
            }
        }
        Ok(all)
    }

    /// Adds the declarations of a source.
    fn add(&mut self, text: &str, module: &[&str]) -> Result<()> {
        let (["crate", "launch", "declared", family] | [_, family, ..]) = module else {
            bail!("declarations outside a family");
        };
        let header = format!("{family}.cuh");
        for (declaration, comments) in marked(text, "#[repr(C)]") {
            let name = word_after(declaration, "struct ")?;
            let cuda = format!("Sb{}", name.strip_prefix("Raw").unwrap_or(name));
            let structure = structure(&cuda, declaration, &comments, text)?;
            self.header(&header).push_str(&structure);
            self.structures.insert(cuda, format!("{}::{name}", module.join("::")));
        }
        for (declaration, _) in marked(text, "#[repr(u32)]") {
            let name = word_after(declaration, "enum ")?;
            let name = name.strip_suffix("Kind").unwrap_or(name);
            let enumeration = enumeration(name, declaration)?;
            self.header(&header).push_str(&enumeration);
        }
        Ok(())
    }

    fn header(&mut self, name: &str) -> &mut String {
        self.headers.entry(name.to_owned()).or_insert_with(|| {
            "// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.\n\n\
             #pragma once\n"
                .to_owned()
        })
    }
}

/// Returns the Rust sources below a folder, by name.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the declarations that follow an attribute, each with its comment lines.
fn marked<'a>(text: &'a str, attribute: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let line = format!("\n{attribute}\n");
    let places = text.match_indices(&line);
    let found = places.map(|(at, line)| {
        let before = text[..at].lines().rev().skip_while(|line| line.starts_with("#["));
        let mut comments: Vec<&str> =
            before.map_while(|line| line.strip_prefix("///")).map(str::trim).collect();
        comments.reverse();
        (&text[at + line.len()..], comments)
    });
    found.collect()
}

fn word_after<'a>(text: &'a str, keyword: &str) -> Result<&'a str> {
    let head = text.lines().next().unwrap_or_default();
    let name = head.split(keyword).nth(1).and_then(|rest| rest.split(' ').next());
    name.with_context(|| format!("`{head}` is no {keyword}"))
}

/// Returns the lines of a declaration's body.
fn body(declaration: &str) -> impl Iterator<Item = &str> {
    declaration.lines().skip(1).map(str::trim).take_while(|line| *line != "}")
}

/// Writes a structure in CUDA; `source` defines the constants used as array lengths.
fn structure(name: &str, declaration: &str, comments: &[&str], source: &str) -> Result<String> {
    let mut cuda = String::from("\n");
    for line in comments {
        writeln!(cuda, "// {line}")?;
    }
    writeln!(cuda, "struct {name} {{")?;
    for line in body(declaration) {
        if let Some(comment) = line.strip_prefix("///") {
            writeln!(cuda, "    //{comment}")?;
            continue;
        }
        let field = line.trim_start_matches("pub(crate) ").trim_end_matches(',');
        let (field, ty) = field.split_once(": ").with_context(|| format!("{name}: `{line}`"))?;
        let (element, length) = match ty.strip_prefix('[').and_then(|ty| ty.strip_suffix(']')) {
            Some(array) => {
                let (element, length) = array.split_once("; ").context("an array's length")?;
                (element, format!("[{}]", number(length, source)?))
            }
            None => (ty, String::new()),
        };
        let element = match element {
            "usize" => "u64",
            "f32" => "float",
            "f64" => "double",
            "u64" | "i64" | "u32" | "i32" => element,
            other => bail!("{name}: CUDA has no type for `{field}: {other}`"),
        };
        writeln!(cuda, "    {element} {field}{length};")?;
    }
    cuda.push_str("};\n");
    Ok(cuda)
}

/// Returns the value of a literal, or of a constant of the same source.
fn number(length: &str, source: &str) -> Result<usize> {
    let literal = match source.split_once(&format!("const {length}: usize = ")) {
        Some((_, rest)) => rest.split(';').next().unwrap_or_default(),
        None => length,
    };
    literal.parse().with_context(|| format!("`{length}` is neither a number nor a constant"))
}

/// Writes the variants of an enumeration as constants with their numbers.
fn enumeration(name: &str, declaration: &str) -> Result<String> {
    let mut cuda = format!("\nenum Sb{name} : u32 {{\n");
    for line in body(declaration).filter(|line| !line.starts_with("//")) {
        let line = line.trim_end_matches(',');
        let (variant, value) = match line.split_once(" = ") {
            Some((variant, value)) => (variant, format!(" = {}", value.parse::<u32>()?)),
            None => (line, String::new()),
        };
        let plain = !variant.is_empty() && variant.chars().all(char::is_alphanumeric);
        ensure!(plain, "{name}: `{line}` is no plain variant");
        writeln!(cuda, "    SB_{}_{}{value},", screaming(name), screaming(variant))?;
    }
    cuda.push_str("};\n");
    Ok(cuda)
}

/// Converts `PadMode` to `PAD_MODE`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for (i, letter) in name.chars().enumerate() {
        if i > 0 && letter.is_uppercase() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> Result<Declarations> {
        let mut all = Declarations::default();
        all.add(text, &["crate", "padding"])?;
        Ok(all)
    }

    #[test]
    fn structures_and_enumerations_are_written_as_cuda() {
        let all = declared(
            "const RANK: usize = 3;\n\n/// Planes to pad.\n#[derive(Clone)]\n#[repr(C)]\n\
             pub(crate) struct RawPad {\n    planes: usize,\n    /// Smallest first.\n    \
             before: [i32; RANK],\n}\n\n/// Not seen.\n#[repr(u32)]\npub enum PadMode {\n    \
             /// Zeros.\n    Constant,\n    TwoFold = 2,\n}\n",
        );
        let all = all.unwrap();
        assert_eq!(all.structures["SbPad"], "crate::padding::RawPad");
        let (_, text) = all.headers["padding.cuh"].split_once("once\n").unwrap();
        assert_eq!(
            text,
            "\n// Planes to pad.\nstruct SbPad {\n    u64 planes;\n    // Smallest first.\n    \
             i32 before[3];\n};\n\nenum SbPadMode : u32 {\n    SB_PAD_MODE_CONSTANT,\n    \
             SB_PAD_MODE_TWO_FOLD = 2,\n};\n"
        );
    }

    #[test]
    fn what_cuda_cannot_say_is_refused() {
        for body in ["struct RawPad {\n    planes: u8,\n}", "struct RawPad {\n    a: [u32; N],\n}"]
        {
            assert!(declared(&format!("\n#[repr(C)]\n{body}\n")).is_err(), "{body}");
        }
        for body in ["enum Mode {\n    One = -1,\n}", "enum Mode {\n    One(u8),\n}"] {
            assert!(declared(&format!("\n#[repr(u32)]\n{body}\n")).is_err(), "{body}");
        }
    }
}
