//! `samebits verify`: checks that this machine computes the promised bits.

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use samebits::Device;
use samebits_verify::{Golden, Options, Progress};

/// Flags of `samebits verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Verify the devices, and one thread at the lowest instruction set; skip other thread counts
    /// and contention
    #[arg(long)]
    quick: bool,
    /// The device to verify: cpu, cuda, cuda:1, ...; all of them if not given
    #[arg(long)]
    device: Option<Device>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The families of operations; all of them if none is named
    families: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut options = if args.quick { Options::quick() } else { Options::full() };
    options.families.clone_from(&args.families);
    if let Some(device) = args.device {
        options.settings.retain(|setting| setting.device == device);
        if options.settings.is_empty() {
            samebits::backend(device)?;
            bail!("{device} is not among the devices of this machine");
        }
    }
    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}").expect("a constant"),
    );
    let show = |at: Progress<'_>| {
        bar.set_length(at.total as u64);
        bar.set_position(at.done as u64);
        bar.set_message(format!("{}: {}", at.setting, at.family));
    };
    let report = samebits_verify::verify(&options, &Golden::shipped()?, show)?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    if !report.holds() {
        bail!("this machine, or this build, does not compute the promised bits");
    }
    Ok(())
}
