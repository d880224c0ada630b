//! Two programs in lockstep, up to the point where they part.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use samebits::nn::{Layer, Linear, Module};
use samebits::registry::{Kernel, register};
use samebits::{
    Configuration, DType, Determinism, Device, Difference, Error, Lockstep, Op, Parting, Result,
    Side, Tensor, dispatch, lockstep, tensor_core,
};

/// An operation with a different sum for each number of threads, and a different variant at
/// `NotGuaranteed`.
struct Skewed {
    x: tensor_core::Tensor,
    scale: f64,
}

impl Op for Skewed {
    const NAME: &'static str = "skewed";
    type Plan = ();
    type Output = tensor_core::Tensor;

    tensor_core::inputs![x];
    tensor_core::parameters![scale];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "the planted fault")]
fn skewed(x: &Tensor, scale: f64) -> Result<Tensor> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register(Kernel::fast("loose", &[DType::F32], "no order", |op: &Skewed, ()| {
            Ok(op.x.clone())
        }));
        register(Kernel::portable("strict", &[DType::F32], "one order", |op: &Skewed, ()| {
            let mut x = op.x.contiguous()?;
            x.as_mut_slice::<f32>()?[2] += (rayon::current_num_threads() - 1) as f32;
            Ok(x)
        }));
    });
    Ok(dispatch(&Skewed { x: x.value().clone(), scale })?.into())
}

fn threads(n: usize) -> Configuration {
    Configuration::new(Device::Cpu).threads(n)
}

fn parted<R: std::fmt::Debug>(outcome: Result<Lockstep<R>>) -> Parting {
    match outcome {
        Ok(Lockstep::Parted(parting)) => *parting,
        other => panic!("{other:?}"),
    }
}

/// Takes a training step.
fn step(device: Device) -> Result<Vec<u8>> {
    samebits::manual_seed(3);
    let mut model = Linear::new(16, 4)?;
    model.to(device)?;
    let x = samebits::randn(&[8, 16])?.to(device)?;
    let gradients = model.forward(&x)?.square()?.sum(..)?.backward()?;
    gradients.of(&model.weight).expect("it is used").to_bytes()
}

#[test]
fn equal_programs_agree_on_threads_and_devices() {
    let others = samebits::devices().into_iter().filter(|&device| device != Device::Cpu);
    let others = others.map(Configuration::new).chain([threads(2)]);
    for other in others {
        match lockstep([threads(1), other], step).unwrap() {
            Lockstep::Same { operations, results: [one, two] } => {
                assert!(operations > 5, "{operations}");
                assert_eq!(one, two);
            }
            Lockstep::Parted(parting) => panic!("{parting}"),
        }
    }
}

#[test]
fn a_different_output_of_equal_inputs_is_found_with_its_tensors() {
    let parting = parted(lockstep([threads(1), threads(2)], |_| {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[4])?.square()?;
        skewed(&x, 1.0)?.square()
    }));
    assert_eq!(parting.operations, 1);
    let Difference::Output { index: 0, place } = &parting.difference else { panic!("{parting}") };
    assert!(place.starts_with("element 2: "), "{place}");
    for (side, third) in parting.sides.iter().zip([9.0, 10.0]) {
        let Side::Computed(computed) = side else { panic!("{parting}") };
        assert_eq!((computed.name.as_str(), computed.variant), ("skewed (forward)", "strict"));
        assert_eq!(computed.inputs[0].to_vec::<f32>().unwrap()[2], 9.0);
        assert_eq!(computed.outputs[0].to_vec::<f32>().unwrap()[2], third);
        assert!(computed.site.contains("lockstep.rs:"), "{}", computed.site);
    }
    let text = parting.to_string();
    let start =
        "after 1 equal operations, equal inputs gave different outputs: output 0, element 2";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn a_lower_level_parts_where_its_kernel_differs() {
    let loose = threads(2).level(Determinism::NotGuaranteed);
    let parting = parted(lockstep([threads(2), loose], |_| {
        skewed(&Tensor::from_slice(&[1.0f32; 4], &[4])?, 1.0)
    }));
    assert!(matches!(parting.difference, Difference::Output { .. }), "{parting}");
    assert!(parting.to_string().contains("by loose"), "{parting}");
}

#[test]
fn other_inputs_arguments_and_operations_are_told_apart() {
    let calls = AtomicU64::new(0);
    let one = || threads(1);
    let mine = || calls.fetch_add(1, Ordering::Relaxed) as f32;
    let parting = parted(lockstep([one(), one()], |_| Tensor::scalar(mine()).square()));
    assert!(matches!(parting.difference, Difference::Input { index: 0, .. }), "{parting}");
    let parting = parted(lockstep([one(), one()], |_| {
        let scale = f64::from(mine());
        skewed(&Tensor::from_slice(&[1.0f32; 4], &[4])?, scale)
    }));
    assert_eq!(parting.difference, Difference::Parameters, "{parting}");
    let parting = parted(lockstep([one(), one()], |_| {
        let x = Tensor::scalar(2.0f32);
        if (mine() as u64).is_multiple_of(2) { x.square() } else { x.sum(..) }
    }));
    assert_eq!(parting.difference, Difference::Operation, "{parting}");
    // One continues after the other has returned, or failed.
    let parting = parted(lockstep([one(), one()], |_| {
        let x = Tensor::scalar(2.0f32).square()?;
        if (mine() as u64).is_multiple_of(2) { Ok(x) } else { x.exp() }
    }));
    assert_eq!((parting.operations, &parting.difference), (1, &Difference::Operation));
    assert!(parting.to_string().contains("; returned"), "{parting}");
    let parting = parted(lockstep([one(), one()], |_| {
        if (mine() as u64).is_multiple_of(2) {
            return Err(Error::invalid("program", "planted"));
        }
        Tensor::scalar(2.0f32).square()
    }));
    assert!(parting.to_string().contains("; failed: program: planted"), "{parting}");
}

#[test]
fn equal_errors_are_the_error() {
    let outcome = lockstep([Device::Cpu, Device::Cpu], |_| {
        Tensor::from_slice(&[1.0f32; 4], &[4])?.matmul(&Tensor::from_slice(&[1.0f32; 3], &[3])?)
    });
    assert!(outcome.unwrap_err().to_string().starts_with("matmul: "));
}

#[test]
fn a_panic_does_not_leave_the_other_side_waiting() {
    let calls = AtomicU64::new(0);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lockstep([threads(1), threads(1)], |_| {
            assert!(calls.fetch_add(1, Ordering::Relaxed) == 0, "planted");
            Tensor::scalar(2.0f32).square()
        })
    }));
    assert!(outcome.is_err());
}
