//! Checks of the wording of comments and documents.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// The words that begin a clause instead of naming a thing or an action.
const CLAUSES: &[&str] = &["What", "How", "Which", "Whether", "Where", "That", "Those", "Who"];

/// The largest permitted share of comments that begin with one of [`CLAUSES`], in percent.
const MOST_CLAUSES: usize = 1;

/// Sentences and parts of sentences that have a plainer form. Case and line breaks do not matter.
const STILTED: &[(&str, &str)] = &[
    ("that compare with 0 as", "counts the elements that satisfy .. against 0"),
    ("promises nothing may differ from itself", "kernels without a promise need not repeat"),
    ("is told to who asks for", "errors surface at the next read"),
    ("the divisor is less than the number of", "subtracted from the count to give the divisor"),
    ("of a new gradient is left out of the momentum", "momentum adds `(1 - dampening) * grad`"),
    ("under a triangle that is as much wider", "when downscaling, the filter widens by the scale"),
    ("of targets that do not fit into their input", "infinite losses (target longer than input)"),
    ("signature, because it takes indices", "`forward` also takes indices"),
    ("those of each direction of each layer", "weights, by layer and direction"),
    ("what cannot be met is an error", "if no kernel meets the level, the call returns an error"),
    ("first wins, last writer wins", "ties go to the lowest index; the last write is kept"),
    ("a row has too little is read from", "short rows read past their end"),
    ("some of these were mended", "renew the table; drop the old figures"),
    ("what is not there yet", "limitations"),
    ("for one slice the last wins", "the last one is kept and receives the gradient"),
];

/// Reports comments and documents with poor wording.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Vec<String>) -> Result<()> {
    let (mut comments, mut clauses) = (0, Vec::new());
    for file in files {
        let is = |extension: &str| file.extension().is_some_and(|found| found == extension);
        if !(is("rs") || is("md")) || file == Path::new(file!()) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file))?;
        let shown = file.display();
        for (line, phrase, plain) in stilted(&text) {
            findings.push(format!("{shown}:{line}: \"{phrase}\": write \"{plain}\""));
        }
        if is("rs") {
            for (line, first) in first_words(&text) {
                comments += 1;
                if CLAUSES.contains(&first) {
                    clauses.push(format!("{shown}:{line}: a comment begins with {first}"));
                }
            }
        }
    }
    if clauses.len() * 100 > comments * MOST_CLAUSES {
        let (found, words) = (clauses.len(), CLAUSES.join(", "));
        findings.append(&mut clauses);
        findings.push(format!(
            "{found} of {comments} comments begin with {words}: at most {MOST_CLAUSES} % may"
        ));
    }
    Ok(())
}

/// Returns the first word of each comment, and its line. Consecutive lines are one comment.
fn first_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let comment = ["///", "//!", "//"]
            .into_iter()
            .find_map(|mark| Some((mark, line.trim_start().strip_prefix(mark)?)));
        let mark = comment.map(|(mark, _)| mark);
        let continues = std::mem::replace(&mut before, mark) == mark;
        let first = comment?.1.strip_prefix(' ')?.split_whitespace().next()?;
        (!continues).then_some((number + 1, first))
    })
}

/// Returns the phrases of [`STILTED`] in a text: the line, the phrase and its plainer form.
fn stilted(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches(['/', '!', '*', '>']);
        words.extend(line.split_whitespace().map(|word| (number + 1, word.to_lowercase())));
    }
    let mut found = Vec::new();
    for &(phrase, plain) in STILTED {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        for window in words.windows(wanted.len()) {
            let is = |((_, word), wanted): (&(usize, String), &&str)| {
                word.trim_matches(|c: char| !c.is_alphanumeric())
                    == wanted.trim_matches(|c: char| !c.is_alphanumeric())
            };
            if window.iter().zip(&wanted).all(is) {
                found.push((window[0].0, phrase, plain));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_across_lines() {
        let text = "/// First\n///\n/// First wins, last\n/// writer wins.\nfn f() {}\n";
        let found: Vec<_> = stilted(text).iter().map(|&(line, phrase, _)| (line, phrase)).collect();
        assert_eq!(found, [(3, "first wins, last writer wins")]);
        assert_eq!(stilted("/// Ties go to the first.\n"), []);
    }

    #[test]
    fn first_words_are_those_of_comments() {
        let text = "//! A crate.\n//!\n//! How so.\nfn f() {\n    // Where it is.\n    // What\n    g();\n}\n\
                    /// What it is.\n/// How it is.\nfn g() {} // Which\n";
        let found: Vec<_> = first_words(text).collect();
        assert_eq!(found, [(1, "A"), (5, "Where"), (9, "What")]);
    }
}
