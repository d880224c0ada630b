//! `cargo xtask docs`: builds the book in `docs/book`, follows its links, runs its programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

/// The version of mdBook that is installed if it is missing.
const MDBOOK: &str = "0.5.4";

/// Flags of `cargo xtask docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build the pages, but do not run their programs: `cargo xtask test` runs them too.
    #[arg(long)]
    no_test: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let findings = listed()?;
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    if !args.no_test {
        let mut tests = tools::cargo();
        tests.args(["test", "--quiet", "--package", "workspace-tests", "--doc", "book"]);
        tools::succeed("the programs of the book", &mut tests)?;
    }
    let mdbook = mdbook()?;
    let book = crate::root().join("docs/book");
    tools::succeed("mdbook build", Command::new(mdbook).arg("build").arg(&book))?;
    let built = crate::root().join("target/book");
    let findings = dead_links(&built)?;
    if !findings.is_empty() {
        bail!("links of the book that lead nowhere:\n{}", findings.join("\n"));
    }
    println!("the book: {}", built.join("index.html").display());
    Ok(())
}

/// Returns the pages that the table of contents or the documentation tests lack.
fn listed() -> Result<Vec<String>> {
    let read = |path: &str| {
        std::fs::read_to_string(crate::root().join(path)).with_context(|| format!("no {path}"))
    };
    let (contents, tests) = (read("docs/book/SUMMARY.md")?, read("tests/src/book.rs")?);
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(crate::root().join("docs/book"))? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        if !contents.contains(&format!("]({name})")) {
            findings.push(format!("docs/book/SUMMARY.md lacks {name}"));
        }
        // The facade mounts the page that only includes its own.
        if name != "reproducibility.md" && !tests.contains(&format!("\"docs/book/{name}\"")) {
            findings.push(format!("tests/src/book.rs lacks {name}"));
        }
    }
    findings.sort();
    Ok(findings)
}

/// Returns mdBook's program, and installs it into the target folder if it is missing.
fn mdbook() -> Result<PathBuf> {
    let folder = crate::target().join("tools");
    let program = folder.join("bin/mdbook").with_extension(std::env::consts::EXE_EXTENSION);
    let has = |program: &Path| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(MDBOOK))
    };
    for program in [Path::new("mdbook"), &program] {
        if has(program) {
            return Ok(program.to_owned());
        }
    }
    let mut install = tools::cargo();
    install.args(["install", "--quiet", "--locked", "mdbook", "--version", MDBOOK]);
    // A minute less to wait, for a book of thirty pages.
    install
        .args(["--debug", "--no-default-features", "--features", "search", "--root"])
        .arg(&folder);
    tools::install(&mut install)?;
    Ok(program)
}

/// Returns the links between the built pages, and from them into the repository, that lead nowhere.
fn dead_links(folder: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The page for wrong addresses has links from the root of a site.
        if name.ends_with(".html") && !matches!(name, "404.html" | "toc.html") {
            pages.insert(name.to_owned(), std::fs::read_to_string(&path)?);
        }
    }
    let mut findings = Vec::new();
    for (name, page) in &pages {
        for link in attributes(page, "href").chain(attributes(page, "src")) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            if target.contains(':') {
                continue;
            }
            let target = if target.is_empty() { name } else { target };
            let found = folder.join(target).exists()
                && (anchor.is_empty()
                    || pages
                        .get(target)
                        .is_none_or(|page| attributes(page, "id").any(|id| id == anchor)));
            if !found {
                findings.push(format!("{name}: {link}"));
            }
        }
    }
    Ok(findings)
}

/// Returns the values of an attribute in a page that mdBook has written.
fn attributes<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let parts = page.split(&format!(" {name}=\"")).skip(1).collect::<Vec<_>>();
    parts.into_iter().filter_map(|part| part.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_listed_and_tested() {
        assert_eq!(listed().unwrap(), [""; 0]);
    }

    #[test]
    fn dead_links_of_built_pages_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.html",
            r##"<h1 id="one"></h1><a class="x" href="#one"></a> <a href="b.html#no"></a>"##,
        );
        write(
            "b.html",
            r#"<img src="c.svg"> <a href="https://x.y/z"></a> <a href="a.html#one"></a>"#,
        );
        let mut found = dead_links(folder.path()).unwrap();
        found.sort();
        assert_eq!(found, ["a.html: b.html#no", "b.html: c.svg"]);
    }
}
