use std::collections::BTreeSet;

use samebits::numerics::simd::{self, Level};
use samebits::{Determinism, DeviceKind, NUMERICS_VERSION, determinism};

use crate::golden::{Golden, short_digest};
use crate::report::{Finding, Outcome, Report};
use crate::{Error, Family, Result, Setting, families};

/// What to verify.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings to compute the corpus in, one after the other.
    pub settings: Vec<Setting>,
    /// The families to compute; all of them if empty.
    pub families: Vec<String>,
}

impl Options {
    /// All that is worth comparing on this machine: half a minute on two cores.
    pub fn full() -> Options {
        Options { settings: Setting::all(), families: Vec::new() }
    }

    /// The devices, and one thread at the lowest instruction set: twelve seconds on two cores.
    pub fn quick() -> Options {
        Options { settings: Setting::few(), families: Vec::new() }
    }
}

/// Called before each case.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The setting that is being computed.
    pub setting: Setting,
    /// The family and the case.
    pub family: &'static str,
    /// The case.
    pub case: &'a str,
    /// How many cases are done, of all settings.
    pub done: usize,
    /// How many there are.
    pub total: usize,
}

/// Computes the corpus in every setting and compares its digests with the golden ones. A golden
/// digest without a case differs, too, and so does a case without one.
///
/// # Determinism
///
/// At [`Determinism::Portable`], whatever level is in force.
///
/// # Errors
///
/// [`Error::UnknownFamily`]; a device or threads that are not there. Errors of operations are
/// findings.
pub fn verify(
    options: &Options,
    golden: &Golden,
    mut progress: impl FnMut(Progress<'_>) + Send,
) -> Result<Report> {
    samebits::install();
    let corpora = options
        .settings
        .iter()
        .map(|&setting| Ok((setting, corpus(setting, &options.families)?)))
        .collect::<Result<Vec<_>>>()?;
    let count = |families: &[Family]| families.iter().map(|family| family.cases.len()).sum();
    let total = corpora.iter().map(|(_, families)| count(families)).sum::<usize>();
    let mut outcomes = Vec::new();
    let mut done = 0;
    for (setting, families) in corpora {
        let tell = |family, case: &str| {
            progress(Progress { setting, family, case, done, total });
            done += 1;
        };
        let findings = setting.enter(|| {
            determinism::scope(Determinism::Portable, || differences(&families, golden, tell))
        })?;
        outcomes.push(Outcome { setting, cases: count(&families), findings });
    }
    let missing = Level::ALL.into_iter().filter(|&level| level > simd::supported());
    Ok(Report {
        numerics_version: NUMERICS_VERSION,
        not_compared: missing.map(Level::name).collect(),
        outcomes,
    })
}

/// The families to compute on the device of a setting.
fn corpus(setting: Setting, wanted: &[String]) -> Result<Vec<Family>> {
    if setting.device.kind() != DeviceKind::Cpu {
        samebits::backend(setting.device)?;
    }
    let mut families = families(setting.device);
    if let Some(name) =
        wanted.iter().find(|name| families.iter().all(|family| family.name != name.as_str()))
    {
        let known: Vec<_> = families.iter().map(|family| family.name).collect();
        return Err(Error::UnknownFamily { name: name.clone(), known: known.join(", ") });
    }
    families.retain(|family| wanted.is_empty() || wanted.iter().any(|name| name == family.name));
    Ok(families)
}

fn differences(
    families: &[Family],
    golden: &Golden,
    mut tell: impl FnMut(&'static str, &str),
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for family in families {
        let mut without_case: BTreeSet<&str> = golden.cases(family.name).collect();
        for case in &family.cases {
            tell(family.name, &case.name);
            without_case.remove(case.name.as_str());
            let found = (case.run)().and_then(|tensors| short_digest(&tensors));
            let found = found.unwrap_or_else(|error| error.to_string());
            let expected = golden.of(family.name, &case.name);
            if expected != Some(found.as_str()) {
                findings.push(Finding {
                    family: family.name,
                    case: case.name.clone(),
                    expected: expected.map(str::to_owned),
                    found: Some(found),
                });
            }
        }
        findings.extend(without_case.into_iter().map(|case| Finding {
            family: family.name,
            case: case.to_owned(),
            expected: golden.of(family.name, case).map(str::to_owned),
            found: None,
        }));
    }
    findings
}
