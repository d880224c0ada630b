use std::fmt;

use serde::Serialize;

use crate::Setting;

/// One case whose bits are not the promised ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The family of the operation.
    pub family: &'static str,
    /// The operation, its parameters and its type.
    pub case: String,
    /// The digest that was promised; `None` for a case that has none.
    pub expected: Option<String>,
    /// The digest that was found, or the error of the operation; `None` for a digest that no case
    /// computes.
    pub found: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => {
                write!(f, "{}: expected {expected}, got {found}", self.case)
            }
            (None, _) => write!(f, "{}: no golden digest has this name", self.case),
            (_, None) => write!(f, "{}: the corpus has no case of this name", self.case),
        }
    }
}

/// What one setting gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The setting.
    pub setting: Setting,
    /// The number of cases were computed.
    pub cases: usize,
    /// The cases that differ, in the order of the corpus.
    pub findings: Vec<Finding>,
}

/// What holds on this machine; prints as a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Results with the same seed are the same bits in all releases with this number.
    pub numerics_version: u32,
    /// The instruction sets that this machine has not, so that they were not compared.
    pub not_compared: Vec<&'static str>,
    /// What each setting gave.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Returns true if every bit was the promised one.
    pub fn holds(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.findings.is_empty())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |outcome: &Outcome| outcome.setting.to_string();
        let width = self.outcomes.iter().map(|outcome| name(outcome).len()).max().unwrap_or(0);
        for outcome in &self.outcomes {
            write!(f, "{:width$}  {:5} cases  ", name(outcome), outcome.cases)?;
            match outcome.findings.len() {
                0 => write!(f, "same bits")?,
                count => write!(f, "{count} DIFFER")?,
            }
            writeln!(f)?;
        }
        // What differs everywhere is said once, with where it was found first.
        let mut said: Vec<&Finding> = Vec::new();
        for outcome in &self.outcomes {
            for finding in &outcome.findings {
                if !said.contains(&finding) {
                    writeln!(f, "{} / {finding} ({})", finding.family, outcome.setting)?;
                    said.push(finding);
                }
            }
        }
        if !self.not_compared.is_empty() {
            writeln!(f, "not compared, this machine has not: {}", self.not_compared.join(", "))?;
        }
        let cases: usize = self.outcomes.iter().map(|outcome| outcome.cases).sum();
        let version = self.numerics_version;
        if self.holds() {
            writeln!(f, "{cases} results have the bits of numerics version {version}")
        } else {
            let differ: usize = self.outcomes.iter().map(|outcome| outcome.findings.len()).sum();
            writeln!(f, "{differ} of {cases} results differ from numerics version {version}")
        }
    }
}
