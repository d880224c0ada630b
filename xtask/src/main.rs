//! The workspace's own tasks: `cargo xtask COMMAND`. One file per command.

use clap::{Parser, Subcommand};

mod test;

/// The workspace's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test of the workspace.
    Test(test::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Test(args) => test::run(args),
    }
}

/// The workspace's root folder.
fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent folder")
}
