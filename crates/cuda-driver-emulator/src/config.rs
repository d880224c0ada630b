//! The configuration from environment variables.

use samebits_ptx_emulator::{Approximate, Checks, Schedule};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

/// The number of registers of a multiprocessor; a warp gets them in portions.
const REGISTERS: u32 = 64 << 10;
const PORTION: u32 = 256;

/// The behaviour of devices.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) schedule: Schedule,
    pub(crate) checks: Checks,
    pub(crate) approximate: Approximate,
    pub(crate) devices: u32,
    pub(crate) memory: u64,
    /// The registers per thread of compiled kernels, by name.
    pub(crate) registers: BTreeMap<String, u32>,
    /// True if freed addresses are reused.
    pub(crate) reuse: bool,
    pub(crate) statistics: bool,
    /// A file to which each launch, fill and copy to a device appends a line with its counts.
    pub(crate) counts: Option<PathBuf>,
    /// True if a call completes its work before it returns.
    pub(crate) blocking: bool,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    ///
    /// A message about the variable with an invalid value.
    pub(crate) fn from_env() -> Result<Config, String> {
        for (name, value) in env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("SAMEBITS_EMULATOR_") && value.to_str().is_none() {
                return Err(format!("{name} is {value:?}: it must be Unicode"));
            }
        }
        Config::from(|name| env::var(name).ok())
    }

    fn from(get: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        let bad = |name: &str, value: &str, wanted: &str| {
            Err(format!("{name} is {value:?}: it must be {wanted}"))
        };
        let number = |name: &str, default: u64| match get(name) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(value) => Ok(value),
                Err(_) => bad(name, &text, "a number").map(|()| 0),
            },
        };
        let mut checks = Checks::default();
        for word in get("SAMEBITS_EMULATOR_CHECKS").iter().flat_map(|text| text.split(',')) {
            match word.trim() {
                "" => {}
                "no-races" => checks.races = false,
                "no-uninitialised" => checks.uninitialised = false,
                other => {
                    let wanted = "a list of no-races and no-uninitialised";
                    bad("SAMEBITS_EMULATOR_CHECKS", other, wanted)?;
                }
            }
        }
        checks.step_limit = number("SAMEBITS_EMULATOR_STEPS", checks.step_limit)?;
        let schedule = match get("SAMEBITS_EMULATOR_SCHEDULE") {
            None => Schedule::InOrder,
            Some(text) => match Schedule::parse(&text) {
                Some(schedule) => schedule,
                None => {
                    let wanted = "in-order, reversed or seed:N";
                    bad("SAMEBITS_EMULATOR_SCHEDULE", &text, wanted)?;
                    Schedule::InOrder
                }
            },
        };
        let approximate = match get("SAMEBITS_EMULATOR_APPROXIMATE").as_deref() {
            None | Some("") => Approximate::Refuse,
            Some("all") => Approximate::Allow,
            Some(names) => {
                Approximate::Only(names.split(',').map(|name| name.trim().to_owned()).collect())
            }
        };
        let reuse = match get("SAMEBITS_EMULATOR_ADDRESSES").as_deref() {
            None | Some("reused") => true,
            Some("fresh") => false,
            Some(other) => {
                bad("SAMEBITS_EMULATOR_ADDRESSES", other, "reused or fresh").map(|()| true)?
            }
        };
        let registers = match get("SAMEBITS_EMULATOR_REGISTERS") {
            None => BTreeMap::new(),
            Some(path) => {
                let text = fs::read_to_string(&path).map_err(|error| error.to_string());
                let table = text.and_then(|text| table(&text));
                table
                    .map_err(|error| format!("SAMEBITS_EMULATOR_REGISTERS is {path:?}: {error}"))?
            }
        };
        let statistics = match get("SAMEBITS_EMULATOR_STATISTICS").as_deref() {
            None => false,
            Some("1") => true,
            Some(other) => bad("SAMEBITS_EMULATOR_STATISTICS", other, "1").map(|()| false)?,
        };
        let devices = number("SAMEBITS_EMULATOR_DEVICES", 1)?;
        if devices > 16 {
            bad("SAMEBITS_EMULATOR_DEVICES", &devices.to_string(), "at most 16")?;
        }
        Ok(Config {
            schedule,
            checks,
            approximate,
            devices: devices as u32,
            memory: number("SAMEBITS_EMULATOR_MEMORY", 16 << 30)?.min(1 << 37),
            registers,
            reuse,
            statistics,
            counts: get("SAMEBITS_EMULATOR_COUNTS").map(PathBuf::from),
            blocking: get("CUDA_LAUNCH_BLOCKING").as_deref() == Some("1"),
        })
    }
}

impl Config {
    /// Returns the largest block that a kernel's registers allow, if they are known.
    pub(crate) fn most_threads(&self, kernel: &str) -> Option<u32> {
        let registers = *self.registers.get(kernel)?;
        let warp = (32 * registers.max(1)).next_multiple_of(PORTION);
        Some(REGISTERS / warp * 32)
    }
}

/// Reads lines with a kernel's name and its number of registers.
fn table(text: &str) -> Result<BTreeMap<String, u32>, String> {
    let row = |line: &str| {
        let (name, registers) = line.split_once(' ')?;
        Some((name.to_owned(), registers.parse().ok()?))
    };
    let rows = text.lines().map(|line| {
        row(line).ok_or_else(|| format!("{line:?} must be a kernel's name and its registers"))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Config, String> {
        Config::from(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn values_are_read() {
        let config = Config::from(|_| None).unwrap();
        assert_eq!((config.devices, config.schedule), (1, Schedule::InOrder));
        let config = with("SAMEBITS_EMULATOR_SCHEDULE", "seed:5").unwrap();
        assert_eq!(config.schedule, Schedule::Seeded(5));
        assert!(!with("SAMEBITS_EMULATOR_CHECKS", "no-races").unwrap().checks.races);
    }

    #[test]
    fn registers_limit_blocks() {
        let registers = table("light 32\nheavy 72\n").unwrap();
        let config = Config { registers, ..Config::from(|_| None).unwrap() };
        assert_eq!(config.most_threads("light"), Some(2048));
        assert_eq!(config.most_threads("heavy"), Some(896));
        assert_eq!(config.most_threads("other"), None);
        assert!(table("light").unwrap_err().contains("light"));
    }

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_variable() {
        for (name, value) in [
            ("SAMEBITS_EMULATOR_SCHEDULE", "shuffled"),
            ("SAMEBITS_EMULATOR_CHECKS", "races"),
            ("SAMEBITS_EMULATOR_DEVICES", "many"),
            ("SAMEBITS_EMULATOR_DEVICES", "17"),
            ("SAMEBITS_EMULATOR_STEPS", "-1"),
            ("SAMEBITS_EMULATOR_ADDRESSES", "new"),
            ("SAMEBITS_EMULATOR_STATISTICS", "0"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
