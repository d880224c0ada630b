//! Loads PTX files and says what is in them: `cargo run --package samebits-ptx-emulator --example check -- FILE...`

use samebits_ptx_emulator::{Approximate, Module};
use std::{io::Write, process::ExitCode};

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let mut failed = false;
    for path in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                failed = true;
                let _ = writeln!(out, "{path}: {error}");
                continue;
            }
        };
        let line = match Module::parse(&text) {
            Ok(module) => format!("{} entry points", module.entries().count()),
            Err(refused) => match Module::parse_with(&text, &Approximate::Allow) {
                Ok(module) => {
                    format!("{} entry points, approximate: {refused}", module.entries().count())
                }
                Err(error) => {
                    failed = true;
                    error.to_string()
                }
            },
        };
        let _ = writeln!(out, "{path}: {line}");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
