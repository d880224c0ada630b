//! The `samebits` program.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    samebits_cli::main()
}
