//! The environment variables of tuning.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use samebits_tensor_core::device::DeviceKind;

use crate::{Config, Error, Missing, Mode, Result};

/// Changes `config` by the environment variables that `lookup` returns.
pub(crate) fn apply(
    config: &mut Config,
    kind: DeviceKind,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<()> {
    let lookup = |name: &str| {
        let text = lookup(name).map(OsString::into_string).transpose();
        text.map_err(|text| invalid(name, &text.to_string_lossy(), "Unicode"))
    };
    if let Some(text) = lookup("SAMEBITS_AUTOTUNE")? {
        let path = |path: &str| (!path.is_empty()).then(|| path.into());
        let (benchmark, mode) = match text.split_once('=').unwrap_or((&text, "")) {
            ("off", "") => (false, Some(Mode::Off)),
            ("on", "") => (true, Some(Mode::Off)),
            ("cache", folder) => (true, path(folder).map(Mode::Cache)),
            ("record", file) => (true, path(file).map(Mode::Record)),
            ("pin", file) => {
                (false, path(file).map(|path| Mode::Pinned { path, missing: Missing::Error }))
            }
            ("pin-or-heuristic", file) => {
                (false, path(file).map(|path| Mode::Pinned { path, missing: Missing::Heuristic }))
            }
            _ => (false, None),
        };
        config.benchmark = benchmark;
        config.mode = mode.ok_or_else(|| {
            let forms = "off, on, cache=DIR, record=FILE, pin=FILE or pin-or-heuristic=FILE";
            invalid("SAMEBITS_AUTOTUNE", &text, forms)
        })?;
    }
    let list = lookup(EXCLUDE)?.unwrap_or_default();
    for text in list.split(',').filter(|text| !text.trim().is_empty()) {
        config.exclude.extend(name_for(EXCLUDE, kind, text)?);
    }
    if let Some(text) = lookup(FORCE)?
        && let Some(name) = name_for(FORCE, kind, &text)?
    {
        config.force = Some(name);
    }
    let milliseconds = |name| Ok(number(name, lookup)?.map(Duration::from_millis));
    if let Some(budget) = milliseconds("SAMEBITS_AUTOTUNE_KEY_BUDGET_MS")? {
        config.budget.key = budget;
    }
    if let Some(budget) = milliseconds("SAMEBITS_AUTOTUNE_BUDGET_MS")? {
        config.budget.total = budget;
    }
    if let Some(bytes) = number("SAMEBITS_AUTOTUNE_WORKSPACE", lookup)? {
        config.workspace_limit = bytes;
    }
    Ok(())
}

const EXCLUDE: &str = "SAMEBITS_AUTOTUNE_EXCLUDE";
const FORCE: &str = "SAMEBITS_AUTOTUNE_FORCE";

/// Returns the candidate that `text` names, as `name` or `kind:name`, unless it is for another kind
/// of device.
fn name_for(variable: &str, kind: DeviceKind, text: &str) -> Result<Option<String>> {
    let kinds = [DeviceKind::Cpu, DeviceKind::Cuda];
    let (of, name) = match text.trim().split_once(':') {
        Some((of, name)) => (kinds.into_iter().find(|kind| kind.to_string() == of), name),
        None => (Some(kind), text.trim()),
    };
    match of {
        Some(of) if !name.is_empty() => Ok((of == kind).then(|| name.to_owned())),
        _ => Err(invalid(variable, text, "NAME, cpu:NAME or cuda:NAME")),
    }
}

fn number<T: FromStr>(
    name: &'static str,
    lookup: impl Fn(&str) -> Result<Option<String>>,
) -> Result<Option<T>> {
    let Some(text) = lookup(name)? else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| invalid(name, &text, "a whole number"))
}

fn invalid(name: &str, text: &str, wanted: &str) -> Error {
    Error::Config { message: format!("the environment variable {name} is {text:?}, not {wanted}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Fingerprint};

    fn configured(kind: DeviceKind, variables: &[(&str, &str)]) -> Result<Config> {
        let mut config = Config::new(Fingerprint::new("device", "library"));
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        apply(&mut config, kind, |name| Some(find(name)?.1.into()))?;
        Ok(config)
    }

    #[test]
    fn each_variable_sets_its_part() {
        let config = configured(DeviceKind::Cpu, &[]).unwrap();
        assert!(config.benchmark && config.mode == Mode::Off && config.exclude.is_empty());
        for (text, benchmark, mode) in [
            ("off", false, Mode::Off),
            ("on", true, Mode::Off),
            ("cache=dir", true, Mode::Cache("dir".into())),
            ("record=a=b.toml", true, Mode::Record("a=b.toml".into())),
            ("pin=a.toml", false, Mode::pinned("a.toml")),
            (
                "pin-or-heuristic=a.toml",
                false,
                Mode::Pinned { path: "a.toml".into(), missing: Missing::Heuristic },
            ),
        ] {
            let config = configured(DeviceKind::Cpu, &[("SAMEBITS_AUTOTUNE", text)]).unwrap();
            assert_eq!((config.benchmark, config.mode), (benchmark, mode), "{text}");
        }
        let variables = [
            ("SAMEBITS_AUTOTUNE_EXCLUDE", "fft, cpu:im2col,cuda:direct,"),
            ("SAMEBITS_AUTOTUNE_FORCE", "cuda:split-k-64x64"),
            ("SAMEBITS_AUTOTUNE_KEY_BUDGET_MS", "20"),
            ("SAMEBITS_AUTOTUNE_BUDGET_MS", "3000"),
            ("SAMEBITS_AUTOTUNE_WORKSPACE", "4096"),
        ];
        let (host, gpu) = (
            configured(DeviceKind::Cpu, &variables).unwrap(),
            configured(DeviceKind::Cuda, &variables).unwrap(),
        );
        assert!(host.exclude.iter().eq(["fft", "im2col"]));
        assert!(gpu.exclude.iter().eq(["direct", "fft"]));
        assert_eq!((host.force, gpu.force.as_deref()), (None, Some("split-k-64x64")));
        let budget = Budget { key: Duration::from_millis(20), total: Duration::from_millis(3000) };
        assert_eq!((host.budget, host.workspace_limit), (budget, 4096));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (name, text) in [
            ("SAMEBITS_AUTOTUNE", "yes"),
            ("SAMEBITS_AUTOTUNE", ""),
            ("SAMEBITS_AUTOTUNE", "pin"),
            ("SAMEBITS_AUTOTUNE", "record="),
            ("SAMEBITS_AUTOTUNE", "cache="),
            ("SAMEBITS_AUTOTUNE", "off=x"),
            ("SAMEBITS_AUTOTUNE_BUDGET_MS", "1.5"),
            ("SAMEBITS_AUTOTUNE_KEY_BUDGET_MS", "-1"),
            ("SAMEBITS_AUTOTUNE_WORKSPACE", "99999999999999999999"),
            ("SAMEBITS_AUTOTUNE_EXCLUDE", "gpu:fft"),
            ("SAMEBITS_AUTOTUNE_EXCLUDE", "cuda:"),
            ("SAMEBITS_AUTOTUNE_FORCE", "host:fft"),
            ("SAMEBITS_AUTOTUNE_FORCE", ""),
        ] {
            let message = configured(DeviceKind::Cpu, &[(name, text)]).unwrap_err().to_string();
            assert!(message.contains(&format!("{name} is {text:?}, not ")), "{message}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_unicode_is_refused() {
        use std::os::unix::ffi::OsStringExt;

        let mut config = Config::new(Fingerprint::new("device", "library"));
        let cache = OsString::from_vec(b"cache=\xff".to_vec());
        let lookup = |name: &str| (name == "SAMEBITS_AUTOTUNE").then(|| cache.clone());
        let message = apply(&mut config, DeviceKind::Cpu, lookup).unwrap_err().to_string();
        assert!(message.ends_with("not Unicode"), "{message}");
        assert_eq!(config.mode, Mode::Off);
    }
}
