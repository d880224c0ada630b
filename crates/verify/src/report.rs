use std::fmt;

use serde::Serialize;

use crate::Setting;

/// One case whose bits differ from the promised ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The family of the operation.
    pub family: &'static str,
    /// The operation, with its parameters and type.
    pub case: String,
    /// The promised digest; `None` for a case that has none.
    pub expected: Option<String>,
    /// The digest found, or the error of the operation; `None` for a digest without a case.
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

/// The result in one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The setting.
    pub setting: Setting,
    /// The number of cases computed.
    pub cases: usize,
    /// The cases that differ, in the order of the corpus.
    pub findings: Vec<Finding>,
}

/// The result on this machine; it prints as a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The numerics version. Results with the same seed have the same bits in all releases with
    /// this number.
    pub numerics_version: u32,
    /// The instruction sets that were not compared, because this machine lacks them.
    pub not_compared: Vec<&'static str>,
    /// The result in each setting.
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
        // A finding in all settings is printed once, with the first setting.
        let mut printed: Vec<&Finding> = Vec::new();
        for outcome in &self.outcomes {
            for finding in &outcome.findings {
                if !printed.contains(&finding) {
                    writeln!(f, "{} / {finding} ({})", finding.family, outcome.setting)?;
                    printed.push(finding);
                }
            }
        }
        if !self.not_compared.is_empty() {
            writeln!(
                f,
                "not compared, because this machine lacks them: {}",
                self.not_compared.join(", ")
            )?;
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
