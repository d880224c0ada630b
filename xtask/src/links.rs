//! Links in Markdown files, and the places that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links and headings of a file.
#[derive(Debug, Default)]
struct Page {
    /// The targets of links and images, with their lines.
    links: Vec<(usize, String)>,
    /// The names of the headings in addresses.
    anchors: BTreeSet<String>,
    /// The page that this one consists of, if it is an `{{#include}}` alone.
    included: Option<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let included = text.trim().strip_prefix("{{#include ");
        let included = included.and_then(|path| path.strip_suffix("}}")).map(str::to_owned);
        let mut page = Page { included, ..Page::default() };
        let mut heading: Option<String> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = text[..range.start].matches('\n').count() + 1;
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let again = (1..).map(|i| format!("{name}-{i}"));
                    let free = std::iter::once(name.clone())
                        .chain(again)
                        .find(|name| !page.anchors.contains(name));
                    page.anchors.extend(free);
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the name of a heading in addresses, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Adds the links of Markdown files that lead nowhere to `findings`. Links to other sites are not
/// followed.
pub(crate) fn check(root: &Path, texts: &BTreeMap<&Path, String>, findings: &mut Vec<String>) {
    let pages: BTreeMap<&Path, Page> =
        texts.iter().map(|(&file, text)| (file, Page::read(text))).collect();
    for (file, page) in &pages {
        for (line, link) in &page.links {
            if let Some(fault) = fault(root, file, link, &pages) {
                findings.push(format!("{}:{line}: {fault}", file.display()));
            }
        }
    }
}

/// Returns the reason why a link leads nowhere, if it does.
fn fault(root: &Path, file: &Path, link: &str, pages: &BTreeMap<&Path, Page>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => file.to_path_buf(),
        _ => match joined(file.parent()?, path) {
            Some(target) => target,
            None => return Some(format!("the link `{link}` leaves the repository")),
        },
    };
    if !root.join(&target).exists() {
        return Some(format!("the link `{link}` leads to no file"));
    }
    let mut page = pages.get(target.as_path());
    if let Some(included) = page.and_then(|page| page.included.as_deref()) {
        page = pages.get(joined(target.parent()?, included)?.as_path());
    }
    let known = anchor.is_empty() || page.is_none_or(|page| page.anchors.contains(anchor));
    (!known).then(|| format!("the link `{link}` leads to no heading"))
}

/// Returns `path`, taken from a folder of the repository, as a path from its root.
fn joined(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut parts: Vec<_> = folder.iter().collect();
    for part in Path::new(path) {
        match part.to_str()? {
            "." => {}
            ".." => _ = parts.pop()?,
            _ => parts.push(part),
        }
    }
    Some(parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_that_renderers_give_them() {
        let page =
            Page::read("# The note, *done* our way\n\n## `x.i(..)` & more\n\n## Same\n\n## Same\n");
        let names = ["same", "same-1", "the-note-done-our-way", "xi--more"];
        assert_eq!(page.anchors.iter().map(String::as_str).collect::<Vec<_>>(), names);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let one = "# One\n\n[two](../two.md#two), [none](no.md), [not](../three.md#two)\n";
        let two = "# Two\n\n[here](#two) [one](three.md#one) [not](a/one.md#two) ![out](../x.svg) [far](https://a.b)\n\n\
                   | [cell](a/none.md) |\n|---|\n";
        let three = "{{#include a/one.md}}\n";
        let texts = [("a/one.md", one), ("two.md", two), ("three.md", three)];
        let texts = texts.map(|(file, text)| {
            std::fs::write(folder.path().join(file), text).unwrap();
            (Path::new(file), text.to_owned())
        });
        let mut findings = Vec::new();
        check(folder.path(), &texts.into(), &mut findings);
        assert_eq!(
            findings,
            [
                "a/one.md:3: the link `no.md` leads to no file",
                "a/one.md:3: the link `../three.md#two` leads to no heading",
                "two.md:3: the link `a/one.md#two` leads to no heading",
                "two.md:3: the link `../x.svg` leaves the repository",
                "two.md:5: the link `a/none.md` leads to no file",
            ]
        );
    }
}
