//! Models in half precision, and scaled gradients.

use samebits::autocast;
use samebits::distributed::threads;
use samebits::nn::{Layer, Module};
use samebits::optim::{AdamW, GradScaler, Optimizer};
use samebits::trainer::{Outcome, Result};
use samebits::{DType, Tensor};

use crate::on_ranks::{Batch, Net, Run, bytes, net, tensors};

fn loss(net: &Net, batch: Batch) -> Result<Tensor> {
    let (x, classes) = tensors(batch)?;
    let x = x.to_dtype(net.first.parameters()[0].dtype())?;
    let x = net.norm.forward(&net.first.forward(&x)?)?.relu()?;
    Ok(samebits::functional::cross_entropy(&net.last.forward(&x)?, &classes)?)
}

/// A run whose parameters and buffers are all of this type.
fn in_halves(half: DType) -> Run<Net> {
    let mut run = net(4);
    run.model.to_dtype(half).unwrap();
    run
}

#[test]
fn models_in_half_precision_end_alike_on_any_number_of_ranks() {
    for half in [DType::BF16, DType::F16] {
        let mut alone = in_halves(half);
        let before = alone.model.state_dict();
        alone.fit(loss).unwrap();
        for ((name, x), (_, y)) in before.iter().zip(alone.model.state_dict()) {
            // No batch uses the layer `rare`.
            let same = x.to_bytes().unwrap() == y.to_bytes().unwrap();
            assert_eq!(same, name.starts_with("rare."), "{name}");
            assert!(y.dtype() == half || !y.dtype().is_float(), "{name}");
        }
        let reference = bytes(&alone);
        for world in 2..=4 {
            let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
                let mut run = in_halves(half).ranks(transport);
                run.fit(loss)?;
                Ok(bytes(&run))
            });
            assert!(ends.unwrap().iter().all(|end| *end == reference), "{half}, {world} ranks");
        }
    }
}

/// A factor that is too large at first, and raised after each two steps until it is again.
fn scaled() -> Run<Net> {
    net(4).grad_scaler(GradScaler::new((1u64 << 30) as f64, 8.0, 0.125, 2).unwrap())
}

fn mixed(net: &Net, batch: Batch) -> Result<Tensor> {
    autocast(DType::F16, || loss(net, batch))?
}

#[test]
fn skipped_steps_are_the_same_on_ranks_and_after_a_resume() {
    let mut alone = scaled();
    assert_eq!(alone.fit(mixed).unwrap(), Outcome::Finished);
    let reference = bytes(&alone);
    let (taken, all) = (alone.optimizer.steps(), alone.losses().len() as u64);
    assert!((2..all - 1).contains(&taken), "{taken} of {all}");
    for world in 2..=3 {
        let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
            let mut run = scaled().ranks(transport);
            run.fit(mixed)?;
            Ok(bytes(&run))
        });
        assert!(ends.unwrap().iter().all(|end| *end == reference), "{world} ranks");
    }
    for cut in 0..=all {
        let mut begun = scaled().max_steps(cut);
        begun.fit(mixed).unwrap();
        let mut rest = scaled();
        rest.load_state(begun.state().unwrap()).unwrap();
        rest.fit(mixed).unwrap();
        assert!(bytes(&rest) == reference, "cut after {cut} steps");
    }
}

#[test]
fn a_scaler_belongs_to_the_state_of_the_run() {
    let mut scaled = scaled().max_steps(1);
    scaled.fit(mixed).unwrap();
    let error = net(4).load_state(scaled.state().unwrap()).unwrap_err().to_string();
    let expected = "trainer: expected a checkpoint with no gradient scaler, got one";
    assert_eq!(error, expected);
    let error = self::scaled().load_state(net(4).state().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("trainer: expected a checkpoint with a gradient scaler"), "{error}");
    let step = |net: &mut Net, optimizer: &mut AdamW, batch: Batch| -> Result<Tensor> {
        let loss = loss(net, batch)?;
        optimizer.step(net, &loss.backward()?)?;
        Ok(loss)
    };
    let error = self::scaled().accumulate(1).fit_steps(step).unwrap_err().to_string();
    assert!(error.contains("`grad_scaler` are of `fit`"), "{error}");
}
