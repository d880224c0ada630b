//! Command lines in Markdown files: each must be one that exists.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser as _;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// Programs that are not ours, and words of the shell. `samebits` is checked by the tests of its
/// own crate.
const OTHERS: &[&str] =
    &["cp", "dieharder", "do", "done", "for", "git", "jq", "mkdir", "pip", "samebits"];

/// Words in front of a command, with the number of words that they take for themselves.
const PREFIXES: &[(&str, usize)] = &[("export", 0), ("mpirun", 2), ("srun", 2)];

/// Flags that name a target, with the folder of such targets in a crate.
const TARGETS: &[(&str, &str)] =
    &[("--example", "examples"), ("--test", "tests"), ("--bench", "benches")];

/// Adds the command lines of Markdown files that cannot work to `findings`: `cargo xtask` with
/// arguments that it refuses, packages, targets and files that do not exist, unknown programs.
pub(crate) fn check(root: &Path, texts: &BTreeMap<&Path, String>, findings: &mut Vec<String>) {
    for (file, text) in texts {
        for (line, command) in commands(text) {
            if let Err(fault) = try_command(root, &command) {
                findings.push(format!("{}:{line}: `{command}`: {fault}", file.display()));
            }
        }
    }
}

/// Returns the commands in blocks of `sh`, with their lines.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block = false;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                block = &*language == "sh";
            }
            Event::End(TagEnd::CodeBlock) => block = false,
            Event::Text(code) if block => {
                let first = text[..range.start].matches('\n').count() + 1;
                let mut joined = String::new();
                for (number, line) in code.lines().enumerate() {
                    let line = line.split(" #").next().unwrap_or("").trim();
                    joined.push_str(line.trim_end_matches('\\'));
                    if !line.ends_with('\\') {
                        let command = std::mem::take(&mut joined);
                        let parts = command.split(" | ").map(|part| part.trim().to_owned());
                        let parts = parts.filter(|part| !part.is_empty() && !part.starts_with('#'));
                        found.extend(parts.map(|part| (first + number, part)));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Checks one command.
fn try_command(root: &Path, command: &str) -> Result<(), String> {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    loop {
        let taken = match words.first() {
            None => return Ok(()),
            Some(word) if is_assignment(word) => 1,
            Some(word) => match PREFIXES.iter().find(|(name, _)| name == word) {
                Some(&(_, more)) => 1 + more,
                None => break,
            },
        };
        words.drain(..taken.min(words.len()));
    }
    match words[..] {
        ["cargo", "xtask", ..] => {
            let parsed = crate::Cli::try_parse_from(&words[1..]);
            parsed.map(drop).map_err(|error| first_line(&error.to_string()))
        }
        ["cargo", ..] => try_cargo(root, &words[1..]),
        ["python", "-m", ..] => Ok(()),
        ["python", script, ..] => exists(root, script),
        [program, ..] if OTHERS.contains(&program) => Ok(()),
        // What a command has built.
        [program, ..] if program.starts_with("target/") || program.starts_with("./") => Ok(()),
        [program, ..] => exists(root, program),
        [] => Ok(()),
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Checks the package, the manifest and the target that a Cargo command names.
fn try_cargo(root: &Path, words: &[&str]) -> Result<(), String> {
    let after = |flags: &[&str]| {
        let at = words.iter().position(|word| flags.contains(word))?;
        words.get(at + 1).copied()
    };
    if let Some(path) = after(&["--manifest-path"]) {
        exists(root, path)?;
    }
    let Some(package) = after(&["--package", "-p"]) else { return Ok(()) };
    let folder = match package.strip_prefix("samebits-") {
        Some(name) => root.join("crates").join(name),
        None if package == "samebits" => root.join("crates/samebits"),
        None => return Err(format!("no package `{package}`")),
    };
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("no package `{package}`"));
    }
    for (flag, targets) in TARGETS {
        let Some(name) = after(&[flag]) else { continue };
        let target = folder.join(targets).join(name);
        if !target.with_extension("rs").is_file() && !target.join("main.rs").is_file() {
            return Err(format!("`{package}` has no target `{name}` in {targets}/"));
        }
    }
    Ok(())
}

fn exists(root: &Path, path: &str) -> Result<(), String> {
    if root.join(path).is_file() { Ok(()) } else { Err(format!("there is no `{path}`")) }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_cannot_work_are_found() {
        let text = "```sh\n\
            cargo xtask test        # every test\n\
            SAMEBITS_SIMD=portable cargo xtask bench --randon 1\n\
            cargo xtask tidy \\\n  --quick\n\
            cargo run -p samebits --example tour -- table\n\
            cargo run -p samebits --example tours\n\
            cargo build --package samebits-nothing\n\
            python crates/none.py | jq .\n\
            sambits diff a b\n\
            ```\n\n```text\ncargo xtask nothing\n```\n";
        let texts = BTreeMap::from([(Path::new("a.md"), text.to_owned())]);
        let mut findings = Vec::new();
        check(crate::root(), &texts, &mut findings);
        let lines: Vec<_> = findings.iter().map(|f| f.split(": `").next().unwrap_or("")).collect();
        let at = ["a.md:3", "a.md:5", "a.md:7", "a.md:8", "a.md:9", "a.md:10"];
        assert_eq!(lines, at, "{findings:#?}");
    }
}
