use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

use parking_lot::Mutex;
use samebits::numerics::simd::{self, Level};
use samebits::{Determinism, DeviceKind, NUMERICS_VERSION, determinism, on_threads};

use crate::golden::{Golden, short_digest};
use crate::report::{Finding, Outcome, Report};
use crate::{Case, Error, Family, Result, Setting, families};

/// The settings and families to verify.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings in which to compute the corpus, in this order.
    pub settings: Vec<Setting>,
    /// The families to compute; all of them if empty.
    pub families: Vec<String>,
}

impl Options {
    /// Returns all settings that are worth comparing on this machine: half a minute on two cores.
    pub fn full() -> Options {
        Options { settings: Setting::all(), families: Vec::new() }
    }

    /// Returns the devices, and one thread at the lowest instruction set: nine seconds on two
    /// cores.
    pub fn quick() -> Options {
        Options { settings: Setting::few(), families: Vec::new() }
    }
}

/// The progress, passed to a callback before each case.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The current setting.
    pub setting: Setting,
    /// The family of the case.
    pub family: &'static str,
    /// The name of the case.
    pub case: &'a str,
    /// The number of cases started before it, over all settings.
    pub done: usize,
    /// The total number of cases.
    pub total: usize,
}

/// Computes the corpus in every setting and compares its digests with the golden ones. A golden
/// digest without a case is a finding, and so is a case without a digest.
///
/// # Determinism
///
/// Runs at [`Determinism::Portable`], whatever level is in force.
///
/// # Errors
///
/// [`Error::UnknownFamily`]; a device or threads that are not available. Errors of operations are
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
        let tell = Mutex::new(|family, case: &str| {
            progress(Progress { setting, family, case, done, total });
            done += 1;
        });
        let check = |family: &Family, case: &Case| {
            tell.lock()(family.name, &case.name);
            determinism::scope(Determinism::Portable, || difference(family.name, case, golden))
        };
        let findings = setting.enter(|| differences(setting, &families, golden, &check))??;
        outcomes.push(Outcome { setting, cases: count(&families), findings });
    }
    let missing = Level::ALL.into_iter().filter(|&level| level > simd::supported());
    Ok(Report {
        numerics_version: NUMERICS_VERSION,
        not_compared: missing.map(Level::name).collect(),
        outcomes,
    })
}

/// Returns the families to compute on the device of a setting.
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

/// Returns the findings in the order of the corpus, then the digests without a case. If the setting
/// uses fewer threads than the machine has processors, several threads check cases, each with the
/// setting's number of threads.
fn differences(
    setting: Setting,
    families: &[Family],
    golden: &Golden,
    check: &(impl Fn(&Family, &Case) -> Option<Finding> + Sync),
) -> Result<Vec<Finding>> {
    let cases: Vec<(&Family, &Case)> = families
        .iter()
        .flat_map(|family| family.cases.iter().map(move |case| (family, case)))
        .collect();
    let next = AtomicUsize::new(0);
    let findings = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((family, case)) = cases.get(at) else { return };
            if let Some(finding) = check(family, case) {
                findings.lock().insert(at, finding);
            }
        }
    };
    #[expect(clippy::disallowed_methods, reason = "decides who computes, and no bit")]
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = processors / setting.threads.unwrap_or(processors).max(1);
    if workers < 2 {
        work();
    } else {
        thread::scope(|scope| {
            let worker = || scope.spawn(|| on_threads(setting.threads, work));
            let workers: Vec<_> = (0..workers).map(|_| worker()).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            })
        })?;
    }
    let mut findings: Vec<Finding> = findings.into_inner().into_values().collect();
    for family in families {
        let cases: BTreeSet<&str> = family.cases.iter().map(|case| case.name.as_str()).collect();
        let without = golden.cases(family.name).filter(|case| !cases.contains(case));
        findings.extend(without.map(|case| Finding {
            family: family.name,
            case: case.to_owned(),
            expected: golden.of(family.name, case).map(str::to_owned),
            found: None,
        }));
    }
    Ok(findings)
}

/// Compares the results of a case with its digest.
fn difference(family: &'static str, case: &Case, golden: &Golden) -> Option<Finding> {
    let found = (case.run)().and_then(|tensors| short_digest(&tensors));
    let found = found.unwrap_or_else(|error| error.to_string());
    let expected = golden.of(family, &case.name);
    (expected != Some(found.as_str())).then(|| Finding {
        family,
        case: case.name.clone(),
        expected: expected.map(str::to_owned),
        found: Some(found),
    })
}
