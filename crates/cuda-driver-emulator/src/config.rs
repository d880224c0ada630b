//! What the environment says.

use samebits_ptx_emulator::{Approximate, Checks, Schedule};
use std::env;

/// How devices behave.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) schedule: Schedule,
    pub(crate) checks: Checks,
    pub(crate) approximate: Approximate,
    pub(crate) devices: u32,
    pub(crate) memory: u64,
    pub(crate) statistics: bool,
    pub(crate) blocking: bool,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    ///
    /// A sentence about the variable that makes no sense.
    pub(crate) fn from_env() -> Result<Config, String> {
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
            statistics: get("SAMEBITS_EMULATOR_STATISTICS").is_some(),
            blocking: get("CUDA_LAUNCH_BLOCKING").as_deref() == Some("1"),
        })
    }
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
    fn nonsense_is_refused_with_the_name_of_the_variable() {
        for (name, value) in [
            ("SAMEBITS_EMULATOR_SCHEDULE", "shuffled"),
            ("SAMEBITS_EMULATOR_CHECKS", "races"),
            ("SAMEBITS_EMULATOR_DEVICES", "many"),
            ("SAMEBITS_EMULATOR_DEVICES", "17"),
            ("SAMEBITS_EMULATOR_STEPS", "-1"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
