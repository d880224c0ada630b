//! PyTorch's two lists of operations, in the guide: every kernel that the table names is there.

use std::collections::BTreeSet;

use samebits::{DType, Determinism, DeviceKind};

/// The heading of the table in the guide.
const HEADING: &str = "### Its two lists of operations";

/// Returns the kernels that the table names, as (operation, pass).
fn named() -> Vec<(String, String)> {
    let guide = include_str!("../../crates/samebits/docs/reproducibility.md");
    let (_, table) = guide.split_once(HEADING).expect("the guide has the table");
    let rows = table.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.flat_map(|row| {
        let kernels = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let kernels: Vec<_> = kernels.split('`').skip(1).step_by(2).collect();
        assert!(!kernels.is_empty(), "no kernels in {row}");
        kernels.into_iter().map(|kernel| {
            let (op, pass) = kernel.split_once(' ').expect("an operation and its pass");
            (op.to_owned(), pass.to_owned())
        })
    })
    .collect()
}

/// Every operation of the lists has kernels at the highest level, for both types, on both devices.
#[test]
fn every_operation_of_the_lists_is_portable() {
    samebits::install();
    let portable: BTreeSet<_> = samebits::registry::kernels()
        .into_iter()
        .filter(|(kernel, _)| kernel.level == Determinism::Portable)
        .flat_map(|(kernel, _)| {
            let at = (kernel.op.to_owned(), kernel.pass.to_string(), kernel.device);
            kernel.dtypes.iter().map(move |&dtype| (at.clone(), dtype))
        })
        .map(|((op, pass, device), dtype)| (op, pass, device.to_string(), dtype.name()))
        .collect();
    let named = named();
    assert!(named.len() >= 40, "{} kernels", named.len());
    let mut missing = Vec::new();
    for (op, pass) in named {
        for device in [DeviceKind::Cpu, DeviceKind::Cuda] {
            for dtype in [DType::F32, DType::F64] {
                let kernel = (op.clone(), pass.clone(), device.to_string(), dtype.name());
                if !portable.contains(&kernel) {
                    missing.push(kernel);
                }
            }
        }
    }
    assert_eq!(missing, []);
}
