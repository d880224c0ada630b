//! An operation of one's own, with a kernel, a gradient, random numbers and a level. It is checked,
//! refused where more is required, and trained with.

use samebits::determinism::scope;
use samebits::functional::{randn_like_with, randn_with};
use samebits::nn::{Linear, draw_from};
use samebits::optim::Sgd;
use samebits::prelude::*;
use samebits::{Error, Function, Result, Save, Saved, digest, gradcheck};
use samebits_testing::assert_reproducible;

/// `tanh(x) · (1 + n / 10)` with standard normal numbers `n`.
struct NoisyTanh {
    /// At the start of the draw, so that the operation can be computed again.
    noise: Generator,
}

impl Function for NoisyTanh {
    const NAME: &'static str = "noisy_tanh";
    const LEVEL: Determinism = Determinism::RunToRun;
    const WHY: &'static str = "tanh of this machine's C library";

    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let factor = randn_like_with(x, &mut self.noise.clone())?.affine(0.1, 1.0)?;
        save.input(0);
        save.constant(&factor);
        // A kernel on a slice of the host. Other devices would have an `Op` and `dispatch`.
        #[allow(clippy::disallowed_methods, reason = "the level says so")]
        let tanh: Vec<f64> =
            x.to(DType::F64)?.to_vec::<f64>()?.into_iter().map(f64::tanh).collect();
        Ok(vec![Tensor::from_vec(tanh, x.shape())?.to(x)?.mul(&factor)?])
    }

    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let slope = saved.input(0)?.tanh()?.square()?.affine(-1.0, 1.0)?;
        Ok(vec![Some(grads[0].mul(&slope)?.mul(saved.tensor(0)?)?)])
    }

    fn generator(&self) -> Option<&Generator> {
        Some(&self.noise)
    }
}

/// Learns a sum; step `i` draws its noise from `root.fold_in(i)`.
fn train() -> Result<(f32, Linear)> {
    let root = Generator::new(0);
    let x = randn_with(&[32, 4], &mut root.derive("data"))?.affine(0.3, 0.0)?;
    let y = x.sum(1)?.tanh()?;
    let mut model = draw_from(&mut root.derive("model"), || Linear::new(4, 1))?;
    let mut optimizer = Sgd::new(0.5)?;
    let mut last = 0.0;
    for step in 0..60 {
        let noise = root.derive("noise").fold_in(step);
        let [z] = NoisyTanh { noise }.apply(&[&model.forward(&x)?.squeeze(1)?])?;
        let loss = z.sub(&y)?.square()?.mean(())?;
        last = loss.item::<f32>()?;
        optimizer.step(&mut model, &loss.backward()?)?;
    }
    Ok((last, model))
}

pub(super) fn run() -> super::Result<()> {
    let error = train().unwrap_err();
    assert!(matches!(error, Error::LevelUnavailable { op: "noisy_tanh", .. }), "{error}");
    scope(Determinism::RunToRun, || -> super::Result<()> {
        let x = Tensor::new([-1.5f64, 0.25, 2.0])?.set_requires_grad(true)?;
        gradcheck(|x| NoisyTanh { noise: Generator::new(1) }.apply::<1>(&[&x[0]]), &[&x])?;
        let (loss, model) = train()?;
        println!("refused: {error}\nloss {loss}, weights {}", digest(model.state_dict())?);
        assert!(loss < 0.01);
        Ok(())
    })?;
    assert_reproducible(|| scope(Determinism::RunToRun, || Ok(train()?.1.state_dict())));
    Ok(())
}
